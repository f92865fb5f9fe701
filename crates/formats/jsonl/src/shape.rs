//! Shapes of values, made field classes: what the values of a field are in all lines of its class.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::bits::{limbs_of_digits, negate};
use tracemill_codec::text::put_from_base64;
use tracemill_model::schema::{
    ArrayClass, BitsClass, BlobClass, ByteOrder, FieldClass, FieldClassId, FieldKind, FloatClass, IntegerClass, Length,
    Mapping, Member, RenderedClass, Schema, StringClass, StructClass,
};

use super::tape::{Kind, Token};

/// Larger integers are not read.
const MAX_INT_BITS: u32 = 1024;
/// Values of an enumeration whose labels are kept; with more of them it is a structure of a number and texts.
const MAX_ENUM_VALUES: usize = 1 << 14;

/// Kind of the values of a field.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Shape {
    /// Always `null`.
    Null,
    Bool,
    Int(IntRange),
    Float,
    Text,
    /// Only `"NaN"` and the like so far: floats or strings.
    Special,
    Blob(Arc<str>),
    Enum(Box<Enum>),
    Struct(Vec<Named>),
    /// A list of values, each with a shape of its own.
    Tuple(Vec<Shape>),
    /// `None` while all are empty.
    Array(Option<Box<Shape>>),
}

/// A member of a structure.
type Named = (Arc<str>, Shape);

/// Integers of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct IntRange {
    is_signed: bool,
    /// Bits of the largest one, with its sign.
    bits: u32,
}

/// An enumeration.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Enum {
    range: IntRange,
    /// Labels of values, in the order in which the values were met.
    values: Vec<(i128, Vec<Arc<str>>)>,
    by_value: HashMap<i128, usize>,
    /// It has too many values, or one value has other labels in another line.
    is_loose: bool,
}

/// The tokens of a value, and where the walk over them is.
pub(super) struct Walk<'a> {
    pub(super) line: &'a [u8],
    pub(super) tokens: &'a [Token],
    pub(super) at: usize,
}

/// The reason for which a value is not one of its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// An integer of too many digits.
    Large,
    /// A string that holds U+0000.
    Zero,
    /// The value is of another shape.
    Other,
}

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        let reason = match refused {
            Refused::Large => "an integer has more than 1,024 bits",
            Refused::Zero => "a string holds the character U+0000",
            Refused::Other => "the values are not those of the other lines of the class",
        };
        reason.into()
    }
}

impl Walk<'_> {
    fn next(&mut self) -> Result<Token, Refused> {
        let token = self.tokens.get(self.at).copied().ok_or(Refused::Other)?;
        self.at += 1;
        Ok(token)
    }

    fn peek(&self, ahead: usize) -> Option<Token> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn string(&mut self) -> Result<Arc<str>, Refused> {
        let token = self.next()?;
        if !matches!(token.kind, Kind::Text | Kind::Escaped | Kind::Special | Kind::Key) {
            return Err(Refused::Other);
        }
        Ok(text(&token, self.line))
    }

    /// Is the object at hand one of these two members? Numbers of the tokens of their values.
    fn has_members(&self, first: &[u8], second: &[u8]) -> bool {
        let is_key = |ahead, name| {
            self.peek(ahead).is_some_and(|token| token.kind == Kind::Key && token.bytes(self.line) == name)
        };
        self.peek(0).is_some_and(|token| token.kind == Kind::Object && token.to == 2)
            && is_key(1, first)
            && is_key(3, second)
    }

    fn is_enum(&self) -> bool {
        self.has_members(b"value", b"labels")
            && self.peek(2).is_some_and(|token| token.kind == Kind::Int && i128_of(token.bytes(self.line)).is_some())
            && self
                .peek(4)
                .is_some_and(|token| token.kind == Kind::Array && (0..token.to as usize).all(|at| self.is_text(5 + at)))
    }

    fn is_text(&self, ahead: usize) -> bool {
        self.peek(ahead).is_some_and(|token| matches!(token.kind, Kind::Text | Kind::Escaped))
    }

    fn blob_type(&self) -> Option<Arc<str>> {
        if !self.has_members(b"media_type", b"base64") || !self.is_text(2) || self.peek(4)?.kind != Kind::Text {
            return None;
        }
        put_from_base64(self.peek(4)?.bytes(self.line), &mut Vec::new())?;
        Some(text(&self.peek(2)?, self.line))
    }
}

