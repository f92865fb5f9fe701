//! Failures while `tracemill convert` writes: status and message report them, and a half-written output never looks
//! whole.
#![cfg(unix)]

mod util;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use util::{Folder, Run, content, stdout};

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace).display().to_string()
}

/// All formats that a CTF trace can be written in.
fn targets() -> Vec<String> {
    let list: Value = serde_json::from_str(&stdout("formats --json", &[])).expect("it is JSON");
    let formats = list["formats"].as_array().expect("a list").iter();
    let written = formats.filter(|format| format["write"] == true);
    written.filter_map(|format| format["name"].as_str().map(str::to_string)).collect()
}

/// Names in a folder, also those that begin with a dot.
fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path(".")).expect("it is a folder").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_disk_that_is_full_is_told() {
    let folder = Folder::new();
    for to in targets() {
        // Files may have one block: the system refuses what comes after, as a full disk does.
        let script = format!("trap '' XFSZ; ulimit -f 1; exec \"$@\" convert --to {to} -o out {}", demo("mill"));
        let output = Command::new("sh")
            .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_tracemill")])
            .current_dir(folder.path("."))
            .stdin(Stdio::null())
            .output()
            .expect("sh starts");
        let run = Run::from_output(output);
        if run.code == Some(0) || run.stderr.contains("cannot hold") || run.stderr.contains("has no calls") {
            // An output of one block at most, or none at all, is not refused by the system.
            continue;
        }
        let run = run.ends(1, &["error: "]);
        assert!(run.stderr.contains("too large"), "{to}: {}", run.stderr);
        assert!(names(&folder).is_empty(), "{to}: {:?}", names(&folder));
    }
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let folder = Folder::new();
    for signal in ["INT", "TERM", "HUP"] {
        for milliseconds in [1, 4, 9, 17, 33, 60] {
            let mut child = util::command();
            child.current_dir(folder.path(".")).args(["convert", "--to", "ctf2", "-o", "new/out"]).arg(demo("mill"));
            let mut child = child.stderr(Stdio::null()).spawn().expect("the program starts");
            std::thread::sleep(Duration::from_millis(milliseconds));
            let _ = Command::new("kill")
                .args([format!("-{signal}"), child.id().to_string()])
                .stderr(Stdio::null())
                .status();
            let status = child.wait().expect("it ends");
            // A signal that comes before anybody listens ends the program as signals do, and one after the end nothing.
            if status.code().is_some() {
                assert!(matches!(status.code(), Some(0 | 130)), "{signal} {milliseconds}: {status}");
                let want: &[&str] = if status.code() == Some(0) { &["new"] } else { &[] };
                // The name may have been given when the signal came.
                assert!(names(&folder) == want || names(&folder) == ["new"], "{signal}: {:?}", names(&folder));
                assert_eq!(folder.path("new").exists(), folder.path("new/out").exists(), "{signal} {milliseconds}");
            }
            let _ = fs::remove_dir_all(folder.path("new"));
        }
    }
}

