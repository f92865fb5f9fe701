//! `locks`: how long threads waited for locks of programs (`docs/kernel.md`, section 3.8).

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Map, Ns, Observer, Reason, RunEnd, SystemCall, Thread, ThreadIndex, ThreadState,
    Woken,
};
use tracemill_semantics::{Concept, Field};

use crate::durations::Durations;
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, error_of};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum, ThreadSet};
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, RowNouns, SPANS};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups.
    By {
        /// The process and the address of the lock.
        Lock = "lock",
        /// The thread that waited.
        Thread = "thread",
        /// Its process.
        Process = "process",
    }
}

impl By {
    fn from_query(query: &AnalysisQuery) -> By {
        query.key(By::from_name).unwrap_or(By::Lock)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "locks",
    about: "how long threads waited for locks of programs, and who let them go on",
    forms: &[AnalysisForm::plain(
        By::NAMES,
        SPANS,
        RowNouns::for_groups(&["locks", "threads", "processes"]).with_spans("waits"),
    )],
    needs: &[&[Concept::SysEntry], &[Concept::SysExit], &[Concept::Switch, Concept::Running]],
    needs_for: &[],
    wants: &[(Concept::Wake, "who let waiters go on"), (Concept::Switch, "waits that end with a wake")],
    over_periods: None,
    example: "locks --log --min 30ms",
    make: |query| {
        Box::new(Locks {
            by: By::from_query(query),
            spans: Spans::new(query),
            role: PeriodRole::Alone,
            waits: Rc::default(),
        })
    },
};

/// The system call of locks.
pub(super) const FUTEX: &str = "futex";

/// Names of its operations, by their numbers (`linux/futex.h`).
const OPERATIONS: [&str; 14] = [
    "WAIT",
    "WAKE",
    "FD",
    "REQUEUE",
    "CMP_REQUEUE",
    "WAKE_OP",
    "LOCK_PI",
    "UNLOCK_PI",
    "TRYLOCK_PI",
    "WAIT_BITSET",
    "WAKE_BITSET",
    "WAIT_REQUEUE_PI",
    "CMP_REQUEUE_PI",
    "LOCK_PI2",
];

/// Operations that may wait, and those that let others go on.
pub(super) const WAITS: [i128; 6] = [0, 6, 8, 9, 11, 13];
pub(super) const WAKES: [i128; 7] = [1, 3, 4, 5, 7, 10, 12];

/// Flags beside the number of an operation: private to a process, and which clock.
const FLAGS: i128 = 128 | 256;

struct Locks {
    by: By,
    spans: Spans<Waits>,
    role: PeriodRole,
    waits: Rc<RefCell<OpenWaits>>,
}

/// Waits that did not end yet. One a thread: it is in one system call at a time.
#[derive(Default)]
struct OpenWaits {
    open: Map<ThreadIndex, OpenWait>,
    /// The one that the system call was which ended last.
    ended: Option<OpenWait>,
    /// Number of waits of threads that are in the system call when all events have passed.
    unfinished: Option<u64>,
}

impl OpenWaits {
    fn begin(&mut self, thread: ThreadIndex, name: &str, happening: &Happening<'_>) {
        // A wait whose exit was lost is no span.
        self.open.remove(&thread);
        if name == FUTEX
            && let Some(operation) = operation_of(happening).filter(|operation| WAITS.contains(operation))
        {
            let address = happening.values.integer(Field::Uaddr);
            self.open.insert(thread, OpenWait { address, operation, waker: None });
        }
    }

