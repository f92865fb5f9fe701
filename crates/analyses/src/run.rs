//! The loop over the timeline that all analyses share.

use std::ops::ControlFlow;
use std::sync::Arc;

use tracemill_engine::event::Event;
use tracemill_engine::events::Events;
use tracemill_engine::filter::Filter;
use tracemill_engine::merge::Note;
use tracemill_engine::partitions::{self, Follower};
use tracemill_engine::selection::{ClassSet, SelectedStream};
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Result;

use crate::target::{Target, Verdict};

/// Input of an analysis.
pub struct Input<'a> {
    /// The traces.
    pub session: &'a Session,
    /// The streams that are wanted.
    pub streams: &'a [SelectedStream],
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

/// The roles of the events of a session.
struct Roles<'a> {
    /// By trace and event class.
    classes: Vec<Vec<Is>>,
    begins: &'a Target,
    ends: Option<&'a Target>,
}

impl<'a> Roles<'a> {
    /// The roles by the targets, and the selection of those events that may have one.
    fn new(input: &Input<'_>, begins: &'a Target, ends: Option<&'a Target>) -> Result<(Roles<'a>, Selection)> {
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
        let classes = meant.iter().enumerate().map(|(trace, classes)| {
            let known = input.selection.classes.get(trace).cloned().flatten();
            let is_wanted = |class: usize| {
                (classes[class].begins, classes[class].ends) != (Verdict::No, Verdict::No)
                    && known.as_ref().is_none_or(|known| known.has(class as u32))
            };
            (!(0..classes.len()).all(is_wanted)).then(|| Arc::new(ClassSet::new(classes.len(), is_wanted)))
        });
        let selection = Selection { classes: classes.collect(), ..input.selection.clone() };
        let classes = meant.iter().map(|classes| classes.iter().copied().map(Is::from).collect()).collect();
        Ok((Roles { classes, begins, ends }, selection))
    }

    /// The role of an event; `name` is storage.
    #[inline]
    fn role(&self, event: &Event, name: &mut Vec<u8>) -> Role {
        match self.classes[event.trace][event.raw.class().0 as usize] {
            Is::Always(role) => role,
            Is::Asked(meant) => {
                let mut is = |verdict, target: Option<&Target>| match verdict {
                    Verdict::Ask => target.is_some_and(|target| target.asks(event, name)),
                    verdict => verdict == Verdict::Yes,
                };
                Role { begins: is(meant.begins, Some(self.begins)), ends: is(meant.ends, self.ends) }
            }
        }
    }
}

/// Shows `take` every event that one of the targets means, in the order of time, with its time in ns: the first target
/// begins, the second ends. Notes go to `note`, which says whether to go on. Gives the number of events without time.
pub(crate) fn run(
    input: &Input<'_>,
    begins: &Target,
    ends: Option<&Target>,
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
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
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
    mut take: impl FnMut(Role, i128, &Event),
) -> Result<u64> {
    let (roles, mut selection) = Roles::new(input, begins, ends)?;
    if wanted.is_some() {
        selection = input.selection.clone();
    }
    let (mut untimed, mut number) = (0, 0);
    let mut name = Vec::new();
    let events = Events::new(input.session, input.streams, &selection, input.filter.as_ref());
    let take_event = |event: &Event| {
        number += 1;
        if wanted.is_some_and(|wanted| !wanted(number - 1)) {
            return;
        }
        let role = roles.role(event, &mut name);
        match event.ns {
            _ if role == Role::default() => {}
            Some(ns) => take(role, ns, event),
            None => untimed += 1,
        }
    };
    events.for_each(take_event, note);
    Ok(untimed)
}

/// An analysis of stretches of the timeline, for one thread.
pub(crate) trait Part: Send {
    /// The part of a stretch that those beside it need.
    type Edge: Send;

    /// Takes the next event of the stretch that has a role, with its time in ns.
    fn add_event(&mut self, role: Role, ns: i128, event: &Event);

    /// Ends the stretch.
    fn end(&mut self) -> Self::Edge;
}

/// As [`run`], by several threads where there are several jobs: each has a part of its own, and `join` gets the edges of all
/// stretches in the order of time, with the number of their part. Gives the parts, too. One part takes everything as one stretch
/// where it is to be in order.
pub(crate) fn run_parts<P: Part>(
    input: &Input<'_>,
    (begins, ends): (&Target, Option<&Target>),
    in_order: bool,
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
    make: impl Fn() -> P + Sync,
    join: impl FnMut(usize, P::Edge),
) -> Result<(Vec<P>, u64)> {
    let (roles, mut selection) = Roles::new(input, begins, ends)?;
    let mut filter = input.filter.as_ref();
    if selection.jobs > 1 {
        // The threads that read evaluate the filter, so that it runs only once for each event.
        if selection.filter.is_none() {
            selection.filter = filter.take().cloned();
        }
    }
    let make = || Following { part: make(), roles: &roles, name: Vec::new(), untimed: 0 };
    let events = (input.streams, &selection, filter);
    let following = partitions::follow(input.session, events, in_order, make, join, note);
    let untimed = following.iter().map(|of| of.untimed).sum();
    Ok((following.into_iter().map(|of| of.part).collect(), untimed))
}

/// A part that gets the events of the engine.
struct Following<'a, P> {
    part: P,
    roles: &'a Roles<'a>,
    /// Storage.
    name: Vec<u8>,
    untimed: u64,
}

impl<P: Part> Follower for Following<'_, P> {
    type Edge = P::Edge;

    #[inline]
    fn event(&mut self, event: &Event<'_>) {
        let role = self.roles.role(event, &mut self.name);
        match event.ns {
            _ if role == Role::default() => {}
            Some(ns) => self.part.add_event(role, ns, event),
            None => self.untimed += 1,
        }
    }

    fn end(&mut self) -> P::Edge {
        self.part.end()
    }
}
