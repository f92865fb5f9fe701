//! Answers about a part of the timeline: `select`, `flame`, and the calls of its functions.

use std::sync::Arc;

use serde_json::{Value, json};
use tracemill_lod::calls::{Call, FunctionTotals, SessionCalls};
use tracemill_lod::states::{StateKind, StateStatistics};
use tracemill_lod::statistics::{self, StatisticsRange};
use tracemill_lod::{EventSet, Index};
use tracemill_model::schema::{CallHalf, EventClass, EventClassId};
use tracemill_semantics::{EventShape, Semantics, names};

use crate::error::{Answer, ApiError};
use crate::groups;
use crate::ids::ValueId;
use crate::points::Points;
use crate::query::{Asker, Query, ns, some_ns};
use crate::rows::{self, Row};
use crate::samples;
use crate::state::TraceState;
use crate::states::StateTracks;
use crate::tracks::{TrackId, base_of, find_track};

/// A wanted range in ns: `None` for everything.
pub(crate) fn range_of(query: &Query, index: &Index) -> Answer<Option<(i128, i128)>> {
    let (begin, end): (Option<i128>, Option<i128>) = (query.number("begin")?, query.number("end")?);
    if begin.is_none() && end.is_none() {
        return Ok(None);
    }
    let range = (begin.unwrap_or(index.begin), end.unwrap_or(index.end));
    if range.0 > range.1 {
        return Err(ApiError::request("the range ends before it begins"));
    }
    Ok(Some(range))
}

/// Tracks that were chosen.
pub(crate) struct Chosen {
    /// Base tracks.
    pub(crate) bases: Vec<usize>,
    /// Tasks whose calls they are.
    pub(crate) tasks: Vec<usize>,
    /// Tracks of states.
    pub(crate) states: Vec<usize>,
    /// Events of tracks by a value, beside those of the base tracks.
    pub(crate) beside: Option<Arc<EventSet>>,
}

/// The tracks of a list of ids, `None` without one: a base track stands for its calls too, and a group for all of its trace.
pub(crate) fn chosen(state: &TraceState, index: &Index, query: &Query, list: Option<&str>) -> Answer<Option<Chosen>> {
    let Some(list) = list else { return Ok(None) };
    let (mut bases, mut tasks, mut states, mut values) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let count = state.calls().map_or(0, |calls| calls.tasks.len());
    let base_of_task = |task: usize| state.calls().and_then(|calls| base_of(state, calls, task));
    for id in list.split(',') {
        match find_track(state, id)? {
            TrackId::Base(base) => {
                bases.push(base);
                tasks.extend((0..count).filter(|task| base_of_task(*task) == Some(base)));
            }
            TrackId::Calls(task) => {
                tasks.push(task);
                bases.extend(base_of_task(task));
            }
            // States, periods and counters have no events of their own.
            TrackId::State(track) => states.push(track),
            TrackId::Plot | TrackId::Period => {}
            TrackId::Value => values.extend(ValueId::parse(&state.input.traces, id)),
            TrackId::Group(trace) => {
                bases.extend((0..index.tracks.len()).filter(|base| index.tracks[*base].trace == trace));
                let own = |task: &usize| state.calls().is_some_and(|calls| calls.tasks[*task].trace == trace);
                tasks.extend((0..count).filter(own));
                states.extend(state.states().into_iter().flat_map(|found| found.tracks_of(trace)));
            }
        }
    }
    for list in [&mut bases, &mut tasks, &mut states] {
        list.sort_unstable();
        list.dedup();
    }
    let beside = (!values.is_empty()).then(|| groups::events(state, &values, query)).transpose()?;
    Ok(Some(Chosen { bases, tasks, states, beside }))
}

fn absolute(range: Option<(i128, i128)>, index: &Index) -> (i64, i64) {
    let (begin, end) = range.unwrap_or((index.begin, index.end));
    let time = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    (time(begin), time(end))
}

fn function_json(calls: &SessionCalls, of: FunctionTotals) -> Value {
    let value = json!({
        "name": calls.names[of.name as usize],
        "calls": of.calls,
        "whole": of.complete_count(),
        "total": ns(of.total),
        "self": ns(of.own),
    });
    with_durations(value, of.durations(), |p| of.percentile(p))
}

/// Adds how long calls or states took: the shortest, the mean and the longest, and percentiles.
fn with_durations(
    mut value: Value,
    durations: Option<(i64, i64, i64)>,
    percentile: impl Fn(u64) -> Option<i64>,
) -> Value {
    value["min"] = some_ns(durations.map(|(min, _, _)| min));
    value["mean"] = some_ns(durations.map(|(_, mean, _)| mean));
    for (name, p) in [("p50", 50), ("p90", 90), ("p99", 99)] {
        value[name] = some_ns(percentile(p));
    }
    value["max"] = some_ns(durations.map(|(_, _, max)| max));
    value
}

