//! The way of an event into the ring of its thread.

use std::sync::atomic::{Ordering, compiler_fence};

use tracemill_ring::{header, packet};

use super::event_buf::EventBuf;
use super::replace::replace;
use super::{NO_SLOT, Reserve, RingWriter};
use crate::field::Fields;
use crate::local::system;
use crate::{clock, recorder};

impl RingWriter {
    /// Makes room for an event of `len` bytes.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&self, len: u64, clock: u64) -> Reserve {
        if self.depth() != 1 {
            // A handler that interrupts the slow path, or that met a full slot: switching is the thread's own.
            match self.is_open() {
                true => self.discard(),
                false => recorder::count_unplaced(),
            }
            return Reserve::None;
        }
        loop {
            if !self.is_open() {
                match recorder::give_ring(self) {
                    Reserve::Made => {}
                    other => return other,
                }
            }
            let size = self.slot_size.load(Ordering::Relaxed);
            if len > size - packet::LEN as u64 {
                self.discard();
                return Reserve::None;
            }
            let pos = self.pos.load(Ordering::Relaxed);
            let is_flush = self.wants_flush.swap(0, Ordering::SeqCst) == 1 && pos > packet::LEN as u64;
            let is_far = (clock ^ self.begin.load(Ordering::Relaxed)) >> (packet::CLOCK_BITS - 1) != 0;
            if pos == NO_SLOT || is_flush || is_far || pos + len > size {
                self.seal();
                if !self.begin() {
                    if self.blocks.load(Ordering::Relaxed) == 1 {
                        self.wait();
                        continue;
                    }
                    if self.is_open() {
                        self.discard();
                    }
                    return Reserve::None;
                }
            }
            self.kept.limit.store(size, Ordering::SeqCst);
            // Closed or asked for in between: then that may have been written over.
            if self.is_open() && self.wants_flush.load(Ordering::SeqCst) == 0 {
                return Reserve::Made;
            }
            self.kept.limit.store(0, Ordering::SeqCst);
        }
    }

    /// Waits for the consumer to take a slot, or for the writer to be closed.
    fn wait(&self) {
        let taken = self.ring(header::TAKEN);
        // As long as there is no room: the consumer may have made some since that was seen, and may take no more then.
        let full = self.ring(header::DONE).load(Ordering::Relaxed) - self.slots.load(Ordering::Relaxed);
        self.park(true);
        system::wait_while(taken, full);
        self.park(false);
    }
}

/// Writes an event of the class `id` for the calling thread. `false` when nothing was done, since that may be the id of an
/// earlier recording.
#[must_use]
#[inline(always)]
pub(crate) fn write<V: Fields>(writer: &RingWriter, id: u32, values: &V) -> bool {
    let depth = writer.depth() + 1;
    writer.depth.store(depth, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let len = packet::EVENT_LEN + values.encoded_len() as u64;
    let (pos, clock) = loop {
        // The place first: an event that comes in between makes it another one.
        let pos = writer.pos.load(Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let clock = clock::now();
        let is_far = (clock ^ writer.begin.load(Ordering::Relaxed)) >> (packet::CLOCK_BITS - 1) != 0;
        // No slot is 2^63, and no length comes near that.
        if pos.wrapping_add(len) > writer.kept.limit.load(Ordering::Relaxed) || is_far {
            let room = writer.make_room(len, clock);
            if room != Reserve::Made {
                compiler_fence(Ordering::SeqCst);
                writer.depth.store(depth - 1, Ordering::Release);
                return room == Reserve::None;
            }
        } else if replace(&writer.pos, pos, pos + len) {
            break (pos, clock);
        }
    };
    compiler_fence(Ordering::SeqCst);
    // SAFETY: from `pos` on `len` bytes of the open slot were reserved for this event.
    let at = unsafe { writer.slot.load(Ordering::Relaxed).add(pos as usize) };
    let word = clock & ((1 << packet::CLOCK_BITS) - 1) | u64::from(id) << packet::CLOCK_BITS;
    // SAFETY: as above; of the two the first leaves out what the second has.
    unsafe {
        let mut fields = EventBuf::new(at, len as usize);
        fields.skip(packet::EVENT_LEN as usize);
        values.put(&mut fields);
        EventBuf::new(at, packet::EVENT_LEN as usize).put(word.to_le_bytes());
    }
    compiler_fence(Ordering::SeqCst);
    if depth == 1 {
        let end = writer.pos.load(Ordering::Relaxed);
        // Events of handlers stand after this one, and are later.
        let last = if end == pos + len { clock } else { writer.behind.load(Ordering::Relaxed).max(clock) };
        writer.packet(packet::END).store(last, Ordering::Relaxed);
        writer.packet(packet::CONTENT).store(end * 8, Ordering::Release);
    } else {
        raise_latest_clock(writer, clock);
    }
    // Before this a handler could switch slots, and the commit above would go to the wrong one.
    compiler_fence(Ordering::SeqCst);
    writer.depth.store(depth - 1, Ordering::Release);
    true
}

/// Keeps the latest clock of events after an interrupted one.
#[cold]
fn raise_latest_clock(writer: &RingWriter, clock: u64) {
    loop {
        let known = writer.behind.load(Ordering::Relaxed);
        if known >= clock || replace(&writer.behind, known, clock) {
            break;
        }
    }
}

/// As [`write`], of a thread that has no writer yet.
#[cold]
#[inline(never)]
#[must_use]
pub(crate) fn write_first<V: Fields>(id: u32, values: &V) -> bool {
    recorder::give_writer().is_none_or(|writer| write(writer, id, values))
}
