//! Traces of other formats in the types of the drafts: what each field becomes, and its values with it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_codec::layout;
use tracemill_codec::text::Span;
use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::schema::{
    Encoding, EventClassId, FieldClass, FieldClassId, FieldKind, IntegerClass, Length, Member, Presence, Schema, Scope,
    StreamClassId,
};

use super::super::cursor::Spanned;
use super::super::metadata::Dialect;
use super::super::packet_fields;
use super::super::types::{
    DraftClass, DraftEvent, DraftType, DraftTypeKind, HeaderForm, Int, Metadata, SectionClass, WrittenOrder,
};
use crate::names::identifier;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Source;

/// Types made of a schema.
pub(super) struct Foreign {
    schema: Arc<Schema>,
    dialect: Dialect,
    made: HashMap<FieldClassId, DraftType>,
    /// Members of packet contexts that are kept, by stream class.
    pub(super) extras: Vec<Vec<(Arc<str>, usize)>>,
    /// Payloads of all event classes.
    payloads: Vec<DraftType>,
    pub(super) losses: Losses,
}

/// Where the events of a class go.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassTarget {
    /// Index of the group, then of the event in it; `None` for a class that stands for many ids.
    pub(super) group: usize,
    pub(super) event: Option<usize>,
}

impl Foreign {
    /// The types of a trace; the events of a class are where `targets` says.
    pub(super) fn new(source: &Source, dialect: Dialect) -> Result<(Self, Metadata, Vec<ClassTarget>)> {
        let schema = source.schema.clone();
        let mut foreign = Foreign {
            schema: schema.clone(),
            dialect,
            made: HashMap::new(),
            extras: Vec::new(),
            payloads: Vec::new(),
            losses: Losses::default(),
        };
        foreign.count();
        let mut metadata = Metadata { preferred: (8, 8), ..Metadata::default() };
        let mut names = HashSet::new();
        let has_long_ids = schema.streams().iter().any(|stream| stream.id > u64::from(u32::MAX));
        foreign.losses.add(Lost::LongStreamIds, u64::from(has_long_ids));
        let (stream_ids, event_ids) = (schema.distinct_stream_ids(), schema.distinct_event_ids());
        let twins = schema.events().iter().zip(&event_ids).filter(|(event, id)| event.id != **id).count();
        foreign.losses.add(Lost::SharedEventIds, twins as u64);
        for (at, stream) in schema.streams().iter().enumerate() {
            let id = if has_long_ids { at as u64 } else { stream_ids[at] };
            let mut name = identifier(stream.name.as_deref().unwrap_or("stream"));
            if !names.insert(name.clone()) {
                name = format!("{name}_{at}");
                names.insert(name.clone());
            }
            let context = stream.common_context.map(|root| foreign.class(root)).transpose()?;
            let has_cpu = stream.has_cpu;
            let packet_context = match dialect {
                Dialect::V11 => None,
                Dialect::V16 => Some(foreign.packet_context(StreamClassId(at as u32), has_cpu)?),
            };
            let (name, form) = (Some(name), HeaderForm::Two);
            let group = SectionClass {
                name,
                id,
                header: form,
                extension: form,
                has_event_size: false,
                context,
                packet_context,
            };
            metadata.groups.push((group, Vec::new()));
        }
        let mut targets = Vec::new();
        for (at, event) in schema.events().iter().enumerate() {
            let group = event.stream.0 as usize;
            let name = event.name.as_deref().unwrap_or("").to_string();
            let payload = foreign.payload(EventClassId(at as u32))?;
            let Some((_, events)) = metadata.groups.get_mut(group) else { continue };
            foreign.payloads.push(payload.clone());
            if event.open_ids.is_some() {
                targets.push(ClassTarget { group, event: None });
                continue;
            }
            // Ids are brought to 32 bits after this.
            events.push(DraftEvent { name, id: event_ids[at], payload });
            targets.push(ClassTarget { group, event: Some(events.len() - 1) });
        }
        for (_, events) in &mut metadata.groups {
            if events.iter().any(|event| event.id > u64::from(u32::MAX)) {
                foreign.losses.add(Lost::LongClassIds, 1);
                events.iter_mut().enumerate().for_each(|(at, event)| event.id = at as u64);
            }
        }
        Ok((foreign, metadata, targets))
    }

