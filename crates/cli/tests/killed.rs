//! `tracemill convert` is killed, interrupted, and refused the disk, whatever it writes: what has the name of the output is
//! whole, or what it was before.
//!
//! `TRACEMILL_SEEDS=100` tries so many moments for each target.
#![cfg(unix)]

mod util;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use util::{Folder, Run, content, plain_trace, stdout};

const CLASSES: &str = "
    event { name = \"work_begin\"; id = 0; };
    event { name = \"work_end\"; id = 1; };
    event { name = \"mark\"; id = 2; fields := struct { string text; }; };";

/// A trace that every format can hold something of: calls of three threads, and what else happens.
fn source(folder: &Folder, name: &str, events: u32) {
    let mut bytes = Vec::new();
    for at in 0..events {
        let (time, thread) = (at as u8, (at / 4 % 3) as u8);
        match at % 4 {
            0 => bytes.extend([0, time, thread, 9]),
            3 => bytes.extend([1, time, thread, 9]),
            _ => {
                bytes.extend([2, time, thread, 9]);
                bytes.extend(format!("something {at} happened\0").bytes());
            }
        }
    }
    plain_trace(folder, name, CLASSES, &bytes);
}

/// Formats that are written, with the options of `convert`.
fn targets() -> Vec<String> {
    let list: Value = serde_json::from_str(&stdout("formats --json", &[])).expect("it is JSON");
    let formats = list["formats"].as_array().expect("a list").iter();
    let names: Vec<String> = formats
        .filter(|format| format["write"] == true)
        .filter_map(|format| format["name"].as_str().map(str::to_string))
        .collect();
    assert!(names.len() > 12, "{names:?}");
    let one_file = ["text", "jsonl", "csv", "html", "svg"];
    let split = names.iter().filter(|name| !one_file.contains(&name.as_str()));
    let split: Vec<String> = split.map(|name| format!("{name} --split time=1us")).collect();
    names.into_iter().chain(split).map(|name| format!("convert -q --force --to {name}")).collect()
}

/// Names in a folder beside the sources, also those that begin with a dot.
fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path(".")).expect("it is a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| !["old", "new", "before", "whole"].contains(&name.as_str())).collect();
    names.sort();
    names
}

fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Moments for each target.
fn moments() -> u32 {
    std::env::var("TRACEMILL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// The program with the options of a target, from a source to an output.
fn started(folder: &Folder, options: &str, source: &str, output: &str) -> Command {
    let mut command = util::command();
    command.current_dir(folder.path(".")).args(options.split_whitespace()).args(["-o", output, source]);
    command.stderr(Stdio::piped()).stdout(Stdio::null());
    command
}

/// Two sources and what each target makes of them; and how long it takes.
struct Case {
    options: String,
    before: Vec<(String, Vec<u8>)>,
    whole: Vec<(String, Vec<u8>)>,
    takes: Duration,
}

/// Runs every target once for each source. Those that hold nothing of the sources are left out.
fn cases(folder: &Folder) -> Vec<Case> {
    source(folder, "old", 40);
    source(folder, "new", 4000);
    let mut cases = Vec::new();
    for options in targets() {
        let run = |from: &str, to: &str| {
            let start = Instant::now();
            let run = Run::from_output(started(folder, &options, from, to).output().expect("the program starts"));
            (run.ends(0, &[]), start.elapsed())
        };
        run("old", "before");
        let (_, takes) = run("new", "whole");
        let (before, whole) = (content(&folder.path("before")), content(&folder.path("whole")));
        assert!(before != whole, "{options}");
        remove(&folder.path("before"));
        remove(&folder.path("whole"));
        cases.push(Case { options, before, whole, takes });
    }
    cases
}

/// A moment of a run, another one each time.
fn moment(seed: &mut u64, takes: Duration) -> Duration {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    takes.mul_f64((*seed >> 11) as f64 / (1u64 << 53) as f64 * 1.1)
}

/// A file with the name of an output is never half of one: it is the new one or the one before.
fn is_whole(folder: &Folder, case: &Case, status: ExitStatus) {
    let out = folder.path("out");
    if out.exists() {
        let found = content(&out);
        assert!(found == case.whole || found == case.before, "{}: {status}", case.options);
        assert!(status.code() != Some(0) || found == case.whole, "{}: {status}", case.options);
        return;
    }
    // Folders are not replaced in one step: between the two steps the old one is aside, and whole.
    let aside = names(folder).into_iter().find(|name| name.ends_with(".part.old"));
    let aside = aside.unwrap_or_else(|| panic!("{}: the output before is gone: {status}", case.options));
    assert!(content(&folder.path(&aside)) == case.before, "{}: {status}", case.options);
}

/// The leftovers of a killed run are not a trace for any command.
fn is_no_trace(folder: &Folder, case: &Case) {
    for name in names(folder).iter().filter(|name| name.ends_with(".part")) {
        let run = folder.run_with("print -q", &[name]);
        assert!(run.code == Some(1), "{}: {:?} {}", case.options, run.code, run.stderr);
    }
}

#[test]
fn a_kill_leaves_what_was_there_or_the_whole() {
    let folder = Folder::new();
    let (mut seed, mut killed) = (1, 0);
    for case in cases(&folder) {
        for _ in 0..moments() {
            Run::from_output(started(&folder, &case.options, "old", "out").output().expect("it starts")).ends(0, &[]);
            let mut child = started(&folder, &case.options, "new", "out").spawn().expect("the program starts");
            std::thread::sleep(moment(&mut seed, case.takes));
            // It may have ended already.
            let _ = child.kill();
            let status = child.wait().expect("it ends");
            killed += u32::from(status.signal().is_some());
            is_whole(&folder, &case, status);
            is_no_trace(&folder, &case);
            for name in names(&folder) {
                remove(&folder.path(&name));
            }
        }
    }
    assert!(killed > 0, "no run was killed");
}

#[test]
fn a_disk_that_fills_is_told_and_leaves_what_was_there() {
    let folder = Folder::new();
    for case in cases(&folder) {
        Run::from_output(started(&folder, &case.options, "old", "out").output().expect("it starts")).ends(0, &[]);
        for blocks in [0, 2, 7, 60] {
            let script = format!("ulimit -f {blocks}; exec \"$@\" {} -o out new", case.options);
            let output = Command::new("sh")
                .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_tracemill")])
                .current_dir(folder.path("."))
                .stdin(Stdio::null())
                .output()
                .expect("sh starts");
            let run = Run::from_output(output);
            if run.code == Some(0) {
                break;
            }
            let run = run.ends(1, &["error: "]);
            assert!(run.stderr.contains("too large"), "{} {blocks}: {}", case.options, run.stderr);
            assert!(content(&folder.path("out")) == case.before, "{} {blocks}", case.options);
            assert_eq!(names(&folder), ["out"], "{} {blocks}", case.options);
        }
        remove(&folder.path("out"));
    }
}

#[test]
fn a_signal_ends_with_130_and_leaves_what_was_there() {
    let folder = Folder::new();
    let (mut seed, mut interrupted) = (2, 0);
    for case in cases(&folder) {
        for at in 0..moments() {
            Run::from_output(started(&folder, &case.options, "old", "out").output().expect("it starts")).ends(0, &[]);
            let mut child = started(&folder, &case.options, "new", "out").spawn().expect("the program starts");
            std::thread::sleep(moment(&mut seed, case.takes));
            let signal = ["-INT", "-TERM", "-HUP"][at as usize % 3];
            let _ = Command::new("kill").args([signal, &child.id().to_string()]).stderr(Stdio::null()).status();
            let status = child.wait().expect("it ends");
            is_whole(&folder, &case, status);
            // A signal that comes before anybody listens ends the program as signals do.
            if status.signal().is_none() {
                assert!(matches!(status.code(), Some(0 | 130)), "{} {signal}: {status}", case.options);
                interrupted += u32::from(status.code() == Some(130));
                assert_eq!(names(&folder), ["out"], "{} {signal}: {status}", case.options);
            }
            for name in names(&folder) {
                remove(&folder.path(&name));
            }
        }
    }
    assert!(interrupted > 0, "no run was interrupted");
}

#[test]
fn a_folder_that_vanishes_is_told() {
    let folder = Folder::new();
    let mut seed = 3;
    for case in cases(&folder) {
        for _ in 0..moments() {
            fs::create_dir(folder.path("below")).expect("a folder can be made");
            let mut child = started(&folder, &case.options, "new", "below/out").spawn().expect("the program starts");
            std::thread::sleep(moment(&mut seed, case.takes));
            // Files may be made while it is removed.
            let is_removed = (0..1000).any(|_| fs::remove_dir_all(folder.path("below")).is_ok());
            let status = child.wait().expect("it ends");
            let out = folder.path("below/out");
            match status.code() {
                // It was complete before the folder went away, or created the folder again.
                Some(0) if out.exists() => assert!(content(&out) == case.whole, "{}", case.options),
                Some(0 | 1) => assert!(!out.exists() || content(&out) == case.whole, "{}: {status}", case.options),
                _ => panic!("{}: {status}, removed: {is_removed}", case.options),
            }
            remove(&folder.path("below"));
        }
    }
}
