//! Fields that are shown as counters: their values over time. A field is read when its track is asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, TryLockError};

use serde_json::{Value, json};
use tracemill_engine::events::{Events, Step};
use tracemill_engine::filter::{ColumnList, Expression, Filter, KeyBy, KeyReader, KeyValue};
use tracemill_engine::parsed_query;
use tracemill_engine::selection::{ClassSet, SelectedStream};
use tracemill_engine::timeline::Selection;
use tracemill_lod::counters::{Point, Points};
use tracemill_lod::tiles;
use tracemill_semantics::names;

use crate::caches::Plot;
use crate::counters::CounterTrack;
use crate::custom_tracks::CustomCounter;
use crate::error::{Answer, ApiError};
use crate::ids::{FieldId, FieldValue, group_id};
use crate::query::Asker;
use crate::state::TraceState;
use crate::traces::ShownTraces;

/// Events that are read for one question that need not be answered exactly.
const READ: usize = 1 << 18;

/// The values that a track of a counter shows.
pub(crate) enum ShownPlot<'s> {
    /// A field.
    Field(FieldId),
    /// A counter of the user.
    Custom(&'s CustomCounter),
}

/// The values that the track of an id shows, if it is one of a counter.
pub(crate) fn find<'s>(state: &'s TraceState, id: &str) -> Option<ShownPlot<'s>> {
    let custom = custom_counters(state).iter().find(|counter| counter.id() == id);
    custom.map(ShownPlot::Custom).or_else(|| FieldId::parse(&state.input.traces, id).map(ShownPlot::Field))
}

/// The counters that the user defines, once they are found.
fn custom_counters(state: &TraceState) -> &[CustomCounter] {
    state.states().map_or(&[], |kept| &kept.counters)
}

fn unknown_track(id: &str) -> ApiError {
    ApiError::new(404, "track", format!("there is no track `{id}`"))
}

impl FieldId {
    /// Shows the values from one time to another, both included, with their times in ns since the origin of the timeline.
    fn read(
        &self,
        state: &TraceState,
        filter: Option<&Filter>,
        range: Option<(i128, i128)>,
        mut see: impl FnMut(i64, f64),
        (done, asker): (&AtomicUsize, &Asker),
    ) -> Answer<()> {
        let ShownTraces { session, streams, selection, filter: shown, .. } = &state.input.traces;
        let wrong = |error: tracemill_model::error::Error| ApiError::new(404, "track", error.message());
        let columns = ColumnList::parse(&self.paths()).and_then(|list| list.bind(session)).map_err(wrong)?;
        let mut keys = KeyReader::new(session, &KeyBy::Paths(columns));
        let schema = &session.traces[self.trace].schema;
        let own = selection.classes.get(self.trace).cloned().flatten();
        // Events of a class without a name say it one by one.
        let is_it = |class: usize| {
            own.as_ref().is_none_or(|own| own.has(class as u32))
                && schema.events()[class].name.as_ref().is_none_or(|name| **name == *self.name)
        };
        let mut classes = selection.classes.clone();
        classes.resize(session.traces.len(), None);
        classes[self.trace] = Some(Arc::new(ClassSet::new(schema.events().len(), is_it)));
        let streams: Vec<SelectedStream> = streams.iter().filter(|of| of.trace == self.trace).cloned().collect();
        let begin_ns = selection.begin_ns.max(range.map(|(begin, _)| begin));
        let end_ns = selection.end_ns.into_iter().chain(range.map(|(_, end)| end)).min();
        let jobs = if range.is_some() { 1 } else { selection.jobs };
        let stop = Some(asker.flag());
        let selection = Selection { begin_ns, end_ns, classes, jobs, stop, ..selection.clone() };
        let origin = state.timeline().origin;
        let (mut matcher, mut key, mut name) = (filter.map(Filter::matcher), Vec::new(), Vec::new());
        let mut events = Events::new(session, &streams, &selection, shown.as_ref());
        let mut count = 0usize;
        while let Some(step) = events.next() {
            let Step::Event(_, event) = step else { continue };
            count += 1;
            if count.is_multiple_of(1024) {
                done.store(count, Ordering::Relaxed);
                if asker.is_over(&state.progress) {
                    return Err(Asker::cancelled());
                }
            }
            let Some(time) = event.ns.and_then(|ns| i64::try_from(ns - origin).ok()) else { continue };
            let mut is_named = || event.name(&mut name).is_some_and(|name| name == self.name.as_bytes());
            if event.class().name.is_none() && !is_named() {
                continue;
            }
            if matcher.as_mut().is_some_and(|matcher| !matcher.matches(&event)) {
                continue;
            }
            let values = keys.values(&event, &mut key);
            let is_of = |of: &FieldValue| values.get(1).is_some_and(|(_, value)| value.to_string() == of.value);
            if !self.of.as_ref().is_none_or(is_of) {
                continue;
            }
            if let Some(value) = values.first().and_then(|(_, value)| number(value)) {
                see(time, value);
            }
        }
        if asker.is_over(&state.progress) {
            return Err(Asker::cancelled());
        }
        Ok(())
    }
}

