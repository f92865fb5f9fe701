//! Statistics: events, system calls and functions by name.

use serde_json::{Value, json};
use tracemill_answers::{Asker, SystemCallStatistics, TraceState};
use tracemill_lod::statistics::{StatisticsRange, Sums, sums};

use super::experiments::{Experiment, clamp};
use super::outputs::{Output, response};
use super::parameters::Parameters;
use super::refusal::{Answered, Refusal};

/// The tree of an output.
pub(super) fn tree(experiment: &Experiment, output: Output, parameters: &Parameters, asker: &Asker) -> Answered {
    let range = parameters.range()?.map(|range| range.ends());
    response(&experiment.state, || match output {
        Output::SystemCallStatistics => system_calls(experiment, range, asker),
        Output::FunctionStatistics => functions(experiment, range, asker),
        _ => events(experiment, range, asker),
    })
}

fn header(name: &str, tooltip: &str, kind: &str) -> Value {
    json!({ "name": name, "tooltip": tooltip, "dataType": kind })
}

/// A row below the entry of its trace.
type RowOf = (usize, Vec<String>);

/// Rows below entries of traces, and below those another one for the rows of the range that is asked for.
fn tree_of(experiment: &Experiment, all: Vec<RowOf>, part: Option<Vec<RowOf>>, columns: usize) -> Vec<Value> {
    let mut entries: Vec<Value> = Vec::new();
    let mut add = |parent: Option<usize>, labels: Vec<String>, has_data: bool| {
        let id = entries.len();
        let mut entry = json!({ "id": id, "labels": labels, "hasData": has_data });
        parent.into_iter().for_each(|parent| entry["parentId"] = parent.into());
        entries.push(entry);
        id
    };
    let heading = |name: &str| {
        let mut labels = vec![String::new(); columns];
        labels[0] = name.to_string();
        labels
    };
    for (trace, name) in experiment.names().enumerate() {
        if !all.iter().any(|(own, _)| *own == trace) {
            continue;
        }
        let root = add(None, heading(name), false);
        for (_, labels) in all.iter().filter(|(own, _)| *own == trace) {
            add(Some(root), labels.clone(), true);
        }
        let Some(part) = &part else { continue };
        let selected = add(Some(root), heading("Selection"), false);
        for (_, labels) in part.iter().filter(|(own, _)| *own == trace) {
            add(Some(selected), labels.clone(), true);
        }
    }
    entries
}

/// Is a range asked for that is not the whole time?
fn is_part(experiment: &Experiment, range: (i128, i128)) -> bool {
    let ends = experiment.ends();
    range.0 > ends.0 || range.1 < ends.1
}

/// The rows of the whole time, and below those the rows of the range that is asked for.
fn with_selection(
    experiment: &Experiment,
    range: Option<(i128, i128)>,
    headers: &[Value],
    rows: impl Fn(Option<(i128, i128)>) -> Answered<Vec<RowOf>>,
) -> Answered {
    let part = range.filter(|range| is_part(experiment, *range)).map(|range| rows(Some(range))).transpose()?;
    Ok(json!({ "entries": tree_of(experiment, rows(None)?, part, headers.len()), "headers": headers }))
}

/// System calls by name.
fn system_calls(experiment: &Experiment, range: Option<(i128, i128)>, asker: &Asker) -> Answered {
    let rows = |range: Option<(i128, i128)>| -> Answered<Vec<RowOf>> {
        let all = experiment.state.system_call_statistics(range, asker)?;
        let row = |of: &SystemCallStatistics| {
            let numbers = [of.count.into(), of.total, of.min, of.max].map(|number| number.to_string());
            let rounded = [of.mean, of.deviation].map(|ns| format!("{ns:.1}"));
            (of.trace, [of.name.clone()].into_iter().chain(numbers).chain(rounded).collect())
        };
        Ok(all.iter().map(row).collect())
    };
    let headers = [
        header("Name", "The trace, or the system call", "STRING"),
        header("Count", "Calls that ended", "NUMBER"),
        header("Total (ns)", "Sum of the latencies", "NUMBER"),
        header("Min (ns)", "The shortest", "NUMBER"),
        header("Max (ns)", "The longest", "NUMBER"),
        header("Mean (ns)", "The mean", "NUMBER"),
        header("Std dev (ns)", "The standard deviation", "NUMBER"),
    ];
    with_selection(experiment, range, &headers, rows)
}

