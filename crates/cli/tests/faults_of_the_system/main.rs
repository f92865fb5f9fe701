//! The Nth read, write, open, rename, sync, map or allocation fails, for every N, in every command that reads traces: none
//! says that it has succeeded when its output is not all of it, and no output is there in part.
//!
//! Where there are many calls, some of them are tried, the same each time; `TRACEMILL_LONG=1` tries them all.
#![cfg(all(target_os = "linux", target_env = "gnu", not(target_arch = "arm")))]

#[path = "../util/mod.rs"]
mod util;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use util::{Folder, content, demo};

const KINDS: [&str; 7] = ["read", "write", "open", "rename", "sync", "mmap", "memory"];
/// Calls of a kind that are tried for a command.
const TRIES: u64 = 9;
/// Memory for data of the program, in KiB.
const MEMORY: &str = "ulimit -d 614400";

/// The library that lets calls fail.
fn library(folder: &Folder) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults_of_the_system/failing.c");
    let library = folder.path("failing.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let built = Command::new(compiler).args(["-shared", "-fPIC", "-O1", "-w", "-o"]).arg(&library).arg(source).output();
    let built = built.expect("there is a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

struct Trial<'a> {
    folder: &'a Folder,
    library: &'a Path,
    words: &'a str,
}

impl Trial<'_> {
    fn run(&self, kind: &str, at: u64) -> Output {
        let program = util::command().get_program().to_os_string();
        let script = format!("{MEMORY}; LD_PRELOAD=\"$1\" exec \"$0\" {}", self.words);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(program).arg(self.library).current_dir(self.folder.path("work"));
        shell.env("TZ", "UTC").env("FAIL_KIND", kind).env("FAIL_AT", at.to_string()).stdin(std::process::Stdio::null());
        shell.env("RUST_BACKTRACE", "0").env("COUNT_TO", self.folder.path("count")).env_remove("NO_COLOR");
        shell.output().expect("it runs")
    }

    /// The content of the working folder.
    fn work(&self) -> Vec<(String, Vec<u8>)> {
        content(&self.folder.path("work"))
    }

    /// The folder of work as it is before each run.
    fn prepare(&self) {
        let _ = fs::remove_dir_all(self.folder.path("work"));
        fs::create_dir_all(self.folder.path("work")).expect("it can be made");
        if self.words.contains("--force") {
            self.folder.copy_of("mill", "work/out");
        }
    }

    /// Lets calls of a kind fail, each in a run of its own; how many were tried.
    fn each(&self, kind: &str, wrong: &mut Vec<String>) -> u64 {
        self.prepare();
        let before = self.work();
        let whole = self.run(kind, 0);
        assert!(whole.status.success(), "{}: {}", self.words, String::from_utf8_lossy(&whole.stderr));
        let written = self.work();
        let calls: u64 = fs::read_to_string(self.folder.path("count")).expect("it counts").parse().expect("a number");
        let is_long = std::env::var_os("TRACEMILL_LONG").is_some() && kind != "memory";
        let tries = if is_long { calls } else { calls.min(TRIES) };
        for number in 0..tries {
            // The first ones and the last one, and some between.
            let at = if tries == calls { number + 1 } else { 1 + number * (calls - 1) / (tries - 1) };
            self.prepare();
            let run = self.run(kind, at);
            let stderr = String::from_utf8_lossy(&run.stderr);
            let name = format!("{} with {kind} {at} of {calls} failing, {:?}: {stderr}", self.words, run.status);
            if stderr.contains("panicked") {
                wrong.push(name.clone());
            }
            if run.status.success() {
                // It did not matter, or it was got by another way.
                let is_reported = run.stdout.starts_with(b"warning: ") && stderr.is_empty();
                // An index says nothing that the packets do not; that it cannot be read is a warning.
                let has_no_index = stderr.contains("the index is ignored");
                let all = |mut work: Vec<(String, Vec<u8>)>| {
                    work.retain(|(path, _)| !has_no_index || !path.contains("/index/"));
                    work
                };
                if (run.stdout != whole.stdout && !is_reported) || all(self.work()) != all(written.clone()) {
                    wrong.push(format!("{name}: a false success"));
                }
            } else {
                // `check` prints its findings to stdout.
                if stderr.trim().is_empty() && run.stdout.is_empty() {
                    wrong.push(format!("{name}: it says nothing"));
                }
                let mut left = self.work();
                if run.status.signal().is_some() {
                    // Without memory the program ends at once, and the next one clears what it leaves.
                    left.retain(|(path, _)| !path.contains(".part"));
                }
                // With status 3 a part of the trace was reported as unreadable, and the output is whole without it.
                let is_without_part =
                    run.status.code() == Some(3) && left.iter().all(|(path, _)| !path.contains(".part"));
                if left != before && left != written && !is_without_part {
                    wrong.push(format!("{name}: an output in part"));
                }
            }
        }
        tries
    }
}

#[test]
fn no_failing_call_is_a_false_success() {
    let folder = Folder::new();
    let library = library(&folder);
    let (orders, calls, kernel) = (demo("orders"), demo("../calls/tasting"), demo("../kernel/bakery"));
    let (mut tries, mut wrong) = (0, Vec::new());
    for words in [
        format!("print {orders}"),
        format!("print --format jsonl -o lines {orders}"),
        format!("info --count {orders}"),
        format!("check {orders}"),
        format!("convert -q --to ctf2 -o out {orders}"),
        format!("convert --force --to ctf1.8 -o out {orders}"),
        format!("convert -q --to perfetto -o out {orders}"),
        format!("convert -q --to cpel -o out {orders}"),
        format!("analyze stats {orders}"),
        format!("analyze cpu {kernel}"),
        format!("report -d {calls}"),
        format!("replay -d {calls}"),
    ] {
        let trial = Trial { folder: &folder, library: &library, words: &words };
        tries += KINDS.iter().map(|kind| trial.each(kind, &mut wrong)).sum::<u64>();
    }
    assert!(wrong.is_empty(), "{} of {tries}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tries > 300, "{tries}");
}
