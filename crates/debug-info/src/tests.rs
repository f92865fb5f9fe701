//! Programs that are made here, whole and damaged.

use std::path::{Path, PathBuf};

use gimli::write::{Address, AttributeValue, DwarfUnit, EndianVec, LineProgram, LineString, Sections, UnitEntryId};
use gimli::{Encoding, Format, LineEncoding, LittleEndian};
use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

use crate::image::{DebugSections, ExpectedImage, FoundFunction, Image, hexadecimal, join_below, open_elf};
use crate::inlined::InlinedFunctions;
use crate::signatures::Signatures;

/// The build id of the programs.
const ID: [u8; 4] = [0xab, 0xcd, 0xef, 1];

/// A function `turn` from 0x40 to 0x80, into which `deep` is inlined at two places, one of them in a block; `leaf` from 0x80 to
/// 0x90 has nothing inside; and `elsewhere`, whose name is that of another entry.
fn debugging_information(object: &mut Object<'_>, version: u16) {
    let encoding = Encoding { format: Format::Dwarf32, version, address_size: 8 };
    let mut dwarf = DwarfUnit::new(encoding);
    let string = |text: &str| LineString::String(text.as_bytes().to_vec());
    let mut lines = LineProgram::new(encoding, LineEncoding::default(), string("/src"), None, string("a.c"), None);
    let folder = lines.add_directory(string("include"));
    let (own, header) =
        (lines.add_file(string("a.c"), lines.default_directory(), None), lines.add_file(string("b.h"), folder, None));
    lines.begin_sequence(Some(Address::Constant(0x40)));
    for (offset, file, line) in [(0, own, 10), (0x20, header, 3), (0x40, own, 20), (0x48, own, 21)] {
        lines.row().address_offset = offset;
        lines.row().file = file;
        lines.row().line = line;
        lines.generate_row();
    }
    lines.end_sequence(0x60);
    dwarf.unit.line_program = lines;
    let root = dwarf.unit.root();
    dwarf.unit.get_mut(root).set(gimli::DW_AT_comp_dir, AttributeValue::String(b"/src".to_vec()));
    dwarf.unit.get_mut(root).set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(0x40)));
    dwarf.unit.get_mut(root).set(gimli::DW_AT_high_pc, AttributeValue::Udata(0x60));
    let mut entry = |parent: UnitEntryId, tag, range: Option<(u64, u64)>, name: &str| {
        let id = dwarf.unit.add(parent, tag);
        let entry = dwarf.unit.get_mut(id);
        if let Some((begin, end)) = range {
            entry.set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(begin)));
            entry.set(gimli::DW_AT_high_pc, AttributeValue::Udata(end - begin));
        }
        if !name.is_empty() {
            entry.set(gimli::DW_AT_name, AttributeValue::String(name.as_bytes().to_vec()));
        }
        id
    };
    let turn = entry(root, gimli::DW_TAG_subprogram, Some((0x40, 0x80)), "turn");
    entry(turn, gimli::DW_TAG_variable, None, "at");
    let first = entry(turn, gimli::DW_TAG_inlined_subroutine, Some((0x48, 0x50)), "");
    let block = entry(turn, gimli::DW_TAG_lexical_block, Some((0x60, 0x70)), "");
    let passed_over = entry(block, gimli::DW_TAG_inlined_subroutine, Some((0x60, 0x64)), "");
    let second = entry(block, gimli::DW_TAG_inlined_subroutine, Some((0x68, 0x6c)), "");
    entry(root, gimli::DW_TAG_subprogram, Some((0x80, 0x88)), "leaf");
    let declared = entry(root, gimli::DW_TAG_subprogram, None, "elsewhere");
    let defined = entry(root, gimli::DW_TAG_subprogram, Some((0x88, 0x98)), "");
    entry(defined, gimli::DW_TAG_variable, None, "n");
    dwarf.unit.get_mut(defined).set(gimli::DW_AT_specification, AttributeValue::UnitRef(declared));
    for (inlined, file, line) in [(first, own, 12), (passed_over, own, 15), (second, header, 4)] {
        dwarf.unit.get_mut(inlined).set(gimli::DW_AT_call_file, AttributeValue::FileIndex(Some(file)));
        dwarf.unit.get_mut(inlined).set(gimli::DW_AT_call_line, AttributeValue::Udata(line));
    }
    put_sections(&mut dwarf, object);
}

/// Puts debugging information into a program.
fn put_sections(dwarf: &mut DwarfUnit, object: &mut Object<'_>) {
    let mut sections = Sections::new(EndianVec::new(LittleEndian));
    dwarf.write(&mut sections).expect("it is consistent");
    add_sections(&sections, object);
}

