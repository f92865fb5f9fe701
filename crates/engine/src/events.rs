//! The events of a session one by one, in the order of time.

use crate::event::Event;
use crate::filter::{Filter, Matcher};
use crate::item::{Flow, Place};
use crate::merge::{Batch, Merger, Note, Run};
use crate::selection::StreamOf;
use crate::session::Session;
use crate::timeline::{self, Selection};

/// Events of a batch.
const BATCH: usize = 4096;
/// Events of a batch that another thread merges: handing one over may wake a thread.
const ASIDE: usize = 16_384;
/// Batches that wait, at most, where another thread merges.
const WAITING: usize = 2;

/// The events of streams in the order of time, and what comes up between them.
///
/// It lends: an event points into the batch that is being read, so [`Events::next`] is no `Iterator::next`.
pub struct Events<'a> {
    streams: &'a [StreamOf],
    merger: Merger,
    matcher: Option<Matcher>,
    batch: Batch,
    /// The notes behind its events.
    notes: std::vec::IntoIter<Note>,
    /// The run of the batch that is being read, and the next event of it, counted from its first one.
    run: usize,
    at: u32,
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
    pub fn new(session: &Session, streams: &'a [StreamOf], selection: &Selection, filter: Option<&Filter>) -> Self {
        Events {
            streams,
            merger: timeline::merger(session, streams, selection),
            matcher: filter.map(Filter::matcher),
            batch: Batch::default(),
            notes: Vec::new().into_iter(),
            run: 0,
            at: 0,
            is_merged_aside: selection.jobs > 1,
        }
    }

    /// Merges in the thread that looks at the events. Where reading takes more than both, two threads that do not wait for
    /// each other are quicker than three on two processors.
    pub(crate) fn merged_here(self) -> Self {
        Events { is_merged_aside: false, ..self }
    }

    /// The next event or note; `None` at the end. What comes up behind an event stands behind it.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    #[inline]
    pub fn next(&mut self) -> Option<Step<'_>> {
        let (chunk, at) = loop {
            let Some(run) = self.batch.runs.get(self.run) else {
                if let Some(note) = self.notes.next() {
                    return Some(Step::Note(note));
                }
                self.batch = self.merger.next_batch(BATCH)?;
                self.notes = std::mem::take(&mut self.batch.notes).into_iter();
                (self.run, self.at) = (0, 0);
                continue;
            };
            let at = run.from + self.at;
            if at == run.to {
                (self.run, self.at) = (self.run + 1, 0);
                continue;
            }
            self.at += 1;
            let chunk = run.chunk as usize;
            if let Some(matcher) = &mut self.matcher {
                let (stream, ready) = &self.batch.chunks[chunk];
                let event = self.streams[stream.0 as usize].event(ready.chunk.event(at as usize));
                if !matcher.matches(&event) {
                    continue;
                }
            }
            break (chunk, at as usize);
        };
        let (stream, ready) = &self.batch.chunks[chunk];
        let stream = stream.0 as usize;
        Some(Step::Event(stream, self.streams[stream].event(ready.chunk.event(at))))
    }

    /// Where each stream stands, when all that was read together was given; see [`Merger::places`].
    pub fn places(&self) -> Option<Vec<Place>> {
        let last = self.batch.runs.last()?;
        let is_at_end = self.run >= self.batch.runs.len()
            || self.run + 1 == self.batch.runs.len() && last.from + self.at == last.to;
        if is_at_end { self.merger.places() } else { None }
    }

    /// Hands on the events and notes that are left, until a note's receiver says to stop. Costs less than
    /// [`Events::next`], as what holds for a whole run is looked up once for the run.
    #[inline]
    pub fn for_each(mut self, mut take: impl FnMut(&Event<'_>), note: impl FnMut(Note) -> Flow) {
        let (streams, mut matcher) = (self.streams, self.matcher.take());
        let take_all = |batch: &Batch, run: usize, at: u32| {
            let runs = batch.runs.get(run..).unwrap_or_default();
            let from = runs.first().map_or(0, |run| run.from + at);
            each_of(streams, batch, (runs, from), &mut matcher, &mut take);
        };
        self.rest(take_all, note);
    }

    /// As [`for_each`](Events::for_each), of an untouched reading without a filter: hands on whole batches, each of
    /// which is followed by its notes.
    pub fn for_each_batch(self, mut take: impl FnMut(&Batch), note: impl FnMut(Note) -> Flow) {
        self.rest(|batch, _, _| take(batch), note);
    }

    /// Hands on batches, with the first run that is left of each and the number of its events that were given, and the
    /// notes behind them.
    fn rest(self, mut take: impl FnMut(&Batch, usize, u32), mut note: impl FnMut(Note) -> Flow) {
        let Events { mut merger, mut batch, notes, run, at, is_merged_aside, .. } = self;
        batch.notes = notes.collect();
        let mut take = |batch: &mut Batch, run: usize, at: u32| {
            take(batch, run, at);
            !batch.notes.drain(..).any(|found| note(found) == Flow::Stop)
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
    streams: &[StreamOf],
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
