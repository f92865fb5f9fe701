//! Records, and their way into the open slot.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::replace::replace;
use crate::same_thread::SameThread;
use crate::thread::ThreadData;
use crate::{system, values};

/// Length of a record.
pub(crate) const RECORD: usize = 16;
/// The marker that every record has in its second word.
const MARKER: u64 = 5 << 3;
/// Values follow.
const MORE: u64 = 4;

/// The kind of a record.
#[derive(Clone, Copy)]
pub(crate) enum RecordKind {
    Entry = 0,
    Exit = 1,
    Lost = 2,
    Event = 3,
}

/// The values of a call, put together.
#[derive(Clone, Copy)]
pub(crate) struct CallValues {
    pub(crate) at: *const u8,
    pub(crate) len: usize,
}

impl CallValues {
    pub(crate) const NONE: CallValues = CallValues { at: std::ptr::null(), len: 0 };
}

/// The second word of a record.
fn word(kind: RecordKind, depth: usize, address: usize) -> u64 {
    kind as u64 | MARKER | (depth as u64 & 0x3ff) << 6 | (address as u64) << 16
}

impl ThreadData {
    /// Is there room for so many bytes in the open slot?
    #[inline(always)]
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.pos.get() + len <= self.not_in_children.end.get()
    }

    /// Writes a record of this time, if there is room.
    #[inline(always)]
    pub(crate) fn record(&self, kind: RecordKind, depth: usize, address: usize) -> bool {
        self.record_at(kind, depth, address, None, CallValues::NONE)
    }

    /// Writes a record, if there is room; of a time that is over, when that is given; with values, whose length goes before
    /// them.
    #[inline(always)]
    pub(crate) fn record_at(
        &self,
        kind: RecordKind,
        depth: usize,
        address: usize,
        time: Option<u64>,
        values: CallValues,
    ) -> bool {
        let len = if values.len == 0 { RECORD } else { (RECORD + 8 + values.len).next_multiple_of(RECORD) };
        self.writing.change(|writing| writing + 1);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: addresses have 64 bits here, and the field lives as long as the thread's data.
        let pos = unsafe { AtomicU64::from_ptr(self.pos.as_ptr().cast()) };
        let (old, clock) = loop {
            let old = self.pos.get();
            let clock = time.unwrap_or_else(system::now);
            if old + len > self.not_in_children.end.get() {
                self.writing.change(|writing| writing - 1);
                return false;
            }
            // Clock and place agree: again, with another clock, when a signal handler came between.
            if replace(pos, old as u64, (old + len) as u64) {
                break (old, clock);
            }
        };
        let word = word(kind, depth, address);
        // SAFETY: these bytes of the slot were claimed for this record.
        unsafe {
            let record = old as *mut u64;
            record.write(clock);
            if values.len > 0 {
                // Of a record that does not count: where the next one stands.
                record.add(1).write_volatile(((len / RECORD) as u64) << 16);
                record.add(2).write(values.len as u64);
                values::copy(values.at, record.add(3).cast(), values.len);
            }
            // Last: until then the record does not count.
            compiler_fence(Ordering::SeqCst);
            record.add(1).write_volatile(if values.len > 0 { word | MORE } else { word });
        }
        compiler_fence(Ordering::SeqCst);
        self.writing.change(|writing| writing - 1);
        true
    }
}
