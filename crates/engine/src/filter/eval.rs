//! Conditions over values: true, false, or not known yet.

use std::cmp::Ordering;

use tracemill_model::schema::{LabelList, Mapping};

use super::number::EventNumber;
use super::syntax::{Compare, Op, Operand, OperandPart, Right, Test};

/// A value of an event or of a row.
#[derive(Clone, Debug)]
pub(super) enum FilterValue<'a> {
    Number(EventNumber<'a>),
    Labelled(EventNumber<'a>, ValueLabels<'a>),
    Bool(bool),
    Text(&'a [u8]),
    /// Ns since the origin.
    Time(i128),
    /// Compared with nothing: is it more than empty?
    Other(bool),
}

/// The names of numbers or bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueLabels<'a> {
    Enumeration(&'a LabelList),
    Flags(&'a [Mapping]),
}

/// A source of the values of paths, or of some of them.
pub(super) trait PathSource {
    /// The value of a path by its index.
    fn find(&self, path: usize) -> PathValue<'_>;
}

/// Knowledge of the value of a path.
pub(super) enum PathValue<'a> {
    /// The value was not looked up yet.
    Unknown,
    /// There is no such value.
    Absent,
    Value(FilterValue<'a>),
}

/// Is the condition true? `None` when that depends on what the source does not know.
pub(super) fn evaluate(test: &Test, source: &impl PathSource) -> Option<bool> {
    match test {
        Test::Const(value) => Some(*value),
        Test::Not(inner) => evaluate(inner, source).map(|value| !value),
        Test::All(tests) => first_decided(tests, source, false),
        Test::Any(tests) => first_decided(tests, source, true),
        Test::Truth(operand) => match find(operand, source) {
            PathValue::Unknown => None,
            PathValue::Absent => Some(false),
            PathValue::Value(value) => Some(is_true(&value)),
        },
        Test::Compare(compare) => compare_values(compare, source),
    }
}

/// `decider` when a test gives it, unknown when one might.
fn first_decided(tests: &[Test], source: &impl PathSource, decider: bool) -> Option<bool> {
    let mut result = Some(!decider);
    for test in tests {
        match evaluate(test, source) {
            Some(value) if value == decider => return Some(decider),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

/// The condition without the parts that the source decides.
pub(super) fn reduce(test: &Test, source: &impl PathSource) -> Test {
    if let Some(value) = evaluate(test, source) {
        return Test::Const(value);
    }
    let open = |tests: &[Test]| {
        tests.iter().map(|test| reduce(test, source)).filter(|test| !matches!(test, Test::Const(_))).collect()
    };
    match test {
        Test::All(tests) => Test::All(open(tests)),
        Test::Any(tests) => Test::Any(open(tests)),
        Test::Not(inner) => Test::Not(Box::new(reduce(inner, source))),
        test => test.clone(),
    }
}

/// Calls `see` with every path of the condition.
pub(super) fn each_path(test: &Test, see: &mut impl FnMut(usize)) {
    test.each_leaf(&mut |leaf| match leaf {
        Test::Truth(operand) => operand.paths().for_each(&mut *see),
        Test::Compare(compare) => {
            compare.left.paths().for_each(&mut *see);
            if let Right::Operand(operand) = &compare.right {
                operand.paths().for_each(&mut *see);
            }
        }
        _ => {}
    });
}

fn find<'s>(operand: &Operand, source: &'s impl PathSource) -> PathValue<'s> {
    if let Some(path) = operand.path() {
        return source.find(path);
    }
    let mut result = EventNumber::Int(-1);
    let mut is_known = true;
    for part in &operand.parts {
        let masked = match part {
            OperandPart::Number(number) => result.mask(number.floor()),
            OperandPart::Path(path) => match source.find(*path) {
                PathValue::Unknown => {
                    is_known = false;
                    continue;
                }
                PathValue::Value(FilterValue::Number(number) | FilterValue::Labelled(number, _)) => {
                    result.mask(&number)
                }
                PathValue::Absent | PathValue::Value(_) => None,
            },
        };
        match masked {
            Some(masked) => result = masked,
            None => return PathValue::Absent,
        }
    }
    if is_known { PathValue::Value(FilterValue::Number(result)) } else { PathValue::Unknown }
}

fn is_true(value: &FilterValue) -> bool {
    match value {
        FilterValue::Number(number) | FilterValue::Labelled(number, _) => !number.is_zero(),
        FilterValue::Bool(value) => *value,
        FilterValue::Text(text) => !text.is_empty(),
        FilterValue::Time(ns) => *ns != 0,
        FilterValue::Other(is_more_than_empty) => *is_more_than_empty,
    }
}

fn compare_values(compare: &Compare, source: &impl PathSource) -> Option<bool> {
    let left = find(&compare.left, source);
    if matches!(left, PathValue::Absent) {
        return Some(false);
    }
    let right = match &compare.right {
        Right::Operand(operand) => match find(operand, source) {
            PathValue::Unknown => return None,
            PathValue::Absent => return Some(false),
            PathValue::Value(value) => Some(value),
        },
        _ => None,
    };
    let PathValue::Value(left) = left else { return None };
    Some(match right {
        Some(right) => holds_between(&left, compare.op, &right),
        None => holds(&left, compare.op, &compare.right),
    })
}

/// A value against a literal. Values of another kind are never equal nor unequal.
fn holds(left: &FilterValue, op: Op, right: &Right) -> bool {
    match (left, right) {
        (FilterValue::Number(number) | FilterValue::Labelled(number, _), Right::Number(literal)) => {
            is_so(op, literal.compare(number))
        }
        (FilterValue::Text(text), Right::Text(literal)) if op.is_equality() => {
            literal.equals(text) == (op == Op::Equal)
        }
        (FilterValue::Text(text), Right::Text(literal)) => is_so(op, Some((*text).cmp(literal.plain()))),
        (FilterValue::Text(text), Right::Regex(regex)) => regex.is_match(text),
        (FilterValue::Labelled(number, labels), Right::Text(literal)) if op.is_equality() => {
            labels.any(number, |label| literal.equals(label.as_bytes())) == (op == Op::Equal)
        }
        (FilterValue::Labelled(number, labels), Right::Regex(regex)) => {
            labels.any(number, |label| regex.is_match(label.as_bytes()))
        }
        (FilterValue::Bool(value), Right::Bool(literal)) => is_so(op, Some(value.cmp(literal))),
        (FilterValue::Time(ns), Right::Instant(instant)) => is_so(op, Some(ns.cmp(instant))),
        _ => false,
    }
}

/// A value against another one.
fn holds_between(left: &FilterValue, op: Op, right: &FilterValue) -> bool {
    use FilterValue::{Bool, Labelled, Number, Text, Time};
    match (left, right) {
        (Number(a) | Labelled(a, _), Number(b) | Labelled(b, _)) => is_so(op, a.compare(b)),
        (Text(a), Text(b)) => is_so(op, Some(a.cmp(b))),
        (Labelled(number, labels), Text(text)) | (Text(text), Labelled(number, labels)) if op.is_equality() => {
            labels.any(number, |label| label.as_bytes() == *text) == (op == Op::Equal)
        }
        (Bool(a), Bool(b)) if op.is_equality() => is_so(op, Some(a.cmp(b))),
        (Time(a), Time(b)) => is_so(op, Some(a.cmp(b))),
        _ => false,
    }
}

/// Does the order fit the operator? `None` stands for NaN, which is unequal to everything.
fn is_so(op: Op, order: Option<Ordering>) -> bool {
    match op {
        Op::Equal => order == Some(Ordering::Equal),
        Op::NotEqual => order != Some(Ordering::Equal),
        Op::Less => order == Some(Ordering::Less),
        Op::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Op::Greater => order == Some(Ordering::Greater),
        Op::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Op::Match => false,
    }
}

impl ValueLabels<'_> {
    /// Is the condition true for one of the labels of the number?
    fn any(self, number: &EventNumber, is_wanted: impl Fn(&str) -> bool) -> bool {
        match (self, number) {
            (ValueLabels::Enumeration(mappings), EventNumber::Int(value)) => {
                mappings.labels_for(*value).any(|label| is_wanted(label))
            }
            (ValueLabels::Flags(flags), number) => {
                let is_set = |flag: &Mapping| flag.ranges.iter().any(|&(low, high)| number.has_bit_in(low, high));
                flags.iter().any(|flag| is_set(flag) && is_wanted(&flag.label))
            }
            // Labels are of at most 127 bits.
            (ValueLabels::Enumeration(_), _) => false,
        }
    }
}