/// A value as a number, when it is one.
pub(crate) fn number(value: &KeyValue) -> Option<f64> {
    match value {
        KeyValue::Integer(value) => Some(*value as f64),
        KeyValue::Bool(value) => Some(f64::from(u8::from(*value))),
        KeyValue::Number(text) => text.parse().ok().filter(|value: &f64| value.is_finite()),
        KeyValue::Absent | KeyValue::Text(_) => None,
    }
}

fn key_of(state: &TraceState, id: &str, filter: Option<&str>) -> String {
    format!("{} {id} {}", state.timeline().origin, filter.unwrap_or_default())
}

fn plot_of(state: &TraceState, id: &str, filter: Option<&str>) -> Answer<Arc<Plot>> {
    state.caches.plots.get_or_make(key_of(state, id, filter), &|| false, || Ok(Arc::default()))
}

pub(crate) fn bound(state: &TraceState, filter: Option<&str>) -> Answer<Option<Filter>> {
    let session = &state.input.traces.session;
    let Some(text) = filter else { return Ok(None) };
    let expression = Expression::parse(text);
    let bound = expression
        .and_then(|expression| expression.bind(session, &parsed_query::times(session, false, expression.needs())));
    bound.map(Some).map_err(|error| ApiError::filter(text, &error))
}

/// Reads the values of a counter, unless they are known. When it need not be there after that, the reading is left to a thread
/// that reads already.
fn read_plot(
    state: &TraceState,
    plot: &Plot,
    (field, filter): (&FieldId, Option<&Filter>),
    (must_be_there, asker): (bool, &Asker),
) -> Answer<()> {
    if plot.counter.get().is_some() {
        return Ok(());
    }
    let _reading = match plot.reading.try_lock() {
        Ok(reading) => reading,
        Err(TryLockError::Poisoned(reading)) => reading.into_inner(),
        Err(TryLockError::WouldBlock) if !must_be_there => return Ok(()),
        Err(TryLockError::WouldBlock) => plot.reading.lock().unwrap_or_else(PoisonError::into_inner),
    };
    if plot.counter.get().is_none() {
        let mut points = Points::new(0);
        field.read(state, filter, None, |time, value| points.push(time, value), (&plot.done, asker))?;
        let _ = plot.counter.set(Arc::new(points.finish()));
    }
    Ok(())
}

/// A counter of a trace, as its track has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownCounter {
    /// The id of its track.
    pub id: String,
    /// The trace.
    pub trace: usize,
    /// Its name.
    pub name: String,
    /// The unit of its values, when it is known.
    pub unit: Option<&'static str>,
}

impl TraceState {
    /// The counters of the traces that have tracks, once they are found.
    pub fn shown_counters(&self) -> impl Iterator<Item = ShownCounter> {
        let known = self.counters().iter().map(|CounterTrack { field, name, unit }| ShownCounter {
            id: field.id(),
            trace: field.trace,
            name: name.clone(),
            unit: *unit,
        });
        known.chain(custom_counters(self).iter().map(|of| ShownCounter {
            id: of.id().to_string(),
            trace: of.trace,
            name: of.name.clone(),
            unit: None,
        }))
    }

