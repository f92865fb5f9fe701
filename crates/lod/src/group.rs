//! The events of a trace on tracks by the value of a field: as many as there are values, up to a bound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use tracemill_engine::filter::{Filter, KeyValue};
use tracemill_engine::selection::SelectedStream;
use tracemill_model::error::Result;

use crate::index::matching;
use crate::progress::Progress;
use crate::set::EventSet;
use crate::source::Source;
use crate::tiles::{self, Density};
use crate::timeline::Timeline;
use crate::values::{Grouping, ValueReader};

pub use crate::values::{MOST_VALUES, PROCESS, THREAD};

/// A track of a group.
#[derive(Clone, Debug)]
pub struct ValueStats {
    /// Its place among those that [`ValueGroups::density`] takes.
    pub track: usize,
    /// The value; `None` for all those that have no track of their own.
    pub value: Option<KeyValue>,
    /// Its name.
    pub name: String,
    /// Its events.
    pub events: u64,
    /// Events without a time, among them.
    pub untimed: u64,
}

/// The events of a trace by the values of a path.
pub struct ValueGroups {
    trace: usize,
    grouping: Arc<Grouping>,
    streams: Vec<SelectedStream>,
    timeline: Timeline,
    /// How far counting is.
    pub progress: Progress,
}

impl ValueGroups {
    /// A group that is not counted yet. `known`: the timeline of all events, counted.
    ///
    /// # Errors
    /// When no event has the path.
    pub fn new(
        source: &Source<'_>,
        known: &Timeline,
        (trace, path): (usize, &str),
        filter: Option<Filter>,
    ) -> Result<ValueGroups> {
        let grouping = Arc::new(Grouping::new(source.session, path, filter)?);
        let streams: Vec<SelectedStream> = source.streams.iter().filter(|of| of.trace == trace).cloned().collect();
        let own = Source { streams: &streams, ..*source };
        let timeline = Timeline::grouped(&own, known, &grouping);
        Ok(ValueGroups { trace, grouping, streams, timeline, progress: Progress::default() })
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
    pub fn tracks(&self) -> Vec<ValueStats> {
        let values = self.grouping.values.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(track, of): (usize, crate::timeline::TrackOf<'_>)| {
            let (counted, number) = (of.counted()?, usize::try_from(of.number()?).ok()?);
            let (value, name) = match values.list.get(number) {
                Some((value, name)) => (Some(value.clone()), name.clone()),
                None => (None, counted.name.clone()),
            };
            Some(ValueStats { track, value, name, events: counted.events, untimed: counted.untimed })
        };
        let mut tracks: Vec<ValueStats> = self.timeline.tracks().into_iter().enumerate().filter_map(of).collect();
        let is_last = |of: &ValueStats| (of.value.is_none(), of.value == Some(KeyValue::Absent));
        tracks.sort_by(|a, b| is_last(a).cmp(&is_last(b)).then_with(|| a.value.cmp(&b.value)));
        tracks
    }

    /// Events of some tracks in some tiles, as [`tiles::density`] gives them of others.
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
