//! Files that processes had mapped, as records say, for the place of an address in its file (`SPEC.md`, section 12).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;
use std::sync::Arc;

use tracemill_codec::bits::{u32_at, u64_at};
use tracemill_format::code::{CodeKind, CodeMaps, CodeModule, CodePlace};
use tracemill_model::schema::{ByteOrder, Render};

use super::file::BuildId;

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
    /// Build id, where the record has it.
    pub(crate) build_id: &'n [u8],
    /// Is it a single function of the kernel?
    pub(crate) is_function: bool,
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

/// Maps of processes at all times.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    of: HashMap<i32, Vec<(u64, MapChange)>>,
    modules: Vec<CodeModule>,
    by_name: HashMap<ModuleKey, u32>,
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
    pub(crate) fn exec(&mut self, pid: i32, time: u64) {
        self.add(pid, time, MapChange::Clear);
    }

    /// A process makes another one.
    pub(crate) fn fork(&mut self, pid: i32, time: u64, parent: i32) {
        if pid != parent {
            self.add(pid, time, MapChange::Parent(parent));
        }
    }

    /// Puts everything in the order of time. Build ids of files stand in the head of the recording.
    pub(crate) fn finish(&mut self, build_ids: &[BuildId]) {
        self.by_name = HashMap::new();
        let by_file: HashMap<&str, &BuildId> = build_ids.iter().map(|of| (of.file.as_str(), of)).collect();
        for module in self.modules.iter_mut().filter(|module| module.build_id.is_none()) {
            module.build_id = by_file.get(module.path.as_str()).map(|of| of.id.clone());
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

impl CodeMaps for Maps {
    fn modules(&self) -> &[CodeModule] {
        &self.modules
    }

    fn place(&self, process: i64, cycles: u64, address: u64) -> Option<CodePlace> {
        let (module, offset) = self.find(i32::try_from(process).ok()?, cycles, address)?;
        Some(CodePlace { module, offset, address })
    }
}

/// Is it a name that the kernel gives to memory without a file?
fn is_memory(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] =
        [b"//", b"/dev/zero", b"/anon_hugepage", b"[anon", b"[stack", b"[heap]", b"/SYSV", b"/memfd:"];
    NAMES.iter().any(|known| name.starts_with(known))
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
        let Some((module, place)) = self.0.find(pid as i32, time, address) else { return false };
        let Some(module) = self.0.modules.get(module as usize) else { return false };
        // Memory takes everything.
        let _ = write!(out, "{}+0x{place:x}", module.short_name());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_those_of_the_time() {
        let mut maps = Maps::default();
        let code = |begin: u64, name: &'static str| CodeMap {
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
        let id = BuildId { pid: -1, id: vec![0xab], file: "/lib/new.so".into() };
        maps.finish(&[id]);
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