    /// The values of a counter at some times in ns, which rise: the last value that is not later. `None` before the first one.
    /// A counter of more than 65,536 values is exact to a quarter of the time between two neighbours, or to 1/16,384 of the whole.
    ///
    /// # Errors
    /// When there is no such counter, and when the asker is gone.
    pub fn counter_values(&self, id: &str, times: &[i128], asker: &Asker) -> Answer<Vec<Option<f64>>> {
        let shown = find(self, id).ok_or_else(|| unknown_track(id))?;
        let origin = self.timeline().origin;
        // No event is before the origin.
        let since = |at: i128| u64::try_from(at - origin).ok().map(|time| time.min(LAST_TIME));
        let Some(first) = times.iter().find_map(|at| since(*at)) else { return Ok(vec![None; times.len()]) };
        let last = times.last().and_then(|at| since(*at)).unwrap_or(first).max(first);
        let own_level = match &shown {
            ShownPlot::Custom(of) => Some(of.counter.level()),
            ShownPlot::Field(field) => {
                let plot = plot_of(self, id, None)?;
                read_plot(self, &plot, (field, None), (true, asker))?;
                plot.counter.get().map(|counter| counter.level())
            }
        };
        let step = (last - first) / times.len().saturating_sub(1).max(1) as u64;
        let fits = ((last - first) >> FEW_BUCKETS).checked_ilog2().map_or(0, |log| log + 1);
        let wanted = step.max(1).ilog2().saturating_sub(2).max(fits);
        let level = if own_level == Some(0) { 0 } else { wanted };
        let (from, to) = (first >> level >> tiles::BUCKET_BITS, last >> level >> tiles::BUCKET_BITS);
        let (points, _) = self::tiles(self, (id, &shown), None, (level, from, to), (true, asker))?;
        let begin = (from << tiles::BUCKET_BITS) as i64;
        let value_at = |at: &i128| {
            let bucket = (since(*at)? >> level) as i64 - begin;
            let next = points.partition_point(|point| point.at <= bucket);
            next.checked_sub(1).map(|last| points[last].last)
        };
        Ok(times.iter().map(value_at).collect())
    }
}

/// Times of tiles end here, in ns since the origin.
const LAST_TIME: u64 = 1 << 62;
/// Buckets that fit into what is read again of a counter: 2 to this power.
const FEW_BUCKETS: u32 = 15;

