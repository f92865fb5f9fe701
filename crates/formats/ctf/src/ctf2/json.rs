//! A JSON parser that keeps where everything was written (RFC 8259).
//!
//! Errors in a fragment point to the wrong value, so every value and every key has its [`Span`] in the
//! whole metadata text. Integers are exact, an object keeps its properties in their order, and a key may occur only
//! once: two values for one property leave no way to know which one was meant.

use std::borrow::Cow;
use std::collections::HashMap;

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};

use super::words::quoted;
use crate::deep::MAX_LEVELS;
use crate::metadata_text::MetadataText;

/// Most levels of arrays and objects: a level of field classes has three of them.
pub(super) const MAX_DEPTH: usize = 3 * MAX_LEVELS as usize + 100;

/// Objects with more properties than this find duplicate keys through a map.
const SMALL_OBJECT: usize = 16;

/// A value and its place.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct JsonValue<'a> {
    pub(super) span: Span,
    pub(super) kind: JsonKind<'a>,
}

/// Kind of a value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum JsonKind<'a> {
    Null,
    Boolean(bool),
    /// A number without fraction and exponent that fits 128 bits.
    Integer(i128),
    /// Any other number. Metadata has no use for its value.
    Real,
    String(Cow<'a, str>),
    Array(Vec<JsonValue<'a>>),
    Object(Vec<Property<'a>>),
}

/// A property of an object.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Property<'a> {
    pub(super) key_span: Span,
    pub(super) key: Cow<'a, str>,
    pub(super) value: JsonValue<'a>,
}

impl JsonValue<'_> {
    /// Description for an error about what was found.
    pub(super) fn describe(&self, source: &str) -> String {
        match &self.kind {
            JsonKind::Null => "`null`".into(),
            JsonKind::Boolean(value) => format!("`{value}`"),
            JsonKind::Integer(value) => format!("the integer `{value}`"),
            JsonKind::Real => format!("the number {}", quoted(self.span.text(source))),
            JsonKind::String(text) => format!("the string {}", quoted(text)),
            JsonKind::Array(_) => "an array".into(),
            JsonKind::Object(_) => "an object".into(),
        }
    }
}

/// Parses the one JSON text that `frame` holds. `fragment` counts from 1 and is said in errors.
pub(super) fn parse<'a>(source: &'a MetadataText<'_>, frame: Span, fragment: usize) -> Result<JsonValue<'a>> {
    let mut parser = JsonParser { source, at: frame.start, end: frame.end, depth: 0, fragment };
    let value = parser.value()?;
    parser.skip_space();
    if parser.at < parser.end {
        let found = parser.found();
        return Err(parser
            .fault(&format!("expected the end of the fragment, found {found}"))
            .with_help("each fragment begins with the byte 0x1E (record separator)"));
    }
    Ok(value)
}

struct JsonParser<'a> {
    source: &'a MetadataText<'a>,
    at: usize,
    end: usize,
    depth: usize,
    fragment: usize,
}

