//! Keys of groups, and the lengths of spans.

use tracemill_semantics::Concept;
use tracemill_semantics::states::{Machines, Ns, Thread, ThreadIndex};

/// Stands for a part of a key that is not known.
pub(crate) const NO_KEY: i64 = i64::MIN;

/// Concepts that tell when a thread runs its program, and when the kernel for it.
pub(crate) const TELL_MODES: &[Concept] = &[Concept::SysEntry, Concept::SysExit];
/// Concepts that tell when a thread is interrupted.
pub(crate) const TELL_INTERRUPTS: &[Concept] = &[Concept::IrqEntry, Concept::SoftEntry];

/// The time of a machine from one instant to another, without that in which it was suspended, in ns that fit 64 bits.
pub(crate) fn duration(machines: &Machines, machine: u32, from: Ns, to: Ns) -> u64 {
    u64::try_from(machines.length(machine, from, to)).unwrap_or(if to < from { 0 } else { u64::MAX })
}

/// Number of a thread in a key: all its lives are one group.
pub(crate) fn thread_key(machines: &Machines, thread: Option<ThreadIndex>) -> i64 {
    thread.map_or(NO_KEY, |thread| machines.thread(thread).tid)
}

/// The newest life of the thread of a key.
pub(crate) fn thread_of(machines: &Machines, machine: u32, tid: i64) -> Option<&Thread> {
    machines.find_thread(machine, tid).map(|thread| machines.thread(thread))
}

/// A number in a key.
pub(crate) fn known_key(key: i64) -> Option<i64> {
    (key != NO_KEY).then_some(key)
}

/// The largest number of an error.
pub(crate) const MAX_ERRNO: i64 = 4095;

/// The error that a result is: from 1 to 4095.
pub(crate) fn error_of(ret: Option<i64>) -> Option<i64> {
    ret.filter(|ret| (-MAX_ERRNO..0).contains(ret)).map(|ret| -ret)
}
