//! Integers with properties that the types of Rust do not have: those of programs in C.

use super::FieldClass;

/// An integer of whole bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IntegerClass {
    /// Its length, 8 to 64.
    pub bits: u32,
    /// Can it be negative?
    pub is_signed: bool,
    /// Does its most significant byte come first, as in the packets of networks?
    pub is_big_endian: bool,
    /// Is it shown in hexadecimal digits?
    pub is_hexadecimal: bool,
    /// Names of its values.
    pub labels: &'static [ValueLabel<'static>],
}

/// The name of a range of values of an integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueLabel<'a> {
    /// The name.
    pub name: &'a str,
    /// The first value, as the 64 bits of a signed or unsigned number.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

impl IntegerClass {
    /// The class of a number of its length and sign.
    pub(crate) fn number(self) -> FieldClass {
        if self.is_signed { FieldClass::Signed(self.bits) } else { FieldClass::Unsigned(self.bits) }
    }

    /// The ranges that have a name, in the order in which they were given. Those that are empty have none.
    pub(crate) fn ranges(self) -> impl Iterator<Item = (&'static str, i128, i128)> {
        let value = move |bits: u64| if self.is_signed { i128::from(bits as i64) } else { i128::from(bits) };
        let range = move |label: &ValueLabel<'static>| (label.name, value(label.first), value(label.last));
        self.labels.iter().map(range).filter(|(_, first, last)| first <= last)
    }
}
