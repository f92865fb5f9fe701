//! The block that every thread has in thread-local storage, also one that is not recorded.

use std::arch::{asm, global_asm};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use crate::same_thread::SameThread;

// A [`Local`]. Of the initial-exec model: reading its first word is two loads and no call.
global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 16",
    ".globl tracemill_calls_thread",
    ".hidden tracemill_calls_thread",
    ".type tracemill_calls_thread, @object",
    ".size tracemill_calls_thread, 32",
    "tracemill_calls_thread:",
    ".zero 32",
    ".text",
);

/// The block of a thread. All bytes are 0 at first.
#[repr(C)]
pub(crate) struct Local {
    /// The data of the thread, which the stubs find here; null while its calls are not recorded.
    pub(crate) thread: AtomicPtr<c_void>,
    state: AtomicUsize,
    /// The environments that children of `vfork` left, the last one first, or 0.
    pub(crate) environments: AtomicUsize,
    _free: usize,
    /// It is never another thread's.
    _here: PhantomData<*const ()>,
}

const _: () = assert!(size_of::<Local>() == 32);

/// The state of a thread without data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatalessState {
    /// It begins at its next call.
    New = 0,
    /// It is beginning, or has ended: calls are not recorded.
    Off,
    /// It could not begin: its calls are counted.
    Ringless,
    /// As before, since it is in seccomp's strict mode.
    Strict,
}

impl Local {
    #[inline(always)]
    pub(crate) fn state(&self) -> DatalessState {
        match self.state.get() {
            0 => DatalessState::New,
            1 => DatalessState::Off,
            2 => DatalessState::Ringless,
            _ => DatalessState::Strict,
        }
    }

    pub(crate) fn set_state(&self, state: DatalessState) {
        self.state.set(state as usize);
    }
}

/// The block of the calling thread. It lives until the thread has run all its destructors, so as long as code of the thread does.
#[inline(always)]
pub(crate) fn local() -> &'static Local {
    let place: usize;
    // SAFETY: the symbol is this library's, and only its address is computed: of a whole `Local` for each thread, aligned,
    // which bytes of 0 are, and which changes by atomics only.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + tracemill_calls_thread@GOTTPOFF]",
            "add {place}, qword ptr fs:[0]",
            place = out(reg) place,
            options(nostack, readonly),
        );
        &*(place as *const Local)
    }
}
