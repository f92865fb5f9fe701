//! Writing the drafts: a trace of their own as it was, any other one in types made for it.
//!
//! The encoder of CTF 1.8 and 2 (`tracemill_codec::encode`) is of no use here. The metadata of a draft place fields at any
//! bit, with the units of bit-fields and the paddings of types; lengths stand inside of what has them; and the header of an
//! event says which fields are missing before the first of them comes. So events become trees of values, and those are
//! encoded by their types (`bits`), whichever trace they are of.
//!
//! A trace that is a draft, or was one before it became CTF 2, keeps its metadata: events are encoded by the types that
//! those declare. For any other trace types are made of its schema (`foreign`), and metadata of the types (`text`).
//! Packets are built in memory (`stream`), then compressed, encrypted and summed (`transform`).

mod bits;
mod context;
mod foreign;
mod seal;
mod stream;
mod text;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, EventClassId, Schema, StreamClass, TracePart};

use self::context::PacketContextValues;
use self::foreign::{ClassTarget as EventTarget, Foreign};
use self::seal::Seal;
use self::stream::StreamWriter;
use super::header::Identity;
use super::keys::Keys;
use super::metadata::Dialect;
use super::packet_fields::ContextMeaning;
use super::transform::Undo;
use super::types::{DraftEvent, DraftType, Metadata, SectionClass};
use super::{v11, v16};
use crate::write::{comment, names_of, write_metadata};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Created, Needs, Source, Target, TraceWriter, WriteOptions};
use tracemill_format::writer::writer_of_each;
use tracemill_format::{OutPath, Setting};

/// Options of both targets.
static SETTINGS: &[Setting] = &[
    Setting::with_value(seal::COMPRESSION, "none|bzip2|gzip|xz", "Compress packets of the CTF drafts (xz: v1.6 only)"),
    Setting::with_value(seal::CHECKSUM, "none|md5|sha1|crc32", "Write a checksum into packets of the CTF drafts"),
    Setting::with_value(
        seal::KEY,
        "FILE",
        "Encrypt packets of the CTF drafts with the key in a file, as --key-file reads it",
    ),
    Setting::with_value(
        seal::PASSPHRASE,
        "FILE",
        "Encrypt packets of the CTF drafts with a key derived from the passphrase in a file",
    ),
];

/// Losses of v1.1: those of its own, then those of both.
const CANNOT_HOLD: &[Lost] = &[
    Lost::TraceUuid,
    Lost::PacketContexts,
    Lost::CpuNumbers,
    Lost::ClockFrequencies,
    Lost::ClockOrigins,
    Lost::Environment,
    Lost::TraceNames,
    Lost::Optionals,
    Lost::Variants,
    Lost::Blobs,
    Lost::BitArrays,
    Lost::Booleans,
    Lost::WideNumbers,
    Lost::EventHeaders,
    Lost::UntimedClasses,
];

/// RFC v1.6.
pub static CTF16: Target =
    Target::folder(&["ctf1.6"], "the draft RFC v1.6 of the Common Trace Format (2011)", |path, sources, options| {
        create(Dialect::V16, path, sources, options)
    })
    .cannot_hold(CANNOT_HOLD.split_at(3).1)
    .with_settings(SETTINGS);

/// RFC v1.1.
pub static CTF11: Target =
    Target::folder(&["ctf1.1"], "the draft RFC v1.1 of the Common Trace Format (2010)", |path, sources, options| {
        create(Dialect::V11, path, sources, options)
    })
    .cannot_hold(CANNOT_HOLD)
    .with_settings(SETTINGS);

/// Names of the parts of a trace that a writer needs to make it again.
const METADATA: &str = "metadata";
const TEXT: &str = "metadata text";
const IDENTITY: &str = "identity";

