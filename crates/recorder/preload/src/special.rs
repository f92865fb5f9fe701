//! Functions of libraries that do not simply return.
//!
//! * *Momentary* ones keep their return address for later (`swapcontext`), or look at it (`dlsym` wants to know who calls). It
//!   must be the program's. They begin and end at once in the recording.
//! * `setjmp` returns again, when `longjmp` is called: its return address must be the program's, too. What was open then is
//!   open again after the `longjmp`, and what was begun since is over. So the end of `setjmp` is written once more, of the same
//!   depth: readers know by that what was left. uftrace writes the same records.
//! * `exec`, `exit` and others may be the last that a process does: entries that wait for the ends of their calls are written.
//! * `vfork` returns twice in the same memory: see [`vfork`].

use std::sync::atomic::Ordering;

use crate::enter::slow_library_entry;
use crate::record::RecordKind;
use crate::same_thread::SameThread;
use crate::saved::Saved;
use crate::thread::{ThreadData, current};
use crate::{fork, selective, system};

/// A call that has begun, and whose frame is the innermost.
struct Begun<'a> {
    thread: &'a ThreadData,
    /// Of the open calls before it so many were recorded.
    recorded: usize,
    is_recorded: bool,
}

impl Begun<'_> {
    /// Ends the call, whose return address is put back.
    fn end(&self) {
        while !self.thread.close(None) {
            if !self.thread.next_slot() {
                self.thread.count_lost(1);
                self.thread.while_busy(|| self.thread.close(None));
                return;
            }
        }
    }
}

/// Begins a call whose return address stays as it is. `None` when it has no frame.
unsafe fn begin(saved: &Saved) -> Option<Begun<'static>> {
    // SAFETY: the stub's caller is a trampoline, and what it saved are the registers of the program.
    unsafe { slow_library_entry(saved) };
    let thread = current()?;
    let top = thread.top().filter(|top| top.place.get() == saved.place && top.address.get() == saved.address)?;
    // SAFETY: the call is live.
    unsafe { top.put_back() };
    let at = thread.depth.get() - 1;
    let (recorded, is_recorded) = match thread.is_selective {
        true => (thread.extra(at).recorded.get() as usize, thread.extra(at).flags.get() & selective::RECORDED != 0),
        false => (at, true),
    };
    Some(Begun { thread, recorded, is_recorded })
}

/// A function that needs its return address.
pub(crate) unsafe extern "C" fn momentary(saved: &Saved) -> usize {
    system::keeping_errno(|| {
        // SAFETY: the stub's.
        if let Some(begun) = unsafe { begin(saved) } {
            begun.end();
        }
    });
    0
}

/// As [`momentary`]; the point is kept.
pub(crate) unsafe extern "C" fn setjmp(saved: &Saved) -> usize {
    system::keeping_errno(|| {
        // SAFETY: the stub's.
        let Some(begun) = (unsafe { begin(saved) }) else { return };
        let thread = begun.thread;
        let point = thread.jumps.place(saved.rdi);
        begun.end();
        point.buffer.set(saved.rdi);
        point.depth.set(thread.depth.get() as u32);
        point.recorded.set(begun.recorded as u32);
        point.address.set(if begun.is_recorded { saved.address } else { 0 });
    });
    0
}

/// A function that goes on where `setjmp` was called.
pub(crate) unsafe extern "C" fn longjmp(saved: &Saved) -> usize {
    system::keeping_errno(|| {
        // SAFETY: the stub's.
        unsafe { slow_library_entry(saved) };
        let Some(thread) = current().filter(|thread| thread.busy.get() == 0) else { return };
        write_waiting(thread);
        let depth = thread.depth.get();
        let point = thread.jumps.find(saved.rdi).filter(|point| point.depth.get() as usize <= depth);
        // Where `setjmp` was called by a library, calls that are over are found when others begin.
        let Some(point) = point else { return };
        thread.over.set(0);
        // They have no end of their own.
        while thread.depth.get() > point.depth.get() as usize {
            thread.while_busy(|| thread.close(None));
        }
        let (recorded, address) = (point.recorded.get() as usize, point.address.get());
        while address != 0 && !thread.record(RecordKind::Exit, recorded, address) {
            if !thread.next_slot() {
                return thread.count_lost(1);
            }
        }
    });
    0
}

