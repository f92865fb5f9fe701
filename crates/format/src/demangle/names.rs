//! Names: nested, local, special, of operators and constructors, with their template arguments.

use super::NameParser;
use super::operators::OPERATORS;
use super::rust::rust_name;

/// Codes of special names, the words that are written for them, and what stands after, as [`NameParser::follow`] reads it.
const SPECIAL: &[(&[u8; 2], &str, &[u8])] = &[
    (b"TV", "__vtable__", b"S"),
    (b"TT", "__VTT__", b"S"),
    (b"TI", "__typeinfo_name__", b"S"),
    (b"TS", "__typeinfo__", b"S"),
    (b"TF", "__typeinfo_fn__", b"S"),
    (b"TJ", "__java_class__", b"S"),
    (b"TC", "__construction_vtable__", b"S#_T"),
    (b"Tc", "", b"OOM"),
    (b"GV", "__guard_variable__", b"N"),
    (b"GR", "__ref_temp__", b"NQ_"),
    (b"GA", "", b"M"),
];

impl NameParser<'_> {
    pub(super) fn encoding(&mut self) -> Option<()> {
        self.nested(|parser| match parser.peek()? {
            b'T' | b'G' => parser.special_name(),
            _ => {
                parser.name()?;
                parser.bare_function_type()
            }
        })
    }

    /// Types of parameters up to the end of the encoding.
    pub(super) fn bare_function_type(&mut self) -> Option<()> {
        while !matches!(self.peek(), None | Some(b'E' | b'.' | b'@')) {
            self.type_()?;
        }
        Some(())
    }

    pub(super) fn special_name(&mut self) -> Option<()> {
        let code = [self.peek()?, *self.text.get(self.pos + 1)?];
        match &code {
            b"Th" | b"Tv" => {
                self.pos += 1;
                return self.follow(b"OM");
            }
            b"TH" | b"TW" => {
                self.pos += 2;
                self.write(if code[1] == b'H' { "TLS_init" } else { "TLS_wrap" });
                return self.name();
            }
            b"GT" => {
                self.pos += 2;
                if !self.eat(b"t") {
                    self.need(b"n")?;
                }
                return self.encoding();
            }
            _ => {}
        }
        let (_, prefix, rule) = SPECIAL.iter().find(|(known, ..)| **known == code)?;
        self.pos += 2;
        self.out.push_str(prefix);
        self.follow(rule)
    }

    /// Reads what a rule says, a letter for each part: `A` template argument, `D` number or expression, `I` template
    /// arguments if there are some, `M` encoding, `N` name, `O` offset of a call, `Q` sequence id, `S` type whose name is
    /// written, `T` type, `U` unresolved name, `X` expression, `$` name of the source, `#` number, `*` as many of the rest
    /// as come before `E`, `~` perhaps `_`; `E` and `_` stand for themselves.
    pub(super) fn follow(&mut self, rule: &[u8]) -> Option<()> {
        for (at, part) in rule.iter().enumerate() {
            match part {
                b'A' => self.template_arg()?,
                b'D' if !self.peek()?.is_ascii_digit() => self.expression()?,
                b'I' if self.peek() == Some(b'I') => self.template_args()?,
                b'I' => {}
                b'M' => self.encoding()?,
                b'N' => self.name()?,
                b'O' => self.call_offset()?,
                b'Q' => self.seq_id(),
                b'S' => self.shown_type()?,
                b'T' => self.type_()?,
                b'U' => self.unresolved_name()?,
                b'X' => self.expression()?,
                b'$' => self.source_name()?,
                b'D' | b'#' => drop(self.number()?),
                b'*' => {
                    while !self.eat(b"E") {
                        self.follow(&rule[at + 1..])?;
                    }
                    break;
                }
                b'~' => drop(self.eat(b"_")),
                part => self.need(&[*part])?,
            }
        }
        Some(())
    }

    /// A type whose name is written.
    pub(super) fn shown_type(&mut self) -> Option<()> {
        match self.peek()? {
            b'N' | b'Z' | b'S' | b'0'..=b'9' => {
                self.name()?;
                Some(())
            }
            _ => self.type_(),
        }
    }

    pub(super) fn call_offset(&mut self) -> Option<()> {
        if self.eat(b"h") {
            return self.follow(b"#_");
        }
        self.need(b"v")?;
        self.follow(b"#_#_")
    }

    pub(super) fn number(&mut self) -> Option<usize> {
        self.eat(b"n");
        let digits = self.text.get(self.pos..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(self.text.get(self.pos..self.pos + digits)?).ok()?;
        self.pos += digits;
        // Numbers of more digits than any length are values of template arguments.
        (digits > 0).then(|| text.parse().unwrap_or(usize::MAX))
    }

    pub(super) fn seq_id(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
            self.pos += 1;
        }
    }

    pub(super) fn name(&mut self) -> Option<()> {
        self.nested(|parser| {
            match parser.peek()? {
                b'N' => return parser.nested_name(),
                b'Z' => return parser.local_name(),
                b'S' => {
                    let is_std = parser.starts_with(b"St");
                    parser.substitution()?;
                    if is_std {
                        parser.unqualified_name()?;
                    }
                }
                _ => parser.unqualified_name()?,
            }
            parser.follow(b"I")
        })
    }

    pub(super) fn nested_name(&mut self) -> Option<()> {
        self.need(b"N")?;
        // Qualifiers stand first: after them the letters begin operators.
        while matches!(self.peek(), Some(b'r' | b'V' | b'K' | b'R' | b'O' | b'H')) {
            self.pos += 1;
        }
        while !self.eat(b"E") {
            match self.peek()? {
                b'M' => self.pos += 1,
                b'I' => self.template_args()?,
                b'T' => self.template_param()?,
                b'S' => self.substitution()?,
                b'D' if matches!(self.text.get(self.pos + 1), Some(b't' | b'T')) => self.decltype()?,
                _ => self.unqualified_name()?,
            }
        }
        Some(())
    }

    pub(super) fn local_name(&mut self) -> Option<()> {
        self.need(b"Z")?;
        self.encoding()?;
        self.need(b"E")?;
        if self.eat(b"s") {
            self.discriminator();
            return Some(());
        }
        if self.eat(b"d") {
            if self.peek() != Some(b'_') {
                self.number()?;
            }
            self.need(b"_")?;
            return self.name();
        }
        self.name()?;
        self.discriminator();
        Some(())
    }

    pub(super) fn discriminator(&mut self) {
        if self.eat(b"__") {
            self.number();
            self.eat(b"_");
        } else if self.starts_with(b"_") && self.text.get(self.pos + 1).is_some_and(u8::is_ascii_digit) {
            self.pos += 2;
        }
    }

    pub(super) fn unqualified_name(&mut self) -> Option<()> {
        match self.peek()? {
            b'C' | b'D' if self.text.get(self.pos + 1) != Some(&b'C') => self.ctor_dtor_name()?,
            b'D' => {
                // Structured binding.
                self.pos += 2;
                while !self.eat(b"E") {
                    self.source_name()?;
                }
            }
            b'U' if self.starts_with(b"Ut") => {
                self.pos += 2;
                if self.peek() != Some(b'_') {
                    self.number()?;
                }
                self.need(b"_")?;
            }
            b'U' if self.starts_with(b"Ul") => {
                self.pos += 2;
                while !self.eat(b"E") {
                    self.type_()?;
                }
                let number = if self.peek() == Some(b'_') { 0 } else { self.number()?.saturating_add(1) };
                self.need(b"_")?;
                self.write(&format!("$_{number}"));
            }
            b'F' => {
                self.pos += 1;
                return self.unqualified_name();
            }
            b'L' => {
                self.pos += 1;
                self.source_name()?;
            }
            b'0'..=b'9' => self.source_name()?,
            b'a'..=b'z' => self.operator_name()?,
            _ => return None,
        }
        while self.eat(b"B") {
            self.source_name()?;
        }
        Some(())
    }

    pub(super) fn source_name(&mut self) -> Option<()> {
        let len = self.number()?;
        let name = self.text.get(self.pos..self.pos.checked_add(len)?)?;
        self.pos += len;
        let is_rust_hash = len == 17 && name[0] == b'h' && name[1..].iter().all(u8::is_ascii_hexdigit);
        if !is_rust_hash && self.quiet == 0 {
            let name = String::from_utf8_lossy(name);
            let name = if name.contains('$') { rust_name(&name) } else { name.into_owned() };
            self.write(&name);
        }
        Some(())
    }

    /// Repeats the last name that was written.
    pub(super) fn ctor_dtor_name(&mut self) -> Option<()> {
        let is_destructor = self.peek()? == b'D';
        self.pos += 1;
        let is_inheriting = !is_destructor && self.eat(b"I");
        if !self.peek()?.is_ascii_digit() {
            return None;
        }
        self.pos += 1;
        if is_inheriting {
            self.type_()?;
        }
        if self.quiet == 0 {
            let last = self.out.rfind(':').map_or(0, |at| at + 1);
            let class = self.out[last..].to_string();
            self.write(&format!("{}{class}", if is_destructor { "~" } else { "" }));
        }
        Some(())
    }

    pub(super) fn operator_name(&mut self) -> Option<()> {
        let code = [self.peek()?, *self.text.get(self.pos + 1)?];
        let (_, name) = OPERATORS.iter().find(|(known, _)| **known == code)?;
        self.pos += 2;
        self.write(&format!("operator{name}"));
        match &code {
            b"cv" => self.type_(),
            b"li" => self.quietly(Self::source_name),
            _ => Some(()),
        }
    }

    pub(super) fn substitution(&mut self) -> Option<()> {
        self.need(b"S")?;
        let known = match self.peek()? {
            b't' => "std",
            b'a' => "std::allocator",
            b'b' => "std::basic_string",
            b's' => "std::basic_string<>",
            b'i' => "std::basic_istream",
            b'o' => "std::basic_ostream",
            b'd' => "std::basic_iostream",
            _ => {
                self.seq_id();
                return self.need(b"_");
            }
        };
        self.pos += 1;
        self.write(known);
        while self.eat(b"B") {
            self.source_name()?;
        }
        Some(())
    }

    pub(super) fn template_args(&mut self) -> Option<()> {
        self.need(b"I")?;
        self.quietly(|parser| parser.follow(b"*A"))
    }

    pub(super) fn template_arg(&mut self) -> Option<()> {
        self.nested(|parser| match parser.peek()? {
            b'X' => {
                parser.pos += 1;
                parser.follow(b"XE")
            }
            b'L' => parser.expr_primary(),
            // A pack, as old compilers write it.
            b'I' => parser.template_args(),
            b'J' => {
                parser.pos += 1;
                parser.follow(b"*A")
            }
            _ => parser.type_(),
        })
    }

    pub(super) fn template_param(&mut self) -> Option<()> {
        self.need(b"T")?;
        if self.eat(b"L") {
            self.follow(b"#_")?;
        }
        if self.peek()? != b'_' {
            self.number()?;
        }
        self.need(b"_")
    }

    pub(super) fn decltype(&mut self) -> Option<()> {
        self.pos += 2;
        self.quietly(Self::expression)?;
        self.need(b"E")
    }
}
