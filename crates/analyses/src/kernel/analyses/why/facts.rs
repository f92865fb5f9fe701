//! Facts beside the critical path: the system calls of waits and what they were about, what ended them, and who had the CPUs.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, Interrupt, InterruptKind, Machines, Map, Ns, Reason, SystemCall, ThreadIndex, ThreadPiece,
    ThreadState, Woken,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::analyses::files::Files;
use crate::kernel::analyses::io::disks::DiskRequest;
use crate::kernel::analyses::irq::interrupt_name;
use crate::kernel::analyses::locks::{FUTEX, WAITS, WAKES, operation_of};
use crate::kernel::analyses::occupancy::{Occupancy, grown, offset};
use crate::kernel::question::query::AnalysisQuery;

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
    pub(super) occupancy: Occupancy,
    /// By the index of the thread: when it was interrupted until, and on which CPU.
    interrupted: Vec<Vec<(i64, CpuIndex)>>,
    disks: Map<(u32, i64), Rc<str>>,
    handlers: BTreeMap<(u32, i64), Rc<str>>,
    names: BTreeMap<Rc<str>, Rc<str>>,
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
        self.occupancy.on_applied(machines, machine, happening, at);
        match happening.concept {
            Concept::Switch | Concept::IrqEntry | Concept::SoftEntry => drop(cpu.map(|cpu| self.done.remove(&cpu))),
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
