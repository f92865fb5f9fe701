//! Packets as events: which a packet holds, and their members (`SPEC.md`, sections 5 and 7).

use std::collections::HashMap;

use tracemill_codec::text::marks::{mix, mix_bytes};
use tracemill_format::json::{OpenValue, TapeBuilder, TokenKind};
use tracemill_format::perfetto::{FieldType, MessageType, WireFields, WireValue, event_type, message};
use tracemill_format::slices::{PhasePart, SliceEvent, SliceIds, SliceMembers};

use super::packets::TracePacket;
use super::sequences::{SequenceState, interned};
use super::tracks::{TrackOwner, Tracks};
use super::values::{KnownKeys, ValueContext, Values};

/// Contents of packets that are read in their own way.
pub(crate) mod content {
    pub(crate) const FTRACE: u32 = 1;
    pub(crate) const PROCESS_TREE: u32 = 2;
    pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
    pub(crate) const PROCESS_STATS: u32 = 9;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const SYNCHRONIZATION: u32 = 36;
    pub(crate) const ANDROID_LOG: u32 = 39;
    pub(crate) const PROCESS_DESCRIPTOR: u32 = 43;
    pub(crate) const SYSTEM_INFO: u32 = 45;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
    pub(crate) const PERF_SAMPLE: u32 = 66;
    pub(crate) const TRACE_UUID: u32 = 89;
}

/// Packets that hold a list of items: the field of the items, and the names of their events.
pub(crate) const LISTS: [(u32, u32, &str); 4] = [
    (content::PROCESS_TREE, 1, "process_tree_process"),
    (content::PROCESS_TREE, 2, "process_tree_thread"),
    (content::PROCESS_STATS, 1, "process_stats"),
    (content::ANDROID_LOG, 1, "android_log"),
];

/// The items of a packet with lists, each with the name of its events and its type.
pub(crate) fn items(kind: u32, content: &[u8]) -> impl Iterator<Item = (&'static str, u32, &[u8])> {
    let name =
        move |field: u32| LISTS.iter().find(|(own, item, _)| (*own, *item) == (kind, field)).map(|(.., name)| *name);
    WireFields::new(content).filter_map(move |(field, value)| Some((name(field)?, field, value.bytes())))
}

/// The type of the content of a packet, and its name; `None` for those that are not decoded.
pub(crate) fn content_type(kind: u32) -> Option<(&'static str, &'static MessageType)> {
    let field = message("TracePacket")?.field(kind)?;
    match field.of {
        FieldType::Message(number) => Some((field.name, tracemill_format::perfetto::messages::message_at(number)?)),
        _ => None,
    }
}

/// A value of a counter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum CounterValue {
    Whole(i64),
    Real(f64),
}

/// The fields of a track event by which it is an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrackEvent<'a> {
    /// Its phase, as a letter of trace JSON.
    pub(crate) phase: u8,
    pub(crate) track: Option<u64>,
    name: Option<&'a [u8]>,
    name_iid: Option<u64>,
    pub(crate) value: Option<CounterValue>,
    /// Values of further counters.
    extra_values: Vec<CounterValue>,
    extra_tracks: Vec<u64>,
    extra_double_tracks: Vec<u64>,
    legacy: LegacyEvent<'a>,
    /// Times of old traces in µs: since the event before, or absolute.
    pub(crate) delta_us: Option<i64>,
    pub(crate) absolute_us: Option<i64>,
}

/// The part of a track event that is one of trace JSON.
#[derive(Clone, Copy, Debug, Default)]
struct LegacyEvent<'a> {
    name_iid: Option<u64>,
    phase: u8,
    duration_us: Option<i64>,
    /// The number of the field with the id, and the id.
    id: Option<(u32, u64)>,
    scope: &'a [u8],
    bind_id: Option<u64>,
    pid: Option<i64>,
    tid: Option<i64>,
    has_others: bool,
}

