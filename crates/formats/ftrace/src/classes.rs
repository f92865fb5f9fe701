//! From event formats to a schema, and what the scanner of pages must know of each class.
//!
//! Fields of fixed places are read where they lie: every class of the schema says its offset in the record. A record
//! with fields that lie elsewhere in it, or go on to its end, is copied after a table that says for each of those
//! where it is, in the one form that plans know ([`FieldOffset::Located`]):
//!
//! ```text
//! fixed     [ record, in the page ]
//! dynamic   [ u32 offset, u32 length ] for each dynamic field, [ record, copied ]
//! unknown   [ u32 id ] [ u32 offset, u32 length ] [ record, copied ]
//! ```
//!
//! [`FieldOffset::Located`]: tracemill_model::schema::FieldOffset

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_model::error::Error;
use tracemill_model::schema::{
    ArrayClass, ByteOrder, DisplayBase, Encoding, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind,
    FieldOffset, IntegerClass, Length, Member, OpenIds, RenderedClass, Schema, StreamClass, StreamClassId, StringClass,
    StringLength, StructClass,
};

use super::event_format::{Content, ContentPlace as FieldPlace, EventFormat, FieldElement, FormatField, Machine};
use super::format_strings::{FormatStrings, PrintkText};

/// Bytes of the place of a dynamic field.
const LOCATOR_BYTES: u32 = 8;

/// The field with the text of a `trace_printk`.
const TEXT: &str = "text";

/// The numeric id of the class of events that no format describes: ids of events have 16 bits.
const UNKNOWN: u64 = 1 << 16;

/// Tables of a stream class for the scanner.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Layout of each event id.
    by_id: Vec<Option<Box<RecordLayout>>>,
    /// The class of ids without a format.
    pub(crate) unknown: EventClassId,
}

/// Oddities of formats, by the number of the event: they are reported when such an event occurs.
#[derive(Debug, Default)]
pub(crate) struct FormatOddities {
    /// Formats that cannot be used.
    pub(crate) unusable: HashMap<u16, Error>,
    /// Formats whose number another one has too.
    pub(crate) ambiguous: HashMap<u16, Error>,
    /// Formats that name fields twice, and the packet that reported it: its stream and number.
    reported: Mutex<HashMap<u16, (String, usize)>>,
}

impl FormatOddities {
    /// The oddities of a file.
    pub(crate) fn new(unusable: HashMap<u16, Error>, ambiguous: HashMap<u16, Error>) -> Self {
        FormatOddities { unusable, ambiguous, reported: Mutex::default() }
    }

    /// The warning that a format names fields twice, for the first packet with such an event. When that packet is read again,
    /// it has the warning again.
    pub(crate) fn repeated(&self, id: u16, layout: &RecordLayout, stream: &str, packet: usize) -> Option<Error> {
        let name = layout.repeated.first()?;
        // A reader that panics leaves a whole table behind.
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let first = reported.entry(id).or_insert_with(|| (stream.to_string(), packet));
        ((first.0.as_str(), first.1) == (stream, packet)).then(|| {
            let error = Error::inconsistent(format!("the format of `{}` has several fields `{name}`", layout.name));
            error.in_event(&*layout.name).with_help(format!("they are shown as `{name}`, `{name}_2` and so on"))
        })
    }
}

/// A class, and how its records become what its plans read.
#[derive(Clone, Debug)]
pub struct RecordLayout {
    /// The class.
    pub class: EventClassId,
    /// Its name.
    pub name: Arc<str>,
    /// Bytes that every record must have.
    pub min_bytes: usize,
    /// Fields that do not have their place in the record fixed by the format.
    pub dynamic: Vec<FormatField>,
    /// Names that the format gives to several fields.
    pub(crate) repeated: Vec<String>,
}

impl Classes {
    /// The layout of the records of an id.
    #[inline]
    pub(crate) fn layout(&self, id: u16) -> Option<&RecordLayout> {
        self.by_id.get(usize::from(id))?.as_deref()
    }
}

impl RecordLayout {
    /// The layout of the records of a class, from their format.
    pub fn new(class: EventClassId, name: Arc<str>, format: &EventFormat) -> Self {
        let dynamic = format.fields.iter().filter(|field| field.place != FieldPlace::Fixed).cloned().collect();
        let repeated = format.repeated.clone();
        RecordLayout { class, name, min_bytes: format.min_bytes() as usize, dynamic, repeated }
    }

