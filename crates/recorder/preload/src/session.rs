//! Notes for the recorder: the session of the process, and lines of tasks, forks and libraries.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use crate::settings::{self, Path, SETTINGS};
use crate::system::{self, StackText};

static SESSION: Path = Path::new();

/// Appends a line to the list of tasks, by one write.
pub(crate) fn append_line(line: &StackText) {
    let name = StackText::new().add(settings::folder()).add(b"/task.txt");
    // SAFETY: the name and the bytes of the line outlive the calls, which take no more than their length.
    unsafe {
        let file = system::open(name.as_ptr(), system::O_WRONLY_CREAT_APPEND_CLOEXEC, 0o644);
        if file >= 0 {
            system::write(file, line.bytes().as_ptr().cast(), line.bytes().len());
            system::close(file);
        }
    }
}

/// Tells that a library was loaded.
pub(crate) fn append_library(time: u64, base: u64, path: &[u8]) {
    let line = StackText::new().add(b"DLOP timestamp=").time(time).add(b" tid=").number(system::gettid().into(), 1);
    let line = line.add(b" sid=").add(SESSION.get()).add(b" base=").hex(base).add(b" libname=\"");
    append_line(&line.add(path).add(b"\"\n"));
}

/// Tells of the calling thread.
pub(crate) fn append_task(time: u64) {
    // SAFETY: it takes nothing and cannot fail.
    let (tid, pid) = (system::gettid(), unsafe { system::getpid() });
    let line = StackText::new().add(b"TASK timestamp=").time(time).add(b" tid=").number(tid.into(), 1);
    append_line(&line.add(b" pid=").number(pid as u64, 1).add(b"\n"));
}

/// Writes the map of the process and the line of the session.
pub(crate) fn begin(folder: &std::ffi::OsStr) -> Option<String> {
    let time = system::clock_ns(SETTINGS.clock());
    let pid = std::process::id();
    let id = format!("{:016x}", time ^ u64::from(pid) << 40 ^ system::now().rotate_left(20));
    SESSION.set(id.as_bytes());
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let mut lines: Vec<(u64, u64, String, Vec<u8>)> = Vec::new();
    for line in maps.split(|&byte| byte == b'\n') {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let path = words.nth(3).unwrap_or_default();
        let path = &path[path.iter().position(|&byte| byte != b' ').unwrap_or(path.len())..];
        if !path.starts_with(b"/") && path != b"[stack]" || path.starts_with(settings::ring_folder()) {
            continue;
        }
        let range = std::str::from_utf8(range).ok()?;
        let (begin, end) = range.split_once('-')?;
        let (begin, end) = (u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let rights = String::from_utf8_lossy(rights).into_owned();
        match lines.iter_mut().find(|known| known.3 == path) {
            Some(known) => {
                known.1 = known.1.max(end);
                if rights.contains('x') {
                    known.2 = rights;
                }
            }
            None => lines.push((begin, end, rights, path.to_vec())),
        }
    }
    let name = std::path::Path::new(folder).join(format!("sid-{id}.map"));
    let unfinished = name.with_extension("new");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&unfinished).ok()?);
    for (begin, end, rights, path) in lines {
        write!(file, "{begin:08x}-{end:08x} {rights} 00000000 00:00 0                          ").ok()?;
        file.write_all(&path).ok()?;
        file.write_all(b"\n").ok()?;
    }
    file.flush().ok()?;
    // The recorder makes its table of a map that is whole.
    std::fs::rename(unfinished, name).ok()?;
    let program = std::fs::read_link("/proc/self/exe").ok()?;
    let line = StackText::new().add(b"SESS timestamp=").time(time).add(b" pid=").number(pid.into(), 1);
    let line = line.add(b" sid=").add(id.as_bytes()).add(b" exename=\"");
    append_line(&line.add(program.as_os_str().as_bytes()).add(b"\"\n"));
    Some(id)
}