    fn unfinished(&mut self, machines: &Machines, query: &AnalysisQuery) -> u64 {
        // After a loss it is not known whether a wait goes on.
        let is_open = |thread: &&ThreadIndex| {
            query.wants_thread(machines, Some(**thread)) && machines.open_calls(**thread).any(|name| name == FUTEX)
        };
        *self.unfinished.get_or_insert_with(|| self.open.keys().filter(is_open).count() as u64)
    }
}

/// The operation of a call, without its flags.
pub(super) fn operation_of(happening: &Happening<'_>) -> Option<i128> {
    Some(happening.values.integer(Field::Op)? & !FLAGS)
}

/// A wait that did not end yet.
#[derive(Clone, Copy)]
struct OpenWait {
    address: Option<i128>,
    operation: i128,
    /// The thread whose wake ended the last time that the thread was blocked in it.
    waker: Option<ThreadIndex>,
}

/// Counts beside the durations.
#[derive(Clone, Default)]
struct Waits {
    /// The threads that waited.
    waiters: ThreadSet,
    errors: u64,
    wakes: u64,
}

impl Sum for Waits {
    fn add(&mut self, other: Self) {
        self.waiters.add(other.waiters);
        self.errors += other.errors;
        self.wakes += other.wakes;
    }
}

impl Aggregate for Waits {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.errors);
        packing.number(&mut self.wakes);
        packing.threads(&mut self.waiters);
    }
}

impl SpanFigures for Waits {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("waiters", Unit::Count, "threads that waited", |waits| waits.waiters.len().into()),
        column("errors", Unit::Count, |waits| waits.errors.into()),
        own_column("wakes", Unit::Count, "calls that let others go on", |waits| waits.wakes.into()),
    ];
}

/// A wait, as lists show it.
struct WaitRow<'r> {
    call: &'r SystemCall<'r>,
    open: OpenWait,
    thread: &'r Thread,
    waker: Option<&'r Thread>,
    span: SpanTimes,
}

/// Meaning of a column.
const ADDRESS: &str = "address of the lock";

impl<'r> WaitRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("uaddr", Unit::Address, ADDRESS, |wait| Value::integer(wait.open.address)),
        own_column("op", Unit::Name, "operation of futex", |wait| {
            let name = usize::try_from(wait.open.operation).ok().and_then(|at| OPERATIONS.get(at));
            name.map_or(Value::Null, |name| Value::Word(name))
        }),
        column("tid", Unit::Name, |wait| wait.thread.tid.into()),
        column("pid", Unit::Name, |wait| Value::integer(wait.thread.pid())),
        column("comm", Unit::Name, |wait| Value::text(wait.thread.comm.as_deref())),
        column("from", Unit::Time, |wait| wait.span.from.into()),
        column("to", Unit::Time, |wait| wait.span.to.into()),
        column("duration_ns", Unit::Duration, |wait| wait.span.duration.into()),
        column("ret", Unit::Name, |wait| Value::integer(wait.call.ret)),
        own_column("waker", Unit::Name, "number of the thread that let it go on", |wait| {
            Value::integer(wait.waker.map(|waker| waker.tid))
        }),
    ];
}

impl Locks {
    /// Is a thread wanted that runs on a CPU?
    fn is_selected(&self, machines: &Machines, thread: ThreadIndex, cpu: Option<CpuIndex>) -> bool {
        let query = &self.spans.query;
        query.wants_cpu(machines, cpu) && query.wants_thread(machines, Some(thread))
    }

    fn key(&self, machines: &Machines, thread: ThreadIndex, address: Option<i128>) -> GroupKey {
        let of = machines.thread(thread);
        let number = if self.by == By::Thread { of.tid } else { of.pid().unwrap_or(NO_KEY) };
        // Addresses take all 64 bits, so that none of them can stand for one that is not known.
        let address = address.filter(|_| self.by == By::Lock);
        let (name, other) = (address.unwrap_or(0) as i64, i64::from(address.is_some()));
        GroupKey { machine: of.machine, number, name, other }
    }
}

