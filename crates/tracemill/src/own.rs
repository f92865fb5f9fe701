//! Formats of a program's own.
//!
//! A [`Format`] is a static value with two functions: one recognises a file or folder, the other opens it. Added by
//! [`Options::format`](crate::Options::format), it is read by everything that reads traces.
//!
//! [`Decoded`] is the short way to open: the program decodes the whole file at once, and gives its events one by one.
//! They are held in memory. A format whose files are large answers with an [`OpenTrace`] of its own instead: where the
//! packets are, and a [`PacketReader`] that opens one of them when it is read.
//!
//! ```
//! use std::path::Path;
//! use tracemill::own::{Decoded, Format, FoundTrace, OpenContext, OpenTrace, Storage};
//! use tracemill::write::u64;
//! use tracemill::{Options, Result};
//!
//! static TICKS: Format = Format::new(&["ticks"], "numbers in lines, after the word TICKS", is_ticks, open);
//!
//! fn is_ticks(storage: &dyn Storage, path: &Path) -> bool {
//!     storage.read_start(path, 6).is_ok_and(|start| start == b"TICKS\n")
//! }
//!
//! fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
//!     found.iter().map(|found| read(context, found)).collect()
//! }
//!
//! fn read(context: &OpenContext<'_>, found: &FoundTrace) -> Result<OpenTrace> {
//!     let file = context.storage.open(&found.path)?;
//!     let mut trace = Decoded::new("ticks", found);
//!     let tick = trace.event_class("tick", [("number", u64())])?;
//!     for (at, line) in String::from_utf8_lossy(file.bytes()).lines().skip(1).enumerate() {
//!         trace.event(&tick, at as u64 * 1000, |e| e.u64(line.parse().unwrap_or(0)))?;
//!     }
//!     trace.finish()
//! }
//!
//! # let path = std::env::temp_dir().join(format!("tracemill-own-doc-{}", std::process::id()));
//! # std::fs::write(&path, "TICKS\n5\n7\n").expect("it can be written");
//! let traces = Options::new().format(&TICKS).open([&path])?;
//! let numbers: Result<Vec<_>> = traces.events().into_iter().map(|event| Ok(event?.get("number").unwrap().as_u64())).collect();
//! assert_eq!(numbers?, [Some(5), Some(7)]);
//! # std::fs::remove_file(&path).expect("it is there");
//! # Ok::<(), tracemill::Error>(())
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_codec::field_writer::FieldWriter;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_ctf::write::build::{
    Definitions, EventDefinition, EventLayout, Field, PacketWriter, StreamDefinition, StreamLayout,
};
use tracemill_format::{Entry, EntryKind};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::EnvValue;

use crate::write::Clock;

pub use tracemill_format::{
    DataFile, Format, FoundTrace, OpenContext, OpenTrace, OpenedPacket, PacketReader, Setting, Storage, Stream,
};

/// Size of the packets that events are put into.
const PACKET_BYTES: usize = 256 << 10;
/// The name of the only stream.
const STREAM: &str = "events";

/// A trace that is decoded as a whole when it is opened; see the [module](self). Its events are in one stream, in the
/// order of time, with a clock of nanoseconds since 1970.
pub struct Decoded<'f> {
    format: &'static str,
    found: &'f FoundTrace,
    definitions: Definitions,
    stream: Option<(StreamLayout, PacketWriter)>,
    bytes: Vec<u8>,
}

/// A class of the events of [`Decoded`].
#[derive(Clone, Debug)]
pub struct EventClass {
    name: String,
    layout: EventLayout,
}

impl<'f> Decoded<'f> {
    /// A trace without events, of what was found of the format of this name.
    pub fn new(format: &'static str, found: &'f FoundTrace) -> Self {
        Decoded { format, found, definitions: Definitions::ctf2(), stream: None, bytes: Vec::new() }
    }

    /// Sets a value that describes the trace: text, or an integer.
    ///
    /// # Errors
    /// When there is no name.
    pub fn set_environment(&mut self, name: &str, value: impl Into<EnvValue>) -> Result<()> {
        self.definitions.set_environment(name, value.into())
    }

