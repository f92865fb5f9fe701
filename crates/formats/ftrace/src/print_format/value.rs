//! Values of the expressions of a `print fmt:` line for a record, and how C and the kernel print them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use tracemill_codec::text::{printf, uuid_text};

use super::{Count, Expr, KernelNames, MAX_ELEMENTS, MAX_WIDTH, PrintFormat, Spec};
use crate::event_format::{Content, ContentPlace, FormatField};

impl Expr {
    /// The value of an expression without fields.
    pub(super) fn constant(&self) -> Option<i128> {
        Some(match self {
            Expr::Number(number) => *number,
            Expr::Unary(sign, of) => unary(sign, of.constant()?),
            Expr::Binary(sign, left, right) => binary(sign, left.constant()?, right.constant()?),
            Expr::Cast(bytes, signed, of) => cast(of.constant()?, *bytes, *signed),
            _ => return None,
        })
    }
}

fn unary(sign: &str, of: i128) -> i128 {
    match sign {
        "-" => of.wrapping_neg(),
        "~" => !of,
        _ => i128::from(of == 0),
    }
}

fn binary(sign: &str, left: i128, right: i128) -> i128 {
    let shift = u32::try_from(right).unwrap_or(64).min(64);
    match sign {
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right).unwrap_or(0),
        "%" => left.checked_rem(right).unwrap_or(0),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "<<" => left.wrapping_shl(shift),
        ">>" => left.wrapping_shr(shift),
        "<" => i128::from(left < right),
        ">" => i128::from(left > right),
        "<=" => i128::from(left <= right),
        ">=" => i128::from(left >= right),
        "==" => i128::from(left == right),
        "!=" => i128::from(left != right),
        "&" => left & right,
        "^" => left ^ right,
        "|" => left | right,
        "&&" => i128::from(left != 0 && right != 0),
        _ => i128::from(left != 0 || right != 0),
    }
}

/// The lowest bytes of a number, with their sign or without.
fn cast(value: i128, bytes: u32, signed: bool) -> i128 {
    let unused = 128 - 8 * bytes.clamp(1, 8);
    if signed { value << unused >> unused } else { (value as u128 & (u128::MAX >> unused)) as i128 }
}

/// Value of an expression for a record.
enum ExprValue<'a> {
    Number(i128),
    Bytes(Cow<'a, [u8]>),
}

/// A record that is printed.
pub(super) struct Record<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) format: &'a PrintFormat,
    pub(super) names: KernelNames<'a>,
}

impl<'a> Record<'a> {
    fn number(&self, expr: &'a Expr) -> i128 {
        match self.value(expr) {
            ExprValue::Number(number) => number,
            ExprValue::Bytes(bytes) => self.format.machine.number(&bytes[..bytes.len().min(8)]).into(),
        }
    }

    fn data(&self, expr: &'a Expr) -> Cow<'a, [u8]> {
        match self.value(expr) {
            ExprValue::Bytes(bytes) => bytes,
            ExprValue::Number(_) => Cow::Borrowed(&[]),
        }
    }

    fn value(&self, expr: &'a Expr) -> ExprValue<'a> {
        ExprValue::Number(match expr {
            Expr::Number(number) => *number,
            Expr::Text(text) => return ExprValue::Bytes(Cow::Borrowed(text.as_bytes())),
            Expr::Field(at) => return self.field(&self.format.fields[*at]),
            Expr::Unary(sign, of) => unary(sign, self.number(of)),
            Expr::Binary(sign, left, right) => binary(sign, self.number(left), self.number(right)),
            Expr::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                return self.value(if self.number(condition) != 0 { yes } else { no });
            }
            Expr::Cast(bytes, signed, of) => cast(self.number(of), *bytes, *signed),
            Expr::Element(of, index) => return ExprValue::Number(self.element(of, self.number(index))),
            Expr::Flags(of, delimiter, list) => {
                return ExprValue::Bytes(Cow::Owned(flags(self.number(of), delimiter, list).into_bytes()));
            }
            Expr::Symbolic(of, list) => {
                let value = self.number(of);
                return ExprValue::Bytes(match list.iter().find(|(known, _)| *known == value) {
                    Some((_, text)) => Cow::Borrowed(text.as_bytes()),
                    None => Cow::Owned(format!("{:#x}", value as u64).into_bytes()),
                });
            }
            Expr::Hex(data, count, between) => {
                let data = self.data(data);
                let count = usize::try_from(self.number(count)).unwrap_or(0).min(data.len()).min(MAX_ELEMENTS);
                let bytes: Vec<String> = data[..count].iter().map(|byte| format!("{byte:02x}")).collect();
                return ExprValue::Bytes(Cow::Owned(bytes.join(between).into_bytes()));
            }
            Expr::Array(parts) => {
                let [data, count, size] = &**parts;
                let size = usize::try_from(self.number(size)).unwrap_or(0).clamp(1, 8);
                let count = usize::try_from(self.number(count)).unwrap_or(0).min(MAX_ELEMENTS);
                let data = self.data(data);
                let elements = data.chunks_exact(size).take(count);
                let elements: Vec<String> =
                    elements.map(|element| format!("{:#x}", self.format.machine.number(element))).collect();
                return ExprValue::Bytes(Cow::Owned(format!("{{{}}}", elements.join(",")).into_bytes()));
            }
            Expr::Len(at) => {
                let field = &self.format.fields[*at];
                field.range(self.bytes, self.format.machine).0.len() as i128
            }
            Expr::BitMask(at) => {
                let bytes = self.format.fields[*at].bytes(self.bytes, self.format.machine);
                return ExprValue::Bytes(Cow::Owned(self.bits(bytes).into_bytes()));
            }
        })
    }

    fn field(&self, field: &FormatField) -> ExprValue<'a> {
        match (field.place, field.content) {
            (ContentPlace::Fixed, Content::Integer(_)) => {
                ExprValue::Number(field.integer(self.bytes, self.format.machine).unwrap_or(0))
            }
            _ => ExprValue::Bytes(Cow::Borrowed(field.bytes(self.bytes, self.format.machine))),
        }
    }

