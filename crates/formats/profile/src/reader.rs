//! Packets: parts of the records of a thread, as events in bytes.

use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::calls::CallEvents;
use tracemill_format::{OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;

use crate::classes::ProfileClasses;
use crate::profile::Profile;

/// Opens the packets of a profile.
pub(crate) struct ProfileReader {
    pub(crate) file: Arc<dyn Bytes>,
    pub(crate) profile: Profile,
    pub(crate) classes: ProfileClasses,
}

impl PacketReader for ProfileReader {
    fn reads_packets_alone(&self) -> bool {
        true
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, _clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let thread = stream.id.and_then(|id| usize::try_from(id).ok());
        let encoded = thread.and_then(|thread| self.classes.encode(&self.profile, thread, packet.index as usize));
        let (bytes, spine) = encoded.ok_or_else(|| Error::malformed("the profile has no such packet"))?;
        let packet = Packet { content_bits: bytes.len() as u64 * 8, ..packet.clone() };
        Ok(OpenedPacket::new(PacketData::found(plans, &self.file, packet, (Arc::new(bytes), 0), spine)))
    }

    fn files(&self, trace: &OpenTrace, _storage: &dyn Storage) -> Option<TraceFiles> {
        Some(TraceFiles::single(trace))
    }

    fn call_events(&self) -> &'static [CallEvents] {
        super::CALLS
    }
}