impl Observer for Locks {
    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        if self.role.is_tracking() {
            self.waits.borrow_mut().begin(thread, name, happening);
        }
        if self.role.has_table()
            && name == FUTEX
            && operation_of(happening).is_some_and(|operation| WAKES.contains(&operation))
            && self.spans.query.view == View::Statistics
            && self.spans.query.has_instant(at)
            && self.is_selected(machines, thread, machines.thread(thread).running())
        {
            let key = self.key(machines, thread, happening.values.integer(Field::Uaddr));
            self.spans.group(machines.begin(), at, key).1.wakes += 1;
        }
    }

    fn run_ended(&mut self, _: &Machines, thread: ThreadIndex, how: RunEnd, _: Ns) {
        if how == RunEnd::Blocked
            && let Some(open) = self.waits.borrow_mut().open.get_mut(&thread)
        {
            open.waker = None;
        }
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        // A thread that was preempted is not let go on by a wake. The state is that before the wake.
        if machines.thread(woken.thread).state() == ThreadState::Wait
            && let Some(open) = self.waits.borrow_mut().open.get_mut(&woken.thread)
        {
            open.waker = woken.waker.filter(|_| woken.reason == Reason::Thread);
        }
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        let ended = {
            let OpenWaits { open, ended, .. } = &mut *self.waits.borrow_mut();
            if self.role.is_tracking() {
                *ended = open.remove(&call.thread);
            }
            *ended
        };
        let Some(open) = ended else { return };
        if !self.role.has_table() || !self.is_selected(machines, call.thread, Some(call.cpu)) {
            return;
        }
        let thread = machines.thread(call.thread);
        let key = self.key(machines, call.thread, open.address);
        let errors = u64::from(error_of(call.ret).is_some());
        let waits = Waits { waiters: ThreadSet::from_thread(thread), errors, ..Waits::default() };
        let span = SpanTimes::new(machines, thread.machine, (call.from, call.to));
        self.spans.add(machines, &span, key, waits, || {
            let waker = open.waker.map(|waker| machines.thread(waker));
            values_of(WaitRow::LOG, WaitRow { call, open, thread, waker, span })
        });
    }

    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, _: Ns) {
        // A thread that ends in a wait keeps nothing.
        if happening.concept == Concept::Exit
            && let Some(thread) = happening.number(Field::Tid).and_then(|tid| machines.find_thread(machine, tid))
        {
            self.waits.borrow_mut().open.remove(&thread);
        }
    }
}

