//! From types to the schema that plans decode.
//!
//! Layouts of the drafts are expressed in general terms: a sequence's length stands before it
//! ([`Length::Inline`]), a bit-field stays in its unit, the extension of a header is an optional field that ends
//! aligned, and the fields of a payload are optional: they are there unless the bitmap of the header marks them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tracemill_model::schema::{
    ArrayClass, ByteOrder, ClockClass, Encoding, EventClass, FieldClass, FieldClassId, FieldKind, FieldPath,
    FloatClass, IntegerClass, Length, Member, OptionalClass, PathStep, Placement, Presence, Role, Roles, Schema, Scope,
    StreamClass, StringClass, StringLength, StructClass,
};

use super::metadata::Dialect;
use super::packet_fields::HEADER_11;
use super::types::{
    DraftClass, DraftEvent, DraftType, DraftTypeKind, HeaderForm, Int, Metadata, SectionClass, WrittenOrder,
};

/// Builds the schema of a trace whose packets have this byte order.
pub(super) fn build(metadata: &Metadata, dialect: Dialect, minor: u32, order: ByteOrder, frequency: u64) -> Schema {
    let mut schema = Schema::new(dialect.format());
    schema.version = (1, minor);
    schema.byte_order = order;
    schema.uuid = metadata.uuid;
    let clock = schema.add_clock(ClockClass { frequency, name: None, ..ClockClass::nanoseconds("default") });
    let mut builder =
        DraftSchemaBuilder { schema, order, dialect, preferred: metadata.preferred, made: HashMap::new() };
    builder.packet_header();
    let context_11 = (dialect == Dialect::V11).then(|| builder.packet_context_11());
    for (group, events) in &metadata.groups {
        let class = StreamClass {
            id: group.id,
            has_no_id: dialect == Dialect::V11,
            name: group.name.as_deref().map(Arc::from),
            default_clock: Some(clock),
            has_cpu: group.packet_context.as_ref().is_some_and(has_cpu),
            packet_context: match &group.packet_context {
                Some(context) => Some(builder.class(context)),
                None => context_11,
            },
            event_header: Some(builder.event_header(group, events)),
            common_context: builder.common_context(group),
            ..StreamClass::default()
        };
        let Some(stream) = builder.schema.add_stream(class) else { continue };
        for event in events {
            let payload = builder.payload(&event.payload);
            let name = Some(event.name.as_str().into());
            let class = EventClass { name, payload: Some(payload), ..EventClass::new(event.id, stream) };
            builder.schema.add_event(class);
        }
    }
    builder.schema
}

fn has_cpu(context: &DraftType) -> bool {
    let DraftTypeKind::Struct(fields) = &context.kind else { return false };
    fields.iter().any(|field| &*field.name == "cpu_id" && field.class.as_integer().is_some())
}

struct DraftSchemaBuilder {
    schema: Schema,
    order: ByteOrder,
    dialect: Dialect,
    preferred: (u32, u32),
    /// Classes of types, by where the type lies: types are shared, and so are their classes.
    made: HashMap<*const DraftClass, FieldClassId>,
}

impl DraftSchemaBuilder {
    fn add(&mut self, kind: FieldKind, align: u32) -> FieldClassId {
        self.schema.add_field_class(FieldClass::new(kind, align))
    }

    /// An unsigned integer of the built-in layouts.
    fn unsigned(&mut self, len_bits: u32, align: u32, roles: Roles) -> FieldClassId {
        let integer = IntegerClass { byte_order: self.order, ..IntegerClass::unsigned(len_bits) };
        self.schema.add_field_class(FieldClass::new(FieldKind::Integer(integer), align).with_roles(roles))
    }

    fn structure(&mut self, members: &[(&str, FieldClassId)], align: u32, placement: Placement) -> FieldClassId {
        let members = members.iter().map(|&(name, class)| Member::new(name, class)).collect();
        let class = FieldClass::new(FieldKind::Struct(StructClass { members }), align).with_placement(placement);
        self.schema.add_field_class(class)
    }

    /// The part of the fixed header that both dialects call the packet header: events do not show it.
    fn packet_header(&mut self) {
        let number = self.unsigned(32, 8, Roles::NONE);
        let root = match self.dialect {
            Dialect::V11 => self.structure(&[("magic", number), ("session_id", number)], 8, Placement::default()),
            Dialect::V16 => {
                let element = self.unsigned(8, 8, Roles::NONE);
                let uuid = self.add(FieldKind::Array(ArrayClass { element, length: Length::Static(16) }), 8);
                let members = [("magic", number), ("trace_uuid", uuid), ("stream_id", number)];
                self.structure(&members, 8, Placement::default())
            }
        };
        self.schema.packet_header = Some(root);
    }

    /// The rest of the fixed header of v1.1 (`SPEC.md`, D11).
    fn packet_context_11(&mut self) -> FieldClassId {
        let members: Vec<_> =
            HEADER_11.iter().map(|&(name, bits)| (name, self.unsigned(bits, 8, Roles::NONE))).collect();
        self.structure(&members, 8, Placement::default())
    }

