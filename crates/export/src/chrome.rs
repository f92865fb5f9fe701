//! Chrome's trace JSON, as Perfetto's viewer and `chrome://tracing` load it.
//!
//! One object with `traceEvents`, one of them for each event, with its scopes as arguments: the beginning or the end of a
//! slice where classes come in pairs or are calls, an instant otherwise. They stand on threads of processes as far as the
//! trace tells; all else is a thread of a process that is the trace.
//!
//! Times are microseconds with three decimals since the first event: consumers read them as numbers of 64 bits, which hold
//! every ns of some 50 days, but only each 256th of the 20,000 days since 1970. `otherData` has the time of the first event.
//!
//! Samples are instants like other events, with the number of their stack (`sf`); `chrome://tracing` shows them by the list
//! `samples`, which has them again, and Perfetto's viewer by their arguments only.

mod samples;

use std::collections::{HashMap, HashSet};
use std::fmt;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::{DecoderState, Fault};
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::open_calls::{End, OpenCalls};
use tracemill_format::samples::Sample;
use tracemill_format::target::{Needs, Source, Target, TraceWriter, WriteOptions};
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ClockOrigin, EventClassId, Scope};
use tracemill_semantics::Semantics;

use self::samples::{ChromeSamples, ListedSample, MAX_FRAMES};
use super::tracks::{ClassRules, EventShape, ExportTracks, Track};
use crate::late_file::{FLUSH, LateFile};
use tracemill_codec::text::fields_json::{JsonTrace, ScopedFields};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;

/// Trace JSON of Chrome.
pub(super) static CHROME: Target =
    Target::file(&["chrome"], "trace JSON of Chrome, for chrome://tracing and ui.perfetto.dev", create)
        .with_endings(&["json"])
        .cannot_hold(&[Lost::Schemas, Lost::Clocks, Lost::Environment, Lost::Packets, Lost::UntimedEvents]);

/// Scopes that become arguments, in the order in which they are stored.
const SCOPES: [(Scope, &[u8]); 3] = [
    (Scope::CommonContext, b"\"stream_context\":"),
    (Scope::SpecificContext, b"\"event_context\":"),
    (Scope::Payload, b"\"payload\":"),
];

/// Threads; events of further ones stand on their streams.
const MAX_THREADS: usize = 1 << 16;
/// Slices that may be open at once on a thread; deeper ones are instants.
const MAX_DEPTH: usize = 1 << 14;
/// Ids from here on are ours: no system gives them to processes and threads, and they fit 31 bits, as viewers want.
const FIRST_ID: i64 = 1 << 30;

struct ChromeWriter {
    file: LateFile,
    traces: Vec<JsonTrace>,
    tracks: ExportTracks,
    /// For each stream its number in its trace.
    index: Vec<usize>,
    of_track: HashMap<Track, usize>,
    threads: Vec<ChromeThread>,
    /// Processes that have a name.
    named: HashSet<i64>,
    out: Out,
    /// Arguments of the last event.
    arguments: Out,
    name: Vec<u8>,
    state: DecoderState,
    samples: ChromeSamples,
    /// By trace.
    semantics: Vec<Semantics>,
    /// Do fields of the events of a class name the functions of its samples?
    has_frames: HashMap<(usize, EventClassId), bool>,
    is_first: bool,
    /// The time from which those in the file count: that of the first event or loss.
    base_ns: Option<i128>,
    /// Are times since the Unix epoch, for each trace?
    is_unix: Vec<bool>,
    latest_ns: i128,
    losses: Losses,
}

/// A thread of the file, on which events stand.
struct ChromeThread {
    /// The lane that it is, when it is no thread.
    lane: Option<u32>,
    process: i64,
    id: i64,
    name: Vec<u8>,
    /// The stream of its first event.
    stream: usize,
    /// Titles of the open slices.
    open: OpenCalls<Box<[u8]>>,
    /// Time of its last event.
    last_ns: i128,
}

/// A time since the first event in ns, shown in µs.
#[derive(Clone, Copy)]
struct Micros(i128);

impl fmt::Display for Micros {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, size) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(out, "{sign}{}.{:03}", size / 1000, size % 1000)
    }
}

