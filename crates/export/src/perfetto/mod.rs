//! Perfetto's trace format: a sequence of protocol buffer packets.
//!
//! Events of the kernel that Perfetto has messages for are those messages, in bundles of the events of one CPU, so that its
//! tables of scheduling and its tracks of CPUs are made of them. All other events stand on tracks:
//! threads, CPUs and streams are tracks. Pairs of classes are slices, all other events instants; fields are debug
//! annotations, named as in JSON lines; numbers that count have tracks of their own. Samples are messages of their own, beside
//! which their events stand on tracks only where these say more. Strings that repeat stand once. The
//! numbers of fields are those of Perfetto's public schema (`trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto`, `debug_annotation.proto`, `interned_data.proto`, `clock_snapshot.proto`); tests decode what is
//! written by messages of their own.

mod args;
mod ftrace;
mod packets;
mod processes;
mod samples;
mod timeline;

use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::{DecoderState, Fault};
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::open_calls::End;
use tracemill_format::samples::Sample;
use tracemill_format::target::{Needs, Source, Target, TraceWriter, WriteOptions};
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ClockId, ClockOrigin, EnvValue, Schema, Scope};
use tracemill_semantics::{Concept, Field, Semantics};

use super::tracks::{ClassRules, EventShape, FieldWatch, Track, WatchedNumber, hash};
use crate::late_file::FLUSH;
use args::{Args, ArgumentTable, Interned};
use ftrace::{Bundles, EventMessage, MessageFields, NewTask};
use packets::{CLOCK_BOOTTIME, CLOCK_SNAPSHOT};
use processes::KnownProcesses;
use samples::SampleSequences;
use timeline::{MAX_DEPTH, Timeline};
use tracemill_format::perfetto::ProtoWriter;

/// Protocol buffers of Perfetto.
pub(super) static PERFETTO: Target =
    Target::file(&["perfetto"], "protocol buffers of Perfetto, for ui.perfetto.dev and trace_processor", create)
        .with_endings(&["pftrace", "perfetto-trace", "perfetto"])
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

/// The release of a kernel that a trace does not name; what stands in parentheses is for people.
const ASSUMED_RELEASE: &str = "4.14.0 (assumed: the trace names no kernel)";

/// Scopes of the plan of an event.
const SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

struct PerfettoWriter {
    timeline: Timeline,
    schemas: Vec<Arc<Schema>>,
    classes: Vec<Vec<Option<Box<ClassOut>>>>,
    interned: Interned,
    /// Clocks that have a snapshot, by trace.
    clocks: Vec<(usize, ClockId)>,
    bundles: Bundles,
    processes: KnownProcesses,
    samples: SampleSequences,
    /// Do events themselves say that threads begin?
    has_new_tasks: bool,
    /// Do events themselves say that threads change their names?
    has_renames: bool,
    /// Do events say that threads are about to wake, by trace?
    has_waking: Vec<bool>,
    args: ProtoWriter,
    /// Fields of the header of a message.
    header: ProtoWriter,
    state: DecoderState,
    latest_ns: u64,
}

/// The parts of a class that are prepared once.
struct ClassOut {
    rules: Arc<ClassRules>,
    category: u64,
    title: Option<u64>,
    fields: ArgumentTable,
    header: Option<ArgumentTable>,
    message: Option<EventMessage>,
    /// Does an event say nothing but its sample?
    is_only_sample: bool,
}

fn create(path: &OutPath, sources: &[Source], _options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let mut timeline = Timeline::new(path, sources);
    if let Some(schema) = sources.iter().map(|source| &source.schema).find(|schema| ftrace::switch_of(schema).is_some())
    {
        let mut names = ["sysname", "kernel_version", "kernel_release", "machine"].map(|key| match schema.env(key) {
            Some(EnvValue::String(text)) => Some(&**text),
            _ => None,
        });
        // trace_processor reads the states of threads as the kernels before 4.14 had them when it is told no release.
        let is_legacy = ftrace::switch_of(schema).is_some_and(|switch| switch.is_legacy);
        if names[2].is_none() && !is_legacy {
            (names[0], names[2]) = (Some("Linux"), Some(ASSUMED_RELEASE));
        }
        timeline.packets.system(names);
    }
    Ok(Box::new(PerfettoWriter {
        timeline,
        schemas: sources.iter().map(|source| source.schema.clone()).collect(),
        classes: sources.iter().map(|source| source.schema.events().iter().map(|_| None).collect()).collect(),
        interned: Interned::default(),
        clocks: Vec::new(),
        bundles: Bundles::default(),
        processes: KnownProcesses::default(),
        samples: SampleSequences::default(),
        has_new_tasks: sources.iter().any(|source| ftrace::has_class(&source.schema, "task_newtask")),
        has_renames: sources.iter().any(|source| ftrace::has_class(&source.schema, "task_rename")),
        has_waking: sources.iter().map(|source| ftrace::has_class(&source.schema, "sched_waking")).collect(),
        header: ProtoWriter::default(),
        args: ProtoWriter::default(),
        state: DecoderState::default(),
        latest_ns: 0,
    }))
}

