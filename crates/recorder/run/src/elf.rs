//! Symbols, build id and instrumentation of ELF files of 64 bits, little endian.
//!
//! Files are somebody's: every number is checked against the bytes that are there.

use std::collections::BTreeMap;

use crate::notes::ProbeNotes;

/// The parts of an ELF file that are needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elf {
    /// The build id, in hexadecimal.
    pub(crate) build_id: Option<String>,
    /// Functions and data by their address from the beginning of the file in memory: a letter as `nm` has it, the end, and
    /// the name. `P` are the slots through which functions of libraries are called.
    pub(crate) symbols: BTreeMap<u64, (char, u64, String)>,
    /// The address in the file that lies where the file begins in memory.
    pub(crate) base: u64,
    /// Does the system run a loader for it? Not for libraries, and not for programs that are linked statically.
    pub(crate) has_loader: bool,
    /// Names of functions that it calls and does not have.
    pub(crate) wanted: Vec<String>,
    /// Where lists of entries stand that can be patched, from the beginning of the file in memory, and their bytes.
    pub(crate) patchable: Vec<[u64; 2]>,
    /// The probes of `sys/sdt.h` that it has.
    pub(crate) probes: ProbeNotes,
    /// The libraries that the loader adds to it.
    pub(crate) libraries: Vec<String>,
    /// The folders in which the loader looks for those first, as the file has them: divided by colons.
    pub(crate) folders: Vec<String>,
    /// The kind of processors that it is for.
    pub(crate) machine: u64,
    /// The sections that are in memory and in the file.
    pub(crate) loaded: Vec<LoadedSection>,
}

/// A section that is in memory and in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadedSection {
    /// Its address in the file.
    pub(crate) address: u64,
    /// Where its bytes stand.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// Are these instructions?
    pub(crate) is_code: bool,
}

struct ElfSection {
    kind: u32,
    flags: u64,
    name: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u64,
}

