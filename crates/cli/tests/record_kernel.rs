//! `tracemill record -E`: the commands of docs/record.md on the kernel of this machine, where its tracer can be used; and
//! what is said where it cannot.
#![cfg(all(feature = "record", target_os = "linux"))]

mod util;

use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use util::{Folder, command};

/// One recording at a time: each that begins removes what dead recorders left.
static ONE: Mutex<()> = Mutex::new(());

fn lock() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ours(folder: &Folder, arguments: &[&str]) -> Output {
    command().current_dir(folder.path("")).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn events_of_the_kernel_are_recorded_and_analysed() {
    let _one = lock();
    let folder = Folder::new();
    let wanted = ["-E", "sched", "-E", "irq", "-E", "syscalls:sys_enter_*"];
    let recorded = ours(&folder, &[&["record"][..], &wanted, &["sh", "-c", "exit 5"]].concat());
    let said = text(&recorded.stderr);
    if recorded.status.code() == Some(125) {
        assert!(
            said.contains("kernel events cannot be recorded") || said.contains("this kernel has no event"),
            "{said}"
        );
        eprintln!("left out: {said}");
        return;
    }
    assert_eq!(recorded.status.code(), Some(5), "{said}");
    let cpu = ours(&folder, &["analyze", "cpu", "trace.dat"]);
    assert!(cpu.status.success(), "{}", text(&cpu.stderr));
    let lines = ours(&folder, &["print", "trace.dat"]);
    assert!(lines.status.success(), "{}", text(&lines.stderr));
    let lines = text(&lines.stdout);
    assert!(lines.contains("sched_process_exec") && lines.contains("sys_enter_exit_group"), "{lines}");
    let left = fs::read_dir(folder.path("")).expect("a folder").flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["trace.dat"]);
    let converted = ours(&folder, &["record", "-E", "sched", "--to", "ctf2", "-o", "out", "true"]);
    assert_eq!(converted.status.code(), Some(0), "{}", text(&converted.stderr));
    assert!(ours(&folder, &["check", "out"]).status.success());
}

