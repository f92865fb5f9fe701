//! `contention`: waits for locks of programs and of the kernel, who released them, and who took whose CPU (`docs/kernel.md`,
//! section 3.14).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, CpuPiece, Happening, Machines, Map, Ns, Observer, Reason, RunEnd, SystemCall, Thread, ThreadIndex,
    ThreadPiece, ThreadState, Woken,
};
use tracemill_semantics::{Concept, Field};

use crate::durations::Durations;
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, known_key};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analyses::locks::{FUTEX, WAITS, WAKES, operation_of};
use crate::kernel::analyses::occupancy::{Occupancy, Occupant, grown};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, AnalysisOption, PERIODS, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups.
    By {
        /// The lock: its process where it is one of a program, and its address.
        Lock = "lock",
        /// The thread that waited.
        Thread = "thread",
        /// The thread that released the lock.
        Releaser = "releaser",
    }
}

/// The key of the matrix of who took whose CPU.
const TAKER: &str = "taker";

/// Options of the matrix. What CPUs ran before and after a period counts in it, so that nothing here is made for periods.
const TAKERS: &[AnalysisOption] = {
    use AnalysisOption::{Begin, By, Comm, Pid, Tid};
    &[By, Tid, Pid, Comm, Begin]
};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "contention",
    about: "waits for locks of programs and the kernel, who released them, and who took whose CPU",
    forms: &[
        AnalysisForm::plain(
            By::NAMES,
            PERIODS,
            RowNouns::for_groups(&["locks", "threads", "releasers"]).with_spans("waits").with_buckets("waits"),
        ),
        AnalysisForm {
            option: "--by taker",
            word: None,
            keys: &[TAKER],
            takes: TAKERS,
            nouns: RowNouns::for_groups(&["pairs of threads"]),
        },
    ],
    needs: &[&[Concept::SysExit, Concept::ContendEnd, Concept::Switch]],
    needs_for: &[(TAKER, &[Concept::Switch])],
    wants: &[
        (Concept::SysEntry, "waits for locks of programs"),
        (Concept::ContendBegin, "waits for locks of the kernel"),
        (Concept::Wake, "who released a lock"),
    ],
    over_periods: None,
    example: "contention --log --min 30ms",
    make: |query| match query.by.as_deref() {
        Some(TAKER) => Box::new(Takers { query: query.clone(), ..Takers::default() }),
        _ => Box::new(Contention::new(query)),
    },
};

/// Meaning of bits of `contention_begin` (`include/trace/events/lock.h`).
const SPIN: i128 = 1;
const READ: i128 = 2;
const WRITE: i128 = 4;
const RT: i128 = 8;
const PER_CPU: i128 = 16;
const MUTEX: i128 = 32;

/// The kind of a lock of the kernel.
fn kernel_kind(flags: Option<i128>) -> &'static str {
    match flags {
        None => "kernel",
        Some(0) => "semaphore",
        Some(SPIN) => "spinlock",
        Some(flags) if flags == SPIN | READ => "rwlock:R",
        Some(flags) if flags == SPIN | WRITE => "rwlock:W",
        Some(READ) => "rwsem:R",
        Some(WRITE) => "rwsem:W",
        Some(RT) => "rt-mutex",
        Some(flags) if flags == RT | READ => "rwlock-rt:R",
        Some(flags) if flags == RT | WRITE => "rwlock-rt:W",
        Some(flags) if flags == PER_CPU | READ => "pcpu-sem:R",
        Some(flags) if flags == PER_CPU | WRITE => "pcpu-sem:W",
        Some(flags) if flags & !SPIN == MUTEX => "mutex",
        Some(_) => "kernel",
    }
}

/// A lock: its machine, its process (none of the kernel's), its address.
type Lock = (u32, Option<i64>, i128);

/// A wait that has not ended.
#[derive(Clone, Copy)]
struct OpenWait {
    lock: Lock,
    kind: &'static str,
    from: Ns,
    /// Threads that wait for the lock when it begins, this one included.
    at_once: u64,
    /// The wake that ended the last time that the thread was blocked in it: by whom, and when.
    wake: Option<(ThreadIndex, Ns)>,
}

/// Figures of waits beside their durations.
#[derive(Clone, Default)]
struct Contended {
    /// Machine and number of each thread that waited.
    waiters: BTreeSet<(u32, i64)>,
    at_once: u64,
    to_release: u128,
    inversions: u64,
    inverted: u128,
}

