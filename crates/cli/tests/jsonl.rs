//! Canonical lines as input: they are printed as they were, converted, and what is wrong with them is reported.

mod util;

use std::fs;
use std::path::Path;

use serde_json::Value;
use util::{Folder, json_lines, stdout};

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace).display().to_string()
}

/// The lines of a file, printed.
fn printed(folder: &Folder, code: i32, says: &[&str]) -> String {
    folder.run_with("print --format jsonl", &["lines.jsonl"]).ends(code, says).stdout
}

fn write(folder: &Folder, text: &str) {
    fs::write(folder.path("lines.jsonl"), text).expect("the file can be written");
}

#[test]
fn lines_of_traces_come_back() {
    for trace in ["losses", "mill", "orders", "overwritten"] {
        let folder = Folder::new();
        let path = demo(trace);
        let lines = stdout("print --format jsonl -q", &[&path]);
        assert!(lines.lines().count() > 10);
        write(&folder, &lines);
        let again = printed(&folder, 0, &[]);
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&again), sorted(&lines));
        // A folder that holds the trace and its lines is one trace.
        folder.run_with("convert -q --to ctf2 -o both/trace", &["lines.jsonl"]).ends(0, &[]);
        fs::copy(folder.path("lines.jsonl"), folder.path("both/lines.jsonl")).expect("it can be copied");
        let read = json_lines(&folder.run_with("print --format jsonl -q", &["both"]).ends(0, &[]).stdout);
        let key = |line: &Value| (line["ns"].clone(), line["name"].clone(), line["payload"].clone());
        let order = |lines: &mut Vec<(Value, Value, Value)>| lines.sort_by_key(|line| format!("{line:?}"));
        let (mut read, mut want) =
            (read.iter().map(key).collect(), json_lines(&lines).iter().map(key).collect::<Vec<_>>());
        order(&mut read);
        order(&mut want);
        assert_eq!(read, want);
    }
}

#[test]
fn values_of_all_kinds_come_back() {
    let folder = Folder::new();
    let head = r#"{"ns":7,"cycles":null,"name":"x","id":3,"stream":1,"payload":{"v":"#;
    let values = [
        "1",
        "-1",
        "18446744073709551615",
        "-9223372036854775808",
        "340282366920938463463374607431768211456",
        "-340282366920938463463374607431768211456",
        "1.5",
        "-0.0",
        "1e300",
        "\"NaN\"",
        "\"Infinity\"",
        "\"text \u{1f33e} \\\" \\\\ \\n \\u0001\"",
        "\"NaN \"",
        "null",
        "true",
        "false",
        "{}",
        "[]",
        "[1,300,-5]",
        "[null,1,\"a\"]",
        "[[1],[],[2,3]]",
        "[{\"a\":1},{\"b\":2}]",
        "{\"value\":2,\"labels\":[\"a\",\"b\"]}",
        "{\"value\":3,\"labels\":[]}",
        "{\"value\":5,\"flags\":[\"r\"]}",
        "{\"media_type\":\"text/plain\",\"base64\":\"aGk=\"}",
        "{\"media_type\":\"text/plain\",\"base64\":\"a\"}",
        "{\"option\":{\"x\":1}}",
        "[null,null,null]",
    ];
    let lines: String = values.iter().map(|value| format!("{head}{value}}}}}\n")).collect();
    write(&folder, &lines);
    assert_eq!(printed(&folder, 0, &[]), lines);
    folder.run_with("convert -q --to ctf2 -o out", &["lines.jsonl"]).ends(0, &[]);
    let read = json_lines(&folder.run_with("print --format jsonl", &["out"]).ends(0, &[]).stdout);
    let payloads = |lines: &[Value]| lines.iter().map(|line| line["payload"].to_string()).collect::<Vec<_>>();
    assert_eq!(payloads(&read), payloads(&json_lines(&lines)));
}

#[test]
fn clock_values_come_back_whatever_the_clock() {
    let folder = Folder::new();
    let mut lines = String::new();
    for at in 0..2000u64 {
        let cycles = at * 1_234_567 + at % 7;
        let ns = 1_700_000_000_000_000_000 + u128::from(cycles) * 1_000_000_000 / 2_399_998_123;
        lines += &format!(
            "{{\"ns\":{ns},\"cycles\":{cycles},\"name\":\"a\",\"id\":1,\"stream\":0,\"cpu\":{},\"packet_context\":{{\"n\":{}}}}}\n",
            at % 3,
            at / 100
        );
    }
    // Negative times have no clock value; an event may have no time at all.
    lines += "{\"ns\":1700000009000000000,\"cycles\":null,\"name\":\"b\",\"id\":2,\"stream\":4}\n";
    lines += "{\"ns\":null,\"cycles\":null,\"name\":\"c\",\"id\":3,\"stream\":4}\n";
    write(&folder, &lines);
    assert_eq!(printed(&folder, 0, &[]), lines);
    write(
        &folder,
        "{\"ns\":-5,\"cycles\":null,\"name\":\"a\",\"id\":1}\n{\"ns\":7,\"cycles\":null,\"name\":\"a\",\"id\":1}\n",
    );
    assert_eq!(printed(&folder, 0, &[]).lines().count(), 2);
    let odd = "{\"ns\":1,\"cycles\":1,\"name\":\"a\"}\n{\"ns\":2,\"cycles\":1,\"name\":\"a\"}\n";
    write(&folder, odd);
    assert!(printed(&folder, 0, &["no clock gives the `ns` of all lines"]).contains("\"ns\":2,\"cycles\":null"));
}

