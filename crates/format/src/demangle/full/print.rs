//! Writes names and types. Declarators stand around what they are of: `void (*(&f)(int)) [3]`, so that a type is written
//! from the outside to the inside, with what is around of it so far.

use super::scope::{NodeContext, TemplateScope};
use super::{Behind, FunctionType, MAX_NAME, NameNode, NodeId};

/// Bytes and nodes that may be written for one name, in all its parts together.
const MAX_WORK: usize = 8 << 20;
/// Nesting that no compiler writes; a substitution may stand for much.
const MAX_DEPTH: u32 = 160;

pub(super) struct NamePrinter<'p> {
    pub(super) nodes: &'p [NameNode<'p>],
    pub(super) scopes: Vec<TemplateScope>,
    work: usize,
    depth: u32,
    /// Was the last part of the list that was written last a pack without elements?
    ends_with_empty_pack: bool,
}

/// The declarator around a type.
#[derive(Default)]
struct Declarator {
    /// `const` and `volatile`, which go to the elements of an array.
    qualifiers: Vec<&'static str>,
    /// Pointers and references.
    marks: String,
    /// The name and what is after it: parameters, lengths of arrays.
    rest: String,
    /// Does it end with the length of an array?
    is_array: bool,
}

impl Declarator {
    fn name(rest: String) -> Self {
        Declarator { rest, ..Declarator::default() }
    }

    /// With another pointer or so, which what was there so far is behind.
    fn marked(mut self, mark: &str) -> Self {
        self.marks = mark.to_string() + &self.qualifiers.concat() + &self.marks;
        self.qualifiers.clear();
        self
    }

    /// The text so far, in parentheses where a function or an array is to follow pointers.
    fn grouped(&self, before: &str) -> String {
        let marks = self.qualifiers.concat() + &self.marks;
        match marks.is_empty() {
            true => self.rest.clone(),
            false => format!("{before}({}{})", marks.trim_start(), self.rest),
        }
    }

    fn around(self, inner: &str) -> String {
        let blank = if self.rest.is_empty() || self.rest.starts_with(' ') { "" } else { " " };
        [inner, &self.qualifiers.concat(), &self.marks, blank, &self.rest].concat()
    }
}

