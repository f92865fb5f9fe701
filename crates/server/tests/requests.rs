//! Requests that nobody means: an answer or an error, never a fault of the server.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::survey::ends;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_server::{Input, Settings, Traces, listen};

/// A server, as its address and token.
struct Served {
    address: String,
    token: String,
    thread: std::thread::JoinHandle<()>,
}

fn serve(name: &str) -> Served {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name);
    let session = Session::open(&FileSystem, &[path], &OpenOptions::new(FORMATS)).expect("the options are right");
    let (streams, ends) = (streams(&session, &[]).expect("all streams"), ends(&session, (true, true)));
    let traces = Traces {
        session: Arc::new(session),
        streams,
        selection: Selection::default(),
        filter: None,
        ends,
        is_unix: true,
    };
    let input = Input {
        traces,
        problems: (Vec::new(), Vec::new()),
        program: "test".to_string(),
        command: "tracemill view".to_string(),
    };
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let server = listen(input, &Settings { address, port: 0, hosts: Vec::new(), idle_exit: None }).expect("a port");
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
    let others = ["b0", "b0,b1", "g0", "c0", "b99", "next", "previous", "cpu == 0", "name == \"", "%ff%fe", "(((((((("];
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
    assert_eq!(served.ask("GET", "/api/search?q=x&fields=1", "").0, 400);
    assert_eq!(served.ask("GET", "/api/nothing", "").0, 404);
    assert_eq!(served.ask("OPTIONS", "/api/session", "").0, 405);
    let (status, calls) = served.ask("GET", "/api/flame", "");
    assert!(status == 200 && calls.contains("usleep"), "{calls}");
    let (status, first) = served.ask("GET", "/api/events?from=0&limit=1&json=1", "");
    assert!(status == 200 && first.contains("\"event\":0"), "{first}");
    served.end();
}
