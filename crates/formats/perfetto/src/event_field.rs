//! Fields of events of the kernel: their types, their classes, and their values in bytes (`SPEC.md`, section 6).

use tracemill_format::perfetto::messages::labels;
use tracemill_format::perfetto::{FieldType, WireFields, WireValue};
use tracemill_model::schema::{
    ArrayClass, ByteOrder, FieldClass, FieldClassId, FieldKind, IntegerClass, Length, Mapping, Schema, StringClass,
};

/// The type of a field of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EventFieldType {
    I32,
    I64,
    U32,
    U64,
    /// An enumeration, by its number.
    Label(u16),
    Text,
    /// Numbers, of 64 bits.
    Numbers,
    /// A message or bytes that are not taken apart, as hexadecimal digits.
    Bytes,
}

impl EventFieldType {
    pub(super) fn from_field(of: FieldType, is_repeated: bool) -> EventFieldType {
        match of {
            FieldType::Text => EventFieldType::Text,
            FieldType::Message(_) | FieldType::Bytes => EventFieldType::Bytes,
            _ if is_repeated => EventFieldType::Numbers,
            FieldType::Signed(32) => EventFieldType::I32,
            FieldType::Signed(_) | FieldType::ZigZag => EventFieldType::I64,
            FieldType::Unsigned(32) | FieldType::Fixed(32) | FieldType::Bool => EventFieldType::U32,
            FieldType::Enum(number) => EventFieldType::Label(number),
            _ => EventFieldType::U64,
        }
    }

    /// The type of a field that nothing describes.
    pub(super) fn from_value(value: WireValue<'_>) -> EventFieldType {
        match value {
            WireValue::Bytes(_) => EventFieldType::Bytes,
            _ => EventFieldType::U64,
        }
    }
}

/// A value of a field, without a borrow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum WireSlot {
    #[default]
    None,
    Number(u64),
    /// Where its bytes are in the message.
    Bytes(u32, u32),
}

impl WireSlot {
    #[inline]
    pub(super) fn new(value: WireValue<'_>, end: usize) -> WireSlot {
        match value {
            WireValue::Bytes(bytes) => WireSlot::Bytes((end - bytes.len()) as u32, end as u32),
            number => WireSlot::Number(number.number()),
        }
    }

    #[inline]
    pub(super) fn value<'a>(&self, content: &'a [u8]) -> Option<WireValue<'a>> {
        match *self {
            WireSlot::None => None,
            WireSlot::Number(number) => Some(WireValue::Varint(number)),
            WireSlot::Bytes(from, to) => Some(WireValue::Bytes(content.get(from as usize..to as usize)?)),
        }
    }
}

/// Appends a value; one that is not there is 0 or empty, as protocol buffers have it.
#[inline]
pub(super) fn put_value(
    of: EventFieldType,
    value: Option<WireValue<'_>>,
    content: &[u8],
    number: u32,
    out: &mut Vec<u8>,
) {
    let integer = value.map_or(0, WireValue::number);
    match of {
        EventFieldType::I32 | EventFieldType::U32 | EventFieldType::Label(_) => {
            out.extend_from_slice(&(integer as u32).to_le_bytes());
        }
        EventFieldType::I64 | EventFieldType::U64 => out.extend_from_slice(&integer.to_le_bytes()),
        EventFieldType::Text => put_text(value.map_or(&[], WireValue::bytes), out),
        EventFieldType::Bytes => {
            let bytes = value.map_or(&[][..], WireValue::bytes);
            out.extend_from_slice(tracemill_codec::text::hex(bytes).as_bytes());
            out.push(0);
        }
        EventFieldType::Numbers => {
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            let mut count = 0u32;
            for (own, value) in WireFields::new(content) {
                if own == number {
                    value.each_varint(|value| {
                        out.extend_from_slice(&value.to_le_bytes());
                        count += 1;
                    });
                }
            }
            out[start..start + 4].copy_from_slice(&count.to_le_bytes());
        }
    }
}

/// Appends a text, which ends at its first zero.
#[inline]
pub(super) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    let len = memchr::memchr(0, text).unwrap_or(text.len());
    out.extend_from_slice(&text[..len]);
    out.push(0);
}

/// The field classes of types, which all fields of a type have.
#[derive(Default)]
pub(super) struct FieldTypes(Vec<(EventFieldType, FieldClassId)>);

impl FieldTypes {
    pub(super) fn class(&mut self, schema: &mut Schema, of: EventFieldType) -> FieldClassId {
        if let Some((_, class)) = self.0.iter().find(|(own, _)| *own == of) {
            return *class;
        }
        let integer = |len_bits, signed, mappings| {
            let class =
                IntegerClass { signed, mappings, byte_order: ByteOrder::Little, ..IntegerClass::unsigned(len_bits) };
            FieldKind::Integer(class)
        };
        let kind = match of {
            EventFieldType::I32 => integer(32, true, None),
            EventFieldType::I64 => integer(64, true, None),
            EventFieldType::U32 => integer(32, false, None),
            EventFieldType::U64 => integer(64, false, None),
            EventFieldType::Label(number) => {
                let mapping = |(value, label): &(i32, &'static str)| Mapping {
                    label: (*label).into(),
                    ranges: vec![((*value).into(), (*value).into())],
                };
                integer(32, true, Some(labels(number).iter().map(mapping).collect()))
            }
            EventFieldType::Text | EventFieldType::Bytes => FieldKind::String(StringClass::utf8()),
            EventFieldType::Numbers => {
                let element = self.class(schema, EventFieldType::U64);
                let length = Length::Inline(self.class(schema, EventFieldType::U32));
                FieldKind::Array(ArrayClass { element, length })
            }
        };
        let class = schema.add_field_class(FieldClass::new(kind, 8));
        self.0.push((of, class));
        class
    }
}
