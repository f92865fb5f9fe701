//! States and counters that the user defines: `--states FILE`.

mod util;

use serde_json::{Value, json};
use util::{Folder, Run, csv_rows, json_lines};

/// Two connections, and the depths of two queues. Connection 2 never closes, and 3 only closes.
const EVENTS: [(u64, &str, &str); 15] = [
    (1000, "net:open", r#"{"conn":1}"#),
    (1100, "net:up", r#"{"conn":1,"host":"a"}"#),
    (1150, "net:up", r#"{"conn":1,"host":"a"}"#),
    (1200, "net:open", r#"{"conn":2}"#),
    (1300, "net:error", r#"{"conn":1,"code":0}"#),
    (1400, "net:error", r#"{"conn":1,"code":5}"#),
    (1500, "net:phase", r#"{"conn":1,"phase":"closing"}"#),
    (1600, "net:close", r#"{"id":1}"#),
    (1700, "net:close", r#"{"id":3}"#),
    (1700, "q:put", r#"{"q":"a","size":10}"#),
    (1800, "q:put", r#"{"q":"b","size":1}"#),
    (1800, "q:put", r#"{"q":"a","size":4}"#),
    (1900, "q:get", r#"{"q":"a","size":10}"#),
    (1950, "q:depth", r#"{"q":"b","depth":2.5}"#),
    (2000, "q:flush", r#"{"q":"a"}"#),
];

const STATES: &str = "# connections\n\
    states connection by conn\n\
    on net:open -> opening\n\
    on net:up -> up\n\
    on net:error if code != 0 -> \"has failed\"\n\
    on net:phase -> = phase\n\
    on net:close by payload.id -> end\n";

const COUNTERS: &str = "counter bytes by q\n\
    on q:put -> + size\n\
    on q:get -> - size\n\
    on q:depth -> = depth\n\
    on q:flush -> end\n\
    counter puts\n\
    on q:put -> +1\n";

fn folder() -> Folder {
    let folder = Folder::new();
    let lines =
        EVENTS.map(|(ns, name, payload)| format!("{{\"ns\":{ns},\"name\":\"{name}\",\"payload\":{payload}}}\n"));
    folder.file("t.jsonl", lines.concat());
    folder.file("c.states", STATES).file("q.states", COUNTERS).file("all.states", [STATES, COUNTERS].concat());
    folder
}

fn ok(folder: &Folder, arguments: &str) -> String {
    let Run { code, stdout, stderr } = folder.run(arguments);
    assert_eq!((code, &*stderr), (Some(0), ""), "{arguments}");
    stdout
}

/// The cells of some columns of a table in JSON.
fn cells(folder: &Folder, arguments: &str, columns: &[&str]) -> Vec<Vec<Value>> {
    let table: Value = serde_json::from_str(&ok(folder, &format!("{arguments} --json t.jsonl"))).expect("JSON");
    let rows = table["rows"].as_array().expect("rows").clone();
    rows.iter().map(|row| columns.iter().map(|column| row[column].clone()).collect()).collect()
}

#[test]
fn keys_spend_time_in_states() {
    let folder = folder();
    let columns = ["name", "conn", "state", "count", "total_ns", "max_ns", "cut"];
    let found = cells(&folder, "analyze custom --states all.states", &columns);
    // Up is entered once: an event that leads to the state of its key changes nothing, nor does one with the code 0.
    assert_eq!(
        found,
        [
            vec![json!("connection"), json!(2), json!("opening"), json!(1), json!(800), json!(800), json!(1)],
            vec![json!("connection"), json!(1), json!("up"), json!(1), json!(300), json!(300), json!(0)],
            vec![json!("connection"), json!(1), json!("closing"), json!(1), json!(100), json!(100), json!(0)],
            vec![json!("connection"), json!(1), json!("has failed"), json!(1), json!(100), json!(100), json!(0)],
            vec![json!("connection"), json!(1), json!("opening"), json!(1), json!(100), json!(100), json!(0)],
        ]
    );
    let found = cells(&folder, "analyze custom --states c.states --by state", &["name", "state", "count", "total_ns"]);
    assert_eq!(found[0], [json!("connection"), json!("opening"), json!(2), json!(900)]);
    assert_eq!(found.len(), 4);
    let log = ok(&folder, "analyze custom --states c.states --log --format csv t.jsonl");
    assert_eq!(
        csv_rows(&log)[..3],
        [
            ["name", "conn", "state", "from", "to", "duration_ns", "cut"],
            ["connection", "1", "opening", "1000", "1100", "100", "false"],
            ["connection", "1", "up", "1100", "1400", "300", "false"],
        ]
    );
    let text = ok(&folder, "analyze custom --states c.states --top 1 --clock-seconds t.jsonl");
    assert!(text.starts_with("name") && text.contains("1 of 5 visits"), "{text}");
    let text = ok(&folder, "analyze custom --states c.states --hist 2 t.jsonl");
    assert!(text.lines().count() == 3, "{text}");
}

#[test]
fn one_event_can_change_several_keys_each_once() {
    let folder = Folder::new();
    let line = |ns: u64, from: u64, to: u64| {
        format!("{{\"ns\":{ns},\"name\":\"switch\",\"payload\":{{\"from\":{from},\"to\":{to}}}}}\n")
    };
    folder.file("t.jsonl", [line(100, 1, 2), line(150, 2, 1), line(180, 1, 1), line(300, 1, 2)].concat());
    folder.file(
        "x.states",
        "states task by payload.to\non switch by payload.from if payload.to == 9 -> end\n\
         on switch by payload.from -> off\non switch -> on\n",
    );
    // Of the switch from 1 to 1, the first rule of this key counts.
    let found = cells(&folder, "analyze custom --states x.states --log", &["payload.to", "state", "from", "to"]);
    assert_eq!(
        found,
        [
            [json!(2), json!("on"), json!(100), json!(150)],
            [json!(1), json!("off"), json!(100), json!(150)],
            [json!(1), json!("on"), json!(150), json!(180)],
            [json!(2), json!("off"), json!(150), json!(300)],
            [json!(1), json!("off"), json!(180), json!(300)],
            [json!(2), json!("on"), json!(300), json!(300)],
        ]
    );
}

#[test]
fn a_range_cuts_what_is_not_wholly_in_it() {
    let folder = folder();
    let columns = ["conn", "state", "from", "to", "cut"];
    let options = "--begin 1150ns --end 1450ns";
    let found = cells(&folder, &format!("analyze custom --states c.states --log {options}"), &columns);
    assert_eq!(
        found,
        [
            [json!(1), json!("up"), json!(1150), json!(1400), json!(true)],
            [json!(1), json!("has failed"), json!(1400), json!(1450), json!(true)],
            [json!(2), json!("opening"), json!(1200), json!(1450), json!(true)],
        ]
    );
    let columns = ["name", "q", "changes", "min", "max", "last"];
    let options = "--begin 1750ns --end 1850ns";
    let found = cells(&folder, &format!("analyze custom --of counters --states q.states {options}"), &columns);
    // The value from before the range is in it, the changes before it are not.
    assert_eq!(
        found,
        [
            [json!("bytes"), json!("a"), json!(1), json!(10), json!(14), json!(14)],
            [json!("bytes"), json!("b"), json!(1), json!(1), json!(1), json!(1)],
            [json!("puts"), json!(null), json!(2), json!(1), json!(3), json!(3)],
        ]
    );
    // Over the period of connection 1.
    let run = folder.run_with(
        "analyze custom --states c.states --json --per c --period c t.jsonl",
        &[
            "--period-begin",
            "name == \"net:up\" and ns == 1100",
            "--period-end",
            "name == \"net:close\" and ns == 1600",
        ],
    );
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    let tables: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let rows = tables["analyses"][0]["rows"].as_array().expect("rows");
    let sum: i64 = rows.iter().filter(|row| row["conn"] == 1).filter_map(|row| row["total_ns"].as_i64()).sum();
    assert_eq!(sum, 500, "{rows:?}");
}

#[test]
fn counters_have_values() {
    let folder = folder();
    let columns = ["name", "q", "changes", "min", "max", "mean", "last"];
    let found = cells(&folder, "analyze custom --of counters --states all.states", &columns);
    // From 1700 on 10, from 1800 on 14, from 1900 to 2000 4: means are over time.
    let mean = (100.0 * 10.0 + 100.0 * 14.0 + 100.0 * 4.0) / 300.0;
    assert_eq!(found[0][..5], [json!("bytes"), json!("a"), json!(4), json!(4), json!(14)]);
    assert!((found[0][5].as_f64().expect("a number") - mean).abs() < 1e-9, "{found:?}");
    assert_eq!(found[0][6], json!(4));
    assert_eq!(found[1], [json!("bytes"), json!("b"), json!(2), json!(1), json!(2.5), json!(1.375), json!(2.5)]);
    assert_eq!(found[2][..5], [json!("puts"), json!(null), json!(3), json!(1), json!(3)]);
    let log = ok(&folder, "analyze custom --of counters --states q.states --log --format jsonl t.jsonl");
    let values: Vec<(Value, Value)> = json_lines(&log)
        .into_iter()
        .filter(|row| row["q"] == "a")
        .map(|row| (row["time"].clone(), row["value"].clone()))
        .collect();
    let wanted = [(1700, json!(10)), (1800, json!(14)), (1900, json!(4)), (2000, json!(null))];
    assert_eq!(values, wanted.map(|(ns, value)| (json!(ns), value)));
}

#[test]
fn events_that_say_too_little_are_counted() {
    let folder = folder();
    folder
        .file("x.states", "states a by conn, code\non net:* -> seen\non q:* -> seen\ncounter c\non net:up -> = host\n");
    let table = ok(&folder, "analyze custom --states x.states t.jsonl");
    assert!(table.contains("13 unknown keys"), "{table}");
    let table = ok(&folder, "analyze custom --of counters --states x.states t.jsonl");
    assert!(table.contains("2 unknown values"), "{table}");
}

#[test]
fn keys_beyond_the_limit_are_counted() {
    let folder = Folder::new();
    let count = (1u32 << 18) + 5;
    let line = |at: u32| format!("{{\"ns\":{at},\"name\":\"e\",\"payload\":{{\"k\":{at}}}}}\n");
    folder.file("t.jsonl", (1..=count).map(line).collect::<String>());
    folder.file("x.states", "states a by k\non e -> seen\n");
    let table = ok(&folder, "analyze custom --states x.states --by state --json t.jsonl");
    let table: Value = serde_json::from_str(&table).expect("JSON");
    assert_eq!((&table["rows"][0]["count"], &table["notes"]["too_many_keys"]), (&json!(1 << 18), &json!(5)));
}

#[test]
fn mistakes_are_explained() {
    let folder = folder();
    folder.file("bad.states", "states a\n\non net:up when x -> b\n");
    folder.run("analyze custom --states bad.states t.jsonl").ends(2, &["bad.states", "line 3, column 11", "`when`"]);
    folder.run("analyze custom t.jsonl").ends(2, &["needs a file", "--states FILE"]);
    folder.run("analyze cpu --states c.states t.jsonl").ends(2, &["`cpu` does not take --states"]);
    folder.run("analyze custom --states q.states t.jsonl").ends(2, &["defines no states", "--of counters"]);
    folder.run("analyze custom --of counters --states c.states t.jsonl").ends(2, &["defines no counters"]);
    folder.run("analyze custom --states none.states t.jsonl").ends(1, &["none.states"]);
    folder.run("analyze custom --states c.states --step 1us t.jsonl").ends(2, &["does not take --step"]);
    // Names that the traces do not have are reported; when they have none of them, nothing can be shown.
    folder.file("near.states", "states a\non net:up -> b\non net:opn -> c\n");
    let run = folder.run("analyze custom --states near.states t.jsonl");
    run.ends(0, &["warning", "no event has the name or number `net:opn`", "line 3", "did you mean `net:open`"]);
    folder.file("none.states", "states a\non x -> b\n");
    folder.run("analyze custom --states none.states t.jsonl").ends(2, &["no event has the name or number `x`"]);
    folder.file("path.states", "states a by konn\non net:up -> b\n");
    folder.run("analyze custom --states path.states t.jsonl").ends(2, &["konn", "path.states"]);
}
