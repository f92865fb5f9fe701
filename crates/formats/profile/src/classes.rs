//! The schema of a profile, and its events in bytes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use tracemill_codec::spine::Spine;
use tracemill_format::samples::Frame;
use tracemill_format::{DataFile, Stream};
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{
    ArrayClass, ByteOrder, ClockClass, ClockId, ClockOrigin, EventClass, EventClassId, FieldClass, FieldClassId,
    FieldKind, IntegerClass, Length, Member, Schema, StreamClass, StreamClassId, StringClass, StructClass,
};
use tracemill_semantics::names;

use crate::profile::{MAX_DEPTH, NONE, Profile, ProfileRecord, ProfileThread, ProfileUnit, RecordKind};

/// Classes of events that are calls.
pub(crate) const CALL: (&str, &str) = names::CALLS[0];
/// Records of a packet.
const PACKET_RECORDS: usize = 8192;
/// Bytes of stacks after which a packet ends.
const PACKET_BYTES: usize = 1 << 20;
/// Names of markers with a class of their own.
const MAX_MARKERS: usize = 1 << 12;
/// The class of all others.
const MARKER: &str = "marker";

/// The form of the streams of threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct StreamForm {
    is_timed: bool,
    /// Have their threads numbers?
    has_thread: bool,
    /// And processes?
    has_process: bool,
}

/// Classes by what is in a profile.
pub(crate) struct ProfileClasses {
    streams: HashMap<StreamForm, StreamClassId>,
    by_key: HashMap<(StreamForm, ProfileClassKey), EventClassId>,
    /// Ns that are 0 in the events.
    base_ns: i64,
    /// Names of the events that were sampled.
    events: Vec<Box<[u8]>>,
    /// By thread: the event of its samples.
    event_of: Vec<usize>,
    /// The packets of each thread: parts of its records.
    packets: Vec<Vec<Range<usize>>>,
}

/// The kind of event of a class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum ProfileClassKey {
    /// A sample of an event, by its number.
    Sample(usize),
    Entry,
    Exit,
    Marker(u32),
    OtherMarker,
}

/// The packets of a thread: parts of its records.
fn parts(profile: &Profile, thread: &ProfileThread) -> Vec<Range<usize>> {
    let (mut parts, mut from, mut bytes) = (Vec::new(), 0, 0usize);
    for (at, record) in thread.records.iter().enumerate() {
        if at - from >= PACKET_RECORDS || bytes >= PACKET_BYTES {
            parts.push(from..at);
            (from, bytes) = (at, 0);
        }
        if let RecordKind::Sample(stack) = record.kind
            && let Some(stack) = profile.stacks.get(stack as usize)
        {
            bytes += stack.bytes as usize;
        }
    }
    if from < thread.records.len() {
        parts.push(from..thread.records.len());
    }
    parts
}

fn form_of(thread: &ProfileThread) -> StreamForm {
    StreamForm { is_timed: thread.is_timed, has_thread: thread.thread.is_some(), has_process: thread.process.is_some() }
}

/// The name of the event that a thread's samples are of.
fn event_name(thread: &ProfileThread) -> Box<[u8]> {
    let of_unit: &[u8] = match thread.unit {
        ProfileUnit::Ns => names::WALL_CLOCK.as_bytes(),
        ProfileUnit::Bytes => b"bytes",
        ProfileUnit::Counts => b"sample",
    };
    thread.event.clone().unwrap_or_else(|| of_unit.into())
}

impl ProfileClasses {
    /// The schema of a profile.
    pub(crate) fn new(format: &'static str, profile: &Profile) -> (Schema, ProfileClasses) {
        let mut schema = Schema::new(format);
        let timed = profile.threads.iter().filter(|thread| thread.is_timed);
        let base_ns = timed.filter_map(|thread| Some(thread.records.first()?.at)).min().unwrap_or(0).min(0);
        let mut events: Vec<Box<[u8]>> = Vec::new();
        let event_of = profile.threads.iter().map(|thread| {
            let name = event_name(thread);
            events.iter().position(|event| *event == name).unwrap_or_else(|| {
                events.push(name);
                events.len() - 1
            })
        });
        let event_of = event_of.collect();
        let packets = profile.threads.iter().map(|thread| parts(profile, thread)).collect();
        let (streams, by_key) = (HashMap::new(), HashMap::new());
        let mut classes = ProfileClasses { streams, by_key, base_ns, events, event_of, packets };
        let mut builder = SchemaBuilder { schema: &mut schema, text: None, clock: None, ids: 0 };
        for (at, thread) in profile.threads.iter().enumerate() {
            let form = form_of(thread);
            let stream = *classes.streams.entry(form).or_insert_with(|| builder.stream(profile, form, base_ns));
            for record in &thread.records {
                let key = classes.key(form, at, record);
                if let Entry::Vacant(free) = classes.by_key.entry((form, key)) {
                    free.insert(builder.event((profile, &classes.events), stream, key));
                }
            }
        }
        (schema, classes)
    }

