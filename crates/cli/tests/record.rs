//! `tracemill record`: what it refuses, and rings that a recorder left.
#![cfg(all(feature = "record", target_os = "linux"))]

mod util;

use std::fs;
use std::path::Path;
use std::process::Command;

use tracemill_record::{Format, Recorder, event, span};
use util::{Folder, command, run};

const UUID: [u8; 16] = [7; 16];

/// A packet with one event at each time, whose field `i` is the time's place in the list.
fn packet(ring: u64, sequence: u64, times: &[u64], size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let mut at = 0;
    let mut put = |value: &[u8]| {
        bytes[at..at + value.len()].copy_from_slice(value);
        at += value.len();
    };
    put(&0xC1FC_1FC1_u32.to_le_bytes());
    put(&UUID);
    put(&[0; 4]);
    let content = 96 + times.len() as u64 * 16;
    for value in [ring, times[0], times[times.len() - 1], content * 8, size as u64 * 8, sequence, 0, 0, 0] {
        put(&value.to_le_bytes());
    }
    for (i, time) in times.iter().enumerate() {
        put(&time.to_le_bytes());
        put(&(i as u64).to_le_bytes());
    }
    bytes
}

/// A ring with slots of 4096 bytes.
fn ring(mode: u64, done: u64, taken: u64, slots: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(b"TMRING1\0");
    bytes[72..88].copy_from_slice(&UUID);
    let header = [(8, 1), (16, 4096), (24, slots.len() as u64), (32, done), (40, taken), (56, 0xffff_fff0), (88, mode)];
    for (at, value) in header {
        bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
    }
    slots.iter().for_each(|slot| bytes.extend_from_slice(slot));
    bytes
}

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 8; align = 8; signed = false; } := u8;
trace { major = 1; minor = 8; uuid = \"07070707-0707-0707-0707-070707070707\"; byte_order = le;
	packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; }; };
clock { name = cycles; freq = 1000000000; offset_s = 0; offset = 0; absolute = true; };
typealias integer { size = 64; align = 8; signed = false; map = clock.cycles.value; } := time64;
stream { id = 0; packet.context := struct { time64 timestamp_begin; time64 timestamp_end; u64 content_size;
	u64 packet_size; u64 packet_seq_num; u64 events_discarded; u64 monotonic; u64 who; };
	event.header := struct { time64 timestamp; }; };
event { name = \"tick\"; id = 0; stream_id = 0; fields := struct { u64 i; }; };
";

/// A trace in a new folder, with a stream file and a ring.
fn trace(stream: &[u8], ring: &[u8]) -> Folder {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("t/.ring")).expect("a folder");
    folder.file("t/metadata", METADATA).file("t/stream_0", stream).file("t/.ring/0.ring", ring);
    folder
}

/// The times of the events, in cycles; no error is reported.
fn times(folder: &Folder) -> Vec<String> {
    let run = folder.run("print -q --clock-cycles --no-delta t").ends(0, &[]);
    assert_eq!(run.stderr, "");
    run.stdout.lines().map(|line| line[1..21].trim_start_matches('0').to_string()).collect()
}

#[test]
fn packets_of_a_stream_are_moved_once() {
    // The third packet was being moved; the second one is moved, and not yet counted.
    let slots = [packet(0, 2, &[30, 31], 4096), packet(0, 1, &[20], 4096)];
    let stream = [packet(0, 0, &[10], 112), packet(0, 1, &[20], 112), slots[0][..100].to_vec()].concat();
    let folder = trace(&stream, &ring(1, 2, 1, &slots));
    assert_eq!(times(&folder), ["10", "20", "30", "31"]);
    folder.run("print t").ends(0, &["has not finished recording: 1 ring is read as it is", "record --recover t"]);
    folder.run("record --snapshot t -o copy").ends(0, &["copy: 1 packets were in rings"]);
    folder.run("record --recover t").ends(0, &["t: 1 packets were in rings"]);
    assert!(!folder.path("t/.ring").exists());
    assert_eq!(times(&folder), ["10", "20", "30", "31"]);
    let moved = fs::read(folder.path("t/stream_0")).expect("the stream");
    let expected = [packet(0, 0, &[10], 112), packet(0, 1, &[20], 112), packet(0, 2, &[30, 31], 128)].concat();
    assert_eq!(moved, expected);
    assert_eq!(fs::read(folder.path("copy/stream_0")).expect("the stream"), expected);
    folder.run("record --recover t").ends(2, &["there are no rings"]);
}

