//! Traces of the demo in every format that is written and read: they come back as they were, or what differs is told.

mod util;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use util::{Folder, demo, json_lines, run_with};

/// Traces below `demo`.
const TRACES: [&str; 9] = [
    "traces/losses",
    "traces/mill",
    "traces/orders",
    "traces/overwritten",
    "logs/belt.cpel",
    "logs/dock.elog",
    "calls/tasting",
    "kernel/bakery",
    "samples/bakery.data",
];

/// Formats that are written and read, with a name for the output; the first ones keep everything.
const FORMATS: [(&str, &str); 7] = [
    ("ctf2", "out.ctf"),
    ("jsonl", "out.jsonl"),
    ("ctf1.8", "out.ctf18"),
    ("ftrace", "out.dat"),
    ("chrome", "out.json"),
    ("perfetto", "out.pftrace"),
    ("uftrace", "out.uftrace"),
];
/// Formats that hold the names of functions of samples, or all that they are looked up by. `ftrace` does, too, but events of perf get
/// other names in it.
const NAMES_STACKS: [&str; 4] = ["ctf2", "ctf1.8", "jsonl", "chrome"];
/// Formats that hold every event with all of its fields.
const WHOLE: usize = 2;

/// Losses after which events have other names.
const RENAMED: &[&str] = &[
    "names of event classes that begin or end slices",
    "names of event classes and fields that become messages",
    "names that are not identifiers",
];
/// Losses after which there are other events, or events at other times.
const OTHER_EVENTS: &[&str] = &[
    "they become instants",
    "they get that of the event before",
    "slices whose end is missing",
    "slices that have not ended",
    "shown twice",
    "of events that are not calls",
];

/// How many events there are of a key.
type EventCounts = BTreeMap<String, u64>;

/// Counts the events of a trace: by time, by time and name, and with their payloads.
fn counts(trace: &str) -> [EventCounts; 3] {
    let run = run_with("print -q --format jsonl", &[trace]);
    assert!(matches!(run.code, Some(0 | 3)), "{trace}: {}", run.stderr);
    let mut counts: [EventCounts; 3] = Default::default();
    for line in json_lines(&run.stdout) {
        let name = line["name"].as_str().unwrap_or_default();
        // The tree of processes of Perfetto is made of events that are there as well.
        if name.starts_with("process_tree_") {
            continue;
        }
        // A structure without members says as much as none.
        let payload = &line["payload"];
        let payload =
            if payload.as_object().is_some_and(|members| members.is_empty()) { &Value::Null } else { payload };
        let keys =
            [line["ns"].to_string(), format!("{} {name}", line["ns"]), format!("{} {name} {payload}", line["ns"])];
        for (counts, key) in counts.iter_mut().zip(keys) {
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

/// The stacks of the samples of a trace with their weights; empty where it has none.
fn stacks(folder: &Folder, trace: &str) -> BTreeSet<String> {
    let has_samples = run_with("report -q --by event", &[trace]).code == Some(0);
    let machine = folder.path("machine").display().to_string();
    let run = has_samples.then(|| run_with("flame -q --format folded --by event --symfs", &[&machine, trace]));
    run.iter().flat_map(|run| run.stdout.lines()).map(str::to_string).collect()
}

/// The first key that one has more often than the other.
fn difference<'c>(before: &'c EventCounts, after: &'c EventCounts) -> Option<&'c String> {
    let more = |a: &'c EventCounts, b: &'c EventCounts| {
        a.iter().find(|(key, count)| b.get(*key) < Some(*count)).map(|(key, _)| key)
    };
    more(before, after).or_else(|| more(after, before))
}

#[test]
fn traces_come_back_or_tell_what_is_lost() {
    let folder = Folder::new();
    // The kernel's symbols are looked for next to a trace, and the program, without the build id of the recording, by its path.
    std::fs::create_dir_all(folder.path("machine/usr/local/bin")).expect("it can be made");
    for (file, to) in [("kallsyms", "kallsyms"), ("bakery", "machine/usr/local/bin/bakery")] {
        std::fs::copy(demo(&format!("../samples/{file}")), folder.path(to)).expect("it can be copied");
    }
    let mut compared = 0;
    for trace in TRACES {
        let path = demo(&format!("../{trace}"));
        let before = counts(&path);
        let before_stacks = stacks(&folder, &path);
        for (at, (format, name)) in FORMATS.iter().enumerate() {
            let out = folder.path(&format!("{compared}.{name}")).display().to_string();
            let report = folder.path("losses.json").display().to_string();
            compared += 1;
            let run = run_with(&format!("convert -q --to {format} -o"), &[&out, "--loss-report", &report, &path]);
            if run.code == Some(1) && *format == "uftrace" {
                // It holds calls and nothing else.
                continue;
            }
            assert_eq!(run.code, Some(0), "{trace} to {format}: {}", run.stderr);
            let told: Value = serde_json::from_str(&std::fs::read_to_string(&report).expect("a report")).expect("JSON");
            let told: Vec<String> = told["losses"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|loss| loss["kind"].as_str().expect("a kind").to_string())
                .collect();
            let has = |kinds: &[&str]| told.iter().any(|kind| kinds.iter().any(|wanted| kind.contains(wanted)));
            let after = counts(&out);
            let [times, names, payloads] = [0, 1, 2].map(|level| difference(&before[level], &after[level]));
            let said =
                |what: &str, at: Option<&String>| format!("{trace} to {format}: {what} at {at:?}, told is {told:?}");
            if at < WHOLE {
                assert!(payloads.is_none(), "{}", said("events differ", payloads));
            }
            assert!(times.is_none() || has(OTHER_EVENTS), "{}", said("other events", times));
            assert!(names.is_none() || has(OTHER_EVENTS) || has(RENAMED), "{}", said("other names", names));
            assert!(payloads.is_none() || !told.is_empty(), "{}", said("other fields", payloads));
            if NAMES_STACKS.contains(format) {
                assert_eq!(stacks(&folder, &out), before_stacks, "{trace} to {format}");
            }
        }
    }
    assert_eq!(compared, TRACES.len() * FORMATS.len());
}
