//! From what the lines are to streams and classes of traces.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tracemill_model::error::Error;
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{
    ClockClass, ClockId, ClockOrigin, EventClass, EventClassId, Schema, StreamClass, StreamClassId,
};

use super::line::{PACKET_CONTEXT, STREAM_SCOPES, TimeKind};
use super::survey::{ContextInfo, Survey};
use tracemill_format::Stream;
use tracemill_format::json::ValueShape;

/// Streams of one class; contexts of more packets at once share them.
const MAX_STREAMS: usize = 1 << 12;
/// Classes that a new one is compared with.
const MAX_COMPARED: usize = 64;

/// Key of a class: stream, id, whether its events have no time, name.
type ClassKey<'a> = (usize, Option<u64>, bool, Option<&'a str>);

/// A stream class of one trace.
#[derive(Debug)]
pub(super) struct StreamKind {
    pub(super) group: usize,
    pub(super) time: TimeKind,
    /// Offset that is subtracted from ns to get clock values.
    pub(super) base_ns: i128,
    pub(super) shapes: [Option<ValueShape>; STREAM_SCOPES],
    pub(super) class: StreamClassId,
}

/// An event class.
#[derive(Debug)]
pub(super) struct EventKind {
    pub(super) stream: usize,
    pub(super) shapes: [Option<ValueShape>; 2],
    pub(super) class: EventClassId,
    name: Option<String>,
    id: Option<u64>,
    is_untimed: bool,
}

/// A trace of a file.
pub(super) struct TraceKind {
    pub(super) name: Option<String>,
    pub(super) schema: Schema,
    /// Without their file.
    pub(super) streams: Vec<Stream>,
}

/// The classes of a file, and which lines have which.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    pub(super) streams: Vec<StreamKind>,
    pub(super) events: Vec<EventKind>,
    /// By the numbers that the first pass gave.
    pub(super) event_of: Vec<usize>,
    stream_of: Vec<usize>,
}

impl Kinds {
    /// Makes the classes, and the traces that have them. Warnings go to the survey.
    pub(super) fn new(survey: &mut Survey, path: &Path, file_name: &str) -> (Kinds, Vec<TraceKind>) {
        let mut kinds = Kinds::default();
        kinds.join_streams(survey, path);
        kinds.join_events(survey);
        let finish = |shape: &mut Option<ValueShape>| shape.iter_mut().for_each(ValueShape::finish);
        kinds.streams.iter_mut().flat_map(|of| &mut of.shapes).for_each(finish);
        kinds.events.iter_mut().flat_map(|of| &mut of.shapes).for_each(finish);
        let trace = |(at, name): (usize, &Option<String>)| TraceKind {
            name: name.clone(),
            schema: kinds.schema(survey, at),
            streams: Vec::new(),
        };
        let mut traces: Vec<TraceKind> = survey.traces.iter().enumerate().map(trace).collect();
        kinds.streams(survey, file_name, &mut traces);
        (kinds, traces)
    }

    /// Stream classes whose shapes show each other's values are one.
    fn join_streams(&mut self, survey: &mut Survey, path: &Path) {
        let fits: Vec<bool> = survey.groups.iter().map(|group| group.clock.clock().is_some()).collect();
        for (group, _) in survey.groups.iter().zip(&fits).filter(|(group, fits)| group.at.is_some() && !**fits) {
            let stream = group.id.map_or(String::new(), |id| format!(" of stream {id}"));
            let message =
                format!("no clock gives the `ns` of all lines{stream} from their `cycles`: these are left out");
            survey.warnings.push(Error::inconsistent(message).in_file(path).at_offset(group.at.unwrap_or(0)));
        }
        let mut known: HashMap<(usize, TimeKind), Vec<usize>> = HashMap::new();
        // Traces whose span was looked at.
        let mut far = HashSet::new();
        for of in &survey.streams {
            let group = &survey.groups[of.group];
            let mut time = of.kind;
            if time == TimeKind::None {
                time = group.first_kind.unwrap_or(TimeKind::None);
            }
            if time == TimeKind::Both && !fits[of.group] {
                time = TimeKind::Ns;
            }
            let candidates = known.entry((of.group, time)).or_default();
            let mut nearest = candidates.iter().rev().take(MAX_COMPARED);
            let joined = nearest.find_map(|&at| Some((at, join_all(&self.streams[at].shapes, &of.shapes)?)));
            self.stream_of.push(match joined {
                Some((at, shapes)) => {
                    self.streams[at].shapes = shapes;
                    at
                }
                None => {
                    candidates.push(self.streams.len());
                    if time == TimeKind::Ns && far.insert(group.trace) {
                        let span = survey.ns[group.trace].map_or(0, |(low, high)| high.saturating_sub(low));
                        if span > u64::MAX.into() {
                            let message = "times of a trace are more than 2^64 ns apart: later ones are held there";
                            let help = "lines of a trace whose clock can be found have no such limit";
                            survey.faults.push(Error::unsupported(message).with_help(help).in_file(path));
                        }
                    }
                    let base_ns = match survey.ns[group.trace] {
                        Some((low, high)) if low < 0 || high > u64::MAX.into() => low,
                        _ => 0,
                    };
                    let (shapes, class) = (of.shapes.clone(), StreamClassId(0));
                    self.streams.push(StreamKind { group: of.group, time, base_ns, shapes, class });
                    self.streams.len() - 1
                }
            });
        }
    }

