//! `stats`: time and events of each CPU, thread and mode (section 3.11).

use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, CpuPiece, CpuStatus, Current, Machines, Map, Ns, Observer};

use super::spans::{More, NO_KEY, Names};
use super::table::{Cell, Column, Order, Table, Unit};
use super::{Analysis, Asked, Known, Needs, Report, key_cell};

pub(super) const KNOWN: Known = Known {
    name: "stats",
    about: "time and number of events for each CPU, thread and mode",
    by: &["thread", "process", "event", "trace"],
    words: &[],
    has_spans: false,
    has_steps: true,
    needs: &[],
    needs_for: &[],
    wants: &[(Concept::Switch, "threads"), (Concept::SysEntry, "the modes user and syscall")],
    make: |asked| {
        let by = By::of(asked);
        // A process and a name may become known later.
        let is_fixed = matches!(by, By::Thread | By::Trace) && asked.pids.is_none() && asked.comms.is_none();
        Box::new(Stats { asked: asked.clone(), by, is_fixed, ..Stats::default() })
    },
};

/// CPU, thread or process, mode, event.
type Key = (u32, i64, i64, CpuStatus, i64);

/// Time and events.
#[derive(Clone, Copy, Default)]
struct Sums(Ns, u64);

impl More for Sums {
    fn add(&mut self, other: Sums) {
        self.0 += other.0;
        self.1 += other.1;
    }
}

#[derive(Default)]
struct Stats {
    asked: Asked,
    /// The place of each row, which has a step and a key.
    places: Map<(i64, Key), u32>,
    rows: Vec<((i64, Key), Sums)>,
    by: By,
    /// Is the row of a thread the same at all times?
    is_fixed: bool,
    /// For each CPU its last state, and the events since that are not in its row yet.
    open: Vec<Open>,
    /// The rows of what was looked up last, for each number that [`Stats::recent_of`] gives.
    recent: Vec<Recent>,
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

/// The rows of a CPU and its thread in a step, by status.
#[derive(Clone, Copy)]
struct Recent {
    cpu: CpuIndex,
    thread: Current,
    step: i64,
    rows: [u32; CpuStatus::ALL.len()],
}

/// Events of a CPU that are counted together: they go into the row of the time in which they were.
#[derive(Clone, Copy)]
struct Open {
    thread: Current,
    status: CpuStatus,
    step: i64,
    events: u64,
}

impl Recent {
    const NONE: Recent =
        Recent { cpu: CpuIndex(0), thread: Current::Unknown, step: 0, rows: [NO_ROW; CpuStatus::ALL.len()] };
}

/// Threads and CPUs whose rows are remembered: more than take turns in any short time.
const RECENT: usize = 512;

impl Stats {
    /// The row of a step and a key.
    fn row(&mut self, key: (i64, Key)) -> u32 {
        let Stats { places, rows, .. } = self;
        *places.entry(key).or_insert_with(|| {
            rows.push((key, Sums::default()));
            rows.len() as u32 - 1
        })
    }

    /// The row of a CPU that runs a thread.
    #[inline]
    fn row_of(
        &mut self,
        machines: &Machines,
        step: i64,
        cpu: CpuIndex,
        thread: Current,
        status: CpuStatus,
    ) -> Option<u32> {
        match self.recent.get(Self::recent_of(cpu, thread)) {
            Some(recent)
                if recent.rows[status as usize] != NO_ROW
                    && (recent.cpu, recent.thread, recent.step) == (cpu, thread, step) =>
            {
                Some(recent.rows[status as usize])
            }
            _ => self.find_row(machines, step, cpu, thread, status),
        }
    }

    fn find_row(
        &mut self,
        machines: &Machines,
        step: i64,
        cpu: CpuIndex,
        thread: Current,
        status: CpuStatus,
    ) -> Option<u32> {
        let key = self.key(machines, cpu, thread, status)?;
        let row = self.row((step, key));
        if self.is_fixed {
            self.recent.resize(RECENT, Recent::NONE);
            let recent = &mut self.recent[Self::recent_of(cpu, thread)];
            if (recent.cpu, recent.thread, recent.step) != (cpu, thread, step) {
                *recent = Recent { cpu, thread, step, ..Recent::NONE };
            }
            recent.rows[status as usize] = row;
        }
        Some(row)
    }

    #[inline]
    fn recent_of(cpu: CpuIndex, thread: Current) -> usize {
        let thread = match thread {
            Current::Thread(thread) => thread.0,
            Current::Idle => u32::MAX,
            Current::Unknown => u32::MAX - 1,
        };
        (thread.wrapping_add(cpu.0.wrapping_mul(0x9e37_79b9))) as usize % RECENT
    }

    /// Turns to another state of a CPU, of which an event was.
    #[inline(never)]
    fn turn(&mut self, machines: &Machines, cpu: CpuIndex, next: Open) {
        let at = cpu.0 as usize;
        self.open.resize(self.open.len().max(at + 1), Open { events: 0, ..next });
        let Open { thread, status, step, events } = std::mem::replace(&mut self.open[at], next);
        if events > 0
            && let Some(row) = self.row_of(machines, step, cpu, thread, status)
        {
            self.rows[row as usize].1.1 += events;
        }
    }