impl Analysis for Locks {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CallBegan, CallEnded, RunEnded, Woken};
        match self.role {
            PeriodRole::View => (&[CallBegan, CallEnded], ReportTimes::Range),
            _ => (&[CallBegan, RunEnded, Woken, CallEnded, Applied], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        Some(Box::new(Locks {
            by: self.by,
            spans: Spans::new(period),
            role: PeriodRole::View,
            waits: self.waits.clone(),
        }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Locks { by, spans, waits, .. } = *self;
        let query = spans.query.clone();
        let labels = GroupLabels { by, machines: machines.clone(), names: Names::default() };
        let mut table = spans.finish("locks", range, columns_of(WaitRow::LOG), labels);
        table.notes.push(("unfinished", waits.borrow_mut().unfinished(machines, &query)));
        table
    }
}

impl<'r> SpanGroup<'r, By> {
    const UADDR: ColumnOf<'r, Self> = own_column("uaddr", Unit::Address, ADDRESS, |group| {
        Value::integer((group.key.other != 0).then_some(group.key.name as u64))
    });
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::TID, Self::COMM];
    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[Self::PID];
    const BY_LOCK: &'r [ColumnOf<'r, Self>] = &[Self::PID, Self::UADDR];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Thread => SpanGroup::<By>::BY_THREAD,
            By::Process => SpanGroup::<By>::BY_PROCESS,
            By::Lock => SpanGroup::<By>::BY_LOCK,
        }
    }

    fn is_by_number(&self) -> bool {
        true
    }

    fn has_row(&self, durations: &Durations) -> bool {
        // Locks without waits, and threads that only wake others, have none.
        durations.moments.count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};
    use crate::kernel::value::Cell;

    const START: &str = "100 0 dump_task tid=5 pid=4 mode=0 status=5
        100 0 dump_task tid=6 pid=4 mode=0 status=5
        110 0 switch prev=0 next=5
        110 1 switch prev=0 next=6";

    fn log(stream: &str) -> Vec<String> {
        let query = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
        rows(&played(&DESCRIPTOR, &query, &format!("{START}\n{stream}")), &["op", "tid", "from", "to", "ret", "waker"])
    }

    #[test]
    fn operations_that_wait_are_spans() {
        for (operation, name) in [
            (0, "WAIT"),
            (128, "WAIT"),
            (6, "LOCK_PI"),
            (8, "TRYLOCK_PI"),
            (9, "WAIT_BITSET"),
            (9 | 128 | 256, "WAIT_BITSET"),
            (11, "WAIT_REQUEUE_PI"),
            (13, "LOCK_PI2"),
        ] {
            let calls = format!("120 0 sys_entry name=futex uaddr=64 op={operation}\n130 0 sys_exit ret=0");
            assert_eq!(log(&calls), [format!("{name} 5 120 130 0 -")], "{operation}");
        }
        for operation in [1, 2, 3, 4, 5, 7, 10, 12, 14, 512, -1] {
            let calls = format!("120 0 sys_entry name=futex uaddr=64 op={operation}\n130 0 sys_exit ret=0");
            assert_eq!(log(&calls), [""; 0], "{operation}");
        }
        assert_eq!(log("120 0 sys_entry name=futex uaddr=64\n130 0 sys_exit ret=0"), [""; 0]);
        assert_eq!(log("120 0 sys_entry name=read op=0\n130 0 sys_exit ret=0"), [""; 0]);
    }

    #[test]
    fn the_waker_ended_the_last_wait() {
        let waits = "120 0 sys_entry name=futex uaddr=64 op=0
            130 0 switch prev=5 next=0 state=1
            140 1 wake tid=5 cpu=0
            150 0 switch prev=0 next=5";
        assert_eq!(log(&format!("{waits}\n160 0 sys_exit ret=0")), ["WAIT 5 120 160 0 6"]);
        // It blocked again: an interrupt let it go on, or an unknown cause.
        let again = format!("{waits}\n160 0 switch prev=5 next=0 state=1");
        let by_interrupt = "165 1 irq_entry nr=1\n170 1 wake tid=5 cpu=0\n180 0 switch prev=0 next=5";
        assert_eq!(log(&format!("{again}\n{by_interrupt}\n190 0 sys_exit ret=0")), ["WAIT 5 120 190 0 -"]);
        let unseen = "180 0 switch prev=0 next=5";
        assert_eq!(log(&format!("{again}\n{unseen}\n190 0 sys_exit ret=0")), ["WAIT 5 120 190 0 -"]);
        // It was preempted, and woken while it could run: that ended no wait.
        let preempted = format!("{waits}\n160 0 switch prev=5 next=7 state=0\n165 0 wake tid=5 cpu=0");
        assert_eq!(
            log(&format!("{preempted}\n180 0 switch prev=7 next=5 state=1\n190 0 sys_exit ret=0")),
            ["WAIT 5 120 190 0 6"]
        );
        // A wait of an earlier call counts for nothing.
        let before = "115 0 switch prev=5 next=0 state=1\n116 1 wake tid=5 cpu=0\n118 0 switch prev=0 next=5";
        let call = "120 0 sys_entry name=futex uaddr=64 op=0\n130 0 sys_exit ret=-11";
        assert_eq!(log(&format!("{before}\n{call}")), ["WAIT 5 120 130 -11 -"]);
    }

    const CONTENTION: &str = "120 0 sys_entry name=futex uaddr=64 op=0
        130 0 sys_exit ret=-11
        140 1 sys_entry name=futex uaddr=64 op=6
        150 1 sys_exit ret=0
        160 1 sys_entry name=futex uaddr=64 op=1
        170 1 sys_exit ret=1
        180 0 sys_entry name=futex uaddr=64 op=133
        190 0 sys_exit ret=5
        200 0 sys_entry name=futex uaddr=72 op=7
        210 0 sys_exit ret=0
        220 0 sys_entry name=futex uaddr=18446744073709551615 op=0
        230 0 sys_exit ret=-4096
        240 0 sys_entry name=futex uaddr=64 op=0";

    #[test]
    fn locks_count_waiters_errors_and_wakes() {
        let by = |by: &str, columns: &[&str]| {
            let query = AnalysisQuery { by: (!by.is_empty()).then(|| by.to_string()), ..AnalysisQuery::default() };
            let table = played(&DESCRIPTOR, &query, &format!("{START}\n{CONTENTION}"));
            assert_eq!(table.notes, [("unfinished", 1)]);
            rows(&table, &[columns, &["count", "total_ns", "waiters", "errors", "wakes"]].concat())
        };
        // No thread waited for 72; -4096 is not an error.
        assert_eq!(by("", &["pid", "uaddr"]), ["4 64 2 20 2 1 2", "4 18446744073709551615 1 10 1 0 0"]);
        assert_eq!(by("process", &["pid"]), ["4 3 30 2 1 3"]);
        assert_eq!(by("thread", &["tid"]), ["5 2 20 1 1 2", "6 1 10 1 0 1"]);
    }

    #[test]
    fn waiters_are_threads_and_not_their_lives() {
        // Thread 5 ends, and another life of its number waits for the same lock.
        let stream = "100 0 fork parent=1 child=5 pid=4
            110 0 switch prev=0 next=5
            120 0 sys_entry name=futex uaddr=64 op=0
            130 0 sys_exit ret=0
            140 0 exit tid=5
            150 0 switch prev=5 next=0 state=32
            160 0 free tid=5
            170 0 fork parent=1 child=5 pid=4
            180 0 switch prev=0 next=5
            190 0 sys_entry name=futex uaddr=64 op=0
            200 0 sys_exit ret=0
            210 0 -";
        for (by, key) in [("lock", "uaddr"), ("thread", "tid"), ("process", "pid")] {
            let query = AnalysisQuery { by: Some(by.to_string()), ..AnalysisQuery::default() };
            let table = played(&DESCRIPTOR, &query, stream);
            let key = rows(&table, &[key]).remove(0);
            assert_eq!(rows(&table, &["count", "waiters"]), ["2 1"], "{by} {key}");
            let all = table.all.iter().find(|(column, _)| column.name == "waiters").map(|(_, cell)| cell.clone());
            assert_eq!(all, Some(Cell::from(1u64)), "{by}");
        }
    }

    #[test]
    fn wakes_and_waits_are_those_of_the_range() {
        let query = AnalysisQuery { begin: Some(145), end: Some(165), ..AnalysisQuery::default() };
        let table = played(&DESCRIPTOR, &query, &format!("{START}\n{CONTENTION}"));
        assert_eq!(rows(&table, &["uaddr", "count", "total_ns", "errors", "wakes"]), ["64 1 10 0 1"]);
        let long = AnalysisQuery { min: Some(11), ..AnalysisQuery::default() };
        assert_eq!(played(&DESCRIPTOR, &long, &format!("{START}\n{CONTENTION}")).rows.len(), 0);
    }

    #[test]
    fn waits_do_not_reach_across_losses_and_ends() {
        let lost = "120 0 sys_entry name=futex uaddr=64 op=0\n130 0 loss\n140 0 switch prev=5 next=5 state=0";
        assert_eq!(log(&format!("{lost}\n150 0 sys_exit ret=0")), [""; 0]);
        let query = AnalysisQuery::default();
        let table = played(&DESCRIPTOR, &query, &format!("{START}\n{lost}\n150 0 -"));
        assert_eq!(table.notes, [("unfinished", 0)]);
        let ended = "120 0 sys_entry name=futex uaddr=64 op=0\n130 0 exit tid=5\n140 0 -";
        assert_eq!(played(&DESCRIPTOR, &query, &format!("{START}\n{ended}")).notes, [("unfinished", 0)]);
    }
}
