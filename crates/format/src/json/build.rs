//! Tokens of values that do not come from JSON text, for formats whose values have the same shapes.

use std::io::Write;

use tracemill_codec::text::base64;
use tracemill_codec::text::json::{Escapes, escape};
use tracemill_codec::text::marks::{mix, mix_bytes};

use super::shape::TokenWalk;
use super::tape::{LineParser, TapeToken, TokenKind};

/// Adds values to a tape. The marks that it gives are those that a [`LineParser`] gives for values of the same shape.
pub struct TapeBuilder<'a> {
    /// The texts and digits of the values.
    pub line: &'a mut Vec<u8>,
    /// The tokens.
    pub tokens: &'a mut Vec<TapeToken>,
}

/// An object or array that is not complete.
pub struct OpenValue {
    at: usize,
    kind: TokenKind,
    mark: u64,
    first: Option<u64>,
    is_uniform: bool,
    len: u32,
}

impl TapeBuilder<'_> {
    fn push(&mut self, kind: TokenKind, from: usize, to: usize) -> TapeToken {
        let token = TapeToken { kind, from: from as u32, to: to as u32 };
        self.tokens.push(token);
        token
    }

    fn written(&mut self, kind: TokenKind, put: impl FnOnce(&mut Vec<u8>)) -> TapeToken {
        let from = self.line.len();
        put(self.line);
        self.push(kind, from, self.line.len())
    }

    /// Adds `true` or `false`.
    pub fn boolean(&mut self, value: bool) -> u64 {
        self.push(TokenKind::Bool, 0, value.into());
        TokenKind::Bool as u64
    }

    /// Adds nothing where a value must be.
    pub fn null(&mut self) -> u64 {
        self.push(TokenKind::Null, 0, 0);
        TokenKind::Null as u64
    }

    /// Adds an integer.
    pub fn integer(&mut self, value: i128) -> u64 {
        // Writing to memory cannot fail.
        self.written(TokenKind::Int, |line| {
            _ = match i64::try_from(value) {
                Ok(value) => write!(line, "{value}"),
                Err(_) => write!(line, "{value}"),
            }
        });
        TokenKind::Int as u64
    }

    /// Adds a floating point number.
    pub fn real(&mut self, value: f64) -> u64 {
        self.written(TokenKind::Float, |line| _ = write!(line, "{value}"));
        TokenKind::Float as u64
    }

    /// Adds a text as it is; it must not hold the character U+0000.
    pub fn text(&mut self, text: &[u8]) -> u64 {
        self.text_token(text);
        TokenKind::Text as u64
    }

    /// As [`TapeBuilder::text`]; gives the token.
    pub fn text_token(&mut self, text: &[u8]) -> TapeToken {
        self.written(TokenKind::Text, |line| line.extend_from_slice(text))
    }

    /// Adds bytes of any kind.
    pub fn blob(&mut self, bytes: &[u8]) -> u64 {
        let mut open = self.begin(TokenKind::Object);
        self.key(&mut open, b"media_type");
        let mark = self.text(b"application/octet-stream");
        self.add(&mut open, mark);
        self.key(&mut open, b"base64");
        self.written(TokenKind::Text, |line| base64(bytes, |piece| line.extend_from_slice(piece.as_bytes())));
        self.add(&mut open, TokenKind::Text as u64);
        self.end(open)
    }

    /// Adds a value of an enumeration with its label, when it has one.
    pub fn labelled(&mut self, value: i64, label: Option<&str>) -> u64 {
        let mut open = self.begin(TokenKind::Object);
        self.key(&mut open, b"value");
        let mark = self.integer(value.into());
        self.add(&mut open, mark);
        self.key(&mut open, b"labels");
        let mut labels = self.begin(TokenKind::Array);
        if let Some(label) = label {
            let mark = self.text(label.as_bytes());
            self.add(&mut labels, mark);
        }
        // Values with a label and without one are of one enumeration.
        self.end(labels);
        self.add(&mut open, TokenKind::Array as u64);
        self.end(open)
    }

    /// Adds a value that is there as JSON text; `None`, and nothing, when it is not one.
    pub fn json(&mut self, text: &[u8]) -> Option<u64> {
        let (from, count) = (self.line.len(), self.tokens.len());
        self.line.extend_from_slice(text);
        let mut parser = LineParser::new(self.line, self.tokens);
        parser.at = from;
        let mark = parser.value(1).ok().filter(|_| parser.peek().is_none());
        if mark.is_none() {
            self.line.truncate(from);
            self.tokens.truncate(count);
        }
        mark
    }

    /// An object or array begins.
    pub fn begin(&mut self, kind: TokenKind) -> OpenValue {
        let at = self.tokens.len();
        self.push(kind, 0, 0);
        let mark = if kind == TokenKind::Object { kind } else { TokenKind::Tuple } as u64;
        OpenValue { at, kind, mark, first: None, is_uniform: true, len: 0 }
    }

    /// Adds the key of the next value of an object.
    pub fn key(&mut self, open: &mut OpenValue, key: &[u8]) {
        open.mark = mix_bytes(open.mark, key);
        self.lone_key(key);
    }

    /// Adds a key of a value that is in no object.
    pub fn lone_key(&mut self, key: &[u8]) {
        // Keys are texts of JSON: a backslash in them begins an escape.
        self.written(TokenKind::Key, |line| match key.contains(&b'\\') {
            true => escape(&String::from_utf8_lossy(key), Escapes::LETTERS, |piece| {
                line.extend_from_slice(piece.as_bytes())
            }),
            false => line.extend_from_slice(key),
        });
    }

    /// Counts the value that was added to an object or array.
    pub fn add(&mut self, open: &mut OpenValue, mark: u64) {
        open.is_uniform &= *open.first.get_or_insert(mark) == mark;
        open.mark = mix(open.mark, mark);
        open.len += 1;
    }

    /// An object or array is complete.
    pub fn end(&mut self, open: OpenValue) -> u64 {
        self.tokens[open.at].to = open.len;
        match open.kind {
            TokenKind::Object => mix(open.mark, 0x7d),
            _ if !open.is_uniform => {
                self.tokens[open.at].kind = TokenKind::Tuple;
                mix(open.mark, open.len.into())
            }
            _ => mix(TokenKind::Array as u64, open.first.unwrap_or(0x5d)),
        }
    }
}

