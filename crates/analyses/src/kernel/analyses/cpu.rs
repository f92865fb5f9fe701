//! `cpu`: the threads that used the CPUs (`docs/kernel.md`, section 3.2).

use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, CpuPiece, CpuStatus, Credit, Machines, Map, Ns, Observer, Thread, ThreadIndex, ThreadPiece, ThreadState,
};

use crate::kernel::aggregate::aggregate_map::{AggregateMap, SumKey, SumRows, rows_of};
use crate::kernel::aggregate::keys::{NO_KEY, known_key};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analyses::states::is_system;
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, RowNouns, SUMS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, cells_of, column, own_column, share};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups.
    By {
        /// A life of a thread.
        Thread = "thread",
        /// A process.
        Process = "process",
        /// A CPU.
        Cpu = "cpu",
    }
}

impl By {
    fn from_query(query: &AnalysisQuery) -> By {
        query.key(By::from_name).unwrap_or(By::Thread)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "cpu",
    about: "who used the CPUs, and what for",
    forms: &[AnalysisForm::plain(By::NAMES, SUMS, RowNouns::for_groups(&["threads", "processes", "cpus"]))],
    needs: &[&[Concept::Switch, Concept::Running]],
    needs_for: &[],
    wants: &[(Concept::SysEntry, "user_ns and system_ns"), (Concept::IrqEntry, "irq_ns")],
    over_periods: None,
    example: "cpu --by cpu --step 100ms",
    make: |query| Box::new(Cpu::new(query)),
};

struct Cpu {
    query: AnalysisQuery,
    by: By,
    /// By step and thread.
    threads: AggregateMap<2, ThreadTimes>,
    cpus: Map<(i64, CpuIndex), CpuTimes>,
}

/// Time of a thread as the running one of a CPU.
#[derive(Clone, Default)]
struct ThreadTimes {
    user: Ns,
    system: Ns,
    irq: Ns,
    unknown: Ns,
    switches: u64,
    migrations: u64,
}

impl ThreadTimes {
    fn time(&self) -> Ns {
        self.user + self.system + self.irq + self.unknown
    }
}

impl Aggregate for ThreadTimes {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.user);
        packing.number(&mut self.system);
        packing.number(&mut self.irq);
        packing.number(&mut self.unknown);
        packing.number(&mut self.switches);
        packing.number(&mut self.migrations);
    }
}

impl Sum for ThreadTimes {
    fn add(&mut self, other: ThreadTimes) {
        self.user += other.user;
        self.system += other.system;
        self.irq += other.irq;
        self.unknown += other.unknown;
        self.switches += other.switches;
        self.migrations += other.migrations;
    }
}

/// Time of a CPU.
#[derive(Clone, Default)]
struct CpuTimes {
    task: Ns,
    user: Ns,
    system: Ns,
    irq: Ns,
    softirq: Ns,
    idle: Ns,
    unknown: Ns,
    suspended: Ns,
}

impl Sum for CpuTimes {
    fn add(&mut self, other: CpuTimes) {
        self.task += other.task;
        self.user += other.user;
        self.system += other.system;
        self.irq += other.irq;
        self.softirq += other.softirq;
        self.idle += other.idle;
        self.unknown += other.unknown;
        self.suspended += other.suspended;
    }
}

/// A row of a thread, or of the threads of a process.
struct ThreadRow<'r> {
    thread: Option<&'r Thread>,
    pid: Option<i64>,
    /// Number of the threads.
    threads: u64,
    times: ThreadTimes,
    /// Length of the range, or of the step.
    length: Ns,
}

