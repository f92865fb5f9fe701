//! How far the reading of traces is, for those who wait until more is known.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How far the traces are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Events are counted and numbered.
    Counting,
    /// All is known.
    Complete,
    /// The program ends.
    End,
}

/// The news for all who wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusUpdate {
    /// How far the traces are read.
    pub stage: Stage,
    /// That of the traces that are shown.
    pub version: usize,
    /// From when on they are others than those before, in ns, when only that changed.
    pub grown: Option<i128>,
}

/// Called when there is something new; it must not wait.
type Listener = Box<dyn Fn() + Send + Sync>;

/// How far all is. It stays when traces are read again.
pub struct Status {
    /// Tells this run of the program from others; no secret.
    pub(crate) run: String,
    /// How often what answers are made of was added to.
    changes: AtomicUsize,
    last: Mutex<StatusUpdate>,
    /// The filter that was asked for last.
    filtering: Mutex<Option<Arc<FilterProgress>>>,
    /// A sentence for the user when files of the traces are not there any more, or are other files now.
    gone: Mutex<Option<String>>,
    listener: OnceLock<Listener>,
}

/// A filter that goes through the events.
pub struct FilterProgress {
    /// Its text.
    pub filter: String,
    all: usize,
    seen: AtomicUsize,
    matches: AtomicUsize,
    is_over: AtomicBool,
}

impl FilterProgress {
    /// How much is done, from 0 to 1, and how many events match so far.
    pub fn progress(&self) -> (f64, usize) {
        let done = if self.is_over() { 1.0 } else { self.seen.load(Ordering::Relaxed) as f64 / self.all.max(1) as f64 };
        (done.min(1.0), self.matches.load(Ordering::Relaxed))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, is_match: bool) -> bool {
        self.seen.fetch_add(1, Ordering::Relaxed);
        if is_match {
            self.matches.fetch_add(1, Ordering::Relaxed);
        }
        is_match
    }
}

impl Status {
    pub(crate) fn new(run: String) -> Status {
        let last = StatusUpdate { stage: Stage::Counting, version: 0, grown: None };
        Status {
            run,
            changes: AtomicUsize::new(0),
            last: Mutex::new(last),
            filtering: Mutex::default(),
            gone: Mutex::default(),
            listener: OnceLock::new(),
        }
    }

    /// Calls a listener from now on whenever there is something new; there is one at most, the first.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    fn notify(&self) {
        if let Some(listener) = self.listener.get() {
            listener();
        }
    }

    /// How far the reading is.
    pub fn last(&self) -> StatusUpdate {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes how far the reading is, and reports it when `change` says so.
    pub fn update(&self, change: impl FnOnce(&mut StatusUpdate) -> bool) {
        let is_new = change(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
        if is_new {
            self.notify();
        }
    }

    /// How often what answers are made of was added to.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    /// Counts an addition to that which answers are made of.
    pub fn add_change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that files of the traces are not there any more or are others, or that they are there again.
    pub fn set_gone(&self, sentence: Option<String>) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone != sentence {
            *gone = sentence;
            drop(gone);
            self.notify();
        }
    }

    /// A sentence for the user when files of the traces are not there any more, or are other files now.
    pub fn gone(&self) -> Option<String> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The filter that was asked for last.
    pub fn filtering(&self) -> Option<Arc<FilterProgress>> {
        self.filtering.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does a filter go through the events now?
    pub fn is_filtering(&self) -> bool {
        self.filtering().is_some_and(|filtering| !filtering.is_over())
    }

    /// A filter begins to go through so many events: pages are told how far it is.
    pub(crate) fn begin_filter(&self, filter: &str, all: usize) -> Arc<FilterProgress> {
        let filtering = FilterProgress {
            filter: filter.to_string(),
            all,
            seen: AtomicUsize::new(0),
            matches: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        };
        let filtering = Arc::new(filtering);
        *self.filtering.lock().unwrap_or_else(PoisonError::into_inner) = Some(filtering.clone());
        self.notify();
        filtering
    }

    pub(crate) fn end_filter(&self, filtering: &FilterProgress) {
        filtering.is_over.store(true, Ordering::Relaxed);
        self.notify();
    }

    /// A filter that is not wanted any more went through a part of the events: nothing is reported about it.
    pub(crate) fn give_up_filter(&self, filtering: &Arc<FilterProgress>) {
        let mut last = self.filtering.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, filtering)) {
            *last = None;
        }
    }
}
