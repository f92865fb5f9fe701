//! Where the fields of an event are (`SPEC.md`, section 6.1): sizes and alignment of types, once a facility load has
//! said how large an `int` is.
//!
//! Offsets count from the first byte of the event's data. A layout is walked to find where an event ends and whether its
//! fields fit, and copied from where plans cannot decode it in place.

use tracemill_codec::bits::read_uint;
use tracemill_model::schema::ByteOrder;

use super::definitions::{FacilityType, FieldDefinition, Integer, TypeKind};

/// Sizes of the types of C, and the alignment of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    /// Bytes of an `int`.
    pub(super) int: u8,
    /// Bytes of a `long`.
    pub(super) long: u8,
    /// Bytes of a pointer.
    pub(super) pointer: u8,
    /// Bytes of a `size_t`.
    pub(super) size: u8,
    /// Largest alignment of a field in bytes; 1 when fields are packed.
    pub(super) align: u8,
}

impl Sizes {
    /// Bytes of an integer.
    pub(super) fn integer_bytes(&self, integer: Integer) -> u8 {
        match integer {
            Integer::Fixed(bytes, _) => bytes,
            Integer::Char | Integer::UChar => 1,
            Integer::Short | Integer::UShort => 2,
            Integer::Int | Integer::UInt => self.int,
            Integer::Long | Integer::ULong => self.long,
            Integer::Pointer => self.pointer,
            Integer::Size | Integer::SSize | Integer::Offset => self.size,
        }
    }

