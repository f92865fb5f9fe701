//! Calls of threads: what is open on each of them, followed from event to event.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::DecoderState;
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::open_calls::{End, OpenCalls};
use tracemill_format::target::{Source, TraceWriter};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::ClockOrigin;

use super::tracks::{EventShape, ExportTracks, Track};
use crate::late_file::WRITING;
use tracemill_semantics::states::thread_title;

/// Names that are kept; further ones are one.
const MAX_FRAMES: usize = 1 << 18;
/// Calls that may be open at once on a thread; deeper ones are left out.
const MAX_DEPTH: usize = 1 << 14;
/// Threads that are followed.
const MAX_THREADS: usize = 1 << 16;

/// A change on a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// A call of this name begins.
    Push(u32),
    /// The innermost call ends.
    Pop,
    /// Something of this name happens.
    Point(u32),
}

/// A thread, or another track on which calls stand.
pub(super) struct CallThread {
    /// Its name, without its id; empty when it has none.
    pub(super) name: Vec<u8>,
    /// The stream of its first event.
    pub(super) stream: usize,
    /// Name of its process, when all events were seen.
    pub(super) process_name: Option<String>,
    /// Its id.
    pub(super) id: Option<i64>,
    /// Id of its process.
    pub(super) process: Option<i64>,
    /// Names of the open calls.
    pub(super) open: OpenCalls<u32>,
    /// Time of its first event in ns since the first event of all.
    pub(super) first: u64,
    /// Time of its last event so far.
    pub(super) last: u64,
}

impl CallThread {
    /// Its name for people.
    pub(super) fn title(&self) -> String {
        let name = String::from_utf8_lossy(&self.name);
        match self.id {
            Some(id) if name.is_empty() => format!("thread {id}"),
            Some(id) => thread_title(Some(&*name), id),
            None => name.into_owned(),
        }
    }
}

/// Takes changes, in the order of time for each thread.
pub(super) trait StackSink {
    /// Does it show events that neither begin nor end a call?
    const KEEPS_POINTS: bool;

    /// The thread `at` changes at a time, in ns since the first event of all. `thread` is as before the change.
    ///
    /// # Errors
    /// When it cannot be written.
    fn change(&mut self, at: usize, thread: &CallThread, time: u64, change: Change) -> Result<()>;

    /// No more changes come; all calls have ended. Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    fn finish(&mut self, out: &mut dyn Write, stacks: &Stacks, losses: &mut Losses) -> io::Result<()>;
}

/// Names and threads.
#[derive(Default)]
pub(super) struct Stacks {
    /// Names of calls.
    pub(super) frames: Vec<String>,
    /// Threads.
    pub(super) threads: Vec<CallThread>,
    /// Time of the first event.
    pub(super) origin_ns: i128,
    /// Is it a time since the Unix epoch?
    pub(super) is_unix: bool,
}

/// Follows calls for a sink.
pub(super) struct Follower<S> {
    path: OutPath,
    sink: S,
    tracks: ExportTracks,
    stacks: Stacks,
    of_track: HashMap<Track, usize>,
    of_name: HashMap<Box<[u8]>, u32>,
    state: DecoderState,
    has_begun: bool,
    latest_ns: i128,
    has_unix: Vec<bool>,
    points: u64,
    losses: Losses,
}

impl<S: StackSink> Follower<S> {
    /// Follows the calls of traces.
    ///
    /// # Errors
    /// When none of them has any.
    pub(super) fn new(path: &OutPath, sources: &[Source], sink: S) -> Result<Self> {
        let tracks = ExportTracks::new(sources);
        if !tracks.has_calls() {
            let error = Error::unsupported("the trace has no calls, and nothing else that begins and ends");
            return Err(error.with_help(
                "calls are in traces of function tracers, and in all that have pairs of event classes such as \
                 `X_entry` and `X_exit`, or `X_begin` and `X_end`",
            ));
        }
        let is_unix = |source: &Source| source.schema.clocks().iter().any(|clock| clock.origin == ClockOrigin::Unix);
        Ok(Follower {
            path: path.clone(),
            sink,
            tracks,
            stacks: Stacks::default(),
            of_track: HashMap::new(),
            of_name: HashMap::new(),
            state: DecoderState::default(),
            has_begun: false,
            latest_ns: 0,
            has_unix: sources.iter().map(is_unix).collect(),
            points: 0,
            losses: Losses::default(),
        })
    }

    fn frame(&mut self, name: &[u8]) -> u32 {
        if let Some(&frame) = self.of_name.get(name) {
            return frame;
        }
        let name: &[u8] = match self.stacks.frames.len() {
            0..MAX_FRAMES => name,
            _ => {
                self.losses.add(Lost::MoreNames(MAX_FRAMES), 1);
                b"(further names)"
            }
        };
        if let Some(&frame) = self.of_name.get(name) {
            return frame;
        }
        let frame = self.stacks.frames.len() as u32;
        self.stacks.frames.push(String::from_utf8_lossy(name).into_owned());
        self.of_name.insert(name.into(), frame);
        frame
    }

