//! Where the files of an output go: the mirror of [`Storage`](crate::Storage).

use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tracemill_model::error::{Error, ErrorKind, Result};

/// A place for the files of outputs: the file system, or memory.
///
/// Writers use it through [`OutPath`] and [`OutFile`], whose errors name the file and the step that failed.
pub trait Sink: Send + Sync {
    /// Makes a folder, with those around it. One that is there stays.
    ///
    /// # Errors
    /// When the place does not take it.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes a file, empty; one that is there is replaced.
    ///
    /// # Errors
    /// When the place does not take it.
    fn create(&self, path: &Path) -> io::Result<Box<dyn SinkFile>>;

    /// Makes a file whose name must be free.
    ///
    /// # Errors
    /// When there is a file of this name, or the place does not take another.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn SinkFile>>;

    /// Opens a file that was made, to write after its end.
    ///
    /// # Errors
    /// When it is not there.
    fn append(&self, path: &Path) -> io::Result<Box<dyn SinkFile>>;

    /// Makes a file that is gone when it is closed, also when the program is killed. `path` says where there is room for
    /// it; its name must be free.
    ///
    /// # Errors
    /// When the place does not take it.
    fn temporary(&self, path: &Path) -> io::Result<Box<dyn SinkFile>>;

    /// Files below a path, and their bytes; `None` when nothing is there.
    fn extent(&self, path: &Path) -> Option<Extent>;

    /// The content of a file that an option of a target names: a key.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// A file of a [`Sink`], open. It is closed when it is dropped.
pub trait SinkFile: Read + Write + Seek + Send {
    /// Truncates it, or makes it longer with zeros. The position stays.
    ///
    /// # Errors
    /// When the place does not take the bytes.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
}

/// Files, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// How many files.
    pub files: u64,
    /// Bytes in all of them.
    pub bytes: u64,
}

/// The step of which a temporary file is a part, for errors.
pub const WAITING: &str = "write the file beside it that holds a part of it";

/// A path in a [`Sink`]: what a writer is given, and what it makes the names of its files of.
#[derive(Clone)]
pub struct OutPath {
    sink: Arc<dyn Sink>,
    path: PathBuf,
}

impl OutPath {
    /// A path. Makes nothing.
    pub fn new(sink: Arc<dyn Sink>, path: impl Into<PathBuf>) -> Self {
        OutPath { sink, path: path.into() }
    }

    /// The path, as errors show it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it goes.
    pub fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    /// A path in the folder that this one is; itself for an empty name.
    pub fn join(&self, name: impl AsRef<Path>) -> OutPath {
        match name.as_ref().as_os_str().is_empty() {
            true => self.clone(),
            false => OutPath { sink: self.sink.clone(), path: self.path.join(name) },
        }
    }

    /// Another name in the same folder.
    pub fn with_file_name(&self, name: impl AsRef<std::ffi::OsStr>) -> OutPath {
        OutPath { sink: self.sink.clone(), path: self.path.with_file_name(name) }
    }

    /// This name with a suffix: a file beside this one.
    pub fn with_suffix(&self, suffix: &str) -> OutPath {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        OutPath { sink: self.sink.clone(), path: path.into() }
    }

    /// Makes the folder that it is, with those around it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_folder(&self) -> Result<()> {
        self.sink.make_folder(&self.path).map_err(self.failed("make the folder"))
    }

    /// Makes the folders around it.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn make_folders_around(&self) -> Result<()> {
        match self.path.parent() {
            Some(around) => OutPath { sink: self.sink.clone(), path: around.to_path_buf() }.make_folder(),
            None => Ok(()),
        }
    }

    /// Makes a file, empty; one that is there is replaced. `doing` is for the error: `write the log`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(&self, doing: &str) -> Result<Box<dyn SinkFile>> {
        self.sink.create(&self.path).map_err(self.failed(doing))
    }

    /// Writes a whole file; one that is there is replaced.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, doing: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let written = self.sink.create(&self.path).and_then(|mut file| file.write_all(bytes.as_ref()));
        written.map_err(self.failed(doing))
    }

    /// A temporary file beside this one, for bytes that wait until they can be written to it. `suffix` is after its name.
    ///
    /// # Errors
    /// When it cannot be made. The error names this file, since the name of the one next to it is temporary.
    pub fn temporary(&self, suffix: &str) -> Result<Box<dyn SinkFile>> {
        let beside = self.with_suffix(suffix);
        self.sink.temporary(&beside.path).map_err(self.failed(WAITING))
    }

    /// The error of a step that failed here.
    pub fn failed<'a>(&'a self, doing: &'a str) -> impl Fn(io::Error) -> Error + Copy + use<'a> {
        move |error| Error::io(doing, &self.path, &error)
    }
}

/// A file that is appended to; it is there once something was written. Its name must be free: when two parts of an output
/// would write one file, that is an error of ours, and nothing is written over.
pub struct OutFile {
    path: OutPath,
    file: Option<BufWriter<Box<dyn SinkFile>>>,
    buffer: usize,
    is_made: bool,
}

impl OutFile {
    /// For large pieces.
    pub fn new(path: OutPath) -> Self {
        Self::with_buffer(path, 0)
    }

    /// For small pieces, which wait for each other in so many bytes.
    pub fn with_buffer(path: OutPath, buffer: usize) -> Self {
        OutFile { path, file: None, buffer, is_made: false }
    }

    /// Where it is.
    pub fn path(&self) -> &OutPath {
        &self.path
    }

    /// Was something written?
    pub fn is_made(&self) -> bool {
        self.is_made
    }

    /// Appends bytes; none make the file too.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let failed = self.path.failed("write the file");
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let sink = &self.path.sink;
                let file = match std::mem::replace(&mut self.is_made, true) {
                    true => sink.append(&self.path.path),
                    false => {
                        self.path.make_folders_around()?;
                        sink.create_new(&self.path.path)
                    }
                };
                self.file.insert(BufWriter::with_capacity(self.buffer, file.map_err(failed)?))
            }
        };
        file.write_all(bytes).map_err(failed)
    }

    /// Closes it for now.
    ///
    /// # Errors
    /// When what waits cannot be written.
    pub fn end(&mut self) -> Result<()> {
        match self.file.take() {
            Some(mut file) => file.flush().map_err(self.path.failed("write the file")),
            None => Ok(()),
        }
    }

    /// Is what was written still there? Asked at the end of an output: one whose folder somebody removed meanwhile, and
    /// that made it again for other files, would look whole.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self) -> Result<()> {
        if !self.is_made || self.path.sink.extent(&self.path.path).is_some_and(|extent| extent.files == 1) {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Io, "the file was removed while the output was written");
        Err(error.in_file(&self.path.path))
    }
}

/// Is it a plain path below a folder? What a trace says of its own parts may be anything.
pub fn is_below(name: &str) -> bool {
    !name.is_empty() && Path::new(name).components().all(|component| matches!(component, Component::Normal(_)))
}
/// Most bytes of a name that is made of another one: file systems take 255, and numbers or endings may be added.
const MAX_NAME_BYTES: usize = 200;

/// A name for a file or folder, made of any text: without characters that paths cannot hold or that terminals act upon, and
/// not too long. It may be empty, or begin with a dot.
pub fn as_file_name(text: &str) -> String {
    let mut name = String::new();
    for one in text.chars() {
        let one = if matches!(one, '/' | '\\') || one.is_control() { '_' } else { one };
        if name.len() + one.len_utf8() > MAX_NAME_BYTES {
            break;
        }
        name.push(one);
    }
    name
}
