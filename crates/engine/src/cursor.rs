//! Reading one stream: from packets to chunks, in the order of the stream.

mod parts;
mod times;

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_codec::chunk::{Chunk, ChunkSink, PacketData};
use tracemill_codec::plan::DecoderState;
use tracemill_codec::spine::{EventFault, ScanEnd};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::{OpenTrace, PacketReader, Stream};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Error;
use tracemill_model::packet::{Gap, GapKind, Packet};

pub use self::parts::packets_stand_alone;
use self::parts::{packet_end, packet_range};
use self::times::{Ascent, SELECT_SPAN, SelectedRange, Selecting, StepBack, sound_times};
use crate::damage::{cut_while_read, skipped, with_loss};
use crate::item::{ChunkPlace, Item, ReadyChunk, ResumePoint, StreamPlace};
use crate::progress::{Progress, packet_bytes};
use crate::selection::SpineFilter;

/// Reads one stream.
pub struct Cursor {
    plans: Arc<TracePlans>,
    reader: Arc<dyn PacketReader>,
    stream: Arc<Stream>,
    filter: SpineFilter,
    whole: WholePackets,
    max_events: usize,
    /// Are bits reported that no event of a packet takes?
    tells_rest: bool,
    progress: Option<Arc<Progress>>,
    /// Set when the rest is not wanted.
    stop: Option<Arc<AtomicBool>>,
    at: Position,
    order: StreamOrder,
    damage: Damage,
    ahead: Ahead,
    /// Items that were found together with one that was given.
    queue: VecDeque<Item>,
    /// Events of the first packet that are left out: reading starts after them.
    skip: u64,
    /// The first packet was opened before: losses and warnings before its events were reported.
    is_reopened: bool,
}

/// Small packets that are read together: whether their file is still as long is a call of the system.
#[derive(Default)]
struct Ahead {
    /// Are packets being read whose file is looked at after the last of them?
    is_on: bool,
    /// A file was found to be cut: packets are read one by one from then on.
    is_over: bool,
    /// Bytes that were read, and are counted when it is known that they were there.
    bytes: Cell<u64>,
}

/// Packets above this size are read one by one.
const SMALL_PACKET: u64 = 512;

/// Bytes that a chunk holds for each event that it may have: it ends before it has more.
const COPIED_BYTES: usize = 64;

/// Bytes between two events that are copied with them rather than left out.
const NEAR_BYTES: u64 = 256;

/// Most packets that are read together, for one stream.
const MOST_AHEAD: usize = 16;

/// The packets that are given as they are, where all of their events are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WholePackets {
    None,
    /// Packets without events that say when they began.
    Empty,
    All,
    /// Also those of which only some events are wanted: nothing but their number is.
    Counted,
}

/// How far a stream was read.
struct Position {
    next_packet: usize,
    end_packet: usize,
    /// The packet of which events are left.
    open: Option<OpenPacket>,
    clock: u64,
    /// All packets were read, and the losses after the last one reported.
    is_done: bool,
    /// The place after the events that were read last.
    last: Option<ChunkPlace>,
}

/// The order of the events of a stream.
struct StreamOrder {
    has_clock: bool,
    /// The largest clock value so far.
    floor: u64,
    /// Time went back, and that was reported.
    went_back: bool,
}

/// Damage that is known beside that of the packet that is read.
#[derive(Default)]
struct Damage {
    /// Files that were truncated while we read them, and to what length.
    truncated: Vec<(u32, u64)>,
    /// Errors of packets that opening found, with file and packet, in the order of both.
    found: VecDeque<(u32, u64, Error)>,
}

struct OpenPacket {
    data: Arc<PacketData>,
    pos: u64,
    state: DecoderState,
    /// Bytes of it that are counted as read.
    counted: u64,
    /// Events of it that were given, and the clock value that was known before it.
    given: u64,
    clock: u64,
}