fn text(token: &Token, line: &[u8]) -> Arc<str> {
    let has_escapes = token.kind == Kind::Escaped || token.kind == Kind::Key && token.bytes(line).contains(&b'\\');
    let token = Token { kind: if has_escapes { Kind::Escaped } else { Kind::Text }, ..*token };
    String::from_utf8_lossy(&token.text(line)).into()
}

impl Shape {
    /// The shape of a value, and how many shapes are in it.
    pub(super) fn of(walk: &mut Walk<'_>, count: &mut usize) -> Result<Shape, Refused> {
        *count += 1;
        if walk.is_enum() {
            let mut own = Enum::default();
            own.add(walk)?;
            return Ok(Shape::Enum(Box::new(own)));
        }
        if let Some(media_type) = walk.blob_type() {
            walk.at += 5;
            return Ok(Shape::Blob(media_type));
        }
        let token = walk.next()?;
        Ok(match token.kind {
            Kind::Null => Shape::Null,
            Kind::Bool => Shape::Bool,
            Kind::Int => {
                let mut range = IntRange::default();
                range.add(token.bytes(walk.line))?;
                Shape::Int(range)
            }
            Kind::Float => Shape::Float,
            Kind::Text | Kind::Escaped => {
                check_text(&token, walk.line)?;
                Shape::Text
            }
            Kind::Special => Shape::Special,
            Kind::Object => {
                let member = |_| Ok((walk.string()?, Shape::of(walk, count)?));
                Shape::Struct((0..token.to).map(member).collect::<Result<_, _>>()?)
            }
            Kind::Tuple => Shape::Tuple((0..token.to).map(|_| Shape::of(walk, count)).collect::<Result<_, _>>()?),
            Kind::Array if token.to == 0 => Shape::Array(None),
            Kind::Array => {
                let mut element = Shape::of(walk, count)?;
                for _ in 1..token.to {
                    element.add(walk)?;
                }
                Shape::Array(Some(Box::new(element)))
            }
            Kind::Key => return Err(Refused::Other),
        })
    }

    /// Takes in another value of the same mark.
    pub(super) fn add(&mut self, walk: &mut Walk<'_>) -> Result<(), Refused> {
        match self {
            Shape::Enum(own) if walk.is_enum() => return own.add(walk),
            Shape::Enum(_) => {}
            Shape::Blob(of) => match walk.blob_type() {
                Some(media_type) if media_type == *of => {
                    walk.at += 5;
                    return Ok(());
                }
                _ => {}
            },
            _ => {
                let token = walk.next()?;
                return match (self, token.kind) {
                    (Shape::Null, Kind::Null) | (Shape::Bool, Kind::Bool) | (Shape::Special, Kind::Special) => Ok(()),
                    (Shape::Float, Kind::Float | Kind::Special) => Ok(()),
                    (Shape::Text, Kind::Text | Kind::Escaped | Kind::Special) => check_text(&token, walk.line),
                    (Shape::Int(range), Kind::Int) => range.add(token.bytes(walk.line)),
                    (Shape::Struct(members), Kind::Object) if members.len() == token.to as usize => {
                        for (_, member) in members {
                            walk.at += 1;
                            member.add(walk)?;
                        }
                        Ok(())
                    }
                    (Shape::Tuple(items), Kind::Tuple) if items.len() == token.to as usize => {
                        items.iter_mut().try_for_each(|item| item.add(walk))
                    }
                    (Shape::Array(None), Kind::Array) if token.to == 0 => Ok(()),
                    (Shape::Array(Some(element)), Kind::Array) => (0..token.to).try_for_each(|_| element.add(walk)),
                    _ => Err(Refused::Other),
                };
            }
        }
        // An enumeration or blob that is none in another line: what it looks like, a structure.
        let mut structure = self.as_struct();
        structure.add(walk)?;
        *self = structure;
        Ok(())
    }

    /// The structure that an enumeration or a blob is written as.
    fn as_struct(&self) -> Shape {
        let strings = || Shape::Array(Some(Box::new(Shape::Text)));
        match self {
            Shape::Enum(own) => {
                Shape::Struct(vec![("value".into(), Shape::Int(own.range)), ("labels".into(), strings())])
            }
            Shape::Blob(_) => Shape::Struct(vec![("media_type".into(), Shape::Text), ("base64".into(), Shape::Text)]),
            other => other.clone(),
        }
    }

