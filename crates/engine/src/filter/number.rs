//! Numbers of any size, compared exactly.

use std::borrow::Cow;
use std::cmp::Ordering;

use tracemill_codec::bits::{Wide, limbs_of_digits, negate};

use super::syntax::Op;

/// A number of an event.
#[derive(Clone, Debug)]
pub(super) enum EventNumber<'a> {
    Int(i128),
    /// An integer that does not fit 128 bits.
    Wide(Cow<'a, Wide>),
    Real(f64),
}

impl EventNumber<'_> {
    /// The number without a copy of its limbs.
    #[inline]
    pub(super) fn borrowed(&self) -> EventNumber<'_> {
        match self {
            EventNumber::Int(value) => EventNumber::Int(*value),
            EventNumber::Wide(wide) => EventNumber::Wide(Cow::Borrowed(wide)),
            EventNumber::Real(value) => EventNumber::Real(*value),
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        match self {
            EventNumber::Int(value) => *value == 0,
            EventNumber::Wide(_) => false,
            EventNumber::Real(value) => *value == 0.0,
        }
    }

    /// `None` when one of them is no number (NaN).
    pub(super) fn compare(&self, other: &EventNumber) -> Option<Ordering> {
        match (self, other) {
            (EventNumber::Real(a), EventNumber::Real(b)) => a.partial_cmp(b),
            (EventNumber::Real(real), int) => compare_with_real(int, *real).map(Ordering::reverse),
            (int, EventNumber::Real(real)) => compare_with_real(int, *real),
            (a, b) => Some(compare_integers(a, b)),
        }
    }

    /// The bits that both have, `None` when one is no integer. Negative numbers have endless ones on the left.
    pub(super) fn mask(&self, other: &EventNumber) -> Option<EventNumber<'static>> {
        if let (EventNumber::Int(a), EventNumber::Int(b)) = (self, other) {
            return Some(EventNumber::Int(a & b));
        }
        let (a, b) = (self.to_wide()?, other.to_wide()?);
        let len = a.limbs.len().max(b.limbs.len()) + 1;
        let limbs = (0..len).map(|at| a.limb(at) & b.limb(at)).collect();
        Some(from_wide(Wide { limbs, signed: true }))
    }

    /// Is the bit set? Bits beyond 127 are asked of wide numbers only.
    pub(super) fn has_bit_in(&self, low: i128, high: i128) -> bool {
        match self {
            EventNumber::Int(value) => (low.max(0)..=high.min(127)).any(|bit| value >> bit & 1 == 1),
            EventNumber::Wide(wide) => wide.has_bit_in(low, high),
            EventNumber::Real(_) => false,
        }
    }

    fn to_wide(&self) -> Option<Cow<'_, Wide>> {
        Some(match *self {
            EventNumber::Int(value) => {
                Cow::Owned(Wide { limbs: vec![value as u64, (value >> 64) as u64], signed: true })
            }
            EventNumber::Wide(ref wide) => Cow::Borrowed(wide),
            EventNumber::Real(_) => return None,
        })
    }
}

/// The number in its smallest form.
pub(super) fn from_wide(wide: Wide) -> EventNumber<'static> {
    match wide.to_i128() {
        Some(value) => EventNumber::Int(value),
        None => EventNumber::Wide(Cow::Owned(wide)),
    }
}

