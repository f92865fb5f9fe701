//! Spans with a number: what a program does from its first `NAME_entry` to `NAME_close`, with pauses between an exit and the
//! next entry, and on several threads.

use tracemill_model::schema::{EventClassId, FieldPath};

use crate::fields::is_integer;
use crate::{Semantics, names};

/// What happens to a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanStep {
    /// A thread enters it.
    Entry,
    /// A thread leaves it.
    Exit,
    /// It is over.
    Close,
}

/// The events of a class that say what happens to spans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanEvent {
    /// What happens.
    pub step: SpanStep,
    /// Name of the span.
    pub name: String,
    /// The number of the span, which no other one of the trace has.
    pub id: FieldPath,
}

impl Semantics {
    /// What the events of a class say of spans that have numbers.
    pub fn span(&self, class: EventClassId) -> Option<SpanEvent> {
        let name = self.schema.event(class).name.as_deref()?;
        let (entry, exit) = names::PAIRS[0];
        let words = [(entry, SpanStep::Entry), (exit, SpanStep::Exit), (names::CLOSE, SpanStep::Close)];
        let found =
            words.into_iter().find_map(|(word, step)| Some((name.strip_suffix(word)?.strip_suffix('_')?, step)));
        let (span, step) = found.filter(|(span, _)| !span.is_empty())?;
        let id = self.payload(class, names::SPAN, is_integer)?;
        Some(SpanEvent { step, name: span.to_string(), id })
    }
}
