//! Discarded events and lost packets, from the counters of the packets.

use tracemill_codec::plan::RoleValues;
use tracemill_model::packet_list::PacketList;

/// Widths of the counters in bits: they wrap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths {
    pub discarded: u32,
    pub sequence: u32,
}

impl Default for Widths {
    fn default() -> Self {
        Widths { discarded: 64, sequence: 64 }
    }
}

impl Widths {
    pub(crate) fn from_roles(roles: &RoleValues) -> Self {
        let or_64 = |bits: u32| if bits == 0 { 64 } else { bits };
        Widths { discarded: or_64(roles.discarded_len_bits), sequence: or_64(roles.sequence_len_bits) }
    }
}

/// Fills in what is missing before each packet of a stream.
///
/// The first packet's own counter counts as lost before it; a first sequence number that is not 0 is no loss.
pub(crate) fn count(packets: &mut PacketList, widths: &Widths) {
    let (mut discarded, mut sequence) = (None, None);
    for at in 0..packets.len() {
        packets.update(at, |packet| {
            if let Some(now) = packet.discarded_snapshot {
                packet.discarded_before = match discarded {
                    None => now,
                    Some(before) => since(before, now, widths.discarded).unwrap_or(now),
                };
                discarded = Some(now);
            }
            if let Some(now) = packet.sequence {
                let step = sequence.and_then(|before| since(before, now, widths.sequence));
                // Packets that a ring has overwritten are counted already.
                packet.lost_packets_before += step.map_or(0, |step| step.saturating_sub(1));
                sequence = Some(now);
            }
        });
    }
}

/// How far a wrapping counter went; `None` when it went back (a step of more than half its range).
pub(crate) fn since(before: u64, now: u64, len_bits: u32) -> Option<u64> {
    let mask = tracemill_codec::bits::mask(len_bits.clamp(1, 64));
    let step = now.wrapping_sub(before) & mask;
    (step <= mask / 2).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::since;

    #[test]
    fn counters_wrap_at_their_width_and_may_restart() {
        assert_eq!(since(250, 3, 8), Some(9));
        assert_eq!(since(10, 3, 64), None);
        assert_eq!(since(7, 7, 64), Some(0));
        assert_eq!(since(u64::MAX, 0, 64), Some(1));
    }
}
