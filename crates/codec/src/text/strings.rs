//! Strings for people and for JSON.

use super::base64;
use super::json::{self, Escapes};
use super::out::Out;

/// A string in double quotes with the escapes of C, as `babeltrace2` prints it. Bytes from 0x80 stay as they are.
pub fn put_escaped(out: &mut Out, bytes: &[u8]) {
    out.put_byte(b'"');
    if is_without_escapes(bytes) {
        out.put(bytes);
        return out.put_byte(b'"');
    }
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

/// Does [`put_escaped`] show a text as it is? Sixteen bytes at a time.
#[inline]
fn is_without_escapes(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk() {
        return bytes.as_chunks().0.iter().chain([last]).all(is_plain);
    }
    // The last words overlap: no loop over single bytes.
    let both = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << 64
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let both = u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
        u128::from(both) | u128::from(both) << 64
    } else {
        return !bytes.iter().any(|&byte| NEEDS_ESCAPE[usize::from(byte)]);
    };
    is_plain(&both.to_le_bytes())
}

/// [`is_without_escapes`] of sixteen bytes: the least of what is 0 for a byte that needs an escape, since the least of
/// many bytes is one instruction and the first that is 0 is not.
#[inline]
fn is_plain(block: &[u8; 16]) -> bool {
    let of = |byte: u8| {
        let quote = (byte ^ b'"').min(byte ^ b'\'').min(byte ^ b'?').min(byte ^ b'\\');
        (byte & 0xe0).min(byte ^ 0x7f).min(quote)
    };
    block.iter().fold(u8::MAX, |least, &byte| least.min(of(byte))) != 0
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
    fn escapes_are_found_anywhere_in_a_text_of_any_length() {
        for len in 0..40 {
            let plain: String = (0..len).map(|at| if at % 3 == 0 { '\u{80}' } else { ' ' }).take(len).collect();
            assert_eq!(text(|out| put_escaped(out, plain.as_bytes())), format!("\"{plain}\""));
            for at in 0..len {
                for byte in [b'"', b'\'', b'?', b'\\', 0x1f, 0x7f] {
                    let mut bytes = vec![b'~'; len];
                    bytes[at] = byte;
                    let found = text(|out| put_escaped(out, &bytes));
                    let (before, behind) = ("~".repeat(at), "~".repeat(len - at - 1));
                    let escape = if byte.is_ascii_graphic() { char::from(byte).into() } else { format!("x{byte:02x}") };
                    assert_eq!(found, format!("\"{before}\\{escape}{behind}\""));
                }
            }
        }
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
