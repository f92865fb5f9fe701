//! Answers about a part of the timeline: `select`, `flame`, and the calls of its functions.

use serde_json::{Value, json};
use tracemill_lod::calls::{Calls, OfFunction};
use tracemill_lod::statistics::{self, Part};
use tracemill_lod::{EventSet, Index};

use crate::answers::{Named, Query, base_of, named, named_in, ns, some_ns};
use crate::error::{Answer, ApiError};
use crate::shared::Shared;

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

/// The base tracks and the tasks of a list of ids, `None` without one: a base track stands for its calls too, and a group for all of its trace.
pub(crate) fn chosen(shared: &Shared, index: &Index, list: Option<&str>) -> Answer<Option<(Vec<usize>, Vec<usize>)>> {
    let Some(list) = list.map(|list| named_in(shared, list)).transpose()? else { return Ok(None) };
    let (mut bases, mut tasks) = (Vec::new(), Vec::new());
    let count = shared.calls().map_or(0, |calls| calls.tasks.len());
    let base_of_task = |task: usize| shared.calls().and_then(|calls| base_of(shared, calls, task));
    for one in list {
        match one {
            Named::Base(base) => {
                bases.push(base);
                tasks.extend((0..count).filter(|task| base_of_task(*task) == Some(base)));
            }
            Named::Calls(task) => {
                tasks.push(task);
                bases.extend(base_of_task(task));
            }
            // States and counters have no events of their own.
            Named::State(_) | Named::Plot => {}
            Named::Group(trace) => {
                bases.extend((0..index.tracks.len()).filter(|base| index.tracks[*base].trace == trace));
                let own = |task: &usize| shared.calls().is_some_and(|calls| calls.tasks[*task].trace == trace);
                tasks.extend((0..count).filter(own));
            }
        }
    }
    for list in [&mut bases, &mut tasks] {
        list.sort_unstable();
        list.dedup();
    }
    Ok(Some((bases, tasks)))
}

fn absolute(range: Option<(i128, i128)>, index: &Index) -> (i64, i64) {
    let (begin, end) = range.unwrap_or((index.begin, index.end));
    let time = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    (time(begin), time(end))
}

fn function_json(calls: &Calls, of: OfFunction) -> Value {
    let durations = of.durations();
    let [p50, p90, p99] = [50, 90, 99].map(|p| some_ns(of.percentile(p)));
    json!({
        "name": calls.names[of.name as usize],
        "calls": of.calls,
        "whole": of.whole(),
        "total": ns(of.total),
        "self": ns(of.own),
        "min": some_ns(durations.map(|(min, _, _)| min)),
        "mean": some_ns(durations.map(|(_, mean, _)| mean)),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "max": some_ns(durations.map(|(_, _, max)| max)),
    })
}

pub(crate) fn select(shared: &Shared, query: &Query, set: Option<&EventSet>) -> Answer {
    let index = shared.whole_index()?;
    let range = range_of(query, index)?;
    let chosen = chosen(shared, index, query.get("tracks"))?;
    let (bases, tasks) = (chosen.as_ref().map(|(bases, _)| &**bases), chosen.as_ref().map(|(_, tasks)| &**tasks));
    let sums = statistics::sums(index, Part { range, tracks: bases, set });
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
        "complete": shared.is_complete(),
        "names": names,
    });
    if let Some(calls) = shared.calls() {
        let rows = calls.statistics(absolute(range, index), tasks);
        answer["calls"] = rows.into_iter().map(|of| function_json(calls, of)).collect::<Vec<_>>().into();
    }
    Ok(answer)
}

pub(crate) fn flame(shared: &Shared, query: &Query) -> Answer {
    let index = shared.whole_index()?;
    let range = absolute(range_of(query, index)?, index);
    let chosen = chosen(shared, index, query.get("tracks"))?;
    let Some(calls) = shared.calls() else { return Ok(json!({ "nodes": [] })) };
    let stacks = calls.stacks(range, chosen.as_ref().map(|(_, tasks)| &**tasks));
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

pub(crate) fn call(shared: &Shared, place: &str) -> Answer {
    let wrong = || ApiError::new(404, "call", format!("there is no call `{place}`"));
    let (track, number) = place.split_once('/').ok_or_else(wrong)?;
    let (Named::Calls(task), Some(calls)) = (named(shared, track)?, shared.calls()) else { return Err(wrong()) };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let call = calls.call(task, number).ok_or_else(wrong)?;
    let whole = (calls.begin, calls.end);
    let of_name = calls.statistics(whole, None).into_iter().find(|of| of.name == call.name);
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
        "args": null,
        "retval": null,
        "module": null,
        "all": of_name.map(|of| function_json(calls, of)),
    }))
}
