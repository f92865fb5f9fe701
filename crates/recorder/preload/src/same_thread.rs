//! Atomics that one thread alone uses, with its signal handlers.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// An atomic of one thread. A read or a write is relaxed, so it is one plain instruction, and signal handlers of the thread
/// find the old value or the new one.
pub(crate) trait SameThread {
    type Value: Copy;

    fn get(&self) -> Self::Value;

    fn set(&self, value: Self::Value);

    /// Reads, and then writes: what a handler writes in between is lost. So it is for what handlers leave as they found it.
    #[inline(always)]
    fn change(&self, to: impl FnOnce(Self::Value) -> Self::Value) {
        self.set(to(self.get()));
    }
}

macro_rules! same_thread {
    ($([$($parameter:ident)?] $atomic:ty: $value:ty,)*) => {$(
        impl$(<$parameter>)? SameThread for $atomic {
            type Value = $value;

            #[inline(always)]
            fn get(&self) -> $value {
                self.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn set(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }
        }
    )*};
}

same_thread! {
    [] AtomicBool: bool,
    [] AtomicU32: u32,
    [] AtomicU64: u64,
    [] AtomicUsize: usize,
    [T] AtomicPtr<T>: *mut T,
}
