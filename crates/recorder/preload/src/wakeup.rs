//! The word by which threads wake the recorder, and that by which it wakes them. Without it both look again after a while.
//! Beside them is counted what no ring can count.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::system::{self, StackText};
use crate::{layout, table};

static WORDS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Finds the file of words in the folder of rings.
pub(crate) unsafe fn find(rings: &[u8]) {
    let name = StackText::new().add(rings).add(b"/").add(layout::BELL.as_bytes());
    // SAFETY: the name is a whole text; a file of the recorder of this length is mapped.
    unsafe {
        let file = system::open(name.as_ptr(), system::O_RDWR_CLOEXEC);
        if file < 0 {
            return;
        }
        // It holds as long as the mapping does, here and in processes that are made of this one: the rings are in use.
        system::flock(file, system::LOCK_SHARED_NOW);
        let protection = system::PROT_READ_WRITE;
        let base = system::mmap(std::ptr::null_mut(), layout::BELL_LEN, protection, system::MAP_SHARED, file, 0);
        system::close(file);
        if base as isize != -1 {
            WORDS.store(base.cast(), Ordering::Release);
        }
    }
}

fn word(at: usize) -> Option<&'static AtomicU32> {
    let base = WORDS.load(Ordering::Acquire);
    // SAFETY: the mapping is as long as the constants say, and stays.
    (!base.is_null()).then(|| unsafe { AtomicU32::from_ptr(base.add(at).cast()) })
}

/// Counts a thread that has no ring.
pub(crate) fn count_thread() {
    if let Some(threads) = word(layout::RINGLESS) {
        threads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call of such a thread.
pub(crate) fn count_call() {
    count(layout::UNRECORDED);
}

/// Counts a call of a thread in seccomp's strict mode.
pub(crate) fn count_strict_call() {
    count(layout::STRICT_CALLS);
}

/// Counts a function that `-P` names: was it patched, or has it no room for that?
pub(crate) fn count_patch(is_patched: bool) {
    count(if is_patched { layout::PATCHED } else { layout::UNPATCHABLE });
}

/// Counts a function that `-P` names and that stays as it is, by the number of the reason.
pub(crate) fn count_left(why: u64) {
    if let Some(why) = usize::try_from(why).ok().filter(|&why| why < table::LEFT_REASONS) {
        count(layout::LEFT_FUNCTIONS + 8 * why);
    }
}

/// Counts an event that comes while its thread is in the recorder.
pub(crate) fn count_missed() {
    count(layout::EVENTS_MISSED);
}

/// The fate of a place of a probe.
#[derive(Clone, Copy)]
pub(crate) enum ProbeFate {
    /// It became a jump.
    Jump,
    /// It became a trap.
    Trap,
    /// It stays as it is.
    Left,
}

/// Counts a place of a probe.
pub(crate) fn count_probe(fate: ProbeFate) {
    count(match fate {
        ProbeFate::Jump => layout::PROBE_JUMPS,
        ProbeFate::Trap => layout::PROBE_TRAPS,
        ProbeFate::Left => layout::PROBES_LEFT,
    });
}

fn count(at: usize) {
    let base = WORDS.load(Ordering::Acquire);
    if !base.is_null() {
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(base.add(at).cast()) }.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tells that calls are deeper than what is recorded.
pub(crate) fn signal_depth() {
    if let Some(is_deep) = word(layout::TOO_DEEP) {
        is_deep.store(1, Ordering::Relaxed);
    }
}

/// Has the recorder look at once.
pub(crate) fn wake_recorder() {
    let (Some(rung), Some(sleeps)) = (word(layout::RUNG), word(layout::SLEEPS)) else { return };
    rung.fetch_add(1, Ordering::SeqCst);
    if sleeps.load(Ordering::SeqCst) != 0 {
        // SAFETY: the mapping stays.
        unsafe { system::wake(rung.as_ptr()) };
    }
}

/// Waits until the recorder has taken more than `before` of a ring, a millisecond at most.
pub(crate) fn wait(taken: &AtomicU64, before: u64) {
    let (Some(moved), Some(waiting)) = (word(layout::MOVED), word(layout::WAITING)) else {
        // SAFETY: the caller's number lives; its first half is the one that changes.
        return unsafe { system::wait(taken.as_ptr().cast(), before as u32) };
    };
    waiting.fetch_add(1, Ordering::SeqCst);
    let known = moved.load(Ordering::SeqCst);
    if taken.load(Ordering::SeqCst) == before {
        // SAFETY: the mapping stays.
        unsafe { system::wait(moved.as_ptr(), known) };
    }
    waiting.fetch_sub(1, Ordering::SeqCst);
}
