//! `print fmt:` lines: how the kernel would have printed an event.
//!
//! ```text
//! print fmt: "comm=%s state=%s", REC->comm, REC->state ? __print_flags(REC->state, "|", { 1, "S" }) : "R"
//! ```
//!
//! A format string as C has it, and expressions over the fields of the record. What cannot be read (a function of the
//! kernel, the name of a constant) makes [`PrintFormat::parse`] give up, and the event is shown field by field.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::event_format::{Content, EventFormat, Field, Machine, Place};

/// Nested parentheses, operators and calls.
const MAX_DEPTH: usize = 64;
/// Parts of all expressions of one line; the kernel's longest lists of flags have a few hundred.
const MAX_PARTS: usize = 8192;
/// Binary operators of one line: a chain of them is a tree as deep.
const MAX_OPERATORS: usize = 512;
/// Widths and precisions beyond this are mistakes.
const MAX_WIDTH: usize = 512;
/// Bytes or elements of an array that are shown.
const MAX_ELEMENTS: usize = 4096;

/// How the records of an event are printed.
#[derive(Clone, Debug)]
pub struct PrintFormat {
    /// `None` when the line cannot be read.
    pieces: Option<Vec<Piece>>,
    fields: Vec<Field>,
    machine: Machine,
}

/// What stands at an address of the kernel's code; `true` asks for the distance from its beginning too.
pub type KernelNames<'a> = &'a dyn Fn(u64, bool) -> Option<String>;

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Value { spec: Box<Spec>, value: Expr },
}

/// A conversion: `%-08.3lx`.
#[derive(Clone, Debug, Default)]
struct Spec {
    is_left: bool,
    is_zero: bool,
    is_alternate: bool,
    has_plus: bool,
    has_blank: bool,
    width: Count,
    precision: Count,
    /// Bytes of the integer that C would have passed.
    bytes: u32,
    conversion: char,
    /// What stands behind `%p`.
    pointer: String,
}

#[derive(Clone, Debug, Default)]
enum Count {
    #[default]
    None,
    Number(usize),
    /// `*`: an argument.
    Value(Expr),
}

#[derive(Clone, Debug)]
enum Expr {
    Number(i128),
    Text(String),
    /// By its number.
    Field(usize),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choice(Box<[Expr; 3]>),
    /// To so many bytes, signed or not.
    Cast(u32, bool, Box<Expr>),
    Element(Box<Expr>, Box<Expr>),
    Flags(Box<Expr>, String, Vec<(i128, String)>),
    Symbolic(Box<Expr>, Vec<(i128, String)>),
    /// Bytes, their number, and what stands between two.
    Hex(Box<Expr>, Box<Expr>, &'static str),
    /// Data, number and size of its elements.
    Array(Box<[Expr; 3]>),
    /// Length of what a field locates.
    Len(usize),
    /// A set of bits, as ranges.
    BitMask(usize),
}

impl PrintFormat {
    /// Reads the line of a format.
    pub fn parse(format: &EventFormat, machine: Machine) -> PrintFormat {
        let fields = format.common.iter().chain(&format.fields).cloned().collect::<Vec<_>>();
        let tokens = tokens(&format.print_format);
        let pieces = tokens.and_then(|tokens| {
            let mut parser =
                Parser { tokens: &tokens, at: 0, fields: &fields, machine, depth: 0, parts: 0, operators: 0 };
            parser.line()
        });
        // Without a line that can be read only the format's own fields are shown.
        let shown = if pieces.is_some() { fields } else { format.fields.clone() };
        PrintFormat { pieces, fields: shown, machine }
    }

    /// Can the line be read?
    pub fn is_known(&self) -> bool {
        self.pieces.is_some()
    }

    /// Appends what the kernel would have printed.
    pub fn put(&self, record: &[u8], names: KernelNames<'_>, out: &mut Vec<u8>) {
        let of = Record { bytes: record, format: self, names };
        let Some(pieces) = &self.pieces else { return of.put_fields(out) };
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Value { spec, value } => of.put(spec, value, out),
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Text(String),
    Number(i128),
    Word(&'a str),
    Sign(&'static str),
}

/// Longer ones first.
const SIGNS: [&str; 32] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", "[", "]", ",", "?", ":", "+", "-", "*",
    "/", "%", "&", "|", "^", "~", "!", "<", ">", ".", ";",
];

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if first == '"' {
            let (string, behind) = string(&rest[1..])?;
            // Strings side by side are one.
            match tokens.last_mut() {
                Some(Token::Text(before)) => before.push_str(&string),
                _ => tokens.push(Token::Text(string)),
            }
            rest = behind;
        } else if first == '\'' {
            let mut letters = rest[1..].chars();
            let letter = letters.next().filter(|&letter| letter != '\\')?;
            rest = letters.as_str().strip_prefix('\'')?;
            tokens.push(Token::Number(i128::from(u32::from(letter))));
        } else if first.is_ascii_digit() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(Token::Number(number(&rest[..end])?));
            rest = &rest[end..];
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign))?;
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
        if tokens.len() > MAX_PARTS {
            return None;
        }
        rest = rest.trim_start();
    }
    Some(tokens)
}