    fn thread(&mut self, stream: usize, track: Track, time: u64) -> Option<usize> {
        if let Some(&at) = self.of_track.get(&track) {
            self.rename(track, at);
            return Some(at);
        }
        if self.stacks.threads.len() >= MAX_THREADS {
            return None;
        }
        let name = self.tracks.name(stream, track).unwrap_or_default();
        let id = if let Track::Thread(_, thread, _) = track { Some(thread) } else { None };
        let process = self.tracks.process(stream, track);
        let at = self.stacks.threads.len();
        let open = OpenCalls::new(MAX_DEPTH);
        let process_name = None;
        self.stacks.threads.push(CallThread { name, id, process, process_name, stream, open, first: time, last: time });
        self.of_track.insert(track, at);
        Some(at)
    }

    /// A thread may change its name, or get one when it has events already: the last one counts.
    fn rename(&mut self, track: Track, at: usize) {
        let thread = &mut self.stacks.threads[at];
        if let Some(name) = self.tracks.new_name(thread.stream, track, &thread.name) {
            thread.name = name;
        }
    }

    /// Reports a change to the sink.
    fn change(&mut self, at: usize, time: u64, change: Change) -> Result<()> {
        let thread = &mut self.stacks.threads[at];
        let time = time.max(thread.last);
        self.sink.change(at, thread, time, change)?;
        thread.last = time;
        Ok(())
    }

    /// Ends the innermost calls.
    fn pop(&mut self, at: usize, time: u64, count: usize) -> Result<()> {
        for _ in 0..count {
            self.change(at, time, Change::Pop)?;
            self.stacks.threads[at].open.pop();
        }
        Ok(())
    }
}

impl<S: StackSink> TraceWriter for Follower<S> {
    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let Some(rules) = self.tracks.read_fields(stream, event, &mut self.state) else {
            // It was whole when it was found: the file has changed.
            self.losses.add(Lost::ChangedEvents, 1);
            return Ok(());
        };
        let of = &self.tracks.streams[stream];
        let trace = of.trace;
        let ns = event.ns(of.clock.as_ref()).unwrap_or(self.latest_ns);
        self.latest_ns = ns;
        if !std::mem::replace(&mut self.has_begun, true) {
            (self.stacks.origin_ns, self.stacks.is_unix) = (ns, self.has_unix[trace]);
        }
        let time = (ns - self.stacks.origin_ns).clamp(0, u64::MAX.into()) as u64;
        let track = self.tracks.place(stream, &rules, ns);
        let Some(at) = self.thread(stream, track, time) else {
            self.losses.add(Lost::MoreThreads(MAX_THREADS), 1);
            return Ok(());
        };
        let title = self.tracks.title(&rules).unwrap_or(rules.title.as_bytes()).to_vec();
        let frame = self.frame(&title);
        let shape = self.tracks.shape(&rules);
        let (level, open) = (self.tracks.level(&rules), &mut self.stacks.threads[at].open);
        match shape {
            EventShape::Instant => {
                self.points += 1;
                self.change(at, time, Change::Point(frame))
            }
            EventShape::Begin => {
                let abandoned = open.abandoned_at(level);
                self.losses.add(Lost::OpenCalls, abandoned as u64);
                self.pop(at, time, abandoned)?;
                if self.stacks.threads[at].open.len() < MAX_DEPTH {
                    self.change(at, time, Change::Push(frame))?;
                }
                if !self.stacks.threads[at].open.begin(level, frame) {
                    self.losses.add(Lost::DeepCalls(MAX_DEPTH), 1);
                }
                Ok(())
            }
            EventShape::End { says_title } => {
                let (end, abandoned) = open.end(level, |open| !says_title || *open == frame);
                self.losses.add(Lost::OpenCalls, abandoned as u64);
                self.losses.add(Lost::LoneEnds, (end == End::Lone).into());
                self.pop(at, time, abandoned + usize::from(end == End::OfCall))
            }
        }
    }

    fn gap(&mut self, _stream: usize, _gap: &Gap) -> Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        let mut unended = 0;
        let mut tracks: Vec<(Track, usize)> = self.of_track.iter().map(|(track, at)| (*track, *at)).collect();
        tracks.sort_by_key(|(_, at)| *at);
        self.tracks.seen.name.clear();
        for (track, at) in tracks {
            self.rename(track, at);
            let thread = &mut self.stacks.threads[at];
            if let (Track::Thread(machine, ..), Some(process)) = (track, thread.process) {
                thread.process_name = self.tracks.process_name(thread.stream, machine, process).map(str::to_string);
            }
            let (last, count) = (self.stacks.origin_ns + i128::from(thread.last), thread.open.len());
            unended += count as u64;
            let end = (self.tracks.end_of(track, last) - self.stacks.origin_ns).clamp(0, u64::MAX.into()) as u64;
            self.pop(at, end, count)?;
        }
        let mut losses = std::mem::take(&mut self.losses);
        losses.add(Lost::UnendedCalls, unended);
        let points = self.points;
        let mut out = BufWriter::new(self.path.create(WRITING)?);
        let written = self.sink.finish(&mut out, &self.stacks, &mut losses).and_then(|()| out.flush());
        written.map_err(self.path.failed(WRITING))?;
        if !S::KEEPS_POINTS {
            losses.add(Lost::NoCalls, points);
        }
        Ok(losses)
    }
}
