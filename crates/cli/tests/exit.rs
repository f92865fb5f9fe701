//! How the program ends, and what it says then.

mod util;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use util::{Folder, Run, command, run, run_with, ticks_metadata, ticks_packet};

/// The commands that read traces.
const READING: [&str; 3] = ["print", "info", "check"];

#[test]
fn what_is_no_trace_ends_with_1_and_says_why() {
    let folder = Folder::new();
    folder.file("empty/below/nothing", "").file("void/metadata", "").file("text/metadata", "hello\n").file("file", "x");
    folder.file("nothing", "").copy_of("orders", "good");
    for command in READING {
        let run = |path: &str| folder.run(&format!("{command} {path}"));
        run("empty")
            .ends(1, &["error: empty: no trace in this folder or below it", "help: formats that can be read: "]);
        let missing = run("missing").ends(1, &["error: missing: there is no such file or folder"]);
        assert!(!missing.stderr.contains("demo"), "{}", missing.stderr);
        run("demo/x")
            .ends(1, &["error: demo/x: there is no such file or folder", "help: the demo is the folder `demo` of"]);
        run("file").ends(1, &["error: file: the file is not a trace of a known format"]);
        run("void").ends(
            1,
            &["error: void: no trace in this folder or below it: void/metadata: byte 0: the metadata is empty"],
        );
        run("text").ends(1, &["text/metadata: byte 0: the metadata is not that of a CTF trace"]);
        run("-").ends(1, &["error: -: there is nothing in it"]);
        run("nothing").ends(1, &["error: nothing: there is nothing in it"]);
        run("good/metadata")
            .ends(1, &["good/metadata: the file is not a trace", "the trace in `good`: name that folder"]);
        run("--input-format uftrace good")
            .ends(1, &["good: this is a trace of ctf", ", not of uftrace", "leave --input"]);
        run("--input-format ctf good").ends(0, &[]);
        for format in ["ctf", "ctf1.1", "uftrace", "lttng-legacy"] {
            run(&format!("--input-format {format} text/metadata"))
                .ends(1, &["text/metadata: this is a file, not a folder", "trace", " is a folder with"]);
        }
        run("--input-format uftrac good")
            .ends(2, &["unknown input format `uftrac`", "did you mean `uftrace`? formats"]);
        run("- -").ends(1, &["standard input is there once, and named twice"]);
    }
}

#[test]
fn calls_of_no_trace_are_those_of_a_recording_here() {
    let folder = Folder::new();
    for command in ["replay", "report", "graph", "dump"] {
        folder.run(command).ends(1, &["error: uftrace.data: there is no recording here", "name a trace"]);
    }
}

#[test]
fn one_of_several_bad_is_3_and_all_bad_is_1() {
    let folder = Folder::new();
    folder.copy_of("orders", "good").file("bad/metadata", "/* CTF 1.8 */\ntrace { oops };\n");
    for command in READING {
        let run = folder.run(&format!("{command} good bad"));
        let place = format!("{}{}", run.stdout, run.stderr);
        assert!(place.contains("bad/metadata: line 2, column "), "{command}: {place}");
        run.ends(3, &[]);
        folder.run(&format!("{command} good missing")).ends(3, &[]);
        folder.run(&format!("{command} good missing --strict")).ends(1, &[]);
        folder.run(&format!("{command} missing bad")).ends(1, &["missing: ", "bad/metadata: line 2", "oops", "^"]);
    }
    assert_eq!(folder.run("print good bad").stdout.lines().count(), 500);
}

#[test]
fn metadata_below_a_searched_folder_that_is_none_is_told() {
    let folder = Folder::new();
    folder.copy_of("orders", "all/good").file("all/bad/metadata", "");
    let run = folder.run("print all").ends(0, &["warning: all/bad/metadata: byte 0: the metadata is empty"]);
    assert_eq!(run.stdout.lines().count(), 500);
    assert_eq!(folder.run("print all --quiet").ends(0, &[]).stderr, "");
}

#[test]
fn a_trace_without_streams_prints_nothing() {
    let folder = Folder::new();
    folder.file("t/metadata", ticks_metadata(""));
    for format in ["text", "jsonl"] {
        let run = folder.run(&format!("print t --format {format}")).ends(0, &[]);
        assert_eq!((&*run.stdout, &*run.stderr), ("", ""));
    }
    folder.run("info t").ends(0, &[]);
    folder.run("check t").ends(0, &[]);
    folder.run("print t --stream x").ends(2, &["the traces have no streams"]);
}