#[test]
fn slots_that_cannot_be_are_left_out_and_named() {
    // Of another trace; larger than a slot; too old; just begun; sound.
    let mut slots: Vec<_> = (0..5).map(|k| packet(0, 5 + k, &[k + 1], 4096)).collect();
    slots[0][4] = 8;
    slots[1][55] = 1;
    slots[2][64] = 2;
    slots[3][64..72].fill(0xff);
    let folder = trace(&[], &ring(2, 9, 0, &slots));
    let run = folder.run("print -v --clock-cycles --no-delta t");
    let run = run.ends(3, &["slot 0 at byte 4096", "slot 1 at byte 8192", "slot 2 at byte 12288 is left out"]);
    assert!(run.stdout.lines().count() == 1 && !run.stderr.contains("slot 3"), "{} {}", run.stdout, run.stderr);
    folder
        .run("record --recover t")
        .ends(3, &["t: 1 packets", "ring 0: slot 2 at byte 12288 is left out: its number 2"]);
}

#[test]
fn what_is_no_ring_is_reported() {
    let folder = trace(&[], b"TMRING1\0");
    folder.run("print t").ends(3, &[".ring/0.ring: it does not begin with the header of a ring"]);
    let mut odd = ring(2, 0, 0, &[]);
    odd[24..32].fill(0xff);
    let folder = trace(&[], &odd);
    folder.run("print t").ends(3, &["slots of 4096 bytes are not in a file of 4096 bytes"]);
}

/// A program that is killed, or becomes one that does not record, leaves rings: they are finished, and it is said. Of others
/// nothing is touched, nor what was there before, nor what is just begun.
#[test]
fn what_a_program_leaves_is_finished() {
    let folder =
        trace(&packet(0, 0, &[10], 112), &ring(1, 1, 1, &[packet(0, 0, &[10], 4096), packet(0, 1, &[20], 4096)]));
    folder.file(
        "script",
        "#!/bin/sh\n# TRACEMILL_RECORD_MODE\nfor end in '' .2 .x; do cp -r t $TRACEMILL_RECORD$end; done\n\
            mkdir -p $TRACEMILL_RECORD.3/.ring\n",
    );
    assert!(
        Command::new("cp").args(["-r", "t", "o.4"]).current_dir(folder.path("")).status().expect("it runs").success()
    );
    let script = folder.path("script");
    for end in ["kill -9 $$\n", "exec true\n"] {
        let text = fs::read_to_string(&script).expect("it is there").replace("kill -9 $$\n", "");
        folder.file("script", text + end);
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it can be run");
        let run = folder.run("record -o o ./script").ends(if end.starts_with("kill") { 137 } else { 0 }, &[]);
        for name in ["o", "o.2"] {
            let path = folder.path(name).display().to_string();
            let said = format!("{path}: the program did not finish it, it is now\n{path}: 1 packets were in rings\n");
            assert!(run.stderr.contains(&said), "{}", run.stderr);
            let read = folder.run(&format!("print -q --clock-cycles --no-delta {name}")).ends(0, &[]);
            assert_eq!((read.stdout.lines().count(), &*read.stderr), (2, ""));
        }
        for name in ["o.x", "t", "o.3", "o.4"] {
            assert!(folder.path(name).join(".ring").is_dir(), "{name}: {}", run.stderr);
        }
        for name in ["o", "o.2", "o.x", "o.3"] {
            fs::remove_dir_all(folder.path(name)).expect("it is removed");
        }
    }
}

#[test]
fn programs_that_cannot_be_recorded_are_refused() {
    run("record /bin/true")
        .ends(125, &["/bin/true: nothing of the program can be recorded: it is neither instrumented"]);
    run("record there-is-no-such-program").ends(125, &["there is no such program"]);
    run("record").ends(2, &["required"]);
    run("record --snapshot x").ends(2, &["--output"]);
}

