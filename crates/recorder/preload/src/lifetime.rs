//! The beginning and the end of a thread.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use crate::jumps::{JumpPoints, Lent};
use crate::local::{DatalessState, local};
use crate::same_thread::SameThread;
use crate::settings::SETTINGS;
use crate::thread::{
    FrameState, NotInChildren, OpenFrame, RecordPath, Selected, SelectionCell, ThreadData, ThreadRing, current,
};
use crate::{exec, exit, fork, rules, selective, session, system, wakeup};

/// The key whose destructor is [`end`].
static KEY: AtomicU32 = AtomicU32::new(0);

/// Has the process look after the ends of its threads. `false` where that is not possible.
///
/// # Safety
/// This is the start of the program.
pub(crate) unsafe fn prepare() -> bool {
    let mut key = 0;
    // SAFETY: the key is written to a number of ours, and the handler is a function of this library, which is never unloaded.
    let is_made = unsafe { system::pthread_key_create(&mut key, end) == 0 };
    KEY.store(key, Ordering::Relaxed);
    is_made
}

/// Begins to record the calling thread, or to count its calls.
pub(crate) fn begin() {
    fork::notice(None);
    local().set_state(DatalessState::Off);
    compiler_fence(Ordering::SeqCst);
    // A handler of a signal that came before this has begun the thread. With two rings, the recorder would take one of them
    // for that of a program that was replaced by `exec`.
    if current().is_some() {
        return;
    }
    if !begin_ring() {
        local().set_state(DatalessState::Ringless);
        wakeup::count_thread();
    }
}

fn begin_ring() -> bool {
    let frames = SETTINGS.depth.get();
    let is_selective = selective::is_wanted();
    let extra = if is_selective { selective::len() } else { 0 };
    let len = size_of::<ThreadData>() + frames * (size_of::<OpenFrame>() + extra);
    let (protection, flags) = (system::PROT_READ_WRITE, system::MAP_PRIVATE_ANONYMOUS);
    // SAFETY: a new mapping at a place that the system chooses.
    let pages = unsafe { system::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) }.cast::<ThreadData>();
    if pages as isize == -1 {
        return false;
    }
    let path = match (system::HAS_COUNTER.load(Ordering::Relaxed), is_selective) {
        (1, false) => RecordPath::Plain,
        (1, true) if selective::is_simple() => RecordPath::Selected,
        _ => RecordPath::Functions,
    };
    let selection = selective::begin();
    // SAFETY: the mapping has room for the structure, and after it for all frames and what stands beside them; it is this
    // function's alone until it is written.
    let thread = unsafe {
        pages.write(ThreadData {
            not_in_children: NotInChildren::new(),
            path,
            is_put_back: AtomicBool::new(false),
            is_ringless: AtomicBool::new(false),
            is_strict: AtomicBool::new(false),
            busy: AtomicU32::new(0),
            pos: AtomicUsize::new(0),
            depth: AtomicUsize::new(0),
            limit: AtomicUsize::new(frames),
            writing: AtomicUsize::new(0),
            selected: Selected {
                cache: rules::cache(),
                extras: pages.add(1).cast::<OpenFrame>().add(frames).cast::<FrameState>(),
                is_late: is_selective && selective::is_late(),
                skips: AtomicBool::new(selective::skips(&selection)),
                now: SelectionCell::new(selection),
            },
            is_selective,
            tells_depth: AtomicBool::new(SETTINGS.tells_depth.get()),
            over: AtomicUsize::new(0),
            ring: ThreadRing::none(),
            pid: AtomicUsize::new(system::getpid() as usize),
            len,
            frames,
            stack: stack(),
            unwinder: AtomicUsize::new(0),
            jumps: JumpPoints::default(),
            lent: Lent::none(selection),
            guessed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            pages,
        });
        &*pages
    };
    thread.not_in_children.keep();
    session::append_task(system::clock_ns(SETTINGS.clock()));
    // SAFETY: the mapping is removed where it does not become the thread's; the key was made at the start, and the mapping
    // lives until `end` gets it.
    unsafe {
        if !thread.take_ring() {
            system::munmap(pages.cast(), len);
            return false;
        }
        system::pthread_setspecific(KEY.load(Ordering::Relaxed), pages.cast());
    }
    local().thread.set(pages.cast());
    true
}

/// Where the stack of the calling thread lies.
fn stack() -> [usize; 2] {
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

/// A thread ends: return addresses are put back, and its ring is closed. Calls of later destructors are not recorded.
extern "C" fn end(pages: *mut c_void) {
    exit::end_guessed();
    // SAFETY: it is called by the thread whose mapping this is, once; see `thread`.
    unsafe {
        let thread = &*pages.cast::<ThreadData>();
        fork::notice(Some(thread));
        thread.busy.change(|busy| busy + 1);
        for frame in thread.returning().rev() {
            frame.put_back();
        }
        local().thread.set(std::ptr::null_mut());
        local().set_state(DatalessState::Off);
        exec::forget_left();
        if !thread.is_ringless.get() {
            thread.give_back_ring();
        }
        system::munmap(pages, thread.len);
    }
}
