//! Children that go on with the memory of their parents, but not with their rings.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::bell;
use crate::process::{self, SETTINGS};
use crate::ring::{self, SLOTS};
use crate::system::{self, Text, local};
use crate::thread::{NEW, RECORD, RINGLESS, Thread, current};

const PAGE: usize = 4096;

/// The beginning of a thread's data, a page that children do not get: they find zeros there, however they were made. So
/// their next call goes the slow path, also where nobody told them that they are children, as `fork` does.
#[repr(C)]
pub(crate) struct Kept {
    /// Where the open slot ends; 0 without one.
    pub(crate) end: usize,
    _rest: [usize; PAGE / size_of::<usize>() - 1],
}

const _: () = assert!(size_of::<Kept>() == PAGE);

impl Kept {
    pub(crate) const fn new() -> Kept {
        Kept { end: 0, _rest: [0; PAGE / size_of::<usize>() - 1] }
    }

    /// Keeps it from children. It stands at the beginning of a page.
    pub(crate) fn keep(&mut self) {
        // SAFETY: the page stays as it is in this process.
        unsafe { system::madvise((&raw mut *self).cast(), PAGE, system::MADV_WIPEONFORK) };
    }
}

/// A number on such a page: 0 in processes that were made of this one without a word, as by the system call `clone`.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static PARENT: AtomicI32 = AtomicI32::new(0);
/// The process; in children of `vfork`, and in those that do not know yet that they are some, still their parent.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Is this no child that shares memory or rings with its parent?
pub(crate) fn is_itself() -> bool {
    // SAFETY: it takes nothing and cannot fail.
    PROCESS.load(Ordering::Relaxed) == unsafe { system::getpid() } && !is_copy()
}

/// Has the process prepared for its children, once.
pub(crate) unsafe fn prepare() {
    let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS);
    // SAFETY: a new page that stays for ever; the handlers are functions of this library, which is never unloaded.
    unsafe {
        PROCESS.store(system::getpid(), Ordering::Relaxed);
        system::pthread_atfork(Some(before_fork), None, Some(after_fork));
        let page = system::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0);
        if page as isize != -1 && system::madvise(page, PAGE, system::MADV_WIPEONFORK) == 0 {
            AtomicU32::from_ptr(page.cast()).store(1, Ordering::Relaxed);
            MARK.store(page.cast(), Ordering::Release);
        }
    }
}

fn is_copy() -> bool {
    // SAFETY: null, or a page that stays.
    unsafe { MARK.load(Ordering::Acquire).as_ref() }.is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}

/// Becomes a child of its own, if this is one that does not know. Gives whether it was; the thread may have no ring then.
pub(crate) fn notice(thread: Option<&mut Thread>) -> bool {
    let is_copy = is_copy() && process::is_on();
    if is_copy {
        become_child(PROCESS.load(Ordering::Relaxed), thread);
    }
    is_copy
}

extern "C" fn before_fork() {
    // SAFETY: it takes nothing and cannot fail.
    PARENT.store(unsafe { system::getpid() }, Ordering::Relaxed);
}

extern "C" fn after_fork() {
    if process::is_on() {
        // SAFETY: the child has one thread, and this is its data.
        become_child(PARENT.load(Ordering::Relaxed), unsafe { current() });
    }
}

fn become_child(parent: i32, thread: Option<&mut Thread>) {
    // SAFETY: it takes nothing and cannot fail.
    let pid = unsafe { system::getpid() };
    PROCESS.store(pid, Ordering::Relaxed);
    // SAFETY: as in `is_copy`.
    if let Some(mark) = unsafe { MARK.load(Ordering::Acquire).as_ref() } {
        mark.store(1, Ordering::Relaxed);
    }
    let line = Text::new()
        .add(b"FORK timestamp=")
        .time(system::clock_ns(SETTINGS.clock()))
        .add(b" pid=")
        .number(pid as u64, 1);
    process::tell(&line.add(b" ppid=").number(parent as u64, 1).add(b"\n"));
    ring::forget_kept();
    // SAFETY: the child has one thread, and this is its data.
    unsafe {
        match thread {
            Some(thread) => thread.go_on(),
            None if (*local())[1] == RINGLESS => (*local())[1] = NEW,
            None => {}
        }
    }
}

impl Thread {
    /// The thread of a child goes on with the calls that were open, in a ring of its own.
    unsafe fn go_on(&mut self) {
        // Without a ring the parent is busy already, and there is nothing to be unmapped.
        if !std::mem::replace(&mut self.is_ringless, false) {
            self.busy += 1;
            // What a handler interrupted that made the child still writes there.
            if self.writing == 0 {
                // SAFETY: nothing of this process leads there any more.
                unsafe { system::munmap(self.ring.base.cast(), self.ring.len) };
            }
            self.ring.base = std::ptr::null_mut();
        }
        self.limit = SETTINGS.depth.load(Ordering::Relaxed);
        // SAFETY: it takes nothing and cannot fail.
        self.own.pid = unsafe { system::getpid() } as usize;
        if !self.make_ring(SLOTS) {
            // Nothing is recorded any more; open calls return as before.
            self.is_ringless = true;
            bell::count_thread();
            self.limit = 0;
            self.kept.end = 0;
            self.pos.store(usize::MAX - RECORD, Ordering::Relaxed);
        } else {
            self.busy -= 1;
        }
    }
}
