//! What events mean on a timeline: where they stand, what they begin and end, what they count, what they belong to.
//!
//! Formats say such things by names: contexts `vtid` and `procname`, pairs of classes `X_entry` and `X_exit`. The rules
//! stand here, in tables, and know no format. Targets that show timelines ask them once for each class, and then look at
//! the few fields that matter while they visit an event.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_codec::bits::Wide;
use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::plan::{NoVisitor, NodeId, Plan, State, Visitor};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::target::Source;
use tracemill_model::clock::ClockMap;
use tracemill_model::schema::{EnvValue, EventClassId, FieldKind, Schema, Scope, StreamClassId};

/// Where an event stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Lane {
    /// On a thread of a machine.
    Thread(u32, i64),
    /// On a CPU of a machine.
    Cpu(u32, u32),
    /// What a CPU of a machine runs.
    Running(u32, u32),
    /// On a track of a trace that its format numbers itself.
    Track(u32, i64),
    /// On its stream: nothing else is known.
    Stream(u32),
}

/// What an event of a class does on its lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// Something begins.
    Begin,
    /// What began last under the same title ends; what began last at all when ends do not say a title.
    End {
        /// Does it say?
        says_title: bool,
    },
    /// It just happens.
    Instant,
}

/// A number that is counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Counter {
    /// Its name.
    pub(super) name: Arc<str>,
    /// Does it belong to the CPU, not to the thread?
    pub(super) is_of_cpu: bool,
}

/// What is known of a class.
#[derive(Clone, Debug)]
pub(super) struct ClassRules {
    /// What its events do.
    pub(super) shape: Shape,
    /// Name of what they show, unless they say one themselves.
    pub(super) title: Arc<str>,
    /// What stands before the `:` of its name, or the format.
    pub(super) category: Arc<str>,
    /// Does it stand on a CPU, whatever thread runs there?
    is_of_cpu: bool,
    /// What it counts.
    pub(super) counters: Vec<Counter>,
    /// By node of the plan of its fields.
    takes: Vec<Take>,
    /// By node of the plan of its header.
    pub(super) header: Option<Vec<Take>>,
}

/// What a field says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Take {
    Nothing,
    Thread,
    Process,
    ThreadName,
    Title,
    Address,
    NextThread,
    NextName,
    Cpu,
    Track,
    TrackName,
    Flow(u64),
    Counter(u16),
}

/// A number of an event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Whole(i64),
    Real(f64),
}

/// What an event says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Thread.
    thread: Option<i64>,
    /// Process.
    pub(super) process: Option<i64>,
    track: Option<i64>,
    /// Name of the thread or track; empty when it says none.
    pub(super) thread_name: Vec<u8>,
    /// Its own title; empty when it says none.
    pub(super) title: Vec<u8>,
    address: Option<u64>,
    next_thread: Option<i64>,
    next_name: Vec<u8>,
    cpu: Option<u32>,
    /// What links it with others.
    pub(super) flow: Option<u64>,
    /// Counters and their values.
    pub(super) counters: Vec<(u16, Number)>,
}

impl Seen {
    fn clear(&mut self) {
        (self.thread, self.process, self.address, self.next_thread) = (None, None, None, None);
        (self.cpu, self.flow, self.track) = (None, None, None);
        self.thread_name.clear();
        self.title.clear();
        self.next_name.clear();
        self.counters.clear();
    }

    fn number(&mut self, take: Take, value: i128, bits: u64) {
        let small = i64::try_from(value).ok();
        match take {
            Take::Thread => self.thread = small,
            Take::Process => self.process = small,
            Take::Track => self.track = small,
            Take::NextThread => self.next_thread = small,
            Take::Cpu => self.cpu = u32::try_from(value).ok(),
            Take::Address => self.address = Some(bits),
            Take::Flow(seed) => self.flow = Some(hash(seed, &bits.to_le_bytes())),
            Take::Counter(at) => {
                let number = small.map_or(Number::Real(value as f64), Number::Whole);
                self.counters.push((at, number));
            }
            Take::Nothing | Take::ThreadName | Take::TrackName | Take::NextName | Take::Title => {}
        }
    }

