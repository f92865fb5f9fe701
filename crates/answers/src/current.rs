//! Traces that change while they are shown: files that grow, clocks that are moved. They are opened and read again, and a new
//! [`TraceState`] takes the place of the one before.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracemill_engine::session::ClockMove;
use tracemill_lod::growth::Growth;

use crate::error::{Answer, ApiError};
use crate::input::AnswerInput;
use crate::query::ns;
use crate::state::{TraceState, give_way};
use crate::status::{Stage, Status, StatusUpdate};
use crate::watched_files::Files;

/// The traces that are shown now.
pub struct Current {
    /// How far all is; it stays when other traces take their place.
    pub status: Arc<Status>,
    state: RwLock<Arc<TraceState>>,
    moves: Mutex<Vec<ClockMove>>,
}

/// How often files are looked at, and those that are followed.
const LOOK: Duration = Duration::from_millis(500);
const LOOK_AT_FOLLOWED: Duration = Duration::from_millis(250);
/// After how many looks in a row without a file its trace is gone.
const LOOKS_UNTIL_GONE: usize = 2;
/// After how many failures in a row to open it.
const FAILURES_UNTIL_GONE: usize = 4;
const SHOWN_BEFORE: &str = "what is shown was read before";
/// Traces that grow are read again after this many times as long as the reading takes.
const REST: u32 = 4;
/// Events up to which what is known stays in memory until the grown traces are read.
const BESIDE: usize = 4 << 20;

impl Current {
    /// Shows traces, until others take their place.
    pub fn new(state: Arc<TraceState>) -> Current {
        Current { status: state.status.clone(), state: RwLock::new(state), moves: Mutex::default() }
    }

    /// The traces that are shown.
    pub fn state(&self) -> Arc<TraceState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the reading, and the server.
    pub fn end(&self) {
        self.state().end();
    }

    /// By how much the clock of a trace was moved, in ns.
    pub fn moved(&self, path: &Path, name: &str) -> i64 {
        let moves = self.moves.lock().unwrap_or_else(PoisonError::into_inner);
        moves.iter().find(|own| own.path == path && own.name == name).map_or(0, |own| own.offset_ns)
    }

    /// Other traces take the place of those that are shown; what has been asked about these is answered.
    fn replace(&self, state: Arc<TraceState>, stage: Stage, grown: Option<i128>) {
        let mut current = self.state.write().unwrap_or_else(PoisonError::into_inner);
        current.stop();
        self.status.add_change();
        let version = state.version;
        *current = state;
        self.status.update(|last| {
            if last.stage != Stage::End {
                *last = StatusUpdate { stage, version, grown };
            }
            true
        });
    }

    /// `clock`: moves the clock of a trace to so many ns beside what the command line says.
    ///
    /// # Errors
    /// When `body` names no trace or no number, or the traces cannot be opened again.
    pub fn move_clock(self: &Arc<Self>, body: &Value) -> Answer {
        let state = self.state();
        let Some(reopen) = state.input.reopen.clone() else {
            return Err(ApiError::new(404, "path", "these traces cannot be opened again"));
        };
        let offset = match &body["offset_ns"] {
            Value::String(text) => text.parse::<i64>().ok(),
            Value::Number(number) => number.as_i64(),
            _ => None,
        };
        let offset_ns = offset.ok_or_else(|| ApiError::request("`offset_ns` is a number of ns as a text"))?;
        let traces = &state.input.traces.session.traces;
        let trace = body["trace"].as_u64().and_then(|at| traces.get(usize::try_from(at).ok()?));
        let trace = trace.ok_or_else(|| ApiError::request("`trace` is the index of a trace"))?;
        let wanted = ClockMove { path: trace.path.clone(), name: trace.name.clone(), offset_ns };
        let mut moves = self.moves.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new: Vec<ClockMove> =
            moves.iter().filter(|own| (&own.path, &own.name) != (&wanted.path, &wanted.name)).cloned().collect();
        new.push(wanted);
        let input = reopen(&new).map_err(|error| ApiError::request(error.message()))?;
        *moves = new;
        let state = Arc::new(TraceState::next(input, &state));
        self.replace(state.clone(), Stage::Counting, None);
        drop(moves);
        let generation = state.generation();
        state.read_in_background();
        Ok(json!({ "generation": generation, "offset_ns": ns(offset_ns) }))
    }

    /// The files of the traces as they are now. Taken before the first answer, so that every file which goes away after an
    /// answer is missed.
    pub fn files(&self) -> Files {
        Files::from_input(&self.state().input)
    }

