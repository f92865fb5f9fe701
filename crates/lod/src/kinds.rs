//! The kinds of events: on which track they are, and their names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_engine::event::Event;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;

use crate::names::NameTable;
use crate::source::Source;
use crate::timeline::Timeline;
use crate::track::Track;
use crate::tracking::TrackReader;

/// A kind of events: a track and a name.
#[derive(Clone, Copy)]
pub(crate) struct TrackKind {
    pub(crate) track: u32,
    pub(crate) name: u32,
}

/// Which track the events of a stream are on, as a counted timeline shows, and the names that it knows.
#[derive(Clone)]
pub(crate) struct StreamTracks {
    /// For each stream, its base track.
    pub(crate) of_stream: Vec<Option<u32>>,
    /// Tracks that traces number themselves.
    of_number: HashMap<(usize, i128), u32>,
    /// How many there are.
    count: u32,
    names: Arc<Mutex<NameTable>>,
}

impl StreamTracks {
    /// Every stream is a track.
    pub(crate) fn each_its_own(timeline: &Timeline, streams: usize) -> StreamTracks {
        StreamTracks {
            of_stream: (0..streams as u32).map(Some).collect(),
            of_number: HashMap::new(),
            count: streams as u32,
            names: timeline.shared_names(),
        }
    }

    pub(crate) fn new(timeline: &Timeline, source: &Source<'_>) -> StreamTracks {
        let mut of_stream = vec![None; source.streams.len()];
        let mut of_number = HashMap::new();
        let tracks = timeline.tracks();
        for (at, track) in tracks.iter().enumerate() {
            match track.number() {
                Some(number) => drop(of_number.insert((track.who(source).0, number), at as u32)),
                None => track.streams().iter().for_each(|stream| of_stream[*stream] = Some(at as u32)),
            }
        }
        StreamTracks { of_stream, of_number, count: tracks.len() as u32, names: timeline.shared_names() }
    }
}

/// Not looked up yet, and different for each event.
const UNKNOWN: u32 = u32::MAX;
const OWN: u32 = u32::MAX - 1;

/// Tells of which kind an event is.
pub(crate) struct KindReader {
    pub(crate) tracks: StreamTracks,
    /// The kinds that were met.
    pub(crate) kinds: Vec<TrackKind>,
    /// Tracks that were met and had not been counted.
    pub(crate) new_tracks: Vec<Track>,
    /// For each stream and class, the kind of its events.
    of_class: Vec<Vec<u32>>,
    of_pair: HashMap<(u32, u32), u32>,
    reader: TrackReader,
    name: Vec<u8>,
}

impl KindReader {
    /// A reader that knows some kinds.
    pub(crate) fn new(
        session: &Session,
        streams: &[SelectedStream],
        tracks: StreamTracks,
        kinds: Vec<TrackKind>,
    ) -> KindReader {
        let classes = |of: &SelectedStream| vec![UNKNOWN; session.traces[of.trace].schema.events().len()];
        KindReader {
            of_class: streams.iter().map(classes).collect(),
            of_pair: kinds.iter().zip(0..).map(|(kind, at)| ((kind.track, kind.name), at)).collect(),
            reader: TrackReader::new(session),
            name: Vec::new(),
            new_tracks: Vec::new(),
            tracks,
            kinds,
        }
    }

    /// The kind of an event of a stream, by its number.
    #[inline]
    pub(crate) fn kind(&mut self, stream: usize, event: &Event<'_>) -> u32 {
        let class = event.raw.class().0 as usize;
        match self.of_class[stream].get(class).copied().unwrap_or(OWN) {
            known @ (UNKNOWN | OWN) => {
                let kind = self.look_up(stream, event);
                if known == UNKNOWN {
                    let is_own = self.tracks.of_stream[stream].is_none() || event.class().name.is_none();
                    self.of_class[stream][class] = if is_own { OWN } else { kind };
                }
                kind
            }
            kind => kind,
        }
    }

    #[cold]
    fn look_up(&mut self, stream: usize, event: &Event<'_>) -> u32 {
        let track = match self.tracks.of_stream[stream] {
            Some(track) => track,
            None => self.own_track(event),
        };
        let name = event.name(&mut self.name).unwrap_or_default();
        // A panic leaves the names consistent.
        let name = self.tracks.names.lock().unwrap_or_else(PoisonError::into_inner).number(name);
        *self.of_pair.entry((track, name)).or_insert_with(|| {
            self.kinds.push(TrackKind { track, name });
            self.kinds.len() as u32 - 1
        })
    }

    /// The track of an event whose trace numbers tracks itself.
    fn own_track(&mut self, event: &Event<'_>) -> u32 {
        let number = self.reader.track(event).unwrap_or(-1);
        let Self { tracks, new_tracks, reader, .. } = self;
        *tracks.of_number.entry((event.trace, number)).or_insert_with(|| {
            let name = reader.name(number, event);
            new_tracks.push(Track { trace: event.trace, stream: None, name, events: 0, untimed: 0, range: None });
            tracks.count += 1;
            tracks.count - 1
        })
    }
}
