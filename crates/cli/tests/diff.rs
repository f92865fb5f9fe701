//! `diff`: what differs between two traces.

mod util;

use serde_json::{Value, json};
use util::{Folder, demo, run_with};

/// An event of JSON lines: time in ns, name, payload.
type Line<'a> = (u64, &'a str, Value);

fn lines<'a>(events: impl IntoIterator<Item = Line<'a>>) -> String {
    let line = |(ns, name, payload)| format!("{}\n", json!({"ns": ns, "name": name, "stream": 0, "payload": payload}));
    events.into_iter().map(line).collect()
}

/// A folder with the files `a.jsonl` and `b.jsonl`.
fn two<'a>(a: impl IntoIterator<Item = Line<'a>>, b: impl IntoIterator<Item = Line<'a>>) -> Folder {
    let folder = Folder::new();
    folder.file("a.jsonl", lines(a)).file("b.jsonl", lines(b));
    folder
}

/// The object of `--format json`, with the exit status; nothing may be reported.
#[track_caller]
fn object(folder: &Folder, arguments: &str, code: i32) -> Value {
    let run = folder.run(&format!("diff --format json {arguments}")).ends(code, &[]);
    assert_eq!(run.stderr, "", "{arguments}");
    serde_json::from_str(&run.stdout).expect("one JSON object")
}

fn rows<'v>(object: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    object[key].as_array().expect("a list").iter()
}

/// The row of a kind and a subject.
#[track_caller]
fn value<'v>(object: &'v Value, kind: &str, of: &str, part: Value) -> &'v Value {
    let mut found = rows(object, "values").filter(|row| row["kind"] == kind && row["of"] == of && row["part"] == part);
    found.next().unwrap_or_else(|| panic!("no {kind} of {of} {part} in {object}"))
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    for trace in ["mill", "orders", "losses", "../kernel/bakery", "../calls/tasting", "../logs/dock.elog"] {
        let path = demo(trace);
        let run = run_with("diff --quiet", &[&path, &path]).ends(0, &[]);
        assert!(run.stdout.ends_with("\nno difference\n"), "{trace}: {}", run.stdout);
        let run = run_with("diff --quiet --format json", &[&path, &path]).ends(0, &[]);
        let found: Value = serde_json::from_str(&run.stdout).expect("an object");
        assert_eq!((&found["differs"], &found["fields"], &found["a"]), (&json!(false), &json!([]), &found["b"]));
        assert!(found["a"]["events"].as_u64() > Some(0));
        assert!(rows(&found, "counts").all(|row| row["difference"] == 0 && row["a"] == row["b"]), "{found}");
        assert!(rows(&found, "order").all(|row| row["first_difference"].is_null() && row["a"] == row["b"]));
        assert!(rows(&found, "values").count() > 0, "{trace}");
        assert!(rows(&found, "values").all(|row| row["distance"] == 0.0 && row["a"] == row["b"]), "{found}");
    }
}

#[test]
fn a_converted_trace_has_the_same_events() {
    for (trace, target) in [("mill", "ctf2"), ("orders", "jsonl"), ("losses", "jsonl"), ("../kernel/bakery", "ctf2")] {
        let (folder, path) = (Folder::new(), demo(trace));
        folder.run_with("convert --quiet --to", &[target, "-o", "copy", &path]).ends(0, &[]);
        let run = folder.run_with("diff --quiet", &[&path, "copy"]).ends(0, &[]);
        assert!(run.stdout.contains("\nCounts: 0 of "), "{trace} to {target}: {}", run.stdout);
        assert!(run.stdout.contains("\nEvent classes: the same fields\n"), "{}", run.stdout);
        assert!(run.stdout.ends_with("\nno difference\n"), "{}", run.stdout);
    }
}

