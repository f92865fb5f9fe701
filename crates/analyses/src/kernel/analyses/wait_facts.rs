//! Facts about waits: the system call in which a thread waits, what that is about, and what ended the wait.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, InterruptKind, Machines, Map, Ns, Observer, Reason, RunEnd, SystemCall, ThreadIndex, Woken,
};
use tracemill_semantics::{Concept, Field};
use tracemill_table::{Address, Device};

use crate::kernel::analyses::files::Files;
use crate::kernel::analyses::io::disks::DiskRequest;
use crate::kernel::analyses::irq::interrupt_name;
use crate::kernel::analyses::locks::{FUTEX, WAITS, WAKES, operation_of};

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

impl CallObject {
    /// The name of the file, or the address in hexadecimal.
    pub(super) fn text(&self) -> Rc<str> {
        match self {
            CallObject::File(name) => name.clone(),
            CallObject::Lock(address) => Address(*address).to_string().into(),
        }
    }
}

/// The end of a wait, as its wake shows it.
#[derive(Clone)]
pub(super) struct WaitEnding {
    at: Ns,
    pub(super) reason: Reason,
    /// The thread that woke it, if a thread did.
    pub(super) waker: Option<ThreadIndex>,
    /// The disk or the interrupt that ended it.
    pub(super) source: Option<Rc<str>>,
    /// Did its waker release the lock that it was for?
    pub(super) is_released: bool,
}

/// Calls in which threads wait, and the last wakes of threads. It observes what the analysis does that has it.
#[derive(Default)]
pub(super) struct WaitFacts {
    files: Files,
    /// Calls of `futex` that have begun: operation and address.
    futexes: Map<ThreadIndex, (i128, i128)>,
    /// The disk of the request that was completed last in the interrupt that a CPU handles.
    done: Map<CpuIndex, Rc<str>>,
    endings: Map<ThreadIndex, WaitEnding>,
    disks: Map<(u32, i64), Rc<str>>,
    names: BTreeMap<Rc<str>, Rc<str>>,
}

/// An interrupt with its name: `irq 24 ahci`.
pub(super) fn interrupt_title(kind: InterruptKind, number: i64, name: Option<&str>) -> String {
    let head = format!("{} {number}", kind.name());
    name.map_or(head.clone(), |name| format!("{head} {name}"))
}

impl WaitFacts {
    /// A text that is kept once.
    pub(super) fn shared(&mut self, text: &str) -> Rc<str> {
        if let Some(known) = self.names.get(text) {
            return known.clone();
        }
        let text: Rc<str> = text.into();
        self.names.insert(text.clone(), text.clone());
        text
    }

    /// A thread begins or ends a system call: its CPU is in no interrupt any more.
    fn end_interrupt(&mut self, machines: &Machines, thread: ThreadIndex) {
        if let Some(cpu) = machines.thread(thread).running() {
            self.done.remove(&cpu);
        }
    }

    /// The wake that ended a wait of a thread at a time; none where no wake did. Wakes until then are forgotten.
    pub(super) fn take_ending(&mut self, thread: ThreadIndex, to: Ns) -> Option<WaitEnding> {
        let is_over = self.endings.get(&thread).is_some_and(|ending| ending.at <= to);
        let ending = if is_over { self.endings.remove(&thread) } else { None };
        ending.filter(|ending| ending.at == to)
    }

    /// The system call in which a thread waits: the topmost on its stack.
    pub(super) fn call_of(&mut self, machines: &Machines, thread: ThreadIndex) -> Option<OpenCall> {
        let name = machines.open_calls(thread).last().map(str::to_string)?;
        Some(OpenCall { object: self.object(thread, &name), name: self.shared(&name) })
    }

    fn object(&self, thread: ThreadIndex, call: &str) -> Option<CallObject> {
        if call == FUTEX {
            let (operation, lock) = self.futexes.get(&thread)?;
            return WAITS.contains(operation).then_some(CallObject::Lock(*lock));
        }
        self.files.file_of_call(thread).map(|file| CallObject::File(file.clone()))
    }
}

impl Observer for WaitFacts {
    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        self.files.created(machines, thread, at);
    }

    fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        self.files.forked(machines, parent, child, at);
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        self.files.run_ended(machines, thread, how, at);
    }

    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        self.end_interrupt(machines, thread);
        self.files.call_began(machines, thread, name, happening, at);
        self.futexes.remove(&thread);
        if name == FUTEX
            && let (Some(operation), Some(lock)) = (operation_of(happening), happening.values.integer(Field::Uaddr))
        {
            self.futexes.insert(thread, (operation, lock));
        }
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, happening: &Happening<'_>) {
        self.end_interrupt(machines, call.thread);
        self.files.call_ended(machines, call, happening);
        self.futexes.remove(&call.thread);
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        let woken = &Woken { reason: machines.ending_of(woken), ..*woken };
        let interrupt = woken.cpu.and_then(|cpu| machines.cpu(cpu).interrupt());
        // Where no event shows the interrupt, none shows its end either: one completion is that of one wake.
        let disk = woken.cpu.and_then(|cpu| match interrupt {
            Some(_) => self.done.get(&cpu).cloned(),
            None => self.done.remove(&cpu),
        });
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
        let waker = woken.waker.filter(|_| woken.reason == Reason::Thread);
        let released = waker.and_then(|waker| lock(waker, &WAKES));
        let is_released = released.is_some() && released == lock(woken.thread, &WAITS);
        let ending = WaitEnding { at: woken.at, reason: woken.reason, waker, source, is_released };
        self.endings.insert(woken.thread, ending);
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.files.applied(machines, machine, cpu, happening, at);
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
                    let disk = known.unwrap_or_else(|| self.shared(&format!("disk {}", Device(request.dev.into()))));
                    self.done.insert(cpu, disk);
                }
            }
            _ => {}
        }
    }
}
