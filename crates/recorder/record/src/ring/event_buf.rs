//! The bytes of an event, in its slot.

use std::marker::PhantomData;

/// The bytes that were reserved for the fields of an event.
pub struct EventBuf<'a> {
    at: *mut u8,
    pub(super) left: usize,
    slot: PhantomData<&'a mut [u8]>,
}

impl EventBuf<'_> {
    /// The bytes from `at` on.
    ///
    /// # Safety
    /// The `len` bytes from `at` on belong to this event alone, as long as the buffer is in use.
    #[inline(always)]
    pub(super) unsafe fn new(at: *mut u8, len: usize) -> Self {
        EventBuf { at, left: len, slot: PhantomData }
    }

    /// Writes a number's bytes.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        assert!(N <= self.left);
        // SAFETY: so many bytes are left, and they are this event's alone.
        unsafe { self.at.cast::<[u8; N]>().write_unaligned(bytes) };
        self.skip(N);
    }

    /// Writes bytes.
    #[inline(always)]
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        let len = bytes.len();
        assert!(len <= self.left);
        // SAFETY: as above; the caller's bytes are not in a slot.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at, len) };
        self.skip(len);
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, len: usize) {
        // SAFETY: not more than was left, so at most the end of what was reserved.
        self.at = unsafe { self.at.add(len) };
        self.left -= len;
    }
}
