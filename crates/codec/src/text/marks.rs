//! Marks of texts: numbers of 64 bits that are equal for equal texts and, but for chance, differ for others.

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
