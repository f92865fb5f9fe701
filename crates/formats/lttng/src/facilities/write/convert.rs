//! Any trace as one of 0.7: event classes become events of facilities, whose definitions are written too.
//!
//! Fields are packed, time has 64 bits, an `int` has 8 bytes so that every enumeration is one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::value::Value;
use tracemill_model::clock::{ClockMap, NS_PER_SECOND};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{
    ByteOrder, ClockClass, ClockOrigin, DisplayBase, FieldClassId, FieldKind, Length, Mapping, Schema, Scope,
};

use super::super::block::TraceHeader;
use super::super::definitions::{
    EventDefinition, FacilityDefinition, FieldDefinition, Integer, Kind, Type, are_possible,
};
use super::super::layout::Sizes;
use super::blocks::{EventOut, TraceFile, head};
use super::concepts;
use super::encode::Form;
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::writer::{ClassKey, count_headers};
use tracemill_semantics::cpu;
use tracemill_semantics::names::CPU;

/// Sizes of the C types of what we write.
const SIZES: Sizes = Sizes { int: 8, long: 8, pointer: 8, size: 8, align: 1 };
/// Length of the header of 0.7.
const HEADER_LEN: usize = 106;
/// Blocks of streams without packets of a usual size end at this.
const BLOCK_BYTES: usize = 1 << 20;

/// A trace that is written.
pub(super) struct Converter {
    folder: OutPath,
    source: Source,
    header: TraceHeader,
    clock: Clock,
    facilities: Vec<Facility>,
    /// By class, and for classes of many ids by name: facility, event.
    known: HashMap<ClassKey, Option<(usize, usize)>>,
    streams: Vec<Stream>,
    names: HashSet<String>,
    block_bytes: usize,
    first: Option<u64>,
    losses: Losses,
}

/// How times become cycles.
enum Clock {
    /// They are those of the source.
    Same,
    /// They are ns; for each stream class the clock, when it has one.
    Ns(HashMap<u32, ClockMap>),
}

struct Facility {
    name: String,
    events: Vec<Event>,
}

struct Event {
    definition: EventDefinition,
    /// Order in which the members of the payload become fields.
    order: Vec<usize>,
    has_contexts: [bool; 2],
}

struct Stream {
    file: Option<TraceFile>,
    packet: Option<Arc<PacketData>>,
    last: u64,
}

impl Converter {
    pub(super) fn new(folder: &OutPath, source: &Source, options: &WriteOptions) -> Converter {
        let mut losses = Losses::default();
        let is_big = options.byte_order.unwrap_or(source.schema.byte_order) == ByteOrder::Big;
        let mut header = TraceHeader {
            is_big,
            arch: if is_big { 7 } else { 8 },
            arch_variant: 0,
            float_word_order: if is_big { 4321 } else { 1234 },
            arch_size: 8,
            minor: 7,
            flight_recorder: false,
            has_heartbeat: false,
            alignment: 0,
            tsc_lsb_truncate: 0,
            tsc_bits: 0,
            freq_scale: 1,
            start_freq: 0,
            start_tsc: 0,
            start_sec: 0,
            start_usec: 0,
            len: HEADER_LEN,
        };
        let clock = clock(source, &mut header, &mut losses);
        count_headers(&mut losses, source, &[CPU], &[CPU]);
        let stream = |_| Stream { file: None, packet: None, last: 0 };
        Converter {
            folder: folder.clone(),
            header,
            clock,
            facilities: Vec::new(),
            known: HashMap::new(),
            streams: source.streams.iter().map(stream).collect(),
            names: HashSet::new(),
            block_bytes: options.packet_bytes.unwrap_or(BLOCK_BYTES).clamp(4096, 16 << 20),
            first: None,
            losses,
            source: source.clone(),
        }
    }