    /// One of the built-in event headers with its extension (`SPEC.md`, section 7).
    fn event_header(&mut self, group: &SectionClass, events: &[DraftEvent]) -> FieldClassId {
        let (p32, p64) = self.preferred;
        let id_roles = Roles::NONE.with(Role::EventClassId);
        let time_roles = Roles::NONE.with(Role::Timestamp);
        let (id_bits, time_bits, is_id_first) = match group.header {
            HeaderForm::One => (5, 27, true),
            HeaderForm::Two => (16, 32, false),
        };
        let id = ("id", self.unsigned(id_bits, 1, id_roles));
        let time = ("timestamp", self.unsigned(time_bits, 1, time_roles));
        // Their bits follow each other, whatever the alignment of such integers is elsewhere (`SPEC.md`, D23).
        let long_id = ("id", self.unsigned(32, 1, id_roles));
        let long_time = ("timestamp", self.unsigned(64, 1, time_roles));
        let (mut members, align, end_align) = match group.extension {
            HeaderForm::One => (vec![long_id, long_time], 1, p64),
            HeaderForm::Two => (vec![long_time, long_id], p64, p32),
        };
        let long_id_at = u32::from(group.extension == HeaderForm::Two);
        let end_align_bits = if self.dialect == Dialect::V11 { end_align } else { 1 };
        if self.dialect == Dialect::V16 {
            let element = self.unsigned(1, 1, Roles::NONE);
            let lengths: BTreeMap<u64, u64> =
                events.iter().map(|event| (event.id, field_count(&event.payload))).collect();
            let selector = header_path(&[PathStep::Member(2), PathStep::Content, PathStep::Member(long_id_at)]);
            let length = Length::Table { selector, lengths: Arc::new(lengths) };
            members.push(("missing_fields", self.add(FieldKind::Array(ArrayClass { element, length }), 1)));
        }
        let content = self.structure(&members, align, Placement { end_align_bits, ..Placement::default() });
        let selector = header_path(&[PathStep::Member(u32::from(!is_id_first))]);
        let reserved = (1i128 << id_bits) - 1;
        let presence = Presence::Ranges(vec![(reserved, reserved)]);
        let extension = self.add(FieldKind::Optional(OptionalClass { selector, presence, content }), 1);
        let short = if is_id_first { [id, time] } else { [time, id] };
        self.structure(&[short[0], short[1], ("ext", extension)], p32, Placement::default())
    }

    /// The context of each event, with its size before it when the section says so (`SPEC.md`, D9).
    fn common_context(&mut self, group: &SectionClass) -> Option<FieldClassId> {
        let context = group.context.as_ref();
        if !group.has_event_size {
            return context.map(|context| self.class(context));
        }
        let p32 = self.preferred.0;
        let mut members = vec![Member::new("event_size", self.unsigned(32, p32, Roles::NONE))];
        let mut align = p32;
        if let Some(context) = context
            && let DraftTypeKind::Struct(fields) = &context.kind
        {
            members.extend(self.members(fields));
            align = align.max(context.align);
        }
        Some(self.add(FieldKind::Struct(StructClass { members }), align))
    }

    /// The payload; in v1.6 each of its fields is there unless the header marks it as missing (`SPEC.md`, D28).
    fn payload(&mut self, payload: &DraftType) -> FieldClassId {
        let (Dialect::V16, DraftTypeKind::Struct(fields)) = (self.dialect, &payload.kind) else {
            return self.class(payload);
        };
        let selector = header_path(&[PathStep::Member(2), PathStep::Content, PathStep::Member(2)]);
        let mut members = self.members(fields);
        for (at, member) in members.iter_mut().enumerate() {
            let presence = Presence::Unmarked(at as u32);
            let optional = OptionalClass { selector: selector.clone(), presence, content: member.class };
            member.class = self.add(FieldKind::Optional(optional), 1);
        }
        self.add(FieldKind::Struct(StructClass { members }), payload.align)
    }

    fn members(&mut self, fields: &[super::types::DraftField]) -> Vec<Member> {
        fields.iter().map(|field| Member::new(field.name.clone(), self.class(&field.class))).collect()
    }

    fn integer(&self, int: Int) -> IntegerClass {
        let byte_order = int.order.resolve(self.order);
        IntegerClass { byte_order, signed: int.signed, ..IntegerClass::unsigned(int.size) }
    }

    fn class(&mut self, class: &DraftType) -> FieldClassId {
        let key = Arc::as_ptr(class);
        if let Some(&id) = self.made.get(&key) {
            return id;
        }
        let kind = match &class.kind {
            DraftTypeKind::Integer(int) => FieldKind::Integer(self.integer(*int)),
            DraftTypeKind::Enum(int, mappings) => {
                FieldKind::Integer(IntegerClass { mappings: Some(mappings.clone()), ..self.integer(*int) })
            }
            DraftTypeKind::Float { bits, order } => {
                let byte_order = WrittenOrder::resolve(*order, self.order);
                FieldKind::Float(FloatClass::new(*bits, byte_order))
            }
            DraftTypeKind::Text { is_ascii } => FieldKind::String(StringClass {
                encoding: if *is_ascii { Encoding::Ascii } else { Encoding::Utf8 },
                length: StringLength::NullTerminated,
            }),
            DraftTypeKind::Struct(fields) => FieldKind::Struct(StructClass { members: self.members(fields) }),
            DraftTypeKind::Array(length, element) => {
                let element = self.class(element);
                FieldKind::Array(ArrayClass { element, length: Length::Static(*length) })
            }
            DraftTypeKind::Sequence(length, element) => {
                let (length, element) = (self.class(length), self.class(element));
                FieldKind::Array(ArrayClass { element, length: Length::Inline(length) })
            }
        };
        let placement = Placement { unit_bits: class.unit, ..Placement::default() };
        let made = FieldClass::new(kind, class.align).with_placement(placement);
        let id = self.schema.add_field_class(made);
        self.made.insert(key, id);
        id
    }
}

fn field_count(payload: &DraftType) -> u64 {
    match &payload.kind {
        DraftTypeKind::Struct(fields) => fields.len() as u64,
        _ => 0,
    }
}

fn header_path(steps: &[PathStep]) -> FieldPath {
    FieldPath { scope: Scope::EventHeader, steps: steps.to_vec() }
}
