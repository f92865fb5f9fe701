//! The packets of a stream in little memory.
//!
//! Small producers write a packet for each event, so a stream may have millions. Most of what describes them repeats or
//! grows evenly (the file, the number in it, counters that stand still), and the rest is mostly small: each property is a
//! column of its own that takes no memory while its values are evenly spaced, and otherwise 1, 4 or 8 bytes a packet.

use std::ops::Range;

use crate::packet::Packet;
use crate::schema::StreamClassId;

/// The packets of a stream, stored by columns and given as [`Packet`]s.
///
/// ```
/// use tracemill_model::packet::Packet;
/// use tracemill_model::packet_list::PacketList;
/// use tracemill_model::schema::StreamClassId;
///
/// let packet = |index| Packet { index, ..Packet::new(StreamClassId(0), index * 64, 512) };
/// let list: PacketList = (0..1_000_000).map(packet).collect();
/// assert_eq!(list.at(77), packet(77));
/// assert_eq!(list.heap_bytes(), 0, "evenly spaced");
/// ```
#[derive(Clone, Debug, Default)]
pub struct PacketList {
    len: usize,
    file: PacketColumn,
    index: PacketColumn,
    offset_bytes: PacketColumn,
    total_bits: PacketColumn,
    content_bits: PacketColumn,
    class: PacketColumn,
    stream_id: OptionColumn,
    begin_cycles: OptionColumn,
    end_cycles: OptionColumn,
    discarded_snapshot: OptionColumn,
    sequence: OptionColumn,
    discarded_before: PacketColumn,
    lost_packets_before: PacketColumn,
    lost_since: OptionColumn,
}

impl PacketList {
    /// Number of packets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there no packets?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The packet `at`.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn at(&self, at: usize) -> Packet {
        assert!(at < self.len, "packet {at} of {}", self.len);
        Packet {
            file: self.file.at(at) as u32,
            index: self.index.at(at),
            offset_bytes: self.offset_bytes.at(at),
            total_bits: self.total_bits.at(at),
            content_bits: self.content_bits.at(at),
            class: StreamClassId(self.class.at(at) as u32),
            stream_id: self.stream_id.at(at),
            begin_cycles: self.begin_cycles.at(at),
            end_cycles: self.end_cycles.at(at),
            discarded_snapshot: self.discarded_snapshot.at(at),
            sequence: self.sequence.at(at),
            discarded_before: self.discarded_before.at(at),
            lost_packets_before: self.lost_packets_before.at(at),
            lost_since: self.lost_since.at(at),
        }
    }

    /// The packet `at`, when there are so many.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Packet> {
        (at < self.len).then(|| self.at(at))
    }

    /// The first packet.
    pub fn first(&self) -> Option<Packet> {
        self.get(0)
    }

    /// The last packet.
    pub fn last(&self) -> Option<Packet> {
        self.get(self.len.checked_sub(1)?)
    }

    /// All packets.
    pub fn iter(&self) -> Packets<'_> {
        self.range(0..self.len)
    }

    /// Some of the packets.
    pub fn range(&self, range: Range<usize>) -> Packets<'_> {
        Packets { list: self, range: range.start..range.end.min(self.len) }
    }

    /// When the packet `at` began; `None` when it does not say, and after the last one.
    #[inline]
    pub fn begin_cycles(&self, at: usize) -> Option<u64> {
        self.begin_cycles.at(at).filter(|_| at < self.len)
    }

    /// When the packet `at` ended; `None` when it does not say, and after the last one.
    #[inline]
    pub fn end_cycles(&self, at: usize) -> Option<u64> {
        self.end_cycles.at(at).filter(|_| at < self.len)
    }

    /// Sizes of some of the packets with their padding, in bits.
    pub fn total_bits(&self, range: Range<usize>) -> impl Iterator<Item = u64> {
        (range.start..range.end.min(self.len)).map(|at| self.total_bits.at(at))
    }

    /// Are all packets of this class?
    pub fn is_all_of(&self, class: StreamClassId) -> bool {
        (0..self.len).all(|at| self.class.at(at) == u64::from(class.0))
    }

    /// Do all packets say when they began?
    pub fn has_all_begins(&self) -> bool {
        match &self.begin_cycles.has_value {
            PacketColumn::Steps { first: 1, step: 0 } => true,
            _ => self.iter().all(|packet| packet.begin_cycles.is_some()),
        }
    }

    /// Adds a packet after the others.
    pub fn push(&mut self, packet: &Packet) {
        self.set(self.len, packet);
        self.len += 1;
    }

    /// Changes the packet `at`.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn update(&mut self, at: usize, change: impl FnOnce(&mut Packet)) {
        let before = self.at(at);
        let mut packet = before.clone();
        change(&mut packet);
        if packet != before {
            self.set(at, &packet);
        }
    }

    /// Bytes of memory that the columns take.
    pub fn heap_bytes(&self) -> usize {
        let plain = [&self.file, &self.index, &self.offset_bytes, &self.total_bits, &self.content_bits, &self.class];
        let counts = [&self.discarded_before, &self.lost_packets_before];
        let optional = [&self.stream_id, &self.begin_cycles, &self.end_cycles, &self.discarded_snapshot];
        let optional = optional.into_iter().chain([&self.sequence, &self.lost_since]);
        let columns = optional.flat_map(|column| [&column.has_value, &column.values]);
        plain.into_iter().chain(counts).chain(columns).map(PacketColumn::heap_bytes).sum()
    }

    fn set(&mut self, at: usize, packet: &Packet) {
        let len = self.len;
        self.file.set(at, len, packet.file.into());
        self.index.set(at, len, packet.index);
        self.offset_bytes.set(at, len, packet.offset_bytes);
        self.total_bits.set(at, len, packet.total_bits);
        self.content_bits.set(at, len, packet.content_bits);
        self.class.set(at, len, packet.class.0.into());
        self.stream_id.set(at, len, packet.stream_id);
        self.begin_cycles.set(at, len, packet.begin_cycles);
        self.end_cycles.set(at, len, packet.end_cycles);
        self.discarded_snapshot.set(at, len, packet.discarded_snapshot);
        self.sequence.set(at, len, packet.sequence);
        self.discarded_before.set(at, len, packet.discarded_before);
        self.lost_packets_before.set(at, len, packet.lost_packets_before);
        self.lost_since.set(at, len, packet.lost_since);
    }
}

