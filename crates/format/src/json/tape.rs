//! A line of JSON as a flat list of tokens, and what identifies the shape of its values.
//!
//! The *shape* of a value is what kind it is and, for structures, the names and shapes of its members. Two values of the
//! same shape have the same 64-bit mark; an array whose elements have one shape has the mark of that, whatever its
//! length, and any other array is a list of its elements' shapes.

use std::borrow::Cow;

use tracemill_codec::text::json::unescape;
use tracemill_codec::text::marks::{mix, mix_bytes};

/// Values inside each other, at most.
const MAX_DEPTH: u32 = 64;
/// Elements of an array with `null` in it that have a shape each; in longer ones they all have the same.
const MAX_TUPLE_OF_NULLS: u32 = 16;

/// Kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// `null`.
    Null,
    /// `true` or `false`: which one is in `to`.
    Bool,
    /// A number without fraction and exponent.
    Int,
    /// Any other number.
    Float,
    /// A string.
    Text,
    /// A string with escapes.
    Escaped,
    /// `"NaN"`, `"Infinity"` or `"-Infinity"`: a float, unless other values of the field are strings.
    Special,
    /// Begin of an array; `to` is the number of elements, `from` the mark of one element's shape when all have it.
    Array,
    /// Begin of an array whose elements have different shapes.
    Tuple,
    /// Begin of an object; `to` is the number of members.
    Object,
    /// The key before a member's value.
    Key,
}

/// A token: its kind, and for texts and numbers where it is in the line (strings without their quotes).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapeToken {
    /// Its kind.
    pub kind: TokenKind,
    /// The first of its bytes, or what the kind says.
    pub from: u32,
    /// The end of its bytes, or what the kind says.
    pub to: u32,
}

impl TapeToken {
    /// The bytes that it names.
    pub fn bytes<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        line.get(self.from as usize..self.to as usize).unwrap_or(&[])
    }

    /// The text of a string.
    pub fn text<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        match self.kind {
            TokenKind::Escaped => unescape(self.bytes(line)).into(),
            _ => self.bytes(line).into(),
        }
    }
}

/// Why a line cannot be read, and where in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The byte of the line.
    pub at: usize,
    /// The reason.
    pub reason: &'static str,
}

/// Reads values of a line.
pub struct LineParser<'a> {
    /// The line.
    pub line: &'a [u8],
    /// Where it reads on.
    pub at: usize,
    /// The tokens so far.
    pub tokens: &'a mut Vec<TapeToken>,
    nulls: u64,
}

impl<'a> LineParser<'a> {
    /// A parser at the beginning of a line.
    pub fn new(line: &'a [u8], tokens: &'a mut Vec<TapeToken>) -> Self {
        LineParser { line, at: 0, tokens, nulls: 0 }
    }

