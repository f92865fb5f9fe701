//! The traces that are shown.

use std::sync::Arc;

use tracemill_analyses::kernel::CustomDefinitions;
use tracemill_engine::filter::Filter;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::survey;
use tracemill_engine::timeline::Selection;
use tracemill_lod::{Source, Track};
use tracemill_model::schema::ClockOrigin;

/// The stream that a base track is, among those that are shown; `None` where the trace numbers its tracks itself.
pub(crate) fn stream_of(streams: &[SelectedStream], track: &Track) -> Option<usize> {
    streams.iter().position(|of| of.trace == track.trace && Some(of.index) == track.stream)
}

/// States that the user defines, and whether times in their conditions are universal time unless they have a zone.
#[derive(Debug)]
pub struct ShownCustom {
    /// The definitions.
    pub definitions: Arc<CustomDefinitions>,
    /// Are such times universal time?
    pub gmt: bool,
}

/// The traces that are shown.
#[derive(Clone)]
pub struct ShownTraces {
    /// The session.
    pub session: Arc<Session>,
    /// The streams that are wanted.
    pub streams: Vec<SelectedStream>,
    /// The events that are wanted.
    pub selection: Selection,
    /// A filter beside the selection.
    pub filter: Option<Filter>,
    /// Times of the first and the last event in ns, as far as they are known without reading all.
    pub ends: (Option<i128>, Option<i128>),
    /// Are times since the Unix epoch?
    pub is_unix: bool,
    /// States that the user defines.
    pub custom: Option<Arc<ShownCustom>>,
}

impl ShownTraces {
    /// The selected events of some streams of a session. Reads the packets at the ends of streams when no header says their
    /// times.
    pub fn new(
        session: Session,
        streams: Vec<SelectedStream>,
        selection: Selection,
        filter: Option<Filter>,
    ) -> ShownTraces {
        let (first, last) = survey::ends(&session, (true, true));
        let within = |ns: i128| {
            let from = selection.begin_ns.map_or(ns, |begin| ns.max(begin));
            selection.end_ns.map_or(from, |end| from.min(end))
        };
        let ends = (first.map(within), last.map(within));
        let mut clocks = session.traces.iter().flat_map(|trace| trace.schema.clocks());
        let is_unix = clocks.any(|clock| clock.origin == ClockOrigin::Unix);
        ShownTraces { session: Arc::new(session), streams, selection, filter, ends, is_unix, custom: None }
    }

    /// The session with the selection, as readers take them.
    pub fn source(&self) -> Source<'_> {
        let ShownTraces { session, streams, selection, filter, .. } = self;
        Source { session, streams, selection, filter: filter.as_ref() }
    }
}
