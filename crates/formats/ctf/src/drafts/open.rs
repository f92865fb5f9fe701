//! From folders to opened traces.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::{ByteOrder, Schema, StreamClassId};

use super::header::Identity;
use super::keys::Keys;
use super::metadata::{self, Dialect, Loaded};
use super::reader::DraftReader;
use super::transform::Undo;
use super::{files, schema};
use tracemill_format::{DataFile, Entry, EntryKind, FoundTrace, OpenContext, OpenTrace, Storage, Stream};

/// Name of the file that describes the others.
const METADATA: &str = "metadata";
/// Bytes that are enough to recognise most metadata, and those after which the trace block is not searched.
const PROBE_BYTES: usize = 1 << 14;
const MAX_PROBE_BYTES: usize = 1 << 26;
/// Bytes that the content of a packet may have once expanded, unless the user says otherwise (`SPEC.md`, D31).
const MAX_EXPANDED: u64 = 1 << 30;

/// Does the folder hold metadata of the drafts?
pub(super) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    let metadata = path.join(METADATA);
    let Some(EntryKind::File(len)) = storage.kind(&metadata) else { return false };
    let probe = |bytes: usize| {
        let start = storage.read_start(&metadata, bytes).unwrap_or_default();
        let is_whole = start.len() as u64 >= len;
        (metadata::probe(&start, is_whole), is_whole)
    };
    match probe(PROBE_BYTES) {
        (found, true) | (found @ true, false) => found,
        // The trace block may stand after everything else.
        (false, false) => {
            let start = storage.read_start(&metadata, PROBE_BYTES).unwrap_or_default();
            metadata::may_begin(&start) && probe(MAX_PROBE_BYTES).0
        }
    }
}

/// Opens each folder by itself.
pub(super) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    found.iter().map(|found| open_folder(context, found)).collect()
}

fn undo(context: &OpenContext<'_>) -> Result<Undo> {
    Ok(Undo {
        keys: Keys::open(context)?,
        verifies: context.settings.get(super::NO_VERIFY).is_none(),
        max_expanded: context.settings.number(super::MAX_EXPANDED)?.unwrap_or(MAX_EXPANDED),
        has_xz: false,
    })
}

fn open_folder(context: &OpenContext<'_>, found: &FoundTrace) -> Result<OpenTrace> {
    let storage = context.storage;
    let path = found.path.join(METADATA);
    let frequency = context.settings.number(super::FREQUENCY)?.unwrap_or(1_000_000_000);
    if frequency == 0 {
        return Err(Error::misuse(format!("--{} must be above 0", super::FREQUENCY)));
    }
    let mut undo = undo(context)?;
    let bytes = storage.open(&path)?;
    let place = |error: Error| match error.kind() {
        ErrorKind::Misuse => error,
        _ => super::placed(error).in_file(&path),
    };
    let mut loaded = metadata::load(bytes.bytes(), &undo).map_err(place)?;
    if context.strict
        && let Some(fallback) = loaded.metadata.fallbacks.first()
    {
        return Err(place(fallback.clone().with_help("declare it; without --strict it has its usual meaning")));
    }
    undo.has_xz = loaded.dialect == Dialect::V16;
    let entries: Vec<Entry> = storage.list(&found.path)?.into_iter().filter(is_stream_file).collect();
    let order = byte_order(storage, &loaded, &entries);
    let mut schema = schema::build(&loaded.metadata, loaded.dialect, loaded.minor, order, frequency);
    super::super::open::check_size(&schema, bytes.bytes().len() as u64).map_err(place)?;
    super::byte_orders::check(&loaded, order).map_err(place)?;
    if loaded.dialect == Dialect::V16 {
        schema.uuid = schema.uuid.or(loaded.uuid);
    }
    let mut trace = DraftTraceBuilder {
        storage,
        metadata: bytes,
        text: std::mem::take(&mut loaded.text),
        identity: Identity {
            dialect: loaded.dialect,
            order,
            session_id: loaded.metadata.session_id.or(loaded.session_id),
            uuid: schema.uuid,
            class: None,
        },
        plans: Arc::new(TracePlans::new(Arc::new(schema))),
        streams: Vec::new(),
        faults: loaded.faults.drain(..).map(|fault| fault.in_file(&path)).collect(),
        warnings: (loaded.metadata.warnings.drain(..).chain(loaded.metadata.fallbacks.drain(..)))
            .map(|warning| warning.in_file(&path))
            .collect(),
    };
    for entry in &entries {
        if let Err(error) = trace.add(entry) {
            trace.faults.push(error.in_file(&entry.path));
        }
    }
    Ok(trace.finish(found, undo))
}

