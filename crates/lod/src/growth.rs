//! An index is extended when its traces have grown: it is then what a new one would be.
//!
//! Streams are merged by the events at their heads, so what was given before a checkpoint stays as it is, when the same events
//! stood at the heads of all streams until then. That is certain of a stream that gave events after the checkpoint, too; one
//! that had ended there must go on later than all that was given. From the last checkpoint of which this holds the events are
//! read again, with those that are new: as a rule some ten thousands. Of the others nothing is looked at.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_engine::events::{Events, Step};
use tracemill_engine::item::{ResumePoint, StreamPlace};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_format::Stream;
use tracemill_model::packet::Packet;

use crate::block::UNTIMED;
use crate::index::{Fault, Index, IndexReading, KnownThere, LossRange};
use crate::kinds::{KindReader, StreamTracks, TrackKind};
use crate::progress::Progress;
use crate::source::Source;
use crate::timeline::{Counted, Timeline, always_exact, name_classes};
use crate::track::Track;
use crate::track_trees::TrackTrees;
use crate::tracking::own_tracks;

/// Traces as they were, and the knowledge of them.
#[derive(Clone, Copy)]
pub struct KnownTraces<'k> {
    /// Their density, which was counted.
    pub timeline: &'k Timeline,
    /// Their index.
    pub index: &'k Index,
    /// The part of them that was read.
    pub source: Source<'k>,
}

/// How traces differ from what they were.
pub enum Growth {
    /// They do not.
    Unchanged,
    /// They have more events: what is known of them now, and the first time at which something is new, in ns.
    Extended(Box<(Timeline, Index, i128)>),
    /// Something in them is not what it was: they have to be read anew.
    Changed,
}

/// Can an index of such traces be extended? Their tracks are streams, and all of these have clocks.
pub fn can_grow(source: &Source<'_>) -> bool {
    let (_, has_own_tracks) = own_tracks(source.session);
    !has_own_tracks.contains(&true) && source.streams.iter().all(|of| of.clock.is_some())
}

/// Extends what is known of traces to what they are now. `ends`: the times of the first and the last event now, as far as they are
/// known. When [`Progress::stop`] is set on the way they are given as changed.
pub fn extend(
    known: KnownTraces<'_>,
    source: &Source<'_>,
    ends: (Option<i128>, Option<i128>),
    progress: &Progress,
) -> Growth {
    let Some(streams) = compare(&known, source) else { return Growth::Changed };
    if streams.iter().all(|of| matches!(of.change, StreamChange::Same)) {
        return Growth::Unchanged;
    }
    // Without an event there is no origin yet.
    if known.index.events() == 0 {
        return Growth::Changed;
    }
    // An event before the origin has no place.
    if ends.0.is_some_and(|first| first < known.timeline.origin) {
        return Growth::Changed;
    }
    let always = always_exact(known.timeline.origin, ends.1);
    match Extension::new(known, source, streams).and_then(|extension| extension.read(always, progress)) {
        Some(found) => Growth::Extended(Box::new(found)),
        None => Growth::Changed,
    }
}

/// How a stream differs from what it was.
enum StreamChange {
    Same,
    /// It was not there.
    New,
    /// Its packets from this one on are others.
    From(FirstChange),
}

/// The first packet of a stream that is not what it was.
#[derive(Clone, Copy)]
struct FirstChange {
    packet: usize,
    /// Was it there, with less in it?
    is_in_place: bool,
    /// Does it state other losses?
    has_other_losses: bool,
}

/// A stream, as it is now.
struct StreamGrowth {
    /// Its place among the streams that were there.
    old: Option<usize>,
    change: StreamChange,
    /// Where it is read on after all that was read of it, and the time of the event there.
    next: Option<(ResumePoint, NextTime)>,
}

/// The time of the next event of a stream.
#[derive(Clone, Copy)]
enum NextTime {
    /// There is no event.
    Never,
    At(i128),
    /// It has none.
    Unknown,
}

impl NextTime {
    /// Is it after all that was before?
    fn is_after(self, latest: Option<i128>) -> bool {
        match self {
            NextTime::Never => true,
            NextTime::At(ns) => latest.is_none_or(|latest| ns > latest),
            NextTime::Unknown => false,
        }
    }
}

