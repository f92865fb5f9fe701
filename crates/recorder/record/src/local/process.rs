//! The process as a whole: the recorder's lock, forks, the beginning and the end of the program, the ends of threads.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::system;
use crate::local;
use crate::recorder::{self, ProcessState};
use crate::ring::RingWriter;

thread_local! {
    /// Is the thread inside of [`locked`]?
    static IS_LOCKED: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn end_of_thread(writer: *mut libc::c_void) {
    local::forget_writer();
    local::counters::end_of_thread();
    // SAFETY: the key has values of `set_writer` only.
    if let Some(writer) = unsafe { writer.cast::<RingWriter>().cast_const().as_ref() } {
        recorder::take_back(writer);
    }
}

struct SharedState {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    state: UnsafeCell<ProcessState>,
}

// SAFETY: the state is reached under the mutex only.
unsafe impl Sync for SharedState {}

static SHARED: SharedState = SharedState {
    mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    state: UnsafeCell::new(ProcessState::new()),
};

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        unlock();
        IS_LOCKED.set(false);
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

const CANCEL_DISABLE: libc::c_int = 1;

/// Keeps the thread from being cancelled (`pthread_cancel`): it would end with the lock held.
struct Uncancelled(libc::c_int);

impl Uncancelled {
    fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: a pointer to this stack.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state that was there before; a pointer to this stack.
        unsafe { pthread_setcancelstate(self.0, &mut 0) };
    }
}

/// Does something that may not be cancelled: calls of the system are points of cancellation.
#[cfg(feature = "c")]
pub(crate) fn uncancelled<R>(work: impl FnOnce() -> R) -> R {
    let _uncancelled = Uncancelled::new();
    work()
}

fn lock() {
    // SAFETY: a static mutex.
    unsafe { libc::pthread_mutex_lock(SHARED.mutex.get()) };
}

fn unlock() {
    // SAFETY: a static mutex that this thread holds.
    unsafe { libc::pthread_mutex_unlock(SHARED.mutex.get()) };
}

/// Does something with the recorder's state. `None` when this thread does so already: a signal handler interrupted it.
pub(crate) fn locked<R>(work: impl FnOnce(&mut ProcessState) -> R) -> Option<R> {
    if IS_LOCKED.replace(true) {
        return None;
    }
    let _uncancelled = Uncancelled::new();
    if is_copy() {
        if !begin_copy() {
            IS_LOCKED.set(false);
            return None;
        }
    } else {
        lock();
    }
    let _guard = Guard;
    // SAFETY: this thread holds the mutex, and has no other reference.
    Some(work(unsafe { &mut *SHARED.state.get() }))
}

/// A page of zeros in processes that were made of this one without a word, as by the system call `clone`; 1 otherwise.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

fn make_mark() {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    const LEN: usize = 4096;
    // SAFETY: a new page that stays for ever.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), LEN, protection, flags, -1, 0);
        if page != libc::MAP_FAILED {
            system::keep_from_children(page.cast(), LEN);
            AtomicU32::from_ptr(page.cast()).store(1, Ordering::Relaxed);
            MARK.store(page.cast(), Ordering::Release);
        }
    }
}

/// Is this a child that knows nothing about it?
fn is_copy() -> bool {
    // SAFETY: null, or a page that stays.
    unsafe { MARK.load(Ordering::Acquire).as_ref() }.is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}

/// Takes the lock in such a child, and forgets the recording. `false` when a thread had it that is not here: then nothing is
/// known, and nothing is recorded.
fn begin_copy() -> bool {
    // SAFETY: a static mutex.
    if unsafe { libc::pthread_mutex_trylock(SHARED.mutex.get()) } != 0 {
        return false;
    }
    become_child();
    true
}

/// Forgets the recording of the parent. Under the lock.
fn become_child() {
    local::forget_writer();
    let key = local::KEY.load(Ordering::Relaxed);
    if key != 0 {
        // SAFETY: as in `set_writer`.
        unsafe { libc::pthread_setspecific(key - 1, std::ptr::null()) };
    }
    // SAFETY: as in `locked`; no other thread is here.
    recorder::forget(unsafe { &mut *SHARED.state.get() });
    // SAFETY: as in `is_copy`.
    if let Some(mark) = unsafe { MARK.load(Ordering::Acquire).as_ref() } {
        mark.store(1, Ordering::Relaxed);
    }
}

extern "C" fn after_fork() {
    if IS_LOCKED.get() {
        // A handler that forks within the recorder: its state is not whole, so nothing of it is touched. The handler's events
        // find no ring, and count nowhere.
        return local::forget_writer();
    }
    local::counters::leave_to_parent();
    // The lock was taken before the fork, by this thread.
    IS_LOCKED.set(true);
    become_child();
    IS_LOCKED.set(false);
    unlock();
}

extern "C" fn before_fork() {
    // A signal handler may fork within the recorder: then this thread has the lock.
    if !IS_LOCKED.get() {
        lock();
    }
}

extern "C" fn after_fork_in_parent() {
    if !IS_LOCKED.get() {
        unlock();
    }
}

extern "C" fn at_exit() {
    recorder::finish_at_exit();
}

/// Makes the process ready for recording, once: two threads may begin at the same time, and a fork would run twice what waits
/// for the lock.
pub(crate) fn prepare() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // A program that links a part of a static library gets the part with the beginning, too.
    std::hint::black_box(&AT_START);
    ONCE.call_once(|| {
        make_mark();
        stay_loaded();
        let mut key: libc::pthread_key_t = 0;
        // SAFETY: functions of this module, and a pointer to this stack.
        unsafe {
            if libc::pthread_key_create(&mut key, Some(end_of_thread)) == 0 {
                local::KEY.store(key + 1, Ordering::Relaxed);
            }
            pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork));
            libc::atexit(at_exit);
            libc::syscall(libc::SYS_membarrier, system::MEMBARRIER_REGISTER, 0, 0);
        }
    });
}

/// Keeps a library that this is a part of in the program: threads of others run it at their ends, and one of its own does.
fn stay_loaded() {
    type Open = unsafe extern "C" fn(*const libc::c_char, libc::c_int) -> *mut libc::c_void;
    // SAFETY: pointers to this stack, and names that end with 0; what is found under the name has this type. Looked for, since
    // linkers warn of it in programs that load nothing.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let open = libc::dlsym(libc::RTLD_DEFAULT, c"dlopen".as_ptr());
        let here = at_start as extern "C" fn() as *const libc::c_void;
        if !open.is_null() && libc::dladdr(here, &mut found) != 0 && !found.dli_fname.is_null() {
            let open = std::mem::transmute::<*mut libc::c_void, Open>(open);
            if open(found.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE).is_null() {
                // The program itself is no library: an error that is not the program's.
                libc::dlerror();
            }
        }
    }
}

type Handler = Option<extern "C" fn()>;

unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> libc::c_int;
}

extern "C" fn at_start() {
    recorder::start_from_environment();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_handler_may_fork_within_the_recorder() {
        prepare();
        let forked = locked(|_| {
            // SAFETY: the child ends at once. A lock that is waited for by who has it would never come: the alarm is heard then.
            unsafe {
                libc::alarm(20);
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(i32::from(locked(|_| ()).is_some()));
                }
                let mut status = -1;
                (libc::waitpid(child, &mut status, 0) == child, status)
            }
        });
        // SAFETY: a call without pointers.
        unsafe { libc::alarm(0) };
        assert_eq!(forked, Some((true, 0)));
        assert_eq!(locked(|_| ()), Some(()));
    }
}
