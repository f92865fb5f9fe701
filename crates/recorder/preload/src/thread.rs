//! The data of a thread that is recorded: its stack of open calls, its selection, and where its ring is mapped.
//!
//! # Why the `unsafe` here, and in the modules that use it, is sound
//!
//! * A [`ThreadData`] is a private mapping, whose address stands in thread-local storage ([`Local`](crate::local::Local)). Only
//!   its own thread reaches it: functions of this library, signal handlers, which run to their end or leave while what they
//!   interrupted stands still, and children of `vfork`, which have the same memory while their parent waits. The pointers
//!   in it keep the compiler from sending one to another thread.
//! * `begin` writes it as a whole, before its address is known. From then on there is no `&mut Thread`, only `&Thread`:
//!   a handler has one of its own while what it interrupted has another, in the middle of whatever it does.
//! * What changes is atomic. A read or a write of [`SameThread`] is relaxed: one plain instruction, as the stubs have it in
//!   assembly. What stays the same after `begin` is plain.
//! * What is read first and written then needs a reason, since a handler may come between:
//!     * `busy` and `writing` go up and down again, so a handler leaves them as it found them. So do `depth` and the
//!       selection, but for calls that the handler finds dead, and those are above or beside what was interrupted.
//!     * `pos` is moved on by a handler that writes records. It is changed by a `cmpxchg` ([`replace`](crate::replace::replace)), after the
//!       clock was read: the order of records is that of their times.
//!     * `ring` and the end of the slot change only while `writing` is 0, and while `busy` sends handlers away.
//! * Frames below `depth` are filled. A frame is filled before `depth` counts it, so that a handler sees no remains of an older
//!   call, and once more after that: a handler that came before had its own calls there. An [`FrameState`] is written
//!   after its frame; one without a call has no flags, so a handler that finds its call dead forgets only the frame.
//! * The order of steps is kept by compiler fences: handlers of the same thread see them in program order on every
//!   processor. The recorder reads only what was stored with release, and records whose second word is there.
//! * A `&Thread` lives as long as it is used: `end` removes the mapping, as the last that this library does for the thread.
//!   Nothing of it is interrupted below, or that never goes on: threads end by returning, or by unwinding all of their stack.
//! * Return addresses on the program's stack are no memory of ours. They are read and written by address, while their frames
//!   live; the head of the library says when that is.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use crate::jumps::{JumpPoints, Lent};
use crate::local::local;
use crate::same_thread::SameThread;
use crate::saved::Saved;
use crate::system;

const PAGE: usize = 4096;

/// The data of a thread, in a mapping of its own: after it frames, then what calls have beside those.
#[repr(C)]
pub(crate) struct ThreadData {
    pub(crate) not_in_children: NotInChildren,
    /// May the stubs write records of calls themselves? The stubs compare it together with the next ones, as one number of
    /// eight bytes.
    pub(crate) path: RecordPath,
    /// Are return addresses put back, for an unwinder?
    pub(crate) is_put_back: AtomicBool,
    /// Is there no ring, as after a fork where none could be made? Then it is busy, until a child gets one.
    pub(crate) is_ringless: AtomicBool,
    /// Is it in seccomp's strict mode? Then it is busy for ever.
    pub(crate) is_strict: AtomicBool,
    /// Is the slow path at work? Signal handlers see it.
    pub(crate) busy: AtomicU32,
    /// Where the next record goes.
    pub(crate) pos: AtomicUsize,
    /// Number of open calls.
    pub(crate) depth: AtomicUsize,
    /// Calls that may be open; 0 once nothing is recorded any more.
    pub(crate) limit: AtomicUsize,
    /// Records that are being written.
    pub(crate) writing: AtomicUsize,
    /// The calls that are selected, of use only when they are.
    pub(crate) selected: Selected,
    /// Are calls selected, or their values recorded?
    pub(crate) is_selective: bool,
    /// Is it said when a call that is selected is beyond the limit? Once it was, no more.
    pub(crate) tells_depth: AtomicBool,
    /// Calls beyond the limit whose ends the program reports.
    pub(crate) over: AtomicUsize,
    pub(crate) ring: ThreadRing,
    /// Its process.
    pub(crate) pid: AtomicUsize,
    /// Bytes of the mapping.
    pub(crate) len: usize,
    /// Frames that the mapping has room for.
    pub(crate) frames: usize,
    /// Where its stack lies.
    pub(crate) stack: [usize; 2],
    /// Where the return address of the unwinder stands that they were last put back for.
    pub(crate) unwinder: AtomicUsize,
    /// Where `setjmp` was called.
    pub(crate) jumps: JumpPoints,
    /// The state that is put aside while a child of `vfork` runs.
    pub(crate) lent: Lent,
    /// When the last call ended whose end was guessed.
    pub(crate) guessed: AtomicU64,
    /// Records that had no room, and that no record counts yet.
    pub(crate) lost: AtomicU64,
    /// This structure with all that stands after it: a reference reaches only itself.
    pub(crate) pages: *mut ThreadData,
}

