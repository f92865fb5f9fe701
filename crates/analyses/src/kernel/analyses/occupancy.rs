//! Occupancy: on which CPU threads run or are queued, and what those CPUs run meanwhile.

use std::collections::BTreeMap;

use tracemill_semantics::states::{
    CpuIndex, CpuPiece, CpuStatus, Current, Happening, Interrupt, InterruptKind, Machines, Map, Ns, ThreadIndex,
    ThreadPiece, ThreadState,
};
use tracemill_semantics::{Concept, Field};

/// The occupant of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(super) enum Occupant {
    /// A thread.
    Thread(ThreadIndex),
    /// An interrupt, the longest one of those in the time that is asked for.
    Interrupt(Option<(InterruptKind, i64)>),
    /// The idle thread.
    Idle,
    /// No event says.
    Unknown,
}

impl Occupant {
    fn new(status: CpuStatus, current: Current) -> Occupant {
        match (status, current) {
            (CpuStatus::Irq | CpuStatus::Softirq, _) => Occupant::Interrupt(None),
            (CpuStatus::Suspended, _) | (_, Current::Unknown) => Occupant::Unknown,
            (_, Current::Idle) => Occupant::Idle,
            (_, Current::Thread(thread)) => Occupant::Thread(thread),
        }
    }
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

/// The element of an index, in a list that grows to it.
pub(super) fn grown<T: Default>(list: &mut Vec<T>, at: usize) -> &mut T {
    if at >= list.len() {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

/// A time, counted from the first event.
pub(super) fn offset(machines: &Machines, at: Ns) -> i64 {
    i64::try_from(at - machines.begin().unwrap_or(0)).unwrap_or(i64::MAX)
}

/// First and last time that is wanted; all without them.
type Times = (Option<Ns>, Option<Ns>);

/// CPUs and queues of threads over time.
#[derive(Default)]
pub(super) struct Occupancy {
    /// By the index of the CPU.
    cpus: Vec<CpuLine>,
    /// By the index of the thread: the CPU on which it runs or is queued, since when.
    queues: Vec<Vec<(i64, Option<CpuIndex>)>>,
    /// When threads became runnable last.
    runnable: Map<ThreadIndex, i64>,
}

impl Occupancy {
    /// An event of a concept was taken.
    pub(super) fn on_applied(&mut self, machines: &Machines, machine: u32, happening: &Happening<'_>, at: Ns) {
        let fields: &[Field] = match happening.concept {
            Concept::Switch => &[Field::Prev, Field::Next],
            Concept::Wake | Concept::Migrate => &[Field::Tid],
            Concept::Fork => &[Field::Child],
            _ => return,
        };
        let numbers = fields.iter().filter_map(|field| happening.number(*field));
        for thread in numbers.filter_map(|tid| machines.find_thread(machine, tid)) {
            self.note_queue(machines, thread, at);
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

    /// A CPU spent time in one status.
    pub(super) fn on_cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece, (begin, end): Times) {
        if begin.is_some_and(|begin| piece.to <= begin) || end.is_some_and(|end| piece.from >= end) {
            return;
        }
        let current = match piece.thread {
            None => Current::Unknown,
            Some(None) => Current::Idle,
            Some(Some(thread)) => Current::Thread(thread),
        };
        let occupant = Occupant::new(piece.status, current);
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

    /// An interrupt ended.
    pub(super) fn on_interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {
        let (from, to) = (offset(machines, interrupt.from), offset(machines, interrupt.to));
        let known = &mut grown(&mut self.cpus, interrupt.cpu.0 as usize).interrupts;
        while known.last().is_some_and(|(begin, ..)| *begin >= from) {
            known.pop();
        }
        known.push((from, to, interrupt.kind, interrupt.number));
    }

    /// A thread spent time in one state.
    pub(super) fn on_thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if piece.state == ThreadState::WaitCpu {
            self.runnable.insert(piece.thread, offset(machines, piece.from));
        }
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
            // The piece that goes on.
            let of = machines.cpu(cpu);
            let occupant = Occupant::new(of.status(), of.current());
            *times.entry(occupant).or_default() += Ns::from(last - at);
        }
        let mut times: Vec<(Occupant, Ns)> = times.into_iter().collect();
        if let Some((occupant, _)) = times.iter_mut().find(|(own, _)| *own == Occupant::Interrupt(None)) {
            *occupant = Occupant::Interrupt(self.longest_interrupt(cpu, first, last));
        }
        times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        times
    }

    /// The interrupt that had most of a range on a CPU.
    pub(super) fn longest_interrupt(&self, cpu: CpuIndex, from: i64, to: i64) -> Option<(InterruptKind, i64)> {
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
}
