//! Cuts the file of a task into slices that can be read on their own, without reading what is before them.
//!
//! A record does not say where it begins, and payloads have no length. So a cut is found by *following every chain*: all
//! places in a window that is longer than any record are taken for beginnings, and each is followed from record to
//! record. One of them is a true beginning, and what follows a true record is a true record; so once only one chain is
//! left after the window, all others having ended at something that is no record or having run into it, that chain is
//! the true one. Where a chain ends at something that is no record, it goes on at every place after it where reading
//! from the beginning may find the next record, so that damage inside of the window does not end the true one. No byte
//! outside the window and the few records after it is looked at.
//!
//! Times in a task go back by a nanosecond or so here and there (events around their call). A cut is made where the
//! records near it are in order, so that what is before it is earlier than what is after it, and a stretch of time is
//! read with a margin: all records are found whose times are at most that much before the largest time so far.

use std::collections::VecDeque;

use super::arguments::MAX_PAYLOAD;
use super::records::{Payload, RECORD, Record, RecordKind, RecordStep, TaskBytes};

/// Bytes of a slice, about: at least 16 bytes make an event.
const SLICE: usize = 256 << 10;
/// The size of a slice when there are many tasks: each task has a slice in memory while tasks are merged.
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
/// Where chains begin: a window after damage that is as long as a window.
const STARTS: usize = 2 * WINDOW;
/// As far as chains are followed before a cut is given up.
const SPAN: usize = 8 * WINDOW;
/// Places that are tried for one cut, each as far after the one before as chains are followed.
const TRIES: usize = 4;
/// Times in a task are at most this far from one another, 9 years: words that are no times are mostly farther.
const MAX_SPAN_NS: u64 = 1 << 58;
/// Times go back by less than this.
const MAX_BACK_NS: u64 = 1_000_000_000;
/// Records that are looked at for some that are in order.
const MAX_STEPS: usize = 1024;
/// A place in time is searched for down to this many bytes.
pub(super) const NEAR: usize = 16 << 10;
/// Records before and after a cut that are in order.
const ORDERED: usize = 16;
/// A stretch of time is read with this much around it, so that records whose times go back by less are found.
const MARGIN_NS: u64 = 100_000;

/// A slice of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct FileSlice {
    pub from: usize,
    pub to: usize,
    /// Time of its first record, when it has one with a time.
    pub begin: Option<u64>,
    /// No event in it is later.
    pub end: Option<u64>,
}

/// Cuts the file into slices of about `size` bytes.
pub(super) fn cut(task: &mut TaskBytes<'_>, size: usize) -> Vec<FileSlice> {
    let len = task.bytes.len();
    let mut slices: Vec<FileSlice> = Vec::new();
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
        slices.push(FileSlice { from, to, begin, end: time });
        (from, begin) = (to, time);
    }
    if let Some(last) = slices.last_mut() {
        last.end = last_time(task, last.from);
    }
    slices
}

/// The part of a file that has all records from one time to another, as far as they are in order; both ends are places
/// where a record begins, or the ends of the file. Of a file of any length a few hundred places are looked at.
pub(super) fn byte_range(task: &mut TaskBytes<'_>, from: u64, to: u64) -> (usize, usize) {
    let first = first_time(task, 0).unwrap_or(0);
    search(task.bytes.len(), NEAR, first, (from, to), |middle, high, after| {
        let tries = (0..TRIES).map(|place| middle + place * SPAN).take_while(|&place| place == middle || place < high);
        tries.into_iter().find_map(|place| boundary(task, place, after))
    })
}

