//! Answers to the questions of a page.

use std::collections::{BTreeMap, HashSet};

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tracemill_lod::calls::{Calls, is_of_task};
use tracemill_lod::search::{self, Direction};
use tracemill_lod::{EventSet, Fault, Index, LossKind};

use crate::error::{Answer, ApiError};
use crate::groups::{self, ValueId};
use crate::plots::Field;
use crate::query::{Asker, Query, ns, some_ns};
use crate::rows::{self, Row};
use crate::state::TraceState;
use crate::{locate, measures, plots, selection, tiles};

/// An answer.
pub enum Reply {
    /// An object.
    Value(Value),
    /// An object as text, and whether it is exact and may be kept.
    Text(String, bool),
}

/// The answer to a question.
pub fn answer(state: &TraceState, path: &str, query: &Query) -> Answer<Reply> {
    let reply = answer_of(state, path, query)?;
    if state.index().is_some_and(|index| index.is_broken()) || state.calls().is_some_and(|calls| calls.is_broken()) {
        let text = "what the index was made of cannot be read any more, or has changed";
        return Err(ApiError::new(500, "fault", text));
    }
    Ok(reply)
}

fn answer_of(state: &TraceState, path: &str, query: &Query) -> Answer<Reply> {
    let set = || query.get("filter").map(|text| state.set_for(text, &query.asker)).transpose();
    let value = match path {
        "session" => {
            let mut value = session(state);
            // A page that opens would ask for them next.
            if query.is_on("tracks") {
                value["tracks"] = tracks(state, None)?["tracks"].take();
            }
            Ok(value)
        }
        "tracks" => match query.get("group") {
            Some(path) => groups::tracks(state, path, query),
            None => tracks(state, set()?.as_deref()),
        },
        "tiles" => {
            let (text, is_exact) = tiles::tiles(state, query, set)?;
            return Ok(Reply::Text(text, is_exact));
        }
        "events" => events(state, query, set()?.as_deref()),
        // They look at all that is chosen.
        "select" | "flame" if state.is_complete() => {
            let question = format!("{path} {} {:?}", state.generation(), query.list);
            let answer = || match path {
                "flame" => selection::flame(state, query),
                _ => selection::select(state, query, set()?.as_deref()),
            };
            let text = state.kept.answer(question, || Ok(answer()?.to_string()))?;
            return Ok(Reply::Text(text.to_string(), true));
        }
        "select" => selection::select(state, query, set()?.as_deref()),
        "flame" => selection::flame(state, query),
        "search" => find(state, query, set()?.as_deref()),
        "durations" => selection::durations(state, query),
        "pairs" => measures::pairs(state, query, set()?.as_deref()),
        "outliers" => measures::outliers(state, query, set()?.as_deref()),
        "locate" => locate::locate(state, query, set()?.as_deref()),
        "problems" => Ok(problems(state)),
        "wakeups" => {
            let id = query.get("track").ok_or_else(|| ApiError::request("`track` is missing"))?;
            let missing = || ApiError::new(404, "track", format!("there is no track `{id}`"));
            state.states().ok_or_else(missing)?.wakeups(id, query)
        }
        "activity" | "state" => {
            let found = state.states().ok_or_else(|| ApiError::new(404, "path", "no states are known"))?;
            if path == "state" { found.find_state(query) } else { found.activity(query) }
        }
        _ => match path.split_once('/') {
            Some(("event", number)) => event(state, number),
            Some(("call", place)) => selection::call(state, place),
            Some(("track", id)) => match ValueId::parse(state, id) {
                Some(of) => groups::track(state, &of, id, query),
                None => plots::track(state, id, query.get("filter")),
            },
            _ => Err(ApiError::new(404, "path", format!("`{path}` is not answered"))),
        },
    };
    value.map(Reply::Value)
}

// ---- Session and tracks -------------------------------------------------------------------------------------------

