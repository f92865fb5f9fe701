//! Opening packets for their events.
//!
//! A packet can be opened in three ways. Where plans can decode the file as it is, the reader points at its bytes. Where
//! bytes are packed (compressed, encrypted), it unpacks them into bytes of its own. Where plans cannot find the events,
//! or the fields are nothing that a plan reads, the reader finds them itself ([`Spine`]) and may rewrite their fields,
//! in a layout for which it makes the schema.
//!
//! [`Spine`]: tracemill_codec::spine::Spine

use std::sync::Arc;

use tracemill_codec::chunk::PacketData;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{EventClassId, TracePart};

use crate::calls::{CallEvents, CallSource, ModuleEvents};
use crate::code::{CodeMaps, SampleRegisters};
use crate::open::{OpenTrace, Stream, TraceFiles};
use crate::storage::Storage;

/// Opens packets for their events. Shared by all threads.
pub trait PacketReader: Send + Sync {
    /// Opens the packet `index` of a stream. `clock` is the clock of the stream before it.
    ///
    /// # Errors
    /// When none of its events can be read. File and packet are added by the caller.
    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, clock: u64) -> Result<OpenedPacket>;

    /// Do the times of a packet bound those of its events? Where they are only what a header says and events may
    /// contradict it, every packet is read for a range of time.
    fn has_proven_times(&self) -> bool {
        true
    }

    /// Do packets state when they began and ended, apart from the times of their events? Then a CPU that is quiet can be told
    /// from one that was not recorded.
    fn has_stated_times(&self) -> bool {
        false
    }

    /// The number of CPUs that the recorder found, where it states one.
    fn cpu_count(&self) -> Option<u64> {
        None
    }

    /// Is a packet read in the same way whatever was read before it, and at the same cost? Then several threads may read
    /// packets of one stream.
    fn reads_packets_alone(&self) -> bool {
        false
    }

    /// Parts of the trace beside events and packets, byte by byte and in its order, which a writer of the same format
    /// needs to make it again. May read files.
    ///
    /// # Errors
    /// When a part cannot be read.
    fn parts(&self) -> Result<Vec<TracePart>> {
        Ok(Vec::new())
    }

    /// All files of the trace, so that it can be copied as it is; `None` when it is not made of whole files, or of those of
    /// several folders.
    fn files(&self, _trace: &OpenTrace, _storage: &dyn Storage) -> Option<TraceFiles> {
        None
    }

    /// The function calls of the trace, when its events are calls.
    fn calls(&self) -> Option<&dyn CallSource> {
        None
    }

    /// Which events of the trace are calls, where these stand between other events.
    fn call_events(&self) -> &'static [CallEvents] {
        &[]
    }

    /// The code that processes had mapped, where the trace knows it by other means than events of [`PacketReader::module_events`].
    fn code_maps(&self) -> Option<&dyn CodeMaps> {
        None
    }

    /// Where the registers by which a stack is followed are in the samples of a class.
    fn sample_registers(&self, _class: EventClassId) -> Option<SampleRegisters> {
        None
    }

    /// Which of its events give the place of code.
    fn module_events(&self) -> &'static [ModuleEvents] {
        &[]
    }
}

/// A packet, opened for its events.
pub struct OpenedPacket {
    /// The packet.
    pub data: PacketData,
    /// Parts that cannot be read, and were not reported when the trace was opened.
    pub faults: Vec<Error>,
    /// Warnings that are no errors.
    pub warnings: Vec<Error>,
    /// Events that are missing inside it.
    pub gaps: Vec<Gap>,
    /// Is it whole and sound in its file, so that a writer of the same format can copy its bytes?
    pub can_be_copied: bool,
}

impl OpenedPacket {
    /// A packet without any error.
    pub fn new(data: PacketData) -> Self {
        let can_be_copied = data.is_in_place();
        OpenedPacket { data, faults: Vec::new(), warnings: Vec::new(), gaps: Vec::new(), can_be_copied }
    }
}