impl<'r> ThreadRow<'r> {
    const TID: ColumnOf<'r, Self> = own_column("tid", Unit::Name, "number of the thread, a row for each life", |row| {
        Value::integer(row.thread.map(|thread| thread.tid))
    });
    const PID: ColumnOf<'r, Self> = column("pid", Unit::Name, |row| Value::integer(row.pid));
    const COMM: ColumnOf<'r, Self> =
        column("comm", Unit::Name, |row| Value::text(row.thread.and_then(|thread| thread.comm.as_deref())));
    const THREADS: ColumnOf<'r, Self> =
        own_column("threads", Unit::Count, "threads that ran", |row| row.threads.into());
    const TIME: ColumnOf<'r, Self> = own_column(
        "time_ns",
        Unit::Duration,
        "time as the running thread of a CPU, with interrupts meanwhile",
        |row| row.times.time().into(),
    );
    const USER: ColumnOf<'r, Self> = column("user_ns", Unit::Duration, |row| row.times.user.into());
    const SYSTEM: ColumnOf<'r, Self> = column("system_ns", Unit::Duration, |row| row.times.system.into());
    const IRQ: ColumnOf<'r, Self> = column("irq_ns", Unit::Duration, |row| row.times.irq.into());
    const UNKNOWN: ColumnOf<'r, Self> = column("unknown_ns", Unit::Duration, |row| row.times.unknown.into());
    const SHARE: ColumnOf<'r, Self> = column("share", Unit::Share, |row| share(row.times.time(), row.length));
    const SWITCHES: ColumnOf<'r, Self> = column("switches", Unit::Count, |row| row.times.switches.into());
    const MIGRATIONS: ColumnOf<'r, Self> = column("migrations", Unit::Count, |row| row.times.migrations.into());
    const PRIO: ColumnOf<'r, Self> =
        column("prio", Unit::Name, |row| Value::integer(row.thread.and_then(|thread| thread.prio())));

    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[
        Self::TID,
        Self::PID,
        Self::COMM,
        Self::TIME,
        Self::USER,
        Self::SYSTEM,
        Self::IRQ,
        Self::UNKNOWN,
        Self::SHARE,
        Self::SWITCHES,
        Self::MIGRATIONS,
        Self::PRIO,
    ];
    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[
        Self::PID,
        Self::THREADS,
        Self::TIME,
        Self::USER,
        Self::SYSTEM,
        Self::IRQ,
        Self::UNKNOWN,
        Self::SHARE,
        Self::SWITCHES,
        Self::MIGRATIONS,
    ];
}

/// A row of a CPU.
#[derive(Default)]
struct CpuRow {
    cpu: u64,
    times: CpuTimes,
    khz: Option<i64>,
    /// Length of the range, or of the step.
    length: Ns,
}

impl CpuRow {
    const TASK: ColumnOf<'static, Self> =
        own_column("task_ns", Unit::Duration, "time with a thread other than idle", |row| row.times.task.into());
    const USER: ColumnOf<'static, Self> = column("user_ns", Unit::Duration, |row| row.times.user.into());
    const SYSTEM: ColumnOf<'static, Self> = column("system_ns", Unit::Duration, |row| row.times.system.into());
    const IRQ: ColumnOf<'static, Self> = column("irq_ns", Unit::Duration, |row| row.times.irq.into());
    const SOFTIRQ: ColumnOf<'static, Self> =
        own_column("softirq_ns", Unit::Duration, "time in soft interrupts", |row| row.times.softirq.into());
    const IDLE: ColumnOf<'static, Self> =
        own_column("idle_ns", Unit::Duration, "time without a thread", |row| row.times.idle.into());
    const UNKNOWN: ColumnOf<'static, Self> = column("unknown_ns", Unit::Duration, |row| row.times.unknown.into());
    const SUSPENDED: ColumnOf<'static, Self> = column("suspended_ns", Unit::Duration, |row| row.times.suspended.into());

    const TIMES: &'static [ColumnOf<'static, Self>] =
        &[Self::TASK, Self::USER, Self::SYSTEM, Self::IRQ, Self::SOFTIRQ, Self::IDLE, Self::UNKNOWN, Self::SUSPENDED];
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        column("cpu", Unit::Name, |row| row.cpu.into()),
        Self::TASK,
        Self::USER,
        Self::SYSTEM,
        Self::IRQ,
        Self::SOFTIRQ,
        Self::IDLE,
        Self::UNKNOWN,
        Self::SUSPENDED,
        column("share", Unit::Share, |row| share(row.times.task, row.length)),
        own_column("khz", Unit::Count, "frequency of the CPU in kHz", |row| Value::integer(row.khz)),
    ];
}

impl Cpu {
    fn new(query: &AnalysisQuery) -> Self {
        Cpu { query: query.clone(), by: By::from_query(query), threads: AggregateMap::default(), cpus: Map::default() }
    }

    fn is_by_cpu(&self) -> bool {
        self.by == By::Cpu
    }