    fn join_events(&mut self, survey: &Survey) {
        let mut known: BTreeMap<ClassKey<'_>, Vec<usize>> = BTreeMap::new();
        for of in &survey.events {
            let stream = self.stream_of[of.stream];
            let has_time = self.streams[stream].time != TimeKind::None;
            let is_untimed = has_time && survey.streams[of.stream].kind == TimeKind::None;
            let candidates = known.entry((stream, of.id, is_untimed, of.name.as_deref())).or_default();
            let mut nearest = candidates.iter().rev().take(MAX_COMPARED);
            let joined = nearest.find_map(|&at| Some((at, join_all(&self.events[at].shapes, &of.shapes)?)));
            self.event_of.push(match joined {
                Some((at, shapes)) => {
                    self.events[at].shapes = shapes;
                    at
                }
                None => {
                    candidates.push(self.events.len());
                    let (shapes, name) = (of.shapes.clone(), of.name.clone());
                    let class = EventClassId(0);
                    self.events.push(EventKind { stream, shapes, class, name, id: of.id, is_untimed });
                    self.events.len() - 1
                }
            });
        }
    }

    /// The schema of a trace.
    fn schema(&mut self, survey: &Survey, trace: usize) -> Schema {
        let mut schema = Schema::new("jsonl");
        let is_own = |group: usize| survey.groups[group].trace == trace;
        let first_ns = survey.ns[trace].map_or(0, |(low, _)| low);
        let mut clocks: HashMap<(usize, TimeKind), ClockId> = HashMap::new();
        let class_of = |shapes: &[Option<ValueShape>], at: usize, schema: &mut Schema| {
            shapes.get(at).and_then(Option::as_ref).map(|shape| shape.class(schema))
        };
        for stream in self.streams.iter_mut().filter(|of| is_own(of.group)) {
            let group = &survey.groups[stream.group];
            let time = stream.time;
            let default_clock = (time != TimeKind::None).then(|| {
                // Ns are those of one clock for the trace.
                let of = if time == TimeKind::Ns { 0 } else { stream.group };
                *clocks.entry((of, time)).or_insert_with(|| {
                    let own =
                        ClockClass { origin: ClockOrigin::of_first_ns(first_ns), ..ClockClass::nanoseconds("ns") };
                    let class = match time {
                        TimeKind::Ns => ClockClass { has_made_cycles: true, offset_cycles: stream.base_ns, ..own },
                        TimeKind::Cycles => ClockClass { frequency: 0, ..own },
                        _ => ClockClass { origin: own.origin.clone(), ..group.clock.clock().unwrap_or(own) },
                    };
                    let id: Arc<str> = match group.id {
                        _ if time == TimeKind::Ns => "ns".into(),
                        Some(id) => format!("clock{id}").into(),
                        None => "clock".into(),
                    };
                    schema.add_clock(ClockClass { name: Some(id.clone()), id, ..class })
                })
            });
            let class = StreamClass {
                id: group.id.unwrap_or(0),
                has_no_id: group.id.is_none(),
                default_clock,
                event_header: class_of(&stream.shapes, 0, &mut schema),
                packet_context: class_of(&stream.shapes, PACKET_CONTEXT, &mut schema),
                common_context: class_of(&stream.shapes, 2, &mut schema),
                ..StreamClass::default()
            };
            stream.class = schema.add_twin_stream(class);
        }
        for event in &mut self.events {
            let stream = &self.streams[event.stream];
            if !is_own(stream.group) {
                continue;
            }
            let mut class = EventClass::new(event.id.unwrap_or(0), stream.class);
            if event.id.is_none() {
                let taken = &schema.stream(stream.class).events;
                class.id = (taken.len() as u64..).find(|id| !taken.contains_key(id)).unwrap_or(u64::MAX);
            }
            class.name = event.name.as_deref().map(Into::into);
            class.is_untimed = event.is_untimed;
            class.specific_context = class_of(&event.shapes, 0, &mut schema);
            class.payload = class_of(&event.shapes, 1, &mut schema);
            event.class = schema.add_twin_event(class);
        }
        schema
    }

