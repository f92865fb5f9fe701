//! Block and trace headers (`SPEC.md`, section 3), and the blocks of a file.

use std::path::Path;

use tracemill_codec::bits::read_uint;
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;

use crate::magic::{MAGIC, magic_order, next_magic};

/// Files shorter than that hold no block.
pub(super) const MIN_FILE: usize = 66;

/// Offset of the magic number in a block.
const MAGIC_AT: usize = 40;

/// Where older versions have it, whose block headers are longer.
const OLDER_MAGIC_AT: [usize; 3] = [40, 56, 72];

/// The header of the trace, repeated in every block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct TraceHeader {
    /// Byte order of its numbers.
    pub(super) order: ByteOrder,
    /// Kind of processor.
    pub(super) arch: u32,
    /// Variant of it.
    pub(super) arch_variant: u32,
    /// 0 for no floats, 1234 little-endian, 4321 big-endian.
    pub(super) float_word_order: u32,
    /// Bytes of a pointer.
    pub(super) arch_size: u8,
    /// Minor version: 7 or 8.
    pub(super) minor: u8,
    /// Is it one of a flight recorder?
    pub(super) flight_recorder: bool,
    /// Do event headers have 32 bits of time?
    pub(super) has_heartbeat: bool,
    /// Largest alignment of event headers, 0 for none.
    pub(super) alignment: u8,
    /// Bits of the clock that compact headers leave out at its low end.
    pub(super) tsc_lsb_truncate: u8,
    /// Bits of the clock in compact headers.
    pub(super) tsc_bits: u8,
    /// Factor of the frequency.
    pub(super) freq_scale: u32,
    /// Frequency of the clock.
    pub(super) start_freq: u64,
    /// The clock when the trace began.
    pub(super) start_tsc: u64,
    /// Time when it began: seconds since 1970.
    pub(super) start_sec: u64,
    /// Microseconds after them.
    pub(super) start_usec: u64,
    /// First byte after the header.
    pub(super) len: usize,
}

/// The part of a header that differs from block to block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockHeader {
    /// Clock at its beginning.
    pub(super) begin_tsc: u64,
    /// Frequency at its beginning.
    pub(super) begin_freq: u64,
    /// Clock at its end.
    pub(super) end_tsc: u64,
    /// Bytes at its end that are not used.
    pub(super) lost_size: u32,
    /// All of its bytes.
    pub(super) buf_size: u32,
}

/// A block of a file.
#[derive(Clone, Debug)]
pub(super) struct FileBlock {
    /// Its number, bad ones counted.
    pub(super) index: u64,
    /// First byte in the file.
    pub(super) offset: u64,
    /// Its bytes in the file.
    pub(super) len: u64,
    /// End of its events, from its first byte.
    pub(super) limit: u64,
    /// Its header.
    pub(super) header: BlockHeader,
}

/// The version of a trace before 0.7 whose file begins so, and the byte where it stands.
pub(super) fn older_version(start: &[u8]) -> Option<(u8, u64)> {
    OLDER_MAGIC_AT.into_iter().find_map(|at| {
        magic_order(start, at)?;
        let version = [*start.get(at + 17)?, *start.get(at + 18)?];
        (version[0] == 0 && (3..=6).contains(&version[1])).then_some((version[1], at as u64 + 17))
    })
}

/// Does a file begin with a block of any version that has facilities?
pub(super) fn is_block(start: &[u8]) -> bool {
    let is_known = |version: &[u8]| version[0] == 0 && (3..=9).contains(&version[1]);
    older_version(start).is_some()
        || (magic_order(start, MAGIC_AT).is_some() && start.get(57..59).is_some_and(is_known))
}

/// Reads numbers one after the other.
struct NumberReader<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
}

impl NumberReader<'_> {
    /// The next one of `len` bytes; 0 after the end, which the caller has checked.
    fn next(&mut self, len: usize) -> u64 {
        let own = self.bytes.get(self.at..self.at + len).unwrap_or(&[]);
        self.at += len;
        read_uint(own, self.order)
    }
}