    /// Adds an event class with fields as [`mod@write`](crate::write) makes them.
    ///
    /// # Errors
    /// When the name is taken, or a field makes no sense.
    pub fn event_class<N: Into<String>>(
        &mut self,
        name: &str,
        fields: impl IntoIterator<Item = (N, Field)>,
    ) -> Result<EventClass> {
        let payload = fields.into_iter().map(|(name, field)| (name.into(), field)).collect();
        let definition = EventDefinition { name: name.into(), payload, ..EventDefinition::default() };
        let class = self.stream()?.0.class;
        let layout = self.definitions.add_event_class(class, &definition)?;
        Ok(EventClass { name: name.into(), layout })
    }

    fn stream(&mut self) -> Result<&mut (StreamLayout, PacketWriter)> {
        let added = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let (name, clock) = (STREAM.to_string(), Clock::unix_ns().0);
                let definition = StreamDefinition { name, clock, packet_context: Vec::new(), context: Vec::new() };
                let layout = self.definitions.add_stream_class(&definition)?;
                let packets = PacketWriter::new(&layout, 0, PACKET_BYTES);
                (layout, packets)
            }
        };
        Ok(self.stream.insert(added))
    }

    /// Adds an event; the closure gives its values in the order of the fields.
    ///
    /// # Errors
    /// When the time is before that of the last event, or the values are not those of the class.
    pub fn event(
        &mut self,
        class: &EventClass,
        time_ns: u64,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        let (_, packets) = self.stream()?;
        packets.event(&class.layout, time_ns, fields).map_err(|error| error.in_event(&*class.name))?;
        let done = std::mem::take(packets.done());
        self.bytes.extend_from_slice(&done);
        Ok(())
    }

    /// Counts events that were lost after the last one.
    ///
    /// # Errors
    /// When the stream cannot be made.
    pub fn add_discarded(&mut self, count: u64) -> Result<()> {
        self.stream()?.1.add_discarded(count);
        Ok(())
    }

    /// The trace, opened.
    ///
    /// # Errors
    /// When events were discarded and none was there before them.
    pub fn finish(mut self) -> Result<OpenTrace> {
        let (_, packets) = self.stream()?;
        packets.end()?;
        let done = std::mem::take(packets.done());
        self.bytes.extend_from_slice(&done);
        let root = &self.found.path;
        let memory = Memory {
            root: root.clone(),
            files: vec![("metadata", Arc::new(self.definitions.metadata())), (STREAM, Arc::new(self.bytes))],
        };
        let opened = (tracemill_ctf::FORMAT.open)(&OpenContext::new(&memory), std::slice::from_ref(self.found));
        let nothing = || Err(Error::malformed("the trace has no metadata").in_file(root));
        let mut trace = opened.into_iter().next().unwrap_or_else(nothing)?;
        let mut schema = (*trace.schema).clone();
        (schema.format, schema.version) = (self.format, (0, 0));
        trace.schema = Arc::new(schema);
        trace.plans = Arc::new(TracePlans::new(trace.schema.clone()));
        Ok(trace)
    }
}

/// Files in memory, in one folder.
struct Memory {
    root: PathBuf,
    files: Vec<(&'static str, Arc<Vec<u8>>)>,
}

impl Memory {
    fn file(&self, path: &Path) -> Option<&Arc<Vec<u8>>> {
        let name = path.strip_prefix(&self.root).ok()?;
        self.files.iter().find(|(known, _)| Path::new(known) == name).map(|(_, bytes)| bytes)
    }
}

impl Storage for Memory {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let entry = |(name, bytes): &(&'static str, Arc<Vec<u8>>)| Entry {
            path: directory.join(name),
            name: name.to_string(),
            kind: EntryKind::File(bytes.len() as u64),
        };
        let mut entries: Vec<Entry> = self.files.iter().filter(|_| directory == self.root).map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        match self.file(path) {
            Some(bytes) => Some(EntryKind::File(bytes.len() as u64)),
            None => (path == self.root).then_some(EntryKind::Directory),
        }
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let missing = || Error::new(ErrorKind::Io, "there is no such file").in_file(file);
        Ok(self.file(file).ok_or_else(missing)?.clone())
    }
}
