//! Values that events can have.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracemill_ring::condition::PlainValue;

use crate::ring::event_buf::EventBuf;

pub use self::integer::{IntegerClass, ValueLabel};

mod integer;

/// The class of a field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FieldClass {
    /// An unsigned integer of so many bits.
    Unsigned(u32),
    /// A signed integer of so many bits.
    Signed(u32),
    /// A truth value, one byte.
    Bool,
    /// A floating point number of so many bits.
    Float(u32),
    /// A text in UTF-8: its length in bytes as a `u32`, then the bytes.
    Text,
    /// A number of elements as a `u32`, then those, of this class.
    Slice(&'static FieldClass),
    /// An integer of a program in C.
    Integer(IntegerClass),
    /// An array of this number of integers.
    Array(u32, IntegerClass),
    /// A number of integers as a `u32`, then those.
    Sequence(IntegerClass),
    /// As `Text`, of LTTng's macros.
    SequenceText,
    /// A text, and a zero after it.
    String,
    /// A text in this number of bytes. It ends at the first zero.
    FixedText(u32),
}

impl FieldClass {
    /// The name of the `u32` with its length, if one stands before it. Programs that read traces of LTTng know its names.
    pub(crate) fn length_name(self, name: &str) -> Option<String> {
        match self {
            FieldClass::Text | FieldClass::Slice(_) => Some(format!("{name}_length")),
            FieldClass::Sequence(_) | FieldClass::SequenceText => Some(format!("_{name}_length")),
            _ => None,
        }
    }
}

/// The classes of a field and one: no digit of [`shape`] is 0.
const SHAPES: u64 = 25;

/// The classes of fields as one number, which no other classes have: they are its digits.
const fn shape(classes: &[FieldClass]) -> u64 {
    let (mut shape, mut at) = (0_u64, 0);
    while at < classes.len() {
        // The compiler says so when there are too many: twelve fit.
        shape = shape * SHAPES + digit(classes[at]);
        at += 1;
    }
    shape
}