/// The part of a slice that an event is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Begin,
    End,
    Instant,
    Counter,
}

fn create(path: &OutPath, sources: &[Source], _options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let is_unix = |source: &Source| source.schema.clocks().iter().any(|clock| clock.origin == ClockOrigin::Unix);
    Ok(Box::new(ChromeWriter {
        file: LateFile::new(path),
        traces: sources.iter().map(|source| JsonTrace::new(source.schema.clone())).collect(),
        tracks: ExportTracks::new(sources),
        index: sources.iter().flat_map(|source| 0..source.streams.len()).collect(),
        of_track: HashMap::new(),
        threads: Vec::new(),
        named: HashSet::new(),
        out: Out::default(),
        arguments: Out::default(),
        name: Vec::new(),
        state: DecoderState::default(),
        samples: ChromeSamples::new(path),
        semantics: sources.iter().map(|source| Semantics::new(&source.schema)).collect(),
        has_frames: HashMap::new(),
        is_first: true,
        base_ns: None,
        is_unix: sources.iter().map(is_unix).collect(),
        latest_ns: 0,
        losses: Losses::default(),
    }))
}

impl ChromeWriter {
    fn separate(&mut self) {
        let before: &[u8] = if std::mem::replace(&mut self.is_first, false) { b"\n" } else { b",\n" };
        self.out.put(before);
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write(self.out.written())?;
        self.out.clear();
        Ok(())
    }

    /// Puts the begin of the file, once: times count from this one.
    fn begin(&mut self, stream: usize, ns: i128) {
        if self.base_ns.is_some() {
            return;
        }
        self.base_ns = Some(ns);
        self.latest_ns = ns;
        let clock = if self.is_unix[self.tracks.streams[stream].trace] { "unix" } else { "unknown" };
        self.put_head(ns, clock);
    }

    fn put_head(&mut self, base_ns: i128, origin: &str) {
        self.out.put_fmt(format_args!(
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"base_ns\":\"{base_ns}\",\"base_origin\":\"{origin}\"}},\
             \"traceEvents\":["
        ));
    }

    /// Time of an event; what has none stands at the one before.
    fn time(&mut self, stream: usize, event: EventRef<'_>) -> i128 {
        event.ns(self.tracks.streams[stream].clock.as_ref()).unwrap_or_else(|| {
            self.losses.add(Lost::UntimedEvents, 1);
            self.latest_ns
        })
    }

    /// Puts the fields of an event together.
    fn arguments(&mut self, stream: usize, event: EventRef<'_>) -> std::result::Result<(), Fault> {
        self.arguments.clear();
        let mut fields = ScopedFields::default();
        let (trace, index) = (self.tracks.streams[stream].trace, self.index[stream]);
        let mut before = Vec::new();
        let mut is_first = true;
        for (scope, key) in SCOPES {
            before.clear();
            if !is_first {
                before.push(b',');
            }
            before.extend_from_slice(key);
            let out = &mut self.arguments;
            is_first &= !self.traces[trace].scope(out, index, event, &mut fields, scope, &before)?;
        }
        Ok(())
    }

    /// The thread of a track where the last event stands.
    fn thread(&mut self, stream: usize, track: Track) -> usize {
        let known = self.of_track.get(&track).copied();
        let at = known.unwrap_or_else(|| self.new_thread(stream, track));
        self.rename(stream, track, at);
        at
    }

    /// A thread may change its name, or get one when it has events already; a process has the name of its first thread.
    fn rename(&mut self, stream: usize, track: Track, at: usize) {
        let Some(name) = self.tracks.new_name(stream, track, &self.threads[at].name) else { return };
        let (process, id) = (self.threads[at].process, self.threads[at].id);
        self.put_name("thread", process, id, &name);
        if process == id && self.named.contains(&process) {
            self.put_name("process", process, 0, &name);
        }
        self.threads[at].name = name;
    }