/// Halves a file of `len` bytes, the first of which have the time `first`, down to the parts of `near` bytes in which the
/// records of a stretch of time begin and end.
///
/// `boundary` finds a place after the first one that it gets, if it can before the second: what lies before it is
/// earlier than the time that comes with it, and what lies after is not. The third is a time before it.
pub(super) fn search(
    len: usize,
    near: usize,
    first: u64,
    (from, to): (u64, u64),
    mut boundary: impl FnMut(usize, usize, u64) -> Option<(usize, u64)>,
) -> (usize, usize) {
    // The results at the places that were looked at: the place, a boundary after it, and its time.
    let mut known: Vec<(usize, usize, u64)> = Vec::new();
    // The last known boundary with a time before `time`, and the first one behind it: `near` bytes apart.
    let mut halve = |time: u64| {
        let earlier = known.iter().filter(|known| known.2 < time).map(|known| (known.1, known.2)).max();
        let mut low = earlier.unwrap_or((0, first));
        let later = known.iter().filter(|known| known.2 >= time).map(|known| (known.0, known.1)).min();
        let (mut high, mut upper) = later.unwrap_or((len, len));
        while high.saturating_sub(low.0) > near {
            let middle = low.0 + (high - low.0) / 2;
            let found = boundary(middle, high, low.1);
            known.extend(found.map(|(at, time)| (middle, at, time)));
            match found {
                Some((at, found)) if at < high && found < time => low = (at, found),
                Some((at, found)) if at < high && found >= time => (high, upper) = (middle, at),
                _ => high = middle,
            }
        }
        (low.0, upper)
    };
    let start = halve(from.saturating_sub(MARGIN_NS)).0;
    let end = if to == u64::MAX { len } else { halve(to.saturating_add(1 + MARGIN_NS)).1 };
    (start, end.max(start))
}

/// The time of the first timed record from `at` on.
fn first_time(task: &mut TaskBytes<'_>, at: usize) -> Option<u64> {
    let mut at = at;
    for _ in 0..16 {
        let RecordStep::Record { record, next, .. } = task.step(at, 0) else { return None };
        if record.kind() != RecordKind::Lost {
            return Some(record.time);
        }
        at = next;
    }
    None
}

/// The largest time from `from` to the end of the file.
fn last_time(task: &mut TaskBytes<'_>, from: usize) -> Option<u64> {
    end_of(task, from).0
}

/// Where the last whole record of a file that is being written ends: the payload of a record may come later, and bytes that are
/// zero are not written yet. A record begins at `from`.
pub(super) fn whole_len(task: &mut TaskBytes<'_>, from: usize) -> usize {
    end_of(task, from).1
}

/// The largest time from `from` to the end of the file, and where its last whole record ends; only the end is read when a
/// boundary is found there.
fn end_of(task: &mut TaskBytes<'_>, from: usize) -> (Option<u64>, usize) {
    let len = task.bytes.len();
    let near = len.saturating_sub(16 * WINDOW).max(from) & !7;
    let start = if near > from { boundary(task, near, 0) } else { None };
    let (mut at, mut largest) = start.map_or((from, None), |(at, time)| (at, Some(time)));
    let mut whole = None;
    loop {
        let after = largest.unwrap_or(0);
        match task.step(at, after) {
            RecordStep::Record { record, payload, next, .. } => {
                if record.kind() != RecordKind::Lost {
                    largest = largest.max(Some(record.time));
                }
                if payload == Payload::Torn {
                    whole = whole.or(Some(at));
                }
                at = next;
            }
            RecordStep::Bad { .. } => {
                let is_blank = task.bytes[at..].iter().all(|byte| *byte == 0);
                match task.resume(at + 8, after, usize::MAX).filter(|_| !is_blank) {
                    Some(next) => at = next,
                    None => return (largest, whole.unwrap_or(if is_blank { at } else { len })),
                }
            }
            RecordStep::Torn => return (largest, whole.unwrap_or(at)),
        }
    }
}

/// A place from `target` on where a record begins, for sure, and its time. `earliest` is a time before it.
fn boundary(task: &mut TaskBytes<'_>, target: usize, earliest: u64) -> Option<(usize, u64)> {
    let window = target.next_multiple_of(8);
    let mut chains = Chains { window, earliest, places: vec![None; STARTS / 8], alive: 0 };
    for index in 0..STARTS / 8 {
        match task.record(window + index * 8)? {
            record if !is_plausible(record, earliest) => {}
            record if record.kind() == RecordKind::Lost => {
                chains.add(index, (earliest, earliest.saturating_add(MAX_SPAN_NS)))?
            }
            record => chains.add(index, (record.time, record.time))?,
        }
    }
    let mut index = 0;
    while index < chains.places.len() {
        let Some(times) = chains.places[index] else {
            index += 1;
            continue;
        };
        if index >= STARTS / 8 && chains.alive == 1 {
            return ordered(task, window + index * 8);
        }
        chains.alive -= 1;
        chains.follow(task, index, times)?;
        index += 1;
    }
    None
}

