//! The language in which cases write bytes.
//!
//! | token | meaning |
//! |---|---|
//! | `u8=1` `s16le=-5` `u5be=3` | integer of 1 to 128 bits; `le` or `be` may be left out when it is one whole byte |
//! | `f32le=1.5` `f64be=nan` `f16le=-inf` | IEEE 754 number of 16, 32 or 64 bits |
//! | `"text\0\n\x41"` | bytes of the text (UTF-8), with the escapes `\0 \n \r \t \\ \" \xHH` |
//! | `hex c11fc11f` | bytes |
//! | `align 32` | zero bits up to a multiple of so many bits from the start of the file |
//! | `zero 16` | so many zero bytes |
//! | `leb=300` `sleb=-3` | LEB128, unsigned and signed, in the fewest bytes |
//! | `end:` | a label: the offset in bytes from the start of the file |
//! | `repeat 3 { ... }` | three times what is inside |
//! | `# ...` | a comment up to the end of the line |
//!
//! A value is an expression of integers, labels, `+ - * ( )` without blanks. Bits are appended as CTF 1.8.3, 4.1.5
//! says: little-endian fills a byte from its low bits, big-endian from its high bits. The two must not share a byte.

use std::collections::HashMap;

/// Assembles a text. `first_line` is the number of its first line, for messages.
///
/// # Errors
/// Says which line is wrong, and why.
pub fn assemble(text: &str, first_line: usize) -> Result<Vec<u8>, String> {
    let tokens = tokens(text, first_line)?;
    let mut labels = HashMap::new();
    // Labels may be used before they are defined, and LEB128 lengths depend on values: go on until nothing moves.
    for _ in 0..16 {
        let mut writer = CaseWriter::new(&labels);
        writer.run(&tokens)?;
        if writer.pending_bits != 0 {
            return Err(format!("the stream ends inside a byte ({} bits of it are written)", writer.pending_bits));
        }
        let CaseWriter { missing, defined, bytes, .. } = writer;
        if defined == labels {
            return missing.map_or(Ok(bytes), Err);
        }
        labels = defined;
    }
    Err("the labels never come to rest".into())
}

#[derive(Debug)]
struct CaseToken {
    line: usize,
    kind: CaseTokenKind,
}

#[derive(Debug)]
enum CaseTokenKind {
    Word(String),
    Text(Vec<u8>),
}

fn tokens(text: &str, first_line: usize) -> Result<Vec<CaseToken>, String> {
    let mut tokens = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = first_line + at;
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            if rest.starts_with('"') {
                let (bytes, len) = quoted(rest).map_err(|why| format!("line {number}: {why}"))?;
                tokens.push(CaseToken { line: number, kind: CaseTokenKind::Text(bytes) });
                rest = &rest[len..];
            } else {
                let len = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
                tokens.push(CaseToken { line: number, kind: CaseTokenKind::Word(rest[..len].to_string()) });
                rest = &rest[len..];
            }
            rest = rest.trim_start();
        }
    }
    Ok(tokens)
}

/// The bytes of a quoted text and its length with quotes.
fn quoted(text: &str) -> Result<(Vec<u8>, usize), String> {
    let mut bytes = Vec::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((bytes, at + 1)),
            '\\' => match chars.next() {
                Some((_, '0')) => bytes.push(0),
                Some((_, 'n')) => bytes.push(b'\n'),
                Some((_, 'r')) => bytes.push(b'\r'),
                Some((_, 't')) => bytes.push(b'\t'),
                Some((_, c @ ('\\' | '"'))) => bytes.push(c as u8),
                Some((at, 'x')) => {
                    let digits = text.get(at + 1..at + 3).unwrap_or("");
                    bytes.push(u8::from_str_radix(digits, 16).map_err(|_| "`\\x` needs two hexadecimal digits")?);
                    chars.nth(1);
                }
                _ => return Err("unknown escape in a text".into()),
            },
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("a text is not closed".into())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CaseOrder {
    Little,
    Big,
}

struct CaseWriter<'a> {
    known: &'a HashMap<String, i128>,
    defined: HashMap<String, i128>,
    bytes: Vec<u8>,
    /// Bits of the last byte that are written, 0 when it is full.
    pending_bits: u32,
    pending_order: CaseOrder,
    missing: Option<String>,
}

