//! Where outputs of `tracemill convert` go, and what is said when they cannot.

mod util;

use std::fs;

use serde_json::Value;
use util::{Folder, Run, demo, plain_trace};

/// Names in a folder, sorted.
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
    for form in folders.into_iter().chain(["jsonl", "perfetto", "chrome", "csv", "cpel", "gist", "elog"]) {
        let mut shell = std::process::Command::new("sh");
        let script = format!("ulimit -f 1; \"$0\" convert -q --to {form} -o there/new/out \"$1\"");
        shell.args(["-c", &script]).arg(&program).arg(demo("mill")).current_dir(folder.path("."));
        let run = Run::from_output(shell.output().expect("it runs")).ends(1, &["error: there/new/out", "ulimit -f"]);
        assert!(!run.stderr.contains(".part"), "{form}: {}", run.stderr);
        assert_eq!((names(&folder, "."), names(&folder, "there")), (vec!["there".into()], vec!["letter".into()]));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_told_by_every_file() {
    let folder = Folder::new();
    trace_with_calls(&folder, "calls");
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
    for name in
        ["chrome", "cpel", "csv", "elog", "firefox", "folded", "gist", "jsonl", "perfetto", "speedscope", "text"]
    {
        assert!(files.iter().any(|file| file == name), "{name} is not a file: {files:?}");
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
    let is_built = !folder.run("formats").ends(0, &[]).stdout.contains("not in this build");
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

/// All files in a folder with what they hold.
#[cfg(unix)]
fn contents(path: &std::path::Path, found: &mut Vec<(std::path::PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(path).expect("it is a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => contents(&path, found),
            path => found.push((path.clone(), fs::read(&path).expect("it can be read"))),
        }
    }
    found.sort();
}

/// A trace of one call.
fn trace_with_calls(folder: &Folder, name: &str) {
    let class = |id: u8, name: &str| {
        format!("event {{ name = \"lttng_ust_cyg_profile:{name}\"; id = {id}; fields := struct {{ u8 addr; }}; }};")
    };
    let classes = class(0, "func_entry") + &class(1, "func_exit");
    plain_trace(folder, name, &classes, &[0, 10, 5, 4, 7, 1, 50, 5, 4, 7]);
}

#[cfg(unix)]
#[test]
fn an_output_never_replaces_an_input() {
    let folder = Folder::new();
    trace_with_calls(&folder, "t");
    fs::hard_link(folder.path("t/metadata"), folder.path("twin")).expect("links can be made");
    std::os::unix::fs::symlink("t", folder.path("link")).expect("links can be made");
    // A folder whose file lies elsewhere.
    fs::create_dir(folder.path("view")).expect("it is new");
    std::os::unix::fs::symlink("../twin", folder.path("view/metadata")).expect("links can be made");
    std::os::unix::fs::symlink("../t/s", folder.path("view/s")).expect("links can be made");
    let mut before = Vec::new();
    contents(&folder.path("."), &mut before);
    let commands = ["print", "print --format jsonl", "replay", "report", "report --task", "graph", "dump", "flame"];
    let others = [
        "info",
        "check --json",
        "report --state work_begin",
        "convert --to jsonl --force",
        "convert --to chrome --force",
    ];
    for command in commands.iter().chain(&others) {
        for (input, output) in [
            ("t", "t/metadata"),
            ("t", "link/metadata"),
            ("t", "twin"),
            ("t", "t/new"),
            ("link", "t/metadata"),
            ("view", "t/metadata"),
            ("view", "twin"),
            (".", "twin"),
        ] {
            folder.run(&format!("{command} -o {output} {input}")).ends(2, &[output, "an input"]);
            let mut after = Vec::new();
            contents(&folder.path("."), &mut after);
            assert!(before == after, "{command} -o {output} {input}");
        }
    }
    folder.run("report --diff t -o twin view").ends(2, &["twin", "an input"]);
    folder.run("convert --to jsonl -o out --loss-report twin t").ends(2, &["the loss report would replace an input"]);
    folder.run("print -q -o link-to-new t").ends(0, &[]);
}

#[cfg(target_os = "linux")]
#[test]
fn files_get_their_name_when_they_are_complete() {
    let folder = Folder::new();
    folder.file("there/out", "dear");
    trace_with_calls(&folder, "calls");
    let program = util::command().get_program().to_os_string();
    for (command, trace) in [
        ("info", "mill"),
        ("check --json", "mill"),
        ("print", "mill"),
        ("print --format csv", "mill"),
        ("report --state mill:grind --format csv --by payload", "mill"),
        ("dump --flame-graph", "calls"),
        ("replay", "calls"),
        ("graph", "calls"),
        ("flame", "calls"),
    ] {
        let trace = if trace == "calls" { trace.to_string() } else { demo(trace) };
        let mut shell = std::process::Command::new("sh");
        let script = format!("ulimit -f 0; \"$0\" {command} -q -o there/out \"$1\"");
        shell.args(["-c", &script]).arg(&program).arg(&trace).current_dir(folder.path("."));
        let run = Run::from_output(shell.output().expect("it runs")).ends(1, &["error: there/out"]);
        assert!(!run.stderr.contains(".part"), "{command}: {}", run.stderr);
        assert_eq!(names(&folder, "there"), ["out"], "{command}");
        assert_eq!(fs::read_to_string(folder.path("there/out")).expect("it is there"), "dear", "{command}");
    }
}

#[test]
fn descriptions_and_findings_go_to_a_file_as_to_stdout() {
    let folder = Folder::new();
    for command in ["info --count", "info --json", "check", "check --json"] {
        let stdout = folder.run_with(command, &[&demo("losses")]).stdout;
        assert!(stdout.len() > 20, "{command}: {stdout}");
        let run = folder.run_with(&format!("{command} -o out"), &[&demo("losses")]);
        assert_eq!(run.stdout, "", "{command}");
        assert_eq!(fs::read_to_string(folder.path("out")).expect("it is there"), stdout, "{command}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_keeps_leading_to_the_output() {
    let folder = Folder::new();
    folder.file("there/out", "dear");
    std::os::unix::fs::symlink("there/out", folder.path("link")).expect("links can be made");
    folder.run_with("print -q -o link", &[&demo("orders")]).ends(0, &[]);
    assert!(fs::symlink_metadata(folder.path("link")).expect("it is there").is_symlink());
    assert!(fs::metadata(folder.path("there/out")).expect("it is there").len() > 1000);
}

#[cfg(target_os = "linux")]
#[test]
fn what_killed_runs_left_is_removed_by_the_next_one() {
    let folder = Folder::new();
    // Numbers of processes end at 2^22.
    let gone = 1 << 23;
    trace_with_calls(&folder, "calls");
    let ours = std::process::id();
    folder.file(&format!(".out.{gone}.part"), "half");
    folder.file(&format!(".out.{gone}.part.d/keep"), "another name");
    folder.file(&format!(".other.{gone}.part"), "another name");
    folder.file(&format!(".out.{ours}.part"), "somebody writes it");
    let kept = [
        format!(".other.{gone}.part"),
        format!(".out.{ours}.part"),
        format!(".out.{gone}.part.d"),
        "calls".into(),
        "out".into(),
    ];
    for command in ["print", "convert --force --to ctf2", "flame"] {
        folder.file(&format!(".out.{gone}.part"), "half");
        let _ = fs::remove_dir_all(folder.path("out"));
        let _ = fs::remove_file(folder.path("out"));
        folder.run(&format!("{command} -q -o out calls")).ends(0, &[]);
        let mut kept = kept.to_vec();
        kept.sort();
        assert_eq!(names(&folder, "."), kept, "{command}");
    }
}

/// Other inputs of a command than its traces cannot be outputs: files of keys, of symbols, of options, and standard
/// input.
#[cfg(unix)]
#[test]
fn side_inputs_are_not_replaced() {
    let folder = Folder::new();
    trace_with_calls(&folder, "calls");
    folder.file("secret", "a passphrase\n").file("syms/prog.sym", "0 T main\n").file("options", "--no-pager\n");
    std::os::unix::fs::symlink(folder.path("secret"), folder.path("link")).expect("a link can be made");
    fs::hard_link(folder.path("syms/prog.sym"), folder.path("hard")).expect("a link can be made");
    for (command, option) in [
        ("convert --force --to ctf2 -o secret --key-file secret calls", "--key-file"),
        ("convert --force --to jsonl -o link --passphrase-file secret calls", "--passphrase-file"),
        ("convert --force --to jsonl -o secret --pointdefs link calls", "--pointdefs"),
        ("convert --to jsonl -o new --loss-report secret --key-file link calls", "--key-file"),
        ("print -o secret --key-file link calls", "--key-file"),
        ("report -d calls -o syms/prog.sym --with-syms syms", "--with-syms"),
        ("replay -d calls -o hard --with-syms syms", "--with-syms"),
        ("replay -d calls -o new --logfile hard --with-syms syms", "--with-syms"),
        ("report -d calls -o options --opt-file options", "--opt-file"),
        ("analyze cpu -o secret --concepts secret calls", "--concepts"),
        ("replay -d calls -o new --logfile new", "same file"),
    ] {
        let before = util::content(&folder.path("."));
        folder.run(command).ends(2, &[option]);
        assert!(util::content(&folder.path(".")) == before, "{command}");
    }
    let lines = folder.run("convert --to jsonl -o - calls").stdout;
    folder.file("lines.jsonl", &lines);
    let mut command = util::command();
    command.current_dir(folder.path(".")).args(["convert", "--force", "--to", "ctf2", "-o", "lines.jsonl", "-"]);
    command.stdin(fs::File::open(folder.path("lines.jsonl")).expect("it was written"));
    Run::from_output(command.output().expect("it runs")).ends(2, &["standard input"]);
    assert_eq!(fs::read_to_string(folder.path("lines.jsonl")).expect("it is there"), lines);
}