#[test]
fn a_part_that_cannot_be_read_is_3_and_the_rest_is_printed() {
    let folder = Folder::new();
    let packets = [ticks_packet(&[(10, 1)], 0), ticks_packet(&[(20, 2), (30, 3)], 0)].concat();
    folder.file("t/metadata", ticks_metadata("")).file("t/s", &packets[..packets.len() - 4]);
    let run = folder.run("print t --format csv --columns n").ends(3, &["error: t/s: byte 52, packet 1: "]);
    assert!(run.stdout.starts_with("n\n1\n"), "{}", run.stdout);
    let told = |text: &str| run.stderr.matches(text).count();
    assert_eq!((told("error: "), told("byte 52"), told("byte 112")), (2, 1, 1), "{}", run.stderr);
    assert_eq!(folder.run("print t --format csv --columns n --quiet").ends(3, &["error: "]).stdout, run.stdout);
    folder.run("print t --strict").ends(1, &["error: t/s: byte 52"]);
    folder.run("info t").ends(3, &[]);
}

#[test]
fn strict_stops_at_the_first_fault_in_the_middle() {
    let folder = Folder::new();
    folder.copy_of("orders", "t");
    let mut bytes = std::fs::read(folder.path("t/desk_1")).expect("it was copied");
    for at in [4096 + 900, 8192 + 900] {
        bytes[at..at + 400].fill(0xa5);
    }
    folder.file("t/desk_1", bytes);
    let tolerant = folder.run("print t --format jsonl").ends(3, &["packet 1", "packet 2"]);
    let strict = folder.run("print t --format jsonl --strict").ends(1, &["packet 1"]);
    assert_eq!((tolerant.stderr.matches("error: ").count(), strict.stderr.matches("error: ").count()), (2, 1));
    assert!(tolerant.stdout.starts_with(&strict.stdout) && tolerant.stdout.len() > strict.stdout.len());
}

#[test]
fn wrong_usage_is_2() {
    for arguments in [
        "",
        "frobnicate",
        "print",
        "info",
        "check",
        "print orders --frobnicate",
        "print orders --format xml",
        "print orders --jobs 0",
        "print orders --memory x",
        "print orders --limit -1",
        "print orders --color maybe",
        "print orders --names nope",
        "print orders --fields nope",
        "print orders --input-format nope",
        "print orders --begin",
        "completions nope",
    ] {
        let run = run(arguments).ends(2, &[]);
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{arguments}");
    }
    run("print orders --input-format nope").ends(2, &["formats that can be read: ctf"]);
}

#[test]
fn wrong_usage_is_told_before_a_trace_is_opened() {
    run_with("print missing --filter", &["name =="]).ends(2, &["error: --filter: line 1, column 8"]);
    run("print missing --begin x").ends(2, &["error: --begin: "]);
    run("print missing --columns x, --format csv").ends(2, &["error: --columns: "]);
}