    fn text(&mut self, take: Take, text: &[u8]) {
        match take {
            Take::ThreadName | Take::TrackName => self.thread_name.extend_from_slice(text),
            Take::NextName => self.next_name.extend_from_slice(text),
            Take::Title => self.title.extend_from_slice(text),
            Take::Flow(seed) => self.flow = Some(hash(seed, text)),
            _ => {}
        }
    }
}

/// FNV-1a: ids of flows are the same in each run.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Shows fields to another visitor, and keeps what rules want of them.
pub(super) struct Watch<'a, V> {
    pub(super) inner: V,
    pub(super) takes: &'a [Take],
    pub(super) seen: &'a mut Seen,
}

impl<V> Watch<'_, V> {
    #[inline]
    fn take(&self, node: NodeId) -> Take {
        self.takes.get(node as usize).copied().unwrap_or(Take::Nothing)
    }
}

impl<V: Visitor> Visitor for Watch<'_, V> {
    const FOR_PEOPLE: bool = true;

    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        if self.take(node) != Take::Nothing {
            self.seen.number(self.take(node), value.into(), value);
        }
        self.inner.unsigned(node, value);
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        if self.take(node) != Take::Nothing {
            self.seen.number(self.take(node), value.into(), value as u64);
        }
        self.inner.signed(node, value);
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        self.inner.wide(node, value);
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        self.inner.boolean(node, value);
    }

    fn real(&mut self, node: NodeId, value: f64) {
        if let Take::Counter(at) = self.take(node) {
            self.seen.counters.push((at, Number::Real(value)));
        }
        self.inner.real(node, value);
    }

    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        if self.take(node) != Take::Nothing {
            self.seen.text(self.take(node), bytes);
        }
        self.inner.string(node, bytes);
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        self.inner.blob(node, bytes);
    }

    fn begin_struct(&mut self, node: NodeId) {
        self.inner.begin_struct(node);
    }

    fn end_struct(&mut self, node: NodeId) {
        self.inner.end_struct(node);
    }

    fn begin_array(&mut self, node: NodeId, len: u64) {
        self.inner.begin_array(node, len);
    }

    fn element(&mut self, node: NodeId, index: u64) {
        self.inner.element(node, index);
    }

    fn end_array(&mut self, node: NodeId) {
        self.inner.end_array(node);
    }

    fn begin_variant(&mut self, node: NodeId, option: usize) {
        self.inner.begin_variant(node, option);
    }

    fn end_variant(&mut self, node: NodeId) {
        self.inner.end_variant(node);
    }

    fn begin_optional(&mut self, node: NodeId) {
        self.inner.begin_optional(node);
    }

    fn end_optional(&mut self, node: NodeId) {
        self.inner.end_optional(node);
    }

    fn absent(&mut self, node: NodeId) {
        self.inner.absent(node);
    }
}

/// A stream of all traces that are shown.
pub(super) struct StreamOf {
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
    class_names: HashSet<Arc<str>>,
    classes: Vec<Option<Arc<ClassRules>>>,
    /// Threads that the format knows: process and name.
    tasks: HashMap<i64, (i64, String)>,
    cpu_nodes: HashMap<StreamClassId, Option<NodeId>>,
}

/// The rules of some traces.
pub(super) struct Lanes {
    /// The traces.
    pub(super) traces: Vec<TraceOf>,
    /// Their streams.
    pub(super) streams: Vec<StreamOf>,
    /// The thread that runs on a CPU of a machine, as far as that was told.
    running: HashMap<(u32, u32), i64>,
    /// What the last event said.
    pub(super) seen: Seen,
}

/// Members of contexts that name the thread, best first.
const THREAD: &[&str] = &["tid", "vtid", "_tid", "pthread_id"];
const PROCESS: &[&str] = &["pid", "vpid"];
const THREAD_NAME: &[&str] = &["procname", "comm"];
/// Members of headers that name the thread.
const HEADER_THREAD: &[&str] = &["common_pid"];
/// Members whose equal values link events.
const FLOWS: &[&str] = &["flow_id", "correlation_id", "request_id", "transaction_id", "message_id", "span_id"];
/// Words in names of classes that begin something, and those that end it.
const PAIRS: &[(&str, &str)] = &[("entry", "exit"), ("enter", "exit"), ("begin", "end")];
/// What interrupts threads.
const CPU_BOUND: &[&str] = &["irq", "softirq", "tasklet", "hrtimer_expire", "timer_expire", "ipi", "sched_switch"];
/// Last words of names of classes whose numbers are counted.
const COUNTED: &[&str] = &["counter", "counters", "gauge", "metric", "metrics"];
/// Classes of well-known numbers of CPUs.
const CPU_COUNTERS: &[&str] = &["cpu_frequency", "cpu_idle"];

