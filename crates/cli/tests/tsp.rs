//! `view --tsp` has the figures of `analyze`, `report` and of the events, of the same traces.
#![cfg(feature = "viewer")]

mod util;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use util::{Folder, demo, json_lines, run_with, stdout};

/// A trace server, and an experiment of the traces that it was started with.
struct Opened {
    child: Child,
    host: String,
    uuid: String,
    begin: i64,
    end: i64,
}

impl Opened {
    fn new(traces: &[&str]) -> Opened {
        Opened::with(&[], traces)
    }

    fn with(options: &[&str], traces: &[&str]) -> Opened {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tracemill"));
        command.args(["view", "--tsp=0", "--no-cache"]).args(options).args(traces).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let host = line.trim().trim_start_matches("http://").split('/').next().expect("an address").to_string();
        let mut opened = Opened { child, host, uuid: String::new(), begin: 0, end: 0 };
        let import =
            |path: &&str| opened.ok("POST", "/traces", &json!({ "parameters": { "uri": path } }))["UUID"].clone();
        let uuids: Vec<Value> = traces.iter().map(import).collect();
        let made = opened.ok("POST", "/experiments", &json!({ "parameters": { "name": "all", "traces": uuids } }));
        opened.uuid = made["UUID"].as_str().expect("a text").to_string();
        let read = loop {
            let now = opened.ok("GET", &format!("/experiments/{}", opened.uuid), &Value::Null);
            if now["indexingStatus"] == "COMPLETED" {
                break now;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        (opened.begin, opened.end) = (read["start"].as_i64().expect("a time"), read["end"].as_i64().expect("a time"));
        opened
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} /tsp/api{path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.host,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head[9..12].parse().expect("a status"), serde_json::from_str(body).expect("JSON"))
    }

    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    fn outputs(&self) -> Vec<Value> {
        let list = self.ok("GET", &format!("/experiments/{}/outputs", self.uuid), &Value::Null);
        list.as_array().expect("a list").clone()
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", &format!("/experiments/{}/outputs/{path}", self.uuid), body)
    }

    fn model(&self, path: &str, parameters: &Value) -> Value {
        let (status, answer) = self.post(path, &json!({ "parameters": parameters }));
        assert_eq!((status, &answer["status"]), (200, &json!("COMPLETED")), "{path}: {answer}");
        answer["model"].clone()
    }

    /// The entries of a tree that have data: their numbers and labels.
    fn entries(&self, path: &str) -> Vec<(i64, Vec<String>)> {
        let tree = self.model(path, &json!({}));
        let own = list(&tree["entries"]).iter().filter(|entry| entry["hasData"] == true);
        own.map(|entry| (number(&entry["id"]) as i64, texts(&entry["labels"]))).collect()
    }

    /// A chart with all its series.
    fn chart(&self, id: &str, range: (i64, i64), count: usize) -> Value {
        let ids: Vec<i64> = self.entries(&format!("XY/{id}/tree")).into_iter().map(|(id, _)| id).collect();
        let range = json!({ "start": range.0, "end": range.1, "nbTimes": count });
        let asked = json!({ "requested_timerange": range, "requested_items": ids });
        self.model(&format!("XY/{id}/xy"), &asked)
    }

    /// The points of all series of a chart by name.
    fn series(&self, id: &str, range: (i64, i64), count: usize) -> BTreeMap<String, Vec<(i64, f64)>> {
        let chart = self.chart(id, range, count);
        let series = list(&chart["series"]).iter().map(|one| {
            let x = list(&one["xValues"]).iter().map(|at| at.as_i64().expect("a time"));
            let y = list(&one["yValues"]).iter().map(|value| value.as_f64().expect("a number"));
            (one["seriesName"].as_str().expect("a text").to_string(), x.zip(y).collect())
        });
        series.collect()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], |list| list)
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().map(|text| text.as_str().expect("a text").to_string()).collect()
}

fn number(value: &Value) -> i128 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    text.parse().unwrap_or_else(|_| panic!("no whole number: {value}"))
}

