//! Times of calls, spans and pairs of events, for `tracemill diff`.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_analyses::diff::{Metric, MetricKind, Side, ValueSpread};
use tracemill_calls::CallOptions;
use tracemill_calls::completed_calls::{self, CallSink, CompletedCall};
use tracemill_calls::follow::Follower;
use tracemill_engine::filter::Filter;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_engine::trace_calls::TraceCalls;

use crate::report::Reporter;

/// Adds the times of all calls to what was read of a side. False when an error ends that.
pub(super) fn add_durations(
    session: &Arc<Session>,
    (streams, selection, filter): (&[SelectedStream], &Selection, Option<&Filter>),
    side: &mut Side,
    reporter: &mut Reporter,
) -> bool {
    for trace in 0..session.traces.len() {
        let Some(calls) = TraceCalls::with_pairs(session, trace, streams, selection, filter) else { continue };
        let mut follower = Follower::new(calls.source(), CallOptions::default());
        let (mut wanted, mut found) = (calls.wanted(None), Durations::default());
        completed_calls::follow(&mut follower, &mut wanted, |time| calls.ns(time), &mut found);
        let findings = follower.take_findings();
        if findings.faults.iter().chain(&wanted.take_faults()).any(|fault| reporter.fault(fault)) {
            return false;
        }
        for ((symbol, _), (address, spread)) in found.by_function {
            let of = follower.known_symbol(symbol, address).symbol.name.clone();
            let metric = Metric { kind: MetricKind::Duration, of, part: String::new() };
            side.spreads.entry(metric).or_default().append(&spread);
        }
    }
    true
}

/// Times of calls by function, each with an address of it.
#[derive(Default)]
struct Durations {
    /// Functions without a symbol are told apart by their addresses.
    by_function: HashMap<(u32, u64), (u64, ValueSpread)>,
}

impl CallSink for Durations {
    fn push_call(&mut self, call: CompletedCall) {
        // Calls without an end have no time.
        let Some(taken) = call.taken else { return };
        let function = (call.symbol, if call.symbol == 0 { call.address } else { 0 });
        let (_, spread) = self.by_function.entry(function).or_insert_with(|| (call.address, ValueSpread::default()));
        spread.add(taken as f64);
    }

    fn should_continue(&mut self, _: &mut Follower<'_>) -> bool {
        true
    }
}