/// How far the index is.
pub fn progress(state: &TraceState) -> Value {
    if state.is_complete() {
        return json!({ "state": "complete", "done": 1 });
    }
    let timeline = state.timeline();
    let numbered = state.progress.events.load(Ordering::Relaxed);
    let all = timeline.events();
    // Counting and numbering take about as long as each other.
    let done = timeline.done(&state.progress) / 2.0 + all.map_or(0.0, |all| numbered as f64 / all.max(1) as f64 / 2.0);
    let (is_begun, _) = timeline.is_counted();
    json!({ "state": if is_begun { "counting" } else { "estimate" }, "done": done.min(0.99), "events": all })
}

fn session(state: &TraceState) -> Value {
    let input = &state.input;
    let (index, timeline) = (state.index(), state.timeline());
    let tracks = timeline.tracks();
    let (begin, end) = state.ends();
    let source = input.traces.source();
    let traces = input.traces.session.traces.iter().enumerate().map(|(at, trace)| {
        let own = || tracks.iter().filter(|track| track.who(&source).0 == at).map(|track| track.counted());
        let ranges = || own().flatten().filter_map(|track| track.range);
        let is_known = timeline.is_known(&source, at);
        let aligned = input.traces.session.aligned_begins.iter().find(|one| one.trace == at);
        json!({
            "index": at,
            "name": trace.name,
            "path": trace.path.display().to_string(),
            "format": trace.schema.format,
            "begin": some_ns(ranges().map(|(first, _)| first).min().filter(|_| is_known)),
            "end": some_ns(ranges().map(|(_, last)| last).max().filter(|_| is_known)),
            "events": is_known.then(|| own().flatten().map(|track| track.events).sum::<u64>()),
            "aligned_ns": some_ns(aligned.map(|one| one.offset_ns)),
            "aligned_with": aligned.map(|one| &*input.traces.session.traces[one.by].name),
        })
    });
    let lost = |kind: LossKind| {
        let losses = index.into_iter().flat_map(|index| &index.losses).filter(move |loss| loss.kind == kind);
        losses.map(|loss| loss.count.unwrap_or(0)).sum::<u64>()
    };
    let faults = input.problems.0.len() + index.map_or(0, |index| index.faults.len());
    let mut features = vec!["select", "search", "pairs", "outliers", "plots", "groups"];
    if state.input.cut.is_some() {
        features.push("export");
    }
    if state.input.query.is_some() {
        features.push("sql");
    }
    if state.input.reopen.is_some() {
        features.push("clock");
    }
    if state.calls().is_some() {
        features.extend(["calls", "durations"]);
    }
    if state.states().is_some_and(|kept| !kept.states.tracks.is_empty()) {
        features.push("states");
    }
    if state.states().is_some_and(|kept| kept.states.has_wakes()) {
        features.push("wakeups");
    }
    json!({
        "api": 1,
        "program": input.program,
        "clock": if input.traces.is_unix { "unix" } else { "none" },
        "origin": ns(timeline.origin),
        "begin": some_ns(begin),
        "end": some_ns(end),
        "events": timeline.events(),
        "traces": traces.collect::<Vec<_>>(),
        "losses": { "events": lost(LossKind::Events), "packets": lost(LossKind::Packets) },
        "faults": faults,
        "index": progress(state),
        "features": features,
        "gone": state.status.gone(),
        "states": state.states().map(|found| found.present()),
        "command": input.command,
    })
}

/// The id of a base track, of the calls of a task, of the group of a trace.
pub(crate) fn base_id(track: usize) -> String {
    format!("b{track}")
}

pub(crate) fn calls_id(task: usize) -> String {
    format!("c{task}")
}

pub(crate) fn group_id(trace: usize) -> String {
    format!("g{trace}")
}

/// Something that an id names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Base(usize),
    Calls(usize),
    Group(usize),
    State(usize),
    /// A field that is shown as a counter.
    Plot,
    /// Events by a value.
    Value,
}

