//! The safe half of the library for C programs, whose other half is the crate `tracemill-record-c`.
//!
//! A C program has the way of an event into a ring as inline functions of its header. It asks here for what is rare: its
//! events made known, a thread's writer, the next slot.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::encoded::{DecodedFields, Encoded};
use crate::error::StartError;
use crate::field::LONGEST_TEXT;
use crate::handle::{self, Recorder};
use crate::local::{process, scratch};
use crate::options::Options;
use crate::recorder::{self, Summary};
use crate::ring::Reserve;
use crate::site::record::write;
use crate::site::special::Way;
use crate::{clock, local};

pub use self::event::{CEvent, CField, StatePlace};
pub use crate::local::scratch::free;

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

/// Records an event of a place whose state says that it needs more than to be written. Its fields are encoded. `event` describes
/// it, which is asked for only if the recorder has changed its mind; `frame` is the frame pointer of the function that records.
pub fn record_special<'a>(place: StatePlace, event: impl Fn() -> Option<CEvent<'a>>, bytes: &[u8], frame: usize) {
    loop {
        let state = match place.0.load(Ordering::Acquire) {
            0 => event().map_or(1, |event| register(place, &event)),
            state => state,
        };
        let is_done = match Way::of_state(state) {
            None => return,
            Some(Way::Special(special)) => special.write(&DecodedFields { classes: &special.classes, bytes }, frame),
            Some(Way::Plain(id)) => write(id, &Encoded(bytes)),
        };
        if is_done {
            return;
        }
    }
}

/// Memory for the fields of an event, which signal handlers may ask for, too. Null when no event is so long, or when there is
/// none; the event is counted then.
pub fn allocate(len: u64) -> *mut u8 {
    let longest = *tracemill_ring::header::SLOT_SIZES.end();
    let pages = if len <= longest { scratch::allocate(len as usize) } else { std::ptr::null_mut() };
    if pages.is_null() {
        recorder::count_unplaced();
    }
    pages
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

/// Ends recording. One that somebody ended by the socket is ended once more without an error.
///
/// # Errors
/// When there is no recording, and those of [`Recorder::finish`].
pub fn stop() -> io::Result<Summary> {
    match current() {
        Ok(recorder) => process::uncancelled(|| std::mem::ManuallyDrop::into_inner(recorder).finish()),
        Err(none) => process::uncancelled(recorder::take_ended).unwrap_or(Err(none)),
    }
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
