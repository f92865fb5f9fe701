//! Text to tokens: TSDL (CTF 1.8.3, C.1) and the languages of the drafts (`drafts/SPEC.md`, D3).

use tracemill_codec::text::Span;
use tracemill_model::error::Result;

/// A piece of metadata text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    /// Its kind.
    pub(crate) kind: TokenKind,
    /// Where it is.
    pub(crate) span: Span,
}

/// Kind of a token. Its text is looked up by its span when it is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenKind {
    /// Keyword or identifier; the parser distinguishes them by their text.
    Word,
    /// Integer constant; in the drafts with its sign.
    Integer(i128),
    /// String or character literal with its quotes.
    Quoted,
    /// Punctuator, as it is written.
    Symbol(&'static str),
    /// End of the text.
    End,
}

/// The punctuators, none after one that it begins with.
const SYMBOLS: [&str; 19] =
    ["{", "}", ";", ":=", ":", "=", "...", ".", ",", "[", "]", "(", ")", "<", ">", "->", "-", "*", "+"];

/// Reads tokens from a part of a source text. Spans are positions in the whole source.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'s> {
    source: &'s str,
    at: usize,
    end: usize,
    /// Is it a text of a draft? Words are ASCII there, strings end on their line, and NUL is white space.
    is_draft: bool,
}

/// All tokens of a text of a draft up to its end, or up to the first that cannot be read.
pub(crate) fn draft_tokens(source: &str) -> (Vec<Token>, Result<Token>) {
    let mut lexer = Lexer { is_draft: true, ..Lexer::new(source, Span::new(0, source.len())) };
    let mut tokens = Vec::new();
    loop {
        match lexer.next() {
            Ok(token) if token.kind != TokenKind::End => tokens.push(token),
            end => return (tokens, end),
        }
    }
}

impl<'s> Lexer<'s> {
    /// A lexer of `part`, which starts and ends between two tokens of `source`.
    pub(super) fn new(source: &'s str, part: Span) -> Self {
        Lexer { source, at: part.start, end: part.end, is_draft: false }
    }

    /// The next token; [`TokenKind::End`] for ever at the end.
    pub(super) fn next(&mut self) -> Result<Token> {
        self.at = skip_blank(self.source, self.at, self.end, self.is_draft)?;
        let start = self.at;
        let rest = &self.source.as_bytes()[start..self.end];
        let kind = match rest {
            [] => TokenKind::End,
            [b'0'..=b'9', ..] => self.integer(0)?,
            [b'-' | b'+', b'0'..=b'9', ..] if self.is_draft => self.integer(1)?,
            [b'"', ..] => self.quoted(start)?,
            [b'\'', ..] if !self.is_draft => self.quoted(start)?,
            [b'L', b'"' | b'\'', ..] if !self.is_draft => self.quoted(start + 1)?,
            _ => match self.word_len() {
                0 => self.symbol(rest)?,
                len => {
                    self.at += len;
                    TokenKind::Word
                }
            },
        };
        Ok(Token { kind, span: Span::new(start, self.at) })
    }

