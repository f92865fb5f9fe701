//! Why decoding ends, and where.

use std::fmt;

use tracemill_model::error::Error;

use super::{MAX_IDLE, NodeId};

/// Why a field cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The field needs more bits than the content has left.
    PastEnd {
        /// The least that it needs.
        need_bits: u64,
    },
    /// A string has no end inside the content.
    Unterminated,
    /// A LEB128 integer has no end inside the content, or is absurdly long.
    EndlessInteger,
    /// An array whose elements cannot fit the rest of the content.
    TooLong {
        /// The number of elements that the data claim.
        len: u64,
    },
    /// A string of so many bytes that its last code unit is not whole.
    PartialUnit {
        /// The number of bytes.
        bytes: u64,
        /// Bytes of a code unit.
        unit: u8,
    },
    /// A length below zero.
    Negative {
        /// The length.
        len: i64,
    },
    /// Elements without size, by the thousands.
    EmptyElements,
    /// No option of a variant stands for the value of its selector.
    NoOption {
        /// The value.
        value: i128,
    },
    /// A length or selector does not fit 64 bits.
    HugeSelector,
    /// The length or selector was not decoded: an optional field that holds it is absent, or a variant that holds it
    /// has another option.
    AbsentSelector,
    /// The field begins inside a byte, and the field before it has another byte order.
    OtherByteOrder,
}

/// A field that cannot be decoded: the event ends there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Why.
    pub kind: FaultKind,
    /// First bit of the field, from the start of the packet.
    pub at_bits: u64,
    /// The field.
    pub node: NodeId,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::PastEnd { need_bits } => {
                write!(f, "the field needs {need_bits} bits, past the end of the packet's content")
            }
            FaultKind::Unterminated => f.write_str("the string has no end before the end of the packet's content"),
            FaultKind::EndlessInteger => {
                f.write_str("the variable-length integer has no end before the end of the packet's content")
            }
            FaultKind::TooLong { len } => {
                write!(f, "a length of {len} elements is more than the rest of the packet's content can hold")
            }
            FaultKind::PartialUnit { bytes, unit } => {
                write!(f, "a length of {bytes} bytes does not fit an encoding whose code units have {unit} bytes")
            }
            FaultKind::Negative { len } => write!(f, "a length of {len} elements is below zero"),
            FaultKind::EmptyElements => write!(f, "more than {} elements without size", MAX_IDLE),
            FaultKind::NoOption { value } => {
                write!(f, "no option of the variant stands for the selector value {value}")
            }
            FaultKind::HugeSelector => f.write_str("the length or selector does not fit 64 bits"),
            FaultKind::AbsentSelector => {
                f.write_str("the length or selector was not decoded: the field that holds it is absent")
            }
            FaultKind::OtherByteOrder => {
                f.write_str("the field begins inside a byte, and its byte order is not that of the field before it")
            }
        }
    }
}

/// The message without a place: [`Fault::at_bits`] counts from a packet that it does not know.
impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let message = fault.kind.to_string();
        match fault.kind {
            // There may be more of it one day.
            FaultKind::PastEnd { .. }
            | FaultKind::Unterminated
            | FaultKind::EndlessInteger
            | FaultKind::TooLong { .. } => Error::truncated(message),
            _ => Error::malformed(message),
        }
    }
}
