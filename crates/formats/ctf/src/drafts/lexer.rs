//! Text to tokens, the same for both dialects (`SPEC.md`, D3: C-like, NUL is white space).

use tracemill_codec::text::Span;
use tracemill_model::error::Result;

use crate::tsdl::{digits_of, skip_blank};

/// A piece of metadata text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    /// Its kind.
    pub(super) kind: TokenKind,
    /// Where it is.
    pub(super) span: Span,
}

/// Kind of a token. The text of words and strings is looked up by their span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    /// Keyword or identifier.
    Word,
    /// Integer with its sign.
    Integer(i128),
    /// String with its quotes.
    Text,
    /// A punctuator of one character.
    Symbol(u8),
    /// `...`
    Ellipsis,
    /// End of the text.
    End,
}

/// All tokens of a text, with an end behind the last.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>> {
    let (mut tokens, end) = tokens_to_end(source);
    tokens.push(end?);
    Ok(tokens)
}

/// The tokens up to the first that cannot be read: enough to recognise a text, which may be truncated.
pub(super) fn tokens_until_error(source: &str) -> Vec<Token> {
    tokens_to_end(source).0
}

fn tokens_to_end(source: &str) -> (Vec<Token>, Result<Token>) {
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0 };
    let mut tokens = Vec::new();
    loop {
        match lexer.next() {
            Ok(token) if token.kind != TokenKind::End => tokens.push(token),
            end => return (tokens, end),
        }
    }
}

struct Lexer<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token> {
        self.at = skip_blank(self.source, self.at, self.bytes.len(), true)?;
        let start = self.at;
        let kind = match self.bytes.get(start..).unwrap_or(&[]) {
            [] => TokenKind::End,
            [b'0'..=b'9', ..] | [b'-' | b'+', b'0'..=b'9', ..] => self.integer()?,
            [b'"', ..] => self.text()?,
            [b'a'..=b'z' | b'A'..=b'Z' | b'_', rest @ ..] => {
                let more = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
                self.at += 1 + more;
                TokenKind::Word
            }
            [b'.', b'.', b'.', ..] => {
                self.at += 3;
                TokenKind::Ellipsis
            }
            [symbol @ (b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>'), ..]
            | [symbol @ (b',' | b';' | b':' | b'=' | b'*' | b'.'), ..] => {
                self.at += 1;
                TokenKind::Symbol(*symbol)
            }
            _ => {
                let found = self.source.get(start..).and_then(|rest| rest.chars().next()).unwrap_or('\u{fffd}');
                let span = Span::new(start, start + found.len_utf8());
                return Err(span.malformed(self.source, format!("unexpected character `{}`", found.escape_debug())));
            }
        };
        Ok(Token { kind, span: Span::new(start, self.at) })
    }

    fn integer(&mut self) -> Result<TokenKind> {
        let start = self.at;
        let is_negative = self.bytes[start] == b'-';
        let signed = usize::from(!self.bytes[start].is_ascii_digit());
        let rest = self.bytes.get(start + signed..).unwrap_or(&[]);
        let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        self.at = start + signed + len;
        let span = Span::new(start, self.at);
        let text = Span::new(start + signed, self.at).text(self.source);
        let (digits, radix) = digits_of(text)
            .map_err(|_| span.malformed(self.source, format!("`{}` is not a number", span.text(self.source))))?;
        let value = u64::from_str_radix(digits, radix).ok().map(i128::from);
        let value = value.map(|value| if is_negative { -value } else { value });
        match value.filter(|&value| value >= i128::from(i64::MIN)) {
            Some(value) => Ok(TokenKind::Integer(value)),
            None => Err(span.malformed(self.source, "the integer is not between -2^63 and 2^64-1")),
        }
    }

    fn text(&mut self) -> Result<TokenKind> {
        let start = self.at;
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(TokenKind::Text);
                }
                b'\n' => break,
                b'\\' => 2,
                _ => 1,
            };
        }
        let span = Span::new(start, self.at.min(self.bytes.len()));
        Err(span.malformed(self.source, "the string has no end on its line"))
    }
}
