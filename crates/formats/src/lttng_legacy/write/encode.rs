//! From values to the bytes of an event (section 6.1): the other direction of `layout`.

use tracemill_codec::value::Value;

use super::super::definitions::{FieldDefinition, Kind, Type};
use super::super::layout::Sizes;

/// How numbers are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) sizes: Sizes,
    pub(super) is_big: bool,
    pub(super) floats_are_big: bool,
}

/// A value is absent: the event ends before it.
pub(super) struct Absent;

/// Zeros up to a multiple of a power of two.
pub(super) fn pad(out: &mut Vec<u8>, align: u8) {
    out.resize(out.len().next_multiple_of(usize::from(align.max(1))), 0);
}

impl Form {
    /// Appends fields; an absent one ends them.
    pub(super) fn fields(&self, fields: &[FieldDefinition], values: &[Value], out: &mut Vec<u8>) -> Result<(), Absent> {
        fields.iter().zip(values).try_for_each(|(field, value)| {
            let before = out.len();
            // What is not whole is not there.
            self.field(&field.class, value, out).inspect_err(|_| out.truncate(before))
        })
    }

    fn align_of(&self, class: &Type) -> u8 {
        let inside = |fields: &[FieldDefinition]| fields.iter().map(|field| self.align_of(&field.class)).max();
        let align = match &class.kind {
            Kind::Integer(integer) => self.sizes.of(*integer),
            Kind::Enumeration(_) => self.sizes.int,
            Kind::Float(bytes) => *bytes,
            Kind::String => 1,
            Kind::Array(_, element) => self.align_of(element),
            Kind::Sequence(length, element) => self.align_of(length).max(self.align_of(element)),
            Kind::Struct(fields) | Kind::Union(fields) => inside(fields).unwrap_or(1),
        };
        align.min(self.sizes.align).max(1)
    }

    fn field(&self, class: &Type, value: &Value, out: &mut Vec<u8>) -> Result<(), Absent> {
        if value.is_null() {
            return Err(Absent);
        }
        let is_big = self.is_big || class.is_network;
        match &class.kind {
            Kind::Integer(_) | Kind::Enumeration(_) => {
                pad(out, self.align_of(class));
                self.integer(class, value.integer().unwrap_or(0), out);
            }
            Kind::Float(bytes) => {
                pad(out, self.align_of(class));
                let real = if let Value::Real(real) = value { *real } else { 0.0 };
                let image = if *bytes == 4 { u64::from((real as f32).to_bits()) } else { real.to_bits() };
                put(image, *bytes, self.floats_are_big || class.is_network, out);
            }
            Kind::String => {
                let text = value.bytes().unwrap_or_default();
                out.extend_from_slice(&text[..memchr::memchr(0, text).unwrap_or(text.len())]);
                out.push(0);
                pad(out, self.sizes.tail());
            }
            Kind::Array(_, element) => {
                pad(out, self.align_of(class));
                value.elements().unwrap_or_default().iter().try_for_each(|value| self.field(element, value, out))?;
            }
            Kind::Sequence(length, element) => {
                let elements = value.elements().unwrap_or_default();
                pad(out, self.align_of(class));
                let bytes = if let Kind::Integer(integer) = length.kind { self.sizes.of(integer) } else { 4 };
                put(elements.len() as u64, bytes, is_big || length.is_network, out);
                pad(out, self.align_of(element));
                elements.iter().try_for_each(|value| self.field(element, value, out))?;
                pad(out, self.sizes.tail());
            }
            Kind::Struct(fields) => {
                pad(out, self.align_of(class));
                let Value::Struct(members) = value else { return Err(Absent) };
                for (field, (_, value)) in fields.iter().zip(members) {
                    self.field(&field.class, value, out)?;
                }
            }
            Kind::Union(fields) => {
                pad(out, self.align_of(class));
                let Value::Struct(members) = value else { return Err(Absent) };
                let begin = out.len();
                let mut images = Vec::new();
                for (field, (_, value)) in fields.iter().zip(members) {
                    let mut image = out.clone();
                    self.field(&field.class, value, &mut image)?;
                    images.push(image.split_off(begin));
                }
                // The longest last, or its padding would hide what shorter ones have there: floats of the members may
                // not keep all bits, integers do.
                images.sort_by_key(Vec::len);
                let mut own = images.pop().unwrap_or_default();
                for image in images {
                    own[..image.len()].copy_from_slice(&image);
                }
                out.append(&mut own);
            }
        }
        Ok(())
    }

    /// Appends an integer without padding.
    pub(super) fn integer(&self, class: &Type, value: i128, out: &mut Vec<u8>) {
        let bytes = match class.kind {
            Kind::Integer(integer) => self.sizes.of(integer),
            _ => self.sizes.int,
        };
        put(value as u64, bytes, self.is_big || class.is_network, out);
    }
}

/// Appends the low bytes of a number.
pub(super) fn put(value: u64, bytes: u8, is_big: bool, out: &mut Vec<u8>) {
    let bytes = usize::from(bytes.min(8));
    if is_big {
        out.extend_from_slice(&value.to_be_bytes()[8 - bytes..]);
    } else {
        out.extend_from_slice(&value.to_le_bytes()[..bytes]);
    }
}