    /// The class of a record of a thread.
    fn key(&self, form: StreamForm, at: usize, record: &ProfileRecord) -> ProfileClassKey {
        match record.kind {
            RecordKind::Sample(_) => ProfileClassKey::Sample(self.event_of[at]),
            RecordKind::Entry(_) => ProfileClassKey::Entry,
            RecordKind::Exit(_) => ProfileClassKey::Exit,
            RecordKind::Marker(name) => {
                let key = ProfileClassKey::Marker(name);
                let is_known = self.by_key.contains_key(&(form, key));
                if is_known || self.by_key.len() < MAX_MARKERS { key } else { ProfileClassKey::OtherMarker }
            }
        }
    }

    /// The streams of a profile: one for each thread.
    pub(crate) fn streams(&self, profile: &Profile, data: &DataFile) -> Vec<Stream> {
        let mut streams = Vec::new();
        for (at, thread) in profile.threads.iter().enumerate() {
            let class = self.streams[&form_of(thread)];
            let mut packets = PacketList::default();
            for (index, part) in self.packets[at].iter().enumerate() {
                let records = &thread.records[part.clone()];
                let cycles = |record: Option<&ProfileRecord>| {
                    record.filter(|_| thread.is_timed).map(|record| self.cycles(record.at))
                };
                packets.push(&Packet {
                    index: index as u64,
                    begin_cycles: cycles(records.first()),
                    end_cycles: cycles(records.last()),
                    ..Packet::new(class, thread.place.start as u64, thread.place.len() as u64 * 8)
                });
            }
            let name = String::from_utf8_lossy(&thread.name);
            let name = match thread.thread {
                Some(number) => format!("{name} {number}").trim_start().to_string(),
                None if name.is_empty() => data.relative.clone(),
                None => name.into_owned(),
            };
            streams.push(Stream { name, class, id: Some(at as u64), files: vec![data.clone()], packets });
        }
        streams
    }

    fn cycles(&self, at: i64) -> u64 {
        at.wrapping_sub(self.base_ns) as u64
    }

    /// The events of a packet of a thread. `None` when there is no such packet.
    pub(crate) fn encode(&self, profile: &Profile, at: usize, index: usize) -> Option<(Vec<u8>, Spine)> {
        let (thread, part) = (profile.threads.get(at)?, self.packets.get(at)?.get(index)?.clone());
        let form = form_of(thread);
        let (mut bytes, mut spine) = (Vec::new(), Spine::default());
        for record in &thread.records[part] {
            let key = self.key(form, at, record);
            let class = *self.by_key.get(&(form, key))?;
            let start_bits = u32::try_from(bytes.len() * 8).ok()?;
            for number in [thread.process, thread.thread].into_iter().flatten() {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            put_text(&thread.name, &mut bytes);
            if form.has_process {
                put_text(&thread.process_name, &mut bytes);
            }
            match record.kind {
                RecordKind::Sample(stack) => {
                    bytes.extend_from_slice(&record.weight.to_le_bytes());
                    put_stack(profile, stack, &mut bytes);
                }
                RecordKind::Entry(name) | RecordKind::Exit(name) => put_text(text(profile, name), &mut bytes),
                RecordKind::Marker(name) if key == ProfileClassKey::OtherMarker => {
                    put_text(text(profile, name), &mut bytes);
                }
                RecordKind::Marker(_) => {}
            }
            spine.push(class, if thread.is_timed { self.cycles(record.at) } else { 0 }, start_bits, start_bits);
        }
        Some((bytes, spine))
    }
}

fn text(profile: &Profile, name: u32) -> &[u8] {
    profile.names.get(name as usize).map_or(&[], |name| name)
}

fn put_text(text: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(text);
    bytes.push(0);
}

/// Appends the frames of a stack, the innermost first, with their number before them.
fn put_stack(profile: &Profile, mut stack: u32, bytes: &mut Vec<u8>) {
    let depth = profile.stacks.get(stack as usize).map_or(0, |stack| stack.depth.min(MAX_DEPTH));
    bytes.extend_from_slice(&depth.to_le_bytes());
    for _ in 0..depth {
        let Some(of) = profile.stacks.get(stack as usize) else { return };
        Frame::put_text(text(profile, of.name), None, bytes);
        bytes.push(0);
        stack = of.caller;
    }
    debug_assert!(stack == NONE || depth == MAX_DEPTH, "the depth is the number of callers");
}

struct SchemaBuilder<'s> {
    schema: &'s mut Schema,
    text: Option<FieldClassId>,
    clock: Option<ClockId>,
    ids: u64,
}

