//! Marks that programs write into the kernel's trace, as Android's atrace does: calls, counters, and what begins and ends on
//! any threads.

mod util;

use std::fs;

use serde_json::{Value, json};
use util::{Folder, plain_trace};

const CLASSES: &str = "event { name = \"print\"; id = 0; fields := struct { u8 ip; string buf; }; };";

/// Thread 5 bakes from 10 to 30, and kneads from 12 to 20; two orders are open from 21 to 25 and from 22 to 40.
fn trace(folder: &Folder) {
    let marks = [
        (10, 5, "B|4|bake|rye\n"),
        (12, 5, "B|4|knead\n"),
        (14, 5, "C|4|loaves|3\n"),
        (15, 5, "C|4|loaves|-2"),
        (20, 5, "E|4\n"),
        (21, 5, "S|4|order|77"),
        (22, 6, "S|4|order|78"),
        (25, 6, "F|4|order|77"),
        (30, 5, "E"),
        (40, 5, "F|4|order|78"),
        (41, 5, "hello"),
    ];
    let bytes = marks.map(|(time, tid, text)| [&[0, time, tid, 4, 1], text.as_bytes(), &[0]].concat());
    plain_trace(folder, "t", CLASSES, &bytes.concat());
}

#[test]
fn marks_are_calls() {
    let folder = Folder::new();
    trace(&folder);
    let calls = folder.run_with("replay --color=never -f time,tid", &["t"]).ends(0, &[]).stdout;
    for line in ["bake|rye() {", "knead();", "} /* bake|rye */"] {
        assert!(calls.contains(line), "{calls}");
    }
    let report = folder.run_with("report", &["t"]).ends(0, &[]).stdout;
    for (time, name) in [("0.020 us", "bake|rye"), ("0.008 us", "knead")] {
        let line = report.lines().find(|line| line.ends_with(name));
        assert!(line.is_some_and(|line| line.contains(time)), "{report}");
    }
}

#[test]
fn exports_have_the_calls_the_counters_and_what_ends_elsewhere() {
    let folder = Folder::new();
    trace(&folder);
    folder.run_with("convert -q --to folded", &["-o", "folded", "t"]).ends(0, &[]);
    let text = fs::read_to_string(folder.path("folded")).expect("it was written");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["order;order 18", "order;order 4", "thread 5;bake|rye 12", "thread 5;bake|rye;knead 8"]);
    folder.run_with("convert -q --to chrome", &["-o", "chrome", "t"]).ends(0, &[]);
    let text = fs::read_to_string(folder.path("chrome")).expect("it was written");
    let file: Value = serde_json::from_str(&text).expect("it is JSON");
    let events = file["traceEvents"].as_array().expect("events").iter();
    let of = |phases: &str| -> Vec<Value> {
        let short = |event: &Value| json!([event["ph"], event["name"], event["ts"].as_f64()]);
        events.clone().filter(|event| phases.contains(event["ph"].as_str().unwrap_or("?"))).map(short).collect()
    };
    let slices = json!([
        ["B", "bake|rye", 0.0],
        ["B", "knead", 0.002],
        ["E", "knead", 0.01],
        ["b", "order", 0.011],
        ["b", "order", 0.012],
        ["e", "order", 0.015],
        ["E", "bake|rye", 0.02],
        ["e", "order", 0.03]
    ]);
    assert_eq!(json!(of("BEbe")), slices);
    let ids = events.clone().filter(|event| event["name"] == "order").map(|event| event["id2"]["local"].clone());
    assert_eq!(json!(ids.collect::<Vec<_>>()), json!(["0x0", "0x1", "0x0", "0x1"]));
    assert_eq!(json!(of("C")), json!([["C", "loaves", 0.004], ["C", "loaves", 0.005]]));
    let values = events.clone().filter(|event| event["ph"] == "C").map(|event| event["args"]["value"].clone());
    assert_eq!(json!(values.collect::<Vec<_>>()), json!([3, -2]));
}
