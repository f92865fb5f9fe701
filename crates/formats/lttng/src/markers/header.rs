//! The header of a sub-buffer, in all versions from 2.0 to 2.6.

use tracemill_codec::bits::{put_uint, u32_at, u64_at};
use tracemill_model::schema::ByteOrder;

use super::events::SubBufferForm;
use crate::magic::{MAGIC, magic_order};

/// Place of the magic number, in the middle of the header.
pub(crate) const MAGIC_AT: usize = 16;
/// The only major version of this layout.
pub(crate) const MAJOR: u8 = 2;
/// The newest minor version.
pub(crate) const NEWEST_MINOR: u8 = 6;
/// The shortest header: that of 2.0 and 2.1.
pub(crate) const MIN_LEN: usize = 60;

/// The header of a sub-buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SubBufferHeader {
    pub order: ByteOrder,
    pub minor: u8,
    /// Size of a pointer of the traced kernel.
    pub arch_size: u8,
    /// Alignment of event headers, 0 for none.
    pub alignment: u8,
    pub begin_cycles: u64,
    pub end_cycles: u64,
    pub start: ClockStart,
    /// Bytes of the header itself: where the first event may begin.
    pub header_bytes: u32,
    /// Where the events end, from the start of the sub-buffer.
    pub data_bytes: u32,
    /// Size of the sub-buffer.
    pub total_bytes: u32,
    /// Events lost since the beginning of the trace, from 2.2 on.
    pub events_lost: Option<u32>,
    /// Sub-buffers lost since the beginning of the trace, from 2.2 on.
    pub corrupt: Option<u32>,
}

/// The clock of the trace, repeated in every sub-buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClockStart {
    pub seconds: u64,
    pub microseconds: u64,
    pub frequency: u64,
    pub scale: u32,
}

/// A header that is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BadHeader {
    pub message: String,
    /// Offset of what is wrong, from the start of the sub-buffer.
    pub at: usize,
    /// The size of the sub-buffer, when the rest of the header can be believed.
    pub total_bytes: Option<u32>,
    /// Is it right but for a version that cannot be read?
    pub is_unknown_version: bool,
}

impl BadHeader {
    fn new(at: usize, message: impl Into<String>) -> Self {
        BadHeader { message: message.into(), at, total_bytes: None, is_unknown_version: false }
    }
}

