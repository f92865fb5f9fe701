//! Files in memory, with the same trait as a file system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_format::{Entry, EntryKind, Storage};
use tracemill_model::error::{Error, ErrorKind, Result};

/// A tree of files. Folders exist because files or named folders are in them.
#[derive(Default)]
pub struct MemoryStorage {
    /// Content of a file; `None` for a folder.
    nodes: BTreeMap<PathBuf, Option<Arc<Vec<u8>>>>,
}

impl MemoryStorage {
    /// Adds a file and the folders above it.
    pub fn add_file(&mut self, path: &Path, content: Vec<u8>) {
        if let Some(parent) = path.parent() {
            self.add_folder(parent);
        }
        self.nodes.insert(path.to_path_buf(), Some(Arc::new(content)));
    }

    /// Adds a folder and those above it.
    pub fn add_folder(&mut self, path: &Path) {
        for folder in path.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            self.nodes.entry(folder.to_path_buf()).or_insert(None);
        }
    }

    fn file(&self, path: &Path) -> Result<&Arc<Vec<u8>>> {
        match self.nodes.get(path) {
            Some(Some(content)) => Ok(content),
            _ => Err(Error::new(ErrorKind::Io, "no such file").in_file(path)),
        }
    }
}

impl Storage for MemoryStorage {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let inside = self.nodes.iter().filter(|(path, _)| path.parent() == Some(directory));
        let mut entries: Vec<Entry> = inside
            .map(|(path, content)| Entry {
                path: path.clone(),
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                kind: kind_of(content),
            })
            .collect();
        entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        self.nodes.get(path).map(kind_of)
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        Ok(self.file(file)?.clone() as Arc<dyn Bytes>)
    }

    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        let content = self.file(file)?;
        Ok(content[..len.min(content.len())].to_vec())
    }
}

fn kind_of(content: &Option<Arc<Vec<u8>>>) -> EntryKind {
    match content {
        Some(content) => EntryKind::File(content.len() as u64),
        None => EntryKind::Directory,
    }
}
