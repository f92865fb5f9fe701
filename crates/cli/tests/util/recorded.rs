//! Programs that tell their calls, recorded and read by us and by uftrace.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::util::{Folder, command};

/// The ways in which programs tell their calls.
pub(crate) const WAYS: [&str; 3] = ["-pg", "-pg -mfentry", "-finstrument-functions"];

pub(crate) fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("left out: {program} is not installed");
    }
    is_there
}

/// Compiles a program; `None` when there is no compiler for it.
pub(crate) fn compile(folder: &Folder, source: &str, flags: &str, name: &str) -> Option<PathBuf> {
    let compiler = if source.ends_with(".cc") { "g++" } else { "gcc" };
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) || !is_there(compiler) {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut compile = Command::new(compiler);
    compile.args(flags.split_whitespace()).arg("-o").arg(folder.path(name)).arg(source).args(["-lpthread", "-ldl"]);
    let output = compile.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder.path(name))
}

/// Runs the program of ours in a folder.
pub(crate) fn ours(folder: &Folder, arguments: &[&str]) -> Output {
    command().current_dir(folder.path("")).args(arguments).output().expect("it runs")
}

/// Both print the same about the folder `o`, and uftrace warns of nothing.
pub(crate) fn is_read_alike(folder: &Folder, commands: &[&str], what: &str) {
    if !is_there("uftrace") {
        return;
    }
    for name in commands {
        let theirs =
            Command::new("uftrace").args([name, "-d", "o"]).current_dir(folder.path("")).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&theirs.stderr), "", "{what}: uftrace {name}");
        let ours = ours(folder, &[name, "-d", "o"]);
        assert_eq!(String::from_utf8_lossy(&ours.stderr), "", "{what}: {name}");
        assert!(ours.stdout == theirs.stdout, "{what}: {name} differs");
        assert!(theirs.stdout.len() > 50, "{what}: {name}");
    }
}

/// The number of records of `dump` that are entries of this function.
pub(crate) fn entries(folder: &Folder, function: &str) -> usize {
    let output = ours(folder, &["dump", "-d", "o"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains("[entry]") && line.contains(&format!(" {function}("))).count()
}

/// The number of entries in a folder.
pub(crate) fn calls(folder: &Folder, data: &str) -> usize {
    let output = ours(folder, &["dump", "-d", data]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).matches("[entry]").count()
}

/// The number of entries that uftrace records of the program, with this option.
pub(crate) fn calls_of_uftrace(folder: &Folder, option: &str) -> usize {
    let mut theirs = Command::new("uftrace");
    theirs.args(["record", option, "--no-event", "-d", "u", "./program"]);
    theirs.current_dir(folder.path("")).output().expect("it runs");
    calls(folder, "u")
}

/// The calls of a folder, by name and nesting, as uftrace replays them.
pub(crate) fn nesting(folder: &Folder, data: &str) -> String {
    let mut replay = Command::new("uftrace");
    let output =
        replay.args(["replay", "-f", "none", "-d", data]).current_dir(folder.path("")).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{data}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| !line.starts_with("task:")).flat_map(|line| [line, "\n"]).collect()
}

pub(crate) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    // Ten minutes: a machine may be slow.
    for _ in 0..120_000 {
        if is_there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what} did not happen");
}

/// The counter that the program `counter.c` keeps.
pub(crate) fn counted(folder: &Folder) -> u64 {
    let bytes = fs::read(folder.path("counter")).unwrap_or_default();
    bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}
