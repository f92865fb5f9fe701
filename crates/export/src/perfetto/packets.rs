//! Packets, as they are written to the file.

use std::io::Write;

use tracemill_format::{OutPath, SinkFile};
use tracemill_model::error::Result;

use super::proto::Proto;
use crate::WRITING;

/// The only sequence of packets, so that strings stand once for all.
const SEQUENCE: u64 = 1;
/// Sequence flags.
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
/// Fields of `Trace` and `TracePacket`.
pub(super) const PACKET: u32 = 1;
pub(super) const CLOCK_SNAPSHOT: u32 = 6;
pub(super) const TIMESTAMP: u32 = 8;
pub(super) const SEQUENCE_ID: u32 = 10;
pub(super) const TRACK_EVENT: u32 = 11;
pub(super) const INTERNED_DATA: u32 = 12;
pub(super) const SEQUENCE_FLAGS: u32 = 13;
pub(super) const TIMESTAMP_CLOCK_ID: u32 = 58;
pub(super) const DEFAULTS: u32 = 59;
pub(super) const TRACK_DESCRIPTOR: u32 = 60;
pub(super) const FIRST_PACKET: u32 = 87;
/// The clock that times are in.
pub(super) const CLOCK_BOOTTIME: u64 = 6;

/// The file and the packets that it does not hold yet.
pub(super) struct Packets {
    path: OutPath,
    file: Option<Box<dyn SinkFile>>,
    pub(super) out: Proto,
    next_uuid: u64,
}

impl Packets {
    pub(super) fn new(path: &OutPath) -> Self {
        Packets { path: path.clone(), file: None, out: Proto::default(), next_uuid: 1 }
    }

    /// Makes the file and writes what comes before all packets.
    pub(super) fn begin(&mut self) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let file = self.path.create(WRITING)?;
        self.file = Some(file);
        self.out.begin(PACKET);
        self.out.unsigned(SEQUENCE_ID, SEQUENCE);
        self.out.unsigned(SEQUENCE_FLAGS, STATE_CLEARED);
        self.out.unsigned(FIRST_PACKET, 1);
        self.out.begin(DEFAULTS);
        self.out.unsigned(TIMESTAMP_CLOCK_ID, CLOCK_BOOTTIME);
        self.out.end();
        self.out.end();
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            let written = file.write_all(self.out.written());
            written.map_err(self.path.failed(WRITING))?;
        }
        self.out.clear();
        Ok(())
    }

    /// A packet begins that belongs to a time.
    pub(super) fn packet(&mut self, ns: u64) {
        self.out.begin(PACKET);
        self.out.unsigned(TIMESTAMP, ns);
        self.out.unsigned(SEQUENCE_ID, SEQUENCE);
        self.out.unsigned(SEQUENCE_FLAGS, NEEDS_STATE);
    }

    pub(super) fn uuid(&mut self) -> u64 {
        let uuid = self.next_uuid;
        self.next_uuid += 1;
        uuid
    }

    /// Announces a track, or announces it anew; `more` are further fields of its description.
    pub(super) fn announce(&mut self, uuid: u64, parent: Option<u64>, name: &[u8], more: impl Fn(&mut Proto)) {
        self.out.begin(PACKET);
        self.out.unsigned(SEQUENCE_ID, SEQUENCE);
        self.out.unsigned(SEQUENCE_FLAGS, NEEDS_STATE);
        self.out.begin(TRACK_DESCRIPTOR);
        self.out.unsigned(1, uuid);
        if !name.is_empty() {
            self.out.bytes(2, String::from_utf8_lossy(name).as_bytes());
        }
        more(&mut self.out);
        if let Some(parent) = parent {
            self.out.unsigned(5, parent);
        }
        self.out.end();
        self.out.end();
    }
}
