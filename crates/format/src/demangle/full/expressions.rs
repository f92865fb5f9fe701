//! Expressions in template arguments and in `decltype`.

use super::super::operators::{OPERATORS, UNARY};
use super::{Expression, NameNode, NodeId, TreeParser};

/// Operators that only expressions have, and `sizeof` and its like; with those of types as operands in the second list.
const WORDS: [(&str, &str); 5] =
    [("sz", "sizeof "), ("az", "alignof "), ("te", "typeid "), ("nx", "noexcept"), ("tw", "throw ")];
const WORDS_OF_TYPES: [(&str, &str); 3] = [("st", "sizeof "), ("at", "alignof "), ("ti", "typeid ")];
const CASTS: [(&str, &str); 4] =
    [("dc", "dynamic_cast"), ("sc", "static_cast"), ("cc", "const_cast"), ("rc", "reinterpret_cast")];

impl<'a> TreeParser<'a> {
    pub(super) fn literal(&mut self) -> Option<NodeId> {
        self.need("L")?;
        if self.eat("_Z") || self.eat("Z") {
            let name = self.encoding(false)?;
            self.need("E")?;
            return Some(name);
        }
        let of = self.type_()?;
        if self.starts_with("E") && matches!(&self.nodes[of], NameNode::Builtin(builtin) if builtin.code == "Dn") {
            self.pos += 1;
            return Some(of);
        }
        let is_negative = self.eat("n");
        let start = self.pos;
        while self.peek()? != b'E' {
            self.pos += 1;
        }
        let digits = self.text.get(start..self.pos).filter(|digits| !digits.is_empty())?;
        self.need("E")?;
        Some(self.expression_node(Expression::Literal { of, is_negative, digits }))
    }

    pub(super) fn expression(&mut self) -> Option<NodeId> {
        self.nested(Self::expression_inside)
    }

    fn expression_inside(&mut self) -> Option<NodeId> {
        match (self.peek()?, self.peek_next()?) {
            (b'L', _) => return self.literal(),
            (b'T', _) => return self.template_parameter(),
            (b'0'..=b'9', _) => return self.unresolved_name(),
            _ => {}
        }
        if self.starts_with("on") || self.starts_with("dn") || self.starts_with("sr") {
            return self.unresolved_name();
        }
        if let Some((_, word)) = WORDS.iter().find(|(code, _)| self.starts_with(code)) {
            self.pos += 2;
            let operand = self.expression()?;
            return Some(self.expression_node(Expression::Unary(word, operand)));
        }
        if let Some((_, word)) = WORDS_OF_TYPES.iter().find(|(code, _)| self.starts_with(code)) {
            self.pos += 2;
            let operand = self.type_()?;
            return Some(self.expression_node(Expression::Parenthesized(word, operand)));
        }
        if let Some((_, word)) = CASTS.iter().find(|(code, _)| self.starts_with(code)) {
            self.pos += 2;
            let of = self.type_()?;
            let value = self.expression()?;
            return Some(self.expression_node(Expression::NamedCast(word, of, value)));
        }
        self.expression_of_own_form().unwrap_or_else(|| self.operation())
    }