/// Functions by name.
fn functions(experiment: &Experiment, range: Option<(i128, i128)>, asker: &Asker) -> Answered {
    let state = &*experiment.state;
    let Some(calls) = state.calls() else { return Ok(json!({ "entries": [], "headers": [] })) };
    let rows = |range: Option<(i128, i128)>| -> Answered<Vec<RowOf>> {
        let mut rows: Vec<RowOf> = Vec::new();
        for trace in 0..state.input.traces.session.traces.len() {
            let range = range.map(|(begin, end)| (clamp(begin), clamp(end)));
            for of in state.function_statistics(trace, range, asker)?.iter() {
                let durations = of.durations.map_or([None; 3], |(min, mean, max)| [min, max, mean].map(Some));
                let percentiles = of.percentiles.map_or([None; 3], |known| known.map(Some));
                let known = durations.into_iter().chain(percentiles);
                let known = known.map(|ns| ns.map_or_else(String::new, |ns| ns.to_string()));
                let sums = [of.calls.to_string(), of.total.to_string(), of.own.to_string()];
                let name = calls.names[of.name as usize].clone();
                rows.push((trace, [name].into_iter().chain(sums).chain(known).collect()));
            }
        }
        Ok(rows)
    };
    let headers = [
        header("Name", "The trace, or the function", "STRING"),
        header("Count", "Calls", "NUMBER"),
        header("Total (ns)", "Time in the function, and in what it called", "NUMBER"),
        header("Self (ns)", "Time in the function itself", "NUMBER"),
        header("Min (ns)", "The shortest call that begins and ends in the range", "NUMBER"),
        header("Max (ns)", "The longest one", "NUMBER"),
        header("Mean (ns)", "Their mean", "NUMBER"),
        header("p50 (ns)", "Half of them are at most this long", "NUMBER"),
        header("p90 (ns)", "90 % of them are at most this long", "NUMBER"),
        header("p99 (ns)", "99 % of them are at most this long", "NUMBER"),
    ];
    with_selection(experiment, range, &headers, rows)
}

/// The events of each trace by name: of the whole time, and of the range that is asked for.
fn events(experiment: &Experiment, range: Option<(i128, i128)>, asker: &Asker) -> Answered {
    let state = &*experiment.state;
    let mut entries: Vec<Value> = Vec::new();
    for (trace, name) in experiment.names().enumerate() {
        let all = sums_of(state, trace, None, asker)?;
        let part = range.map(|range| sums_of(state, trace, Some(range), asker)).transpose()?;
        let share = |events: u64, of: u64| format!("{:.1}", events as f64 * 100.0 / of.max(1) as f64);
        let in_part = |name: u32| {
            let names = part.iter().flat_map(|part| &part.names);
            names.filter(|own| own.name == name).map(|own| own.events).sum::<u64>()
        };
        let (root, index) = (entries.len(), state.index());
        let of_part = part.as_ref().map_or(all.events, |part| part.events);
        let labels = [name.to_string(), all.events.to_string(), share(1, 1), of_part.to_string()];
        entries.push(json!({ "id": root, "labels": labels, "hasData": true }));
        for own in &all.names {
            let name = index.map_or("", |index| &index.names[own.name as usize]);
            let selected = if part.is_some() { in_part(own.name) } else { own.events };
            let labels =
                [name.to_string(), own.events.to_string(), share(own.events, all.events), selected.to_string()];
            entries.push(json!({ "id": entries.len(), "parentId": root, "labels": labels, "hasData": true }));
        }
    }
    let headers = [
        header("Name", "The trace, or the name of events", "STRING"),
        header("Events", "Events in the whole trace", "NUMBER"),
        header("Percent", "Percent of the events of the trace", "NUMBER"),
        header("Selected", "Events in the selected range", "NUMBER"),
    ];
    Ok(json!({ "entries": entries, "headers": headers }))
}

fn sums_of(state: &TraceState, trace: usize, range: Option<(i128, i128)>, asker: &Asker) -> Answered<Sums> {
    let missing = || Refusal::new(500, "The events cannot be read", "there is no index of the events");
    let index = state.index().ok_or_else(missing)?;
    let tracks: Vec<usize> = (0..index.tracks.len()).filter(|at| index.tracks[*at].trace == trace).collect();
    let part = StatisticsRange { range, tracks: Some(&tracks), ..StatisticsRange::default() };
    sums(index, part, &|| asker.is_over(&state.progress)).ok_or_else(|| Asker::cancelled().into())
}