/// A class as a number, from 1 to 12, and to 24 for a slice of it.
const fn digit(class: FieldClass) -> u64 {
    match class {
        FieldClass::Unsigned(bits) => bits.ilog2() as u64 - 2,
        FieldClass::Signed(bits) => bits.ilog2() as u64 + 2,
        FieldClass::Float(bits) => bits.ilog2() as u64 + 4,
        FieldClass::Bool => 11,
        FieldClass::Text => 12,
        FieldClass::Slice(element) => 12 + digit(*element),
        // Of programs in C alone, whose places have no shape.
        FieldClass::Integer(_)
        | FieldClass::Array(..)
        | FieldClass::Sequence(_)
        | FieldClass::SequenceText
        | FieldClass::String
        | FieldClass::FixedText(_) => 0,
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A value that an event can have as a field: integers, floats, `bool`, texts, slices of integers and floats.
pub trait Field: sealed::Sealed {
    /// Its class.
    #[doc(hidden)]
    const CLASS: FieldClass;

    /// Its length in an event, in bytes.
    #[doc(hidden)]
    fn encoded_len(&self) -> usize;

    /// Writes it.
    #[doc(hidden)]
    fn put(&self, place: &mut EventBuf<'_>);

    /// The value, for conditions.
    #[doc(hidden)]
    fn value(&self) -> PlainValue<'_>;
}

/// A value that slices can have as elements.
pub trait SliceElement: Field + Copy {}

macro_rules! numbers {
    ($($type:ty as $as:ty => $class:expr, $kind:ident $widest:ty;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Field for $type {
            const CLASS: FieldClass = $class;

            #[inline(always)]
            fn encoded_len(&self) -> usize {
                size_of::<$as>()
            }

            #[inline(always)]
            fn put(&self, place: &mut EventBuf<'_>) {
                place.put((*self as $as).to_le_bytes());
            }

            fn value(&self) -> PlainValue<'_> {
                PlainValue::$kind(*self as $widest)
            }
        }

        impl SliceElement for $type {}
    )*};
}

numbers! {
    u8 as u8 => FieldClass::Unsigned(8), Integer i128;
    u16 as u16 => FieldClass::Unsigned(16), Integer i128;
    u32 as u32 => FieldClass::Unsigned(32), Integer i128;
    u64 as u64 => FieldClass::Unsigned(64), Integer i128;
    usize as u64 => FieldClass::Unsigned(64), Integer i128;
    i8 as i8 => FieldClass::Signed(8), Integer i128;
    i16 as i16 => FieldClass::Signed(16), Integer i128;
    i32 as i32 => FieldClass::Signed(32), Integer i128;
    i64 as i64 => FieldClass::Signed(64), Integer i128;
    isize as i64 => FieldClass::Signed(64), Integer i128;
    f32 as f32 => FieldClass::Float(32), Real f64;
    f64 as f64 => FieldClass::Float(64), Real f64;
}

impl sealed::Sealed for bool {}

impl Field for bool {
    const CLASS: FieldClass = FieldClass::Bool;

    #[inline(always)]
    fn encoded_len(&self) -> usize {
        1
    }

    #[inline(always)]
    fn put(&self, place: &mut EventBuf<'_>) {
        place.put([u8::from(*self)]);
    }

    fn value(&self) -> PlainValue<'_> {
        PlainValue::Bool(*self)
    }
}

/// Longest text in bytes, unless the options say otherwise.
pub(crate) const TEXT_LIMIT: usize = 4095;
/// Longest text in bytes.
pub(crate) static LONGEST_TEXT: AtomicUsize = AtomicUsize::new(TEXT_LIMIT);

/// The part of a text that is recorded, whole characters.
#[inline(always)]
pub(crate) fn cut(text: &str) -> &[u8] {
    let limit = LONGEST_TEXT.load(Ordering::Relaxed);
    if text.len() <= limit { text.as_bytes() } else { cut_at(text, limit) }
}

#[cold]
fn cut_at(text: &str, limit: usize) -> &[u8] {
    let end = (0..=limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text.as_bytes()[..end]
}

impl sealed::Sealed for str {}

impl Field for str {
    const CLASS: FieldClass = FieldClass::Text;

    #[inline(always)]
    fn encoded_len(&self) -> usize {
        4 + cut(self).len()
    }

    #[inline(always)]
    fn put(&self, place: &mut EventBuf<'_>) {
        let bytes = cut(self);
        place.put((bytes.len() as u32).to_le_bytes());
        place.put_bytes(bytes);
    }

    fn value(&self) -> PlainValue<'_> {
        PlainValue::Text(cut(self))
    }
}

impl sealed::Sealed for String {}

impl Field for String {
    const CLASS: FieldClass = FieldClass::Text;

    #[inline(always)]
    fn encoded_len(&self) -> usize {
        self.as_str().encoded_len()
    }

    #[inline(always)]
    fn put(&self, place: &mut EventBuf<'_>) {
        self.as_str().put(place);
    }

    fn value(&self) -> PlainValue<'_> {
        self.as_str().value()
    }
}

impl<T: SliceElement> sealed::Sealed for [T] {}

impl<T: SliceElement> Field for [T] {
    const CLASS: FieldClass = FieldClass::Slice(&T::CLASS);

    #[inline(always)]
    fn encoded_len(&self) -> usize {
        4 + size_of_val(self)
    }

    #[inline(always)]
    fn put(&self, place: &mut EventBuf<'_>) {
        place.put((self.len() as u32).to_le_bytes());
        self.iter().for_each(|element| element.put(place));
    }

    fn value(&self) -> PlainValue<'_> {
        PlainValue::List(!self.is_empty())
    }
}

impl<T: SliceElement, const N: usize> sealed::Sealed for [T; N] {}