impl TraceHeader {
    /// The header in the block that `bytes` begin with.
    ///
    /// # Errors
    /// When there is none, or one of a version that cannot be read.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        if let Some((minor, at)) = older_version(bytes) {
            return Err(refuse_version(minor).at_offset(at));
        }
        if bytes.len() < MIN_FILE {
            return Err(Error::truncated(format!("{} bytes hold no block", bytes.len())).at_offset(0));
        }
        let Some(order) = magic_order(bytes, MAGIC_AT) else {
            let found = read_uint(&bytes[MAGIC_AT..MAGIC_AT + 4], ByteOrder::Little);
            let message = format!("no magic number: {found:#010x}, expected {MAGIC:#010x} in either byte order");
            return Err(Error::malformed(message).at_offset(MAGIC_AT as u64).with_help("the file is skipped"));
        };
        let (major, minor) = (bytes[57], bytes[58]);
        if major != 0 || !matches!(minor, 7 | 8) {
            let message = format!("version {major}.{minor} of the facility format is not read, only 0.7 and 0.8");
            return Err(Error::unsupported(message).at_offset(57));
        }
        let mut numbers = NumberReader { bytes, at: 44, order };
        let mut header = TraceHeader {
            order,
            arch: numbers.next(4) as u32,
            arch_variant: numbers.next(4) as u32,
            float_word_order: numbers.next(4) as u32,
            arch_size: numbers.next(1) as u8,
            minor,
            ..TraceHeader::default()
        };
        // After the version.
        numbers.at = 59;
        header.flight_recorder = numbers.next(1) != 0;
        header.has_heartbeat = numbers.next(1) != 0;
        header.alignment = numbers.next(1) as u8;
        if minor == 8 {
            header.tsc_lsb_truncate = numbers.next(1) as u8;
            header.tsc_bits = numbers.next(1) as u8;
        }
        header.freq_scale = numbers.next(4) as u32;
        header.start_freq = numbers.next(8);
        header.start_tsc = numbers.next(8);
        let _start_monotonic = numbers.next(8);
        header.start_sec = numbers.next(8);
        header.start_usec = numbers.next(8);
        header.len = numbers.at;
        if bytes.len() < header.len {
            let message = format!("the file ends inside of the header of its first block, after {} bytes", bytes.len());
            return Err(Error::truncated(message).at_offset(0));
        }
        let is_power = |value: u8| value == 0 || value.is_power_of_two();
        if !is_power(header.alignment) || !matches!(header.arch_size, 1 | 2 | 4 | 8) {
            let message = format!(
                "an alignment of {} and pointers of {} bytes, expected powers of two",
                header.alignment, header.arch_size
            );
            return Err(Error::malformed(message).at_offset(56).with_help("the file is skipped"));
        }
        Ok(header)
    }

    /// Bytes of a block header and the header of a trace of version 0.`minor`, where the events begin.
    pub(super) fn bytes(minor: u8) -> usize {
        if minor == 8 { 108 } else { 106 }
    }

    /// The differences from another one, in words.
    fn against(&self, other: &TraceHeader) -> String {
        let values = |header: &TraceHeader| {
            [
                ("big-endian", (header.order == ByteOrder::Big).into()),
                ("arch_type", header.arch.into()),
                ("arch_variant", header.arch_variant.into()),
                ("float_word_order", header.float_word_order.into()),
                ("arch_size", header.arch_size.into()),
                ("minor version", header.minor.into()),
                ("flight_recorder", header.flight_recorder.into()),
                ("has_heartbeat", header.has_heartbeat.into()),
                ("alignment", header.alignment.into()),
                ("tsc_lsb_truncate", header.tsc_lsb_truncate.into()),
                ("tscbits", header.tsc_bits.into()),
                ("freq_scale", header.freq_scale.into()),
                ("start_freq", header.start_freq),
                ("start_tsc", header.start_tsc),
                ("start_time_sec", header.start_sec),
                ("start_time_usec", header.start_usec),
            ]
        };
        let pairs = values(self).into_iter().zip(values(other)).filter(|(own, other)| own != other);
        let texts: Vec<String> = pairs.map(|((name, own), (_, other))| format!("{name} {own}, not {other}")).collect();
        texts.join("; ")
    }

    /// Alignment of event headers, in bytes.
    pub(super) fn header_align(&self) -> u8 {
        self.alignment.min(self.arch_size).max(1)
    }

    /// Where the seconds of the start stand in a block: before the microseconds, which end the header.
    pub(super) fn start_sec_at(&self) -> u64 {
        self.len.saturating_sub(16) as u64
    }

    /// Name of the architecture, as file names have it.
    pub(super) fn arch_name(&self) -> Option<&'static str> {
        const NAMES: [&str; 10] = ["i386", "ppc", "sh", "s390", "mips", "arm", "ppc64", "x86_64", "c2", "powerpc"];
        NAMES.get(self.arch.checked_sub(1)? as usize).copied()
    }
}

