//! Threads.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::Arc;

use super::calls::CallName;
use super::observer::Woken;
use super::{CpuIndex, Ns, ThreadIndex};

crate::named! {
    /// State of a thread.
    pub ThreadState {
        /// No event says.
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
        /// It runs, in a mode that no event shows.
        RunUnknown = "RUN/unknown",
        /// It is interrupted.
        Interrupted = "INTERRUPTED",
        /// It runs after its end.
        Exit = "EXIT",
        /// It has ended.
        Zombie = "ZOMBIE",
        /// The kernel has forgotten it.
        Dead = "DEAD",
        /// Its machine is suspended, whatever it was at.
        Suspended = "SUSPENDED",
    }
}

impl ThreadState {
    /// Is it the thread of a CPU?
    #[inline]
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
#[derive(Clone, Copy, Debug)]
pub(super) struct StackEntry {
    pub(super) is_trap: bool,
    /// `None` when its entry was not seen.
    pub(super) name: Option<CallName>,
    pub(super) since: Ns,
}

impl StackEntry {
    /// A trap, or a system call whose entry was not seen.
    pub(super) fn unseen(is_trap: bool) -> StackEntry {
        StackEntry { is_trap, name: None, since: 0 }
    }
}

/// The name of a thread for people: its number tells it from others of the same name, and is all there is where it has none.
///
/// ```
/// use tracemill_semantics::states::thread_title;
///
/// assert_eq!(thread_title(Some("oven-1"), 641), "oven-1 641");
/// assert_eq!(thread_title(None, 641), "641");
/// ```
pub fn thread_title(name: Option<&str>, tid: i64) -> String {
    name.map_or_else(|| tid.to_string(), |name| format!("{name} {tid}"))
}

/// A name of threads, which all threads of that name share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Comm(Arc<CompactText>);

/// The text of a name, after one more pointer: so a name takes one word in each thread instead of two.
#[derive(PartialEq, Eq, Hash, Debug)]
struct CompactText(Box<str>);

impl Comm {
    /// Are they one and the same? Of one [`Machines`](super::Machines), equal names are.
    #[inline]
    pub fn is_same(&self, other: &Comm) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<&str> for Comm {
    fn from(name: &str) -> Self {
        Comm(Arc::new(CompactText(name.into())))
    }
}

impl Deref for Comm {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.0
    }
}

impl Borrow<str> for Comm {
    fn borrow(&self) -> &str {
        self
    }
}

/// A number of a thread, in 32 bits when it fits; others are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CompactNumber {
    Pid,
    Ppid,
    Prio,
}

const NUMBERS: usize = 3;
/// Stands for a number that is not known.
const UNKNOWN: i32 = i32::MIN;
/// Stands for a number that is kept apart.
const WIDE: i32 = i32::MIN + 1;

/// A life of a thread: from the event that made it or named it first to its end. It is small: a trace may have many
/// millions of them, of which few live at a time.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its number.
    pub tid: i64,
    /// Its machine.
    pub machine: u32,
    /// Four times the number of its life, two more when it is known whether it is a thread of the kernel, one more when it is.
    life_and_kernel: u32,
    numbers: [i32; NUMBERS],
    /// One more than the index of the thread that made it, or 0.
    maker: u32,
    /// Its name.
    pub comm: Option<Comm>,
    pub(super) stage: Stage,
}

/// How far the life of a thread is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Living(Box<Live>),
    /// Dead since this time, in ns since the first event.
    Dead(u64),
    /// There is a newer life of the same number; it may have been dead before, since this time.
    Over(Option<u64>),
    /// One of the last two, of a thread with wide numbers.
    Wide(Box<Wide>),
}

/// The state that is kept of a thread with wide numbers that is dead or over.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    is_over: bool,
    dead_since: Option<u64>,
    numbers: [i64; NUMBERS],
}

