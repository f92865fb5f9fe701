//! The beginnings of calls.

use std::arch::naked_asm;

use crate::local::{DatalessState, local};
use crate::record::{RECORD, RecordKind};
use crate::same_thread::SameThread;
use crate::saved::Saved;
use crate::settings::{self, SETTINGS};
use crate::thread::{Hook, StartedCall, ThreadData, current};
use crate::{lifetime, selective, system, wakeup};

/// A function was entered: where its return address stands, and an address in it. Not 0 when the slow path is needed.
pub(crate) unsafe extern "C" fn entry(saved: &Saved) -> usize {
    let call = StartedCall {
        place: saved.place,
        address: saved.address,
        hook: Hook::Returns,
        saved: Some(saved),
        is_library: false,
    };
    // SAFETY: the stub's caller is a function that has just begun, and its return address stands there.
    usize::from(unsafe { !enter(call) })
}

/// As [`entry`], after vector registers were put aside.
pub(crate) unsafe extern "C" fn slow_entry(saved: &Saved) -> usize {
    let call = StartedCall {
        place: saved.place,
        address: saved.address,
        hook: Hook::Returns,
        saved: Some(saved),
        is_library: false,
    };
    // SAFETY: as in `entry`.
    unsafe { slow_enter(call) };
    0
}

/// As [`entry`], of a call to a library.
pub(crate) unsafe extern "C" fn library_entry(saved: &Saved) -> usize {
    if is_unwinding(saved) {
        return 0;
    }
    // SAFETY: the stub's caller is a trampoline: it looks like a function that has just begun.
    usize::from(unsafe { !enter(library_call(saved)) })
}

/// As [`slow_entry`], of a call to a library.
pub(crate) unsafe extern "C" fn slow_library_entry(saved: &Saved) -> usize {
    if !is_unwinding(saved) {
        // SAFETY: as in `library_entry`.
        unsafe { slow_enter(library_call(saved)) };
    }
    0
}

fn library_call(saved: &Saved) -> StartedCall<'_> {
    let (place, address) = (saved.place, saved.address);
    StartedCall { place, address, hook: Hook::Returns, saved: Some(saved), is_library: true }
}

/// Is a call to a library one of an unwinder that looks at the stack? Return addresses must stay what it expects.
fn is_unwinding(saved: &Saved) -> bool {
    current().is_some_and(|thread| thread.is_put_back.get() && saved.place < thread.unwinder.get())
}

/// A function built with `-finstrument-functions` was entered. It calls this itself, so the place of this call is one of its
/// frame: what the function calls then stands there, or below.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cyg_profile_func_enter() {
    naked_asm!("mov rsi, rsp", "jmp {enter}", enter = sym enter_instrumented)
}

/// Begins a call of a function that reports its end.
unsafe extern "C" fn enter_instrumented(function: usize, place: usize) {
    let call = StartedCall { place, address: function, hook: Hook::Instrumented, saved: None, is_library: false };
    // SAFETY: the place is on the stack of this thread.
    unsafe {
        if !enter(call) {
            slow_enter(call);
        }
    }
}

/// Begins a call. `false` when the slow path is needed: the thread begins, or there is no room.
///
/// # Safety
/// The call is live: its place, and with [`Hook::Returns`] its return address, can be read and replaced.
#[inline(always)]
unsafe fn enter(call: StartedCall<'_>) -> bool {
    let Some(thread) = current() else { return enter_unrecorded() };
    if thread.busy.get() != 0 {
        count_unrecorded(thread);
        return true;
    }
    // The ends of calls to libraries are known all the same, as with uftrace.
    let guesses = thread.is_selective && !call.is_library && SETTINGS.guesses.get();
    let is_guessed = guesses && call.hook == Hook::Returns;
    let call = if is_guessed { StartedCall { hook: Hook::Guessed, ..call } } else { call };
    // SAFETY: the caller's.
    unsafe {
        if thread.is_put_back.get() && !thread.take_again(call.place) {
            return false;
        }
        // A new frame below what is left, or one that stands where a dead one stood.
        if !thread.close_dead(call.place, call.hook) {
            return false;
        }
        if thread.depth.get() >= thread.limit.get() {
            enter_beyond(thread, call);
            return true;
        }
        if thread.is_selective { selective::enter(thread, call) } else { enter_plainly(thread, call) }
    }
}

/// A call of a thread that has no data. `false` when it gets some now.
pub(crate) fn enter_unrecorded() -> bool {
    match local().state() {
        DatalessState::New => !settings::is_on(),
        // A handler of a signal may have begun the thread meanwhile.
        DatalessState::Off => current().is_none(),
        DatalessState::Ringless => {
            wakeup::count_call();
            true
        }
        DatalessState::Strict => {
            wakeup::count_strict_call();
            true
        }
    }
}

/// A call while the thread is busy: for ever, or for a moment.
pub(crate) fn count_unrecorded(thread: &ThreadData) {
    if thread.is_strict.get() {
        wakeup::count_strict_call();
    } else if thread.is_ringless.get() {
        wakeup::count_call();
    }
}

/// A call that is deeper than what is recorded.
fn enter_beyond(thread: &ThreadData, call: StartedCall<'_>) {
    if thread.tells_depth.get() && (!thread.is_selective || selective::would_record(thread, call.address)) {
        thread.tells_depth.set(false);
        wakeup::signal_depth();
    }
    if call.hook == Hook::Instrumented {
        // Its end is reported as well.
        thread.over.change(|over| over + 1);
    }
}

/// A call where all are recorded alike. `false` when there is no room.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
unsafe fn enter_plainly(thread: &ThreadData, call: StartedCall<'_>) -> bool {
    if !thread.has_room(RECORD) {
        return false;
    }
    let depth = thread.depth.get();
    // SAFETY: the caller's; the depth is below the limit.
    unsafe { thread.push(call) };
    if !thread.record(RecordKind::Entry, depth, call.address) {
        // A handler took the last place.
        thread.count_lost(1);
    }
    true
}

/// Begins a call after vector registers were put aside: first the thread, or the next slot.
///
/// # Safety
/// As for [`enter`].
unsafe fn slow_enter(call: StartedCall<'_>) {
    // Without room neither its entry nor its exit are recorded.
    // SAFETY: the caller's.
    until_recorded(2, || unsafe { enter(call) });
}

/// Tries again until something is recorded, which makes the data of the thread, or the next slot. Where there is no room, so
/// many records are lost.
pub(crate) fn until_recorded(records: u64, is_recorded: impl Fn() -> bool) {
    system::keeping_errno(|| {
        while !is_recorded() {
            let Some(thread) = current() else {
                lifetime::begin();
                continue;
            };
            if !thread.next_slot() {
                thread.count_lost(records);
                break;
            }
        }
    });
}
