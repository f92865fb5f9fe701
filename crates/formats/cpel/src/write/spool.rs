//! Where events wait until what stands before them in the file is known.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tracemill_model::error::{Error, Result};

/// Octets after which the output is made as long as what waits for it.
const STEP: u64 = 64 << 10;

/// Octets that wait in a file without a name, beside the output.
pub(super) struct Spool {
    /// The output: errors name it, since nobody knows the file beside it.
    output: PathBuf,
    path: PathBuf,
    file: Option<BufWriter<File>>,
    /// Has the file still its name?
    is_named: bool,
    len: u64,
}

impl Spool {
    /// A spool for an output; `name` is its own among those of the output. Makes no file yet.
    pub(super) fn new(output: &Path, name: &str) -> Spool {
        let mut path = output.as_os_str().to_os_string();
        path.push(".");
        path.push(name);
        Spool { output: output.to_path_buf(), path: path.into(), file: None, is_named: false, len: 0 }
    }

    /// Octets in it.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Appends octets.
    pub(super) fn write(&mut self, octets: &[u8]) -> Result<()> {
        let failed =
            |error: std::io::Error| Error::io("write the file beside it that holds a part of it", &self.output, &error);
        if self.file.is_none() {
            let mut open = File::options();
            let file = open.read(true).write(true).create_new(true).open(&self.path).map_err(failed)?;
            // Nobody else needs the name, and a program that is killed then leaves nothing behind.
            self.is_named = fs::remove_file(&self.path).is_err();
            self.file = Some(BufWriter::with_capacity(64 << 10, file));
        }
        if let Some(file) = &mut self.file {
            file.write_all(octets).map_err(failed)?;
        }
        self.len += octets.len() as u64;
        Ok(())
    }

    /// Writes all of it to the output, and forgets it.
    pub(super) fn copy_to(&mut self, out: &mut dyn Write) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let failed =
            |error: std::io::Error| Error::io("write the file beside it that holds a part of it", &self.output, &error);
        let mut file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => break,
                len => out.write_all(&buffer[..len]).map_err(failed)?,
            }
        }
        drop(file);
        self.remove();
        Ok(())
    }

    fn remove(&mut self) {
        if std::mem::take(&mut self.is_named) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.file = None;
        self.remove();
    }
}

/// The file that is written in the end. Until then it is as long as what waits for it, so that whoever looks at its size
/// knows.
pub(super) struct Output {
    path: PathBuf,
    file: Option<File>,
    waiting: u64,
    told: u64,
}

impl Output {
    /// An output. Makes no file yet.
    pub(super) fn new(path: &Path) -> Output {
        Output { path: path.to_path_buf(), file: None, waiting: 0, told: 0 }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&mut self) -> Result<&mut File> {
        if self.file.is_none() {
            let file = File::create(&self.path).map_err(|error| Error::io("write the log", &self.path, &error))?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => Ok(file),
            None => Err(Error::misuse("the log is not open")),
        }
    }

    /// So many octets more wait for it.
    pub(super) fn grow(&mut self, octets: usize) -> Result<()> {
        self.waiting += octets as u64;
        if self.file.is_none() || self.waiting - self.told >= STEP {
            self.told = self.waiting;
            let path = self.path.clone();
            let waiting = self.waiting;
            self.file()?.set_len(waiting).map_err(|error| Error::io("write the log", &path, &error))?;
        }
        Ok(())
    }

    /// Writes it from its beginning on, and ends it there.
    pub(super) fn write(mut self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let path = self.path.clone();
        let failed = |error: std::io::Error| Error::io("write the log", &path, &error);
        let file = self.file()?;
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        let mut out = BufWriter::with_capacity(256 << 10, file);
        fill(&mut out)?;
        out.flush().map_err(failed)
    }

    /// The failure of writing to it.
    pub(super) fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
        move |error| Error::io("write the log", path, &error)
    }
}
