//! A few bytes on the stack.

/// Bytes that come one by one, as long as they are few.
pub(crate) struct InlineBuf {
    bytes: [u8; InlineBuf::ROOM],
    len: usize,
}

impl InlineBuf {
    const ROOM: usize = 64;

    #[inline(always)]
    pub(crate) fn new() -> InlineBuf {
        InlineBuf { bytes: [0; InlineBuf::ROOM], len: 0 }
    }

    /// Adds bytes of a number. `false` when there is no room for them.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) -> bool {
        self.put_bytes(&bytes)
    }

    /// As [`InlineBuf::put`], of a text.
    #[inline(always)]
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) -> bool {
        let room = self.bytes.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()));
        room.is_some_and(|room| {
            room.copy_from_slice(bytes);
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
        self.bytes.get(..self.len)
    }
}