    /// Appends a record in the form that the plans of its class read, after `base` bytes of the event; calls `wrong` for
    /// each field that says that it is where the record is not.
    pub fn copy(
        &self,
        record: &[u8],
        machine: Machine,
        base: usize,
        out: &mut Vec<u8>,
        mut wrong: impl FnMut(&FormatField),
    ) {
        let begin = base + self.dynamic.len() * LOCATOR_BYTES as usize;
        for field in &self.dynamic {
            let (range, is_whole) = field.range(record, machine);
            if !is_whole {
                wrong(field);
            }
            let element = match field.content {
                Content::Array(element) => usize::from(element.bytes),
                Content::Integer(_) | Content::Text => 1,
            };
            push_locator(out, begin + range.start, range.len() / element);
        }
        out.extend_from_slice(record);
    }
}

/// Appends a record without a format, in the form that the plan of its class reads.
pub(crate) fn copy_unknown(id: u16, record: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::from(id).to_le_bytes());
    push_locator(out, 12, record.len());
    out.extend_from_slice(record);
}

/// Appends where something stands, and how much it is.
pub fn push_locator(out: &mut Vec<u8>, offset: usize, len: usize) {
    out.extend_from_slice(&(offset as u32).to_le_bytes());
    out.extend_from_slice(&(len as u32).to_le_bytes());
}

/// Adds a stream class with a class for each format; the ids of the formats differ.
pub(crate) fn add_stream(
    schema: &mut Schema,
    stream: StreamClass,
    formats: &[(String, EventFormat)],
    fields: &mut SharedFields,
) -> Option<(StreamClassId, Classes)> {
    let common = formats.first().map(|(_, format)| format.common.as_slice()).unwrap_or(&[]);
    let members = common.iter().map(|field| fields.member(schema, field, &mut Vec::new(), 0)).collect();
    let header = add_struct(schema, members);
    let stream = schema.add_stream(StreamClass { event_header: Some(header), has_cpu: true, ..stream })?;
    let mut by_id: Vec<Option<Box<RecordLayout>>> = Vec::new();
    for (system, format) in formats {
        let at = usize::from(format.id);
        if by_id.len() <= at {
            by_id.resize_with(at + 1, || None);
        }
        let name: Arc<str> = format.name.as_str().into();
        let payload = fields.payload_of(schema, system, format);
        let class = EventClass {
            name: Some(name.clone()),
            payload: Some(payload),
            ..EventClass::new(format.id.into(), stream)
        };
        let Some(class) = schema.add_event(class) else { continue };
        by_id[at] = Some(Box::new(RecordLayout::new(class, name, format)));
    }
    let unknown = add_unknown(schema, stream)?;
    Some((stream, Classes { by_id, unknown }))
}

/// Field classes of formats: payloads that several streams have are made once.
pub struct SharedFields {
    payloads: HashMap<u16, FieldClassId>,
    names: HashMap<String, Arc<str>>,
    byte_order: ByteOrder,
    /// Format strings of the kernel's code, where they are known.
    format_strings: Option<Arc<FormatStrings>>,
}

impl SharedFields {
    /// No classes yet, of records in this byte order.
    pub fn new(byte_order: ByteOrder) -> Self {
        SharedFields { payloads: HashMap::new(), names: HashMap::new(), byte_order, format_strings: None }
    }

    /// Shows the texts of `trace_printk` too.
    pub(crate) fn with_format_strings(mut self, strings: Arc<FormatStrings>) -> Self {
        self.format_strings = Some(strings);
        self
    }

    /// The payload of an event of a system, with the text that it stands for.
    fn payload_of(&mut self, schema: &mut Schema, system: &str, format: &EventFormat) -> FieldClassId {
        let dynamic = || format.fields.iter().filter(|field| field.place != FieldPlace::Fixed);
        let place = |at: usize| at * LOCATOR_BYTES as usize;
        let locator = |wanted: &FormatField| dynamic().position(|field| field.name == wanted.name).map(place);
        let strings = self.format_strings.clone().filter(|_| system == "ftrace");
        let text =
            strings.and_then(|strings| PrintkText::from_format(&strings, format, place(dynamic().count()), locator));
        self.payload_with(schema, format, 0, text)
    }

    /// The payload of an event, `base` bytes of which stand before its record.
    pub fn payload(&mut self, schema: &mut Schema, format: &EventFormat, base: u32) -> FieldClassId {
        self.payload_with(schema, format, base, None)
    }

