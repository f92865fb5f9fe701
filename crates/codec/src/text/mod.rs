//! Texts: spans and suggestions for errors, JSON, base64, and the conversions of C's format strings.

pub mod csv;
mod digits;
pub mod fields_json;
pub mod json;
pub mod marks;
mod names;
pub mod out;
pub mod pattern;
pub mod printf;
mod span;
pub mod strings;

pub use digits::{nine_digits, put_back, put_digits, put_three_threes};
pub use names::{closest, edit_distance, nearest, suggest};
pub use span::Span;

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits; `None` for any other text.
pub fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

/// The usual form of a UUID: `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

/// The UUID of a text in its usual form.
pub fn uuid_of(text: &str) -> Option<[u8; 16]> {
    let has_dashes = text.len() == 36 && [8, 13, 18, 23].iter().all(|&at| text.as_bytes()[at] == b'-');
    let digits = text.replace('-', "");
    let is_formed = has_dashes && digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u128::from_str_radix(&digits, 16).ok().filter(|_| is_formed).map(u128::to_be_bytes)
}

/// A text without characters that move the cursor of a terminal.
///
/// ```
/// assert_eq!(tracemill_codec::text::escaped("a\tb\u{1b}"), "a\\tb\\u{1b}");
/// ```
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// A number without sign as C writes it: in base 16 after `0x`, in base 8 after `0`.
///
/// ```
/// use tracemill_codec::text::c_number;
/// assert_eq!(["12", "0x1F", "010", "0", "", "08"].map(c_number), [Some(12), Some(31), Some(8), Some(0), None, None]);
/// ```
pub fn c_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// `SECONDS.FRACTION` in ns: a short fraction is filled with zeros, a long one cut.
///
/// ```
/// use tracemill_codec::text::seconds;
/// assert_eq!(["12.5", "1.0000000019", "1.x"].map(seconds), [Some(12_500_000_000), Some(1_000_000_001), None]);
/// ```
pub fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = format!("{:0<9}", &fraction[..fraction.len().min(9)]).parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Base64 with the standard alphabet and padding, in pieces of four characters.
///
/// ```
/// let mut text = String::new();
/// tracemill_codec::text::base64(b"foob", |piece| text += piece);
/// assert_eq!(text, "Zm9vYg==");
/// ```
pub fn base64(bytes: &[u8], mut put: impl FnMut(&str)) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, at| word << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        let digit = |at: usize| if at <= chunk.len() { ALPHABET[(word >> (18 - 6 * at) & 63) as usize] } else { b'=' };
        put(std::str::from_utf8(&[digit(0), digit(1), digit(2), digit(3)]).unwrap_or_default());
    }
}

/// Appends the bytes of a base64 text with the standard alphabet and padding; `None` for any other text.
pub fn put_from_base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let len = text.len() / 4;
    for (at, group) in text.chunks_exact(4).enumerate() {
        let pad = if at + 1 < len { 0 } else { group.iter().rev().take_while(|&&byte| byte == b'=').count() };
        let mut bits = 0u32;
        for (at, &byte) in group.iter().enumerate() {
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if pad <= 2 && at >= 4 - pad => 0,
                _ => return None,
            };
            bits = bits << 6 | u32::from(digit);
        }
        // The bits that padding leaves must be zeros, or the text would not round-trip.
        if pad > 0 && bits & ((1 << (8 * pad)) - 1) != 0 {
            return None;
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..4 - pad]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_36_characters() {
        let text = "2a6422d0-6cee-11e0-8c08-cb07d7b3a564";
        assert_eq!(uuid_of(text).map(|uuid| uuid_text(&uuid)).as_deref(), Some(text));
        for wrong in [
            "",
            "2a6422d06cee11e08c08cb07d7b3a564",
            "2a6422d0-6cee-11e0-8c08-cb07d7b3a56g",
            "+a6422d0-6cee-11e0-8c08-cb07d7b3a564",
            "2a6422d0-6cee-11e0-8c08-cb07d7b3a5-4",
            "é",
        ] {
            assert_eq!(uuid_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn base64_is_read_as_it_is_written() {
        let read = |text: &str| {
            let mut bytes = Vec::new();
            put_from_base64(text.as_bytes(), &mut bytes).map(|()| bytes)
        };
        for bytes in [&[][..], &[0], &[0, 255], &[0, 255, 1], &[7, 8, 9, 10]] {
            let mut text = String::new();
            base64(bytes, |piece| text += piece);
            assert_eq!(read(&text).as_deref(), Some(bytes));
        }
        for wrong in ["A*==", "AP8", "AP9=", "A===", "=AAA"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
