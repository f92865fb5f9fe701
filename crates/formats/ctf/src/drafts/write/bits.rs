//! Fields of types as bits: the other direction of what plans decode.

use tracemill_codec::bits::{float_bits, put_uint, write_bits};
use tracemill_codec::value::Value;
use tracemill_format::lost::{Losses, Lost};
use tracemill_model::schema::ByteOrder;

use super::super::types::{DraftClass, DraftField, DraftTypeKind, Int, WrittenOrder};

/// Bytes of a packet from its first one, and the bit after the last field.
#[derive(Default)]
pub(super) struct Bits {
    pub(super) bytes: Vec<u8>,
    pos: u64,
}

impl Bits {
    /// Goes on after bytes.
    pub(super) fn after(bytes: Vec<u8>) -> Self {
        Bits { pos: bytes.len() as u64 * 8, bytes }
    }

    /// The bit after the last field.
    pub(super) fn pos(&self) -> u64 {
        self.pos
    }

    /// Passes over bits.
    fn advance(&mut self, bits: u64) {
        self.pos += bits;
        self.bytes.resize(self.pos.div_ceil(8) as usize, 0);
    }

    /// Goes to a multiple of some bits from the start of the packet.
    pub(super) fn align(&mut self, bits: u32) {
        self.advance(self.pos.wrapping_neg() & u64::from(bits.max(1) - 1));
    }

    /// Appends an integer.
    pub(super) fn put(&mut self, value: u64, len: u32, order: ByteOrder) {
        if self.pos.is_multiple_of(8) && len.is_multiple_of(8) && len <= 64 {
            put_uint(&mut self.bytes, value, (len / 8) as usize, order);
            self.pos += u64::from(len);
            return;
        }
        let start = self.pos;
        self.advance(len.into());
        write_bits(&mut self.bytes, start, len, value, order);
    }

    /// Writes an integer of whole bytes over another one.
    pub(super) fn replace(&mut self, start: u64, value: u64, len: u32, order: ByteOrder) {
        write_bits(&mut self.bytes, start, len, value, order);
    }

    fn append(&mut self, bytes: &[u8]) {
        self.align(8);
        self.bytes.extend_from_slice(bytes);
        self.pos += bytes.len() as u64 * 8;
    }
}

/// Writes values as their types want them.
pub(super) struct TypedWriter<'a> {
    pub(super) out: &'a mut Bits,
    pub(super) native: ByteOrder,
    /// Do the values come from CTF 2, which has ASCII texts as UTF-8?
    pub(super) is_converted: bool,
    pub(super) losses: &'a mut Losses,
}