    /// An element of an array, by its number.
    fn element(&self, of: &'a Expr, index: i128) -> i128 {
        let element = match of {
            Expr::Field(at) => match self.format.fields[*at].content {
                Content::Array(element) | Content::Integer(element) => (u32::from(element.bytes), element.signed),
                Content::Text => (1, true),
            },
            Expr::Cast(bytes, signed, _) => (*bytes, *signed),
            _ => (1, false),
        };
        let size = element.0 as usize;
        let data = self.data(of);
        let from = usize::try_from(index).ok().and_then(|index| index.checked_mul(size));
        let bytes = from.and_then(|from| data.get(from..)?.get(..size));
        bytes.map_or(0, |bytes| cast(self.format.machine.number(bytes).into(), element.0, element.1))
    }

    /// The bits that are set in a set of words, as ranges.
    fn bits(&self, bytes: &[u8]) -> String {
        let long = usize::from(self.format.machine.long_bytes);
        let mut set: Vec<usize> = Vec::new();
        for (word, bytes) in bytes.chunks(long).enumerate().take(MAX_ELEMENTS) {
            let value = self.format.machine.number(bytes);
            set.extend((0..bytes.len() * 8).filter(|bit| value >> bit & 1 == 1).map(|bit| word * long * 8 + bit));
        }
        let mut out = String::new();
        let mut at = 0;
        while at < set.len() {
            let mut last = at;
            while set.get(last + 1) == Some(&(set[last] + 1)) {
                last += 1;
            }
            out += if out.is_empty() { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = match last - at {
                0 => write!(out, "{}", set[at]),
                _ => write!(out, "{}-{}", set[at], set[last]),
            };
            at = last + 1;
        }
        out
    }

    pub(super) fn write_value(&self, spec: &'a Spec, value: &'a Expr, out: &mut Vec<u8>) {
        let count = |count: &'a Count| match count {
            Count::None => None,
            Count::Number(number) => Some(i128::from(*number as u64)),
            Count::Value(expr) => Some(cast(self.number(expr), 4, true)),
        };
        let width = count(&spec.width).unwrap_or(0);
        let precision = count(&spec.precision).and_then(|count| usize::try_from(count).ok());
        let of_c = printf::Spec {
            left: spec.of_c.left || width < 0,
            width: width.unsigned_abs().min(MAX_WIDTH.into()) as u16,
            ..spec.of_c
        };
        match spec.of_c.letter {
            b's' => of_c.put_padded(&self.text(value, precision), out),
            b'c' => of_c.put_padded(&[self.number(value) as u8], out),
            b'p' => of_c.put_padded(&self.pointer(&spec.pointer, value), out),
            letter => {
                let number = cast(self.number(value), spec.bytes, matches!(letter, b'd' | b'i'));
                let size = number.unsigned_abs() as u64;
                let base: u64 = match letter {
                    b'x' | b'X' => 16,
                    b'o' => 8,
                    _ => 10,
                };
                // The kernel shows a 0 whatever the precision; more zeros than the largest width are a mistake.
                let most = size.checked_ilog(base).unwrap_or(0) as usize + 1 + usize::from(MAX_WIDTH);
                let precision = precision.map(|precision| precision.clamp(1, most) as u16);
                printf::Spec { precision, ..of_c }.put_integer(number < 0, size, out);
            }
        }
    }