fn add_sections(sections: &Sections<EndianVec<LittleEndian>>, object: &mut Object<'_>) {
    let written = sections.for_each(|id, data| {
        if !data.slice().is_empty() {
            let section = object.add_section(Vec::new(), id.name().into(), SectionKind::Debug);
            object.append_section_data(section, data.slice(), 1);
        }
        Ok::<_, gimli::write::Error>(())
    });
    written.expect("nothing fails");
}

/// A program with the symbols `main` at 0x10 and `turn` at 0x40, and the debugging information of a version of DWARF.
fn program(version: Option<u16>) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    object.append_section_data(text, &[0x90; 0x100], 16);
    for (name, value, kind) in
        [("main", 0x10, SymbolKind::Text), ("turn", 0x40, SymbolKind::Text), ("datum", 0x44, SymbolKind::Data)]
    {
        object.add_symbol(Symbol {
            name: name.into(),
            value,
            size: 0,
            kind,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
    }
    let note = object.add_section(Vec::new(), b".note.gnu.build-id".to_vec(), SectionKind::Note);
    let head = [4u32, ID.len() as u32, 3].map(u32::to_le_bytes).concat();
    object.append_section_data(note, &[&head, &b"GNU\0"[..], &ID].concat(), 4);
    if let Some(version) = version {
        debugging_information(&mut object, version);
    }
    object.write().expect("it is consistent")
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tracemill-debug-info-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("it is below the folder")).expect("a folder can be made");
        std::fs::write(&path, bytes).expect("a file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> Image {
    Image::open(&ExpectedImage { path: path.to_path_buf(), ..ExpectedImage::default() }, None)
}

/// Function and line at an address, as they are shown.
fn shown(image: &Image, address: u64) -> (String, String) {
    let FoundFunction { function, line } = image.find(address);
    (function.unwrap_or_default(), line.map(|line| format!("{}:{}", line.path, line.number)).unwrap_or_default())
}

#[test]
fn functions_and_lines_are_those_of_the_peer() {
    let folder = Folder::new("dwarf");
    for version in [3, 4, 5] {
        let image = open(&folder.file("program", &program(Some(version))));
        let check = |address: u64, function: &str, line: &str| {
            assert_eq!(shown(&image, address), (function.into(), line.into()), "version {version}, {address:#x}");
        };
        // Lines count where their code begins only.
        check(0x40, "turn+0", "/src/a.c:10");
        check(0x41, "turn+0x1", "");
        check(0x60, "turn+0x20", "/src/include/b.h:3");
        check(0x4c, "turn+0xc", "/src/a.c:12");
        check(0x6a, "turn+0x2a", "/src/include/b.h:4");
        // The peer passes over what comes first in a block.
        check(0x62, "turn+0x22", "");
        // A function without anything inside has no lines, and a name may be that of a declaration.
        check(0x80, "leaf+0", "");
        check(0x88, "elsewhere+0", "/src/a.c:21");
        // The unit ends at 0xa0, the functions before.
        check(0x98, "", "");
        check(0x10, "", "");
    }
}

#[test]
fn without_debugging_information_symbols_count() {
    let folder = Folder::new("symbols");
    let image = open(&folder.file("program", &program(None)));
    let check = |address: u64, function: &str| assert_eq!(shown(&image, address), (function.into(), String::new()));
    check(0x8, "");
    check(0x10, "main+0");
    check(0x44, "turn+0x4");
    check(0x1000, "turn+0xfc0");
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n"] {
        assert_eq!(shown(&open(&folder.file("other", bytes)), 0x44), Default::default());
    }
    assert_eq!(shown(&open(&folder.0.join("gone")), 0x44), Default::default());
}

