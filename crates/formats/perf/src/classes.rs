//! The schema: streams of CPUs, streams of neither, and a class for each event and each other type of record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracemill_format::code::SampleRegisters;
use tracemill_format::mapped::MappedCode;
use tracemill_ftrace::classes::{RecordLayout, SharedFields};
use tracemill_model::schema::{
    ArrayClass, BitsClass, ByteOrder, ClockClass, ClockOrigin, DisplayBase, Encoding, EventClass, EventClassId,
    FieldClass, FieldClassId, FieldKind, FieldOffset, IntegerClass, Length, Member, Render, RenderedClass, Schema,
    StreamClass, StreamClassId, StringClass, StringLength, StructClass,
};

use super::attr::part;
use super::comms::{CommText, Comms};
use super::fields::{FieldSink, Number, RecordForm, RecordParts, SampleParts, record_fields, sample_fields};
use super::file::PerfFile;
use super::maps::{PLACE_BYTES, PlaceText};
use super::records::{self, PerfRecord, kind};

/// Kinds of streams, by what ties their events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum StreamKind {
    /// One CPU.
    Cpu,
    /// Events with a time, and without a CPU.
    Timed,
    /// Events without a time.
    Untimed,
}

/// Contents of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum RecordContent {
    /// A sample of an event, by its number.
    Sample(u32),
    /// A sample of an event that the file does not describe.
    UnknownSample,
    /// Another record, by its type.
    Other(u32),
}

impl RecordContent {
    /// A number by which few contents of a file are alike.
    #[inline]
    pub(crate) fn number(self) -> usize {
        match self {
            RecordContent::Sample(event) => event as usize,
            RecordContent::UnknownSample => 0,
            RecordContent::Other(kind) => kind as usize,
        }
    }
}

/// Properties by which events have a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ClassKey {
    pub(crate) stream: StreamKind,
    pub(crate) content: RecordContent,
    pub(crate) form: RecordForm,
    /// Does it say which thread wrote it?
    pub(crate) has_who: bool,
}

/// A class, and how raw bytes of its samples become its payload.
#[derive(Debug)]
pub(crate) struct PerfClass {
    pub(crate) id: EventClassId,
    pub(crate) name: Arc<str>,
    pub(crate) tracepoint: Option<RecordLayout>,
    /// Where the registers by which stacks are followed are in its samples.
    registers: Option<SampleRegisters>,
}

/// Fields of tracepoints in all classes together.
const MAX_FIELDS: usize = 1 << 18;
/// Types of records below this have their places in a table.
const LISTED: u32 = 96;

/// All classes of a file.
#[derive(Debug, Default)]
pub(crate) struct PerfClasses {
    classes: Vec<PerfClass>,
    /// Numbers of classes by [`PerfClasses::slot`], for the usual keys.
    slots: Vec<u32>,
    /// Numbers of the others.
    others: BTreeMap<ClassKey, u32>,
    pub(crate) streams: BTreeMap<StreamKind, StreamClassId>,
}

impl PerfClasses {
    /// The class of an event.
    #[inline]
    pub(crate) fn find(&self, key: &ClassKey) -> Option<&PerfClass> {
        let number = match self.slot(key) {
            Some(slot) => *self.slots.get(slot)?,
            None => *self.others.get(key)?,
        };
        self.classes.get(number as usize)
    }

    /// Where the registers by which stacks are followed are in the samples of a class.
    pub(crate) fn registers(&self, class: EventClassId) -> Option<SampleRegisters> {
        self.classes.iter().find(|of| of.id == class)?.registers
    }

    /// The place of a key in a table: for every event and every type of records that perf has.
    #[inline]
    fn slot(&self, key: &ClassKey) -> Option<usize> {
        const FORMS: usize = 3 * 2 * 2;
        let content = match key.content {
            RecordContent::Other(kind) if kind < LISTED => kind as usize,
            RecordContent::Other(_) => return None,
            RecordContent::UnknownSample => LISTED as usize,
            RecordContent::Sample(event) => LISTED as usize + 1 + event as usize,
        };
        Some(content * FORMS + key.stream as usize * 4 + key.form as usize * 2 + usize::from(key.has_who))
    }

    fn insert(&mut self, key: ClassKey, class: PerfClass) {
        let number = self.classes.len() as u32;
        self.classes.push(class);
        match self.slot(&key) {
            Some(slot) => {
                if self.slots.len() <= slot {
                    self.slots.resize(slot + 1, u32::MAX);
                }
                self.slots[slot] = number;
            }
            None => {
                self.others.insert(key, number);
            }
        }
    }