/// The text up to the closing quote, and what follows.
fn string(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((out, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                other => out.push(other),
            },
            letter => out.push(letter),
        }
    }
    None
}

fn number(text: &str) -> Option<i128> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok()?,
        None => digits.parse().ok()?,
    };
    Some(value.into())
}

struct Parser<'t> {
    tokens: &'t [Token<'t>],
    at: usize,
    fields: &'t [Field],
    machine: Machine,
    depth: usize,
    parts: usize,
    operators: usize,
}

/// Binary operators and how tightly they bind.
const OPERATORS: [(&str, u8); 18] = [
    ("*", 10),
    ("/", 10),
    ("%", 10),
    ("+", 9),
    ("-", 9),
    ("<<", 8),
    (">>", 8),
    ("<", 7),
    (">", 7),
    ("<=", 7),
    (">=", 7),
    ("==", 6),
    ("!=", 6),
    ("&", 5),
    ("^", 4),
    ("|", 3),
    ("&&", 2),
    ("||", 1),
];

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t Token<'t>> {
        self.tokens.get(self.at)
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_it = self.is_sign(sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Option<()> {
        self.take(sign).then_some(())
    }

    /// The format string and its arguments.
    fn line(&mut self) -> Option<Vec<Piece>> {
        let Some(Token::Text(text)) = self.peek() else { return None };
        self.at += 1;
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find('%') {
            literal += &rest[..at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix('%') {
                literal.push('%');
                rest = behind;
                continue;
            }
            let (spec, behind) = self.spec(rest)?;
            rest = behind;
            let value = self.argument()?;
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Value { spec: Box::new(spec), value });
        }
        literal += rest;
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        // More arguments than the string asks for are a sign that it was misread.
        self.peek().is_none().then_some(pieces)
    }

    fn argument(&mut self) -> Option<Expr> {
        self.expect(",")?;
        self.expression()
    }

    /// A conversion, behind its `%`.
    fn spec(&mut self, text: &'t str) -> Option<(Spec, &'t str)> {
        let mut spec = Spec { bytes: 4, ..Spec::default() };
        let mut rest = text;
        loop {
            match rest.chars().next()? {
                '-' => spec.is_left = true,
                '0' => spec.is_zero = true,
                '#' => spec.is_alternate = true,
                '+' => spec.has_plus = true,
                ' ' => spec.has_blank = true,
                _ => break,
            }
            rest = &rest[1..];
        }
        (spec.width, rest) = self.count(rest)?;
        if let Some(behind) = rest.strip_prefix('.') {
            (spec.precision, rest) = self.count(behind)?;
            if matches!(spec.precision, Count::None) {
                spec.precision = Count::Number(0);
            }
        }
        loop {
            match rest.chars().next()? {
                'h' => spec.bytes = (spec.bytes / 2).max(1),
                'l' | 'z' | 'Z' | 't' if spec.bytes == 8 => {}
                'l' | 'z' | 'Z' | 't' if !rest[1..].starts_with('l') => spec.bytes = self.machine.long_bytes.into(),
                'l' | 'L' | 'q' | 'j' => spec.bytes = 8,
                _ => break,
            }
            rest = &rest[1..];
        }
        spec.conversion = rest.chars().next()?;
        rest = &rest[spec.conversion.len_utf8()..];
        match spec.conversion {
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c' | 's' => {}
            'p' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                let known = ["I4", "i4", "I6c", "I6", "i6", "MF", "M", "mR", "m", "UB", "Ub", "UL", "Ul", "U"];
                let known = known.iter().chain(&["s", "S", "f", "F", "B", "SR", "K", "x"]);
                let word = known.filter(|word| rest[..end].starts_with(**word)).max_by_key(|word| word.len());
                spec.pointer = word.map_or(String::new(), |word| word.to_string());
                rest = &rest[spec.pointer.len()..];
            }
            _ => return None,
        }
        Some((spec, rest))
    }

    fn count(&mut self, text: &'t str) -> Option<(Count, &'t str)> {
        if let Some(rest) = text.strip_prefix('*') {
            return Some((Count::Value(self.argument()?), rest));
        }
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let count = match &text[..end] {
            "" => Count::None,
            digits => Count::Number(digits.parse().ok().filter(|&count| count <= MAX_WIDTH)?),
        };
        Some((count, &text[end..]))
    }

    fn expression(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let condition = self.binary(1)?;
        let expr = if self.take("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            let no = self.expression()?;
            Expr::Choice(Box::new([condition, yes, no]))
        } else {
            condition
        };
        self.depth -= 1;
        Some(expr)
    }

    fn binary(&mut self, least: u8) -> Option<Expr> {
        let mut left = self.unary()?;
        while let Some(Token::Sign(sign)) = self.peek() {
            let Some(&(operator, power)) = OPERATORS.iter().find(|(operator, _)| operator == sign) else { break };
            if power < least {
                break;
            }
            self.at += 1;
            self.depth += 1;
            self.operators += 1;
            if self.depth > MAX_DEPTH || self.operators > MAX_OPERATORS {
                return None;
            }
            let right = self.binary(power + 1)?;
            self.depth -= 1;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        self.parts += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH || self.parts > MAX_PARTS {
            return None;
        }
        let expr = if let Some(sign) = ["-", "~", "!", "+", "&", "*"].into_iter().find(|sign| self.is_sign(sign)) {
            self.at += 1;
            let of = self.unary()?;
            // An address of data is that data here, and so is what it points to.
            if matches!(sign, "+" | "&" | "*") { of } else { Expr::Unary(sign, Box::new(of)) }
        } else if let Some((bytes, signed, end)) = self.cast() {
            self.at = end;
            let of = self.unary()?;
            if bytes == 0 { of } else { Expr::Cast(bytes, signed, Box::new(of)) }
        } else {
            let mut expr = self.primary()?;
            while self.take("[") {
                let index = self.expression()?;
                self.expect("]")?;
                expr = Expr::Element(Box::new(expr), Box::new(index));
            }
            expr
        };
        self.depth -= 1;
        Some(expr)
    }

    /// `(unsigned long)` before an operand: bytes and sign of the type, and where the operand begins. Bytes 0 are a
    /// type that changes nothing: a pointer to data, or one that only the kernel knows.
    fn cast(&self) -> Option<(u32, bool, usize)> {
        let (bytes, signed, end) = self.type_name(self.at)?;
        let is_operand = match self.tokens.get(end)? {
            Token::Text(_) | Token::Number(_) | Token::Word(_) => true,
            Token::Sign(sign) => matches!(*sign, "(" | "-" | "~" | "!" | "&" | "*"),
        };
        // Operators that are also signs: `(a) - b` of something that looks like a type is no cast.
        let is_doubtful = matches!(self.tokens.get(end), Some(Token::Sign("-" | "&" | "*")));
        (is_operand && !(is_doubtful && bytes == 0)).then_some((bytes, signed, end))
    }

    /// A type in parentheses at a place: its bytes, sign, and what follows.
    fn type_name(&self, at: usize) -> Option<(u32, bool, usize)> {
        if self.tokens.get(at) != Some(&Token::Sign("(")) {
            return None;
        }
        let mut words: Vec<&str> = Vec::new();
        let mut is_pointer = false;
        let mut end = at + 1;
        loop {
            match self.tokens.get(end)? {
                Token::Word("REC") => return None,
                Token::Word("const" | "volatile" | "__user" | "__force") => {}
                Token::Word(word) if !is_pointer => words.push(word),
                Token::Sign("*") => is_pointer = true,
                Token::Sign(")") => break,
                _ => return None,
            }
            end += 1;
        }
        if words.is_empty() {
            return None;
        }
        let long = u32::from(self.machine.long_bytes);
        let is_unsigned = words.contains(&"unsigned");
        words.retain(|word| !matches!(*word, "unsigned" | "signed"));
        let (bytes, signed) = match words.as_slice() {
            _ if is_pointer => (0, false),
            ["char"] => (1, true),
            ["short"] | ["short", "int"] => (2, true),
            [] | ["int"] => (4, true),
            ["long"] | ["long", "int"] => (long, true),
            ["long", "long"] | ["long", "long", "int"] => (8, true),
            ["enum" | "struct" | "union", _] => (0, false),
            [word] => match word.trim_start_matches('_') {
                "u8" | "uint8_t" | "bool" => (1, false),
                "s8" | "int8_t" => (1, true),
                "u16" | "uint16_t" => (2, false),
                "s16" | "int16_t" => (2, true),
                "u32" | "uint32_t" | "dev_t" | "gfp_t" => (4, false),
                "s32" | "int32_t" | "pid_t" => (4, true),
                "u64" | "uint64_t" | "sector_t" => (8, false),
                "s64" | "int64_t" | "loff_t" | "ktime_t" => (8, true),
                "size_t" | "uintptr_t" | "ulong" => (long, false),
                "ssize_t" => (long, true),
                // Maybe a type, maybe a name in parentheses.
                _ => (0, false),
            },
            _ => return None,
        };
        Some((bytes, signed && !is_unsigned, end + 1))
    }

    fn primary(&mut self) -> Option<Expr> {
        let token = self.peek()?;
        self.at += 1;
        match token {
            Token::Text(text) => Some(Expr::Text(text.clone())),
            Token::Number(number) => Some(Expr::Number(*number)),
            Token::Sign("(") => {
                let expr = self.expression()?;
                self.expect(")")?;
                Some(expr)
            }
            Token::Sign(_) => None,
            Token::Word("REC") => {
                self.expect("->")?;
                self.field().map(Expr::Field)
            }
            Token::Word("true" | "TRUE") => Some(Expr::Number(1)),
            Token::Word("false" | "FALSE" | "NULL") => Some(Expr::Number(0)),
            Token::Word("sizeof") => {
                let (bytes, _, end) = self.type_name(self.at).filter(|&(bytes, ..)| bytes > 0)?;
                self.at = end;
                Some(Expr::Number(bytes.into()))
            }
            Token::Word(name) => self.call(name),
        }
    }

    /// The number of the field that is named here.
    fn field(&mut self) -> Option<usize> {
        let Some(Token::Word(name)) = self.peek() else { return None };
        self.at += 1;
        self.fields.iter().position(|field| field.name == *name)
    }

    /// What the kernel offers to print lines, behind its name.
    fn call(&mut self, name: &str) -> Option<Expr> {
        self.expect("(")?;
        let expr = match name {
            "__print_flags" | "__print_flags_u64" => {
                let value = Box::new(self.expression()?);
                self.expect(",")?;
                let Some(Token::Text(delimiter)) = self.peek() else { return None };
                self.at += 1;
                Expr::Flags(value, delimiter.clone(), self.list()?)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = Box::new(self.expression()?);
                Expr::Symbolic(value, self.list()?)
            }
            "__print_hex" | "__print_hex_str" => {
                let data = Box::new(self.expression()?);
                let count = Box::new(self.argument()?);
                Expr::Hex(data, count, if name == "__print_hex" { " " } else { "" })
            }
            "__print_array" => {
                let data = self.expression()?;
                Expr::Array(Box::new([data, self.argument()?, self.argument()?]))
            }
            "__get_str" | "__get_rel_str" | "__get_dynamic_array" | "__get_rel_dynamic_array" | "__get_sockaddr" => {
                Expr::Field(self.field()?)
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => Expr::Len(self.field()?),
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                Expr::BitMask(self.field()?)
            }
            "likely" | "unlikely" => self.expression()?,
            "__builtin_expect" => {
                let value = self.expression()?;
                self.argument()?;
                value
            }
            _ => return None,
        };
        self.expect(")")?;
        Some(expr)
    }

    /// `, { 1, "S" }, { 2, "D" }`.
    fn list(&mut self) -> Option<Vec<(i128, String)>> {
        let mut list = Vec::new();
        while self.take(",") {
            // A list may end with a comma.
            if self.is_sign(")") {
                break;
            }
            self.expect("{")?;
            let value = self.expression()?.constant()?;
            self.expect(",")?;
            let Some(Token::Text(text)) = self.peek() else { return None };
            self.at += 1;
            self.expect("}")?;
            list.push((value, text.clone()));
        }
        Some(list)
    }
}

