//! What all requests share: the traces, and what is known of them so far.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracemill_engine::choice;
use tracemill_engine::filter::{Expression, Filter};
use tracemill_engine::selection::StreamOf;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_lod::calls::{self, Calls};
use tracemill_lod::{EventSet, Index, Progress, index};
use tracemill_model::error::Error;

use crate::error::{Answer, ApiError};
use crate::guard::Guard;

/// The traces that are shown.
pub struct Traces {
    /// The session.
    pub session: Arc<Session>,
    /// The streams that are wanted.
    pub streams: Vec<StreamOf>,
    /// The events that are wanted.
    pub selection: Selection,
    /// A filter beside the selection.
    pub filter: Option<Filter>,
    /// Times of the first and the last event in ns, as far as they are known without reading all.
    pub ends: (Option<i128>, Option<i128>),
    /// Are times since the Unix epoch?
    pub is_unix: bool,
}

/// What a server is about.
pub struct Input {
    /// The traces.
    pub traces: Traces,
    /// Errors and warnings of opening them.
    pub problems: (Vec<Error>, Vec<String>),
    /// Name and version of the program.
    pub program: String,
    /// The line that began it.
    pub command: String,
}

/// Filters whose events are kept.
const FILTERS: usize = 8;

pub(crate) struct Shared {
    pub(crate) input: Input,
    pub(crate) guard: Guard,
    pub(crate) progress: Progress,
    index: OnceLock<Arc<Index>>,
    calls: OnceLock<Option<Arc<Calls>>>,
    sets: Mutex<VecDeque<(String, Arc<EventSet>)>>,
    /// Told when more is known, and when the server ends.
    pub(crate) news: tokio::sync::watch::Sender<News>,
}

/// How far the server is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Counting,
    Complete,
    End,
}

impl Shared {
    pub(crate) fn new(input: Input, guard: Guard) -> Shared {
        Shared {
            input,
            guard,
            progress: Progress::default(),
            index: OnceLock::new(),
            calls: OnceLock::new(),
            sets: Mutex::default(),
            news: tokio::sync::watch::channel(News::Counting).0,
        }
    }

    /// Reads the traces: events are counted and calls are followed at the same time.
    pub(crate) fn read(&self) {
        let Traces { session, streams, selection, filter, .. } = &self.input.traces;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let found = calls::follow(session, &self.progress).map(Arc::new);
                // Nothing is ever put there twice.
                let _ = self.calls.set(found);
            });
            if let Some(index) = index::read(session, streams, selection, filter.as_ref(), &self.progress) {
                let _ = self.index.set(Arc::new(index));
            }
        });
        if self.index().is_none() {
            return;
        }
        self.news.send_if_modified(|news| {
            let is_new = *news == News::Counting;
            *news = if is_new { News::Complete } else { *news };
            is_new
        });
    }

    /// Ends the server, and what it does.
    pub(crate) fn end(&self) {
        self.progress.stop.store(true, Ordering::Relaxed);
        self.news.send_replace(News::End);
    }

    pub(crate) fn index(&self) -> Option<&Arc<Index>> {
        self.index.get()
    }

    /// The index, for answers that need it.
    pub(crate) fn whole_index(&self) -> Answer<&Arc<Index>> {
        self.index().ok_or_else(|| ApiError::new(503, "busy", "the events are being counted"))
    }

    pub(crate) fn calls(&self) -> Option<&Arc<Calls>> {
        self.calls.get()?.as_ref()
    }

    /// Is nothing left to be read?
    pub(crate) fn is_complete(&self) -> bool {
        self.index.get().is_some() && self.calls.get().is_some()
    }

    /// Changes whenever answers may. Each run has its own: a browser keeps tiles for a year, and the next server on this
    /// port may show another trace.
    pub(crate) fn generation(&self) -> String {
        let known = [self.index.get().is_some(), self.calls.get().is_some()].into_iter().filter(|known| *known).count();
        format!("{}-{}", self.guard.run, 1 + known)
    }

    /// The first and last time of the timeline.
    pub(crate) fn ends(&self) -> (Option<i128>, Option<i128>) {
        match self.index() {
            Some(index) if index.events() as u64 > index.untimed => (Some(index.origin), Some(index.end)),
            Some(_) => (None, None),
            None => self.input.traces.ends,
        }
    }

    /// The events that an expression of the language of filters leaves.
    pub(crate) fn set(&self, text: &str) -> Answer<Arc<EventSet>> {
        self.whole_index()?;
        let known = |sets: &VecDeque<(String, Arc<EventSet>)>| {
            sets.iter().find(|(own, _)| own == text).map(|(_, set)| set.clone())
        };
        if let Some(set) = known(&self.sets.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(set);
        }
        let Traces { session, streams, selection, filter, .. } = &self.input.traces;
        let mistake = |error: Error| ApiError::filter(text, &error);
        let expression = Expression::parse(text).map_err(mistake)?;
        let times = choice::times(session, false, expression.needs());
        let wanted = expression.bind(session, &times).map_err(mistake)?;
        let set = index::matching(session, streams, selection, filter.as_ref(), &wanted, &self.progress);
        let set = Arc::new(set.ok_or_else(|| ApiError::new(503, "busy", "the server ends"))?);
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.push_back((text.to_string(), set.clone()));
        if sets.len() > FILTERS {
            sets.pop_front();
        }
        Ok(set)
    }
}
