//! Contents of a session: streams, packets, classes, times, losses; from headers and indexes, or with every event
//! counted.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracemill_codec::spine::{ScanEnd, SpineSink};
use tracemill_format::{OpenTrace, Stream};
use tracemill_model::error::Error;
use tracemill_model::schema::EventClassId;

use crate::cursor::packets_stand_alone;
use crate::damage::{cut_while_read, skipped, with_loss};
use crate::progress::packet_bytes;
use crate::selection::SelectedStream;
use crate::session::Session;

/// Facts about one stream.
#[derive(Clone, Debug, Default)]
pub struct StreamSurvey {
    /// Events of each packet, when they were counted.
    pub packet_events: Vec<Option<u64>>,
    /// Times of its beginning and end in ns, when known.
    pub begin_ns: Option<i128>,
    /// See `begin_ns`.
    pub end_ns: Option<i128>,
    /// Events that the producer discarded, `None` when it does not count them.
    pub discarded_events: Option<u64>,
    /// Packets that were lost, `None` when they are not numbered.
    pub lost_packets: Option<u64>,
}

impl StreamSurvey {
    /// All events, when they were counted.
    pub fn events(&self) -> Option<u64> {
        self.packet_events.iter().copied().sum()
    }
}

/// Facts about one trace.
#[derive(Clone, Debug, Default)]
pub struct TraceSurvey {
    /// Each stream.
    pub streams: Vec<StreamSurvey>,
    /// Events of each class, when they were counted.
    pub class_events: Option<Vec<u64>>,
    /// Errors met while counting.
    pub faults: Vec<Error>,
}

/// Looks at every trace of a session. `count` reads every event, with `jobs` threads.
pub fn survey(session: &Session, count: bool, jobs: usize) -> Vec<TraceSurvey> {
    if count {
        let streams = session.traces.iter().flat_map(|trace| &trace.streams);
        session
            .progress
            .add_total(streams.flat_map(|stream| &stream.packets).map(|packet| packet_bytes(&packet)).sum());
    }
    let traces = session.traces.iter().enumerate();
    traces
        .map(|(at, trace)| {
            let streams = trace.streams.iter().map(|stream| from_headers(session, at, stream));
            let mut survey = TraceSurvey { streams: streams.collect(), ..TraceSurvey::default() };
            if count {
                count_events(session, at, trace, jobs, &mut survey);
            }
            survey
        })
        .collect()
}

fn from_headers(session: &Session, trace: usize, stream: &Stream) -> StreamSurvey {
    let clock = session.clock_map(trace, stream.class);
    let ns = |cycles: Option<u64>| clock.as_ref().and_then(|clock| cycles.map(|cycles| clock.ns(cycles)));
    let packets = &stream.packets;
    let has_counter = packets.iter().any(|packet| packet.discarded_snapshot.is_some());
    let has_numbers = packets.iter().any(|packet| packet.sequence.is_some());
    StreamSurvey {
        packet_events: vec![None; packets.len()],
        begin_ns: packets.iter().filter_map(|packet| ns(packet.begin_cycles)).min(),
        end_ns: packets.iter().filter_map(|packet| ns(packet.end_cycles)).max(),
        discarded_events: has_counter.then(|| sum(&mut packets.iter().map(|packet| packet.discarded_before))),
        lost_packets: has_numbers.then(|| sum(&mut packets.iter().map(|packet| packet.lost_packets_before))),
    }
}

/// The sum of what counters say: damaged ones say anything.
fn sum(counts: &mut dyn Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Counts events by class and follows the largest and smallest time.
struct Counter<'a> {
    classes: &'a mut [u64],
    events: u64,
    first: u64,
    last: u64,
}

impl SpineSink for Counter<'_> {
    #[inline]
    fn event(&mut self, class: EventClassId, cycles: u64, _start_bits: u64, _body_bits: u64) -> bool {
        if let Some(count) = self.classes.get_mut(class.0 as usize) {
            *count += 1;
        }
        self.events += 1;
        self.first = self.first.min(cycles);
        self.last = self.last.max(cycles);
        true
    }
}

struct Counted {
    packet: usize,
    events: u64,
    times: Option<(u64, u64)>,
    faults: Vec<Error>,
    /// Was its file cut while it was read?
    is_cut: bool,
}

/// Events of consecutive packets, counted by one thread: of a packet only their number is kept, where there is no more to
/// say of it.
struct Tally {
    stream: usize,
    from: usize,
    events: Vec<u64>,
    /// Of packets that do not say when they began.
    times_ns: Option<(i128, i128)>,
    /// Packets with faults.
    damaged: Vec<Counted>,
}