impl Cursor {
    /// A cursor over the packets that the filter leaves; chunks hold at most `max_events`.
    pub fn new(
        trace: &OpenTrace,
        stream: Arc<Stream>,
        clock: Option<ClockMap>,
        filter: SpineFilter,
        max_events: usize,
    ) -> Self {
        let (next_packet, end_packet) = match filter.cycles {
            Some((first, last)) if trace.reader.has_proven_times() => packet_range(&stream.packets, first, last),
            _ => (0, stream.packets.len()),
        };
        Cursor {
            plans: trace.plans.clone(),
            reader: trace.reader.clone(),
            stream,
            filter,
            whole: WholePackets::None,
            max_events: max_events.max(1),
            tells_rest: false,
            progress: None,
            stop: None,
            at: Position { next_packet, end_packet, open: None, clock: 0, is_done: false, last: None },
            order: StreamOrder { has_clock: clock.is_some(), floor: 0, went_back: false },
            damage: Damage::default(),
            ahead: Ahead::default(),
            queue: VecDeque::new(),
            skip: 0,
            is_reopened: false,
        }
    }

    /// Reads by these plans, not by those that the trace has now.
    pub(crate) fn read_by(&mut self, plans: &Arc<TracePlans>) {
        self.plans = plans.clone();
    }

    /// Reads on from a place that another cursor with the same filter gave.
    pub(crate) fn resume(&mut self, place: StreamPlace) {
        self.at.next_packet = place.packet.min(self.at.end_packet);
        self.at.clock = place.clock;
        self.order.floor = place.floor;
        self.skip = place.before;
        self.at.is_done |= place.packet >= self.at.end_packet;
    }

    /// Reads on from where another cursor stopped, over the same stream when it was shorter.
    pub(crate) fn resume_grown(&mut self, point: ResumePoint) {
        self.resume(point.place);
        self.is_reopened = point.is_open;
    }

    /// The place after all that was read, from which the stream is read on when it has grown; `None` before anything was read.
    /// With `grows_in_place`, its last packet may have more events then.
    pub(crate) fn resume_point(&self, grows_in_place: bool) -> Option<ResumePoint> {
        let floor = self.order.floor;
        let ChunkPlace { packet, before, clock } = self.at.last?;
        Some(match grows_in_place {
            true => ResumePoint { place: StreamPlace { packet, before, clock, floor }, is_open: true },
            false => ResumePoint {
                place: StreamPlace { packet: self.at.next_packet, before: 0, clock: self.at.clock, floor },
                is_open: false,
            },
        })
    }

    /// The largest clock value of an event so far.
    pub(crate) fn floor(&self) -> u64 {
        self.order.floor
    }

    /// Numbers of the packets that are left to read, in the list of the stream.
    pub fn packets(&self) -> Range<usize> {
        self.at.next_packet..self.at.end_packet
    }

    /// Gives the errors of the trace that stand in packets of the stream: each before the packets after it.
    pub fn report_faults(&mut self, faults: &[Error]) {
        let in_stream = |fault: &Error| {
            let (path, packet) = (fault.place().file.as_deref()?, fault.place().packet?);
            let file = self.stream.files.iter().position(|file| file.path == path)?;
            Some((file as u32, packet, fault.clone()))
        };
        let mut found: Vec<_> = faults.iter().filter_map(in_stream).collect();
        found.sort_by_key(|&(file, packet, _)| (file, packet));
        for (file, packet, fault) in &mut found {
            // A packet that is left out is a gap in the numbers of the others, where they have some.
            let place = (*file, *packet);
            let is_before = |of: &Packet| (of.file, of.index) >= place;
            let next = self.stream.packets.iter().filter(is_before).min_by_key(|of| (of.file, of.index));
            if next.is_some_and(|next| (next.file, next.index) != place && next.lost_packets_before > 0) {
                *fault = fault.clone().losing_nothing();
            }
        }
        self.damage.found = found.into();
    }

