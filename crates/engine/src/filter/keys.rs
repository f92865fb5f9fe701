//! Paths as keys: what puts events into groups. Most keys are an integer at a fixed place, read without a visit.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::{DecoderState, FixedInteger, FixedText, NoVisitor};
use tracemill_model::schema::{EventClassId, FieldPath, Schema, Scope};
use tracemill_semantics::Semantics;

use super::capture::{Capture, CapturedFields, CapturedValues, StoredValue};
use super::columns::PathColumns;
use super::number::EventNumber;
use super::resolve::{self, Detail, FieldPlace, PathPlace};
use super::syntax::{Path, PathHead, StepKind, SyntaxStep};
use crate::event::Event;
use crate::session::Session;
use tracemill_codec::text::Span;

/// Key by which the events of a session are grouped.
#[derive(Clone, Debug)]
pub enum KeyBy {
    /// The values of paths, over all traces together.
    Paths(PathColumns),
    /// In each trace on its own: the first of these fields that an event has, otherwise the name of its stream.
    First(&'static [&'static str]),
    /// In each trace on its own: the process that an event is of, otherwise the name of its stream.
    Process,
    /// Fields of event classes, by trace and class, each with the index of its name.
    Fields(Arc<Vec<Vec<ClassFields>>>),
}

/// See [`KeyBy::Fields`].
pub type ClassFields = Vec<(u8, FieldPath)>;

/// One value of a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeyValue {
    /// The event has no such thing.
    Absent,
    /// An integer.
    Integer(i128),
    /// A boolean.
    Bool(bool),
    /// The text of a number that is no integer of 128 bits.
    Number(String),
    /// A string.
    Text(Vec<u8>),
}

impl fmt::Display for KeyValue {
    /// The value as it is; nothing for an absent one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyValue::Absent => Ok(()),
            KeyValue::Integer(value) => value.fmt(f),
            KeyValue::Bool(value) => value.fmt(f),
            KeyValue::Number(text) => text.fmt(f),
            KeyValue::Text(text) => String::from_utf8_lossy(text).fmt(f),
        }
    }
}

/// Reads the keys of events, in one thread.
pub struct KeyReader {
    by: KeyBy,
    names: Vec<String>,
    traces: Vec<TraceKeys>,
    /// Numbers of keys that differ in an integer only, by the encoding of the rest.
    spaces: HashMap<Vec<u8>, u64>,
    values: CapturedValues,
    state: DecoderState,
    indices: Vec<u64>,
}

struct TraceKeys {
    name: String,
    streams: Vec<String>,
    schema: Arc<Schema>,
    /// Number of streams in the traces before.
    first_stream: u64,
    /// By event class.
    programs: Vec<Option<Box<Program>>>,
}

/// Keys of one event class.
struct Program {
    /// Index of the name, and where the value is.
    parts: Vec<(u8, PathPlace, Detail)>,
    wants: Wants,
    label_places: Vec<(PathPlace, Detail)>,
    labels: Wants,
    quick: Quick,
}

/// How much of a key its class decides.
enum Quick {
    /// All but, maybe, an integer. The number is of `spaces`.
    Space(u64, Option<FixedInteger>),
    /// As for `Space`, and the stream decides too.
    Stream(Option<FixedInteger>),
    /// All, together with the packet.
    Packet,
    Never,
}

/// Fields of the scopes of an event that are wanted.
#[derive(Default)]
pub(super) struct Wants {
    packet: CapturedFields,
    header: CapturedFields,
    body: CapturedFields,
    sections: [bool; 3],
}

/// The scopes whose fields come one after the other in a plan.
const BODY: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
/// Ends of the names of fields that say in words what the field of the same name without them says in numbers.
const LABELS: [&str; 2] = ["_name", "_text"];

