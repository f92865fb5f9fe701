//! Calls of the system: waiting, waking, and what is seen by other threads and processes.
//!
//! They take pointers to statics, to this stack, or to what the caller keeps.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Advice of Linux 4.14: children find zeros.
const MADV_WIPEONFORK: libc::c_int = 18;

/// Has children of this process find zeros in pages that are not shared with others. Without that, where the system has
/// it not or its pages are larger, children that do not know that they are children go on in the rings of their
/// parents.
pub(crate) fn keep_from_children(pages: *const u8, len: usize) {
    if cfg!(not(miri)) {
        // SAFETY: the pages are whole and stay; nothing of them changes in this process.
        unsafe { libc::madvise(pages.cast_mut().cast(), len, MADV_WIPEONFORK) };
    }
}

const MEMBARRIER: libc::c_int = 8;
pub(super) const MEMBARRIER_REGISTER: libc::c_int = 16;

/// Returns when every thread of the process has seen what this one wrote, and this one sees what they wrote before.
pub(crate) fn barrier() {
    // SAFETY: a call without pointers.
    if unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER, 0, 0) } != 0 {
        // Not there, or forbidden: stores do not stay in a processor's buffer for a millisecond.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The user whose rights this process has.
pub(crate) fn user() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::geteuid() }
}

/// The user of the process at the other end of a socket.
pub(crate) fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    // SAFETY: zeros are credentials; pointers to this stack, and the length of what stands there.
    unsafe {
        let mut peer: libc::ucred = std::mem::zeroed();
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        let found = (&raw mut peer).cast();
        match libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, found, &mut len) {
            0 => Ok(peer.uid),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Closes the copy of a descriptor that a child has of its parent, which nobody else here uses.
pub(crate) fn close_inherited(descriptor: RawFd) {
    // SAFETY: a call without pointers.
    unsafe { libc::close(descriptor) };
}

/// Id of the calling thread.
pub(crate) fn tid() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// The processor on which the calling thread runs now.
pub(crate) fn cpu() -> u32 {
    // SAFETY: a call without arguments.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(u32::MAX)
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
    let timeout =
        timeout.map(|time| libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() });
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

/// Wakes the consumer, also when it is only about to sleep.
pub(crate) fn wake_consumer_surely() {
    WAKE.fetch_add(1, Ordering::SeqCst);
    futex(WAKE.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1, None);
}

/// How often the consumer was woken: it looks here before it looks for work.
pub(crate) fn wakes() -> u32 {
    WAKE.load(Ordering::SeqCst)
}

/// Sleeps so long, or until it is woken once more than `before` times.
pub(crate) fn sleep_as_consumer(before: u32, time: Duration) {
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
