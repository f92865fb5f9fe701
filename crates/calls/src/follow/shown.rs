//! Visible calls and events, and the indentation of lines.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, event_id};

use super::names::Special;
use super::stack::Jump;
use super::{Follower, Frame};
use crate::rules::{Filter, Rule};

impl Follower<'_> {
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

    pub(super) fn is_event_wanted(&mut self, record: &CallRecord) -> bool {
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

    /// Is a call that is closed at the end one that is not shown, because of who made it: the kernel outside of all
    /// functions, or the task when only the kernel is wanted?
    pub(crate) fn is_outside(&self, task: usize, frame: &Frame) -> bool {
        let is_of_kernel = frame.is_kernel && !self.options.all_kernel && self.tasks[task].user_stack_count == 0;
        is_of_kernel || self.options.only_kernel && !frame.is_kernel
    }

    /// Actions of the options at the calls of a function.
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
    pub(super) fn apply(&mut self, at: usize, rule: &Rule) -> bool {
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
    pub(super) fn is_opt_in(&self) -> bool {
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
