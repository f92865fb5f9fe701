//! Choice of the next record, where more than its time decides.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, event_id};

use super::Follower;

/// Records that are taken at once where the kernel has some.
const RUN: usize = 256;

impl Follower<'_> {
    /// Makes the next records ready; false at the end.
    pub(super) fn load(&mut self) -> bool {
        self.ahead.run.clear();
        self.ahead.at = 0;
        if self.is_estimated {
            // The next record depends on the stacks, so no record is taken before it is requested.
            return self.merged.peek().is_some();
        } else if self.has_kernel {
            // Only records of the system say that a task waits.
            while !self.has_system && self.ahead.run.len() < RUN && self.merged.peek().is_some() {
                self.merged.take_run(&mut self.ahead.run);
            }
            while self.ahead.run.len() < RUN
                && let Some(next) = self.next_with_kernel()
            {
                self.ahead.run.push(next);
            }
        } else {
            self.merged.take_run(&mut self.ahead.run);
        }
        !self.ahead.run.is_empty()
    }

    /// The next record where the kernel has records too. What it does for a task that has no processor shows that the
    /// task has one again, before the system says so.
    #[inline]
    pub(super) fn next_with_kernel(&mut self) -> Option<CallRecord> {
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
            if next.is_sched_out() {
                *waits_in = Some(self.merged.current());
            } else if next.address == event_id::SCHED_IN {
                *waits_in = None;
            }
        }
        self.merged.next()
    }

    /// The next record where exits are guesses, without taking it. As in uftrace each look at one counts: an exit that was
    /// moved and what follows it are a nanosecond later every time.
    pub(super) fn peek_estimated(&mut self) -> Option<CallRecord> {
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
                        next.time = task.guess.exit;
                    }
                    if task.guess.last_moved > 0 && next.kind == CallKind::Exit && next.time <= task.guess.last_moved {
                        task.guess.last_moved += 1;
                        next.time = task.guess.last_moved;
                    } else {
                        (task.guess.last_moved, task.guess.next_entry) = (0, 0);
                    }
                }
                CallOrigin::System => self.move_exit(&next),
                CallOrigin::Kernel | CallOrigin::Outside => {}
            }
            self.ahead.peeked = Some((stream, next));
            return Some(next);
        }
    }

    /// Moves the next exit of a task, which is a guess, after the time without processor that it lies in.
    pub(super) fn move_exit(&mut self, next: &CallRecord) {
        let at = next.task as usize;
        let count = self.tasks[at].stack_count;
        if count <= 0 || !(next.is_sched_out() || next.address == event_id::SCHED_IN) {
            return;
        }
        let Some(own) = self.merged.own_head(next.task) else { return };
        let task = &mut self.tasks[at];
        if own.kind == CallKind::Entry {
            task.guess.next_entry = 0;
            return;
        }
        let is_in = next.address == event_id::SCHED_IN;
        let Some(frame) = task.frame(if is_in && count >= 2 { count - 2 } else { count - 1 }) else { return };
        let (address, entered) = (frame.address, frame.time);
        if address != own.address {
            return;
        }
        own.time = if !is_in {
            if task.guess.next_entry == 0 {
                task.guess.next_entry = own.time.wrapping_mul(2).wrapping_sub(entered);
            }
            if own.time != u64::MAX {
                task.guess.exit = own.time;
            }
            u64::MAX
        } else {
            if task.guess.last_moved <= next.time {
                task.guess.last_moved = next.time.wrapping_add(task.guess.next_entry) / 2;
            }
            task.guess.last_moved
        };
    }
}