/// The chains that may be the true one, of which each place keeps the least and the largest time of the records that
/// lead there.
struct Chains {
    window: usize,
    earliest: u64,
    /// By words of 8 bytes from the window's first one on, up to the last one that a chain has come to.
    places: Vec<Option<(u64, u64)>>,
    /// Places that were not followed yet.
    alive: usize,
}

impl Chains {
    /// Comes to a place. `None` when it is too far away.
    fn add(&mut self, index: usize, (least, largest): (u64, u64)) -> Option<()> {
        if index >= self.places.len() {
            // A place farther away than the length of a record was searched for: it is not reliable.
            if index >= SPAN / 8 {
                return None;
            }
            self.places.resize(index + 1, None);
        }
        match &mut self.places[index] {
            Some(times) => *times = (times.0.min(least), times.1.max(largest)),
            place => {
                *place = Some((least, largest));
                self.alive += 1;
            }
        }
        Some(())
    }

    /// Goes one step on from a place. `None` when nothing can be said: a chain that gets to the end of the file, or
    /// too far, may be the true one.
    fn follow(&mut self, task: &mut TaskBytes<'_>, index: usize, (least, largest): (u64, u64)) -> Option<()> {
        let at = self.window + index * 8;
        let record = task.record(at)?;
        if is_plausible(record, self.earliest) {
            // Most are calls without values, whose symbols decide nothing.
            if record.is_plain_call() {
                return self.add(index + RECORD / 8, (record.time, record.time));
            }
            let times = if record.kind() == RecordKind::Lost { (least, largest) } else { (record.time, record.time) };
            match task.step(at, 0) {
                RecordStep::Record { payload: Payload::Torn, .. } | RecordStep::Bad { .. } => {}
                RecordStep::Record { next, .. } => {
                    return self.add((next - self.window) / 8, times);
                }
                RecordStep::Torn => return None,
            }
        }
        // No record can stand here. Either the chain is false, or the bytes are damaged: then the true one goes on
        // further on, where reading from the beginning finds a record of about this time.
        for next in index + 1..=index + WINDOW / 8 {
            let record = task.record(self.window + next * 8)?;
            if is_plausible(record, self.earliest) && record.is_near(least.saturating_sub(MAX_BACK_NS), largest) {
                self.add(next, (least, largest))?;
            }
        }
        Some(())
    }
}

/// Can the record be one of the task?
fn is_plausible(record: Record, earliest: u64) -> bool {
    let range = earliest.saturating_sub(MAX_BACK_NS)..=earliest.saturating_add(MAX_SPAN_NS);
    record.is_sound() && (record.kind() == RecordKind::Lost || range.contains(&record.time))
}

/// The first record of the true chain from `at` on with the records before it earlier and those after it later, and its
/// time.
fn ordered(task: &mut TaskBytes<'_>, at: usize) -> Option<(usize, u64)> {
    let mut chain: VecDeque<(usize, u64)> = VecDeque::with_capacity(2 * ORDERED + 1);
    let (mut at, mut after) = (at, 0);
    for _ in 0..MAX_STEPS {
        let RecordStep::Record { record, next, .. } = task.step(at, after) else { return None };
        // A loss stays after its predecessor.
        if record.kind() != RecordKind::Lost {
            chain.push_back((at, record.time));
            after = record.time;
        }
        if chain.len() > 2 * ORDERED {
            chain.pop_front();
        }
        if let Some(&(at, time)) = chain.get(ORDERED).filter(|_| chain.len() == 2 * ORDERED)
            && chain
                .iter()
                .enumerate()
                .all(|(place, other)| if place < ORDERED { other.1 <= time } else { other.1 >= time })
        {
            return Some((at, time));
        }
        at = next;
    }
    None
}
