//! A piece of other bytes.

use std::sync::Arc;

use tracemill_codec::chunk::Bytes;

/// A piece of bytes that somebody else holds.
pub(super) struct ByteSlice {
    of: Arc<dyn Bytes>,
    from: usize,
    len: usize,
}

impl ByteSlice {
    /// The piece from `from` on, as much of `len` bytes as there is.
    pub(super) fn from_bytes(of: &Arc<dyn Bytes>, from: usize, len: usize) -> Arc<dyn Bytes> {
        let all = of.bytes().len();
        let from = from.min(all);
        Arc::new(ByteSlice { of: of.clone(), from, len: len.min(all - from) })
    }
}

impl Bytes for ByteSlice {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.of.bytes().get(self.from..self.from + self.len).unwrap_or(&[])
    }

    fn will_read(&self, offset: usize, len: usize) {
        self.of.will_read(self.from + offset, len);
    }

    fn len_now(&self) -> u64 {
        self.of.len_now().saturating_sub(self.from as u64).min(self.len as u64)
    }

    fn can_vanish(&self) -> bool {
        self.of.can_vanish()
    }
}
