//! The safe half of the library for C programs, whose other half is the crate `tracemill-record-c`.
//!
//! A C program has the way of an event into a ring as inline functions of its header. It asks here for what is rare: its
//! events made known, a thread's writer, the next slot.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::error::StartError;
use crate::field::LONGEST_TEXT;
use crate::handle::{self, Recorder};
use crate::local::process;
use crate::options::Options;
use crate::recorder::{self, Summary};
use crate::ring::Reserve;
use crate::{clock, local};

pub use self::event::{CEvent, CField, StatePlace};

pub(crate) mod event;

/// The facts of the process that a site needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Where a thread keeps the pointer to its writer, from the thread pointer on; 0 when it has to ask.
    pub thread: isize,
    /// Is the clock the counter of the processor?
    pub has_counter: bool,
    /// Longest text in bytes.
    pub longest_text: u32,
}

/// The process, as a site that is registered next needs it.
pub fn process() -> Process {
    Process {
        thread: local::c::place(),
        has_counter: clock::is_counter(),
        longest_text: LONGEST_TEXT.load(Ordering::Relaxed).try_into().unwrap_or(u32::MAX),
    }
}

/// Makes an event known, or asks again whether it is on. Its state is stored, and given: 0 when this time it is discarded.
pub fn register(place: StatePlace, event: &CEvent<'_>) -> u32 {
    recorder::register_place(place, event).unwrap_or(0)
}

/// Forgets the place of an event. Nothing is stored there any more.
pub fn forget(place: StatePlace) {
    recorder::forget_place(place);
}

/// The writer of the calling thread, which gets one if it has none. Null when it cannot record; the event is counted then.
pub fn thread() -> *const u8 {
    let writer = local::writer().or_else(recorder::give_writer);
    writer.map_or(std::ptr::null(), |writer| std::ptr::from_ref(writer).cast())
}

/// Makes room for an event of the calling thread, which is inside of it: 1. 0 when it is not to be written, 2 when the state
/// of its place may be of an earlier recording.
pub fn make_room(len: u64, clock: u64) -> u32 {
    match local::writer().map_or(Reserve::None, |writer| writer.make_room(len, clock)) {
        Reserve::None => 0,
        Reserve::Made => 1,
        Reserve::Retry => 2,
    }
}

/// The time now, in cycles.
pub fn now() -> u64 {
    clock::now()
}

/// Begins to record. It ends by [`stop`], or with the process.
///
/// # Errors
/// The errors of [`Options::start`].
pub fn start(options: Options) -> Result<(), StartError> {
    process::uncancelled(|| options.start().map(std::mem::forget))
}

fn current() -> io::Result<std::mem::ManuallyDrop<Recorder>> {
    handle::current().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "nothing is recorded"))
}

/// Ends recording.
///
/// # Errors
/// When there is no recording, and those of [`Recorder::finish`].
pub fn stop() -> io::Result<Summary> {
    let recorder = std::mem::ManuallyDrop::into_inner(current()?);
    process::uncancelled(|| recorder.finish())
}

/// Copies what is recorded so far.
///
/// # Errors
/// When there is no recording, and those of [`Recorder::snapshot`].
pub fn snapshot(path: &Path) -> io::Result<()> {
    let recorder = current()?;
    process::uncancelled(|| recorder.snapshot(path))
}

/// Finishes the trace and goes on in another folder.
///
/// # Errors
/// When there is no recording, and those of [`Recorder::rotate`].
pub fn rotate(path: &Path) -> io::Result<Summary> {
    let recorder = current()?;
    process::uncancelled(|| recorder.rotate(path))
}

/// Events that were discarded so far. `None` when there is no recording.
pub fn discarded() -> Option<u64> {
    current().ok().map(|recorder| recorder.discarded())
}
