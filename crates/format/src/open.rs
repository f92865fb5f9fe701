//! Needs and results of opening a trace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::Error;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{ClockClass, EnvValue, Schema, StreamClassId};

use crate::reader::PacketReader;
use crate::setting::Settings;
use crate::storage::{EntryKind, Storage};

/// Everything that opening traces needs: where files come from, and the user's wishes.
///
/// Not exhaustive: it is made with [`OpenContext::new`], and its fields are set.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct OpenContext<'a> {
    /// Where files come from.
    pub storage: &'a dyn Storage,
    /// Is what a specification calls an error an error also where it could be read?
    pub strict: bool,
    /// Are calls followed and no events read? Opening need not find out where parts of files begin then.
    pub calls_only: bool,
    /// The format that the user names, `None` when it is detected.
    pub named_format: Option<&'a str>,
    /// Form of the names of functions.
    pub demangle: Demangle,
    /// Threads that opening may use.
    pub jobs: usize,
    /// Options that the format defines itself ([`Format::settings`](crate::Format::settings)), as they were typed.
    pub settings: &'a Settings,
}

impl<'a> OpenContext<'a> {
    /// Opening from a storage, with no wishes.
    pub fn new(storage: &'a dyn Storage) -> Self {
        static NONE: Settings = Settings::new();
        OpenContext {
            storage,
            strict: false,
            calls_only: false,
            named_format: None,
            demangle: Demangle::default(),
            jobs: 1,
            settings: &NONE,
        }
    }
}

/// The form of a function's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Demangle {
    /// The qualified name alone.
    #[default]
    Simple,
    /// With parameters and template arguments.
    Full,
    /// As it is stored.
    No,
}

/// A folder (or file) that a format has recognised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundTrace {
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
    pub packets: PacketList,
}

/// The files that a trace is, for a copy of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceFiles {
    /// Folders below it that belong to it even when they are empty.
    pub folders: Vec<&'static str>,
    /// Its files, in the order in which a copy makes them: the file that makes a folder a trace comes last.
    pub files: Vec<TraceFile>,
}

/// A file of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceFile {
    /// Its path.
    pub path: PathBuf,
    /// Its path below the folder of the trace; empty when the trace is this file.
    pub relative: PathBuf,
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
    /// Do its files hold more than packets, so that bytes after the last packet are nothing to tell?
    pub has_other_bytes: bool,
    /// Opens its packets.
    pub reader: Arc<dyn PacketReader>,
    /// Streams, in the order of their names.
    pub streams: Vec<Stream>,
    /// Tables of strings, definitions and unknown sections beside the events, for `info`.
    pub sections: Vec<Section>,
    /// Violations of its specification that do not hinder reading: only `check` reports them.
    pub remarks: Vec<Error>,
    /// Parts that cannot be read: exit status 3.
    pub faults: Vec<Error>,
    /// Warnings that are no errors: an index that is ignored, a quirk that was mended.
    pub warnings: Vec<Error>,
}

impl TraceFiles {
    /// The files of a trace that is one file.
    pub fn single(trace: &OpenTrace) -> TraceFiles {
        let file = TraceFile { path: trace.path.clone(), relative: PathBuf::new() };
        TraceFiles { folders: Vec::new(), files: vec![file] }
    }

    /// Adds a file of a trace that is a folder.
    pub fn add(&mut self, path: PathBuf, relative: impl Into<PathBuf>) {
        self.files.push(TraceFile { path, relative: relative.into() });
    }

    /// Adds the regular files of a folder of the trace but those in folders below it. `relative` is the folder's path
    /// below the trace. A folder that cannot be listed has none.
    pub fn add_folder(&mut self, storage: &dyn Storage, trace: &OpenTrace, relative: &str) {
        let folder = if relative.is_empty() { trace.path.clone() } else { trace.path.join(relative) };
        for entry in storage.list(&folder).unwrap_or_default() {
            if let (EntryKind::File(_), Some(name)) = (entry.kind, entry.path.file_name()) {
                let relative = Path::new(relative).join(name);
                self.add(entry.path, relative);
            }
        }
    }
}

impl DataFile {
    /// The file that is all of a trace.
    pub fn single(found: &FoundTrace, bytes: Arc<dyn Bytes>) -> Self {
        let relative = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        DataFile { path: found.path.clone(), relative, bytes, is_indexed: false }
    }
}

impl OpenTrace {
    /// The clocks of the times of its streams, stream by stream.
    pub fn default_clocks(&self) -> impl Iterator<Item = &ClockClass> {
        let clock = |stream: &Stream| self.schema.stream(stream.class).default_clock;
        self.streams.iter().filter_map(clock).map(|clock| self.schema.clock(clock))
    }

    /// A trace that is one file, without streams so far.
    pub fn from_file(found: &FoundTrace, schema: Schema, reader: Arc<dyn PacketReader>) -> Self {
        let schema = Arc::new(schema);
        OpenTrace {
            name: found.name.clone(),
            path: found.path.clone(),
            own_name: String::new(),
            plans: Arc::new(TracePlans::new(schema.clone())),
            schema,
            has_other_bytes: true,
            reader,
            streams: Vec::new(),
            sections: Vec::new(),
            remarks: Vec::new(),
            faults: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// A trace that is a folder, without streams so far.
    pub fn from_folder(found: &FoundTrace, schema: Schema, reader: Arc<dyn PacketReader>) -> Self {
        let own_name = found.below.clone();
        OpenTrace { own_name, has_other_bytes: false, ..OpenTrace::from_file(found, schema, reader) }
    }

    /// The files of its streams.
    pub fn data_files(&self) -> impl Iterator<Item = &DataFile> {
        self.streams.iter().flat_map(|stream| &stream.files)
    }
}

/// A table of what a trace holds beside its events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Section {
    /// Its subject in a word or two: `string tables`.
    pub title: String,
    /// Names of its columns.
    pub columns: Vec<&'static str>,
    /// Rows, each of as many values as there are columns; `None` is unknown.
    pub rows: Vec<Vec<Option<EnvValue>>>,
}

/// A column of a table: its name, and its value for an item.
pub type SectionColumn<'a, T> = (&'static str, &'a dyn Fn(&T) -> Option<EnvValue>);

impl Section {
    /// A table with a row for each item.
    pub fn from_items<T>(title: &str, items: impl IntoIterator<Item = T>, columns: &[SectionColumn<'_, T>]) -> Section {
        let row = |item| columns.iter().map(|(_, value)| value(&item)).collect();
        let rows = items.into_iter().map(row).collect();
        Section { title: title.into(), columns: columns.iter().map(|(name, _)| *name).collect(), rows }
    }

    /// A text as a value.
    pub fn text(text: &str) -> Option<EnvValue> {
        Some(EnvValue::String(text.into()))
    }

    /// A number as a value.
    pub fn number(value: impl Into<i128>) -> Option<EnvValue> {
        Some(EnvValue::Integer(value.into()))
    }
}
