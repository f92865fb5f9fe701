//! The entries of the trees of outputs, and the part of the traces that each shows.

use serde_json::{Value, json};
use tracemill_answers::{StateTracks, TraceState};
use tracemill_lod::states::Of;

use super::experiments::{Experiment, clamp};
use super::outputs::Output;

/// Rows of calls of a task at most: deeper ones are not shown.
const MOST_ROWS: u64 = 256;

/// An entry of a tree. Its number is its place in the list.
pub(super) struct Entry {
    parent: Option<usize>,
    pub(super) labels: Vec<String>,
    /// From when to when it is there.
    ends: (i128, i128),
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
pub(super) fn entries(experiment: &Experiment, output: Output) -> Vec<Entry> {
    let state = &*experiment.state;
    let mut list = Entries { list: Vec::new(), ends: experiment.ends() };
    match output {
        Output::Histogram => {
            let all = list.add(None, "Total", EntryContent::Events(Which::All));
            for (at, name) in experiment.names().enumerate() {
                list.add(Some(all), name, EntryContent::Events(Which::Trace(at)));
            }
        }
        Output::EventCounts => {
            let (timeline, source) = (state.timeline(), state.input.traces.source());
            let tracks = timeline.tracks();
            for (at, name) in experiment.names().enumerate() {
                let of_trace = list.add(None, name, EntryContent::Events(Which::Trace(at)));
                let own = tracks.iter().enumerate().filter(|(_, track)| track.who(&source).0 == at);
                for (track, of) in own {
                    list.add(Some(of_trace), of.who(&source).1, EntryContent::Events(Which::Track(track)));
                }
            }
        }
        Output::CallStacks => list.add_calls(experiment),
        Output::Cpus | Output::Threads | Output::CpuUse => {
            if let Some(kept) = state.states() {
                experiment.names().enumerate().for_each(|(at, name)| list.add_states(kept, (at, name), output));
            }
        }
        Output::Events | Output::Statistics => {}
    }
    list.list
}

struct Entries {
    list: Vec<Entry>,
    ends: (i128, i128),
}

impl Entries {
    fn add(&mut self, parent: Option<usize>, name: &str, shown: EntryContent) -> usize {
        self.list.push(Entry { parent, labels: vec![name.to_string()], ends: self.ends, shown });
        self.list.len() - 1
    }

    /// CPUs or threads of a trace.
    fn add_states(&mut self, kept: &StateTracks, (trace, name): (usize, &str), output: Output) {
        let is_wanted = |of: Of| match of {
            Of::Cpu(_) => output != Output::Threads,
            Of::Thread(..) => output != Output::Cpus,
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
            None => {}
        }
        value
    }
}
