//! Mangled names as people read them: C++ (Itanium), Rust (legacy and v0).
//!
//! The form is the *simple* one: the qualified name alone, without parameters, template arguments and qualifiers
//! (`std::vector::push_back`). Patterns of argument specifications are matched against it, so it decides how payloads are
//! read and not only how names look; an ABI tag is one more part of the name (`make::cxx11`).

/// The simple name of a symbol; a name that is not mangled, or not understood, as it is.
pub fn simple_name(symbol: &str) -> String {
    if symbol.starts_with("_R") {
        if let Ok(name) = rustc_demangle::try_demangle(symbol) {
            return format!("{name:#}");
        }
        return symbol.to_string();
    }
    let (prefix, mangled) = match symbol.strip_prefix(GLOBAL_CONSTRUCTOR) {
        Some(rest) => (GLOBAL_CONSTRUCTOR, rest),
        None => ("", symbol),
    };
    let Some(body) = mangled.strip_prefix("_Z") else { return symbol.to_string() };
    match Parser::new(body).whole() {
        Some(name) => format!("{prefix}{name}"),
        None => symbol.to_string(),
    }
}

/// Where the name of a templated constructor ends in a symbol whose other parts follow: a function of a template says what
/// it returns there, and a constructor does not.
pub(super) fn end_of_templated_constructor(symbol: &str) -> Option<usize> {
    let mut parser = Parser::new(symbol.strip_prefix("_Z")?);
    parser.need(b"N")?;
    let mut end = None;
    while !parser.eat(b"E") {
        let before = parser.pos;
        match parser.peek()? {
            b'r' | b'V' | b'K' => parser.pos += 1,
            b'I' => {
                parser.template_args()?;
                end = (before == parser.structor_end && before > 0).then_some(parser.pos);
            }
            b'S' => parser.substitution()?,
            _ => parser.unqualified_name()?,
        }
    }
    (end == Some(parser.pos - 1)).then_some(parser.pos + 2)
}

/// What compilers put before the name of a file's static constructors.
const GLOBAL_CONSTRUCTOR: &str = "_GLOBAL__sub_I_";
/// Nesting that no compiler writes.
const MAX_DEPTH: u32 = 256;

/// Codes of operators and their names.
const OPERATORS: &[(&[u8; 2], &str)] = &[
    (b"nw", " new"),
    (b"na", " new[]"),
    (b"dl", " delete"),
    (b"da", " delete[]"),
    (b"ps", "+"),
    (b"ng", "-"),
    (b"ad", "&"),
    (b"de", "*"),
    (b"co", "~"),
    (b"pl", "+"),
    (b"mi", "-"),
    (b"ml", "*"),
    (b"dv", "/"),
    (b"rm", "%"),
    (b"an", "&"),
    (b"or", "|"),
    (b"eo", "^"),
    (b"aS", "="),
    (b"pL", "+="),
    (b"mI", "-="),
    (b"mL", "*="),
    (b"dV", "/="),
    (b"rM", "%="),
    (b"aN", "&="),
    (b"oR", "|="),
    (b"eO", "^="),
    (b"ls", "<<"),
    (b"rs", ">>"),
    (b"lS", "<<="),
    (b"rS", ">>="),
    (b"eq", "=="),
    (b"ne", "!="),
    (b"ss", "<=>"),
    (b"lt", "<"),
    (b"gt", ">"),
    (b"le", "<="),
    (b"ge", ">="),
    (b"nt", "!"),
    (b"aa", "&&"),
    (b"oo", "||"),
    (b"pp", "++"),
    (b"mm", "--"),
    (b"cm", ","),
    (b"pm", "->*"),
    (b"pt", "->"),
    (b"cl", "()"),
    (b"ix", "[]"),
    (b"qu", "?"),
    (b"cv", "(cast)"),
    (b"li", "\"\""),
    (b"aw", " co_await"),
];

/// Operators of one operand, in expressions.
const UNARY: &[&[u8; 2]] = &[
    b"ps", b"ng", b"ad", b"de", b"co", b"pp", b"mm", b"dl", b"da", b"te", b"sz", b"az", b"nx", b"sp", b"tw", b"nt",
    b"aw",
];