#[test]
fn traces_in_one_file_are_kept_apart() {
    let folder = Folder::new();
    let line = |trace: &str, ns: u32| {
        format!(
            "{{\"trace\":\"{trace}\",\"ns\":{ns},\"cycles\":null,\"name\":\"a\",\"id\":0,\"stream\":0,\"payload\":{{}}}}\n"
        )
    };
    let lines: String = (0..10).map(|at| line(if at % 3 == 0 { "x/one" } else { "two" }, at)).collect();
    write(&folder, &lines);
    assert_eq!(printed(&folder, 0, &[]), lines);
    let info: Value =
        serde_json::from_str(&folder.run_with("info --json --count", &["lines.jsonl"]).stdout).expect("JSON");
    let traces = info["traces"].as_array().expect("a list");
    let counts: Vec<_> = traces.iter().map(|trace| (&trace["name"], &trace["event_classes"][0]["events"])).collect();
    assert_eq!(format!("{counts:?}"), r#"[(String("x/one"), Number(4)), (String("two"), Number(6))]"#);
}

#[test]
fn wrong_lines_are_told_and_the_others_read() {
    let folder = Folder::new();
    let good = "{\"ns\":1,\"cycles\":null,\"name\":\"a\",\"id\":1,\"payload\":{\"s\":\"x\"}}\n";
    let wrong = [
        ("not json", "begins with `{`"),
        ("{\"ns\":1,\"name\":\"a", "ends in the middle"),
        ("{\"cycles\":1}", "no key `ns`"),
        ("{\"ns\":\"1\"}", "`ns` is an integer"),
        ("{\"ns\":1,\"cycles\":-1}", "`cycles` is an integer"),
        ("{\"ns\":1,\"payload\":[1]}", "are an object"),
        ("{\"ns\":1,\"payload\":{\"a\":01}}", "not a number of JSON"),
        ("{\"ns\":1,\"payload\":{\"a\":\"\\x\"}}", "no such escape"),
        ("{\"ns\":1,\"payload\":{\"a\":\"\\u0000\"}}", "U+0000"),
        ("{\"ns\":1} {}", "after the object"),
        ("{\"ns\":1,\"payload\":{\"a\":", "ends in the middle"),
    ];
    let mut lines = good.to_string();
    for (line, _) in wrong {
        lines += &format!("{line}\n{good}");
    }
    write(&folder, &lines);
    for (at, (_, reason)) in wrong.iter().enumerate() {
        let place = format!("line {}: ", at * 2 + 2);
        let run = folder.run_with("print --format jsonl", &["lines.jsonl"]).ends(3, &[]);
        let told: Vec<&str> = run.stderr.lines().filter(|line| line.contains(&place)).collect();
        assert_eq!(told.len(), 1, "{}", run.stderr);
        assert!(told[0].contains(reason) && told[0].contains("lines.jsonl: byte "), "{}", told[0]);
        assert_eq!(run.stdout, good.repeat(wrong.len() + 1));
    }
    // An unknown key is no fault.
    write(&folder, &good.replace("\"id\"", "\"what\":1,\"id\""));
    assert_eq!(printed(&folder, 0, &["the key `what` is not known"]), good);
    // Time that goes back is the producer's.
    write(&folder, &(good.replace("\"ns\":1", "\"ns\":2") + good));
    assert_eq!(printed(&folder, 0, &["time goes back"]).lines().count(), 2);
    write(&folder, "{\"a\":1}\n");
    folder.run_with("print", &["lines.jsonl"]).ends(1, &["not a trace of a known format"]);
}

#[test]
fn the_last_line_may_end_without_a_line_feed() {
    let folder = Folder::new();
    let line = |n: u32| format!("{{\"ns\":{n},\"name\":\"y\",\"payload\":{{\"a\":{n}}}}}");
    folder.file("open.jsonl", format!("{}\n{}", line(1), line(2)));
    let run = folder.run("print --format csv --columns a open.jsonl").ends(0, &[]);
    assert_eq!((&*run.stdout, &*run.stderr), ("a\n1\n2\n", ""));
}

#[test]
fn control_characters_in_strings_are_escapes() {
    let folder = Folder::new();
    folder.file("bad.jsonl", "{\"ns\":1,\"name\":\"y\",\"payload\":{\"a\":\"x\u{0}y\"}}\n{\"ns\":2,\"name\":\"y\",\"payload\":{\"a\":\"z\"}}\n");
    let run = folder.run("print --format csv --columns a bad.jsonl");
    let run =
        run.ends(3, &["bad.jsonl: byte 36: line 1: a control character in a string must be written as an escape"]);
    assert_eq!(run.stdout, "a\nz\n");
}

#[test]
fn no_lines_are_a_trace_without_events_when_the_user_says_so() {
    let folder = Folder::new();
    write(&folder, "\n");
    let run = folder.run("print --format jsonl --input-format jsonl lines.jsonl").ends(0, &[]);
    assert_eq!((&*run.stdout, &*run.stderr), ("", ""));
    folder.run("convert --to ctf2 -o empty --input-format jsonl lines.jsonl").ends(0, &[]);
    folder.run("check empty").ends(0, &[]);
    folder.run("print lines.jsonl").ends(1, &["not a trace of a known format"]);
}
