//! CPUs whose events are not there, and what is not known for that reason (`docs/kernel.md`, section 2.6).
//!
//! While a CPU is unseen, a thread that runs nowhere else may be woken there, run, and come back. So what a thread does off
//! the CPU is known only where events prove it: a wake that names the CPU on which the thread went to sleep, and an event
//! that puts it on a CPU that is seen.

use std::collections::HashSet;

use super::cpu::Current;
use super::machine::{CpuIndex, LossKind, MAX_NAMED, Machines, Ns, PendingLoss, ThreadIndex};
use super::observer::Observer;
use super::thread::{Base, ThreadState};

/// Which CPUs of each machine are seen, and when.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    machines: Vec<MachineCoverage>,
    /// Was any CPU unseen so far? Most traces have all of them.
    has_any: bool,
}

#[derive(Debug, Default)]
struct MachineCoverage {
    /// The CPUs that have events, when all of them are known before the first one.
    recorded: Option<HashSet<u64>>,
    /// Do some wakes name the CPU on which the thread went to sleep?
    names_sleep: bool,
    /// CPUs that are unseen now.
    unseen: u32,
    /// The times at which some CPU was unseen, in their order; the last one may go on.
    partial: Vec<(Ns, Option<Ns>)>,
}

/// CPUs by their numbers; of many the first ones.
pub fn list_of_cpus(cpus: &[u64]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = cpus.iter().take(SHOWN).map(u64::to_string).collect();
    let (word, shown) = (if cpus.len() == 1 { "cpu" } else { "cpus" }, shown.join(", "));
    match cpus.len().saturating_sub(SHOWN) {
        0 => format!("{word} {shown}"),
        more => format!("{word} {shown} and {more} more"),
    }
}

/// The sentence about CPUs that were not seen all of the time.
pub fn missing_events(cpus: &[u64]) -> String {
    let cpus = list_of_cpus(cpus);
    format!("events of {cpus} are missing for some or all of the time; what may have happened there is unknown")
}

impl Coverage {
    fn machine_mut(&mut self, machine: u32) -> &mut MachineCoverage {
        let at = machine as usize;
        if self.machines.len() <= at {
            self.machines.resize_with(at + 1, MachineCoverage::default);
        }
        &mut self.machines[at]
    }

    /// The first time from an instant on at which some CPU of a machine was unseen.
    fn first_partial(&self, machine: u32, after: Ns) -> Option<Ns> {
        let partial = &self.machines.get(machine as usize)?.partial;
        let at = partial.partition_point(|(_, end)| end.is_some_and(|end| end <= after));
        partial.get(at).map(|(begin, _)| after.max(*begin))
    }
}

impl Machines {
    /// The CPUs of a machine that have events at all: others that an event names are unseen. `names_sleep`: do its wakes
    /// say on which CPU the thread went to sleep ([`Field::From`](crate::Field::From))?
    pub fn record_cpus(&mut self, machine: u32, recorded: impl IntoIterator<Item = u64>, names_sleep: bool) {
        let of = self.coverage.machine_mut(machine);
        of.recorded = Some(recorded.into_iter().collect());
        of.names_sleep = names_sleep;
    }

    /// The events of a CPU are there from one time to another, both included; without a time from the first event of the
    /// trace, or to its last one.
    pub fn cover_cpu(&mut self, machine: u32, cpu: u64, from: Option<Ns>, to: Option<Ns>) {
        if let Some(from) = from {
            self.miss_cpu(machine, cpu);
            self.push_loss(PendingLoss { at: from, kind: LossKind::SeenAgain, machine, cpu });
        }
        if let Some(to) = to {
            self.push_loss(PendingLoss { at: to, kind: LossKind::Unseen, machine, cpu });
        }
    }

    /// No event of a CPU is there.
    pub fn miss_cpu(&mut self, machine: u32, cpu: u64) {
        self.push_loss(PendingLoss { at: Ns::MIN, kind: LossKind::Unseen, machine, cpu });
    }