#[test]
fn debugging_information_is_found_beside_the_program() {
    let folder = Folder::new("beside");
    let path = folder.file("bin/program", &program(None));
    let debug = program(Some(5));
    let checksum = crc32fast::hash(&debug);
    let wanted = |build_id: &[u8], link: Option<u32>| ExpectedImage {
        path: path.clone(),
        build_id: Some(build_id.to_vec()),
        link: link.map(|checksum| ("program.debug".to_string(), checksum)),
    };
    let lines = |wanted: &ExpectedImage| shown(&Image::open(wanted, Some(&folder.0.join("dir"))), 0x4c).1;
    assert_eq!(lines(&wanted(&ID, Some(checksum))), "");
    let places = ["bin/program.debug", "bin/.debug/program.debug"].map(|name| folder.0.join(name));
    let third = join_below(&folder.0.join("dir"), &folder.0.join("bin/program.debug"));
    for place in places.iter().chain([&third]) {
        folder.file(&place.to_string_lossy(), &debug);
        assert_eq!(lines(&wanted(&ID, Some(checksum))), "/src/a.c:12", "{}", place.display());
        assert_eq!(lines(&wanted(&ID, Some(checksum ^ 1))), "");
        std::fs::remove_file(place).expect("it is there");
    }
    folder.file("dir/.build-id/ab/cdef01.debug", &debug);
    assert_eq!(lines(&wanted(&ID, None)), "/src/a.c:12");
    // Another program than the one that ran says nothing.
    for id in [&b"other"[..], b""] {
        assert!(Image::open(&wanted(id, None), None).is_foreign());
    }
    assert!(!Image::open(&wanted(&ID, None), None).is_foreign());
}

/// Numbers below a limit, the same for each seed.
pub(crate) fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut random = seed;
    move |below| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    }
}

#[test]
fn damaged_programs_say_something_or_nothing() {
    let (folder, whole) = (Folder::new("damage"), program(Some(4)));
    let mut next = numbers(0x9e37_79b9_7f4a_7c15);
    for round in 0..1000 {
        let mut bytes = whole.clone();
        for _ in 0..=round % 8 {
            let at = next(bytes.len());
            bytes[at] = [0, 0xff, 0x80, next(256) as u8][next(4)];
        }
        bytes.truncate(if round % 9 == 0 { next(whole.len()) } else { whole.len() });
        let image = open(&folder.file("program", &bytes));
        for address in [0, 0x4c, 0x6a, 0x80, u64::MAX] {
            image.find(address);
        }
    }
}

#[test]
fn a_zero_has_no_mark() {
    assert_eq!((hexadecimal(0), hexadecimal(0x1f)), ("0".to_string(), "0x1f".to_string()));
}

/// A program with a function `take`, whose one argument is a structure that `members` makes: of types by their numbers, of
/// which 0 is `int`.
fn with_structures(members: &[(&[usize], u64)]) -> Vec<u8> {
    let encoding = Encoding { format: Format::Dwarf32, version: 5, address_size: 8 };
    let mut dwarf = DwarfUnit::new(encoding);
    let root = dwarf.unit.root();
    dwarf.unit.get_mut(root).set(gimli::DW_AT_language, AttributeValue::Language(gimli::DW_LANG_C11));
    let number = dwarf.unit.add(root, gimli::DW_TAG_base_type);
    dwarf.unit.get_mut(number).set(gimli::DW_AT_byte_size, AttributeValue::Udata(4));
    dwarf.unit.get_mut(number).set(gimli::DW_AT_encoding, AttributeValue::Encoding(gimli::DW_ATE_signed));
    let mut types = vec![number];
    types.extend(members.iter().map(|_| dwarf.unit.add(root, gimli::DW_TAG_structure_type)));
    for (at, (kinds, size)) in members.iter().enumerate() {
        dwarf.unit.get_mut(types[at + 1]).set(gimli::DW_AT_byte_size, AttributeValue::Udata(*size));
        for (place, kind) in kinds.iter().enumerate() {
            let member = dwarf.unit.add(types[at + 1], gimli::DW_TAG_member);
            let member = dwarf.unit.get_mut(member);
            member.set(gimli::DW_AT_type, AttributeValue::UnitRef(types[*kind]));
            member.set(gimli::DW_AT_data_member_location, AttributeValue::Udata(4 * place as u64));
        }
    }
    let function = dwarf.unit.add(root, gimli::DW_TAG_subprogram);
    let argument = dwarf.unit.add(function, gimli::DW_TAG_formal_parameter);
    let last = *types.last().expect("there is one");
    dwarf.unit.get_mut(argument).set(gimli::DW_AT_type, AttributeValue::UnitRef(last));
    let function = dwarf.unit.get_mut(function);
    function.set(gimli::DW_AT_name, AttributeValue::String(b"take".to_vec()));
    function.set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(0x40)));
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    put_sections(&mut dwarf, &mut object);
    object.write().expect("it is consistent")
}