pub(crate) fn named(state: &TraceState, id: &str) -> Answer<Named> {
    if let Some(track) = state.states().and_then(|kept| kept.find(id)) {
        return Ok(Named::State(track));
    }
    if Field::of_id(state, id).is_some() {
        return Ok(Named::Plot);
    }
    if ValueId::parse(state, id).is_some() {
        return Ok(Named::Value);
    }
    let found = id.split_at_checked(1).and_then(|(kind, number)| {
        let number: usize = number.parse().ok()?;
        match kind {
            "b" => (number < state.timeline().tracks().len()).then_some(Named::Base(number)),
            "c" => (number < state.calls()?.tasks.len()).then_some(Named::Calls(number)),
            "g" => (number < state.input.traces.session.traces.len()).then_some(Named::Group(number)),
            _ => None,
        }
    });
    found.ok_or_else(|| ApiError::new(404, "track", format!("there is no track `{id}`")))
}

/// The base track of a task: the stream that is called like it, up to a point.
pub(crate) fn base_of(state: &TraceState, calls: &Calls, task: usize) -> Option<usize> {
    let task = &calls.tasks[task];
    let (timeline, source) = (state.timeline(), state.input.traces.source());
    let is_it = |(trace, own): (usize, &str)| trace == task.trace && is_of_task(own, task.tid);
    timeline.tracks().iter().position(|track| is_it(track.who(&source)))
}

fn tracks(state: &TraceState, set: Option<&EventSet>) -> Answer {
    let (timeline, source) = (state.timeline(), state.input.traces.source());
    let (index, known) = (state.index(), timeline.tracks());
    let counts: Option<Vec<u64>> = index.zip(set).map(|(index, set)| {
        let mut counts = vec![0; index.tracks.len()];
        set.each(|event| index.kind(event).into_iter().for_each(|(_, track)| counts[track] += 1));
        counts
    });
    let events_of = |track: usize| match &counts {
        Some(counts) => Some(counts[track]),
        None => known[track].counted().map(|track| track.events),
    };
    let losses = |track: usize| {
        let of = |kind: LossKind| {
            let losses = index.into_iter().flat_map(|index| &index.losses);
            let own = losses.filter(move |loss| loss.track == Some(track) && loss.kind == kind);
            own.map(|loss| loss.count.unwrap_or(0)).sum::<u64>()
        };
        json!({ "events": of(LossKind::Events), "packets": of(LossKind::Packets) })
    };
    let mut list = Vec::new();
    let mut bases: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    known.iter().enumerate().for_each(|(at, track)| bases.entry(track.who(&source).0).or_default().push(at));
    for (at, trace) in state.input.traces.session.traces.iter().enumerate() {
        let bases = bases.get(&at).map_or(&[][..], |bases| bases);
        let events: Option<u64> = match timeline.is_known(&source, at) {
            true => bases.iter().map(|base| events_of(*base)).sum(),
            false => None,
        };
        list.push(json!({
            "id": group_id(at), "parent": null, "kind": "group", "base": false, "name": trace.name, "trace": at,
            "events": events,
        }));
        let tasks = state.calls().into_iter().flat_map(|calls| calls.tasks.iter().enumerate());
        for (task, of) in tasks.filter(|(_, of)| of.trace == at && of.calls > 0) {
            let base = state.calls().and_then(|calls| base_of(state, calls, task));
            let name = if of.name.is_empty() { of.tid.to_string() } else { format!("{} {}", of.name, of.tid) };
            list.push(json!({
                "id": calls_id(task), "parent": group_id(at), "kind": "calls", "base": false, "name": name, "trace": at,
                "events": null, "calls": of.calls, "depth": of.depth, "of": base.map(base_id),
            }));
        }
        if let Some(kept) = state.states() {
            list.extend(kept.tracks(at, &group_id(at)));
        }
        list.extend(plots::known(state, at));
        for &base in bases {
            let track = &known[base];
            list.push(json!({
                "id": base_id(base), "parent": group_id(at), "kind": "events", "base": true,
                "name": track.who(&source).1, "trace": at, "events": events_of(base),
                "untimed": track.counted().map(|track| track.untimed), "losses": losses(base),
                "packets": track.packets(&source),
            }));
        }
    }
    Ok(json!({ "tracks": list }))
}