impl Expr {
    /// The value of an expression without fields.
    fn constant(&self) -> Option<i128> {
        Some(match self {
            Expr::Number(number) => *number,
            Expr::Unary(sign, of) => unary(sign, of.constant()?),
            Expr::Binary(sign, left, right) => binary(sign, left.constant()?, right.constant()?),
            Expr::Cast(bytes, signed, of) => cast(of.constant()?, *bytes, *signed),
            _ => return None,
        })
    }
}

fn unary(sign: &str, of: i128) -> i128 {
    match sign {
        "-" => of.wrapping_neg(),
        "~" => !of,
        _ => i128::from(of == 0),
    }
}

fn binary(sign: &str, left: i128, right: i128) -> i128 {
    let shift = u32::try_from(right).unwrap_or(64).min(64);
    match sign {
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right).unwrap_or(0),
        "%" => left.checked_rem(right).unwrap_or(0),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "<<" => left.wrapping_shl(shift),
        ">>" => left.wrapping_shr(shift),
        "<" => i128::from(left < right),
        ">" => i128::from(left > right),
        "<=" => i128::from(left <= right),
        ">=" => i128::from(left >= right),
        "==" => i128::from(left == right),
        "!=" => i128::from(left != right),
        "&" => left & right,
        "^" => left ^ right,
        "|" => left | right,
        "&&" => i128::from(left != 0 && right != 0),
        _ => i128::from(left != 0 || right != 0),
    }
}

