//! Reading a session once, and what is kept of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_engine::collector::Collector;
use tracemill_engine::event::Event;
use tracemill_engine::events::Step;
use tracemill_engine::item::{Flow, Place};
use tracemill_engine::merge::Note;
use tracemill_engine::selection::StreamOf;
use tracemill_model::error::Error;
use tracemill_model::packet::{Gap, GapKind, Packet};

use crate::events::{Columns, KindMask};
use crate::progress::Progress;
use crate::set::EventSet;
use crate::timeline::{Source, Timeline, TrackOf, TrackReader, in_reach};

/// A base track: every event of the session stands on one of them.
#[derive(Clone, Debug)]
pub struct Track {
    /// Index of its trace in the session.
    pub trace: usize,
    /// The stream, by index in the trace; `None` for a track that the trace numbers itself.
    pub stream: Option<usize>,
    /// Its name.
    pub name: String,
    /// Its events.
    pub events: u64,
    /// Events without a time, among them.
    pub untimed: u64,
    /// Times of the first and the last event, in ns.
    pub range: Option<(i128, i128)>,
}

/// The kind of things that are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossKind {
    /// Events that the producer discarded.
    Events,
    /// Packets that are not there.
    Packets,
}

/// A stretch of time in which events are missing.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The base track; `None` when its stream has none.
    pub track: Option<usize>,
    /// The kind of things that are missing.
    pub kind: LossKind,
    /// How many, when that is known.
    pub count: Option<u64>,
    /// Its beginning in ns, when that is known.
    pub begin: Option<i128>,
    /// Its end.
    pub end: Option<i128>,
}

/// A part of the session that could not be read.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The error, with its place.
    pub error: Arc<Error>,
    /// The time of the event before it, in ns.
    pub after: Option<i128>,
    /// The base track that lacks events.
    pub track: Option<usize>,
    /// From when to when they are missing, as far as its packet tells.
    pub range: Option<(i128, i128)>,
}

/// A kind of events: a track and a name.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) track: u32,
    pub(crate) name: u32,
}

/// The index of a session.
pub struct Index {
    /// The base tracks, in the order of traces and streams.
    pub tracks: Vec<Track>,
    /// Names of events.
    pub names: Vec<String>,
    /// Buckets are counted from here, in ns.
    pub origin: i128,
    /// Time of the first event in ns.
    pub begin: i128,
    /// Time of the last event.
    pub end: i128,
    /// Stretches in which something is missing.
    pub losses: Vec<Loss>,
    /// Errors of reading.
    pub faults: Vec<Fault>,
    /// Warnings of the reading, each once.
    pub warnings: Vec<Error>,
    /// Events without time.
    pub untimed: u64,
    pub(crate) columns: Columns,
    /// Places of all streams, and the number of the event behind them.
    pub(crate) places: Vec<(usize, Box<[Place]>)>,
    pub(crate) kinds: Vec<Kind>,
}

/// Errors whose packets are looked for: nobody looks at more of them, and each search goes through all packets.
const LOOKED_UP: usize = 512;
/// Events between places from which they can be read.
const BETWEEN: usize = 1 << 16;

/// Reads all events once, whose tracks were counted. `None` when [`Progress::stop`] was set on the way.
pub fn read(timeline: &Timeline, source: &Source<'_>, progress: &Progress) -> Option<Index> {
    let mut reading = Reading::new(timeline, source);
    let mut events = source.events_until(source.selection.jobs, Some(&progress.stop));
    // Places take memory for each stream.
    let between = BETWEEN.max(source.streams.len() * 64);
    let mut next_place = between;
    while let Some(step) = events.next() {
        match step {
            Step::Event(stream, event) => reading.take(stream, &event),
            Step::Note(note) => reading.note(source.streams, note),
        }
        let count = reading.index.columns.len();
        if count >= next_place
            && let Some(places) = events.places()
        {
            reading.index.places.push((count, places.into()));
            next_place = count + between;
        }
        if reading.index.columns.len().is_multiple_of(4096) {
            progress.events.store(reading.index.columns.len() as u64, Ordering::Relaxed);
            progress.wait();
            if progress.stop.load(Ordering::Relaxed) {
                return None;
            }
        }
    }
    (!progress.stop.load(Ordering::Relaxed)).then(|| reading.finish())
}

