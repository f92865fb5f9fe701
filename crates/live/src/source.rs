//! A live session as traces that grow.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracemill_engine::growth::{GrowingSource, GrowthPlaces, Round, StreamEnd};
use tracemill_engine::session::Session;
use tracemill_format::Stream;
use tracemill_model::clock::TimeKey;
use tracemill_model::error::{Error, Result};

use crate::client::LiveClient;
use crate::feed::{Feed, FeedState, FeedStream};
use crate::memory::MemoryStorage;
use crate::protocol::LiveIndex;
use crate::viewer::{ViewerOptions, view};

/// The shortest time between two rounds.
const ROUND: Duration = Duration::from_millis(20);
/// How long a declaration that came in part is waited for.
const CUT_WAIT: Duration = Duration::from_secs(30);
/// How long leaving a session may take.
const LEAVE: Duration = Duration::from_secs(2);

/// A live session, viewed by a thread.
pub struct LiveSource {
    feed: Arc<Feed>,
    thread: Option<JoinHandle<()>>,
    root: PathBuf,
    patience: Patience,
    last: Option<Instant>,
    seen: u64,
    round: RoundState,
    /// Streams that are unknown and not waited for any more.
    passed_over: HashSet<u64>,
    /// Was the failure of the connection reported?
    is_failure_told: bool,
}

/// How long a stream that nothing is known of holds the others up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// A number of live timers.
    Timers(u32),
    /// So long; for ever when it is zero.
    Time(Duration),
}

/// The round that was handed over last.
#[derive(Default)]
struct RoundState {
    /// By the path of its file.
    streams: HashMap<PathBuf, RoundStream>,
    /// How far streams without a packet are known, by the folder of their trace; `None` when they are not known at all.
    without_packets: Vec<(PathBuf, Option<u64>)>,
}

struct RoundStream {
    id: u64,
    end: StreamEnd,
    /// Number of the first of its packets, and what the server says of each.
    first: usize,
    /// Its offset in the whole stream.
    first_byte: u64,
    indexes: Vec<LiveIndex>,
    /// Packets that were compared with that.
    checked: usize,
    /// The trace and the name of the stream in the session.
    of: Option<(PathBuf, String)>,
}

impl LiveSource {
    /// Connects to a relay daemon and views a session of it.
    ///
    /// # Errors
    /// When it does not answer as one.
    pub fn open(options: ViewerOptions, patience: Patience) -> Result<LiveSource> {
        let client = LiveClient::connect(&options.url, options.timeout)?;
        let root = PathBuf::from(options.url.to_string());
        let feed = Arc::new(Feed::default());
        let thread = std::thread::Builder::new().name("live".into()).spawn({
            let feed = feed.clone();
            move || view(client, &options, &feed)
        });
        let thread = thread.map_err(|error| Error::io("start a thread", &root, &error))?;
        Ok(LiveSource {
            feed,
            thread: Some(thread),
            root,
            patience,
            last: None,
            seen: 0,
            round: RoundState::default(),
            passed_over: HashSet::new(),
            is_failure_told: false,
        })
    }

    /// Is a session attached, so that something may come?
    pub fn is_attached(&self) -> bool {
        self.feed.lock().is_attached
    }

    /// Has all come that the relay daemon had when its streams were asked for it?
    pub fn is_caught_up(&self) -> bool {
        self.feed.lock().is_caught_up()
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Since when may a stream be passed over that is unknown?
    fn patience_of(&self, state: &FeedState) -> Option<Duration> {
        match self.patience {
            Patience::Time(time) if time.is_zero() => None,
            Patience::Time(time) => Some(time),
            Patience::Timers(0) => None,
            Patience::Timers(count) => Some(state.timer * count),
        }
    }
}

impl Drop for LiveSource {
    fn drop(&mut self) {
        self.feed.ask(|state| state.is_stopped = true);
    }
}

impl GrowingSource for LiveSource {
    fn leave(&mut self) {
        self.feed.ask(|state| state.is_stopped = true);
        let begin = Instant::now();
        while begin.elapsed() < LEAVE && self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.feed.change(|state| state.is_over = true);
    }

