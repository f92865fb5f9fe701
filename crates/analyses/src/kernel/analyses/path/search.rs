//! The search for critical paths: the states of all threads, and what ended their waits.

use tracemill_semantics::states::{
    CpuIndex, CpuStatus, Happening, Machines, Map, Ns, Reason, ThreadIndex, ThreadPiece, ThreadState, Woken,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::question::query::AnalysisQuery;

/// The states of all threads, and the wakers that ended their waits.
#[derive(Default)]
pub(crate) struct Pieces {
    /// By the index of the thread.
    threads: Vec<Vec<Piece>>,
    /// The last wake of a thread that waits, and the segment that had arrived right before.
    woken: Map<ThreadIndex, (Woken, Option<Segment>)>,
    segments: Segments,
    /// Parent and time of birth.
    births: Map<ThreadIndex, (Option<ThreadIndex>, Ns)>,
    /// First times of lives of numbers that other threads had before.
    begins: Map<ThreadIndex, Ns>,
}

/// A piece of a thread's time, from the end of the piece before it on: 16 bytes, as many are kept as the range has. Time
/// of which nothing is known is a piece, too.
#[derive(Clone, Copy)]
struct Piece {
    /// Counted from the first event.
    to: i64,
    /// The thread that ended the wait; the number of the segment that did, when the reason is the network.
    waker: u32,
    state: ThreadState,
    /// Why the wait ended; `None` when no wake ended it.
    reason: Option<Reason>,
}

const NO_WAKER: u32 = u32::MAX;

/// The values that identify a segment of a connection at both ends; clocks are aligned by the same ones.
type Segment = [i64; 3];

/// Segments that are remembered at most.
const MAX_SEGMENTS: usize = 1 << 20;

/// The sending of a segment: thread, machine and time.
#[derive(Clone, Copy)]
struct Sent {
    thread: ThreadIndex,
    machine: u32,
    at: Ns,
}

/// Segments on their way between machines.
#[derive(Default)]
struct Segments {
    /// `None` for a segment that was sent again: which of them arrived is unknown.
    sent: Map<Segment, Option<Sent>>,
    /// The last one that arrived on a CPU in the soft interrupt that it handles.
    arrived: Map<CpuIndex, Segment>,
    /// Segments that ended waits.
    woke: Vec<Segment>,
}

impl Segments {
    /// The sending, by another machine, of a segment that ended a wait.
    fn sender(&self, number: u32, machine: u32) -> Option<Sent> {
        let sent = self.sent.get(self.woke.get(number as usize)?).copied()??;
        // Only a segment from another machine leads there; a machine handles its own segments as it sends them.
        (sent.machine != machine).then_some(sent)
    }

    fn send(&mut self, segment: Segment, sent: Sent) {
        let has_room = self.sent.len() < MAX_SEGMENTS;
        match self.sent.get_mut(&segment) {
            Some(known) => *known = None,
            None if has_room => drop(self.sent.insert(segment, Some(sent))),
            None => {}
        }
    }

    /// The number of a segment that ended a wait.
    fn number(&mut self, segment: Segment) -> u32 {
        if self.woke.last() != Some(&segment) {
            if self.woke.len() >= MAX_SEGMENTS {
                return NO_WAKER;
            }
            self.woke.push(segment);
        }
        self.woke.len() as u32 - 1
    }
}

/// The segment that an event is about.
fn segment_of(happening: &Happening<'_>) -> Option<Segment> {
    let [seq, ack_seq, flags] = [Field::Seq, Field::AckSeq, Field::Flags].map(|field| happening.number(field));
    Some([seq?, ack_seq?, flags?])
}

/// Wakes at one instant that are followed from thread to thread.
const MAX_SAME: u32 = 64;

/// A thread whose time is looked at, from one time to another.
pub(crate) struct Search {
    pub(crate) thread: ThreadIndex,
    pub(crate) from: Ns,
    pub(crate) to: Ns,
    /// How many searches before this one end at the same time.
    same: u32,
}

/// A piece of the path.
#[derive(Clone, Copy)]
pub(crate) struct PathPiece {
    pub(crate) from: Ns,
    pub(crate) to: Ns,
    pub(crate) thread: ThreadIndex,
    pub(crate) state: &'static str,
}

/// A search that goes on, and how far it is.
pub(crate) struct Walk<'p> {
    pub(crate) search: Search,
    /// Its next piece begins here. Of a search that another one explains, that is where the other one ends.
    pub(crate) at: Ns,
    /// The pieces of its thread that are left, and the end of the piece before them.
    pieces: &'p [Piece],
    begin: Ns,
    /// Was it looked up who made the thread?
    is_born: bool,
}