pub(crate) fn select(state: &TraceState, query: &Query, set: Option<&EventSet>) -> Answer {
    let index = state.whole_index()?;
    let range = range_of(query, index)?;
    let chosen = chosen(state, index, query, query.get("tracks"))?;
    let (bases, tasks) = (chosen.as_ref().map(|chosen| &*chosen.bases), chosen.as_ref().map(|chosen| &*chosen.tasks));
    let beside = chosen.as_ref().and_then(|chosen| chosen.beside.as_deref());
    let is_over = || query.asker.is_over(&state.progress);
    let sums = statistics::sums(index, StatisticsRange { range, tracks: bases, beside, set }, &is_over)
        .ok_or_else(Asker::cancelled)?;
    let names = sums.names.iter().map(|of| {
        let gap = |at: fn(&(i64, i64, i64)) -> i64| some_ns(of.gaps.as_ref().map(at));
        json!({
            "name": index.names[of.name as usize], "events": of.events,
            "gap_min": gap(|gaps| gaps.0), "gap_p50": gap(|gaps| gaps.1), "gap_max": gap(|gaps| gaps.2),
        })
    });
    let names: Vec<Value> = names.collect();
    let (begin, end) = range.unwrap_or((index.begin, index.end));
    let mut answer = json!({
        "begin": ns(begin),
        "end": ns(end),
        "events": sums.events,
        "tracks": bases.map_or(index.tracks.len(), <[usize]>::len),
        "losses": { "events": sums.losses.0, "packets": sums.losses.1, "intervals": sums.losses.2 },
        "complete": state.is_complete(),
        "names": names,
    });
    if let Some(calls) = state.calls() {
        let rows = calls.statistics(absolute(range, index), tasks, &is_over).ok_or_else(Asker::cancelled)?;
        answer["calls"] = rows.into_iter().map(|of| function_json(calls, of)).collect::<Vec<_>>().into();
    }
    if let Some(found) = state.states() {
        let tracks = chosen.map_or_else(|| found.shown_tracks().collect(), |chosen| chosen.states);
        let rows = found.states.statistics(range, &tracks, &is_over).ok_or_else(Asker::cancelled)?;
        answer["states"] = rows.iter().map(|of| state_json(found, of)).collect::<Vec<_>>().into();
    }
    Ok(answer)
}

fn state_json(found: &StateTracks, of: &StateStatistics) -> Value {
    let value = json!({
        "of": match of.kind {
            StateKind::Cpu => "cpu",
            StateKind::Thread => "thread",
            StateKind::Running => "running",
            StateKind::Custom => "custom",
        },
        "name": found.word(of.name),
        "count": of.pieces,
        "whole": of.complete_count(),
        "total": ns(of.total),
    });
    with_durations(value, of.durations(), |p| of.percentile(p))
}

pub(crate) fn flame(state: &TraceState, query: &Query) -> Answer {
    if state.calls().is_none() && state.has_samples() {
        return samples::flame(state, query);
    }
    let index = state.whole_index()?;
    let range = absolute(range_of(query, index)?, index);
    let chosen = chosen(state, index, query, query.get("tracks"))?;
    let Some(calls) = state.calls() else { return Ok(json!({ "nodes": [] })) };
    let tasks = chosen.as_ref().map(|chosen| &*chosen.tasks);
    let stacks = calls.stacks(range, tasks, &|| query.asker.is_over(&state.progress)).ok_or_else(Asker::cancelled)?;
    let nodes = stacks.iter().enumerate().map(|(at, of)| {
        json!({
            "id": at,
            "parent": (at > 0).then_some(of.parent),
            "name": of.name.map_or("", |name| &calls.names[name as usize]),
            "calls": of.calls,
            "total": ns(of.total),
            "self": ns(of.own),
        })
    });
    Ok(json!({ "nodes": nodes.collect::<Vec<_>>() }))
}

/// `durations`: how long the calls of a function took that begin and end inside of the range.
pub(crate) fn durations(state: &TraceState, query: &Query) -> Answer {
    let index = state.whole_index()?;
    let name = query.get("name").ok_or_else(|| ApiError::request("`name` is missing"))?;
    let wanted = range_of(query, index)?;
    let range = absolute(wanted, index);
    let chosen = chosen(state, index, query, query.get("tracks"))?;
    let tasks = chosen.as_ref().map(|chosen| &*chosen.tasks);
    let of_name = state.calls().and_then(|calls| Some((calls, calls.names.iter().position(|own| own == name)?)));
    let (calls, name) = of_name.ok_or_else(|| ApiError::new(404, "call", format!("nothing is called `{name}`")))?;
    let mut points = Points::new(index, wanted);
    let is_over = || query.asker.is_over(&state.progress);
    let see = |begin: i64, duration: i64| points.add(begin.into(), duration.into());
    calls.durations(name as u32, range, tasks, &is_over, see).ok_or_else(Asker::cancelled)?;
    Ok(points.json())
}

