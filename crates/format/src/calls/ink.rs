//! Colours of text, for terminals and pages.

use std::borrow::Cow;

/// A colour of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// That of the text around.
    Normal,
    /// Red.
    Red,
    /// Green.
    Green,
    /// Blue.
    Blue,
    /// Yellow.
    Yellow,
    /// Magenta.
    Magenta,
    /// Cyan.
    Cyan,
    /// Bold.
    Bold,
    /// Gray.
    Gray,
}

/// What colours are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    /// There are none.
    #[default]
    None,
    /// The escapes of a terminal.
    Terminal,
    /// Elements of HTML.
    Html,
    /// None, in HTML.
    PlainHtml,
}

impl Ink {
    /// Are there colours?
    pub fn is_colored(self) -> bool {
        matches!(self, Ink::Terminal | Ink::Html)
    }

    /// Is it for a page?
    pub fn is_html(self) -> bool {
        matches!(self, Ink::Html | Ink::PlainHtml)
    }

    /// What stands before text of a colour.
    pub fn begin(self, color: Color) -> &'static str {
        match (self, color) {
            (Ink::None | Ink::PlainHtml, _) | (Ink::Terminal, Color::Normal) => "",
            (Ink::Terminal, Color::Red) => "\x1b[91m",
            (Ink::Terminal, Color::Green) => "\x1b[32m",
            (Ink::Terminal, Color::Blue) => "\x1b[94m",
            (Ink::Terminal, Color::Yellow) => "\x1b[33m",
            (Ink::Terminal, Color::Magenta) => "\x1b[35m",
            (Ink::Terminal, Color::Cyan) => "\x1b[36m",
            (Ink::Terminal, Color::Bold) => "\x1b[1m",
            (Ink::Terminal, Color::Gray) => "\x1b[90m",
            (Ink::Html, Color::Normal) => "<span>",
            (Ink::Html, Color::Red) => "<span style='color:red'>",
            (Ink::Html, Color::Green) => "<span style='color:green'>",
            (Ink::Html, Color::Blue) => "<span style='color:blue'>",
            (Ink::Html, Color::Yellow) => "<span style='color:yellow'>",
            (Ink::Html, Color::Magenta) => "<span style='color:magenta'>",
            (Ink::Html, Color::Cyan) => "<span style='color:cyan'>",
            (Ink::Html, Color::Bold) => "<span style='font-weight:bold'>",
            (Ink::Html, Color::Gray) => "<span style='color:gray'>",
        }
    }

    /// What stands behind it.
    pub fn end(self) -> &'static str {
        match self {
            Ink::None | Ink::PlainHtml => "",
            Ink::Terminal => "\x1b[0m",
            Ink::Html => "</span>",
        }
    }

    /// Appends text of a colour.
    pub fn put(self, out: &mut Vec<u8>, color: Color, text: impl AsRef<[u8]>) {
        out.extend_from_slice(self.begin(color).as_bytes());
        out.extend_from_slice(text.as_ref());
        out.extend_from_slice(self.end().as_bytes());
    }

    /// A text that comes from the trace, so that it stands for itself.
    pub fn escaped(self, text: &str) -> Cow<'_, str> {
        if !self.is_html() || !text.contains(['<', '&']) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.replace('&', "&amp;").replace('<', "&lt;"))
    }

    /// The same for bytes that may be no UTF-8.
    pub fn escaped_bytes(self, text: &[u8]) -> Cow<'_, [u8]> {
        if !self.is_html() || !text.iter().any(|byte| matches!(byte, b'<' | b'&')) {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len() + 16);
        for &byte in text {
            match byte {
                b'<' => out.extend_from_slice(b"&lt;"),
                b'&' => out.extend_from_slice(b"&amp;"),
                byte => out.push(byte),
            }
        }
        Cow::Owned(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_for_themselves() {
        assert_eq!(Ink::None.escaped("a<b>&"), "a<b>&");
        assert_eq!(Ink::Terminal.escaped("a<b>&"), "a<b>&");
        assert_eq!(Ink::PlainHtml.escaped("a<b>&"), "a&lt;b>&amp;");
        assert_eq!(*Ink::None.escaped_bytes(b"a<\xff&"), *b"a<\xff&");
        assert_eq!(*Ink::Html.escaped_bytes(b"a<\xff&"), *b"a&lt;\xff&amp;");
    }

    #[test]
    fn colours_end() {
        for ink in [Ink::None, Ink::Terminal, Ink::Html, Ink::PlainHtml] {
            let mut out = Vec::new();
            ink.put(&mut out, Color::Normal, "x");
            assert_eq!(ink.is_colored(), out.len() > 1);
        }
    }
}
