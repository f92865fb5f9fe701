//! Frames of Zstandard, before they are unpacked.

/// The window that the header of a zstd frame asks for, in bytes.
pub fn zstd_window(frame: &[u8]) -> Option<u64> {
    let descriptor = *frame.get(4)?;
    if descriptor & 0x20 != 0 {
        // A single segment: the window is as large as the content, a number of 1, 2, 4 or 8 bytes after the
        // dictionary's.
        let dictionary = [0usize, 1, 2, 4][usize::from(descriptor & 3)];
        let size = [1usize, 2, 4, 8][usize::from(descriptor >> 6)];
        let bytes = frame.get(5 + dictionary..5 + dictionary + size)?;
        let content = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        return Some(if size == 2 { content + 256 } else { content });
    }
    let window = *frame.get(5)?;
    let base = 1u64 << (10 + u32::from(window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}
