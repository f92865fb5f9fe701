//! Live sessions in the commands, against a relay daemon that follows a script.
#![cfg(unix)]

#[path = "../../live/tests/relay/mod.rs"]
mod relay;
mod util;

use std::time::Duration;

use relay::{Packet, Script, ScriptStep};
use serde_json::Value;
use util::Folder;

fn packet(begin: u64, end: u64, sequence: u64, times: &[u64]) -> ScriptStep {
    ScriptStep::Packet(Packet::new(begin, end, sequence, times))
}

/// Nine events in two streams.
fn script() -> Script {
    Script::new(&[
        &[packet(0, 100, 0, &[1, 5, 90]), ScriptStep::Retry, ScriptStep::Quiet(300), packet(400, 500, 1, &[400])],
        &[ScriptStep::Quiet(2), packet(3, 200, 0, &[3, 6, 150]), ScriptStep::Retry, packet(210, 600, 1, &[210, 410])],
    ])
}

/// A session that goes on: the stream says for ever that nothing comes.
fn endless() -> Script {
    let quiet = (0..100_000).map(|_| ScriptStep::Quiet(100));
    let steps: Vec<ScriptStep> = [packet(0, 100, 0, &[1, 5, 90])].into_iter().chain(quiet).collect();
    Script::new(&[&steps])
}

fn address(script: Script) -> String {
    format!("net://127.0.0.1:{}/host/mill/flour", script.serve())
}

const LINES: &str = "\
[0.000000001] mill grind: { }, { value = 1 }
[0.000000003] mill grind: { }, { value = 3 }
[0.000000005] mill grind: { }, { value = 5 }
[0.000000006] mill grind: { }, { value = 6 }
[0.000000090] mill grind: { }, { value = 90 }
[0.000000150] mill grind: { }, { value = 150 }
[0.000000210] mill grind: { }, { value = 210 }
[0.000000400] mill grind: { }, { value = 400 }
[0.000000410] mill grind: { }, { value = 410 }
";

/// The values of the events that a command prints.
fn values(text: &str) -> Vec<u64> {
    let value = |line: &str| serde_json::from_str::<Value>(line).ok()?["payload"]["value"].as_u64();
    text.lines().filter_map(value).collect()
}

#[test]
fn print_shows_a_session_in_the_order_of_time() {
    let folder = Folder::new();
    for jobs in ["-j 1", "-j 3"] {
        let done = folder.run(&format!("print --no-delta --clock-seconds {jobs} {}", address(script())));
        let plain = done.ends(0, &[]).stdout.replace("[0.", "[").replace("{ }, ", "");
        assert_eq!(plain, LINES.replace("[0.", "[").replace("{ }, ", ""));
    }
    let lines = folder.run(&format!("print --format jsonl --from-beginning {}", address(script()))).ends(0, &[]).stdout;
    assert_eq!(values(&lines), [1, 3, 5, 6, 90, 150, 210, 400, 410]);
    // The time since the line before goes on over everything that came at once.
    let deltas = folder.run(&format!("print --clock-seconds {}", address(script()))).ends(0, &[]).stdout;
    assert_eq!(deltas.matches("(+?.?????????)").count(), 1, "{deltas}");
    assert!(deltas.contains("(+0.000000190) mill grind"), "{deltas}");
}

#[test]
fn events_are_selected_as_they_come() {
    let folder = Folder::new();
    let print = |options: &str, script| {
        let text = folder.run(&format!("print --format jsonl {options} {}", address(script))).ends(0, &[]).stdout;
        values(&text)
    };
    assert_eq!(print("--filter payload.value>=90", script()), [90, 150, 210, 400, 410]);
    assert_eq!(print("--begin 5ns --end 210ns", script()), [5, 6, 90, 150, 210]);
    assert_eq!(print("--begin +4ns", script()), [5, 6, 90, 150, 210, 400, 410]);
    assert_eq!(print("--skip 2 --limit 3", script()), [5, 6, 90]);
    assert_eq!(print("--stream c_1", script()), [3, 6, 150, 210, 410]);
    // These end although the session does not.
    assert_eq!(print("--limit 2", endless()), [1, 5]);
    assert_eq!(print("--for 3s", endless()), [1, 5, 90]);
    folder.run(&format!("print --end -5ns {}", address(endless()))).ends(2, &["counts from the last event"]);
    folder.run(&format!("print --filter payload.grams>1 {}", address(script()))).ends(2, &["grams"]);
}

#[test]
fn csv_has_one_header() {
    let folder = Folder::new();
    let text = folder.run(&format!("print --format csv --columns ns,payload.value {}", address(script()))).ends(0, &[]);
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[9]), (10, "ns,payload.value", "410,410"));
}

