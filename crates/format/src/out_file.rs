//! Files of an output.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Component, Path, PathBuf};

use tracemill_model::error::{Error, ErrorKind, Result};

/// A file that is appended to; it is there once something was written. Its name must be free: what two parts of an output
/// would write is a fault of ours, and is not written over.
pub struct OutFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    buffer: usize,
    is_made: bool,
}

impl OutFile {
    /// For large pieces.
    pub fn new(path: PathBuf) -> Self {
        Self::with_buffer(path, 0)
    }

    /// For small pieces, which wait for each other in so many bytes.
    pub fn with_buffer(path: PathBuf, buffer: usize) -> Self {
        OutFile { path, file: None, buffer, is_made: false }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Was something written?
    pub fn is_made(&self) -> bool {
        self.is_made
    }

    /// Appends bytes; none make the file too.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let path = &self.path;
        let failed = |error: std::io::Error| Error::io("write the file", path, &error);
        if self.file.is_none() {
            if let Some(folder) = path.parent().filter(|_| !self.is_made) {
                make_folder(folder)?;
            }
            let file = match self.is_made {
                true => File::options().append(true).open(path),
                false => File::create_new(path),
            };
            self.file = Some(BufWriter::with_capacity(self.buffer, file.map_err(failed)?));
            self.is_made = true;
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(failed),
            None => Ok(()),
        }
    }

    /// Closes it for now.
    pub fn end(&mut self) -> Result<()> {
        let path = &self.path;
        match self.file.take() {
            Some(mut file) => file.flush().map_err(|error| Error::io("write the file", path, &error)),
            None => Ok(()),
        }
    }

    /// Is what was written still there? Asked at the end of an output: one whose folder somebody removed meanwhile, and
    /// that made it again for other files, would look whole.
    pub fn check(&self) -> Result<()> {
        if !self.is_made || self.path.is_file() {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Io, "the file was removed while the output was written");
        Err(error.in_file(&self.path))
    }
}

/// Copies a file. Errors name the copy and the file.
pub fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from).map_err(|error| Error::io("copy the file", from, &error))?;
    // Not with the permissions of the source: a copy belongs to the user.
    let mut target = File::create(to).map_err(|error| Error::io("write the copy", to, &error))?;
    let failed = |error: std::io::Error| Error::io(&format!("write the copy of `{}`", from.display()), to, &error);
    std::io::copy(&mut source, &mut target).map(|_| ()).map_err(failed)
}

/// Makes a folder, with those around it.
pub fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("make the folder", path, &error))
}

/// Is it a plain path below a folder? What a trace says of its own parts may be anything.
pub fn is_below(name: &str) -> bool {
    !name.is_empty() && Path::new(name).components().all(|component| matches!(component, Component::Normal(_)))
}
