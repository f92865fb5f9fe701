//! `perf-cpuN.dat`: raw records of the kernel's perf ring, for scheduling, new tasks and their names (`SPEC.md`,
//! section 7).

use std::collections::HashSet;

use tracemill_codec::bits::read_uint;
use tracemill_ftrace::classes::push_locator;
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;
use tracemill_perf::records::{HEADER, kind, misc};

use super::classes::Classes;
use super::layout::SliceEvents;
use super::slices;

/// Bytes that end every record: process, task, time.
const TRAILER: usize = 16;

/// A part of the file, with the times of its first and last record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PerfPart {
    pub from: usize,
    pub to: usize,
    pub begin: u64,
    pub end: u64,
}

/// Bytes of a part, about.
const PART: usize = 256 << 10;

struct PerfReader<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl PerfReader<'_> {
    fn number(&self, at: usize, len: usize) -> u64 {
        read_uint(self.bytes.get(at..at.saturating_add(len)).unwrap_or(&[]), self.order)
    }

    /// Type, flags and size of the record at `at`; an error when it cannot be one.
    fn header(&self, at: usize) -> Result<(u32, u16, usize), Error> {
        let left = self.bytes.len() - at;
        let size = self.number(at + 6, 2) as usize;
        let torn = |message: String| Err(Error::malformed(message).at_offset(at as u64));
        if left < HEADER {
            return torn(format!("the file ends inside a record: {left} of at least {HEADER} bytes"));
        }
        if size < HEADER || !size.is_multiple_of(8) {
            return torn(format!("a record of {size} bytes, expected a multiple of 8"));
        }
        if size > left {
            return torn(format!("the file ends inside a record: {left} of its {size} bytes"));
        }
        Ok((self.number(at, 4) as u32, self.number(at + 4, 2) as u16, size))
    }

    /// The time of a record, for those that are read.
    fn time(&self, at: usize, kind: u32, size: usize) -> Option<u64> {
        match kind {
            kind::FORK | kind::EXIT if size >= HEADER + 24 => Some(self.number(at + 24, 8)),
            kind::SWITCH | kind::COMM => self.trailer(at, size).map(|(_, time)| time),
            _ => None,
        }
    }

    /// Task and time of the end of a record.
    fn trailer(&self, at: usize, size: usize) -> Option<(i32, u64)> {
        let end = at + size;
        (size >= HEADER + TRAILER).then(|| (self.number(end - 12, 4) as u32 as i32, self.number(end - 8, 8)))
    }
}

/// Walks from record to record and cuts the file into parts.
pub(super) fn cut(bytes: &[u8], order: ByteOrder) -> Vec<PerfPart> {
    let reader = PerfReader { bytes, order };
    let mut parts = Vec::new();
    let mut part = PerfPart { from: 0, to: 0, begin: u64::MAX, end: 0 };
    let mut at = 0;
    while at < bytes.len() {
        let Ok((kind, _, size)) = reader.header(at) else {
            at = reader.resync_after(at);
            continue;
        };
        if let Some(time) = reader.time(at, kind, size) {
            if at - part.from >= PART && part.begin != u64::MAX && time >= part.end {
                parts.push(PerfPart { to: at, ..part });
                part = PerfPart { from: at, to: at, begin: u64::MAX, end: 0 };
            }
            part = PerfPart { begin: part.begin.min(time), end: part.end.max(time), ..part };
        }
        at += size;
    }
    if part.from < bytes.len() {
        let begin = if part.begin == u64::MAX { part.end } else { part.begin };
        parts.push(PerfPart { to: bytes.len(), begin, ..part });
    }
    parts
}

/// A record begins in any so many bytes: the size of one is a number of 16 bits.
const WINDOW: usize = 1 << 16;
/// A place in time is searched for down to this many bytes.
const NEAR: usize = 4 * WINDOW;
/// Records before and after a place in time that are in order.
const ORDERED: usize = 16;
/// Records that are looked at for some that are in order.
const MAX_STEPS: usize = 256;
/// Types of records are small numbers; what stands elsewhere in records (ids, times) mostly is none.
const MAX_KIND: u32 = 255;

