//! A page that is being opened goes before the reading of large traces.
//!
//! Both want all cores. The first picture of the page needs no more than the packets' headers, so the reading waits for it: not
//! for long, as a page may never come, and once the first tiles are there only until these are drawn.

use std::time::{Duration, Instant};

use tracemill_answers::TraceState;
use tracemill_lod::Progress;

/// Of fewer events everything is known before a page asks for it.
const LARGE: f64 = 500_000.0;
/// The file that a browser which shows the page asks for next.
const SCRIPT: &str = "/app.js";
/// From the beginning of the server until a browser that runs already asks for the page.
const FOR_BROWSER: Duration = Duration::from_millis(400);
/// From there until the page has its first tiles. Only the first page is waited for: others find the reading under way.
const FOR_TILES: Duration = Duration::from_millis(1500);
/// From there until they are drawn.
const FOR_DRAWING: Duration = Duration::from_millis(150);

/// The server begins: a page will be asked for soon.
pub(crate) fn server_begins(state: &TraceState) {
    if is_large(state) {
        state.progress.rest_until(Instant::now() + FOR_BROWSER);
    }
}

/// A part of the page was asked for. A look whether the server is there does not ask for its script.
pub(crate) fn asked_for(state: &TraceState, path: &str) {
    if is_large(state) {
        rest_for(&state.progress, path);
    }
}

fn rest_for(progress: &Progress, path: &str) {
    if path == SCRIPT {
        progress.rest_once_until(Instant::now() + FOR_TILES);
    }
}

/// A page has got tiles.
pub(crate) fn tiles_are_sent(state: &TraceState) {
    state.progress.rest_no_longer_than(Instant::now() + FOR_DRAWING);
}

fn is_large(state: &TraceState) -> bool {
    !state.is_complete() && state.timeline().expected() > LARGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_browser_is_waited_for() {
        assert!(crate::assets::find(SCRIPT).is_some(), "the page has no such script");
        let progress = Progress::default();
        ["/", "/favicon.ico", "/"].iter().for_each(|path| rest_for(&progress, path));
        assert!(!progress.is_resting());
        rest_for(&progress, SCRIPT);
        assert!(progress.is_resting());
    }
}