    #[cold]
    fn new_thread(&mut self, stream: usize, mut track: Track) -> usize {
        if self.threads.len() >= MAX_THREADS && !matches!(track, Track::Stream(_)) {
            self.losses.add(Lost::MoreTracks(MAX_THREADS), 1);
            track = Track::Stream(stream as u32);
            if let Some(&at) = self.of_track.get(&track) {
                return at;
            }
        }
        let trace = self.tracks.streams[stream].trace;
        let at = self.threads.len();
        let (mut process, mut id) = (FIRST_ID + trace as i64, FIRST_ID + at as i64);
        let mut process_name = self.tracks.traces[trace].name.clone();
        let known = self.tracks.name(stream, track);
        let name = known.unwrap_or_else(|thread| format!("thread {thread}").into_bytes());
        if let Track::Thread(machine, thread, life) = track {
            let fits = |id: i64| (0..FIRST_ID).contains(&id);
            // A number that is used again in a process that is not known would be the same thread.
            if fits(thread) && life == 0 {
                id = thread;
            }
            // Ids of processes mean something on one machine only.
            let of = self.tracks.process(stream, track);
            if let Some(of) = of.filter(|of| machine == 0 && fits(*of) && fits(thread)) {
                process = of;
                id = thread;
                process_name = match self.tracks.process_name(stream, machine, of) {
                    Some(name) => name.to_string(),
                    None if of == thread => String::from_utf8_lossy(&name).into_owned(),
                    None => format!("process {of}"),
                };
            }
        }
        // An earlier thread of the same number, in the same process.
        let is_taken = |known: &ChromeThread| known.lane.is_none() && (known.process, known.id) == (process, id);
        if id < FIRST_ID && matches!(track, Track::Thread(_, _, 1..)) && self.threads.iter().any(is_taken) {
            id = FIRST_ID + at as i64;
        }
        let lane = if let Track::Lane(lane) = track { Some(lane) } else { None };
        if let Some(lane) = lane {
            let of = self.tracks.process(stream, track);
            let of = of.filter(|of| (0..FIRST_ID).contains(of) && self.tracks.lane_machine(lane) == 0);
            process = of.unwrap_or(process);
            id = process;
            if let Some(of) = of {
                let known = self.tracks.process_name(stream, 0, of);
                process_name = known.map_or_else(|| format!("process {of}"), str::to_string);
            }
        }
        if self.named.insert(process) {
            self.put_name("process", process, 0, process_name.as_bytes());
        }
        if lane.is_none() {
            self.put_name("thread", process, id, &name);
        }
        self.threads.push(ChromeThread {
            lane,
            process,
            id,
            name,
            stream,
            open: OpenCalls::new(MAX_DEPTH),
            last_ns: i128::MIN,
        });
        self.of_track.insert(track, at);
        at
    }

    /// Writes the name of a thread or a process, the `kind`.
    fn put_name(&mut self, kind: &str, process: i64, thread: i64, name: &[u8]) {
        self.separate();
        self.out.put_fmt(format_args!(
            "{{\"name\":\"{kind}_name\",\"ph\":\"M\",\"pid\":{process},\"tid\":{thread},\"args\":{{\"name\":"
        ));
        strings::put_json(&mut self.out, name);
        self.out.put(b"}}");
    }

    /// A time as the file has it.
    fn micros(&self, ns: i128) -> Micros {
        Micros(ns - self.base_ns.unwrap_or(0))
    }

    /// Puts phase, place and time, which stand between the name and the arguments of an event.
    fn place(&mut self, thread: usize, ns: i128, phase: Phase) {
        let time = self.micros(ns);
        let of = &self.threads[thread];
        let phase = match (phase, of.lane) {
            (Phase::Begin, None) => "\"B\"",
            (Phase::End, None) => "\"E\"",
            (Phase::Instant, None) => "\"i\",\"s\":\"t\"",
            (Phase::Begin, Some(_)) => "\"b\"",
            (Phase::End, Some(_)) => "\"e\"",
            (Phase::Instant, Some(_)) => "\"n\"",
            (Phase::Counter, _) => "\"C\"",
        };
        self.out.put_fmt(format_args!(",\"ph\":{phase},\"pid\":{},\"tid\":{},\"ts\":{time}", of.process, of.id));
        if let Some(lane) = of.lane {
            self.out.put_fmt(format_args!(",\"cat\":\"async\",\"id2\":{{\"local\":\"{lane:#x}\"}}"));
        }
    }

