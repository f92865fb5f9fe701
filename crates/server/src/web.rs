//! Requests and responses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tracemill_answers::{
    Answer, AnswerInput, ApiError, Asker, Current, Query, Reply, Stage, TraceState, answer as answer_of, answer_sql,
    export,
};
use tracemill_model::error::{Error, ErrorKind, Result};

use crate::assets;
use crate::connections::{Answering, Connection, OfRequest, PATIENCE, Watched};
use crate::download::{self, Exports};
use crate::first;
use crate::guard::{Guard, Hosts, check_method};
use crate::stream;

/// How a server is reached.
pub struct ServerSettings {
    /// The address to listen on.
    pub address: IpAddr,
    /// The port; 0 for a free one.
    pub port: u16,
    /// Names in `Host` beside those of this machine.
    pub hosts: Vec<String>,
    /// After how long without a page the server ends.
    pub idle_exit: Option<Duration>,
}

/// A server that listens, and answers when it runs.
pub struct Listening {
    runtime: tokio::runtime::Runtime,
    listener: tokio::net::TcpListener,
    guard: Guard,
    state: Arc<TraceState>,
    address: SocketAddr,
    idle_exit: Option<Duration>,
}

/// Bytes of a query and of a body at most.
const MAX_QUERY: usize = 16 << 10;
const MAX_BODY: usize = 64 << 10;
/// Requests at once.
const AT_ONCE: usize = 64;
/// Queries of SQL among them.
const QUERIES_AT_ONCE: usize = 4;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Listens; what comes waits until the server [runs](Listening::run).
///
/// # Errors
/// When the address cannot be had.
pub fn listen(input: AnswerInput, settings: &ServerSettings) -> Result<Listening> {
    let (runtime, listener, address) = bind(settings.address, settings.port)?;
    let guard = Guard::new(Hosts::new(&settings.hosts, settings.address))?;
    let state = Arc::new(TraceState::new(input)?);
    Ok(Listening { runtime, listener, guard, state, address, idle_exit: settings.idle_exit })
}

/// Listens on an address and port of one's own.
///
/// # Errors
/// When it cannot be had.
pub(crate) fn bind(
    address: IpAddr,
    port: u16,
) -> Result<(tokio::runtime::Runtime, tokio::net::TcpListener, SocketAddr)> {
    let failed = |what: &str, error: std::io::Error| Error::new(ErrorKind::Io, format!("cannot {what}: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| failed("start the server", error))?;
    let wanted = SocketAddr::new(address, port);
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind(wanted))
        .map_err(|error| failed(&format!("listen on {wanted}"), error).with_help("--port 0 takes a free port"))?;
    let address = listener.local_addr().map_err(|error| failed("listen", error))?;
    Ok((runtime, listener, address))
}

struct App {
    current: Arc<Current>,
    /// Told of everything new in the status.
    changed: watch::Sender<()>,
    guard: Guard,
    exports: Exports,
    /// Room for requests, and for queries of SQL.
    room: Semaphore,
    query_room: Semaphore,
    /// Streams of progress: pages that are open.
    pages: AtomicUsize,
}

/// A page that is open, as long as its stream of progress is.
struct OpenPage(Arc<App>);

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.pages.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Listening {
    /// The address for people, with the token.
    pub fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.guard.token)
    }

    /// The address for a browser that is started: it holds no token, as other users see command lines.
    pub fn url_with_ticket(&self) -> Option<String> {
        Some(format!("http://{}/#ticket={}", self.address, self.guard.ticket()?))
    }

    /// Answers until it is asked to end.
    ///
    /// # Errors
    /// When the system lets it not go on.
    pub fn run(self) -> Result<()> {
        let Listening { runtime, listener, guard, state, idle_exit, .. } = self;
        first::server_begins(&state);
        state.read_in_background();
        let current = Arc::new(Current::new(state.clone()));
        let changed = watch::Sender::new(());
        let told = changed.clone();
        current.status.listen(move || {
            told.send_replace(());
        });
        let (watcher, files) = (current.clone(), current.files());
        std::thread::spawn(move || watcher.watch(files));
        let app = Arc::new(App {
            current: current.clone(),
            changed: changed.clone(),
            guard,
            exports: Exports::default(),
            room: Semaphore::new(AT_ONCE),
            query_room: Semaphore::new(QUERIES_AT_ONCE),
            pages: AtomicUsize::new(0),
        });
        let router = axum::Router::new().fallback(answer).with_state(app.clone());
        let router = router.into_make_service_with_connect_info::<OfRequest>();
        let ended = runtime.block_on(async {
            let server = axum::serve(Watched::new(listener), router);
            tokio::select! {
                ended = server => ended,
                () = asked_to_end(&current, changed.subscribe()) => Ok(()),
                () = idle(&app, idle_exit) => Ok(()),
            }
        });
        current.end();
        runtime.shutdown_timeout(Duration::from_millis(500));
        ended.map_err(|error| Error::new(ErrorKind::Io, format!("the server cannot go on: {error}")))
    }
}

