//! Times at which a machine was suspended (`docs/kernel.md`, section 2.7).
//!
//! A suspended machine does nothing, whatever its CPUs and threads were at. Its time is taken out of their pieces when
//! these are reported, and out of the lengths of spans: so the rules of events need not know of it.

use super::cpu::CpuStatus;
use super::machine::{ConceptValues, CpuIndex, Happening, Machines, Ns, PendingLoss};
use super::observer::{CpuPiece, Credit, Observer, ThreadPiece};
use super::thread::{Base, ThreadState};
use crate::{Concept, Field};

/// The shortest time without any event that is taken for a suspension, though nothing says so. A kernel reports a soft
/// lockup when a CPU runs one thread for 20 s.
const MIN_SILENCE_NS: Ns = 20_000_000_000;

/// A suspension that nothing recorded is this many times as long as any time without events before it.
const MIN_RATIO: Ns = 10;

/// The action of `suspend_resume` in which nothing runs.
const SLEEP: &str = "machine_suspend";

/// Resuming, as the state of `machine_suspend` says it: -1 in 32 bits.
const RESUME: i64 = 0xffff_ffff;

/// The suspensions of a trace, in figures.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Suspensions {
    /// How many there were, of all machines.
    pub count: u64,
    /// Their time.
    pub total: Ns,
    /// How many of them no event recorded: they are taken from jumps of the clock.
    pub inferred: u64,
}

impl Suspensions {
    /// The sentence about them, of a trace that has any.
    pub fn sentence(&self) -> String {
        let Suspensions { count, total, inferred } = *self;
        let times = if count == 1 { "once".to_string() } else { format!("{count} times") };
        let why = match inferred {
            0 => String::new(),
            1 if count == 1 => ": its clock jumped while it had work to do".to_string(),
            _ => format!(", {inferred} of them inferred from jumps of its clock while it had work to do"),
        };
        let (seconds, ns) = (total.div_euclid(1_000_000_000), total.rem_euclid(1_000_000_000));
        format!(
            "the machine was suspended {times}, for {seconds}.{ns:09} s{why}; \
             no thread runs or waits in that time, and durations leave it out"
        )
    }
}

/// When each machine was suspended.
#[derive(Debug, Default)]
pub(super) struct Suspended {
    machines: Vec<MachineSuspended>,
    /// Was any machine suspended so far? Most traces have no suspension.
    has_any: bool,
}

#[derive(Debug, Default)]
struct MachineSuspended {
    /// Time of the last event, and the second in which it was.
    last: Option<Ns>,
    second: i64,
    /// The longest time without events so far, if it was longer than a second.
    longest: Ns,
    /// Times at which it was suspended, in their order.
    over: Vec<(Ns, Ns)>,
    /// Since when it is suspended, and the CPU whose event said so.
    open: Option<(Ns, Option<CpuIndex>)>,
    /// The last begin of an action whose name is not known: the address of its name, its time, and which event it was.
    unnamed: Option<(i64, Ns, u64)>,
    /// A long time without events that is a suspension if a thread ran in it.
    possible: Option<(Ns, Ns)>,
    inferred: u64,
}

impl MachineSuspended {
    fn add(&mut self, from: Ns, to: Ns) {
        match self.over.last_mut() {
            Some(last) if last.1 >= from => last.1 = last.1.max(to),
            _ => self.over.push((from, to)),
        }
    }

    /// The suspended parts of a time that ends now or before.
    fn parts(&self, from: Ns, to: Ns) -> impl Iterator<Item = (Ns, Ns)> {
        let first = self.over.partition_point(|(_, end)| *end <= from);
        let open = self.open.map(|(since, _)| (since, to));
        let parts = self.over[first..].iter().copied().chain(open);
        let parts = parts.take_while(move |(begin, _)| *begin < to);
        parts.map(move |(begin, end)| (begin.max(from), end.min(to))).filter(|(begin, end)| begin < end)
    }
}

impl Suspended {
    fn machine_mut(&mut self, machine: u32) -> &mut MachineSuspended {
        let at = machine as usize;
        if self.machines.len() <= at {
            self.machines.resize_with(at + 1, MachineSuspended::default);
        }
        &mut self.machines[at]
    }

