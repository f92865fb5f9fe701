//! The entries of the trees of outputs, and the part of the traces that each shows.

use serde_json::{Value, json};
use tracemill_answers::{Asker, StateTracks, TraceState};
use tracemill_lod::states::Of;

use super::critical_path::DerivedPath;
use super::experiments::{Experiment, clamp};
use super::outputs::Output;
use super::refusal::Answered;

/// Rows of calls of a task at most: deeper ones are not shown.
const MOST_ROWS: u64 = 256;
/// Series of a trace that a chart shows before a user chooses others.
const DEFAULT_SERIES: usize = 16;

/// An entry of a tree. Its number is its place in the list.
pub(super) struct Entry {
    parent: Option<usize>,
    pub(super) labels: Vec<String>,
    /// From when to when it is there.
    ends: (i128, i128),
    /// Is it shown by a chart that nobody has chosen entries of yet?
    pub(super) is_default: bool,
    pub(super) shown: EntryContent,
}

/// The part of the traces that an entry shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryContent {
    /// A heading: other entries stand below it.
    Heading,
    /// A lane of a track of states.
    States { track: usize, depth: usize },
    /// The calls of a task that stand on this many others.
    Calls { task: usize, depth: usize },
    /// The events of all traces, of one, or of one base track.
    Events(Which),
    /// A counter, by its place among those that have tracks.
    Counter(usize),
    /// The latencies of a system call, by its place among all.
    SystemCalls(usize),
    /// How long the calls of a function of a trace took.
    Function { trace: usize, name: u32 },
    /// A thread on a critical path.
    PathThread { path: usize, thread: usize },
    /// How busy CPUs are: those of a trace, or one; how busy a thread keeps them.
    CpuUse(Which),
}

/// The part that a value is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    All,
    Trace(usize),
    Track(usize),
}

/// The entries of an output.
pub(super) fn entries(experiment: &Experiment, output: Output, asker: &Asker) -> Answered<Vec<Entry>> {
    let state = &*experiment.state;
    let mut list = Entries { list: Vec::new(), ends: experiment.ends() };
    match output {
        Output::Histogram => {
            let all = list.add(None, "Total", EntryContent::Events(Which::All));
            list.list[all].is_default = true;
            for (at, name) in experiment.names().enumerate() {
                list.add(Some(all), name, EntryContent::Events(Which::Trace(at)));
            }
        }
        Output::EventCounts => {
            let (timeline, source) = (state.timeline(), state.input.traces.source());
            let tracks = timeline.tracks();
            for (at, name) in experiment.names().enumerate() {
                let of_trace = list.add(None, name, EntryContent::Events(Which::Trace(at)));
                list.list[of_trace].is_default = true;
                let own = tracks.iter().enumerate().filter(|(_, track)| track.who(&source).0 == at);
                for (track, of) in own {
                    list.add(Some(of_trace), of.who(&source).1, EntryContent::Events(Which::Track(track)));
                }
            }
        }
        Output::CallStacks => list.add_calls(experiment),
        Output::Cpus | Output::Threads | Output::CpuUse | Output::CustomStates => {
            if let Some(kept) = state.states() {
                experiment.names().enumerate().for_each(|(at, name)| list.add_states(kept, (at, name), output));
            }
        }
        Output::Counters => {
            let all = state.shown_counters().map(|counter| (counter.trace, counter.name));
            list.add_series(experiment, all.enumerate(), |at, _| EntryContent::Counter(at));
        }
        Output::SystemCalls => {
            let all = state.system_call_latencies(asker)?;
            let all = all.iter().map(|of| (of.trace, of.name.clone()));
            list.add_series(experiment, all.enumerate(), |at, _| EntryContent::SystemCalls(at));
        }
        Output::Functions => {
            let Some(calls) = state.calls() else { return Ok(list.list) };
            for trace in 0..state.input.traces.session.traces.len() {
                let all = state.function_statistics(trace, None, asker)?;
                let all = all.iter().map(|of| (of.name as usize, (trace, calls.names[of.name as usize].clone())));
                let content = |name: usize, trace| EntryContent::Function { trace, name: name as u32 };
                list.add_series(experiment, all, content);
            }
        }
        Output::Path(number) => {
            if let Some(derived) = experiment.paths.path(number) {
                list.add_paths(experiment, &derived);
            }
        }
        Output::Events
        | Output::Statistics
        | Output::SystemCallStatistics
        | Output::FunctionStatistics
        | Output::CriticalPath => {}
    }
    Ok(list.list)
}

struct Entries {
    list: Vec<Entry>,
    ends: (i128, i128),
}

impl Entries {
    fn add(&mut self, parent: Option<usize>, name: &str, shown: EntryContent) -> usize {
        self.list.push(Entry { parent, labels: vec![name.to_string()], ends: self.ends, is_default: false, shown });
        self.list.len() - 1
    }

    /// Series with a number, a trace and a name, below headings for their traces. Those of one trace stand together. The first
    /// ones are shown by default.
    fn add_series(
        &mut self,
        experiment: &Experiment,
        all: impl Iterator<Item = (usize, (usize, String))>,
        content: impl Fn(usize, usize) -> EntryContent,
    ) {
        let mut last: Option<(usize, usize, usize)> = None;
        for (number, (trace, name)) in all {
            let (_, heading, count) = match last {
                Some(known) if known.0 == trace => known,
                _ => {
                    let of_trace = experiment.names().nth(trace).unwrap_or_default();
                    (trace, self.add(None, of_trace, EntryContent::Heading), 0)
                }
            };
            let entry = self.add(Some(heading), &name, content(number, trace));
            self.list[entry].is_default = count < DEFAULT_SERIES;
            last = Some((trace, heading, count + 1));
        }
    }

