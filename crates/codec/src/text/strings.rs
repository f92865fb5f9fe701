//! Strings for people and for JSON.

use super::base64;
use super::json::{self, Escapes};
use super::out::Out;

/// A string in double quotes with the escapes of C, as `babeltrace2` prints it. Bytes from 0x80 stay as they are.
pub fn put_escaped(out: &mut Out, bytes: &[u8]) {
    out.put_byte(b'"');
    let mut plain = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if !NEEDS_ESCAPE[usize::from(byte)] {
            continue;
        }
        out.put(&bytes[plain..at]);
        plain = at + 1;
        let letter = match byte {
            b'\\' | b'\'' | b'"' | b'?' => byte,
            0 => b'0',
            7 => b'a',
            8 => b'b',
            0x1b => b'e',
            0xc => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0xb => b'v',
            _ => {
                out.put_fmt(format_args!("\\x{byte:02x}"));
                continue;
            }
        };
        out.put_byte(b'\\');
        out.put_byte(letter);
    }
    out.put(&bytes[plain..]);
    out.put_byte(b'"');
}

/// Text inside a line: control characters, which could end it, become escapes of C. No quotes.
#[inline]
pub fn put_plain(out: &mut Out, bytes: &[u8]) {
    // Most texts: looked at and copied as two words.
    if let (Some(first), Some(last), 8..=16) = (bytes.first_chunk(), bytes.last_chunk(), bytes.len())
        && control_marks(*first) | control_marks(*last) == 0
    {
        return out.put_ends(*first, *last, bytes.len());
    }
    if !has_control(bytes) {
        return out.put(bytes);
    }
    put_without_control(out, bytes);
}

/// Is there a control character in a text? Eight bytes at a time: most texts are short.
#[inline]
fn has_control(bytes: &[u8]) -> bool {
    // The last words overlap: no loop over single bytes.
    if let Some(last) = bytes.last_chunk::<8>() {
        let words = bytes.as_chunks::<8>().0;
        return words.iter().fold(control_marks(*last), |found, word| found | control_marks(*word)) != 0;
    }
    if let (Some(&[a, b, c, d]), Some(&[e, f, g, h])) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return control_marks([a, b, c, d, e, f, g, h]) != 0;
    }
    bytes.iter().fold(false, |found, &byte| found | (byte < 0x20) | (byte == 0x7f))
}

/// Not 0 when one of the bytes is below 0x20 or is 0x7f.
#[inline]
fn control_marks(word: [u8; 8]) -> u64 {
    const EACH: u64 = u64::MAX / 255;
    let word = u64::from_le_bytes(word);
    let delete = word ^ (EACH * 0x7f);
    // A false mark stands only above a true one.
    ((word.wrapping_sub(EACH * 0x20) & !word) | (delete.wrapping_sub(EACH) & !delete)) & (EACH << 7)
}

#[cold]
fn put_without_control(out: &mut Out, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\n' => out.put(b"\\n"),
            b'\r' => out.put(b"\\r"),
            b'\t' => out.put(b"\\t"),
            0..0x20 | 0x7f => out.put_fmt(format_args!("\\x{byte:02x}")),
            _ => out.put_byte(byte),
        }
    }
}

static NEEDS_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 0x20 {
        table[at] = true;
        at += 1;
    }
    table[0x7f] = true;
    table[b'\\' as usize] = true;
    table[b'\'' as usize] = true;
    table[b'"' as usize] = true;
    table[b'?' as usize] = true;
    table
};

/// A JSON string. Bytes that are no UTF-8 become U+FFFD, one for each maximal invalid part.
pub fn put_json(out: &mut Out, bytes: &[u8]) {
    out.put_byte(b'"');
    for part in bytes.utf8_chunks() {
        json::escape(part.valid(), Escapes::LETTERS, |piece| out.put(piece.as_bytes()));
        if !part.invalid().is_empty() {
            out.put("\u{fffd}".as_bytes());
        }
    }
    out.put_byte(b'"');
}

/// Base64 with the standard alphabet and padding.
pub fn put_base64(out: &mut Out, bytes: &[u8]) {
    base64(bytes, |piece| out.put(piece.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Out)) -> String {
        let mut out = Out::default();
        write(&mut out);
        String::from_utf8_lossy(out.written()).into_owned()
    }

    #[test]
    fn escapes_are_those_of_the_peer() {
        assert_eq!(text(|out| put_escaped(out, b"a'b\"c?\\\n\x1b\x01\x7f")), r#""a\'b\"c\?\\\n\e\x01\x7f""#);
        assert_eq!(text(|out| put_escaped(out, "é".as_bytes())), "\"é\"");
    }

    #[test]
    fn json_replaces_each_maximal_invalid_part() {
        assert_eq!(text(|out| put_json(out, b"a\xf0\x9f\x98b\xff\xff\x00")), "\"a\u{fffd}b\u{fffd}\u{fffd}\\u0000\"");
    }

    #[test]
    fn base64_pads() {
        for (bytes, want) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(text(|out| put_base64(out, bytes.as_bytes())), want);
        }
    }
}