    fn tsc(&mut self, stream: usize, event: EventRef<'_>, is_untimed: bool) -> u64 {
        let out = &mut self.streams[stream];
        if is_untimed {
            self.losses.add(Lost::UntimedEvents, 1);
            return out.last.max(self.header.start_tsc);
        }
        out.last = match &self.clock {
            Clock::Same => event.cycles(),
            Clock::Ns(clocks) => {
                let class = self.source.streams[stream].class;
                match clocks.get(&class.0).map(|clock| u64::try_from(clock.ns(event.cycles()))) {
                    Some(Ok(ns)) => ns,
                    Some(Err(_)) => {
                        self.losses.add(Lost::OutsideTimes, 1);
                        0
                    }
                    None => {
                        self.losses.add(Lost::ClocklessEvents, 1);
                        0
                    }
                }
            }
        };
        out.last
    }

    /// Opens the file of a stream: its name says channel and CPU.
    fn open_file(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        if self.streams[stream].file.is_some() {
            return Ok(());
        }
        let cpu = cpu(&event.chunk.packet);
        let own: String = self.source.streams[stream].origin_name.chars().map(plain).collect();
        let digits = own.rsplit_once('_').is_some_and(|(_, digits)| {
            digits.parse::<u32>().is_ok_and(|number| cpu.is_none_or(|cpu| cpu == number.into()))
        });
        let base = if digits { own.clone() } else { format!("{}_{}", own.trim_end_matches(".xml"), cpu.unwrap_or(0)) };
        let mut name = base.clone();
        let mut number = 0;
        while matches!(name.as_str(), "control" | "eventdefs" | "info") || !self.names.insert(name.clone()) {
            number += 1;
            // The CPU stands behind the last `_`.
            let (channel, cpu) = base.rsplit_once('_').unwrap_or((&base, "0"));
            name = format!("{channel}-{number}_{cpu}");
        }
        self.streams[stream].file = Some(TraceFile::new(self.folder.join(name), self.header.clone(), None));
        Ok(())
    }

    /// Facility and event of a class, made when it is met first.
    fn place(&mut self, schema: &Schema, event: EventRef<'_>) -> Option<(usize, usize)> {
        let key = ClassKey::of(0, event);
        if let Some(place) = self.known.get(&key) {
            return *place;
        }
        let of = schema.event(event.class());
        let name = key.name(schema).into_owned();
        let members = schema.members(of.payload);
        let has = |name: &str| members.iter().any(|member| &*member.name == name);
        let is_markers = schema.format == "lttng-legacy";
        let concept = concepts::find(&name, has).filter(|_| !is_markers);
        let (facility, event) = match &concept {
            Some(concept) => (concept.facility.to_string(), concept.event.to_string()),
            None => split(&name),
        };
        // Fields of the concept first, in the order that the facility has; all others behind them.
        let mut order: Vec<usize> = Vec::new();
        let renamed: &[(&str, &str)] = concept.as_ref().map_or(&[], |concept| &concept.fields);
        let place_of = |name: &str| members.iter().position(|member| &*member.name == name);
        order.extend(renamed.iter().filter_map(|(name, _)| place_of(name)));
        let rest: Vec<usize> = (0..members.len()).filter(|at| !order.contains(at)).collect();
        order.extend(rest);
        let mut fields = Vec::with_capacity(order.len() + 2);
        for &at in &order {
            let own = &*members[at].name;
            let name = renamed.iter().find(|(from, _)| *from == own).map_or(own, |(_, to)| to);
            fields.push(self.field(schema, name, members[at].class, 0));
        }
        let stream = schema.stream(of.stream);
        let contexts = [("stream_context", stream.common_context), ("event_context", of.specific_context)];
        let has_contexts = contexts.map(|(_, root)| root.is_some());
        for (name, root) in contexts {
            fields.extend(root.map(|root| self.field(schema, name, root, 0)));
        }
        let definition = EventDefinition { name: event, description: None, fields, has_compact_data: false };
        let place = self.add(&facility, &name, Event { definition, order, has_contexts });
        self.known.insert(key, place);
        place
    }

