//! Cuts the file of a task into slices that can be read on their own, without reading what is before them.
//!
//! A record does not say where it begins, and payloads have no length. So a cut is found by *following every chain*: all
//! places in a window that is longer than any record are taken for beginnings, and each is followed from record to
//! record. One of them is a true beginning, and what follows a true record is a true record; so once only one chain is
//! left behind the window, all others having ended at something that is no record or having run into it, that chain is
//! the true one. No byte outside the window and the few records behind it is looked at.
//!
//! Times in a task go back by a nanosecond or so here and there (events around their call). A cut is made where the
//! records near it are in order, so that what is before it is earlier than what is behind it.

use super::arguments::MAX_PAYLOAD;
use super::records::{Kind, Payload, RECORD, Record, Step, TaskBytes};

/// Bytes of a slice, about: at least 16 bytes make an event.
const SLICE: usize = 256 << 10;
/// What a slice has when there are many tasks: each task has a slice in memory while tasks are merged.
const SMALL_SLICE: usize = 64 << 10;
/// Tasks from which on slices are small.
const MANY_TASKS: usize = 24;
/// Tasks up to which slices of large files may be larger, so that opening looks at fewer places.
const FEW_TASKS: usize = 4;

/// Bytes of a slice of a file of `len` bytes where there are `tasks` of them.
pub(super) fn size(len: usize, tasks: usize) -> usize {
    if tasks <= FEW_TASKS {
        (len / 256).clamp(SLICE, 4 * SLICE)
    } else if tasks <= MANY_TASKS {
        SLICE
    } else {
        SMALL_SLICE
    }
}
/// A window in which a record begins for sure: longer than a record with the longest payload.
const WINDOW: usize = MAX_PAYLOAD + RECORD;
/// Times in a task are at most this far from one another, 9 years: words that are no times are mostly farther.
const MAX_SPAN_NS: u64 = 1 << 58;
/// Times go back by less than this.
const MAX_BACK_NS: u64 = 1_000_000_000;
/// Steps of chains behind the window before a cut is given up.
const MAX_STEPS: usize = 1024;
/// A place in time is searched for down to this many bytes.
const NEAR: usize = 16 << 10;
/// Records before and behind a cut that are in order.
const ORDERED: usize = 4;

/// A slice of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Slice {
    pub from: usize,
    pub to: usize,
    /// Time of its first record, when it has one with a time.
    pub begin: Option<u64>,
    /// No event in it is later.
    pub end: Option<u64>,
}

/// Cuts the file into slices of about `size` bytes.
pub(super) fn cut(task: &mut TaskBytes<'_>, size: usize) -> Vec<Slice> {
    let len = task.bytes.len();
    let mut slices: Vec<Slice> = Vec::new();
    let mut from = 0;
    let mut begin = first_time(task, 0);
    while from < len {
        let mut target = from + size;
        let mut found = None;
        while found.is_none() && target < len {
            found = boundary(task, target, begin.unwrap_or(0));
            target += size / 4;
        }
        let (to, time) = match found {
            Some((to, time)) if to < len => (to, Some(time)),
            _ => (len, None),
        };
        slices.push(Slice { from, to, begin, end: time });
        (from, begin) = (to, time);
    }
    if let Some(last) = slices.last_mut() {
        last.end = last_time(task, last.from);
    }
    slices
}

/// The part of a file that has all records from one time to another, as far as they are in order; both ends are places
/// where a record begins, or the ends of the file. Of a file of any length a few hundred places are looked at.
pub(super) fn around(task: &mut TaskBytes<'_>, from: u64, to: u64) -> (usize, usize) {
    let len = task.bytes.len();
    let first = first_time(task, 0).unwrap_or(0);
    // The last known boundary with a time before `time`, and the first one behind it: `NEAR` bytes apart.
    let mut search = |time: u64| {
        let (mut low, mut high) = ((0, first), len);
        let mut upper = len;
        while high - low.0 > NEAR {
            let middle = low.0 + (high - low.0) / 2;
            match boundary(task, middle, low.1) {
                Some((at, found)) if at < high && found < time => low = (at, found),
                Some((at, found)) if at < high && found >= time => (high, upper) = (middle, at),
                _ => high = middle,
            }
        }
        (low.0, upper)
    };
    let start = search(from).0;
    let end = if to == u64::MAX { len } else { search(to.saturating_add(1)).1 };
    (start, end.max(start))
}