impl Sum for Contended {
    fn add(&mut self, mut other: Self) {
        self.waiters.append(&mut other.waiters);
        self.at_once = self.at_once.max(other.at_once);
        self.to_release += other.to_release;
        self.inversions += other.inversions;
        self.inverted += other.inverted;
    }
}

impl Aggregate for Contended {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.at_once);
        packing.number(&mut self.to_release);
        packing.number(&mut self.inversions);
        packing.number(&mut self.inverted);
        let mut waiters: Vec<(u32, i64)> = std::mem::take(&mut self.waiters).into_iter().collect();
        packing.list(&mut waiters, |packing, (machine, tid)| {
            packing.number(machine);
            packing.number(tid);
        });
        self.waiters = waiters.into_iter().collect();
    }
}

const AT_ONCE: &str = "threads that waited for the lock at once";
const TO_RELEASE: &str = "time of waits until the lock was released";
const INVERTED: &str =
    "of that, time in which the releaser could run and a thread of lower priority than the waiter's had the CPU";

impl SpanFigures for Contended {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("waiters", Unit::Count, "threads that waited", |of| (of.waiters.len() as u64).into()),
        own_column("at_once", Unit::Count, AT_ONCE, |of| of.at_once.into()),
        own_column("to_release_ns", Unit::Duration, TO_RELEASE, |of| Value::Integer(of.to_release as i128)),
        own_column("inversions", Unit::Count, "waits with an inversion of priorities", |of| of.inversions.into()),
        own_column("inverted_ns", Unit::Duration, INVERTED, |of| Value::Integer(of.inverted as i128)),
    ];
}

/// A wait, as lists show it.
struct WaitRow<'r> {
    open: OpenWait,
    thread: &'r Thread,
    span: SpanTimes,
    releaser: Option<&'r Thread>,
    to_release: Option<u64>,
    inverted: u64,
}

const KIND: &str = "futex, or the kind of a lock of the kernel";
const ADDRESS: &str = "address of the lock";
const RELEASER: &str = "number of the thread that released the lock";

impl<'r> WaitRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("kind", Unit::Name, KIND, |wait| Value::Word(wait.open.kind)),
        own_column("lock", Unit::Name, ADDRESS, |wait| Value::Integer(wait.open.lock.2)),
        column("tid", Unit::Name, |wait| wait.thread.tid.into()),
        column("pid", Unit::Name, |wait| Value::integer(wait.thread.pid())),
        column("comm", Unit::Name, |wait| Value::text(wait.thread.comm.as_deref())),
        column("from", Unit::Time, |wait| wait.span.from.into()),
        column("to", Unit::Time, |wait| wait.span.to.into()),
        column("duration_ns", Unit::Duration, |wait| wait.span.duration.into()),
        own_column("at_once", Unit::Count, AT_ONCE, |wait| wait.open.at_once.into()),
        own_column("releaser", Unit::Name, RELEASER, |wait| Value::integer(wait.releaser.map(|of| of.tid))),
        own_column("releaser_comm", Unit::Name, "its name", |wait| {
            Value::text(wait.releaser.and_then(|of| of.comm.as_deref()))
        }),
        own_column("to_release_ns", Unit::Duration, TO_RELEASE, |wait| Value::integer(wait.to_release)),
        own_column("inverted_ns", Unit::Duration, INVERTED, |wait| wait.inverted.into()),
    ];
}

/// Waits for locks.
struct Contention {
    by: By,
    spans: Spans<Contended>,
    open: Map<(ThreadIndex, Lock), OpenWait>,
    /// Locks for which a thread waits: two where one of the kernel is met in a call for one of a program.
    locks_of: Map<ThreadIndex, Vec<Lock>>,
    /// How many threads wait for a lock.
    waiting: Map<Lock, u64>,
    /// Operations of calls that let others go on, and their locks.
    releases: Map<ThreadIndex, Lock>,
    occupancy: Occupancy,
    /// By the index of the thread: when it could run and did not.
    runnable: Vec<Vec<(Ns, Ns)>>,
}

impl Contention {
    fn new(query: &AnalysisQuery) -> Self {
        Contention {
            by: query.key(By::from_name).unwrap_or(By::Lock),
            spans: Spans::new(query),
            open: Map::default(),
            locks_of: Map::default(),
            waiting: Map::default(),
            releases: Map::default(),
            occupancy: Occupancy::default(),
            runnable: Vec::new(),
        }
    }

