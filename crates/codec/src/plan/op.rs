//! Instructions.

use tracemill_model::schema::Role;

use super::NodeId;

/// One instruction. 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Advance {
        bits: u64,
    },
    /// `slots[len]` elements of `stride` bits, the last one without its padding.
    AdvanceBy {
        len: u16,
        stride_bits: u32,
        last_bits: u32,
    },
    Align {
        mask: u32,
    },
    U8 {
        node: NodeId,
    },
    S8 {
        node: NodeId,
    },
    U16 {
        node: NodeId,
        big: bool,
    },
    S16 {
        node: NodeId,
        big: bool,
    },
    U32 {
        node: NodeId,
        big: bool,
    },
    S32 {
        node: NodeId,
        big: bool,
    },
    U64 {
        node: NodeId,
        big: bool,
    },
    S64 {
        node: NodeId,
        big: bool,
    },
    F32 {
        node: NodeId,
        big: bool,
    },
    F64 {
        node: NodeId,
        big: bool,
    },
    Bits {
        node: NodeId,
        len: u8,
        big: bool,
        reversed: bool,
        signed: bool,
    },
    Wide {
        node: NodeId,
        len: u32,
        big: bool,
        reversed: bool,
        signed: bool,
    },
    Boolean {
        node: NodeId,
        len: u32,
        big: bool,
        reversed: bool,
    },
    Float {
        node: NodeId,
        len: u32,
        big: bool,
        reversed: bool,
    },
    Leb {
        node: NodeId,
        signed: bool,
    },
    /// Null-terminated, of code units of 1, 2 or 4 bytes.
    Str {
        node: NodeId,
        unit: u8,
    },
    StrBytes {
        node: NodeId,
        unit: u8,
        len: u16,
    },
    Blob {
        node: NodeId,
        len: u16,
    },
    /// A text that `renders[render]` of the plan makes; the field takes `bytes` itself.
    Rendered {
        node: NodeId,
        render: u16,
        bytes: u32,
    },
    /// Goes to so many bytes after where the fields begin ([`DecoderState::body_bits`]).
    Seek {
        bytes: u32,
    },
    /// Goes to where two integers, `bytes` after where the fields begin, say, and notes the length in a slot.
    Locate {
        bytes: u32,
        len: u16,
    },
    Set {
        slot: u16,
        value: u64,
    },
    Save {
        slot: u16,
    },
    /// [`Op::Save`] for an integer that may have more than 64 bits; `fits` gets 1 when it has not.
    SaveWide {
        slot: u16,
        fits: u16,
    },
    /// Refuses a length or selector whose field is absent: `slot` is 1 when what holds it is there.
    Require {
        slot: u16,
    },
    /// Refuses a length or selector that does not fit 64 bits: `slot` is 1 when it does.
    RequireFit {
        slot: u16,
    },
    /// `len` is 0 for LEB128; a `wide` integer may have more than 64 bits, and then counts as the largest of those.
    Role {
        role: Role,
        len: u8,
        wide: bool,
    },
    /// Width of the field just read, 0 for LEB128.
    Clock {
        len: u8,
    },
    Uuid,
    BeginStruct {
        node: NodeId,
    },
    EndStruct {
        node: NodeId,
    },
    /// Refuses `slots[len]` elements that cannot fit.
    Fit {
        node: NodeId,
        len: u16,
        min_bits: u32,
    },
    /// `counter` is the index, `counter + 1` the length, `counter + 2` where the element begins. `outermost` when no
    /// other array is around it.
    BeginArray {
        node: NodeId,
        len: u16,
        counter: u16,
        end: u32,
        outermost: bool,
    },
    /// An array of whole integers; the node of the elements is the next one.
    Integers {
        node: NodeId,
        len: u16,
        bytes: u8,
        signed: bool,
        big: bool,
    },
    EndArray {
        node: NodeId,
        counter: u16,
        begin: u32,
    },
    Select {
        node: NodeId,
        slot: u16,
        table: u32,
    },
    EndVariant {
        node: NodeId,
    },
    Optional {
        node: NodeId,
        slot: u16,
        table: u32,
    },
    EndOptional {
        node: NodeId,
    },
    /// The length that stands before the array `node`.
    Length {
        node: NodeId,
        slot: u16,
        len: u8,
        big: bool,
        reversed: bool,
        signed: bool,
    },
    /// The length that belongs to a value: `lengths[table]` of the plan.
    LookUp {
        from: u16,
        to: u16,
        table: u32,
    },
    /// Notes the position, plus 1.
    Place {
        slot: u16,
    },
    /// Notes where the structure begins that has bit-fields.
    Base {
        slot: u16,
    },
    /// Moves a bit-field of `len` bits to the next unit when it does not fit in this one.
    Unit {
        base: u16,
        len: u8,
        unit: u32,
    },
    /// A field of this byte order follows: inside a byte the one before it must have the same (CTF 1.8.3, 4.1.5).
    Order {
        node: NodeId,
        big: bool,
    },
    /// The padding after a structure.
    EndAlign {
        node: NodeId,
        mask: u32,
    },
    /// Is the bit `index >> 1` after the place of a slot set? Then the field is absent; big-endian when `index` is odd.
    Unmarked {
        node: NodeId,
        place: u16,
        index: u32,
        absent: u32,
    },
    Jump {
        to: u32,
    },
}

const _: () = assert!(size_of::<Op>() == 16);

impl Op {
    /// The slot that the instruction reads, when that may be one that another scope has filled.
    pub(super) fn uses(&self) -> Option<u16> {
        match *self {
            Op::AdvanceBy { len, .. }
            | Op::StrBytes { len, .. }
            | Op::Blob { len, .. }
            | Op::Fit { len, .. }
            | Op::BeginArray { len, .. }
            | Op::Integers { len, .. } => Some(len),
            Op::Select { slot, .. } | Op::Optional { slot, .. } | Op::Require { slot } | Op::RequireFit { slot } => {
                Some(slot)
            }
            Op::LookUp { from, .. } => Some(from),
            Op::Unmarked { place, .. } => Some(place),
            Op::Unit { base, .. } => Some(base),
            _ => None,
        }
    }

    pub(crate) fn node(&self) -> Option<NodeId> {
        match *self {
            Op::U8 { node }
            | Op::S8 { node }
            | Op::U16 { node, .. }
            | Op::S16 { node, .. }
            | Op::U32 { node, .. }
            | Op::S32 { node, .. }
            | Op::U64 { node, .. }
            | Op::S64 { node, .. }
            | Op::F32 { node, .. }
            | Op::F64 { node, .. }
            | Op::Bits { node, .. }
            | Op::Wide { node, .. }
            | Op::Boolean { node, .. }
            | Op::Float { node, .. }
            | Op::Leb { node, .. }
            | Op::Str { node, .. }
            | Op::StrBytes { node, .. }
            | Op::Blob { node, .. }
            | Op::Rendered { node, .. }
            | Op::BeginStruct { node }
            | Op::EndStruct { node }
            | Op::Fit { node, .. }
            | Op::Integers { node, .. }
            | Op::BeginArray { node, .. }
            | Op::EndArray { node, .. }
            | Op::Select { node, .. }
            | Op::EndVariant { node }
            | Op::Optional { node, .. }
            | Op::EndOptional { node }
            | Op::Length { node, .. }
            | Op::Order { node, .. }
            | Op::EndAlign { node, .. }
            | Op::Unmarked { node, .. } => Some(node),
            _ => None,
        }
    }
}
