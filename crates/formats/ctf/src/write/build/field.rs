//! Descriptions of fields, before they stand in a schema.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    ArrayClass, BitsClass, BlobClass, ByteOrder, DisplayBase, FieldClass, FieldClassId, FieldKind, FieldPath,
    FloatClass, IntegerClass, Length, Mapping, Member, OptionalClass, PathStep, Presence, Range, Schema, Scope,
    StringClass, StructClass, VariantClass, VariantOption,
};

use super::super::Dialect;
use crate::names::{is_identifier, is_word};

/// Alignment of every field.
const BYTE: u32 = 8;
/// Deepest nesting; readers have limits too.
const MAX_DEPTH: usize = 32;

/// The class of a field: the argument of `field` and `context`, made by the functions of this module.
///
/// Every field begins at a whole byte of the packet, whatever its width is.
#[derive(Clone, Debug)]
pub struct Field {
    kind: BuiltKind,
    order: ByteOrder,
    base: DisplayBase,
    labels: Vec<(String, Range)>,
}

#[derive(Clone, Debug)]
enum BuiltKind {
    Integer { len_bits: u32, signed: bool },
    Boolean,
    Float(u32),
    Text,
    Blob(Option<u64>),
    Array(Box<Field>, Option<u64>),
    Struct(Vec<(String, Field)>),
    Optional(Box<Field>),
    Variant(Vec<(String, Field)>),
}

fn field(kind: BuiltKind) -> Field {
    Field { kind, order: ByteOrder::Little, base: DisplayBase::Decimal, labels: Vec::new() }
}

/// An unsigned integer of 1 to 64 bits.
pub fn unsigned(len_bits: u32) -> Field {
    field(BuiltKind::Integer { len_bits, signed: false })
}

/// A signed integer of 1 to 64 bits, in two's complement.
pub fn signed(len_bits: u32) -> Field {
    field(BuiltKind::Integer { len_bits, signed: true })
}

/// An unsigned integer of 8 bits.
pub fn u8() -> Field {
    unsigned(8)
}

/// An unsigned integer of 16 bits.
pub fn u16() -> Field {
    unsigned(16)
}

/// An unsigned integer of 32 bits.
pub fn u32() -> Field {
    unsigned(32)
}

/// An unsigned integer of 64 bits.
pub fn u64() -> Field {
    unsigned(64)
}

/// A signed integer of 8 bits.
pub fn i8() -> Field {
    signed(8)
}

/// A signed integer of 16 bits.
pub fn i16() -> Field {
    signed(16)
}

/// A signed integer of 32 bits.
pub fn i32() -> Field {
    signed(32)
}

/// A signed integer of 64 bits.
pub fn i64() -> Field {
    signed(64)
}

/// A floating point number of 32 bits.
pub fn f32() -> Field {
    field(BuiltKind::Float(32))
}

/// A floating point number of 64 bits.
pub fn f64() -> Field {
    field(BuiltKind::Float(64))
}

/// A boolean, in a byte. CTF 1.8 has none: there it is an unsigned integer of 8 bits, 0 or 1.
pub fn boolean() -> Field {
    field(BuiltKind::Boolean)
}

/// A string in UTF-8 that ends with a zero byte.
pub fn string() -> Field {
    field(BuiltKind::Text)
}

/// Bytes, as many as each event has. CTF 1.8 has no blobs: there it is a sequence of integers of 8 bits.
pub fn blob() -> Field {
    field(BuiltKind::Blob(None))
}

/// A number of bytes, at least one. In CTF 1.8 an array of integers of 8 bits.
pub fn blob_of(len: u64) -> Field {
    field(BuiltKind::Blob(Some(len)))
}

/// An array of as many elements as each event has.
pub fn list(element: Field) -> Field {
    field(BuiltKind::Array(Box::new(element), None))
}

/// An array of so many elements, at least one.
pub fn array(len: u64, element: Field) -> Field {
    field(BuiltKind::Array(Box::new(element), Some(len)))
}

/// A structure of named members.
pub fn structure<N: Into<String>>(members: impl IntoIterator<Item = (N, Field)>) -> Field {
    field(BuiltKind::Struct(members.into_iter().map(|(name, field)| (name.into(), field)).collect()))
}

