//! `SPEC.md`, D14: a field of another byte order begins on a byte boundary, or after a field of its own order.
//!
//! Here the metadata are refused when they alone show that it does not. Where only the data show where fields are,
//! plans look (`codec::plan`).

use tracemill_codec::text::Span;
use tracemill_model::error::Result;
use tracemill_model::schema::ByteOrder;

use super::metadata::Loaded;
use super::types::{DraftType, DraftTypeKind, WrittenOrder};

/// Refuses bytes that fields of two orders share, as far as the metadata alone show where fields are.
pub(super) fn check(loaded: &Loaded, native: ByteOrder) -> Result<()> {
    // Everything begins on a byte: packets, contexts after fixed headers, and fields after event headers.
    let begin = BitKnowledge { bit: Some(0), order: None };
    let mut walk =
        OrderWalk { source: &loaded.text, native, budget: MAX_FIELDS, names: Vec::new(), span: Span::default() };
    for (group, events) in &loaded.metadata.groups {
        if let Some(context) = &group.packet_context {
            walk.field(context, begin)?;
        }
        let behind = match &group.context {
            Some(context) => walk.field(context, begin)?,
            None => begin,
        };
        for event in events {
            walk.field(&event.payload, behind)?;
        }
    }
    Ok(())
}

/// Fields that are looked at: types may hold one another many times.
const MAX_FIELDS: u32 = 1 << 20;

/// Knowledge about a place in a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BitKnowledge {
    /// Bit of the byte, when it is known.
    bit: Option<u32>,
    /// Order of the field before, in this byte.
    order: Option<ByteOrder>,
}

struct OrderWalk<'s> {
    source: &'s str,
    native: ByteOrder,
    budget: u32,
    names: Vec<&'s str>,
    /// Where the name of the innermost member stands.
    span: Span,
}

impl<'s> OrderWalk<'s> {
    fn field(&mut self, class: &'s DraftType, before: BitKnowledge) -> Result<BitKnowledge> {
        let bit = match (class.align, before.bit) {
            (8.., _) => Some(0),
            (1, bit) => bit,
            (align, bit) => bit.map(|bit| bit.next_multiple_of(align) % 8),
        };
        let mut place = BitKnowledge { bit, order: before.order };
        if self.budget == 0 {
            return Ok(BitKnowledge { bit: None, order: None });
        }
        self.budget -= 1;
        if class.unit > 0 {
            place = BitKnowledge { bit: None, order: None };
        }
        match &class.kind {
            DraftTypeKind::Integer(int) | DraftTypeKind::Enum(int, _) => self.number(place, int.size, int.order),
            DraftTypeKind::Float { bits, order } => self.number(place, *bits, *order),
            DraftTypeKind::Text { .. } => Ok(BitKnowledge { bit: Some(0), order: None }),
            DraftTypeKind::Struct(fields) => {
                for field in fields {
                    self.names.push(&field.name);
                    self.span = field.place.value;
                    place = self.field(&field.class, place)?;
                    self.names.pop();
                }
                Ok(place)
            }
            DraftTypeKind::Array(0, _) => Ok(place),
            DraftTypeKind::Array(length, element) => {
                let first = self.field(element, place)?;
                let second = if *length == 1 { first } else { self.field(element, first)? };
                let is_even = first.bit.is_some() && first.bit == second.bit;
                Ok(BitKnowledge { bit: if is_even { first.bit } else { None }, order: second.order })
            }
            DraftTypeKind::Sequence(length, element) => {
                place = self.field(length, place)?;
                let first = self.field(element, place)?;
                self.field(element, first)?;
                // How many elements there are, and whether there are any, is not known.
                Ok(BitKnowledge { bit: None, order: None })
            }
        }
    }

    fn number(&self, place: BitKnowledge, len_bits: u32, order: WrittenOrder) -> Result<BitKnowledge> {
        let order = order.resolve(self.native);
        if place.bit.is_some_and(|bit| bit > 0) && place.order.is_some_and(|before| before != order) {
            let message = format!(
                "the field `{}` begins inside a byte whose other fields have another byte order",
                self.names.join(".")
            );
            let error = self.span.malformed(self.source, message);
            return Err(error.with_help("it must begin on a byte, or after a field of its own order"));
        }
        Ok(BitKnowledge { bit: place.bit.map(|bit| (bit + len_bits) % 8), order: Some(order) })
    }
}
