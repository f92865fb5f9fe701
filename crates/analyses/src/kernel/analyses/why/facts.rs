//! Facts beside the critical path: the system calls of waits and what they were about, what ended them, and who had the CPUs.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, CpuPiece, CpuStatus, Happening, Interrupt, InterruptKind, Machines, Map, Ns, Reason, SystemCall,
    ThreadIndex, ThreadPiece, ThreadState, Woken,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::analyses::files::Files;
use crate::kernel::analyses::io::disks::DiskRequest;
use crate::kernel::analyses::irq::interrupt_name;
use crate::kernel::analyses::locks::{FUTEX, WAITS, WAKES, operation_of};
use crate::kernel::question::query::AnalysisQuery;

/// The occupant of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Occupant {
    Thread(ThreadIndex),
    /// An interrupt, the longest one of those in the time that is asked for.
    Interrupt(Option<(InterruptKind, i64)>),
    Idle,
    Unknown,
}

/// A system call in which a thread waits, and what it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OpenCall {
    pub(super) name: Rc<str>,
    pub(super) object: Option<CallObject>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum CallObject {
    /// A file, or the peer of a socket.
    File(Rc<str>),
    /// A lock, by its address.
    Lock(i128),
}

/// A wait of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    from: i64,
    to: i64,
    pub(super) call: Option<OpenCall>,
    /// The disk or the interrupt that ended it.
    pub(super) source: Option<Rc<str>>,
    /// Did its waker release the lock that it was for?
    pub(super) is_released: bool,
}

/// The end of a wait, as its wake shows it.
struct Ending {
    at: Ns,
    source: Option<Rc<str>>,
    is_released: bool,
}

/// A CPU over time.
#[derive(Default)]
struct CpuLine {
    /// Its occupants, and until when; the first piece begins with `from`.
    pieces: Vec<(i64, Occupant)>,
    from: i64,
    /// Interrupts that no other one surrounds, by their ends.
    interrupts: Vec<(i64, i64, InterruptKind, i64)>,
}

/// Facts about all threads and CPUs.
#[derive(Default)]
pub(super) struct Facts {
    files: Files,
    /// Calls of `futex` that have begun: operation and address.
    futexes: Map<ThreadIndex, (i128, i128)>,
    /// The disk of the request that was completed last in the interrupt that a CPU handles.
    done: Map<CpuIndex, Rc<str>>,
    endings: Map<ThreadIndex, Ending>,
    /// By the index of the thread.
    waits: Vec<Vec<Wait>>,
    /// By the index of the thread: the CPU on which it runs or is queued, since when.
    queues: Vec<Vec<(i64, Option<CpuIndex>)>>,
    /// By the index of the thread: when it was interrupted until, and on which CPU.
    interrupted: Vec<Vec<(i64, CpuIndex)>>,
    /// When threads became runnable last.
    runnable: Map<ThreadIndex, i64>,
    /// By the index of the CPU.
    cpus: Vec<CpuLine>,
    disks: Map<(u32, i64), Rc<str>>,
    handlers: BTreeMap<(u32, i64), Rc<str>>,
    names: BTreeMap<Rc<str>, Rc<str>>,
}

