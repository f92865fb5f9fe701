//! The parts of packets that are the same in all traces that are written: header, and numbers known when a packet ends.

use tracemill_codec::bits::put_fixed;
use tracemill_model::schema::ByteOrder;

use crate::packets::MAGIC;

/// Begins a packet: the members of the packet header that are ours.
pub(super) fn put_header(
    out: &mut Vec<u8>,
    order: ByteOrder,
    uuid: Option<&[u8; 16]>,
    class_id: u64,
    stream_id: Option<u64>,
) {
    put_fixed(out, MAGIC, 32, order);
    out.extend(uuid.into_iter().flatten());
    for id in [Some(class_id), stream_id].into_iter().flatten() {
        put_fixed(out, id, 64, order);
    }
}

/// Overwrites numbers of 64 bits, which stand one after the other from `at` on.
pub(super) fn set_numbers(packet: &mut [u8], at: usize, values: &[u64], order: ByteOrder) {
    let places = packet.get_mut(at..).unwrap_or_default().chunks_exact_mut(8);
    for (place, value) in places.zip(values) {
        place.copy_from_slice(&match order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
    }
}