    /// Counts the parts of a trace that have no place in a draft, as far as its schema shows.
    fn count(&mut self) {
        let schema = self.schema.clone();
        let losses = &mut self.losses;
        losses.add(Lost::Environment, schema.environment.len() as u64);
        let names = [&schema.name, &schema.namespace, &schema.uid];
        losses.add(Lost::TraceNames, names.into_iter().flatten().count() as u64);
        losses.add(Lost::TraceUuid, u64::from(self.dialect == Dialect::V11 && schema.uuid.is_some()));
        losses.add(Lost::TextForm, u64::from(schema.summary.is_some()));
        for clock in schema.clocks() {
            let has_origin = clock.origin != tracemill_model::schema::ClockOrigin::Unknown;
            losses.add(Lost::ClockOrigins, u64::from(has_origin));
            losses.add(Lost::ClockFrequencies, u64::from(clock.frequency != 1_000_000_000));
        }
        let is_draft = is_draft(&schema);
        for stream in schema.streams() {
            let has_cpu = self.dialect == Dialect::V11 && stream.has_cpu && !is_draft;
            self.losses.add(Lost::ClocklessStreams, u64::from(stream.default_clock.is_none()));
            self.losses.add(Lost::CpuNumbers, u64::from(has_cpu));
            let plain = stream.event_header.map_or(0, |root| self.plain_leaves(root));
            self.losses.add(Lost::EventHeaders, if is_draft { 0 } else { plain });
            if let (Dialect::V11, Some(root)) = (self.dialect, stream.packet_context) {
                let kept = self.kept_members(root).len() as u64;
                self.losses.add(Lost::PacketContexts, kept);
            }
        }
        for event in schema.events() {
            let of =
                [event.namespace.is_some(), event.uid.is_some(), event.emf_uri.is_some(), event.log_level.is_some()];
            self.losses.add(Lost::EventProperties, of.into_iter().filter(|is| *is).count() as u64);
            self.losses.add(Lost::UntimedClasses, u64::from(event.is_untimed));
        }
    }

    /// Leaves below a class that mean nothing to CTF.
    fn plain_leaves(&self, root: FieldClassId) -> u64 {
        let is_plain =
            |class: &&FieldClass| layout::children(class).is_empty() && class.roles.is_empty() && !is_container(class);
        layout::descendants(&self.schema, root).take(10_000).filter(is_plain).count() as u64
    }

    /// Members of a packet context that no draft has a field for by another name.
    fn kept_members(&self, root: FieldClassId) -> Vec<(Member, usize)> {
        let is_draft = is_draft(&self.schema);
        let is_known = |member: &Member| {
            let name = member.name.replace("section_packet_count", "stream_packet_count");
            is_draft && packet_fields::is_known(&name) || &*member.name == "cpu_id"
        };
        let members = self.schema.members(Some(root)).iter().enumerate();
        let members = members.filter(|(_, member)| self.schema.field_class(member.class).roles.is_empty());
        members.filter(|(_, member)| !is_known(member)).map(|(at, member)| (member.clone(), at)).collect()
    }

    /// The packet context of v1.6: what packets must say, then what the input's say beside that.
    fn packet_context(&mut self, stream: StreamClassId, has_cpu: bool) -> Result<DraftType> {
        let mut fields: Vec<(Spanned<String>, DraftType)> = Vec::new();
        for (name, size) in CONTEXT {
            if name != "cpu_id" || has_cpu {
                fields.push((spanned(name), DraftClass::unsigned(size)));
            }
        }
        let mut taken: HashSet<String> = fields.iter().map(|(name, _)| name.value.clone()).collect();
        let mut extras = Vec::new();
        if let Some(root) = self.schema.stream(stream).packet_context {
            for (member, at) in self.kept_members(root) {
                let name = self.free_name(&member.name, &mut taken, packet_fields::is_known);
                fields.push((spanned(&name), self.class(member.class)?));
                extras.push((name.into(), at));
            }
        }
        self.extras.resize(stream.0 as usize, Vec::new());
        self.extras.push(extras);
        DraftClass::structure(fields, false, "")
    }

    /// The payload of an event, with the context of its class as its first member.
    fn payload(&mut self, event: EventClassId) -> Result<DraftType> {
        let schema = self.schema.clone();
        let of = schema.event(event);
        let mut fields = Vec::new();
        let mut taken = HashSet::new();
        if let Some(context) = of.specific_context {
            let class = self.class(context)?;
            fields.push((spanned(&self.free_name("event_context", &mut taken, |_| false)), class));
            self.losses.add(Lost::EventContexts, 1);
        }
        for member in schema.members(of.payload) {
            let name = self.free_name(&member.name, &mut taken, |_| false);
            let class = match &schema.field_class(member.class).kind {
                // A field that may be missing is marked in the header of the event.
                FieldKind::Optional(optional) if self.dialect == Dialect::V16 => self.class(optional.content)?,
                _ => self.class(member.class)?,
            };
            fields.push((spanned(&name), class));
        }
        DraftClass::structure(fields, false, "")
    }