/// Rows of an analysis.
fn analyzed(arguments: &str, more: &[&str]) -> Vec<Value> {
    let output = run_with(&format!("analyze -q {arguments} --format jsonl"), more);
    assert_eq!(output.code, Some(0), "{arguments}: {}", output.stderr);
    json_lines(&output.stdout)
}

#[test]
fn points_are_the_system_calls_of_analyze() {
    let bakery = demo("../kernel/bakery");
    let opened = Opened::new(&[&bakery]);
    let mut wanted: BTreeMap<String, Vec<(i64, f64)>> = BTreeMap::new();
    for row in analyzed("syscalls --log", &[&bakery]) {
        let name = row["name"].as_str().expect("a text").to_string();
        wanted.entry(name).or_default().push((number(&row["from"]) as i64, number(&row["duration_ns"]) as f64));
    }
    wanted.values_mut().for_each(|points| points.sort_by_key(|(at, ns)| (*at, *ns as i64)));
    let whole = (opened.begin, opened.end);
    assert_eq!(opened.series("system-calls-scatter", whole, 65_536), wanted);
    // A part of the time.
    let middle = opened.begin + (opened.end - opened.begin) / 2;
    let of_half: BTreeMap<_, Vec<_>> = wanted
        .iter()
        .map(|(name, points)| (name.clone(), points.iter().copied().filter(|(at, _)| *at >= middle).collect()))
        .collect();
    assert_eq!(opened.series("system-calls-scatter", (middle, opened.end), 65_536), of_half);
    // Thinned: no more than are asked for, the extremes among them.
    let few = opened.series("system-calls-scatter", whole, 20);
    assert!(wanted.values().any(|points| points.len() > 20));
    for (name, points) in &wanted {
        let shown = &few[name];
        assert!(shown.len() <= 20 && shown.iter().all(|point| points.contains(point)), "{name}: {shown:?}");
        let ends = |of: &[(i64, f64)]| {
            let ns = || of.iter().map(|(_, ns)| *ns as i64);
            (ns().min(), ns().max())
        };
        assert_eq!(ends(shown), ends(points), "{name}");
        assert!(points.len() > 20 || shown == points, "{name}");
    }
    // The axis says so.
    for one in list(&opened.chart("system-calls-scatter", whole, 20)["series"]) {
        let name = one["seriesName"].as_str().expect("a text");
        let label = if wanted[name].len() > 20 { "Latency (extremes only)" } else { "Latency" };
        assert_eq!(one["yValuesDescription"]["label"], label, "{name}");
    }
}

#[test]
fn statistics_of_system_calls_are_those_of_analyze() {
    let bakery = demo("../kernel/bakery");
    let opened = Opened::new(&[&bakery]);
    let rows_of = |range: &[&str]| -> BTreeMap<String, [String; 6]> {
        let rows = analyzed("syscalls", &[range, &[&bakery]].concat());
        let of = |row: &Value| {
            let whole = ["count", "total_ns", "min_ns", "max_ns"].map(|key| number(&row[key]).to_string());
            let [count, total, min, max] = whole;
            let rounded = |key: &str| format!("{:.1}", row[key].as_f64().expect("a number"));
            [count, total, min, max, rounded("mean_ns"), rounded("deviation_ns")]
        };
        rows.iter().map(|row| (row["name"].as_str().expect("a text").to_string(), of(row))).collect()
    };
    let shown = |parameters: Value, below: &str| -> BTreeMap<String, [String; 6]> {
        let tree = opened.model("data/system-call-statistics/tree", &parameters);
        let entries = list(&tree["entries"]);
        let parent = entries.iter().find(|entry| entry["labels"][0] == below).expect("a heading");
        let own = entries.iter().filter(|entry| entry["parentId"] == parent["id"] && entry["hasData"] == true);
        own.map(|entry| {
            let mut labels = texts(&entry["labels"]);
            (labels.remove(0), labels.try_into().expect("seven columns"))
        })
        .collect()
    };
    assert_eq!(shown(json!({}), "bakery"), rows_of(&[]));
    let (begin, end) = (opened.begin + 100_000_000, opened.begin + 200_000_000);
    let part = json!({ "requested_timerange": { "start": begin, "end": end } });
    let times = [begin, end].map(|ns| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000));
    let of_part = rows_of(&["--begin", &times[0], "--end", &times[1]]);
    assert!(!of_part.is_empty() && of_part != rows_of(&[]));
    assert_eq!(shown(part.clone(), "Selection"), of_part);
    assert_eq!(shown(part, "bakery"), rows_of(&[]));
}