/// The events, by number, that somebody wants. `None` when `stop` was set on the way: nobody wants to know any more.
pub fn matching(
    source: &Source<'_>,
    stop: &Arc<AtomicBool>,
    mut is_wanted: impl FnMut(&Event<'_>) -> bool,
) -> Option<EventSet> {
    let mut set = EventSet::default();
    let mut number = 0usize;
    let events = source.events_until(source.selection.jobs, Some(stop));
    events.for_each(
        |event| {
            if is_wanted(event) {
                set.push(number);
            }
            number += 1;
        },
        |_| Flow::Continue,
    );
    (!stop.load(Ordering::Relaxed)).then_some(set)
}

/// Not looked up yet, and different for each event.
const UNKNOWN: u32 = u32::MAX;
const OWN: u32 = u32::MAX - 1;

struct Reading<'t> {
    timeline: &'t Timeline,
    index: Index,
    /// For each stream, its base track.
    track_of: Vec<Option<u32>>,
    /// For each stream and class, the kind of its events.
    kind_of: Vec<Vec<u32>>,
    of_pair: HashMap<(u32, u32), u32>,
    /// Tracks that traces number themselves.
    of_number: HashMap<(usize, i128), u32>,
    reader: TrackReader,
    name: Vec<u8>,
    latest: Option<i128>,
    warnings: Collector,
}

