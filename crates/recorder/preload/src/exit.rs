//! The ends of calls: returns, what the program reports, and calls that are found to be over.

use crate::record::RecordKind;
use crate::same_thread::SameThread;
use crate::saved::Saved;
use crate::settings::SETTINGS;
use crate::thread::{Hook, ThreadData, current};
use crate::{selective, system};

impl ThreadData {
    /// Ends the innermost call, with what the stub saved of its result. `false` when there is no room for its records.
    #[inline(always)]
    pub(crate) fn close(&self, saved: Option<&Saved>) -> bool {
        if self.is_selective {
            return selective::close(self, saved);
        }
        let at = self.depth.get() - 1;
        if self.busy.get() == 0 && !self.record(RecordKind::Exit, at, self.frame(at).address.get()) {
            return false;
        }
        self.depth.set(at);
        true
    }

    /// Ends calls that were left without a return, as another one that is at `place` shows. `false` when there is no room for
    /// their records.
    ///
    /// # Safety
    /// As for [`ThreadData::has_dead`].
    #[inline(always)]
    pub(crate) unsafe fn close_dead(&self, place: usize, hook: Hook) -> bool {
        // SAFETY: the caller's.
        while unsafe { self.has_dead(place, hook) } {
            self.over.set(0);
            if !self.close(None) {
                return false;
            }
        }
        true
    }
}

/// A function returns, whose return address stood there. Gives where it returns to, or 0 when the slow path is needed.
pub(crate) unsafe extern "C" fn exit(saved: &Saved) -> usize {
    let Some(thread) = current() else { std::process::abort() };
    loop {
        // Every frame whose return address was replaced is there.
        let Some(top) = thread.top() else { std::process::abort() };
        let (place, returns) = (top.place.get(), top.returns.get());
        if !thread.close(Some(saved).filter(|saved| saved.place == place)) {
            return 0;
        }
        // Calls above it were left in another way.
        if place == saved.place {
            return returns;
        }
    }
}

/// As [`exit`], after vector registers were put aside.
pub(crate) unsafe extern "C" fn slow_exit(saved: &Saved) -> usize {
    let Some(thread) = current() else { std::process::abort() };
    system::keeping_errno(|| {
        loop {
            if !thread.next_slot() {
                // Not recorded: the call ends all the same.
                thread.count_lost(1);
                // SAFETY: the caller's.
                return thread.while_busy(|| unsafe { exit(saved) });
            }
            // SAFETY: the caller's.
            let returns = unsafe { exit(saved) };
            if returns != 0 {
                return returns;
            }
        }
    })
}

/// A function built with `-finstrument-functions` is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cyg_profile_func_exit(function: usize, _call_site: usize) {
    let Some(thread) = current().filter(|thread| thread.busy.get() == 0) else { return };
    let over = thread.over.get();
    if over > 0 {
        thread.over.set(over - 1);
        return;
    }
    // Not there: its entry was not recorded.
    let Some(at) = (0..thread.depth.get()).rev().find(|&at| thread.frame(at).address.get() == function) else { return };
    if !thread.frame(at).is_instrumented() {
        return;
    }
    while thread.depth.get() > at {
        while !thread.close(None) {
            if !system::keeping_errno(|| thread.next_slot()) {
                thread.count_lost(1);
                thread.while_busy(|| thread.close(None));
                break;
            }
        }
    }
}

/// The process or the thread ends: calls whose ends are guessed end with it.
pub(crate) fn end_guessed() {
    if let Some(thread) = current().filter(|thread| thread.is_selective && SETTINGS.guesses.get()) {
        while thread.depth.get() > 0 && (thread.close(None) || thread.next_slot()) {}
    }
}