    /// One shape for the values of both, when there is one that shows them as they are.
    pub(super) fn join(&self, other: &Shape) -> Option<Shape> {
        Some(match (self, other) {
            (Shape::Int(a), Shape::Int(b)) => Shape::Int(a.join(*b)),
            (Shape::Special, Shape::Float | Shape::Text) => other.clone(),
            (Shape::Float | Shape::Text, Shape::Special) => self.clone(),
            (Shape::Enum(a), Shape::Enum(b)) => Shape::Enum(Box::new(a.join(b))),
            (Shape::Struct(a), Shape::Struct(b)) if a.len() == b.len() => {
                let member = |(a, b): (&Named, &Named)| {
                    let joined = if a.0 == b.0 { a.1.join(&b.1) } else { None };
                    Some((a.0.clone(), joined?))
                };
                Shape::Struct(a.iter().zip(b).map(member).collect::<Option<_>>()?)
            }
            (Shape::Enum(_) | Shape::Blob(_), Shape::Struct(_)) => return self.as_struct().join(other),
            (Shape::Struct(_), Shape::Enum(_) | Shape::Blob(_)) => return self.join(&other.as_struct()),
            (Shape::Tuple(a), Shape::Tuple(b)) if a.len() == b.len() => {
                Shape::Tuple(a.iter().zip(b).map(|(a, b)| a.join(b)).collect::<Option<_>>()?)
            }
            (Shape::Array(None), Shape::Array(_)) => other.clone(),
            (Shape::Array(_), Shape::Array(None)) => self.clone(),
            (Shape::Array(Some(a)), Shape::Array(Some(b))) => Shape::Array(Some(Box::new(a.join(b)?))),
            (a, b) if a == b => a.clone(),
            _ => return None,
        })
    }

    /// Makes enumerations that cannot be one structures; to be called when all lines are known.
    pub(super) fn finish(&mut self) {
        match self {
            Shape::Enum(own) if own.is_loose => *self = self.as_struct(),
            Shape::Struct(members) => members.iter_mut().for_each(|(_, member)| member.finish()),
            Shape::Tuple(items) => items.iter_mut().for_each(Shape::finish),
            Shape::Array(Some(element)) => element.finish(),
            _ => {}
        }
    }

    /// Its field class.
    pub(super) fn class(&self, schema: &mut Schema) -> FieldClassId {
        let kind = match self {
            Shape::Null => FieldKind::Rendered(RenderedClass { len_bytes: 1, render: Arc::new(None::<Arc<str>>) }),
            Shape::Bool => FieldKind::Boolean(BitsClass::new(8, ByteOrder::Little)),
            Shape::Int(range) => FieldKind::Integer(range.class()),
            Shape::Float => FieldKind::Float(FloatClass::new(64, ByteOrder::Little)),
            Shape::Text | Shape::Special => FieldKind::String(StringClass::utf8()),
            Shape::Blob(media_type) => {
                let length = length(schema);
                FieldKind::Blob(BlobClass { length, media_type: media_type.clone() })
            }
            Shape::Enum(own) => {
                FieldKind::Integer(IntegerClass { mappings: Some(own.mappings()), ..own.range.class() })
            }
            Shape::Struct(members) => {
                let member = |(name, shape): &Named| Member::new(name.clone(), shape.class(schema));
                FieldKind::Struct(StructClass { members: members.iter().map(member).collect() })
            }
            Shape::Tuple(items) => {
                let items = items.iter().enumerate().map(|(at, item)| Member::of_tuple(at, item.class(schema)));
                FieldKind::Struct(StructClass { members: items.collect() })
            }
            Shape::Array(element) => {
                let element = element.as_deref().unwrap_or(&Shape::Text).class(schema);
                FieldKind::Array(ArrayClass { element, length: length(schema) })
            }
        };
        schema.add_field_class(FieldClass::new(kind, 8))
    }