    fn take_faults(&mut self) -> (Vec<Error>, Vec<Error>) {
        let mut state = self.feed.lock();
        let mut faults = std::mem::take(&mut state.faults);
        let failure = if self.is_failure_told { None } else { state.failure.clone() };
        self.is_failure_told |= failure.is_some();
        faults.extend(failure);
        (faults, std::mem::take(&mut state.warnings))
    }

    fn placed(&self, error: Error) -> Error {
        let stream = error.place().file.as_ref().and_then(|file| self.round.streams.get(file));
        match stream {
            Some(stream) => error.with_place_moved(stream.first_byte, stream.first as u64),
            None => error,
        }
    }

    fn next_round(&mut self, wait: Duration) -> Result<Option<Round>> {
        if let Some(left) = self.last.and_then(|last| ROUND.checked_sub(last.elapsed())) {
            std::thread::sleep(left.min(wait));
        }
        let feed = self.feed.clone();
        let mut state = feed.wait_for_change(self.seen, wait);
        let patience = self.patience_of(&state);
        let is_passed = |stream: &FeedStream| {
            let is_late = |since: Instant| patience.is_some_and(|patience| since.elapsed() >= patience);
            !stream.is_over && stream.unknown_since.is_some_and(is_late)
        };
        let passed_over: HashSet<u64> =
            state.streams.iter().filter(|(_, stream)| is_passed(stream)).map(|(id, _)| *id).collect();
        // Patience ends without a change.
        if state.version == self.seen && !state.is_over && passed_over == self.passed_over {
            return Ok(None);
        }
        let is_cut = state.traces.values().any(|trace| trace.cut_since.is_some_and(|since| since.elapsed() < CUT_WAIT));
        if is_cut && !state.is_over {
            self.seen = state.version;
            return Ok(None);
        }
        let mut storage = MemoryStorage::default();
        let mut round = RoundState::default();
        let mut files = Vec::new();
        for trace in state.traces.values().filter(|trace| trace.whole > 0 || !trace.metadata.is_empty()) {
            let whole = if state.is_over { trace.metadata.len() } else { trace.whole };
            let bytes = if whole == trace.metadata.len() {
                trace.metadata.clone()
            } else {
                Arc::new(trace.metadata[..whole].to_vec())
            };
            storage.add(self.root.join(&trace.name).join("metadata"), bytes);
        }
        for (&id, stream) in &state.streams {
            let Some(trace) = state.traces.get(&stream.trace) else { continue };
            let folder = self.root.join(&trace.name);
            let end = match stream.end {
                _ if stream.is_over || passed_over.contains(&id) || state.is_over => StreamEnd::Over,
                end => StreamEnd::Until(end.unwrap_or(0)),
            };
            if stream.packets.is_empty() {
                if end != StreamEnd::Over {
                    round.without_packets.push((folder, stream.end));
                }
                continue;
            }
            let path = folder.join(&stream.name);
            let known = self.round.streams.remove(&path);
            let (checked, of) = known.map_or((0, None), |known| (known.checked, known.of));
            let indexes = stream.packets.iter().map(|packet| packet.index).collect();
            files.push((path.clone(), stream.packets.iter().cloned().collect::<Vec<_>>()));
            round.streams.insert(
                path,
                RoundStream { id, end, first: stream.dropped, first_byte: stream.dropped_bytes, indexes, checked, of },
            );
        }
        self.seen = state.version;
        let is_last = state.is_over;
        for id in passed_over.difference(&self.passed_over) {
            let name = state.streams.get(id).map_or(String::new(), |stream| stream.name.clone());
            let message =
                format!("stream {id} (`{name}`): nothing is known of it: the others do not wait for it any more");
            let warning = Error::inconsistent(message).in_file(&self.root);
            let help = "its events may come out of order; --patience says how long it is waited for";
            state.warnings.push(warning.with_help(help));
        }
        drop(state);
        self.passed_over = passed_over;
        for (path, packets) in files {
            let len = packets.iter().map(|packet| packet.bytes.len()).sum();
            let mut bytes = Vec::with_capacity(len);
            packets.iter().for_each(|packet| bytes.extend_from_slice(&packet.bytes));
            storage.add(path, Arc::new(bytes));
        }
        self.round = round;
        self.last = Some(Instant::now());
        Ok(Some(Round { storage: Arc::new(storage), inputs: vec![self.root.clone()], is_last }))
    }

