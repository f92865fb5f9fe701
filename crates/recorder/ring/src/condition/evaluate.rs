//! Conditions, evaluated without memory of their own: signal handlers do it, too.

use std::cmp::Ordering;

use super::{Comparison, FieldCondition, Literal, Number, Operand, OperandPart, PlainValue};
use crate::glob;

impl FieldCondition<usize> {
    /// Is it true of an event of this name with these values?
    pub fn is_true<'a>(&self, name: &'a str, value: impl Fn(usize) -> PlainValue<'a> + Copy) -> bool {
        match self {
            FieldCondition::Const(value) => *value,
            FieldCondition::Not(inner) => !inner.is_true(name, value),
            FieldCondition::All(all) => all.iter().all(|one| one.is_true(name, value)),
            FieldCondition::Any(all) => all.iter().any(|one| one.is_true(name, value)),
            FieldCondition::Truth(operand) => match operand.find(name, value) {
                None => false,
                Some(PlainValue::Integer(number)) => number != 0,
                Some(PlainValue::Real(number)) => number != 0.0,
                Some(PlainValue::Bool(value) | PlainValue::List(value)) => value,
                Some(PlainValue::Text(text)) => !text.is_empty(),
            },
            FieldCondition::Compare(left, comparison, right) => {
                let Some(left) = left.find(name, value) else { return false };
                match right {
                    Literal::Operand(right) => {
                        right.find(name, value).is_some_and(|right| holds_between(left, *comparison, right))
                    }
                    right => holds(left, *comparison, right),
                }
            }
        }
    }
}

impl Operand<usize> {
    /// `None` for a mask of something else than integers.
    fn find<'a>(&self, name: &'a str, value: impl Fn(usize) -> PlainValue<'a>) -> Option<PlainValue<'a>> {
        let find = |part: &OperandPart<usize>| match part {
            OperandPart::Name => PlainValue::Text(name.as_bytes()),
            OperandPart::Field(at) => value(*at),
            OperandPart::Number(number) => PlainValue::Integer(*number),
        };
        if let [part] = self.parts.as_slice() {
            return Some(find(part));
        }
        let mut bits = -1;
        for part in &self.parts {
            let PlainValue::Integer(number) = find(part) else { return None };
            bits &= number;
        }
        Some(PlainValue::Integer(bits))
    }
}

/// A value against a literal. Values of another kind are neither equal nor unequal.
fn holds(left: PlainValue<'_>, comparison: Comparison, right: &Literal<usize>) -> bool {
    match (left, right) {
        (PlainValue::Integer(_) | PlainValue::Real(_), Literal::Number(number)) => {
            comparison.is_so(number.order_of(left))
        }
        (PlainValue::Bool(value), Literal::Bool(literal)) => comparison.is_so(Some(value.cmp(literal))),
        (PlainValue::Text(text), Literal::Text(literal)) => comparison.is_so(Some(text.cmp(literal))),
        (PlainValue::Text(text), Literal::Glob(pattern)) => match comparison {
            Comparison::Equal => glob::matches(pattern, text),
            Comparison::NotEqual => !glob::matches(pattern, text),
            _ => false,
        },
        _ => false,
    }
}

fn holds_between(left: PlainValue<'_>, comparison: Comparison, right: PlainValue<'_>) -> bool {
    match (left, right) {
        (PlainValue::Integer(a), PlainValue::Integer(b)) => comparison.is_so(Some(a.cmp(&b))),
        (PlainValue::Real(a), PlainValue::Real(b)) => comparison.is_so(a.partial_cmp(&b)),
        (PlainValue::Integer(a), PlainValue::Real(b)) => comparison.is_so(order_with_real(a, b)),
        (PlainValue::Real(a), PlainValue::Integer(b)) => comparison.is_so(order_with_real(b, a).map(Ordering::reverse)),
        (PlainValue::Text(a), PlainValue::Text(b)) => comparison.is_so(Some(a.cmp(b))),
        (PlainValue::Bool(a), PlainValue::Bool(b)) => {
            matches!(comparison, Comparison::Equal | Comparison::NotEqual) && comparison.is_so(Some(a.cmp(&b)))
        }
        _ => false,
    }
}

