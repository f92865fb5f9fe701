//! Functions by their addresses: tables made of ELF files, of the kernel's list, and of the lists that programs write of code that
//! they make themselves.

use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader};
use object::read::{File, Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use object::{ObjectSymbolTable, SectionFlags};

/// Size of the last symbol where none is stated.
const LAST_BYTES: u64 = 4096;
/// Symbols that may hold an address and begin before the last one that does, at most.
const MAX_OUTER: usize = 32;
/// Symbols that a table may have.
const MAX_SYMBOLS: usize = 1 << 24;

/// The first symbols of the kernel.
const ANCHORS: [&str; 2] = ["_text", "_stext"];

/// A function, or another symbol that bounds one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableSymbol {
    begin: u64,
    /// The first address after it.
    end: u64,
    /// Its name in the texts of the table.
    name: (u32, u32),
}

/// Symbols in the order of their addresses.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    symbols: Vec<TableSymbol>,
    names: String,
    /// Addresses of the symbols by which places in the kernel are compared.
    anchors: Vec<(&'static str, u64)>,
}

/// A symbol before the table is made: where, how large, how good its name is, and its name.
struct FoundSymbol<'n> {
    begin: u64,
    size: u64,
    rank: SymbolRank,
    name: &'n str,
}

/// Of several symbols at one address the one of the greatest rank is shown, as `perf` chooses: with a size, not weak, global, with
/// fewer underscores before it, longer.
type SymbolRank = (bool, bool, bool, std::cmp::Reverse<usize>, usize);

fn rank(name: &str, size: u64, is_weak: bool, is_global: bool) -> SymbolRank {
    let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
    (size > 0, !is_weak, is_global, std::cmp::Reverse(underscores), name.len())
}

impl SymbolTable {
    fn new(mut found: Vec<FoundSymbol<'_>>) -> SymbolTable {
        let anchor = |name: &'static str| Some((name, found.iter().find(|symbol| symbol.name == name)?.begin));
        let anchors = ANCHORS.into_iter().filter_map(anchor).collect();
        found.sort_by(|a, b| a.begin.cmp(&b.begin).then(b.rank.cmp(&a.rank)));
        found.dedup_by(|next, kept| next.begin == kept.begin);
        let mut table = SymbolTable { anchors, ..SymbolTable::default() };
        for at in 0..found.len() {
            let FoundSymbol { begin, size, name, .. } = found[at];
            let end = match size {
                0 => found.get(at + 1).map_or(begin.saturating_add(LAST_BYTES), |next| next.begin),
                size => begin.saturating_add(size),
            };
            let from = table.names.len();
            let (Ok(from), Ok(to)) = (u32::try_from(from), u32::try_from(from + name.len())) else { break };
            table.names.push_str(name);
            table.symbols.push(TableSymbol { begin, end, name: (from, to) });
        }
        table
    }

    /// The functions of an ELF file: those of `.symtab`, or of `.dynsym`, and the entries of its linkage table. `None` when it has
    /// none.
    pub(crate) fn from_elf(bytes: &[u8]) -> Option<SymbolTable> {
        match File::parse(bytes).ok()? {
            File::Elf32(elf) => Self::of_elf(&elf),
            File::Elf64(elf) => Self::of_elf(&elf),
            _ => None,
        }
    }