fn number<const N: usize>(bytes: &[u8], at: u64) -> Option<[u8; N]> {
    bytes.get(usize::try_from(at).ok()?..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: u64) -> Option<u64> {
    number(bytes, at).map(|chunk| u16::from_le_bytes(chunk).into())
}

pub(crate) fn u32_at(bytes: &[u8], at: u64) -> Option<u64> {
    number(bytes, at).map(|chunk| u32::from_le_bytes(chunk).into())
}

pub(crate) fn u64_at(bytes: &[u8], at: u64) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

pub(crate) fn text_at(bytes: &[u8], at: u64) -> Option<String> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

impl Elf {
    /// Reads a file; `None` when it is no ELF file of this kind.
    pub(crate) fn read(bytes: &[u8]) -> Option<Elf> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let mut elf = Elf { machine: u16_at(bytes, 18)?, ..Elf::default() };
        let (programs, program_len, program_count) = (u64_at(bytes, 32)?, u16_at(bytes, 54)?, u16_at(bytes, 56)?);
        let program = |at: u64| Some((u32_at(bytes, at)?, u64_at(bytes, at + 16)?));
        let loads = || (0..program_count).filter_map(|n| program(programs.checked_add(n * program_len)?));
        elf.has_loader = loads().any(|(kind, _)| kind == 3);
        // The first segment begins where the file does, on a page.
        let base = loads().filter(|(kind, _)| *kind == 1).map(|(_, address)| address & !0xfff).min().unwrap_or(0);
        elf.base = base;
        let sections = sections(bytes)?;
        let names = sections.get(usize::try_from(u16_at(bytes, 62)?).ok()?).map_or(0, |section| section.offset);
        let has_all = sections.iter().any(|section| section.kind == 2);
        let name_of = |section: &ElfSection| {
            names.checked_add(section.name).and_then(|at| text_at(bytes, at)).unwrap_or_default()
        };
        let probe_base = sections.iter().find(|section| name_of(section) == ".stapsdt.base").map(|found| found.address);
        const IN_MEMORY: u64 = 2;
        const CODE: u64 = 4;
        const WITHOUT_BYTES: u32 = 8;
        for section in &sections {
            let name = name_of(section);
            if name == "__patchable_function_entries" && section.size > 0 {
                elf.patchable.extend(section.address.checked_sub(base).map(|at| [at, section.size]));
            }
            if section.flags & IN_MEMORY != 0 && section.kind != WITHOUT_BYTES {
                let is_code = section.flags & CODE != 0;
                let ElfSection { address, offset, size, .. } = *section;
                elf.loaded.push(LoadedSection { address, offset, size, is_code });
            }
            match section.kind {
                7 if name == ".note.gnu.build-id" => elf.build_id = build_id(bytes, section),
                7 if name == ".note.stapsdt" => elf.probes.add(bytes, [section.offset, section.size], probe_base),
                6 => elf.add_libraries(bytes, section, &sections),
                // The table for the loader has less, and the same.
                2 => elf.add_symbols(bytes, section, &sections, base, true),
                11 => elf.add_symbols(bytes, section, &sections, base, !has_all),
                4 => elf.add_slots(bytes, section, &sections),
                _ => {}
            }
        }
        Some(elf)
    }

    fn add_symbols(&mut self, bytes: &[u8], table: &ElfSection, sections: &[ElfSection], base: u64, are_kept: bool) {
        let texts = usize::try_from(table.link).ok().and_then(|at| sections.get(at)).map_or(0, |text| text.offset);
        let end = table.offset.saturating_add(table.size).min(bytes.len() as u64);
        for at in (table.offset..end).step_by(24) {
            let symbol = (
                u32_at(bytes, at),
                u16_at(bytes, at + 4),
                u16_at(bytes, at + 6),
                u64_at(bytes, at + 8),
                u64_at(bytes, at + 16),
            );
            let (Some(name), Some(info), Some(section), Some(value), Some(size)) = symbol else { return };
            let Some(name) = texts.checked_add(name).and_then(|at| text_at(bytes, at)).filter(|name| !name.is_empty())
            else {
                continue;
            };
            // Versions of symbols are no part of their names.
            let name = name.split('@').next().unwrap_or_default().to_string();
            let (kind, binding) = (info & 0xf, info >> 4 & 0xf);
            if section == 0 {
                self.wanted.push(name);
                continue;
            }
            let letter = match (kind, binding) {
                (2 | 10, 0) => 't',
                (2 | 10, 2) => 'w',
                (2 | 10, _) => 'T',
                (1, 0) => 'd',
                (1, 2) => 'v',
                (1, _) => 'D',
                _ => continue,
            };
            if let Some(address) = value.checked_sub(base).filter(|_| are_kept && size > 0) {
                self.symbols.entry(address).or_insert((letter, address.saturating_add(size), name));
            }
        }
    }
}

impl Elf {
    /// Adds what a table of the loader says about libraries.
    fn add_libraries(&mut self, bytes: &[u8], table: &ElfSection, sections: &[ElfSection]) {
        const LIBRARY: u64 = 1;
        const FOLDERS: u64 = 15;
        const FOLDERS_NOW: u64 = 29;
        // Far more than linkers write: of a damaged file, not each may be a long text.
        const MOST_TAGS: usize = 1000;
        let texts = usize::try_from(table.link).ok().and_then(|at| sections.get(at)).map_or(0, |text| text.offset);
        let end = table.offset.saturating_add(table.size).min(bytes.len() as u64);
        for at in (table.offset..end).step_by(16).take(MOST_TAGS) {
            let (Some(tag), Some(value)) = (u64_at(bytes, at), u64_at(bytes, at + 8)) else { return };
            let to = match tag {
                0 => return,
                LIBRARY => &mut self.libraries,
                FOLDERS | FOLDERS_NOW => &mut self.folders,
                _ => continue,
            };
            to.extend(texts.checked_add(value).and_then(|at| text_at(bytes, at)));
        }
    }

