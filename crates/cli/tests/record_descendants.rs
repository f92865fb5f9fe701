//! `tracemill record` of processes that outlive the program they came from: none of their calls is lost, however they were
//! made, and the wait for them is reported.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use recorded::*;
use util::{Folder, command};

/// Programs that keep all processors busy until they are dropped.
struct Load(Vec<Child>);

impl Load {
    fn begin() -> Load {
        let cpus = std::thread::available_parallelism().map_or(2, |cpus| cpus.get());
        let burn = |_| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).spawn().expect("there is a shell")
        };
        Load((0..cpus * 2).map(burn).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Every way in which a process comes from another one; the number of calls of `fib(15)` is always the same.
#[test]
fn processes_that_outlive_the_program_are_recorded_however_they_are_made() {
    let folder = Folder::new();
    let _load = Load::begin();
    let ways = [
        "fork",
        "raw",
        "raw-exec",
        "sibling",
        "clone",
        "vfork",
        "spawn",
        "bare-exec",
        "daemon",
        "shell",
        "chain",
        "closed",
    ];
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 30 } else { 2 };
    for flags in ["-pg -O1", "-pg -mfentry -O1", "-finstrument-functions -O1"] {
        let Some(_) = compile(&folder, "outlives.c", flags, "program") else { return };
        for (round, way) in (0..rounds).flat_map(|round| ways.map(|way| (round, way))) {
            let run = folder.run(&format!("record -o o ./program {way}")).ends(0, &[]);
            assert_eq!(entries(&folder, "fib"), 1973, "{flags} {way}, round {round}: {}", run.stderr);
        }
    }
}

/// With `--keep-pid` the recorder is no ancestor of them: it finds them by their environment.
#[test]
fn processes_that_outlive_a_program_that_keeps_its_id_are_recorded() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "outlives.c", "-pg -O1", "program") else { return };
    for way in ["fork", "raw", "clone", "vfork", "spawn", "daemon", "chain", "closed"] {
        let _ = fs::remove_dir_all(folder.path("o"));
        let mut recorder = command();
        recorder.current_dir(folder.path("")).args(["record", "--keep-pid", "-o", "o", "./program", way]);
        assert_eq!(recorder.status().expect("it runs").code(), Some(0));
        wait_for("the end of the recording", || folder.path("o/info").is_file() && !folder.path("o/.ring").exists());
        assert_eq!(entries(&folder, "fib"), 1973, "{way}");
    }
}

/// The system shows a process whose first thread has ended as one that has ended.
#[test]
fn threads_that_outlive_the_first_one_are_recorded() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "leader.c", "-pg -O1", "program") else { return };
    for option in ["", "--keep-pid"] {
        let _ = fs::remove_dir_all(folder.path("o"));
        folder.run(&format!("record {option} -o o ./program")).ends(0, &[]);
        wait_for("the end of the recording", || folder.path("o/info").is_file() && !folder.path("o/.ring").exists());
        assert_eq!(entries(&folder, "step"), 1000, "{option}");
    }
}

/// A child that this process has from before it became the recorder is not a descendant of the program: recording does
/// not wait for it.
#[test]
fn children_of_a_shell_that_becomes_the_recorder_are_not_waited_for() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "outlives.c", "-pg -O1", "program") else { return };
    let shell = format!("sleep 100 & echo $!; exec {} record -o o ./program daemon", env!("CARGO_BIN_EXE_tracemill"));
    let mut shell = Command::new("sh").args(["-c", &shell]).current_dir(folder.path("")).stdout(Stdio::piped()).spawn();
    let shell = shell.as_mut().expect("there is a shell");
    let mut sleeper = [0; 16];
    let len = shell.stdout.take().expect("a pipe").read(&mut sleeper).expect("a number");
    assert_eq!(shell.wait().expect("it ends").code(), Some(0));
    assert_eq!(entries(&folder, "fib"), 1973);
    let sleeper = String::from_utf8_lossy(&sleeper[..len]).trim().to_string();
    assert!(Command::new("kill").arg(&sleeper).status().expect("it runs").success(), "it went on");
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().expect("it runs").success());
}

