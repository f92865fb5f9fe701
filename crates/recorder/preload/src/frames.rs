//! Frames of open calls, and their return addresses on the program's stack.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::same_thread::SameThread;
use crate::thread::{Hook, OpenFrame, StartedCall, ThreadData, current};

/// Frames that stand this far apart, outside of the thread's stack, are on one stack all the same.
const NEAR: usize = 1 << 20;

unsafe extern "C" {
    /// Where functions return to whose return address was replaced; it is in `stubs`.
    #[link_name = "tracemill_calls_returned"]
    fn returned();
}

/// The address that stands in place of return addresses.
fn replacement() -> usize {
    returned as *const () as usize
}

/// The return address of the program that stood where this one was read, which may be ours.
pub(crate) fn original_return(returns: usize) -> usize {
    let Some(thread) = current().filter(|_| returns == replacement()) else { return returns };
    // A function that another one ended in has the address of that.
    let mut own = thread.returning().rev().map(|frame| frame.returns.get());
    own.find(|returns| *returns != replacement()).unwrap_or(returns)
}

impl OpenFrame {
    /// Puts the return address back. Where it was ours, that is: what stands in the place of a frame that was left without
    /// a return may belong to another one.
    ///
    /// # Safety
    /// The frame is live, or its place is still on the stack.
    pub(crate) unsafe fn put_back(&self) {
        let place = self.place.get() as *mut usize;
        // SAFETY: the caller's.
        unsafe {
            if *place == replacement() {
                *place = self.returns.get();
            }
        }
    }

    /// Replaces the return address again. Where it stands there still, that is: a function that reports its end itself is
    /// known to be somewhere near its place only, so a frame below that may be dead and not be known to be.
    ///
    /// # Safety
    /// As for [`OpenFrame::put_back`].
    pub(crate) unsafe fn take_again(&self) {
        let place = self.place.get() as *mut usize;
        // SAFETY: the caller's.
        unsafe {
            if *place == self.returns.get() {
                *place = replacement();
            }
        }
    }
}

impl ThreadData {
    /// The frames of open calls that end by a return, the outermost first.
    pub(crate) fn returning(&self) -> impl DoubleEndedIterator<Item = &OpenFrame> {
        (0..self.depth.get()).map(|at| self.frame(at)).filter(|frame| !frame.is_instrumented())
    }

    /// Was the innermost call left without a return, as another one that is at `place` shows?
    ///
    /// # Safety
    /// With [`Hook::Returns`] a function was just called there, so that its return address can be read.
    #[inline(always)]
    pub(crate) unsafe fn has_dead(&self, place: usize, hook: Hook) -> bool {
        let Some(top) = self.top() else { return false };
        let top_place = top.place.get();
        let is_on_stack = |place: usize| (self.stack[0]..self.stack[1]).contains(&place);
        let are_near = match (is_on_stack(top_place), is_on_stack(place)) {
            (true, true) => true,
            (false, false) => top_place.abs_diff(place) < NEAR,
            // A signal handler on a stack of its own.
            _ => false,
        };
        if !are_near {
            return false;
        }
        if hook == Hook::Guessed {
            return top_place <= place;
        }
        // A function that another one ended in has the same place, with our address in it.
        let is_same = hook == Hook::Returns && !top.is_instrumented() && top_place == place;
        // SAFETY: the caller's.
        top_place < place || is_same && unsafe { *(place as *const usize) } != replacement()
    }

    /// Opens a call.
    ///
    /// # Safety
    /// The call is live, so its return address can be read and replaced; there is room for its frame.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, StartedCall { place, address, hook, .. }: StartedCall<'_>) {
        let depth = self.depth.get();
        // SAFETY: the caller's.
        let returns = if hook == Hook::Returns { unsafe { *(place as *const usize) } } else { 0 };
        let frame = self.frame(depth);
        frame.set(returns, place, address);
        compiler_fence(Ordering::SeqCst);
        // Calls of a signal handler stand after this one from here on.
        self.depth.set(depth + 1);
        compiler_fence(Ordering::SeqCst);
        // Again: a handler that came before may have had its own there.
        frame.set(returns, place, address);
        if hook == Hook::Returns {
            // SAFETY: the caller's.
            unsafe { *(place as *mut usize) = replacement() };
        }
    }
}