#[test]
fn the_status_of_a_program_is_ours() {
    // A shell that reads a script has the mark of a recorder in its script only: a program of our own would need a build.
    let folder = Folder::new();
    folder
        .file("script", "#!/bin/sh\n# TRACEMILL_RECORD_MODE\necho $TRACEMILL_RECORD $TRACEMILL_RECORD_MODE\nexit 7\n");
    let script = folder.path("script");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it can be run");
    let run = folder.run("record -o run.ctf --mode block ./script").ends(7, &[]);
    assert_eq!(run.stdout, format!("{} block\n", folder.path("run.ctf").display()));
    folder.file("script", "#!/bin/sh\n# TRACEMILL_RECORD_MODE\nkill -9 $$\n");
    folder.run("record -o run.ctf ./script").ends(137, &[]);
    folder.file("run.ctf", "");
    folder.run("record -o run.ctf ./script").ends(125, &["the folder of the trace exists"]);
    assert!(command().args(["record", "--help"]).output().expect("it runs").status.success());
}

/// One recorder a process at a time.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Spans with numbers, as those of the crate `tracing`: two tasks that take turns in two threads.
#[test]
fn spans_have_times_from_the_first_entry_to_the_close() {
    use tracemill_record::{CallHalf, Site};
    static ENTRY: Site = Site::new("app", "task", CallHalf::Entry, &["span_id", "parent_span_id"]);
    static EXIT: Site = Site::new("app", "task", CallHalf::Exit, &["span_id"]);
    static CLOSE: Site = Site::new("app", "task_close", CallHalf::None, &["span_id"]);
    let poll = |id: u64, ms: u64| {
        ENTRY.record(|| (id, 0_u64));
        std::thread::sleep(std::time::Duration::from_millis(ms));
        EXIT.record(|| (id,));
    };
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = Folder::new();
    for (format, name) in [(Format::Ctf2, "new"), (Format::Ctf18, "old")] {
        let recorder = Recorder::options(folder.path(name)).format(format).start().expect("it starts");
        for id in 1..=3 {
            poll(id, 1);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=3).for_each(|id| poll(id, 20)));
        });
        // The third one is never closed.
        CLOSE.record(|| (2_u64,));
        CLOSE.record(|| (1_u64,));
        recorder.finish().expect("it finishes");
        if format == Format::Ctf18 {
            // Which classes are calls is not said in this dialect.
            folder.run(&format!("report {name}")).ends(1, &["the trace has no function calls"]);
            continue;
        }
        let run = folder.run(&format!("report {name} --format json")).ends(0, &[]);
        let report: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        let span = &report["spans"][0];
        assert_eq!((&span["name"], &span["spans"], &span["unclosed"]), (&"app:task".into(), &2.into(), &1.into()));
        let ms = |value: &serde_json::Value| value.as_u64().expect("a time") / 1_000_000;
        let (open, polls) = (ms(&span["open_ns"]["total"]), ms(&span["in_polls_ns"]));
        // Each was open while the others were polled.
        assert!(open >= 2 * 60 && (2 * 21..open).contains(&polls), "{}", run.stdout);
        let text = folder.run(&format!("report {name}")).ends(0, &[]).stdout;
        assert!(
            text.contains("  Span, from its first entry to its close\n")
                && text.contains("           2           1  app:task\n"),
            "{text}"
        );
        folder.run(&format!("report {name} -F app:task")).ends(0, &["times of spans from entry to close are left out"]);
    }
}

/// Records nested spans of two threads, the second of which may get the ring of the first one.
#[test]
fn spans_are_calls() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = Folder::new();
    let work = |item: u32| {
        let _outer = span!(target: "app", "outer", item = item);
        for i in 0..2_u8 {
            let _inner = span!(target: "app", "inner", i = i);
            event!(target: "app", "note", text = "in between");
        }
    };
    for (format, name) in [(Format::Ctf2, "new"), (Format::Ctf18, "old")] {
        let recorder = Recorder::options(folder.path(name)).format(format).start().expect("it starts");
        work(1);
        std::thread::spawn(move || work(2)).join().expect("it ends");
        recorder.finish().expect("it finishes");
    }
    folder.run("convert --to ctf2 -o again new").ends(0, &[]);
    for trace in ["new", "again"] {
        let thread = ["app:outer() {", "  app:inner();", "  app:inner();", "} /* app:outer */"];
        let replay = folder.run(&format!("replay -f none {trace}")).ends(0, &[]).stdout;
        let lines: Vec<_> = replay.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        assert_eq!(lines, [thread, thread].concat(), "{replay}");
        let report = folder.run(&format!("report -f call {trace}")).ends(0, &[]).stdout;
        let calls: Vec<_> = report.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert!(calls.contains(&vec!["4", "app:inner"]) && calls.contains(&vec!["2", "app:outer"]), "{report}");
        let graph = folder.run(&format!("graph {trace}")).ends(0, &[]).stdout;
        assert!(graph.contains("app:inner"), "{graph}");
        let flame = folder.run(&format!("flame {trace}")).ends(0, &[]).stdout;
        assert!(flame.contains("app:outer") && flame.contains("app:inner"), "{flame}");
        #[cfg(feature = "sql")]
        spans_have_fields(&folder, trace);
    }
    // The other dialect cannot say it.
    folder.run("replay old").ends(1, &["the trace has no function calls"]);
}

