//! `--anonymise` and `--drop-field`: which fields they name, and taking those from the events.

use tracemill_engine::filter::ColumnList;
use tracemill_engine::redact::Redactions;
use tracemill_engine::session::Session;
use tracemill_format::redact::FieldPlace;
use tracemill_model::error::Error;

use super::select::{Wanted, misuse_of};

/// Fields that must not be in the output, as they were typed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Redact<'a> {
    /// Fields whose values are hidden.
    pub(crate) anonymise: &'a [String],
    /// Fields that are left out.
    pub(crate) drop_field: &'a [String],
}

impl Redact<'_> {
    /// Takes them from what is read, once all else is bound to the session; so is the filter from then on.
    pub(super) fn apply(self, session: &mut Session, wanted: &mut Wanted) -> Result<(), Error> {
        let hidden = fields(self.anonymise, ("--anonymise", "anonymised"), session)?;
        let dropped = fields(self.drop_field, ("--drop-field", "dropped"), session)?;
        if !hidden.is_empty() || !dropped.is_empty() {
            wanted.selection.redactions = Some(Redactions::apply(session, &hidden, &dropped)?);
            wanted.selection.filter = wanted.filter.take();
        }
        Ok(())
    }
}

/// The fields of each trace that an option names.
fn fields(paths: &[String], (option, action): (&str, &str), session: &Session) -> Result<Vec<Vec<FieldPlace>>, Error> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let reported = |error| misuse_of(option, error);
    let columns = ColumnList::parse(&paths.join(",")).map_err(reported)?.bind(session).map_err(reported)?;
    session.traces.iter().map(|trace| columns.fields(&trace.schema, action)).collect()
}