/// The lowest bytes of a number, with their sign or without.
fn cast(value: i128, bytes: u32, signed: bool) -> i128 {
    let unused = 128 - 8 * bytes.clamp(1, 8);
    if signed { value << unused >> unused } else { (value as u128 & (u128::MAX >> unused)) as i128 }
}

/// What an expression is for a record.
enum Value<'a> {
    Number(i128),
    Bytes(Cow<'a, [u8]>),
}

/// A record that is printed.
struct Record<'a> {
    bytes: &'a [u8],
    format: &'a PrintFormat,
    names: KernelNames<'a>,
}

impl<'a> Record<'a> {
    fn number(&self, expr: &'a Expr) -> i128 {
        match self.value(expr) {
            Value::Number(number) => number,
            Value::Bytes(bytes) => self.format.machine.number(&bytes[..bytes.len().min(8)]).into(),
        }
    }

    fn data(&self, expr: &'a Expr) -> Cow<'a, [u8]> {
        match self.value(expr) {
            Value::Bytes(bytes) => bytes,
            Value::Number(_) => Cow::Borrowed(&[]),
        }
    }

    fn value(&self, expr: &'a Expr) -> Value<'a> {
        Value::Number(match expr {
            Expr::Number(number) => *number,
            Expr::Text(text) => return Value::Bytes(Cow::Borrowed(text.as_bytes())),
            Expr::Field(at) => return self.field(&self.format.fields[*at]),
            Expr::Unary(sign, of) => unary(sign, self.number(of)),
            Expr::Binary(sign, left, right) => binary(sign, self.number(left), self.number(right)),
            Expr::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                return self.value(if self.number(condition) != 0 { yes } else { no });
            }
            Expr::Cast(bytes, signed, of) => cast(self.number(of), *bytes, *signed),
            Expr::Element(of, index) => return Value::Number(self.element(of, self.number(index))),
            Expr::Flags(of, delimiter, list) => {
                return Value::Bytes(Cow::Owned(flags(self.number(of), delimiter, list).into_bytes()));
            }
            Expr::Symbolic(of, list) => {
                let value = self.number(of);
                return Value::Bytes(match list.iter().find(|(known, _)| *known == value) {
                    Some((_, text)) => Cow::Borrowed(text.as_bytes()),
                    None => Cow::Owned(format!("{:#x}", value as u64).into_bytes()),
                });
            }
            Expr::Hex(data, count, between) => {
                let data = self.data(data);
                let count = usize::try_from(self.number(count)).unwrap_or(0).min(data.len()).min(MAX_ELEMENTS);
                let bytes: Vec<String> = data[..count].iter().map(|byte| format!("{byte:02x}")).collect();
                return Value::Bytes(Cow::Owned(bytes.join(between).into_bytes()));
            }
            Expr::Array(parts) => {
                let [data, count, size] = &**parts;
                let size = usize::try_from(self.number(size)).unwrap_or(0).clamp(1, 8);
                let count = usize::try_from(self.number(count)).unwrap_or(0).min(MAX_ELEMENTS);
                let data = self.data(data);
                let elements = data.chunks_exact(size).take(count);
                let elements: Vec<String> =
                    elements.map(|element| format!("{:#x}", self.format.machine.number(element))).collect();
                return Value::Bytes(Cow::Owned(format!("{{{}}}", elements.join(",")).into_bytes()));
            }
            Expr::Len(at) => {
                let field = &self.format.fields[*at];
                field.range(self.bytes, self.format.machine).0.len() as i128
            }
            Expr::BitMask(at) => {
                let bytes = self.format.fields[*at].bytes(self.bytes, self.format.machine);
                return Value::Bytes(Cow::Owned(self.bits(bytes).into_bytes()));
            }
        })
    }

    fn field(&self, field: &Field) -> Value<'a> {
        match (field.place, field.content) {
            (Place::Fixed, Content::Integer(_)) => {
                Value::Number(field.integer(self.bytes, self.format.machine).unwrap_or(0))
            }
            _ => Value::Bytes(Cow::Borrowed(field.bytes(self.bytes, self.format.machine))),
        }
    }

