//! Spans in a text, and the places and excerpts that errors show: for the metadata languages and filters.

use tracemill_model::error::{Error, TextPlace};

/// A piece of a text, in bytes.
///
/// ```
/// use tracemill_codec::text::Span;
/// let error = Span::new(4, 7).malformed("int foo;", "unknown type `foo`");
/// assert_eq!(error.to_string(), "line 1, column 5: unknown type `foo`\n  | int foo;\n  |     ^^^");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// Most characters of a source line that an error shows.
const EXCERPT_CHARS: usize = 120;

impl Span {
    /// The span from `start` to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Span { start, end }
    }

    /// The smallest span that holds both.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The text of the span.
    pub fn text(self, source: &str) -> &str {
        source.get(self.start..self.end).unwrap_or("")
    }

    /// Line, column and excerpt of the span in `source`.
    pub fn place(self, source: &str) -> TextPlace {
        self.place_in(source.as_bytes())
    }

    /// As [`Span::place`], in a text that need not be UTF-8.
    pub fn place_in(self, source: &[u8]) -> TextPlace {
        let mut start = self.start.min(source.len());
        while start > 0 && source.get(start).is_some_and(|byte| byte & 0xC0 == 0x80) {
            start -= 1;
        }
        let line_start = memchr::memrchr(b'\n', &source[..start]).map_or(0, |at| at + 1);
        let line_end = memchr::memchr(b'\n', &source[start..]).map_or(source.len(), |at| start + at);
        let before = String::from_utf8_lossy(&source[line_start..start]).chars().count();
        let text = String::from_utf8_lossy(&source[line_start..line_end]);
        let skip = before.saturating_sub(EXCERPT_CHARS / 2);
        let letters = text.trim_end_matches('\r').chars().skip(skip).take(EXCERPT_CHARS);
        TextPlace {
            line: memchr::memchr_iter(b'\n', &source[..start]).count() as u32 + 1,
            column: before as u32 + 1,
            offset: self.start,
            len: self.end.saturating_sub(self.start),
            excerpt: letters.map(|c| if c.is_control() { ' ' } else { c }).collect(),
            caret: before - skip,
        }
    }

    /// An error about broken text at this span.
    pub fn malformed(self, source: &str, message: impl Into<String>) -> Error {
        Error::malformed(message).at_text(self.place(source))
    }

    /// An error about something that is not supported at this span.
    pub fn unsupported(self, source: &str, message: impl Into<String>) -> Error {
        Error::unsupported(message).at_text(self.place(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let source = "a\nbé cd\n";
        let place = Span::new(6, 8).place(source);
        assert_eq!((place.line, place.column, place.excerpt.as_str(), place.caret), (2, 4, "bé cd", 3));
        let end = Span::new(99, 99).place(source);
        assert_eq!((end.line, end.column), (3, 1));
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
        let source = format!("{}X{}", "a".repeat(1000), "b".repeat(1000));
        let place = Span::new(1000, 1001).place(&source);
        assert_eq!(place.column, 1001);
        assert_eq!(place.excerpt.chars().nth(place.caret), Some('X'));
        assert!(place.excerpt.len() <= EXCERPT_CHARS);
    }
}
