//! Texts: spans and suggestions for errors, JSON, base64, and the conversions of C's format strings.

pub mod fields_json;
pub mod json;
mod names;
pub mod out;
pub mod printf;
mod span;
pub mod strings;

pub use names::{edit_distance, meant, nearest};
pub use span::Span;

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
