//! From the field classes of a trace to the types of definitions.

use std::sync::Arc;

use tracemill_model::schema::{DisplayBase, FieldClassId, FieldKind, IntegerClass, Length, Mapping, Schema};

use super::names::text;
use crate::facilities::definitions::{FacilityType, FieldDefinition, Integer, TypeKind};
use tracemill_format::lost::{Losses, Lost};

/// Format of numbers that are shown in hexadecimal.
const HEXADECIMAL: &str = "%#llx";

/// Makes the types of fields, and counts the properties of their classes that the language cannot hold.
pub(super) struct Types<'a> {
    pub(super) schema: &'a Schema,
    pub(super) losses: &'a mut Losses,
}

impl Types<'_> {
    /// The definition of a field; characters of its name that the language cannot hold are replaced.
    pub(super) fn field(&mut self, name: &str, class: FieldClassId, depth: u32) -> FieldDefinition {
        let shown = text(name);
        self.losses.add(Lost::NameCharacters, (shown != name).into());
        let name = if shown.is_empty() { "_".into() } else { shown.into() };
        FieldDefinition { name, class: self.class(class, depth) }
    }

    fn class(&mut self, class: FieldClassId, depth: u32) -> Arc<FacilityType> {
        let mut format = None;
        let kind = match &self.schema.field_class(class).kind {
            _ if depth > 24 => {
                self.losses.add(Lost::DeepFields, 1);
                TypeKind::Struct(Vec::new())
            }
            FieldKind::Integer(integer) if integer.len_bits > 64 => {
                self.losses.add(Lost::WideIntegers, 1);
                TypeKind::String
            }
            FieldKind::Integer(IntegerClass { mappings: Some(mappings), signed, len_bits: bits, .. })
                if *signed || (1..64).contains(bits) =>
            {
                TypeKind::Enumeration(self.labels(mappings))
            }
            FieldKind::Integer(integer) => {
                self.losses.add(Lost::UnsignedLabels, integer.mappings.is_some().into());
                format = match integer.base {
                    DisplayBase::Hexadecimal => Some(HEXADECIMAL),
                    DisplayBase::Octal => Some("%#llo"),
                    _ => None,
                };
                let bits = if integer.len_bits == 0 { 64 } else { integer.len_bits };
                let bytes = (bits.next_power_of_two().max(8) / 8) as u8;
                TypeKind::Integer(Integer::Fixed(bytes, integer.signed))
            }
            FieldKind::BitArray(_) | FieldKind::BitMap(_) => {
                let is_map = matches!(self.schema.field_class(class).kind, FieldKind::BitMap(_));
                self.losses.add(Lost::BitFlags, is_map.into());
                format = Some(HEXADECIMAL);
                TypeKind::Integer(Integer::Fixed(8, false))
            }
            FieldKind::Boolean(_) => {
                self.losses.add(Lost::Booleans, 1);
                TypeKind::Integer(Integer::Fixed(1, false))
            }
            FieldKind::Float(float) => {
                self.losses.add(Lost::WideFloats, (float.len_bits > 64).into());
                TypeKind::Float(if float.len_bits == 32 { 4 } else { 8 })
            }
            FieldKind::String(_) | FieldKind::Rendered(_) => TypeKind::String,
            FieldKind::Blob(_) => {
                self.losses.add(Lost::MediaTypes, 1);
                sequence(byte())
            }
            FieldKind::Struct(structure) => {
                let members = structure.members.iter();
                TypeKind::Struct(members.map(|member| self.field(&member.name, member.class, depth + 1)).collect())
            }
            FieldKind::Array(array) => {
                let element = self.element(array.element, depth);
                match array.length {
                    Length::Static(len) if len > 0 => TypeKind::Array(len, element),
                    _ => sequence(element),
                }
            }
            FieldKind::Optional(optional) => {
                self.losses.add(Lost::Optionals, 1);
                sequence(self.element(optional.content, depth))
            }
            FieldKind::Variant(variant) => {
                self.losses.add(Lost::Variants, 1);
                let options = variant.options.iter().enumerate().map(|(at, option)| {
                    let name = option.name.as_deref().map_or_else(|| at.to_string(), str::to_string);
                    let class = sequence(self.element(option.class, depth));
                    FieldDefinition { name: text(&name).into(), class: Arc::new(FacilityType::new(class, None)) }
                });
                TypeKind::Struct(options.collect())
            }
        };
        Arc::new(FacilityType::new(kind, format.map(str::to_string)))
    }

    /// The type of elements. Those without bytes are refused by the language: they are counted by a byte each.
    fn element(&mut self, class: FieldClassId, depth: u32) -> Arc<FacilityType> {
        let element = self.class(class, depth + 1);
        if is_empty(self.schema, class) { byte() } else { element }
    }

    fn labels(&mut self, mappings: &[Mapping]) -> Arc<[Mapping]> {
        let mut labels = Vec::new();
        for mapping in mappings {
            let label: Arc<str> = text(&mapping.label).into();
            for &(low, high) in &mapping.ranges {
                if high.saturating_sub(low) >= 64 || label.is_empty() {
                    self.losses.add(Lost::RangeLabels, 1);
                    continue;
                }
                labels.extend((low..=high).map(|value| Mapping { label: label.clone(), ranges: vec![(value, value)] }));
            }
        }
        labels.into()
    }
}

/// Elements after their number.
fn sequence(element: Arc<FacilityType>) -> TypeKind {
    TypeKind::Sequence(Arc::new(FacilityType::new(TypeKind::Integer(Integer::Fixed(4, false)), None)), element)
}

fn byte() -> Arc<FacilityType> {
    Arc::new(FacilityType::new(TypeKind::Integer(Integer::UChar), None))
}

/// Do values of a class take no bytes?
fn is_empty(schema: &Schema, class: FieldClassId) -> bool {
    match &schema.field_class(class).kind {
        FieldKind::Struct(structure) => structure.members.iter().all(|member| is_empty(schema, member.class)),
        _ => false,
    }
}