impl<'a> JsonParser<'a> {
    fn value(&mut self) -> Result<JsonValue<'a>> {
        self.skip_space();
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object()?,
            Some(b'[') => self.array()?,
            Some(b'"') => JsonKind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", JsonKind::Boolean(true))?,
            Some(b'f') => self.word("false", JsonKind::Boolean(false))?,
            Some(b'n') => self.word("null", JsonKind::Null)?,
            _ => return Err(self.expected("a value")),
        };
        Ok(JsonValue { span: Span::new(start, self.at), kind })
    }

    fn object(&mut self) -> Result<JsonKind<'a>> {
        let mut properties: Vec<Property<'a>> = Vec::new();
        let mut keys: HashMap<Cow<'a, str>, Span> = HashMap::new();
        self.items(b'}', "`,` or `}` after a property", |parser| {
            parser.skip_space();
            let key_start = parser.at;
            if parser.peek() != Some(b'"') {
                return Err(parser.expected("a property name in double quotes"));
            }
            let key = parser.string()?;
            let key_span = Span::new(key_start, parser.at);
            let first = if properties.len() < SMALL_OBJECT {
                properties.iter().find(|property| property.key == key).map(|property| property.key_span)
            } else {
                if keys.is_empty() {
                    keys.extend(properties.iter().map(|property| (property.key.clone(), property.key_span)));
                }
                keys.insert(key.clone(), key_span)
            };
            if let Some(first) = first {
                let message = format!("property {} occurs twice in one object", quoted(&key));
                let error = key_span.malformed(parser.source, message);
                return Err(error.with_related("first here", first.place(parser.source)));
            }
            parser.skip_space();
            if parser.peek() != Some(b':') {
                return Err(parser.expected("`:` after the property name"));
            }
            parser.at += 1;
            let value = parser.value()?;
            properties.push(Property { key_span, key, value });
            Ok(())
        })?;
        Ok(JsonKind::Object(properties))
    }

    fn array(&mut self) -> Result<JsonKind<'a>> {
        let mut values = Vec::new();
        self.items(b']', "`,` or `]` after an element", |parser| {
            values.push(parser.value()?);
            Ok(())
        })?;
        Ok(JsonKind::Array(values))
    }

    /// Reads what stands between brackets, up to `end`; `expected` is what may stand after an item.
    fn items(&mut self, end: u8, expected: &str, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.enter()?;
        self.skip_space();
        if self.peek() != Some(end) {
            loop {
                item(self)?;
                self.skip_space();
                match self.peek() {
                    Some(b',') => {
                        let comma = Span::new(self.at, self.at + 1);
                        self.at += 1;
                        self.skip_space();
                        if self.peek() == Some(end) {
                            self.tolerate_comma(comma, end)?;
                            break;
                        }
                    }
                    Some(byte) if byte == end => break,
                    _ => return Err(self.expected(expected)),
                }
            }
        }
        self.leave();
        Ok(())
    }

    fn tolerate_comma(&self, comma: Span, end: u8) -> Result<()> {
        let message = format!("a comma before `{}`", char::from(end));
        let error = || comma.malformed(self.source, self.message(&message));
        self.source.tolerate(error, || "it is read as if it were not there".into())
    }

    fn enter(&mut self) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(self.fault(&format!("arrays and objects are nested more than {MAX_DEPTH} levels deep")));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn word(&mut self, word: &str, kind: JsonKind<'a>) -> Result<JsonKind<'a>> {
        let rest = &self.source.as_bytes()[self.at..self.end];
        let next = rest.get(word.len());
        if !rest.starts_with(word.as_bytes()) || next.is_some_and(u8::is_ascii_alphanumeric) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(kind)
    }

    fn number(&mut self) -> Result<JsonKind<'a>> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let digits = self.at;
        self.digits()?;
        if self.at - digits > 1 && self.source.as_bytes()[digits] == b'0' {
            let span = Span::new(start, self.at);
            return Err(span.malformed(self.source, self.message("a number has a leading zero")));
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.source[start..self.at];
        Ok(if whole { text.parse().map_or(JsonKind::Real, JsonKind::Integer) } else { JsonKind::Real })
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        let opening = self.at;
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut plain = start;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let tail = &self.source[plain..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(tail),
                        Some(mut text) => {
                            text.push_str(tail);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_with(String::new);
                    text.push_str(&self.source[plain..self.at]);
                    let escaped = self.escape()?;
                    text.push(escaped);
                    plain = self.at;
                }
                Some(byte) if byte < 0x20 => {
                    let message = format!("control character 0x{byte:02x} in a string must be escaped");
                    return Err(self.fault(&message));
                }
                Some(_) => self.at += 1,
                None => {
                    let span = Span::new(opening, self.at);
                    return Err(span.malformed(self.source, self.message("a string is not closed")));
                }
            }
        }
    }

    /// Reads one escape sequence, or two when they are a surrogate pair.
    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        self.at += 1;
        let simple = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            _ => return Err(self.expected("an escape such as `\\n` or `\\u00e9`")),
        };
        self.at += 1;
        Ok(simple)
    }

    fn unicode_escape(&mut self, start: usize) -> Result<char> {
        let high = self.hex_unit()?;
        let code = match high {
            0xd800..=0xdbff => {
                let low = if self.rest().starts_with("\\u") {
                    self.at += 1;
                    self.hex_unit()?
                } else {
                    0
                };
                // Without a low half the code stays a surrogate, which no `char` is.
                if (0xdc00..=0xdfff).contains(&low) { 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) } else { high }
            }
            _ => high,
        };
        char::from_u32(code).ok_or_else(|| {
            let span = Span::new(start, self.at);
            span.malformed(self.source, self.message(&format!("half of a surrogate pair, `\\u{high:04x}`")))
        })
    }

    /// Reads the `uXXXX` of an escape.
    fn hex_unit(&mut self) -> Result<u32> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                return Err(self.expected("four hexadecimal digits after `\\u`"));
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..self.end]
    }

    fn peek(&self) -> Option<u8> {
        if self.at < self.end { Some(self.source.as_bytes()[self.at]) } else { None }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn found(&self) -> String {
        match self.source.get(self.at..self.end).and_then(|rest| rest.chars().next()) {
            Some(c) => quoted(c.encode_utf8(&mut [0; 4])),
            None => "the end of the fragment".into(),
        }
    }

    fn expected(&self, what: &str) -> Error {
        self.fault(&format!("expected {what}, found {}", self.found()))
    }

    /// An error at the current character, or just after the text when that is used up.
    fn fault(&self, message: &str) -> Error {
        let len = self.source.get(self.at..self.end).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        Span::new(self.at, self.at + len).malformed(self.source, self.message(message))
    }

    fn message(&self, message: &str) -> String {
        format!("fragment {} is not valid JSON: {message}", self.fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deep::with_room;

    /// The value, as something that stands without its text.
    fn parse_all(text: &str) -> Result<JsonValue<'static>> {
        let source = MetadataText::new(text, true);
        parse(&source, Span::new(0, text.len()), 7).map(owned)
    }

    fn owned(value: JsonValue<'_>) -> JsonValue<'static> {
        let property = |property: Property<'_>| Property {
            key_span: property.key_span,
            key: property.key.into_owned().into(),
            value: owned(property.value),
        };
        let kind = match value.kind {
            JsonKind::Null => JsonKind::Null,
            JsonKind::Boolean(value) => JsonKind::Boolean(value),
            JsonKind::Integer(value) => JsonKind::Integer(value),
            JsonKind::Real => JsonKind::Real,
            JsonKind::String(text) => JsonKind::String(text.into_owned().into()),
            JsonKind::Array(values) => JsonKind::Array(values.into_iter().map(owned).collect()),
            JsonKind::Object(properties) => JsonKind::Object(properties.into_iter().map(property).collect()),
        };
        JsonValue { span: value.span, kind }
    }

    fn kind(text: &str) -> JsonKind<'static> {
        parse_all(text).unwrap().kind
    }

    fn fault(text: &str) -> (u32, String) {
        let error = parse_all(text).unwrap_err();
        let message = error.message().trim_start_matches("fragment 7 is not valid JSON: ").to_owned();
        (error.place().text.as_ref().unwrap().column, message)
    }

    #[test]
    fn scalars_and_exact_integers() {
        assert_eq!(kind(" null "), JsonKind::Null);
        assert_eq!(kind("true"), JsonKind::Boolean(true));
        assert_eq!(kind("-0"), JsonKind::Integer(0));
        assert_eq!(kind("18446744073709551615"), JsonKind::Integer(u64::MAX.into()));
        assert_eq!(kind("-170141183460469231731687303715884105728"), JsonKind::Integer(i128::MIN));
        assert_eq!(kind("170141183460469231731687303715884105728"), JsonKind::Real);
        assert_eq!(kind("1.0"), JsonKind::Real);
        assert_eq!(kind("-2e+10"), JsonKind::Real);
    }

    #[test]
    fn strings_with_every_escape() {
        assert_eq!(kind(r#""plain é""#), JsonKind::String("plain é".into()));
        assert_eq!(kind(r#""\"\\\/\b\f\n\r\t\u00e9x""#), JsonKind::String("\"\\/\u{8}\u{c}\n\r\té\u{78}".into()));
        assert_eq!(kind(r#""a\ud83d\uDE00b""#), JsonKind::String("a😀b".into()));
    }

    #[test]
    fn objects_keep_order_and_spans() {
        let text = r#"{"b": [1, 2], "a": {}}"#;
        let JsonKind::Object(properties) = kind(text) else { panic!("an object") };
        let keys: Vec<_> = properties.iter().map(|property| &*property.key).collect();
        assert_eq!(keys, ["b", "a"]);
        assert_eq!(properties[0].value.span.text(text), "[1, 2]");
        assert_eq!(properties[1].key_span.text(text), "\"a\"");
    }

    #[test]
    fn faults_say_where_and_what() {
        assert_eq!(fault("{").1, "expected a property name in double quotes, found the end of the fragment");
        assert_eq!(fault("[1 2]"), (4, "expected `,` or `]` after an element, found `2`".into()));
        assert_eq!(fault("[1,,]"), (4, "expected a value, found `,`".into()));
        assert_eq!(fault("[,]"), (2, "expected a value, found `,`".into()));
        assert_eq!(fault(r#"{"a" 1}"#), (6, "expected `:` after the property name, found `1`".into()));
        assert_eq!(fault(r#"{"a": 1 é}"#), (9, "expected `,` or `}` after a property, found `é`".into()));
        assert_eq!(fault("01"), (1, "a number has a leading zero".into()));
        assert_eq!(fault("-"), (2, "expected a digit, found the end of the fragment".into()));
        assert_eq!(fault("1."), (3, "expected a digit, found the end of the fragment".into()));
        assert_eq!(fault("tru"), (1, "expected a value, found `t`".into()));
        assert_eq!(fault("nullx"), (1, "expected a value, found `n`".into()));
        assert_eq!(fault("\"a\tb\""), (3, "control character 0x09 in a string must be escaped".into()));
        assert_eq!(fault("\"abc"), (1, "a string is not closed".into()));
        assert_eq!(fault(r#""\x""#).0, 3);
        assert_eq!(fault(r#""\u12g4""#), (6, "expected four hexadecimal digits after `\\u`, found `g`".into()));
        assert_eq!(fault(r#""ab\ud83d!""#), (4, "half of a surrogate pair, `\\ud83d`".into()));
        assert_eq!(fault(r#""\ude00""#), (2, "half of a surrogate pair, `\\ude00`".into()));
        assert_eq!(fault("{} {}"), (4, "expected the end of the fragment, found `{`".into()));
    }

    #[test]
    fn a_comma_at_the_end_is_a_fault_for_the_strict_only() {
        assert_eq!(fault("[1, ]"), (3, "a comma before `]`".into()));
        assert_eq!(fault("{\"a\": [],}"), (9, "a comma before `}`".into()));
        let text = "{\"a\": [1,\n],}";
        let source = MetadataText::new(text, false);
        let value = parse(&source, Span::new(0, text.len()), 7).unwrap();
        let JsonKind::Object(properties) = &value.kind else { panic!("an object") };
        assert!(matches!(&properties[0].value.kind, JsonKind::Array(values) if values.len() == 1));
        let places: Vec<_> =
            source.into_warnings().iter().map(|one| one.place().text.as_ref().unwrap().offset).collect();
        assert_eq!(places, [8, 11]);
    }

    #[test]
    fn duplicate_keys_are_refused_in_small_and_large_objects() {
        let error = parse_all(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap_err();
        assert_eq!(error.message(), "property `a` occurs twice in one object");
        assert_eq!(error.place().text.as_ref().unwrap().column, 18);
        assert_eq!(error.related()[0].1.column, 2);
        let many: Vec<String> = (0..1000).map(|i| format!("\"k{}\": 0", i % 999)).collect();
        let text = format!("{{{}}}", many.join(","));
        assert_eq!(parse_all(&text).unwrap_err().message(), "property `k0` occurs twice in one object");
    }

    #[test]
    fn deep_nesting_is_an_error_with_a_place() {
        let text = "[".repeat(10_000);
        assert_eq!(with_room(|| fault(&text)).0 as usize, MAX_DEPTH + 1);
        let text = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(with_room(|| parse_all(&text).is_ok()));
    }
}
