//! Recordings that are followed while they are made: of our recorder in both modes, and of uftrace.
#![cfg(all(feature = "record", target_os = "linux"))]

mod util;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tracemill_record::{Options, event};
use util::{Folder, command, json_lines, messages_of_follower};

const CHILD: &str = "TRACEMILL_TEST_CHILD";

/// Follows what is in a folder.
fn follow(folder: &Folder, arguments: &str) -> Child {
    let mut command = command();
    command.args(["print", "--format", "jsonl", "--follow"]).args(arguments.split_whitespace());
    command.current_dir(folder.path(".")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Its lines and messages, once it has ended by itself.
fn ended(follower: Child) -> (Vec<Value>, String) {
    let output = follower.wait_with_output().expect("it ends");
    let messages = messages_of_follower(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    (json_lines(&String::from_utf8_lossy(&output.stdout)), messages)
}

fn wait_for(what: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    while !what.exists() {
        assert!(Instant::now() < until, "{} does not come", what.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Records until it is killed, and writes down how far it is.
fn record_for_ever(folder: &Path) {
    let mode = std::fs::read_to_string(folder.join("mode")).expect("the mode");
    let options = Options::default().packet(4096);
    let mut options = if mode == "flight" { options.flight(4 << 20) } else { options.block(256 << 10) };
    options.path = folder.join("t");
    let _recorder = options.start().expect("it starts");
    let mut count = std::fs::File::create(folder.join("count")).expect("there is room");
    for number in 0..u64::MAX {
        event!(target: "t", "tick", number = number);
        // A file that is appended to cannot get shorter, and stays when the process is killed.
        count.write_all(b".").expect("there is room");
        if number % 10 == 9 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn a_program_that_records_is_followed_until_it_is_killed() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return record_for_ever(&PathBuf::from(folder));
    }
    for mode in ["stream", "flight"] {
        let folder = Folder::new();
        folder.file("mode", mode);
        let mut recording = Command::new(std::env::current_exe().expect("this program"));
        recording.args(["--exact", "a_program_that_records_is_followed_until_it_is_killed"]);
        let mut recording = recording.env(CHILD, folder.path(".")).stdout(Stdio::null()).spawn().expect("it starts");
        wait_for(&folder.path("t/metadata"));
        let follower = follow(&folder, "t");
        std::thread::sleep(Duration::from_millis(1500));
        recording.kill().expect("it runs");
        recording.wait().expect("it is over");
        let counted = std::fs::metadata(folder.path("count")).expect("it was written").len();
        let (lines, messages) = ended(follower);
        let numbers: Vec<u64> =
            lines.iter().map(|line| line["payload"]["number"].as_u64().expect("a number")).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "{mode}");
        // Each event that was counted, and perhaps one that was not.
        assert!((counted..=counted + 1).contains(&(numbers.len() as u64)), "{mode}: {counted} {}", numbers.len());
        assert!(counted > 50, "{mode}: {counted}");
        let pid = recording.id();
        assert!(messages.contains(&format!("process {pid} ended without finishing its recording")), "{messages}");
        assert_eq!(messages.lines().count(), 1, "{mode}: {messages}");
    }
}

/// Calls with pauses between them, for so long that some are shown while others are still to come.
const PROGRAM: &str = "
#include <unistd.h>
static __attribute__((noinline)) int grain(int n) { usleep(2000); return n + 1; }
static __attribute__((noinline)) int mill(int n) { return grain(n) + grain(n + 1); }
int main(void) { int sum = 0; for (int n = 0; n < 300; n++) sum += mill(n); return sum == 0; }
";

/// A call as a line shows it, without the names, which uftrace writes at the end.
fn calls(lines: &[Value]) -> BTreeSet<String> {
    let one = |line: &Value| {
        let payload = &line["payload"];
        format!("{} {} {} {} {}", line["ns"], line["name"], payload["tid"], payload["depth"], payload["addr"])
    };
    lines.iter().map(one).collect()
}

/// Both recorders write the same folder: uftrace's and ours.
#[test]
fn recordings_of_calls_are_followed() {
    let folder = Folder::new();
    folder.file("program.c", PROGRAM);
    let compiled =
        Command::new("gcc").args(["-pg", "-o", "program", "program.c"]).current_dir(folder.path(".")).status();
    if !cfg!(target_arch = "x86_64") || !compiled.is_ok_and(|status| status.success()) {
        eprintln!("left out: there is no compiler for the program");
        return;
    }
    let recorders = ["uftrace".to_string(), env!("CARGO_BIN_EXE_tracemill").to_string()];
    for (recorder, data) in recorders.iter().zip(["theirs", "ours"]) {
        let mut recording = Command::new(recorder);
        recording.args(["record", "-d", data, "--no-event", "--no-libcall", "./program"]);
        let recording = recording.current_dir(folder.path(".")).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut recording) = recording else {
            eprintln!("left out: {recorder} is not installed");
            continue;
        };
        wait_for(&folder.path(&format!("{data}/info")));
        let follower = follow(&folder, &format!("{data} --for 240s"));
        recording.wait().expect("it ends");
        let begin = Instant::now();
        let (lines, messages) = ended(follower);
        // The end of the recording ends it, and not its limit.
        assert!(begin.elapsed() < Duration::from_secs(120) && messages.is_empty(), "{data}: {messages}");
        let whole = json_lines(&folder.run(&format!("print --format jsonl {data}")).ends(0, &[]).stdout);
        assert!(lines.len() > 1800, "{data}: {}", lines.len());
        assert_eq!((lines.len(), calls(&lines)), (whole.len(), calls(&whole)), "{data}");
    }
}
