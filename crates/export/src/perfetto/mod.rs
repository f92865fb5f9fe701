//! Perfetto's trace format: a sequence of protocol buffer packets.
//!
//! Threads, CPUs and streams are tracks. Pairs of classes are slices, all other events instants; fields are debug
//! annotations, named as in JSON lines; numbers that count have tracks of their own. Strings that repeat stand once. The
//! numbers of fields are those of Perfetto's public schema (`trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto`, `debug_annotation.proto`, `interned_data.proto`, `clock_snapshot.proto`); tests decode what is
//! written by messages of their own.

mod args;
mod packets;
mod proto;
mod timeline;

use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::State;
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};
use tracemill_model::error::Result;
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{ClockId, ClockOrigin, Schema, Scope};

use super::tracks::{ClassRules, Number, Shape, Track, Watch};
use args::{Args, Interned, Table};
use packets::{CLOCK_BOOTTIME, CLOCK_SNAPSHOT, INTERNED_DATA, TRACK_EVENT};
use proto::Proto;
use timeline::Timeline;

/// See the module.
pub(super) static PERFETTO: Target =
    Target::file(&["perfetto"], "protocol buffers of Perfetto, for ui.perfetto.dev and trace_processor", create)
        .cannot_hold(&[Lost::Schemas, Lost::Environment, Lost::Packets, Lost::ClampedTimes, Lost::WideIntegers]);

/// Clocks: the one that times are in, and those that it is tied to.
const CLOCK_REALTIME: u64 = 1;
/// The first of the numbers that are free for other clocks of all sequences.
const FIRST_CUSTOM_CLOCK: u64 = 128;
/// Types of track events.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Bytes after which the buffer is written.
const FLUSH: usize = 1 << 16;

struct Writer {
    timeline: Timeline,
    schemas: Vec<Arc<Schema>>,
    classes: Vec<Vec<Option<Box<ClassOut>>>>,
    interned: Interned,
    /// Clocks that were said, by trace.
    clocks: Vec<(usize, ClockId)>,
    args: Proto,
    state: State,
    latest_ns: u64,
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
        timeline: Timeline::new(path, sources),
        schemas: sources.iter().map(|source| source.schema.clone()).collect(),
        classes: sources.iter().map(|_| Vec::new()).collect(),
        interned: Interned::default(),
        clocks: Vec::new(),
        args: Proto::default(),
        state: State::default(),
        latest_ns: 0,
    }))
}

impl Writer {
    /// Time of an event; what has none stands at the one before, and what no number of the format can say at the end of
    /// what they can.
    fn time(&mut self, stream: usize, event: EventRef<'_>) -> u64 {
        let Some(ns) = event.ns(self.timeline.tracks.streams[stream].clock.as_ref()) else {
            self.timeline.losses.add(Lost::UntimedEvents, 1);
            return self.latest_ns;
        };
        u64::try_from(ns).unwrap_or_else(|_| {
            self.timeline.losses.add(Lost::ClampedTimes, 1);
            nearest(ns)
        })
    }

    /// Strings that were met since the packet before. They stand in the packet that is being written.
    fn put_interned(&mut self) {
        if !self.interned.pending.is_empty() {
            self.timeline.packets.out.bytes(INTERNED_DATA, self.interned.pending.written());
            self.interned.pending.clear();
        }
    }

    /// Says once for each clock what it shows at a time.
    fn snapshot(&mut self, stream: usize, event: EventRef<'_>, ns: u64) {
        let trace = self.timeline.tracks.streams[stream].trace;
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
        self.timeline.packets.packet(ns);
        self.timeline.packets.out.begin(CLOCK_SNAPSHOT);
        for (id, value) in own {
            self.timeline.packets.out.begin(1);
            self.timeline.packets.out.unsigned(1, id);
            self.timeline.packets.out.unsigned(2, value);
            self.timeline.packets.out.end();
        }
        self.timeline.packets.out.unsigned(2, CLOCK_BOOTTIME);
        self.timeline.packets.out.end();
        self.timeline.packets.out.end();
    }

