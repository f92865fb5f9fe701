//! The rules of `docs/kernel.md`, section 2.2: what an event of each concept changes.

use super::calls::{CallName, own_name};
use super::cpu::{Current, InterruptKind, Interruption as CpuFrame, MAX_FRAMES, SoftRaise};
use super::machine::{ConceptValues, CpuIndex, Happening, Machines, Ns, ThreadIndex};
use super::observer::{Interrupt, Observer, SystemCall};
use super::thread::{Base, CompactNumber, StackEntry};
use crate::{Concept, Field};

/// The thread whose children are threads of the kernel.
const KTHREADD: i64 = 2;

/// System calls that do not return.
const ENDING_CALLS: [&str; 2] = ["exit", "exit_group"];

/// Soft interrupts of a CPU that wait to be served, by number, at most.
const MAX_RAISES: usize = 64;

/// Bytes of a thread's name that the kernel keeps.
const COMM_BYTES: usize = 15;

impl Machines {
    /// Takes an event of a concept. Events come in the order of time; one whose time goes back has that of the last.
    pub fn apply_event(
        &mut self,
        machine: u32,
        ns: Ns,
        cpu: Option<u64>,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let cpu = self.touch(machine, ns, cpu, observer);
        self.apply(machine, cpu, happening, observer);
    }

    /// Takes what an event says whose time was taken by [`touch`](Self::touch).
    pub fn apply(
        &mut self,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        match (happening.concept, cpu) {
            (Concept::Switch, Some(cpu)) => self.switch(machine, cpu, happening, observer),
            (Concept::Wake, _) => self.wake(machine, cpu, happening, observer),
            (Concept::Migrate, _) => self.migrate(machine, happening, observer),
            (Concept::Fork, _) => self.fork(machine, happening, observer),
            (Concept::Exec, _) => self.exec(machine, cpu, happening, observer),
            (Concept::Exit, _) => self.exit(machine, happening, observer),
            (Concept::Free, _) => self.free(machine, happening, observer),
            (Concept::Prio, _) => {
                let thread = happening.number(Field::Tid).and_then(|tid| self.find_thread(machine, tid));
                if let (Some(thread), Some(prio)) = (thread, happening.number(Field::Prio)) {
                    self.threads[thread.0 as usize].set(CompactNumber::Prio, Some(prio));
                }
            }
            (Concept::IrqEntry, Some(cpu)) => self.enter(cpu, InterruptKind::Irq, happening, observer),
            (Concept::SoftEntry, Some(cpu)) => self.enter(cpu, InterruptKind::Softirq, happening, observer),
            (Concept::IrqExit, Some(cpu)) => self.leave(cpu, InterruptKind::Irq, happening, observer),
            (Concept::SoftExit, Some(cpu)) => self.leave(cpu, InterruptKind::Softirq, happening, observer),
            (Concept::SoftRaise, Some(cpu)) => self.raise(cpu, happening),
            (Concept::TimerEntry, Some(cpu)) => self.cpus[cpu.0 as usize].timers = 1,
            (Concept::TimerExit, Some(cpu)) => self.cpus[cpu.0 as usize].timers = 0,
            (Concept::IpiEntry, Some(cpu)) => self.cpus[cpu.0 as usize].ipis = 1,
            (Concept::IpiExit, Some(cpu)) => self.cpus[cpu.0 as usize].ipis = 0,
            (Concept::SysEntry, Some(cpu)) => self.call(cpu, happening, observer),
            (Concept::SysExit, Some(cpu)) => self.ret(cpu, happening, observer),
            (Concept::TrapEntry, Some(cpu)) if self.cpu(cpu).stack.is_empty() => {
                if let Current::Thread(thread) = self.cpu(cpu).current
                    && let Some(live) = self.live(thread)
                {
                    if live.stack.len() < MAX_FRAMES {
                        live.stack.push(StackEntry::unseen(true));
                    } else {
                        self.counts.too_deep += 1;
                    }
                    self.refresh_cpu(cpu, observer);
                }
            }
            (Concept::TrapEntry, Some(cpu)) => self.enter(cpu, InterruptKind::Trap, happening, observer),
            (Concept::TrapExit, Some(cpu)) => self.leave_trap(cpu, observer),
            (Concept::DumpTask, _) => self.dump_task(machine, happening, observer),
            (Concept::Suspend, _) => self.suspend(machine, cpu, happening),
            (Concept::Frequency, _) => {
                let number = happening.number(Field::Cpu).and_then(|number| u64::try_from(number).ok());
                if let Some(cpu) = number.and_then(|number| self.spoken_cpu(machine, number)) {
                    self.cpus[cpu.0 as usize].khz = happening.number(Field::Khz);
                }
            }
            _ => {}
        }
        observer.applied(self, machine, cpu, &happening.for_observers(), self.now);
    }