impl<'t> Reading<'t> {
    fn new(timeline: &'t Timeline, source: &Source<'_>) -> Reading<'t> {
        let mut track_of = vec![None; source.streams.len()];
        let mut of_number = HashMap::new();
        let tracks = timeline.tracks();
        for (at, track) in tracks.iter().enumerate() {
            match track.number() {
                Some(number) => drop(of_number.insert((track.who(source).0, number), at as u32)),
                None => track.streams().iter().for_each(|stream| track_of[*stream] = Some(at as u32)),
            }
        }
        let empty = |track: &TrackOf<'_>| {
            let counted = track.counted()?;
            Some(Track { events: 0, untimed: 0, range: None, ..counted.clone() })
        };
        let classes = |of: &StreamOf| vec![UNKNOWN; source.session.traces[of.trace].schema.events().len()];
        Reading {
            timeline,
            index: Index {
                tracks: tracks.iter().filter_map(empty).collect(),
                origin: timeline.origin,
                begin: 0,
                end: 0,
                losses: Vec::new(),
                faults: Vec::new(),
                warnings: Vec::new(),
                untimed: 0,
                names: Vec::new(),
                columns: Columns::default(),
                places: Vec::new(),
                kinds: Vec::new(),
            },
            track_of,
            kind_of: source.streams.iter().map(classes).collect(),
            of_pair: HashMap::new(),
            of_number,
            reader: TrackReader::new(source.session),
            name: Vec::new(),
            latest: None,
            warnings: Collector::default(),
        }
    }

    fn take(&mut self, stream: usize, event: &Event<'_>) {
        let class = event.raw.class().0 as usize;
        let known = self.kind_of[stream].get(class).copied().unwrap_or(OWN);
        let kind = match known {
            OWN => self.look_up(stream, event),
            UNKNOWN => {
                let kind = self.look_up(stream, event);
                let is_own = self.track_of[stream].is_none() || event.class().name.is_none();
                self.kind_of[stream][class] = if is_own { OWN } else { kind };
                kind
            }
            kind => kind,
        };
        let index = &mut self.index;
        let track = &mut index.tracks[index.kinds[kind as usize].track as usize];
        track.events += 1;
        let time = event.ns.and_then(|ns| {
            self.latest = Some(self.latest.map_or(ns, |latest| latest.max(ns)));
            track.range = Some(track.range.map_or((ns, ns), |(first, last)| (first.min(ns), last.max(ns))));
            in_reach(index.origin, ns).then_some((ns - index.origin) as i64)
        });
        if time.is_none() {
            track.untimed += 1;
            index.untimed += 1;
        }
        index.columns.push(time, kind);
    }

    /// The kind of an event.
    #[cold]
    fn look_up(&mut self, stream: usize, event: &Event<'_>) -> u32 {
        let track = match self.track_of[stream] {
            Some(track) => track,
            None => self.own_track(event),
        };
        let name = self.timeline.names().number(event.name(&mut self.name).unwrap_or_default());
        let Reading { index, of_pair, .. } = self;
        *of_pair.entry((track, name)).or_insert_with(|| {
            index.kinds.push(Kind { track, name });
            index.kinds.len() as u32 - 1
        })
    }

    /// The track of an event whose trace numbers tracks itself.
    fn own_track(&mut self, event: &Event<'_>) -> u32 {
        let number = self.reader.track(event).unwrap_or(-1);
        let (tracks, reader) = (&mut self.index.tracks, &mut self.reader);
        *self.of_number.entry((event.trace, number)).or_insert_with(|| {
            let name = reader.name(number, event);
            tracks.push(Track { trace: event.trace, stream: None, name, events: 0, untimed: 0, range: None });
            tracks.len() as u32 - 1
        })
    }

    fn note(&mut self, streams: &[StreamOf], note: Note) {
        match note {
            Note::Gap(stream, gap) => {
                let at = stream.0 as usize;
                let Gap { kind, count, begin_cycles, end_cycles } = gap;
                let clock = streams[at].clock.as_ref();
                let ns = |cycles: Option<u64>| cycles.zip(clock).map(|(cycles, clock)| clock.ns(cycles));
                let kind = match kind {
                    GapKind::DiscardedEvents => LossKind::Events,
                    GapKind::LostPackets => LossKind::Packets,
                };
                let track = self.track_of[at].map(|track| track as usize);
                self.index.losses.push(Loss { track, kind, count, begin: ns(begin_cycles), end: ns(end_cycles) });
            }
            Note::Fault(error) => {
                let is_looked_up = self.index.faults.len() < LOOKED_UP;
                let (stream, packet) = is_looked_up.then(|| damaged(streams, &error)).flatten().unzip();
                let track = stream.and_then(|stream| self.track_of[stream]).map(|track| track as usize);
                // Events before it in the packet were read.
                let range = packet.flatten().map(|(begin, end)| (self.latest.unwrap_or(begin).clamp(begin, end), end));
                self.index.faults.push(Fault { error: Arc::new(error), after: self.latest, track, range });
            }
            Note::Warning(warning) => self.warnings.warning(warning),
        }
    }

    fn finish(mut self) -> Index {
        self.index.columns.seal();
        self.index.names = self.timeline.names().list().iter().map(|name| name.to_string()).collect();
        (_, self.index.warnings) = self.warnings.take();
        self.index.end = self.latest.unwrap_or(0);
        let ranges = || self.index.tracks.iter().filter_map(|track| track.range);
        // The first event of all may have a later time than one behind it.
        self.index.begin = ranges().map(|(first, _)| first).min().unwrap_or(self.index.origin);
        self.index
    }
}