/// The streams that there are now, beside those that there were; `None` when these are not all there as they were.
fn compare(known: &KnownTraces<'_>, source: &Source<'_>) -> Option<Vec<StreamGrowth>> {
    let growth = known.index.growth.as_ref()?;
    let (before, now) = (known.source.session, source.session);
    let is_same_trace = |at: usize| {
        let (before, now) = (&before.traces[at], &now.traces[at]);
        (&before.path, &before.own_name, before.schema.format) == (&now.path, &now.own_name, now.schema.format)
    };
    let is_same = before.traces.len() == now.traces.len() && (0..now.traces.len()).all(is_same_trace);
    if !is_same || !can_grow(&known.source) || !can_grow(source) {
        return None;
    }
    let key = |of: &SelectedStream| (of.trace, of.stream.name.clone());
    let mut of_key: HashMap<(usize, String), usize> = HashMap::new();
    for (at, of) in known.source.streams.iter().enumerate() {
        if of_key.insert(key(of), at).is_some() {
            return None;
        }
    }
    let mut streams = Vec::with_capacity(source.streams.len());
    // They must stand in the order in which they stood: it decides which of two events at one time is first.
    let mut next_old = 0;
    for of in source.streams {
        let old = of_key.remove(&key(of));
        let change = match old {
            None => StreamChange::New,
            Some(old) if old != next_old => return None,
            Some(old) => change_of(&known.source.streams[old], of)?,
        };
        next_old += usize::from(old.is_some());
        let next = match (&change, old) {
            (StreamChange::From(change), Some(old)) => {
                let is_empty = growth.after_last[old] == 0;
                let point = point_after(of, *change, growth.last_places[old], is_empty);
                point.map(|point| (point, next_time(now, of, source.selection, Some(point))))
            }
            (StreamChange::New, _) => {
                Some((ResumePoint::at_packet(0, 0, 0), next_time(now, of, source.selection, None)))
            }
            _ => None,
        };
        streams.push(StreamGrowth { old, change, next });
    }
    of_key.is_empty().then_some(streams)
}

/// How a stream differs; `None` when something in its old part does.
fn change_of(before: &SelectedStream, now: &SelectedStream) -> Option<StreamChange> {
    let (old, new) = (&before.stream, &now.stream);
    if (old.class, old.id, before.clock) != (new.class, new.id, now.clock) || old.packets.len() > new.packets.len() {
        return None;
    }
    let path = |stream: &Stream, packet: &Packet| stream.files.get(packet.file as usize).map(|file| file.path.clone());
    // A packet has a number of its own, or stays where it is: those of a ring are moved to the file of the stream.
    let is_at_its_place = |(before, now): &(Packet, Packet)| match before.sequence {
        Some(sequence) => now.sequence == Some(sequence),
        None => {
            let place = |of: &Packet| (of.sequence, of.index, of.offset_bytes);
            place(before) == place(now) && path(old, before) == path(new, now)
        }
    };
    // The padding of a numbered packet does not count.
    let is_same = |both: &(Packet, Packet)| {
        let padding = |of: &Packet| of.total_bits.saturating_sub(of.content_bits);
        let has_same_size = both.0.sequence.is_some() || padding(&both.0) == padding(&both.1);
        both.0.content_bits == both.1.content_bits && has_same_size && both.0.end_cycles == both.1.end_cycles
    };
    let losses = |of: &Packet| (of.discarded_snapshot, of.discarded_before, of.lost_packets_before, of.lost_since);
    let head = |of: &Packet| (of.class, of.stream_id, of.begin_cycles);
    let both = |at: usize| (old.packets.at(at), new.packets.at(at));
    let count = old.packets.len();
    for packet in 0..count {
        let two = both(packet);
        let has_other_losses = losses(&two.0) != losses(&two.1);
        if head(&two.0) != head(&two.1) || !is_at_its_place(&two) {
            return None;
        }
        if has_other_losses || !is_same(&two) {
            // Only the last packet is still written. Where packets have no numbers of their own, the bytes that it had may be
            // those of two now.
            let next = new.packets.get(packet + 1);
            let goes_on = two.1.sequence.is_none()
                && two.1.total_bits < two.0.total_bits
                && next.is_some_and(|next| {
                    next.file == two.1.file && next.offset_bytes == two.1.offset_bytes + two.1.total_bits / 8
                });
            let has_grown = packet + 1 == count && (two.0.content_bits <= two.1.content_bits || goes_on);
            let change = FirstChange { packet, is_in_place: true, has_other_losses };
            return has_grown.then_some(StreamChange::From(change));
        }
    }
    Some(match new.packets.len() == count {
        true => StreamChange::Same,
        false => StreamChange::From(FirstChange { packet: count, is_in_place: false, has_other_losses: false }),
    })
}

