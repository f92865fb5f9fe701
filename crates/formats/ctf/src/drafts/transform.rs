//! Transformations of a packet's content before it is written: compression, encryption, checksum, in this order
//! (`SPEC.md`, D30 to D33). Here is the way back.

use std::borrow::Cow;
use std::io::Read;

use md5::Digest;
use tracemill_codec::text::hex;
use tracemill_model::error::{Error, Result};

use super::keys::Keys;

/// The numbers of the schemes that a packet header names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Schemes {
    pub(super) compression: u64,
    pub(super) encryption: u64,
    pub(super) checksum: u64,
}

impl Schemes {
    /// Is the content stored as it is, but for a checksum?
    pub(super) fn is_plain(self) -> bool {
        self.compression == 0 && self.encryption == 0
    }

    /// Is there any?
    pub(super) fn is_none(self) -> bool {
        self == Schemes::default()
    }
}

/// A checksum as a packet header stores it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum StoredChecksum {
    /// There is no such field.
    #[default]
    Nowhere,
    /// An integer of a number of bits.
    Number(u64, u32),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A field of another kind.
    Odd,
}

/// Keys and limits to undo the schemes of the packets of a trace.
pub(super) struct Undo {
    pub(super) keys: Keys,
    /// Are checksums compared?
    pub(super) verifies: bool,
    /// Bytes that the content of a packet may have once expanded.
    pub(super) max_expanded: u64,
    /// Is there xz (v1.6)?
    pub(super) has_xz: bool,
}

/// Whether the digest of the stored content is the one that the header holds; `Err` for an unknown scheme.
pub(super) fn verify(content: &[u8], scheme: u64, stored: &StoredChecksum) -> Result<Option<Error>> {
    let name = match scheme {
        0 => return Ok(None),
        1 => "md5",
        2 => "sha1",
        _ => "crc32",
    };
    let digest = digest(content, scheme).ok_or_else(|| unsupported("checksum", scheme))?;
    let (found, wanted) = match stored {
        StoredChecksum::Number(value, bits) if bits.is_multiple_of(8) && (8..=64).contains(bits) => {
            let len = (bits / 8) as usize;
            let number = digest.iter().take(len).fold(0u64, |value, &byte| value << 8 | u64::from(byte));
            // A digest shorter than the field is the number itself.
            (format!("{number:#x}"), format!("{value:#x}"))
        }
        StoredChecksum::Bytes(bytes) => {
            let mut digest = digest;
            digest.resize(bytes.len(), 0);
            (hex(&digest), hex(bytes))
        }
        _ => return Ok(None),
    };
    if found == wanted {
        return Ok(None);
    }
    let message = format!("the {name} checksum of the content is {found}, the header says {wanted}");
    Ok(Some(Error::inconsistent(message)))
}

/// The checksum of a content; empty without a scheme, `None` for an unknown one.
pub(super) fn digest(content: &[u8], scheme: u64) -> Option<Vec<u8>> {
    Some(match scheme {
        0 => Vec::new(),
        1 => md5::Md5::digest(content).to_vec(),
        2 => sha1::Sha1::digest(content).to_vec(),
        3 => crc32fast::hash(content).to_be_bytes().to_vec(),
        _ => return None,
    })
}

impl Undo {
    /// Decrypts and expands a content. `associated` are the bytes of the header that the encryption authenticates,
    /// `salt` is what the trace adds to a passphrase.
    pub(super) fn undo<'c>(
        &self,
        content: &'c [u8],
        schemes: Schemes,
        associated: &[u8],
        salt: &[u8],
    ) -> Result<Cow<'c, [u8]>> {
        let compressed = match schemes.encryption {
            0 => Cow::Borrowed(content),
            1 => Cow::Owned(self.keys.decrypt(content, associated, salt)?),
            other => return Err(unsupported("encryption", other)),
        };
        match schemes.compression {
            0 => Ok(compressed),
            1 => self.bzip2(&compressed).map(Cow::Owned),
            2 => self.gzip(&compressed).map(Cow::Owned),
            3 if self.has_xz => self.xz(&compressed).map(Cow::Owned),
            other => Err(unsupported("compression", other)),
        }
    }

    fn bzip2(&self, content: &[u8]) -> Result<Vec<u8>> {
        let mut decoder = bzip2::bufread::BzDecoder::new(content);
        let bytes = self.expand(&mut decoder, "bzip2")?;
        at_end(decoder.into_inner(), "bzip2 stream")?;
        Ok(bytes)
    }

    fn gzip(&self, content: &[u8]) -> Result<Vec<u8>> {
        let mut decoder = flate2::bufread::GzDecoder::new(content);
        let bytes = self.expand(&mut decoder, "gzip")?;
        at_end(decoder.into_inner(), "gzip member")?;
        Ok(bytes)
    }

    fn xz(&self, content: &[u8]) -> Result<Vec<u8>> {
        let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, 0);
        let stream = stream.map_err(|error| Error::malformed(format!("xz cannot be read: {error}")))?;
        let mut decoder = liblzma::bufread::XzDecoder::new_stream(content, stream);
        let bytes = self.expand(&mut decoder, "xz")?;
        at_end(decoder.into_inner(), "xz stream")?;
        Ok(bytes)
    }

    /// Reads to the end, or up to the limit.
    fn expand(&self, decoder: &mut impl Read, what: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = decoder.by_ref().take(self.max_expanded.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| Error::malformed(format!("the {what} content cannot be expanded: {error}")))?;
        if bytes.len() as u64 > self.max_expanded {
            let message = format!("the {what} content expands to more than the limit of {} bytes", self.max_expanded);
            let help = "raise the limit with --max-expanded BYTES when the trace can be trusted; the packet is skipped";
            return Err(Error::unsupported(message).with_help(help));
        }
        Ok(bytes)
    }
}

/// Memory for the dictionary of an xz stream: the largest preset takes 65 MiB.
const XZ_MEMORY: u64 = 1 << 30;

fn at_end(rest: &[u8], what: &str) -> Result<()> {
    if rest.is_empty() {
        return Ok(());
    }
    Err(Error::malformed(format!("{} bytes follow the {what} of the content", rest.len())))
}

fn unsupported(what: &str, scheme: u64) -> Error {
    Error::unsupported(format!("unsupported {what} scheme {scheme}"))
}
