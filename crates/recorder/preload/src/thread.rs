//! A thread's ring, and its stack of open calls.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence};

use crate::fork::{self, Kept};
use crate::process::{self, SETTINGS};
use crate::stubs::Saved;
use crate::system::{self, local};
use crate::{bell, exec, full, rules, stubs, values};

/// State of a thread without data: it begins at its next call.
pub(crate) const NEW: usize = 0;
/// It is beginning, or has ended: calls are not recorded.
const OFF: usize = 1;
/// It could not begin: its calls are counted.
pub(crate) const RINGLESS: usize = 2;
/// As before, since it is in seccomp's strict mode.
pub(crate) const STRICT: usize = 3;

/// Length of a record.
pub(crate) const RECORD: usize = 16;
/// The marker that every record has in its second word.
const MARKER: u64 = 5 << 3;
pub(crate) const ENTRY: u64 = 0;
pub(crate) const EXIT: u64 = 1;
pub(crate) const LOST: u64 = 2;
/// Values follow.
const MORE: u64 = 4;

/// Frames that stand this far apart, outside of the thread's stack, are on one stack all the same.
const NEAR: usize = 1 << 20;

/// The second word of a record.
pub(crate) fn word(kind: u64, depth: usize, address: usize) -> u64 {
    kind | MARKER | (depth as u64 & 0x3ff) << 6 | (address as u64) << 16
}

/// An open call.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// Where it returns to; 0 when the program tells its end.
    pub(crate) returns: usize,
    /// Where that stands on the stack.
    pub(crate) place: usize,
    /// An address in the function.
    pub(crate) address: usize,
}

/// The state of a thread. In a mapping of its own, with the frames behind it.
#[repr(C)]
pub(crate) struct Thread {
    pub(crate) kept: Kept,
    /// May the stubs write records of calls themselves? The stubs compare it together with the next ones, as one number of
    /// eight bytes.
    pub(crate) way: Way,
    /// Are return addresses put back, for an unwinder?
    pub(crate) is_put_back: bool,
    /// Is there no ring, as after a fork where none could be made? Then it is busy, until a child gets one.
    pub(crate) is_ringless: bool,
    /// Is it in seccomp's strict mode? Then it is busy for ever.
    pub(crate) is_strict: bool,
    /// Is the slow path at work? Signal handlers see it.
    pub(crate) busy: u32,
    /// Where the next record goes.
    pub(crate) pos: AtomicUsize,
    /// Number of open calls.
    pub(crate) depth: usize,
    pub(crate) limit: usize,
    /// Records that are being written.
    pub(crate) writing: usize,
    /// The calls that are selected, of use only when they are.
    pub(crate) selected: Selected,
    /// Are calls selected, or their values recorded?
    pub(crate) is_full: bool,
    /// Is it told when a call that is selected is beyond the limit? Once it was, no more.
    pub(crate) tells_depth: bool,
    /// Calls beyond the limit whose ends the program tells.
    over: usize,
    pub(crate) ring: Mapped,
    pub(crate) own: Own,
    /// When the last call ended whose end was guessed.
    guessed: u64,
    /// Records that had no room, and that no record counts yet.
    pub(crate) lost: u64,
}

/// The selection of calls of a thread.
#[repr(C)]
pub(crate) struct Selected {
    /// The cache of actions; null when no function has one.
    pub(crate) cache: *const AtomicU64,
    /// What calls have beside their frames.
    pub(crate) extras: *mut full::Extra,
    /// Do entries wait for the end of their calls?
    pub(crate) is_late: bool,
    /// Are functions without an action left out now?
    pub(crate) skips: bool,
    /// The selection that holds now.
    pub(crate) state: full::State,
}

/// The ring of a thread, where it is mapped.
#[derive(Clone, Copy)]
pub(crate) struct Mapped {
    pub(crate) base: *mut u8,
    pub(crate) len: usize,
    pub(crate) slots: u64,
    pub(crate) slot_size: u64,
}

impl Mapped {
    const NONE: Mapped = Mapped { base: std::ptr::null_mut(), len: 0, slots: 0, slot_size: 0 };
}