/// The part of a name behind its provider: `lttng_ust_x:NAME`, `facility.NAME`.
fn short_name(name: &str) -> &str {
    name.rsplit([':', '.']).next().unwrap_or(name)
}

/// What a class does, by its name and by which other names there are.
fn shape(name: &str, exists: impl Fn(&str) -> bool) -> (Shape, String) {
    let short = short_name(name);
    // Old kernel traces name the class of each call's beginning, and one class ends all.
    if short == "exit_syscall" {
        return (Shape::End { says_title: false }, name.into());
    }
    if let Some(call) = short.strip_prefix("sys_").filter(|_| exists("exit_syscall")) {
        return (Shape::Begin, format!("sys_{call}"));
    }
    for &(begin, end) in PAIRS {
        if let Some((title, other)) = swap(name, begin, end)
            && exists(&other)
        {
            return (Shape::Begin, title);
        }
        if let Some((title, other)) = swap(name, end, begin)
            && exists(&other)
        {
            return (Shape::End { says_title: true }, title);
        }
    }
    (Shape::Instant, name.into())
}

/// The name without a word of it, and with another one for it.
fn swap(name: &str, word: &str, other: &str) -> Option<(String, String)> {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let bytes = name.as_bytes();
    let (at, _) = name.rmatch_indices(word).find(|&(at, _)| {
        is_edge(at.checked_sub(1).and_then(|before| bytes.get(before))) && is_edge(bytes.get(at + word.len()))
    })?;
    let (before, behind) = (&name[..at], &name[at + word.len()..]);
    let title = match (before.strip_suffix('_'), behind.strip_prefix('_')) {
        (Some(before), _) => format!("{before}{behind}"),
        (None, Some(behind)) => format!("{before}{behind}"),
        (None, None) => format!("{before}{behind}"),
    };
    Some((title, format!("{before}{other}{behind}")))
}

impl Lanes {
    /// The rules of these traces.
    pub(super) fn new(sources: &[Source]) -> Self {
        let mut machines: Vec<Option<Arc<str>>> = Vec::new();
        let (mut traces, mut streams) = (Vec::new(), Vec::new());
        for (trace, source) in sources.iter().enumerate() {
            let host = match source.schema.env("hostname") {
                Some(EnvValue::String(host)) => Some(host.clone()),
                _ => None,
            };
            let machine = machines.iter().position(|known| *known == host).unwrap_or_else(|| {
                machines.push(host);
                machines.len() - 1
            });
            let tasks = source
                .tasks
                .iter()
                .map(|task| (task.tid, (task.pid, String::from_utf8_lossy(&task.name).into_owned())));
            traces.push(TraceOf {
                name: source.name.clone(),
                machine: machine as u32,
                class_names: source.schema.events().iter().filter_map(|class| class.name.clone()).collect(),
                classes: vec![None; source.schema.events().len()],
                schema: source.schema.clone(),
                tasks: tasks.collect(),
                cpu_nodes: HashMap::new(),
            });
            for stream in &source.streams {
                let clock = source.stream_clock(stream.class);
                streams.push(StreamOf { trace, clock, name: stream.name.clone(), cpu: None, packet: None });
            }
        }
        Lanes { traces, streams, running: HashMap::new(), seen: Seen::default() }
    }

    /// Does any class begin or end something?
    pub(super) fn has_calls(&self) -> bool {
        self.traces.iter().any(|of| {
            let exists = |name: &str| of.class_names.contains(name);
            of.class_names.iter().any(|name| shape(name, exists).0 == Shape::Begin)
        })
    }

