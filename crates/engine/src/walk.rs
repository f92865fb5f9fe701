//! A walk over the merged events of a session, event by event. Each has a number, counted among those that the walk gives,
//! and a walk goes on from places that an earlier one kept.

use std::sync::Arc;

use crate::event::Event;
use crate::filter::{Filter, Matcher};
use crate::item::{ReadyChunk, ResumePoint, StreamPlace};
use crate::merge::{Batch, Merger, Note, Run, StreamIndex};
use crate::selection::SelectedStream;
use crate::session::Session;
use crate::timeline::{self, Selection};

/// Events of a batch.
pub(crate) const BATCH: usize = 4096;

/// Walks over the events of streams in the order of time.
pub struct Walker<S> {
    pub(crate) streams: S,
    pub(crate) merger: Merger,
    pub(crate) matcher: Option<Matcher>,
    pub(crate) batch: Batch,
    /// The notes after its events.
    pub(crate) notes: std::vec::IntoIter<Note>,
    /// The run of the batch that is being read, and the next event of it, counted from its first one.
    pub(crate) run: usize,
    pub(crate) at: u32,
    /// The number of the next event.
    number: usize,
    /// Events of the next batch.
    next_batch: usize,
}

/// A turn of a walk.
pub enum Turn {
    /// Another batch begins: events point into [`Walker::chunks`] from here on.
    Batch,
    /// An event.
    Event(Position),
    /// Something that is no event; it stands after the events before it.
    Note(Note),
}

/// The position of an event in the batch that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Index of its chunk.
    pub chunk: u32,
    /// Its index in the chunk.
    pub at: u32,
}

impl<S: AsRef<[SelectedStream]>> Walker<S> {
    /// Walks over the events of these streams that are selected and match the filter.
    pub fn new(session: &Session, streams: S, selection: &Selection, filter: Option<&Filter>) -> Self {
        Self::from_checkpoint(session, streams, selection, filter, None)
    }

    /// Walks over the same events from places on that [`Walker::places`] gave, before the event of this number; from the
    /// first event on without them.
    pub fn from_checkpoint(
        session: &Session,
        streams: S,
        selection: &Selection,
        filter: Option<&Filter>,
        checkpoint: Option<(&[StreamPlace], usize)>,
    ) -> Self {
        let (merger, number) = match checkpoint {
            Some((places, number)) => (timeline::merger_from(session, streams.as_ref(), selection, places), number),
            None => (timeline::merger(session, streams.as_ref(), selection), 0),
        };
        Self::with_merger(streams, merger, filter, number)
    }

    /// Walks over the events of streams that grew: each is read on from its point, if it has one, as an earlier walk over them
    /// left it. The next event has this number.
    pub fn of_grown(
        session: &Session,
        streams: S,
        selection: &Selection,
        filter: Option<&Filter>,
        (points, number): (&[Option<ResumePoint>], usize),
    ) -> Self {
        let merger = timeline::merger_of_grown(session, streams.as_ref(), selection, points);
        Self::with_merger(streams, merger, filter, number)
    }

    fn with_merger(streams: S, merger: Merger, filter: Option<&Filter>, number: usize) -> Self {
        Walker {
            streams,
            merger,
            matcher: filter.map(Filter::matcher),
            batch: Batch::default(),
            notes: Vec::new().into_iter(),
            run: 0,
            at: 0,
            number,
            next_batch: BATCH,
        }
    }

    /// Makes the first batch small, so that its events come soon; those after it grow.
    #[must_use]
    pub fn with_first_batch(self, events: usize) -> Self {
        Walker { next_batch: events, ..self }
    }

    /// The next event, note or batch; `None` at the end.
    #[inline]
    pub fn next_turn(&mut self) -> Option<Turn> {
        loop {
            let Some(run) = self.batch.runs.get(self.run) else {
                if let Some(note) = self.notes.next() {
                    return Some(Turn::Note(note));
                }
                return self.read_batch().then_some(Turn::Batch);
            };
            let at = run.from + self.at;
            if at == run.to {
                (self.run, self.at) = (self.run + 1, 0);
                continue;
            }
            self.at += 1;
            let position = Position { chunk: run.chunk, at };
            if let Some(matcher) = &mut self.matcher {
                let (_, event) = event(self.streams.as_ref(), &self.batch.chunks, position);
                if !matcher.matches(&event) {
                    continue;
                }
            }
            self.number += 1;
            return Some(Turn::Event(position));
        }
    }

    /// The next event, past all that is no event.
    pub fn next_event(&mut self) -> Option<Position> {
        loop {
            if let Turn::Event(position) = self.next_turn()? {
                return Some(position);
            }
        }
    }

    /// Goes on until the next event has this number, or a higher one when the walk is there already. False when there are not
    /// so many events.
    pub fn seek(&mut self, number: usize) -> bool {
        while self.number < number {
            if self.matcher.is_some() {
                if self.next_event().is_none() {
                    return false;
                }
                continue;
            }
            // Every event counts: no need to look at them.
            let Some(run) = self.batch.runs.get(self.run) else {
                if !self.read_batch() {
                    return false;
                }
                continue;
            };
            let left = run.to - run.from - self.at;
            if left == 0 {
                (self.run, self.at) = (self.run + 1, 0);
                continue;
            }
            let passed = left.min(u32::try_from(number - self.number).unwrap_or(u32::MAX));
            self.at += passed;
            self.number += passed as usize;
        }
        true
    }

    #[cold]
    fn read_batch(&mut self) -> bool {
        let Some(mut batch) = self.merger.next_batch(self.next_batch) else { return false };
        self.next_batch = (self.next_batch * 2).min(BATCH);
        self.notes = std::mem::take(&mut batch.notes).into_iter();
        (self.batch, self.run, self.at) = (batch, 0, 0);
        true
    }

    /// The number of the next event.
    pub fn number(&self) -> usize {
        self.number
    }

    /// An event of the batch that is being read, and the index of its stream among those that are read.
    #[inline]
    pub fn event(&self, position: Position) -> (usize, Event<'_>) {
        event(self.streams.as_ref(), &self.batch.chunks, position)
    }

    /// The chunks of the batch that is being read, each with its stream.
    pub fn chunks(&self) -> &[(StreamIndex, Arc<ReadyChunk>)] {
        &self.batch.chunks
    }

    /// An event of the batch that is being read, as a batch of its own.
    pub fn batch_of(&self, Position { chunk, at }: Position) -> Batch {
        let chunks = vec![self.batch.chunks[chunk as usize].clone()];
        Batch { chunks, runs: vec![Run { chunk: 0, from: at, to: at + 1 }], events: 1, notes: Vec::new() }
    }

    /// Where each stream stands, when all that was read together was given; see [`Merger::places`].
    pub fn places(&self) -> Option<Vec<StreamPlace>> {
        let last = self.batch.runs.last()?;
        let is_at_end = self.run >= self.batch.runs.len()
            || self.run + 1 == self.batch.runs.len() && last.from + self.at == last.to;
        if is_at_end { self.merger.places() } else { None }
    }
}

#[inline]
fn event<'e>(
    streams: &[SelectedStream],
    chunks: &'e [(StreamIndex, Arc<ReadyChunk>)],
    position: Position,
) -> (usize, Event<'e>) {
    let (stream, ready) = &chunks[position.chunk as usize];
    let stream = stream.0 as usize;
    (stream, streams[stream].event(ready.chunk.event(position.at as usize)))
}
