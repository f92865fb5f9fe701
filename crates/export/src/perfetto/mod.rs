//! Perfetto's trace format: a sequence of protocol buffer packets.
//!
//! Threads, CPUs and streams are tracks. Pairs of classes are slices, all other events instants; fields are debug
//! annotations, named as in JSON lines; numbers that count have tracks of their own. Strings that repeat stand once. The
//! numbers of fields are those of Perfetto's public schema (`trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto`, `debug_annotation.proto`, `interned_data.proto`, `clock_snapshot.proto`); tests decode what is
//! written by messages of their own.

mod args;
mod proto;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::State;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};
use tracemill_format::{OutPath, SinkFile};
use tracemill_model::error::Result;
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{ClockId, ClockOrigin, Schema, Scope};

use super::tracks::{ClassRules, Number, Shape, Track, Tracks, Watch};
use crate::WRITING;
use args::{Args, Interned, Table};
use proto::Proto;

/// See the module.
pub(super) static PERFETTO: Target =
    Target::file(&["perfetto"], "protocol buffers of Perfetto, for ui.perfetto.dev and trace_processor", create)
        .cannot_hold(&[Lost::Schemas, Lost::Environment, Lost::Packets, Lost::ClampedTimes, Lost::WideIntegers]);

/// The only sequence of packets, so that strings stand once for all.
const SEQUENCE: u64 = 1;
/// Clocks: the one that times are in, and those that it is tied to.
const CLOCK_BOOTTIME: u64 = 6;
const CLOCK_REALTIME: u64 = 1;
/// The first of the numbers that are free for other clocks of all sequences.
const FIRST_CUSTOM_CLOCK: u64 = 128;
/// Sequence flags.
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
/// Types of track events.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Fields of `Trace` and `TracePacket`.
const PACKET: u32 = 1;
const CLOCK_SNAPSHOT: u32 = 6;
const TIMESTAMP: u32 = 8;
const SEQUENCE_ID: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED_DATA: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const TIMESTAMP_CLOCK_ID: u32 = 58;
const DEFAULTS: u32 = 59;
const TRACK_DESCRIPTOR: u32 = 60;
const FIRST_PACKET: u32 = 87;

/// Tracks; events of further threads stand on their streams.
const MAX_TRACKS: usize = 1 << 16;
/// Bytes after which the buffer is written.
const FLUSH: usize = 1 << 16;

struct Writer {
    path: OutPath,
    file: Option<Box<dyn SinkFile>>,
    tracks: Tracks,
    schemas: Vec<Arc<Schema>>,
    classes: Vec<Vec<Option<Box<ClassOut>>>>,
    interned: Interned,
    /// Tracks of tracks.
    announced: HashMap<Track, usize>,
    list: Vec<Announced>,
    /// Counter tracks by track and name.
    counters: HashMap<(usize, Arc<str>), (u64, Option<Number>)>,
    /// The track before, and its track.
    last: Option<(Track, usize)>,
    trace_tracks: Vec<Option<u64>>,
    processes: HashMap<i64, ()>,
    clocks: Vec<(usize, ClockId)>,
    next_uuid: u64,
    out: Proto,
    args: Proto,
    state: State,
    latest_ns: u64,
    losses: Losses,
}

/// A track that is announced.
struct Announced {
    uuid: u64,
    process: Option<i64>,
    name: Vec<u8>,
    /// Is something open that ends when another thread runs?
    is_running: bool,
}

/// What is prepared of a class.
struct ClassOut {
    rules: Arc<ClassRules>,
    category: u64,
    title: Option<u64>,
    fields: Table,
    header: Option<Table>,
}

fn create(path: &OutPath, sources: &[Source], _options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    Ok(Box::new(Writer {
        path: path.clone(),
        file: None,
        tracks: Tracks::new(sources),
        schemas: sources.iter().map(|source| source.schema.clone()).collect(),
        classes: sources.iter().map(|_| Vec::new()).collect(),
        interned: Interned::default(),
        announced: HashMap::new(),
        list: Vec::new(),
        counters: HashMap::new(),
        last: None,
        trace_tracks: vec![None; sources.len()],
        processes: HashMap::new(),
        clocks: Vec::new(),
        next_uuid: 1,
        out: Proto::default(),
        args: Proto::default(),
        state: State::default(),
        latest_ns: 0,
        losses: Losses::default(),
    }))
}

