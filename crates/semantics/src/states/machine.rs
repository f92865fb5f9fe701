//! The machines of some traces: their CPUs and threads, and the pieces of time that end.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use super::calls::{CallName, CallNames};
use super::coverage::Coverage;
use super::cpu::{Cpu, CpuStatus, Current};
use super::newest::Newest;
use super::observer::{CpuPiece, Observer, ThreadPiece};
use super::suspend::Suspended;
use super::thread::{Base, Comm, Live, Thread, ThreadState};
use crate::{Concept, Field};

/// A map by small keys, fast and safe against keys that are made to collide.
pub type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Numbers of CPUs that only the payload of an event names: below this.
pub(super) const MAX_NAMED: u64 = 1 << 16;

/// Time in ns since the origin of the clock.
pub type Ns = i128;

/// Names a CPU of [`Machines`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CpuIndex(pub u32);

/// Names a life of a thread of [`Machines`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadIndex(pub u32);

/// The fields of an event, as fields of its concept.
pub trait ConceptValues {
    /// The value of an integer; `None` when the event does not have it or it is no integer.
    fn integer(&self, field: Field) -> Option<i128>;
    /// The value of a text.
    fn text(&self, field: Field) -> Option<Cow<'_, str>>;
    /// The value of an integer of 64 bits.
    fn number(&self, field: Field) -> Option<i64> {
        self.integer(field).and_then(|value| i64::try_from(value).ok())
    }
    /// Does the event have the field, whatever its value? `false` where all events of its class lack it.
    fn has(&self, _field: Field) -> bool {
        true
    }
    /// Is the value this text? May say no without looking.
    fn is_text(&self, _field: Field, _text: &str) -> bool {
        false
    }
    /// The text that the field has in all events of this kind.
    fn constant(&self, _field: Field) -> Option<&Arc<str>> {
        None
    }
    /// The integers among the elements of an array or a tuple, in their places; `None` for anything else.
    fn integers(&self, _field: Field) -> Option<Vec<Option<i128>>> {
        None
    }
    /// Bytes in an array of integers; `None` for anything else.
    fn bytes(&self, _field: Field) -> Option<Vec<u8>> {
        None
    }
}

impl<V: ConceptValues + ?Sized> ConceptValues for &V {
    fn integer(&self, field: Field) -> Option<i128> {
        (**self).integer(field)
    }
    fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        (**self).text(field)
    }
    fn number(&self, field: Field) -> Option<i64> {
        (**self).number(field)
    }
    fn has(&self, field: Field) -> bool {
        (**self).has(field)
    }
    fn is_text(&self, field: Field, text: &str) -> bool {
        (**self).is_text(field, text)
    }
    fn constant(&self, field: Field) -> Option<&Arc<str>> {
        (**self).constant(field)
    }
    fn integers(&self, field: Field) -> Option<Vec<Option<i128>>> {
        (**self).integers(field)
    }
    fn bytes(&self, field: Field) -> Option<Vec<u8>> {
        (**self).bytes(field)
    }
}

/// An event of a concept. The machine knows what its fields are read from, so that reading one is no call; observers do not.
pub struct Happening<'a, V: ?Sized = dyn ConceptValues + 'a> {
    /// The concept.
    pub concept: Concept,
    /// Do the rules of the kernels apply that LTTng 0.x and the markers of 2.x record?
    pub is_legacy: bool,
    /// Its fields.
    pub values: &'a V,
}

impl<V: ConceptValues + ?Sized> Happening<'_, V> {
    /// An integer of 64 bits.
    #[inline]
    pub fn number(&self, field: Field) -> Option<i64> {
        self.values.number(field)
    }

    /// A text.
    #[inline]
    pub fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        self.values.text(field)
    }
}

impl<'a, V: ConceptValues> Happening<'a, V> {
    /// The event as observers see it.
    #[inline]
    pub(super) fn for_observers(&self) -> Happening<'a> {
        Happening { concept: self.concept, is_legacy: self.is_legacy, values: self.values }
    }
}

