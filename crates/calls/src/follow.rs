//! Keeps the stack of each task while records pass by.
//!
//! The rules are uftrace's. A task's first record tells how deep it is; a forked process begins inside of the call that
//! forked it; `exec` begins anew; `longjmp` goes back to where the last `setjmp` was; behind lost records the next one
//! says the depth. A time without processor counts as a call on the stack.

use std::borrow::Cow;
use std::rc::Rc;

use tracemill_formats::calls::{CallKind, CallOrigin, CallRecord, CallSource, CallSymbol, Findings, event_id};

use crate::merge::{Merged, is_sched_out};
use crate::rules::{Filter, Rule};
use crate::select::CallOptions;

/// A place on a stack. It keeps what it held when the call is over, until the next call takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Address of the function, or the id of an event; 0 when nothing was there yet.
    pub address: u64,
    /// While the call is open: when it began. Then: how long it took, in ns.
    pub time: u64,
    /// Ns that its callees took.
    pub child_time: u64,
    /// Symbol of the address.
    pub symbol: u32,
    /// Is the call open?
    pub is_open: bool,
    /// Is the call left out?
    pub is_hidden: bool,
    /// Is it one of the kernel's?
    pub is_kernel: bool,
    /// What calls of special functions do.
    jump: Jump,
    /// What a filter did at the call.
    filter: Option<Filter>,
    /// Depth that was left when it was entered.
    depth_left: i32,
}

/// Functions that do not simply return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Jump {
    #[default]
    None,
    /// The program begins anew.
    Exec,
    /// Back to the last `setjmp`.
    Longjmp,
}

/// What the name of a function says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    None,
    Exec,
    Setjmp,
    Longjmp,
    Fork,
}

/// What is known of a symbol id.
#[derive(Clone, Debug)]
pub struct Known {
    /// The symbol.
    pub symbol: Rc<CallSymbol>,
    special: Special,
}

/// The state of a task.
#[derive(Clone, Debug, Default)]
pub struct TaskState {
    frames: Vec<Frame>,
    max_depth: usize,
    /// Open calls, events included; negative behind some lost records.
    pub stack_count: isize,
    /// Open calls of the task's own records.
    pub user_stack_count: isize,
    /// How far lines are indented.
    pub display_depth: i32,
    is_display_depth_set: bool,
    fork_display_depth: i32,
    is_begun: bool,
    has_lost: bool,
    /// Was its last call one of the kernel's?
    is_in_kernel: bool,
    /// The stream that told that it has no processor.
    waits_in: Option<usize>,
    depth_left: i32,
    /// Open calls of functions that filters name, to be shown and to be left out.
    in_count: i32,
    out_count: i32,
    /// Was it made to give its processor away, last?
    was_preempted: bool,
    /// Depth that is left outside of all calls.
    depth_limit: i32,
    /// Where exits are guesses: when the next entry is, and the last exit that was moved.
    next_entry: u64,
    last_moved: u64,
    /// The time of the exit that waits for the end of a time without processor.
    guessed: u64,
    /// Time of its last record.
    last_time: u64,
    /// Was that one of the system's?
    is_last_of_system: bool,
}

impl TaskState {
    /// A place of the stack, `None` outside of it.
    #[inline]
    pub fn frame(&mut self, at: isize) -> Option<&mut Frame> {
        let at = usize::try_from(at).ok().filter(|&at| at < self.max_depth)?;
        if at >= self.frames.len() {
            self.frames.resize(at + 1, Frame { depth_left: self.depth_limit, ..Frame::default() });
        }
        self.frames.get_mut(at)
    }

    /// Puts a call of the task itself on the stack, when nothing is special about the task and there is room; false
    /// when it was left to others.
    #[inline]
    fn account_plain(&mut self, record: &CallRecord) -> bool {
        let is_plain = self.is_begun & !self.has_lost & !self.is_in_kernel;
        let Ok(count) = usize::try_from(self.stack_count) else { return false };
        if !is_plain || count >= self.frames.len() {
            return false;
        }
        if record.kind == CallKind::Entry {
            let frame = &mut self.frames[count];
            (frame.address, frame.symbol, frame.time, frame.child_time) =
                (record.address, record.symbol, record.time, 0);
            (frame.is_open, frame.is_kernel) = (true, false);
            self.stack_count += 1;
            self.user_stack_count += 1;
        } else {
            let Some(below) = count.checked_sub(1) else { return false };
            let frame = &mut self.frames[below];
            let taken = if frame.is_open { record.time.wrapping_sub(frame.time) } else { 0 };
            frame.is_open = false;
            (frame.time, frame.child_time) = (taken, frame.child_time.min(taken));
            if let Some(parent) = below.checked_sub(1).and_then(|parent| self.frames.get_mut(parent)) {
                parent.child_time = parent.child_time.wrapping_add(taken);
            }
            self.stack_count -= 1;
            self.user_stack_count -= isize::from(self.user_stack_count > 0);
        }
        self.last_time = record.time;
        self.is_last_of_system = false;
        true
    }

