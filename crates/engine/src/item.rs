//! Items of a stream in its order, and the answer whether to go on.

use std::sync::Arc;

use tracemill_codec::chunk::{Chunk, PacketData};
use tracemill_model::error::Error;
use tracemill_model::packet::Gap;

/// A piece of a stream, in the order of the stream.
pub enum Item {
    /// Events.
    Chunk(ReadyChunk),
    /// A packet of which all events are wanted and can be read, and their number: given when
    /// [`Cursor::give_packets`](crate::cursor::Cursor::give_packets) asked for packets, or
    /// [`Cursor::give_empty_packets`](crate::cursor::Cursor::give_empty_packets) for those without events. When
    /// [`Cursor::count_packets`](crate::cursor::Cursor::count_packets) asked, the number is that of the wanted events.
    Packet(Arc<PacketData>, u64),
    /// Missing events.
    Gap(Gap),
    /// A part that cannot be read.
    Fault(Error),
    /// Something that the user should know and that is no error.
    Warning(Error),
}

/// A chunk with the times at which its events are merged.
pub struct ReadyChunk {
    /// The chunk.
    pub chunk: Chunk,
    /// Where time goes back (or stands below the largest time of an earlier chunk): the largest clock value so far,
    /// for each event. `None` when the clock values themselves do.
    pub floors: Option<Vec<u64>>,
    /// Where it stands in its stream; `None` when its events are not as the stream has them.
    pub(crate) place: Option<ChunkPlace>,
}

/// Where a chunk stands in its stream.
#[derive(Clone, Copy)]
pub(crate) struct ChunkPlace {
    /// Number of its packet in the list of the stream.
    pub(crate) packet: usize,
    /// Events of the packet that came before.
    pub(crate) before: u64,
    /// The clock value that was known when the packet was opened.
    pub(crate) clock: u64,
}

/// A place between two events of a stream, from which it can be read as if all before had been read: see
/// [`Merger::places`](crate::merge::Merger::places).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPlace {
    /// Number of the packet in the list of the stream; the number of all packets at the end.
    pub(crate) packet: usize,
    /// Events of the packet that are behind.
    pub(crate) before: u64,
    /// The clock value that is known when the packet is opened.
    pub(crate) clock: u64,
    /// The largest clock value of an event so far, or that of the next one.
    pub(crate) floor: u64,
}

/// Where reading a stream that grows goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResumePoint {
    /// The place.
    pub(crate) place: StreamPlace,
    /// Was its packet opened already, so that what is before its events was reported?
    pub(crate) is_open: bool,
}

impl ResumePoint {
    /// A place in a packet that was opened already.
    pub fn within(place: StreamPlace) -> ResumePoint {
        ResumePoint { place, is_open: true }
    }

    /// The beginning of a packet that was not opened yet. `clock` is the clock value there, and `floor` the largest one of the
    /// events before it.
    pub fn at_packet(packet: usize, clock: u64, floor: u64) -> ResumePoint {
        ResumePoint { place: StreamPlace { packet, before: 0, clock, floor }, is_open: false }
    }

    /// The end of the stream, as it was when all of it had been read.
    pub fn at_end() -> ResumePoint {
        ResumePoint::at_packet(usize::MAX, 0, 0)
    }

    /// The place, for a reading that need not know what is before events.
    pub fn place(&self) -> StreamPlace {
        self.place
    }
}

impl StreamPlace {
    /// The number of its packet in the list of the stream; above all of them at the end.
    pub fn packet(&self) -> usize {
        self.packet
    }

    /// The largest clock value of an event so far, or that of the next one.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The place as numbers, to be kept for another session of the same traces; the first is the number of its packet.
    pub fn numbers(&self) -> [u64; 4] {
        [self.packet as u64, self.before, self.clock, self.floor]
    }

    /// The place of these [numbers](StreamPlace::numbers).
    pub fn from_numbers([packet, before, clock, floor]: [u64; 4]) -> StreamPlace {
        StreamPlace { packet: usize::try_from(packet).unwrap_or(usize::MAX), before, clock, floor }
    }
}

impl ReadyChunk {
    /// The clock value at which the event `at` is merged.
    #[inline]
    pub fn merge_cycles(&self, at: usize) -> u64 {
        match &self.floors {
            Some(floors) => floors[at],
            None => self.chunk.cycles[at],
        }
    }

    /// The place before the event `at`.
    pub(crate) fn place_of(&self, at: usize) -> Option<StreamPlace> {
        let ChunkPlace { packet, before, clock } = self.place?;
        Some(StreamPlace { packet, before: before + at as u64, clock, floor: self.merge_cycles(at) })
    }

    /// The place after its last event.
    pub(crate) fn place_after(&self) -> Option<StreamPlace> {
        let last = self.chunk.len().checked_sub(1)?;
        let place = self.place_of(last)?;
        Some(StreamPlace { before: place.before + 1, ..place })
    }

    /// Keeps some of the events.
    pub(crate) fn retain(&mut self, is_kept: &[bool]) {
        if let Some(floors) = &mut self.floors {
            let mut kept = is_kept.iter();
            floors.retain(|_| kept.next().copied().unwrap_or(true));
        }
        self.chunk.retain(|_, at| is_kept[at]);
    }
}
