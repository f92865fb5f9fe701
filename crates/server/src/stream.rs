//! Server-sent events: what changes while a page is open.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::Response;
use serde_json::json;
use tokio::sync::watch;
use tracemill_answers::{Current, Stage, StatusUpdate, TraceState, progress as progress_of};

use crate::web::built;

/// How often a page is told how far something is.
const STEP: Duration = Duration::from_millis(250);
/// After how long a line says that the connection is still there.
const SILENCE: Duration = Duration::from_secs(15);

/// The state of a stream: all that its page has received.
struct SentState<P> {
    /// Goes when the last listener has gone.
    _page: P,
    current: Arc<Current>,
    changed: watch::Receiver<()>,
    last: Option<StatusUpdate>,
    /// The filter, and how far it was.
    filter: Option<(String, u64)>,
    /// The last sentence about files that are gone that was sent.
    gone: Option<String>,
}

/// How far the index and a filter are, what grew, and the end. `page` is kept as long as somebody listens.
pub(crate) fn progress<P: Send + 'static>(page: P, current: Arc<Current>, changed: watch::Receiver<()>) -> Response {
    let told = SentState { _page: page, current, changed, last: None, filter: None, gone: None };
    let stream = futures_util::stream::unfold(told, async |mut told| {
        let text = told.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), told))
    });
    let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream; charset=utf-8");
    built(response, Body::from_stream(stream))
}

impl<P> SentState<P> {
    /// The next event, or a comment; `None` after the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            self.changed.mark_unchanged();
            let now = self.current.status.last();
            if self.last.is_some_and(|last| last.stage == Stage::End) {
                return None;
            }
            if self.last != Some(now) {
                let before = self.last.replace(now);
                return Some(self.changed(before, now));
            }
            if let Some(text) = self.filtered().or_else(|| self.is_gone()) {
                return Some(text);
            }
            let is_counting = now.stage == Stage::Counting;
            let wait = if is_counting || self.current.status.is_filtering() { STEP } else { SILENCE };
            match tokio::time::timeout(wait, self.changed.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) if is_counting => return Some(index_event(&self.current.state())),
                Err(_) if wait == STEP => {}
                Err(_) => return Some(": still here\n\n".to_string()),
            }
        }
    }

    fn changed(&self, before: Option<StatusUpdate>, now: StatusUpdate) -> String {
        let state = self.current.state();
        let is_grown = before.is_some_and(|before| before.version != now.version);
        match (now.stage, now.grown.filter(|_| is_grown)) {
            (Stage::End, _) => "event: end\ndata: {}\n\n".to_string(),
            (_, Some(begin)) => {
                let (begin, end) = (begin.to_string(), state.ends().1.map(|end| end.to_string()));
                let body = json!({ "generation": state.generation(), "begin": begin, "end": end });
                format!("event: grown\ndata: {body}\n\n")
            }
            _ => index_event(&state),
        }
    }

    /// That files of the traces are gone, or are there again, when that is new.
    fn is_gone(&mut self) -> Option<String> {
        let now = self.current.status.gone();
        if self.gone == now {
            return None;
        }
        let body = json!({ "message": now });
        self.gone = now;
        Some(format!("event: gone\ndata: {body}\n\n"))
    }

    /// How far the filter is that somebody asked for last, when that is new.
    fn filtered(&mut self) -> Option<String> {
        let filtering = self.current.status.filtering()?;
        let (done, matches) = filtering.progress();
        let now = (filtering.filter.clone(), (done * 1000.0) as u64);
        if self.filter.as_ref() == Some(&now) {
            return None;
        }
        let body = json!({ "filter": now.0, "done": done, "matches": matches });
        self.filter = Some(now);
        Some(format!("event: filter\ndata: {body}\n\n"))
    }
}

/// How far the index is.
fn index_event(state: &TraceState) -> String {
    let body = json!({ "index": progress_of(state), "generation": state.generation() });
    format!("event: index\ndata: {body}\n\n")
}
