//! The rules of switches (`docs/kernel.md`, section 2.2): which thread leaves a CPU, which one comes, and who is credited.

use super::cpu::Current;
use super::machine::{ConceptValues, CpuIndex, Happening, Machines, ThreadIndex};
use super::observer::{Credit, Observer, RunEnd, Scheduled};
use super::thread::{Base, CompactNumber};
use crate::Field;

impl Machines {
    pub(super) fn switch(
        &mut self,
        machine: u32,
        cpu: CpuIndex,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let (prev, next) = match (happening.number(Field::Prev), happening.number(Field::Next)) {
            (Some(prev), Some(next)) => (prev, next),
            (None, Some(next)) if !happening.values.has(Field::Prev) => {
                return self.arrive(cpu, next, happening, observer);
            }
            (Some(prev), None) if !happening.values.has(Field::Next) => {
                return self.depart(cpu, prev, happening, observer);
            }
            _ => {
                self.counts.bad_fields += 1;
                return;
            }
        };
        let of = &mut self.cpus[cpu.0 as usize];
        self.counts.cleared_interrupts += of.stack.len() as u64;
        of.stack.clear();
        (of.timers, of.ipis) = (0, 0);
        let (current, unknown_since) = (of.current, of.unknown_since.take());
        let is_of_prev = |machines: &Machines| match current {
            Current::Unknown => true,
            Current::Idle => prev == 0,
            Current::Thread(thread) => machines.thread(thread).tid == prev,
        };
        let is_consistent = is_of_prev(self);
        if !is_consistent {
            self.counts.inconsistent_switches += 1;
            if let Current::Thread(thread) = current {
                self.forget(thread, observer);
            }
        }
        if prev != 0 {
            // The thread that runs is alive.
            let running = current.thread().filter(|_| is_consistent);
            let thread = running.unwrap_or_else(|| self.live_thread(machine, prev, observer));
            self.forget_unsure(thread, observer);
            if let Some(since) = unknown_since.filter(|_| is_consistent) {
                let named = self.live(thread).and_then(|live| live.named_at);
                let from = named.map_or(since, |named| named.max(since));
                if from < self.now {
                    self.report_credit(&Credit { cpu, thread, from, to: self.now }, observer);
                }
            }
            self.turn_from(thread, cpu, happening, observer);
        }
        self.give_cpu(cpu, next, happening, observer);
    }

    /// The thread that comes in a switch runs from now on; 0 is the idle one.
    #[inline]
    fn give_cpu(
        &mut self,
        cpu: CpuIndex,
        next: i64,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let machine = self.cpu(cpu).machine;
        let current = if next == 0 {
            Current::Idle
        } else {
            let thread = self.live_thread(machine, next, observer);
            if !self.is_placed_on(thread, cpu) {
                self.forget_unsure(thread, observer);
            }
            self.leave_other_cpu(thread, cpu, observer);
            self.turn_to(thread, cpu, happening, observer);
            Current::Thread(thread)
        };
        self.set_current(cpu, current, observer);
        observer.switched(self, cpu, current.thread(), self.now);
    }

    /// A switch that names only who comes. Who ran is not named: what it does from now on is not known.
    fn arrive(
        &mut self,
        cpu: CpuIndex,
        next: i64,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        self.clear_interrupts(cpu);
        if let Current::Thread(thread) = self.cpu(cpu).current {
            // It is no switch when the thread runs already.
            if self.thread(thread).tid == next {
                return self.refresh_cpu(cpu, observer);
            }
            self.forget(thread, observer);
        }
        self.give_cpu(cpu, next, happening, observer);
    }

