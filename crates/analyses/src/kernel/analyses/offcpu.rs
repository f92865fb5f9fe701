//! `offcpu`: times that threads were without a CPU, by reason and place (`docs/kernel.md`, section 3.19).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Map, Ns, Observer, Reason, RunEnd, SystemCall, Thread, ThreadIndex, ThreadPiece,
    ThreadState, Woken,
};
use tracemill_semantics::{Field, named};

use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, known_key, thread_key, thread_of};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans, ThreadColumn};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analyses::wait_facts::{CallObject, WaitFacts};
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, RowNouns, THREAD_SPANS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

named! {
    /// Keys of groups.
    By {
        /// The thread, the reason and the system call.
        Thread = "thread",
        /// The process, the reason and the system call.
        Process = "process",
        /// The name of the thread, the reason and the system call.
        Comm = "comm",
        /// The reason alone.
        Reason = "reason",
        /// The system call and the reason.
        Call = "call",
        /// The object of the system call, the call and the reason.
        Object = "object",
        /// The thread that ended the wait, and the reason.
        Waker = "waker",
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "offcpu",
    about: "times that threads were without a CPU: why, in which call, for what, and who woke them",
    forms: &[AnalysisForm::plain(
        By::NAMES,
        THREAD_SPANS,
        RowNouns::for_groups(&["rows", "rows", "rows", "reasons", "rows", "rows", "rows"])
            .with_spans("times off CPU")
            .with_buckets("times off CPU"),
    )],
    needs: &[&[Concept::Switch]],
    needs_for: &[],
    wants: &[
        (Concept::Wake, "what ended waits, and how long threads could run and did not"),
        (Concept::SysEntry, "the system calls of waits, their files and locks"),
        (Concept::RqComplete, "which disk a wait was for"),
    ],
    over_periods: None,
    example: "offcpu --comm 'oven-?'",
    make: |query| {
        Box::new(Offcpu {
            by: query.key(By::from_name).unwrap_or(By::Thread),
            spans: Spans::new(query),
            names: Names::default(),
            role: PeriodRole::Alone,
            tracker: Rc::default(),
        })
    },
};

named! {
    /// Why a thread was without a CPU.
    OffReason {
        /// It lost its CPU though it could run on.
        Preempted = "preempted",
        /// It could run, and had no CPU yet.
        Runnable = "runnable",
        /// It was made, and not yet woken.
        New = "new",
        /// It waited for a lock, until another thread woke it.
        Lock = "lock",
        /// Another thread woke it.
        Thread = "thread",
        /// A timer woke it.
        Timer = "timer",
        /// An interrupt from another CPU woke it.
        Ipi = "ipi",
        /// An interrupt woke it.
        Irq = "irq",
        /// The network woke it.
        Network = "network",
        /// A disk woke it.
        Disk = "disk",
        /// Another soft interrupt woke it.
        Softirq = "softirq",
        /// No event shows what woke it.
        Blocked = "blocked",
    }
}

impl OffReason {
    /// The reason of a wait, by the wake that ended it.
    fn of_wake(reason: Option<Reason>, is_for_lock: bool) -> OffReason {
        match reason {
            Some(Reason::Thread) if is_for_lock => OffReason::Lock,
            Some(Reason::Thread) => OffReason::Thread,
            Some(Reason::Timer) => OffReason::Timer,
            Some(Reason::Ipi) => OffReason::Ipi,
            Some(Reason::Irq) => OffReason::Irq,
            Some(Reason::Network) => OffReason::Network,
            Some(Reason::Disk) => OffReason::Disk,
            Some(Reason::Softirq) => OffReason::Softirq,
            Some(Reason::Unknown) | None => OffReason::Blocked,
        }
    }
}

/// Is a thread in this state without a CPU, and alive?
fn is_off(state: ThreadState) -> bool {
    matches!(state, ThreadState::Wait | ThreadState::WaitFork | ThreadState::WaitCpu)
}

struct Offcpu {
    by: By,
    spans: Spans<Wakers>,
    names: Names,
    role: PeriodRole,
    tracker: Rc<RefCell<Tracker>>,
}

/// A time without a CPU.
struct OffTime {
    thread: ThreadIndex,
    from: Ns,
    to: Ns,
    reason: OffReason,
    place: WaitPlace,
    /// The disk or the interrupt that ended it.
    source: Option<Rc<str>>,
    /// The thread that ended it.
    waker: Option<ThreadIndex>,
}

/// Where a thread is in the kernel.
#[derive(Default)]
struct WaitPlace {
    call: Option<Rc<str>>,
    /// The file, the peer or the lock that it waits for.
    object: Option<Rc<str>>,
    is_lock: bool,
}

/// A time without a CPU that has been reported, maybe not the last part of it.
struct Reported {
    thread: ThreadIndex,
    state: ThreadState,
    from: Ns,
    to: Ns,
    place: WaitPlace,
}

/// The states of threads, and what ends their waits.
#[derive(Default)]
struct Tracker {
    facts: WaitFacts,
    /// Locks of the kernel for which threads wait.
    contended: Map<ThreadIndex, i128>,
    /// When threads were preempted last.
    preempted: Map<ThreadIndex, Ns>,
    reported: Vec<Reported>,
    /// Times without a CPU that the present event ended.
    ended: Vec<OffTime>,
}

impl Tracker {
    fn on_thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        let last = self.reported.last_mut().filter(|last| (last.thread, last.to) == (piece.thread, piece.from));
        match last {
            // A suspended machine divides the time.
            Some(last) if piece.state == ThreadState::Suspended || piece.state == last.state => {
                last.to = piece.to;
            }
            _ if is_off(piece.state) => {
                let ThreadPiece { thread, from, to, state } = *piece;
                let place = self.place(machines, thread, state);
                self.reported.push(Reported { thread, state, from, to, place });
            }
            _ => {}
        }
    }

    fn place(&mut self, machines: &Machines, thread: ThreadIndex, state: ThreadState) -> WaitPlace {
        let call = self.facts.call_of(machines, thread);
        if state != ThreadState::Wait {
            return WaitPlace { call: call.map(|call| call.name), ..WaitPlace::default() };
        }
        let contended = self.contended.get(&thread).map(|lock| CallObject::Lock(*lock));
        let (call, object) = call.map_or((None, None), |call| (Some(call.name), call.object));
        let object = contended.or(object);
        let is_lock = matches!(object, Some(CallObject::Lock(_)));
        WaitPlace { call, object: object.as_ref().map(CallObject::text), is_lock }
    }

    /// Ends the times that the present event ended. One that ended before it, or whose thread does not go on, ended unseen.
    fn on_applied(
        &mut self,
        machines: &Machines,
        machine: u32,
        cpu: Option<CpuIndex>,
        happening: &Happening<'_>,
        at: Ns,
    ) {
        self.ended.clear();
        for reported in std::mem::take(&mut self.reported) {
            let Reported { thread, state, from, to, place } = reported;
            let now = machines.thread(thread).state();
            let ending = if state == ThreadState::WaitCpu { None } else { self.facts.take_ending(thread, to) };
            // A wake ends a wait also where the thread goes to a CPU that is not seen.
            let goes_on = now.is_running() || now == ThreadState::WaitCpu || ending.is_some();
            if to != at || !goes_on {
                continue;
            }
            let reason = match state {
                ThreadState::WaitFork => OffReason::New,
                ThreadState::WaitCpu if self.preempted.get(&thread) == Some(&from) => OffReason::Preempted,
                ThreadState::WaitCpu => OffReason::Runnable,
                _ => OffReason::of_wake(ending.as_ref().map(|ending| ending.reason), place.is_lock),
            };
            let (source, waker) = ending.map_or((None, None), |ending| (ending.source, ending.waker));
            self.ended.push(OffTime { thread, from, to, reason, place, source, waker });
        }
        self.facts.applied(machines, machine, cpu, happening, at);
        let running = || cpu.and_then(|cpu| machines.cpu(cpu).current().thread());
        match happening.concept {
            Concept::ContendBegin | Concept::LockContended => {
                if let (Some(thread), Some(lock)) = (running(), happening.values.integer(Field::Uaddr)) {
                    self.contended.insert(thread, lock);
                }
            }
            Concept::ContendEnd | Concept::LockAcquired | Concept::LockRelease => {
                // Others are taken while it waits for that lock.
                let lock = happening.values.integer(Field::Uaddr);
                if let Some(thread) = running().filter(|thread| self.contended.get(thread).copied() == lock) {
                    self.contended.remove(&thread);
                }
            }
            _ => {}
        }
    }

    fn on_run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        self.facts.run_ended(machines, thread, how, at);
        match how {
            RunEnd::Preempted => drop(self.preempted.insert(thread, at)),
            RunEnd::Ended => {
                self.preempted.remove(&thread);
                self.contended.remove(&thread);
            }
            RunEnd::Blocked | RunEnd::Unknown => drop(self.preempted.remove(&thread)),
        }
    }

    fn on_call(&mut self, thread: ThreadIndex) {
        // The end of a wait for a lock was lost if its thread calls or returns.
        self.contended.remove(&thread);
    }
}