impl<'a> TrackEvent<'a> {
    pub(crate) fn read(content: &'a [u8]) -> TrackEvent<'a> {
        let mut own = TrackEvent::default();
        let (mut kind, mut doubles) = (0, Vec::new());
        for (number, value) in WireFields::new(content) {
            match number {
                1 => own.delta_us = Some(value.number() as i64),
                6 => own.legacy = LegacyEvent::read(value.bytes()),
                9 => kind = value.number(),
                10 => own.name_iid = Some(value.number()),
                11 => own.track = Some(value.number()),
                12 => value.each_varint(|value| own.extra_values.push(CounterValue::Whole(value as i64))),
                16 => own.absolute_us = Some(value.number() as i64),
                23 => own.name = Some(value.bytes()),
                30 => own.value = Some(CounterValue::Whole(value.number() as i64)),
                31 => value.each_varint(|uuid| own.extra_tracks.push(uuid)),
                44 => own.value = Some(CounterValue::Real(f64::from_bits(value.number()))),
                45 => value.each_varint(|uuid| own.extra_double_tracks.push(uuid)),
                46 => match value {
                    WireValue::Bytes(bytes) => {
                        let value = |chunk: &[u8; 8]| CounterValue::Real(f64::from_le_bytes(*chunk));
                        doubles.extend(bytes.as_chunks().0.iter().map(value));
                    }
                    value => doubles.push(CounterValue::Real(f64::from_bits(value.number()))),
                },
                _ => {}
            }
        }
        own.extra_values.extend(doubles);
        own.phase = match kind {
            event_type::SLICE_BEGIN => b'B',
            event_type::SLICE_END => b'E',
            event_type::COUNTER => b'C',
            0 if own.legacy.phase != 0 => own.legacy.phase,
            _ => b'i',
        };
        own
    }

    /// The length of a slice in ns that one event is the whole of.
    pub(crate) fn length_ns(&self) -> Option<u64> {
        let length = self.legacy.duration_us.unwrap_or(0).saturating_mul(1000);
        (self.phase == b'X').then_some(u64::try_from(length).unwrap_or(0))
    }

    /// The further counters that have values, in the order of the values.
    pub(crate) fn extra_counters(&self, state: &SequenceState, packet: &TracePacket<'_>) -> Vec<(u64, CounterValue)> {
        if self.extra_values.is_empty() {
            return Vec::new();
        }
        let defaults = state.defaults(packet);
        let own_or = |own: &Vec<u64>, defaults: Option<&Vec<u64>>| match own.is_empty() {
            true => defaults.cloned().unwrap_or_default(),
            false => own.clone(),
        };
        let mut whole = own_or(&self.extra_tracks, defaults.map(|of| &of.extra_counters)).into_iter();
        let mut real = own_or(&self.extra_double_tracks, defaults.map(|of| &of.extra_double_counters)).into_iter();
        let track = |value: &CounterValue| match value {
            CounterValue::Whole(_) => Some((whole.next()?, *value)),
            CounterValue::Real(_) => Some((real.next()?, *value)),
        };
        self.extra_values.iter().filter_map(track).collect()
    }

    /// The track that the event is on, when it names one or its sequence has one.
    pub(crate) fn track(&self, state: &SequenceState, packet: &TracePacket<'_>) -> Option<u64> {
        self.track.or_else(|| state.defaults(packet)?.track)
    }

    /// The thread or the track that it is on.
    fn owner(&self, state: &SequenceState, packet: &TracePacket<'_>, tracks: &Tracks) -> TrackOwner {
        let thread = |(pid, tid)| TrackOwner { ids: SliceIds::Thread, pid, tid, name: Vec::new() };
        if self.legacy.pid.is_some() || self.legacy.tid.is_some() {
            let (pid, tid) = state.thread(packet).unwrap_or_default();
            return thread((self.legacy.pid.unwrap_or(pid), self.legacy.tid.unwrap_or(tid)));
        }
        match (self.track(state, packet), state.thread(packet)) {
            (Some(uuid), _) => tracks.owner(uuid),
            (None, Some(of)) => thread(of),
            (None, None) => TrackOwner { ids: SliceIds::None, ..TrackOwner::default() },
        }
    }
}

impl<'a> LegacyEvent<'a> {
    fn read(content: &'a [u8]) -> LegacyEvent<'a> {
        let mut own = LegacyEvent::default();
        for (number, value) in WireFields::new(content) {
            let signed = value.number() as i64;
            match number {
                1 => own.name_iid = Some(value.number()),
                2 => own.phase = value.number() as u8,
                3 => own.duration_us = Some(signed),
                6 | 10 | 11 => own.id = Some((number, value.number())),
                7 => own.scope = value.bytes(),
                8 => own.bind_id = Some(value.number()),
                18 => own.pid = Some(signed),
                19 => own.tid = Some(signed),
                number => own.has_others |= LEGACY_FIELDS.contains(&number),
            }
        }
        own
    }
}

/// Parts of a packet that are events: the event itself, the end of a slice that one event is the whole of, the values of
/// further counters from there on; or the items of a list.
pub(crate) mod part {
    pub(crate) const EVENT: u16 = 0;
    pub(crate) const END: u16 = 1;
    pub(crate) const FIRST_COUNTER: u16 = 2;
}

/// Makes events of packets.
#[derive(Default)]
pub(crate) struct EventBuilder {
    pub(crate) event: SliceEvent,
    /// The texts that the event refers to.
    pub(crate) line: Vec<u8>,
    pub(crate) zeros: u64,
    pub(crate) unknown_texts: u64,
}

/// The part that an event plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BuiltEvent {
    pub(crate) ids: SliceIds,
    pub(crate) part: PhasePart,
}

/// Sources of events beside their packets.
#[derive(Clone, Copy)]
pub(crate) struct EventContext<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) tracks: &'a Tracks,
    /// Values of incremental counters, by packet and part.
    pub(crate) sums: &'a HashMap<u64, i64>,
}

