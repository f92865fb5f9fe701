//! An expression as a condition that a recorder evaluates where an event is recorded: about the name of the event and its
//! fields, which is all that is known there.

use tracemill_codec::text::Span;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::Scope;
use tracemill_ring::condition::{
    Comparison, FieldCondition, Literal, MAX_DEPTH, MAX_PARTS, Number, Operand as Value, OperandPart as Part,
};

use super::Expression;
use super::number::{EventNumber, NumberLiteral};
use super::syntax::{Op, Operand, OperandPart, PathHead, Right, StepKind, Test};
use super::text::TextLiteral;

impl Expression {
    /// The condition as recorders take it.
    ///
    /// # Errors
    /// When it is about more than the name and the fields of an event, has a regular expression, or is too large; with the place.
    pub fn condition(&self) -> Result<FieldCondition> {
        let lowering = Lowering { expression: self };
        let condition = lowering.test(&self.test)?;
        match FieldCondition::decode(&condition.encode()) {
            Ok(condition) => Ok(condition),
            Err(_) => {
                let message = format!(
                    "where events are recorded, conditions have at most {MAX_PARTS} parts, nested at most {MAX_DEPTH} deep"
                );
                Err(Error::unsupported(message))
            }
        }
    }
}

struct Lowering<'a> {
    expression: &'a Expression,
}

impl Lowering<'_> {
    fn test(&self, test: &Test) -> Result<FieldCondition> {
        let all = |tests: &[Test]| tests.iter().map(|test| self.test(test)).collect::<Result<Vec<_>>>();
        Ok(match test {
            Test::Const(value) => FieldCondition::Const(*value),
            Test::All(tests) => FieldCondition::All(all(tests)?),
            Test::Any(tests) => FieldCondition::Any(all(tests)?),
            Test::Not(inner) => FieldCondition::Not(Box::new(self.test(inner)?)),
            Test::Truth(operand) => FieldCondition::Truth(self.operand(operand)?),
            Test::Compare(compare) => {
                let left = self.operand(&compare.left)?;
                let comparison = match compare.op {
                    Op::Equal => Comparison::Equal,
                    Op::NotEqual => Comparison::NotEqual,
                    Op::Less => Comparison::Less,
                    Op::LessOrEqual => Comparison::LessOrEqual,
                    Op::Greater => Comparison::Greater,
                    Op::GreaterOrEqual => Comparison::GreaterOrEqual,
                    Op::Match => return Err(self.refused(compare.span, "regular expressions")),
                };
                let right = match &compare.right {
                    Right::Operand(operand) => Literal::Operand(self.operand(operand)?),
                    Right::Number(number) => Literal::Number(lowered(number)),
                    Right::Bool(value) => Literal::Bool(*value),
                    Right::Text(text) => lowered_text(text, compare.op),
                    Right::Regex(_) => return Err(self.refused(compare.span, "regular expressions")),
                    Right::Time(_) | Right::Instant(_) => return Err(self.refused(compare.span, "times")),
                };
                FieldCondition::Compare(left, comparison, right)
            }
        })
    }

    fn operand(&self, operand: &Operand) -> Result<Value> {
        let part = |part: &OperandPart| match part {
            OperandPart::Number(number) => Ok(Part::Number(integer(number.floor()))),
            OperandPart::Path(path) => self.path(*path),
        };
        Ok(Value { parts: operand.parts.iter().map(part).collect::<Result<_>>()? })
    }

    fn path(&self, at: usize) -> Result<Part> {
        let path = &self.expression.paths[at];
        match (path.head, path.steps.as_slice()) {
            (PathHead::Name, _) => Ok(Part::Name),
            (PathHead::Bare | PathHead::Scope(Scope::Payload), [step]) => match &step.kind {
                StepKind::Member(name) => Ok(Part::Field(name.to_string())),
                StepKind::Index(_) => Err(self.refused(path.span, "elements of lists")),
            },
            (PathHead::Bare | PathHead::Scope(Scope::Payload), _) => Err(self.refused(path.span, "parts of a field")),
            _ => {
                let text = path.span.text(&self.expression.source);
                Err(self.refused(path.span, &format!("`{text}`")))
            }
        }
    }

    fn refused(&self, span: Span, what: &str) -> Error {
        let message = format!("where events are recorded, {what} cannot be tested");
        let error = span.unsupported(&self.expression.source, message);
        error
            .with_help("`name` and the fields of the event can; `print --filter` tests the rest when the trace is read")
    }
}

fn integer(number: &EventNumber<'_>) -> i128 {
    match number {
        EventNumber::Int(value) => *value,
        // Beyond every number of an event.
        EventNumber::Wide(wide) if wide.is_negative() => i128::MIN,
        _ => i128::MAX,
    }
}

fn lowered(number: &NumberLiteral) -> Number {
    Number { floor: integer(number.floor()), has_fraction: number.has_fraction(), real: number.real() }
}

fn lowered_text(text: &TextLiteral, op: Op) -> Literal {
    match text.glob().filter(|_| op.is_equality()) {
        Some(glob) => Literal::Glob(glob.to_text()),
        None => Literal::Text(text.plain().to_vec()),
    }
}
