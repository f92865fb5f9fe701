//! Unwinders read return addresses: they must find the program's own.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::same_thread::SameThread;
use crate::system;
use crate::thread::{Hook, OpenFrame, ThreadData, current};

/// The functions that stand before those of the program's libraries, in the order of their numbers.
const NAMES: [&CStr; 8] = [
    c"_Unwind_RaiseException",
    c"_Unwind_ForcedUnwind",
    c"_Unwind_Resume",
    c"_Unwind_Backtrace",
    c"backtrace",
    c"__cxa_begin_catch",
    c"pthread_exit",
    c"_Unwind_Resume_or_Rethrow",
];
/// The number of the function that ends a thread.
const EXIT: usize = 6;
/// The number of the function that begins to handle an exception: unwinding is over.
const CATCH: usize = 5;

static REAL: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

/// Makes the stack one that function `number` can read, and gives its address. `stack` is where its return address stands.
pub(crate) unsafe extern "C" fn prepare(stack: usize, number: usize) -> *mut c_void {
    system::keeping_errno(|| {
        match current() {
            Some(thread) if number == CATCH => thread.with_room(|| thread.take_again(stack)),
            Some(thread) => {
                thread.with_room(|| thread.put_back(stack));
                thread.end_unwinder(stack, number);
            }
            None => {}
        }
        let known = REAL[number].load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a whole text.
        let real = unsafe { system::dlsym(system::RTLD_NEXT, NAMES[number].as_ptr()) };
        if real.is_null() {
            std::process::abort();
        }
        REAL[number].store(real, Ordering::Relaxed);
        real
    })
}

impl ThreadData {
    /// Puts all return addresses back, for an unwinder that looks at them. Frames that are dead by now are forgotten: what
    /// stands in their places belongs to others. `false` when there is no room for their ends.
    fn put_back(&self, stack: usize) -> bool {
        if !self.close_dead_above(stack) {
            return false;
        }
        self.unwinder.set(stack);
        if self.is_put_back.get() {
            return true;
        }
        self.is_put_back.set(true);
        for frame in self.returning().rev() {
            // SAFETY: dead frames were dropped.
            unsafe { frame.put_back() };
        }
        true
    }

    /// Ends the call of the unwinder itself, if that is recorded as one to a library: its frame is left in a way that nothing
    /// reports.
    fn end_unwinder(&self, stack: usize, number: usize) {
        let is_open = |top: &OpenFrame| top.place.get() == stack && !top.is_instrumented();
        while self.top().is_some_and(is_open) {
            match number {
                // It has no end.
                EXIT => drop(self.while_busy(|| self.close(None))),
                _ => self.with_room(|| self.close(None)),
            }
        }
    }

    /// Replaces return addresses again, those of frames above `stack`. `false` when there is no room for the ends of others.
    pub(crate) fn take_again(&self, stack: usize) -> bool {
        if !self.close_dead_above(stack) {
            return false;
        }
        if !self.is_put_back.get() {
            return true;
        }
        self.is_put_back.set(false);
        for frame in self.returning() {
            // SAFETY: dead frames were dropped.
            unsafe { frame.take_again() };
        }
        true
    }

    fn close_dead_above(&self, stack: usize) -> bool {
        // SAFETY: nothing is read there.
        unsafe { self.close_dead(stack, Hook::Instrumented) }
    }

    /// Does something that needs room, and makes that. Where records are dropped, the ends of calls are not recorded.
    fn with_room(&self, work: impl Fn() -> bool) {
        while !work() {
            if !self.next_slot() {
                self.count_lost(1);
                self.while_busy(work);
                return;
            }
        }
    }
}