#[test]
fn a_kill_at_any_moment_leaves_no_half_target() {
    let folder = Folder::new();
    let mut seed = 11u64;
    for to in targets() {
        let mut whole = util::command();
        whole.current_dir(folder.path(".")).args(["convert", "-q", "--to", &to, "-o", "whole"]).arg(demo("mill"));
        if whole.output().expect("the program starts").status.code() != Some(0) {
            continue;
        }
        let want = content(&folder.path("whole"));
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut child = util::command();
            child.current_dir(folder.path(".")).args(["convert", "-q", "--force", "--to", &to, "-o", "out"]);
            let mut child = child.arg(demo("mill")).stderr(Stdio::null()).spawn().expect("the program starts");
            std::thread::sleep(Duration::from_micros(seed % 60_000));
            let _ = child.kill();
            child.wait().expect("it ends");
            if folder.path("out").exists() {
                assert!(content(&folder.path("out")) == want, "{to}");
            }
        }
        // Leftovers have names of their own, and a leftover folder is not a trace.
        for name in names(&folder).iter().filter(|name| name.ends_with(".part")) {
            if folder.path(name).is_dir() && content(&folder.path(name)) != want {
                folder.run_with("print -q", &[name]).ends(1, &[]);
            }
        }
        for name in names(&folder) {
            let path = folder.path(&name);
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

#[test]
fn a_target_that_vanishes_is_told_or_made_anew() {
    let folder = Folder::new();
    for milliseconds in [2, 5, 11, 19, 31, 47] {
        fs::create_dir_all(folder.path("below")).expect("a folder can be made");
        let mut child = util::command();
        child
            .current_dir(folder.path("."))
            .args(["convert", "-q", "--to", "ctf2", "-o", "below/out"])
            .arg(demo("mill"));
        let child = child.stderr(Stdio::piped()).spawn().expect("the program starts");
        std::thread::sleep(Duration::from_millis(milliseconds));
        let removed = fs::remove_dir_all(folder.path("below"));
        let run = Run::from_output(child.wait_with_output().expect("it ends"));
        match run.code {
            // The folder went away before it began, or after the end.
            Some(0) => {}
            _ => assert!(run.code == Some(1) && run.stderr.contains("below"), "{:?} {}", run.code, run.stderr),
        }
        // When it was renamed while its files were taken away, some of them are gone.
        if removed.is_ok() && folder.path("below/out").exists() {
            let lines =
                |trace: &str| folder.run_with("print -q --format csv --columns ns", &[trace]).ends(0, &[]).stdout;
            assert_eq!(lines("below/out"), lines(&demo("mill")));
        }
        let _ = fs::remove_dir_all(folder.path("below"));
    }
}

#[test]
fn what_a_killed_run_left_is_no_trace() {
    let folder = Folder::new();
    folder.copy_of("orders", "good").copy_of("orders", ".out.17.part");
    let said = "an output that was not finished: its writer was killed";
    folder.run("print -q .out.17.part").ends(1, &[said]);
    let run = folder.run("print .").ends(0, &[said]);
    assert_eq!(run.stdout, folder.run("print good").ends(0, &[]).stdout);
}

#[test]
fn what_is_lost_is_counted_and_refused_when_strict() {
    let folder = Folder::new();
    let (mut lossy, mut whole) = (0, 0);
    for trace in ["mill", "orders", "losses"] {
        for to in targets() {
            let run = folder.run_with(&format!("convert --to {to} --loss-report report -o out"), &[&demo(trace)]);
            if run.code != Some(0) {
                // It holds nothing of such a trace at all.
                assert!(run.code == Some(1) && !folder.path("out").exists(), "{trace} {to}: {}", run.stderr);
                continue;
            }
            let report = fs::read_to_string(folder.path("report")).expect("it was written");
            let report: Value = serde_json::from_str(&report).expect("it is JSON");
            let losses = report["losses"].as_array().expect("a list");
            for loss in losses {
                let said = format!("not kept in {to}: {} ({})", loss["kind"].as_str().unwrap_or(""), loss["count"]);
                assert!(run.stderr.contains(&said), "{trace} {to}: `{said}` is not in {}", run.stderr);
            }
            let written = content(&folder.path("out"));
            let _ = fs::remove_dir_all(folder.path("out"));
            let _ = fs::remove_file(folder.path("out"));
            let _ = fs::remove_file(folder.path("report"));
            let strict = folder.run_with(&format!("convert --strict --to {to} -o out"), &[&demo(trace)]);
            if losses.is_empty() {
                assert!(strict.code == Some(0), "{trace} {to}: {}", strict.stderr);
                assert!(content(&folder.path("out")) == written, "{trace} {to}");
                whole += 1;
            } else {
                // A loss that is known before the first event is enough to refuse.
                let strict = strict.ends(1, &["--strict forbids that"]);
                let mut kinds = losses.iter().filter_map(|loss| loss["kind"].as_str());
                assert!(kinds.any(|kind| strict.stderr.contains(kind)), "{trace} {to}: {}", strict.stderr);
                assert!(names(&folder).is_empty(), "{trace} {to}: {:?}", names(&folder));
                lossy += 1;
            }
            let _ = fs::remove_dir_all(folder.path("out"));
            let _ = fs::remove_file(folder.path("out"));
        }
    }
    assert!(lossy > 10 && whole > 10, "{lossy} {whole}");
}

/// Metadata of streams of bytes: `id`, `timestamp`, and packets that count what was discarded. `env` says what wrote it.
fn metadata_of_bytes(env: &str) -> String {
    format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 8; align = 8; signed = false; }} := u8;
        typealias integer {{ size = 8; align = 8; signed = false; map = clock.c.value; }} := t8;
        trace {{ major = 1; minor = 8; byte_order = le; }};
        {env}
        clock {{ name = c; freq = 1000000000; }};
        stream {{
            packet.context := struct {{
                u8 content_size; u8 packet_size; t8 timestamp_begin; t8 timestamp_end; u8 events_discarded;
            }};
            event.header := struct {{ u8 id; t8 timestamp; }};
        }};
        event {{ name = \"e\"; id = 0; }};"
    )
}

#[test]
fn events_may_have_been_lost_since_the_stored_end_of_the_packet_before() {
    let env = "env { tracer_name = \"lttng-modules\"; tracer_major = 2; tracer_minor = 8; tracer_patchlevel = 0; };";
    let packet = |begin, end, discarded| [72, 72, begin, end, discarded, 0, begin + 1, 0, end];
    let folder = Folder::new();
    folder.file("t/metadata", metadata_of_bytes(env));
    folder.file("t/s", [packet(10, 19, 0), packet(26, 32, 7)].concat());
    // These tracers may write events after the end of a packet, so it lasts until the next one.
    let run = folder.run("check t").ends(0, &[]);
    assert!(run.stdout.contains("7 events were discarded between 19 and 32 cycles"), "{}", run.stdout);
    assert!(!run.stdout.contains("outside"), "{}", run.stdout);
    folder.run("print t").ends(0, &["00.000000019] and [1970-01-01 00:00:00.000000032]"]);
}

#[test]
fn errors_of_one_kind_and_losses_of_one_stream_are_reported_together() {
    // Each packet loses two events, and has one that cannot be decoded.
    let packet = |at: u8| [72, 72, at * 10, at * 10 + 9, at * 2, 0, at * 10 + 1, 7, at * 10 + 2];
    let folder = Folder::new();
    folder.file("t/metadata", metadata_of_bytes(""));
    folder.file("t/s", (1..=5).map(packet).collect::<Vec<_>>().concat());
    let together = [
        "error: t/s: byte 7, packet 0: no event class has the id 7",
        "error: 4 more of this kind, the last one: t/s: byte 43, packet 4: no event class has the id 7",
        "10 events discarded by the tracer in 5 gaps between [1970-01-01 00:00:00.000000010] and \
         [1970-01-01 00:00:00.000000059] in trace `t`",
    ];
    let run = folder.run("print t").ends(3, &together);
    assert_eq!(run.stderr.lines().filter(|line| !line.starts_with("  ")).count(), 3, "{}", run.stderr);
    let run = folder.run("print --verbose t").ends(3, &["packet 2: ", "2 events discarded by the tracer between "]);
    assert_eq!(run.stderr.lines().filter(|line| !line.starts_with("  ")).count(), 10, "{}", run.stderr);
    assert_eq!(folder.run("check t").stdout.lines().filter(|line| line.contains("no event class")).count(), 5);
    // Two of them are both shown.
    folder.file("t/s", (1..=2).map(packet).collect::<Vec<_>>().concat());
    let run = folder.run("print -q t").ends(3, &["packet 0: ", "error: t/s: byte 16, packet 1: "]);
    assert!(!run.stderr.contains("more of"), "{}", run.stderr);
}
