//! Records that no ring has: names and maps that processes have already, and where the kernel itself is.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use tracemill_perf::write::{WrittenMap, comm_record, kernel_map_record};

/// Bytes of `/proc/PID/maps` that are looked at: the system allows 65,530 maps.
const MAX_MAPS: usize = 64 << 20;

/// Records of the threads of processes, and of their code; with all other maps where stacks are unwound later, since the
/// tables for that are not in maps of code.
pub(crate) fn process_records(threads: &[(u32, u32)], with_data: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for (process, thread) in threads {
        // A thread that has ended meanwhile has no name any more.
        if let Ok(name) = fs::read(format!("/proc/{process}/task/{thread}/comm")) {
            out.extend(comm_record(*process, *thread, name.strip_suffix(b"\n").unwrap_or(&name)));
        }
    }
    let mut processes: Vec<u32> = threads.iter().map(|(process, _)| *process).collect();
    processes.dedup();
    for process in processes {
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        for line in maps[..maps.len().min(MAX_MAPS)].split(|byte| *byte == b'\n') {
            if let Some(map) = parse_map(process, line).filter(|map| with_data || map.is_code()) {
                out.extend(map.record());
            }
        }
    }
    out
}

/// A map, by a line of `/proc/PID/maps`.
fn parse_map(pid: u32, line: &[u8]) -> Option<WrittenMap<'_>> {
    let mut rest = line;
    let mut word = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[start..].iter().position(|byte| *byte == b' ').map_or(rest.len(), |len| start + len);
        let word = std::str::from_utf8(&rest[start..end]).ok();
        rest = &rest[end..];
        word
    };
    let (range, rights, offset, device, inode) = (word()?, word()?, word()?, word()?, word()?);
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (from, to) = range.split_once('-')?;
    let (address, offset, (major, minor)) = (hex(from)?, hex(offset)?, device.split_once(':')?);
    let protection = rights.bytes().zip(*b"rwx").zip([1, 2, 4]).filter(|((has, right), _)| has == right);
    let protection = protection.map(|(_, bit)| bit).sum::<u32>();
    let path = rest.iter().position(|byte| *byte != b' ').map_or(&b"//anon"[..], |start| &rest[start..]);
    Some(WrittenMap {
        pid,
        address,
        len_bytes: hex(to)?.checked_sub(address)?,
        offset,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        protection,
        flags: if rights.ends_with('s') { 1 } else { 2 },
        path,
    })
}

/// Records of the kernel and its modules; none where addresses are hidden.
pub(crate) fn kernel_records() -> Vec<u8> {
    let Some((from, to)) = kernel_code() else { return Vec::new() };
    // As perf has it: readers move addresses by the difference to where this symbol is elsewhere.
    let mut out = kernel_map_record(from, to - from, from, "[kernel.kallsyms]_text");
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    for line in modules.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let address = words.get(5).and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let size = words.get(1).and_then(|word| word.parse().ok());
        if let (Some(address @ 1..), Some(size)) = (address, size) {
            out.extend(kernel_map_record(address, size, 0, &format!("[{}]", words[0])));
        }
    }
    out
}

/// Where the code of the kernel begins and ends.
fn kernel_code() -> Option<(u64, u64)> {
    let (mut from, mut lines) = (None, BufReader::new(File::open("/proc/kallsyms").ok()?));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let is_end = line.ends_with(b" _etext\n");
        if is_end || line.ends_with(b" _text\n") {
            let address = std::str::from_utf8(line.get(..16)?).ok()?;
            let address = u64::from_str_radix(address, 16).ok().filter(|address| *address > 0)?;
            match from {
                Some(from) if is_end && address > from => return Some((from, address)),
                _ => from = Some(address),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_become_maps_of_code() {
        let line = b"55d0c8a2f000-55d0c8a33000 r-xp 00002000 fe:01 247857                     /a b/x (deleted)";
        let map = parse_map(7, line).expect("a map");
        assert_eq!((map.address, map.len_bytes, map.offset), (0x55d0_c8a2_f000, 0x4000, 0x2000));
        assert_eq!((map.device, map.inode, map.protection, map.flags), ((0xfe, 1), 247_857, 5, 2));
        assert_eq!(map.path, b"/a b/x (deleted)");
        let jit = parse_map(7, b"7f00-8000 rwxs 00000000 00:00 0 ").expect("a map");
        assert_eq!((jit.path, jit.flags, jit.protection), (&b"//anon"[..], 1, 7));
        let data = parse_map(7, b"7f00-8000 r--p 00000000 00:00 0 /data").expect("a map");
        assert!(jit.is_code() && !data.is_code());
        for other in [&b""[..], b"x", b"8000-7f00 r-xp 00000000 00:00 0", b"\xff - -"] {
            assert_eq!(parse_map(7, other), None);
        }
    }

    #[test]
    fn this_process_has_a_name_and_code() {
        let id = std::process::id();
        let records = process_records(&[(id, id)], false);
        let own = std::env::current_exe().expect("a path").to_string_lossy().into_owned();
        assert!(String::from_utf8_lossy(&records).contains(&own));
        let (mut at, mut kinds) = (0, Vec::new());
        while at < records.len() {
            kinds.push(records[at]);
            at += usize::from(u16::from_le_bytes([records[at + 6], records[at + 7]]));
        }
        assert_eq!((at, kinds[0]), (records.len(), 3));
        assert!(kinds[1..].iter().all(|kind| *kind == 10) && kinds.len() > 2, "{kinds:?}");
    }
}