/// A field that is there in some events. CTF 2 only.
pub fn optional(content: Field) -> Field {
    field(BuiltKind::Optional(Box::new(content)))
}

/// One of several named fields. In CTF 1.8 the names must be identifiers of C.
pub fn variant<N: Into<String>>(options: impl IntoIterator<Item = (N, Field)>) -> Field {
    field(BuiltKind::Variant(options.into_iter().map(|(name, field)| (name.into(), field)).collect()))
}

impl Field {
    /// A number with the most significant byte first. Little-endian without it.
    #[must_use]
    pub fn big_endian(mut self) -> Self {
        self.order = ByteOrder::Big;
        self
    }

    /// An integer that is shown in base 16.
    #[must_use]
    pub fn hex(mut self) -> Self {
        self.base = DisplayBase::Hexadecimal;
        self
    }

    /// An integer that is shown in base 8.
    #[must_use]
    pub fn octal(mut self) -> Self {
        self.base = DisplayBase::Octal;
        self
    }

    /// An integer that is shown in base 2.
    #[must_use]
    pub fn binary(mut self) -> Self {
        self.base = DisplayBase::Binary;
        self
    }

    /// An enumeration: an integer with a label for a value. A label may stand for several values, a value may have several
    /// labels or none.
    #[must_use]
    pub fn label(self, label: impl Into<String>, value: i128) -> Self {
        self.labels(label, value..=value)
    }

    /// An enumeration: an integer with a label for a range of values.
    #[must_use]
    pub fn labels(mut self, label: impl Into<String>, values: RangeInclusive<i128>) -> Self {
        self.labels.push((label.into(), values.into_inner()));
        self
    }

    /// Is what was said about its number said of a number, and does it make sense?
    fn check(&self) -> std::result::Result<(), String> {
        let (has_order, has_base) = match &self.kind {
            BuiltKind::Integer { len_bits, signed } => {
                if !(1..=64).contains(len_bits) {
                    return Err(format!("an integer of {len_bits} bits; 1 to 64 are possible"));
                }
                let (least, most) = match signed {
                    true => (-(1i128 << (len_bits - 1)), (1i128 << (len_bits - 1)) - 1),
                    false => (0, (1i128 << len_bits) - 1),
                };
                for (label, (low, high)) in &self.labels {
                    if low > high || *low < least || *high > most {
                        return Err(format!("the label `{label}` stands for values that the integer does not hold"));
                    }
                }
                return Ok(());
            }
            BuiltKind::Float(_) => (true, false),
            // It would be aligned and take nothing: a packet that ends with one has no end that all readers agree on.
            BuiltKind::Blob(Some(0)) | BuiltKind::Array(_, Some(0)) => {
                return Err("an array or blob of length 0".into());
            }
            _ => (false, false),
        };
        if self.order == ByteOrder::Big && !has_order {
            return Err("a byte order of something that is not a number".into());
        }
        if (self.base != DisplayBase::Decimal || !self.labels.is_empty()) && !has_base {
            return Err("a base or labels of something that is not an integer".into());
        }
        Ok(())
    }
}

/// Adds fields to a schema.
pub(super) struct FieldAdder<'a> {
    dialect: Dialect,
    schema: &'a mut Schema,
    path: FieldPath,
    name: String,
}

impl<'a> FieldAdder<'a> {
    pub(super) fn new(dialect: Dialect, schema: &'a mut Schema, scope: Scope) -> Self {
        FieldAdder { dialect, schema, path: FieldPath { scope, steps: Vec::new() }, name: scope.key().into() }
    }

    /// The structure of the fields of a scope, whose first members are there already.
    pub(super) fn root(&mut self, mut members: Vec<Member>, fields: &[(String, Field)]) -> Result<FieldClassId> {
        self.members(&mut members, fields)?;
        Ok(self.structure(members))
    }

    fn structure(&mut self, members: Vec<Member>) -> FieldClassId {
        let align_bits = self.schema.struct_align_bits(&members, 1);
        self.add(FieldKind::Struct(StructClass { members }), align_bits)
    }