impl<'a> CaseWriter<'a> {
    fn new(known: &'a HashMap<String, i128>) -> Self {
        CaseWriter {
            known,
            defined: HashMap::new(),
            bytes: Vec::new(),
            pending_bits: 0,
            pending_order: CaseOrder::Little,
            missing: None,
        }
    }

    fn run(&mut self, tokens: &[CaseToken]) -> Result<(), String> {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let taken = self
                .token(token, &tokens[at + 1..])
                .map_err(|why| if why.starts_with("line ") { why } else { format!("line {}: {why}", token.line) })?;
            at += 1 + taken;
        }
        Ok(())
    }

    /// Runs a token and tells how many of the following ones belong to it.
    fn token(&mut self, token: &CaseToken, rest: &[CaseToken]) -> Result<usize, String> {
        let word = match &token.kind {
            CaseTokenKind::Text(bytes) => {
                self.whole_bytes(bytes)?;
                return Ok(0);
            }
            CaseTokenKind::Word(word) => word.as_str(),
        };
        if let Some(label) = word.strip_suffix(':') {
            self.define(label)?;
            return Ok(0);
        }
        if let Some((kind, value)) = word.split_once('=') {
            self.number(kind, value)?;
            return Ok(0);
        }
        let argument = || match rest.first().map(|token| &token.kind) {
            Some(CaseTokenKind::Word(argument)) => Ok(argument.as_str()),
            _ => Err(format!("`{word}` needs an argument")),
        };
        match word {
            "hex" => {
                let bytes = hex(argument()?)?;
                self.whole_bytes(&bytes)?;
                Ok(1)
            }
            "align" => {
                let align = self.value(argument()?)?;
                if align < 1 {
                    return Err("an alignment is at least 1".into());
                }
                while self.bit_offset() % align != 0 {
                    let order = self.pending_order;
                    self.bits(0, 1, order)?;
                }
                Ok(1)
            }
            "zero" => {
                let count = self.value(argument()?)?;
                let count = usize::try_from(count).ok().filter(|&count| count <= 1 << 24);
                self.whole_bytes(&vec![0; count.ok_or("impossible number of bytes")?])?;
                Ok(1)
            }
            "repeat" => {
                let count = self.value(argument()?)?;
                let inside = block(&rest[1..])?;
                for _ in 0..count {
                    self.run(&rest[2..2 + inside])?;
                }
                Ok(inside + 3)
            }
            _ => Err(format!("unknown word `{word}`")),
        }
    }

    fn define(&mut self, label: &str) -> Result<(), String> {
        if !is_name(label) {
            return Err(format!("`{label}` is no name for a label"));
        }
        if self.pending_bits != 0 {
            return Err(format!("label `{label}` is inside a byte"));
        }
        match self.defined.insert(label.to_string(), self.bytes.len() as i128) {
            None => Ok(()),
            Some(_) => Err(format!("label `{label}` is defined twice")),
        }
    }

    fn number(&mut self, kind: &str, text: &str) -> Result<(), String> {
        match kind {
            "leb" => {
                let mut value = u128::try_from(self.value(text)?).map_err(|_| "`leb` is unsigned")?;
                loop {
                    let more = value > 0x7f;
                    self.whole_bytes(&[(value & 0x7f) as u8 | if more { 0x80 } else { 0 }])?;
                    value >>= 7;
                    if !more {
                        return Ok(());
                    }
                }
            }
            "sleb" => {
                let mut value = self.value(text)?;
                loop {
                    let byte = (value & 0x7f) as u8;
                    value >>= 7;
                    let is_last = value == 0 && byte & 0x40 == 0 || value == -1 && byte & 0x40 != 0;
                    self.whole_bytes(&[byte | if is_last { 0 } else { 0x80 }])?;
                    if is_last {
                        return Ok(());
                    }
                }
            }
            _ => {}
        }
        let (sort, len_bits, order) = shape(kind).ok_or_else(|| format!("unknown kind `{kind}`"))?;
        let bits = match sort {
            'f' => float_bits(text, len_bits)?,
            _ => {
                let value = self.value(text)?;
                if !fits(value, len_bits, sort == 's') {
                    return Err(format!("{value} does not fit in `{kind}`"));
                }
                value as u128
            }
        };
        self.bits(bits, len_bits, order)
    }

    fn value(&mut self, text: &str) -> Result<i128, String> {
        let mut expression = Expression { text, at: 0, labels: self.known, missing: None };
        let value = expression.sum()?;
        if expression.at < text.len() {
            return Err(format!("cannot read `{text}` from `{}`", &text[expression.at..]));
        }
        if let Some(label) = expression.missing {
            self.missing.get_or_insert(format!("label `{label}` is not defined"));
        }
        Ok(value)
    }

    fn bit_offset(&self) -> i128 {
        let full = self.bytes.len() as i128 * 8;
        if self.pending_bits == 0 { full } else { full - 8 + self.pending_bits as i128 }
    }

    fn whole_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.pending_bits != 0 {
            return Err("bytes begin inside a byte: use `align 8`".into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn bits(&mut self, value: u128, len_bits: u32, order: CaseOrder) -> Result<(), String> {
        if self.pending_bits != 0 && self.pending_order != order {
            return Err("little- and big-endian bits share a byte".into());
        }
        self.pending_order = order;
        for at in 0..len_bits {
            if self.pending_bits == 0 {
                self.bytes.push(0);
            }
            let (from, to) = match order {
                CaseOrder::Little => (at, self.pending_bits),
                CaseOrder::Big => (len_bits - 1 - at, 7 - self.pending_bits),
            };
            let last = self.bytes.len() - 1;
            self.bytes[last] |= ((value >> from & 1) as u8) << to;
            self.pending_bits = (self.pending_bits + 1) % 8;
        }
        Ok(())
    }
}

/// Number of tokens inside `{ ... }` at the start of `tokens`.
fn block(tokens: &[CaseToken]) -> Result<usize, String> {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match &token.kind {
            CaseTokenKind::Word(word) if word == "{" => depth += 1,
            CaseTokenKind::Word(word) if word == "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { Err("`repeat` needs a block `{ ... }`".into()) } else { Ok(at - 1) };
        }
    }
    Err("a block is not closed".into())
}

