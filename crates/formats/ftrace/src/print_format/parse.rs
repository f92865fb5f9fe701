//! Reading a `print fmt:` line: tokens, then pieces of text and expressions.

use tracemill_codec::text::{c_number, printf};

use super::{Count, Expr, FormatPiece, MAX_DEPTH, MAX_OPERATORS, MAX_PARTS, MAX_WIDTH, Spec};
use crate::event_format::{FormatField, Machine, type_of_words};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FormatToken<'a> {
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

pub(super) fn tokens(text: &str) -> Option<Vec<FormatToken<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if first == '"' {
            let (string, behind) = string(&rest[1..])?;
            // Strings side by side are one.
            match tokens.last_mut() {
                Some(FormatToken::Text(before)) => before.push_str(&string),
                _ => tokens.push(FormatToken::Text(string)),
            }
            rest = behind;
        } else if first == '\'' {
            let mut letters = rest[1..].chars();
            let letter = letters.next().filter(|&letter| letter != '\\')?;
            rest = letters.as_str().strip_prefix('\'')?;
            tokens.push(FormatToken::Number(i128::from(u32::from(letter))));
        } else if first.is_ascii_digit() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let digits = rest[..end].trim_end_matches(['u', 'U', 'l', 'L']);
            tokens.push(FormatToken::Number(c_number(digits)?.into()));
            rest = &rest[end..];
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(FormatToken::Word(&rest[..end]));
            rest = &rest[end..];
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign))?;
            tokens.push(FormatToken::Sign(sign));
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

pub(super) struct FormatParser<'t> {
    tokens: &'t [FormatToken<'t>],
    at: usize,
    fields: &'t [FormatField],
    machine: Machine,
    depth: usize,
    parts: usize,
    operators: usize,
}