/// The error of a version before 0.7.
pub(super) fn refuse_version(minor: u8) -> Error {
    Error::unsupported(format!("a trace of LTTng version 0.{minor}, which is not read: versions 0.7 and 0.8 are"))
        .with_help("its blocks and clocks are laid out otherwise, and no trace of it is known")
}

impl BlockHeader {
    fn read(bytes: &[u8], order: ByteOrder) -> Self {
        let mut numbers = NumberReader { bytes, at: 0, order };
        let (begin_tsc, begin_freq) = (numbers.next(8), numbers.next(8));
        let (end_tsc, _end_freq) = (numbers.next(8), numbers.next(8));
        let (lost_size, buf_size) = (numbers.next(4) as u32, numbers.next(4) as u32);
        BlockHeader { begin_tsc, begin_freq, end_tsc, lost_size, buf_size }
    }
}

/// Blocks that a file may have however small they are: each takes more than 300 bytes of memory.
const MANY_BLOCKS: u64 = 1 << 18;
/// Bytes that they must have on average from there on; tracers write whole pages.
const MIN_MEAN_BYTES: u64 = 1024;
/// Damaged blocks of a file that are reported one by one.
const MAX_ERRORS: usize = 1000;

/// The blocks of a file.
pub(super) struct Blocks {
    /// The header of the trace, of the first block that has one.
    pub(super) header: TraceHeader,
    /// The blocks that can be read.
    pub(super) blocks: Vec<FileBlock>,
    /// Blocks that cannot be read.
    pub(super) errors: Vec<Error>,
    /// The block from which on the header of the trace is another one.
    pub(super) warning: Option<Error>,
}

/// Finds all blocks of a file. Where the first one has no header that can be read, the file begins with the next one
/// that has.
///
/// # Errors
/// When no block has one.
pub(super) fn read(bytes: &[u8], path: &Path) -> Result<Blocks, Error> {
    let (first, error) = match TraceHeader::read(bytes) {
        Ok(_) => (0, None),
        Err(error) => match next_good(bytes, 1, None) {
            Some(next) => (next, Some(error)),
            None => return Err(error),
        },
    };
    let header = TraceHeader::read(&bytes[first..])?;
    let (blocks, mut errors) = blocks(bytes, first as u64, &header, path);
    if let Some(error) = error {
        let error = error.in_file(path).in_packet(0);
        errors.insert(0, error.with_help(format!("the file is read from its next block on, at byte {first}")));
    }
    let warning = difference(bytes, &header, &blocks).map(|warning| warning.in_file(path));
    Ok(Blocks { header, blocks, errors, warning })
}

/// The first block from which on the header of the trace is another one: it should be the same in all of a file.
fn difference(bytes: &[u8], header: &TraceHeader, blocks: &[FileBlock]) -> Option<Error> {
    blocks.iter().find_map(|block| {
        let rest = bytes.get(block.offset as usize..)?;
        let message = match TraceHeader::read(rest) {
            Ok(own) if own == *header => return None,
            Ok(own) => format!("the block has another header of the trace than the first one: {}", own.against(header)),
            Err(error) => format!("the header of the trace in the block is not that of the first one: {error}"),
        };
        let error = Error::inconsistent(message).at_offset(block.offset + MAGIC_AT as u64);
        Some(error.in_packet(block.index).with_help("the first one is used; reported once for the file"))
    })
}

