//! Tags of definition files and of the files in `info/`, which look like XML and often are not: values without quotes, attributes without value,
//! elements that are never closed, comments of C.

use std::path::Path;

use tracemill_codec::text::Span;
use tracemill_model::error::Error;

/// A start or end tag.
#[derive(Clone, Debug)]
pub(crate) struct Tag {
    pub name: String,
    pub is_end: bool,
    /// `<name/>`.
    pub is_empty: bool,
    pub attributes: Vec<Attribute>,
    /// Where it begins.
    pub at: usize,
    pub end: usize,
}

/// An attribute as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    pub name: String,
    /// `None` for an attribute without value, such as `per_trace`.
    pub value: Option<String>,
    pub at: usize,
}

impl Tag {
    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.attribute(name)?.value.as_deref()
    }
}

/// An error in a text, and its place there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    pub message: String,
    pub at: usize,
    pub len: usize,
}

impl Problem {
    pub(crate) fn new(at: usize, len: usize, message: impl Into<String>) -> Self {
        Problem { message: message.into(), at, len }
    }

    /// The error of it, with its line.
    pub(crate) fn error(&self, text: &[u8], path: &Path) -> Error {
        let place = Span::new(self.at, self.at + self.len).place_in(text);
        Error::malformed(self.message.as_str()).in_file(path).at_text(place)
    }
}

/// Goes through the tags of a text.
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    pos: usize,
    /// A tag that was looked at and not taken.
    peeked: Option<Tag>,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Lexer { text, pos: 0, peeked: None }
    }

    pub(crate) fn pos(&self) -> usize {
        self.peeked.as_ref().map_or(self.pos, |tag| tag.at)
    }

    /// Goes on at the next `<name` after `from`; false when there is none.
    pub(crate) fn resume(&mut self, from: usize, name: &str) -> bool {
        self.peeked = None;
        let rest = self.text.get(from..).unwrap_or(&[]);
        let next = memchr::memmem::find(rest, format!("<{name}").as_bytes());
        self.pos = next.map_or(self.text.len(), |at| from + at);
        next.is_some()
    }

    pub(crate) fn peek(&mut self) -> Result<Option<&Tag>, Problem> {
        if self.peeked.is_none() {
            self.peeked = self.read()?;
        }
        Ok(self.peeked.as_ref())
    }

    /// The next tag, `None` at the end of the text.
    pub(crate) fn next(&mut self) -> Result<Option<Tag>, Problem> {
        match self.peeked.take() {
            Some(tag) => Ok(Some(tag)),
            None => self.read(),
        }
    }

    /// Raw text up to the next tag, without the white space around it.
    pub(crate) fn raw_text(&mut self) -> Result<String, Problem> {
        let mut text = Vec::new();
        loop {
            let rest = self.rest();
            let end = memchr::memchr(b'<', rest).unwrap_or(rest.len());
            text.extend_from_slice(&rest[..end]);
            self.pos += end;
            if self.rest().starts_with(b"<!--") {
                self.skip_past(b"-->", "comment")?;
            } else if self.rest().starts_with(b"<![CDATA[") {
                let begin = self.pos + 9;
                self.skip_past(b"]]>", "CDATA section")?;
                text.extend_from_slice(&self.text[begin..self.pos - 3]);
            } else {
                return Ok(String::from_utf8_lossy(&text).trim().to_string());
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.pos..).unwrap_or(&[])
    }

    fn read(&mut self) -> Result<Option<Tag>, Problem> {
        loop {
            self.skip_space()?;
            let rest = self.rest();
            match rest {
                [] => return Ok(None),
                [b'<', b'?', ..] => self.skip_past(b"?>", "prologue")?,
                [b'<', b'!', ..] if !rest.starts_with(b"<![CDATA[") => self.skip_past(b">", "declaration")?,
                [b'<', b'!', ..] => self.skip_past(b"]]>", "CDATA section")?,
                [b'<', ..] => return self.tag().map(Some),
                // Text where none belongs means nothing.
                _ => self.pos += memchr::memchr(b'<', rest).unwrap_or(rest.len()),
            }
        }
    }

    fn tag(&mut self) -> Result<Tag, Problem> {
        let at = self.pos;
        self.pos += 1;
        self.skip_space()?;
        let is_end = self.accept(b'/');
        self.skip_space()?;
        let name = self.word();
        if name.is_empty() {
            return Err(self.unexpected("the name of an element"));
        }
        let mut tag = Tag { name, is_end, is_empty: false, attributes: Vec::new(), at, end: at };
        loop {
            self.skip_space()?;
            if self.accept(b'>') {
                tag.end = self.pos;
                return Ok(tag);
            }
            if self.accept(b'/') {
                tag.is_empty = true;
                continue;
            }
            let at = self.pos;
            let name = self.word();
            if name.is_empty() {
                return Err(self.unexpected("an attribute, `/` or `>`"));
            }
            self.skip_space()?;
            let mut value = None;
            if self.accept(b'=') {
                self.skip_space()?;
                value = Some(self.attribute_value()?);
            }
            tag.attributes.push(Attribute { name, value, at });
        }
    }

    fn attribute_value(&mut self) -> Result<String, Problem> {
        let at = self.pos;
        let Some(quote @ (b'"' | b'\'')) = self.rest().first().copied() else {
            let word = self.word();
            return if word.is_empty() { Err(self.unexpected("the value of an attribute")) } else { Ok(word) };
        };
        self.pos += 1;
        loop {
            match self.rest() {
                [b'\\', _, ..] => self.pos += 2,
                [byte, ..] if *byte == quote => {
                    let value = String::from_utf8_lossy(&self.text[at + 1..self.pos]);
                    self.pos += 1;
                    return Ok(unescape(&value));
                }
                [_, ..] => self.pos += 1,
                [] => return Err(Problem::new(at, 1, "the quoted value that begins here has no end")),
            }
        }
    }

    /// Letters, digits, `_`, `-` and what numbers are made of.
    fn word(&mut self) -> String {
        let rest = self.rest();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b':');
        let len = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        self.pos += len;
        String::from_utf8_lossy(&rest[..len]).into_owned()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let is_it = self.rest().first() == Some(&byte);
        self.pos += usize::from(is_it);
        is_it
    }

    /// White space and comments.
    fn skip_space(&mut self) -> Result<(), Problem> {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0, ..] => self.pos += 1,
                [b'/', b'/', rest @ ..] => {
                    self.pos += 2 + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                [b'/', b'*', ..] => {
                    let at = self.pos;
                    self.pos += 2;
                    self.skip_from(at, b"*/", "comment")?;
                }
                [b'<', b'!', b'-', b'-', ..] => self.skip_past(b"-->", "comment")?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_past(&mut self, end: &[u8], what: &str) -> Result<(), Problem> {
        self.skip_from(self.pos, end, what)
    }

    fn skip_from(&mut self, at: usize, end: &[u8], what: &str) -> Result<(), Problem> {
        match memchr::memmem::find(self.rest(), end) {
            Some(found) => {
                self.pos += found + end.len();
                Ok(())
            }
            None => Err(Problem::new(at, 1, format!("the {what} that begins here has no end"))),
        }
    }

    fn unexpected(&self, expected: &str) -> Problem {
        match self.rest().first() {
            None => Problem::new(self.pos, 0, format!("the file ends where {expected} is expected")),
            Some(byte) => {
                let found = char::from(*byte);
                Problem::new(self.pos, 1, format!("`{}` where {expected} is expected", found.escape_default()))
            }
        }
    }
}