    /// Takes the time of an event of a machine; `false` where it is not in the second of the one before, so that it may end a
    /// silence.
    #[inline]
    pub(super) fn is_in_same_second(&mut self, machine: u32, ns: Ns) -> bool {
        match self.machines.get_mut(machine as usize) {
            Some(of) if of.second == second_of(ns) => {
                of.last = Some(ns);
                true
            }
            _ => false,
        }
    }
}

/// A second of 2^30 ns: this is asked for each event, and a division takes longer than all the rest.
#[inline]
fn second_of(ns: Ns) -> i64 {
    (ns >> 30) as i64
}

impl Machines {
    /// How often, and for how long, the machines were suspended.
    pub fn suspensions(&self) -> Suspensions {
        let mut found = Suspensions::default();
        for of in &self.suspended.machines {
            let open = of.open.map(|(since, _)| (since, self.now)).filter(|(since, now)| since < now);
            for (from, to) in of.over.iter().copied().chain(open) {
                found.count += 1;
                found.total += to - from;
            }
            found.inferred += of.inferred;
        }
        found
    }

    /// The length of a time of a machine that is over, without the time for which it was suspended.
    #[inline]
    pub fn length(&self, machine: u32, from: Ns, to: Ns) -> Ns {
        if self.suspended.has_any { self.length_awake(machine, from, to) } else { to - from }
    }

    #[cold]
    fn length_awake(&self, machine: u32, from: Ns, to: Ns) -> Ns {
        let of = self.suspended.machines.get(machine as usize);
        let suspended: Ns = of.into_iter().flat_map(|of| of.parts(from, to)).map(|(from, to)| to - from).sum();
        to - from - suspended
    }

    /// The parts of a time of a machine that is over, and whether it was suspended in each.
    fn each_part(&self, machine: u32, (from, to): (Ns, Ns), mut each: impl FnMut(Ns, Ns, bool)) {
        let mut at = from;
        let of = self.suspended.machines.get(machine as usize);
        for (begin, end) in of.into_iter().flat_map(|of| of.parts(from, to)) {
            if at < begin {
                each(at, begin, false);
            }
            each(begin, end, true);
            at = end;
        }
        if at < to {
            each(at, to, false);
        }
    }

    /// An event of a machine is the first one, or not in the second of the one before.
    #[cold]
    #[inline(never)]
    pub(super) fn end_silence(&mut self, machine: u32, ns: Ns) {
        let of = self.suspended.machine_mut(machine);
        of.second = second_of(ns);
        let Some(last) = of.last.replace(ns.max(of.last.unwrap_or(ns))).filter(|last| *last < ns) else { return };
        let is_long = ns - last >= MIN_SILENCE_NS.max(of.longest.saturating_mul(MIN_RATIO));
        let is_recorded = of.open.is_some();
        of.longest = of.longest.max(ns - last);
        if !is_long || is_recorded || !self.can_have(machine, &[Concept::Switch]) || self.has_unseen(machine) {
            return;
        }
        if self.has_work(machine, ns) {
            self.infer(machine, last, ns);
        } else {
            self.suspended.machine_mut(machine).possible = Some((last, ns));
        }
    }

    fn infer(&mut self, machine: u32, from: Ns, to: Ns) {
        self.suspended.has_any = true;
        let of = self.suspended.machine_mut(machine);
        of.add(from, to);
        of.inferred += 1;
    }

    /// Is there something that a machine would have done until a time, if it could, with an event in the end?
    fn has_work(&self, machine: u32, until: Ns) -> bool {
        let has_losses = |number: u64| {
            let is_own = |loss: &PendingLoss| loss.at <= until && (loss.machine, loss.cpu) == (machine, number);
            self.losses.iter().any(|loss| is_own(&loss.0))
        };
        let mut own = self.cpus.iter().filter(|cpu| cpu.machine == machine && !has_losses(cpu.number));
        let mut waits = self.threads.iter().filter(|thread| thread.machine == machine);
        own.any(|cpu| cpu.current.thread().is_some() || !cpu.stack.is_empty())
            || waits.any(|thread| {
                let queued = thread.live().filter(|live| live.base == Base::WaitCpu).and_then(|live| live.queued);
                queued.is_some_and(|cpu| !has_losses(self.cpu(cpu).number))
            })
    }

