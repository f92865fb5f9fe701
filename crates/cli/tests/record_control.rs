//! A program that runs, here this one, is told by `tracemill record` what to record.
#![cfg(all(feature = "record", target_os = "linux"))]

mod util;

use std::path::Path;
use std::sync::Mutex;

use tracemill_record::{Level, Recorder, event};
use util::Folder;

/// One recorder a process at a time.
static ONE: Mutex<()> = Mutex::new(());

fn lock() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn recorder(folder: &Folder) -> Recorder {
    Recorder::options(folder.path("run.ctf")).start().expect("it starts")
}

/// The values of a field `n` in the order of their events.
fn numbers(folder: &Folder, arguments: &[&str]) -> Vec<String> {
    let all = [&["print", "-q", "--format", "jsonl"], arguments].concat();
    let printed = folder.run_with("", &all).ends(0, &[]);
    let numbers = printed.stdout.lines().filter_map(|line| line.split("\"n\":").nth(1));
    numbers.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect()).collect()
}

/// The events of the target `app` in a list: this program has met those of other tests, too.
fn of_app(listed: &str) -> Vec<&str> {
    listed.lines().filter(|line| line.contains(" app:")).map(str::trim_end).collect()
}

#[test]
fn a_program_that_runs_is_told_what_to_record() {
    let _one = lock();
    let folder = Folder::new();
    let recorder = recorder(&folder);
    let pid = std::process::id().to_string();
    let round = |n: u64| {
        event!(level: Level::Warning, target: "app", "slow", n = n, path = "/x");
        event!(target: "app", "poll", n = n);
    };
    round(1);
    let listed = folder.run_with("", &["record", "--list", &pid]).ends(0, &[]);
    assert_eq!(of_app(&listed.stdout), ["on           app:poll  n: u64", "on  warning  app:slow  n: u64, path: text"]);
    folder
        .run_with("", &["record", "--disable=app:poll", "--enable", "app:slow", "--filter", "n > 2", "run.ctf"])
        .ends(0, &[]);
    (2..5).for_each(round);
    let listed = folder.run_with("", &["record", "--list", "run.ctf"]).ends(0, &[]);
    let expected = ["off           app:poll  n: u64", "on   warning  app:slow  n: u64, path: text  if n > 2"];
    assert_eq!(of_app(&listed.stdout), expected);
    folder.run_with("", &["record", "--snapshot", &pid, "-o", "copy"]).ends(0, &["in rings"]);
    assert_eq!(numbers(&folder, &["copy"]), ["1", "1", "3", "4"]);
    folder.run_with("", &["record", "--rotate", "-o", "next", &pid]).ends(0, &["run.ctf: the trace is finished\n"]);
    assert_eq!(numbers(&folder, &["run.ctf"]), ["1", "1", "3", "4"]);
    round(5);
    // The expression is checked before the program hears of it.
    for (filter, why) in [("n >", "expected"), ("cpu == 1", "cannot be tested"), ("path =~ 'x'", "regular expressions")]
    {
        folder.run_with("", &["record", "--filter", filter, &pid]).ends(2, &[why]);
    }
    folder.run_with("", &["record", "--filter", "m == 1", &pid]).ends(0, &["has the field `m`"]);
    round(6);
    let last = folder.run_with("", &["record", "--list", "--stop", &pid]).ends(0, &["next: the trace is finished\n"]);
    assert_eq!(of_app(&last.stdout).len(), 2);
    assert_eq!(numbers(&folder, &["next"]), ["5"]);
    folder.run_with("", &["record", "--list", &pid]).ends(2, &["records no events"]);
    assert_eq!(recorder.finish().expect("it had been finished").discarded, 0);
}