/// Binary operators, those that bind loosest first.
const OPERATORS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl<'t> FormatParser<'t> {
    pub(super) fn new(tokens: &'t [FormatToken<'t>], fields: &'t [FormatField], machine: Machine) -> Self {
        FormatParser { tokens, at: 0, fields, machine, depth: 0, parts: 0, operators: 0 }
    }

    fn peek(&self) -> Option<&'t FormatToken<'t>> {
        self.tokens.get(self.at)
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(FormatToken::Sign(found)) if *found == sign)
    }

    fn accept(&mut self, sign: &str) -> bool {
        let is_it = self.is_sign(sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Option<()> {
        self.accept(sign).then_some(())
    }

    /// The format string and its arguments.
    pub(super) fn line(&mut self) -> Option<Vec<FormatPiece>> {
        let Some(FormatToken::Text(text)) = self.peek() else { return None };
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
                pieces.push(FormatPiece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(FormatPiece::Value { spec: Box::new(spec), value });
        }
        literal += rest;
        if !literal.is_empty() {
            pieces.push(FormatPiece::Text(literal));
        }
        // More arguments than the string asks for are a sign that it was misread.
        self.peek().is_none().then_some(pieces)
    }

    fn argument(&mut self) -> Option<Expr> {
        self.expect(",")?;
        self.expression()
    }

    /// A conversion, after its `%`.
    fn spec(&mut self, text: &'t str) -> Option<(Spec, &'t str)> {
        let (of_c, flags) = printf::Spec::flags(text.as_bytes());
        let mut spec = Spec { of_c, bytes: 4, ..Spec::default() };
        let mut rest = &text[flags..];
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
        let conversion = rest.chars().next().filter(char::is_ascii)?;
        spec.of_c.letter = conversion as u8;
        rest = &rest[1..];
        match conversion {
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
            digits => Count::Number(digits.parse().ok().filter(|&count| count <= usize::from(MAX_WIDTH))?),
        };
        Some((count, &text[end..]))
    }

    fn expression(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let condition = self.binary(0)?;
        let expr = if self.accept("?") {
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

    /// Operands with operators that bind as tightly as the level `least` or more.
    fn binary(&mut self, least: usize) -> Option<Expr> {
        let mut left = self.unary()?;
        while let Some(FormatToken::Sign(sign)) = self.peek() {
            let level = OPERATORS.iter().position(|level| level.contains(sign));
            let Some(level) = level.filter(|&level| level >= least) else { break };
            self.at += 1;
            self.depth += 1;
            self.operators += 1;
            if self.depth > MAX_DEPTH || self.operators > MAX_OPERATORS {
                return None;
            }
            let right = self.binary(level + 1)?;
            self.depth -= 1;
            left = Expr::Binary(sign, Box::new(left), Box::new(right));
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
            while self.accept("[") {
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
            FormatToken::Text(_) | FormatToken::Number(_) | FormatToken::Word(_) => true,
            FormatToken::Sign(sign) => matches!(*sign, "(" | "-" | "~" | "!" | "&" | "*"),
        };
        // Operators that are also signs: `(a) - b` of something that looks like a type is no cast.
        let is_doubtful = matches!(self.tokens.get(end), Some(FormatToken::Sign("-" | "&" | "*")));
        (is_operand && !(is_doubtful && bytes == 0)).then_some((bytes, signed, end))
    }

    /// A type in parentheses at a place: its bytes, sign, and what follows.
    fn type_name(&self, at: usize) -> Option<(u32, bool, usize)> {
        if self.tokens.get(at) != Some(&FormatToken::Sign("(")) {
            return None;
        }
        let mut words: Vec<&str> = Vec::new();
        let mut is_pointer = false;
        let mut end = at + 1;
        loop {
            match self.tokens.get(end)? {
                FormatToken::Word("REC") => return None,
                FormatToken::Word("const" | "volatile" | "__user" | "__force") => {}
                FormatToken::Word(word) if !is_pointer => words.push(word),
                FormatToken::Sign("*") => is_pointer = true,
                FormatToken::Sign(")") => break,
                _ => return None,
            }
            end += 1;
        }
        if words.is_empty() {
            return None;
        }
        let (bytes, signed) = match words.as_slice() {
            _ if is_pointer => (0, false),
            ["enum" | "struct" | "union", _] => (0, false),
            // Maybe a type, maybe a name in parentheses.
            [word] => type_of_words(&[word], self.machine).unwrap_or((0, false)),
            words => type_of_words(words, self.machine)?,
        };
        Some((bytes, signed, end + 1))
    }

    fn primary(&mut self) -> Option<Expr> {
        let token = self.peek()?;
        self.at += 1;
        match token {
            FormatToken::Text(text) => Some(Expr::Text(text.clone())),
            FormatToken::Number(number) => Some(Expr::Number(*number)),
            FormatToken::Sign("(") => {
                let expr = self.expression()?;
                self.expect(")")?;
                Some(expr)
            }
            FormatToken::Sign(_) => None,
            FormatToken::Word("REC") => {
                self.expect("->")?;
                self.field().map(Expr::Field)
            }
            FormatToken::Word("true" | "TRUE") => Some(Expr::Number(1)),
            FormatToken::Word("false" | "FALSE" | "NULL") => Some(Expr::Number(0)),
            FormatToken::Word("sizeof") => {
                let (bytes, _, end) = self.type_name(self.at).filter(|&(bytes, ..)| bytes > 0)?;
                self.at = end;
                Some(Expr::Number(bytes.into()))
            }
            FormatToken::Word(name) => self.call(name),
        }
    }

    /// The number of the field that is named here.
    fn field(&mut self) -> Option<usize> {
        let Some(FormatToken::Word(name)) = self.peek() else { return None };
        self.at += 1;
        self.fields.iter().position(|field| field.name == *name)
    }

    /// A call of one of the kernel's helpers for `print fmt`, after its name.
    fn call(&mut self, name: &str) -> Option<Expr> {
        self.expect("(")?;
        let expr = match name {
            "__print_flags" | "__print_flags_u64" => {
                let value = Box::new(self.expression()?);
                self.expect(",")?;
                let Some(FormatToken::Text(delimiter)) = self.peek() else { return None };
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
        while self.accept(",") {
            // A list may end with a comma.
            if self.is_sign(")") {
                break;
            }
            self.expect("{")?;
            let value = self.expression()?.constant()?;
            self.expect(",")?;
            let Some(FormatToken::Text(text)) = self.peek() else { return None };
            self.at += 1;
            self.expect("}")?;
            list.push((value, text.clone()));
        }
        Some(list)
    }
}