/// Parts of a trace beside its packets: the file of metadata, its text when that stands in packets, and what all packets
/// have in common.
pub(super) fn parts(raw: &[u8], text: &str, identity: &Identity) -> Vec<TracePart> {
    let part = |name: &str, bytes: &[u8]| TracePart { name: name.to_string(), bytes: bytes.into() };
    let mut parts = vec![part(METADATA, raw)];
    if raw != text.as_bytes() {
        parts.push(part(TEXT, text.as_bytes()));
    }
    let mut lines = format!("byte order {}\n", if identity.order == ByteOrder::Big { "be" } else { "le" });
    if let Some(id) = identity.session_id {
        lines += &format!("session id {id}\n");
    }
    if let Some(uuid) = identity.uuid {
        lines += &format!("uuid {:032x}\n", u128::from_be_bytes(uuid));
    }
    parts.push(part(IDENTITY, lines.as_bytes()));
    parts
}

fn create(dialect: Dialect, path: &OutPath, sources: &[Source], options: &WriteOptions) -> Created {
    let folders = names_of(&sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>());
    writer_of_each(sources, |at, source| {
        let folder = if sources.len() == 1 { path.clone() } else { path.join(&folders[at]) };
        Ok(Box::new(DraftWriter::new(dialect, folder, source, options)?))
    })
}

/// Writes a trace.
struct DraftWriter {
    trace: TraceOut,
    streams: Vec<StreamWriter>,
    losses: Losses,
    /// Do packets stay as they are?
    takes_packets: bool,
}

/// A trace that is written.
struct TraceOut {
    folder: OutPath,
    dialect: Dialect,
    order: ByteOrder,
    session_id: u32,
    uuid: [u8; 16],
    metadata: Metadata,
    schema: Arc<Schema>,
    /// Are packets of the input packets of the output?
    has_same_packets: bool,
    /// Is what is read not the draft itself, but CTF 2 made of it?
    is_converted: bool,
    /// Where the events of each class go.
    targets: Vec<Option<EventTarget>>,
    /// Index of the group of each stream class.
    groups: Vec<Option<usize>>,
    kind: TraceKind,
    seal: Seal,
    /// Clocks of stream classes, for traces of other formats.
    clocks: Vec<Option<ClockMap>>,
}

/// Where its types come from.
enum TraceKind {
    /// Its own metadata, which are written as they are.
    Own(Vec<u8>),
    /// They are made of a schema.
    Foreign {
        foreign: Box<Foreign>,
        /// Events of classes that stand for many ids.
        own_ids: HashMap<(EventClassId, u32, Vec<u8>), usize>,
        comment: String,
    },
}

impl DraftWriter {
    fn new(dialect: Dialect, folder: OutPath, source: &Source, options: &WriteOptions) -> Result<DraftWriter> {
        let seal = Seal::new(options, folder.sink(), dialect)?;
        let is_own = source.origin.format == dialect.format() && source.origin.part(METADATA).is_some();
        let trace = match is_own {
            true => TraceOut::own(dialect, folder, source, options, seal),
            false => TraceOut::foreign(dialect, folder, source, options, seal),
        };
        let trace = trace.map_err(|error| error.in_file(Path::new(&source.name)))?;
        let losses = match &trace.kind {
            TraceKind::Own(_) => Losses::default(),
            TraceKind::Foreign { foreign, .. } => foreign.losses.clone(),
        };
        let streams = source.streams.iter().zip(trace.file_names(source)).map(|(stream, name)| {
            let group = trace.groups.get(stream.class.0 as usize).copied().flatten().unwrap_or(0);
            StreamWriter::new(trace.folder.join(name), stream.class, group, options.packet_bytes)
        });
        let has_form = options.packet_bytes.is_some() || !options.settings.0.is_empty();
        Ok(DraftWriter {
            streams: streams.collect(),
            losses,
            takes_packets: trace.has_same_packets && !has_form,
            trace,
        })
    }
}

/// The clock of each stream class, to make nanoseconds of its times.
fn clocks(source: &Source) -> Vec<Option<ClockMap>> {
    let clock = |stream: &StreamClass| {
        let clock = source.schema.clocks().get(stream.default_clock?.0 as usize)?;
        Some(source.clock_map(clock))
    };
    source.schema.streams().iter().map(clock).collect()
}