/// A page is not full for hours where events are rare.
#[test]
fn rare_events_are_followed_before_their_page_is_full() {
    let _one = lock();
    let folder = Folder::new();
    assert!(Command::new("mkfifo").arg(folder.path("go")).status().expect("it runs").success());
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "-E", "sched:sched_process_exec", "-o", "t.dat"]);
    // The shell reads by itself: nothing is executed after `true`.
    recorder.args(["sh", "-c", "true; /bin/true; read line <go; exit 0"]);
    let mut recorder = recorder.stderr(std::process::Stdio::piped()).spawn().expect("it runs");
    let parts = folder.path(".t.dat.parts");
    let ended = loop {
        if let Some(status) = recorder.try_wait().expect("it can be asked") {
            break Some(status);
        }
        if parts.exists() || folder.path("t.dat").exists() {
            break None;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    if let Some(status) = ended {
        assert_eq!(status.code(), Some(125));
        let said = text(&recorder.wait_with_output().expect("it ended").stderr);
        assert!(said.contains("kernel events cannot be recorded") || said.contains("has no event"), "{said}");
        eprintln!("left out: {said}");
        return;
    }
    let followed = ours(&folder, &["print", "--follow", "--for", "100s", "--limit", "2", "t.dat"]);
    let lines = text(&followed.stdout);
    assert_eq!(lines.lines().filter(|line| line.contains("sched_process_exec")).count(), 2, "{lines}");
    assert!(recorder.try_wait().expect("it can be asked").is_none(), "the program waits until it is told");
    fs::write(folder.path("go"), "on\n").expect("it is read");
    assert_eq!(recorder.wait().expect("it ends").code(), Some(0));
    let whole = ours(&folder, &["print", "t.dat"]);
    assert!(text(&whole.stdout).lines().count() >= 2, "{}", text(&whole.stderr));
}

#[test]
fn what_is_missing_is_said() {
    let folder = Folder::new();
    let mut command = command();
    command.current_dir(folder.path("")).env("TRACEMILL_TRACEFS", folder.path(""));
    let output = command.args(["record", "-E", "sched", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("the folder is not a tracefs"), "{}", text(&output.stderr));
    let without = ours(&folder, &["record", "--all-tasks", "true"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("--event"), "{}", text(&without.stderr));
}

/// Functions of the kernel, where it can tell them to an instance; where it cannot, the reason.
#[test]
fn functions_of_the_kernel_are_recorded_or_refused() {
    let _one = lock();
    let folder = Folder::new();
    if !has_nap(&folder) {
        return;
    }
    for options in [&["-k"][..], &["-K", "2"]] {
        let recorded = ours(&folder, &[&["record", "-o", "o"], options, &["./nap"]].concat());
        let said = text(&recorded.stderr);
        if recorded.status.code() == Some(125) {
            let reasons = ["functions of the kernel cannot be recorded: ", "kernel events cannot be recorded: "];
            assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
            assert!(!folder.path("o").exists());
            continue;
        }
        assert_eq!((recorded.status.code(), &*said), (Some(6), ""));
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none"]);
        assert_eq!((replay.status.code(), text(&replay.stderr)), (Some(0), String::new()));
        assert!(text(&replay.stdout).contains("nanosleep"), "{}", text(&replay.stdout));
    }
}

/// Compiles the program that sleeps; `false` where that cannot be done.
fn has_nap(folder: &Folder) -> bool {
    folder.file("nap.c", SLEEPS);
    let mut compile = Command::new("gcc");
    compile.current_dir(folder.path("")).args(["-pg", "-O0", "-o", "nap", "nap.c"]);
    let is_there = cfg!(target_arch = "x86_64") && compile.status().is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("left out: there is no gcc");
    }
    is_there
}

const SLEEPS: &str = "#include <unistd.h>
void nap(void) { usleep(2000); }
int main(void) { for (int i = 0; i < 3; i++) nap(); return 6; }
";

#[test]
fn calls_and_events_of_the_kernel_are_in_one_folder() {
    let _one = lock();
    let folder = Folder::new();
    if !has_nap(&folder) {
        return;
    }
    let recorded = ours(&folder, &["record", "-E", "sched:sched_switch", "-o", "o", "./nap"]);
    let said = text(&recorded.stderr);
    if recorded.status.code() == Some(125) {
        assert!(
            said.contains("kernel events cannot be recorded") || said.contains("this kernel has no event"),
            "{said}"
        );
        eprintln!("left out: {said}");
        return;
    }
    assert_eq!((recorded.status.code(), &*said), (Some(6), ""));
    assert!(!folder.path("o/.kernel").exists());
    let replay = ours(&folder, &["replay", "-d", "o", "-f", "none", "--kernel-full"]);
    assert_eq!((replay.status.code(), text(&replay.stderr)), (Some(0), String::new()));
    let lines = text(&replay.stdout);
    assert_eq!(lines.matches("nap() {").count(), 3, "{lines}");
    assert!(lines.matches("sched:sched_switch").count() >= 3, "{lines}");
    let theirs =
        Command::new("uftrace").args(["replay", "-d", "o", "-f", "none"]).current_dir(folder.path("")).output();
    match theirs {
        Ok(theirs) => {
            assert_eq!((theirs.status.code(), text(&theirs.stderr)), (Some(0), String::new()));
            assert!(text(&theirs.stdout).matches("sched:sched_switch").count() >= 3, "{}", text(&theirs.stdout));
        }
        Err(_) => eprintln!("left out: uftrace is not installed"),
    }
    // Events alone, where that is asked for.
    let alone = ours(&folder, &["record", "-E", "sched:sched_switch", "-o", "alone.dat", "./nap"]);
    assert_eq!(alone.status.code(), Some(6), "{}", text(&alone.stderr));
    assert!(folder.path("alone.dat").is_file());
    folder.run("record --keep-pid -E sched:sched_switch -o p ./nap").ends(125, &["--keep-pid cannot be combined"]);
}

const NAPS: &str = "#include <fcntl.h>
#include <unistd.h>
void nap(void) { usleep(1000); }
int main(void) {
    for (int i = 0; i < 200; i++) {
        if (i == 100) close(open(\"half\", O_CREAT | O_WRONLY, 0600));
        nap();
    }
    close(open(\"whole\", O_CREAT | O_WRONLY, 0600));
    return 0;
}
";

#[test]
fn a_killed_recorder_of_calls_and_kernel_events_loses_neither() {
    let _one = lock();
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 50 } else { 1 };
    for round in 0..rounds {
        if !is_killed_without_a_loss(round) {
            return;
        }
    }
}

/// Kills a recorder a moment after the program has come half way. `false` when that cannot be tried here.
fn is_killed_without_a_loss(round: u64) -> bool {
    let folder = Folder::new();
    folder.file("nap.c", NAPS);
    let mut compile = Command::new("gcc");
    compile.current_dir(folder.path("")).args(["-pg", "-O0", "-o", "nap", "nap.c"]);
    if !cfg!(target_arch = "x86_64") || !compile.status().is_ok_and(|status| status.success()) {
        eprintln!("left out: there is no gcc");
        return false;
    }
    let mut recorder = command();
    recorder.current_dir(folder.path("")).args(["record", "-E", "sched:sched_switch", "-o", "o", "./nap"]);
    let mut recorder = recorder.stderr(std::process::Stdio::piped()).spawn().expect("it runs");
    let wait_for = |name: &str, recorder: &mut std::process::Child| loop {
        if folder.path(name).exists() {
            break true;
        }
        if let Some(status) = recorder.try_wait().expect("it can be asked").filter(|_| name == "half") {
            assert_eq!(status.code(), Some(125));
            break false;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    if !wait_for("half", &mut recorder) {
        let said = text(&recorder.wait_with_output().expect("it ended").stderr);
        assert!(said.contains("kernel events cannot be recorded") || said.contains("has no event"), "{said}");
        eprintln!("left out: {said}");
        return false;
    }
    std::thread::sleep(std::time::Duration::from_micros(700 * round));
    recorder.kill().expect("it can be killed");
    recorder.wait().expect("it is over");
    // The program goes on, and so does the kernel: both are asked for what they have.
    wait_for("whole", &mut recorder);
    loop {
        let recovered = ours(&folder, &["record", "--recover", "o"]);
        if recovered.status.success() {
            let said = text(&recovered.stderr);
            assert!(said.contains(" records were in rings") && said.contains(" pages were with the kernel"), "{said}");
            break;
        }
        assert!(text(&recovered.stderr).contains("still runs"), "{}", text(&recovered.stderr));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(!folder.path("o/.kernel").exists() && !folder.path("o/.ring").exists());
    let replay = ours(&folder, &["replay", "-d", "o", "-f", "none", "--kernel-full"]);
    assert_eq!((replay.status.code(), text(&replay.stderr)), (Some(0), String::new()));
    let lines = text(&replay.stdout);
    assert_eq!(lines.matches("nap() {").count(), 200, "{lines}");
    assert!(lines.matches("sched:sched_switch").count() >= 200, "{lines}");
    match Command::new("uftrace").args(["replay", "-d", "o", "-f", "none"]).current_dir(folder.path("")).output() {
        Ok(theirs) => assert_eq!((theirs.status.code(), text(&theirs.stderr)), (Some(0), String::new())),
        Err(_) => eprintln!("left out: uftrace is not installed"),
    }
    true
}
