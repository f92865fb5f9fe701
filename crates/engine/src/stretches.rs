//! The events of a session for several threads: each follows stretches of the timeline.
//!
//! One thread cuts the timeline at times that all streams have reached ([`Merger::next_stretch`]), which needs no look at a
//! single event, and hands the stretches out. All threads merge and follow them. What a stretch has at its edges is joined
//! in the order of the timeline, so the result does not depend on the number of threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tracemill_codec::chunk::Chunk;

use crate::event::Event;
use crate::events::{Events, each_of};
use crate::filter::{Filter, Matcher};
use crate::item::Flow;
use crate::merge::{Batch, Merger, Note};
use crate::selection::StreamOf;
use crate::session::Session;
use crate::timeline::{self, Selection};

/// Events of a stretch, and of a batch of it, about.
const STRETCH: usize = 8192;
const BATCH: usize = 4096;

/// Events that the one who cuts merges behind a stretch: enough to pass the end of the chunk that ended it.
const BEHIND: usize = 64;

/// Threads that follow, at most: each may keep as much as all events need.
const FOLLOWERS: usize = 16;

/// Work on stretches of the timeline, one after the other and each from its beginning.
pub trait Follower: Send {
    /// The part of a stretch that those beside it need.
    type Edge: Send;

    /// Takes the next event of the stretch, with its mark if there are marks.
    fn event(&mut self, event: &Event<'_>, mark: Option<u32>);

    /// Ends the stretch.
    fn end(&mut self) -> Self::Edge;
}

/// A number for each event, noted where it is read: its bytes are at hand there, and no longer where it is followed.
pub trait Marker: Send + Sync {
    /// The numbers of all events of a chunk.
    fn marks(&self, of: &StreamOf, chunk: &Chunk) -> Vec<u32>;
}

/// Lets several followers follow the events that are selected and match the filter, and joins the edges of all stretches in
/// the order of the timeline, each with the number of its follower. Gives the followers. Notes go to `note` in their order,
/// until it says to stop.
///
/// With fewer than four jobs, or where it is asked for, one follower takes all events as one stretch: the others have
/// enough to do with reading.
pub fn follow<F: Follower>(
    session: &Session,
    (streams, selection, filter): (&[StreamOf], &Selection, Option<&Filter>),
    in_order: bool,
    make: impl Fn() -> F + Sync,
    mut join: impl FnMut(usize, F::Edge),
    note: &mut dyn FnMut(Note) -> Flow,
) -> Vec<F> {
    // Reading takes more than following.
    let followers = (selection.jobs / 2).min(FOLLOWERS);
    if followers < 2 || in_order {
        let mut follower = make();
        let events = Events::new(session, streams, selection, filter);
        let events = if selection.jobs == 2 { events.merged_here() } else { events };
        events.for_each_marked(|event, mark| follower.event(event, mark), note);
        let edge = follower.end();
        join(0, edge);
        return vec![follower];
    }
    let merger = timeline::merger(session, streams, selection);
    let max_events = (timeline::max_events(streams, selection) * streams.len().max(1)).min(STRETCH);
    let tasks = Tasks::default();
    let new = || Stretches { streams, matcher: filter.map(Filter::matcher), follower: make() };
    std::thread::scope(|scope| {
        let _end = EndOfTasks(&tasks);
        let (done, results) = channel();
        let threads = (1..followers).map(|who| {
            let (tasks, done, new) = (&tasks, done.clone(), &new);
            scope.spawn(move || {
                // When one fails, the others and the one who waits for it end, too.
                let _end = EndOfTasks(tasks);
                let mut own = new();
                while let Some((number, stretch)) = tasks.wait() {
                    let edge = own.follow(stretch);
                    // Who joins may have stopped.
                    let _ = done.send((number, who, edge));
                }
                own.follower
            })
        });
        let threads: Vec<_> = threads.collect();
        drop(done);
        let pieces = Pieces { merger, max_events };
        let mut own = new();
        let results = Results { results, waiting: BTreeMap::new(), next: 0 };
        cut(pieces, &tasks, followers, &mut own, results, &mut join, note);
        tasks.end();
        let mut all = vec![own.follower];
        for thread in threads {
            match thread.join() {
                Ok(follower) => all.push(follower),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

/// Hands out stretches, follows some where the others have enough to do, and joins all.
fn cut<F: Follower>(
    mut pieces: Pieces,
    tasks: &Tasks,
    followers: usize,
    own: &mut Stretches<'_, F>,
    mut results: Results<F::Edge>,
    join: &mut impl FnMut(usize, F::Edge),
    note: &mut dyn FnMut(Note) -> Flow,
) {
    let (mut number, mut is_end) = (0, false);
    while !is_end || results.next < number {
        if !is_end && number - results.next < 2 * followers as u64 {
            let Some((stretch, notes)) = pieces.next() else {
                is_end = true;
                continue;
            };
            tasks.push((number, stretch));
            number += 1;
            for found in notes {
                if note(found) == Flow::Stop {
                    return;
                }
            }
        } else if let Some((number, stretch)) = tasks.next() {
            results.waiting.insert(number, (0, own.follow(stretch)));
        } else if results.wait() == Flow::Stop {
            // A follower has panicked, and whoever joins its thread hands that on.
            return;
        }
        results.join(join);
    }
}

/// Edges of stretches, as followers find them.
struct Results<E> {
    results: Receiver<(u64, usize, E)>,
    /// Edges that come behind others which are still followed.
    waiting: BTreeMap<u64, (usize, E)>,
    /// The number of the next one.
    next: u64,
}

impl<E> Results<E> {
    /// Waits for one.
    fn wait(&mut self) -> Flow {
        let Ok((number, who, edge)) = self.results.recv() else { return Flow::Stop };
        self.waiting.insert(number, (who, edge));
        Flow::Continue
    }

    /// Joins all that are next.
    fn join(&mut self, join: &mut impl FnMut(usize, E)) {
        self.waiting.extend(self.results.try_iter().map(|(number, who, edge)| (number, (who, edge))));
        while let Some((who, edge)) = self.waiting.remove(&self.next) {
            join(who, edge);
            self.next += 1;
        }
    }
}

/// The timeline in pieces.
struct Pieces {
    merger: Merger,
    max_events: usize,
}

/// A stretch of the timeline: what is still to be merged, and what comes behind it.
type Piece = (Option<Merger>, Option<Batch>);

impl Pieces {
    /// The next stretch, and the notes behind it.
    fn next(&mut self) -> Option<(Piece, Vec<Note>)> {
        let stretch = self.merger.next_stretch(self.max_events);
        let mut batch = self.merger.next_batch(if stretch.is_some() { BEHIND } else { BATCH });
        let notes = batch.as_mut().map(|batch| std::mem::take(&mut batch.notes)).unwrap_or_default();
        (stretch.is_some() || batch.is_some()).then_some(((stretch, batch), notes))
    }
}

/// A follower, and what one needs to find the events of stretches.
struct Stretches<'a, F> {
    streams: &'a [StreamOf],
    matcher: Option<Matcher>,
    follower: F,
}

impl<F: Follower> Stretches<'_, F> {
    fn follow(&mut self, (merger, behind): Piece) -> F::Edge {
        let Stretches { streams, matcher, follower } = self;
        let mut take = |batch: Batch| {
            let from = batch.runs.first().map_or(0, |run| run.from);
            each_of(streams, &batch, (&batch.runs, from), matcher, &mut |event, mark| follower.event(event, mark));
        };
        if let Some(mut merger) = merger {
            while let Some(batch) = merger.next_batch(BATCH) {
                take(batch);
            }
        }
        behind.into_iter().for_each(take);
        self.follower.end()
    }
}

/// Stretches that nobody follows yet, with their numbers; and whether no more come.
#[derive(Default)]
struct Tasks {
    waiting: Mutex<(VecDeque<(u64, Piece)>, bool)>,
    has_task: Condvar,
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, (VecDeque<(u64, Piece)>, bool)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, task: (u64, Piece)) {
        self.lock().0.push_back(task);
        self.has_task.notify_one();
    }

    /// The next one, if there is any.
    fn next(&self) -> Option<(u64, Piece)> {
        self.lock().0.pop_front()
    }

    /// The next one, when there is one; `None` at the end.
    fn wait(&self) -> Option<(u64, Piece)> {
        let mut waiting = self.lock();
        loop {
            if waiting.1 {
                return None;
            }
            if let Some(task) = waiting.0.pop_front() {
                return Some(task);
            }
            waiting = self.has_task.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        self.lock().1 = true;
        self.has_task.notify_all();
    }
}

/// The end of a thread, which ends the others when it fails.
struct EndOfTasks<'a>(&'a Tasks);

impl Drop for EndOfTasks<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
