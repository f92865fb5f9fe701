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

#[test]
fn versions_that_do_not_exist_are_refused() {
    let folder = Folder::new();
    let run = |options: &str| folder.run_with(&format!("convert -q {options} -o x.dat --to ftrace"), &[&bakery()]);
    run("--trace-dat 5").ends(2, &["`5` is not one of 6, 7 and zstd for --trace-dat"]);
    assert!(!folder.path("x.dat").exists());
}