/// The members of an event that become fields of its context.
struct Rest {
    mark: u64,
    pairs: Vec<(usize, usize)>,
}

impl Rest {
    fn add(&mut self, values: &mut Values<'_, '_>, key: &str, value: impl FnOnce(&mut Values<'_, '_>) -> u64) {
        let at = values.tape.tokens.len();
        values.tape.lone_key(key.as_bytes());
        let mark = value(values);
        self.mark = mix(mix_bytes(self.mark, key.as_bytes()), mark);
        self.pairs.push((at, at + 1));
    }
}

impl EventBuilder {
    /// Makes the event of a part of a packet. `None` when the packet has no such part.
    pub(crate) fn build(
        &mut self,
        context: EventContext<'_>,
        packet: &TracePacket<'_>,
        state: &SequenceState,
        sub: u16,
    ) -> Option<BuiltEvent> {
        let (kind, content) = packet.content?;
        self.line.clear();
        self.event.tokens.clear();
        let mut rest = Rest { mark: 1, pairs: std::mem::take(&mut self.event.rest) };
        rest.pairs.clear();
        let mut values = Values {
            tape: TapeBuilder { line: &mut self.line, tokens: &mut self.event.tokens },
            context: ValueContext { bytes: context.bytes, packet, state },
            zeros: &mut self.zeros,
            unknown_texts: &mut self.unknown_texts,
        };
        let built = match kind {
            content::TRACK_EVENT => track_event(&mut values, &mut rest, context, content, sub),
            content::PROCESS_TREE | content::PROCESS_STATS | content::ANDROID_LOG => {
                item(&mut values, kind, content, sub)
            }
            content::PERF_SAMPLE => Some(perf_sample(&mut values, content)),
            _ => packet_event(&mut values, kind, content),
        };
        let Rest { mark, pairs } = rest;
        self.event.rest = pairs;
        let (members, built) = built?;
        self.event.members = SliceMembers { rest_mark: mark, ..members };
        Some(built)
    }
}

type Built = Option<(SliceMembers, BuiltEvent)>;

/// The members of an instant event of a name, with its arguments.
fn instant(
    values: &mut Values<'_, '_>,
    name: &str,
    owner: (SliceIds, i64, i64),
    args: (usize, u64),
) -> (SliceMembers, BuiltEvent) {
    let name = values.tape.text_token(name.as_bytes());
    let (ids, pid, tid) = owner;
    let members = SliceMembers {
        phase: b'i',
        name: Some(name),
        pid,
        tid,
        args: Some(args.0),
        args_mark: args.1,
        ..SliceMembers::default()
    };
    (members, BuiltEvent { ids, part: PhasePart::Instant })
}