/// A function that may be the last one.
pub(crate) unsafe extern "C" fn last(saved: &Saved) -> usize {
    system::keeping_errno(|| {
        // SAFETY: the stub's.
        unsafe { slow_library_entry(saved) };
        if let Some(thread) = current().filter(|thread| thread.busy.get() == 0) {
            write_waiting(thread);
        }
    });
    0
}

fn write_waiting(thread: &ThreadData) {
    while thread.is_selective && !selective::flush(thread, thread.depth.get()) {
        if !thread.next_slot() {
            return thread.count_lost(1);
        }
    }
}

/// The child of `vfork` has the memory of its parent, which waits: what it writes would be in the parent's ring, and the calls
/// that it begins would be open in the parent. So it gets a ring of its own, and the parent takes its own back when it goes
/// on. The return address is kept in a register, since the child writes over its place.
pub(crate) unsafe extern "C" fn vfork(saved: &Saved) -> usize {
    system::keeping_errno(|| {
        // SAFETY: the stub's. The call ends in the child and in the parent.
        unsafe { begin(saved) };
        if let Some(thread) = current().filter(|thread| thread.busy.get() == 0) {
            write_waiting(thread);
        }
    });
    0
}

/// Ends the call of `vfork`, whose return address stands there.
fn end_vfork(thread: &ThreadData, place: usize) {
    if thread.top().is_some_and(|top| top.place.get() == place) {
        Begun { thread, recorded: 0, is_recorded: true }.end();
    }
}

/// The child of `vfork` goes on.
pub(crate) unsafe extern "C" fn after_vfork_in_child(place: usize) {
    let is_whole = |thread: &&ThreadData| thread.busy.get() == 0 && thread.writing.get() == 0;
    let Some(thread) = current().filter(is_whole).filter(|thread| !thread.lent.is_lent.get()) else { return };
    let lent = &thread.lent;
    lent.ring.take_from(&thread.ring);
    lent.pos.set(thread.pos.get());
    lent.end.set(thread.not_in_children.end.get());
    lent.lost.set(thread.lost.get());
    lent.pid.set(thread.pid.get());
    lent.depth.set(thread.depth.get());
    lent.over.set(thread.over.get());
    lent.selection.set(thread.selected.now.get());
    if let Some(at) = thread.depth.get().checked_sub(1) {
        lent.frame.take_from(thread.frame(at));
        if thread.is_selective {
            lent.extra.take_from(thread.extra(at));
        }
    }
    lent.is_lent.store(true, Ordering::Release);
    fork::append_child(lent.pid.get());
    if !thread.while_busy(|| thread.take_new_ring()) {
        // The parent goes on as before; of the child nothing is recorded.
        thread.busy.change(|busy| busy + 1);
        return;
    }
    end_vfork(thread, place);
}

/// The parent goes on: the child is another program, or over. Or there is none.
pub(crate) unsafe extern "C" fn after_vfork(place: usize) {
    system::keeping_errno(|| {
        let Some(thread) = current() else { return };
        let lent = &thread.lent;
        if lent.is_lent.get() {
            if thread.busy.get() > 0 {
                thread.busy.change(|busy| busy - 1);
            } else {
                thread.while_busy(|| thread.close_ring());
            }
            thread.ring.take_from(&lent.ring);
            thread.pos.set(lent.pos.get());
            thread.not_in_children.end.set(lent.end.get());
            thread.lost.set(lent.lost.get());
            thread.pid.set(lent.pid.get());
            thread.depth.set(lent.depth.get());
            thread.over.set(lent.over.get());
            // One that was killed while it wrote.
            thread.writing.set(0);
            thread.selected.now.set(lent.selection.get());
            if let Some(at) = thread.depth.get().checked_sub(1) {
                thread.frame(at).take_from(&lent.frame);
                if thread.is_selective {
                    thread.extra(at).take_from(&lent.extra);
                }
            }
            lent.is_lent.set(false);
        }
        if thread.busy.get() == 0 {
            end_vfork(thread, place);
        }
    });
}
