//! Events of the kernel and the rings that it writes their records into.
//!
//! `unsafe` here: the system calls `perf_event_open`, `ioctl`, `read`, `mmap` and `munmap`, and copies out of a mapping. It is sound
//! since
//!
//! 1. the kernel copies `perf_event_attr` before it returns, and no more bytes than its size says;
//! 2. each `ioctl` and `read` gets an address of a value of ours that lives as long as the call, and is as large as the kernel
//!    writes;
//! 3. a mapping belongs to one [`SampleRing`], which unmaps it when it is dropped; no reference into it leaves this module;
//! 4. the kernel writes only outside of the bytes from `tail` to `head`. Those are copied as bytes, after `head` was loaded
//!    with acquire and before `tail` is stored with release, as the manual page perf_event_open(2) demands. A file that is
//!    mapped cannot shrink here: there is no file.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Closed by `exec`.
const FD_CLOEXEC: libc::c_ulong = 8;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const ID: libc::c_ulong = 0x8008_2407;
/// Places in the first page of a mapping.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// An event of one thread (and of its children) on one CPU.
#[derive(Debug)]
pub(crate) struct PerfEvent {
    fd: OwnedFd,
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Counts of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventCounts {
    pub(crate) id: u64,
    /// Samples that were lost; 0 where the kernel does not count them.
    pub(crate) lost: u64,
}

impl PerfEvent {
    /// Opens an event of a thread; 0 is this one.
    pub(crate) fn open(attr: &[u8], thread: i32, cpu: u32) -> io::Result<PerfEvent> {
        debug_assert_eq!(attr.get(4..8), Some(&(attr.len() as u32).to_ne_bytes()[..]));
        // Reason 1: `attr` is as long as it says.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), thread, cpu as libc::c_int, -1_i32, FD_CLOEXEC)
        };
        match i32::try_from(fd) {
            // A descriptor that the kernel has just made belongs to nothing else.
            Ok(fd @ 0..) => Ok(PerfEvent { fd: unsafe { OwnedFd::from_raw_fd(fd) } }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn control(&self, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
        // Reason 2: what is no address is a number.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), request as _, argument) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// The number by which records name it.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0_u64;
        // Reason 2: `id` has the 8 bytes.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), ID as _, &raw mut id) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(id),
        }
    }

    /// Begins, also for the children.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.control(ENABLE, 0)
    }

    /// Ends, also for the children.
    pub(crate) fn disable(&self) -> io::Result<()> {
        self.control(DISABLE, 0)
    }

    /// Writes into the ring of another event of the same CPU.
    pub(crate) fn write_into(&self, other: &PerfEvent) -> io::Result<()> {
        self.control(SET_OUTPUT, other.fd.as_raw_fd() as libc::c_ulong)
    }

    /// Its counts, of an event whose `read_format` is the id, and the number of lost samples if `counts_losses`.
    pub(crate) fn counts(&self, counts_losses: bool) -> io::Result<EventCounts> {
        let mut words = [0_u64; 3];
        let len = if counts_losses { 24 } else { 16 };
        // Reason 2: `words` has 24 bytes.
        match unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), len) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(EventCounts { id: words[1], lost: words[2] }),
        }
    }
}

/// The ring of a CPU.
#[derive(Debug)]
pub(crate) struct SampleRing {
    base: *mut u8,
    page_bytes: usize,
    /// Bytes of records that it holds: a power of two.
    len_bytes: usize,
}

// The mapping is used through `&mut self` alone, and belongs to no thread.
unsafe impl Send for SampleRing {}

impl SampleRing {
    /// Maps the ring of an event.
    pub(crate) fn map(event: &PerfEvent, len_bytes: usize) -> io::Result<SampleRing> {
        let page_bytes = rustix::param::page_size();
        let (all, writes) = (page_bytes + len_bytes, libc::PROT_READ | libc::PROT_WRITE);
        // Reason 3: a new mapping, at a place that the kernel chooses.
        let base = unsafe { libc::mmap(ptr::null_mut(), all, writes, libc::MAP_SHARED, event.fd.as_raw_fd(), 0) };
        match base {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            base => Ok(SampleRing { base: base.cast(), page_bytes, len_bytes }),
        }
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // Reasons 3 and 4: the first page has these words, 8 bytes aligned, as long as the mapping is there.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Moves all records that are there to the end of `out`.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) {
        let (head, tail) = (self.counter(HEAD).load(Ordering::Acquire), self.counter(TAIL).load(Ordering::Relaxed));
        // The kernel never lets more stand there; a wrong difference is cut, so that all reads stay inside.
        let count = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.len_bytes);
        let from = (tail & (self.len_bytes as u64 - 1)) as usize;
        let first = count.min(self.len_bytes - from);
        out.reserve(count);
        for (from, len) in [(from, first), (0, count - first)] {
            let at = out.len();
            // Reason 4: `from + len` is at most `len_bytes`, and `out` has room for `count` bytes.
            unsafe {
                ptr::copy_nonoverlapping(self.base.add(self.page_bytes + from), out.as_mut_ptr().add(at), len);
                out.set_len(at + len);
            }
        }
        self.counter(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for SampleRing {
    fn drop(&mut self) {
        // Reason 3: the mapping is ours, and as long as it was made.
        unsafe { libc::munmap(self.base.cast(), self.page_bytes + self.len_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use tracemill_perf::write::{SampleRate, SampleSource, SampledEvent, UserStack};

    use super::*;

    /// Samples of this thread, in a ring that is much too small: what is there is whole records, and the rest is counted.
    #[test]
    fn a_small_ring_wraps_and_counts_what_it_loses() {
        let event = SampledEvent {
            source: SampleSource::CpuClock,
            rate: SampleRate::Hz(20_000),
            user_stack: UserStack::FramePointers,
            excludes_kernel: true,
            is_tracker: false,
            has_build_ids: false,
            counts_losses: true,
            is_inherited: false,
            begins_at_exec: false,
            clock_id: libc::CLOCK_MONOTONIC,
        };
        let opened = PerfEvent::open(&event.attr(), 0, 0);
        let Ok(event) = opened else {
            eprintln!("left out: {}", opened.expect_err("checked"));
            return;
        };
        let mut ring = SampleRing::map(&event, rustix::param::page_size()).expect("a ring");
        event.enable().expect("it begins");
        let begin = std::time::Instant::now();
        let (mut out, mut wraps) = (Vec::new(), 0);
        while begin.elapsed().as_millis() < 300 {
            std::hint::black_box(begin.elapsed());
            // Longer than the ring has room for.
            if begin.elapsed().as_millis() as usize / 40 > wraps {
                wraps += 1;
                ring.take(&mut out);
            }
        }
        event.disable().expect("it ends");
        ring.take(&mut out);
        let (mut at, mut samples, mut told) = (0, 0, 0);
        while at < out.len() {
            let size = usize::from(u16::from_ne_bytes([out[at + 6], out[at + 7]]));
            assert!(size >= 8 && at + size <= out.len(), "a record of {size} bytes at {at} of {}", out.len());
            match out[at] {
                9 => samples += 1,
                2 => told += u64::from_ne_bytes(out[at + 16..at + 24].try_into().expect("8 bytes")),
                _ => {}
            }
            at += size;
        }
        let counts = event.counts(true).expect("counts");
        // Other work may keep this thread off CPU 0; then there is nothing to lose.
        assert!(told <= counts.lost && (samples > 0 || counts.lost == 0), "{samples} {told} {counts:?}");
        assert_eq!(counts.id, event.id().expect("an id"));
    }
}