    fn text(&self, value: &'a Expr, precision: Option<usize>) -> Vec<u8> {
        let bytes = match self.value(value) {
            ExprValue::Bytes(bytes) => bytes,
            // A pointer to a text that is not in the record.
            ExprValue::Number(number) => return format!("{:x}", number as u64).into_bytes(),
        };
        let end = memchr::memchr(0, &bytes).unwrap_or(bytes.len());
        bytes[..end.min(precision.unwrap_or(usize::MAX))].to_vec()
    }

    /// `%p` and what may stand after it.
    fn pointer(&self, kind: &str, value: &'a Expr) -> Vec<u8> {
        let group = |data: &[u8], at: usize| data.get(at).copied().unwrap_or(0);
        match kind {
            "s" | "S" | "f" | "F" | "B" | "SR" => {
                let address = self.number(value) as u64;
                let name = (self.names)(address, !matches!(kind, "s" | "f"));
                name.unwrap_or_else(|| format!("{address:#x}")).into_bytes()
            }
            "I4" | "i4" => {
                let data = self.data(value);
                let address = Ipv4Addr::from([0, 1, 2, 3].map(|at| group(&data, at)));
                address.to_string().into_bytes()
            }
            "I6" | "i6" | "I6c" => {
                let data = self.data(value);
                let bytes: [u8; 16] = std::array::from_fn(|at| group(&data, at));
                let between = if kind == "i6" { "" } else { ":" };
                let groups: Vec<String> = bytes.chunks(2).map(|two| format!("{:02x}{:02x}", two[0], two[1])).collect();
                let text = if kind == "I6c" { Ipv6Addr::from(bytes).to_string() } else { groups.join(between) };
                text.into_bytes()
            }
            "M" | "MF" | "m" | "mR" => {
                let data = self.data(value);
                let between = match kind {
                    "M" => ":",
                    "MF" => "-",
                    _ => "",
                };
                let bytes: Vec<String> = (0..6).map(|at| format!("{:02x}", group(&data, at))).collect();
                bytes.join(between).into_bytes()
            }
            "U" | "Ub" | "UB" | "Ul" | "UL" => {
                let data = self.data(value);
                let order: [usize; 16] = match kind {
                    "Ul" | "UL" => [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15],
                    _ => std::array::from_fn(|at| at),
                };
                let text = uuid_text(&order.map(|at| group(&data, at)));
                (if kind.ends_with(['B', 'L']) { text.to_uppercase() } else { text }).into_bytes()
            }
            _ => match self.number(value) as u64 {
                0 => b"(nil)".to_vec(),
                address => format!("{address:#x}").into_bytes(),
            },
        }
    }

    /// All fields, where the line cannot be read.
    pub(super) fn put_fields(&self, out: &mut Vec<u8>) {
        for (at, field) in self.format.fields.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b" " } else { b"" });
            out.extend_from_slice(field.name.as_bytes());
            out.push(b'=');
            let bytes = field.bytes(self.bytes, self.format.machine);
            let text = match (field.content, field.integer(self.bytes, self.format.machine)) {
                (Content::Text, _) => {
                    out.extend_from_slice(&bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]);
                    continue;
                }
                (Content::Integer(element), Some(value)) if element.is_pointer => format!("{:#x}", value as u64),
                (Content::Integer(_), Some(value)) => value.to_string(),
                (Content::Integer(_), None) => String::new(),
                (Content::Array(element), _) => {
                    let values = bytes.chunks_exact(usize::from(element.bytes.max(1))).take(MAX_ELEMENTS);
                    let number = |bytes: &[u8]| {
                        let value = i128::from(self.format.machine.number(bytes));
                        cast(value, element.bytes.into(), element.signed).to_string()
                    };
                    format!("ARRAY[{}]", values.map(number).collect::<Vec<_>>().join(", "))
                }
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// The names of the bits that are set; what has no name is a number.
fn flags(value: i128, delimiter: &str, list: &[(i128, String)]) -> String {
    let mut out = String::new();
    let mut rest = value;
    for (bits, name) in list {
        if value == 0 && *bits == 0 {
            return name.clone();
        }
        if *bits != 0 && rest & bits == *bits {
            out += if out.is_empty() { "" } else { delimiter };
            out += name;
            rest &= !bits;
        }
    }
    if rest != 0 {
        out += if out.is_empty() { "" } else { delimiter };
        let _ = write!(out, "{:#x}", rest as u64);
    }
    out
}
