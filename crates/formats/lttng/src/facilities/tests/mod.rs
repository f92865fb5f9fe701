//! Traces built in memory, and what comes out of them as text.

mod bad;
mod decisions;
mod language;
mod layouts;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink};
use tracemill_codec::plan::{DecoderState, NodeId, Plan, Visitor};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{FieldKind, Schema, Scope};

use super::FORMAT;
use tracemill_format::{Entry, EntryKind, FoundTrace, OpenContext, OpenTrace, Settings, Storage};

/// Files in memory.
#[derive(Clone, Default)]
pub(crate) struct Folder(pub(super) BTreeMap<String, Vec<u8>>);

const ROOT: &str = "/t";

impl Folder {
    fn path(name: &str) -> PathBuf {
        Path::new(ROOT).join(name)
    }

    fn get(&self, path: &Path) -> Option<&Vec<u8>> {
        self.0.get(path.strip_prefix(ROOT).ok()?.to_str()?)
    }
}

impl Storage for Folder {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let mut entries: BTreeMap<String, EntryKind> = BTreeMap::new();
        for (name, bytes) in &self.0 {
            let path = Folder::path(name);
            let Ok(rest) = path.strip_prefix(directory) else { continue };
            let mut parts = rest.iter().map(|part| part.to_string_lossy().into_owned());
            let (Some(first), next) = (parts.next(), parts.next()) else { continue };
            let kind = if next.is_some() { EntryKind::Directory } else { EntryKind::File(bytes.len() as u64) };
            entries.insert(first, kind);
        }
        let entry = |(name, kind): (String, EntryKind)| Entry { path: directory.join(&name), name, kind };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        if let Some(bytes) = self.get(path) {
            return Some(EntryKind::File(bytes.len() as u64));
        }
        let is_folder = self.0.keys().any(|name| Folder::path(name).starts_with(path));
        is_folder.then_some(EntryKind::Directory)
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        Ok(Arc::new(self.get(file).ok_or_else(|| Error::malformed("no such file"))?.clone()))
    }
}

/// The machine that was traced.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) is_big: bool,
    pub(super) arch: u32,
    pub(super) arch_size: u8,
    pub(super) alignment: u8,
    pub(super) minor: u8,
    pub(super) has_heartbeat: bool,
    pub(super) float_word_order: u32,
    pub(super) freq: u64,
    pub(super) scale: u32,
    pub(super) start: (u64, u64, u64),
    pub(super) tsc: (u8, u8),
}

/// A 32-bit machine of 1 MHz that began at 1000.25 s with a clock of 0x2_0000_0000.
pub(super) fn i386() -> Machine {
    Machine {
        is_big: false,
        arch: 1,
        arch_size: 4,
        alignment: 0,
        minor: 7,
        has_heartbeat: true,
        float_word_order: 1234,
        freq: 1000,
        scale: 1000,
        start: (0x2_0000_0000, 1000, 250_000),
        tsc: (0, 0),
    }
}

/// An event: time, facility, event, data. `size` overrides the length of the data.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) tsc: u64,
    pub(super) ids: (u8, u8),
    pub(super) data: Vec<u8>,
    pub(super) size: Option<u16>,
}

pub(super) fn event(tsc: u64, ids: (u8, u8), data: &[u8]) -> Event {
    Event { tsc, ids, data: data.to_vec(), size: None }
}

impl Machine {
    pub(super) fn u16(&self, value: u16) -> [u8; 2] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub(super) fn u32(&self, value: u32) -> [u8; 4] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub(super) fn u64(&self, value: u64) -> [u8; 8] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn pad(&self, bytes: &mut Vec<u8>) {
        let align = usize::from(self.alignment.min(self.arch_size).max(1));
        bytes.resize(bytes.len().next_multiple_of(align), 0);
    }

    /// A block from `begin` to `end`, with `lost` unused bytes.
    pub(super) fn block(&self, begin: u64, end: u64, events: &[Event], lost: usize) -> Vec<u8> {
        let mut bytes = self.header(begin, end);
        for event in events {
            self.pad(&mut bytes);
            if self.has_heartbeat {
                bytes.extend(self.u32(event.tsc as u32));
            } else {
                bytes.extend(self.u64(event.tsc));
            }
            bytes.extend([event.ids.0, event.ids.1]);
            bytes.extend(self.u16(event.size.unwrap_or(event.data.len() as u16)));
            self.pad(&mut bytes);
            bytes.extend(&event.data);
        }
        self.finish(bytes, lost)
    }

    pub(super) fn finish(&self, mut bytes: Vec<u8>, lost: usize) -> Vec<u8> {
        bytes.resize(bytes.len() + lost, 0xee);
        bytes[32..36].copy_from_slice(&self.u32(lost as u32));
        let len = bytes.len() as u32;
        bytes[36..40].copy_from_slice(&self.u32(len));
        bytes
    }