    /// Gives an event to a facility of a name. What the definitions cannot say loses its fields.
    fn add(&mut self, facility: &str, full: &str, mut event: Event) -> Option<(usize, usize)> {
        let is_it = |known: &Facility, name: &str| known.name == name && known.events.len() < 256;
        let has_room =
            |known: &Facility| !known.events.iter().any(|known| known.definition.name == event.definition.name);
        let mut name = facility.to_string();
        let mut number = 1;
        // A full facility goes on in another one, and so do events of one name.
        let at = loop {
            if let Some(at) = self.facilities.iter().position(|known| is_it(known, &name) && has_room(known)) {
                break at;
            }
            if !self.facilities.iter().any(|known| known.name == name) && name != "core" {
                if self.facilities.len() >= 255 {
                    return None;
                }
                self.facilities.push(Facility { name: name.clone(), events: Vec::new() });
                break self.facilities.len() - 1;
            }
            number += 1;
            name = format!("{facility}_{number}");
        };
        if format!("{name}.{}", event.definition.name) != full {
            event.definition.description = Some(full.chars().map(plain_text).collect());
        }
        if !are_possible(&event.definition.fields) {
            self.losses.add(Lost::UndefinedFields, 1);
            event.definition.fields.clear();
            event.order.clear();
            event.has_contexts = [false; 2];
        }
        self.facilities[at].events.push(event);
        Some((at, self.facilities[at].events.len() - 1))
    }

    fn field(&mut self, schema: &Schema, name: &str, class: FieldClassId, depth: u32) -> FieldDefinition {
        let shown: String = name.chars().map(plain_text).collect();
        if shown != name {
            self.losses.add(Lost::NameCharacters, 1);
        }
        let name = if shown.is_empty() { "_".into() } else { shown.into() };
        FieldDefinition { name, class: self.class(schema, class, depth) }
    }

    fn class(&mut self, schema: &Schema, class: FieldClassId, depth: u32) -> Arc<Type> {
        let hexadecimal = || Some("%#llx".to_string());
        let kind = match &schema.field_class(class).kind {
            _ if depth > 24 => {
                self.losses.add(Lost::DeepFields, 1);
                Kind::Struct(Vec::new())
            }
            FieldKind::Integer(integer) if integer.len_bits > 64 => {
                self.losses.add(Lost::WideIntegers, 1);
                Kind::String
            }
            FieldKind::Integer(integer) => {
                let bits = if integer.len_bits == 0 { 64 } else { integer.len_bits };
                if let Some(mappings) = &integer.mappings {
                    if integer.signed || bits < 64 {
                        return Arc::new(Type::new(Kind::Enumeration(self.labels(mappings)), None));
                    }
                    self.losses.add(Lost::UnsignedLabels, 1);
                }
                let format = match integer.base {
                    DisplayBase::Hexadecimal => hexadecimal(),
                    DisplayBase::Octal => Some("%#llo".to_string()),
                    _ => None,
                };
                let bytes = (bits.next_power_of_two().max(8) / 8) as u8;
                return Arc::new(Type::new(Kind::Integer(Integer::Fixed(bytes, integer.signed)), format));
            }
            FieldKind::BitArray(_) => {
                return Arc::new(Type::new(Kind::Integer(Integer::Fixed(8, false)), hexadecimal()));
            }
            FieldKind::BitMap(_) => {
                self.losses.add(Lost::BitFlags, 1);
                return Arc::new(Type::new(Kind::Integer(Integer::Fixed(8, false)), hexadecimal()));
            }
            FieldKind::Boolean(_) => {
                self.losses.add(Lost::Booleans, 1);
                Kind::Integer(Integer::Fixed(1, false))
            }
            FieldKind::Float(float) => {
                self.losses.add(Lost::WideFloats, (float.len_bits > 64).into());
                Kind::Float(if float.len_bits == 32 { 4 } else { 8 })
            }
            FieldKind::String(_) | FieldKind::Rendered(_) => Kind::String,
            FieldKind::Blob(_) => {
                self.losses.add(Lost::MediaTypes, 1);
                sequence(byte())
            }
            FieldKind::Struct(structure) => {
                let members = structure.members.iter();
                Kind::Struct(members.map(|member| self.field(schema, &member.name, member.class, depth + 1)).collect())
            }
            FieldKind::Array(array) => {
                let element = self.element(schema, array.element, depth);
                match array.length {
                    Length::Static(len) if len > 0 => Kind::Array(len, element),
                    _ => sequence(element),
                }
            }
            FieldKind::Optional(optional) => {
                self.losses.add(Lost::Optionals, 1);
                sequence(self.element(schema, optional.content, depth))
            }
            FieldKind::Variant(variant) => {
                self.losses.add(Lost::Variants, 1);
                let options = variant.options.iter().enumerate().map(|(at, option)| {
                    let name = option.name.as_deref().map_or_else(|| at.to_string(), str::to_string);
                    let class = sequence(self.element(schema, option.class, depth));
                    let name: String = name.chars().map(plain_text).collect();
                    FieldDefinition { name: name.into(), class: Arc::new(Type::new(class, None)) }
                });
                Kind::Struct(options.collect())
            }
        };
        Arc::new(Type::new(kind, None))
    }

