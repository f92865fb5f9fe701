//! Writes expressions.

use super::print::NamePrinter;
use super::scope::NodeContext;
use super::{Expression, LiteralForm, NameNode, NodeId};

impl NamePrinter<'_> {
    pub(super) fn expression(&mut self, expression: &Expression<'_>, context: NodeContext) -> Option<String> {
        Some(match expression {
            Expression::Literal { of, is_negative, digits } => self.literal(*of, *is_negative, digits, context)?,
            Expression::Unary(operator, operand) => {
                let name = self.function_without_parameters(*operand).filter(|_| *operator == "&");
                (*operator).to_string() + &self.operand(name.unwrap_or(*operand), context)?
            }
            Expression::Postfix(operator, operand) => self.operand(*operand, context)? + operator,
            Expression::Binary("[]", left, right) => {
                self.operand(*left, context)? + "[" + &self.text(*right, context)? + "]"
            }
            Expression::Binary(operator, left, right) => {
                let text = self.operand(*left, context)? + operator + &self.operand(*right, context)?;
                // It would end the template arguments otherwise.
                if *operator == ">" { format!("({text})") } else { text }
            }
            Expression::Conditional(condition, yes, no) => {
                let (condition, yes) = (self.operand(*condition, context)?, self.operand(*yes, context)?);
                format!("{condition}?{yes} : {}", self.operand(*no, context)?)
            }
            Expression::Call(callee, arguments) => {
                let callee = match self.nodes[*callee] {
                    NameNode::Function(name, _) => name,
                    _ => *callee,
                };
                format!("{}({})", self.operand(callee, context)?, self.list(arguments, context)?)
            }
            Expression::Cast(of, values) => {
                let of = self.text(*of, context)?;
                match values[..] {
                    [value] => format!("({of}){}", self.operand(value, context)?),
                    _ => format!("({of})({})", self.list(values, context)?),
                }
            }
            Expression::NamedCast(word, of, value) => {
                format!("{word}<{}>({})", self.text(*of, context)?, self.text(*value, context)?)
            }
            Expression::Braces(of, values) => {
                let of = match of {
                    Some(of) => self.text(*of, context)?,
                    None => String::new(),
                };
                format!("{of}{{{}}}", self.list(values, context)?)
            }
            Expression::Parameter(0) => "this".to_string(),
            Expression::Parameter(number) => format!("{{parm#{number}}}"),
            Expression::PackLength(pack) => match self.pack_len(*pack, context)? {
                Some(len) => len.to_string(),
                None => format!("sizeof...({})", self.text(*pack, context)?),
            },
            Expression::ArgumentsLength(arguments) => self.arguments_len(arguments, context)?.to_string(),
            Expression::New { word, place, of, values } => {
                let place = if place.is_empty() { String::new() } else { format!("({}) ", self.list(place, context)?) };
                let of = self.text(*of, context)?;
                let values = match values {
                    Some(values) => format!("({})", self.list(values, context)?),
                    None => String::new(),
                };
                format!("{word}{place}{of}{values}")
            }
            Expression::Fold { operator, left, right } => {
                let mut side = |operand: &Option<NodeId>| match operand {
                    Some(operand) => self.operand(*operand, context),
                    None => Some("...".to_string()),
                };
                match (left, right) {
                    (Some(_), Some(_)) => format!("({}{operator}...{operator}{})", side(left)?, side(right)?),
                    _ => format!("({}{operator}{})", side(left)?, side(right)?),
                }
            }
            Expression::Global(name) => "::".to_string() + &self.text(*name, context)?,
            Expression::Parenthesized(operator, of) => format!("{operator}({})", self.text(*of, context)?),
        })
    }

    /// An operand, in parentheses unless it is a plain name.
    pub(super) fn operand(&mut self, node: NodeId, context: NodeContext) -> Option<String> {
        let is_plain = matches!(
            self.nodes[node],
            NameNode::Name(_)
                | NameNode::Qualified(..)
                | NameNode::Expression(Expression::Braces(..) | Expression::Parameter(_) | Expression::Fold { .. })
        );
        let text = self.text(node, context)?;
        Some(if is_plain { text } else { format!("({text})") })
    }

    /// The address of a function in a scope is written without its parameters.
    fn function_without_parameters(&self, operand: NodeId) -> Option<NodeId> {
        match self.nodes[operand] {
            NameNode::Function(name, _) if matches!(self.nodes[name], NameNode::Qualified(..)) => Some(name),
            _ => None,
        }
    }

    fn literal(&mut self, of: NodeId, is_negative: bool, digits: &str, context: NodeContext) -> Option<String> {
        let sign = if is_negative { "-" } else { "" };
        let form = match &self.nodes[of] {
            NameNode::Builtin(builtin) => builtin.literal,
            _ => LiteralForm::Cast,
        };
        match (form, digits) {
            (LiteralForm::Suffix(suffix), _) => return Some(format!("{sign}{digits}{suffix}")),
            (LiteralForm::Bool, "0") if !is_negative => return Some("false".to_string()),
            (LiteralForm::Bool, "1") if !is_negative => return Some("true".to_string()),
            _ => {}
        }
        let of = self.text(of, context)?;
        Some(match form {
            LiteralForm::Float => format!("({of}){sign}[{digits}]"),
            _ => format!("({of}){sign}{digits}"),
        })
    }

    fn arguments_len(&mut self, arguments: &[NodeId], context: NodeContext) -> Option<usize> {
        let mut len = 0_usize;
        for argument in arguments {
            len += match self.nodes[*argument] {
                NameNode::PackExpansion(pattern) => self.pack_len(pattern, context)?.unwrap_or(0),
                _ => 1,
            };
        }
        Some(len)
    }
}
