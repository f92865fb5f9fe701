//! `locate`: the event, call or state at a time of a track, or beside it.

use std::sync::Arc;

use serde_json::{Value, json};
use tracemill_lod::calls::{Call, SessionCalls};
use tracemill_lod::search::{self, Direction};
use tracemill_lod::states::{StatePiece, States};
use tracemill_lod::{EventSet, Index};

use crate::error::{Answer, ApiError};
use crate::groups;
use crate::ids::ValueId;
use crate::period_track::{PeriodId, PeriodTrack};
use crate::periods;
use crate::plots;
use crate::query::{Query, ns, some_ns};
use crate::state::TraceState;
use crate::tracks::{TrackId, find_track};

/// The next or previous event, call or state, the nearest, or with `direction=at` what is exactly there.
pub(crate) fn locate(state: &TraceState, query: &Query, set: Option<&EventSet>) -> Answer {
    let index = state.whole_index()?;
    let at: i128 = query.needed("at")?;
    if query.get("direction") == Some("at") {
        return locate_at(state, query, set, at);
    }
    let direction = match query.get("direction") {
        Some("next") => Direction::Next,
        Some("previous") => Direction::Previous,
        None | Some("nearest") => Direction::Nearest,
        Some(other) => return Err(ApiError::request(format!("`direction` is not `{other}`"))),
    };
    let id = query.get("track").ok_or_else(|| ApiError::request("`track` is missing"))?;
    let found = match find_track(state, id)? {
        TrackId::Base(track) => {
            search::locate(index, Some(track), at, direction, set).map(|found| located_event(index, id, found))
        }
        TrackId::Value => {
            let own = events_of_value(state, id, query)?;
            search::locate(index, None, at, direction, Some(&*own)).map(|found| located_event(index, id, found))
        }
        TrackId::Calls(task) => {
            let found = state.calls().and_then(|calls| Some((calls, calls.locate(task, clamp_time(at), direction)?)));
            found.map(|(calls, call)| located_call(calls, id, &call))
        }
        TrackId::State(track) => state.states().and_then(|kept| {
            let piece = kept.states.locate(track, at, direction, query.number("depth").ok()?)?;
            Some(located_state(&kept.states, id, &piece))
        }),
        TrackId::Period => {
            let found = period_of(state, id, query)?;
            let piece = found.states.locate(0, at, direction, query.number("depth")?);
            piece.map(|piece| located_state(&found.states, id, &piece))
        }
        TrackId::Group(_) | TrackId::Plot => None,
    };
    Ok(found.unwrap_or_else(nothing_located))
}

/// `locate` with `direction=at`: what is exactly at a time of a track, at `depth` where it has lanes. Where there is nothing, the
/// nearest that is at most `slack` ns away.
fn locate_at(state: &TraceState, query: &Query, set: Option<&EventSet>, at: i128) -> Answer {
    let index = state.whole_index()?;
    let slack: i64 = query.number("slack")?.unwrap_or(0).max(0);
    let depth: Option<u32> = query.number("depth")?;
    let id = query.get("track").ok_or_else(|| ApiError::request("`track` is missing"))?;
    let is_near = |(_, ns): &(usize, i128)| ns.abs_diff(at) <= u128::from(slack.unsigned_abs());
    let event = |track: Option<usize>, set: Option<&EventSet>| {
        search::locate(index, track, at, Direction::Nearest, set).filter(is_near)
    };
    let found = match find_track(state, id)? {
        TrackId::Base(track) => event(Some(track), set).map(|found| located_event(index, id, found)),
        TrackId::Value => {
            let own = events_of_value(state, id, query)?;
            event(None, Some(&own)).map(|found| located_event(index, id, found))
        }
        TrackId::Group(trace) => {
            let own = (0..index.tracks.len()).filter(|track| index.tracks[*track].trace == trace);
            let all = own.filter_map(|track| event(Some(track), set));
            all.min_by_key(|(event, ns)| (ns.abs_diff(at), *event)).map(|found| located_event(index, id, found))
        }
        TrackId::Calls(task) => state.calls().and_then(|calls| {
            let call = calls.locate_at(task, clamp_time(at), depth.map(|depth| depth as usize), slack)?;
            Some(located_call(calls, id, &call))
        }),
        TrackId::State(track) => state.states().and_then(|kept| {
            let piece = kept.states.locate_at(track, at, depth, slack)?;
            Some(located_state(&kept.states, id, &piece))
        }),
        TrackId::Period => {
            let found = period_of(state, id, query)?;
            let piece = found.states.locate_at(0, at, depth, slack);
            piece.map(|piece| located_state(&found.states, id, &piece))
        }
        TrackId::Plot => plots::value_at(state, id, query.get("filter"), (at, &query.asker))?
            .map(|value| json!({ "event": null, "track": id, "begin": null, "end": null, "value": value })),
    };
    Ok(found.unwrap_or_else(nothing_located))
}

fn period_of(state: &TraceState, id: &str, query: &Query) -> Answer<Arc<PeriodTrack>> {
    let of = PeriodId::parse(id).ok_or_else(|| ApiError::request("`track` is missing"))?;
    periods::find(state, &of, &query.asker)
}

fn nothing_located() -> Value {
    json!({ "event": null, "begin": null, "end": null })
}

fn clamp_time(time: i128) -> i64 {
    time.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn events_of_value(state: &TraceState, id: &str, query: &Query) -> Answer<Arc<EventSet>> {
    groups::events(state, &ValueId::parse(&state.input.traces, id).into_iter().collect::<Vec<_>>(), query)
}

fn located_event(index: &Index, id: &str, (event, time): (usize, i128)) -> Value {
    let name = index.kind(event).map(|(name, _)| name);
    json!({ "event": event, "track": id, "ns": ns(time), "begin": ns(time), "end": ns(time), "name": name })
}

fn located_call(calls: &SessionCalls, id: &str, call: &Call) -> Value {
    json!({
        "call": call.number, "track": id, "ns": ns(call.begin), "begin": ns(call.begin), "end": some_ns(call.end),
        "name": calls.names[call.name as usize], "depth": call.depth,
    })
}

fn located_state(states: &States, id: &str, piece: &StatePiece) -> Value {
    json!({
        "event": null, "track": id, "ns": ns(piece.from), "begin": ns(piece.from), "end": ns(piece.to),
        "name": states.names[piece.name as usize], "depth": piece.depth,
    })
}