/// How often each thread, by its number, ended a wait.
#[derive(Clone, Default)]
struct Wakers {
    counts: BTreeMap<i64, u64>,
}

impl Wakers {
    /// The thread that did so most often, of equal ones the first, and how often.
    fn most(&self) -> Option<(i64, u64)> {
        let most = self.counts.iter().max_by_key(|(tid, count)| (**count, std::cmp::Reverse(**tid)));
        most.map(|(tid, count)| (*tid, *count))
    }
}

impl Sum for Wakers {
    fn add(&mut self, other: Self) {
        for (tid, count) in other.counts {
            *self.counts.entry(tid).or_default() += count;
        }
    }
}

impl Aggregate for Wakers {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        let mut counts: Vec<(i64, u64)> = std::mem::take(&mut self.counts).into_iter().collect();
        packing.list(&mut counts, |packing, (tid, count)| {
            packing.number(tid);
            packing.number(count);
        });
        self.counts = counts.into_iter().collect();
    }
}

impl SpanFigures for Wakers {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[];

    const OF_THREADS: &'static [ThreadColumn<Self>] = &[
        ThreadColumn {
            name: "top_waker",
            unit: Unit::Name,
            meaning: "number of the thread that woke it most often",
            value: |wakers, _, _| Value::integer(wakers.most().map(|(tid, _)| tid)),
        },
        ThreadColumn {
            name: "top_waker_comm",
            unit: Unit::Name,
            meaning: "name of that thread",
            value: |wakers, machines, machine| {
                let thread = wakers.most().and_then(|(tid, _)| thread_of(machines, machine, tid));
                Value::text(thread.and_then(|thread| thread.comm.as_deref()))
            },
        },
        ThreadColumn {
            name: "top_wakes",
            unit: Unit::Count,
            meaning: "how often that thread woke it",
            value: |wakers, _, _| Value::integer(wakers.most().map(|(_, count)| count)),
        },
    ];
}

