//! Real programs, sampled on this machine; what is recorded is read by us and, where it is installed, by perf.
#![cfg(all(target_os = "linux", target_endian = "little"))]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tracemill_sample::{CallGraph, Options, Recorded, record, record_processes};

/// Spends three quarters of its time in one function and one quarter in another.
const SPLIT: &str = r"
static volatile unsigned long work;
static inline __attribute__((always_inline)) void spin(unsigned long n) { while (n--) work += n; }
__attribute__((noinline)) void much(unsigned long n) { spin(3 * n); __asm__ volatile(``); }
__attribute__((noinline)) void little(unsigned long n) { spin(n); __asm__ volatile(``); }
int main(int count, char **words) {
    (void)words;
    for (int i = 0; i < 300 * count; i++) { much(500000); little(500000); }
    return 7;
}";

/// A thread for each word, forked children that execute the program again, and short-lived threads.
const MANY: &str = r"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile unsigned long work;
__attribute__((noinline)) void in_thread(void) { for (unsigned long n = 0; n < 10000000; n++) work += n; }
__attribute__((noinline)) void in_child(void) { for (unsigned long n = 0; n < 200000000; n++) work += n; }
static void *body(void *p) { in_thread(); return p; }
int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], `child`)) { in_child(); return 0; }
    for (int round = 0; round < 5; round++) {
        pthread_t threads[40];
        for (int i = 0; i < 40; i++) pthread_create(&threads[i], 0, body, 0);
        for (int i = 0; i < 40; i++) pthread_join(threads[i], 0);
    }
    if (fork() == 0) { execl(words[0], words[0], `child`, (char *)0); _exit(1); }
    if (fork() == 0) { in_child(); _exit(0); }
    while (wait(0) > 0) {}
    return 0;
}";

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tracemill-sample-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles a program; `None` where that cannot be done.
    fn compile(&self, source: &str, flags: &str) -> Option<PathBuf> {
        let (file, program) = (self.path("program.c"), self.path("program"));
        fs::write(&file, source.replace('`', "\"")).expect("it is written");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-g", "-pthread"]).args(flags.split_whitespace()).arg("-o").arg(&program).arg(&file);
        let is_there = gcc.status().is_ok_and(|status| status.success());
        if !is_there {
            eprintln!("left out: there is no gcc");
        }
        is_there.then_some(program)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The recording, or `None` where the system allows no samples.
fn allowed(recorded: tracemill_model::error::Result<Recorded>) -> Option<Recorded> {
    match recorded {
        Ok(recorded) => Some(recorded),
        Err(error) if error.message().contains("samples cannot be recorded") => {
            eprintln!("left out: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn options(output: PathBuf) -> Options {
    let mut options = Options::default();
    options.output = output;
    options.command = vec!["tracemill".to_string(), "record".to_string()];
    options
}

/// Runs perf, which must not warn of anything but losses; `None` where it is not installed.
fn perf(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut perf = Command::new("perf");
    // Lists of symbols are kept below the home.
    perf.args(arguments).current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    let Ok(Output { status, stdout, stderr }) = perf.output() else {
        eprintln!("left out: perf is not installed");
        return None;
    };
    let said = String::from_utf8_lossy(&stderr).into_owned();
    let is_loss = |line: &str| ["Warning:", "Check IO/CPU overload!"].contains(&line) || line.contains(" and lost ");
    let warnings: Vec<_> = said.lines().filter(|line| !line.trim().is_empty() && !is_loss(line)).collect();
    assert!(status.success() && warnings.is_empty(), "perf {arguments:?}: {said}");
    Some(String::from_utf8_lossy(&stdout).into_owned())
}

/// Samples by the innermost function of the program, as `perf script` finds it.
fn by_function(folder: &Path, file: &str) -> Option<BTreeMap<String, u32>> {
    let text = perf(folder, &["script", "-i", file, "-F", "ip,sym", "-G"])?;
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        if let Some(function) = line.split_whitespace().nth(1) {
            *counts.entry(function.to_string()).or_default() += 1;
        }
    }
    Some(counts)
}

/// The part of `much` in samples of both.
fn share(counts: &BTreeMap<String, u32>) -> f64 {
    let of = |name: &str| f64::from(counts.get(name).copied().unwrap_or(0));
    of("much") / (of("much") + of("little")).max(1.0)
}

/// Events of a file as we print them; there must be no damage and no warning.
fn lines(file: &Path) -> Vec<String> {
    let traces = tracemill::open([file]).expect("we read it");
    let (errors, warnings): (Vec<_>, Vec<_>) = (traces.damage().collect(), traces.warnings().collect());
    assert!(errors.is_empty() && warnings.is_empty(), "{errors:?} {warnings:?}");
    let mut text = Vec::new();
    let (_, damage) = traces.events().write_lines(tracemill::Lines::Text, &mut text).expect("it is written");
    assert!(damage.is_empty(), "{damage:?}");
    String::from_utf8(text).expect("text").lines().map(String::from).collect()
}

fn count(lines: &[String], what: &str) -> usize {
    lines.iter().filter(|line| line.contains(what)).count()
}

#[test]
fn functions_have_the_shares_that_perf_finds() {
    let folder = Folder::new();
    let Some(program) = folder.compile(SPLIT, "-O0") else { return };
    let output = folder.path("perf.data");
    let Some(recorded) = allowed(record(Command::new(&program), &options(output.clone()))) else { return };
    assert_eq!(recorded.status.and_then(|status| status.code()), Some(7));
    assert_eq!((recorded.failed, recorded.lost), (None, 0));
    assert_eq!(fs::metadata(&output).expect("a file").permissions().mode() & 0o77, 0);
    let printed = lines(&output);
    let samples = count(&printed, " cpu-clock: ") + count(&printed, " cycles: ");
    assert_eq!(samples as u64, recorded.samples);
    let Some(ours) = by_function(&folder.0, "perf.data") else { return };
    assert!(ours.values().sum::<u32>() as u64 == recorded.samples, "{ours:?} {}", recorded.samples);
    let chains = perf(&folder.0, &["script", "-i", "perf.data", "-F", "ip,sym"]).expect("it is there");
    assert!(chains.contains(" much\n") && chains.contains(" main\n"), "{chains}");
    perf(&folder.0, &["report", "-i", "perf.data", "--stdio"]);
    let mut theirs = Command::new("perf");
    theirs.current_dir(&folder.0).env("HOME", &folder.0).args([
        "record",
        "-q",
        "-F",
        "999",
        "-e",
        "cpu-clock",
        "-o",
        "theirs.data",
    ]);
    assert_eq!(theirs.arg(&program).output().expect("perf runs").status.code(), Some(7));
    let theirs = by_function(&folder.0, "theirs.data").expect("it is there");
    let (ours, theirs) = (share(&ours), share(&theirs));
    assert!((ours - theirs).abs() < 0.1 && (0.65..0.85).contains(&ours), "{ours} {theirs}");
}

#[test]
fn threads_children_and_programs_that_they_execute_are_sampled() {
    let folder = Folder::new();
    let Some(program) = folder.compile(MANY, "") else { return };
    let output = folder.path("perf.data");
    let Some(recorded) = allowed(record(Command::new(&program), &options(output.clone()))) else { return };
    assert_eq!((recorded.failed, recorded.lost), (None, 0));
    let lines = lines(&output);
    // Two hundred threads and two children; the program, and the one that a child executes.
    assert_eq!((count(&lines, " PERF_RECORD_FORK: "), count(&lines, " PERF_RECORD_EXIT: ")), (202, 203));
    assert_eq!(lines.iter().filter(|line| line.contains("_COMM: ") && line.contains("\"program\"")).count(), 2);
    assert!(count(&lines, " PERF_RECORD_SWITCH: ") > 200);
    let Some(functions) = by_function(&folder.0, "perf.data") else { return };
    assert!(functions["in_thread"] > 100 && functions["in_child"] > 20, "{functions:?}");
    let ids = perf(&folder.0, &["buildid-list", "-i", "perf.data"]).expect("it is there");
    assert!(ids.contains("libc.so") && ids.contains(program.to_str().expect("a path")), "{ids}");
}

#[test]
fn stacks_are_copied_for_unwinding_and_perf_unwinds_them() {
    let folder = Folder::new();
    // Without frame pointers, and with tables of how to unwind.
    let Some(program) = folder.compile(SPLIT, "-fomit-frame-pointer") else { return };
    let mut options = options(folder.path("perf.data"));
    options.call_graph = CallGraph::Dwarf(4096);
    options.hz = 299;
    options.ring_bytes = 4 << 20;
    let Some(recorded) = allowed(record(Command::new(&program), &options)) else { return };
    assert_eq!((recorded.failed, recorded.lost), (None, 0));
    let lines = lines(&options.output);
    assert_eq!(count(&lines, "user_stack"), recorded.samples as usize, "{}", lines.last().expect("a line"));
    let Some(chains) = perf(&folder.0, &["script", "-i", "perf.data", "-F", "ip,sym"]) else { return };
    let whole = chains.split("\n\n").filter(|chain| chain.contains(" much\n") && chain.contains(" main\n")).count();
    assert!(whole * 2 > recorded.samples as usize, "{whole} of {}", recorded.samples);
}

#[test]
fn a_process_that_runs_is_sampled_until_it_ends_or_somebody_stops_it() {
    let folder = Folder::new();
    let Some(program) = folder.compile(SPLIT, "") else { return };
    let mut child = Command::new(&program).args(["a"; 30]).spawn().expect("it runs");
    let output = folder.path("perf.data");
    // On a busy machine it gets little of the CPU.
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(11)?.parse::<u64>().ok())
    };
    let begun = ticks();
    let stop = || ticks() >= begun.map(|begun| begun + 30);
    let recorded = allowed(record_processes(&[child.id()], &options(output.clone()), &stop));
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    if let Some(recorded) = recorded {
        assert!(recorded.samples > 20 && recorded.failed.is_none(), "{recorded:?}");
        assert_eq!(count(&lines(&output), " PERF_RECORD_EXIT: "), 0);
        if let Some(functions) = by_function(&folder.0, "perf.data") {
            assert!(functions.contains_key("much"), "{functions:?}");
        }
        // The next recording of the name keeps this one.
        let mut child = Command::new(&program).spawn().expect("it runs");
        record_processes(&[child.id()], &options(output.clone()), &|| false).expect("it is sampled");
        child.wait().expect("it ends");
        assert_eq!(count(&lines(&output), " PERF_RECORD_EXIT: "), 1);
        assert!(folder.path("perf.data.old").exists());
    }
    let error = record_processes(&[child.id()], &options(output.clone()), &|| false).expect_err("it has ended");
    assert!(error.message().contains("there is no process"), "{error}");
}

#[test]
fn what_a_tiny_ring_loses_is_counted() {
    let folder = Folder::new();
    let Some(program) = folder.compile(SPLIT, "") else { return };
    let mut options = options(folder.path("perf.data"));
    (options.hz, options.ring_bytes, options.call_graph) = (20_000, 4096, CallGraph::Dwarf(2048));
    let Some(recorded) = allowed(record(Command::new(&program), &options)) else { return };
    assert!(recorded.lost > 0 && recorded.failed.is_none(), "{recorded:?}");
    let traces = tracemill::open([&options.output]).expect("we read it");
    let discarded: u64 = traces
        .events()
        .steps()
        .expect("steps")
        .filter_map(|step| match step {
            tracemill::Step::Lost(loss) => loss.count,
            _ => None,
        })
        .sum();
    assert_eq!(discarded, recorded.lost);
}

#[test]
fn a_program_that_cannot_be_started_leaves_no_file() {
    let folder = Folder::new();
    let output = folder.path("perf.data");
    let error = record(Command::new(folder.path("none")), &options(output.clone())).expect_err("there is none");
    assert!(!error.message().is_empty() && !output.exists());
    fs::write(&output, "something else").expect("it is written");
    let Err(error) = record(Command::new("true"), &options(output.clone())) else { panic!("it is replaced") };
    assert!(
        error.message().contains("is not a recording") || error.message().contains("cannot be recorded"),
        "{error}"
    );
    assert_eq!(fs::read(&output).expect("it is there"), b"something else");
}

/// A disk that is full for a while: the program goes on, and what is missing is counted in its place.
#[test]
fn a_full_disk_loses_samples_and_says_so() {
    const CHILD: &str = "TRACEMILL_TEST_SAMPLE_FULL";
    const NAME: &str = "a_full_disk_loses_samples_and_says_so";
    if let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) {
        let mut options = options(folder.join("small/perf.data"));
        options.call_graph = CallGraph::Dwarf(8192);
        options.ring_bytes = 4 << 20;
        let Some(recorded) = allowed(record(Command::new(folder.join("program")), &options)) else { return };
        assert_eq!(recorded.status.and_then(|status| status.code()), Some(7));
        assert!(recorded.failed.as_deref().is_some_and(|why| why.contains("No space left")), "{recorded:?}");
        assert!(recorded.lost > 0, "{recorded:?}");
        fs::write(folder.join("counted"), format!("{} {}", recorded.samples, recorded.lost)).expect("it is written");
        return;
    }
    let folder = Folder::new();
    if folder.compile(SPLIT, "").is_none() {
        return;
    }
    fs::create_dir(folder.path("small")).expect("a folder");
    let shell =
        "mount -t tmpfs -o size=100k none \"$FOLDER/small\" && \"$@\" && cp \"$FOLDER/small/perf.data\" \"$FOLDER\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", shell, "sh"]).arg(std::env::current_exe().expect("a program"));
    command.args(["--exact", NAME, "--nocapture"]).env(CHILD, &folder.0).env("FOLDER", &folder.0);
    let Ok(output) = command.output() else { return eprintln!("left out: there is no unshare") };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("unshare: ") || said.contains("mount: ") || said.contains("cannot be recorded") {
        return eprintln!("left out: file systems cannot be mounted here, or samples not be recorded");
    }
    assert!(output.status.success(), "{said}");
    let counted = fs::read_to_string(folder.path("counted")).expect("counts");
    let (samples, _) = counted.split_once(' ').expect("two numbers");
    let lines = lines(&folder.path("perf.data"));
    let found = count(&lines, " cpu-clock: ") + count(&lines, " cycles: ");
    assert_eq!(found.to_string(), samples);
    perf(&folder.0, &["script", "-i", "perf.data"]);
}

