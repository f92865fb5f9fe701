//! Which slots of a ring hold packets, in which order.

use super::header::{FullMode, Header};
use super::{packet, u32_at, u64_at};

/// A slot that holds a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Sequence number of the packet.
    pub sequence: u64,
    /// Offset in the file of the ring.
    pub offset: u64,
    /// Bytes up to the end of the last event.
    pub content: u64,
}

/// The slots of a ring.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Slots {
    /// Slots that hold packets with events, in the order of their numbers.
    pub packets: Vec<Slot>,
    /// The damage of the others that are not merely unused, in words.
    pub damaged: Vec<String>,
}

/// Finds the packets of a ring that are not in a stream file whose last packet is `moved`.
pub fn slots(header: &Header, bytes: &[u8], moved: Option<u64>) -> Slots {
    let mut slots = Slots::default();
    for at in 0..header.slots {
        let offset = header.slot_offset(at);
        let Some(slot) = bytes.get(offset as usize..(offset + header.slot_size) as usize) else { break };
        if u32_at(slot, 0) == 0 && u64_at(slot, packet::CONTENT) == 0 {
            continue;
        }
        let (sequence, content_bits) = (u64_at(slot, packet::SEQUENCE), u64_at(slot, packet::CONTENT));
        // A slot that was being begun when the writer stopped holds nothing yet.
        if sequence == packet::NO_SEQUENCE {
            continue;
        }
        if let Some(why) = damage(header, slot, sequence, content_bits, at) {
            slots.damaged.push(format!("slot {at} at byte {offset} is left out: {why}"));
            continue;
        }
        let content = content_bits / 8;
        let is_moved =
            moved.is_some_and(|last| sequence <= last) || header.mode == FullMode::Stream && sequence < header.taken;
        if !is_moved && content > packet::LEN as u64 {
            slots.packets.push(Slot { sequence, offset, content });
        }
    }
    slots.packets.sort_unstable_by_key(|slot| slot.sequence);
    slots
}

/// Why a slot is no packet of this ring.
fn damage(header: &Header, slot: &[u8], sequence: u64, content_bits: u64, at: u64) -> Option<String> {
    if u32_at(slot, 0) != packet::MAGIC || slot[packet::UUID..packet::UUID + 16] != header.uuid {
        return Some("it does not begin with a packet of this trace".into());
    }
    let sizes = packet::LEN as u64 * 8..=header.slot_size * 8;
    if !sizes.contains(&content_bits) || !content_bits.is_multiple_of(8) {
        return Some(format!("a content of {content_bits} bits is not in a slot of {} bytes", header.slot_size));
    }
    let oldest = header.done.saturating_sub(header.slots);
    if sequence > header.done || sequence < oldest || sequence % header.slots != at {
        return Some(format!("its number {sequence} is not between {oldest} and {}", header.done));
    }
    None
}

/// A copy of a slot's packet. A slot of a flight ring stays as it is; of a stream only what has events is kept. `None` when
/// the slot was written over since it was found.
pub fn copy_of(header: &Header, bytes: &[u8], slot: &Slot) -> Option<Vec<u8>> {
    let len = if header.mode == FullMode::Flight { header.slot_size } else { slot.content };
    let begin = slot.offset as usize;
    let mut copy = bytes.get(begin..begin + len as usize)?.to_vec();
    // Events may have come since; they are not in the copy's content.
    copy[packet::CONTENT..packet::CONTENT + 8].copy_from_slice(&(slot.content * 8).to_le_bytes());
    copy[packet::TOTAL..packet::TOTAL + 8].copy_from_slice(&(len * 8).to_le_bytes());
    (u64_at(bytes, begin + packet::SEQUENCE) == slot.sequence).then_some(copy)
}

/// A packet without events after the last one, which says how many events were discarded, when the ring knows of more than
/// the packet before does. `last` is that packet.
pub fn closing_packet(header: &Header, number: u64, last: Option<&[u8]>) -> Option<Vec<u8>> {
    let known = last.map_or(0, |last| u64_at(last, packet::DISCARDED));
    if header.discarded <= known {
        return None;
    }
    let mut bytes = vec![0; packet::LEN];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let time = last.map_or(header.pairs.last().map_or(0, |pair| pair.cycles), |last| u64_at(last, packet::END));
    let sequence = last.map_or(0, |last| u64_at(last, packet::SEQUENCE).wrapping_add(1));
    put(0, &packet::MAGIC.to_le_bytes());
    put(packet::UUID, &header.uuid);
    put(packet::RING, &number.to_le_bytes());
    put(packet::BEGIN, &time.to_le_bytes());
    put(packet::END, &time.to_le_bytes());
    put(packet::CONTENT, &(packet::LEN as u64 * 8).to_le_bytes());
    put(packet::TOTAL, &(packet::LEN as u64 * 8).to_le_bytes());
    put(packet::SEQUENCE, &sequence.to_le_bytes());
    put(packet::DISCARDED, &header.discarded.to_le_bytes());
    put(packet::MONOTONIC, &last.map_or(0, |last| u64_at(last, packet::MONOTONIC)).to_le_bytes());
    put(packet::TID, &header.tid.to_le_bytes());
    put(packet::PID, &header.pid.to_le_bytes());
    Some(bytes)
}