/// `u5le` as sort, width and order.
fn shape(kind: &str) -> Option<(char, u32, CaseOrder)> {
    let sort = kind.chars().next().filter(|c| matches!(c, 'u' | 's' | 'f'))?;
    let (digits, order) = match kind[1..].strip_suffix("le") {
        Some(digits) => (digits, Some(CaseOrder::Little)),
        None => match kind[1..].strip_suffix("be") {
            Some(digits) => (digits, Some(CaseOrder::Big)),
            None => (&kind[1..], None),
        },
    };
    let len_bits: u32 = digits.parse().ok().filter(|bits| (1..=128).contains(bits))?;
    let order = order.or((len_bits == 8).then_some(CaseOrder::Little))?;
    Some((sort, len_bits, order))
}

fn fits(value: i128, len_bits: u32, signed: bool) -> bool {
    match (signed, len_bits) {
        // Values above 2^127 come as negative numbers of 128 bits.
        (_, 128) => true,
        (true, _) => (-(1i128 << (len_bits - 1))..1i128 << (len_bits - 1)).contains(&value),
        (false, 127) => value >= 0,
        (false, _) => (0..1i128 << len_bits).contains(&value),
    }
}

fn float_bits(text: &str, len_bits: u32) -> Result<u128, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    match len_bits {
        16 => half_bits(value).map(u128::from).ok_or_else(|| format!("{text} is no 16-bit float")),
        32 => Ok((value as f32).to_bits().into()),
        64 => Ok(value.to_bits().into()),
        _ => Err("floats have 16, 32 or 64 bits".into()),
    }
}

/// The 16-bit float that is exactly `value`.
fn half_bits(value: f64) -> Option<u16> {
    if value.is_nan() {
        return Some(0x7e00);
    }
    (0..=u16::MAX).find(|&bits| {
        let (exponent, mantissa) = (bits >> 10 & 0x1f, f64::from(bits & 0x3ff));
        let magnitude = match exponent {
            0 => mantissa * 2f64.powi(-24),
            0x1f if mantissa == 0.0 => f64::INFINITY,
            0x1f => return false,
            _ => (1.0 + mantissa / 1024.0) * 2f64.powi(i32::from(exponent) - 15),
        };
        let signed = if bits & 0x8000 != 0 { -magnitude } else { magnitude };
        signed.to_bits() == value.to_bits()
    })
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(format!("`{text}` is not a whole number of bytes"));
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| format!("`{text}` is not hexadecimal")))
        .collect()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

