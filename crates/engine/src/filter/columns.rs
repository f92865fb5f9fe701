//! Paths as columns of a table: the same paths as in conditions, looked up in the same way.

use std::sync::Arc;

use tracemill_format::redact::FieldPlace;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{EventClassId, Schema, Scope};

use super::resolve::{self, PathPlace};
use super::syntax::Path;
use super::{bind, parser};
use crate::session::Session;

/// A list of paths as it is written, with commas between them; commas in backquotes belong to a name.
#[derive(Clone, Debug)]
pub struct ColumnList {
    source: Arc<str>,
    columns: PathColumns,
}

/// Columns that every trace of a session can be asked for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PathColumns(Arc<[PathColumn]>);

#[derive(Clone, Debug)]
struct PathColumn {
    /// The path as it was typed.
    text: String,
    path: Path,
}

impl ColumnList {
    /// Reads a list.
    ///
    /// # Errors
    /// When the text is no list of paths, with the place in it and what was expected there.
    pub fn parse(text: &str) -> Result<ColumnList> {
        let paths = parser::parse_paths(text)?.into_iter();
        let columns = paths.map(|path| PathColumn { text: path.span.text(text).to_string(), path });
        Ok(ColumnList { source: text.into(), columns: PathColumns(columns.collect()) })
    }

    /// Looks every path up in every event class of the session. Takes time in the product of both.
    ///
    /// # Errors
    /// When no event class has a path, with the place in the list. A session without any event class accepts
    /// every list.
    pub fn bind(&self, session: &Session) -> Result<PathColumns> {
        let paths: Vec<Path> = self.columns.0.iter().map(|column| column.path.clone()).collect();
        bind::check_paths(&self.source, &paths, session)?;
        Ok(self.columns.clone())
    }
}

impl PathColumns {
    /// The paths as they were typed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|column| &*column.text)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|column| &column.path)
    }

    /// The fields of a trace that the paths name, to be `anonymised` or `dropped`. Only contexts and payloads have such.
    ///
    /// # Errors
    /// When a path names something else.
    pub fn fields(&self, schema: &Schema, action: &str) -> Result<Vec<FieldPlace>> {
        let mut fields = Vec::new();
        for class in (0..schema.events().len()).map(|at| EventClassId(at as u32)) {
            for (place, name) in self.places(schema, class).iter().zip(self.names()) {
                let wrong = |what: &str| {
                    let error = Error::misuse(format!("`{name}` is {what}, and cannot be {action}"));
                    error.with_help("fields of contexts and payloads can")
                };
                match place {
                    PathPlace::Absent => {}
                    PathPlace::Spine(_) => return Err(wrong("not a field")),
                    PathPlace::Field(field) if field.scope < Scope::CommonContext => {
                        return Err(wrong("in a header or in the context of packets"));
                    }
                    PathPlace::Field(field) => {
                        let Some(children) = field.children() else { return Err(wrong("an element of an array")) };
                        fields.push(FieldPlace { class, scope: field.scope, children });
                    }
                }
            }
        }
        Ok(fields)
    }

    /// Where the values are in the events of a class.
    pub fn places(&self, schema: &Schema, class: EventClassId) -> Vec<PathPlace> {
        let place = |column: &PathColumn| resolve::resolve(schema, class, &column.path).unwrap_or(PathPlace::Absent);
        self.0.iter().map(place).collect()
    }
}
