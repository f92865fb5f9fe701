//! Events of which an index that was kept has no times and kinds: they are read again when somebody wants them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracemill_engine::merge::{Batch, Merger};
use tracemill_engine::selection::StreamOf;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::{Selection, merger, merger_from};

use crate::block::UNTIMED;
use crate::kinds::{Kind, KindReader, Tracks};
use crate::places::{BATCH, Places};
use crate::source::{Source, in_reach};
use crate::timeline::Timeline;

/// Readers that wait until somebody wants what is behind what they read last, at most.
const IDLE: usize = 4;
/// Bytes of events that a reader has ahead, about.
const AHEAD: usize = 4 << 20;

/// Reads events by their numbers.
pub(crate) struct Again {
    session: Arc<Session>,
    streams: Vec<StreamOf>,
    selection: Selection,
    origin: i128,
    places: Arc<Places>,
    tracks: Tracks,
    kinds: Vec<Kind>,
    idle: Mutex<Vec<Reader>>,
}

/// Reads on from one event to the next.
struct Reader {
    kinds: KindReader,
    merger: Merger,
    batch: Batch,
    /// The run of the batch that is being read, and the next event of it, counted from its first one.
    run: usize,
    at: u32,
    /// Number of the next event.
    next: usize,
}

impl Again {
    /// The events of a source, whose session this is, as a timeline has counted them: of these kinds, and readable from these
    /// places.
    pub(crate) fn new(
        session: &Arc<Session>,
        source: &Source<'_>,
        timeline: &Timeline,
        (places, kinds): (&Arc<Places>, &[Kind]),
    ) -> Again {
        Again {
            session: session.clone(),
            streams: source.streams.to_vec(),
            selection: Selection { jobs: 1, memory_bytes: AHEAD, ..source.selection.clone() },
            origin: timeline.origin,
            places: places.clone(),
            tracks: Tracks::new(timeline, source),
            kinds: kinds.to_vec(),
            idle: Mutex::default(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Reader>> {
        // Readers are whole when they are put there.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Times and kinds of some events from one number on. `None` when they are not there any more.
    pub(crate) fn read(&self, from: usize, count: usize) -> Option<(Vec<i64>, Vec<u32>)> {
        let mut reader = self.reader(from);
        let (mut times, mut kinds) = (Vec::with_capacity(count), Vec::with_capacity(count));
        while times.len() < count {
            let Some(run) = reader.batch.runs.get(reader.run) else {
                reader.batch = reader.merger.next_batch(BATCH)?;
                (reader.run, reader.at) = (0, 0);
                continue;
            };
            let (stream, ready) = &reader.batch.chunks[run.chunk as usize];
            let stream = stream.0 as usize;
            let first = run.from + reader.at;
            let behind = u32::try_from(from.saturating_sub(reader.next)).unwrap_or(u32::MAX).min(run.to - first);
            let wanted = ((run.to - first - behind) as usize).min(count - times.len()) as u32;
            for at in (first + behind..).take(wanted as usize) {
                let event = self.streams[stream].event(ready.chunk.event(at as usize));
                let time = event.ns.filter(|ns| in_reach(self.origin, *ns));
                times.push(time.map_or(UNTIMED, |ns| (ns - self.origin) as i64));
                kinds.push(reader.kinds.kind(stream, &event));
            }
            reader.next += (behind + wanted) as usize;
            reader.at += behind + wanted;
            if run.from + reader.at == run.to {
                (reader.run, reader.at) = (reader.run + 1, 0);
            }
        }
        // What was not there when the events were counted is not known.
        let is_known = reader.kinds.kinds.len() == self.kinds.len();
        let mut idle = self.idle();
        if is_known && idle.len() < IDLE {
            idle.push(reader);
        }
        is_known.then_some((times, kinds))
    }

    /// A reader that meets an event soon.
    fn reader(&self, event: usize) -> Reader {
        let mut idle = self.idle();
        let is_near = |reader: &Reader| reader.next <= event && event - reader.next < BATCH;
        if let Some(at) = idle.iter().position(is_near) {
            return idle.swap_remove(at);
        }
        let known = idle.pop();
        drop(idle);
        let (session, streams, selection) = (&self.session, &self.streams, &self.selection);
        let (merger, next) = match self.places.before(event) {
            Some((places, next)) => (merger_from(session, streams, selection, places), next),
            None => (merger(session, streams, selection), 0),
        };
        let new = || KindReader::new(session, streams, self.tracks.clone(), self.kinds.clone());
        let kinds = known.map_or_else(new, |reader| reader.kinds);
        Reader { kinds, merger, batch: Batch::default(), run: 0, at: 0, next }
    }

    /// Lets go of the reader: more is not wanted soon.
    pub(crate) fn rest(&self) {
        self.idle().clear();
    }
}
