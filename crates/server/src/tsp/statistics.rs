//! Statistics: events by name.

use serde_json::{Value, json};
use tracemill_answers::{Asker, TraceState};
use tracemill_lod::statistics::{StatisticsRange, Sums, sums};

use super::experiments::Experiment;
use super::outputs::response;
use super::parameters::Parameters;
use super::refusal::{Answered, Refusal};

/// The tree of the events of each trace by name: of the whole time, and of the range that is asked for.
pub(super) fn tree(experiment: &Experiment, parameters: &Parameters, asker: &Asker) -> Answered {
    let range = parameters.range()?.map(|range| range.ends());
    let state = &*experiment.state;
    response(state, || {
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
        let header =
            |name: &str, tooltip: &str, kind: &str| json!({ "name": name, "tooltip": tooltip, "dataType": kind });
        let headers = [
            header("Name", "The trace, or the name of events", "STRING"),
            header("Events", "Events in the whole trace", "NUMBER"),
            header("Percent", "Percent of the events of the trace", "NUMBER"),
            header("Selected", "Events in the selected range", "NUMBER"),
        ];
        Ok(json!({ "entries": entries, "headers": headers }))
    })
}

fn sums_of(state: &TraceState, trace: usize, range: Option<(i128, i128)>, asker: &Asker) -> Answered<Sums> {
    let missing = || Refusal::new(500, "The events cannot be read", "there is no index of the events");
    let index = state.index().ok_or_else(missing)?;
    let tracks: Vec<usize> = (0..index.tracks.len()).filter(|at| index.tracks[*at].trace == trace).collect();
    let part = StatisticsRange { range, tracks: Some(&tracks), ..StatisticsRange::default() };
    sums(index, part, &|| asker.is_over(&state.progress)).ok_or_else(|| Asker::cancelled().into())
}
