//! Why recording does not begin.

use std::path::PathBuf;
use std::{error, fmt, io};

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
