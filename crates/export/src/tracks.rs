//! On which track of a timeline an event stands, and what it does there, for all targets that show timelines.
//!
//! The meaning of a class is asked once ([`Semantics`]); of an event only the few fields that matter are looked
//! at, while it is visited.

mod lanes;
mod marks;
mod tasks;
mod watch;

use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::plan::{DecoderState, NoVisitor};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::open_calls::CallLevel;
use tracemill_format::target::Source;
use tracemill_model::clock::ClockMap;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{EventClassId, Schema, Scope};
use tracemill_semantics::{
    Concept, Concepts, Counter, EventPlace, Field, FieldPath, Origin, Recording, Running, Semantics, SpanStep,
    StatedPlace, Tie, Who, cpu, node_of,
};

use lanes::{LaneGroup, Lanes, SliceKey};
use marks::Marked;
use tasks::{LifeEnd, Tasks};

pub(super) use tracemill_semantics::EventShape;
use watch::FieldValue;

pub(super) use watch::{FieldWatch, Take, WantedField, WatchedFields, WatchedNumber, hash};

/// Where an event stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Track {
    /// On a thread of a machine: its number, and how many of this number there were before.
    Thread(u32, i64, u32),
    /// On a CPU of a machine.
    Cpu(u32, u32),
    /// The thread that a CPU of a machine runs.
    Running(u32, u32),
    /// On a track of a trace that its format numbers itself.
    Own(u32, i64),
    /// On a lane: a slice that may begin and end on different threads.
    Lane(u32),
    /// On its stream: nothing else is known.
    Stream(u32),
}

/// Rules for the events of a class.
#[derive(Clone, Debug)]
pub(super) struct ClassRules {
    /// The part of a slice that its events are.
    pub(super) shape: EventShape,
    /// Name of what they show, unless they say one themselves.
    pub(super) title: Arc<str>,
    /// The part of its name before the `:`, or the format.
    pub(super) category: Arc<str>,
    /// The thread or track that they belong to.
    who: Who,
    /// Is it one of the kernel's calls, among those of programs?
    is_of_kernel: bool,
    /// Its counters.
    pub(super) counters: Vec<Counter>,
    /// By node of the plan of its fields.
    pub(super) takes: Vec<WantedField>,
    /// By node of the plan of its header, when that says more than id and time.
    pub(super) header: Option<Vec<WantedField>>,
    /// Is anything of the header wanted?
    wants_header: bool,
    /// By node of the plan of the packet context, when that says who.
    packet: Option<Vec<WantedField>>,
    /// The ties of its events to threads.
    tie: Option<Box<Tie>>,
    /// The effect of its events on spans that have a number.
    span: Option<SpanStep>,
}

impl ClassRules {
    /// Its concept, when that says which threads there are.
    pub(super) fn concept(&self) -> Option<Concept> {
        self.tie.as_ref().map(|tie| tie.concept)
    }
}

/// A span that begins or ends by an event that stands on a thread as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpanSlice {
    /// Does it end?
    pub(super) is_end: bool,
    /// Its lane.
    pub(super) track: Track,
}

/// A stream of all traces that are shown.
pub(super) struct TrackStream {
    /// Its trace.
    pub(super) trace: usize,
    /// Its clock.
    pub(super) clock: Option<ClockMap>,
    /// Its name.
    pub(super) name: String,
    cpu: Option<u32>,
    packet: Option<Arc<PacketData>>,
}

/// A trace that is shown.
pub(super) struct TraceOf {
    /// Its name.
    pub(super) name: String,
    /// The machine that it was recorded on.
    pub(super) machine: u32,
    schema: Arc<Schema>,
    semantics: Semantics,
    classes: Vec<Option<Arc<ClassRules>>>,
    /// Do its spans last until they are closed?
    has_span_closes: bool,
}

