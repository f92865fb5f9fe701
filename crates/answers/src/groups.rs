//! Tracks by the values of a field (*Group by*): the events of a trace are read once for each path that is asked for.
//!
//! The id of such a track says what it shows: `v.GROUP.PATH.VALUE`, of a trace the events whose value of a path this is. Signs
//! that ids do not have stand as `-` and two hexadecimal digits.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracemill_engine::filter::KeyValue;
use tracemill_lod::EventSet;
use tracemill_lod::group::{Groups, MOST_VALUES, OfValue};
use tracemill_lod::tiles::Density;

use crate::answer::group_id;
use crate::error::{Answer, ApiError};
use crate::plots::{bound, decoded, encoded};
use crate::query::{Asker, Query};
use crate::state::TraceState;

/// Groups that are kept; each takes some 0.4 bytes an event.
const KEPT: usize = 4;
/// How long an answer waits for a group that is being read.
const PATIENCE: Duration = Duration::from_millis(150);
/// A group that nobody asks for is not read on.
const FORGOTTEN: Duration = Duration::from_secs(5);
/// How often somebody looks whether it is there.
const LOOK: Duration = Duration::from_millis(10);
/// Signs of a text that an id has; of longer ones it has a sum.
const SIGNS: usize = 80;

/// The parts of the id of a track by a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ValueId {
    trace: usize,
    path: String,
    /// The value, as ids have it.
    value: String,
}

/// A value as ids have it.
fn id_of_value(value: Option<&KeyValue>) -> String {
    let Some(value) = value else { return "o".to_string() };
    let kind = match value {
        KeyValue::Absent => "n",
        KeyValue::Integer(_) => "i",
        KeyValue::Bool(_) => "b",
        KeyValue::Number(_) => "r",
        KeyValue::Text(_) => "t",
    };
    let text = value.to_string();
    if text.len() <= SIGNS {
        return format!("{kind}{}", encoded(&text));
    }
    // FNV-1a: the same in each run.
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("h{sum:016x}")
}

impl ValueId {
    /// The parts of an id; `None` when it is no id of such a track.
    pub(crate) fn parse(state: &TraceState, id: &str) -> Option<ValueId> {
        let mut parts = id.strip_prefix("v.")?.split('.');
        let (group, path, value) = (parts.next()?, parts.next()?, parts.next()?);
        let trace = (0..state.input.traces.session.traces.len()).find(|trace| group_id(*trace) == group)?;
        let is_value = value.starts_with(['o', 'n', 'i', 'b', 'r', 't', 'h']) && parts.next().is_none();
        is_value.then_some(())?;
        Some(ValueId { trace, path: decoded(path)?, value: value.to_string() })
    }
}

/// A group that is kept.
struct Kept {
    key: (usize, String, String),
    groups: Arc<Groups>,
    asked: Arc<Mutex<Instant>>,
}

/// The groups that were asked for last.
#[derive(Default)]
pub(crate) struct GroupList(Mutex<VecDeque<Kept>>);

impl GroupList {
    /// Ends all reading.
    pub(crate) fn stop(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|kept| kept.groups.stop());
    }
}

fn mistake(path: &str, error: &tracemill_model::error::Error) -> ApiError {
    ApiError::filter(path, error)
}

/// The group of a path, which is read from now on when it was not yet.
fn group_of(state: &TraceState, trace: usize, path: &str, filter: Option<&str>) -> Answer<Arc<Groups>> {
    state.whole_index()?;
    let key = (trace, path.to_string(), filter.unwrap_or_default().to_string());
    let mut list = state.groups.0.lock().unwrap_or_else(PoisonError::into_inner);
    // Those that were given up begin anew.
    list.retain(|kept| !kept.groups.progress.stop.load(Ordering::Relaxed));
    if let Some(at) = list.iter().position(|kept| kept.key == key)
        && let Some(kept) = list.remove(at)
    {
        *kept.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let groups = kept.groups.clone();
        list.push_back(kept);
        return Ok(groups);
    }
    let filter = bound(state, filter)?;
    let traces = state.input.traces.clone();
    let groups = Groups::new(&traces.source(), &state.timeline(), (trace, path), filter);
    let groups = Arc::new(groups.map_err(|error| mistake(path, &error))?);
    let asked = Arc::new(Mutex::new(Instant::now()));
    list.push_back(Kept { key, groups: groups.clone(), asked: asked.clone() });
    if list.len() > KEPT
        && let Some(old) = list.pop_front()
    {
        old.groups.stop();
    }
    drop(list);
    let own = groups.clone();
    std::thread::spawn(move || {
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| own.count(&traces.source()));
            while !reading.is_finished() {
                std::thread::sleep(LOOK);
                if asked.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > FORGOTTEN {
                    own.stop();
                }
            }
        });
    });
    Ok(groups)
}

