//! `stats`: time and events of each CPU, thread and mode (section 3.11).

use tracemill_engine::event::Event;
use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, CpuPiece, CpuStatus, Current, Machines, Map, Ns, Observer, ThreadIndex};

use super::spans::{NO_KEY, Names};
use super::table::{Cell, Column, Order, Table, Unit, columns};
use super::{Analysis, Asked, Known, key_cell};

pub(super) const KNOWN: Known = Known {
    name: "stats",
    about: "time and number of events for each CPU, thread and mode",
    by: &["thread", "process", "event", "trace"],
    words: &[],
    has_spans: false,
    needs: &[],
    needs_for: &[],
    wants: &[(Concept::Switch, "threads"), (Concept::SysEntry, "the modes user and syscall")],
    make: |asked| Box::new(Stats { asked: asked.clone(), ..Stats::default() }),
};

/// CPU, thread or process, mode, event.
type Key = (u32, i64, i64, CpuStatus, i64);

#[derive(Default)]
struct Stats {
    asked: Asked,
    rows: Map<Key, (Ns, u64)>,
    names: Names,
    name: Vec<u8>,
}

impl Stats {
    /// The key of a CPU that runs a thread: `None` is an unknown one, `Some(None)` the idle one.
    fn key(
        &self,
        machines: &Machines,
        cpu: CpuIndex,
        thread: Option<Option<ThreadIndex>>,
        status: CpuStatus,
    ) -> Option<Key> {
        let is_of_threads = self.asked.tids.is_some() || self.asked.pids.is_some() || self.asked.comms.is_some();
        if !self.asked.wants_cpu(machines, Some(cpu))
            || is_of_threads && !self.asked.wants_thread(machines, thread.flatten())
        {
            return None;
        }
        let of = machines.cpu(cpu);
        let number = of.number as i64;
        let who = |known: fn(&tracemill_semantics::states::Thread) -> i64| match thread {
            None => NO_KEY,
            Some(None) => 0,
            Some(Some(thread)) => known(machines.thread(thread)),
        };
        Some(match self.asked.by.as_deref() {
            Some("process") => (of.machine, number, who(|thread| thread.pid.unwrap_or(NO_KEY)), status, 0),
            Some("trace") => (of.machine, 0, 0, status, 0),
            _ => (of.machine, number, who(|thread| thread.tid), status, 0),
        })
    }
}

impl Observer for Stats {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        if let Some((from, to)) = self.asked.clip(piece.from, piece.to)
            && self.asked.by.as_deref() != Some("event")
            && let Some(key) = self.key(machines, piece.cpu, piece.thread, piece.status)
        {
            self.rows.entry(key).or_default().0 += to - from;
        }
    }
}

impl Analysis for Stats {
    fn ends_with_range(&self) -> bool {
        true
    }

    fn passed(&mut self, machines: &Machines, _: u32, cpu: Option<CpuIndex>, event: &Event<'_>, at: Ns) {
        let Some(cpu) = cpu.filter(|_| self.asked.has_instant(at)) else { return };
        let of = machines.cpu(cpu);
        let thread = match of.current() {
            Current::Unknown => None,
            Current::Idle => Some(None),
            Current::Thread(thread) => Some(Some(thread)),
        };
        let Some(mut key) = self.key(machines, cpu, thread, of.status()) else { return };
        if self.asked.by.as_deref() == Some("event") {
            let name = event.name(&mut self.name).unwrap_or_default();
            key.4 = self.names.number(&String::from_utf8_lossy(name));
        }
        self.rows.entry(key).or_default().1 += 1;
    }

    fn columns(&self) -> Vec<Column> {
        let mut list = self.asked.machine_columns();
        let names: &[&'static str] = match self.asked.by.as_deref() {
            Some("process") => &["cpu", "pid", "mode"],
            Some("event") => &["cpu", "tid", "mode", "name"],
            Some("trace") => &["mode"],
            _ => &["cpu", "tid", "mode"],
        };
        list.extend(columns(Unit::Name, names));
        list.extend([Column::new("cpu_ns", Unit::Duration), Column::new("events", Unit::Count)]);
        list
    }

    fn finish(self: Box<Self>, _: &Machines, range: Option<(Ns, Ns)>) -> Table {
        let by = self.asked.by.as_deref().unwrap_or("thread");
        let row = |(&(machine, cpu, who, status, name), &(time, events)): (&Key, &(Ns, u64))| {
            let mut row = self.asked.machine_cells(machine);
            if by != "trace" {
                row.extend([cpu.into(), key_cell(who)]);
            }
            row.push(Cell::text(Some(status.name())));
            if by == "event" {
                row.push(Cell::text(self.names.name(name)));
            }
            // Time belongs to no event.
            row.extend([if by == "event" { Cell::Null } else { Cell::Integer(time) }, events.into()]);
            row
        };
        let rows = self.rows.iter().map(row).filter(|row| self.asked.keeps(row)).collect();
        let (time, events) = self.rows.values().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let mut all = vec![(Column::new("events", Unit::Count), Cell::from(events))];
        if by != "event" {
            all.insert(0, (Column::new("cpu_ns", Unit::Duration), Cell::Integer(time)));
        }
        let columns = self.columns();
        Table { analysis: "stats", range, columns, rows, all, order: Order::Keys, ..Table::default() }
    }
}
