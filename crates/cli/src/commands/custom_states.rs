//! `--states FILE`: states and counters that the user defines.

use std::path::PathBuf;
use std::rc::Rc;

use tracemill_analyses::kernel::{BoundCustom, CustomDefinitions, CustomKind, Descriptor, FormWord};
use tracemill_engine::session::Session;
use tracemill_model::error::Error;

use crate::report::Reporter;

/// The analysis that takes the option.
const ANALYSIS: &str = "custom";

/// Reads the definitions for some analyses, and checks that one of them asks for what they define.
pub(super) fn for_analyses(
    file: Option<&PathBuf>,
    names: &[&Descriptor],
    words: &[FormWord],
) -> Result<Option<CustomDefinitions>, Error> {
    let is_named = names.iter().any(|known| known.name == ANALYSIS);
    let Some(file) = file else {
        if !is_named {
            return Ok(None);
        }
        let error = Error::misuse(format!("`{ANALYSIS}` needs a file that defines states or counters"));
        return Err(error.with_help(format!("tracemill analyze {ANALYSIS} --states FILE TRACE")));
    };
    if let Some(first) = names.first().filter(|_| !is_named) {
        let error = Error::misuse(format!("`{}` does not take --states", first.name));
        return Err(error.with_help(format!("--states is for `{ANALYSIS}`")));
    }
    let definitions = CustomDefinitions::open(file)?;
    let is_of_counters = words.contains(&FormWord::Counters);
    definitions.check_has(file, if is_of_counters { CustomKind::Counter } else { CustomKind::States })?;
    Ok(Some(definitions))
}

/// Binds definitions to the traces. Events that the traces do not have are reported.
pub(super) fn bind(
    definitions: &CustomDefinitions,
    session: &Session,
    is_gmt: bool,
    reporter: &Reporter,
) -> Result<Rc<BoundCustom>, Error> {
    let bound = BoundCustom::new(definitions, session, is_gmt)?;
    bound.unknown_events().iter().for_each(|error| reporter.warning(error));
    Ok(Rc::new(bound))
}