    /// A context names the thread that runs, or its namespaces.
    pub fn running(
        &mut self,
        cpu: CpuIndex,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        self.learn_running(cpu, happening, observer);
        if happening.values.has(Field::CgroupNs) || happening.values.has(Field::PidNs) {
            observer.context(self, cpu, &happening.for_observers());
        }
    }

    /// The thread of a context is used where nothing else says which one runs (decision K9).
    fn learn_running(
        &mut self,
        cpu: CpuIndex,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let (machine, current) = (self.cpu(cpu).machine, self.cpu(cpu).current);
        // Most traces have switches: their events do not look up what they can have.
        let has_switches = !self.has_unswitched || self.can_have(machine, &[Concept::Switch]);
        if current != Current::Unknown && has_switches {
            return;
        }
        let Some(tid) = happening.number(Field::Tid).or_else(|| self.tid_in_namespace(machine, happening)) else {
            return;
        };
        match current {
            Current::Thread(thread) if self.thread(thread).tid == tid => return,
            Current::Thread(thread) => self.displace(thread, observer),
            _ => {}
        }
        // From here on the thread is known; who ran before is not credited by a later switch.
        self.cpus[cpu.0 as usize].unknown_since = None;
        if tid == 0 {
            self.set_current(cpu, Current::Idle, observer);
            return;
        }
        let thread = self.live_thread(machine, tid, observer);
        self.forget_unsure(thread, observer);
        self.leave_other_cpu(thread, cpu, observer);
        self.threads[thread.0 as usize].learn(CompactNumber::Pid, || happening.number(Field::Pid));
        self.learn_name(thread, happening);
        self.run(thread, cpu);
        self.set_current(cpu, Current::Thread(thread), observer);
    }

    /// Another thread runs on the CPU of one, and no event says since when. What the thread was doing goes on when it runs again:
    /// no event is missing.
    fn displace(&mut self, thread: ThreadIndex, observer: &mut (impl Observer + ?Sized)) {
        let Some(live) = self.live(thread) else { return };
        (live.base, live.running, live.woken) = (Base::Unknown, None, None);
        self.refresh_thread(thread, observer);
    }

    /// The thread that a program's own events name, as its namespace calls it: only a state dump says which one it is.
    fn tid_in_namespace(&self, machine: u32, happening: &Happening<'_, impl ConceptValues>) -> Option<i64> {
        let (vtid, vpid) = (happening.number(Field::Vtid)?, happening.number(Field::Vpid));
        let thread = self.thread((*self.by_vtid.get(&(machine, vtid, vpid))?)?);
        // Its namespace may call another thread by that number when it has ended.
        thread.live().map(|_| thread.tid)
    }

    pub(super) fn run(&mut self, thread: ThreadIndex, cpu: CpuIndex) {
        if let Some(live) = self.live(thread) {
            live.base = Base::Run;
            (live.running, live.last_cpu, live.woken) = (Some(cpu), Some(cpu), None);
        }
        self.queue(thread, cpu);
    }

    /// When another CPU has a thread still, the thread of that CPU becomes unknown.
    pub(super) fn leave_other_cpu(
        &mut self,
        thread: ThreadIndex,
        cpu: CpuIndex,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Some(live) = self.live(thread) else { return };
        if let Some(other) = live.running.filter(|other| *other != cpu) {
            live.running = None;
            self.set_current(other, Current::Unknown, observer);
        }
    }

    /// Gives a thread without a name that of an event.
    pub(super) fn learn_name(&mut self, thread: ThreadIndex, happening: &Happening<'_, impl ConceptValues>) {
        if self.threads[thread.0 as usize].comm.is_none()
            && let Some(comm) = happening.text(Field::Comm)
        {
            self.rename(thread, &comm);
        }
    }

