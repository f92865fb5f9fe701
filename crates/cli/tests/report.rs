//! `report`: statistics of the time between events, compared with values calculated by hand.

mod util;

use serde_json::{Value, json};
use util::{Folder, csv_rows, run, run_with, ticks_metadata, ticks_packet};

const NUMBER: &str = "integer { size = 32; align = 8; }";

/// An event: time, number of its class (0 `enter`, 1 `leave`, 2 `mark`), track, its name, datum.
type Event<'a> = (u64, u8, u32, &'a str, u32);

/// A folder with a trace `t` of such events.
fn trace(events: &[Event]) -> Folder {
    let folder = Folder::new();
    folder.file("t/metadata", metadata("freq = 1000000000;")).file("t/s", packet(events));
    folder
}

fn metadata(clock: &str) -> String {
    let event = |id: u8, name: &str| {
        format!(
            "event {{ name = \"{name}\"; id = {id}; fields := struct {{ {NUMBER} track; string track_name; \
             {NUMBER} datum; }}; }};\n"
        )
    };
    let head = ticks_metadata(clock);
    let head = head.split("event {").next().expect("the beginning");
    // The header gets a number of the event class.
    let head =
        head.replace("event.header := struct {", "event.header := struct { integer { size = 8; align = 8; } id;");
    let head = head.replace("{ size = 64;", "{ size = 64; align = 8;");
    head.to_string() + &event(0, "enter") + &event(1, "leave") + &event(2, "mark")
}

fn packet(events: &[Event]) -> Vec<u8> {
    let mut body = Vec::new();
    for (time, class, track, name, datum) in events {
        body.push(*class);
        body.extend(time.to_le_bytes());
        body.extend(track.to_le_bytes());
        body.extend(name.as_bytes());
        body.push(0);
        body.extend(datum.to_le_bytes());
    }
    let bits = (40 + body.len() as u64) * 8;
    let (first, last) = (events.first().map_or(0, |event| event.0), events.last().map_or(0, |event| event.0));
    let words = [bits, bits, first, last, 0];
    words.into_iter().flat_map(u64::to_le_bytes).chain(body).collect()
}

/// The object of `--format json`; the run must end well and say nothing.
#[track_caller]
fn report(folder: &Folder, arguments: &str) -> Value {
    let run = folder.run(&format!("report t --format json {arguments}")).ends(0, &[]);
    assert_eq!(run.stderr, "", "{arguments}");
    serde_json::from_str(&run.stdout).expect("one JSON object")
}

