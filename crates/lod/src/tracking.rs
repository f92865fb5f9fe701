//! Which track an event is on.

use std::sync::Arc;

use tracemill_engine::event::Event;
use tracemill_engine::filter::{ClassFields, KeyBy, KeyReader, KeyValue};
use tracemill_engine::session::Session;
use tracemill_model::schema::EventClassId;
use tracemill_semantics::Semantics;

use crate::values::{Grouping, ValueReader};

/// Fields by which a trace numbers its tracks: for each class, number and name.
pub(crate) fn own_tracks(session: &Session) -> (KeyBy, Vec<bool>) {
    let mut has_own_tracks = Vec::new();
    let fields = session.traces.iter().map(|trace| {
        let semantics = Semantics::new(&trace.schema);
        let mut has_tracks = false;
        let classes = (0..trace.schema.events().len()).map(|class| -> ClassFields {
            let who = semantics.who(EventClassId(class as u32));
            if !who.is_track {
                return Vec::new();
            }
            has_tracks = true;
            [(0, who.id), (1, who.name)].into_iter().filter_map(|(at, path)| Some((at, path?))).collect()
        });
        let classes = classes.collect();
        has_own_tracks.push(has_tracks);
        classes
    });
    (KeyBy::Fields(Arc::new(fields.collect())), has_own_tracks)
}

/// Which track an event is on, where its trace numbers tracks itself, or events are put on tracks by their values.
pub(crate) struct TrackReader(ReaderOf);

enum ReaderOf {
    /// With storage.
    Own(Box<KeyReader>, Vec<u8>),
    Values(Box<ValueReader>),
}

impl TrackReader {
    pub(crate) fn new(session: &Session) -> TrackReader {
        TrackReader(ReaderOf::Own(Box::new(KeyReader::new(session, &own_tracks(session).0)), Vec::new()))
    }

    pub(crate) fn from_values(values: ValueReader) -> TrackReader {
        TrackReader(ReaderOf::Values(Box::new(values)))
    }

    /// The number of the track; `None` for an event that is on none.
    pub(crate) fn track(&mut self, event: &Event<'_>) -> Option<i128> {
        match &mut self.0 {
            ReaderOf::Values(values) => values.number(event).map(|number| number as i128),
            ReaderOf::Own(keys, key) => Some(match keys.values(event, key).into_iter().find(|(at, _)| *at == 0) {
                Some((_, KeyValue::Integer(number))) => number,
                _ => -1,
            }),
        }
    }

    /// The name of the track with this number that an event is on.
    pub(crate) fn name(&mut self, number: i128, event: &Event<'_>) -> String {
        match &mut self.0 {
            ReaderOf::Values(values) => values.name(number as usize),
            ReaderOf::Own(keys, key) => match keys.values(event, key).into_iter().find(|(at, _)| *at == 1) {
                Some((_, KeyValue::Text(name))) => String::from_utf8_lossy(&name).into_owned(),
                _ => format!("track {number}"),
            },
        }
    }
}

/// How the tracks of a timeline are reported.
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
            Tracking::Values(grouping) => TrackReader::from_values(ValueReader::new(session, grouping)),
        }
    }
}
