//! JSON with integers of any size, and the comparison of a line with the subset of it that a case expects.

use std::fmt;

/// A JSON value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, as it is written.
    Number(String),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object, in the order of the text.
    Object(Vec<(String, Value)>),
}

/// Parses one value that is the whole text.
///
/// # Errors
/// Says what is wrong and at which byte.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.blank();
    if parser.at < text.len() {
        return Err(parser.wrong("end of the value"));
    }
    Ok(value)
}

/// Compares only the keys that are present in `want`. `None` when equal, otherwise the path and what differs there.
pub fn difference(want: &Value, have: &Value) -> Option<String> {
    differ(want, have, &mut String::new())
}

fn differ(want: &Value, have: &Value, path: &mut String) -> Option<String> {
    let len = path.len();
    match (want, have) {
        (Value::Object(want), Value::Object(have)) => {
            for (key, wanted) in want {
                path.push_str(&format!(".{key}"));
                match have.iter().find(|(other, _)| other == key) {
                    None => return Some(format!("{path} is missing")),
                    Some((_, found)) => {
                        if let Some(difference) = differ(wanted, found, path) {
                            return Some(difference);
                        }
                    }
                }
                path.truncate(len);
            }
            None
        }
        (Value::Array(want), Value::Array(have)) if want.len() == have.len() => {
            for (at, (wanted, found)) in want.iter().zip(have).enumerate() {
                path.push_str(&format!("[{at}]"));
                if let Some(difference) = differ(wanted, found, path) {
                    return Some(difference);
                }
                path.truncate(len);
            }
            None
        }
        (Value::Number(a), Value::Number(b)) if same_number(a, b) => None,
        (Value::Number(_), Value::Number(_)) => Some(format!("{path} is {have}, expected {want}")),
        _ if want == have => None,
        _ => Some(format!("{path} is {have}, expected {want}")),
    }
}

/// Integers are compared by their digits, other numbers by the bits of the 64-bit float that they read as.
fn same_number(a: &str, b: &str) -> bool {
    let is_integer = |text: &str| !text.contains(['.', 'e', 'E']);
    if is_integer(a) && is_integer(b) {
        return a == b;
    }
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.to_bits() == b.to_bits(),
        _ => false,
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn wrong(&self, expected: &str) -> String {
        let found: String = self.rest().chars().take(12).collect();
        format!("byte {}: expected {expected}, found `{found}`", self.at)
    }

    fn blank(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, word: &str) -> bool {
        self.blank();
        let is_there = self.rest().starts_with(word);
        if is_there {
            self.at += word.len();
        }
        is_there
    }

    fn value(&mut self, depth: u32) -> Result<Value, String> {
        if depth > 200 {
            return Err(self.wrong("less nesting"));
        }
        if self.take("{") {
            return self.object(depth);
        }
        if self.take("[") {
            return self.array(depth);
        }
        if self.take("\"") {
            return Ok(Value::String(self.string()?));
        }
        for (word, value) in [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))] {
            if self.take(word) {
                return Ok(value);
            }
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let len = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        let number = self.rest()[..len].to_string();
        if number.parse::<f64>().is_err() || number.starts_with('+') {
            return Err(self.wrong("a value"));
        }
        self.at += len;
        Ok(Value::Number(number))
    }

    fn array(&mut self, depth: u32) -> Result<Value, String> {
        let mut values = Vec::new();
        if self.take("]") {
            return Ok(Value::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            if self.take("]") {
                return Ok(Value::Array(values));
            }
            if !self.take(",") {
                return Err(self.wrong("`,` or `]`"));
            }
        }
    }

    fn object(&mut self, depth: u32) -> Result<Value, String> {
        let mut members = Vec::new();
        if self.take("}") {
            return Ok(Value::Object(members));
        }
        loop {
            if !self.take("\"") {
                return Err(self.wrong("a key"));
            }
            let key = self.string()?;
            if !self.take(":") {
                return Err(self.wrong("`:`"));
            }
            members.push((key, self.value(depth + 1)?));
            if self.take("}") {
                return Ok(Value::Object(members));
            }
            if !self.take(",") {
                return Err(self.wrong("`,` or `}`"));
            }
        }
    }

    /// The rest of a string whose opening quote was taken.
    fn string(&mut self) -> Result<String, String> {
        let mut value = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else { return Err(self.wrong("`\"`")) };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(value),
                '\\' => {
                    let Some(escape) = self.rest().chars().next() else { return Err(self.wrong("an escape")) };
                    self.at += escape.len_utf8();
                    value.push(match escape {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'u' => self.unicode()?,
                        '"' | '\\' | '/' => escape,
                        _ => return Err(self.wrong("a known escape")),
                    });
                }
                c if c < ' ' => return Err(self.wrong("no control character")),
                c => value.push(c),
            }
        }
    }

    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex4()?;
        if (0xD800..0xDC00).contains(&first) && self.rest().starts_with("\\u") {
            self.at += 2;
            let second = self.hex4()?;
            let code = 0x10000 + ((first - 0xD800) << 10) + (second.wrapping_sub(0xDC00) & 0x3FF);
            return char::from_u32(code).ok_or_else(|| self.wrong("a surrogate pair"));
        }
        char::from_u32(first).ok_or_else(|| self.wrong("a character"))
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let digits = self.rest().get(..4).unwrap_or("");
        let code = u32::from_str_radix(digits, 16).map_err(|_| self.wrong("four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(text) => f.write_str(text),
            Value::String(text) => write!(f, "{text:?}"),
            Value::Array(values) => {
                f.write_str("[")?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Object(members) => {
                f.write_str("{")?;
                for (at, (key, value)) in members.iter().enumerate() {
                    write!(f, "{}{key:?}:{value}", if at > 0 { "," } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(want: &str, have: &str) -> Option<String> {
        difference(&parse(want).expect("valid"), &parse(have).expect("valid"))
    }

    #[test]
    fn only_expected_keys_are_compared() {
        assert_eq!(compare(r#"{"a":{"b":1}}"#, r#"{"x":0,"a":{"b":1,"c":2}}"#), None);
        assert_eq!(compare(r#"{"a":[{"b":1}]}"#, r#"{"a":[{"b":2}]}"#).as_deref(), Some(".a[0].b is 2, expected 1"));
        assert_eq!(compare(r#"{"a":null}"#, "{}").as_deref(), Some(".a is missing"));
        assert!(compare("[1]", "[1,2]").is_some());
    }

    #[test]
    fn numbers_are_exact() {
        assert!(
            compare("340282366920938463463374607431768211455", "340282366920938463463374607431768211454").is_some()
        );
        assert_eq!(compare("1.5", "15e-1"), None);
        assert!(compare("0.0", "-0.0").is_some());
        assert!(compare("1", "\"1\"").is_some());
    }

    #[test]
    fn strings_with_escapes() {
        assert_eq!(compare(r#""\u00e9\ud83d\ude00\n""#, "\"é😀\\n\""), None);
        assert!(parse("\"a").is_err());
        assert!(parse("{\"a\":1,}").is_err());
    }
}
