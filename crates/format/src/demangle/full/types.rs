//! Types.

use super::{Behind, Builtin, FunctionType, LiteralForm, NameNode, NodeId, TreeParser};

const fn builtin(code: &'static str, name: &'static str, literal: LiteralForm) -> Builtin {
    Builtin { code, name, literal }
}

const BUILTINS: &[Builtin] = &[
    builtin("v", "void", LiteralForm::Cast),
    builtin("w", "wchar_t", LiteralForm::Cast),
    builtin("b", "bool", LiteralForm::Bool),
    builtin("c", "char", LiteralForm::Cast),
    builtin("a", "signed char", LiteralForm::Cast),
    builtin("h", "unsigned char", LiteralForm::Cast),
    builtin("s", "short", LiteralForm::Cast),
    builtin("t", "unsigned short", LiteralForm::Cast),
    builtin("i", "int", LiteralForm::Suffix("")),
    builtin("j", "unsigned int", LiteralForm::Suffix("u")),
    builtin("l", "long", LiteralForm::Suffix("l")),
    builtin("m", "unsigned long", LiteralForm::Suffix("ul")),
    builtin("x", "long long", LiteralForm::Suffix("ll")),
    builtin("y", "unsigned long long", LiteralForm::Suffix("ull")),
    builtin("n", "__int128", LiteralForm::Cast),
    builtin("o", "unsigned __int128", LiteralForm::Cast),
    builtin("f", "float", LiteralForm::Float),
    builtin("d", "double", LiteralForm::Float),
    builtin("e", "long double", LiteralForm::Float),
    builtin("g", "__float128", LiteralForm::Float),
    builtin("z", "...", LiteralForm::Cast),
    builtin("Da", "auto", LiteralForm::Cast),
    builtin("Dc", "decltype(auto)", LiteralForm::Cast),
    builtin("Dd", "decimal64", LiteralForm::Cast),
    builtin("De", "decimal128", LiteralForm::Cast),
    builtin("Df", "decimal32", LiteralForm::Cast),
    builtin("Dh", "half", LiteralForm::Float),
    builtin("Ds", "char16_t", LiteralForm::Cast),
    builtin("Di", "char32_t", LiteralForm::Cast),
    builtin("Du", "char8_t", LiteralForm::Cast),
    builtin("Dn", "decltype(nullptr)", LiteralForm::Cast),
];

impl<'a> TreeParser<'a> {
    pub(super) fn type_(&mut self) -> Option<NodeId> {
        self.nested(|parser| {
            if let Some(builtin) = BUILTINS.iter().find(|builtin| parser.starts_with(builtin.code)) {
                parser.pos += builtin.code.len();
                return Some(parser.add(NameNode::Builtin(builtin)));
            }
            let (id, is_new) = parser.compound_type()?;
            if is_new {
                parser.add_substitution(id);
            }
            Some(id)
        })
    }

    /// A type that later parts may refer to, unless it is such a reference itself.
    fn compound_type(&mut self) -> Option<(NodeId, bool)> {
        let next = self.peek_next();
        let node = match self.peek()? {
            b'r' | b'V' | b'K' => return Some((self.qualified_type()?, true)),
            b'P' => NameNode::Pointer(self.type_after(1)?),
            b'R' => NameNode::Reference(self.type_after(1)?),
            b'O' => NameNode::RvalueReference(self.type_after(1)?),
            b'C' => NameNode::Word(self.type_after(1)?, "_Complex", None),
            b'G' => NameNode::Word(self.type_after(1)?, "_Imaginary", None),
            b'U' if !matches!(next, Some(b'l' | b't')) => {
                self.pos += 1;
                let word = self.identifier()?;
                let arguments = if self.peek() == Some(b'I') { Some(self.template_arguments()?) } else { None };
                NameNode::Word(self.type_()?, word, arguments)
            }
            b'F' => NameNode::FunctionType(self.function_type(Vec::new())?),
            b'A' => self.array_type()?,
            b'M' => {
                let class = self.type_after(1)?;
                NameNode::MemberPointer(class, self.type_()?)
            }
            b'T' => match next? {
                b's' => NameNode::Elaborated("struct ", self.name_after(2)?),
                b'u' => NameNode::Elaborated("union ", self.name_after(2)?),
                b'e' => NameNode::Elaborated("enum ", self.name_after(2)?),
                _ => return Some((self.template_parameter_type()?, true)),
            },
            b'D' => return self.type_of_two_letters(next?),
            b'S' => return self.substituted_type(),
            b'u' => {
                self.pos += 1;
                let name = self.source_name()?;
                if self.peek() != Some(b'I') {
                    return Some((name, true));
                }
                NameNode::Template(name, self.template_arguments()?)
            }
            b'N' | b'Z' | b'0'..=b'9' | b'U' | b'L' => return Some((self.name()?, true)),
            _ => return None,
        };
        Some((self.add(node), true))
    }

    fn type_after(&mut self, len: usize) -> Option<NodeId> {
        self.pos += len;
        self.type_()
    }

    fn name_after(&mut self, len: usize) -> Option<NodeId> {
        self.pos += len;
        self.name()
    }