    fn begin(&mut self, thread: ThreadIndex, lock: Lock, kind: &'static str, from: Ns) {
        self.forget(thread, lock);
        let waiting = self.waiting.entry(lock).or_default();
        *waiting += 1;
        let open = OpenWait { lock, kind, from, at_once: *waiting, wake: None };
        self.open.insert((thread, lock), open);
        self.locks_of.entry(thread).or_default().push(lock);
    }

    /// Ends a wait without making it a span.
    fn forget(&mut self, thread: ThreadIndex, lock: Lock) -> Option<OpenWait> {
        let open = self.open.remove(&(thread, lock))?;
        if let Some(waiting) = self.waiting.get_mut(&lock) {
            *waiting -= 1;
            if *waiting == 0 {
                self.waiting.remove(&lock);
            }
        }
        if let Some(locks) = self.locks_of.get_mut(&thread) {
            locks.retain(|own| *own != lock);
            if locks.is_empty() {
                self.locks_of.remove(&thread);
            }
        }
        Some(open)
    }

    fn forget_all(&mut self, thread: ThreadIndex) {
        for lock in self.locks_of.get(&thread).cloned().unwrap_or_default() {
            self.forget(thread, lock);
        }
        self.releases.remove(&thread);
    }

    fn end(&mut self, machines: &Machines, thread: ThreadIndex, lock: Lock, cpu: Option<CpuIndex>, to: Ns) {
        let Some(open) = self.forget(thread, lock) else { return };
        let query = &self.spans.query;
        if !query.wants_cpu(machines, cpu) || !query.wants_thread(machines, Some(thread)) {
            return;
        }
        let of = machines.thread(thread);
        let span = SpanTimes::new(machines, of.machine, (open.from, to));
        let to_release = open.wake.map(|(_, at)| SpanTimes::new(machines, of.machine, (open.from, at)).duration);
        let inverted = open.wake.map_or(0, |(releaser, at)| self.inverted(machines, of, releaser, (open.from, at)));
        let releaser = open.wake.map(|(releaser, _)| machines.thread(releaser));
        let figures = Contended {
            waiters: BTreeSet::from([(of.machine, of.tid)]),
            at_once: open.at_once,
            to_release: to_release.unwrap_or(0).into(),
            inversions: u64::from(inverted > 0),
            inverted: inverted.into(),
        };
        let key = match self.by {
            // Addresses take all 64 bits.
            By::Lock => GroupKey {
                machine: of.machine,
                number: lock.1.unwrap_or(NO_KEY),
                name: lock.2 as i64,
                other: i64::from(open.kind == FUTEX),
            },
            By::Thread => GroupKey { machine: of.machine, number: of.tid, ..GroupKey::default() },
            By::Releaser => {
                let number = releaser.map_or(NO_KEY, |releaser| releaser.tid);
                GroupKey { machine: of.machine, number, ..GroupKey::default() }
            }
        };
        self.spans.add(machines, &span, key, figures, || {
            values_of(WaitRow::LOG, WaitRow { open, thread: of, span, releaser, to_release, inverted })
        });
    }

    /// The time in a range in which a thread could run, and one of lower priority than a waiter had its CPU.
    fn inverted(&self, machines: &Machines, waiter: &Thread, releaser: ThreadIndex, (from, to): (Ns, Ns)) -> u64 {
        let (Some(prio), Some(waits)) = (waiter.prio(), self.runnable.get(releaser.0 as usize)) else { return 0 };
        let mut inverted = 0;
        for (begin, end) in waits.iter().rev().take_while(|(_, end)| *end > from) {
            let part = ((*begin).max(from), (*end).min(to));
            if part.0 >= part.1 {
                continue;
            }
            for (cpu, begin, end) in self.occupancy.queued(machines, releaser, part) {
                let Some(cpu) = cpu else { continue };
                for (occupant, time) in self.occupancy.occupants(machines, cpu, (begin, end)) {
                    if let Occupant::Thread(thread) = occupant
                        && machines.thread(thread).prio().is_some_and(|own| own > prio)
                    {
                        inverted += time;
                    }
                }
            }
        }
        u64::try_from(inverted).unwrap_or(u64::MAX)
    }

    /// The lock of a call of `futex`, which is one of a process.
    fn futex(machines: &Machines, thread: ThreadIndex, happening: &Happening<'_>) -> Option<(i128, Lock)> {
        let of = machines.thread(thread);
        let (operation, address) = (operation_of(happening)?, happening.values.integer(Field::Uaddr)?);
        Some((operation, (of.machine, Some(of.pid().unwrap_or(NO_KEY)), address)))
    }
}