    /// Steps over blanks.
    #[inline]
    pub fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.line.get(self.at) {
            self.at += 1;
        }
    }

    /// The byte after blanks.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.line.get(self.at).copied()
    }

    /// Steps over a byte that must be there.
    #[inline]
    ///
    /// # Errors
    /// Another byte is there.
    pub fn expect(&mut self, byte: u8, reason: &'static str) -> Result<(), Fault> {
        if self.peek() != Some(byte) {
            return Err(self.fault(reason));
        }
        self.at += 1;
        Ok(())
    }

    /// A fault at the place at hand.
    pub fn fault(&self, reason: &'static str) -> Fault {
        let reason = if self.at >= self.line.len() { "the line ends in the middle of its object" } else { reason };
        Fault { at: self.at, reason }
    }

    /// Reads a value; its mark.
    ///
    /// # Errors
    /// There is no value of JSON.
    pub fn value(&mut self, depth: u32) -> Result<u64, Fault> {
        let Some(first) = self.peek() else { return Err(self.fault("")) };
        match first {
            b'"' => {
                // With or without escapes, it is a string.
                let is_special = self.string()?.kind == TokenKind::Special;
                Ok(if is_special { TokenKind::Special } else { TokenKind::Text } as u64)
            }
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'-' | b'0'..=b'9' => self.number(),
            b'n' => {
                self.nulls += 1;
                self.word(b"null", TokenKind::Null, 0)
            }
            b't' => self.word(b"true", TokenKind::Bool, 1),
            b'f' => self.word(b"false", TokenKind::Bool, 0),
            _ => Err(self.fault("no JSON value begins with this byte")),
        }
    }

    fn push(&mut self, kind: TokenKind, from: usize, to: usize) -> TapeToken {
        let token = TapeToken { kind, from: from as u32, to: to as u32 };
        self.tokens.push(token);
        token
    }

    fn word(&mut self, word: &'static [u8], kind: TokenKind, value: usize) -> Result<u64, Fault> {
        if !self.line[self.at..].starts_with(word) {
            return Err(self.fault("no JSON value begins like this"));
        }
        self.at += word.len();
        self.push(kind, 0, value);
        Ok(kind as u64)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let from = self.at;
        let digits = |line: &[u8], at: usize| at + line[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut at = from + usize::from(self.line[from] == b'-');
        let whole = at;
        at = digits(self.line, at);
        let mut kind = TokenKind::Int;
        let mut is_bad = at == whole || at > whole + 1 && self.line[whole] == b'0';
        if self.line.get(at) == Some(&b'.') {
            kind = TokenKind::Float;
            let fraction = at + 1;
            at = digits(self.line, fraction);
            is_bad |= at == fraction;
        }
        if let Some(b'e' | b'E') = self.line.get(at) {
            kind = TokenKind::Float;
            let sign = usize::from(matches!(self.line.get(at + 1), Some(b'+' | b'-')));
            let exponent = at + 1 + sign;
            at = digits(self.line, exponent);
            is_bad |= at == exponent;
        }
        if is_bad {
            return Err(self.fault("this is not a number of JSON"));
        }
        self.at = at;
        self.push(kind, from, at);
        Ok(kind as u64)
    }

    /// Reads a string.
    ///
    /// # Errors
    /// There is no string of JSON.
    pub fn string(&mut self) -> Result<TapeToken, Fault> {
        self.expect(b'"', "a string is expected")?;
        let from = self.at;
        let mut kind = TokenKind::Text;
        loop {
            self.at += plain_len(&self.line[self.at..]);
            match self.line.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {}
                Some(_) => return Err(self.fault("a control character in a string must be written as an escape")),
                None => return Err(self.fault("")),
            }
            kind = TokenKind::Escaped;
            self.at += 1;
            match self.line.get(self.at) {
                Some(b'u') => {
                    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
                    if !self.line.get(self.at + 1..self.at + 5).is_some_and(is_hex) {
                        return Err(self.fault("`\\u` needs four hexadecimal digits"));
                    }
                    self.at += 5;
                }
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                _ => return Err(self.fault("JSON has no such escape")),
            }
        }
        let to = self.at;
        self.at += 1;
        if let b"NaN" | b"Infinity" | b"-Infinity" = &self.line[from..to] {
            kind = TokenKind::Special;
        }
        Ok(self.push(kind, from, to))
    }

    fn object(&mut self, depth: u32) -> Result<u64, Fault> {
        let open = self.begin(TokenKind::Object, depth)?;
        let (mut mark, mut members) = (TokenKind::Object as u64, 0);
        while self.next_item(members > 0, b'}')? {
            self.skip_blanks();
            let key = self.string()?;
            if let Some(token) = self.tokens.last_mut() {
                // The backslash in it shows a key with escapes.
                token.kind = TokenKind::Key;
            }
            self.expect(b':', "`:` is expected after a key")?;
            mark = mix_bytes(mark, key.bytes(self.line));
            mark = mix(mark, self.value(depth + 1)?);
            members += 1;
        }
        self.tokens[open].to = members;
        Ok(mix(mark, 0x7d))
    }

    fn array(&mut self, depth: u32) -> Result<u64, Fault> {
        let open = self.begin(TokenKind::Array, depth)?;
        let (mut first, mut is_uniform, mut list, mut len) = (None, true, TokenKind::Tuple as u64, 0);
        let nulls = self.nulls;
        while self.next_item(len > 0, b']')? {
            let mark = self.value(depth + 1)?;
            is_uniform &= *first.get_or_insert(mark) == mark;
            list = mix(list, mark);
            len += 1;
        }
        self.tokens[open].to = len;
        // Other formats cannot mark elements as absent, but members.
        if !is_uniform || self.nulls > nulls && len <= MAX_TUPLE_OF_NULLS {
            self.tokens[open].kind = TokenKind::Tuple;
            return Ok(mix(list, len.into()));
        }
        Ok(mix(TokenKind::Array as u64, first.unwrap_or(0x5d)))
    }

    fn begin(&mut self, kind: TokenKind, depth: u32) -> Result<usize, Fault> {
        if depth >= MAX_DEPTH {
            return Err(self.fault("values are nested more than 64 deep"));
        }
        self.at += 1;
        self.push(kind, 0, 0);
        Ok(self.tokens.len() - 1)
    }

    /// Is there another item before the end of an object or array? Steps over the comma or the end.
    #[inline]
    ///
    /// # Errors
    /// Something else is there.
    pub fn next_item(&mut self, is_behind_one: bool, end: u8) -> Result<bool, Fault> {
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if is_behind_one => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if !is_behind_one => Ok(true),
            _ => Err(self.fault("`,` or the end of the object or array is expected")),
        }
    }
}
/// The bytes before the first quote, backslash or control character.
///
/// Most strings are short: eight bytes at once, as parts of a number, are looked at sooner than a search for long texts begins.
fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    // The high bits of bytes below a bound. A borrow may add a wrong one, but only after one that is right.
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGH;
    let (words, rest) = bytes.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found =
            below(word, 0x20) | below(word ^ (ONES * u64::from(b'"')), 1) | below(word ^ (ONES * u64::from(b'\\')), 1);
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let end = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    words.len() * 8 + end.unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each special byte, and bytes that differ from one in a bit or stand beside one, at each place of texts of all lengths
    /// around the size of a word; with other special bytes after it.
    #[test]
    fn strings_end_at_the_first_special_byte() {
        let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        for byte in 0..=u8::MAX {
            for len in 1..20 {
                for at in 0..len {
                    for (before, after) in [(b'a', b'a'), (0x20, b'"'), (0xff, 0x1f), (b'#', b'\\'), (b'!', 0)] {
                        let mut text = vec![after; len];
                        text[..at].fill(before);
                        text[at] = byte;
                        let want = text.iter().position(|byte| is_special(*byte)).unwrap_or(len);
                        assert_eq!(plain_len(&text), want, "{text:?}");
                    }
                }
            }
        }
    }
}