impl FromIterator<Packet> for PacketList {
    fn from_iter<I: IntoIterator<Item = Packet>>(packets: I) -> Self {
        let mut list = PacketList::default();
        list.extend(packets);
        list
    }
}

impl From<Vec<Packet>> for PacketList {
    fn from(packets: Vec<Packet>) -> Self {
        packets.into_iter().collect()
    }
}

impl Extend<Packet> for PacketList {
    fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
        packets.into_iter().for_each(|packet| self.push(&packet));
    }
}

impl<'a> IntoIterator for &'a PacketList {
    type Item = Packet;
    type IntoIter = Packets<'a>;

    fn into_iter(self) -> Packets<'a> {
        self.iter()
    }
}

/// Packets of a list, in its order.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    list: &'a PacketList,
    range: Range<usize>,
}

impl Iterator for Packets<'_> {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        self.range.next().map(|at| self.list.at(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<Packet> {
        self.range.nth(n).map(|at| self.list.at(at))
    }
}

impl DoubleEndedIterator for Packets<'_> {
    fn next_back(&mut self) -> Option<Packet> {
        self.range.next_back().map(|at| self.list.at(at))
    }
}

impl ExactSizeIterator for Packets<'_> {}

/// One number of each packet.
#[derive(Clone, Debug)]
enum PacketColumn {
    /// Evenly spaced, modulo 2^64.
    Steps {
        first: u64,
        step: u64,
    },
    Bytes(Vec<u8>),
    Words(Vec<u32>),
    Full(Vec<u64>),
}

impl Default for PacketColumn {
    fn default() -> Self {
        PacketColumn::Steps { first: 0, step: 0 }
    }
}

impl PacketColumn {
    #[inline]
    fn at(&self, at: usize) -> u64 {
        match self {
            PacketColumn::Steps { first, step } => first.wrapping_add(step.wrapping_mul(at as u64)),
            // Without a panic, a caller that does not need the number leaves it out.
            PacketColumn::Bytes(values) => values.get(at).map_or(0, |value| u64::from(*value)),
            PacketColumn::Words(values) => values.get(at).map_or(0, |value| u64::from(*value)),
            PacketColumn::Full(values) => values.get(at).copied().unwrap_or(0),
        }
    }

    /// Sets the value `at` of `len`, or adds it when it is the next one.
    fn set(&mut self, at: usize, len: usize, value: u64) {
        let is_put = match self {
            PacketColumn::Steps { first, step } if at == len && len < 2 => {
                if len == 0 {
                    *first = value;
                } else {
                    *step = value.wrapping_sub(*first);
                }
                true
            }
            // The step of a single value is not known yet.
            PacketColumn::Steps { first, .. } if len == 1 => {
                *first = value;
                true
            }
            PacketColumn::Steps { .. } => self.at(at) == value,
            PacketColumn::Bytes(values) => u8::try_from(value).is_ok_and(|value| place(values, at, value)),
            PacketColumn::Words(values) => u32::try_from(value).is_ok_and(|value| place(values, at, value)),
            PacketColumn::Full(values) => place(values, at, value),
        };
        if !is_put {
            *self = self.with_room(len, value);
            self.set(at, len, value);
        }
    }

