//! Packets and metadata that have come from a relay daemon and were not read yet: the thread of the connection fills it, reading empties it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracemill_model::error::Error;

use crate::metadata;
use crate::protocol::LiveIndex;

/// Packets and metadata that have come so far, shared between threads.
#[derive(Default)]
pub(crate) struct Feed {
    state: Mutex<FeedState>,
    changed: Condvar,
    /// Wakes the thread of the connection.
    asked: Condvar,
}

/// Packets and metadata that have come so far.
#[derive(Default)]
pub(crate) struct FeedState {
    /// By the server's numbers.
    pub(crate) traces: BTreeMap<u64, FeedTrace>,
    /// By the server's numbers.
    pub(crate) streams: BTreeMap<u64, FeedStream>,
    /// Grows with everything that changes.
    pub(crate) version: u64,
    /// Bytes of packets that are held.
    pub(crate) bytes: usize,
    /// The end: no more comes.
    pub(crate) is_over: bool,
    /// The reader wants nothing more.
    pub(crate) is_stopped: bool,
    /// Why the connection ended before the session did.
    pub(crate) failure: Option<Error>,
    /// Errors and warnings so far that were not taken.
    pub(crate) faults: Vec<Error>,
    pub(crate) warnings: Vec<Error>,
    /// How often the tracer sends what it has.
    pub(crate) timer: Duration,
    /// Attached to a session.
    pub(crate) is_attached: bool,
    names: HashSet<String>,
}

/// A trace: metadata, and streams.
pub(crate) struct FeedTrace {
    /// Its folder.
    pub(crate) name: String,
    pub(crate) metadata: Arc<Vec<u8>>,
    /// Bytes of the metadata that are whole declarations.
    pub(crate) whole: usize,
    /// Since when some are not.
    pub(crate) cut_since: Option<Instant>,
}

/// A stream that is no metadata.
pub(crate) struct FeedStream {
    pub(crate) trace: u64,
    /// Its file.
    pub(crate) name: String,
    /// Packets that came and are needed.
    pub(crate) packets: VecDeque<FeedPacket>,
    /// Number of the first of them, counted from the first that came.
    pub(crate) dropped: usize,
    /// Bytes of those before it.
    pub(crate) dropped_bytes: u64,
    /// No event before this clock value comes any more.
    pub(crate) end: Option<u64>,
    /// Since when the server does not know how far it is.
    pub(crate) unknown_since: Option<Instant>,
    /// The end: no more comes.
    pub(crate) is_over: bool,
    /// Has the server said that it has no more for now?
    pub(crate) is_caught_up: bool,
}

/// A packet as it came, and what was said about it.
#[derive(Clone)]
pub(crate) struct FeedPacket {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) index: LiveIndex,
}

impl FeedTrace {
    /// Has a declaration come in part?
    pub(crate) fn is_cut(&self) -> bool {
        self.whole < self.metadata.len()
    }
}

impl Feed {
    /// All that there is.
    pub(crate) fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is more than at `version`, or the time is over.
    pub(crate) fn wait_for_change(&self, version: u64, wait: Duration) -> MutexGuard<'_, FeedState> {
        let is_same = |state: &mut FeedState| state.version == version && !state.is_over;
        let waited = self.changed.wait_timeout_while(self.lock(), wait, is_same);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Changes what there is, and wakes who waits for that.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut FeedState) -> T) -> T {
        let mut state = self.lock();
        state.version += 1;
        let changed = change(&mut state);
        drop(state);
        self.changed.notify_all();
        changed
    }

    /// Tells the thread of the connection to leave the session, or that there is room again.
    pub(crate) fn ask(&self, change: impl FnOnce(&mut FeedState)) {
        change(&mut self.lock());
        self.asked.notify_all();
    }

    /// Waits until something is asked of the thread of the connection, at most this long. `true` when it should leave.
    pub(crate) fn wait_to_ask(&self, wait: Duration) -> bool {
        let state = self.lock();
        if state.is_stopped || wait.is_zero() {
            return state.is_stopped;
        }
        self.asked.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0.is_stopped
    }
}

impl FeedState {
    /// Adds a trace under a name of our own: what the server calls it is only a text.
    pub(crate) fn add_trace(&mut self, id: u64, path: &str) {
        let name = self.own_name("", path, &format!("trace-{id}"));
        let trace = FeedTrace { name, metadata: Arc::default(), whole: 0, cut_since: None };
        self.traces.entry(id).or_insert(trace);
    }

