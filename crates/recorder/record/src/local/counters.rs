//! Counters of the kernel and the processor, for each thread that records them: opened at its first event, read by the
//! processor's own instruction where the kernel allows that, else by a call of the system.

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use crate::contexts::KIND_COUNT;

/// A counter, by the numbers of `perf_event_open(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PerfCounter {
    pub(crate) kind: u32,
    pub(crate) config: u64,
}

/// A counter of a thread.
#[derive(Clone, Copy)]
struct Opened {
    /// 0 when it was not tried, else the descriptor and one; negative when there is none.
    file: i32,
    /// A page that the kernel keeps up to date, or null.
    page: *const u8,
    /// The process that opened it: in a child, the counter is the parent's.
    pid: i32,
}

const UNTRIED: Opened = Opened { file: 0, page: ptr::null(), pid: 0 };

thread_local! {
    static COUNTERS: Cell<[Opened; KIND_COUNT]> = const { Cell::new([UNTRIED; KIND_COUNT]) };
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
    let page = if page == libc::MAP_FAILED { ptr::null() } else { page.cast_const().cast() };
    // SAFETY: a call without arguments.
    Ok(Opened { file: file + 1, page, pid: unsafe { libc::getpid() } })
}

fn close(opened: Opened) {
    // SAFETY: what `open` made; nobody else has it.
    unsafe {
        if !opened.page.is_null() {
            libc::munmap(opened.page.cast_mut().cast(), PAGE);
        }
        if opened.file > 0 {
            libc::close(opened.file - 1);
        }
    }
}

/// Can programs read this counter here without a call of the system? An error when they cannot at all.
pub(crate) fn can_read(counter: PerfCounter) -> io::Result<bool> {
    let opened = open(counter)?;
    let is_direct = read_directly(opened.page).is_some();
    close(opened);
    Ok(is_direct)
}

/// The count of the calling thread; 0 where there is none. `at` is its number among the kinds of contexts.
pub(crate) fn read(at: usize, counter: PerfCounter) -> u64 {
    let mut all = COUNTERS.get();
    let Some(opened) = all.get_mut(at) else { return 0 };
    // SAFETY: a call without arguments.
    if opened.file != 0 && opened.pid != unsafe { libc::getpid() } {
        close(std::mem::replace(opened, UNTRIED));
    }
    if opened.file == 0 {
        // SAFETY: as above.
        let refused = || Opened { file: -1, page: ptr::null(), pid: unsafe { libc::getpid() } };
        *opened = open(counter).unwrap_or_else(|_| refused());
        let opened = *opened;
        COUNTERS.set(all);
        return count(opened);
    }
    count(*opened)
}

fn count(opened: Opened) -> u64 {
    if let Some(count) = read_directly(opened.page) {
        return count;
    }
    let mut count = 0_u64;
    if opened.file > 0 {
        // SAFETY: eight bytes of this stack.
        unsafe { libc::read(opened.file - 1, (&raw mut count).cast(), 8) };
    }
    count
}

/// Closes the counters of a thread that ends.
pub(super) fn end_of_thread() {
    COUNTERS.replace([UNTRIED; KIND_COUNT]).into_iter().for_each(close);
}

/// The count by the processor's instruction, as the page says how.
fn read_directly(page: *const u8) -> Option<u64> {
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
        let lock = AtomicU32::from_ptr(page.add(LOCK).cast_mut().cast());
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