impl<'p> NamePrinter<'p> {
    pub(super) fn new(nodes: &'p [NameNode<'p>]) -> Self {
        NamePrinter { nodes, scopes: Vec::new(), work: 0, depth: 0, ends_with_empty_pack: false }
    }

    pub(super) fn whole(mut self, root: NodeId) -> Option<String> {
        self.text(root, NodeContext::default())
    }

    /// Counts work; `None` when it is too much for any name.
    pub(super) fn spend(&mut self, work: usize) -> Option<()> {
        self.work += work;
        (self.work <= MAX_WORK).then_some(())
    }

    pub(super) fn nested<T>(&mut self, write: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.spend(1)?;
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = write(self);
        self.depth -= 1;
        value
    }

    pub(super) fn text(&mut self, node: NodeId, context: NodeContext) -> Option<String> {
        self.declare(node, context, Declarator::default())
    }

    fn declare(&mut self, node: NodeId, context: NodeContext, around: Declarator) -> Option<String> {
        let text = self.nested(|printer| printer.declare_inside(node, context, around))?;
        self.spend(text.len())?;
        (text.len() <= MAX_NAME).then_some(text)
    }

    fn declare_inside(&mut self, node: NodeId, context: NodeContext, mut around: Declarator) -> Option<String> {
        let nodes = self.nodes;
        match &nodes[node] {
            NameNode::Pointer(of) => self.declare(*of, context, around.marked("*")),
            NameNode::Reference(_) | NameNode::RvalueReference(_) => {
                let (of, context, mark) = self.collapsed(node, context)?;
                self.declare(of, context, around.marked(mark))
            }
            NameNode::Qualifier(of, word) => {
                if !around.qualifiers.contains(word) {
                    around.qualifiers.insert(0, word);
                }
                self.declare(*of, context, around)
            }
            NameNode::Word(of, word, arguments) => {
                let arguments = match arguments {
                    Some(arguments) => self.in_angles(*arguments, context)?,
                    None => String::new(),
                };
                self.declare(*of, context, around.marked(&format!(" {word}{arguments}")))
            }
            NameNode::MemberPointer(class, of) => {
                let class = self.text(*class, context)?;
                self.declare(*of, context, around.marked(&format!(" {class}::*")))
            }
            NameNode::Vector(len, of) => {
                let len = self.text(*len, context)?;
                self.declare(*of, context, around.marked(&format!(" __vector({len})")))
            }
            NameNode::FunctionType(type_) => self.function(type_, context, around.grouped(""), ""),
            NameNode::Array(len, of) => {
                let len = match len {
                    Some(len) => self.text(*len, context)?,
                    None => String::new(),
                };
                // The qualifiers of an array are those of its elements.
                let qualifiers = std::mem::take(&mut around.qualifiers);
                let blank = if around.is_array && around.marks.is_empty() { "" } else { " " };
                let rest = format!("{}{blank}[{len}]", around.grouped(" "));
                let around = Declarator { qualifiers, rest, is_array: true, ..Declarator::default() };
                self.declare(*of, context, around)
            }
            NameNode::TemplateParameter(_) if !context.is_in_lambda => {
                let (argument, context) = self.resolved(node, context)?;
                self.declare(argument, context, around)
            }
            _ => Some(around.around(&self.name(node, context)?)),
        }
    }

    /// The target of a reference, with references to references made one: `&` with anything is `&`.
    fn collapsed(&mut self, node: NodeId, context: NodeContext) -> Option<(NodeId, NodeContext, &'static str)> {
        let (mut node, mut context, mut mark) = (node, context, "&&");
        loop {
            let (inner, inside) = self.resolved(node, context)?;
            match self.nodes[inner] {
                NameNode::Reference(of) => (node, context, mark) = (of, inside, "&"),
                NameNode::RvalueReference(of) => (node, context) = (of, inside),
                _ => return Some((inner, inside, mark)),
            }
        }
    }

    /// A function with what stands before its parameters.
    fn function(&mut self, type_: &FunctionType, context: NodeContext, before: String, this: &str) -> Option<String> {
        let mut rest = before + "(" + &self.list(&type_.parameters, context)? + ")" + this;
        for behind in &type_.behind {
            rest += &match behind {
                Behind::Word(word) => (*word).to_string(),
                Behind::Noexcept(of) => format!(" noexcept({})", self.text(*of, context)?),
                Behind::Throw(types) => format!(" throw({})", self.list(types, context)?),
            };
        }
        match type_.returns {
            Some(returns) => self.declare(returns, context, Declarator::name(rest)),
            None => Some(rest),
        }
    }

    /// A function with its name, whose template arguments are in force among the parameters.
    fn named_function(&mut self, name: NodeId, type_: NodeId, context: NodeContext) -> Option<String> {
        let NameNode::FunctionType(type_) = &self.nodes[type_] else { return None };
        let (text, this, arguments) = self.name_without_this(name, context)?;
        let inside = match arguments {
            Some(arguments) => self.within(arguments, context),
            None => context,
        };
        self.function(type_, inside, text, &this)
    }

    /// The name of a function, what qualifies `this`, and its own template arguments.
    fn name_without_this(
        &mut self,
        mut name: NodeId,
        context: NodeContext,
    ) -> Option<(String, String, Option<NodeId>)> {
        let mut this = String::new();
        let mut before = String::new();
        loop {
            match &self.nodes[name] {
                NameNode::ThisQualified(of, word) => {
                    this = (*word).to_string() + &this;
                    name = *of;
                }
                NameNode::Local(function, of) => {
                    before += &self.text(*function, context)?;
                    before += "::";
                    name = *of;
                }
                NameNode::DefaultArgument(number, of) => {
                    before += &default_argument(*number);
                    name = *of;
                }
                NameNode::Template(_, arguments) => {
                    return Some((before + &self.text(name, context)?, this, Some(*arguments)));
                }
                _ => return Some((before + &self.text(name, context)?, this, None)),
            }
            self.spend(1 + before.len())?;
        }
    }

    fn name(&mut self, node: NodeId, context: NodeContext) -> Option<String> {
        let nodes = self.nodes;
        Some(match &nodes[node] {
            NameNode::Name(name) => (*name).to_string(),
            NameNode::Builtin(builtin) => builtin.name.to_string(),
            NameNode::Standard(standard, is_full) => {
                (if *is_full { standard.full } else { standard.short }).to_string()
            }
            NameNode::Qualified(..) => self.qualified(node, context)?,
            NameNode::Local(function, name) => self.text(*function, context)? + "::" + &self.text(*name, context)?,
            NameNode::DefaultArgument(number, name) => default_argument(*number) + &self.text(*name, context)?,
            NameNode::Template(name, arguments) => {
                let inside = if self.is_conversion(*name) { self.within(*arguments, context) } else { context };
                let name = self.text(*name, inside)?;
                let blank = if name.ends_with('<') { " " } else { "" };
                name + blank + &self.in_angles(*arguments, context)?
            }
            NameNode::Arguments(all) => self.list(all, context)?,
            NameNode::Tagged(name, tag) => self.text(*name, context)? + "[abi:" + tag + "]",
            NameNode::Constructor(class) => self.class(*class, context)?,
            NameNode::Destructor(class) => "~".to_string() + &self.class(*class, context)?,
            NameNode::Operator(name) => format!("operator{name}"),
            NameNode::LiteralOperator(name) => format!("operator\"\" {name}"),
            NameNode::VendorOperator(name) => format!("operator {name}"),
            NameNode::Conversion(of) => "operator ".to_string() + &self.text(*of, context)?,
            NameNode::Lambda(parameters, number) => {
                let inside = NodeContext { is_in_lambda: true, ..context };
                format!("{{lambda({})#{}}}", self.list(parameters, inside)?, number + 1)
            }
            NameNode::UnnamedType(number) => format!("{{unnamed type#{}}}", number + 1),
            NameNode::StructuredBinding(names) => format!("[{}]", self.list(names, context)?),
            NameNode::Function(name, type_) => self.named_function(*name, *type_, context)?,
            NameNode::ThisQualified(name, word) => self.text(*name, context)? + word,
            NameNode::Elaborated(word, name) => (*word).to_string() + &self.text(*name, context)?,
            NameNode::TemplateParameter(number) => format!("auto:{}", number + 1),
            NameNode::PackExpansion(_) => self.list(&[node], context)?,
            NameNode::Decltype(of) => format!("decltype ({})", self.text(*of, context)?),
            NameNode::Special(what, of) => (*what).to_string() + &self.text(*of, context)?,
            NameNode::ConstructionVtable(base, derived) => {
                format!("construction vtable for {}-in-{}", self.text(*base, context)?, self.text(*derived, context)?)
            }
            NameNode::ReferenceTemporary(of, number) => {
                format!("reference temporary #{number} for {}", self.text(*of, context)?)
            }
            NameNode::Expression(expression) => self.expression(expression, context)?,
            _ => return None,
        })
    }

    /// A name with its scopes, of which there may be many.
    fn qualified(&mut self, mut node: NodeId, context: NodeContext) -> Option<String> {
        let mut names = Vec::new();
        while let NameNode::Qualified(scope, name) = self.nodes[node] {
            self.spend(1)?;
            names.push(name);
            node = scope;
        }
        let mut out = self.text(node, context)?;
        for name in names.into_iter().rev() {
            out.push_str("::");
            out.push_str(&self.text(name, context)?);
        }
        Some(out)
    }

    fn class(&mut self, class: NodeId, context: NodeContext) -> Option<String> {
        match &self.nodes[class] {
            NameNode::Standard(standard, _) => Some(standard.constructor.to_string()),
            _ => self.text(class, context),
        }
    }

    /// The type of a conversion operator may name the arguments that stand after it.
    fn is_conversion(&self, name: NodeId) -> bool {
        match self.nodes[name] {
            NameNode::Qualified(_, name) => self.is_conversion(name),
            NameNode::Conversion(_) => true,
            _ => false,
        }
    }

    fn in_angles(&mut self, arguments: NodeId, context: NodeContext) -> Option<String> {
        let NameNode::Arguments(all) = &self.nodes[arguments] else { return None };
        let inner = self.list(all, context)?;
        // The runtime library forgets the blank where a pack without elements is last.
        let blank = if inner.ends_with('>') && !self.ends_with_empty_pack { " " } else { "" };
        Some(format!("<{inner}{blank}>"))
    }

    /// Parts with commas between them; packs are each of their elements, which may be none.
    pub(super) fn list(&mut self, all: &[NodeId], context: NodeContext) -> Option<String> {
        let mut out = String::new();
        let mut ends_with_empty_pack = false;
        for node in all {
            let NameNode::PackExpansion(pattern) = self.nodes[*node] else {
                let text = self.text(*node, context)?;
                let is_pack = matches!(self.nodes[*node], NameNode::Arguments(_));
                ends_with_empty_pack =
                    if text.is_empty() { !out.is_empty() } else { is_pack && self.ends_with_empty_pack };
                self.append(&mut out, &text)?;
                continue;
            };
            ends_with_empty_pack = false;
            match self.pack_len(pattern, context)? {
                Some(len) => {
                    ends_with_empty_pack = len == 0 && !out.is_empty();
                    for element in 0..len {
                        let text = self.text(pattern, NodeContext { element: Some(element), ..context })?;
                        self.append(&mut out, &text)?;
                    }
                }
                None => {
                    let text = self.operand(pattern, context)? + "...";
                    self.append(&mut out, &text)?;
                }
            }
        }
        self.ends_with_empty_pack = ends_with_empty_pack;
        Some(out)
    }

    fn append(&mut self, out: &mut String, text: &str) -> Option<()> {
        if !out.is_empty() && !text.is_empty() {
            out.push_str(", ");
        }
        out.push_str(text);
        self.spend(1 + text.len())?;
        (out.len() <= MAX_NAME).then_some(())
    }
}

fn default_argument(number: usize) -> String {
    format!("{{default arg#{}}}::", number.saturating_add(1))
}
