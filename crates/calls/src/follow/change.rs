//! The effect of records on the open calls of their task, for all that nest calls by the depths that records state.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, event_id};
use tracemill_format::open_calls::CallLevel;

use super::names::{PREEMPTED, SCHEDULE};

/// The effect of a record on the open calls of its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallChange {
    /// A function is called.
    Call(CallLevel),
    /// A time without processor begins. It counts as a call of what has this name.
    Wait(CallLevel, &'static str),
    /// The calls at a level and above it end.
    End(CallLevel),
}

/// The level of a wait: a task without a processor calls nothing, so no call is deeper.
const OF_WAIT: CallLevel = CallLevel { is_kernel: true, depth: u64::MAX };

impl CallChange {
    /// The effect of a record; `None` when calls stay open as they are.
    #[inline]
    pub fn from_record(record: &CallRecord) -> Option<CallChange> {
        let level = CallLevel { is_kernel: record.origin == CallOrigin::Kernel, depth: record.depth.into() };
        match (record.kind, record.address) {
            (CallKind::Entry, _) => Some(CallChange::Call(level)),
            (CallKind::Exit, _) => Some(CallChange::End(level)),
            (CallKind::Event, event_id::SCHED_OUT) => Some(CallChange::Wait(OF_WAIT, SCHEDULE)),
            (CallKind::Event, event_id::SCHED_OUT_PREEMPTED) => Some(CallChange::Wait(OF_WAIT, PREEMPTED)),
            (CallKind::Event, event_id::SCHED_IN) => Some(CallChange::End(OF_WAIT)),
            (CallKind::Event | CallKind::Lost, _) => None,
        }
    }

    /// The level at which open calls are over.
    #[inline]
    pub fn level(self) -> CallLevel {
        let (CallChange::Call(level) | CallChange::Wait(level, _) | CallChange::End(level)) = self;
        level
    }
}