impl SubBufferHeader {
    /// Reads the header at the start of `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<SubBufferHeader, BadHeader> {
        let short = || BadHeader::new(0, format!("{} bytes are too few for the header of a sub-buffer", bytes.len()));
        let order = magic_order(bytes, MAGIC_AT).ok_or_else(|| match bytes.get(MAGIC_AT..MAGIC_AT + 4) {
            None => short(),
            Some(found) => BadHeader::new(
                MAGIC_AT,
                format!("the magic number of a sub-buffer is {MAGIC:#010x}, found the bytes {found:02x?}"),
            ),
        })?;
        let byte = |at: usize| bytes.get(at).copied().ok_or_else(short);
        let (major, minor, arch_size, alignment) = (byte(20)?, byte(21)?, byte(22)?, byte(23)?);
        if major != MAJOR || minor > NEWEST_MINOR {
            let message = format!("the sub-buffer is of version {major}.{minor}; 2.0 to 2.{NEWEST_MINOR} can be read");
            return Err(BadHeader { is_unknown_version: true, ..BadHeader::new(20, message) });
        }
        let u32_at = |at: usize| u32_at(bytes, at, order).ok_or_else(short);
        let u64_at = |at: usize| u64_at(bytes, at, order).ok_or_else(short);
        let header_bytes = header_bytes(minor, arch_size);
        let (size, total_bytes) = (u32_at(52)?, u32_at(56)?);
        if bytes.len() < header_bytes as usize {
            return Err(short());
        }
        if total_bytes < header_bytes {
            let message = format!("a sub-buffer of {total_bytes} bytes is smaller than its header of {header_bytes}");
            return Err(BadHeader::new(56, message));
        }
        let bad =
            |at: usize, message: String| BadHeader { total_bytes: Some(total_bytes), ..BadHeader::new(at, message) };
        let data_bytes = if minor >= 5 { Some(size) } else { total_bytes.checked_sub(size) };
        let data_bytes = data_bytes.filter(|data| (header_bytes..=total_bytes).contains(data)).ok_or_else(|| {
            let what = if minor >= 5 { "used" } else { "unused" };
            bad(
                52,
                format!("{size} {what} bytes do not fit a sub-buffer of {total_bytes} with a header of {header_bytes}"),
            )
        })?;
        if !is_alignment(alignment) {
            return Err(bad(23, format!("an alignment of {alignment} is not a power of two up to 16")));
        }
        let has_counters = minor >= 2;
        Ok(SubBufferHeader {
            order,
            minor,
            arch_size,
            alignment,
            begin_cycles: u64_at(0)?,
            end_cycles: u64_at(8)?,
            start: ClockStart {
                seconds: u64_at(24)?,
                microseconds: u64_at(32)?,
                frequency: u64_at(40)?,
                scale: u32_at(48)?,
            },
            header_bytes,
            data_bytes,
            total_bytes,
            events_lost: if has_counters { Some(u32_at(60)?) } else { None },
            corrupt: if has_counters { Some(u32_at(64)?) } else { None },
        })
    }

    /// Its bytes: what [`SubBufferHeader::parse`] reads.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.header_bytes as usize);
        let mut put = |value: u64, len: usize| put_uint(&mut out, value, len, self.order);
        put(self.begin_cycles, 8);
        put(self.end_cycles, 8);
        put(MAGIC.into(), 4);
        [MAJOR, self.minor, self.arch_size, self.alignment].into_iter().for_each(|byte| put(byte.into(), 1));
        [self.start.seconds, self.start.microseconds, self.start.frequency].into_iter().for_each(|word| put(word, 8));
        let unused = self.total_bytes.saturating_sub(self.data_bytes);
        let size = if self.minor >= 5 { self.data_bytes } else { unused };
        [self.start.scale, size, self.total_bytes].into_iter().for_each(|word| put(word.into(), 4));
        [self.events_lost, self.corrupt].into_iter().flatten().for_each(|word| put(word.into(), 4));
        // 2.0 counted the padding after the structure.
        out.resize(self.header_bytes as usize, 0);
        out
    }

    /// How fields and headers are aligned here.
    pub(crate) fn rule(&self) -> AlignRule {
        AlignRule::for_minor(self.minor)
    }

    /// How events are written here.
    pub(crate) fn shape(&self) -> SubBufferForm {
        SubBufferForm { order: self.order, rule: self.rule(), alignment: self.alignment }
    }
}

/// May a header or a marker state this alignment?
pub(crate) fn is_alignment(alignment: u8) -> bool {
    matches!(alignment, 0 | 1 | 2 | 4 | 8 | 16)
}

/// 2.0 counted the padding after the structure, which only 64-bit machines have; 2.2 added two counters.
fn header_bytes(minor: u8, arch_size: u8) -> u32 {
    match minor {
        0 if arch_size == 8 => 64,
        0 | 1 => 60,
        _ => 68,
    }
}

/// The meaning of the stated alignment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum AlignRule {
    /// The most that anything is aligned to: all versions but two.
    Most,
    /// Everything is aligned to its own size, unless it is 0: 2.4 and 2.5.
    Own,
}

impl AlignRule {
    pub(crate) fn for_minor(minor: u8) -> Self {
        if matches!(minor, 4 | 5) { AlignRule::Own } else { AlignRule::Most }
    }

    /// The alignment of something of `size` bytes (a power of two), in bytes.
    #[inline]
    pub(crate) fn bytes(self, alignment: u8, size: u32) -> u32 {
        match (alignment, self) {
            (0, _) => 1,
            (_, AlignRule::Own) => size,
            (most, AlignRule::Most) => size.min(u32::from(most)),
        }
    }
}
