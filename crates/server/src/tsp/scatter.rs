//! Scatter charts: how long system calls and functions took, over time.

use std::collections::HashMap;

use tracemill_answers::{Asker, Scatter, ScatterSeries};

use super::entries::EntryContent;
use super::experiments::Experiment;
use super::parameters::Samples;
use super::refusal::Answered;

/// The points of some entries that begin in a range: as many of each entry as there are samples at most.
pub(super) fn series(
    experiment: &Experiment,
    parts: &[EntryContent],
    range: &Samples,
    asker: &Asker,
) -> Answered<Vec<ScatterSeries>> {
    let (state, (begin, end)) = (&*experiment.state, (range.begin, range.end));
    let mut scatter = Scatter::new((begin, end), usize::try_from(range.count).unwrap_or(1), parts.len());
    let latencies = match parts.iter().any(|part| matches!(part, EntryContent::SystemCalls(_))) {
        true => Some(state.system_call_latencies(asker)?),
        false => None,
    };
    let mut was_thinned = vec![false; parts.len()];
    // By trace: functions, and the series of each.
    let mut functions: HashMap<usize, HashMap<u32, usize>> = HashMap::new();
    for (at, part) in parts.iter().enumerate() {
        match *part {
            EntryContent::SystemCalls(number) => {
                let Some(of) = latencies.iter().find_map(|all| all.get(number)) else { continue };
                was_thinned[at] = of.is_thinned;
                let first = of.points.partition_point(|point| point.0 < begin);
                let inside = of.points[first..].iter().take_while(|point| point.0 <= end);
                inside.for_each(|point| scatter.add(at, *point));
            }
            EntryContent::Function { trace, name } => {
                functions.entry(trace).or_default().insert(name, at);
            }
            _ => {}
        }
    }
    if let Some(calls) = state.calls() {
        let is_over = || asker.is_over(&state.progress);
        for (trace, own) in functions {
            let tasks: Vec<usize> = (0..calls.tasks.len()).filter(|task| calls.tasks[*task].trace == trace).collect();
            let see = |begin: i64, duration: i64, name: u32| {
                own.get(&name).into_iter().for_each(|series| scatter.add(*series, (begin, duration)));
            };
            calls.for_each_begun((begin, end), Some(&tasks), &is_over, see).ok_or_else(Asker::cancelled)?;
        }
    }
    let mut all = scatter.finish();
    all.iter_mut().zip(was_thinned).for_each(|(series, was)| series.is_thinned |= was);
    Ok(all)
}