impl PerfettoWriter {
    /// Time of an event in ns; that of the event before for one without, and the nearest one that the format can hold.
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

    /// Writes once for each clock its value at a time.
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
        let out = &mut self.timeline.packets.out;
        out.begin(CLOCK_SNAPSHOT);
        for (id, value) in own {
            out.begin(1);
            out.unsigned(1, id);
            out.unsigned(2, value);
            out.end();
        }
        out.unsigned(2, CLOCK_BOOTTIME);
        out.end();
        out.end();
    }

    /// Prepares a class when its first event comes.
    fn prepare(&mut self, stream: usize, event: EventRef<'_>) -> Box<ClassOut> {
        let rules = self.timeline.tracks.class(stream, event);
        let trace = self.timeline.tracks.streams[stream].trace;
        let schema = &self.schemas[trace];
        let plans = &event.chunk.packet.plans;
        let interned = &mut self.interned;
        let header = rules.header.as_ref().map(|_| {
            let plan = plans.header_rows(event.chunk.packet.packet.class);
            ArgumentTable::new(schema, plan, &[Scope::EventHeader], interned)
        });
        let message = EventMessage::find(schema, event.class(), plans, self.has_waking[trace]);
        if let Some(message) = message.as_ref().filter(|message| message.is_whole) {
            self.timeline.losses.add(Lost::EventHeaders, message.lost_header);
            self.timeline.losses.add(Lost::MessageNames, message.has_other_names.into());
        }
        let semantics = Semantics::new(schema);
        let only_sample = semantics.only_sample(event.class());
        let is_sample_too = only_sample.is_none() && semantics.sample(event.class()).is_some();
        let is_shown_twice = is_sample_too || message.as_ref().is_some_and(|message| !message.is_whole);
        self.timeline.losses.add(Lost::TwiceShown, is_shown_twice.into());
        if let Some(lost) = only_sample {
            self.timeline.losses.add(Lost::SampleFields, lost as u64);
        }
        Box::new(ClassOut {
            is_only_sample: only_sample.is_some(),
            category: interned.category(&rules.category),
            title: if rules.title.is_empty() { None } else { interned.title(rules.title.as_bytes()) },
            fields: ArgumentTable::new(schema, plans.event_rows(event.class()), &SCOPES, interned),
            header,
            message,
            rules,
        })
    }

    /// Visits the fields of the event, for annotations and for its rules.
    fn visit(&mut self, event: EventRef<'_>, class: &mut ClassOut) -> std::result::Result<(), Fault> {
        self.args.clear();
        let ClassOut { rules, fields: table, header, .. } = class;
        let Timeline { tracks, losses, .. } = &mut self.timeline;
        let inner = Args { out: &mut self.args, table, interned: &mut self.interned, losses };
        let mut watch = FieldWatch { inner, takes: &rules.takes, seen: &mut tracks.seen };
        if let (Some(header), Some(takes)) = (header, &rules.header) {
            std::mem::swap(watch.inner.table, header);
            watch.takes = takes;
            let visited = event.visit_header(&mut self.state, &mut watch);
            std::mem::swap(watch.inner.table, header);
            watch.takes = &rules.takes;
            visited?;
        }
        let mut fields = event.fields(&mut self.state);
        SCOPES.into_iter().try_for_each(|scope| fields.visit(scope, &mut self.state, &mut watch))
    }

    /// Writes an event as a message of the kernel, when its class has one and its CPU is known. Does that say all?
    fn put_message(
        &mut self,
        stream: usize,
        event: EventRef<'_>,
        class: &ClassOut,
        ns: u64,
    ) -> std::result::Result<bool, Fault> {
        let (Some(message), Some(cpu)) = (&class.message, self.timeline.tracks.first_machine_cpu(stream)) else {
            return Ok(false);
        };
        self.args.clear();
        self.header.clear();
        let (rules, seen) = (&class.rules, &mut self.timeline.tracks.seen);
        if !message.header.is_empty() {
            let inner = MessageFields { out: &mut self.header, numbers: &message.header, old_state: None };
            let takes = rules.header.as_deref().unwrap_or_default();
            event.visit_header(&mut self.state, &mut FieldWatch { inner, takes, seen })?;
        }
        let inner = MessageFields { out: &mut self.args, numbers: &message.fields, old_state: message.old_state };
        event.visit_flat(&mut self.state, &mut FieldWatch { inner, takes: &rules.takes, seen })?;
        let acting = self.timeline.tracks.acting_thread(stream);
        if message.needs_thread && acting.is_none() {
            self.timeline.tracks.begin(stream, event, rules);
            return Ok(false);
        }
        if !message.names_thread {
            self.header.signed(ftrace::EVENT_PID, acting.unwrap_or(0));
        }
        self.bundles.event(cpu, ns, self.header.written(), message, self.args.written());
        if !message.is_whole {
            self.timeline.tracks.begin(stream, event, rules);
            return Ok(false);
        }
        self.timeline.tracks.place(stream, rules, ns.into());
        Ok(true)
    }

    /// Says what the last event, which was placed, made known of threads and processes.
    fn put_tasks(&mut self, stream: usize, class: &ClassOut, ns: u64) {
        let (Some(concept), Some(cpu)) = (class.rules.concept(), self.timeline.tracks.first_machine_cpu(stream)) else {
            return;
        };
        let Timeline { packets, tracks, .. } = &mut self.timeline;
        if concept == Concept::Fork
            && !self.has_new_tasks
            && let (Some(parent), Some(child)) =
                (tracks.concept_field(Field::Parent), tracks.concept_field(Field::Child))
            && let Some(process) = tracks.process_of(stream, child)
        {
            let name = tracks.thread_name(stream, child).unwrap_or_default();
            self.bundles.new_task(cpu, ns, &NewTask { parent, child, name, is_thread: process != child });
            self.processes.insert(child, process);
        }
        if concept == Concept::Exec
            && !self.has_renames
            && let Some(thread) = tracks.concept_field(Field::Tid)
            && let Some(name) = tracks.thread_name(stream, thread)
        {
            self.bundles.renamed(cpu, ns, thread, name);
        }
        self.processes.put_known(packets, tracks, stream, concept, ns);
    }

    /// Writes the last event: on its track, its counters, and the thread to which its CPU turns.
    fn put_event(&mut self, stream: usize, event: EventRef<'_>, class: &ClassOut, ns: u64) {
        let rules = &class.rules;
        let track = self.timeline.tracks.place(stream, rules, ns.into());
        let at = self.timeline.track(stream, track);
        let mut own_name = Vec::new();
        event.own_id(&mut own_name);
        let (kind, shape) = (self.kind(rules, at, ns), self.timeline.tracks.shape(rules));
        let Timeline { packets, tracks, list, .. } = &mut self.timeline;
        let flow = tracks.seen.flow;
        // A title is interned here, so that it is in the packet.
        let own = if own_name.is_empty() { tracks.title(rules) } else { Some(own_name.as_slice()) };
        let (iid, title) = match own {
            Some(own) => (self.interned.title(own), own),
            None => (class.title, rules.title.as_bytes()),
        };
        packets.event(ns, &mut self.interned, kind, list[at].uuid, |out| {
            out.unsigned(3, class.category);
            if shape != (EventShape::End { says_title: false }) {
                put_title(out, iid, title);
            }
            if let Some(flow) = flow {
                out.fixed64(47, flow);
            }
            out.append(self.args.written());
        });
        if let Some((name, value)) = tracks.mark_counter() {
            let (name, value) = (String::from_utf8_lossy(name).into(), WatchedNumber::Whole(value));
            self.put_counter(at, &name, value, ns);
        }
        if !self.timeline.tracks.seen.counters.is_empty() {
            self.put_counters(stream, rules, track, ns);
        }
        self.put_span(stream, track, class, ns);
        // Perfetto shows itself which thread a CPU runs.
        if class.message.is_none() || self.timeline.tracks.first_machine_cpu(stream).is_none() {
            self.put_switch(stream, ns);
        }
    }

    /// A span begins or ends by the last event, which stands on `track`: a slice of its own.
    fn put_span(&mut self, stream: usize, track: Track, class: &ClassOut, ns: u64) {
        let Some(span) = self.timeline.tracks.span(stream, track, &class.rules) else { return };
        let lane = self.timeline.track(stream, span.track);
        let Timeline { packets, list, .. } = &mut self.timeline;
        let lane = &mut list[lane];
        if span.is_end {
            lane.open.pop();
            packets.event(ns, &mut self.interned, SLICE_END, lane.uuid, |_| {});
            return;
        }
        lane.open.begin(None, 0);
        packets.event(ns, &mut self.interned, SLICE_BEGIN, lane.uuid, |out| {
            out.unsigned(3, class.category);
            put_title(out, class.title, class.rules.title.as_bytes());
            out.append(self.args.written());
        });
    }

    /// The kind of the last event, after the ends of the slices that it shows to be over.
    fn kind(&mut self, rules: &ClassRules, at: usize, ns: u64) -> u64 {
        let Timeline { tracks, list, losses, .. } = &mut self.timeline;
        let level = tracks.level(rules);
        let shape = tracks.shape(rules);
        let is_slice = shape != EventShape::Instant;
        let title = if is_slice { hash(0, tracks.title(rules).unwrap_or(rules.title.as_bytes())) } else { 0 };
        let track = &mut list[at];
        track.last_ns = ns.max(track.last_ns);
        match shape {
            EventShape::Instant => INSTANT,
            EventShape::Begin => {
                let abandoned = track.open.abandoned_at(level);
                losses.add(Lost::OpenSlices, abandoned as u64);
                self.end_slices(at, ns, abandoned);
                if self.timeline.list[at].open.begin(level, title) {
                    return SLICE_BEGIN;
                }
                self.timeline.losses.add(Lost::DeepSlices(MAX_DEPTH), 1);
                INSTANT
            }
            EventShape::End { says_title } => {
                let (end, abandoned) = track.open.end(level, |open| !says_title || *open == title);
                losses.add(Lost::OpenSlices, abandoned as u64);
                losses.add(Lost::LoneSliceEnds, (end == End::Lone).into());
                self.end_slices(at, ns, abandoned);
                if end != End::OfCall {
                    return INSTANT;
                }
                self.timeline.list[at].open.pop();
                SLICE_END
            }
        }
    }

    /// Ends the innermost slices of a track, whose ends are missing.
    fn end_slices(&mut self, at: usize, ns: u64, count: usize) {
        let Timeline { packets, list, .. } = &mut self.timeline;
        for _ in 0..count {
            list[at].open.pop();
            packets.event(ns, &mut self.interned, SLICE_END, list[at].uuid, |_| {});
        }
    }

    fn put_counters(&mut self, stream: usize, rules: &ClassRules, track: Track, ns: u64) {
        for (at, value) in std::mem::take(&mut self.timeline.tracks.seen.counters) {
            let Some(counter) = rules.counters.get(usize::from(at)) else { continue };
            let own = self.timeline.tracks.place_counter(stream, counter, track);
            let track = self.timeline.track(stream, own);
            self.put_counter(track, &counter.name, value, ns);
        }
    }

    /// A counter of a track has a value.
    fn put_counter(&mut self, track: usize, name: &Arc<str>, value: WatchedNumber, ns: u64) {
        let Some(uuid) = self.timeline.counter(track, name, value) else { return };
        self.timeline.packets.event(ns, &mut self.interned, COUNTER, uuid, |out| match value {
            WatchedNumber::Whole(value) => out.signed(30, value),
            WatchedNumber::Real(value) => out.double(44, value),
        });
    }

    /// A CPU turns to another thread: the slice of the one before ends, and that of the next begins.
    fn put_switch(&mut self, stream: usize, ns: u64) {
        let Some((track, thread, name)) = self.timeline.tracks.switch(stream) else { return };
        let mut title = if name.is_empty() { b"thread".to_vec() } else { name.to_vec() };
        title.extend_from_slice(format!(" [{thread}]").as_bytes());
        let track = self.timeline.track(stream, track);
        let Timeline { packets, list, .. } = &mut self.timeline;
        let uuid = list[track].uuid;
        if std::mem::replace(&mut list[track].is_running, true) {
            packets.event(ns, &mut self.interned, SLICE_END, uuid, |_| {});
        }
        let iid = self.interned.title(&title);
        packets.event(ns, &mut self.interned, SLICE_BEGIN, uuid, |out| put_title(out, iid, &title));
    }
}