    fn end_of(&self, _session: &Session, _trace: usize, stream: &Stream) -> StreamEnd {
        let file = stream.files.first().and_then(|file| self.round.streams.get(&file.path));
        file.map_or(StreamEnd::Over, |stream| stream.end)
    }

    fn limit(&self, session: &Session) -> TimeKey {
        let mut limit = TimeKey::MAX;
        for (folder, end) in &self.round.without_packets {
            let Some(at) = session.traces.iter().position(|trace| trace.path == *folder) else {
                // Its metadata cannot be read, or are not here yet.
                let is_known = session
                    .failures
                    .iter()
                    .any(|failure| failure.place().file.as_ref().is_some_and(|file| file.starts_with(folder)));
                if !is_known && end.is_none() {
                    return TimeKey::MIN;
                }
                continue;
            };
            let trace = &session.traces[at];
            let class = trace.schema.streams().iter().position(|class| class.default_clock.is_some());
            let clock =
                class.and_then(|class| session.clock_map(at, tracemill_model::schema::StreamClassId(class as u32)));
            match (end, clock) {
                (None, _) => return TimeKey::MIN,
                (Some(end), Some(clock)) => limit = limit.min(clock.key(*end)),
                (Some(_), None) => {}
            }
        }
        limit
    }

    fn look_at(&mut self, session: &mut Session, _places: &mut GrowthPlaces) -> Vec<Error> {
        let mut faults = Vec::new();
        for trace in &session.traces {
            for stream in &trace.streams {
                let Some(path) = stream.files.first().map(|file| &file.path) else { continue };
                let Some(known) = self.round.streams.get_mut(path) else { continue };
                known.of = Some((trace.path.clone(), stream.name.clone()));
                let from = known.checked.max(known.first);
                for at in from - known.first..known.indexes.len() {
                    let (index, packet) = (&known.indexes[at], stream.packets.get(at));
                    let Some(packet) = packet else { break };
                    let says = [
                        ("has bits", index.packet_bits, Some(packet.total_bits)),
                        ("begins at cycles", index.begin, packet.begin_cycles),
                        ("ends at cycles", index.end, packet.end_cycles),
                    ];
                    let other = says.iter().find(|(_, said, own)| own.is_some_and(|own| own != *said));
                    if let Some((what, said, Some(own))) = other {
                        let message =
                            format!("the relay daemon says that the packet {what} {said}, the packet says {own}");
                        let fault = Error::inconsistent(message).in_file(path).in_packet(at as u64);
                        faults.push(fault.with_help("the packet is read as it is"));
                    }
                }
                known.checked = known.first + known.indexes.len();
            }
        }
        faults
    }

    fn release(&mut self, places: &mut GrowthPlaces) {
        let mut drops = Vec::new();
        for stream in self.round.streams.values() {
            let Some((trace, name)) = &stream.of else { continue };
            // The packet before the next one says what is missing between both.
            let Some(count) = places.first_needed(trace, name).and_then(|first| first.checked_sub(1)) else { continue };
            let count = count.min(stream.indexes.len().saturating_sub(1));
            if count > 0 {
                places.drop_packets(trace, name, count);
                drops.push((stream.id, count));
            }
        }
        self.feed.ask(|state| {
            for (id, count) in drops {
                let Some(stream) = state.streams.get_mut(&id) else { continue };
                let count = count.min(stream.packets.len());
                let bytes: usize = stream.packets.drain(..count).map(|packet| packet.bytes.len()).sum();
                stream.dropped += count;
                stream.dropped_bytes += bytes as u64;
                state.bytes -= bytes;
            }
        });
    }
}