    /// Bytes of a float, an integer or an enumeration; `None` for other types.
    pub(super) fn scalar_bytes(&self, class: &FacilityType) -> Option<u8> {
        match class.kind {
            TypeKind::Integer(integer) => Some(self.integer_bytes(integer)),
            TypeKind::Enumeration(_) => Some(self.int),
            TypeKind::Float(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Bytes of the length of a sequence.
    pub(super) fn length_bytes(&self, class: &FacilityType) -> u8 {
        self.scalar_bytes(class).unwrap_or(4)
    }

    /// Alignment to which strings and sequences are padded at their end.
    pub(super) fn tail(&self) -> u8 {
        self.pointer.min(self.align)
    }
}

/// A type in bytes.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Alignment in bytes, a power of two.
    pub(super) align: u8,
    /// Bytes that it always takes, from an aligned place on.
    pub(super) fixed: Option<u64>,
    /// Is there padding after it, or after something in it?
    pub(super) has_tail: bool,
    /// Does it hold a union?
    pub(super) has_union: bool,
    kind: LayoutShape,
}

#[derive(Clone, Debug)]
enum LayoutShape {
    Scalar(u8),
    String { tail: u8 },
    Array { len: u64, element: Box<Layout> },
    Sequence { length: u8, order: ByteOrder, element: Box<Layout>, tail: u8 },
    Struct(Box<[Layout]>),
    Union(Box<[Layout]>),
}

impl Layout {
    /// The layout of a type in a trace of a byte order.
    pub(super) fn from_type(class: &FacilityType, sizes: &Sizes, order: ByteOrder) -> Self {
        let scalar =
            |bytes: u8| Layout::new(bytes.min(sizes.align), Some(u64::from(bytes)), LayoutShape::Scalar(bytes));
        match &class.kind {
            TypeKind::Integer(integer) => scalar(sizes.integer_bytes(*integer)),
            TypeKind::Float(bytes) => scalar(*bytes),
            TypeKind::Enumeration(_) => scalar(sizes.int),
            TypeKind::String => {
                let tail = sizes.tail();
                Layout { has_tail: tail > 1, ..Layout::new(1, None, LayoutShape::String { tail }) }
            }
            TypeKind::Array(len, element) => {
                let element = Box::new(Layout::from_type(element, sizes, order));
                let fixed = element.fixed_elements(*len);
                let (has_tail, has_union) = (element.has_tail, element.has_union);
                Layout {
                    has_tail,
                    has_union,
                    ..Layout::new(element.align, fixed, LayoutShape::Array { len: *len, element })
                }
            }
            TypeKind::Sequence(length, element) => {
                let (length, order_of_length) = (sizes.length_bytes(length), length.order(order));
                let element = Box::new(Layout::from_type(element, sizes, order));
                let tail = sizes.tail();
                let align = element.align.max(length.min(sizes.align));
                let (has_tail, has_union) = (tail > 1 || element.has_tail, element.has_union);
                let shape = LayoutShape::Sequence { length, order: order_of_length, element, tail };
                Layout { has_tail, has_union, ..Layout::new(align, None, shape) }
            }
            TypeKind::Struct(fields) => Layout::structure(fields, sizes, order),
            TypeKind::Union(fields) => {
                let members = Layout::members(fields, sizes, order);
                let fixed = members.iter().try_fold(0, |largest: u64, member| Some(largest.max(member.fixed?)));
                let align = align_of(&members);
                let has_tail = members.iter().any(|member| member.has_tail);
                Layout { has_tail, has_union: true, ..Layout::new(align, fixed, LayoutShape::Union(members)) }
            }
        }
    }

    /// The layout of fields one after the other.
    pub(super) fn structure(fields: &[FieldDefinition], sizes: &Sizes, order: ByteOrder) -> Self {
        let members = Layout::members(fields, sizes, order);
        let fixed = members.iter().try_fold(0u64, |at, member| pad(at, member.align)?.checked_add(member.fixed?));
        let align = align_of(&members);
        let has_tail = members.iter().any(|member| member.has_tail);
        let has_union = members.iter().any(|member| member.has_union);
        Layout { has_tail, has_union, ..Layout::new(align, fixed, LayoutShape::Struct(members)) }
    }

    fn members(fields: &[FieldDefinition], sizes: &Sizes, order: ByteOrder) -> Box<[Layout]> {
        fields.iter().map(|field| Layout::from_type(&field.class, sizes, order)).collect()
    }

    fn new(align: u8, fixed: Option<u64>, kind: LayoutShape) -> Self {
        Layout { align: align.max(1), fixed, has_tail: false, has_union: false, kind }
    }

    /// The fields of a structure.
    pub(super) fn fields(&self) -> &[Layout] {
        if let LayoutShape::Struct(members) = &self.kind { members } else { &[] }
    }

    /// The element of an array or sequence.
    pub(super) fn element(&self) -> Option<&Layout> {
        match &self.kind {
            LayoutShape::Array { element, .. } | LayoutShape::Sequence { element, .. } => Some(element),
            _ => None,
        }
    }

    /// Bytes of so many elements of this kind.
    fn fixed_elements(&self, len: u64) -> Option<u64> {
        let bytes = self.fixed?;
        let stride = pad(bytes, self.align)?;
        stride.checked_mul(len.checked_sub(1)?)?.checked_add(bytes)
    }

    /// Where the type ends that begins at `at`, padding included: that may lie after the data when only padding does.
    /// `Err` when the data end inside of it.
    #[inline]
    pub(super) fn end(&self, data: &[u8], at: u64) -> Result<u64, Misfit> {
        self.walk(data, at, &mut NoCopy)
    }

    /// Appends the type that begins at `at` to `out` without padding, members of unions one after the other, and returns
    /// where it ends as [`Layout::end`] does.
    pub(super) fn copy(&self, data: &[u8], at: u64, out: &mut Vec<u8>, max: usize) -> Result<u64, Misfit> {
        self.walk(data, at, &mut Copy { out, max })
    }

    #[inline]
    fn walk<S: DataSink>(&self, data: &[u8], at: u64, sink: &mut S) -> Result<u64, Misfit> {
        let at = pad(at, self.align).ok_or(Misfit::End)?;
        if let (Some(bytes), false) = (self.fixed, S::COPIES) {
            return Ok(at + bytes_at(data, at, bytes)?.len() as u64);
        }
        match &self.kind {
            LayoutShape::Scalar(bytes) => {
                let own = bytes_at(data, at, u64::from(*bytes))?;
                sink.put(own)?;
                Ok(at + u64::from(*bytes))
            }
            LayoutShape::String { tail } => {
                let rest = data.get(at as usize..).ok_or(Misfit::End)?;
                let end = memchr::memchr(0, rest).ok_or(Misfit::Unterminated)?;
                sink.put(&rest[..=end])?;
                pad(at + end as u64 + 1, *tail).ok_or(Misfit::End)
            }
            LayoutShape::Array { len, element } => element.elements(*len, data, at, sink),
            LayoutShape::Sequence { length, order, element, tail } => {
                let own = bytes_at(data, at, u64::from(*length))?;
                sink.put(own)?;
                let len = read_uint(own, *order);
                let at = pad(at + own.len() as u64, element.align).ok_or(Misfit::End)?;
                let left = (data.len() as u64).saturating_sub(at);
                if len > left {
                    return Err(Misfit::TooLong { len, left });
                }
                let at = if len == 0 { at } else { element.elements(len, data, at, sink)? };
                pad(at, *tail).ok_or(Misfit::End)
            }
            LayoutShape::Struct(members) => members.iter().try_fold(at, |at, member| member.walk(data, at, sink)),
            LayoutShape::Union(members) => {
                members.iter().try_fold(at, |end, member| Ok(end.max(member.walk(data, at, sink)?)))
            }
        }
    }

    fn elements<S: DataSink>(&self, len: u64, data: &[u8], at: u64, sink: &mut S) -> Result<u64, Misfit> {
        if let Some(bytes) = self.fixed {
            let all = self.fixed_elements(len).ok_or(Misfit::End)?;
            let own = bytes_at(data, at, all)?;
            if !S::COPIES {
                return Ok(at + all);
            }
            if matches!(self.kind, LayoutShape::Scalar(_)) && pad(bytes, self.align) == Some(bytes) {
                sink.put(own)?;
                return Ok(at + all);
            }
        }
        (0..len).try_fold(at, |at, _| self.walk(data, at, sink))
    }
}

/// Why the data do not hold a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Misfit {
    /// They end inside of it.
    End,
    /// A string has no end in them.
    Unterminated,
    /// A sequence has more elements than there are bytes.
    TooLong {
        /// Elements.
        len: u64,
        /// Bytes.
        left: u64,
    },
    /// Written out, it is absurdly long.
    Huge,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Misfit::End => f.write_str("its data end inside of the field"),
            Misfit::Unterminated => f.write_str("the string has no end in its data"),
            Misfit::TooLong { len, left } => {
                write!(f, "a sequence of {len} elements, more than the {left} bytes that are left of its data")
            }
            Misfit::Huge => f.write_str("the field is too long when all members of its unions are written out"),
        }
    }
}

