//! `cpu`: the threads that used the CPUs (`docs/kernel.md`, section 3.2).

use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, CpuPiece, CpuStatus, Credit, Machines, Map, Ns, Observer, ThreadIndex, ThreadPiece, ThreadState,
};

use crate::kernel::aggregate::account::{Account, Sum};
use crate::kernel::aggregate::keys::{NO_KEY, key_cell};
use crate::kernel::aggregate::ledger::{Describe, Key, Ledger, rows_of};
use crate::kernel::analyses::states::is_system;
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{Form, RowNouns, SUMS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::store::Rows;
use crate::kernel::table::{Column, Listed, Order, Table, Unit, listed};
use crate::kernel::value::{Cell, Value};

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
    fn of(query: &AnalysisQuery) -> By {
        query.key(By::of_name).unwrap_or(By::Thread)
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "cpu",
    about: "who used the CPUs, and what for",
    forms: &[Form::plain(By::NAMES, SUMS, RowNouns::of(&["threads", "processes", "cpus"]))],
    needs: &[&[Concept::Switch, Concept::Running]],
    needs_for: &[],
    wants: &[(Concept::SysEntry, "user_ns and system_ns"), (Concept::IrqEntry, "irq_ns")],
    example: "cpu --by cpu --step 100ms",
    make: |query| Box::new(Cpu::new(query)),
};

struct Cpu {
    query: AnalysisQuery,
    by: By,
    /// By step and thread.
    threads: Ledger<2, OfThread>,
    cpus: Map<(i64, CpuIndex), OfCpu>,
}

#[derive(Clone, Default)]
struct OfThread {
    user: Ns,
    system: Ns,
    irq: Ns,
    unknown: Ns,
    switches: i128,
    migrations: i128,
}

#[derive(Clone, Default)]
struct OfCpu {
    task: Ns,
    user: Ns,
    system: Ns,
    irq: Ns,
    softirq: Ns,
    idle: Ns,
    unknown: Ns,
    suspended: Ns,
}

impl OfThread {
    fn time(&self) -> Ns {
        self.user + self.system + self.irq + self.unknown
    }

    fn numbers(&self) -> [i128; 6] {
        [self.user, self.system, self.irq, self.unknown, self.switches, self.migrations]
    }

    fn parts(&mut self) -> [&mut i128; 6] {
        let OfThread { user, system, irq, unknown, switches, migrations } = self;
        [user, system, irq, unknown, switches, migrations]
    }

    /// Times, the share of a length, switches and migrations.
    fn values<'v>(&self, length: Ns) -> [Value<'v>; 8] {
        let share = if length > 0 { Value::Real(self.time() as f64 / length as f64) } else { Value::Null };
        let [time, user, system, irq, unknown, switches, migrations] =
            [self.time(), self.user, self.system, self.irq, self.unknown, self.switches, self.migrations]
                .map(Value::Integer);
        [time, user, system, irq, unknown, share, switches, migrations]
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

impl Sum for OfThread {
    fn add(&mut self, other: OfThread) {
        self.parts().into_iter().zip(other.numbers()).for_each(|(sum, more)| *sum += more);
    }
}

impl Sum for OfCpu {
    fn add(&mut self, mut other: OfCpu) {
        self.parts().into_iter().zip(other.parts()).for_each(|(sum, more)| *sum += *more);
    }
}

impl Cpu {
    fn new(query: &AnalysisQuery) -> Self {
        Cpu { query: query.clone(), by: By::of(query), threads: Ledger::default(), cpus: Map::default() }
    }

    fn is_by_cpu(&self) -> bool {
        self.by == By::Cpu
    }

    fn of_thread(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&mut OfThread> {
        if !self.query.has_instant(at) || self.is_by_cpu() {
            return None;
        }
        let step = self.query.step_of(machines.begin(), at);
        Some(self.threads.of([step, thread.0.into()]))
    }

    fn thread_rows(self, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let is_process = self.by == By::Process;
        let query = &self.query;
        let (names, counts, prio): (&[_], &[_], &[_]) = match is_process {
            true => (&["pid"], &["threads"], &[]),
            false => (&["tid", "pid", "comm"], &[], &["prio"]),
        };
        let columns_of = query.step_columns(&[
            (Unit::Name, names),
            (Unit::Count, counts),
            (Unit::Duration, &["time_ns", "user_ns", "system_ns", "irq_ns", "unknown_ns"]),
            (Unit::Share, &["share"]),
            (Unit::Count, &["switches", "migrations"]),
            (Unit::Name, prio),
        ]);
        let lives = self.threads.finish(query.last_step(range));
        let all = Cell::Integer(lives.iter().map(|(_, of)| of.time()).filter(|time| *time > 0).sum());
        let rows = if is_process {
            let mut rows = Rows::default();
            let mut processes: Map<(i64, u32, i64), (u64, OfThread)> = Map::default();
            for ([step, thread], of) in lives.iter().filter(|(_, of)| of.time() > 0) {
                let thread = machines.thread(ThreadIndex(thread as u32));
                let process = processes.entry((step, thread.machine, thread.pid().unwrap_or(NO_KEY))).or_default();
                process.0 += 1;
                process.1.add(of);
            }
            for ((step, machine, pid), (threads, of)) in processes {
                let mut row = query.step_cells(range, step, machine);
                row.extend([key_cell(pid), threads.into()]);
                row.extend(of.values(query.length_of_step(range, step)).map(Cell::from));
                if query.keeps(&row) {
                    rows.push(&row);
                }
            }
            rows
        } else {
            rows_of(query, range, lives, OfThreads(machines.clone()), |of| of.time() > 0)
        };
        let all = vec![(Column::new("time_ns", Unit::Duration), all)];
        let order = if query.step.is_some() { Order::Keys } else { Order::Largest("time_ns") };
        Table { analysis: "cpu", range, columns: columns_of, rows, all, order, ..Table::default() }
    }

    fn cpu_rows(self, machines: &Machines, range: Option<(Ns, Ns)>) -> Table {
        let query = &self.query;
        let durations: Listed<'_> = &[(
            Unit::Duration,
            &["task_ns", "user_ns", "system_ns", "irq_ns", "softirq_ns", "idle_ns", "unknown_ns", "suspended_ns"],
        )];
        let mut columns_of = query.step_columns(&[(Unit::Name, &["cpu"])]);
        columns_of.extend(listed(durations).chain(listed(&[(Unit::Share, &["share"]), (Unit::Count, &["khz"])])));
        let mut all = OfCpu::default();
        let mut rows = Vec::new();
        for ((step, index), mut of) in query.by_last_step(range, self.cpus) {
            all.add(of.clone());
            let cpu = machines.cpu(index);
            let mut row = query.step_cells(range, step, cpu.machine);
            let length = query.length_of_step(range, step);
            row.push(cpu.number.into());
            let share = if length > 0 { Cell::Real(of.task as f64 / length as f64) } else { Cell::Null };
            row.extend(of.parts().map(|part| Cell::Integer(*part)));
            row.extend([share, Cell::integer(cpu.khz)]);
            rows.push(row);
        }
        let all = listed(durations).zip(all.parts().map(|part| Cell::Integer(*part))).collect();
        query.table("cpu", range, columns_of, rows, all, Order::Keys)
    }
}

/// The values of rows of threads.
struct OfThreads(Rc<Machines>);

impl Describe<2, OfThread> for OfThreads {
    fn machine(&self, [_, thread]: &Key<2>) -> u32 {
        self.0.thread(ThreadIndex(*thread as u32)).machine
    }

    fn number(&self, [_, thread]: &Key<2>) -> i64 {
        self.0.thread(ThreadIndex(*thread as u32)).tid
    }

    fn put<'s>(&'s self, [_, thread]: &Key<2>, of: &OfThread, length: Ns, values: &mut Vec<Value<'s>>) {
        let thread = self.0.thread(ThreadIndex(*thread as u32));
        values.extend([
            Value::Integer(thread.tid.into()),
            Value::integer(thread.pid()),
            Value::text(thread.comm.as_deref()),
        ]);
        values.extend(of.values(length));
        values.push(Value::integer(thread.prio()));
    }
}

impl OfCpu {
    fn parts(&mut self) -> [&mut Ns; 8] {
        let OfCpu { task, user, system, irq, softirq, idle, unknown, suspended } = self;
        [task, user, system, irq, softirq, idle, unknown, suspended]
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
            let of = threads.of([step, piece.thread.0.into()]);
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
            By::Thread | By::Process => threads.of([step, credit.thread.0.into()]).unknown += length,
        });
    }

    fn run_began(&mut self, machines: &Machines, thread: ThreadIndex, has_migrated: bool, at: Ns) {
        if !self.query.wants_thread(machines, Some(thread))
            || !self.query.wants_cpu(machines, machines.thread(thread).running())
        {
            return;
        }
        if let Some(of) = self.of_thread(machines, thread, at) {
            of.switches += 1;
            of.migrations += i128::from(has_migrated);
        }
    }
}

impl Analysis for Cpu {
    fn hears(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{CpuPiece, Credit, RunBegan, ThreadPiece};
        (if self.is_by_cpu() { &[CpuPiece, Credit] } else { &[ThreadPiece, Credit, RunBegan] }, ReportTimes::Range)
    }

    fn columns(&self) -> Vec<Column> {
        Vec::new()
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
