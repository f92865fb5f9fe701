//! Packets, as they are written to the file.

use tracemill_format::OutPath;
use tracemill_model::error::Result;

use super::args::Interned;
use crate::late_file::LateFile;
use tracemill_format::perfetto::ProtoWriter;

/// The sequence of packets with events, so that strings stand once for all.
const SEQUENCE: u64 = 1;
/// The sequence of tracks: trace_processor takes the last thread that a sequence describes for one that all of its events have
/// to do with, even those before that thread began.
const TRACK_SEQUENCE: u64 = 2;
/// The first sequence of samples.
const SAMPLE_SEQUENCES: u64 = 3;
/// Sequence flags.
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
/// Fields of `Trace` and `TracePacket`.
const PACKET: u32 = 1;
const FTRACE_EVENTS: u32 = 1;
const PROCESS_TREE: u32 = 2;
pub(super) const CLOCK_SNAPSHOT: u32 = 6;
const TIMESTAMP: u32 = 8;
const SEQUENCE_ID: u32 = 10;
const TRACK_EVENT: u32 = 11;
pub(super) const INTERNED_DATA: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const TIMESTAMP_CLOCK_ID: u32 = 58;
pub(super) const DEFAULTS: u32 = 59;
const SYSTEM_INFO: u32 = 45;
const TRACK_DESCRIPTOR: u32 = 60;
const FIRST_PACKET: u32 = 87;
/// The clock that times are in.
pub(super) const CLOCK_BOOTTIME: u64 = 6;

/// The file and the packets that it does not hold yet.
pub(super) struct PacketFile {
    file: LateFile,
    pub(super) out: ProtoWriter,
    next_uuid: u64,
}

impl PacketFile {
    pub(super) fn new(path: &OutPath) -> Self {
        let mut out = ProtoWriter::default();
        out.begin(PACKET);
        out.unsigned(SEQUENCE_ID, SEQUENCE);
        out.unsigned(SEQUENCE_FLAGS, STATE_CLEARED);
        out.unsigned(FIRST_PACKET, 1);
        out.begin(DEFAULTS);
        out.unsigned(TIMESTAMP_CLOCK_ID, CLOCK_BOOTTIME);
        out.end();
        out.end();
        PacketFile { file: LateFile::new(path), out, next_uuid: 1 }
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.file.write(self.out.written())?;
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

    /// A track event as a packet of its own, with the strings that were met since the packet before; `more` adds the
    /// further fields of the event.
    #[inline]
    pub(super) fn event(
        &mut self,
        ns: u64,
        interned: &mut Interned,
        kind: u64,
        uuid: u64,
        more: impl FnOnce(&mut ProtoWriter),
    ) {
        self.packet(ns);
        if !interned.pending.is_empty() {
            self.out.bytes(INTERNED_DATA, interned.pending.written());
            interned.pending.clear();
        }
        self.out.begin(TRACK_EVENT);
        self.out.unsigned(9, kind);
        self.out.unsigned(11, uuid);
        more(&mut self.out);
        self.out.end();
        self.out.end();
    }

    /// A packet of a sequence of samples, which begins its tables anew when it is their first.
    pub(super) fn sample(&mut self, sequence: u64, ns: u64, is_first: bool, fields: impl FnOnce(&mut ProtoWriter)) {
        self.out.begin(PACKET);
        self.out.unsigned(TIMESTAMP, ns);
        self.out.unsigned(SEQUENCE_ID, SAMPLE_SEQUENCES + sequence);
        self.out.unsigned(SEQUENCE_FLAGS, if is_first { STATE_CLEARED | NEEDS_STATE } else { NEEDS_STATE });
        fields(&mut self.out);
        self.out.end();
    }

    /// A packet without a time of its own: a bundle of events of one CPU.
    pub(super) fn ftrace(&mut self, fields: impl FnOnce(&mut ProtoWriter)) {
        self.out.begin(PACKET);
        self.out.unsigned(SEQUENCE_ID, SEQUENCE);
        self.out.unsigned(SEQUENCE_FLAGS, NEEDS_STATE);
        self.out.begin(FTRACE_EVENTS);
        fields(&mut self.out);
        self.out.end();
        self.out.end();
    }

    /// From a time on these processes and threads are known.
    pub(super) fn process_tree(&mut self, ns: u64, fields: impl FnOnce(&mut ProtoWriter)) {
        self.packet(ns);
        self.out.begin(PROCESS_TREE);
        fields(&mut self.out);
        self.out.end();
        self.out.end();
    }

    /// The names of a system, in the order of `uname`: kernel, version, release, processor.
    pub(super) fn system(&mut self, names: [Option<&str>; 4]) {
        self.out.begin(PACKET);
        self.out.unsigned(SEQUENCE_ID, SEQUENCE);
        self.out.begin(SYSTEM_INFO);
        self.out.begin(1);
        for (name, number) in names.into_iter().zip(1..) {
            if let Some(name) = name {
                self.out.bytes(number, name.as_bytes());
            }
        }
        self.out.end();
        self.out.end();
        self.out.end();
    }

    pub(super) fn uuid(&mut self) -> u64 {
        let uuid = self.next_uuid;
        self.next_uuid += 1;
        uuid
    }

    /// Announces a track, or announces it again; `more` are further fields of its description.
    pub(super) fn announce(&mut self, uuid: u64, parent: Option<u64>, name: &[u8], more: impl Fn(&mut ProtoWriter)) {
        self.out.begin(PACKET);
        self.out.unsigned(SEQUENCE_ID, TRACK_SEQUENCE);
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