/// The beginning of a thread's data, a page that children do not get: they find zeros there, however they were made. So
/// their next call goes the slow path, also where they were not told that they are children, as `fork` does.
#[repr(C)]
pub(crate) struct NotInChildren {
    /// Where the open slot ends; 0 without one.
    pub(crate) end: AtomicUsize,
    _rest: [usize; PAGE / size_of::<usize>() - 1],
}

const _: () = assert!(size_of::<NotInChildren>() == PAGE);

/// The writer of records of calls.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordPath {
    /// Functions of this library.
    Functions = 0,
    /// The stubs: all calls are recorded alike.
    Plain = 1,
    /// The stubs, those of functions that have no action.
    Selected = 2,
}

/// The selection of calls of a thread.
#[repr(C)]
pub(crate) struct Selected {
    /// The cache of actions; null when no function has one.
    pub(crate) cache: *const AtomicU64,
    /// The state of calls beside their frames.
    pub(crate) extras: *const FrameState,
    /// Do entries wait for the end of their calls?
    pub(crate) is_late: bool,
    /// Are functions without an action left out now?
    pub(crate) skips: AtomicBool,
    /// The selection that holds now.
    pub(crate) now: SelectionCell,
}

/// The selection that holds below the open calls.
#[derive(Clone, Copy)]
pub(crate) struct Selection {
    /// Open calls of functions that are let in.
    pub(crate) ins: u32,
    /// Open calls of functions that are left out.
    pub(crate) outs: u32,
    /// Depth that is left.
    pub(crate) depth: u64,
    /// Shortest time of a call, in counts of the clock.
    pub(crate) time: u64,
    /// Smallest size of a function.
    pub(crate) size: u64,
    /// Open calls that are recorded, or would be if recording were on.
    pub(crate) recorded: usize,
    /// Was recording on at the last call of this thread that switched it?
    pub(crate) was_on: bool,
}

/// The place of a [`Selection`]. A handler leaves it as it found it, but for `was_on`.
#[repr(C)]
pub(crate) struct SelectionCell {
    ins: AtomicU32,
    outs: AtomicU32,
    depth: AtomicU64,
    pub(crate) time: AtomicU64,
    size: AtomicU64,
    pub(crate) recorded: AtomicUsize,
    was_on: AtomicBool,
}

/// An open call.
#[derive(Default)]
#[repr(C)]
pub(crate) struct OpenFrame {
    /// Where it returns to; 0 when the program reports its end.
    pub(crate) returns: AtomicUsize,
    /// Where that stands on the stack.
    pub(crate) place: AtomicUsize,
    /// An address in the function.
    pub(crate) address: AtomicUsize,
}

/// The state of an open call beside its frame. A place without a call has no flags.
#[derive(Default)]
#[repr(C)]
pub(crate) struct FrameState {
    pub(crate) clock: AtomicU64,
    /// The stubs write these two as one number.
    pub(crate) flags: AtomicU32,
    pub(crate) recorded: AtomicU32,
    /// To be restored at the end: what [`Selection`] had before the call.
    pub(crate) depth: AtomicU64,
    pub(crate) time: AtomicU64,
    pub(crate) size: AtomicU64,
    /// Length of its arguments, while its entry waits.
    pub(crate) values: AtomicU32,
    /// Its return values, by their place in the table.
    pub(crate) results: [AtomicU64; 2],
}

/// The ring of a thread, where it is mapped.
pub(crate) struct ThreadRing {
    pub(crate) base: AtomicPtr<u8>,
    pub(crate) len: AtomicUsize,
    pub(crate) slots: AtomicU64,
    pub(crate) slot_size: AtomicU64,
}

/// How the end of a call is learned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// The return address is replaced.
    Returns,
    /// It stays, and the end of the call is guessed.
    Guessed,
    /// The program is instrumented, and reports the end of the call itself.
    Instrumented,
}

/// A call that begins.
#[derive(Clone, Copy)]
pub(crate) struct StartedCall<'a> {
    /// Where its return address stands, or what is near to that.
    pub(crate) place: usize,
    /// An address in the function.
    pub(crate) address: usize,
    pub(crate) hook: Hook,
    /// Its registers, when a stub saved them.
    pub(crate) saved: Option<&'a Saved>,
    /// Is it one of a function of a library?
    pub(crate) is_library: bool,
}

/// The data of the calling thread, if its calls are recorded.
#[inline(always)]
pub(crate) fn current() -> Option<&'static ThreadData> {
    // SAFETY: null, or the mapping of this thread, which was written as a whole; see above.
    unsafe { local().thread.get().cast::<ThreadData>().as_ref() }
}

