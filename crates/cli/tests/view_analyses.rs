//! `view`: what a page asks of analyses is what `analyze` says.
#![cfg(feature = "viewer")]

mod util;
#[path = "util/viewer.rs"]
mod viewer;

use std::process::Command;

use serde_json::{Value, json};
use util::demo;
use viewer::Viewer;

/// The JSON of `tracemill analyze`.
fn analyzed(words: &[&str], trace: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracemill"));
    let output = command.arg("analyze").args(words).args(["--format", "json", trace]).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A number of an answer as the command has it: times, durations and long numbers are texts there.
fn is_same(answer: &Value, command: &Value) -> bool {
    match (answer, command) {
        (Value::String(text), Value::Number(number)) => *text == number.to_string(),
        // A fraction may be written in two ways, which this reader does not read to the last bit.
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap_or(0.0), other.as_f64().unwrap_or(0.0));
            (one - other).abs() <= other.abs() * 1e-12
        }
        _ => answer == command,
    }
}

/// Compares the rows of a table with those of the command, by the names of the columns.
fn compare_rows(columns: &Value, rows: &Value, wanted: &Value, what: &str) {
    let names: Vec<&str> =
        columns.as_array().expect("columns").iter().map(|column| column["name"].as_str().expect("a name")).collect();
    let (rows, wanted) = (rows.as_array().expect("rows"), wanted.as_array().expect("rows"));
    assert_eq!(rows.len(), wanted.len(), "{what}");
    for (row, wanted) in rows.iter().zip(wanted) {
        let cells = row.as_array().expect("cells");
        assert_eq!(cells.len(), names.len(), "{what}");
        for (name, cell) in names.iter().zip(cells) {
            assert!(is_same(cell, &wanted[name]), "{what}, {name}: {cell} and {}", wanted[name]);
        }
        let keys = wanted.as_object().expect("a row").keys();
        keys.for_each(|key| assert!(names.contains(&key.as_str()), "{what}: {key}"));
    }
}