/// Puts the title of a track event: by its number, or written out when it has none.
fn put_title(out: &mut ProtoWriter, iid: Option<u64>, title: &[u8]) {
    match iid {
        Some(iid) => out.unsigned(10, iid),
        None => out.bytes(23, String::from_utf8_lossy(title).as_bytes()),
    }
}

impl PerfettoWriter {
    /// Writes an event: its sample, and the event on its track or as a message of the kernel.
    fn write(&mut self, stream: usize, event: EventRef<'_>, sample: Option<&Sample<'_>>) -> Result<()> {
        let ns = self.time(stream, event);
        self.snapshot(stream, event, ns);
        self.latest_ns = ns;
        let (trace, at) = (self.timeline.tracks.streams[stream].trace, event.class().0 as usize);
        let mut class = match self.classes[trace][at].take() {
            Some(class) => class,
            None => self.prepare(stream, event),
        };
        let title = class.rules.title.as_bytes();
        let is_sampled = sample.is_some_and(|sample| self.samples.put(&mut self.timeline.packets, title, ns, sample));
        self.timeline.tracks.begin(stream, event, &class.rules);
        let written = if is_sampled && class.is_only_sample {
            // The names of its thread and its process are not in the sample.
            self.visit(event, &mut class).map(|()| {
                let track = self.timeline.tracks.place(stream, &class.rules, ns.into());
                self.timeline.track(stream, track);
            })
        } else {
            self.put_message(stream, event, &class, ns).and_then(|is_whole| {
                if !is_whole {
                    self.visit(event, &mut class)?;
                    self.put_event(stream, event, &class, ns);
                }
                Ok(())
            })
        };
        match written {
            Ok(()) => self.put_tasks(stream, &class, ns),
            // It was whole when it was found: otherwise the file has changed.
            Err(_) => self.timeline.losses.add(Lost::ChangedEvents, 1),
        }
        self.classes[trace][at] = Some(class);
        if let Some(cpu) = self.timeline.tracks.first_machine_cpu(stream) {
            self.bundles.write_full(cpu, &mut self.timeline.packets);
        }
        if self.timeline.packets.out.len() >= FLUSH { self.timeline.packets.flush() } else { Ok(()) }
    }
}

