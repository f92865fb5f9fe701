//! Whole files, built byte by byte: what is said about damage, and where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink, PacketData};
use tracemill_codec::plan::{DecoderState, Visitor};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::{ByteOrder, FieldKind};

use super::{CPEL, ELOG};
use tracemill_format::{Entry, EntryKind, FoundTrace, OpenContext, OpenTrace, Settings, Storage};

mod gist;
mod sections;
mod vpp;

/// Files in memory.
struct Files(BTreeMap<PathBuf, Arc<Vec<u8>>>);

impl Storage for Files {
    fn list(&self, _: &Path) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        self.0.get(path).map(|bytes| EntryKind::File(bytes.len() as u64))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Bytes>> {
        match self.0.get(path) {
            Some(bytes) => Ok(bytes.clone()),
            None => Err(Error::new(ErrorKind::Io, "no such file").in_file(path)),
        }
    }
}

const FILE: &str = "log";

/// A file being built.
#[derive(Clone)]
struct Builder {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Builder {
    /// The header of a CPEL file.
    fn cpel(order: ByteOrder, sections: u16) -> Self {
        let mut builder = Builder { order, bytes: vec![if order == ByteOrder::Little { 0x81 } else { 1 }, 0] };
        builder.u16(sections);
        builder.u32(1_000_000_000);
        builder
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes.extend_from_slice(&match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    fn text(&mut self, text: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(text);
        self
    }

    /// The header of a section and its data.
    fn section(&mut self, kind: u32, data: &[u8]) -> &mut Self {
        self.u32(kind).u32(data.len() as u32).text(data)
    }

    /// A section with records, whose words are given one after the other.
    fn records(&mut self, kind: u32, table: &str, head: &[u32], words: &[u32]) -> &mut Self {
        let mut data = Builder { order: self.order, bytes: vec![0; 64] };
        data.bytes[..table.len()].copy_from_slice(table.as_bytes());
        head.iter().chain(words).for_each(|&word| {
            data.u32(word);
        });
        self.section(kind, &data.bytes)
    }

    /// An event section of 1 GHz: time, track, code, datum of each event.
    fn events(&mut self, table: &str, events: &[(u64, u32, u32, u32)]) -> &mut Self {
        let words: Vec<u32> = events
            .iter()
            .flat_map(|&(time, track, code, datum)| [(time >> 32) as u32, time as u32, track, code, datum])
            .collect();
        self.records(5, table, &[events.len() as u32, 1_000_000_000], &words)
    }
}

/// A small log: the strings `T` at 0, `call` at 2, `%s` at 7, `cpu%d` at 10, `%d` at 16.
const STRINGS: &[u8] = b"T\0call\0%s\0cpu%d\0%d\0\0";

fn small(order: ByteOrder) -> Builder {
    let mut builder = Builder::cpel(order, 4);
    builder.section(1, STRINGS);
    builder.records(3, "T", &[2], &[1, 2, 7, 2, 2, 16]);
    builder.records(4, "T", &[1], &[0, 10]);
    builder.events("T", &[(10, 0, 1, 2), (20, 0, 2, 7), (30, 5, 3, 1)]);
    builder
}

/// Opens one file with options as they are typed.
fn open(bytes: Vec<u8>, settings: &[(&'static str, &str)]) -> Result<OpenTrace> {
    open_with(bytes, &[], settings)
}

fn open_with(bytes: Vec<u8>, others: &[(&str, &str)], settings: &[(&'static str, &str)]) -> Result<OpenTrace> {
    let mut files = Files(BTreeMap::from([(PathBuf::from(FILE), Arc::new(bytes))]));
    for (name, text) in others {
        files.0.insert(PathBuf::from(name), Arc::new(text.as_bytes().to_vec()));
    }
    let typed = |wanted: &str| settings.iter().find(|(name, _)| *name == wanted).map(|&(_, value)| value);
    let (strict, named_format) = (typed("strict").is_some(), typed("input-format"));
    let settings = Settings(settings.iter().map(|&(name, value)| (name, value.to_string())).collect());
    let is_elog = (ELOG.probe)(&files, Path::new(FILE));
    let format = if is_elog { &ELOG } else { &CPEL };
    let found = FoundTrace { path: FILE.into(), name: FILE.into(), below: String::new() };
    let mut context = OpenContext::new(&files);
    (context.strict, context.named_format, context.settings) = (strict, named_format, &settings);
    (format.open)(&context, &[found]).remove(0)
}

fn is_cpel(bytes: &[u8]) -> bool {
    let files = Files(BTreeMap::from([(PathBuf::from(FILE), Arc::new(bytes.to_vec()))]));
    (CPEL.probe)(&files, Path::new(FILE))
}

fn is_elog(bytes: &[u8]) -> bool {
    let files = Files(BTreeMap::from([(PathBuf::from(FILE), Arc::new(bytes.to_vec()))]));
    (ELOG.probe)(&files, Path::new(FILE))
}

/// Shows fields as `track=1 track_name="a"`.
#[derive(Default)]
struct Fields<'a> {
    names: Vec<&'a str>,
    text: String,
}

impl Fields<'_> {
    fn add(&mut self, node: u32, value: &str) {
        self.text += &format!(" {}={value}", self.names[node as usize]);
    }
}

impl Visitor for Fields<'_> {
    fn unsigned(&mut self, node: u32, value: u64) {
        self.add(node, &value.to_string());
    }
    fn real(&mut self, node: u32, value: f64) {
        self.add(node, &value.to_string());
    }
    fn string(&mut self, node: u32, bytes: &[u8]) {
        self.add(node, &format!("{:?}", String::from_utf8_lossy(bytes)));
    }
    fn blob(&mut self, node: u32, bytes: &[u8]) {
        self.add(node, &bytes.escape_ascii().to_string());
    }
    fn absent(&mut self, node: u32) {
        self.add(node, "null");
    }
}

/// The events of all packets of a trace, and the errors of reading them.
#[derive(Default)]
struct Content {
    /// `10 call: code=1 ..`, stream after stream.
    events: Vec<String>,
    faults: Vec<Error>,
    warnings: Vec<Error>,
}

fn read(trace: &OpenTrace) -> Content {
    let mut content = Content::default();
    for stream in &trace.streams {
        for index in 0..stream.packets.len() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).unwrap();
            content.faults.extend(opened.faults);
            content.warnings.extend(opened.warnings);
            read_packet(opened.data, &mut content.events);
        }
    }
    content
}

fn read_packet(data: PacketData, events: &mut Vec<String>) {
    let (data, mut state) = (Arc::new(data), DecoderState::default());
    let mut chunk = Chunk::new(data.clone(), 0, 64);
    data.scan(&mut data.first_event(), &mut state, &mut ChunkSink::new(&mut chunk, usize::MAX));
    for at in 0..chunk.len() {
        let event = chunk.event(at);
        let plan = data.plans.event_flat_rows(event.class());
        let names = plan.nodes.iter().map(|node| &*node.name).collect();
        let mut fields = Fields { names, text: String::new() };
        event.visit_flat(&mut state, &mut fields).unwrap();
        let of = data.plans.schema().event(event.class());
        let mut name = of.name.as_deref().unwrap_or("").as_bytes().to_vec();
        event.own_id(&mut name);
        events.push(format!("{} {}:{}", event.cycles(), String::from_utf8_lossy(&name), fields.text));
    }
}

/// `offset: message` of each.
fn reported(errors: &[Error]) -> Vec<String> {
    let one = |error: &Error| format!("{}: {}", error.place().offset.unwrap_or(u64::MAX), error.message());
    errors.iter().map(one).collect()
}
