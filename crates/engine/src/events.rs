//! The events of a session one by one, in the order of time.

use std::ops::ControlFlow;

use crate::event::Event;
use crate::filter::{Filter, Matcher};
use crate::item::{ResumePoint, StreamPlace};
use crate::merge::{Batch, Note, Run};
use crate::selection::SelectedStream;
use crate::session::Session;
use crate::timeline::Selection;
use crate::walk::{BATCH, Turn, Walker};

/// Events of a batch that another thread merges: handing one over may wake a thread.
const ASIDE: usize = 16_384;
/// Batches that wait, at most, where another thread merges.
const WAITING: usize = 2;

/// The events of streams in the order of time, and what comes up between them.
///
/// It lends: an event points into the batch that is being read, so [`Events::next`] is no `Iterator::next`.
pub struct Events<'a> {
    walker: Walker<&'a [SelectedStream]>,
    /// Does another thread merge while the events are looked at?
    is_merged_aside: bool,
}

/// An event, or something that stands between events.
pub enum Step<'e> {
    /// An event, and the index of its stream among those that are read.
    Event(usize, Event<'e>),
    /// Something that is no event.
    Note(Note),
}

impl<'a> Events<'a> {
    /// The events of these streams that are selected and match the filter.
    pub fn new(
        session: &Session,
        streams: &'a [SelectedStream],
        selection: &Selection,
        filter: Option<&Filter>,
    ) -> Self {
        Events { walker: Walker::new(session, streams, selection, filter), is_merged_aside: selection.jobs > 1 }
    }

    /// The events of streams that grew, from a point of each on: see [`Walker::of_grown`].
    pub fn of_grown(
        session: &Session,
        streams: &'a [SelectedStream],
        selection: &Selection,
        filter: Option<&Filter>,
        points: &[Option<ResumePoint>],
    ) -> Self {
        let walker = Walker::of_grown(session, streams, selection, filter, (points, 0));
        Events { walker, is_merged_aside: false }
    }

    /// Merges in the thread that looks at the events. Where reading takes more than both, two threads that do not wait for
    /// each other are quicker than three on two processors.
    pub(crate) fn merged_here(self) -> Self {
        Events { is_merged_aside: false, ..self }
    }

    /// The next event or note; `None` at the end. What comes up after an event stands after it.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    #[inline]
    pub fn next(&mut self) -> Option<Step<'_>> {
        loop {
            match self.walker.next_turn()? {
                Turn::Event(position) => {
                    let (stream, event) = self.walker.event(position);
                    return Some(Step::Event(stream, event));
                }
                Turn::Note(note) => return Some(Step::Note(note)),
                Turn::Batch => {}
            }
        }
    }

    /// See [`Walker::places`].
    pub fn places(&self) -> Option<Vec<StreamPlace>> {
        self.walker.places()
    }

    /// See [`Merger::last_places`](crate::merge::Merger::last_places).
    pub fn last_places(&self) -> Vec<Option<StreamPlace>> {
        self.walker.merger.last_places()
    }

    /// Hands on the events and notes that are left, until a note's receiver says to stop. Costs less than
    /// [`Events::next`], as what holds for a whole run is looked up once for the run.
    #[inline]
    pub fn for_each(mut self, mut take: impl FnMut(&Event<'_>), note: impl FnMut(Note) -> ControlFlow<()>) {
        let (streams, mut matcher) = (self.walker.streams, self.walker.matcher.take());
        let take_all = |batch: &Batch, run: usize, at: u32| {
            let runs = batch.runs.get(run..).unwrap_or_default();
            let from = runs.first().map_or(0, |run| run.from + at);
            each_of(streams, batch, (runs, from), &mut matcher, &mut take);
        };
        self.for_each_remaining(take_all, note);
    }

    /// As [`for_each`](Events::for_each), of an untouched reading without a filter: passes on whole batches, each of
    /// which is followed by its notes.
    pub fn for_each_batch(self, mut take: impl FnMut(&Batch), note: impl FnMut(Note) -> ControlFlow<()>) {
        self.for_each_remaining(|batch, _, _| take(batch), note);
    }

    /// Hands on batches, with the first run that is left of each and the number of its events that were given, and the
    /// notes after them.
    fn for_each_remaining(
        self,
        mut take: impl FnMut(&Batch, usize, u32),
        mut note: impl FnMut(Note) -> ControlFlow<()>,
    ) {
        let Events { walker: Walker { mut merger, mut batch, notes, run, at, .. }, is_merged_aside } = self;
        batch.notes = notes.collect();
        let mut take = |batch: &mut Batch, run: usize, at: u32| {
            take(batch, run, at);
            !batch.notes.drain(..).any(|found| note(found).is_break())
        };
        if !take(&mut batch, run, at) {
            return;
        }
        if !is_merged_aside {
            while let Some(mut batch) = merger.next_batch(BATCH) {
                if !take(&mut batch, 0, 0) {
                    return;
                }
            }
            return;
        }
        // Merging takes its time, too: it goes on while the events are looked at.
        std::thread::scope(|scope| {
            let (give, given) = std::sync::mpsc::sync_channel(WAITING);
            scope.spawn(move || {
                while let Some(batch) = merger.next_batch(ASIDE) {
                    if give.send(batch).is_err() {
                        break;
                    }
                }
            });
            while let Ok(mut batch) = given.recv() {
                if !take(&mut batch, 0, 0) {
                    break;
                }
            }
        });
    }
}

/// Hands on the matching events of some runs of a batch; of the first run, those from `from` on.
#[inline]
pub(crate) fn each_of(
    streams: &[SelectedStream],
    batch: &Batch,
    (runs, from): (&[Run], u32),
    matcher: &mut Option<Matcher>,
    take: &mut impl FnMut(&Event<'_>),
) {
    let mut from = Some(from);
    for run in runs {
        let (stream, ready) = &batch.chunks[run.chunk as usize];
        let of = &streams[stream.0 as usize];
        for at in from.take().unwrap_or(run.from) as usize..run.to as usize {
            let event = of.event(ready.chunk.event(at));
            if matcher.as_mut().is_none_or(|matcher| matcher.matches(&event)) {
                take(&event);
            }
        }
    }
}
