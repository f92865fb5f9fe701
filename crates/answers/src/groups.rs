//! Tracks by the values of a field (*Group by*): the events of a trace are read once for each path that is asked for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracemill_engine::filter::KeyValue;
use tracemill_lod::EventSet;
use tracemill_lod::group::{MOST_VALUES, ValueGroups, ValueStats};
use tracemill_lod::tiles::Density;

use crate::caches::GroupReading;
use crate::error::{Answer, ApiError};
use crate::ids::{ValueId, encoded, group_id, id_of_value};
use crate::plots::bound;
use crate::query::{Asker, Query};
use crate::state::TraceState;

/// How long an answer waits for a group that is being read.
const PATIENCE: Duration = Duration::from_millis(150);
/// How often somebody looks whether it is there.
const LOOK: Duration = Duration::from_millis(10);
/// The group of a path, which is read from now on when it was not yet.
fn group_of(state: &TraceState, trace: usize, path: &str, filter: Option<&str>) -> Answer<Arc<GroupReading>> {
    state.whole_index()?;
    let key = (trace, path.to_string(), filter.unwrap_or_default().to_string());
    let kept = &state.caches.groups;
    // A group that was given up is read from the beginning.
    if kept.get(&key).is_some_and(|reading| reading.is_stopped()) {
        kept.remove(&key);
    }
    let reading = kept.get_or_make(key, &|| false, || {
        let filter = bound(state, filter)?;
        let groups = ValueGroups::new(&state.input.traces.source(), &state.timeline(), (trace, path), filter);
        let reading = GroupReading::new(groups.map_err(|error| ApiError::filter(path, &error))?);
        let (groups, is_forgotten) = (reading.groups.clone(), reading.forgotten());
        let traces = state.input.traces.clone();
        std::thread::spawn(move || {
            std::thread::scope(|scope| {
                let counting = scope.spawn(|| groups.count(&traces.source()));
                while !counting.is_finished() {
                    std::thread::sleep(LOOK);
                    if is_forgotten() {
                        groups.stop();
                    }
                }
            });
        });
        Ok(Arc::new(reading))
    })?;
    reading.touch();
    Ok(reading)
}