    /// A span begins or ends by the last event, which stands on `track`: a slice of its own.
    fn put_span(&mut self, stream: usize, track: Track, rules: &ClassRules, ns: i128) {
        let Some(span) = self.tracks.span(stream, track, rules) else { return };
        let lane = self.thread(stream, span.track);
        self.threads[lane].last_ns = ns.max(self.threads[lane].last_ns);
        if span.is_end {
            return self.end_slices(lane, ns, self.threads[lane].open.len());
        }
        self.threads[lane].open.begin(None, rules.title.as_bytes().into());
        self.separate();
        self.out.put(b"{\"name\":");
        strings::put_json(&mut self.out, rules.title.as_bytes());
        self.place(lane, ns, Phase::Begin);
        self.out.put(b",\"args\":{");
        self.out.put(self.arguments.written());
        self.out.put(b"}}");
    }

    /// Puts the value of a counter that a program has marked.
    fn put_mark_counter(&mut self, at: usize, ns: i128) {
        let Some((name, value)) = self.tracks.mark_counter() else { return };
        let name = name.to_vec();
        self.separate();
        self.out.put(b"{\"name\":");
        strings::put_json(&mut self.out, &name);
        self.place(at, ns, Phase::Counter);
        self.out.put_fmt(format_args!(",\"args\":{{\"value\":{value}}}}}"));
    }

    /// Ends the innermost slices of a thread, whose ends are missing.
    fn end_slices(&mut self, at: usize, ns: i128, count: usize) {
        for _ in 0..count {
            let title = self.threads[at].open.pop().unwrap_or_default();
            self.separate();
            self.out.put(b"{\"name\":");
            strings::put_json(&mut self.out, &title);
            self.place(at, ns, Phase::End);
            self.out.put_byte(b'}');
        }
    }

    /// The phase of the last event: slices are well nested, as the format asks for. The title stands in `name`.
    fn phase(&mut self, at: usize, rules: &ClassRules, ns: i128) -> Phase {
        let (level, open) = (self.tracks.level(rules), &self.threads[at].open);
        match self.tracks.shape(rules) {
            EventShape::Instant => Phase::Instant,
            EventShape::Begin => {
                let abandoned = open.abandoned_at(level);
                self.losses.add(Lost::OpenSlices, abandoned as u64);
                self.end_slices(at, ns, abandoned);
                if self.threads[at].open.begin(level, self.name.clone().into_boxed_slice()) {
                    return Phase::Begin;
                }
                self.losses.add(Lost::DeepSlices(MAX_DEPTH), 1);
                Phase::Instant
            }
            EventShape::End { says_title } => {
                let name = &*self.name;
                let (end, abandoned) = self.threads[at].open.end(level, |open| !says_title || **open == *name);
                self.losses.add(Lost::OpenSlices, abandoned as u64);
                self.losses.add(Lost::LoneSliceEnds, (end == End::Lone).into());
                self.end_slices(at, ns, abandoned);
                if end != End::OfCall {
                    return Phase::Instant;
                }
                // Names of ends are those of their beginnings.
                self.name = self.threads[at].open.pop().unwrap_or_default().into_vec();
                Phase::End
            }
        }
    }
}