impl<T: SliceElement, const N: usize> Field for [T; N] {
    const CLASS: FieldClass = FieldClass::Slice(&T::CLASS);

    #[inline(always)]
    fn encoded_len(&self) -> usize {
        self.as_slice().encoded_len()
    }

    #[inline(always)]
    fn put(&self, place: &mut EventBuf<'_>) {
        self.as_slice().put(place);
    }

    fn value(&self) -> PlainValue<'_> {
        self.as_slice().value()
    }
}

impl<T: Field + ?Sized> sealed::Sealed for &T {}

impl<T: Field + ?Sized> Field for &T {
    const CLASS: FieldClass = T::CLASS;

    #[inline(always)]
    fn encoded_len(&self) -> usize {
        (**self).encoded_len()
    }

    #[inline(always)]
    fn put(&self, place: &mut EventBuf<'_>) {
        (**self).put(place);
    }

    fn value(&self) -> PlainValue<'_> {
        (**self).value()
    }
}

/// The values of an event: a tuple of up to 12 fields.
pub trait Fields: sealed::Sealed {
    /// Their classes.
    #[doc(hidden)]
    const CLASSES: &'static [FieldClass];

    /// Their classes as a number.
    #[doc(hidden)]
    const SHAPE: u64 = shape(Self::CLASSES);

    /// Their length in an event, in bytes.
    #[doc(hidden)]
    fn encoded_len(&self) -> usize;

    /// Writes them.
    #[doc(hidden)]
    fn put(&self, place: &mut EventBuf<'_>);

    /// One of them, for conditions.
    #[doc(hidden)]
    fn value(&self, at: usize) -> PlainValue<'_>;
}

macro_rules! tuples {
    ($(($($name:ident $at:tt)*))*) => {$(
        impl<$($name: Field),*> sealed::Sealed for ($($name,)*) {}

        impl<$($name: Field),*> Fields for ($($name,)*) {
            const CLASSES: &'static [FieldClass] = &[$($name::CLASS),*];

            #[inline(always)]
            fn encoded_len(&self) -> usize {
                0 $(+ self.$at.encoded_len())*
            }

            #[inline(always)]
            fn put(&self, _place: &mut EventBuf<'_>) {
                $(self.$at.put(_place);)*
            }

            fn value(&self, at: usize) -> PlainValue<'_> {
                match at {
                    $($at => self.$at.value(),)*
                    _ => PlainValue::List(false),
                }
            }
        }
    )*};
}

tuples! {
    ()
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 F 5)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut_at("Mühle", 2), b"M");
        assert_eq!(cut_at("Mühle", 3), "Mü".as_bytes());
        assert_eq!(cut_at("ü", 1), b"");
    }

    #[test]
    fn lengths_are_those_of_the_encoding() {
        assert_eq!((1_u8, "ab", [1_u16, 2].as_slice(), true, 1.0_f32).encoded_len(), 1 + 6 + 8 + 1 + 4);
        assert_eq!(<(usize, &str)>::CLASSES, [FieldClass::Unsigned(64), FieldClass::Text]);
    }

    #[test]
    fn every_class_has_a_digit_of_its_own() {
        const WHOLE: [FieldClass; 12] = [
            u8::CLASS,
            u16::CLASS,
            u32::CLASS,
            u64::CLASS,
            i8::CLASS,
            i16::CLASS,
            i32::CLASS,
            i64::CLASS,
            f32::CLASS,
            f64::CLASS,
            bool::CLASS,
            str::CLASS,
        ];
        let digits: Vec<u64> =
            WHOLE.iter().flat_map(|class| [digit(*class), digit(FieldClass::Slice(class))]).collect();
        let sorted: std::collections::BTreeSet<u64> = digits.into_iter().collect();
        assert!(sorted.into_iter().eq(1..SHAPES));
        assert!(SHAPES.checked_pow(12).is_some(), "as many fields as an event can have");
    }
}
