//! XY charts: events over time, how busy CPUs are, counters; and the points of scatter charts.

use std::collections::BTreeSet;

use serde_json::json;
use tracemill_answers::{Asker, ScatterSeries, ShownCounter, TraceState};
use tracemill_lod::states::Of;
use tracemill_lod::statistics;

use super::entries::{EntryContent, Which, entries};
use super::experiments::{Experiment, clamp};
use super::outputs::{Output, response};
use super::parameters::{Parameters, Samples};
use super::refusal::{Answered, Refusal};
use super::{scatter, styles};

/// Values in one answer at most.
const MOST_VALUES: usize = 1 << 20;

/// The tree of an XY chart.
pub(super) fn tree(experiment: &Experiment, output: Output, asker: &Asker) -> Answered {
    response(&experiment.state, || {
        let all = entries(experiment, output, asker)?;
        let list = all.iter().enumerate().map(|(id, entry)| {
            let mut value = entry.to_json(id);
            value["isDefault"] = entry.is_default.into();
            value
        });
        let headers = [json!({ "name": "Name", "tooltip": "", "dataType": "STRING" })];
        Ok(json!({ "entries": list.collect::<Vec<_>>(), "headers": headers }))
    })
}

/// Bins of equal width that cover a range: the bounds of each, one more than there are.
fn bounds(range: &Samples) -> Vec<i128> {
    let length = range.ends().1 - range.ends().0 + 1;
    let count = i128::from(range.count).min(length);
    (0..=count).map(|at| range.ends().0 + length * at / count).collect()
}

/// The values of a series, and the times at which they stand.
struct Series {
    x: Vec<i64>,
    y: Vec<f64>,
    /// Are there points that are not shown?
    is_thinned: bool,
}

/// The series of the chosen entries: points of scatter charts, of others one value for each bin, at the time at which it begins.
pub(super) fn values(experiment: &Experiment, output: Output, parameters: &Parameters, asker: &Asker) -> Answered {
    let (items, range) = (parameters.items()?, parameters.needed_range()?);
    let state = &*experiment.state;
    response(state, || {
        let all = entries(experiment, output, asker)?;
        let items: BTreeSet<usize> = items.iter().filter_map(|item| usize::try_from(*item).ok()).collect();
        let chosen: Vec<usize> = items
            .into_iter()
            .filter(|at| all.get(*at).is_some_and(|entry| entry.shown != EntryContent::Heading))
            .collect();
        let parts: Vec<EntryContent> = chosen.iter().map(|at| all[*at].shown).collect();
        let found = match output {
            Output::SystemCalls | Output::Functions => points(experiment, &parts, &range, asker)?,
            _ => binned(state, output, (&parts, &range), asker)?,
        };
        let counters: Vec<ShownCounter> =
            if output == Output::Counters { state.shown_counters().collect() } else { Vec::new() };
        let series = chosen.iter().zip(found).map(|(id, Series { x, y, is_thinned })| {
            let name = &all[*id].labels[0];
            let (label, unit, kind, data) = match (output, all[*id].shown) {
                (Output::CpuUse, _) => ("CPU usage", "%", "area", "NUMBER"),
                (Output::Histogram, _) => ("Events", "", "bar", "NUMBER"),
                // The axis says that some points are missing: the protocol has no other place for that.
                (Output::SystemCalls, _) if is_thinned => ("Latency (extremes only)", "ns", "scatter", "DURATION"),
                (Output::Functions, _) if is_thinned => ("Duration (extremes only)", "ns", "scatter", "DURATION"),
                (Output::SystemCalls, _) => ("Latency", "ns", "scatter", "DURATION"),
                (Output::Functions, _) => ("Duration", "ns", "scatter", "DURATION"),
                (_, EntryContent::Counter(at)) => {
                    ("Value", counters.get(at).and_then(|counter| counter.unit).unwrap_or_default(), "line", "NUMBER")
                }
                _ => ("Events", "", "line", "NUMBER"),
            };
            json!({
                "seriesId": id,
                "seriesName": name,
                "xValues": x,
                "yValues": y,
                "xValuesDescription": { "label": "Time", "unit": "ns", "dataType": "TIMESTAMP" },
                "yValuesDescription": { "label": label, "unit": unit, "dataType": data },
                "style": styles::of_series(name, kind),
            })
        });
        Ok(json!({ "title": output.name(), "series": series.collect::<Vec<_>>() }))
    })
}

fn check(values: usize) -> Answered<()> {
    if values > MOST_VALUES {
        let text = format!("the answer has more than {MOST_VALUES} values; ask for fewer samples or entries");
        return Err(Refusal::parameters(text));
    }
    Ok(())
}

/// Points, each where something began.
fn points(experiment: &Experiment, parts: &[EntryContent], range: &Samples, asker: &Asker) -> Answered<Vec<Series>> {
    let found = scatter::series(experiment, parts, range, asker)?;
    check(found.iter().map(|series| series.points.len()).sum())?;
    let series = |of: ScatterSeries| {
        let is_thinned = of.is_thinned;
        let (x, y) = of.points.into_iter().map(|(at, ns)| (at, ns as f64)).unzip();
        Series { x, y, is_thinned }
    };
    Ok(found.into_iter().map(series).collect())
}

/// A value for each bin.
fn binned(
    state: &TraceState,
    output: Output,
    (parts, range): (&[EntryContent], &Samples),
    asker: &Asker,
) -> Answered<Vec<Series>> {
    let bounds = bounds(range);
    check(parts.len().saturating_mul(bounds.len()))?;
    let values = match output {
        Output::CpuUse => cpu_use(state, parts, &bounds, asker)?,
        Output::Counters => counters(state, parts, &bounds[..bounds.len() - 1], asker)?,
        _ => counts(state, parts, &bounds, asker)?,
    };
    let x: Vec<i64> = bounds[..bounds.len() - 1].iter().map(|bound| clamp(*bound)).collect();
    Ok(values.into_iter().map(|y| Series { x: x.clone(), y, is_thinned: false }).collect())
}

