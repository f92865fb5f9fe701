//! Decision 14: a field of another byte order begins on a byte boundary, or behind a field of its own order.

use tracemill_codec::layout;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ByteOrder, FieldClassId, FieldKind, Length, Schema};

/// Refuses bytes that fields of two orders share, as far as the metadata alone tells where fields are.
pub(super) fn check(schema: &Schema) -> Result<()> {
    // Everything begins on a byte: packets, contexts behind fixed headers, and fields behind event headers.
    let begin = Place { bit: Some(0), order: None };
    let mut walk = Walk { schema, budget: MAX_FIELDS, names: Vec::new() };
    let mut behind = Vec::new();
    for stream in schema.streams() {
        if let Some(root) = stream.packet_context {
            walk.field(root, begin)?;
        }
        behind.push(match stream.common_context {
            Some(root) => walk.field(root, begin)?,
            None => begin,
        });
    }
    for event in schema.events() {
        if let (Some(root), Some(&place)) = (event.payload, behind.get(event.stream.0 as usize)) {
            walk.field(root, place)?;
        }
    }
    Ok(())
}

/// Fields that are looked at: types may hold one another many times.
const MAX_FIELDS: u32 = 1 << 20;

/// What is known of a place in a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Bit of the byte, when it is known.
    bit: Option<u32>,
    /// Order of the field before, in this byte.
    order: Option<ByteOrder>,
}

struct Walk<'s> {
    schema: &'s Schema,
    budget: u32,
    names: Vec<&'s str>,
}

impl<'s> Walk<'s> {
    fn field(&mut self, id: FieldClassId, before: Place) -> Result<Place> {
        let class = self.schema.field_class(id);
        let align = class.align_bits;
        let bit = match (align, before.bit) {
            (8.., _) => Some(0),
            (1, bit) => bit,
            (align, bit) => bit.map(|bit| bit.next_multiple_of(align) % 8),
        };
        let mut place = Place { bit, order: before.order };
        if self.budget == 0 {
            return Ok(Place { bit: None, order: None });
        }
        self.budget -= 1;
        if class.placement.unit_bits > 0 {
            place.bit = None;
        }
        match &class.kind {
            FieldKind::Integer(integer) => self.number(place, integer.len_bits, integer.byte_order),
            FieldKind::Float(float) => self.number(place, float.len_bits, float.byte_order),
            FieldKind::Struct(structure) => {
                for member in &structure.members {
                    self.names.push(&member.name);
                    place = self.field(member.class, place)?;
                    self.names.pop();
                }
                Ok(place)
            }
            FieldKind::Optional(optional) => self.field(optional.content, place),
            FieldKind::Array(array) => {
                if let Length::Inline(length) = array.length {
                    place = self.field(length, place)?;
                }
                if array.length == Length::Static(0) {
                    return Ok(place);
                }
                let first = self.field(array.element, place)?;
                let second = if array.length == Length::Static(1) { first } else { self.field(array.element, first)? };
                let is_even = first.bit.is_some() && first.bit == second.bit;
                let bit = if is_even && layout::reference(class).is_none() { first.bit } else { None };
                // An empty sequence leaves the order of what stands before it.
                let order = if matches!(array.length, Length::Static(_)) { second.order } else { None };
                Ok(Place { bit, order })
            }
            _ => Ok(Place { bit: Some(0), order: None }),
        }
    }

    fn number(&self, place: Place, len_bits: u32, order: ByteOrder) -> Result<Place> {
        if place.bit.is_some_and(|bit| bit > 0) && place.order.is_some_and(|before| before != order) {
            let message = format!(
                "the field `{}` begins inside a byte whose other fields have another byte order",
                self.names.join(".")
            );
            return Err(
                Error::malformed(message).with_help("it must begin on a byte, or behind a field of its own order")
            );
        }
        Ok(Place { bit: place.bit.map(|bit| (bit + len_bits) % 8), order: Some(order) })
    }
}
