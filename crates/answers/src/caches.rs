//! Caches of answers, and of that which they are made of.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracemill_lod::EventSet;
use tracemill_lod::counters::Counter;
use tracemill_lod::group::ValueGroups;

use crate::cache::{Cache, Limits};
use crate::latencies::{FunctionStatistics, FunctionsKey, SystemCallLatencies, SystemCallStatistics};
use crate::period_track::PeriodTrack;

/// Answers that look at all that is chosen.
const ANSWERS: Limits = Limits { entries: 16, entry_bytes: 256 << 10, bytes: usize::MAX };
/// Sets of events.
const SETS: Limits = Limits { entries: 8, entry_bytes: usize::MAX, bytes: 32 << 20 };
/// Counters; each takes 2.5 MiB at most.
const PLOTS: usize = 16;
/// Groups; each takes some 0.4 bytes an event.
const GROUPS: usize = 4;

/// Statistics about system calls; the last ranges.
const OF_SYSTEM_CALLS: usize = 4;

/// Statistics about functions, by trace and range.
const FUNCTIONS: usize = 64;

/// Tracks of periods; each has a million at most.
const PERIODS: usize = 8;

/// A group by its trace, its path and the filter.
pub(crate) type GroupKey = (usize, String, String);

/// All caches of the traces that are shown.
pub(crate) struct Caches {
    /// Names of the analyses that the traces have the events for.
    pub(crate) analyses: OnceLock<Vec<&'static str>>,
    /// Answers by their questions.
    pub(crate) answers: Cache<String, Arc<str>>,
    /// Sets of events by filters, and by values of fields.
    pub(crate) sets: Cache<String, Arc<EventSet>>,
    /// Counters by what they show.
    pub(crate) plots: Cache<String, Arc<Plot>>,
    /// Groups that were asked for last.
    pub(crate) groups: Cache<GroupKey, Arc<GroupReading>>,
    /// Statistics about functions.
    pub(crate) functions: Cache<FunctionsKey, Arc<Vec<FunctionStatistics>>>,
    /// Periods, by the ids of their tracks.
    pub(crate) periods: Cache<String, Arc<PeriodTrack>>,
    /// Latencies of all system calls.
    pub(crate) system_calls: Cache<(), Arc<Vec<SystemCallLatencies>>>,
    /// Statistics about system calls, by range.
    pub(crate) of_system_calls: Cache<Option<(i128, i128)>, Arc<Vec<SystemCallStatistics>>>,
}

impl Default for Caches {
    fn default() -> Caches {
        Caches {
            analyses: OnceLock::new(),
            answers: Cache::new(ANSWERS, |text| text.len()),
            sets: Cache::new(SETS, |set| set.bytes()),
            plots: Cache::with_entries(PLOTS),
            groups: Cache::with_entries(GROUPS),
            functions: Cache::with_entries(FUNCTIONS),
            periods: Cache::with_entries(PERIODS),
            system_calls: Cache::with_entries(1),
            of_system_calls: Cache::with_entries(OF_SYSTEM_CALLS),
        }
    }
}

/// A counter, as far as it was read.
#[derive(Default)]
pub(crate) struct Plot {
    pub(crate) counter: OnceLock<Arc<Counter>>,
    /// Held by who reads it.
    pub(crate) reading: Mutex<()>,
    /// Events that were looked at so far.
    pub(crate) done: AtomicUsize,
}

/// A group that is not requested is not read on.
const FORGOTTEN: Duration = Duration::from_secs(5);

/// A group, as far as it was read. It is not read on when it is not kept any more.
pub(crate) struct GroupReading {
    pub(crate) groups: Arc<ValueGroups>,
    asked: Arc<Mutex<Instant>>,
}

impl GroupReading {
    pub(crate) fn new(groups: ValueGroups) -> GroupReading {
        GroupReading { groups: Arc::new(groups), asked: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Somebody asks for it.
    pub(crate) fn touch(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Says whether it is so long ago that somebody asked that it need not be read on.
    pub(crate) fn forgotten(&self) -> impl Fn() -> bool + Send + use<> {
        let asked = self.asked.clone();
        move || asked.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > FORGOTTEN
    }

    /// Was it given up?
    pub(crate) fn is_stopped(&self) -> bool {
        self.groups.progress.stop.load(Ordering::Relaxed)
    }
}

impl Drop for GroupReading {
    fn drop(&mut self) {
        self.groups.stop();
    }
}
