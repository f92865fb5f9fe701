//! Times of spans that have numbers, from the first entry to the close, beside the time that threads are in them: of async
//! programs, whose tasks are entered at each poll, these differ.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tracemill_model::schema::EventClassId;
use tracemill_semantics::{Semantics, SpanStep};

use crate::event::Event;
use crate::events::Events;
use crate::filter::{ClassFields, KeyBy, KeyReader, KeyValue};
use crate::selection::{self, ClassSet};
use crate::session::Session;
use crate::timeline::Selection;

/// Spans that may be open at once; of more the beginnings are not known.
const MAX_OPEN: usize = 1 << 20;

/// Times of the spans of one name, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanStatistics {
    /// Their name.
    pub name: String,
    /// Spans that were entered and closed.
    pub count: u64,
    /// Sum of the times from the first entry to the close.
    pub total_ns: u128,
    /// The longest one.
    pub max_ns: u64,
    /// Sum of the times in which threads were in them.
    pub in_polls_ns: u128,
    /// Spans that were entered and not closed: the trace ends before.
    pub open: u64,
}

/// A span that was entered.
struct OpenSpan {
    name: usize,
    first_ns: i128,
    in_polls_ns: u128,
    /// The stream of each thread that is in it, and since when.
    entries: Vec<(usize, i128)>,
}

/// A class of events of spans.
#[derive(Clone, Copy)]
struct SpanClass {
    step: SpanStep,
    name: usize,
}

/// The times of all spans of a session, by name; none when it has no event that closes any.
pub fn span_statistics(session: &Session) -> Vec<SpanStatistics> {
    let mut known: Vec<SpanStatistics> = Vec::new();
    let mut has_closes = false;
    let mut fields: Vec<Vec<ClassFields>> = Vec::new();
    let mut classes: Vec<Vec<Option<SpanClass>>> = Vec::new();
    for trace in &session.traces {
        let semantics = Semantics::new(&trace.schema);
        let (mut of_trace, mut paths) = (Vec::new(), Vec::new());
        for (at, class) in trace.schema.events().iter().enumerate() {
            let event = semantics.span(EventClassId(at as u32)).filter(|_| !class.is_untimed);
            has_closes |= event.as_ref().is_some_and(|event| event.step == SpanStep::Close);
            paths.push(event.iter().map(|event| (0, event.id.clone())).collect());
            of_trace.push(event.map(|event| {
                let name = known.iter().position(|known| known.name == event.name).unwrap_or_else(|| {
                    known.push(SpanStatistics { name: event.name, ..SpanStatistics::default() });
                    known.len() - 1
                });
                SpanClass { step: event.step, name }
            }));
        }
        classes.push(of_trace);
        fields.push(paths);
    }
    let (true, Ok(streams)) = (has_closes, selection::streams(session, &[])) else { return Vec::new() };
    let wanted = classes.iter().map(|classes| {
        Some(Arc::new(ClassSet::new(classes.len(), |class| classes.get(class).is_some_and(Option::is_some))))
    });
    let selection = Selection { classes: wanted.collect(), ..Selection::default() };
    let fields = KeyBy::Fields(Arc::new(fields));
    let (mut keys, mut key) = (KeyReader::new(session, &fields), Vec::new());
    let mut open: HashMap<(usize, i128), OpenSpan> = HashMap::new();
    let take = |event: &Event<'_>| {
        let Some(class) = classes[event.trace][event.raw.class().0 as usize] else { return };
        let values = keys.values(event, &mut key);
        let id = values.iter().find_map(|(_, value)| if let KeyValue::Integer(id) = value { Some(*id) } else { None });
        if let (Some(id), Some(ns)) = (id, event.ns) {
            step(&mut known, &mut open, class, (event.trace, id), event.stream, ns);
        }
    };
    Events::new(session, &streams, &selection, None).for_each(take, |_| ControlFlow::Continue(()));
    open.values().for_each(|span| known[span.name].open += 1);
    known.retain(|span| span.count > 0 || span.open > 0);
    known
}

fn step(
    known: &mut [SpanStatistics],
    open: &mut HashMap<(usize, i128), OpenSpan>,
    class: SpanClass,
    id: (usize, i128),
    stream: usize,
    ns: i128,
) {
    let since = |begin: i128| u128::try_from(ns - begin).unwrap_or(0);
    match class.step {
        SpanStep::Entry => {
            let has_room = open.len() < MAX_OPEN;
            let begin = || OpenSpan { name: class.name, first_ns: ns, in_polls_ns: 0, entries: Vec::new() };
            let span = if has_room { Some(open.entry(id).or_insert_with(begin)) } else { open.get_mut(&id) };
            if let Some(span) = span {
                span.entries.push((stream, ns));
            }
        }
        SpanStep::Exit => {
            let Some(span) = open.get_mut(&id) else { return };
            let Some(at) = span.entries.iter().rposition(|(of, _)| *of == stream) else { return };
            let (_, begin) = span.entries.remove(at);
            // A thread that is in it twice is in it once.
            if span.entries.iter().all(|(of, _)| *of != stream) {
                span.in_polls_ns += since(begin);
            }
        }
        SpanStep::Close => {
            let Some(span) = open.remove(&id) else { return };
            let (known, time) = (&mut known[span.name], since(span.first_ns));
            known.count += 1;
            known.total_ns += time;
            known.max_ns = known.max_ns.max(u64::try_from(time).unwrap_or(u64::MAX));
            known.in_polls_ns += span.in_polls_ns;
        }
    }
}
