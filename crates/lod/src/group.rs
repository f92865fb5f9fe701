//! The events of a trace on tracks by the value of a field: as many as there are values, up to a bound.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_engine::event::Event;
use tracemill_engine::filter::{ClassFields, ColumnList, Filter, KeyBy, KeyReader, KeyValue};
use tracemill_engine::selection::StreamOf;
use tracemill_engine::session::Session;
use tracemill_model::error::Result;
use tracemill_model::schema::EventClassId;
use tracemill_semantics::{Semantics, Who};

use crate::index::matching;
use crate::progress::Progress;
use crate::set::EventSet;
use crate::tiles::{self, Density};
use crate::timeline::{Source, Timeline, TrackReader};

/// Values that have tracks of their own.
pub const MOST_VALUES: usize = 256;

/// Words that stand for what the classes of events say in different fields.
pub const THREAD: &str = "thread";
/// See [`THREAD`].
pub const PROCESS: &str = "process";

/// The field that events are grouped by, and the values that were met.
pub(crate) struct Grouping {
    path: String,
    by: KeyBy,
    /// The field that names the values, where they are numbers without one of their own.
    named_by: Option<KeyBy>,
    pub(crate) filter: Option<Filter>,
    values: Mutex<Values>,
}

#[derive(Default)]
struct Values {
    list: Vec<(KeyValue, String)>,
    of_key: HashMap<Box<[u8]>, usize>,
}

/// Fields of event classes by what semantics knows of them.
fn fields(session: &Session, fields: impl Fn(Who) -> ClassFields) -> KeyBy {
    let of_trace = session.traces.iter().map(|trace| {
        let semantics = Semantics::new(&trace.schema);
        (0..trace.schema.events().len()).map(|class| fields(semantics.who(EventClassId(class as u32)))).collect()
    });
    KeyBy::Fields(Arc::new(of_trace.collect()))
}

impl Grouping {
    fn new(session: &Session, path: &str, filter: Option<Filter>) -> Result<Grouping> {
        let (by, named_by) = match path {
            THREAD => {
                let by = fields(session, |who| who.id.into_iter().map(|path| (0, path)).collect());
                let names = fields(session, |who| who.name.into_iter().map(|path| (0, path)).collect());
                (by, Some(names))
            }
            PROCESS => (fields(session, |who| who.process.into_iter().map(|path| (0, path)).collect()), None),
            path => (KeyBy::Paths(ColumnList::parse(path)?.bind(session)?), None),
        };
        Ok(Grouping { path: path.to_string(), by, named_by, filter, values: Mutex::default() })
    }

    /// The number of a value, by its key: [`MOST_VALUES`] for all those behind the first ones.
    fn number(&self, key: &[u8], names: &mut Names, event: &Event<'_>) -> usize {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = values.of_key.get(key) {
            return *number;
        }
        let number = values.list.len();
        if number >= MOST_VALUES {
            return number;
        }
        let value = KeyReader::decode(key).pop().map_or(KeyValue::Absent, |(_, value)| value);
        let name = self.name(&value, names, event);
        values.list.push((value, name));
        values.of_key.insert(key.into(), number);
        number
    }

    /// How a value is called, which an event has.
    fn name(&self, value: &KeyValue, names: &mut Names, event: &Event<'_>) -> String {
        let words = match &mut names.beside {
            Some(beside) => match beside.values(event, &mut names.key).pop() {
                Some((_, KeyValue::Text(text))) => Some(String::from_utf8_lossy(&text).into_owned()),
                _ => None,
            },
            None => names.keys.label(event),
        };
        match (value, words.filter(|words| !words.is_empty())) {
            (KeyValue::Absent, _) => format!("no {}", self.path),
            (KeyValue::Text(_), _) => value.to_string(),
            (_, Some(words)) if self.named_by.is_some() => format!("{words} {value}"),
            (_, Some(words)) => format!("{words} ({value})"),
            (_, None) => format!("{} {value}", self.path),
        }
    }
}

/// Readers of what values are called.
struct Names {
    keys: KeyReader,
    beside: Option<KeyReader>,
    key: Vec<u8>,
}

/// Numbers of tracks that are known by a cheap name of their key.
const QUICK: usize = 4096;

/// Reads which value an event has.
pub(crate) struct ValueReader {
    grouping: Arc<Grouping>,
    keys: KeyReader,
    names: Names,
    key: Vec<u8>,
    quick: HashMap<(u64, u64), usize>,
    matcher: Option<tracemill_engine::filter::Matcher>,
}

impl ValueReader {
    pub(crate) fn new(session: &Session, grouping: &Arc<Grouping>) -> ValueReader {
        ValueReader {
            keys: KeyReader::new(session, &grouping.by),
            names: Names {
                keys: KeyReader::new(session, &grouping.by),
                beside: grouping.named_by.as_ref().map(|by| KeyReader::new(session, by)),
                key: Vec::new(),
            },
            key: Vec::new(),
            quick: HashMap::new(),
            matcher: grouping.filter.as_ref().map(Filter::matcher),
            grouping: grouping.clone(),
        }
    }