/// Waits until a group was read; no longer than `patience` when there is one.
fn wait(state: &TraceState, groups: &Groups, patience: Option<Duration>, asker: &Asker) -> Answer<bool> {
    let begun = Instant::now();
    while !groups.is_counted() {
        if asker.is_over(&state.progress) || groups.progress.stop.load(Ordering::Relaxed) {
            return Err(Asker::over());
        }
        if patience.is_some_and(|patience| begun.elapsed() >= patience) {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

fn track_json(trace: usize, path: &str, of: &OfValue) -> Value {
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
    let groups = group_of(state, trace, path, query.get("filter"))?;
    let is_read = wait(state, &groups, Some(PATIENCE), &query.asker)?;
    let tracks = if is_read { groups.tracks() } else { Vec::new() };
    let of_others = || tracks.iter().filter(|of| of.value.is_none()).map(|of| of.events);
    Ok(json!({
        "group": path, "trace": trace,
        "done": if is_read { 1.0 } else { groups.done().min(0.99) },
        "values": tracks.len().min(MOST_VALUES),
        "left_out": of_others().sum::<u64>(),
        "tracks": tracks.iter().map(|of| track_json(trace, path, of)).collect::<Vec<_>>(),
    }))
}

/// `track/ID` of such a track: as `tracks` tells of it, with how much was read.
pub(crate) fn track(state: &TraceState, id: &ValueId, text: &str, query: &Query) -> Answer {
    let groups = group_of(state, id.trace, &id.path, query.get("filter"))?;
    let is_read = wait(state, &groups, Some(PATIENCE), &query.asker)?;
    if !is_read {
        return Ok(json!({
            "id": text, "parent": group_id(id.trace), "kind": "events", "base": false, "name": id.path,
            "trace": id.trace, "events": null, "done": groups.done().min(0.99),
        }));
    }
    let track = groups.tracks().into_iter().find(|of| id_of_value(of.value.as_ref()) == id.value);
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
        let groups = group_of(state, of.trace, &of.path, query.get("filter"))?;
        let patience = (!must_be_exact).then_some(Duration::ZERO);
        if !wait(state, &groups, patience, &query.asker)? {
            continue;
        }
        let tracks = groups.tracks();
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
        let mut found = groups.density(&source, &wanted, (level, range), must_be_exact).into_iter();
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
    state.set_of(key, || {
        let mut all: Option<EventSet> = None;
        let mut known: Vec<(usize, &str)> = Vec::new();
        for of in ids {
            if known.contains(&(of.trace, &*of.path)) {
                continue;
            }
            known.push((of.trace, &of.path));
            let groups = group_of(state, of.trace, &of.path, filter)?;
            wait(state, &groups, None, &query.asker)?;
            let is_wanted = |track: &OfValue| {
                ids.iter().any(|id| {
                    (id.trace, &id.path) == (of.trace, &of.path) && id.value == id_of_value(track.value.as_ref())
                })
            };
            let tracks: Vec<usize> =
                groups.tracks().iter().filter(|track| is_wanted(track)).map(|track| track.track).collect();
            let found = groups.events(&state.input.traces.source(), &tracks, &query.asker.flag());
            let found = found.ok_or_else(Asker::over)?;
            all = Some(match all {
                None => found,
                Some(before) => before.or(&found),
            });
        }
        Ok(all.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parts_of_ids() {
        let id = |value: KeyValue| id_of_value(Some(&value));
        assert_eq!(id(KeyValue::Integer(-5)), "i-2D5");
        assert_eq!(id(KeyValue::Text(b"a.b c".to_vec())), "ta-2Eb-20c");
        assert_eq!((id(KeyValue::Absent), id_of_value(None)), ("n".to_string(), "o".to_string()));
        let long = id(KeyValue::Text(vec![b'x'; 100]));
        assert!(long.len() == 17 && long != id(KeyValue::Text(vec![b'x'; 101])), "{long}");
        assert_eq!(decoded(&encoded("payload.args[1] ü")).as_deref(), Some("payload.args[1] ü"));
    }
}
