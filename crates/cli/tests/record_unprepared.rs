//! `tracemill record -P` of programs that were not compiled for it: instructions are moved, and the program does what it did.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use recorded::*;
use util::Folder;

/// Compiles with this compiler; `false` when it is not there.
fn compile_by(compiler: &str, folder: &Folder, source: &str, flags: &str) -> bool {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) || !is_there(compiler) {
        return false;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut compile = Command::new(compiler);
    compile.args(flags.split_whitespace()).arg("-w").arg("-o").arg(folder.path("program")).arg(source).arg("-ldl");
    let output = compile.output().expect("the compiler runs");
    assert!(output.status.success(), "{compiler} {flags}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

/// The output of the program without a recorder.
fn plain(folder: &Folder) -> Output {
    Command::new("./program").current_dir(folder.path("")).output().expect("it runs")
}

/// The number of entries of each function in the folder `o`.
fn entries_by_name(folder: &Folder) -> BTreeMap<String, u64> {
    let output = ours(folder, &["dump", "-d", "o"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((_, name)) = line.split_once("[entry] ") {
            *counts.entry(name.split('(').next().unwrap_or_default().to_string()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn calls_are_as_many_as_the_program_counts() {
    let folder = Folder::new();
    let ways = [
        "-O0",
        "-O0 -no-pie -fno-pie",
        "-O1 -fcf-protection",
        "-O2 -fcf-protection=none",
        "-O2 -no-pie -fno-pie",
        "-O2 -fno-plt -fcf-protection -fPIE -pie",
        "-Os",
        // There is room, but not enough.
        "-O2 -fpatchable-function-entry=3",
    ];
    for compiler in ["gcc", "clang"] {
        for way in ways {
            if !compile_by(compiler, &folder, "unprepared.c", &format!("{way} -fno-optimize-sibling-calls")) {
                break;
            }
            let plain = plain(&folder);
            for libraries in ["--no-libcall", "-l"] {
                let recorded = ours(&folder, &["record", libraries, "-o", "o", "-P", ".", "./program"]);
                let what = format!("{compiler} {way} {libraries}");
                assert_eq!(String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&plain.stdout), "{what}");
                // The program's own counts, and no message.
                assert_eq!(String::from_utf8_lossy(&recorded.stderr), String::from_utf8_lossy(&plain.stderr), "{what}");
                assert_eq!(recorded.status, plain.status, "{what}");
                let found = entries_by_name(&folder);
                for line in String::from_utf8_lossy(&plain.stderr).lines() {
                    let (name, count) = line.split_once(' ').expect("a name and a number");
                    assert_eq!(found.get(name).map(u64::to_string).as_deref(), Some(count), "{what}: {name}");
                }
                assert_eq!((found.get("main"), found.contains_key("printf")), (Some(&1), libraries == "-l"), "{what}");
                is_read_alike(&folder, &["replay", "report"], &what);
            }
        }
    }
}

#[test]
fn few_functions_are_patched_where_few_are_named() {
    let folder = Folder::new();
    if !compile_by("gcc", &folder, "unprepared.c", "-O1") {
        return;
    }
    let names = |options: &str| {
        let arguments: Vec<_> = ["record", "--no-libcall", "-o", "o"].into_iter().chain(options.split(' ')).collect();
        let output = ours(&folder, &[&arguments[..], &["./program"]].concat());
        assert_eq!(output.status, plain(&folder).status);
        entries_by_name(&folder).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(names("-P leaf -P product"), ["leaf", "product"]);
    assert_eq!(names("-P ^.*r$ -U order"), ["far"]);
    assert_eq!(names("-P . -F far"), ["back", "far"]);
}

#[test]
fn exceptions_pass_through_patched_functions() {
    let folder = Folder::new();
    for compiler in ["g++", "clang++"] {
        for source in ["exceptions.cc", "throws.cc"] {
            for way in ["-O0", "-O2", "-O2 -fcf-protection -no-pie"] {
                if !compile_by(compiler, &folder, source, way) {
                    break;
                }
                let plain = plain(&folder);
                let recorded = ours(&folder, &["record", "-o", "o", "-P", ".", "./program"]);
                let what = format!("{compiler} {source} {way}");
                assert_eq!(String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&plain.stdout), "{what}");
                assert_eq!(recorded.status, plain.status, "{what}");
                assert_eq!(entries(&folder, "main"), 1, "{what}");
            }
        }
    }
}

#[test]
fn functions_that_cannot_be_patched_are_counted() {
    let folder = Folder::new();
    if !compile_by("gcc", &folder, "unmovable.c", "-O1") {
        return;
    }
    let plain = plain(&folder);
    let recorded = ours(&folder, &["record", "--no-libcall", "-o", "o", "-P", ".", "./program"]);
    assert_eq!((&recorded.stdout, recorded.status), (&plain.stdout, plain.status));
    let said = "o: 6 of 8 functions that -P names were not patched: 1 shorter than the 5 bytes of a jump, 1 beginning with an \
        instruction that cannot be moved, 2 with a jump or an address that leads into the first 5 bytes, or back to the \
        beginning, 1 whose bytes are not all known as instructions, 1 which use their return address or change stacks; \
        compile with -fpatchable-function-entry=5 to record all\n";
    assert_eq!(String::from_utf8_lossy(&recorded.stderr), said);
    assert_eq!(entries_by_name(&folder).into_keys().collect::<Vec<_>>(), ["main", "usual"]);
    // Without symbols there are no functions.
    let stripped = Command::new("strip").arg(folder.path("program")).output();
    if stripped.is_ok_and(|output| output.status.success()) {
        let said = "o: nothing was recorded: no function was patched; -P names functions of the symbol table";
        let run = folder.run("record --no-libcall -o o -P . ./program").ends(0, &[said]);
        assert_eq!(run.stdout.as_bytes(), plain.stdout);
    }
}

#[test]
fn children_and_programs_that_are_executed_are_patched_as_well() {
    let folder = Folder::new();
    for way in ["-O0", "-O2 -fcf-protection"] {
        for source in ["processes.c", "threads.c", "values.c"] {
            if !compile_by("gcc", &folder, source, &format!("{way} -pthread -fno-inline")) {
                return;
            }
            let plain = plain(&folder);
            let recorded = ours(&folder, &["record", "-o", "o", "-P", ".", "./program"]);
            let what = format!("{way} {source}");
            assert_eq!(String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&plain.stdout), "{what}");
            assert_eq!(recorded.status, plain.status, "{what}");
            assert!(entries(&folder, "main") > 0, "{what}: {}", String::from_utf8_lossy(&recorded.stderr));
        }
    }
}

/// This program itself, with functions by chance: it has 200,000 of them.
#[test]
fn this_program_does_the_same_when_any_of_its_functions_are_patched() {
    let folder = Folder::new();
    if !compile_by("gcc", &folder, "unprepared.c", "-O1") {
        return;
    }
    ours(&folder, &["record", "-o", "read", "-P", ".", "./program"]);
    let own = env!("CARGO_BIN_EXE_tracemill");
    let read = ["report", "-d", "read"];
    let plain = ours(&folder, &read);
    assert!(plain.status.success() && plain.stdout.len() > 500);
    let is_long = std::env::var_os("TRACEMILL_LONG").is_some();
    // By the last letters of their names.
    let sets = ["[a-d]$", ".", "[e-h]$", "[l-r]$", "[s-z]$", "[acegikmoqsuwy]$", "new|drop|next", "[^a-z]$"];
    for set in &sets[..if is_long { sets.len() } else { 1 }] {
        let recorded = ours(&folder, &[&["record", "--no-libcall", "-o", "o", "-P", set, own], &read[..]].concat());
        let stderr = String::from_utf8_lossy(&recorded.stderr);
        assert!(recorded.stdout == plain.stdout, "{set}: {stderr}");
        assert_eq!(recorded.status, plain.status, "{set}: {stderr}");
        assert!(!stderr.contains("nothing was recorded"), "{set}: {stderr}");
        assert!(folder.path("o/info").is_file(), "{set}: {stderr}");
    }
}
