//! Unwinders read return addresses: they must find the program's own.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::system;
use crate::thread::{self, Thread};

/// The functions that stand before those of the program's libraries, in the order of their numbers.
const NAMES: [&CStr; 7] = [
    c"_Unwind_RaiseException",
    c"_Unwind_ForcedUnwind",
    c"_Unwind_Resume",
    c"_Unwind_Backtrace",
    c"backtrace",
    c"__cxa_begin_catch",
    c"pthread_exit",
];
/// The number of the function that begins to handle an exception: unwinding is over.
const CATCH: usize = 5;

static REAL: [AtomicPtr<c_void>; 7] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 7];

/// Makes the stack one that function `number` can read, and gives its address. `stack` is where its return address stands.
pub(crate) unsafe extern "C" fn prepare(stack: usize, number: usize) -> *mut c_void {
    // SAFETY: the stub gives its own stack and the number of a name; what `dlsym` finds has that name.
    system::keeping_errno(|| unsafe {
        match thread::current() {
            Some(thread) if number == CATCH => thread.with_room(Thread::take_again, stack),
            Some(thread) => thread.with_room(Thread::put_back, stack),
            None => {}
        }
        let known = REAL[number].load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let real = system::dlsym(system::RTLD_NEXT, NAMES[number].as_ptr());
        if real.is_null() {
            std::process::abort();
        }
        REAL[number].store(real, Ordering::Relaxed);
        real
    })
}
