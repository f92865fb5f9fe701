//! A few bytes on the stack.

use std::mem::MaybeUninit;

/// Bytes that come one by one, as long as they are few. They are not zero beforehand: that would take half as long as the
/// clock.
pub(crate) struct InlineBuf {
    bytes: [MaybeUninit<u8>; InlineBuf::ROOM],
    len: usize,
}

impl InlineBuf {
    const ROOM: usize = 64;

    #[inline(always)]
    pub(crate) fn new() -> InlineBuf {
        InlineBuf { bytes: [const { MaybeUninit::uninit() }; InlineBuf::ROOM], len: 0 }
    }

    /// Adds bytes of a number. `false` when there is no room for them.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) -> bool {
        let place = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut::<N>());
        place.is_some_and(|place| {
            *place = bytes.map(MaybeUninit::new);
            self.len += N;
            true
        })
    }

    /// As [`InlineBuf::put`], of a text.
    #[inline(always)]
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) -> bool {
        let place = self.bytes.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()));
        place.is_some_and(|place| {
            // SAFETY: as many bytes, of somebody else, whom nobody has lent this place.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_mut_ptr().cast(), bytes.len()) };
            self.len += bytes.len();
            true
        })
    }

    /// Takes no more.
    #[inline(always)]
    pub(crate) fn close(&mut self) {
        self.len = usize::MAX;
    }

    /// All that were added, unless it was closed.
    #[inline(always)]
    pub(crate) fn open(&self) -> Option<&[u8]> {
        let bytes = self.bytes.get(..self.len)?;
        // SAFETY: the first `len` bytes were written, one after the other.
        Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) })
    }
}
