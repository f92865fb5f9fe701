//! The file of a log, and the files in which events wait until what stands before them is known.

use std::io::{self, BufReader, BufWriter, Seek, Write};

use tracemill_format::{OutPath, SinkFile, WAITING};
use tracemill_model::error::Result;

/// Octets after which the output is made as long as what waits for it.
const STEP: u64 = 64 << 10;
/// The step that writes the output, for errors.
pub(super) const WRITING: &str = "write the log";

/// Octets that wait in a temporary file beside the output.
pub(super) struct Spool {
    output: OutPath,
    /// Behind the name of the output.
    suffix: String,
    file: Option<BufWriter<Box<dyn SinkFile>>>,
    len: u64,
}

impl Spool {
    /// A spool for an output; `name` is its own among those of the output. Makes no file yet.
    pub(super) fn new(output: &OutPath, name: &str) -> Spool {
        Spool { output: output.clone(), suffix: format!(".{name}"), file: None, len: 0 }
    }

    /// Octets in it.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Appends octets.
    pub(super) fn write(&mut self, octets: &[u8]) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufWriter::with_capacity(64 << 10, self.output.temporary(&self.suffix)?)),
        };
        file.write_all(octets).map_err(self.output.failed(WAITING))?;
        self.len += octets.len() as u64;
        Ok(())
    }

    /// Writes all of it to the log, and forgets it.
    pub(super) fn copy_to(&mut self, log: &mut Log<'_>) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let failed = self.output.failed(WAITING);
        let mut file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        io::copy(&mut BufReader::with_capacity(256 << 10, file), &mut log.file).map_err(failed)?;
        Ok(())
    }
}

/// The file that is written in the end. Until then it is as long as what waits for it, so that its size shows how far
/// the conversion is.
pub(super) struct Output {
    path: OutPath,
    file: Option<Box<dyn SinkFile>>,
    waiting: u64,
    /// Its length.
    len: u64,
}

impl Output {
    /// An output. Makes no file yet.
    pub(super) fn new(path: &OutPath) -> Output {
        Output { path: path.clone(), file: None, waiting: 0, len: 0 }
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

    /// So many octets more wait for it.
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
    pub(super) fn put(&mut self, octets: &[u8]) -> Result<()> {
        self.file.write_all(octets).map_err(self.path.failed(WRITING))
    }
}