    fn key(&self, machines: &Machines, cpu: CpuIndex, thread: Current, status: CpuStatus) -> Option<Key> {
        let is_of_threads = self.asked.tids.is_some() || self.asked.pids.is_some() || self.asked.comms.is_some();
        if !self.asked.wants_cpu(machines, Some(cpu))
            || is_of_threads && !self.asked.wants_thread(machines, thread.thread())
        {
            return None;
        }
        let of = machines.cpu(cpu);
        let number = of.number as i64;
        let who = |known: fn(&tracemill_semantics::states::Thread) -> i64| match thread {
            Current::Unknown => NO_KEY,
            Current::Idle => 0,
            Current::Thread(thread) => known(machines.thread(thread)),
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
        if self.by == By::Event {
            return;
        }
        let CpuPiece { cpu, thread, status, from, to } = *piece;
        let thread = match thread {
            None => Current::Unknown,
            Some(None) => Current::Idle,
            Some(Some(thread)) => Current::Thread(thread),
        };
        if self.asked.step.is_some() {
            // Steps are rare; what the closure borrows is put back.
            let asked = self.asked.clone();
            asked.each_step(machines.begin(), from, to, |step, length| {
                if let Some(row) = self.row_of(machines, step, cpu, thread, status) {
                    self.rows[row as usize].1.0 += length;
                }
            });
        } else if let Some((from, to)) = self.asked.clip(from, to)
            && let Some(row) = self.row_of(machines, 0, cpu, thread, status)
        {
            let sums = &mut self.rows[row as usize].1;
            sums.0 += to - from;
            // One look for a row is enough for its time and its events.
            if let Some(open) = self.open.get_mut(cpu.0 as usize)
                && (open.thread, open.status) == (thread, status)
            {
                sums.1 += std::mem::take(&mut open.events);
            }
        }
    }
}

impl Analysis for Stats {
    fn hears(&self) -> (&'static [Report], Needs) {
        (if self.by == By::Event { &[Report::Passed] } else { &[Report::CpuPiece, Report::Passed] }, Needs::Range)
    }

    fn passed<'e>(
        &mut self,
        machines: &Machines,
        _: u32,
        cpu: Option<CpuIndex>,
        event: &dyn Fn() -> Event<'e>,
        at: Ns,
    ) {
        let Some(cpu) = cpu.filter(|_| self.asked.has_instant(at)) else { return };
        let of = machines.cpu(cpu);
        let (current, status) = (of.current(), of.status());
        let step = self.asked.step_of(machines.begin(), at);
        if self.is_fixed {
            match self.open.get_mut(cpu.0 as usize) {
                Some(open) if (open.thread, open.status, open.step) == (current, status, step) => open.events += 1,
                _ => self.turn(machines, cpu, Open { thread: current, status, step, events: 1 }),
            }
            return;
        }
        let event = event();
        let row = if self.by == By::Event {
            let Some(mut key) = self.key(machines, cpu, current, status) else { return };
            let name = event.name(&mut self.name).unwrap_or_default();
            key.4 = self.names.number(&String::from_utf8_lossy(name));
            self.row((step, key))
        } else {
            let Some(row) = self.row_of(machines, step, cpu, current, status) else { return };
            row
        };
        self.rows[row as usize].1.1 += 1;
    }

    fn columns(&self) -> Vec<Column> {
        let names: &[&'static str] = match self.by {
            By::Process => &["cpu", "pid", "mode"],
            By::Event => &["cpu", "tid", "mode", "name"],
            By::Trace => &["mode"],
            By::Thread => &["cpu", "tid", "mode"],
        };
        self.asked.step_columns(&[(Unit::Name, names), (Unit::Duration, &["cpu_ns"]), (Unit::Count, &["events"])])
    }

    fn finish(mut self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        for at in 0..self.open.len() {
            let open = self.open[at];
            self.turn(machines, CpuIndex(at as u32), open);
        }
        // What finds rows is not needed any more where there are many of them.
        self.places = Map::default();
        let found = std::mem::take(&mut self.rows);
        let row = |((step, (machine, cpu, who, status, name)), Sums(time, events)): ((i64, Key), Sums)| {
            let mut row = self.asked.step_cells(range, step, machine);
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
        let (time, events) = found.iter().fold((0, 0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1));
        let rows = self.asked.by_last_step(range, found).into_iter().map(row);
        let mut all = vec![(Column::new("events", Unit::Count), Cell::from(events))];
        if self.by != By::Event {
            all.insert(0, (Column::new("cpu_ns", Unit::Duration), Cell::Integer(time)));
        }
        self.asked.table("stats", range, self.columns(), rows, all, Order::Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::super::played::{played, rows};
    use super::*;

    #[test]
    fn steps_have_rows_of_their_own() {
        let stream = "100 0 switch prev=0 next=5
            150 0 irq_entry nr=1
            250 0 irq_exit nr=1
            300 0 -";
        let asked = Asked { step: Some(100), ..Asked::default() };
        let table = played(&KNOWN, &asked, stream);
        let found = rows(&table, &["from", "to", "cpu", "tid", "mode", "cpu_ns"]);
        let expected = ["100 200 0 5 unknown 50", "100 200 0 5 irq 50", "200 300 0 5 unknown 50", "200 300 0 5 irq 50"];
        assert_eq!(found.len(), expected.len());
        assert!(expected.iter().all(|row| found.contains(&row.to_string())), "{found:?}");
        let whole = rows(&played(&KNOWN, &Asked::default(), stream), &["cpu", "tid", "mode", "cpu_ns"]);
        assert_eq!(whole, ["0 5 irq 100", "0 5 unknown 100"]);
    }
}