/// Offset of the next block whose header can be believed: it is that of the file, where that is known.
fn next_good(bytes: &[u8], from: usize, header: Option<&TraceHeader>) -> Option<usize> {
    let rest = bytes.get(from + MAGIC_AT..)?;
    let fits = |at: usize| {
        let Some(block) = bytes.get(at..) else { return false };
        TraceHeader::read(block).is_ok_and(|own| {
            header.is_none_or(|header| own == *header)
                && refusal(block, &own, &BlockHeader::read(block, own.order)).is_none()
        })
    };
    let next = next_magic(rest, header.map(|header| header.order), |at| fits(from + at))?;
    Some(from + next)
}

/// Finds the blocks of a file from an offset on; `header` is that of the first one.
fn blocks(bytes: &[u8], first: u64, header: &TraceHeader, path: &Path) -> (Vec<FileBlock>, Vec<Error>) {
    let (mut blocks, mut errors) = (Vec::new(), Vec::new());
    let (mut offset, mut index, mut previous) = (first, u64::from(first > 0), 0u64);
    while (offset as usize) < bytes.len() && errors.len() < MAX_ERRORS {
        if index >= MANY_BLOCKS && offset / index < MIN_MEAN_BYTES {
            let message = format!("{index} blocks of less than {MIN_MEAN_BYTES} bytes on average, which is too many");
            let error = Error::unsupported(message).in_file(path).at_offset(offset);
            errors.push(error.with_help(format!("{} bytes are skipped", bytes.len() as u64 - offset)));
            break;
        }
        let rest = &bytes[offset as usize..];
        let left = rest.len() as u64;
        let place = |error: Error| error.in_file(path).at_offset(offset).in_packet(index);
        if rest.len() < header.len {
            errors.push(place(Error::truncated(format!("{left} bytes at the end of the file are no block"))));
            break;
        }
        let own = BlockHeader::read(rest, header.order);
        let size = u64::from(own.buf_size);
        match refusal(rest, header, &own) {
            None => {
                let used = size - u64::from(own.lost_size);
                if size > left {
                    let message = format!("the file ends inside of the block: {left} of its {size} bytes are there");
                    errors.push(place(Error::truncated(message)).with_help("the events that are whole are read"));
                }
                let (len, limit) = (size.min(left), used.min(left));
                blocks.push(FileBlock { index, offset, len, limit, header: own });
                offset += len;
                previous = size;
            }
            Some(reason) => {
                let is_next = |size: u64| {
                    let next = rest.get(size as usize..);
                    size >= header.len as u64
                        && next.is_some_and(|next| next.is_empty() || magic_order(next, MAGIC_AT) == Some(header.order))
                };
                let step = [size, previous].into_iter().find(|&size| is_next(size));
                let found = || next_good(bytes, offset as usize + 1, Some(header)).map(|next| next as u64 - offset);
                let step = step.or_else(found);
                let lost = step.unwrap_or(left);
                let help = match step {
                    Some(_) => format!("the block, {lost} bytes, is skipped"),
                    None => format!("the rest of the file, {lost} bytes, is skipped"),
                };
                errors.push(place(reason).with_help(help));
                offset += lost;
            }
        }
        index += 1;
    }
    if errors.len() >= MAX_ERRORS && (offset as usize) < bytes.len() {
        let message = "more blocks have faults like these; the rest of the file is skipped";
        errors.push(Error::malformed(message).in_file(path).at_offset(offset));
    }
    (blocks, errors)
}

/// Why a block cannot be read.
fn refusal(bytes: &[u8], header: &TraceHeader, own: &BlockHeader) -> Option<Error> {
    let size = u64::from(own.buf_size);
    if magic_order(bytes, MAGIC_AT) != Some(header.order) {
        let found = read_uint(&bytes[MAGIC_AT..MAGIC_AT + 4], header.order);
        return Some(Error::malformed(format!("no magic number in the block: {found:#010x}, expected {MAGIC:#010x}")));
    }
    if own.buf_size == 0 {
        return Some(Error::malformed("the block says that it has 0 bytes (buf_size)"));
    }
    if size < header.len as u64 {
        let message =
            format!("the block says that it has {size} bytes (buf_size), less than its header of {}", header.len);
        return Some(Error::malformed(message));
    }
    if u64::from(own.lost_size) > size - header.len as u64 {
        let message = format!(
            "{} bytes at the end of the block are said to be unused (lost_size), but it has {size} with its header of {}",
            own.lost_size, header.len
        );
        return Some(Error::malformed(message));
    }
    None
}
