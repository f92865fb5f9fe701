//! The streams of a session as one timeline: which are read, from where, in what order.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracemill_format::{OpenTrace, Stream};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet_list::PacketList;

use crate::ahead::parts_of;
use crate::cursor::Cursor;
use crate::filter::Filter;
use crate::item::{ResumePoint, StreamPlace};
use crate::merge::{Merger, Rank, Sources};
use crate::redact::{EventFilter, Redactions, StreamReader};
use crate::selection::{ClassSet, SelectedStream, SpineFilter, stream_of_fault, streams};
use crate::session::Session;

/// The events of streams that are read: by time, by class, and without fields that are hidden.
#[derive(Clone, Default)]
pub struct Selection {
    /// First wanted time in ns, included.
    pub begin_ns: Option<i128>,
    /// Last wanted time in ns, included.
    pub end_ns: Option<i128>,
    /// First and last wanted time of each trace in ns, both included, beside those of all; empty for no limits.
    pub of_traces_ns: Vec<Option<(i128, i128)>>,
    /// Wanted event classes of each trace; empty for all of all.
    pub classes: Vec<Option<Arc<ClassSet>>>,
    /// Memory for the spines of chunks that wait to be merged, in bytes; 0 for the default.
    pub memory_bytes: usize,
    /// Threads that read: with more than one, streams are read ahead of what is done with their events.
    pub jobs: usize,
    /// Are errors of packets that opening found reported again where those packets stand, before the events after them?
    /// See [`stream_of_fault`].
    pub faults_in_place: bool,
    /// The wanted events, as far as the classes do not decide. Who reads decides it, so with several jobs many do.
    pub filter: Option<Filter>,
    /// The redaction of the traces.
    pub redactions: Option<Arc<Redactions>>,
    /// Set when the rest is not wanted any more: all streams end at their next chunk then.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Selection {
    /// Memory for the spines of chunks that wait to be merged, in bytes.
    pub(crate) fn memory(&self) -> usize {
        if self.memory_bytes == 0 { DEFAULT_MEMORY } else { self.memory_bytes }
    }
}

/// Memory for spines unless the user says otherwise.
const DEFAULT_MEMORY: usize = 24 << 20;
/// Bytes of spine for an event and of the copy of its fields, with what waits in batches counted in.
const EVENT_BYTES: usize = 96;

/// A merger of the wanted streams.
pub fn merger(session: &Session, streams: &[SelectedStream], selection: &Selection) -> Merger {
    let ranks = ranks(session, streams);
    let clocks = streams.iter().map(|of| of.clock);
    Merger::new(sources(session, streams, selection), clocks.zip(ranks))
}

/// A merger of the same streams that goes on from [`Merger::places`] of one with the same selection; one thread reads.
pub fn merger_from(
    session: &Session,
    streams: &[SelectedStream],
    selection: &Selection,
    places: &[StreamPlace],
) -> Merger {
    let mut readers = cursors(session, streams, selection);
    for (reader, place) in readers.iter_mut().zip(places) {
        reader.plain().into_iter().for_each(|cursor| cursor.resume(*place));
    }
    merger_of(session, streams, readers)
}

/// A merger of streams that grow, in one thread: each is read on from its place, if it has one.
pub(crate) fn merger_of_grown(
    session: &Session,
    streams: &[SelectedStream],
    selection: &Selection,
    points: &[Option<ResumePoint>],
) -> Merger {
    let mut readers = cursors(session, streams, selection);
    for (reader, point) in readers.iter_mut().zip(points) {
        if let (Some(cursor), Some(point)) = (reader.plain(), point) {
            cursor.resume_grown(*point);
        }
    }
    merger_of(session, streams, readers)
}

/// A merger of readers of the streams, in the thread that asks for its batches.
pub(crate) fn merger_of(session: &Session, streams: &[SelectedStream], readers: Vec<StreamReader>) -> Merger {
    let ranks = ranks(session, streams);
    let clocks = streams.iter().map(|of| of.clock);
    Merger::new(Sources::Own(readers), clocks.zip(ranks))
}

/// The items of the wanted streams, read ahead when there are several jobs.
pub(crate) fn sources(session: &Session, streams: &[SelectedStream], selection: &Selection) -> Sources {
    let max_events = max_events(streams, selection);
    Sources::new(cursors(session, streams, selection), selection.jobs, max_events)
}