#[test]
fn points_and_statistics_of_functions_are_those_of_report() {
    let tasting = demo("../calls/tasting");
    let opened = Opened::new(&[&tasting]);
    let reported: Value = serde_json::from_str(&stdout("report --format json", &[&tasting])).expect("JSON");
    let tree = opened.model("data/function-statistics/tree", &json!({}));
    let entries = list(&tree["entries"]).iter().filter(|entry| entry["hasData"] == true);
    let shown: BTreeMap<String, Vec<String>> = entries
        .map(|entry| {
            let mut labels = texts(&entry["labels"]);
            (labels.remove(0), labels)
        })
        .collect();
    // For `report`, as for uftrace, a call that was jumped out of never was.
    let is_compared = |name: &str| !["_setjmp", "longjmp", "tasting::spit"].contains(&name);
    let sums = shown.iter().filter(|(name, _)| is_compared(name));
    let sums: BTreeMap<String, Vec<String>> = sums.map(|(name, row)| (name.clone(), row[..3].to_vec())).collect();
    let rows = list(&reported["functions"]).iter().map(|row| {
        let sums = ["calls", "total_ns", "self_ns"].map(|key| number(&row[key]).to_string());
        (row["name"].as_str().expect("a text").to_string(), sums.to_vec())
    });
    let wanted: BTreeMap<String, Vec<String>> = rows.filter(|(name, _)| is_compared(name)).collect();
    // Of the time of a function that calls itself, `report` counts a part once.
    let plain = |of: &BTreeMap<String, Vec<String>>| -> Vec<(String, String, String)> {
        of.iter().map(|(name, row)| (name.clone(), row[0].clone(), row[2].clone())).collect()
    };
    assert_eq!(plain(&sums), plain(&wanted));
    assert!(sums.iter().filter(|(name, row)| row[1] == wanted[*name][1]).count() > 20);
    let whole = (opened.begin, opened.end);
    let points = opened.series("functions-scatter", whole, 65_536);
    assert_eq!(points.keys().collect::<Vec<_>>(), shown.keys().collect::<Vec<_>>());
    for (name, points) in &points {
        let (row, ns) = (&shown[name], points.iter().map(|(_, ns)| *ns as i128));
        assert!(points.len().to_string() == row[0] || points.len() < row[0].parse().expect("a number"), "{name}");
        if row[3].is_empty() {
            assert!(points.is_empty(), "{name}");
            continue;
        }
        assert_eq!((ns.clone().min(), ns.max()), (row[3].parse().ok(), row[4].parse().ok()), "{name}");
    }
    // A call that ends after the range has its whole duration.
    let (name, (at, ns)) = points
        .iter()
        .flat_map(|(name, points)| points.iter().map(move |point| (name, *point)))
        .max_by(|a, b| a.1.1.total_cmp(&b.1.1))
        .expect("there are calls");
    let cut = opened.series("functions-scatter", (at, at + 1), 100);
    assert!(cut[name].contains(&(at, ns)), "{name}: {:?}", cut[name]);
    let few = opened.series("functions-scatter", whole, 4);
    assert!(few.values().all(|points| points.len() <= 4) && few[name].contains(&(at, ns)), "{few:?}");
}