/// Group, count and total of each row.
fn totals(object: &Value, key: &str) -> Vec<(Value, u64, u64)> {
    let groups = object["groups"].as_array().expect("a list").iter();
    groups.map(|row| (row["group"][key].clone(), number(&row["count"]), number(&row["total"]))).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Two workers that take turns.
const TURNS: [Event; 6] = [
    (100, 2, 7, "one", 0),
    (150, 2, 8, "two", 0),
    (160, 0, 8, "two", 0),
    (250, 2, 7, "one", 0),
    (260, 2, 7, "one", 0),
    (300, 2, 8, "two", 0),
];

#[test]
fn a_field_of_the_packet_is_a_key() {
    let metadata = ticks_metadata("freq = 1000000000;").replace("u64 events_discarded;", "u64 cpu_id;");
    let (cpus, folder) = ([7, 8, 7, u64::MAX, 8, 7], Folder::new());
    let stream = |shift: u64| {
        let packet = |(at, cpu): (usize, &u64)| {
            let events: Vec<(u64, u32)> = (0..10).map(|n| (at as u64 * 100 + n * 10 + shift, n as u32)).collect();
            ticks_packet(&events, *cpu + shift)
        };
        cpus[..6 - 3 * shift as usize].iter().enumerate().flat_map(packet).collect::<Vec<u8>>()
    };
    // Packets of two streams at the same places of their files have different values.
    folder.file("t/metadata", metadata).file("t/s0", stream(0)).file("t/s1", stream(1));
    let found = report(&folder, "--state tick --by cpu_id --sort group");
    let groups = found["groups"].as_array().expect("groups").iter();
    let counts: Vec<(u64, u64)> = groups
        .map(|group| (group["group"]["cpu_id"].as_u64().expect("a number"), group["count"].as_u64().expect("a number")))
        .collect();
    // The last event of all begins no state.
    assert_eq!(counts, [(7, 29), (8, 40), (9, 10), (u64::MAX, 10)]);
}

#[test]
fn a_state_lasts_until_the_next_one_anywhere() {
    let folder = trace(&TURNS);
    // 100 -> 150 and 250 -> 260 -> 300 on track 7; 150 -> 250 on track 8.
    let object = report(&folder, "--state mark");
    assert_eq!(totals(&object, "track"), [(json!(7), 3, 100), (json!(8), 1, 100)]);
    let row = &object["groups"][0];
    assert_eq!((&row["label"], &row["min"], &row["max"]), (&json!("one"), &json!(10), &json!(50)));
    // 50, 10, 40: the squares of the differences from 100/3 are 7800/9 together, of the population 2600/9.
    let near = |value: &Value, want: f64| (value.as_f64().expect("a number") - want).abs() < 1e-9;
    assert!(near(&row["mean"], 100.0 / 3.0) && near(&row["deviation"], (2600f64 / 9.0).sqrt()), "{row}");
    assert_eq!(row["percentiles"], json!({"50": 40, "90": 50, "95": 50, "99": 50, "exact": true}));
    assert_eq!((&object["report"], &object["unit"]), (&json!("state"), &json!("ns")));
    assert_eq!((&object["all"]["count"], &object["all"]["total"]), (&json!(4), &json!(200)));
    // The number is as good as the name.
    for event in ["2", "0x2", "ma*"] {
        assert_eq!(report(&folder, &format!("--state {event}")), object);
    }
}

#[test]
fn within_a_group_each_has_its_own_chain() {
    // 100 -> 250 -> 260; 150 -> 300.
    let object = report(&trace(&TURNS), "--state mark --within");
    assert_eq!(totals(&object, "track"), [(json!(7), 2, 160), (json!(8), 1, 150)]);
}

/// Two lanes; a second beginning, an end alone, a beginning alone, a pair without length.
const PAIRS: [Event; 9] = [
    (10, 1, 1, "a", 5),
    (20, 0, 1, "a", 5),
    (30, 0, 2, "b", 6),
    (40, 1, 1, "a", 6),
    (50, 0, 2, "b", 5),
    (90, 1, 2, "b", 5),
    (90, 0, 1, "a", 5),
    (90, 1, 1, "a", 5),
    (95, 0, 1, "a", 9),
];

#[test]
fn pairs_by_track_and_by_datum() {
    let folder = trace(&PAIRS);
    // Track 1: 20 -> 40, 90 -> 90. Track 2: 50 -> 90, the beginning at 30 has another one after it.
    let object = report(&folder, "--from enter --to leave");
    assert_eq!(totals(&object, "track"), [(json!(2), 1, 40), (json!(1), 2, 20)]);
    let left = |only_ends, restarted, unfinished| {
        json!({"untimed": 0, "negative": 0, "too_long": 0, "only_ends": only_ends, "restarted": restarted,
               "unfinished": unfinished, "too_many": 0})
    };
    assert_eq!(object["left_out"], left(1, 1, 1));
    // Datum 5: 20 is followed by 50, 50 -> 90, 90 -> 90. Datum 6: 30 -> 40.
    let object = report(&folder, "--from 0 --to 1 --by datum");
    assert_eq!(totals(&object, "datum"), [(json!(5), 2, 40), (json!(6), 1, 10)]);
    assert_eq!(object["left_out"], left(1, 1, 1));
    // One event that begins and ends.
    let object = report(&folder, "--from enter --to enter");
    assert_eq!(totals(&object, "track"), [(json!(1), 2, 75), (json!(2), 1, 20)]);
    assert_eq!(object["left_out"], left(0, 0, 2));
}

#[test]
fn groups_of_several_paths_and_of_text() {
    let folder = trace(&PAIRS);
    let object = report(&folder, "--from enter --to leave --by track_name,payload.datum --sort group");
    let groups: Vec<Value> =
        object["groups"].as_array().expect("a list").iter().map(|row| row["group"].clone()).collect();
    assert_eq!(
        groups,
        [json!({"track_name": "a", "payload.datum": 5}), json!({"track_name": "b", "payload.datum": 5})]
    );
    // Without the field it is the stream.
    let folder = Folder::new();
    folder.file("t/metadata", ticks_metadata("freq = 1000000000;"));
    folder.file("t/s", ticks_packet(&[(5, 1), (8, 2)], 0));
    assert_eq!(totals(&report(&folder, "--state tick"), "stream"), [(json!("s"), 1, 3)]);
}

#[test]
fn a_regression_counts_no_inner_pairs() {
    // Outer calls about 1 take 10, 20, 30 without the inner ones about 2, which take 5, 5, 5.
    let mut events = Vec::new();
    for (call, begin) in [(1u64, 100u64), (2, 200), (3, 300)] {
        events.push((begin, 0, 4, "w", 1));
        events.push((begin + 2, 0, 4, "w", 2));
        events.push((begin + 3, 2, 4, "w", 3));
        events.push((begin + 7, 1, 4, "w", 0));
        events.push((begin + 5 + 10 * call, 1, 4, "w", 0));
    }
    events.push((900, 0, 4, "w", 77));
    let folder = trace(&events);
    let object = report(&folder, "--from enter --to leave --regress --model 3,10");
    assert_eq!(totals(&object, "datum"), [(json!(1), 3, 60), (json!(2), 3, 15)]);
    let row = &object["groups"][0];
    assert_eq!((&row["offset"], &row["slope"], &row["r"]), (&json!(10), &json!(10), &json!(1)));
    // 10 calls: 10 + 20 + ... + 100.
    assert_eq!(row["model"], json!({"3": 60, "10": 550}));
    let flat = &object["groups"][1];
    assert_eq!((&flat["offset"], &flat["slope"], &flat["r"]), (&json!(5), &json!(0), &json!(null)));
    assert_eq!(object["left_out"]["unfinished"], 1);
    // Durations between occurrences: 100 and 100.
    let object = report(&folder, "--state mark --regress");
    assert_eq!((&object["groups"][0]["slope"], &object["groups"][0]["count"]), (&json!(0), &json!(2)));
}

#[test]
fn forms() {
    let folder = trace(&TURNS);
    let table = folder.run("report t --state mark").ends(0, &[]).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "time from each `mark` to the next `mark`, charged to the earlier one; times in microseconds");
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(words(lines[1]), "group count total mean deviation min max p50 p90 p95 p99");
    assert_eq!(words(lines[2]), "one (7) 3 0.100 0.033 0.017 0.010 0.050 0.040 0.050 0.050 0.050");
    assert_eq!(words(lines[4]), "(all) 4 0.200 0.050 0.032 0.010 0.100");
    let rows = csv_rows(&folder.run("report t --state mark --format csv").ends(0, &[]).stdout);
    assert_eq!(rows[0][..4], ["track", "label", "count", "total_ns"]);
    assert_eq!(rows[2][..8], ["8", "two", "1", "100", "100", "0", "100", "100"]);
    assert_eq!(rows[2].last().map(String::as_str), Some("exact"));
    assert!(folder.run("report t --state mark -o out.txt").ends(0, &[]).stdout.is_empty());
    assert_eq!(std::fs::read_to_string(folder.path("out.txt")).expect("it is written"), table);
}

