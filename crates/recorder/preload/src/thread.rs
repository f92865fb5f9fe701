//! A thread's ring, and its stack of open calls.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence};

use crate::process::{self, SETTINGS};
use crate::system::{self, Text, local};
use crate::{layout, stubs};

/// State of a thread without data: it begins at its next call.
const NEW: usize = 0;
/// It is beginning, or has ended: calls are not recorded.
const OFF: usize = 1;

/// Length of a record.
const RECORD: usize = 16;
/// The marker that every record has in its second word.
const MARKER: u64 = 5 << 3;
const ENTRY: u64 = 0;
const EXIT: u64 = 1;
const LOST: u64 = 2;

/// Frames that stand this far apart, outside of the thread's stack, are on one stack all the same.
const NEAR: usize = 1 << 20;

/// An open call.
#[derive(Clone, Copy)]
struct Frame {
    /// Where it returns to.
    returns: usize,
    /// Where that stands on the stack.
    place: usize,
    /// An address in the function.
    address: usize,
}

/// What a thread needs. In a mapping of its own, with the frames behind it.
pub(crate) struct Thread {
    /// Where the next record goes.
    pos: AtomicUsize,
    /// Where the open slot ends.
    end: usize,
    /// The ring.
    base: *mut u8,
    len: usize,
    /// Number of open calls.
    depth: usize,
    limit: usize,
    /// Is the slow path at work? Signal handlers see it.
    busy: usize,
    /// Records that are being written.
    writing: usize,
    /// Records that had no room, and that no record counts yet.
    lost: u64,
    /// Are return addresses put back, for an unwinder?
    is_put_back: bool,
    /// The thread's stack.
    stack: [usize; 2],
    slots: u64,
    slot_size: u64,
    own_len: usize,
}

impl Frame {
    /// Puts the return address back. Where it was ours, that is: what stands in the place of a frame that was left without
    /// a return may belong to another one.
    unsafe fn put_back(&self) {
        let place = self.place as *mut usize;
        unsafe {
            if *place == stubs::returned as *const () as usize {
                *place = self.returns;
            }
        }
    }
}

/// What the recorder wants of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hook {
    /// The return address is replaced.
    Returns,
    /// The program tells the end of the call itself.
    Told,
}

/// A function was entered: where its return address stands, and an address in it. Not 0 when the slow path is needed.
pub(crate) unsafe extern "C" fn entry(place: usize, address: usize) -> usize {
    unsafe { enter(place, address, Hook::Returns) }
}

unsafe fn enter(place: usize, address: usize, hook: Hook) -> usize {
    unsafe {
        let [pointer, state] = *local();
        let Some(thread) = (pointer as *mut Thread).as_mut() else {
            return usize::from(state == NEW && process::is_on());
        };
        if thread.busy != 0 || thread.depth >= thread.limit {
            return 0;
        }
        if thread.is_put_back && !thread.take_again(place) {
            return 1;
        }
        // A new frame below what is left, or one that stands where a dead one stood.
        while let Some(top) = thread.top().filter(|top| thread.is_dead(top, place, hook)) {
            if !thread.record(EXIT, thread.depth - 1, top.address) {
                return 1;
            }
            thread.depth -= 1;
        }
        if !thread.has_room() {
            return 1;
        }
        let depth = thread.depth;
        // Before the frame is filled: what a signal handler calls stands behind it.
        thread.depth = depth + 1;
        compiler_fence(Ordering::SeqCst);
        let returns = if hook == Hook::Returns { *(place as *const usize) } else { 0 };
        *thread.frame(depth) = Frame { returns, place, address };
        if !thread.record(ENTRY, depth, address) {
            // A handler took the last place.
            thread.lose(1);
        }
        if hook == Hook::Returns {
            *(place as *mut usize) = stubs::returned as *const () as usize;
        }
        0
    }
}

/// As [`entry`], after vector registers were put aside.
pub(crate) unsafe extern "C" fn slow_entry(place: usize, address: usize) -> usize {
    unsafe { slow_enter(place, address, Hook::Returns) };
    0
}

