//! `print --debug-info`: functions of addresses, by what traces say about programs and by programs made here.
#![cfg(feature = "debug-info")]

mod util;

use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use util::Folder;

/// A program with the functions `main` at 0x10 and `turn` at 0x40.
fn program() -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    object.append_section_data(text, &[0x90; 0x100], 16);
    for (name, value) in [("main", 0x10), ("turn", 0x40)] {
        object.add_symbol(Symbol {
            name: name.into(),
            value,
            size: 0,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
    }
    object.write().expect("it is consistent")
}

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 64; align = 8; signed = false; } := u64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
stream {
    event.header := struct { u8 id; integer { size = 8; align = 8; map = clock.c.value; } t; };
    event.context := struct { integer { size = 32; align = 8; signed = true; } vpid; u64 ip; string more; };
};
event { name = "lttng_ust_statedump:start"; id = 0; };
event { name = "lttng_ust_statedump:bin_info"; id = 1; fields := struct { u64 baddr; u64 memsz; string path; u8 is_pic; }; };
event { name = "lttng_ust_lib:unload"; id = 2; fields := struct { u64 baddr; }; };
event { name = "lttng_ust_statedump:build_id"; id = 3; fields := struct { u64 baddr; u8 len; u8 build_id[len]; }; };
event { name = tick; id = 4; fields := struct { u8 n; }; };
"#;

/// A trace in which processes 7 and 8 map programs and run.
fn trace(folder: &Folder) -> String {
    let path = folder.file("bin/prog", program()).path("bin/prog").display().to_string();
    let mut bytes = Vec::new();
    let mut time = 0;
    let mut event = |class: u8, process: i32, address: u64, payload: &[&[u8]]| {
        time += 1;
        bytes.extend([class, time]);
        bytes.extend(process.to_le_bytes());
        bytes.extend(address.to_le_bytes());
        bytes.extend(b"x\0");
        payload.iter().for_each(|part| bytes.extend(*part));
    };
    let map = |base: u64, path: &str, is_pic: u8| {
        [&base.to_le_bytes()[..], &0x1000u64.to_le_bytes(), path.as_bytes(), &[0, is_pic]].concat()
    };
    event(4, 7, 0x1044, &[&[1]]);
    event(1, 7, 0x1044, &[&map(0x1000, &path, 1)]);
    event(4, 7, 0x1044, &[&[2]]);
    event(4, 7, 0x2000, &[&[3]]);
    event(4, 8, 0x1044, &[&[4]]);
    event(1, 8, 0, &[&map(0x1000, "/nowhere/gone", 0)]);
    event(4, 8, 0x1044, &[&[5]]);
    event(2, 7, 0, &[&0x1000u64.to_le_bytes()]);
    event(4, 7, 0x1044, &[&[6]]);
    event(1, 7, 0, &[&map(0x2000, &path, 1)]);
    event(4, 7, 0x2010, &[&[7]]);
    event(0, 7, 0, &[]);
    event(4, 7, 0x2010, &[&[8]]);
    // The id of another program.
    event(1, 7, 0, &[&map(0x2000, &path, 1)]);
    event(3, 7, 0, &[&0x2000u64.to_le_bytes(), &[2, 1, 2]]);
    event(4, 7, 0x2010, &[&[9]]);
    folder.file("t/metadata", METADATA).file("t/s", bytes);
    path
}

/// Number of each tick, and what is shown of its address.
fn ticks(text: &str) -> Vec<(String, String)> {
    let ticks = text.lines().filter(|line| line.contains(" tick: "));
    let part = |line: &str, before: &str, behind: &str| {
        let (_, rest) = line.split_once(before).expect("it is there");
        rest.split_once(behind).expect("it has an end").0.to_string()
    };
    ticks.map(|line| (part(line, "{ n = ", " }"), part(line, "debug_info = { ", " } }, { n"))).collect()
}

#[test]
fn addresses_are_those_of_the_files_that_were_mapped_then() {
    let folder = Folder::new();
    let path = trace(&folder);
    let text = folder.run("print --debug-info t").ends(0, &[]).stdout;
    let none = r#"bin = "", func = "", src = """#;
    let want = [
        ("1", none),
        ("2", r#"bin = "prog+0x44", func = "turn+0x4", src = """#),
        ("3", none),
        ("4", none),
        ("5", r#"bin = "gone@0x1044", func = "", src = """#),
        ("6", none),
        ("7", r#"bin = "prog+0x10", func = "main+0", src = """#),
        ("8", none),
        ("9", none),
    ];
    assert_eq!(ticks(&text), want.map(|(n, shown)| (n.to_string(), shown.to_string())));
    assert!(text.contains(r#"{ vpid = 7, ip = 4164, more = "x", debug_info = { bin = "", "#), "{text}");
    assert_eq!(folder.run("print --debug-info -j3 t").ends(0, &[]).stdout, text);
    // The rest of the line is what it is without.
    let without = folder.run("print t").ends(0, &[]).stdout;
    let cut = |line: &str| match (line.find(", debug_info = "), line.find(r#"" } }"#)) {
        (Some(from), Some(to)) => format!("{}{}\n", &line[..from], &line[to + 3..]),
        _ => panic!("{line}"),
    };
    assert_eq!(text.lines().map(cut).collect::<String>(), without);

    let full = folder.run("print --debug-info-full-path --begin 0.000000003 --clock-seconds t").ends(0, &[]).stdout;
    assert_eq!(ticks(&full)[0].1, format!(r#"bin = "{path}+0x44", func = "turn+0x4", src = """#));
    let names = folder.run("print --debug-info --names none t").ends(0, &[]).stdout;
    assert!(names.contains(r#"{ 7, 4164, "x", { "prog+0x44", "turn+0x4", "" } }, { 2 }"#), "{names}");

    // The file system of another machine.
    let copy = format!("root{path}");
    folder.file(&copy, program());
    std::fs::remove_file(&path).expect("it is there");
    let text = folder.run("print --debug-info-target-prefix root t").ends(0, &[]).stdout;
    assert_eq!(ticks(&text)[1].1, want[1].1);
    let gone = folder.run("print --debug-info-dir root t").ends(0, &[]).stdout;
    assert_eq!(ticks(&gone)[1].1, r#"bin = "prog+0x44", func = "", src = """#);
}

#[test]
fn only_text_has_it() {
    let folder = Folder::new();
    trace(&folder);
    folder.run("print --debug-info --format jsonl t").ends(2, &["--debug-info is for --format text"]);
}
