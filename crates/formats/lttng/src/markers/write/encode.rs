//! From values to the bytes of an event: the other direction of `events`.

use tracemill_codec::bits::put_uint;
use tracemill_codec::value::Value;
use tracemill_model::schema::ByteOrder;

use super::super::events::{
    CLOCK_BITS, CLOCK_MASK, ID_ONLY, ID_SIZE, ID_SIZE_CLOCK, LONG_SIZE, Layout, SubBufferForm, align,
};
use super::super::format_string::{FieldKind, MarkerField};

/// A marker that can be written.
pub(super) struct EncodedMarker {
    pub(super) fields: Vec<MarkerField>,
    layout: Layout,
    /// The most that its fields are aligned to.
    alignment: u8,
}

impl EncodedMarker {
    pub(super) fn new(fields: Vec<MarkerField>, alignment: u8, shape: SubBufferForm) -> Self {
        EncodedMarker { layout: Layout::from_fields(&fields, alignment, shape.rule), fields, alignment }
    }

    /// Appends the payload, whose places count from its own beginning. Fields without a value are 0 or empty.
    pub(super) fn payload(&self, shape: SubBufferForm, values: &[Value], out: &mut Vec<u8>) {
        let begin = out.len();
        for (at, field) in self.fields.iter().enumerate() {
            let value = values.get(at);
            match field.kind {
                FieldKind::Text => {
                    let text = value.and_then(Value::bytes).unwrap_or_default();
                    out.extend_from_slice(&text[..memchr::memchr(0, text).unwrap_or(text.len())]);
                    out.push(0);
                }
                FieldKind::Integer { len_bytes, is_network_order, .. } => {
                    let len = usize::from(len_bytes);
                    let to = shape.rule.bytes(self.alignment, len_bytes.into());
                    out.resize(begin + align(out.len() - begin, to), 0);
                    let number = value.and_then(Value::integer).unwrap_or(0) as u64;
                    put_uint(out, number, len, if is_network_order { ByteOrder::Big } else { shape.order });
                }
            }
        }
    }
}

/// An event for a sub-buffer.
pub(super) struct EventOut<'a> {
    pub(super) id: u16,
    /// The clock before it, as its reader has it.
    pub(super) before: u64,
    pub(super) cycles: u64,
    /// Its marker, when one with this id can be decoded.
    pub(super) form: Option<&'a EncodedMarker>,
    /// Its payload; `None` when that could not be decoded.
    pub(super) payload: Option<&'a [u8]>,
}

impl EventOut<'_> {
    /// Appends the event to a sub-buffer, with the header that the tracers gave it.
    pub(super) fn write(&self, shape: SubBufferForm, out: &mut Vec<u8>) {
        let SubBufferForm { order, rule, alignment } = shape;
        out.resize(align(out.len(), rule.bytes(alignment, 4)), 0);
        // One wrap of the low bits could be seen from them too; the tracers wrote the whole clock already then.
        let is_near = self.cycles >= self.before && self.cycles >> CLOCK_BITS == self.before >> CLOCK_BITS;
        let kind = match (is_near, self.payload) {
            (false, _) => ID_SIZE_CLOCK,
            (true, None) => ID_SIZE,
            (true, Some(_)) if u32::from(self.id) < ID_SIZE_CLOCK => u32::from(self.id),
            (true, Some(_)) => ID_ONLY,
        };
        put_uint(out, u64::from(kind) << CLOCK_BITS | self.cycles & CLOCK_MASK, 4, order);
        if kind >= ID_SIZE_CLOCK {
            put_uint(out, self.id.into(), 2, order);
        }
        if matches!(kind, ID_SIZE_CLOCK | ID_SIZE) {
            let size = self.payload.map_or(0, <[u8]>::len);
            put_uint(out, size.min(LONG_SIZE.into()) as u64, 2, order);
            if size >= usize::from(LONG_SIZE) {
                put_uint(out, size as u64, 4, order);
            }
        }
        if kind == ID_SIZE_CLOCK {
            out.resize(align(out.len(), rule.bytes(alignment, 8)), 0);
            put_uint(out, self.cycles, 8, order);
        }
        if let Some(form) = self.form {
            out.resize(form.layout.begin(out.len()), 0);
        }
        out.extend_from_slice(self.payload.unwrap_or_default());
    }
}
