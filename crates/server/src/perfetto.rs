//! A file for the page of Perfetto, which fetches it from this machine: nothing is uploaded.
//!
//! The page of ui.perfetto.dev may fetch from `http://127.0.0.1:9001` and from no other address of the machine (its content
//! security policy), so that the port is not free to choose. The file is given to that page only, below a path that nobody
//! can guess, and the server ends when it was given once.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use tokio::sync::Notify;
use tracemill_answers::random_name;
use tracemill_model::error::{Error, ErrorKind, Result};

const PORT: u16 = 9001;
const ORIGIN: &str = "https://ui.perfetto.dev";
/// Bytes that are read at once.
const PART: usize = 256 << 10;

/// A file that waits for the page.
pub struct HandOver {
    runtime: tokio::runtime::Runtime,
    listener: tokio::net::TcpListener,
    file: Arc<WaitingFile>,
}

struct WaitingFile {
    file: File,
    path: String,
    given: Notify,
}

impl HandOver {
    /// Listens for the page; what comes waits until the server [runs](HandOver::run).
    ///
    /// # Errors
    /// When the file cannot be opened, or another program has the port.
    pub fn new(path: &Path) -> Result<HandOver> {
        let file = File::open(path).map_err(|error| Error::io("open", path, &error))?;
        let failed = |what: &str, error: std::io::Error| Error::new(ErrorKind::Io, format!("cannot {what}: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| failed("start the server", error))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).map_err(|error| {
            failed(&format!("listen on {address}"), error).with_help(
                "ui.perfetto.dev takes files from this port only: end the program that has it, or open the file there",
            )
        })?;
        // Characters that have a meaning in addresses would end the path.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name: String =
            name.chars().map(|at| if at.is_ascii_alphanumeric() || ".-_".contains(at) { at } else { '_' }).collect();
        let path = format!("/{}/{name}", random_name()?);
        Ok(HandOver { runtime, listener, file: Arc::new(WaitingFile { file, path, given: Notify::new() }) })
    }

    /// The address that opens the file in a browser.
    pub fn url(&self) -> String {
        format!("{ORIGIN}/#!/?url=http://127.0.0.1:{PORT}{}", self.file.path)
    }

    /// Waits until the page has the file, or until it is asked to end.
    ///
    /// # Errors
    /// When the system does not let it go on.
    pub fn run(self) -> Result<()> {
        let HandOver { runtime, listener, file } = self;
        let router = axum::Router::new().fallback(answer).with_state(file.clone());
        let ended = runtime.block_on(async {
            let server =
                axum::serve(listener, router).with_graceful_shutdown(async move { file.given.notified().await });
            tokio::select! {
                ended = server => ended,
                _ = tokio::signal::ctrl_c() => Ok(()),
            }
        });
        ended.map_err(|error| Error::new(ErrorKind::Io, format!("the server cannot go on: {error}")))
    }
}

async fn answer(State(waiting): State<Arc<WaitingFile>>, request: Request) -> Response {
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let is_own = text(header::HOST).is_some_and(|host| host == format!("127.0.0.1:{PORT}"));
    let is_page = text(header::ORIGIN).is_none_or(|origin| origin == ORIGIN);
    if !is_own || !is_page || request.uri().path() != waiting.path {
        return status(StatusCode::NOT_FOUND);
    }
    match *request.method() {
        // Browsers ask before a page of the network reaches into this machine.
        Method::OPTIONS => status(StatusCode::NO_CONTENT),
        Method::GET => content(waiting),
        _ => status(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn status(code: StatusCode) -> Response {
    respond(code, Body::empty())
}

fn respond(code: StatusCode, body: Body) -> Response {
    let response = Response::builder()
        .status(code)
        .header(header::ACCESS_CONTROL_ALLOW_ORIGIN, ORIGIN)
        .header("access-control-allow-private-network", "true")
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .body(body);
    response.unwrap_or_default()
}

/// The file in parts; when it is at its end the server may end.
fn content(waiting: Arc<WaitingFile>) -> Response {
    let Ok(file) = waiting.file.try_clone() else { return status(StatusCode::INTERNAL_SERVER_ERROR) };
    let parts = stream::unfold((file, waiting), |(mut file, waiting)| async move {
        let mut part = vec![0; PART];
        match file.read(&mut part) {
            Ok(0) => {
                waiting.given.notify_one();
                None
            }
            Ok(len) => {
                part.truncate(len);
                Some((Ok(part), (file, waiting)))
            }
            Err(error) => Some((Err(error), (file, waiting))),
        }
    });
    respond(StatusCode::OK, Body::from_stream(parts))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::HandOver;

    /// The answer to a request for a path.
    fn ask(method: &str, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect("127.0.0.1:9001").expect("it listens");
        write!(stream, "{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").expect("it is there");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn the_page_gets_the_file_once_and_no_other_page_does() {
        let folder = std::env::temp_dir().join(format!("tracemill-hand-over-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("my trace.pftrace");
        std::fs::write(&path, "x".repeat(600_000)).expect("it can be written");
        // Another program of this machine may have the port: then there is nothing to try.
        let Ok(server) = HandOver::new(&path) else {
            assert!(TcpStream::connect("127.0.0.1:9001").is_ok(), "the port is taken");
            return;
        };
        let url = server.url();
        assert!(url.starts_with("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/"), "{url}");
        let path = url.split("9001").nth(1).expect("a path").to_string();
        assert!(path.ends_with("/my_trace.pftrace"), "{path}");
        let running = std::thread::spawn(move || server.run());
        let own = "Host: 127.0.0.1:9001\r\n";
        for (path, headers) in [
            ("/my_trace.pftrace", own.to_string()),
            (path.as_str(), "Host: evil.example\r\n".to_string()),
            (path.as_str(), format!("{own}Origin: https://evil.example\r\n")),
        ] {
            assert!(ask("GET", path, &headers).starts_with("HTTP/1.1 404"), "{path} {headers}");
        }
        let page = format!("{own}Origin: https://ui.perfetto.dev\r\n");
        let before = ask("OPTIONS", &path, &page).to_ascii_lowercase();
        assert!(before.contains("access-control-allow-private-network: true"), "{before}");
        let answer = ask("GET", &path, &page);
        assert!(
            answer.to_ascii_lowercase().contains("access-control-allow-origin: https://ui.perfetto.dev"),
            "{answer:.500}"
        );
        assert_eq!(
            answer.matches('x').count() - answer.split("\r\n\r\n").next().expect("a head").matches('x').count(),
            600_000
        );
        running.join().expect("no panic").expect("it ended");
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