/// Escapes in names that legacy Rust makes of punctuation.
const RUST_ESCAPES: &[(&str, char)] =
    &[("SP", '@'), ("BP", '*'), ("RF", '&'), ("LT", '<'), ("GT", '>'), ("LP", '('), ("RP", ')'), ("C", ',')];

/// Reads a mangled name and writes the names in it that are not inside of types.
struct Parser<'a> {
    text: &'a [u8],
    pos: usize,
    out: String,
    /// Names are written only at 0: types, template arguments and expressions are passed over.
    quiet: u32,
    /// Has a name been written, so that the next one needs `::` before it?
    has_name: bool,
    depth: u32,
    /// Where the last name of a constructor or destructor ends.
    structor_end: usize,
}

impl<'a> Parser<'a> {
    fn new(body: &'a str) -> Self {
        Parser {
            text: body.as_bytes(),
            pos: 0,
            out: String::new(),
            quiet: 0,
            has_name: false,
            depth: 0,
            structor_end: 0,
        }
    }

    /// `<encoding>` with what compilers and linkers put behind it.
    fn whole(mut self) -> Option<String> {
        self.encoding()?;
        let is_end = matches!(self.peek(), None | Some(b'.' | b'@'));
        (is_end && !self.out.is_empty()).then_some(self.out)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    fn at(&self, code: &[u8]) -> bool {
        self.text.get(self.pos..).is_some_and(|rest| rest.starts_with(code))
    }

    fn eat(&mut self, code: &[u8]) -> bool {
        let is_there = self.at(code);
        if is_there {
            self.pos += code.len();
        }
        is_there
    }

    fn need(&mut self, code: &[u8]) -> Option<()> {
        self.eat(code).then_some(())
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn quietly<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.quiet += 1;
        let value = self.nested(read);
        self.quiet -= 1;
        value
    }

    fn write(&mut self, name: &str) {
        if self.quiet == 0 {
            if self.has_name {
                self.out.push_str("::");
            }
            self.out.push_str(name);
            self.has_name = true;
        }
    }

    fn encoding(&mut self) -> Option<()> {
        self.nested(|parser| match parser.peek()? {
            b'T' | b'G' => parser.special_name(),
            _ => {
                parser.name()?;
                parser.bare_function_type()
            }
        })
    }

    /// Types of parameters up to the end of the encoding.
    fn bare_function_type(&mut self) -> Option<()> {
        while !matches!(self.peek(), None | Some(b'E' | b'.' | b'@')) {
            self.type_()?;
        }
        Some(())
    }

    fn special_name(&mut self) -> Option<()> {
        let code = [self.peek()?, *self.text.get(self.pos + 1)?];
        let prefix = match &code {
            b"TV" => "__vtable__",
            b"TT" => "__VTT__",
            b"TI" => "__typeinfo_name__",
            b"TS" => "__typeinfo__",
            b"TF" => "__typeinfo_fn__",
            b"TJ" => "__java_class__",
            b"Th" | b"Tv" => {
                self.pos += 1;
                self.call_offset()?;
                return self.encoding();
            }
            b"Tc" => {
                self.pos += 2;
                self.call_offset()?;
                self.call_offset()?;
                return self.encoding();
            }
            b"TC" => {
                self.pos += 2;
                self.out.push_str("__construction_vtable__");
                self.shown_type()?;
                self.number()?;
                self.need(b"_")?;
                return self.type_();
            }
            b"TH" | b"TW" => {
                self.pos += 2;
                self.write(if code[1] == b'H' { "TLS_init" } else { "TLS_wrap" });
                return self.name();
            }
            b"GV" => {
                self.pos += 2;
                self.out.push_str("__guard_variable__");
                return self.name();
            }
            b"GR" => {
                self.pos += 2;
                self.out.push_str("__ref_temp__");
                self.name()?;
                self.seq_id();
                return self.need(b"_");
            }
            b"GA" => {
                self.pos += 2;
                return self.encoding();
            }
            b"GT" => {
                self.pos += 2;
                if !self.eat(b"t") {
                    self.need(b"n")?;
                }
                return self.encoding();
            }
            _ => return None,
        };
        self.pos += 2;
        self.out.push_str(prefix);
        self.shown_type()
    }

    /// A type whose name is written.
    fn shown_type(&mut self) -> Option<()> {
        match self.peek()? {
            b'N' | b'Z' | b'S' | b'0'..=b'9' => {
                self.name()?;
                Some(())
            }
            _ => self.type_(),
        }
    }

    fn call_offset(&mut self) -> Option<()> {
        if self.eat(b"h") {
            self.number()?;
            return self.need(b"_");
        }
        self.need(b"v")?;
        self.number()?;
        self.need(b"_")?;
        self.number()?;
        self.need(b"_")
    }

    fn number(&mut self) -> Option<usize> {
        self.eat(b"n");
        let digits = self.text.get(self.pos..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(self.text.get(self.pos..self.pos + digits)?).ok()?;
        self.pos += digits;
        // Numbers of more digits than any length are values of template arguments.
        (digits > 0).then(|| text.parse().unwrap_or(usize::MAX))
    }

    fn seq_id(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
            self.pos += 1;
        }
    }

    fn name(&mut self) -> Option<()> {
        self.nested(|parser| {
            match parser.peek()? {
                b'N' => return parser.nested_name(),
                b'Z' => return parser.local_name(),
                b'S' => {
                    let is_std = parser.at(b"St");
                    parser.substitution()?;
                    if is_std {
                        parser.unqualified_name()?;
                    }
                }
                _ => parser.unqualified_name()?,
            }
            if parser.peek() == Some(b'I') { parser.template_args() } else { Some(()) }
        })
    }

    fn nested_name(&mut self) -> Option<()> {
        self.need(b"N")?;
        // Qualifiers stand first: behind them the letters begin operators.
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

    fn local_name(&mut self) -> Option<()> {
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

    fn discriminator(&mut self) {
        if self.eat(b"__") {
            self.number();
            self.eat(b"_");
        } else if self.at(b"_") && self.text.get(self.pos + 1).is_some_and(u8::is_ascii_digit) {
            self.pos += 2;
        }
    }

    fn unqualified_name(&mut self) -> Option<()> {
        match self.peek()? {
            b'C' | b'D' if self.text.get(self.pos + 1) != Some(&b'C') => self.ctor_dtor_name()?,
            b'D' => {
                // Structured binding.
                self.pos += 2;
                while !self.eat(b"E") {
                    self.source_name()?;
                }
            }
            b'U' if self.at(b"Ut") => {
                self.pos += 2;
                if self.peek() != Some(b'_') {
                    self.number()?;
                }
                self.need(b"_")?;
            }
            b'U' if self.at(b"Ul") => {
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

    fn source_name(&mut self) -> Option<()> {
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
    fn ctor_dtor_name(&mut self) -> Option<()> {
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
        self.structor_end = self.pos;
        if self.quiet == 0 {
            let last = self.out.rfind(':').map_or(0, |at| at + 1);
            let class = self.out[last..].to_string();
            self.write(&format!("{}{class}", if is_destructor { "~" } else { "" }));
        }
        Some(())
    }

    fn operator_name(&mut self) -> Option<()> {
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

    fn substitution(&mut self) -> Option<()> {
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

    fn template_args(&mut self) -> Option<()> {
        self.need(b"I")?;
        self.quietly(|parser| {
            while !parser.eat(b"E") {
                parser.template_arg()?;
            }
            Some(())
        })
    }

    fn template_arg(&mut self) -> Option<()> {
        self.nested(|parser| match parser.peek()? {
            b'X' => {
                parser.pos += 1;
                parser.expression()?;
                parser.need(b"E")
            }
            b'L' => parser.expr_primary(),
            // A pack, as old compilers write it.
            b'I' => parser.template_args(),
            b'J' => {
                parser.pos += 1;
                while !parser.eat(b"E") {
                    parser.template_arg()?;
                }
                Some(())
            }
            _ => parser.type_(),
        })
    }

    fn template_param(&mut self) -> Option<()> {
        self.need(b"T")?;
        if self.eat(b"L") {
            self.number()?;
            self.need(b"_")?;
        }
        if self.peek()? != b'_' {
            self.number()?;
        }
        self.need(b"_")
    }

    fn decltype(&mut self) -> Option<()> {
        self.pos += 2;
        self.quietly(Self::expression)?;
        self.need(b"E")
    }

    fn type_(&mut self) -> Option<()> {
        self.quietly(Self::type_inside)
    }

    fn type_inside(&mut self) -> Option<()> {
        loop {
            match self.peek()? {
                b'r' | b'V' | b'K' | b'P' | b'R' | b'O' | b'C' | b'G' => self.pos += 1,
                b'U' if !self.at(b"Ut") && !self.at(b"Ul") => {
                    self.pos += 1;
                    self.source_name()?;
                    if self.peek() == Some(b'I') {
                        self.template_args()?;
                    }
                }
                b'D' if self.at(b"Dp") => self.pos += 2,
                b'D' if self.at(b"Do") => self.pos += 2,
                b'D' if self.at(b"DO") => {
                    self.pos += 2;
                    self.expression()?;
                    self.need(b"E")?;
                }
                b'D' if self.at(b"Dv") => {
                    self.pos += 2;
                    if self.eat(b"_") {
                        self.expression()?;
                    } else {
                        self.number()?;
                    }
                    self.need(b"_")?;
                }
                _ => break,
            }
        }
        match self.peek()? {
            b'F' => {
                self.pos += 1;
                self.eat(b"Y");
                while !self.eat(b"E") {
                    if self.at(b"RE") || self.at(b"OE") {
                        self.pos += 1;
                        continue;
                    }
                    self.type_()?;
                }
                Some(())
            }
            b'A' => {
                self.pos += 1;
                match self.peek()? {
                    b'_' => {}
                    b'0'..=b'9' => {
                        self.number()?;
                    }
                    _ => self.expression()?,
                }
                self.need(b"_")?;
                self.type_()
            }
            b'M' => {
                self.pos += 1;
                self.type_()?;
                self.type_()
            }
            b'T' if self.text.get(self.pos + 1).is_some_and(|byte| b"sue".contains(byte)) => {
                self.pos += 2;
                self.name()
            }
            b'T' => {
                self.template_param()?;
                if self.peek() == Some(b'I') { self.template_args() } else { Some(()) }
            }
            b'D' if matches!(self.text.get(self.pos + 1), Some(b't' | b'T')) => self.decltype(),
            b'D' if self.at(b"DF") => {
                self.pos += 2;
                self.number()?;
                if !self.eat(b"_") {
                    self.eat(b"x");
                    self.eat(b"b");
                }
                Some(())
            }
            b'D' if self.at(b"DB") || self.at(b"DU") => {
                self.pos += 2;
                match self.peek()? {
                    b'0'..=b'9' => {
                        self.number()?;
                    }
                    _ => self.expression()?,
                }
                self.need(b"_")
            }
            b'D' => {
                self.pos += 2;
                self.text.get(self.pos - 1).filter(|code| b"defhisuacn".contains(code)).map(|_| ())
            }
            b'S' => {
                let is_std = self.at(b"St");
                self.substitution()?;
                if is_std {
                    self.unqualified_name()?;
                }
                if self.peek() == Some(b'I') { self.template_args() } else { Some(()) }
            }
            b'u' => {
                self.pos += 1;
                self.source_name()?;
                if self.peek() == Some(b'I') { self.template_args() } else { Some(()) }
            }
            b'N' | b'Z' | b'0'..=b'9' | b'U' | b'L' => self.name(),
            byte if b"vwbcahstijlmxynofdegz".contains(&byte) => {
                self.pos += 1;
                Some(())
            }
            _ => None,
        }
    }

    fn expr_primary(&mut self) -> Option<()> {
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

    fn expressions(&mut self) -> Option<()> {
        while !self.eat(b"E") {
            self.expression()?;
        }
        Some(())
    }

    fn expression(&mut self) -> Option<()> {
        self.quietly(Self::expression_inside)
    }

    fn expression_inside(&mut self) -> Option<()> {
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

    fn unresolved_name(&mut self) -> Option<()> {
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

    fn base_unresolved_name(&mut self) -> Option<()> {
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

    fn simple_id(&mut self) -> Option<()> {
        self.source_name()?;
        if self.peek() == Some(b'I') { self.template_args() } else { Some(()) }
    }
}

/// A name of legacy Rust with its escapes undone: `$LT$`, `$u20$`. What is no escape stays.
fn rust_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let escape = rest[1..].find('$').and_then(|end| Some((end, unescape(&rest[1..1 + end])?)));
        let Some((end, letter)) = escape else { break };
        out.push(letter);
        rest = &rest[end + 2..];
    }
    out + rest
}

fn unescape(code: &str) -> Option<char> {
    if let Some((_, letter)) = RUST_ESCAPES.iter().find(|(known, _)| *known == code) {
        return Some(*letter);
    }
    let hex = code.strip_prefix('u')?;
    char::from_u32(u32::from_str_radix(hex, 16).ok()?).filter(|letter| !letter.is_control())
}

#[cfg(test)]
mod tests {
    use super::simple_name;

    #[test]
    fn names_have_no_types() {
        let cases = [
            ("main", "main"),
            ("_Z5color5Color", "color"),
            ("_ZN3Obj3getEi", "Obj::get"),
            ("_ZN3ObjC1Ei", "Obj::Obj"),
            ("_ZN1A1BD0Ev", "A::B::~B"),
            ("_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector::size"),
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1IS3_EEPKcRKS3_",
                "std::__cxx11::basic_string::basic_string",
            ),
            ("_ZNSaIcEC1Ev", "std::allocator::allocator"),
            ("_ZNSsC1Ev", "std::basic_string<>::basic_string<>"),
            ("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", "std::operator<<"),
            ("_Znwm", "operator new"),
            ("_ZdlPvm", "operator delete"),
            ("_Z4rstrB5cxx11i", "rstr::cxx11"),
            ("_ZZ4mainENKUlvE_clEv", "main::$_0::operator()"),
            ("_ZZ4mainENKUlvE0_clEv", "main::$_1::operator()"),
            ("_ZN1TcvbEv", "T::operator(cast)"),
            ("_Z1fIIRmS7_EEvv", "f"),
            ("_ZNSirsERPv", "std::basic_istream::operator>>"),
            ("_ZTV3Foo", "__vtable__Foo"),
            ("_ZGVZ4mainE1x", "__guard_variable__main::x"),
            ("_ZThn16_N1D1fEv", "D::f"),
            ("_Z3addIiET_S0_S0_.isra.0", "add"),
            ("_GLOBAL__sub_I__Z3foov", "_GLOBAL__sub_I_foo"),
            ("_ZN12_GLOBAL__N_13barEv", "_GLOBAL__N_1::bar"),
            ("_Z1fILi3EEvv", "f"),
            ("_Z1fIXadL_Z1gvEEEvv", "f"),
        ];
        for (mangled, simple) in cases {
            assert_eq!(simple_name(mangled), simple, "{mangled}");
        }
    }

    #[test]
    fn rust_names_lose_their_hash() {
        assert_eq!(simple_name("_ZN3std2io5stdio6_print17h0123456789abcdefE"), "std::io::stdio::_print");
        let escaped = "_ZN71_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..clone..Clone$GT$5clone17h0123456789abcdefE";
        assert_eq!(simple_name(escaped), escaped, "a length that lies is not believed");
        assert_eq!(simple_name("_ZN9$LT$T$GT$5clone17h0123456789abcdefE"), "<T>::clone");
        assert_eq!(simple_name("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
    }

    #[test]
    fn what_is_not_understood_stays() {
        for name in ["_Z", "_ZN", "_Z99x", "_ZNSt", "_ZTX", "_R", "_RX", "_ZN1AIEE\u{e9}"] {
            assert_eq!(simple_name(name), name);
        }
        let deep = format!("_Z1f{}", "P".repeat(10) + &"N1AI".repeat(4000));
        assert_eq!(simple_name(&deep), deep);
    }
}
