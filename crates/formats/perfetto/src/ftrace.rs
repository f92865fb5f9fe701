//! Events of the Linux kernel: bundles of the events of a CPU (`SPEC.md`, section 6).

use std::collections::HashMap;

use tracemill_codec::spine::Spine;
use tracemill_codec::text::marks::{mix, mix_bytes};
use tracemill_format::perfetto::messages::message_at;
use tracemill_format::perfetto::{FieldType, MessageType, WireFields, WireValue, message};
use tracemill_model::schema::{
    ClockId, EventClass, EventClassId, FieldClass, FieldClassId, FieldKind, Member, Schema, StreamClass, StreamClassId,
    StructClass,
};

use super::event_field::{EventFieldType, FieldTypes, WireSlot, put_text, put_value};

/// Classes of events; events of others are skipped, and reported.
const MAX_CLASSES: usize = 1 << 14;
/// Fields of a class; others are left out, and reported.
const MAX_FIELDS: usize = 256;

/// Messages that say themselves what they are called.
const GENERIC: u32 = 327;
/// Messages of the compact form.
const SWITCH: u32 = 4;
const WAKING: u32 = 20;
/// Numbers of events that a trace describes itself.
const FIRST_DESCRIBED: u32 = 65_536;

/// A field of the events of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
struct EventField {
    /// Its number in the message, or its place among the fields of a generic event.
    number: u32,
    name: String,
    of: EventFieldType,
}

/// Properties by which events have a class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct FtraceKey {
    number: u32,
    /// Mark of the name and the fields of a generic event; 1 for the compact form.
    variant: u64,
}

/// A class of events. It has the fields that any of its events has.
#[derive(Debug)]
struct FtraceClass {
    name: String,
    fields: Vec<EventField>,
    id: EventClassId,
}

/// A message that a trace describes itself.
#[derive(Clone, Debug, Default)]
struct DescribedMessage {
    name: String,
    /// Numbers, names and types.
    fields: Vec<(u32, String, EventFieldType)>,
}

/// The classes of events of the kernel.
#[derive(Debug, Default)]
pub(crate) struct FtraceClasses {
    classes: Vec<FtraceClass>,
    by_key: HashMap<FtraceKey, usize>,
    /// Numbers of classes of messages, and one, for the usual ones.
    by_number: Vec<u32>,
    described: HashMap<u32, DescribedMessage>,
    pub(crate) has_flags: bool,
    /// Events of messages that nothing describes, by number.
    pub(crate) unknown: HashMap<u32, u64>,
}

/// An event of a bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FtraceEvent<'a> {
    pub(crate) time: u64,
    pid: i32,
    flags: u32,
    body: EventBody<'a>,
}

/// The message of an event.
#[derive(Clone, Copy, Debug)]
enum EventBody<'a> {
    Message(u32, &'a [u8]),
    /// A switch of the compact form: state, thread, priority, name.
    Switch(i64, i32, i32, &'a [u8]),
    /// A wake-up of the compact form: thread, CPU, priority, name.
    Waking(i32, i32, i32, &'a [u8]),
}

/// The head of a bundle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BundleHead {
    pub(crate) cpu: u32,
    pub(crate) has_lost_events: bool,
    /// The number of its clock.
    pub(crate) clock: u64,
    /// Its clock and that of the trace at one time.
    pub(crate) ftrace_ns: u64,
    pub(crate) boot_ns: u64,
    /// Faults that the recorder met when it took the events over.
    pub(crate) errors: u64,
    pub(crate) broken_page: bool,
}

impl BundleHead {
    pub(crate) fn read(bundle: &[u8]) -> BundleHead {
        let mut head = BundleHead::default();
        for (number, value) in WireFields::new(bundle) {
            match number {
                1 => head.cpu = value.number() as u32,
                3 => head.has_lost_events = value.number() != 0,
                5 => head.clock = value.number(),
                6 => head.ftrace_ns = value.number(),
                7 => head.boot_ns = value.number(),
                8 => head.errors += 1,
                512 => head.broken_page = true,
                _ => {}
            }
        }
        head
    }
}

/// The columns of the compact form.
#[derive(Default)]
struct CompactSched<'a> {
    names: Vec<&'a [u8]>,
    switches: [Vec<u64>; 5],
    wakings: [Vec<u64>; 6],
}