/// The rows of `analyze path`: begin, end, thread and state.
fn path_of(options: &[&str]) -> Vec<(i64, i64, i64, String)> {
    let row = |row: &Value| {
        let [from, to, tid] = ["from", "to", "tid"].map(|key| number(&row[key]) as i64);
        (from, to, tid, row["state"].as_str().expect("a text").to_string())
    };
    analyzed("path", options).iter().map(row).collect()
}

#[test]
fn critical_paths_are_those_of_analyze() {
    let bakery = demo("../kernel/bakery");
    let opened = Opened::new(&[&bakery]);
    let parent = opened.outputs().into_iter().find(|output| output["id"] == "critical-path").expect("it is there");
    assert_eq!((&parent["type"], &parent["capabilities"]), (&json!("NONE"), &json!({ "canCreate": true })));
    let types = format!("/experiments/{}/outputs/critical-path/configTypes", opened.uuid);
    let types = opened.ok("GET", &types, &Value::Null);
    let source = &types[0]["id"];
    let make = |name: &str, parameters: Value| {
        opened.post("critical-path", &json!({ "name": name, "sourceTypeId": source, "parameters": parameters }))
    };
    let (begin, end) = (opened.begin + 200_000_000, opened.begin + 300_000_000);
    let times = [begin, end].map(|ns| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000));
    for (name, parameters, options) in [
        ("slow oven", json!({ "tid": 641 }), vec![]),
        ("a part", json!({ "tid": 641, "begin": begin, "end": end }), vec!["--begin", &times[0], "--end", &times[1]]),
    ] {
        let options = [&["--tid", "641"], &*options, &[&*bakery]].concat();
        let (status, made) = make(name, parameters.clone());
        assert_eq!((status, &made["parentId"], &made["type"]), (200, &json!("critical-path"), &json!("TIME_GRAPH")));
        assert_eq!(make(name, parameters), (200, made.clone()), "the same again");
        assert_eq!(made["configuration"]["name"], name);
        assert!(opened.outputs().contains(&made));
        let id = made["id"].as_str().expect("a text");
        let rows = opened.entries(&format!("timeGraph/{id}/tree"));
        assert_eq!(rows[0].1, ["oven-1 641", "641"]);
        let items: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
        let range = json!({ "start": opened.begin, "end": opened.end, "nbTimes": 65_536 });
        let asked = json!({ "requested_timerange": range, "requested_items": items });
        let states = opened.model(&format!("timeGraph/{id}/states"), &asked);
        let tid_of = |entry: &Value| {
            let row = rows.iter().find(|(id, _)| json!(id) == *entry).expect("an entry");
            row.1[1].parse::<i64>().expect("a number")
        };
        let mut shown = Vec::new();
        for row in list(&states["rows"]) {
            for state in list(&row["states"]) {
                let [from, to] = ["start", "end"].map(|key| number(&state[key]) as i64);
                shown.push((from, to, tid_of(&row["entryId"]), state["label"].as_str().expect("a text").to_string()));
            }
        }
        shown.sort();
        let wanted = path_of(&options);
        let missing: Vec<_> = wanted.iter().filter(|part| !shown.contains(part)).collect();
        // Parts between two samples are not shown.
        let step = (opened.end - opened.begin) / 65_535 + 1;
        assert!(shown.iter().all(|part| wanted.contains(part)), "{name}");
        assert!(missing.iter().all(|part| part.1 - part.0 <= step), "{name}: {missing:?}");
        assert!(shown.len() > 10 && rows.len() > 1, "{name}: {shown:?}");
        // Arrows lead from each thread to the next one.
        let turns = wanted.windows(2).filter(|pair| pair[0].2 != pair[1].2);
        let turns: Vec<_> = turns.map(|pair| (pair[0].1, pair[0].2, pair[1].2)).collect();
        let arrows = opened.model(&format!("timeGraph/{id}/arrows"), &json!({ "requested_timerange": range }));
        let arrow = |one: &Value| (number(&one["start"]) as i64, tid_of(&one["sourceId"]), tid_of(&one["targetId"]));
        let arrows: Vec<_> = list(&arrows).iter().map(arrow).collect();
        assert!(!arrows.is_empty() && arrows.iter().all(|arrow| turns.contains(arrow)), "{name}: {arrows:?}");
        let (from, _, tid, state) = &shown[shown.len() / 2];
        let entry = rows.iter().find(|(_, labels)| labels[1] == tid.to_string()).expect("a row").0;
        let tip = opened.model(
            &format!("timeGraph/{id}/tooltip"),
            &json!({ "requested_items": [entry], "requested_times": [from],
                "requested_element": { "elementType": "STATE", "time": from, "duration": 1 } }),
        );
        assert_eq!(tip["State"], **state);
        let styles = opened.model(&format!("{id}/style"), &json!({}));
        let keys = list(&states["rows"]).iter().flat_map(|row| list(&row["states"]));
        let mut keys = keys.map(|state| state["style"]["parentKey"].as_str().expect("a key"));
        assert!(keys.all(|key| !styles["styles"][key].is_null()));
    }
    let refused = |body: Value, wanted: u16| {
        let (status, answer) = opened.post("critical-path", &body);
        assert_eq!(status, wanted, "{body}: {answer}");
        assert!(answer["title"].is_string());
        answer
    };
    let of = |name: &str, parameters: Value| json!({ "name": name, "sourceTypeId": source, "parameters": parameters });
    let unknown = refused(of("x", json!({ "tid": 99 })), 400);
    assert!(unknown.to_string().contains("641"), "{unknown}");
    refused(of("slow oven", json!({ "tid": 642 })), 400);
    refused(of("x", json!({})), 400);
    refused(of("x", json!({ "tid": "oven-1" })), 400);
    refused(of("x", json!({ "tid": 641, "begin": 2, "end": 1 })), 400);
    refused(json!({ "name": "x", "parameters": { "tid": 641 } }), 400);
    refused(json!({ "name": "x", "sourceTypeId": "nosuch", "parameters": { "tid": 641 } }), 404);
    assert_eq!(opened.post("threads", &of("x", json!({ "tid": 641 }))).0, 404);
    // Without a name of its own it is called after the thread; nulls are as if they were absent.
    let (_, made) = make("", json!({ "tid": 642, "begin": null, "end": null }));
    assert_eq!(made["configuration"]["name"], "oven-2 642");
    let own = format!("/experiments/{}/outputs/critical-path/{}", opened.uuid, made["id"].as_str().expect("a text"));
    assert_eq!(opened.ok("DELETE", &own, &Value::Null), made);
    assert_eq!(opened.ask("DELETE", &own, &Value::Null).0, 404);
    assert!(!opened.outputs().contains(&made));
}

