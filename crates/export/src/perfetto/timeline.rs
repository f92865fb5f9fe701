//! The tracks that the file announces.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::open_calls::OpenCalls;
use tracemill_format::target::Source;

use super::packets::PacketFile;
use crate::tracks::{ExportTracks, Track, WatchedNumber};

/// Tracks; events of further threads stand on their streams.
const MAX_TRACKS: usize = 1 << 16;
/// Slices that may be open at once on a track; deeper ones are instants.
pub(super) const MAX_DEPTH: usize = 1 << 14;

/// A track that is announced.
pub(super) struct Announced {
    pub(super) uuid: u64,
    process: Option<i64>,
    name: Vec<u8>,
    /// The stream of its first event.
    stream: usize,
    /// Is something open that ends when another thread runs?
    pub(super) is_running: bool,
    /// Hashes of the titles of the open slices.
    pub(super) open: OpenCalls<u64>,
    /// Time of its last event.
    pub(super) last_ns: u64,
}

/// The tracks of events, and those that the file has announced.
pub(super) struct Timeline {
    pub(super) packets: PacketFile,
    pub(super) tracks: ExportTracks,
    known: HashMap<Track, usize>,
    pub(super) list: Vec<Announced>,
    /// Counter tracks by track and name, and their last value.
    counters: HashMap<(usize, Arc<str>), (u64, Option<WatchedNumber>)>,
    /// The tracks of late, each at a place of its own where that is free: a hash for each event is a tenth of its cost.
    late: [Option<(Track, usize)>; LATE],
    of_traces: Vec<Option<u64>>,
    /// Processes that were announced: their tracks, and the streams of their first events.
    processes: HashMap<i64, (u64, usize)>,
    /// The track of each process and thread: later threads of the same numbers would be the same one.
    threads: HashMap<(i64, i64), u64>,
    pub(super) losses: Losses,
}

/// Tracks that are found without a hash, at most.
const LATE: usize = 64;

/// Do the fields of 32 bits of threads and processes hold a number?
fn is_small(id: i64) -> bool {
    i32::try_from(id).is_ok()
}

/// Where a track is kept that was met of late.
fn late_place(track: Track) -> usize {
    let (kind, number) = match track {
        Track::Thread(_, number, _) | Track::Own(_, number) => (0, number as usize),
        Track::Cpu(_, number) => (1, number as usize),
        Track::Running(_, number) => (2, number as usize),
        Track::Stream(number) | Track::Lane(number) => (3, number as usize),
    };
    number.wrapping_mul(4).wrapping_add(kind) % LATE
}

impl Timeline {
    pub(super) fn new(path: &OutPath, sources: &[Source]) -> Self {
        Timeline {
            packets: PacketFile::new(path),
            tracks: ExportTracks::new(sources),
            known: HashMap::new(),
            list: Vec::new(),
            counters: HashMap::new(),
            late: [None; LATE],
            of_traces: vec![None; sources.len()],
            processes: HashMap::new(),
            threads: HashMap::new(),
            losses: Losses::default(),
        }
    }

    /// The track of a trace, below which those stand that belong to no process.
    fn trace_track(&mut self, trace: usize) -> u64 {
        if let Some(uuid) = self.of_traces[trace] {
            return uuid;
        }
        let uuid = self.packets.uuid();
        self.of_traces[trace] = Some(uuid);
        let name = self.tracks.traces[trace].name.clone();
        self.packets.announce(uuid, None, name.as_bytes(), |_| {});
        uuid
    }

    /// The announced track on which the last event stands.
    #[inline]
    pub(super) fn track(&mut self, stream: usize, track: Track) -> usize {
        let place = late_place(track);
        let at = match self.late[place] {
            Some((late, at)) if late == track => at,
            _ => match self.known.get(&track) {
                Some(&at) => at,
                None => self.new_track(stream, track),
            },
        };
        self.late[place] = Some((track, at));
        // A thread may change its name, or get one when it has events already.
        if let Some(name) = self.tracks.new_name(stream, track, &self.list[at].name) {
            self.rename(stream, track, at, name);
        }
        at
    }

    /// All tracks in the order in which they were announced, with their last names.
    pub(super) fn finish(&mut self) -> Vec<(Track, usize)> {
        let mut tracks: Vec<(Track, usize)> = self.known.iter().map(|(track, at)| (*track, *at)).collect();
        tracks.sort_by_key(|(_, at)| *at);
        self.tracks.seen.name.clear();
        for &(track, at) in &tracks {
            let stream = self.list[at].stream;
            // To trace_processor a thread that is described after its end would be a new one.
            if matches!(track, Track::Thread(0, thread, _) if self.tracks.has_ended(thread)) {
                continue;
            }
            if let Some(name) = self.tracks.new_name(stream, track, &self.list[at].name) {
                self.rename(stream, track, at, name);
            }
        }
        if self.tracks.has_states() {
            self.name_processes(&tracks);
        }
        tracks
    }

    /// Announces processes with their last names.
    fn name_processes(&mut self, tracks: &[(Track, usize)]) {
        let mut processes: Vec<_> = self.processes.iter().map(|(process, of)| (*process, *of)).collect();
        processes.sort_unstable();
        for (process, (uuid, stream)) in processes {
            if self.tracks.has_ended(process) {
                continue;
            }
            let is_main = |track: Track| matches!(track, Track::Thread(0, thread, _) if thread == process);
            let main =
                tracks.iter().rev().find(|(track, _)| is_main(*track)).map(|(_, at)| self.list[*at].name.clone());
            self.describe_process(uuid, process, stream, main.as_deref(), true);
        }
    }