    /// Adds a stream.
    pub(crate) fn add_stream(&mut self, id: u64, trace: u64, channel: &str) {
        let own = self.traces.get(&trace).map_or_else(String::new, |trace| format!("{}/", trace.name));
        let name = self.own_name(&own, channel, &format!("stream-{id}"));
        let stream = FeedStream {
            trace,
            name,
            packets: VecDeque::new(),
            dropped: 0,
            dropped_bytes: 0,
            end: None,
            unknown_since: None,
            is_over: false,
            is_caught_up: false,
        };
        self.streams.entry(id).or_insert(stream);
    }

    /// A name for a file: letters, digits, `-`, `_` and `.`; another one when it is taken.
    fn own_name(&mut self, before: &str, said: &str, other: &str) -> String {
        let part = |part: &str| -> String {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            part.chars().take(100).map(|c| if is_plain(c) { c } else { '_' }).collect()
        };
        let parts = said.split('/').filter(|part| !part.is_empty()).take(16).map(part);
        let parts: Vec<String> =
            parts.map(|part| if part.starts_with('.') { format!("_{part}") } else { part }).collect();
        // Traces may be in folders of folders, streams are files of one; and one file is the metadata.
        let joined = if before.is_empty() { parts.join("/") } else { parts.join("_") };
        let is_taken = joined.is_empty() || joined == "metadata" || joined == "index";
        let name = match is_taken || !self.names.insert(format!("{before}{joined}")) {
            false => joined,
            true if joined.is_empty() => other.to_string(),
            true => format!("{joined}-{other}"),
        };
        self.names.insert(format!("{before}{name}"));
        name
    }

    pub(crate) fn add_metadata(&mut self, trace: u64, bytes: &[u8]) {
        let Some(trace) = self.traces.get_mut(&trace) else { return };
        Arc::make_mut(&mut trace.metadata).extend_from_slice(bytes);
        trace.whole = metadata::whole_len(&trace.metadata);
        trace.cut_since = trace.is_cut().then(|| trace.cut_since.unwrap_or_else(Instant::now));
    }

    pub(crate) fn add_packet(&mut self, stream: u64, packet: FeedPacket) {
        let Some(stream) = self.streams.get_mut(&stream) else { return };
        self.bytes += packet.bytes.len();
        stream.end = stream.end.max(Some(packet.index.end));
        stream.unknown_since = None;
        stream.packets.push_back(packet);
    }

    /// No event was recorded in a stream until then.
    pub(crate) fn quiet_until(&mut self, stream: u64, end: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.end = stream.end.max(Some(end));
            stream.unknown_since = None;
            stream.is_caught_up = true;
        }
    }

    /// The server does not know how far a stream is.
    pub(crate) fn is_unknown(&mut self, stream: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.unknown_since.get_or_insert_with(Instant::now);
            stream.is_caught_up = true;
        }
    }

    pub(crate) fn end_stream(&mut self, stream: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.is_over = true;
        }
    }

    /// Is all here that the server had when its streams were asked?
    pub(crate) fn is_caught_up(&self) -> bool {
        let is_read = |stream: &FeedStream| {
            let metadata = self.traces.get(&stream.trace);
            stream.is_over || stream.is_caught_up && metadata.is_some_and(|of| of.whole > 0 && !of.is_cut())
        };
        self.is_attached && self.streams.values().all(is_read)
    }

    /// May a packet of this stream be asked for, when so many bytes may be held? One that has none holds the others up.
    pub(crate) fn has_room(&self, stream: u64, memory: usize) -> bool {
        self.bytes < memory || self.streams.get(&stream).is_some_and(|stream| stream.packets.len() < 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_our_own() {
        let mut state = FeedState::default();
        state.add_trace(1, "ust/uid/1000/64-bit");
        state.add_trace(2, "ust/uid/1000/64-bit");
        state.add_trace(3, "../../etc/pass wd\u{1b}[31m");
        state.add_trace(4, "");
        let names: Vec<&str> = state.traces.values().map(|trace| trace.name.as_str()).collect();
        let expected = ["ust/uid/1000/64-bit", "ust/uid/1000/64-bit-trace-2", "_../_../etc/pass_wd__31m", "trace-4"];
        assert_eq!(names, expected);
        for (id, channel) in [(1, "c0_0"), (2, "c0_0"), (3, "metadata"), (4, "../x"), (5, ".")] {
            state.add_stream(id, 1, channel);
        }
        let names: Vec<&str> = state.streams.values().map(|stream| stream.name.as_str()).collect();
        assert_eq!(names, ["c0_0", "c0_0-stream-2", "metadata-stream-3", "_.._x", "_."]);
    }
}
