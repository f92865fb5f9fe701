//! LTTng index files: `index/NAME.idx` beside a data stream file.
//!
//! A header of four big-endian 32-bit numbers (magic, major, minor, size of an entry), then entries of big-endian
//! 64-bit numbers: offset in bytes, packet size and content size in bits, begin and end in cycles, discarded events,
//! stream class id; from 1.1 also stream instance id and packet sequence number. An index that does not fit its file
//! is reported and ignored.

use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::Schema;

const MAGIC: u32 = 0xC1F1_DCC1;
const HEADER_BYTES: usize = 16;
/// Seven numbers.
const ENTRY_BYTES_1_0: usize = 56;
/// Nine numbers.
const ENTRY_BYTES_1_1: usize = 72;

/// Reads an index for a data stream file. The error says why it is ignored.
pub(crate) fn read(index: &[u8], file: &[u8], schema: &Schema) -> Result<PacketList, String> {
    let word = |at: usize| index.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_be_bytes(*b));
    let (Some(magic), Some(major), Some(minor), Some(entry_bytes)) = (word(0), word(4), word(8), word(12)) else {
        return Err("it is shorter than its header".into());
    };
    if magic != MAGIC {
        return Err(format!("its magic number is {magic:#x}, expected {MAGIC:#x}"));
    }
    if major != 1 {
        return Err(format!("its version is {major}.{minor}, expected 1.0 or 1.1"));
    }
    let entry_bytes = entry_bytes as usize;
    let wanted = if minor == 0 { ENTRY_BYTES_1_0 } else { ENTRY_BYTES_1_1 };
    if entry_bytes < wanted {
        return Err(format!("its entries have {entry_bytes} bytes, expected {wanted}"));
    }
    let entries = &index[HEADER_BYTES..];
    if !entries.len().is_multiple_of(entry_bytes) {
        return Err("it ends inside an entry".into());
    }
    let file_bytes = file.len() as u64;
    let mut packets = PacketList::default();
    let mut expected = 0u64;
    for (at, entry) in entries.chunks_exact(entry_bytes).enumerate() {
        let packet = read_entry(entry, at as u64, minor, schema)?;
        if packet.offset_bytes != expected {
            return Err(format!("entry {at} is for byte {}, expected byte {expected}", packet.offset_bytes));
        }
        let end = (packet.total_bits / 8).checked_add(expected).filter(|&end| end <= file_bytes);
        expected = end.ok_or_else(|| format!("entry {at} goes past the end of the data file"))?;
        packets.push(&packet);
    }
    // Files are made larger than what is written to them.
    let is_padding = |rest: &[u8]| rest.iter().all(|byte| *byte == 0);
    if !file.get(expected as usize..).is_some_and(is_padding) {
        return Err(format!("it covers {expected} of the {file_bytes} bytes of the data file"));
    }
    Ok(packets)
}

/// The header of an index of version 1.1.
pub fn header() -> Vec<u8> {
    [MAGIC, 1, 1, ENTRY_BYTES_1_1 as u32].into_iter().flat_map(u32::to_be_bytes).collect()
}

/// Appends an entry: where the packet is; total and content size in bits; begin, end and discarded events; ids of stream
/// class and stream, and sequence number.
pub fn entry(index: &mut Vec<u8>, offset: u64, sizes: [u64; 2], times: [u64; 3], ids: [u64; 3]) {
    let numbers = [offset].into_iter().chain(sizes).chain(times).chain(ids);
    index.extend(numbers.flat_map(u64::to_be_bytes));
}

fn read_entry(entry: &[u8], index: u64, minor: u32, schema: &Schema) -> Result<Packet, String> {
    let number = |at: usize| {
        entry.get(at * 8..).and_then(|rest| rest.first_chunk()).map(|b| u64::from_be_bytes(*b)).unwrap_or(0)
    };
    let (total_bits, content_bits) = (number(1), number(2));
    if total_bits == 0 || !total_bits.is_multiple_of(8) || content_bits > total_bits {
        return Err(format!("entry {index} has the impossible sizes {total_bits} and {content_bits}"));
    }
    if number(3) > number(4) && number(4) != 0 {
        return Err(format!("entry {index} begins at {} and ends at {}", number(3), number(4)));
    }
    let class_id = number(6);
    let class = schema.stream_by_id(class_id).ok_or_else(|| format!("no stream class has its id {class_id}"))?;
    let has_more = minor >= 1;
    Ok(Packet {
        index,
        content_bits,
        stream_id: has_more.then(|| number(7)),
        begin_cycles: Some(number(3)),
        end_cycles: Some(number(4)),
        discarded_snapshot: Some(number(5)),
        sequence: has_more.then(|| number(8)),
        ..Packet::new(class, number(0), total_bits)
    })
}