    /// The type of elements. Those without bytes are refused by the language: they are counted by a byte each.
    fn element(&mut self, schema: &Schema, class: FieldClassId, depth: u32) -> Arc<Type> {
        let element = self.class(schema, class, depth + 1);
        if is_empty(schema, class) { byte() } else { element }
    }

    fn labels(&mut self, mappings: &[Mapping]) -> Arc<[Mapping]> {
        let mut labels = Vec::new();
        for mapping in mappings {
            let label: Arc<str> = mapping.label.chars().map(plain_text).collect::<String>().into();
            for &(low, high) in &mapping.ranges {
                if high.saturating_sub(low) >= 64 || label.is_empty() {
                    self.losses.add(Lost::RangeLabels, 1);
                    continue;
                }
                labels.extend((low..=high).map(|value| Mapping { label: label.clone(), ranges: vec![(value, value)] }));
            }
        }
        labels.into()
    }
}

/// Elements behind their number.
fn sequence(element: Arc<Type>) -> Kind {
    Kind::Sequence(Arc::new(Type::new(Kind::Integer(Integer::Fixed(4, false)), None)), element)
}

fn byte() -> Arc<Type> {
    Arc::new(Type::new(Kind::Integer(Integer::UChar), None))
}

impl TraceWriter for Converter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let fault = |fault: tracemill_codec::plan::Fault| Error::malformed(format!("{fault:?}"));
        let schema = self.source.schema.clone();
        let class = schema.event(event.class());
        let Some((facility, number)) = self.place(&schema, event) else {
            self.losses.add(Lost::MoreEventClasses, 1);
            return Ok(());
        };
        let tsc = self.tsc(stream, event, class.is_untimed);
        let of = &self.facilities[facility].events[number];
        let plans = &event.chunk.packet.plans;
        let mut cut = 0;
        let mut shown = |scope: Scope| -> Result<Option<Value>> {
            let mut value = event.values(scope).map_err(fault)?;
            let root = plans.schema().scope_root(scope, event.class());
            if let (Some(root), Some(value)) = (root, &mut value) {
                in_utf8(plans.schema(), root, value, &mut cut);
            }
            Ok(value)
        };
        let mut values = match shown(Scope::Payload)? {
            Some(Value::Struct(members)) => members.into_iter().map(|(_, value)| value).collect(),
            Some(Value::List(values)) => values,
            _ => Vec::new(),
        };
        let mut ordered: Vec<Value> = Vec::with_capacity(values.len() + 2);
        ordered.extend(of.order.iter().map(|&at| values.get_mut(at).map_or(Value::Null, std::mem::take)));
        for (scope, has) in [Scope::CommonContext, Scope::SpecificContext].into_iter().zip(of.has_contexts) {
            if has {
                ordered.push(shown(scope)?.unwrap_or(Value::Null));
            }
        }
        self.losses.add(Lost::TruncatedTexts, cut);
        let is_big = self.header.is_big;
        let form = Form { sizes: SIZES, is_big, floats_are_big: is_big };
        let mut data = Vec::new();
        let mut absent = 0;
        let fields = of.definition.fields.iter().zip(ordered);
        let ordered: Vec<Value> = fields.map(|(field, value)| shape(&field.class.kind, value, &mut absent)).collect();
        // Nothing is absent now.
        let _ = form.fields(&of.definition.fields, &ordered, &mut data);
        self.losses.add(Lost::AbsentFields, absent);
        self.first = Some(self.first.map_or(tsc, |first| first.min(tsc)));
        self.open_file(stream, event)?;
        let (header, block_bytes) = (&self.header, self.block_bytes);
        let out = &mut self.streams[stream];
        let packet = &event.chunk.packet;
        let is_new = !out.packet.as_ref().is_some_and(|known| Arc::ptr_eq(known, packet));
        let Some(file) = &mut out.file else { return Ok(()) };
        if is_new || file.block_bytes() > block_bytes {
            out.packet = Some(packet.clone());
            file.begin(&head(header, tsc, header.start_freq), None, 0)?;
        }
        // Ids are given from 1 on.
        file.event(&EventOut {
            tsc,
            facility: (facility + 1) as u8,
            event: number as u8,
            data: &data,
            packed: 0,
            sets_clock: false,
        })
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.losses.add_gap(gap);
        Ok(())
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        self.streams.get_mut(stream).and_then(|stream| stream.file.as_mut()).map_or(Ok(()), TraceFile::finish)
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for stream in 0..self.streams.len() {
            self.end_stream(stream)?;
        }
        let is_big = self.header.is_big;
        let begin = self.first.unwrap_or(self.header.start_tsc);
        let mut control = TraceFile::new(self.folder.join("control/facilities_0"), self.header.clone(), None);
        control.begin(&head(&self.header, begin, self.header.start_freq), None, 4096)?;
        for (at, facility) in self.facilities.into_iter().enumerate() {
            let events = facility.events.into_iter().map(|event| event.definition);
            let facility = FacilityDefinition::new(facility.name, events.collect());
            let path = self.folder.join("eventdefs").join(format!("{}.xml", file_name(&facility.name)));
            path.make_folders_around()?;
            path.write("write the definitions", facility.to_string())?;
            let mut data = facility.name.as_bytes().to_vec();
            data.push(0);
            for word in [facility.checksum, at as u32 + 1, 8, 8, 8, 8, 0] {
                super::encode::put(word.into(), 4, is_big, &mut data);
            }
            let load = EventOut { tsc: begin, facility: 0, event: 0, data: &data, packed: 0, sets_clock: false };
            control.event(&load)?;
        }
        control.finish()?;
        self.folder.join("eventdefs").make_folder()?;
        let files = self.streams.iter().filter_map(|stream| stream.file.as_ref());
        files.chain([&control]).try_for_each(TraceFile::check)?;
        Ok(self.losses)
    }
}