impl KeyReader {
    /// A reader for the events of a session.
    pub fn new(session: &Session, by: &KeyBy) -> Self {
        let mut first_stream = 0;
        let traces = session.traces.iter().map(|trace| {
            let keys = TraceKeys {
                name: trace.name.clone(),
                streams: trace.streams.iter().map(|stream| stream.name.clone()).collect(),
                schema: trace.schema.clone(),
                first_stream,
                programs: std::iter::repeat_with(|| None).take(trace.schema.events().len()).collect(),
            };
            first_stream += trace.streams.len() as u64;
            keys
        });
        let names = match by {
            KeyBy::Paths(columns) => columns.names().map(str::to_string).collect(),
            KeyBy::First(fields) => {
                ["trace"].iter().chain(fields.iter()).chain(&["stream"]).map(|name| name.to_string()).collect()
            }
            KeyBy::Process => ["trace", "process", "stream"].map(str::to_string).to_vec(),
            KeyBy::Fields(_) => Vec::new(),
        };
        KeyReader {
            by: by.clone(),
            names,
            traces: traces.collect(),
            spaces: HashMap::new(),
            values: CapturedValues::default(),
            state: DecoderState::default(),
            indices: Vec::new(),
        }
    }

    /// The names of the values that keys may have.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// A cheap name of the event's key: events with equal ones have equal keys. `None` when it has no cheap one.
    #[inline]
    pub fn quick(&mut self, event: &Event) -> Option<(u64, u64)> {
        let class = event.raw.class();
        if self.traces[event.trace].programs[class.0 as usize].is_none() {
            self.prepare(event);
        }
        let trace = &self.traces[event.trace];
        let (space, fixed) = match &trace.programs[class.0 as usize].as_ref()?.quick {
            Quick::Space(space, fixed) => (*space, fixed),
            Quick::Stream(fixed) => {
                (1 << 63 | (trace.first_stream + event.stream as u64) << 32 | u64::from(class.0), fixed)
            }
            Quick::Packet => {
                // Of a packet only its place is the same for all threads and at all times.
                let packet = &event.raw.chunk.packet.packet;
                if packet.offset_bytes >> 48 != 0 || packet.file >> 16 != 0 {
                    return None;
                }
                let stream = trace.first_stream + event.stream as u64;
                let space = 1 << 62 | stream << 32 | u64::from(class.0);
                return Some((space, u64::from(packet.file) << 48 | packet.offset_bytes));
            }
            Quick::Never => return None,
        };
        let chunk = event.raw.chunk;
        match fixed {
            None => Some((space, 0)),
            Some(fixed) => Some((space, fixed.read(chunk.packet.input(), chunk.body_bits(event.raw.at))?)),
        }
    }

    /// Appends the event's key: equal bytes are equal keys. [`KeyReader::decode`] takes it apart.
    pub fn encode(&mut self, event: &Event, out: &mut Vec<u8>) {
        self.prepare(event);
        let KeyReader { traces, values, state, indices, .. } = self;
        let trace = &traces[event.trace];
        let Some(program) = &trace.programs[event.raw.class().0 as usize] else { return };
        program.wants.capture(event.raw, program.parts.len(), values, state, indices);
        for (at, (name, place, _)) in program.parts.iter().enumerate() {
            out.push(*name);
            match place {
                PathPlace::Absent => out.push(0),
                PathPlace::Spine(head) => trace.put_spine(event, *head, out),
                PathPlace::Field(_) => put_stored(values, at, out),
            }
        }
    }

    /// The values of the event's key with the indexes of their names; `key` is storage.
    pub fn values(&mut self, event: &Event, key: &mut Vec<u8>) -> Vec<(usize, KeyValue)> {
        key.clear();
        self.encode(event, key);
        KeyReader::decode(key)
    }

    /// The values of a key with the indexes of their names.
    pub fn decode(key: &[u8]) -> Vec<(usize, KeyValue)> {
        let mut rest = key;
        let mut parts = Vec::new();
        while let Some((&[name, tag], after)) = rest.split_first_chunk::<2>() {
            let Some((value, after)) = decode_value(tag, after) else { break };
            parts.push((usize::from(name), value));
            rest = after;
        }
        parts
    }

