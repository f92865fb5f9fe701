//! Keeps the stack of each task while records pass by.
//!
//! The rules are uftrace's. A task's first record says how deep it is; a forked process begins inside of the call that
//! forked it; `exec` starts over; `longjmp` goes back to where the last `setjmp` was; after lost records the next one
//! says the depth. A time without processor counts as a call on the stack.

mod begin;
mod change;
mod fast;
mod names;
mod order;
mod shown;
mod stack;
mod step;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_format::calls::{CallOrigin, CallRecord, CallSource, Findings};

pub(crate) use begin::{between, between_of_all};
pub(crate) use fast::FastStep;
pub(crate) use names::{PREEMPTED, SCHEDULE, Special, special};

pub use change::CallChange;
pub use names::KnownSymbol;
pub use stack::{StackFrame, TaskState};
pub use step::ShownRecord;

use crate::merge::Merged;
use crate::select::CallOptions;
use crate::task_partitions::{Moment, TaskPart};
use begin::first_time;

/// Merges records and follows the calls of all tasks.
pub struct Follower<'a> {
    /// Where the calls come from.
    pub source: &'a dyn CallSource,
    /// Selection of what is shown.
    pub options: CallOptions,
    merged: Merged<'a>,
    ahead: Ahead,
    has_all_tasks: bool,
    /// By index of the task.
    pub tasks: Vec<TaskState>,
    /// Is the task wanted?
    wanted: Vec<bool>,
    /// Index of the parent of each task.
    parents: Vec<Option<usize>>,
    of_any: OfAny,
    known: Vec<Option<KnownSymbol>>,
    /// The tasks that others follow, where this follows a part of them and the system reports all.
    elsewhere: Option<Vec<bool>>,
    is_estimated: bool,
    /// The part of the tasks that this follows, unless it follows all, and what says that all parts must stop.
    part: Option<(&'a TaskPart, &'a AtomicBool)>,
    pub(crate) has_kernel: bool,
    has_system: bool,
    /// Is anything shown now?
    pub is_enabled: bool,
    has_rules: bool,
    /// The times of the records that are wanted, unless all are.
    pub(crate) between: Option<(u64, u64)>,
    /// The smallest time of a record; events outside of all calls do not count unless they are shown.
    pub first_time: u64,
}

/// Records that were read and not followed yet.
#[derive(Default)]
struct Ahead {
    /// Records taken out of the merged ones, and the place of the next of them.
    run: Vec<CallRecord>,
    at: usize,
    /// The record that was looked at last and its stream, where exits are guesses.
    peeked: Option<(usize, CallRecord)>,
}

/// State that counts for all tasks, whichever it comes from.
#[derive(Default)]
struct OfAny {
    /// Display depth and open calls at the last `setjmp`.
    setjmp: (i32, isize),
    /// Time and task of the last record of the system.
    last_system: (u64, u32),
}

impl<'a> Follower<'a> {
    /// Follows a source from its beginning.
    pub fn new(source: &'a dyn CallSource, options: CallOptions) -> Self {
        let first_time = first_time(source, &options);
        let between = between(source, &options);
        let merged = Merged::new(source, &options, between);
        Follower { between, ..Follower::from_merged(source, options, merged, first_time) }
    }

    /// Follows a part of the tasks, while others follow the rest. Where that does not do, `must_stop` is set, and the
    /// records end.
    pub(crate) fn for_part(
        source: &'a dyn CallSource,
        options: CallOptions,
        part: &'a TaskPart,
        between: Option<(u64, u64)>,
        must_stop: &'a AtomicBool,
    ) -> Self {
        let merged = Merged::from_selected(source, part.streams.iter().copied(), &options, between, Some(must_stop));
        let mut follower =
            Follower { between, part: Some((part, must_stop)), ..Follower::from_merged(source, options, merged, None) };
        if let Some(tasks) = &part.tasks {
            let elsewhere = follower.wanted.iter().zip(tasks).map(|(wanted, own)| *wanted && !own).collect();
            for (wanted, own) in follower.wanted.iter_mut().zip(tasks) {
                *wanted &= own;
            }
            follower.elsewhere = Some(elsewhere);
        }
        follower
    }

    /// Says that something was met which only one follower of all tasks can tell.
    #[cold]
    pub(crate) fn want_all(&self) {
        if let Some((_, must_stop)) = self.part {
            must_stop.store(true, Ordering::Relaxed);
        }
    }

    /// Follows records that somebody else reads.
    pub fn detached(source: &'a dyn CallSource, options: CallOptions) -> Self {
        Follower::from_merged(source, options, Merged::empty(), None)
    }

    fn from_merged(
        source: &'a dyn CallSource,
        options: CallOptions,
        merged: Merged<'a>,
        first_time: Option<u64>,
    ) -> Self {
        let state = TaskState {
            max_depth: source.max_depth(),
            depth_left: options.depth,
            depth_limit: options.depth,
            is_display_depth_set: !options.is_disabled && options.range.start == 0,
            ..TaskState::default()
        };
        let tasks = source.tasks();
        let time_filter = options.time_filter;
        // Of tasks with one number the first counts.
        let places: HashMap<i64, usize> = tasks.iter().enumerate().rev().map(|(at, task)| (task.tid, at)).collect();
        Follower {
            has_kernel: merged.has(CallOrigin::Kernel),
            has_system: merged.has(CallOrigin::System),
            merged,
            ahead: Ahead::default(),
            has_all_tasks: options.tids.is_empty(),
            tasks: vec![state; tasks.len()],
            wanted: tasks.iter().map(|task| options.wants_task(task.tid)).collect(),
            parents: tasks
                .iter()
                .map(|task| (task.parent != 0).then(|| places.get(&task.parent).copied()).flatten())
                .collect(),
            is_enabled: !options.is_disabled,
            has_rules: !options.rules.is_empty(),
            between: None,
            source,
            options,
            of_any: OfAny::default(),
            part: None,
            known: Vec::new(),
            elsewhere: None,
            is_estimated: source.is_estimated() && time_filter == 0,
            first_time: first_time.unwrap_or(u64::MAX),
        }
    }

