//! The loop over the timeline that all analyses share.

use std::sync::Arc;

use tracemill_engine::event::Event;
use tracemill_engine::events::Events;
use tracemill_engine::filter::Filter;
use tracemill_engine::item::Flow;
use tracemill_engine::merge::Note;
use tracemill_engine::selection::{ClassSet, StreamOf};
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Result;

use crate::target::{Target, Verdict};

/// Input of an analysis.
pub struct Input<'a> {
    /// The traces.
    pub session: &'a Session,
    /// The streams that are wanted.
    pub streams: &'a [StreamOf],
    /// Times and classes that are wanted.
    pub selection: Selection,
    /// Condition on the fields.
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

/// Verdicts of the targets about an event class.
#[derive(Clone, Copy)]
struct Meant {
    begins: Verdict,
    ends: Verdict,
}

/// Role of the events of a class.
#[derive(Clone, Copy)]
enum Is {
    Always(Role),
    /// Each event says so.
    Asked(Meant),
}

impl From<Meant> for Is {
    fn from(meant: Meant) -> Is {
        match (meant.begins, meant.ends) {
            (Verdict::Ask, _) | (_, Verdict::Ask) => Is::Asked(meant),
            (begins, ends) => Is::Always(Role { begins: begins == Verdict::Yes, ends: ends == Verdict::Yes }),
        }
    }
}

/// Shows `take` every event that one of the targets means, in the order of time, with its time in ns: the first target
/// begins, the second ends. Notes go to `note`, which says whether to go on. Gives the number of events without time.
pub(crate) fn run(
    input: &Input<'_>,
    begins: &Target,
    ends: Option<&Target>,
    note: &mut dyn FnMut(Note) -> Flow,
    take: impl FnMut(Role, i128, &Event),
) -> Result<u64> {
    run_of(input, (begins, ends), None, note, take)
}

/// Which events are wanted, by their numbers among all that the input leaves.
pub type Wanted<'a> = &'a dyn Fn(usize) -> bool;

/// As [`run`], of some events only. These are known by number, so none is passed by for its class.
pub(crate) fn run_of(
    input: &Input<'_>,
    (begins, ends): (&Target, Option<&Target>),
    wanted: Option<Wanted<'_>>,
    note: &mut dyn FnMut(Note) -> Flow,
    mut take: impl FnMut(Role, i128, &Event),
) -> Result<u64> {
    let of_begins = begins.bind(input.session)?;
    let of_ends = ends.map(|ends| ends.bind(input.session)).transpose()?;
    let meant = input.session.traces.iter().enumerate().map(|(trace, opened)| {
        let classes = opened.schema.events().iter().enumerate().map(|(at, _)| Meant {
            begins: of_begins[trace][at],
            ends: of_ends.as_ref().map_or(Verdict::No, |of_ends| of_ends[trace][at]),
        });
        classes.collect()
    });
    let meant: Vec<Vec<Meant>> = meant.collect();
    let mut selection = input.selection.clone();
    let classes = meant.iter().enumerate().map(|(trace, classes)| {
        let known = input.selection.classes.get(trace).cloned().flatten();
        let is_wanted = |class: usize| {
            (classes[class].begins, classes[class].ends) != (Verdict::No, Verdict::No)
                && known.as_ref().is_none_or(|known| known.has(class as u32))
        };
        (!(0..classes.len()).all(is_wanted)).then(|| Arc::new(ClassSet::new(classes.len(), is_wanted)))
    });
    if wanted.is_none() {
        selection.classes = classes.collect();
    }
    let (mut untimed, mut number) = (0, 0);
    let mut name = Vec::new();
    let roles: Vec<Vec<Is>> = meant.iter().map(|classes| classes.iter().copied().map(Is::from).collect()).collect();
    let events = Events::new(input.session, input.streams, &selection, input.filter.as_ref());
    let take_event = |event: &Event| {
        number += 1;
        if wanted.is_some_and(|wanted| !wanted(number - 1)) {
            return;
        }
        let role = match roles[event.trace][event.raw.class().0 as usize] {
            Is::Always(role) => role,
            Is::Asked(meant) => {
                let mut is = |verdict, target: Option<&Target>| match verdict {
                    Verdict::Ask => target.is_some_and(|target| target.asks(event, &mut name)),
                    verdict => verdict == Verdict::Yes,
                };
                Role { begins: is(meant.begins, Some(begins)), ends: is(meant.ends, ends) }
            }
        };
        match event.ns {
            _ if role == Role::default() => {}
            Some(ns) => take(role, ns, event),
            None => untimed += 1,
        }
    };
    events.for_each(take_event, note);
    Ok(untimed)
}
