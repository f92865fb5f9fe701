//! Where the files of traces come from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, Result};

/// Kind of a folder's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A regular file, with its length in bytes.
    File(u64),
    /// A folder.
    Directory,
    /// Something else: a socket, a device, a broken link.
    Other,
}

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its path: the folder's and its name.
    pub path: PathBuf,
    /// Its last component, as text.
    pub name: String,
    /// Its kind; links are followed.
    pub kind: EntryKind,
}

/// Where files come from.
pub trait Storage: Send + Sync {
    /// The entries of a folder, sorted by the bytes of their names.
    fn list(&self, directory: &Path) -> Result<Vec<Entry>>;
    /// The names of what is in a folder, in any order: cheaper than its entries.
    fn names(&self, directory: &Path) -> Result<Vec<OsString>> {
        let name = |entry: Entry| entry.path.file_name().map_or_else(|| entry.name.into(), OsString::from);
        Ok(self.list(directory)?.into_iter().map(name).collect())
    }
    /// Kind of the entry at a path, `None` when there is nothing.
    fn kind(&self, path: &Path) -> Option<EntryKind>;
    /// The content of a file, for as long as it is needed.
    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>>;
    /// The first bytes of a file, at most `len`.
    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        Ok(self.open(file)?.bytes().iter().take(len).copied().collect())
    }

    /// Are its files still written? Then what is not whole at their ends is no damage, but still to come.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// A place for bytes that a format unpacks itself, until all of them are there. In memory, and not much of it, unless the
    /// storage has a better one.
    fn unpacked(&self) -> Box<dyn UnpackedSink> {
        Box::<MemorySink>::default()
    }

    /// The path without links in it: two paths of one folder become the same. The path itself where there are no links.
    fn canonical(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// The first bytes of a file, without what is still being written behind them.
pub struct FirstBytes {
    bytes: Arc<dyn Bytes>,
    len: usize,
}

impl FirstBytes {
    /// The first `len` bytes of a file, or all of a shorter one.
    pub fn of(bytes: Arc<dyn Bytes>, len: usize) -> Arc<dyn Bytes> {
        if len < bytes.bytes().len() { Arc::new(FirstBytes { bytes, len }) } else { bytes }
    }
}

impl Bytes for FirstBytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes.bytes()[..self.len]
    }

    fn will_read(&self, offset: usize, len: usize) {
        self.bytes.will_read(offset, len);
    }

    fn len_now(&self) -> u64 {
        self.bytes.len_now().min(self.len as u64)
    }

    fn can_vanish(&self) -> bool {
        self.bytes.can_vanish()
    }
}

/// Takes bytes that are unpacked, one after the other.
pub trait UnpackedSink {
    /// Adds bytes.
    ///
    /// # Errors
    /// When there is no room for them.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// All bytes.
    ///
    /// # Errors
    /// As for [`UnpackedSink::write`].
    fn finish(self: Box<Self>) -> Result<Arc<dyn Bytes>>;
}

/// The most bytes that a storage without files holds unpacked.
const MAX_MEMORY_BYTES: usize = 64 << 20;

/// Unpacked bytes in memory.
#[derive(Default)]
struct MemorySink(Vec<u8>);

impl UnpackedSink for MemorySink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > MAX_MEMORY_BYTES - self.0.len() {
            return Err(Error::unsupported(format!("more than {MAX_MEMORY_BYTES} bytes unpacked in memory")));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Arc<dyn Bytes>> {
        Ok(Arc::new(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut sink = Box::<MemorySink>::default();
        sink.write(b"ab").unwrap();
        sink.write(&vec![0; MAX_MEMORY_BYTES - 2]).unwrap();
        assert_eq!(sink.write(b"c").unwrap_err().message(), "more than 67108864 bytes unpacked in memory");
        assert_eq!(sink.finish().unwrap().bytes().len(), MAX_MEMORY_BYTES);
    }
}
