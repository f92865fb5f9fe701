//! The critical paths of many threads from one reading, for a page that must answer without the events.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::{Machines, Map, Ns, ThreadIndex};

use super::cause::Cause;
use super::{PathFacts, PathPart, Why, keep_life, sentence};
use crate::kernel::analyses::path::search::Search;
use crate::kernel::analysis::Analysis;
use crate::kernel::question::query::AnalysisQuery;

/// The critical paths of the threads that waited longest, over the whole range.
#[derive(Default, Debug)]
pub struct ThreadPaths {
    /// The causes that occur.
    pub causes: Vec<PartCause>,
    /// The paths; those of threads that waited longer come first.
    pub paths: Vec<ThreadPath>,
    /// Threads whose paths are not there, because these have enough parts.
    pub left_out: usize,
}

/// The cause on which a part of a path was spent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartCause {
    /// The machine of the thread.
    pub machine: u32,
    /// The thread of the part.
    pub tid: i64,
    /// Its name.
    pub comm: Option<Rc<str>>,
    /// The state, as `analyze path` has it.
    pub state: &'static str,
    /// The cause in words.
    pub why: String,
    /// The waits that led there.
    pub through: Option<Rc<str>>,
}

/// The critical path of a thread.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadPath {
    /// Its machine.
    pub machine: u32,
    /// Its number.
    pub tid: i64,
    /// The number of threads that had this number before.
    pub life: u32,
    /// The times that it is about.
    pub range: (Ns, Ns),
    /// All of it in words, as `analyze why` has it.
    pub sentence: String,
    /// The time of each cause, the largest first.
    pub totals: Vec<CauseTotal>,
    /// Its parts: each begins where the one before ends.
    pub parts: Vec<ThreadPathPart>,
    /// The sentences of waits that have several parts, with their times.
    pub waits: Vec<(Ns, Ns, String)>,
}

/// A part of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadPathPart {
    /// First ns.
    pub from: Ns,
    /// One past the last ns.
    pub to: Ns,
    /// An index of [`ThreadPaths::causes`].
    pub cause: usize,
}

/// The time of a cause on a path.
#[derive(Clone, PartialEq, Debug)]
pub struct CauseTotal {
    /// The cause, and the waits that led there, in words.
    pub why: String,
    /// Its time.
    pub total: Ns,
    /// Its part of the path.
    pub share: f64,
    /// Is it the thread that the path is about?
    pub is_own: bool,
}

impl ThreadPaths {
    /// The analysis that finds the paths, with `most_parts` parts in all, and the place where they are when it has finished.
    pub fn analysis(query: &AnalysisQuery, most_parts: usize) -> (Box<dyn Analysis>, Rc<RefCell<ThreadPaths>>) {
        let found: Rc<RefCell<ThreadPaths>> = Rc::default();
        let wanted = WantedPaths { most_parts, found: found.clone() };
        (Box::new(Why::new(query, Some(wanted))), found)
    }
}

/// A wish for the paths of many threads.
pub(super) struct WantedPaths {
    most_parts: usize,
    found: Rc<RefCell<ThreadPaths>>,
}

/// A thread that may get its path.
struct Candidate {
    thread: ThreadIndex,
    search: Search,
    /// Its own waits, in their order.
    waits: Vec<(Ns, Ns)>,
    /// Time in which it waited.
    waited: Ns,
}

impl WantedPaths {
    pub(super) fn collect(&self, machines: &Machines, known: &PathFacts, range: Option<(Ns, Ns)>) {
        let Some(range) = range else { return };
        let mut candidates = candidates(machines, known, range);
        candidates.sort_by_key(|candidate| Reverse(candidate.waited));
        let found = &mut *self.found.borrow_mut();
        let mut numbers: BTreeMap<Cause, usize> = BTreeMap::new();
        let mut room = self.most_parts;
        let mut candidates = candidates.into_iter();
        for candidate in candidates.by_ref() {
            let Candidate { thread, search, waits, .. } = candidate;
            let range = (search.from, search.to);
            let mut parts = Vec::new();
            let causes = known.explain(machines, search, |part| {
                if parts.len() <= room {
                    parts.push(part);
                }
            });
            // The work for one path ends here: none of the next ones is looked at.
            let Some(rest) = room.checked_sub(parts.len()) else {
                found.left_out = 1 + candidates.len();
                return;
            };
            room = rest;
            let waits = explained_waits(machines, known, thread, &parts, waits);
            let parts = parts.into_iter().map(|part| ThreadPathPart {
                from: part.found.from,
                to: part.found.to,
                cause: *numbers.entry(part.cause).or_insert_with_key(|cause| {
                    found.causes.push(PartCause::new(cause));
                    found.causes.len() - 1
                }),
            });
            let of = machines.thread(thread);
            found.paths.push(ThreadPath {
                machine: of.machine,
                tid: of.tid,
                life: of.life(),
                range,
                parts: parts.collect(),
                sentence: sentence(machines, thread, range.1 - range.0, &causes),
                totals: totals(causes, range.1 - range.0),
                waits,
            });
        }
    }
}

