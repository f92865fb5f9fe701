//! Marks of texts: numbers of 64 bits that are equal for equal texts and, but for chance, differ for others.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Values by marks: their bits are mixed already.
pub type MarkMap<V> = HashMap<u64, V, BuildHasherDefault<MarkHasher>>;

/// The hash of a mark: the mark itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkHasher(u64);

impl Hasher for MarkHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = mix_bytes(self.0, bytes);
    }

    fn write_u64(&mut self, mark: u64) {
        self.0 = mark;
    }
}

/// Mixes a number into a mark.
#[inline]
pub fn mix(mark: u64, value: u64) -> u64 {
    (mark.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Mixes bytes into a mark.
#[inline]
pub fn mix_bytes(mut mark: u64, bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        mark = mix(mark, chunk.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk)));
    }
    let rest = chunks.remainder().iter().fold(0u64, |rest, &byte| rest << 8 | u64::from(byte));
    mix(mix(mark, rest), bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_different_texts_differ() {
        let texts: [&[u8]; 6] = [b"", b"a", b"ab", b"ba", b"12345678", b"12345678a"];
        let marks: MarkMap<&[u8]> = texts.iter().map(|text| (mix_bytes(7, text), *text)).collect();
        assert_eq!(marks.len(), texts.len());
        assert_eq!(marks.get(&mix_bytes(7, b"ab")), Some(&&b"ab"[..]));
        assert_ne!(mix(mix(0, 1), 2), mix(mix(0, 2), 1));
    }
}