    /// The words of the event for its key: for each value with words beside it (a field of the same name and `_name` or
    /// `_text`, or the labels of an enumeration) those.
    pub fn label(&mut self, event: &Event) -> Option<String> {
        self.prepare(event);
        let KeyReader { traces, values, state, indices, .. } = self;
        let program = traces[event.trace].programs[event.raw.class().0 as usize].as_ref()?;
        program.labels.capture(event.raw, program.label_places.len(), values, state, indices);
        let beside = (0..program.parts.len()).map(|at| match values.get(at) {
            Some(StoredValue::Text(begin, end)) if begin < end => {
                Some(String::from_utf8_lossy(values.text(*begin, *end)).into_owned())
            }
            _ => None,
        });
        let beside: Vec<Option<String>> = beside.collect();
        program.wants.capture(event.raw, program.parts.len(), values, state, indices);
        let words = beside.into_iter().zip(&program.parts).enumerate().filter_map(|(at, (beside, (_, _, detail)))| {
            beside.or_else(|| match (detail, values.get(at)) {
                (Detail::Labels(mappings), Some(StoredValue::Number(EventNumber::Int(value)))) => {
                    mappings.labels_for(*value).next().map(|label| label.to_string())
                }
                _ => None,
            })
        });
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    fn prepare(&mut self, event: &Event) {
        let class = event.raw.class();
        let trace = &self.traces[event.trace];
        if trace.programs[class.0 as usize].is_some() {
            return;
        }
        let (parts, label_places) = self.parts(event.trace, class);
        let mut program = Program {
            wants: Wants::new(event.raw, parts.iter().map(|(_, place, detail)| (place, detail))),
            labels: Wants::new(event.raw, label_places.iter().map(|(place, detail)| (place, detail))),
            parts,
            label_places,
            quick: Quick::Never,
        };
        program.quick = self.quick_of(event, &program);
        self.traces[event.trace].programs[class.0 as usize] = Some(Box::new(program));
    }

    /// The values of the keys of a class, and what may stand beside them.
    #[expect(clippy::type_complexity, reason = "two lists that belong together")]
    fn parts(&self, trace: usize, class: EventClassId) -> (Vec<(u8, PathPlace, Detail)>, Vec<(PathPlace, Detail)>) {
        let schema = &self.traces[trace].schema;
        let trace_part = (self.traces.len() > 1).then_some((0, None, PathPlace::Spine(PathHead::Trace)));
        let paths: Vec<(u8, Option<Path>, PathPlace)> = match &self.by {
            KeyBy::Paths(columns) => {
                let places = columns.places(schema, class).into_iter();
                places
                    .zip(columns.paths())
                    .enumerate()
                    .map(|(at, (place, path))| (at as u8, Some(path.clone()), place))
                    .collect()
            }
            KeyBy::First(fields) => {
                let found = fields.iter().enumerate().find_map(|(at, name)| {
                    let path = bare(name);
                    let place = resolve::resolve(schema, class, &path).ok()?;
                    let is_value =
                        place.kind(schema).is_some_and(|kind| !matches!(kind, resolve::ComparableKind::Nothing(_)));
                    is_value.then_some((at as u8 + 1, Some(path), place))
                });
                let stream = (fields.len() as u8 + 1, None, PathPlace::Spine(PathHead::StreamName));
                trace_part.into_iter().chain([found.unwrap_or(stream)]).collect()
            }
            KeyBy::Process => {
                let process = Semantics::new(schema).who(class).process;
                let field = process.and_then(|path| FieldPlace::resolve(schema, class, &path));
                let part = field
                    .map_or((2, None, PathPlace::Spine(PathHead::StreamName)), |of| (1, None, PathPlace::Field(of)));
                trace_part.into_iter().chain([part]).collect()
            }
            KeyBy::Fields(fields) => {
                let place = |path| FieldPlace::resolve(schema, class, path).map_or(PathPlace::Absent, PathPlace::Field);
                fields[trace][class.0 as usize].iter().map(|(name, path)| (*name, None, place(path))).collect()
            }
        };
        let (mut parts, mut labels) = (Vec::new(), Vec::new());
        for (name, path, place) in paths {
            let label = path.and_then(|path| paired_text(schema, class, &path)).unwrap_or(PathPlace::Absent);
            let (detail_of_label, detail) = (label.detail(schema), place.detail(schema));
            labels.push((label, detail_of_label));
            parts.push((name, place, detail));
        }
        (parts, labels)
    }

    fn quick_of(&mut self, event: &Event, program: &Program) -> Quick {
        let trace = &self.traces[event.trace];
        let class = trace.schema.event(event.raw.class());
        let (mut fixed, mut by_stream, mut by_packet, mut space) = (None, false, false, Vec::new());
        for (at, (name, place, _)) in program.parts.iter().enumerate() {
            space.push(*name);
            match place {
                PathPlace::Absent => space.push(0),
                PathPlace::Spine(PathHead::StreamName) => by_stream = true,
                PathPlace::Spine(PathHead::Name | PathHead::Id) if class.open_ids.is_some() => return Quick::Never,
                PathPlace::Spine(head @ (PathHead::Name | PathHead::Id | PathHead::Stream | PathHead::Trace)) => {
                    trace.put_spine(event, *head, &mut space);
                }
                PathPlace::Spine(PathHead::Cpu) => by_packet = true,
                PathPlace::Field(field) if matches!(field.scope, Scope::PacketHeader | Scope::PacketContext) => {
                    by_packet = true;
                }
                PathPlace::Spine(_) => return Quick::Never,
                PathPlace::Field(_) => {
                    let Some(integer) = program.wants.fixed(event.raw, at).filter(|_| fixed.is_none()) else {
                        return Quick::Never;
                    };
                    space.extend([u8::MAX, integer.is_signed().into()]);
                    fixed = Some(integer);
                }
            }
        }
        if by_packet {
            return if fixed.is_none() { Quick::Packet } else { Quick::Never };
        }
        if by_stream {
            return Quick::Stream(fixed);
        }
        let next = self.spaces.len() as u64;
        Quick::Space(*self.spaces.entry(space).or_insert(next), fixed)
    }
}

impl TraceKeys {
    fn put_spine(&self, event: &Event, head: PathHead, out: &mut Vec<u8>) {
        let class = self.schema.event(event.raw.class());
        match (head, event.ns) {
            (PathHead::Name, _) => match event.name(&mut Vec::new()) {
                Some(name) => put_text(name, out),
                None => out.push(0),
            },
            (PathHead::Id, _) => put_integer(event.id().into(), out),
            (PathHead::Stream, _) => put_integer(self.schema.stream(class.stream).id.into(), out),
            (PathHead::StreamName, _) => {
                put_text(self.streams.get(event.stream).map_or(b"", |name| name.as_bytes()), out)
            }
            (PathHead::Trace, _) => put_text(self.name.as_bytes(), out),
            (PathHead::Cpu, _) => match event.raw.chunk.packet.cpu {
                Some(cpu) => put_integer(cpu.into(), out),
                None => out.push(0),
            },
            (PathHead::Ns | PathHead::Time, Some(ns)) => put_integer(ns, out),
            (PathHead::Cycles, _) => put_integer(event.raw.cycles().into(), out),
            _ => out.push(0),
        }
    }
}

fn put_integer(value: i128, out: &mut Vec<u8>) {
    out.push(1);
    out.extend(value.to_le_bytes());
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    put_tagged(2, text, out);
}

fn put_tagged(tag: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}

fn put_stored(values: &CapturedValues, at: usize, out: &mut Vec<u8>) {
    match values.get(at) {
        Some(StoredValue::Number(EventNumber::Int(value))) => put_integer(*value, out),
        Some(StoredValue::Number(EventNumber::Real(value))) => put_tagged(4, value.to_string().as_bytes(), out),
        Some(StoredValue::Number(EventNumber::Wide(wide))) => put_tagged(4, wide.to_decimal().as_bytes(), out),
        Some(StoredValue::Bool(value)) => out.extend([3, u8::from(*value)]),
        Some(StoredValue::Text(begin, end)) => put_text(values.text(*begin, *end), out),
        Some(StoredValue::Other(_)) | None => out.push(0),
    }
}

fn decode_value(tag: u8, rest: &[u8]) -> Option<(KeyValue, &[u8])> {
    Some(match tag {
        0 => (KeyValue::Absent, rest),
        1 => {
            let (bytes, rest) = rest.split_first_chunk::<16>()?;
            (KeyValue::Integer(i128::from_le_bytes(*bytes)), rest)
        }
        3 => {
            let (&byte, rest) = rest.split_first()?;
            (KeyValue::Bool(byte != 0), rest)
        }
        _ => {
            let (len, rest) = rest.split_first_chunk::<8>()?;
            let (text, rest) = rest.split_at_checked(u64::from_le_bytes(*len) as usize)?;
            let number = || KeyValue::Number(String::from_utf8_lossy(text).into_owned());
            (if tag == 4 { number() } else { KeyValue::Text(text.to_vec()) }, rest)
        }
    })
}

/// A path of one word.
fn bare(name: &str) -> Path {
    let span = Span::default();
    Path { head: PathHead::Bare, steps: vec![SyntaxStep { kind: StepKind::Member(name.into()), span }], span }
}

/// The text beside the field of a path that says it in words.
fn paired_text(schema: &Schema, class: EventClassId, path: &Path) -> Option<PathPlace> {
    let (last, before) = path.steps.split_last()?;
    let StepKind::Member(name) = &last.kind else { return None };
    LABELS.iter().find_map(|end| {
        let mut path = Path { steps: before.to_vec(), ..path.clone() };
        path.steps.push(SyntaxStep { kind: StepKind::Member(format!("{name}{end}").into()), span: last.span });
        let place = resolve::resolve(schema, class, &path).ok()?;
        (place.kind(schema) == Some(resolve::ComparableKind::Text)).then_some(place)
    })
}

impl Wants {
    pub(super) fn new<'a>(event: EventRef<'_>, places: impl Iterator<Item = (&'a PathPlace, &'a Detail)>) -> Self {
        let mut wants = Wants::default();
        for (at, (place, detail)) in places.enumerate() {
            if let PathPlace::Field(place) = place {
                wants.add(event, at, place, detail);
            }
        }
        wants
    }