    fn class(&mut self, id: FieldClassId) -> Result<DraftType> {
        if let Some(made) = self.made.get(&id) {
            return Ok(made.clone());
        }
        let schema = self.schema.clone();
        let class = self.make(&schema.field_class(id).kind)?;
        self.made.insert(id, class.clone());
        Ok(class)
    }

    fn make(&mut self, kind: &FieldKind) -> Result<DraftType> {
        Ok(match kind {
            FieldKind::Integer(integer) => self.integer(integer)?,
            FieldKind::BitArray(bits) | FieldKind::BitMap(bits) => {
                self.losses.add(Lost::BitArrays, 1);
                self.losses.add(Lost::WideNumbers, u64::from(bits.len_bits > 64));
                DraftClass::unsigned(bits.len_bits.clamp(1, 64))
            }
            FieldKind::Boolean(_) => {
                self.losses.add(Lost::Booleans, 1);
                DraftClass::unsigned(8)
            }
            FieldKind::Float(float) => {
                self.losses.add(Lost::WideFloats, u64::from(float.len_bits > 64));
                let bits = if float.len_bits <= 32 { 32 } else { 64 };
                DraftClass::leaf(DraftTypeKind::Float { bits, order: WrittenOrder::Native }, 8)
            }
            FieldKind::String(string) => DraftClass::text(string.encoding == Encoding::Ascii),
            FieldKind::Rendered(_) => DraftClass::text(false),
            FieldKind::Blob(blob) => {
                self.losses.add(Lost::Blobs, 1);
                self.list(&blob.length, DraftClass::unsigned(8))?
            }
            FieldKind::Struct(structure) => {
                let mut taken = HashSet::new();
                let mut fields = Vec::with_capacity(structure.members.len());
                for member in &structure.members {
                    let name = self.free_name(&member.name, &mut taken, |_| false);
                    fields.push((spanned(&name), self.class(member.class)?));
                }
                DraftClass::structure(fields, false, "")?
            }
            FieldKind::Array(array) => {
                let element = self.class(array.element)?;
                self.list(&array.length, element)?
            }
            FieldKind::Optional(optional) => {
                self.losses.add(Lost::Optionals, 1);
                DraftClass::sequence(DraftClass::unsigned(8), self.class(optional.content)?, Span::default(), "")?
            }
            FieldKind::Variant(variant) => {
                self.losses.add(Lost::Variants, 1);
                let mut taken = HashSet::new();
                let mut fields =
                    vec![(spanned(&self.free_name("tag", &mut taken, |_| false)), DraftClass::unsigned(32))];
                for (at, option) in variant.options.iter().enumerate() {
                    let name = option.name.as_deref().map_or_else(|| format!("option{at}"), str::to_string);
                    let class =
                        DraftClass::sequence(DraftClass::unsigned(8), self.class(option.class)?, Span::default(), "")?;
                    fields.push((spanned(&self.free_name(&name, &mut taken, |_| false)), class));
                }
                DraftClass::structure(fields, false, "")?
            }
        })
    }

    fn integer(&mut self, integer: &IntegerClass) -> Result<DraftType> {
        self.losses.add(Lost::WideNumbers, u64::from(integer.len_bits > 64));
        let size = if integer.is_variable_length() { 64 } else { integer.len_bits.min(64) };
        let int = Int { size, signed: integer.signed, order: WrittenOrder::Native };
        let (low, high) = int.bounds();
        let labels: Vec<(Spanned<String>, i128, i128)> = integer
            .mappings
            .iter()
            .flat_map(|mappings| mappings.iter())
            .flat_map(|mapping| mapping.ranges.iter().map(|range| (spanned(&mapping.label), range.0, range.1)))
            .filter(|(_, from, to)| *from <= high && *to >= low)
            .map(|(label, from, to)| (label, from.max(low), to.min(high)))
            .collect();
        match labels.is_empty() {
            true => Ok(DraftClass::integer(int, None)),
            false => DraftClass::enumeration(int, super::super::types::default_align(size), &labels, ""),
        }
    }

    fn list(&mut self, length: &Length, element: DraftType) -> Result<DraftType> {
        match length {
            Length::Static(len) => DraftClass::array(*len, element, Span::default(), ""),
            _ => DraftClass::sequence(DraftClass::unsigned(32), element, Span::default(), ""),
        }
    }

    /// A name that is an identifier, and that nothing else has.
    fn free_name(&mut self, name: &str, taken: &mut HashSet<String>, is_refused: impl Fn(&str) -> bool) -> String {
        let mut free = identifier(name);
        let is_other = free != name;
        self.losses.add(Lost::OtherNames, u64::from(is_other));
        // `const` means nothing wherever it stands.
        while is_refused(&free) || free == "const" || taken.contains(&free) {
            free.push('_');
        }
        taken.insert(free.clone());
        free
    }