    /// The members of the fields that all records have, as [`SharedFields::payload`] has the
    /// others.
    pub fn common(&mut self, schema: &mut Schema, format: &EventFormat, base: u32) -> Vec<Member> {
        let count = format.fields.iter().filter(|field| field.place != FieldPlace::Fixed).count() as u32;
        let begin = base + count * LOCATOR_BYTES;
        format.common.iter().map(|field| self.member(schema, field, &mut Vec::new(), begin)).collect()
    }

    fn payload_with(
        &mut self,
        schema: &mut Schema,
        format: &EventFormat,
        base: u32,
        text: Option<PrintkText>,
    ) -> FieldClassId {
        if let Some(&payload) = self.payloads.get(&format.id) {
            return payload;
        }
        let count = format.fields.iter().filter(|field| field.place != FieldPlace::Fixed).count() as u32;
        let begin = base + count * LOCATOR_BYTES;
        let mut locators = (0..count).map(|at| base + at * LOCATOR_BYTES).rev().collect();
        let members = format.fields.iter().map(|field| self.member(schema, field, &mut locators, begin));
        let mut members: Vec<Member> = members.collect();
        if let Some(text) = text.filter(|_| format.field(TEXT).is_none()) {
            let kind = FieldKind::Rendered(RenderedClass { len_bytes: 0, render: Arc::new(text) });
            members.push(Member::new(TEXT, schema.add_field_class(FieldClass::new(kind, 8))));
        }
        let payload = add_struct(schema, members);
        self.payloads.insert(format.id, payload);
        payload
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let shared: Arc<str> = name.into();
        self.names.insert(name.to_string(), shared.clone());
        shared
    }

    /// The member of a field in a record that begins `begin` bytes after where fields are counted from; a dynamic
    /// field takes one of the places.
    fn member(&mut self, schema: &mut Schema, field: &FormatField, locators: &mut Vec<u32>, begin: u32) -> Member {
        let is_dynamic = field.place != FieldPlace::Fixed;
        let place = match locators.pop_if(|_| is_dynamic) {
            Some(offset_bytes) => FieldOffset::Located { offset_bytes },
            None => FieldOffset::At { offset_bytes: begin + field.offset },
        };
        let length = |of: u32| match place {
            FieldOffset::Located { .. } => Length::Located,
            // A common field without a fixed place is nothing that any kernel has; it is empty.
            FieldOffset::At { .. } if is_dynamic => Length::Static(0),
            FieldOffset::At { .. } => Length::Static(u64::from(field.size / of.max(1))),
        };
        let kind = match field.content {
            Content::Integer(element) => self.integer(element),
            Content::Text => text(length(1)),
            Content::Array(element) => {
                let kind = self.integer(element);
                let of = schema.add_field_class(FieldClass::new(kind, 8));
                FieldKind::Array(ArrayClass { element: of, length: length(element.bytes.into()) })
            }
        };
        let class = schema.add_field_class(FieldClass::new(kind, 8).with_offset(place));
        let name = self.name(&field.name);
        Member { raw_name: name.clone(), name, class }
    }

    fn integer(&self, element: FieldElement) -> FieldKind {
        FieldKind::Integer(IntegerClass {
            byte_order: self.byte_order,
            signed: element.signed,
            base: if element.is_pointer { DisplayBase::Hexadecimal } else { DisplayBase::Decimal },
            ..IntegerClass::unsigned(u32::from(element.bytes) * 8)
        })
    }
}

fn text(length: Length) -> FieldKind {
    FieldKind::String(StringClass { encoding: Encoding::Utf8, length: StringLength::Bytes(length) })
}

fn add_struct(schema: &mut Schema, members: Vec<Member>) -> FieldClassId {
    // Its members have places of their own.
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}

/// The class of events that no format describes: their bytes.
fn add_unknown(schema: &mut Schema, stream: StreamClassId) -> Option<EventClassId> {
    let byte = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(8)), 8));
    let bytes = FieldKind::Array(ArrayClass { element: byte, length: Length::Located });
    let bytes = schema.add_field_class(FieldClass::new(bytes, 8).with_offset(FieldOffset::Located { offset_bytes: 4 }));
    let member = Member::new("record", bytes);
    let payload = add_struct(schema, vec![member]);
    schema.add_event(EventClass {
        name: Some("unknown".into()),
        payload: Some(payload),
        open_ids: Some(OpenIds { offset_bytes: 0, name: Arc::new(Some(Arc::from("unknown"))) }),
        ..EventClass::new(UNKNOWN, stream)
    })
}
