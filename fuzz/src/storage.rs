//! Folders in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_format::{Entry, EntryKind, Storage};
use tracemill_model::error::{Error, ErrorKind, Result};

/// A folder with files, and folders with files.
pub(crate) struct Folder(BTreeMap<PathBuf, Arc<Vec<u8>>>);

impl Folder {
    /// Its name.
    pub(crate) const PATH: &str = "/fuzz";

    /// A folder without files.
    pub(crate) fn empty() -> Self {
        Folder(BTreeMap::new())
    }

    /// A folder with metadata and one data stream file.
    pub(crate) fn new(metadata: &[u8], stream: &[u8]) -> Self {
        let mut folder = Folder(BTreeMap::new());
        folder.add("metadata", metadata);
        folder.add("stream", stream);
        folder
    }

    /// A folder with one file.
    pub(crate) fn with_file(name: &str, bytes: &[u8]) -> Self {
        let mut folder = Folder(BTreeMap::new());
        folder.add(name, bytes);
        folder
    }

    /// A folder with these files.
    pub(crate) fn with_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut folder = Folder(BTreeMap::new());
        for (name, bytes) in files {
            folder.add(name, bytes);
        }
        folder
    }

    /// Adds a file.
    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) {
        self.0.insert(Path::new(Self::PATH).join(name), Arc::new(bytes.to_vec()));
    }

    /// Length of the metadata.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.0.get(&Path::new(Self::PATH).join("metadata")).map_or(0, |bytes| bytes.len())
    }

    fn file(&self, path: &Path) -> Result<&Arc<Vec<u8>>> {
        self.0.get(path).ok_or_else(|| Error::new(ErrorKind::Io, "no such file").in_file(path))
    }
}

impl Storage for Folder {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let mut entries: BTreeMap<PathBuf, EntryKind> = BTreeMap::new();
        for (path, bytes) in &self.0 {
            let Some(first) = path.strip_prefix(directory).ok().and_then(|rest| rest.iter().next()) else { continue };
            let inside = directory.join(first);
            let kind = if inside == *path { EntryKind::File(bytes.len() as u64) } else { EntryKind::Directory };
            entries.insert(inside, kind);
        }
        let entry = |(path, kind): (PathBuf, EntryKind)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Entry { path, name, kind }
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        if let Some(bytes) = self.0.get(path) {
            return Some(EntryKind::File(bytes.len() as u64));
        }
        let is_folder = path == Path::new(Self::PATH) || self.0.keys().any(|file| file.starts_with(path));
        is_folder.then_some(EntryKind::Directory)
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        Ok(self.file(file)?.clone())
    }

    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        let bytes = self.file(file)?;
        Ok(bytes[..len.min(bytes.len())].to_vec())
    }
}