fn compare_integers(a: &EventNumber, b: &EventNumber) -> Ordering {
    if let (EventNumber::Int(a), EventNumber::Int(b)) = (a, b) {
        return a.cmp(b);
    }
    let (Some(a), Some(b)) = (a.to_wide(), b.to_wide()) else { return Ordering::Equal };
    let len = a.limbs.len().max(b.limbs.len());
    // Of two numbers with the same sign the one with the larger two's complement is larger.
    b.is_negative().cmp(&a.is_negative()).then_with(|| {
        (0..len).rev().map(|at| a.limb(at).cmp(&b.limb(at))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    })
}

const TWO_POW_127: f64 = (1u128 << 127) as f64;

fn compare_with_real(int: &EventNumber, real: f64) -> Option<Ordering> {
    if real.is_nan() {
        return None;
    }
    if real.is_infinite() {
        return 0.0.partial_cmp(&real);
    }
    let whole = real.trunc();
    let whole_number = if (-TWO_POW_127..TWO_POW_127).contains(&whole) {
        EventNumber::Int(whole as i128)
    } else {
        from_wide(wide_of_real(whole))
    };
    let order = compare_integers(int, &whole_number);
    Some(order.then_with(|| whole.partial_cmp(&real).unwrap_or(Ordering::Equal)))
}

/// A whole number of at least 2^127 as limbs: 53 bits and zeros.
fn wide_of_real(real: f64) -> Wide {
    let bits = real.abs().to_bits();
    let shift = ((bits >> 52) as usize).saturating_sub(1075);
    let significand = u128::from(bits & ((1 << 52) - 1) | 1 << 52) << (shift % 64);
    let mut limbs = vec![0u64; shift / 64];
    limbs.extend([significand as u64, (significand >> 64) as u64, 0]);
    if real < 0.0 {
        negate(&mut limbs);
    }
    Wide { limbs, signed: true }
}

/// A number in an expression: it keeps its exact value for integers, and the nearest float for floats, so that what
/// a JSON line shows for a float can be written in a filter.
#[derive(Clone, Debug)]
pub(super) struct NumberLiteral {
    /// The largest integer that is not above it.
    floor: EventNumber<'static>,
    has_fraction: bool,
    /// Written with a point or an exponent.
    real: Option<f64>,
}

/// Digits beyond this are refused, in a number or by its exponent.
const MAX_DIGITS: usize = 5000;

impl NumberLiteral {
    /// Reads a number; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<NumberLiteral, String> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let lower = digits.to_ascii_lowercase();
        for (prefix, base, name) in [("0x", 16, "hexadecimal"), ("0o", 8, "octal"), ("0b", 2, "binary")] {
            if let Some(digits) = lower.strip_prefix(prefix) {
                let bad = || format!("`{text}` is no {name} number");
                return big(digits, base, negative, bad).map(NumberLiteral::integer);
            }
        }
        let bad = || format!("`{text}` is not a number");
        if digits.len() > 1 && digits.starts_with('0') && !lower.contains(['.', 'e']) {
            let octal = digits.trim_start_matches('0');
            let sign = if negative { "-" } else { "" };
            return Err(format!("`{text}` begins with 0; write `{sign}0o{octal}` or `{sign}{octal}`"));
        }
        if !lower.contains(['.', 'e']) {
            return big(digits, 10, negative, bad).map(NumberLiteral::integer);
        }
        NumberLiteral::decimal(&lower, negative).ok_or_else(bad)
    }

    fn integer(floor: EventNumber<'static>) -> Self {
        NumberLiteral { floor, has_fraction: false, real: None }
    }

    fn decimal(text: &str, negative: bool) -> Option<Self> {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let has_shape = !whole.is_empty() && are_digits(whole) && are_digits(fraction) && !mantissa.ends_with('.');
        let exponent: i64 = exponent.parse().ok().filter(|_| has_shape)?;
        let real: f64 = text.parse().ok()?;
        let mut digits = format!("{whole}{fraction}");
        let point = whole.len() as i64 + exponent;
        if point.unsigned_abs() as usize > MAX_DIGITS || digits.len() > MAX_DIGITS {
            return None;
        }
        if point > digits.len() as i64 {
            digits += &"0".repeat(point as usize - digits.len());
        }
        let (whole, rest) = digits.split_at(point.max(0) as usize);
        let has_fraction = rest.bytes().any(|byte| byte != b'0');
        let mut floor = big(whole, 10, negative, String::new).unwrap_or(EventNumber::Int(0));
        if negative && has_fraction {
            floor = minus_one(&floor);
        }
        Some(NumberLiteral { floor, has_fraction, real: Some(if negative { -real } else { real }) })
    }

    /// Is it written as an integer?
    pub(super) fn is_integer(&self) -> bool {
        self.real.is_none()
    }

    /// Is it between two integers?
    pub(super) fn has_fraction(&self) -> bool {
        self.has_fraction
    }

    /// The nearest float, when it is written with a point or an exponent.
    pub(super) fn real(&self) -> Option<f64> {
        self.real
    }

    /// Its exact value when it is an integer, otherwise the one below.
    pub(super) fn floor(&self) -> &EventNumber<'static> {
        &self.floor
    }

    /// How a number stands to it; `None` for NaN.
    pub(super) fn compare(&self, number: &EventNumber) -> Option<Ordering> {
        if let (EventNumber::Real(value), Some(real)) = (number, self.real.filter(|real| real.is_finite())) {
            return value.partial_cmp(&real);
        }
        let order = number.compare(&self.floor)?;
        if !self.has_fraction {
            return Some(order);
        }
        Some(if order.is_le() { Ordering::Less } else { Ordering::Greater })
    }

    /// Integers that compare with it as the operator wants: the first and the last, `None` for no bound.
    pub(super) fn bounds(&self, op: Op) -> (Option<i128>, Option<i128>) {
        let floor = match &self.floor {
            EventNumber::Int(value) => (*value).clamp(i128::MIN + 2, i128::MAX - 2),
            number if number.compare(&EventNumber::Int(0)) == Some(Ordering::Less) => i128::MIN + 2,
            _ => i128::MAX - 2,
        };
        bounds_of(op, floor, self.has_fraction)
    }
}

