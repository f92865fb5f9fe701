//! Events: pages of their table, one with all that is known of it, and searches.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tracemill_lod::search::{self, Direction};
use tracemill_lod::{EventSet, Index};

use crate::error::{Answer, ApiError};
use crate::fields::FieldAnswer;
use crate::ids::{base_id, calls_id};
use crate::query::{Asker, Query, ns, some_ns};
use crate::rows::{self, Row};
use crate::state::TraceState;
use crate::tracks::base_of;

/// A row of the table, as a page has it.
fn row_json(index: &Index, row: &Row, before: Option<Option<i128>>) -> Value {
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
        "cpu": row.cpu,
        "text": row.text,
    });
    if let Some(json) = &row.json {
        value["json"] = json.clone().into();
    }
    value
}

/// `events`: some rows of the table.
pub(crate) fn events(state: &TraceState, query: &Query, set: Option<&EventSet>) -> Answer {
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
    let read = rows::read(state, Some(index), &wanted, query.is_on("json"))?;
    let mut before = from.checked_sub(1).and_then(event).map(|event| index.ns(event));
    let rows = read.iter().map(|row| {
        let value = row_json(index, row, before);
        before = Some(index.ns(row.event));
        value
    });
    let rows: Vec<Value> = rows.collect();
    Ok(json!({ "total": total, "from": from, "rows": rows }))
}

/// The fields of an event as JSON, as a page has them.
pub(crate) fn fields_text(fields: &[FieldAnswer]) -> String {
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let mut out = String::from("[");
    for (at, FieldAnswer { path, text: value, kind }) in fields.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let (path, value) = (text(path), text(value));
        let _ = write!(out, "{comma}{{\"path\":{path},\"text\":{value},\"kind\":\"{kind}\",\"base\":10}}");
    }
    out.push(']');
    out
}

/// `event/N`: all that is known of an event.
pub(crate) fn event(state: &TraceState, number: &str) -> Answer {
    let number: usize = number.parse().map_err(|_| ApiError::request(format!("`{number}` is not a number")))?;
    let index = state.whole_index()?;
    if number >= index.events() {
        return Err(ApiError::new(404, "event", format!("there is no event {number}")));
    }
    let before = number.checked_sub(1).map(|before| index.ns(before));
    let read = rows::read(state, Some(index), &[number], true)?;
    let row = &read[0];
    let mut value = row_json(index, row, before);
    value["cycles"] = some_ns(row.cycles);
    value["fields"] = serde_json::from_str(&fields_text(&row.fields)).unwrap_or_default();
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

/// An event that was found.
fn matched(index: &Index, event: usize) -> Option<Value> {
    let (name, track) = index.kind(event)?;
    Some(json!({ "event": event, "ns": some_ns(index.ns(event)), "track": base_id(track), "name": name }))
}

/// `search`: the next or previous event with a text.
pub(crate) fn find(state: &TraceState, query: &Query, set: Option<&EventSet>) -> Answer {
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
    let found = found.ok_or_else(Asker::cancelled)?;
    let matched = found.event.and_then(|event| matched(index, event));
    let at = matched.as_ref().map(|_| found.index);
    Ok(json!({ "match": matched, "index": at, "count": found.count }))
}
