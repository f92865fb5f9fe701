//! Words for states.

use tracemill_semantics::states::{CpuStatus, ThreadState};

/// The number of the name of a state that is not known.
pub const UNKNOWN: u32 = 0;

/// Words for states. Numbers of names begin with them.
pub(super) const WORDS: [&str; 13] = [
    "unknown",
    "user",
    "system call",
    "trap",
    "kernel",
    "interrupt",
    "softirq",
    "runnable",
    "blocked",
    "new",
    "exiting",
    "zombie",
    "suspended",
];

pub(super) fn word_of_status(status: CpuStatus) -> Option<u32> {
    Some(match status {
        CpuStatus::Idle => return None,
        CpuStatus::Unknown => UNKNOWN,
        CpuStatus::User => 1,
        CpuStatus::Syscall => 2,
        CpuStatus::Trap => 3,
        CpuStatus::Kernel => 4,
        CpuStatus::Irq => 5,
        CpuStatus::Softirq => 6,
        CpuStatus::Suspended => 12,
    })
}

pub(super) fn word_of_state(state: ThreadState) -> Option<u32> {
    Some(match state {
        ThreadState::Dead => return None,
        ThreadState::Unknown | ThreadState::RunUnknown => UNKNOWN,
        ThreadState::RunUser => 1,
        ThreadState::RunSyscall => 2,
        ThreadState::RunTrap => 3,
        ThreadState::RunKernel => 4,
        ThreadState::Interrupted => 5,
        ThreadState::WaitCpu => 7,
        ThreadState::Wait => 8,
        ThreadState::WaitFork => 9,
        ThreadState::Exit => 10,
        ThreadState::Zombie => 11,
        ThreadState::Suspended => 12,
    })
}

/// Is it the state of a thread that a CPU executes?
pub(super) fn is_running(name: u32) -> bool {
    [ThreadState::RunUser, ThreadState::RunSyscall, ThreadState::RunTrap, ThreadState::RunKernel]
        .into_iter()
        .any(|state| word_of_state(state) == Some(name))
}