/// Contradictions, counted (`docs/kernel.md`, section 3, `notes`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Events that were taken or passed by.
    pub events: u64,
    /// Exits of system calls without an entry.
    pub unmatched_syscall_exits: u64,
    /// System calls that another one followed without an exit.
    pub replaced_syscalls: u64,
    /// Exits of interrupts without an entry.
    pub unmatched_irq_exits: u64,
    /// Switches from a thread that did not run.
    pub inconsistent_switches: u64,
    /// Interrupts that were still open at a switch.
    pub cleared_interrupts: u64,
    /// Switches without the numbers of their threads.
    pub bad_fields: u64,
    /// Events with a time before the one of an earlier event.
    pub time_back: u64,
    /// Interrupts beyond the depth that is kept.
    pub too_deep: u64,
}

/// Threads that ran or were queued on a CPU, maybe elsewhere by now.
#[derive(Debug)]
struct Visitors {
    threads: Vec<ThreadIndex>,
    /// When there are more, those that left or ended are forgotten.
    many: usize,
}

const FEW_VISITORS: usize = 64;

impl Default for Visitors {
    fn default() -> Self {
        Visitors { threads: Vec::new(), many: FEW_VISITORS }
    }
}

/// The ways in which the events of a CPU go missing and come back; at one time in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum LossKind {
    /// They are there from here on.
    SeenAgain,
    /// Some were lost, maybe from here on.
    Lost,
    /// They are not there after this time.
    Unseen,
}

/// A loss that has not taken effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PendingLoss {
    pub(super) at: Ns,
    pub(super) kind: LossKind,
    pub(super) machine: u32,
    pub(super) cpu: u64,
}

/// Some machines, at a time.
///
/// Memory: some hundred bytes for a thread that lives, 64 for one that the kernel has forgotten.
#[derive(Debug)]
pub struct Machines {
    pub(super) cpus: Vec<Cpu>,
    cpu_of: Map<(u32, u64), CpuIndex>,
    /// The CPU that was asked for last.
    last_cpu: Option<(u32, u64, CpuIndex)>,
    pub(super) threads: Vec<Thread>,
    /// The newest life of each thread.
    newest: Newest,
    /// Threads by machine and by what their namespace calls them and their process; `None` when that names several.
    pub(super) by_vtid: Map<(u32, i64, Option<i64>), Option<ThreadIndex>>,
    /// Names of threads; most of them have the name of another one.
    names: HashSet<Comm, foldhash::fast::RandomState>,
    pub(super) calls: CallNames,
    /// For each CPU, threads that a loss there may concern.
    visitors: Vec<Visitors>,
    pub(super) begin: Option<Ns>,
    pub(super) now: Ns,
    /// Losses that did not take effect yet.
    pub(super) losses: BinaryHeap<Reverse<PendingLoss>>,
    pub(super) coverage: Coverage,
    pub(super) suspended: Suspended,
    pub(super) counts: Counts,
    /// Concepts that the events of each machine can have; all of a machine that is not listed.
    told: Map<u32, HashSet<Concept>>,
    /// Is there a machine whose events cannot be switches?
    pub(super) has_unswitched: bool,
    count: u32,
}

impl Machines {
    /// This number of machines, of which nothing is known.
    pub fn new(count: u32) -> Self {
        Machines {
            cpus: Vec::new(),
            cpu_of: Map::default(),
            last_cpu: None,
            threads: Vec::new(),
            newest: Newest::default(),
            by_vtid: Map::default(),
            names: HashSet::default(),
            calls: CallNames::default(),
            visitors: Vec::new(),
            begin: None,
            now: 0,
            losses: BinaryHeap::new(),
            coverage: Coverage::default(),
            suspended: Suspended::default(),
            counts: Counts::default(),
            told: Map::default(),
            has_unswitched: false,
            count,
        }
    }

    /// Number of machines.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The events of a machine can have these concepts only.
    pub fn set_possible(&mut self, machine: u32, told: HashSet<Concept>) {
        self.told.entry(machine).or_default().extend(told);
        self.has_unswitched = self.told.values().any(|told| !told.contains(&Concept::Switch));
    }

    /// Can the events of a machine have one of some concepts? What others tell is not known.
    pub fn can_have(&self, machine: u32, concepts: &[Concept]) -> bool {
        self.told.get(&machine).is_none_or(|told| concepts.iter().any(|concept| told.contains(concept)))
    }

