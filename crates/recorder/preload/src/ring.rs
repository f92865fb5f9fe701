//! The ring of a thread: its slots, and what had no room. A ring outlives its thread, and is given to another one.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::record::{RECORD, RecordKind};
use crate::same_thread::SameThread;
use crate::settings::{self, SETTINGS};
use crate::system::{self, StackText};
use crate::thread::ThreadData;
use crate::{fork, layout, wakeup};

/// Slots of a ring at first.
pub(crate) const SLOTS: u64 = 8;

/// Bytes of the rings that are kept for threads to come, at most.
const KEPT_BYTES: usize = 65 << 20;

/// Rings of threads that are over: where they are mapped, or 0. Whoever takes one out has it alone.
static KEPT: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Forgets the rings of the parent.
pub(crate) fn forget_kept() {
    KEPT.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}

/// Keeps a ring of `len` bytes. `false` when there are enough.
fn keep(base: usize, len: usize) -> bool {
    let mut places = KEPT.iter().take(KEPT_BYTES / len);
    places.any(|place| place.compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed).is_ok())
}

/// A number of four bytes in the header of a ring.
unsafe fn half(base: *mut u8, at: usize) -> &'static AtomicU32 {
    // SAFETY: the caller has the ring, which is mapped; offsets are those of the header.
    unsafe { AtomicU32::from_ptr(base.add(at).cast()) }
}

impl ThreadData {
    /// Counts records that are not there.
    pub(crate) fn count_lost(&self, count: u64) {
        self.lost.change(|lost| lost + count);
        let known = self.number(layout::DISCARDED);
        known.change(|known| known + count);
    }

    fn number(&self, at: usize) -> &AtomicU64 {
        // SAFETY: offsets are those of the header.
        unsafe { AtomicU64::from_ptr(self.ring.base.get().add(at).cast()) }
    }

    /// Begins the next slot. `false` when records have to be dropped.
    pub(crate) fn next_slot(&self) -> bool {
        if fork::notice(Some(self)) {
            return self.not_in_children.end.get() != 0;
        }
        // A handler that interrupts the writing of a record must not take its slot away.
        if self.writing.get() > 0 {
            return false;
        }
        self.while_busy(|| self.begin_slot())
    }

    fn begin_slot(&self) -> bool {
        self.end_slot();
        let done = self.number(layout::DONE).get();
        let mut waited = 0;
        loop {
            let taken = self.number(layout::TAKEN).load(Ordering::Acquire);
            if done - taken < self.ring.slots.get() {
                break;
            }
            if SETTINGS.largest.get() > 0 && self.grow() {
                return true;
            }
            waited += 1;
            // The recorder may not be there any more.
            if !SETTINGS.waits.get() || waited % 100 == 0 && !settings::has_recorder() {
                SETTINGS.waits.set(false);
                return false;
            }
            wakeup::wait(self.number(layout::TAKEN), taken);
        }
        let slot_size = self.ring.slot_size.get() as usize;
        let at = layout::LEN + (done % self.ring.slots.get()) as usize * slot_size;
        // SAFETY: the slot lies in the ring, which has `slots` of them after its header, and belongs to this thread until it is done.
        let slot = unsafe {
            let slot = self.ring.base.get().add(at);
            slot.write_bytes(0, slot_size);
            slot as usize
        };
        self.pos.set(slot);
        self.not_in_children.end.set(slot + slot_size);
        let lost = self.lost.get();
        if lost > 0 {
            self.lost.set(0);
            self.record(RecordKind::Lost, 0, lost as usize);
        }
        true
    }

    /// Ends the open slot, if there is one.
    pub(crate) fn end_slot(&self) {
        if self.not_in_children.end.get() == 0 {
            return;
        }
        let done = self.number(layout::DONE).get() + 1;
        self.number(layout::DONE).store(done, Ordering::Release);
        self.not_in_children.end.set(0);
        self.pos.set(usize::MAX - RECORD);
        if done - self.number(layout::TAKEN).get() >= self.ring.slots.get() / 2 {
            wakeup::wake_recorder();
        }
    }

    /// Goes on in a ring of twice the size, when that is allowed and there is memory. The recorder takes what is in the old
    /// one, and removes it.
    fn grow(&self) -> bool {
        let largest = SETTINGS.largest.get() as u64;
        let slots = self.ring.slots.get() * 2;
        if slots * self.ring.slot_size.get() > largest {
            return false;
        }
        let has_grown = self.make_ring(slots);
        if !has_grown {
            // There is no memory: from now on threads wait.
            SETTINGS.largest.set(0);
        }
        has_grown
    }