    fn of_elf<'a, H: FileHeader>(elf: &'a ElfFile<'a, H>) -> Option<SymbolTable> {
        let is_code = |symbol: &object::read::elf::ElfSymbol<'a, 'a, H>| {
            let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
            match symbol.kind() {
                SymbolKind::Text => section.is_some(),
                // Labels of assembly have no type; those with a dollar mark kinds of code.
                SymbolKind::Unknown | SymbolKind::Label => {
                    section.is_some_and(|section| is_executed(&section))
                        && symbol.name().is_ok_and(|name| !name.is_empty() && !name.starts_with('$'))
                }
                _ => false,
            }
        };
        let found = |symbols: object::read::elf::ElfSymbolIterator<'a, 'a, H>| -> Vec<FoundSymbol<'a>> {
            let of = |symbol: object::read::elf::ElfSymbol<'a, 'a, H>| {
                let (name, size) = (symbol.name().ok()?, symbol.size());
                let rank = rank(name, size, symbol.is_weak(), symbol.is_global());
                Some(FoundSymbol { begin: symbol.address(), size, rank, name })
            };
            symbols.filter(is_code).filter_map(of).take(MAX_SYMBOLS).collect()
        };
        let mut symbols = found(elf.symbols());
        if symbols.is_empty() {
            symbols = found(elf.dynamic_symbols());
        }
        let linkage = linkage_names(elf);
        for (begin, size, name) in &linkage {
            symbols.push(FoundSymbol { begin: *begin, size: *size, rank: rank(name, *size, true, false), name });
        }
        (!symbols.is_empty()).then(|| SymbolTable::new(symbols))
    }

    /// The symbols of a list of the kernel, lines as `ffffffff81000000 T _text` and, for those of modules, `[module]` after it.
    /// `None` when all addresses are hidden, as they are from users without privileges.
    pub(crate) fn from_kallsyms(text: &str) -> Option<SymbolTable> {
        let of = |line: &'_ str| -> Option<(u64, bool, usize, usize)> {
            let (address, rest) = line.split_once(' ')?;
            let (kind, rest) = rest.split_once(' ')?;
            let name = rest.split_ascii_whitespace().next()?;
            let from = name.as_ptr() as usize - text.as_ptr() as usize;
            Some((u64::from_str_radix(address, 16).ok()?, kind.eq_ignore_ascii_case("w"), from, from + name.len()))
        };
        let symbols = text.lines().filter_map(of).take(MAX_SYMBOLS).map(|(begin, is_weak, from, to)| {
            let name = &text[from..to];
            FoundSymbol { begin, size: 0, rank: rank(name, 0, is_weak, false), name }
        });
        let symbols: Vec<FoundSymbol<'_>> = symbols.filter(|symbol| symbol.begin > 0).collect();
        (!symbols.is_empty()).then(|| SymbolTable::new(symbols))
    }

    /// The functions that a program lists of code that it made: lines of begin and size in hexadecimal, and a name that may have
    /// blanks. Of functions at one place the last one counts.
    pub(crate) fn from_perf_map(text: &str) -> SymbolTable {
        let of = |(at, line): (usize, &'_ str)| -> Option<(u64, u64, usize, usize)> {
            let (begin, rest) = line.split_once(' ')?;
            let (size, name) = rest.split_once(' ')?;
            let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            let from = name.as_ptr() as usize - text.as_ptr() as usize;
            Some((number(begin)?, number(size)?, from, from + name.len())).filter(|_| at < MAX_SYMBOLS)
        };
        let mut order = 0;
        let symbols = text.lines().enumerate().filter_map(of).map(|(begin, size, from, to)| {
            order += 1;
            let rank = (true, true, true, std::cmp::Reverse(0), order);
            FoundSymbol { begin, size, rank, name: &text[from..to] }
        });
        SymbolTable::new(symbols.collect())
    }

    /// The address of one of the first symbols of the kernel.
    pub(crate) fn anchor(&self, name: &str) -> Option<u64> {
        self.anchors.iter().find(|(anchor, _)| *anchor == name).map(|(_, address)| *address)
    }

    /// The symbol that holds an address; the innermost one.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|symbol| symbol.begin <= address);
        let before = self.symbols[..after].iter().rev().take(MAX_OUTER);
        before.into_iter().find(|symbol| address < symbol.end).map(|symbol| self.name(symbol))
    }

    fn name(&self, symbol: &TableSymbol) -> &str {
        &self.names[symbol.name.0 as usize..symbol.name.1 as usize]
    }
}

/// Is a section code? In files of what was stripped off it has no bytes, and then no kind of its own.
fn is_executed<'a>(section: &impl ObjectSection<'a>) -> bool {
    let flags = match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags,
        _ => 0,
    };
    flags & u64::from(object::elf::SHF_EXECINSTR) != 0
}

/// Where parts of a file are in memory.
#[derive(Debug, Default)]
pub(crate) struct FileSegments {
    /// Offset, size and address.
    parts: Vec<(u64, u64, u64)>,
}

impl FileSegments {
    /// The parts of an ELF file; none when it is not one.
    pub(crate) fn from_elf(bytes: &[u8]) -> FileSegments {
        fn parts<H: FileHeader>(elf: &ElfFile<'_, H>) -> Vec<(u64, u64, u64)> {
            let endian = elf.endian();
            let load = |header: &H::ProgramHeader| {
                (header.p_type(endian) == object::elf::PT_LOAD).then(|| {
                    (header.p_offset(endian).into(), header.p_memsz(endian).into(), header.p_vaddr(endian).into())
                })
            };
            elf.elf_program_headers().iter().filter_map(load).collect()
        }
        let parts = match File::parse(bytes) {
            Ok(File::Elf32(elf)) => parts(&elf),
            Ok(File::Elf64(elf)) => parts(&elf),
            _ => Vec::new(),
        };
        FileSegments { parts }
    }

    /// The lowest address.
    pub(crate) fn base(&self) -> u64 {
        self.parts.iter().map(|(_, _, address)| *address).min().unwrap_or(0)
    }

    /// The address of a place in the file.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let of = |&(begin, size, address): &(u64, u64, u64)| {
            let inside = offset.checked_sub(begin).filter(|inside| *inside < size)?;
            Some(address.wrapping_add(inside))
        };
        self.parts.iter().find_map(of)
    }
}

