//! Readings of shown traces for the states of machines.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracemill_analyses::kernel::{Input, Reading};
use tracemill_engine::timeline::Selection;
use tracemill_semantics::Concepts;

use crate::traces::ShownTraces;

/// The input of a reading of shown traces, which ends when `stop` is set.
pub(crate) fn input<'a>(traces: &'a ShownTraces, stop: &Arc<AtomicBool>) -> Input<'a> {
    Input {
        session: &traces.session,
        streams: &traces.streams,
        selection: Selection { stop: Some(stop.clone()), ..traces.selection.clone() },
        concepts: Concepts::built_in(),
        same_host: false,
    }
}

/// The first trace of each machine.
pub(crate) fn first_traces(reading: &Reading<'_>, traces: &ShownTraces) -> Vec<usize> {
    let mut firsts = vec![0; reading.machine_names().len()];
    (0..traces.session.traces.len()).rev().for_each(|trace| firsts[reading.machine(trace) as usize] = trace);
    firsts
}

/// Are all events selected, so that none is missing that changes states?
pub(crate) fn has_all_events(traces: &ShownTraces) -> bool {
    traces.filter.is_none() && traces.selection.classes.iter().all(Option::is_none)
}
