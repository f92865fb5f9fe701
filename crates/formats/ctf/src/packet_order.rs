//! Packets of one file that do not lie in the order in which they were written: a ring in memory that was dumped as it lay,
//! where the newest packets stand before the oldest ones.
//!
//! Sequence numbers say the order, where packets have them. Otherwise times do, where the packets' ranges do not overlap. A
//! file whose packets contradict themselves keeps its order.

use tracemill_codec::bits;
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;

use super::gaps::{self, Widths};

/// See [`Ordered::by`].
pub(crate) const BY_SEQUENCE: &str = "sequence numbers";

/// The packets of a file in the order in which they were written.
pub(crate) struct Ordered {
    pub(crate) packets: PacketList,
    /// The evidence for the order, in words.
    pub(crate) by: &'static str,
}

/// Puts the packets of a file in order, when they are not, and something says which order that is. `read_again` reads the
/// times of packets in another order: those of narrow clocks depend on the packets before.
pub(crate) fn in_order(
    packets: &PacketList,
    widths: &Widths,
    read_again: impl Fn(&PacketList) -> PacketList,
) -> Option<Ordered> {
    if packets.len() < 2 || !is_of_one_stream(packets) {
        return None;
    }
    if let Some(order) = by_sequence(packets, widths) {
        let ordered = read_again(&in_this_order(packets, &order));
        if !time_goes_back(&ordered) {
            return Some(Ordered { packets: ordered, by: BY_SEQUENCE });
        }
    }
    if !time_goes_back(packets) || sequence_goes_on(packets, widths) {
        return None;
    }
    let order = by_time(packets)?;
    Some(Ordered { packets: in_this_order(packets, &order), by: "times" })
}

fn is_of_one_stream(packets: &PacketList) -> bool {
    let Some(first) = packets.first() else { return true };
    packets.iter().all(|packet| (packet.class, packet.stream_id) == (first.class, first.stream_id))
}

fn in_this_order(packets: &PacketList, order: &[usize]) -> PacketList {
    order.iter().map(|at| packets.at(*at)).collect()
}

fn time_goes_back(packets: &PacketList) -> bool {
    let begins = |at: usize| packets.begin_cycles(at);
    (1..packets.len()).any(|at| begins(at - 1).zip(begins(at)).is_some_and(|(before, now)| now < before))
}

/// Do sequence numbers say that the packets are in order?
fn sequence_goes_on(packets: &PacketList, widths: &Widths) -> bool {
    steps(packets, widths).is_some_and(|mut steps| steps.all(|step| step.is_some_and(|step| step > 0)))
}

/// The steps from one sequence number to the next; `None` when a packet has none. A step is `None` when it goes back.
fn steps(packets: &PacketList, widths: &Widths) -> Option<impl Iterator<Item = Option<u64>>> {
    let numbers: Option<Vec<u64>> = packets.iter().map(|packet| packet.sequence).collect();
    let (numbers, bits) = (numbers?, widths.sequence);
    Some((1..numbers.len()).map(move |at| gaps::since(numbers[at - 1], numbers[at], bits)))
}

/// The order that sequence numbers say, when it is not that of the file. Numbers wrap: the oldest packet is after the widest
/// range that no packet has.
fn by_sequence(packets: &PacketList, widths: &Widths) -> Option<Vec<usize>> {
    if !steps(packets, widths)?.any(|step| step.is_none()) {
        return None;
    }
    let mask = bits::mask(widths.sequence.clamp(1, 64));
    let mut sorted: Vec<(u64, usize)> =
        packets.iter().zip(0..).map(|(packet, at)| (packet.sequence.unwrap_or(0) & mask, at)).collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    let last = sorted.last()?.0;
    let before = std::iter::once(last).chain(sorted.iter().map(|(number, _)| *number));
    let widest = before.zip(&sorted).enumerate().max_by_key(|(at, (before, (number, _)))| {
        // Of ranges of one width the one that is at 0.
        (number.wrapping_sub(*before) & mask, std::cmp::Reverse(*at))
    });
    let oldest = widest?.0;
    sorted.rotate_left(oldest);
    Some(sorted.into_iter().map(|(_, at)| at).collect())
}

