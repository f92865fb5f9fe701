//! Events, packets and losses of all streams in the order in which babeltrace 2 merges its messages.
//!
//! Events come from the merger in their order. What is between them is known from the list of packets of each stream, without
//! reading them: it is merged by time, then by the rank of the stream, then by kind, as `muxing.c` of babeltrace 2 compares
//! messages. A packet begins at the latest before its first event.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use tracemill_codec::chunk::PacketData;
use tracemill_codec::spine::SpineSink;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_engine::item::ReadyChunk;
use tracemill_engine::merge::{Merger, Note, Rank, StreamIndex};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::timeline::cycle_range;
use tracemill_format::PacketReader;
use tracemill_model::clock::TimeKey;
use tracemill_model::error::Error;
use tracemill_model::packet::{Gap, GapKind, Packet};
use tracemill_model::schema::EventClassId;

/// Kind of what is between events, in the order of equal times; an event comes after the beginning of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum MarkKind {
    StreamBegin,
    PacketBegin,
    Event,
    DiscardedEvents,
    PacketEnd,
    LostPackets,
    StreamEnd,
}

/// A message that is no event.
#[derive(Clone, Debug)]
pub(crate) struct MessageMark {
    pub(crate) kind: MarkKind,
    pub(crate) stream: StreamIndex,
    /// Index of the packet in its stream.
    pub(crate) packet: usize,
    /// Clock value, or where a loss begins; `None` when it is unknown.
    pub(crate) begin_cycles: Option<u64>,
    /// Where a loss ends; where a packet or stream ends that does not state it, as far as that can be told.
    pub(crate) end_cycles: Option<u64>,
    /// Events or packets that are lost.
    pub(crate) count: Option<u64>,
}

/// An item of the order.
pub(crate) enum Ordered {
    /// An event: index of its chunk, and in it.
    Event(u32, u32),
    Mark(MessageMark),
    Fault(Error),
    Warning(Error),
}

/// Items, and the chunks that their events are in.
#[derive(Default)]
pub(crate) struct OrderedBatch {
    pub(crate) chunks: Vec<(StreamIndex, Arc<ReadyChunk>)>,
    pub(crate) items: VecDeque<Ordered>,
}

type MarkKey = (TimeKey, u32, MarkKind, u32);

/// Opens the packets of a stream.
#[derive(Clone)]
pub(crate) struct PacketOpener {
    pub(crate) reader: Arc<dyn PacketReader>,
    pub(crate) plans: Arc<TracePlans>,
}

/// The marks of a stream, one after the other.
struct StreamMarks {
    of: SelectedStream,
    opener: PacketOpener,
    group: u32,
    /// First and last wanted clock value.
    range: Option<(u64, u64)>,
    /// Clock values that stand for the wanted times where these cut something: babeltrace 2 counts whole cycles.
    cut: (u64, u64),
    /// The packet whose marks are next.
    packet: usize,
    waiting: VecDeque<MessageMark>,
    /// Time of the last mark: those without a time are there.
    floor: TimeKey,
    /// The chunk whose packet the stream is in.
    within: Option<Arc<PacketData>>,
    /// Has a packet begun?
    has_begun: bool,
    /// Clock value of the last event.
    last_cycles: Option<u64>,
    has_ended: bool,
}

impl StreamMarks {
    fn new(
        (of, opener): (SelectedStream, PacketOpener),
        index: StreamIndex,
        group: u32,
        (begin, end): (Option<i128>, Option<i128>),
    ) -> Self {
        let (mut range, mut is_outside, mut is_before) = (None, false, false);
        if let Some(clock) = of.clock.as_ref().filter(|_| begin.is_some() || end.is_some()) {
            range = cycle_range(clock, begin, end);
            is_outside = range.is_none();
            // The wanted times end before the clock begins: the stream begins and ends without anything else.
            is_before = end.is_some_and(|end| end < clock.ns(0));
        }
        let (first, last) = range.unwrap_or((0, u64::MAX));
        let shown = |ns: Option<i128>, wanted: u64| {
            of.clock.as_ref().zip(ns).and_then(|(clock, ns)| clock.whole_cycles_at(ns)).unwrap_or(wanted)
        };
        let cut = (shown(begin, first), shown(end, last));
        let mut marks = StreamMarks {
            of,
            opener,
            group,
            range,
            cut,
            packet: 0,
            waiting: VecDeque::new(),
            floor: TimeKey::MIN,
            within: None,
            has_begun: false,
            last_cycles: None,
            has_ended: is_outside,
        };
        if is_outside && !is_before {
            return marks;
        }
        // A stream that began before what is wanted begins there.
        let packets = &marks.of.stream.packets;
        let is_cut = packets.first().and_then(|packet| packet.begin_cycles).is_some_and(|begin| begin < first);
        let mark = MessageMark {
            kind: MarkKind::StreamBegin,
            stream: index,
            packet: 0,
            begin_cycles: is_cut.then_some(cut.0),
            end_cycles: None,
            count: None,
        };
        marks.waiting.push_back(mark);
        if is_outside {
            marks.end(index, Some(0));
        }
        marks
    }

