//! Waits for locks of programs and of the kernel, and what is known of those that hold them.

use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Map, Ns, Reason, RunEnd, SystemCall, ThreadIndex, ThreadPiece, ThreadState, Woken,
};
use tracemill_semantics::{Concept, Field};

use super::held::{HeldLocks, Hold, MAX_LOCKS, OtherWait, Release, Taking};
use crate::kernel::aggregate::keys::NO_KEY;
use crate::kernel::analyses::locks::{FUTEX, WAITS, WAKES, operation_of};
use crate::kernel::analyses::occupancy::grown;

/// A lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lock {
    pub(super) machine: u32,
    pub(super) of: LockOf,
    pub(super) address: i128,
}

/// The events that name a lock, each by an address of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum LockOf {
    /// Calls of a program: its process.
    Program(i64),
    /// Waits for locks of the kernel.
    Kernel,
    /// The lock validator of the kernel.
    Lockdep,
}

impl Lock {
    /// Is it a lock of a program?
    pub(super) fn is_of_program(self) -> bool {
        matches!(self.of, LockOf::Program(_))
    }
}

/// Meaning of bits of `contention_begin` (`include/trace/events/lock.h`).
const SPIN: i128 = 1;
const READ: i128 = 2;
const WRITE: i128 = 4;
const RT: i128 = 8;
const PER_CPU: i128 = 16;
const MUTEX: i128 = 32;
const MUTEX_KIND: &str = "mutex";

/// The kind of a lock of the kernel.
fn kernel_kind(flags: Option<i128>) -> &'static str {
    match flags {
        None => "kernel",
        Some(0) => "semaphore",
        Some(SPIN) => "spinlock",
        Some(flags) if flags == SPIN | READ => "rwlock:R",
        Some(flags) if flags == SPIN | WRITE => "rwlock:W",
        Some(READ) => "rwsem:R",
        Some(WRITE) => "rwsem:W",
        Some(RT) => "rt-mutex",
        Some(flags) if flags == RT | READ => "rwlock-rt:R",
        Some(flags) if flags == RT | WRITE => "rwlock-rt:W",
        Some(flags) if flags == PER_CPU | READ => "pcpu-sem:R",
        Some(flags) if flags == PER_CPU | WRITE => "pcpu-sem:W",
        Some(flags) if flags & !SPIN == MUTEX => MUTEX_KIND,
        Some(_) => "kernel",
    }
}

/// A wait that has not ended.
#[derive(Clone)]
pub(super) struct OpenWait {
    pub(super) lock: Lock,
    pub(super) kind: &'static str,
    pub(super) name: Option<Rc<str>>,
    pub(super) from: Ns,
    /// Threads that wait for the lock when it begins, this one included.
    pub(super) at_once: u64,
    /// The thread that holds the lock when it begins.
    pub(super) holder: Option<ThreadIndex>,
    /// The thread that released the lock last, and when: by the wake that ended the last time that the thread was blocked in it, or by
    /// an event that says so.
    pub(super) release: Option<(ThreadIndex, Ns)>,
}

impl OpenWait {
    fn new(lock: Lock, kind: &'static str, from: Ns) -> OpenWait {
        OpenWait { lock, kind, name: None, from, at_once: 0, holder: None, release: None }
    }
}

/// A wait that ended.
pub(super) struct EndedWait {
    pub(super) thread: ThreadIndex,
    pub(super) cpu: Option<CpuIndex>,
    pub(super) open: OpenWait,
    pub(super) to: Ns,
}

/// A hold that ended.
pub(super) struct EndedHold {
    pub(super) thread: ThreadIndex,
    pub(super) cpu: Option<CpuIndex>,
    pub(super) lock: Lock,
    pub(super) name: Option<Rc<str>>,
    pub(super) hold: Hold,
    pub(super) to: Ns,
}

/// The name of the lock of an event.
fn name_of(happening: &Happening<'_>) -> Option<Rc<str>> {
    happening.text(Field::Name).map(|name| Rc::from(&*name))
}

/// Since when the states of threads are known without a break. Where no event can tell of switches, they never are: what a thread
/// does off the CPU is not known, and the events about it are all there unless some were lost.
#[derive(Default)]
struct KnownTimes {
    /// By the index of the thread: the end of its last piece, and the beginning of the first one before that without a hole.
    of: Vec<Option<(Ns, Ns)>>,
}

