//! The frames of a JSON text sequence (RFC 7464).
//!
//! Each JSON text has the byte 0x1E before it and a line feed after it. The byte cannot occur inside a JSON text, so
//! it alone delimits; the last line feed may be missing, and frames with nothing but white space are skipped.

use tracemill_codec::text::Span;

/// The byte that begins a JSON text.
pub(super) const RECORD_SEPARATOR: u8 = 0x1e;

/// The frames of `metadata_text` that are not blank, without the white space around them. Text before the first record
/// separator counts as a frame.
pub(super) fn frames(source: &str) -> impl Iterator<Item = Span> {
    source
        .split(char::from(RECORD_SEPARATOR))
        .scan(0, |next, text| {
            let start = *next;
            *next += text.len() + 1;
            Some((start, text))
        })
        .filter_map(|(start, text)| {
            let begin = text.find(|c| !is_space(c))?;
            let len = text.trim_matches(is_space).len();
            Some(Span::new(start + begin, start + begin + len))
        })
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        frames(source).map(|span| span.text(source)).collect()
    }

    #[test]
    fn separators_blanks_and_a_missing_line_feed() {
        assert_eq!(texts("\u{1e}{}\n\u{1e}[ 1 ]\n"), ["{}", "[ 1 ]"]);
        assert_eq!(texts(" \n\u{1e}\u{1e} \u{1e}\r\n {} \u{1e}é"), ["{}", "é"]);
        assert_eq!(texts("{}\n\u{1e}{}"), ["{}", "{}"]);
        assert!(texts("").is_empty());
    }
}
