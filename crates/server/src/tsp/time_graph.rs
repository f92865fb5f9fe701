//! Time graphs: states of CPUs and threads, calls, and critical paths.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tracemill_answers::{Asker, StateTracks, TraceState};
use tracemill_lod::states::Of;

use super::critical_path::{self, DerivedPath};
use super::entries::{Entry, EntryContent, entries};
use super::experiments::{Experiment, clamp};
use super::filter::{Seen, StateFilter};
use super::outputs::{Output, response};
use super::parameters::{Parameters, Samples};
use super::refusal::{Answered, Refusal};
use super::styles;

/// States in one answer at most.
const MOST_STATES: usize = 1 << 20;

/// The tree of a time graph.
pub(super) fn tree(experiment: &Experiment, output: Output, asker: &Asker) -> Answered {
    response(&experiment.state, || {
        let all = entries(experiment, output, asker)?;
        let list: Vec<Value> =
            all.iter().enumerate().map(|(id, entry)| entry.to_time_graph_json(id, &experiment.state)).collect();
        let header = |name: &str, kind: &str| json!({ "name": name, "tooltip": "", "dataType": kind });
        let headers = match output {
            Output::Threads | Output::Path(_) => vec![header("Thread", "STRING"), header("TID", "NUMBER")],
            Output::Cpus => vec![header("CPU", "STRING")],
            Output::CustomStates => vec![header("Key", "STRING")],
            _ => vec![header("Thread", "STRING")],
        };
        Ok(json!({ "entries": list, "headers": headers }))
    })
}

/// A state of a row.
struct State {
    from: i128,
    to: i128,
    label: String,
    style: Value,
}

/// The entries of an output with the numbers that are asked for, each once.
fn chosen<'e>(all: &'e [Entry], items: &[i64]) -> BTreeMap<usize, &'e Entry> {
    let numbers = items.iter().filter_map(|item| usize::try_from(*item).ok());
    numbers.filter_map(|at| Some((at, all.get(at)?))).collect()
}

/// The states of rows that are met by a sample of the range.
pub(super) fn states(experiment: &Experiment, output: Output, parameters: &Parameters, asker: &Asker) -> Answered {
    let (items, range) = (parameters.items()?, parameters.needed_range()?);
    let filter = StateFilter::from_parameters(parameters)?;
    let state = &*experiment.state;
    response(state, || {
        let all = entries(experiment, output, asker)?;
        let derived = derived(experiment, output);
        let chosen = chosen(&all, &items);
        let mut found: BTreeMap<usize, Vec<State>> = BTreeMap::new();
        let mut count = 0;
        if let Some(kept) = state.states() {
            for (&id, entry) in &chosen {
                let EntryContent::States { track, depth } = entry.shown else { continue };
                let states = states_of(kept, (track, depth), &range);
                count += states.len();
                check(count, state, asker)?;
                found.insert(id, states);
            }
        }
        for (&id, entry) in &chosen {
            let (EntryContent::PathThread { path, thread }, Some(derived)) = (entry.shown, &derived) else { continue };
            let states = states_of_path(derived, (path, thread), &range);
            count += states.len();
            check(count, state, asker)?;
            found.insert(id, states);
        }
        for (id, states) in calls_of(state, &chosen, &range, (&mut count, asker))? {
            found.insert(id, states);
        }
        let rows = found.into_iter().map(|(id, states)| {
            let row = &all[id].labels;
            let states = states.iter().map(|state| state.to_json(&filter, row));
            json!({ "entryId": id, "states": states.collect::<Vec<_>>() })
        });
        Ok(json!({ "rows": rows.collect::<Vec<_>>() }))
    })
}

/// The path that an output shows.
fn derived(experiment: &Experiment, output: Output) -> Option<Arc<DerivedPath>> {
    if let Output::Path(number) = output { experiment.paths.path(number) } else { None }
}

/// The states of a thread on a critical path.
fn states_of_path(derived: &DerivedPath, (path, thread): (usize, usize), range: &Samples) -> Vec<State> {
    let Some(shown) = derived.paths.get(path) else { return Vec::new() };
    let met = shown.parts_in(thread, range.ends()).filter(|part| range.meets(part.from, part.to));
    met.map(|part| {
        let label = shown.path.states[part.state].clone();
        let style = styles::of_state(&label);
        State { from: part.from, to: part.to, label, style }
    })
    .collect()
}