/// Attributes and text of an element.
pub(crate) type TagElement = (Vec<(String, String)>, String);

/// The start tags of a name with the text after each, for files that are only shown; and whether the text could be
/// read to its end.
pub(crate) fn read_elements(text: &[u8], name: &str) -> (Vec<TagElement>, bool) {
    let mut lexer = Lexer::new(text);
    let mut elements = Vec::new();
    loop {
        match lexer.next() {
            Ok(Some(tag)) if !tag.is_end && tag.name == name => {
                let text = if tag.is_empty { Ok(String::new()) } else { lexer.raw_text() };
                let attributes = tag.attributes.into_iter();
                let attributes = attributes.map(|of| (of.name, of.value.unwrap_or_default())).collect();
                elements.push((attributes, text.clone().unwrap_or_default()));
                if text.is_err() {
                    return (elements, false);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return (elements, true),
            Err(_) => return (elements, false),
        }
    }
}

/// Replaces the entities of XML.
fn unescape(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, tail)) = rest.split_once('&') {
        let known = tail.split_once(';').and_then(|(name, after)| Some((entity(name)?, after)));
        let (character, after) = known.unwrap_or(('&', tail));
        out.push_str(before);
        out.push(character);
        rest = after;
    }
    out + rest
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text.as_bytes());
        let mut tags = Vec::new();
        while let Some(tag) = lexer.next().expect("tags") {
            let attributes = tag.attributes.iter().map(|a| match &a.value {
                Some(value) => format!(" {}={value}", a.name),
                None => format!(" {}", a.name),
            });
            let (end, empty) = (if tag.is_end { "/" } else { "" }, if tag.is_empty { "/" } else { "" });
            tags.push(format!("{end}{}{}{empty}", tag.name, attributes.collect::<String>()));
        }
        tags
    }

    #[test]
    fn quotes_slashes_and_values_are_optional_and_comments_mean_nothing() {
        let text = "<?xml version=\"1.0\"?>/* a < b */<event name=fork per_trace // x\n><uint size=4/>\
                    <label name=\"a&lt;b\" value='-3'> stray <!-- <no> --> </event>";
        assert_eq!(tags(text), ["event name=fork per_trace", "uint size=4/", "label name=a<b value=-3", "/event"]);
    }

    #[test]
    fn a_description_is_raw_up_to_the_next_tag() {
        let mut lexer = Lexer::new(b"<description>http://x /* y */ a<![CDATA[<b>]]></description>");
        lexer.next().expect("tag");
        assert_eq!(lexer.raw_text().expect("text"), "http://x /* y */ a<b>");
        assert!(lexer.next().expect("tag").expect("a tag").is_end);
    }

    #[test]
    fn what_has_no_end_is_told_where_it_begins() {
        for (text, at) in [("<a b=\"c", 5), (" /* x", 1), ("<!-- x", 0), ("<a b=>", 5), ("<", 1)] {
            assert_eq!(Lexer::new(text.as_bytes()).next().expect_err("a problem").at, at, "{text}");
        }
    }
}