#[test]
fn structures_without_an_end_are_unknown() {
    let folder = Folder::new("structures");
    let arguments = |members: &[(&[usize], u64)]| {
        let signatures = Signatures::from_file(&folder.file("program", &with_structures(members)));
        signatures.functions[&0x40].arguments.clone()
    };
    assert_eq!(arguments(&[(&[0, 0], 8), (&[1, 0, 0], 12)]), "arg1/t12%rdi+rsi");
    assert_eq!(arguments(&[(&[0, 0, 0, 0, 0], 20)]), "arg1/t20%stack+1");
    assert_eq!(arguments(&[(&[], u64::MAX)]), format!("arg1/t{}%stack+1", u64::MAX));
    // It is in itself.
    assert_eq!(arguments(&[(&[0, 1], 8)]), "");
    // Each has the one before it twice.
    let deep: Vec<_> = (0..60).map(|at| [at, at]).collect();
    let deep: Vec<(&[usize], u64)> = deep.iter().map(|kinds| (&kinds[..], 8)).collect();
    assert_eq!(arguments(&deep), "");
}

/// A program with a function `outer` from 0x1000 on, where `middle` is inlined from 0x1010 to 0x1030, and `inner` into that from
/// 0x1018 on, in a block. `second` is in a namespace, and its name is that of its declaration.
fn with_inlined(version: u16) -> Vec<u8> {
    let encoding = Encoding { format: Format::Dwarf32, version, address_size: 8 };
    let mut dwarf = DwarfUnit::new(encoding);
    let root = dwarf.unit.root();
    let mut entry =
        |parent: UnitEntryId, tag, range: Option<(u64, u64)>, origin: Option<UnitEntryId>, names: &[&str]| {
            let id = dwarf.unit.add(parent, tag);
            let entry = dwarf.unit.get_mut(id);
            if let Some((begin, end)) = range {
                entry.set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(begin)));
                entry.set(gimli::DW_AT_high_pc, AttributeValue::Udata(end - begin));
            }
            for (name, attribute) in names.iter().zip([gimli::DW_AT_name, gimli::DW_AT_linkage_name]) {
                entry.set(attribute, AttributeValue::String(name.as_bytes().to_vec()));
            }
            if let Some(origin) = origin {
                entry.set(gimli::DW_AT_abstract_origin, AttributeValue::UnitRef(origin));
            }
            id
        };
    use gimli::{DW_TAG_inlined_subroutine, DW_TAG_lexical_block, DW_TAG_namespace, DW_TAG_subprogram};
    let middle = entry(root, DW_TAG_subprogram, None, None, &["middle"]);
    let inner = entry(root, DW_TAG_subprogram, None, None, &["inner", "_ZN1a5innerEv"]);
    let outer = entry(root, DW_TAG_subprogram, Some((0x1000, 0x1040)), None, &["outer"]);
    let first = entry(outer, DW_TAG_inlined_subroutine, Some((0x1010, 0x1030)), Some(middle), &[]);
    let block = entry(first, DW_TAG_lexical_block, None, None, &[]);
    entry(block, DW_TAG_inlined_subroutine, Some((0x1012, 0x1014)), Some(middle), &[]);
    entry(block, DW_TAG_inlined_subroutine, Some((0x1018, 0x1030)), Some(inner), &[]);
    let space = entry(root, DW_TAG_namespace, None, None, &["a"]);
    let second = entry(space, DW_TAG_subprogram, Some((0x1080, 0x1090)), Some(inner), &[]);
    entry(second, DW_TAG_inlined_subroutine, Some((0x1088, 0x1090)), None, &[]);
    dwarf.unit.get_mut(root).set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(0x1000)));
    dwarf.unit.get_mut(root).set(gimli::DW_AT_high_pc, AttributeValue::Udata(0x90));
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    put_sections(&mut dwarf, &mut object);
    object.write().expect("it is consistent")
}

fn inlined(path: &Path) -> Option<InlinedFunctions> {
    Some(InlinedFunctions::new(DebugSections::from_file(open_elf(path)?)?))
}

#[test]
fn inlined_functions_come_before_the_outer_one() {
    let folder = Folder::new("inlined");
    for version in [3, 4, 5] {
        let file = inlined(&folder.file("program", &with_inlined(version))).expect("debugging information");
        let check = |address: u64, inlined: &[&str], outer: &str| {
            let found = file.find(address);
            let outer = (!outer.is_empty()).then(|| outer.to_string());
            assert_eq!(found.inlined, inlined, "version {version}, {address:#x}");
            assert_eq!(found.outer, outer, "version {version}, {address:#x}");
        };
        for _ in 0..2 {
            check(0xfff, &[], "");
            check(0x1000, &[], "outer");
            check(0x1010, &["middle"], "outer");
            check(0x1013, &["middle", "middle"], "outer");
            check(0x1014, &["middle"], "outer");
            check(0x102f, &["_ZN1a5innerEv", "middle"], "outer");
            check(0x1030, &[], "outer");
            check(0x1040, &[], "");
            // An entry without a name is left out.
            check(0x1089, &[], "_ZN1a5innerEv");
            check(0x1090, &[], "");
        }
    }
    assert!(inlined(&folder.file("program", &program(None))).is_none());
}

