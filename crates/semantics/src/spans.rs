//! Spans with a number: what a program does from its first `NAME_entry` to `NAME_close`, with pauses between an exit and the
//! next entry, and on several threads.

use tracemill_model::schema::{EventClassId, FieldPath};

use crate::fields::is_integer;
use crate::{Semantics, names};

/// A step in the life of a span.
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
    /// The step that the event stands for.
    pub step: SpanStep,
    /// Name of the span.
    pub name: String,
    /// The number of the span, which no other one of the trace has.
    pub id: FieldPath,
    /// The number of the span that it is in, 0 for none.
    pub parent: Option<FieldPath>,
}

impl Semantics {
    /// The step that the events of a class stand for, in spans that have numbers.
    pub fn span(&self, class: EventClassId) -> Option<SpanEvent> {
        let name = self.schema.event(class).name.as_deref()?;
        let (entry, exit) = names::PAIRS[0];
        let words = [(entry, SpanStep::Entry), (exit, SpanStep::Exit), (names::CLOSE, SpanStep::Close)];
        let found =
            words.into_iter().find_map(|(word, step)| Some((name.strip_suffix(word)?.strip_suffix('_')?, step)));
        let (span, step) = found.filter(|(span, _)| !span.is_empty())?;
        let id = self.payload(class, names::SPAN, is_integer)?;
        let parent = self.payload(class, names::PARENT_SPAN, is_integer);
        Some(SpanEvent { step, name: span.to_string(), id, parent })
    }

    /// Do spans of the trace end by a close? Of a program that was killed early none has ended yet: there the parents of
    /// spans say so.
    pub fn has_span_closes(&self) -> bool {
        let mut spans = (0..self.schema.events().len() as u32).filter_map(|class| self.span(EventClassId(class)));
        spans.any(|event| event.step == SpanStep::Close || event.parent.is_some())
    }
}
