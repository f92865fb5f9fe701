//! How far a reading is, whether it is still wanted, and whether something else goes first.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far a reading is, and whether it is still wanted; shared between threads.
#[derive(Default)]
pub struct Progress {
    /// Events that were counted so far.
    pub counted: AtomicU64,
    /// Events that got their numbers so far.
    pub events: AtomicU64,
    /// Set to end the reading.
    pub stop: Arc<AtomicBool>,
    rest: Rest,
}

/// A rest that a reading takes.
#[derive(Default)]
struct Rest {
    /// Is there one? Readers ask often.
    is_on: AtomicBool,
    /// Was there one for a page already?
    was_once: AtomicBool,
    until: Mutex<Option<Instant>>,
    changed: Condvar,
}

/// How often a reading that rests looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

impl Progress {
    /// Something else goes first: the reading rests until then.
    pub fn rest_until(&self, time: Instant) {
        let mut until = self.rest.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Some(time);
        self.rest.is_on.store(true, Ordering::Relaxed);
    }

    /// As [`rest_until`](Progress::rest_until), but only the first time: repeated requests must not keep the reading
    /// from its end.
    pub fn rest_once_until(&self, time: Instant) {
        if !self.rest.was_once.swap(true, Ordering::Relaxed) {
            self.rest_until(time);
        }
    }

    /// Does the reading rest, when it looks next?
    pub fn is_resting(&self) -> bool {
        self.rest.is_on.load(Ordering::Relaxed)
    }

    /// A rest, if there is one, ends by then.
    pub fn rest_no_longer_than(&self, time: Instant) {
        let mut until = self.rest.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = until.map(|until| until.min(time));
        drop(until);
        self.rest.changed.notify_all();
    }

    /// Waits as long as the reading rests.
    #[inline]
    pub fn wait(&self) {
        if self.rest.is_on.load(Ordering::Relaxed) {
            self.wait_long();
        }
    }

    #[cold]
    fn wait_long(&self) {
        let mut until = self.rest.until.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(time) = *until {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stop.load(Ordering::Relaxed) {
                *until = None;
                self.rest.is_on.store(false, Ordering::Relaxed);
                break;
            }
            let waited = self.rest.changed.wait_timeout(until, left.min(LOOK));
            (until, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far enough for all that is done meanwhile.
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_reading_rests_until_it_is_told_or_stopped() {
        for is_stopped in [false, true] {
            let (progress, order) = (Progress::default(), Mutex::new(Vec::new()));
            progress.rest_until(Instant::now() + LONG);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    progress.wait();
                    order.lock().expect("nobody panics").push("read");
                });
                order.lock().expect("nobody panics").push("answered");
                match is_stopped {
                    true => progress.stop.store(true, Ordering::Relaxed),
                    false => progress.rest_no_longer_than(Instant::now()),
                }
            });
            assert_eq!(order.into_inner().expect("nobody panics"), ["answered", "read"]);
            // It is over, and no thread waits again.
            progress.wait();
        }
    }

    #[test]
    fn whoever_asks_again_gets_no_second_rest() {
        let progress = Progress::default();
        let until = || *progress.rest.until.lock().expect("nobody panics");
        let (first, second) = (Instant::now() + LONG, Instant::now() + 2 * LONG);
        progress.rest_once_until(first);
        progress.rest_once_until(second);
        assert_eq!(until(), Some(first));
        progress.rest_no_longer_than(Instant::now());
        progress.wait();
        progress.rest_once_until(second);
        assert_eq!(until(), None);
    }

    #[test]
    fn nothing_shortens_a_rest_that_is_none() {
        let progress = Progress::default();
        progress.rest_no_longer_than(Instant::now() + LONG);
        progress.wait();
        progress.rest_until(Instant::now());
        progress.wait();
    }
}