/// The part of a file that has all records from one time to another, as far as they are in order; both ends are places
/// where a record begins, or the ends of the file. Of a large file only some dozens of places are looked at.
pub(super) fn byte_range(bytes: &[u8], order: ByteOrder, from: u64, to: u64) -> (usize, usize) {
    let reader = PerfReader { bytes, order };
    let first = reader.times(0).next().map_or(0, |(_, time)| time);
    slices::search(bytes.len(), NEAR, first, (from, to), |middle, _, after| reader.boundary(middle, after))
}

impl PerfReader<'_> {
    /// The size of what may be a record at `at`.
    fn plausible(&self, at: usize) -> Option<usize> {
        let kind = self.number(at, 4) as u32;
        let (_, _, size) = self.header(at).ok().filter(|_| (1..=MAX_KIND).contains(&kind))?;
        let least = match kind {
            kind::SWITCH => HEADER + TRAILER,
            kind::COMM => HEADER + 8 + TRAILER,
            kind::FORK | kind::EXIT => HEADER + 24,
            _ => HEADER,
        };
        (size >= least).then_some(size)
    }

    /// Where a record begins for sure after the window at `from`: where all chains of records lead that begin in the
    /// window and do not end at something that is no record.
    fn landing(&self, from: usize) -> Option<usize> {
        let (from, end) = (from & !7, (from & !7) + WINDOW);
        if end >= self.bytes.len() {
            return None;
        }
        // Where the chain of each place leads, from the last place to the first one.
        let mut leads: Vec<Option<usize>> = vec![None; WINDOW / 8];
        let mut found = None;
        for place in (0..leads.len()).rev() {
            let Some(next) = self.plausible(from + 8 * place).map(|size| from + 8 * place + size) else { continue };
            let Some(lead) = (if next < end { leads[(next - from) / 8] } else { Some(next) }) else { continue };
            // A chain of one record proves nothing yet; one that goes on after the window is a chain of records.
            if next >= end && !self.has_records_at(next) {
                continue;
            }
            leads[place] = Some(lead);
            if *found.get_or_insert(lead) != lead {
                return None;
            }
        }
        found
    }

    /// Where reading goes on after something at `at` that is no record: as soon as it is sure where one begins, which takes
    /// some records after it; otherwise the end.
    #[cold]
    fn resync_after(&self, at: usize) -> usize {
        let mut windows = (at + 8..self.bytes.len()).step_by(WINDOW);
        windows.find_map(|from| self.landing(from)).unwrap_or(self.bytes.len())
    }

    /// Do some records follow from `at` on?
    fn has_records_at(&self, at: usize) -> bool {
        let steps = std::iter::successors(Some(at), |&at| self.plausible(at).map(|size| at + size));
        steps.take(ORDERED + 1).count() > ORDERED
    }

    /// The places and times of records from `at` on.
    fn times(&self, at: usize) -> impl Iterator<Item = (usize, u64)> {
        let header = |at: usize| (at < self.bytes.len()).then(|| self.header(at).ok()).flatten();
        let places = std::iter::successors(header(at).map(|found| (at, found)), move |&(at, (_, _, size))| {
            header(at + size).map(|found| (at + size, found))
        });
        places.take(MAX_STEPS).filter_map(|(at, (kind, _, size))| Some((at, self.time(at, kind, size)?)))
    }

    /// A record after `at`, and its time, that is later than those before it and not later than those after it.
    fn boundary(&self, at: usize, after: u64) -> Option<(usize, u64)> {
        let times: Vec<(usize, u64)> = self.times(self.landing(at)?).collect();
        let mut around = times.windows(2 * ORDERED + 1);
        let found = around.find(|around| {
            around[0].1 >= after
                && around.is_sorted_by_key(|(_, time)| time)
                && around[ORDERED - 1].1 < around[ORDERED].1
        });
        found.map(|around| around[ORDERED])
    }
}

