//! The one protocol by which all commands follow records.
//!
//! [`Follower::next`] takes a record, and [`Follower::step`] does all that it does to what is shown. Who looks at what
//! follows an entry before it is shown has [`Follower::enter`]: the call that it gives goes into one of
//! [`Follower::go_in`] and [`Follower::leave_at_once`].

use std::sync::atomic::Ordering;

use tracemill_format::calls::{CallKind, CallRecord};

use super::names::Special;
use super::stack::Jump;
use super::{Follower, StackFrame};
use crate::rules::{Filter, Rule};

/// Place of a shown record on the stack of its task, and the indentation of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownRecord {
    /// Place of the call that begins or ends, or of the time without processor that does.
    pub place: isize,
    /// Depth of its line.
    pub depth: i32,
}

/// A shown call whose entry was taken.
#[derive(Debug)]
#[must_use = "what follows its line is indented by `go_in` or not by `leave_at_once`"]
pub(crate) struct Entered {
    task: usize,
    /// Its place on the stack.
    pub(crate) place: isize,
    /// Depth of its line.
    pub(crate) depth: i32,
}

impl Follower<'_> {
    /// Follows a record that was taken; `None` when it is not shown.
    #[inline]
    pub fn step(&mut self, record: &CallRecord) -> Option<ShownRecord> {
        if self.is_shown(record) { self.step_seen(record) } else { None }
    }

    /// Follows a record of which options for kernel and events let it be shown.
    #[inline]
    pub(crate) fn step_seen(&mut self, record: &CallRecord) -> Option<ShownRecord> {
        let at = record.task as usize;
        match record.kind {
            CallKind::Entry => {
                let entered = self.enter(record)?;
                let shown = ShownRecord { place: entered.place, depth: entered.depth };
                self.go_in(entered);
                return Some(shown);
            }
            CallKind::Exit => {
                let depth = self.left_call(at).map(|_| self.leaving(at));
                self.end_exit(at);
                return depth.map(|depth| ShownRecord { place: self.tasks[at].stack_count, depth });
            }
            CallKind::Event if !self.is_event_shown(record) => return None,
            CallKind::Event | CallKind::Lost => {}
        }
        let task = &self.tasks[at];
        Some(ShownRecord { place: task.stack_count - isize::from(record.is_sched_out()), depth: task.display_depth })
    }

    /// Follows a record that was taken and is not shown, whatever the options say.
    pub(crate) fn skip(&mut self, record: &CallRecord) {
        match record.kind {
            CallKind::Entry => {
                let _ = self.enter(record);
            }
            CallKind::Exit => self.end_exit(record.task as usize),
            CallKind::Event | CallKind::Lost => {}
        }
    }

    /// Follows an entry that was taken; `None` when its call is not shown.
    #[inline]
    pub(crate) fn enter(&mut self, record: &CallRecord) -> Option<Entered> {
        let special = self.special(record.symbol, record.address);
        let at = record.task as usize;
        let task = &mut self.tasks[at];
        let (place, depth_left) = (task.stack_count - 1, task.depth_left);
        let (display_depth, is_left_out) = (task.display_depth, task.out_count > 0);
        let frame = task.frame(place)?;
        frame.depth_left = depth_left;
        (frame.is_hidden, frame.jump, frame.filter) = (is_left_out, Jump::None, None);
        if is_left_out {
            return None;
        }
        match special {
            Special::None => {}
            Special::Exec => frame.jump = Jump::Exec,
            Special::Longjmp => {
                frame.jump = Jump::Longjmp;
                if let Some((part, _)) = self.part {
                    part.jumps.store(true, Ordering::Relaxed);
                }
            }
            Special::Setjmp => {
                self.of_any.setjmp = (display_depth + 1, place + 1);
                if let Some((part, _)) = self.part {
                    part.sets_jump.store(true, Ordering::Relaxed);
                }
            }
            Special::Fork => task.fork_display_depth = display_depth + 1,
        }
        if self.has_rules || !self.is_enabled {
            let rule = self.rule(record.symbol).copied().unwrap_or_default();
            if !self.apply(at, &rule) {
                return None;
            }
        }
        let task = &mut self.tasks[at];
        if task.depth_left <= 0 {
            task.hide(place);
            return None;
        }
        task.depth_left -= 1;
        if !task.is_display_depth_set {
            task.display_depth = i32::try_from(place).unwrap_or(0).max(0);
            task.is_display_depth_set = true;
        }
        Some(Entered { task: at, place, depth: task.display_depth })
    }

    /// Does at a call what the options want; is it shown, as far as they say?
    fn apply(&mut self, at: usize, rule: &Rule) -> bool {
        let limit = self.options.depth;
        let rules = &self.options.rules;
        let task = &mut self.tasks[at];
        let place = task.stack_count - 1;
        match rule.filter {
            Some(Filter::In) => {
                task.in_count += 1;
                task.depth_left = limit;
            }
            Some(Filter::Out) => task.out_count += 1,
            None => {}
        }
        let is_outside = rule.filter.is_none() && rules.is_opt_in && task.in_count == 0;
        let is_elsewhere = rules.hides_location(rule.location);
        if let Some(frame) = task.frame(place) {
            frame.filter = rule.filter;
        }
        if is_outside || rule.filter == Some(Filter::Out) || is_elsewhere {
            task.hide(place);
            return false;
        }
        task.depth_left = rule.depth.unwrap_or(task.depth_left);
        if let Some(is_enabled) = rule.tracing {
            self.is_enabled = is_enabled;
            task.is_display_depth_set &= is_enabled;
        }
        if self.is_enabled && rule.is_hidden {
            task.hide(place);
        }
        self.is_enabled && !rule.is_hidden
    }

    /// Indents what follows the entry of a call.
    #[inline]
    pub(crate) fn go_in(&mut self, entered: Entered) {
        let setjmp = self.of_any.setjmp;
        let task = &mut self.tasks[entered.task];
        let Some(frame) = task.frame(entered.place) else { return };
        match std::mem::take(&mut frame.jump) {
            Jump::None => task.display_depth += 1,
            Jump::Exec => (task.display_depth, task.stack_count, task.user_stack_count) = (0, 0, 0),
            Jump::Longjmp => {
                (task.display_depth, task.stack_count, task.user_stack_count) = (setjmp.0, setjmp.1, setjmp.1)
            }
        }
    }

    /// Takes the exit of a call that was looked at last: both are one line.
    pub(crate) fn leave_at_once(&mut self, entered: Entered) {
        self.take_peeked();
        self.end_exit(entered.task);
    }

    /// The indentation of an exit that is shown.
    #[inline]
    fn leaving(&mut self, task: usize) -> i32 {
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
    pub(crate) fn end_exit(&mut self, task: usize) {
        let task = &mut self.tasks[task];
        let Some(frame) = task.frame(task.stack_count) else { return };
        (frame.is_hidden, frame.jump) = (false, Jump::None);
        let (filter, depth_left) = (frame.filter.take(), frame.depth_left);
        task.depth_left = depth_left;
        match filter {
            Some(Filter::In) => task.in_count -= 1,
            Some(Filter::Out) => task.out_count -= 1,
            None => {}
        }
    }

    /// Ends the calls of the kernel, and the innermost one of the task, where records were lost: the shown ones with their
    /// places, innermost first.
    pub(crate) fn end_at_loss(&mut self, task: usize) -> Vec<(isize, StackFrame)> {
        let mut ended = Vec::new();
        while self.tasks[task].stack_count >= self.tasks[task].user_stack_count {
            let place = self.tasks[task].stack_count;
            ended.extend(self.left_call(task).filter(|frame| frame.is_open).map(|frame| (place, frame)));
            self.end_exit(task);
            self.tasks[task].stack_count -= 1;
        }
        ended
    }
}
