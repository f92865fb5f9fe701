//! The outputs of an experiment.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracemill_answers::TraceState;
use tracemill_lod::states::Of;

use super::experiments::Experiment;
use super::refusal::{Answered, Refusal};

/// An output: something that can be shown of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Output {
    Events,
    Histogram,
    EventCounts,
    Cpus,
    Threads,
    CallStacks,
    CpuUse,
    Statistics,
}

use Output::{CallStacks, CpuUse, Cpus, EventCounts, Events, Histogram, Statistics, Threads};

const ALL: [Output; 8] = [Events, Histogram, EventCounts, Cpus, Threads, CallStacks, CpuUse, Statistics];

/// How long the list of outputs waits for traces that are being read: clients ask for it once, and which outputs have data is
/// known at the end.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

impl Output {
    /// The output of an id, when the experiment may have it.
    pub(super) fn find(id: &str) -> Answered<Output> {
        let missing = || Refusal::new(404, "No such output", format!("there is no output `{id}`"));
        ALL.into_iter().find(|output| output.id() == id).ok_or_else(missing)
    }

    /// The output of an id that has one of these types.
    pub(super) fn of_type(id: &str, types: &[&str]) -> Answered<Output> {
        let output = Output::find(id)?;
        let wrong = || Refusal::new(404, "No such output", format!("`{id}` is of type {}", output.kind()));
        types.contains(&output.kind()).then_some(output).ok_or_else(wrong)
    }

    fn id(self) -> &'static str {
        match self {
            Events => "events",
            Histogram => "histogram",
            EventCounts => "event-counts",
            Cpus => "cpus",
            Threads => "threads",
            CallStacks => "call-stacks",
            CpuUse => "cpu-usage",
            Statistics => "statistics",
        }
    }

    /// Clients look for the overview of an experiment by the name `Histogram`.
    fn name(self) -> &'static str {
        match self {
            Events => "Events Table",
            Histogram => "Histogram",
            EventCounts => "Event Counts",
            Cpus => "CPUs",
            Threads => "Threads",
            CallStacks => "Call Stacks",
            CpuUse => "CPU Usage",
            Statistics => "Event Statistics",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Events => "All events with their fields",
            Histogram => "Events over time",
            EventCounts => "Events over time, of each stream",
            Cpus => "What each CPU does, and which thread it runs",
            Threads => "The states of each thread; arrows lead from threads to those that they woke",
            CallStacks => "The functions that each thread is in",
            CpuUse => "How busy CPUs are, and how busy each thread keeps them",
            Statistics => "Events by name",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Events => "TABLE",
            Histogram | EventCounts | CpuUse => "TREE_TIME_XY",
            Cpus | Threads | CallStacks => "TIME_GRAPH",
            Statistics => "DATA_TREE",
        }
    }

    /// Has it data? It may, as long as the traces are being read.
    fn is_there(self, state: &TraceState) -> bool {
        let is_of_cpu = |of: Of| matches!(of, Of::Cpu(_));
        let has = |is_cpu: bool| {
            let kept = state.states();
            kept.is_some_and(|kept| kept.shown_tracks().any(|at| is_of_cpu(kept.states.tracks[at].of) == is_cpu))
        };
        match self {
            Events | Histogram | EventCounts | Statistics => true,
            _ if !state.is_complete() => state.input.traces.selection.redactions.is_none(),
            Cpus | CpuUse => has(true),
            Threads => has(false),
            CallStacks => state.calls().is_some_and(|calls| calls.tasks.iter().any(|task| task.calls > 0)),
        }
    }

    pub(super) fn to_json(self) -> Value {
        json!({ "id": self.id(), "name": self.name(), "description": self.description(), "type": self.kind() })
    }
}

/// The outputs that have data.
pub(super) fn list(experiment: &Experiment) -> Value {
    let (state, begun) = (&experiment.state, Instant::now());
    while !state.is_complete() && begun.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
    }
    ALL.into_iter().filter(|output| output.is_there(state)).map(Output::to_json).collect()
}

/// A response with a model, when all is known; without one until then: the client asks again.
pub(super) fn response(state: &TraceState, model: impl FnOnce() -> Answered) -> Answered {
    if !state.is_complete() {
        return Ok(json!({ "status": "RUNNING", "statusMessage": "the traces are being read", "model": null }));
    }
    Ok(completed(model()?))
}

pub(super) fn completed(model: Value) -> Value {
    json!({ "status": "COMPLETED", "statusMessage": "", "model": model })
}