/// Until a signal or a request says to end.
async fn asked_to_end(current: &Current, mut changed: watch::Receiver<()>) {
    let told = async {
        while current.status.last().stage != Stage::End {
            if changed.changed().await.is_err() {
                return;
            }
        }
        // A moment for the answer to the request that said so.
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    tokio::select! {
        () = told => {}
        () = signalled() => {}
    }
}

/// Until a signal says to end.
pub(crate) async fn signalled() {
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

/// Until no page was open for so long.
async fn idle(app: &App, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    let mut since = Instant::now();
    while since.elapsed() < limit {
        tokio::time::sleep(limit.min(Duration::from_millis(200))).await;
        if app.pages.load(Ordering::Relaxed) > 0 {
            since = Instant::now();
        }
    }
}

async fn answer(
    State(app): State<Arc<App>>,
    ConnectInfo(OfRequest(connection)): ConnectInfo<OfRequest>,
    request: Request,
) -> Response {
    let _answering = Answering::new(&connection);
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = match respond(&app, &connection, request, is_api).await {
        Ok(response) => response,
        Err(error) => {
            let mut response = json_response(&error.body(), None);
            *response.status_mut() = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST);
            if error.status == 503 {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

async fn respond(app: &Arc<App>, connection: &Connection, request: Request, is_api: bool) -> Answer<Response> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_string();
    app.guard.check_origin(&parts.headers, is_api)?;
    if !is_api {
        check_method(&parts.method, false)?;
        return match path.strip_prefix("/export/") {
            Some(name) => {
                let file = download::exported(&app.exports, name, &parts.method)?;
                connection.set_trusted();
                Ok(file)
            }
            None => {
                first::asked_for(&app.current.state(), &path);
                page(&path, &parts.headers)
            }
        };
    }
    let path = path.trim_start_matches("/api/").to_string();
    let is_post = matches!(&*path, "login" | "stop" | "export" | "clock" | "sql");
    if parts.method == Method::OPTIONS {
        check_method(&parts.method, is_post)?;
    }
    if path != "login" {
        app.guard.check_token(&parts.headers)?;
        connection.set_trusted();
    }
    check_method(&parts.method, is_post)?;
    let query = parts.uri.query().unwrap_or_default();
    if query.len() > MAX_QUERY {
        return Err(ApiError::new(414, "size", "the query is too long"));
    }
    if is_post {
        return post(app, &path, &parts.headers, body).await;
    }
    let Ok(_room) = app.room.try_acquire() else {
        return Err(ApiError::new(503, "busy", "too many requests are being answered; try again"));
    };
    if path == "progress" {
        app.pages.fetch_add(1, Ordering::Relaxed);
        return Ok(stream::progress(OpenPage(app.clone()), app.current.clone(), app.changed.subscribe()));
    }
    let query = Query::parse(query);
    // A client that goes away drops this future, and the asker with it.
    let _asker = Gone(query.asker.clone());
    let state = app.current.state();
    let is_tiles = path == "tiles";
    let is_kept = is_tiles && query.get("g") == Some(&*state.generation());
    let (asked, current) = (state.clone(), app.current.clone());
    let answer = tokio::task::spawn_blocking(move || {
        let mut answer = answer_of(&asked, &path, &query);
        if let Ok(Reply::Value(value)) = &mut answer
            && path == "session"
        {
            put_moves(value, &asked, &current);
        }
        answer
    })
    .await;
    if is_tiles {
        first::tiles_are_sent(&state);
    }
    let answer = answer.map_err(|_| ApiError::new(500, "fault", "the answer was given up"))??;
    let generation = state.generation();
    let (text, is_exact) = match answer {
        Reply::Value(mut value) => {
            if let Value::Object(members) = &mut value {
                members.entry("generation").or_insert_with(|| generation.into());
            }
            (value.to_string(), true)
        }
        Reply::Text(mut text, is_exact) => {
            text.pop();
            text.push_str(&format!(",\"generation\":{}}}", Value::from(generation)));
            (text, is_exact)
        }
    };
    let mut response = text_response(text, Some(&parts.headers));
    if is_kept && is_exact {
        let kept = HeaderValue::from_static("private, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, kept);
    }
    Ok(response)
}

/// Tells that an asker is gone, when it is.
pub(crate) struct Gone(pub(crate) Asker);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// By how much clocks were moved, with the traces of a session.
fn put_moves(session: &mut Value, state: &TraceState, current: &Current) {
    let traces = session["traces"].as_array_mut().into_iter().flatten();
    for (value, trace) in traces.zip(&state.input.traces.session.traces) {
        value["moved_ns"] = current.moved(&trace.path, &trace.name).to_string().into();
    }
}

async fn post(app: &Arc<App>, path: &str, headers: &HeaderMap, body: Body) -> Answer<Response> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(ApiError::new(415, "type", "the body must be application/json"));
    }
    let body = tokio::time::timeout(PATIENCE, to_bytes(body, MAX_BODY)).await;
    let body = body.map_err(|_| ApiError::new(408, "time", "the body of the request did not arrive in time"))?;
    let body = body.map_err(|_| ApiError::new(413, "size", "the body is too long"))?;
    let body: Value = serde_json::from_slice(&body).map_err(|_| ApiError::request("the body is not JSON"))?;
    let answer = match path {
        "login" => {
            let ticket = body["ticket"].as_str().unwrap_or_default();
            let token = app.guard.redeem(ticket);
            json!({ "token": token.ok_or_else(|| ApiError::new(401, "token", "the ticket was used, or is too old"))? })
        }
        "stop" => {
            app.current.end();
            json!({})
        }
        "export" => {
            let Ok(_room) = app.room.try_acquire() else {
                return Err(ApiError::new(503, "busy", "too many requests are being answered; try again"));
            };
            let asker = Asker::default();
            let _asker = Gone(asker.clone());
            let state = app.current.state();
            let answer = tokio::task::spawn_blocking(move || export(&state, &body, &asker)).await;
            let file = answer.map_err(|_| ApiError::new(500, "fault", "the answer was given up"))??;
            json!({ "url": format!("/export/{}", app.exports.add(file)?) })
        }
        "sql" => {
            let Ok(_room) = app.query_room.try_acquire() else {
                return Err(ApiError::new(503, "busy", "too many queries are running; try again"));
            };
            let asker = Asker::default();
            let _asker = Gone(asker.clone());
            let state = app.current.state();
            let answer = tokio::task::spawn_blocking(move || answer_sql(&state, &body, &asker)).await;
            answer.map_err(|_| ApiError::new(500, "fault", "the answer was given up"))??
        }
        "clock" => {
            let current = app.current.clone();
            let answer = tokio::task::spawn_blocking(move || current.move_clock(&body)).await;
            answer.map_err(|_| ApiError::new(500, "fault", "the answer was given up"))??
        }
        _ => return Err(ApiError::new(404, "path", format!("`{path}` is not answered"))),
    };
    Ok(json_response(&answer, None))
}

fn page(path: &str, headers: &HeaderMap) -> Answer<Response> {
    let asset = assets::find(path).ok_or_else(|| ApiError::new(404, "path", "there is no such page"))?;
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (encoding, bytes) = assets::encoded(asset, accepted);
    let tag = tag_of(bytes);
    let response = Response::builder()
        .header(header::CONTENT_TYPE, asset.media_type)
        .header(header::CONTENT_ENCODING, encoding)
        .header(header::VARY, "Accept-Encoding")
        .header(header::CACHE_CONTROL, "no-cache")
        .header(header::ETAG, &tag);
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    Ok(match is_known {
        true => built(response.status(StatusCode::NOT_MODIFIED), Body::empty()),
        false => built(response, Body::from(bytes)),
    })
}

fn json_response(value: &Value, asked: Option<&HeaderMap>) -> Response {
    text_response(value.to_string(), asked)
}

/// A response of JSON.
fn text_response(text: String, asked: Option<&HeaderMap>) -> Response {
    let tag = tag_of(text.as_bytes());
    let response =
        Response::builder().header(header::CONTENT_TYPE, "application/json; charset=utf-8").header(header::ETAG, &tag);
    let known = asked.and_then(|headers| headers.get(header::IF_NONE_MATCH));
    match known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        true => built(response.status(StatusCode::NOT_MODIFIED), Body::empty()),
        false => built(response, Body::from(text)),
    }
}

pub(crate) fn built(response: axum::http::response::Builder, body: Body) -> Response {
    response.body(body).unwrap_or_default()
}

/// Names the content of a response: a sum of its words of eight bytes, each of which moves all bits of it on.
fn tag_of(bytes: &[u8]) -> String {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let ends = [last, (bytes.len() as u64).to_le_bytes()];
    let words = words.iter().chain(&ends).copied().map(u64::from_le_bytes);
    let sum = words.fold(0u64, |sum, word| (sum.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    format!("\"{sum:016x}\"")
}
