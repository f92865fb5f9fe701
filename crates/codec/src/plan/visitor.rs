//! The receiver of fields that a plan decodes.

use super::NodeId;
use crate::bits::Wide;

/// A call of a [`Visitor`] as a value.
#[derive(Clone, Copy, Debug)]
pub enum VisitorCall<'a> {
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

impl VisitorCall<'_> {
    /// Makes the call.
    #[inline(always)]
    pub fn dispatch(self, visitor: &mut impl Visitor, node: NodeId) {
        match self {
            VisitorCall::Unsigned(value) => visitor.unsigned(node, value),
            VisitorCall::Signed(value) => visitor.signed(node, value),
            VisitorCall::Wide(value) => visitor.wide(node, value),
            VisitorCall::Boolean(value) => visitor.boolean(node, value),
            VisitorCall::Real(value) => visitor.real(node, value),
            VisitorCall::String(bytes) => visitor.string(node, bytes),
            VisitorCall::Blob(bytes) => visitor.blob(node, bytes),
            VisitorCall::BeginStruct => visitor.begin_struct(node),
            VisitorCall::EndStruct => visitor.end_struct(node),
            VisitorCall::BeginArray(len) => visitor.begin_array(node, len),
            VisitorCall::Element(index) => visitor.element(node, index),
            VisitorCall::EndArray => visitor.end_array(node),
            VisitorCall::BeginVariant(option) => visitor.begin_variant(node, option),
            VisitorCall::EndVariant => visitor.end_variant(node),
            VisitorCall::BeginOptional => visitor.begin_optional(node),
            VisitorCall::EndOptional => visitor.end_optional(node),
            VisitorCall::Absent => visitor.absent(node),
        }
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident($($arg:ident: $type:ty)?) = $shown:expr;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            fn $method(&mut self, node: NodeId $(, $arg: $type)?) {
                self.any_call(node, $shown);
            }
        )*
    };
}

/// Receives the fields of one scope, in their order.
///
/// Each call names the node of the field. Methods that are not defined pass on to [`Visitor::any_call`], which does nothing by
/// default.
pub trait Visitor {
    /// Does a person read what is shown? Texts that a format makes may then differ from what programs get.
    const FOR_PEOPLE: bool = false;

    /// Any call whose own method is not defined.
    #[inline(always)]
    #[expect(unused_variables, reason = "they have their names in documentation")]
    fn any_call(&mut self, node: NodeId, shown: VisitorCall<'_>) {}

    methods! {
        /// An unsigned integer, bit array or bit map of at most 64 bits.
        unsigned(value: u64) = VisitorCall::Unsigned(value);
        /// A signed integer of at most 64 bits.
        signed(value: i64) = VisitorCall::Signed(value);
        /// An integer, bit array or bit map of more than 64 bits.
        wide(value: &Wide) = VisitorCall::Wide(value);
        /// A boolean.
        boolean(value: bool) = VisitorCall::Boolean(value);
        /// A floating point number, widened or rounded to 64 bits.
        real(value: f64) = VisitorCall::Real(value);
        /// A string without its end: bytes in the encoding of its class.
        string(bytes: &[u8]) = VisitorCall::String(bytes);
        /// A blob.
        blob(bytes: &[u8]) = VisitorCall::Blob(bytes);
        /// A structure begins.
        begin_struct() = VisitorCall::BeginStruct;
        /// It ends.
        end_struct() = VisitorCall::EndStruct;
        /// An array of `len` elements begins.
        begin_array(len: u64) = VisitorCall::BeginArray(len);
        /// The element `index` of the array `node` follows.
        element(index: u64) = VisitorCall::Element(index);
        /// The array ends.
        end_array() = VisitorCall::EndArray;
        /// A variant whose option `option` follows.
        begin_variant(option: usize) = VisitorCall::BeginVariant(option);
        /// It ends.
        end_variant() = VisitorCall::EndVariant;
        /// An optional field that is there; its content follows.
        begin_optional() = VisitorCall::BeginOptional;
        /// It ends.
        end_optional() = VisitorCall::EndOptional;
        /// An optional field that is not there.
        absent() = VisitorCall::Absent;
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