/// A time without a CPU, as lists show it.
struct OffRow<'r> {
    off: &'r OffTime,
    thread: &'r Thread,
    waker: Option<&'r Thread>,
    span: SpanTimes,
}

/// Meanings of columns.
const REASON: &str =
    "preempted, runnable, new, blocked, or what ended the wait: lock, thread, timer, network, disk, irq, softirq, ipi";
const CALL: &str = "system call in which the thread was";
const OBJECT: &str = "file, peer or address of the lock that it waited for";
const WAKER: &str = "number of the thread that woke it";
const WAKER_COMM: &str = "name of the thread that woke it";

impl<'r> OffRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        column("from", Unit::Time, |row| row.span.from.into()),
        column("to", Unit::Time, |row| row.span.to.into()),
        column("duration_ns", Unit::Duration, |row| row.span.duration.into()),
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("pid", Unit::Name, |row| Value::integer(row.thread.pid())),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("reason", Unit::Name, REASON, |row| Value::Word(row.off.reason.name())),
        own_column("call", Unit::Name, CALL, |row| Value::text(row.off.place.call.as_deref())),
        own_column("object", Unit::Name, OBJECT, |row| Value::text(row.off.place.object.as_deref())),
        own_column("source", Unit::Name, "disk or interrupt that ended the wait", |row| {
            Value::text(row.off.source.as_deref())
        }),
        own_column("waker", Unit::Name, WAKER, |row| Value::integer(row.waker.map(|waker| waker.tid))),
        own_column("waker_comm", Unit::Name, WAKER_COMM, |row| {
            Value::text(row.waker.and_then(|waker| waker.comm.as_deref()))
        }),
    ];
}