/// Tasks of a stream at most: many tiny packets make one.
const MAX_TASKS: usize = 4096;

fn count_events(session: &Session, at: usize, trace: &OpenTrace, jobs: usize, survey: &mut TraceSurvey) {
    // Packets with beginnings are counted by all threads; a stream without them goes on from packet to packet.
    let mut tasks: Vec<(usize, std::ops::Range<usize>)> = trace
        .streams
        .iter()
        .enumerate()
        .flat_map(|(at, stream)| {
            let len = stream.packets.len();
            let step = if packets_stand_alone(stream) { len.div_ceil(MAX_TASKS) } else { len };
            (0..len).step_by(step.max(1)).map(move |from| (at, from..(from + step).min(len)))
        })
        .collect();
    // Where streams share a file, its parts are read once, for all of them.
    tasks.sort_by_cached_key(|(at, packets)| {
        let stream = &trace.streams[*at];
        let first = stream.packets.at(packets.start);
        (stream.files.get(first.file as usize).map(|file| file.path.clone()), first.offset_bytes, packets.start)
    });
    let next = AtomicUsize::new(0);
    let results: Mutex<(Vec<u64>, Vec<Tally>)> = Mutex::new((vec![0; trace.schema.events().len()], Vec::new()));
    let work = || {
        let mut classes = vec![0u64; trace.schema.events().len()];
        let mut counted = Vec::new();
        while let Some((stream, packets)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            counted.push(tally(session, at, trace, *stream, packets.clone(), &mut classes));
            let packets = trace.streams[*stream].packets.range(packets.clone());
            session.progress.add_done(packets.map(|packet| packet_bytes(&packet)).sum());
        }
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        results.0.iter_mut().zip(classes).for_each(|(sum, count)| *sum += count);
        results.1.append(&mut counted);
    };
    if jobs <= 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(work);
            }
        });
    }
    let (classes, mut counted) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    counted.sort_by_key(|tally| (tally.stream, tally.from));
    survey.class_events = Some(classes);
    let mut cut: Vec<std::path::PathBuf> = Vec::new();
    for tally in counted {
        let (of, stream) = (&trace.streams[tally.stream], &mut survey.streams[tally.stream]);
        for (packet, events) in (tally.from..).zip(tally.events) {
            stream.packet_events[packet] = Some(events);
        }
        if let Some((first, last)) = tally.times_ns {
            stream.begin_ns = Some(stream.begin_ns.map_or(first, |ns| ns.min(first)));
            stream.end_ns = Some(stream.end_ns.map_or(last, |ns| ns.max(last)));
        }
        for mut one in tally.damaged {
            if one.is_cut {
                let path = &of.files[of.packets.at(one.packet).file as usize].path;
                // Once for each file.
                if cut.contains(path) {
                    one.faults.clear();
                } else {
                    cut.push(path.clone());
                }
            }
            survey.faults.extend(one.faults);
        }
    }
    // A file may have been cut while its last packet was read.
    for file in trace.streams.iter().flat_map(|stream| &stream.files) {
        let len_now = file.bytes.len_now();
        if len_now < file.bytes.bytes().len() as u64 && !cut.contains(&file.path) {
            cut.push(file.path.clone());
            survey.faults.push(cut_while_read(len_now).in_file(&file.path));
        }
    }
}

fn tally(
    session: &Session,
    at: usize,
    trace: &OpenTrace,
    stream: usize,
    packets: std::ops::Range<usize>,
    classes: &mut [u64],
) -> Tally {
    let mut tally = Tally { stream, from: packets.start, events: Vec::new(), times_ns: None, damaged: Vec::new() };
    count_packets(trace, stream, packets, classes, |one| {
        tally.events.push(one.events);
        let packet = trace.streams[stream].packets.at(one.packet);
        if packet.begin_cycles.is_none()
            && let (Some((first, last)), Some(clock)) = (one.times, session.clock_map(at, packet.class))
        {
            let (first, last) = (clock.ns(first), clock.ns(last));
            let (begin, end) = tally.times_ns.unwrap_or((first, last));
            tally.times_ns = Some((begin.min(first), end.max(last)));
        }
        if one.is_cut || !one.faults.is_empty() {
            tally.damaged.push(one);
        }
    });
    tally
}

