//! Where the files of traces come from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::Result;

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

    /// The path without links in it: two paths of one folder become the same. The path itself where there are no links.
    fn canonical(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}
