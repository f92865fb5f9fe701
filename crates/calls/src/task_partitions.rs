//! Tasks that several threads follow.
//!
//! A task's effect on a result hardly depends on other tasks, so the tasks are divided into parts, each with a follower
//! of its own. The results of the parts are joined as if one follower had met all records in the order of time: a
//! [`Moment`] says when something was met. Where a task depends on another one after all, or where records are in no
//! order, all parts stop, and one follower reads everything.
//!
//! Every part reads all records of the system, which are mostly few: of those about tasks of other parts, only the time of
//! the last one counts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tracemill_format::calls::{CallSource, Findings, StreamHolds};

use crate::follow::{Follower, between};
use crate::select::CallOptions;

/// When something was met: the time of the record, and its task, as tasks stand in the order in which records of equal
/// time are taken; `u32::MAX` where the system reported it. What is found after the last record comes last.
pub(crate) type Moment = (u64, u32);

/// Parts for each thread: tasks have different lengths, and threads their own pace. One thread gains by them, too, since
/// records of tasks that took turns need no merge.
const PARTS: usize = 4;

/// Every part reads all records of the system, so there are no more parts than keep these below one such part of the bytes
/// of tasks.
const SYSTEM_SHARE: u64 = 4;

/// Tasks that one follower follows.
pub(crate) struct TaskPart {
    /// Its streams, in order.
    pub(crate) streams: Vec<usize>,
    /// By task: is it one of this part? `None` where the streams say so themselves.
    pub(crate) tasks: Option<Vec<bool>>,
    /// Did its tasks call `setjmp`?
    pub(crate) sets_jump: AtomicBool,
    /// Did they call `longjmp`?
    pub(crate) jumps: AtomicBool,
}

/// `longjmp` goes back to where any task called `setjmp` last. Are those that were called both of one part?
fn are_jumps_own(parts: &[TaskPart]) -> bool {
    let mut set = parts.iter().enumerate().filter(|(_, part)| part.sets_jump.load(Ordering::Relaxed));
    let (first, second) = (set.next(), set.next());
    let is_own = |at| second.is_none() && first.is_none_or(|(setting, _)| setting == at);
    parts.iter().enumerate().all(|(at, part)| !part.jumps.load(Ordering::Relaxed) || is_own(at))
}

/// Lets `gather` follow the tasks of the source in parts, with as many threads as the options say: what it found in each
/// part. `None` when one follower must read everything, since the tasks depend on each other.
pub(crate) fn follow<T: Send>(
    source: &dyn CallSource,
    options: &CallOptions,
    gather: impl Fn(Follower<'_>) -> (T, Findings) + Sync,
) -> Option<Vec<T>> {
    let parts = divide(source, options)?;
    let between = between(source, options);
    let must_stop = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    let gathered = Mutex::new(Vec::with_capacity(parts.len()));
    let work = || {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed))
            && !must_stop.load(Ordering::Relaxed)
        {
            let (found, findings) = gather(Follower::for_part(source, options.clone(), part, between, &must_stop));
            // The order of findings is that of the ends of all streams.
            if !findings.faults.is_empty() || !findings.warnings.is_empty() {
                must_stop.store(true, Ordering::Relaxed);
            }
            gathered.lock().unwrap_or_else(PoisonError::into_inner).push(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.jobs.min(parts.len()) {
            // Where the system has no more threads, this one does everything.
            let _ = std::thread::Builder::new().name("calls".into()).spawn_scoped(scope, work);
        }
        work();
    });
    let gathered = gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
    (!must_stop.into_inner() && gathered.len() == parts.len() && are_jumps_own(&parts)).then_some(gathered)
}

/// The parts; `None` when the source and the options do not let tasks be followed one without the others.
fn divide(source: &dyn CallSource, options: &CallOptions) -> Option<Vec<TaskPart>> {
    // Triggers of one task switch the others on and off, and guesses depend on what was looked at.
    let is_common = options.is_disabled || !options.rules.is_empty() || source.is_estimated();
    if is_common {
        return None;
    }
    let (mut streams, mut of_system, mut last) = (Vec::new(), Vec::new(), None);
    let (mut own_bytes, mut system_bytes) = (0u64, 0u64);
    for stream in 0..source.stream_count() {
        match source.holds(stream) {
            // The order of tasks stands for that of their streams, and what the system reports comes after them.
            StreamHolds::Task { task, bytes } if last.is_none_or(|last| last < task) && of_system.is_empty() => {
                last = Some(task);
                own_bytes = own_bytes.saturating_add(bytes);
                streams.push((bytes, stream, task));
            }
            // A time filter holds records of the system back.
            StreamHolds::System { bytes } if options.time_filter == 0 => {
                system_bytes = system_bytes.saturating_add(bytes);
                of_system.push(stream);
            }
            _ => return None,
        }
    }
    let mut count = streams.len().min(options.jobs.saturating_mul(PARTS));
    if let Some(most) = (own_bytes / SYSTEM_SHARE).checked_div(system_bytes) {
        count = count.min(usize::try_from(most).unwrap_or(usize::MAX));
    }
    if count < 2 {
        return None;
    }
    // The largest first, each to the smallest part.
    streams.sort_by_key(|&(bytes, stream, _)| (std::cmp::Reverse(bytes), stream));
    let has_system = !of_system.is_empty();
    let no_tasks = || has_system.then(|| vec![false; source.tasks().len()]);
    let empty = || TaskPart { streams: Vec::new(), tasks: no_tasks(), sets_jump: false.into(), jumps: false.into() };
    let mut parts: Vec<(u64, TaskPart)> = (0..count).map(|_| (0, empty())).collect();
    if let Some(tasks) = &mut parts[0].1.tasks {
        // Some tasks are known from the system only.
        tasks.fill(true);
        for &(.., task) in &streams {
            tasks[task] = false;
        }
    }
    for (bytes, stream, task) in streams {
        if let Some((sum, part)) = parts.iter_mut().min_by_key(|part| part.0) {
            // An empty stream is work, too.
            *sum = sum.saturating_add(bytes.max(1));
            part.streams.push(stream);
            if let Some(tasks) = &mut part.tasks {
                tasks[task] = true;
            }
        }
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.0));
    if options.jobs < 2 {
        // No thread waits for the last part, and what depends on other tasks is mostly found in small ones, as those of
        // forked processes: the less was read until then, the better.
        parts.reverse();
    }
    let in_order = |(_, mut part): (u64, TaskPart)| {
        part.streams.sort_unstable();
        part.streams.extend(&of_system);
        part
    };
    Some(parts.into_iter().map(in_order).collect())
}

/// Calls and events that parts met, as the number of the part and the place in its list, in the order in which one follower would have met
/// it: `met` has the moments of each part, in the order of its list.
pub(crate) fn in_order(met: impl Iterator<Item = Vec<Moment>>) -> Vec<(usize, usize)> {
    let mut all: Vec<(Moment, usize, usize)> = met
        .enumerate()
        .flat_map(|(part, list)| list.into_iter().enumerate().map(move |(place, moment)| (moment, part, place)))
        .collect();
    // A moment belongs to one task, so to one part.
    all.sort_unstable();
    all.into_iter().map(|(_, part, place)| (part, place)).collect()
}
