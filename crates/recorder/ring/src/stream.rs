//! The end of a stream file that a recorder was writing.

use super::{packet, u32_at, u64_at};

/// Where the whole packets of a stream file end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamEnd {
    /// Their length in bytes.
    pub len: u64,
    /// Offset of the last one.
    pub last_offset: u64,
    /// Sequence number of the last one.
    pub sequence: Option<u64>,
}

/// Finds the last whole packet of a stream file of `len` bytes: what follows was being written when its writer died.
/// `header_at` gives the first bytes of the packet at an offset.
pub fn stream_end(len: u64, mut header_at: impl FnMut(u64) -> Option<[u8; packet::LEN]>) -> StreamEnd {
    let mut end = StreamEnd::default();
    while let Some(header) = header_at(end.len).filter(|_| len - end.len >= packet::LEN as u64) {
        let total = u64_at(&header, packet::TOTAL) / 8;
        if u32_at(&header, 0) != packet::MAGIC || total < packet::LEN as u64 || total > len - end.len {
            break;
        }
        let sequence = Some(u64_at(&header, packet::SEQUENCE));
        end = StreamEnd { len: end.len + total, last_offset: end.len, sequence };
    }
    end
}

/// [`stream_end`] of a file that is in memory.
pub fn stream_end_of(bytes: &[u8]) -> StreamEnd {
    stream_end(bytes.len() as u64, |at| bytes.get(at as usize..)?.first_chunk().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet_of(sequence: u64, total: u64) -> Vec<u8> {
        let mut bytes = vec![0; total as usize];
        bytes[..4].copy_from_slice(&packet::MAGIC.to_le_bytes());
        bytes[packet::TOTAL..packet::TOTAL + 8].copy_from_slice(&(total * 8).to_le_bytes());
        bytes[packet::SEQUENCE..packet::SEQUENCE + 8].copy_from_slice(&sequence.to_le_bytes());
        bytes
    }

    #[test]
    fn a_packet_that_was_cut_does_not_count() {
        let whole = [packet_of(0, 100), packet_of(1, 200)].concat();
        let end = StreamEnd { len: 300, last_offset: 100, sequence: Some(1) };
        assert_eq!(stream_end_of(&whole), end);
        assert_eq!(stream_end_of(&whole[..299]), StreamEnd { len: 100, last_offset: 0, sequence: Some(0) });
        assert_eq!(stream_end_of(&[whole.clone(), vec![0; 96]].concat()), end);
        assert_eq!(stream_end_of(&whole[..50]), StreamEnd::default());
    }

    #[test]
    fn sizes_that_cannot_be_end_the_search() {
        let mut bytes = packet_of(0, 100);
        bytes[packet::TOTAL..packet::TOTAL + 8].fill(0);
        assert_eq!(stream_end_of(&bytes).len, 0);
        bytes[packet::TOTAL..packet::TOTAL + 8].fill(0xff);
        assert_eq!(stream_end_of(&bytes).len, 0);
    }
}
