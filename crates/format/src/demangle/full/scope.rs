//! The arguments that the parameters of templates stand for.

use super::print::NamePrinter;
use super::{Expression, NameNode, NodeId};

/// Where a node is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeContext {
    /// The template whose arguments `T_` are, as a place in the list of scopes.
    pub(super) scope: Option<usize>,
    /// Which element of a pack is written.
    pub(super) element: Option<usize>,
    /// Among the parameters of a lambda, `T_` is an `auto` of it.
    pub(super) is_in_lambda: bool,
}

/// The arguments of a template, and where they are written themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct TemplateScope {
    arguments: NodeId,
    outer: NodeContext,
}

impl<'p> NamePrinter<'p> {
    /// A context in which `T_` are these arguments.
    pub(super) fn within(&mut self, arguments: NodeId, outer: NodeContext) -> NodeContext {
        self.scopes.push(TemplateScope { arguments, outer });
        NodeContext { scope: Some(self.scopes.len() - 1), ..NodeContext::default() }
    }

    /// The argument that a parameter stands for, which may be a whole pack, and where it is written.
    pub(super) fn argument_of(&self, number: usize, context: NodeContext) -> Option<(NodeId, NodeContext)> {
        let scope = self.scopes[context.scope?];
        let NameNode::Arguments(arguments) = &self.nodes[scope.arguments] else { return None };
        Some((*arguments.get(number)?, scope.outer))
    }

    /// As [`argument_of`](Self::argument_of), with the element of a pack that is being expanded.
    pub(super) fn element_of(&self, number: usize, context: NodeContext) -> Option<(NodeId, NodeContext)> {
        let (argument, outer) = self.argument_of(number, context)?;
        match (&self.nodes[argument], context.element) {
            (NameNode::Arguments(elements), Some(element)) => Some((*elements.get(element)?, outer)),
            _ => Some((argument, outer)),
        }
    }

    /// A node with the parameters of templates replaced by what they stand for.
    pub(super) fn resolved(&mut self, mut node: NodeId, mut context: NodeContext) -> Option<(NodeId, NodeContext)> {
        while let NameNode::TemplateParameter(number) = self.nodes[node] {
            if context.is_in_lambda {
                break;
            }
            self.spend(1)?;
            (node, context) = self.element_of(number, context)?;
        }
        Some((node, context))
    }

    /// How many elements the pack has that a pattern names; `None` inside when it names none.
    pub(super) fn pack_len(&mut self, pattern: NodeId, context: NodeContext) -> Option<Option<usize>> {
        if context.is_in_lambda {
            return Some(None);
        }
        self.nested(|printer| {
            if let NameNode::TemplateParameter(number) = printer.nodes[pattern] {
                let Some((argument, _)) = printer.argument_of(number, context) else { return Some(None) };
                return Some(match &printer.nodes[argument] {
                    NameNode::Arguments(elements) => Some(elements.len()),
                    _ => None,
                });
            }
            for child in children(&printer.nodes[pattern]) {
                if let Some(len) = printer.pack_len(child, context)? {
                    return Some(Some(len));
                }
            }
            Some(None)
        })
    }
}

/// The parts of a node in which the parameters of templates may be.
fn children(node: &NameNode<'_>) -> Vec<NodeId> {
    match node {
        NameNode::Qualified(a, b)
        | NameNode::Template(a, b)
        | NameNode::MemberPointer(a, b)
        | NameNode::Vector(a, b)
        | NameNode::Local(a, b)
        | NameNode::Function(a, b) => vec![*a, *b],
        NameNode::Arguments(all) => all.clone(),
        NameNode::Pointer(of)
        | NameNode::Reference(of)
        | NameNode::RvalueReference(of)
        | NameNode::Qualifier(of, _)
        | NameNode::ThisQualified(of, _)
        | NameNode::Elaborated(_, of)
        | NameNode::Tagged(of, _)
        | NameNode::Decltype(of)
        | NameNode::Conversion(of)
        | NameNode::Destructor(of) => vec![*of],
        NameNode::Word(of, _, arguments) => [*of].into_iter().chain(*arguments).collect(),
        NameNode::Array(len, of) => len.iter().copied().chain([*of]).collect(),
        NameNode::FunctionType(type_) => type_.returns.into_iter().chain(type_.parameters.iter().copied()).collect(),
        NameNode::Expression(expression) => operands(expression),
        _ => Vec::new(),
    }
}

fn operands(expression: &Expression<'_>) -> Vec<NodeId> {
    match expression {
        Expression::Literal { of, .. }
        | Expression::Unary(_, of)
        | Expression::Postfix(_, of)
        | Expression::PackLength(of)
        | Expression::Global(of)
        | Expression::Parenthesized(_, of) => vec![*of],
        Expression::Binary(_, a, b) | Expression::NamedCast(_, a, b) => vec![*a, *b],
        Expression::Conditional(a, b, c) => vec![*a, *b, *c],
        Expression::Call(of, values) | Expression::Cast(of, values) => {
            [*of].into_iter().chain(values.iter().copied()).collect()
        }
        Expression::Braces(of, values) => of.iter().copied().chain(values.iter().copied()).collect(),
        Expression::ArgumentsLength(values) => values.clone(),
        Expression::New { place, of, values, .. } => {
            let values = values.iter().flatten().copied();
            place.iter().copied().chain([*of]).chain(values).collect()
        }
        Expression::Fold { left, right, .. } => left.iter().chain(right).copied().collect(),
        Expression::Parameter(_) => Vec::new(),
    }
}
