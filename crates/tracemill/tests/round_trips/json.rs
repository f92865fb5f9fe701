//! A reader of the lines, as simple as can be: numbers stay texts, members keep their order.

/// A value of JSON.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A line.
    pub(crate) fn parse(line: &str) -> Json {
        let mut parser = Parser { text: line.as_bytes(), at: 0 };
        let value = parser.value();
        assert_eq!(parser.at, line.len(), "one value in {line}");
        value
    }

    /// A member of an object.
    pub(crate) fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(of, _)| of == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// An integer.
    pub(crate) fn integer(&self) -> Option<i128> {
        match self {
            Json::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// A text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> u8 {
        self.at += 1;
        self.text[self.at - 1]
    }

    fn value(&mut self) -> Json {
        match self.text[self.at] {
            b'{' => {
                let mut members = Vec::new();
                self.at += 1;
                while self.text[self.at] != b'}' {
                    let name = self.string();
                    assert_eq!(self.next(), b':');
                    members.push((name, self.value()));
                    if self.text[self.at] == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Json::Object(members)
            }
            b'[' => {
                let mut values = Vec::new();
                self.at += 1;
                while self.text[self.at] != b']' {
                    values.push(self.value());
                    if self.text[self.at] == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Json::List(values)
            }
            b'"' => Json::Text(self.string()),
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.iter().position(|byte| b",]}".contains(byte)).unwrap_or(rest.len());
                self.at += end;
                match &rest[..end] {
                    b"null" => Json::Null,
                    b"true" => Json::Bool(true),
                    b"false" => Json::Bool(false),
                    number => Json::Number(String::from_utf8(number.to_vec()).expect("digits")),
                }
            }
        }
    }

    fn string(&mut self) -> String {
        assert_eq!(self.next(), b'"', "at {} in {}", self.at, String::from_utf8_lossy(self.text));
        let mut bytes = Vec::new();
        loop {
            match self.next() {
                b'"' => return String::from_utf8(bytes).expect("lines are UTF-8"),
                b'\\' => match self.next() {
                    b'n' => bytes.push(b'\n'),
                    b't' => bytes.push(b'\t'),
                    b'r' => bytes.push(b'\r'),
                    b'b' => bytes.push(8),
                    b'f' => bytes.push(12),
                    b'u' => {
                        let digits = std::str::from_utf8(&self.text[self.at..self.at + 4]).expect("digits");
                        let code = u32::from_str_radix(digits, 16).expect("digits");
                        self.at += 4;
                        bytes.extend(char::from_u32(code).expect("control characters").to_string().bytes());
                    }
                    other => bytes.push(other),
                },
                byte => bytes.push(byte),
            }
        }
    }
}

/// A text in quotes, for metadata.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if (letter as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", letter as u32)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
