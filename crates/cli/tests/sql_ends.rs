//! How queries end that do not run to their end: interrupts, no room for what memory does not hold, readers that go.
#![cfg(all(feature = "sql", unix))]

mod util;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use util::{Folder, Run, command};

/// Whatever takes longer never ends.
const NEVER: Duration = Duration::from_secs(240);

/// Sorts more than a few megabytes hold; its last rows say whether all are there.
const SORTS: &str = "select count(*) as n, sum(x) as all_of_them, min(place) as low, max(place) as high from (select value as x, \
                     row_number() over (order by value % 977, value) as place from generate_series(1, 400000))";

/// Gives rows for longer than anybody waits.
const ENDLESS: &str = "select value as x, value * 3 as y from generate_series(1, 1000000000000)";

/// Works for longer than anybody waits before it gives a row.
const BUSY: &str =
    "select count(*) from generate_series(1, 10000000) a join generate_series(1, 10000000) b on a.value <> b.value";

/// The program, with this folder for what memory does not hold.
fn sql(folder: &Folder, words: &[&str]) -> Command {
    // In the background of a script, programs would begin with interrupts ignored, and miss one that comes early.
    let mut with_interrupts = Command::new("env");
    let plain = command();
    let set = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
    with_interrupts.envs(set).arg("--default-signal=INT").arg(plain.get_program()).args(plain.get_args());
    with_interrupts.arg("sql").args(words).env("TMPDIR", folder.path(""));
    with_interrupts.stdout(Stdio::piped()).stderr(Stdio::piped());
    with_interrupts
}

fn is_empty(folder: &Folder) -> bool {
    std::fs::read_dir(folder.path("")).expect("a folder").next().is_none()
}

/// Is there a file with something in it, at any depth?
fn has_bytes(path: &Path) -> bool {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| match path.metadata() {
        Ok(data) if data.is_dir() => has_bytes(&path),
        Ok(data) => data.len() > 0,
        // It has gone.
        Err(_) => false,
    })
}

fn interrupt(child: &Child) {
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
}

/// Waits for the end of a program that writes little.
fn ended(mut child: Child) -> Run {
    let begin = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if begin.elapsed() > NEVER {
            child.kill().expect("it runs");
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Run::from_output(child.wait_with_output().expect("it has ended"))
}

#[test]
fn an_interrupt_ends_a_query_wherever_it_is() {
    for (sql_text, memory) in [(BUSY, "64M"), (SORTS, "64M"), (ENDLESS, "64M")] {
        for wait in [0, 20, 200, 600] {
            let folder = Folder::new();
            let words = ["--memory", memory, "mill", "-o", "out.csv", "-c", sql_text];
            let child = sql(&folder, &words).current_dir(traces(&folder)).spawn().expect("it starts");
            std::thread::sleep(Duration::from_millis(wait));
            interrupt(&child);
            let run = ended(child);
            // Before the program looks for interrupts one ends it as the system does; a short query may be done.
            assert!(
                matches!(run.code, Some(130) | None) || sql_text == SORTS && run.code == Some(0),
                "{:?} {}",
                run.code,
                run.stderr
            );
            assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
            assert!(run.code == Some(0) || !folder.path("in/out.csv").exists(), "a part of an answer has its name");
        }
    }
}

/// A folder with a trace, below the one that is given.
fn traces(folder: &Folder) -> std::path::PathBuf {
    folder.copy_of("mill", "in/mill");
    folder.path("in")
}

#[test]
fn an_interrupt_removes_what_was_written_for_want_of_memory() {
    let folder = Folder::new();
    let sql_text = SORTS.replace("400000", "400000000");
    let mut child = sql(&folder, &["--memory", "8M", "-j", "2", "-c", &sql_text]).spawn().expect("it starts");
    let begin = Instant::now();
    while !has_bytes(&folder.path("")) {
        assert!(child.try_wait().expect("it is ours").is_none(), "it has ended");
        assert!(begin.elapsed() < NEVER, "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    ended(child).ends(130, &[]);
    assert!(is_empty(&folder), "files are left");
}

#[test]
fn what_memory_has_no_room_for_is_written_and_removed() {
    let folder = Folder::new();
    let ask = |memory: &str, text: &str| {
        ended(sql(&folder, &["--memory", memory, "-j", "2", "-c", text]).spawn().expect("it starts"))
    };
    for text in [
        SORTS,
        "select count(*) as n, sum(c) as all_of_them from (select value % 200000 as g, count(*) as c from generate_series(1, 400000) \
         group by g)",
        "select count(*) as n from (select a.value from generate_series(1, 200000) a join generate_series(1, 200000) b using (value) \
         order by a.value desc)",
    ] {
        let whole = ask("2G", text).ends(0, &[]);
        assert_eq!(ask("8M", text).ends(0, &[]).stdout, whole.stdout, "{text}");
        assert!(is_empty(&folder), "files are left");
    }
    // It would not have had room.
    let none = sql(&folder, &["--memory", "8M", "--spill", "none", "-c", SORTS]).spawn().expect("it starts");
    ended(none).ends(1, &["memory"]);
}

#[test]
fn a_full_disk_fails_the_query_and_leaves_nothing() {
    let folder = Folder::new();
    // No file may be longer: what a full disk does to each write, without one.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let mut full = Command::new("bash");
    full.args(["-c", script, env!("CARGO_BIN_EXE_tracemill"), "sql", "--memory", "8M", "-j", "2", "-c", SORTS]);
    full.env("TMPDIR", folder.path("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = ended(full.spawn().expect("bash is there")).ends(1, &["error: ", "File too large"]);
    assert_eq!(run.stdout, "");
    assert!(is_empty(&folder), "files are left");
    // No folder at all.
    let run = sql(&folder, &["--memory", "8M", "-j", "2", "-c", SORTS]).env("TMPDIR", folder.path("none")).spawn();
    ended(run.expect("it starts")).ends(1, &["error: "]);
}

#[test]
fn a_reader_that_goes_ends_the_query() {
    for form in ["csv", "jsonl", "json", "markdown", "arrow"] {
        let folder = Folder::new();
        let mut child = sql(&folder, &["--format", form, "-c", ENDLESS]).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut some = Vec::new();
        lines.read_until(b'\n', &mut some).expect("it can be read");
        assert!(!some.is_empty(), "{form}");
        drop(lines);
        let run = ended(child).ends(0, &[]);
        assert_eq!(run.stderr, "", "{form}");
        assert!(is_empty(&folder), "files are left");
    }
}
