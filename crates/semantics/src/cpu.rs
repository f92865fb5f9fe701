//! The CPU of an event: that of its packet.
//!
//! It is the one that the format knows (a file or a page of a CPU), otherwise `cpu_id` of the packet context. A `cpu_id`
//! elsewhere is a field as any other: in a payload it names the CPU that the event speaks of.

use std::sync::Arc;

use tracemill_codec::chunk::PacketData;
use tracemill_codec::plan::{NodeId, Visitor};
use tracemill_model::schema::{FieldPath, Schema, Scope, StreamClassId};

use crate::fields::{find, is_integer, node_of};
use crate::names;

/// The field of the packets of a stream class that says their CPU.
pub fn cpu_field(schema: &Schema, stream: StreamClassId) -> Option<FieldPath> {
    find(schema, Scope::PacketContext, schema.stream(stream).packet_context, names::CPU, is_integer)
}

/// The CPU of a packet, and of all its events. Reads the context of the packet: keep the answer, or have [`CpuOf`] do so.
pub fn cpu(packet: &PacketData) -> Option<u64> {
    if let Some(cpu) = packet.cpu {
        return Some(cpu.into());
    }
    let class = packet.packet.class;
    let path = cpu_field(packet.plans.schema(), class)?;
    let mut number = CpuNumber { node: node_of(packet.plans.packet_context_rows(class), &path)?, value: None };
    // A context that cannot be read was reported when the packet was opened.
    let _ = packet.visit_context(&mut number);
    number.value
}

struct CpuNumber {
    node: NodeId,
    value: Option<u64>,
}

impl Visitor for CpuNumber {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        if self.node == node {
            self.value = Some(value);
        }
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        if self.node == node {
            self.value = u64::try_from(value).ok();
        }
    }
}

/// The CPUs of the packets that some streams are in.
#[derive(Default)]
pub struct CpuOf {
    streams: Vec<Option<(Arc<PacketData>, Option<u64>)>>,
}

impl CpuOf {
    /// The CPU of a packet of a stream, and of all its events. Fast while the packet is the one of the call before for this
    /// stream.
    #[inline]
    pub fn cpu(&mut self, stream: usize, packet: &Arc<PacketData>) -> Option<u64> {
        match (packet.cpu, self.streams.get(stream)) {
            (Some(cpu), _) => Some(cpu.into()),
            (None, Some(Some((known, cpu)))) if PacketData::is_same(known, packet) => *cpu,
            _ => self.enter(stream, packet),
        }
    }

    #[cold]
    fn enter(&mut self, stream: usize, packet: &Arc<PacketData>) -> Option<u64> {
        let (len, cpu) = (self.streams.len().max(stream + 1), cpu(packet));
        self.streams.resize(len, None);
        self.streams[stream] = Some((packet.clone(), cpu));
        cpu
    }
}