    /// Adds stream classes and event classes for all that a file has.
    pub(crate) fn add(
        schema: &mut Schema,
        file: &PerfFile,
        keys: &BTreeSet<ClassKey>,
        comms: &Arc<Comms>,
        maps: &Arc<MappedCode>,
    ) -> PerfClasses {
        let mut classes = PerfClasses::default();
        let kinds: BTreeSet<StreamKind> = keys.iter().map(|key| key.stream).collect();
        let clock = kinds.iter().any(|kind| *kind != StreamKind::Untimed).then(|| schema.add_clock(clock_of(file)));
        for kind in kinds {
            let (id, name) = match kind {
                StreamKind::Cpu => (0, "cpu"),
                StreamKind::Timed => (1, "timed"),
                StreamKind::Untimed => (2, "untimed"),
            };
            let default_clock = clock.filter(|_| kind != StreamKind::Untimed);
            let has_cpu = kind == StreamKind::Cpu;
            let class = StreamClass { id, name: Some(name.into()), default_clock, has_cpu, ..StreamClass::default() };
            if let Some(stream) = schema.add_stream(class) {
                classes.streams.insert(kind, stream);
            }
        }
        let texts = FieldTexts { comm: Arc::new(CommText(comms.clone())), place: Arc::new(PlaceText(maps.clone())) };
        let mut fields_left = MAX_FIELDS;
        for (number, key) in keys.iter().enumerate() {
            let Some(&stream) = classes.streams.get(&key.stream) else { continue };
            let class = EventClass::new(number as u64, stream);
            if let Some(class) = add_class(schema, file, key, class, &texts, &mut fields_left) {
                classes.insert(*key, class);
            }
        }
        classes
    }
}

/// Clocks by their numbers in the kernel.
const CLOCKS: [(i32, &str); 5] =
    [(0, "realtime"), (1, "monotonic"), (4, "monotonic_raw"), (7, "boottime"), (11, "tai")];
const REALTIME: i32 = 0;

fn clock_of(file: &PerfFile) -> ClockClass {
    let id = file.events.iter().find_map(|event| event.attr.clock_id());
    let name = id.map_or("perf".to_string(), |id| {
        CLOCKS.iter().find(|(known, _)| *known == id).map_or_else(|| format!("clock{id}"), |(_, name)| name.to_string())
    });
    let mut clock = ClockClass::nanoseconds(&name);
    match file.clock.filter(|data| Some(data.clock_id) == id) {
        Some(data) => {
            clock.origin = ClockOrigin::Unix;
            clock.offset_cycles = i128::from(data.wall_ns) - i128::from(data.clock_ns);
        }
        None if id == Some(REALTIME) => clock.origin = ClockOrigin::Unix,
        None => {}
    }
    clock
}

fn add_class(
    schema: &mut Schema,
    file: &PerfFile,
    key: &ClassKey,
    mut class: EventClass,
    texts: &FieldTexts,
    fields_left: &mut usize,
) -> Option<PerfClass> {
    let empty = PerfRecord { kind: kind::SAMPLE, misc: 0, at: 0, bytes: &[], extra: &[], order: ByteOrder::Little };
    let mut parts = RecordParts::new(&empty, 0);
    let mut builder = MemberBuilder { schema, members: Vec::new(), at: 0, texts };
    if key.has_who {
        builder.number("pid", Number::I32, 0);
        builder.number("tid", Number::I32, 0);
        builder.comm(0);
    }
    let who = builder.members.len();
    let (mut tracepoint, mut registers) = (None, None);
    let name: Arc<str> = match key.content {
        RecordContent::Sample(at) => {
            let attr = &file.events[at as usize].attr;
            let format = attr.tracepoint().filter(|_| attr.has(part::RAW)).and_then(|id| file.format(id));
            // Without room for its fields a tracepoint is shown as bytes.
            let format = format.filter(|(_, format)| {
                let left = fields_left.checked_sub(format.fields.len() + format.common.len());
                left.inspect(|left| *fields_left = *left).is_some()
            });
            let shows = SampleParts {
                raw: format.is_none(),
                cpu: key.stream != StreamKind::Cpu,
                place_at: (key.has_who && format.is_none()).then_some(0),
            };
            sample_fields(&mut builder, attr, &mut parts, Some(key.form), shows);
            tracepoint = format.map(|(_, format)| format);
            let arch = file.texts.iter().find(|(name, _)| *name == "arch").map(|(_, arch)| arch.as_str());
            registers = attr.sample_registers(arch, file.order);
            file.event_name(at as usize).into()
        }
        RecordContent::UnknownSample => {
            builder.bytes("record", &[]);
            "unknown".into()
        }
        RecordContent::Other(kind) => {
            let attr = file.events.first().map(|event| &event.attr);
            record_fields(&mut builder, attr, (kind, key.form), &mut parts);
            records::name(kind).map_or_else(|| format!("PERF_RECORD_{kind}").into(), Into::into)
        }
    };
    let (mut members, base) = (builder.members, builder.at);
    // The fields of a tracepoint are the payload; all that its sample says beside them is context.
    let payload = match tracepoint {
        Some(format) => {
            let mut shared = SharedFields::new(file.formats.machine.byte_order);
            members.extend(shared.common(schema, format, base));
            shared.payload(schema, format, base)
        }
        None => {
            let payload = members.split_off(who);
            add_struct(schema, payload)
        }
    };
    class.payload = Some(payload);
    if !members.is_empty() {
        class.specific_context = Some(add_struct(schema, members));
    }
    class.name = Some(name.clone());
    let id = schema.add_event(class)?;
    let tracepoint = tracepoint.map(|format| RecordLayout::new(id, name.clone(), format));
    Some(PerfClass { id, name, tracepoint, registers })
}

