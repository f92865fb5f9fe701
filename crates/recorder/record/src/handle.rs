//! The recorder as programs have it.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::StartError;
use crate::folder;
use crate::options::Options;
use crate::recorder::{self, Summary};

/// The recorder of this process. Recording ends in order when it is dropped, and when the process ends by `exit`.
#[must_use = "recording ends when the recorder is dropped"]
pub struct Recorder {
    generation: u64,
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
        let from = recorder::folder(self.generation)?;
        folder::snapshot(&from, path.as_ref()).map(|_| ())
    }

    /// Finishes the trace, and goes on in the folder `path`.
    ///
    /// # Errors
    /// When the new folder cannot be made: recording goes on in the one before. When that cannot be finished: its rings stay,
    /// and recording goes on in the new one.
    pub fn rotate(&self, path: impl Into<PathBuf>) -> io::Result<Summary> {
        recorder::rotate(self.generation, path.into())
    }

    /// Events that were discarded so far.
    pub fn discarded(&self) -> u64 {
        recorder::discarded(self.generation)
    }

    /// Ends recording: the folder is a plain CTF trace afterwards.
    ///
    /// # Errors
    /// When files cannot be written; the rings stay then, and `tracemill record --recover` can finish them.
    pub fn finish(self) -> io::Result<Summary> {
        recorder::finish(self.generation)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The error has no way out: what is not finished can be recovered.
        let _ = recorder::finish(self.generation);
    }
}

impl Options {
    /// Begins to record. A recording that the environment began before `main` is taken over as it is, by the first call.
    ///
    /// # Errors
    /// When the process records already, the folder exists or cannot be made, or an environment variable is wrong.
    pub fn start(self) -> Result<Recorder, StartError> {
        let options = self.with_environment(|name| std::env::var_os(name))?;
        recorder::start(options).map(|generation| Recorder { generation })
    }
}

/// The recorder of the process, when it records. For what has no [`Recorder`] of their own.
#[cfg(feature = "c")]
pub(crate) fn current() -> Option<std::mem::ManuallyDrop<Recorder>> {
    Some(std::mem::ManuallyDrop::new(Recorder { generation: recorder::current()? }))
}