    /// The rules of the class of an event.
    #[inline]
    pub(super) fn class(&mut self, stream: usize, event: EventRef<'_>) -> Arc<ClassRules> {
        let trace = self.streams[stream].trace;
        let at = event.class().0 as usize;
        if let Some(Some(rules)) = self.traces[trace].classes.get(at) {
            return rules.clone();
        }
        let rules = Arc::new(self.traces[trace].rules(&event.chunk.packet.plans, event.class()));
        if let Some(of) = self.traces[trace].classes.get_mut(at) {
            *of = Some(rules.clone());
        }
        rules
    }

    /// Forgets what the event before said, and sees what stands outside of the fields of this one.
    #[inline]
    pub(super) fn begin(&mut self, stream: usize, event: EventRef<'_>) {
        self.seen.clear();
        let of = &mut self.streams[stream];
        let packet = &event.chunk.packet;
        if !of.packet.as_ref().is_some_and(|known| Arc::ptr_eq(known, packet)) {
            of.cpu = packet.cpu.or_else(|| self.traces[of.trace].cpu_of(packet));
            of.packet = Some(packet.clone());
        }
    }

    /// Where the event stands whose fields were seen.
    #[inline]
    pub(super) fn place(&mut self, stream: usize, rules: &ClassRules) -> Lane {
        let of = &self.streams[stream];
        let machine = self.traces[of.trace].machine;
        if let (Some(next), Some(cpu)) = (self.seen.next_thread, of.cpu) {
            self.running.insert((machine, cpu), next);
        }
        if let Some(track) = self.seen.track {
            return Lane::Track(of.trace as u32, track);
        }
        let thread = self.seen.thread;
        let Some(cpu) = of.cpu else {
            return thread.map_or(Lane::Stream(stream as u32), |thread| Lane::Thread(machine, thread));
        };
        match thread {
            Some(thread) if !rules.is_of_cpu => Lane::Thread(machine, thread),
            // What a thread begins may end on another CPU.
            None if !rules.is_of_cpu && rules.shape != Shape::Instant => {
                let running = self.running.get(&(machine, cpu));
                running.map_or(Lane::Cpu(machine, cpu), |&thread| Lane::Thread(machine, thread))
            }
            _ => Lane::Cpu(machine, cpu),
        }
    }

    /// The lane of a counter of an event that stands on `lane`.
    pub(super) fn place_counter(&self, stream: usize, counter: &Counter, lane: Lane) -> Lane {
        let of = &self.streams[stream];
        match self.seen.cpu.or(of.cpu).filter(|_| counter.is_of_cpu) {
            Some(cpu) => Lane::Cpu(self.traces[of.trace].machine, cpu),
            None => lane,
        }
    }

    /// What the format knows of a thread of a trace: its process and its name.
    pub(super) fn task(&self, trace: usize, thread: i64) -> Option<&(i64, String)> {
        self.traces[trace].tasks.get(&thread)
    }

    /// The CPU that turns to another thread by the event that was seen, that thread, and its name.
    pub(super) fn switch(&self, stream: usize) -> Option<(Lane, i64, &[u8])> {
        let (next, of) = (self.seen.next_thread?, &self.streams[stream]);
        Some((Lane::Running(self.traces[of.trace].machine, of.cpu?), next, &self.seen.next_name))
    }

    /// The title of the event that was seen: its own, or its class's.
    pub(super) fn title(&mut self, rules: &ClassRules) -> Option<&[u8]> {
        if self.seen.title.is_empty()
            && let Some(address) = self.seen.address
        {
            self.seen.title.extend_from_slice(format!("{address:#x}").as_bytes());
        }
        Some(self.seen.title.as_slice()).filter(|title| !title.is_empty()).or(match &*rules.title {
            "" if rules.shape != Shape::Instant => Some(b"call"),
            _ => None,
        })
    }
}