/// The entries of a linkage table: address, size, and the function that they go to, `read@plt`.
fn linkage_names<H: FileHeader>(elf: &ElfFile<'_, H>) -> Vec<(u64, u64, String)> {
    let Some(relocations) = elf.section_by_name(".rela.plt").or_else(|| elf.section_by_name(".rel.plt")) else {
        return Vec::new();
    };
    // Entries of `.plt` come after one that finds functions.
    let section = elf.section_by_name(".plt.sec").map(|section| (section, 0));
    let Some((section, skipped)) = section.or_else(|| Some((elf.section_by_name(".plt")?, 1))) else {
        return Vec::new();
    };
    const ENTRY_BYTES: u64 = 16;
    let first = section.address().saturating_add(skipped * ENTRY_BYTES);
    let Some(table) = elf.dynamic_symbol_table() else { return Vec::new() };
    let Some(all) = elf.dynamic_relocations() else { return Vec::new() };
    let endian = elf.endian();
    // `dynamic_relocations` gives those of all sections in their order; those of the linkage table are the last ones.
    let entry: u64 = relocations.elf_section_header().sh_entsize(endian).into();
    let count = relocations.size().checked_div(entry).unwrap_or(0) as usize;
    let all: Vec<_> = all.take(MAX_SYMBOLS).collect();
    let own = &all[all.len().saturating_sub(count)..];
    let name = |(at, (_, relocation)): (u64, &(u64, object::Relocation))| {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
        let name = table.symbol_by_index(symbol).ok()?.name().ok().filter(|name| !name.is_empty())?.to_string();
        Some((first + at * ENTRY_BYTES, ENTRY_BYTES, format!("{name}@plt")))
    };
    let inside = section.size() / ENTRY_BYTES;
    (0..inside.saturating_sub(skipped)).zip(own).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_programs_and_the_kernel_are_read() {
        let map = SymbolTable::from_perf_map("1000 10 old\n1000 20 new name\nxyz\n0x2000 8 f\n");
        assert_eq!((map.find(0x101f), map.find(0x1020), map.find(0x2007)), (Some("new name"), None, Some("f")));
        let kernel = "ffffffff81000000 T _text\nffffffff81000000 t startup\nffffffff81001000 W weak\n\
                      ffffffff81001000 T __strong\nffffffffc0000000 t xfs_read\t[xfs]\n";
        let kernel = SymbolTable::from_kallsyms(kernel).expect("symbols");
        assert_eq!((kernel.anchor("_text"), kernel.anchor("_stext")), (Some(0xffff_ffff_8100_0000), None));
        assert_eq!(kernel.find(0xffff_ffff_8100_0fff), Some("startup"));
        assert_eq!(kernel.find(0xffff_ffff_8100_1001), Some("__strong"));
        assert_eq!(kernel.find(0xffff_ffff_c000_0001), Some("xfs_read"));
        assert_eq!(kernel.find(1), None);
        assert!(SymbolTable::from_kallsyms("0000000000000000 T _text\n").is_none(), "addresses are hidden");
    }

    #[test]
    fn labels_of_code_count_where_the_code_was_stripped_off() {
        use object::write::{Object as WrittenObject, Symbol, SymbolSection};
        use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolScope};
        let mut object = WrittenObject::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        for (name, flags) in [("_start", object::elf::SHF_EXECINSTR), ("_data", object::elf::SHF_WRITE)] {
            let section = object.add_section(Vec::new(), b".part".to_vec(), object::SectionKind::UninitializedData);
            object.append_section_bss(section, 0x100, 16);
            let sh_flags = u64::from(object::elf::SHF_ALLOC | flags);
            object.section_mut(section).flags = SectionFlags::Elf { sh_flags };
            object.add_symbol(Symbol {
                name: name.into(),
                value: if name == "_start" { 0x10 } else { 0x20 },
                size: 0,
                kind: SymbolKind::Label,
                scope: SymbolScope::Linkage,
                weak: false,
                section: SymbolSection::Section(section),
                flags: SymbolFlags::Elf { st_info: object::elf::STB_GLOBAL << 4, st_other: 0 },
            });
        }
        let table = SymbolTable::from_elf(&object.write().expect("it is consistent")).expect("symbols");
        assert_eq!((table.find(0x10), table.find(0x20)), (Some("_start"), Some("_start")));
    }

    #[test]
    fn outer_symbols_go_on_after_inner_ones() {
        let symbol = |begin, size, name| FoundSymbol { begin, size, rank: rank(name, size, false, true), name };
        let table = SymbolTable::new(vec![symbol(0x10, 0x30, "outer"), symbol(0x20, 8, "inner")]);
        assert_eq!((table.find(0x27), table.find(0x28), table.find(0x40)), (Some("inner"), Some("outer"), None));
        let segments = FileSegments { parts: vec![(0, 0x100, 0x1000)] };
        assert_eq!((segments.address_of(0x20), segments.address_of(0x100)), (Some(0x1020), None));
    }
}