/// The order of time, when no packet begins before the one before it ends.
fn by_time(packets: &PacketList) -> Option<Vec<usize>> {
    let range = |packet: Packet| packet.begin_cycles.zip(packet.end_cycles).filter(|(begin, end)| begin <= end);
    let ranges: Option<Vec<(u64, u64)>> = packets.iter().map(range).collect();
    let ranges = ranges?;
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|at| ranges[*at]);
    order.windows(2).all(|pair| ranges[pair[0]].1 <= ranges[pair[1]].0).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracemill_model::schema::StreamClassId;

    /// A sequence number, and when a packet began and ended.
    type Stated = (Option<u64>, Option<(u64, u64)>);

    fn list(packets: &[Stated]) -> PacketList {
        let packet = |(at, (sequence, range)): (u64, &Stated)| Packet {
            index: at,
            sequence: *sequence,
            begin_cycles: range.map(|(begin, _)| begin),
            end_cycles: range.map(|(_, end)| end),
            ..Packet::new(StreamClassId(0), at * 64, 512)
        };
        (0..).zip(packets).map(packet).collect()
    }

    fn order(packets: &[Stated], bits: u32) -> Option<Vec<u64>> {
        let widths = Widths { sequence: bits, ..Widths::default() };
        let ordered = in_order(&list(packets), &widths, PacketList::clone)?;
        Some(ordered.packets.iter().map(|packet| packet.index).collect())
    }

    #[test]
    fn sequence_numbers_say_the_order() {
        let numbers =
            |numbers: &[u64], bits| order(&numbers.iter().map(|n| (Some(*n), None)).collect::<Vec<_>>(), bits);
        assert_eq!(numbers(&[8, 9, 5, 6, 7], 64), Some(vec![2, 3, 4, 0, 1]));
        assert_eq!(numbers(&[5, 6, 9], 64), None, "a gap");
        assert_eq!(numbers(&[254, 255, 0, 1], 8), None, "they wrap");
        assert_eq!(numbers(&[0, 1, 253, 254], 8), Some(vec![2, 3, 0, 1]));
        assert_eq!(numbers(&[5, 6, 5, 6], 64), None, "twice");
        assert_eq!(numbers(&[3, 1, 2, 0], 64), Some(vec![3, 1, 2, 0]));
    }

    #[test]
    fn times_that_do_not_overlap_say_the_order() {
        let times = |times: &[(u64, u64)]| order(&times.iter().map(|n| (None, Some(*n))).collect::<Vec<_>>(), 64);
        assert_eq!(times(&[(50, 60), (60, 70), (10, 20), (30, 50)]), Some(vec![2, 3, 0, 1]));
        assert_eq!(times(&[(10, 20), (20, 20), (20, 30)]), None, "in order");
        assert_eq!(times(&[(50, 60), (10, 55)]), None, "they overlap");
        assert_eq!(times(&[(50, 60), (20, 10)]), None, "a range that ends before it begins");
    }

    #[test]
    fn what_contradicts_itself_keeps_its_order() {
        let both =
            |both: &[(u64, (u64, u64))]| order(&both.iter().map(|(n, t)| (Some(*n), Some(*t))).collect::<Vec<_>>(), 64);
        assert_eq!(both(&[(1, (50, 60)), (2, (10, 20))]), None, "a clock that was set back");
        assert_eq!(both(&[(7, (10, 20)), (0, (30, 40))]), None, "a counter that began again");
        assert_eq!(both(&[(8, (50, 60)), (6, (10, 20)), (7, (30, 40))]), Some(vec![1, 2, 0]));
        // Numbers that say nothing.
        assert_eq!(both(&[(0, (50, 60)), (0, (10, 20))]), Some(vec![1, 0]));
    }
}
