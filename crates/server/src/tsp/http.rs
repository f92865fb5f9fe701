//! Connections, and who may ask.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::Value;
use tokio::sync::Semaphore;
use tracemill_answers::Asker;
use tracemill_model::error::{Error, ErrorKind, Result};

use super::experiments::{Experiments, TraceOpener};
use super::refusal::{Answered, Refusal};
use super::routes::{self, TspRequest};
use crate::connections::{Answering, OfRequest, PATIENCE, Watched};
use crate::guard::Hosts;
use crate::web::{Gone, bind, built, signalled};

/// The path below which the protocol is answered.
const ROOT: &str = "/tsp/api";
/// Bytes of a body at most: a list of all entries that are shown is in it.
const MAX_BODY: usize = 1 << 20;
/// Requests at once.
const AT_ONCE: usize = 64;

/// How a trace server is reached, and what it opens.
pub struct TspSettings {
    /// The address to listen on, of this machine.
    pub address: IpAddr,
    /// The port; 0 for a free one.
    pub port: u16,
    /// Names in `Host` beside those of this machine.
    pub hosts: Vec<String>,
    /// Origins of pages that may ask; one that ends in `*` stands for all that begin so.
    pub origins: Vec<String>,
    /// Traces are opened at or below these paths only.
    pub roots: Vec<PathBuf>,
    /// The version of the program.
    pub version: &'static str,
}

/// A trace server that listens, and answers when it runs.
pub struct TspListening {
    runtime: tokio::runtime::Runtime,
    listener: tokio::net::TcpListener,
    address: SocketAddr,
    app: Arc<App>,
}

struct App {
    experiments: Experiments,
    hosts: Hosts,
    origins: Vec<String>,
    version: &'static str,
    room: Semaphore,
}

/// Listens; what comes waits until the server [runs](TspListening::run).
///
/// # Errors
/// When the address cannot be had or is not one of this machine only, or a path is not there.
pub fn listen_tsp(open: TraceOpener, settings: TspSettings) -> Result<TspListening> {
    let TspSettings { address, port, hosts, origins, roots, version } = settings;
    if !address.is_loopback() {
        let error = Error::misuse(format!("a trace server asks for no token, so it cannot listen on {address}"));
        return Err(error.with_help("`ssh -L PORT:127.0.0.1:PORT HOST` reaches one that listens on its own machine"));
    }
    let real = |path: PathBuf| path.canonicalize().map_err(|error| Error::io("open", &path, &error));
    let roots = roots.into_iter().map(real).collect::<Result<Vec<_>>>()?;
    let (runtime, listener, address) = bind(address, port)?;
    let hosts = Hosts::new(&hosts, address.ip());
    let room = Semaphore::new(AT_ONCE);
    let app = App { experiments: Experiments::new(open, roots), hosts, origins, version, room };
    Ok(TspListening { runtime, listener, address, app: Arc::new(app) })
}

impl TspListening {
    /// The address that clients are given.
    pub fn url(&self) -> String {
        format!("http://{}{ROOT}", self.address)
    }

    /// Answers until a signal ends it.
    ///
    /// # Errors
    /// When the system lets it not go on.
    pub fn run(self) -> Result<()> {
        let TspListening { runtime, listener, app, .. } = self;
        let router = axum::Router::new().fallback(answer).with_state(app.clone());
        let router = router.into_make_service_with_connect_info::<OfRequest>();
        let ended = runtime.block_on(async {
            let server = axum::serve(Watched::new(listener), router);
            tokio::select! {
                ended = server => ended,
                () = signalled() => Ok(()),
            }
        });
        app.experiments.stop();
        runtime.shutdown_timeout(std::time::Duration::from_millis(500));
        ended.map_err(|error| Error::new(ErrorKind::Io, format!("the server cannot go on: {error}")))
    }
}

