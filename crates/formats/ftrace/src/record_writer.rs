//! Records of the ring buffer, made of the values of their fields by the format of their event.

use tracemill_codec::bits::put_uint;
use tracemill_codec::value::Value;
use tracemill_model::schema::ByteOrder;

use crate::event_format::{Content, ContentPlace, EventFormat, FormatField};

/// A record of zeros, which begins with the number of its format.
pub fn begin(order: ByteOrder, format: &EventFormat) -> Vec<u8> {
    let mut out = vec![0; format.min_bytes() as usize];
    // Where every kernel has it, whatever is left of a format.
    if let Some(place) = out.get_mut(..2) {
        place.copy_from_slice(&number_bytes(order, format.id.into(), 2));
    }
    out
}

/// The bits of an integer, 0 of anything else.
fn bits(value: &Value) -> u64 {
    value.integer().unwrap_or(0) as u64
}

/// The lowest bytes of a number.
pub fn number_bytes(order: ByteOrder, value: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len);
    put_uint(&mut out, value, len, order);
    out
}

/// Puts a number into a field of a fixed place.
pub fn put_at(order: ByteOrder, out: &mut Vec<u8>, field: &FormatField, value: u64) {
    put_bytes(out, field.offset as usize, &number_bytes(order, value, field.size as usize));
}

/// Puts bytes at a place of a record, which grows if it must.
pub fn put_bytes(out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if out.len() < at + bytes.len() {
        out.resize(at + bytes.len(), 0);
    }
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Puts a field into a record that has all fields of fixed places already.
pub fn write_field(order: ByteOrder, out: &mut Vec<u8>, field: &FormatField, value: &Value) {
    let mut bytes = match (field.content, value.elements()) {
        (Content::Integer(_), _) => return put_at(order, out, field, bits(value)),
        (Content::Array(element), Some(elements)) => {
            elements.iter().flat_map(|value| number_bytes(order, bits(value), element.bytes.into())).collect()
        }
        _ => value.bytes().unwrap_or(&[]).to_vec(),
    };
    let is_text = field.content == Content::Text;
    match field.place {
        ContentPlace::Fixed => {
            bytes.resize(field.size as usize, 0);
            put_bytes(out, field.offset as usize, &bytes);
        }
        ContentPlace::Rest => {
            bytes.extend(is_text.then_some(0));
            out.truncate(field.offset as usize);
            put_bytes(out, field.offset as usize, &bytes);
        }
        ContentPlace::Located { relative } => {
            bytes.extend(is_text.then_some(0));
            let end = (field.offset + field.size) as usize;
            let at = out.len().max(end);
            let from = at - if relative { end } else { 0 };
            let place = (bytes.len() as u64 & 0xffff) << 16 | from as u64 & 0xffff;
            put_at(order, out, field, place);
            put_bytes(out, at, &bytes);
        }
    }
}
