//! The receiver of fields that a plan decodes.

use super::NodeId;
use crate::bits::Wide;

/// A call of a [`Visitor`] as a value.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// [`Visitor::unsigned`].
    Unsigned(u64),
    /// [`Visitor::signed`].
    Signed(i64),
    /// [`Visitor::wide`].
    Wide(&'a Wide),
    /// [`Visitor::boolean`].
    Boolean(bool),
    /// [`Visitor::real`].
    Real(f64),
    /// [`Visitor::string`].
    String(&'a [u8]),
    /// [`Visitor::blob`].
    Blob(&'a [u8]),
    /// [`Visitor::begin_struct`].
    BeginStruct,
    /// [`Visitor::end_struct`].
    EndStruct,
    /// [`Visitor::begin_array`].
    BeginArray(u64),
    /// [`Visitor::element`].
    Element(u64),
    /// [`Visitor::end_array`].
    EndArray,
    /// [`Visitor::begin_variant`].
    BeginVariant(usize),
    /// [`Visitor::end_variant`].
    EndVariant,
    /// [`Visitor::begin_optional`].
    BeginOptional,
    /// [`Visitor::end_optional`].
    EndOptional,
    /// [`Visitor::absent`].
    Absent,
}

impl Shown<'_> {
    /// Makes the call.
    #[inline(always)]
    pub fn to(self, visitor: &mut impl Visitor, node: NodeId) {
        match self {
            Shown::Unsigned(value) => visitor.unsigned(node, value),
            Shown::Signed(value) => visitor.signed(node, value),
            Shown::Wide(value) => visitor.wide(node, value),
            Shown::Boolean(value) => visitor.boolean(node, value),
            Shown::Real(value) => visitor.real(node, value),
            Shown::String(bytes) => visitor.string(node, bytes),
            Shown::Blob(bytes) => visitor.blob(node, bytes),
            Shown::BeginStruct => visitor.begin_struct(node),
            Shown::EndStruct => visitor.end_struct(node),
            Shown::BeginArray(len) => visitor.begin_array(node, len),
            Shown::Element(index) => visitor.element(node, index),
            Shown::EndArray => visitor.end_array(node),
            Shown::BeginVariant(option) => visitor.begin_variant(node, option),
            Shown::EndVariant => visitor.end_variant(node),
            Shown::BeginOptional => visitor.begin_optional(node),
            Shown::EndOptional => visitor.end_optional(node),
            Shown::Absent => visitor.absent(node),
        }
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident($($arg:ident: $type:ty)?) = $shown:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            fn $method(&mut self, node: NodeId $(, $arg: $type)?) {
                self.shown(node, $shown);
            }
        )*
    };
}

/// Receives the fields of one scope, in their order.
///
/// Each call names the node of the field. Methods that are not defined hand on to [`Visitor::shown`], which does nothing by
/// default.
pub trait Visitor {
    /// Does a person read what is shown? Texts that a format makes may then differ from what programs get.
    const FOR_PEOPLE: bool = false;

    /// Any call whose own method is not defined.
    #[inline(always)]
    #[expect(unused_variables, reason = "they have their names in documentation")]
    fn shown(&mut self, node: NodeId, shown: Shown<'_>) {}

    methods! {
        /// An unsigned integer, bit array or bit map of at most 64 bits.
        unsigned(value: u64) = Shown::Unsigned(value);
        /// A signed integer of at most 64 bits.
        signed(value: i64) = Shown::Signed(value);
        /// An integer, bit array or bit map of more than 64 bits.
        wide(value: &Wide) = Shown::Wide(value);
        /// A boolean.
        boolean(value: bool) = Shown::Boolean(value);
        /// A floating point number, widened or rounded to 64 bits.
        real(value: f64) = Shown::Real(value);
        /// A string without its end: bytes in the encoding of its class.
        string(bytes: &[u8]) = Shown::String(bytes);
        /// A blob.
        blob(bytes: &[u8]) = Shown::Blob(bytes);
        /// A structure begins.
        begin_struct() = Shown::BeginStruct;
        /// It ends.
        end_struct() = Shown::EndStruct;
        /// An array of `len` elements begins.
        begin_array(len: u64) = Shown::BeginArray(len);
        /// The element `index` of the array `node` follows.
        element(index: u64) = Shown::Element(index);
        /// The array ends.
        end_array() = Shown::EndArray;
        /// A variant whose option `option` follows.
        begin_variant(option: usize) = Shown::BeginVariant(option);
        /// It ends.
        end_variant() = Shown::EndVariant;
        /// An optional field that is there; its content follows.
        begin_optional() = Shown::BeginOptional;
        /// It ends.
        end_optional() = Shown::EndOptional;
        /// An optional field that is not there.
        absent() = Shown::Absent;
    }

    /// The element `index` of an array of integers, whose node is the next one.
    #[inline]
    fn unsigned_element(&mut self, array: NodeId, index: u64, value: u64) {
        self.element(array, index);
        self.unsigned(array + 1, value);
    }

    /// [`Visitor::unsigned_element`] of signed integers.
    #[inline]
    fn signed_element(&mut self, array: NodeId, index: u64, value: i64) {
        self.element(array, index);
        self.signed(array + 1, value);
    }
}

/// A visitor that does nothing.
pub struct NoVisitor;

impl Visitor for NoVisitor {}
