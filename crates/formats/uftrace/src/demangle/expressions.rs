//! Expressions in template arguments, which are passed over.

use super::Parser;
use super::operators::{OPERATORS, UNARY};

impl Parser<'_> {
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

    pub(super) fn expressions(&mut self) -> Option<()> {
        while !self.eat(b"E") {
            self.expression()?;
        }
        Some(())
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
            b"cl" | b"il" => {
                self.pos += 2;
                return self.expressions();
            }
            b"cv" => {
                self.pos += 2;
                self.type_()?;
                return if self.eat(b"_") { self.expressions() } else { self.expression() };
            }
            b"tl" => {
                self.pos += 2;
                self.type_()?;
                return self.expressions();
            }
            b"nw" | b"na" => {
                self.pos += 2;
                while !self.eat(b"_") {
                    self.expression()?;
                }
                self.type_()?;
                self.eat(b"pi");
                return self.expressions();
            }
            b"dc" | b"sc" | b"cc" | b"rc" => {
                self.pos += 2;
                self.type_()?;
                return self.expression();
            }
            b"ti" | b"st" | b"at" => {
                self.pos += 2;
                return self.type_();
            }
            b"dt" | b"pt" => {
                self.pos += 2;
                self.expression()?;
                return self.unresolved_name();
            }
            b"ds" => {
                self.pos += 2;
                self.expression()?;
                return self.expression();
            }
            b"sZ" => {
                self.pos += 2;
                return self.expression();
            }
            b"sP" => {
                self.pos += 2;
                while !self.eat(b"E") {
                    self.template_arg()?;
                }
                return Some(());
            }
            b"tr" => {
                self.pos += 2;
                return Some(());
            }
            b"qu" => {
                self.pos += 2;
                self.expression()?;
                self.expression()?;
                return self.expression();
            }
            b"sr" | b"on" | b"dn" | [b'0'..=b'9', _] => return self.unresolved_name(),
            _ => {}
        }
        if UNARY.contains(&&code) {
            self.pos += 2;
            self.eat(b"_");
            return self.expression();
        }
        if OPERATORS.iter().any(|(known, _)| **known == code) {
            self.pos += 2;
            self.expression()?;
            return self.expression();
        }
        None
    }

    pub(super) fn unresolved_name(&mut self) -> Option<()> {
        if self.eat(b"sr") {
            let has_levels = self.eat(b"N");
            if !has_levels && self.peek()?.is_ascii_digit() {
                while !self.eat(b"E") {
                    self.simple_id()?;
                }
                return self.base_unresolved_name();
            }
            self.type_()?;
            if has_levels {
                while !self.eat(b"E") {
                    self.simple_id()?;
                }
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
        if self.peek() == Some(b'I') { self.template_args() } else { Some(()) }
    }

    pub(super) fn simple_id(&mut self) -> Option<()> {
        self.source_name()?;
        if self.peek() == Some(b'I') { self.template_args() } else { Some(()) }
    }
}