    /// May there be something from the first wanted time on?
    fn reaches_begin(&self) -> bool {
        let first = self.range.map_or(0, |(first, _)| first);
        let last = self.of.stream.packets.last();
        !self.waiting.is_empty()
            && (first == 0 || last.is_some_and(|packet| packet.end_cycles.is_none_or(|end| end >= first)))
    }

    /// Appends the marks of the next packet that is wanted, or of the end.
    fn fill(&mut self, index: StreamIndex) {
        while self.waiting.is_empty() && !self.has_ended {
            let Some(packet) = self.of.stream.packets.get(self.packet) else {
                self.end(index, None);
                return;
            };
            let at = self.packet;
            self.packet += 1;
            self.add_packet(index, at, &packet);
        }
    }

    /// Appends the end of the stream, at a time when it is cut there.
    fn end(&mut self, index: StreamIndex, cycles: Option<u64>) {
        self.has_ended = true;
        self.waiting.push_back(MessageMark {
            kind: MarkKind::StreamEnd,
            stream: index,
            packet: self.packet,
            // The clock of a stream of which nothing was seen is not known.
            begin_cycles: cycles.filter(|_| self.has_begun),
            end_cycles: cycles,
            count: None,
        });
    }

    fn add_packet(&mut self, index: StreamIndex, at: usize, packet: &Packet) {
        let (first, last) = self.range.unwrap_or((0, u64::MAX));
        let is_after = packet.begin_cycles.is_some_and(|begin| begin > last);
        if packet.end_cycles.is_some_and(|end| end < first) {
            return;
        }
        let previous = at.checked_sub(1).and_then(|at| self.of.stream.packets.get(at));
        let before = packet.lost_since.or_else(|| previous.map_or(packet.begin_cycles, |packet| packet.end_cycles));
        let mark = |kind, begin_cycles: Option<u64>, end_cycles: Option<u64>, count| MessageMark {
            kind,
            stream: index,
            packet: at,
            begin_cycles,
            end_cycles,
            count,
        };
        let (begin, end) = self.stated_times(at, packet);
        let ends_at = end.or(packet.end_cycles);
        let losses = [
            (MarkKind::DiscardedEvents, packet.discarded_before, ends_at),
            (MarkKind::LostPackets, packet.lost_packets_before, packet.begin_cycles),
        ];
        for (kind, count, end) in losses {
            let is_outside = end.is_some_and(|end| end < first) || before.is_some_and(|before| before > last);
            if count > 0 && !is_outside {
                // How much of a loss is in a part of its time is unknown.
                let is_cut = before.is_some_and(|before| before < first) || end.is_some_and(|end| end > last);
                let (before, end) = (before.map(|before| self.clip(before)), end.map(|end| self.clip(end)));
                self.waiting.push_back(mark(kind, before, end, Some(count).filter(|_| !is_cut)));
            }
        }
        if is_after {
            return self.end(index, Some(self.cut.1));
        }
        let begin = begin.map(|begin| self.clip(begin));
        self.has_begun = true;
        // The end that it states may lie outside of the wanted times while the corrected one does not.
        if ends_at.is_some_and(|end| end < first) {
            return;
        }
        self.waiting.push_back(mark(MarkKind::PacketBegin, begin, None, None));
        let is_cut = ends_at.is_some_and(|end| end > last);
        let end = if is_cut { Some(self.cut.1) } else { end };
        self.waiting.push_back(mark(MarkKind::PacketEnd, end, packet.end_cycles, None));
        if is_cut {
            self.end(index, end);
        }
    }

    /// A clock value, or what stands for it outside of the wanted times.
    fn clip(&self, cycles: u64) -> u64 {
        match self.range {
            Some((first, _)) if cycles < first => self.cut.0,
            Some((_, last)) if cycles > last => self.cut.1,
            _ => cycles,
        }
    }

