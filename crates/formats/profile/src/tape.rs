//! Values of JSON by their names: a text of JSON as a list of tokens, and the ways through it.

use std::borrow::Cow;

use tracemill_format::json::{Fault, LineParser, TapeToken, TokenKind, end_of_string, end_of_value, scaled};

/// The first byte of a file's text, after a byte order mark and blanks.
pub(crate) fn begin(file: &[u8]) -> usize {
    let mark = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    mark + blanks(&file[mark..])
}

/// Blanks at the beginning.
fn blanks(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// A value as tokens.
pub(crate) struct Tape<'a> {
    text: &'a [u8],
    tokens: Vec<TapeToken>,
}

impl<'a> Tape<'a> {
    /// Reads a value.
    pub(crate) fn read(text: &'a [u8]) -> Result<Tape<'a>, Fault> {
        let mut tokens = Vec::new();
        if u32::try_from(text.len()).is_err() {
            return Err(Fault { at: 0, reason: "a value has more than 4 GiB" });
        }
        LineParser::new(text, &mut tokens).value(0)?;
        Ok(Tape { text, tokens })
    }

    fn token(&self, at: usize) -> Option<TapeToken> {
        self.tokens.get(at).copied()
    }

    /// The token after a value.
    fn end(&self, mut at: usize) -> usize {
        let mut left = 1usize;
        while left > 0 {
            let Some(token) = self.token(at) else { return at };
            left += match token.kind {
                TokenKind::Array | TokenKind::Tuple => token.to as usize,
                TokenKind::Object => 2 * token.to as usize,
                _ => 0,
            };
            left -= 1;
            at += 1;
        }
        at
    }

    /// The values of an array.
    pub(crate) fn elements(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let count = match self.token(at) {
            Some(token) if matches!(token.kind, TokenKind::Array | TokenKind::Tuple) => token.to as usize,
            _ => 0,
        };
        let mut next = at + 1;
        (0..count).map(move |_| {
            let here = next;
            next = self.end(here);
            here
        })
    }

    /// The value of a member of an object.
    pub(crate) fn member(&self, at: usize, name: &str) -> Option<usize> {
        let object = self.token(at).filter(|token| token.kind == TokenKind::Object)?;
        let mut next = at + 1;
        for _ in 0..object.to {
            if self.token(next)?.bytes(self.text) == name.as_bytes() {
                return Some(next + 1);
            }
            next = self.end(next + 1);
        }
        None
    }

    /// The value of a member of a member.
    pub(crate) fn path(&self, names: &[&str]) -> Option<usize> {
        names.iter().try_fold(0, |at, name| self.member(at, name))
    }

    /// A text, or the digits of a number.
    pub(crate) fn text(&self, at: usize) -> Option<Cow<'a, [u8]>> {
        let token = self.token(at)?;
        match token.kind {
            TokenKind::Text | TokenKind::Escaped | TokenKind::Special | TokenKind::Int | TokenKind::Float => {
                Some(token.text(self.text))
            }
            _ => None,
        }
    }

    /// A number times a power of ten.
    pub(crate) fn scaled(&self, at: usize, power: i32) -> Option<i64> {
        let token = self.token(at)?;
        matches!(token.kind, TokenKind::Int | TokenKind::Float).then(|| scaled(token.bytes(self.text), power)).flatten()
    }

    /// A whole number, also one that stands in a text.
    pub(crate) fn integer(&self, at: usize) -> Option<i64> {
        scaled(&self.text(at)?, 0)
    }

    /// The number of something in a table.
    pub(crate) fn index(&self, at: usize) -> Option<u32> {
        self.scaled(at, 0).and_then(|number| u32::try_from(number).ok())
    }

    /// The numbers of a column; `None` for what is none.
    pub(crate) fn column(&self, at: Option<usize>, power: i32) -> Vec<Option<i64>> {
        at.into_iter().flat_map(|at| self.elements(at)).map(|at| self.scaled(at, power)).collect()
    }

    /// The places of a column in a table; `None` for what is none.
    pub(crate) fn indexes(&self, at: Option<usize>) -> Vec<Option<u32>> {
        at.into_iter().flat_map(|at| self.elements(at)).map(|at| self.index(at)).collect()
    }
}

/// A member of the object of a file: its name, and where its value begins.
pub(crate) struct DocumentMember<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) at: usize,
    /// `None` where the file ends in it.
    pub(crate) end: Option<usize>,
}

/// The members of the object of a file, as far as they can be found; and where that ends, if not with the object.
pub(crate) fn members(file: &[u8]) -> (Vec<DocumentMember<'_>>, Option<usize>) {
    let mut found = Vec::new();
    let mut at = begin(file) + 1;
    loop {
        at += file[at.min(file.len())..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
        if file.get(at) == Some(&b'}') {
            return (found, None);
        }
        let from = at + 1;
        let Some(to) = end_of_string(file, at) else { return (found, Some(at)) };
        at = to + blanks(&file[to..]);
        if file.get(at) != Some(&b':') {
            return (found, Some(at));
        }
        at += 1;
        at += blanks(&file[at..]);
        let end = end_of_value(file, at);
        found.push(DocumentMember { name: &file[from..to - 1], at, end });
        match end {
            Some(end) => at = end,
            None => return (found, Some(file.len())),
        }
    }
}

/// The places of the elements of an array that begins at `at`, as far as they can be found; and where that ends, if not with the
/// array.
pub(crate) fn elements(file: &[u8], at: usize) -> (Vec<std::ops::Range<usize>>, Option<usize>) {
    let mut found = Vec::new();
    if file.get(at) != Some(&b'[') {
        return (found, Some(at));
    }
    let mut at = at + 1;
    loop {
        at += file[at.min(file.len())..].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
        match (file.get(at), end_of_value(file, at)) {
            (Some(b']'), _) => return (found, None),
            (_, Some(end)) => {
                found.push(at..end);
                at = end;
            }
            (_, None) => return (found, Some(at)),
        }
    }
}
