//! The stack of a task, and what records do to it.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, event_id};

use super::Follower;
use crate::rules::Filter;

/// A place on a stack. It keeps what it held when the call is over, until the next call takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
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
    /// Jump of a call of a special function.
    pub(super) jump: Jump,
    /// Filter that began at the call.
    pub(super) filter: Option<Filter>,
    /// Depth that was left when it was entered.
    pub(super) depth_left: i32,
}

impl StackFrame {
    /// Begins a call.
    #[inline]
    fn begin(&mut self, record: &CallRecord) {
        (self.address, self.symbol) = (record.address, record.symbol);
        (self.time, self.child_time) = (record.time, 0);
        (self.is_open, self.is_kernel) = (true, record.origin == CallOrigin::Kernel);
    }

    /// Ends it; how long it took, in ns.
    #[inline]
    fn end(&mut self, time: u64) -> u64 {
        let taken = if self.is_open { time.wrapping_sub(self.time) } else { 0 };
        (self.is_open, self.time, self.child_time) = (false, taken, self.child_time.min(taken));
        taken
    }
}

/// Functions that do not simply return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Jump {
    #[default]
    None,
    /// The program starts over.
    Exec,
    /// Back to the last `setjmp`.
    Longjmp,
}

/// The state of a task.
#[derive(Clone, Debug, Default)]
pub struct TaskState {
    pub(super) frames: Vec<StackFrame>,
    pub(super) max_depth: usize,
    /// Open calls, events included; negative after some lost records.
    pub stack_count: isize,
    /// Open calls of the task's own records.
    pub user_stack_count: isize,
    /// How far lines are indented.
    pub display_depth: i32,
    pub(super) is_display_depth_set: bool,
    pub(super) fork_display_depth: i32,
    pub(super) is_begun: bool,
    pub(super) has_lost: bool,
    /// Was its last call one of the kernel's?
    pub(super) is_in_kernel: bool,
    /// The stream that reported that it has no processor.
    pub(super) waits_in: Option<usize>,
    pub(super) depth_left: i32,
    /// Open calls of functions that filters name, to be shown and to be left out.
    pub(super) in_count: i32,
    pub(super) out_count: i32,
    /// Was it made to give its processor away, last?
    pub(super) was_preempted: bool,
    /// Depth that is left outside of all calls.
    pub(super) depth_limit: i32,
    pub(super) guess: Guess,
    /// Time of its last record.
    pub(super) last_time: u64,
    /// Was that one of the system's?
    pub(super) is_last_of_system: bool,
}

/// Exits that are guesses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guess {
    /// When the next entry is.
    pub(super) next_entry: u64,
    /// The last exit that was moved.
    pub(super) last_moved: u64,
    /// The time of the exit that waits for the end of a time without processor.
    pub(super) exit: u64,
}

impl TaskState {
    /// A place of the stack, `None` outside of it.
    #[inline]
    pub fn frame(&mut self, at: isize) -> Option<&mut StackFrame> {
        let at = usize::try_from(at).ok().filter(|&at| at < self.max_depth)?;
        if at >= self.frames.len() {
            self.frames.resize(at + 1, StackFrame { depth_left: self.depth_limit, ..StackFrame::default() });
        }
        self.frames.get_mut(at)
    }

