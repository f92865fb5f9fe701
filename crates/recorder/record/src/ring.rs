//! Rings in memory, and the way of an event into one.
//!
//! # Why the `unsafe` here is sound
//!
//! * A [`Mapping`] owns its pages and hands out atomics within them, at checked offsets that are multiples of their size.
//! * The bytes of an event are written through [`EventBuf`](event_buf::EventBuf), which checks every write against what was reserved. What was
//!   reserved lies in the open slot: `pos` is below `limit`, and `limit` is the size of the slot or 0.
//! * Only its writer writes there: a writer belongs to one thread, and what its signal handlers reserve is after what they
//!   interrupted, since place and clock are taken by one compare-and-swap. Other processes read bytes only, which have no
//!   rules to break.
//! * A mapping ends after its writers were closed: `limit` is 0, so that no event gets past the check of [`write`](write::write), every
//!   thread has seen that (`membarrier`), and those that were inside of an event have left it. A thread that does not
//!   leave in time keeps its mapping for ever.
//!
//! The order of steps in [`write`](write::write) is kept by compiler fences: signal handlers of the same thread see them in program
//! order on every processor, and other threads read only what was stored with release.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

use tracemill_ring::{header, packet};

use crate::clock;
use crate::local::system;

pub(crate) mod event_buf;
mod replace;
pub(crate) mod write;

/// Advice to make pages present, of Linux 5.14.
const MADV_POPULATE_WRITE: libc::c_int = 23;
/// Length of a page in bytes, or less.
const PAGE: usize = 4096;
/// `pos` while there is no open slot.
const NO_SLOT: u64 = 1 << 63;

