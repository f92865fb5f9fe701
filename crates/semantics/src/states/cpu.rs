//! CPUs.

use super::{Ns, ThreadIndex, ThreadState};

/// The thread that a CPU runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Current {
    /// No event says which.
    #[default]
    Unknown,
    /// The idle one.
    Idle,
    /// A thread.
    Thread(ThreadIndex),
}

impl Current {
    /// The thread, when it is known and not the idle one.
    #[inline]
    pub fn thread(self) -> Option<ThreadIndex> {
        match self {
            Current::Thread(thread) => Some(thread),
            _ => None,
        }
    }
}

crate::named! {
    /// State of a CPU.
    pub CpuStatus {
        /// No event says what it does.
        Unknown = "unknown",
        /// It runs no thread.
        Idle = "idle",
        /// It runs a program.
        User = "user",
        /// It runs a system call.
        Syscall = "syscall",
        /// It handles a trap.
        Trap = "trap",
        /// It runs a thread of the kernel.
        Kernel = "kernel",
        /// It handles an interrupt.
        Irq = "irq",
        /// It handles a soft interrupt.
        Softirq = "softirq",
        /// It runs no thread, as the machine is suspended.
        Suspended = "suspended",
    }
}

/// Entry on the stack of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InterruptKind {
    /// An interrupt.
    Irq,
    /// A soft interrupt.
    Softirq,
    /// A trap.
    Trap,
}

impl InterruptKind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        self.status().name()
    }

    pub(super) fn status(self) -> CpuStatus {
        match self {
            InterruptKind::Irq => CpuStatus::Irq,
            InterruptKind::Softirq => CpuStatus::Softirq,
            InterruptKind::Trap => CpuStatus::Trap,
        }
    }
}

/// Something that interrupts the thread of a CPU.
#[derive(Clone, Debug)]
pub(super) struct Interruption {
    pub(super) kind: InterruptKind,
    pub(super) number: i64,
    pub(super) since: Ns,
    pub(super) name: Option<Box<str>>,
    pub(super) raise: Option<SoftRaise>,
}

/// A soft interrupt that is to be served.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoftRaise {
    pub(super) number: i64,
    /// When it was raised first.
    pub(super) at: Ns,
    /// The thread whose system call raised it, if nothing else did.
    pub(super) by: Option<ThreadIndex>,
}

/// Frames on a CPU at most.
pub(super) const MAX_FRAMES: usize = 64;

/// A CPU of a machine.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Its machine.
    pub machine: u32,
    /// Its number.
    pub number: u64,
    /// Its frequency, when an event said so.
    pub khz: Option<i64>,
    pub(super) current: Current,
    pub(super) stack: Vec<Interruption>,
    /// Depth of functions of timers, and of interrupts from other CPUs.
    pub(super) timers: u32,
    pub(super) ipis: u32,
    /// First raises of soft interrupts that are not served yet.
    pub(super) raises: Vec<SoftRaise>,
    /// Since when its thread is unknown, until a switch or a context names it.
    pub(super) unknown_since: Option<Ns>,
    pub(super) piece: (Ns, Current, CpuStatus),
    /// Are its events not there, now or at some time?
    pub(super) is_unseen: bool,
    pub(super) was_unseen: bool,
}

impl Cpu {
    pub(super) fn new(machine: u32, number: u64, begin: Ns) -> Self {
        Cpu {
            machine,
            number,
            khz: None,
            current: Current::Unknown,
            stack: Vec::new(),
            timers: 0,
            ipis: 0,
            raises: Vec::new(),
            unknown_since: Some(begin),
            piece: (begin, Current::Unknown, CpuStatus::Unknown),
            is_unseen: false,
            was_unseen: false,
        }
    }

    /// The thread that runs.
    #[inline]
    pub fn current(&self) -> Current {
        self.current
    }

    /// The interrupt that it handles: kind, number, and the name of the handler when the entry stated one.
    pub fn interrupt(&self) -> Option<(InterruptKind, i64, Option<&str>)> {
        let frame = self.stack.last()?;
        Some((frame.kind, frame.number, frame.name.as_deref()))
    }

    /// The status since the last event that changed it.
    #[inline]
    pub fn status(&self) -> CpuStatus {
        self.piece.2
    }

    /// Status of the CPU when its thread is in a state.
    #[inline]
    pub(super) fn status_with(&self, state: Option<ThreadState>) -> CpuStatus {
        match (self.stack.last(), self.current, state) {
            (Some(frame), _, _) => frame.kind.status(),
            (None, Current::Unknown, _) => CpuStatus::Unknown,
            (None, Current::Idle, _) => CpuStatus::Idle,
            (None, Current::Thread(_), state) => match state {
                Some(ThreadState::RunUser) => CpuStatus::User,
                Some(ThreadState::RunSyscall) => CpuStatus::Syscall,
                Some(ThreadState::RunTrap) => CpuStatus::Trap,
                Some(ThreadState::RunKernel) => CpuStatus::Kernel,
                _ => CpuStatus::Unknown,
            },
        }
    }
}
