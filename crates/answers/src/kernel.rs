//! Analyses of kernels for those who look at traces: the events are read once more for each question.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracemill_analyses::kernel::{ANALYSES, AnalysisQuery, Descriptor, Reading, Table, UnmatchedOptions, Value};
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Error;

use crate::error::{Answer, ApiError};
use crate::query::Asker;
use crate::readings::{first_traces, has_all_events, input};
use crate::state::TraceState;
use crate::traces::ShownTraces;

/// A question to an analysis, before the events are read.
pub(crate) struct KernelQuestion<'a> {
    pub(crate) reading: Reading<'a>,
    pub(crate) known: &'static Descriptor,
    pub(crate) query: AnalysisQuery,
    /// The first trace of each machine.
    pub(crate) traces: Vec<usize>,
}

/// Where values stand in the rows of a table.
#[derive(Clone, Copy)]
pub(crate) struct RowPlaces<const N: usize> {
    places: [usize; N],
    has_machines: bool,
}

impl<const N: usize> RowPlaces<N> {
    /// The machine of a row, and its values.
    pub(crate) fn values<'r>(&self, row: &[Value<'r>]) -> (usize, [Value<'r>; N]) {
        let machine = match row.first() {
            Some(Value::Text(number)) if self.has_machines => number.parse().unwrap_or(0),
            _ => 0,
        };
        (machine, self.places.map(|at| row.get(at).copied().unwrap_or(Value::Null)))
    }
}

/// An integer of a row; 0 for what is none.
pub(crate) fn integer(value: Value<'_>) -> i128 {
    if let Value::Integer(number) = value { number } else { 0 }
}

/// A text of a row; an empty one for what is none.
pub(crate) fn text<'v>(value: Value<'v>) -> &'v str {
    match value {
        Value::Text(text) | Value::Word(text) => text,
        _ => "",
    }
}

impl<'a> KernelQuestion<'a> {
    /// A question to the analysis of a name, about the selected times. `None` when the traces have no events that it needs, and
    /// when filters or redactions leave out some.
    pub(crate) fn new(
        traces: &'a ShownTraces,
        name: &str,
        query: AnalysisQuery,
        stop: &Arc<AtomicBool>,
    ) -> Option<KernelQuestion<'a>> {
        let known = Descriptor::find(name)?;
        if !has_all_events(traces) || traces.selection.redactions.is_some() {
            return None;
        }
        let mut input = input(traces, stop);
        let Selection { begin_ns, end_ns, .. } = &mut input.selection;
        *begin_ns = begin_ns.iter().chain(&query.begin).max().copied();
        *end_ns = end_ns.iter().chain(&query.end).min().copied();
        let (begin, end) = (*begin_ns, *end_ns);
        let reading = Reading::new(input);
        if !known.is_fed(&query, &reading.concepts()) {
            return None;
        }
        let firsts = first_traces(&reading, traces);
        // Rows name their machine. Two traces may have one name, so numbers stand in the place of names.
        let machine_names = Rc::new((0..firsts.len()).map(|machine| machine.to_string()).collect());
        let query = AnalysisQuery { begin, end, has_machines: firsts.len() > 1, machine_names, ..query };
        Some(KernelQuestion { reading, known, query, traces: firsts })
    }

    /// The places of columns in the rows of its table.
    pub(crate) fn places<const N: usize>(&self, names: [&str; N]) -> Answer<RowPlaces<N>> {
        let columns = self.known.columns_for(&self.query);
        let mut places = [0; N];
        for (place, name) in places.iter_mut().zip(names) {
            let missing = || ApiError::new(500, "fault", format!("`{}` has no column `{name}`", self.known.name));
            *place = columns.iter().position(|column| column.name == name).ok_or_else(missing)?;
        }
        Ok(RowPlaces { places, has_machines: self.query.has_machines })
    }

    /// Options of the question that no thread and no CPU fits, once it is answered.
    pub(crate) fn watch_options(&mut self) -> UnmatchedOptions {
        self.reading.watch_options(&self.query)
    }

    /// Reads the events.
    pub(crate) fn table(self, state: &TraceState, asker: &Asker) -> Answer<Table> {
        // Losses and faults are reported by the index.
        let go_on =
            &mut |_| if asker.is_over(&state.progress) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let refused = |error: Error| ApiError::new(500, "fault", error.message());
        let analysis = (self.known.make)(&self.query);
        let table = self.reading.run(vec![analysis], go_on).map_err(refused)?.pop();
        if asker.is_over(&state.progress) {
            return Err(Asker::cancelled());
        }
        table.ok_or_else(|| ApiError::new(500, "fault", "the analysis has no table"))
    }
}

impl TraceState {
    /// Names of the analyses that the traces have the events for.
    pub(crate) fn analyses(&self) -> &[&'static str] {
        self.caches.analyses.get_or_init(|| {
            let traces = &self.input.traces;
            if !has_all_events(traces) || traces.selection.redactions.is_some() {
                return Vec::new();
            }
            let has = Reading::new(input(traces, &Arc::default())).concepts();
            let query = AnalysisQuery::default();
            // States of users come from a file, which the command line names.
            let is_there = |name: &str| name != CUSTOM || traces.custom.is_some();
            let fed = ANALYSES.iter().filter(|known| is_there(known.name) && known.is_fed(&query, &has));
            fed.map(|known| known.name).collect()
        })
    }

    /// Do the traces have the events that an analysis of `analyze` needs, and may it see all of them?
    pub fn can_analyze(&self, name: &str) -> bool {
        KernelQuestion::new(&self.input.traces, name, AnalysisQuery::default(), &Arc::default()).is_some()
    }
}

/// The analysis of the states and counters that users define.
pub(crate) const CUSTOM: &str = "custom";

/// The error for a question that the events do not answer.
pub(crate) fn unanswered(name: &str) -> ApiError {
    ApiError::new(404, "analysis", format!("the traces do not have the events that `{name}` needs"))
}