/// The facts of a thread that stay the same.
pub(crate) struct Own {
    /// Its process.
    pub(crate) pid: usize,
    /// Bytes of its data.
    len: usize,
    /// Where its stack lies.
    stack: [usize; 2],
}

/// The writer of records of calls.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Way {
    /// Functions of this library.
    Functions = 0,
    /// The stubs: all calls are recorded alike.
    Plain = 1,
    /// The stubs, those of functions that have no action.
    Selected = 2,
}

impl Frame {
    /// Puts the return address back. Where it was ours, that is: what stands in the place of a frame that was left without
    /// a return may belong to another one.
    unsafe fn put_back(&self) {
        let place = self.place as *mut usize;
        // SAFETY: the caller's frame is live, or its place is still on the stack.
        unsafe {
            if *place == stubs::returned as *const () as usize {
                *place = self.returns;
            }
        }
    }
}

/// How the end of a call is learned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// The return address is replaced.
    Returns,
    /// It stays, and the end of the call is guessed.
    Guessed,
    /// The program tells the end of the call itself.
    Told,
}

/// A function was entered: where its return address stands, and an address in it. Not 0 when the slow path is needed.
pub(crate) unsafe extern "C" fn entry(saved: &Saved) -> usize {
    // SAFETY: the stub's caller is a function that has just begun, and its return address stands there.
    unsafe { enter(saved.place, saved.address, Hook::Returns, Some(saved)) }
}

unsafe fn enter(place: usize, address: usize, hook: Hook, saved: Option<&Saved>) -> usize {
    // SAFETY: the caller's, for the place; the thread's data is its own, and frames below `depth` are filled.
    unsafe {
        let [pointer, state, ..] = *local();
        let Some(thread) = (pointer as *mut Thread).as_mut() else {
            match state {
                RINGLESS => bell::count_call(),
                STRICT => bell::count_strict_call(),
                _ => {}
            }
            return usize::from(state == NEW && process::is_on());
        };
        let is_guessed = thread.is_full && hook == Hook::Returns && SETTINGS.guesses.load(Ordering::Relaxed);
        let hook = if is_guessed { Hook::Guessed } else { hook };
        if thread.busy != 0 {
            if thread.is_strict {
                bell::count_strict_call();
            } else if thread.is_ringless {
                bell::count_call();
            }
            return 0;
        }
        if thread.is_put_back && !thread.take_again(place) {
            return 1;
        }
        // A new frame below what is left, or one that stands where a dead one stood.
        while thread.top().is_some_and(|top| thread.is_dead(&top, place, hook)) {
            thread.over = 0;
            if !thread.close(None) {
                return 1;
            }
        }
        if thread.depth >= thread.limit {
            if thread.tells_depth && (!thread.is_full || full::would_record(thread, address)) {
                thread.tells_depth = false;
                bell::tell_depth();
            }
            // Its end is told as well.
            thread.over += usize::from(hook == Hook::Told);
            return 0;
        }
        if thread.is_full {
            return full::enter(thread, place, address, hook, saved);
        }
        if !thread.has_room(RECORD) {
            return 1;
        }
        let depth = thread.depth;
        thread.push(place, address, hook);
        if !thread.record(ENTRY, depth, address) {
            // A handler took the last place.
            thread.lose(1);
        }
        0
    }
}

/// As [`entry`], after vector registers were put aside.
pub(crate) unsafe extern "C" fn slow_entry(saved: &Saved) -> usize {
    // SAFETY: as in `entry`.
    unsafe { slow_enter(saved.place, saved.address, Hook::Returns, Some(saved)) };
    0
}