struct Expression<'t> {
    text: &'t str,
    at: usize,
    labels: &'t HashMap<String, i128>,
    missing: Option<String>,
}

impl Expression<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn sum(&mut self) -> Result<i128, String> {
        let mut value = self.product()?;
        while let Some(sign @ ('+' | '-')) = self.peek() {
            self.at += 1;
            let other = self.product()?;
            value = if sign == '+' { value.wrapping_add(other) } else { value.wrapping_sub(other) };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<i128, String> {
        let mut value = self.atom()?;
        while self.peek() == Some('*') {
            self.at += 1;
            value = value.wrapping_mul(self.atom()?);
        }
        Ok(value)
    }

    fn atom(&mut self) -> Result<i128, String> {
        match self.peek() {
            Some('-') => {
                self.at += 1;
                Ok(self.atom()?.wrapping_neg())
            }
            Some('(') => {
                self.at += 1;
                let value = self.sum()?;
                if self.peek() != Some(')') {
                    return Err(format!("`)` is missing in `{}`", self.text));
                }
                self.at += 1;
                Ok(value)
            }
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<i128, String> {
        let rest = &self.text[self.at..];
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = &rest[..len];
        self.at += len;
        let number = match word.strip_prefix("0x") {
            Some(digits) => u128::from_str_radix(digits, 16),
            None => word.parse(),
        };
        match number {
            Ok(number) => Ok(number as i128),
            Err(_) if is_name(word) => Ok(self.labels.get(word).copied().unwrap_or_else(|| {
                self.missing.get_or_insert(word.to_string());
                0
            })),
            Err(_) => Err(format!("cannot read `{}`", self.text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        assemble(text, 1).expect("valid")
    }

    fn fault(text: &str) -> String {
        assemble(text, 1).expect_err("a fault")
    }

    #[test]
    fn integers_and_bits_in_both_orders() {
        assert_eq!(bytes("u8=1 s16le=-2 u32be=0xc1fc1fc1"), [1, 0xfe, 0xff, 0xc1, 0xfc, 0x1f, 0xc1]);
        assert_eq!(bytes("u3le=5 u5le=1 u3be=5 u5be=1"), [0b0000_1101, 0b1010_0001]);
        assert_eq!(bytes("u12be=0xabc u4be=0xd"), [0xab, 0xcd]);
        assert_eq!(bytes("u12le=0xabc u4le=0xd"), [0xbc, 0xda]);
        assert!(fault("u3le=1 u5be=1").contains("share a byte"));
        assert!(fault("u8=256").contains("does not fit"));
        assert!(fault("s8=128").contains("does not fit"));
        assert!(fault("\n u8=1 x").starts_with("line 2"));
    }

    #[test]
    fn labels_may_come_later_and_are_arithmetic() {
        assert_eq!(bytes("a: u16be=(end-a)*8 \"xy\\0\\x41\" end:"), [0, 48, b'x', b'y', 0, 0x41]);
        assert_eq!(bytes("leb=end repeat 2 { u8=7 } align 32 end:"), [4, 7, 7, 0]);
        assert!(fault("u8=end").contains("not defined"));
        assert!(fault("a: a:").contains("twice"));
    }

    #[test]
    fn leb_floats_text_and_comments() {
        assert_eq!(bytes("leb=300 sleb=-3 sleb=64"), [0xac, 2, 0x7d, 0xc0, 0]);
        assert_eq!(bytes("f32le=1.5 # one and a half\n f16be=-inf f16le=1.5"), [0, 0, 0xc0, 0x3f, 0xfc, 0, 0, 0x3e]);
        assert_eq!(
            bytes("f64be=-0.0 hex c11f zero 2 \"é #\""),
            [0x80, 0, 0, 0, 0, 0, 0, 0, 0xc1, 0x1f, 0, 0, 0xc3, 0xa9, b' ', b'#']
        );
        assert!(fault("u3le=1").contains("inside a byte"));
        assert!(fault("repeat 2 { u8=1").contains("not closed"));
    }
}