/// A packet that is one event.
fn packet_event(values: &mut Values<'_, '_>, kind: u32, content: &[u8]) -> Built {
    let (name, of) = content_type(kind)?;
    let at = values.tape.tokens.len();
    let mark = values.message(of, content, 0);
    Some(instant(values, name, (SliceIds::None, 0, 0), (at, mark)))
}

/// An item of a list.
fn item(values: &mut Values<'_, '_>, kind: u32, content: &[u8], sub: u16) -> Built {
    let (name, field, item) = items(kind, content).nth(usize::from(sub))?;
    let FieldType::Message(number) = content_type(kind)?.1.field(field)?.of else { return None };
    let of = tracemill_format::perfetto::messages::message_at(number)?;
    let at = values.tape.tokens.len();
    let (mut open, mut keys) = (values.tape.begin(TokenKind::Object), KnownKeys::default());
    values.members((&mut open, &mut keys), of, item, 0);
    let number =
        |wanted: u32| WireFields::new(item).find(|(number, _)| *number == wanted).map(|(_, value)| value.number());
    if (kind, field) == (content::PROCESS_TREE, 1) {
        // The first word of the command line names the process.
        let first = WireFields::new(item).find(|(number, _)| *number == 3).map_or(&[][..], |(_, value)| value.bytes());
        values.member((&mut open, &mut keys), b"name", |values| values.text(first));
    }
    let mark = values.tape.end(open);
    let owner = match kind {
        content::ANDROID_LOG => {
            let id = |wanted| i64::from(number(wanted).unwrap_or(0) as i32);
            (SliceIds::Thread, id(2), id(3))
        }
        _ => (SliceIds::None, 0, 0),
    };
    Some(instant(values, name, owner, (at, mark)))
}

/// A sample with its call chain, the innermost function first.
fn perf_sample(values: &mut Values<'_, '_>, content: &[u8]) -> (SliceMembers, BuiltEvent) {
    let at = values.tape.tokens.len();
    let (mut open, mut keys) = (values.tape.begin(TokenKind::Object), KnownKeys::default());
    let (mut pid, mut tid, mut callstack) = (0, 0, None);
    for (number, value) in WireFields::new(content) {
        match number {
            2 => pid = i64::from(value.number() as u32),
            3 => tid = i64::from(value.number() as u32),
            4 => callstack = Some(value.number()),
            _ => {}
        }
    }
    if let Some(of) = message("PerfSample") {
        values.members((&mut open, &mut keys), of, content, 0);
    }
    if let Some(iid) = callstack {
        let frames = frames(values, iid);
        values.member((&mut open, &mut keys), b"callchain", |values| {
            let mut list = values.tape.begin(TokenKind::Array);
            for frame in frames.iter().rev() {
                let mark = values.text(frame);
                values.tape.add(&mut list, mark);
            }
            values.tape.end(list)
        });
    }
    let mark = values.tape.end(open);
    let ValueContext { packet, state, .. } = values.context;
    let event = state.defaults(packet).and_then(|defaults| defaults.sampled.as_deref());
    instant(values, event.unwrap_or("perf_sample"), (SliceIds::Thread, pid, tid), (at, mark))
}