#[test]
fn what_cannot_be_told_is_said() {
    let _one = lock();
    let folder = Folder::new();
    for (arguments, why) in [
        (&["record", "--list"][..], "PROGRAM"),
        (&["record", "--list", "1", "2"], "`2` is too much"),
        (&["record", "--list", "4294967"], "there is no process 4294967"),
        (&["record", "--list", "nowhere"], "no recorder takes commands there"),
        (&["record", "--stop", "--rotate", "-o", "x", "1"], "cannot be used with"),
        (&["record", "--rotate", "1"], "--output"),
        (&["record", "--disable", "app:poll", "1"], "`tracemill record --disable=app:poll 1`"),
    ] {
        folder.run_with("", arguments).ends(2, &[why]);
    }
    // A process that was killed leaves a socket that nobody listens to.
    drop(recorder(&folder));
    let socket = folder.path("dead/.ring/control");
    std::fs::create_dir_all(&socket).expect("a folder");
    drop(std::os::unix::net::UnixListener::bind(short(&socket).join("socket")).expect("a socket"));
    folder.run_with("", &["record", "--list", "dead"]).ends(1, &["has ended", "record --recover dead"]);
}

/// A path that fits into the address of a socket.
fn short(folder: &Path) -> std::path::PathBuf {
    use std::os::fd::IntoRawFd as _;

    let open = std::fs::File::open(folder).expect("a folder");
    Path::new("/proc/self/fd").join(open.into_raw_fd().to_string())
}

/// A random number.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Each event is recorded twice: always under one name, and under another only if the recorder's filter lets it through.
#[test]
fn a_filter_selects_where_events_are_recorded_what_print_selects_afterwards() {
    let _one = lock();
    let folder = Folder::new();
    let recorder = recorder(&folder);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let expressions = [
        "u > 9223372036854775807",
        "u & 0x11 == 0x10 and i < 0",
        "i in (-3, 0, 3) or not i <= 3",
        "f >= 0.5 and f != 0.75",
        "f < u",
        "i == -3.0 or i > 2.5",
        "text == \"a*\" or text == \"?b\"",
        "text < \"b\" and ok",
        "not text",
        "ok == true and u != 1",
        "missing != 1 or list",
        "not missing == 1 and payload.small in (1, 2, 255)",
        "name == \"x:*\" or i == 0",
    ];
    let pid = std::process::id().to_string();
    let mut parts = Vec::new();
    for (at, expression) in expressions.iter().enumerate() {
        folder.run_with("", &["record", "--enable", "x:some", "--filter", expression, &pid]).ends(0, &[]);
        let begin = at as u64 * 100;
        for n in begin..begin + 100 {
            let u = [0, 1, 0x10, 0x31, u64::MAX, 1 << 63][random(&mut state) as usize % 6];
            let i = random(&mut state) as i32 % 5;
            let f = [0.25_f64, 0.5, 0.75, f64::INFINITY, f64::NAN, -1.0][random(&mut state) as usize % 6];
            let text = ["", "a", "ab", "üb", "b", "*"][random(&mut state) as usize % 6];
            let (ok, small) =
                (random(&mut state).is_multiple_of(2), [1_u8, 2, 3, 255][random(&mut state) as usize % 4]);
            let list = &[7_u32; 3][..random(&mut state) as usize % 2];
            event!(target: "x", "all", n = n, u = u, i = i, f = f, text = text, ok = ok, small = small, list = list);
            event!(target: "x", "some", n = n, u = u, i = i, f = f, text = text, ok = ok, small = small, list = list);
        }
        parts.push((expression, begin));
    }
    recorder.finish().expect("it finishes");
    for (expression, begin) in parts {
        // A field that no event has is an error for `print`.
        let expression = expression.replace("missing != 1", "false").replace("missing == 1", "false");
        let range = format!("n >= {begin} and n < {}", begin + 100);
        let selected =
            numbers(&folder, &["--filter", &format!("name == \"x:all\" and {range} and ({expression})"), "run.ctf"]);
        let recorded = numbers(&folder, &["--filter", &format!("name == \"x:some\" and {range}"), "run.ctf"]);
        assert_eq!(recorded, selected, "{expression}");
        assert!(!recorded.is_empty(), "{expression}");
    }
}
