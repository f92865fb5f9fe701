//! Compressed files: gzip, bzip2, xz, Zstandard.

use std::io::Read;

use liblzma::stream::{CONCATENATED, Stream};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use tracemill_format::zstd_window;
use tracemill_model::error::{Error, Result};

use super::Budget;
use super::spool::Spool;

/// The most memory that a decoder may take for what it must look back at.
const MAX_WINDOW_BYTES: u64 = 128 << 20;
/// First number of a frame of Zstandard (RFC 8878, 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A way to compress a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    /// RFC 1952.
    Gzip,
    /// bzip2.
    Bzip2,
    /// The container of xz.
    Xz,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// How a file that begins so is compressed.
    pub(super) fn detect(start: &[u8]) -> Option<Compression> {
        // A block of bzip2 begins with the digits of pi, an empty file with those of its root.
        let is_bzip2 = |start: &[u8]| {
            let block = start.get(4..10);
            matches!(start.get(3), Some(b'1'..=b'9'))
                && (block == Some(&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59])
                    || block == Some(&[0x17, 0x72, 0x45, 0x38, 0x50, 0x90]))
        };
        match start {
            [0x1f, 0x8b, 8, ..] => Some(Compression::Gzip),
            [b'B', b'Z', b'h', ..] if is_bzip2(start) => Some(Compression::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            _ if start.starts_with(&ZSTD_MAGIC) || skippable(start).is_some() => Some(Compression::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
        }
    }

    /// Unpacks a file. The inner error says that the rest of it is damaged; what came before is in the spool.
    ///
    /// # Errors
    /// When it may not be unpacked, or cannot be written.
    pub(super) fn unpack(self, packed: &[u8], spool: &mut Spool, budget: &mut Budget) -> Result<Result<()>> {
        match self {
            Compression::Gzip => self.copy(flate2::bufread::MultiGzDecoder::new(packed), spool, budget),
            Compression::Bzip2 => self.copy(bzip2::bufread::MultiBzDecoder::new(packed), spool, budget),
            Compression::Xz => {
                let stream = Stream::new_stream_decoder(MAX_WINDOW_BYTES, CONCATENATED);
                let stream = stream.map_err(|error| Error::unsupported(format!("cannot unpack xz: {error}")))?;
                self.copy(liblzma::bufread::XzDecoder::new_stream(packed, stream), spool, budget)
            }
            Compression::Zstd => self.frames(packed, spool, budget),
        }
    }

    fn frames(self, packed: &[u8], spool: &mut Spool, budget: &mut Budget) -> Result<Result<()>> {
        let mut rest = packed;
        while !rest.is_empty() {
            if let Some(len) = skippable(rest) {
                rest = rest.get(len..).unwrap_or(&[]);
                continue;
            }
            if let Some(window) = zstd_window(rest).filter(|&window| window > MAX_WINDOW_BYTES) {
                let message = format!("a zstd window of {window} bytes, more than {MAX_WINDOW_BYTES}");
                return Err(Error::unsupported(message).with_help("unpack it with `zstd -d --long=31`"));
            }
            let decoder = match StreamingDecoder::new_with_decoder(&mut rest, FrameDecoder::new()) {
                Ok(decoder) => decoder,
                Err(error) => return Ok(Err(self.damaged(&error, spool.len))),
            };
            let end = self.copy(decoder, spool, budget)?;
            if end.is_err() {
                return Ok(end);
            }
        }
        Ok(Ok(()))
    }

    /// Copies what a decoder gives.
    pub(super) fn copy(self, mut from: impl Read, spool: &mut Spool, budget: &mut Budget) -> Result<Result<()>> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(Ok(())),
                Ok(len) => {
                    budget.spend(len as u64)?;
                    spool.write(&buffer[..len])?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(self.damaged(&error, spool.len))),
            }
        }
    }

    fn damaged(self, error: &dyn std::fmt::Display, unpacked: u64) -> Error {
        let message = format!("cannot unpack the rest of it as {}: {error}", self.name());
        Error::malformed(message).with_help(format!("the first {unpacked} bytes that it holds are used"))
    }
}

/// The length of a frame of Zstandard that holds nothing, when one begins here.
fn skippable(start: &[u8]) -> Option<usize> {
    let [kind, 0x2a, 0x4d, 0x18, a, b, c, d, ..] = *start else { return None };
    (kind & 0xf0 == 0x50).then(|| 8 + u32::from_le_bytes([a, b, c, d]) as usize)
}