/// Names of the frames of a call chain, the outermost first.
fn frames(values: &mut Values<'_, '_>, callstack: u64) -> Vec<Vec<u8>> {
    let ValueContext { bytes, packet, state } = values.context;
    let mut ids = Vec::new();
    let Some(entry) = state.entry(bytes, packet, interned::CALLSTACKS, callstack) else {
        *values.unknown_texts += 1;
        return Vec::new();
    };
    for (number, value) in WireFields::new(entry) {
        if number == 2 {
            value.each_varint(|id| ids.push(id));
        }
    }
    let name = |id: u64| -> Option<Vec<u8>> {
        let frame = state.entry(bytes, packet, interned::FRAMES, id)?;
        let (mut function, mut mapping, mut pc) = (None, None, 0);
        for (number, value) in WireFields::new(frame) {
            match number {
                2 => function = Some(value.number()),
                3 => mapping = Some(value.number()),
                4 => pc = value.number(),
                _ => {}
            }
        }
        let name = function.and_then(|iid| state.text(bytes, packet, interned::FUNCTION_NAMES, iid));
        // The last part of the path of its file.
        let mapping = state.entry(bytes, packet, interned::MAPPINGS, mapping.unwrap_or(0)).unwrap_or_default();
        let mut path = Vec::new();
        for (number, value) in WireFields::new(mapping) {
            if number == 7 {
                value.each_varint(|iid| path.push(iid));
            }
        }
        let file =
            path.last().and_then(|iid| state.text(bytes, packet, interned::MAPPING_PATHS, *iid)).unwrap_or_default();
        Some(match name.filter(|name| !name.is_empty()) {
            Some(name) if file.is_empty() => name.to_vec(),
            // As perf's script shows them: the address, the name and the file.
            Some(name) => [format!("{pc:x} ").as_bytes(), name, b" (", file, b")"].concat(),
            None => [b"[", file, format!("+0x{pc:x}]").as_bytes()].concat(),
        })
    };
    ids.into_iter().map(|id| name(id).unwrap_or_else(|| format!("#{id}").into_bytes())).collect()
}

/// Adds the fields that say on which track an event is, when that is not a thread.
fn put_track(values: &mut Values<'_, '_>, rest: &mut Rest, track: Option<u64>, owner: &TrackOwner) {
    if owner.ids == SliceIds::Thread {
        return;
    }
    rest.add(values, "track", |values| values.tape.integer(track.unwrap_or(0).into()));
    rest.add(values, "track_name", |values| values.text(&owner.name));
}

/// A value of a counter as an event.
fn counter(
    values: &mut Values<'_, '_>,
    rest: &mut Rest,
    context: EventContext<'_>,
    (track, value, sub): (Option<u64>, CounterValue, u16),
    owner: &TrackOwner,
) -> (SliceMembers, BuiltEvent) {
    put_track(values, rest, track, owner);
    let of = track.and_then(|track| context.tracks.counter(track));
    let at = values.tape.tokens.len();
    let (mut open, mut keys) = (values.tape.begin(TokenKind::Object), KnownKeys::default());
    values.member((&mut open, &mut keys), b"value", |values| {
        let multiplier = of.map_or(1, |of| of.multiplier);
        match value {
            CounterValue::Real(value) => values.tape.real(value * multiplier as f64),
            CounterValue::Whole(value) => {
                let place = (values.context.packet.at as u64) << 16 | u64::from(sub);
                let value = context.sums.get(&place).copied().unwrap_or(value);
                values.tape.integer(i128::from(value) * i128::from(multiplier))
            }
        }
    });
    let args_mark = values.tape.end(open);
    let clean = values.clean(&owner.name);
    let name = values.tape.text_token(clean.as_deref().unwrap_or(&owner.name));
    let members = SliceMembers {
        phase: b'C',
        name: Some(name),
        pid: owner.pid,
        tid: owner.tid,
        args: Some(at),
        args_mark,
        ..SliceMembers::default()
    };
    (members, BuiltEvent { ids: owner.ids, part: PhasePart::Counter })
}