    /// The times that a packet of CTF states. Those of the list are corrected where producers are known to have been wrong;
    /// babeltrace 2 corrects what it looks packets up with, and shows what they state.
    fn stated_times(&self, at: usize, packet: &Packet) -> (Option<u64>, Option<u64>) {
        let listed = (packet.begin_cycles, packet.end_cycles);
        if !self.opener.plans.schema().has_peer_text {
            return listed;
        }
        let clock = packet.begin_cycles.unwrap_or(0);
        match self.opener.reader.open_packet(&self.opener.plans, &self.of.stream, at, clock) {
            Ok(opened) => {
                let stated = opened.data.state.roles;
                // Packets that a crash left say 0.
                let end = stated.end_cycles.filter(|end| stated.begin_cycles.is_none_or(|begin| begin <= *end));
                let is_uncertain = |end: &u64| {
                    let (first, last) = self.range.unwrap_or((0, u64::MAX));
                    *end < first || listed.1.is_some_and(|listed| *end < listed && listed > last)
                };
                // A packet does not end before its last event.
                let end = end.map(|end| if is_uncertain(&end) { end.max(last_event(&opened.data)) } else { end });
                (listed.0, if stated.end_cycles.is_some() { end } else { listed.1 })
            }
            // The fault is reported where its events would be.
            Err(_) => listed,
        }
    }

    fn key(&self, mark: &MessageMark) -> MarkKey {
        let is_end = mark.kind == MarkKind::PacketEnd;
        // Of a packet that does not state its end, the list has the best guess.
        let has_guess = is_end || mark.kind == MarkKind::StreamEnd;
        let cycles = if has_guess { mark.begin_cycles.or(mark.end_cycles) } else { mark.begin_cycles };
        let time = cycles.zip(self.of.clock.as_ref()).map(|(cycles, clock)| clock.key(cycles));
        // The end of a packet that does not say when it ended is known when something follows it.
        let is_open = is_end && time.is_none();
        let time = if is_open { TimeKey::MAX } else { time.unwrap_or(self.floor).max(self.floor) };
        (time, self.group, mark.kind, mark.stream.0)
    }
}

struct LastEvent(u64);

impl SpineSink for LastEvent {
    fn event(&mut self, _class: EventClassId, cycles: u64, _start_bits: u64, _body_bits: u64) -> bool {
        self.0 = cycles;
        true
    }
}

/// The clock value of the last event of a packet; 0 when it has none.
fn last_event(packet: &PacketData) -> u64 {
    let mut found = LastEvent(0);
    packet.scan(&mut packet.first_event(), &mut packet.state.clone(), &mut found);
    found.0
}

/// Merges marks with the events of a merger.
pub(crate) struct MessageOrder {
    merger: Merger,
    streams: Vec<StreamMarks>,
    /// The next mark of each stream.
    next: BinaryHeap<Reverse<MarkKey>>,
    batch_events: usize,
    is_over: bool,
}

/// Events of a batch: few at first, so that the first message comes soon.
const BATCH: (usize, usize) = (64, 4096);

impl MessageOrder {
    /// Of streams with their ranks and the times that are wanted of each.
    pub(crate) fn new(
        merger: Merger,
        streams: impl IntoIterator<Item = ((SelectedStream, PacketOpener), Rank, (Option<i128>, Option<i128>))>,
    ) -> Self {
        let mark = |(at, (of, rank, times)): (usize, (_, Rank, _))| {
            StreamMarks::new(of, StreamIndex(at as u32), rank.group, times)
        };
        let mut streams: Vec<StreamMarks> = streams.into_iter().enumerate().map(mark).collect();
        // Where all is over before the wanted time begins, not even streams begin.
        if !streams.iter().any(StreamMarks::reaches_begin) {
            streams.iter_mut().for_each(|marks| {
                marks.waiting.clear();
                marks.has_ended = true;
            });
        }
        let mut order =
            MessageOrder { merger, streams, next: BinaryHeap::new(), batch_events: BATCH.0, is_over: false };
        (0..order.streams.len()).for_each(|at| order.push_next(at));
        order
    }