    /// Streams: lines of one class and CPU, and of these such that the packets follow each other.
    fn streams(&self, survey: &mut Survey, file_name: &str, traces: &mut [TraceKind]) {
        let mut of_class: BTreeMap<(usize, Option<u32>), Vec<usize>> = BTreeMap::new();
        for (at, context) in survey.contexts.iter().enumerate() {
            of_class.entry((self.stream_of[context.stream], context.cpu)).or_default().push(at);
        }
        // For each context its trace and its stream there.
        let mut stream_in = vec![(0, 0); survey.contexts.len()];
        for (&(stream, cpu), contexts) in &of_class {
            let of = &self.streams[stream];
            let group = &survey.groups[of.group];
            let streams = &mut traces[group.trace].streams;
            let first = streams.len();
            for (&context, place) in contexts.iter().zip(streams_of(contexts, &survey.contexts)) {
                while streams.len() <= first + place {
                    let mut name = format!("{file_name}:stream{}", group.id.unwrap_or(0));
                    if let Some(cpu) = cpu {
                        name += &format!("_cpu{cpu}");
                    }
                    streams.push(Stream {
                        name,
                        class: of.class,
                        id: None,
                        files: Vec::new(),
                        packets: PacketList::default(),
                    });
                }
                stream_in[context] = (group.trace, first + place);
            }
        }
        for trace in traces.iter_mut() {
            let mut taken: HashMap<String, u32> = HashMap::new();
            for stream in &mut trace.streams {
                let count = taken.entry(stream.name.clone()).or_default();
                *count += 1;
                if *count > 1 {
                    stream.name += &format!("_{count}");
                }
            }
        }
        for (index, packet) in survey.packets.iter().enumerate() {
            let (trace, place) = stream_in[packet.context];
            let kind = &self.streams[self.stream_of[survey.contexts[packet.context].stream]];
            let range = match kind.time {
                TimeKind::None => None,
                TimeKind::Ns => packet.range_ns.or(packet.before.map(|(_, ns)| (ns, ns))),
                _ => packet.range.or(packet.before.map(|(time, _)| (time, time))),
            };
            let stream = &mut traces[trace].streams[place];
            let bits = packet.bytes * 8;
            stream.packets.push(&Packet {
                index: index as u64,
                begin_cycles: range.map(|(low, _)| kind.cycles(low)),
                end_cycles: range.map(|(_, high)| kind.cycles(high)),
                ..Packet::new(stream.class, packet.at, bits)
            });
        }
    }
}

impl StreamKind {
    /// The clock value of a time as the lines say it.
    pub(super) fn cycles(&self, time: i128) -> u64 {
        let time = if self.time == TimeKind::Ns { time - self.base_ns } else { time };
        u64::try_from(time).unwrap_or(if time < 0 { 0 } else { u64::MAX })
    }
}

/// The streams of contexts: two of them that have lines in the same part of the file are not in one.
fn streams_of(contexts: &[usize], of: &[ContextInfo]) -> Vec<usize> {
    let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut count = 0;
    let stream = |&context: &usize| {
        let (first, last) = of[context].lines;
        let free = ends.peek().is_some_and(|Reverse((end, _))| *end < first) || count >= MAX_STREAMS;
        let stream = match if free { ends.pop() } else { None } {
            Some(Reverse((_, stream))) => stream,
            None => {
                count += 1;
                count - 1
            }
        };
        ends.push(Reverse((last, stream)));
        stream
    };
    contexts.iter().map(stream).collect()
}

fn join_all<const N: usize>(
    a: &[Option<ValueShape>; N],
    b: &[Option<ValueShape>; N],
) -> Option<[Option<ValueShape>; N]> {
    let mut joined = [const { None }; N];
    for (joined, (a, b)) in joined.iter_mut().zip(a.iter().zip(b)) {
        *joined = match (a, b) {
            (None, None) => None,
            (Some(a), Some(b)) => Some(a.join(b)?),
            _ => return None,
        };
    }
    Some(joined)
}
