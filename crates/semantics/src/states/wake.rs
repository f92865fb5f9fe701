//! Wakes of threads, and what made them (`docs/kernel.md`, section 2.2).

use super::cpu::InterruptKind;
use super::machine::{ConceptValues, CpuIndex, Happening, Machines, ThreadIndex};
use super::observer::{Observer, Reason, Woken};
use super::thread::{Base, CompactNumber, ThreadState};
use crate::names::{IN_HARD_INTERRUPT, IN_SOFT_INTERRUPT};
use crate::{Concept, Field};

/// System calls that end with a timer or a signal, and with nothing else.
const SLEEPS: [&str; 2] = ["nanosleep", "clock_nanosleep"];

/// System calls that send signals.
const SIGNALS: [&str; 6] = ["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"];

impl Machines {
    pub(super) fn wake(
        &mut self,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Some(tid) = happening.number(Field::Tid).filter(|tid| *tid != 0) else { return };
        let known = self.find_thread(machine, tid);
        if known.is_some_and(|thread| self.base(thread) == Base::Run) {
            return;
        }
        let thread = self.live_thread(machine, tid, observer);
        self.learn_name(thread, happening);
        let now = self.now;
        let waker = cpu.and_then(|cpu| self.cpu(cpu).current.thread());
        let from = happening.number(Field::From);
        let may_be_first = self.check_wake(thread, from, waker, observer);
        let reason = cpu.map_or(Reason::Unknown, |cpu| self.reason(cpu, happening));
        let says_reason = happening.number(Field::Context).is_some();
        let woken = Woken { thread, at: now, cpu, waker, reason, says_reason };
        self.threads[thread.0 as usize].learn(CompactNumber::Prio, || happening.number(Field::Prio));
        let Some(live) = self.live(thread) else { return };
        live.named_at = Some(now);
        let is_first = live.woken.is_none() && may_be_first;
        if is_first {
            live.woken = Some(woken);
        }
        if matches!(live.base, Base::Wait | Base::WaitFork | Base::Unknown) {
            live.base = Base::WaitCpu;
        }
        let target = happening.number(Field::Cpu);
        // The CPU on which it slept is not the one where it will run.
        live.is_placed = from.is_none() && target.is_some();
        if let Some(number) = target {
            self.queue_on(thread, machine, number);
        }
        if is_first {
            observer.woken(self, &woken);
        }
        self.refresh_thread(thread, observer);
        self.leave_to_unseen(thread, observer);
    }

    /// Decision K7, of a wake that an event states: what the events before it show, and ftrace's own bits.
    fn reason(&self, cpu: CpuIndex, happening: &Happening<'_, impl ConceptValues>) -> Reason {
        let shown = self.shown_reason(cpu);
        let flags = happening.number(Field::Context).unwrap_or(0);
        if !matches!(shown, Reason::Thread | Reason::Unknown) {
            shown
        } else if flags & IN_HARD_INTERRUPT != 0 {
            // A wake that another CPU asked for ends in an interrupt of this one: a thread made it, and nothing says which.
            if happening.number(Field::From).is_some() { Reason::Irq } else { Reason::Unknown }
        } else if flags & IN_SOFT_INTERRUPT != 0 && !self.can_have(self.cpu(cpu).machine, &[Concept::SoftEntry]) {
            Reason::Softirq
        } else {
            shown
        }
    }

    /// Why a wait ended, by decision K16: for the reason of its wake, but for waits that only a timer ends, and for what a thread
    /// sends to another one of the same machine. To be asked when the wake is reported, and not later.
    pub fn ending_of(&self, woken: &Woken) -> Reason {
        let Some(cpu) = woken.cpu else { return woken.reason };
        match woken.reason {
            Reason::Network if woken.waker.is_some() && self.sender(cpu) == woken.waker => Reason::Thread,
            Reason::Irq | Reason::Unknown if self.sleeps(woken.thread) => Reason::Timer,
            Reason::Thread if !woken.says_reason && self.sleeps(woken.thread) && !self.may_signal(cpu) => Reason::Timer,
            reason => reason,
        }
    }

    /// The thread whose system call raised the soft interrupt that a CPU serves.
    fn sender(&self, cpu: CpuIndex) -> Option<ThreadIndex> {
        self.cpu(cpu).stack.last().and_then(|frame| frame.raise?.by)
    }

    /// The thread of a CPU, if it is in a system call and no interrupt has the CPU.
    pub(super) fn calling(&self, cpu: CpuIndex, happening: &Happening<'_, impl ConceptValues>) -> Option<ThreadIndex> {
        let is_interrupted =
            happening.number(Field::Context).is_some_and(|flags| flags & (IN_HARD_INTERRUPT | IN_SOFT_INTERRUPT) != 0);
        let thread = self.cpu(cpu).current.thread().filter(|_| !is_interrupted)?;
        let is_free = self.shown_reason(cpu) == Reason::Thread;
        (is_free && self.mode(thread) == ThreadState::RunSyscall).then_some(thread)
    }

    /// Does a thread wait for a time?
    fn sleeps(&self, thread: ThreadIndex) -> bool {
        self.open_calls(thread).last().is_some_and(|call| SLEEPS.iter().any(|name| call.starts_with(name)))
    }

    /// May the thread of a CPU be sending a signal? One that ends sends a signal to its parent.
    fn may_signal(&self, cpu: CpuIndex) -> bool {
        self.cpu(cpu).current.thread().is_some_and(|thread| {
            let sends = self.open_calls(thread).last().is_some_and(|call| SIGNALS.contains(&call));
            sends || self.thread(thread).live().is_some_and(|live| live.has_exited)
        })
    }

    /// Decision K7: what the events show.
    fn shown_reason(&self, cpu: CpuIndex) -> Reason {
        let of = self.cpu(cpu);
        if of.timers > 0 {
            return Reason::Timer;
        }
        if of.ipis > 0 {
            return Reason::Ipi;
        }
        match of.stack.last() {
            Some(frame) if frame.kind == InterruptKind::Softirq => match frame.number {
                1 | 8 => Reason::Timer,
                2 | 3 => Reason::Network,
                4 | 5 => Reason::Disk,
                _ => Reason::Softirq,
            },
            Some(_) => Reason::Irq,
            None if of.current.thread().is_some() => Reason::Thread,
            None => Reason::Unknown,
        }
    }
}