#[test]
fn options_that_choose_events() {
    let folder = trace(&TURNS);
    let count = |arguments: &str| number(&report(&folder, &format!("--state mark {arguments}"))["all"]["count"]);
    assert_eq!((count(""), count("--begin 150ns"), count("--begin 150ns --end 260ns")), (4, 3, 2));
    let with = |more: &[&str]| folder.run_with("report t --format json --state mark", more).ends(0, &[]).stdout;
    let object: Value = serde_json::from_str(&with(&["--filter", "track == 7"])).expect("JSON");
    assert_eq!(totals(&object, "track"), [(json!(7), 2, 160)]);
    folder.run("report t --state mark --stream nope").ends(2, &["no stream"]);
    let nothing: Value = serde_json::from_str(&with(&["--filter", "track == 8 and ns < 200"])).expect("JSON");
    assert_eq!(
        (&nothing["groups"], &nothing["all"]["mean"], &nothing["all"]["min"]),
        (&json!([]), &json!(null), &json!(null))
    );
}

#[test]
fn two_traces_have_groups_of_their_own() {
    let folder = trace(&TURNS);
    folder.file("u/metadata", metadata("freq = 1000000000;")).file("u/s", packet(&[(400, 2, 7, "other", 0)]));
    let run = folder.run("report t u --format json --state mark --sort group").ends(0, &[]);
    let object: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(object["groups"][1]["group"], json!({"trace": "t", "track": 8}));
    assert_eq!(number(&object["groups"][1]["total"]), 200, "the last one lasts until the other trace's");
    let run = folder.run("report t u --format json --state mark --within --by track").ends(0, &[]);
    let object: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(totals(&object, "track"), [(json!(7), 3, 300), (json!(8), 1, 150)], "paths go over all traces");
}

