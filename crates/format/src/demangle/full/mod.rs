//! Names of C++ with template arguments, parameters and return types, as the runtime library of GCC writes them.
//!
//! A symbol becomes a tree first ([`NameNode`]): its parts refer to parts that stand before them (`S_`) and to template
//! arguments (`T_`), which may be after them, and what stands left and right of a name depends on the whole type.

mod expressions;
mod names;
mod print;
mod print_expressions;
mod scope;
mod types;

use super::MAX_DEPTH;
use print::NamePrinter;

/// Bytes of a name that is shown: substitutions could make a short symbol as long as anything.
const MAX_NAME: usize = 64 << 10;

/// The full name of a mangled symbol (`_Z...`), `None` when it is not understood. A version (`@GLIBCXX_3.4`) stays after it.
pub(in super::super) fn full_cpp_name(symbol: &str) -> Option<String> {
    let (mangled, version) = symbol.split_at(symbol.find('@').unwrap_or(symbol.len()));
    let mut parser = TreeParser { text: mangled.strip_prefix("_Z")?, ..TreeParser::default() };
    let root = parser.encoding(true)?;
    let clones = parser.clone_suffixes()?;
    let name = NamePrinter::new(&parser.nodes).whole(root)?;
    let whole = name + &clones + version;
    (whole.len() <= MAX_NAME).then_some(whole)
}

/// The place of a node in the list of nodes.
type NodeId = usize;

