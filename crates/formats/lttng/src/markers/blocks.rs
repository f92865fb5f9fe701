//! Sub-buffers of a file, one after the other, and what to do where one is broken.

use std::path::Path;

use tracemill_model::error::{Error, ErrorKind};

use super::header::{BadHeader, MAGIC_AT, MIN_LEN, SubBufferHeader};
use crate::files::slice;
use crate::magic::next_magic;
use crate::messages::Messages;
use tracemill_format::Faults;

/// A sub-buffer of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// How many of its bytes are there.
    pub here_bytes: u64,
    pub header: SubBufferHeader,
}

impl Block {
    /// Its bytes from the header to the end of its events, as far as they are there.
    pub(crate) fn data<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        let end = u64::from(self.header.data_bytes).min(self.here_bytes);
        slice(file, self.offset, end)
    }
}

/// The sub-buffers of a file, and messages about them.
#[derive(Default)]
pub(crate) struct Walked {
    pub blocks: Vec<Block>,
    pub messages: Messages,
    /// Was it reported that headers differ?
    differs: bool,
}

/// Damaged headers of a file that are reported one by one.
const MAX_ERRORS: usize = 1000;

/// Finds the sub-buffers of a file. Each says its own size; after a broken header the next one that makes sense is
/// looked for.
pub(crate) fn walk(path: &Path, file: &[u8]) -> Walked {
    let mut walked = Walked::default();
    let (mut offset, mut index, mut faults) = (0u64, 0u64, Faults::<MAX_ERRORS>::default());
    while offset < file.len() as u64 {
        let here = file.len() as u64 - offset;
        let parsed = SubBufferHeader::parse(slice(file, offset, here)).and_then(|header| same_order(&walked, header));
        offset += match parsed {
            Ok(header) => {
                let block = Block { offset, here_bytes: u64::from(header.total_bytes).min(here), header };
                let total = u64::from(block.header.total_bytes);
                if total > here {
                    faults.report(|| truncated(&block).in_file(path).in_packet(index));
                }
                warn_of_version(&mut walked, &block, path, index);
                warn_of_start(&mut walked, &block, path, index);
                walked.blocks.push(block);
                total
            }
            Err(bad) => {
                let next = next_block(&walked, file, offset, &bad);
                faults.report(|| {
                    let kind = match bad.is_unknown_version {
                        true => ErrorKind::Unsupported,
                        false if here < MIN_LEN as u64 => ErrorKind::Truncated,
                        false => ErrorKind::Malformed,
                    };
                    let error = Error::new(kind, bad.message).at_offset(offset + bad.at as u64).in_file(path);
                    let help = format!("{} bytes are skipped, from byte {offset} on", next - offset);
                    error.in_packet(index).with_help(help)
                });
                next - offset
            }
        };
        index += 1;
    }
    walked.messages.errors = faults.finish("sub-buffers have headers like these");
    walked
}

/// All sub-buffers of a file have the byte order of its first one.
fn same_order(walked: &Walked, header: SubBufferHeader) -> Result<SubBufferHeader, BadHeader> {
    match walked.blocks.first() {
        Some(first) if first.header.order != header.order => Err(BadHeader {
            message: "the magic number has the other byte order than in the first sub-buffer".into(),
            at: MAGIC_AT,
            total_bytes: Some(header.total_bytes),
            is_unknown_version: false,
        }),
        _ => Ok(header),
    }
}

/// The error of a file that ends inside of a sub-buffer.
fn truncated(block: &Block) -> Error {
    let SubBufferHeader { total_bytes, data_bytes, .. } = block.header;
    let message =
        format!("the file ends inside the sub-buffer: {} of its {total_bytes} bytes are there", block.here_bytes);
    let error = Error::truncated(message).at_offset(block.offset + block.here_bytes);
    if u64::from(data_bytes) <= block.here_bytes {
        return error.with_help("no event is lost: only padding is missing").losing_nothing();
    }
    let missing = u64::from(data_bytes) - block.here_bytes;
    error.with_help(format!("{missing} bytes of events are missing; those that are whole are read"))
}

fn warn_of_version(walked: &mut Walked, block: &Block, path: &Path, index: u64) {
    let Some(first) = walked.blocks.first() else { return };
    let (was, is) = (first.header.minor, block.header.minor);
    let is_reported = walked.blocks.iter().skip(1).any(|before| before.header.minor != was);
    if was != is && !is_reported {
        let message = format!("the sub-buffer is of version 2.{is}, the first one of 2.{was}; each is read by its own");
        let warning = Error::inconsistent(message).in_file(path).at_offset(block.offset + 21);
        walked.messages.warnings.push(warning.in_packet(index));
    }
}

/// Warns where the values of the whole trace differ from those of the first sub-buffer; reported once for a file.
fn warn_of_start(walked: &mut Walked, block: &Block, path: &Path, index: u64) {
    let Some(first) = walked.blocks.first() else { return };
    let of = |header: &SubBufferHeader| (header.start, header.arch_size, header.alignment);
    if walked.differs || of(&block.header) == of(&first.header) {
        return;
    }
    walked.differs = true;
    let message = "the sub-buffer states another start, frequency, pointer size or alignment than the first one";
    let warning = Error::inconsistent(message).in_file(path).at_offset(block.offset + 22);
    let help = "the clock is that of the first one; reported once for the file";
    walked.messages.warnings.push(warning.in_packet(index).with_help(help));
}

/// The sub-buffer after a broken one: where its size says when a header stands there, else the next header.
fn next_block(walked: &Walked, file: &[u8], offset: u64, bad: &BadHeader) -> u64 {
    let len = file.len() as u64;
    let fits = |at: u64| {
        let header = SubBufferHeader::parse(slice(file, at, len.saturating_sub(at)));
        header.and_then(|header| same_order(walked, header)).is_ok()
    };
    if let Some(total) = bad.total_bytes {
        let next = offset + u64::from(total);
        if next == len || (next < len && fits(next)) {
            return next;
        }
    }
    let known = walked.blocks.first().map(|first| first.header.order);
    let rest = slice(file, offset + 1 + MAGIC_AT as u64, len);
    next_magic(rest, known, |at| fits(offset + 1 + at as u64)).map_or(len, |at| offset + 1 + at as u64)
}
