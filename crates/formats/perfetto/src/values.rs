//! Values of messages: annotations of track events, and messages whose fields the table knows.

use tracemill_codec::text::marks::mix_bytes;
use tracemill_format::json::{OpenValue, TapeBuilder, TokenKind};
use tracemill_format::perfetto::messages::{label, message_at};
use tracemill_format::perfetto::{FieldType, MessageField, MessageType, WireFields, WireValue};

use super::packets::TracePacket;
use super::sequences::{SequenceState, interned};

/// Values inside each other, at most; deeper ones are bytes.
const MAX_DEPTH: u32 = 32;

/// A packet, and where its texts are.
#[derive(Clone, Copy)]
pub(crate) struct ValueContext<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) packet: &'a TracePacket<'a>,
    pub(crate) state: &'a SequenceState,
}

/// Adds values to a tape.
pub(crate) struct Values<'t, 'a> {
    pub(crate) tape: TapeBuilder<'t>,
    pub(crate) context: ValueContext<'a>,
    /// Texts that hold zeros, so far: they are shown as U+FFFD.
    pub(crate) zeros: &'t mut u64,
    /// Texts by numbers that nothing says.
    pub(crate) unknown_texts: &'t mut u64,
}

/// Marks of the keys of an object, so that none is there twice.
#[derive(Default)]
pub(crate) struct KnownKeys(Vec<u64>);

/// Keys that are compared with all others of an object.
const MAX_COMPARED: usize = 512;

impl KnownKeys {
    /// A key that is not there yet: this one, or with a number after it.
    fn unused(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let mut is_new = |key: &[u8]| {
            let mark = mix_bytes(0, key);
            let is_new = !self.0.contains(&mark);
            if is_new && self.0.len() < MAX_COMPARED {
                self.0.push(mark);
            }
            is_new
        };
        if is_new(key) {
            return None;
        }
        (2..MAX_COMPARED).map(|number| [key, format!("_{number}").as_bytes()].concat()).find(|key| is_new(key))
    }
}

impl Values<'_, '_> {
    /// Adds a text.
    pub(crate) fn text(&mut self, text: &[u8]) -> u64 {
        match self.clean(text) {
            None => self.tape.text(text),
            Some(clean) => self.tape.text(&clean),
        }
    }

    /// The text without zeros, which a text cannot hold; `None` when there are none.
    pub(crate) fn clean(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        if !text.contains(&0) {
            return None;
        }
        *self.zeros += 1;
        Some(
            text.iter()
                .flat_map(|byte| if *byte == 0 { "\u{fffd}".as_bytes() } else { std::slice::from_ref(byte) })
                .copied()
                .collect(),
        )
    }

    /// The text of a number in a table.
    pub(crate) fn interned(&mut self, kind: u32, iid: u64) -> Vec<u8> {
        let ValueContext { bytes, packet, state } = self.context;
        match state.text(bytes, packet, kind, iid) {
            Some(text) => text.to_vec(),
            None => {
                *self.unknown_texts += 1;
                format!("#{iid}").into_bytes()
            }
        }
    }

    /// Adds a member to an object; `value` adds its value.
    pub(crate) fn member(
        &mut self,
        (open, keys): (&mut OpenValue, &mut KnownKeys),
        key: &[u8],
        value: impl FnOnce(&mut Self) -> u64,
    ) {
        let clean = self.clean(key);
        let key = clean.as_deref().unwrap_or(key);
        match keys.unused(key) {
            None => self.tape.key(open, key),
            Some(other) => self.tape.key(open, &other),
        }
        let mark = value(self);
        self.tape.add(open, mark);
    }

    /// Adds an annotation to an object: its name is the key.
    pub(crate) fn annotation(&mut self, place: (&mut OpenValue, &mut KnownKeys), annotation: &[u8], depth: u32) {
        let mut name = None;
        for (number, value) in WireFields::new(annotation) {
            match number {
                1 => name = Some(self.interned(interned::ANNOTATION_NAMES, value.number())),
                10 => name = Some(value.bytes().to_vec()),
                _ => {}
            }
        }
        let name = name.unwrap_or_else(|| b"unnamed".to_vec());
        self.member(place, &name, |values| values.annotation_value(annotation, depth, true));
    }