impl<'a> CompactSched<'a> {
    fn read(content: &'a [u8]) -> CompactSched<'a> {
        let mut own = CompactSched::default();
        for (number, value) in WireFields::new(content) {
            let column = match number {
                5 => {
                    own.names.push(value.bytes());
                    continue;
                }
                1..=4 => &mut own.switches[number as usize - 1],
                6 => &mut own.switches[4],
                7..=12 => &mut own.wakings[number as usize - 7],
                _ => continue,
            };
            value.each_varint(|value| column.push(value));
        }
        own
    }

    fn name(&self, at: u64) -> &'a [u8] {
        usize::try_from(at).ok().and_then(|at| self.names.get(at)).copied().unwrap_or_default()
    }
}

/// Does each column have a value for each time?
fn is_whole(columns: &[Vec<u64>], needed: usize) -> bool {
    columns[..needed].iter().all(|column| column.len() == columns[0].len())
}

/// Gives the events of a bundle, in the order of the file; those of the compact form in the order of time, first.
/// `running` is the thread that its CPU runs, when it is known.
///
/// # Errors
/// The number of events of the compact form whose columns do not fit together.
pub(crate) fn each_event<'a>(
    bundle: &'a [u8],
    running: &mut i32,
    mut each: impl FnMut(FtraceEvent<'a>),
) -> Result<(), usize> {
    let mut misfits = 0;
    for (number, value) in WireFields::new(bundle) {
        if number == 4 {
            misfits += compact_events(&CompactSched::read(value.bytes()), running, &mut each);
        }
    }
    for (number, value) in WireFields::new(bundle) {
        let (2, WireValue::Bytes(content)) = (number, value) else { continue };
        let mut event = FtraceEvent { time: 0, pid: 0, flags: 0, body: EventBody::Message(0, &[]) };
        for (number, value) in WireFields::new(content) {
            match (number, value) {
                (1, value) => event.time = value.number(),
                (2, value) => event.pid = value.number() as i32,
                (5, WireValue::Varint(flags)) => event.flags = flags as u32,
                (number, WireValue::Bytes(message)) => event.body = EventBody::Message(number, message),
                _ => {}
            }
        }
        each(event);
    }
    if misfits == 0 { Ok(()) } else { Err(misfits) }
}

/// The events of the compact form, in the order of time.
fn compact_events<'a>(compact: &CompactSched<'a>, running: &mut i32, each: &mut impl FnMut(FtraceEvent<'a>)) -> usize {
    let (switches, wakings) = (&compact.switches, &compact.wakings);
    // The flags of wake-ups came late.
    let has_flags = wakings[5].len() == wakings[0].len();
    let counts = [(is_whole(switches, 5), switches[0].len()), (is_whole(wakings, 5), wakings[0].len())];
    let misfits = counts.iter().filter(|(is_whole, _)| !is_whole).map(|(_, count)| (*count).max(1)).sum();
    let count = |(is_whole, count): (bool, usize)| if is_whole { count } else { 0 };
    let (switch_count, waking_count) = (count(counts[0]), count(counts[1]));
    let (mut switch, mut waking) = (0, 0);
    let first = |column: &[u64]| column.first().copied().unwrap_or_default();
    let (mut switch_time, mut waking_time) = (first(&switches[0]), first(&wakings[0]));
    while switch < switch_count || waking < waking_count {
        if waking >= waking_count || switch < switch_count && switch_time <= waking_time {
            let [_, states, pids, prios, names] = switches;
            let body = EventBody::Switch(
                states[switch] as i64,
                pids[switch] as i32,
                prios[switch] as i32,
                compact.name(names[switch]),
            );
            each(FtraceEvent { time: switch_time, pid: *running, flags: 0, body });
            *running = pids[switch] as i32;
            switch += 1;
            switch_time = switch_time.wrapping_add(switches[0].get(switch).copied().unwrap_or_default());
        } else {
            let [_, pids, cpus, prios, names, flags] = wakings;
            let body = EventBody::Waking(
                pids[waking] as i32,
                cpus[waking] as i32,
                prios[waking] as i32,
                compact.name(names[waking]),
            );
            let flags = if has_flags { flags[waking] as u32 } else { 0 };
            each(FtraceEvent { time: waking_time, pid: *running, flags, body });
            waking += 1;
            waking_time = waking_time.wrapping_add(wakings[0].get(waking).copied().unwrap_or_default());
        }
    }
    misfits
}

