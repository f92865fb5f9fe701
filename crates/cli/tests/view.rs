//! `view` from the command line: a part of what is shown comes back as a trace.
#![cfg(feature = "viewer")]

mod util;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use util::{Folder, demo, json_lines};

/// A server that runs.
struct Viewer {
    child: Child,
    address: String,
    token: String,
}

impl Viewer {
    fn new(options: &[&str]) -> Viewer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tracemill"));
        // What a test reads is not kept for the user.
        let usual: &[&str] = if options.contains(&"--cache-dir") { &[] } else { &["--no-cache"] };
        command.args(["view", "--no-open"]).args(usual).args(options).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let (address, token) = line.trim().trim_start_matches("http://").split_once("/#token=").expect("an address");
        let viewer = Viewer { address: address.to_string(), token: token.to_string(), child };
        while !String::from_utf8_lossy(&viewer.ask("GET", "/api/session", "").1).contains("\"complete\"") {
            std::thread::sleep(Duration::from_millis(20));
        }
        viewer
    }

    /// Status and body of the answer to a request.
    fn ask(&self, method: &str, target: &str, body: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        // A browser fetches a file without the token.
        let secret = match target.starts_with("/api/") {
            true => format!("Authorization: Bearer {}\r\n", self.token),
            false => String::new(),
        };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{secret}Content-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let status = String::from_utf8_lossy(&answer[9..12]).parse().expect("a status");
        (status, answer.split_off(end + 4))
    }

    fn export(&self, question: &Value) -> (u16, Value) {
        let (status, body) = self.ask("POST", "/api/export", &question.to_string());
        (status, serde_json::from_slice(&body).expect("JSON"))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        (json!({ "what": "trace", "begin": "soon" }), "no number"),
        (json!({ "what": "trace", "filter": "name ==" }), "expected"),
        (json!({ "what": "trace", "tracks": ["b99"] }), "no track"),
    ] {
        let (status, answer) = viewer.export(&wrong);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!((400..500).contains(&status) && message.contains(says), "{wrong}: {status} {answer}");
    }
    // Nothing of it stays.
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
        // It is written after the page was told.
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
