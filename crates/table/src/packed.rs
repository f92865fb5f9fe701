//! Numbers and texts in few bytes, as tables keep them in memory.

use tracemill_codec::bits::{leb128_len, leb128_u64, put_leb};

/// Appends a text after its length.
pub fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_leb(bytes, text.len() as u64, false);
    bytes.extend(text.as_bytes());
}

/// Takes a number in LEB128 from the beginning of some bytes; 0 where none is there.
#[inline]
pub fn take_leb(bytes: &mut &[u8]) -> u64 {
    let (number, rest) = bytes.split_at(leb128_len(bytes).unwrap_or(0));
    *bytes = rest;
    leb128_u64(number, false).unwrap_or(0)
}

/// Takes a text after its length from the beginning of some bytes; an empty one where none is there.
#[inline]
pub fn take_text<'r>(bytes: &mut &'r [u8]) -> &'r str {
    let len = take_leb(bytes);
    let len = usize::try_from(len).map_or(bytes.len(), |len| len.min(bytes.len()));
    let (text, rest) = bytes.split_at(len);
    *bytes = rest;
    std::str::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_taken_as_they_were_put() {
        let mut bytes = Vec::new();
        for text in ["", "read", "\u{1f375}", &"x".repeat(300)] {
            put_text(&mut bytes, text);
            put_leb(&mut bytes, text.len() as u64 * 1_000_000, false);
        }
        let mut rest = &bytes[..];
        for text in ["", "read", "\u{1f375}", &"x".repeat(300)] {
            assert_eq!((take_text(&mut rest), take_leb(&mut rest)), (text, text.len() as u64 * 1_000_000));
        }
        assert!(rest.is_empty());
        // Bytes that end too early.
        let mut rest: &[u8] = &[200, 1, b'a'];
        assert_eq!((take_text(&mut rest), take_leb(&mut rest)), ("a", 0));
    }
}