    /// Prepares a class when its first event comes.
    fn prepare(&mut self, stream: usize, event: EventRef<'_>) -> Box<ClassOut> {
        let rules = self.timeline.tracks.class(stream, event);
        let schema = &self.schemas[self.timeline.tracks.streams[stream].trace];
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
            let inner =
                Args { out: &mut self.args, table, interned: &mut self.interned, losses: &mut self.timeline.losses };
            let mut watch = Watch { inner, takes, seen: &mut self.timeline.tracks.seen };
            if event.visit_header(&mut self.state, &mut watch).is_err() {
                return false;
            }
        }
        let mut fields = event.fields(&mut self.state);
        let table = &mut class.fields;
        let inner =
            Args { out: &mut self.args, table, interned: &mut self.interned, losses: &mut self.timeline.losses };
        let mut watch = Watch { inner, takes: &rules.takes, seen: &mut self.timeline.tracks.seen };
        let mut visit = |scope| fields.visit(scope, &mut self.state, &mut watch).is_ok();
        visit(Scope::CommonContext) && visit(Scope::SpecificContext) && visit(Scope::Payload)
    }

    /// Writes what the last event says.
    fn put_event(&mut self, stream: usize, event: EventRef<'_>, class: &mut ClassOut, ns: u64) {
        let rules = class.rules.clone();
        let track = self.timeline.tracks.place(stream, &rules);
        let at = self.timeline.track(stream, track);
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
        let own = if own_name.is_empty() { self.timeline.tracks.title(&rules) } else { Some(own_name.as_slice()) };
        let mut name = class.title;
        let mut spelt: &[u8] = &[];
        if let Some(own) = own {
            name = self.interned.title(own);
            spelt = own;
        } else if name.is_none() {
            spelt = rules.title.as_bytes();
        }
        let spelt = if name.is_none() { String::from_utf8_lossy(spelt).into_owned() } else { String::new() };
        self.timeline.packets.packet(ns);
        self.put_interned();
        let out = &mut self.timeline.packets.out;
        out.begin(TRACK_EVENT);
        out.unsigned(9, kind);
        out.unsigned(11, self.timeline.list[at].uuid);
        out.unsigned(3, class.category);
        match name {
            _ if rules.shape == (Shape::End { says_title: false }) => {}
            Some(name) => out.unsigned(10, name),
            None => out.bytes(23, spelt.as_bytes()),
        }
        if let Some(flow) = self.timeline.tracks.seen.flow {
            out.fixed64(47, flow);
        }
        out.put(self.args.written());
        out.end();
        out.end();
        if !self.timeline.tracks.seen.counters.is_empty() {
            self.put_counters(stream, &rules, track, ns);
        }
        self.put_switch(stream, ns);
    }

    fn put_counters(&mut self, stream: usize, rules: &ClassRules, track: Track, ns: u64) {
        for (at, value) in std::mem::take(&mut self.timeline.tracks.seen.counters) {
            let Some(counter) = rules.counters.get(usize::from(at)) else { continue };
            let own = self.timeline.tracks.place_counter(stream, counter, track);
            let track = self.timeline.track(stream, own);
            let Some(uuid) = self.timeline.counter(track, &counter.name, value) else { continue };
            self.timeline.packets.packet(ns);
            self.timeline.packets.out.begin(TRACK_EVENT);
            self.timeline.packets.out.unsigned(9, COUNTER);
            self.timeline.packets.out.unsigned(11, uuid);
            match value {
                Number::Whole(value) => self.timeline.packets.out.signed(30, value),
                Number::Real(value) => self.timeline.packets.out.double(44, value),
            }
            self.timeline.packets.out.end();
            self.timeline.packets.out.end();
        }
    }

    /// A CPU turns to another thread: what ran on it ends, and that begins.
    fn put_switch(&mut self, stream: usize, ns: u64) {
        let Some((track, thread, name)) = self.timeline.tracks.switch(stream) else { return };
        let mut title = name.to_vec();
        if title.is_empty() {
            title = b"thread".to_vec();
        }
        title.extend_from_slice(format!(" [{thread}]").as_bytes());
        let track = self.timeline.track(stream, track);
        let uuid = self.timeline.list[track].uuid;
        if std::mem::replace(&mut self.timeline.list[track].is_running, true) {
            self.timeline.packets.packet(ns);
            self.timeline.packets.out.begin(TRACK_EVENT);
            self.timeline.packets.out.unsigned(9, SLICE_END);
            self.timeline.packets.out.unsigned(11, uuid);
            self.timeline.packets.out.end();
            self.timeline.packets.out.end();
        }
        let name = self.interned.title(&title);
        self.timeline.packets.packet(ns);
        self.put_interned();
        self.timeline.packets.out.begin(TRACK_EVENT);
        self.timeline.packets.out.unsigned(9, SLICE_BEGIN);
        self.timeline.packets.out.unsigned(11, uuid);
        match name {
            Some(name) => self.timeline.packets.out.unsigned(10, name),
            None => self.timeline.packets.out.bytes(23, String::from_utf8_lossy(&title).as_bytes()),
        }
        self.timeline.packets.out.end();
        self.timeline.packets.out.end();
    }
}