/// Appends the value of a walk as JSON text.
pub fn put_json(walk: &mut TokenWalk<'_>, out: &mut Vec<u8>) {
    let Some(&token) = walk.tokens.get(walk.at) else { return };
    walk.at += 1;
    let text = |token: &TapeToken, out: &mut Vec<u8>| {
        out.push(b'"');
        escape(&String::from_utf8_lossy(&token.text(walk.line)), Escapes::LETTERS, |piece| {
            out.extend_from_slice(piece.as_bytes());
        });
        out.push(b'"');
    };
    match token.kind {
        TokenKind::Null => out.extend_from_slice(b"null"),
        TokenKind::Bool => out.extend_from_slice(if token.to == 1 { b"true" } else { b"false" }),
        TokenKind::Int | TokenKind::Float => out.extend_from_slice(token.bytes(walk.line)),
        TokenKind::Text | TokenKind::Escaped | TokenKind::Special | TokenKind::Key => text(&token, out),
        TokenKind::Object | TokenKind::Array | TokenKind::Tuple => {
            let is_object = token.kind == TokenKind::Object;
            out.push(if is_object { b'{' } else { b'[' });
            for at in 0..token.to {
                if at > 0 {
                    out.push(b',');
                }
                if is_object {
                    put_json(walk, out);
                    out.push(b':');
                }
                put_json(walk, out);
            }
            out.push(if is_object { b'}' } else { b']' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both make the same tokens and marks, but for where the texts are.
    #[test]
    fn values_have_the_marks_of_their_text() {
        let (mut line, mut tokens) = (Vec::new(), Vec::new());
        let mut tape = TapeBuilder { line: &mut line, tokens: &mut tokens };
        let mut open = tape.begin(TokenKind::Object);
        tape.key(&mut open, b"a");
        let mark = tape.integer(-7);
        tape.add(&mut open, mark);
        tape.key(&mut open, b"b");
        let mut list = tape.begin(TokenKind::Array);
        for text in ["x", "y"] {
            let mark = tape.text(text.as_bytes());
            tape.add(&mut list, mark);
        }
        let mark = tape.end(list);
        tape.add(&mut open, mark);
        tape.key(&mut open, b"c");
        let mut list = tape.begin(TokenKind::Array);
        let mark = tape.boolean(true);
        tape.add(&mut list, mark);
        let mark = tape.real(0.5);
        tape.add(&mut list, mark);
        let mark = tape.end(list);
        tape.add(&mut open, mark);
        tape.key(&mut open, b"d");
        let mark = tape.json(b"{\"e\": [\"\\u0041\"]}").expect("it is JSON");
        tape.add(&mut open, mark);
        assert_eq!(tape.json(b"{\"e\": "), None);
        let mark = tape.end(open);

        let text = br#"{"a":-7,"b":["x","y"],"c":[true,0.5],"d":{"e":["\u0041"]}}"#;
        let mut parsed = Vec::new();
        assert_eq!(LineParser::new(text, &mut parsed).value(0), Ok(mark));
        let shown = |tokens: &[TapeToken], line: &[u8]| {
            let mut out = Vec::new();
            put_json(&mut TokenWalk { line, tokens, at: 0 }, &mut out);
            String::from_utf8(out).expect("text")
        };
        assert_eq!(shown(&tokens, &line), r#"{"a":-7,"b":["x","y"],"c":[true,0.5],"d":{"e":["A"]}}"#);
        assert_eq!(shown(&tokens, &line), shown(&parsed, text));
    }
}
