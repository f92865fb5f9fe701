//! `tracemill record` of processes that outlive the program they came from: none of their calls is lost, however they were
//! made, and whoever waits for them is told so.

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

/// A child that this process has from before it became the recorder is nobody's descendant: recording does not wait for it.
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