    /// The CPUs that were not seen all of the time: their machines and numbers, in their order.
    pub fn unseen_cpus(&self) -> Vec<(u32, u64)> {
        let unseen = self.cpus.iter().filter(|cpu| cpu.was_unseen).map(|cpu| (cpu.machine, cpu.number));
        let mut unseen: Vec<(u32, u64)> = unseen.collect();
        unseen.sort_unstable();
        unseen
    }

    /// An event of a CPU has come: it is seen, whatever was said of it.
    #[inline]
    pub fn meet_cpu(&mut self, cpu: CpuIndex) {
        if self.cpu(cpu).is_unseen {
            self.see_now(cpu);
        }
    }

    /// Are events of a CPU of a machine not there now?
    pub(super) fn has_unseen(&self, machine: u32) -> bool {
        self.coverage.machines.get(machine as usize).is_some_and(|of| of.unseen > 0)
    }

    /// A CPU that an event speaks of. One that was not recorded is unseen from the first event on.
    pub(super) fn named_cpu(&mut self, machine: u32, number: u64) -> CpuIndex {
        if let Some(known) = self.find_cpu(machine, number) {
            return known;
        }
        let cpu = self.cpu_or_new(machine, number);
        let is_missing = |recorded: &HashSet<u64>| !recorded.contains(&number);
        if self.coverage.machine_mut(machine).recorded.as_ref().is_some_and(is_missing) {
            let begin = self.begin.unwrap_or(self.now);
            self.begin_partial(cpu);
            self.coverage.machine_mut(machine).partial = vec![(begin, None)];
        }
        cpu
    }

    /// A CPU that an event speaks of, if it is known or unseen.
    pub(super) fn spoken_cpu(&mut self, machine: u32, number: u64) -> Option<CpuIndex> {
        let of = self.coverage.machine_mut(machine);
        let is_missing = number < MAX_NAMED && of.recorded.as_ref().is_some_and(|recorded| !recorded.contains(&number));
        if is_missing { Some(self.named_cpu(machine, number)) } else { self.find_cpu(machine, number) }
    }

    fn begin_partial(&mut self, cpu: CpuIndex) {
        let now = self.now;
        let of = &mut self.cpus[cpu.0 as usize];
        (of.is_unseen, of.was_unseen) = (true, true);
        let machine = of.machine;
        self.coverage.has_any = true;
        let of = self.coverage.machine_mut(machine);
        of.unseen += 1;
        if of.unseen == 1 {
            of.partial.push((now, None));
        }
    }

    /// From now on events of a CPU are not there.
    pub(super) fn unsee_now(&mut self, cpu: CpuIndex, observer: &mut (impl Observer + ?Sized)) {
        if !self.cpu(cpu).is_unseen {
            self.lose_now(cpu, observer);
            self.begin_partial(cpu);
        }
    }

    /// From now on events of a CPU are there.
    pub(super) fn see_now(&mut self, cpu: CpuIndex) {
        let now = self.now;
        let of = &mut self.cpus[cpu.0 as usize];
        if !std::mem::take(&mut of.is_unseen) {
            return;
        }
        // The thread that runs until the CPU's first switch may have run since now.
        of.unknown_since = (of.current == Current::Unknown).then_some(now);
        let machine = of.machine;
        let of = self.coverage.machine_mut(machine);
        of.unseen -= 1;
        if of.unseen == 0
            && let Some((_, end)) = of.partial.last_mut()
        {
            *end = Some(now);
        }
    }

    /// Since when it is not known what a thread did, as it may have run on a CPU that was unseen; `None` when it is known.
    pub(super) fn unsure_since(&self, thread: ThreadIndex) -> Option<Ns> {
        if !self.coverage.has_any {
            return None;
        }
        let of = self.thread(thread);
        let live = of.live()?;
        let is_sure = live.running.is_some() || matches!(live.base, Base::Unknown | Base::Dead);
        if is_sure { None } else { self.coverage.first_partial(of.machine, live.sure_at) }
    }

