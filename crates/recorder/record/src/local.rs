//! Belongings of a thread, or of the process as a whole: here the pointer to a thread's writer; in `process` the recorder's
//! lock, forks, the end of threads; in `system` waiting and waking; in `frames`, `counters`, `signals` and `scratch` what is done only
//! where a user asks for it.
//!
//! # Why the `unsafe` here is sound
//!
//! * A thread's pointer is null or that of a writer, and writers are never freed.
//! * The recorder's state is reached by [`locked`](process::locked) only: under a mutex, and never twice by one thread, which a signal
//!   handler could try.
//! * The other calls take pointers to statics or to this stack. The function for the start of the program is called by the
//!   loader once the C library works; it panics never.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ring::RingWriter;

pub(crate) mod counters;
pub(crate) mod frames;
pub(crate) mod process;
#[cfg(feature = "c")]
pub(crate) mod scratch;
pub(crate) mod signals;
pub(crate) mod system;

thread_local! {
    static WRITER: Cell<*const RingWriter> = const { Cell::new(std::ptr::null()) };
}

/// A copy of the pointer for C: thread-local storage of the initial-exec model, which is a load at a place that is the same
/// for all threads. Rust cannot say that, so it is declared in assembly.
#[cfg(all(feature = "c", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub(crate) mod c {
    core::arch::global_asm!(
        ".pushsection .tbss.tracemill_record_thread, \"awT\", %nobits",
        ".globl tracemill_record_thread",
        ".hidden tracemill_record_thread",
        ".type tracemill_record_thread, %object",
        ".size tracemill_record_thread, 8",
        ".balign 8",
        "tracemill_record_thread:",
        ".zero 8",
        ".popsection",
    );

    /// Where it stands from the thread pointer on. Never 0.
    pub(crate) fn place() -> isize {
        let place: isize;
        // SAFETY: a load of a constant that the loader made.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                "mov {}, qword ptr [rip + tracemill_record_thread@GOTTPOFF]",
                out(reg) place,
                options(pure, readonly, nostack, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                "adrp {0}, :gottprel:tracemill_record_thread",
                "ldr {0}, [{0}, :gottprel_lo12:tracemill_record_thread]",
                out(reg) place,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        place
    }

    /// Changes it for the calling thread.
    pub(super) fn set(pointer: *const u8) {
        // SAFETY: a store to the eight bytes of the declaration above, of this thread.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                "mov qword ptr fs:[{}], {}",
                in(reg) place(),
                in(reg) pointer,
                options(nostack, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                "mrs {thread}, tpidr_el0",
                "str {pointer}, [{thread}, {place}]",
                thread = out(reg) _,
                place = in(reg) place(),
                pointer = in(reg) pointer,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Without that: C asks for the pointer.
#[cfg(not(all(feature = "c", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
pub(crate) mod c {
    #[cfg(feature = "c")]
    pub(crate) fn place() -> isize {
        0
    }

    pub(super) fn set(_: *const u8) {}
}

/// The writer of the calling thread.
#[inline(always)]
pub(crate) fn writer() -> Option<&'static RingWriter> {
    // SAFETY: null or a writer, which lives for ever.
    unsafe { WRITER.get().as_ref() }
}

/// Makes a writer that of the calling thread. It is given back when the thread ends.
pub(crate) fn set_writer(writer: Option<&'static RingWriter>) {
    let pointer = writer.map_or(std::ptr::null(), std::ptr::from_ref);
    WRITER.set(pointer);
    c::set(pointer.cast());
    let key = KEY.load(Ordering::Relaxed);
    if key != 0 {
        // SAFETY: the key was made by `prepare`.
        unsafe { libc::pthread_setspecific(key - 1, pointer.cast()) };
    }
}

/// The key whose destructor reports the end of a thread, and one.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Forgets the writer of the calling thread.
fn forget_writer() {
    WRITER.set(std::ptr::null());
    c::set(std::ptr::null());
}