#[test]
fn counters_have_the_values_of_their_events() {
    let folder = Folder::new();
    let (mut text, mut values) = (String::new(), Vec::new());
    for at in 0..5000i64 {
        let (ns, value) = (1_000_000_000 + at * 7919, at * at % 977);
        text += &format!(
            "{{\"ns\":{ns},\"cycles\":{ns},\"name\":\"oven_gauge\",\"payload\":{{\"waiting_bytes\":{value}}}}}\n"
        );
        values.push((ns, value as f64));
    }
    folder.file("gauge.jsonl", text);
    let path = folder.path("gauge.jsonl").display().to_string();
    let opened = Opened::new(&[&path]);
    let range = (opened.begin, opened.end);
    let shown = opened.series("counters", range, 700);
    let (_, shown) = shown.iter().next().expect("a counter");
    assert_eq!(shown.len(), 700);
    let last = |at: i64| values.iter().rfind(|(ns, _)| *ns <= at).map(|(_, value)| *value);
    for (at, value) in shown {
        assert_eq!(Some(*value), last(*at), "at {at}");
    }
    let tree = opened.model("XY/counters/tree", &json!({}));
    let entry = list(&tree["entries"]).iter().find(|entry| entry["hasData"] == true).expect("a counter");
    assert_eq!((&entry["isDefault"], &entry["labels"][0]), (&json!(true), &json!("oven_gauge.waiting_bytes")));
    let asked = json!({ "requested_items": [entry["id"]],
        "requested_timerange": { "start": opened.begin - 1000, "end": opened.begin, "nbTimes": 3 } });
    let chart = opened.model("XY/counters/xy", &asked);
    let series = &chart["series"][0];
    assert_eq!(series["yValuesDescription"]["unit"], "B");
    // Before its first value, and at a time that is not in the trace.
    assert_eq!(series["yValues"][0].as_f64(), Some(0.0));
    assert_eq!(
        opened
            .post(
                "critical-path",
                &json!({ "name": "x", "sourceTypeId": "tracemill.critical-path",
        "parameters": { "tid": 1 } })
            )
            .0,
        404
    );
}