#[test]
fn classes_and_fields_of_one_side_are_named() {
    let folder = two(
        [(10, "old", json!({})), (20, "both", json!({"x": 1, "gone": "t", "kind": 5}))],
        [(10, "both", json!({"x": 2, "new": 0.5, "kind": "five"})), (30, "fresh", json!({})), (50, "fresh", json!({}))],
    );
    let found = object(&folder, "a.jsonl b.jsonl", 4);
    assert_eq!((&found["only_a"]["events"], &found["only_b"]["events"]), (&json!(["old"]), &json!(["fresh"])));
    let fields: Vec<Value> = rows(&found, "fields")
        .map(|row| json!([row["event"], row["field"], row["a"]["kind"], row["b"]["kind"]]))
        .collect();
    let wanted = [
        json!(["both", "payload.gone", "string", null]),
        json!(["both", "payload.kind", "integer", "string"]),
        json!(["both", "payload.new", null, "float"]),
    ];
    assert_eq!(fields, wanted);
    let count = |name: &str| rows(&found, "counts").find(|row| row["name"] == name).cloned().expect("a row");
    assert_eq!(count("fresh")["difference"], 2);
    assert_eq!(
        (&count("old")["a"], &count("old")["b"], &count("both")["difference"]),
        (&json!(1), &json!(0), &json!(0))
    );
    // 2 events in 40 ns.
    assert_eq!(count("fresh")["b_per_second"], 5e7);
    let text = folder.run("diff a.jsonl b.jsonl").ends(4, &[]).stdout;
    for line in ["only A has `old`", "only B has `fresh`", "\nCounts: 2 of 3 names differ", "\nthe traces differ\n"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn the_first_difference_of_order_has_its_surroundings() {
    let side = |names: [&'static str; 8]| names.into_iter().zip(5..).map(|(name, us)| (us * 1000, name, json!({})));
    let folder = two(side(["a", "b", "c", "d", "e", "f", "g", "h"]), side(["a", "b", "c", "d", "x", "f", "g", "y"]));
    let found = object(&folder, "a.jsonl b.jsonl", 4);
    let first = &found["order"][0]["first_difference"];
    let names = |list: &Value| list.as_array().expect("a list").iter().map(|at| at["name"].clone()).collect::<Vec<_>>();
    assert_eq!(first["same_events"], 4);
    assert_eq!(names(&first["before"]), ["b", "c", "d"]);
    assert_eq!(names(&first["a"]), ["e", "f", "g"]);
    assert_eq!(names(&first["b"]), ["x", "f", "g"]);
    assert_eq!(first["b"][0]["ns"], 9000);
    let text = folder.run("diff a.jsonl b.jsonl").ends(4, &[]).stdout;
    assert!(text.contains("the first 4 events are the same, then\n"), "{text}");
    assert!(text.contains("  A  +4.000  e\n") && text.contains("  B  +4.000  x\n"), "{text}");
    // One side ends where the other one goes on.
    folder.file("b.jsonl", lines([(5000, "a", json!({})), (6000, "b", json!({}))]));
    let found = object(&folder, "a.jsonl b.jsonl", 4);
    let first = &found["order"][0]["first_difference"];
    assert_eq!((&first["same_events"], names(&first["a"]).len(), &first["b"]), (&json!(2), 3, &json!([])));
    let text = folder.run("diff a.jsonl b.jsonl").ends(4, &[]).stdout;
    assert!(text.contains("  A  +2.000  c\n") && text.contains("  B       -  (end)\n"), "{text}");
}

/// Requests of so many us each, with a field; three of four have the usual time.
fn requests(times: impl IntoIterator<Item = u64>) -> Vec<Line<'static>> {
    let mut at = 1_000_000;
    let mut events = Vec::new();
    for us in times {
        events.push((at, "request_begin", json!({"bytes": us % 50})));
        events.push((at + us * 1000, "request_end", json!({})));
        at += 1_000_000;
    }
    events
}

#[test]
fn slower_pairs_are_found_and_equal_ones_are_noise() {
    let usual = || (0..300u64).map(|at| 100 + at * 7 % 50);
    // Equal times, which come in another order.
    let folder = two(requests(usual()), requests((0..300u64).map(|at| 100 + (at + 25) * 7 % 50)));
    let found = object(&folder, "a.jsonl b.jsonl", 0);
    assert_eq!(value(&found, "duration", "request", Value::Null)["verdict"], "noise", "{found}");
    let folder = two(requests(usual()), requests(usual().map(|us| us + 40)));
    let found = object(&folder, "a.jsonl b.jsonl", 4);
    let row = value(&found, "duration", "request", Value::Null);
    assert_eq!((&row["verdict"], &row["a"]["count"], &row["unit"]), (&json!("differs"), &json!(300), &json!("ns")));
    assert_eq!((&row["a"]["min"], &row["b"]["min"]), (&json!(100_000.0), &json!(140_000.0)));
    // 240 of the 300 times of A are below 140, and none of B.
    assert_eq!(row["distance"], 0.8);
    assert!(row["p"].as_f64() < Some(1e-9));
    let text = folder.run("diff a.jsonl b.jsonl").ends(4, &[]).stdout;
    assert!(text.contains("\nTimes and values: ") && text.contains("\nduration  request"), "{text}");
    // The bytes are the same numbers in another order.
    assert!(!text.contains("\nvalue "), "{text}");
    let all = folder.run("diff --all --rows all a.jsonl b.jsonl").ends(4, &[]).stdout;
    assert!(all.contains("\nvalue") && all.contains("  noise\n"), "{all}");
}

#[test]
fn too_few_values_say_nothing() {
    let folder = two(requests([100, 110, 120]), requests([900, 910, 920]));
    let found = object(&folder, "a.jsonl b.jsonl", 0);
    let row = value(&found, "duration", "request", Value::Null);
    assert_eq!((&row["verdict"], &row["p"], &row["distance"]), (&json!("too few"), &Value::Null, &json!(1.0)));
}

#[test]
fn fields_are_compared_with_signs_and_fractions() {
    let side = |low: f64| (0..40u64).map(move |at| (at * 10, "m", json!({"t": low + at as f64 / 8.0, "pid": at * 3})));
    let folder = two(side(-20.0), side(-10.0));
    let found = object(&folder, "a.jsonl b.jsonl", 4);
    let row = value(&found, "value", "m", json!("payload.t"));
    assert_eq!((&row["verdict"], &row["distance"]), (&json!("differs"), &json!(1.0)));
    assert_eq!((&row["a"]["min"], &row["b"]["max"]), (&json!(-20.0), &json!(-5.125)));
    assert!(rows(&found, "values").all(|row| row["part"] != "payload.pid"), "numbers of processes are no amounts");
}

#[test]
fn states_and_calls_have_rows() {
    let path = demo("../kernel/bakery");
    let run = run_with("diff --quiet --format json", &[&path, &path]).ends(0, &[]);
    let found: Value = serde_json::from_str(&run.stdout).expect("an object");
    let row = value(&found, "state", "grind", json!("WAIT"));
    assert!(row["a"]["count"].as_u64() > Some(10), "{row}");
    assert!(value(&found, "duration", "futex", json!("system call"))["a"]["count"].as_u64() > Some(0));
    assert!(rows(&found, "values").any(|row| row["part"] == "irq" && row["kind"] == "duration"));
    let path = demo("../calls/tasting");
    let run = run_with("diff --quiet --format json", &[&path, &path]).ends(0, &[]);
    let found: Value = serde_json::from_str(&run.stdout).expect("an object");
    assert!(rows(&found, "values").any(|row| row["kind"] == "duration" && row["of"] == "main"), "{found}");
}

#[test]
fn selections_apply_to_both_sides() {
    let folder = two(requests([100, 200]), requests([100, 300]));
    let text = folder.run_with("diff a.jsonl b.jsonl --filter", &["name == \"request_begin\""]).ends(0, &[]).stdout;
    assert!(text.contains("\nCounts: 0 of 1 name differ\n"), "{text}");
    let found = object(&folder, "--end +0s a.jsonl b.jsonl", 0);
    assert_eq!((&found["a"]["events"], &found["b"]["events"]), (&json!(1), &json!(1)));
}

#[test]
fn damage_is_reported_and_the_rest_compared() {
    let folder = Folder::new();
    folder.copy_of("mill", "good").copy_of("mill", "bad");
    let stream = std::fs::read_dir(folder.path("bad")).expect("a folder").flatten();
    let stream = stream.map(|entry| entry.path()).filter(|path| !path.ends_with("metadata"));
    let longest = stream.max_by_key(|path| std::fs::metadata(path).map_or(0, |file| file.len())).expect("a stream");
    let bytes = std::fs::read(&longest).expect("it can be read");
    std::fs::write(&longest, &bytes[..bytes.len() / 2]).expect("it can be written");
    let run = folder.run("diff good bad").ends(3, &["error: "]);
    assert!(run.stdout.ends_with("\nthe traces differ\n"), "{}", run.stdout);
    folder.run("diff --strict good bad").ends(1, &["error: "]);
}

#[test]
fn wrong_usage_and_what_is_no_trace() {
    let folder = two([(1, "a", json!({}))], [(1, "a", json!({}))]);
    folder.run("diff a.jsonl").ends(2, &["diff"]);
    folder.run("diff a.jsonl b.jsonl a.jsonl").ends(2, &[]);
    folder.run("diff a.jsonl none.jsonl").ends(1, &["none.jsonl"]);
    folder.run("diff a.jsonl b.jsonl --rows x").ends(2, &["--rows"]);
    folder.run("diff a.jsonl b.jsonl -o b.jsonl").ends(2, &["b.jsonl"]);
    folder.run("diff a.jsonl b.jsonl -o out.txt").ends(0, &[]);
    assert!(std::fs::read_to_string(folder.path("out.txt")).expect("it was written").ends_with("no difference\n"));
}

/// Orders of a thread that waits for a worker, then for its CPU: 20 us of its own, 100 of the worker, and so many.
fn orders(waits_us: impl IntoIterator<Item = u64>) -> String {
    let mut lines = String::new();
    let mut event = |us: u64, cpu: u32, name: &str, payload: Value| {
        let line = json!({"ns": us * 1000, "name": name, "cpu": cpu, "stream": cpu, "payload": payload});
        lines.push_str(&format!("{line}\n"));
    };
    let switch = |prev: i64, state: i64, next: i64| json!({"prev_comm": format!("t{prev}"), "prev_tid": prev, "prev_state": state, "next_comm": format!("t{next}"), "next_tid": next});
    event(1, 0, "sched_switch", switch(0, 0, 5));
    event(1, 1, "sched_switch", switch(0, 0, 7));
    let mut at = 100;
    for wait in waits_us {
        event(at, 0, "order:begin", json!({}));
        event(at + 10, 0, "sched_switch", switch(5, 1, 0));
        event(at + 110, 1, "sched_waking", json!({"tid": 5, "target_cpu": 0}));
        event(at + 110 + wait, 0, "sched_switch", switch(0, 0, 5));
        event(at + 120 + wait, 0, "order:end", json!({}));
        at += 1000;
    }
    lines
}

const ORDER: &str = "--period order --period-begin name==\"order:begin\" --period-end name==\"order:end\"";

#[test]
fn paths_of_periods_say_what_makes_the_difference() {
    let folder = Folder::new();
    folder.file("a.jsonl", orders([50; 12])).file("b.jsonl", orders((0..10).map(|at| 400 + 10 * at)));
    let found = object(&folder, &format!("{ORDER} a.jsonl b.jsonl"), 4);
    let path = &found["paths"][0];
    assert_eq!(path["a"], json!({"periods": 12, "of_unknown_threads": 0, "mean_ns": 170_000.0}));
    assert_eq!(path["b"], json!({"periods": 10, "of_unknown_threads": 0, "mean_ns": 565_000.0}));
    let causes: Vec<Value> = path["causes"]
        .as_array()
        .expect("causes")
        .iter()
        .map(|cause| {
            json!([cause["why"], cause["own"], cause["a_mean_ns"], cause["b_mean_ns"], cause["difference_ns"]])
        })
        .collect();
    let wanted = [
        json!(["for CPU 0, which was idle", true, 50_000.0, 445_000.0, 395_000.0]),
        json!(["while t7 7 ran (t5 5 waited for t7 7)", false, 100_000.0, 100_000.0, 0.0]),
        json!(["running", true, 20_000.0, 20_000.0, 0.0]),
    ];
    assert_eq!(causes.len(), wanted.len(), "{path}");
    wanted.iter().for_each(|cause| assert!(causes.contains(cause), "{cause} in {path}"));
    assert_eq!(causes[0], wanted[0]);
    assert_eq!(
        path["sentence"],
        "`order` took 170.0 us in A and 565.0 us in B, 395.0 us more: 395.0 for CPU 0, which was idle"
    );
    let row = value(&found, "duration", "order", json!("period"));
    assert_eq!((&row["a"]["count"], &row["b"]["count"], &row["verdict"]), (&json!(12), &json!(10), &json!("differs")));
    // The other way round, and as a table.
    let run = folder.run(&format!("diff --quiet {ORDER} b.jsonl a.jsonl")).ends(4, &[]);
    let table = "\nPaths of `order`: 10 periods in A, 12 periods in B\n\
                 `order` took 565.0 us in A and 170.0 us in B, 395.0 us less: 395.0 for CPU 0, which was idle\n\
                 why                                       A_us     B_us  change_us  change\n\
                 for CPU 0, which was idle              445.000   50.000   -395.000  -88.8%\n";
    assert!(run.stdout.contains(table), "{}", run.stdout);
    // A trace and itself: no difference, and nothing that makes one.
    let same = object(&folder, &format!("{ORDER} a.jsonl a.jsonl"), 0);
    assert_eq!(same["paths"][0]["sentence"], "`order` took 170.0 us in A and in B");
}

#[test]
fn periods_without_paths_are_counted() {
    let folder = Folder::new();
    let bare = lines([(10, "order:begin", json!({})), (20, "order:end", json!({}))]);
    folder.file("a.jsonl", orders([50; 3])).file("bare.jsonl", bare);
    let found = object(&folder, &format!("{ORDER} a.jsonl bare.jsonl"), 4);
    let path = &found["paths"][0];
    assert_eq!((&path["a"]["periods"], &path["b"]["periods"], &path["sentence"]), (&json!(3), &json!(0), &Value::Null));
    assert_eq!(value(&found, "duration", "order", json!("period"))["b"]["count"], 1);
    let run = folder.run(&format!("diff --quiet {ORDER} a.jsonl bare.jsonl")).ends(4, &[]);
    assert!(run.stdout.contains("no path of `order` is known in B\n"), "{}", run.stdout);
    folder.run(&format!("diff {ORDER} --filter cpu==0 a.jsonl a.jsonl")).ends(2, &["--filter leaves some out"]);
    folder.run("diff --period order a.jsonl a.jsonl").ends(2, &["--period-begin 0 times"]);
}

#[test]
fn a_page_has_all_facts_and_needs_nothing_else() {
    let folder = Folder::new();
    folder.file("<a&b>.jsonl", orders([50; 12])).file("b.jsonl", orders([450; 12]));
    let run = folder.run(&format!("diff --quiet --format html -o page.html {ORDER} <a&b>.jsonl b.jsonl")).ends(4, &[]);
    assert_eq!(run.stdout, "");
    let page = std::fs::read_to_string(folder.path("page.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>\n") && page.ends_with("</main></body></html>\n"));
    for text in [
        "<title>&lt;a&amp;b&gt;.jsonl and b.jsonl - tracemill diff</title>",
        "default-src 'none'",
        "The traces differ.",
        "<h2>Critical paths of order</h2>",
        "400.0 us more: 400.0 for CPU 0, which was idle",
        "<h2>Times and values</h2>",
        "<h2>Counts of events</h2>",
        "<h2>Event classes</h2>",
        "<h2>Order of events</h2>",
    ] {
        assert!(page.contains(text), "{text}");
    }
    for outside in ["http://", "https://", "<script", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Each tag that is opened is closed.
    for tag in ["div", "table", "tr", "td", "th", "details", "svg", "p", "h2"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    folder.run("diff --quiet --format html b.jsonl b.jsonl").ends(0, &[]);
}