/// The tracks of some traces.
pub(super) struct ExportTracks {
    /// The traces.
    pub(super) traces: Vec<TraceOf>,
    /// Their streams.
    pub(super) streams: Vec<TrackStream>,
    running: Running,
    tasks: Tasks,
    /// The kind of the last event, when its text is a mark.
    marked: Marked,
    lanes: Lanes,
    latest_ns: i128,
    slice_names: u64,
    /// Fields of the last event.
    pub(super) seen: WatchedFields,
}

impl ExportTracks {
    /// The rules of these traces.
    pub(super) fn new(sources: &[Source]) -> Self {
        let mut machines: Vec<Option<&str>> = Vec::new();
        let (mut traces, mut streams) = (Vec::new(), Vec::new());
        for (trace, source) in sources.iter().enumerate() {
            let host = Recording::from_schema(&source.schema).host;
            let machine = machines.iter().position(|known| *known == host).unwrap_or_else(|| {
                machines.push(host);
                machines.len() - 1
            });
            let semantics = Semantics::new(&source.schema);
            traces.push(TraceOf {
                name: source.name.clone(),
                machine: machine as u32,
                has_span_closes: semantics.has_span_closes(),
                semantics,
                classes: vec![None; source.schema.events().len()],
                schema: source.schema.clone(),
            });
            for stream in &source.streams {
                let clock = source.stream_clock(stream.class);
                streams.push(TrackStream { trace, clock, name: stream.name.clone(), cpu: None, packet: None });
            }
        }
        let tasks = Tasks::new(sources, machines.len() as u32);
        let (running, seen) = (Running::default(), WatchedFields::default());
        let (marked, lanes) = (Marked::default(), Lanes::default());
        ExportTracks { traces, streams, running, tasks, marked, lanes, latest_ns: i128::MIN, slice_names: 0, seen }
    }

    /// Does any class begin or end something?
    pub(super) fn has_calls(&self) -> bool {
        self.traces.iter().any(|of| of.semantics.has_pairs() || of.semantics.has_marks())
    }

    /// The rules of the class of an event.
    #[inline]
    pub(super) fn class(&mut self, stream: usize, event: EventRef<'_>) -> Arc<ClassRules> {
        let of = &mut self.traces[self.streams[stream].trace];
        let at = event.class().0 as usize;
        if let Some(rules) = &of.classes[at] {
            return rules.clone();
        }
        let rules = Arc::new(of.rules(&event.chunk.packet.plans, event.class()));
        let name = of.schema.event(event.class()).name.as_deref().unwrap_or_default();
        self.slice_names += u64::from(rules.shape != EventShape::Instant && !is_name_of(name, &rules));
        of.classes[at] = Some(rules.clone());
        rules
    }

    /// Reads the fields of an event that its rules want, for targets that do not show them otherwise; `None` when they
    /// cannot be read.
    pub(super) fn read_fields(
        &mut self,
        stream: usize,
        event: EventRef<'_>,
        state: &mut DecoderState,
    ) -> Option<Arc<ClassRules>> {
        let rules = self.class(stream, event);
        self.begin(stream, event, &rules);
        if let Some(takes) = rules.header.as_ref().filter(|_| rules.wants_header) {
            event.visit_header(state, &mut FieldWatch { inner: NoVisitor, takes, seen: &mut self.seen }).ok()?;
        }
        event
            .visit_flat(state, &mut FieldWatch { inner: NoVisitor, takes: &rules.takes, seen: &mut self.seen })
            .ok()?;
        Some(rules)
    }

    /// Forgets the fields of the event before, and reads those of the packet of this one.
    #[inline]
    pub(super) fn begin(&mut self, stream: usize, event: EventRef<'_>, rules: &ClassRules) {
        self.seen.clear();
        let of = &mut self.streams[stream];
        let packet = &event.chunk.packet;
        if !of.packet.as_ref().is_some_and(|known| PacketData::is_same(known, packet)) {
            of.cpu = cpu(packet).and_then(|cpu| u32::try_from(cpu).ok());
            of.packet = Some(packet.clone());
        }
        if let Some(takes) = &rules.packet {
            // The packet was opened, so its context has been read.
            let _ = packet.visit_context(&mut FieldWatch { inner: NoVisitor, takes, seen: &mut self.seen });
        }
    }