/// A part of a mangled name.
#[derive(Debug)]
enum NameNode<'a> {
    /// An identifier, or text that is written as it is.
    Name(&'a str),
    Builtin(&'static Builtin),
    /// `std::string` and its like; in full where a constructor or destructor follows.
    Standard(&'static StandardName, bool),
    /// `scope::name`.
    Qualified(NodeId, NodeId),
    /// An entity inside of a function: the function and the name.
    Local(NodeId, NodeId),
    /// An entity inside of a default argument, which is counted from the last.
    DefaultArgument(usize, NodeId),
    Template(NodeId, NodeId),
    /// Template arguments, or a pack of them among others.
    Arguments(Vec<NodeId>),
    /// A name with an ABI tag.
    Tagged(NodeId, &'a str),
    Constructor(NodeId),
    Destructor(NodeId),
    Operator(&'static str),
    LiteralOperator(&'a str),
    VendorOperator(&'a str),
    Conversion(NodeId),
    Lambda(Vec<NodeId>, usize),
    UnnamedType(usize),
    StructuredBinding(Vec<NodeId>),
    /// A function: its name and its type.
    Function(NodeId, NodeId),
    /// The name of a member function with what qualifies `this`.
    ThisQualified(NodeId, &'static str),
    /// A type with `const`, `volatile` or `__restrict`.
    Qualifier(NodeId, &'static str),
    /// A type with a word after it that is neither: `_Complex`, and a vendor's.
    Word(NodeId, &'a str, Option<NodeId>),
    Pointer(NodeId),
    Reference(NodeId),
    RvalueReference(NodeId),
    FunctionType(FunctionType),
    Array(Option<NodeId>, NodeId),
    MemberPointer(NodeId, NodeId),
    Vector(NodeId, NodeId),
    Elaborated(&'static str, NodeId),
    TemplateParameter(usize),
    PackExpansion(NodeId),
    Decltype(NodeId),
    /// An entity that a compiler made for another one: `vtable for `.
    Special(&'static str, NodeId),
    ConstructionVtable(NodeId, NodeId),
    ReferenceTemporary(NodeId, usize),
    Expression(Expression<'a>),
}

#[derive(Debug)]
enum Expression<'a> {
    Literal {
        of: NodeId,
        is_negative: bool,
        digits: &'a str,
    },
    Unary(&'static str, NodeId),
    Postfix(&'static str, NodeId),
    Binary(&'static str, NodeId, NodeId),
    Conditional(NodeId, NodeId, NodeId),
    Call(NodeId, Vec<NodeId>),
    /// `(type)(value)`, with as many values as there are.
    Cast(NodeId, Vec<NodeId>),
    /// `static_cast` and the others.
    NamedCast(&'static str, NodeId, NodeId),
    Braces(Option<NodeId>, Vec<NodeId>),
    /// 0 is `this`.
    Parameter(usize),
    PackLength(NodeId),
    ArgumentsLength(Vec<NodeId>),
    New {
        word: &'static str,
        place: Vec<NodeId>,
        of: NodeId,
        values: Option<Vec<NodeId>>,
    },
    Fold {
        operator: &'static str,
        left: Option<NodeId>,
        right: Option<NodeId>,
    },
    Global(NodeId),
    /// An operator of a type or an expression that always has parentheses.
    Parenthesized(&'static str, NodeId),
}

/// A type of functions.
#[derive(Clone, Debug, Default)]
struct FunctionType {
    returns: Option<NodeId>,
    parameters: Vec<NodeId>,
    /// `const`, `&` and what else is after the parameters, each with a blank before it.
    behind: Vec<Behind>,
}

#[derive(Clone, Debug)]
enum Behind {
    Word(&'static str),
    Noexcept(NodeId),
    Throw(Vec<NodeId>),
}

/// A type that the language has.
#[derive(Debug)]
struct Builtin {
    code: &'static str,
    name: &'static str,
    literal: LiteralForm,
}

/// How a value of a type is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiteralForm {
    /// `(type)value`.
    Cast,
    /// The digits and this.
    Suffix(&'static str),
    Bool,
    /// `(type)[value]`.
    Float,
}

/// A name with an own code.
#[derive(Debug)]
struct StandardName {
    code: u8,
    short: &'static str,
    full: &'static str,
    constructor: &'static str,
}

/// Reads a mangled name to a tree.
#[derive(Default)]
struct TreeParser<'a> {
    text: &'a str,
    pos: usize,
    nodes: Vec<NameNode<'a>>,
    substitutions: Vec<NodeId>,
    depth: u32,
    /// Is the type of a conversion operator being read? Template arguments after it may be those of the operator.
    is_conversion: bool,
}

impl<'a> TreeParser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn peek_next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos + 1).copied()
    }

    fn starts_with(&self, code: &str) -> bool {
        self.text.as_bytes().get(self.pos..).is_some_and(|rest| rest.starts_with(code.as_bytes()))
    }

    fn eat(&mut self, code: &str) -> bool {
        let is_there = self.starts_with(code);
        if is_there {
            self.pos += code.len();
        }
        is_there
    }

    fn need(&mut self, code: &str) -> Option<()> {
        self.eat(code).then_some(())
    }

    fn add(&mut self, node: NameNode<'a>) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn expression_node(&mut self, expression: Expression<'a>) -> NodeId {
        self.add(NameNode::Expression(expression))
    }

    /// A node that later parts may refer to.
    fn add_substitution(&mut self, id: NodeId) -> NodeId {
        self.substitutions.push(id);
        id
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

    /// Reads items up to the letter that ends them.
    fn until(&mut self, end: &str, read: impl Fn(&mut Self) -> Option<NodeId>) -> Option<Vec<NodeId>> {
        let mut all = Vec::new();
        while !self.eat(end) {
            all.push(read(self)?);
        }
        Some(all)
    }

    /// A number in decimal digits.
    fn number(&mut self) -> Option<usize> {
        let rest = self.text.as_bytes().get(self.pos..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = self.text.get(self.pos..self.pos + digits)?.parse().ok()?;
        self.pos += digits;
        Some(number)
    }

    /// A number that is counted from one more: `_` is 0, `0_` is 1.
    fn compact_number(&mut self) -> Option<usize> {
        if self.eat("_") {
            return Some(0);
        }
        let number = self.number()?.checked_add(1)?;
        self.need("_")?;
        Some(number)
    }

    /// The suffixes that the compiler put after the name of a copy of a function: `.isra.0`, as text.
    fn clone_suffixes(&mut self) -> Option<String> {
        let mut out = String::new();
        while self.peek().is_some() {
            let start = self.pos;
            let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            self.need(".")?;
            self.peek().filter(|byte| is_word(*byte))?;
            while self.peek().is_some_and(is_word) {
                self.pos += 1;
            }
            while self.peek() == Some(b'.') && self.peek_next().is_some_and(|byte| byte.is_ascii_digit()) {
                self.pos += 2;
                while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    self.pos += 1;
                }
            }
            out = out + " [clone " + &self.text[start..self.pos] + "]";
        }
        Some(out)
    }
}
