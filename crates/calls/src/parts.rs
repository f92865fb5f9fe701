//! Tasks that several threads follow.
//!
//! What a task does to a result hardly depends on the others, so the tasks are divided into parts, and each part has a
//! follower of its own. What the parts found is joined as if one follower had met all records in the order of time: a
//! [`Moment`] says when something was met. Where a task depends on another one after all, or where records stand in no
//! order, all parts stop, and one follower reads everything.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tracemill_format::calls::{CallSource, Findings};

use crate::follow::{Follower, between};
use crate::select::CallOptions;

/// When something was met: the time of the record, and its task, as tasks stand in the order in which records of equal
/// time are taken. What is found behind the last record comes last.
pub(crate) type Moment = (u64, u32);

/// Parts for each thread: tasks have different lengths, and threads their own pace.
const PARTS: usize = 4;

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
        while let Some(streams) = parts.get(next.fetch_add(1, Ordering::Relaxed))
            && !must_stop.load(Ordering::Relaxed)
        {
            let (found, findings) = gather(Follower::of_part(source, options.clone(), streams, between, &must_stop));
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
    (!must_stop.into_inner() && gathered.len() == parts.len()).then_some(gathered)
}

/// The streams of each part; `None` when the source and the options do not let tasks be followed one without the others.
fn divide(source: &dyn CallSource, options: &CallOptions) -> Option<Vec<Vec<usize>>> {
    // Triggers of one task switch the others on and off, and guesses depend on what was looked at.
    let is_common = options.is_disabled || !options.rules.is_empty() || source.is_estimated();
    if options.jobs < 2 || is_common {
        return None;
    }
    let (mut streams, mut last) = (Vec::new(), None);
    for stream in 0..source.stream_count() {
        let (task, bytes) = source.own_stream(stream)?;
        // The order of tasks stands for that of their streams.
        if last.is_some_and(|last| task <= last) {
            return None;
        }
        last = Some(task);
        streams.push((bytes, stream));
    }
    let count = streams.len().min(options.jobs.saturating_mul(PARTS));
    if count < 2 {
        return None;
    }
    // The largest first, each to the smallest part.
    streams.sort_by_key(|&(bytes, stream)| (std::cmp::Reverse(bytes), stream));
    let mut parts: Vec<(u64, Vec<usize>)> = vec![(0, Vec::new()); count];
    for (bytes, stream) in streams {
        if let Some(part) = parts.iter_mut().min_by_key(|part| part.0) {
            // An empty stream is work, too.
            part.0 = part.0.saturating_add(bytes.max(1));
            part.1.push(stream);
        }
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.0));
    let in_order = |(_, mut streams): (u64, Vec<usize>)| {
        streams.sort_unstable();
        streams
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