impl Observer for Contention {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        self.occupancy.on_cpu_piece(machines, piece, (None, None));
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        self.occupancy.on_thread_piece(machines, piece);
        if piece.state == ThreadState::WaitCpu {
            grown(&mut self.runnable, piece.thread.0 as usize).push((piece.from, piece.to));
        }
    }

    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        // A wait whose exit was lost is no span.
        self.forget_all(thread);
        if name != FUTEX {
            return;
        }
        match Contention::futex(machines, thread, happening) {
            Some((operation, lock)) if WAITS.contains(&operation) => self.begin(thread, lock, FUTEX, at),
            Some((operation, lock)) if WAKES.contains(&operation) => drop(self.releases.insert(thread, lock)),
            _ => {}
        }
    }

    fn run_ended(&mut self, _: &Machines, thread: ThreadIndex, how: RunEnd, _: Ns) {
        match how {
            RunEnd::Blocked => {
                for lock in self.locks_of.get(&thread).into_iter().flatten() {
                    if let Some(open) = self.open.get_mut(&(thread, *lock)) {
                        open.wake = None;
                    }
                }
            }
            RunEnd::Ended => self.forget_all(thread),
            RunEnd::Preempted | RunEnd::Unknown => {}
        }
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        let Some(waker) = woken.waker.filter(|_| woken.reason == Reason::Thread) else { return };
        if machines.thread(woken.thread).state() != ThreadState::Wait {
            return;
        }
        // Of several locks, the thread waits for the last one.
        let Some(lock) = self.locks_of.get(&woken.thread).and_then(|locks| locks.last()).copied() else { return };
        let is_released = lock.1.is_none() || self.releases.get(&waker) == Some(&lock);
        if let Some(open) = self.open.get_mut(&(woken.thread, lock)).filter(|_| is_released) {
            open.wake = Some((waker, woken.at));
        }
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        self.releases.remove(&call.thread);
        for lock in self.locks_of.get(&call.thread).cloned().unwrap_or_default() {
            if lock.1.is_some() {
                self.end(machines, call.thread, lock, Some(call.cpu), call.to);
            }
        }
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.occupancy.on_applied(machines, machine, happening, at);
        if !matches!(happening.concept, Concept::ContendBegin | Concept::ContendEnd) {
            return;
        }
        let thread = cpu.and_then(|cpu| machines.cpu(cpu).current().thread());
        let (Some(thread), Some(address)) = (thread, happening.values.integer(Field::Uaddr)) else { return };
        let lock = (machine, None, address);
        if happening.concept == Concept::ContendBegin {
            self.begin(thread, lock, kernel_kind(happening.values.integer(Field::Op)), at);
        } else {
            self.end(machines, thread, lock, cpu, at);
        }
    }
}

impl Analysis for Contention {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CallBegan, CallEnded, CpuPiece, RunEnded, ThreadPiece, Woken};
        (&[CpuPiece, ThreadPiece, CallBegan, RunEnded, Woken, CallEnded, Applied], ReportTimes::All)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Contention { by, spans, open, .. } = *self;
        let query = spans.query.clone();
        let is_wanted = |(thread, _): &&(ThreadIndex, Lock)| query.wants_thread(machines, Some(*thread));
        let unfinished = open.keys().filter(is_wanted).count() as u64;
        let labels = GroupLabels { by, machines: machines.clone(), names: Names::default() };
        let mut table = spans.finish("contention", range, columns_of(WaitRow::LOG), labels);
        table.notes.push(("unfinished", unfinished));
        table
    }
}

impl<'r> SpanGroup<'r, By> {
    const IS_FUTEX: ColumnOf<'r, Self> =
        own_column("of", Unit::Name, "a lock of a program or of the kernel", |group| {
            Value::Word(if group.key.other != 0 { "program" } else { "kernel" })
        });
    const LOCK: ColumnOf<'r, Self> =
        own_column("lock", Unit::Name, ADDRESS, |group| Value::Integer((group.key.name as u64).into()));
    const RELEASER: ColumnOf<'r, Self> =
        own_column("releaser", Unit::Name, RELEASER, |group| Value::integer(known_key(group.key.number)));
    const RELEASER_COMM: ColumnOf<'r, Self> = own_column("releaser_comm", Unit::Name, "its name", |group| {
        Value::text(group.thread().and_then(|thread| thread.comm.as_deref()))
    });
    const BY_LOCK: &'r [ColumnOf<'r, Self>] = &[Self::PID, Self::IS_FUTEX, Self::LOCK];
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::TID, Self::COMM];
    const BY_RELEASER: &'r [ColumnOf<'r, Self>] = &[Self::RELEASER, Self::RELEASER_COMM];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Lock => SpanGroup::<By>::BY_LOCK,
            By::Thread => SpanGroup::<By>::BY_THREAD,
            By::Releaser => SpanGroup::<By>::BY_RELEASER,
        }
    }

    fn is_by_number(&self) -> bool {
        true
    }

    fn has_row(&self, durations: &Durations) -> bool {
        durations.moments.count > 0
    }
}

