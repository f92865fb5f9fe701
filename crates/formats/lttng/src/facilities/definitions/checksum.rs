//! Checksums of facilities (section 6.3): a CRC-32 over names and types.

use super::{FacilityDefinition, FieldDefinition, Integer, Kind, Type};

/// The checksum of a facility.
pub(super) fn of(facility: &FacilityDefinition) -> u32 {
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

    fn class(&mut self, class: &Type) {
        match &class.kind {
            Kind::Integer(integer) => self.add(integer_name(*integer)),
            Kind::Float(4) => self.add("float"),
            Kind::Float(_) => self.add("double"),
            Kind::Enumeration(_) => self.add("enum"),
            Kind::String => self.add("string"),
            Kind::Array(len, _) => self.add(&format!("array {len}")),
            Kind::Sequence(..) => self.add("sequence "),
            Kind::Struct(_) => self.add("struct"),
            Kind::Union(_) => self.add("union"),
        }
        if let Some(format) = &class.format {
            self.add(format);
        }
        match &class.kind {
            Kind::Array(_, element) => self.class(element),
            Kind::Sequence(length, element) => {
                self.class(length);
                self.class(element);
            }
            Kind::Struct(fields) | Kind::Union(fields) => self.fields(fields),
            Kind::Enumeration(labels) => labels.iter().for_each(|label| self.add(&label.label)),
            Kind::Integer(_) | Kind::Float(_) | Kind::String => {}
        }
    }
}

fn integer_name(integer: Integer) -> &'static str {
    match integer {
        Integer::Fixed(1, true) => "int8_t",
        Integer::Fixed(2, true) => "int16_t",
        Integer::Fixed(4, true) => "int32_t",
        Integer::Fixed(_, true) => "int64_t",
        Integer::Fixed(1, false) => "uint8_t",
        Integer::Fixed(2, false) => "uint16_t",
        Integer::Fixed(4, false) => "uint32_t",
        Integer::Fixed(_, false) => "uint64_t",
        Integer::Char => "signed char",
        Integer::UChar => "unsigned char",
        Integer::Short => "short",
        Integer::UShort => "unsigned short",
        Integer::Int => "int",
        Integer::UInt => "uint",
        Integer::Long => "long",
        Integer::ULong => "unsigned long",
        Integer::Pointer => "void *",
        Integer::Size => "size_t",
        Integer::SSize => "ssize_t",
        Integer::Offset => "off_t",
    }
}
