//! Text to tokens, the same for both dialects (`SPEC.md`, D3: C-like, NUL is white space).

use tracemill_codec::text::Span;
use tracemill_model::error::Result;

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
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.kind == TokenKind::End {
            return Ok(tokens);
        }
    }
}

/// The tokens up to the first that cannot be read: enough to recognise a text, which may be truncated.
pub(super) fn tokens_until_error(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { source, bytes: source.as_bytes(), at: 0 };
    let mut tokens = Vec::new();
    while let Ok(token) = lexer.next() {
        if token.kind == TokenKind::End {
            break;
        }
        tokens.push(token);
    }
    tokens
}

struct Lexer<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token> {
        self.skip_blank()?;
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

    fn skip_blank(&mut self) -> Result<()> {
        loop {
            match self.bytes.get(self.at..).unwrap_or(&[]) {
                [b' ' | b'\t' | b'\r' | b'\n' | 0x0B | 0x0C | 0, ..] => self.at += 1,
                [b'/', b'/', rest @ ..] => {
                    self.at += 2 + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                [b'/', b'*', rest @ ..] => match memchr::memmem::find(rest, b"*/") {
                    Some(len) => self.at += len + 4,
                    None => {
                        let span = Span::new(self.at, self.at + 2);
                        return Err(span.malformed(self.source, "comment is never closed with `*/`"));
                    }
                },
                _ => return Ok(()),
            }
        }
    }

    fn integer(&mut self) -> Result<TokenKind> {
        let start = self.at;
        let is_negative = self.bytes[start] == b'-';
        let signed = usize::from(!self.bytes[start].is_ascii_digit());
        let digits = self.bytes.get(start + signed..).unwrap_or(&[]);
        let len = digits.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        self.at = start + signed + len;
        let span = Span::new(start, self.at);
        let text = Span::new(start + signed, self.at).text(self.source);
        let (body, radix) = match text.as_bytes() {
            [b'0', b'x' | b'X', ..] => (text.get(2..).unwrap_or(""), 16),
            [b'0', _, ..] => (text, 8),
            _ => (text, 10),
        };
        let count = body.bytes().take_while(|&byte| char::from(byte).is_digit(radix)).count();
        let suffix = body.get(count..).unwrap_or("").to_ascii_lowercase();
        if count == 0 || !matches!(suffix.as_str(), "" | "u" | "l" | "ul" | "lu" | "ll" | "ull" | "llu") {
            return Err(span.malformed(self.source, format!("`{}` is not a number", span.text(self.source))));
        }
        let value = u64::from_str_radix(body.get(..count).unwrap_or(""), radix).ok().map(i128::from);
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

/// The text of a string literal: escapes as in C.
pub(super) fn text_of(source: &str, span: Span) -> Result<String> {
    let body = Span::new(span.start + 1, span.end.saturating_sub(1)).text(source);
    let bad = |what: &str| span.malformed(source, format!("the string has {what}"));
    let mut text: Vec<u8> = Vec::with_capacity(body.len());
    let mut rest = body.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        let Some((&letter, more)) = rest.split_first() else { return Err(bad("a lone `\\`")) };
        rest = more;
        match letter {
            b'\'' | b'"' | b'?' | b'\\' => text.push(letter),
            b'a' => text.push(7),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'v' => text.push(11),
            b'0'..=b'7' => {
                rest = body.as_bytes().get(body.len() - rest.len() - 1..).unwrap_or(&[]);
                let (_, value) = digits(&mut rest, 3, 8);
                text.push(u8::try_from(value).map_err(|_| bad("an octal escape above 255"))?);
            }
            b'x' => match digits(&mut rest, 16, 16) {
                (1.., value) => text.push(u8::try_from(value).map_err(|_| bad("a hexadecimal escape above 255"))?),
                _ => return Err(bad("`\\x` without digits")),
            },
            b'u' | b'U' => {
                let most = if letter == b'u' { 4 } else { 8 };
                let (len, value) = digits(&mut rest, most, 16);
                let found = u32::try_from(value).ok().and_then(char::from_u32).filter(|_| len == most);
                let Some(found) = found else { return Err(bad("a universal escape that is no character")) };
                text.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return Err(bad(&format!("the unknown escape `\\{}`", char::from(letter).escape_debug()))),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Takes up to `most` digits; gives how many there were, and their value.
fn digits(rest: &mut &[u8], most: usize, radix: u32) -> (usize, u64) {
    let len = rest.iter().take(most).take_while(|&&byte| char::from(byte).is_digit(radix)).count();
    let (number, more) = rest.split_at(len);
    *rest = more;
    let value = number.iter().fold(0u64, |value, &byte| {
        let digit = char::from(byte).to_digit(radix).unwrap_or(0);
        value.saturating_mul(radix.into()).saturating_add(digit.into())
    });
    (len, value)
}