/// The values that counters have at some times; 0 before their first one, as answers have no other word for it.
fn counters(state: &TraceState, parts: &[EntryContent], times: &[i128], asker: &Asker) -> Answered<Vec<Vec<f64>>> {
    let known: Vec<ShownCounter> = state.shown_counters().collect();
    let values = |part: &EntryContent| {
        let counter = if let EntryContent::Counter(at) = part { known.get(*at) } else { None };
        let Some(counter) = counter else { return Ok(vec![0.0; times.len()]) };
        let values = state.counter_values(&counter.id, times, asker)?;
        Ok(values.into_iter().map(|value| value.unwrap_or(0.0)).collect())
    };
    parts.iter().map(values).collect()
}

/// Numbers of events.
fn counts(state: &TraceState, parts: &[EntryContent], bounds: &[i128], asker: &Asker) -> Answered<Vec<Vec<f64>>> {
    let missing = || Refusal::new(500, "The events cannot be read", "there is no index of the events");
    let index = state.index().ok_or_else(missing)?;
    let is_of = |part: &EntryContent, track: usize| match part {
        EntryContent::Events(Which::All) => true,
        EntryContent::Events(Which::Trace(trace)) => index.tracks[track].trace == *trace,
        EntryContent::Events(Which::Track(own)) => track == *own,
        _ => false,
    };
    let wanted = (0..index.tracks.len()).filter(|track| parts.iter().any(|part| is_of(part, *track)));
    let tracks: Vec<usize> = wanted.collect();
    let is_over = || asker.is_over(&state.progress);
    let found = statistics::counts_between(index, &tracks, bounds, &is_over).ok_or_else(Asker::cancelled)?;
    let sum = |part: &EntryContent| {
        let mut sum = vec![0u64; bounds.len() - 1];
        let own = tracks.iter().zip(&found).filter(|(track, _)| is_of(part, **track));
        own.for_each(|(_, counts)| sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count));
        sum.into_iter().map(|count| count as f64).collect()
    };
    Ok(parts.iter().map(sum).collect())
}

/// Percents of time: of a CPU that it runs a thread, of all CPUs of a trace together, and those that a thread runs.
fn cpu_use(state: &TraceState, parts: &[EntryContent], bounds: &[i128], asker: &Asker) -> Answered<Vec<Vec<f64>>> {
    let Some(kept) = state.states() else { return Ok(vec![vec![0.0; bounds.len() - 1]; parts.len()]) };
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        if asker.is_over(&state.progress) {
            return Err(Asker::cancelled().into());
        }
        let is_cpu = |track: &usize| matches!(kept.states.tracks[*track].of, Of::Cpu(_));
        let tracks: Vec<usize> = match part {
            EntryContent::CpuUse(Which::Trace(trace)) => kept.tracks_of(*trace).filter(is_cpu).collect(),
            EntryContent::CpuUse(Which::Track(track)) => vec![*track],
            _ => Vec::new(),
        };
        let mut busy = vec![0i128; bounds.len() - 1];
        for &track in &tracks {
            let depth = if is_cpu(&track) { 0 } else { kept.states.tracks[track].depth().saturating_sub(1) };
            let pieces = kept.states.pieces_in(track, depth, (bounds[0], bounds[bounds.len() - 1] - 1));
            let is_busy =
                |name: u32| is_cpu(&track) && name != tracemill_lod::states::UNKNOWN || kept.states.is_running(name);
            pieces
                .filter(|piece| is_busy(piece.name))
                .for_each(|piece| spread(&mut busy, bounds, (piece.from, piece.to)));
        }
        let widths = bounds.windows(2).map(|pair| pair[1] - pair[0]);
        let of_all = |width: i128| (width * tracks.len().max(1) as i128) as f64;
        // A thousandth of a percent is exact enough, and keeps answers short.
        let percent = |(busy, width): (&i128, i128)| (*busy as f64 * 100_000.0 / of_all(width)).round() / 1000.0;
        all.push(busy.iter().zip(widths).map(percent).collect());
    }
    Ok(all)
}

/// Adds the ns of a piece of time to the bins that it overlaps.
fn spread(bins: &mut [i128], bounds: &[i128], (from, to): (i128, i128)) {
    let first = bounds.partition_point(|bound| *bound <= from).saturating_sub(1);
    for (bin, pair) in bins.iter_mut().zip(bounds.windows(2)).skip(first) {
        if pair[0] >= to {
            return;
        }
        *bin += (to.min(pair[1]) - from.max(pair[0])).max(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_a_range() {
        let of = |begin, end, count| bounds(&Samples { begin, end, count });
        assert_eq!(of(0, 9, 2), [0, 5, 10]);
        assert_eq!(of(0, 2, 65_536), [0, 1, 2, 3]);
        assert_eq!(of(7, 7, 1), [7, 8]);
        assert_eq!(of(i64::MIN, i64::MAX, 2), [i64::MIN.into(), 0, i128::from(i64::MAX) + 1]);
        let mut bins = [0; 3];
        spread(&mut bins, &[0, 10, 20, 30], (5, 25));
        spread(&mut bins, &[0, 10, 20, 30], (-7, 2));
        spread(&mut bins, &[0, 10, 20, 30], (29, 90));
        assert_eq!(bins, [7, 10, 6]);
    }
}
