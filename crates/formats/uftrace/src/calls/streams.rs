//! The records of tasks, of processors and of other programs, one after the other.

use std::collections::HashMap;
use std::path::Path;

use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;

use super::call;
use crate::classes::EXTERNAL;
use crate::events::{OpenCalls, torn_record, unfounded, wrong_magic};
use crate::layout::MAX_ERRORS;
use crate::records::{Payload, RECORD, Record, RecordKind, RecordStep, TaskBytes};
use crate::{messages, perf};
use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, CallStream, Findings, event_id};

/// Records of a block.
pub(super) const BLOCK: usize = 1024;

/// A finding about a file.
fn place(error: Error, at: usize, path: &Path) -> Error {
    error.at_offset(at as u64).in_file(path)
}

/// The records of a task.
pub(super) struct TaskCalls<'a> {
    pub task: TaskBytes<'a>,
    pub number: u32,
    pub at: usize,
    pub time: u64,
    pub path: &'a Path,
    pub open_calls: OpenCalls,
    /// Where the first values are that cannot be read, and how many are.
    pub unread: Option<(usize, u64)>,
    pub findings: Findings,
}

impl TaskCalls<'_> {
    /// Appends the calls without values that come next, up to `end` records.
    fn plain_calls(&mut self, out: &mut Vec<CallRecord>, end: usize) {
        let bytes = self.task.bytes;
        let rest = bytes.get(self.at..).unwrap_or(&[]);
        for chunk in rest.chunks_exact(RECORD).take(end.saturating_sub(out.len())) {
            let Some(record) = Record::read(chunk, self.task.order).filter(|record| record.is_plain_call()) else {
                return;
            };
            let address = record.address();
            let symbol = self.task.resolver.id(record.time, address);
            let is_exit = record.kind() == RecordKind::Exit;
            if self.open_calls.is_unfounded(record.depth(), is_exit) {
                self.findings.warnings.push(place(unfounded(record.depth()), self.at, self.path));
            }
            self.time = record.time;
            self.at += RECORD;
            out.push(CallRecord { address, ..call(record, symbol, self.number) });
        }
    }
}

impl CallStream for TaskCalls<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let end = out.len() + BLOCK;
        out.reserve(BLOCK);
        while out.len() < end {
            self.plain_calls(out, end);
            if out.len() >= end {
                break;
            }
            match self.task.step(self.at, self.time) {
                RecordStep::Record { record, symbol, payload, next } => {
                    let mut found = call(record, symbol, self.number);
                    if found.kind != CallKind::Lost {
                        self.time = record.time;
                    }
                    match payload {
                        Payload::None => {}
                        Payload::Values { from, len, .. } | Payload::Data { from, len } => {
                            (found.values, found.values_len, found.has_values) = (from as u64, len as u32, true);
                        }
                        Payload::Unknown | Payload::Torn => self.unread.get_or_insert((self.at, 0)).1 += 1,
                    }
                    match found.kind {
                        CallKind::Entry | CallKind::Exit => {
                            let is_exit = found.kind == CallKind::Exit;
                            if self.open_calls.is_unfounded(record.depth(), is_exit) {
                                self.findings.warnings.push(place(unfounded(record.depth()), self.at, self.path));
                            }
                        }
                        CallKind::Lost => self.open_calls.forget(),
                        CallKind::Event => {}
                    }
                    out.push(found);
                    self.at = next;
                }
                RecordStep::Bad { magic } => {
                    self.open_calls.forget();
                    let next = self.task.resume(self.at + 8, self.time, usize::MAX);
                    let end = next.unwrap_or(self.task.bytes.len());
                    if self.findings.faults.len() < MAX_ERRORS {
                        let error = wrong_magic(magic, end - self.at, next.map(|next| next as u64));
                        self.findings.faults.push(place(error, self.at, self.path));
                    }
                    self.at = end;
                }
                RecordStep::Torn => {
                    let left = self.task.bytes.len().saturating_sub(self.at);
                    if left > 0 {
                        self.findings.faults.push(place(torn_record(left), self.at, self.path));
                    }
                    if let Some((at, count)) = self.unread {
                        let message = format!("the values of {count} calls and events cannot be read");
                        let error = Error::malformed(message).with_help("they are left out");
                        self.findings.faults.push(place(error, at, self.path));
                    }
                    return false;
                }
            }
        }
        true
    }

    fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }
}

/// The records of a processor.
pub(super) struct PerfCalls<'a> {
    pub bytes: &'a [u8],
    pub cpu: Option<u16>,
    pub order: ByteOrder,
    pub numbers: &'a HashMap<i64, u32>,
    pub at: usize,
    /// Where reading ends.
    pub end: usize,
    pub file: u64,
    pub path: &'a Path,
    pub findings: Findings,
}

impl CallStream for PerfCalls<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let end = out.len() + BLOCK;
        while out.len() < end {
            let ahead = if self.at < self.end { perf::next(self.bytes, self.order, self.at) } else { None };
            let Some((next, found)) = ahead else { return false };
            self.at = next;
            let found = found.unwrap_or_else(|error| {
                self.findings.faults.push(error.in_file(self.path));
                None
            });
            let Some(found) = found else { continue };
            let Some(&task) = self.numbers.get(&i64::from(found.tid)) else { continue };
            let (from, len) = found.name;
            let id = u64::from(found.id);
            out.push(CallRecord {
                values: from as u64 | self.file << 48,
                values_len: len as u32,
                has_values: id == event_id::TASK_NAME,
                cpu: self.cpu,
                ..CallRecord::new(found.time, task, CallKind::Event, CallOrigin::System, id)
            });
        }
        true
    }

    fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }
}

/// The messages of other programs.
pub(super) struct MessageCalls {
    pub messages: std::vec::IntoIter<messages::Message>,
}

impl CallStream for MessageCalls {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        out.extend(self.messages.by_ref().map(|message| CallRecord {
            values: message.from as u64,
            values_len: (message.to - message.from) as u32,
            has_values: true,
            ..CallRecord::new(message.time, 0, CallKind::Event, CallOrigin::Outside, u64::from(EXTERNAL))
        }));
        false
    }
}
