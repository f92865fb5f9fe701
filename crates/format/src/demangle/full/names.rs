//! Names.

use super::super::operators::OPERATORS;
use super::{Expression, FunctionType, NameNode, NodeId, StandardName, TreeParser};

const STANDARD_NAMES: [StandardName; 6] = [
    StandardName { code: b'a', short: "std::allocator", full: "std::allocator", constructor: "allocator" },
    StandardName { code: b'b', short: "std::basic_string", full: "std::basic_string", constructor: "basic_string" },
    StandardName {
        code: b's',
        short: "std::string",
        full: "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
        constructor: "basic_string",
    },
    StandardName {
        code: b'i',
        short: "std::istream",
        full: "std::basic_istream<char, std::char_traits<char> >",
        constructor: "basic_istream",
    },
    StandardName {
        code: b'o',
        short: "std::ostream",
        full: "std::basic_ostream<char, std::char_traits<char> >",
        constructor: "basic_ostream",
    },
    StandardName {
        code: b'd',
        short: "std::iostream",
        full: "std::basic_iostream<char, std::char_traits<char> >",
        constructor: "basic_iostream",
    },
];

/// The letters after `T` and `G`, and their meanings.
const SPECIAL_TYPES: [(&str, &str); 4] =
    [("TV", "vtable for "), ("TT", "VTT for "), ("TI", "typeinfo for "), ("TS", "typeinfo name for ")];
const SPECIAL_NAMES: [(&str, &str); 4] = [
    ("GV", "guard variable for "),
    ("TH", "TLS init function for "),
    ("TW", "TLS wrapper function for "),
    ("TJ", "java Class for "),
];
const SPECIAL_ENCODINGS: [(&str, &str); 3] =
    [("GA", "hidden alias for "), ("GTn", "non-transaction clone for "), ("GTt", "transaction clone for ")];

impl<'a> TreeParser<'a> {
    /// A function with its parameters, a variable, or what the compiler made.
    pub(super) fn encoding(&mut self, is_whole: bool) -> Option<NodeId> {
        self.nested(|parser| {
            if matches!(parser.peek()?, b'G' | b'T') {
                return parser.special_name();
            }
            let name = parser.name()?;
            if matches!(parser.peek(), None | Some(b'E' | b'.')) {
                return Some(name);
            }
            let returns = if parser.has_return_type(name) { Some(parser.type_()?) } else { None };
            let parameters = parser.parameters()?;
            // The return type of a function inside of another would be taken for that of the outer one.
            let returns = returns.filter(|_| is_whole || !matches!(parser.nodes[name], NameNode::Local(..)));
            let type_ = parser.add(NameNode::FunctionType(FunctionType { returns, parameters, behind: Vec::new() }));
            Some(parser.add(NameNode::Function(name, type_)))
        })
    }

    fn has_return_type(&self, name: NodeId) -> bool {
        match self.nodes[name] {
            NameNode::Local(_, name) | NameNode::ThisQualified(name, _) | NameNode::DefaultArgument(_, name) => {
                self.has_return_type(name)
            }
            NameNode::Template(name, _) => !self.is_structor_or_conversion(name),
            _ => false,
        }
    }

    fn is_structor_or_conversion(&self, name: NodeId) -> bool {
        match self.nodes[name] {
            NameNode::Qualified(_, name) | NameNode::Local(_, name) => self.is_structor_or_conversion(name),
            NameNode::Constructor(_) | NameNode::Destructor(_) | NameNode::Conversion(_) => true,
            _ => false,
        }
    }