    /// Gives a thread the name in a field; names rarely change.
    pub(super) fn rename_to(
        &mut self,
        thread: ThreadIndex,
        happening: &Happening<'_, impl ConceptValues>,
        field: Field,
    ) {
        let known = self.threads[thread.0 as usize].comm.as_deref();
        if known.is_some_and(|comm| happening.values.is_text(field, comm)) {
            return;
        }
        if let Some(comm) = happening.text(field) {
            self.rename(thread, &comm);
        }
    }

    fn rename(&mut self, thread: ThreadIndex, comm: &str) {
        if self.threads[thread.0 as usize].comm.as_deref() != Some(comm) {
            let name = self.name(comm);
            self.threads[thread.0 as usize].comm = Some(name);
        }
    }

    fn migrate(
        &mut self,
        machine: u32,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let (Some(tid), Some(cpu)) = (happening.number(Field::Tid), happening.number(Field::Cpu)) else { return };
        if tid == 0 {
            return;
        }
        let thread = self.thread_or_new(machine, tid, observer);
        if self.base(thread) == Base::Run {
            return;
        }
        self.check_migration(thread, happening.number(Field::From), observer);
        self.queue_on(thread, machine, cpu);
        self.leave_to_unseen(thread, observer);
    }

    fn fork(
        &mut self,
        machine: u32,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let (Some(parent_tid), Some(tid)) = (happening.number(Field::Parent), happening.number(Field::Child)) else {
            return;
        };
        if tid == 0 {
            return;
        }
        let parent = (parent_tid != 0).then(|| self.thread_or_new(machine, parent_tid, observer));
        let child = match self.find_thread(machine, tid) {
            Some(known)
                if happening.is_legacy && !matches!(self.base(known), Base::Unknown | Base::Zombie | Base::Dead) =>
            {
                return;
            }
            Some(known) if self.base(known) == Base::Unknown && !self.has_had_state(known) => known,
            Some(_) => self.new_life(machine, tid, observer),
            None => self.new_life(machine, tid, observer),
        };
        let of_parent = parent.map(|parent| self.thread(parent));
        let mut said = (happening.number(Field::Pid), happening.number(Field::Ppid));
        // An event of perf.data that comes first names the processes, where this one does not.
        if let (None, None, Some(pid), Some(ppid)) =
            (said.0, said.1, self.thread(child).pid(), self.thread(child).ppid())
            && of_parent.is_some_and(|parent| parent.pid().is_none_or(|known| known == ppid))
        {
            said = (Some(pid), Some(ppid));
        }
        let (pid, said_ppid) = said;
        let parent_pid = said_ppid.or(of_parent.and_then(|parent| parent.pid()));
        let kernel = if parent_tid == KTHREADD { Some(true) } else { of_parent.and_then(|parent| parent.kernel()) };
        let is_kernel = kernel == Some(true);
        // Only an event that names the processes of both tells a thread from a process. Legacy events name that of the child
        // alone: there, a thread is a child of the thread that made it, whatever a dump says of that one's process.
        let is_thread = pid.is_some() && pid == said_ppid;
        let ppid = if is_thread { of_parent.and_then(|parent| parent.ppid()) } else { parent_pid.or(Some(parent_tid)) };
        let comm = of_parent.and_then(|parent| parent.comm.clone());
        let comm = happening.text(Field::Comm).map(|comm| self.name(&comm)).or(comm);
        if let (Some(parent), Some(pid)) = (parent, parent_pid) {
            let of = &mut self.threads[parent.0 as usize];
            of.learn(CompactNumber::Pid, || Some(pid));
        }
        let of = &mut self.threads[child.0 as usize];
        of.comm = comm;
        of.set(CompactNumber::Pid, pid);
        of.set(CompactNumber::Ppid, ppid);
        of.set_creator(parent);
        of.forget_kernel();
        kernel.into_iter().for_each(|kernel| of.set_kernel(kernel));
        let now = self.now;
        if let Some(live) = self.live(child) {
            live.base = Base::WaitFork;
            live.is_mode_known = true;
            // An end that was seen of a thread of which nothing else is known was that of another one.
            (live.has_exited, live.is_freed) = (false, false);
            (live.named_at, live.sure_at) = (Some(now), now);
            live.stack.clear();
            if !is_kernel {
                live.stack.push(StackEntry::unseen(false));
            }
        }
        observer.forked(self, parent, child, now);
        self.refresh_thread(child, observer);
    }