unsafe fn slow_enter(place: usize, address: usize, hook: Hook, saved: Option<&Saved>) {
    // SAFETY: the caller's, for the place; the thread's data is its own.
    system::keeping_errno(|| unsafe {
        while enter(place, address, hook, saved) != 0 {
            let is_ready = match (*local())[0] as *mut Thread {
                thread if thread.is_null() => {
                    begin();
                    true
                }
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
pub(crate) unsafe extern "C" fn exit(saved: &Saved) -> usize {
    // SAFETY: the thread's data is its own, and frames below `depth` are filled.
    unsafe {
        let Some(thread) = ((*local())[0] as *mut Thread).as_mut() else { std::process::abort() };
        loop {
            // Every frame whose return address was replaced is there.
            let Some(top) = thread.top() else { std::process::abort() };
            if !thread.close(Some(saved).filter(|saved| saved.place == top.place)) {
                return 0;
            }
            // Those above it were left in another way.
            if top.place == saved.place {
                return top.returns;
            }
        }
    }
}

/// As [`exit`], after vector registers were put aside.
pub(crate) unsafe extern "C" fn slow_exit(saved: &Saved) -> usize {
    // SAFETY: as in `exit`.
    system::keeping_errno(|| unsafe {
        loop {
            let thread = (*local())[0] as *mut Thread;
            if !(*thread).next_slot() {
                // Not recorded: the call ends all the same.
                (*thread).lose(1);
                (*thread).busy += 1;
                let returns = exit(saved);
                (*thread).busy -= 1;
                return returns;
            }
            let returns = exit(saved);
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
    // SAFETY: the place is on this stack; the thread's data is its own.
    unsafe {
        if enter(place, function, Hook::Told, None) != 0 {
            slow_enter(place, function, Hook::Told, None);
        }
    }
}

/// A function built with `-finstrument-functions` is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cyg_profile_func_exit(function: usize, _call_site: usize) {
    // SAFETY: the thread's data is its own, and frames below `depth` are filled.
    unsafe {
        let Some(thread) = ((*local())[0] as *mut Thread).as_mut() else { return };
        if thread.busy != 0 {
            return;
        }
        if thread.over > 0 {
            thread.over -= 1;
            return;
        }
        // Not there: its entry was not recorded.
        let Some(at) = (0..thread.depth).rev().find(|&at| (*thread.frame(at)).address == function) else { return };
        if thread.is_told(at) {
            while thread.depth > at {
                while !thread.close(None) {
                    if !system::keeping_errno(|| thread.next_slot()) {
                        thread.lose(1);
                        thread.busy += 1;
                        thread.close(None);
                        thread.busy -= 1;
                        break;
                    }
                }
            }
        }
    }
}

impl Thread {
    pub(crate) fn frame(&self, at: usize) -> *mut Frame {
        // SAFETY: the mapping has room for `limit` frames behind this structure.
        unsafe { (&raw const *self).add(1).cast::<Frame>().cast_mut().add(at) }
    }

    fn top(&self) -> Option<Frame> {
        // SAFETY: as in `frame`; frames below `depth` are filled.
        (self.depth > 0).then(|| unsafe { *self.frame(self.depth - 1) })
    }

    /// Is it a call of `-finstrument-functions`?
    fn is_told(&self, at: usize) -> bool {
        // SAFETY: the caller's frame is below `depth`, so it is filled.
        unsafe { (*self.frame(at)).returns == 0 }
    }

    /// Was this call left without a return, as a new one at `place` shows?
    unsafe fn is_dead(&self, top: &Frame, place: usize, hook: Hook) -> bool {
        let is_on_stack = |place: usize| (self.own.stack[0]..self.own.stack[1]).contains(&place);
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
        if hook == Hook::Guessed {
            return top.place <= place;
        }
        let is_same = hook == Hook::Returns && top.returns != 0 && top.place == place;
        // SAFETY: a function was just called there, so its return address can be read.
        top.place < place || is_same && unsafe { *(place as *const usize) } != replaced
    }

    /// Changes the selection that holds now.
    pub(crate) fn set_state(&mut self, state: full::State) {
        self.selected.state = state;
        self.selected.skips = state.skips();
    }

    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.pos.load(Ordering::Relaxed) + len <= self.kept.end
    }

    /// When a call ended that is found to be over: half way from its beginning, and not before the last record.
    pub(crate) fn guess(&mut self, begin: u64, now: u64) -> u64 {
        self.guessed = (begin + now.wrapping_sub(begin) / 2).max(self.guessed + 1).min(now);
        self.guessed
    }

    /// Opens a call.
    #[inline(always)]
    pub(crate) unsafe fn push(&mut self, place: usize, address: usize, hook: Hook) {
        let depth = self.depth;
        // Before the frame is filled: what a signal handler calls stands behind it.
        self.depth = depth + 1;
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the caller's frame is live, so its return address is there to be read and replaced; the thread's frames
        // have room for `limit` of them.
        unsafe {
            let returns = if hook == Hook::Returns { *(place as *const usize) } else { 0 };
            *self.frame(depth) = Frame { returns, place, address };
            if hook == Hook::Returns {
                *(place as *mut usize) = stubs::returned as *const () as usize;
            }
        }
    }

    /// Ends the innermost call, with what the stub saved of its result. `false` when there is no room for its records.
    #[inline(always)]
    pub(crate) unsafe fn close(&mut self, saved: Option<&Saved>) -> bool {
        let at = self.depth - 1;
        // SAFETY: frames below `depth` are filled.
        unsafe {
            if self.is_full {
                return full::close(self, saved);
            }
            if self.busy == 0 && !self.record(EXIT, at, (*self.frame(at)).address) {
                return false;
            }
        }
        self.depth = at;
        true
    }

    /// Writes a record of this time, if there is room.
    #[inline(always)]
    pub(crate) fn record(&mut self, kind: u64, depth: usize, address: usize) -> bool {
        self.record_at(kind, depth, address, None, (std::ptr::null(), 0))
    }

    /// Writes a record, if there is room; of a time that is over, when that is given; with values, whose length goes before
    /// them.
    #[inline(always)]
    pub(crate) fn record_at(
        &mut self,
        kind: u64,
        depth: usize,
        address: usize,
        time: Option<u64>,
        values: (*const u8, usize),
    ) -> bool {
        let len = if values.1 == 0 { RECORD } else { (RECORD + 8 + values.1).next_multiple_of(RECORD) };
        self.writing += 1;
        compiler_fence(Ordering::SeqCst);
        let (old, clock) = loop {
            let old = self.pos.load(Ordering::Relaxed);
            let clock = time.unwrap_or_else(system::now);
            if old + len > self.kept.end {
                self.writing -= 1;
                return false;
            }
            // Clock and place agree: again, with another clock, when a signal handler came between.
            if system::replace(&self.pos, old, old + len) {
                break (old, clock);
            }
        };
        let word = word(kind, depth, address);
        // SAFETY: these bytes of the slot were claimed for this record.
        unsafe {
            let record = old as *mut u64;
            record.write(clock);
            if values.1 > 0 {
                // Of a record that does not count: where the next one stands.
                record.add(1).write_volatile(((len / RECORD) as u64) << 16);
                record.add(2).write(values.1 as u64);
                values::copy(values.0, record.add(3).cast(), values.1);
            }
            // Last: until then the record does not count.
            compiler_fence(Ordering::SeqCst);
            record.add(1).write_volatile(if values.1 > 0 { word | MORE } else { word });
        }
        compiler_fence(Ordering::SeqCst);
        self.writing -= 1;
        true
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
            // SAFETY: frames below `depth` are filled, and dead ones were dropped.
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
            // SAFETY: frames below `depth` are filled, and live: their return addresses can be read and written.
            unsafe {
                let frame = self.frame(at);
                (*frame).returns = *((*frame).place as *const usize);
                *((*frame).place as *mut usize) = stubs::returned as *const () as usize;
            }
        }
        true
    }

    fn drop_dead(&mut self, stack: usize) -> bool {
        // SAFETY: the thread's data is its own.
        while self.top().is_some_and(|top| unsafe { self.is_dead(&top, stack, Hook::Told) }) {
            // SAFETY: as above.
            if unsafe { !self.close(None) } {
                return false;
            }
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
    // SAFETY: the pointer is null, or leads to the mapping of this thread.
    unsafe { ((*local())[0] as *mut Thread).as_mut() }
}

/// The thread becomes another program: what it has recorded is the recorder's. A child that has the ring of its parent must
/// not end the slot in which that goes on.
pub(crate) fn before_exec() {
    if !fork::is_itself() {
        return;
    }
    // SAFETY: the thread's data is its own.
    if let Some(thread) = unsafe { current() }.filter(|thread| thread.busy == 0 && thread.writing == 0) {
        thread.busy += 1;
        thread.end_slot();
        thread.busy -= 1;
    }
}

/// Begins to record the calling thread, or to count its calls.
unsafe fn begin() {
    // SAFETY: the thread's data is its own.
    unsafe {
        fork::notice(None);
        (*local())[1] = OFF;
        if !begin_ring() {
            (*local())[1] = RINGLESS;
            bell::count_thread();
        }
    }
}

unsafe fn begin_ring() -> bool {
    // SAFETY: the mapping has room for the structure and all frames; it is this thread's alone.
    unsafe {
        let limit = SETTINGS.depth.load(Ordering::Relaxed);
        let is_full = full::is_wanted();
        let extra = if is_full { full::len() } else { 0 };
        let len = size_of::<Thread>() + limit * (size_of::<Frame>() + extra);
        let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS);
        let pages = system::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0);
        if pages as isize == -1 {
            return false;
        }
        let thread = pages.cast::<Thread>();
        let way = match (system::HAS_COUNTER.load(Ordering::Relaxed), is_full) {
            (1, false) => Way::Plain,
            (1, true) if full::is_simple() => Way::Selected,
            _ => Way::Functions,
        };
        let state = full::State::new();
        thread.write(Thread {
            kept: Kept::new(),
            way,
            is_put_back: false,
            is_ringless: false,
            is_strict: false,
            busy: 0,
            pos: AtomicUsize::new(0),
            depth: 0,
            limit,
            writing: 0,
            selected: Selected {
                cache: rules::cache(),
                extras: thread.add(1).cast::<Frame>().add(limit).cast(),
                is_late: is_full && full::is_late(),
                skips: state.skips(),
                state,
            },
            is_full,
            tells_depth: SETTINGS.tells_depth.load(Ordering::Relaxed),
            over: 0,
            ring: Mapped::NONE,
            own: Own { pid: system::getpid() as usize, len, stack: stack() },
            guessed: 0,
            lost: 0,
        });
        (*thread).kept.keep();
        process::tell_task(system::clock_ns(SETTINGS.clock()));
        if !(*thread).take_ring() {
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
    // SAFETY: `attributes` is larger than the structure of the C library, which fills it.
    unsafe {
        let attributes = (&raw mut attributes).cast::<c_void>();
        if system::pthread_getattr_np(system::pthread_self(), attributes) == 0 {
            system::pthread_attr_getstack(attributes, &mut at, &mut len);
            system::pthread_attr_destroy(attributes);
        }
    }
    [at, at + len]
}

/// The process ends: calls whose ends are guessed end with it.
pub(crate) fn end_guessed() {
    // SAFETY: the thread's data is its own.
    unsafe {
        if let Some(thread) = current().filter(|thread| thread.is_full && SETTINGS.guesses.load(Ordering::Relaxed)) {
            while thread.depth > 0 && (thread.close(None) || thread.next_slot()) {}
        }
    }
}

/// A thread ends: return addresses are put back, and its ring is closed. Calls of later destructors are not recorded.
pub(crate) extern "C" fn end(pages: *mut c_void) {
    // SAFETY: it is called by the thread whose pages these are, once.
    unsafe {
        end_guessed();
        let thread = &mut *pages.cast::<Thread>();
        fork::notice(Some(thread));
        thread.busy += 1;
        for at in (0..thread.depth).rev().filter(|&at| !thread.is_told(at)) {
            (*thread.frame(at)).put_back();
        }
        ((*local())[0], (*local())[1]) = (0, OFF);
        exec::forget_left();
        if !thread.is_ringless {
            thread.give_back_ring();
        }
        system::munmap(pages, thread.own.len);
    }
}
