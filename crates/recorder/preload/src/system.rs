//! The calls of the system, by hand: this library depends on no crate.

#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

unsafe extern "C" {
    pub(crate) fn syscall(number: c_long, ...) -> c_long;
    pub(crate) fn mmap(
        at: *mut c_void,
        len: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub(crate) fn munmap(at: *mut c_void, len: usize) -> c_int;
    pub(crate) fn mprotect(at: *mut c_void, len: usize, protection: c_int) -> c_int;
    pub(crate) fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int;
    pub(crate) fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub(crate) fn close(file: c_int) -> c_int;
    pub(crate) fn flock(file: c_int, operation: c_int) -> c_int;
    pub(crate) fn write(file: c_int, bytes: *const c_void, len: usize) -> isize;
    pub(crate) fn unlink(path: *const c_char) -> c_int;
    pub(crate) fn rename(from: *const c_char, to: *const c_char) -> c_int;
    pub(crate) fn posix_fallocate(file: c_int, offset: i64, len: i64) -> c_int;
    pub(crate) fn getpid() -> c_int;
    pub(crate) fn getppid() -> c_int;
    pub(crate) fn access(path: *const c_char, mode: c_int) -> c_int;
    pub(crate) fn personality(persona: u64) -> c_int;
    pub(crate) fn execve(
        path: *const c_char,
        arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    pub(crate) fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(crate) fn pthread_key_create(key: *mut u32, destructor: extern "C" fn(*mut c_void)) -> c_int;
    pub(crate) fn pthread_setspecific(key: u32, value: *const c_void) -> c_int;
    pub(crate) fn pthread_atfork(before: Handler, parent: Handler, child: Handler) -> c_int;
    pub(crate) fn pthread_self() -> usize;
    pub(crate) fn pthread_getattr_np(thread: usize, attributes: *mut c_void) -> c_int;
    pub(crate) fn pthread_attr_getstack(attributes: *const c_void, at: *mut usize, len: *mut usize) -> c_int;
    pub(crate) fn pthread_attr_destroy(attributes: *mut c_void) -> c_int;
    pub(crate) fn dladdr1(
        address: *const c_void,
        found: *mut [usize; 4],
        more: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
    pub(crate) fn dl_iterate_phdr(
        each: unsafe extern "C" fn(*const c_void, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub(crate) fn sbrk(bytes: isize) -> *mut c_void;
    pub(crate) fn getrlimit(what: c_int, limit: *mut [usize; 2]) -> c_int;
    pub(crate) fn dlinfo(library: *mut c_void, request: c_int, answer: *mut c_void) -> c_int;
    pub(crate) fn dlclose(library: *mut c_void) -> c_int;
    fn __errno_location() -> *mut c_int;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
}

pub(crate) type Handler = Option<extern "C" fn()>;

pub(crate) const PROT_READ: c_int = 1;
pub(crate) const PROT_WRITE: c_int = 2;
pub(crate) const PROT_EXEC: c_int = 4;
pub(crate) const PROT_READ_WRITE: c_int = 3;
pub(crate) const PROT_READ_EXEC: c_int = 5;
pub(crate) const MAP_FIXED_NOREPLACE: c_int = 0x10_0000;
pub(crate) const MAP_SHARED: c_int = 1;
pub(crate) const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
pub(crate) const MADV_POPULATE_WRITE: c_int = 23;
pub(crate) const MADV_WIPEONFORK: c_int = 18;
pub(crate) const O_RDWR_CREAT_EXCL_CLOEXEC: c_int = 0o2 | 0o100 | 0o200 | 0o2_000_000;
pub(crate) const O_RDWR_CLOEXEC: c_int = 0o2 | 0o2_000_000;
pub(crate) const O_WRONLY_CREAT_APPEND_CLOEXEC: c_int = 0o1 | 0o100 | 0o2000 | 0o2_000_000;
pub(crate) const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;
pub(crate) const RTLD_LAZY: c_int = 1;
pub(crate) const RTLD_NOLOAD: c_int = 4;
pub(crate) const LOCK_SHARED_NOW: c_int = 1 | 4;
const EPERM: c_int = 1;
const SYS_GETTID: c_long = 186;
const SYS_LSEEK: c_long = 8;
const SYS_GETCWD: c_long = 79;
const SYS_READLINK: c_long = 89;
const SEEK_END: c_int = 2;
const SYS_FUTEX: c_long = 202;
const FUTEX_WAIT: c_int = 0;
const FUTEX_WAKE: c_int = 1;

pub(crate) fn gettid() -> u32 {
    // SAFETY: the call takes nothing.
    unsafe { syscall(SYS_GETTID) as u32 }
}

/// An address in the stack of the first thread, near its beginning.
static FIRST_STACK: AtomicUsize = AtomicUsize::new(usize::MAX);

pub(crate) fn keep_first_stack(address: usize) {
    FIRST_STACK.store(address, Ordering::Relaxed);
}

pub(crate) fn first_stack() -> usize {
    FIRST_STACK.load(Ordering::Relaxed)
}

/// The size of an open file.
pub(crate) fn end_of(file: c_int) -> i64 {
    // SAFETY: the call takes numbers.
    unsafe { syscall(SYS_LSEEK, file, 0_i64, SEEK_END) }
}

/// Writes the path of the working folder and a 0 after it; gives the length of both.
pub(crate) fn working_folder(room: &mut [u8]) -> Option<usize> {
    // SAFETY: the room is as long as is said.
    let len = unsafe { syscall(SYS_GETCWD, room.as_mut_ptr(), room.len()) };
    usize::try_from(len).ok().filter(|&len| len > 0)
}

/// Writes what a link leads to, and gives its length.
pub(crate) unsafe fn read_link(path: *const c_char, room: &mut [u8]) -> Option<usize> {
    // SAFETY: the caller's path is a whole text; the room is as long as is said.
    let len = unsafe { syscall(SYS_READLINK, path, room.as_mut_ptr(), room.len()) };
    usize::try_from(len).ok().filter(|&len| len > 0)
}

/// Is there such a process? One that may not be asked is there, too.
pub(crate) fn is_process(pid: c_int) -> bool {
    // SAFETY: signal 0 is none; the C library keeps a number of each thread there.
    unsafe { kill(pid, 0) == 0 || *__errno_location() == EPERM }
}

/// Waits until a word changes, a millisecond at most: the recorder may have no way to wake.
pub(crate) unsafe fn wait(word: *const u32, value: u32) {
    let time: [i64; 2] = [0, 1_000_000];
    // SAFETY: the caller's word is mapped, and the time stands on this stack.
    unsafe { syscall(SYS_FUTEX, word, FUTEX_WAIT, value, &raw const time) };
}

/// Wakes who waits for a word to change.
pub(crate) unsafe fn wake(word: *const u32) {
    // SAFETY: the caller's word is mapped.
    unsafe { syscall(SYS_FUTEX, word, FUTEX_WAKE, 1) };
}

/// Keeps `errno` as it is.
pub(crate) fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the C library keeps a number of each thread there.
    unsafe {
        let errno = *__errno_location();
        let result = work();
        *__errno_location() = errno;
        result
    }
}

/// Where `errno` of the thread stands.
pub(crate) extern "C" fn errno_place() -> *mut c_int {
    // SAFETY: the C library keeps a number of each thread there.
    unsafe { __errno_location() }
}

pub(crate) fn set_errno(number: c_int) {
    // SAFETY: as in `errno_place`.
    unsafe { *__errno_location() = number };
}

/// `CLOCK_MONOTONIC`, or another clock of the system, in ns.
pub(crate) fn clock_ns(clock: c_int) -> u64 {
    let mut time = [0; 2];
    // SAFETY: the time stands on this stack.
    unsafe { clock_gettime(clock, &mut time) };
    (time[0] as u64).wrapping_mul(1_000_000_000).wrapping_add(time[1] as u64)
}

/// Is the clock of the records the counter of the processor?
pub(crate) static HAS_COUNTER: AtomicU32 = AtomicU32::new(1);

/// The clock of the records. Only the counter is free of calls.
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    if HAS_COUNTER.load(Ordering::Relaxed) == 1 { unsafe { core::arch::x86_64::_rdtsc() } } else { clock_ns(1) }
}

/// A text without allocation, for names of files and lines.
pub(crate) struct StackText {
    bytes: [u8; 1024],
    len: usize,
}

impl StackText {
    pub(crate) fn new() -> StackText {
        StackText { bytes: [0; 1024], len: 0 }
    }

    /// The text with more after it; what does not fit is left out.
    pub(crate) fn add(mut self, bytes: &[u8]) -> StackText {
        for &byte in bytes {
            // The last one stays 0.
            if self.len < self.bytes.len() - 1 {
                self.bytes[self.len] = byte;
                self.len += 1;
            }
        }
        self
    }

    pub(crate) fn number(self, number: u64, digits: usize) -> StackText {
        let (mut buffer, mut at, mut rest) = ([b'0'; 20], 20, number);
        while rest > 0 || 20 - at < digits.max(1) {
            at -= 1;
            buffer[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.add(&buffer[at..])
    }

    pub(crate) fn hex(self, number: u64) -> StackText {
        let mut text = self;
        let digits = (16 - number.leading_zeros() / 4).max(1);
        for at in (0..digits).rev() {
            text = text.add(&[b"0123456789abcdef"[(number >> (at * 4)) as usize & 15]]);
        }
        text
    }

    /// Seconds and ns, as lines of tasks have them.
    pub(crate) fn time(self, ns: u64) -> StackText {
        self.number(ns / 1_000_000_000, 1).add(b".").number(ns % 1_000_000_000, 9)
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
