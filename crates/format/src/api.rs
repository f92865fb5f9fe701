//! What a format gives, and what it may ask for.
//!
//! A format does no I/O of its own: it lists folders and opens files through a [`Storage`]. It answers with an
//! [`OpenTrace`]: a schema, its plans, for each stream where the packets are, and a [`PacketReader`] that opens one of
//! them. Chunks, rows, columns, merge, filters and output come from there for free.
//!
//! A packet can be opened in three ways. Where plans can decode the file as it is, the reader points at its bytes. Where
//! bytes are packed (compressed, encrypted), it unpacks them into bytes of its own. Where plans cannot find the events,
//! or the fields are nothing that a plan reads, the reader finds them itself ([`Spine`]) and may write their fields anew,
//! in a layout for which it makes the schema.
//!
//! [`Spine`]: tracemill_codec::chunk::Spine

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::trace_plans::{EventFault, TracePlans};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, Packet};
use tracemill_model::schema::{EnvValue, Part, Schema, StreamClassId};

use crate::calls::{CallEvents, CallSource, ModuleEvents};

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
    /// The names of what is in a folder, in any order: cheaper than its entries.
    fn names(&self, directory: &Path) -> Result<Vec<OsString>> {
        let name = |entry: Entry| entry.path.file_name().map_or_else(|| entry.name.into(), OsString::from);
        Ok(self.list(directory)?.into_iter().map(name).collect())
    }
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
    /// Name (`docs/cli.md`, "Several traces").
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
    /// Do its files hold more than packets, so that bytes behind the last packet are nothing to tell?
    pub has_other_bytes: bool,
    /// Opens its packets.
    pub reader: Arc<dyn PacketReader>,
    /// Streams, in the order of their names.
    pub streams: Vec<Stream>,
    /// What else the trace holds, for `info`: tables of strings, definitions, sections that nobody knows.
    pub sections: Vec<Section>,
    /// What its specification forbids and reading does not mind: only `check` tells.
    pub remarks: Vec<Error>,
    /// Parts that cannot be read: exit status 3.
    pub faults: Vec<Error>,
    /// What the user should know and what is no fault: an index that is ignored, a quirk that was mended.
    pub warnings: Vec<Error>,
}

/// Opens packets for their events. Shared by all threads.
pub trait PacketReader: Send + Sync {
    /// Opens the packet `index` of a stream. `clock` is the clock of the stream before it.
    ///
    /// # Errors
    /// When none of its events can be read. File and packet are added by the caller.
    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, clock: u64) -> Result<OpenedPacket>;

    /// Do the times of a packet bound those of its events? Where they are only what a header says and events may
    /// contradict it, every packet is read for a range of time.
    fn has_proven_times(&self) -> bool {
        true
    }

    /// What the trace holds beside events and packets, byte by byte and in its order: what a writer of the same format
    /// needs to make it again. May read files.
    ///
    /// # Errors
    /// When a part cannot be read.
    fn parts(&self) -> Result<Vec<Part>> {
        Ok(Vec::new())
    }

    /// The function calls of the trace, when its events are calls.
    fn calls(&self) -> Option<&dyn CallSource> {
        None
    }

    /// Which events of the trace are calls, where these stand between other events.
    fn call_events(&self) -> &'static [CallEvents] {
        &[]
    }

    /// Which of its events tell where code lies.
    fn module_events(&self) -> &'static [ModuleEvents] {
        &[]
    }
}

/// A packet, opened for its events.
pub struct OpenedPacket {
    /// The packet.
    pub data: PacketData,
    /// What cannot be read of it, and was not told when the trace was opened.
    pub faults: Vec<Error>,
    /// What the user should know and what is no fault.
    pub warnings: Vec<Error>,
    /// Events that are missing inside it.
    pub gaps: Vec<Gap>,
    /// Is it whole and sound in its file, so that a writer of the same format can copy its bytes?
    pub can_be_copied: bool,
}