    /// Wants a field of the events of a class.
    pub(super) fn add(&mut self, event: EventRef<'_>, path: usize, place: &FieldPlace, detail: &Detail) {
        let packet = &event.chunk.packet;
        let (plans, stream, detail) = (&packet.plans, packet.packet.class, detail.clone());
        match place.scope {
            Scope::PacketHeader => {}
            Scope::PacketContext => self.packet.add(plans.packet_context_rows(stream), 0, path, place, detail),
            Scope::EventHeader => self.header.add(plans.header_rows(stream), 0, path, place, detail),
            scope => {
                let section = scope as usize - Scope::CommonContext as usize;
                self.body.add(plans.event_rows(event.class()), section, path, place, detail);
                self.sections[section] = true;
            }
        }
    }

    /// The integer of a path, when it stands at a fixed place.
    pub(super) fn fixed(&self, event: EventRef<'_>, path: usize) -> Option<FixedInteger> {
        let node = self.body.node_of(path)?;
        event.chunk.packet.plans.event_rows(event.class()).fixed_integer(node)
    }

    /// The text of a path, when it stands at a fixed place.
    pub(super) fn fixed_text(&self, event: EventRef<'_>, path: usize) -> Option<FixedText> {
        let node = self.body.node_of(path)?;
        event.chunk.packet.plans.event_rows(event.class()).fixed_text(node)
    }

    /// Decodes what is wanted, and no scope after the last one that is.
    pub(super) fn capture(
        &self,
        event: EventRef<'_>,
        paths: usize,
        values: &mut CapturedValues,
        state: &mut DecoderState,
        indices: &mut Vec<u64>,
    ) {
        values.clear(paths);
        // Errors end the visit: the boundary pass has reported them, and what was read before them counts.
        if !self.packet.is_empty() {
            let _ = event.chunk.packet.visit_context(&mut Capture::new(&self.packet, values, indices));
        }
        if !self.header.is_empty() {
            let _ = event.visit_header(state, &mut Capture::new(&self.header, values, indices));
        }
        let Some(last) = self.sections.iter().rposition(|&is_wanted| is_wanted) else { return };
        let mut fields = event.fields(state);
        // To walk over a scope costs less than to let the fields go to a later one.
        for (scope, is_wanted) in BODY.into_iter().zip(self.sections).take(last + 1) {
            let read = match is_wanted {
                true => fields.visit(scope, state, &mut Capture::new(&self.body, values, indices)),
                false => fields.visit(scope, state, &mut NoVisitor),
            };
            if read.is_err() {
                return;
            }
        }
    }
}
