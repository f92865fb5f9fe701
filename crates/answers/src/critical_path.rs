//! The critical path of a thread: that of `analyze path`.

use std::collections::HashMap;

use tracemill_analyses::kernel::{AnalysisQuery, Numbers, UnmatchedOption};
use tracemill_semantics::states::thread_title;

use crate::error::{Answer, ApiError};
use crate::kernel::{KernelQuestion, integer, text, unanswered};
use crate::query::Asker;
use crate::state::TraceState;

const ANALYSIS: &str = "path";

/// The critical path of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CriticalPath {
    /// The thread.
    pub tid: i64,
    /// The threads through which it goes, in the order in which it meets them; the wanted one is first.
    pub threads: Vec<PathThread>,
    /// Names of the states that occur, as `analyze path` has them.
    pub states: Vec<String>,
    /// Its parts, in the order of time: each begins where the one before ends.
    pub parts: Vec<PathPart>,
}

/// A thread on a critical path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathThread {
    /// The first trace of its machine.
    pub trace: usize,
    /// Its number.
    pub tid: i64,
    /// Its name, and its number.
    pub title: String,
}

/// A part of a critical path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPart {
    /// First ns.
    pub from: i128,
    /// One past the last ns.
    pub to: i128,
    /// The thread, an index of [`CriticalPath::threads`].
    pub thread: usize,
    /// The state of the thread, or what ended its wait: an index of [`CriticalPath::states`].
    pub state: usize,
}

impl TraceState {
    /// The critical path of a thread in the selected times, or from one time to another. Several machines may have a thread of
    /// this number: then each has its own.
    ///
    /// # Errors
    /// When no thread has this number, when the traces say nothing of threads, and when the asker is gone.
    pub fn critical_paths(
        &self,
        tid: i64,
        (begin, end): (Option<i128>, Option<i128>),
        asker: &Asker,
    ) -> Answer<Vec<CriticalPath>> {
        let tids = Numbers::parse(&tid.to_string());
        let query = AnalysisQuery { tids, begin, end, ..AnalysisQuery::default() };
        let asked = KernelQuestion::new(&self.input.traces, ANALYSIS, query, &asker.flag());
        let mut asked = asked.ok_or_else(|| unanswered(ANALYSIS))?;
        let places = asked.places(["from", "to", "tid", "comm", "state"])?;
        let (traces, unmatched) = (asked.traces.clone(), asked.watch_options());
        let table = asked.table(self, asker)?;
        if let Some(UnmatchedOption::Alone { known, .. }) = unmatched.borrow().first() {
            let known: Vec<&str> = known.iter().take(SHOWN).map(|tid| &**tid).collect();
            let text = format!("no thread has the number {tid}; others have {}", known.join(", "));
            return Err(ApiError::request(text));
        }
        let mut paths: Vec<CriticalPath> = Vec::new();
        let mut numbers: HashMap<(usize, i64), usize> = HashMap::new();
        table.rows.for_each(&mut |row| {
            let (machine, [from, to, of, comm, state]) = places.values(row);
            let (from, to) = (integer(from), integer(to));
            let of = i64::try_from(integer(of)).unwrap_or(0);
            // The path on the next machine begins again.
            let last = paths.last().and_then(|path| path.parts.last());
            if last.is_none_or(|last| from < last.to) {
                paths.push(CriticalPath { tid, threads: Vec::new(), states: Vec::new(), parts: Vec::new() });
                numbers.clear();
            }
            let Some(path) = paths.last_mut() else { return };
            let thread = *numbers.entry((machine, of)).or_insert_with(|| {
                let name = Some(text(comm)).filter(|name| !name.is_empty());
                let trace = traces.get(machine).copied().unwrap_or(0);
                path.threads.push(PathThread { trace, tid: of, title: thread_title(name, of) });
                path.threads.len() - 1
            });
            let state = path.states.iter().position(|known| known == text(state)).unwrap_or_else(|| {
                path.states.push(text(state).to_string());
                path.states.len() - 1
            });
            path.parts.push(PathPart { from, to, thread, state });
        });
        paths.iter_mut().for_each(CriticalPath::put_wanted_first);
        Ok(paths)
    }
}

/// Numbers of threads that an error names.
const SHOWN: usize = 20;

impl CriticalPath {
    /// The last part of the number is that of the wanted thread: others of its number are on other machines.
    fn put_wanted_first(&mut self) {
        let is_wanted = |part: &&PathPart| self.threads[part.thread].tid == self.tid;
        let Some(wanted) = self.parts.iter().rfind(is_wanted).map(|part| part.thread) else { return };
        self.threads[..=wanted].rotate_right(1);
        for part in &mut self.parts {
            part.thread = match part.thread {
                own if own == wanted => 0,
                own if own < wanted => own + 1,
                own => own,
            };
        }
    }
}