impl OpenedPacket {
    /// A packet without any fault.
    pub fn new(data: PacketData) -> Self {
        let can_be_copied = data.is_in_place();
        OpenedPacket { data, faults: Vec::new(), warnings: Vec::new(), gaps: Vec::new(), can_be_copied }
    }
}

/// The error of a fault that decoding an event met.
pub fn event_error(fault: &EventFault, data: &PacketData) -> Error {
    let error = match fault {
        EventFault::Field { fault, path, class } => {
            let error = Error::malformed(fault.kind.to_string()).in_field(path.clone());
            match class {
                None => error,
                Some(class) => {
                    let class = data.plans.schema().event(*class);
                    error.in_event(class.name.as_deref().unwrap_or("(no name)"))
                }
            }
        }
        EventFault::UnknownId { id, .. } => {
            Error::malformed(format!("no event class has the id {id} that the event header names"))
        }
        EventFault::Empty { .. } => Error::malformed("an event of length 0"),
    };
    let offset = data.packet.offset_bytes;
    if data.is_in_place() {
        return error.at_bit(offset * 8 + fault.at_bits());
    }
    let inside = fault.at_bits() / 8;
    error.at_offset(offset).with_help(format!("it is byte {inside} of the packet's content, which is stored packed"))
}

/// A table of what a trace holds beside its events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Section {
    /// What it is, in a word or two: `string tables`.
    pub title: String,
    /// Names of its columns.
    pub columns: Vec<&'static str>,
    /// Rows, each of as many values as there are columns; `None` is unknown.
    pub rows: Vec<Vec<Option<EnvValue>>>,
}

/// An option that a format adds to the commands that open traces.
pub struct Setting {
    /// Its name, without dashes: `ticks-per-us`.
    pub name: &'static str,
    /// What stands for its value in the help; `None` for a switch.
    pub value: Option<&'static str>,
    /// What it does, in a line.
    pub help: &'static str,
}

/// Options as they were typed: the value of each that was, empty for a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings(pub BTreeMap<&'static str, String>);

/// The setting that stands for `--strict`: what a specification calls an error then is a fault, even where it could be
/// read.
pub const STRICT: &str = "strict";

/// The setting of those who follow calls and read no events: opening need not find out where parts of files begin.
pub const CALLS_ONLY: &str = "calls-only";

impl Settings {
    /// Is what is only tolerated to be refused?
    pub fn is_strict(&self) -> bool {
        self.get(STRICT).is_some()
    }

    /// The value of an option, `None` when it was not typed.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The number that an option holds.
    ///
    /// # Errors
    /// Wrong usage when it is none.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().map_err(|_| Error::misuse(format!("`{text}` is no number for --{name}")))?;
        Ok(Some(number))
    }
}

/// Opens what was found of a format; see [`Format::open`].
pub type Open = fn(&dyn Storage, &[Found], &Settings) -> Vec<Result<OpenTrace>>;

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
    pub open: Open,
    /// Options that it adds.
    pub settings: &'static [Setting],
    /// What a trace of it looks like, for the message that nothing was found: `a CTF trace is a folder with a file
    /// `metadata``.
    pub looks_like: &'static str,
    /// May its traces hold function calls ([`PacketReader::calls`])?
    pub has_calls: bool,
    /// Are its files made of other traces, to be read when they are named, or when there is nothing else in a folder?
    pub is_transcript: bool,
}

/// The names of some formats, each once.
pub fn names_of<'a>(formats: impl IntoIterator<Item = &'a &'static Format>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for name in formats.into_iter().flat_map(|format| format.names) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names
}

/// The options that some formats add, each once.
pub fn settings_of(formats: &[&'static Format]) -> Vec<&'static Setting> {
    let mut settings: Vec<&'static Setting> = Vec::new();
    for setting in formats.iter().flat_map(|format| format.settings) {
        if !settings.iter().any(|known| known.name == setting.name) {
            settings.push(setting);
        }
    }
    settings
}