impl KnownTimes {
    fn on_thread_piece(&mut self, piece: &ThreadPiece) {
        let of = grown(&mut self.of, piece.thread.0 as usize);
        let since = of.filter(|(end, _)| *end == piece.from).map_or(piece.from, |(_, since)| since);
        *of = Some((piece.to, since));
    }

    fn since(&self, machines: &Machines, thread: ThreadIndex) -> Ns {
        let of = machines.thread(thread);
        if !machines.can_have(of.machine, &[Concept::Switch]) {
            return of.forgotten_at().unwrap_or(Ns::MIN);
        }
        let Some(state) = of.state_since() else { return Ns::MAX };
        let of = self.of.get(thread.0 as usize).copied().flatten();
        of.filter(|(end, _)| *end == state).map_or(state, |(_, since)| since)
    }
}

/// Waits for locks that have not ended.
#[derive(Default)]
pub(super) struct LockTracker {
    open: Map<(ThreadIndex, Lock), OpenWait>,
    /// Locks for which a thread waits: two where one of the kernel is met in a call for one of a program.
    locks_of: Map<ThreadIndex, Vec<Lock>>,
    /// The threads that wait for a lock.
    waiting: Map<Lock, Vec<OtherWait>>,
    /// Operations of calls that let others go on, and their locks.
    releases: Map<ThreadIndex, Lock>,
    held: HeldLocks,
    known: KnownTimes,
    /// The wait of a call that the present event ended.
    of_call: Option<EndedWait>,
    /// Waits that the present event ended.
    pub(super) ended: Vec<EndedWait>,
    /// The hold that the present event ended.
    pub(super) released: Option<EndedHold>,
}

impl LockTracker {
    fn begin(&mut self, thread: ThreadIndex, open: OpenWait) {
        let lock = open.lock;
        self.forget(thread, lock);
        let waiting = self.waiting.entry(lock).or_default();
        waiting.push((thread, open.from));
        let at_once = waiting.len() as u64;
        let holder = self.held.holder(lock, thread);
        self.held.wait_begins(thread, lock, at_once);
        self.open.insert((thread, lock), OpenWait { at_once, holder, ..open });
        let locks = self.locks_of.entry(thread).or_default();
        locks.push(lock);
        if locks.len() > MAX_LOCKS {
            let oldest = locks[0];
            self.forget(thread, oldest);
        }
    }

    /// Ends a wait without making it a span.
    fn forget(&mut self, thread: ThreadIndex, lock: Lock) -> Option<OpenWait> {
        let open = self.open.remove(&(thread, lock))?;
        if let Some(waiting) = self.waiting.get_mut(&lock) {
            waiting.retain(|(of, _)| *of != thread);
            if waiting.is_empty() {
                self.waiting.remove(&lock);
            }
        }
        if let Some(locks) = self.locks_of.get_mut(&thread) {
            locks.retain(|own| *own != lock);
            if locks.is_empty() {
                self.locks_of.remove(&thread);
            }
        }
        Some(open)
    }

    /// Forgets all locks of a thread.
    fn forget_all(&mut self, thread: ThreadIndex) {
        self.forget_before(thread, Ns::MAX);
        self.releases.remove(&thread);
    }

    /// Forgets the locks of a thread that it waits for, or holds, since before a time.
    fn forget_before(&mut self, thread: ThreadIndex, time: Ns) {
        for lock in self.locks_of.get(&thread).cloned().unwrap_or_default() {
            if self.open.get(&(thread, lock)).is_some_and(|open| open.from < time) {
                self.forget(thread, lock);
            }
        }
        self.held.forget(thread, time);
    }

    fn end(&mut self, thread: ThreadIndex, lock: Lock, cpu: Option<CpuIndex>, to: Ns) -> Option<EndedWait> {
        let open = self.forget(thread, lock)?;
        self.held.wait_ended(thread, lock, (open.from, to));
        Some(EndedWait { thread, cpu, open, to })
    }

    fn waits(&self, lock: Lock) -> Vec<OtherWait> {
        self.waiting.get(&lock).cloned().unwrap_or_default()
    }

