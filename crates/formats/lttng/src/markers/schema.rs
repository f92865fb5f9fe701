//! The schema of a trace: a stream class for each channel, an event class for each of its markers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_model::error::Error;
use tracemill_model::schema::{
    ByteOrder, ClockId, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind as SchemaKind, IntegerClass,
    Member, OpenIds, Render, Schema, StreamClass, StreamClassId, StringClass, StructClass,
};

use super::events::{Layout, Layouts, SubBufferForm};
use super::format_string::{self, FieldKind, MarkerField, Sizes};
use super::metadata::{Dialect, MarkerDefinitions, core_markers};
use crate::messages::Messages;

/// Event classes that one trace may have: before 2.3 each channel has all markers.
const MAX_CLASSES: usize = 1 << 20;

/// A channel as its files write it.
#[derive(Debug)]
pub(crate) struct ChannelClass {
    pub stream: StreamClassId,
    /// Its name, without the mark of a flight recorder.
    pub name: Arc<str>,
    pub layouts: Layouts,
    /// Class of each marker by id, those that can be decoded.
    classes: Vec<Option<EventClassId>>,
    /// Class of all others.
    pub open: EventClassId,
}

impl ChannelClass {
    /// The class of a marker that can be decoded.
    #[inline]
    pub(crate) fn class(&self, id: u16) -> EventClassId {
        self.classes.get(usize::from(id)).copied().flatten().unwrap_or(self.open)
    }
}

/// Makes the names of events whose marker cannot be decoded.
#[derive(Debug)]
struct UndecodedNames {
    channel: Arc<str>,
    markers: HashMap<u16, String>,
}

impl UndecodedNames {
    fn name(&self, id: u32) -> String {
        match u16::try_from(id).ok().and_then(|id| self.markers.get(&id)) {
            Some(marker) => format!("{}.{marker}", self.channel),
            None => format!("{}.event_{id}", self.channel),
        }
    }
}

impl Render for UndecodedNames {
    fn render(&self, _event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(id) = own.first_chunk::<4>() else { return false };
        out.extend(self.name(u32::from_le_bytes(*id)).as_bytes());
        true
    }
}

/// Makes the schema, channel by channel.
pub(crate) struct ChannelSchemaBuilder<'a> {
    pub schema: Schema,
    pub definitions: &'a MarkerDefinitions,
    pub dialect: Dialect,
    pub clock: Option<ClockId>,
    pub messages: Messages,
    /// Markers whose formats were reported, by channel.
    reported: HashSet<(String, String)>,
    strings: Option<FieldClassId>,
    numbers: HashMap<(FieldKind, u32, bool), FieldClassId>,
}

impl<'a> ChannelSchemaBuilder<'a> {
    pub(crate) fn new(
        schema: Schema,
        definitions: &'a MarkerDefinitions,
        dialect: Dialect,
        clock: Option<ClockId>,
    ) -> Self {
        ChannelSchemaBuilder {
            schema,
            definitions,
            dialect,
            clock,
            messages: Messages::default(),
            reported: HashSet::new(),
            strings: None,
            numbers: HashMap::new(),
        }
    }

    /// Adds a channel; `number` is its id among them.
    pub(crate) fn add(
        &mut self,
        number: u64,
        name: &str,
        is_metadata: bool,
        shape: SubBufferForm,
    ) -> Option<ChannelClass> {
        let name: Arc<str> = name.into();
        let stream = self.schema.add_stream(StreamClass {
            id: number,
            name: Some(name.clone()),
            default_clock: self.clock,
            has_cpu: true,
            ..StreamClass::default()
        })?;
        let mut class = ChannelClass {
            stream,
            name: name.clone(),
            layouts: Layouts::default(),
            classes: Vec::new(),
            open: EventClassId(0),
        };
        let mut names = HashMap::new();
        if is_metadata {
            for (id, marker, fields) in core_markers(self.dialect) {
                self.marker(&mut class, id, marker, &fields, shape.alignment, shape);
            }
        }
        let markers = self.definitions.channel(&name);
        for (&id, marker) in markers.iter().flat_map(|channel| &channel.ids) {
            names.insert(id, marker.name.clone());
            if is_metadata && id <= super::metadata::SET_FORMAT {
                continue;
            }
            let format = markers.and_then(|channel| channel.formats.get(&marker.name)).map(Vec::as_slice);
            if let Some(fields) = self.fields(&name, &marker.name, id, format, &marker.sizes) {
                self.marker(&mut class, id, &marker.name, &fields, marker.sizes.alignment, shape);
            }
        }
        let names = UndecodedNames { channel: name.clone(), markers: names };
        class.open = self.schema.add_event(EventClass {
            name: Some(format!("{name}.(not decoded)").into()),
            open_ids: Some(OpenIds { offset_bytes: 0, name: Arc::new(names) }),
            ..EventClass::new(u64::from(u32::MAX), stream)
        })?;
        Some(class)
    }

