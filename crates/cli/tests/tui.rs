//! `tui` from the command line: what it says without a terminal, and line by line.

mod util;

use std::io::Write as _;
use std::process::{Command, Stdio};

use util::demo;

/// Status, stdout and stderr of `tui` with some options, for commands on stdin.
fn tui(options: &[&str], commands: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracemill"));
    command
        .args(["tui", "--no-cache"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // It may have ended already.
    let _ = child.stdin.take().expect("a pipe").write_all(commands.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn lines_answer_commands() {
    let (status, out, err) = tui(&["--plain", "--clock-gmt", &demo("../calls/tasting")], "3\ns\nq\n");
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(out.starts_with("events: 1 of 201 events\n"), "{out}");
    let reports: Vec<&str> = out.split("report: 27 names\n").skip(1).collect();
    let functions = |report: &str| -> Vec<String> {
        report.lines().skip(1).filter_map(|line| line.split("  ").last().map(str::to_string)).collect()
    };
    assert_eq!(reports.len(), 2);
    assert!(functions(reports[0]) != functions(reports[1]), "another order");
}

#[test]
fn a_range_and_a_filter_hold_for_all_that_is_shown() {
    let mill = demo("mill");
    let (status, out, _) = tui(&["--plain", "--filter", "name == \"mill:bell\"", &mill], "");
    assert_eq!((status, out.lines().next()), (Some(0), Some("events: 1 of 8 events")));
    let (status, out, _) = tui(&["--plain", "--begin", "+1000h", &mill], "3\n4\n2\n/x\nd\n");
    assert_eq!((status, out.lines().next()), (Some(0), Some("events: 0 of 0 events")), "{out}");
}

#[test]
fn without_a_terminal_there_is_one_sentence() {
    let (status, out, err) = tui(&[&demo("mill")], "");
    assert_eq!((status, &*out), (Some(1), ""));
    assert!(err.contains("no terminal") && err.contains("--plain"), "{err}");
    let (status, _, err) = tui(&["--plain", "no such trace"], "");
    assert!(status == Some(1) && err.contains("no such trace"), "{err}");
}

#[test]
fn states_of_the_user_are_the_visits_of_analyze() {
    let (states, orders) = (demo("../states/orders.states"), demo("orders"));
    let options = ["--plain", "--clock-gmt", "--states", &*states, &*orders];
    let (status, out, err) = tui(&options, "5\n/order 2\n \n\nd\nu\nq\n");
    assert_eq!((status, &*err), (Some(0), ""));
    let pages: Vec<&str> = out.split("\nstates: 160 tracks\n").collect();
    assert!(pages.len() == 3 && pages[1].starts_with("track "), "{out}");
    let first = pages[1].lines().nth(1).expect("a line");
    let shares = first.split_once("order 1 ").expect("the first key").1.trim();
    assert_eq!(shares, "packing 65 %, pricing 35 %");
    // The visits of `analyze custom`, with the time and the state of each.
    assert!(out.contains("visits: 1 of 2 visits of order 2\n"), "{out}");
    let [pricing, packing] = ["1.004 ms  pricing", "1.102 ms  packing a bargain"].map(|text| {
        let line = out.lines().find(|line| line.ends_with(text));
        line.unwrap_or_else(|| panic!("{text}: {out}"))
    });
    assert!(pricing.starts_with("08:31:10.192162714 ") && packing.starts_with("08:31:10.193167152 "), "{out}");
    let (status, out, _) = tui(&["--plain", &orders], "5\nq\n");
    assert!(status == Some(0) && out.contains("there are no states in these traces"), "{out}");
    let (status, _, err) = tui(&["--plain", "--states", "nosuch.states", &orders], "");
    assert!(status != Some(0) && err.contains("nosuch.states"), "{err}");
}
