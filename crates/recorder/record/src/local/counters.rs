//! Counters of the kernel and the processor, for each thread that records them: opened at its first event, read by the
//! processor's own instruction where the kernel allows that, else by a call of the system.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering, compiler_fence};

use super::system;
use crate::contexts::KIND_COUNT;

/// A counter, by the numbers of `perf_event_open(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PerfCounter {
    pub(crate) kind: u32,
    pub(crate) config: u64,
}

/// A counter that was opened.
struct Opened {
    file: i32,
    /// A page that the kernel keeps up to date, or null.
    page: *mut u8,
}

/// A counter of a thread. A signal handler may need it while the thread is at it.
struct ThreadCounter {
    /// 0 when it was not tried, else the descriptor and one; negative when there is none.
    file: AtomicI32,
    page: AtomicPtr<u8>,
    /// The process that opened it: in a child, the counter is the parent's.
    pid: AtomicI32,
}

thread_local! {
    static COUNTERS: [ThreadCounter; KIND_COUNT] = const { [const { ThreadCounter::new() }; KIND_COUNT] };
}

/// Attributes of the first version of the call, 64 bytes.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

/// `exclude_kernel` and `exclude_hv`: allowed to programs without rights.
const OF_USER: u64 = 1 << 5 | 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
const PAGE: usize = 4096;

fn open(counter: PerfCounter) -> io::Result<Opened> {
    // Counts of the kernel's own happen in the kernel.
    let flags = if counter.kind == 0 { OF_USER } else { 0 };
    let try_open = |flags| {
        let attributes = Attributes {
            kind: counter.kind,
            size: size_of::<Attributes>() as u32,
            config: counter.config,
            period: 0,
            sample_type: 0,
            read_format: 0,
            flags,
            wakeup: 0,
            breakpoint: 0,
            address: 0,
        };
        // SAFETY: a pointer to this stack, with its length within.
        unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, 0, -1, -1, CLOSE_ON_EXEC) as i32 }
    };
    let mut file = try_open(flags);
    if file < 0 && flags != OF_USER {
        file = try_open(OF_USER);
    }
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new mapping at a place that the kernel chooses.
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, libc::PROT_READ, libc::MAP_SHARED, file, 0) };
    Ok(Opened { file, page: if page == libc::MAP_FAILED { ptr::null_mut() } else { page.cast() } })
}

impl Opened {
    fn close(self) {
        // SAFETY: what `open` made in this process; nobody else has it.
        unsafe {
            if !self.page.is_null() {
                libc::munmap(self.page.cast(), PAGE);
            }
            libc::close(self.file);
        }
    }
}

fn pid() -> i32 {
    // SAFETY: a call without arguments.
    unsafe { libc::getpid() }
}

/// Can programs read this counter here without a call of the system? An error when they cannot at all.
pub(crate) fn can_read(counter: PerfCounter) -> io::Result<bool> {
    let opened = open(counter)?;
    let is_direct = read_directly(opened.page).is_some();
    opened.close();
    Ok(is_direct)
}

/// The count of the calling thread; 0 where there is none. `at` is its number among the kinds of contexts.
pub(crate) fn read(at: usize, counter: PerfCounter) -> u64 {
    COUNTERS.with(|counters| counters.get(at).map_or(0, |of_thread| of_thread.read(counter)))
}

/// Closes the counters of a thread that ends.
pub(super) fn end_of_thread() {
    COUNTERS.with(|counters| counters.iter().filter_map(ThreadCounter::take).for_each(Opened::close));
}

/// Leaves the counters to the parent, in a child that was made just now.
pub(super) fn leave_to_parent() {
    COUNTERS.with(|counters| {
        for ThreadCounter { file, page, .. } in counters {
            // Its page is not in the child: there may be another mapping by now.
            page.store(ptr::null_mut(), Ordering::Relaxed);
            let file = file.swap(0, Ordering::Relaxed);
            if file > 0 {
                system::close_inherited(file - 1);
            }
        }
    });
}