/// The next step of a walk.
enum PathStep {
    Found(PathPiece),
    Search(Search),
}

impl Pieces {
    /// Shows the pieces of a thread in a range in their order, waits replaced by what their wakers did. Equal neighbours are
    /// one.
    pub(super) fn search(&self, machines: &Machines, first: Search, mut show: impl FnMut(PathPiece)) {
        let mut last: Option<PathPiece> = None;
        self.each_part(machines, first, |_, found| match &mut last {
            Some(last) if (last.thread, last.state, last.to) == (found.thread, found.state, found.from) => {
                last.to = found.to;
            }
            _ => last.replace(found).into_iter().for_each(&mut show),
        });
        last.into_iter().for_each(show);
    }

    /// Shows the pieces one by one, each with the searches that led to it: that of the first thread, of the thread that it
    /// waited for, .., of the thread of the piece.
    pub(crate) fn each_part(&self, machines: &Machines, first: Search, mut show: impl FnMut(&[Walk<'_>], PathPiece)) {
        let origin = machines.begin().unwrap_or(0);
        let mut walks = vec![self.walk(origin, first)];
        while let Some(walk) = walks.last_mut() {
            match self.step(machines, origin, walk) {
                Some(PathStep::Found(found)) => show(&walks, found),
                Some(PathStep::Search(search)) => {
                    let next = self.walk(origin, search);
                    walks.push(next);
                }
                None => drop(walks.pop()),
            }
        }
    }

    /// The searches for the threads of a number, one on each machine that has such a thread.
    pub(crate) fn searches(
        &self,
        machines: &Machines,
        range: Option<(Ns, Ns)>,
        tid: Option<i64>,
    ) -> impl Iterator<Item = Search> {
        let threads = (0..machines.count()).filter_map(move |machine| self.life_in(machines, range, machine, tid?));
        threads.filter_map(move |thread| Some(self.search_for(thread, range?)))
    }

    /// The search for a thread.
    pub(crate) fn search_for(&self, thread: ThreadIndex, (from, to): (Ns, Ns)) -> Search {
        // Before it was met first, the number was that of another thread, which did not make this one.
        let is_forked = self.births.get(&thread).is_some_and(|(parent, _)| parent.is_some());
        let begin = self.begins.get(&thread).filter(|_| !is_forked);
        let from = begin.map_or(from, |begin| from.max((*begin).min(to)));
        Search { thread, from, to, same: 0 }
    }

    /// When a life of a number that other threads had before began.
    pub(crate) fn life_began(&self, thread: ThreadIndex) -> Option<Ns> {
        self.begins.get(&thread).copied()
    }

    /// When a thread was made.
    pub(crate) fn birth(&self, thread: ThreadIndex) -> Option<Ns> {
        self.births.get(&thread).map(|(_, at)| *at)
    }

    /// When a thread ended for good.
    pub(crate) fn end(&self, machines: &Machines, thread: ThreadIndex) -> Option<Ns> {
        let pieces = self.threads.get(thread.0 as usize)?;
        let has_ended = |piece: &Piece| matches!(piece.state, ThreadState::Zombie | ThreadState::Dead);
        let last = pieces.iter().rposition(|piece| !has_ended(piece))?;
        (last + 1 < pieces.len()).then(|| machines.begin().unwrap_or(0) + Ns::from(pieces[last].to))
    }

    /// The states of a thread without the paths: from, to, and whether it could not run.
    pub(crate) fn own_states(&self, machines: &Machines, thread: ThreadIndex) -> impl Iterator<Item = (Ns, Ns, bool)> {
        let origin = machines.begin().unwrap_or(0);
        let pieces = self.threads.get(thread.0 as usize).map_or(&[][..], |pieces| pieces);
        let begins = std::iter::once(Ns::MIN).chain(pieces.iter().map(move |piece| origin + Ns::from(piece.to)));
        begins.zip(pieces).map(move |(from, piece)| {
            let waits = matches!(piece.state, ThreadState::Wait | ThreadState::WaitFork | ThreadState::WaitCpu);
            (from, origin + Ns::from(piece.to), waits)
        })
    }

    fn walk(&self, origin: Ns, search: Search) -> Walk<'_> {
        let pieces = self.threads.get(search.thread.0 as usize).map_or(&[][..], |pieces| pieces);
        let end = |piece: &Piece| origin + Ns::from(piece.to);
        let first = pieces.partition_point(|piece| end(piece) <= search.from);
        let begin = first.checked_sub(1).map_or(Ns::MIN, |before| end(&pieces[before]));
        Walk { at: search.from, search, pieces: &pieces[first..], begin, is_born: false }
    }

    /// The last life of a number that began before the end of a range; the first one when all began later.
    fn life_in(&self, machines: &Machines, range: Option<(Ns, Ns)>, machine: u32, tid: i64) -> Option<ThreadIndex> {
        let (_, end) = range?;
        let newest = machines.find_thread(machine, tid)?;
        let began = |life: ThreadIndex| self.begins.get(&life).is_none_or(|begin| *begin <= end);
        if began(newest) {
            return Some(newest);
        }
        let lives = machines.threads().filter(|(_, thread)| (thread.machine, thread.tid) == (machine, tid));
        lives.map(|(life, _)| life).filter(|life| began(*life)).last()
    }

    /// The next piece of a walk, or what explains the next part of it.
    fn step(&self, machines: &Machines, origin: Ns, walk: &mut Walk<'_>) -> Option<PathStep> {
        let Search { thread, to, same, .. } = walk.search;
        let search = |walk: &mut Walk<'_>, thread: ThreadIndex, until: Ns| {
            let same = if until == to { same + 1 } else { 0 };
            let from = std::mem::replace(&mut walk.at, until);
            Some(PathStep::Search(Search { thread, from, to: until, same }))
        };
        if !std::mem::replace(&mut walk.is_born, true)
            && let Some(&(Some(parent), birth)) = self.births.get(&thread)
            && walk.at < birth
            && birth <= to
            // Threads that made each other at one time, by a trace that contradicts itself, would be followed for ever.
            && parent != thread
            && (birth < to || same + 1 < MAX_SAME)
        {
            while let [first, rest @ ..] = walk.pieces
                && origin + Ns::from(first.to) <= birth
            {
                (walk.pieces, walk.begin) = (rest, origin + Ns::from(first.to));
            }
            return search(walk, parent, birth);
        }
        let found = |walk: &mut Walk<'_>, until: Ns, state| {
            let from = std::mem::replace(&mut walk.at, until);
            Some(PathStep::Found(PathPiece { from, to: until, thread, state }))
        };
        let Some((piece, rest)) = walk.pieces.split_first().filter(|_| walk.begin < to && walk.at < to) else {
            return if walk.at < to { found(walk, to, "unknown") } else { None };
        };
        let end = origin + Ns::from(piece.to);
        let until = end.min(to);
        let state = match piece.state {
            ThreadState::Wait | ThreadState::WaitFork => match piece.reason.filter(|_| end <= to) {
                Some(Reason::Thread) => {
                    let is_same = end == to;
                    if piece.waker != NO_WAKER && piece.waker != thread.0 && (!is_same || same + 1 < MAX_SAME) {
                        (walk.pieces, walk.begin) = (rest, end);
                        return search(walk, ThreadIndex(piece.waker), until);
                    }
                    "blocked"
                }
                Some(Reason::Network) => {
                    let sender = self.segments.sender(piece.waker, machines.thread(thread).machine);
                    if let Some(sent) = sender
                        && walk.at < sent.at
                    {
                        // Clocks that do not agree let segments arrive before they are sent.
                        let until = sent.at.min(until);
                        if until != to || same + 1 < MAX_SAME {
                            if until == end {
                                (walk.pieces, walk.begin) = (rest, end);
                            }
                            return search(walk, sent.thread, until);
                        }
                    }
                    Reason::Network.name()
                }
                None | Some(Reason::Unknown) => "blocked",
                Some(reason) => reason.name(),
            },
            ThreadState::Interrupted => "interrupted",
            ThreadState::WaitCpu => "wait_cpu",
            ThreadState::Unknown => "unknown",
            ThreadState::Zombie => "ended",
            ThreadState::Suspended => "suspended",
            _ => "running",
        };
        (walk.pieces, walk.begin) = (rest, end);
        found(walk, until, state)
    }
}