    /// The threads of paths, below a heading for each path.
    fn add_paths(&mut self, experiment: &Experiment, derived: &DerivedPath) {
        for (path, shown) in derived.paths.iter().enumerate() {
            let Some(wanted) = shown.path.threads.first() else { continue };
            let name = experiment.names().nth(wanted.trace).unwrap_or_default();
            let heading = self.add(None, &format!("{}, {name}", wanted.title), EntryContent::Heading);
            self.list[heading].labels.push(String::new());
            for (thread, of) in shown.path.threads.iter().enumerate() {
                let entry = self.add(Some(heading), &of.title, EntryContent::PathThread { path, thread });
                let entry = &mut self.list[entry];
                entry.labels.push(of.tid.to_string());
                entry.ends = shown.ends(thread).unwrap_or(entry.ends);
            }
        }
    }

    /// CPUs or threads of a trace, or keys of definitions of the user.
    fn add_states(&mut self, kept: &StateTracks, (trace, name): (usize, &str), output: Output) {
        let is_wanted = |of: Of| match of {
            Of::Cpu(_) => matches!(output, Output::Cpus | Output::CpuUse),
            Of::Thread(..) => matches!(output, Output::Threads | Output::CpuUse),
            Of::Custom(..) => output == Output::CustomStates,
        };
        let tracks: Vec<usize> = kept.tracks_of(trace).filter(|at| is_wanted(kept.states.tracks[*at].of)).collect();
        if tracks.is_empty() {
            return;
        }
        let heading = match output {
            Output::CpuUse => EntryContent::CpuUse(Which::Trace(trace)),
            _ => EntryContent::Heading,
        };
        let heading = self.add(None, name, heading);
        self.list[heading].is_default = output == Output::CpuUse;
        let first = self.list.len();
        for &at in &tracks {
            let track = &kept.states.tracks[at];
            let last = track.depth().saturating_sub(1);
            let shown = match output {
                Output::CpuUse => EntryContent::CpuUse(Which::Track(at)),
                _ => EntryContent::States { track: at, depth: last },
            };
            let entry = self.add(Some(heading), &track.name, shown);
            if output == Output::CpuUse {
                continue;
            }
            match track.of {
                // The state of a CPU, and what it runs.
                Of::Cpu(_) if last > 0 => {
                    self.add(
                        Some(entry),
                        &format!("{} threads", track.name),
                        EntryContent::States { track: at, depth: 0 },
                    );
                }
                Of::Cpu(_) => {}
                Of::Custom(..) => {
                    let entry = &mut self.list[entry];
                    entry.ends = kept.states.ends(at).unwrap_or(entry.ends);
                }
                Of::Thread(tid, _) => {
                    let entry = &mut self.list[entry];
                    entry.labels.push(tid.to_string());
                    entry.ends = kept.states.ends(at).unwrap_or(entry.ends);
                }
            }
        }
        if output != Output::Threads {
            return;
        }
        self.list[heading].labels.push(String::new());
        // Threads stand below those that made them; there is one entry for each.
        let place = |track: usize| tracks.iter().position(|at| *at == track).map(|at| first + at);
        for (at, track) in tracks.iter().enumerate() {
            let parent = kept.states.tracks[*track].parent.and_then(place);
            self.list[first + at].parent = parent.or(Some(heading));
        }
    }

    fn add_calls(&mut self, experiment: &Experiment) {
        let Some(calls) = experiment.state.calls() else { return };
        for (at, name) in experiment.names().enumerate() {
            let mut own =
                calls.tasks.iter().enumerate().filter(|(_, task)| task.trace == at && task.calls > 0).peekable();
            if own.peek().is_none() {
                continue;
            }
            let of_trace = self.add(None, name, EntryContent::Heading);
            for (number, task) in own {
                let name =
                    if task.name.is_empty() { task.tid.to_string() } else { format!("{} {}", task.name, task.tid) };
                let of_task = self.add(Some(of_trace), &name, EntryContent::Heading);
                for depth in 0..task.depth.min(MOST_ROWS) as usize {
                    self.add(Some(of_task), &(depth + 1).to_string(), EntryContent::Calls { task: number, depth });
                }
            }
        }
    }
}

impl Entry {
    /// As the protocol has it, without what only some trees say.
    pub(super) fn to_json(&self, id: usize) -> Value {
        let mut value = json!({ "id": id, "labels": self.labels, "hasData": self.shown != EntryContent::Heading });
        if let Some(parent) = self.parent {
            value["parentId"] = parent.into();
        }
        value
    }

    /// As the tree of a time graph has it.
    pub(super) fn to_time_graph_json(&self, id: usize, state: &TraceState) -> Value {
        let mut value = self.to_json(id);
        value["start"] = clamp(self.ends.0).into();
        value["end"] = clamp(self.ends.1).into();
        let of = match self.shown {
            EntryContent::States { track, .. } => state.states().map(|kept| kept.states.tracks[track].of),
            _ => None,
        };
        match of {
            Some(Of::Cpu(number)) => value["metadata"] = json!({ "cpu": [number] }),
            Some(Of::Thread(tid, _)) => value["metadata"] = json!({ "tid": [tid] }),
            Some(Of::Custom(..)) => {}
            None => {
                let is_of_path = matches!(self.shown, EntryContent::PathThread { .. });
                let tid = self.labels.get(1).filter(|_| is_of_path).and_then(|tid| tid.parse::<i64>().ok());
                tid.into_iter().for_each(|tid| value["metadata"] = json!({ "tid": [tid] }));
            }
        }
        value
    }
}
