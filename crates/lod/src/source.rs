//! The part of a session that is shown.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracemill_engine::events::Events;
use tracemill_engine::filter::Filter;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;

/// The events that are shown: those of some streams of a session that are selected and match a filter.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The session.
    pub session: &'a Session,
    /// The streams.
    pub streams: &'a [SelectedStream],
    /// The times and classes of them.
    pub selection: &'a Selection,
    /// A filter beside that.
    pub filter: Option<&'a Filter>,
}

impl<'a> Source<'a> {
    /// The events in order. `jobs` threads read, until `stop` is set.
    pub(crate) fn events_until(&self, jobs: usize, stop: Option<&Arc<AtomicBool>>) -> Events<'a> {
        let stop = stop.or(self.selection.stop.as_ref()).cloned();
        let selection = Selection { jobs, stop, ..self.selection.clone() };
        Events::new(self.session, self.streams, &selection, self.filter)
    }
}

/// Is a time near enough to the origin to have a place? Those that are centuries apart share no timeline.
pub(crate) fn in_reach(origin: i128, ns: i128) -> bool {
    i64::try_from(ns - origin).is_ok_and(|time| time != i64::MIN)
}
