//! Clocks of several traces brought together by the messages between them.

mod util;

use serde_json::Value;
use util::{Folder, json_lines};

/// A trace of CTF 2 with the events `send` and `receive`, each with the number of a message, on a clock in ns.
fn trace(folder: &Folder, name: &str, events: &[(u64, bool, u64)]) {
    let number = |role: &str| {
        format!(
            r#"{{"type":"fixed-length-unsigned-integer","length":64,"byte-order":"little-endian","alignment":8{role}}}"#
        )
    };
    let time = number(r#","roles":["default-clock-timestamp"]"#);
    let id = r#"{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian","alignment":8,"roles":["event-record-class-id"]}"#;
    let structure = |members: &[(&str, &str)]| {
        let member = |(name, class): &(&str, &str)| format!(r#"{{"name":"{name}","field-class":{class}}}"#);
        let members: Vec<_> = members.iter().map(member).collect();
        format!(r#"{{"type":"structure","member-classes":[{}]}}"#, members.join(","))
    };
    let header = structure(&[("id", id), ("t", &time)]);
    let payload = structure(&[("number", &number("")), ("extra", &number(""))]);
    let event = |id: u32, name: &str| {
        format!(r#"{{"type":"event-record-class","id":{id},"name":"{name}","payload-field-class":{payload}}}"#)
    };
    let fragments = [
        r#"{"type":"preamble","version":2}"#.to_string(),
        format!(
            r#"{{"type":"clock-class","id":"c","name":"c{name}","frequency":1000000000,"offset-from-origin":{{"seconds":1700000000,"cycles":0}},"origin":"unix-epoch"}}"#
        ),
        r#"{"type":"trace-class"}"#.to_string(),
        format!(
            r#"{{"type":"data-stream-class","default-clock-class-id":"c","event-record-header-field-class":{header}}}"#
        ),
        event(0, "send"),
        event(1, "receive"),
    ];
    let metadata: String = fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect();
    let mut stream = Vec::new();
    for &(time, is_send, number) in events {
        stream.push(u8::from(!is_send));
        for value in [time, number, number * 3] {
            stream.extend(value.to_le_bytes());
        }
    }
    folder.file(&format!("{name}/metadata"), metadata).file(&format!("{name}/stream"), stream);
}

/// Events of two machines that send each other messages: the clock of the second one lags by `offset` at 0 and runs by
/// `drift` (of 10^9) too slow. Messages take 50 us and up to 200 us more.
fn pair(offset: i64, drift: i64) -> [Vec<(u64, bool, u64)>; 2] {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let second_time =
        |time: i64| (i128::from(time - offset) - i128::from(time) * i128::from(drift) / 1_000_000_000) as u64;
    let mut seed = 3u64;
    for number in 0..500 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sent = 1_000_000_000_000 + number as i64 * 20_000_000;
        let received = sent + 50_000 + (seed >> 33) as i64 % 200_000;
        if seed >> 63 == 0 {
            first.push((sent as u64, true, number));
            second.push((second_time(received), false, number));
        } else {
            second.push((second_time(sent), true, number));
            first.push((received as u64, false, number));
        }
    }
    [first, second]
}

fn times(text: &str, name: &str) -> Vec<(i64, u64)> {
    let lines = json_lines(text);
    let of = lines.iter().filter(|line| line["trace"].as_str() == Some(name) || line.get("trace").is_none());
    let number = |line: &Value| (line["ns"].as_i64().unwrap_or(0), line["payload"]["number"].as_u64().unwrap_or(0));
    of.map(number).collect()
}

#[test]
fn known_offsets_and_drifts_are_found() {
    for (offset, drift) in [(0, 0), (3_000_000_000, 0), (-7_123_456_789, 25_000), (12_345, -40_000)] {
        let folder = Folder::new();
        let [first, second] = pair(offset, drift);
        trace(&folder, "a", &first);
        trace(&folder, "b", &second);
        let run = folder.run("print --format jsonl --correlate send=receive --correlate-by number,extra a b");
        let run = run.ends(0, &["note: the clock of `b` is moved by", "accurate to", "ppm of drift"]);
        let found = times(&run.stdout, "b");
        // The true time of each event is that of the first clock, at most the accuracy away.
        let shown = times(&folder.run("print --format jsonl b").ends(0, &[]).stdout, "b");
        assert_eq!((found.len(), shown.len()), (500, 500));
        for ((ns, number), (own, same)) in found.iter().zip(&shown) {
            assert_eq!(number, same);
            let own = own - 1_700_000_000_000_000_000;
            let truth = (i128::from(own) + i128::from(offset)) * 1_000_000_000 / i128::from(1_000_000_000 - drift);
            let error = i128::from(ns - 1_700_000_000_000_000_000) - truth;
            assert!(error.abs() < 60_000, "{offset} {drift}: message {number} is off by {error} ns: {}", run.stderr);
        }
        // No message arrives before it was sent.
        let others = times(&run.stdout, "a");
        for (at, number) in found {
            let (other, _) = others.iter().find(|other| other.1 == number).expect("both have it");
            let is_sent = second.iter().any(|&(_, is_send, of)| of == number && is_send);
            let delay = if is_sent { other - at } else { at - other };
            assert!((0..320_000).contains(&delay), "{delay}");
        }
    }
}

#[test]
fn corrected_clocks_are_written() {
    let folder = Folder::new();
    let [first, second] = pair(5_000_000_000, 30_000);
    trace(&folder, "a", &first);
    trace(&folder, "b", &second);
    let options = "--correlate send=receive --correlate-by number";
    for to in ["ctf2", "ctf1.8"] {
        folder.run(&format!("convert --to {to} --force {options} -o out a b")).ends(0, &["drift is corrected"]);
        let want = folder.run(&format!("print -q --format jsonl {options} a b")).ends(0, &[]).stdout;
        let found = folder.run("print -q --format jsonl out").ends(0, &[]).stdout;
        let plain = |text: &str| -> Vec<(Value, Value, Value)> {
            let lines = json_lines(text);
            lines.iter().map(|line| (line["ns"].clone(), line["name"].clone(), line["payload"].clone())).collect()
        };
        assert_eq!(plain(&found), plain(&want), "{to}");
    }
}

#[test]
fn what_cannot_be_correlated_is_told() {
    let folder = Folder::new();
    let [first, second] = pair(0, 0);
    trace(&folder, "a", &first);
    trace(&folder, "b", &second);
    trace(&folder, "lonely", &[(5, true, 100_000)]);
    let run = |options: &str| folder.run(&format!("print -n {options}").replace("-n", "--limit 1"));
    run("--correlate send=receive --correlate-by number a b lonely")
        .ends(0, &["the clock of `lonely` is not corrected"]);
    run("--correlate send=receive --correlate-by number a").ends(2, &["two traces or more"]);
    run("--correlate send=receive a b").ends(2, &["--correlate", "fields that both"]);
    run("--correlate send --correlate-by number a b").ends(2, &["names no two events"]);
    run("--correlate send=receive --correlate-by nonsense a b").ends(1, &["nonsense"]);
    run("--correlate send=nothing --correlate-by number a b").ends(2, &["no message of `send=nothing`"]);
    // One way only: no accuracy.
    trace(&folder, "c", &[(1_000, true, 1), (2_000, true, 2)]);
    trace(&folder, "d", &[(5_000, false, 1), (9_000, false, 2)]);
    run("--correlate send=receive --correlate-by number c d").ends(0, &["messages went one way only"]);
}

/// Every format gets the times that `print` shows, the drift included.
#[test]
fn drifts_are_in_every_output() {
    let folder = Folder::new();
    let [first, second] = pair(12_345, -40_000);
    trace(&folder, "a", &first);
    trace(&folder, "b", &second);
    let options = "--correlate send=receive --correlate-by number";
    let times = |arguments: &str| {
        let run = folder.run(&format!("print -q --format jsonl {arguments}")).ends(0, &[]);
        let lines = json_lines(&run.stdout).into_iter();
        // Events that the format itself adds are not part of the trace.
        let lines = lines.filter(|line| !line["name"].as_str().unwrap_or("").starts_with("core."));
        let mut times: Vec<i64> = lines.filter_map(|line| line["ns"].as_i64()).collect();
        times.sort_unstable();
        times
    };
    let want = times(&format!("{options} a b"));
    assert_eq!(want.len(), first.len() + second.len());
    for to in ["ctf2", "ctf1.8", "ctf1.6", "ctf1.1", "lttng-legacy", "cpel", "elog", "uftrace", "jsonl"] {
        folder.run(&format!("convert -q --to {to} {options} -o {to} a b")).ends(0, &[]);
        assert!(times(to) == want, "{to}");
    }
    folder.run(&format!("convert -q --to chrome {options} -o chrome a b")).ends(0, &[]);
    let chrome = std::fs::read_to_string(folder.path("chrome")).expect("it is there");
    for ns in [want[0], want[want.len() / 2], want[want.len() - 1]].map(|ns| ns - want[0]) {
        let stamp = format!("{}.{:03}", ns / 1000, ns % 1000);
        assert!(chrome.contains(&format!("\"ts\":{stamp}")), "{stamp}: {}", &chrome[..2000]);
    }
    // As themselves too.
    for to in ["ctf1.6", "ctf1.1"] {
        folder.run(&format!("convert -q --to {to} -o {to}a a")).ends(0, &[]);
        folder.run(&format!("convert -q --to {to} -o {to}b b")).ends(0, &[]);
        let want = times(&format!("{options} {to}a {to}b"));
        folder.run(&format!("convert -q --to {to} {options} -o {to}c {to}a {to}b")).ends(0, &[]);
        assert!(times(&format!("{to}c")) == want, "{to}");
    }
}