impl TraceOf {
    /// The CPU that the context of a packet names.
    fn cpu_of(&mut self, packet: &Arc<PacketData>) -> Option<u32> {
        let class = packet.packet.class;
        let find = || {
            let plan = packet.plans.packet_context_rows(class);
            top_members(plan).find(|(_, _, name)| *name == "cpu_id").map(|(_, node, _)| node)
        };
        let node = (*self.cpu_nodes.entry(class).or_insert_with(find))?;
        let mut takes = vec![Take::Nothing; node as usize + 1];
        takes[node as usize] = Take::Cpu;
        let mut seen = Seen::default();
        // The packet was opened, so its context has been read.
        packet.visit_context(&mut Watch { inner: NoVisitor, takes: &takes, seen: &mut seen }).ok()?;
        seen.cpu
    }

    fn rules(&self, plans: &TracePlans, id: EventClassId) -> ClassRules {
        let schema = &self.schema;
        let class = schema.event(id);
        let plan = plans.event_rows(id);
        let name = class.name.clone().unwrap_or_else(|| "(no name)".into());
        let (shape, title) = shape(&name, |other| self.class_names.contains(other));
        let short = short_name(&name).to_string();
        let mut takes = vec![Take::Nothing; plan.nodes.len()];
        let mut counters: Vec<Counter> = Vec::new();
        let members: Vec<(Scope, NodeId, &str)> = top_members(plan).collect();
        let is_number = |node: NodeId| {
            let kind = &schema.field_class(plan.nodes[node as usize].class).kind;
            matches!(kind, FieldKind::Integer(class) if class.mappings.is_none()) || matches!(kind, FieldKind::Float(_))
        };
        let mut best = |names: &[&str], take: Take, is_wanted: &dyn Fn(Scope) -> bool| {
            let of = |name: &&str| members.iter().find(|(scope, _, own)| is_wanted(*scope) && own == name);
            if let Some((_, node, _)) = names.iter().find_map(of) {
                takes[*node as usize] = take;
            }
        };
        let has_tasks = !self.tasks.is_empty();
        let is_context = |scope: Scope| scope != Scope::Payload;
        let is_payload = |scope: Scope| scope == Scope::Payload;
        // A payload may speak of other threads, unless the format's events are those of tasks.
        best(THREAD, Take::Thread, &|scope| is_context(scope) || has_tasks);
        best(PROCESS, Take::Process, &is_context);
        best(THREAD_NAME, Take::ThreadName, &is_context);
        if members.iter().any(|(scope, _, own)| is_payload(*scope) && *own == "track_name") {
            best(&["track"], Take::Track, &is_payload);
            best(&["track_name"], Take::TrackName, &is_payload);
        }
        for flow in FLOWS {
            best(&[flow], Take::Flow(hash(0xcbf2_9ce4_8422_2325, flow.as_bytes())), &|_| true);
        }
        if shape != Shape::Instant {
            best(&["symbol"], Take::Title, &is_payload);
            let is_function = matches!(short.as_str(), "entry" | "exit" | "func_entry" | "func_exit");
            if is_function && !members.iter().any(|(_, _, own)| *own == "symbol") {
                best(&["addr", "ip"], Take::Address, &is_payload);
            } else if is_function {
                best(&["addr"], Take::Address, &is_payload);
            }
        } else if has_tasks && short == "event" {
            best(&["event"], Take::Title, &is_payload);
        }
        if matches!(short.as_str(), "sched_switch" | "sched_schedule") {
            best(&["next_tid", "next_pid"], Take::NextThread, &is_payload);
            best(&["next_comm"], Take::NextName, &is_payload);
        }
        let last_word = short.rsplit('_').next().unwrap_or("").to_ascii_lowercase();
        let is_cpu_counter = CPU_COUNTERS.iter().any(|known| short.strip_prefix("power_").unwrap_or(&short) == *known);
        let is_counted = COUNTED.contains(&last_word.as_str());
        if is_cpu_counter {
            best(&["cpu_id"], Take::Cpu, &is_payload);
        }
        for &(scope, node, own) in &members {
            let is_wanted = match scope {
                Scope::Payload => is_counted || is_cpu_counter && own == "state",
                _ => own.starts_with("perf_"),
            };
            let of_node = &mut takes[node as usize];
            if !is_wanted || *of_node != Take::Nothing || !is_number(node) || counters.len() >= 1000 {
                continue;
            }
            *of_node = Take::Counter(counters.len() as u16);
            let is_named_so = matches!(own, "value" | "val" | "state" | "count");
            let name = if scope != Scope::Payload {
                own.into()
            } else if is_named_so {
                short.clone()
            } else {
                format!("{short}.{own}")
            };
            let is_of_cpu = is_cpu_counter || scope != Scope::Payload && own.starts_with("perf_cpu_");
            counters.push(Counter { name: name.into(), is_of_cpu });
        }
        let header = schema.stream(class.stream).event_header.filter(|root| schema.says_more(*root));
        let header = header.map(|_| {
            let plan = plans.header_rows(class.stream);
            let has_thread = takes.contains(&Take::Thread);
            let mut of_header = vec![Take::Nothing; plan.nodes.len()];
            for (at, node) in plan.nodes.iter().enumerate() {
                if !has_thread && HEADER_THREAD.contains(&&*node.name) {
                    of_header[at] = Take::Thread;
                }
            }
            of_header
        });
        let (category, _) = name.split_once(':').unwrap_or((schema.format, ""));
        let stem = short_name(&title);
        ClassRules {
            shape,
            category: category.into(),
            is_of_cpu: CPU_BOUND.iter().any(|known| stem.starts_with(known)),
            title: title.into(),
            counters,
            takes,
            header,
        }
    }
}