    /// Number of waits that have not ended.
    pub(super) fn open_waits(&self, is_wanted: impl Fn(ThreadIndex) -> bool) -> u64 {
        self.open.keys().filter(|(thread, _)| is_wanted(*thread)).count() as u64
    }

    /// Number of holds that have not ended.
    pub(super) fn open_holds(&self, is_wanted: impl Fn(ThreadIndex) -> bool) -> u64 {
        self.held.held_by(is_wanted)
    }

    /// The lock of a call of `futex`, which is one of a process.
    fn futex(machines: &Machines, thread: ThreadIndex, happening: &Happening<'_>) -> Option<(i128, Lock)> {
        let of = machines.thread(thread);
        let (operation, address) = (operation_of(happening)?, happening.values.integer(Field::Uaddr)?);
        let process = LockOf::Program(of.pid().unwrap_or(NO_KEY));
        Some((operation, Lock { machine: of.machine, of: process, address }))
    }

    /// A thread spent time in one state.
    pub(super) fn on_thread_piece(&mut self, piece: &ThreadPiece) {
        self.known.on_thread_piece(piece);
    }

    /// A system call began.
    pub(super) fn on_call(
        &mut self,
        machines: &Machines,
        thread: ThreadIndex,
        name: &str,
        happening: &Happening<'_>,
        from: Ns,
    ) {
        // A wait whose exit was lost is no span, and a program runs without a lock of the kernel.
        self.forget_all(thread);
        if name != FUTEX {
            return;
        }
        match LockTracker::futex(machines, thread, happening) {
            Some((operation, lock)) if WAITS.contains(&operation) => {
                self.begin(thread, OpenWait::new(lock, FUTEX, from));
            }
            Some((operation, lock)) if WAKES.contains(&operation) => drop(self.releases.insert(thread, lock)),
            _ => {}
        }
    }

    /// A system call ended.
    pub(super) fn on_call_end(&mut self, call: &SystemCall<'_>) {
        self.releases.remove(&call.thread);
        let locks = self.locks_of.get(&call.thread).cloned().unwrap_or_default();
        if let Some(lock) = locks.into_iter().find(|lock| lock.is_of_program()) {
            self.of_call = self.end(call.thread, lock, Some(call.cpu), call.to);
        }
    }

    /// A thread left its CPU.
    pub(super) fn on_run_end(&mut self, thread: ThreadIndex, how: RunEnd) {
        match how {
            RunEnd::Blocked => {
                for lock in self.locks_of.get(&thread).into_iter().flatten() {
                    if let Some(open) = self.open.get_mut(&(thread, *lock))
                        && lock.of != LockOf::Lockdep
                    {
                        open.release = None;
                    }
                }
            }
            RunEnd::Ended => self.forget_all(thread),
            RunEnd::Preempted | RunEnd::Unknown => {}
        }
    }

    /// A thread was woken.
    pub(super) fn on_wake(&mut self, machines: &Machines, woken: &Woken) {
        let Some(waker) = woken.waker.filter(|_| woken.reason == Reason::Thread) else { return };
        if machines.thread(woken.thread).state() != ThreadState::Wait {
            return;
        }
        // Of several locks, the thread waits for the last one.
        let Some(lock) = self.locks_of.get(&woken.thread).and_then(|locks| locks.last()).copied() else { return };
        let is_released = match lock.of {
            LockOf::Program(_) => self.releases.get(&waker) == Some(&lock),
            LockOf::Kernel => true,
            // An event says so.
            LockOf::Lockdep => false,
        };
        if let Some(open) = self.open.get_mut(&(woken.thread, lock)).filter(|_| is_released) {
            open.release = Some((waker, woken.at));
        }
    }

