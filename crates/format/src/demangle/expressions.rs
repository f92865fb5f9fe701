//! Expressions in template arguments, which are passed over.

use super::NameParser;
use super::operators::{OPERATORS, UNARY};

/// Codes of expressions, and what stands after each of them, as [`NameParser::follow`] reads it.
const EXPRESSIONS: &[(&[&[u8; 2]], &[u8])] = &[
    (&[b"cl", b"il"], b"*X"),
    (&[b"tl"], b"T*X"),
    (&[b"dc", b"sc", b"cc", b"rc"], b"TX"),
    (&[b"ti", b"st", b"at"], b"T"),
    (&[b"dt", b"pt"], b"XU"),
    (&[b"ds"], b"XX"),
    (&[b"sZ"], b"X"),
    (&[b"sP"], b"*A"),
    (&[b"tr"], b""),
    (&[b"qu"], b"XXX"),
];

impl NameParser<'_> {
    pub(super) fn expr_primary(&mut self) -> Option<()> {
        self.need(b"L")?;
        self.quietly(|parser| {
            if parser.eat(b"_Z") {
                parser.encoding()?;
                return parser.need(b"E");
            }
            parser.type_()?;
            // A number, the digits of a float, or nothing.
            while !parser.eat(b"E") {
                if !matches!(parser.peek()?, b'0'..=b'9' | b'a'..=b'z' | b'_') {
                    return None;
                }
                parser.pos += 1;
            }
            Some(())
        })
    }

    pub(super) fn expression(&mut self) -> Option<()> {
        self.quietly(Self::expression_inside)
    }

    pub(super) fn expression_inside(&mut self) -> Option<()> {
        self.eat(b"gs");
        let code = [self.peek()?, *self.text.get(self.pos + 1)?];
        match &code {
            [b'L', _] => return self.expr_primary(),
            [b'T', _] => return self.template_param(),
            b"fp" | b"fL" => {
                self.pos += 2;
                if code[1] == b'L' {
                    self.number()?;
                    self.need(b"p")?;
                }
                if self.eat(b"T") {
                    return Some(());
                }
                while matches!(self.peek(), Some(b'r' | b'V' | b'K')) {
                    self.pos += 1;
                }
                self.seq_id();
                return self.need(b"_");
            }
            b"cv" => {
                self.pos += 2;
                self.type_()?;
                return if self.eat(b"_") { self.follow(b"*X") } else { self.expression() };
            }
            b"nw" | b"na" => {
                self.pos += 2;
                while !self.eat(b"_") {
                    self.expression()?;
                }
                self.type_()?;
                self.eat(b"pi");
                return self.follow(b"*X");
            }
            b"sr" | b"on" | b"dn" | [b'0'..=b'9', _] => return self.unresolved_name(),
            _ => {}
        }
        let known = EXPRESSIONS.iter().find(|(codes, _)| codes.contains(&&code));
        let rule = known.map(|(_, rule)| *rule).or_else(|| UNARY.contains(&&code).then_some(&b"~X"[..]));
        let rule = rule.or_else(|| OPERATORS.iter().any(|(known, _)| **known == code).then_some(b"XX"))?;
        self.pos += 2;
        self.follow(rule)
    }

    pub(super) fn unresolved_name(&mut self) -> Option<()> {
        if self.eat(b"sr") {
            let has_levels = self.eat(b"N");
            if !has_levels && self.peek()?.is_ascii_digit() {
                self.follow(b"*$I")?;
                return self.base_unresolved_name();
            }
            self.type_()?;
            if has_levels {
                self.follow(b"*$I")?;
            }
        }
        self.base_unresolved_name()
    }

    pub(super) fn base_unresolved_name(&mut self) -> Option<()> {
        if self.eat(b"on") {
            self.operator_name()?;
        } else if self.eat(b"dn") {
            if !self.peek()?.is_ascii_digit() {
                return self.type_();
            }
            self.source_name()?;
        } else {
            self.source_name()?;
        }
        self.follow(b"I")
    }
}
