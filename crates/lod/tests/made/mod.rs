//! Traces that tests make: CTF 1.8, a file for each stream.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracemill_engine::selection::{SelectedStream, streams};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_formats::FORMATS;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := stamp_t;
stream {
    packet.context := struct {
        stamp_t timestamp_begin; stamp_t timestamp_end; uint64_t content_size; uint64_t packet_size;
    };
    event.header := struct { uint8_t id; stamp_t timestamp; };
    event.context := struct { int32_t _vtid; };
};
event { id = 0; name = "lttng_ust_cyg_profile:func_entry"; fields := struct { uint64_t _addr; }; };
event { id = 1; name = "lttng_ust_cyg_profile:func_exit"; fields := struct { uint64_t _addr; }; };
event { id = 2; name = "tick"; };
event { id = 3; name = "tock"; };
event { id = 4; name = "tack"; };
event { id = 5; name = "x:brew_entry"; };
event { id = 6; name = "x:brew_exit"; };
event { id = 7; name = "shift_begin"; };
event { id = 8; name = "shift_end"; };
"#;

/// A function is entered, and left.
pub(crate) const ENTRY: u8 = 0;
/// See [`ENTRY`].
pub(crate) const EXIT: u8 = 1;

/// Pairs that only their names make calls: the entry to something and its exit, the begin of something and its end.
pub(crate) const PAIRS: [(u8, u8); 2] = [(5, 6), (7, 8)];

/// An event: its class, its time and its thread.
pub(crate) type Event = (u8, u64, i32);

/// A packet: its events, and from when to when it says to be.
pub(crate) struct Packet {
    /// Its events.
    pub(crate) events: Vec<Event>,
    /// The times in its context.
    pub(crate) says: (u64, u64),
}

impl Packet {
    /// A packet that says of its events what is so.
    pub(crate) fn new(events: Vec<Event>) -> Packet {
        let times = || events.iter().map(|(_, time, _)| *time);
        let says = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        Packet { events, says }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (id, time, thread) in &self.events {
            body.push(*id);
            body.extend(time.to_le_bytes());
            body.extend(thread.to_le_bytes());
            if *id <= EXIT {
                body.extend(0x1000u64.to_le_bytes());
            }
        }
        let bits = (body.len() as u64 + 32) * 8;
        let mut bytes: Vec<u8> =
            [self.says.0, self.says.1, bits, bits].into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(body);
        bytes
    }
}

/// A folder that goes when the test ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tracemill-lod-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// Writes a trace that is one file.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// Writes a trace of some streams.
    pub(crate) fn trace(&self, name: &str, streams: &[Vec<Packet>]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("metadata"), METADATA).expect("a file");
        for (at, packets) in streams.iter().enumerate() {
            let bytes: Vec<u8> = packets.iter().flat_map(Packet::bytes).collect();
            std::fs::write(path.join(format!("stream_{at}")), bytes).expect("a file");
        }
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens traces as one session.
pub(crate) fn open(paths: &[PathBuf]) -> (Arc<Session>, Vec<SelectedStream>) {
    let session = Session::open(&FileSystem, paths, &OpenOptions::new(FORMATS)).expect("the options are right");
    assert!(session.failures.is_empty(), "{:?}", session.failures);
    let streams = streams(&session, &[]).expect("all streams");
    (Arc::new(session), streams)
}

/// The path of a trace of the demo.
pub(crate) fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name)
}

/// Streams in which everything is odd, and which are many packets long.
pub(crate) fn odd_streams() -> Vec<Vec<Packet>> {
    // A small generator: every run makes the same.
    let mut state = 3u64;
    let mut below = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let kinds = |at: u64| (2 + at % 7 % 3) as u8;
    let cut = |times: Vec<u64>, size: usize| -> Vec<Packet> {
        let events = |times: &[u64]| times.iter().map(|time| (kinds(time / 3), *time, 1)).collect();
        times.chunks(size).map(|times| Packet::new(events(times))).collect()
    };
    let start = 5_000_000_000u64;
    let dense: Vec<u64> = (0..3000).map(|at| start + at).chain((0..500).map(|_| start + 4000)).collect();
    let (mut burst, mut time) = (Vec::new(), start);
    for at in 0..6000 {
        time += if at % 1500 == 0 { 1 << 33 } else { below(300) };
        burst.push(time);
    }
    let shaken: Vec<u64> = burst.iter().map(|time| time - below(20_000)).collect();
    let mut moved = cut(burst.iter().map(|time| time + 7).collect(), 400);
    moved.swap(0, 3);
    moved.swap(5, 12);
    let lone = vec![start + 11, start + (1 << 35)];
    vec![cut(dense, 1000), cut(burst, 700), cut(shaken, 700), moved, vec![Packet::new(Vec::new())], cut(lone, 1)]
}
