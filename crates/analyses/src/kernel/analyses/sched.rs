//! `sched`: how long threads waited to be run (`docs/kernel.md`, section 3.3).

use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, Machines, Map, Ns, Observer, RunEnd, Scheduled, ThreadIndex, ThreadPiece, ThreadState,
};

use crate::kernel::aggregate::account::{Account, Sum};
use crate::kernel::aggregate::keys::{NO_KEY, duration, key_value, thread_key, thread_of, thread_values};
use crate::kernel::aggregate::ledger::{Describe, Ledger, rows_of};
use crate::kernel::aggregate::spans::{self, GroupNaming, Spans};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{Form, FormWord, RowNouns, SPANS, SUMS, SUMS_OF_THREADS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::table::{Column, Listed, Order, Table, Unit, listed};
use crate::kernel::value::{Cell, Value};

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
    fn of(query: &AnalysisQuery) -> By {
        query.key(By::of_name).unwrap_or(By::Thread)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "sched",
    about: "how long threads waited to be run after they were woken",
    forms: &[
        Form::plain(
            By::NAMES,
            SPANS,
            RowNouns::of(&["threads", "priorities", "cpus", "wakers", "processes"]).with_spans("waits"),
        ),
        Form {
            option: "--switches",
            word: Some(FormWord::Switches),
            keys: &[By::Cpu.name()],
            takes: SUMS,
            nouns: RowNouns::of(&["cpus"]),
        },
        Form {
            option: "--switches --by thread",
            word: Some(FormWord::Switches),
            keys: &[By::Thread.name()],
            takes: SUMS_OF_THREADS,
            nouns: RowNouns::of(&["threads"]),
        },
    ],
    needs: &[&[Concept::Switch]],
    needs_for: &[],
    wants: &[(Concept::Wake, "latencies: nothing tells when threads were woken")],
    example: "sched --top 5",
    make: |query| match query.has(FormWord::Switches) {
        true => Box::new(Switches { query: query.clone(), ..Switches::default() }),
        false => Box::new(Sched { by: By::of(query), spans: Spans::new(query) }),
    },
};

struct Sched {
    by: By,
    spans: Spans,
}

impl Observer for Sched {
    fn scheduled(&mut self, machines: &Machines, scheduled: &Scheduled) {
        let Scheduled { woken, at, cpu, prio } = *scheduled;
        let query = &self.spans.query;
        if !query.wants_cpu(machines, Some(cpu)) || !query.wants_thread(machines, Some(woken.thread)) {
            return;
        }
        let thread = machines.thread(woken.thread);
        let machine = i64::from(thread.machine);
        let key = match self.by {
            By::Prio => [machine, prio.unwrap_or(NO_KEY), 0, 0],
            By::Cpu => [machine, i64::from(cpu.0), 0, 0],
            By::Waker => [machine, thread_key(machines, woken.waker), 0, 0],
            By::Process => [machine, thread.pid().unwrap_or(NO_KEY), 0, 0],
            By::Thread => [machine, thread.tid, 0, 0],
        };
        self.spans.add(machines, (woken.at, at), (thread.machine, key), (), |machine, put| {
            let [tid, comm] = thread_values(machines, Some(woken.thread));
            let [waker, waker_comm] = thread_values(machines, woken.waker);
            let (cpu, latency) =
                (machines.cpu(cpu).number.into(), duration(machines, thread.machine, woken.at, at).into());
            put(&[
                machine,
                Value::Integer(woken.at),
                Value::Integer(at),
                Value::Integer(latency),
                tid,
                comm,
                Value::integer(prio),
                Value::Integer(cpu),
                waker,
                waker_comm,
                Value::Word(woken.reason.name()),
            ]);
        });
    }
}

impl Analysis for Sched {
    fn hears(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Scheduled], ReportTimes::Range)
    }

    fn columns(&self) -> Vec<Column> {
        self.spans.query.columns(LOG)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Sched { by, spans } = *self;
        let query = spans.query.clone();
        let names: &[&'static str] = match by {
            By::Prio => &["prio"],
            By::Cpu => &["cpu"],
            By::Waker => &["waker", "waker_comm"],
            By::Process => &["pid"],
            By::Thread => &["tid", "comm"],
        };
        let (log, naming) = (query.columns(LOG), SchedLabels { by, machines: machines.clone() });
        spans.finish("sched", range, listed(&[(Unit::Name, names)]), log, naming)
    }
}

/// The names of groups.
struct SchedLabels {
    by: By,
    machines: Rc<Machines>,
}

impl GroupNaming<()> for SchedLabels {
    fn name<'s>(&'s self, key: &spans::Key, values: &mut Vec<Value<'s>>) {
        match self.by {
            By::Prio | By::Process => values.push(key_value(key[1])),
            By::Cpu => values.push(Value::Integer(self.machines.cpu(CpuIndex(key[1] as u32)).number.into())),
            By::Thread | By::Waker => {
                values.extend(thread_values(&self.machines, thread_of(&self.machines, key[0], key[1])))
            }
        }
    }

    fn number(&self, key: &spans::Key) -> Option<i64> {
        (self.by != By::Cpu).then_some(key[1])
    }

    fn more(&self, _: &spans::Key, (): &()) -> Vec<Cell> {
        Vec::new()
    }
}