#[test]
fn each_machine_has_its_own() {
    let folder = Folder::new();
    let lines = run_with("print -q --format jsonl", &[&demo("../kernel/bakery")]);
    // Traces that do not say of which machine they are. The second one has no thread 642.
    let other: Vec<&str> = lines.stdout.lines().filter(|line| !line.contains("642")).collect();
    folder.file("one.jsonl", &lines.stdout).file("two.jsonl", other.join("\n"));
    let paths = ["one.jsonl", "two.jsonl"].map(|name| folder.path(name).display().to_string());
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let opened = Opened::new(&paths);
    let tree = opened.model("data/system-call-statistics/tree", &json!({}));
    let entries = list(&tree["entries"]);
    let sums_of = |name: &str| -> i128 {
        let root = entries.iter().find(|entry| entry["labels"][0] == name).expect("a heading");
        let own = entries.iter().filter(|entry| entry["parentId"] == root["id"]);
        own.map(|entry| number(&entry["labels"][1])).sum()
    };
    let calls_of = |path: &str| -> i128 { analyzed("syscalls", &[path]).iter().map(|row| number(&row["count"])).sum() };
    for (name, path) in ["one.jsonl", "two.jsonl"].iter().zip(&paths) {
        assert_eq!(sums_of(name), calls_of(path), "{name}");
    }
    assert_ne!(calls_of(paths[0]), calls_of(paths[1]));
    for (tid, machines) in [(641, 2), (642, 1)] {
        let body = json!({ "name": "", "sourceTypeId": "tracemill.critical-path", "parameters": { "tid": tid } });
        let (status, made) = opened.post("critical-path", &body);
        assert_eq!(status, 200, "{made}");
        let id = made["id"].as_str().expect("a text");
        let tree = opened.model(&format!("timeGraph/{id}/tree"), &json!({}));
        let headings: Vec<&Value> = list(&tree["entries"])
            .iter()
            .filter(|entry| entry["parentId"].is_null())
            .map(|entry| &entry["labels"][0])
            .collect();
        assert_eq!(headings.len(), machines, "{tree}");
        assert!(headings[0].as_str().is_some_and(|label| label.ends_with("one.jsonl")), "{headings:?}");
        let items: Vec<i64> = opened.entries(&format!("timeGraph/{id}/tree")).into_iter().map(|(id, _)| id).collect();
        let range = json!({ "start": opened.begin, "end": opened.end, "nbTimes": 65_536 });
        let asked = json!({ "requested_timerange": range, "requested_items": items });
        let states = opened.model(&format!("timeGraph/{id}/states"), &asked);
        let rows = list(&states["rows"]).iter().flat_map(|row| list(&row["states"]));
        let shown: i128 = rows.map(|state| number(&state["end"]) - number(&state["start"])).sum();
        let wanted = path_of(&[&["--tid", &tid.to_string()], &*paths].concat());
        let wanted: i64 = wanted.iter().map(|part| part.1 - part.0).sum();
        // Parts that are shorter than the time between two samples may be missing.
        assert!(shown <= wanted.into() && shown > i128::from(wanted) * 99 / 100, "{tid}: {shown} {wanted}");
    }
}

