//! Strings of JSON: escaping and its way back (RFC 8259, section 7).
//!
//! Every writer of JSON escapes here. Readers are two, as they have nothing else in common: that of CTF 2's metadata keeps
//! the place of each value, that of JSON lines makes flat tokens and knows lines of one shape by a number.

/// Escapes that a writer uses beyond those that are a must. A control character without a letter is `\u00XX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Escapes {
    /// Control characters that are written by their letter: of `\u{8}\u{c}\n\r\t`.
    pub letters: &'static str,
    /// Is DEL (0x7f) escaped too?
    pub delete: bool,
}

impl Escapes {
    /// All letters: `\b`, `\f`, `\n`, `\r`, `\t`.
    pub const LETTERS: Escapes = Escapes { letters: "\u{8}\u{c}\n\r\t", delete: false };
    /// No letters: every control character by its number.
    pub const NUMBERS: Escapes = Escapes { letters: "", delete: false };
}

/// Gives a text to `put`, piece by piece, as it stands between the quotes of a JSON string.
///
/// ```
/// use tracemill_codec::text::json::{Escapes, escape};
/// let mut text = String::new();
/// escape("a\t\"b\"", Escapes::LETTERS, |piece| text += piece);
/// assert_eq!(text, r#"a\t\"b\""#);
/// ```
#[inline]
pub fn escape(text: &str, escapes: Escapes, mut put: impl FnMut(&str)) {
    let mut plain = 0;
    for (at, &byte) in text.as_bytes().iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' && !(byte == 0x7f && escapes.delete) {
            continue;
        }
        put(&text[plain..at]);
        plain = at + 1;
        put(match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            _ if !escapes.letters.as_bytes().contains(&byte) => {
                put(&format!("\\u{byte:04x}"));
                continue;
            }
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            8 => "\\b",
            _ => "\\f",
        });
    }
    put(&text[plain..]);
}

/// A text as a JSON string, with its quotes.
pub fn quoted(text: &str, escapes: Escapes) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    escape(text, escapes, |piece| out += piece);
    out.push('"');
    out
}

/// The text of what stands between the quotes of a JSON string, whose escapes are sound; half of a surrogate pair
/// becomes U+FFFD.
pub fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6).filter(|digits| digits.starts_with(b"\\u"))?;
        u32::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'\\' {
            out.push(byte);
            at += 1;
            continue;
        }
        let escape = bytes.get(at + 1).copied().unwrap_or(b'\\');
        if escape != b'u' {
            at += 2;
            out.push(match escape {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                other => other,
            });
            continue;
        }
        let mut code = unit(at).unwrap_or(0xfffd);
        at += 6;
        if let (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) = (code, unit(at)) {
            code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            at += 6;
        }
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_letters_or_numbers() {
        let text = "\u{8}\u{c}\n\r\t\u{1f}\u{7f}é\\\"";
        let of = |letters, delete| quoted(text, Escapes { letters, delete });
        assert_eq!(quoted(text, Escapes::LETTERS), "\"\\b\\f\\n\\r\\t\\u001f\u{7f}é\\\\\\\"\"");
        assert_eq!(of("\n\t", false), "\"\\u0008\\u000c\\n\\u000d\\t\\u001f\u{7f}é\\\\\\\"\"");
        assert_eq!(of("", true), "\"\\u0008\\u000c\\u000a\\u000d\\u0009\\u001f\\u007fé\\\\\\\"\"");
    }

    #[test]
    fn what_was_escaped_comes_back() {
        let text = "a\u{8}\u{c}\n\r\t\u{1f}\"\\é😀";
        for escapes in [Escapes::LETTERS, Escapes::NUMBERS] {
            let mut escaped = String::new();
            escape(text, escapes, |piece| escaped += piece);
            assert_eq!(unescape(escaped.as_bytes()), text.as_bytes());
        }
        assert_eq!(unescape(br"\ud83d\ude00 \ud83d \u00e9\/"), "😀 \u{fffd} é/".as_bytes());
    }
}
