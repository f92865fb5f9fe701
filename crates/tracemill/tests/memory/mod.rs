//! Traces in memory, and folders that are removed.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]

use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::plan::{DecoderState, PlanInput};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_engine::session::Session;
use tracemill_format::{DataFile, OpenTrace, OpenedPacket, PacketReader, Stream};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{Schema, StreamClassId};

/// The only stream class.
pub(crate) const STREAM: StreamClassId = StreamClassId(0);

/// Opens the only packet of a trace in memory.
struct InMemory;

impl PacketReader for InMemory {
    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, clock: u64) -> Result<OpenedPacket> {
        let (packet, bytes) = (stream.packets.at(index), stream.files[0].bytes.clone());
        let (mut state, mut pos) = (DecoderState::new(clock), 0);
        let input = PlanInput::new(bytes.bytes(), packet.content_bits);
        let fault = |_| Error::malformed("the header");
        plans.read_packet_header(input, &mut pos, &mut state).map_err(fault)?;
        let context_bits = pos;
        plans.read_packet_context(STREAM, input, &mut pos, &mut state).map_err(fault)?;
        Ok(OpenedPacket::new(PacketData {
            plans: plans.clone(),
            bytes: bytes.clone(),
            base_bytes: 0,
            file: bytes,
            packet,
            cpu: None,
            spine: None,
            context_bits,
            events_bits: pos,
            state,
            copied: None,
        }))
    }
}

/// A session of one trace of one packet.
pub(crate) fn in_memory(schema: Schema, bytes: Vec<u8>, content_bits: u64) -> Session {
    let schema = Arc::new(schema);
    let packet = Packet { content_bits, ..Packet::new(STREAM, 0, bytes.len() as u64 * 8) };
    let bytes: Arc<dyn Bytes> = Arc::new(bytes);
    let file = DataFile { path: "random".into(), relative: "random".into(), bytes, is_indexed: false };
    let stream =
        Stream { name: "random".into(), class: STREAM, id: None, files: vec![file], packets: vec![packet].into() };
    let trace = OpenTrace {
        name: "random".into(),
        path: "random".into(),
        own_name: String::new(),
        plans: Arc::new(TracePlans::new(schema.clone())),
        schema,
        has_other_bytes: false,
        reader: Arc::new(InMemory),
        streams: vec![stream],
        sections: Vec::new(),
        remarks: Vec::new(),
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    Session { traces: vec![trace], corrections: vec![0], ..Session::default() }
}

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
