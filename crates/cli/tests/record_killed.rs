//! `tracemill record` of function calls, when the recorder or the program is killed.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::fs;
use std::process::Command;
use std::time::Duration;

use recorded::*;
use util::{Folder, command};

#[test]
fn calls_survive_a_kill_of_the_program() {
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 100 } else { 4 };
    for round in 0..rounds {
        let folder = Folder::new();
        let Some(_) = compile(&folder, "counter.c", WAYS[round % 3], "program") else { return };
        fs::write(folder.path("kill"), "#!/bin/sh\n").expect("a file");
        let mut recorder = command();
        recorder.current_dir(folder.path("")).args(["record", "-o", "o", "./program", "counter"]);
        let mut recorder = recorder.spawn().expect("it runs");
        wait_for("a call", || counted(&folder) > 100);
        std::thread::sleep(Duration::from_micros(500 + 700 * round as u64));
        let tasks = fs::read_to_string(folder.path("o/task.txt")).expect("tasks");
        let pid = tasks.split("pid=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a process").to_string();
        assert!(Command::new("kill").args(["-9", &pid]).status().expect("it runs").success());
        assert_eq!(recorder.wait().expect("it ends").code(), Some(137));
        let (kept, counted) = (entries(&folder, "leaf") as u64, counted(&folder));
        assert!(kept == counted || kept == counted + 1, "round {round}: {kept} calls, {counted} counted");
    }
}

#[test]
fn a_recorder_that_is_killed_leaves_what_can_be_recovered() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "-o", "o", "./program", "counter", "400000"]);
    let mut recorder = recorder.spawn().expect("it runs");
    wait_for("a call", || counted(&folder) > 20_000);
    recorder.kill().expect("it can be killed");
    recorder.wait().expect("it is over");
    // The program goes on without it, to its end.
    wait_for("the end", || counted(&folder) == 400_000);
    wait_for("recovery", || ours(&folder, &["record", "--recover", "o"]).status.success());
    // The content of the rings is there: all calls up to some call, and none twice.
    let kept = entries(&folder, "leaf");
    assert!((20_000..=400_000).contains(&kept), "{kept}");
    is_read_alike(&folder, &["replay", "report", "graph", "dump"], "recovered");
    assert!(!folder.path("o/.ring").exists());
}

#[test]
fn a_killed_recorder_leaves_what_is_needed_for_values() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg -g", "program") else { return };
    for option in [&["-A", "leaf@arg1/p"][..], &["-a", "--srcline"]] {
        let _ = fs::remove_file(folder.path("counter"));
        let mut recorder = command();
        recorder.current_dir(folder.path("")).args(["record", "-o", "o"]).args(option);
        let mut recorder = recorder.args(["./program", "counter", "60000"]).spawn().expect("it runs");
        wait_for("a call", || counted(&folder) > 100);
        recorder.kill().expect("it can be killed");
        recorder.wait().expect("it is over");
        wait_for("the end", || counted(&folder) == 60_000);
        wait_for("recovery", || ours(&folder, &["record", "--recover", "o"]).status.success());
        is_read_alike(&folder, &["replay", "report", "graph", "dump"], option[0]);
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none"]);
        assert!(String::from_utf8_lossy(&replay.stdout).contains("leaf(0x7"), "{option:?}");
        assert!(!folder.path("o/.recording").exists());
    }
}

/// The next recorder finishes recordings that are left, and somebody may do so by hand at that moment: one of them does.
#[test]
fn a_recording_is_finished_by_one_process_at_a_time() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    // In a folder of its own: recorders of other tests do not find it.
    fs::create_dir(folder.path("rings")).expect("a folder");
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "-o", "o", "--ring-dir", "rings"]);
    let mut recorder = recorder.args(["./program", "counter", "60000"]).spawn().expect("it runs");
    wait_for("a call", || counted(&folder) > 100);
    recorder.kill().expect("it can be killed");
    recorder.wait().expect("it is over");
    wait_for("the end", || counted(&folder) == 60_000);
    let rings = fs::File::open(folder.path("o/.ring")).expect("the rings are there");
    rings.lock().expect("nobody else uses them");
    let recover = || ours(&folder, &["record", "--recover", "o"]);
    let refused = recover();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another process finishes it now"), "{refused:?}");
    assert!(folder.path("o/.recording").exists());
    drop(rings);
    wait_for("recovery", || recover().status.success());
    assert!(!folder.path("o/.recording").exists());
    is_read_alike(&folder, &["replay"], "finished once");
}