impl TypedWriter<'_> {
    /// A field of a structure that begins at `base`. Nothing stands for a value that is not there but zeros.
    pub(super) fn field(&mut self, class: &DraftClass, value: &Value, base: u64) {
        self.out.align(class.align);
        match &class.kind {
            DraftTypeKind::Integer(int) => {
                self.unit(class, *int, base);
                self.integer(*int, value);
            }
            DraftTypeKind::Enum(int, _) => self.integer(*int, value),
            DraftTypeKind::Float { bits, order } => {
                let real = match value {
                    Value::Real(real) => *real,
                    other => other.integer().unwrap_or(0) as f64,
                };
                self.float(real, *bits, *order);
            }
            DraftTypeKind::Text { is_ascii } => {
                self.losses.add(Lost::AbsentTexts, value.is_null().into());
                let text = value.bytes().unwrap_or(&[]);
                let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
                self.losses.add(Lost::TruncatedTexts, (end < text.len()).into());
                let text = &text[..end];
                match *is_ascii && self.is_converted && !text.is_ascii() {
                    // Each byte that was no character shows as one.
                    true => {
                        let text = String::from_utf8_lossy(text);
                        let bytes = text.chars().map(|c| if c.is_ascii() { c as u8 } else { 0xff });
                        self.out.append(&bytes.collect::<Vec<u8>>());
                    }
                    false => self.out.append(text),
                }
                self.out.append(&[0]);
            }
            DraftTypeKind::Struct(fields) => self.structure(fields, value, &[]),
            DraftTypeKind::Array(len, element) => self.elements(element, value, *len),
            DraftTypeKind::Sequence(length, element) => {
                let len = match value {
                    Value::Blob(bytes) => bytes.len(),
                    other => other.elements().map_or(0, <[Value]>::len),
                };
                self.field(length, &Value::Unsigned(len as u64), base);
                self.out.align(element.align);
                self.elements(element, value, len as u64);
            }
        }
    }

    /// The fields of a structure that begins here, but those that are marked as missing.
    pub(super) fn structure(&mut self, fields: &[DraftField], value: &Value, missing: &[bool]) {
        let base = self.out.pos();
        self.members(fields, value, missing, base);
    }

    /// Puts the members of a structure that began at `base`.
    pub(super) fn members(&mut self, fields: &[DraftField], value: &Value, missing: &[bool], base: u64) {
        for (at, field) in fields.iter().enumerate() {
            if missing.get(at).copied().unwrap_or(false) {
                continue;
            }
            let member = match value {
                Value::Struct(members) => match members.get(at).filter(|(name, _)| *name == field.name) {
                    Some((_, value)) => Some(value),
                    None => last_member(value, &field.name),
                },
                Value::List(values) => values.get(at),
                _ => None,
            };
            self.field(&field.class, member.unwrap_or(&Value::Null), base);
        }
    }

    fn elements(&mut self, element: &DraftClass, value: &Value, len: u64) {
        let base = self.out.pos();
        if let (Value::Blob(bytes), DraftTypeKind::Integer(Int { size: 8, .. })) = (value, &element.kind)
            && element.align == 8
            && bytes.len() as u64 == len
        {
            self.out.append(bytes);
            return;
        }
        let values = value.elements().unwrap_or(&[]);
        for at in 0..len {
            let value = values.get(at as usize).unwrap_or(&Value::Null);
            self.field(element, value, base);
        }
    }

    /// Moves a bit-field that does not fit in what is left of its unit.
    fn unit(&mut self, class: &DraftClass, int: Int, base: u64) {
        let unit = u64::from(class.unit);
        if unit > 0 {
            let used = (self.out.pos() - base) % unit;
            if used + u64::from(int.size) > unit {
                self.out.advance(unit - used);
            }
        }
    }

    fn integer(&mut self, int: Int, value: &Value) {
        let number = value.integer().unwrap_or(0);
        let (low, high) = int.bounds();
        self.losses.add(Lost::TruncatedIntegers, (!(low..=high).contains(&number)).into());
        self.out.put(number as u64, int.size, int.order.resolve(self.native));
    }

    fn float(&mut self, value: f64, bits: u32, order: WrittenOrder) {
        let order = order.resolve(self.native);
        match bits {
            32 => self.out.put((value as f32).to_bits().into(), 32, order),
            64 => self.out.put(value.to_bits(), 64, order),
            _ => {
                let number = if bits == 16 { float_bits(value, 5, 10) } else { float_bits(value, 15, 112) };
                let halves = [number as u64, (number >> 64) as u64];
                match (bits, order) {
                    (16, _) => self.out.put(halves[0], 16, order),
                    (_, ByteOrder::Little) => halves.iter().for_each(|&half| self.out.put(half, 64, order)),
                    (_, ByteOrder::Big) => halves.iter().rev().for_each(|&half| self.out.put(half, 64, order)),
                }
            }
        }
    }
}

/// The last member of a name.
pub(super) fn last_member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Struct(members) => members.iter().rev().find(|(of, _)| &**of == name).map(|(_, value)| value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracemill_codec::bits;

    #[test]
    fn integers_read_back() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut out = Bits::default();
            let numbers = [(5u64, 3u32), (0x1234, 13), (1, 1), (0xdead_beef_0102_0304, 64), (7, 7), (0xff, 8), (3, 16)];
            for (value, len) in numbers {
                out.put(value, len, order);
            }
            let mut pos = 0;
            for (value, len) in numbers {
                assert_eq!(bits::read_bits(&out.bytes, pos, len, order, false), value);
                pos += u64::from(len);
            }
        }
    }
}
