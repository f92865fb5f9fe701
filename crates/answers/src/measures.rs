//! Durations between two events, and values that are far from the others: the events are read again for each question.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Value, json};
use tracemill_analyses::durations::Durations;
use tracemill_analyses::pairs::{PairsQuery, report_of};
use tracemill_analyses::report::{Report, Sort};
use tracemill_analyses::run::Input;
use tracemill_analyses::target::{Target, Verdict};
use tracemill_engine::events::{Events, Step};
use tracemill_engine::filter::{ColumnList, KeyBy, KeyReader, KeyValue};
use tracemill_engine::timeline::Selection;
use tracemill_lod::{EventSet, Index};
use tracemill_model::error::Error;
use tracemill_semantics::names;

use crate::error::{Answer, ApiError};
use crate::ids::base_id;
use crate::plots::number;
use crate::points::Points;
use crate::query::{Asker, Query, ns, some_ns};
use crate::selection::{chosen, range_of};
use crate::state::TraceState;
use crate::traces::ShownTraces;

/// Values that are reported.
const VALUES: usize = 10_000;
/// Rows of statistics.
const ROWS: usize = 10_000;

/// A mistake in a question, as the command line says it.
pub(crate) fn mistake(error: &Error) -> ApiError {
    ApiError::request(match error.help() {
        Some(help) => format!("{}; {help}", error.message()),
        None => error.message().to_string(),
    })
}

/// The events that a question is about, by number.
pub(crate) struct EventChoice<'a> {
    index: &'a Index,
    /// Numbers of the first one and of the one after the last.
    range: (usize, usize),
    tracks: Option<Vec<bool>>,
    /// Events beside those of the tracks.
    beside: Option<Arc<EventSet>>,
    set: Option<&'a EventSet>,
}

impl<'a> EventChoice<'a> {
    pub(crate) fn new(
        state: &TraceState,
        index: &'a Index,
        query: &Query,
        set: Option<&'a EventSet>,
    ) -> Answer<EventChoice<'a>> {
        let from = |ns: i128| index.first_from(ns).unwrap_or(index.events());
        let range = range_of(query, index)?;
        let range = range.map_or((0, index.events()), |(begin, end)| (from(begin), from(end.saturating_add(1))));
        let chosen = chosen(state, index, query, query.get("tracks"))?;
        let tracks = chosen.as_ref().map(|chosen| {
            let mut tracks = vec![false; index.tracks.len()];
            chosen.bases.iter().for_each(|base| tracks[*base] = true);
            tracks
        });
        Ok(EventChoice { index, range, tracks, beside: chosen.and_then(|chosen| chosen.beside), set })
    }

    fn is_all(&self) -> bool {
        self.tracks.is_none() && self.set.is_none() && self.range == (0, self.index.events())
    }

    /// Their numbers, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = usize> {
        (self.range.0..self.range.1).filter(|event| self.has(*event))
    }

    fn has(&self, event: usize) -> bool {
        (self.range.0..self.range.1).contains(&event)
            && self.set.is_none_or(|set| set.has(event))
            && self.tracks.as_ref().is_none_or(|tracks| {
                self.beside.as_ref().is_some_and(|beside| beside.has(event))
                    || self.index.kind(event).is_some_and(|(_, track)| tracks.get(track).copied().unwrap_or(false))
            })
    }
}

/// The fields by which events are grouped.
fn key_of(state: &TraceState, text: Option<&str>) -> Answer<KeyBy> {
    let Some(text) = text else { return Ok(KeyBy::First(&[names::TRACK.0])) };
    let columns = ColumnList::parse(text).and_then(|list| list.bind(&state.input.traces.session));
    columns.map(KeyBy::Paths).map_err(|error| mistake(&error))
}

/// `pairs`: how long it is from an event to the next one of another name, as `report --from --to` says it.
pub(crate) fn pairs(state: &TraceState, query: &Query, set: Option<&EventSet>) -> Answer {
    let index = state.whole_index()?;
    let wanted = EventChoice::new(state, index, query, set)?;
    let text = |name: &str| query.get(name).ok_or_else(|| ApiError::request(format!("`{name}` is missing")));
    let (from, to) = (Target::parse(text("from")?), Target::parse(text("to")?));
    let by = key_of(state, query.get("by"))?;
    let ShownTraces { session, streams, selection, filter, .. } = &state.input.traces;
    let selection = Selection { stop: Some(query.asker.flag()), ..selection.clone() };
    let input = Input { session, streams, selection, filter: filter.clone() };
    let question = PairsQuery { from: &from, to: &to, by: &by, regress: false };
    let mut points = Points::new(index, range_of(query, index)?);
    let is_wanted = |event: usize| wanted.has(event);
    let by_number: Option<&dyn Fn(usize) -> bool> = if wanted.is_all() { None } else { Some(&is_wanted) };
    // `problems` reports damage.
    let go_on =
        &mut |_| if query.asker.is_over(&state.progress) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let report = report_of(&input, &question, by_number, go_on, |begin, end| {
        if end >= begin {
            points.add(begin, end - begin);
        }
    });
    let mut report = report.map_err(|error| mistake(&error))?;
    if query.asker.is_over(&state.progress) {
        return Err(Asker::cancelled());
    }
    report.sort(Sort::Total);
    let mut answer = points.json();
    answer["rows"] = rows(&mut report).into();
    answer["left_out"] = json!({
        "only_ends": report.left_out.only_ends, "restarted": report.left_out.restarted,
        "unfinished": report.left_out.unfinished, "negative": report.left_out.negative,
    });
    Ok(answer)
}