    fn type_of_two_letters(&mut self, code: u8) -> Option<(NodeId, bool)> {
        let node = match code {
            b't' | b'T' => {
                self.pos += 2;
                let expression = self.expression()?;
                self.need("E")?;
                NameNode::Decltype(expression)
            }
            b'p' => NameNode::PackExpansion(self.type_after(2)?),
            b'o' | b'O' | b'w' | b'x' => return Some((self.qualified_type()?, true)),
            b'v' => {
                self.pos += 2;
                let len = if self.eat("_") { self.expression()? } else { self.digits()? };
                self.need("_")?;
                NameNode::Vector(len, self.type_()?)
            }
            b'F' => {
                self.pos += 2;
                let name = match (self.number()?, self.peek()?) {
                    (16, b'_') => "_Float16",
                    (32, b'_') => "_Float32",
                    (64, b'_') => "_Float64",
                    (128, b'_') => "_Float128",
                    (32, b'x') => "_Float32x",
                    (64, b'x') => "_Float64x",
                    (128, b'x') => "_Float128x",
                    (16, b'b') => "std::bfloat16_t",
                    _ => return None,
                };
                self.pos += 1;
                return Some((self.add(NameNode::Name(name)), false));
            }
            _ => return None,
        };
        Some((self.add(node), true))
    }

    /// Decimal digits, as they are.
    fn digits(&mut self) -> Option<NodeId> {
        let start = self.pos;
        self.number()?;
        Some(self.add(NameNode::Name(&self.text[start..self.pos])))
    }

    fn substituted_type(&mut self) -> Option<(NodeId, bool)> {
        if !matches!(self.peek_next()?, b'0'..=b'9' | b'A'..=b'Z' | b'_') {
            let name = self.name()?;
            let is_new = !matches!(self.nodes[name], NameNode::Standard(..));
            return Some((name, is_new));
        }
        let known = self.substitution(false)?;
        if self.peek() != Some(b'I') {
            return Some((known, false));
        }
        let arguments = self.template_arguments()?;
        Some((self.add(NameNode::Template(known, arguments)), true))
    }

    fn template_parameter_type(&mut self) -> Option<NodeId> {
        let parameter = self.template_parameter()?;
        if self.peek() != Some(b'I') {
            return Some(parameter);
        }
        let (pos, nodes, substitutions) = (self.pos, self.nodes.len(), self.substitutions.len());
        self.add_substitution(parameter);
        let arguments = self.template_arguments()?;
        if self.is_conversion && self.peek() != Some(b'I') {
            // They are those of the operator.
            self.pos = pos;
            self.nodes.truncate(nodes);
            self.substitutions.truncate(substitutions);
            return Some(parameter);
        }
        Some(self.add(NameNode::Template(parameter, arguments)))
    }

    pub(super) fn qualifier(&mut self) -> Option<&'static str> {
        let word = match self.peek()? {
            b'r' => " __restrict",
            b'V' => " volatile",
            b'K' => " const",
            _ => return None,
        };
        self.pos += 1;
        Some(word)
    }

    fn qualified_type(&mut self) -> Option<NodeId> {
        let (mut words, mut behind) = (Vec::new(), Vec::new());
        loop {
            if let Some(word) = self.qualifier() {
                words.push(word);
            } else if self.eat("Dx") {
                behind.push(Behind::Word(" transaction_safe"));
            } else if self.eat("Do") {
                behind.push(Behind::Word(" noexcept"));
            } else if self.eat("DO") {
                let expression = self.expression()?;
                self.need("E")?;
                behind.push(Behind::Noexcept(expression));
            } else if self.eat("Dw") {
                let types = self.until("E", Self::type_)?;
                behind.push(Behind::Throw(types));
            } else {
                break;
            }
        }
        if self.peek()? == b'F' {
            behind.extend(words.into_iter().map(Behind::Word));
            behind.reverse();
            let type_ = self.function_type(behind)?;
            return Some(self.add(NameNode::FunctionType(type_)));
        }
        if !behind.is_empty() {
            return None;
        }
        let mut of = self.type_()?;
        for word in words.into_iter().rev() {
            of = self.add(NameNode::Qualifier(of, word));
        }
        Some(of)
    }

    fn function_type(&mut self, mut behind: Vec<Behind>) -> Option<FunctionType> {
        self.need("F")?;
        // A function of C.
        self.eat("Y");
        let returns = Some(self.type_()?);
        let parameters = self.parameters()?;
        if self.eat("R") {
            behind.push(Behind::Word(" &"));
        } else if self.eat("O") {
            behind.push(Behind::Word(" &&"));
        }
        self.need("E")?;
        Some(FunctionType { returns, parameters, behind })
    }

    /// Types up to an end, which stays; `void` alone is none.
    pub(super) fn parameters(&mut self) -> Option<Vec<NodeId>> {
        let mut parameters = Vec::new();
        while !(matches!(self.peek(), None | Some(b'E' | b'.')) || self.starts_with("RE") || self.starts_with("OE")) {
            parameters.push(self.type_()?);
        }
        match parameters[..] {
            [] => None,
            [only] if matches!(&self.nodes[only], NameNode::Builtin(builtin) if builtin.code == "v") => {
                Some(Vec::new())
            }
            _ => Some(parameters),
        }
    }

    fn array_type(&mut self) -> Option<NameNode<'a>> {
        self.need("A")?;
        let len = match self.peek()? {
            b'_' => None,
            b'0'..=b'9' => Some(self.digits()?),
            _ => Some(self.expression()?),
        };
        self.need("_")?;
        Some(NameNode::Array(len, self.type_()?))
    }
}