fn grown<T: Default>(list: &mut Vec<T>, at: usize) -> &mut T {
    if at >= list.len() {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

fn offset(machines: &Machines, at: Ns) -> i64 {
    i64::try_from(at - machines.begin().unwrap_or(0)).unwrap_or(i64::MAX)
}

/// An interrupt with its name: `irq 24 ahci`.
pub(super) fn interrupt_title(kind: InterruptKind, number: i64, name: Option<&str>) -> String {
    let head = format!("{} {number}", kind.name());
    name.map_or(head.clone(), |name| format!("{head} {name}"))
}

impl Facts {
    /// A text that is kept once.
    fn shared(&mut self, text: &str) -> Rc<str> {
        if let Some(known) = self.names.get(text) {
            return known.clone();
        }
        let text: Rc<str> = text.into();
        self.names.insert(text.clone(), text.clone());
        text
    }

    /// Open files: `Files` observes what the analysis does.
    pub(super) fn files(&mut self) -> &mut Files {
        &mut self.files
    }

    pub(super) fn on_call_began(&mut self, thread: ThreadIndex, name: &str, happening: &Happening<'_>) {
        self.futexes.remove(&thread);
        if name == FUTEX
            && let (Some(operation), Some(lock)) = (operation_of(happening), happening.values.integer(Field::Uaddr))
        {
            self.futexes.insert(thread, (operation, lock));
        }
    }

    pub(super) fn on_call_ended(&mut self, call: &SystemCall<'_>) {
        self.futexes.remove(&call.thread);
    }

    pub(super) fn on_woken(&mut self, machines: &Machines, woken: &Woken) {
        let interrupt = woken.cpu.and_then(|cpu| machines.cpu(cpu).interrupt());
        let disk = woken.cpu.and_then(|cpu| self.done.get(&cpu)).cloned();
        let source = match (woken.reason, interrupt) {
            (Reason::Disk | Reason::Irq | Reason::Softirq, _) if disk.is_some() => disk,
            (Reason::Irq | Reason::Softirq, Some((kind, number, stated))) => {
                let title = interrupt_title(kind, number, interrupt_name(kind, number, stated));
                Some(self.shared(&title))
            }
            _ => None,
        };
        let lock = |thread: ThreadIndex, of: &[i128]| {
            let (operation, lock) = self.futexes.get(&thread)?;
            of.contains(operation).then_some(*lock)
        };
        let released = woken.waker.filter(|_| woken.reason == Reason::Thread).and_then(|waker| lock(waker, &WAKES));
        let is_released = released.is_some() && released == lock(woken.thread, &WAITS);
        self.endings.insert(woken.thread, Ending { at: woken.at, source, is_released });
    }

    pub(super) fn on_applied(
        &mut self,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_>,
        at: Ns,
    ) {
        let note = |facts: &mut Facts, field: Field| {
            let thread = happening.number(field).and_then(|tid| machines.find_thread(machine, tid));
            if let Some(thread) = thread {
                facts.note_queue(machines, thread, at);
            }
        };
        match happening.concept {
            Concept::Switch => {
                [Field::Prev, Field::Next].into_iter().for_each(|field| note(self, field));
                cpu.map(|cpu| self.done.remove(&cpu));
            }
            Concept::Wake | Concept::Migrate | Concept::Running => note(self, Field::Tid),
            Concept::Fork => note(self, Field::Child),
            Concept::IrqEntry | Concept::SoftEntry => drop(cpu.map(|cpu| self.done.remove(&cpu))),
            Concept::DumpDisk => {
                if let (Some(dev), Some(name)) = (happening.number(Field::Dev), happening.text(Field::Name)) {
                    self.disks.insert((machine, dev), format!("disk {name}").into());
                }
            }
            Concept::RqComplete => {
                if let (Some(cpu), Some(request)) = (cpu, DiskRequest::from_event(happening)) {
                    let known = self.disks.get(&(machine, request.dev)).cloned();
                    let disk = known.unwrap_or_else(|| self.shared(&format!("disk {}", request.dev)));
                    self.done.insert(cpu, disk);
                }
            }
            _ => {}
        }
    }

    /// Notes on which CPU a thread runs or is queued, when that changed.
    fn note_queue(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        let of = machines.thread(thread);
        let (queued, is_running, at) = (of.queued(), of.running().is_some(), offset(machines, at));
        let runnable = self.runnable.get(&thread).copied();
        let log = grown(&mut self.queues, thread.0 as usize);
        match log.last() {
            Some((_, last)) if *last == queued => {}
            Some((since, _)) => {
                // It runs where no event put it: where it was queued until then is not known.
                let runnable = runnable.filter(|_| is_running).map(|runnable| runnable.max(*since));
                log.extend(runnable.map(|runnable| (runnable, None)));
                log.push((at, queued));
            }
            None => log.push((at, queued)),
        }
    }

    pub(super) fn on_cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece, query: &AnalysisQuery) {
        if query.clip(piece.from, piece.to).is_none() {
            return;
        }
        let occupant = match (piece.status, piece.thread) {
            (CpuStatus::Irq | CpuStatus::Softirq, _) => Occupant::Interrupt(None),
            (CpuStatus::Suspended, _) | (_, None) => Occupant::Unknown,
            (_, Some(None)) => Occupant::Idle,
            (_, Some(Some(thread))) => Occupant::Thread(thread),
        };
        let (from, to) = (offset(machines, piece.from), offset(machines, piece.to));
        let line = grown(&mut self.cpus, piece.cpu.0 as usize);
        match line.pieces.last_mut() {
            None => {
                line.from = from;
                line.pieces.push((to, occupant));
            }
            Some((end, last)) if (*end, *last) == (from, occupant) => *end = to,
            Some((end, _)) => {
                if *end < from {
                    line.pieces.push((from, Occupant::Unknown));
                }
                line.pieces.push((to, occupant));
            }
        }
    }

    pub(super) fn on_interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>, query: &AnalysisQuery) {
        if interrupt.kind == InterruptKind::Trap || query.clip(interrupt.from, interrupt.to).is_none() {
            return;
        }
        if let Some(name) = interrupt.name {
            let machine = machines.cpu(interrupt.cpu).machine;
            if !self.handlers.contains_key(&(machine, interrupt.number)) {
                let name = self.shared(name);
                self.handlers.insert((machine, interrupt.number), name);
            }
        }
        let (from, to) = (offset(machines, interrupt.from), offset(machines, interrupt.to));
        let known = &mut grown(&mut self.cpus, interrupt.cpu.0 as usize).interrupts;
        while known.last().is_some_and(|(begin, ..)| *begin >= from) {
            known.pop();
        }
        known.push((from, to, interrupt.kind, interrupt.number));
    }

    pub(super) fn on_thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece, query: &AnalysisQuery) {
        if piece.state == ThreadState::WaitCpu {
            self.runnable.insert(piece.thread, offset(machines, piece.from));
        }
        let of = machines.thread(piece.thread);
        if piece.state == ThreadState::Interrupted
            && query.clip(piece.from, piece.to).is_some()
            && let Some(cpu) = of.running().or(of.queued())
        {
            grown(&mut self.interrupted, piece.thread.0 as usize).push((offset(machines, piece.to), cpu));
        }
        if !matches!(piece.state, ThreadState::Wait | ThreadState::WaitFork) {
            return;
        }
        let is_over = self.endings.get(&piece.thread).is_some_and(|ending| ending.at <= piece.to);
        let ending = if is_over { self.endings.remove(&piece.thread) } else { None };
        if query.begin.is_some_and(|begin| piece.to <= begin) || query.end.is_some_and(|end| piece.from > end) {
            return;
        }
        let ending = ending.filter(|ending| ending.at == piece.to);
        let name = machines.open_calls(piece.thread).last().map(str::to_string);
        let call = name.map(|name| OpenCall { object: self.object(piece.thread, &name), name: self.shared(&name) });
        let wait = Wait {
            from: offset(machines, piece.from),
            to: offset(machines, piece.to),
            call,
            source: ending.as_ref().and_then(|ending| ending.source.clone()),
            is_released: ending.is_some_and(|ending| ending.is_released),
        };
        grown(&mut self.waits, piece.thread.0 as usize).push(wait);
    }

    fn object(&self, thread: ThreadIndex, call: &str) -> Option<CallObject> {
        if call == FUTEX {
            let (operation, lock) = self.futexes.get(&thread)?;
            return WAITS.contains(operation).then_some(CallObject::Lock(*lock));
        }
        self.files.file_of_call(thread).map(|file| CallObject::File(file.clone()))
    }

    /// The wait of a thread that ends at a time, or goes on there.
    pub(super) fn wait_at(&self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&Wait> {
        let waits = self.waits.get(thread.0 as usize)?;
        let at = offset(machines, at);
        let found = waits.get(waits.partition_point(|wait| wait.to < at))?;
        (found.from < at).then_some(found)
    }

    /// The CPUs on which a thread was queued in a range, each with its part of it.
    pub(super) fn queued(
        &self,
        machines: &Machines,
        thread: ThreadIndex,
        (from, to): (Ns, Ns),
    ) -> Vec<(Option<CpuIndex>, Ns, Ns)> {
        let log = self.queues.get(thread.0 as usize).map_or(&[][..], |log| log);
        let origin = machines.begin().unwrap_or(0);
        let (mut at, mut parts) = (from, Vec::new());
        let first = log.partition_point(|(since, _)| origin + Ns::from(*since) <= from);
        let mut cpu = first.checked_sub(1).and_then(|before| log[before].1);
        for (since, next) in &log[first..] {
            let until = (origin + Ns::from(*since)).min(to);
            if at < until {
                parts.push((cpu, at, until));
            }
            (at, cpu) = (until, *next);
            if at == to {
                break;
            }
        }
        if at < to {
            parts.push((cpu, at, to));
        }
        parts
    }

    /// The occupants of a CPU in a range, with their times; the one that had it longest comes first.
    pub(super) fn occupants(&self, machines: &Machines, cpu: CpuIndex, (from, to): (Ns, Ns)) -> Vec<(Occupant, Ns)> {
        let mut times: BTreeMap<Occupant, Ns> = BTreeMap::new();
        let (first, last) = (offset(machines, from), offset(machines, to));
        let mut at = first;
        if let Some(line) = self.cpus.get(cpu.0 as usize) {
            if line.from > at {
                let until = line.from.min(last);
                *times.entry(Occupant::Unknown).or_default() += Ns::from(until - at);
                at = until;
            }
            for (end, occupant) in &line.pieces[line.pieces.partition_point(|(end, _)| *end <= at)..] {
                if at >= last {
                    break;
                }
                let until = (*end).min(last);
                *times.entry(*occupant).or_default() += Ns::from(until - at);
                at = until;
            }
        }
        if at < last {
            *times.entry(Occupant::Unknown).or_default() += Ns::from(last - at);
        }
        let mut times: Vec<(Occupant, Ns)> = times.into_iter().collect();
        if let Some((occupant, _)) = times.iter_mut().find(|(own, _)| *own == Occupant::Interrupt(None)) {
            *occupant = Occupant::Interrupt(self.longest_interrupt(cpu, first, last));
        }
        times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        times
    }

    /// The interrupt that had most of a range on a CPU.
    fn longest_interrupt(&self, cpu: CpuIndex, from: i64, to: i64) -> Option<(InterruptKind, i64)> {
        let known = &self.cpus.get(cpu.0 as usize)?.interrupts;
        let mut times: BTreeMap<(InterruptKind, i64), i64> = BTreeMap::new();
        for (begin, end, kind, number) in &known[known.partition_point(|(_, end, ..)| *end <= from)..] {
            if *begin >= to {
                break;
            }
            *times.entry((*kind, *number)).or_default() += (*end).min(to) - (*begin).max(from);
        }
        times.into_iter().max_by_key(|(_, time)| *time).map(|(interrupt, _)| interrupt)
    }

    /// The interrupt that interrupted a thread in a range.
    pub(super) fn interrupt_of(
        &self,
        machines: &Machines,
        thread: ThreadIndex,
        (from, to): (Ns, Ns),
    ) -> Option<(InterruptKind, i64)> {
        let (from, to) = (offset(machines, from), offset(machines, to));
        let known = self.interrupted.get(thread.0 as usize)?;
        let (_, cpu) = known.get(known.partition_point(|(end, _)| *end < to))?;
        self.longest_interrupt(*cpu, from, to)
    }

    /// An interrupt in words.
    pub(super) fn title(&self, machine: u32, (kind, number): (InterruptKind, i64)) -> String {
        let stated = self.handlers.get(&(machine, number)).map(|name| &**name);
        interrupt_title(kind, number, interrupt_name(kind, number, stated))
    }
}