    /// The number of the value; `None` when the filter leaves the event out.
    pub(crate) fn number(&mut self, event: &Event<'_>) -> Option<usize> {
        if self.matcher.as_mut().is_some_and(|matcher| !matcher.matches(event)) {
            return None;
        }
        let quick = self.keys.quick(event);
        if let Some(number) = quick.and_then(|quick| self.quick.get(&quick)) {
            return Some(*number);
        }
        self.key.clear();
        self.keys.encode(event, &mut self.key);
        let number = self.grouping.number(&self.key, &mut self.names, event);
        if let Some(quick) = quick.filter(|_| self.quick.len() < QUICK) {
            self.quick.insert(quick, number);
        }
        Some(number)
    }

    /// How the value of a number is called.
    pub(crate) fn name(&self, number: usize) -> String {
        let values = self.grouping.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.list.get(number).map_or_else(|| "other values".to_string(), |(_, name)| name.clone())
    }
}

/// A track of a group.
#[derive(Clone, Debug)]
pub struct OfValue {
    /// Its place among those that [`Groups::density`] takes.
    pub track: usize,
    /// The value; `None` for all those that have no track of their own.
    pub value: Option<KeyValue>,
    /// What it is called.
    pub name: String,
    /// Its events.
    pub events: u64,
    /// Events without a time, among them.
    pub untimed: u64,
}

/// The events of a trace by the values of a path.
pub struct Groups {
    trace: usize,
    grouping: Arc<Grouping>,
    streams: Vec<StreamOf>,
    timeline: Timeline,
    /// How far counting is.
    pub progress: Progress,
}

impl Groups {
    /// Nothing is counted yet. `known`: the timeline of all events, counted.
    ///
    /// # Errors
    /// When no event has the path.
    pub fn new(
        source: &Source<'_>,
        known: &Timeline,
        (trace, path): (usize, &str),
        filter: Option<Filter>,
    ) -> Result<Groups> {
        let grouping = Arc::new(Grouping::new(source.session, path, filter)?);
        let streams: Vec<StreamOf> = source.streams.iter().filter(|of| of.trace == trace).cloned().collect();
        let own = Source { streams: &streams, ..*source };
        let timeline = Timeline::grouped(&own, known, &grouping);
        Ok(Groups { trace, grouping, streams, timeline, progress: Progress::default() })
    }

    /// Counts the events of all values; false when [`Progress::stop`] was set on the way.
    pub fn count(&self, source: &Source<'_>) -> bool {
        self.timeline.count(&Source { streams: &self.streams, ..*source }, &self.progress).unwrap_or(false)
    }

    /// How much of the counting is done, from 0 to 1.
    pub fn done(&self) -> f64 {
        self.timeline.done(&self.progress)
    }

    /// Are all counted?
    pub fn is_counted(&self) -> bool {
        self.timeline.is_counted().1
    }

    /// The tracks, when they are counted: numbers first, then texts, then events without a value, then all other values.
    pub fn tracks(&self) -> Vec<OfValue> {
        let values = self.grouping.values.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(track, of): (usize, crate::timeline::TrackOf<'_>)| {
            let (counted, number) = (of.counted()?, usize::try_from(of.number()?).ok()?);
            let (value, name) = match values.list.get(number) {
                Some((value, name)) => (Some(value.clone()), name.clone()),
                None => (None, counted.name.clone()),
            };
            Some(OfValue { track, value, name, events: counted.events, untimed: counted.untimed })
        };
        let mut tracks: Vec<OfValue> = self.timeline.tracks().into_iter().enumerate().filter_map(of).collect();
        let is_last = |of: &OfValue| (of.value.is_none(), of.value == Some(KeyValue::Absent));
        tracks.sort_by(|a, b| is_last(a).cmp(&is_last(b)).then_with(|| a.value.cmp(&b.value)));
        tracks
    }

    /// Events of some tracks in some tiles, as [`tiles::density`] tells them of others.
    pub fn density(
        &self,
        source: &Source<'_>,
        tracks: &[usize],
        (level, tiles): (u32, (u64, u64)),
        must_be_exact: bool,
    ) -> Vec<Density> {
        let own = Source { streams: &self.streams, ..*source };
        tiles::density((&self.timeline, None), &own, tracks, level, tiles, must_be_exact)
    }

    /// The events of some tracks, by number among all of the session. `None` when `stop` was set on the way.
    pub fn events(&self, source: &Source<'_>, tracks: &[usize], stop: &Arc<AtomicBool>) -> Option<EventSet> {
        let known = self.timeline.tracks();
        let mut is_wanted = vec![false; MOST_VALUES + 1];
        let numbers = tracks.iter().filter_map(|track| usize::try_from(known.get(*track)?.number()?).ok());
        numbers.for_each(|number| is_wanted[number] = true);
        let mut reader = ValueReader::new(source.session, &self.grouping);
        matching(source, stop, |event| {
            event.trace == self.trace && reader.number(event).is_some_and(|number| is_wanted[number])
        })
    }

    /// Memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.timeline.bytes()
    }

    /// Ends the counting.
    pub fn stop(&self) {
        self.progress.stop.store(true, Ordering::Relaxed);
    }
}

/// How the tracks of a timeline are told.
#[derive(Clone)]
pub(crate) enum Tracking {
    /// By streams, or as a trace numbers them.
    Own,
    /// By values.
    Values(Arc<Grouping>),
}

impl Tracking {
    pub(crate) fn reader(&self, session: &Session) -> TrackReader {
        match self {
            Tracking::Own => TrackReader::new(session),
            Tracking::Values(grouping) => TrackReader::of_values(ValueReader::new(session, grouping)),
        }
    }
}
