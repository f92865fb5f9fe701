//! Code that processes map, as a recording says it change by change, for the place of an address in its file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tracemill_model::error::Error;

use crate::code::{CodeKind, CodeMaps, CodeModule, CodePlace};

/// Maps that are kept, of all processes together.
const MAX_MAPS: usize = 1 << 20;
/// Maps that are looked at for an address, the newest first.
const MAX_STEPS: usize = 1 << 12;
/// Processes whose makers are asked for their maps, one after the other.
const MAX_PARENTS: usize = 16;
/// The process of the kernel's own code.
pub const KERNEL: i32 = -1;
/// The bit of the protection of a mapping that allows execution, as in `mmap`.
pub const EXECUTABLE: u32 = 4;
/// The bit of the flags of a kernel function by which it goes, as perf records it.
pub const UNREGISTERED: u32 = 1;
/// Addresses from here on are the kernel's.
const FIRST_OF_KERNEL: u64 = 1 << 63;

/// Code that a process maps.
#[derive(Clone, Copy, Debug)]
pub struct CodeMapping<'n> {
    /// Its first address.
    pub begin: u64,
    /// Its bytes.
    pub len: u64,
    /// The place of its beginning in the file.
    pub file_offset: u64,
    /// The path of the file, or the name that the kernel gives to what is not in one.
    pub name: &'n [u8],
    /// Build id, where it is known.
    pub build_id: &'n [u8],
    /// Is it a single function of the kernel?
    pub is_function: bool,
}

#[derive(Clone, Copy, Debug)]
enum MapChange {
    /// Code is mapped.
    Map { begin: u64, end: u64, file_offset: u64, module: u32 },
    /// A new program has none of the maps before it.
    Clear,
    /// A new process has the maps of the one that made it.
    Parent(i32),
}

/// Name, build id, and the address of the first symbol of the kernel.
type ModuleKey = (Vec<u8>, Vec<u8>, CodeKind);

/// The code that processes had mapped at all times, by what was recorded of each change. Memory is bounded: changes after the first
/// 1,048,576 are not kept.
#[derive(Debug, Default)]
pub struct MappedCode {
    of: HashMap<i32, Vec<(u64, MapChange)>>,
    modules: Vec<CodeModule>,
    by_name: HashMap<ModuleKey, u32>,
    count: usize,
    left_out: u64,
    ids_of_paths: u64,
}

impl MappedCode {
    /// The number of changes that were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The warning about changes that were not kept.
    pub fn warning(&self) -> Option<Error> {
        let message =
            format!("{} more mappings of code than are kept; the files of later ones are unknown", self.left_out);
        (self.left_out > 0).then(|| Error::unsupported(message))
    }

    /// Is no code known?
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    fn add(&mut self, pid: i32, time: u64, change: MapChange) {
        if !self.has_room() {
            return;
        }
        self.count += 1;
        self.of.entry(pid).or_default().push((time, change));
    }

    /// May another change be kept? One that may not is counted.
    fn has_room(&mut self) -> bool {
        let has_room = self.count < MAX_MAPS;
        self.left_out += u64::from(!has_room);
        has_room
    }