#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    pub(super) base: Base,
    pub(super) stack: Vec<StackEntry>,
    pub(super) is_mode_known: bool,
    /// The CPU that it runs on.
    pub(super) running: Option<CpuIndex>,
    /// The CPU that it ran on last.
    pub(super) last_cpu: Option<CpuIndex>,
    /// The CPU that it ran on last or is queued on.
    pub(super) queued: Option<CpuIndex>,
    pub(super) woken: Option<Woken>,
    /// Is it known to stand in the queue of that CPU?
    pub(super) is_placed: bool,
    /// The time at which events proved last what it does off the CPU.
    pub(super) sure_at: Ns,
    /// When a switch, a wake or a fork named it last.
    pub(super) named_at: Option<Ns>,
    pub(super) has_exited: bool,
    pub(super) is_freed: bool,
    /// Has it had a state that is known?
    pub(super) had_state: bool,
    /// When events about it may have been lost last, so that what it was doing was forgotten.
    pub(super) forgotten_at: Option<Ns>,
    pub(super) piece: (Ns, Option<super::ThreadState>),
    /// Numbers that need more than 32 bits.
    pub(super) wide: Option<Box<[i64; NUMBERS]>>,
    /// The name of the last system call whose event stated it.
    pub(super) own_call: Option<Arc<str>>,
}

impl Thread {
    pub(super) fn new(machine: u32, tid: i64, life: u32, live: Live) -> Self {
        Thread {
            tid,
            machine,
            life_and_kernel: life << 2,
            numbers: [UNKNOWN; NUMBERS],
            maker: 0,
            comm: None,
            stage: Stage::Living(Box::new(live)),
        }
    }

    /// How many threads of this number there were before, as far as the trace shows.
    #[inline]
    pub fn life(&self) -> u32 {
        self.life_and_kernel >> 2
    }

    /// When events about it may have been lost last.
    pub fn forgotten_at(&self) -> Option<Ns> {
        self.live().and_then(|live| live.forgotten_at)
    }

    /// Is it known to be one of the kernel?
    #[inline]
    pub fn is_kernel(&self) -> bool {
        self.life_and_kernel & 1 != 0
    }

    /// Is it one of the kernel? `None` when nothing said so, nor the contrary.
    pub fn kernel(&self) -> Option<bool> {
        (self.life_and_kernel & 2 != 0).then(|| self.is_kernel())
    }

    pub(super) fn set_kernel(&mut self, is_kernel: bool) {
        self.life_and_kernel = self.life_and_kernel & !3 | 2 | u32::from(is_kernel);
    }

    pub(super) fn forget_kernel(&mut self) {
        self.life_and_kernel &= !3;
    }

    /// It made a system call, or ran a program: it is not one of the kernel, unless that is known.
    #[inline]
    pub(super) fn learn_user(&mut self) {
        if self.life_and_kernel & 2 == 0 {
            self.set_kernel(false);
        }
    }

    /// The thread that made it.
    pub fn creator(&self) -> Option<ThreadIndex> {
        self.maker.checked_sub(1).map(ThreadIndex)
    }

    pub(super) fn set_creator(&mut self, creator: Option<ThreadIndex>) {
        self.maker = creator.map_or(0, |creator| creator.0 + 1);
    }

    /// Its process.
    #[inline]
    pub fn pid(&self) -> Option<i64> {
        self.number(CompactNumber::Pid)
    }

    /// The parent of its process.
    pub fn ppid(&self) -> Option<i64> {
        self.number(CompactNumber::Ppid)
    }

    /// Its priority, as the trace counts.
    pub fn prio(&self) -> Option<i64> {
        self.number(CompactNumber::Prio)
    }

    #[inline]
    fn number(&self, which: CompactNumber) -> Option<i64> {
        match self.numbers[which as usize] {
            UNKNOWN => None,
            WIDE => self.wide().map(|wide| wide[which as usize]),
            number => Some(number.into()),
        }
    }

    fn wide(&self) -> Option<&[i64; NUMBERS]> {
        match &self.stage {
            Stage::Living(live) => live.wide.as_deref(),
            Stage::Wide(of) => Some(&of.numbers),
            Stage::Dead(_) | Stage::Over(_) => None,
        }
    }

    pub(super) fn set(&mut self, which: CompactNumber, number: Option<i64>) {
        let short = number.map(|number| i32::try_from(number).ok().filter(|number| *number > WIDE).unwrap_or(WIDE));
        let short = short.unwrap_or(UNKNOWN);
        self.numbers[which as usize] = short;
        if let (WIDE, Some(number)) = (short, number) {
            let (is_over, dead_since) = (!matches!(self.stage, Stage::Dead(_)), self.died());
            let wide = match &mut self.stage {
                Stage::Living(live) => live.wide.get_or_insert_default(),
                Stage::Wide(of) => &mut of.numbers,
                stage => {
                    *stage = Stage::Wide(Box::new(Wide { is_over, dead_since, numbers: [0; NUMBERS] }));
                    let Stage::Wide(of) = stage else { return };
                    &mut of.numbers
                }
            };
            wide[which as usize] = number;
        }
    }