    /// Has a life had a state that is known?
    fn has_had_state(&self, thread: ThreadIndex) -> bool {
        self.thread(thread).live().is_none_or(|live| live.had_state)
    }

    fn exec(
        &mut self,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let running = cpu.and_then(|cpu| self.cpu(cpu).current.thread());
        let thread = match happening.number(Field::Tid) {
            Some(0) => None,
            Some(tid) => Some(self.thread_or_new(machine, tid, observer)),
            None => running,
        };
        let (Some(thread), Some(name)) = (thread, happening.text(Field::Name)) else { return };
        self.threads[thread.0 as usize].learn_user();
        if happening.is_legacy {
            self.rename(thread, &name);
            return;
        }
        let last = name.rsplit('/').next().unwrap_or_default();
        let end = (0..=COMM_BYTES.min(last.len())).rev().find(|&end| last.is_char_boundary(end)).unwrap_or(0);
        self.rename(thread, &last[..end]);
    }

    fn exit(
        &mut self,
        machine: u32,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Some(tid) = happening.number(Field::Tid).filter(|tid| *tid != 0) else { return };
        let thread = self.thread_or_new(machine, tid, observer);
        let Some(live) = self.live(thread) else { return };
        live.has_exited = true;
        if live.stack.is_empty() {
            live.stack.push(StackEntry::unseen(false));
        }
        match live.running {
            Some(cpu) => self.refresh_cpu(cpu, observer),
            None => self.refresh_thread(thread, observer),
        }
    }

    fn free(
        &mut self,
        machine: u32,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Some(tid) = happening.number(Field::Tid).filter(|tid| *tid != 0) else { return };
        let thread = self.thread_or_new(machine, tid, observer);
        let Some(live) = self.live(thread) else { return };
        live.is_freed = true;
        if live.running.is_none() {
            live.base = Base::Dead;
            self.settle(thread, observer);
        }
    }

    fn call(
        &mut self,
        cpu: CpuIndex,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Current::Thread(thread) = self.cpu(cpu).current else { return };
        let of_class = self.calls.name_of_class(happening.values);
        let now = self.now;
        let Some(live) = self.live(thread) else { return };
        let name = of_class.unwrap_or_else(|| {
            live.own_call = Some(own_name(happening.values));
            CallName::Own
        });
        let before = live.stack.len();
        if before > 0 {
            live.stack.retain(|frame| frame.is_trap);
        }
        let replaced = (before - live.stack.len()) as u64;
        live.stack.push(StackEntry { is_trap: false, name: Some(name), since: now });
        live.is_mode_known = true;
        self.counts.replaced_syscalls += replaced;
        self.threads[thread.0 as usize].learn_user();
        observer.call_began(self, thread, self.call_text(thread, name), &happening.for_observers(), now);
        self.refresh_cpu(cpu, observer);
    }

    fn ret(
        &mut self,
        cpu: CpuIndex,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Current::Thread(thread) = self.cpu(cpu).current else { return };
        let now = self.now;
        self.threads[thread.0 as usize].learn_user();
        let Some(live) = self.live(thread) else { return };
        live.is_mode_known = true;
        let Some(at) = live.stack.iter().rposition(|frame| !frame.is_trap) else {
            self.counts.unmatched_syscall_exits += 1;
            return self.refresh_cpu(cpu, observer);
        };
        let StackEntry { name, since: from, .. } = live.stack[at];
        live.stack.truncate(at);
        if let Some(name) = name {
            let (name, ret) = (self.call_text(thread, name), happening.number(Field::Ret));
            let call = SystemCall { thread, name, cpu, from, to: now, ret };
            observer.call_ended(self, &call, &happening.for_observers());
        }
        self.refresh_cpu(cpu, observer);
    }

    fn raise(&mut self, cpu: CpuIndex, happening: &Happening<'_, impl ConceptValues>) {
        let Some(number) = happening.number(Field::Nr) else { return };
        let (at, by) = (self.now, self.calling(cpu, happening));
        let raises = &mut self.cpus[cpu.0 as usize].raises;
        match raises.iter().position(|known| known.number == number) {
            Some(known) => raises[known].by = by.filter(|by| raises[known].by == Some(*by)),
            None if raises.len() < MAX_RAISES => raises.push(SoftRaise { number, at, by }),
            None => {}
        }
    }

