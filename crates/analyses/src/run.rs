//! The loop over the timeline that all analyses share.

use std::sync::Arc;

use tracemill_engine::filter::{Filter, FilterEvent};
use tracemill_engine::item::Flow;
use tracemill_engine::merge::Note;
use tracemill_engine::selection::ClassSet;
use tracemill_engine::selection::{Selection, StreamOf};
use tracemill_engine::session::Session;
use tracemill_engine::timeline;
use tracemill_model::error::Result;

use crate::report::LeftOut;
use crate::target::{Target, Verdict};

/// What an analysis reads.
pub struct Input<'a> {
    /// The traces.
    pub session: &'a Session,
    /// The streams that are wanted.
    pub streams: &'a [StreamOf],
    /// Times and classes that are wanted.
    pub selection: Selection,
    /// What must be true of the fields.
    pub filter: Option<Filter>,
}

/// The part of a target: an event may be both.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Role {
    /// It is the first target: a beginning.
    pub begins: bool,
    /// It is the second one: an end.
    pub ends: bool,
}

/// Takes the events that are meant, in the order of time.
pub(crate) trait Take {
    /// An event at a time.
    fn event(&mut self, role: Role, ns: i128, event: &FilterEvent);
}

/// What the targets say of an event class.
#[derive(Clone, Copy)]
struct Meant {
    begins: Verdict,
    ends: Verdict,
    is_timed: bool,
}

/// Events of a batch.
const BATCH: usize = 4096;

/// Shows `take` every event that one of the targets means: the first begins, the second ends. Notes go to `note`,
/// which says whether to go on. Gives the number of events without time.
pub(crate) fn run<T: Take>(
    input: &Input<'_>,
    begins: &Target,
    ends: Option<&Target>,
    take: &mut T,
    note: &mut dyn FnMut(Note) -> Flow,
) -> Result<LeftOut> {
    let of_begins = begins.bind(input.session)?;
    let of_ends = ends.map(|ends| ends.bind(input.session)).transpose()?;
    let meant = input.session.traces.iter().enumerate().map(|(trace, opened)| {
        let classes = opened.schema.events().iter().enumerate().map(|(at, class)| Meant {
            begins: of_begins[trace][at],
            ends: of_ends.as_ref().map_or(Verdict::No, |of_ends| of_ends[trace][at]),
            is_timed: !class.is_untimed,
        });
        classes.collect()
    });
    let meant: Vec<Vec<Meant>> = meant.collect();
    let mut selection = input.selection.clone();
    let wanted = meant.iter().enumerate().map(|(trace, classes)| {
        let known = input.selection.classes.get(trace).cloned().flatten();
        let is_wanted = |class: usize| {
            (classes[class].begins, classes[class].ends) != (Verdict::No, Verdict::No)
                && known.as_ref().is_none_or(|known| known.has(class as u32))
        };
        (!(0..classes.len()).all(is_wanted)).then(|| Arc::new(ClassSet::new(classes.len(), is_wanted)))
    });
    selection.classes = wanted.collect();
    let mut left_out = LeftOut::default();
    let mut matcher = input.filter.as_ref().map(Filter::matcher);
    let mut name = Vec::new();
    let mut merger = timeline::merger(input.session, input.streams, &selection);
    while let Some(mut batch) = merger.next_batch(BATCH) {
        for run in &batch.runs {
            let (stream, ready) = &batch.chunks[run.chunk as usize];
            let of = &input.streams[stream.0 as usize];
            let (chunk, meant) = (&ready.chunk, &meant[of.trace]);
            for at in run.from as usize..run.to as usize {
                let Meant { begins: begin, ends: end, is_timed } = meant[chunk.classes[at] as usize];
                let ns = of.clock.as_ref().filter(|_| is_timed).map(|clock| clock.ns(chunk.cycles[at]));
                let event = FilterEvent { trace: of.trace, stream: of.index, event: chunk.event(at), ns };
                if matcher.as_mut().is_some_and(|matcher| !matcher.matches(&event)) {
                    continue;
                }
                let mut is = |verdict, target: Option<&Target>| match verdict {
                    Verdict::Ask => target.is_some_and(|target| target.asks(&event, &mut name)),
                    verdict => verdict == Verdict::Yes,
                };
                let role = Role { begins: is(begin, Some(begins)), ends: is(end, ends) };
                match ns {
                    _ if role == Role::default() => {}
                    Some(ns) => take.event(role, ns, &event),
                    None => left_out.untimed += 1,
                }
            }
        }
        for found in batch.notes.drain(..) {
            if note(found) == Flow::Stop {
                return Ok(left_out);
            }
        }
    }
    Ok(left_out)
}