/// Tiles of a counter: buckets of a level, from the first tile on, the last value before them at -1; whether
/// they are exact.
pub(crate) fn tiles(
    state: &TraceState,
    (id, shown): (&str, &ShownPlot<'_>),
    filter: Option<&str>,
    (level, from, to): (u32, u64, u64),
    (must_be_exact, asker): (bool, &Asker),
) -> Answer<(Vec<Point>, bool)> {
    let field = match shown {
        ShownPlot::Field(field) => field,
        ShownPlot::Custom(of) => return Ok((custom_tiles(of, (level, from, to)), true)),
    };
    let index = state.whole_index()?;
    let plot = plot_of(state, id, filter)?;
    let filter = bound(state, filter)?;
    read_plot(state, &plot, (field, filter.as_ref()), (must_be_exact, asker))?;
    let Some(counter) = plot.counter.get() else { return Ok((Vec::new(), false)) };
    let (begin, end) = tiles::range(level, from, to);
    let first = begin >> level;
    let with = from_first;
    if level >= counter.level() {
        let (before, points) = counter.buckets(level, (begin, end));
        return Ok((with(before, points, first), true));
    }
    // The values of a wide bucket stand at its beginning, unless the values in it are read again.
    let (before, wide) = counter.buckets(0, (begin, end));
    let own = counter.level();
    let origin = state.timeline().origin;
    let ns = |time: i64| origin + i128::from(time);
    let (read_from, read_to) = (begin >> own << own, end);
    let event_at = |ns: i128| index.first_from(ns).unwrap_or(index.events());
    let cost = event_at(ns(read_to)).saturating_sub(event_at(ns(read_from)));
    let narrowed = |points: Vec<Point>, own: u32| narrowed(points, own, (level, begin));
    if !wide.is_empty() && cost > READ && !must_be_exact {
        return Ok((with(before, narrowed(wide, own), 0), false));
    }
    let (mut before, mut points) = (before, Points::new(level));
    if !wide.is_empty() {
        let see = |time: i64, value: f64| match time < begin {
            true => before = Some(value),
            false => points.push(time, value),
        };
        field.read(state, filter.as_ref(), Some((ns(read_from), ns(read_to))), see, (&AtomicUsize::new(0), asker))?;
    }
    let read = points.finish();
    let (_, points) = read.buckets(level, (begin, end));
    // A range can have more buckets than are kept: they are wider then.
    match read.level() {
        own if own > level => Ok((with(before, narrowed(points, own), 0), false)),
        _ => Ok((with(before, points, first), true)),
    }
}

/// Buckets from the first one of a range on, with the value before them at -1.
fn from_first(before: Option<f64>, points: Vec<Point>, first: i64) -> Vec<Point> {
    let before = before.map(|last| Point { at: -1, values: 1, min: last, max: last, last });
    before.into_iter().chain(points.into_iter().map(|point| Point { at: point.at - first, ..point })).collect()
}

/// Wide buckets as narrow ones of a range, which stand where the wide ones begin.
fn narrowed(points: Vec<Point>, own: u32, (level, begin): (u32, i64)) -> Vec<Point> {
    let first = begin >> level;
    let narrow = |point: Point| Point { at: ((point.at << own).max(begin) >> level) - first, ..point };
    points.into_iter().map(narrow).collect()
}

/// Tiles of a counter of the user. Its values are not read again: below its own level they stand where its buckets begin.
fn custom_tiles(of: &CustomCounter, (level, from, to): (u32, u64, u64)) -> Vec<Point> {
    let (begin, end) = tiles::range(level, from, to);
    let (own, (before, points)) = (of.counter.level(), of.counter.buckets(level, (begin, end)));
    match level >= own {
        true => from_first(before, points, begin >> level),
        false => from_first(before, narrowed(points, own, (level, begin)), 0),
    }
}

/// The value of a counter at a time in ns: the last one that is not later. `None` before the first one.
pub(crate) fn value_at(
    state: &TraceState,
    id: &str,
    filter: Option<&str>,
    (at, asker): (i128, &Asker),
) -> Answer<Option<Value>> {
    let Some(shown) = find(state, id) else { return Ok(None) };
    let Ok(time) = u64::try_from(at.saturating_sub(state.timeline().origin)) else { return Ok(None) };
    let tile = time >> tiles::BUCKET_BITS;
    let (points, _) = self::tiles(state, (id, &shown), filter, (0, tile, tile), (true, asker))?;
    let bucket = (time - (tile << tiles::BUCKET_BITS)) as i64;
    Ok(points.iter().take_while(|point| point.at <= bucket).last().map(|point| text(point.last)))
}

/// A number as it is written: without a point when it is whole.
fn text(number: f64) -> Value {
    Value::String(number.to_string())
}

/// The track of a counter, as `tracks` describes others; how much of it was read, from 0 to 1, is `done`.
pub(crate) fn track(state: &TraceState, id: &str, filter: Option<&str>) -> Answer {
    let field = match find(state, id).ok_or_else(|| unknown_track(id))? {
        ShownPlot::Field(field) => field,
        ShownPlot::Custom(of) => {
            let mut value = of.json();
            value["done"] = 1.0.into();
            return Ok(value);
        }
    };
    let index = state.whole_index()?;
    // A path that no event has is reported here, before any tile is asked for.
    let columns = ColumnList::parse(&field.paths()).and_then(|list| list.bind(&state.input.traces.session));
    columns.map_err(|error| ApiError::new(404, "track", error.message()))?;
    let plot = plot_of(state, id, filter)?;
    let done = plot.done.load(Ordering::Relaxed) as f64 / index.events().max(1) as f64;
    let mut value = track_json(state, &field, Some(&plot));
    value["done"] = if plot.counter.get().is_some() { 1.0 } else { done.min(0.99) }.into();
    Ok(value)
}

/// The tracks of counters of a trace that its classes tell, or that the user defines.
pub(crate) fn known_tracks(state: &TraceState, trace: usize) -> Vec<Value> {
    let own = state.counters().iter().filter(|known| known.field.trace == trace);
    let known = own.map(|known| {
        track_json(state, &known.field, state.caches.plots.get(&key_of(state, &known.field.id(), None)).as_deref())
    });
    known.chain(custom_counters(state).iter().filter(|of| of.trace == trace).map(CustomCounter::json)).collect()
}

fn track_json(state: &TraceState, field: &FieldId, plot: Option<&Plot>) -> Value {
    let known = state.counters().iter().find(|known| known.field == *field);
    let counter = plot.and_then(|plot| plot.counter.get());
    let bounds = counter.and_then(|counter| counter.bounds());
    let last = field.path.rsplit('.').next().unwrap_or_default().trim_matches('`');
    json!({
        "id": field.id(), "parent": group_id(field.trace), "kind": "counter", "base": false,
        "name": known.map_or_else(|| field.title(), |known| known.name.clone()),
        "trace": field.trace, "events": counter.map(|counter| counter.values()),
        "unit": known.map_or_else(|| names::unit(last), |known| known.unit),
        "min": bounds.map(|(min, _)| text(min)), "max": bounds.map(|(_, max)| text(max)),
    })
}
