//! Calls of a session as slices: begin, end, depth, name.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracemill_calls::CallOptions;
use tracemill_calls::follow::Follower;
use tracemill_engine::calls::EventCalls;
use tracemill_engine::collector::Collector;
use tracemill_engine::session::Session;
use tracemill_format::calls::{CallKind, CallOrigin, CallSource};
use tracemill_format::open_calls::{Level, OpenCalls};
use tracemill_model::error::Error;

use crate::index::Progress;
use crate::statistics::rank;

/// A thread whose calls are followed.
#[derive(Clone, Debug)]
pub struct Task {
    /// Index of its trace.
    pub trace: usize,
    /// Its id in the system.
    pub tid: i64,
    /// Its name.
    pub name: String,
    /// Its calls.
    pub calls: u64,
    /// Most calls that are open at once.
    pub depth: u64,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// When it begins, in ns.
    pub begin: i64,
    /// When it ends; `None` when nothing says so.
    pub end: Option<i64>,
    /// Its task: an index of [`Calls::tasks`].
    pub task: u32,
    /// Its name: an index of [`Calls::names`].
    pub name: u32,
    /// The call that made it.
    pub parent: Option<u32>,
    /// Calls that it stands on.
    pub depth: u32,
}

/// The calls of a session, trace by trace in the order of their beginnings.
#[derive(Default)]
pub struct Calls {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Names of functions.
    pub names: Vec<String>,
    /// The calls.
    pub list: Vec<Call>,
    /// The time of the last record: calls without an end last until then.
    pub end: i64,
    /// Calls that were met when no more were kept.
    pub left_out: u64,
    /// What could not be read while calls were followed.
    pub faults: Vec<Error>,
    /// What is to be known of them, and no error.
    pub warnings: Vec<Error>,
}

/// Calls that are kept. A call takes 48 bytes, and what shows them is given so much memory.
const MAX_CALLS: usize = 4 << 20;

/// The calls that are open in a task: the innermost one that is kept, and how many of those there are. What is not shown
/// stands between them like the others.
#[derive(Clone, Copy)]
struct Open {
    call: Option<u32>,
    depth: u32,
    is_kept: bool,
}

/// Follows the calls of all traces: those that a format offers as such, and those of events. `None` when there are none, or
/// when [`Progress::stop`] was set.
pub fn follow(session: &Arc<Session>, progress: &Progress) -> Option<Calls> {
    let collector = &Collector::default();
    let mut calls = Calls::default();
    let mut has_source = false;
    for (trace, of) in session.traces.iter().enumerate() {
        if let Some(source) = of.reader.calls() {
            has_source = true;
            let clock = of.streams.first().and_then(|stream| session.clock_map(trace, stream.class));
            let ns = |time: u64| clock.as_ref().map_or(i128::from(time), |clock| clock.ns(time));
            calls.add(source, trace, ns, collector, progress)?;
        } else if !of.reader.call_events().is_empty()
            && let Some(source) = EventCalls::of_trace(session, trace)
        {
            has_source = true;
            let base = source.base_ns();
            calls.add(&source, trace, |time| base + i128::from(time), collector, progress)?;
        }
    }
    if calls.left_out > 0 {
        let message = format!("{} calls are not shown: the first {MAX_CALLS} are", calls.left_out);
        collector.warning(Error::unsupported(message).with_help("--begin and --end show a part of the trace"));
    }
    (calls.faults, calls.warnings) = collector.take();
    has_source.then_some(calls)
}

