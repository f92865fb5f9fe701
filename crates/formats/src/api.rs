//! What a format gives, and what it may ask for.
//!
//! A format does no I/O of its own: it lists folders and opens files through a [`Storage`]. It answers with an
//! [`OpenTrace`]: a schema, its plans, and for each stream where the packets are. Chunks, rows, columns, merge and
//! output come from there for free.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{Schema, StreamClassId};

/// What a folder's entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A regular file, with its length in bytes.
    File(u64),
    /// A folder.
    Directory,
    /// Something else: a socket, a device, a broken link.
    Other,
}

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its path: the folder's and its name.
    pub path: PathBuf,
    /// Its last component, as text.
    pub name: String,
    /// What it is; links are followed.
    pub kind: EntryKind,
}

/// Where files come from.
pub trait Storage: Send + Sync {
    /// The entries of a folder, sorted by the bytes of their names.
    fn list(&self, directory: &Path) -> Result<Vec<Entry>>;
    /// What a path is, `None` when there is nothing.
    fn kind(&self, path: &Path) -> Option<EntryKind>;
    /// The content of a file, for as long as it is needed.
    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>>;
    /// The first bytes of a file, at most `len`.
    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>>;
    /// The path without links in it: two paths of one folder become the same. The path itself where there are no links.
    fn canonical(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// A folder (or file) that a format has recognised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The folder or file.
    pub path: PathBuf,
    /// Name of the trace: the path as the user reaches it.
    pub name: String,
    /// Its path below the argument that was searched; empty when the argument is the trace itself.
    pub below: String,
}

/// A file of a stream.
#[derive(Clone)]
pub struct DataFile {
    /// Its path.
    pub path: PathBuf,
    /// Its path below the folder of the trace, with `/`.
    pub relative: String,
    /// Its content.
    pub bytes: Arc<dyn Bytes>,
    /// Were its packets taken from an index, so that their headers have not been looked at?
    pub is_indexed: bool,
}

/// A stream of a trace: packets in the order of time, from one or more files.
#[derive(Clone)]
pub struct Stream {
    /// Name: the relative path of its first file.
    pub name: String,
    /// Its class.
    pub class: StreamClassId,
    /// Numeric id of the stream, when its packets have one *and* a begin time.
    pub id: Option<u64>,
    /// Its files.
    pub files: Vec<DataFile>,
    /// Its packets.
    pub packets: Vec<Packet>,
}

/// A trace, opened: what is in it and where, nothing decoded but headers.
pub struct OpenTrace {
    /// Name (`cli.md`, "Several traces").
    pub name: String,
    /// Folder or file that it was opened from.
    pub path: PathBuf,
    /// Name that orders events of equal time, and that text shows: CTF 2 `name`; for CTF 1.8 the host name and the path
    /// below the argument, as `babeltrace2` puts them together.
    pub own_name: String,
    /// Schema.
    pub schema: Arc<Schema>,
    /// Its plans.
    pub plans: Arc<TracePlans>,
    /// Streams, in the order of their names.
    pub streams: Vec<Stream>,
    /// Parts that cannot be read: exit status 3.
    pub faults: Vec<Error>,
    /// What the user should know and what is no fault: an index that is ignored, a quirk that was mended.
    pub warnings: Vec<Error>,
}

/// A format: one static value, one line in the registry.
pub struct Format {
    /// Names by which the user knows it; the first is for `--input-format`.
    pub names: &'static [&'static str],
    /// What it is, in a line.
    pub description: &'static str,
    /// Is this folder or file a trace of the format? Looks at content, never at names alone.
    pub probe: fn(&dyn Storage, &Path) -> bool,
    /// Opens everything that was found of this format, in the order given. Folders that are parts of one trace become
    /// one. An error stands for the trace that could not be opened.
    pub open: fn(&dyn Storage, &[Found]) -> Vec<Result<OpenTrace>>,
}