    /// The fields of a marker, unless its definition is not whole or makes no sense, which is reported once.
    fn fields(
        &mut self,
        channel: &str,
        marker: &str,
        id: u16,
        format: Option<&[u8]>,
        sizes: &Sizes,
    ) -> Option<Vec<MarkerField>> {
        let read = match format {
            None => Err(format!("marker {id} of channel `{channel}`, `{marker}`, has no format")),
            Some(_) if !sizes.are_possible() => {
                let Sizes { int, long, pointer, size_t, alignment } = sizes;
                Err(format!(
                    "marker {id} of channel `{channel}`, `{marker}`, states sizes that no machine has: int {int}, long \
                     {long}, pointer {pointer}, size_t {size_t}, alignment {alignment}"
                ))
            }
            Some(format) => format_string::parse(format, sizes).map_err(|error| {
                let format = String::from_utf8_lossy(format);
                format!("the format of marker {id} of channel `{channel}`, `{marker}`, cannot be read: {error} of `{format}`")
            }),
        };
        let message = match read {
            Ok(fields) if self.schema.events().len() < MAX_CLASSES => return Some(fields),
            Ok(_) => format!("there are more than {MAX_CLASSES} markers in all channels"),
            Err(message) => message,
        };
        if self.reported.len() < 1000 && self.reported.insert((channel.to_string(), marker.to_string())) {
            let help = "its events are shown without fields where they state their size; others end their sub-buffer";
            match format {
                None => self.messages.warnings.push(Error::inconsistent(message).with_help(help)),
                Some(_) => self.messages.errors.push(Error::malformed(message).with_help(help)),
            }
        }
        None
    }

    fn marker(
        &mut self,
        class: &mut ChannelClass,
        id: u16,
        marker: &str,
        fields: &[MarkerField],
        alignment: u8,
        shape: SubBufferForm,
    ) {
        let payload = (!fields.is_empty()).then(|| self.payload(fields, alignment, shape));
        let event = self.schema.add_event(EventClass {
            name: Some(format!("{}.{marker}", class.name).into()),
            payload,
            ..EventClass::new(u64::from(id), class.stream)
        });
        if event.is_some() {
            let at = usize::from(id);
            if class.classes.len() <= at {
                class.classes.resize(at + 1, None);
            }
            class.classes[at] = event;
            class.layouts.set(id, Layout::from_fields(fields, alignment, shape.rule));
        }
    }

    fn payload(&mut self, fields: &[MarkerField], alignment: u8, shape: SubBufferForm) -> FieldClassId {
        let members: Vec<Member> = fields
            .iter()
            .map(|field| {
                let name: Arc<str> = field.name.as_str().into();
                Member::new(name, self.field(field.kind, alignment, shape))
            })
            .collect();
        let align_bits = self.schema.struct_align_bits(&members, 1);
        self.schema.add_field_class(FieldClass::new(SchemaKind::Struct(StructClass { members }), align_bits))
    }

    /// The class of a field, shared by all that are alike.
    fn field(&mut self, kind: FieldKind, alignment: u8, shape: SubBufferForm) -> FieldClassId {
        let schema = &mut self.schema;
        let FieldKind::Integer { len_bytes, is_signed, base, is_network_order } = kind else {
            return *self.strings.get_or_insert_with(|| {
                let class = StringClass::utf8();
                schema.add_field_class(FieldClass::new(SchemaKind::String(class), 8))
            });
        };
        let align_bits = shape.rule.bytes(alignment, u32::from(len_bytes)) * 8;
        let is_big = is_network_order || shape.order == ByteOrder::Big;
        *self.numbers.entry((kind, align_bits, is_big)).or_insert_with(|| {
            let class = IntegerClass {
                signed: is_signed,
                base,
                byte_order: ByteOrder::big_if(is_big),
                ..IntegerClass::unsigned(u32::from(len_bytes) * 8)
            };
            schema.add_field_class(FieldClass::new(SchemaKind::Integer(class), align_bits))
        })
    }
}