    /// Appends a value as its field class has it.
    pub(super) fn encode(&self, walk: &mut Walk<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        if let Shape::Enum(own) = self {
            // Key, number, key, list, labels.
            let number = walk.peek(2).ok_or(Refused::Other)?;
            let labels = walk.peek(4).ok_or(Refused::Other)?;
            if number.kind != Kind::Int || labels.kind != Kind::Array {
                return Err(Refused::Other);
            }
            walk.at += 5 + labels.to as usize;
            return own.range.encode(number.bytes(walk.line), out);
        }
        if let Shape::Blob(_) = self {
            let token = walk.peek(4).filter(|token| token.kind == Kind::Text).ok_or(Refused::Other)?;
            walk.at += 5;
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            put_from_base64(token.bytes(walk.line), out).ok_or(Refused::Other)?;
            let len = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&len.to_le_bytes());
            return Ok(());
        }
        let token = walk.next()?;
        match (self, token.kind) {
            (Shape::Null, Kind::Null) => out.push(0),
            (Shape::Bool, Kind::Bool) => out.push(token.to as u8),
            (Shape::Int(range), Kind::Int) => range.encode(token.bytes(walk.line), out)?,
            (Shape::Float, Kind::Float | Kind::Special) => {
                let value = std::str::from_utf8(token.bytes(walk.line)).ok().and_then(|text| text.parse().ok());
                out.extend_from_slice(&value.unwrap_or(f64::NAN).to_le_bytes());
            }
            (Shape::Text | Shape::Special, Kind::Text | Kind::Special | Kind::Escaped) => {
                // A zero would end the text, and what follows it would be taken for other fields.
                check_text(&token, walk.line)?;
                out.extend_from_slice(&token.text(walk.line));
                out.push(0);
            }
            (Shape::Struct(members), Kind::Object) if members.len() == token.to as usize => {
                for (_, member) in members {
                    walk.at += 1;
                    member.encode(walk, out)?;
                }
            }
            (Shape::Tuple(items), Kind::Tuple | Kind::Array) if items.len() == token.to as usize => {
                items.iter().try_for_each(|item| item.encode(walk, out))?;
            }
            (Shape::Array(element), Kind::Array | Kind::Tuple) => {
                out.extend_from_slice(&token.to.to_le_bytes());
                let element = element.as_deref().unwrap_or(&Shape::Null);
                (0..token.to).try_for_each(|_| element.encode(walk, out))?;
            }
            _ => return Err(Refused::Other),
        }
        Ok(())
    }
}

/// The length of an array or a blob: 32 bits before its elements.
fn length(schema: &mut Schema) -> Length {
    let class = FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(32)), 8);
    Length::Inline(schema.add_field_class(class))
}

fn check_text(token: &Token, line: &[u8]) -> Result<(), Refused> {
    let has_zero = token.kind == Kind::Escaped && token.text(line).contains(&0);
    if has_zero { Err(Refused::Zero) } else { Ok(()) }
}

/// Is a number negative? And its digits.
fn without_sign(number: &[u8]) -> (bool, &[u8]) {
    match number.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, number),
    }
}

/// An integer of at most 127 bits.
pub(super) fn i128_of(digits: &[u8]) -> Option<i128> {
    let (is_negative, digits) = without_sign(digits);
    if digits.len() <= 18 {
        let value = digits.iter().fold(0i64, |value, &digit| value * 10 + i64::from(digit & 15));
        return Some(i128::from(if is_negative { -value } else { value }));
    }
    let mut value = 0i128;
    for &digit in digits {
        value = value.checked_mul(10)?.checked_add(i128::from(digit & 15))?;
    }
    Some(if is_negative { -value } else { value })
}

/// An integer of any size in two's complement, little-endian, of so many limbs.
fn limbs_of(digits: &[u8], count: usize) -> Option<Vec<u64>> {
    let (is_negative, digits) = without_sign(digits);
    // A limb has at most 20 digits.
    let digits = Some(digits).filter(|digits| digits.len() <= count * 20)?;
    let mut limbs = limbs_of_digits(digits.iter().map(|&digit| u32::from(digit & 15)), 10);
    if limbs.len() > count {
        return None;
    }
    limbs.resize(count, 0);
    if is_negative {
        negate(&mut limbs);
    }
    Some(limbs)
}

impl IntRange {
    fn add(&mut self, digits: &[u8]) -> Result<(), Refused> {
        let own = match i128_of(digits) {
            Some(value) if value < 0 => IntRange { is_signed: true, bits: 129 - (!value).leading_zeros() },
            Some(value) => IntRange { is_signed: false, bits: 128 - value.leading_zeros() },
            None if digits.len() > MAX_INT_BITS as usize / 3 => return Err(Refused::Large),
            None => {
                let (is_signed, digits) = without_sign(digits);
                let magnitude = limbs_of(digits, MAX_INT_BITS as usize / 64).ok_or(Refused::Large)?;
                let top = magnitude.iter().rposition(|&limb| limb != 0).unwrap_or(0);
                let bits = top as u32 * 64 + 64 - magnitude[top].leading_zeros();
                IntRange { is_signed, bits: bits + u32::from(is_signed) }
            }
        };
        // A number that is refused leaves the class as it was.
        let joined = self.join(own);
        if joined.len_bits() > MAX_INT_BITS {
            return Err(Refused::Large);
        }
        *self = joined;
        Ok(())
    }

