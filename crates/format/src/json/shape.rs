//! Shapes of values, made field classes: what the values of a field are in all lines of its class.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::bits::{limbs_of_digits, negate};
use tracemill_codec::text::put_from_base64;
use tracemill_model::schema::{
    ArrayClass, BitsClass, BlobClass, ByteOrder, FieldClass, FieldClassId, FieldKind, FloatClass, IntegerClass, Length,
    Mapping, Member, RenderedClass, Schema, StringClass, StructClass,
};

use super::tape::{TapeToken, TokenKind};

/// Larger integers are not read.
const MAX_INT_BITS: u32 = 1024;
/// Values of an enumeration whose labels are kept; with more of them it is a structure of a number and texts.
const MAX_ENUM_VALUES: usize = 1 << 14;

/// Kind of the values of a field.
#[derive(Clone, PartialEq, Debug)]
pub enum ValueShape {
    /// Always `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// An integer.
    Int(IntRange),
    /// Any other number.
    Float,
    /// A string.
    Text,
    /// Only `"NaN"` and the like so far: floats or strings.
    Special,
    /// `{"media_type", "base64"}`, with its type.
    Blob(Arc<str>),
    /// `{"value", "labels"}`.
    Enum(Box<Enum>),
    /// Any other object.
    Struct(Vec<MemberShape>),
    /// A list of values, each with a shape of its own.
    Tuple(Vec<ValueShape>),
    /// `None` while all are empty.
    Array(Option<Box<ValueShape>>),
}

/// A member of a structure.
type MemberShape = (Arc<str>, ValueShape);

/// Integers of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IntRange {
    is_signed: bool,
    /// Bits of the largest one, with its sign.
    bits: u32,
}

/// An enumeration.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Enum {
    range: IntRange,
    /// Labels of values, in the order in which the values were met.
    values: Vec<(i128, Vec<Arc<str>>)>,
    by_value: HashMap<i128, usize>,
    /// It has too many values, or one value has other labels in another line.
    is_loose: bool,
}

/// The tokens of a value, and where the walk over them is.
pub struct TokenWalk<'a> {
    /// The line.
    pub line: &'a [u8],
    /// Its tokens.
    pub tokens: &'a [TapeToken],
    /// The number of the next one.
    pub at: usize,
}

/// The reason for which a value is not one of its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
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

impl TokenWalk<'_> {
    fn next(&mut self) -> Result<TapeToken, Refused> {
        let token = self.tokens.get(self.at).copied().ok_or(Refused::Other)?;
        self.at += 1;
        Ok(token)
    }

    fn peek(&self, ahead: usize) -> Option<TapeToken> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn string(&mut self) -> Result<Arc<str>, Refused> {
        let token = self.next()?;
        if !matches!(token.kind, TokenKind::Text | TokenKind::Escaped | TokenKind::Special | TokenKind::Key) {
            return Err(Refused::Other);
        }
        Ok(text(&token, self.line))
    }

    /// Is the object at hand one of these two members? Numbers of the tokens of their values.
    fn has_members(&self, first: &[u8], second: &[u8]) -> bool {
        let is_key = |ahead, name| {
            self.peek(ahead).is_some_and(|token| token.kind == TokenKind::Key && token.bytes(self.line) == name)
        };
        self.peek(0).is_some_and(|token| token.kind == TokenKind::Object && token.to == 2)
            && is_key(1, first)
            && is_key(3, second)
    }

    /// Is the object at hand a value of an enumeration without its labels?
    fn has_value_alone(&self) -> bool {
        self.peek(0).is_some_and(|token| token.kind == TokenKind::Object && token.to == 1)
            && self.peek(1).is_some_and(|token| token.bytes(self.line) == b"value")
    }

    fn is_enum(&self) -> bool {
        self.has_members(b"value", b"labels")
            && self
                .peek(2)
                .is_some_and(|token| token.kind == TokenKind::Int && i128_of(token.bytes(self.line)).is_some())
            && self.peek(4).is_some_and(|token| {
                token.kind == TokenKind::Array && (0..token.to as usize).all(|at| self.is_text(5 + at))
            })
    }

    fn is_text(&self, ahead: usize) -> bool {
        self.peek(ahead).is_some_and(|token| matches!(token.kind, TokenKind::Text | TokenKind::Escaped))
    }

    fn blob_type(&self) -> Option<Arc<str>> {
        if !self.has_members(b"media_type", b"base64") || !self.is_text(2) || self.peek(4)?.kind != TokenKind::Text {
            return None;
        }
        put_from_base64(self.peek(4)?.bytes(self.line), &mut Vec::new())?;
        Some(text(&self.peek(2)?, self.line))
    }
}

