//! Colors of text, for terminals and pages.

use std::borrow::Cow;

/// A color of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// The color of the text around.
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

/// The form in which colors are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorStyle {
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

impl ColorStyle {
    /// Are there colors?
    pub fn is_colored(self) -> bool {
        matches!(self, ColorStyle::Terminal | ColorStyle::Html)
    }

    /// Is it for a page?
    pub fn is_html(self) -> bool {
        matches!(self, ColorStyle::Html | ColorStyle::PlainHtml)
    }

    /// Text before that of a color.
    pub fn begin(self, color: Color) -> &'static str {
        let (escape, element) = match color {
            Color::Normal => ("", "<span>"),
            Color::Red => ("\x1b[91m", "<span style='color:red'>"),
            Color::Green => ("\x1b[32m", "<span style='color:green'>"),
            Color::Blue => ("\x1b[94m", "<span style='color:blue'>"),
            Color::Yellow => ("\x1b[33m", "<span style='color:yellow'>"),
            Color::Magenta => ("\x1b[35m", "<span style='color:magenta'>"),
            Color::Cyan => ("\x1b[36m", "<span style='color:cyan'>"),
            Color::Bold => ("\x1b[1m", "<span style='font-weight:bold'>"),
            Color::Gray => ("\x1b[90m", "<span style='color:gray'>"),
        };
        match self {
            ColorStyle::None | ColorStyle::PlainHtml => "",
            ColorStyle::Terminal => escape,
            ColorStyle::Html => element,
        }
    }

    /// Text after that of a color.
    pub fn end(self) -> &'static str {
        match self {
            ColorStyle::None | ColorStyle::PlainHtml => "",
            ColorStyle::Terminal => "\x1b[0m",
            ColorStyle::Html => "</span>",
        }
    }

    /// Appends text of a color.
    pub fn write(self, out: &mut Vec<u8>, color: Color, text: impl AsRef<[u8]>) {
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

    /// Bytes that come from the trace and may be no UTF-8, so that they stand for themselves.
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
        assert_eq!(ColorStyle::None.escaped("a<b>&"), "a<b>&");
        assert_eq!(ColorStyle::Terminal.escaped("a<b>&"), "a<b>&");
        assert_eq!(ColorStyle::PlainHtml.escaped("a<b>&"), "a&lt;b>&amp;");
        assert_eq!(*ColorStyle::None.escaped_bytes(b"a<\xff&"), *b"a<\xff&");
        assert_eq!(*ColorStyle::Html.escaped_bytes(b"a<\xff&"), *b"a&lt;\xff&amp;");
    }

    #[test]
    fn colors_end() {
        for colors in [ColorStyle::None, ColorStyle::Terminal, ColorStyle::Html, ColorStyle::PlainHtml] {
            let mut out = Vec::new();
            colors.write(&mut out, Color::Normal, "x");
            assert_eq!(colors.is_colored(), out.len() > 1);
        }
    }
}
