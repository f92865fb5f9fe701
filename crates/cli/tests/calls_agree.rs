//! Every command that follows calls gives the same answer: `report`, `flame`, the page of `view`, `tui` and the table `calls` of
//! `sql`, on the same recordings.
#![cfg(feature = "viewer")]

mod util;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;
use util::{Folder, demo, run_with};

/// Calls, self time and total time by the name of the function.
type Functions = BTreeMap<String, (u64, u64, u64)>;

/// A number, also where it is written as a text.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("no number: {value}"))
}

fn json_of(command: &str, trace: &str) -> Value {
    let output = run_with(command, &["--format", "json", trace]);
    assert_eq!(output.code, Some(0), "{command} {trace}: {}", output.stderr);
    serde_json::from_str(&output.stdout).expect("JSON")
}

fn reported(trace: &str) -> Functions {
    let told = json_of("report", trace);
    let rows = told["functions"].as_array().expect("a list").iter();
    let of = |row: &Value| (number(&row["calls"]), number(&row["self_ns"]), number(&row["total_ns"]));
    rows.map(|row| (row["name"].as_str().expect("a name").to_string(), of(row))).collect()
}

/// Calls and self time of all stacks of a function together.
fn in_flame(trace: &str) -> BTreeMap<String, (u64, u64)> {
    let mut sums = BTreeMap::new();
    for node in json_of("flame", trace)["nodes"].as_array().expect("a list").iter().skip(1) {
        let sum: &mut (u64, u64) = sums.entry(node["name"].as_str().expect("a name").to_string()).or_default();
        *sum = (sum.0 + number(&node["calls"]), sum.1 + number(&node["self_ns"]));
    }
    sums
}