unsafe fn slow_enter(place: usize, address: usize, hook: Hook) {
    system::keeping_errno(|| unsafe {
        while enter(place, address, hook) != 0 {
            let is_ready = match (*local())[0] as *mut Thread {
                thread if thread.is_null() => begin(),
                thread => {
                    let is_ready = (*thread).next_slot();
                    // Neither its entry nor its exit are recorded.
                    (*thread).lose(if is_ready { 0 } else { 2 });
                    is_ready
                }
            };
            if !is_ready {
                break;
            }
        }
    });
}

/// A function returns, whose return address stood there. Gives where it returns to, or 0 when the slow path is needed.
pub(crate) unsafe extern "C" fn exit(place: usize) -> usize {
    unsafe {
        let Some(thread) = ((*local())[0] as *mut Thread).as_mut() else { std::process::abort() };
        loop {
            // Every frame whose return address was replaced is there.
            let Some(top) = thread.top() else { std::process::abort() };
            if thread.busy == 0 && !thread.record(EXIT, thread.depth - 1, top.address) {
                return 0;
            }
            thread.depth -= 1;
            // Those above it were left in another way.
            if top.place == place {
                return top.returns;
            }
        }
    }
}

/// As [`exit`], after vector registers were put aside.
pub(crate) unsafe extern "C" fn slow_exit(place: usize) -> usize {
    system::keeping_errno(|| unsafe {
        loop {
            let thread = (*local())[0] as *mut Thread;
            if !(*thread).next_slot() {
                // Not recorded: the call ends all the same.
                (*thread).lose(1);
                (*thread).busy += 1;
                let returns = exit(place);
                (*thread).busy -= 1;
                return returns;
            }
            let returns = exit(place);
            if returns != 0 {
                return returns;
            }
        }
    })
}

/// A function built with `-finstrument-functions` was entered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cyg_profile_func_enter(function: usize, _call_site: usize) {
    let here = 0_usize;
    let place = &raw const here as usize;
    unsafe {
        if enter(place, function, Hook::Told) != 0 {
            slow_enter(place, function, Hook::Told);
        }
    }
}

/// A function built with `-finstrument-functions` is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cyg_profile_func_exit(function: usize, _call_site: usize) {
    unsafe {
        let Some(thread) = ((*local())[0] as *mut Thread).as_mut() else { return };
        if thread.busy != 0 {
            return;
        }
        // Not there: its entry was not recorded.
        let Some(at) = (0..thread.depth).rev().find(|&at| (*thread.frame(at)).address == function) else { return };
        if thread.is_told(at) {
            while thread.depth > at {
                let depth = thread.depth - 1;
                let address = (*thread.frame(depth)).address;
                while !thread.record(EXIT, depth, address) {
                    if !system::keeping_errno(|| thread.next_slot()) {
                        thread.lose(1);
                        break;
                    }
                }
                thread.depth = depth;
            }
        }
    }
}

impl Thread {
    fn frame(&self, at: usize) -> *mut Frame {
        // SAFETY: the mapping has room for `limit` frames behind this structure.
        unsafe { (&raw const *self).add(1).cast::<Frame>().cast_mut().add(at) }
    }

    fn top(&self) -> Option<Frame> {
        // SAFETY: as in `frame`; frames below `depth` are filled.
        (self.depth > 0).then(|| unsafe { *self.frame(self.depth - 1) })
    }

    /// Is it a call of `-finstrument-functions`?
    fn is_told(&self, at: usize) -> bool {
        unsafe { (*self.frame(at)).returns == 0 }
    }

    /// Was this call left without a return, as a new one at `place` shows?
    unsafe fn is_dead(&self, top: &Frame, place: usize, hook: Hook) -> bool {
        let is_on_stack = |place: usize| (self.stack[0]..self.stack[1]).contains(&place);
        let are_near = match (is_on_stack(top.place), is_on_stack(place)) {
            (true, true) => true,
            (false, false) => top.place.abs_diff(place) < NEAR,
            // A signal handler on a stack of its own.
            _ => false,
        };
        if !are_near {
            return false;
        }
        // A function that another one ended in has the same place, with our address in it.
        let replaced = stubs::returned as *const () as usize;
        let is_same = hook == Hook::Returns && top.returns != 0 && top.place == place;
        top.place < place || is_same && unsafe { *(place as *const usize) } != replaced
    }

