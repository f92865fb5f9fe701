//! The fast path for calls about which nothing is special.

use tracemill_format::calls::{CallKind, CallOrigin};

use super::names::{KnownSymbol, Special};
use super::{Follower, StackFrame};

/// A change of a stack by a call about which nothing is special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastStep {
    /// It was entered and left at once, and took so long.
    Leaf(u64),
    /// It was entered; another call follows in it.
    Entered,
    /// One was left that took so long.
    Left(u64),
}

impl Follower<'_> {
    /// Takes the next record, and the one after it when they are a leaf, where [`Follower::has_fast_path`] holds; `None`,
    /// and nothing is taken, when something is special about it. It does what [`Follower::next`] and [`Follower::step`] do
    /// together. With it goes the indentation.
    #[inline]
    pub(crate) fn take_fast(&mut self) -> Option<(FastStep, i32)> {
        let record = self.ahead.run.get(self.ahead.at)?;
        // A function that was not met yet may be one that does not simply return.
        let Some(Some(KnownSymbol { special: Special::None, .. })) = self.known.get(record.symbol as usize) else {
            return None;
        };
        let task = self.tasks.get_mut(record.task as usize)?;
        let is_usual = task.is_begun & !task.has_lost & !task.is_in_kernel & task.is_display_depth_set;
        if !is_usual || task.out_count > 0 || record.origin != CallOrigin::Task {
            return None;
        }
        let count = usize::try_from(task.stack_count).ok()?;
        let (depth, time) = (task.display_depth, record.time);
        let step = if record.kind == CallKind::Entry {
            let next = self.ahead.run.get(self.ahead.at + 1).filter(|next| next.task == record.task)?;
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
            *frame = StackFrame {
                address: record.address,
                time: record.time,
                symbol: record.symbol,
                is_open: !is_leaf,
                depth_left: task.depth_left,
                ..StackFrame::default()
            };
            if is_leaf {
                let taken = next.time.wrapping_sub(record.time);
                frame.time = taken;
                if let Some(parent) = below.last_mut() {
                    parent.child_time = parent.child_time.wrapping_add(taken);
                }
                task.user_stack_count = task.user_stack_count.max(0);
                task.last_time = next.time;
                self.ahead.at += 2;
                FastStep::Leaf(taken)
            } else {
                task.depth_left -= 1;
                task.stack_count += 1;
                task.user_stack_count += 1;
                task.display_depth += 1;
                task.last_time = record.time;
                self.ahead.at += 1;
                FastStep::Entered
            }
        } else if record.kind == CallKind::Exit {
            let (taken, depth_left) = leave(&mut task.frames, count, record.time)?;
            task.depth_left = depth_left;
            task.stack_count -= 1;
            task.user_stack_count -= isize::from(task.user_stack_count > 0);
            task.display_depth = (depth - 1).max(0);
            task.last_time = record.time;
            self.ahead.at += 1;
            FastStep::Left(taken)
        } else {
            return None;
        };
        task.is_last_of_system = false;
        self.first_time = self.first_time.min(time);
        Some((step, depth))
    }

    /// As [`Follower::take_fast`], without a look at what follows, for tasks for which the kernel works, too.
    #[inline]
    pub(crate) fn take_one_fast(&mut self) -> Option<FastStep> {
        let record = self.ahead.run.get(self.ahead.at)?;
        let Some(Some(KnownSymbol { special: Special::None, .. })) = self.known.get(record.symbol as usize) else {
            return None;
        };
        let task = self.tasks.get_mut(record.task as usize)?;
        let is_kernel = match record.origin {
            CallOrigin::Task => false,
            CallOrigin::Kernel => true,
            CallOrigin::System | CallOrigin::Outside => return None,
        };
        let is_usual = task.is_begun & !task.has_lost & task.is_display_depth_set;
        if !is_usual || !record.is_call() || task.out_count > 0 {
            return None;
        }
        // Kernel calls outside of all calls may be left out, and kernel calls without an exit have ended: the slow path
        // decides.
        let is_odd = match is_kernel {
            true => task.user_stack_count <= 0 || task.stack_count <= 0,
            false => task.is_in_kernel && task.stack_count != task.user_stack_count,
        };
        if is_odd {
            return None;
        }
        let count = usize::try_from(task.stack_count).ok()?;
        let is_after_kernel = task.is_in_kernel && !is_kernel;
        let depth_left = if is_after_kernel { self.options.depth - count as i32 } else { task.depth_left };
        let step = if record.kind == CallKind::Entry {
            // A call that is too deep may be left out.
            let frame = task.frames.get_mut(count).filter(|_| depth_left > 0)?;
            *frame = StackFrame {
                address: record.address,
                time: record.time,
                symbol: record.symbol,
                is_open: true,
                is_kernel,
                depth_left,
                ..StackFrame::default()
            };
            task.depth_left = depth_left - 1;
            task.stack_count += 1;
            task.user_stack_count += isize::from(!is_kernel);
            task.display_depth += 1;
            FastStep::Entered
        } else {
            let (taken, depth_left) = leave(&mut task.frames, count, record.time)?;
            task.depth_left = depth_left;
            task.stack_count -= 1;
            task.user_stack_count -= isize::from(!is_kernel && task.user_stack_count > 0);
            task.display_depth = (task.display_depth - 1).max(0);
            FastStep::Left(taken)
        };
        task.is_in_kernel = is_kernel;
        task.last_time = record.time;
        task.is_last_of_system = false;
        self.first_time = self.first_time.min(record.time);
        self.ahead.at += 1;
        Some(step)
    }
}

/// Ends the innermost of so many calls, which is one like most: how long it took, and the depth that was left to it. `None`
/// for others, of which nothing is changed.
#[inline(always)]
fn leave(frames: &mut [StackFrame], count: usize, time: u64) -> Option<(u64, i32)> {
    let (below, from) = frames.split_at_mut_checked(count.checked_sub(1)?)?;
    let frame = from.first_mut()?;
    if !frame.is_open || frame.is_hidden || frame.filter.is_some() {
        return None;
    }
    let taken = time.wrapping_sub(frame.time);
    (frame.is_open, frame.time, frame.child_time) = (false, taken, frame.child_time.min(taken));
    if let Some(parent) = below.last_mut() {
        parent.child_time = parent.child_time.wrapping_add(taken);
    }
    Some((taken, frame.depth_left))
}
