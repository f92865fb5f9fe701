//! String literals: escapes, and the globs of `==` and `!=`.

use tracemill_codec::text::Span;
use tracemill_model::error::Result;

use crate::pattern::Pattern;

/// A string of an expression.
#[derive(Clone, Debug)]
pub(super) struct TextLiteral {
    /// The text when `*` and `?` are nothing special.
    plain: Vec<u8>,
    /// With globs, when it has some.
    glob: Option<Pattern>,
}

impl TextLiteral {
    /// Reads what stands between the quotes.
    pub(super) fn parse(source: &str, span: Span) -> Result<Self> {
        let (mut plain, mut glob, mut has_wildcards) = (String::new(), String::new(), false);
        let mut chars = span.text(source).char_indices();
        while let Some((at, c)) = chars.next() {
            let mut meant = c;
            let mut is_escaped = false;
            if c == '\\' {
                let Some((_, escaped)) = chars.next() else { continue };
                is_escaped = true;
                meant = match escaped {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    c if c.is_alphanumeric() => {
                        let at = span.start + at;
                        let span = Span::new(at, at + 1 + c.len_utf8());
                        let error = span.malformed(source, format!("unknown escape `\\{c}` in a string"));
                        let help = "`\\\\` is a backslash; `\\n`, `\\r` and `\\t` are control characters";
                        return Err(error.with_help(help));
                    }
                    c => c,
                };
            }
            plain.push(meant);
            match meant {
                '*' | '?' if !is_escaped => has_wildcards = true,
                '*' | '?' | '\\' => glob.push('\\'),
                _ => {}
            }
            glob.push(meant);
        }
        Ok(TextLiteral { plain: plain.into_bytes(), glob: has_wildcards.then(|| Pattern::glob(&glob)) })
    }

    /// Does the whole text equal the literal with its globs?
    #[inline]
    pub(super) fn equals(&self, text: &[u8]) -> bool {
        match &self.glob {
            None => self.plain == text,
            Some(glob) => glob.matches(text),
        }
    }

    /// Does it stand for several texts?
    pub(super) fn is_glob(&self) -> bool {
        self.glob.is_some()
    }

    /// The texts that it stands for, when they are several.
    pub(super) fn glob(&self) -> Option<&Pattern> {
        self.glob.as_ref()
    }

    /// The text itself, for an order by bytes.
    pub(super) fn plain(&self) -> &[u8] {
        &self.plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> TextLiteral {
        TextLiteral::parse(text, Span::new(0, text.len())).unwrap()
    }

    #[test]
    fn escapes_take_the_meaning_away() {
        for (raw, text, want) in [
            ("a*", "abc", true),
            (r"a\*", "abc", false),
            (r"a\*", "a*", true),
            (r"\?\*?", "?*x", true),
            (r"\?\*?", "?*", false),
            (r"a\\*", r"a\x", true),
            (r"a\\*", "a*", false),
            (r"a\\b", r"a\b", true),
            (r#"\"\'"#, "\"'", true),
            (r"a\nb\t", "a\nb\t", true),
            ("é?*", "éa", true),
        ] {
            assert_eq!(literal(raw).equals(text.as_bytes()), want, "{raw} {text}");
        }
    }

    #[test]
    fn invalid_text_is_compared_by_bytes() {
        assert!(literal("a?b").equals(b"a\xffb"));
        assert!(!literal("a?b").equals(b"a\xff\xffb"));
        assert!(literal("a*b").equals(b"a\xff\xffb"));
    }
}
