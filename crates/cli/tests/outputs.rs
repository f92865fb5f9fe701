//! Where outputs of `tracemill convert` go, and what is said when they cannot.

mod util;

use std::fs;

use serde_json::Value;
use util::{Folder, Run, demo, plain_trace};

/// What is in a folder, sorted.
fn names(folder: &Folder, path: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.path(path)).expect("it is a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Converts a trace of `demo/`.
fn convert(folder: &Folder, trace: &str, arguments: &str) -> Run {
    folder.run_with(&format!("convert {arguments}"), &[&demo(trace)])
}

#[test]
fn folders_around_an_output_are_made_for_files_too() {
    let folder = Folder::new();
    for to in ["ctf2", "chrome", "jsonl", "cpel"] {
        convert(&folder, "orders", &format!("-q --to {to} -o {to}/deep/out --loss-report {to}/reports/loss"))
            .ends(0, &[]);
        assert_eq!(names(&folder, &format!("{to}/deep")), ["out"]);
        assert_eq!(names(&folder, &format!("{to}/reports")), ["loss"]);
    }
}

#[cfg(unix)]
#[test]
fn errors_name_the_output_as_the_user_did_and_nothing_stays() {
    let folder = Folder::new();
    folder.file("there/letter", "dear");
    let program = util::command().get_program().to_os_string();
    let folders = ["ctf2", "ctf1.8", "ctf2 --split time=1ms", "ctf1.1", "uftrace", "lttng-legacy"];
    for form in folders.into_iter().chain(["jsonl", "perfetto", "chrome", "csv", "cpel", "elog"]) {
        let mut shell = std::process::Command::new("sh");
        let script = format!("ulimit -f 1; \"$0\" convert -q --to {form} -o there/new/out \"$1\"");
        shell.args(["-c", &script]).arg(&program).arg(demo("mill")).current_dir(folder.path("."));
        let run = Run::of(shell.output().expect("it runs")).ends(1, &["error: there/new/out", "ulimit -f"]);
        assert!(!run.stderr.contains(".part"), "{form}: {}", run.stderr);
        assert_eq!((names(&folder, "."), names(&folder, "there")), (vec!["there".into()], vec!["letter".into()]));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_told_by_every_file() {
    let folder = Folder::new();
    // Something that begins and ends, so that there are calls.
    let classes = "event { name = \"work_begin\"; id = 0; }; event { name = \"work_end\"; id = 1; };";
    plain_trace(&folder, "calls", classes, &[0, 10, 5, 4, 1, 50, 5, 4]);
    let formats = folder.run("formats --json").ends(0, &[]).stdout;
    let formats: Value = serde_json::from_str(&formats).expect("it is JSON");
    let mut files = Vec::new();
    for format in formats["formats"].as_array().expect("a list") {
        let name = format["name"].as_str().expect("a name");
        if format["write"] != true {
            continue;
        }
        let run = folder.run(&format!("convert -q --to {name} -o /dev/full calls")).ends(1, &["error: /dev/full: "]);
        if !run.stderr.contains("the output is a folder") {
            assert!(run.stderr.contains("make room"), "{name}: {}", run.stderr);
            files.push(name.to_string());
        }
    }
    for name in ["chrome", "cpel", "csv", "elog", "firefox", "folded", "jsonl", "perfetto", "speedscope", "text"] {
        assert!(files.iter().any(|file| file == name), "{name} is no file: {files:?}");
    }
    assert_eq!(names(&folder, "."), ["calls"]);
}

#[test]
fn the_loss_report_goes_to_standard_output() {
    let folder = Folder::new();
    for to in ["ctf1.8", "jsonl"] {
        let run = convert(&folder, "orders", &format!("-q --to {to} -o {to} --loss-report -")).ends(0, &[]);
        let report: Value = serde_json::from_str(&run.stdout).expect("it is JSON");
        assert_eq!(report["format"], to);
    }
    assert_eq!(names(&folder, "."), ["ctf1.8", "jsonl"]);
    for (output, report) in [("-", "-"), ("-", "/dev/stdout"), ("/dev/fd/1", "-"), ("/dev/stderr", "/dev/stderr")] {
        let form = format!("--to jsonl -o {output} --loss-report {report}");
        convert(&folder, "orders", &form).ends(2, &["would be mixed", "give one of them a file"]);
    }
}

#[test]
fn a_format_that_was_left_out_is_known() {
    let folder = Folder::new();
    // The tests of the whole workspace build the program with everything.
    let is_built = folder.run("formats").ends(0, &[]).stdout.contains("parquet");
    for to in ["parquet", "arrow"] {
        let run = convert(&folder, "orders", &format!("-q --to {to} -o {to}"));
        match is_built {
            true => run.ends(0, &[]),
            false => run.ends(1, &["built without", to, "--features columnar"]),
        };
    }
    convert(&folder, "orders", "--to parket -o out").ends(2, &["unknown output format `parket`"]);
    convert(&folder, "orders", "--to CTF2 -o out").ends(2, &["did you mean `ctf2`?"]);
}
