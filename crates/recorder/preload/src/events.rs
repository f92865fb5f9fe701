//! Events of probes: records with the id of the event in place of an address.

use crate::enter::{count_unrecorded, enter_unrecorded, until_recorded};
use crate::local::{DatalessState, local};
use crate::record::RecordKind;
use crate::same_thread::SameThread;
use crate::thread::{Hook, OpenFrame, current};
use crate::{selective, settings, wakeup};

/// Records an event, where the stack of the program ends there. `false` when the slow path is needed.
///
/// # Safety
/// The thread is at a probe.
pub(crate) unsafe fn record(id: usize, stack: usize) -> bool {
    let Some(thread) = current() else {
        let is_over = enter_unrecorded();
        // It begins, or has ended.
        if is_over && settings::is_on() && local().state() == DatalessState::Off {
            wakeup::count_missed();
        }
        return is_over;
    };
    if thread.busy.get() != 0 {
        match thread.is_ringless.get() || thread.is_strict.get() {
            true => count_unrecorded(thread),
            false => wakeup::count_missed(),
        }
        return true;
    }
    // Calls that were left without a return, as the stack shows. Functions that report their end themselves are known to be
    // somewhere near their place only.
    loop {
        // SAFETY: nothing is read there.
        let is_dead = unsafe { thread.has_dead(stack, Hook::Instrumented) };
        if !is_dead || thread.top().is_none_or(OpenFrame::is_instrumented) {
            break;
        }
        thread.over.set(0);
        if !thread.close(None) {
            return false;
        }
    }
    if thread.is_selective {
        if !selective::is_recording() {
            return true;
        }
        if !selective::flush(thread, thread.depth.get()) {
            return false;
        }
    }
    thread.record(RecordKind::Event, 0, id)
}

/// As [`record`], after vector registers were put aside.
///
/// # Safety
/// As for [`record`].
pub(crate) unsafe fn slow_record(id: usize, stack: usize) {
    // SAFETY: the caller's.
    until_recorded(1, || unsafe { record(id, stack) });
}