    /// The places from the first up to `count`.
    #[inline]
    pub fn below(&self, count: isize) -> &[Frame] {
        let count = usize::try_from(count).unwrap_or(0).min(self.frames.len());
        &self.frames[..count]
    }
}

/// What was done with a call without going through all that may be special about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    /// It was entered and left at once, and took so long.
    Leaf(u64),
    /// It was entered; another call follows in it.
    Entered,
    /// One was left that took so long.
    Left(u64),
}

/// Merges records and follows the calls of all tasks.
pub struct Follower<'a> {
    /// Where the calls come from.
    pub source: &'a dyn CallSource,
    /// What is wanted.
    pub options: CallOptions,
    merged: Merged<'a>,
    /// Records that are taken out of `merged`, and which of them is the next.
    run: Vec<CallRecord>,
    run_at: usize,
    /// The record that was looked at last and its stream, where exits are guesses.
    peeked: Option<(usize, CallRecord)>,
    has_all_tasks: bool,
    /// By index of the task.
    pub tasks: Vec<TaskState>,
    /// Is the task wanted?
    wanted: Vec<bool>,
    /// Index of the parent of each task.
    parents: Vec<Option<usize>>,
    /// Display depth and open calls at the last `setjmp`, of any task.
    setjmp: (i32, isize),
    known: Vec<Option<Known>>,
    /// Time of the last record of the system, of any task.
    last_system_time: u64,
    is_estimated: bool,
    pub(crate) has_kernel: bool,
    /// Is anything shown now?
    pub is_enabled: bool,
    has_rules: bool,
    /// The times of the records that are wanted, unless all are.
    pub(crate) between: Option<(u64, u64)>,
    /// The smallest time of a record; events outside of all calls do not count unless they are shown.
    pub first_time: u64,
}

impl<'a> Follower<'a> {
    /// Follows a source from its beginning.
    pub fn new(source: &'a dyn CallSource, options: CallOptions) -> Self {
        let first_time = first_time(source, &options);
        let between = between(source, &options);
        let merged = Merged::new(source, &options, between);
        Follower { between, ..Follower::of(source, options, merged, first_time) }
    }

    /// Follows records that somebody else reads.
    pub fn detached(source: &'a dyn CallSource, options: CallOptions) -> Self {
        Follower::of(source, options, Merged::empty(), None)
    }