/// A number that the fields of 32 bits of threads and processes hold.
fn small(id: i64) -> Option<i64> {
    i32::try_from(id).ok().map(i64::from)
}

impl Writer {
    /// Makes the file and writes what comes before all packets.
    fn begin(&mut self) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let file = self.path.create(WRITING)?;
        self.file = Some(file);
        self.out.begin(PACKET);
        self.out.unsigned(SEQUENCE_ID, SEQUENCE);
        self.out.unsigned(SEQUENCE_FLAGS, STATE_CLEARED);
        self.out.unsigned(FIRST_PACKET, 1);
        self.out.begin(DEFAULTS);
        self.out.unsigned(TIMESTAMP_CLOCK_ID, CLOCK_BOOTTIME);
        self.out.end();
        self.out.end();
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            let written = file.write_all(self.out.written());
            written.map_err(self.path.failed(WRITING))?;
        }
        self.out.clear();
        Ok(())
    }

    /// Time of an event; what has none stands at the one before, and what no number of the format can say at the end of
    /// what they can.
    fn time(&mut self, stream: usize, event: EventRef<'_>) -> u64 {
        let Some(ns) = event.ns(self.tracks.streams[stream].clock.as_ref()) else {
            self.losses.add(Lost::UntimedEvents, 1);
            return self.latest_ns;
        };
        u64::try_from(ns).unwrap_or_else(|_| {
            self.losses.add(Lost::ClampedTimes, 1);
            nearest(ns)
        })
    }

    /// A packet begins that belongs to a time.
    fn packet(&mut self, ns: u64) {
        self.out.begin(PACKET);
        self.out.unsigned(TIMESTAMP, ns);
        self.out.unsigned(SEQUENCE_ID, SEQUENCE);
        self.out.unsigned(SEQUENCE_FLAGS, NEEDS_STATE);
    }

    /// Strings that were met since the packet before. They stand in the packet that is being written.
    fn put_interned(&mut self) {
        if !self.interned.pending.is_empty() {
            self.out.bytes(INTERNED_DATA, self.interned.pending.written());
            self.interned.pending.clear();
        }
    }

    /// Says once for each clock what it shows at a time.
    fn snapshot(&mut self, stream: usize, event: EventRef<'_>, ns: u64) {
        let trace = self.tracks.streams[stream].trace;
        let class = event.chunk.packet.packet.class;
        let Some(id) = self.schemas[trace].stream(class).default_clock else { return };
        if self.clocks.contains(&(trace, id)) {
            return;
        }
        self.clocks.push((trace, id));
        let schema = self.schemas[trace].clone();
        let clock = schema.clock(id);
        let mut own = vec![(CLOCK_BOOTTIME, ns)];
        if clock.origin == ClockOrigin::Unix {
            own.push((CLOCK_REALTIME, ns));
        }
        if clock.frequency == 1_000_000_000 && !clock.has_made_cycles {
            own.push((FIRST_CUSTOM_CLOCK + self.clocks.len() as u64 - 1, event.cycles()));
        }
        self.packet(ns);
        self.out.begin(CLOCK_SNAPSHOT);
        for (id, value) in own {
            self.out.begin(1);
            self.out.unsigned(1, id);
            self.out.unsigned(2, value);
            self.out.end();
        }
        self.out.unsigned(2, CLOCK_BOOTTIME);
        self.out.end();
        self.out.end();
    }

    fn uuid(&mut self) -> u64 {
        let uuid = self.next_uuid;
        self.next_uuid += 1;
        uuid
    }

    /// Announces a track, or announces it anew; `more` are further fields of its description.
    fn announce(&mut self, uuid: u64, parent: Option<u64>, name: &[u8], more: impl Fn(&mut Proto)) {
        self.out.begin(PACKET);
        self.out.unsigned(SEQUENCE_ID, SEQUENCE);
        self.out.unsigned(SEQUENCE_FLAGS, NEEDS_STATE);
        self.out.begin(TRACK_DESCRIPTOR);
        self.out.unsigned(1, uuid);
        if !name.is_empty() {
            self.out.bytes(2, String::from_utf8_lossy(name).as_bytes());
        }
        more(&mut self.out);
        if let Some(parent) = parent {
            self.out.unsigned(5, parent);
        }
        self.out.end();
        self.out.end();
    }

    /// The track of a trace, below which those stand that belong to no process.
    fn trace_track(&mut self, trace: usize) -> u64 {
        if let Some(uuid) = self.trace_tracks[trace] {
            return uuid;
        }
        let uuid = self.uuid();
        self.trace_tracks[trace] = Some(uuid);
        let name = self.tracks.traces[trace].name.clone();
        self.announce(uuid, None, name.as_bytes(), |_| {});
        uuid
    }

    /// The track of a track where the last event stands.
    #[inline]
    fn track(&mut self, stream: usize, track: Track) -> usize {
        let at = match self.last {
            Some((last, at)) if last == track => at,
            _ => match self.announced.get(&track) {
                Some(&at) => at,
                None => self.new_track(stream, track),
            },
        };
        self.last = Some((track, at));
        // A thread may change its name.
        let name = &self.tracks.seen.name;
        if matches!(track, Track::Thread(..) | Track::Own(..)) && !name.is_empty() && *name != self.list[at].name {
            self.rename(stream, track, at);
        }
        at
    }

    #[cold]
    fn new_track(&mut self, stream: usize, mut track: Track) -> usize {
        if self.list.len() >= MAX_TRACKS && matches!(track, Track::Thread(..) | Track::Own(..)) {
            self.losses.add(Lost::MoreTracks(MAX_TRACKS), 1);
            track = Track::Stream(stream as u32);
            if let Some(&at) = self.announced.get(&track) {
                return at;
            }
        }
        let trace = self.tracks.streams[stream].trace;
        let uuid = self.uuid();
        let (mut process, mut name) = (None, self.tracks.seen.name.clone());
        if let Track::Thread(_, thread) = track {
            let known = self.tracks.task(trace, thread);
            process = self.tracks.seen.process.or(known.map(|task| task.0));
            if let Some(known) = known.filter(|_| name.is_empty()) {
                name = known.1.clone().into_bytes();
            }
        }
        let at = self.list.len();
        self.list.push(Announced { uuid, process, name, is_running: false });
        self.announced.insert(track, at);
        self.describe(stream, track, at);
        at
    }

    #[cold]
    fn rename(&mut self, stream: usize, track: Track, at: usize) {
        self.list[at].name = self.tracks.seen.name.clone();
        self.describe(stream, track, at);
    }

    /// Announces the track of a track.
    fn describe(&mut self, stream: usize, track: Track, at: usize) {
        let trace = self.tracks.streams[stream].trace;
        let Announced { uuid, process, name, .. } = &self.list[at];
        let (uuid, process, name) = (*uuid, *process, name.clone());
        match track {
            // Ids of threads and processes mean something on one machine only.
            Track::Thread(0, thread) if process.and_then(small).is_some() && small(thread).is_some() => {
                let process = process.unwrap_or_default();
                if self.processes.insert(process, ()).is_none() {
                    let of = self.uuid();
                    let main = if thread == process { Some(name.clone()) } else { None };
                    let main = main.or_else(|| Some(self.tracks.task(trace, process)?.1.clone().into_bytes()));
                    self.announce(of, None, &[], |out| {
                        out.begin(3);
                        out.signed(1, process);
                        if let Some(name) = &main {
                            out.bytes(6, String::from_utf8_lossy(name).as_bytes());
                        }
                        out.end();
                    });
                }
                self.announce(uuid, None, &[], |out| {
                    out.begin(4);
                    out.signed(1, process);
                    out.signed(2, thread);
                    if !name.is_empty() {
                        out.bytes(5, String::from_utf8_lossy(&name).as_bytes());
                    }
                    out.end();
                });
            }
            Track::Thread(_, thread) => {
                let mut title = name;
                title.extend_from_slice(if title.is_empty() { b"thread " } else { b" " });
                title.extend_from_slice(thread.to_string().as_bytes());
                let parent = self.trace_track(trace);
                self.announce(uuid, Some(parent), &title, |_| {});
            }
            Track::Own(_, number) => {
                let parent = self.trace_track(trace);
                let title = if name.is_empty() { format!("track {number}").into_bytes() } else { name };
                self.announce(uuid, Some(parent), &title, |_| {});
            }
            Track::Cpu(_, cpu) => {
                let parent = self.trace_track(trace);
                self.announce(uuid, Some(parent), format!("CPU {cpu}").as_bytes(), |_| {});
            }
            Track::Running(_, cpu) => {
                let parent = self.trace_track(trace);
                self.announce(uuid, Some(parent), format!("CPU {cpu} runs").as_bytes(), |_| {});
            }
            Track::Stream(_) => {
                let parent = self.trace_track(trace);
                let name = self.tracks.streams[stream].name.clone();
                self.announce(uuid, Some(parent), name.as_bytes(), |_| {});
            }
        }
    }

    /// Prepares a class when its first event comes.
    fn prepare(&mut self, stream: usize, event: EventRef<'_>) -> Box<ClassOut> {
        let rules = self.tracks.class(stream, event);
        let schema = &self.schemas[self.tracks.streams[stream].trace];
        let plans = &event.chunk.packet.plans;
        let interned = &mut self.interned;
        const SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
        let header = rules.header.as_ref().map(|_| {
            let plan = plans.header_rows(event.chunk.packet.packet.class);
            Table::new(schema, plan, &[Scope::EventHeader], interned)
        });
        Box::new(ClassOut {
            category: interned.category(&rules.category),
            title: if rules.title.is_empty() { None } else { interned.title(rules.title.as_bytes()) },
            fields: Table::new(schema, plans.event_rows(event.class()), &SCOPES, interned),
            header,
            rules,
        })
    }

    /// Visits the fields of the event: annotations and what rules want to know.
    fn visit(&mut self, event: EventRef<'_>, class: &mut ClassOut) -> bool {
        self.args.clear();
        let rules = class.rules.clone();
        if let (Some(table), Some(takes)) = (&mut class.header, &rules.header) {
            let inner = Args { out: &mut self.args, table, interned: &mut self.interned, losses: &mut self.losses };
            let mut watch = Watch { inner, takes, seen: &mut self.tracks.seen };
            if event.visit_header(&mut self.state, &mut watch).is_err() {
                return false;
            }
        }
        let mut fields = event.fields(&mut self.state);
        let table = &mut class.fields;
        let inner = Args { out: &mut self.args, table, interned: &mut self.interned, losses: &mut self.losses };
        let mut watch = Watch { inner, takes: &rules.takes, seen: &mut self.tracks.seen };
        let mut visit = |scope| fields.visit(scope, &mut self.state, &mut watch).is_ok();
        visit(Scope::CommonContext) && visit(Scope::SpecificContext) && visit(Scope::Payload)
    }

    /// Writes what the last event says.
    fn put_event(&mut self, stream: usize, event: EventRef<'_>, class: &mut ClassOut, ns: u64) {
        let rules = class.rules.clone();
        let track = self.tracks.place(stream, &rules);
        let at = self.track(stream, track);
        let kind = match rules.shape {
            Shape::Begin => SLICE_BEGIN,
            Shape::End { .. } => SLICE_END,
            Shape::Instant => INSTANT,
        };
        let mut own_name = Vec::new();
        if event.chunk.packet.plans.schema().event(event.class()).open_ids.is_some() {
            event.own_id(&mut own_name);
        }
        // A title is interned here, so that it is in the packet.
        let own = if own_name.is_empty() { self.tracks.title(&rules) } else { Some(own_name.as_slice()) };
        let mut name = class.title;
        let mut spelt: &[u8] = &[];
        if let Some(own) = own {
            name = self.interned.title(own);
            spelt = own;
        } else if name.is_none() {
            spelt = rules.title.as_bytes();
        }
        let spelt = if name.is_none() { String::from_utf8_lossy(spelt).into_owned() } else { String::new() };
        self.packet(ns);
        self.put_interned();
        let out = &mut self.out;
        out.begin(TRACK_EVENT);
        out.unsigned(9, kind);
        out.unsigned(11, self.list[at].uuid);
        out.unsigned(3, class.category);
        match name {
            _ if rules.shape == (Shape::End { says_title: false }) => {}
            Some(name) => out.unsigned(10, name),
            None => out.bytes(23, spelt.as_bytes()),
        }
        if let Some(flow) = self.tracks.seen.flow {
            out.fixed64(47, flow);
        }
        out.put(self.args.written());
        out.end();
        out.end();
        if !self.tracks.seen.counters.is_empty() {
            self.put_counters(stream, &rules, track, ns);
        }
        self.put_switch(stream, ns);
    }

    fn put_counters(&mut self, stream: usize, rules: &ClassRules, track: Track, ns: u64) {
        for (at, value) in std::mem::take(&mut self.tracks.seen.counters) {
            let Some(counter) = rules.counters.get(usize::from(at)) else { continue };
            let own = self.tracks.place_counter(stream, counter, track);
            let track = self.track(stream, own);
            let key = (track, counter.name.clone());
            if !self.counters.contains_key(&key) {
                if self.counters.len() >= MAX_TRACKS {
                    continue;
                }
                let uuid = self.uuid();
                let parent = self.list[track].uuid;
                self.announce(uuid, Some(parent), counter.name.as_bytes(), |out| {
                    out.begin(8);
                    out.end();
                });
                self.counters.insert(key.clone(), (uuid, None));
            }
            let Some((uuid, before)) = self.counters.get_mut(&key) else { continue };
            if *before == Some(value) {
                continue;
            }
            *before = Some(value);
            let uuid = *uuid;
            self.packet(ns);
            self.out.begin(TRACK_EVENT);
            self.out.unsigned(9, COUNTER);
            self.out.unsigned(11, uuid);
            match value {
                Number::Whole(value) => self.out.signed(30, value),
                Number::Real(value) => self.out.double(44, value),
            }
            self.out.end();
            self.out.end();
        }
    }

    /// A CPU turns to another thread: what ran on it ends, and that begins.
    fn put_switch(&mut self, stream: usize, ns: u64) {
        let Some((track, thread, name)) = self.tracks.switch(stream) else { return };
        let mut title = name.to_vec();
        if title.is_empty() {
            title = b"thread".to_vec();
        }
        title.extend_from_slice(format!(" [{thread}]").as_bytes());
        let track = self.track(stream, track);
        let uuid = self.list[track].uuid;
        if std::mem::replace(&mut self.list[track].is_running, true) {
            self.packet(ns);
            self.out.begin(TRACK_EVENT);
            self.out.unsigned(9, SLICE_END);
            self.out.unsigned(11, uuid);
            self.out.end();
            self.out.end();
        }
        let name = self.interned.title(&title);
        self.packet(ns);
        self.put_interned();
        self.out.begin(TRACK_EVENT);
        self.out.unsigned(9, SLICE_BEGIN);
        self.out.unsigned(11, uuid);
        match name {
            Some(name) => self.out.unsigned(10, name),
            None => self.out.bytes(23, String::from_utf8_lossy(&title).as_bytes()),
        }
        self.out.end();
        self.out.end();
    }
}