    /// Where the event of a time stands whose fields were seen.
    #[inline]
    pub(super) fn place(&mut self, stream: usize, rules: &ClassRules, ns: i128) -> Track {
        let of = &self.streams[stream];
        let machine = self.traces[of.trace].machine;
        let (seen, cpu) = (&self.seen, of.cpu.map(u64::from));
        self.latest_ns = ns.max(self.latest_ns);
        self.marked = match seen.mark.is_empty() {
            true => Marked::default(),
            false => Marked::from_text(&seen.mark, of.trace, machine, &mut self.lanes),
        };
        if !self.marked.name.is_empty() {
            self.seen.title.clone_from(&self.marked.name);
        }
        if let Some(lane) = self.marked.lane {
            return Track::Lane(lane);
        }
        let seen = &self.seen;
        if let Some(tie) = &rules.tie {
            self.tasks.apply(machine, ns, cpu, tie, seen);
        }
        let said = StatedPlace { id: seen.track.or(seen.thread), next: seen.next_thread, cpu };
        match self.running.place(machine, &rules.who, said) {
            // Each CPU has an idle thread of its own.
            EventPlace::Thread(0) if cpu.is_some() && self.tasks.has_states() => {
                Track::Cpu(machine, of.cpu.unwrap_or(0))
            }
            EventPlace::Thread(thread) => Track::Thread(machine, thread, self.tasks.life(machine, thread)),
            EventPlace::Track(track) => Track::Own(of.trace as u32, track),
            EventPlace::Cpu(cpu) => Track::Cpu(machine, cpu as u32),
            EventPlace::Stream => Track::Stream(stream as u32),
        }
    }

    /// The CPU of a stream of the first machine, whose numbers of threads and CPUs stand alone in some formats.
    #[inline]
    pub(super) fn first_machine_cpu(&self, stream: usize) -> Option<u32> {
        let of = &self.streams[stream];
        of.cpu.filter(|_| self.traces[of.trace].machine == 0)
    }

    /// The thread that did the event whose fields were seen, before that event is placed: the one that it names, or the one
    /// that its CPU runs.
    pub(super) fn acting_thread(&self, stream: usize) -> Option<i64> {
        let of = &self.streams[stream];
        let running = || self.running.thread(self.traces[of.trace].machine, u64::from(of.cpu?));
        self.concept_field(Field::Prev).or_else(running).or(self.seen.thread)
    }