/// Statistics by key.
fn rows(report: &mut Report) -> Vec<Value> {
    let row = |row: &mut tracemill_analyses::report::Row| {
        let values: Vec<String> = row.key.iter().map(|(_, value)| value.to_string()).collect();
        let Durations { moments, .. } = &row.durations;
        let (count, total, min, max) = (moments.count, moments.total_ns, moments.min_ns, moments.max_ns);
        let mean = total / u128::from(count.max(1));
        let percentiles = row.durations.percentiles_ns(&[50, 90, 99]);
        let [p50, p90, p99] = [0, 1, 2].map(|at| some_ns(percentiles.get(at)));
        json!({
            "key": row.label.clone().unwrap_or_else(|| values.join(", ")),
            "count": count, "total": ns(total), "min": ns(min), "mean": ns(mean),
            "p50": p50, "p90": p90, "p99": p99, "max": ns(max),
        })
    };
    report.rows.iter_mut().take(ROWS).map(row).collect()
}

/// Count, mean and squares of distances from it, without large sums (Welford).
#[derive(Default)]
struct Spread {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    /// Of the population.
    fn deviation(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).sqrt() }
    }
}

/// `outliers`: the values of a field that are further from the mean than so many standard deviations.
pub(crate) fn outliers(state: &TraceState, query: &Query, set: Option<&EventSet>) -> Answer {
    let index = state.whole_index()?;
    let wanted = EventChoice::new(state, index, query, set)?;
    let field = query.get("field").ok_or_else(|| ApiError::request("`field` is missing"))?;
    let most: f64 = query.number("deviations")?.unwrap_or(2.5);
    let by = key_of(state, Some(field))?;
    let session = &state.input.traces.session;
    let target = query.get("name").map(Target::parse);
    let meant = target.as_ref().map(|target| target.bind(session).map_err(|error| mistake(&error))).transpose()?;
    let source = state.input.traces.source();
    let mut keys = KeyReader::new(session, &by);
    // Shows each wanted value; the number of the event and what stands there come with it.
    let mut each = |see: &mut dyn FnMut(usize, f64, &KeyValue)| -> Answer<()> {
        let (mut key, mut name) = (Vec::new(), Vec::new());
        let mut events = Events::new(session, source.streams, source.selection, source.filter);
        let mut next = 0usize;
        while let Some(step) = events.next() {
            let Step::Event(_, event) = step else { continue };
            let at = next;
            next += 1;
            if at.is_multiple_of(1024) && query.asker.is_over(&state.progress) {
                return Err(Asker::cancelled());
            }
            let verdict = meant.as_ref().map(|meant| meant[event.trace][event.raw.class().0 as usize]);
            let is_meant = match verdict {
                None | Some(Verdict::Yes) => true,
                Some(Verdict::No) => false,
                Some(Verdict::Ask) => target.as_ref().is_some_and(|target| target.asks(&event, &mut name)),
            };
            if !is_meant || !wanted.has(at) {
                continue;
            }
            let values = keys.values(&event, &mut key);
            if let Some((value, text)) = values.first().and_then(|(_, value)| Some((number(value)?, value))) {
                see(at, value, text);
            }
        }
        Ok(())
    };
    let mut spread = Spread::default();
    each(&mut |_, value, _| spread.add(value))?;
    let (mean, deviation) = (spread.mean, spread.deviation());
    let (mut found, mut count) = (Vec::new(), 0u64);
    if deviation > 0.0 {
        each(&mut |event, value, text| {
            let distance = (value - mean) / deviation;
            if distance.abs() <= most {
                return;
            }
            count += 1;
            if found.len() < VALUES {
                found.push((event, text.to_string(), distance));
            }
        })?;
    }
    let events = found.into_iter().map(|(event, value, distance)| {
        let (name, track) = index.kind(event).unwrap_or_default();
        json!({
            "event": event, "ns": some_ns(index.ns(event)), "track": base_id(track), "name": name, "value": value,
            "deviations": distance,
        })
    });
    Ok(json!({
        "values": spread.count,
        "mean": (spread.count > 0).then_some(mean),
        "deviation": (spread.count > 0).then_some(deviation),
        "count": count,
        "events": events.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_population() {
        let mut spread = Spread::default();
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().for_each(|value| spread.add(value));
        assert_eq!((spread.mean, spread.deviation()), (5.0, 2.0));
        // A large offset does not matter.
        let mut far = Spread::default();
        [1e15 + 2.0, 1e15 + 4.0].into_iter().for_each(|value| far.add(value));
        assert_eq!(far.deviation(), 1.0);
    }
}
