//! Checksums of facilities (`SPEC.md`, section 6.3): a CRC-32 over names and types.

use super::parser::NAMED;
use super::{FacilityDefinition, FacilityType, FieldDefinition, Integer, TypeKind};

/// The checksum of a facility.
pub(super) fn compute(facility: &FacilityDefinition) -> u32 {
    let mut crc = Crc(u32::MAX);
    crc.add(&facility.name);
    crc.0 = !crc.0;
    for event in &facility.events {
        crc.add(&event.name);
        crc.fields(&event.fields);
    }
    crc.0
}

/// A running CRC-32, reflected, of the polynomial 0xEDB88320.
struct Crc(u32);

impl Crc {
    fn add(&mut self, text: &str) {
        for &byte in text.as_bytes() {
            let mut low = (self.0 ^ u32::from(byte)) & 0xff;
            for _ in 0..8 {
                low = if low & 1 == 1 { low >> 1 ^ 0xEDB8_8320 } else { low >> 1 };
            }
            self.0 = self.0 >> 8 ^ low;
        }
    }

    fn fields(&mut self, fields: &[FieldDefinition]) {
        for field in fields {
            self.add(&field.name);
            self.class(&field.class);
        }
    }

    fn class(&mut self, class: &FacilityType) {
        match &class.kind {
            TypeKind::Integer(integer) => self.add(&integer_name(*integer)),
            TypeKind::Float(4) => self.add("float"),
            TypeKind::Float(_) => self.add("double"),
            TypeKind::Enumeration(_) => self.add("enum"),
            TypeKind::String => self.add("string"),
            TypeKind::Array(len, _) => self.add(&format!("array {len}")),
            TypeKind::Sequence(..) => self.add("sequence "),
            TypeKind::Struct(_) => self.add("struct"),
            TypeKind::Union(_) => self.add("union"),
        }
        if let Some(format) = &class.format {
            self.add(format);
        }
        match &class.kind {
            TypeKind::Array(_, element) => self.class(element),
            TypeKind::Sequence(length, element) => {
                self.class(length);
                self.class(element);
            }
            TypeKind::Struct(fields) | TypeKind::Union(fields) => self.fields(fields),
            TypeKind::Enumeration(labels) => labels.iter().for_each(|label| self.add(&label.label)),
            TypeKind::Integer(_) | TypeKind::Float(_) | TypeKind::String => {}
        }
    }
}

fn integer_name(integer: Integer) -> String {
    match integer {
        Integer::Fixed(bytes, is_signed) => {
            format!("{}int{}_t", if is_signed { "" } else { "u" }, u32::from(bytes) * 8)
        }
        named => NAMED.iter().find(|(.., known)| *known == named).map_or("", |(_, name, _)| name).to_string(),
    }
}