impl Offcpu {
    fn add(&mut self, machines: &Machines, off: &OffTime) {
        if !self.spans.query.wants_thread(machines, Some(off.thread)) {
            return;
        }
        let thread = machines.thread(off.thread);
        let names = &mut self.names;
        let mut number = |text: Option<&str>| text.map_or(NO_KEY, |text| names.number(text));
        let call = match self.by {
            By::Reason | By::Waker => NO_KEY,
            _ => number(off.place.call.as_deref()),
        };
        let first = match self.by {
            By::Thread => thread.tid,
            By::Process => thread.pid().unwrap_or(NO_KEY),
            By::Comm => number(thread.comm.as_deref()),
            By::Object => number(off.place.object.as_deref()),
            By::Waker => thread_key(machines, off.waker),
            By::Reason | By::Call => NO_KEY,
        };
        let key = GroupKey { machine: thread.machine, number: first, name: call, other: off.reason as i64 };
        let waker = off.waker.map(|waker| machines.thread(waker));
        let wakers = Wakers { counts: waker.iter().map(|waker| (waker.tid, 1)).collect() };
        let span = SpanTimes::new(machines, thread.machine, (off.from, off.to));
        self.spans.add(machines, &span, key, wakers, || values_of(OffRow::LOG, OffRow { off, thread, waker, span }));
    }

    fn track(&self, track: impl FnOnce(&mut Tracker)) {
        if self.role.is_tracking() {
            track(&mut self.tracker.borrow_mut());
        }
    }
}

impl Observer for Offcpu {
    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        self.track(|tracker| tracker.on_thread_piece(machines, piece));
    }

    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        self.track(|tracker| tracker.facts.created(machines, thread, at));
    }

    fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        self.track(|tracker| tracker.facts.forked(machines, parent, child, at));
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        self.track(|tracker| tracker.facts.woken(machines, woken));
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        self.track(|tracker| tracker.on_run_ended(machines, thread, how, at));
    }

    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        self.track(|tracker| {
            tracker.on_call(thread);
            tracker.facts.call_began(machines, thread, name, happening, at);
        });
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, happening: &Happening<'_>) {
        self.track(|tracker| {
            tracker.on_call(call.thread);
            tracker.facts.call_ended(machines, call, happening);
        });
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.track(|tracker| tracker.on_applied(machines, machine, cpu, happening, at));
        if self.role.has_table() && !self.tracker.borrow().ended.is_empty() {
            let tracker = self.tracker.clone();
            tracker.borrow().ended.iter().for_each(|off| self.add(machines, off));
        }
    }
}

