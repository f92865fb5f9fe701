//! Packets, one after the other; where reading goes on after damage (`SPEC.md`, section 1).

use memchr::memchr;
use tracemill_format::perfetto::{WireFields, WireValue, sequence_flag, varint};
use tracemill_model::error::Error;

/// Fields of a packet that are not its content.
mod field {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const FLAGS: u32 = 13;
    pub(super) const IS_CLEARED: u32 = 41;
    pub(super) const IS_DROPPED: u32 = 42;
    pub(super) const CLOCK: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const IS_FIRST: u32 = 87;
    pub(super) const MACHINE: u32 = 98;
    /// Its writer: `trusted_uid`, `trusted_pid`.
    pub(super) const WRITERS: [u32; 2] = [3, 79];
}

/// The tag of a packet in a trace.
const PACKET_TAG: u8 = 0x0a;
/// Larger numbers of fields are not those of packets.
const MAX_FIELD: u32 = 2000;

/// A packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TracePacket<'a> {
    /// Offset of its tag.
    pub(crate) at: usize,
    /// Offset of the first byte after it.
    pub(crate) end: usize,
    pub(crate) timestamp: Option<u64>,
    /// The clock of its time, when it states it.
    pub(crate) clock: Option<u32>,
    pub(crate) sequence: u32,
    pub(crate) machine: u32,
    /// Does what its sequence said before hold no longer?
    pub(crate) is_cleared: bool,
    /// Did packets of its sequence get lost before it?
    pub(crate) is_after_loss: bool,
    /// Is it the first of its sequence?
    pub(crate) is_first: bool,
    pub(crate) interned: &'a [u8],
    pub(crate) defaults: &'a [u8],
    /// The number of its content among the fields of packets, and the content.
    pub(crate) content: Option<(u32, &'a [u8])>,
}

/// An item of a trace.
#[derive(Debug)]
pub(crate) enum PacketItem<'a> {
    Packet(TracePacket<'a>),
    /// Bytes that are no packet.
    Fault(Error),
}

/// Reads the packet at an offset.
///
/// # Errors
/// When there is none.
pub(crate) fn read_packet(bytes: &[u8], at: usize) -> Result<TracePacket<'_>, Error> {
    let place = |error: Error, at: usize| error.at_offset(at as u64);
    if bytes.get(at) != Some(&PACKET_TAG) {
        let found = bytes.get(at).copied().unwrap_or_default();
        return Err(place(Error::malformed(format!("a packet begins with the byte 0x0a, not with 0x{found:02x}")), at));
    }
    let Some((len, rest)) = varint(&bytes[at + 1..]) else {
        return Err(place(Error::truncated("the length of a packet cannot be read"), at));
    };
    let start = bytes.len() - rest.len();
    let content = usize::try_from(len).ok().and_then(|len| rest.get(..len)).ok_or_else(|| {
        let message = format!("a packet of {len} bytes, of which {} are there", rest.len());
        place(Error::truncated(message), at)
    })?;
    let mut packet = TracePacket { at, end: start + content.len(), ..TracePacket::default() };
    let mut fields = WireFields::new(content);
    for (number, value) in &mut fields {
        match (number, value) {
            (field::TIMESTAMP, WireValue::Varint(value)) => packet.timestamp = Some(value),
            (field::SEQUENCE, value) => packet.sequence = value.number() as u32,
            (field::INTERNED, value) => packet.interned = value.bytes(),
            (field::FLAGS, value) => packet.is_cleared |= value.number() & sequence_flag::STATE_CLEARED != 0,
            (field::IS_CLEARED, value) => packet.is_cleared |= value.number() != 0,
            (field::IS_DROPPED, value) => packet.is_after_loss = value.number() != 0,
            (field::CLOCK, value) => packet.clock = Some(value.number() as u32),
            (field::DEFAULTS, value) => packet.defaults = value.bytes(),
            (field::IS_FIRST, value) => packet.is_first = value.number() != 0,
            (field::MACHINE, value) => packet.machine = value.number() as u32,
            (number, _) if field::WRITERS.contains(&number) => {}
            (number, WireValue::Bytes(bytes)) => packet.content = Some((number, bytes)),
            _ => {}
        }
        if number > MAX_FIELD {
            return Err(place(Error::malformed(format!("a packet cannot have the field {number}")), start));
        }
    }
    match fields.fault() {
        Some(fault) => Err(place(Error::malformed("a field of a packet cannot be read"), start + fault)),
        None => Ok(packet),
    }
}

/// Walks over the packets of a trace.
pub(crate) struct PacketWalk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes that are tried again after damage, at most: no file makes this quadratic.
    budget: usize,
}

impl<'a> PacketWalk<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        PacketWalk { bytes, at: 0, budget: bytes.len().saturating_mul(4).saturating_add(1 << 20) }
    }

    /// The next offset at which a packet can be read after which another one, or the end, comes.
    fn resume(&mut self, at: usize) -> usize {
        let mut at = at + 1;
        while let Some(step) = self.bytes.get(at..).and_then(|rest| memchr(PACKET_TAG, rest)) {
            at += step;
            let packet = read_packet(self.bytes, at);
            let cost = packet.as_ref().map_or(64, |packet| packet.end - at);
            let is_one = packet.is_ok_and(|packet| {
                packet.end > at + 2 && self.bytes.get(packet.end).is_none_or(|next| *next == PACKET_TAG)
            });
            if is_one {
                return at;
            }
            match self.budget.checked_sub(cost) {
                Some(left) => self.budget = left,
                None => break,
            }
            at += 1;
        }
        self.bytes.len()
    }
}

impl<'a> Iterator for PacketWalk<'a> {
    type Item = PacketItem<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        match read_packet(self.bytes, self.at) {
            Ok(packet) => {
                self.at = packet.end;
                Some(PacketItem::Packet(packet))
            }
            Err(error) => {
                let begin = self.at;
                self.at = self.resume(begin);
                let skipped = self.at - begin;
                Some(PacketItem::Fault(error.with_help(format!("{skipped} bytes are skipped"))))
            }
        }
    }
}
