//! Printing a timeline with several threads: the same bytes whatever their number.
//!
//! One thread merges (the only ordered step) and hands batches out; all threads render, the merging one too when the
//! others have enough to do; lines are written in the order of the batches.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tracemill_model::error::Error;

use crate::lines::{LinePlan, LineRenderer, Rendered};
use tracemill_engine::merge::{Batch, Merger, Note};
use tracemill_engine::session::Session;

/// Output of a print, in order.
pub enum PrintOutput<'a> {
    /// Lines.
    Lines(&'a Rendered),
    /// A note that comes after the lines so far.
    Note(Note),
    /// An error: a part that cannot be shown.
    Fault(Error),
}

/// Events of the first batch; later ones are twice as large until [`MAX_BATCH`], so that the first line comes soon.
const FIRST_BATCH: usize = 64;
const MAX_BATCH: usize = 4096;

/// Merges, renders with `jobs` threads, and hands everything to `take` in order.
pub fn print(
    session: &Session,
    merger: &mut Merger,
    plan: &Arc<LinePlan>,
    jobs: usize,
    mut take: impl FnMut(PrintOutput<'_>) -> ControlFlow<()>,
) {
    let mut batches = Batches { merger, size: FIRST_BATCH, limit: FIRST_BATCH };
    let mut renderer = LineRenderer::new(plan.clone(), session);
    if jobs <= 1 {
        let mut old = Rendered::default();
        while let Some(mut batch) = batches.next() {
            let notes = std::mem::take(&mut batch.notes);
            old = renderer.render(&batch, old);
            batches.learn(&old);
            if deliver(&mut old, notes, &mut take).is_break() {
                break;
            }
        }
        return;
    }
    let shared = PrintShared::default();
    std::thread::scope(|scope| {
        let _stop = StopOnPanic(&shared);
        for worker in 1..jobs {
            let (shared, plan) = (&shared, plan.clone());
            scope.spawn(move || {
                let _stop = StopOnPanic(shared);
                let mut renderer = LineRenderer::new(plan, session);
                while let Some((number, batch)) = shared.wait_for_task() {
                    let rendered = renderer.render(&batch, shared.old(worker));
                    shared.finish(number, worker, rendered);
                }
            });
        }
        run(&mut batches, &mut renderer, &shared, jobs, &mut take);
        shared.end();
    });
}

fn run(
    batches: &mut Batches<'_>,
    renderer: &mut LineRenderer,
    shared: &PrintShared,
    jobs: usize,
    take: &mut impl FnMut(PrintOutput<'_>) -> ControlFlow<()>,
) {
    let mut notes: VecDeque<Vec<Note>> = VecDeque::new();
    let (mut first, mut is_end) = (0u64, false);
    loop {
        while !is_end && notes.len() < jobs * 3 {
            match batches.next() {
                Some(mut batch) => {
                    notes.push_back(std::mem::take(&mut batch.notes));
                    shared.push((first + notes.len() as u64 - 1, batch));
                }
                None => is_end = true,
            }
        }
        let Some(of_first) = notes.pop_front() else { return };
        let (worker, mut rendered) = loop {
            let done = shared.lock().done.remove(&first);
            if let Some(done) = done {
                break done;
            }
            match shared.try_task() {
                Some((number, batch)) => {
                    let rendered = renderer.render(&batch, shared.old(THIS));
                    shared.finish(number, THIS, rendered);
                }
                // A worker that panicked: leaving the scope hands its panic on.
                None if shared.wait_for_done(first).is_break() => return,
                None => {}
            }
        };
        first += 1;
        batches.learn(&rendered);
        let flow = deliver(&mut rendered, of_first, take);
        shared.lock().old.push((worker, rendered));
        if flow.is_break() {
            return;
        }
    }
}

fn deliver(
    rendered: &mut Rendered,
    notes: Vec<Note>,
    take: &mut impl FnMut(PrintOutput<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let faults = std::mem::take(&mut rendered.faults).into_iter().map(PrintOutput::Fault);
    let rest = faults.chain(notes.into_iter().map(PrintOutput::Note));
    // Also without lines, so that the taker can stop a search that finds nothing.
    let mut outputs = std::iter::once(PrintOutput::Lines(rendered)).chain(rest);
    if outputs.any(|output| take(output).is_break()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Bytes of lines that a batch should have at most. Events whose texts are made (a name of 60 KB in each) would else fill
/// the memory with a few thousand lines.
const MAX_BATCH_BYTES: usize = 2 << 20;

struct Batches<'a> {
    merger: &'a mut Merger,
    size: usize,
    /// The most events of a batch, as far as the lines so far tell.
    limit: usize,
}

impl Batches<'_> {
    /// Learns from the lines of a batch how many events the next ones may have.
    fn learn(&mut self, rendered: &Rendered) {
        let mean_bytes = rendered.out.len() / (rendered.lines as usize).max(1);
        self.limit = (MAX_BATCH_BYTES / mean_bytes.max(1)).clamp(FIRST_BATCH / 4, MAX_BATCH);
    }

    fn next(&mut self) -> Option<Batch> {
        let batch = self.merger.next_batch(self.size.min(self.limit));
        self.size = (self.size * 2).min(MAX_BATCH);
        batch
    }
}

/// The number of the thread that merges.
const THIS: usize = 0;

#[derive(Default)]
struct PrintShared {
    state: Mutex<Work>,
    has_task: Condvar,
    has_done: Condvar,
}

#[derive(Default)]
struct Work {
    tasks: VecDeque<(u64, Batch)>,
    /// By number, with the thread that has rendered it.
    done: BTreeMap<u64, (usize, Rendered)>,
    /// Written; the thread that has filled their memory uses it again, as it lies in the caches of its processor.
    old: Vec<(usize, Rendered)>,
    /// Threads that wait for tasks, and whether the one that merges waits for lines: a needless wake-up costs a call of
    /// the system, too.
    sleepers: usize,
    is_awaited: bool,
    is_over: bool,
}

impl PrintShared {
    /// A thread that panicked has ended the process's work anyway; the data behind the lock are whole.
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, task: (u64, Batch)) {
        let mut work = self.lock();
        work.tasks.push_back(task);
        if work.sleepers > 0 {
            self.has_task.notify_one();
        }
    }

    fn try_task(&self) -> Option<(u64, Batch)> {
        self.lock().tasks.pop_front()
    }

    fn wait_for_task(&self) -> Option<(u64, Batch)> {
        let mut work = self.lock();
        loop {
            if work.is_over {
                return None;
            }
            if let Some(task) = work.tasks.pop_front() {
                return Some(task);
            }
            work.sleepers += 1;
            work = self.has_task.wait(work).unwrap_or_else(PoisonError::into_inner);
            work.sleepers -= 1;
        }
    }

    fn finish(&self, number: u64, worker: usize, rendered: Rendered) {
        let mut work = self.lock();
        work.done.insert(number, (worker, rendered));
        if work.is_awaited {
            self.has_done.notify_one();
        }
    }

    fn old(&self, worker: usize) -> Rendered {
        let old = &mut self.lock().old;
        let own = old.iter().rposition(|&(of, _)| of == worker);
        own.map(|at| old.swap_remove(at).1).unwrap_or_default()
    }

    fn wait_for_done(&self, number: u64) -> ControlFlow<()> {
        let mut work = self.lock();
        while !work.done.contains_key(&number) && work.tasks.is_empty() {
            if work.is_over {
                return ControlFlow::Break(());
            }
            work.is_awaited = true;
            work = self.has_done.wait(work).unwrap_or_else(PoisonError::into_inner);
            work.is_awaited = false;
        }
        ControlFlow::Continue(())
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.has_task.notify_all();
        self.has_done.notify_all();
    }
}

/// Ends everything when a thread panics, so that a panic cannot become a hang.
struct StopOnPanic<'a>(&'a PrintShared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