    /// Adds the slots that relocations fill with addresses of functions.
    fn add_slots(&mut self, bytes: &[u8], table: &ElfSection, sections: &[ElfSection]) {
        const GLOB_DAT: u64 = 6;
        const JUMP_SLOT: u64 = 7;
        const SLOT: u64 = 8;
        let section = |number: u64| usize::try_from(number).ok().and_then(|at| sections.get(at));
        // Relocations for the loader name symbols of its table.
        let Some(symbols) = section(table.link).filter(|symbols| symbols.kind == 11) else { return };
        let texts = section(symbols.link).map_or(0, |texts| texts.offset);
        let end = table.offset.saturating_add(table.size).min(bytes.len() as u64);
        for at in (table.offset..end).step_by(24) {
            let (Some(place), Some(info)) = (u64_at(bytes, at), u64_at(bytes, at + 8)) else { return };
            let (kind, number) = (info & 0xffff_ffff, info >> 32);
            if kind != JUMP_SLOT && kind != GLOB_DAT {
                continue;
            }
            let symbol = symbols.offset.saturating_add(number * 24);
            let (Some(name), Some(of)) = (u32_at(bytes, symbol), number_at(bytes, symbol.saturating_add(4))) else {
                continue;
            };
            let name = texts.checked_add(name).and_then(|at| text_at(bytes, at)).unwrap_or_default();
            let is_function = kind == JUMP_SLOT || matches!(of & 15, 2 | 10);
            if let Some(address) = place.checked_sub(self.base).filter(|_| is_function && !name.is_empty()) {
                self.symbols.entry(address).or_insert(('P', address.saturating_add(SLOT), name));
            }
        }
    }
}

fn number_at(bytes: &[u8], at: u64) -> Option<u8> {
    number::<1>(bytes, at).map(|[byte]| byte)
}

fn sections(bytes: &[u8]) -> Option<Vec<ElfSection>> {
    let (at, len, count) = (u64_at(bytes, 40)?, u16_at(bytes, 58)?, u16_at(bytes, 60)?);
    let section = |number: u64| {
        let at = at.checked_add(number * len)?;
        Some(ElfSection {
            name: u32_at(bytes, at)?,
            kind: u32_at(bytes, at + 4)? as u32,
            flags: u64_at(bytes, at + 8)?,
            address: u64_at(bytes, at + 16)?,
            offset: u64_at(bytes, at + 24)?,
            size: u64_at(bytes, at + 32)?,
            link: u32_at(bytes, at + 40)?,
        })
    };
    Some((0..count).map_while(section).collect())
}

fn build_id(bytes: &[u8], section: &ElfSection) -> Option<String> {
    let (name, len) = (u32_at(bytes, section.offset)?, u32_at(bytes, section.offset + 4)?);
    let begin = usize::try_from(section.offset + 12 + name.next_multiple_of(4)).ok()?;
    let id = bytes.get(begin..begin.checked_add(usize::try_from(len.min(64)).ok()?)?)?;
    // Readers want 20 bytes.
    (id.len() == 20).then(|| id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_symbols() {
        let bytes = std::fs::read(std::env::current_exe().expect("a path")).expect("it can be read");
        let elf = Elf::read(&bytes).expect("it is an ELF file");
        assert!(elf.symbols.values().any(|(letter, _, name)| *letter == 'T' && name == "main"));
        assert!(elf.patchable.is_empty() && !elf.wanted.is_empty());
        // As every program that is linked with the C library.
        let slots = elf.symbols.iter().filter(|(_, (letter, ..))| *letter == 'P');
        let slots: Vec<_> = slots.map(|(at, (_, end, name))| (at % 8, end - at, name.as_str())).collect();
        assert!(slots.iter().any(|(_, _, name)| *name == "malloc"), "{slots:?}");
        assert!(slots.iter().all(|(rest, len, _)| *rest == 0 && *len == 8), "{slots:?}");
        assert!(elf.libraries.iter().any(|name| name.starts_with("libc.so")), "{:?}", elf.libraries);
        for cut in [0, 5, 16, 63, 64, 100, bytes.len() / 2] {
            let _ = Elf::read(&bytes[..cut]);
        }
        for at in 0..64 {
            let mut bad = bytes.clone();
            bad[at] ^= 0xff;
            let _ = Elf::read(&bad);
        }
    }
}