/// A part of a track event.
fn track_event(
    values: &mut Values<'_, '_>,
    rest: &mut Rest,
    context: EventContext<'_>,
    content: &[u8],
    sub: u16,
) -> Built {
    let ValueContext { packet, state, .. } = values.context;
    let event = TrackEvent::read(content);
    if sub >= part::FIRST_COUNTER {
        let extra = event.extra_counters(state, packet);
        let &(track, value) = extra.get(usize::from(sub - part::FIRST_COUNTER))?;
        let owner = context.tracks.owner(track);
        return Some(counter(values, rest, context, (Some(track), value, sub), &owner));
    }
    let owner = event.owner(state, packet, context.tracks);
    let track = event.track(state, packet);
    if let (b'C', Some(value)) = (event.phase, event.value) {
        return Some(counter(values, rest, context, (track, value, sub), &owner));
    }
    let name = match (event.name, event.name_iid.or(event.legacy.name_iid)) {
        (Some(name), _) => Some(name.to_vec()),
        (None, Some(iid)) => Some(values.interned(interned::EVENT_NAMES, iid)),
        (None, None) => None,
    };
    let name = name.map(|name| match values.clean(&name) {
        Some(clean) => values.tape.text_token(&clean),
        None => values.tape.text_token(&name),
    });
    let members = SliceMembers { phase: event.phase, name, pid: owner.pid, tid: owner.tid, ..SliceMembers::default() };
    if sub == part::END {
        put_track(values, rest, track, &owner);
        // The end of a slice that one event is the whole of has nothing of its own but its place.
        return Some((members, BuiltEvent { ids: owner.ids, part: PhasePart::Exit }));
    }
    let part = PhasePart::from_phase(event.phase);
    let members = track_event_members(values, rest, members, &event, content, |values, rest| {
        put_track(values, rest, track, &owner);
    });
    Some((members, BuiltEvent { ids: owner.ids, part }))
}

/// Fields of a track event that are read elsewhere.
const OWN_FIELDS: [u32; 22] = [1, 3, 4, 6, 9, 10, 11, 12, 16, 21, 22, 23, 30, 31, 34, 36, 42, 44, 45, 46, 47, 48];
/// Fields of its part that is an event of trace JSON, which become members as they are.
const LEGACY_FIELDS: [u32; 6] = [4, 9, 12, 13, 14, 15];

