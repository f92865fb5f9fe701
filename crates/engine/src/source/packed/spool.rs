//! Where unpacked bytes go: memory while they are few, then a temporary file without a name.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracemill_codec::chunk::Bytes;
use tracemill_format::UnpackedSink;
use tracemill_model::error::{Error, ErrorKind, Result};

use crate::source::{Content, mmap};

/// Bytes that are held before the file is made, and written at once from then on.
const BUFFER_BYTES: usize = 256 << 10;

/// Takes bytes, one after the other.
#[derive(Default)]
pub(in crate::source) struct Spool {
    buffer: Vec<u8>,
    file: Option<(File, PathBuf)>,
    /// Bytes so far.
    pub(super) len: u64,
}

impl Spool {
    /// Adds bytes.
    ///
    /// # Errors
    /// When the disk does not take them.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(temporary()?);
        }
        if let Some((file, path)) = &mut self.file {
            file.write_all(&self.buffer).map_err(|error| failed(path, &error))?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// All bytes.
    ///
    /// # Errors
    /// As for [`Spool::write`].
    pub(super) fn finish(mut self) -> Result<Arc<dyn Bytes>> {
        if self.file.is_some() {
            self.flush()?;
        }
        let Some((file, path)) = self.file else { return Ok(Arc::new(Content::new(self.buffer))) };
        let map = file.metadata().and_then(|meta| mmap::Map::new(&file, &path, &meta));
        Ok(Arc::new(map.map_err(|error| failed(&path, &error))?))
    }
}

impl UnpackedSink for Spool {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Spool::write(self, bytes)
    }

    fn finish(self: Box<Self>) -> Result<Arc<dyn Bytes>> {
        Spool::finish(*self)
    }
}

fn failed(path: &std::path::Path, error: &std::io::Error) -> Error {
    let folder = path.parent().unwrap_or(path).display();
    Error::new(ErrorKind::Io, format!("cannot unpack it to a temporary file in {folder}: {error}"))
        .with_help("TMPDIR names another folder for temporary files")
}

/// A new file that only we can read. Where the system allows it the name is gone at once, and the file with the program.
fn temporary() -> Result<(File, PathBuf)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = std::env::temp_dir();
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".tracemill-{}-{number}", std::process::id()));
        match options.open(&path) {
            Ok(file) => {
                // Elsewhere it stays until the folder for temporary files is cleaned.
                let _ = std::fs::remove_file(&path);
                return Ok((file, path));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < u32::MAX => {}
            Err(error) => return Err(failed(&path, &error)),
        }
    }
}
