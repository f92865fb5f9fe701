//! `view` from the command line: a part of what is shown comes back as a trace.
#![cfg(feature = "viewer")]

mod util;
#[path = "util/viewer.rs"]
mod viewer;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use util::{Folder, demo, json_lines};
use viewer::Viewer;

/// The table has its columns once, in the page: the server's CSV has the same.
#[test]
fn the_table_as_csv_has_the_columns_of_the_page() {
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/api/columns.ts"));
    let source = source.expect("the list of columns");
    let list = source.split_once("const ORDER").and_then(|(_, rest)| rest.split_once('{')?.1.split_once('}'));
    let columns = list.expect("the columns in their order").0.lines();
    let columns: Vec<&str> = columns.filter_map(|line| Some(line.trim().split_once(": true")?.0)).collect();
    assert!(columns.len() >= 8, "{columns:?}");
    let viewer = Viewer::new(&[&demo("mill")]);
    let (status, answer) = viewer.export(&json!({ "what": "events" }));
    assert_eq!(status, 200, "{answer}");
    let (_, csv) = viewer.ask("GET", answer["url"].as_str().expect("a text"), "");
    let csv = String::from_utf8_lossy(&csv);
    assert!(csv.contains(&format!("{}\n", columns.join(","))), "{:?}", csv.lines().take(5).collect::<Vec<_>>());
}

#[test]
fn inlined_functions_of_samples_can_be_left_out() {
    let folder = Folder::new();
    if !cfg!(feature = "debug-info") || !util::put_program_with_inlined(&folder) {
        return;
    }
    let (root, recording) = (folder.path("root").display().to_string(), demo("../samples/bakery.data"));
    let has_inlined = |more: &[&str]| {
        let options: Vec<&str> = ["--symfs", &root, &recording].into_iter().chain(more.iter().copied()).collect();
        let flame = Viewer::new(&options).get("flame?event=cpu-clock%2Fperiod%3D4000000%2F");
        let nodes = flame["nodes"].as_array().expect("a list").clone();
        assert!(nodes.iter().any(|node| node["name"] == "_start"), "{flame}");
        nodes.iter().any(|node| node["name"] == "stir")
    };
    assert!(has_inlined(&[]) && !has_inlined(&["--no-inline"]));
}

#[test]
fn a_part_comes_back_as_a_trace() {
    let folder = Folder::new();
    let mill = demo("mill");
    let lines = |trace: &str, more: &[&str]| -> Vec<Value> {
        json_lines(&folder.run_with(&format!("print --format jsonl {trace}"), more).ends(0, &[]).stdout)
    };
    let all = lines(&mill, &["--filter", "cpu == 0"]);
    let viewer = Viewer::new(&["--filter", "cpu == 0", &mill]);
    let (begin, end) = (&all[100]["ns"], &all[600]["ns"]);
    let question = json!({
        "what": "trace", "begin": begin.to_string(), "end": end.to_string(), "tracks": [],
        "filter": "name == \"mill:grind\"",
    });
    let (status, answer) = viewer.export(&question);
    assert_eq!(status, 200, "{answer}");
    let url = answer["url"].as_str().expect("a text");
    let (status, tar) = viewer.ask("GET", url, "");
    assert_eq!(status, 200);
    assert_eq!(viewer.ask("GET", url, "").0, 404, "it is there once");
    folder.file("part.tar", &tar);
    let part = lines("part.tar", &[]);
    let is_wanted = |line: &&Value| line["name"] == "mill:grind" && (100..=600).any(|at| all[at]["ns"] == line["ns"]);
    let expected: Vec<&Value> = all.iter().filter(is_wanted).collect();
    assert!(expected.len() > 50);
    let told = |line: &Value| (line["ns"].clone(), line["name"].clone(), line["payload"].clone());
    assert_eq!(part.iter().map(told).collect::<Vec<_>>(), expected.into_iter().map(told).collect::<Vec<_>>());
    // One track.
    let (_, answer) = viewer.export(&json!({ "what": "trace", "tracks": ["b0"] }));
    let (_, tar) = viewer.ask("GET", answer["url"].as_str().expect("a text"), "");
    folder.file("track.tar", &tar);
    let track = lines("track.tar", &[]);
    assert!(!track.is_empty() && track.len() < all.len());
    for (wrong, says) in [
        (json!({ "what": "tables" }), "`what` is `events`, `statistics` or `trace`"),
        (json!({ "what": "trace", "begin": "soon" }), "not a number"),
        (json!({ "what": "trace", "filter": "name ==" }), "expected"),
        (json!({ "what": "trace", "tracks": ["b99"] }), "no track"),
    ] {
        let (status, answer) = viewer.export(&wrong);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!((400..500).contains(&status) && message.contains(says), "{wrong}: {status} {answer}");
    }
    // No temporary file is left.
    let left = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
    let own = format!("tracemill-{}-", viewer.child.id());
    assert_eq!(left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count(), 0);
}

