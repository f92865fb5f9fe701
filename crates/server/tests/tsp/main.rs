//! The Trace Server Protocol, as its clients speak it: over HTTP, without a token.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tracemill_answers::{AnswerInput, ShownTraces};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;
use tracemill_server::{TspSettings, listen_tsp};

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name)
}

fn open(paths: &[PathBuf]) -> Result<Option<AnswerInput>, Error> {
    let session = Session::open(&FileSystem, paths, &OpenOptions::new(FORMATS))?;
    let streams = streams(&session, &[])?;
    Ok(Some(AnswerInput::new(ShownTraces::new(session, streams, Selection::default(), None))))
}

fn settings(address: IpAddr) -> TspSettings {
    TspSettings {
        address,
        port: 0,
        hosts: Vec::new(),
        origins: vec!["http://localhost:3000".to_string()],
        roots: vec![demo("kernel"), demo("traces"), demo("calls")].into_iter().filter(|path| path.exists()).collect(),
        version: "1.2.3",
    }
}

/// The host of a server, which ends with the tests.
fn serve() -> String {
    let server = listen_tsp(Box::new(open), settings(Ipv4Addr::LOCALHOST.into())).expect("a port");
    let url = server.url();
    std::thread::spawn(move || server.run());
    url.trim_start_matches("http://").split('/').next().expect("a host").to_string()
}

/// Status, head and body of the answer to a request with more lines in its head.
fn send(host: &str, method: &str, path: &str, head: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(host).expect("it listens");
    let len = body.len();
    let request = format!(
        "{method} /tsp/api{path} HTTP/1.1\r\nHost: {host}\r\n{head}Content-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), head.to_lowercase(), body.to_string())
}

const JSON: &str = "Content-Type: application/json\r\n";

fn ask(host: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, _, body) = send(host, method, path, JSON, &body);
    (status, serde_json::from_str(&body).expect("JSON"))
}

