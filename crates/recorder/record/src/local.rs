//! Belongings of a thread, or of the process as a whole: the pointer to a thread's writer, the recorder's lock, forks,
//! the end of threads, waiting and waking.
//!
//! # Why the `unsafe` here is sound
//!
//! * A thread's pointer is null or that of a writer, and writers are never freed.
//! * The recorder's state is reached by [`locked`] only: under a mutex, and never twice by one thread, which a signal
//!   handler could try.
//! * The other calls take pointers to statics or to this stack. The function for the start of the program is called by the
//!   loader once the C library works; it panics never.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::recorder::{self, State};
use crate::ring::Writer;

thread_local! {
    static WRITER: Cell<*const Writer> = const { Cell::new(std::ptr::null()) };
    /// Is the thread inside of [`locked`]?
    static IS_LOCKED: Cell<bool> = const { Cell::new(false) };
}

/// A copy of the pointer for C: thread-local storage of the initial-exec model, which is a load at a place that is the same
/// for all threads. Rust cannot say that, so it is declared in assembly.
#[cfg(all(feature = "c", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub(crate) mod c {
    core::arch::global_asm!(
        ".pushsection .tbss.tracemill_record_thread, \"awT\", %nobits",
        ".globl tracemill_record_thread",
        ".hidden tracemill_record_thread",
        ".type tracemill_record_thread, %object",
        ".size tracemill_record_thread, 8",
        ".balign 8",
        "tracemill_record_thread:",
        ".zero 8",
        ".popsection",
    );

    /// Where it stands from the thread pointer on. Never 0.
    pub(crate) fn place() -> isize {
        let place: isize;
        // SAFETY: a load of a constant that the loader made.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                "mov {}, qword ptr [rip + tracemill_record_thread@GOTTPOFF]",
                out(reg) place,
                options(pure, readonly, nostack, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                "adrp {0}, :gottprel:tracemill_record_thread",
                "ldr {0}, [{0}, :gottprel_lo12:tracemill_record_thread]",
                out(reg) place,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        place
    }

    /// Changes it for the calling thread.
    pub(super) fn set(pointer: *const u8) {
        // SAFETY: a store to the eight bytes of the declaration above, of this thread.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                "mov qword ptr fs:[{}], {}",
                in(reg) place(),
                in(reg) pointer,
                options(nostack, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                "mrs {thread}, tpidr_el0",
                "str {pointer}, [{thread}, {place}]",
                thread = out(reg) _,
                place = in(reg) place(),
                pointer = in(reg) pointer,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Without that: C asks for the pointer.
#[cfg(not(all(feature = "c", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
pub(crate) mod c {
    #[cfg(feature = "c")]
    pub(crate) fn place() -> isize {
        0
    }

    pub(super) fn set(_: *const u8) {}
}

/// The writer of the calling thread.
#[inline(always)]
pub(crate) fn writer() -> Option<&'static Writer> {
    // SAFETY: null or a writer, which lives for ever.
    unsafe { WRITER.get().as_ref() }
}

/// Makes a writer that of the calling thread. It is given back when the thread ends.
pub(crate) fn set_writer(writer: Option<&'static Writer>) {
    let pointer = writer.map_or(std::ptr::null(), std::ptr::from_ref);
    WRITER.set(pointer);
    c::set(pointer.cast());
    let key = KEY.load(Ordering::Relaxed);
    if key != 0 {
        // SAFETY: the key was made by `prepare`.
        unsafe { libc::pthread_setspecific(key - 1, pointer.cast()) };
    }
}

/// The key whose destructor tells the end of a thread, and one.
static KEY: AtomicU32 = AtomicU32::new(0);

extern "C" fn end_of_thread(writer: *mut libc::c_void) {
    WRITER.set(std::ptr::null());
    c::set(std::ptr::null());
    // SAFETY: the key has values of `set_writer` only.
    if let Some(writer) = unsafe { writer.cast::<Writer>().cast_const().as_ref() } {
        recorder::take_back(writer);
    }
}

struct Shared {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    state: UnsafeCell<State>,
}

// SAFETY: the state is reached under the mutex only.
unsafe impl Sync for Shared {}

static SHARED: Shared =
    Shared { mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), state: UnsafeCell::new(State::new()) };

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
pub(crate) fn locked<R>(work: impl FnOnce(&mut State) -> R) -> Option<R> {
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

/// Advice of Linux 4.14: children find zeros.
const MADV_WIPEONFORK: libc::c_int = 18;

/// Has children of this process find zeros in pages that are not shared with others. Without that, where the system has
/// it not or its pages are larger, children that nobody tells that they are some go on in the rings of their parents.
pub(crate) fn keep_from_children(pages: *const u8, len: usize) {
    if cfg!(not(miri)) {
        // SAFETY: the pages are whole and stay; nothing of them changes in this process.
        unsafe { libc::madvise(pages.cast_mut().cast(), len, MADV_WIPEONFORK) };
    }
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
            keep_from_children(page.cast(), LEN);
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
    WRITER.set(std::ptr::null());
    c::set(std::ptr::null());
    let key = KEY.load(Ordering::Relaxed);
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
        WRITER.set(std::ptr::null());
        return c::set(std::ptr::null());
    }
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
    // Whoever links a part of a static library gets the one with the beginning, too.
    std::hint::black_box(&AT_START);
    ONCE.call_once(|| {
        make_mark();
        stay_loaded();
        let mut key: libc::pthread_key_t = 0;
        // SAFETY: functions of this module, and a pointer to this stack.
        unsafe {
            if libc::pthread_key_create(&mut key, Some(end_of_thread)) == 0 {
                KEY.store(key + 1, Ordering::Relaxed);
            }
            pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork));
            libc::atexit(at_exit);
            libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER, 0, 0);
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

const MEMBARRIER: libc::c_int = 8;
const MEMBARRIER_REGISTER: libc::c_int = 16;

/// Returns when every thread of the process has seen what this one wrote, and this one sees what they wrote before.
pub(crate) fn barrier() {
    // SAFETY: a call without pointers.
    if unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER, 0, 0) } != 0 {
        // Not there, or forbidden: stores do not stay in a processor's buffer for a millisecond.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Id of the calling thread.
pub(crate) fn tid() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Runs something with all signals blocked, so that threads that it starts get none.
pub(crate) fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: pointers to this stack.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// Changes whenever the consumer should look at once.
static WAKE: AtomicU32 = AtomicU32::new(0);
/// Does the consumer sleep?
static SLEEPS: AtomicU32 = AtomicU32::new(0);

fn futex(word: *mut u32, operation: libc::c_int, value: u32, timeout: Option<Duration>) -> bool {
    let timeout = timeout
        .map(|time| libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() });
    let pointer = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is an atomic of the caller, the time on this stack.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, value, pointer) == 0 }
}