    /// A process maps code; [`KERNEL`] does when the kernel's own begins to be somewhere. The time is a value of the clock.
    pub fn map(&mut self, pid: i32, time: u64, map: &CodeMapping<'_>) {
        // A name takes memory, too.
        if !self.has_room() {
            return;
        }
        let is_kernel = pid == KERNEL;
        // The kernel's code has the name of its first symbol after the brackets.
        let bracket = map.name.iter().position(|byte| *byte == b']').filter(|_| map.name.starts_with(b"[kernel."));
        let (name, symbol) = bracket.map_or((map.name, &b""[..]), |end| map.name.split_at(end + 1));
        let kind = match () {
            () if map.is_function => CodeKind::Function,
            () if bracket.is_some() => {
                CodeKind::Kernel { symbol: String::from_utf8_lossy(symbol).into_owned(), address: map.file_offset }
            }
            () if is_kernel => CodeKind::KernelModule,
            () if is_memory(name) => CodeKind::Memory,
            () => CodeKind::File,
        };
        let module = match self.by_name.entry((name.to_vec(), map.build_id.to_vec(), kind)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let number = self.modules.len() as u32;
                self.modules.push(CodeModule {
                    path: String::from_utf8_lossy(name).into_owned(),
                    build_id: (!map.build_id.is_empty()).then(|| map.build_id.to_vec()),
                    kind: new.key().2.clone(),
                });
                *new.insert(number)
            }
        };
        // Of the kernel the offset is its address, which says nothing about a file.
        let file_offset = if is_kernel { 0 } else { map.file_offset };
        let end = map.begin.saturating_add(map.len);
        self.add(pid, time, MapChange::Map { begin: map.begin, end, file_offset, module });
    }

    /// A process becomes another program.
    pub fn exec(&mut self, pid: i32, time: u64) {
        self.add(pid, time, MapChange::Clear);
    }

    /// A process makes another one.
    pub fn fork(&mut self, pid: i32, time: u64, parent: i32) {
        if pid != parent {
            self.add(pid, time, MapChange::Parent(parent));
        }
    }

    /// Puts everything in the order of time: nothing is found before. Build ids that no mapping had are those of their paths.
    pub fn finish(&mut self, build_id: impl Fn(&str) -> Option<Vec<u8>>) {
        self.by_name = HashMap::new();
        for module in self.modules.iter_mut().filter(|module| module.build_id.is_none()) {
            module.build_id = build_id(&module.path);
            self.ids_of_paths += u64::from(module.build_id.is_some());
        }
        self.of.values_mut().for_each(|changes| changes.sort_by_key(|(time, _)| *time));
    }

    /// The file that a process had at an address, and the place in it.
    fn find(&self, pid: i32, time: u64, address: u64) -> Option<(u32, u64)> {
        let (mut pid, mut time) = (if address >= FIRST_OF_KERNEL { KERNEL } else { pid }, time);
        let mut steps = MAX_STEPS;
        for _ in 0..MAX_PARENTS {
            let changes = self.of.get(&pid)?;
            let before = &changes[..changes.partition_point(|(from, _)| *from <= time)];
            let mut parent = None;
            for &(from, change) in before.iter().rev() {
                steps = steps.checked_sub(1)?;
                match change {
                    MapChange::Map { begin, end, file_offset, module } if (begin..end).contains(&address) => {
                        return Some((module, (address - begin).wrapping_add(file_offset)));
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

impl CodeMaps for MappedCode {
    fn modules(&self) -> &[CodeModule] {
        &self.modules
    }

    fn place(&self, process: i64, cycles: u64, address: u64) -> Option<CodePlace> {
        let (module, offset) = self.find(i32::try_from(process).ok()?, cycles, address)?;
        Some(CodePlace { module, offset, address })
    }

    fn build_ids_beside_events(&self) -> u64 {
        self.ids_of_paths
    }
}

/// Is it a name that the kernel gives to memory without a file?
fn is_memory(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] =
        [b"//", b"/dev/zero", b"/anon_hugepage", b"[anon", b"[stack", b"[heap]", b"/SYSV", b"/memfd:"];
    NAMES.iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_those_of_the_time() {
        let mut maps = MappedCode::default();
        let code = |begin: u64, name: &'static str| CodeMapping {
            begin,
            len: 0x100,
            file_offset: 0x10,
            name: name.as_bytes(),
            build_id: &[],
            is_function: false,
        };
        maps.map(5, 30, &code(0x1000, "/lib/new.so"));
        maps.map(5, 0, &code(0x1000, "/lib/old.so"));
        maps.fork(6, 20, 5);
        maps.fork(7, 40, 6);
        maps.exec(7, 50);
        maps.map(7, 60, &code(0x2000, "/bin/x"));
        maps.map(KERNEL, 0, &code(1 << 63, "[kernel.kallsyms]_text"));
        maps.finish(|path| (path == "/lib/new.so").then(|| vec![0xab]));
        let module = |address: u64| {
            let place = maps.place(5, 30, address).expect("mapped");
            &maps.modules()[place.module as usize]
        };
        assert_eq!(
            (module(0x1001).path.as_str(), module(0x1001).build_id.as_deref()),
            ("/lib/new.so", Some(&[0xab][..]))
        );
        let kernel = CodeKind::Kernel { symbol: "_text".into(), address: 0x10 };
        assert_eq!((module(1 << 63).kind.clone(), module(1 << 63).build_id.clone()), (kernel, None));
        let place = |pid: i64, time: u64, address: u64| {
            let place = maps.place(pid, time, address)?;
            Some(format!("{}+0x{:x}", maps.modules()[place.module as usize].short_name(), place.offset))
        };
        assert_eq!(place(5, 29, 0x1001).as_deref(), Some("old.so+0x11"));
        assert_eq!(place(5, 30, 0x1001).as_deref(), Some("new.so+0x11"));
        assert_eq!(place(6, 99, 0x1001).as_deref(), Some("old.so+0x11"), "as its maker had it then");
        assert_eq!(place(7, 45, 0x1001).as_deref(), Some("old.so+0x11"));
        assert_eq!(place(7, 55, 0x1001), None, "another program");
        assert_eq!(place(7, 65, 0x20ff).as_deref(), Some("x+0x10f"));
        assert_eq!(place(7, 65, 0x2100), None);
        assert_eq!(place(9, 65, 1 << 63 | 1).as_deref(), Some("[kernel.kallsyms]+0x1"));
        assert!(maps.warning().is_none());
    }

    #[test]
    fn memory_is_bounded_and_changes_that_are_not_kept_are_counted() {
        let mut maps = MappedCode::default();
        for at in 0..MAX_MAPS as u64 - 1 {
            maps.exec(5, at);
        }
        for name in ["/bin/last", "/bin/late", "/bin/later"] {
            let name = name.as_bytes();
            maps.map(5, 9, &CodeMapping { begin: 1, len: 1, file_offset: 0, name, build_id: &[], is_function: false });
        }
        maps.fork(6, 9, 5);
        assert_eq!((maps.modules().len(), maps.left_out()), (1, 3));
        assert!(maps.warning().is_some_and(|warning| warning.message().starts_with("3 more mappings of code")));
    }
}