    /// A switch that names only who goes. Without its state, it is not known whether it waits or could run.
    fn depart(
        &mut self,
        cpu: CpuIndex,
        prev: i64,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let unknown_since = self.cpu(cpu).unknown_since;
        self.clear_interrupts(cpu);
        let (machine, current) = (self.cpu(cpu).machine, self.cpu(cpu).current);
        if let Current::Thread(thread) = current
            && self.thread(thread).tid != prev
        {
            self.counts.inconsistent_switches += 1;
            self.forget(thread, observer);
        }
        self.cpus[cpu.0 as usize].unknown_since = Some(self.now);
        if prev != 0 {
            let thread = self.live_thread(machine, prev, observer);
            self.forget_unsure(thread, observer);
            if let Some(from) = unknown_since.filter(|from| current == Current::Unknown && *from < self.now) {
                self.report_credit(&Credit { cpu, thread, from, to: self.now }, observer);
            }
            self.turn_from(thread, cpu, happening, observer);
        }
        self.set_current(cpu, Current::Unknown, observer);
    }

    fn clear_interrupts(&mut self, cpu: CpuIndex) {
        let of = &mut self.cpus[cpu.0 as usize];
        self.counts.cleared_interrupts += of.stack.len() as u64;
        of.stack.clear();
        (of.timers, of.ipis) = (0, 0);
        of.unknown_since = None;
    }

    fn turn_from(
        &mut self,
        thread: ThreadIndex,
        cpu: CpuIndex,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        self.leave_other_cpu(thread, cpu, observer);
        let state = happening.number(Field::State).unwrap_or(0);
        self.rename_to(thread, happening, Field::PrevComm);
        let now = self.now;
        let Some(live) = self.live(thread) else { return };
        live.base = base_after(state, live.has_exited, live.is_freed, happening.is_legacy);
        // Its wake is kept when no event showed that it began to run: a wait ends with a switch to the thread.
        (live.running, live.last_cpu, live.named_at) = (None, Some(cpu), Some(now));
        (live.sure_at, live.is_placed) = (now, true);
        let has_state = happening.values.has(Field::State);
        let how = match live.base {
            _ if !has_state => RunEnd::Unknown,
            Base::WaitCpu => RunEnd::Preempted,
            Base::Wait => RunEnd::Blocked,
            _ => RunEnd::Ended,
        };
        self.queue(thread, cpu);
        observer.run_ended(self, thread, how, now);
        if !has_state {
            return self.forget(thread, observer);
        }
        self.settle(thread, observer);
    }

    /// Ends the piece of a thread that left its CPU, and keeps nothing but its name when it is dead.
    pub(super) fn settle(&mut self, thread: ThreadIndex, observer: &mut (impl Observer + ?Sized)) {
        self.refresh_thread(thread, observer);
        if self.base(thread) == Base::Dead
            && let Some(live) = self.live(thread)
        {
            live.stack = Vec::new();
            live.woken = None;
            self.discard_dead(thread);
        }
    }

    fn turn_to(
        &mut self,
        thread: ThreadIndex,
        cpu: CpuIndex,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        self.rename_to(thread, happening, Field::NextComm);
        let (now, prio) = (self.now, happening.number(Field::Prio));
        let Some(live) = self.live(thread) else { return };
        let (woken, last_cpu) = (live.woken, live.last_cpu);
        live.named_at = Some(now);
        if prio.is_some() {
            self.threads[thread.0 as usize].set(CompactNumber::Prio, prio);
        }
        self.run(thread, cpu);
        if let Some(woken) = woken {
            observer.scheduled(self, &Scheduled { woken, at: now, cpu, prio });
        }
        observer.run_began(self, thread, last_cpu.is_some_and(|last| last != cpu), now);
    }
}

/// Decision K6: what a thread does that a CPU has left.
fn base_after(state: i64, has_exited: bool, is_freed: bool, is_legacy: bool) -> Base {
    if is_freed || has_exited && is_legacy && state & 32 != 0 {
        return Base::Dead;
    }
    if has_exited && state & (16 | 32 | 64 | 128) != 0 {
        return Base::Zombie;
    }
    match state {
        0 if is_legacy => Base::WaitCpu,
        _ if is_legacy => Base::Wait,
        state if state & 15 != 0 => Base::Wait,
        state if state & (16 | 32) != 0 => Base::Zombie,
        state if state & (64 | 128) != 0 => Base::Wait,
        _ => Base::WaitCpu,
    }
}