/// Where a stream is read on after all that was read of it; `None` where that is not known.
fn point_after(
    of: &SelectedStream,
    FirstChange { packet, is_in_place, .. }: FirstChange,
    last: Option<StreamPlace>,
    is_empty: bool,
) -> Option<ResumePoint> {
    let floor = match last {
        Some(last) if last.packet() == packet => return Some(ResumePoint::within(last)),
        Some(last) if last.packet() < packet => last.floor(),
        None if is_empty => 0,
        _ => return None,
    };
    let clock = of.stream.packets.begin_cycles(packet)?;
    Some(match is_in_place {
        true => ResumePoint::within(StreamPlace::from_numbers([packet as u64, 0, clock, floor])),
        false => ResumePoint::at_packet(packet, clock, floor),
    })
}

/// The time of the first event of a stream from a point on.
fn next_time(session: &Session, of: &SelectedStream, selection: &Selection, from: Option<ResumePoint>) -> NextTime {
    // One chunk is read; it may be small.
    let selection = Selection { jobs: 1, memory_bytes: 1, ..selection.clone() };
    let mut events = Events::of_grown(session, std::slice::from_ref(of), &selection, None, &[from]);
    while let Some(step) = events.next() {
        if let Step::Event(_, event) = step {
            return event.ns.map_or(NextTime::Unknown, NextTime::At);
        }
    }
    NextTime::Never
}

/// The extension of an index, from a checkpoint on.
struct Extension<'e> {
    known: KnownTraces<'e>,
    source: &'e Source<'e>,
    streams: Vec<StreamGrowth>,
    /// The checkpoint, counted from 1; 0 for the beginning.
    checkpoint: usize,
    /// The number of the event there.
    number: usize,
    there: KnownThere,
    points: Vec<Option<ResumePoint>>,
}