    /// `suspend_resume` and `machine_suspend`.
    pub(super) fn suspend(
        &mut self,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_, impl ConceptValues>,
    ) {
        let now = self.now;
        let state = happening.number(Field::State);
        let is_begin = match (happening.number(Field::Start), state) {
            (Some(start), _) => start != 0,
            (None, Some(state)) => state != -1 && state != RESUME,
            (None, None) => return,
        };
        let unnamed = match (happening.text(Field::Action), happening.number(Field::Action)) {
            (Some(action), _) if action != SLEEP => return,
            // The address of a name that the trace does not have.
            (None, Some(action)) => Some(action),
            _ => None,
        };
        let events = self.counts.events;
        let of = self.suspended.machine_mut(machine);
        let ended = match (unnamed, is_begin) {
            (Some(action), true) => {
                of.unnamed = Some((action, now, events));
                return;
            }
            // No event lies between the two, so that the action may be any.
            (Some(action), false) => {
                let begun = of.unnamed.take().filter(|(begun, _, at)| (*begun, at + 1) == (action, events));
                begun.map(|(_, since, _)| since)
            }
            (None, true) => {
                of.open.get_or_insert((now, cpu));
                self.suspended.has_any = true;
                return;
            }
            (None, false) => of.open.take().map(|(since, _)| since),
        };
        if let Some(since) = ended.filter(|since| *since < now) {
            of.add(since, now);
            self.suspended.has_any = true;
        }
    }

    /// Events of a CPU were lost, maybe the one that ends a suspension which this CPU began.
    pub(super) fn lose_suspension(&mut self, cpu: CpuIndex) {
        if !self.suspended.has_any {
            return;
        }
        let (machine, now) = (self.cpu(cpu).machine, self.now);
        let of = self.suspended.machine_mut(machine);
        if let Some((since, _)) = of.open.take_if(|(_, begun_on)| *begun_on == Some(cpu))
            && since < now
        {
            of.add(since, now);
        }
    }

    /// Reports a piece of a CPU, divided where the machine was suspended.
    #[inline]
    pub(super) fn report_cpu_piece(&self, piece: CpuPiece, observer: &mut (impl Observer + ?Sized)) {
        if !self.suspended.has_any {
            return observer.cpu_piece(self, &piece);
        }
        self.each_part(self.cpu(piece.cpu).machine, (piece.from, piece.to), |from, to, is_suspended| {
            let part = match is_suspended {
                true => CpuPiece { from, to, thread: None, status: CpuStatus::Suspended, ..piece },
                false => CpuPiece { from, to, ..piece },
            };
            observer.cpu_piece(self, &part);
        });
    }

    /// Reports a piece of a thread, divided where the machine was suspended. A thread that has ended stays so.
    #[inline]
    pub(super) fn divide_thread_piece(&self, piece: ThreadPiece, observer: &mut (impl Observer + ?Sized)) {
        if !self.suspended.has_any || matches!(piece.state, ThreadState::Zombie | ThreadState::Dead) {
            return observer.thread_piece(self, &piece);
        }
        self.each_part(self.thread(piece.thread).machine, (piece.from, piece.to), |from, to, is_suspended| {
            let state = if is_suspended { ThreadState::Suspended } else { piece.state };
            observer.thread_piece(self, &ThreadPiece { from, to, state, ..piece });
        });
    }

    /// Reports that a thread ran on a CPU, but for the time in which the machine was suspended. It had work to do then.
    pub(super) fn report_credit(&mut self, credit: &Credit, observer: &mut (impl Observer + ?Sized)) {
        let machine = self.cpu(credit.cpu).machine;
        let possible = self.suspended.machine_mut(machine).possible;
        let is_within = |(from, to): &(Ns, Ns)| credit.from <= *from && *to <= credit.to;
        if let Some((from, to)) = possible.filter(is_within) {
            self.suspended.machine_mut(machine).possible = None;
            self.infer(machine, from, to);
        }
        self.each_part(machine, (credit.from, credit.to), |from, to, is_suspended| {
            if !is_suspended {
                observer.credit(self, &Credit { from, to, ..*credit });
            }
        });
    }
}
