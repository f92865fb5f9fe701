//! The file of a log.

use std::io::{BufWriter, Write};

use tracemill_format::{OutPath, SinkFile, Spill, WAITING};
use tracemill_model::error::Result;

/// Octets after which the output is made as long as what waits for it.
const STEP: u64 = 64 << 10;
/// The step that writes the output, for errors.
pub(super) const WRITING: &str = "write the log";

/// The file that is written in the end. Until then it is as long as what waits for it, so that its size shows how far
/// the conversion is.
pub(super) struct LogFile {
    path: OutPath,
    file: Option<Box<dyn SinkFile>>,
    waiting: u64,
    /// Its length.
    len: u64,
}

impl LogFile {
    /// An output. Makes no file yet.
    pub(super) fn new(path: &OutPath) -> LogFile {
        LogFile { path: path.clone(), file: None, waiting: 0, len: 0 }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &OutPath {
        &self.path
    }

    fn file(&mut self) -> Result<&mut dyn SinkFile> {
        match &mut self.file {
            Some(file) => Ok(&mut **file),
            file => Ok(&mut **file.insert(self.path.create(WRITING)?)),
        }
    }

    /// Octets that still wait for it.
    pub(super) fn grow(&mut self, octets: usize) -> Result<()> {
        self.waiting += octets as u64;
        if self.file.is_none() || self.waiting - self.len >= STEP {
            self.len = self.waiting;
            let (path, waiting) = (self.path.clone(), self.waiting);
            self.file()?.set_len(waiting).map_err(path.failed(WRITING))?;
        }
        Ok(())
    }

    /// Writes it from its beginning on, and ends it there.
    pub(super) fn write(mut self, fill: impl FnOnce(&mut Log<'_>) -> Result<()>) -> Result<()> {
        let path = self.path.clone();
        let failed = path.failed(WRITING);
        let file = self.file()?;
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        let mut log = Log { file: BufWriter::with_capacity(256 << 10, file), path: &path };
        fill(&mut log)?;
        log.file.flush().map_err(failed)
    }
}

/// The output while it is written.
pub(super) struct Log<'a> {
    file: BufWriter<&'a mut dyn SinkFile>,
    path: &'a OutPath,
}

impl Log<'_> {
    /// Appends octets.
    pub(super) fn write_all(&mut self, octets: &[u8]) -> Result<()> {
        self.file.write_all(octets).map_err(self.path.failed(WRITING))
    }

    /// Appends the octets that waited until what stands before them was known.
    pub(super) fn put_waiting(&mut self, octets: &mut Spill) -> Result<()> {
        octets.copy(0, &mut self.file).map_err(self.path.failed(WAITING))
    }
}