    fn of(source: &'a dyn CallSource, options: CallOptions, merged: Merged<'a>, first_time: Option<u64>) -> Self {
        let state = TaskState {
            max_depth: source.max_depth(),
            depth_left: options.depth,
            depth_limit: options.depth,
            is_display_depth_set: !options.is_disabled && options.range.start == 0,
            ..TaskState::default()
        };
        let tasks = source.tasks();
        let time_filter = options.time_filter;
        let parent = |pid: i64| tasks.iter().position(|task| task.tid == pid);
        Follower {
            has_kernel: merged.has_kernel(),
            merged,
            run: Vec::new(),
            run_at: 0,
            peeked: None,
            has_all_tasks: options.tids.is_empty(),
            tasks: vec![state; tasks.len()],
            wanted: tasks.iter().map(|task| options.tids.is_empty() || options.tids.contains(&task.tid)).collect(),
            parents: tasks.iter().map(|task| (task.parent != 0).then(|| parent(task.parent)).flatten()).collect(),
            is_enabled: !options.is_disabled,
            has_rules: !options.rules.is_empty(),
            between: None,
            source,
            options,
            setjmp: (0, 0),
            known: Vec::new(),
            last_system_time: 0,
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
            let record = match self.run.get(self.run_at) {
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
            self.run_at += 1;
        }
    }

    /// Takes the next record and puts it on the stack of its task.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "`Iterator` would offer adapters that lose the follower")]
    pub fn next(&mut self) -> Option<CallRecord> {
        let record = match self.run.get(self.run_at) {
            Some(record) if self.has_all_tasks => *record,
            _ if self.is_estimated => {
                self.peek_estimated()?;
                return self.take_peeked();
            }
            _ => self.peek()?,
        };
        self.run_at += 1;
        self.account(&record);
        Some(record)
    }

    /// Takes the record that [`Follower::peek`] gave last, and puts it on the stack of its task. Where exits are guesses
    /// `next` may take another one: looking at a record moves it.
    pub(crate) fn take_peeked(&mut self) -> Option<CallRecord> {
        let Some((stream, record)) = self.peeked.take() else { return self.next() };
        self.merged.take_of(stream, record.task);
        self.account(&record);
        Some(record)
    }

    /// Is nothing special about any call, but for what its task and its name say?
    pub(crate) fn is_plain(&self) -> bool {
        let is_special = self.has_rules || self.is_estimated || self.options.no_library_calls;
        self.has_all_tasks && self.is_enabled && !is_special && !self.options.only_kernel
    }

    /// Is it a call to a library, where these are not wanted?
    #[inline]
    pub(crate) fn is_skipped_library_call(&mut self, symbol: u32, address: u64) -> bool {
        self.options.no_library_calls && self.known(symbol, address).symbol.is_library_call
    }

    /// The next record, when it is ready.
    #[inline]
    pub(crate) fn ready(&self) -> Option<&CallRecord> {
        self.run.get(self.run_at)
    }

    /// Takes the next record, and the one behind it when they are a leaf, where [`Follower::is_plain`] holds and the
    /// function is none of those that do not simply return; `None`, and nothing is taken, when something else is special.
    /// It is what `next`, `enter`, `entered`, `left_call`, `leaving` and `left` do together. With it goes the indentation.
    #[inline]
    pub(crate) fn take_plain(&mut self) -> Option<(Plain, i32)> {
        let record = self.run.get(self.run_at)?;
        let task = self.tasks.get_mut(record.task as usize)?;
        let is_plain = task.is_begun & !task.has_lost & !task.is_in_kernel & task.is_display_depth_set;
        if !is_plain || task.out_count > 0 || record.origin != CallOrigin::Task {
            return None;
        }
        let count = usize::try_from(task.stack_count).ok()?;
        let depth = task.display_depth;
        let plain = if record.kind == CallKind::Entry {
            let next = self.run.get(self.run_at + 1).filter(|next| next.task == record.task)?;
            // A call that is too deep, or whose first callee is, may be left out.
            if next.origin != CallOrigin::Task || task.depth_left < 2 {
                return None;
            }
            let (below, from) = task.frames.split_at_mut_checked(count)?;
            let frame = from.first_mut()?;
            let is_leaf = match next.kind {
                CallKind::Entry => false,
                CallKind::Exit
                    if (next.depth, next.symbol) == (record.depth, record.symbol)
                        && !next.has_values
                        && next.time >= record.time =>
                {
                    true
                }
                _ => return None,
            };
            *frame = Frame {
                address: record.address,
                time: record.time,
                symbol: record.symbol,
                is_open: !is_leaf,
                depth_left: task.depth_left,
                ..Frame::default()
            };
            if is_leaf {
                let taken = next.time.wrapping_sub(record.time);
                frame.time = taken;
                if let Some(parent) = below.last_mut() {
                    parent.child_time = parent.child_time.wrapping_add(taken);
                }
                task.user_stack_count = task.user_stack_count.max(0);
                task.last_time = next.time;
                self.run_at += 2;
                Plain::Leaf(taken)
            } else {
                task.depth_left -= 1;
                task.stack_count += 1;
                task.user_stack_count += 1;
                task.display_depth += 1;
                task.last_time = record.time;
                self.run_at += 1;
                Plain::Entered
            }
        } else if record.kind == CallKind::Exit {
            let (below, from) = task.frames.split_at_mut_checked(count.checked_sub(1)?)?;
            let frame = from.first_mut()?;
            if !frame.is_open || frame.is_hidden || frame.filter.is_some() {
                return None;
            }
            let taken = record.time.wrapping_sub(frame.time);
            (frame.is_open, frame.time, frame.child_time) = (false, taken, frame.child_time.min(taken));
            if let Some(parent) = below.last_mut() {
                parent.child_time = parent.child_time.wrapping_add(taken);
            }
            task.depth_left = frame.depth_left;
            task.stack_count -= 1;
            task.user_stack_count -= isize::from(task.user_stack_count > 0);
            task.display_depth = (depth - 1).max(0);
            task.last_time = record.time;
            self.run_at += 1;
            Plain::Left(taken)
        } else {
            return None;
        };
        task.is_last_of_system = false;
        Some((plain, depth))
    }

    /// Makes the next records ready; false at the end.
    fn load(&mut self) -> bool {
        self.run.clear();
        self.run_at = 0;
        if self.is_estimated {
            // What is next depends on the stacks, so nothing is taken before it is asked for.
            return self.merged.peek().is_some();
        } else if self.has_kernel {
            let next = self.next_with_kernel();
            self.run.extend(next);
        } else {
            self.merged.take_run(&mut self.run);
        }
        !self.run.is_empty()
    }

    /// The next record where the kernel has records too. What it does for a task that has no processor tells that the
    /// task has one again, before the system says so.
    fn next_with_kernel(&mut self) -> Option<CallRecord> {
        let next = self.merged.peek()?;
        if next.origin == CallOrigin::Kernel {
            let task = if next.kind == CallKind::Event { next.symbol.wrapping_sub(1) } else { next.task };
            let waits_in = self.tasks.get(task as usize).and_then(|task| task.waits_in);
            let time = next.time.saturating_sub(1);
            if let Some(record) = waits_in.and_then(|stream| self.merged.take_sched_in(stream, task, time)) {
                self.tasks[task as usize].waits_in = None;
                return Some(record);
            }
        }
        if next.origin == CallOrigin::System {
            let waits_in = &mut self.tasks[next.task as usize].waits_in;
            if is_sched_out(&next) {
                *waits_in = Some(self.merged.current());
            } else if next.address == event_id::SCHED_IN {
                *waits_in = None;
            }
        }
        self.merged.next()
    }

    /// The next record where exits are guesses, without taking it. As in uftrace each look at one counts: an exit that was
    /// moved and what follows it are a nanosecond later every time.
    fn peek_estimated(&mut self) -> Option<CallRecord> {
        loop {
            self.merged.choose();
            let mut next = self.merged.peek()?;
            let stream = self.merged.current();
            if !self.is_wanted(&next) {
                self.merged.take_of(stream, next.task);
                continue;
            }
            match next.origin {
                CallOrigin::Task => {
                    let task = &mut self.tasks[next.task as usize];
                    if next.time == u64::MAX {
                        // The end of the time without processor is not there. The peer leaves the exit at the end of all
                        // times.
                        next.time = task.guessed;
                    }
                    if task.last_moved > 0 && next.kind == CallKind::Exit && next.time <= task.last_moved {
                        task.last_moved += 1;
                        next.time = task.last_moved;
                    } else {
                        (task.last_moved, task.next_entry) = (0, 0);
                    }
                }
                CallOrigin::System => self.move_exit(&next),
                CallOrigin::Kernel | CallOrigin::Outside => {}
            }
            self.peeked = Some((stream, next));
            return Some(next);
        }
    }

    /// Moves the next exit of a task, which is a guess, behind the time without processor that it lies in.
    fn move_exit(&mut self, next: &CallRecord) {
        let at = next.task as usize;
        let count = self.tasks[at].stack_count;
        if count <= 0 || !(is_sched_out(next) || next.address == event_id::SCHED_IN) {
            return;
        }
        let Some(own) = self.merged.own_head(next.task) else { return };
        let task = &mut self.tasks[at];
        if own.kind == CallKind::Entry {
            task.next_entry = 0;
            return;
        }
        let is_in = next.address == event_id::SCHED_IN;
        let Some(frame) = task.frame(if is_in && count >= 2 { count - 2 } else { count - 1 }) else { return };
        let (address, entered) = (frame.address, frame.time);
        if address != own.address {
            return;
        }
        own.time = if !is_in {
            if task.next_entry == 0 {
                task.next_entry = own.time.wrapping_mul(2).wrapping_sub(entered);
            }
            if own.time != u64::MAX {
                task.guessed = own.time;
            }
            u64::MAX
        } else {
            if task.last_moved <= next.time {
                task.last_moved = next.time.wrapping_add(task.next_entry) / 2;
            }
            task.last_moved
        };
    }

    #[inline]
    pub(crate) fn is_wanted(&self, record: &CallRecord) -> bool {
        self.has_all_tasks || self.wanted.get(record.task as usize).copied().unwrap_or(false)
    }

    pub(crate) fn is_task_wanted(&self, task: usize) -> bool {
        self.wanted.get(task).copied().unwrap_or(false)
    }

    /// When the calls of a task end that nobody left. uftrace keeps one record for all that the system tells, so a task
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
            (true, _) if self.options.time_filter == 0 => self.last_system_time,
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

    /// Closes the call on top of a task at `last`: what it was, unless it began later or was none.
    pub fn close(&mut self, task: usize, last: u64) -> Option<Frame> {
        let task = &mut self.tasks[task];
        task.stack_count -= 1;
        let count = task.stack_count;
        let frame = task.frame(count)?;
        if frame.address == 0 || frame.time > last {
            return None;
        }
        frame.time = (last - frame.time).max(frame.child_time);
        let frame = *frame;
        if let Some(parent) = task.frame(count - 1) {
            parent.child_time = parent.child_time.wrapping_add(frame.time);
        }
        Some(frame)
    }

    /// Is a call that is closed at the end one that is not shown, because of who made it: the kernel outside of all
    /// functions, or the task when only the kernel is wanted?
    pub(crate) fn is_outside(&self, task: usize, frame: &Frame) -> bool {
        let is_of_kernel = frame.is_kernel && !self.options.all_kernel && self.tasks[task].user_stack_count == 0;
        is_of_kernel || self.options.only_kernel && !frame.is_kernel
    }

    /// What was wrong with the streams that are at their end.
    pub fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.merged.findings)
    }

    /// Is the record one that the options want, once it was taken?
    #[inline]
    pub fn is_shown(&mut self, record: &CallRecord) -> bool {
        self.is_seen(record) && (record.kind != CallKind::Event || self.is_event_wanted(record))
    }

    /// Is a record looked at? What is not changes nothing but the stack.
    #[inline]
    pub(crate) fn is_seen(&self, record: &CallRecord) -> bool {
        if record.kind == CallKind::Lost {
            return true;
        }
        match record.origin {
            CallOrigin::Kernel => self.options.all_kernel || self.tasks[record.task as usize].user_stack_count > 0,
            _ => !self.options.only_kernel,
        }
    }

    fn is_event_wanted(&mut self, record: &CallRecord) -> bool {
        let task = &mut self.tasks[record.task as usize];
        let is_outside = task.user_stack_count == 0;
        if self.options.no_events || is_outside && !self.options.all_events {
            return false;
        }
        let is_preemption = record.address == event_id::SCHED_OUT_PREEMPTED;
        let is_sched = is_preemption || matches!(record.address, event_id::SCHED_IN | event_id::SCHED_OUT);
        if self.options.no_sched && is_sched {
            return false;
        }
        if self.options.no_preemptions {
            if is_preemption {
                task.was_preempted = true;
                return false;
            }
            if record.address == event_id::SCHED_IN && std::mem::take(&mut task.was_preempted) {
                return false;
            }
        }
        true
    }

    /// What is known of the symbol of an address.
    pub fn known(&mut self, symbol: u32, address: u64) -> Known {
        let at = symbol as usize;
        if let Some(Some(known)) = self.known.get(at) {
            return known.clone();
        }
        let mut found = self.source.symbol(symbol, address);
        let is_event = symbol == 0 || found.name.starts_with('<');
        if let Cow::Owned(escaped) = self.options.ink.escaped(&found.name) {
            found.name = escaped;
        }
        if is_event {
            match address {
                event_id::SCHED_IN | event_id::SCHED_OUT | event_id::SCHED_BOTH => found.name = SCHEDULE.into(),
                event_id::SCHED_OUT_PREEMPTED | event_id::SCHED_BOTH_PREEMPTED => found.name = PREEMPTED.into(),
                _ => {}
            }
        }
        let known = Known { special: special(&found.name), symbol: Rc::new(found) };
        // Addresses without symbol share the ids of their modules: their names differ.
        if is_event {
            return known;
        }
        if self.known.len() <= at {
            self.known.resize(at + 1, None);
        }
        self.known[at] = Some(known.clone());
        known
    }

    /// Is the symbol one whose name says all about its calls, and whose calls simply return?
    pub(crate) fn simply_returns(&mut self, symbol: u32, address: u64) -> bool {
        symbol > 0
            && self.known(symbol, address).special == Special::None
            && matches!(self.known.get(symbol as usize), Some(Some(_)))
    }

    #[inline]
    fn special(&mut self, symbol: u32, address: u64) -> Special {
        match self.known.get(symbol as usize) {
            Some(Some(known)) => known.special,
            _ if symbol == 0 => Special::None,
            _ => self.known(symbol, address).special,
        }
    }

    /// The record as the call that it means for the stack: a time without processor is one.
    #[inline]
    fn as_call(record: &CallRecord) -> Option<(CallKind, u16)> {
        if record.kind != CallKind::Event {
            return Some((record.kind, record.depth));
        }
        match record.address {
            event_id::SCHED_IN => Some((CallKind::Exit, 0)),
            event_id::SCHED_OUT | event_id::SCHED_OUT_PREEMPTED => Some((CallKind::Entry, 0)),
            _ => None,
        }
    }

    /// Puts a record on the stack.
    #[inline]
    pub(crate) fn account(&mut self, record: &CallRecord) {
        let at = record.task as usize;
        let is_call = matches!(record.kind, CallKind::Entry | CallKind::Exit);
        if is_call && record.origin == CallOrigin::Task && self.tasks[at].account_plain(record) {
            self.first_time = self.first_time.min(record.time);
            return;
        }
        self.account_any(at, record);
    }

    /// Puts any record on the stack.
    fn account_any(&mut self, at: usize, record: &CallRecord) {
        self.tasks[at].last_time = record.time;
        self.tasks[at].is_last_of_system = record.origin == CallOrigin::System;
        match record.origin {
            CallOrigin::System => self.last_system_time = record.time,
            CallOrigin::Task | CallOrigin::Kernel | CallOrigin::Outside => {}
        }
        let is_kernel = record.origin == CallOrigin::Kernel;
        if record.time < self.first_time && record.kind != CallKind::Lost {
            let is_event = record.kind == CallKind::Event;
            let is_outside = (is_event || is_kernel) && self.tasks[at].stack_count == 0;
            let is_wanted = if is_kernel { self.options.all_kernel } else { self.options.all_events };
            if !is_outside || is_wanted {
                self.first_time = record.time;
            }
        }
        let Some((kind, depth)) = Self::as_call(record) else { return };
        if !self.tasks[at].is_begun || self.tasks[at].has_lost {
            if self.tasks[at].has_lost && self.tasks[at].is_begun && kind == CallKind::Lost {
                return self.count(at, kind, record);
            }
            self.begin(at, kind, depth, record.time, is_kernel && kind != CallKind::Lost);
        }
        let task = &mut self.tasks[at];
        if task.is_in_kernel && record.origin == CallOrigin::Task && kind != CallKind::Lost {
            // What the kernel did not leave is over.
            task.stack_count = task.user_stack_count;
            task.depth_left = self.options.depth - i32::try_from(task.stack_count).unwrap_or(0);
        }
        match kind {
            CallKind::Entry => {
                let count = task.stack_count;
                if let Some(frame) = task.frame(count) {
                    frame.address = record.address;
                    frame.symbol = record.symbol;
                    frame.time = record.time;
                    frame.child_time = 0;
                    frame.is_open = true;
                    frame.is_kernel = is_kernel;
                }
            }
            CallKind::Exit => {
                let count = task.stack_count;
                let Some(frame) = task.frame(count - 1) else { return self.count(at, kind, record) };
                let taken = if frame.is_open { record.time.wrapping_sub(frame.time) } else { 0 };
                frame.is_open = false;
                frame.time = taken;
                frame.child_time = frame.child_time.min(taken);
                if count > 1
                    && let Some(parent) = task.frame(count - 2)
                {
                    parent.child_time = parent.child_time.wrapping_add(taken);
                }
            }
            CallKind::Lost => self.lose(at, record.time),
            CallKind::Event => {}
        }
        self.count(at, kind, record);
    }

    #[inline]
    fn count(&mut self, at: usize, kind: CallKind, record: &CallRecord) {
        let task = &mut self.tasks[at];
        let is_own = record.origin == CallOrigin::Task && record.kind != CallKind::Event;
        task.is_in_kernel = record.origin == CallOrigin::Kernel && record.kind != CallKind::Lost;
        match kind {
            CallKind::Entry => {
                task.stack_count += 1;
                task.user_stack_count += isize::from(is_own);
            }
            CallKind::Exit => {
                if task.stack_count > 0 {
                    task.stack_count -= 1;
                }
                if is_own && task.user_stack_count > 0 {
                    task.user_stack_count -= 1;
                }
            }
            _ => {}
        }
    }

    /// The first record of a task, or the first one behind lost ones: it says how deep the task is.
    #[cold]
    fn begin(&mut self, at: usize, kind: CallKind, depth: u16, time: u64, is_kernel: bool) {
        let mut count = isize::try_from(depth).unwrap_or(0) + isize::from(kind == CallKind::Exit);
        if is_kernel {
            count += self.tasks[at].user_stack_count;
        }
        if !self.tasks[at].is_begun {
            let parent = self.parents[at].map(|parent| self.tasks[parent].fork_display_depth);
            let limit = self.options.depth;
            let task = &mut self.tasks[at];
            (task.is_begun, task.stack_count) = (true, count);
            if let Some(depth) = parent.filter(|&depth| depth > 0) {
                (task.display_depth, task.is_display_depth_set) = (depth, true);
                if is_kernel {
                    count += isize::try_from(depth).unwrap_or(0);
                    task.stack_count = count;
                }
            }
            for place in 0..count {
                if let Some(frame) = task.frame(place) {
                    (frame.time, frame.child_time, frame.is_open) = (time, 0, true);
                }
            }
            task.depth_left = limit;
        }
        let task = &mut self.tasks[at];
        if task.has_lost {
            task.has_lost = false;
            task.stack_count = count;
            let own = task.user_stack_count;
            for place in 0..=isize::try_from(depth).unwrap_or(0) {
                if let Some(frame) = task.frame(place + own) {
                    (frame.time, frame.child_time) = (time.wrapping_sub(1), 0);
                }
            }
        }
    }

    /// Open calls end, for what is known of them, where records were lost: at `time`, unless that is 0.
    #[cold]
    fn lose(&mut self, at: usize, time: u64) {
        let task = &mut self.tasks[at];
        task.has_lost = true;
        task.is_display_depth_set = false;
        let mut lost_time = time;
        if time > 0 {
            // What stands above the open calls is over.
            let count = task.stack_count;
            if let Some(above) = task.frame(count) {
                (above.time, above.child_time, above.is_open) = (time, 0, false);
            }
        }
        for place in (task.user_stack_count..=task.stack_count).rev() {
            let Some(frame) = task.frame(place) else { continue };
            if lost_time == 0 {
                lost_time = frame.time.wrapping_add(1);
            }
            let taken = lost_time.wrapping_sub(frame.time);
            frame.time = taken;
            frame.child_time = frame.child_time.min(taken);
            if place > 0
                && let Some(parent) = task.frame(place - 1)
            {
                parent.child_time = parent.child_time.wrapping_add(taken);
            }
        }
    }

    /// What the options want to be done at the calls of a function.
    #[inline]
    pub(crate) fn rule(&self, symbol: u32) -> Option<&Rule> {
        if self.has_rules { self.options.rules.of(symbol) } else { None }
    }

    /// An entry that was taken: is it shown?
    #[inline]
    pub fn enter(&mut self, record: &CallRecord) -> bool {
        let special = self.special(record.symbol, record.address);
        let task = &mut self.tasks[record.task as usize];
        let (count, depth_left) = (task.stack_count, task.depth_left);
        let (display_depth, is_left_out) = (task.display_depth, task.out_count > 0);
        let Some(frame) = task.frame(count - 1) else { return false };
        frame.depth_left = depth_left;
        (frame.is_hidden, frame.jump, frame.filter) = (is_left_out, Jump::None, None);
        if is_left_out {
            return false;
        }
        match special {
            Special::None => {}
            Special::Exec => frame.jump = Jump::Exec,
            Special::Longjmp => frame.jump = Jump::Longjmp,
            Special::Setjmp => self.setjmp = (display_depth + 1, count),
            Special::Fork => task.fork_display_depth = display_depth + 1,
        }
        if self.has_rules || !self.is_enabled {
            let rule = self.rule(record.symbol).copied().unwrap_or_default();
            if !self.apply(record.task as usize, &rule) {
                return false;
            }
        }
        let task = &mut self.tasks[record.task as usize];
        if task.depth_left <= 0 {
            if let Some(frame) = task.frame(count - 1) {
                frame.is_hidden = true;
            }
            return false;
        }
        task.depth_left -= 1;
        if !task.is_display_depth_set {
            task.display_depth = i32::try_from(count - 1).unwrap_or(0).max(0);
            task.is_display_depth_set = true;
        }
        true
    }

    /// Does at a call what the options want; is it shown, as far as they say?
    fn apply(&mut self, at: usize, rule: &Rule) -> bool {
        let limit = self.options.depth;
        let task = &mut self.tasks[at];
        let count = task.stack_count;
        match rule.filter {
            Some(Filter::In) => {
                task.in_count += 1;
                task.depth_left = limit;
            }
            Some(Filter::Out) => task.out_count += 1,
            None => {}
        }
        let is_outside = rule.filter.is_none() && self.options.rules.is_opt_in && task.in_count == 0;
        if let Some(frame) = task.frame(count - 1) {
            frame.filter = rule.filter;
            frame.is_hidden = is_outside || rule.filter == Some(Filter::Out);
            if frame.is_hidden {
                return false;
            }
        }
        let is_elsewhere = match rule.location {
            None => self.options.rules.is_location_opt_in,
            Some(filter) => filter == Filter::Out,
        };
        if is_elsewhere {
            if let Some(frame) = task.frame(count - 1) {
                frame.is_hidden = true;
            }
            return false;
        }
        task.depth_left = rule.depth.unwrap_or(task.depth_left);
        if let Some(is_enabled) = rule.tracing {
            self.is_enabled = is_enabled;
            task.is_display_depth_set &= is_enabled;
        }
        if !self.is_enabled {
            return false;
        }
        if rule.is_hidden
            && let Some(frame) = task.frame(count - 1)
        {
            frame.is_hidden = true;
            return false;
        }
        true
    }

    /// The call that an exit left, when it is shown.
    #[inline]
    pub fn left_call(&mut self, task: usize) -> Option<Frame> {
        let task = &mut self.tasks[task];
        let count = task.stack_count;
        let frame = task.frame(count).copied();
        frame.filter(|frame| self.is_enabled && !frame.is_hidden)
    }

    /// Is only shown what a filter lets in?
    fn is_opt_in(&self) -> bool {
        self.options.rules.is_opt_in || self.options.rules.is_location_opt_in
    }

    /// Would an entry or event that is not taken yet be left out?
    pub(crate) fn would_hide(&self, next: &CallRecord) -> bool {
        let task = &self.tasks[next.task as usize];
        let mut rule =
            if next.kind == CallKind::Entry { self.rule(next.symbol) } else { None }.copied().unwrap_or_default();
        // As in uftrace, which looks for rules of the 48 bits that it stores of an address here: functions of a kernel of
        // 64 bits have none. Filters that let calls in count all the same, or these would get lost.
        if next.origin == CallOrigin::Kernel && next.address >> 48 > 0 && rule.filter != Some(Filter::In) {
            rule = Rule::default();
        }
        if task.out_count > 0 {
            return true;
        }
        let depth = match rule.filter {
            Some(Filter::Out) => return true,
            Some(Filter::In) => self.options.depth,
            None if rule.location.is_some() => task.depth_left,
            None if self.is_opt_in() && task.in_count == 0 => return true,
            None => task.depth_left,
        };
        let is_begin = rule.depth.is_some() || rule.tracing == Some(true);
        !is_begin && (rule.tracing == Some(false) || rule.is_hidden || depth <= 0)
    }

    /// Is the task inside of what a filter leaves out?
    pub(crate) fn is_left_out(&self, task: usize) -> bool {
        self.tasks[task].out_count > 0
    }

    /// Indents what follows a shown entry.
    #[inline]
    pub fn entered(&mut self, task: usize) {
        let place = self.tasks[task].stack_count - 1;
        self.entered_at(task, place);
    }

    /// The same, where records behind the entry were taken: `place` is that of its call.
    #[inline]
    pub(crate) fn entered_at(&mut self, task: usize, place: isize) {
        let setjmp = self.setjmp;
        let task = &mut self.tasks[task];
        let Some(frame) = task.frame(place) else { return };
        match std::mem::take(&mut frame.jump) {
            Jump::None => task.display_depth += 1,
            Jump::Exec => (task.display_depth, task.stack_count, task.user_stack_count) = (0, 0, 0),
            Jump::Longjmp => {
                (task.display_depth, task.stack_count, task.user_stack_count) = (setjmp.0, setjmp.1, setjmp.1)
            }
        }
    }

    /// Does the call on top jump elsewhere?
    pub(crate) fn is_jump(&mut self, task: usize) -> bool {
        let task = &mut self.tasks[task];
        let count = task.stack_count;
        task.frame(count - 1).is_none_or(|frame| frame.jump != Jump::None)
    }

    /// The indentation of an exit that is shown.
    #[inline]
    pub fn leaving(&mut self, task: usize) -> i32 {
        let task = &mut self.tasks[task];
        if !task.is_display_depth_set {
            // A forked process begins with an exit.
            task.display_depth = i32::try_from(task.stack_count + 1).unwrap_or(0);
            task.is_display_depth_set = true;
        }
        task.display_depth = (task.display_depth - 1).max(0);
        task.display_depth
    }

    /// An exit that was taken is over.
    #[inline]
    pub fn left(&mut self, task: usize) {
        let task = &mut self.tasks[task];
        let count = task.stack_count;
        let Some(frame) = task.frame(count) else { return };
        (frame.is_hidden, frame.jump) = (false, Jump::None);
        let (filter, depth_left) = (frame.filter.take(), frame.depth_left);
        task.depth_left = depth_left;
        match filter {
            Some(Filter::In) => task.in_count -= 1,
            Some(Filter::Out) => task.out_count -= 1,
            None => {}
        }
    }

    /// Is an event that was taken shown where its task is now?
    pub fn is_event_shown(&self, record: &CallRecord) -> bool {
        let task = &self.tasks[record.task as usize];
        // A time without processor has a place on the stack, if it is not over the stack.
        let place = match record.address {
            event_id::SCHED_IN => task.stack_count,
            event_id::SCHED_OUT => task.stack_count - 1,
            _ => 0,
        };
        let has_place = usize::try_from(place).is_ok_and(|place| place < task.max_depth);
        has_place && task.depth_left > 0 && task.out_count == 0 && (!self.options.rules.is_opt_in || task.in_count > 0)
    }
}