/// `--by taker`: who had the CPUs for which threads waited.
#[derive(Default)]
struct Takers {
    query: AnalysisQuery,
    occupancy: Occupancy,
    /// When threads could run and did not.
    waits: Vec<(ThreadIndex, Ns, Ns)>,
}

impl Observer for Takers {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        self.occupancy.on_cpu_piece(machines, piece, (self.query.begin, self.query.end));
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        self.occupancy.on_thread_piece(machines, piece);
        if piece.state == ThreadState::WaitCpu
            && let Some((from, to)) = self.query.clip(piece.from, piece.to)
            && self.query.wants_thread(machines, Some(piece.thread))
        {
            self.waits.push((piece.thread, from, to));
        }
    }

    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.occupancy.on_applied(machines, machine, happening, at);
    }
}

/// Times for which one thread had the CPU of another one.
#[derive(Clone, Copy, Default)]
struct CpuTakeover {
    waits: u64,
    total: Ns,
    longest: Ns,
}

/// A pair of threads: the one that could run, and the one that ran in its place.
struct TakerRow<'r> {
    thread: &'r Thread,
    occupant: Occupant,
    by: Option<&'r Thread>,
    taken: CpuTakeover,
}

impl<'r> TakerRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("by", Unit::Name, "thread that had the CPU; 0 is the idle one", |row| match row.occupant {
            Occupant::Idle => Value::Integer(0),
            _ => Value::integer(row.by.map(|by| by.tid)),
        }),
        own_column("by_comm", Unit::Name, "its name; interrupts; unknown", |row| match row.occupant {
            Occupant::Idle => Value::Word("idle"),
            Occupant::Interrupt(_) => Value::Word("interrupts"),
            Occupant::Unknown => Value::Word("unknown"),
            Occupant::Thread(_) => Value::text(row.by.and_then(|by| by.comm.as_deref())),
        }),
        own_column("waits", Unit::Count, "waits in which it had the CPU", |row| row.taken.waits.into()),
        own_column("total_ns", Unit::Duration, "time for which it had the CPU in these", |row| row.taken.total.into()),
        own_column("longest_ns", Unit::Duration, "most of that in one wait", |row| row.taken.longest.into()),
    ];
}