/// The fields of the compact form.
const COMPACT_SWITCH: [(&str, EventFieldType); 4] = [
    ("prev_state", EventFieldType::I64),
    ("next_comm", EventFieldType::Text),
    ("next_pid", EventFieldType::I32),
    ("next_prio", EventFieldType::I32),
];
const COMPACT_WAKING: [(&str, EventFieldType); 4] = [
    ("comm", EventFieldType::Text),
    ("pid", EventFieldType::I32),
    ("prio", EventFieldType::I32),
    ("target_cpu", EventFieldType::I32),
];

/// A field of a generic event: its name, type and value.
fn generic_fields(content: &[u8]) -> impl Iterator<Item = (&[u8], EventFieldType, WireValue<'_>)> {
    WireFields::new(content).filter(|(number, _)| *number == 2).filter_map(|(_, field)| {
        let (mut name, mut of) = (&[][..], None);
        for (number, value) in WireFields::new(field.bytes()) {
            match number {
                1 => name = value.bytes(),
                3 => of = Some((EventFieldType::Text, value)),
                4 => of = Some((EventFieldType::I64, value)),
                5 => of = Some((EventFieldType::U64, value)),
                _ => {}
            }
        }
        let (of, value) = of?;
        Some((name, of, value))
    })
}

fn generic_name(content: &[u8]) -> &[u8] {
    WireFields::new(content).find(|(number, _)| *number == 1).map_or(&[], |(_, value)| value.bytes())
}

/// The type of the message of an event.
fn message_of(number: u32) -> Option<(&'static str, &'static MessageType)> {
    let field = message("FtraceEvent")?.field(number)?;
    let FieldType::Message(number) = field.of else { return None };
    Some((field.name, message_at(number)?))
}

fn key_of(body: &EventBody<'_>) -> FtraceKey {
    match body {
        EventBody::Switch(..) => FtraceKey { number: SWITCH, variant: 1 },
        EventBody::Waking(..) => FtraceKey { number: WAKING, variant: 1 },
        EventBody::Message(GENERIC, content) => {
            let mark = mix_bytes(2, generic_name(content));
            let variant = generic_fields(content).fold(mark, |mark, (name, of, _)| {
                mix(
                    mix_bytes(mark, name),
                    u64::from(of == EventFieldType::Text) << 1 | u64::from(of == EventFieldType::I64),
                )
            });
            FtraceKey { number: GENERIC, variant }
        }
        EventBody::Message(number, _) => FtraceKey { number: *number, variant: 0 },
    }
}

impl FtraceClasses {
    /// Takes in the descriptions of messages that a bundle has.
    pub(crate) fn describe(&mut self, bundle: &[u8]) {
        for (number, value) in WireFields::new(bundle) {
            let (11, WireValue::Bytes(content)) = (number, value) else { continue };
            let (mut field, mut own) = (0, DescribedMessage::default());
            for (number, value) in WireFields::new(content) {
                match (number, value) {
                    (1, value) => field = value.number() as u32,
                    (2, WireValue::Bytes(descriptor)) => own = read_descriptor(descriptor),
                    _ => {}
                }
            }
            if field >= FIRST_DESCRIBED && self.described.len() < MAX_CLASSES {
                self.described.insert(field, own);
            }
        }
    }

    #[inline]
    fn number(&self, key: FtraceKey) -> Option<usize> {
        if key.variant == 0 && key.number < FIRST_DESCRIBED {
            return (*self.by_number.get(key.number as usize)? as usize).checked_sub(1);
        }
        self.by_key.get(&key).copied()
    }

    /// Takes in an event; false when there are too many classes.
    pub(crate) fn take_in(&mut self, event: &FtraceEvent<'_>) -> bool {
        self.has_flags |= event.flags != 0;
        let key = key_of(&event.body);
        let number = match self.number(key) {
            Some(number) => number,
            None => match self.new_class(key, &event.body) {
                Some(number) => number,
                None => return false,
            },
        };
        let EventBody::Message(of, content) = event.body else { return true };
        if of == GENERIC {
            return true;
        }
        // Most events have the fields of those before them.
        let class = &mut self.classes[number];
        let mut is_known = true;
        for (field, _) in WireFields::new(content) {
            is_known &= class.fields.iter().any(|own| own.number == field);
        }
        if !is_known {
            self.add_fields(number, of, content);
        }
        true
    }