    /// Adds the value of an annotation. One without a value is empty, or an item that is absent.
    fn annotation_value(&mut self, annotation: &[u8], depth: u32, is_member: bool) -> u64 {
        let (mut proto, mut type_name) = (None, None);
        let mut list: Option<OpenValue> = None;
        let mut keys = KnownKeys::default();
        for (number, value) in WireFields::new(annotation) {
            match number {
                2 => return self.tape.boolean(value.number() != 0),
                3 | 7 => return self.tape.integer(value.number().into()),
                4 => return self.tape.integer((value.number() as i64).into()),
                5 => return self.tape.real(f64::from_bits(value.number())),
                6 => return self.text(value.bytes()),
                8 if depth < MAX_DEPTH => return self.nested(value.bytes(), depth + 1),
                9 => {
                    let text = value.bytes();
                    return match self.tape.json(text) {
                        Some(mark) => mark,
                        None => self.text(text),
                    };
                }
                17 => {
                    let text = self.interned(interned::STRING_VALUES, value.number());
                    return self.text(&text);
                }
                11 | 12 if depth >= MAX_DEPTH => return self.tape.blob(annotation),
                11 => {
                    let mut open = list.take().unwrap_or_else(|| self.tape.begin(TokenKind::Object));
                    self.annotation((&mut open, &mut keys), value.bytes(), depth + 1);
                    list = Some(open);
                }
                12 => {
                    let mut open = list.take().unwrap_or_else(|| self.tape.begin(TokenKind::Array));
                    let mark = self.annotation_value(value.bytes(), depth + 1, false);
                    self.tape.add(&mut open, mark);
                    list = Some(open);
                }
                13 => type_name = Some(self.interned(interned::TYPE_NAMES, value.number())),
                14 => proto = Some(value.bytes()),
                16 => type_name = Some(value.bytes().to_vec()),
                _ => {}
            }
        }
        if let Some(open) = list {
            return self.tape.end(open);
        }
        let Some(content) = proto else {
            if !is_member {
                return self.tape.null();
            }
            // Lists without items are written so; at the top scopes without fields are.
            let open = self.tape.begin(if depth == 0 { TokenKind::Object } else { TokenKind::Array });
            return self.tape.end(open);
        };
        let known = type_name.and_then(|name| {
            let name = String::from_utf8(name).ok()?;
            tracemill_format::perfetto::message(name.trim_start_matches('.').strip_prefix("perfetto.protos.")?)
        });
        match known {
            Some(of) => self.message(of, content, depth + 1),
            None => self.tape.blob(content),
        }
    }

    /// Adds a value as the annotations of old traces have it.
    fn nested(&mut self, nested: &[u8], depth: u32) -> u64 {
        if depth > MAX_DEPTH {
            return self.tape.blob(nested);
        }
        let fields = || WireFields::new(nested);
        let kind = fields().find(|(number, _)| *number == 1).map_or(0, |(_, value)| value.number());
        match kind {
            1 => {
                let (mut open, mut keys) = (self.tape.begin(TokenKind::Object), KnownKeys::default());
                let names = fields().filter(|(number, _)| *number == 2);
                let values = fields().filter(|(number, _)| *number == 3);
                for ((_, name), (_, value)) in names.zip(values) {
                    self.member((&mut open, &mut keys), name.bytes(), |values| values.nested(value.bytes(), depth + 1));
                }
                self.tape.end(open)
            }
            2 => {
                let mut open = self.tape.begin(TokenKind::Array);
                for (_, value) in fields().filter(|(number, _)| *number == 4) {
                    let mark = self.nested(value.bytes(), depth + 1);
                    self.tape.add(&mut open, mark);
                }
                self.tape.end(open)
            }
            _ => {
                for (number, value) in fields() {
                    match number {
                        5 => return self.tape.integer((value.number() as i64).into()),
                        6 => return self.tape.real(f64::from_bits(value.number())),
                        7 => return self.tape.boolean(value.number() != 0),
                        8 => return self.text(value.bytes()),
                        _ => {}
                    }
                }
                self.tape.null()
            }
        }
    }

    /// Adds a message as an object.
    pub(crate) fn message(&mut self, of: &MessageType, content: &[u8], depth: u32) -> u64 {
        if depth > MAX_DEPTH {
            return self.tape.blob(content);
        }
        let (mut open, mut keys) = (self.tape.begin(TokenKind::Object), KnownKeys::default());
        self.members((&mut open, &mut keys), of, content, depth);
        self.tape.end(open)
    }

