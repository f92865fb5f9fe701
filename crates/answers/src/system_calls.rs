//! Latencies of system calls: those of `analyze syscalls`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tracemill_analyses::kernel::{AnalysisQuery, Value, View};

use crate::error::Answer;
use crate::kernel::{KernelQuestion, integer, text, unanswered};
use crate::latencies::{SystemCallLatencies, SystemCallStatistics};
use crate::query::Asker;
use crate::scatter::{DurationPoint, Scatter};
use crate::state::TraceState;

const ANALYSIS: &str = "syscalls";

/// Latencies of one system call that are kept at most: of more, the shortest and the longest of each part of the time.
const MOST_POINTS: usize = 1 << 16;
/// Names of system calls at most.
const MOST_NAMES: usize = 4096;

/// Collects the calls that a reading finds.
struct Collector {
    /// The numbers of series, by machine and name.
    numbers: HashMap<usize, HashMap<String, usize>>,
    /// How many there are.
    series: usize,
    scatter: Scatter,
}

/// The name of all system calls beyond [`MOST_NAMES`].
const OTHERS: &str = "others";

impl Collector {
    fn add(&mut self, machine: usize, name: &str, point: DurationPoint) {
        let Collector { numbers, series, scatter } = self;
        let own = numbers.entry(machine).or_default();
        let number = own.get(name).copied().unwrap_or_else(|| {
            // No kernel has so many system calls; a trace may claim anything.
            let name = if *series < MOST_NAMES { name } else { OTHERS };
            *own.entry(name.to_string()).or_insert_with(|| {
                *series += 1;
                scatter.add_series()
            })
        });
        scatter.add(number, point);
    }
}

impl TraceState {
    /// The latencies of all system calls, by trace and name. They are read once.
    ///
    /// # Errors
    /// When the traces have no system calls, or the asker is gone.
    pub fn system_call_latencies(&self, asker: &Asker) -> Answer<Arc<Vec<SystemCallLatencies>>> {
        let is_over = || asker.is_over(&self.progress);
        self.caches.system_calls.get_or_make((), &is_over, || read_latencies(self, asker).map(Arc::new))
    }

    /// Statistics about the system calls that ended in a range, or about all; by trace and name.
    ///
    /// # Errors
    /// When the traces have no system calls, or the asker is gone.
    pub fn system_call_statistics(
        &self,
        range: Option<(i128, i128)>,
        asker: &Asker,
    ) -> Answer<Arc<Vec<SystemCallStatistics>>> {
        let is_over = || asker.is_over(&self.progress);
        self.caches.of_system_calls.get_or_make(range, &is_over, || read_statistics(self, range, asker).map(Arc::new))
    }
}

fn read_latencies(state: &TraceState, asker: &Asker) -> Answer<Vec<SystemCallLatencies>> {
    let query = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
    let asked = KernelQuestion::new(&state.input.traces, ANALYSIS, query, &asker.flag());
    let mut asked = asked.ok_or_else(|| unanswered(ANALYSIS))?;
    let places = asked.places(["name", "from", "duration_ns"])?;
    let near = |ns: Option<i128>| ns.unwrap_or(0).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let (begin, end) = state.ends();
    let scatter = Scatter::new((near(begin), near(end)), MOST_POINTS, 0);
    let found = Rc::new(RefCell::new(Collector { numbers: HashMap::new(), series: 0, scatter }));
    let taker = found.clone();
    asked.query.sink = Some(Rc::new(RefCell::new(move |row: &[Value<'_>]| {
        let (machine, [name, from, duration]) = places.values(row);
        if let (Ok(from), Ok(duration)) = (i64::try_from(integer(from)), i64::try_from(integer(duration))) {
            taker.borrow_mut().add(machine, text(name), (from, duration));
        }
    })));
    let traces = asked.traces.clone();
    asked.table(state, asker)?;
    let Collector { numbers, scatter, .. } = &mut *found.borrow_mut();
    let scatter = std::mem::replace(scatter, Scatter::new((0, 0), 0, 0));
    let names = numbers.drain().flat_map(|(machine, own)| own.into_iter().map(move |(name, at)| (machine, name, at)));
    let mut names: Vec<(usize, String, usize)> = names.collect();
    names.sort_unstable();
    let mut series: Vec<_> = scatter.finish().into_iter().map(Some).collect();
    let all = names.into_iter().filter_map(|(machine, name, number)| {
        let of = series.get_mut(number)?.take()?;
        let trace = traces.get(machine).copied().unwrap_or(0);
        Some(SystemCallLatencies { trace, name, points: of.points, is_thinned: of.is_thinned })
    });
    Ok(all.collect())
}

fn read_statistics(
    state: &TraceState,
    range: Option<(i128, i128)>,
    asker: &Asker,
) -> Answer<Vec<SystemCallStatistics>> {
    let (begin, end) = range.unzip();
    let query = AnalysisQuery { begin, end, ..AnalysisQuery::default() };
    let asked = KernelQuestion::new(&state.input.traces, ANALYSIS, query, &asker.flag());
    let asked = asked.ok_or_else(|| unanswered(ANALYSIS))?;
    let places = asked.places(["name", "count", "total_ns", "min_ns", "max_ns", "mean_ns", "deviation_ns"])?;
    let traces = asked.traces.clone();
    let table = asked.table(state, asker)?;
    let real = |value: Value<'_>| if let Value::Real(number) = value { number } else { integer(value) as f64 };
    let mut all = Vec::with_capacity(table.rows.len());
    table.rows.for_each(&mut |row| {
        let (machine, [name, count, total, min, max, mean, deviation]) = places.values(row);
        all.push(SystemCallStatistics {
            trace: traces.get(machine).copied().unwrap_or(0),
            name: text(name).to_string(),
            count: u64::try_from(integer(count)).unwrap_or(0),
            total: integer(total),
            min: integer(min),
            max: integer(max),
            mean: real(mean),
            deviation: real(deviation),
        });
    });
    all.sort_by(|a, b| (a.trace, &a.name).cmp(&(b.trace, &b.name)));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_names_are_one() {
        let mut collector = Collector { numbers: HashMap::new(), series: 0, scatter: Scatter::new((0, 99), 9, 0) };
        let names: Vec<String> = (0..MOST_NAMES + 5).map(|at| format!("call{at}")).collect();
        for round in 0..2 {
            names.iter().for_each(|name| collector.add(0, name, (round, 7)));
        }
        let others = collector.numbers[&0][OTHERS];
        assert_eq!(collector.series, MOST_NAMES + 1);
        let series = collector.scatter.finish();
        assert_eq!((series.len(), series[0].points.len()), (MOST_NAMES + 1, 2));
        assert_eq!(series[others].points.len(), 1);
    }
}
