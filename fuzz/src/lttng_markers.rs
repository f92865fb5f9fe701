//! Legacy LTTng with markers: files as they are, and formats with payloads in a trace that is made around them.

use crate::exercise;
use crate::storage::Folder;

/// Larger files show nothing new.
const MAX_BYTES: usize = 1 << 16;

/// The length of the metadata in two bytes, the metadata channel, then a channel `k`.
pub fn run_lttng_markers(data: &[u8]) {
    let Some((len, files)) = data.split_first_chunk() else { return };
    let files = &files[..files.len().min(MAX_BYTES)];
    let (metadata, channel) = files.split_at(files.len().min(u16::from_le_bytes(*len).into()));
    let mut folder = Folder::empty();
    folder.add("metadata_0", metadata);
    folder.add("k_0", channel);
    exercise::read(&folder);
}

/// A byte for version and alignment, five for the sizes of types, a format up to a zero, and payloads.
pub fn run_lttng_formats(data: &[u8]) {
    let Some((shape, rest)) = data.split_first_chunk::<6>() else { return };
    let rest = &rest[..rest.len().min(MAX_BYTES)];
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let (format, payloads) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
    let minor = 3 + (shape[0] & 3);
    let alignment = [0, 4, 8, 1][usize::from(shape[0] >> 2 & 3)];
    let mut id = b"k\0m\0\0\0".to_vec();
    id.extend(&shape[1..]);
    let definitions = [event(0, 1, &id), event(1, 2, &[b"k\0m\0", format, b"\0"].concat())].concat();
    let mut folder = Folder::empty();
    // Packed: only the marker says how its fields are aligned.
    folder.add("metadata_0", &block(minor, 0, &definitions));
    let mut events = event(0, 10, payloads);
    events.extend(11u32.to_le_bytes());
    events.extend(payloads);
    folder.add("k_0", &block(minor, alignment, &events));
    exercise::read(&folder);
}

/// An event with its size.
fn event(id: u16, clock: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (30 << 27 | clock).to_le_bytes().to_vec();
    bytes.extend(id.to_le_bytes());
    bytes.extend(0xffffu16.to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// A sub-buffer around events.
fn block(minor: u8, alignment: u8, events: &[u8]) -> Vec<u8> {
    let len = 68 + events.len() as u32;
    let mut bytes = [[1u64, 1000].map(u64::to_le_bytes).concat(), 0x00d6_b7edu32.to_le_bytes().to_vec()].concat();
    bytes.extend([2, minor, 4, alignment]);
    bytes.extend([1_262_715_366u64, 408_819, 1_000_000].map(u64::to_le_bytes).concat());
    let used = if minor >= 5 { len } else { 0 };
    bytes.extend([1, used, len, 0, 0].map(u32::to_le_bytes).concat());
    bytes.extend(events);
    bytes
}