/// The time of the first timed record from `at` on.
fn first_time(task: &mut TaskBytes<'_>, at: usize) -> Option<u64> {
    let mut at = at;
    for _ in 0..16 {
        let Step::Record { record, next, .. } = task.step(at, 0) else { return None };
        if record.kind() != Kind::Lost {
            return Some(record.time);
        }
        at = next;
    }
    None
}

/// The largest time from `from` to the end of the file; only the end is read when a boundary is found there.
fn last_time(task: &mut TaskBytes<'_>, from: usize) -> Option<u64> {
    let len = task.bytes.len();
    let near = len.saturating_sub(16 * WINDOW).max(from) & !7;
    let start = if near > from { boundary(task, near, 0) } else { None };
    let (mut at, mut largest) = start.map_or((from, None), |(at, time)| (at, Some(time)));
    loop {
        let after = largest.unwrap_or(0);
        match task.step(at, after) {
            Step::Record { record, next, .. } => {
                if record.kind() != Kind::Lost {
                    largest = largest.max(Some(record.time));
                }
                at = next;
            }
            Step::Bad { .. } => match task.resume(at + 8, after, usize::MAX) {
                Some(next) => at = next,
                None => return largest,
            },
            Step::Torn => return largest,
        }
    }
}

/// A place from `target` on where a record begins, for sure, and its time. `earliest` is a time before it.
fn boundary(task: &mut TaskBytes<'_>, target: usize, earliest: u64) -> Option<(usize, u64)> {
    let window = target.next_multiple_of(8);
    // Places of the window and of a record behind it, in words of 8 bytes: is a chain there?
    let mut places = [false; 2 * WINDOW / 8 + 2];
    places[..WINDOW / 8].fill(true);
    for index in 0..WINDOW / 8 {
        if places[index] {
            let next = follow(task, window + index * 8, earliest)?;
            if let Some(next) = next {
                // What is farther away than a record is long was searched for: no place to rely on.
                *places.get_mut((next - window) / 8)? = true;
            }
        }
    }
    let mut chains: Vec<usize> =
        (WINDOW / 8..places.len()).filter(|&at| places[at]).map(|at| window + at * 8).collect();
    for _ in 0..MAX_STEPS {
        chains.sort_unstable();
        chains.dedup();
        match chains.as_slice() {
            [] => return None,
            &[at] => return ordered(task, at),
            &[first, ..] => {
                chains.remove(0);
                chains.extend(follow(task, first, earliest)?);
            }
        }
    }
    None
}

/// Where the chain at a place goes on: nowhere when no record can stand there. `None` at the end of the file: a chain
/// that gets there may be the true one, and there is nothing to cut.
fn follow(task: &mut TaskBytes<'_>, at: usize, earliest: u64) -> Option<Option<usize>> {
    let record = task.record(at)?;
    if !is_plausible(record, earliest) {
        return Some(None);
    }
    match task.step(at, 0) {
        Step::Record { payload: Payload::Torn, .. } | Step::Bad { .. } => Some(None),
        Step::Record { next, .. } => Some(Some(next)),
        Step::Torn => None,
    }
}

/// Can the record be one of the task?
fn is_plausible(record: Record, earliest: u64) -> bool {
    match record.kind() {
        Kind::Lost => record.time == 0 && !record.has_payload(),
        _ => {
            let range = earliest.saturating_sub(MAX_BACK_NS)..=earliest.saturating_add(MAX_SPAN_NS);
            range.contains(&record.time)
        }
    }
}

/// The first record of the true chain from `at` on with the records around it in order, and its time.
fn ordered(task: &mut TaskBytes<'_>, at: usize) -> Option<(usize, u64)> {
    let mut chain: Vec<(usize, u64)> = Vec::new();
    let (mut at, mut after) = (at, 0);
    for _ in 0..MAX_STEPS {
        let Step::Record { record, next, .. } = task.step(at, after) else { return None };
        match record.kind() {
            // What was lost there belongs behind its predecessor.
            Kind::Lost => chain.clear(),
            _ => {
                if chain.last().is_some_and(|&(_, last)| record.time < last) {
                    chain.clear();
                }
                chain.push((at, record.time));
                after = after.max(record.time);
            }
        }
        if chain.len() == 2 * ORDERED {
            return chain.get(ORDERED).copied();
        }
        at = next;
    }
    None
}