impl Calls {
    fn add(
        &mut self,
        source: &dyn CallSource,
        trace: usize,
        ns: impl Fn(u64) -> i128,
        collector: &Collector,
        progress: &Progress,
    ) -> Option<()> {
        let first_task = self.tasks.len() as u32;
        let names = source.last_names();
        self.tasks.extend(source.tasks().iter().zip(&names).map(|(task, name)| {
            let name = String::from_utf8_lossy(name).into_owned();
            Task { trace, tid: task.tid, name, calls: 0, depth: 0 }
        }));
        let mut open: Vec<OpenCalls<Open>> =
            source.tasks().iter().map(|_| OpenCalls::new(source.max_depth())).collect();
        let mut of_symbol: HashMap<(u32, u64), u32> = HashMap::new();
        let mut of_name: HashMap<String, u32> =
            self.names.iter().zip(0..).map(|(name, at)| (name.clone(), at)).collect();
        let mut follower = Follower::new(source, CallOptions::default());
        let mut count = 0u64;
        while let Some(record) = follower.next() {
            count += 1;
            if count.is_multiple_of(4096) && progress.stop.load(Ordering::Relaxed) {
                return None;
            }
            let is_shown = follower.step(&record).is_some();
            let Some(of_task) = open.get_mut(record.task as usize).filter(|_| record.is_call()) else { continue };
            let level = Level { is_kernel: record.origin == CallOrigin::Kernel, depth: record.depth.into() };
            let time = ns(record.time).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            self.end = self.end.max(time);
            for _ in 0..of_task.abandoned_at(Some(level)) {
                if let Some(Open { call: Some(call), is_kept: true, .. }) = of_task.pop() {
                    self.list[call as usize].end = Some(time);
                }
            }
            if record.kind == CallKind::Exit {
                continue;
            }
            let below = of_task.last().copied().unwrap_or(Open { call: None, depth: 0, is_kept: false });
            if !is_shown || self.list.len() >= MAX_CALLS {
                of_task.begin(Some(level), Open { is_kept: false, ..below });
                self.left_out += u64::from(is_shown);
                continue;
            }
            // A name of its own says what the address is only without a symbol.
            let key = (record.symbol, if record.symbol == 0 { record.address } else { 0 });
            let name = *of_symbol.entry(key).or_insert_with(|| {
                let name = source.symbol(record.symbol, record.address).name;
                *of_name.entry(name).or_insert_with_key(|name| {
                    self.names.push(name.clone());
                    self.names.len() as u32 - 1
                })
            });
            let call = self.list.len() as u32;
            if of_task.begin(Some(level), Open { call: Some(call), depth: below.depth + 1, is_kept: true }) {
                let task = first_task + record.task;
                self.list.push(Call { begin: time, end: None, task, name, parent: below.call, depth: below.depth });
                let task = &mut self.tasks[task as usize];
                task.calls += 1;
                task.depth = task.depth.max(u64::from(below.depth) + 1);
            }
        }
        let findings = follower.take_findings();
        findings.faults.into_iter().for_each(|fault| collector.fault(fault));
        findings.warnings.into_iter().for_each(|warning| collector.warning(warning));
        Some(())
    }

    /// The end of a call, or of all.
    fn end_of(&self, call: &Call) -> i64 {
        call.end.unwrap_or(self.end.max(call.begin))
    }

    /// The calls of some tasks that overlap a range, both ends included.
    fn inside(&self, range: (i64, i64), tasks: Option<&[usize]>) -> impl Iterator<Item = (u32, &Call)> {
        let is_wanted: Vec<bool> =
            (0..self.tasks.len()).map(|task| tasks.is_none_or(|tasks| tasks.contains(&task))).collect();
        self.list.iter().zip(0..).map(|(call, at)| (at, call)).filter(move |(_, call)| {
            is_wanted[call.task as usize] && call.begin <= range.1 && self.end_of(call) >= range.0
        })
    }

    fn clip(&self, call: &Call, (begin, end): (i64, i64)) -> i64 {
        (self.end_of(call).min(end) - call.begin.max(begin)).max(0)
    }

    /// The time that each call spent itself, inside of a range.
    fn own_times(&self, range: (i64, i64), tasks: Option<&[usize]>) -> HashMap<u32, i64> {
        let mut own: HashMap<u32, i64> = HashMap::new();
        for (at, call) in self.inside(range, tasks) {
            let clipped = self.clip(call, range);
            *own.entry(at).or_default() += clipped;
            if let Some(parent) = call.parent {
                *own.entry(parent).or_default() -= clipped;
            }
        }
        own
    }