/// Wakes the consumer.
pub(crate) fn wake_consumer() {
    if SLEEPS.load(Ordering::Relaxed) == 1 {
        WAKE.fetch_add(1, Ordering::SeqCst);
        futex(WAKE.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1, None);
    }
}

/// Sleeps so long, or until [`wake_consumer`].
pub(crate) fn sleep_as_consumer(time: Duration) {
    let before = WAKE.load(Ordering::SeqCst);
    SLEEPS.store(1, Ordering::SeqCst);
    futex(WAKE.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, before, Some(time));
    SLEEPS.store(0, Ordering::SeqCst);
}

/// Waits so long, or until a word that processes share is not `value`.
pub(crate) fn wait_shared(word: &AtomicU32, value: u32, time: Duration) {
    futex(word.as_ptr(), libc::FUTEX_WAIT, value, Some(time));
}

/// Wakes those who wait for a word that processes share.
pub(crate) fn wake_shared(word: &AtomicU32) {
    futex(word.as_ptr(), libc::FUTEX_WAKE, u32::MAX >> 1, None);
}

/// The half of a number that changes first.
fn low_half(number: &AtomicU64) -> *mut u32 {
    let pointer = number.as_ptr().cast::<u32>();
    // SAFETY: one of the two halves of the number.
    if cfg!(target_endian = "big") { unsafe { pointer.add(1) } } else { pointer }
}

/// Waits at most 100 ms for a number of a ring to change.
pub(crate) fn wait_while(number: &AtomicU64, value: u64) {
    wake_consumer();
    futex(low_half(number), libc::FUTEX_WAIT, value as u32, Some(Duration::from_millis(100)));
}

/// Wakes those who wait for a number to change.
pub(crate) fn wake_waiting(number: &AtomicU64) {
    futex(low_half(number), libc::FUTEX_WAKE, u32::MAX >> 1, None);
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
