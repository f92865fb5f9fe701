//! Times and names in columns.

use tracemill_codec::text::out::Out;
use tracemill_render::time::{TimeStyle, WallClock};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of a time of day with its ns.
pub(crate) const TIME: usize = 18;

/// Prints times of events.
pub(crate) struct TimePrinter(WallClock);

impl TimePrinter {
    pub(crate) fn new(gmt: bool, is_unix: bool) -> TimePrinter {
        TimePrinter(WallClock::new(TimeStyle { gmt, seconds: !is_unix, ..TimeStyle::default() }))
    }

    /// A time, or a dash.
    pub(crate) fn text(&mut self, ns: Option<i128>) -> String {
        let Some(ns) = ns else { return "-".to_string() };
        let mut out = Out::default();
        self.0.write(&mut out, ns);
        String::from_utf8_lossy(out.written()).into_owned()
    }
}

/// A duration in the largest unit of which there is one, with three digits after the point.
pub(crate) fn duration(ns: impl Into<i128>) -> String {
    let ns = ns.into();
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    let (unit, name) = match ns {
        0..1_000 => return format!("{sign}{ns} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{sign}{}.{:03} {name}", ns / unit, ns % unit * 1000 / unit)
}

/// A text as it can stand on a line: what moves the cursor or has no width is shown by its number.
pub(crate) fn visible(text: &str) -> String {
    let is_visible = |sign: char| sign.width().is_some_and(|width| width > 0) && !is_bidi(sign);
    if text.chars().all(is_visible) {
        return text.to_string();
    }
    text.chars()
        .map(|sign| if is_visible(sign) { sign.to_string() } else { sign.escape_unicode().to_string() })
        .collect()
}

/// Signs that turn the direction of what follows.
fn is_bidi(sign: char) -> bool {
    matches!(sign, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The beginning of a text that fits so many columns, with a mark where more follows.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_string();
    }
    let mut out = String::new();
    let mut used = 0;
    for sign in text.chars() {
        let width = sign.width().unwrap_or(0);
        if used + width + 1 > columns {
            break;
        }
        out.push(sign);
        used += width;
    }
    if columns > 0 {
        out.push('~');
    }
    out
}

/// A text in so many columns: cut, or with blanks after it.
pub(crate) fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let blanks = columns.saturating_sub(text.width());
    text + &" ".repeat(blanks)
}

/// A text in so many columns: cut, or with blanks before it.
pub(crate) fn right(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    " ".repeat(columns.saturating_sub(text.width())) + &text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_behind_the_point() {
        let shown = [0, 999, 1_000, 1_234_567, 61_000_000_000].map(|ns: i64| duration(ns));
        assert_eq!(shown, ["0 ns", "999 ns", "1.000 us", "1.234 ms", "61.000 s"]);
        assert_eq!(duration(-1500), "-1.500 us");
    }

    #[test]
    fn texts_fit_their_columns() {
        assert_eq!((cut("abcdef", 4), cut("abc", 3), cut("abc", 0)), ("abc~".into(), "abc".into(), String::new()));
        assert_eq!((left("ab", 4), right("ab", 4)), ("ab  ".into(), "  ab".into()));
        // Signs of two columns.
        assert_eq!((cut("日本語", 4), left("日本", 5)), ("日~".into(), "日本 ".into()));
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(visible("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
        assert_eq!(visible("größe 日本"), "größe 日本");
    }
}
