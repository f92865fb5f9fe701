//! Children that go on with the memory of their parents, but not with their rings.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::local::{DatalessState, local};
use crate::record::RECORD;
use crate::ring::{self, SLOTS};
use crate::same_thread::SameThread;
use crate::settings::{self, SETTINGS};
use crate::system::{self, StackText};
use crate::thread::{ThreadData, current};
use crate::{session, wakeup};

const PAGE: usize = 4096;

/// A number on a page that children do not get: 0 in processes that were made of this one without a word, as by the system call `clone`.
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
pub(crate) fn notice(thread: Option<&ThreadData>) -> bool {
    let is_copy = is_copy() && settings::is_on();
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
    if settings::is_on() {
        // The child has one thread, and this is its data.
        become_child(PARENT.load(Ordering::Relaxed), current());
    }
}

fn become_child(parent: i32, thread: Option<&ThreadData>) {
    // SAFETY: it takes nothing and cannot fail.
    let pid = unsafe { system::getpid() };
    PROCESS.store(pid, Ordering::Relaxed);
    // SAFETY: as in `is_copy`.
    if let Some(mark) = unsafe { MARK.load(Ordering::Acquire).as_ref() } {
        mark.store(1, Ordering::Relaxed);
    }
    append_child(parent as usize);
    ring::forget_kept();
    match thread {
        Some(thread) => thread.go_on(),
        None if local().state() == DatalessState::Ringless => local().set_state(DatalessState::New),
        None => {}
    }
}

/// Tells that this process is a child.
pub(crate) fn append_child(parent: usize) {
    let line = StackText::new().add(b"FORK timestamp=").time(system::clock_ns(SETTINGS.clock())).add(b" pid=");
    // SAFETY: it takes nothing and cannot fail.
    let line = line.number(unsafe { system::getpid() } as u64, 1);
    session::append_line(&line.add(b" ppid=").number(parent as u64, 1).add(b"\n"));
}

impl ThreadData {
    /// The thread of a child goes on with the calls that were open, in a ring of its own.
    fn go_on(&self) {
        // Without a ring the parent is busy already, and there is nothing to be unmapped.
        if self.is_ringless.get() {
            self.is_ringless.set(false);
        } else {
            self.busy.change(|busy| busy + 1);
            // The record that was interrupted by the handler that made the child is still written there.
            if self.writing.get() == 0 {
                // SAFETY: nothing of this process leads there any more.
                unsafe { system::munmap(self.ring.base.get().cast(), self.ring.len.get()) };
            }
            self.ring.base.set(std::ptr::null_mut());
        }
        self.limit.set(SETTINGS.depth.get());
        // SAFETY: it takes nothing and cannot fail.
        self.pid.set(unsafe { system::getpid() } as usize);
        if self.make_ring(SLOTS) {
            self.busy.change(|busy| busy - 1);
        } else {
            // Calls are not recorded any more; open ones return as before.
            self.is_ringless.set(true);
            wakeup::count_thread();
            self.limit.set(0);
            self.not_in_children.end.set(0);
            self.pos.set(usize::MAX - RECORD);
        }
    }
}