fn get(host: &str, path: &str) -> Value {
    let (status, body) = ask(host, "GET", path, &Value::Null);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

fn import(host: &str, path: &Path) -> (u16, Value) {
    ask(host, "POST", "/traces", &json!({ "parameters": { "uri": path } }))
}

/// An experiment of the demo traces of some names.
struct Opened {
    host: String,
    uuid: String,
    range: Value,
}

impl Opened {
    fn new(names: &[&str]) -> Opened {
        let host = serve();
        let uuids: Vec<Value> = names.iter().map(|name| import(&host, &demo(name)).1["UUID"].clone()).collect();
        let body = json!({ "parameters": { "name": "mine", "traces": uuids } });
        let (status, made) = ask(&host, "POST", "/experiments", &body);
        assert_eq!(status, 200, "{made}");
        let uuid = made["UUID"].as_str().expect("a text").to_string();
        let read = loop {
            let now = get(&host, &format!("/experiments/{uuid}"));
            if now["indexingStatus"] == "COMPLETED" {
                break now;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        let range = json!({ "start": read["start"], "end": read["end"], "nbTimes": 100 });
        Opened { host, uuid, range }
    }

    fn post(&self, path: &str, parameters: Value) -> (u16, Value) {
        let path = format!("/experiments/{}/outputs/{path}", self.uuid);
        ask(&self.host, "POST", &path, &json!({ "parameters": parameters }))
    }

    fn model(&self, path: &str, parameters: Value) -> Value {
        let (status, body) = self.post(path, parameters);
        assert_eq!((status, &body["status"]), (200, &json!("COMPLETED")), "{path}: {body}");
        body["model"].clone()
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], |list| list)
}

#[test]
fn traces_and_experiments_come_and_go() {
    let host = serve();
    assert_eq!(get(&host, "/health"), json!({ "status": "UP" }));
    let (status, trace) = import(&host, &demo("kernel/bakery"));
    assert_eq!((status, &trace["name"], &trace["indexingStatus"]), (200, &json!("bakery"), &json!("CLOSED")));
    assert_eq!(import(&host, &demo("kernel/bakery")).1, trace);
    assert_eq!(get(&host, "/traces"), json!([trace]));
    let uri = format!("file://{}", demo("traces/mill").canonicalize().expect("it is there").display());
    let named = json!({ "parameters": { "uri": uri, "name": "bakery" } });
    let (status, conflict) = ask(&host, "POST", "/traces", &named);
    assert_eq!((status, &conflict["trace"]), (409, &trace));
    let of = |name: &str, traces: &[&Value]| json!({ "parameters": { "name": name, "traces": traces } });
    let uuid = &trace["UUID"];
    assert_eq!(ask(&host, "POST", "/experiments", &of("none", &[])).0, 400);
    assert_eq!(ask(&host, "POST", "/experiments", &of("odd", &[&json!("x")])).0, 404);
    let (status, experiment) = ask(&host, "POST", "/experiments", &of("one", &[uuid]));
    assert_eq!(status, 200, "{experiment}");
    assert_eq!(ask(&host, "POST", "/experiments", &of("one", &[uuid])).1["UUID"], experiment["UUID"]);
    assert_eq!(ask(&host, "POST", "/experiments", &of("one", &[uuid, uuid])).0, 409);
    let (of_trace, own) = (
        format!("/traces/{}", uuid.as_str().expect("a text")),
        format!("/experiments/{}", experiment["UUID"].as_str().expect("a text")),
    );
    assert_eq!(ask(&host, "DELETE", &of_trace, &Value::Null).0, 409);
    assert_eq!(ask(&host, "DELETE", &own, &Value::Null).0, 200);
    assert_eq!(ask(&host, "GET", &own, &Value::Null).0, 404);
    assert_eq!(ask(&host, "DELETE", &of_trace, &Value::Null).0, 200);
    assert_eq!(get(&host, "/traces"), json!([]));
    assert!(demo("kernel/bakery").exists());
}

#[test]
fn only_what_was_allowed_is_opened_and_asked_for() {
    let host = serve();
    for path in [demo("logs"), demo("kernel/.."), demo("kernel/nosuch"), PathBuf::from("/"), PathBuf::from("kernel")] {
        assert_eq!(import(&host, &path).0, 404, "{path:?}");
    }
    let body = json!({ "parameters": { "uri": demo("kernel/bakery") } }).to_string();
    let status = |method: &str, head: &str| send(&host, method, "/traces", head, &body).0;
    assert_eq!(status("POST", JSON), 200);
    assert_eq!(status("POST", "Content-Type: text/plain\r\n"), 415);
    assert_eq!(status("GET", "Origin: http://evil.example\r\n"), 403);
    assert_eq!(status("GET", "Origin: null\r\n"), 403);
    assert_eq!(status("OPTIONS", "Origin: http://evil.example\r\n"), 403);
    assert_eq!(status("GET", "Sec-Fetch-Site: cross-site\r\n"), 403);
    assert_eq!(status("GET", "Sec-Fetch-Site: same-site\r\n"), 403);
    let (status, head, _) = send(&host, "OPTIONS", "/traces", "Origin: http://localhost:3000\r\n", "");
    assert_eq!(status, 204);
    assert!(head.contains("access-control-allow-origin: http://localhost:3000\r"), "{head}");
    let mut stream = TcpStream::connect(&host).expect("it listens");
    stream
        .write_all(b"GET /tsp/api/traces HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    for address in ["0.0.0.0", "192.0.2.1", "::"] {
        assert!(listen_tsp(Box::new(open), settings(address.parse().expect("an address"))).is_err());
    }
}

#[test]
fn rows_of_threads_show_states_and_wakes() {
    let opened = Opened::new(&["kernel/bakery"]);
    let tree = opened.model("timeGraph/threads/tree", json!({}));
    let entries = list(&tree["entries"]);
    let named = |name: &str| entries.iter().find(|entry| entry["labels"][0] == name).expect(name);
    let (oven, counter) = (named("oven-1 641"), named("counter 640"));
    assert_eq!((&oven["parentId"], &oven["labels"][1]), (&counter["id"], &json!("641")));
    assert_eq!((&entries[0]["labels"], &entries[0]["hasData"]), (&json!(["bakery", ""]), &json!(false)));
    let mut all = opened.range.clone();
    all["nbTimes"] = 65_536.into();
    let asked = |range: &Value, filter: Value| {
        let asked = json!({ "requested_timerange": range, "requested_items": [oven["id"], 9999, -1],
            "filter_query_parameters": filter });
        let rows = opened.model("timeGraph/threads/states", asked)["rows"].clone();
        assert_eq!((list(&rows).len(), &rows[0]["entryId"]), (1, &oven["id"]));
        rows[0]["states"].clone()
    };
    let (few, many) = (asked(&opened.range, Value::Null), asked(&all, Value::Null));
    assert!(list(&few).len() <= 100 && list(&few).len() < list(&many).len());
    assert!(list(&few).iter().all(|state| list(&many).contains(state)));
    // They follow each other.
    let ends = list(&many).iter().zip(&list(&many)[1..]).map(|(one, next)| (&one["end"], &next["start"]));
    assert!(ends.into_iter().all(|(end, start)| end.as_i64() <= start.as_i64()));
    let filtered = asked(&all, json!({ "filter_expressions_map": { "1": ["duration > 1ms"] } }));
    for state in list(&filtered) {
        let is_long = state["end"].as_i64().unwrap() - state["start"].as_i64().unwrap() > 1_000_000;
        assert_eq!(state["tags"].as_i64(), (!is_long).then_some(1), "{state}");
    }
    let arrows = opened.model("timeGraph/threads/arrows", json!({ "requested_timerange": all }));
    assert!(list(&arrows).iter().any(|arrow| arrow["targetId"] == oven["id"]), "{arrows}");
    let state = &many[3];
    let element = json!({ "elementType": "STATE", "time": state["start"], "duration": 1 });
    let tip =
        json!({ "requested_items": [oven["id"]], "requested_times": [state["start"]], "requested_element": element });
    let tip = opened.model("timeGraph/threads/tooltip", tip);
    assert_eq!((&tip["State"], &tip["Row"]), (&state["label"], &json!("oven-1 641")));
    let styles = opened.model("threads/style", json!({}))["styles"].clone();
    assert!(list(&many).iter().all(|state| !styles[state["style"]["parentKey"].as_str().unwrap()].is_null()));
}

#[test]
fn charts_and_statistics_count_every_event() {
    let opened = Opened::new(&["kernel/bakery", "traces/mill"]);
    let total = |name: &str| {
        let asked = json!({ "requested_timerange": opened.range, "requested_items": [0] });
        let series = opened.model(&format!("XY/{name}/xy"), asked)["series"].clone();
        assert_eq!(list(&series[0]["xValues"]).len(), list(&series[0]["yValues"]).len());
        list(&series[0]["yValues"]).iter().filter_map(Value::as_f64).sum::<f64>() as u64
    };
    let whole = get(&opened.host, &format!("/experiments/{}", opened.uuid));
    let of_trace =
        |name: &str| list(&whole["traces"]).iter().find(|trace| trace["name"] == name).unwrap()["nbEvents"].clone();
    assert_eq!(json!(total("histogram")), whole["nbEvents"]);
    let table = opened.model("table/events/lines", json!({ "requested_table_index": 0, "requested_table_count": 0 }));
    assert_eq!(table["size"], whole["nbEvents"]);
    let statistics = opened.model("data/statistics/tree", json!({ "requested_timerange": opened.range }));
    for root in list(&statistics["entries"]).iter().filter(|entry| entry["parentId"].is_null()) {
        let name = root["labels"][0].as_str().unwrap();
        assert_eq!(root["labels"][1], of_trace(name).to_string(), "{name}");
        assert_eq!(root["labels"][1], root["labels"][3], "{name}");
    }
    let streams = opened.model("XY/event-counts/tree", json!({}));
    let ids: Vec<&Value> = list(&streams["entries"])
        .iter()
        .filter(|entry| !entry["parentId"].is_null())
        .map(|entry| &entry["id"])
        .collect();
    let asked = json!({ "requested_timerange": opened.range, "requested_items": ids });
    let series = opened.model("XY/event-counts/xy", asked)["series"].clone();
    let sum: f64 = list(&series).iter().flat_map(|one| list(&one["yValues"])).filter_map(Value::as_f64).sum();
    assert_eq!(json!(sum as u64), whole["nbEvents"]);
}

#[test]
fn the_table_finds_lines() {
    let opened = Opened::new(&["kernel/bakery"]);
    let columns = opened.model("table/events/columns", json!({}));
    let id = |name: &str| list(&columns).iter().find(|column| column["name"] == name).expect(name)["id"].clone();
    let (kind, contents, ns) = (id("Event type"), id("Contents"), id("Timestamp ns"));
    let lines = |more: Value| {
        let mut asked = json!({ "requested_table_count": 5, "requested_table_column_ids": [kind, contents, ns] });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        opened.model("table/events/lines", asked)
    };
    let find = |column: &Value, text: &str, from: i64, direction: &str| {
        lines(json!({ "requested_table_index": from, "table_search_direction": direction,
            "table_search_expressions": { column.to_string(): text } }))
    };
    let next = find(&kind, "^sched_switch$", 0, "NEXT");
    let first = next["lowIndex"].as_i64().unwrap();
    assert_eq!(
        (&next["lines"][0]["cells"][0]["content"], &next["lines"][0]["tags"]),
        (&json!("sched_switch"), &json!(8))
    );
    assert_eq!(find(&kind, "^sched_switch$", first, "PREVIOUS")["lowIndex"], first);
    assert_eq!(list(&find(&kind, "^sched_switch$", first - 1, "PREVIOUS")["lines"]).len(), 0);
    let text = find(&contents, "next_comm = \"oven-1\"", first, "NEXT");
    let line = &text["lines"][0]["cells"];
    assert!(line[1]["content"].as_str().unwrap().contains("next_comm = \"oven-1\"") && line[1]["tags"] == 8, "{line}");
    assert_eq!(list(&find(&kind, "nosuch", 0, "NEXT")["lines"]).len(), 0);
    let time: i64 = line[2]["content"].as_str().unwrap().parse().unwrap();
    assert_eq!(lines(json!({ "requested_times": [time] }))["lowIndex"], text["lowIndex"]);
    assert_eq!(list(&lines(json!({ "requested_table_index": i64::MAX }))["lines"]).len(), 0);
}

#[test]
fn losses_are_annotated() {
    let opened = Opened::new(&["kernel/bakery"]);
    let path = format!("/experiments/{}/outputs/threads/annotations", opened.uuid);
    assert_eq!(get(&opened.host, &path)["model"]["annotationCategories"], json!(["Lost events"]));
    let all = opened.model("threads/annotations", json!({ "requested_timerange": opened.range }));
    assert_eq!(all["annotations"]["Lost events"][0]["label"], "21 events lost");
    let other = json!({ "requested_timerange": opened.range, "requested_marker_categories": ["Damage"] });
    assert_eq!(opened.model("threads/annotations", other)["annotations"], json!({}));
}

#[test]
fn bookmarks_are_kept_with_their_experiment() {
    let opened = Opened::new(&["traces/mill"]);
    let all = format!("/experiments/{}/bookmarks", opened.uuid);
    let body = |name: &str, start: i64, end: i64| json!({ "parameters": { "name": name, "start": start, "end": end } });
    let (status, made) = ask(&opened.host, "POST", &all, &body("first", 1, 2));
    assert_eq!((status, get(&opened.host, &all)), (200, json!([made])));
    let own = format!("{all}/{}", made["uuid"].as_str().expect("a text"));
    assert_eq!(ask(&opened.host, "PUT", &own, &body("second", 3, 3)).1["name"], "second");
    assert_eq!(ask(&opened.host, "PUT", &own, &body("second", 4, 3)).0, 400);
    assert_eq!(get(&opened.host, &own)["start"], 3);
    assert_eq!(ask(&opened.host, "DELETE", &own, &Value::Null).0, 200);
    assert_eq!(ask(&opened.host, "GET", &own, &Value::Null).0, 404);
}

#[test]
fn odd_requests_are_refused_with_a_title() {
    let opened = Opened::new(&["traces/mill"]);
    let range = &opened.range;
    for (path, parameters, wanted) in [
        ("timeGraph/nosuch/tree", json!({}), 404),
        ("timeGraph/histogram/tree", json!({}), 404),
        ("XY/histogram/nosuch", json!({}), 404),
        ("genericXY/histogram/xy", json!({}), 404),
        ("nosuch/style", json!({}), 404),
        ("XY/histogram/xy", json!({}), 400),
        ("XY/histogram/xy", json!({ "requested_items": [0] }), 400),
        ("XY/histogram/xy", json!({ "requested_items": "0", "requested_timerange": range }), 400),
        ("XY/histogram/xy", json!({ "requested_items": [0], "requested_timerange": { "start": 2, "end": 1 } }), 400),
        ("table/events/lines", json!({ "requested_table_index": 0 }), 400),
        ("table/events/lines", json!({ "requested_table_count": 1 }), 400),
        ("table/events/lines", json!({ "requested_table_index": -1, "requested_table_count": 1 }), 400),
        ("table/events/lines", json!({ "requested_table_index": 0, "requested_table_count": -1 }), 400),
        (
            "table/events/lines",
            json!({ "requested_table_index": 0, "requested_table_count": 1, "requested_table_column_ids": [77] }),
            400,
        ),
        (
            "table/events/lines",
            json!({ "requested_table_index": 0, "requested_table_count": 1, "table_search_expressions": { "0": "(" } }),
            400,
        ),
        ("threads/annotations", json!({}), 400),
    ] {
        let (status, body) = opened.post(path, parameters.clone());
        assert_eq!(status, wanted, "{path} {parameters}: {body}");
        assert!(body["title"].is_string(), "{path}: {body}");
    }
    for (method, path, wanted) in [
        ("GET", "/nosuch", 404),
        ("GET", "", 404),
        ("DELETE", "/health", 405),
        ("PUT", "/traces", 405),
        ("GET", "/config/types", 200),
        ("GET", "/config/types/x", 404),
        ("GET", "/experiments/x/outputs", 404),
    ] {
        let (status, body) = ask(&opened.host, method, path, &json!({ "parameters": {} }));
        assert_eq!(status, wanted, "{method} {path}: {body}");
    }
    assert_eq!(send(&opened.host, "POST", "/traces", JSON, "{").0, 400);
    assert_eq!(send(&opened.host, "POST", "/traces", JSON, "").0, 400);
}

#[test]
fn parameters_may_be_left_out_where_none_is_needed() {
    let opened = Opened::new(&["traces/mill"]);
    for (path, wanted) in [("table/events/columns", 200), ("data/statistics/tree", 200), ("histogram/annotations", 400)]
    {
        let path = format!("/experiments/{}/outputs/{path}", opened.uuid);
        assert_eq!(ask(&opened.host, "POST", &path, &json!({})).0, wanted, "{path}");
    }
}