    /// Forgets what a thread did since it may have run on a CPU that was unseen.
    pub(super) fn forget_unsure(&mut self, thread: ThreadIndex, observer: &mut (impl Observer + ?Sized)) {
        let Some(since) = self.unsure_since(thread) else { return };
        let Some((from, state)) = self.thread(thread).live().map(|live| live.piece) else { return };
        self.report_thread_piece(thread, (from, since.min(self.now)), state, observer);
        if let Some(live) = self.live(thread) {
            live.piece = (since.max(from), Some(ThreadState::Unknown));
        }
        self.forget(thread, observer);
    }

    /// Is it known, where CPUs are unseen, that a thread that a switch runs was queued on its CPU all the time?
    pub(super) fn is_placed_on(&self, thread: ThreadIndex, cpu: CpuIndex) -> bool {
        let is_placed =
            |live: &super::thread::Live| live.base == Base::WaitCpu && live.is_placed && live.queued == Some(cpu);
        self.thread(thread).live().is_some_and(is_placed)
    }

    /// A wake of a thread, where CPUs are unseen: forgets what is not proven by it. `from` is the CPU on which it went to
    /// sleep, when the wake names that. Says whether the wake may be the first one since the thread ran.
    pub(super) fn check_wake(
        &mut self,
        thread: ThreadIndex,
        from: Option<i64>,
        waker: Option<ThreadIndex>,
        observer: &mut (impl Observer + ?Sized),
    ) -> bool {
        if self.unsure_since(thread).is_none() {
            return !self.coverage.has_any || from.is_some() || self.is_first_wake(thread);
        }
        let is_cpu = |cpu: Option<CpuIndex>| {
            cpu.is_some_and(|cpu| {
                from.is_some_and(|from| u64::try_from(from).is_ok_and(|from| from == self.cpu(cpu).number))
            })
        };
        let of = self.thread(thread);
        let names_sleep = self.coverage.machines.get(of.machine as usize).is_some_and(|of| of.names_sleep);
        let is_proven = of.live().is_some_and(|live| match live.base {
            Base::Wait => is_cpu(live.last_cpu),
            // A new thread cannot run before its parent wakes it.
            Base::WaitFork => waker.is_some() && waker == of.creator(),
            // Each sleep ends with one wake of a kind: the second one belongs to a sleep that was not seen.
            Base::WaitCpu if from.is_none() => names_sleep && live.woken.is_some(),
            Base::WaitCpu => live.is_placed && is_cpu(live.queued),
            _ => false,
        });
        let is_queued = self.base(thread) == Base::WaitCpu;
        if !is_proven {
            self.forget_unsure(thread, observer);
        }
        let now = self.now;
        if let Some(live) = self.live(thread).filter(|_| !is_proven || !is_queued) {
            live.sure_at = now;
        }
        is_proven || from.is_some() || self.is_first_wake(thread)
    }

    /// A thread moves to another CPU, where CPUs are unseen: one that was not where it is known to be was moved there unseen.
    pub(super) fn check_migration(
        &mut self,
        thread: ThreadIndex,
        from: Option<i64>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        if self.unsure_since(thread).is_none() {
            return;
        }
        let queued = self.thread(thread).live().and_then(|live| live.queued).map(|cpu| self.cpu(cpu).number);
        if from.is_some_and(|from| u64::try_from(from).ok() != queued) {
            self.forget_unsure(thread, observer);
        }
        if let Some(live) = self.live(thread) {
            live.is_placed = true;
        }
    }

    /// May a wake that does not name the CPU on which the thread slept be the first one? Otherwise one that does came before.
    fn is_first_wake(&self, thread: ThreadIndex) -> bool {
        let of = self.thread(thread);
        let names_sleep = self.coverage.machines.get(of.machine as usize).is_some_and(|of| of.names_sleep);
        !names_sleep || of.live().is_some_and(|live| live.base != Base::Unknown)
    }

    /// Forgets a thread that is queued on a CPU that is unseen: it may run there now.
    pub(super) fn leave_to_unseen(&mut self, thread: ThreadIndex, observer: &mut (impl Observer + ?Sized)) {
        let queued = self.thread(thread).live().and_then(|live| live.queued);
        if queued.is_some_and(|cpu| self.cpu(cpu).is_unseen) && !matches!(self.base(thread), Base::Zombie | Base::Dead)
        {
            self.forget(thread, observer);
        }
    }
}
