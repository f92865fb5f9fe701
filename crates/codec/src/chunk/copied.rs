//! Chunks over copies of their bytes: a file may be cut after its events were found and before their fields are read. The
//! copy holds the packet's header and context, and after them the bytes of the events of one chunk.

use std::sync::Arc;

use tracemill_model::packet::Packet;

use super::{Chunk, PacketData};
use crate::plan::{DecoderState, PlanInput};

/// Most bytes by which the alignment of a field may make events move; where fields need more, nothing is copied.
const MAX_STEP_BYTES: usize = 64 << 10;

/// Bytes after an event that are copied with it: plans may look at some of them.
const BEHIND_BYTES: u64 = 16;

/// Where the bytes of a copy come from.
pub struct CopiedFrom {
    /// The packet, when only some of its events were copied.
    packet: Option<Arc<PacketData>>,
    /// Pieces of it, in their order.
    pieces: Vec<CopiedPiece>,
}

/// A piece of a packet that was copied.
#[derive(Clone, Copy)]
struct CopiedPiece {
    /// Its first bit in the copy.
    at_bits: u64,
    /// Its first bit in the packet.
    from_bits: u64,
}

impl CopiedFrom {
    /// The bit of the packet that a bit of the copy was.
    pub(super) fn recorded_bit(&self, bit: u64) -> u64 {
        let next = self.pieces.partition_point(|piece| piece.at_bits <= bit);
        next.checked_sub(1).and_then(|at| self.pieces.get(at)).map_or(bit, |of| of.from_bits + (bit - of.at_bits))
    }
}

/// A copy that is put together.
struct Copy {
    bytes: Vec<u8>,
    pieces: Vec<CopiedPiece>,
    step_bytes: usize,
}

impl Copy {
    /// Appends bytes of the packet so that what is aligned stays aligned; by how many bits they moved to the front, modulo
    /// 2^64. `None` when there is no memory for them, or they are not there.
    fn add(&mut self, packet: &[u8], begin: usize, end: usize) -> Option<u64> {
        let (mut begin, mut at) = (begin / self.step_bytes * self.step_bytes, self.bytes.len());
        at = at.next_multiple_of(self.step_bytes);
        if self.pieces.len() == 1 && begin < at {
            // Right after the context nothing moves.
            (begin, at) = (self.bytes.len(), self.bytes.len());
        }
        let piece = packet.get(begin..end.max(begin))?;
        self.bytes.try_reserve(at - self.bytes.len() + piece.len()).ok()?;
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(piece);
        let piece = CopiedPiece { at_bits: at as u64 * 8, from_bits: begin as u64 * 8 };
        self.pieces.push(piece);
        Some(piece.from_bits.wrapping_sub(piece.at_bits))
    }
}

impl PacketData {
    /// Are both the same packet, or copies of events of the same?
    #[inline]
    pub fn is_same(a: &Arc<PacketData>, b: &Arc<PacketData>) -> bool {
        Arc::ptr_eq(a, b) || Arc::ptr_eq(a.recorded(), b.recorded())
    }

    /// The packet as it lies in its file.
    #[inline]
    fn recorded(self: &Arc<PacketData>) -> &Arc<PacketData> {
        self.copied.as_ref().and_then(|copied| copied.packet.as_ref()).unwrap_or(self)
    }

    /// Is it decoded in a file that may be cut meanwhile?
    #[inline]
    pub fn can_vanish(&self) -> bool {
        self.copied.is_none() && self.is_in_place() && self.file.can_vanish()
    }

    /// A packet that can vanish, over a copy of all of its content; itself where there is no memory for that.
    #[must_use]
    pub fn copied(mut self) -> PacketData {
        let (content, mut bytes) = (self.content(), Vec::new());
        if self.can_vanish() && bytes.try_reserve_exact(content.len()).is_ok() {
            bytes.extend_from_slice(content);
            self.copied = Some(CopiedFrom { packet: None, pieces: Vec::new() });
            self.bytes = Arc::new(bytes);
            self.base_bytes = 0;
        }
        self
    }
}

