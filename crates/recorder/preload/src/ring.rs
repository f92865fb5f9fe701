//! The ring of a thread: its slots, and what had no room.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout;
use crate::process::{self, SETTINGS};
use crate::system::{self, Text};
use crate::thread::{LOST, RECORD, Thread};

/// Slots of a ring at first.
pub(crate) const SLOTS: u64 = 8;

impl Thread {
    /// Counts records that are not there.
    pub(crate) fn lose(&mut self, count: u64) {
        self.lost += count;
        let known = self.ring(layout::DISCARDED);
        known.store(known.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub(crate) fn ring(&self, at: usize) -> &AtomicU64 {
        // SAFETY: offsets are those of the header.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Begins the next slot. `false` when records have to be dropped.
    pub(crate) fn next_slot(&mut self) -> bool {
        // A handler that interrupts the writing of a record must not take its slot away.
        if self.writing > 0 {
            return false;
        }
        self.busy += 1;
        let is_ready = self.begin_slot();
        self.busy -= 1;
        is_ready
    }

    fn begin_slot(&mut self) -> bool {
        let mut done = self.ring(layout::DONE).load(Ordering::Relaxed);
        if self.end != 0 {
            done += 1;
            self.ring(layout::DONE).store(done, Ordering::Release);
            self.end = 0;
            self.pos.store(usize::MAX - RECORD, Ordering::Relaxed);
        }
        let mut waited = 0;
        loop {
            let taken = self.ring(layout::TAKEN).load(Ordering::Acquire);
            if done - taken < self.slots {
                break;
            }
            if SETTINGS.largest.load(Ordering::Relaxed) > 0 && self.grow() {
                return true;
            }
            waited += 1;
            // The recorder may not be there any more.
            if !SETTINGS.waits.load(Ordering::Relaxed) || waited % 100 == 0 && !process::has_recorder() {
                SETTINGS.waits.store(false, Ordering::Relaxed);
                return false;
            }
            // SAFETY: the header of the ring is mapped.
            unsafe { system::wait(self.base.add(layout::TAKEN).cast(), taken as u32) };
        }
        let at = layout::LEN as u64 + done % self.slots * self.slot_size;
        // SAFETY: the slot lies in the ring, which has `slots` of them behind its header, and belongs to this thread until it is done.
        unsafe {
            let slot = self.base.add(at as usize);
            slot.write_bytes(0, self.slot_size as usize);
            self.pos.store(slot as usize, Ordering::Relaxed);
            self.end = slot as usize + self.slot_size as usize;
        }
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            self.record(LOST, 0, lost as usize);
        }
        true
    }

    /// Goes on in a ring of twice the size, when that is allowed and there is memory. The recorder takes what is in the old
    /// one, and removes it.
    fn grow(&mut self) -> bool {
        let largest = SETTINGS.largest.load(Ordering::Relaxed) as u64;
        if self.slots * 2 * self.slot_size > largest {
            return false;
        }
        let has_grown = self.make_ring(self.slots * 2);
        if !has_grown {
            // There is no memory: from now on threads wait.
            SETTINGS.largest.store(0, Ordering::Relaxed);
        }
        has_grown
    }

    /// Makes a ring for this thread, and closes the one before it.
    pub(crate) fn make_ring(&mut self, slots: u64) -> bool {
        let slot_size = SETTINGS.slot_size.load(Ordering::Relaxed) as u64;
        let len = layout::LEN + (slots * slot_size) as usize;
        let rings = process::ring_folder();
        let mut number = system::clock_ns(1);
        // SAFETY: names are whole texts; a new file of `len` bytes is mapped, and every offset is one of its header.
        unsafe {
            let (mut file, mut made) = (-1, Text::new());
            // Another thread may have the same number.
            for _ in 0..100 {
                made = Text::new().add(rings).add(b"/").number(number, 1).add(b".new");
                file = system::open(made.as_ptr(), system::O_RDWR_CREAT_EXCL_CLOEXEC, 0o600);
                if file >= 0 {
                    break;
                }
                number += 1;
            }
            if file < 0 {
                return false;
            }
            if system::posix_fallocate(file, 0, len as i64) != 0 {
                system::close(file);
                system::unlink(made.as_ptr());
                return false;
            }
            let base = system::mmap(std::ptr::null_mut(), len, system::PROT_READ_WRITE, system::MAP_SHARED, file, 0);
            system::close(file);
            if base as isize == -1 {
                system::unlink(made.as_ptr());
                return false;
            }
            system::madvise(base, len, system::MADV_POPULATE_WRITE);
            // Before the new one has its name: the recorder takes what is in a ring until its thread has another one. Its
            // header counts what is lost.
            if !self.base.is_null() {
                self.close_ring();
            }
            (self.base, self.len, self.slots, self.slot_size) = (base.cast(), len, slots, slot_size);
            let put = |at: usize, value: u64| self.ring(at).store(value, Ordering::Relaxed);
            put(0, u64::from_le_bytes(layout::MAGIC));
            put(layout::KIND, 2 | u64::from(layout::WRITING) << 32);
            put(layout::SLOT_SIZE, slot_size);
            put(layout::SLOTS, slots);
            put(layout::MODE, 1);
            put(layout::PID, system::getpid() as u64 | u64::from(system::gettid()) << 32);
            let name = Text::new().add(rings).add(b"/").number(number, 1).add(b".ring");
            (self.end, self.lost) = (0, 0);
            let is_ready = self.begin_slot();
            system::rename(made.as_ptr(), name.as_ptr());
            is_ready
        }
    }

    /// Tells the recorder that nothing more comes.
    pub(crate) fn close_ring(&mut self) {
        // SAFETY: the ring was mapped by this thread, which uses it no more.
        unsafe {
            self.ring(layout::KIND).store(2 | u64::from(layout::ENDED) << 32, Ordering::Release);
            system::munmap(self.base.cast(), self.len);
        }
    }
}
