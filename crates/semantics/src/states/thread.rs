//! Threads.

use std::sync::Arc;

use super::observer::Woken;
use super::{CpuIndex, Ns, ThreadIndex};

crate::named! {
    /// State of a thread.
    pub ThreadState {
        /// Nothing tells.
        Unknown = "UNKNOWN",
        /// It was made, and not yet woken.
        WaitFork = "WAIT_FORK",
        /// It could run, and does not.
        WaitCpu = "WAIT_CPU",
        /// It is blocked, stopped or parked.
        Wait = "WAIT",
        /// It runs its program.
        RunUser = "RUN/user",
        /// It runs a system call.
        RunSyscall = "RUN/syscall",
        /// It handles a trap.
        RunTrap = "RUN/trap",
        /// It runs in the kernel, of which it is a thread.
        RunKernel = "RUN/kernel",
        /// It runs, in a mode that nothing tells.
        RunUnknown = "RUN/unknown",
        /// It is interrupted.
        Interrupted = "INTERRUPTED",
        /// It runs after its end.
        Exit = "EXIT",
        /// It has ended.
        Zombie = "ZOMBIE",
        /// The kernel has forgotten it.
        Dead = "DEAD",
    }
}

impl ThreadState {
    /// Is it the thread of a CPU?
    pub fn is_running(self) -> bool {
        use ThreadState::{Exit, Interrupted, RunKernel, RunSyscall, RunTrap, RunUnknown, RunUser};
        matches!(self, RunUser | RunSyscall | RunTrap | RunKernel | RunUnknown | Interrupted | Exit)
    }
}

/// State of a thread without the mode of one that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Base {
    #[default]
    Unknown,
    WaitFork,
    WaitCpu,
    Wait,
    Run,
    Zombie,
    Dead,
}

/// Entry on the stack of a thread.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) is_trap: bool,
    /// `None` when its entry was not seen.
    pub(super) entry: Option<(Arc<str>, Ns)>,
}

/// A number that may not be known, in no more space than one that is. No kernel has a thread of the smallest number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Number(i64);

impl Number {
    pub(super) const UNKNOWN: Number = Number(i64::MIN);

    pub(super) fn get(self) -> Option<i64> {
        (self != Number::UNKNOWN).then_some(self.0)
    }

    /// Takes a number, unless there is one.
    pub(super) fn learn(&mut self, number: impl FnOnce() -> Option<i64>) {
        if *self == Number::UNKNOWN {
            *self = number().into();
        }
    }
}

impl From<Option<i64>> for Number {
    fn from(number: Option<i64>) -> Self {
        number.map_or(Number::UNKNOWN, Number)
    }
}

/// Stands for no time in [`Thread::dead_since`].
pub(super) const NOT_DEAD: u64 = u64::MAX;

/// A life of a thread: from the event that made it or named it first to its end.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its number.
    pub tid: i64,
    /// How many threads of this number there were before, as far as the trace shows.
    pub life: u32,
    /// Its machine.
    pub machine: u32,
    pub(super) pid: Number,
    pub(super) ppid: Number,
    pub(super) prio: Number,
    /// Since when it is dead, in ns since the first event; above all times when it is not.
    pub(super) dead_since: u64,
    /// The thread that made it.
    pub creator: Option<ThreadIndex>,
    /// Its name.
    pub comm: Option<Arc<str>>,
    /// Is it known to be one of the kernel?
    pub is_kernel: bool,
    /// Facts that are kept while it lives.
    pub(super) live: Option<Box<Live>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    pub(super) base: Base,
    pub(super) stack: Vec<Frame>,
    pub(super) is_mode_known: bool,
    /// The CPU that it runs on.
    pub(super) running: Option<CpuIndex>,
    /// The CPU that it ran on last.
    pub(super) last_cpu: Option<CpuIndex>,
    /// The CPU that it ran on last or is queued on.
    pub(super) queued: Option<CpuIndex>,
    pub(super) woken: Option<Woken>,
    /// When a switch, a wake or a fork named it last.
    pub(super) named_at: Option<Ns>,
    pub(super) has_exited: bool,
    pub(super) is_freed: bool,
    /// Has it had a state that is known?
    pub(super) had_state: bool,
    pub(super) piece: (Ns, Option<super::ThreadState>),
}

impl Thread {
    /// Its process.
    pub fn pid(&self) -> Option<i64> {
        self.pid.get()
    }

    /// The parent of its process.
    pub fn ppid(&self) -> Option<i64> {
        self.ppid.get()
    }

    /// Its priority, as the trace counts.
    pub fn prio(&self) -> Option<i64> {
        self.prio.get()
    }

    /// The CPU that it runs on, or ran on last.
    pub fn last_cpu(&self) -> Option<CpuIndex> {
        self.live.as_ref()?.last_cpu
    }

    /// The CPU that it runs on.
    pub fn running(&self) -> Option<CpuIndex> {
        self.live.as_ref()?.running
    }

    /// State since the last event that changed it.
    pub fn state(&self) -> ThreadState {
        self.live.as_ref().and_then(|live| live.piece.1).unwrap_or(ThreadState::Dead)
    }

    /// Are system calls open whose entry was seen?
    pub fn open_calls(&self) -> impl Iterator<Item = &str> {
        let frames = self.live.iter().flat_map(|live| &live.stack);
        frames.filter_map(|frame| frame.entry.as_ref().map(|(name, _)| &**name))
    }
}
