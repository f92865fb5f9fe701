//! The file of an export.

use tracemill_format::{OutPath, SinkFile, Spill};
use tracemill_model::error::Result;

/// The step that writes an export, for errors.
pub(crate) const WRITING: &str = "write the file";
/// Size in bytes from which waiting output is written.
pub(crate) const FLUSH: usize = 1 << 16;

/// A file that is created when the first bytes are written to it, so that a conversion that never begins leaves none.
pub(crate) struct LateFile {
    path: OutPath,
    file: Option<Box<dyn SinkFile>>,
}

impl LateFile {
    pub(crate) fn new(path: &OutPath) -> Self {
        LateFile { path: path.clone(), file: None }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.opened()?.write_all(bytes).map_err(self.path.failed(WRITING))
    }

    /// Writes a text that waited.
    pub(crate) fn append(&mut self, spill: &mut Spill, text: usize) -> Result<()> {
        spill.copy(text, self.opened()?).map_err(self.path.failed(WRITING))
    }

    fn opened(&mut self) -> Result<&mut Box<dyn SinkFile>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.path.create(WRITING)?,
        };
        Ok(self.file.insert(file))
    }
}
