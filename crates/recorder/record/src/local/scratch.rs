//! Memory for the fields of an event of C that needs more than to be written. Signal handlers may ask for it, which is why it
//! comes from the system.

use std::ptr;

/// Pages for so many bytes. Null when there are none.
pub(crate) fn allocate(len: usize) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new pages.
    let pages = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if pages == libc::MAP_FAILED { ptr::null_mut() } else { pages.cast() }
}

/// Gives memory of [`allocate`](crate::c::allocate) back.
///
/// # Safety
/// It has this length, and nothing uses it any more.
pub unsafe fn free(bytes: *mut u8, len: u64) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(bytes.cast(), len as usize) };
}