    /// An element of an array, by its number.
    fn element(&self, of: &'a Expr, index: i128) -> i128 {
        let element = match of {
            Expr::Field(at) => match self.format.fields[*at].content {
                Content::Array(element) | Content::Integer(element) => (u32::from(element.bytes), element.signed),
                Content::Text => (1, true),
            },
            Expr::Cast(bytes, signed, _) => (*bytes, *signed),
            _ => (1, false),
        };
        let size = element.0 as usize;
        let data = self.data(of);
        let from = usize::try_from(index).ok().and_then(|index| index.checked_mul(size));
        let bytes = from.and_then(|from| data.get(from..)?.get(..size));
        bytes.map_or(0, |bytes| cast(self.format.machine.number(bytes).into(), element.0, element.1))
    }

    /// The bits that are set in a set of words, as ranges.
    fn bits(&self, bytes: &[u8]) -> String {
        let long = usize::from(self.format.machine.long_bytes);
        let mut set: Vec<usize> = Vec::new();
        for (word, bytes) in bytes.chunks(long).enumerate().take(MAX_ELEMENTS) {
            let value = self.format.machine.number(bytes);
            set.extend((0..bytes.len() * 8).filter(|bit| value >> bit & 1 == 1).map(|bit| word * long * 8 + bit));
        }
        let mut out = String::new();
        let mut at = 0;
        while at < set.len() {
            let mut last = at;
            while set.get(last + 1) == Some(&(set[last] + 1)) {
                last += 1;
            }
            out += if out.is_empty() { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = match last - at {
                0 => write!(out, "{}", set[at]),
                _ => write!(out, "{}-{}", set[at], set[last]),
            };
            at = last + 1;
        }
        out
    }

    fn put(&self, spec: &'a Spec, value: &'a Expr, out: &mut Vec<u8>) {
        let count = |count: &'a Count| match count {
            Count::None => None,
            Count::Number(number) => Some(i128::from(*number as u64)),
            Count::Value(expr) => Some(cast(self.number(expr), 4, true)),
        };
        let width = count(&spec.width).unwrap_or(0);
        let is_left = spec.is_left || width < 0;
        let width = usize::try_from(width.unsigned_abs()).unwrap_or(0).min(MAX_WIDTH);
        let precision = count(&spec.precision).and_then(|count| usize::try_from(count).ok());
        let (text, is_number) = match spec.conversion {
            's' => (self.text(value, precision), false),
            'c' => (vec![self.number(value) as u8], false),
            'p' => (self.pointer(&spec.pointer, value), false),
            _ => (self.integer(spec, self.number(value), precision).into_bytes(), precision.is_none()),
        };
        let missing = width.saturating_sub(text.len());
        if is_left {
            out.extend_from_slice(&text);
            out.extend(std::iter::repeat_n(b' ', missing));
        } else if spec.is_zero && is_number {
            // Zeros stand behind the sign and behind `0x`.
            let head = text.iter().take_while(|byte| !byte.is_ascii_hexdigit()).count();
            let head = if text[head..].starts_with(b"0x") || text[head..].starts_with(b"0X") { head + 2 } else { head };
            out.extend_from_slice(&text[..head]);
            out.extend(std::iter::repeat_n(b'0', missing));
            out.extend_from_slice(&text[head..]);
        } else {
            out.extend(std::iter::repeat_n(b' ', missing));
            out.extend_from_slice(&text);
        }
    }

