//! `tracemill convert --split`: parts that together hold everything once.

mod util;

use std::fs;
use std::path::Path;

use serde_json::Value;
use util::{Folder, json_lines, plain_trace};

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace).display().to_string()
}

fn events(folder: &Folder, trace: &str) -> Vec<(i64, String)> {
    let run = folder.run_with("print --format jsonl -q", &[trace]).ends(0, &[]);
    let key = |line: &Value| (line["ns"].as_i64().unwrap_or(0), format!("{} {}", line["name"], line["payload"]));
    json_lines(&run.stdout).iter().map(key).collect()
}

/// The events of each part, by name.
fn parts(folder: &Folder, name: &str) -> Vec<(String, Vec<(i64, String)>)> {
    let entries = fs::read_dir(folder.path(name)).expect("the output is a folder").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.into_iter().map(|part| (part.clone(), events(folder, &format!("{name}/{part}")))).collect()
}

fn together(parts: &[(String, Vec<(i64, String)>)]) -> Vec<(i64, String)> {
    let mut all: Vec<_> = parts.iter().flat_map(|part| part.1.clone()).collect();
    all.sort();
    all
}

#[test]
fn every_event_is_in_one_part() {
    let folder = Folder::new();
    for trace in ["mill", "orders"] {
        let mut want = events(&folder, &demo(trace));
        want.sort();
        for to in ["ctf1.8", "ctf2"] {
            for by in ["stream", "process", "time=100ms", "size=20K"] {
                let options = format!("convert --force --to {to} --split {by} -o out");
                folder.run_with(&options, &[&demo(trace)]).ends(0, &[]);
                let parts = parts(&folder, "out");
                assert!(together(&parts) == want, "{trace} {to} {by}: {} parts", parts.len());
                folder.run("check -q out").ends(0, &[]);
            }
        }
    }
}

#[test]
fn parts_are_what_they_say() {
    let folder = Folder::new();
    folder.run_with("convert --to ctf2 --split time=100ms -o time", &[&demo("mill")]).ends(0, &[]);
    let by_time = parts(&folder, "time");
    let first = by_time[0].1[0].0;
    for (name, events) in &by_time {
        let number: i64 = name.trim_start_matches("part-").parse().expect("it has a number");
        for (ns, _) in events {
            assert_eq!((ns - first) / 100_000_000, number, "{name}");
        }
    }
    folder.run_with("convert --to ctf1.8 --split stream -o stream", &[&demo("mill")]).ends(0, &[]);
    let names: Vec<_> = parts(&folder, "stream").into_iter().map(|part| part.0).collect();
    assert_eq!(names, ["paper_0", "paper_1", "work_0", "work_1"]);
    folder.run_with("convert --to ctf2 --split process -o process", &[&demo("orders"), &demo("mill")]).ends(0, &[]);
    for (name, _) in parts(&folder, "process") {
        let run = folder.run_with("print --format jsonl -q", &[&format!("process/{name}")]).ends(0, &[]);
        let mut processes: Vec<String> =
            json_lines(&run.stdout).iter().map(|line| line["stream_context"]["vpid"].to_string()).collect();
        processes.dedup();
        assert_eq!(processes.len(), 1, "{name}");
        assert!(name.ends_with(&processes[0]) || processes[0] == "null", "{name} {processes:?}");
    }
    folder.run_with("convert --to ctf2 --split size=10K -o size", &[&demo("mill")]).ends(0, &[]);
    assert!(parts(&folder, "size").len() > 1);
}

#[test]
fn files_are_split_too() {
    let folder = Folder::new();
    folder.run_with("convert --to chrome --split stream -o out", &[&demo("orders")]).ends(0, &[]);
    let mut count = 0;
    for entry in fs::read_dir(folder.path("out")).expect("it is a folder").flatten() {
        let text = fs::read_to_string(entry.path()).expect("it was written");
        let json: Value = serde_json::from_str(&text).expect("it is JSON");
        let list = json["traceEvents"].as_array().expect("it has events");
        count += list.iter().filter(|event| event["ph"] == "i" && event["args"].get("count").is_none()).count();
    }
    assert_eq!(count, events(&folder, &demo("orders")).len());
}

#[test]
fn wrong_splits_are_refused() {
    let folder = Folder::new();
    for by in ["streams", "time", "time=5", "time=0s", "time=1.5.5s", "size=x", "=", "time=1x"] {
        folder.run_with(&format!("convert --to ctf2 -o out --split {by}"), &[&demo("orders")]).ends(2, &["--split"]);
    }
    folder
        .run_with("convert --to jsonl -o out --split stream", &[&demo("orders")])
        .ends(2, &["--split writes no jsonl"]);
    assert!(!folder.path("out").exists());
}

#[test]
fn a_trace_of_one_process_is_one_part() {
    let folder = Folder::new();
    let classes = "env { vpid = 77; }; event { name = e; id = 0; };";
    fs::create_dir(folder.path("t")).expect("it is new");
    plain_trace(&folder, "t/said", &classes.replace("env { vpid = 77; };", ""), &[0, 10, 5, 77, 0, 20, 5, 78]);
    let trace = fs::read_to_string(folder.path("t/said/metadata")).expect("it is there");
    folder.file("env/metadata", trace.replace("_pid", "other") + classes.split("event").next().expect("the first"));
    folder.file("env/s", [0, 10, 5, 4]).file("env/r", [0, 11, 6, 4]);
    folder.run("convert -q --to ctf2 --split process -o out env").ends(0, &[]);
    assert_eq!(parts(&folder, "out").iter().map(|part| part.0.as_str()).collect::<Vec<_>>(), ["77"]);
    folder.run("convert -q --to ctf2 --split process -o two t").ends(0, &[]);
    assert_eq!(parts(&folder, "two").iter().map(|part| part.0.as_str()).collect::<Vec<_>>(), ["77", "78"]);
}