pub(crate) fn call(state: &TraceState, place: &str) -> Answer {
    let wrong = || ApiError::new(404, "call", format!("there is no call `{place}`"));
    let (track, number) = place.split_once('/').ok_or_else(wrong)?;
    let (TrackId::Calls(task), Some(calls)) = (find_track(state, track)?, state.calls()) else { return Err(wrong()) };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let call = calls.call(task, number).ok_or_else(wrong)?;
    // Once for all calls: a user who chooses one is likely to choose others.
    let all = state.of_functions.get_or_init(|| {
        let all = calls.statistics((calls.begin, calls.end), None, &|| false).unwrap_or_default();
        all.into_iter().map(|of| (of.name, function_json(calls, of).to_string().into())).collect()
    });
    let all = all.get(&call.name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    let (args, retval) = call_values(state, calls, task, &call)?;
    let duration = call.end.map(|end| end - call.begin);
    Ok(json!({
        "name": calls.names[call.name as usize],
        "symbol": calls.names[call.name as usize],
        "begin": ns(call.begin),
        "end": some_ns(call.end),
        "duration": some_ns(duration),
        "self": some_ns(duration.map(|duration| duration - call.inner)),
        "parent": call.parent,
        "depth": call.depth,
        "args": args,
        "retval": retval,
        "module": calls.modules[call.name as usize],
        "all": all,
    }))
}

/// Events at the time of a call that are looked at, and calls that begin together.
const AT_ONCE: usize = 64;

/// The values of a call, as the events say at which it begins and ends: arguments and what it returned; or all that they have,
/// when the trace says that their classes are calls.
fn call_values(state: &TraceState, calls: &SessionCalls, task: usize, call: &Call) -> Answer<(Value, Value)> {
    let index = state.whole_index()?;
    let (trace, base) = (calls.tasks[task].trace, base_of(state, calls, task));
    let schema = &state.input.traces.session.traces[trace].schema;
    let name = &calls.names[call.name as usize];
    let semantics = Semantics::new(schema);
    let is_half = |own: &str, half: CallHalf| {
        let is_it = |(class, of): (u32, &EventClass)| {
            if of.name.as_deref() != Some(own) {
                return false;
            }
            let (shape, title) = semantics.shape(EventClassId(class));
            let is_paired = match half {
                CallHalf::Entry => shape == EventShape::Begin,
                CallHalf::Exit => matches!(shape, EventShape::End { .. }),
            };
            of.call == Some(half) && names::call_name(own, half) == name || is_paired && title == *name
        };
        (0..).zip(schema.events()).any(is_it)
    };
    let is_call = |own: &str, half: CallHalf| {
        let is_it = |(entry, exit): &(&str, &str)| own == if half == CallHalf::Entry { *entry } else { *exit };
        base.is_some() && names::CALLS.iter().any(is_it)
    };
    // Payloads of the events at a time that may be that half of the call, and whether they are it for sure.
    let at = |time: i64, half: CallHalf| -> Answer<Vec<(bool, Value)>> {
        let time = i128::from(time);
        let first = index.first_from(time).unwrap_or(index.events());
        let at_time = (first..index.events()).take_while(|event| index.ns(*event) == Some(time));
        let is_near = |event: &usize| {
            let (own, track) = index.kind(*event).unwrap_or_default();
            let is_there = index.tracks[track].trace == trace && base.is_none_or(|base| base == track);
            is_there && (is_half(own, half) || is_call(own, half))
        };
        let events: Vec<usize> = at_time.take(AT_ONCE).filter(is_near).collect();
        let rows = rows::read(state, Some(index), &events, true)?;
        let payload = |row: &Row| {
            let line: Value = serde_json::from_str(row.json.as_deref()?).ok()?;
            line.get("payload").cloned()
        };
        let of_row =
            |row: &Row| (row.name.as_deref().is_some_and(|own| is_half(own, half)), payload(row).unwrap_or_default());
        Ok(rows.iter().map(of_row).collect())
    };
    // Of calls that begin together the outer ones come first.
    let before = (1..AT_ONCE as u64).map_while(|back| calls.call(task, call.number.checked_sub(back)?));
    let rank = before.take_while(|before| before.begin == call.begin).count();
    let entries = at(call.begin, CallHalf::Entry)?;
    if let Some((_, args)) = entries.iter().find(|(is_it, _)| *is_it) {
        let exits = call.end.map_or(Ok(Vec::new()), |end| at(end, CallHalf::Exit))?;
        return Ok((args.clone(), exits.into_iter().find(|(is_it, _)| *is_it).map_or(Value::Null, |(_, all)| all)));
    }
    let Some((_, entry)) = entries.into_iter().nth(rank) else { return Ok((Value::Null, Value::Null)) };
    let is_same = |exit: &Value| [names::DEPTH, names::SYMBOL].iter().all(|member| exit[*member] == entry[*member]);
    let exits = call.end.map_or(Ok(Vec::new()), |end| at(end, CallHalf::Exit))?;
    let exit = exits.into_iter().map(|(_, exit)| exit).find(is_same).unwrap_or(Value::Null);
    Ok((entry["args"].clone(), exit["retval"].clone()))
}