    /// Statistics by name, the largest total first, then by name. A call belongs to the range when it overlaps it.
    pub fn statistics(&self, range: (i64, i64), tasks: Option<&[usize]>) -> Vec<OfFunction> {
        let own = self.own_times(range, tasks);
        let mut by_name: HashMap<u32, OfFunction> = HashMap::new();
        for (at, call) in self.inside(range, tasks) {
            let of =
                by_name.entry(call.name).or_insert_with(|| OfFunction { name: call.name, ..OfFunction::default() });
            of.calls += 1;
            of.total += i128::from(self.clip(call, range));
            of.own += i128::from(own.get(&at).copied().unwrap_or(0));
            if let Some(end) = call.end.filter(|end| call.begin >= range.0 && *end <= range.1) {
                of.durations.push(end - call.begin);
            }
        }
        let mut rows: Vec<OfFunction> = by_name.into_values().collect();
        let name = |of: &OfFunction| &self.names[of.name as usize];
        rows.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| name(a).cmp(name(b))));
        rows
    }

    /// The stacks inside of a range, and what they took. The first one is the root, below all.
    pub fn stacks(&self, range: (i64, i64), tasks: Option<&[usize]>) -> Vec<OfStack> {
        let own = self.own_times(range, tasks);
        let mut stacks = vec![OfStack::default()];
        let mut of_call: HashMap<u32, usize> = HashMap::new();
        let mut known: HashMap<(usize, u32), usize> = HashMap::new();
        for (at, call) in self.inside(range, tasks) {
            let below = call.parent.and_then(|parent| of_call.get(&parent).copied()).unwrap_or(0);
            let stack = *known.entry((below, call.name)).or_insert_with(|| {
                stacks.push(OfStack { parent: below, name: Some(call.name), ..OfStack::default() });
                stacks.len() - 1
            });
            of_call.insert(at, stack);
            let clipped = i128::from(self.clip(call, range));
            stacks[stack].calls += 1;
            stacks[stack].total += clipped;
            stacks[stack].own += i128::from(own.get(&at).copied().unwrap_or(0));
            if below == 0 {
                stacks[0].total += clipped;
            }
        }
        stacks
    }

    /// Slices of some tasks in a range whose first ns is `range.0`, in buckets of 2^level ns. Slices that are shorter than a
    /// bucket stand together, by bucket and depth.
    pub fn slices(&self, tasks: &[usize], level: u32, range: (i64, i64)) -> Vec<Vec<Slice>> {
        let place: HashMap<usize, usize> = tasks.iter().zip(0..).map(|(task, at)| (*task, at)).collect();
        let mut slices: Vec<Vec<Slice>> = vec![Vec::new(); tasks.len()];
        // By task, bucket and depth: the slice, its ns and those of its longest.
        let mut short: HashMap<(usize, i64, u32), (usize, i64, i64)> = HashMap::new();
        let bucket = |time: i64| time.saturating_sub(range.0) >> level;
        for (_, call) in self.inside(range, Some(tasks)) {
            let at = place[&(call.task as usize)];
            let length = self.end_of(call) - call.begin;
            let (first, depth) = (bucket(call.begin), call.depth);
            let is_short = length >> level == 0 && call.end.is_some();
            let slice =
                Slice { at: first, len: Some((length >> level).max(1)), depth, name: call.name, n: 1, busy: 255 };
            if !is_short {
                let behind = bucket(range.1) + 1;
                let len = call.end.map(|end| (bucket(end).min(behind) - first).max(1));
                slices[at].push(Slice { len, ..slice });
                continue;
            }
            let (place, busy, longest) = *short.entry((at, first, depth)).or_insert_with(|| {
                slices[at].push(Slice { n: 0, ..slice });
                (slices[at].len() - 1, 0, -1)
            });
            let slice = &mut slices[at][place];
            slice.n += 1;
            if length > longest {
                slice.name = call.name;
            }
            let busy = busy + length;
            slice.busy = ((i128::from(busy) * 255) >> level).clamp(1, 255) as u8;
            short.insert((at, first, depth), (place, busy, longest.max(length)));
        }
        slices
    }
}

/// Calls of one function.
#[derive(Clone, Default, Debug)]
pub struct OfFunction {
    /// An index of [`Calls::names`].
    pub name: u32,
    /// Its calls that overlap the range.
    pub calls: u64,
    /// Their time inside of it, in ns.
    pub total: i128,
    /// That without the calls that they made.
    pub own: i128,
    /// Durations of those that begin and end inside.
    durations: Vec<i64>,
}

impl OfFunction {
    /// Calls that begin and end inside of the range.
    pub fn whole(&self) -> usize {
        self.durations.len()
    }

    /// Shortest, mean, and longest duration of those.
    pub fn durations(&self) -> Option<(i64, i64, i64)> {
        let (min, max) = (self.durations.iter().min()?, self.durations.iter().max()?);
        let sum: i128 = self.durations.iter().map(|ns| i128::from(*ns)).sum();
        Some((*min, (sum / self.durations.len() as i128) as i64, *max))
    }

    /// The duration that p of 100 of those do not exceed.
    pub fn percentile(&mut self, p: usize) -> Option<i64> {
        rank(&mut self.durations, p)
    }
}

/// Calls on one stack.
#[derive(Clone, Default, Debug)]
pub struct OfStack {
    /// The stack below, by index.
    pub parent: usize,
    /// Name of the function; `None` for the root.
    pub name: Option<u32>,
    /// Calls.
    pub calls: u64,
    /// Their ns.
    pub total: i128,
    /// Those without calls that they made.
    pub own: i128,
}

/// A slice of a timeline, or several short ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The bucket in which it begins; below 0 before the range.
    pub at: i64,
    /// Its buckets; `None` when it has no end.
    pub len: Option<i64>,
    /// Its depth.
    pub depth: u32,
    /// Name of the longest.
    pub name: u32,
    /// How many stand here.
    pub n: u64,
    /// How much of the bucket they fill, of 255.
    pub busy: u8,
}