    /// Warns of bits after the last event of a packet that are too few for another one and no usual padding.
    pub fn report_rest(&mut self) {
        self.tells_rest = true;
    }

    /// Gives packets as they are where all their events are wanted, instead of looking for those.
    pub fn give_packets(&mut self) {
        // Without a beginning a packet's clock continues from the one before, which must be read then.
        let are_timed = || self.stream.packets.has_all_begins();
        let has_all = self.filter.classes.is_none();
        if has_all && (self.filter.cycles.is_none() || are_timed()) {
            self.whole = WholePackets::All;
        }
    }

    /// As [`Cursor::give_packets`], where nothing but the number of events is wanted: of a packet of which not all are, too.
    pub fn count_packets(&mut self) {
        self.give_packets();
        if self.whole == WholePackets::All {
            self.whole = WholePackets::Counted;
        }
    }

    /// Gives packets that hold no events and say when they began, too.
    pub fn give_empty_packets(&mut self) {
        if self.filter.classes.is_none() {
            self.whole = WholePackets::Empty;
        }
    }

    /// Are all events of a packet in the wanted range, as far as its times show?
    fn is_whole(&self, packet: &Packet) -> bool {
        match (self.filter.cycles, packet.begin_cycles, packet.end_cycles) {
            (None, _, _) => true,
            (Some((first, last)), Some(begin), Some(end)) => first <= begin && end <= last,
            _ => false,
        }
    }

