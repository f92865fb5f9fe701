//! Requests without a meaning: an answer or an error, never a fault of the server.

mod calls;
mod counters;
mod export;
mod many;
mod pointed;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tracemill_answers::{AnswerInput, ShownTraces};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{ClockMove, OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_server::{ServerSettings, listen};

/// A server, as its address and token.
struct Served {
    address: String,
    token: String,
    thread: std::thread::JoinHandle<()>,
}

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name)
}

fn input_of(paths: &[PathBuf], moves: &[ClockMove]) -> AnswerInput {
    let opened = SystemTime::now();
    let mut session = Session::open(&FileSystem, paths, &OpenOptions::new(FORMATS)).expect("the options are right");
    session.move_clocks(moves);
    let streams = streams(&session, &[]).expect("all streams");
    let own = paths.to_vec();
    AnswerInput {
        traces: ShownTraces::new(session, streams, Selection::default(), None),
        problems: (Vec::new(), Vec::new()),
        program: "test".to_string(),
        command: "tracemill view".to_string(),
        cut: None,
        query: None,
        symbolizer: None,
        reopen: Some(Arc::new(move |moves: &[ClockMove]| Ok(input_of(&own, moves)))),
        follows: false,
        opened,
        cache: None,
    }
}

fn serve(name: &str) -> Served {
    served(&[demo(name)])
}

fn served(paths: &[PathBuf]) -> Served {
    served_of(input_of(paths, &[]))
}

fn served_of(input: AnswerInput) -> Served {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let server =
        listen(input, &ServerSettings { address, port: 0, hosts: Vec::new(), idle_exit: None }).expect("a port");
    let url = server.url();
    let (address, token) = url.trim_start_matches("http://").split_once("/#token=").expect("both are there");
    let (address, token) = (address.to_string(), token.to_string());
    let thread = std::thread::spawn(move || server.run().expect("it ends well"));
    Served { address, token, thread }
}

impl Served {
    /// Status and body of the answer to a request.
    fn ask(&self, method: &str, target: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        // It may close before it has read all of a request that is too long.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_string()))
    }

