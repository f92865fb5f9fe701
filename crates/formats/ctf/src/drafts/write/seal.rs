//! Compression, encryption and checksums of packets, as the user wants them.

use std::io::Write;
use std::path::Path;

use tracemill_model::error::{Error, Result};

use super::super::keys::Keys;
use super::super::metadata::Dialect;
use super::super::transform::{self, Schemes};
use tracemill_format::Sink;
use tracemill_format::target::WriteOptions;

/// Names of the options.
pub(super) const COMPRESSION: &str = "packet-compression";
pub(super) const CHECKSUM: &str = "packet-checksum";
pub(super) const KEY: &str = "packet-key-file";
pub(super) const PASSPHRASE: &str = "packet-passphrase-file";

/// Transformations of the content of packets.
pub(super) struct Seal {
    /// Numbers of the schemes that the user wants; those of the trace itself hold where there is none.
    compression: Option<u64>,
    checksum: Option<u64>,
    keys: Option<Keys>,
}

impl Seal {
    /// The transformations that the options state.
    ///
    /// # Errors
    /// Wrong usage.
    pub(super) fn new(options: &WriteOptions, sink: &dyn Sink, dialect: Dialect) -> Result<Self> {
        let settings = &options.settings;
        let scheme = |name: &str, words: &[&str]| -> Result<Option<u64>> {
            let Some(word) = settings.get(name) else { return Ok(None) };
            let found = words.iter().position(|known| *known == word);
            let unknown = || Error::misuse(format!("--{name} {word}: it is one of {}", words.join(", ")));
            found.map(|at| Some(at as u64)).ok_or_else(unknown)
        };
        let compression = scheme(COMPRESSION, &["none", "bzip2", "gzip", "xz"])?;
        if compression == Some(3) && dialect == Dialect::V11 {
            return Err(Error::misuse(format!("--{COMPRESSION} xz: v1.1 has bzip2 and gzip only")));
        }
        let checksum = scheme(CHECKSUM, &["none", "md5", "sha1", "crc32"])?;
        let read = |name: &str| -> Result<Option<Vec<u8>>> {
            let Some(path) = settings.get(name) else { return Ok(None) };
            let bytes = sink.read(Path::new(path));
            bytes.map(Some).map_err(|error| Error::misuse(format!("--{name} {path} cannot be read: {error}")))
        };
        let keys = Keys::from_options(read(KEY)?, read(PASSPHRASE)?, (KEY, PASSPHRASE))?;
        Ok(Seal { compression, checksum, keys })
    }

    /// The schemes of a packet that had these ones. Says whether one of them is lost.
    pub(super) fn schemes(&self, had: Schemes) -> (Schemes, bool) {
        let encryption = u64::from(self.keys.is_some());
        let schemes = Schemes {
            compression: self.compression.unwrap_or(had.compression),
            encryption,
            checksum: self.checksum.unwrap_or(had.checksum),
        };
        (schemes, had.encryption > 0 && encryption == 0)
    }

    /// The content as it is stored, and its checksum.
    ///
    /// # Errors
    /// When something cannot be done.
    pub(super) fn apply(
        &self,
        content: &[u8],
        schemes: Schemes,
        associated: &[u8],
        salt: &[u8],
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        if content.is_empty() {
            // No stored bytes mean no events, whatever the schemes.
            return Ok((Vec::new(), transform::digest(&[], schemes.checksum).unwrap_or_default()));
        }
        let failed = |error: std::io::Error| Error::unsupported(format!("a packet cannot be compressed: {error}"));
        let packed = match schemes.compression {
            0 => content.to_vec(),
            1 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
                encoder.write_all(content).map_err(failed)?;
                encoder.finish().map_err(failed)?
            }
            2 => {
                // The smallest that zlib makes, with its system in the header: so do other writers.
                let builder = flate2::GzBuilder::new().operating_system(3);
                let mut encoder = builder.write(Vec::new(), flate2::Compression::best());
                encoder.write_all(content).map_err(failed)?;
                encoder.finish().map_err(failed)?
            }
            _ => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 6);
                encoder.write_all(content).map_err(failed)?;
                encoder.finish().map_err(failed)?
            }
        };
        let stored = match (&self.keys, schemes.encryption) {
            (Some(keys), 1..) => keys.encrypt(&packed, associated, salt)?,
            _ => packed,
        };
        let digest = transform::digest(&stored, schemes.checksum).unwrap_or_default();
        Ok((stored, digest))
    }
}