/// Is there room for so many states, and are they still wanted?
fn check(count: usize, state: &TraceState, asker: &Asker) -> Answered<()> {
    if asker.is_over(&state.progress) {
        return Err(Asker::cancelled().into());
    }
    if count > MOST_STATES {
        let text = format!("the answer has more than {MOST_STATES} states; ask for fewer samples or entries");
        return Err(Refusal::parameters(text));
    }
    Ok(())
}

impl State {
    fn to_json(&self, filter: &StateFilter, row: &[String]) -> Value {
        let seen = Seen { label: &self.label, duration: self.to - self.from, row };
        let mut value = json!({
            "start": clamp(self.from), "end": clamp(self.to), "label": self.label, "style": self.style,
        });
        let tags = filter.tags(&seen);
        if tags != 0 {
            value["tags"] = tags.into();
        }
        value
    }
}

/// The states of a lane.
fn states_of(kept: &StateTracks, (track, depth): (usize, usize), range: &Samples) -> Vec<State> {
    // Words that the user chose have no colours of their own.
    let is_of_user = matches!(kept.states.tracks[track].of, Of::Custom(..));
    let has_colour_of_name = is_of_user || names_threads(kept, (track, depth));
    let met = kept.states.pieces_in(track, depth, range.ends()).filter(|piece| range.meets(piece.from, piece.to));
    met.map(|piece| {
        let label = kept.states.names[piece.name as usize].clone();
        let style = if has_colour_of_name { styles::of_name(&label) } else { styles::of_state(&label) };
        State { from: piece.from, to: piece.to, label, style }
    })
    .collect()
}

/// Does a lane say which thread a CPU runs?
fn names_threads(kept: &StateTracks, (track, depth): (usize, usize)) -> bool {
    matches!(kept.states.tracks[track].of, Of::Cpu(_)) && depth == 0
}

/// The calls of the chosen rows. All rows of a task are filled at once.
fn calls_of(
    state: &TraceState,
    chosen: &BTreeMap<usize, &Entry>,
    range: &Samples,
    (count, asker): (&mut usize, &Asker),
) -> Answered<BTreeMap<usize, Vec<State>>> {
    let mut rows: HashMap<usize, HashMap<usize, usize>> = HashMap::new();
    for (id, entry) in chosen {
        if let EntryContent::Calls { task, depth } = entry.shown {
            rows.entry(task).or_default().insert(depth, *id);
        }
    }
    let mut found: BTreeMap<usize, Vec<State>> = BTreeMap::new();
    let Some(calls) = state.calls() else { return Ok(found) };
    for (task, ids) in rows {
        ids.values().for_each(|id| drop(found.insert(*id, Vec::new())));
        let is_over = || asker.is_over(&state.progress);
        let mut room = MOST_STATES.saturating_sub(*count) + 1;
        let seen = calls.for_each_in(task, (range.begin, range.end), &is_over, |(from, to), name, depth| {
            let (from, to) = (i128::from(from), i128::from(to).max(i128::from(from) + 1));
            let Some(row) = ids.get(&depth).and_then(|id| found.get_mut(id)) else { return };
            if room > 0 && range.meets(from, to) {
                room -= 1;
                let label = calls.names[name as usize].clone();
                let style = styles::of_name(&label);
                row.push(State { from, to, label, style });
            }
        });
        seen.ok_or_else(Asker::cancelled)?;
        *count = MOST_STATES + 1 - room;
        check(*count, state, asker)?;
    }
    // They were seen in the order of their ends.
    found.values_mut().for_each(|states| states.sort_by_key(|state| state.from));
    Ok(found)
}

/// Arrows from threads to those that they woke, or along a critical path: between two of the same threads one for each sample at most.
pub(super) fn arrows(experiment: &Experiment, output: Output, parameters: &Parameters, asker: &Asker) -> Answered {
    let range = parameters.needed_range()?;
    let state = &*experiment.state;
    response(state, || {
        if let Some(derived) = derived(experiment, output) {
            let rows = rows_of_threads(&entries(experiment, output, asker)?);
            return Ok(
                critical_path::arrows(&derived, &range, |path, thread| rows.get(&(path, thread)).copied()).into()
            );
        }
        let kept = state.states().filter(|_| output == Output::Threads);
        let Some(kept) = kept else { return Ok(json!([])) };
        let of_track = rows_of_tracks(&entries(experiment, output, asker)?);
        let mut seen = HashSet::new();
        let wakes = kept.states.all_wakes(range.ends()).filter_map(|wake| {
            let (source, target) = (of_track.get(&wake.waker?)?, of_track.get(&wake.woken)?);
            seen.insert((range.first_from(wake.at), source, target)).then(|| {
                json!({
                    "sourceId": source, "targetId": target, "start": clamp(wake.at), "end": clamp(wake.at),
                    "style": styles::like(styles::WAKE),
                })
            })
        });
        Ok(Value::Array(wakes.take(MOST_STATES).collect()))
    })
}

