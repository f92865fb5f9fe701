//! Errors and warnings of a trace, collected while it is opened.

use tracemill_model::error::Error;

/// Errors and warnings, in the order in which they are found.
#[derive(Default)]
pub(crate) struct Messages {
    /// Damage: parts of the trace that cannot be read.
    pub errors: Vec<Error>,
    /// Contradictions and oddities that lose nothing.
    pub warnings: Vec<Error>,
}

impl Messages {
    /// Takes over all messages of another list, each with its place.
    pub(crate) fn append(&mut self, other: &mut Messages, place: impl Fn(Error) -> Error) {
        self.errors.extend(other.errors.drain(..).map(&place));
        self.warnings.extend(other.warnings.drain(..).map(&place));
    }
}