    fn enter(
        &mut self,
        cpu: CpuIndex,
        kind: InterruptKind,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let since = self.now;
        let number = happening.number(Field::Nr).unwrap_or(-1);
        let of = &mut self.cpus[cpu.0 as usize];
        let raise = of.raises.iter().position(|raise| kind == InterruptKind::Softirq && raise.number == number);
        let raise = raise.map(|at| of.raises.swap_remove(at));
        if of.stack.len() >= MAX_FRAMES {
            self.counts.too_deep += 1;
            return;
        }
        let name = happening.text(Field::Name).map(|name| name.into());
        of.stack.push(CpuFrame { kind, number, since, name, raise });
        self.refresh_cpu(cpu, observer);
    }

    fn leave(
        &mut self,
        cpu: CpuIndex,
        kind: InterruptKind,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let number = happening.number(Field::Nr);
        let of = &mut self.cpus[cpu.0 as usize];
        let is_it = |frame: &CpuFrame| frame.kind == kind && number.is_none_or(|number| number == frame.number);
        let Some(at) = of.stack.iter().rposition(is_it) else {
            self.counts.unmatched_irq_exits += 1;
            return;
        };
        let frame = of.stack.swap_remove(at);
        of.stack.truncate(at);
        let (to, name) = (self.now, frame.name.as_deref());
        let CpuFrame { number, since: from, raise, .. } = frame;
        let raised = raise.map(|raise| raise.at);
        observer.interrupt(self, &Interrupt { kind, number, name, cpu, from, to, raised });
        self.refresh_cpu(cpu, observer);
    }

    fn leave_trap(&mut self, cpu: CpuIndex, observer: &mut (impl Observer + ?Sized)) {
        let stack = &mut self.cpus[cpu.0 as usize].stack;
        if let Some(at) = stack.iter().rposition(|frame| frame.kind == InterruptKind::Trap) {
            stack.truncate(at);
        } else if stack.is_empty()
            && let Current::Thread(thread) = self.cpu(cpu).current
            && let Some(live) = self.live(thread)
            && let Some(at) = live.stack.iter().rposition(|frame| frame.is_trap)
        {
            live.stack.truncate(at);
        }
        self.refresh_cpu(cpu, observer);
    }

    fn dump_task(
        &mut self,
        machine: u32,
        happening: &Happening<'_, impl ConceptValues>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Some(tid) = happening.number(Field::Tid).filter(|tid| *tid != 0) else { return };
        let thread = self.thread_or_new(machine, tid, observer);
        if let Some(vtid) = happening.number(Field::Vtid) {
            // A context may name the thread without its process.
            for vpid in [happening.number(Field::Vpid), None] {
                let known = self.by_vtid.entry((machine, vtid, vpid)).or_insert(Some(thread));
                *known = known.filter(|known| *known == thread);
            }
        }
        let of = &mut self.threads[thread.0 as usize];
        of.learn(CompactNumber::Pid, || happening.number(Field::Pid));
        of.learn(CompactNumber::Ppid, || happening.number(Field::Ppid));
        match happening.number(Field::Type) {
            Some(1) => of.set_kernel(true),
            Some(0) => of.learn_user(),
            _ => {}
        }
        self.learn_name(thread, happening);
        self.rename_to(thread, happening, Field::Name);
        let (mode, status, now) = (happening.number(Field::Mode), happening.number(Field::Status), self.now);
        if let Some(live) = self.live(thread)
            && live.base == Base::Unknown
        {
            live.base = match status {
                Some(1) => Base::WaitFork,
                Some(2 | 6) => Base::WaitCpu,
                Some(3) => Base::Run,
                Some(4) => Base::Zombie,
                Some(5) => Base::Wait,
                Some(7) => Base::Dead,
                _ => Base::Unknown,
            };
            live.has_exited |= status == Some(3);
            live.sure_at = now;
            live.is_mode_known |= matches!(mode, Some(0..=2));
            live.stack.clear();
            if let Some(mode @ 1..=2) = mode {
                live.stack.push(StackEntry::unseen(mode == 2));
            }
        }
        match self.thread(thread).running() {
            Some(cpu) => self.refresh_cpu(cpu, observer),
            None => self.settle(thread, observer),
        }
    }
}

/// Does a system call of this name return?
pub fn returns(name: &str) -> bool {
    !ENDING_CALLS.contains(&name)
}
