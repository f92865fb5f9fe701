//! Files in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_format::{Entry, EntryKind, Storage};
use tracemill_model::error::{Error, ErrorKind, Result};

/// Files by path; folders are what their paths say.
#[derive(Clone, Default)]
pub struct MemoryStorage {
    files: BTreeMap<PathBuf, Arc<dyn Bytes>>,
}

impl MemoryStorage {
    /// Adds a file, or replaces it.
    pub fn add(&mut self, path: PathBuf, bytes: Arc<dyn Bytes>) {
        self.files.insert(path, bytes);
    }
}

impl Storage for MemoryStorage {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let mut names = BTreeMap::new();
        for (path, bytes) in &self.files {
            let Ok(rest) = path.strip_prefix(directory) else { continue };
            let mut parts = rest.components();
            let Some(first) = parts.next() else { continue };
            let is_file = parts.next().is_none();
            let kind = if is_file { EntryKind::File(bytes.bytes().len() as u64) } else { EntryKind::Directory };
            names.insert(first.as_os_str().to_os_string(), kind);
        }
        let entry = |(name, kind): (std::ffi::OsString, EntryKind)| Entry {
            path: directory.join(&name),
            name: name.to_string_lossy().into_owned(),
            kind,
        };
        Ok(names.into_iter().map(entry).collect())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        if let Some(bytes) = self.files.get(path) {
            return Some(EntryKind::File(bytes.bytes().len() as u64));
        }
        self.files.keys().any(|file| file.starts_with(path)).then_some(EntryKind::Directory)
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let absent = || Error::new(ErrorKind::Io, "there is no such file").in_file(file);
        self.files.get(file).cloned().ok_or_else(absent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_what_paths_say() {
        let mut storage = MemoryStorage::default();
        for name in ["net://h/a/metadata", "net://h/a/index/s.idx", "net://h/ab/s"] {
            storage.add(PathBuf::from(name), Arc::new(vec![1, 2]));
        }
        let names = |of: &str| -> Vec<String> {
            storage.list(Path::new(of)).unwrap().into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(names("net://h"), ["a", "ab"]);
        assert_eq!(names("net://h/a"), ["index", "metadata"]);
        assert_eq!(storage.kind(Path::new("net://h/a/index")), Some(EntryKind::Directory));
        assert_eq!(storage.kind(Path::new("net://h/ab/s")), Some(EntryKind::File(2)));
        assert_eq!(storage.kind(Path::new("net://h/abc")), None);
        assert!(storage.open(Path::new("net://h/a")).is_err());
    }
}