#[test]
fn an_index_is_kept_until_the_trace_changes() {
    let folder = Folder::new();
    let (mill, kept) = (demo("mill"), folder.path("kept"));
    let kept = kept.to_str().expect("a text");
    let info = || -> Value {
        let text = folder.run_with("cache info --json", &["--cache-dir", kept]).ends(0, &[]).stdout;
        serde_json::from_str(&text).expect("JSON")
    };
    assert_eq!(info()["indexes"], json!([]));
    let asked = |options: &[&str]| {
        let viewer = Viewer::new(options);
        let (_, tracks) = viewer.ask("GET", "/api/tracks", "");
        let tracks: Value = serde_json::from_slice(&tracks).expect("JSON");
        // It is written after the page was notified.
        for _ in 0..10_000 {
            if !info()["indexes"].as_array().expect("a list").is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        tracks["tracks"].clone()
    };
    let first = asked(&["--cache-dir", kept, &mill]);
    let known = info();
    assert_eq!(known["indexes"].as_array().expect("a list").len(), 1);
    assert!(known["indexes"][0]["traces"][0].as_str().expect("a path").ends_with("mill"), "{known}");
    assert!(first.as_array().is_some_and(|tracks| !tracks.is_empty()) && asked(&["--cache-dir", kept, &mill]) == first);
    let some = asked(&["--cache-dir", kept, "--filter", "cpu == 0", &mill]);
    assert_ne!(some, first, "an index of all events is not one of some");
    let text = folder.run_with("cache clear", &["--cache-dir", kept]).ends(0, &[]).stdout;
    assert!(text.starts_with("1 index removed from "), "{text}");
    assert_eq!(info()["indexes"], json!([]));
}

#[cfg(feature = "sql")]
#[test]
fn queries_are_answered_and_write_nothing() {
    let viewer = Viewer::new(&["--filter", "cpu == 0", &demo("mill")]);
    let ask = |query: &str| -> (u16, Value) {
        let (status, body) = viewer.ask("POST", "/api/sql", &json!({ "query": query }).to_string());
        (status, serde_json::from_slice(&body).expect("JSON"))
    };
    let session: Value = serde_json::from_slice(&viewer.ask("GET", "/api/session", "").1).expect("JSON");
    assert!(session["features"].as_array().expect("a list").contains(&"sql".into()), "{session}");
    let (status, answer) = ask("select name, count(*) as n from events group by name order by n desc");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["columns"], json!([{ "name": "name", "type": "text" }, { "name": "n", "type": "integer" }]));
    let rows = answer["rows"].as_array().expect("a list");
    let counts = rows.iter().map(|row| row[1].as_str().and_then(|n| n.parse::<u64>().ok()).expect("a number"));
    assert_eq!((Value::from(counts.sum::<u64>()), &answer["truncated"]), (session["events"].clone(), &false.into()));
    let (_, answer) = ask("select a.event, a.ns from events a, events b order by a.event limit 5000");
    assert_eq!((&answer["total"], &answer["truncated"]), (&1000.into(), &true.into()));
    // Not all events are shown: the numbers of queries are not those of the page.
    assert_eq!((&answer["columns"][0]["type"], &answer["columns"][1]["type"]), (&"other".into(), &"integer".into()));
    let (status, answer) = ask("select nme from events");
    assert_eq!((status, &answer["error"]["code"], &answer["error"]["span"]), (400, &"sql".into(), &json!([7, 10])));
    let folder = Folder::new();
    let target = folder.path("out.csv");
    for wrong in [format!("copy events to '{}'", target.display()), "create view v as select 1".into(), "".into()] {
        assert_eq!(ask(&wrong).0, 400, "{wrong}");
    }
    assert!(!target.exists());
}

