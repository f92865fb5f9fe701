//! Types, which are passed over.

use super::NameParser;

impl NameParser<'_> {
    pub(super) fn type_(&mut self) -> Option<()> {
        self.quietly(Self::type_inside)
    }

    pub(super) fn type_inside(&mut self) -> Option<()> {
        loop {
            match self.peek()? {
                b'r' | b'V' | b'K' | b'P' | b'R' | b'O' | b'C' | b'G' => self.pos += 1,
                b'U' if !self.starts_with(b"Ut") && !self.starts_with(b"Ul") => {
                    self.pos += 1;
                    self.follow(b"$I")?;
                }
                b'D' if self.starts_with(b"Dp") || self.starts_with(b"Do") => self.pos += 2,
                b'D' if self.starts_with(b"DO") => {
                    self.pos += 2;
                    self.follow(b"XE")?;
                }
                b'D' if self.starts_with(b"Dv") => {
                    self.pos += 2;
                    let rule = if self.eat(b"_") { b"X_" } else { b"#_" };
                    self.follow(rule)?;
                }
                _ => break,
            }
        }
        match self.peek()? {
            b'F' => {
                self.pos += 1;
                self.eat(b"Y");
                while !self.eat(b"E") {
                    if self.starts_with(b"RE") || self.starts_with(b"OE") {
                        self.pos += 1;
                        continue;
                    }
                    self.type_()?;
                }
                Some(())
            }
            b'A' => {
                self.pos += 1;
                if self.peek()? != b'_' {
                    self.follow(b"D")?;
                }
                self.follow(b"_T")
            }
            b'M' => {
                self.pos += 1;
                self.follow(b"TT")
            }
            b'T' if self.text.get(self.pos + 1).is_some_and(|byte| b"sue".contains(byte)) => {
                self.pos += 2;
                self.name()
            }
            b'T' => {
                self.template_param()?;
                self.follow(b"I")
            }
            b'D' if matches!(self.text.get(self.pos + 1), Some(b't' | b'T')) => self.decltype(),
            b'D' if self.starts_with(b"DF") => {
                self.pos += 2;
                self.number()?;
                if !self.eat(b"_") {
                    self.eat(b"x");
                    self.eat(b"b");
                }
                Some(())
            }
            b'D' if self.starts_with(b"DB") || self.starts_with(b"DU") => {
                self.pos += 2;
                self.follow(b"D_")
            }
            b'D' => {
                self.pos += 2;
                self.text.get(self.pos - 1).filter(|code| b"defhisuacn".contains(code)).map(|_| ())
            }
            b'S' => {
                let is_std = self.starts_with(b"St");
                self.substitution()?;
                if is_std {
                    self.unqualified_name()?;
                }
                self.follow(b"I")
            }
            b'u' => {
                self.pos += 1;
                self.follow(b"$I")
            }
            b'N' | b'Z' | b'0'..=b'9' | b'U' | b'L' => self.name(),
            byte if b"vwbcahstijlmxynofdegz".contains(&byte) => {
                self.pos += 1;
                Some(())
            }
            _ => None,
        }
    }
}