async fn answer(
    State(app): State<Arc<App>>,
    ConnectInfo(OfRequest(connection)): ConnectInfo<OfRequest>,
    request: Request,
) -> Response {
    let _answering = Answering::new(&connection);
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_let_in = app.check_access(request.headers());
    let is_allowed = is_let_in.is_ok();
    let is_question = request.method() == Method::OPTIONS;
    let answer = match is_let_in {
        Ok(()) if is_question => Ok(None),
        Ok(()) => respond(&app, request).await.map(Some),
        Err(refusal) => Err(refusal),
    };
    let (status, body) = match answer {
        Ok(Some(value)) => (StatusCode::OK, value.to_string()),
        Ok(None) => (StatusCode::NO_CONTENT, String::new()),
        Err(refusal) => {
            let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, refusal.body.to_string())
        }
    };
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    let mut response = built(response, Body::from(body));
    let headers = response.headers_mut();
    let mut put = |name: &'static str, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    put("cache-control", "no-store");
    put("x-content-type-options", "nosniff");
    put("vary", "Origin");
    if is_allowed && is_question {
        put("access-control-allow-methods", "GET, POST, PUT, DELETE");
        put("access-control-allow-headers", "Content-Type, Accept");
        put("access-control-max-age", "600");
    }
    if let Some(origin) = origin.filter(|_| is_allowed) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    response
}

impl App {
    /// Comes a request from a program of this machine, or from a page that was allowed?
    fn check_access(&self, headers: &HeaderMap) -> Answered<()> {
        let refused = |text: &str| Refusal::new(403, "Not allowed", text);
        self.hosts.check(headers)?;
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        match text("origin") {
            Some(origin) if is_allowed(&self.origins, origin) => Ok(()),
            Some(origin) if text("host").is_some_and(|host| origin == format!("http://{host}")) => Ok(()),
            Some(origin) => Err(refused(&format!("pages of `{origin}` are not allowed; --tsp-allow lets them in"))),
            // Pages ask for pictures and scripts without saying who they are.
            None if matches!(text("sec-fetch-site"), None | Some("none" | "same-origin")) => Ok(()),
            None => Err(refused("the request comes from a page of another server")),
        }
    }
}

/// Is an origin one of a list? One that ends in `*` stands for all that begin so.
fn is_allowed(list: &[String], origin: &str) -> bool {
    list.iter().any(|own| match own.strip_suffix('*') {
        Some(begin) => origin.starts_with(begin),
        None => origin == own.trim_end_matches('/'),
    })
}

async fn respond(app: &Arc<App>, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let path = path.strip_prefix(ROOT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let missing = || Refusal::new(404, "No such path", format!("the protocol is answered below {ROOT}"));
    let path: Vec<String> =
        path.ok_or_else(missing)?.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect();
    let body = match parts.method {
        Method::POST | Method::PUT => json_body(&parts.headers, body).await?,
        _ => Value::Null,
    };
    let Ok(_room) = app.room.try_acquire() else {
        return Err(Refusal::new(503, "Busy", "too many requests are being answered; try again"));
    };
    let asker = Asker::default();
    // A client that goes away drops this future, and the asker with it.
    let _asker = Gone(asker.clone());
    let (own, asked) = (app.clone(), TspRequest { method: parts.method, path, body, asker });
    let answer = tokio::task::spawn_blocking(move || routes::answer(&own.experiments, own.version, asked)).await;
    answer.map_err(|_| Refusal::new(500, "Internal error", "the answer was given up"))?
}

async fn json_body(headers: &HeaderMap, body: Body) -> Answered {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // A page may send other types without asking first.
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Refusal::new(415, "Unsupported media type", "the body must be application/json"));
    }
    let body = tokio::time::timeout(PATIENCE, to_bytes(body, MAX_BODY)).await;
    let body = body.map_err(|_| Refusal::new(408, "Too slow", "the body of the request did not arrive in time"))?;
    let body = body.map_err(|_| Refusal::new(413, "Too long", "the body is too long"))?;
    serde_json::from_slice(&body).map_err(|_| Refusal::new(400, "Invalid query parameters", "the body is not JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_allowed_by_their_text_or_its_beginning() {
        let list = ["http://localhost:3000".to_string(), "vscode-webview://*".to_string()];
        for origin in ["http://localhost:3000", "vscode-webview://1a2b"] {
            assert!(is_allowed(&list, origin), "{origin}");
        }
        for origin in ["http://localhost:30000", "https://localhost:3000", "null", "http://vscode-webview://", ""] {
            assert!(!is_allowed(&list, origin), "{origin}");
        }
    }
}