// ---- Events -------------------------------------------------------------------------------------------------------

fn row_json(index: &Index, row: &Row, before: Option<Option<i128>>, with_json: bool) -> Value {
    let time = index.ns(row.event);
    let (name, track) = index.kind(row.event).unwrap_or_default();
    let since = before.flatten().zip(time).map(|(before, time)| time - before);
    let mut value = json!({
        "event": row.event,
        "ns": some_ns(time),
        "since": some_ns(since),
        "name": name,
        "title": row.title.as_deref().unwrap_or(name),
        "trace": index.tracks[track].trace,
        "track": base_id(track),
        "cpu": row.value.get("cpu").cloned().unwrap_or_default(),
        "text": row.text,
    });
    if with_json {
        value["json"] = row.json.clone().into();
    }
    value
}

fn events(state: &TraceState, query: &Query, set: Option<&EventSet>) -> Answer {
    let limit = query.number("limit")?.unwrap_or(100usize).min(1000);
    let at: Option<i128> = query.number("at")?;
    let from: Option<usize> = query.number("from")?;
    let index = state.whole_index()?;
    let total = set.map_or(index.events(), EventSet::len);
    let from = match (at, from) {
        (Some(at), _) => index.first_from(at).map_or(total, |event| set.map_or(event, |set| set.rank(event))),
        (None, from) => from.unwrap_or(0),
    };
    let event = |rank: usize| set.map_or((rank < total).then_some(rank), |set| set.select(rank));
    let wanted: Vec<usize> = (from..from.saturating_add(limit).min(total)).filter_map(event).collect();
    let read = rows::read(state, Some(index), &wanted)?;
    let mut before = from.checked_sub(1).and_then(event).map(|event| index.ns(event));
    let with_json = query.is_on("json");
    let rows = read.iter().map(|row| {
        let value = row_json(index, row, before, with_json);
        before = Some(index.ns(row.event));
        value
    });
    let rows: Vec<Value> = rows.collect();
    Ok(json!({ "total": total, "from": from, "rows": rows }))
}

/// The fields of the line of an event, as JSON.
pub(crate) fn fields_text(line: &Value) -> String {
    let field = |(path, text, kind): (String, String, &str)| {
        let [path, text] = [path, text].map(Value::String);
        format!("{{\"path\":{path},\"text\":{text},\"kind\":\"{kind}\",\"base\":10}}")
    };
    let fields: Vec<String> = rows::fields(line).into_iter().map(field).collect();
    format!("[{}]", fields.join(","))
}

fn event(state: &TraceState, number: &str) -> Answer {
    let number: usize = number.parse().map_err(|_| ApiError::request(format!("`{number}` is no number")))?;
    let index = state.whole_index()?;
    if number >= index.events() {
        return Err(ApiError::new(404, "event", format!("there is no event {number}")));
    }
    let before = number.checked_sub(1).map(|before| index.ns(before));
    let read = rows::read(state, Some(index), &[number])?;
    let row = &read[0];
    let mut value = row_json(index, row, before, true);
    value["cycles"] = some_ns(row.cycles);
    value["fields"] = serde_json::from_str(&fields_text(&row.value)).unwrap_or_default();
    let place = &row.place;
    value["place"] = json!({ "file": place.file, "packet": place.packet, "byte": ns(place.byte), "bit": place.bit });
    let track = index.kind(number).map(|(_, track)| track);
    value["call"] = call_at(state, track, index.ns(number)).unwrap_or_default();
    Ok(value)
}