impl NotInChildren {
    pub(crate) const fn new() -> NotInChildren {
        NotInChildren { end: AtomicUsize::new(0), _rest: [0; PAGE / size_of::<usize>() - 1] }
    }

    /// Keeps it from children. It stands at the beginning of a page.
    pub(crate) fn keep(&self) {
        // SAFETY: the page stays as it is in this process.
        unsafe { system::madvise((&raw const *self).cast_mut().cast(), PAGE, system::MADV_WIPEONFORK) };
    }
}

impl SelectionCell {
    pub(crate) fn new(selection: Selection) -> SelectionCell {
        SelectionCell {
            ins: AtomicU32::new(selection.ins),
            outs: AtomicU32::new(selection.outs),
            depth: AtomicU64::new(selection.depth),
            time: AtomicU64::new(selection.time),
            size: AtomicU64::new(selection.size),
            recorded: AtomicUsize::new(selection.recorded),
            was_on: AtomicBool::new(selection.was_on),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Selection {
        Selection {
            ins: self.ins.get(),
            outs: self.outs.get(),
            depth: self.depth.get(),
            time: self.time.get(),
            size: self.size.get(),
            recorded: self.recorded.get(),
            was_on: self.was_on.get(),
        }
    }

    #[inline(always)]
    pub(crate) fn set(&self, selection: Selection) {
        self.ins.set(selection.ins);
        self.outs.set(selection.outs);
        self.depth.set(selection.depth);
        self.time.set(selection.time);
        self.size.set(selection.size);
        self.recorded.set(selection.recorded);
        self.was_on.set(selection.was_on);
    }
}

impl ThreadRing {
    /// None: it is taken or made when the thread begins.
    pub(crate) fn none() -> ThreadRing {
        ThreadRing {
            base: AtomicPtr::default(),
            len: AtomicUsize::default(),
            slots: AtomicU64::default(),
            slot_size: AtomicU64::default(),
        }
    }

    /// Becomes a copy of another one.
    pub(crate) fn take_from(&self, other: &ThreadRing) {
        self.set(other.base.get(), other.len.get(), other.slots.get(), other.slot_size.get());
    }

    pub(crate) fn set(&self, base: *mut u8, len: usize, slots: u64, slot_size: u64) {
        self.base.set(base);
        self.len.set(len);
        self.slots.set(slots);
        self.slot_size.set(slot_size);
    }
}

impl FrameState {
    /// Becomes a copy of another one.
    pub(crate) fn take_from(&self, other: &FrameState) {
        self.clock.set(other.clock.get());
        self.flags.set(other.flags.get());
        self.recorded.set(other.recorded.get());
        self.depth.set(other.depth.get());
        self.time.set(other.time.get());
        self.size.set(other.size.get());
        self.values.set(other.values.get());
        self.results.iter().zip(&other.results).for_each(|(to, from)| to.set(from.get()));
    }
}

impl OpenFrame {
    /// Becomes a copy of another one.
    pub(crate) fn take_from(&self, other: &OpenFrame) {
        self.set(other.returns.get(), other.place.get(), other.address.get());
    }

    #[inline(always)]
    pub(crate) fn set(&self, returns: usize, place: usize, address: usize) {
        self.returns.set(returns);
        self.place.set(place);
        self.address.set(address);
    }

    /// Does the program tell the end of the call?
    pub(crate) fn is_instrumented(&self) -> bool {
        self.returns.get() == 0
    }
}

impl ThreadData {
    /// The frame of an open call, or of one that begins.
    #[inline(always)]
    pub(crate) fn frame(&self, at: usize) -> &OpenFrame {
        debug_assert!(at < self.frames);
        // SAFETY: the mapping has room for that many frames after this structure, and bytes of 0 are frames, too.
        unsafe { &*self.pages.add(1).cast::<OpenFrame>().add(at) }
    }

    /// The state of a call beside its frame, open or beginning. Only when calls are selected.
    #[inline(always)]
    pub(crate) fn extra(&self, at: usize) -> &FrameState {
        debug_assert!(at < self.frames);
        // SAFETY: after the frames the mapping has room for as many of these, and bytes of 0 are some.
        unsafe { &*self.selected.extras.add(at) }
    }

    /// The innermost open call.
    #[inline(always)]
    pub(crate) fn top(&self) -> Option<&OpenFrame> {
        self.depth.get().checked_sub(1).map(|at| self.frame(at))
    }

    /// Does something during which the calls of signal handlers are not recorded.
    pub(crate) fn while_busy<R>(&self, work: impl FnOnce() -> R) -> R {
        self.busy.change(|busy| busy + 1);
        compiler_fence(Ordering::SeqCst);
        let result = work();
        compiler_fence(Ordering::SeqCst);
        self.busy.change(|busy| busy - 1);
        result
    }
}