#[test]
fn what_a_filter_leaves_is_not_analyzed() {
    let bakery = demo("../kernel/bakery");
    let opened = Opened::with(&["--filter", "name == \"sched_switch\""], &[&bakery]);
    let outputs = opened.outputs();
    let has = |id: &str| outputs.iter().any(|output| output["id"] == id);
    assert!(has("events") && !has("system-calls-scatter") && !has("system-call-statistics") && !has("critical-path"));
    assert_eq!(opened.post("data/system-call-statistics/tree", &json!({ "parameters": {} })).0, 404);
}

#[test]
fn counters_of_many_values_are_nearly_exact() {
    let folder = Folder::new();
    let mut text = String::new();
    let time = |at: i64| 1_000_000_000 + at * 1000;
    for at in 0..70_000 {
        let ns = time(at);
        text += &format!("{{\"ns\":{ns},\"cycles\":{ns},\"name\":\"gauge\",\"payload\":{{\"waiting_bytes\":{at}}}}}\n");
    }
    folder.file("gauge.jsonl", text);
    let opened = Opened::new(&[&folder.path("gauge.jsonl").display().to_string()]);
    let ranges =
        [(opened.begin, opened.end, 100), (time(30_000), time(30_050), 1000), (opened.begin, opened.end, 20_000)];
    for (begin, end, count) in ranges {
        let shown = opened.series("counters", (begin, end), count);
        let shown = shown.values().next().expect("a counter");
        let slack = ((end - begin) / count as i64 / 4).max((end - begin) >> 14);
        for (at, value) in shown {
            let [exact, latest] = [*at, at + slack].map(|at| ((at - time(0)) / 1000) as f64);
            assert!((exact..=latest).contains(value), "{value} at {at}: {exact} to {latest}");
        }
    }
}

#[test]
fn no_time_is_too_far() {
    let bakery = demo("../kernel/bakery");
    let opened = Opened::new(&[&bakery, &demo("../calls/tasting")]);
    let of = |tid: i64, begin: i64, end: i64| {
        json!({ "name": format!("{tid} {begin} {end}"), "sourceTypeId": "tracemill.critical-path",
            "parameters": { "tid": tid, "begin": begin, "end": end } })
    };
    let (least, most) = (i64::MIN, i64::MAX);
    let paths = [(least, most), (most, most), (least, least), (opened.begin, opened.begin)];
    let paths = paths.map(|(begin, end)| {
        let (status, made) = opened.post("critical-path", &of(641, begin, end));
        assert_eq!(status, 200, "{begin} to {end}: {made}");
        made["id"].as_str().expect("a text").to_string()
    });
    for (begin, end) in [(least, most), (least, least), (most, most), (0, 1)] {
        for count in [1, 100] {
            for id in ["system-calls-scatter", "functions-scatter"] {
                let shown = opened.series(id, (begin, end), count);
                assert!(shown.values().all(|points| points.len() <= count), "{id} {begin} to {end}");
                assert_eq!(shown.values().any(|points| !points.is_empty()), (begin, end) == (least, most), "{id}");
            }
            for id in &paths {
                let items: Vec<i64> =
                    opened.entries(&format!("timeGraph/{id}/tree")).into_iter().map(|(id, _)| id).collect();
                let range = json!({ "start": begin, "end": end, "nbTimes": count });
                let asked = json!({ "requested_timerange": range, "requested_items": items });
                opened.model(&format!("timeGraph/{id}/states"), &asked);
                opened.model(&format!("timeGraph/{id}/arrows"), &asked);
            }
        }
        for id in ["system-call-statistics", "function-statistics"] {
            opened.model(&format!("data/{id}/tree"), &json!({ "requested_timerange": { "start": begin, "end": end } }));
        }
    }
    for tid in [least, most, -1] {
        assert_eq!(opened.post("critical-path", &of(tid, least, most)).0, 400, "{tid}");
    }
}