/// Counts the events of packets, and gives each packet to `each`.
fn count_packets(
    trace: &OpenTrace,
    at: usize,
    packets: std::ops::Range<usize>,
    classes: &mut [u64],
    mut each: impl FnMut(Counted),
) {
    let stream = &trace.streams[at];
    let (mut clock, is_alone) = (0, packets_stand_alone(stream));
    for index in packets {
        if is_alone {
            clock = 0;
        }
        let packet = &stream.packets.at(index);
        let file = &stream.files[packet.file as usize];
        let mut one = Counted { packet: index, events: 0, times: None, faults: Vec::new(), is_cut: false };
        let place = |error: Error| error.in_file(&file.path).in_packet(packet.index);
        // Asked once for a packet: it is a call of the system.
        let len_now = file.bytes.len_now();
        let is_cut = len_now < packet.offset_bytes.saturating_add(packet_bytes(packet))
            && len_now < file.bytes.bytes().len() as u64;
        match trace.reader.open_packet(&trace.plans, stream, index, clock) {
            Err(error) => one.faults.push(place(with_loss(error, &trace.schema, packet))),
            Ok(opened) => {
                one.faults.extend(opened.faults.into_iter().map(place));
                let mut data = opened.data;
                if is_cut && data.is_in_place() {
                    // Bytes that are gone would be counted as events.
                    let left_bits = len_now.saturating_sub(packet.offset_bytes).saturating_mul(8);
                    data.packet.content_bits = data.packet.content_bits.min(left_bits);
                }
                let mut counter = Counter { classes, events: 0, first: u64::MAX, last: 0 };
                let (mut pos, mut state) = (data.first_event(), data.state.clone());
                let end = data.scan(&mut pos, &mut state, &mut counter);
                one.events = counter.events;
                one.times = (counter.events > 0).then_some((counter.first, counter.last));
                if let ScanEnd::Fault(fault) = end {
                    one.faults.push(place(data.error(&fault)).with_help(skipped(&trace.schema, &data.packet, pos)));
                }
                clock = state.clock;
            }
        }
        if is_cut {
            // Bytes that are gone read as zeros: events found there are not valid.
            one.faults = vec![place(cut_while_read(len_now))];
            one.is_cut = true;
        }
        each(one);
    }
}

/// Times of the first and the last event of a session in ns: `want` says which are needed. Reads the packets at the
/// ends of each stream, no other.
pub fn ends(session: &Session, want: (bool, bool)) -> (Option<i128>, Option<i128>) {
    let traces = session.traces.iter().enumerate();
    ends_in(session, traces.flat_map(|(at, trace)| (0..trace.streams.len()).map(move |stream| (at, stream))), want)
}

/// Times of the first and the last event of some streams: see [`ends`].
pub fn ends_of(session: &Session, streams: &[SelectedStream], want: (bool, bool)) -> (Option<i128>, Option<i128>) {
    ends_in(session, streams.iter().map(|of| (of.trace, of.index)), want)
}

/// Times of the first and the last event of a trace: see [`ends`].
pub fn ends_of_trace(session: &Session, trace: usize, want: (bool, bool)) -> (Option<i128>, Option<i128>) {
    ends_in(session, (0..session.traces[trace].streams.len()).map(|stream| (trace, stream)), want)
}

fn ends_in(
    session: &Session,
    streams: impl Iterator<Item = (usize, usize)>,
    want: (bool, bool),
) -> (Option<i128>, Option<i128>) {
    let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
    for (at, stream_at) in streams {
        let trace = &session.traces[at];
        let stream = &trace.streams[stream_at];
        let Some(clock) = session.clock_map(at, stream.class) else { continue };
        let times = |packets| {
            let mut times = None;
            count_packets(trace, stream_at, packets, &mut [], |one| {
                if let Some((first, last)) = one.times {
                    let (from, to) = times.unwrap_or((first, last));
                    times = Some((from.min(first), to.max(last)));
                }
            });
            times
        };
        let count = stream.packets.len();
        if !packets_stand_alone(stream) {
            let range = times(0..count);
            firsts.extend(range.map(|(from, _)| clock.ns(from)));
            lasts.extend(range.map(|(_, to)| clock.ns(to)));
            continue;
        }
        let times = |index: usize| times(index..index + 1);
        if want.0 {
            firsts.extend((0..count).find_map(times).map(|(from, _)| clock.ns(from)));
        }
        if want.1 {
            lasts.extend((0..count).rev().find_map(times).map(|(_, to)| clock.ns(to)));
        }
    }
    (firsts.into_iter().min(), lasts.into_iter().max())
}
