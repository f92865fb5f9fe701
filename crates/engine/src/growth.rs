//! Traces that still grow, read in rounds: each round opens what is there as an ordinary session, and merges what is certain.
//!
//! A session does not grow, nor does a schema. Instead a new session is made of what is there now, and every stream of it is
//! read on from the place where the session before stopped. So everything that a session can do is there in every round; a
//! class that was declared meanwhile is simply known. What may still be preceded by events that are not there yet waits for
//! the next round: see [`StreamEnd`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracemill_format::{OpenTrace, Storage, Stream};
use tracemill_model::clock::TimeKey;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::StreamClassId;

use crate::item::ResumePoint;
use crate::merge::Merger;
pub use crate::merge::StreamEnd;
use crate::selection::SelectedStream;
use crate::session::Session;
use crate::timeline::{self, Selection};

/// Traces that grow: gives what is there, again and again.
pub trait GrowingSource {
    /// Waits until there is something new, at most this long; `None` when there is nothing new.
    ///
    /// # Errors
    /// When there is nothing to read, and never will be.
    fn next_round(&mut self, wait: Duration) -> Result<Option<Round>>;

    /// How far a stream of the session that was made of the last round is complete.
    fn end_of(&self, session: &Session, trace: usize, stream: &Stream) -> StreamEnd;

    /// The time from which on no event of that session is certain, whatever its streams say.
    fn limit(&self, _session: &Session) -> TimeKey {
        TimeKey::MAX
    }

    /// Looks at the session that was made of the last round, and may leave something out of it; gives what is odd about it,
    /// each once.
    fn look_at(&mut self, _session: &mut Session, _places: &mut GrowthPlaces) -> Vec<Error> {
        Vec::new()
    }

    /// May streams end in the middle of something, as it is being written?
    fn may_be_cut(&self) -> bool {
        false
    }

    /// An error or warning of that session, with its place in the whole of what has come.
    fn placed(&self, error: Error) -> Error {
        error
    }

    /// Errors, and warnings, of where the traces come from, each once.
    fn take_faults(&mut self) -> (Vec<Error>, Vec<Error>) {
        Default::default()
    }

    /// Ends growing: what is there now is all that is read.
    fn leave(&mut self);

    /// Lets go of what was read.
    fn release(&mut self, _places: &mut GrowthPlaces) {}
}

/// The part of traces that grow which is there.
pub struct Round {
    /// Where their files come from.
    pub storage: Arc<dyn Storage>,
    /// Their folders or files.
    pub inputs: Vec<PathBuf>,
    /// Is nothing more to come?
    pub is_last: bool,
}

/// How far the streams of traces that grow were read.
#[derive(Default)]
pub struct GrowthPlaces {
    /// By the path of the trace and the name of the stream.
    points: HashMap<PlaceKey, GrowthPoint>,
    /// Under which path and name a stream was read last: its files may be moved while they are followed.
    moved: HashMap<StreamIdentity, PlaceKey>,
    /// May the last packet of a stream have more events later?
    grows_in_place: bool,
}

/// The path of a trace, and the name of a stream.
type PlaceKey = (PathBuf, String);

/// The UUID of a trace, and the class and id of a stream: what makes files of several folders one stream.
type StreamIdentity = ([u8; 16], StreamClassId, u64);

/// Where a stream is read on.
#[derive(Clone, Copy)]
struct GrowthPoint {
    at: ResumePoint,
    /// The sequence number of its packet: packets before it may be gone.
    sequence: Option<u64>,
}

impl GrowthPoint {
    /// The place in the stream as it is now.
    fn in_stream(self, stream: &Stream) -> ResumePoint {
        let GrowthPoint { mut at, sequence } = self;
        let own = |packet: usize| stream.packets.get(packet).and_then(|packet| packet.sequence);
        let Some(wanted) = sequence.filter(|wanted| own(at.place.packet).is_some_and(|own| own != *wanted)) else {
            return at;
        };
        let found = (0..stream.packets.len()).find(|&packet| own(packet).is_some_and(|own| own >= wanted));
        at.place.packet = found.unwrap_or(stream.packets.len());
        if found.and_then(own) != sequence {
            // It was written over.
            (at.place.before, at.is_open) = (0, false);
        }
        at
    }
}

impl GrowthPlaces {
    /// Places before the first event. With `grows_in_place`, the last packet of a stream may have more events in a later round.
    pub fn new(grows_in_place: bool) -> GrowthPlaces {
        GrowthPlaces { points: HashMap::new(), moved: HashMap::new(), grows_in_place }
    }

    /// A merger of the events of a session that no earlier round gave, as far as they are certain.
    pub fn merger(
        &self,
        session: &Session,
        streams: &[SelectedStream],
        selection: &Selection,
        source: &dyn GrowingSource,
    ) -> Merger {
        let known = |of: &SelectedStream| {
            let key = self.last_key(&session.traces[of.trace], &of.stream);
            Some(self.points.get(&key)?.in_stream(&of.stream))
        };
        let points: Vec<_> = streams.iter().map(known).collect();
        let ends = streams.iter().map(|of| source.end_of(session, of.trace, &of.stream)).collect();
        let merger = timeline::merger_of_grown(session, streams, selection, &points);
        merger.with_ends(ends, source.limit(session))
    }

    /// Keeps the places at which a merger of [`GrowthPlaces::merger`] has stopped.
    pub fn keep(&mut self, session: &Session, streams: &[SelectedStream], merger: &mut Merger) {
        let points = merger.resume_points(self.grows_in_place);
        for (of, point) in streams.iter().zip(points) {
            // A stream of which nothing was read now stays where it was.
            if let Some(at) = point {
                let sequence = of.stream.packets.get(at.place.packet).and_then(|packet| packet.sequence);
                let (trace, point) = (&session.traces[of.trace], GrowthPoint { at, sequence });
                self.points.remove(&self.last_key(trace, &of.stream));
                if let Some(identity) = identity(trace, &of.stream) {
                    self.moved.insert(identity, key(trace, &of.stream));
                }
                self.points.insert(key(trace, &of.stream), point);
            }
        }
    }

    /// The key of a stream, or that which it had before its files were moved.
    fn last_key(&self, trace: &OpenTrace, stream: &Stream) -> PlaceKey {
        let own = key(trace, stream);
        match identity(trace, stream).and_then(|identity| self.moved.get(&identity)) {
            Some(last) if !self.points.contains_key(&own) => last.clone(),
            _ => own,
        }
    }

    /// The number of the first packet of a stream that is still needed; `None` when none was read.
    pub fn first_needed(&self, trace: &Path, stream: &str) -> Option<usize> {
        self.points.get(&(trace.to_path_buf(), stream.to_string())).map(|point| point.at.place.packet)
    }

    /// Counts the packets of a stream without the first ones, which are there no more.
    pub fn drop_packets(&mut self, trace: &Path, stream: &str, count: usize) {
        if let Some(point) = self.points.get_mut(&(trace.to_path_buf(), stream.to_string())) {
            point.at.place.packet = point.at.place.packet.saturating_sub(count);
        }
    }

    /// Reads a stream from its beginning again: it is another one of the same name.
    pub fn forget(&mut self, trace: &Path, stream: &str) {
        self.points.remove(&(trace.to_path_buf(), stream.to_string()));
    }
}

fn key(trace: &OpenTrace, stream: &Stream) -> PlaceKey {
    (trace.path.clone(), stream.name.clone())
}

fn identity(trace: &OpenTrace, stream: &Stream) -> Option<StreamIdentity> {
    Some((trace.schema.uuid?, stream.class, stream.id?))
}