    fn text(&self, value: &'a Expr, precision: Option<usize>) -> Vec<u8> {
        let bytes = match self.value(value) {
            Value::Bytes(bytes) => bytes,
            // A pointer to a text that is not in the record.
            Value::Number(number) => return format!("{:x}", number as u64).into_bytes(),
        };
        let end = memchr::memchr(0, &bytes).unwrap_or(bytes.len());
        bytes[..end.min(precision.unwrap_or(usize::MAX))].to_vec()
    }

    fn integer(&self, spec: &Spec, number: i128, precision: Option<usize>) -> String {
        let signed = matches!(spec.conversion, 'd' | 'i');
        let number = cast(number, spec.bytes, signed);
        let size = number.unsigned_abs();
        let mut digits = match spec.conversion {
            'x' => format!("{size:x}"),
            'X' => format!("{size:X}"),
            'o' => format!("{size:o}"),
            _ => size.to_string(),
        };
        if let Some(precision) = precision.filter(|&precision| precision > digits.len()) {
            digits.insert_str(0, &"0".repeat((precision - digits.len()).min(MAX_WIDTH)));
        }
        let head = match spec.conversion {
            'x' if spec.is_alternate && number != 0 => "0x",
            'X' if spec.is_alternate && number != 0 => "0X",
            'o' if spec.is_alternate && !digits.starts_with('0') => "0",
            _ if number < 0 => "-",
            _ if signed && spec.has_plus => "+",
            _ if signed && spec.has_blank => " ",
            _ => "",
        };
        format!("{head}{digits}")
    }

    /// `%p` and what may stand behind it.
    fn pointer(&self, kind: &str, value: &'a Expr) -> Vec<u8> {
        let group = |data: &[u8], at: usize| data.get(at).copied().unwrap_or(0);
        match kind {
            "s" | "S" | "f" | "F" | "B" | "SR" => {
                let address = self.number(value) as u64;
                let name = (self.names)(address, !matches!(kind, "s" | "f"));
                name.unwrap_or_else(|| format!("{address:#x}")).into_bytes()
            }
            "I4" | "i4" => {
                let data = self.data(value);
                let address = Ipv4Addr::from([0, 1, 2, 3].map(|at| group(&data, at)));
                address.to_string().into_bytes()
            }
            "I6" | "i6" | "I6c" => {
                let data = self.data(value);
                let bytes: [u8; 16] = std::array::from_fn(|at| group(&data, at));
                let between = if kind == "i6" { "" } else { ":" };
                let groups: Vec<String> = bytes.chunks(2).map(|two| format!("{:02x}{:02x}", two[0], two[1])).collect();
                let text = if kind == "I6c" { Ipv6Addr::from(bytes).to_string() } else { groups.join(between) };
                text.into_bytes()
            }
            "M" | "MF" | "m" | "mR" => {
                let data = self.data(value);
                let between = match kind {
                    "M" => ":",
                    "MF" => "-",
                    _ => "",
                };
                let bytes: Vec<String> = (0..6).map(|at| format!("{:02x}", group(&data, at))).collect();
                bytes.join(between).into_bytes()
            }
            "U" | "Ub" | "UB" | "Ul" | "UL" => {
                let data = self.data(value);
                let order: [usize; 16] = match kind {
                    "Ul" | "UL" => [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15],
                    _ => std::array::from_fn(|at| at),
                };
                let mut text = String::new();
                for (at, from) in order.into_iter().enumerate() {
                    text += if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                    let _ = write!(text, "{:02x}", group(&data, from));
                }
                (if kind.ends_with(['B', 'L']) { text.to_uppercase() } else { text }).into_bytes()
            }
            _ => match self.number(value) as u64 {
                0 => b"(nil)".to_vec(),
                address => format!("{address:#x}").into_bytes(),
            },
        }
    }

