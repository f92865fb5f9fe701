//! Writes tracefiles: blocks of events, and their headers (`SPEC.md`, sections 3 and 5).

use tracemill_codec::bits::{put_uint, read_uint, uint_bytes};
use tracemill_format::{OutFile, OutPath};
use tracemill_model::error::Result;

use super::super::block::TraceHeader;
use super::encode::pad;
use crate::magic::MAGIC;
use crate::padding::write_zeros;

/// A block is ended before it has more bytes than this.
const MAX_BLOCK: usize = 64 << 20;

/// A tracefile that is written.
pub(super) struct TraceFile {
    out: OutFile,
    pub(super) header: TraceHeader,
    /// Is its event header compact? Bits of ids there.
    pub(super) compact: Option<u32>,
    block: Option<BlockBuilder>,
}

struct BlockBuilder {
    bytes: Vec<u8>,
    /// The clock as a reader has it after the last event.
    tsc: u64,
    /// Bytes that it has at least.
    least: usize,
    /// The end that its header states, `None` for the last event.
    end: Option<u64>,
}

/// An event for a tracefile.
#[derive(Default)]
pub(super) struct EventOut<'a> {
    pub(super) tsc: u64,
    pub(super) facility: u8,
    pub(super) event: u8,
    pub(super) data: &'a [u8],
    /// First field, of events that have it in a compact header.
    pub(super) packed: u64,
    /// Does it set the clock to its own time?
    pub(super) sets_clock: bool,
}

impl TraceFile {
    pub(super) fn new(path: OutPath, header: TraceHeader, compact: Option<u32>) -> Self {
        TraceFile { out: OutFile::with_buffer(path, BUFFER), header, compact, block: None }
    }

    /// Begins a block with the bytes of its header, which is `header.len` bytes long.
    pub(super) fn begin(&mut self, head: &[u8], end: Option<u64>, least: usize) -> Result<()> {
        self.flush()?;
        let tsc = read_uint(&head[..8], self.header.order);
        self.block = Some(BlockBuilder { bytes: head.to_vec(), tsc, least, end });
        Ok(())
    }

    pub(super) fn has_block(&self) -> bool {
        self.block.is_some()
    }

    /// Bytes of the block so far.
    pub(super) fn block_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.bytes.len())
    }

    /// Writes an event into the block that was begun; another one follows it where the header could not hold the time.
    pub(super) fn event(&mut self, event: &EventOut<'_>) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        let fits_time = match (self.compact, self.header.has_heartbeat) {
            (Some(_), _) => {
                let shift = u32::from(self.header.tsc_lsb_truncate);
                let mask = (1u64 << (u32::from(self.header.tsc_bits) + shift)) - 1;
                let low = (1u64 << shift) - 1;
                event.tsc & low == block.tsc & low && event.tsc.checked_sub(block.tsc).is_some_and(|step| step <= mask)
            }
            (None, true) => event.tsc.checked_sub(block.tsc).is_some_and(|step| step <= u64::from(u32::MAX)),
            (None, false) => true,
        };
        let is_full = block.bytes.len() + event.data.len() > MAX_BLOCK;
        if !(fits_time || event.sets_clock) || is_full {
            let (mut head, end) = (block.bytes[..self.header.len].to_vec(), block.end);
            head[..8].copy_from_slice(&uint_bytes(event.tsc, self.header.order));
            self.begin(&head, end.map(|end| end.max(event.tsc)), 0)?;
        }
        let (header, compact) = (&self.header, self.compact);
        let Some(block) = &mut self.block else { return Ok(()) };
        let out = &mut block.bytes;
        if let Some(id_bits) = compact {
            let (bits, shift) = (u32::from(header.tsc_bits), u32::from(header.tsc_lsb_truncate));
            let time = event.tsc >> shift & ((1 << bits) - 1);
            let word = time | u64::from(event.event) << bits | event.packed << (bits + id_bits);
            pad(out, header.alignment.clamp(1, 4));
            put_uint(out, word, 4, header.order);
        } else {
            let align = header.header_align();
            pad(out, align);
            put_uint(out, event.tsc, if header.has_heartbeat { 4 } else { 8 }, header.order);
            out.extend([event.facility, event.event]);
            put_uint(out, event.data.len().min(0xffff) as u64, 2, header.order);
            pad(out, align);
        }
        out.extend_from_slice(event.data);
        block.tsc = event.tsc;
        Ok(())
    }

    /// Writes the block that was begun.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(BlockBuilder { mut bytes, tsc, least, end }) = self.block.take() else { return Ok(()) };
        let used = bytes.len();
        // Sizes have 32 bits; blocks are ended far below.
        let size = least.max(used);
        let order = self.header.order;
        bytes[16..24].copy_from_slice(&uint_bytes(end.unwrap_or(tsc), order));
        let mut sizes = Vec::with_capacity(8);
        put_uint(&mut sizes, (size - used) as u64, 4, order);
        put_uint(&mut sizes, size as u64, 4, order);
        bytes[32..40].copy_from_slice(&sizes);
        self.out.write(&bytes)?;
        write_zeros(&mut self.out, size - used)
    }

    /// Everything is there.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.out.end()
    }

    /// Checks that everything is there that was written.
    pub(super) fn check(&self) -> Result<()> {
        self.out.check()
    }
}

/// Bytes of blocks that wait for each other.
const BUFFER: usize = 8 << 10;

/// The bytes of a header: those of a block with its own numbers still 0 but for the clock at its beginning, then the
/// header of the trace.
pub(super) fn head(header: &TraceHeader, begin: u64) -> Vec<u8> {
    let freq = header.start_freq;
    let mut out = Vec::with_capacity(header.len);
    let put = |out: &mut Vec<u8>, words: &[u64], len: usize| {
        words.iter().for_each(|word| put_uint(out, *word, len, header.order));
    };
    put(&mut out, &[begin, freq, begin, freq, 0], 8);
    let words = [MAGIC, header.arch, header.arch_variant, header.float_word_order];
    put(&mut out, &words.map(u64::from), 4);
    let flags = [header.flight_recorder, header.has_heartbeat].map(u8::from);
    out.extend([header.arch_size, 0, header.minor, flags[0], flags[1], header.alignment]);
    if header.minor == 8 {
        out.extend([header.tsc_lsb_truncate, header.tsc_bits]);
    }
    put(&mut out, &[header.freq_scale.into()], 4);
    put(&mut out, &[header.start_freq, header.start_tsc, 0, header.start_sec, header.start_usec], 8);
    out
}