/// The statistics that the page asks the server for.
fn on_page(trace: &str) -> Functions {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tracemill"))
        .args(["view", "--no-open", "--no-cache", trace])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let (address, token) = line.trim().trim_start_matches("http://").split_once("/#token=").expect("an address");
    let ask = |path: &str| -> Value {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let head = format!("GET /api/{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n");
        stream.write_all((head + "Connection: close\r\n\r\n").as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        serde_json::from_slice(&answer[end + 4..]).expect("JSON")
    };
    let mut told = Value::Null;
    for _ in 0..500 {
        told = ask("select");
        if told["complete"] == true && told["calls"].is_array() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let of = |row: &Value| (number(&row["calls"]), number(&row["self"]), number(&row["total"]));
    let rows = told["calls"].as_array().expect("a list").iter();
    rows.map(|row| (row["name"].as_str().expect("a name").to_string(), of(row))).collect()
}

/// Name, as far as there is room for it, self time and calls of the rows that `tui` shows.
fn in_terminal(trace: &str) -> Vec<(String, String, String)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tracemill"))
        .args(["tui", "--no-cache", "--plain", trace])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("a pipe").write_all(b"3\nq\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    let (_, table) = text.split_once("report: ").expect("a report");
    let mut lines = table.lines().skip(1);
    let head = lines.next().expect("a head");
    // Numbers end where the words above them do, and names begin after the last one.
    let end = |word: &str| head.find(word).map(|at| at + word.len()).expect(word);
    let [total, own, calls, max] = ["total v", "self", "calls", "max"].map(end);
    let rows = lines.take_while(|line| line.len() > max);
    let cell = |line: &str, from: usize, to: usize| line[from..to].trim().to_string();
    rows.map(|line| (line[max..].trim().to_string(), cell(line, total, own), cell(line, own, calls))).collect()
}

/// A duration as `tui` shows it.
fn shown(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{}.{:03} us", ns / 1_000, ns % 1_000),
        _ => format!("{}.{:03} ms", ns / 1_000_000, ns / 1_000 % 1_000),
    }
}

#[track_caller]
fn all_agree(trace: &str) -> Functions {
    agree_but_for(&[], trace)
}

/// Compares the commands in all functions but those that `longjmp` left: `report` follows uftrace, for which a call that was
/// jumped out of never was, and the second return of `setjmp` is a call. The others show the calls that were made.
#[track_caller]
fn agree_but_for(jumped: &[&str], trace: &str) -> Functions {
    let is_compared = |name: &String| !jumped.contains(&&**name);
    let expected: Functions = reported(trace).into_iter().filter(|(name, _)| is_compared(name)).collect();
    let page: Functions = on_page(trace).into_iter().filter(|(name, _)| is_compared(name)).collect();
    let without_total = |of: &Functions| -> BTreeMap<String, (u64, u64)> {
        of.iter().map(|(name, of)| (name.clone(), (of.0, of.1))).collect()
    };
    assert_eq!(without_total(&page), without_total(&expected), "the page, {trace}");
    let mut flame = in_flame(trace);
    flame.retain(|name, _| is_compared(name));
    assert_eq!(flame, without_total(&expected), "flame, {trace}");
    let rows = in_terminal(trace);
    assert!(rows.len() >= expected.len().min(15), "tui, {trace}: {rows:?}");
    for (name, own, calls) in rows.into_iter().filter(|(name, ..)| is_compared(name)) {
        let is_it = |of: &&(u64, u64, u64)| (shown(of.1), of.0.to_string()) == (own.clone(), calls.clone());
        let found = expected.iter().filter(|(known, _)| known.starts_with(&name)).map(|(_, of)| of).find(is_it);
        assert!(found.is_some(), "tui, {trace}: {name} {own} {calls}");
    }
    #[cfg(feature = "sql")]
    {
        let statement = "select name, count(*) as n, sum(self) as own, sum(dur) as total from calls group by name";
        let output = run_with("sql -q --format jsonl", &[trace, "-c", statement]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let rows = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let name = |row: &Value| row["name"].as_str().expect("a name").to_string();
        // A call without an end has neither duration nor self time there.
        let found: Vec<(String, Value)> =
            rows.map(|row| (name(&row), row)).filter(|(name, _)| is_compared(name)).collect();
        assert_eq!(found.len(), expected.len(), "sql, {trace}: {found:?}");
        let is_whole = on_whole(trace);
        for (name, row) in found {
            assert_eq!(number(&row["n"]), expected[&name].0, "sql, {trace}, {name}");
            if is_whole {
                assert_eq!(number(&row["own"]), expected[&name].1, "sql, {trace}, {name}");
            }
        }
    }
    expected
}

/// Do all calls have an end?
#[cfg(feature = "sql")]
fn on_whole(trace: &str) -> bool {
    let output = run_with("sql -q --format jsonl", &[trace, "-c", "select count(*) as n from calls where dur is null"]);
    output.stdout.trim() == r#"{"n":0}"#
}

/// Something that happens in a thread.
enum TaskStep {
    In(u64),
    Out(u64),
    /// Records were lost.
    Lost,
    /// The thread gives its processor away, or is made to.
    Sleep,
    Preempted,
    /// It has one again.
    Wake,
}

use TaskStep::{In, Lost, Out, Preempted, Sleep, Wake};

const MAIN: u64 = 0x1000;
const WORK: u64 = 0x1100;
const FIB: u64 = 0x1200;
const REST: u64 = 0x1300;

const SYMBOLS: &str = "\
# symbols: 5
# path name: /tmp/roastery/tasting
# build-id: 7e6e21611758b5b71205e57e7e9be2a2b1971b00
0000000000001000 T main
0000000000001100 T work
0000000000001200 T fib
0000000000001300 T rest
0000000000001400 ? __sym_end
";

/// Time in us since the beginning, depth, what happens.
type Timed = (u64, u64, TaskStep);

/// A recording of two threads.
fn recording(folder: &Folder, name: &str, threads: [&[Timed]; 2]) -> String {
    folder.copy_of("../calls/tasting", name);
    let task = "TASK timestamp=7896.536201575 tid=12529 pid=12529\nTASK timestamp=7896.536450511 tid=12531 pid=12529\n";
    let session =
        "SESS timestamp=7896.536116216 pid=12529 sid=b669aa88cf5fa62b exename=\"/tmp/roastery/tasting\"\n".to_string();
    folder.file(&format!("{name}/task.txt"), session + task);
    folder.file(&format!("{name}/tasting.sym"), SYMBOLS);
    let info = std::fs::read(folder.path(name).join("info")).expect("it is there");
    let at = info.windows(6).position(|six| six == b",12532").expect("a list of threads");
    let mut info = [&info[..at], &info[at + 6..]].concat();
    let at = info.windows(9).position(|nine| nine == b"nr_tid=3\n").expect("their number");
    info[at + 7] = b'2';
    folder.file(&format!("{name}/info"), info);
    std::fs::remove_file(folder.path(name).join("12532.dat")).expect("it is there");
    let mut switches: Vec<(u64, Vec<u8>)> = Vec::new();
    for (tid, steps) in [12529u32, 12531].into_iter().zip(threads) {
        let mut records = Vec::new();
        for (us, depth, step) in steps {
            let time = 7_896_537_000_000 + us * 1_000;
            let mut record = |kind: u64, time: u64, address: u64| {
                let word = kind | 5 << 3 | depth << 6 | address << 16;
                records.extend([time.to_le_bytes(), word.to_le_bytes()].concat());
            };
            let mut switch = |misc: u16| {
                let head = [14u32.to_le_bytes().to_vec(), misc.to_le_bytes().to_vec(), 24u16.to_le_bytes().to_vec()];
                let ids = [tid.to_le_bytes(), tid.to_le_bytes()].concat();
                switches.push((time, [head.concat(), ids, time.to_le_bytes().to_vec()].concat()));
            };
            match step {
                In(offset) => record(0, time, 0x5625_4bfd_6000 + offset),
                Out(offset) => record(1, time, 0x5625_4bfd_6000 + offset),
                Lost => record(2, 0, 3),
                Sleep => switch(0x2000),
                Preempted => switch(0x6000),
                Wake => switch(0),
            }
        }
        folder.file(&format!("{name}/{tid}.dat"), records);
    }
    switches.sort_by_key(|(time, _)| *time);
    let bytes: Vec<u8> = switches.into_iter().flat_map(|(_, bytes)| bytes).collect();
    folder.file(&format!("{name}/perf-cpu0.dat"), bytes);
    folder.path(name).to_str().expect("text").to_string()
}

#[test]
fn commands_agree_on_the_demo() {
    let functions = agree_but_for(&["_setjmp", "longjmp", "tasting::spit"], &demo("../calls/tasting"));
    assert_eq!(functions["usleep"], (9, 131_529, 4_300_024), "waits are not self times");
    assert_eq!(functions["linux:schedule"].0, 11);
}

#[test]
fn commands_agree_on_nested_and_recursive_calls_with_waits() {
    let folder = Folder::new();
    let main = [
        (0, 0, In(MAIN)),
        (10, 1, In(FIB)),
        (20, 2, In(FIB)),
        (30, 3, In(REST)),
        (40, 0, Sleep),
        (90, 0, Wake),
        (100, 3, Out(REST)),
        (110, 3, In(FIB)),
        (120, 0, Preempted),
        (150, 0, Wake),
        (160, 3, Out(FIB)),
        (170, 2, Out(FIB)),
        (180, 1, Out(FIB)),
        (190, 0, Sleep),
        (200, 0, Wake),
        (300, 0, Out(MAIN)),
        // Outside of all calls.
        (310, 0, Sleep),
        (320, 0, Wake),
    ];
    let other = [(5, 0, In(WORK)), (50, 0, Sleep), (80, 0, Wake), (140, 0, Out(WORK))];
    let functions = all_agree(&recording(&folder, "nested", [&main, &other]));
    let of = |name: &str| functions.get(name).map(|of| (of.0, of.1));
    assert_eq!(of("linux:schedule"), Some((3, 90_000)));
    assert_eq!(of("linux:schedule (pre-empted)"), Some((1, 30_000)));
    assert_eq!([of("rest"), of("work")], [Some((1, 20_000)), Some((1, 105_000))]);
}

#[test]
fn commands_agree_on_calls_that_are_open_at_the_end() {
    let folder = Folder::new();
    let main = [(0, 0, In(MAIN)), (10, 1, In(WORK)), (40, 1, Out(WORK)), (60, 1, In(REST)), (75, 2, In(FIB))];
    let other = [(5, 0, In(WORK)), (20, 1, In(REST)), (25, 1, Out(REST)), (500, 0, Out(WORK))];
    let functions = all_agree(&recording(&folder, "open", [&main, &other]));
    // To the last record of their own thread.
    assert_eq!(functions["main"], (1, 30_000, 75_000));
    assert_eq!(functions["fib"].1, 0);
    // They end while the thread has no processor.
    let main = [(0, 0, In(MAIN)), (10, 1, In(WORK)), (40, 0, Sleep), (70, 0, Wake), (80, 1, Out(WORK)), (90, 0, Sleep)];
    let other = [(5, 0, In(WORK)), (100, 0, Sleep), (130, 0, Wake), (140, 0, Out(WORK))];
    let functions = all_agree(&recording(&folder, "asleep", [&main, &other]));
    assert_eq!(functions["linux:schedule"].0, 3);
}

#[test]
fn commands_agree_on_calls_before_lost_records() {
    let folder = Folder::new();
    let main = [
        (0, 0, In(MAIN)),
        (10, 1, In(WORK)),
        (20, 0, Sleep),
        (50, 0, Wake),
        (60, 1, Out(WORK)),
        (70, 0, Out(MAIN)),
        (71, 0, Lost),
        (100, 0, In(MAIN)),
        (110, 1, In(REST)),
        (130, 1, Out(REST)),
        (140, 0, Out(MAIN)),
    ];
    let other = [(5, 0, In(WORK)), (140, 0, Out(WORK))];
    let functions = all_agree(&recording(&folder, "lost", [&main, &other]));
    assert_eq!(functions["main"].0, 2);
    assert_eq!(functions["linux:schedule"], (1, 30_000, 30_000));
}