/// The stream that an error of reading is about, and the times of its packet. CPUs may share a file and count its packets each
/// for itself: an offset tells their streams apart, and the number of a packet does not.
fn damaged(streams: &[StreamOf], error: &Error) -> Option<(usize, Option<(i128, i128)>)> {
    let place = error.place();
    let path = place.file.as_ref()?;
    let of_file = |of: &StreamOf| of.stream.files.iter().position(|file| file.path == *path);
    let own: Vec<(usize, usize)> = streams.iter().enumerate().filter_map(|(at, of)| Some((at, of_file(of)?))).collect();
    let find = |is_it: &dyn Fn(&Packet) -> bool| {
        own.iter().find_map(|(at, file)| {
            let mut packets = streams[*at].stream.packets.iter();
            Some((*at, packets.find(|packet| packet.file as usize == *file && is_it(packet))?))
        })
    };
    let has_number = |packet: &Packet| place.packet.is_some_and(|number| packet.index == number);
    let by_offset = place.offset.and_then(|offset| {
        let holds = |packet: &Packet| {
            offset.checked_sub(packet.offset_bytes).is_some_and(|into| into < packet.total_bits.div_ceil(8))
        };
        // Parts of what was packed in one have one offset.
        find(&|packet| holds(packet) && has_number(packet)).or_else(|| find(&holds))
    });
    let is_alone = own.len() == 1;
    let Some((at, packet)) = by_offset.or_else(|| is_alone.then(|| find(&has_number)).flatten()) else {
        return is_alone.then(|| (own[0].0, None));
    };
    let ns = |cycles: Option<u64>| Some(streams[at].clock.as_ref()?.ns(cycles?));
    let range = ns(packet.begin_cycles).zip(ns(packet.end_cycles)).map(|(begin, end)| (begin, end.max(begin)));
    Some((at, range))
}

impl Index {
    /// Could what is kept of the events not be read any more? Then answers lack some.
    pub fn is_broken(&self) -> bool {
        self.columns.is_broken()
    }

    /// Memory of what is kept of each event, in bytes.
    pub fn bytes(&self) -> usize {
        let places: usize = self.places.iter().map(|(_, places)| places.len() * size_of::<Place>()).sum();
        self.columns.bytes() + places
    }

    /// Number of all events.
    pub fn events(&self) -> usize {
        self.columns.len()
    }

    /// The time of an event in ns.
    pub fn ns(&self, event: usize) -> Option<i128> {
        self.columns.time(event).map(|time| self.origin + i128::from(time))
    }

    /// Name of an event, and its base track.
    pub fn kind(&self, event: usize) -> Option<(&str, usize)> {
        let kind = self.kinds.get(self.columns.kind(event)? as usize)?;
        Some((&self.names[kind.name as usize], kind.track as usize))
    }

    /// The number of the first event that is not before a time.
    pub fn first_from(&self, ns: i128) -> Option<usize> {
        self.columns.first_from(since(self.origin, ns))
    }

    /// Where to read from to meet an event soon: the places of all streams, and the number of the event behind them. `None`
    /// where that is the beginning.
    pub fn place_before(&self, event: usize) -> Option<(&[Place], usize)> {
        let at = self.places.partition_point(|(number, _)| *number <= event).checked_sub(1)?;
        let (number, places) = &self.places[at];
        Some((places, *number))
    }

    /// The kinds of the events of some tracks.
    pub(crate) fn kinds_of(&self, is_meant: impl Fn(usize) -> bool) -> KindMask {
        let kinds = self.kinds.iter().zip(0..);
        KindMask::of(kinds.filter(|(kind, _)| is_meant(kind.track as usize)).map(|(_, at)| at))
    }

    /// The part of the timeline from one time to another, in ns since the origin.
    pub(crate) fn range(&self, begin: i128, end: i128) -> (i64, i64) {
        (since(self.origin, begin), since(self.origin, end))
    }
}

/// Ns since the origin, as near as the columns can hold them: people may ask for any time.
fn since(origin: i128, ns: i128) -> i64 {
    ns.saturating_sub(origin).clamp((i64::MIN + 1).into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_may_be_asked_for() {
        let origin = 1_795_249_870_212_652_163;
        assert_eq!(since(origin, origin + 5), 5);
        assert_eq!((since(origin, i128::MIN), since(origin, i128::MAX)), (i64::MIN + 1, i64::MAX));
        assert_eq!((since(-origin, i128::MIN), since(-origin, i128::MAX)), (i64::MIN + 1, i64::MAX));
    }
}
