//! `sched`: how long threads waited to be run (`docs/kernel.md`, section 3.3).

use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, Machines, Map, Ns, Observer, RunEnd, Scheduled, Thread, ThreadIndex, ThreadPiece, ThreadState,
};

use crate::kernel::aggregate::aggregate_map::{AggregateMap, SumKey, SumRows, rows_of};
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, known_key, thread_key};
use crate::kernel::aggregate::spans::{SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, FormWord, RowNouns, SPANS, SUMS, SUMS_OF_THREADS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, cells_of, column, columns_of, own_column, values_of};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups.
    By {
        /// The thread that was woken.
        Thread = "thread",
        /// Its priority.
        Prio = "prio",
        /// The CPU of the switch.
        Cpu = "cpu",
        /// The thread that woke it.
        Waker = "waker",
        /// Its process.
        Process = "process",
    }
}

impl By {
    fn from_query(query: &AnalysisQuery) -> By {
        query.key(By::from_name).unwrap_or(By::Thread)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "sched",
    about: "how long threads waited to be run after they were woken",
    forms: &[
        AnalysisForm::plain(
            By::NAMES,
            SPANS,
            RowNouns::for_groups(&["threads", "priorities", "cpus", "wakers", "processes"]).with_spans("waits"),
        ),
        AnalysisForm {
            option: "--switches",
            word: Some(FormWord::Switches),
            keys: &[By::Cpu.name()],
            takes: SUMS,
            nouns: RowNouns::for_groups(&["cpus"]),
        },
        AnalysisForm {
            option: "--switches --by thread",
            word: Some(FormWord::Switches),
            keys: &[By::Thread.name()],
            takes: SUMS_OF_THREADS,
            nouns: RowNouns::for_groups(&["threads"]),
        },
    ],
    needs: &[&[Concept::Switch]],
    needs_for: &[],
    wants: &[(Concept::Wake, "latencies")],
    over_periods: None,
    example: "sched --top 5",
    make: |query| match query.has(FormWord::Switches) {
        true => Box::new(Switches { query: query.clone(), ..Switches::default() }),
        false => Box::new(Sched { by: By::from_query(query), spans: Spans::new(query) }),
    },
};

struct Sched {
    by: By,
    spans: Spans,
}

/// A latency, as lists show it.
struct LatencyRow<'r> {
    scheduled: &'r Scheduled,
    thread: &'r Thread,
    waker: Option<&'r Thread>,
    cpu: u64,
    span: SpanTimes,
}

/// Meanings of columns.
const WAKER: &str = "number of the thread that woke it";
const WAKER_COMM: &str = "name of that thread";

impl<'r> LatencyRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("wake_ns", Unit::Time, "when the thread was woken", |of| of.span.from.into()),
        own_column("run_ns", Unit::Time, "when it ran", |of| of.span.to.into()),
        own_column("latency_ns", Unit::Duration, "time between the two", |of| of.span.duration.into()),
        column("tid", Unit::Name, |of| of.thread.tid.into()),
        column("comm", Unit::Name, |of| Value::text(of.thread.comm.as_deref())),
        column("prio", Unit::Name, |of| Value::integer(of.scheduled.prio)),
        column("cpu", Unit::Name, |of| of.cpu.into()),
        own_column("waker", Unit::Name, WAKER, |of| Value::integer(of.waker.map(|waker| waker.tid))),
        own_column("waker_comm", Unit::Name, WAKER_COMM, |of| {
            Value::text(of.waker.and_then(|waker| waker.comm.as_deref()))
        }),
        own_column("reason", Unit::Name, "why: thread, timer, network, disk, irq, softirq, ipi or unknown", |of| {
            Value::Word(of.scheduled.woken.reason.name())
        }),
    ];
}

impl Observer for Sched {
    fn scheduled(&mut self, machines: &Machines, scheduled: &Scheduled) {
        let Scheduled { woken, at, cpu, prio } = *scheduled;
        let query = &self.spans.query;
        if !query.wants_cpu(machines, Some(cpu)) || !query.wants_thread(machines, Some(woken.thread)) {
            return;
        }
        let thread = machines.thread(woken.thread);
        let number = match self.by {
            By::Prio => prio.unwrap_or(NO_KEY),
            By::Cpu => cpu.0.into(),
            By::Waker => thread_key(machines, woken.waker),
            By::Process => thread.pid().unwrap_or(NO_KEY),
            By::Thread => thread.tid,
        };
        let key = GroupKey { machine: thread.machine, number, ..GroupKey::default() };
        let span = SpanTimes::new(machines, thread.machine, (woken.at, at));
        self.spans.add(machines, &span, key, (), || {
            let waker = woken.waker.map(|waker| machines.thread(waker));
            values_of(LatencyRow::LOG, LatencyRow { scheduled, thread, waker, cpu: machines.cpu(cpu).number, span })
        });
    }
}