/// A file of fixed size in memory, shared with whoever opens it.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: the pages belong to the process, not to a thread, and are reached by atomics or under the rules above.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Takes all blocks of the file, and all pages, so that writing to it never waits and never fails.
    pub(crate) fn new(file: &File, len: u64) -> io::Result<Mapping> {
        allocate(file, len)?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Mapping { base: base.cast(), len };
        // SAFETY: the pages of this mapping, whose content stays as it is.
        if unsafe { libc::madvise(base, len, MADV_POPULATE_WRITE) } != 0 {
            for at in (0..len).step_by(PAGE) {
                // A write that changes nothing: the file may be that of others, who write to it.
                mapping.u64(at).fetch_or(0, Ordering::Relaxed);
            }
        }
        Ok(mapping)
    }

    /// A number of the file. Panics when the offset is not one within.
    pub(crate) fn u64(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len);
        // SAFETY: within the mapping, aligned as pages are and the offset is, and reached by atomics only.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// A number of the file. Panics when the offset is not one within.
    pub(crate) fn u32(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len);
        // SAFETY: as for `u64`.
        unsafe { AtomicU32::from_ptr(self.base.add(at).cast()) }
    }

    /// Writes bytes. Panics when they do not lie within.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at);
        // SAFETY: within the mapping; `bytes` are somebody else's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) };
    }

    /// Appends a stretch of it to a file.
    pub(crate) fn append_to(&self, file: &File, mut at: usize, mut len: usize) -> io::Result<()> {
        assert!(at <= self.len && len <= self.len - at);
        while len > 0 {
            // SAFETY: the kernel reads bytes within the mapping.
            let written = unsafe { libc::write(file.as_raw_fd(), self.base.add(at).cast(), len) };
            match written {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                1.. => (at, len) = (at + written as usize, len - written as usize),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: whoever drops a mapping has closed its writers.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// Gives a file its length and all its blocks.
fn allocate(file: &File, len: u64) -> io::Result<()> {
    let wanted = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: a call about a file that is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, wanted) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// The state of a thread that writes events. Lives for ever, and is given to the next thread when its own has ended.
///
/// The first six numbers are read and changed by the C header as well, which does what [`write`](write::write) does.
///
/// On pages of its own, so also on cache lines that no other thread's has.
#[repr(C, align(4096))]
pub(crate) struct RingWriter {
    /// The open slot.
    slot: AtomicPtr<u8>,
    /// Bytes reserved in it, or [`NO_SLOT`].
    pos: AtomicU64,
    /// Clock at the first event of the slot.
    begin: AtomicU64,
    /// Writers inside of an event: the thread, and its signal handlers.
    depth: AtomicU64,
    /// Latest clock of an event that a signal handler wrote after an interrupted one.
    behind: AtomicU64,
    /// The header of the ring.
    base: AtomicPtr<u8>,
    /// Does the consumer want the packet?
    wants_flush: AtomicU32,
    /// Does the thread wait for the recorder, at depth 1?
    is_parked: AtomicU32,
    /// 1 is stream, 2 flight.
    mode: AtomicU32,
    /// Does it wait for room in place of discarding?
    blocks: AtomicU32,
    /// Number of its ring.
    number: AtomicU32,
    /// The recording of its ring, or of the last one that it had.
    generation: AtomicU64,
    slot_size: AtomicU64,
    slots: AtomicU64,
    kept: NotInherited,
}

/// Where an event has its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reserve {
    /// Nowhere: it is discarded, which is counted, or there is no recorder.
    None,
    /// In the open slot.
    Made,
    /// In a recording that began after the id of its class was asked for, perhaps: that is to be asked for again.
    Retry,
}

/// The part of a writer that a child process does not get: it finds zeros there, however it was made. So its events go the
/// slow path and find no ring, even where the child does not know that it is one, as `fork` does. What an event needs that
/// a signal handler interrupted, to make a child, stands in the other page.
#[repr(C, align(4096))]
struct NotInherited {
    /// Size of a slot; 0 sends events to the slow path.
    limit: AtomicU64,
    /// Is there a ring?
    is_open: AtomicU32,
}

#[cfg(feature = "c")]
const _: () = {
    assert!(std::mem::offset_of!(RingWriter, slot) == 0 && std::mem::offset_of!(RingWriter, pos) == 8);
    assert!(std::mem::offset_of!(RingWriter, begin) == 16 && std::mem::offset_of!(RingWriter, depth) == 24);
    assert!(std::mem::offset_of!(RingWriter, behind) == 32 && std::mem::offset_of!(RingWriter, kept) == 4096);
    assert!(std::mem::offset_of!(NotInherited, limit) == 0);
};

impl RingWriter {
    /// A writer without a ring.
    pub(crate) fn new() -> RingWriter {
        RingWriter {
            slot: AtomicPtr::default(),
            pos: AtomicU64::new(NO_SLOT),
            begin: AtomicU64::new(0),
            depth: AtomicU64::new(0),
            behind: AtomicU64::new(0),
            base: AtomicPtr::default(),
            wants_flush: AtomicU32::new(0),
            is_parked: AtomicU32::new(0),
            mode: AtomicU32::new(0),
            blocks: AtomicU32::new(0),
            number: AtomicU32::new(0),
            generation: AtomicU64::new(0),
            slot_size: AtomicU64::new(0),
            slots: AtomicU64::new(0),
            kept: NotInherited { limit: AtomicU64::new(0), is_open: AtomicU32::new(0) },
        }
    }

    /// One that lives for ever.
    pub(crate) fn leaked() -> &'static RingWriter {
        let writer: &'static RingWriter = Box::leak(Box::new(RingWriter::new()));
        system::keep_from_children((&raw const writer.kept).cast(), size_of::<NotInherited>());
        writer
    }

    /// Gives it a ring. Only by its thread, or before it has one.
    pub(crate) fn open(&self, ring: &Mapping, number: u32, blocks: bool) {
        let number_at = |at: usize| ring.u64(at).load(Ordering::Relaxed);
        self.slot_size.store(number_at(header::SLOT_SIZE), Ordering::Relaxed);
        self.slots.store(number_at(header::SLOTS), Ordering::Relaxed);
        self.mode.store(number_at(header::MODE) as u32, Ordering::Relaxed);
        self.blocks.store(u32::from(blocks), Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        self.base.store(ring.base, Ordering::Relaxed);
        self.pos.store(NO_SLOT, Ordering::Relaxed);
        self.wants_flush.store(0, Ordering::Relaxed);
        self.kept.is_open.store(1, Ordering::Release);
    }

    /// Changes the recording that it is of, and gives the one before: 0 when there was none.
    pub(crate) fn enter_generation(&self, generation: u64) -> u64 {
        self.generation.swap(generation, Ordering::Relaxed)
    }

    /// Has it a ring?
    pub(crate) fn is_open(&self) -> bool {
        self.kept.is_open.load(Ordering::Acquire) == 1
    }

    /// Number of its ring.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Sends all events that follow to the slow path, which finds no ring.
    pub(crate) fn close(&self) {
        self.kept.is_open.store(0, Ordering::SeqCst);
        self.kept.limit.store(0, Ordering::SeqCst);
    }

    /// Asks for the open packet: the thread ends it at its next event.
    pub(crate) fn ask_to_flush(&self) {
        self.wants_flush.store(1, Ordering::SeqCst);
        self.kept.limit.store(0, Ordering::SeqCst);
    }

    /// Is its thread outside of all events, or waits for the recorder?
    pub(crate) fn is_quiet(&self) -> bool {
        match self.depth.load(Ordering::SeqCst) {
            0 => true,
            1 => self.is_parked.load(Ordering::SeqCst) == 1,
            _ => false,
        }
    }

    /// Has its thread an event that waits for the recorder?
    pub(crate) fn is_waiting(&self) -> bool {
        self.depth.load(Ordering::SeqCst) == 1 && self.is_parked.load(Ordering::SeqCst) == 1
    }

    /// Does the thread wait for the recorder? Set around everything that takes the recorder's lock.
    pub(crate) fn park(&self, is_parked: bool) {
        self.is_parked.store(u32::from(is_parked), Ordering::SeqCst);
    }

    /// Bytes in the open slot, if there is one with events. Shows only whether something changed.
    pub(crate) fn fill(&self) -> Option<u64> {
        let pos = self.pos.load(Ordering::Acquire);
        (pos != NO_SLOT && pos > packet::LEN as u64).then_some(pos)
    }

    fn depth(&self) -> u64 {
        self.depth.load(Ordering::Relaxed)
    }

    /// A number in the header of the ring. Only while it is open, or in the slow path before it is closed.
    fn ring(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the ring is mapped as long as the writer is open or inside of an event; offsets are constants in the
        // header, which is aligned as pages are.
        unsafe { AtomicU64::from_ptr(self.base.load(Ordering::Relaxed).add(at).cast()) }
    }

    /// A number in the header of the open slot's packet.
    fn packet(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as for `ring`; only while a slot is open, which is longer than a packet's header.
        unsafe { AtomicU64::from_ptr(self.slot.load(Ordering::Relaxed).add(at).cast()) }
    }

    /// Counts a discarded event, and says so in the open packet.
    fn discard(&self) {
        let count = self.ring(header::DISCARDED);
        count.fetch_add(1, Ordering::Relaxed);
        // Again when a signal handler counted in between.
        while self.pos.load(Ordering::Relaxed) != NO_SLOT {
            let discarded = count.load(Ordering::Relaxed);
            self.packet(packet::DISCARDED).store(discarded, Ordering::Release);
            if count.load(Ordering::Relaxed) == discarded {
                break;
            }
        }
    }

    /// Ends the open slot. Only by its thread at depth 1, or when that is quiet.
    pub(crate) fn seal(&self) {
        let pos = self.pos.swap(NO_SLOT, Ordering::SeqCst);
        if pos == NO_SLOT {
            return;
        }
        let end = self.packet(packet::END);
        let behind = self.behind.load(Ordering::Relaxed).max(end.load(Ordering::Relaxed));
        end.store(behind, Ordering::Relaxed);
        self.packet(packet::CONTENT).store(pos * 8, Ordering::Release);
        let done = self.ring(header::DONE);
        done.store(done.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Begins the next slot, if there is room. Time is read again: a signal handler may have written since the event that
    /// needs the slot read it, and no handler can while there is no slot.
    fn begin(&self) -> bool {
        let (slots, size) = (self.slots.load(Ordering::Relaxed), self.slot_size.load(Ordering::Relaxed));
        let done = self.ring(header::DONE).load(Ordering::Relaxed);
        if self.mode.load(Ordering::Relaxed) == 1 {
            let full = done - self.ring(header::TAKEN).load(Ordering::Acquire);
            if full >= slots / 2 {
                system::wake_consumer();
            }
            if full >= slots {
                return false;
            }
        }
        let at = header::LEN as u64 + done % slots * size;
        // SAFETY: slots lie in the mapping, as the header that `open` read says.
        let slot = unsafe { self.base.load(Ordering::Relaxed).add(at as usize) };
        self.slot.store(slot, Ordering::Relaxed);
        // The ring has the process first, a packet the thread.
        let who = self.ring(header::PID).load(Ordering::Relaxed).rotate_left(32);
        self.packet(packet::SEQUENCE).store(packet::NO_SEQUENCE, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        self.packet(packet::CONTENT).store(packet::LEN as u64 * 8, Ordering::Release);
        let (clock, monotonic_ns) = (clock::now(), clock::monotonic_ns());
        let uuid = [self.ring(header::UUID), self.ring(header::UUID + 8)].map(|half| half.load(Ordering::Relaxed));
        let uuid = u128::from(uuid[0]) | u128::from(uuid[1]) << 64;
        // Magic number, UUID and stream class id, 24 bytes.
        self.packet(0).store(u64::from(packet::MAGIC) | (uuid as u64) << 32, Ordering::Relaxed);
        self.packet(8).store((uuid >> 32) as u64, Ordering::Relaxed);
        self.packet(16).store((uuid >> 96) as u64, Ordering::Relaxed);
        self.packet(packet::RING).store(u64::from(self.number()), Ordering::Relaxed);
        self.packet(packet::BEGIN).store(clock, Ordering::Relaxed);
        self.packet(packet::END).store(clock, Ordering::Relaxed);
        self.packet(packet::TOTAL).store(size * 8, Ordering::Relaxed);
        self.packet(packet::DISCARDED).store(self.ring(header::DISCARDED).load(Ordering::Relaxed), Ordering::Relaxed);
        self.packet(packet::MONOTONIC).store(monotonic_ns, Ordering::Relaxed);
        self.packet(packet::TID).store(who, Ordering::Relaxed);
        self.packet(packet::SEQUENCE).store(done, Ordering::Release);
        self.begin.store(clock, Ordering::Relaxed);
        self.behind.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.pos.store(packet::LEN as u64, Ordering::Release);
        // A handler may have been discarded since the counter was copied.
        self.packet(packet::DISCARDED).store(self.ring(header::DISCARDED).load(Ordering::Relaxed), Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests;
