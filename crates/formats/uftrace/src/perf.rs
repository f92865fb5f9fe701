//! `perf-cpuN.dat`: raw records of the kernel's perf ring, for scheduling, new tasks and their names (`SPEC.md`,
//! section 7).

use std::collections::HashSet;

use tracemill_codec::bits::read_uint;
use tracemill_ftrace::classes::push_locator;
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;

use super::classes::Classes;
use super::layout::Events;

/// Bytes of a record's header: type, flags, size.
const HEADER: usize = 8;
/// Bytes that end every record: process, task, time.
const TRAILER: usize = 16;

/// Types of records.
mod kind {
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const FORK: u32 = 7;
    pub(super) const SWITCH: u32 = 14;
}

/// Flags of records.
const SWITCH_OUT: u16 = 0x2000;
const SWITCH_OUT_PREEMPT: u16 = 0x4000;
const COMM_EXEC: u16 = 0x2000;

/// A part of the file, with the times of its first and last record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub from: usize,
    pub to: usize,
    pub begin: u64,
    pub end: u64,
}

/// Bytes of a part, about.
const PART: usize = 256 << 10;

struct Reader<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl Reader<'_> {
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
pub(super) fn cut(bytes: &[u8], order: ByteOrder) -> Vec<Part> {
    let reader = Reader { bytes, order };
    let mut parts = Vec::new();
    let mut part = Part { from: 0, to: 0, begin: u64::MAX, end: 0 };
    let mut at = 0;
    while at < bytes.len() {
        let Ok((kind, _, size)) = reader.header(at) else { break };
        if let Some(time) = reader.time(at, kind, size) {
            if at - part.from >= PART && part.begin != u64::MAX && time >= part.end {
                parts.push(Part { to: at, ..part });
                part = Part { from: at, to: at, begin: u64::MAX, end: 0 };
            }
            part = Part { begin: part.begin.min(time), end: part.end.max(time), ..part };
        }
        at += size;
    }
    // What is damaged belongs to the last part.
    if part.from < bytes.len() {
        let begin = if part.begin == u64::MAX { part.end } else { part.begin };
        parts.push(Part { to: bytes.len(), begin, ..part });
    }
    parts
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

impl Reader<'_> {
    /// The record at `from` as an event, when it is one.
    fn event(&self, from: usize, kind: u32, flags: u16, size: usize) -> Option<PerfEvent> {
        let (trailer_tid, trailer_time) = self.trailer(from, size)?;
        let i32_at = |offset: usize| self.number(from + offset, 4) as u32 as i32;
        let mut event =
            PerfEvent { tid: trailer_tid, time: trailer_time, id: 0, family: (0, 0), name: (0, 0), is_exec: false };
        match kind {
            kind::SWITCH => {
                event.id = match (flags & SWITCH_OUT != 0, flags & SWITCH_OUT_PREEMPT != 0) {
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
                event.is_exec = flags & COMM_EXEC != 0;
            }
            _ => return None,
        }
        Some(event)
    }
}

/// The record at `at`, when it is an event, and where the next one is; `None` at the end.
pub(super) fn next(bytes: &[u8], order: ByteOrder, at: usize) -> Option<Result<(usize, Option<PerfEvent>), Error>> {
    let reader = Reader { bytes, order };
    if at >= bytes.len() {
        return None;
    }
    let header = reader.header(at);
    Some(header.map(|(kind, flags, size)| (at + size, reader.event(at, kind, flags, size))))
}

/// Reads the records of a part; those of tasks that were not traced are left out.
pub(super) fn read(
    bytes: &[u8],
    order: ByteOrder,
    part: Part,
    cpu: u32,
    traced: &HashSet<i64>,
    classes: &Classes,
) -> Events {
    let mut events = Events::default();
    let mut at = part.from;
    while let Some(found) = next(&bytes[..part.to], order, at) {
        let event = match found {
            Ok((behind, event)) => {
                at = behind;
                event
            }
            Err(error) => {
                let left = part.to - at;
                events.faults.push(error.with_help(format!("the rest of the file, {left} bytes, is skipped")));
                break;
            }
        };
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