/// Waits until a group was read; no longer than `patience` when there is one.
fn wait(state: &TraceState, groups: &ValueGroups, patience: Option<Duration>, asker: &Asker) -> Answer<bool> {
    let begun = Instant::now();
    while !groups.is_counted() {
        if asker.is_over(&state.progress) || groups.progress.stop.load(Ordering::Relaxed) {
            return Err(Asker::cancelled());
        }
        if patience.is_some_and(|patience| begun.elapsed() >= patience) {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

fn track_json(trace: usize, path: &str, of: &ValueStats) -> Value {
    json!({
        "id": format!("v.{}.{}.{}", group_id(trace), encoded(path), id_of_value(of.value.as_ref())),
        "parent": group_id(trace), "kind": "events", "base": false, "name": of.name,
        "value": of.value.as_ref().filter(|value| **value != KeyValue::Absent).map(ToString::to_string),
        "group": path, "trace": trace, "events": of.events, "untimed": of.untimed,
    })
}

/// `tracks?group=PATH&trace=N`: the tracks of the values of a path.
pub(crate) fn tracks(state: &TraceState, path: &str, query: &Query) -> Answer {
    let trace: usize = query.needed("trace")?;
    if trace >= state.input.traces.session.traces.len() {
        return Err(ApiError::new(404, "track", format!("there is no trace {trace}")));
    }
    let reading = group_of(state, trace, path, query.get("filter"))?;
    let is_read = wait(state, &reading.groups, Some(PATIENCE), &query.asker)?;
    let tracks = if is_read { reading.groups.tracks() } else { Vec::new() };
    let of_others = || tracks.iter().filter(|of| of.value.is_none()).map(|of| of.events);
    Ok(json!({
        "group": path, "trace": trace,
        "done": if is_read { 1.0 } else { reading.groups.done().min(0.99) },
        "values": tracks.len().min(MOST_VALUES),
        "left_out": of_others().sum::<u64>(),
        "tracks": tracks.iter().map(|of| track_json(trace, path, of)).collect::<Vec<_>>(),
    }))
}

/// `track/ID` of such a track: as `tracks` describes it, with how much was read.
pub(crate) fn track(state: &TraceState, id: &ValueId, text: &str, query: &Query) -> Answer {
    let reading = group_of(state, id.trace, &id.path, query.get("filter"))?;
    let is_read = wait(state, &reading.groups, Some(PATIENCE), &query.asker)?;
    if !is_read {
        return Ok(json!({
            "id": text, "parent": group_id(id.trace), "kind": "events", "base": false, "name": id.path,
            "trace": id.trace, "events": null, "done": reading.groups.done().min(0.99),
        }));
    }
    let track = reading.groups.tracks().into_iter().find(|of| id_of_value(of.value.as_ref()) == id.value);
    let track = track.ok_or_else(|| ApiError::new(404, "track", format!("there is no track `{text}`")))?;
    let mut value = track_json(id.trace, &id.path, &track);
    value["done"] = 1.0.into();
    Ok(value)
}

/// The density of such tracks in some tiles; `None` for one whose group was not read yet.
pub(crate) fn densities(
    state: &TraceState,
    ids: &[ValueId],
    (level, range): (u32, (u64, u64)),
    query: &Query,
) -> Answer<Vec<Option<Density>>> {
    let must_be_exact = query.is_on("exact");
    let mut densities: Vec<Option<Density>> = vec![None; ids.len()];
    let mut known: Vec<(usize, &str)> = Vec::new();
    for of in ids {
        if known.contains(&(of.trace, &*of.path)) {
            continue;
        }
        known.push((of.trace, &of.path));
        let reading = group_of(state, of.trace, &of.path, query.get("filter"))?;
        let patience = (!must_be_exact).then_some(Duration::ZERO);
        if !wait(state, &reading.groups, patience, &query.asker)? {
            continue;
        }
        let tracks = reading.groups.tracks();
        let own: Vec<(usize, Option<usize>)> = ids
            .iter()
            .enumerate()
            .filter(|(_, other)| (other.trace, &other.path) == (of.trace, &of.path))
            .map(|(at, id)| {
                let track = tracks.iter().find(|track| id_of_value(track.value.as_ref()) == id.value);
                (at, track.map(|track| track.track))
            })
            .collect();
        let wanted: Vec<usize> = own.iter().filter_map(|(_, track)| *track).collect();
        let source = state.input.traces.source();
        let mut found = reading.groups.density(&source, &wanted, (level, range), must_be_exact).into_iter();
        for (at, track) in own {
            // A value that no event has is on no track: that is exact.
            let nothing = Density { is_exact: true, ..Density::default() };
            densities[at] = Some(track.and_then(|_| found.next()).unwrap_or(nothing));
        }
    }
    Ok(densities)
}

/// The events of such tracks together, by number.
pub(crate) fn events(state: &TraceState, ids: &[ValueId], query: &Query) -> Answer<Arc<EventSet>> {
    let filter = query.get("filter");
    let mut texts: Vec<String> = ids.iter().map(|id| format!("{} {} {}", id.trace, id.path, id.value)).collect();
    texts.sort_unstable();
    let key = format!("\0{}\0{}", filter.unwrap_or_default(), texts.join("\0"));
    state.set_of(key, &query.asker, || {
        let mut all: Option<EventSet> = None;
        let mut known: Vec<(usize, &str)> = Vec::new();
        for of in ids {
            if known.contains(&(of.trace, &*of.path)) {
                continue;
            }
            known.push((of.trace, &of.path));
            let reading = group_of(state, of.trace, &of.path, filter)?;
            wait(state, &reading.groups, None, &query.asker)?;
            let is_wanted = |track: &ValueStats| {
                ids.iter().any(|id| {
                    (id.trace, &id.path) == (of.trace, &of.path) && id.value == id_of_value(track.value.as_ref())
                })
            };
            let tracks: Vec<usize> =
                reading.groups.tracks().iter().filter(|track| is_wanted(track)).map(|track| track.track).collect();
            let found = reading.groups.events(&state.input.traces.source(), &tracks, &query.asker.flag());
            let found = found.ok_or_else(Asker::cancelled)?;
            all = Some(match all {
                None => found,
                Some(before) => before.or(&found),
            });
        }
        Ok(all.unwrap_or_default())
    })
}