    fn when_counted(&self) {
        while !self.ask("GET", "/api/session", "").1.contains("\"complete\"") {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    fn end(self) {
        assert_eq!(self.ask("POST", "/api/stop", "{}").0, 200);
        self.thread.join().expect("it ends");
    }
}

#[test]
fn a_session_brings_its_tracks_when_it_is_asked_to() {
    let served = serve("traces/mill");
    served.when_counted();
    let parse = |target: &str| -> Value { serde_json::from_str(&served.ask("GET", target, "").1).expect("JSON") };
    let (tracks, session) = (parse("/api/tracks"), parse("/api/session?tracks=1"));
    assert!(tracks["tracks"].as_array().is_some_and(|tracks| tracks.len() > 1), "{tracks}");
    assert_eq!((&session["tracks"], &session["generation"]), (&tracks["tracks"], &tracks["generation"]));
    assert_eq!(parse("/api/session")["tracks"], Value::Null);
    served.end();
}

#[test]
fn pages_are_told_how_far_a_filter_is() {
    let served = serve("traces/mill");
    served.when_counted();
    let mut page = TcpStream::connect(&served.address).expect("it listens");
    let head = format!(
        "GET /api/progress HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        served.address, served.token
    );
    page.write_all(head.as_bytes()).expect("it reads");
    let rows = served.rows("cpu%20%3D%3D%200").len();
    let (mut told, mut some) = (String::new(), [0; 4096]);
    let last = loop {
        let len = page.read(&mut some).expect("it goes on");
        assert!(len > 0, "it ended: {told}");
        told.push_str(&String::from_utf8_lossy(&some[..len]));
        let events =
            told.split("event: filter").skip(1).filter_map(|event| event.split("data: ").nth(1)?.lines().next());
        let events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        if let Some(last) = events.into_iter().find(|data| data["done"].as_f64() == Some(1.0)) {
            break last;
        }
    };
    assert_eq!((&last["filter"], &last["matches"]), (&"cpu == 0".into(), &rows.into()));
    drop(page);
    served.end();
}

#[test]
fn odd_requests_have_answers() {
    let served = serve("traces/mill");
    served.when_counted();
    let paths = [
        "session",
        "tracks",
        "tiles",
        "events",
        "event/0",
        "event/",
        "event/x",
        "event/-1",
        "call/c0/0",
        "call/b0/0",
        "call/",
        "select",
        "flame",
        "search",
        "locate",
        "problems",
        "",
        "/",
        "..",
        "event/0/0",
        "%00",
        "pairs",
        "outliers",
        "track/p.g0.mill-3Agrind.payload-2Egrams",
        "track/p.g0",
    ];
    let numbers = [
        "0",
        "1",
        "-1",
        "62",
        "63",
        "4096",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "170141183460469231731687303715884105727",
        "-170141183460469231731687303715884105728",
        "x",
        "",
        "1e3",
        " 1",
        "%31",
    ];
    let names =
        ["from", "to", "level", "at", "begin", "end", "limit", "tracks", "track", "filter", "q", "direction", "g"];
    let others = [
        "p.g0.mill-3Agrind.payload-2Egrams",
        "p.g0.x.name",
        "b0",
        "b0,b1",
        "g0",
        "c0",
        "b99",
        "next",
        "previous",
        "cpu == 0",
        "name == \"",
        "%ff%fe",
        "((((((((",
    ];
    // A small generator of its own: every run asks the same.
    let mut state = 7u64;
    let mut pick = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % count
    };
    for round in 0..700 {
        let path = paths[pick(paths.len())];
        let mut query = Vec::new();
        for _ in 0..pick(6) {
            let all = numbers.iter().chain(&others).count();
            let at = pick(all);
            let value = numbers.get(at).or_else(|| others.get(at - numbers.len())).expect("one of them");
            query.push(format!("{}={}", names[pick(names.len())], value.replace(' ', "%20").replace('"', "%22")));
        }
        let method = ["GET", "GET", "GET", "GET", "GET", "POST", "HEAD", "DELETE", "OPTIONS"][pick(9)];
        let target = format!("/api/{path}?{}", query.join("&"));
        let (status, body) = served.ask(method, &target, "");
        assert!((200..500).contains(&status) || status == 503, "{round}: {method} {target}: {status} {body}");
    }
    served.end();
}

#[test]
fn each_limit_has_its_status() {
    let served = serve("calls/tasting");
    served.when_counted();
    let long = "x".repeat(20_000);
    assert_eq!(served.ask("GET", &format!("/api/events?from=0&filter={long}"), "").0, 414);
    assert_eq!(served.ask("POST", "/api/login", &format!("\"{}\"", "x".repeat(70_000))).0, 413);
    assert_eq!(served.ask("POST", "/api/login", "{").0, 400);
    assert_eq!(served.ask("POST", "/api/login", "{\"ticket\":\"x\"}").0, 401);
    assert_eq!(served.ask("GET", "/api/tiles?tracks=none&level=3&from=0&to=0", "").0, 404);
    assert_eq!(served.ask("GET", "/api/tiles?tracks=b0&level=3&from=0&to=9999", "").0, 400);
    assert_eq!(served.ask("GET", "/api/search?q=x&fields=1", "").0, 200);
    assert_eq!(served.ask("GET", "/api/nothing", "").0, 404);
    assert_eq!(served.ask("OPTIONS", "/api/session", "").0, 405);
    let (status, calls) = served.ask("GET", "/api/flame", "");
    assert!(status == 200 && calls.contains("usleep"), "{calls}");
    let (status, first) = served.ask("GET", "/api/events?from=0&limit=1&json=1", "");
    assert!(status == 200 && first.contains("\"event\":0"), "{first}");
    served.end();
}

impl Served {
    /// The answer to a question.
    fn json(&self, target: &str) -> Value {
        let (status, body) = self.ask("GET", &format!("/api/{target}"), "");
        assert_eq!(status, 200, "{target}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// All rows of the table of events, each with its line.
    fn rows(&self, filter: &str) -> Vec<(Value, Value)> {
        let mut rows = Vec::new();
        loop {
            let answer = self.json(&format!("events?from={}&limit=1000&json=1&filter={filter}", rows.len()));
            let some = answer["rows"].as_array().expect("a list");
            if some.is_empty() {
                return rows;
            }
            let line = |row: &Value| serde_json::from_str(row["json"].as_str().expect("a text")).expect("JSON");
            rows.extend(some.iter().map(|row| (row.clone(), line(row))));
        }
    }
}

fn ns(value: &Value) -> i128 {
    value.as_str().expect("a text").parse().expect("a number")
}

/// Begins and durations from `orders:taken` to `orders:sent` of the same id, by the lines.
fn by_hand(rows: &[(Value, Value)]) -> Vec<(i128, i128)> {
    let mut open = HashMap::new();
    let mut pairs = Vec::new();
    for (row, line) in rows {
        let id = line["payload"]["id"].to_string();
        match row["name"].as_str() {
            Some("orders:taken") => drop(open.insert(id, ns(&row["ns"]))),
            Some("orders:sent") => {
                pairs.extend(open.remove(&id).map(|begin: i128| (begin, ns(&row["ns"]) - begin)));
            }
            _ => {}
        }
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn pairs_are_those_of_the_lines() {
    let served = serve("traces/orders");
    served.when_counted();
    let all = served.rows("");
    let question = "pairs?from=orders:taken&to=orders:sent&by=payload.id";
    let points = |answer: &Value| -> Vec<(i128, i128)> {
        let points = answer["points"].as_array().expect("a list").iter();
        points.map(|point| (ns(&point["begin"]), ns(&point["duration"]))).collect()
    };
    let whole = served.json(question);
    let expected = by_hand(&all);
    assert!(expected.len() > 100);
    assert_eq!(points(&whole), expected);
    let rows = whole["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), expected.len());
    assert!(rows.iter().all(|row| row["count"] == 1 && row["min"] == row["max"] && row["p50"] == row["mean"]));
    let longest = expected.iter().map(|(_, duration)| duration).max().expect("there are some");
    assert_eq!(ns(&rows[0]["total"]), *longest);
    // A part of the time, a track, a filter.
    let (begin, end) = (&all[100].0["ns"], &all[400].0["ns"]);
    let within = |row: &&(Value, Value)| (ns(begin)..=ns(end)).contains(&ns(&row.0["ns"]));
    let some: Vec<(Value, Value)> = all.iter().filter(within).cloned().collect();
    let range = format!("begin={}&end={}", ns(begin), ns(end));
    assert_eq!(points(&served.json(&format!("{question}&{range}"))), by_hand(&some));
    let on_track: Vec<(Value, Value)> = all.iter().filter(|row| row.0["track"] == "b1").cloned().collect();
    assert!(on_track.len() < all.len());
    assert_eq!(points(&served.json(&format!("{question}&tracks=b1"))), by_hand(&on_track));
    let filter = "payload.id%20%3C%2050";
    let filtered = served.rows(filter);
    assert!(filtered.len() < all.len());
    assert_eq!(points(&served.json(&format!("{question}&filter={filter}"))), by_hand(&filtered));
    // From each event to the next of its name.
    let gaps = served.json("pairs?from=orders:taken&to=orders:taken&by=name");
    assert_eq!(gaps["points"].as_array().map(Vec::len), Some(159));
    for wrong in ["pairs?from=a", "pairs?from=nothing&to=orders:sent", "pairs?from=orders:taken&to=orders:sent&by=x"] {
        let (status, body) = served.ask("GET", &format!("/api/{wrong}"), "");
        assert!(status == 400 && body.contains("\"request\""), "{wrong}: {body}");
    }
    served.end();
}

#[test]
fn outliers_are_far_from_the_mean() {
    let served = serve("traces/mill");
    served.when_counted();
    let all = served.rows("");
    let values: Vec<(u64, f64)> = all
        .iter()
        .filter(|(row, _)| row["name"] == "mill:grind")
        .map(|(row, line)| {
            (row["event"].as_u64().expect("a number"), line["payload"]["grams"].as_f64().expect("a number"))
        })
        .collect();
    let mean = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|(_, value)| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    let limit = 1.7 * variance.sqrt();
    let far: Vec<u64> =
        values.iter().filter(|(_, value)| (value - mean).abs() > limit).map(|(event, _)| *event).collect();
    let answer = served.json("outliers?name=mill:grind&field=payload.grams&deviations=1.7");
    assert!((answer["mean"].as_f64().expect("a number") - mean).abs() < 1e-9 * mean);
    assert_eq!(answer["values"], values.len());
    let events: Vec<u64> =
        answer["events"].as_array().expect("a list").iter().filter_map(|event| event["event"].as_u64()).collect();
    assert!(!far.is_empty());
    assert_eq!(events, far);
    // A single value is never far from the mean; a text has no mean.
    let none = served.json("outliers?name=mill:label&field=payload.remark");
    assert_eq!((&none["mean"], &none["values"]), (&Value::Null, &Value::from(0)));
    served.end();
}

#[test]
fn values_are_searched() {
    let served = serve("traces/mill");
    served.when_counted();
    let all = served.rows("");
    let hits: Vec<i64> = all
        .iter()
        .filter(|(row, _)| row["text"].as_str().is_some_and(|text| text.to_lowercase().contains("nutty")))
        .filter_map(|(row, _)| row["event"].as_i64())
        .collect();
    assert!(hits.len() > 2);
    let event = |direction: &str, from: i64| {
        let found = served.json(&format!("search?q=NuTTy&fields=1&from={from}&direction={direction}"));
        found["match"]["event"].as_i64()
    };
    let mut forward = vec![event("next", -1).expect("there is one")];
    while let Some(next) = event("next", forward[forward.len() - 1]) {
        forward.push(next);
    }
    assert_eq!(forward, hits);
    assert_eq!(event("previous", hits[2]), Some(hits[1]));
    assert_eq!(event("previous", hits[0]), None);
    served.end();
}

#[test]
fn a_clock_is_moved() {
    let served = served(&[demo("traces/mill"), demo("traces/orders")]);
    served.when_counted();
    let session = served.json("session");
    assert!(session["features"].as_array().is_some_and(|all| all.contains(&"clock".into())));
    let times = |trace: u64| -> Vec<i128> {
        let rows = served.rows("");
        rows.iter().filter(|(row, _)| row["trace"] == trace).map(|(row, _)| ns(&row["ns"])).collect()
    };
    let (mill, orders) = (times(0), times(1));
    for offset in ["3600000000000", "-5", "0"] {
        let body = format!("{{\"trace\":0,\"offset_ns\":\"{offset}\"}}");
        assert_eq!(served.ask("POST", "/api/clock", &body).0, 200);
        served.when_counted();
        let now = served.json("session");
        assert_ne!(now["generation"], session["generation"]);
        assert_eq!((&now["traces"][0]["moved_ns"], &now["traces"][1]["moved_ns"]), (&offset.into(), &"0".into()));
        let by: i128 = offset.parse().expect("a number");
        assert_eq!(times(0), mill.iter().map(|time| time + by).collect::<Vec<_>>(), "{offset}");
        assert_eq!(times(1), orders);
    }
    for wrong in [
        "{}",
        "{\"trace\":7,\"offset_ns\":\"1\"}",
        "{\"trace\":0,\"offset_ns\":\"x\"}",
        "{\"trace\":-1,\"offset_ns\":1}",
    ] {
        assert_eq!(served.ask("POST", "/api/clock", wrong).0, 400, "{wrong}");
    }
    served.end();
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_growing_trace_is_read_again() {
    let folder = Folder(std::env::temp_dir().join(format!("tracemill-growing-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let from = demo("traces/losses");
    let file = |name: &str| std::fs::read(from.join(name)).expect("it is there");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.0.join(name), bytes).expect("there is room");
    write("metadata", &file("metadata"));
    write("tiny_1", &file("tiny_1"));
    let whole = file("tiny_0");
    // Whole packets.
    write("tiny_0", &whole[..16384]);
    let served = served(std::slice::from_ref(&folder.0));
    served.when_counted();
    let first = served.rows("");
    let mut watching = TcpStream::connect(&served.address).expect("it listens");
    let request = format!(
        "GET /api/progress HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        served.address, served.token
    );
    watching.write_all(request.as_bytes()).expect("it reads");
    watching.set_read_timeout(Some(Duration::from_secs(20))).expect("there are timeouts");
    let mut heard = String::new();
    let mut hear = |what: &str| {
        let mut bytes = [0; 4096];
        while !heard.contains(what) {
            let len = watching.read(&mut bytes).expect("it says something");
            assert!(len > 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&bytes[..len]));
        }
        std::mem::take(&mut heard)
    };
    hear("event: index");
    let before = served.json("session")["generation"].clone();
    write("tiny_0", &whole);
    let said = hear("event: grown");
    served.when_counted();
    let grown = served.rows("");
    assert!(grown.len() > first.len());
    assert_ne!(served.json("session")["generation"], before);
    // The same as if it were opened now, and only the new part is said to be another one.
    let fresh = self::served(std::slice::from_ref(&folder.0));
    fresh.when_counted();
    assert_eq!(grown, fresh.rows(""));
    assert_eq!(served.json("problems"), {
        let mut problems = fresh.json("problems");
        problems["generation"] = served.json("problems")["generation"].clone();
        problems
    });
    fresh.end();
    let begin: i128 =
        said.split("\"begin\":\"").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok()).expect(&said);
    let last_of = |rows: &[(Value, Value)]| {
        rows.iter().filter(|(row, _)| row["track"] == "b0").map(|(row, _)| ns(&row["ns"])).max()
    };
    assert_eq!(Some(begin), last_of(&first));
    // A file that shrank: another session.
    write("tiny_0", &whole[..8192]);
    let until = Instant::now() + Duration::from_secs(20);
    while served.json("session")["events"].as_u64() >= Some(first.len() as u64) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    served.when_counted();
    assert!(served.rows("").len() < first.len());
    served.end();
}

#[test]
fn a_call_says_its_values() {
    let (folder, plain) = (demo("calls/tasting"), "tasting");
    let served = served(&[folder]);
    served.when_counted();
    let tracks = served.json("tracks");
    let tasks = tracks["tracks"].as_array().expect("a list").iter().filter(|track| track["kind"] == "calls");
    let statistics = served.json("select");
    let mut calls = 0;
    for task in tasks {
        let id = task["id"].as_str().expect("a text");
        for number in 0..task["calls"].as_u64().expect("a number").min(40) {
            let call = served.json(&format!("call/{id}/{number}"));
            let mut of_name = statistics["calls"].as_array().expect("a list").iter();
            assert_eq!(Some(&call["all"]), of_name.find(|row| row["name"] == call["name"]));
            // A time without processor is in no module.
            let is_wait = call["name"].as_str().expect("a name").starts_with("linux:schedule");
            let module = if is_wait { Value::Null } else { plain.into() };
            assert_eq!((&call["module"], &call["args"], &call["retval"]), (&module, &Value::Null, &Value::Null));
            calls += 1;
        }
    }
    assert!(calls > 50, "{calls}");
    served.end();
}

/// The answer to a question about groups, once these were read.
fn read_groups(served: &Served, target: &str) -> Value {
    loop {
        let answer = served.json(target);
        if answer["done"] == 1.0 {
            return answer;
        }
    }
}

#[test]
fn tracks_by_a_value_hold_every_event_once() {
    let served = serve("traces/mill");
    served.when_counted();
    assert!(served.json("session")["features"].as_array().is_some_and(|all| all.contains(&"groups".into())));
    let origin = ns(&served.json("session")["origin"]);
    let value_of = |path: &str, line: &Value| match path {
        "cpu" | "name" => Some(line[path].clone()),
        "thread" => Some(line["stream_context"]["vtid"].clone()),
        "process" => Some(line["stream_context"]["vpid"].clone()),
        _ => Some(line["payload"]["grinder"].clone()).filter(|value| !value.is_null()),
    };
    for filter in ["", "cpu%20%3D%3D%200"] {
        let rows = served.rows(filter);
        for path in ["cpu", "name", "thread", "process", "payload.grinder"] {
            let answer = read_groups(&served, &format!("tracks?group={path}&trace=0&filter={filter}"));
            let mut wanted: HashMap<Option<String>, Vec<i128>> = HashMap::new();
            for (row, line) in &rows {
                let value = value_of(path, line).map(|value| value.as_str().map_or(value.to_string(), str::to_string));
                wanted.entry(value).or_default().push(ns(&row["ns"]) - origin);
            }
            let tracks = answer["tracks"].as_array().expect("a list");
            assert_eq!((tracks.len(), &answer["left_out"]), (wanted.len(), &Value::from(0)), "{path} {filter}");
            let mut ids = Vec::new();
            for track in tracks {
                let times = &wanted[&track["value"].as_str().map(str::to_string)];
                assert_eq!(track["events"], times.len(), "{track}");
                let id = track["id"].as_str().expect("a text");
                ids.push(id);
                assert_eq!(read_groups(&served, &format!("track/{id}?filter={filter}"))["events"], times.len());
                for level in [0, 9, 20, 31, 62] {
                    let tile = (times[times.len() / 2] >> level >> 10) as u64;
                    let answer = served.json(&format!(
                        "tiles?tracks={id}&level={level}&from={tile}&to={tile}&exact=1&filter={filter}"
                    ));
                    let of = &answer["tracks"][0];
                    let mut buckets: std::collections::BTreeMap<i128, u64> = Default::default();
                    let inside = times.iter().filter(|time| **time >> level >> 10 == i128::from(tile));
                    inside
                        .for_each(|time| *buckets.entry((time >> level) - (i128::from(tile) << 10)).or_default() += 1);
                    let list = |name: &str| of[name].as_array().expect("a list").clone();
                    let found = list("at").into_iter().zip(list("n"));
                    let found: Vec<(i128, u64)> = found
                        .map(|(at, n)| (at.as_i64().expect("a bucket").into(), n.as_u64().expect("a number")))
                        .collect();
                    assert_eq!(found, buckets.into_iter().collect::<Vec<_>>(), "{id}, level {level}");
                    assert_eq!(of["exact"], true);
                }
                let sums = served.json(&format!("select?tracks={id}&filter={filter}"));
                assert_eq!(sums["events"], times.len(), "{id}");
                let first = served.json(&format!("locate?track={id}&at={}&direction=next&filter={filter}", origin - 1));
                assert_eq!(ns(&first["ns"]) - origin, times[0], "{id}");
            }
            let sums = served.json(&format!("select?tracks={}&filter={filter}", ids.join(",")));
            assert_eq!(sums["events"], rows.len(), "{path}");
        }
    }
    // Beside a base track events are counted once.
    let all = served.json("select")["events"].clone();
    let some = read_groups(&served, "tracks?group=cpu&trace=0")["tracks"][0]["id"].clone();
    let tracks = served.json("tracks");
    let bases = tracks["tracks"].as_array().expect("a list").iter().filter(|track| track["base"] == true);
    let bases: Vec<&str> = bases.filter_map(|track| track["id"].as_str()).collect();
    let some = some.as_str().expect("a text");
    let sums = served.json(&format!("select?tracks={},{some}", bases.join(",")));
    assert_eq!(sums["events"], all);
    for (wrong, status) in [
        ("tracks?group=cpu", 400),
        ("tracks?group=cpu&trace=9", 404),
        ("tracks?group=payload.none&trace=0", 400),
        ("tracks?group=%3D%3D&trace=0", 400),
        ("track/v.g0.cpu.i77", 404),
        ("track/v.g9.cpu.i0", 404),
        ("tiles?tracks=v.g0.cpu&level=0&from=0&to=0", 404),
    ] {
        assert_eq!(served.ask("GET", &format!("/api/{wrong}"), "").0, status, "{wrong}");
    }
    let body = format!("{{\"what\":\"trace\",\"tracks\":[\"{some}\"]}}");
    assert_ne!(served.ask("POST", "/api/export", &body).0, 200);
    assert_eq!(served.ask("POST", "/api/sql", "{\"query\":\"select 1\"}").0, 404);
    served.end();
}

#[test]
fn a_field_of_many_values_has_a_track_for_the_rest() {
    let served = serve("traces/mill");
    served.when_counted();
    let all = served.json("session")["events"].clone();
    let answer = read_groups(&served, "tracks?group=payload.grams&trace=0");
    let tracks = answer["tracks"].as_array().expect("a list");
    assert_eq!((tracks.len(), &answer["values"]), (257, &Value::from(256)));
    let sum: u64 = tracks.iter().map(|track| track["events"].as_u64().expect("a number")).sum();
    let last = &tracks[256];
    assert_eq!((&last["name"], &last["events"]), (&"other values".into(), &answer["left_out"]));
    assert!(all == sum && last["events"].as_u64() > Some(0), "{sum}");
    served.end();
}

/// In a trace without calls the flame graph is of samples: of one event, of a range, of the threads whose states are chosen.
#[test]
fn the_flame_graph_of_samples() {
    let served = serve("samples/bakery.data");
    served.when_counted();
    let features = served.json("session")["features"].clone();
    assert!(features.as_array().expect("a list").iter().any(|one| one == "samples"), "{features}");
    let whole = served.json("flame");
    assert_eq!(whole["events"], json!(["sched_switch", "cpu-clock/period=4000000/"]));
    assert_eq!((&whole["event"], &whole["unit"]), (&json!("sched_switch"), &json!("events")));
    let of = |query: &str| -> (Value, u64) {
        let flame = served.json(&format!("flame?event=cpu-clock%2Fperiod%3D4000000%2F{query}"));
        let nodes = flame["nodes"].as_array().expect("nodes").clone();
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok()).expect("a number");
        // Own weights add up to totals.
        let own: u64 = nodes.iter().map(|node| number(&node["self"])).sum();
        assert_eq!(own, number(&nodes[0]["total"]), "{query}");
        assert!(nodes.iter().skip(1).all(|node| node["parent"].as_u64() < node["id"].as_u64()));
        (flame["unit"].clone(), nodes[0]["calls"].as_u64().expect("a number"))
    };
    assert_eq!(of(""), (json!("ns"), 30));
    let (_, first) = of("&end=59188960000000");
    let (_, rest) = of("&begin=59188960000001");
    assert!(first > 0 && rest > 0);
    assert_eq!(first + rest, 30);
    let tracks = served.json("tracks");
    let threads = tracks["tracks"].as_array().expect("tracks").iter().filter(|track| track["kind"] == "state");
    let samples: u64 = threads
        .filter(|track| {
            track["name"].as_str().is_some_and(|name| name.starts_with("bakery") || name.starts_with("oven"))
        })
        .map(|track| of(&format!("&tracks={}", track["id"].as_str().expect("an id"))).1)
        .sum();
    assert_eq!(samples, 30);
    // Samples of the clock do not say their CPU; those of switches do, and a counter has none.
    let of_cpu = |id: &str| of(&format!("&tracks={id}")).1;
    let all = tracks["tracks"].as_array().expect("tracks");
    let cpus = all.iter().filter(|track| track["name"].as_str().is_some_and(|name| name.starts_with("CPU ")));
    let cpus: Vec<&str> = cpus.map(|track| track["id"].as_str().expect("an id")).collect();
    assert!(!cpus.is_empty());
    for id in cpus {
        assert_eq!(of_cpu(id), if id.ends_with("cpu0") { 54 } else { 0 }, "{id}");
    }
    let base = all.iter().find(|track| track["name"] == "timed").expect("a stream");
    assert_eq!(of_cpu(base["id"].as_str().expect("an id")), 30);
    assert_eq!(of_cpu("g0"), 30);
}