    /// The type of the payload of an event class.
    pub(super) fn payload_type(&self, event: EventClassId) -> Option<&DraftType> {
        self.payloads.get(event.0 as usize)
    }

    /// A value as its type here has it.
    pub(super) fn value(&self, id: FieldClassId, value: Value) -> Value {
        let class = self.schema.field_class(id);
        match (&class.kind, value) {
            (FieldKind::Struct(structure), value @ (Value::Struct(_) | Value::List(_))) => {
                let values = structure.members.iter().zip(value.into_parts());
                Value::List(values.map(|(member, value)| self.value(member.class, value)).collect())
            }
            (FieldKind::Array(array), Value::List(values)) => match self.schema.field_class(array.element).kind {
                FieldKind::Integer(_) | FieldKind::Float(_) => Value::List(values),
                _ => Value::List(values.into_iter().map(|value| self.value(array.element, value)).collect()),
            },
            (FieldKind::Optional(_), Value::Null) => Value::List(Vec::new()),
            (FieldKind::Optional(optional), value) => Value::List(vec![self.value(optional.content, value)]),
            (FieldKind::Variant(variant), Value::Option(chosen, _, value)) => {
                let mut value = Some(*value);
                let mut values = vec![Value::Unsigned(chosen as u64)];
                for (at, option) in variant.options.iter().enumerate() {
                    let inner = if at == chosen { value.take() } else { None };
                    values.push(Value::List(inner.into_iter().map(|value| self.value(option.class, value)).collect()));
                }
                Value::List(values)
            }
            (FieldKind::String(string), Value::Text(bytes)) if string.encoding.unit_bytes() > 1 => {
                // A piece of a unit at the end is no character.
                let whole = bytes.len() - bytes.len() % string.encoding.unit_bytes();
                Value::Text(string.encoding.to_utf8(&bytes[..whole]).into_bytes())
            }
            (_, value) => value,
        }
    }

    /// The payload of an event: the values of its members, `Null` where one is missing.
    pub(super) fn payload_value(&self, event: EventClassId, context: Option<Value>, payload: Option<Value>) -> Value {
        let of = self.schema.event(event);
        let mut values = Vec::new();
        if let Some(root) = of.specific_context {
            values.push(self.value(root, context.unwrap_or(Value::Null)));
        }
        let mut payload = payload.map(Value::into_parts).unwrap_or_default().into_iter();
        for member in self.schema.members(of.payload) {
            let value = payload.next().unwrap_or(Value::Null);
            values.push(match &self.schema.field_class(member.class).kind {
                FieldKind::Optional(_) if self.dialect == Dialect::V16 && value.is_null() => Value::Null,
                FieldKind::Optional(optional) if self.dialect == Dialect::V16 => self.value(optional.content, value),
                _ => self.value(member.class, value),
            });
        }
        Value::List(values)
    }

    /// The value of a root.
    pub(super) fn root_value(&self, scope: Scope, event: EventClassId, value: Value) -> Value {
        match self.schema.scope_root(scope, event) {
            Some(root) => self.value(root, value),
            None => value,
        }
    }

    /// The class of a member of a packet context.
    pub(super) fn context_member(&self, stream: StreamClassId, at: usize) -> Option<FieldClassId> {
        let members = self.schema.members(self.schema.stream(stream).packet_context);
        members.get(at).map(|member| member.class)
    }
}

/// Fields of a packet context of v1.6 that is made here, with the sizes of the numbers.
const CONTEXT: [(&str, u32); 12] = [
    ("content_size", 32),
    ("packet_size", 32),
    ("timestamp_begin", 64),
    ("timestamp_end", 64),
    ("events_discarded", 64),
    ("stream_packet_count", 32),
    ("checksum", 32),
    ("compression_scheme", 8),
    ("encryption_scheme", 8),
    ("checksum_scheme", 8),
    ("stream_packet_count_bits", 8),
    ("cpu_id", 32),
];

fn is_draft(schema: &Schema) -> bool {
    [Dialect::V11, Dialect::V16].iter().any(|dialect| dialect.format() == schema.format)
}

fn is_container(class: &FieldClass) -> bool {
    match &class.kind {
        FieldKind::Struct(_) | FieldKind::Variant(_) => true,
        FieldKind::Optional(optional) => !matches!(optional.presence, Presence::Unmarked(_)),
        _ => false,
    }
}

fn spanned(name: &str) -> Spanned<String> {
    Spanned { value: name.to_string(), span: Span::default() }
}
