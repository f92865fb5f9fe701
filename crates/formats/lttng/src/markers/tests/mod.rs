//! Traces written byte by byte, and what must be read of them.

mod builder;
mod damage;
mod rules;

use tracemill_codec::chunk::{Chunk, ChunkSink};
use tracemill_codec::plan::{DecoderState, NodeId, Visitor};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};

use super::FORMAT;
use builder::{Folder, ROOT};
use tracemill_format::{FoundTrace, OpenContext, OpenTrace};

/// Everything that was read of a trace.
#[derive(Debug, Default)]
struct Read {
    /// `NAME@CYCLES(VALUES)`, stream by stream in the order of their names; files with `CPU:` in front when not 0.
    events: Vec<String>,
    faults: Vec<Error>,
    warnings: Vec<Error>,
}

impl Read {
    /// One fault, whose sentence has these words, at this byte of this file.
    fn assert_one_fault(&self, file: &str, offset: u64, words: &str) {
        assert_eq!(self.faults.len(), 1, "{:#?}", self.faults);
        is_told(&self.faults[0], file, offset, words);
    }
}

fn is_told(error: &Error, file: &str, offset: u64, words: &str) {
    assert!(error.to_string().contains(words), "{error}");
    let place = error.place();
    let path = place.file.as_ref().map(|path| path.to_string_lossy().into_owned());
    assert_eq!(path.as_deref(), Some(format!("{ROOT}/{file}").as_str()), "{error}");
    assert_eq!(place.offset, Some(offset), "{error}");
}

#[derive(Default)]
struct Values(Vec<String>);

impl Visitor for Values {
    fn unsigned(&mut self, _: NodeId, value: u64) {
        self.0.push(value.to_string());
    }

    fn signed(&mut self, _: NodeId, value: i64) {
        self.0.push(value.to_string());
    }

    fn string(&mut self, _: NodeId, bytes: &[u8]) {
        self.0.push(format!("{:?}", String::from_utf8_lossy(bytes)));
    }
}

fn try_open(folder: &Folder) -> Result<OpenTrace> {
    let found = FoundTrace { path: ROOT.into(), name: ROOT.into(), below: String::new() };
    (FORMAT.open)(&OpenContext::new(folder), &[found]).remove(0)
}

fn open(folder: &Folder) -> OpenTrace {
    assert!((FORMAT.probe)(folder, ROOT.as_ref()), "the folder is not recognised");
    try_open(folder).expect("the trace can be opened")
}

fn read(folder: &Folder) -> Read {
    read_trace(&open(folder))
}

fn read_trace(trace: &OpenTrace) -> Read {
    let mut read = Read { faults: trace.faults.clone(), warnings: trace.warnings.clone(), ..Read::default() };
    for stream in &trace.streams {
        for index in 0..stream.packets.len() {
            let place = |error: Error| error.in_file(&stream.files[0].path).in_packet(index as u64);
            let opened = match trace.reader.open_packet(&trace.plans, stream, index, 0) {
                Ok(opened) => opened,
                Err(error) => {
                    read.faults.push(place(error));
                    continue;
                }
            };
            read.faults.extend(opened.faults.into_iter().map(place));
            read.warnings.extend(opened.warnings.into_iter().map(place));
            let packet = std::sync::Arc::new(opened.data);
            let mut chunk = Chunk::new(packet.clone(), 0, 16);
            let mut state = packet.state.clone();
            let mut at = packet.first_event();
            packet.scan(&mut at, &mut state, &mut ChunkSink::new(&mut chunk, usize::MAX));
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let mut values = Values::default();
                event.visit_flat(&mut DecoderState::default(), &mut values).expect("the fields can be decoded");
                let mut name = Vec::new();
                if event.own_id(&mut name).is_none() {
                    name = trace.schema.event(event.class()).name.as_deref().unwrap_or("").into();
                }
                let name = String::from_utf8_lossy(&name).into_owned();
                let cpu = packet.cpu.filter(|&cpu| cpu > 0).map_or(String::new(), |cpu| format!("{cpu}:"));
                read.events.push(format!("{cpu}{name}@{}({})", event.cycles(), values.0.join(", ")));
            }
        }
    }
    read
}

/// The events of channels that are not the metadata.
fn data_events(read: &Read) -> Vec<&str> {
    let is_data = |event: &&str| !event.contains("metadata.");
    read.events.iter().map(String::as_str).filter(is_data).collect()
}

/// Time of a clock value.
fn ns(trace: &OpenTrace, cycles: u64) -> i128 {
    ClockMap::new(&trace.schema.clocks()[0], 0).ns(cycles)
}
