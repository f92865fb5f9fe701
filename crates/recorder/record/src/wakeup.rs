//! The word by which threads of other processes wake who empties their rings, and that by which it wakes them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracemill_ring::header;

use crate::local::system;
use crate::ring::Mapping;

/// A bell, in a file of a folder of rings.
#[derive(Debug)]
pub struct Bell(Mapping);

impl Bell {
    /// Makes one in a folder of rings.
    ///
    /// # Errors
    /// When the file cannot be made; then there is none. A file without a block would end programs that write to it.
    pub fn make(folder: &Path) -> io::Result<()> {
        let path = folder.join(header::BELL);
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        let made = Mapping::new(&file, header::BELL_LEN as u64).map(drop);
        made.inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })
    }

    /// Finds that of a folder of rings.
    ///
    /// # Errors
    /// When there is none, or no memory.
    pub fn open(folder: &Path) -> io::Result<Bell> {
        let file = File::options().read(true).write(true).open(folder.join(header::BELL))?;
        Ok(Bell(Mapping::new(&file, header::BELL_LEN as u64)?))
    }

    /// How often it rang.
    pub fn signal_count(&self) -> u32 {
        self.0.u32(header::RUNG).load(Ordering::SeqCst)
    }

    /// Sleeps so long, or until it has rung more than `rung` times.
    pub fn sleep(&self, rung: u32, time: Duration) {
        let sleeps = self.0.u32(header::SLEEPS);
        sleeps.store(1, Ordering::SeqCst);
        system::wait_shared(self.0.u32(header::RUNG), rung, time);
        sleeps.store(0, Ordering::SeqCst);
    }

    /// The number of threads that have no ring, and that of their calls.
    pub fn ringless(&self) -> (u32, u64) {
        let threads = self.0.u32(header::RINGLESS).load(Ordering::Relaxed);
        (threads, self.0.u64(header::UNRECORDED).load(Ordering::Relaxed))
    }

    /// The number of calls of threads in seccomp's strict mode.
    pub fn strict_calls(&self) -> u64 {
        self.0.u64(header::STRICT_CALLS).load(Ordering::Relaxed)
    }

    /// The number of functions that were patched, and that of those that have no room for it.
    pub fn patches(&self) -> (u64, u64) {
        let count = |at: usize| self.0.u64(at).load(Ordering::Relaxed);
        (count(header::PATCHED), count(header::UNPATCHABLE))
    }

    /// The numbers of functions that were to be patched and stay as they are, by reason.
    pub fn left_functions<const REASONS: usize>(&self) -> [u64; REASONS] {
        std::array::from_fn(|why| self.0.u64(header::LEFT_FUNCTIONS + 8 * why).load(Ordering::Relaxed))
    }

    /// The numbers of places of probes that became a jump, that became a trap, and that stay as they are; and of events that
    /// came while their thread was in the recorder.
    pub fn probes(&self) -> [u64; 4] {
        let all = [header::PROBE_JUMPS, header::PROBE_TRAPS, header::PROBES_LEFT, header::EVENTS_MISSED];
        all.map(|at| self.0.u64(at).load(Ordering::Relaxed))
    }

    /// Were there calls too deep to be recorded?
    pub fn is_too_deep(&self) -> bool {
        self.0.u32(header::TOO_DEEP).load(Ordering::Relaxed) != 0
    }

    /// Tells threads that wait that there is room.
    pub fn signal_room(&self) {
        let moved = self.0.u32(header::MOVED);
        moved.fetch_add(1, Ordering::SeqCst);
        if self.0.u32(header::WAITING).load(Ordering::SeqCst) != 0 {
            system::wake_shared(moved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rang_before_the_sleep_is_heard() -> io::Result<()> {
        let folder = std::env::temp_dir().join(format!("tracemill-bell-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        assert!(Bell::open(&folder).is_err() && Bell::make(&folder.join("none")).is_err());
        Bell::make(&folder)?;
        assert!(Bell::make(&folder).is_err());
        let (bell, theirs) = (Bell::open(&folder)?, Bell::open(&folder)?);
        let rung = bell.signal_count();
        theirs.0.u32(header::RUNG).fetch_add(1, Ordering::SeqCst);
        // It would be an hour.
        bell.sleep(rung, Duration::from_secs(3600));
        assert_eq!((bell.signal_count(), theirs.0.u32(header::SLEEPS).load(Ordering::SeqCst)), (rung + 1, 0));
        let thread = std::thread::spawn(move || {
            while theirs.0.u32(header::SLEEPS).load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            // Until it wakes: it says that it sleeps a moment before it does.
            while theirs.0.u32(header::SLEEPS).load(Ordering::SeqCst) == 1 {
                theirs.0.u32(header::RUNG).fetch_add(1, Ordering::SeqCst);
                system::wake_shared(theirs.0.u32(header::RUNG));
            }
        });
        bell.sleep(bell.signal_count(), Duration::from_secs(3600));
        assert!(thread.join().is_ok() && bell.signal_count() > rung + 1);
        bell.signal_room();
        assert_eq!(bell.0.u32(header::MOVED).load(Ordering::SeqCst), 1);
        std::fs::remove_dir_all(folder)
    }
}
