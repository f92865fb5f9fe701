//! Facts beside the critical path: the system calls of waits and what they were about, what ended them, and who had the CPUs.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Interrupt, InterruptKind, Machines, Ns, ThreadIndex, ThreadPiece, ThreadState,
};

use crate::kernel::analyses::irq::interrupt_name;
use crate::kernel::analyses::occupancy::{Occupancy, grown, offset};
use crate::kernel::analyses::wait_facts::{OpenCall, WaitFacts, interrupt_title};
use crate::kernel::question::query::AnalysisQuery;

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

/// Facts about all threads and CPUs.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) of_waits: WaitFacts,
    /// By the index of the thread.
    waits: Vec<Vec<Wait>>,
    pub(super) occupancy: Occupancy,
    /// By the index of the thread: when it was interrupted until, and on which CPU.
    interrupted: Vec<Vec<(i64, CpuIndex)>>,
    handlers: BTreeMap<(u32, i64), Rc<str>>,
}

impl Facts {
    pub(super) fn on_interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>, query: &AnalysisQuery) {
        if interrupt.kind == InterruptKind::Trap || query.clip(interrupt.from, interrupt.to).is_none() {
            return;
        }
        if let Some(name) = interrupt.name {
            let machine = machines.cpu(interrupt.cpu).machine;
            if !self.handlers.contains_key(&(machine, interrupt.number)) {
                let name = self.of_waits.shared(name);
                self.handlers.insert((machine, interrupt.number), name);
            }
        }
        self.occupancy.on_interrupt(machines, interrupt);
    }

    pub(super) fn on_thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece, query: &AnalysisQuery) {
        self.occupancy.on_thread_piece(machines, piece);
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
        let ending = self.of_waits.take_ending(piece.thread, piece.to);
        if query.begin.is_some_and(|begin| piece.to <= begin) || query.end.is_some_and(|end| piece.from > end) {
            return;
        }
        let wait = Wait {
            from: offset(machines, piece.from),
            to: offset(machines, piece.to),
            call: self.of_waits.call_of(machines, piece.thread),
            source: ending.as_ref().and_then(|ending| ending.source.clone()),
            is_released: ending.is_some_and(|ending| ending.is_released),
        };
        grown(&mut self.waits, piece.thread.0 as usize).push(wait);
    }

    /// The wait of a thread that ends at a time, or goes on there.
    pub(super) fn wait_at(&self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&Wait> {
        let waits = self.waits.get(thread.0 as usize)?;
        let at = offset(machines, at);
        let found = waits.get(waits.partition_point(|wait| wait.to < at))?;
        (found.from < at).then_some(found)
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
        self.occupancy.longest_interrupt(*cpu, from, to)
    }

    /// An interrupt in words.
    pub(super) fn title(&self, machine: u32, (kind, number): (InterruptKind, i64)) -> String {
        let stated = self.handlers.get(&(machine, number)).map(|name| &**name);
        interrupt_title(kind, number, interrupt_name(kind, number, stated))
    }
}