impl TraceWriter for PerfettoWriter {
    fn needs(&self) -> Needs {
        Needs { samples: true, ..Needs::default() }
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.write(stream, event, None)
    }

    fn sample(&mut self, stream: usize, event: EventRef<'_>, sample: &Sample<'_>) -> Result<()> {
        self.write(stream, event, Some(sample))
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        if let Some(cpu) = self.timeline.tracks.first_machine_cpu(stream) {
            self.bundles.lose(cpu, &mut self.timeline.packets);
        }
        self.timeline.losses.add(Lost::GapInstants, 1);
        let ns = self.timeline.tracks.begin_of(stream, gap).map_or(self.latest_ns, nearest);
        let name = self.interned.title(gap.kind.name().as_bytes());
        let track = self.timeline.track(stream, Track::Stream(stream as u32));
        let uuid = self.timeline.list[track].uuid;
        self.timeline.packets.event(ns, &mut self.interned, INSTANT, uuid, |out| {
            if let Some(name) = name {
                out.unsigned(10, name);
            }
            if let Some(count) = gap.count {
                out.begin(4);
                out.bytes(10, b"count");
                out.unsigned(3, count);
                out.end();
            }
        });
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.bundles.write_all(&mut self.timeline.packets);
        let Timeline { packets, tracks, .. } = &mut self.timeline;
        self.processes.put_names(packets, tracks, self.latest_ns);
        for (track, at) in self.timeline.finish() {
            let (count, last_ns) = (self.timeline.list[at].open.len(), self.timeline.list[at].last_ns);
            self.timeline.losses.add(Lost::UnendedSlices, count as u64);
            let end_ns = nearest(self.timeline.tracks.end_of(track, last_ns.into()));
            self.end_slices(at, end_ns, count);
            // The thread that a CPU runs at the end runs until then.
            if std::mem::take(&mut self.timeline.list[at].is_running) {
                let Timeline { packets, list, .. } = &mut self.timeline;
                packets.event(end_ns, &mut self.interned, SLICE_END, list[at].uuid, |_| {});
            }
        }
        let refused = self.timeline.tracks.refused_slices();
        self.timeline.losses.add(Lost::AsyncSlices, refused);
        self.timeline.losses.add(Lost::SliceNames, self.timeline.tracks.slice_names());
        self.timeline.packets.flush()?;
        Ok(self.timeline.losses)
    }
}

/// The number nearest to a time in ns.
fn nearest(ns: i128) -> u64 {
    ns.clamp(0, u64::MAX.into()) as u64
}
