//! Traces in a terminal (`docs/tui.md`): five screens over the index and the statistics of the viewer, by keys.
//!
//! | module | what |
//! |---|---|
//! | `app` | meaning of keys; the screens as lines of text |
//! | `cursor`, `range` | the chosen line of a list; the part of the time that is shown |
//! | `events`, `replay`, `report`, `graph`, `states` | the screens |
//! | `work` | long work, in a thread of its own |
//! | `text` | times and names in columns |
//! | `screen` | lines on a terminal |
//! | `plain` | lines one after the other, for screen readers |
//!
//! A part of the program `tracemill`: this API may change at any time.
#![forbid(unsafe_code)]

mod app;
mod cursor;
mod events;
mod graph;
mod plain;
mod range;
mod replay;
mod report;
mod samples;
mod screen;
mod states;
mod text;
mod work;

use std::io::{BufRead, IsTerminal as _, Write};
use std::sync::Arc;

use tracemill_answers::{AnswerInput, Current, TraceState};
use tracemill_model::error::{Error, ErrorKind, Result};

pub use app::{App, KeyPress, TuiSettings};
pub use screen::draw;

/// Shows traces until the user ends it.
///
/// # Errors
/// When there is no terminal, or it fails.
pub fn run(input: AnswerInput, settings: TuiSettings) -> Result<()> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !is_terminal && !settings.is_plain {
        return Err(Error::unsupported("stdin and stdout are no terminal").with_help("--plain works without one"));
    }
    let follows = input.follows;
    let state = Arc::new(TraceState::new(input)?);
    state.read_in_background();
    let mut app = App::new(state.clone(), settings);
    let current = Arc::new(Current::new(state));
    if follows {
        let (watcher, files) = (current.clone(), current.files());
        std::thread::spawn(move || watcher.watch(files));
        app.follow(current.clone());
    }
    let ended = match settings.is_plain {
        true => plain::run(app, std::io::stdin().lock(), std::io::stdout().lock()),
        false => screen::run(app),
    };
    current.end();
    ended.map_err(|error| Error::new(ErrorKind::Io, format!("the terminal failed: {error}")))
}

/// Shows traces as lines, for commands that are lines: what [`run`] does with [`TuiSettings::is_plain`].
///
/// # Errors
/// When reading or writing fails.
pub fn run_plain(app: App, commands: impl BufRead, out: impl Write) -> std::io::Result<()> {
    plain::run(app, commands, out)
}