impl<'e> Extension<'e> {
    fn new(known: KnownTraces<'e>, source: &'e Source<'e>, streams: Vec<StreamGrowth>) -> Option<Extension<'e>> {
        let growth = known.index.growth.as_ref()?;
        let checkpoints = known.index.places.iter().zip(&growth.known).enumerate();
        for (at, ((number, places), there)) in checkpoints.rev() {
            let has_more = |old: usize| growth.after_last[old] > number;
            let point = |of: &StreamGrowth| -> Option<Option<ResumePoint>> {
                match (&of.change, of.old) {
                    (StreamChange::Same, Some(old)) if has_more(old) => Some(Some(ResumePoint::within(places[old]))),
                    (StreamChange::Same, _) => Some(Some(ResumePoint::at_end())),
                    // Losses that a packet states are reported when it is opened.
                    (StreamChange::From(change), Some(old)) if has_more(old) => {
                        let is_opened = change.is_in_place && places[old].packet() >= change.packet;
                        (!is_opened || !change.has_other_losses).then(|| Some(ResumePoint::within(places[old])))
                    }
                    (StreamChange::From(change), _) => {
                        let (point, time) = of.next.filter(|_| !change.has_other_losses)?;
                        time.is_after(there.latest).then_some(Some(point))
                    }
                    (StreamChange::New, _) => of.next.filter(|(_, time)| time.is_after(there.latest)).map(|_| None),
                }
            };
            if let Some(points) = streams.iter().map(point).collect::<Option<Vec<_>>>() {
                return Some(Extension { known, source, streams, checkpoint: at + 1, number, there: *there, points });
            }
        }
        let points = vec![None; streams.len()];
        let (checkpoint, number, there) = (0, 0, KnownThere::default());
        Some(Extension { known, source, streams, checkpoint, number, there, points })
    }

    /// The track that a track is now: tracks are the streams, in their order.
    fn new_tracks(&self) -> Vec<usize> {
        let old = self.known.source.streams.len();
        let mut tracks = vec![0; old];
        for (at, of) in self.streams.iter().enumerate() {
            if let Some(old) = of.old {
                tracks[old] = at;
            }
        }
        tracks
    }

    fn read(self, always: u32, progress: &Progress) -> Option<(Timeline, Index, i128)> {
        let KnownTraces { timeline, index, source: before } = self.known;
        let (source, now) = (self.source, self.new_tracks());
        name_classes(source.session, &mut timeline.names());
        let growing = match timeline.take_growing(always) {
            Some(known) => known,
            None => trees_of_index(index, always, before.streams.len())?,
        };
        let mut growing: Vec<Option<TrackTrees>> = growing.into_iter().map(Some).collect();
        let of_stream = |of: &StreamGrowth| of.old.and_then(|old| growing.get_mut(old)?.take());
        let of_streams = self.streams.iter().map(of_stream);
        let mut growing: Vec<TrackTrees> =
            of_streams.map(|known| known.unwrap_or_else(|| TrackTrees::new(always, index.events()))).collect();
        let kind = |kind: &TrackKind| TrackKind { track: now[kind.track as usize] as u32, name: kind.name };
        let kinds: Vec<TrackKind> = index.kinds[..self.there.kinds].iter().map(kind).collect();
        let tracks = StreamTracks::each_its_own(timeline, source.streams.len());
        let kinds = KindReader::new(source.session, source.streams, tracks, kinds);
        let track = |(of, growth): (&SelectedStream, &StreamGrowth)| match growth.old {
            Some(old) => Track { stream: Some(of.index), ..index.tracks[old].clone() },
            None => {
                let (stream, name) = (Some(of.index), of.stream.name.clone());
                Track { trace: of.trace, stream, name, events: 0, untimed: 0, range: None }
            }
        };
        let tracks = source.streams.iter().zip(&self.streams).map(track).collect();
        let mut reading = IndexReading::of_tracks(timeline, tracks, kinds, source.streams.len());
        self.restore(&mut reading, &now)?;
        // Events that are read again.
        let mut again = vec![0u64; source.streams.len()];
        index.columns.for_each_from(self.number, |_, kind| {
            again[now[index.kinds[kind as usize].track as usize]] += 1;
            true
        })?;
        let mut has_grown = vec![false; source.streams.len()];
        let (mut first, mut is_early) = (None, false);
        let (selection, stop) = (source.selection.clone(), progress.stop.clone());
        let selection = Selection { jobs: 1, stop: Some(stop), ..selection };
        let events = Events::of_grown(source.session, source.streams, &selection, source.filter, &self.points);
        reading.read(events, source, progress, |index, seen| {
            if again[seen.track] > 0 {
                again[seen.track] -= 1;
                return;
            }
            index.count(&seen);
            has_grown[seen.track] = true;
            first = first.into_iter().chain(seen.ns).min();
            match seen.time {
                Some(time) => {
                    is_early |= time < 0;
                    growing[seen.track].push(time, seen.name);
                }
                None => drop(growing[seen.track].number(seen.name)),
            }
        })?;
        // Less than before, or something before the origin: what was there is not what it was.
        if is_early || again.iter().any(|left| *left > 0) {
            return None;
        }
        let last_places = std::mem::take(&mut reading.growth.last_places);
        let growth = index.growth.as_ref()?;
        let kept = |of: &StreamGrowth| of.old.and_then(|old| growth.last_places[old]);
        // Streams that gave nothing now stay where they were.
        reading.growth.last_places = last_places.iter().zip(&self.streams).map(|(now, of)| now.or(kept(of))).collect();
        let index_now = reading.finish();
        let trees = timeline.tracks();
        let counted = index_now.tracks.iter().zip(&growing).zip(&has_grown).zip(&self.streams);
        let counted = counted.map(|(((track, own), has_grown), of)| {
            let known = of.old.filter(|_| !has_grown).and_then(|old| trees.get(old)?.trees());
            let known = known.filter(|known| timeline.always() == always && known.names == own.names);
            let trees = known.map_or_else(|| Arc::new(own.builder.clone().finish()), |known| known.trees.clone());
            Counted { track: track.clone(), trees, names: own.names.clone() }
        });
        let counted = counted.collect();
        let first = first.unwrap_or(index_now.end);
        Some((timeline.grown(counted, growing, always), index_now, first))
    }

    /// Takes what stays as it was.
    fn restore(&self, reading: &mut IndexReading<'_>, now: &[usize]) -> Option<()> {
        let index = self.known.index;
        let growth = index.growth.as_ref()?;
        let track = |old: Option<usize>| old.map(|old| now[old]);
        let losses = index.losses[..self.there.losses].iter();
        let faults = index.faults[..self.there.faults].iter();
        reading.index.losses = losses.map(|of| LossRange { track: track(of.track), ..of.clone() }).collect();
        reading.index.faults = faults.map(|of| Fault { track: track(of.track), ..of.clone() }).collect();
        reading.index.columns = index.columns.first(self.number)?;
        reading.index.untimed = index.untimed;
        index.warnings.iter().for_each(|warning| reading.warnings.warning(warning.clone()));
        reading.latest = self.there.latest;
        reading.growth.known = growth.known[..self.checkpoint].to_vec();
        for (number, places) in index.places.iter().take(self.checkpoint) {
            let place = |of: &StreamGrowth| {
                let known = of.old.map(|old| places[old]);
                // It had ended there, and goes on now.
                let has_ended = of.old.is_none_or(|old| growth.after_last[old] <= number);
                let next = of.next.filter(|_| has_ended).map(|(point, _)| point.place());
                next.or(known).unwrap_or_else(|| StreamPlace::from_numbers([0; 4]))
            };
            reading.places.push(number, self.streams.iter().map(place).collect());
        }
        for (at, of) in self.streams.iter().enumerate() {
            // Numbers of those that are read again may change.
            let last = of.old.map_or(0, |old| growth.after_last[old]);
            reading.growth.after_last[at] = last.min(self.number);
        }
        Some(())
    }
}

/// The trees of all tracks of an index. `None` when its events cannot be read any more.
fn trees_of_index(index: &Index, always: u32, tracks: usize) -> Option<Vec<TrackTrees>> {
    let mut all: Vec<TrackTrees> = (0..tracks).map(|_| TrackTrees::new(always, index.events())).collect();
    index.columns.for_each_from(0, |time, kind| {
        let TrackKind { track, name } = index.kinds[kind as usize];
        if time != UNTIMED {
            all[track as usize].push(time, name);
        } else {
            all[track as usize].number(name);
        }
        true
    })?;
    Some(all)
}

#[cfg(test)]
mod tests {
    use tracemill_model::packet_list::PacketList;
    use tracemill_model::schema::StreamClassId;

