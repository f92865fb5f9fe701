//! Files as bytes: memory maps where the system has them, plain reading otherwise.

mod mmap;
mod packed;
mod sink;
mod sparse;

pub use self::mmap::refuse_large_files_by_error;
pub use self::packed::Packed;

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracemill_codec::chunk::Bytes;
use tracemill_format::{Entry, EntryKind, Storage, UnpackedSink};
use tracemill_model::error::{Error, Result};

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

/// Files below this size are read, not mapped: a map costs more than a copy.
const MAP_FROM_BYTES: u64 = 64 * 1024;

/// Small files are mapped too when so much of them is held already: a trace may have many thousands of streams.
const MAX_READ_BYTES: u64 = 16 << 20;

/// Bytes of files that were read and are still held.
static READ_BYTES: AtomicU64 = AtomicU64::new(0);

/// The content of a file that was read.
struct Content(Vec<u8>);

impl Content {
    fn new(bytes: Vec<u8>) -> Self {
        READ_BYTES.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Content(bytes)
    }
}

impl Bytes for Content {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        READ_BYTES.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

/// Opens a regular file. Anything else is refused, and a pipe that took the name of a file cannot make us wait.
fn open_regular(path: &Path) -> std::io::Result<(fs::File, fs::Metadata)> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    Ok((file, meta))
}

/// Reads at most so many bytes, which the file has: with one call, as a rule.
fn read_at_most(file: &fs::File, len: u64) -> std::io::Result<Vec<u8>> {
    // Large files that cannot be mapped are read piece by piece, so that their size alone takes no memory.
    let mut bytes = vec![0; len.min(MAP_FROM_BYTES) as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match (&*file).read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    if filled as u64 == MAP_FROM_BYTES {
        file.take(len - MAP_FROM_BYTES).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn kind_of(meta: &fs::Metadata) -> EntryKind {
    match meta.file_type() {
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_file() => EntryKind::File(meta.len()),
        _ => EntryKind::Other,
    }
}

impl Storage for FileSystem {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let failed = |error: std::io::Error| Error::io("list the folder", directory, &error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            // The metadata of an entry saves a walk along its path; that of a link says nothing about its target.
            let own = entry.metadata().ok().filter(|meta| !meta.is_symlink());
            let kind = own.map(|meta| kind_of(&meta)).or_else(|| self.kind(&path)).unwrap_or(EntryKind::Other);
            entries.push(Entry { path, name, kind });
        }
        entries.sort_by(|a, b| a.path.as_os_str().as_encoded_bytes().cmp(b.path.as_os_str().as_encoded_bytes()));
        Ok(entries)
    }

    fn names(&self, directory: &Path) -> Result<Vec<OsString>> {
        let failed = |error: std::io::Error| Error::io("list the folder", directory, &error);
        let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name());
        fs::read_dir(directory).and_then(|entries| entries.map(name).collect()).map_err(failed)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        fs::metadata(path).ok().map(|meta| kind_of(&meta))
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let failed = |error: std::io::Error| Error::io("read the file", file, &error);
        let (handle, meta) = open_regular(file).map_err(failed)?;
        sparse::refuse_holes(&handle, file, &meta)?;
        let is_small = meta.len() < MAP_FROM_BYTES && READ_BYTES.load(Ordering::Relaxed) < MAX_READ_BYTES;
        if meta.len() > 0 && !is_small {
            // A file system that cannot map is no reason to fail; nor is a system that gives no more maps.
            if let Ok(map) = mmap::Map::new(&handle, file, &meta) {
                return Ok(Arc::new(map));
            }
        }
        // Not more than it has now: another program may write it faster than we read.
        let bytes = read_at_most(&handle, meta.len()).map_err(failed)?;
        Ok(Arc::new(Content::new(bytes)))
    }

    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        let failed = |error: std::io::Error| Error::io("read the file", file, &error);
        let (handle, meta) = open_regular(file).map_err(failed)?;
        read_at_most(&handle, meta.len().min(len as u64)).map_err(failed)
    }

    fn unpacked(&self) -> Box<dyn UnpackedSink> {
        Box::<packed::spool::Spool>::default()
    }

    fn canonical(&self, path: &Path) -> PathBuf {
        fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
    }
}
