//! From the text of an expression to tokens, one at a time.

use std::borrow::Cow;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

use super::syntax::Op;

/// A token with its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FilterToken {
    pub kind: TokenKind,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    /// A plain word, with `$` in front or not; after a dot also digits.
    Word,
    /// A name in backquotes.
    Quoted,
    /// Anything that begins like a number.
    Number,
    /// A string; escapes are not looked at.
    Text,
    Dot,
    Comma,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    Ampersand,
    And,
    Or,
    Not,
    Compare(Op),
    End,
}

impl FilterToken {
    /// The text between the quotes, or the token itself.
    pub(super) fn inner(self) -> Span {
        match self.kind {
            TokenKind::Quoted | TokenKind::Text => Span::new(self.span.start + 1, self.span.end - 1),
            _ => self.span,
        }
    }

    /// The token for an error message.
    pub(super) fn describe(self, source: &str) -> String {
        match self.kind {
            TokenKind::End => "the end of the expression".to_string(),
            TokenKind::Text => format!("the string {}", self.span.text(source)),
            TokenKind::Quoted => format!("the name {}", self.span.text(source)),
            _ => format!("`{}`", self.span.text(source)),
        }
    }
}

pub(super) struct Lexer<'a> {
    source: &'a str,
    at: usize,
    after_dot: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Lexer { source, at: 0, after_dot: false }
    }

    pub(super) fn next_token(&mut self) -> Result<FilterToken> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        let start = self.at;
        let kind = self.kind()?;
        self.after_dot = kind == TokenKind::Dot;
        Ok(FilterToken { kind, span: Span::new(start, self.at) })
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn kind(&mut self) -> Result<TokenKind> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(TokenKind::End) };
        // A member may be named by digits: options of a variant that have no name.
        if is_word_start(first) || first == '$' || (self.after_dot && first.is_ascii_digit()) {
            let len =
                rest[first.len_utf8()..].find(|c| !is_word_part(c)).map_or(rest.len(), |at| at + first.len_utf8());
            self.at += len;
            return Ok(TokenKind::Word);
        }
        let second = rest[first.len_utf8()..].chars().next();
        if first.is_ascii_digit() || (first == '-' && second.is_some_and(|c| c.is_ascii_digit())) {
            self.at += number_len(rest.as_bytes());
            return Ok(TokenKind::Number);
        }
        match first {
            '"' | '\'' => return self.text(first),
            '`' => return self.quoted(),
            _ => {}
        }
        let Some((kind, len)) = symbol(first, second) else { return Err(self.unexpected(first)) };
        self.at += len;
        Ok(kind)
    }

    fn text(&mut self, quote: char) -> Result<TokenKind> {
        let mut bytes = self.rest().bytes().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            if byte == b'\\' {
                bytes.next();
            } else if byte == quote as u8 {
                self.at += at + 1;
                return Ok(TokenKind::Text);
            }
        }
        let error = self.span(1).malformed(self.source, "the string has no end");
        Err(error.with_help(format!("a string ends with {quote}; inside it, write \\{quote}")))
    }

    fn quoted(&mut self) -> Result<TokenKind> {
        match self.rest()[1..].find('`') {
            Some(0) => Err(self.span(2).malformed(self.source, "a name of no characters")),
            Some(len) => {
                self.at += len + 2;
                Ok(TokenKind::Quoted)
            }
            None => Err(self.span(1).malformed(self.source, "the name has no closing backquote")),
        }
    }

    fn span(&self, len: usize) -> Span {
        Span::new(self.at, self.at + len)
    }

    fn unexpected(&self, found: char) -> Error {
        let error = self.span(found.len_utf8()).malformed(self.source, format!("unexpected character `{found}`"));
        match found {
            '=' => error.with_help("`==` compares, `=~` matches a regular expression"),
            '|' => error.with_help("`||` or `or` combines conditions"),
            '-' | '+' => error.with_help("there is no arithmetic; a number may have a `-` right before its digits"),
            '~' | '^' => error.with_help("of the bit operators there is only `&`"),
            _ => error.with_help("names that are no plain words stand in backquotes, strings in quotes"),
        }
    }
}

/// The name of a member as it is written after a dot: in backquotes unless it is a plain word.
pub(super) fn member_text(name: &str) -> Cow<'_, str> {
    let is_start = |c: char| is_word_start(c) || c.is_ascii_digit();
    let is_plain = name.starts_with(is_start) && name.chars().all(is_word_part);
    if is_plain { name.into() } else { format!("`{name}`").into() }
}

fn is_word_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_word_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Everything that sticks to a number is a part of it, so that a bad number is one error.
fn number_len(bytes: &[u8]) -> usize {
    let mut at = usize::from(bytes[0] == b'-');
    let is_hex = bytes[at] == b'0' && matches!(bytes.get(at + 1), Some(b'x' | b'X'));
    let digit_at = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    while let Some(&byte) = bytes.get(at) {
        let after_exponent = !is_hex && at > 0 && matches!(bytes[at - 1], b'e' | b'E');
        let goes_on = match byte {
            b'.' => digit_at(at + 1),
            b'+' | b'-' => after_exponent && digit_at(at + 1),
            byte => byte == b'_' || byte.is_ascii_alphanumeric(),
        };
        if !goes_on {
            break;
        }
        at += 1;
    }
    at
}

fn symbol(first: char, second: Option<char>) -> Option<(TokenKind, usize)> {
    Some(match (first, second) {
        ('=', Some('=')) => (TokenKind::Compare(Op::Equal), 2),
        ('=', Some('~')) => (TokenKind::Compare(Op::Match), 2),
        ('!', Some('=')) => (TokenKind::Compare(Op::NotEqual), 2),
        ('<', Some('=')) => (TokenKind::Compare(Op::LessOrEqual), 2),
        ('>', Some('=')) => (TokenKind::Compare(Op::GreaterOrEqual), 2),
        ('&', Some('&')) => (TokenKind::And, 2),
        ('|', Some('|')) => (TokenKind::Or, 2),
        ('!', _) => (TokenKind::Not, 1),
        ('<', _) => (TokenKind::Compare(Op::Less), 1),
        ('>', _) => (TokenKind::Compare(Op::Greater), 1),
        ('&', _) => (TokenKind::Ampersand, 1),
        ('.', _) => (TokenKind::Dot, 1),
        (',', _) => (TokenKind::Comma, 1),
        ('(', _) => (TokenKind::OpenParen, 1),
        (')', _) => (TokenKind::CloseParen, 1),
        ('[', _) => (TokenKind::OpenBracket, 1),
        (']', _) => (TokenKind::CloseBracket, 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        let mut lexer = Lexer::new(source);
        let mut words = Vec::new();
        loop {
            let token = lexer.next_token().unwrap();
            if token.kind == TokenKind::End {
                return words;
            }
            words.push(token.span.text(source));
        }
    }

    #[test]
    fn tokens_need_no_spaces() {
        assert_eq!(words("a.b[1]==-0x1f&&!c"), ["a", ".", "b", "[", "1", "]", "==", "-0x1f", "&&", "!", "c"]);
        assert_eq!(words("$ctx.v.0.x<=1.5e-3"), ["$ctx", ".", "v", ".", "0", ".", "x", "<=", "1.5e-3"]);
        assert_eq!(words(r#"x=~"a\"b" or`o d`"#), ["x", "=~", r#""a\"b""#, "or", "`o d`"]);
        assert_eq!(words("flags&0x80!=0"), ["flags", "&", "0x80", "!=", "0"]);
        assert_eq!(words("größe == 12ab"), ["größe", "==", "12ab"]);
    }
}
