//! The outputs of an experiment.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracemill_answers::TraceState;
use tracemill_lod::states::Of;

use super::critical_path;
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
    /// States that the user defines.
    CustomStates,
    CallStacks,
    CpuUse,
    Counters,
    SystemCalls,
    SystemCallStatistics,
    Functions,
    FunctionStatistics,
    Statistics,
    CriticalPath,
    /// A critical path that a client made, by its number.
    Path(u32),
}

use Output::{
    CallStacks, Counters, CpuUse, Cpus, CriticalPath, CustomStates, EventCounts, Events, FunctionStatistics, Functions,
    Histogram, Path, Statistics, SystemCallStatistics, SystemCalls, Threads,
};

/// All but those that clients make.
const ALL: [Output; 15] = [
    Events,
    Histogram,
    EventCounts,
    Cpus,
    Threads,
    CustomStates,
    CallStacks,
    CpuUse,
    Counters,
    SystemCalls,
    SystemCallStatistics,
    Functions,
    FunctionStatistics,
    Statistics,
    CriticalPath,
];

/// How long the list of outputs waits for traces that are being read: clients ask for it once, and which outputs have data is
/// known at the end.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

impl Output {
    /// The output of an id, when the experiment may have it.
    pub(super) fn find(experiment: &Experiment, id: &str) -> Answered<Output> {
        let missing = || Refusal::new(404, "No such output", format!("there is no output `{id}`"));
        let known = ALL.into_iter().find(|output| output.id() == id);
        known.or_else(|| experiment.paths.find(id).map(Path)).ok_or_else(missing)
    }

    /// The output of an id that has one of these types.
    pub(super) fn of_type(experiment: &Experiment, id: &str, kind: &str) -> Answered<Output> {
        let output = Output::find(experiment, id)?;
        let wrong = || Refusal::new(404, "No such output", format!("`{id}` is of type {}", output.kind()));
        (kind == output.kind()).then_some(output).ok_or_else(wrong)
    }

    fn id(self) -> &'static str {
        match self {
            Events => "events",
            Histogram => "histogram",
            EventCounts => "event-counts",
            Cpus => "cpus",
            Threads => "threads",
            CustomStates => "custom-states",
            CallStacks => "call-stacks",
            CpuUse => "cpu-usage",
            Counters => "counters",
            // Clients take an output for a scatter chart by this word.
            SystemCalls => "system-calls-scatter",
            SystemCallStatistics => "system-call-statistics",
            Functions => "functions-scatter",
            FunctionStatistics => "function-statistics",
            Statistics => "statistics",
            CriticalPath | Path(_) => critical_path::PARENT,
        }
    }

    /// Clients look for the overview of an experiment by the name `Histogram`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Events => "Events Table",
            Histogram => "Histogram",
            EventCounts => "Event Counts",
            Cpus => "CPUs",
            Threads => "Threads",
            CustomStates => "Custom States",
            CallStacks => "Call Stacks",
            CpuUse => "CPU Usage",
            Counters => "Counters",
            SystemCalls => "System Call Latency vs Time",
            SystemCallStatistics => "System Call Latency Statistics",
            Functions => "Function Duration vs Time",
            FunctionStatistics => "Function Duration Statistics",
            Statistics => "Event Statistics",
            CriticalPath | Path(_) => "Critical Path",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Events => "All events with their fields",
            Histogram => "Events over time",
            EventCounts => "Events over time, of each stream",
            Cpus => "What each CPU does, and which thread it runs",
            Threads => "The states of each thread; arrows lead from threads to those that they woke",
            CustomStates => "The states that the file of --states defines, of each key",
            CallStacks => "The functions that each thread is in",
            CpuUse => "How busy CPUs are, and how busy each thread keeps them",
            Counters => "The values of counters over time",
            SystemCalls => "How long system calls took, each at the time at which it began",
            SystemCallStatistics => "How long system calls took, by name",
            Functions => "How long calls of functions took, each at the time at which it began",
            FunctionStatistics => "How long calls of functions took, by name",
            Statistics => "Events by name",
            CriticalPath | Path(_) => {
                "What a thread did, and waited for: add a view for each thread that you look into"
            }
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Events => "TABLE",
            Histogram | EventCounts | CpuUse | Counters | SystemCalls | Functions => "TREE_TIME_XY",
            Cpus | Threads | CustomStates | CallStacks | Path(_) => "TIME_GRAPH",
            Statistics | SystemCallStatistics | FunctionStatistics => "DATA_TREE",
            CriticalPath => "NONE",
        }
    }

    /// Has it data? It may, as long as the traces are being read.
    fn is_there(self, state: &TraceState) -> bool {
        let has = |is_own: fn(Of) -> bool| {
            let kept = state.states();
            kept.is_some_and(|kept| kept.shown_tracks().any(|at| is_own(kept.states.tracks[at].of)))
        };
        match self {
            Events | Histogram | EventCounts | Statistics => true,
            CustomStates if state.input.traces.custom.is_none() => false,
            _ if !state.is_complete() => state.input.traces.selection.redactions.is_none(),
            Cpus | CpuUse => has(|of| matches!(of, Of::Cpu(_))),
            Threads => has(|of| matches!(of, Of::Thread(..))),
            CustomStates => has(|of| matches!(of, Of::Custom(..))),
            CallStacks | Functions | FunctionStatistics => {
                state.calls().is_some_and(|calls| calls.tasks.iter().any(|task| task.calls > 0))
            }
            Counters => state.shown_counters().next().is_some(),
            SystemCalls | SystemCallStatistics => state.can_analyze("syscalls"),
            CriticalPath => state.can_analyze("path"),
            Path(_) => true,
        }
    }

    /// As the protocol has it.
    pub(super) fn to_json(self, experiment: &Experiment) -> Value {
        let mut value =
            json!({ "id": self.id(), "name": self.name(), "description": self.description(), "type": self.kind() });
        match self {
            CriticalPath => value["capabilities"] = json!({ "canCreate": true }),
            Path(number) => value = experiment.paths.path(number).map_or(value, |derived| derived.to_json()),
            _ => {}
        }
        value
    }
}

/// The outputs that have data.
pub(super) fn list(experiment: &Experiment) -> Value {
    let (state, begun) = (&experiment.state, Instant::now());
    while !state.is_complete() && begun.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
    }
    let own = ALL.into_iter().filter(|output| output.is_there(state));
    let made = experiment.paths.numbers().into_iter().map(Path);
    own.chain(made).map(|output| output.to_json(experiment)).collect()
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