    /// The column with one number for each packet, wide enough for `value`.
    #[cold]
    fn with_room(&self, len: usize, value: u64) -> PacketColumn {
        let values = (0..len).map(|at| self.at(at));
        let largest = values.clone().max().unwrap_or(0).max(value);
        match (u8::try_from(largest), u32::try_from(largest)) {
            (Ok(_), _) => PacketColumn::Bytes(values.map(|value| value as u8).collect()),
            (_, Ok(_)) => PacketColumn::Words(values.map(|value| value as u32).collect()),
            _ => PacketColumn::Full(values.collect()),
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            PacketColumn::Steps { .. } => 0,
            PacketColumn::Bytes(values) => values.capacity(),
            PacketColumn::Words(values) => values.capacity() * 4,
            PacketColumn::Full(values) => values.capacity() * 8,
        }
    }
}

fn place<T>(values: &mut Vec<T>, at: usize, value: T) -> bool {
    match values.get_mut(at) {
        Some(place) => *place = value,
        None => values.push(value),
    }
    true
}

/// A number that a packet may lack.
#[derive(Clone, Debug, Default)]
struct OptionColumn {
    /// 1 for packets that have it.
    has_value: PacketColumn,
    /// 0 for those that lack it.
    values: PacketColumn,
}

impl OptionColumn {
    #[inline]
    fn at(&self, at: usize) -> Option<u64> {
        (self.has_value.at(at) != 0).then(|| self.values.at(at))
    }

    fn set(&mut self, at: usize, len: usize, value: Option<u64>) {
        self.has_value.set(at, len, value.is_some().into());
        self.values.set(at, len, value.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::PacketList;
    use crate::packet::Packet;
    use crate::schema::StreamClassId;

    /// Numbers of every width, with runs of equal and of evenly spaced ones.
    fn numbers() -> impl FnMut() -> u64 {
        let (mut seed, mut value, mut step, mut left) = (1u64, 0u64, 0u64, 0u64);
        move || {
            if left == 0 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let width = [1, 7, 8, 9, 31, 32, 33, 64][(seed >> 33) as usize % 8];
                value = seed >> (64 - width);
                step = (seed >> 40) % 3;
                left = (seed >> 45) % 5;
            } else {
                left -= 1;
            }
            value = value.wrapping_add(step);
            value
        }
    }

    fn packet(next: &mut impl FnMut() -> u64) -> Packet {
        let optional = |value: u64| (!value.is_multiple_of(3)).then_some(value);
        Packet {
            file: next() as u32,
            index: next(),
            offset_bytes: next(),
            total_bits: next(),
            content_bits: next(),
            class: StreamClassId(next() as u32),
            stream_id: optional(next()),
            begin_cycles: optional(next()),
            end_cycles: optional(next()),
            discarded_snapshot: optional(next()),
            sequence: optional(next()),
            discarded_before: next(),
            lost_packets_before: next(),
            lost_since: optional(next()),
        }
    }

    #[test]
    fn packets_of_any_numbers_come_back_as_they_were() {
        let mut next = numbers();
        for len in 0..40 {
            let mut packets: Vec<Packet> = (0..len).map(|_| packet(&mut next)).collect();
            let mut list: PacketList = packets.clone().into();
            assert_eq!(list.iter().collect::<Vec<_>>(), packets);
            for at in 0..len {
                packets[at] = packet(&mut next);
                list.update(at, |packet| *packet = packets[at].clone());
                assert_eq!(list.iter().collect::<Vec<_>>(), packets, "{at} of {len}");
            }
            list.push(&Packet::default());
            assert_eq!((list.first(), list.last()), (packets.first().cloned().or(list.last()), list.get(len)));
            assert_eq!(list.range(len / 2..len).next_back(), packets[len / 2..].last().cloned());
        }
    }

    #[test]
    fn a_packet_of_a_common_producer_takes_at_most_32_bytes() {
        let packet = |index: u64| Packet {
            index,
            content_bits: 400 + index % 7,
            stream_id: Some(3),
            begin_cycles: Some((1 << 60) + index * 1000),
            end_cycles: Some((1 << 60) + index * 1000 + index % 500),
            discarded_snapshot: Some(index / 1000),
            sequence: Some(index),
            ..Packet::new(StreamClassId(0), index * 64 + index % 13, 512)
        };
        let mut list = PacketList::default();
        (0..1 << 16).for_each(|index| list.push(&packet(index)));
        assert!(list.heap_bytes() <= 32 << 16, "{} bytes", list.heap_bytes());
    }
}
