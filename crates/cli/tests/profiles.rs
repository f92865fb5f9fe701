//! `tracemill convert` to what shows calls: folded stacks, speedscope, the Firefox Profiler.

mod util;

use std::fs;

use serde_json::{Value, json};
use util::{Folder, plain_trace};

const CLASSES: &str = "
    event { name = \"work_begin\"; id = 0; };
    event { name = \"work_end\"; id = 1; };
    event { name = \"read_entry\"; id = 2; };
    event { name = \"read_exit\"; id = 3; };
    event { name = \"mark\"; id = 4; };";

/// Thread 5 works from 10 to 50 and reads from 20 to 30; thread 6 reads from 15 on without end; a lone end at 12, a mark at
/// 40.
fn trace(folder: &Folder) {
    let events =
        [[0, 10, 5, 4], [1, 12, 6, 4], [2, 15, 6, 4], [2, 20, 5, 4], [3, 30, 5, 4], [4, 40, 5, 4], [1, 50, 5, 4]];
    plain_trace(folder, "t", CLASSES, events.as_flattened());
}

const LOST: [&str; 2] = [
    "ends of calls whose beginning is missing (1)",
    "calls that have not ended (they end with their thread, or with its last event) (1)",
];

fn converted(folder: &Folder, form: &str) -> String {
    trace(folder);
    folder.run_with(&format!("convert --to {form}"), &["-o", "out", "t"]).ends(0, &LOST);
    assert_eq!(fs::read_dir(folder.path("")).expect("the folder").count(), 2, "nothing else is left");
    fs::read_to_string(folder.path("out")).expect("it was written")
}

#[test]
fn folded_stacks_have_their_own_time() {
    let folder = Folder::new();
    assert_eq!(converted(&folder, "folded"), "thread 5;work 30\nthread 5;work;read 10\n");
    folder.run_with("convert --to folded", &["-o", "again", "t"]).ends(0, &["neither begin nor end a call (1)"]);
}

#[test]
fn speedscope_has_a_profile_for_each_thread() {
    let folder = Folder::new();
    let file: Value = serde_json::from_str(&converted(&folder, "speedscope")).expect("it is JSON");
    let profiles = file["profiles"].as_array().expect("profiles");
    let names = file["shared"]["frames"].as_array().expect("frames");
    let events = |at: usize| -> Vec<Value> {
        let of = profiles[at]["events"].as_array().expect("events").iter();
        of.map(|event| {
            let frame = event["frame"].as_u64().expect("a number") as usize;
            json!([event["type"], names[frame]["name"], event["at"]])
        })
        .collect()
    };
    let want = json!([["O", "work", 0], ["O", "read", 10], ["C", "read", 20], ["C", "work", 40]]);
    assert_eq!(json!(events(0)), want);
    assert_eq!(json!(events(1)), json!([["O", "read", 5], ["C", "read", 5]]));
    assert_eq!((&profiles[0]["name"], &profiles[0]["unit"]), (&json!("thread 5"), &json!("nanoseconds")));
    assert_eq!((&profiles[0]["startValue"], &profiles[0]["endValue"]), (&json!(0), &json!(40)));
}

#[test]
fn firefox_has_samples_that_last_and_markers() {
    let folder = Folder::new();
    let file: Value = serde_json::from_str(&converted(&folder, "firefox")).expect("it is JSON");
    assert_eq!(file["meta"]["preprocessedProfileVersion"], 55);
    let thread = &file["threads"][0];
    assert_eq!((&thread["pid"], &thread["tid"]), (&json!("4"), &json!("5")));
    let at = |list: &Value, index: &Value| list[index.as_u64().expect("an index") as usize].clone();
    let stack = |mut index: Value| {
        let mut names = Vec::new();
        while !index.is_null() {
            let frame = at(&thread["stackTable"]["frame"], &index);
            let function = at(&thread["frameTable"]["func"], &frame);
            names.insert(0, at(&thread["stringArray"], &at(&thread["funcTable"]["name"], &function)));
            index = at(&thread["stackTable"]["prefix"], &index);
        }
        names
    };
    let samples = &thread["samples"];
    let stacks: Vec<_> =
        samples["stack"].as_array().expect("stacks").iter().map(|index| stack(index.clone())).collect();
    assert_eq!(json!(stacks), json!([["work"], ["work", "read"], ["work"]]));
    let numbers = |list: &Value| -> Vec<f64> {
        list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
    };
    assert_eq!(numbers(&samples["time"]), [0.0, 0.00001, 0.00002]);
    assert_eq!(numbers(&samples["weight"]), [0.00001, 0.00001, 0.00002]);
    assert_eq!(samples["weightType"], "tracing-ms");
    assert_eq!(at(&thread["stringArray"], &thread["markers"]["name"][0]), "mark");
    assert_eq!(numbers(&thread["markers"]["startTime"]), [0.00003]);
    for table in ["samples", "markers", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols"] {
        let length = thread[table]["length"].as_u64().expect("a length") as usize;
        let columns = thread[table].as_object().expect("a table").values().filter_map(Value::as_array);
        assert!(columns.into_iter().all(|column| column.len() == length), "{table}");
    }
}

#[test]
fn what_has_no_calls_is_refused() {
    let folder = Folder::new();
    plain_trace(&folder, "t", "event { name = \"mark\"; id = 0; };", &[0, 1, 5, 4]);
    for form in ["folded", "speedscope", "firefox"] {
        let run = folder.run_with(&format!("convert --to {form}"), &["-o", "out", "t"]);
        run.ends(1, &["the trace has no calls", "function tracers", "`X_entry` and `X_exit`"]);
        assert!(!folder.path("out").exists());
    }
}

#[test]
fn chrome_has_slices_that_are_well_nested() {
    let folder = Folder::new();
    let lone = "ends whose beginning is missing (they are instants) (1)";
    trace(&folder);
    folder.run_with("convert --to chrome", &["-o", "out", "t"]).ends(0, &[lone]);
    let text = fs::read_to_string(folder.path("out")).expect("it was written");
    let file: Value = serde_json::from_str(&text).expect("it is JSON");
    let events = file["traceEvents"].as_array().expect("events").iter();
    let short = |event: &Value| json!([event["ph"], event["tid"], event["name"], event["ts"].as_f64()]);
    let found: Vec<Value> = events.clone().filter(|event| event["ph"] != "M").map(short).collect();
    let want = json!([
        ["B", 5, "work", 0.0],
        ["i", 6, "work", 0.002],
        ["B", 6, "read", 0.005],
        ["B", 5, "read", 0.01],
        ["E", 5, "read", 0.02],
        ["i", 5, "mark", 0.03],
        ["E", 5, "work", 0.04],
        // It has no end: it ends with the last event of its thread.
        ["E", 6, "read", 0.005]
    ]);
    assert_eq!(file["otherData"]["base_ns"], "10");
    assert_eq!(json!(found), want);
    assert!(events.clone().all(|event| event["pid"] == 4), "{text}");
    let named: Vec<Value> =
        events.filter(|event| event["ph"] == "M").map(|event| event["args"]["name"].clone()).collect();
    assert_eq!(json!(named), json!(["process 4", "thread 5", "thread 6"]));
}

/// Times are exact in programs that read numbers of 64 bits: of a trace of today that lasts a month, every duration.
#[test]
fn chrome_times_are_exact_as_numbers() {
    let folder = Folder::new();
    let (begin, month) = (1_790_000_000_123_456_789_u64, 30 * 86_400_000_000_000_u64);
    let times: Vec<u64> = (0..40).map(|at| begin + at * (month / 39) + at * at * 7).collect();
    let metadata = "/* CTF 1.8 */
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; offset_s = 0; absolute = true; };
        typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := t64;
        stream { event.header := struct { t64 timestamp; }; };
        event { name = \"mark\"; };";
    fs::create_dir(folder.path("t")).expect("a new folder");
    fs::write(folder.path("t/metadata"), metadata).expect("the folder is there");
    let bytes: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
    fs::write(folder.path("t/s"), bytes).expect("the folder is there");
    folder.run_with("convert --to chrome", &["-o", "out", "t"]).ends(0, &[]);
    let text = fs::read_to_string(folder.path("out")).expect("it was written");
    let file: Value = serde_json::from_str(&text).expect("it is JSON");
    let events = file["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] != "M");
    let stamps: Vec<f64> = events.map(|event| event["ts"].as_f64().expect("a number")).collect();
    let durations: Vec<u64> = stamps.windows(2).map(|pair| ((pair[1] - pair[0]) * 1000.0).round() as u64).collect();
    assert_eq!(durations, times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>());
    assert_eq!(file["otherData"], json!({ "base_ns": begin.to_string(), "base_origin": "unix" }));
}
