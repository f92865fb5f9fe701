//! Errors and warnings that several readers of one session meet, collected once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracemill_model::error::Error;

/// Collects the errors and warnings of readers that run at the same time. Several of them may meet the same one, which is
/// kept once.
#[derive(Default)]
pub struct Collector(Mutex<Collected>);

#[derive(Default)]
struct Collected {
    faults: Vec<Error>,
    warnings: Vec<Error>,
    known: HashSet<String>,
    /// Errors that were met when no more were kept.
    more: u64,
}

/// Errors that are kept: more would not be read.
const MOST: usize = 10_000;

impl Collector {
    /// Keeps an error of reading.
    pub fn fault(&self, fault: Error) {
        let mut found = self.lock();
        if found.faults.len() >= MOST {
            found.more += 1;
        } else if found.known.insert(fault.to_string()) {
            found.faults.push(fault);
        }
    }

    /// Keeps a warning.
    pub fn warning(&self, warning: Error) {
        let mut found = self.lock();
        if found.warnings.len() < MOST && found.known.insert(warning.to_string()) {
            found.warnings.push(warning);
        }
    }

    /// Takes the errors and warnings out: in the order of files and packets, whatever the order in which they were met. The
    /// same ones are taken once, also when they are met again.
    pub fn take(&self) -> (Vec<Error>, Vec<Error>) {
        let mut found = self.lock();
        let (mut faults, mut warnings) = (std::mem::take(&mut found.faults), std::mem::take(&mut found.warnings));
        let more = std::mem::take(&mut found.more);
        drop(found);
        faults.sort_by_key(place);
        warnings.sort_by_key(place);
        if more > 0 {
            faults.push(Error::malformed(format!("{more} more errors were met and not kept")));
        }
        (faults, warnings)
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        // A reader that panics leaves whole errors behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an error stands. Those without a file come last.
fn place(error: &Error) -> (bool, Option<std::path::PathBuf>, Option<u64>, Option<u64>) {
    let place = error.place();
    (place.file.is_none(), place.file.clone(), place.packet, place.offset)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_error_is_kept_once_and_in_the_order_of_places() {
        let collector = Collector::default();
        let fault = |packet| Error::malformed("bad").in_file(Path::new("a")).in_packet(packet);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| [2, 1, 3].into_iter().for_each(|packet| collector.fault(fault(packet))));
            }
        });
        collector.warning(Error::malformed("odd"));
        let (faults, warnings) = collector.take();
        let packets: Vec<_> = faults.iter().filter_map(|fault| fault.place().packet).collect();
        assert_eq!((packets, warnings.len()), (vec![1, 2, 3], 1));
        collector.fault(fault(2));
        assert!(collector.take().0.is_empty(), "it was told before");
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let collector = Collector::default();
        (0..MOST as u64 + 5).for_each(|packet| collector.fault(Error::malformed("bad").in_packet(packet)));
        let (faults, _) = collector.take();
        assert_eq!(faults.len(), MOST + 1);
        assert_eq!(faults.last().map(Error::message), Some("5 more errors were met and not kept"));
    }
}
