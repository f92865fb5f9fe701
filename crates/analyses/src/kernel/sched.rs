//! `sched`: how long threads waited to be run (section 3.3).

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, Machines, Map, Ns, Observer, RunEnd, Scheduled, ThreadIndex, ThreadPiece, ThreadState,
};

use super::spans::{NO_KEY, Spans};
use super::table::{Cell, Column, Listed, Order, Table, Unit, listed};
use super::{Analysis, Asked, Known, duration, key_cell, thread_cells, thread_key, thread_of};

pub(super) const KNOWN: Known = Known {
    name: "sched",
    about: "how long threads waited to be run after they were woken",
    by: &["thread", "prio", "cpu", "waker", "process"],
    words: &["switches"],
    has_spans: true,
    needs: &[&[Concept::Switch]],
    needs_for: &[],
    wants: &[(Concept::Wake, "latencies: nothing tells when threads were woken")],
    make: |asked| match asked.has("switches") {
        true => Box::new(Switches { asked: asked.clone(), ..Switches::default() }),
        false => Box::new(Sched(Spans::new(asked))),
    },
};

struct Sched(Spans);

impl Observer for Sched {
    fn scheduled(&mut self, machines: &Machines, scheduled: &Scheduled) {
        let Scheduled { woken, at, cpu, prio } = *scheduled;
        let asked = &self.0.asked;
        if !asked.wants_cpu(machines, Some(cpu)) || !asked.wants_thread(machines, Some(woken.thread)) {
            return;
        }
        let thread = machines.thread(woken.thread);
        let machine = i64::from(thread.machine);
        let key = match asked.by.as_deref() {
            Some("prio") => [machine, prio.unwrap_or(NO_KEY), 0, 0],
            Some("cpu") => [machine, i64::from(cpu.0), 0, 0],
            Some("waker") => [machine, thread_key(machines, woken.waker), 0, 0],
            Some("process") => [machine, thread.pid().unwrap_or(NO_KEY), 0, 0],
            _ => [machine, thread.tid, 0, 0],
        };
        let machine_cells = asked.machine_cells(thread.machine);
        let latency = duration(woken.at, at);
        self.0.add(machines.begin(), at, latency, key, (), || {
            let mut row = machine_cells;
            row.extend([Cell::Integer(woken.at), Cell::Integer(at), latency.into()]);
            row.extend(thread_cells(machines, Some(woken.thread)));
            row.extend([Cell::integer(prio), machines.cpu(cpu).number.into()]);
            row.extend(thread_cells(machines, woken.waker));
            row.push(Cell::name(woken.reason.name()));
            row
        });
    }
}

impl Analysis for Sched {
    fn ends_with_range(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        self.0.asked.columns(LOG)
    }

    fn finish(self: Box<Self>, machines: &Machines, range: Option<(Ns, Ns)>) -> Table {
        let asked = self.0.asked.clone();
        let by = asked.by.clone().unwrap_or_default();
        let names: &[&'static str] = match &*by {
            "prio" => &["prio"],
            "cpu" => &["cpu"],
            "waker" => &["waker", "waker_comm"],
            "process" => &["pid"],
            _ => &["tid", "comm"],
        };
        let describe = |key: &super::spans::Key, _: &_, (): &()| {
            let cells = match &*by {
                "prio" | "process" => vec![key_cell(key[1])],
                "cpu" => vec![machines.cpu(CpuIndex(key[1] as u32)).number.into()],
                _ => thread_cells(machines, thread_of(machines, key[0], key[1])),
            };
            Some((cells, Vec::new()))
        };
        self.0.finish("sched", range, listed(&[(Unit::Name, names)]), asked.columns(LOG), describe)
    }
}

/// `--switches`: how often CPUs turned to other threads.
#[derive(Default)]
struct Switches {
    asked: Asked,
    cpus: Map<CpuIndex, u64>,
    threads: Map<ThreadIndex, OfThread>,
}

#[derive(Default)]
struct OfThread {
    runs: u64,
    preempted: u64,
    blocked: u64,
    migrations: u64,
    wait_cpu: Ns,
}

impl Switches {
    fn thread(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&mut OfThread> {
        let is_wanted = self.asked.has_instant(at) && self.asked.wants_thread(machines, Some(thread));
        is_wanted.then(|| self.threads.entry(thread).or_default())
    }
}

impl Observer for Switches {
    fn switched(&mut self, machines: &Machines, cpu: CpuIndex, _: Option<ThreadIndex>, at: Ns) {
        if self.asked.has_instant(at) && self.asked.wants_cpu(machines, Some(cpu)) {
            *self.cpus.entry(cpu).or_default() += 1;
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
        if piece.state != ThreadState::WaitCpu || !self.asked.wants_thread(machines, Some(piece.thread)) {
            return;
        }
        if let Some((from, to)) = self.asked.clip(piece.from, piece.to) {
            self.threads.entry(piece.thread).or_default().wait_cpu += to - from;
        }
    }
}

impl Analysis for Switches {
    fn ends_with_range(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn finish(self: Box<Self>, machines: &Machines, range: Option<(Ns, Ns)>) -> Table {
        let asked = &self.asked;
        let mut rows = Vec::new();
        let own: Listed<'_>;
        if asked.by.as_deref() == Some("thread") {
            own = &[
                (Unit::Name, &["tid", "comm"]),
                (Unit::Count, &["runs", "preempted", "blocked", "migrations"]),
                (Unit::Duration, &["wait_cpu_ns"]),
            ];
            for (thread, of) in &self.threads {
                let mut row = asked.machine_cells(machines.thread(*thread).machine);
                row.extend(thread_cells(machines, Some(*thread)));
                row.extend([of.runs, of.preempted, of.blocked, of.migrations].map(Cell::from));
                row.push(Cell::Integer(of.wait_cpu));
                rows.push(row);
            }
        } else {
            own = &[(Unit::Name, &["cpu"]), (Unit::Count, &["switches"])];
            for (cpu, count) in &self.cpus {
                let mut row = asked.machine_cells(machines.cpu(*cpu).machine);
                row.extend([machines.cpu(*cpu).number.into(), (*count).into()]);
                rows.push(row);
            }
        }
        let all = vec![(Column::new("switches", Unit::Count), self.cpus.values().sum::<u64>().into())];
        asked.table("sched", range, asked.columns(own), rows, all, Order::Keys)
    }
}

/// Columns of lists.
const LOG: Listed<'_> = &[
    (Unit::Time, &["wake_ns", "run_ns"]),
    (Unit::Duration, &["latency_ns"]),
    (Unit::Name, &["tid", "comm", "prio", "cpu", "waker", "waker_comm", "reason"]),
];