impl Comparison {
    /// Does the order fit? `None` stands for NaN, which is unequal to everything.
    fn is_so(self, order: Option<Ordering>) -> bool {
        match self {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl Number {
    /// How a value stands to it.
    fn order_of(&self, value: PlainValue<'_>) -> Option<Ordering> {
        let order = match (value, self.real.filter(|real| real.is_finite())) {
            (PlainValue::Real(value), Some(real)) => return value.partial_cmp(&real),
            (PlainValue::Real(value), None) => order_with_real(self.floor, value)?.reverse(),
            (PlainValue::Integer(value), _) => value.cmp(&self.floor),
            _ => return None,
        };
        match self.has_fraction {
            false => Some(order),
            true => Some(if order.is_le() { Ordering::Less } else { Ordering::Greater }),
        }
    }
}

/// How an integer stands to a float, exactly.
fn order_with_real(integer: i128, real: f64) -> Option<Ordering> {
    const LIMIT: f64 = (1_u128 << 127) as f64;
    if !(-LIMIT..LIMIT).contains(&real) {
        return 0.0.partial_cmp(&real);
    }
    let whole = real.trunc();
    Some(integer.cmp(&(whole as i128)).then(whole.partial_cmp(&real)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(at: usize) -> Operand<usize> {
        Operand { parts: vec![OperandPart::Field(at)] }
    }

    fn number(text: &str) -> Literal<usize> {
        let real: f64 = text.parse().expect("a number");
        let is_integer = !text.contains(['.', 'e']);
        let floor = text.parse().unwrap_or(real.floor() as i128);
        Literal::Number(Number { floor, has_fraction: real.fract() != 0.0, real: (!is_integer).then_some(real) })
    }

    #[test]
    fn numbers_are_compared_exactly() {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let max = i128::from(u64::MAX);
        for (value, comparison, literal, want) in [
            (PlainValue::Integer(max), Equal, "18446744073709551615", true),
            (PlainValue::Integer(max), Equal, "18446744073709551616.0", false),
            (PlainValue::Integer(max), Less, "18446744073709551616.0", true),
            (PlainValue::Integer(-3), Less, "-2.5", true),
            (PlainValue::Integer(-2), Greater, "-2.5", true),
            (PlainValue::Integer(2), Equal, "2.5", false),
            (PlainValue::Integer(2), LessOrEqual, "2.0", true),
            (PlainValue::Real(2.5), Equal, "2.5", true),
            (PlainValue::Real(2.5), Greater, "2", true),
            (PlainValue::Real(f64::NAN), Equal, "2", false),
            (PlainValue::Real(f64::NAN), NotEqual, "2", true),
            (PlainValue::Real(f64::NAN), GreaterOrEqual, "2.0", false),
            (PlainValue::Real(f64::INFINITY), Greater, "1", true),
            (PlainValue::Real(1e300), Greater, "170141183460469231731687303715884105727", true),
            (PlainValue::Bool(true), Equal, "1", false),
            (PlainValue::Bool(true), NotEqual, "1", false),
            (PlainValue::Text(b"1"), Equal, "1", false),
            (PlainValue::List(true), NotEqual, "1", false),
        ] {
            let condition = FieldCondition::Compare(field(0), comparison, number(literal));
            assert_eq!(condition.is_true("", |_| value), want, "{value:?} {comparison:?} {literal}");
        }
        let between = |a: PlainValue<'static>, comparison, b: PlainValue<'static>| {
            let condition = FieldCondition::Compare(field(0), comparison, Literal::Operand(field(1)));
            condition.is_true("", move |at| [a, b][at])
        };
        assert!(
            between(PlainValue::Integer(2), Less, PlainValue::Real(2.5))
                && between(PlainValue::Real(2.5), Less, PlainValue::Integer(3))
        );
        assert!(!between(PlainValue::Bool(false), Less, PlainValue::Bool(true)));
        assert!(between(PlainValue::Text(b"a"), NotEqual, PlainValue::Text(b"b")));
        assert!(!between(PlainValue::Text(b"a"), NotEqual, PlainValue::Integer(1)));
    }

    #[test]
    fn masks_are_of_integers() {
        let mask = |value: PlainValue<'static>| {
            let parts = vec![OperandPart::Field(0), OperandPart::Number(6)];
            let equal = FieldCondition::Compare(Operand { parts }, Comparison::Equal, number("4"));
            equal.is_true("", |_| value)
        };
        assert!(mask(PlainValue::Integer(0xd)) && !mask(PlainValue::Integer(0xf)) && mask(PlainValue::Integer(-4)));
        assert!(!mask(PlainValue::Real(4.0)) && !mask(PlainValue::Bool(true)));
    }

    #[test]
    fn names_and_fields_that_are_missing_are_decided_once() {
        let name = |glob: &str| {
            let operand = Operand { parts: vec![OperandPart::Name] };
            FieldCondition::Compare(operand, Comparison::Equal, Literal::Glob(glob.as_bytes().to_vec()))
        };
        let id = FieldCondition::Truth(Operand { parts: vec![OperandPart::Field("id".to_string())] });
        let both = FieldCondition::All(vec![name("app:*"), id.clone()]);
        assert_eq!(both.bind("lib:x", &["id"]), FieldCondition::Const(false));
        assert_eq!(both.bind("app:x", &["x"]), FieldCondition::Const(false));
        assert_eq!(both.bind("app:x", &["x", "id"]), FieldCondition::All(vec![FieldCondition::Truth(field(1))]));
        let either = FieldCondition::Any(vec![name("app:*"), FieldCondition::Not(Box::new(id))]);
        assert_eq!(either.bind("app:x", &["id"]), FieldCondition::Const(true));
        assert_eq!(either.bind("lib:x", &[]), FieldCondition::Const(true));
        assert_eq!(either.fields(), ["id"]);
        let itself = FieldCondition::Truth(Operand { parts: vec![OperandPart::Name] });
        assert_eq!(itself.bind("x", &[]), FieldCondition::Const(true));
    }
}