    /// Looks at the files of the traces, until the server ends, and reads them again when they changed.
    pub fn watch(&self, mut files: Files) {
        let Some(reopen) = self.state().input.reopen.clone() else { return };
        give_way();
        // Bytes that were written while they were opened may not have been seen.
        let mut is_new = files.changed_since(self.state().input.opened);
        let mut next = Instant::now();
        // How often in a row a file was missing, and the traces could not be opened: files are replaced in several steps.
        let (mut missed, mut failed) = (0, 0);
        while self.status.last().stage != Stage::End {
            std::thread::sleep(if self.state().input.follows { LOOK_AT_FOLLOWED } else { LOOK });
            // A store to a map changes nothing that can be seen from outside.
            is_new |= files.poll_changes() || self.state().input.follows;
            if let Some(path) = files.missing() {
                missed += 1;
                if missed == LOOKS_UNTIL_GONE {
                    let sentence = format!("`{}` is not there any more", path.display());
                    self.status.set_gone(Some(format!("the trace is gone: {sentence}; {SHOWN_BEFORE}")));
                }
                continue;
            }
            missed = 0;
            if !is_new || Instant::now() < next || !self.state().is_complete() {
                continue;
            }
            let begun = Instant::now();
            let moves = self.moves.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match reopen(&moves) {
                Ok(input) => {
                    failed = 0;
                    let replaced = files.replaced();
                    files = Files::from_input(&input);
                    is_new = files.changed_since(input.opened);
                    is_new |= !self.grow(input, &moves, replaced.is_some());
                    self.status.set_gone(replaced.map(|path| {
                        let path = path.display();
                        format!("the trace was replaced: `{path}` is not what it was; the page shows what is there now")
                    }));
                }
                // Half of a file that is being written may be no trace: then it is looked at again.
                Err(error) => {
                    failed += 1;
                    if failed >= FAILURES_UNTIL_GONE {
                        let sentence = format!("its files changed and cannot be read now ({})", error.message());
                        self.status.set_gone(Some(format!("the trace is gone: {sentence}; {SHOWN_BEFORE}")));
                    }
                }
            }
            next = Instant::now() + begun.elapsed() * REST;
        }
    }

    /// Shows the traces as they are now: what is known is extended where they only grew. False when a clock was moved meanwhile.
    fn grow(&self, input: AnswerInput, moves: &[ClockMove], is_replaced: bool) -> bool {
        let old = self.state();
        let growth = if is_replaced { Growth::Changed } else { old.growth_to(&input.traces) };
        let (new, first) = match growth {
            // A file that changed otherwise may hold other events of the same times.
            Growth::Unchanged if input.follows => return true,
            Growth::Extended(found) => {
                let (timeline, index, first) = *found;
                (Arc::new(TraceState::extended(input, &old, (timeline, index))), Some(first))
            }
            Growth::Unchanged | Growth::Changed => (Arc::new(TraceState::next(input, &old)), None),
        };
        // An extended index shares most of its memory.
        let is_beside = first.is_some() || old.index().is_none_or(|index| index.events() <= BESIDE);
        if is_beside {
            new.read();
        }
        let own = self.moves.lock().unwrap_or_else(PoisonError::into_inner);
        if *own != moves {
            return false;
        }
        let since = new.index().and_then(|_| first_change(&old, &new)).filter(|_| is_beside);
        let since = since.map(|since| first.map_or(since, |first| first.min(since)));
        drop(old);
        self.replace(new.clone(), if is_beside { Stage::Complete } else { Stage::Counting }, since);
        drop(own);
        if !is_beside {
            new.read();
        }
        true
    }
}

/// From when on two readings of the same traces differ: where tracks only grew, from the end that they had.
fn first_change(old: &TraceState, new: &TraceState) -> Option<i128> {
    let (before, after) = (old.index()?, new.index()?);
    if before.origin != after.origin {
        return new.ends().0;
    }
    let known: HashMap<(usize, &str), &tracemill_lod::Track> =
        before.tracks.iter().map(|track| ((track.trace, &*track.name), track)).collect();
    if known.len() != before.tracks.len() || before.tracks.len() > after.tracks.len() {
        return new.ends().0;
    }
    let changes = after.tracks.iter().filter_map(|track| match known.get(&(track.trace, &*track.name)) {
        Some(old) if old.events == track.events && old.range == track.range => None,
        Some(old) if old.events < track.events => {
            old.range.map(|(_, last)| last).or(track.range.map(|(first, _)| first))
        }
        _ => new.ends().0,
    });
    changes.min().or(new.ends().1)
}