    fn add(&mut self, kind: FieldKind, align_bits: u32) -> FieldClassId {
        self.schema.add_field_class(FieldClass::new(kind, align_bits))
    }

    fn members(&mut self, members: &mut Vec<Member>, fields: &[(String, Field)]) -> Result<()> {
        for (name, field) in fields {
            let outer = self.name.len();
            self.name.push('.');
            self.name.push_str(name);
            if name.is_empty() {
                return Err(self.refuse("a field without a name"));
            }
            if let Some(before) = self.before(name, field) {
                self.push(members, before)?;
            }
            self.path.steps.push(PathStep::Member(members.len() as u32));
            let class = self.class(field, true)?;
            self.path.steps.pop();
            self.push(members, Member::new(name.as_str(), class))?;
            self.name.truncate(outer);
        }
        Ok(())
    }

    fn push(&self, members: &mut Vec<Member>, member: Member) -> Result<()> {
        if members.iter().any(|other| other.name == member.name) {
            return Err(self.refuse(&format!("two fields are named `{}`", member.name)));
        }
        members.push(member);
        Ok(())
    }

    /// The member that says the length, presence or option of the one that will stand after it.
    fn before(&mut self, name: &str, field: &Field) -> Option<Member> {
        let (suffix, kind) = match &field.kind {
            BuiltKind::Blob(None) | BuiltKind::Array(_, None) => {
                ("length", FieldKind::Integer(IntegerClass::unsigned(32)))
            }
            BuiltKind::Optional(_) => ("present", boolean_kind()),
            BuiltKind::Variant(options) => {
                let labels = options.iter().enumerate().map(|(at, (name, _))| Mapping {
                    label: name.as_str().into(),
                    ranges: vec![(at as i128, at as i128)],
                });
                let len_bits = if options.len() <= 256 { 8 } else { 16 };
                let mappings = Some(labels.collect());
                ("tag", FieldKind::Integer(IntegerClass { mappings, ..IntegerClass::unsigned(len_bits) }))
            }
            _ => return None,
        };
        let class = self.add(kind, BYTE);
        Some(Member::new(format!("_{name}_{suffix}"), class))
    }

    /// The class of a field. Only a member has another one before it.
    fn class(&mut self, field: &Field, is_member: bool) -> Result<FieldClassId> {
        field.check().map_err(|text| self.refuse(&text))?;
        if self.path.steps.len() > MAX_DEPTH {
            return Err(self.refuse("fields more than 32 levels deep"));
        }
        let has_before = match &field.kind {
            BuiltKind::Blob(len) | BuiltKind::Array(_, len) => len.is_none(),
            BuiltKind::Optional(_) | BuiltKind::Variant(_) => true,
            _ => false,
        };
        if has_before && !is_member {
            let error = self.refuse("a list, blob, optional field or variant that is not a member of a structure");
            return Err(error.with_help("put it into a structure of its own: `structure([(\"items\", ..)])`"));
        }
        let (base, byte_order) = (field.base, field.order);
        let kind = match &field.kind {
            BuiltKind::Integer { len_bits, signed } => {
                let mappings = mappings(&field.labels);
                let class =
                    IntegerClass { base, byte_order, mappings, signed: *signed, ..IntegerClass::unsigned(*len_bits) };
                FieldKind::Integer(class)
            }
            BuiltKind::Boolean => boolean_kind(),
            BuiltKind::Float(len_bits) => FieldKind::Float(FloatClass::new(*len_bits, byte_order)),
            BuiltKind::Text => FieldKind::String(StringClass::utf8()),
            BuiltKind::Blob(len) => FieldKind::Blob(BlobClass::new(self.length(*len))),
            BuiltKind::Array(element, len) => {
                let length = self.length(*len);
                let element = self.inside(PathStep::Element, element)?;
                let align_bits = self.schema.field_class(element).align_bits;
                return Ok(self.add(FieldKind::Array(ArrayClass { element, length }), align_bits));
            }
            BuiltKind::Struct(fields) => {
                let mut members = Vec::new();
                self.members(&mut members, fields)?;
                return Ok(self.structure(members));
            }
            BuiltKind::Optional(_) if self.dialect == Dialect::Ctf18 => {
                let error = Error::unsupported("CTF 1.8 has no optional fields").in_field(&*self.name);
                return Err(error.with_help("write CTF 2, or a list of none or one"));
            }
            BuiltKind::Optional(content) => {
                let (selector, presence) = (self.selector(), Presence::Boolean);
                let content = self.inside(PathStep::Content, content)?;
                return Ok(self.add(FieldKind::Optional(OptionalClass { selector, presence, content }), 1));
            }
            BuiltKind::Variant(options) => {
                let class = self.variant(options)?;
                return Ok(self.add(FieldKind::Variant(class), 1));
            }
        };
        Ok(self.add(kind, BYTE))
    }

