//! Tasks that CPUs run, as recordings of calls tell it: when a task gets a processor, and when it gives it away.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_engine::trace_calls::TraceCalls;
use tracemill_format::calls::{CallRecord, CallSource, CallStream, StreamHolds, event_id};

use super::lanes::StoredPiece;
use super::{Of, StatesBuilder};
use tracemill_semantics::states::thread_title;

/// Does a recording of calls tell what CPUs run?
pub fn has_cpu_events(calls: &dyn CallSource) -> bool {
    (0..calls.stream_count()).any(|stream| matches!(calls.holds(stream), StreamHolds::System { .. }))
}

/// A stream of news about tasks, of which only what says which task runs is looked at.
struct SwitchRecords<'a> {
    stream: Box<dyn CallStream + 'a>,
    records: std::vec::IntoIter<CallRecord>,
    goes_on: bool,
}

impl SwitchRecords<'_> {
    fn next(&mut self, stop: &AtomicBool) -> Option<CallRecord> {
        let tells = |record: &CallRecord| record.is_event(event_id::SCHED_IN) || record.is_sched_out();
        loop {
            if let Some(record) = self.records.by_ref().find(tells) {
                return Some(record);
            }
            if !self.goes_on || stop.load(Ordering::Relaxed) {
                return None;
            }
            let mut records = Vec::new();
            self.goes_on = self.stream.fill(&mut records);
            self.records = records.into_iter();
        }
    }
}

/// Whether each task is shown: not one whose own stream was left out while those of others are wanted.
fn wanted_tasks(calls: &TraceCalls<'_>, source: &dyn CallSource) -> Vec<bool> {
    let own = (0..source.stream_count()).filter_map(|at| match source.holds(at) {
        StreamHolds::Task { task, .. } => Some((task, calls.is_left_out(at))),
        StreamHolds::System { .. } | StreamHolds::Mixed => None,
    });
    let own: Vec<(usize, bool)> = own.collect();
    let mut wanted = vec![true; source.tasks().len()];
    if own.iter().any(|(_, is_left_out)| !is_left_out) {
        own.iter().filter(|(_, is_left_out)| *is_left_out).for_each(|(task, _)| wanted[*task] = false);
    }
    wanted
}

impl StatesBuilder {
    /// Adds the CPUs of a recording of calls as those of a machine; their only lane is the task that they run, of those that
    /// were recorded and are wanted. What runs at the end runs until `last`, when that is known. False when the recording tells
    /// of none.
    pub fn add_running(&mut self, machine: u32, calls: &TraceCalls<'_>, last: Option<i128>, stop: &AtomicBool) -> bool {
        let source = calls.source();
        let is_news = |at: &usize| matches!(source.holds(*at), StreamHolds::System { .. }) && !calls.is_left_out(*at);
        let streams = (0..source.stream_count()).filter(is_news).map(|at| source.open(at));
        let mut streams: Vec<SwitchRecords<'_>> =
            streams.map(|stream| SwitchRecords { stream, records: Vec::new().into_iter(), goes_on: true }).collect();
        let names = if streams.is_empty() { Vec::new() } else { self.names_of(calls, source) };
        // By CPU: its track, and what it runs since when.
        let mut cpus: HashMap<u16, (usize, Option<(i128, u32)>)> = HashMap::new();
        // All streams go on together: what has no room is left out from one time on.
        let mut next: Vec<Option<CallRecord>> = streams.iter_mut().map(|stream| stream.next(stop)).collect();
        let time_of = |(at, next): (usize, &Option<CallRecord>)| Some(Reverse((next.as_ref()?.time, at)));
        let mut order: BinaryHeap<Reverse<(u64, usize)>> = next.iter().enumerate().filter_map(time_of).collect();
        let mut end = last;
        while let Some(Reverse((_, stream))) = order.pop() {
            let Some(record) = next[stream].take() else { continue };
            next[stream] = streams[stream].next(stop);
            order.extend(time_of((stream, &next[stream])));
            let (Some(cpu), Some(name)) = (record.cpu, names.get(record.task as usize)) else { continue };
            let at = calls.ns(record.time);
            end = end.max(Some(at));
            let (track, runs) = cpus.entry(cpu).or_insert_with(|| {
                let track = self.track(machine, Of::Cpu(cpu.into()), 1);
                self.states.tracks[track].name = format!("CPU {cpu}");
                (track, None)
            });
            // Another task on the CPU says that this one gave it away.
            if let Some((since, name)) = runs.take() {
                self.ran(*track, (since, at), name);
            }
            *runs = if record.is_sched_out() { None } else { name.map(|name| (at, name)) };
        }
        for (track, runs) in cpus.values() {
            if let Some(((since, name), end)) = runs.zip(end) {
                self.ran(*track, (since, end), name);
            }
        }
        !cpus.is_empty()
    }

    /// The names of the tasks that are shown.
    fn names_of(&mut self, calls: &TraceCalls<'_>, source: &dyn CallSource) -> Vec<Option<u32>> {
        let tasks = source.tasks().iter().zip(source.last_names()).zip(wanted_tasks(calls, source));
        let names = tasks.map(|((task, name), is_wanted)| {
            is_wanted.then(|| {
                let name = String::from_utf8_lossy(&name).into_owned();
                self.number_of(thread_title(Some(&*name).filter(|name| !name.is_empty()), task.tid))
            })
        });
        names.collect()
    }

    fn ran(&mut self, track: usize, (since, end): (i128, i128), name: u32) {
        if let Some((from, to)) = self.cut(since, end) {
            self.push((track, 0), StoredPiece { from, to, name }, false, end);
        }
    }
}
