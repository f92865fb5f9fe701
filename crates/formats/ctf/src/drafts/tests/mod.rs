//! Whole traces from memory: what is read of them, and what is said.
//!
//! The rules of the layout have cases in `conformance/cases/drafts`. Here is what those cannot make: compressed and
//! encrypted packets, options, files that grow; and the damaged traces of a corpus, rebuilt.

mod build;
mod damaged;
mod metadata;
mod packed;
mod traces;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink};
use tracemill_codec::plan::{DecoderState, NodeId, Plan, Visitor};
use tracemill_codec::spine::ScanEnd;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::Scope;

use tracemill_format::{Entry, EntryKind, FoundTrace, OpenContext, OpenTrace, Settings, Storage};

/// A folder `/t` in memory.
#[derive(Default, Clone)]
pub(super) struct Folder(BTreeMap<String, Vec<u8>>);

impl Folder {
    /// A trace of metadata and one stream file.
    pub(super) fn new(metadata: impl AsRef<[u8]>, name: &str, stream: &[u8]) -> Self {
        Folder::default().with("metadata", metadata.as_ref()).with(name, stream)
    }

    pub(super) fn with(mut self, name: &str, bytes: &[u8]) -> Self {
        self.0.insert(name.to_string(), bytes.to_vec());
        self
    }

    fn open_in(&self, context: &OpenContext<'_>) -> Result<OpenTrace> {
        let found = FoundTrace { path: PathBuf::from("/t"), name: "t".into(), below: String::new() };
        (super::FORMAT.open)(context, &[found]).pop().expect("one trace for one folder")
    }

    /// Opens the trace with `--strict`.
    pub(super) fn open_strictly(&self) -> Result<OpenTrace> {
        let mut context = OpenContext::new(self);
        context.strict = true;
        self.open_in(&context)
    }

    /// Opens the trace with options.
    pub(super) fn open(&self, settings: &[(&'static str, &str)]) -> Result<OpenTrace> {
        let settings = Settings(settings.iter().map(|&(name, value)| (name, value.to_string())).collect());
        let mut context = OpenContext::new(self);
        context.settings = &settings;
        self.open_in(&context)
    }

    /// Reads everything.
    pub(super) fn read_with(&self, settings: &[(&'static str, &str)]) -> Read {
        read(&self.open(settings).expect("the trace opens"))
    }

    pub(super) fn read(&self) -> Read {
        self.read_with(&[])
    }

    /// The error with which the trace is refused.
    pub(super) fn refused(&self) -> Error {
        match self.open(&[]) {
            Ok(_) => panic!("the trace is not refused"),
            Err(error) => error,
        }
    }
}

impl Storage for Folder {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let entry = |(name, bytes): (&String, &Vec<u8>)| Entry {
            path: directory.join(name),
            name: name.clone(),
            kind: EntryKind::File(bytes.len() as u64),
        };
        Ok(self.0.iter().filter(|(name, _)| !name.ends_with("key")).map(entry).collect())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        let name = path.strip_prefix("/t").ok()?.to_string_lossy().into_owned();
        if name.is_empty() {
            return Some(EntryKind::Directory);
        }
        self.0.get(&name).map(|bytes| EntryKind::File(bytes.len() as u64))
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        Ok(Arc::new(self.read_start(file, usize::MAX)?))
    }

    fn read_start(&self, file: &Path, len: usize) -> Result<Vec<u8>> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = self.0.get(&name).ok_or_else(|| Error::new(ErrorKind::Io, "there is no such file"))?;
        Ok(bytes[..len.min(bytes.len())].to_vec())
    }
}

/// Results of reading a trace, in its order.
#[derive(Default, Debug)]
pub(super) struct Read {
    /// `cycles name {fields}`, stream after stream.
    pub(super) events: Vec<String>,
    pub(super) faults: Vec<String>,
    pub(super) warnings: Vec<String>,
}

fn read(trace: &OpenTrace) -> Read {
    let mut read = Read::default();
    read.faults.extend(trace.faults.iter().map(Error::to_string));
    read.warnings.extend(trace.warnings.iter().map(Error::to_string));
    for stream in &trace.streams {
        let mut clock = 0;
        for index in 0..stream.packets.len() {
            let place = |error: Error| error.in_packet(stream.packets.at(index).index).to_string();
            let opened = match trace.reader.open_packet(&trace.plans, stream, index, clock) {
                Ok(opened) => opened,
                Err(error) => {
                    read.faults.push(place(error));
                    continue;
                }
            };
            read.faults.extend(opened.faults.into_iter().map(place));
            read.warnings.extend(opened.warnings.into_iter().map(place));
            let data = Arc::new(opened.data);
            let (mut pos, mut state) = (data.first_event(), data.state.clone());
            let mut chunk = Chunk::new(data.clone(), pos, 64);
            let end = data.scan(&mut pos, &mut state, &mut ChunkSink::new(&mut chunk, 100_000));
            if let ScanEnd::Fault(fault) = end {
                read.faults.push(place(data.error(&fault)));
            }
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let class = trace.schema.event(event.class());
                let mut text = format!("{} {} ", event.cycles(), class.name.as_deref().unwrap_or("?"));
                let mut state = DecoderState::default();
                let mut fields = event.fields(&mut state);
                let plan = trace.plans.event_rows(event.class());
                for scope in [Scope::CommonContext, Scope::SpecificContext, Scope::Payload] {
                    let mut show = Show { plan, text: &mut text };
                    fields.visit(scope, &mut state, &mut show).expect("the scan has read it");
                }
                read.events.push(text);
            }
            clock = state.clock;
        }
    }
    read
}

/// Writes fields as `{x=1,s="a",l=[1,2],}`.
struct Show<'a> {
    plan: &'a Plan,
    text: &'a mut String,
}

impl Show<'_> {
    fn put(&mut self, node: NodeId, value: &str) {
        let node = &self.plan.nodes[node as usize];
        if !node.name.is_empty() {
            *self.text += &node.name;
            self.text.push('=');
        }
        *self.text += value;
        self.text.push(',');
    }

    fn open(&mut self, node: NodeId, bracket: char) {
        let node = &self.plan.nodes[node as usize];
        if !node.name.is_empty() {
            *self.text += &node.name;
            self.text.push('=');
        }
        self.text.push(bracket);
    }
}

impl Visitor for Show<'_> {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.put(node, &value.to_string());
    }
    fn signed(&mut self, node: NodeId, value: i64) {
        self.put(node, &value.to_string());
    }
    fn real(&mut self, node: NodeId, value: f64) {
        self.put(node, &value.to_string());
    }
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        self.put(node, &format!("{:?}", String::from_utf8_lossy(bytes)));
    }
    fn begin_struct(&mut self, node: NodeId) {
        self.open(node, '{');
    }
    fn end_struct(&mut self, _: NodeId) {
        self.text.push('}');
    }
    fn begin_array(&mut self, node: NodeId, _: u64) {
        self.open(node, '[');
    }
    fn end_array(&mut self, _: NodeId) {
        *self.text += "],";
    }
    fn begin_optional(&mut self, node: NodeId) {
        *self.text += &self.plan.nodes[node as usize].name;
        self.text.push('=');
    }
    fn absent(&mut self, node: NodeId) {
        self.put(node, "null");
    }
}
