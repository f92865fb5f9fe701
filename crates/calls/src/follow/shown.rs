//! Calls and events that are shown.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, event_id};

use super::stack::Jump;
use super::{Follower, StackFrame};
use crate::rules::{Filter, Rule};

impl Follower<'_> {
    /// Is the record one that the options want, once it was taken?
    #[inline]
    pub(crate) fn is_shown(&mut self, record: &CallRecord) -> bool {
        self.is_seen(record) && (record.kind != CallKind::Event || self.is_event_wanted(record))
    }

    /// Is a record looked at? What is not changes nothing but the stack.
    #[inline]
    pub(crate) fn is_seen(&self, record: &CallRecord) -> bool {
        if record.kind == CallKind::Lost {
            return true;
        }
        match record.origin {
            CallOrigin::Kernel => self.options.kernel.all || self.tasks[record.task as usize].user_stack_count > 0,
            _ => !self.options.kernel.only,
        }
    }

    pub(super) fn is_event_wanted(&mut self, record: &CallRecord) -> bool {
        let task = &mut self.tasks[record.task as usize];
        let is_outside = task.user_stack_count == 0;
        if self.options.events.none || is_outside && !self.options.events.all {
            return false;
        }
        let is_preemption = record.address == event_id::SCHED_OUT_PREEMPTED;
        let is_sched = is_preemption || matches!(record.address, event_id::SCHED_IN | event_id::SCHED_OUT);
        if self.options.events.no_sched && is_sched {
            return false;
        }
        if self.options.events.no_preemptions {
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
    pub(crate) fn is_outside(&self, task: usize, frame: &StackFrame) -> bool {
        let is_of_kernel = frame.is_kernel && !self.options.kernel.all && self.tasks[task].user_stack_count == 0;
        is_of_kernel || self.options.kernel.only && !frame.is_kernel
    }

    /// Actions of the options at the calls of a function.
    #[inline]
    pub(crate) fn rule(&self, symbol: u32) -> Option<&Rule> {
        if self.has_rules { self.options.rules.for_symbol(symbol) } else { None }
    }

    /// The call that an exit left, when it is shown.
    #[inline]
    pub(crate) fn left_call(&mut self, task: usize) -> Option<StackFrame> {
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

    /// Does the call on top jump elsewhere?
    pub(crate) fn is_jump(&mut self, task: usize) -> bool {
        let task = &mut self.tasks[task];
        let count = task.stack_count;
        task.frame(count - 1).is_none_or(|frame| frame.jump != Jump::None)
    }

    /// Is an event that was taken shown where its task is now?
    pub(super) fn is_event_shown(&self, record: &CallRecord) -> bool {
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