    pub(super) fn header(&self, begin: u64, end: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in [begin, self.freq, end, self.freq, 0] {
            bytes.extend(self.u64(value));
        }
        for value in [0x00D6_B7ED, self.arch, 0, self.float_word_order] {
            bytes.extend(self.u32(value));
        }
        bytes.extend([self.arch_size, 0, self.minor, 0, u8::from(self.has_heartbeat), self.alignment]);
        if self.minor == 8 {
            bytes.extend([self.tsc.0, self.tsc.1]);
        }
        bytes.extend(self.u32(self.scale));
        let (tsc, sec, usec) = self.start;
        for value in [self.freq, tsc, 0, sec, usec] {
            bytes.extend(self.u64(value));
        }
        bytes
    }

    /// The payload of a facility load.
    pub(super) fn load(&self, name: &str, checksum: u32, id: u32, sizes: [u32; 4], alignment: u32) -> Vec<u8> {
        let mut data = name.as_bytes().to_vec();
        data.push(0);
        self.pad(&mut data);
        let [int, long, pointer, size] = sizes;
        for value in [checksum, id, int, long, pointer, size, alignment] {
            data.extend(self.u32(value));
        }
        data
    }

    /// A trace of one facility, `t`, with the id 7; `events` are those of `cpu_0`.
    pub(super) fn trace(&self, fields: &str, events: &[Event]) -> Folder {
        let long = u32::from(self.arch_size);
        self.trace_of(fields, [4, long, long, long], self.alignment.into(), events)
    }

    pub(super) fn trace_of(&self, xml: &str, sizes: [u32; 4], alignment: u32, events: &[Event]) -> Folder {
        let xml = format!("<facility name=\"t\">{xml}</facility>");
        let file = super::definitions::DefinitionFile::parse(xml.as_bytes(), Path::new("t.xml"));
        let checksum = file.facilities.first().map_or(0, |facility| facility.checksum);
        let load = event(self.start.0, (0, 0), &self.load("t", checksum, 7, sizes, alignment));
        let mut folder = Folder::default();
        folder.add("eventdefs/t.xml", xml.into_bytes());
        folder.add("control/facilities_0", self.block(self.start.0, self.start.0 + 9, &[load], 5));
        folder.add("cpu_0", self.block(self.start.0, self.start.0 + 1000, events, 3));
        folder
    }
}

impl Folder {
    pub(super) fn add(&mut self, name: &str, bytes: Vec<u8>) {
        self.0.insert(name.to_string(), bytes);
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let bytes = self.0.remove(from).expect("it is there");
        self.add(to, bytes);
    }

    pub(super) fn read(&self) -> Read {
        self.read_with(&Settings::default())
    }

    pub(super) fn read_with(&self, settings: &Settings) -> Read {
        self.try_read(settings).expect("the trace opens")
    }

    pub(super) fn try_read(&self, settings: &Settings) -> Result<Read> {
        assert!((FORMAT.probe)(self, Path::new(ROOT)), "not recognised");
        let found = FoundTrace { path: ROOT.into(), name: "t".into(), below: String::new() };
        let mut context = OpenContext::new(self);
        context.settings = settings;
        let trace = (FORMAT.open)(&context, &[found]).pop().expect("an answer")?;
        Ok(Read::from_trace(trace))
    }
}

/// A trace of 0.7 with texts, numbers, labels and lists, in two files.
pub(crate) fn example() -> Folder {
    let machine = i386();
    let xml = "<event name=\"open\"><field name=\"name\"><string/></field><field name=\"fd\"><int_fixed size=\"4\"/></field>\
         <field name=\"how\"><enum><label name=\"READ\"/><label name=\"WRITE\"/></enum></field></event>\
         <event name=\"list\"><field name=\"all\"><sequence><uint_fixed size=\"1\"/><uint_fixed size=\"2\"/></sequence></field></event>\
         <event name=\"none\"/>";
    let begin = machine.start.0;
    let events = [
        event(begin + 10, (7, 0), b"/etc\0\x03\0\0\0\x01\0\0\0"),
        event(begin + 20, (7, 1), &[2, 1, 0, 0xff, 0xff]),
        event(begin + 20, (7, 2), &[]),
    ];
    let mut folder = machine.trace(xml, &events);
    folder.add("cpu_1", machine.block(begin + 5, begin + 15, &events[..1], 0));
    folder
}

