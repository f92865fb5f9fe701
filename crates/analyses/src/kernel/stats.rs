//! `stats`: time and events of each CPU, thread and mode (section 3.11).

use tracemill_engine::event::Event;
use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, CpuPiece, CpuStatus, Current, Machines, Map, Ns, Observer, ThreadIndex};

use super::spans::{NO_KEY, Names};
use super::table::{Cell, Column, Order, Table, Unit};
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
    make: |asked| Box::new(Stats { asked: asked.clone(), by: By::of(asked), ..Stats::default() }),
};

/// The thread of a CPU: `None` is an unknown one, `Some(None)` the idle one.
type Who = Option<Option<ThreadIndex>>;

/// CPU, thread or process, mode, event.
type Key = (u32, i64, i64, CpuStatus, i64);

#[derive(Default)]
struct Stats {
    asked: Asked,
    /// The place of each row.
    places: Map<Key, u32>,
    rows: Vec<(Key, Ns, u64)>,
    by: By,
    /// For each CPU, whom it ran last, and the rows of that by status.
    last: Vec<(Who, [u32; CpuStatus::ALL.len()])>,
    names: Names,
    name: Vec<u8>,
}

/// The subject of rows.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum By {
    #[default]
    Thread,
    Process,
    Event,
    Trace,
}

impl By {
    fn of(asked: &Asked) -> By {
        match asked.by.as_deref() {
            Some("process") => By::Process,
            Some("event") => By::Event,
            Some("trace") => By::Trace,
            _ => By::Thread,
        }
    }
}

/// A row that is not looked up yet.
const NO_ROW: u32 = u32::MAX;

impl Stats {
    /// The row of a key.
    fn row(&mut self, key: Key) -> u32 {
        let Stats { places, rows, .. } = self;
        *places.entry(key).or_insert_with(|| {
            rows.push((key, 0, 0));
            rows.len() as u32 - 1
        })
    }

    /// The row of a CPU that runs a thread: the last one of that CPU more often than not.
    #[inline]
    fn row_of(&mut self, machines: &Machines, cpu: CpuIndex, thread: Who, status: CpuStatus) -> Option<u32> {
        let at = cpu.0 as usize;
        if let Some((last_thread, rows)) = self.last.get(at)
            && *last_thread == thread
            && rows[status as usize] != NO_ROW
        {
            return Some(rows[status as usize]);
        }
        let key = self.key(machines, cpu, thread, status)?;
        let row = self.row(key);
        // The process and the name of a thread may become known later.
        let is_fixed = matches!(self.by, By::Thread | By::Trace);
        if is_fixed && self.asked.pids.is_none() && self.asked.comms.is_none() {
            const NONE: (Who, [u32; CpuStatus::ALL.len()]) = (None, [NO_ROW; CpuStatus::ALL.len()]);
            self.last.resize(self.last.len().max(at + 1), NONE);
            let last = &mut self.last[at];
            if last.0 != thread {
                *last = (thread, NONE.1);
            }
            last.1[status as usize] = row;
        }
        Some(row)
    }

    fn key(&self, machines: &Machines, cpu: CpuIndex, thread: Who, status: CpuStatus) -> Option<Key> {
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
        Some(match self.by {
            By::Process => (of.machine, number, who(|thread| thread.pid().unwrap_or(NO_KEY)), status, 0),
            By::Trace => (of.machine, 0, 0, status, 0),
            By::Thread | By::Event => (of.machine, number, who(|thread| thread.tid), status, 0),
        })
    }
}

impl Observer for Stats {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        if let Some((from, to)) = self.asked.clip(piece.from, piece.to)
            && self.by != By::Event
            && let Some(row) = self.row_of(machines, piece.cpu, piece.thread, piece.status)
        {
            self.rows[row as usize].1 += to - from;
        }
    }
}

impl Analysis for Stats {
    fn ends_with_range(&self) -> bool {
        true
    }

    fn looks_at_all(&self) -> bool {
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
        let row = if self.by == By::Event {
            let Some(mut key) = self.key(machines, cpu, thread, of.status()) else { return };
            let name = event.name(&mut self.name).unwrap_or_default();
            key.4 = self.names.number(&String::from_utf8_lossy(name));
            self.row(key)
        } else {
            let Some(row) = self.row_of(machines, cpu, thread, of.status()) else { return };
            row
        };
        self.rows[row as usize].2 += 1;
    }

    fn columns(&self) -> Vec<Column> {
        let names: &[&'static str] = match self.by {
            By::Process => &["cpu", "pid", "mode"],
            By::Event => &["cpu", "tid", "mode", "name"],
            By::Trace => &["mode"],
            By::Thread => &["cpu", "tid", "mode"],
        };
        self.asked.columns(&[(Unit::Name, names), (Unit::Duration, &["cpu_ns"]), (Unit::Count, &["events"])])
    }

    fn finish(self: Box<Self>, _: &Machines, range: Option<(Ns, Ns)>) -> Table {
        let row = |&((machine, cpu, who, status, name), time, events): &(Key, Ns, u64)| {
            let mut row = self.asked.machine_cells(machine);
            if self.by != By::Trace {
                row.extend([cpu.into(), key_cell(who)]);
            }
            row.push(Cell::name(status.name()));
            if self.by == By::Event {
                row.push(Cell::text(self.names.name(name)));
            }
            // Time belongs to no event.
            row.extend([if self.by == By::Event { Cell::Null } else { Cell::Integer(time) }, events.into()]);
            row
        };
        let rows = self.rows.iter().map(row).collect();
        let (time, events) = self.rows.iter().fold((0, 0), |sum, of| (sum.0 + of.1, sum.1 + of.2));
        let mut all = vec![(Column::new("events", Unit::Count), Cell::from(events))];
        if self.by != By::Event {
            all.insert(0, (Column::new("cpu_ns", Unit::Duration), Cell::Integer(time)));
        }
        self.asked.table("stats", range, self.columns(), rows, all, Order::Keys)
    }
}
