//! Reading a session once, and what is kept of it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_engine::collector::Collector;
use tracemill_engine::event::Event;
use tracemill_engine::events::{Events, Step};
use tracemill_engine::item::StreamPlace;
use tracemill_engine::merge::Note;
use tracemill_engine::selection::SelectedStream;
use tracemill_model::error::Error;
use tracemill_model::packet::{Gap, GapKind, Packet};

use crate::block::KindMask;
use crate::checkpoints::{BATCH, BETWEEN, Checkpoints};
use crate::events::EventColumns;
use crate::kinds::{KindReader, StreamTracks, TrackKind};
use crate::progress::Progress;
use crate::set::EventSet;
use crate::source::{Source, in_reach};
use crate::timeline::{Timeline, TrackOf};
use crate::track::Track;

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
pub struct LossRange {
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
    /// From when to when they are missing, as far as its packet says.
    pub range: Option<(i128, i128)>,
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
    pub losses: Vec<LossRange>,
    /// Errors of reading.
    pub faults: Vec<Fault>,
    /// Warnings of the reading, each once.
    pub warnings: Vec<Error>,
    /// Events without time.
    pub untimed: u64,
    pub(crate) columns: EventColumns,
    pub(crate) places: Arc<Checkpoints>,
    pub(crate) kinds: Vec<TrackKind>,
    /// How it is extended when the traces grow; `None` where it was kept.
    pub(crate) growth: Option<GrowthState>,
}

/// Where an index can be extended.
#[derive(Clone, Default)]
pub(crate) struct GrowthState {
    /// The state of the reading at each of the checkpoints.
    pub(crate) known: Vec<KnownThere>,
    /// For each stream, the number after that of its last event; 0 when it has none.
    pub(crate) after_last: Vec<usize>,
    /// For each stream, the place after its last event, as far as it is known.
    pub(crate) last_places: Vec<Option<StreamPlace>>,
}

/// The state of the reading at a checkpoint.
#[derive(Clone, Copy, Default)]
pub(crate) struct KnownThere {
    /// The latest time of an event.
    pub(crate) latest: Option<i128>,
    /// How many kinds, losses and faults there were.
    pub(crate) kinds: usize,
    pub(crate) losses: usize,
    pub(crate) faults: usize,
}

/// Errors whose packets are looked for: more would not be looked at, and each search goes through all packets.
const LOOKED_UP: usize = 512;

/// Reads all events once, whose tracks were counted. `None` when [`Progress::stop`] was set on the way.
pub fn read(timeline: &Timeline, source: &Source<'_>, progress: &Progress) -> Option<Index> {
    let mut reading = IndexReading::new(timeline, source);
    let events = source.events_until(source.selection.jobs, Some(&progress.stop));
    reading.read(events, source, progress, |index, seen| index.count(&seen))?;
    Some(reading.finish())
}

/// The events, by number, that somebody wants. `None` when `stop` was set on the way: the answer is not wanted any
/// more.
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
        |_| ControlFlow::Continue(()),
    );
    (!stop.load(Ordering::Relaxed)).then_some(set)
}

/// Reads events into an index.
pub(crate) struct IndexReading<'t> {
    timeline: &'t Timeline,
    pub(crate) index: Index,
    pub(crate) kinds: KindReader,
    pub(crate) latest: Option<i128>,
    pub(crate) warnings: Collector,
    pub(crate) places: Checkpoints,
    pub(crate) growth: GrowthState,
}

/// An event that was read.
pub(crate) struct SeenEvent {
    pub(crate) track: usize,
    pub(crate) name: u32,
    pub(crate) ns: Option<i128>,
    /// Its ns since the origin, when it is in reach.
    pub(crate) time: Option<i64>,
}

