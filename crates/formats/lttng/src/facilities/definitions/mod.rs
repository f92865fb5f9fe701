//! The definition language: facilities with their types, events and fields (`SPEC.md`, section 6).

mod checksum;
mod parser;
mod text;

use std::path::Path;
use std::sync::Arc;

use tracemill_model::error::Error;
use tracemill_model::schema::{ByteOrder, Mapping};

pub(super) use parser::are_possible;

/// A facility as a definition file describes it.
#[derive(Clone, Debug)]
pub struct FacilityDefinition {
    /// Name.
    pub name: String,
    /// Architecture, of facilities that have one for each.
    pub arch: Option<String>,
    /// Events; their ids are their places.
    pub events: Vec<EventDefinition>,
    /// Checksum by which a trace names it.
    pub checksum: u32,
}

/// An event of a facility.
#[derive(Clone, Debug)]
pub struct EventDefinition {
    /// Name.
    pub name: String,
    /// Its description, when it has one.
    pub description: Option<String>,
    /// Its fields.
    pub fields: Vec<FieldDefinition>,
    /// Is its first field in the header of compact tracefiles?
    pub has_compact_data: bool,
}

/// A field of an event, a structure or a union.
#[derive(Clone, Debug)]
pub struct FieldDefinition {
    /// Name.
    pub name: Arc<str>,
    /// Type.
    pub class: Arc<FacilityType>,
}

/// A type.
#[derive(Clone, Debug)]
pub struct FacilityType {
    /// Its kind, with the types in it.
    pub kind: TypeKind,
    /// How the producer wants it shown, as for `printf`.
    pub format: Option<String>,
    /// Is it big-endian whatever the trace is?
    pub is_network: bool,
    /// Fields and labels when every type is written out at each of its uses.
    size: u64,
}

/// Kind of a type.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// Integer.
    Integer(Integer),
    /// Floating point number of 4 or 8 bytes.
    Float(u8),
    /// Signed integer with labels.
    Enumeration(Arc<[Mapping]>),
    /// Null-terminated string.
    String,
    /// The number of elements.
    Array(u64, Arc<FacilityType>),
    /// A length and elements.
    Sequence(Arc<FacilityType>, Arc<FacilityType>),
    /// Fields one after the other.
    Struct(Vec<FieldDefinition>),
    /// Fields in the same bytes.
    Union(Vec<FieldDefinition>),
}

/// An integer type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Integer {
    /// Of so many bytes, signed or not.
    Fixed(u8, bool),
    /// `char`.
    Char,
    /// `uchar`.
    UChar,
    /// `short`.
    Short,
    /// `ushort`.
    UShort,
    /// `int`.
    Int,
    /// `uint`.
    UInt,
    /// `long`.
    Long,
    /// `ulong`.
    ULong,
    /// `pointer`.
    Pointer,
    /// `size_t`.
    Size,
    /// `ssize_t`.
    SSize,
    /// `off_t`.
    Offset,
}

impl Integer {
    /// Is it signed?
    pub fn is_signed(self) -> bool {
        use Integer::{Char, Fixed, Int, Long, SSize, Short};
        matches!(self, Fixed(_, true) | Char | Short | Int | Long | SSize)
    }
}

/// Content of a definition file.
#[derive(Clone, Debug, Default)]
pub struct DefinitionFile {
    /// Facilities that can be used.
    pub facilities: Vec<Arc<FacilityDefinition>>,
    /// Facilities that cannot: the name, when it was read, and why.
    pub broken: Vec<(Option<String>, Error)>,
}

impl DefinitionFile {
    /// Reads a definition file in any of its three dialects. Every facility that is whole is usable.
    pub fn parse(text: &[u8], path: &Path) -> Self {
        parser::parse(text, path)
    }
}

impl FacilityType {
    /// The byte order of its numbers in a trace of a byte order.
    pub(crate) fn order(&self, of_trace: ByteOrder) -> ByteOrder {
        if self.is_network { ByteOrder::Big } else { of_trace }
    }

    /// A type, with the format in which the producer wants it shown.
    pub fn new(kind: TypeKind, format: Option<String>) -> Self {
        let inside = match &kind {
            TypeKind::Array(_, element) => element.size,
            TypeKind::Sequence(length, element) => length.size.saturating_add(element.size),
            TypeKind::Struct(fields) | TypeKind::Union(fields) => parser::fields_size(fields),
            TypeKind::Enumeration(labels) => {
                labels.iter().map(|label| parser::name_size(&label.label)).fold(0, u64::saturating_add)
            }
            TypeKind::Integer(_) | TypeKind::Float(_) | TypeKind::String => 0,
        };
        FacilityType { kind, format, is_network: false, size: inside.saturating_add(1) }
    }

    /// Fields and labels when every type in it is written out at each of its uses.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl FacilityDefinition {
    /// A facility of these events, with the checksum that readers find for it.
    pub fn new(name: String, events: Vec<EventDefinition>) -> Self {
        let mut facility = FacilityDefinition { name, arch: None, events, checksum: 0 };
        // Readers refuse larger ones, and know no checksum of them.
        if parser::is_facility_possible(&facility) {
            facility.checksum = checksum::compute(&facility);
        }
        facility
    }

    /// Fields and labels of all events.
    pub fn size(&self) -> u64 {
        self.events.iter().map(|event| 1 + parser::fields_size(&event.fields)).fold(0, u64::saturating_add)
    }
}