    fn variant(&mut self, fields: &[(String, Field)]) -> Result<VariantClass> {
        if fields.is_empty() || fields.len() > 1 << 16 {
            return Err(self.refuse("a variant of no option, or of more than 65,536"));
        }
        let selector = self.selector();
        let mut options: Vec<VariantOption> = Vec::new();
        for (at, (name, field)) in fields.iter().enumerate() {
            let is_name = is_identifier(name) && !name.starts_with('_') && !is_word(name);
            if self.dialect == Dialect::Ctf18 && !is_name {
                let error = Error::unsupported(format!("CTF 1.8 cannot name an option `{name}`"));
                return Err(error.in_field(&*self.name).with_help("use an identifier of C, or write CTF 2"));
            }
            if fields[..at].iter().any(|(other, _)| other == name) {
                return Err(self.refuse(&format!("two options are named `{name}`")));
            }
            let outer = self.name.len();
            self.name.push('.');
            self.name.push_str(name);
            let class = self.inside(PathStep::Option(at as u32), field)?;
            self.name.truncate(outer);
            let name: Option<Arc<str>> = Some(name.as_str().into());
            options.push(VariantOption { raw_name: name.clone(), name, ranges: vec![(at as i128, at as i128)], class });
        }
        Ok(VariantClass { selector, options })
    }

    fn inside(&mut self, step: PathStep, field: &Field) -> Result<FieldClassId> {
        self.path.steps.push(step);
        let class = self.class(field, false);
        self.path.steps.pop();
        class
    }

    fn length(&self, len: Option<u64>) -> Length {
        len.map_or_else(|| Length::Field(self.selector()), Length::Static)
    }

    /// The member before the one that is added.
    fn selector(&self) -> FieldPath {
        let mut path = self.path.clone();
        if let Some(PathStep::Member(at)) = path.steps.last_mut() {
            *at = at.saturating_sub(1);
        }
        path
    }

    fn refuse(&self, text: &str) -> Error {
        Error::misuse(text).in_field(&*self.name)
    }
}

fn boolean_kind() -> FieldKind {
    FieldKind::Boolean(BitsClass::new(8, ByteOrder::Little))
}

/// Each label once, with all its values.
fn mappings(labels: &[(String, Range)]) -> Option<Arc<[Mapping]>> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for (label, range) in labels {
        match mappings.iter_mut().find(|mapping| *mapping.label == **label) {
            Some(mapping) => mapping.ranges.push(*range),
            None => mappings.push(Mapping { label: label.as_str().into(), ranges: vec![*range] }),
        }
    }
    (!mappings.is_empty()).then(|| mappings.into())
}

/// Puts what CTF 1.8 has in the place of booleans and blobs from this class on. Their bytes are the same.
pub(super) fn lower(schema: &mut Schema, from: usize) {
    for at in from..schema.field_class_count() {
        let id = FieldClassId(at as u32);
        let mut class = schema.field_class(id).clone();
        class.kind = match class.kind {
            FieldKind::Boolean(bits) => {
                let byte_order = bits.byte_order;
                FieldKind::Integer(IntegerClass { byte_order, ..IntegerClass::unsigned(bits.len_bits) })
            }
            FieldKind::Blob(blob) => {
                let byte = IntegerClass { base: DisplayBase::Hexadecimal, ..IntegerClass::unsigned(8) };
                let element = schema.add_field_class(FieldClass::new(FieldKind::Integer(byte), BYTE));
                FieldKind::Array(ArrayClass { element, length: blob.length })
            }
            _ => continue,
        };
        schema.set_field_class(id, class);
    }
}
