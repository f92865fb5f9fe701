//! Integrity and conformance of traces: everything that `print` would meet, and what it passes over.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

use tracemill_format::{DataFile, OpenTrace, Stream};
use tracemill_model::error::Error;
use tracemill_model::packet::GapKind;

use crate::cursor::Cursor;
use crate::item::Item;
use crate::merge::Sources;
use crate::progress::packet_bytes;
use crate::redact::StreamReader;
use crate::selection::SpineFilter;
use crate::session::Session;

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Severity {
    /// A part that cannot be read.
    Fault,
    /// A rule that is broken without loss for the reader.
    Warning,
    /// Events or packets that the producer lost.
    Loss,
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Its message and place.
    pub error: Error,
}

/// Findings of a stream that wait for those of the streams before it; each stream has room for them from the start.
const WAITING: usize = 4;

/// Events of a chunk.
const CHUNK: usize = 8192;

/// Reads everything with `jobs` threads and calls `found` for each finding, in the order of traces and streams. `found`
/// says whether to go on. Returns the number of events.
pub fn check(session: &Session, jobs: usize, mut found: impl FnMut(Finding) -> bool) -> u64 {
    // `None` when the caller wants no more.
    let mut report = |severity, error| found(Finding { severity, error }).then_some(());
    let streams = session.traces.iter().enumerate();
    let streams: Vec<(usize, &Stream)> =
        streams.flat_map(|(at, trace)| trace.streams.iter().map(move |stream| (at, stream))).collect();
    // Where there are fewer streams than threads, these share the parts of a stream.
    let each = (jobs / streams.len().max(1)).max(1);
    let mut events = 0;
    let is_stopped = AtomicBool::new(false);
    let (senders, receivers): (Vec<_>, Vec<_>) = streams.iter().map(|_| sync_channel(WAITING)).unzip();
    let work = Mutex::new(streams.into_iter().zip(senders));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, receivers.len().max(1)) {
            scope.spawn(|| {
                // Streams are begun in their order, so that the one whose findings are waited for is being read.
                let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(((trace, stream), sender)) = next() {
                    let mut send = |count, finding| sender.send((count, finding)).ok();
                    let _ = check_stream(session, (trace, stream), each, &mut send);
                    if is_stopped.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut receivers = receivers.into_iter();
        let checked = check_all(session, &mut report, |report| {
            let before = events;
            receivers.next()?.iter().try_for_each(|(count, finding)| {
                events = before + count;
                finding.map_or(Some(()), |finding: Finding| report(finding.severity, finding.error))
            })
        });
        is_stopped.store(checked.is_none(), Ordering::Relaxed);
    });
    events
}

/// `check_next` reads the next stream.
fn check_all<R: FnMut(Severity, Error) -> Option<()>>(
    session: &Session,
    report: &mut R,
    mut check_next: impl FnMut(&mut R) -> Option<()>,
) -> Option<()> {
    for failure in &session.failures {
        report(Severity::Fault, failure.clone())?;
    }
    let streams = session.traces.iter().flat_map(|trace| &trace.streams);
    session.progress.add_total(streams.flat_map(|stream| &stream.packets).map(|packet| packet_bytes(&packet)).sum());
    for trace in &session.traces {
        for error in trace.warnings.iter().chain(&trace.remarks) {
            report(Severity::Warning, error.clone())?;
        }
        for error in &trace.faults {
            report(Severity::Fault, error.clone())?;
        }
        for error in unreached(trace) {
            report(Severity::Warning, error)?;
        }
        for stream in &trace.streams {
            for error in packets_in_order(stream) {
                report(Severity::Warning, error)?;
            }
            check_next(report)?;
        }
    }
    Some(())
}

/// Reads a stream with so many threads. `report` gets the number of its events so far with each finding, and at the end.
fn check_stream(
    session: &Session,
    (at, stream): (usize, &Stream),
    jobs: usize,
    report: &mut impl FnMut(u64, Option<Finding>) -> Option<()>,
) -> Option<()> {
    let mut events = 0;
    let clock = session.clock_map(at, stream.class);
    let mut cursor = Cursor::new(&session.traces[at], stream.clone().into(), clock, SpineFilter::default(), CHUNK);
    cursor.report_rest();
    // The totals of all streams are known from the start.
    cursor.count_in(session.progress.clone());
    // A packet whose events stand outside its times is reported once.
    let mut reported = None;
    let mut sources = Sources::new(vec![StreamReader::from_cursor(cursor)], jobs, CHUNK);
    while let Some(item) = sources.next(0) {
        let finding = match item {
            Item::Chunk(ready) => {
                let chunk = &ready.chunk;
                events += chunk.len() as u64;
                let packet = &chunk.packet.packet;
                let key = (packet.file, packet.index);
                let outside = (0..chunk.len()).find(|&at| {
                    let cycles = chunk.cycles[at];
                    packet.begin_cycles.is_some_and(|begin| cycles < begin)
                        || packet.end_cycles.is_some_and(|end| cycles > end)
                });
                outside.filter(|_| clock.is_some() && reported != Some(key)).map(|at| {
                    reported = Some(key);
                    let message =
                        format!("an event at {} cycles is outside of the times of its packet", chunk.cycles[at]);
                    let error = Error::inconsistent(message)
                        .at_bit(chunk.packet.file_bit(chunk.start_bits(at)))
                        .in_packet(packet.index)
                        .in_file(&stream.files[packet.file as usize].path);
                    (Severity::Warning, error)
                })
            }
            // Packets are not requested here.
            Item::Packet(..) => None,
            Item::Gap(gap) => {
                let what = match gap.kind {
                    GapKind::DiscardedEvents => ["event was discarded", "events were discarded"],
                    GapKind::LostPackets => ["packet was lost", "packets were lost"],
                };
                let what = what[usize::from(gap.count != Some(1))];
                let count = gap.count.map_or("an unknown number of".to_string(), |count| count.to_string());
                let path = &stream.files[0].path;
                let when = match (gap.begin_cycles, gap.end_cycles) {
                    (Some(begin), Some(end)) => format!("between {begin} and {end} cycles"),
                    _ => "at an unknown time".to_string(),
                };
                let message = format!("{count} {what} {when} in stream `{}`", stream.name);
                Some((Severity::Loss, Error::inconsistent(message).in_file(path)))
            }
            Item::Fault(error) => Some((Severity::Fault, error)),
            Item::Warning(error) => Some((Severity::Warning, error)),
        };
        if let Some((severity, error)) = finding {
            report(events, Some(Finding { severity, error }))?;
        }
    }
    report(events, None)
}

/// Packets whose times are out of order.
fn packets_in_order(stream: &Stream) -> Vec<Error> {
    let mut errors = Vec::new();
    for (at, packet) in stream.packets.iter().enumerate() {
        let mut add = |message: String| {
            let error = Error::inconsistent(message).at_offset(packet.offset_bytes);
            errors.push(error.in_packet(packet.index).in_file(&stream.files[packet.file as usize].path));
        };
        if let (Some(begin), Some(end)) = (packet.begin_cycles, packet.end_cycles)
            && end < begin
        {
            add(format!("the packet ends at {end} cycles, before it begins at {begin}"));
        }
        let previous = at.checked_sub(1).map(|at| stream.packets.at(at));
        if let (Some(end), Some(begin)) = (previous.and_then(|previous| previous.end_cycles), packet.begin_cycles)
            && begin < end
        {
            add(format!("the packet begins at {begin} cycles, before the end of the one before at {end}"));
        }
    }
    errors
}

/// Bytes at the end of files that no packet reaches. Errors that opening has reported are not repeated.
fn unreached(trace: &OpenTrace) -> Vec<Error> {
    let mut ends: Vec<(&DataFile, u64)> = Vec::new();
    let mut places: HashMap<&Path, usize> = HashMap::new();
    for stream in &trace.streams {
        for (number, file) in stream.files.iter().enumerate() {
            let of_file = stream.packets.iter().filter(|packet| packet.file as usize == number);
            let end = of_file.map(|packet| packet.offset_bytes + packet.total_bits.div_ceil(8)).max().unwrap_or(0);
            // Several streams may share a file.
            let place = *places.entry(&file.path).or_insert(ends.len());
            match ends.get_mut(place) {
                Some((_, known)) => *known = end.max(*known),
                None => ends.push((file, end)),
            }
        }
    }
    let mut errors = Vec::new();
    for (file, end) in ends {
        let len = file.bytes.bytes().len() as u64;
        let is_told = |fault: &Error| {
            let place = fault.place();
            place.file.as_ref() == Some(&file.path) && place.offset.is_some_and(|offset| offset >= end)
        };
        if end < len && !trace.faults.iter().any(is_told) && !trace.has_other_bytes {
            let message = format!("{} bytes at the end of the file belong to no packet", len - end);
            errors.push(Error::inconsistent(message).at_offset(end).in_file(&file.path));
        }
    }
    errors
}
