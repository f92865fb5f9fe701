//! The streams of a session as one timeline: which are read, from where, in what order.

use std::sync::Arc;

use tracemill_format::api::{OpenTrace, Stream};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};

use crate::cursor::{ClassSet, Cursor, Item, SpineFilter};
use crate::merge::{Merger, Rank, Source};
use crate::pattern::Pattern;
use crate::session::Session;
use crate::veil::Veils;

/// What is read of a session.
#[derive(Clone, Default)]
pub struct Selection {
    /// First wanted time in ns, included.
    pub begin_ns: Option<i128>,
    /// Last wanted time in ns, included.
    pub end_ns: Option<i128>,
    /// Wanted streams: names with globs, or ids. Empty for all.
    pub streams: Vec<String>,
    /// Wanted event classes of each trace; empty for all of all.
    pub classes: Vec<Option<Arc<ClassSet>>>,
    /// Memory for the spines of chunks that wait to be merged, in bytes; 0 for the default.
    pub memory_bytes: usize,
    /// Are faults of packets that opening found (see [`stream_of_fault`]) told again where those packets stand, before
    /// the events behind them?
    pub faults_in_place: bool,
    /// What is hidden of the traces.
    pub veils: Option<Arc<Veils>>,
}

/// A stream of the timeline.
#[derive(Clone)]
pub struct StreamOf {
    /// Index of its trace in the session.
    pub trace: usize,
    /// Index in its trace.
    pub index: usize,
    /// The stream.
    pub stream: Arc<Stream>,
    /// Its clock.
    pub clock: Option<ClockMap>,
}

/// Memory for spines unless the user says otherwise.
const DEFAULT_MEMORY: usize = 24 << 20;
/// Bytes of spine for an event, with what waits in batches counted in.
const EVENT_BYTES: usize = 64;

/// All wanted streams of a session, in the order of traces and names.
pub fn streams(session: &Session, wanted: &[String]) -> Result<Vec<StreamOf>> {
    let patterns: Vec<Pattern> = wanted.iter().map(|text| Pattern::glob(text)).collect();
    let mut streams = Vec::new();
    for (trace, of) in session.traces.iter().enumerate() {
        for (index, stream) in of.streams.iter().enumerate() {
            let is_wanted = wanted.is_empty()
                || patterns.iter().any(|pattern| pattern.matches(stream.name.as_bytes()))
                || wanted.iter().any(|id| stream.id.is_some_and(|own| *id == own.to_string()));
            if is_wanted {
                let clock = session.clock_map(trace, stream.class);
                streams.push(StreamOf { trace, index, stream: Arc::new(stream.clone()), clock });
            }
        }
    }
    if streams.is_empty() && !wanted.is_empty() {
        let names: Vec<String> =
            session.traces.iter().flat_map(|trace| &trace.streams).map(|stream| format!("`{}`", stream.name)).collect();
        let error = Error::misuse(format!("no stream has the name or id `{}`", wanted.join("`, `")));
        return Err(match names.as_slice() {
            [] => error.with_help("the traces have no streams"),
            names => error.with_help(format!("the streams are {}", names.join(", "))),
        });
    }
    Ok(streams)
}

/// The wanted stream, by index, in whose packets a fault stands that opening a trace found.
pub fn stream_of_fault(streams: &[StreamOf], trace: usize, fault: &Error) -> Option<usize> {
    fault.place().packet?;
    let path = fault.place().file.as_deref()?;
    streams.iter().position(|of| of.trace == trace && of.stream.files.iter().any(|file| file.path == path))
}

/// A merger of the wanted streams.
pub fn merger(session: &Session, streams: &[StreamOf], selection: &Selection) -> Merger<Cursor> {
    let ranks = ranks(session, streams);
    let cursors = cursors(session, streams, selection);
    let sources = cursors.into_iter().zip(streams).zip(ranks).map(|((cursor, of), rank)| (cursor, of.clock, rank));
    Merger::new(sources.collect())
}

/// A cursor for each of the wanted streams, in their order.
pub fn cursors(session: &Session, streams: &[StreamOf], selection: &Selection) -> Vec<Cursor> {
    let memory = if selection.memory_bytes == 0 { DEFAULT_MEMORY } else { selection.memory_bytes };
    let max_events = (memory / EVENT_BYTES / streams.len().max(1)).clamp(64, 8192);
    let cursor = |of: &StreamOf| {
        let (mut stream, mut cycles) = (of.stream.clone(), None);
        if let (Some(clock), begin, end) = (&of.clock, selection.begin_ns, selection.end_ns)
            && (begin.is_some() || end.is_some())
        {
            cycles = cycle_range(clock, begin, end);
            if cycles.is_none() {
                // It stays in its place, which is its number.
                stream = Arc::new(Stream { packets: Vec::new(), ..(*stream).clone() });
            }
        }
        let classes = selection.classes.get(of.trace).cloned().flatten();
        let filter = SpineFilter { cycles, classes };
        let mut cursor = Cursor::new(&session.traces[of.trace], stream, of.clock, filter, max_events);
        if let Some(veils) = &selection.veils {
            cursor.veil(veils.stream(of));
        }
        if selection.faults_in_place {
            cursor.tell_faults(&session.traces[of.trace].faults);
        }
        cursor.with_progress(session.progress.clone())
    };
    streams.iter().map(cursor).collect()
}

/// The clock values from one time to another, `None` when there are none.
fn cycle_range(clock: &ClockMap, begin_ns: Option<i128>, end_ns: Option<i128>) -> Option<(u64, u64)> {
    let first = match begin_ns {
        None => 0,
        Some(ns) => clock.first_cycles_at(ns)?,
    };
    // The last value of an instant is the one before the first value of the next.
    let last = match end_ns.and_then(|ns| ns.checked_add(1)) {
        None => u64::MAX,
        Some(ns) => clock.first_cycles_at(ns).map_or(Some(u64::MAX), |next| next.checked_sub(1))?,
    };
    (first <= last).then_some((first, last))
}

impl Source for Cursor {
    fn next(&mut self) -> Option<Item> {
        Cursor::next(self)
    }
}

/// What orders streams at equal times (`docs/cli.md`, "Order"), most important first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey<'a> {
    no_uuid: bool,
    uuid: Option<[u8; 16]>,
    trace_name: &'a [u8],
    class_id: u64,
    stream: u64,
}

fn ranks(session: &Session, streams: &[StreamOf]) -> Vec<Rank> {
    let key = |of: &StreamOf| {
        let trace: &OpenTrace = &session.traces[of.trace];
        // Streams without a clock are not ordered by what they are: they come one after the other.
        GroupKey {
            no_uuid: trace.schema.uuid.is_none(),
            uuid: trace.schema.uuid,
            trace_name: trace.own_name.as_bytes(),
            class_id: trace.schema.stream(of.stream.class).id,
            stream: of.stream.id.unwrap_or(of.index as u64),
        }
    };
    let mut order: Vec<usize> = (0..streams.len()).collect();
    order.sort_by(|&a, &b| key(&streams[a]).cmp(&key(&streams[b])));
    let mut ranks = vec![Rank { group: 0, stream: 0 }; streams.len()];
    let mut group = 0;
    for (place, &at) in order.iter().enumerate() {
        if place > 0 && key(&streams[order[place - 1]]) != key(&streams[at]) {
            group += 1;
        }
        // Streams are listed by trace, then by path.
        ranks[at] = Rank { group, stream: at as u32 };
    }
    ranks
}