    /// Counts what is read in `progress`, and what there is to read now.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<Progress>) -> Self {
        let sizes = self.stream.packets.total_bits(self.at.next_packet..self.at.end_packet);
        progress.add_total(sizes.map(|bits| bits / 8).sum());
        self.count_in(progress);
        self
    }

    /// Ends as at the end of the stream once this is set, at the next chunk.
    pub(crate) fn stop_at(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    /// Counts what is read in `progress`, whose total the caller knows.
    pub(crate) fn count_in(&mut self, progress: Arc<Progress>) {
        self.progress = Some(progress);
    }

    fn add_done(&self, bytes: u64) {
        if self.ahead.is_on {
            self.ahead.bytes.set(self.ahead.bytes.get() + bytes);
        } else if let Some(progress) = &self.progress {
            progress.add_done(bytes);
        }
    }

    /// The next thing in the stream, `None` at its end.
    #[expect(clippy::should_implement_trait, reason = "`Iterator` would offer adapters that lose the cursor")]
    pub fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(item);
            }
            if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return None;
            }
            match self.at.open.take() {
                Some(packet) => {
                    if let Some(ready) = self.read_chunk(packet) {
                        self.queue.push_front(Item::Chunk(ready));
                    }
                }
                None => {
                    if self.at.next_packet < self.at.end_packet {
                        let packet = self.stream.packets.at(self.at.next_packet);
                        if packet_bytes(&packet) > SMALL_PACKET || !self.read_ahead(&packet) {
                            self.open_packet(packet);
                        }
                    } else if !std::mem::replace(&mut self.at.is_done, true)
                        && let Some(behind) = self.stream.packets.get(self.at.end_packet)
                    {
                        // Losses before a packet after the time range may have happened within the range.
                        self.push_gaps(&behind, self.at.end_packet);
                    } else {
                        return self.damage.found.pop_front().map(|(_, _, fault)| Item::Fault(fault));
                    }
                }
            }
        }
    }

    /// Reads small packets from `first` on, and asks once whether the bytes of all of them were there. When they were not,
    /// it is as if nothing had been read, and the answer is false: read one by one, they show where the file ends.
    fn read_ahead(&mut self, first: &Packet) -> bool {
        if self.ahead.is_over || !self.damage.found.is_empty() || !self.damage.truncated.is_empty() {
            return false;
        }
        let (begin, clock) = (self.at.next_packet, self.at.clock);
        let (floor, went_back, skip) = (self.order.floor, self.order.went_back, self.skip);
        let mut end = 0;
        let mut packet = first.clone();
        self.ahead = Ahead { is_on: true, ..Ahead::default() };
        loop {
            end = end.max(packet.offset_bytes.saturating_add(packet_bytes(&packet)));
            self.open_packet(packet);
            while let Some(open) = self.at.open.take() {
                // Items about events come after the events.
                let at = self.queue.len();
                if let Some(ready) = self.read_chunk(open) {
                    self.queue.insert(at, Item::Chunk(ready));
                }
            }
            let next = self.at.next_packet;
            if next >= self.at.end_packet || next - begin >= MOST_AHEAD {
                break;
            }
            packet = self.stream.packets.at(next);
            if packet.file != first.file || packet_bytes(&packet) > SMALL_PACKET {
                break;
            }
        }
        self.ahead.is_on = false;
        if self.stream.files[first.file as usize].bytes.len_now() >= end {
            self.add_done(self.ahead.bytes.get());
            return true;
        }
        self.ahead.is_over = true;
        self.queue.clear();
        self.damage.truncated.clear();
        (self.at.next_packet, self.at.clock) = (begin, clock);
        (self.order.floor, self.order.went_back, self.skip) = (floor, went_back, skip);
        false
    }

    fn open_packet(&mut self, packet: Packet) {
        let is_before = |found: &(u32, u64, Error)| (found.0, found.1) <= (packet.file, packet.index);
        let before = self.damage.found.iter().take_while(|found| is_before(found)).count();
        self.queue.extend(self.damage.found.drain(..before).map(|(_, _, fault)| Item::Fault(fault)));
        let is_gone =
            self.damage.truncated.iter().any(|&(file, len)| file == packet.file && packet.offset_bytes >= len);
        if is_gone {
            self.add_done(packet_bytes(&packet));
            self.at.next_packet += 1;
            return;
        }
        let is_reopened = std::mem::take(&mut self.is_reopened);
        if !is_reopened {
            self.push_gaps(&packet, self.at.next_packet);
        }
        self.at.next_packet += 1;
        let file = &self.stream.files[packet.file as usize];
        match self.reader.open_packet(&self.plans, &self.stream, self.at.next_packet - 1, self.at.clock) {
            Err(error) => {
                self.add_done(packet_bytes(&packet));
                let len_now = file.bytes.len_now();
                let fault = if len_now < packet.offset_bytes.saturating_add(packet_bytes(&packet)) {
                    // It read as zeros.
                    self.cut_fault(packet.file, packet.index, len_now)
                } else {
                    Some(with_loss(error, self.plans.schema(), &packet).in_file(&file.path).in_packet(packet.index))
                };
                self.queue.extend(fault.map(Item::Fault));
            }
            Ok(opened) => {
                let place = |error: Error| error.in_file(&file.path).in_packet(packet.index);
                let is_counted = self.whole == WholePackets::Counted;
                let is_kept = (is_counted || self.whole == WholePackets::All) && opened.can_be_copied;
                // Errors are found again when a packet is read again, and each is reported once.
                self.queue.extend(opened.faults.into_iter().map(|fault| Item::Fault(place(fault))));
                if !is_reopened {
                    self.queue.extend(opened.warnings.into_iter().map(|warning| Item::Warning(place(warning))));
                    self.queue.extend(opened.gaps.into_iter().map(Item::Gap));
                }
                let data = opened.data;
                let is_ahead = self.ahead.is_on;
                let wanted = SelectedRange { range: self.filter.cycles, is_counted };
                // Last, as it is a call of the system.
                let is_there = || is_ahead || file.bytes.len_now() >= packet.offset_bytes + packet_bytes(&packet);
                if is_kept
                    && (is_counted || self.is_whole(&packet))
                    && is_there()
                    && let Some(times) = sound_times(&data, wanted, self.order.floor, is_ahead)
                {
                    self.at.clock = packet.end_cycles.map_or(times.clock, |end| times.clock.max(end));
                    self.add_done(packet_bytes(&data.packet));
                    if self.order.has_clock {
                        self.order.floor = times.order.largest;
                        self.report_step_back(&data, times.order.back);
                    }
                    self.queue.push_back(Item::Packet(Arc::new(data), times.events));
                    return;
                }
                // Where plans find the events, each chunk is copied.
                let data = if data.spine.is_some() { data.copied() } else { data };
                if data.spine.is_some() && !is_there() {
                    // Its reader has read zeros.
                    let fault = self.cut_fault(packet.file, packet.index, file.bytes.len_now());
                    self.queue.extend(fault.map(Item::Fault));
                    self.add_done(packet_bytes(&data.packet));
                    return;
                }
                let (pos, state) = (data.first_event(), data.state.clone());
                self.at.open =
                    Some(OpenPacket { data: Arc::new(data), pos, state, counted: 0, given: 0, clock: self.at.clock });
            }
        }
    }

    /// The error of a file that was cut, once for each.
    fn cut_fault(&mut self, file: u32, packet: u64, len_now: u64) -> Option<Error> {
        if self.damage.truncated.iter().any(|&(cut, _)| cut == file) {
            return None;
        }
        self.damage.truncated.push((file, len_now));
        let error = cut_while_read(len_now).in_packet(packet);
        Some(error.in_file(&self.stream.files[file as usize].path))
    }

    fn push_gaps(&mut self, packet: &Packet, at: usize) {
        if packet.lost_packets_before == 0 && packet.discarded_before == 0 {
            return;
        }
        let previous = at.checked_sub(1).map(|at| self.stream.packets.at(at));
        let before = packet.lost_since.or_else(|| previous.map_or(packet.begin_cycles, |previous| previous.end_cycles));
        // The gap between two packets may be outside of the time range when one of them is inside.
        let is_wanted = |end: Option<u64>| {
            self.filter.cycles.is_none_or(|(first, last)| {
                end.is_none_or(|end| end >= first) && before.is_none_or(|begin| begin <= last)
            })
        };
        let losses = [
            (GapKind::LostPackets, packet.lost_packets_before, packet.begin_cycles),
            (GapKind::DiscardedEvents, packet.discarded_before, packet.end_cycles),
        ];
        for (kind, count, end_cycles) in losses {
            if count > 0 && is_wanted(end_cycles) {
                let gap = Gap { kind, count: Some(count), begin_cycles: before, end_cycles };
                self.queue.push_back(Item::Gap(gap));
            }
        }
    }

    /// Reads the next events of a packet; puts the packet back when there are more.
    fn read_chunk(&mut self, mut packet: OpenPacket) -> Option<ReadyChunk> {
        let is_fresh = packet.pos == packet.data.first_event();
        let (given, clock) = (packet.given, packet.clock);
        let mut chunk = Chunk::new(packet.data.clone(), packet.pos, self.max_events.min(capacity(&packet)));
        let room_bytes = self.max_events.saturating_mul(COPIED_BYTES);
        let data = packet.data.clone();
        let mut selected = None;
        let end = match &self.filter.classes {
            None => {
                let mut sink = ChunkSink::new(&mut chunk, self.max_events).within(room_bytes);
                data.scan(&mut packet.pos, &mut packet.state, &mut sink)
            }
            Some(classes) => {
                let inner = ChunkSink::new(&mut chunk, self.max_events).within(room_bytes);
                let order = Ascent::from(self.order.floor);
                let mut sink = Selecting { inner, classes, left: SELECT_SPAN, order, floors: Vec::new() };
                let end = data.scan(&mut packet.pos, &mut packet.state, &mut sink);
                selected = Some((sink.floors, sink.order));
                end
            }
        };
        // Fields are decoded later than the file is checked here, so they are decoded from a copy.
        let mut chunk = chunk.copied(packet.pos, NEAR_BYTES);
        let gone = self.drop_vanished(&mut chunk, &packet);
        // Bytes that are gone moved no clock.
        self.at.clock = if gone { chunk.cycles.last().copied().unwrap_or(self.at.clock) } else { packet.state.clock };
        let of = &packet.data.packet;
        if self.whole == WholePackets::Empty
            && (is_fresh && chunk.is_empty() && !gone && end == ScanEnd::Complete)
            && (of.begin_cycles.is_some() && self.is_whole(of))
        {
            self.queue.push_back(Item::Packet(packet.data.clone(), 0));
        }
        let all = packet_bytes(&packet.data.packet);
        let read = if matches!(end, ScanEnd::Full) && packet.data.spine.is_none() { packet.pos / 8 } else { all };
        let read = read.clamp(packet.counted, all.max(packet.counted));
        self.add_done(read - packet.counted);
        packet.counted = read;
        match end {
            ScanEnd::Full if !gone => self.at.open = Some(packet),
            ScanEnd::Fault(fault) if !gone => self.push_fault(&fault, &packet),
            ScanEnd::Complete if self.tells_rest && !gone => self.push_rest(&packet),
            _ => {}
        }
        if self.at.open.is_none()
            && let Some(end) = packet_end(&self.stream, self.at.next_packet)
        {
            self.at.clock = self.at.clock.max(end);
        }
        let floors = self.floors(&chunk, &data, selected);
        let place = ChunkPlace { packet: self.at.next_packet - 1, before: given, clock };
        let mut ready = ReadyChunk { chunk, floors, place: Some(place) };
        self.keep_range(&mut ready);
        if let Some(open) = &mut self.at.open {
            open.given += ready.chunk.len() as u64;
        }
        self.at.last = Some(ChunkPlace { before: given + ready.chunk.len() as u64, ..place });
        if self.skip > 0 {
            self.skip_before_start(&mut ready);
        }
        (!ready.chunk.is_empty()).then_some(ready)
    }

    /// Leaves out what stands before the place from which the stream is read.
    #[cold]
    fn skip_before_start(&mut self, ready: &mut ReadyChunk) {
        let (len, skipped) = (ready.chunk.len(), self.skip.min(ready.chunk.len() as u64));
        let is_kept: Vec<bool> = (0..len as u64).map(|at| at >= skipped).collect();
        ready.retain(&is_kept);
        ready.place = ready.place.map(|place| ChunkPlace { before: place.before + skipped, ..place });
        self.skip = if self.at.open.is_none() { 0 } else { self.skip - skipped };
    }

    fn push_fault(&mut self, fault: &EventFault, packet: &OpenPacket) {
        let of = &packet.data.packet;
        let error =
            packet.data.error(fault).in_packet(of.index).with_help(skipped(packet.data.plans.schema(), of, packet.pos));
        self.queue.push_back(Item::Fault(error.in_file(&self.file_of(packet).path)));
    }

    fn push_rest(&mut self, packet: &OpenPacket) {
        let bits = packet.data.unexplained_bits(packet.pos);
        if bits == 0 {
            return;
        }
        let message = format!("{bits} bits of the packet's content after its last event are too few for another event");
        let warning = Error::inconsistent(message)
            .at_bit(packet.data.file_bit(packet.pos))
            .in_packet(packet.data.packet.index)
            .in_file(&self.file_of(packet).path);
        self.queue.push_back(Item::Warning(warning));
    }

    fn file_of(&self, packet: &OpenPacket) -> &tracemill_format::DataFile {
        &self.stream.files[packet.data.packet.file as usize]
    }

    /// Drops events whose bytes are gone because the file was cut while we read it.
    fn drop_vanished(&mut self, chunk: &mut Chunk, packet: &OpenPacket) -> bool {
        let of = &packet.data.packet;
        // The events that a reader finds itself were copied, and checked, when the packet was opened.
        if self.ahead.is_on || !packet.data.is_in_place() || packet.data.spine.is_some() {
            return false;
        }
        let len_now = packet.data.file.len_now();
        if len_now.saturating_mul(8) >= of.offset_bytes * 8 + packet.pos {
            return false;
        }
        let kept_bits = len_now.saturating_sub(of.offset_bytes) * 8;
        // The end of an event is the start of the next one; the last one ends at the position.
        let ends: Vec<u64> = (1..chunk.len()).map(|at| chunk.recorded_bits(at)).chain([packet.pos]).collect();
        chunk.retain(|_, at| ends[at] <= kept_bits);
        let fault = self.cut_fault(of.file, of.index, len_now);
        self.queue.extend(fault.map(Item::Fault));
        true
    }

    /// The largest clock value so far for each event, where it is not the event's own; a step back is reported once.
    /// `selected` has those of the events that were kept, when the scan saw more.
    fn floors(&mut self, chunk: &Chunk, packet: &PacketData, selected: Option<(Vec<u64>, Ascent)>) -> Option<Vec<u64>> {
        if !self.order.has_clock {
            return None;
        }
        if let Some((mut floors, order)) = selected {
            self.order.floor = order.largest;
            // Events that are left out were compared with what comes after them.
            self.report_step_back(packet, order.back.filter(|_| self.skip == 0));
            floors.truncate(chunk.len());
            return (floors != chunk.cycles).then_some(floors);
        }
        let mut order = Ascent::from(self.order.floor);
        let skipped = self.skip.min(chunk.len() as u64) as usize;
        for (at, &cycles) in chunk.cycles.iter().enumerate().skip(skipped) {
            order.pass(cycles, at as u64);
        }
        let mut largest = std::mem::replace(&mut self.order.floor, order.largest);
        let (at, before, now) = order.back?;
        self.report_step_back(packet, Some((chunk.recorded_bits(at as usize), before, now)));
        let floors = chunk.cycles.iter().map(|&cycles| {
            largest = largest.max(cycles);
            largest
        });
        Some(floors.collect())
    }

    /// Reports the first step back of the stream.
    fn report_step_back(&mut self, data: &PacketData, back: Option<StepBack>) {
        let went_back = &mut self.order.went_back;
        let Some((start_bits, before, now)) = back.filter(|_| !std::mem::replace(went_back, true)) else { return };
        let packet = &data.packet;
        let name = &self.stream.name;
        let message =
            format!("time goes back in stream `{name}`, from {before} to {now} cycles; reported once for the stream");
        let warning = Error::inconsistent(message)
            .in_file(&self.stream.files[packet.file as usize].path)
            .at_bit(data.file_bit(start_bits))
            .in_packet(packet.index)
            .with_help("the stream keeps its order, and the event its own time");
        self.queue.push_back(Item::Warning(warning));
    }

    /// Keeps the events of the wanted time range.
    fn keep_range(&self, ready: &mut ReadyChunk) {
        let Some((first, last)) = self.filter.cycles.filter(|_| self.order.has_clock) else { return };
        let cycles = &ready.chunk.cycles;
        if !cycles.iter().all(|&at| first <= at && at <= last) {
            let is_kept: Vec<bool> = cycles.iter().map(|&at| first <= at && at <= last).collect();
            ready.retain(&is_kept);
        }
    }
}

/// Events for which room is made before the rest of a packet is read: a small packet gets little.
fn capacity(packet: &OpenPacket) -> usize {
    let expected = match &packet.data.spine {
        Some(spine) => spine.len() as u64 - packet.pos.min(spine.len() as u64),
        None => packet.data.packet.content_bits.saturating_sub(packet.pos) / MIN_EVENT_BITS + 1,
    };
    expected.min(1 << 16) as usize
}

/// Size that few events are below; where they are, a chunk grows.
const MIN_EVENT_BITS: u64 = 64;
