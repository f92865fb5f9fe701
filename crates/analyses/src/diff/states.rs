//! Times of threads in traces of kernels: times in states, of system calls and of interrupts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use tracemill_engine::merge::Note;
use tracemill_model::error::Result;
use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    Happening, Interrupt, Machines, Map, Ns, Observer, SystemCall, ThreadIndex, ThreadPiece, ThreadState,
};

use super::noise::{Metric, MetricKind};
use super::spread::ValueSpread;
use crate::kernel::{Analysis, Input, Reading, ReportKind, ReportTimes, Table};

/// Threads without a name.
const UNNAMED: &str = "(no name)";

/// Adds the times of states, system calls and interrupts, if the events of the input say what CPUs do. Threads of one name
/// count as one, as their numbers differ from run to run.
///
/// # Errors
/// When no event has a time.
pub fn add_states(
    input: Input<'_>,
    spreads: &mut BTreeMap<Metric, ValueSpread>,
    note: &mut dyn FnMut(Note) -> ControlFlow<()>,
) -> Result<()> {
    let reading = Reading::new(input);
    let has = reading.concepts();
    if ![Concept::Switch, Concept::SysEntry, Concept::IrqEntry].iter().any(|concept| has.contains(concept)) {
        return Ok(());
    }
    let found = Rc::new(RefCell::new(BTreeMap::new()));
    reading.run(vec![Box::new(StateTimes { open: Map::default(), found: found.clone() })], note)?;
    spreads.append(&mut found.borrow_mut());
    Ok(())
}

/// Collects times while the events pass.
struct StateTimes {
    /// The state of each thread, its beginning, and its end so far: pieces next to each other may be of one state.
    open: Map<ThreadIndex, (ThreadState, Ns, Ns)>,
    found: Rc<RefCell<BTreeMap<Metric, ValueSpread>>>,
}

impl StateTimes {
    fn add(&self, kind: MetricKind, of: &str, part: &str, time: Ns) {
        let metric = Metric { kind, of: of.to_string(), part: part.to_string() };
        self.found.borrow_mut().entry(metric).or_default().add(time as f64);
    }

    fn end_state(&self, machines: &Machines, thread: ThreadIndex, (state, from, to): (ThreadState, Ns, Ns)) {
        let name = machines.thread(thread).comm.as_deref().unwrap_or(UNNAMED);
        self.add(MetricKind::State, name, state.name(), to - from);
    }
}

impl Observer for StateTimes {
    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        let &ThreadPiece { thread, from, to, state } = piece;
        match self.open.get_mut(&thread) {
            Some((known, _, end)) if *known == state && *end == from => *end = to,
            _ => {
                if let Some(ended) = self.open.insert(thread, (state, from, to)) {
                    self.end_state(machines, thread, ended);
                }
            }
        }
    }

    fn call_ended(&mut self, _: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        self.add(MetricKind::Duration, call.name, "system call", call.to - call.from);
    }

    fn interrupt(&mut self, _: &Machines, interrupt: &Interrupt<'_>) {
        let number = interrupt.number.to_string();
        self.add(
            MetricKind::Duration,
            interrupt.name.unwrap_or(&number),
            interrupt.kind.name(),
            interrupt.to - interrupt.from,
        );
    }
}

impl Analysis for StateTimes {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::ThreadPiece, ReportKind::CallEnded, ReportKind::Interrupt], ReportTimes::Range)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, _: Option<(Ns, Ns)>) -> Table {
        self.open.iter().for_each(|(thread, ended)| self.end_state(machines, *thread, *ended));
        Table::default()
    }
}