    /// A number of the concept of the event that was seen.
    pub(super) fn concept_field(&self, field: Field) -> Option<i64> {
        let value = self.seen.fields.iter().find(|(own, _)| *own == field);
        match value {
            Some((_, FieldValue::Integer(value))) => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The process of a thread, as far as it is known.
    pub(super) fn process_of(&self, stream: usize, thread: i64) -> Option<i64> {
        let of = &self.streams[stream];
        self.tasks.process(of.trace, self.traces[of.trace].machine, thread)
    }

    /// The parent of a process.
    pub(super) fn parent_of(&self, stream: usize, process: i64) -> Option<i64> {
        self.tasks.parent(self.traces[self.streams[stream].trace].machine, process)
    }

    /// Is a thread of the first machine known to have ended?
    pub(super) fn has_ended(&self, thread: i64) -> bool {
        matches!(self.tasks.end(0, thread, self.tasks.life(0, thread)), Some(LifeEnd::Died(_)))
    }

    /// The name that a thread of the machine of a stream has now.
    pub(super) fn thread_name(&self, stream: usize, thread: i64) -> Option<&str> {
        let of = &self.streams[stream];
        self.tasks.name(of.trace, self.traces[of.trace].machine, thread)
    }

    /// The part of a slice that the event is that was placed.
    #[inline]
    pub(super) fn shape(&self, rules: &ClassRules) -> EventShape {
        self.marked.shape.unwrap_or(rules.shape)
    }

    /// The span that begins or ends by the event that was placed on `track`: from its first entry to its close it is on a
    /// lane below that of its parent.
    pub(super) fn span(&mut self, stream: usize, track: Track, rules: &ClassRules) -> Option<SpanSlice> {
        let (step, id) = (rules.span?, self.seen.span?);
        let trace = self.streams[stream].trace;
        let key = SliceKey::Span(trace, id);
        match step {
            SpanStep::Entry if self.lanes.find(&key).is_none() => {
                let parent = self.seen.parent_span.and_then(|parent| self.lanes.find(&SliceKey::Span(trace, parent)));
                let (machine, process) = (self.traces[trace].machine, self.process(stream, track));
                let group = LaneGroup { trace, machine, process, parent, name: rules.title.as_bytes().to_vec() };
                let lane = self.lanes.begin(key, group)?;
                Some(SpanSlice { is_end: false, track: Track::Lane(lane) })
            }
            SpanStep::Entry | SpanStep::Exit => None,
            SpanStep::Close => Some(SpanSlice { is_end: true, track: Track::Lane(self.lanes.end(&key)?) }),
        }
    }

    /// The lane that a lane is below.
    pub(super) fn parent_lane(&self, lane: u32) -> Option<Track> {
        self.lanes.group(lane).parent.map(Track::Lane)
    }

    /// Machine of a lane.
    pub(super) fn lane_machine(&self, lane: u32) -> u32 {
        self.lanes.group(lane).machine
    }

    /// Classes of slices whose names do not follow from their titles.
    pub(super) fn slice_names(&self) -> u64 {
        self.slice_names
    }

    /// Slices that may begin and end on different threads and that are not shown, because too many were open.
    pub(super) fn refused_slices(&self) -> u64 {
        self.lanes.refused
    }

    /// The counter that the event states that was placed, when its text is a mark, and its value.
    pub(super) fn mark_counter(&self) -> Option<(&[u8], i64)> {
        self.marked.counter.as_ref().map(|(name, value)| (name.as_slice(), *value))
    }

    /// The track of a counter of an event that stands on `track`.
    pub(super) fn place_counter(&self, stream: usize, counter: &Counter, track: Track) -> Track {
        let of = &self.streams[stream];
        match self.seen.cpu.or(of.cpu).filter(|_| counter.is_of_cpu) {
            Some(cpu) => Track::Cpu(self.traces[of.trace].machine, cpu),
            None => track,
        }
    }

    /// Process of a track on which the last event stands.
    pub(super) fn process(&self, stream: usize, track: Track) -> Option<i64> {
        if let Track::Lane(lane) = track {
            return self.lanes.group(lane).process;
        }
        self.seen.process.or_else(|| match track {
            Track::Thread(machine, thread, _) => self.tasks.process(self.streams[stream].trace, machine, thread),
            _ => None,
        })
    }

    /// Does any event so far say what threads do? They may be renamed then.
    pub(super) fn has_states(&self) -> bool {
        self.tasks.has_states()
    }

    /// Name of a process of a machine, as far as it is known.
    pub(super) fn process_name(&self, stream: usize, machine: u32, process: i64) -> Option<&str> {
        self.tasks.process_name(self.streams[stream].trace, machine, process)
    }

    /// Name of a track on which the last event stands; of a thread that has none its id.
    pub(super) fn name(&self, stream: usize, track: Track) -> Result<Vec<u8>, i64> {
        Ok(match track {
            Track::Thread(..) | Track::Own(..) if !self.seen.name.is_empty() => self.seen.name.clone(),
            Track::Thread(_, thread, _) => self.known_name(stream, track).ok_or(thread)?.as_bytes().to_vec(),
            Track::Own(_, number) => format!("track {number}").into_bytes(),
            Track::Cpu(_, cpu) => format!("CPU {cpu}").into_bytes(),
            Track::Running(_, cpu) => format!("CPU {cpu} runs").into_bytes(),
            Track::Lane(lane) => self.lanes.group(lane).name.clone(),
            Track::Stream(stream) => self.streams[stream as usize].name.clone().into_bytes(),
        })
    }

    /// The name that a thread has now, whatever the last event says; of an earlier life of its number nothing.
    pub(super) fn known_name(&self, stream: usize, track: Track) -> Option<&str> {
        let Track::Thread(machine, thread, life) = track else { return None };
        let is_now = self.tasks.life(machine, thread) == life;
        self.tasks.name(self.streams[stream].trace, machine, thread).filter(|_| is_now)
    }

    /// The name of a track if that is not the one that it had: threads are renamed, and become known.
    #[inline]
    pub(super) fn new_name(&self, stream: usize, track: Track, before: &[u8]) -> Option<Vec<u8>> {
        let now = match track {
            Track::Thread(..) | Track::Own(..) if !self.seen.name.is_empty() => self.seen.name.as_slice(),
            Track::Thread(..) if self.tasks.has_states() => self.known_name(stream, track)?.as_bytes(),
            _ => return None,
        };
        (now != before).then(|| now.to_vec())
    }

    /// The time at which slices of a track end that are open at the end of all events. The last event of the track was at
    /// `last_ns`.
    ///
    /// A CPU goes on, a slice of any threads as well, and so does a thread that is known to live; one that died ended then. Of others nothing is known after
    /// their last event.
    pub(super) fn end_of(&self, track: Track, last_ns: i128) -> i128 {
        match track {
            Track::Cpu(..) | Track::Running(..) | Track::Lane(_) => self.latest_ns.max(last_ns),
            Track::Thread(machine, thread, life) => match self.tasks.end(machine, thread, life) {
                Some(LifeEnd::Lives) => self.latest_ns.max(last_ns),
                Some(LifeEnd::Died(ns)) => ns.max(last_ns),
                None => last_ns,
            },
            Track::Own(..) | Track::Stream(_) => last_ns,
        }
    }

    /// Time at which a loss of a stream begins.
    pub(super) fn begin_of(&self, stream: usize, gap: &Gap) -> Option<i128> {
        Some(self.streams[stream].clock?.ns(gap.begin_cycles?))
    }

    /// The CPU that turns to another thread by the event that was seen, that thread, and its name.
    pub(super) fn switch(&self, stream: usize) -> Option<(Track, i64, &[u8])> {
        let (next, of) = (self.seen.next_thread?, &self.streams[stream]);
        let machine = self.traces[of.trace].machine;
        let name = match self.seen.next_name.as_slice() {
            b"" => self.tasks.name(of.trace, machine, next).unwrap_or_default().as_bytes(),
            own => own,
        };
        Some((Track::Running(machine, of.cpu?), next, name))
    }

    /// Depth of the call that was seen.
    #[inline]
    pub(super) fn level(&self, rules: &ClassRules) -> Option<CallLevel> {
        self.seen.depth.map(|depth| CallLevel { is_kernel: rules.is_of_kernel, depth })
    }

    /// The title of the event that was seen: its own, or its class's.
    pub(super) fn title(&mut self, rules: &ClassRules) -> Option<&[u8]> {
        if self.seen.title.is_empty()
            && let Some(address) = self.seen.address
        {
            self.seen.title.extend_from_slice(format!("{address:#x}").as_bytes());
        }
        Some(self.seen.title.as_slice()).filter(|title| !title.is_empty()).or(match &*rules.title {
            "" if rules.shape != EventShape::Instant => Some(b"call"),
            _ => None,
        })
    }
}

/// Is a class called as its slices are, with the half at the end?
fn is_name_of(name: &str, rules: &ClassRules) -> bool {
    let (entry, exit) = tracemill_semantics::names::PAIRS[0];
    let half = if rules.shape == EventShape::Begin { entry } else { exit };
    name.strip_suffix(half).and_then(|title| title.strip_suffix('_')).is_some_and(|title| title == &*rules.title)
}

impl TraceOf {
    fn rules(&self, plans: &TracePlans, id: EventClassId) -> ClassRules {
        let (schema, semantics) = (&*self.schema, &self.semantics);
        let class = schema.event(id);
        let (shape, title) = semantics.shape(id);
        let plan = plans.event_rows(id);
        let (mut takes, mut packet) = (vec![WantedField::NOTHING; plan.nodes.len()], None);
        let header = schema.stream(class.stream).event_header.filter(|root| schema.says_more(*root));
        let mut header = header.map(|_| vec![WantedField::NOTHING; plans.header_rows(class.stream).nodes.len()]);
        let mut wants_header = false;
        let mut want = |path: &FieldPath, want: &dyn Fn(&mut WantedField)| {
            let (plan, takes) = match path.scope {
                Scope::PacketContext => {
                    let plan = plans.packet_context_rows(class.stream);
                    (plan, packet.get_or_insert_with(|| vec![WantedField::NOTHING; plan.nodes.len()]))
                }
                Scope::EventHeader => {
                    wants_header = true;
                    let Some(takes) = &mut header else { return };
                    (plans.header_rows(class.stream), takes)
                }
                _ => (plan, &mut takes),
            };
            if let Some(node) = node_of(plan, path) {
                want(&mut takes[node as usize]);
            }
        };
        let tie = Concepts::built_in().tie(schema, id).filter(|tie| tasks::is_naming(tie.concept)).map(Box::new);
        for (field, origin) in tie.iter().flat_map(|tie| &tie.fields) {
            if let Origin::Field(path) = origin {
                want(path, &|wanted| wanted.fields.push(*field));
            }
        }
        let mut take = |path: Option<&FieldPath>, take: Take| {
            if let Some(path) = path {
                want(path, &|wanted| wanted.take = take);
            }
        };
        let who = semantics.who(id);
        take(who.id.as_ref(), if who.is_track { Take::Track } else { Take::Thread });
        take(who.process.as_ref(), Take::Process);
        take(who.name.as_ref(), Take::Name);
        let span = semantics.span(id).filter(|_| self.has_span_closes);
        for (name, path) in semantics.flows(id) {
            let seed = hash(0xcbf2_9ce4_8422_2325, name.as_bytes());
            let is_span = span.as_ref().is_some_and(|span| span.id == path);
            take(Some(&path), if is_span { Take::Span(seed) } else { Take::Flow(seed) });
        }
        take(span.as_ref().and_then(|span| span.parent.as_ref()), Take::ParentSpan);
        take(semantics.title(id).as_ref(), Take::Title);
        take(semantics.mark(id).as_ref(), Take::Mark);
        let call = semantics.call(id).filter(|_| shape != EventShape::Instant);
        if let Some(call) = &call {
            take(call.address.as_ref(), Take::Address);
            take(call.depth.as_ref(), Take::Depth);
        }
        if let Some(switch) = semantics.switch(id) {
            take(Some(&switch.next), Take::NextThread);
            take(switch.next_name.as_ref(), Take::NextName);
        }
        take(semantics.counted_cpu(id).as_ref(), Take::Cpu);
        let counters = semantics.counters(id);
        for (counter, at) in counters.iter().zip(0..) {
            take(Some(&counter.field), Take::Counter(at));
        }
        let name = class.name.as_deref().unwrap_or_default();
        ClassRules {
            shape,
            category: name.split_once(':').map_or(schema.format, |(category, _)| category).into(),
            who,
            title: title.into(),
            is_of_kernel: call.is_some_and(|call| call.is_of_kernel),
            counters,
            takes,
            header,
            wants_header,
            packet,
            tie,
            span: span.map(|span| span.step),
        }
    }
}
