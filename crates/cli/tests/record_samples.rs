//! `tracemill record --sample`: alone, and next to calls and events.
#![cfg(all(feature = "record", target_os = "linux"))]

mod util;

use std::fs;
use std::process::{Command, Output};

use tracemill_record::event;
use util::{Folder, command};

const SPINS: &str = "static volatile unsigned long work;
__attribute__((noinline)) void spin(void) { for (unsigned long n = 0; n < 60000000; n++) work += n; }
int main(void) { spin(); return 3; }
";

/// Runs ours in a folder; `None` where the system allows no samples.
fn ours(folder: &Folder, arguments: &[&str]) -> Option<Output> {
    let output = command().current_dir(folder.path("")).args(arguments).output().expect("it runs");
    let said = text(&output.stderr);
    if output.status.code() == Some(125) && said.contains("samples cannot be recorded") {
        assert!(said.lines().count() <= 2, "{said}");
        eprintln!("left out: {said}");
        return None;
    }
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compiles the program that spins; `false` where that cannot be done.
fn has_spin(folder: &Folder, flags: &[&str]) -> bool {
    folder.file("spin.c", SPINS);
    let mut compile = Command::new("gcc");
    compile.current_dir(folder.path("")).args(["-O1", "-o", "spin", "spin.c"]).args(flags);
    let is_there = cfg!(target_arch = "x86_64") && compile.status().is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("left out: there is no gcc");
    }
    is_there
}

/// Lines of events, without a message.
fn lines(folder: &Folder, trace: &str) -> Vec<String> {
    let printed = command().current_dir(folder.path("")).args(["print", trace]).output().expect("it runs");
    assert_eq!((printed.status.code(), text(&printed.stderr)), (Some(0), String::new()));
    text(&printed.stdout).lines().map(String::from).collect()
}

fn is_sample(line: &str) -> bool {
    line.contains(" cpu-clock") || line.contains(" cycles")
}

fn place(lines: &[String], what: &str) -> usize {
    lines.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("no `{what}` in {lines:#?}"))
}

#[test]
fn any_program_is_sampled_at_the_rate_that_is_asked_for() {
    let folder = Folder::new();
    if !has_spin(&folder, &[]) {
        return;
    }
    for rate in [&["--sample"][..], &["--sample=99"], &["--sample", "99"], &["--sample", "99", "--time"]] {
        let Some(recorded) = ours(&folder, &[&["record"][..], rate, &["./spin"]].concat()) else { return };
        assert_eq!(recorded.status.code(), Some(3), "{rate:?}: {}", text(&recorded.stderr));
        let count = lines(&folder, "perf.data").into_iter().filter(|line| is_sample(line)).count();
        // At 99 Hz one of ten.
        let most = if rate.len() == 1 && rate[0] == "--sample" { 10_000 } else { 60 };
        assert!((1..most).contains(&count), "{rate:?}: {count} samples");
        let info = command().current_dir(folder.path("")).args(["info", "perf.data"]).output().expect("it runs");
        assert!(text(&info.stdout).contains("origin unix"), "{}", text(&info.stdout));
    }
    assert!(folder.path("perf.data.old").exists());
    let refused = ours(&folder, &["record", "--sample", "--keep-pid", "./spin"]).expect("it is refused");
    assert_eq!(refused.status.code(), Some(2));
    let refused = ours(&folder, &["record", "--sample", "--all-tasks", "./spin"]).expect("it is refused");
    let said = text(&refused.stderr);
    assert!(said.contains("not the whole machine") && said.contains("perf record -a"), "{said}");
    let refused = ours(&folder, &["record", "--sample", "--call-graph", "lbr", "./spin"]).expect("it is refused");
    assert!(text(&refused.stderr).contains("`fp` and `dwarf`"), "{}", text(&refused.stderr));
}