impl TraceWriter for Writer {
    fn losses(&self) -> Losses {
        Losses::default()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.begin()?;
        let ns = self.time(stream, event);
        self.snapshot(stream, event, ns);
        self.latest_ns = ns;
        let (trace, at) = (self.tracks.streams[stream].trace, event.class().0 as usize);
        if self.classes[trace].len() <= at {
            self.classes[trace].resize_with(at + 1, || None);
        }
        let mut class = match self.classes[trace][at].take() {
            Some(class) => class,
            None => self.prepare(stream, event),
        };
        self.tracks.begin(stream, event, &class.rules);
        // It was whole when it was found: otherwise the file has changed.
        match self.visit(event, &mut class) {
            true => self.put_event(stream, event, &mut class, ns),
            false => self.losses.add(Lost::ChangedEvents, 1),
        }
        self.classes[trace][at] = Some(class);
        if self.out.len() >= FLUSH { self.flush() } else { Ok(()) }
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        self.begin()?;
        let clock = self.tracks.streams[stream].clock;
        let begin = clock.and_then(|clock| gap.begin_cycles.map(|cycles| clock.ns(cycles)));
        let ns = begin.map_or(self.latest_ns, nearest);
        let name: &[u8] = match gap.kind {
            GapKind::DiscardedEvents => b"discarded events",
            GapKind::LostPackets => b"lost packets",
        };
        let name = self.interned.title(name);
        let track = self.track(stream, Track::Stream(stream as u32));
        self.packet(ns);
        self.put_interned();
        self.out.begin(TRACK_EVENT);
        self.out.unsigned(9, INSTANT);
        self.out.unsigned(11, self.list[track].uuid);
        if let Some(name) = name {
            self.out.unsigned(10, name);
        }
        if let Some(count) = gap.count {
            self.out.begin(4);
            self.out.bytes(10, b"count");
            self.out.unsigned(3, count);
            self.out.end();
        }
        self.out.end();
        self.out.end();
        Ok(())
    }

    fn end_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.begin()?;
        self.flush()?;
        Ok(self.losses)
    }
}
/// The number nearest to a time in ns.
fn nearest(ns: i128) -> u64 {
    ns.clamp(0, u64::MAX.into()) as u64
}