fn rows_of_tracks(all: &[Entry]) -> HashMap<usize, usize> {
    let tracks = all.iter().enumerate().filter_map(|(id, entry)| match entry.shown {
        EntryContent::States { track, .. } => Some((track, id)),
        _ => None,
    });
    tracks.collect()
}

fn rows_of_threads(all: &[Entry]) -> HashMap<(usize, usize), usize> {
    let threads = all.iter().enumerate().filter_map(|(id, entry)| match entry.shown {
        EntryContent::PathThread { path, thread } => Some(((path, thread), id)),
        _ => None,
    });
    threads.collect()
}

/// The facts about the element at a time of a row.
pub(super) fn tooltip(experiment: &Experiment, output: Output, parameters: &Parameters, asker: &Asker) -> Answered {
    let (items, times) = (parameters.items()?, parameters.numbers("requested_times")?);
    let time = times.and_then(|times| times.first().copied());
    let time = time.ok_or_else(|| Refusal::new(400, "Missing query parameters", "`requested_times` is missing"))?;
    let element = parameters.get("requested_element");
    let element =
        element.ok_or_else(|| Refusal::new(400, "Missing query parameters", "`requested_element` is missing"))?;
    let kind = element["elementType"].as_str().unwrap_or_default().to_uppercase();
    if !matches!(&*kind, "STATE" | "ARROW" | "ANNOTATION") {
        return Err(Refusal::parameters("`elementType` of `requested_element` is STATE, ARROW or ANNOTATION"));
    }
    let state = &*experiment.state;
    response(state, || {
        let all = entries(experiment, output, asker)?;
        let derived = derived(experiment, output);
        let label = |item: Option<i64>| {
            let entry = item.and_then(|item| all.get(usize::try_from(item).ok()?));
            entry.map(|entry| entry.labels[0].clone())
        };
        let mut tip = Map::new();
        match &*kind {
            "ARROW" => {
                let [waker, woken] = if derived.is_some() { ["From", "To"] } else { ["Waker", "Woken"] };
                let from = label(element["entryId"].as_i64().or(items.first().copied()));
                from.into_iter().for_each(|from| drop(tip.insert(waker.to_string(), from.into())));
                let to = label(element["destinationId"].as_i64());
                to.into_iter().for_each(|to| drop(tip.insert(woken.to_string(), to.into())));
                tip.insert("Time".to_string(), seconds(time.into()).into());
            }
            "STATE" => {
                let entry = items.first().and_then(|item| all.get(usize::try_from(*item).ok()?));
                if let Some((entry, found)) =
                    entry.and_then(|entry| Some((entry, state_at(state, derived.as_deref(), entry, time)?)))
                {
                    tip.insert("State".to_string(), found.label.into());
                    tip.insert("Row".to_string(), entry.labels[0].clone().into());
                    tip.insert("Begin".to_string(), seconds(found.from).into());
                    tip.insert("End".to_string(), seconds(found.to).into());
                    tip.insert("Duration".to_string(), format!("{} ns", found.to - found.from).into());
                }
            }
            _ => {}
        }
        Ok(Value::Object(tip))
    })
}

/// The state or call of an entry at a time.
fn state_at(state: &TraceState, derived: Option<&DerivedPath>, entry: &Entry, time: i64) -> Option<State> {
    match entry.shown {
        EntryContent::PathThread { path, thread } => {
            let at = Samples { begin: time, end: time, count: 1 };
            states_of_path(derived?, (path, thread), &at).pop()
        }
        EntryContent::States { track, depth } => {
            let at = Samples { begin: time, end: time, count: 1 };
            states_of(state.states()?, (track, depth), &at).pop()
        }
        EntryContent::Calls { task, depth } => {
            let calls = state.calls()?;
            let call = calls.locate_at(task, time, Some(depth), 0)?;
            let end = call.end.unwrap_or(calls.tasks[task].end).max(call.begin);
            let label = calls.names[call.name as usize].clone();
            Some(State { from: call.begin.into(), to: end.into(), label, style: Value::Null })
        }
        _ => None,
    }
}

/// A time in seconds.
fn seconds(ns: i128) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}.{:09}", ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000)
}