    /// All fields, where the line cannot be read.
    fn put_fields(&self, out: &mut Vec<u8>) {
        for (at, field) in self.format.fields.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b" " } else { b"" });
            out.extend_from_slice(field.name.as_bytes());
            out.push(b'=');
            let bytes = field.bytes(self.bytes, self.format.machine);
            let text = match (field.content, field.integer(self.bytes, self.format.machine)) {
                (Content::Text, _) => {
                    out.extend_from_slice(&bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]);
                    continue;
                }
                (Content::Integer(element), Some(value)) if element.is_pointer => format!("{:#x}", value as u64),
                (Content::Integer(_), Some(value)) => value.to_string(),
                (Content::Integer(_), None) => String::new(),
                (Content::Array(element), _) => {
                    let values = bytes.chunks_exact(usize::from(element.bytes.max(1))).take(MAX_ELEMENTS);
                    let number = |bytes: &[u8]| {
                        let value = i128::from(self.format.machine.number(bytes));
                        cast(value, element.bytes.into(), element.signed).to_string()
                    };
                    format!("ARRAY[{}]", values.map(number).collect::<Vec<_>>().join(", "))
                }
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// The names of the bits that are set; what has no name is a number.
fn flags(value: i128, delimiter: &str, list: &[(i128, String)]) -> String {
    let mut out = String::new();
    let mut rest = value;
    for (bits, name) in list {
        if value == 0 && *bits == 0 {
            return name.clone();
        }
        if *bits != 0 && rest & bits == *bits {
            out += if out.is_empty() { "" } else { delimiter };
            out += name;
            rest &= !bits;
        }
    }
    if rest != 0 {
        out += if out.is_empty() { "" } else { delimiter };
        let _ = write!(out, "{:#x}", rest as u64);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftrace::builder::{Order, format};

    fn printed(order: Order, fields: &[&str], line: &str, record: &[u8]) -> String {
        let machine = Machine { byte_order: order.byte_order(), long_bytes: 8 };
        let text = format("test", 7, fields).replace("print fmt: \"\"", &format!("print fmt: {line}"));
        let format = EventFormat::parse(&text, machine).unwrap();
        let mut out = Vec::new();
        let names = |address: u64, with_offset: bool| match address {
            0x1004 if with_offset => Some("start+0x4/0x10".to_string()),
            0x1004 => Some("start".to_string()),
            _ => None,
        };
        PrintFormat::parse(&format, machine).put(record, &names, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// A record with numbers of these lengths behind its common fields.
    fn record(order: Order, parts: &[(i64, usize)]) -> Vec<u8> {
        [vec![0; 8], order.pack(parts)].concat()
    }

    #[test]
    fn numbers_as_c_prints_them() {
        let fields = ["int a;8;4;1", "unsigned long b;16;8;0", "short c;24;2;1", "char d;26;1;1"];
        for order in [Order::Little, Order::Big] {
            let record = record(order, &[(-5, 4), (0, 4), (0x1234_5678_9abc, 8), (-2, 2), (65, 1)]);
            let show = |line: &str| printed(order, &fields, line, &record);
            assert_eq!(show(r#""%d %u %x", REC->a, REC->a, REC->a"#), "-5 4294967291 fffffffb");
            assert_eq!(
                show(r#""%ld|%08lx|%-6d|%6d|", REC->a, REC->b, REC->c, REC->c"#),
                "-5|123456789abc|-2    |    -2|"
            );
            assert_eq!(show(r#""%#x %#o %03d %+d %c %%", 255, 8, -7, 7, REC->d"#), "0xff 010 -07 +7 A %");
            assert_eq!(show(r#""%*d|%.3d|%hd|%hhx", 4, 1, 2, 65537, 511"#), "   1|002|1|ff");
            assert_eq!(show(r#""0x%08lx", ((unsigned long)(REC->a))"#), "0xfffffffffffffffb");
            assert_eq!(show(r#""%p %p", (void *)REC->b, NULL"#), "0x123456789abc (nil)");
        }
    }

    #[test]
    fn expressions() {
        let fields = ["int a;8;4;1", "u64 b;16;8;0"];
        let record = record(Order::Little, &[(6, 4), (0, 4), (-1, 8)]);
        let show = |line: &str| printed(Order::Little, &fields, line, &record);
        assert_eq!(show(r#""%d", REC->a * 2 + 1 << 1 & 0xff"#), "26");
        assert_eq!(show(r#""%d", 10 - 4 - 3"#), "3");
        assert_eq!(show(r#""%s", REC->a > 5 && !0 ? "big" : "small""#), "big");
        assert_eq!(show(r#""%llu", REC->b"#), "18446744073709551615");
        assert_eq!(show(r#""%llu", REC->b >> 60"#), "15");
        assert_eq!(show(r#""%d %d", REC->a / 0, REC->a % 4"#), "0 2");
        assert_eq!(show(r#""%d", (unsigned char)0x1ff - 1"#), "254");
        assert_eq!(show(r#""%d" " and %u", 1, sizeof(u64)"#), "1 and 8");
        assert_eq!(show(r#""%d", (REC->a) - 1"#), "5");
    }

    #[test]
    fn flags_symbols_texts_and_arrays() {
        let fields = [
            "char comm[8];8;8;0",
            "unsigned int flags;16;4;0",
            "__data_loc char[] name;20;4;0",
            "__u8 mac[6];24;6;0",
            "unsigned int words[2];32;8;0",
            "__data_loc u8[] buf;40;4;0",
        ];
        let mut record = vec![0; 8];
        record.extend(b"task\0xyz");
        record.extend(5u32.to_le_bytes());
        record.extend((44u32 | 5 << 16).to_le_bytes());
        record.extend([1, 2, 0xab, 4, 5, 6, 0, 0]);
        record.extend([7, 0, 0, 0, 9, 0, 0, 0]);
        record.extend((49u32 | 3 << 16).to_le_bytes());
        record.extend(b"path\0\x01\x02\x83");
        let show = |line: &str| printed(Order::Little, &fields, line, &record);
        assert_eq!(show(r#""%s %s %.2s|%10s", REC->comm, __get_str(name), REC->comm, "x""#), "task path ta|         x");
        let list = r#"{ 0x1, "A" }, { (1 << 1), "B" }"#;
        assert_eq!(show(&format!(r#""%s", __print_flags(REC->flags, "|", {list})"#)), "A|0x4");
        assert_eq!(show(&format!(r#""%s", __print_flags(2UL, "|", {list})"#)), "B");
        assert_eq!(show(r#""%s", __print_flags(0, "|", { 0, "none" })"#), "none");
        assert_eq!(
            show(r#""%s %s", __print_symbolic(REC->flags, { 5, "five" }), __print_symbolic(6, { 5, "" })"#),
            "five 0x6"
        );
        assert_eq!(show(r#""%pM %s", REC->mac, __print_hex(REC->mac, 3)"#), "01:02:ab:04:05:06 01 02 ab");
        assert_eq!(show(r#""%s %d", __print_array(REC->words, 2, 4), REC->words[1]"#), "{0x7,0x9} 9");
        assert_eq!(show(r#""%d %s", __get_dynamic_array_len(buf), __get_bitmask(buf)"#), "3 0,9,16-17,23");
        assert_eq!(show(r#""%pI4 %pi4", REC->mac, &REC->mac"#), "1.2.171.4 1.2.171.4");
        assert_eq!(show(r#""%ps %pS %ps", (void *)0x1004, (void *)0x1004, (void *)5"#), "start start+0x4/0x10 0x5");
    }

    #[test]
    fn a_line_that_cannot_be_read_shows_the_fields() {
        let fields = ["int a;8;4;1", "const char * p;16;8;0", "char comm[4];24;4;0", "u16 w[2];28;4;0"];
        let mut record = record(Order::Little, &[(-6, 4), (0, 4), (0x55, 8)]);
        record.extend(b"ab\0\0\x01\0\x02\0");
        let by_field = "a=-6 p=0x55 comm=ab w=ARRAY[1, 2]";
        let deep = format!("\"%d\", {}1{}", "(".repeat(500), ")".repeat(500));
        let long = format!("\"%d\", 1{}", "+1".repeat(5000));
        for line in [
            "",
            "\"%d\"",
            "\"%d\", some_function(REC->a)",
            "\"%d\", REC->none",
            "\"%d\", NAME",
            "\"%d, REC->a",
            "\"%e\", REC->a",
            "\"x\", REC->a",
            "\"%99999d\", REC->a",
            &deep,
            &long,
        ] {
            assert_eq!(printed(Order::Little, &fields, line, &record), by_field, "{line}");
        }
        // Fields that the record does not have are empty or 0.
        assert_eq!(printed(Order::Little, &fields, "\"%d %s|\", REC->a, REC->comm", &record[..10]), "0 |");
    }
}