/// The traces of a session by their names: begin, end, ns that were added to their clocks.
fn aligned(session: &Value) -> Vec<(String, i128, i128, Option<i128>)> {
    let number = |value: &Value| value.as_str().map(|text| text.parse().expect("a number"));
    let trace = |trace: &Value| {
        let name = trace["name"].as_str().expect("a name").rsplit('/').next().unwrap_or_default().to_string();
        let [begin, end] = [&trace["begin"], &trace["end"]].map(|time| number(time).expect("a time"));
        (name, begin, end, number(&trace["aligned_ns"]))
    };
    session["traces"].as_array().expect("traces").iter().map(trace).collect()
}

#[test]
fn traces_whose_clocks_cannot_be_compared_begin_together() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo");
    let [tasting, belt] = ["calls/tasting", "logs/belt.cpel"].map(|name| format!("{root}/{name}"));
    let viewer = Viewer::new(&[root]);
    let session = viewer.get("session");
    let traces = aligned(&session);
    let earliest = traces.iter().map(|(_, begin, ..)| *begin).min().expect("traces");
    let moved: Vec<&str> = traces.iter().filter(|trace| trace.3.is_some()).map(|trace| &*trace.0).collect();
    assert_eq!(moved, ["tasting", "pantry", "belt.cpel", "bakery.data"]);
    for (name, begin, end, offset) in &traces {
        assert!(offset.is_none() || *begin == earliest, "{name} begins with the others");
        assert!(end - earliest < 10_000_000_000, "{name} is not years away: {end}");
    }
    assert_eq!(session["traces"][0]["aligned_with"].as_str().map(|name| name.ends_with("dock.elog")), Some(true));
    let problems = viewer.get("problems").to_string();
    assert!(problems.contains("cannot be compared") && problems.contains("aligned at their begins"), "{problems}");
    assert!(!problems.contains("merged by their ns"), "{problems}");
    // A selection counts the events that it shows.
    let (_, begin, end, _) = traces.iter().find(|trace| trace.0 == "tasting").expect("it is there");
    let whole = viewer.get(&format!("select?begin={begin}&end={end}&tracks=g0"));
    assert_eq!(whole["events"], session["traces"][0]["events"]);
    let [half, rest] = [(*begin, begin + 8_000_000), (begin + 8_000_001, *end)]
        .map(|(begin, end)| viewer.get(&format!("select?begin={begin}&end={end}&tracks=g0")));
    let sum = |name: &str| half[name].as_u64().unwrap_or(0) + rest[name].as_u64().unwrap_or(0);
    assert!(half["events"].as_u64() > Some(0) && sum("events") == whole["events"].as_u64().unwrap_or(0));
    let total = |answer: &Value| answer["calls"].as_array().map_or(0, Vec::len);
    assert!(total(&half) > 0 && total(&half) <= total(&whole), "calls are where the events are");
    drop(viewer);

    // The offset that it tells does the same.
    let at = traces.iter().position(|trace| trace.0 == "tasting").expect("it is there");
    let offset = format!("tasting={}", traces[at].3.expect("moved"));
    let viewer = Viewer::new(&["--clock-offset-ns", &offset, root]);
    let by_hand = aligned(&viewer.get("session"));
    assert_eq!((by_hand[at].1, by_hand[at].2, by_hand[at].3), (traces[at].1, traces[at].2, None));
    drop(viewer);

    // No trace counts from the epoch: those of other formats begin with the first.
    let viewer = Viewer::new(&[&belt, &tasting]);
    let both = aligned(&viewer.get("session"));
    assert_eq!((both[0].3, both[1].1), (None, both[0].1));
    drop(viewer);

    // Recordings of one machine keep their distance.
    let folder = Folder::new();
    let copy = folder.path("copy").display().to_string();
    std::fs::create_dir(&copy).expect("a folder");
    for entry in std::fs::read_dir(&tasting).expect("the demo") {
        let entry = entry.expect("a file");
        std::fs::copy(entry.path(), format!("{copy}/{}", entry.file_name().to_string_lossy())).expect("a copy");
    }
    let viewer = Viewer::new(&[&tasting, &copy]);
    assert!(aligned(&viewer.get("session")).iter().all(|trace| trace.3.is_none()), "one clock");
}