/// The innermost call of the task of a track that is open at a time.
fn call_at(state: &TraceState, track: Option<usize>, time: Option<i128>) -> Option<Value> {
    let (calls, time) = (state.calls()?, i64::try_from(time?).ok()?);
    let task = (0..calls.tasks.len()).find(|task| base_of(state, calls, *task) == track)?;
    let call = calls.locate(task, time, Direction::Nearest)?;
    let is_open = call.begin <= time && call.end.is_none_or(|end| end >= time);
    is_open.then(|| json!({ "track": calls_id(task), "call": call.number }))
}

// ---- Search and problems ------------------------------------------------------------------------------------------

/// An event that was found.
fn matched(index: &Index, event: usize) -> Option<Value> {
    let (name, track) = index.kind(event)?;
    Some(json!({ "event": event, "ns": some_ns(index.ns(event)), "track": base_id(track), "name": name }))
}

fn find(state: &TraceState, query: &Query, set: Option<&EventSet>) -> Answer {
    let text = query.get("q").unwrap_or_default();
    let from: i64 = query.number("from")?.unwrap_or(-1);
    let is_next = match query.get("direction") {
        None | Some("next") => true,
        Some("previous") => false,
        Some(other) => return Err(ApiError::request(format!("`direction` is next or previous, not `{other}`"))),
    };
    let index = state.whole_index()?;
    if query.is_on("fields") {
        // How many there are would be known when all of them have been read.
        let event = rows::search(state, index, text, from, is_next, set, &query.asker);
        return Ok(json!({ "match": event.and_then(|event| matched(index, event)), "index": null, "count": null }));
    }
    let found = search::find(index, text, (from, is_next), set, &|| query.asker.is_over(&state.progress));
    let found = found.ok_or_else(Asker::over)?;
    let matched = found.event.and_then(|event| matched(index, event));
    let at = matched.as_ref().map(|_| found.index);
    Ok(json!({ "match": matched, "index": at, "count": found.count }))
}

fn problems(state: &TraceState) -> Value {
    let index = state.index();
    let losses = index.into_iter().flat_map(|index| &index.losses).map(|loss| {
        json!({
            "track": loss.track.map(base_id),
            "kind": if loss.kind == LossKind::Events { "events" } else { "packets" },
            "count": loss.count,
            "begin": some_ns(loss.begin.or(loss.end)),
            "end": some_ns(loss.end.or(loss.begin)),
        })
    });
    let fault = |error: &tracemill_model::error::Error, of: Option<&Fault>| {
        // Where the packet does not tell, it is known what came before.
        let range = of.and_then(|of| of.range.or_else(|| Some((of.after?, of.after?))));
        json!({
            "file": error.place().file.as_ref().map(|file| file.display().to_string()),
            "offset": some_ns(error.place().offset),
            "reason": error.message(),
            "track": of.and_then(|of| of.track).map(base_id),
            "ns": some_ns(range.map(|(begin, _)| begin)),
            "end": some_ns(range.map(|(_, end)| end)),
        })
    };
    let of_opening = state.input.problems.0.iter().map(|error| fault(error, None));
    let of_reading = index.into_iter().flat_map(|index| &index.faults).map(|of| fault(&of.error, Some(of)));
    // Those who follow calls read the same packets.
    let known: HashSet<String> =
        index.into_iter().flat_map(|index| &index.faults).map(|of| of.error.to_string()).collect();
    let of_calls = state.calls().into_iter().flat_map(|calls| &calls.faults);
    let of_calls = of_calls.filter(|error| !known.contains(&error.to_string())).map(|error| fault(error, None));
    let mut warnings = state.input.problems.1.clone();
    let of_index = index.into_iter().flat_map(|index| &index.warnings);
    let of_index = of_index.chain(state.calls().into_iter().flat_map(|calls| &calls.warnings));
    let of_states = state.states().into_iter().flat_map(|kept| kept.states.left_out.iter().cloned());
    for warning in of_index.map(|warning| warning.message().to_string()).chain(of_states) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    json!({
        "losses": losses.collect::<Vec<_>>(),
        "faults": of_opening.chain(of_reading).chain(of_calls).collect::<Vec<_>>(),
        "warnings": warnings,
    })
}