fn add_struct(schema: &mut Schema, members: Vec<Member>) -> FieldClassId {
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}

/// Texts of fields that records do not hold.
struct FieldTexts {
    comm: Arc<dyn Render>,
    place: Arc<dyn Render>,
}

/// Makes members of fields, which stand one after the other.
struct MemberBuilder<'s> {
    schema: &'s mut Schema,
    members: Vec<Member>,
    at: u32,
    texts: &'s FieldTexts,
}

impl MemberBuilder<'_> {
    fn add(&mut self, name: &'static str, kind: FieldKind, place: FieldOffset, len_bytes: usize) {
        let class = self.schema.add_field_class(FieldClass::new(kind, 8).with_offset(place));
        // Two parts of a record may have one name: the writer, and the one it is about, are in different scopes.
        self.members.push(Member::new(name, class));
        self.at += len_bytes as u32;
    }

    fn fixed(&mut self, name: &'static str, kind: FieldKind, len_bytes: usize) {
        self.add(name, kind, FieldOffset::At { offset_bytes: self.at }, len_bytes);
    }

    fn located(&mut self, name: &'static str, kind: FieldKind) {
        self.add(name, kind, FieldOffset::Located { offset_bytes: self.at }, 8);
    }
}

fn integer(number: Number) -> FieldKind {
    FieldKind::Integer(IntegerClass {
        signed: number == Number::I32,
        base: if number == Number::Address { DisplayBase::Hexadecimal } else { DisplayBase::Decimal },
        ..IntegerClass::unsigned(number.bytes() as u32 * 8)
    })
}

impl FieldSink for MemberBuilder<'_> {
    fn number(&mut self, name: &'static str, number: Number, _value: u64) {
        self.fixed(name, integer(number), number.bytes());
    }

    fn flag(&mut self, name: &'static str, _value: bool) {
        self.fixed(name, FieldKind::Boolean(BitsClass::new(8, ByteOrder::Little)), 1);
    }

    fn text(&mut self, name: &'static str, _value: &[u8]) {
        let length = StringLength::Bytes(Length::Located);
        self.located(name, FieldKind::String(StringClass { encoding: Encoding::Utf8, length }));
    }

    fn numbers(&mut self, name: &'static str, number: Number, _values: impl Iterator<Item = u64>) {
        let element = self.schema.add_field_class(FieldClass::new(integer(number), 8));
        self.located(name, FieldKind::Array(ArrayClass { element, length: Length::Located }));
    }

    fn bytes(&mut self, name: &'static str, _value: &[u8]) {
        let byte = FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(8)), 8);
        let element = self.schema.add_field_class(byte);
        self.located(name, FieldKind::Array(ArrayClass { element, length: Length::Located }));
    }

    fn comm(&mut self, _number: u32) {
        let kind = FieldKind::Rendered(RenderedClass { len_bytes: 4, render: self.texts.comm.clone() });
        self.fixed("comm", kind, 4);
    }

    fn place(&mut self, name: &'static str, _address: u64, _time: u64) {
        let kind =
            FieldKind::Rendered(RenderedClass { len_bytes: PLACE_BYTES as u32, render: self.texts.place.clone() });
        self.fixed(name, kind, PLACE_BYTES);
    }
}
