//! A number that only one thread writes, and the handlers of signals that interrupt it. The library that is preloaded includes
//! this file as it is.

use core::sync::atomic::AtomicU64;

/// Replaces `old`, unless a signal handler of this thread changed the number meanwhile.
#[inline(always)]
pub(crate) fn replace(number: &AtomicU64, old: u64, new: u64) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let is_replaced: u8;
        // SAFETY: the number is live as long as the reference; the instruction writes it, `rax` and flags, no more. Without
        // a lock prefix it is atomic towards signal handlers, and no other thread writes the number meanwhile.
        unsafe {
            core::arch::asm!(
                "cmpxchg qword ptr [{number}], {new}",
                "sete {is_replaced}",
                number = in(reg) number.as_ptr(),
                new = in(reg) new,
                is_replaced = out(reg_byte) is_replaced,
                inout("rax") old => _,
                options(nostack),
            );
        }
        is_replaced != 0
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    {
        use core::sync::atomic::Ordering;
        number.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
