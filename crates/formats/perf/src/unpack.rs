//! `perf record -z`: records inside records, packed by zstd (`SPEC.md`, section 6).
//!
//! One frame goes through all packed records of a file, and records through its parts. So the file is unpacked as a whole,
//! to records one after the other, which may then be read from any place.

use std::sync::Arc;

use ruzstd::decoding::FrameDecoder;
use tracemill_codec::bits::u16_at;
use tracemill_codec::chunk::Bytes;
use tracemill_format::{Storage, UnpackedSink, zstd_window};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::records::{HEADER, PerfRecord, Records, kind};

/// The largest window of zstd: that of its highest level.
const MAX_WINDOW_BYTES: u64 = 128 << 20;
/// Bytes that may be unpacked of any file, however small it is.
const MIN_LIMIT: u64 = 1 << 30;
/// Bytes that may be unpacked of a file: so many times its size.
const MAX_RATIO: u64 = 200;
/// Bytes with which a frame begins.
const FRAME_START: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The longest header of a frame.
const FRAME_HEAD: usize = 18;
/// An empty block that ends a frame, and room for a checksum.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// The packed bytes of a record; `None` when it is of another type.
fn packed<'b>(record: &PerfRecord<'b>) -> Option<&'b [u8]> {
    match record.kind {
        kind::COMPRESSED => record.bytes.get(HEADER..),
        kind::COMPRESSED2 => {
            let len = usize::try_from(record.u64(HEADER)).unwrap_or(usize::MAX);
            let rest = record.bytes.get(HEADER + 8..).unwrap_or(&[]);
            Some(&rest[..rest.len().min(len)])
        }
        _ => None,
    }
}

/// Unpacks frames piece by piece.
#[derive(Default)]
struct Unpacker {
    decoder: Option<FrameDecoder>,
    /// Packed bytes that are no whole block yet.
    pending: Vec<u8>,
    /// Unpacked bytes that are no whole record yet.
    partial: Vec<u8>,
    /// The frame cannot be read on.
    is_broken: bool,
}

impl Unpacker {
    fn add(&mut self, bytes: &[u8], out: &mut UnpackedRecords) -> Result<()> {
        if bytes.starts_with(&FRAME_START) && (self.is_broken || self.pending.is_empty() && self.decoder.is_none()) {
            *self = Unpacker { partial: std::mem::take(&mut self.partial), ..Unpacker::default() };
        }
        if self.is_broken {
            return Ok(());
        }
        self.pending.extend_from_slice(bytes);
        let unpacked = self.unpack(out);
        self.is_broken = unpacked.is_err();
        unpacked
    }

    fn unpack(&mut self, out: &mut UnpackedRecords) -> Result<()> {
        let wrong = |error: &dyn std::fmt::Display| Error::malformed(format!("cannot unpack as zstd: {error}"));
        let mut target = vec![0; 64 << 10];
        loop {
            if self.decoder.is_none() {
                if self.pending.len() < FRAME_HEAD {
                    return Ok(());
                }
                if let Some(window) = zstd_window(&self.pending).filter(|&window| window > MAX_WINDOW_BYTES) {
                    return Err(Error::unsupported(format!("a zstd window of {window} bytes")));
                }
                let mut source = &self.pending[..];
                let mut decoder = FrameDecoder::new();
                decoder.init(&mut source).map_err(|error| wrong(&error))?;
                let used = self.pending.len() - source.len();
                self.pending.drain(..used);
                self.decoder = Some(decoder);
            }
            let Some(decoder) = &mut self.decoder else { return Ok(()) };
            let (read, written) = decoder.decode_from_to(&self.pending, &mut target).map_err(|error| wrong(&error))?;
            // A checksum at the end of a frame may count as read before it is there.
            self.pending.drain(..read.min(self.pending.len()));
            self.partial.extend_from_slice(&target[..written]);
            out.move_whole(&mut self.partial)?;
            if decoder.is_finished() && decoder.can_collect() == 0 {
                self.decoder = None;
            } else if read == 0 && written == 0 {
                return Ok(());
            }
        }
    }

    /// Gives all that is left: a recorder never ends its frame.
    fn finish(&mut self, out: &mut UnpackedRecords) -> Result<()> {
        if self.is_broken || self.decoder.is_none() {
            return Ok(());
        }
        let rest = std::mem::take(&mut self.pending);
        self.pending.extend_from_slice(&LAST_BLOCK);
        self.unpack(out)?;
        if rest.is_empty() {
            return Ok(());
        }
        Err(Error::truncated(format!("the packed records end inside a block, {} bytes of which are there", rest.len())))
    }
}

/// The place for all records.
struct UnpackedRecords {
    sink: Box<dyn UnpackedSink>,
    order: ByteOrder,
    /// Bytes that there may be still.
    left: u64,
}

impl UnpackedRecords {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| {
            let help = "it is more than 200 times as large unpacked, and more than 1 GiB";
            Error::unsupported("the packed records are too many").with_help(help)
        })?;
        self.sink.write(bytes)
    }

    /// Moves records that are whole.
    fn move_whole(&mut self, partial: &mut Vec<u8>) -> Result<()> {
        let mut end = 0;
        while let Some(size) = u16_at(partial, end + 6, self.order).map(usize::from) {
            // A size that cannot be one is found when the records are read.
            if size < HEADER {
                end = partial.len();
            } else if end + size <= partial.len() {
                end += size;
            } else {
                break;
            }
        }
        self.write(&partial[..end])?;
        partial.drain(..end);
        Ok(())
    }
}

/// Unpacks all records of a file, and copies those that are not packed. Gives what cannot be unpacked, too.
///
/// # Errors
/// When there is no room for them.
pub(crate) fn unpack(
    storage: &dyn Storage,
    bytes: &[u8],
    order: ByteOrder,
    (from, to): (usize, usize),
) -> Result<(Arc<dyn Bytes>, Vec<Error>)> {
    let mut records = Records::new(bytes, order, from, to);
    let left = MIN_LIMIT.max((bytes.len() as u64).saturating_mul(MAX_RATIO));
    let mut out = UnpackedRecords { sink: storage.unpacked(), order, left };
    let (mut faults, mut unpacker) = (Vec::new(), Unpacker::default());
    while let Some(record) = records.next() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                faults.push(error);
                continue;
            }
        };
        let Some(content) = packed(&record) else {
            out.write(record.bytes)?;
            out.write(record.extra)?;
            continue;
        };
        if let Err(error) = unpacker.add(content, &mut out) {
            faults.push(error.at_offset(record.at as u64).with_help("packed records after it are skipped"));
        }
    }
    if let Err(error) = unpacker.finish(&mut out) {
        faults.push(error.at_offset(to as u64));
    }
    if !unpacker.partial.is_empty() {
        let message =
            format!("the packed records end inside a record, {} bytes of which are there", unpacker.partial.len());
        faults.push(Error::truncated(message).at_offset(to as u64));
    }
    Ok((out.sink.finish()?, faults))
}