/// Of a recorder that is killed at any moment the file is there, and sound up to its last round.
#[test]
fn a_killed_recorder_leaves_a_file_that_is_read() {
    const CHILD: &str = "TRACEMILL_TEST_SAMPLE_KILLED";
    const NAME: &str = "a_killed_recorder_leaves_a_file_that_is_read";
    if let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) {
        let mut command = Command::new(folder.join("program"));
        command.args(["a"; 10]);
        allowed(record(command, &options(folder.join("perf.data"))));
        return;
    }
    let rounds = if std::env::var_os("TRACEMILL_LONG").is_some() { 50 } else { 5 };
    for round in 0..rounds {
        let folder = Folder::new();
        if folder.compile(SPLIT, "").is_none() {
            return;
        }
        let mut recorder = Command::new(std::env::current_exe().expect("a program"));
        recorder.args(["--exact", NAME, "--nocapture"]).env(CHILD, &folder.0);
        let mut recorder = recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        std::thread::sleep(Duration::from_millis(300 + 37 * round));
        recorder.kill().expect("it is killed");
        recorder.wait().expect("it ends");
        // The program goes on; its end is nobody's here.
        let output = folder.path("perf.data");
        if !output.exists() {
            return eprintln!("left out: nothing can be sampled");
        }
        // A recorder that was killed before its first round has no records.
        let bytes = fs::read(&output).expect("a file");
        if bytes.get(48..56).is_some_and(|len| len != [0; 8]) {
            let lines = lines(&output);
            assert!(count(&lines, " PERF_RECORD_") > 0, "{lines:?}");
            perf(&folder.0, &["script", "-i", "perf.data"]);
        }
    }
}