    /// Is there any record of the wanted tasks?
    pub(crate) fn has_records(&mut self) -> bool {
        self.peek().is_some()
    }

    /// The next record, without taking it. It is not yet on the stack.
    #[inline]
    pub fn peek(&mut self) -> Option<CallRecord> {
        if self.is_estimated {
            return self.peek_estimated();
        }
        loop {
            let record = match self.ahead.run.get(self.ahead.at) {
                Some(record) => *record,
                None => {
                    if !self.load() {
                        return None;
                    }
                    continue;
                }
            };
            if self.is_wanted(&record) {
                return Some(record);
            }
            if self.elsewhere.as_ref().is_some_and(|tasks| tasks[record.task as usize]) {
                self.note_system_record(&record);
            }
            self.ahead.at += 1;
        }
    }

    /// Takes the next record and puts it on the stack of its task.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "`Iterator` would offer adapters that lose the follower")]
    pub fn next(&mut self) -> Option<CallRecord> {
        let record = match self.ahead.run.get(self.ahead.at) {
            Some(record) if self.has_all_tasks && self.elsewhere.is_none() => *record,
            _ if self.is_estimated => {
                self.peek_estimated()?;
                return self.take_peeked();
            }
            _ => self.peek()?,
        };
        self.ahead.at += 1;
        self.account(&record);
        Some(record)
    }

    /// Takes the record that [`Follower::peek`] gave last, and puts it on the stack of its task. Where exits are guesses
    /// `next` may take another one: looking at a record moves it.
    pub(crate) fn take_peeked(&mut self) -> Option<CallRecord> {
        let Some((stream, record)) = self.ahead.peeked.take() else { return self.next() };
        self.merged.take_of(stream, record.task);
        self.account(&record);
        Some(record)
    }

    /// May calls take the fast path: is nothing special about any, but for what its task and its name say?
    pub(crate) fn has_fast_path(&self) -> bool {
        let is_special = self.has_rules || self.is_estimated || self.options.no_library_calls;
        self.has_all_tasks && self.is_enabled && !is_special && !self.options.kernel.only
    }

    /// Is it a call to a library, where these are not wanted?
    #[inline]
    pub(crate) fn is_skipped_library_call(&mut self, symbol: u32, address: u64) -> bool {
        self.options.no_library_calls && self.known_symbol(symbol, address).symbol.is_library_call
    }

    /// The next record, when it is ready.
    #[inline]
    pub(crate) fn ready(&self) -> Option<&CallRecord> {
        self.ahead.run.get(self.ahead.at)
    }

    #[inline]
    pub(crate) fn is_wanted(&self, record: &CallRecord) -> bool {
        let takes_all = self.has_all_tasks && self.elsewhere.is_none();
        takes_all || self.wanted.get(record.task as usize).copied().unwrap_or(false)
    }

    /// The system reports a wanted task, of this part or not.
    fn note_system_record(&mut self, record: &CallRecord) {
        let told = (record.time, record.task);
        if told.0 == self.of_any.last_system.0 && told.1 != self.of_any.last_system.1 {
            // Moments do not say which comes first.
            self.want_all();
        }
        self.of_any.last_system = told;
    }

    /// When something of a task was met at a time of the record that was taken last. At equal times what the system reports
    /// comes after what tasks did, as its streams do.
    #[inline]
    pub(crate) fn moment(&self, task: usize, time: u64) -> Moment {
        (time, if self.tasks[task].is_last_of_system { u32::MAX } else { task as u32 })
    }

    pub(crate) fn is_task_wanted(&self, task: usize) -> bool {
        self.wanted.get(task).copied().unwrap_or(false)
    }

    /// When calls of a task without an exit end. uftrace keeps one record for all that the system reports, so a task
    /// that ends with such a record ends with the last one of all tasks.
    ///
    /// Where a stretch of time is wanted, they end with it; that its end may count from the first record is not asked, as
    /// in uftrace.
    pub fn end_of(&self, task: usize) -> u64 {
        if self.options.range.stop > 0 {
            return self.options.range.stop;
        }
        match (self.tasks[task].is_last_of_system, &self.merged.last_read) {
            _ if self.tasks[task].is_in_kernel => self.tasks[task].last_time,
            (true, _) if self.options.time_filter == 0 => self.of_any.last_system.0,
            (false, Some(last_read)) => last_read.borrow()[task],
            _ => self.tasks[task].last_time,
        }
    }

    /// The time of the last record of a task, not later than the end of the wanted stretch.
    pub fn last_of(&self, task: usize) -> u64 {
        match self.options.range.stop {
            0 => self.tasks[task].last_time,
            stop => self.tasks[task].last_time.min(stop),
        }
    }

    /// Damage and warnings of the streams that are at their end.
    pub fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.merged.findings)
    }
}