/// A value as the type of its field has it; counts fields that are absent where the type has no place for that.
fn shape(kind: &Kind, value: Value, absent: &mut u64) -> Value {
    match (kind, value) {
        (Kind::Sequence(..), Value::Null) => Value::List(Vec::new()),
        (kind, Value::Null) => {
            *absent += 1;
            nothing(kind)
        }
        (Kind::Sequence(..), Value::Blob(bytes)) => {
            Value::List(bytes.into_iter().map(|byte| Value::Unsigned(byte.into())).collect())
        }
        (Kind::Sequence(_, element) | Kind::Array(_, element), Value::List(values)) => {
            Value::List(values.into_iter().map(|value| shape(&element.kind, value, absent)).collect())
        }
        (Kind::Sequence(_, element), value) => Value::List(vec![shape(&element.kind, value, absent)]),
        (Kind::Struct(fields), Value::Option(chosen, _, value)) => {
            let mut value = Some(*value);
            let option = |(at, field): (usize, &FieldDefinition)| {
                let own = (at == chosen).then(|| value.take()).flatten();
                let element = if let Kind::Sequence(_, element) = &field.class.kind { Some(element) } else { None };
                let values = own.zip(element).map(|(value, element)| vec![shape(&element.kind, value, absent)]);
                (field.name.clone(), Value::List(values.unwrap_or_default()))
            };
            Value::Struct(fields.iter().enumerate().map(option).collect())
        }
        (Kind::Struct(fields), Value::Struct(members)) => {
            let members = fields.iter().zip(members);
            let member =
                |(field, (name, value)): (&FieldDefinition, _)| (name, shape(&field.class.kind, value, absent));
            Value::Struct(members.map(member).collect())
        }
        (Kind::Struct(fields), Value::List(values)) => {
            let member = |(field, value): (&FieldDefinition, Value)| {
                (field.name.clone(), shape(&field.class.kind, value, absent))
            };
            Value::Struct(fields.iter().zip(values).map(member).collect())
        }
        // An optional field that has the place of a plain one.
        (Kind::Integer(_) | Kind::Enumeration(_) | Kind::Float(_) | Kind::String, Value::List(mut values)) => {
            shape(kind, values.pop().unwrap_or_default(), absent)
        }
        (Kind::String, Value::Wide(value)) => {
            Value::Text(value.to_i128().map_or("?".into(), |value| value.to_string()).into())
        }
        (_, value) => value,
    }
}