/// The first and the last time of the records that are wanted, unless all are.
pub(crate) fn between(source: &dyn CallSource, options: &CallOptions) -> Option<(u64, u64)> {
    let range = &options.range;
    (!range.is_whole()).then(|| range.between(first_time(source, options).unwrap_or(0)))
}

/// The same where the records of all tasks count: elapsed time begins with the first one of any task.
pub(crate) fn between_of_all(source: &dyn CallSource, options: &CallOptions) -> Option<(u64, u64)> {
    let range = &options.range;
    let first = || (0..source.stream_count()).filter_map(|stream| first_record(source, stream)).map(|it| it.time).min();
    (!range.is_whole()).then(|| range.between(if range.is_elapsed() { first() } else { None }.unwrap_or(0)))
}

/// The first record of a stream of a task.
fn first_record(source: &dyn CallSource, stream: usize) -> Option<CallRecord> {
    let mut records = Vec::new();
    let mut stream = source.open(stream);
    while records.is_empty() && stream.fill(&mut records) {}
    records.first().filter(|record| record.origin == CallOrigin::Task).copied()
}

/// With a time filter the peer reads all that the system tells before anything else, and elapsed time begins with the first
/// of that, wherever it is shown, unless calls are earlier.
fn first_of_system(source: &dyn CallSource, options: &CallOptions) -> Option<u64> {
    if options.time_filter == 0 {
        return None;
    }
    let is_wanted = |record: &CallRecord| {
        options.tids.is_empty() || options.tids.contains(&source.tasks()[record.task as usize].tid)
    };
    (0..source.stream_count()).find_map(|stream| {
        let (mut stream, mut records, mut goes_on) = (source.open(stream), Vec::new(), true);
        while goes_on {
            records.clear();
            goes_on = stream.fill(&mut records);
            if records.first().is_some_and(|record| record.origin != CallOrigin::System) {
                return None;
            }
            if let Some(record) = records.iter().find(|record| is_wanted(record)) {
                return Some(record.time);
            }
        }
        None
    })
}