impl Pieces {
    pub(crate) fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, _: Ns) {
        self.births.insert(child, (parent, machines.now()));
    }

    pub(crate) fn on_created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        if machines.thread(thread).life() > 0 {
            self.begins.insert(thread, at);
        }
    }

    pub(crate) fn woken(&mut self, _: &Machines, woken: &Woken) {
        let cpu = woken.cpu.filter(|_| woken.reason == Reason::Network);
        let segment = cpu.and_then(|cpu| self.segments.arrived.get(&cpu)).copied();
        self.woken.insert(woken.thread, (*woken, segment));
    }

    pub(crate) fn on_applied(
        &mut self,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_>,
        at: Ns,
    ) {
        let Some(cpu) = cpu.filter(|_| machines.count() > 1) else { return };
        match happening.concept {
            Concept::SegmentOut => {
                let of = machines.cpu(cpu);
                let is_by_thread = !matches!(of.status(), CpuStatus::Irq | CpuStatus::Softirq);
                if let (Some(segment), Some(thread)) = (segment_of(happening), of.current().thread())
                    && is_by_thread
                {
                    self.segments.send(segment, Sent { thread, machine, at });
                }
            }
            Concept::SegmentIn => {
                if let Some(segment) = segment_of(happening) {
                    self.segments.arrived.insert(cpu, segment);
                }
            }
            Concept::SoftEntry | Concept::SoftExit => drop(self.segments.arrived.remove(&cpu)),
            _ => {}
        }
    }

    pub(crate) fn add(&mut self, machines: &Machines, piece: &ThreadPiece, query: &AnalysisQuery) {
        let is_wait = matches!(piece.state, ThreadState::Wait | ThreadState::WaitFork);
        // A wait may be reported in several parts, where the machine was suspended in it: the wake is that of the last one.
        let is_over = |(woken, _): &(Woken, Option<Segment>)| woken.at <= piece.to;
        let has_wake = is_wait && self.woken.get(&piece.thread).is_some_and(is_over);
        let woken = if has_wake { self.woken.remove(&piece.thread) } else { None };
        if query.begin.is_some_and(|begin| piece.to <= begin) || query.end.is_some_and(|end| piece.from > end) {
            return;
        }
        let (woken, segment) = woken.filter(|(woken, _)| woken.at == piece.to).unzip();
        let segment = segment.flatten().map(|segment| self.segments.number(segment));
        let by_thread = woken.filter(|woken| woken.reason == Reason::Thread);
        let waker = by_thread.and_then(|woken| woken.waker).map(|waker| waker.0);
        let origin = machines.begin().unwrap_or(0);
        let offset = |at: Ns| i64::try_from(at - origin).unwrap_or(i64::MAX);
        let at = piece.thread.0 as usize;
        if at >= self.threads.len() {
            self.threads.resize_with(at + 1, Vec::new);
        }
        let pieces = &mut self.threads[at];
        let (from, state) = (offset(piece.from), plain(piece.state));
        let piece = Piece {
            to: offset(piece.to),
            waker: segment.or(waker).unwrap_or(NO_WAKER),
            state,
            reason: woken.map(|woken| woken.reason),
        };
        match pieces.last_mut() {
            // States between them that took no time are no rows: they are one, and end as the second one does.
            Some(last) if (last.to, last.state) == (from, state) => *last = piece,
            Some(last) if last.to == from => pieces.push(piece),
            _ => {
                let unknown = Piece { to: from, waker: NO_WAKER, state: ThreadState::Unknown, reason: None };
                pieces.extend([unknown, piece]);
            }
        }
        if is_wait {
            explain_first_parts(pieces);
        }
    }
}

/// A wait in which the machine was suspended has one end, which explains its first parts too.
fn explain_first_parts(pieces: &mut [Piece]) {
    for at in (2..pieces.len()).rev().step_by(2) {
        let [first, suspended, last] = [at - 2, at - 1, at].map(|at| pieces[at]);
        if (first.state, suspended.state) != (last.state, ThreadState::Suspended) {
            break;
        }
        pieces[at - 2] = Piece { to: first.to, ..last };
    }
}

/// A state, or another one that is the same on a path: most pieces of time are those of a thread that runs on.
#[inline]
fn plain(state: ThreadState) -> ThreadState {
    match state {
        ThreadState::Interrupted => state,
        ThreadState::Dead => ThreadState::Zombie,
        _ if state.is_running() => ThreadState::RunUnknown,
        _ => state,
    }
}