    #[cold]
    fn new_class(&mut self, key: FtraceKey, body: &EventBody<'_>) -> Option<usize> {
        if self.classes.len() >= MAX_CLASSES {
            return None;
        }
        let listed = |list: &[(&str, EventFieldType)]| {
            list.iter()
                .zip(0..)
                .map(|((name, of), number)| EventField { number, name: (*name).into(), of: *of })
                .collect::<Vec<_>>()
        };
        let (name, fields) = match body {
            EventBody::Switch(..) => ("sched_switch".to_string(), listed(&COMPACT_SWITCH)),
            EventBody::Waking(..) => ("sched_waking".to_string(), listed(&COMPACT_WAKING)),
            EventBody::Message(GENERIC, content) => {
                let mut fields: Vec<EventField> = Vec::new();
                for ((name, of, _), number) in generic_fields(content).zip(0..) {
                    let own = String::from_utf8_lossy(name).into_owned();
                    let is_taken = fields.iter().any(|field| field.name == own);
                    let name = if is_taken { format!("{own}_{number}") } else { own };
                    fields.push(EventField { number, name, of });
                }
                (String::from_utf8_lossy(generic_name(content)).into_owned(), fields)
            }
            EventBody::Message(number, _) => {
                let described = self.described.get(number).map(|of| of.name.clone()).filter(|name| !name.is_empty());
                let known = message_of(*number).map(|(name, _)| name.to_string());
                let name = match number {
                    0 => "empty".to_string(),
                    number => known.or(described).unwrap_or_else(|| format!("ftrace_event_{number}")),
                };
                (name, Vec::new())
            }
        };
        let number = self.classes.len();
        self.classes.push(FtraceClass { name, fields, id: EventClassId(0) });
        if key.variant == 0 && key.number < FIRST_DESCRIBED {
            if self.by_number.len() <= key.number as usize {
                self.by_number.resize(key.number as usize + 1, 0);
            }
            self.by_number[key.number as usize] = number as u32 + 1;
        } else {
            self.by_key.insert(key, number);
        }
        Some(number)
    }

    #[cold]
    fn add_fields(&mut self, class: usize, of: u32, content: &[u8]) {
        let known = message_of(of).map(|(_, of)| of);
        let described = self.described.get(&of);
        let class = &mut self.classes[class];
        for (number, value) in WireFields::new(content) {
            if class.fields.len() >= MAX_FIELDS || class.fields.iter().any(|own| own.number == number) {
                continue;
            }
            let from_table = known.and_then(|of| of.field(number));
            let field = match (from_table, described.and_then(|of| of.fields.iter().find(|(own, ..)| *own == number))) {
                (Some(field), _) => EventField {
                    number,
                    name: field.name.into(),
                    of: EventFieldType::from_field(field.of, field.is_repeated),
                },
                (None, Some((_, name, of))) => EventField { number, name: name.clone(), of: *of },
                (None, None) => {
                    EventField { number, name: format!("field_{number}"), of: EventFieldType::from_value(value) }
                }
            };
            class.fields.push(field);
        }
        class.fields.sort_by_key(|field| field.number);
    }

    /// Counts an event of a message that nothing describes.
    pub(crate) fn count_unknown(&mut self, event: &FtraceEvent<'_>) {
        if let EventBody::Message(number, _) = event.body
            && message_of(number).is_none()
            && !self.described.contains_key(&number)
        {
            *self.unknown.entry(number).or_default() += 1;
        }
    }

    /// Adds the classes to a schema, in a stream class of their own.
    pub(crate) fn add_to(&mut self, schema: &mut Schema, clock: ClockId) -> StreamClassId {
        let mut types = FieldTypes::default();
        let mut header = Vec::new();
        if self.has_flags {
            header.push(Member::new("common_flags", types.class(schema, EventFieldType::U32)));
        }
        header.push(Member::new("common_pid", types.class(schema, EventFieldType::I32)));
        let header = structure(schema, header);
        let stream = schema.add_twin_stream(StreamClass {
            has_no_id: true,
            has_cpu: true,
            default_clock: Some(clock),
            event_header: Some(header),
            ..StreamClass::default()
        });
        for (at, class) in self.classes.iter_mut().enumerate() {
            let member = |field: &EventField| Member::new(field.name.as_str(), types.class(schema, field.of));
            let members: Vec<Member> = class.fields.iter().map(member).collect();
            let payload = (!members.is_empty()).then(|| structure(schema, members));
            class.id = schema.add_twin_event(EventClass {
                name: Some(class.name.as_str().into()),
                payload,
                ..EventClass::new(at as u64, stream)
            });
        }
        stream
    }

