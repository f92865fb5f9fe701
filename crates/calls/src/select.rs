//! Which calls are wanted.

use std::collections::VecDeque;

use tracemill_formats::calls::{CallKind, CallRecord, CallStream, Findings, event_id};

use crate::merge::is_sched_out;

/// Options of all commands that follow calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// Deepest calls that are shown, counted from 1 (`-D`).
    pub depth: i32,
    /// Only calls that take this many ns, and what they are inside of (`-t`); 0 for all.
    pub time_filter: u64,
    /// Only these tasks (`--tid`); empty for all.
    pub tids: Vec<i64>,
    /// Leave out calls to libraries (`--no-libcall`).
    pub no_library_calls: bool,
    /// Leave out events (`--no-event`).
    pub no_events: bool,
    /// Show events outside of all functions too (`--event-full`).
    pub all_events: bool,
}

impl Default for CallOptions {
    fn default() -> Self {
        CallOptions {
            depth: 1024,
            time_filter: 0,
            tids: Vec::new(),
            no_library_calls: false,
            no_events: false,
            all_events: false,
        }
    }
}

/// Passes on the calls that take long enough, with all that they are inside of, and the events around them.
///
/// An entry waits for the exit that decides about it.
pub(crate) struct TimeFilter<'a> {
    stream: Box<dyn CallStream + 'a>,
    threshold: u64,
    block: VecDeque<CallRecord>,
    is_at_end: bool,
    /// Records that wait.
    waiting: Vec<CallRecord>,
}

impl<'a> TimeFilter<'a> {
    pub(crate) fn new(stream: Box<dyn CallStream + 'a>, threshold: u64) -> Self {
        TimeFilter { stream, threshold, block: VecDeque::new(), is_at_end: false, waiting: Vec::new() }
    }

    fn next(&mut self) -> Option<CallRecord> {
        while self.block.is_empty() && !self.is_at_end {
            let mut records = Vec::new();
            self.is_at_end = !self.stream.fill(&mut records);
            self.block.extend(records);
        }
        self.block.pop_front()
    }

    /// Takes a record; true when all that waits can go on.
    fn take(&mut self, record: CallRecord) -> bool {
        match record.kind {
            CallKind::Entry => {
                self.waiting.push(record);
                false
            }
            CallKind::Exit => {
                let entry = self.waiting.iter().rposition(|waiting| waiting.kind == CallKind::Entry);
                match entry {
                    Some(at) if record.time.wrapping_sub(self.waiting[at].time) < self.threshold => {
                        self.waiting.truncate(at);
                        false
                    }
                    _ => {
                        self.waiting.push(record);
                        true
                    }
                }
            }
            CallKind::Lost => {
                self.waiting.push(record);
                true
            }
            CallKind::Event => {
                self.waiting.push(record);
                record.address >= event_id::FIRST_USER
            }
        }
    }
}

impl CallStream for TimeFilter<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        while let Some(record) = self.next() {
            if self.take(record) {
                out.append(&mut self.waiting);
                return true;
            }
        }
        out.append(&mut self.waiting);
        false
    }

    fn take_findings(&mut self) -> Findings {
        self.stream.take_findings()
    }
}

/// Leaves out where a task gives its processor away for less than the threshold.
pub(crate) struct SchedFilter<'a> {
    stream: Box<dyn CallStream + 'a>,
    threshold: u64,
    /// Records behind a task's giving away, whose end decides.
    waiting: VecDeque<(CallRecord, bool)>,
}

impl<'a> SchedFilter<'a> {
    pub(crate) fn new(stream: Box<dyn CallStream + 'a>, threshold: u64) -> Self {
        SchedFilter { stream, threshold, waiting: VecDeque::new() }
    }

    fn take(&mut self, record: CallRecord) {
        if record.kind == CallKind::Event && record.address == event_id::SCHED_IN {
            let is_open = |(waiting, is_open): &(CallRecord, bool)| *is_open && waiting.task == record.task;
            if let Some(at) = self.waiting.iter().rposition(is_open) {
                if record.time.wrapping_sub(self.waiting[at].0.time) < self.threshold {
                    self.waiting.remove(at);
                    return;
                }
                self.waiting[at].1 = false;
            }
        }
        self.waiting.push_back((record, is_sched_out(&record)));
    }
}

impl CallStream for SchedFilter<'_> {
    fn fill(&mut self, out: &mut Vec<CallRecord>) -> bool {
        let mut records = Vec::new();
        let goes_on = self.stream.fill(&mut records);
        for record in records {
            self.take(record);
        }
        while self.waiting.front().is_some_and(|(_, is_open)| !is_open || !goes_on) {
            out.extend(self.waiting.pop_front().map(|(record, _)| record));
        }
        goes_on
    }

    fn take_findings(&mut self) -> Findings {
        self.stream.take_findings()
    }
}