/// A daemon that never ends is recorded until an interrupt, which is said; what it did until then is there.
#[test]
fn an_interrupt_ends_the_recording_of_a_daemon() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "outlives.c", "-pg -O1", "program") else { return };
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "-o", "o", "./program", "forever"]);
    let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stderr = recorder.stderr.take().expect("a pipe");
    let mut said = String::new();
    let mut bytes = [0; 1024];
    while !said.contains('\n') {
        let len = stderr.read(&mut bytes).expect("it says something");
        assert!(len > 0, "{said}");
        said.push_str(&String::from_utf8_lossy(&bytes[..len]));
    }
    assert!(said.starts_with("o: the program has ended, 1 process goes on that it started: "), "{said}");
    assert!(said.contains("(program); recording waits for the end, an interrupt (Ctrl-C) stops it now\n"), "{said}");
    let daemon =
        said.split("started: ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
    signal("-INT", recorder.id());
    assert_eq!(recorder.wait().expect("it ends").code(), Some(0));
    said.clear();
    stderr.read_to_string(&mut said).expect("it says something");
    let expected = format!(
        "o: recording was interrupted; 1 process goes on that the program started, without being recorded: {daemon} (program)\n"
    );
    assert_eq!(said, expected);
    // It is not held up by a recorder that is gone.
    std::thread::sleep(Duration::from_millis(100));
    signal("-KILL", daemon);
    assert!(entries(&folder, "fib") > 5 * 100, "{}", entries(&folder, "fib"));
    is_read_alike(&folder, &["replay", "graph", "dump"], "a daemon");
    let left = fs::read_dir(folder.path("o")).expect("the folder").flatten().map(|entry| entry.file_name());
    assert!(!left.into_iter().any(|name| name == ".ring" || name == "libtracemill_calls.so"));
}

/// Rings that are not used any more are finished and removed by the next recording; those in use are left alone.
#[test]
fn rings_that_a_killed_recorder_left_are_gone_with_the_next_recording() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "counter.c", "-pg", "program") else { return };
    fs::create_dir(folder.path("rings")).expect("a folder");
    let rings = || fs::read_dir(folder.path("rings")).expect("the folder").count();
    let start = |output: &str, counter: &str| {
        // Removed, so that the processes it names are those of this run.
        let _ = fs::remove_dir_all(folder.path(output));
        let mut recorder = command();
        recorder.current_dir(folder.path("")).args([
            "record",
            "--no-libcall",
            "-o",
            output,
            "--ring-dir",
            "rings",
            "./program",
            counter,
        ]);
        let recorder = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let tasks = folder.path(output).join("task.txt");
        let is_there = || fs::read_to_string(&tasks).is_ok_and(|text| text.contains("TASK "));
        for _ in 0..12_000 {
            if is_there() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        let tasks = fs::read_to_string(&tasks).expect("tasks");
        let program: u32 =
            tasks.split(" pid=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
        (recorder, program)
    };
    let kill = |(recorder, program): &mut (Child, u32), with_program: bool| {
        recorder.kill().expect("it can be killed");
        recorder.wait().expect("it is over");
        if with_program {
            signal("-KILL", *program);
            while fs::read_to_string(format!("/proc/{program}/stat")).is_ok_and(|stat| !stat.contains(") Z")) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    };
    let record = "record --no-libcall -v -o third --ring-dir rings ./program c3 5";
    let (mut first, mut second) = (start("first", "c1"), start("second", "c2"));
    assert_eq!(rings(), 2);
    kill(&mut first, true);
    kill(&mut second, false);
    let run = folder.run(record).ends(0, &["first: its recorder was killed; it is finished now: "]);
    assert!(!run.stderr.contains("second"), "a process uses its rings: {}", run.stderr);
    assert_eq!(rings(), 1);
    assert!(calls(&folder, "first") > 1, "nothing is lost");
    folder.run("record --recover first").ends(0, &["first: nothing is left in rings: the recording is finished"]);
    signal("-KILL", second.1);
    while fs::read_to_string(format!("/proc/{}/stat", second.1)).is_ok_and(|stat| !stat.contains(") Z")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The folder is gone: so are the rings.
    fs::remove_dir_all(folder.path("second")).expect("it is removed");
    folder.run(record).ends(0, &["rings of a recording whose folder is gone were removed"]);
    assert_eq!(rings(), 0);
    // One of the name of the new one becomes `.old`, and is finished before.
    let mut fourth = start("third", "c4");
    kill(&mut fourth, true);
    folder.run(record).ends(0, &["third: its recorder was killed; it is finished now: "]);
    assert_eq!((rings(), calls(&folder, "third")), (0, 1));
    assert!(calls(&folder, "third.old") > 1);
}