/// Everything that a trace gives.
pub(super) struct Read {
    pub(super) trace: OpenTrace,
    /// `file cycles ns name payload`.
    pub(super) lines: Vec<String>,
    pub(super) faults: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Read {
    fn from_trace(trace: OpenTrace) -> Self {
        let (mut lines, mut faults, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        faults.extend(trace.faults.iter().map(Error::to_string));
        warnings.extend(trace.warnings.iter().map(Error::to_string));
        let clock = trace.schema.clocks()[0].clone();
        let map = (clock.frequency > 0).then(|| ClockMap::new(&clock, 0));
        for stream in &trace.streams {
            for index in 0..stream.packets.len() {
                let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).expect("a packet");
                let place =
                    |error: Error| error.in_file(&stream.files[0].path).in_packet(stream.packets.at(index).index);
                faults.extend(opened.faults.into_iter().map(|error| place(error).to_string()));
                warnings.extend(opened.warnings.into_iter().map(|error| place(error).to_string()));
                let data = Arc::new(opened.data);
                let mut chunk = Chunk::new(data.clone(), 0, 16);
                let mut sink = ChunkSink::new(&mut chunk, usize::MAX);
                data.scan(&mut data.first_event(), &mut DecoderState::default(), &mut sink);
                for at in 0..chunk.len() {
                    let event = chunk.event(at);
                    let class = trace.schema.event(event.class());
                    let mut name = class.name.as_deref().unwrap_or_default().as_bytes().to_vec();
                    event.own_id(&mut name);
                    let ns = map.map_or("null".into(), |map| map.ns(event.cycles()).to_string());
                    let name = String::from_utf8(name).expect("a name");
                    let mut line = format!("{} {} {ns} {name}", stream.name, event.cycles());
                    let plan = trace.plans.event_rows(event.class());
                    let mut printer = Printer { schema: &trace.schema, plan, out: &mut line };
                    let mut state = DecoderState::default();
                    let mut fields = event.fields(&mut state);
                    for scope in [Scope::CommonContext, Scope::SpecificContext, Scope::Payload] {
                        fields.visit(scope, &mut state, &mut printer).expect("fields that were checked");
                    }
                    lines.push(line);
                }
            }
        }
        Read { trace, lines, faults, warnings }
    }

    /// The lines of a file without file, cycles and time.
    pub(super) fn payloads(&self, file: &str) -> Vec<&str> {
        let own = self.lines.iter().filter_map(|line| line.strip_prefix(file)?.strip_prefix(' '));
        own.map(|line| line.splitn(3, ' ').nth(2).unwrap_or_default()).collect()
    }

    /// Cycles and ns of the events of a file.
    pub(super) fn times(&self, file: &str) -> Vec<(u64, i64)> {
        let own = self.lines.iter().filter_map(|line| line.strip_prefix(file)?.strip_prefix(' '));
        own.map(|line| {
            let mut words = line.split(' ').map(|word| word.parse::<i128>().unwrap_or(-1));
            (words.next().unwrap_or(0) as u64, words.next().unwrap_or(0) as i64)
        })
        .collect()
    }

    /// Reading reports no faults, and these are the payloads of `cpu_0`.
    pub(super) fn is(&self, expected: &[&str]) {
        assert_eq!(self.payloads("cpu_0"), expected, "{:?} {:?}", self.faults, self.warnings);
        assert_eq!(self.faults, [""; 0]);
        assert_eq!(self.warnings, [""; 0]);
    }
}

struct Printer<'a> {
    schema: &'a Schema,
    plan: &'a Plan,
    out: &'a mut String,
}

impl Printer<'_> {
    fn put(&mut self, node: NodeId, value: impl std::fmt::Display) {
        let name = &self.plan.nodes[node as usize].name;
        let separator = if name.is_empty() { "" } else { "=" };
        let _ = write!(self.out, " {name}{separator}{value}");
    }

    fn labels(&self, node: NodeId, value: i128) -> String {
        match &self.schema.field_class(self.plan.nodes[node as usize].class).kind {
            FieldKind::Integer(class) if class.mappings.is_some() => {
                let labels: Vec<&str> = class.labels(value).map(|label| &**label).collect();
                format!("{value}<{}>", labels.join(","))
            }
            _ => value.to_string(),
        }
    }
}

impl Visitor for Printer<'_> {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.put(node, value);
    }
    fn signed(&mut self, node: NodeId, value: i64) {
        let text = self.labels(node, value.into());
        self.put(node, text);
    }
    fn real(&mut self, node: NodeId, value: f64) {
        self.put(node, value);
    }
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        self.put(node, format_args!("{:?}", String::from_utf8_lossy(bytes)));
    }
    fn begin_struct(&mut self, node: NodeId) {
        self.put(node, "{");
    }
    fn end_struct(&mut self, _: NodeId) {
        self.out.push_str(" }");
    }
    fn begin_array(&mut self, node: NodeId, _: u64) {
        self.put(node, "[");
    }
    fn end_array(&mut self, _: NodeId) {
        self.out.push_str(" ]");
    }
    fn absent(&mut self, node: NodeId) {
        self.put(node, "null");
    }
}