impl Analysis for Takers {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CpuPiece, ThreadPiece};
        (&[CpuPiece, ThreadPiece, Applied], ReportTimes::All)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Takers { query, occupancy, waits } = *self;
        let mut pairs: BTreeMap<(ThreadIndex, Occupant), CpuTakeover> = BTreeMap::new();
        for (thread, from, to) in waits {
            let mut of_wait: BTreeMap<Occupant, Ns> = BTreeMap::new();
            for (cpu, from, to) in occupancy.queued(machines, thread, (from, to)) {
                let occupants = cpu.map(|cpu| occupancy.occupants(machines, cpu, (from, to)));
                for (occupant, time) in occupants.unwrap_or_else(|| vec![(Occupant::Unknown, to - from)]) {
                    let occupant = match occupant {
                        Occupant::Interrupt(_) => Occupant::Interrupt(None),
                        occupant => occupant,
                    };
                    *of_wait.entry(occupant).or_default() += time;
                }
            }
            for (occupant, time) in of_wait {
                let taken = pairs.entry((thread, occupant)).or_default();
                taken.waits += 1;
                taken.total += time;
                taken.longest = taken.longest.max(time);
            }
        }
        let order = Order::Largest("total_ns");
        let columns = query.columns(columns_of(TakerRow::COLUMNS));
        let mut table = Table { analysis: "contention", range, columns, order, ..Table::default() };
        for ((thread, occupant), taken) in pairs {
            let by = match occupant {
                Occupant::Thread(by) => Some(machines.thread(by)),
                _ => None,
            };
            let thread = machines.thread(thread);
            let row = TakerRow { thread, occupant, by, taken };
            query.emit_row(thread.machine, values_of(TakerRow::COLUMNS, row), &mut table.rows);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::question::query::View;
    use crate::kernel::testing::played::{played, rows};

    /// Two threads wait for a lock of 5, which 9 keeps from its CPU.
    const CONVOY: &str = "100 0 dump_task tid=5 pid=4 mode=0 status=5
        100 0 dump_task tid=6 pid=4 mode=0 status=5
        100 0 dump_task tid=7 pid=4 mode=0 status=5
        100 0 switch prev=0 next=5 prio=30
        110 1 switch prev=0 next=6 prio=10
        120 1 sys_entry name=futex uaddr=64 op=0
        130 1 switch prev=6 next=7 state=1 prio=20
        140 1 sys_entry name=futex uaddr=64 op=0
        150 1 switch prev=7 next=0 state=1
        160 0 switch prev=5 next=9 state=0 prio=25
        200 0 switch prev=9 next=5 state=1 prio=30
        210 0 sys_entry name=futex uaddr=64 op=1
        220 0 wake tid=6 cpu=1
        230 0 sys_exit ret=1
        240 1 switch prev=0 next=6 prio=10
        250 1 sys_exit ret=0
        260 0 wake tid=7 cpu=1
        270 1 switch prev=6 next=7 state=1 prio=20
        280 1 sys_exit ret=0
        300 1 -";

    fn log(stream: &str) -> Vec<String> {
        let query = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
        let columns = ["kind", "lock", "tid", "from", "to", "at_once", "releaser", "to_release_ns", "inverted_ns"];
        rows(&played(&DESCRIPTOR, &query, stream), &columns)
    }

    #[test]
    fn waits_have_releasers_convoys_and_inversions() {
        // Thread 5 wakes 7 outside of a call that releases the lock: nobody is known to have released it.
        let expected = ["futex 64 6 120 250 1 5 100 40", "futex 64 7 140 280 2 - - 0"];
        assert_eq!(log(CONVOY), expected);
        let by = |key: &str, columns: &[&str]| {
            let query = AnalysisQuery { by: Some(key.to_string()), ..AnalysisQuery::default() };
            rows(&played(&DESCRIPTOR, &query, CONVOY), columns)
        };
        let figures = ["count", "total_ns", "waiters", "at_once", "to_release_ns", "inversions", "inverted_ns"];
        assert_eq!(by("lock", &[&["pid", "of", "lock"][..], &figures].concat()), ["4 program 64 2 270 2 2 100 1 40"]);
        assert_eq!(by("releaser", &["releaser", "count", "to_release_ns"]), ["- 1 0", "5 1 100"]);
        // A thread of a higher priority than the waiter's inverts nothing.
        let higher = CONVOY.replace("prio=25", "prio=5");
        assert_eq!(log(&higher)[0], "futex 64 6 120 250 1 5 100 0");
        let takers = by("taker", &["tid", "by", "by_comm", "waits", "total_ns", "longest_ns"]);
        assert_eq!(takers, ["5 9 - 1 40 40", "6 0 idle 1 20 20", "7 6 - 1 10 10"]);
    }

    #[test]
    fn locks_of_the_kernel_have_their_kinds() {
        let stream = |flags: &str| {
            format!(
                "100 0 switch prev=0 next=5
                 110 0 contend_begin uaddr=99 op={flags}
                 120 0 switch prev=5 next=0 state=2
                 130 1 switch prev=0 next=6
                 150 1 wake tid=5 cpu=0
                 160 0 switch prev=0 next=5
                 170 0 contend_end uaddr=99 ret=0
                 180 0 contend_end uaddr=99 ret=0
                 200 0 -"
            )
        };
        let kinds = [
            (0, "semaphore"),
            (1, "spinlock"),
            (3, "rwlock:R"),
            (5, "rwlock:W"),
            (2, "rwsem:R"),
            (4, "rwsem:W"),
            (8, "rt-mutex"),
            (10, "rwlock-rt:R"),
            (12, "rwlock-rt:W"),
            (18, "pcpu-sem:R"),
            (20, "pcpu-sem:W"),
            (32, "mutex"),
            (33, "mutex"),
            (64, "kernel"),
        ];
        for (flags, kind) in kinds {
            assert_eq!(log(&stream(&flags.to_string())), [format!("{kind} 99 5 110 170 1 6 40 0")]);
        }
        // An end without a begin is no wait.
        assert_eq!(log(&stream("1").replace("contend_begin", "-")), [""; 0]);
    }
}