/// The time from which elapsed time counts, as far as it must be known before anything is read: of the tasks that are not
/// wanted the first record, otherwise, for a stretch of time, the first record of the first task.
fn first_time(source: &dyn CallSource, options: &CallOptions) -> Option<u64> {
    if options.tids.is_empty() && options.range.is_whole() {
        return first_of_system(source, options);
    }
    let (mut unwanted, mut first): (Option<u64>, Option<u64>) = (None, None);
    for stream in 0..source.stream_count() {
        let Some(record) = first_record(source, stream) else { continue };
        let is_wanted = options.tids.is_empty() || options.tids.contains(&source.tasks()[record.task as usize].tid);
        if is_wanted {
            first.get_or_insert(record.time);
        } else if record.kind != CallKind::Event || options.all_events {
            unwanted = Some(unwanted.map_or(record.time, |time| time.min(record.time)));
        }
    }
    unwanted.or(if options.range.is_whole() { first_of_system(source, options) } else { first })
}

/// Name of a time without processor.
pub(crate) const SCHEDULE: &str = "linux:schedule";
/// Name of one that the system has chosen.
pub(crate) const PREEMPTED: &str = "linux:schedule (pre-empted)";

/// Names that say what a function does to the stack.
pub(crate) fn special(name: &str) -> Special {
    match name {
        "execl" | "execlp" | "execle" | "execv" | "execve" | "execvp" | "execvpe" => Special::Exec,
        "setjmp" | "_setjmp" | "sigsetjmp" | "__sigsetjmp" => Special::Setjmp,
        "longjmp" | "siglongjmp" | "__longjmp_chk" => Special::Longjmp,
        "fork" | "vfork" | "daemon" => Special::Fork,
        _ => Special::None,
    }
}