    fn thread_times(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&mut ThreadTimes> {
        if !self.query.has_instant(at) || self.is_by_cpu() {
            return None;
        }
        let step = self.query.step_of(machines.begin(), at);
        Some(self.threads.entry([step, thread.0.into()]))
    }

    fn thread_rows(self, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let query = &self.query;
        let lives = self.threads.finish(query.last_step(range));
        let mut all = ThreadTimes::default();
        let mut processes: Map<(i64, u32, i64), (u64, ThreadTimes)> = Map::default();
        for ([step, thread], times) in lives.iter().filter(|(_, times)| times.time() > 0) {
            all.add(times.clone());
            if self.by == By::Process {
                let thread = machines.thread(ThreadIndex(thread as u32));
                let process = processes.entry((step, thread.machine, thread.pid().unwrap_or(NO_KEY))).or_default();
                process.0 += 1;
                process.1.add(times);
            }
        }
        let (columns, rows) = match self.by {
            By::Process => {
                let row = |((step, machine, pid), (threads, times)): ((i64, u32, i64), (u64, ThreadTimes))| {
                    let length = query.length_of_step(range, step);
                    (step, machine, ThreadRow { thread: None, pid: known_key(pid), threads, times, length })
                };
                query.step_rows(range, ThreadRow::BY_PROCESS, processes.into_iter().map(row))
            }
            _ => rows_of(query, range, lives, ThreadRows(machines.clone()), |times| times.time() > 0),
        };
        let all = ThreadRow { thread: None, pid: None, threads: 0, times: all, length: 0 };
        let all = cells_of(&[ThreadRow::TIME], &all);
        let order = if query.step.is_some() { Order::Keys } else { Order::Largest("time_ns") };
        Table { analysis: "cpu", range, columns, rows, all, order, ..Table::default() }
    }

    fn cpu_rows(self, machines: &Machines, range: Option<(Ns, Ns)>) -> Table {
        let query = &self.query;
        let mut all = CpuRow::default();
        let row = |((step, index), times): ((i64, CpuIndex), CpuTimes)| {
            all.times.add(times.clone());
            let cpu = machines.cpu(index);
            let length = query.length_of_step(range, step);
            (step, cpu.machine, CpuRow { cpu: cpu.number, times, khz: cpu.khz, length })
        };
        let (columns, rows) =
            query.step_rows(range, CpuRow::COLUMNS, query.by_last_step(range, self.cpus).into_iter().map(row));
        let all = cells_of(CpuRow::TIMES, &all);
        Table { analysis: "cpu", range, columns, rows, all, order: Order::Keys, ..Table::default() }
    }
}

struct ThreadRows(Rc<Machines>);

impl ThreadRows {
    fn thread(&self, [_, thread]: &SumKey<2>) -> &Thread {
        self.0.thread(ThreadIndex(*thread as u32))
    }
}

impl SumRows<2, ThreadTimes> for ThreadRows {
    type Row<'r> = ThreadRow<'r>;

    fn columns<'r>(&self) -> &'r [ColumnOf<'r, ThreadRow<'r>>] {
        ThreadRow::BY_THREAD
    }

    fn row<'r>(&'r self, key: &SumKey<2>, times: ThreadTimes, length: Ns) -> ThreadRow<'r> {
        let thread = self.thread(key);
        ThreadRow { thread: Some(thread), pid: thread.pid(), threads: 1, times, length }
    }

    fn machine(&self, key: &SumKey<2>) -> u32 {
        self.thread(key).machine
    }

    fn number(&self, key: &SumKey<2>) -> i64 {
        self.thread(key).tid
    }
}