#[test]
fn a_closed_pipe_is_a_quiet_success() {
    for arguments in ["print mill", "print mill --format jsonl --jobs 2", "info losses --packets", "check losses"] {
        let mut child = command()
            .args(arguments.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut first = String::new();
        let stdout = child.stdout.take().expect("it is a pipe");
        BufReader::with_capacity(16, stdout).read_line(&mut first).expect("it prints a line");
        let run = Run::from_output(child.wait_with_output().expect("it ends"));
        let warnings = run.stderr.lines().filter(|line| !line.starts_with("warning: ")).count();
        assert_eq!((run.code, warnings), (Some(0), 0), "{arguments}: {}", run.stderr);
        assert!(first.ends_with('\n'));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_1() {
    for arguments in ["print mill", "info mill", "check mill", "formats", "completions bash", "man"] {
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = command().args(arguments.split_whitespace()).stdout(full).output().expect("the program starts");
        Run::from_output(output).ends(1, &["error: cannot write to stdout: "]);
    }
    run("print mill -o /dev/full").ends(1, &["error: /dev/full: cannot write the file: "]);
    // A folder below a file cannot be made; one that is missing is.
    run("print mill -o orders/metadata/file").ends(1, &["error: orders/metadata/file: cannot write the file"]);
}

/// The number of threads of a process, where `/proc` says so.
#[cfg(unix)]
fn threads(process: u32) -> Option<usize> {
    Some(std::fs::read_dir(format!("/proc/{process}/task")).ok()?.count())
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_with_130_between_lines() {
    for jobs in ["1", "3"] {
        // The pipe is not read, so the program blocks in the middle of its output until the interrupt arrives.
        let mut child = command()
            .args(["print", "mill", "orders", "losses", "--format", "jsonl", "--quiet", "--jobs", jobs])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdout = child.stdout.take().expect("it is a pipe");
        let mut text = vec![0];
        stdout.read_exact(&mut text).expect("it prints");
        std::thread::sleep(Duration::from_millis(300));
        let before = threads(child.id());
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.expect("kill is there").success());
        // A thread that ends the program is what shows that the interrupt has come.
        let until = Instant::now() + Duration::from_secs(60);
        while before.is_some_and(|before| threads(child.id()) <= Some(before)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        stdout.read_to_end(&mut text).expect("it can be read");
        let run = Run::from_output(child.wait_with_output().expect("it ends"));
        assert_eq!((run.code, &*run.stderr), (Some(130), ""));
        let text = String::from_utf8(text).expect("whole lines are UTF-8");
        assert!(text.ends_with("}\n"), "the last line is whole");
        assert!(text.lines().count() < 3431, "it did not print everything");
        util::json_lines(&text);
    }
}

#[test]
fn progress_is_shown_for_long_work_only_when_asked() {
    let slow = |progress: &str| {
        let mut child = command()
            .args(["print", "mill", "--format", "jsonl", "--jobs", "1", "--progress", progress])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // A full pipe makes any work long.
        let mut stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let (tell, shown) = std::sync::mpsc::channel();
        let messages = std::thread::spawn(move || {
            let mut said = String::new();
            stderr.read_line(&mut said).expect("messages are UTF-8");
            // Messages that come where none should are read by the thread alone: the receiver may be gone.
            let _ = tell.send(());
            stderr.read_to_string(&mut said).expect("messages are UTF-8");
            said
        });
        // The test goes on without a message as well, and fails by what is missing.
        let patience = if progress == "always" { Duration::from_secs(60) } else { Duration::from_millis(1600) };
        let _ = shown.recv_timeout(patience);
        let mut stdout = child.stdout.take().expect("it is a pipe");
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("lines are UTF-8");
        assert_eq!(text.lines().count(), 2000);
        Run::from_output(child.wait_with_output().expect("it ends")).ends(0, &[]);
        messages.join().expect("messages are UTF-8")
    };
    let shown = slow("always");
    assert!(shown.starts_with("progress: ") && shown.contains("% of 122880 bytes\n"), "{shown}");
    assert_eq!((&*slow("auto"), &*slow("never")), ("", ""), "stderr is not a terminal");
    assert_eq!(run("print orders --progress always").ends(0, &[]).stderr, "", "short work shows nothing");
}

#[test]
fn files_of_other_tools_are_named_with_the_way_in() {
    let folder = Folder::new();
    folder
        .file("perf.data", b"PERFILE2\x68\0\0\0")
        .file("c.json", "{\"meta\":{\"interval\":1,\"processType\":0}}")
        .file("d/x.parquet", "PAR1");
    for command in ["print", "info", "check", "report --state x", "replay", "convert --to ctf2 -o out"] {
        let run = |path: &str| folder.run(&format!("{command} {path}"));
        run("perf.data").ends(1, &["perf.data: this is a recording of perf", "a newer perf writes"]);
        run("c.json").ends(1, &["c.json: this is a raw profile of Firefox", "save it from there"]);
        run("d").ends(1, &["d: no trace in this folder or below it", "`x.parquet` in it is a Parquet file"]);
    }
    // Outputs that the program writes and cannot read are recognized.
    let mill = util::demo("mill");
    folder.run_with("convert -o written --force --to html", &[&mill]).ends(0, &[]);
    folder.run("print written").ends(1, &["a page that tracemill wrote"]);
}

/// The guide's commands name `demo`, which a program that was installed has elsewhere.
#[test]
fn installed_programs_say_where_the_demo_is() {
    let folder = Folder::new();
    folder.file("bin/nothing", "").file("share/tracemill/demo/nothing", "");
    let program = folder.path("bin/tracemill");
    let built = env!("CARGO_BIN_EXE_tracemill");
    if fs::hard_link(built, &program).is_err() {
        fs::copy(built, &program).expect("the folder can be written");
    }
    let output = Command::new(&program).args(["print", "demo/traces/mill"]).current_dir(folder.path("bin")).output();
    let place = folder.path("share/tracemill").canonicalize().expect("it is there");
    let help = format!("help: the demo is in `{}`: run the command in that folder", place.display());
    Run::from_output(output.expect("the program starts")).ends(1, &["there is no such file or folder", &help]);
}

#[test]
fn parts_that_are_missing_say_how_to_get_them() {
    if !cfg!(feature = "record") {
        run("record true")
            .ends(125, &["built without recording", "cargo build --release -p tracemill-cli --features record"]);
    }
    if cfg!(feature = "sql") {
        return;
    }
    let run =
        run("sql mill -c x").ends(1, &["built without SQL", "cargo build --release -p tracemill-cli --features sql"]);
    assert!(!run.stderr.contains("cargo install"), "nothing is published");
}

#[test]
fn options_that_name_missing_files_are_refused_though_no_trace_needs_them() {
    for command in ["print", "info", "check", "report --state x", "analyze cpu", "convert --to ctf2 -o out"] {
        for option in ["--key-file", "--passphrase-file", "--pointdefs", "--with-syms"] {
            let run = run(&format!("{command} {option} nowhere mill"));
            run.ends(2, &[&format!("{option} names `nowhere`: there is no such file or folder")]);
        }
    }
}