    /// Gives a thread that begins a ring.
    pub(crate) fn take_ring(&self) -> bool {
        self.take_kept() || self.make_ring(SLOTS)
    }

    /// Goes on in the ring of a thread that is over, if the recorder has taken everything out of one.
    fn take_kept(&self) -> bool {
        for place in &KEPT {
            if place.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let base = place.swap(0, Ordering::AcqRel) as *mut u8;
            if base.is_null() {
                continue;
            }
            // SAFETY: the ring was taken out, so it is this thread's; what was kept is mapped.
            unsafe {
                let number = |at: usize| AtomicU64::from_ptr(base.add(at).cast());
                let (slots, slot_size) = (number(layout::SLOTS).get(), number(layout::SLOT_SIZE).get());
                let len = layout::LEN + (slots * slot_size) as usize;
                if half(base, layout::STATE).load(Ordering::Acquire) != layout::FREE {
                    if !keep(base as usize, len) {
                        half(base, layout::STATE).store(layout::CLOSED, Ordering::Release);
                        system::munmap(base.cast(), len);
                    }
                    continue;
                }
                self.ring.set(base, len, slots, slot_size);
            }
            self.not_in_children.end.set(0);
            self.lost.set(0);
            self.number(layout::DISCARDED).set(0);
            self.put_thread();
            let is_ready = self.begin_slot();
            // SAFETY: as above.
            unsafe { half(self.ring.base.get(), layout::STATE).store(layout::WRITING, Ordering::Release) };
            return is_ready;
        }
        false
    }

    /// Tells whose ring it is.
    fn put_thread(&self) {
        // SAFETY: it takes nothing and cannot fail.
        let pid = unsafe { system::getpid() } as u64;
        self.number(layout::PID).set(pid | u64::from(system::gettid()) << 32);
    }

    /// Makes a ring for this thread, and closes the one before it.
    pub(crate) fn make_ring(&self, slots: u64) -> bool {
        let slot_size = SETTINGS.slot_size.get() as u64;
        let len = layout::LEN + (slots * slot_size) as usize;
        let rings = settings::ring_folder();
        let mut number = system::clock_ns(1);
        // SAFETY: names are whole texts; a new file of `len` bytes is mapped, and every offset is one of its header.
        unsafe {
            let (mut file, mut made) = (-1, StackText::new());
            // Another thread may have the same number.
            for _ in 0..100 {
                made = StackText::new().add(rings).add(b"/").number(number, 1).add(b".new");
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
            if !self.ring.base.get().is_null() {
                self.close_ring();
            }
            self.ring.set(base.cast(), len, slots, slot_size);
            let put = |at: usize, value: u64| self.number(at).set(value);
            put(0, u64::from_le_bytes(layout::MAGIC));
            put(layout::KIND, 2 | u64::from(layout::WRITING) << 32);
            put(layout::SLOT_SIZE, slot_size);
            put(layout::SLOTS, slots);
            put(layout::MODE, 1);
            self.put_thread();
            let name = StackText::new().add(rings).add(b"/").number(number, 1).add(b".ring");
            self.not_in_children.end.set(0);
            self.lost.set(0);
            let is_ready = self.begin_slot();
            system::rename(made.as_ptr(), name.as_ptr());
            is_ready
        }
    }

    /// The thread is over: its ring is there for another one.
    pub(crate) fn give_back_ring(&self) {
        if self.ring.slots.get() != SLOTS {
            return self.close_ring();
        }
        self.end_slot();
        // SAFETY: the ring is mapped, and this thread's until it is kept.
        unsafe { half(self.ring.base.get(), layout::STATE).store(layout::ENDED, Ordering::Release) };
        if !keep(self.ring.base.get() as usize, self.ring.len.get()) {
            self.close_ring();
        }
    }

    /// A child of `vfork` goes on in a ring of its own. That of the parent stays as it is.
    pub(crate) fn take_new_ring(&self) -> bool {
        self.ring.base.set(std::ptr::null_mut());
        // SAFETY: it takes nothing and cannot fail.
        self.pid.set(unsafe { system::getpid() } as usize);
        self.make_ring(SLOTS)
    }

    /// Tells the recorder that nothing more comes, from anyone.
    pub(crate) fn close_ring(&self) {
        self.end_slot();
        // SAFETY: the ring was mapped by this thread, which uses it no more.
        unsafe {
            half(self.ring.base.get(), layout::STATE).store(layout::CLOSED, Ordering::Release);
            system::munmap(self.ring.base.get().cast(), self.ring.len.get());
        }
    }
}