    fn special_name(&mut self) -> Option<NodeId> {
        if let Some((code, what)) = SPECIAL_TYPES.iter().find(|(code, _)| self.starts_with(code)) {
            self.pos += code.len();
            let of = self.type_()?;
            return Some(self.add(NameNode::Special(what, of)));
        }
        if let Some((code, what)) = SPECIAL_NAMES.iter().find(|(code, _)| self.starts_with(code)) {
            self.pos += code.len();
            let of = self.name()?;
            return Some(self.add(NameNode::Special(what, of)));
        }
        if let Some((code, what)) = SPECIAL_ENCODINGS.iter().find(|(code, _)| self.starts_with(code)) {
            self.pos += code.len();
            let of = self.encoding(false)?;
            return Some(self.add(NameNode::Special(what, of)));
        }
        if self.eat("GR") {
            let of = self.name()?;
            let number = self.seq_id()?;
            return Some(self.add(NameNode::ReferenceTemporary(of, number)));
        }
        if self.eat("TA") {
            let of = self.template_argument()?;
            return Some(self.add(NameNode::Special("template parameter object for ", of)));
        }
        if self.eat("TC") {
            let derived = self.type_()?;
            self.number()?;
            self.need("_")?;
            let base = self.type_()?;
            return Some(self.add(NameNode::ConstructionVtable(base, derived)));
        }
        let what = match (self.peek()?, self.peek_next()?) {
            (b'T', b'h') => "non-virtual thunk to ",
            (b'T', b'v') => "virtual thunk to ",
            (b'T', b'c') => "covariant return thunk to ",
            _ => return None,
        };
        self.pos += 1;
        if self.eat("c") {
            self.call_offset()?;
        }
        self.call_offset()?;
        let of = self.encoding(false)?;
        Some(self.add(NameNode::Special(what, of)))
    }

    fn call_offset(&mut self) -> Option<()> {
        let numbers = if self.eat("h") { 1 } else { 2 };
        if numbers == 2 {
            self.need("v")?;
        }
        for _ in 0..numbers {
            self.eat("n");
            self.number()?;
            self.need("_")?;
        }
        Some(())
    }

    pub(super) fn name(&mut self) -> Option<NodeId> {
        self.nested(|parser| {
            let (name, is_known) = match parser.peek()? {
                b'N' => return parser.nested_name(),
                b'Z' => return parser.local_name(),
                b'S' if parser.peek_next() != Some(b't') => (parser.substitution(false)?, true),
                _ => (parser.unscoped_name()?, false),
            };
            if parser.peek() != Some(b'I') {
                return Some(name);
            }
            if !is_known {
                parser.add_substitution(name);
            }
            let arguments = parser.template_arguments()?;
            Some(parser.add(NameNode::Template(name, arguments)))
        })
    }

    fn unscoped_name(&mut self) -> Option<NodeId> {
        if !self.eat("St") {
            return self.unqualified_name(None);
        }
        let scope = self.add(NameNode::Name("std"));
        let name = self.unqualified_name(Some(scope))?;
        Some(self.add(NameNode::Qualified(scope, name)))
    }

    fn nested_name(&mut self) -> Option<NodeId> {
        self.need("N")?;
        let mut words = Vec::new();
        while let Some(word) = self.qualifier() {
            if words.contains(&word) {
                return None;
            }
            words.push(word);
        }
        let reference = if self.eat("R") { Some(" &") } else { self.eat("O").then_some(" &&") };
        // An object as an explicit parameter.
        self.eat("H");
        let mut name = self.prefix()?;
        self.need("E")?;
        for word in words.into_iter().rev().chain(reference) {
            name = self.add(NameNode::ThisQualified(name, word));
        }
        Some(name)
    }

    fn prefix(&mut self) -> Option<NodeId> {
        let mut scope = None;
        while self.peek()? != b'E' {
            if self.eat("M") {
                // The initializer of a member, in which a lambda is.
                scope?;
                continue;
            }
            let mut is_new = true;
            let part = match (self.peek()?, self.peek_next()) {
                (b'D', Some(b't' | b'T')) => self.type_()?,
                (b'S', next) => {
                    is_new = false;
                    if next == Some(b't') {
                        self.pos += 2;
                        self.add(NameNode::Name("std"))
                    } else {
                        self.substitution(true)?
                    }
                }
                (b'I', _) => {
                    let arguments = self.template_arguments()?;
                    let template = self.add(NameNode::Template(scope?, arguments));
                    scope = Some(template);
                    if self.peek()? != b'E' {
                        self.add_substitution(template);
                    }
                    continue;
                }
                (b'T', _) => self.template_parameter()?,
                _ => self.unqualified_name(scope)?,
            };
            let whole = match scope {
                Some(scope) => self.add(NameNode::Qualified(scope, part)),
                None => part,
            };
            scope = Some(whole);
            if is_new && self.peek()? != b'E' {
                self.add_substitution(whole);
            }
        }
        scope
    }

