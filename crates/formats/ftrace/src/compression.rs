//! Unpacking sections and trace data of version 7.

use std::io::Read;

use ruzstd::decoding::FrameDecoder;
use tracemill_format::zstd_window;
use tracemill_model::error::{Error, Result};

/// The most bytes that a section may have unpacked: event formats of large kernels have some 10 MiB.
pub(crate) const MAX_SECTION_BYTES: u64 = 48 << 20;
/// The most bytes that a piece of trace data may have unpacked; trace-cmd packs some pages at a time.
pub(crate) const MAX_CHUNK_BYTES: u64 = 16 << 20;
/// The largest window of zstd: more than its highest normal level takes.
const MAX_WINDOW_BYTES: u64 = 16 << 20;

/// How a file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Algorithm {
    Zlib,
    Zstd,
}

impl Algorithm {
    /// The algorithm of a name; `None` when nothing is packed.
    ///
    /// # Errors
    /// When the name is unknown.
    pub(crate) fn parse(name: &str) -> Result<Option<Algorithm>> {
        match name {
            "none" | "" => Ok(None),
            "zlib" => Ok(Some(Algorithm::Zlib)),
            "zstd" => Ok(Some(Algorithm::Zstd)),
            name => Err(Error::unsupported(format!("the compression `{name}` is not known"))
                .with_help("`zlib`, `zstd` and `none` are")),
        }
    }

    /// Unpacks `packed`, which is said to have `len` bytes unpacked.
    ///
    /// # Errors
    /// When it has not, or is not packed so.
    pub(crate) fn unpack(self, packed: &[u8], len: u64, max_bytes: u64) -> Result<Vec<u8>> {
        if len > max_bytes {
            return Err(Error::unsupported(format!("{len} bytes packed in one piece, more than {max_bytes}")));
        }
        let bytes = match self {
            Algorithm::Zlib => {
                let mut bytes = Vec::new();
                // One byte more would show that there is more.
                let read = flate2::read::ZlibDecoder::new(packed).take(len + 1).read_to_end(&mut bytes);
                read.map_err(|error| Error::malformed(format!("cannot unpack as zlib: {error}")))?;
                bytes
            }
            Algorithm::Zstd => unzstd(packed, len)?,
        };
        if bytes.len() as u64 != len {
            return Err(Error::malformed(format!("{} bytes were unpacked, expected {len}", bytes.len())));
        }
        Ok(bytes)
    }
}

fn unzstd(packed: &[u8], len: u64) -> Result<Vec<u8>> {
    let wrong = |error: &dyn std::fmt::Display| Error::malformed(format!("cannot unpack as zstd: {error}"));
    // The window is taken before anything is unpacked: it must not be what the input claims.
    if let Some(window) = zstd_window(packed).filter(|&window| window > MAX_WINDOW_BYTES.max(len)) {
        return Err(Error::unsupported(format!("a zstd window of {window} bytes")));
    }
    let mut source = packed;
    let mut decoder = ruzstd::decoding::StreamingDecoder::new_with_decoder(&mut source, FrameDecoder::new())
        .map_err(|error| wrong(&error))?;
    let mut bytes = Vec::new();
    decoder.by_ref().take(len + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tracemill_model::error::ErrorKind;

    use super::*;

    /// A zstd frame of one block that is not packed (RFC 8878, 3.1.1).
    fn frame(content: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, content.len() as u8];
        let head = (content.len() as u32) << 3 | 1;
        frame.extend(&head.to_le_bytes()[..3]);
        frame.extend(content);
        frame
    }

    fn zlib(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn both_algorithms() {
        let content = b"some text of some length, some text of some length";
        for (algorithm, packed) in [(Algorithm::Zlib, zlib(content)), (Algorithm::Zstd, frame(content))] {
            let len = content.len() as u64;
            assert_eq!(algorithm.unpack(&packed, len, 1000).unwrap(), content);
            assert_eq!(algorithm.unpack(&packed, len - 1, 1000).unwrap_err().kind(), ErrorKind::Malformed);
            assert_eq!(algorithm.unpack(&packed, len + 1, 1000).unwrap_err().kind(), ErrorKind::Malformed);
            assert_eq!(algorithm.unpack(&packed, 2000, 1000).unwrap_err().kind(), ErrorKind::Unsupported);
            assert_eq!(algorithm.unpack(&packed[..9], len, 1000).unwrap_err().kind(), ErrorKind::Malformed);
        }
        assert!(Algorithm::parse("lz4").is_err());
        assert_eq!(Algorithm::parse("none").unwrap(), None);
    }

    #[test]
    fn windows_are_not_believed() {
        // A window of 2^31 bytes for a content of 4.
        let packed = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x21, 0, 0, 1, 2, 3, 4];
        let error = Algorithm::Zstd.unpack(&packed, 4, 1000).unwrap_err();
        assert_eq!(error.message(), "a zstd window of 2147483648 bytes");
    }
}