impl SchemaBuilder<'_> {
    fn text(&mut self) -> FieldClassId {
        let schema = &mut *self.schema;
        *self
            .text
            .get_or_insert_with(|| schema.add_field_class(FieldClass::new(FieldKind::String(StringClass::utf8()), 8)))
    }

    fn integer(&mut self, signed: bool, len_bits: u32) -> FieldClassId {
        let class = IntegerClass { signed, byte_order: ByteOrder::Little, ..IntegerClass::unsigned(len_bits) };
        self.schema.add_field_class(FieldClass::new(FieldKind::Integer(class), 8))
    }

    fn structure(&mut self, members: Vec<Member>) -> FieldClassId {
        self.schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8))
    }

    fn stream(&mut self, profile: &Profile, form: StreamForm, base_ns: i64) -> StreamClassId {
        let comm = Member::new(names::THREAD_NAME[1], self.text());
        let number = self.integer(true, 64);
        let members = [
            form.has_process.then(|| Member::new(names::PROCESS[0], number)),
            form.has_thread.then(|| Member::new(names::THREAD[0], number)),
            Some(comm),
            form.has_process.then(|| Member::new(names::THREAD_NAME[3], self.text())),
        ];
        let members = members.into_iter().flatten().collect();
        let common_context = Some(self.structure(members));
        let default_clock = form.is_timed.then(|| {
            let schema = &mut *self.schema;
            *self.clock.get_or_insert_with(|| {
                let start = profile.start_ns.unwrap_or(0).saturating_add(base_ns.into());
                let origin = if profile.start_ns.is_some() { ClockOrigin::Unix } else { ClockOrigin::Unknown };
                schema.add_clock(ClockClass {
                    has_made_cycles: true,
                    offset_cycles: start,
                    origin,
                    ..ClockClass::nanoseconds("ns")
                })
            })
        });
        self.ids += 1;
        let class =
            StreamClass { id: self.ids - 1, has_no_id: true, default_clock, common_context, ..StreamClass::default() };
        self.schema.add_stream(class).unwrap_or(StreamClassId(0))
    }

    fn event(
        &mut self,
        (profile, events): (&Profile, &[Box<[u8]>]),
        stream: StreamClassId,
        key: ProfileClassKey,
    ) -> EventClassId {
        let name: Arc<str> = match key {
            ProfileClassKey::Sample(event) => String::from_utf8_lossy(&events[event]).into(),
            ProfileClassKey::Entry => CALL.0.into(),
            ProfileClassKey::Exit => CALL.1.into(),
            ProfileClassKey::Marker(name) => String::from_utf8_lossy(text(profile, name)).into(),
            ProfileClassKey::OtherMarker => MARKER.into(),
        };
        let members = match key {
            ProfileClassKey::Sample(_) => {
                let (weight, count, element) = (self.integer(false, 64), self.integer(false, 32), self.text());
                let array = ArrayClass { element, length: Length::Inline(count) };
                let array = self.schema.add_field_class(FieldClass::new(FieldKind::Array(array), 8));
                vec![Member::new(names::PERIOD, weight), Member::new(names::FRAMES[0], array)]
            }
            ProfileClassKey::Entry | ProfileClassKey::Exit => vec![Member::new(names::SYMBOL, self.text())],
            ProfileClassKey::OtherMarker => vec![Member::new("name", self.text())],
            ProfileClassKey::Marker(_) => Vec::new(),
        };
        let payload = (!members.is_empty()).then(|| self.structure(members));
        self.ids += 1;
        let class = EventClass { name: Some(name), payload, ..EventClass::new(self.ids - 1, stream) };
        self.schema.add_event(class).unwrap_or(EventClassId(0))
    }
}