    fn join(self, other: IntRange) -> IntRange {
        // An unsigned number among signed ones needs a bit for its sign.
        let is_signed = self.is_signed || other.is_signed;
        let bits = |of: IntRange| of.bits + u32::from(is_signed && !of.is_signed);
        IntRange { is_signed, bits: bits(self).max(bits(other)) }
    }

    fn len_bits(self) -> u32 {
        match self.bits {
            0..=8 => 8,
            9..=16 => 16,
            17..=32 => 32,
            bits => bits.next_multiple_of(64),
        }
    }

    fn class(self) -> IntegerClass {
        IntegerClass { signed: self.is_signed, ..IntegerClass::unsigned(self.len_bits()) }
    }

    #[inline]
    fn encode(self, digits: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let len_bits = self.len_bits();
        if len_bits <= 64
            && let Some(value) = i128_of(digits)
        {
            let bytes = (value as u64).to_le_bytes();
            out.extend_from_slice(&bytes[..len_bits as usize / 8]);
            return Ok(());
        }
        let limbs = limbs_of(digits, len_bits as usize / 64).ok_or(Refused::Large)?;
        limbs.iter().for_each(|limb| out.extend_from_slice(&limb.to_le_bytes()));
        Ok(())
    }
}

impl Enum {
    fn add(&mut self, walk: &mut Walk<'_>) -> Result<(), Refused> {
        let number = walk.peek(2).ok_or(Refused::Other)?;
        self.range.add(number.bytes(walk.line))?;
        let value = i128_of(number.bytes(walk.line)).ok_or(Refused::Other)?;
        let list = walk.peek(4).ok_or(Refused::Other)?;
        if let Some((_, labels)) = self.by_value.get(&value).and_then(|&at| self.values.get(at)) {
            let is_label = |(at, label): (usize, &Arc<str>)| {
                walk.peek(5 + at).is_some_and(|token| *token.text(walk.line) == *label.as_bytes())
            };
            self.is_loose |= labels.len() != list.to as usize || !labels.iter().enumerate().all(is_label);
            walk.at += 5 + list.to as usize;
            return Ok(());
        }
        walk.at += 5;
        let labels = (0..list.to).map(|_| walk.string()).collect::<Result<_, _>>()?;
        self.put(value, labels);
        Ok(())
    }

    fn put(&mut self, value: i128, labels: Vec<Arc<str>>) {
        match self.by_value.get(&value) {
            Some(&at) => self.is_loose |= self.values[at].1 != labels,
            None if self.values.len() >= MAX_ENUM_VALUES => self.is_loose = true,
            None => {
                self.by_value.insert(value, self.values.len());
                self.values.push((value, labels));
            }
        }
    }

    fn join(&self, other: &Enum) -> Enum {
        let mut joined = self.clone();
        joined.range = joined.range.join(other.range);
        joined.is_loose |= other.is_loose;
        for (value, labels) in &other.values {
            joined.put(*value, labels.clone());
        }
        joined
    }

    /// The labels with their values. Where two values have the same two labels in different orders, each value has its
    /// own.
    fn mappings(&self) -> Arc<[Mapping]> {
        let mut known: HashMap<&Arc<str>, usize> = HashMap::new();
        let mut joined: Vec<Mapping> = Vec::new();
        let mut is_ordered = true;
        let mut values: Vec<&(i128, Vec<Arc<str>>)> = self.values.iter().collect();
        values.sort_by_key(|(value, _)| *value);
        for (value, labels) in &values {
            let mut last = None;
            for label in labels {
                let at = *known.entry(label).or_insert_with(|| {
                    joined.push(Mapping { label: label.clone(), ranges: Vec::new() });
                    joined.len() - 1
                });
                is_ordered &= last.is_none_or(|last| last < at);
                last = Some(at);
                match joined[at].ranges.last_mut() {
                    Some(range) if range.1.checked_add(1) == Some(*value) => range.1 = *value,
                    _ => joined[at].ranges.push((*value, *value)),
                }
            }
        }
        if is_ordered {
            return joined.into();
        }
        let own = |(value, labels): &&(i128, Vec<Arc<str>>)| {
            let value = *value;
            labels
                .iter()
                .map(move |label| Mapping { label: label.clone(), ranges: vec![(value, value)] })
                .collect::<Vec<_>>()
        };
        values.iter().flat_map(own).collect()
    }
}
