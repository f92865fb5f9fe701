//! Tasks that CPUs run, as recordings of calls tell it: when a task gets a processor, and when it gives it away.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_engine::trace_calls::TraceCalls;
use tracemill_format::calls::{CallRecord, StreamHolds, event_id};

use super::lanes::Stored;
use super::{Builder, Of, shown};

impl Builder {
    /// Adds the CPUs of a recording of calls as those of a machine; their only lane is the task that they run, of those that
    /// were recorded. False when the recording tells of none.
    pub fn add_running(&mut self, machine: u32, calls: &TraceCalls<'_>, stop: &AtomicBool) -> bool {
        let source = calls.source();
        let streams = (0..source.stream_count()).filter(|at| matches!(source.holds(*at), StreamHolds::System { .. }));
        let streams: Vec<usize> = streams.collect();
        if streams.is_empty() {
            return false;
        }
        let tasks = source.tasks().iter().zip(source.last_names());
        let names = tasks.map(|(task, name)| {
            let name = String::from_utf8_lossy(&name).into_owned();
            self.number_of(shown(Some(&*name).filter(|name| !name.is_empty()), task.tid))
        });
        let names: Vec<u32> = names.collect();
        // By CPU: its track, and what it runs since when.
        let mut cpus: HashMap<u16, (usize, Option<(i128, u32)>)> = HashMap::new();
        let mut records: Vec<CallRecord> = Vec::new();
        for stream in streams {
            let mut stream = source.open(stream);
            let mut goes_on = true;
            while goes_on && !stop.load(Ordering::Relaxed) {
                records.clear();
                goes_on = stream.fill(&mut records);
                for record in &records {
                    let (Some(cpu), Some(name)) = (record.cpu, names.get(record.task as usize)) else { continue };
                    let (is_in, is_out) = (record.is_event(event_id::SCHED_IN), record.is_sched_out());
                    if !is_in && !is_out {
                        continue;
                    }
                    let at = calls.ns(record.time);
                    let (track, runs) = cpus.entry(cpu).or_insert_with(|| {
                        let track = self.track(machine, Of::Cpu(cpu.into()), 1);
                        self.states.tracks[track].name = format!("CPU {cpu}");
                        (track, None)
                    });
                    // Another task on the CPU says that this one gave it away.
                    if let Some((since, name)) = runs.take()
                        && let Some((from, to)) = self.cut(since, at)
                    {
                        self.push((*track, 0), Stored { from, to, name }, false, at);
                    }
                    *runs = is_in.then_some((at, *name));
                }
            }
        }
        !cpus.is_empty()
    }
}
