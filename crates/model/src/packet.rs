//! Packets, their counters, and gaps: stretches where events are known or suspected to be missing.

use crate::schema::StreamClassId;

/// A packet: what the producer flushed at once.
///
/// ```
/// use tracemill_model::packet::Packet;
/// use tracemill_model::schema::StreamClassId;
/// let packet = Packet { content_bits: 4000, begin_cycles: Some(7), ..Packet::new(StreamClassId(0), 0, 4096) };
/// assert_eq!(packet.total_bits - packet.content_bits, 96, "bits of padding");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packet {
    /// Index of its file among the files of the stream.
    pub file: u32,
    /// Its number in that file, from 0.
    pub index: u64,
    /// Offset of its first byte in the file.
    pub offset_bytes: u64,
    /// Total size in bits, padding included.
    pub total_bits: u64,
    /// Content size in bits, headers included.
    pub content_bits: u64,
    /// The stream class it belongs to.
    pub class: StreamClassId,
    /// Numeric id of its stream, when the packet header has one.
    pub stream_id: Option<u64>,
    /// Full clock value at its beginning (after the producer's quirks are mended).
    pub begin_cycles: Option<u64>,
    /// Full clock value at its end (after the producer's quirks are mended).
    pub end_cycles: Option<u64>,
    /// Free-running counter of discarded events as stored.
    pub discarded_snapshot: Option<u64>,
    /// Sequence number as stored.
    pub sequence: Option<u64>,
    /// Events discarded between the previous packet and the end of this one.
    pub discarded_before: u64,
    /// Packets lost between the previous packet and this one.
    pub lost_packets_before: u64,
    /// The end of the previous packet as stored, where that packet's own end was mended: losses may have begun there.
    pub lost_since: Option<u64>,
}

impl Packet {
    /// The first packet of a file, all of it content, whose header states no stream, times or losses.
    pub fn new(class: StreamClassId, offset_bytes: u64, total_bits: u64) -> Self {
        Packet { offset_bytes, total_bits, content_bits: total_bits, class, ..Packet::default() }
    }
}

/// Kind of the loss in a gap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GapKind {
    /// Events that the producer discarded.
    DiscardedEvents,
    /// Packets that never reached the trace.
    LostPackets,
}

impl GapKind {
    /// Its name in files and lists.
    pub fn name(self) -> &'static str {
        match self {
            GapKind::DiscardedEvents => "discarded events",
            GapKind::LostPackets => "lost packets",
        }
    }
}

/// A stretch where events are missing, between two times of one stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Kind of the loss.
    pub kind: GapKind,
    /// Number of lost events or packets, when known.
    pub count: Option<u64>,
    /// Clock value at which the stretch begins.
    pub begin_cycles: Option<u64>,
    /// Clock value at which it ends.
    pub end_cycles: Option<u64>,
}