impl TraceWriter for Writer {
    fn losses(&self) -> Losses {
        Losses::default()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.timeline.packets.begin()?;
        let ns = self.time(stream, event);
        self.snapshot(stream, event, ns);
        self.latest_ns = ns;
        let (trace, at) = (self.timeline.tracks.streams[stream].trace, event.class().0 as usize);
        if self.classes[trace].len() <= at {
            self.classes[trace].resize_with(at + 1, || None);
        }
        let mut class = match self.classes[trace][at].take() {
            Some(class) => class,
            None => self.prepare(stream, event),
        };
        self.timeline.tracks.begin(stream, event, &class.rules);
        // It was whole when it was found: otherwise the file has changed.
        match self.visit(event, &mut class) {
            true => self.put_event(stream, event, &mut class, ns),
            false => self.timeline.losses.add(Lost::ChangedEvents, 1),
        }
        self.classes[trace][at] = Some(class);
        if self.timeline.packets.out.len() >= FLUSH { self.timeline.packets.flush() } else { Ok(()) }
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        self.timeline.packets.begin()?;
        let clock = self.timeline.tracks.streams[stream].clock;
        let begin = clock.and_then(|clock| gap.begin_cycles.map(|cycles| clock.ns(cycles)));
        let ns = begin.map_or(self.latest_ns, nearest);
        let name: &[u8] = match gap.kind {
            GapKind::DiscardedEvents => b"discarded events",
            GapKind::LostPackets => b"lost packets",
        };
        let name = self.interned.title(name);
        let track = self.timeline.track(stream, Track::Stream(stream as u32));
        self.timeline.packets.packet(ns);
        self.put_interned();
        self.timeline.packets.out.begin(TRACK_EVENT);
        self.timeline.packets.out.unsigned(9, INSTANT);
        self.timeline.packets.out.unsigned(11, self.timeline.list[track].uuid);
        if let Some(name) = name {
            self.timeline.packets.out.unsigned(10, name);
        }
        if let Some(count) = gap.count {
            self.timeline.packets.out.begin(4);
            self.timeline.packets.out.bytes(10, b"count");
            self.timeline.packets.out.unsigned(3, count);
            self.timeline.packets.out.end();
        }
        self.timeline.packets.out.end();
        self.timeline.packets.out.end();
        Ok(())
    }

    fn end_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.timeline.packets.begin()?;
        self.timeline.packets.flush()?;
        Ok(self.timeline.losses)
    }
}
/// The number nearest to a time in ns.
fn nearest(ns: i128) -> u64 {
    ns.clamp(0, u64::MAX.into()) as u64
}
