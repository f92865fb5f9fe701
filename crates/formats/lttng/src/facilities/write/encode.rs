//! From values to the bytes of an event (`SPEC.md`, section 6.1): the other direction of `layout`.

use std::ops::Range;

use tracemill_codec::bits::put_uint;
use tracemill_codec::value::Value;
use tracemill_model::schema::ByteOrder;

use super::super::definitions::{FacilityType, FieldDefinition, TypeKind};
use super::super::layout::Sizes;

/// How numbers are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberForm {
    pub(super) sizes: Sizes,
    pub(super) order: ByteOrder,
    pub(super) float_order: ByteOrder,
}

/// A value is absent: the event ends before it.
pub(super) struct Absent;

/// Zeros up to a multiple of a power of two.
pub(super) fn pad(out: &mut Vec<u8>, align: u8) {
    out.resize(out.len().next_multiple_of(usize::from(align.max(1))), 0);
}

/// Bytes with places that say nothing: another member of a union may have something there.
#[derive(Clone, Default)]
struct Image {
    bytes: Vec<u8>,
    holes: Vec<Range<usize>>,
}

impl Image {
    fn pad(&mut self, align: u8) {
        let before = self.bytes.len();
        pad(&mut self.bytes, align);
        if self.bytes.len() > before {
            self.holes.push(before..self.bytes.len());
        }
    }

    /// Puts the bytes of another image from `begin` on over this one, which keeps its own where the other has holes.
    fn overlay(&mut self, other: &Image, begin: usize) {
        let mut at = begin;
        let later = other.holes.iter().filter(|hole| hole.start >= begin).cloned();
        for hole in later.chain(std::iter::once(other.bytes.len()..other.bytes.len())) {
            self.bytes[at..hole.start].copy_from_slice(&other.bytes[at..hole.start]);
            at = hole.end;
        }
        // A hole stays one where the other says nothing either, or ends before.
        let is_said = |at: &usize| *at < other.bytes.len() && !other.holes.iter().any(|hole| hole.contains(at));
        let (before, own): (Vec<_>, Vec<_>) = self.holes.drain(..).partition(|hole| hole.start < begin);
        self.holes = before;
        for at in own.into_iter().flatten().filter(|at| !is_said(at)) {
            match self.holes.last_mut() {
                Some(last) if last.end == at && last.start >= begin => last.end = at + 1,
                _ => self.holes.push(at..at + 1),
            }
        }
    }
}

impl NumberForm {
    /// Appends fields; an absent one ends them.
    pub(super) fn fields(&self, fields: &[FieldDefinition], values: &[Value], out: &mut Vec<u8>) -> Result<(), Absent> {
        let mut image = Image { bytes: std::mem::take(out), holes: Vec::new() };
        let done = fields.iter().zip(values).try_for_each(|(field, value)| {
            let before = image.bytes.len();
            // A field that is not whole is left out.
            self.field(&field.class, value, &mut image).inspect_err(|_| image.bytes.truncate(before))
        });
        *out = image.bytes;
        done
    }

    fn align_of(&self, class: &FacilityType) -> u8 {
        let inside = |fields: &[FieldDefinition]| fields.iter().map(|field| self.align_of(&field.class)).max();
        let align = match &class.kind {
            TypeKind::Integer(_) | TypeKind::Enumeration(_) | TypeKind::Float(_) | TypeKind::String => {
                self.sizes.scalar_bytes(class).unwrap_or(1)
            }
            TypeKind::Array(_, element) => self.align_of(element),
            TypeKind::Sequence(length, element) => self.align_of(length).max(self.align_of(element)),
            TypeKind::Struct(fields) | TypeKind::Union(fields) => inside(fields).unwrap_or(1),
        };
        align.min(self.sizes.align).max(1)
    }

    fn field(&self, class: &FacilityType, value: &Value, out: &mut Image) -> Result<(), Absent> {
        if value.is_null() {
            return Err(Absent);
        }
        match &class.kind {
            TypeKind::Integer(_) | TypeKind::Enumeration(_) => {
                out.pad(self.align_of(class));
                self.integer(class, value.integer().unwrap_or(0), &mut out.bytes);
            }
            TypeKind::Float(bytes) => {
                out.pad(self.align_of(class));
                let real = if let Value::Real(real) = value { *real } else { 0.0 };
                let image = if *bytes == 4 { u64::from((real as f32).to_bits()) } else { real.to_bits() };
                put_uint(&mut out.bytes, image, usize::from(*bytes), class.order(self.float_order));
            }
            TypeKind::String => {
                let text = value.bytes().unwrap_or_default();
                out.bytes.extend_from_slice(&text[..memchr::memchr(0, text).unwrap_or(text.len())]);
                out.bytes.push(0);
                out.pad(self.sizes.tail());
            }
            TypeKind::Array(_, element) => {
                out.pad(self.align_of(class));
                value.elements().unwrap_or_default().iter().try_for_each(|value| self.field(element, value, out))?;
            }
            TypeKind::Sequence(length, element) => {
                let elements = value.elements().unwrap_or_default();
                out.pad(self.align_of(class));
                // A length is big-endian in a sequence that is, too.
                let order = class.order(length.order(self.order));
                put_uint(&mut out.bytes, elements.len() as u64, self.sizes.length_bytes(length).into(), order);
                out.pad(self.align_of(element));
                elements.iter().try_for_each(|value| self.field(element, value, out))?;
                out.pad(self.sizes.tail());
            }
            TypeKind::Struct(fields) => {
                out.pad(self.align_of(class));
                let Value::Struct(members) = value else { return Err(Absent) };
                for (field, (_, value)) in fields.iter().zip(members) {
                    self.field(&field.class, value, out)?;
                }
            }
            TypeKind::Union(fields) => {
                out.pad(self.align_of(class));
                let Value::Struct(members) = value else { return Err(Absent) };
                let begin = out.bytes.len();
                let mut images = Vec::new();
                for (field, (_, value)) in fields.iter().zip(members) {
                    let mut image = out.clone();
                    self.field(&field.class, value, &mut image)?;
                    images.push(image);
                }
                // The longest last, or its padding would hide what shorter ones have there: floats of the members may
                // not keep all bits, integers do.
                images.sort_by_key(|image| image.bytes.len());
                let Some(mut own) = images.pop() else { return Ok(()) };
                images.iter().for_each(|image| own.overlay(image, begin));
                *out = own;
            }
        }
        Ok(())
    }

    /// Appends an integer without padding.
    pub(super) fn integer(&self, class: &FacilityType, value: i128, out: &mut Vec<u8>) {
        let bytes = self.sizes.scalar_bytes(class).unwrap_or(self.sizes.int);
        put_uint(out, value as u64, bytes.into(), class.order(self.order));
    }
}
