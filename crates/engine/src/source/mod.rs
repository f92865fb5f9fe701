//! Files as bytes: memory maps where the system has them, plain reading otherwise.

mod mmap;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_formats::api::{Entry, EntryKind, Storage};
use tracemill_model::error::{Error, Result};

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

/// Files below this size are read, not mapped: a map costs more than a copy.
const MAP_FROM_BYTES: u64 = 64 * 1024;

impl Storage for FileSystem {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let failed = |error: std::io::Error| Error::io("list the folder", directory, &error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = self.kind(&path).unwrap_or(EntryKind::Other);
            entries.push(Entry { path, name, kind });
        }
        entries.sort_by(|a, b| a.path.as_os_str().as_encoded_bytes().cmp(b.path.as_os_str().as_encoded_bytes()));
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        let meta = fs::metadata(path).ok()?;
        Some(match meta.file_type() {
            kind if kind.is_dir() => EntryKind::Directory,
            kind if kind.is_file() => EntryKind::File(meta.len()),
            _ => EntryKind::Other,
        })
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let failed = |error: std::io::Error| Error::io("read the file", file, &error);
        let mut handle = fs::File::open(file).map_err(failed)?;
        let meta = handle.metadata().map_err(failed)?;
        if meta.is_file() && meta.len() >= MAP_FROM_BYTES {
            // A file system that cannot map is no reason to fail.
            if let Ok(map) = mmap::Map::new(&handle, file, &meta) {
                return Ok(Arc::new(map));
            }
        }
        let mut bytes = Vec::new();
        handle.read_to_end(&mut bytes).map_err(failed)?;
        Ok(Arc::new(bytes))
    }

    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        let failed = |error: std::io::Error| Error::io("read the file", file, &error);
        let mut bytes = Vec::new();
        fs::File::open(file).map_err(failed)?.take(len as u64).read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }
}