/// A record that is an event.
pub(super) struct PerfEvent {
    pub tid: i32,
    pub time: u64,
    pub id: u32,
    /// Process and its parent, of a task that begins or ends.
    family: (i32, i32),
    /// Where the new name of a task stands, and its length.
    pub name: (usize, usize),
    is_exec: bool,
}

impl PerfReader<'_> {
    /// The record at `from` as an event, when it is one.
    fn event(&self, from: usize, kind: u32, flags: u16, size: usize) -> Option<PerfEvent> {
        let (trailer_tid, trailer_time) = self.trailer(from, size)?;
        let i32_at = |offset: usize| self.number(from + offset, 4) as u32 as i32;
        let mut event =
            PerfEvent { tid: trailer_tid, time: trailer_time, id: 0, family: (0, 0), name: (0, 0), is_exec: false };
        match kind {
            kind::SWITCH => {
                event.id = match (flags & misc::SWITCH_OUT != 0, flags & misc::SWITCH_PREEMPT != 0) {
                    (false, _) => 200_001,
                    (true, false) => 200_002,
                    (true, true) => 200_007,
                };
            }
            kind::FORK | kind::EXIT if size >= HEADER + 24 => {
                event.id = if kind == kind::FORK { 200_004 } else { 200_005 };
                (event.tid, event.time) = (i32_at(16), self.number(from + 24, 8));
                event.family = (i32_at(8), i32_at(12));
            }
            kind::COMM if size >= HEADER + 8 + TRAILER => {
                event.id = 200_006;
                event.tid = i32_at(12);
                let name = self.bytes.get(from + 16..from + size - TRAILER).unwrap_or(&[]);
                event.name = (from + 16, name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
                event.is_exec = flags & misc::COMM_EXEC != 0;
            }
            _ => return None,
        }
        Some(event)
    }
}

/// Where the next record is, and the one at `at`, when it is an event, or what is wrong with it; `None` at the end.
pub(super) fn next(bytes: &[u8], order: ByteOrder, at: usize) -> Option<(usize, Result<Option<PerfEvent>, Error>)> {
    let reader = PerfReader { bytes, order };
    if at >= bytes.len() {
        return None;
    }
    Some(match reader.header(at) {
        Ok((kind, flags, size)) => (at + size, Ok(reader.event(at, kind, flags, size))),
        Err(error) => {
            let behind = reader.resync_after(at);
            let skipped = match behind - at {
                rest if behind == bytes.len() => format!("the rest of the file, {rest} bytes, is skipped"),
                bytes => format!("{bytes} bytes are skipped"),
            };
            (behind, Err(error.with_help(skipped)))
        }
    })
}

/// Reads the records of a part; those of tasks that were not traced are left out.
pub(super) fn read(
    bytes: &[u8],
    order: ByteOrder,
    part: PerfPart,
    cpu: u32,
    traced: &HashSet<i64>,
    classes: &Classes,
) -> SliceEvents {
    let mut events = SliceEvents::default();
    let mut at = part.from;
    while at < part.to
        && let Some((behind, found)) = next(bytes, order, at)
    {
        at = behind;
        let event = found.unwrap_or_else(|error| {
            events.faults.push(error);
            None
        });
        let Some(event) = event.filter(|event| traced.contains(&i64::from(event.tid))) else { continue };
        let start = events.bytes.len();
        let out = &mut events.bytes;
        out.extend_from_slice(&event.tid.to_le_bytes());
        out.extend_from_slice(&cpu.to_le_bytes());
        out.extend_from_slice(&event.id.to_le_bytes());
        let class = match event.id {
            200_004 | 200_005 => {
                out.extend_from_slice(&event.family.0.to_le_bytes());
                out.extend_from_slice(&event.family.1.to_le_bytes());
                classes.perf_task
            }
            200_006 => {
                let (from, len) = event.name;
                push_locator(out, 21, len);
                out.push(u8::from(event.is_exec));
                out.extend_from_slice(&bytes[from..from + len]);
                classes.perf_name
            }
            _ => classes.perf,
        };
        events.push(class, event.time, start);
    }
    events
}