/// Adds the annotations and the other members of a track event.
fn track_event_members(
    values: &mut Values<'_, '_>,
    rest: &mut Rest,
    mut members: SliceMembers,
    event: &TrackEvent<'_>,
    content: &[u8],
    put_track: impl FnOnce(&mut Values<'_, '_>, &mut Rest),
) -> SliceMembers {
    let at = values.tape.tokens.len();
    let (mut open, mut keys): (Option<OpenValue>, _) = (None, KnownKeys::default());
    let (mut categories, mut flows, mut ends, mut location, mut log, mut others) =
        (Vec::<u8>::new(), Vec::new(), Vec::new(), None, None, false);
    let add_category = |categories: &mut Vec<u8>, category: &[u8]| {
        if !categories.is_empty() {
            categories.push(b',');
        }
        categories.extend_from_slice(category);
    };
    for (number, value) in WireFields::new(content) {
        match (number, value) {
            (4, WireValue::Bytes(annotation)) => {
                let mut list = open.take().unwrap_or_else(|| values.tape.begin(TokenKind::Object));
                values.annotation((&mut list, &mut keys), annotation, 0);
                open = Some(list);
            }
            (3, value) => value.each_varint(|iid| {
                let category = values.interned(interned::CATEGORIES, iid);
                add_category(&mut categories, &category);
            }),
            (22, WireValue::Bytes(category)) => add_category(&mut categories, category),
            (36, value) => value.each_varint(|flow| flows.push(flow)),
            (47, value) => each_fixed64(value, |flow| flows.push(flow)),
            (42, value) => value.each_varint(|flow| ends.push(flow)),
            (48, value) => each_fixed64(value, |flow| ends.push(flow)),
            (34, value) => location = Some(value.number()),
            (21, WireValue::Bytes(message)) => log = Some(message),
            (number, _) => others |= !OWN_FIELDS.contains(&number),
        }
    }
    if let Some(open) = open {
        (members.args, members.args_mark) = (Some(at), values.tape.end(open));
    }
    put_track(values, rest);
    if !categories.is_empty() {
        rest.add(values, "category", |values| values.text(&categories));
    }
    for (list, one, many) in [(&flows, "flow_id", "flow_ids"), (&ends, "terminating_flow_id", "terminating_flow_ids")] {
        match list[..] {
            [] => {}
            [flow] => rest.add(values, one, |values| values.tape.integer(flow.into())),
            [..] => rest.add(values, many, |values| {
                let mut open = values.tape.begin(TokenKind::Array);
                for flow in list {
                    let mark = values.tape.integer((*flow).into());
                    values.tape.add(&mut open, mark);
                }
                values.tape.end(open)
            }),
        }
    }
    if let Some(iid) = location {
        let ValueContext { bytes, packet, state } = values.context;
        let entry = state.entry(bytes, packet, interned::SOURCE_LOCATIONS, iid);
        if let (Some(entry), Some(of)) = (entry, message("SourceLocation")) {
            rest.add(values, "source_location", |values| {
                // Without its number, which means something in this state only.
                let end = WireFields::new(entry);
                let (mut open, mut keys) = (values.tape.begin(TokenKind::Object), KnownKeys::default());
                for (number, value) in end.filter(|(number, _)| *number != 1) {
                    let Some(field) = of.field(number) else { continue };
                    values.member((&mut open, &mut keys), field.name.as_bytes(), |values| match value {
                        WireValue::Bytes(text) => values.text(text),
                        number => values.tape.integer(number.number().into()),
                    });
                }
                values.tape.end(open)
            });
        } else {
            *values.unknown_texts += 1;
        }
    }
    if let Some(log) = log {
        let body = WireFields::new(log).find(|(number, _)| *number == 2).map(|(_, value)| value.number());
        let text = body.map(|iid| values.interned(interned::LOG_BODIES, iid)).unwrap_or_default();
        rest.add(values, "log_message", |values| values.text(&text));
    }
    let legacy = &event.legacy;
    if let Some((field, id)) = legacy.id {
        let name = match field {
            10 => "local_id",
            11 => "global_id",
            _ => "id",
        };
        rest.add(values, name, |values| values.tape.integer(id.into()));
        (members.has_id, members.is_local) = (true, field == 10);
        members.id_mark = mix_bytes(mix_bytes(mix(field.into(), id), legacy.scope), &categories);
    }
    if !legacy.scope.is_empty() {
        rest.add(values, "id_scope", |values| values.text(legacy.scope));
    }
    if let Some(id) = legacy.bind_id {
        rest.add(values, if flows.is_empty() { "flow_id" } else { "bind_id" }, |values| values.tape.integer(id.into()));
    }
    if legacy.has_others
        && let Some(of) = message("TrackEvent.LegacyEvent")
    {
        let content =
            WireFields::new(content).find(|(number, _)| *number == 6).map_or(&[][..], |(_, value)| value.bytes());
        for (number, value) in WireFields::new(content).filter(|(number, _)| LEGACY_FIELDS.contains(number)) {
            let Some(field) = of.field(number) else { continue };
            rest.add(values, field.name, |values| values.field(field, value));
        }
    }
    if others && let Some(of) = message("TrackEvent") {
        for (number, value) in WireFields::new(content).filter(|(number, _)| !OWN_FIELDS.contains(number)) {
            let ValueContext { bytes, packet, state } = values.context;
            match (number, of.field(number)) {
                (54, _) => {
                    let text = state.text(bytes, packet, interned::CORRELATION_IDS, value.number()).unwrap_or_default();
                    rest.add(values, "correlation_id", |values| values.text(text));
                }
                (56, _) => {
                    let frames = frames(values, value.number());
                    rest.add(values, "callchain", |values| {
                        let mut list = values.tape.begin(TokenKind::Array);
                        for frame in frames.iter().rev() {
                            let mark = values.text(frame);
                            values.tape.add(&mut list, mark);
                        }
                        values.tape.end(list)
                    });
                }
                (_, Some(field)) => rest.add(values, field.name, |values| values.field(field, value)),
                (number, None) => rest.add(values, &format!("field_{number}"), |values| values.unknown(value)),
            }
        }
    }
    members
}

/// The numbers of a list of eight bytes each, packed or not.
fn each_fixed64(value: WireValue<'_>, mut each: impl FnMut(u64)) {
    match value {
        WireValue::Bytes(bytes) => bytes.as_chunks().0.iter().for_each(|chunk| each(u64::from_le_bytes(*chunk))),
        one => each(one.number()),
    }
}