impl<'t> IndexReading<'t> {
    fn new(timeline: &'t Timeline, source: &Source<'_>) -> IndexReading<'t> {
        let empty = |track: &TrackOf<'_>| {
            let counted = track.counted()?;
            Some(Track { events: 0, untimed: 0, range: None, ..counted.clone() })
        };
        let tracks = timeline.tracks().iter().filter_map(empty).collect();
        let kinds = KindReader::new(source.session, source.streams, StreamTracks::new(timeline, source), Vec::new());
        IndexReading::of_tracks(timeline, tracks, kinds, source.streams.len())
    }

    /// A reading that has seen nothing yet of some tracks.
    pub(crate) fn of_tracks(
        timeline: &'t Timeline,
        tracks: Vec<Track>,
        kinds: KindReader,
        streams: usize,
    ) -> IndexReading<'t> {
        IndexReading {
            timeline,
            index: Index {
                tracks,
                origin: timeline.origin,
                begin: 0,
                end: 0,
                losses: Vec::new(),
                faults: Vec::new(),
                warnings: Vec::new(),
                untimed: 0,
                names: Vec::new(),
                columns: EventColumns::default(),
                places: Arc::default(),
                kinds: Vec::new(),
                growth: None,
            },
            kinds,
            latest: None,
            warnings: Collector::default(),
            places: Checkpoints::default(),
            growth: GrowthState { after_last: vec![0; streams], ..GrowthState::default() },
        }
    }

    /// Reads all events that there are, and shows each. `None` when [`Progress::stop`] was set on the way.
    pub(crate) fn read(
        &mut self,
        mut events: Events<'_>,
        source: &Source<'_>,
        progress: &Progress,
        mut seen: impl FnMut(&mut Index, SeenEvent),
    ) -> Option<()> {
        // Places take memory for each stream.
        let between = BETWEEN.max((source.streams.len() * 64).next_multiple_of(BETWEEN));
        // A batch may end up to its length before the number from which somebody wants to read.
        let place_after = |count: usize| (count + BATCH + 1).next_multiple_of(between) - BATCH;
        let mut next_place = place_after(self.index.columns.len());
        while let Some(step) = events.next() {
            match step {
                Step::Event(stream, event) => {
                    let event = self.add_event(stream, &event);
                    seen(&mut self.index, event);
                }
                Step::Note(note) => self.add_note(source.streams, note),
            }
            let count = self.index.columns.len();
            if count >= next_place
                && let Some(found) = events.places()
            {
                self.places.push(count, found.into());
                let Index { losses, faults, .. } = &self.index;
                let (kinds, losses, faults) = (self.kinds.kinds.len(), losses.len(), faults.len());
                self.growth.known.push(KnownThere { latest: self.latest, kinds, losses, faults });
                next_place = place_after(count);
            }
            if count.is_multiple_of(4096) {
                progress.events.store(count as u64, Ordering::Relaxed);
                progress.wait();
                if progress.stop.load(Ordering::Relaxed) {
                    return None;
                }
            }
        }
        self.growth.last_places = events.last_places();
        (!progress.stop.load(Ordering::Relaxed)).then_some(())
    }

    fn add_event(&mut self, stream: usize, event: &Event<'_>) -> SeenEvent {
        let kind = self.kinds.kind(stream, event);
        let index = &mut self.index;
        index.tracks.append(&mut self.kinds.new_tracks);
        let TrackKind { track, name } = self.kinds.kinds[kind as usize];
        let time = event.ns.and_then(|ns| {
            self.latest = Some(self.latest.map_or(ns, |latest| latest.max(ns)));
            in_reach(index.origin, ns).then_some((ns - index.origin) as i64)
        });
        index.columns.push(time, kind);
        self.growth.after_last[stream] = index.columns.len();
        SeenEvent { track: track as usize, name, ns: event.ns, time }
    }

    fn add_note(&mut self, streams: &[SelectedStream], note: Note) {
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
                let track = self.kinds.tracks.of_stream[at].map(|track| track as usize);
                self.index.losses.push(LossRange { track, kind, count, begin: ns(begin_cycles), end: ns(end_cycles) });
            }
            Note::Fault(error) => {
                let is_looked_up = self.index.faults.len() < LOOKED_UP;
                let (stream, packet) = is_looked_up.then(|| damaged(streams, &error)).flatten().unzip();
                let track = stream.and_then(|stream| self.kinds.tracks.of_stream[stream]).map(|track| track as usize);
                // Events before it in the packet were read.
                let range = packet.flatten().map(|(begin, end)| (self.latest.unwrap_or(begin).clamp(begin, end), end));
                self.index.faults.push(Fault { error: Arc::new(error), after: self.latest, track, range });
            }
            Note::Warning(warning) => self.warnings.warning(warning),
        }
    }

    pub(crate) fn finish(mut self) -> Index {
        self.index.columns.seal();
        self.index.kinds = self.kinds.kinds;
        self.index.places = Arc::new(self.places);
        self.index.growth = Some(self.growth);
        self.index.names = self.timeline.names().list().iter().map(|name| name.to_string()).collect();
        (_, self.index.warnings) = self.warnings.take();
        self.index.end = self.latest.unwrap_or(0);
        let ranges = || self.index.tracks.iter().filter_map(|track| track.range);
        // The first event of all may have a later time than one after it.
        self.index.begin = ranges().map(|(first, _)| first).min().unwrap_or(self.index.origin);
        self.index
    }
}

/// The stream that an error of reading is about, and the times of its packet. CPUs may share a file and count its packets each
/// for itself: an offset tells their streams apart, and the number of a packet does not.
fn damaged(streams: &[SelectedStream], error: &Error) -> Option<(usize, Option<(i128, i128)>)> {
    let place = error.place();
    let path = place.file.as_ref()?;
    let of_file = |of: &SelectedStream| of.stream.files.iter().position(|file| file.path == *path);
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
    /// Counts an event on its track.
    pub(crate) fn count(&mut self, seen: &SeenEvent) {
        let track = &mut self.tracks[seen.track];
        track.events += 1;
        if let Some(ns) = seen.ns {
            track.range = Some(track.range.map_or((ns, ns), |(first, last)| (first.min(ns), last.max(ns))));
        }
        if seen.time.is_none() {
            track.untimed += 1;
            self.untimed += 1;
        }
    }

    /// Could what is kept of the events not be read any more? Then answers lack some.
    pub fn is_broken(&self) -> bool {
        self.columns.is_broken()
    }

    /// Reads again what an index that was kept does not have of single events, by some threads. Who asks for a part meanwhile
    /// gets it at once. It ends when [`Progress::stop`] is set.
    pub fn fill(&self, jobs: usize, progress: &Progress) {
        self.columns.fill(jobs, progress);
    }

    /// Memory of what is kept of each event, in bytes.
    pub fn bytes(&self) -> usize {
        self.columns.bytes() + self.places.bytes()
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

    /// Where to read from to meet an event soon: the places of all streams, and the number of the event after them. `None`
    /// where that is the beginning.
    pub fn place_before(&self, event: usize) -> Option<(&[StreamPlace], usize)> {
        self.places.before(event)
    }

    /// The kinds of the events of some tracks.
    pub(crate) fn kinds_of(&self, is_meant: impl Fn(usize) -> bool) -> KindMask {
        let kinds = self.kinds.iter().zip(0..);
        KindMask::from_kinds(kinds.filter(|(kind, _)| is_meant(kind.track as usize)).map(|(_, at)| at))
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