impl Analysis for Sched {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Scheduled], ReportTimes::Range)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Sched { by, spans } = *self;
        spans.finish(
            "sched",
            range,
            columns_of(LatencyRow::LOG),
            GroupLabels { by, machines: machines.clone(), names: Names::default() },
        )
    }
}

impl<'r> SpanGroup<'r, By> {
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::TID, Self::COMM];
    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[Self::PID];
    const BY_WAKER: &'r [ColumnOf<'r, Self>] = &[
        own_column("waker", Unit::Name, WAKER, |group| Value::integer(group.thread().map(|waker| waker.tid))),
        own_column("waker_comm", Unit::Name, WAKER_COMM, |group| {
            Value::text(group.thread().and_then(|waker| waker.comm.as_deref()))
        }),
    ];
    const BY_PRIO: &'r [ColumnOf<'r, Self>] =
        &[column("prio", Unit::Name, |group| Value::integer(known_key(group.key.number)))];
    const BY_CPU: &'r [ColumnOf<'r, Self>] = &[column("cpu", Unit::Name, |group| {
        group.labels.machines.cpu(CpuIndex(group.key.number as u32)).number.into()
    })];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Thread => SpanGroup::<By>::BY_THREAD,
            By::Process => SpanGroup::<By>::BY_PROCESS,
            By::Waker => SpanGroup::<By>::BY_WAKER,
            By::Prio => SpanGroup::<By>::BY_PRIO,
            By::Cpu => SpanGroup::<By>::BY_CPU,
        }
    }

    fn is_by_number(&self) -> bool {
        *self != By::Cpu
    }
}

/// `--switches`: how often CPUs turned to other threads.
#[derive(Default)]
struct Switches {
    query: AnalysisQuery,
    /// By step.
    cpus: Map<(i64, CpuIndex), u64>,
    /// By step and thread.
    threads: AggregateMap<2, Runs>,
}

impl Sum for u64 {
    fn add(&mut self, other: u64) {
        *self += other;
    }
}

impl Sum for Runs {
    fn add(&mut self, other: Runs) {
        self.runs += other.runs;
        self.preempted += other.preempted;
        self.blocked += other.blocked;
        self.migrations += other.migrations;
        self.wait_cpu += other.wait_cpu;
    }
}

/// Runs of a thread.
#[derive(Clone, Default)]
struct Runs {
    runs: u64,
    preempted: u64,
    blocked: u64,
    migrations: u64,
    wait_cpu: Ns,
}

impl Aggregate for Runs {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.runs);
        packing.number(&mut self.preempted);
        packing.number(&mut self.blocked);
        packing.number(&mut self.migrations);
        packing.number(&mut self.wait_cpu);
    }
}

/// A row of `--switches --by thread`.
struct ThreadRow<'r> {
    thread: &'r Thread,
    of: Runs,
}

impl<'r> ThreadRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("runs", Unit::Count, "how often it began to run", |row| row.of.runs.into()),
        column("preempted", Unit::Count, |row| row.of.preempted.into()),
        own_column("blocked", Unit::Count, "how often it left its CPU to wait", |row| row.of.blocked.into()),
        column("migrations", Unit::Count, |row| row.of.migrations.into()),
        column("wait_cpu_ns", Unit::Duration, |row| row.of.wait_cpu.into()),
    ];
}

struct ThreadRows(Rc<Machines>);

impl ThreadRows {
    fn thread(&self, [_, thread]: &SumKey<2>) -> &Thread {
        self.0.thread(ThreadIndex(*thread as u32))
    }
}

impl SumRows<2, Runs> for ThreadRows {
    type Row<'r> = ThreadRow<'r>;

    fn columns<'r>(&self) -> &'r [ColumnOf<'r, ThreadRow<'r>>] {
        ThreadRow::COLUMNS
    }