    /// `None` when it is an operator of one or two operands.
    fn expression_of_own_form(&mut self) -> Option<Option<NodeId>> {
        let start = self.pos;
        self.pos += 2;
        Some(match &self.text.as_bytes()[start..self.pos] {
            b"gs" => self.expression().map(|name| self.expression_node(Expression::Global(name))),
            b"cv" => self.cast(),
            b"cl" | b"cp" => self.call(),
            b"il" => self.braces(None),
            b"tl" => self.type_().and_then(|of| self.braces(Some(of))),
            b"sp" => self.expression().map(|pattern| self.add(NameNode::PackExpansion(pattern))),
            b"sZ" => self.expression().map(|pack| self.expression_node(Expression::PackLength(pack))),
            b"sP" => self.arguments_length(),
            b"tr" => Some(self.add(NameNode::Name("throw"))),
            b"qu" => self.conditional(),
            b"nw" => self.new_expression("new "),
            b"na" => self.new_expression("new[] "),
            b"dt" => self.member_access("."),
            b"pt" => self.member_access("->"),
            b"ds" => self.two_operands(".*"),
            b"fp" => self.parameter(0),
            b"fl" => self.fold(true, false),
            b"fr" => self.fold(false, false),
            [b'f', b'L'] if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) => self.fold(true, true),
            b"fL" => self.number().and_then(|level| self.need("p").and_then(|()| self.parameter(level))),
            b"fR" => self.fold(false, true),
            _ => {
                self.pos = start;
                return None;
            }
        })
    }

    fn cast(&mut self) -> Option<NodeId> {
        let was_conversion = std::mem::replace(&mut self.is_conversion, false);
        let of = self.type_();
        self.is_conversion = was_conversion;
        let of = of?;
        let values = if self.eat("_") { self.list("E")? } else { vec![self.expression()?] };
        Some(self.expression_node(Expression::Cast(of, values)))
    }

    fn call(&mut self) -> Option<NodeId> {
        let callee = self.expression()?;
        let arguments = self.list("E")?;
        Some(self.expression_node(Expression::Call(callee, arguments)))
    }

    fn arguments_length(&mut self) -> Option<NodeId> {
        let arguments =
            self.until("E", |parser| if parser.peek()? == b'L' { parser.literal() } else { parser.type_() })?;
        Some(self.expression_node(Expression::ArgumentsLength(arguments)))
    }

    fn conditional(&mut self) -> Option<NodeId> {
        let (condition, yes, no) = (self.expression()?, self.expression()?, self.expression()?);
        Some(self.expression_node(Expression::Conditional(condition, yes, no)))
    }

    fn new_expression(&mut self, word: &'static str) -> Option<NodeId> {
        let place = self.list("_")?;
        let of = self.type_()?;
        let values = match () {
            () if self.eat("E") => None,
            () if self.eat("pi") => Some(self.list("E")?),
            () => Some(vec![self.expression()?]),
        };
        Some(self.expression_node(Expression::New { word, place, of, values }))
    }

    fn member_access(&mut self, operator: &'static str) -> Option<NodeId> {
        let object = self.expression()?;
        let member = self.expression()?;
        Some(self.expression_node(Expression::Binary(operator, object, member)))
    }

    fn two_operands(&mut self, operator: &'static str) -> Option<NodeId> {
        let (left, right) = (self.expression()?, self.expression()?);
        Some(self.expression_node(Expression::Binary(operator, left, right)))
    }

    fn parameter(&mut self, _level: usize) -> Option<NodeId> {
        if self.eat("T") {
            return Some(self.expression_node(Expression::Parameter(0)));
        }
        while self.qualifier().is_some() {}
        let number = self.compact_number()?.checked_add(1)?;
        Some(self.expression_node(Expression::Parameter(number)))
    }

    fn fold(&mut self, is_left: bool, has_start: bool) -> Option<NodeId> {
        let operator = self.operator()?;
        let first = self.expression()?;
        let second = if has_start { Some(self.expression()?) } else { None };
        let (left, right) = match (is_left, second) {
            (_, Some(second)) => (Some(first), Some(second)),
            (true, None) => (None, Some(first)),
            (false, None) => (Some(first), None),
        };
        Some(self.expression_node(Expression::Fold { operator, left, right }))
    }

    fn operator(&mut self) -> Option<&'static str> {
        let (_, name) = OPERATORS.iter().find(|(code, _)| self.text.as_bytes()[self.pos..].starts_with(*code))?;
        self.pos += 2;
        Some(name.trim_start())
    }

    fn operation(&mut self) -> Option<NodeId> {
        let code = [self.peek()?, self.peek_next()?];
        let is_unary = UNARY.contains(&&code);
        let operator = match &code {
            b"dl" => "delete ",
            b"da" => "delete[] ",
            b"aw" => "co_await ",
            _ => "",
        };
        let known = self.operator()?;
        let operator = if operator.is_empty() { known } else { operator };
        if !is_unary {
            return self.two_operands(operator);
        }
        let is_step = matches!(&code, b"pp" | b"mm");
        let is_postfix = is_step && !self.eat("_");
        let operand = self.expression()?;
        Some(self.expression_node(if is_postfix {
            Expression::Postfix(operator, operand)
        } else {
            Expression::Unary(operator, operand)
        }))
    }

    fn unresolved_name(&mut self) -> Option<NodeId> {
        if !self.eat("sr") {
            return self.base_unresolved_name();
        }
        if self.peek()?.is_ascii_digit() {
            // Old compilers write a type here, others names to an `E`.
            let start = (self.pos, self.nodes.len(), self.substitutions.len());
            if let Some(name) = self.levels(None) {
                return Some(name);
            }
            self.pos = start.0;
            self.nodes.truncate(start.1);
            self.substitutions.truncate(start.2);
        }
        let has_levels = self.eat("N");
        let scope = self.type_()?;
        if has_levels {
            return self.levels(Some(scope));
        }
        let name = self.base_unresolved_name()?;
        Some(self.add(NameNode::Qualified(scope, name)))
    }

    /// Names to an `E`, each the scope of the next, and the one after it.
    fn levels(&mut self, mut scope: Option<NodeId>) -> Option<NodeId> {
        while !self.eat("E") {
            let level = self.simple_name()?;
            scope = Some(match scope {
                Some(scope) => self.add(NameNode::Qualified(scope, level)),
                None => level,
            });
        }
        let name = self.base_unresolved_name()?;
        // The arguments are those of the whole name.
        if let NameNode::Template(name, arguments) = self.nodes[name] {
            let whole = self.add(NameNode::Qualified(scope?, name));
            return Some(self.add(NameNode::Template(whole, arguments)));
        }
        Some(self.add(NameNode::Qualified(scope?, name)))
    }

    fn base_unresolved_name(&mut self) -> Option<NodeId> {
        self.eat("on");
        if self.eat("dn") {
            let class = if self.peek()?.is_ascii_digit() { self.simple_name()? } else { self.type_()? };
            return Some(self.add(NameNode::Destructor(class)));
        }
        self.simple_name()
    }

    /// A name with its template arguments.
    fn simple_name(&mut self) -> Option<NodeId> {
        let name = self.unqualified_name(None)?;
        if self.peek() != Some(b'I') {
            return Some(name);
        }
        let arguments = self.template_arguments()?;
        Some(self.add(NameNode::Template(name, arguments)))
    }
}