fn text(token: &TapeToken, line: &[u8]) -> Arc<str> {
    let has_escapes =
        token.kind == TokenKind::Escaped || token.kind == TokenKind::Key && token.bytes(line).contains(&b'\\');
    let token = TapeToken { kind: if has_escapes { TokenKind::Escaped } else { TokenKind::Text }, ..*token };
    String::from_utf8_lossy(&token.text(line)).into()
}

impl ValueShape {
    /// The shape of a value, and how many shapes are in it.
    ///
    /// # Errors
    /// The value cannot be a field.
    pub fn infer(walk: &mut TokenWalk<'_>, count: &mut usize) -> Result<ValueShape, Refused> {
        *count += 1;
        if walk.is_enum() {
            let mut own = Enum::default();
            own.add(walk)?;
            return Ok(ValueShape::Enum(Box::new(own)));
        }
        if let Some(media_type) = walk.blob_type() {
            walk.at += 5;
            return Ok(ValueShape::Blob(media_type));
        }
        let token = walk.next()?;
        Ok(match token.kind {
            TokenKind::Null => ValueShape::Null,
            TokenKind::Bool => ValueShape::Bool,
            TokenKind::Int => {
                let mut range = IntRange::default();
                range.add(token.bytes(walk.line))?;
                ValueShape::Int(range)
            }
            TokenKind::Float => ValueShape::Float,
            TokenKind::Text | TokenKind::Escaped => {
                check_text(&token, walk.line)?;
                ValueShape::Text
            }
            TokenKind::Special => ValueShape::Special,
            TokenKind::Object => {
                let member = |_| Ok((walk.string()?, ValueShape::infer(walk, count)?));
                ValueShape::Struct((0..token.to).map(member).collect::<Result<_, _>>()?)
            }
            TokenKind::Tuple => {
                ValueShape::Tuple((0..token.to).map(|_| ValueShape::infer(walk, count)).collect::<Result<_, _>>()?)
            }
            TokenKind::Array if token.to == 0 => ValueShape::Array(None),
            TokenKind::Array => {
                let mut element = ValueShape::infer(walk, count)?;
                for _ in 1..token.to {
                    element.add(walk)?;
                }
                ValueShape::Array(Some(Box::new(element)))
            }
            TokenKind::Key => return Err(Refused::Other),
        })
    }