    /// Takes a number, unless there is one.
    pub(super) fn learn(&mut self, which: CompactNumber, number: impl FnOnce() -> Option<i64>) {
        if self.numbers[which as usize] == UNKNOWN {
            self.set(which, number());
        }
    }

    #[inline]
    pub(super) fn live(&self) -> Option<&Live> {
        if let Stage::Living(live) = &self.stage { Some(live) } else { None }
    }

    #[inline]
    pub(super) fn live_mut(&mut self) -> Option<&mut Live> {
        if let Stage::Living(live) = &mut self.stage { Some(live) } else { None }
    }

    /// Since when it is dead, in ns since the first event, unless there is a newer life of its number.
    pub(super) fn dead_since(&self) -> Option<u64> {
        let is_over = match &self.stage {
            Stage::Wide(of) => of.is_over,
            stage => !matches!(stage, Stage::Dead(_)),
        };
        self.died().filter(|_| !is_over)
    }

    /// When it became dead, in ns since the first event.
    pub(super) fn died(&self) -> Option<u64> {
        match &self.stage {
            Stage::Dead(since) => Some(*since),
            Stage::Wide(of) => of.dead_since,
            Stage::Over(since) => *since,
            Stage::Living(_) => None,
        }
    }

    /// Ends its life: dead since a time, or over.
    pub(super) fn end(&mut self, since: Option<u64>) {
        let numbers = self.wide().copied().filter(|_| self.numbers.contains(&WIDE));
        let (is_over, dead_since) = (since.is_none(), since.or(self.died()));
        self.stage = match (numbers, since) {
            (Some(numbers), _) => Stage::Wide(Box::new(Wide { is_over, dead_since, numbers })),
            (None, Some(since)) => Stage::Dead(since),
            (None, None) => Stage::Over(dead_since),
        };
    }

    /// The CPU that it runs on, or ran on last.
    #[inline]
    pub fn last_cpu(&self) -> Option<CpuIndex> {
        self.live()?.last_cpu
    }

    /// The CPU that it runs on or is queued on; one that was asleep and is not placed yet has that on which it ran last.
    #[inline]
    pub fn queued(&self) -> Option<CpuIndex> {
        self.live()?.queued
    }

    /// The CPU that it runs on.
    #[inline]
    pub fn running(&self) -> Option<CpuIndex> {
        self.live()?.running
    }

    /// Since when it has its state; `None` when it is dead.
    pub fn state_since(&self) -> Option<Ns> {
        Some(self.live()?.piece.0)
    }

    /// State since the last event that changed it.
    #[inline]
    pub fn state(&self) -> ThreadState {
        self.live().and_then(|live| live.piece.1).unwrap_or(ThreadState::Dead)
    }
}

#[cfg(test)]
mod tests {
    use super::{CompactNumber, Live, Thread};

    #[test]
    fn threads_are_small_and_numbers_as_wide_as_they_come() {
        // Besides, the index of threads by their numbers has 5.4 to 6.7 bytes for each.
        assert!(size_of::<Thread>() <= 56, "{}", size_of::<Thread>());
        let edges = [i64::MIN, i64::from(i32::MIN), i64::from(i32::MIN) + 1, i64::from(i32::MIN) + 2, -1, 0, i64::MAX];
        for edge in edges {
            let mut thread = Thread::new(0, 7, 3, Live::default());
            thread.set_kernel(true);
            thread.set(CompactNumber::Pid, Some(edge));
            thread.learn(CompactNumber::Pid, || Some(5));
            for since in [Some(9), None] {
                assert_eq!((thread.pid(), thread.ppid(), thread.prio()), (Some(edge), None, None));
                thread.end(since);
                assert_eq!((thread.pid(), thread.dead_since(), thread.died()), (Some(edge), since, Some(9)));
                assert!(thread.live().is_none());
                // A priority is set whatever the thread does.
                thread.set(CompactNumber::Prio, Some(edge));
                assert_eq!((thread.pid(), thread.prio()), (Some(edge), Some(edge)));
                assert_eq!(thread.dead_since(), since);
                thread.set(CompactNumber::Prio, None);
            }
            assert_eq!((thread.life(), thread.is_kernel()), (3, true));
        }
    }
}