#[test]
fn tables_are_those_of_analyze() {
    let trace = demo("../kernel/bakery");
    let viewer = Viewer::new(&[&trace]);
    assert!(viewer.get("session")["features"].as_array().expect("a list").contains(&json!("analyses")));
    let list = viewer.get("analyze");
    let analyses = list["analyses"].as_array().expect("a list").clone();
    assert!(analyses.len() > 10, "{list}");
    let (begin, end) = ("1795249870300020000", "1795249870700020000");
    let mut compared = 0;
    for analysis in &analyses {
        let name = analysis["name"].as_str().expect("a name");
        for form in analysis["forms"].as_array().expect("forms") {
            let takes = |option: &str| form["takes"].as_array().expect("options").contains(&json!(option));
            let of = form["of"].as_str();
            let keys: Vec<Option<&str>> = form["keys"].as_array().expect("keys").iter().map(Value::as_str).collect();
            for key in if keys.is_empty() { vec![None] } else { keys } {
                let views: &[&str] =
                    if form["spans"] == true { &["statistics", "log", "top"] } else { &["statistics"] };
                for view in views {
                    // Lists have no groups, but for those that are chosen by a key.
                    let key = key.filter(|key| *view == "statistics" || (name, *key) == ("io", "disk"));
                    let mut question = format!("analyze?name={name}&end={end}&limit=10000&view={view}&top=7");
                    let mut words = vec![name, "--end"];
                    let times = [begin, end].map(|time| format!("{time}ns"));
                    words.push(&times[1]);
                    if takes("begin") {
                        question += &format!("&begin={begin}");
                        words.extend(["--begin", &times[0]]);
                    }
                    if let Some(key) = key {
                        question += &format!("&by={key}");
                        words.extend(["--by", key]);
                    }
                    let switch = of.map(|of| format!("--{of}"));
                    if let Some(of) = of {
                        question += &format!("&of={of}");
                        match of {
                            "switches" | "slab" => words.extend(switch.as_deref()),
                            of => words.extend(["--of", of]),
                        }
                    }
                    if ["path", "why"].contains(&name) {
                        question += "&tid=641";
                        words.extend(["--tid", "641"]);
                    }
                    match *view {
                        "log" => words.push("--log"),
                        "top" => words.extend(["--top", "7"]),
                        _ => {}
                    }
                    if name == "periods" || of == Some("tree") {
                        continue;
                    }
                    let (status, body) = viewer.ask("GET", &format!("/api/{question}"), "");
                    // Some kinds of rows need events that this trace does not have; then the command has none either.
                    if status == 404 {
                        let mut command = Command::new(env!("CARGO_BIN_EXE_tracemill"));
                        let output = command.arg("analyze").args(&words).arg(&trace).output().expect("it starts");
                        assert_eq!(output.status.code(), Some(1), "{words:?}");
                        continue;
                    }
                    assert_eq!(status, 200, "{question}: {}", String::from_utf8_lossy(&body));
                    let answer: Value = serde_json::from_slice(&body).expect("JSON");
                    let wanted = analyzed(&words, &trace);
                    let what = words.join(" ");
                    compare_rows(&answer["columns"], &answer["rows"], &wanted["rows"], &what);
                    for (key, value) in wanted["all"].as_object().expect("sums") {
                        assert!(is_same(&answer["all"][key], value), "{what}: {key}");
                    }
                    if wanted.get("totals").is_some() {
                        compare_rows(&answer["totals"]["columns"], &answer["totals"]["rows"], &wanted["totals"], &what);
                    }
                    let sentences = wanted.get("sentences").cloned().unwrap_or_else(|| json!([]));
                    assert_eq!(answer["sentences"], sentences, "{what}");
                    assert!(is_same(&answer["begin"], &wanted["begin_ns"]), "{what}");
                    assert!(is_same(&answer["end"], &wanted["end_ns"]), "{what}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn questions_that_no_analysis_answers_are_refused() {
    let viewer = Viewer::new(&[&demo("../kernel/bakery")]);
    for (question, status, words) in [
        ("name=nosuch", 404, "unknown analysis `nosuch`"),
        ("name=sched&by=moon", 400, "no groups `moon`"),
        ("name=sched&of=files", 400, "no rows of `files`"),
        ("name=cpu&view=log", 400, "does not take --log"),
        ("name=sched&view=upside", 400, "`view` is not"),
        ("name=why", 400, "does not name one"),
        ("name=why&tid=641&view=log", 400, "does not take --log"),
        ("name=path&tid=1,2", 400, "does not name one"),
        ("name=sched&tid=x", 400, "not a list of numbers"),
        ("name=sched&sort=moon", 400, "no column `moon`"),
        ("name=periods", 400, "needs one"),
        ("name=periods&period=a", 400, "not the id"),
        ("name=sched&period=q.a.b.c..", 400, "needs one"),
        ("name=periods&period=q.a.-28-28.b..", 400, ""),
        ("name=memory&begin=1&end=99999999999999999999999999999999999999", 200, ""),
        ("name=sched&view=points&begin=-99999999999999999999999999999999999999", 200, ""),
    ] {
        let (found, body) = viewer.ask("GET", &format!("/api/analyze?{question}"), "");
        let text = String::from_utf8_lossy(&body).to_string();
        assert!(found == status && text.contains(words), "{question}: {found} {text}");
    }
    for question in ["track=s0.cpu0", "track=s0.99999.0", "track=g0", ""] {
        let (status, _) = viewer.ask("GET", &format!("/api/why?{question}"), "");
        assert!([400, 404].contains(&status), "{question}: {status}");
    }
    // A trace of a program has none of it.
    let viewer = Viewer::new(&[&demo("mill")]);
    assert_eq!(viewer.ask("GET", "/api/why?track=s0.641.0", "").0, 404);
    let (features, list) = (viewer.get("session")["features"].clone(), viewer.get("analyze"));
    assert!(!features.as_array().expect("a list").contains(&json!("why")), "{features} {list}");
}

#[test]
fn states_say_why_in_the_words_of_analyze() {
    let trace = demo("../kernel/bakery");
    let viewer = Viewer::new(&[&trace]);
    let track = "s0.641.0";
    let (mut at, mut waits) = ("1795249870250020000".to_string(), 0);
    while waits < 12 {
        let state = viewer.get(&format!("locate?track={track}&at={at}&direction=next"));
        let (Some(begin), Some(end)) = (state["begin"].as_str(), state["end"].as_str()) else { break };
        at = begin.to_string();
        if !["blocked", "runnable", "interrupt"].contains(&state["name"].as_str().expect("a name")) {
            continue;
        }
        waits += 1;
        let answer = viewer.get(&format!("why?track={track}&begin={begin}&end={end}"));
        let times = [begin, end].map(|time| format!("{time}ns"));
        let wanted = analyzed(&["why", "--tid", "641", "--begin", &times[0], "--end", &times[1]], &trace);
        let (parts, rows) = (answer["parts"].as_array().expect("parts"), wanted["rows"].as_array().expect("rows"));
        assert!(!parts.is_empty() && parts.len() == rows.len(), "{answer}");
        for (part, row) in parts.iter().zip(rows) {
            for key in ["from", "to", "tid", "comm", "state", "why", "through"] {
                assert!(is_same(&part[key], &row[key]) || part[key] == row[key], "{key}: {part} and {row}");
            }
            assert_eq!(part["track"], format!("s0.{}.0", row["tid"]));
        }
        assert_eq!(answer["sentence"], wanted["sentences"][0]);
        // No wait of this thread is cut: each has its reason.
        assert!(parts.iter().all(|part| part["state"] != "blocked"), "{answer}");
        assert_eq!((&parts[0]["from"], &parts[parts.len() - 1]["to"]), (&json!(begin), &json!(end)));
    }
    assert_eq!(waits, 12);
}

#[test]
fn durations_over_time_are_the_spans_of_analyze() {
    let trace = demo("../kernel/bakery");
    let viewer = Viewer::new(&[&trace]);
    for name in ["sched", "syscalls", "irq", "locks"] {
        let answer = viewer.get(&format!("analyze?name={name}&view=points&limit=3"));
        let wanted = analyzed(&[name, "--log"], &trace);
        let rows = wanted["rows"].as_array().expect("rows");
        let (begin, duration) = if name == "sched" { ("wake_ns", "latency_ns") } else { ("from", "duration_ns") };
        let mut spans: Vec<(i64, i64)> =
            rows.iter().filter_map(|row| Some((row[begin].as_i64()?, row[duration].as_i64()?))).collect();
        spans.sort_unstable();
        let points = &answer["points"];
        let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).expect("a number");
        let shown: Vec<(i64, i64)> = points["points"]
            .as_array()
            .expect("points")
            .iter()
            .map(|point| (number(&point["begin"]), number(&point["duration"])))
            .collect();
        assert_eq!(shown, spans, "{name}");
        assert_eq!((&answer["total"], answer["rows"].as_array().map(Vec::len)), (&json!(spans.len()), Some(3)));
        let sum = |cells: &Value, at: usize| -> u64 {
            cells.as_array().expect("cells").iter().map(|cell| cell[at].as_u64().expect("a count")).sum()
        };
        assert_eq!(sum(&points["heat"]["cells"], 2), spans.len() as u64, "{name}");
        assert_eq!(sum(&points["histogram"], 1), spans.len() as u64, "{name}");
        // A point leads to the state of its thread.
        if name != "irq" {
            let point = &points["points"][0];
            let track = point["track"].as_str().expect("a track");
            assert_eq!(viewer.get(&format!("locate?track={track}&at={}", number(&point["begin"])))["track"], track);
        }
    }
}

#[test]
fn periods_are_tracks_that_show_which_missed_their_deadline() {
    let trace = demo("../kernel/bakery");
    let viewer = Viewer::new(&[&trace]);
    let (begin, end) = ("name == \"net_if_receive_skb\"", "name == \"net_dev_xmit\"");
    let encoded = |text: &str| -> String {
        text.bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() || byte == b'_' {
                    char::from(byte).to_string()
                } else {
                    format!("-{byte:02X}")
                }
            })
            .collect()
    };
    let words = ["periods", "--log", "--period", "order", "--period-begin", begin, "--period-end", end];
    let wanted = analyzed(&words, &trace);
    let rows = wanted["rows"].as_array().expect("rows");
    let mut durations: Vec<i64> = rows.iter().map(|row| row["duration_ns"].as_i64().expect("ns")).collect();
    durations.sort_unstable();
    assert!(durations.len() > 5);
    let deadline = durations[durations.len() * 3 / 4];
    let late = durations.iter().filter(|duration| **duration > deadline).count();
    assert!(late > 0);
    let id = format!("q.order.{}.{}..{deadline}", encoded(begin), encoded(end));
    let track = viewer.get(&format!("track/{id}"));
    assert_eq!((&track["id"], &track["missed"], &track["name"]), (&json!(id), &json!(late), &json!("order")));
    assert_eq!(track["states"], durations.len());
    // Every period is where `analyze` has it.
    for row in rows {
        let (from, to) = (row["from"].as_i64().expect("ns"), row["to"].as_i64().expect("ns"));
        let found = viewer.get(&format!("locate?track={id}&at={from}&direction=at"));
        let word = if to - from > deadline { "missed" } else { "met" };
        assert_eq!((&found["name"], &found["end"]), (&json!(word), &json!(to.to_string())), "{found}");
    }
    let session = viewer.get("session");
    let number = |key: &str| -> i64 { session[key].as_str().expect("ns").parse().expect("a number") };
    let last = (number("end") - number("origin")) >> 30;
    let tiles = viewer.get(&format!("tiles?tracks={id}&level=20&from=0&to={last}"));
    let slices = tiles["tracks"][0]["n"].as_array().expect("counts");
    assert_eq!(slices.iter().map(|n| n.as_u64().expect("a count")).sum::<u64>(), durations.len() as u64);
    // The table is that of the command, and says how many were late.
    let answer = viewer.get(&format!("analyze?name=periods&view=log&limit=10000&period={id}"));
    compare_rows(&answer["columns"], &answer["rows"], &wanted["rows"], "periods");
    assert_eq!(
        answer["missed"],
        json!({ "deadline": deadline.to_string(), "periods": durations.len(), "missed": late })
    );
    // Ids that make no sense are refused.
    for (wrong, status) in [("q.a.-28.b..", 400), ("q.a.b..", 404), ("q...c..", 404)] {
        assert_eq!(viewer.ask("GET", &format!("/api/track/{wrong}"), "").0, status, "{wrong}");
    }
}

/// States that the user defines are an analysis where the command line names their file, and none without.
#[test]
fn states_of_a_file_have_tables() {
    let (trace, file) = (demo("orders"), demo("../states/orders.states"));
    let names = |viewer: &Viewer| {
        let list = viewer.get("analyze")["analyses"].as_array().expect("a list").clone();
        list.iter().map(|analysis| analysis["name"].as_str().expect("a name").to_string()).collect::<Vec<_>>()
    };
    let without = Viewer::new(&[&trace]);
    assert!(!names(&without).contains(&"custom".to_string()));
    assert_eq!(without.ask("GET", "/api/analyze?name=custom", "").0, 404);
    let viewer = Viewer::new(&[&trace, "--states", &file]);
    assert!(names(&viewer).contains(&"custom".to_string()));
    let mut compared = 0;
    for (of, view, words) in [("", "statistics", &[][..]), ("", "log", &["--log"]), ("counters", "statistics", &[])] {
        let mut all = vec!["custom", "--states", &*file];
        all.extend(words);
        let mut question = format!("analyze?name=custom&limit=10000&view={view}");
        if !of.is_empty() {
            question += &format!("&of={of}");
            all.extend(["--of", of]);
        }
        let (answer, wanted) = (viewer.get(&question), analyzed(&all, &trace));
        compare_rows(&answer["columns"], &answer["rows"], &wanted["rows"], &all.join(" "));
        compared += wanted["rows"].as_array().expect("rows").len();
    }
    assert!(compared > 20, "{compared}");
}