    fn local_name(&mut self) -> Option<NodeId> {
        self.need("Z")?;
        let function = self.encoding(false)?;
        self.need("E")?;
        let name = if self.eat("s") {
            self.discriminator()?;
            self.add(NameNode::Name("string literal"))
        } else {
            let argument = if self.eat("d") { Some(self.compact_number()?) } else { None };
            let name = self.name()?;
            if !matches!(self.nodes[name], NameNode::Lambda(..) | NameNode::UnnamedType(_)) {
                self.discriminator()?;
            }
            match argument {
                Some(number) => self.add(NameNode::DefaultArgument(number, name)),
                None => name,
            }
        };
        let type_ = match self.nodes[function] {
            NameNode::Function(_, type_) => Some(type_),
            _ => None,
        };
        if let Some(NameNode::FunctionType(type_)) = type_.map(|type_| &mut self.nodes[type_]) {
            type_.returns = None;
        }
        Some(self.add(NameNode::Local(function, name)))
    }

    fn discriminator(&mut self) -> Option<()> {
        if self.eat("__") {
            self.number()?;
            return self.need("_");
        }
        if self.starts_with("_") && self.peek_next().is_some_and(|byte| byte.is_ascii_digit()) {
            self.pos += 2;
        }
        Some(())
    }

    /// A name without a scope; the scope says what a constructor is called.
    pub(super) fn unqualified_name(&mut self, scope: Option<NodeId>) -> Option<NodeId> {
        self.eat("F");
        let mut name = match (self.peek()?, self.peek_next()?) {
            (b'0'..=b'9', _) => self.source_name()?,
            (b'L', _) => {
                self.pos += 1;
                let name = self.source_name()?;
                self.discriminator()?;
                name
            }
            (b'D', b'C') => {
                self.pos += 2;
                let names = self.until("E", Self::source_name)?;
                self.add(NameNode::StructuredBinding(names))
            }
            (b'C' | b'D', _) => self.structor(scope?)?,
            (b'U', b'l') => {
                self.pos += 2;
                let parameters = self.parameters()?;
                self.need("E")?;
                let number = self.compact_number()?;
                self.add(NameNode::Lambda(parameters, number))
            }
            (b'U', b't') => {
                self.pos += 2;
                let number = self.compact_number()?;
                self.add(NameNode::UnnamedType(number))
            }
            (b'a'..=b'z', _) => self.operator_name()?,
            _ => return None,
        };
        while self.eat("B") {
            let tag = self.identifier()?;
            name = self.add(NameNode::Tagged(name, tag));
        }
        Some(name)
    }

