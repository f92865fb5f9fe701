//! Names and texts that are empty, very long, or hold control characters and U+0000, in every format that is written.

mod util;

use std::fmt::Write;

use serde_json::{Value, json};
use util::{Folder, stdout};

/// Names that somebody may give to something.
fn names() -> Vec<String> {
    let plain = [
        "",
        "nul\0z",
        "\u{1}\u{1f}\u{7f}\t\"\\",
        "line\nfeed",
        "\u{e9}\u{2028}\u{1f600}",
        "a/b;c d",
        "..",
        "%s%n",
        "</script>&]]>",
    ];
    plain.into_iter().map(str::to_string).chain(["n".repeat(70_000), "\u{1f600}".repeat(90)]).collect()
}

/// Formats that are written, and whether they are read, too.
fn targets() -> Vec<(String, bool)> {
    let list: Value = serde_json::from_str(&stdout("formats --json", &[])).expect("it is JSON");
    let formats = list["formats"].as_array().expect("a list").iter().filter(|format| format["write"] == true);
    let of = |format: &Value| (format["name"].as_str().expect("it has one").to_string(), format["read"] == true);
    let targets: Vec<_> = formats.map(of).collect();
    assert!(targets.len() > 12, "{targets:?}");
    targets
}

/// Lines of events, one for each name and each of `halves`: what makes a line gets the name and the number of the line.
fn lines(halves: &[&str], line: impl Fn(&str, &str) -> Value) -> (String, usize) {
    let (mut text, mut count) = (String::new(), 0);
    for name in names() {
        for half in halves {
            // The time comes first, by which the format is known.
            let line = line(&name, half).to_string();
            let _ = writeln!(text, "{{\"ns\":{},{}", 1000 + count, &line[1..]);
            count += 1;
        }
    }
    (text, count)
}

/// Converts lines to every target: none fails, all JSON is JSON, and what is read back has the same number of events.
fn every_target(text: &str, count: usize) {
    let folder = Folder::new();
    folder.file("odd.jsonl", text);
    for (target, is_read) in targets() {
        let run = folder.run(&format!("convert -q --force --to {target} -o out.{target} odd.jsonl"));
        let is_profile = ["firefox", "speedscope", "folded", "svg"].contains(&&*target);
        if is_profile && run.code == Some(1) && run.stderr.contains("the trace has no calls") {
            continue;
        }
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{target}");
        if is_read {
            let run = folder.run(&format!("print -q --format jsonl out.{target}"));
            // A text of JSON may hold U+0000, and is refused then, as it is in lines.
            let refused = run.stderr.matches("a string holds the character U+0000; the event is skipped").count();
            let is_whole = refused == 0 || target == "chrome" && refused == 1;
            assert!(is_whole && run.code == Some(if refused == 0 { 0 } else { 3 }), "{target}: {}", run.stderr);
            let events = run.stdout.lines().count() + refused;
            let is_right = match &*target {
                // Calls only; events that fit into a page; and events that say which facilities there are.
                "uftrace" => events <= count,
                "ftrace" => events + 1 >= count && events <= count,
                "lttng-legacy" => events > count,
                // Stretches between calls, and markers.
                _ if is_profile => events > 0,
                _ => events == count,
            };
            assert!(is_right, "{target}: {events} of {count}");
        }
        if ["chrome", "speedscope", "firefox"].contains(&&*target) {
            let bytes = std::fs::read(folder.path(&format!("out.{target}"))).expect("it was written");
            serde_json::from_slice::<Value>(&bytes).unwrap_or_else(|error| panic!("{target}: {error}"));
        }
    }
}

#[test]
fn names_of_events() {
    let (text, count) = lines(&[""], |name, _| json!({"name": name, "payload": {"n": 1, "s": "t"}}));
    every_target(&text, count);
}

#[test]
fn names_of_fields() {
    let (text, count) = lines(&[""], |name, _| json!({"name": "e", "payload": {name: 1, "other": "t"}}));
    every_target(&text, count);
}

#[test]
fn names_of_traces_and_values() {
    let (text, count) =
        lines(&[""], |name, _| json!({"trace": name, "name": "e", "payload": {"of": {"value": 1, "labels": [name]}}}));
    every_target(&text, count);
}

#[test]
fn names_of_calls_and_threads() {
    let (text, count) = lines(
        &["begin", "end"],
        |name, half| json!({"name": format!("{name}_{half}"), "stream_context": {"vtid": 1, "procname": name.replace('\0', "")}}),
    );
    every_target(&text, count);
}

#[test]
fn texts() {
    let (text, count) =
        lines(&[""], |name, _| json!({"name": "e", "payload": {"s": name.replace('\0', "zero"), "n": 1}}));
    every_target(&text, count);
}

/// A line that is refused is shown nowhere, whatever it was refused for.
#[test]
fn lines_that_are_refused_are_not_shown() {
    let folder = Folder::new();
    let line =
        |ns: u32, a: &str, b: &str| json!({"ns": ns, "name": "e", "payload": {"a": a, "b": b}}).to_string() + "\n";
    folder.file("zero.jsonl", line(1, "x", "y") + &line(2, "user\0secret", "zz") + &line(3, "p", "q"));
    let run = folder.run("print --format jsonl zero.jsonl").ends(3, &["line 2", "U+0000", "skipped"]);
    assert!(run.stdout.lines().count() == 2 && !run.stdout.contains("user"), "{}", run.stdout);
    // An integer that fits, and one that would make the field of both too large.
    let wide = format!("{{\"ns\":1,\"name\":\"e\",\"payload\":{{\"n\":1{}}}}}\n", "0".repeat(308));
    folder.file("wide.jsonl", format!("{wide}{{\"ns\":2,\"name\":\"e\",\"payload\":{{\"n\":-1}}}}\n"));
    let run = folder.run("print --format jsonl wide.jsonl");
    assert_eq!(run.stdout.lines().count(), if run.code == Some(0) { 2 } else { 1 }, "{}", run.stderr);
}