    /// Puts a call of the task itself on the stack, when nothing is special about the task and there is room; false
    /// when it was left to others.
    #[inline]
    fn account_fast(&mut self, record: &CallRecord) -> bool {
        let is_usual = self.is_begun & !self.has_lost & !self.is_in_kernel;
        let Ok(count) = usize::try_from(self.stack_count) else { return false };
        if !is_usual || count >= self.frames.len() {
            return false;
        }
        if record.kind == CallKind::Entry {
            self.frames[count].begin(record);
            self.stack_count += 1;
            self.user_stack_count += 1;
        } else {
            let Some(below) = count.checked_sub(1) else { return false };
            let taken = self.frames[below].end(record.time);
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

    /// Time of its last record.
    #[inline]
    pub(crate) fn last_time(&self) -> u64 {
        self.last_time
    }

    /// Leaves out the call at a place.
    pub(super) fn hide(&mut self, place: isize) {
        if let Some(frame) = self.frame(place) {
            frame.is_hidden = true;
        }
    }

    /// Adds the time of the call at a place to that of its caller's callees.
    fn add_to_caller(&mut self, place: isize, ns: u64) {
        if let Some(caller) = self.frame(place - 1) {
            caller.child_time = caller.child_time.wrapping_add(ns);
        }
    }

    /// The places from the first up to `count`.
    #[inline]
    pub fn below(&self, count: isize) -> &[StackFrame] {
        let count = usize::try_from(count).unwrap_or(0).min(self.frames.len());
        &self.frames[..count]
    }
}

impl Follower<'_> {
    /// The record as the call that it means for the stack: a time without processor is one.
    #[inline]
    pub(super) fn as_call(record: &CallRecord) -> Option<(CallKind, u16)> {
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
        if record.is_call() && record.origin == CallOrigin::Task && self.tasks[at].account_fast(record) {
            self.first_time = self.first_time.min(record.time);
            return;
        }
        self.account_any(at, record);
    }

    /// Puts any record on the stack.
    pub(super) fn account_any(&mut self, at: usize, record: &CallRecord) {
        self.tasks[at].last_time = record.time;
        self.tasks[at].is_last_of_system = record.origin == CallOrigin::System;
        if record.origin == CallOrigin::System {
            self.note_system_record(record);
        }
        let is_kernel = record.origin == CallOrigin::Kernel;
        if record.time < self.first_time && record.kind != CallKind::Lost {
            let is_event = record.kind == CallKind::Event;
            let is_outside = (is_event || is_kernel) && self.tasks[at].stack_count == 0;
            let is_wanted = if is_kernel { self.options.kernel.all } else { self.options.events.all };
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
            // Kernel calls without an exit have ended.
            task.stack_count = task.user_stack_count;
            task.depth_left = self.options.depth - i32::try_from(task.stack_count).unwrap_or(0);
        }
        match kind {
            CallKind::Entry => {
                if let Some(frame) = task.frame(task.stack_count) {
                    frame.begin(record);
                }
            }
            CallKind::Exit => {
                let place = task.stack_count - 1;
                if let Some(taken) = task.frame(place).map(|frame| frame.end(record.time)) {
                    task.add_to_caller(place, taken);
                }
            }
            CallKind::Lost => self.apply_loss(at, record.time),
            CallKind::Event => {}
        }
        self.count(at, kind, record);
    }

    #[inline]
    pub(super) fn count(&mut self, at: usize, kind: CallKind, record: &CallRecord) {
        let task = &mut self.tasks[at];
        let is_own = record.origin == CallOrigin::Task && record.kind != CallKind::Event;
        task.is_in_kernel = record.origin == CallOrigin::Kernel && record.kind != CallKind::Lost;
        match kind {
            CallKind::Entry => {
                task.stack_count += 1;
                task.user_stack_count += isize::from(is_own);
            }
            CallKind::Exit => {
                task.stack_count -= isize::from(task.stack_count > 0);
                if is_own && task.user_stack_count > 0 {
                    task.user_stack_count -= 1;
                }
            }
            _ => {}
        }
    }

    /// The first record of a task, or the first one after lost ones: it says how deep the task is.
    #[cold]
    pub(super) fn begin(&mut self, at: usize, kind: CallKind, depth: u16, time: u64, is_kernel: bool) {
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
    pub(super) fn apply_loss(&mut self, at: usize, time: u64) {
        let task = &mut self.tasks[at];
        task.has_lost = true;
        task.is_display_depth_set = false;
        let mut lost_time = time;
        if time > 0 {
            // A call above the open ones has ended.
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
            task.add_to_caller(place, taken);
        }
    }

    /// Closes the call on top of a task at `last`: what it was, unless it began later or was none.
    pub fn close(&mut self, task: usize, last: u64) -> Option<StackFrame> {
        let top = &mut self.tasks[task];
        if top.frame(top.stack_count - 1).is_none_or(|frame| frame.address == 0) {
            top.stack_count -= 1;
            return None;
        }
        self.close_any(task, last)
    }

    /// Closes the call on top of a task at `last`, though its entry may be unknown; `None` when it began later.
    pub(crate) fn close_any(&mut self, task: usize, last: u64) -> Option<StackFrame> {
        let task = &mut self.tasks[task];
        task.stack_count -= 1;
        let place = task.stack_count;
        let frame = task.frame(place).filter(|frame| frame.time <= last)?;
        frame.time = (last - frame.time).max(frame.child_time);
        let frame = *frame;
        task.add_to_caller(place, frame.time);
        Some(frame)
    }
}