    /// Appends an event at a time, as its class has it; false when the file changed since it was taken in, or there is no
    /// room.
    pub(crate) fn write(
        &self,
        event: &FtraceEvent<'_>,
        time: u64,
        slots: &mut Vec<WireSlot>,
        out: &mut Vec<u8>,
        spine: &mut Spine,
    ) -> bool {
        let Some(class) = self.number(key_of(&event.body)).map(|number| &self.classes[number]) else { return false };
        let start = out.len();
        if self.has_flags {
            out.extend_from_slice(&event.flags.to_le_bytes());
        }
        out.extend_from_slice(&event.pid.to_le_bytes());
        let body = out.len();
        match event.body {
            EventBody::Switch(state, pid, prio, name) => {
                out.extend_from_slice(&state.to_le_bytes());
                put_text(name, out);
                out.extend_from_slice(&pid.to_le_bytes());
                out.extend_from_slice(&prio.to_le_bytes());
            }
            EventBody::Waking(pid, cpu, prio, name) => {
                put_text(name, out);
                [pid, prio, cpu].iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
            }
            EventBody::Message(GENERIC, content) => {
                for ((.., value), field) in generic_fields(content).zip(&class.fields) {
                    put_value(field.of, Some(value), content, field.number, out);
                }
            }
            EventBody::Message(_, content) => {
                slots.clear();
                slots.resize(class.fields.len(), WireSlot::default());
                // Fields mostly stand in the order of their numbers.
                let (mut fields, mut next) = (WireFields::new(content), 0);
                while let Some((number, value)) = fields.next() {
                    if class.fields.get(next).is_none_or(|field| field.number != number) {
                        next = class.fields.binary_search_by_key(&number, |field| field.number).unwrap_or(usize::MAX);
                    }
                    if let Some(slot) = slots.get_mut(next) {
                        *slot = WireSlot::new(value, fields.at());
                        next += 1;
                    } else {
                        next = 0;
                    }
                }
                for (field, slot) in class.fields.iter().zip(slots.iter()) {
                    put_value(field.of, slot.value(content), content, field.number, out);
                }
            }
        }
        match (u32::try_from(start * 8), u32::try_from(body * 8), u32::try_from(out.len() * 8)) {
            (Ok(start_bits), Ok(body_bits), Ok(_)) => {
                spine.push(class.id, time, start_bits, body_bits);
                true
            }
            _ => {
                out.truncate(start);
                false
            }
        }
    }
}

fn structure(schema: &mut Schema, members: Vec<Member>) -> FieldClassId {
    schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
}

/// The name and the fields of a message by its descriptor (`DescriptorProto` of protocol buffers).
fn read_descriptor(descriptor: &[u8]) -> DescribedMessage {
    let mut own = DescribedMessage::default();
    for (number, value) in WireFields::new(descriptor) {
        match number {
            1 => own.name = String::from_utf8_lossy(value.bytes()).into_owned(),
            2 => {
                let (mut number, mut name, mut label, mut kind) = (0, String::new(), 0, 0);
                for (field, value) in WireFields::new(value.bytes()) {
                    match field {
                        1 => name = String::from_utf8_lossy(value.bytes()).into_owned(),
                        3 => number = value.number() as u32,
                        4 => label = value.number(),
                        5 => kind = value.number(),
                        _ => {}
                    }
                }
                // Labels: 3 is repeated. Types: those of `FieldDescriptorProto`.
                let of = match (kind, label) {
                    (9, _) => EventFieldType::Text,
                    (1 | 2 | 10 | 11 | 12, _) => EventFieldType::Bytes,
                    (_, 3) => EventFieldType::Numbers,
                    (5 | 15 | 17 | 14, _) => EventFieldType::I32,
                    (3 | 16 | 18, _) => EventFieldType::I64,
                    (13 | 7 | 8, _) => EventFieldType::U32,
                    _ => EventFieldType::U64,
                };
                own.fields.push((number, name, of));
            }
            _ => {}
        }
    }
    own
}