impl Chunk {
    /// The same events over a copy of their bytes, the last of which ends at `end_bits` of the packet. The chunk itself when
    /// its bytes cannot vanish, or its reader has found the events, and where nothing can be copied: there is no memory, or
    /// the bytes are gone. Events are copied one by one when more than `near_bytes` of others lie between two, on average.
    #[must_use]
    pub fn copied(self, end_bits: u64, near_bytes: u64) -> Chunk {
        let step_bytes = self.packet.plans.step_bytes();
        if self.is_empty() || self.packet.spine.is_some() || !self.packet.can_vanish() || step_bytes > MAX_STEP_BYTES {
            return self;
        }
        let head = self.packet.events_bits.div_ceil(8) as usize;
        let Some(head) = self.packet.input().bytes.get(..head) else { return self };
        let mut copy =
            Copy { bytes: head.to_vec(), pieces: vec![CopiedPiece { at_bits: 0, from_bits: 0 }], step_bytes };
        let span = end_bits.saturating_sub(self.start_bits(0)) / 8;
        if span > near_bytes.saturating_mul(self.len() as u64) {
            if let Some((starts, bodies)) = self.copy_each(&mut copy) {
                return self.with_copy(copy, 0, starts, bodies);
            }
            copy.bytes.truncate(head.len());
            copy.pieces.truncate(1);
        }
        self.copy_all(copy, end_bits)
    }

    /// Copies what lies from the first event to the end of the last one.
    fn copy_all(self, mut copy: Copy, end_bits: u64) -> Chunk {
        let input = self.packet.input();
        let end = end_of(input, end_bits);
        let Some(moved) = copy.add(input.bytes, (self.start_bits(0) / 8) as usize, end) else { return self };
        let lead = self.starts[0];
        let behind_lead = |bits: &[u32]| bits.iter().map(|bits| bits - lead).collect();
        let (starts, bodies) = (behind_lead(&self.starts), behind_lead(&self.bodies));
        let base_bits = (self.base_bits + u64::from(lead)).wrapping_sub(moved);
        self.with_copy(copy, base_bits, starts, bodies)
    }

    /// Copies the events one by one, as they are few among others; where they and what follows their headers begin.
    fn copy_each(&self, copy: &mut Copy) -> Option<(Vec<u32>, Vec<u32>)> {
        let (input, mut state) = (self.packet.input(), DecoderState::default());
        let (mut starts, mut bodies) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        for at in 0..self.len() {
            let end = end_of(input, self.event(at).end_bits(&mut state).ok()?);
            let moved = copy.add(input.bytes, (self.start_bits(at) / 8) as usize, end)?;
            starts.push(u32::try_from(self.start_bits(at).wrapping_sub(moved)).ok()?);
            bodies.push(u32::try_from(self.body_bits(at).wrapping_sub(moved)).ok()?);
        }
        Some((starts, bodies))
    }

    fn with_copy(self, copy: Copy, base_bits: u64, starts: Vec<u32>, bodies: Vec<u32>) -> Chunk {
        let packet = &self.packet;
        let content_bits = copy.bytes.len() as u64 * 8;
        let packet = Arc::new(PacketData {
            plans: packet.plans.clone(),
            bytes: Arc::new(copy.bytes),
            base_bytes: 0,
            file: packet.file.clone(),
            packet: Packet { content_bits, ..packet.packet.clone() },
            spine: None,
            state: packet.state.clone(),
            copied: Some(CopiedFrom { packet: Some(packet.clone()), pieces: copy.pieces }),
            ..**packet
        });
        Chunk { starts, bodies, base_bits, packet, ..self }
    }
}

/// The end of the bytes that are copied with an event.
fn end_of(input: PlanInput<'_>, end_bits: u64) -> usize {
    (end_bits.div_ceil(8) + BEHIND_BYTES).min(input.end_bits.div_ceil(8)) as usize
}