#[test]
fn calls_and_samples_are_one_timeline() {
    let folder = Folder::new();
    if !has_spin(&folder, &["-pg"]) {
        return;
    }
    let Some(recorded) = ours(&folder, &["record", "--sample", "./spin"]) else { return };
    assert_eq!(recorded.status.code(), Some(3), "{}", text(&recorded.stderr));
    let lines = lines(&folder, "recording");
    let within = &lines[place(&lines, "symbol = \"spin\"")..];
    let samples = within.iter().position(|line| is_sample(line)).expect("a sample in the function");
    let exit = within.iter().rposition(|line| line.contains("symbol = \"main\"")).expect("an exit");
    assert!(samples < exit, "{within:#?}");
    let replay = command().current_dir(folder.path("")).args(["replay", "-d", "recording/uftrace.data"]).output();
    assert!(text(&replay.expect("it runs").stdout).contains("spin()"));
    // Once more: the earlier recording is kept.
    ours(&folder, &["record", "--sample", "./spin"]).expect("samples");
    assert!(folder.path("recording.old/perf.data").exists() && folder.path("recording/perf.data").exists());
    let alone = ours(&folder, &["record", "--sample", "-o", "perf.data", "./spin"]).expect("samples");
    assert_eq!((alone.status.code(), folder.path("perf.data").is_file()), (Some(3), true));
    fs::create_dir(folder.path("other")).expect("a folder");
    folder.file("other/file", "something");
    let refused = ours(&folder, &["record", "--sample", "-o", "other", "./spin"]).expect("it is refused");
    assert_eq!(refused.status.code(), Some(125));
    assert!(text(&refused.stderr).contains("is not a recording with samples"), "{}", text(&refused.stderr));
}

/// The program that [`events_and_samples_are_one_timeline`] records.
#[test]
fn events_around_work() {
    if std::env::var_os("TRACEMILL_RECORD").is_none() {
        return;
    }
    event!("before");
    let begin = std::time::Instant::now();
    while begin.elapsed().as_millis() < 200 {
        std::hint::black_box(begin.elapsed());
    }
    event!("after");
}

#[test]
fn events_and_samples_are_one_timeline() {
    let folder = Folder::new();
    let own = std::env::current_exe().expect("a path");
    let own = own.to_str().expect("text");
    let arguments = ["record", "--sample", "-o", "both", own, "--exact", "events_around_work", "--nocapture"];
    let Some(recorded) = ours(&folder, &arguments) else { return };
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
    assert!(folder.path("both/trace.ctf/metadata").exists());
    let lines = lines(&folder, "both");
    let (before, after) = (place(&lines, ":before"), place(&lines, ":after"));
    assert!(lines[before..after].iter().filter(|line| is_sample(line)).count() > 5, "{lines:#?}");
}

/// Stacks of threads that wait, with the time until they run again.
#[test]
fn waits_have_stacks() {
    const NAPS: &str = "#include <time.h>
        void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 30000000}, 0); }
        int main(void) { for (int i = 0; i < 5; i++) nap(); return 0; }\n";
    let folder = Folder::new();
    folder.file("nap.c", NAPS);
    let mut compile = Command::new("gcc");
    compile.current_dir(folder.path("")).args(["-O0", "-o", "nap", "nap.c"]);
    if !compile.status().is_ok_and(|status| status.success()) {
        return eprintln!("left out: there is no gcc");
    }
    let Some(recorded) = ours(&folder, &["record", "--sample", "--off-cpu", "./nap"]) else { return };
    let said = text(&recorded.stderr);
    if said.contains("stacks of threads that wait cannot be recorded") {
        return eprintln!("left out: {said}");
    }
    assert_eq!(recorded.status.code(), Some(0), "{said}");
    let graph = command().current_dir(folder.path("")).args(["graph", "--cpu", "off", "perf.data"]).output();
    let graph = text(&graph.expect("it runs").stdout);
    // The C library may have no frame pointers: then the function that called it is missing.
    let sleeps = graph.lines().find(|line| line.contains("nanosleep")).unwrap_or_else(|| panic!("{graph}"));
    // The five sleeps are nearly all of the time that the thread has no CPU, unless the machine is busy.
    let words: Vec<_> = sleeps.split_whitespace().collect();
    let share: f64 = words[0].parse().expect("a number");
    assert!(share > 30.0 && words[2] == "5", "{graph}");
    assert!(!graph.contains("(off CPU)"), "{graph}");
}

/// Of somebody else's process, or of one that is not there; and what is said where the kernel is out of reach.
#[test]
fn rights_that_are_missing_are_named() {
    let folder = Folder::new();
    let missing = ours(&folder, &["record", "--sample", "-p", "2147483647"]).expect("it is refused");
    assert_eq!(missing.status.code(), Some(125));
    assert!(text(&missing.stderr).contains("there is no process 2147483647"), "{}", text(&missing.stderr));
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]);
    other
        .arg(env!("CARGO_BIN_EXE_tracemill"))
        .args(["record", "--sample", "-o"])
        .arg(folder.path("x"))
        .args(["-p", "1"]);
    let Ok(output) = other.output() else { return eprintln!("left out: there is no setpriv") };
    let said = text(&output.stderr);
    if said.contains("setpriv: ") {
        return eprintln!("left out: {said}");
    }
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("belongs to another user") || said.contains("perf_event_paranoid"), "{said}");
    assert!(!folder.path("x").exists());
}