/// Brings texts to UTF-8, counts those with a zero inside, and makes lists of optional fields.
fn in_utf8(schema: &Schema, class: FieldClassId, value: &mut Value, cut: &mut u64) {
    match (&schema.field_class(class).kind, value) {
        (FieldKind::String(string), Value::Text(bytes)) => {
            if string.encoding.unit_bytes() > 1 {
                *bytes = string.encoding.to_utf8(bytes).into_bytes();
            }
            *cut += u64::from(bytes.contains(&0));
        }
        (FieldKind::Rendered(_), Value::Text(bytes)) => *cut += u64::from(bytes.contains(&0)),
        (FieldKind::Optional(optional), value) => {
            // As many elements as there are fields: an array that is there is one of them.
            let content = match std::mem::take(value) {
                Value::Null => Vec::new(),
                mut content => {
                    in_utf8(schema, optional.content, &mut content, cut);
                    vec![content]
                }
            };
            *value = Value::List(content);
        }
        (FieldKind::Struct(structure), Value::Struct(members)) => {
            for (member, (_, value)) in structure.members.iter().zip(members) {
                in_utf8(schema, member.class, value, cut);
            }
        }
        (FieldKind::Struct(structure), Value::List(values)) => {
            for (member, value) in structure.members.iter().zip(values) {
                in_utf8(schema, member.class, value, cut);
            }
        }
        (FieldKind::Array(array), Value::List(values)) => {
            values.iter_mut().for_each(|value| in_utf8(schema, array.element, value, cut));
        }
        (FieldKind::Variant(variant), Value::Option(at, _, value)) => {
            if let Some(option) = variant.options.get(*at) {
                in_utf8(schema, option.class, value, cut);
            }
        }
        _ => {}
    }
}

/// What stands for a field that is absent.
fn nothing(kind: &Kind) -> Value {
    match kind {
        Kind::Integer(_) | Kind::Enumeration(_) => Value::Unsigned(0),
        Kind::Float(_) => Value::Real(0.0),
        Kind::String => Value::Text(Vec::new()),
        Kind::Sequence(..) => Value::List(Vec::new()),
        Kind::Array(len, element) => Value::List((0..*len).map(|_| nothing(&element.kind)).collect()),
        Kind::Struct(fields) | Kind::Union(fields) => {
            Value::Struct(fields.iter().map(|field| (field.name.clone(), nothing(&field.class.kind))).collect())
        }
    }
}

/// Do values of a class take no bytes?
fn is_empty(schema: &Schema, class: FieldClassId) -> bool {
    match &schema.field_class(class).kind {
        FieldKind::Struct(structure) => structure.members.iter().all(|member| is_empty(schema, member.class)),
        _ => false,
    }
}

/// Facility and event of a name: at its first `:` or `.`, else at its first `_`.
fn split(name: &str) -> (String, String) {
    let at = name.find([':', '.']).or_else(|| name.get(1..).and_then(|rest| rest.find('_')).map(|at| at + 1));
    let (facility, event) = match at {
        Some(at) if at > 0 && at + 1 < name.len() => (&name[..at], &name[at + 1..]),
        _ => ("user", name),
    };
    let word = |text: &str| -> String {
        let text: String = text.chars().map(plain_text).collect();
        if text.is_empty() { "_".into() } else { text }
    };
    (word(facility), word(event))
}

