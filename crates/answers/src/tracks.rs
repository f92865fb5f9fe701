//! The tracks of all traces, and what their ids name.

use std::collections::BTreeMap;

use serde_json::json;
use tracemill_lod::calls::{SessionCalls, is_of_task};
use tracemill_lod::{EventSet, LossKind};

use crate::error::{Answer, ApiError};
use crate::ids::{ValueId, base_id, calls_id, group_id};
use crate::period_track::PeriodId;
use crate::plots;
use crate::state::TraceState;

/// Something that an id names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrackId {
    Base(usize),
    Calls(usize),
    Group(usize),
    State(usize),
    /// A field that is shown as a counter, or a counter of the user.
    Plot,
    /// Events by a value.
    Value,
    /// Periods that a page defined.
    Period,
}

pub(crate) fn find_track(state: &TraceState, id: &str) -> Answer<TrackId> {
    if let Some(track) = state.states().and_then(|kept| kept.find(id)) {
        return Ok(TrackId::State(track));
    }
    if plots::find(state, id).is_some() {
        return Ok(TrackId::Plot);
    }
    if PeriodId::parse(id).is_some() {
        return Ok(TrackId::Period);
    }
    if ValueId::parse(&state.input.traces, id).is_some() {
        return Ok(TrackId::Value);
    }
    let found = id.split_at_checked(1).and_then(|(kind, number)| {
        let number: usize = number.parse().ok()?;
        match kind {
            "b" => (number < state.timeline().tracks().len()).then_some(TrackId::Base(number)),
            "c" => (number < state.calls()?.tasks.len()).then_some(TrackId::Calls(number)),
            "g" => (number < state.input.traces.session.traces.len()).then_some(TrackId::Group(number)),
            _ => None,
        }
    });
    found.ok_or_else(|| ApiError::new(404, "track", format!("there is no track `{id}`")))
}

/// The base track of a task: the stream that is called like it, up to a point.
pub(crate) fn base_of(state: &TraceState, calls: &SessionCalls, task: usize) -> Option<usize> {
    let task = &calls.tasks[task];
    let (timeline, source) = (state.timeline(), state.input.traces.source());
    let is_it = |(trace, own): (usize, &str)| trace == task.trace && is_of_task(own, task.tid);
    timeline.tracks().iter().position(|track| is_it(track.who(&source)))
}

/// `tracks`: those of all traces; `set` are the events that are counted.
pub(crate) fn tracks(state: &TraceState, set: Option<&EventSet>) -> Answer {
    let (timeline, source) = (state.timeline(), state.input.traces.source());
    let (index, known) = (state.index(), timeline.tracks());
    let counts: Option<Vec<u64>> = index.zip(set).map(|(index, set)| {
        let mut counts = vec![0; index.tracks.len()];
        set.for_each(|event| index.kind(event).into_iter().for_each(|(_, track)| counts[track] += 1));
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
        list.extend(plots::known_tracks(state, at));
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