/// Integers that compare as the operator wants with an integer, or with a number between it and the next: the first and
/// the last, `None` for no bound.
pub(super) fn bounds_of(op: Op, floor: i128, has_fraction: bool) -> (Option<i128>, Option<i128>) {
    let above = floor + 1;
    let (at_least, below) = if has_fraction { (above, floor) } else { (floor, floor - 1) };
    match op {
        Op::Equal => (Some(at_least), Some(floor)),
        Op::Less => (None, Some(below)),
        Op::LessOrEqual => (None, Some(floor)),
        Op::Greater => (Some(above), None),
        Op::GreaterOrEqual => (Some(at_least), None),
        Op::NotEqual | Op::Match => (None, None),
    }
}

fn minus_one(number: &EventNumber<'static>) -> EventNumber<'static> {
    match number {
        EventNumber::Int(value) if *value > i128::MIN => EventNumber::Int(value - 1),
        number => {
            let Some(wide) = number.to_wide() else { return number.clone() };
            let mut limbs: Vec<u64> = (0..=wide.limbs.len()).map(|at| wide.limb(at)).collect();
            let mut borrow = true;
            for limb in &mut limbs {
                (*limb, borrow) = limb.overflowing_sub(u64::from(borrow));
            }
            from_wide(Wide { limbs, signed: true })
        }
    }
}

/// The integer of some digits. Takes time in the square of their number.
fn big(digits: &str, base: u32, negative: bool, bad: impl Fn() -> String) -> Result<EventNumber<'static>, String> {
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.chars().all(|c| c.is_digit(base)) {
        return Err(bad());
    }
    let mut limbs = limbs_of_digits(digits.chars().filter_map(|c| c.to_digit(base)), base);
    // Room for the sign.
    limbs.extend([0, 0]);
    if negative {
        negate(&mut limbs);
    }
    Ok(from_wide(Wide { limbs, signed: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> NumberLiteral {
        NumberLiteral::parse(text).unwrap()
    }

    fn order(number: EventNumber, text: &str) -> Option<Ordering> {
        literal(text).compare(&number)
    }

    #[test]
    fn literals_of_every_base() {
        for (text, value) in [
            ("0", 0),
            ("-17", -17),
            ("0x1F", 31),
            ("-0xff", -255),
            ("0o17", 15),
            ("0b101", 5),
            ("18446744073709551616", 1 << 64),
            ("1e3", 1000),
            ("2.50e1", 25),
            ("-170141183460469231731687303715884105728", i128::MIN),
        ] {
            assert_eq!(order(EventNumber::Int(value), text), Some(Ordering::Equal), "{text}");
        }
    }

    #[test]
    fn bad_literals() {
        for text in ["0x", "0xg", "0o8", "0b2", "017", "1_000", "5ns", "1.5.2", "1e", "1e99999", "12ab", "-00"] {
            assert!(NumberLiteral::parse(text).is_err(), "{text}");
        }
        assert!(NumberLiteral::parse("017").unwrap_err().contains("`0o17`"));
    }

    #[test]
    fn integers_and_fractions() {
        for (value, text, want) in [
            (1, "1.5", Ordering::Less),
            (2, "1.5", Ordering::Greater),
            (-1, "-1.5", Ordering::Greater),
            (-2, "-1.5", Ordering::Less),
            (9007199254740993, "9007199254740993.5", Ordering::Less),
            (9007199254740994, "9007199254740993.5", Ordering::Greater),
            (0, "0.0000001", Ordering::Less),
            (0, "1e-20", Ordering::Less),
            (0, "-1e-20", Ordering::Greater),
        ] {
            assert_eq!(order(EventNumber::Int(value), text), Some(want), "{value} {text}");
        }
    }

    #[test]
    fn floats_compare_exactly() {
        assert_eq!(order(EventNumber::Real(9007199254740992.0), "9007199254740993"), Some(Ordering::Less));
        assert_eq!(order(EventNumber::Real(0.1), "0.1"), Some(Ordering::Equal));
        assert_eq!(order(EventNumber::Real(f64::from(0.1f32)), "0.1"), Some(Ordering::Greater));
        assert_eq!(order(EventNumber::Real(f64::from(0.1f32)), "0.10000000149011612"), Some(Ordering::Equal));
        assert_eq!(order(EventNumber::Real(1e23), "1e23"), Some(Ordering::Equal));
        assert_eq!(order(EventNumber::Real(1.5), "1"), Some(Ordering::Greater));
        assert_eq!(order(EventNumber::Real(-1.5), "-1"), Some(Ordering::Less));
        assert_eq!(order(EventNumber::Real(f64::INFINITY), "1e400"), Some(Ordering::Greater));
        assert_eq!(order(EventNumber::Real(f64::NAN), "1"), None);
        assert_eq!(order(EventNumber::Real(1e300), &format!("1{}", "0".repeat(300))), Some(Ordering::Greater));
        assert_eq!(
            order(EventNumber::Real(-TWO_POW_127 * 4.0), "-680564733841876926926749214863536422912"),
            Some(Ordering::Equal)
        );
    }

    #[test]
    fn wide_numbers_compare_and_mask() {
        let power = |bits: usize, signed: bool| {
            let mut limbs = vec![0; bits / 64 + 1];
            limbs[bits / 64] = 1 << (bits % 64);
            from_wide(Wide { limbs, signed })
        };
        let below = from_wide(Wide { limbs: vec![0, 0, u64::MAX], signed: true });
        let (a, b) = (power(130, false), power(191, false));
        assert_eq!(a.compare(&b), Some(Ordering::Less));
        assert_eq!(below.compare(&a), Some(Ordering::Less));
        assert_eq!(below.compare(&EventNumber::Int(i128::MIN)), Some(Ordering::Less));
        assert_eq!(b.compare(&EventNumber::Int(i128::MAX)), Some(Ordering::Greater));
        assert_eq!(order(a.clone(), "1361129467683753853853498429727072845824"), Some(Ordering::Equal));
        assert_eq!(order(b.clone(), "3.138550867693340e57"), Some(Ordering::Greater));
        assert_eq!(below.mask(&a).unwrap().compare(&a), Some(Ordering::Equal));
        assert_eq!(b.mask(&EventNumber::Int(-1)).unwrap().compare(&b), Some(Ordering::Equal));
        assert_eq!(a.mask(&EventNumber::Int(255)).unwrap().compare(&EventNumber::Int(0)), Some(Ordering::Equal));
        assert!(a.mask(&EventNumber::Real(1.0)).is_none());
        assert!(a.has_bit_in(130, 500) && !a.has_bit_in(0, 129));
    }
}