#[test]
fn states_of_the_user_are_the_visits_of_analyze() {
    let (states, orders, bakery) = (demo("../states/orders.states"), demo("orders"), demo("../kernel/bakery"));
    let rows = json_lines(&stdout("analyze custom --log --format jsonl --states", &[&states, &orders]));
    let visit = |row: &Value| {
        let [from, to] = ["from", "to"].map(|key| row[key].as_i64().expect("a time"));
        (format!("order {}", row["payload.id"]), from, to, row["state"].as_str().expect("a text").to_string())
    };
    let mut wanted: Vec<(String, i64, i64, String)> = rows.iter().map(visit).collect();
    let opened = Opened::with(&["--states", &states], &[&orders]);
    let output = opened.outputs().into_iter().find(|output| output["id"] == "custom-states").expect("it is there");
    assert_eq!((&output["type"], &output["name"]), (&json!("TIME_GRAPH"), &json!("Custom States")));
    assert!(!opened.outputs().iter().any(|output| output["id"] == "threads"), "no thread is known");
    let rows: BTreeMap<i64, Vec<String>> = opened.entries("timeGraph/custom-states/tree").into_iter().collect();
    let items: Vec<i64> = rows.keys().copied().collect();
    let range = json!({ "start": opened.begin, "end": opened.end, "nbTimes": 65_536 });
    let asked = json!({ "requested_timerange": range, "requested_items": items });
    let model = opened.model("timeGraph/custom-states/states", &asked);
    let mut shown = Vec::new();
    for row in list(&model["rows"]) {
        let name = rows[&(number(&row["entryId"]) as i64)][0].clone();
        for state in list(&row["states"]) {
            let [from, to] = ["start", "end"].map(|key| number(&state[key]) as i64);
            shown.push((name.clone(), from, to, state["label"].as_str().expect("a text").to_string()));
            assert!(state["style"]["parentKey"].as_str().is_some_and(|key| key.starts_with("name-")), "{state}");
        }
    }
    shown.sort();
    wanted.sort();
    assert_eq!((rows.len(), &shown), (160, &wanted));
    // A trace that has none of the events is opened without them.
    let other = Opened::with(&["--states", &states], &[&bakery]);
    let ids: Vec<Value> = other.outputs().iter().map(|output| output["id"].clone()).collect();
    assert!(ids.contains(&json!("threads")) && !ids.contains(&json!("custom-states")), "{ids:?}");
    let run = run_with("view --tsp=0 --states nosuch.states", &[&orders]);
    assert!(run.code == Some(2) || run.code == Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("nosuch.states"), "{}", run.stderr);
}

#[test]
fn counters_of_the_user_have_the_values_of_analyze() {
    let folder = Folder::new();
    // The file defines no states.
    folder.file("open.states", "counter open\non orders:taken -> +1\non orders:sent -> -1\n");
    let (states, orders) = (folder.path("open.states").display().to_string(), demo("orders"));
    let rows = json_lines(&stdout("analyze custom --of counters --log --format jsonl --states", &[&states, &orders]));
    let changes: Vec<(i64, f64)> = rows
        .iter()
        .map(|row| (row["time"].as_i64().expect("a time"), row["value"].as_f64().expect("a number")))
        .collect();
    assert!(changes.len() > 300, "{}", changes.len());
    let opened = Opened::with(&["--states", &states], &[&orders]);
    let tree = opened.model("XY/counters/tree", &json!({}));
    let names: Vec<&str> = list(&tree["entries"]).iter().filter_map(|entry| entry["labels"][0].as_str()).collect();
    assert!(names.contains(&"open"), "{names:?}");
    let shown = opened.series("counters", (opened.begin, opened.end), 900);
    let last = |at: i64| changes.iter().rfind(|(ns, _)| *ns <= at).map_or(0.0, |(_, value)| *value);
    let is_it = |values: &[(i64, f64)]| values.iter().all(|(at, value)| *value == last(*at));
    assert!(shown.iter().any(|(_, values)| values.len() == 900 && is_it(values)), "{}", shown.len());
}
