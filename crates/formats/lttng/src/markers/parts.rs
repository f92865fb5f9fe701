//! The parts of a trace from which it can be written again.

use super::blocks::Block;
use super::folder::ChannelFile;
use super::header::SubBufferHeader;

/// Parts with the headers of the sub-buffers of a file begin so.
pub(super) const BLOCKS: &str = "blocks/";
/// Parts with the used bytes of a metadata file begin so.
pub(super) const DEFINITIONS: &str = "definitions/";

/// The parts of a file that a writer needs to make it again, by name.
pub(super) fn parts_of(name: &ChannelFile, file: &[u8], blocks: &[Block]) -> Vec<(String, Vec<u8>)> {
    let head = |block: &Block| {
        // Bytes that a truncated file lacks are not there again.
        let total_bytes = u64::from(block.header.total_bytes).min(block.here_bytes) as u32;
        let data_bytes = block.header.data_bytes.min(total_bytes);
        SubBufferHeader { total_bytes, data_bytes, ..block.header.clone() }
    };
    let mut parts = vec![(format!("{BLOCKS}{}", name.relative), Vec::new())];
    for block in blocks {
        parts[0].1.extend(head(block).encode());
    }
    if name.is_metadata() {
        let mut used = Vec::new();
        for block in blocks {
            let header = head(block);
            used.extend(SubBufferHeader { total_bytes: header.data_bytes, ..header }.encode());
            used.extend(block.data(file).iter().skip(block.header.header_bytes as usize));
        }
        parts.push((format!("{DEFINITIONS}{}", name.relative), used));
    }
    parts
}