    /// An event of a concept was taken: the last of all that is done for an event.
    pub(super) fn on_applied(
        &mut self,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_>,
        at: Ns,
    ) {
        self.ended.clear();
        self.ended.extend(self.of_call.take());
        self.released = None;
        use Concept::{ContendBegin, ContendEnd, LockAcquire, LockAcquired, LockContended, LockRelease};
        let of = match happening.concept {
            ContendBegin | ContendEnd => LockOf::Kernel,
            LockAcquire | LockContended | LockAcquired | LockRelease => LockOf::Lockdep,
            _ => return,
        };
        let Some(address) = happening.values.integer(Field::Uaddr) else { return };
        let lock = Lock { machine, of, address };
        let Some(thread) = cpu.and_then(|cpu| machines.cpu(cpu).current().thread()) else {
            // An idle CPU, or one whose thread is not known, has released it.
            if happening.concept == LockRelease {
                let of = self.end_hold_of_other(machines, cpu, lock, happening, at);
                self.note_release(lock, of, at);
            }
            return;
        };
        // A lost event may have been the end of a wait, or of a hold.
        self.forget_before(thread, self.known.since(machines, thread));
        let can_have = |concept| machines.can_have(machine, &[concept]);
        match happening.concept {
            ContendBegin => {
                let kind = kernel_kind(happening.values.integer(Field::Op));
                // Where lockdep shows waits, it shows this one too, with its name and its holder.
                if can_have(LockContended)
                    && let Some(same) = self.held.attempt_at(thread, address, kind)
                {
                    if let Some(open) = self.open.get_mut(&(thread, same)) {
                        open.kind = kind;
                    }
                    return;
                }
                // A thread that waits for a mutex says so again when it begins to spin for it, and when it ends that.
                if kind == MUTEX_KIND && self.open.get(&(thread, lock)).is_some_and(|open| open.kind == kind) {
                    return;
                }
                self.begin(thread, OpenWait::new(lock, kind, at));
            }
            ContendEnd => self.end_wait(thread, lock, cpu, at),
            LockAcquire => {
                let taking = Taking(happening.values.integer(Field::Op).unwrap_or(0));
                self.held.acquire(thread, lock, taking, at, (can_have(LockAcquired), &self.waits(lock)));
            }
            LockContended => {
                let kind = self.held.contend(thread, lock, at);
                self.begin(thread, OpenWait { name: name_of(happening), ..OpenWait::new(lock, kind, at) });
            }
            LockAcquired => {
                self.end_wait(thread, lock, cpu, at);
                self.held.acquired(thread, lock, at, (can_have(LockAcquire), &self.waits(lock)));
            }
            _ => {
                self.end_wait(thread, lock, cpu, at);
                match self.held.release(thread, lock, at, &self.waits(lock)) {
                    Release::Hold(hold) => {
                        self.released = Some(EndedHold { thread, cpu, lock, name: name_of(happening), hold, to: at });
                        self.note_release(lock, Some(thread), at);
                    }
                    Release::Unseen => {
                        let of = self.end_hold_of_other(machines, cpu, lock, happening, at).unwrap_or(thread);
                        self.note_release(lock, Some(of), at);
                    }
                    Release::GivenUp | Release::Held => {}
                }
            }
        }
    }

    /// A lock is released by a thread that does not hold it, so that the hold of the one that has it for itself ends. The lock
    /// of a CPU's queue is released so: the thread that takes it to leave the CPU has left it when the release comes.
    fn end_hold_of_other(
        &mut self,
        machines: &Machines,
        cpu: Option<CpuIndex>,
        lock: Lock,
        happening: &Happening<'_>,
        to: Ns,
    ) -> Option<ThreadIndex> {
        let thread = self.held.only_holder(lock)?;
        self.forget_before(thread, self.known.since(machines, thread));
        let hold = self.held.release_for(thread, lock, to, &self.waits(lock))?;
        self.released = Some(EndedHold { thread, cpu, lock, name: name_of(happening), hold, to });
        Some(thread)
    }

    fn end_wait(&mut self, thread: ThreadIndex, lock: Lock, cpu: Option<CpuIndex>, to: Ns) {
        let ended = self.end(thread, lock, cpu, to);
        self.ended.extend(ended);
    }

    /// A lock was released, while others may wait for it.
    fn note_release(&mut self, lock: Lock, by: Option<ThreadIndex>, at: Ns) {
        for (thread, _) in self.waiting.get(&lock).into_iter().flatten() {
            if let Some(open) = self.open.get_mut(&(*thread, lock)) {
                open.release = by.map(|by| (by, at));
            }
        }
    }
}