    fn row<'r>(&'r self, key: &SumKey<2>, of: Runs, _: Ns) -> ThreadRow<'r> {
        ThreadRow { thread: self.thread(key), of }
    }

    fn machine(&self, key: &SumKey<2>) -> u32 {
        self.thread(key).machine
    }

    fn number(&self, key: &SumKey<2>) -> i64 {
        self.thread(key).tid
    }
}

/// A row of `--switches`.
struct CpuRow {
    cpu: u64,
    switches: u64,
}

impl CpuRow {
    const SWITCHES: ColumnOf<'static, Self> =
        own_column("switches", Unit::Count, "switches of the CPU", |row| row.switches.into());
    const COLUMNS: &'static [ColumnOf<'static, Self>] =
        &[column("cpu", Unit::Name, |row| row.cpu.into()), Self::SWITCHES];
}

impl Switches {
    fn thread(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&mut Runs> {
        let is_wanted = self.query.has_instant(at) && self.query.wants_thread(machines, Some(thread));
        let step = self.query.step_of(machines.begin(), at);
        is_wanted.then(|| self.threads.entry([step, thread.0.into()]))
    }
}

impl Observer for Switches {
    fn switched(&mut self, machines: &Machines, cpu: CpuIndex, next: Option<ThreadIndex>, at: Ns) {
        let query = &self.query;
        if query.has_instant(at) && query.wants_cpu(machines, Some(cpu)) && query.wants_thread(machines, next) {
            let step = self.query.step_of(machines.begin(), at);
            *self.cpus.entry((step, cpu)).or_default() += 1;
        }
    }

    fn run_began(&mut self, machines: &Machines, thread: ThreadIndex, has_migrated: bool, at: Ns) {
        if let Some(of) = self.thread(machines, thread, at) {
            of.runs += 1;
            of.migrations += u64::from(has_migrated);
        }
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        if let Some(of) = self.thread(machines, thread, at) {
            of.preempted += u64::from(how == RunEnd::Preempted);
            of.blocked += u64::from(how == RunEnd::Blocked);
        }
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if piece.state != ThreadState::WaitCpu || !self.query.wants_thread(machines, Some(piece.thread)) {
            return;
        }
        let Switches { query, threads, .. } = self;
        query.each_step(machines.begin(), piece.from, piece.to, |step, length| {
            threads.entry([step, piece.thread.0.into()]).wait_cpu += length;
        });
    }
}

impl Analysis for Switches {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{RunBegan, RunEnded, Switched, ThreadPiece};
        (&[Switched, RunBegan, RunEnded, ThreadPiece], ReportTimes::Range)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Switches { query, cpus, threads } = *self;
        let switches = cpus.values().sum();
        let all = cells_of(&[CpuRow::SWITCHES], &CpuRow { cpu: 0, switches });
        let table = Table { analysis: "sched", range, all, order: Order::Keys, ..Table::default() };
        if query.key(By::from_name) == Some(By::Thread) {
            let threads = threads.finish(query.last_step(range));
            let (columns, rows) = rows_of(&query, range, threads, ThreadRows(machines.clone()), |_| true);
            return Table { columns, rows, ..table };
        }
        let cpus = query.by_last_step(range, cpus).into_iter().map(|((step, cpu), switches)| {
            let cpu = machines.cpu(cpu);
            (step, cpu.machine, CpuRow { cpu: cpu.number, switches })
        });
        let (columns, rows) = query.step_rows(range, CpuRow::COLUMNS, cpus);
        Table { columns, rows, ..table }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};

    const STREAM: &str = "100 0 switch prev=0 next=5
        150 0 wake tid=6 cpu=0
        250 0 switch prev=5 next=6 state=0
        300 0 switch prev=6 next=5 state=1";

    #[test]
    fn switches_are_counted_by_step() {
        let query = |by: Option<&str>| AnalysisQuery {
            step: Some(100),
            by: by.map(str::to_string),
            words: vec![FormWord::Switches],
            ..AnalysisQuery::default()
        };
        let by_cpu = played(&DESCRIPTOR, &query(None), STREAM);
        assert_eq!(rows(&by_cpu, &["from", "to", "cpu", "switches"]), ["100 200 0 1", "200 300 0 2"]);
        let by_thread = played(&DESCRIPTOR, &query(Some("thread")), STREAM);
        let columns = ["from", "tid", "runs", "preempted", "blocked", "wait_cpu_ns"];
        assert_eq!(rows(&by_thread, &columns), ["100 5 1 0 0 0", "100 6 0 0 0 50", "200 5 1 1 0 50", "200 6 1 0 1 50"]);
    }