    fn symbol(&mut self, rest: &[u8]) -> Result<TokenKind> {
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol.as_bytes())) {
            self.at += symbol.len();
            return Ok(TokenKind::Symbol(symbol));
        }
        let found = self.source[self.at..].chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
        let span = Span::new(self.at, self.at + found.len_utf8());
        Err(span.malformed(self.source, format!("unexpected character `{}`", found.escape_debug())))
    }

    /// Length of the identifier here; 0 when there is none.
    fn word_len(&self) -> usize {
        let text = &self.source[self.at..self.end];
        let bytes = text.as_bytes();
        let mut len = 0;
        while let Some(&byte) = bytes.get(len) {
            let step = match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => 1,
                b'0'..=b'9' if len > 0 => 1,
                _ if self.is_draft => 0,
                b'\\' => universal_name_len(&bytes[len..]),
                0x80.. => text[len..].chars().next().filter(|c| c.is_alphanumeric()).map_or(0, char::len_utf8),
                _ => 0,
            };
            if step == 0 {
                break;
            }
            len += step;
        }
        len
    }

    fn integer(&mut self, sign: usize) -> Result<TokenKind> {
        let start = self.at;
        let bytes = &self.source.as_bytes()[start + sign..self.end];
        let len = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        self.at += sign + len;
        let span = Span::new(start, self.at);
        let (sign, text) = span.text(self.source).split_at(sign);
        let (digits, radix) = digits_of(text).map_err(|radix| {
            let base = match radix {
                16 => "a hexadecimal",
                8 => "an octal",
                _ => "a decimal",
            };
            span.malformed(self.source, format!("`{text}` is not {base} number"))
        })?;
        match u64::from_str_radix(digits, radix).map(i128::from) {
            Ok(value) if sign != "-" => Ok(TokenKind::Integer(value)),
            Ok(value) if -value >= i128::from(i64::MIN) => Ok(TokenKind::Integer(-value)),
            _ => Err(span.malformed(self.source, "integer does not fit in 64 bits")),
        }
    }

    fn quoted(&mut self, quote_at: usize) -> Result<TokenKind> {
        let bytes = &self.source.as_bytes()[..self.end];
        let quote = bytes[quote_at];
        let mut at = quote_at + 1;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'\\' => at += 2,
                b'\n' if self.is_draft => break,
                _ if byte == quote => {
                    self.at = at + 1;
                    return Ok(TokenKind::Quoted);
                }
                _ => at += 1,
            }
        }
        if self.is_draft {
            return Err(
                Span::new(self.at, at.min(self.end)).malformed(self.source, "the string has no end on its line")
            );
        }
        let message = format!("string is never closed with `{}`", char::from(quote));
        Err(Span::new(self.at, quote_at + 1).malformed(self.source, message))
    }
}

/// Length of `\uXXXX` or `\UXXXXXXXX` at the start of `bytes`, or 0.
fn universal_name_len(bytes: &[u8]) -> usize {
    let digits = match bytes {
        [b'\\', b'u', ..] => 4,
        [b'\\', b'U', ..] => 8,
        _ => return 0,
    };
    let name = bytes.get(2..2 + digits).unwrap_or(&[]);
    if name.len() == digits && name.iter().all(u8::is_ascii_hexdigit) { 2 + digits } else { 0 }
}

/// Where the white space and the comments that begin here end; `has_nuls` counts each NUL as white space.
fn skip_blank(source: &str, mut at: usize, end: usize, has_nuls: bool) -> Result<usize> {
    loop {
        at = match source.as_bytes().get(at..end).unwrap_or(&[]) {
            [b' ' | b'\t' | b'\r' | b'\n' | 0x0B | 0x0C, ..] => at + 1,
            [b'/', b'/', rest @ ..] => at + 2 + memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            [b'/', b'*', rest @ ..] => match memchr::memmem::find(rest, b"*/") {
                Some(len) => at + len + 4,
                None => return Err(Span::new(at, at + 2).malformed(source, "comment is never closed with `*/`")),
            },
            [0, ..] if has_nuls => at + 1,
            // Padding of metadata packets that was removed carelessly: nothing but zeros may follow.
            rest @ [0, ..] if rest.iter().all(|&byte| byte == 0) => end,
            _ => return Ok(at),
        }
    }
}

/// The digits of an integer constant of C and their base, which alone is known of a text that is none.
fn digits_of(text: &str) -> std::result::Result<(&str, u32), u32> {
    let (body, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', ..] => (text, 8),
        _ => (text, 10),
    };
    let (digits, suffix) = body.split_at(body.bytes().take_while(|&byte| char::from(byte).is_digit(radix)).count());
    let is_suffix = ["", "u", "l", "ll", "ul", "ull", "lu", "llu"].contains(&&*suffix.to_ascii_lowercase());
    if is_suffix && !digits.is_empty() { Ok((digits, radix)) } else { Err(radix) }
}

/// The value of a quoted literal: without its quotes, with its escapes replaced.
pub(crate) fn unquote(source: &str, span: Span) -> Result<std::borrow::Cow<'_, str>> {
    let literal = span.text(source);
    let prefix = usize::from(literal.starts_with('L'));
    let inner = &literal[prefix + 1..literal.len() - 1];
    unescape(source, Span::new(span.start + prefix + 1, span.start + prefix + 1 + inner.len()))
}

