//! Reports of a [`Machines`] while it takes events.

use super::{CpuIndex, CpuStatus, Happening, InterruptKind, Machines, Ns, ThreadIndex, ThreadState};

/// A CPU spent this time in one status. Pieces of a CPU follow each other; neighbours may be equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuPiece {
    /// The CPU.
    pub cpu: CpuIndex,
    /// First ns.
    pub from: Ns,
    /// One past the last ns.
    pub to: Ns,
    /// The thread that runs: `Some(None)` is the idle one, `None` an unknown one.
    pub thread: Option<Option<ThreadIndex>>,
    /// The status.
    pub status: CpuStatus,
}

/// A thread spent this time in one state. Pieces of a life follow each other without a hole; neighbours may be equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadPiece {
    /// The thread.
    pub thread: ThreadIndex,
    /// First ns.
    pub from: Ns,
    /// One past the last ns.
    pub to: Ns,
    /// The state; never [`ThreadState::Unknown`].
    pub state: ThreadState,
}

/// A switch names the thread that ran on a CPU since a time at which nothing was known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// The CPU.
    pub cpu: CpuIndex,
    /// The thread.
    pub thread: ThreadIndex,
    /// First ns.
    pub from: Ns,
    /// One past the last ns.
    pub to: Ns,
}

crate::named! {
    /// Why a thread was woken: decision K7.
    pub Reason {
        /// By a thread.
        Thread = "thread",
        /// By a timer.
        Timer = "timer",
        /// By an interrupt from another CPU.
        Ipi = "ipi",
        /// By an interrupt.
        Irq = "irq",
        /// By the network.
        Network = "network",
        /// By a disk.
        Disk = "disk",
        /// By another soft interrupt.
        Softirq = "softirq",
        /// No event says.
        Unknown = "unknown",
    }
}

/// The first wake of a thread since it last ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Woken {
    /// The thread.
    pub thread: ThreadIndex,
    /// Its time.
    pub at: Ns,
    /// The CPU that woke it.
    pub cpu: Option<CpuIndex>,
    /// The thread that woke it, when one ran.
    pub waker: Option<ThreadIndex>,
    /// The reason.
    pub reason: Reason,
    /// Does the event itself say whether an interrupt made it? Events of ftrace do.
    pub says_reason: bool,
}

/// A wake and the switch that runs the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduled {
    /// The wake.
    pub woken: Woken,
    /// Time of the switch.
    pub at: Ns,
    /// The CPU of the switch.
    pub cpu: CpuIndex,
    /// The priority that the switch states.
    pub prio: Option<i64>,
}

/// An interrupt from its entry to its exit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interrupt<'a> {
    /// Its kind.
    pub kind: InterruptKind,
    /// Its number.
    pub number: i64,
    /// The name of its handler, when the entry states one.
    pub name: Option<&'a str>,
    /// The CPU.
    pub cpu: CpuIndex,
    /// Time of the entry.
    pub from: Ns,
    /// Time of the exit.
    pub to: Ns,
    /// The first raise that it serves.
    pub raised: Option<Ns>,
}

/// A system call from its entry to its exit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemCall<'a> {
    /// The thread.
    pub thread: ThreadIndex,
    /// The name.
    pub name: &'a str,
    /// The CPU of the exit.
    pub cpu: CpuIndex,
    /// Time of the entry.
    pub from: Ns,
    /// Time of the exit.
    pub to: Ns,
    /// Its result.
    pub ret: Option<i64>,
}

/// How a thread left its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// It could have gone on.
    Preempted,
    /// It waits.
    Blocked,
    /// It has ended.
    Ended,
    /// The switch does not say.
    Unknown,
}

/// Receives what a [`Machines`] reports. All methods do nothing by default.
#[allow(unused_variables)]
pub trait Observer {
    /// Time of a CPU in one status.
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {}
    /// Time of a thread in one state.
    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {}
    /// A thread is known to have run on a CPU.
    fn credit(&mut self, machines: &Machines, credit: &Credit) {}
    /// A thread was made or met first.
    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {}
    /// A thread was made by another one.
    fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {}
    /// The first wake of a thread since it last ran.
    fn woken(&mut self, machines: &Machines, woken: &Woken) {}
    /// A thread that was woken runs.
    fn scheduled(&mut self, machines: &Machines, scheduled: &Scheduled) {}
    /// A CPU turned to another thread; `next` is `None` for the idle one.
    fn switched(&mut self, machines: &Machines, cpu: CpuIndex, next: Option<ThreadIndex>, at: Ns) {}
    /// A thread begins to run, maybe on another CPU than before.
    fn run_began(&mut self, machines: &Machines, thread: ThreadIndex, has_migrated: bool, at: Ns) {}
    /// A thread left its CPU.
    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {}
    /// An interrupt ended.
    fn interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {}
    /// A system call began.
    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {}
    /// A system call ended.
    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, happening: &Happening<'_>) {}
    /// A context says in which namespaces the thread of a CPU is. It comes before its event is taken.
    fn context(&mut self, machines: &Machines, cpu: CpuIndex, happening: &Happening<'_>) {}
    /// An event of a concept was taken; `cpu` is that of the event.
    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
    }
}