/// Characters that may stand in a name or a description.
fn plain_text(one: char) -> char {
    if matches!(one, '"' | '<' | '>' | '\\' | '&') || one.is_control() { '_' } else { one }
}

/// Characters that may stand in the name of a file.
fn plain(one: char) -> char {
    if matches!(one, '/' | '\\') || one.is_control() { '_' } else { one }
}

fn file_name(name: &str) -> String {
    let name: String = name.chars().map(plain).collect();
    name.trim_start_matches('.').chars().take(100).collect()
}

/// The clock of the trace: that of its streams when they have one and the format can hold it, else one of ns.
fn clock(source: &Source, header: &mut TraceHeader, losses: &mut Losses) -> Clock {
    let schema = &source.schema;
    let mut clocks: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    for stream in &source.streams {
        clocks.insert(stream.class.0, schema.stream(stream.class).default_clock.map(|clock| clock.0));
    }
    let of = |stream: &tracemill_format::target::SourceStream| schema.stream(stream.class).default_clock;
    let first = source.streams.first().and_then(of);
    let is_one = source.streams.iter().all(|stream| of(stream) == first);
    if let (Some(id), true) = (first, is_one) {
        let clock = schema.clock(id);
        if source.drift.is_none() && same_clock(clock, source.correction_ns, header) {
            return Clock::Same;
        }
    }
    losses.add(Lost::StartCycles, 1);
    (header.start_freq, header.freq_scale) = (1_000_000, 1000);
    let mut maps = HashMap::new();
    let mut is_unix = false;
    for stream in &source.streams {
        let Some(clock) = of(stream).map(|id| schema.clock(id)).filter(|clock| clock.frequency > 0) else { continue };
        is_unix |= clock.origin == ClockOrigin::Unix;
        maps.insert(stream.class.0, source.clock_map(clock));
    }
    if is_unix {
        // Cycles are ns since the epoch; a start of one second keeps the origin.
        (header.start_sec, header.start_tsc) = (1, 1_000_000_000);
    }
    Clock::Ns(maps)
}

/// Sets the start of a trace so that its cycles are those of a clock; false when that cannot be.
fn same_clock(clock: &ClockClass, correction_ns: i64, header: &mut TraceHeader) -> bool {
    if clock.seconds > 1 || clock.has_made_cycles || matches!(clock.origin, ClockOrigin::Custom { .. }) {
        return false;
    }
    if clock.frequency == 0 {
        return true;
    }
    let (freq, scale) = match clock.frequency % 1000 {
        0 => (clock.frequency / 1000, 1000),
        _ => (clock.frequency, 1),
    };
    let mut ns =
        i128::from(clock.offset_seconds) * NS_PER_SECOND + i128::from(clock.offset_ns) + i128::from(correction_ns);
    let mut start = -clock.offset_cycles;
    if clock.origin == ClockOrigin::Unknown {
        (header.start_freq, header.freq_scale) = (freq, scale);
        return ns == 0 && start == 0;
    }
    let frequency = i128::from(clock.frequency);
    if start < 0 {
        let seconds = (-start).div_euclid(frequency) + i128::from((-start).rem_euclid(frequency) != 0);
        start += seconds * frequency;
        ns += seconds * NS_PER_SECOND;
    }
    // Clocks of ns can move by some to a whole microsecond.
    if clock.frequency == NS_PER_SECOND as u64 {
        let step = (1000 - ns.rem_euclid(1000)) % 1000;
        (start, ns) = (start + step, ns + step);
    }
    let (Ok(tsc), true) = (u64::try_from(start), ns > 0 && ns % 1000 == 0) else { return false };
    let Ok(seconds) = i64::try_from(ns / NS_PER_SECOND) else { return false };
    (header.start_freq, header.freq_scale, header.start_tsc) = (freq, scale, tsc);
    (header.start_sec, header.start_usec) = (seconds as u64, (ns % NS_PER_SECOND / 1000) as u64);
    true
}
