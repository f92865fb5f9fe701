//! Iterates over events.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use tracemill_engine::event;
use tracemill_engine::filter::{Filter, Matcher};
use tracemill_engine::merge::{Merger, Note};
use tracemill_engine::request::SelectedEvents;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::merger;
use tracemill_model::error::Error;

use crate::errors::{FoundFaults, raised};
use crate::event::{Chunks, Event, EventReading};

/// Events of a batch: few at first, so that the first event comes soon.
const BATCH: (usize, usize) = (64, 4096);

/// Batches without an event that is wanted, after which Python is asked whether somebody pressed Ctrl-C.
const PATIENCE: usize = 64;

/// An iterator over the events of traces, in the order of time.
#[pyclass(module = "tracemill")]
pub(crate) struct Events {
    /// Behind a lock, as it is for one thread at a time, which Python's borrow of the iterator sees to.
    source: Option<Mutex<MergedSource>>,
    found: Arc<FoundFaults>,
    /// Events that are still wanted.
    left: u64,
    chunks: Option<Arc<Chunks>>,
    /// The events of the batch that are wanted: chunks and places, the next one last.
    wanted: Vec<(u32, u32)>,
    /// Damage after the events of the batch, which ends the iteration.
    failed: Option<Error>,
}

struct MergedSource {
    merger: Merger,
    matcher: Option<Matcher>,
    reading: Arc<EventReading>,
    size: usize,
}

impl Events {
    pub(crate) fn new(
        session: &Arc<Session>,
        SelectedEvents { streams, selection, filter }: SelectedEvents,
        found: Arc<FoundFaults>,
        limit: Option<u64>,
    ) -> Self {
        let source = MergedSource {
            merger: merger(session, &streams, &selection),
            matcher: filter.as_ref().map(Filter::matcher),
            reading: Arc::new(EventReading::new(session.clone(), streams)),
            size: BATCH.0,
        };
        let left = limit.unwrap_or(u64::MAX);
        Events { source: Some(Mutex::new(source)), found, left, chunks: None, wanted: Vec::new(), failed: None }
    }
}

/// A thing that a source gives.
enum More {
    Events(Arc<Chunks>, Vec<(u32, u32)>, Option<Error>),
    /// It was not read yet.
    Later,
    End,
}

impl MergedSource {
    /// The next batch with events that are wanted.
    fn next(&mut self, found: &FoundFaults) -> More {
        for _ in 0..PATIENCE {
            let Some(batch) = self.merger.next_batch(self.size) else { return More::End };
            self.size = (self.size * 2).min(BATCH.1);
            let mut wanted = Vec::with_capacity(batch.events);
            for run in &batch.runs {
                let (stream, ready) = &batch.chunks[run.chunk as usize];
                let of = &self.reading.streams[stream.0 as usize];
                wanted.extend((run.from..run.to).filter_map(|at| {
                    let Some(matcher) = &mut self.matcher else { return Some((run.chunk, at)) };
                    let event: event::Event<'_> = of.event(ready.chunk.event(at as usize));
                    matcher.matches(&event).then_some((run.chunk, at))
                }));
            }
            wanted.reverse();
            let mut failed = None;
            for note in batch.notes {
                match note {
                    Note::Fault(fault) => failed = failed.or(found.fault(fault).err()),
                    Note::Warning(warning) => found.warning(warning.to_string()),
                    Note::Gap(..) => {}
                }
            }
            if !wanted.is_empty() || failed.is_some() {
                let chunks = Chunks { chunks: batch.chunks, reading: self.reading.clone() };
                return More::Events(Arc::new(chunks), wanted, failed);
            }
        }
        More::Later
    }
}

#[pymethods]
impl Events {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
        loop {
            if self.left == 0 {
                self.source = None;
                return Ok(None);
            }
            if let (Some((chunk, at)), Some(chunks)) = (self.wanted.pop(), &self.chunks) {
                self.left -= 1;
                return Ok(Some(Event::new(chunks.clone(), chunk, at)));
            }
            if let Some(failed) = self.failed.take() {
                self.source = None;
                return Err(raised(py, &failed));
            }
            let Some(source) = &mut self.source else { return Ok(None) };
            let found = &*self.found;
            let source = source.get_mut().unwrap_or_else(PoisonError::into_inner);
            let more = py.detach(|| source.next(found));
            py.check_signals()?;
            match more {
                More::Events(chunks, wanted, failed) => {
                    (self.chunks, self.wanted, self.failed) = (Some(chunks), wanted, failed);
                }
                More::Later => {}
                More::End => self.source = None,
            }
            self.found.warn(py)?;
        }
    }
}