trait DataSink {
    const COPIES: bool;
    fn put(&mut self, bytes: &[u8]) -> Result<(), Misfit>;
}

struct NoCopy;

impl DataSink for NoCopy {
    const COPIES: bool = false;
    fn put(&mut self, _: &[u8]) -> Result<(), Misfit> {
        Ok(())
    }
}

struct Copy<'o> {
    out: &'o mut Vec<u8>,
    /// Length that `out` may have.
    max: usize,
}

impl DataSink for Copy<'_> {
    const COPIES: bool = true;
    fn put(&mut self, bytes: &[u8]) -> Result<(), Misfit> {
        if self.out.len() + bytes.len() > self.max {
            return Err(Misfit::Huge);
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }
}

fn align_of(members: &[Layout]) -> u8 {
    members.iter().map(|member| member.align).max().unwrap_or(1)
}

/// The next multiple of a power of two.
#[inline]
fn pad(at: u64, align: u8) -> Option<u64> {
    let mask = u64::from(align.max(1)) - 1;
    Some(at.checked_add(mask)? & !mask)
}

#[inline]
fn bytes_at(data: &[u8], at: u64, len: u64) -> Result<&[u8], Misfit> {
    let from = usize::try_from(at).map_err(|_| Misfit::End)?;
    let len = usize::try_from(len).map_err(|_| Misfit::End)?;
    data.get(from..from.checked_add(len).ok_or(Misfit::End)?).ok_or(Misfit::End)
}