impl PartCause {
    fn new(cause: &Cause) -> PartCause {
        PartCause {
            machine: cause.machine,
            // A part is one thread's.
            tid: cause.thread.tid.unwrap_or(0),
            comm: cause.thread.comm.clone(),
            state: cause.state,
            why: cause.phrase(),
            through: cause.through.clone(),
        }
    }
}

/// All threads of which something is known in a range.
fn candidates(machines: &Machines, known: &PathFacts, range: (Ns, Ns)) -> Vec<Candidate> {
    let pieces = &known.pieces;
    // A life ends where the next one of its number begins.
    let mut next: Map<(u32, i64), Ns> = Map::default();
    let mut candidates = Vec::new();
    let threads: Vec<_> = machines.threads().collect();
    for (thread, of) in threads.into_iter().rev() {
        let key = (of.machine, of.tid);
        let to = next.get(&key).map_or(range.1, |next| range.1.min(*next));
        if let Some(begin) = pieces.life_began(thread) {
            next.insert(key, begin);
        }
        let mut search = pieces.search_for(thread, (range.0, to));
        keep_life(machines, pieces, &mut search, &AnalysisQuery::default());
        let clipped = |(from, to, waits): (Ns, Ns, bool)| waits.then_some((from.max(search.from), to.min(search.to)));
        let own = pieces.own_states(machines, thread);
        let waits: Vec<(Ns, Ns)> = own.filter_map(clipped).filter(|(from, to)| from < to).collect();
        if search.from >= search.to || pieces.own_states(machines, thread).next().is_none() {
            continue;
        }
        let waited = waits.iter().map(|(from, to)| to - from).sum();
        candidates.push(Candidate { thread, search, waits, waited });
    }
    candidates.reverse();
    candidates
}

/// The sentences of the waits of a thread that are several parts of its path: of one that is a single part its words say all.
fn explained_waits(
    machines: &Machines,
    known: &PathFacts,
    thread: ThreadIndex,
    parts: &[PathPart],
    waits: Vec<(Ns, Ns)>,
) -> Vec<(Ns, Ns, String)> {
    let mut first = 0;
    let mut explained = Vec::new();
    for (from, to) in waits {
        first += parts[first..].iter().take_while(|part| part.found.to <= from).count();
        if parts[first..].iter().take_while(|part| part.found.from < to).count() < 2 {
            continue;
        }
        let causes = known.explain(machines, known.pieces.search_for(thread, (from, to)), |_| {});
        explained.push((from, to, sentence(machines, thread, to - from, &causes)));
    }
    explained
}