    #[test]
    fn durations_leave_out_the_time_for_which_the_machine_was_suspended() {
        let stream = "100 0 switch prev=0 next=5
            110 0 sys_entry name=futex uaddr=64 op=0
            120 0 wake tid=6 cpu=0
            125 0 soft_raise nr=4
            130 0 irq_entry nr=1
            140 0 suspend action=machine_suspend start=1
            940 0 suspend action=machine_suspend start=0
            950 0 irq_exit nr=1
            951 0 soft_entry nr=4
            952 0 soft_exit nr=4
            960 0 sys_exit ret=0
            970 0 switch prev=5 next=6 state=0
            990 0 switch prev=6 next=0 state=1";
        let log = AnalysisQuery { view: crate::kernel::View::Log, ..AnalysisQuery::default() };
        let played = |name: &str, query: &AnalysisQuery| {
            let known = crate::kernel::ANALYSES.iter().find(|known| known.name == name).expect(name);
            played(known, query, stream)
        };
        let latency = played("sched", &log);
        assert_eq!(rows(&latency, &["wake_ns", "run_ns", "latency_ns"]), ["120 970 50"]);
        let all = played("sched", &AnalysisQuery::default());
        assert_eq!(rows(&all, &["count", "total_ns", "max_ns"]), ["1 50 50"]);
        assert_eq!(rows(&played("syscalls", &log), &["from", "to", "duration_ns"]), ["110 960 50"]);
        assert_eq!(rows(&played("locks", &log), &["duration_ns"]), ["50"]);
        let columns = ["nr", "max_ns", "raise_max_ns"];
        assert_eq!(rows(&played("irq", &AnalysisQuery::default()), &columns), ["1 20 -", "4 1 26"]);
        let columns = ["tid", "time_ns", "user_ns", "system_ns", "irq_ns", "unknown_ns"];
        assert_eq!(rows(&played("cpu", &AnalysisQuery::default()), &columns), ["5 70 10 29 21 10", "6 20 0 0 0 20"]);
        let by_cpu = AnalysisQuery { by: Some("cpu".to_string()), ..AnalysisQuery::default() };
        let columns =
            ["task_ns", "user_ns", "system_ns", "irq_ns", "softirq_ns", "idle_ns", "unknown_ns", "suspended_ns"];
        assert_eq!(rows(&played("cpu", &by_cpu), &columns), ["90 10 29 20 1 0 30 800"]);
        let columns = ["tid", "system_ns", "irq_ns", "wait_cpu_ns", "unknown_ns", "suspended_ns"];
        let found = rows(&played("processes", &AnalysisQuery::default()), &columns);
        assert_eq!(found, ["5 29 21 20 10 800", "6 0 0 50 40 800"]);
        let columns = ["tid", "mode", "cpu_ns"];
        let found = rows(&played("stats", &AnalysisQuery::default()), &columns);
        assert!(found.contains(&"- suspended 800".to_string()), "{found:?}");
    }

    #[test]
    fn a_wait_begins_with_the_first_wake_and_preemption_is_none() {
        let stream = "100 0 switch prev=0 next=5
            150 0 wake tid=6 cpu=0
            160 0 wake tid=6 cpu=0
            200 0 switch prev=5 next=6 state=0
            300 0 switch prev=6 next=5 state=1
            350 0 switch prev=5 next=0 state=1
            360 0 wake tid=6 cpu=0
            400 0 switch prev=0 next=6 prio=120
            500 0 -";
        let log = AnalysisQuery { view: crate::kernel::View::Log, ..AnalysisQuery::default() };
        let columns = ["wake_ns", "run_ns", "latency_ns", "tid", "prio", "cpu", "waker", "reason"];
        let found = rows(&played(&DESCRIPTOR, &log, stream), &columns);
        assert_eq!(found, ["150 200 50 6 - 0 5 thread", "360 400 40 6 120 0 - unknown"]);
        // A span counts where it ends, and as a whole.
        let late = AnalysisQuery { begin: Some(380), ..log };
        assert_eq!(rows(&played(&DESCRIPTOR, &late, stream), &["latency_ns"]), ["40"]);
    }
}