    /// The next items; `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Option<OrderedBatch> {
        if self.is_over {
            return None;
        }
        let mut out = OrderedBatch::default();
        let Some(batch) = self.merger.next_batch(self.batch_events) else {
            self.is_over = true;
            while let Some(Reverse(key)) = self.next.pop() {
                self.emit(key, &mut out.items);
            }
            return Some(out);
        };
        self.batch_events = (self.batch_events * 2).min(BATCH.1);
        for run in &batch.runs {
            let (stream, ready) = &batch.chunks[run.chunk as usize];
            let own = stream.0 as usize;
            self.enter(own, &ready.chunk.packet, &mut out.items);
            for at in run.from..run.to {
                let marks = &self.streams[own];
                let time = match &marks.of.clock {
                    Some(clock) => clock.key(ready.merge_cycles(at as usize)),
                    None => marks.floor,
                };
                let key = (time, marks.group, MarkKind::Event, stream.0);
                while let Some(&Reverse(next)) = self.next.peek()
                    && next < key
                {
                    // The packet of the event is not over, whatever it says.
                    if next.3 == stream.0 {
                        break;
                    }
                    self.next.pop();
                    self.emit(next, &mut out.items);
                }
                out.items.push_back(Ordered::Event(run.chunk, at));
                self.streams[own].last_cycles = Some(ready.chunk.cycles[at as usize]);
            }
        }
        for note in batch.notes {
            match note {
                Note::Fault(fault) => out.items.push_back(Ordered::Fault(fault)),
                Note::Warning(warning) => out.items.push_back(Ordered::Warning(warning)),
                Note::Gap(stream, gap) => self.gap(stream, &gap, &mut out.items),
            }
        }
        out.chunks = batch.chunks;
        Some(out)
    }

    /// A loss that the list of packets does not have: one inside of a packet.
    fn gap(&mut self, stream: StreamIndex, gap: &Gap, items: &mut VecDeque<Ordered>) {
        let marks = &self.streams[stream.0 as usize];
        let from = marks.packet.saturating_sub(2);
        let is_listed = |packet: Packet| match gap.kind {
            GapKind::LostPackets => {
                Some(packet.lost_packets_before) == gap.count && packet.begin_cycles == gap.end_cycles
            }
            _ => Some(packet.discarded_before) == gap.count && packet.end_cycles == gap.end_cycles,
        };
        // Opening reads ahead of what was merged by one chunk and its packets without events.
        let packets = &marks.of.stream.packets;
        if packets.range(from..packets.len().min(from + 4096)).any(is_listed) {
            return;
        }
        let kind = match gap.kind {
            GapKind::LostPackets => MarkKind::LostPackets,
            _ => MarkKind::DiscardedEvents,
        };
        let mark = MessageMark {
            kind,
            stream,
            packet: marks.packet,
            begin_cycles: gap.begin_cycles,
            end_cycles: gap.end_cycles,
            count: gap.count,
        };
        items.push_back(Ordered::Mark(mark));
    }

    /// Emits the marks up to the beginning of the packet that an event is in.
    fn enter(&mut self, own: usize, packet: &Arc<PacketData>, items: &mut VecDeque<Ordered>) {
        let marks = &mut self.streams[own];
        if marks.within.as_ref().is_some_and(|within| Arc::ptr_eq(within, packet)) {
            return;
        }
        let is_same = |within: &Arc<PacketData>| {
            (within.packet.file, within.packet.offset_bytes) == (packet.packet.file, packet.packet.offset_bytes)
        };
        let is_new = !marks.within.as_ref().is_some_and(is_same);
        marks.within = Some(packet.clone());
        if !is_new {
            return;
        }
        // A packet that is not in the list has no marks.
        let packets = &marks.of.stream.packets;
        let from = marks.packet.saturating_sub(1);
        let is_it = |of: &Packet| (of.file, of.offset_bytes) == (packet.packet.file, packet.packet.offset_bytes);
        let Some(at) = packets.range(from..packets.len()).position(|of| is_it(&of)) else { return };
        let at = from + at;
        loop {
            let marks = &self.streams[own];
            let Some(next) = marks.waiting.front() else { return };
            let is_inside = next.kind == MarkKind::PacketEnd && next.packet >= at;
            if is_inside || next.packet > at || next.kind == MarkKind::StreamEnd {
                return;
            }
            // Marks before it in the order of all streams come first.
            let mut key = marks.key(next);
            if key.0 == TimeKey::MAX {
                key.0 = marks.floor;
            }
            while let Some(&Reverse(first)) = self.next.peek()
                && first < key
                && first.3 as usize != own
            {
                self.next.pop();
                self.emit(first, items);
            }
            if self.next.peek().is_some_and(|Reverse(first)| first.3 as usize == own) {
                self.next.pop();
            } else {
                self.next.retain(|Reverse(key)| key.3 as usize != own);
            }
            self.emit(key, items);
        }
    }

    /// Emits the next mark of the stream that a key names, and puts the one after it in line.
    fn emit(&mut self, key: MarkKey, items: &mut VecDeque<Ordered>) {
        let marks = &mut self.streams[key.3 as usize];
        let Some(mut mark) = marks.waiting.pop_front() else { return };
        if mark.kind == MarkKind::PacketEnd && marks.opener.plans.schema().has_peer_text {
            // A packet does not end before its last event.
            mark.begin_cycles = mark.begin_cycles.max(marks.last_cycles);
        }
        if key.0 != TimeKey::MAX {
            marks.floor = marks.floor.max(key.0);
        }
        items.push_back(Ordered::Mark(mark));
        self.push_next(key.3 as usize);
    }

    fn push_next(&mut self, at: usize) {
        let marks = &mut self.streams[at];
        marks.fill(StreamIndex(at as u32));
        if let Some(mark) = marks.waiting.front() {
            self.next.push(Reverse(marks.key(mark)));
        }
    }
}
