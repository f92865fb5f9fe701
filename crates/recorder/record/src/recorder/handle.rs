//! The recorder as programs have it, why it does not begin, and how a recording went.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::{error, fmt, io};

use super::{Running, State, UNPLACED, has_ended};
use crate::options::Options;
use crate::{folder, local};

/// Why recording cannot begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The process records already.
    IsRecording,
    /// An environment variable is wrong.
    Environment(String),
    /// The folder of the trace cannot be made.
    Io(PathBuf, io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::IsRecording => f.write_str("the process records already"),
            StartError::Environment(what) => f.write_str(what),
            StartError::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl error::Error for StartError {}

impl From<StartError> for io::Error {
    fn from(error: StartError) -> io::Error {
        let kind = match &error {
            StartError::IsRecording => io::ErrorKind::ResourceBusy,
            StartError::Environment(_) => io::ErrorKind::InvalidInput,
            StartError::Io(_, error) => error.kind(),
        };
        io::Error::new(kind, error)
    }
}

/// The recorder of this process. Recording ends in order when it is dropped, and when the process ends by `exit`.
#[must_use = "recording ends when the recorder is dropped"]
pub struct Recorder {
    pub(super) generation: u64,
}

/// How a recording went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Events that were discarded.
    pub discarded: u64,
    /// Discarded events that no packet counts, since there was no ring at all.
    pub uncounted: u64,
}

impl Recorder {
    /// Options of a recording into the folder `path`.
    pub fn options(path: impl Into<PathBuf>) -> Options {
        Options { path: path.into(), ..Options::default() }
    }

    /// Copies what is recorded so far to the folder `path`, which must not exist. Recording goes on meanwhile.
    ///
    /// # Errors
    /// When files cannot be read or written, or recording has ended.
    pub fn snapshot(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let from = self.with(|running| running.folder.clone())?;
        folder::snapshot(&from, path.as_ref()).map(|_| ())
    }

    /// Finishes the trace, and goes on in the folder `path`.
    ///
    /// # Errors
    /// When the new folder cannot be made: recording goes on in the one before. When that cannot be finished: its rings stay,
    /// and recording goes on in the new one.
    pub fn rotate(&self, path: impl Into<PathBuf>) -> io::Result<Summary> {
        super::rotate(self.generation, path.into())
    }

    /// Events that were discarded so far.
    pub fn discarded(&self) -> u64 {
        let discarded = |state: &mut State| {
            let uncounted = state.uncounted + UNPLACED.load(Ordering::Relaxed);
            Some(state.running_of(self.generation)?.discarded() + uncounted)
        };
        local::locked(discarded).flatten().unwrap_or(0)
    }

    /// Ends recording: the folder is a plain CTF trace afterwards.
    ///
    /// # Errors
    /// When files cannot be written; the rings stay then, and `tracemill record --recover` can finish them.
    pub fn finish(self) -> io::Result<Summary> {
        super::finish(self.generation)
    }

    fn with<R>(&self, work: impl FnOnce(&mut Running) -> R) -> io::Result<R> {
        let running = |state: &mut State| state.running_of(self.generation).map(work);
        local::locked(running).flatten().ok_or_else(has_ended)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Nobody can be told: what is not finished can be recovered.
        let _ = super::finish(self.generation);
    }
}