impl TraceOut {
    /// A trace that is a draft, or was one.
    fn own(dialect: Dialect, folder: OutPath, source: &Source, options: &WriteOptions, seal: Seal) -> Result<Self> {
        let raw = source.origin.part(METADATA).unwrap_or(&[]);
        let text = source.origin.part(TEXT).unwrap_or(raw);
        let text = String::from_utf8_lossy(text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text));
        let metadata = match dialect {
            Dialect::V11 => v11::read(&text)?,
            Dialect::V16 => v16::read(&text)?,
        };
        let identity = String::from_utf8_lossy(source.origin.part(IDENTITY).unwrap_or(&[])).into_owned();
        let find = |what: &str| identity.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
        let was = ByteOrder::big_if(find("byte order") == Some("be"));
        let order = options.byte_order.unwrap_or(was);
        let session_id = metadata.session_id.or(find("session id").and_then(|id| id.parse().ok()));
        let uuid = find("uuid").and_then(|uuid| u128::from_str_radix(uuid, 16).ok()).map(u128::to_be_bytes);
        // Packets of metadata have the byte order of the trace.
        // Without their key they would be of no use.
        let undo = Undo { keys: Keys::default(), verifies: false, max_expanded: 1 << 30, has_xz: false };
        let is_kept = order == was && super::metadata::load(raw, &undo).is_ok();
        let bytes = if is_kept { raw.to_vec() } else { text.as_bytes().to_vec() };
        let schema = source.schema.clone();
        let of_id = |id: u64| metadata.groups.iter().position(|(group, _)| group.id == id);
        // Without a beginning the times of a packet depend on the one before it, which may not be there.
        let has_begin = metadata.groups.iter().all(|(group, _)| {
            PacketContextValues::new(dialect, group.packet_context.as_deref(), None).has(ContextMeaning::Begin)
        });
        let is_moved = source.moved_ns() != 0 || source.drift.is_some();
        let is_same_order = order == was && !is_moved;
        let groups: Vec<Option<usize>> = schema.streams().iter().map(|stream| of_id(stream.id)).collect();
        let targets = schema.events().iter().map(|event| {
            let group = groups.get(event.stream.0 as usize).copied().flatten()?;
            let at = metadata.groups.get(group)?.1.iter().position(|known| known.id == event.id)?;
            Some(EventTarget { group, event: Some(at) })
        });
        Ok(TraceOut {
            folder,
            dialect,
            order,
            session_id: session_id.unwrap_or(0),
            uuid: metadata.uuid.or(uuid).or(schema.uuid).unwrap_or([0; 16]),
            targets: targets.collect(),
            groups,
            kind: TraceKind::Own(bytes),
            has_same_packets: has_begin && is_same_order && schema.format == dialect.format(),
            is_converted: schema.format != dialect.format(),
            metadata,
            schema,
            seal,
            // Times that nothing moved stay as they are stored.
            clocks: if is_moved { clocks(source) } else { Vec::new() },
        })
    }

    /// A trace of another format.
    fn foreign(dialect: Dialect, folder: OutPath, source: &Source, options: &WriteOptions, seal: Seal) -> Result<Self> {
        let (foreign, mut metadata, targets) = Foreign::new(source, dialect)?;
        let schema = source.schema.clone();
        let digest = <md5::Md5 as md5::Digest>::digest(source.name.as_bytes());
        let uuid = schema.uuid.unwrap_or(digest.into());
        let [a, b, c, d, ..] = uuid;
        let session_id = u32::from_le_bytes([a, b, c, d]);
        metadata.uuid = Some(uuid);
        metadata.session_id = Some(session_id);
        Ok(TraceOut {
            folder,
            dialect,
            order: options.byte_order.unwrap_or(schema.byte_order),
            session_id,
            uuid,
            metadata,
            targets: targets.into_iter().map(Some).collect(),
            groups: (0..schema.streams().len()).map(Some).collect(),
            clocks: clocks(source),
            kind: TraceKind::Foreign { foreign: Box::new(foreign), own_ids: HashMap::new(), comment: comment(&schema) },
            has_same_packets: false,
            is_converted: false,
            schema,
            seal,
        })
    }

    /// Names of the files of streams.
    fn file_names(&self, source: &Source) -> Vec<String> {
        if let TraceKind::Own(_) = self.kind {
            let names: Vec<String> = source.streams.iter().map(|stream| stream.origin_name.clone()).collect();
            let is_plain = |name: &String| {
                !name.is_empty() && name != METADATA && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
            };
            let all: HashSet<&String> = names.iter().collect();
            if all.len() == names.len() && names.iter().all(is_plain) {
                return names;
            }
        }
        match self.dialect {
            Dialect::V16 => names_of(&source.streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>()),
            // The name shows the section.
            Dialect::V11 => {
                let section = |stream: &tracemill_format::target::SourceStream| {
                    let group = self.groups.get(stream.class.0 as usize).copied().flatten()?;
                    self.metadata.groups.get(group)?.0.name.as_deref()
                };
                let width = source.streams.len().to_string().len();
                let name = |(at, stream)| format!("{}.{at:0width$}", section(stream).unwrap_or("stream"));
                source.streams.iter().enumerate().map(name).collect()
            }
        }
    }

    fn group(&self, at: usize) -> Result<&(SectionClass, Vec<DraftEvent>)> {
        self.metadata.groups.get(at).ok_or_else(|| Error::malformed("the metadata declare no such stream"))
    }

    /// The group, id and payload of an event.
    fn event(&mut self, event: &EventRef<'_>) -> Result<(usize, u64, DraftType)> {
        let class = event.class();
        let undeclared = || Error::malformed("the metadata of the trace do not declare one of its events");
        let target = self.targets.get(class.0 as usize).copied().flatten().ok_or_else(undeclared)?;
        let events = &mut self.metadata.groups.get_mut(target.group).ok_or_else(undeclared)?.1;
        let at = match (target.event, &mut self.kind) {
            (Some(at), _) => at,
            (None, TraceKind::Own(_)) => return Err(undeclared()),
            (None, TraceKind::Foreign { foreign, own_ids, .. }) => {
                let mut name = Vec::new();
                let id = event.own_id(&mut name).unwrap_or_default();
                let payload = foreign.payload_type(class).ok_or_else(undeclared)?.clone();
                *own_ids.entry((class, id, name)).or_insert_with_key(|(_, id, name)| {
                    let mut id = u64::from(*id);
                    while events.iter().any(|known| known.id == id) {
                        id = (id + 1) & u64::from(u32::MAX);
                    }
                    events.push(DraftEvent { name: String::from_utf8_lossy(name).into_owned(), id, payload });
                    events.len() - 1
                })
            }
        };
        let event = events.get(at).ok_or_else(undeclared)?;
        Ok((target.group, event.id, event.payload.clone()))
    }
}

impl TraceWriter for DraftWriter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.streams[stream].event(&mut self.trace, event)
    }

    fn needs(&self) -> Needs {
        Needs { whole_packets: self.takes_packets, ..Needs::default() }
    }

    fn packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        self.streams[stream].packet(&self.trace, packet)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        self.streams[stream].gap(&self.trace, gap)
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        self.streams[stream].end(&self.trace)
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for stream in 0..self.streams.len() {
            self.end_stream(stream)?;
            self.losses.extend(&self.streams[stream].losses);
        }
        let trace = &self.trace;
        let bytes = match &trace.kind {
            TraceKind::Own(bytes) => bytes.clone(),
            TraceKind::Foreign { comment, .. } => text::write(&trace.metadata, trace.dialect, comment).into_bytes(),
        };
        write_metadata(&trace.folder, &bytes)?;
        self.streams.iter().try_for_each(|stream| stream.check())?;
        Ok(self.losses)
    }
}