/// Replaces the escapes of a literal's inside or of an identifier.
pub(super) fn unescape(source: &str, span: Span) -> Result<std::borrow::Cow<'_, str>> {
    let text = span.text(source);
    if !text.contains('\\') {
        return Ok(text.into());
    }
    // Octal and hexadecimal escapes are bytes, so that a producer can spell UTF-8 with them.
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        let len = push_escape(&mut bytes, rest).ok_or_else(|| {
            let start = span.start + text.len() - rest.len();
            let width = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            Span::new(start, start + width).malformed(source, format!("unknown escape `{}`", &rest[..width]))
        })?;
        rest = &rest[len..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(String::from_utf8_lossy(&bytes).into_owned().into())
}

/// Writes the value of the escape at the start of `text` and returns its length.
fn push_escape(out: &mut Vec<u8>, text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let simple = match bytes.get(1)? {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0C,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0B,
        byte @ (b'\\' | b'\'' | b'"' | b'?') => *byte,
        b'0'..=b'7' => return push_byte_escape(out, text, 1, 3, 8),
        b'x' => return push_byte_escape(out, text, 2, 2, 16),
        _ => {
            let len = universal_name_len(bytes);
            let value = u32::from_str_radix(text.get(2..len)?, 16).ok()?;
            let mut utf8 = [0; 4];
            out.extend_from_slice(char::from_u32(value)?.encode_utf8(&mut utf8).as_bytes());
            return Some(len);
        }
    };
    out.push(simple);
    Some(2)
}

fn push_byte_escape(out: &mut Vec<u8>, text: &str, start: usize, most: usize, radix: u32) -> Option<usize> {
    let count = text[start..].chars().take(most).take_while(|c| c.is_digit(radix)).count();
    let value = u32::from_str_radix(text.get(start..start + count)?, radix).ok()?;
    out.push(u8::try_from(value).ok()?);
    Some(start + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<TokenKind> {
        let mut lexer = Lexer::new(source, Span::new(0, source.len()));
        let mut kinds = Vec::new();
        loop {
            match lexer.next().expect("the text is well formed").kind {
                TokenKind::End => return kinds,
                kind => kinds.push(kind),
            }
        }
    }

    fn fault(source: &str) -> String {
        let mut lexer = Lexer::new(source, Span::new(0, source.len()));
        loop {
            match lexer.next() {
                Ok(Token { kind: TokenKind::End, .. }) => panic!("no fault in {source}"),
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
        }
    }

    #[test]
    fn integers_of_all_bases_with_suffixes() {
        use TokenKind::Integer;
        assert_eq!(kinds("0 017 0x1F 42ULL 7l"), [Integer(0), Integer(15), Integer(31), Integer(42), Integer(7)]);
        assert!(fault("a 09").contains("column 3: `09` is not an octal number"));
        assert!(fault("18446744073709551616").contains("does not fit"));
    }

    #[test]
    fn comments_and_trailing_zeros_are_blank() {
        assert_eq!(kinds("/* a */ x // y\n z\0\0").len(), 2);
        assert!(fault("x /* y").contains("column 3: comment is never closed"));
        assert!(fault("x \0 y").contains("unexpected character"));
    }

    #[test]
    fn symbols_take_the_longest_form() {
        use TokenKind::Symbol as S;
        assert_eq!(kinds("... . := : = ->"), [S("..."), S("."), S(":="), S(":"), S("="), S("->")]);
    }

    #[test]
    fn escapes_in_literals() {
        let source = r#""a\n\x41\101\"\u00e9""#;
        assert_eq!(unquote(source, Span::new(0, source.len())).expect("valid"), "a\nAA\"é");
        let wrong = r#""a\q""#;
        let error = unquote(wrong, Span::new(0, wrong.len())).expect_err("unknown escape");
        assert!(error.to_string().contains(r"column 3: unknown escape `\q`"), "{error}");
    }

    #[test]
    fn open_string_points_to_its_quote() {
        assert!(fault("x = \"abc\\\"").contains("column 5: string is never closed"));
    }
}
