//! Pages of the ring buffer of one CPU to a file, as they are: whole ones without a copy, those that are not full by reading, at
//! the end and now and then.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

/// Time after which a thread looks whether it must end.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks at a file that is never waited for.
const IDLE: Duration = Duration::from_millis(10);
/// Where so few events come that no page gets full, those that are there are taken so often: whoever follows the recording sees
/// them, and a crash of the machine loses no more. Each time takes a page of the file, and none without events.
const NOT_FULL: Duration = Duration::from_millis(200);
/// Bytes that a pipe holds, unless it was made larger.
const PIPE_BYTES: usize = 64 << 10;

/// Moves pages from a `trace_pipe_raw` to a file until it is told to stop, then those that are left; gives their bytes.
pub(crate) fn copy(from: &Path, to: &File, page_bytes: usize, must_stop: &AtomicBool) -> io::Result<u64> {
    let mut from = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(from)?;
    let (mut moved, mut taken) = (0, Instant::now());
    let mut pipe = pipe_with(PipeFlags::CLOEXEC).ok().filter(|_| page_bytes <= PIPE_BYTES);
    loop {
        let is_last = must_stop.load(Ordering::Relaxed);
        let mut waited = [PollFd::new(&from, PollFlags::IN)];
        // Whether something is there is seen below.
        let _ = poll(&mut waited, Some(&timeout(if is_last { Duration::ZERO } else { LOOK })));
        let mut found = 0;
        if let Some((read, write)) = &pipe {
            loop {
                let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                match splice(&from, None, write, None, PIPE_BYTES / page_bytes * page_bytes, flags) {
                    Ok(0) | Err(Errno::AGAIN) => break,
                    Ok(len) => {
                        drain(read, to, len)?;
                        found += len as u64;
                    }
                    Err(Errno::INTR) => {}
                    // Not every file system can do it.
                    Err(_) => {
                        pipe = None;
                        break;
                    }
                }
            }
        }
        if found > 0 {
            taken = Instant::now();
        }
        if pipe.is_none() || is_last || taken.elapsed() >= NOT_FULL {
            found += read_pages(&mut from, to, page_bytes)?;
            taken = Instant::now();
        }
        moved += found;
        if is_last && found == 0 {
            return Ok(moved);
        }
        // A file that is no pipe can always be read.
        if found == 0 && !is_last {
            std::thread::sleep(IDLE);
        }
    }
}

fn timeout(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// Moves so many bytes out of a pipe.
fn drain(pipe: impl rustix::fd::AsFd, mut to: &File, len: usize) -> io::Result<()> {
    let mut left = len;
    while left > 0 {
        match splice(&pipe, None, to, None, left, SpliceFlags::MOVE) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => left -= len,
            Err(Errno::INTR) => {}
            Err(Errno::INVAL) => {
                let mut bytes = vec![0; left];
                let read = rustix::io::read(&pipe, &mut bytes)?;
                to.write_all(&bytes[..read])?;
                left -= read;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads what is there, a page at a time.
fn read_pages(from: &mut File, mut to: &File, page_bytes: usize) -> io::Result<u64> {
    let (mut page, mut moved) = (vec![0; page_bytes], 0);
    loop {
        match from.read(&mut page) {
            Ok(0) => return Ok(moved),
            Ok(len) => {
                // The kernel fills only `len` bytes; the rest of the page is unused.
                page[len..].fill(0);
                to.write_all(&page)?;
                moved += page_bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