fn is_stream_file(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::File(_)) && entry.name != METADATA && !entry.name.starts_with('.')
}

/// The byte order of the trace: that of the packets of its metadata, else of the first file that begins with a packet.
fn byte_order(storage: &dyn Storage, loaded: &Loaded, entries: &[Entry]) -> ByteOrder {
    // A file that cannot be read is reported later.
    let of_file = |entry: &Entry| metadata::magic_order(&storage.read_start(&entry.path, 4).ok()?);
    // The order does not matter when no file holds a packet.
    loaded.order.or_else(|| entries.iter().find_map(of_file)).unwrap_or(ByteOrder::Little)
}

struct DraftTraceBuilder<'a> {
    storage: &'a dyn Storage,
    metadata: Arc<dyn Bytes>,
    text: String,
    identity: Identity,
    plans: Arc<TracePlans>,
    streams: Vec<Stream>,
    faults: Vec<Error>,
    warnings: Vec<Error>,
}

impl DraftTraceBuilder<'_> {
    fn add(&mut self, entry: &Entry) -> Result<()> {
        let mut identity = self.identity.clone();
        if identity.dialect == Dialect::V11 {
            identity.class = Some(section_of(self.plans.schema(), &entry.name)?);
        }
        let bytes = self.storage.open(&entry.path)?;
        let scanned = files::scan(&self.plans, &mut identity, &entry.path, bytes.bytes());
        self.faults.extend(scanned.faults);
        self.warnings.extend(scanned.warnings);
        // The first packet that is read says what all must have.
        self.identity.session_id = identity.session_id;
        self.identity.uuid = identity.uuid;
        let class = identity.class.or_else(|| (self.plans.schema().streams().len() == 1).then_some(StreamClassId(0)));
        let Some(class) = class else { return Ok(()) };
        self.streams.push(Stream {
            name: entry.name.clone(),
            class,
            id: None,
            files: vec![DataFile { path: entry.path.clone(), relative: entry.name.clone(), bytes, is_indexed: false }],
            packets: scanned.packets.into(),
        });
        Ok(())
    }

    fn finish(self, found: &FoundTrace, undo: Undo) -> OpenTrace {
        OpenTrace {
            name: found.name.clone(),
            path: found.path.clone(),
            own_name: found.below.clone(),
            schema: self.plans.schema().clone(),
            plans: self.plans,
            has_other_bytes: false,
            reader: Arc::new(DraftReader { identity: self.identity, undo, metadata: self.metadata, text: self.text }),
            streams: self.streams,
            sections: Vec::new(),
            remarks: Vec::new(),
            faults: self.faults,
            warnings: self.warnings,
        }
    }
}

/// The section to which a file belongs by its name (`SPEC.md`, D7).
fn section_of(schema: &Schema, name: &str) -> Result<StreamClassId> {
    let sections = schema.streams();
    if sections.len() == 1 {
        return Ok(StreamClassId(0));
    }
    let of = |section: &str| {
        let rest = name.strip_prefix(section)?;
        (rest.is_empty() || rest.starts_with(['_', '-', '.'])).then_some(section.len())
    };
    let matches = sections.iter().enumerate().filter_map(|(at, section)| Some((of(section.name.as_deref()?)?, at)));
    let Some((_, at)) = matches.max() else {
        let message = "the name of the file is that of no section, nor begins with one";
        let names: Vec<&str> = sections.iter().filter_map(|section| section.name.as_deref()).collect();
        let help = match names.is_empty() {
            true => "the metadata declares no section; the file is skipped".to_string(),
            false => format!("the sections are {}; the file is skipped", names.join(", ")),
        };
        return Err(Error::malformed(message).with_help(help));
    };
    Ok(StreamClassId(at as u32))
}