#[test]
fn time_that_goes_back_gives_no_duration() {
    let folder = trace(&[(100, 2, 1, "a", 0), (300, 2, 1, "a", 0), (200, 2, 1, "a", 0), (260, 2, 1, "a", 0)]);
    let run = folder.run("report t --format json --state mark");
    let run = run.ends(0, &["time goes back", "1 event left out: their durations are below zero"]);
    let object: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((totals(&object, "track"), &object["left_out"]["negative"]), (vec![(json!(1), 2, 260)], &json!(1)));
}

#[test]
fn what_a_trace_cannot_feed() {
    let run = run("report orders").ends(1, &["no function calls", "formats with calls: ", "uftrace", "--state"]);
    assert_eq!(run.stdout, "");
    // A filter without events to measure between is one of functions.
    run_with("report orders --filter", &["id==1"]).ends(1, &["no function calls", "with --state, or --from and --to"]);
    let folder = Folder::new();
    let lines = ticks_metadata("freq = 1000000000;").replace(" map = clock.c.value;", "");
    let no_clock: Vec<&str> = lines.lines().filter(|line| !line.starts_with("clock")).collect();
    let no_clock = no_clock.join("\n").replace("timestamp", "number");
    folder.file("t/metadata", no_clock).file("t/s", ticks_packet(&[(5, 1), (8, 2)], 0));
    folder
        .run("report t --state tick")
        .ends(1, &["have no time", "formats whose events may have names and times: ctf"]);
}

#[test]
fn wrong_usage() {
    let run = |arguments: &str, texts: &[&str]| run(&format!("report orders {arguments}")).ends(2, texts);
    run("--avg-total --state a", &["--avg-total is for function calls"]);
    run("--begin 1", &["is for the time between events: name them with --state"]);
    run(
        "--by payload.id",
        &["--by is for samples, and this trace has none", "the time between events: name them with --state"],
    );
    run("--regress", &["--regress needs the events", "--from EVENT --to EVENT"]);
    run("--state nope", &["no event has the name or number `nope`", "the events are `orders:"]);
    run("--from nope", &["--to"]);
    run("--state a --from b --to c", &["cannot be used with"]);
    run("--state orders:* --by nope", &["nope"]);
    run("--within", &["--state"]);
}
