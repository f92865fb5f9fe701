//! Some of the packets of a stream: those of a stretch of time, and parts that several threads read.

use std::collections::VecDeque;
use std::ops::Range;

use tracemill_format::Stream;
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;

use super::{Ahead, Cursor, Damage, Position, StreamOrder};

impl Cursor {
    /// Reads only these packets, as far as the filter leaves them, from the clock value at which the packet before them
    /// ends. `None` when they cannot be read without all packets before them: see [`packets_stand_alone`].
    pub fn with_packets(mut self, packets: Range<usize>) -> Option<Self> {
        let first = packets.start.max(self.at.next_packet);
        if first > 0 && !packets_stand_alone(&self.stream) {
            return None;
        }
        self.at.next_packet = first;
        self.at.end_packet = packets.end.min(self.at.end_packet).max(first);
        self.at.clock = packet_end(&self.stream, first).unwrap_or(0);
        // Losses after them are reported with the packets after them, by another cursor.
        self.at.is_done |= packets.end < self.stream.packets.len();
        Some(self)
    }

    /// May parts of its packets be read by others ([`Cursor::part`])?
    pub(crate) fn can_be_divided(&self) -> bool {
        let is_fresh = self.at.open.is_none() && self.queue.is_empty() && self.damage.found.is_empty();
        is_fresh && self.reader.reads_packets_alone() && packets_stand_alone(&self.stream)
    }

    /// A cursor over some of the packets of this one, of which nothing was read. It begins as if no event before its packets
    /// were later than they begin; [`Cursor::is_followed_by`] says whether that was so.
    pub(crate) fn part(&self, packets: Range<usize>) -> Cursor {
        let is_first = packets.start == self.at.next_packet;
        let clock = if is_first { Some(self.at.clock) } else { packet_end(&self.stream, packets.start) };
        let floor = if is_first { None } else { self.stream.packets.begin_cycles(packets.start) };
        Cursor {
            plans: self.plans.clone(),
            reader: self.reader.clone(),
            stream: self.stream.clone(),
            filter: self.filter.clone(),
            whole: self.whole,
            max_events: self.max_events,
            tells_rest: self.tells_rest,
            progress: self.progress.clone(),
            stop: self.stop.clone(),
            at: Position {
                next_packet: packets.start,
                end_packet: packets.end,
                open: None,
                clock: clock.unwrap_or(0),
                // Losses after them are reported by the next part.
                is_done: packets.end < self.at.end_packet,
                last: None,
            },
            order: StreamOrder { has_clock: self.order.has_clock, floor: floor.unwrap_or(0), went_back: false },
            damage: Damage::default(),
            ahead: Ahead::default(),
            queue: VecDeque::new(),
            skip: 0,
            is_reopened: false,
        }
    }

    /// A [part](Cursor::part) with only the events in a range of clock values.
    pub(crate) fn part_of_time(&self, packets: Range<usize>, (first, last): (u64, u64)) -> Cursor {
        let mut part = self.part(packets);
        let (begin, end) = part.filter.cycles.unwrap_or((0, u64::MAX));
        part.filter.cycles = Some((begin.max(first), end.min(last)));
        part
    }

    /// Had its packets, which were read, no event after the end of the last of them?
    pub(crate) fn ends_in_time(&self) -> bool {
        packet_end(&self.stream, self.at.end_packet).is_some_and(|end| self.order.floor <= end)
    }

    /// The packets that are left, and the list that has them.
    pub(crate) fn listed(&self) -> (&PacketList, Range<usize>) {
        (&self.stream.packets, self.packets())
    }

    /// Does a part that begins with this packet read what this one would read, which is at its end and met nothing odd?
    pub(crate) fn is_followed_by(&self, packet: usize) -> bool {
        let begin = self.stream.packets.begin_cycles(packet);
        let is_later = !self.order.has_clock || begin.is_some_and(|begin| self.order.floor <= begin);
        is_later && self.at.next_packet == packet && Some(self.at.clock) == packet_end(&self.stream, packet)
    }

    /// Reads on after the packets of a part, up to this one.
    pub(crate) fn go_on(&mut self, end_packet: usize) {
        (self.at.end_packet, self.at.is_done) = (end_packet, false);
    }

    /// Where the part ends that begins with this packet, of about so many bytes.
    pub(crate) fn end_of_part(&self, first: usize, bytes: u64) -> usize {
        let (mut end, mut taken) = (first, 0u64);
        for bits in self.stream.packets.total_bits(first..self.at.end_packet) {
            (end, taken) = (end + 1, taken.saturating_add(bits / 8));
            if taken >= bytes {
                break;
            }
        }
        end.max(first + 1)
    }
}

/// Can each packet of a stream be read without those before it? Otherwise clocks go on from packet to packet.
pub fn packets_stand_alone(stream: &Stream) -> bool {
    stream.packets.has_all_begins()
}

/// End of the packet before `next`, as the clock continues from it.
pub(super) fn packet_end(stream: &Stream, next: usize) -> Option<u64> {
    stream.packets.end_cycles(next.checked_sub(1)?)
}

/// The packets that can hold events from `first` to `last`: found by the index, no byte of the others is read.
pub(super) fn packet_range(packets: &PacketList, first: u64, last: u64) -> (usize, usize) {
    // Without a beginning a packet's clock continues from the one before: all are read then.
    if packets.iter().any(|packet| packet.begin_cycles.is_none()) {
        return (0, packets.len());
    }
    let ends_before = |packet: &Packet| packet.end_cycles.is_some_and(|end| end < first);
    let begins_after = |packet: &Packet| packet.begin_cycles.is_some_and(|begin| begin > last);
    let begin = packets.iter().position(|packet| !ends_before(&packet)).unwrap_or(packets.len());
    let end = packets.iter().rposition(|packet| !begins_after(&packet)).map_or(begin, |at| at + 1);
    (begin, end.max(begin))
}
