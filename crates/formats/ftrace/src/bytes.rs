//! Reading numbers and strings from the sections of a file, in the byte order that it states.

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::event_format::Machine;

/// A place in bytes; every read is checked.
#[derive(Clone, Debug)]
pub(crate) struct ByteReader<'b> {
    bytes: &'b [u8],
    at: usize,
    order: ByteOrder,
    /// Offset of the bytes in the file, when they are there as they are.
    file_offset: u64,
    /// Do the bytes lie in the file as they are?
    is_in_file: bool,
}

impl<'b> ByteReader<'b> {
    /// Reads bytes that lie at `file_offset` of the file.
    pub(crate) fn new(bytes: &'b [u8], order: ByteOrder, file_offset: u64) -> Self {
        ByteReader { bytes, at: 0, order, file_offset, is_in_file: true }
    }

    /// Reads bytes that were unpacked from what lies at `file_offset` of the file.
    pub(crate) fn for_unpacked(bytes: &'b [u8], order: ByteOrder, file_offset: u64) -> Self {
        ByteReader { is_in_file: false, ..ByteReader::new(bytes, order, file_offset) }
    }

    /// The offset in the file of what is read next, or of the packed bytes that hold it.
    pub(crate) fn offset(&self) -> u64 {
        if self.is_in_file { self.file_offset + self.at as u64 } else { self.file_offset }
    }

    /// How much of the bytes is read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The bytes that are not read yet.
    pub(crate) fn rest(&self) -> &'b [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: u64, what: &str) -> Result<&'b [u8]> {
        let rest = self.rest();
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => {
                let message = format!("{what} takes {len} bytes, and {} are left", rest.len());
                Err(Error::truncated(message).at_offset(self.offset()))
            }
        }
    }

    fn number(&mut self, len: u64, what: &str) -> Result<u64> {
        let bytes = self.take(len, what)?;
        Ok(Machine { byte_order: self.order, long_bytes: 8 }.number(bytes))
    }

    /// An integer of 16 bits.
    pub(crate) fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(self.number(2, what)? as u16)
    }

    /// An integer of 32 bits.
    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(self.number(4, what)? as u32)
    }

    /// An integer of 64 bits.
    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        self.number(8, what)
    }

    /// A text that ends with a zero.
    pub(crate) fn string(&mut self, what: &str) -> Result<String> {
        let rest = self.rest();
        let Some(len) = memchr::memchr(0, rest) else {
            return Err(Error::truncated(format!("{what} has no end")).at_offset(self.offset()));
        };
        self.at += len + 1;
        Ok(text(&rest[..len]))
    }
}

/// Bytes as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
