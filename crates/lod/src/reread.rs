//! Events of which an index that was kept has no times and kinds: they are read again when somebody wants them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_engine::walk::Walker;

use crate::block::UNTIMED;
use crate::checkpoints::{BATCH, Checkpoints};
use crate::kinds::{KindReader, StreamTracks, TrackKind};
use crate::source::{Source, in_reach};
use crate::timeline::Timeline;

/// Readers that wait until somebody wants what is after what they read last, at most.
const IDLE: usize = 4;
/// Bytes of events that a reader has ahead, about.
const AHEAD: usize = 4 << 20;

/// Reads events by their numbers.
pub(crate) struct EventRereader {
    session: Arc<Session>,
    streams: Arc<[SelectedStream]>,
    selection: Selection,
    origin: i128,
    places: Arc<Checkpoints>,
    tracks: StreamTracks,
    kinds: Vec<TrackKind>,
    idle: Mutex<Vec<NextReader>>,
}

/// Reads on from one event to the next.
struct NextReader {
    kinds: KindReader,
    walker: Walker<Arc<[SelectedStream]>>,
}

impl EventRereader {
    /// The events of a source, whose session this is, as a timeline has counted them: of these kinds, and readable from these
    /// places.
    pub(crate) fn new(
        session: &Arc<Session>,
        source: &Source<'_>,
        timeline: &Timeline,
        (places, kinds): (&Arc<Checkpoints>, &[TrackKind]),
    ) -> EventRereader {
        EventRereader {
            session: session.clone(),
            streams: source.streams.into(),
            selection: Selection { jobs: 1, memory_bytes: AHEAD, ..source.selection.clone() },
            origin: timeline.origin,
            places: places.clone(),
            tracks: StreamTracks::new(timeline, source),
            kinds: kinds.to_vec(),
            idle: Mutex::default(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<NextReader>> {
        // Readers are whole when they are put there.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Times and kinds of some events from one number on. `None` when they are not there any more.
    pub(crate) fn read(&self, from: usize, count: usize) -> Option<(Vec<i64>, Vec<u32>)> {
        let mut reader = self.reader(from);
        let (mut times, mut kinds) = (Vec::with_capacity(count), Vec::with_capacity(count));
        if !reader.walker.seek(from) {
            return None;
        }
        while times.len() < count {
            let position = reader.walker.next_event()?;
            let (stream, event) = reader.walker.event(position);
            let time = event.ns.filter(|ns| in_reach(self.origin, *ns));
            times.push(time.map_or(UNTIMED, |ns| (ns - self.origin) as i64));
            kinds.push(reader.kinds.kind(stream, &event));
        }
        // A kind that was not there when the events were counted is unknown.
        let is_known = reader.kinds.kinds.len() == self.kinds.len();
        let mut idle = self.idle();
        if is_known && idle.len() < IDLE {
            idle.push(reader);
        }
        is_known.then_some((times, kinds))
    }

    /// A reader that meets an event soon.
    fn reader(&self, event: usize) -> NextReader {
        let mut idle = self.idle();
        let is_near = |reader: &NextReader| {
            let next = reader.walker.number();
            next <= event && event - next < BATCH
        };
        if let Some(at) = idle.iter().position(is_near) {
            return idle.swap_remove(at);
        }
        let known = idle.pop();
        drop(idle);
        let (session, streams, selection) = (&self.session, &self.streams, &self.selection);
        let walker = Walker::from_checkpoint(session, streams.clone(), selection, None, self.places.before(event));
        let new = || KindReader::new(session, streams, self.tracks.clone(), self.kinds.clone());
        let kinds = known.map_or_else(new, |reader| reader.kinds);
        NextReader { kinds, walker }
    }

    /// Lets go of the reader: more is not wanted soon.
    pub(crate) fn release(&self) {
        self.idle().clear();
    }
}