#[test]
fn damaged_entries_have_few_or_no_inlined_functions() {
    let (folder, whole) = (Folder::new("inlined-damage"), with_inlined(5));
    let mut next = numbers(0x2545_f491_4f6c_dd1d);
    for round in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..=round % 8 {
            let at = next(bytes.len());
            bytes[at] = [0, 0xff, 0x80, next(256) as u8][next(4)];
        }
        if let Some(file) = inlined(&folder.file("program", &bytes)) {
            for address in [0, 0x1000, 0x1013, 0x1020, 0x1088, u64::MAX] {
                file.find(address);
            }
        }
    }
}

#[test]
fn long_lists_of_ranges_are_not_read_for_each_function() {
    let encoding = Encoding { format: Format::Dwarf32, version: 5, address_size: 8 };
    let mut dwarf = DwarfUnit::new(encoding);
    let root = dwarf.unit.root();
    let range = |begin, length| gimli::write::Range::StartLength { begin: Address::Constant(begin), length };
    let empty = (0..20_000).map(|at| range(0x1000 + at, 0));
    let list = gimli::write::RangeList(empty.chain([range(0x1000, 0x40)]).collect());
    let list = dwarf.unit.ranges.add(list);
    dwarf.unit.get_mut(root).set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(0x1000)));
    dwarf.unit.get_mut(root).set(gimli::DW_AT_high_pc, AttributeValue::Udata(0x40));
    for _ in 0..20_000 {
        let function = dwarf.unit.add(root, gimli::DW_TAG_subprogram);
        let function = dwarf.unit.get_mut(function);
        function.set(gimli::DW_AT_ranges, AttributeValue::RangeListRef(list));
        function.set(gimli::DW_AT_name, AttributeValue::String(b"all".to_vec()));
    }
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    put_sections(&mut dwarf, &mut object);
    let folder = Folder::new("ranges");
    let file = folder.file("program", &object.write().expect("it is consistent"));
    let started = std::time::Instant::now();
    let found = inlined(&file).expect("debugging information").find(0x1010);
    assert_eq!(found.outer.as_deref(), Some("all"));
    // Reading them all takes minutes.
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

/// A function that is inlined into another unit, as link-time optimisation does.
#[test]
fn inlined_functions_of_other_units_have_names() {
    let encoding = Encoding { format: Format::Dwarf32, version: 4, address_size: 8 };
    let mut dwarf = gimli::write::Dwarf::new();
    let units = [(); 3].map(|()| dwarf.units.add(gimli::write::Unit::new(encoding, LineProgram::none())));
    let root = |dwarf: &gimli::write::Dwarf, at: usize| dwarf.units.get(units[at]).root();
    let of_first = root(&dwarf, 0);
    let origin = dwarf.units.get_mut(units[0]).add(of_first, gimli::DW_TAG_subprogram);
    let name = AttributeValue::String(b"elsewhere".to_vec());
    dwarf.units.get_mut(units[0]).get_mut(origin).set(gimli::DW_AT_name, name);
    let of_last = root(&dwarf, 2);
    let last = dwarf.units.get_mut(units[2]);
    let function = last.add(of_last, gimli::DW_TAG_subprogram);
    let inlined_there = last.add(function, gimli::DW_TAG_inlined_subroutine);
    for (entry, begin, len) in [(of_last, 0x1000, 0x40u64), (function, 0x1000, 0x40), (inlined_there, 0x1010, 0x10)] {
        last.get_mut(entry).set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(begin)));
        last.get_mut(entry).set(gimli::DW_AT_high_pc, AttributeValue::Udata(len));
    }
    last.get_mut(function).set(gimli::DW_AT_name, AttributeValue::String(b"outer".to_vec()));
    let reference = gimli::write::DebugInfoRef::Entry(units[0], origin);
    last.get_mut(inlined_there).set(gimli::DW_AT_abstract_origin, AttributeValue::DebugInfoRef(reference));
    let mut sections = Sections::new(EndianVec::new(LittleEndian));
    dwarf.write(&mut sections).expect("it is consistent");
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    add_sections(&sections, &mut object);
    let folder = Folder::new("units");
    let file = inlined(&folder.file("program", &object.write().expect("it is consistent"))).expect("information");
    assert_eq!((file.find(0x1010).inlined, file.find(0x1020).inlined), (vec!["elsewhere".to_string()], vec![]));
}