    /// Counts records that are not there.
    fn lose(&mut self, count: u64) {
        self.lost += count;
        let known = self.ring(layout::DISCARDED);
        known.store(known.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    fn has_room(&self) -> bool {
        self.pos.load(Ordering::Relaxed) + RECORD <= self.end
    }

    /// Writes a record, if there is room.
    #[inline(always)]
    fn record(&mut self, kind: u64, depth: usize, address: usize) -> bool {
        self.writing += 1;
        compiler_fence(Ordering::SeqCst);
        let (old, clock) = loop {
            let old = self.pos.load(Ordering::Relaxed);
            let clock = system::now();
            if old + RECORD > self.end {
                self.writing -= 1;
                return false;
            }
            // Clock and place agree: again, with another clock, when a signal handler came between.
            if system::replace(&self.pos, old, old + RECORD) {
                break (old, clock);
            }
        };
        let word = kind | MARKER | (depth as u64 & 0x3ff) << 6 | (address as u64) << 16;
        unsafe {
            (old as *mut u64).write(clock);
            // Last: until then the record does not count.
            compiler_fence(Ordering::SeqCst);
            (old as *mut u64).add(1).write_volatile(word);
        }
        compiler_fence(Ordering::SeqCst);
        self.writing -= 1;
        true
    }

    fn ring(&self, at: usize) -> &AtomicU64 {
        // SAFETY: offsets are those of the header.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Begins the next slot. `false` when records have to be dropped.
    fn next_slot(&mut self) -> bool {
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
            waited += 1;
            // The recorder may not be there any more.
            if !SETTINGS.waits.load(Ordering::Relaxed) || waited % 100 == 0 && !process::has_recorder() {
                SETTINGS.waits.store(false, Ordering::Relaxed);
                return false;
            }
            unsafe { system::wait(self.base.add(layout::TAKEN).cast(), taken as u32) };
        }
        let at = layout::LEN as u64 + done % self.slots * self.slot_size;
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

    /// Makes the ring of this thread.
    fn make_ring(&mut self) -> bool {
        let (slots, slot_size) = (8_u64, SETTINGS.slot_size.load(Ordering::Relaxed) as u64);
        let len = layout::LEN + (slots * slot_size) as usize;
        let rings = process::ring_folder();
        let mut number = system::clock_ns(1);
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
            if file < 0 || system::posix_fallocate(file, 0, len as i64) != 0 {
                return false;
            }
            let base = system::mmap(std::ptr::null_mut(), len, system::PROT_READ_WRITE, system::MAP_SHARED, file, 0);
            system::close(file);
            if base as isize == -1 {
                return false;
            }
            system::madvise(base, len, system::MADV_POPULATE_WRITE);
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
    fn close_ring(&mut self) {
        unsafe {
            self.ring(layout::KIND).store(2 | u64::from(layout::ENDED) << 32, Ordering::Release);
            system::munmap(self.base.cast(), self.len);
        }
    }

    /// Puts all return addresses back, for an unwinder that looks at them. Frames that are dead by now are forgotten: what
    /// stands in their places belongs to others. `false` when there is no room for their ends.
    pub(crate) fn put_back(&mut self, stack: usize) -> bool {
        if !self.drop_dead(stack) {
            return false;
        }
        if std::mem::replace(&mut self.is_put_back, true) {
            return true;
        }
        for at in (0..self.depth).rev().filter(|&at| !self.is_told(at)) {
            unsafe { (*self.frame(at)).put_back() };
        }
        true
    }

    /// Replaces return addresses again, those of frames above `stack`. `false` when there is no room for the ends of others.
    pub(crate) fn take_again(&mut self, stack: usize) -> bool {
        if !self.drop_dead(stack) {
            return false;
        }
        if !std::mem::replace(&mut self.is_put_back, false) {
            return true;
        }
        for at in (0..self.depth).filter(|&at| !self.is_told(at)) {
            unsafe {
                let frame = self.frame(at);
                (*frame).returns = *((*frame).place as *const usize);
                *((*frame).place as *mut usize) = stubs::returned as *const () as usize;
            }
        }
        true
    }

    fn drop_dead(&mut self, stack: usize) -> bool {
        while let Some(top) = self.top().filter(|top| unsafe { self.is_dead(top, stack, Hook::Told) }) {
            if self.busy == 0 && !self.record(EXIT, self.depth - 1, top.address) {
                return false;
            }
            self.depth -= 1;
        }
        true
    }

    /// Does something that needs room, and makes that. Where records are dropped, the ends of calls are not recorded.
    pub(crate) fn with_room(&mut self, work: fn(&mut Thread, usize) -> bool, stack: usize) {
        while !work(self, stack) {
            if !self.next_slot() {
                self.lose(1);
                self.busy += 1;
                work(self, stack);
                self.busy -= 1;
                return;
            }
        }
    }
}

/// The calling thread's data, for what is not a call.
pub(crate) unsafe fn current() -> Option<&'static mut Thread> {
    unsafe { ((*local())[0] as *mut Thread).as_mut() }
}

/// Begins to record the calling thread.
unsafe fn begin() -> bool {
    unsafe {
        (*local())[1] = OFF;
        let limit = SETTINGS.depth.load(Ordering::Relaxed);
        let len = size_of::<Thread>() + limit * size_of::<Frame>();
        let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS);
        let pages = system::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0);
        if pages as isize == -1 {
            return false;
        }
        let thread = pages.cast::<Thread>();
        thread.write(Thread {
            pos: AtomicUsize::new(0),
            end: 0,
            base: std::ptr::null_mut(),
            len: 0,
            depth: 0,
            limit,
            busy: 0,
            writing: 0,
            lost: 0,
            is_put_back: false,
            stack: stack(),
            slots: 0,
            slot_size: 0,
            own_len: len,
        });
        process::tell_task(system::clock_ns(SETTINGS.clock()));
        if !(*thread).make_ring() {
            system::munmap(pages, len);
            return false;
        }
        process::set_key(pages);
        (*local())[0] = pages as usize;
        true
    }
}

/// Where the stack of the calling thread lies.
unsafe fn stack() -> [usize; 2] {
    let mut attributes = [0_u64; 16];
    let (mut at, mut len) = (0, 0);
    unsafe {
        let attributes = (&raw mut attributes).cast::<c_void>();
        if system::pthread_getattr_np(system::pthread_self(), attributes) == 0 {
            system::pthread_attr_getstack(attributes, &mut at, &mut len);
            system::pthread_attr_destroy(attributes);
        }
    }
    [at, at + len]
}

/// A thread ends: return addresses are put back, and its ring is closed. Calls of later destructors are not recorded.
pub(crate) extern "C" fn end(pages: *mut c_void) {
    unsafe {
        let thread = &mut *pages.cast::<Thread>();
        thread.busy += 1;
        for at in (0..thread.depth).rev().filter(|&at| !thread.is_told(at)) {
            (*thread.frame(at)).put_back();
        }
        *local() = [0, OFF];
        thread.close_ring();
        system::munmap(pages, thread.own_len);
    }
}

/// A child of `fork` goes on with the calls that were open, in a ring of its own.
pub(crate) fn after_fork() {
    unsafe {
        let Some(thread) = current() else { return };
        thread.busy += 1;
        system::munmap(thread.base.cast(), thread.len);
        if !thread.make_ring() {
            // Nothing is recorded any more; open calls return as before.
            thread.limit = 0;
            thread.end = 0;
            thread.pos.store(usize::MAX - RECORD, Ordering::Relaxed);
        } else {
            thread.busy -= 1;
        }
    }
}