impl ChromeWriter {
    /// Writes an event, which may be a sample.
    fn put(&mut self, stream: usize, event: EventRef<'_>, sample: Option<&Sample<'_>>) -> Result<()> {
        let rules = self.tracks.read_fields(stream, event, &mut self.state);
        let (Some(rules), Ok(())) = (rules, self.arguments(stream, event)) else {
            // It was whole when it was found: the file has changed.
            self.losses.add(Lost::ChangedEvents, 1);
            return Ok(());
        };
        let ns = self.time(stream, event);
        self.begin(stream, ns);
        self.latest_ns = ns;
        let track = self.tracks.place(stream, &rules, ns);
        let at = self.thread(stream, track);
        self.name.clear();
        if event.own_id(&mut self.name).is_none() {
            let title = self.tracks.title(&rules).unwrap_or(rules.title.as_bytes());
            self.name.extend_from_slice(title);
        }
        let phase = self.phase(at, &rules, ns);
        self.threads[at].last_ns = ns.max(self.threads[at].last_ns);
        self.separate();
        self.out.put(b"{\"name\":");
        strings::put_json(&mut self.out, &self.name);
        self.place(at, ns, phase);
        if let Some(sample) = sample {
            let key = (self.tracks.streams[stream].trace, event.class());
            let semantics = &self.semantics[key.0];
            let has_frames = || semantics.sample(key.1).is_some_and(|fields| fields.frames.is_some());
            let has_frames = *self.has_frames.entry(key).or_insert_with(has_frames);
            self.put_sample(at, ns, sample, has_frames)?;
        }
        self.out.put(b",\"args\":{");
        self.out.put(self.arguments.written());
        self.out.put(b"}}");
        self.put_mark_counter(at, ns);
        self.put_span(stream, track, &rules, ns);
        if self.out.len() >= FLUSH { self.flush() } else { Ok(()) }
    }

    /// Puts the stack of a sample, which stands on a thread, into the event that is written, and the sample into its list.
    ///
    /// Where its arguments name its functions, the event itself has no stack: it would be read back with the names twice.
    fn put_sample(&mut self, at: usize, ns: i128, sample: &Sample<'_>, has_frames: bool) -> Result<()> {
        let Some(stack) = self.samples.stack(sample)? else {
            self.losses.add(Lost::MoreStacks(MAX_FRAMES), 1);
            return Ok(());
        };
        if !has_frames {
            self.out.put_fmt(format_args!(",\"sf\":{stack}"));
        }
        let (process, thread) = (self.threads[at].process, self.threads[at].id);
        let listed = ListedSample {
            event: &self.name,
            process,
            thread,
            time: self.micros(ns),
            cpu: sample.cpu,
            weight: sample.weight.unwrap_or(1),
        };
        self.samples.add(&listed, stack)
    }
}

impl TraceWriter for ChromeWriter {
    fn needs(&self) -> Needs {
        Needs { samples: true, ..Needs::default() }
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.put(stream, event, None)
    }

    fn sample(&mut self, stream: usize, event: EventRef<'_>, sample: &Sample<'_>) -> Result<()> {
        self.put(stream, event, Some(sample))
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        self.losses.add(Lost::GapInstants, 1);
        let ns = self.tracks.begin_of(stream, gap).unwrap_or(self.latest_ns);
        self.begin(stream, ns);
        let at = self.thread(stream, Track::Stream(stream as u32));
        self.separate();
        self.out.put_fmt(format_args!("{{\"name\":\"{}\"", gap.kind.name()));
        self.place(at, ns, Phase::Instant);
        match gap.count {
            Some(count) => self.out.put_fmt(format_args!(",\"args\":{{\"count\":{count}}}}}")),
            None => self.out.put(b",\"args\":{\"count\":null}}"),
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        let mut tracks: Vec<(Track, usize)> = self.of_track.iter().map(|(track, at)| (*track, *at)).collect();
        tracks.sort_by_key(|(_, at)| *at);
        for (track, at) in tracks {
            let stream = self.threads[at].stream;
            self.tracks.seen.name.clear();
            self.rename(stream, track, at);
            let (count, last_ns) = (self.threads[at].open.len(), self.threads[at].last_ns);
            self.losses.add(Lost::UnendedSlices, count as u64);
            let end_ns = self.tracks.end_of(track, last_ns);
            self.end_slices(at, end_ns, count);
        }
        self.losses.add(Lost::AsyncSlices, self.tracks.refused_slices());
        self.losses.add(Lost::SliceNames, self.tracks.slice_names());
        if self.base_ns.is_none() {
            self.put_head(0, "unknown");
        }
        self.out.put(b"\n]");
        self.flush()?;
        let ChromeWriter { samples, mut file, losses, .. } = *self;
        samples.finish(&mut file)?;
        file.write(b"}\n")?;
        Ok(losses)
    }
}