    /// Adds the fields of a message to an object, by their numbers; those that the table does not know as they are stored.
    pub(crate) fn members(
        &mut self,
        (open, keys): (&mut OpenValue, &mut KnownKeys),
        of: &MessageType,
        content: &[u8],
        depth: u32,
    ) {
        let mut numbers: Vec<(u32, WireValue<'_>)> = WireFields::new(content).collect();
        // Stable: items of a list keep their order.
        numbers.sort_by_key(|(number, _)| *number);
        for same in numbers.chunk_by(|a, b| a.0 == b.0) {
            let (number, value) = same[same.len() - 1];
            match of.field(number) {
                Some(field) if field.is_repeated => self.member((open, keys), field.name.as_bytes(), |values| {
                    let mut list = values.tape.begin(TokenKind::Array);
                    for (_, value) in same {
                        values.item(&mut list, field, *value, depth + 1);
                    }
                    values.tape.end(list)
                }),
                Some(field) => {
                    self.member((open, keys), field.name.as_bytes(), |values| values.value(field.of, value, depth + 1));
                }
                None => {
                    let name = format!("field_{number}");
                    self.member((open, keys), name.as_bytes(), |values| values.unknown(value));
                }
            }
        }
    }

    /// Adds a value whose type nothing says.
    pub(crate) fn unknown(&mut self, value: WireValue<'_>) -> u64 {
        match value {
            WireValue::Bytes(bytes) => self.tape.blob(bytes),
            number => self.tape.integer(number.number().into()),
        }
    }

    fn item(&mut self, list: &mut OpenValue, field: &MessageField, value: WireValue<'_>, depth: u32) {
        let is_packed = matches!(value, WireValue::Bytes(_))
            && !matches!(field.of, FieldType::Text | FieldType::Bytes | FieldType::Message(_));
        let WireValue::Bytes(mut bytes) = value else { return self.add_item(list, field, value, depth) };
        if !is_packed {
            return self.add_item(list, field, value, depth);
        }
        match field.of {
            FieldType::Fixed(bits) | FieldType::Float(bits) => {
                for chunk in bytes.chunks_exact(bits as usize / 8) {
                    let number = chunk.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
                    let value = if bits == 32 { WireValue::Fixed32(number as u32) } else { WireValue::Fixed64(number) };
                    self.add_item(list, field, value, depth);
                }
            }
            _ => {
                while let Some((number, rest)) = tracemill_format::perfetto::varint(bytes) {
                    self.add_item(list, field, WireValue::Varint(number), depth);
                    bytes = rest;
                }
            }
        }
    }

    fn add_item(&mut self, list: &mut OpenValue, field: &MessageField, value: WireValue<'_>, depth: u32) {
        let mark = self.value(field.of, value, depth);
        self.tape.add(list, mark);
    }

    /// Adds the value of one field that is there alone.
    pub(crate) fn field(&mut self, field: &MessageField, value: WireValue<'_>) -> u64 {
        if !field.is_repeated {
            return self.value(field.of, value, 0);
        }
        let mut list = self.tape.begin(TokenKind::Array);
        self.item(&mut list, field, value, 0);
        self.tape.end(list)
    }

    /// Adds the value of a field.
    fn value(&mut self, of: FieldType, value: WireValue<'_>, depth: u32) -> u64 {
        match (of, value) {
            (FieldType::Text, WireValue::Bytes(text)) => self.text(text),
            (FieldType::Message(number), WireValue::Bytes(content)) => match message_at(number) {
                Some(of) => self.message(of, content, depth),
                None => self.tape.blob(content),
            },
            (_, WireValue::Bytes(bytes)) => self.tape.blob(bytes),
            (FieldType::Signed(32), value) => self.tape.integer((value.number() as i32).into()),
            (FieldType::Signed(_), value) => self.tape.integer((value.number() as i64).into()),
            (FieldType::ZigZag, value) => {
                let number = value.number();
                self.tape.integer(((number >> 1) as i64 ^ -((number & 1) as i64)).into())
            }
            (FieldType::Bool, value) => self.tape.boolean(value.number() != 0),
            (FieldType::Float(32), value) => self.tape.real(f32::from_bits(value.number() as u32).into()),
            (FieldType::Float(_), value) => self.tape.real(f64::from_bits(value.number())),
            (FieldType::Enum(number), value) => {
                let value = i64::from(value.number() as i32);
                self.tape.labelled(value, label(number, value))
            }
            (_, value) => self.tape.integer(value.number().into()),
        }
    }
}