/// Events of a chunk.
pub(crate) fn max_events(streams: &[SelectedStream], selection: &Selection) -> usize {
    let memory = selection.memory();
    // Two more chunks of each part of a stream wait when it is read ahead.
    let memory = if selection.jobs > 1 { memory / (1 + 2 * parts_of(streams.len(), selection.jobs)) } else { memory };
    (memory / EVENT_BYTES / streams.len().max(1)).clamp(64, 8192)
}

/// A reader of each of the wanted streams, in their order.
pub fn cursors(session: &Session, streams: &[SelectedStream], selection: &Selection) -> Vec<StreamReader> {
    let max_events = max_events(streams, selection);
    let choice = selection.filter.as_ref().map(|filter| Arc::new(EventFilter::new(filter)));
    // Of each trace its errors, with the streams that they are in.
    let faults_of = |trace: &OpenTrace| -> Vec<(Option<usize>, Error)> {
        trace.faults.iter().map(|fault| (stream_of_fault(&trace.streams, fault), fault.clone())).collect()
    };
    let faults: Option<Vec<_>> = selection.faults_in_place.then(|| session.traces.iter().map(faults_of).collect());
    let cursor = |of: &SelectedStream| {
        let (mut stream, mut cycles) = (of.stream.clone(), None);
        let of_trace = selection.of_traces_ns.get(of.trace).copied().flatten();
        let begin = selection.begin_ns.max(of_trace.map(|(begin, _)| begin));
        let end = selection.end_ns.into_iter().chain(of_trace.map(|(_, end)| end)).min();
        if let Some(clock) = &of.clock
            && (begin.is_some() || end.is_some())
        {
            cycles = cycle_range(clock, begin, end);
            if cycles.is_none() {
                // It stays in its place, which is its number.
                stream = Arc::new(Stream { packets: PacketList::default(), ..(*stream).clone() });
            }
        }
        let classes = selection.classes.get(of.trace).cloned().flatten();
        let filter = SpineFilter { cycles, classes };
        let mut cursor = Cursor::new(&session.traces[of.trace], stream, of.clock, filter, max_events);
        if let Some(faults) = &faults {
            let own = faults[of.trace].iter().filter(|(stream, _)| *stream == Some(of.index));
            cursor.report_faults(&own.map(|(_, fault)| fault.clone()).collect::<Vec<_>>());
        }
        let mut cursor = cursor.with_progress(session.progress.clone());
        selection.stop.iter().for_each(|stop| cursor.stop_at(stop.clone()));
        StreamReader::new(cursor, selection.redactions.as_deref(), choice.as_ref(), of)
    };
    streams.iter().map(cursor).collect()
}

/// The times in ns from which, and to which, all streams of a trace have packets, for each trace; `None` where no stream says
/// when it begins and ends. The first time lies after the last one where no time is in all streams.
pub fn shared_times(session: &Session) -> Result<Vec<Option<(i128, i128)>>> {
    let mut shared: Vec<Option<(i128, i128)>> = vec![None; session.traces.len()];
    for of in streams(session, &[])? {
        let packets = &of.stream.packets;
        let (Some(clock), Some(last)) = (of.clock, packets.len().checked_sub(1)) else { continue };
        let (Some(begin), Some(end)) = (packets.begin_cycles(0), packets.end_cycles(last)) else { continue };
        let (begin, end) = (clock.ns(begin), clock.ns(end));
        let known = &mut shared[of.trace];
        *known = Some(known.map_or((begin, end), |(first, last)| (begin.max(first), end.min(last))));
    }
    Ok(shared)
}

/// The clock values from one time to another, `None` when there are none.
pub fn cycle_range(clock: &ClockMap, begin_ns: Option<i128>, end_ns: Option<i128>) -> Option<(u64, u64)> {
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

/// Order of streams at equal times (`docs/cli.md`, "Order"), most important first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey<'a> {
    no_uuid: bool,
    uuid: Option<[u8; 16]>,
    trace_name: &'a [u8],
    class_id: u64,
    stream: u64,
}

/// The rank of each of the streams among those of equal time.
pub fn ranks(session: &Session, streams: &[SelectedStream]) -> Vec<Rank> {
    let key = |of: &SelectedStream| {
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