    pub(super) fn identifier(&mut self) -> Option<&'a str> {
        let len = self.number().filter(|len| *len > 0)?;
        let name = self.text.get(self.pos..self.pos.checked_add(len)?)?;
        self.pos += len;
        Some(name)
    }

    pub(super) fn source_name(&mut self) -> Option<NodeId> {
        let name = self.identifier()?;
        let is_anonymous = name
            .strip_prefix("_GLOBAL_")
            .is_some_and(|rest| rest.starts_with(['.', '_', '$']) && rest.as_bytes().get(1) == Some(&b'N'));
        Some(self.add(NameNode::Name(if is_anonymous { "(anonymous namespace)" } else { name })))
    }

    fn structor(&mut self, scope: NodeId) -> Option<NodeId> {
        let class = self.class_of(scope)?;
        let is_destructor = self.peek()? == b'D';
        self.pos += 1;
        let is_inherited = !is_destructor && self.eat("I");
        self.peek().filter(u8::is_ascii_digit)?;
        self.pos += 1;
        // An inherited constructor has the name of the base.
        let class = match is_inherited {
            true => {
                let base = self.type_()?;
                self.class_of(base)?
            }
            false => class,
        };
        Some(self.add(if is_destructor { NameNode::Destructor(class) } else { NameNode::Constructor(class) }))
    }

    /// The name that constructors of a class have: the last one in it.
    fn class_of(&self, mut scope: NodeId) -> Option<NodeId> {
        loop {
            scope = match self.nodes[scope] {
                NameNode::Name(_) | NameNode::Standard(..) => return Some(scope),
                NameNode::Template(name, _) | NameNode::Tagged(name, _) | NameNode::Local(_, name) => name,
                // A lambda and an unnamed type have none.
                NameNode::Qualified(scope, name) => match self.nodes[name] {
                    NameNode::Name(_) | NameNode::Standard(..) | NameNode::Tagged(..) | NameNode::Template(..) => name,
                    _ => scope,
                },
                _ => return None,
            }
        }
    }

    pub(super) fn operator_name(&mut self) -> Option<NodeId> {
        if self.peek()? == b'v' && self.peek_next()?.is_ascii_digit() {
            self.pos += 2;
            let name = self.identifier()?;
            return Some(self.add(NameNode::VendorOperator(name)));
        }
        if self.eat("cv") {
            let was_conversion = std::mem::replace(&mut self.is_conversion, true);
            let of = self.type_();
            self.is_conversion = was_conversion;
            let of = of?;
            return Some(self.add(NameNode::Conversion(of)));
        }
        if self.eat("li") {
            let name = self.identifier()?;
            return Some(self.add(NameNode::LiteralOperator(name)));
        }
        let (code, name) = OPERATORS.iter().find(|(code, _)| self.text.as_bytes()[self.pos..].starts_with(*code))?;
        self.pos += code.len();
        Some(self.add(NameNode::Operator(name)))
    }

    /// A number of base 36, counted from one more.
    fn seq_id(&mut self) -> Option<usize> {
        let mut number = None;
        while !self.eat("_") {
            let digit = match self.peek()? {
                byte @ b'0'..=b'9' => byte - b'0',
                byte @ b'A'..=b'Z' => byte - b'A' + 10,
                _ => return None,
            };
            self.pos += 1;
            number = Some(number.unwrap_or(0_usize).checked_mul(36)?.checked_add(usize::from(digit))?);
        }
        match number {
            Some(number) => number.checked_add(1),
            None => Some(0),
        }
    }

    /// An earlier component; in a scope the standard library's names are in full before a constructor.
    pub(super) fn substitution(&mut self, is_scope: bool) -> Option<NodeId> {
        self.need("S")?;
        let byte = self.peek()?;
        let Some(standard) = STANDARD_NAMES.iter().find(|standard| standard.code == byte) else {
            let number = self.seq_id()?;
            return self.substitutions.get(number).copied();
        };
        self.pos += 1;
        let is_full = is_scope && matches!(self.peek(), Some(b'C' | b'D'));
        let mut name = self.add(NameNode::Standard(standard, is_full));
        while self.eat("B") {
            let tag = self.identifier()?;
            let tagged = self.add(NameNode::Tagged(name, tag));
            name = self.add_substitution(tagged);
        }
        Some(name)
    }

    pub(super) fn template_arguments(&mut self) -> Option<NodeId> {
        if !self.eat("I") {
            self.need("J")?;
        }
        let was_conversion = std::mem::replace(&mut self.is_conversion, false);
        let all = self.nested(|parser| parser.until("E", Self::template_argument));
        self.is_conversion = was_conversion;
        let all = all?;
        Some(self.add(NameNode::Arguments(all)))
    }

    fn template_argument(&mut self) -> Option<NodeId> {
        match self.peek()? {
            b'X' => {
                self.pos += 1;
                let expression = self.expression()?;
                self.need("E")?;
                Some(expression)
            }
            b'L' => self.literal(),
            // A pack; old compilers write it as `I`.
            b'I' | b'J' => self.template_arguments(),
            _ => self.type_(),
        }
    }

    pub(super) fn template_parameter(&mut self) -> Option<NodeId> {
        self.need("T")?;
        let number = self.compact_number()?;
        Some(self.add(NameNode::TemplateParameter(number)))
    }

    pub(super) fn list(&mut self, end: &str) -> Option<Vec<NodeId>> {
        self.until(end, Self::expression)
    }

    pub(super) fn braces(&mut self, of: Option<NodeId>) -> Option<NodeId> {
        let values = self.list("E")?;
        Some(self.expression_node(Expression::Braces(of, values)))
    }
}