#[test]
fn states_of_chosen_tracks_have_statistics() {
    let viewer = Viewer::new(&[concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/kernel/bakery")]);
    let states = |tracks: &str| -> Vec<(String, String, i128, u64)> {
        let answer = viewer.get(&format!("select?begin=0&end=9999999999999999999&tracks={tracks}"));
        let row = |row: &Value| {
            let text = |name: &str| row[name].as_str().expect(name).to_string();
            (text("of"), text("name"), text("total").parse().expect("ns"), row["count"].as_u64().expect("a count"))
        };
        answer["states"].as_array().expect("states").iter().map(row).collect()
    };
    let oven = states("s0.641.0");
    assert_eq!(oven[0], ("thread".to_string(), "blocked".to_string(), 506_517_543, 27));
    let of = |list: &[(String, String, i128, u64)], kind: &str| -> i128 {
        list.iter().filter(|row| row.0 == kind).map(|row| row.2).sum()
    };
    let both = states("s0.641.0,s0.642.0");
    assert_eq!(of(&both, "thread"), of(&oven, "thread") + of(&states("s0.642.0"), "thread"));
    let cpus = states("s0.cpu0,s0.cpu1");
    assert_eq!((of(&cpus, "thread"), of(&cpus, "cpu")), (0, 2 * (821_503_448 - 250_020_000)));
    assert_eq!(of(&states("g0"), "cpu"), of(&cpus, "cpu"), "a group is all of its tracks");
    assert_eq!(of(&states("b0"), "thread"), 0, "streams have no states");
}

#[cfg(unix)]
#[test]
fn slow_connections_do_not_keep_the_owner_out() {
    const FILES: u32 = 200;
    let viewer = Viewer::with_few_files(FILES, &[&demo("mill")]);
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = Vec::new();
    // Some say nothing, others half of a head, others half of a body: more than there is room for.
    let parts = [
        String::new(),
        format!("GET /api/session HTTP/1.1\r\nHost: {}\r\n", viewer.address),
        format!(
            "POST /api/login HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{{",
            viewer.address
        ),
    ];
    for at in 0..3 * FILES as usize {
        let Ok(mut stream) = TcpStream::connect(&viewer.address) else { continue };
        let _ = stream.write_all(parts[at % parts.len()].as_bytes());
        slow.push(stream);
        if at % 100 == 0 {
            assert_eq!(viewer.ask("GET", "/api/session", "").0, 200);
        }
    }
    for _ in 0..5 {
        assert_eq!(viewer.ask("GET", "/api/session", "").0, 200);
        assert_eq!(viewer.ask("GET", "/", "").0, 200, "and the page");
    }
    // Behind the slow ones, each of these questions would wait for the end of their time.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    // Each has an end, whether it was too many or waited too long.
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let is_reset = ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
        assert!(ended.is_ok() || is_reset, "{ended:?}");
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn a_trace_that_is_gone_or_replaced_is_told() {
    let folder = Folder::new();
    let copy = |name: &str| {
        std::fs::create_dir_all(folder.path("trace")).expect("a folder");
        for entry in std::fs::read_dir(demo(name)).expect("the demo") {
            let entry = entry.expect("a file");
            let to = folder.path("trace").join(entry.file_name());
            if entry.path().is_file() {
                std::fs::copy(entry.path(), to).expect("a copy");
            }
        }
    };
    copy("mill");
    let viewer = Viewer::new(&[&folder.path("trace").display().to_string()]);
    let gone = |session: &Value| session["gone"].as_str().map(str::to_string);
    assert_eq!(gone(&viewer.get("session")), None);
    std::fs::remove_dir_all(folder.path("trace")).expect("it was there");
    let told = gone(&viewer.until("session", |session| gone(session).is_some())).expect("a sentence");
    assert!(told.starts_with("the trace is gone: `") && told.contains("what is shown was read before"), "{told}");
    assert_eq!(viewer.get("select")["events"], 2000, "it is still shown");
    copy("orders");
    let is_replaced = |session: &Value| gone(session).is_some_and(|told| told.contains("was replaced"));
    let session = viewer.until("session", is_replaced);
    assert_eq!(session["events"], 500, "and what is there now");
}

/// The number of events that a session says.
fn events(session: &Value) -> u64 {
    session["events"].as_u64().unwrap_or(0)
}

#[test]
fn a_trace_that_grows_is_followed() {
    let folder = Folder::new();
    let from = std::path::Path::new(&demo("losses")).to_path_buf();
    let to = folder.path("losses");
    std::fs::create_dir(&to).expect("it is new");
    let whole = std::fs::read(from.join("tiny_0")).expect("it is there");
    for name in ["metadata", "tiny_1"] {
        std::fs::copy(from.join(name), to.join(name)).expect("there is room");
    }
    // A packet that is not whole yet is no damage.
    std::fs::write(to.join("tiny_0"), &whole[..whole.len() / 2 - 100]).expect("there is room");
    let viewer = Viewer::new(&["--follow", to.to_str().expect("a text")]);
    let first = viewer.get("session");
    assert_eq!((&first["follows"], &first["faults"]), (&json!(true), &json!(0)));
    std::fs::write(to.join("tiny_0"), &whole).expect("there is room");
    let all = Viewer::new(&[&demo("losses")]);
    let wanted = all.get("session");
    assert_eq!(wanted["follows"], json!(false));
    assert!(events(&first) < events(&wanted), "{first}");
    viewer.until("session", |session| events(session) == events(&wanted));
    for path in ["events?from=0&limit=1000", "select", "tiles?tracks=b0,b1&level=20&from=0&to=9&exact=1"] {
        let [mut own, mut other] = [viewer.get(path), all.get(path)];
        own["generation"].take();
        other["generation"].take();
        assert_eq!(own, other, "{path}");
    }
}

#[test]
fn what_cannot_be_extended_is_not_followed() {
    let folder = Folder::new();
    let log =
        std::fs::read_dir(demo("../logs")).expect("logs").flatten().map(|entry| entry.path()).find(|log| log.is_file());
    let log = log.expect("a log").canonicalize().expect("it is there").display().to_string();
    let texts = ["cannot be followed", "--follow reads ctf1.8, ctf2, uftrace, ftrace, jsonl"];
    folder.run(&format!("view --follow --no-open {log}")).ends(1, &texts);
    std::fs::create_dir(folder.path("empty")).expect("it is new");
    folder.run("view --follow --no-open empty").ends(1, &["no trace yet"]);
}