/// The fields of spans are the arguments of their calls.
#[cfg(feature = "sql")]
fn spans_have_fields(folder: &Folder, trace: &str) {
    let asked = |words: &[&str], of: &str| {
        let sql = format!("select name, args, retval, dur is not null as ends from calls {of} order by args");
        let mut command = command();
        command.current_dir(folder.path("")).args(["sql", "--format", "csv", trace, "-c", &sql]).args(words);
        util::Run::from_output(command.output().expect("it runs")).ends(0, &[]).stdout
    };
    let inner = |i: u8| format!("app:inner,\"{{\"\"i\"\":{i}}}\",,true\n");
    let outer = |item: u8| format!("app:outer,\"{{\"\"item\"\":{item}}}\",,true\n");
    let rows = [inner(0), inner(0), inner(1), inner(1), outer(1), outer(2)].concat();
    assert_eq!(asked(&[], ""), format!("name,args,retval,ends\n{rows}"));
    // Others than those of the selection are not looked for.
    let of_item = asked(&["--filter", "payload.item == 2"], "where name = 'app:outer'");
    assert_eq!(of_item, format!("name,args,retval,ends\n{}", outer(2).replace("true", "false")));
}

/// A section of the page, without its heading.
fn section(heading: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/record.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).expect("the section");
    rest.split("\n## ").next().unwrap_or_default().to_string()
}

/// Runs the commands of a text, which are this program's among others; gives what they print.
fn run_commands(folder: &Folder, text: &str, count: usize) -> String {
    let ours = Path::new(env!("CARGO_BIN_EXE_tracemill")).parent().expect("a folder");
    let path = format!("{}:{}", ours.display(), std::env::var("PATH").unwrap_or_default());
    let commands: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert_eq!(commands.len(), count, "{commands:?}");
    let mut printed = String::new();
    for line in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PATH", &path).env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
        let output = shell.current_dir(folder.path("")).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{line}: {text}{}", String::from_utf8_lossy(&output.stderr));
        printed.push_str(&text);
    }
    printed
}

#[test]
fn the_commands_for_a_rust_program_work() {
    let section = section("Events of a Rust program");
    let (before, rest) = section.split_once("```rust\n").expect("a program");
    assert!(before.contains("`cargo new app`") && before.contains("`main.rs`"), "{before}");
    let (program, rest) = rest.split_once("```\n").expect("its end");
    let (commands, _) = rest.split_once("\nMore of the interface").expect("the commands end");
    let folder = Folder::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    std::os::unix::fs::symlink(root, folder.path("tracemill")).expect("a link");
    run_commands(&folder, "    cargo new --quiet app\n", 1);
    folder.file("app/src/main.rs", program);
    let printed = run_commands(&folder, commands, 4);
    assert!(printed.contains(" 100  app:part") && printed.contains(" 10  app:round"), "{printed}");
    let picture = fs::read_to_string(folder.path("app/spans.svg")).expect("a flame graph");
    assert!(picture.contains("app:round") && picture.contains("app:part"));
}

#[test]
fn the_commands_for_the_kernel_work() {
    let section = section("Events of the kernel");
    let (commands, _) = section.split_once("\n`trace.dat` is").expect("the commands end");
    let folder = Folder::new();
    let recorded = folder.run("record -E sched -o probe.dat true");
    if recorded.code == Some(125) {
        assert!(recorded.stderr.contains("kernel events cannot be recorded"), "{}", recorded.stderr);
        return eprintln!("left out: {}", recorded.stderr);
    }
    run_commands(&folder, commands, 4);
    let picture = fs::read_to_string(folder.path("syscalls.svg")).expect("a flame graph");
    assert!(picture.contains("sys_getdents64"), "{picture}");
}