impl Analysis for Offcpu {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CallBegan, CallEnded, Created, Forked, RunEnded, ThreadPiece, Woken};
        match self.role {
            PeriodRole::View => (&[Applied], ReportTimes::Range),
            _ => (&[ThreadPiece, Created, Forked, Woken, RunEnded, CallBegan, CallEnded, Applied], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        Some(Box::new(Offcpu {
            by: self.by,
            spans: Spans::new(period),
            names: Names::default(),
            role: PeriodRole::View,
            tracker: self.tracker.clone(),
        }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Offcpu { by, spans, names, .. } = *self;
        let query = spans.query.clone();
        let is_open = |of: &(ThreadIndex, &Thread)| is_off(of.1.state()) && query.wants_thread(machines, Some(of.0));
        let unfinished = machines.threads().filter(is_open).count() as u64;
        let labels = GroupLabels { by, machines: machines.clone(), names };
        let mut table = spans.finish("offcpu", range, columns_of(OffRow::LOG), labels);
        table.notes.push(("unfinished", unfinished));
        table
    }
}

impl<'r> SpanGroup<'r, By> {
    const REASON: ColumnOf<'r, Self> = own_column("reason", Unit::Name, REASON, |group| {
        Value::Word(OffReason::ALL.get(group.key.other as usize).map_or("", |reason| reason.name()))
    });
    const CALL: ColumnOf<'r, Self> = own_column("call", Unit::Name, CALL, |group| Value::text(group.name()));
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::TID, Self::COMM, Self::REASON, Self::CALL];
    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[Self::PID, Self::REASON, Self::CALL];
    const BY_COMM: &'r [ColumnOf<'r, Self>] = &[
        column("comm", Unit::Name, |group| Value::text(group.labels.names.name(group.key.number))),
        Self::REASON,
        Self::CALL,
    ];
    const BY_REASON: &'r [ColumnOf<'r, Self>] = &[Self::REASON];
    const BY_CALL: &'r [ColumnOf<'r, Self>] = &[Self::CALL, Self::REASON];
    const BY_OBJECT: &'r [ColumnOf<'r, Self>] = &[
        own_column("object", Unit::Name, OBJECT, |group| Value::text(group.labels.names.name(group.key.number))),
        Self::CALL,
        Self::REASON,
    ];
    const BY_WAKER: &'r [ColumnOf<'r, Self>] = &[
        own_column("waker", Unit::Name, WAKER, |group| Value::integer(known_key(group.key.number))),
        own_column("waker_comm", Unit::Name, WAKER_COMM, |group| {
            Value::text(group.thread().and_then(|thread| thread.comm.as_deref()))
        }),
        Self::REASON,
    ];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Thread => SpanGroup::<By>::BY_THREAD,
            By::Process => SpanGroup::<By>::BY_PROCESS,
            By::Comm => SpanGroup::<By>::BY_COMM,
            By::Reason => SpanGroup::<By>::BY_REASON,
            By::Call => SpanGroup::<By>::BY_CALL,
            By::Object => SpanGroup::<By>::BY_OBJECT,
            By::Waker => SpanGroup::<By>::BY_WAKER,
        }
    }

    fn is_by_number(&self) -> bool {
        matches!(self, By::Thread | By::Process | By::Waker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};
    use crate::kernel::{Numbers, View};

    fn log() -> AnalysisQuery {
        AnalysisQuery { view: View::Log, ..AnalysisQuery::default() }
    }

    const STREAM: &str = "1000 0 dump_disk dev=8 name=sda
        1000 0 dump_task tid=5 pid=4 comm=oven mode=0 status=5
        1000 0 dump_task tid=6 pid=4 comm=log mode=0 status=5
        1000 0 dump_file pid=4 fd=3 name=/orders
        1000 1 switch prev=0 next=6
        1010 1 sys_entry name=fsync fd=3
        1020 1 switch prev=6 next=0 state=2
        1030 0 switch prev=0 next=5
        1100 0 sys_entry name=futex uaddr=4660 op=0
        1110 0 switch prev=5 next=0 state=1
        4000 1 soft_entry nr=4
        4010 1 rq_complete dev=8 sector=1 nr_sector=8 rwbs=1
        4020 1 wake tid=6 cpu=1
        4030 1 soft_exit nr=4
        4040 1 switch prev=0 next=6
        4050 1 sys_exit ret=0
        4060 1 sys_entry name=futex uaddr=4660 op=1
        4070 1 wake tid=5 cpu=0
        4090 0 switch prev=0 next=5
        4100 0 switch prev=5 next=7 state=0
        4150 0 switch prev=7 next=5 state=1
        5000 0 -";

    #[test]
    fn a_time_has_its_reason_its_place_and_what_ended_it() {
        let columns =
            ["from", "to", "duration_ns", "tid", "pid", "comm", "reason", "call", "object", "source", "waker"];
        let found = rows(&played(&DESCRIPTOR, &log(), STREAM), &columns);
        let expected = [
            // The dump lists it as waiting; no wake shows what ended that.
            "1000 1030 30 5 4 oven blocked - - - -",
            "1020 4020 3000 6 4 log disk fsync /orders disk sda -",
            "4020 4040 20 6 4 log runnable fsync - - -",
            "1110 4070 2960 5 4 oven lock futex 0x1234 - 6",
            "4070 4090 20 5 4 oven runnable futex - - -",
            "4100 4150 50 5 4 oven preempted futex - - -",
        ];
        assert_eq!(found, expected);
        let table = played(&DESCRIPTOR, &AnalysisQuery::default(), STREAM);
        let columns =
            ["tid", "reason", "call", "count", "total_ns", "max_ns", "top_waker", "top_waker_comm", "top_wakes"];
        let expected = [
            "6 disk fsync 1 3000 3000 - - -",
            "5 lock futex 1 2960 2960 6 log 1",
            "5 preempted futex 1 50 50 - - -",
            "5 blocked - 1 30 30 - - -",
            "5 runnable futex 1 20 20 - - -",
            "6 runnable fsync 1 20 20 - - -",
        ];
        assert_eq!(rows(&table, &columns), expected);
        // Thread 7 waits at the end.
        assert!(table.notes.contains(&("unfinished", 1)), "{:?}", table.notes);
    }

    #[test]
    fn groups_are_of_what_the_key_says() {
        let by = |key: &str, columns: &[&str]| {
            let query = AnalysisQuery { by: Some(key.to_string()), ..AnalysisQuery::default() };
            rows(&played(&DESCRIPTOR, &query, STREAM), columns)
        };
        let sums = ["disk 1 3000", "lock 1 2960", "preempted 1 50", "runnable 2 40", "blocked 1 30"];
        assert_eq!(by("reason", &["reason", "count", "total_ns"]), sums);
        assert_eq!(
            by("process", &["pid", "reason", "call", "total_ns"])[..2],
            ["4 disk fsync 3000", "4 lock futex 2960"]
        );
        assert_eq!(by("comm", &["comm", "reason", "total_ns"])[..2], ["log disk 3000", "oven lock 2960"]);
        assert_eq!(by("call", &["call", "reason", "count"])[..2], ["fsync disk 1", "futex lock 1"]);
        assert_eq!(by("object", &["object", "call"])[..2], ["/orders fsync", "0x1234 futex"]);
        assert_eq!(by("waker", &["waker", "waker_comm", "reason"])[..2], ["- - disk", "6 log lock"]);
        let only = AnalysisQuery { tids: Numbers::parse("6"), begin: Some(4030), ..log() };
        assert_eq!(rows(&played(&DESCRIPTOR, &only, STREAM), &["from", "to"]), ["4020 4040"]);
    }

    #[test]
    fn a_time_whose_end_was_not_seen_does_not_count() {
        let stream = "100 0 switch prev=5 next=0 state=1
            150 0 loss
            160 1 switch prev=0 next=6
            170 1 switch prev=6 next=0 state=1
            190 1 wake tid=6 cpu=1
            200 0 switch prev=0 next=5
            300 0 -";
        let table = played(&DESCRIPTOR, &log(), stream);
        assert_eq!(rows(&table, &["tid", "from", "to", "reason"]), ["6 170 190 blocked"]);
        assert!(table.notes.contains(&("unfinished", 1)), "{:?}", table.notes);
    }

    #[test]
    fn a_suspension_does_not_divide_a_time() {
        let stream = "100 0 switch prev=0 next=5
            110 0 switch prev=5 next=6 state=1
            120 0 suspend action=machine_suspend start=1
            920 0 suspend action=machine_suspend start=0
            930 0 wake tid=5 cpu=0
            940 0 switch prev=6 next=5 state=1";
        let found =
            rows(&played(&DESCRIPTOR, &log(), stream), &["tid", "from", "to", "duration_ns", "reason", "waker"]);
        assert_eq!(found, ["5 110 930 20 thread 6", "5 930 940 10 runnable -"]);
    }

    #[test]
    fn locks_of_the_kernel_are_places() {
        let stream = "100 0 switch prev=0 next=5
            110 0 sys_entry name=mmap
            120 0 contend_begin uaddr=64 op=32
            130 0 switch prev=5 next=6 state=2
            150 0 wake tid=5 cpu=0
            160 0 switch prev=6 next=5 state=0
            165 0 contend_end uaddr=64 ret=0
            170 0 switch prev=5 next=6 state=1
            180 0 wake tid=5 cpu=0
            190 0 switch prev=6 next=5 state=0";
        let columns = ["tid", "from", "to", "reason", "call", "object", "waker"];
        let found = rows(&played(&DESCRIPTOR, &AnalysisQuery { tids: Numbers::parse("5"), ..log() }, stream), &columns);
        let expected = [
            "5 130 150 lock mmap 0x40 6",
            "5 150 160 runnable mmap - -",
            "5 170 180 thread mmap - 6",
            "5 180 190 runnable mmap - -",
        ];
        assert_eq!(found, expected);
    }
}