    #[cold]
    fn new_track(&mut self, stream: usize, mut track: Track) -> usize {
        if self.list.len() >= MAX_TRACKS && matches!(track, Track::Thread(..) | Track::Own(..) | Track::Lane(_)) {
            self.losses.add(Lost::MoreTracks(MAX_TRACKS), 1);
            track = Track::Stream(stream as u32);
            if let Some(&at) = self.known.get(&track) {
                return at;
            }
        }
        let uuid = self.packets.uuid();
        let process = self.tracks.process(stream, track);
        let name = self.tracks.name(stream, track).unwrap_or_default();
        let at = self.list.len();
        let open = OpenCalls::new(MAX_DEPTH);
        self.list.push(Announced { uuid, process, name, stream, is_running: false, open, last_ns: 0 });
        self.known.insert(track, at);
        self.describe(stream, track, at);
        at
    }

    #[cold]
    fn rename(&mut self, stream: usize, track: Track, at: usize, name: Vec<u8>) {
        self.list[at].name = name;
        self.describe(stream, track, at);
    }

    /// Describes a track.
    fn describe(&mut self, stream: usize, track: Track, at: usize) {
        let trace = self.tracks.streams[stream].trace;
        let Announced { uuid, process, name, .. } = &self.list[at];
        let (uuid, process, name) = (*uuid, *process, name.clone());
        match (track, process) {
            // Ids of threads and processes mean something on one machine only.
            (Track::Thread(0, thread, _), Some(process))
                if is_small(process)
                    && is_small(thread)
                    && *self.threads.entry((process, thread)).or_insert(uuid) == uuid =>
            {
                self.announce_process(stream, process, Some(name.as_slice()).filter(|_| thread == process));
                self.packets.announce(uuid, None, &[], |out| {
                    out.begin(4);
                    out.signed(1, process);
                    out.signed(2, thread);
                    if !name.is_empty() {
                        out.bytes(5, String::from_utf8_lossy(&name).as_bytes());
                    }
                    out.end();
                });
            }
            (Track::Thread(_, thread, _), _) => {
                let mut title = name;
                title.extend_from_slice(if title.is_empty() { b"thread " } else { b" " });
                title.extend_from_slice(thread.to_string().as_bytes());
                let parent = self.trace_track(trace);
                self.packets.announce(uuid, Some(parent), &title, |_| {});
            }
            (Track::Lane(lane), _) => {
                let parent = self.parent_of_lane(stream, lane, process);
                self.packets.announce(uuid, Some(parent), &name, |_| {});
            }
            _ => {
                let parent = self.trace_track(trace);
                self.packets.announce(uuid, Some(parent), &name, |_| {});
            }
        }
    }

    /// The track below which a lane stands: another lane, its process, or its trace. Lanes of one name below the same track
    /// are shown as one.
    fn parent_of_lane(&mut self, stream: usize, lane: u32, process: Option<i64>) -> u64 {
        let above = self.tracks.parent_lane(lane).and_then(|above| self.known.get(&above));
        if let Some(&above) = above {
            return self.list[above].uuid;
        }
        match process.filter(|process| is_small(*process) && self.tracks.lane_machine(lane) == 0) {
            Some(process) => self.announce_process(stream, process, None),
            None => self.trace_track(self.tracks.streams[stream].trace),
        }
    }

    /// Announces a process of the first machine. Of several names trace_processor keeps the first one: where programs may
    /// change it is announced in the end.
    fn announce_process(&mut self, stream: usize, process: i64, main: Option<&[u8]>) -> u64 {
        if let Some((uuid, _)) = self.processes.get(&process) {
            return *uuid;
        }
        let uuid = self.packets.uuid();
        self.processes.insert(process, (uuid, stream));
        let is_final = !self.tracks.has_states();
        self.describe_process(uuid, process, stream, main.filter(|_| is_final), is_final);
        uuid
    }

    fn describe_process(&mut self, uuid: u64, process: i64, stream: usize, main: Option<&[u8]>, with_name: bool) {
        let known = || Some(self.tracks.process_name(stream, 0, process)?.as_bytes().to_vec());
        let main = main.filter(|name| !name.is_empty()).map(<[u8]>::to_vec);
        let name = main.or_else(known).filter(|_| with_name);
        self.packets.announce(uuid, None, &[], |out| {
            out.begin(3);
            out.signed(1, process);
            if let Some(name) = &name {
                out.bytes(6, String::from_utf8_lossy(name).as_bytes());
            }
            out.end();
        });
    }

    /// The track of a counter that belongs to a track, when the counter has another value than before; `None` also when
    /// there are too many.
    pub(super) fn counter(&mut self, track: usize, name: &Arc<str>, value: WatchedNumber) -> Option<u64> {
        let key = (track, name.clone());
        if !self.counters.contains_key(&key) {
            if self.counters.len() >= MAX_TRACKS {
                return None;
            }
            let uuid = self.packets.uuid();
            let parent = self.list[track].uuid;
            self.packets.announce(uuid, Some(parent), name.as_bytes(), |out| {
                out.begin(8);
                out.end();
            });
            self.counters.insert(key.clone(), (uuid, None));
        }
        let (uuid, before) = self.counters.get_mut(&key)?;
        (before.replace(value) != Some(value)).then_some(*uuid)
    }
}
