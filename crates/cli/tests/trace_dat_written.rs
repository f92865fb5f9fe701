//! `convert --to ftrace`: kernel events of CTF as a `trace.dat`, in both versions, read back and by trace-cmd.

mod util;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use util::{Folder, json_lines};

fn bakery() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/kernel/bakery").display().to_string()
}

fn lines(folder: &Folder, trace: &str) -> Vec<Value> {
    json_lines(&folder.run_with("print --format jsonl -q", &[trace]).ends(0, &[]).stdout)
}

/// The numbers and texts of a payload, by the names that the kernel has for its fields.
fn fields(line: &Value) -> Vec<(String, String)> {
    let members = line["payload"].as_object().into_iter().flatten();
    let fields = members.filter(|(_, value)| !value.is_object() && !value.is_array() && !value.is_f64());
    let mut fields: Vec<(String, String)> = fields
        .map(|(name, value)| {
            let name = match name.strip_suffix("tid") {
                Some(front) if front.is_empty() || front.ends_with('_') => format!("{front}pid"),
                _ => name.clone(),
            };
            (name, value.to_string())
        })
        .collect();
    fields.sort();
    fields
}

#[test]
fn kernel_events_are_read_back_and_by_trace_cmd() {
    let folder = Folder::new();
    let before = lines(&folder, &bakery());
    assert!(before.len() > 100);
    for (name, options) in [("six", ""), ("seven", "--trace-dat 7"), ("packed", "--trace-dat zstd")] {
        folder.run_with(&format!("convert -q {options} -o {name}.dat --to ftrace"), &[&bakery()]).ends(0, &[]);
        let after = lines(&folder, &format!("{name}.dat"));
        assert_eq!(after.len(), before.len(), "{name}");
        for (before, after) in before.iter().zip(&after) {
            assert_eq!((&before["name"], &before["ns"]), (&after["name"], &after["ns"]), "{name}");
            let kept = fields(after);
            for field in fields(before) {
                assert!(kept.contains(&field), "{name}: {field:?} of {before} is not in {after}");
            }
        }
        // A file of its own format is written again from its records when something of it is left out.
        let all = "--begin 0.000000001";
        folder.run_with(&format!("convert -q --force {all} --to ftrace -o again.dat {name}.dat"), &[]).ends(0, &[]);
        assert_eq!(lines(&folder, "again.dat"), after, "{name}");
        let report = Command::new("trace-cmd").arg("report").arg(folder.path(&format!("{name}.dat"))).output();
        if let Ok(report) = report {
            let text = String::from_utf8_lossy(&report.stdout);
            let errors = String::from_utf8_lossy(&report.stderr);
            // Lines of CPUs say what was lost.
            let events = text.lines().filter(|line| !line.starts_with("CPU:") && !line.starts_with("cpus="));
            assert_eq!((errors.as_ref(), events.count()), ("", before.len()), "{name}");
            assert!(text.contains("[21 EVENTS DROPPED]"), "{name}");
        }
    }
}

/// Adds an option to a file of version 6, and takes its bytes from the padding before the pages.
fn with_option(mut file: Vec<u8>, id: u16, content: &[u8]) -> Vec<u8> {
    let after = |file: &[u8], mark: &[u8]| {
        let at = file.windows(mark.len()).position(|bytes| bytes == mark).expect("a mark of the section");
        at + mark.len()
    };
    let option = [&id.to_le_bytes()[..], &(content.len() as u32).to_le_bytes(), content].concat();
    let places = after(&file, b"flyrecord\0");
    let pages = u64::from_le_bytes(file[places..places + 8].try_into().expect("eight bytes")) as usize;
    assert!(file[pages - option.len()..pages].iter().all(|byte| *byte == 0), "there is room");
    file.drain(pages - option.len()..pages);
    let begin = after(&file, b"options  \0");
    file.splice(begin..begin, option);
    file
}

/// A processor's counter becomes ns by an option of the file: 14, with a factor, a shift and an offset.
#[test]
fn counts_that_an_option_turns_into_ns_are_so_once() {
    let folder = Folder::new();
    folder.run_with("convert -q -o six.dat --to ftrace", &[&bakery()]).ends(0, &[]);
    let file = std::fs::read(folder.path("six.dat")).expect("it was written");
    let content = [&3u32.to_le_bytes()[..], &1u32.to_le_bytes(), &100u64.to_le_bytes()].concat();
    std::fs::write(folder.path("tsc.dat"), with_option(file, 14, &content)).expect("it is written");
    let (plain, counted) = (lines(&folder, "six.dat"), lines(&folder, "tsc.dat"));
    let ns = |line: &Value| line["ns"].to_string().trim_matches('"').parse::<i128>().expect("a number");
    assert_eq!(ns(&counted[0]), ns(&plain[0]) * 3 / 2 - 100);
    folder.run_with("convert -q --force --begin 0.000000001 --to ftrace -o again.dat tsc.dat", &[]).ends(0, &[]);
    assert_eq!(lines(&folder, "again.dat"), counted);
}

#[test]
fn versions_that_do_not_exist_are_refused() {
    let folder = Folder::new();
    let run = |options: &str| folder.run_with(&format!("convert -q {options} -o x.dat --to ftrace"), &[&bakery()]);
    run("--trace-dat 5").ends(2, &["`5` is not one of 6, 7 and zstd for --trace-dat"]);
    assert!(!folder.path("x.dat").exists());
}
