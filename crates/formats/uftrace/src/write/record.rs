//! Records and payloads, the other way round (`SPEC.md`, section 5).

use tracemill_codec::bits::{float_bits, put_uint};
use tracemill_codec::value::Value;
use tracemill_model::schema::ByteOrder;

use crate::arguments::{ArgumentForm, ArgumentSpec, NULL_TEXT};
use crate::records::{MAGIC, RecordKind};

/// Bits of an address in a record.
pub(super) const ADDRESS_BITS: u64 = 0xffff_ffff_ffff;

/// The bits of an integer, 0 of anything else.
pub(super) fn bits(value: &Value) -> u64 {
    value.integer().unwrap_or(0) as u64
}

/// The bits of a member that is an integer, 0 without it.
pub(super) fn number(value: &Value, name: &str) -> u64 {
    value.member(name).map_or(0, bits)
}

/// The bytes of which some text has the hexadecimal digits; what are none stand for a zero.
pub(super) fn bytes_of_hex(text: &[u8]) -> Vec<u8> {
    let digits = text.chunks_exact(2).map(|pair| std::str::from_utf8(pair).unwrap_or(""));
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap_or(0)).collect()
}

/// A time in seconds with nine digits after the point.
pub(super) fn seconds_of(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Appends numbers.
#[derive(Clone, Copy)]
pub(super) struct NumberWriter(pub(super) ByteOrder);

impl NumberWriter {
    /// The low bytes of a number.
    pub(super) fn write(self, out: &mut Vec<u8>, value: u64, len: usize) {
        put_uint(out, value, len, self.0);
    }

    /// A record; its payload, when it has one, after it (one of no bytes is one too).
    pub(super) fn record(
        self,
        out: &mut Vec<u8>,
        kind: RecordKind,
        time: u64,
        depth: u16,
        address: u64,
        payload: Option<&[u8]>,
    ) {
        let more = u64::from(payload.is_some());
        let word =
            kind as u64 | more << 2 | MAGIC << 3 | u64::from(depth & 0x3ff) << 6 | (address & ADDRESS_BITS) << 16;
        self.write(out, time, 8);
        self.write(out, word, 8);
        out.extend_from_slice(payload.unwrap_or(&[]));
    }

    /// The data of an event: their length, themselves, zeros.
    pub(super) fn data(self, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out, data.len() as u64, 2);
        out.extend_from_slice(data);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    /// The values of a call as its list of specifications wants them; `None` when they are of another kind.
    pub(super) fn values(self, specs: &[ArgumentSpec], values: &[&Value]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for (at, spec) in specs.iter().enumerate() {
            self.value(&mut out, spec, values.get(at)?)?;
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out.resize(out.len().next_multiple_of(8), 0);
        Some(out)
    }

    fn value(self, out: &mut Vec<u8>, spec: &ArgumentSpec, value: &Value) -> Option<()> {
        match (&spec.form, value) {
            (ArgumentForm::Text | ArgumentForm::StdString, value) => {
                let text = if value.is_null() { &NULL_TEXT } else { value.bytes()? };
                let text = &text[..text.len().min(usize::from(u16::MAX))];
                self.write(out, text.len() as u64, 2);
                out.extend_from_slice(text);
            }
            (ArgumentForm::Structure(_), value) => {
                let end = out.len() + spec.size;
                out.extend_from_slice(value.bytes().unwrap_or(&[]));
                out.resize(end, 0);
            }
            (ArgumentForm::Float, Value::Real(value)) => match spec.size {
                4 => self.write(out, (*value as f32).to_bits().into(), 4),
                10 => {
                    let (mantissa, high) = extended(*value);
                    let mut parts = [(mantissa, 8), (high.into(), 2)];
                    if self.0 == ByteOrder::Big {
                        parts.reverse();
                    }
                    parts.into_iter().for_each(|(part, len)| self.write(out, part, len));
                }
                size => self.write(out, value.to_bits(), size),
            },
            (_, value) => self.write(out, value.integer()? as u64, spec.size),
        }
        Some(())
    }
}

/// A number as an extended one of 80 bits: mantissa, then sign and exponent.
fn extended(value: f64) -> (u64, u16) {
    let bits = float_bits(value, 15, 63);
    let high = (bits >> 63) as u16;
    // The bit before the point is stored, too; a NaN is a quiet one.
    let more = u64::from(high & 0x7fff != 0) << 63 | u64::from(value.is_nan()) << 62;
    (bits as u64 & u64::MAX >> 1 | more, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events;

    #[test]
    fn extended_numbers_come_back() {
        for value in [0.0, -0.0, 1.0, -3.25, f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1), f64::INFINITY, 0.1] {
            let (mantissa, high) = extended(value);
            let mut bytes = mantissa.to_le_bytes().to_vec();
            bytes.extend(high.to_le_bytes());
            assert_eq!(events::extended(&bytes, ByteOrder::Little).to_bits(), value.to_bits(), "{value}");
        }
        let (mantissa, high) = extended(f64::NAN);
        let mut bytes = mantissa.to_le_bytes().to_vec();
        bytes.extend(high.to_le_bytes());
        assert!(events::extended(&bytes, ByteOrder::Little).is_nan());
    }

    #[test]
    fn records_have_their_bits() {
        let mut out = Vec::new();
        NumberWriter(ByteOrder::Little).record(&mut out, RecordKind::Exit, 7, 3, 0xffff_8000_0000_1234, None);
        assert_eq!(out[..8], 7u64.to_le_bytes());
        let word = 1 | 5 << 3 | 3 << 6 | 0x8000_0000_1234u64 << 16;
        assert_eq!(out[8..], word.to_le_bytes());
        assert_eq!(NumberWriter(ByteOrder::Big).data(b"abc"), [0, 3, b'a', b'b', b'c', 0, 0, 0]);
    }
}