impl ClassRules {
    /// What is wanted of each field.
    pub(super) fn takes(&self) -> &[Take] {
        &self.takes
    }
}

/// Shows the fields of an event that rules want to nobody else.
pub(super) fn look(lanes: &mut Lanes, rules: &ClassRules, event: EventRef<'_>, state: &mut State) -> bool {
    if let Some(takes) = &rules.header {
        let mut watch = Watch { inner: NoVisitor, takes, seen: &mut lanes.seen };
        if event.visit_header(&mut State::default(), &mut watch).is_err() {
            return false;
        }
    }
    let mut watch = Watch { inner: NoVisitor, takes: &rules.takes, seen: &mut lanes.seen };
    event.visit_flat(state, &mut watch).is_ok()
}

/// The members of the roots of a plan of events; a member that may be absent is its content.
fn top_members(plan: &Plan) -> impl Iterator<Item = (Scope, NodeId, &str)> {
    const SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
    let root_of = move |node: NodeId| {
        let at = plan.roots.iter().position(|root| *root == Some(node))?;
        // The plan of a packet context has one root.
        Some(SCOPES.get(at).copied().unwrap_or(Scope::Payload))
    };
    plan.nodes.iter().enumerate().filter_map(move |(at, node)| {
        let at = at as NodeId;
        if node.parent == at {
            return None;
        }
        let outer = plan.nodes.get(node.parent as usize)?;
        match node.is_content {
            true => Some((root_of(outer.parent)?, at, &*outer.name)),
            false => Some((root_of(node.parent)?, at, &*node.name)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_by_their_names() {
        let names = [
            "syscall_entry_read",
            "syscall_exit_read",
            "irq_handler_entry",
            "irq_handler_exit",
            "x:frame_begin",
            "x:frame_end",
            "entry",
            "exit",
            "sentry_exit",
            "week_end",
        ];
        let of = |name: &str| shape(name, |other| names.contains(&other));
        let end = Shape::End { says_title: true };
        assert_eq!(of("syscall_entry_read"), (Shape::Begin, "syscall_read".into()));
        assert_eq!(of("syscall_exit_read"), (end, "syscall_read".into()));
        assert_eq!(of("irq_handler_exit"), (end, "irq_handler".into()));
        assert_eq!(of("x:frame_begin"), (Shape::Begin, "x:frame".into()));
        assert_eq!(of("entry"), (Shape::Begin, "".into()));
        assert_eq!(of("sentry_exit"), (Shape::Instant, "sentry_exit".into()));
        assert_eq!(of("week_end"), (Shape::Instant, "week_end".into()));
        assert_eq!(of("sys_open"), (Shape::Instant, "sys_open".into()));
        let old = |name: &str| shape(name, |other| other == "exit_syscall");
        assert_eq!(old("sys_open"), (Shape::Begin, "sys_open".into()));
        assert_eq!(old("exit_syscall").0, Shape::End { says_title: false });
    }
}