    /// As [`can_have`](Self::can_have), of all machines.
    pub fn all_can_have(&self, concepts: &[Concept]) -> bool {
        (0..self.count).all(|machine| self.can_have(machine, concepts))
    }

    /// Contradictions so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Time of the first event.
    #[inline]
    pub fn begin(&self) -> Option<Ns> {
        self.begin
    }

    /// The largest time so far.
    #[inline]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// A CPU.
    #[inline]
    pub fn cpu(&self, cpu: CpuIndex) -> &Cpu {
        &self.cpus[cpu.0 as usize]
    }

    /// All CPUs, in the order in which events came from them.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// A life of a thread.
    #[inline]
    pub fn thread(&self, thread: ThreadIndex) -> &Thread {
        &self.threads[thread.0 as usize]
    }

    /// When a life became dead.
    pub fn died(&self, thread: ThreadIndex) -> Option<Ns> {
        let thread = self.thread(thread);
        match thread.live() {
            Some(live) => Some(live.piece.0).filter(|_| live.piece.1 == Some(ThreadState::Dead)),
            None => thread.died().map(|since| self.begin.unwrap_or(self.now) + Ns::from(since)),
        }
    }

    /// All lives, in the order in which they were met.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadIndex, &Thread)> {
        self.threads.iter().enumerate().map(|(at, thread)| (ThreadIndex(at as u32), thread))
    }

    /// Names of the system calls of a thread that are open and whose entry was seen.
    pub fn open_calls(&self, thread: ThreadIndex) -> impl Iterator<Item = &str> {
        let frames = self.thread(thread).live().into_iter().flat_map(|live| &live.stack);
        frames.filter_map(move |frame| Some(self.call_text(thread, frame.name?)))
    }

    /// The name of a system call of a thread.
    #[inline]
    pub(super) fn call_text(&self, thread: ThreadIndex, name: CallName) -> &str {
        self.calls.text(name, self.thread(thread).live().and_then(|live| live.own_call.as_ref()))
    }

    /// The newest life of a thread.
    #[inline]
    pub fn find_thread(&self, machine: u32, tid: i64) -> Option<ThreadIndex> {
        self.newest.find(&self.threads, machine, tid)
    }

    /// A CPU by its number.
    pub fn find_cpu(&self, machine: u32, number: u64) -> Option<CpuIndex> {
        self.cpu_of.get(&(machine, number)).copied()
    }

    /// Takes the time of an event, whatever it says, and gives its CPU.
    pub fn touch(
        &mut self,
        machine: u32,
        ns: Ns,
        cpu: Option<u64>,
        observer: &mut (impl Observer + ?Sized),
    ) -> Option<CpuIndex> {
        self.touch_time(machine, ns, observer);
        cpu.map(|number| self.cpu_or_new(machine, number))
    }

    /// Takes the time of an event of a machine.
    #[inline]
    pub fn touch_time(&mut self, machine: u32, ns: Ns, observer: &mut (impl Observer + ?Sized)) {
        self.counts.events += 1;
        if !self.suspended.is_in_same_second(machine, ns) {
            self.end_silence(machine, ns);
        }
        if ns < self.now || self.begin.is_none() || !self.losses.is_empty() {
            self.touch_odd_time(ns, observer);
        } else {
            self.now = ns;
        }
    }

    /// As [`touch_time`](Self::touch_time), of the first event, of one whose time goes back, and where losses wait.
    #[cold]
    #[inline(never)]
    fn touch_odd_time(&mut self, ns: Ns, observer: &mut (impl Observer + ?Sized)) {
        if self.begin.is_none() {
            (self.begin, self.now) = (Some(ns), ns);
        }
        if ns < self.now {
            self.counts.time_back += 1;
        }
        let ns = ns.max(self.now);
        self.take_losses(ns, observer);
        self.now = ns;
    }

    /// Events may have been lost on a CPU from a time on: what was known of it is not known any more.
    pub fn apply_loss(&mut self, machine: u32, cpu: u64, at: Ns) {
        self.push_loss(PendingLoss { at, kind: LossKind::Lost, machine, cpu });
    }

    pub(super) fn push_loss(&mut self, loss: PendingLoss) {
        self.losses.push(Reverse(loss));
    }

    /// Losses take effect until a time. Events of that time come from CPUs that are unseen after it.
    fn take_losses(&mut self, until: Ns, observer: &mut (impl Observer + ?Sized)) {
        while let Some(&Reverse(PendingLoss { at, kind, machine, cpu })) = self.losses.peek() {
            if at > until || at == until && kind == LossKind::Unseen {
                break;
            }
            self.losses.pop();
            self.now = self.now.max(at);
            let cpu = self.cpu_or_new(machine, cpu);
            match kind {
                LossKind::SeenAgain => self.see_now(cpu),
                LossKind::Lost => self.lose_now(cpu, observer),
                LossKind::Unseen => self.unsee_now(cpu, observer),
            }
        }
    }

    /// Ends all pieces that are open.
    pub fn finish(&mut self, observer: &mut (impl Observer + ?Sized)) {
        if self.begin.is_some() {
            self.take_losses(self.now, observer);
        }
        for at in 0..self.cpus.len() {
            let (current, status) = (self.cpus[at].piece.1, self.cpus[at].piece.2);
            self.end_cpu_piece(CpuIndex(at as u32), observer);
            self.cpus[at].piece = (self.now, current, status);
        }
        for at in 0..self.threads.len() {
            self.forget_unsure(ThreadIndex(at as u32), observer);
            self.end_thread_piece(ThreadIndex(at as u32), observer);
        }
    }

    /// A CPU by its number, at the time of an event of it.
    #[inline]
    pub fn cpu_or_new(&mut self, machine: u32, number: u64) -> CpuIndex {
        let Machines { cpus, cpu_of, last_cpu, visitors, begin, now, .. } = self;
        if let Some((_, _, cpu)) = last_cpu.filter(|(of, last, _)| (*of, *last) == (machine, number)) {
            return cpu;
        }
        let cpu = *cpu_of.entry((machine, number)).or_insert_with(|| {
            let index = CpuIndex(cpus.len() as u32);
            cpus.push(Cpu::new(machine, number, begin.unwrap_or(*now)));
            visitors.push(Visitors::default());
            index
        });
        *last_cpu = Some((machine, number, cpu));
        cpu
    }

    /// The newest life of a thread; its first one when it is met now.
    #[inline]
    pub(super) fn thread_or_new(
        &mut self,
        machine: u32,
        tid: i64,
        observer: &mut (impl Observer + ?Sized),
    ) -> ThreadIndex {
        match self.find_thread(machine, tid) {
            Some(thread) => thread,
            None => self.new_life(machine, tid, observer),
        }
    }

    /// As [`thread_or_new`](Self::thread_or_new), but a life that has ended is followed by a new one.
    #[inline]
    pub(super) fn live_thread(
        &mut self,
        machine: u32,
        tid: i64,
        observer: &mut (impl Observer + ?Sized),
    ) -> ThreadIndex {
        match self.find_thread(machine, tid) {
            Some(thread) if !matches!(self.base(thread), Base::Zombie | Base::Dead) => thread,
            _ => self.new_life(machine, tid, observer),
        }
    }

    /// A new life of a thread. One before it ends.
    pub(super) fn new_life(&mut self, machine: u32, tid: i64, observer: &mut (impl Observer + ?Sized)) -> ThreadIndex {
        let before = self.find_thread(machine, tid);
        if let Some(before) = before {
            self.forget_unsure(before, observer);
            if let Some(cpu) = self.thread(before).running() {
                self.set_current(cpu, Current::Unknown, observer);
            }
            self.end_thread_piece(before, observer);
            let before = &mut self.threads[before.0 as usize];
            before.end(None);
        }
        let thread = ThreadIndex(self.threads.len() as u32);
        let life = before.map_or(0, |before| self.thread(before).life() + 1);
        let live = Live { piece: (self.now, Some(ThreadState::Unknown)), sure_at: self.now, ..Live::default() };
        self.threads.push(Thread::new(machine, tid, life, live));
        self.newest.push(&self.threads);
        observer.created(self, thread, self.now);
        thread
    }

    #[inline]
    pub(super) fn live(&mut self, thread: ThreadIndex) -> Option<&mut Live> {
        self.threads[thread.0 as usize].live_mut()
    }

    /// A name of threads, kept once.
    pub(super) fn name(&mut self, name: &str) -> Comm {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name = Comm::from(name);
        self.names.insert(name.clone());
        name
    }

    /// Keeps nothing of a thread that is dead but what tables show of it.
    pub(super) fn discard_dead(&mut self, thread: ThreadIndex) {
        let begin = self.begin.unwrap_or(self.now);
        let of = &mut self.threads[thread.0 as usize];
        let Some((since, Some(ThreadState::Dead))) = of.live().map(|live| live.piece) else { return };
        // Times that are centuries apart keep all there is.
        if let Ok(since) = u64::try_from(since - begin) {
            of.end(Some(since));
        }
    }

    #[inline]
    pub(super) fn base(&self, thread: ThreadIndex) -> Base {
        self.thread(thread).live().map_or(Base::Dead, |live| live.base)
    }

    /// Notes the CPU that a thread ran on or is queued on last.
    #[inline]
    pub(super) fn queue(&mut self, thread: ThreadIndex, cpu: CpuIndex) {
        let Some(live) = self.live(thread) else { return };
        if live.queued.replace(cpu) == Some(cpu) {
            return;
        }
        let Machines { visitors, threads, .. } = self;
        let Visitors { threads: here, many } = &mut visitors[cpu.0 as usize];
        here.push(thread);
        if here.len() > *many {
            here.retain(|thread| threads[thread.0 as usize].live().is_some_and(|live| live.queued == Some(cpu)));
            here.sort_unstable();
            here.dedup();
            *many = FEW_VISITORS.max(2 * here.len());
        }
    }

    /// As [`queue`](Self::queue), by the number of the CPU: only one that has events can lose some.
    pub(super) fn queue_on(&mut self, thread: ThreadIndex, machine: u32, number: i64) {
        // A number that no machine has must not make a CPU with each event.
        let Some(number) = u64::try_from(number).ok().filter(|number| *number < MAX_NAMED) else { return };
        let cpu = self.named_cpu(machine, number);
        self.queue(thread, cpu);
    }

    pub(super) fn lose_now(&mut self, cpu: CpuIndex, observer: &mut (impl Observer + ?Sized)) {
        self.lose_suspension(cpu);
        let of = &mut self.cpus[cpu.0 as usize];
        of.stack.clear();
        of.raises.clear();
        (of.timers, of.ipis) = (0, 0);
        of.unknown_since = Some(self.now);
        let current = of.current;
        let mut visitors = std::mem::take(&mut self.visitors[cpu.0 as usize].threads);
        visitors.retain(|&thread| {
            let is_here = self.live(thread).is_some_and(|live| live.queued == Some(cpu))
                && !matches!(self.base(thread), Base::Zombie | Base::Dead);
            if is_here {
                self.forget(thread, observer);
            }
            is_here
        });
        self.visitors[cpu.0 as usize].threads = visitors;
        if let Current::Thread(thread) = current {
            self.forget(thread, observer);
        }
        self.set_current(cpu, Current::Unknown, observer);
    }

    /// Makes a thread unknown: what it did is not known any more.
    pub(super) fn forget(&mut self, thread: ThreadIndex, observer: &mut (impl Observer + ?Sized)) {
        let now = self.now;
        let Some(live) = self.live(thread) else { return };
        (live.base, live.forgotten_at) = (Base::Unknown, Some(now));
        live.stack.clear();
        // The CPU that it ran on or is queued on last stays: a wake that names none leaves it there, for the next loss.
        (live.is_mode_known, live.woken) = (false, None);
        if let Some(cpu) = live.running.take() {
            self.set_current(cpu, Current::Unknown, observer);
        }
        self.refresh_thread(thread, observer);
    }

    /// Sets the thread of a CPU.
    #[inline]
    pub(super) fn set_current(&mut self, cpu: CpuIndex, current: Current, observer: &mut (impl Observer + ?Sized)) {
        self.cpus[cpu.0 as usize].current = current;
        self.refresh_cpu(cpu, observer);
    }

    /// The mode of a thread that runs, without what interrupts it.
    #[inline]
    pub(super) fn mode(&self, thread: ThreadIndex) -> ThreadState {
        let of = self.thread(thread);
        let Some(live) = of.live() else { return ThreadState::Dead };
        match live.stack.last() {
            Some(frame) if frame.is_trap => ThreadState::RunTrap,
            Some(_) => ThreadState::RunSyscall,
            None if of.is_kernel() => ThreadState::RunKernel,
            None if live.is_mode_known => ThreadState::RunUser,
            None => ThreadState::RunUnknown,
        }
    }

    /// The state of a thread that runs in a mode when it does.
    #[inline]
    fn state(&self, live: &Live, mode: ThreadState) -> ThreadState {
        match live.base {
            Base::Unknown => ThreadState::Unknown,
            Base::WaitFork => ThreadState::WaitFork,
            Base::WaitCpu => ThreadState::WaitCpu,
            Base::Wait => ThreadState::Wait,
            Base::Zombie => ThreadState::Zombie,
            Base::Dead => ThreadState::Dead,
            Base::Run if live.has_exited => ThreadState::Exit,
            Base::Run if live.running.is_some_and(|cpu| !self.cpu(cpu).stack.is_empty()) => ThreadState::Interrupted,
            Base::Run => mode,
        }
    }

    /// Ends the piece of a thread whose state has changed.
    #[inline]
    pub(super) fn refresh_thread(&mut self, thread: ThreadIndex, observer: &mut (impl Observer + ?Sized)) {
        self.refresh_in(thread, self.mode(thread), observer);
    }

    /// As [`refresh_thread`](Self::refresh_thread), of a thread that runs in a mode when it does.
    #[inline]
    fn refresh_in(&mut self, thread: ThreadIndex, mode: ThreadState, observer: &mut (impl Observer + ?Sized)) {
        let Some(live) = self.thread(thread).live() else { return };
        let state = self.state(live, mode);
        let (from, before) = live.piece;
        if before == Some(state) {
            return;
        }
        self.report_thread_piece(thread, (from, self.now), before, observer);
        let now = self.now;
        if let Some(live) = self.live(thread) {
            live.piece = (now, Some(state));
            live.had_state |= state != ThreadState::Unknown;
        }
    }

    /// Ends the pieces of a CPU and of its thread that have changed.
    pub(super) fn refresh_cpu(&mut self, cpu: CpuIndex, observer: &mut (impl Observer + ?Sized)) {
        let current = self.cpu(cpu).current;
        let mode = current.thread().map(|thread| {
            let mode = self.mode(thread);
            self.refresh_in(thread, mode, observer);
            mode
        });
        let of = self.cpu(cpu);
        let status = of.status_with(mode);
        if (current, status) != (of.piece.1, of.piece.2) {
            self.end_cpu_piece(cpu, observer);
            self.cpus[cpu.0 as usize].piece = (self.now, current, status);
        }
    }

    #[inline]
    fn end_cpu_piece(&mut self, cpu: CpuIndex, observer: &mut (impl Observer + ?Sized)) {
        let (from, current, status): (Ns, Current, CpuStatus) = self.cpu(cpu).piece;
        if from < self.now {
            let thread = match current {
                Current::Unknown => None,
                Current::Idle => Some(None),
                Current::Thread(thread) => Some(Some(thread)),
            };
            self.report_cpu_piece(CpuPiece { cpu, from, to: self.now, thread, status }, observer);
        }
    }

    #[inline]
    fn end_thread_piece(&mut self, thread: ThreadIndex, observer: &mut (impl Observer + ?Sized)) {
        let of = self.thread(thread);
        let (from, state) = match (of.live(), of.dead_since()) {
            (Some(live), _) => live.piece,
            (None, Some(since)) => (self.begin.unwrap_or(self.now) + Ns::from(since), Some(ThreadState::Dead)),
            (None, None) => return,
        };
        self.report_thread_piece(thread, (from, self.now), state, observer);
    }

    #[inline]
    pub(super) fn report_thread_piece(
        &self,
        thread: ThreadIndex,
        (from, to): (Ns, Ns),
        state: Option<ThreadState>,
        observer: &mut (impl Observer + ?Sized),
    ) {
        let Some(state) = state.filter(|state| *state != ThreadState::Unknown && from < to) else { return };
        self.divide_thread_piece(ThreadPiece { thread, from, to, state }, observer);
    }
}
