//! Files that processes had mapped, as records say, for the place of an address in its file (`SPEC.md`, section 12).

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_model::schema::{ByteOrder, Render};

/// Maps that are kept, of all processes together.
const MAX_MAPS: usize = 1 << 20;
/// Maps that are looked at for an address, the newest first.
const MAX_STEPS: usize = 1 << 12;
/// Processes whose makers are asked for their maps, one after the other.
const MAX_PARENTS: usize = 16;
/// The process of the kernel's own code.
const KERNEL: i32 = -1;
/// Addresses from here on are the kernel's.
const FIRST_OF_KERNEL: u64 = 1 << 63;

/// Code that is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeMap<'n> {
    pub(crate) begin: u64,
    pub(crate) len: u64,
    pub(crate) file_offset: u64,
    pub(crate) name: &'n [u8],
}

#[derive(Clone, Copy, Debug)]
enum MapChange {
    /// Code is mapped.
    Map { begin: u64, end: u64, file_offset: u64, name: u32 },
    /// A new program has none of the maps before it.
    Clear,
    /// A new process has the maps of the one that made it.
    Parent(i32),
}

/// Maps of processes at all times.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    of: HashMap<i32, Vec<(u64, MapChange)>>,
    names: Vec<Arc<str>>,
    by_name: HashMap<Vec<u8>, u32>,
    count: usize,
    /// Some were not kept.
    pub(crate) is_cut: bool,
}

impl Maps {
    fn add(&mut self, pid: i32, time: u64, change: MapChange) {
        if self.count >= MAX_MAPS {
            self.is_cut = true;
            return;
        }
        self.count += 1;
        self.of.entry(pid).or_default().push((time, change));
    }

    /// A process maps code.
    pub(crate) fn map(&mut self, pid: i32, time: u64, map: &CodeMap<'_>) {
        // The kernel's code has the name of its first symbol after the brackets.
        let name = match map.name.iter().position(|byte| *byte == b']') {
            Some(end) if map.name.starts_with(b"[kernel.") => &map.name[..=end],
            // Memory without a file: `//anon`.
            _ if map.name.starts_with(b"//") => map.name,
            _ => map.name.rsplit(|byte| *byte == b'/').next().unwrap_or(map.name),
        };
        let number = match self.by_name.get(name) {
            Some(&known) => known,
            None => {
                let number = self.names.len() as u32;
                self.names.push(String::from_utf8_lossy(name).into());
                self.by_name.insert(name.to_vec(), number);
                number
            }
        };
        // Of the kernel the offset is its address, which says nothing about a file.
        let is_kernel = pid == KERNEL;
        let file_offset = if is_kernel { 0 } else { map.file_offset };
        let end = map.begin.saturating_add(map.len);
        self.add(pid, time, MapChange::Map { begin: map.begin, end, file_offset, name: number });
    }

    /// A process becomes another program.
    pub(crate) fn exec(&mut self, pid: i32, time: u64) {
        self.add(pid, time, MapChange::Clear);
    }

    /// A process makes another one.
    pub(crate) fn fork(&mut self, pid: i32, time: u64, parent: i32) {
        if pid != parent {
            self.add(pid, time, MapChange::Parent(parent));
        }
    }

    /// Puts everything in the order of time.
    pub(crate) fn finish(&mut self) {
        self.by_name = HashMap::new();
        self.of.values_mut().for_each(|changes| changes.sort_by_key(|(time, _)| *time));
    }

    /// The file that a process had at an address, and the place in it.
    fn find(&self, pid: i32, time: u64, address: u64) -> Option<(&str, u64)> {
        let (mut pid, mut time) = (if address >= FIRST_OF_KERNEL { KERNEL } else { pid }, time);
        let mut steps = MAX_STEPS;
        for _ in 0..MAX_PARENTS {
            let changes = self.of.get(&pid)?;
            let before = &changes[..changes.partition_point(|(from, _)| *from <= time)];
            let mut parent = None;
            for &(from, change) in before.iter().rev() {
                steps = steps.checked_sub(1)?;
                match change {
                    MapChange::Map { begin, end, file_offset, name } if (begin..end).contains(&address) => {
                        let place = (address - begin).wrapping_add(file_offset);
                        return self.names.get(name as usize).map(|name| (&**name, place));
                    }
                    MapChange::Map { .. } => {}
                    MapChange::Clear => return None,
                    MapChange::Parent(of) => {
                        parent = Some((of, from));
                        break;
                    }
                }
            }
            (pid, time) = parent?;
        }
        None
    }
}

/// Bytes of the field that [`PlaceText`] shows: an address, and the time.
pub(crate) const PLACE_BYTES: usize = 16;

/// Shows the file of an address and the place in it, as `libc.so.6+0x2724a`. The event begins with the process.
#[derive(Debug)]
pub(crate) struct PlaceText(pub(crate) Arc<Maps>);

impl Render for PlaceText {
    fn render(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let little = ByteOrder::Little;
        let Some(pid) = u32_at(event, 0, little) else { return false };
        let Some((address, time)) = u64_at(own, 0, little).zip(u64_at(own, 8, little)) else { return false };
        let Some((name, place)) = self.0.find(pid as i32, time, address) else { return false };
        // Memory takes everything.
        let _ = write!(out, "{name}+0x{place:x}");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_those_of_the_time() {
        let mut maps = Maps::default();
        let code =
            |begin: u64, name: &'static str| CodeMap { begin, len: 0x100, file_offset: 0x10, name: name.as_bytes() };
        maps.map(5, 30, &code(0x1000, "/lib/new.so"));
        maps.map(5, 0, &code(0x1000, "/lib/old.so"));
        maps.fork(6, 20, 5);
        maps.fork(7, 40, 6);
        maps.exec(7, 50);
        maps.map(7, 60, &code(0x2000, "/bin/x"));
        maps.map(KERNEL, 0, &code(1 << 63, "[kernel.kallsyms]_text"));
        maps.finish();
        let maps = Arc::new(maps);
        let text = PlaceText(maps);
        let place = |pid: i32, time: u64, address: u64| {
            let own = [address.to_le_bytes(), time.to_le_bytes()].concat();
            let mut out = Vec::new();
            text.render(&pid.to_le_bytes(), &own, &mut out).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(place(5, 29, 0x1001).as_deref(), Some("old.so+0x11"));
        assert_eq!(place(5, 30, 0x1001).as_deref(), Some("new.so+0x11"));
        assert_eq!(place(6, 99, 0x1001).as_deref(), Some("old.so+0x11"), "as its maker had it then");
        assert_eq!(place(7, 45, 0x1001).as_deref(), Some("old.so+0x11"));
        assert_eq!(place(7, 55, 0x1001), None, "another program");
        assert_eq!(place(7, 65, 0x20ff).as_deref(), Some("x+0x10f"));
        assert_eq!(place(7, 65, 0x2100), None);
        assert_eq!(place(9, 65, 1 << 63 | 1).as_deref(), Some("[kernel.kallsyms]+0x1"));
    }
}