/// `--switches`: how often CPUs turned to other threads.
#[derive(Default)]
struct Switches {
    query: AnalysisQuery,
    /// By step.
    cpus: Map<(i64, CpuIndex), u64>,
    /// By step and thread.
    threads: Ledger<2, OfThread>,
}

impl Sum for u64 {
    fn add(&mut self, other: u64) {
        *self += other;
    }
}

impl Sum for OfThread {
    fn add(&mut self, other: OfThread) {
        self.parts().into_iter().zip(other.numbers()).for_each(|(sum, more)| *sum += more);
    }
}

#[derive(Clone, Default)]
struct OfThread {
    runs: i128,
    preempted: i128,
    blocked: i128,
    migrations: i128,
    wait_cpu: Ns,
}

impl OfThread {
    fn numbers(&self) -> [i128; 5] {
        [self.runs, self.preempted, self.blocked, self.migrations, self.wait_cpu]
    }

    fn parts(&mut self) -> [&mut i128; 5] {
        let OfThread { runs, preempted, blocked, migrations, wait_cpu } = self;
        [runs, preempted, blocked, migrations, wait_cpu]
    }
}

impl Account for OfThread {
    fn put(&self, cells: &mut Vec<Cell>) {
        cells.extend(self.numbers().map(Cell::Integer));
    }

    fn take(&mut self, numbers: &mut impl Iterator<Item = Option<i128>>) {
        self.parts().into_iter().zip(numbers).for_each(|(sum, more)| *sum += more.unwrap_or(0));
    }
}

/// The values of rows of threads.
struct OfThreads(Rc<Machines>);

impl Describe<2, OfThread> for OfThreads {
    fn machine(&self, [_, thread]: &[i64; 2]) -> u32 {
        self.0.thread(ThreadIndex(*thread as u32)).machine
    }

    fn number(&self, [_, thread]: &[i64; 2]) -> i64 {
        self.0.thread(ThreadIndex(*thread as u32)).tid
    }

    fn put<'s>(&'s self, [_, thread]: &[i64; 2], of: &OfThread, _: Ns, values: &mut Vec<Value<'s>>) {
        values.extend(thread_values(&self.0, Some(ThreadIndex(*thread as u32))));
        values.extend(of.numbers().map(Value::Integer));
    }
}

impl Switches {
    fn thread(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&mut OfThread> {
        let is_wanted = self.query.has_instant(at) && self.query.wants_thread(machines, Some(thread));
        let step = self.query.step_of(machines.begin(), at);
        is_wanted.then(|| self.threads.of([step, thread.0.into()]))
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
            of.migrations += i128::from(has_migrated);
        }
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        if let Some(of) = self.thread(machines, thread, at) {
            of.preempted += i128::from(how == RunEnd::Preempted);
            of.blocked += i128::from(how == RunEnd::Blocked);
        }
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if piece.state != ThreadState::WaitCpu || !self.query.wants_thread(machines, Some(piece.thread)) {
            return;
        }
        let Switches { query, threads, .. } = self;
        query.each_step(machines.begin(), piece.from, piece.to, |step, length| {
            threads.of([step, piece.thread.0.into()]).wait_cpu += length;
        });
    }
}

impl Analysis for Switches {
    fn hears(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{RunBegan, RunEnded, Switched, ThreadPiece};
        (&[Switched, RunBegan, RunEnded, ThreadPiece], ReportTimes::Range)
    }

    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Switches { query, cpus, threads } = *self;
        let switches: u64 = cpus.values().sum();
        let all = vec![(Column::new("switches", Unit::Count), switches.into())];
        if query.key(By::of_name) == Some(By::Thread) {
            let own: Listed<'_> = &[
                (Unit::Name, &["tid", "comm"]),
                (Unit::Count, &["runs", "preempted", "blocked", "migrations"]),
                (Unit::Duration, &["wait_cpu_ns"]),
            ];
            let threads = threads.finish(query.last_step(range));
            let rows = rows_of(&query, range, threads, OfThreads(machines.clone()), |_| true);
            let columns = query.step_columns(own);
            return Table { analysis: "sched", range, columns, rows, all, order: Order::Keys, ..Table::default() };
        }
        let rows = query.by_last_step(range, cpus).into_iter().map(|((step, cpu), count)| {
            let mut row = query.step_cells(range, step, machines.cpu(cpu).machine);
            row.extend([machines.cpu(cpu).number.into(), count.into()]);
            row
        });
        let own: Listed<'_> = &[(Unit::Name, &["cpu"]), (Unit::Count, &["switches"])];
        query.table("sched", range, query.step_columns(own), rows, all, Order::Keys)
    }
}

/// Columns of lists.
const LOG: Listed<'_> = &[
    (Unit::Time, &["wake_ns", "run_ns"]),
    (Unit::Duration, &["latency_ns"]),
    (Unit::Name, &["tid", "comm", "prio", "cpu", "waker", "waker_comm", "reason"]),
];

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
