//! The settings of the recorder, from the environment.

use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use crate::system;

/// The settings that the environment has.
pub(crate) struct PreloadSettings {
    pub(crate) slot_size: AtomicUsize,
    pub(crate) depth: AtomicUsize,
    /// Is it said when calls are deeper?
    pub(crate) tells_depth: AtomicBool,
    pub(crate) waits: AtomicBool,
    /// Bytes of the slots of a ring that has grown, at most; 0 when rings do not grow.
    pub(crate) largest: AtomicUsize,
    clock: AtomicI32,
    /// Are calls selected one by one?
    pub(crate) is_selective: AtomicBool,
    /// Are ends of calls guessed?
    pub(crate) guesses: AtomicBool,
    /// Depth below what is let in.
    pub(crate) nesting: AtomicUsize,
    /// Shortest time of a call, in counts of the clock.
    pub(crate) time: AtomicU64,
    /// Smallest size of a function.
    pub(crate) size: AtomicU64,
}

impl PreloadSettings {
    /// The clock of the lines of sessions and tasks, as the system numbers it.
    pub(crate) fn clock(&self) -> c_int {
        self.clock.load(Ordering::Relaxed)
    }
}

pub(crate) static SETTINGS: PreloadSettings = PreloadSettings {
    slot_size: AtomicUsize::new(128 << 10),
    depth: AtomicUsize::new(1024),
    tells_depth: AtomicBool::new(false),
    waits: AtomicBool::new(true),
    largest: AtomicUsize::new(0),
    clock: AtomicI32::new(1),
    is_selective: AtomicBool::new(false),
    guesses: AtomicBool::new(false),
    nesting: AtomicUsize::new(usize::MAX),
    time: AtomicU64::new(0),
    size: AtomicU64::new(0),
};

static IS_ON: AtomicBool = AtomicBool::new(false);
static RECORDER: AtomicI32 = AtomicI32::new(0);

/// A text that is set once, at the start.
pub(crate) struct Path(std::cell::UnsafeCell<[u8; 512]>, AtomicUsize);

// SAFETY: written by the constructor, before there are threads.
unsafe impl Sync for Path {}

impl Path {
    pub(crate) const fn new() -> Path {
        Path(std::cell::UnsafeCell::new([0; 512]), AtomicUsize::new(0))
    }

    pub(crate) fn set(&self, bytes: &[u8]) -> bool {
        if bytes.len() > 400 {
            return false;
        }
        // SAFETY: the constructor writes before there are other threads, and the length was looked at.
        unsafe { (&mut *self.0.get())[..bytes.len()].copy_from_slice(bytes) };
        self.1.store(bytes.len(), Ordering::Release);
        true
    }

    pub(crate) fn get(&self) -> &[u8] {
        // SAFETY: it is not written any more once the length is there.
        unsafe { &(&*self.0.get())[..self.1.load(Ordering::Acquire)] }
    }
}

static FOLDER: Path = Path::new();
static RINGS: Path = Path::new();

/// Are calls recorded?
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Begins to record calls.
pub(crate) fn switch_on() {
    IS_ON.store(true, Ordering::Release);
}

/// The folder of the recording.
pub(crate) fn folder() -> &'static [u8] {
    FOLDER.get()
}

/// The folder of rings.
pub(crate) fn ring_folder() -> &'static [u8] {
    RINGS.get()
}

/// Does the recorder live?
pub(crate) fn has_recorder() -> bool {
    system::is_process(RECORDER.load(Ordering::Relaxed))
}

/// A number of the environment.
pub(crate) fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Takes the settings of the environment, for a recording in this folder. `false` when a path is too long.
pub(crate) fn load(folder: &OsStr) -> bool {
    SETTINGS.clock.store(number("TRACEMILL_CALLS_CLOCK").unwrap_or(1) as c_int, Ordering::Relaxed);
    let rings = std::env::var_os("TRACEMILL_CALLS_RINGS").unwrap_or_default();
    if !FOLDER.set(folder.as_bytes()) || !RINGS.set(rings.as_bytes()) {
        return false;
    }
    if let Some(size) = number("TRACEMILL_CALLS_SLOT").filter(|size| size.is_power_of_two() && *size >= 4096) {
        SETTINGS.slot_size.store(size, Ordering::Relaxed);
    }
    if let Some(depth) = number("TRACEMILL_CALLS_DEPTH") {
        SETTINGS.depth.store(depth, Ordering::Relaxed);
    }
    SETTINGS.tells_depth.store(number("TRACEMILL_CALLS_TELLS_DEPTH").is_some(), Ordering::Relaxed);
    SETTINGS.largest.store(number("TRACEMILL_CALLS_LARGEST").unwrap_or(0), Ordering::Relaxed);
    SETTINGS.waits.store(number("TRACEMILL_CALLS_LOSE").is_none(), Ordering::Relaxed);
    system::HAS_COUNTER.store(u32::from(number("TRACEMILL_CALLS_SYSTEM_CLOCK").is_none()), Ordering::Relaxed);
    RECORDER.store(number("TRACEMILL_CALLS_RECORDER").unwrap_or(0) as i32, Ordering::Relaxed);
    let set = |place: &AtomicU64, name: &str| place.store(number(name).unwrap_or(0) as u64, Ordering::Relaxed);
    set(&SETTINGS.time, "TRACEMILL_CALLS_TIME");
    set(&SETTINGS.size, "TRACEMILL_CALLS_SIZE");
    SETTINGS.nesting.store(number("TRACEMILL_CALLS_NESTING").unwrap_or(usize::MAX), Ordering::Relaxed);
    SETTINGS.is_selective.store(number("TRACEMILL_CALLS_FULL").is_some(), Ordering::Relaxed);
    SETTINGS.guesses.store(number("TRACEMILL_CALLS_GUESS").is_some(), Ordering::Relaxed);
    true
}