impl ThreadCounter {
    const fn new() -> ThreadCounter {
        ThreadCounter { file: AtomicI32::new(0), page: AtomicPtr::new(ptr::null_mut()), pid: AtomicI32::new(0) }
    }

    /// Takes the counter out, if one is open: it is not any more then.
    fn take(&self) -> Option<Opened> {
        let (file, page) = (self.file.swap(0, Ordering::Relaxed), self.page.swap(ptr::null_mut(), Ordering::Relaxed));
        (file > 0 && self.pid.load(Ordering::Relaxed) == pid()).then_some(Opened { file: file - 1, page })
    }

    fn read(&self, counter: PerfCounter) -> u64 {
        if self.file.load(Ordering::Relaxed) != 0 && self.pid.load(Ordering::Relaxed) != pid() {
            // A child that nobody told has neither the page nor, by now, perhaps the descriptor.
            self.page.store(ptr::null_mut(), Ordering::Relaxed);
            self.file.store(0, Ordering::Relaxed);
        }
        if self.file.load(Ordering::Relaxed) == 0 {
            self.open(counter);
        }
        if let Some(count) = read_directly(self.page.load(Ordering::Relaxed)) {
            return count;
        }
        let (mut count, file) = (0_u64, self.file.load(Ordering::Relaxed));
        if file > 0 {
            // SAFETY: eight bytes of this stack.
            unsafe { libc::read(file - 1, (&raw mut count).cast(), 8) };
        }
        count
    }

    fn open(&self, counter: PerfCounter) {
        let opened = open(counter).ok();
        let file = opened.as_ref().map_or(-1, |opened| opened.file + 1);
        self.pid.store(pid(), Ordering::Relaxed);
        let is_first = self.file.compare_exchange(0, file, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        match opened {
            Some(opened) if is_first => self.page.store(opened.page, Ordering::Relaxed),
            // A signal handler has opened it meanwhile.
            Some(opened) => opened.close(),
            None => {}
        }
    }
}

/// The count by the processor's instruction, as the page says how.
fn read_directly(page: *mut u8) -> Option<u64> {
    const LOCK: usize = 8;
    const INDEX: usize = 12;
    const OFFSET: usize = 16;
    const CAPABILITIES: usize = 40;
    const WIDTH: usize = 48;
    const USER_READ: u64 = 1 << 2;

    if page.is_null() {
        return None;
    }
    // SAFETY: the page is mapped as long as the counter is open; the kernel changes it meanwhile, so it is read anew each time.
    unsafe {
        let lock = AtomicU32::from_ptr(page.add(LOCK).cast());
        loop {
            let before = lock.load(Ordering::Acquire);
            let capabilities = page.add(CAPABILITIES).cast::<u64>().read_volatile();
            let index = page.add(INDEX).cast::<u32>().read_volatile();
            if capabilities & USER_READ == 0 || index == 0 {
                return None;
            }
            let offset = page.add(OFFSET).cast::<i64>().read_volatile();
            let width = u32::from(page.add(WIDTH).cast::<u16>().read_volatile());
            let counted = instruction(index - 1)?;
            // The upper bits of the counter are its sign.
            let shift = 64_u32.checked_sub(width)?;
            let counted = (counted << shift).cast_signed() >> shift;
            compiler_fence(Ordering::SeqCst);
            if lock.load(Ordering::Acquire) == before {
                return Some(offset.wrapping_add(counted).cast_unsigned());
            }
        }
    }
}

/// Reads a counter of the processor. Only where the kernel's page says that programs may.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn instruction(number: u32) -> Option<u64> {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise; the instruction writes the two registers.
    unsafe {
        core::arch::asm!(
            "rdpmc",
            in("ecx") number,
            out("eax") low,
            out("edx") high,
            options(nomem, nostack, preserves_flags),
        );
    }
    Some(u64::from(high) << 32 | u64::from(low))
}

#[cfg(any(miri, not(target_arch = "x86_64")))]
unsafe fn instruction(_: u32) -> Option<u64> {
    None
}