fn totals(causes: BTreeMap<Cause, Ns>, length: Ns) -> Vec<CauseTotal> {
    let mut causes: Vec<(Cause, Ns)> = causes.into_iter().collect();
    causes.sort_by_key(|(_, total)| Reverse(*total));
    let total = |(cause, total): (Cause, Ns)| CauseTotal {
        why: cause.words(),
        total,
        share: total as f64 / length as f64,
        is_own: cause.is_own,
    };
    causes.into_iter().map(total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Numbers;
    use crate::kernel::analyses::why::DESCRIPTOR;
    use crate::kernel::table::Table;
    use crate::kernel::testing::played::{play, played};
    use crate::kernel::testing::random::random_stream;
    use crate::kernel::testing::seeds::seeds;
    use crate::kernel::value::Cell;

    fn paths(stream: &str, most_parts: usize) -> ThreadPaths {
        paths_and_machines(stream, most_parts).0
    }

    fn paths_and_machines(stream: &str, most_parts: usize) -> (ThreadPaths, Rc<Machines>) {
        let (mut analysis, found) = ThreadPaths::analysis(&AnalysisQuery::default(), most_parts);
        let machines = Rc::new(play(stream, &mut *analysis));
        let range = machines.begin().map(|first| (first, machines.now()));
        analysis.finish(&machines, range);
        (found.take(), machines)
    }

    fn asked(tid: i64, range: Option<(Ns, Ns)>, stream: &str) -> Table {
        let tids = Numbers::parse(&tid.to_string());
        let (begin, end) = range.unzip();
        played(&DESCRIPTOR, &AnalysisQuery { tids, begin, end, ..AnalysisQuery::default() }, stream)
    }

    /// The rows of a table as those of a path: from, to, thread, state, words, way.
    fn rows_of(table: &Table) -> Vec<[String; 6]> {
        let at = ["from", "to", "tid", "state", "why", "through"];
        let at = at.map(|name| table.columns.iter().position(|column| column.name == name).expect(name));
        let text = |cell: &Cell| match cell {
            Cell::Null => String::new(),
            Cell::Integer(number) => number.to_string(),
            Cell::Text(text) => text.to_string(),
            other => panic!("{other:?}"),
        };
        table.rows.cells().into_iter().map(|row| at.map(|at| text(&row[at]))).collect()
    }

    /// The parts of a path in a range, as a page cuts them.
    fn cut(paths: &ThreadPaths, path: &ThreadPath, (begin, end): (Ns, Ns)) -> Vec<[String; 6]> {
        let within = path.parts.iter().filter(|part| part.from < end && begin < part.to);
        let row = |part: &ThreadPathPart| {
            let cause = &paths.causes[part.cause];
            let through = cause.through.as_deref().unwrap_or_default().to_string();
            let times = [part.from.max(begin), part.to.min(end)].map(|time| time.to_string());
            let [from, to] = times;
            [from, to, cause.tid.to_string(), cause.state.to_string(), cause.why.clone(), through]
        };
        within.map(row).collect()
    }

    #[test]
    fn paths_of_many_threads_are_those_of_each() {
        let mut explained = 0;
        for seed in seeds(150) {
            let stream = random_stream(seed).text;
            let (found, machines) = paths_and_machines(&stream, usize::MAX);
            assert_eq!(found.left_out, 0);
            for path in &found.paths {
                // Asked for all times, the answer is about the last thread of a number.
                let newest = machines.find_thread(path.machine, path.tid).expect("it has a path");
                let is_last = machines.thread(newest).life() == path.life;
                if is_last {
                    let table = asked(path.tid, None, &stream);
                    assert_eq!(
                        cut(&found, path, path.range),
                        rows_of(&table),
                        "seed {seed}, thread {}\n{stream}",
                        path.tid
                    );
                    assert_eq!(table.sentences, std::slice::from_ref(&path.sentence), "seed {seed}\n{stream}");
                    let sum: Ns = path.totals.iter().map(|total| total.total).sum();
                    assert_eq!(sum, path.range.1 - path.range.0, "seed {seed}\n{stream}");
                }
                for (from, to, sentence) in &path.waits {
                    let table = asked(path.tid, Some((*from, *to)), &stream);
                    assert_eq!(
                        cut(&found, path, (*from, *to)),
                        rows_of(&table),
                        "seed {seed}, thread {}, {from} to {to}\n{stream}",
                        path.tid
                    );
                    assert_eq!(table.sentences, std::slice::from_ref(sentence), "seed {seed}\n{stream}");
                    explained += 1;
                }
            }
        }
        assert!(explained > 0);
    }

    const TWO: &str = "100 0 switch prev=0 next=7
        120 1 switch prev=0 next=5
        130 1 switch prev=5 next=0 state=1
        200 0 wake tid=5 cpu=1
        210 1 switch prev=0 next=5
        300 1 -";

    #[test]
    fn threads_that_waited_longest_have_paths_while_there_is_room() {
        let all = paths(TWO, usize::MAX);
        let tids: Vec<(i64, usize)> = all.paths.iter().map(|path| (path.tid, path.parts.len())).collect();
        assert_eq!(tids, [(5, 5), (7, 1)]);
        let few = |most: usize| {
            let found = paths(TWO, most);
            (found.paths.len(), found.left_out)
        };
        assert_eq!([few(4), few(5), few(6)], [(0, 2), (1, 1), (2, 0)]);
        assert_eq!(all.paths[0].waits, []);
        assert_eq!(all.causes[all.paths[0].parts[2].cause].why, "while 7 ran");
    }
}