    use super::*;

    fn stream(packets: &[Packet]) -> SelectedStream {
        let mut list = PacketList::default();
        packets.iter().for_each(|packet| list.push(packet));
        let (class, name) = (StreamClassId(0), "s".to_string());
        let stream = Stream { name, class, id: None, files: Vec::new(), packets: list };
        SelectedStream { trace: 0, index: 0, stream: Arc::new(stream), clock: None, has_untimed: false }
    }

    /// The first packet that is another one, and whether it was there; `None` when the old part changed.
    fn change(before: &[Packet], now: &[Packet]) -> Option<Option<(usize, bool, bool)>> {
        Some(match change_of(&stream(before), &stream(now))? {
            StreamChange::Same => None,
            StreamChange::From(of) => Some((of.packet, of.is_in_place, of.has_other_losses)),
            StreamChange::New => unreachable!("it was there"),
        })
    }

    fn packet(number: u64, offset: u64, content: u64) -> Packet {
        let times = (Some(number * 100), Some(number * 100 + content));
        let packet = Packet { content_bits: content, index: number, ..Packet::new(StreamClassId(0), offset, 800) };
        Packet { begin_cycles: times.0, end_cycles: times.1, ..packet }
    }

    #[test]
    fn only_the_end_of_a_stream_may_be_another_one() {
        let all: Vec<Packet> = (0..4).map(|at| packet(at, at * 100, 700)).collect();
        assert_eq!(change(&all, &all), Some(None));
        assert_eq!(change(&all[..3], &all), Some(Some((3, false, false))));
        assert_eq!(change(&all, &all[..3]), None);
        assert_eq!(change(&[], &all), Some(Some((0, false, false))));
        let with = |at: usize, packet: Packet| {
            let mut other = all.clone();
            other[at] = packet;
            other
        };
        assert_eq!(change(&with(3, packet(3, 300, 600)), &all), Some(Some((3, true, false))));
        // It has less in it; it is not the last one; it begins at another time.
        assert_eq!(change(&all, &with(3, packet(3, 300, 600))), None);
        assert_eq!(change(&with(2, packet(2, 200, 600)), &all), None);
        assert_eq!(change(&with(3, Packet { begin_cycles: Some(1), ..packet(3, 300, 600) }), &all), None);
        assert_eq!(change(&with(3, packet(3, 301, 700)), &all), None);
        let lossy = Packet { discarded_before: 7, ..all[3].clone() };
        assert_eq!(change(&all, &with(3, lossy)), Some(Some((3, true, true))));
    }

    #[test]
    fn numbered_packets_may_move() {
        let numbered = |of: Packet| Packet { sequence: Some(of.index), ..of };
        let in_ring = [packet(0, 0, 700), packet(1, 4096, 300)].map(numbered);
        let moved = Packet { file: 1, index: 9, offset_bytes: 5, total_bits: 704, ..in_ring[0].clone() };
        let grown = Packet { content_bits: 500, end_cycles: Some(600), ..in_ring[1].clone() };
        assert_eq!(change(&in_ring, &[moved.clone(), in_ring[1].clone()]), Some(None));
        assert_eq!(change(&in_ring, &[moved, grown.clone()]), Some(Some((1, true, false))));
        // Another one took its place.
        assert_eq!(change(&in_ring, &[grown.clone(), in_ring[1].clone()]), None);
        assert_eq!(change(&in_ring, &[in_ring[0].clone(), Packet { sequence: Some(2), ..grown }]), None);
    }
}