impl Observer for Cpu {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        if !self.is_by_cpu()
            || !self.query.wants_cpu(machines, Some(piece.cpu))
            || !self.query.wants_thread(machines, piece.thread.flatten())
        {
            return;
        }
        let Cpu { query, cpus, .. } = self;
        let is_task = matches!(piece.thread, Some(Some(_)));
        query.each_step(machines.begin(), piece.from, piece.to, |step, length| {
            let of = cpus.entry((step, piece.cpu)).or_default();
            if is_task {
                of.task += length;
            }
            *match piece.status {
                CpuStatus::Irq => &mut of.irq,
                CpuStatus::Softirq => &mut of.softirq,
                CpuStatus::User => &mut of.user,
                CpuStatus::Idle => &mut of.idle,
                CpuStatus::Suspended => &mut of.suspended,
                status if is_system(status) => &mut of.system,
                _ => &mut of.unknown,
            } += length;
        });
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if self.is_by_cpu()
            || !piece.state.is_running()
            || !self.query.wants_thread(machines, Some(piece.thread))
            || !self.query.wants_cpu(machines, machines.thread(piece.thread).last_cpu())
        {
            return;
        }
        let Cpu { query, threads, .. } = self;
        query.each_step(machines.begin(), piece.from, piece.to, |step, length| {
            let of = threads.entry([step, piece.thread.0.into()]);
            *match piece.state {
                ThreadState::RunUser => &mut of.user,
                ThreadState::Interrupted => &mut of.irq,
                ThreadState::RunUnknown => &mut of.unknown,
                _ => &mut of.system,
            } += length;
        });
    }

    fn credit(&mut self, machines: &Machines, credit: &Credit) {
        let Cpu { query, by, threads, cpus } = self;
        if !query.wants_cpu(machines, Some(credit.cpu)) || !query.wants_thread(machines, Some(credit.thread)) {
            return;
        }
        query.each_step(machines.begin(), credit.from, credit.to, |step, length| match by {
            By::Cpu => cpus.entry((step, credit.cpu)).or_default().task += length,
            By::Thread | By::Process => threads.entry([step, credit.thread.0.into()]).unknown += length,
        });
    }

    fn run_began(&mut self, machines: &Machines, thread: ThreadIndex, has_migrated: bool, at: Ns) {
        if !self.query.wants_thread(machines, Some(thread))
            || !self.query.wants_cpu(machines, machines.thread(thread).running())
        {
            return;
        }
        if let Some(of) = self.thread_times(machines, thread, at) {
            of.switches += 1;
            of.migrations += u64::from(has_migrated);
        }
    }
}

impl Analysis for Cpu {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{CpuPiece, Credit, RunBegan, ThreadPiece};
        (if self.is_by_cpu() { &[CpuPiece, Credit] } else { &[ThreadPiece, Credit, RunBegan] }, ReportTimes::Range)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        if self.is_by_cpu() { self.cpu_rows(machines, range) } else { self.thread_rows(machines, range) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};

    const STREAM: &str = "100 0 irq_entry nr=1
        120 0 irq_exit nr=1
        200 0 switch prev=5 next=6 state=0
        250 0 sys_entry name=read
        300 0 sys_exit ret=0
        350 0 irq_entry nr=1
        370 0 irq_exit nr=1
        400 0 switch prev=6 next=0 state=1
        500 0 switch prev=0 next=5
        600 0 -";

    #[test]
    fn the_first_switch_credits_who_ran_and_modes_are_not_guessed() {
        let columns = ["tid", "time_ns", "user_ns", "system_ns", "irq_ns", "unknown_ns", "share", "switches"];
        let found = rows(&played(&DESCRIPTOR, &AnalysisQuery::default(), STREAM), &columns);
        assert_eq!(found, ["5 200 0 0 0 200 0.4 1", "6 200 80 50 20 50 0.4 1"]);
        let process = AnalysisQuery { by: Some("process".to_string()), ..AnalysisQuery::default() };
        assert_eq!(rows(&played(&DESCRIPTOR, &process, STREAM), &["pid", "threads", "time_ns"]), ["- 2 400"]);
    }

    #[test]
    fn what_a_cpu_does_adds_up_to_the_range() {
        let cpus = AnalysisQuery { by: Some("cpu".to_string()), ..AnalysisQuery::default() };
        let columns =
            ["cpu", "task_ns", "user_ns", "system_ns", "irq_ns", "softirq_ns", "idle_ns", "unknown_ns", "share"];
        assert_eq!(rows(&played(&DESCRIPTOR, &cpus, STREAM), &columns), ["0 400 80 50 40 0 100 230 0.8"]);
    }

    #[test]
    fn a_run_on_another_cpu_than_the_last_is_a_migration() {
        let stream = "100 0 switch prev=0 next=5
            150 0 switch prev=5 next=0 state=1
            160 0 wake tid=5 cpu=1
            200 1 switch prev=0 next=5
            250 1 switch prev=5 next=0 state=0
            300 1 switch prev=0 next=5
            400 1 -";
        let found = rows(
            &played(&DESCRIPTOR, &AnalysisQuery::default(), stream),
            &["tid", "time_ns", "switches", "migrations"],
        );
        assert_eq!(found, ["5 200 3 1"]);
        let cpu = AnalysisQuery { cpus: crate::kernel::Numbers::parse("1"), ..AnalysisQuery::default() };
        assert_eq!(rows(&played(&DESCRIPTOR, &cpu, stream), &["tid", "time_ns"]), ["5 150"]);
    }
}