/// Events that came before an interrupt are printed, and the status is that of an interrupt.
#[test]
fn an_interrupt_ends_viewing() {
    let words = format!("print --format jsonl {}", address(endless()));
    let mut command = util::command();
    let child = command.args(words.split_whitespace()).stdout(std::process::Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    std::thread::sleep(Duration::from_secs(4));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(values(&String::from_utf8_lossy(&output.stdout)), [1, 5, 90]);
}

#[test]
fn sessions_are_listed() {
    let folder = Folder::new();
    let mut two = script();
    two.minor = 15;
    two.sessions.push((9, "mill", "bran"));
    let port = two.serve();
    let text = folder.run(&format!("info net://127.0.0.1:{port}")).ends(0, &[]).stdout;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1][..6], ["mill", "flour", "40", "0", "3", "ctf1.8"], "{text}");
    assert_eq!(lines[2][6], format!("net://127.0.0.1:{port}/host/mill/bran"));
    let json = folder.run(&format!("info --json net://127.0.0.1:{}", script().serve())).ends(0, &[]).stdout;
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["sessions"][0]["name"], "flour");
    assert_eq!(json["sessions"][0]["live_timer_us"], 40_000);
    assert!(json["sessions"][0]["format"].is_null());
    let mut none = script();
    none.sessions.clear();
    folder.run(&format!("info net://127.0.0.1:{}", none.serve())).ends(0, &[]);
}

#[test]
fn a_session_is_kept_as_a_trace() {
    let folder = Folder::new();
    folder.run(&format!("convert --to ctf1.8 -o kept {}", address(script()))).ends(0, &[]);
    let lines = folder.run("print --format jsonl kept").ends(0, &[]).stdout;
    assert_eq!(values(&lines), [1, 3, 5, 6, 90, 150, 210, 400, 410]);
    // Packets are as they came, with an index that fits.
    let packets = [Packet::new(0, 100, 0, &[1, 5, 90]), Packet::new(400, 500, 1, &[400])];
    let bytes: Vec<u8> = packets.iter().flat_map(Packet::bytes).collect();
    assert_eq!(std::fs::read(folder.path("kept/c_0")).expect("the stream is there"), bytes);
    let index = std::fs::read(folder.path("kept/index/c_0.idx")).expect("the index is there");
    assert_eq!(index.len(), 16 + 2 * 72);
    folder.run("check kept").ends(0, &[]);
    // Any other format, and nothing is left beside it.
    folder.run(&format!("convert --filter payload.value<100 {} out.jsonl", address(script()))).ends(0, &[]);
    assert_eq!(std::fs::read_to_string(folder.path("out.jsonl")).expect("it was written").lines().count(), 5);
    let left: Vec<_> =
        std::fs::read_dir(folder.path("")).expect("it is there").flatten().map(|it| it.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    // An output that exists is refused before anything is kept.
    folder.run(&format!("convert --to ctf1.8 -o kept {}", address(endless()))).ends(1, &["exists already"]);
}

#[test]
fn reports_are_about_all_of_a_session() {
    let folder = Folder::new();
    let url = address(script());
    let info = folder.run(&format!("info --count {url}")).ends(0, &[]).stdout;
    assert!(info.starts_with(&format!("{url}/ust/uid/1000/64-bit\n")), "{info}");
    assert!(info.contains("grind 9 events"), "{info}");
    let report = folder.run(&format!("report --state grind --for 3s {}", address(endless()))).ends(0, &[]).stdout;
    assert!(report.contains("time from each `grind`"), "{report}");
}

#[test]
fn what_cannot_be_viewed_is_said() {
    let folder = Folder::new();
    let port = script().serve();
    let other = format!("net://127.0.0.1:{port}/host/mill/bran");
    folder.run(&format!("print --no-wait {other}")).ends(1, &["there is no such session", "/host/mill/flour"]);
    folder.run(&format!("print net://127.0.0.1:{port}")).ends(2, &["names no session", "tracemill info net://"]);
    folder.run("print net://127.0.0.1:1/host/a/b").ends(1, &["cannot connect"]);
    folder.run("print net://h/host/a").ends(2, &["the path is not /host/TARGET/SESSION"]);
    folder.run(&format!("print {other} {other}")).ends(2, &["is read alone"]);
    folder.run(&format!("check {other}")).ends(1, &["there is no such file or folder"]);
}

/// Events that came before the connection broke stay, and the status says that there was more.
#[test]
fn a_broken_connection_is_an_error() {
    let folder = Folder::new();
    let broken = || {
        let mut packets = 0;
        script().spoiled(move |command, _, answer| {
            packets += u32::from(command == 5);
            (packets < 4).then_some(answer)
        })
    };
    let done = folder.run(&format!("print --format jsonl {}", address(broken()))).ends(3, &["closed the connection"]);
    assert!(values(&done.stdout).starts_with(&[1, 3, 5, 6]), "{}", done.stdout);
    folder.run(&format!("convert --to ctf1.8 -o kept {}", address(broken()))).ends(3, &["closed the connection"]);
    assert!(folder.path("kept/metadata").exists());
    let nothing = || script().spoiled(|command, _, answer| (command != 6).then_some(answer));
    folder.run(&format!("print {}", address(nothing()))).ends(1, &["the reply to `get metadata`"]);
}

/// A query is about what there is when it begins: it does not wait for the end of the session.
#[cfg(feature = "sql")]
#[test]
fn sql_asks_what_a_session_has_so_far() {
    let folder = Folder::new();
    let sql = |address: &str| folder.run_with(&format!("sql --format csv {address}"), &["-c", COUNT]);
    const COUNT: &str = "select count(*) as n, max(ns) as last from events";
    assert_eq!(sql(&address(endless())).ends(0, &[]).stdout, "n,last\n3,90\n");
    let nothing = address(Script::new(&[&[ScriptStep::Quiet(100)]]));
    sql(&nothing).ends(1, &["the session gave no packets"]);
    sql(&address(script()).replace("flour", "bran")).ends(1, &["there is no such session", "flour"]);
}