    /// Takes in another value of the same mark.
    ///
    /// # Errors
    /// The value is not of the shape, or cannot be a field.
    pub fn add(&mut self, walk: &mut TokenWalk<'_>) -> Result<(), Refused> {
        match self {
            ValueShape::Enum(own) if walk.is_enum() => return own.add(walk),
            ValueShape::Enum(_) => {}
            ValueShape::Blob(of) => match walk.blob_type() {
                Some(media_type) if media_type == *of => {
                    walk.at += 5;
                    return Ok(());
                }
                _ => {}
            },
            _ => {
                let token = walk.next()?;
                return match (self, token.kind) {
                    (ValueShape::Null, TokenKind::Null)
                    | (ValueShape::Bool, TokenKind::Bool)
                    | (ValueShape::Special, TokenKind::Special) => Ok(()),
                    (ValueShape::Float, TokenKind::Float | TokenKind::Special) => Ok(()),
                    (ValueShape::Text, TokenKind::Text | TokenKind::Escaped | TokenKind::Special) => {
                        check_text(&token, walk.line)
                    }
                    (ValueShape::Int(range), TokenKind::Int) => range.add(token.bytes(walk.line)),
                    (ValueShape::Struct(members), TokenKind::Object) if members.len() == token.to as usize => {
                        for (_, member) in members {
                            walk.at += 1;
                            member.add(walk)?;
                        }
                        Ok(())
                    }
                    (ValueShape::Tuple(items), TokenKind::Tuple) if items.len() == token.to as usize => {
                        items.iter_mut().try_for_each(|item| item.add(walk))
                    }
                    (ValueShape::Array(None), TokenKind::Array) if token.to == 0 => Ok(()),
                    (ValueShape::Array(Some(element)), TokenKind::Array) => {
                        (0..token.to).try_for_each(|_| element.add(walk))
                    }
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
    fn as_struct(&self) -> ValueShape {
        let strings = || ValueShape::Array(Some(Box::new(ValueShape::Text)));
        match self {
            ValueShape::Enum(own) => {
                ValueShape::Struct(vec![("value".into(), ValueShape::Int(own.range)), ("labels".into(), strings())])
            }
            ValueShape::Blob(_) => {
                ValueShape::Struct(vec![("media_type".into(), ValueShape::Text), ("base64".into(), ValueShape::Text)])
            }
            other => other.clone(),
        }
    }

    /// One shape for the values of both, when there is one that shows them as they are.
    pub fn join(&self, other: &ValueShape) -> Option<ValueShape> {
        Some(match (self, other) {
            (ValueShape::Int(a), ValueShape::Int(b)) => ValueShape::Int(a.join(*b)),
            (ValueShape::Special, ValueShape::Float | ValueShape::Text) => other.clone(),
            (ValueShape::Float | ValueShape::Text, ValueShape::Special) => self.clone(),
            (ValueShape::Enum(a), ValueShape::Enum(b)) => ValueShape::Enum(Box::new(a.join(b))),
            // Some formats leave out labels where a value has none.
            (ValueShape::Enum(a), ValueShape::Struct(b)) | (ValueShape::Struct(b), ValueShape::Enum(a))
                if b.len() == 1 && &*b[0].0 == "value" =>
            {
                let ValueShape::Int(range) = b[0].1 else { return None };
                ValueShape::Enum(Box::new(Enum { range: a.range.join(range), ..(**a).clone() }))
            }
            (ValueShape::Struct(a), ValueShape::Struct(b)) if a.len() == b.len() => {
                let member = |(a, b): (&MemberShape, &MemberShape)| {
                    let joined = if a.0 == b.0 { a.1.join(&b.1) } else { None };
                    Some((a.0.clone(), joined?))
                };
                ValueShape::Struct(a.iter().zip(b).map(member).collect::<Option<_>>()?)
            }
            (ValueShape::Enum(_) | ValueShape::Blob(_), ValueShape::Struct(_)) => return self.as_struct().join(other),
            (ValueShape::Struct(_), ValueShape::Enum(_) | ValueShape::Blob(_)) => return self.join(&other.as_struct()),
            (ValueShape::Tuple(a), ValueShape::Tuple(b)) if a.len() == b.len() => {
                ValueShape::Tuple(a.iter().zip(b).map(|(a, b)| a.join(b)).collect::<Option<_>>()?)
            }
            (ValueShape::Array(None), ValueShape::Array(_)) => other.clone(),
            (ValueShape::Array(_), ValueShape::Array(None)) => self.clone(),
            (ValueShape::Array(Some(a)), ValueShape::Array(Some(b))) => ValueShape::Array(Some(Box::new(a.join(b)?))),
            (a, b) if a == b => a.clone(),
            _ => return None,
        })
    }

    /// Makes enumerations that cannot be one structures; to be called when all lines are known.
    pub fn finish(&mut self) {
        match self {
            ValueShape::Enum(own) if own.is_loose => *self = self.as_struct(),
            ValueShape::Struct(members) => members.iter_mut().for_each(|(_, member)| member.finish()),
            ValueShape::Tuple(items) => items.iter_mut().for_each(ValueShape::finish),
            ValueShape::Array(Some(element)) => element.finish(),
            _ => {}
        }
    }

    /// Its field class.
    pub fn class(&self, schema: &mut Schema) -> FieldClassId {
        let kind = match self {
            ValueShape::Null => FieldKind::Rendered(RenderedClass { len_bytes: 1, render: Arc::new(None::<Arc<str>>) }),
            ValueShape::Bool => FieldKind::Boolean(BitsClass::new(8, ByteOrder::Little)),
            ValueShape::Int(range) => FieldKind::Integer(range.class()),
            ValueShape::Float => FieldKind::Float(FloatClass::new(64, ByteOrder::Little)),
            ValueShape::Text | ValueShape::Special => FieldKind::String(StringClass::utf8()),
            ValueShape::Blob(media_type) => {
                let length = length(schema);
                FieldKind::Blob(BlobClass { length, media_type: media_type.clone() })
            }
            ValueShape::Enum(own) => {
                FieldKind::Integer(IntegerClass { mappings: Some(own.mappings()), ..own.range.class() })
            }
            ValueShape::Struct(members) => {
                let member = |(name, shape): &MemberShape| Member::new(name.clone(), shape.class(schema));
                FieldKind::Struct(StructClass { members: members.iter().map(member).collect() })
            }
            ValueShape::Tuple(items) => {
                let items = items.iter().enumerate().map(|(at, item)| Member::for_tuple(at, item.class(schema)));
                FieldKind::Struct(StructClass { members: items.collect() })
            }
            ValueShape::Array(element) => {
                let element = element.as_deref().unwrap_or(&ValueShape::Text).class(schema);
                FieldKind::Array(ArrayClass { element, length: length(schema) })
            }
        };
        schema.add_field_class(FieldClass::new(kind, 8))
    }

    /// Appends a value as its field class has it.
    ///
    /// # Errors
    /// The value is not of the shape.
    pub fn encode(&self, walk: &mut TokenWalk<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        if let ValueShape::Enum(own) = self {
            // Key, number, key, list, labels.
            let number = walk.peek(2).ok_or(Refused::Other)?;
            if walk.has_value_alone() && number.kind == TokenKind::Int {
                walk.at += 3;
                return own.range.encode(number.bytes(walk.line), out);
            }
            let labels = walk.peek(4).ok_or(Refused::Other)?;
            if number.kind != TokenKind::Int || labels.kind != TokenKind::Array {
                return Err(Refused::Other);
            }
            walk.at += 5 + labels.to as usize;
            return own.range.encode(number.bytes(walk.line), out);
        }
        if let ValueShape::Blob(_) = self {
            let token = walk.peek(4).filter(|token| token.kind == TokenKind::Text).ok_or(Refused::Other)?;
            walk.at += 5;
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            put_from_base64(token.bytes(walk.line), out).ok_or(Refused::Other)?;
            let len = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&len.to_le_bytes());
            return Ok(());
        }
        let is_alone = walk.has_value_alone();
        let token = walk.next()?;
        match (self, token.kind) {
            (ValueShape::Null, TokenKind::Null) => out.push(0),
            (ValueShape::Struct(members), TokenKind::Object) if is_alone && is_enum_struct(members) => {
                walk.at += 1;
                members[0].1.encode(walk, out)?;
                out.extend_from_slice(&0u32.to_le_bytes());
            }
            (ValueShape::Bool, TokenKind::Bool) => out.push(token.to as u8),
            (ValueShape::Int(range), TokenKind::Int) => range.encode(token.bytes(walk.line), out)?,
            (ValueShape::Float, TokenKind::Float | TokenKind::Special) => {
                let value = std::str::from_utf8(token.bytes(walk.line)).ok().and_then(|text| text.parse().ok());
                out.extend_from_slice(&value.unwrap_or(f64::NAN).to_le_bytes());
            }
            (ValueShape::Text | ValueShape::Special, TokenKind::Text | TokenKind::Special | TokenKind::Escaped) => {
                // A zero would end the text, and what follows it would be taken for other fields.
                check_text(&token, walk.line)?;
                out.extend_from_slice(&token.text(walk.line));
                out.push(0);
            }
            (ValueShape::Struct(members), TokenKind::Object) if members.len() == token.to as usize => {
                for (_, member) in members {
                    walk.at += 1;
                    member.encode(walk, out)?;
                }
            }
            (ValueShape::Tuple(items), TokenKind::Tuple | TokenKind::Array) if items.len() == token.to as usize => {
                items.iter().try_for_each(|item| item.encode(walk, out))?;
            }
            (ValueShape::Array(element), TokenKind::Array | TokenKind::Tuple) => {
                out.extend_from_slice(&token.to.to_le_bytes());
                let element = element.as_deref().unwrap_or(&ValueShape::Null);
                (0..token.to).try_for_each(|_| element.encode(walk, out))?;
            }
            _ => return Err(Refused::Other),
        }
        Ok(())
    }
}

/// Are these the members that an enumeration is written as?
fn is_enum_struct(members: &[MemberShape]) -> bool {
    matches!(members, [(value, _), (labels, ValueShape::Array(_))] if &**value == "value" && &**labels == "labels")
}

/// The length of an array or a blob: 32 bits before its elements.
fn length(schema: &mut Schema) -> Length {
    let class = FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(32)), 8);
    Length::Inline(schema.add_field_class(class))
}

fn check_text(token: &TapeToken, line: &[u8]) -> Result<(), Refused> {
    let has_zero = token.kind == TokenKind::Escaped && token.text(line).contains(&0);
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
pub fn i128_of(digits: &[u8]) -> Option<i128> {
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
    fn add(&mut self, walk: &mut TokenWalk<'_>) -> Result<(), Refused> {
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
        self.insert(value, labels);
        Ok(())
    }

    fn insert(&mut self, value: i128, labels: Vec<Arc<str>>) {
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
            joined.insert(*value, labels.clone());
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
