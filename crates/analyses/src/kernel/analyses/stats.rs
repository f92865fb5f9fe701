//! `stats`: time and events of each CPU, thread and mode (`docs/kernel.md`, section 3.11).

use std::rc::Rc;

use tracemill_engine::event::Event;
use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, CpuPiece, CpuStatus, Current, Machines, Ns, Observer};

use crate::kernel::aggregate::aggregate_map::{AggregateMap, PackedAggregates, SumKey};
use crate::kernel::aggregate::groups::Names;
use crate::kernel::aggregate::keys::{NO_KEY, known_key};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, RowNouns, SUMS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, cells_of, column, columns_of, own_column, values_of};
use crate::kernel::rows::store::{Rows, Source};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "stats",
    about: "time and number of events for each CPU, thread and mode",
    forms: &[AnalysisForm::plain(By::NAMES, SUMS, RowNouns::ROWS)],
    needs: &[],
    needs_for: &[],
    wants: &[(Concept::Switch, "threads"), (Concept::SysEntry, "the modes user and syscall")],
    over_periods: None,
    example: "stats --by event --sort events --limit 10",
    make: |query| {
        let by = By::from_query(query);
        // A process and a name may become known later.
        let is_fixed = matches!(by, By::Thread | By::Trace) && query.pids.is_none() && query.comms.is_none();
        Box::new(Stats { query: query.clone(), by, is_fixed, ..Stats::default() })
    },
};

/// Step, machine, thread or process, CPU, event.
type Key = SumKey<5>;

/// The modes in the order of their names: rows of a thread need no sorting then.
const MODES: [CpuStatus; CpuStatus::ALL.len()] = [
    CpuStatus::Idle,
    CpuStatus::Irq,
    CpuStatus::Kernel,
    CpuStatus::Softirq,
    CpuStatus::Suspended,
    CpuStatus::Syscall,
    CpuStatus::Trap,
    CpuStatus::Unknown,
    CpuStatus::User,
];

/// Time and events.
#[derive(Clone, Copy, PartialEq, Default)]
struct Sums {
    time: Ns,
    events: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.time += other.time;
        self.events += other.events;
    }
}

/// Sums by the number of the mode.
#[derive(Clone, Default)]
struct Modes([Sums; CpuStatus::ALL.len()]);

impl Modes {
    fn used(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|at| self.0[*at] != Sums::default())
    }
}

impl Sum for Modes {
    fn add(&mut self, other: Modes) {
        self.0.iter_mut().zip(other.0).for_each(|(sums, more)| sums.add(more));
    }
}

impl Aggregate for Modes {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        let mut used: u64 = self.used().map(|mode| 1 << mode).sum();
        packing.number(&mut used);
        for mode in (0..self.0.len()).filter(|mode| used >> mode & 1 != 0) {
            packing.number(&mut self.0[mode].time);
            packing.number(&mut self.0[mode].events);
        }
    }
}

#[derive(Default)]
struct Stats {
    query: AnalysisQuery,
    sums: AggregateMap<5, Modes>,
    by: By,
    /// Is the row of a thread the same at all times?
    is_fixed: bool,
    /// For each CPU its last state, and the events since that are not in its row yet.
    open: Vec<Open>,
    /// The aggregates that were looked up last, for each number that [`Stats::recent_of`] gives; in which generation they
    /// were found.
    recent: Vec<Recent>,
    recent_since: u32,
    names: Names,
    name: Vec<u8>,
}

tracemill_semantics::named! {
    /// Subjects of rows.
    #[derive(Default)]
    By {
        /// A CPU and a thread.
        #[default]
        Thread = "thread",
        /// A CPU and a process.
        Process = "process",
        /// A CPU, a thread and a class of events.
        Event = "event",
        /// All of a trace.
        Trace = "trace",
    }
}

impl By {
    fn from_query(query: &AnalysisQuery) -> By {
        query.key(By::from_name).unwrap_or_default()
    }
}

/// The aggregate of a CPU and its thread in a step.
#[derive(Clone, Copy)]
struct Recent {
    cpu: CpuIndex,
    thread: Current,
    step: i64,
    place: u32,
}

/// Events of a CPU that are counted together: they go into the row of the time in which they were.
#[derive(Clone, Copy)]
struct Open {
    thread: Current,
    status: CpuStatus,
    step: i64,
    events: u64,
}

/// Threads and CPUs whose aggregates are remembered: more than take turns in any short time.
const RECENT: usize = 512;

impl Stats {
    /// The sums of a CPU that runs a thread.
    #[inline]
    fn sums_of(
        &mut self,
        machines: &Machines,
        step: i64,
        cpu: CpuIndex,
        thread: Current,
        status: CpuStatus,
    ) -> Option<&mut Sums> {
        let place = self.place_of(machines, step, cpu, thread)?;
        Some(&mut self.sums.get_mut(place).0[status as usize])
    }

    /// The place of the aggregate of a CPU that runs a thread, until aggregates are closed.
    #[inline]
    fn place_of(&mut self, machines: &Machines, step: i64, cpu: CpuIndex, thread: Current) -> Option<u32> {
        match self.recent.get(Self::recent_of(cpu, thread)) {
            Some(recent) if (recent.cpu, recent.thread, recent.step) == (cpu, thread, step) => Some(recent.place),
            _ => self.find_place(machines, step, cpu, thread),
        }
    }

    fn find_place(&mut self, machines: &Machines, step: i64, cpu: CpuIndex, thread: Current) -> Option<u32> {
        let key = self.key(machines, step, cpu, thread)?;
        let place = self.sums.place(key);
        if self.is_fixed {
            if std::mem::replace(&mut self.recent_since, self.sums.generation()) != self.sums.generation() {
                self.recent.clear();
            }
            // No step has this number.
            let none = Recent { cpu, thread, step: i64::MIN, place };
            self.recent.resize(RECENT, none);
            self.recent[Self::recent_of(cpu, thread)] = Recent { step, ..none };
        }
        Some(place)
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
    fn enter_state(&mut self, machines: &Machines, cpu: CpuIndex, next: Open) {
        let at = cpu.0 as usize;
        self.open.resize(self.open.len().max(at + 1), Open { events: 0, ..next });
        let Open { thread, status, step, events } = std::mem::replace(&mut self.open[at], next);
        if events > 0
            && let Some(sums) = self.sums_of(machines, step, cpu, thread, status)
        {
            sums.events += events;
        }
    }

    fn key(&self, machines: &Machines, step: i64, cpu: CpuIndex, thread: Current) -> Option<Key> {
        if !self.query.wants_cpu(machines, Some(cpu)) || !self.query.wants_thread(machines, thread.thread()) {
            return None;
        }
        let of = machines.cpu(cpu);
        let (machine, number) = (i64::from(of.machine), of.number as i64);
        let who = |known: fn(&tracemill_semantics::states::Thread) -> i64| match thread {
            Current::Unknown => NO_KEY,
            Current::Idle => 0,
            Current::Thread(thread) => known(machines.thread(thread)),
        };
        Some(match self.by {
            By::Process => [step, machine, who(|thread| thread.pid().unwrap_or(NO_KEY)), number, 0],
            By::Trace => [step, machine, 0, 0, 0],
            By::Thread | By::Event => [step, machine, who(|thread| thread.tid), number, 0],
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
        if self.query.step.is_some() {
            // Steps are rare; what the closure borrows is put back.
            let query = self.query.clone();
            query.each_step(machines.begin(), from, to, |step, length| {
                if let Some(sums) = self.sums_of(machines, step, cpu, thread, status) {
                    sums.time += length;
                }
            });
        } else if let Some((from, to)) = self.query.clip(from, to)
            && let Some(place) = self.place_of(machines, 0, cpu, thread)
        {
            let sums = &mut self.sums.get_mut(place).0[status as usize];
            sums.time += to - from;
            // One look for a row is enough for its time and its events.
            if let Some(open) = self.open.get_mut(cpu.0 as usize)
                && (open.thread, open.status) == (thread, status)
            {
                sums.events += std::mem::take(&mut open.events);
            }
        }
    }
}

impl Analysis for Stats {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (
            if self.by == By::Event { &[ReportKind::Event] } else { &[ReportKind::CpuPiece, ReportKind::Event] },
            ReportTimes::Range,
        )
    }

    fn on_event<'e>(
        &mut self,
        machines: &Machines,
        _: u32,
        cpu: Option<CpuIndex>,
        event: &dyn Fn() -> Event<'e>,
        at: Ns,
    ) {
        let Some(cpu) = cpu.filter(|_| self.query.has_instant(at)) else { return };
        let of = machines.cpu(cpu);
        let (current, status) = (of.current(), of.status());
        let step = self.query.step_of(machines.begin(), at);
        if self.is_fixed {
            match self.open.get_mut(cpu.0 as usize) {
                Some(open) if (open.thread, open.status, open.step) == (current, status, step) => open.events += 1,
                _ => self.enter_state(machines, cpu, Open { thread: current, status, step, events: 1 }),
            }
            return;
        }
        let event = event();
        let sums = if self.by == By::Event {
            let Some(mut key) = self.key(machines, step, cpu, current) else { return };
            let name = event.name(&mut self.name).unwrap_or_default();
            key[4] = self.names.number(&String::from_utf8_lossy(name));
            &mut self.sums.entry(key).0[status as usize]
        } else {
            let Some(sums) = self.sums_of(machines, step, cpu, current, status) else { return };
            sums
        };
        sums.events += 1;
    }

    fn finish(mut self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        for at in 0..self.open.len() {
            let open = self.open[at];
            self.enter_state(machines, CpuIndex(at as u32), open);
        }
        let columns = self.query.step_columns(columns_of(ModeRow::columns_for(self.by)));
        let Stats { query, by, sums, names, .. } = *self;
        let aggregates = sums.finish(query.last_step(range));
        let (mut sum, mut wanted, mut row) = (Sums::default(), Vec::new(), Vec::new());
        let rows = ModeRows { query: query.clone(), range, aggregates, by, names };
        for (at, (_, modes)) in rows.aggregates.iter().enumerate() {
            modes.used().for_each(|mode| sum.add(modes.0[mode]));
            for (mode, _) in MODES.iter().enumerate().filter(|(_, mode)| modes.0[**mode as usize] != Sums::default()) {
                let number = (at * MODES.len() + mode) as u32;
                let is_kept = query.test.is_none() || {
                    row.clear();
                    rows.append_row(number, &mut row);
                    query.keeps_values(&row)
                };
                wanted.extend(is_kept.then_some(number));
            }
        }
        let columns_of_all = if by == By::Event { &[ModeRow::EVENTS][..] } else { &[ModeRow::CPU_NS, ModeRow::EVENTS] };
        let all = cells_of(columns_of_all, &ModeRow::new(CpuStatus::Unknown, sum));
        let rows = Rows::from_source(Rc::new(rows), wanted);
        Table { analysis: "stats", range, columns, rows, all, order: Order::Keys, ..Table::default() }
    }
}

/// Rows of modes, made of the aggregates of their threads: the number of a row is that of the aggregate times the number of
/// modes, and the place of its own.
struct ModeRows {
    query: AnalysisQuery,
    range: Option<(Ns, Ns)>,
    aggregates: PackedAggregates<5, Modes>,
    by: By,
    names: Names,
}

/// A row of a mode.
struct ModeRow<'r> {
    cpu: u64,
    /// The thread or the process.
    number: Option<i64>,
    mode: CpuStatus,
    /// The class of the events.
    name: Option<&'r str>,
    sums: Sums,
}

impl<'r> ModeRow<'r> {
    const CPU: ColumnOf<'r, Self> = column("cpu", Unit::Name, |row| row.cpu.into());
    const TID: ColumnOf<'r, Self> = column("tid", Unit::Name, |row| Value::integer(row.number));
    const PID: ColumnOf<'r, Self> = column("pid", Unit::Name, |row| Value::integer(row.number));
    const MODE: ColumnOf<'r, Self> = own_column(
        "mode",
        Unit::Name,
        "idle, user, syscall, trap, kernel, irq, softirq, suspended or unknown",
        |row| Value::Word(row.mode.name()),
    );
    const NAME: ColumnOf<'r, Self> = own_column("name", Unit::Name, "name of the event", |row| Value::text(row.name));
    const CPU_NS: ColumnOf<'r, Self> = own_column("cpu_ns", Unit::Duration, TIME, |row| row.sums.time.into());
    /// Time belongs to no event.
    const NO_CPU_NS: ColumnOf<'r, Self> = own_column("cpu_ns", Unit::Duration, TIME, |_| Value::Null);
    const EVENTS: ColumnOf<'r, Self> =
        own_column("events", Unit::Count, "events in this mode with this thread", |row| row.sums.events.into());

    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::CPU, Self::TID, Self::MODE, Self::CPU_NS, Self::EVENTS];
    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[Self::CPU, Self::PID, Self::MODE, Self::CPU_NS, Self::EVENTS];
    const BY_EVENT: &'r [ColumnOf<'r, Self>] =
        &[Self::CPU, Self::TID, Self::MODE, Self::NAME, Self::NO_CPU_NS, Self::EVENTS];
    const BY_TRACE: &'r [ColumnOf<'r, Self>] = &[Self::MODE, Self::CPU_NS, Self::EVENTS];

    fn columns_for(by: By) -> &'r [ColumnOf<'r, Self>] {
        match by {
            By::Thread => Self::BY_THREAD,
            By::Process => Self::BY_PROCESS,
            By::Event => Self::BY_EVENT,
            By::Trace => Self::BY_TRACE,
        }
    }

    fn new(mode: CpuStatus, sums: Sums) -> Self {
        ModeRow { cpu: 0, number: None, mode, name: None, sums }
    }
}

/// Meaning of a column.
const TIME: &str = "time of the CPU in this mode with this thread";

impl Source for ModeRows {
    fn append_row<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        let (at, mode) = (row as usize / MODES.len(), MODES[row as usize % MODES.len()]);
        let [step, machine, who, cpu, name] = self.aggregates.key(at);
        self.query.put_step(self.range, step, machine as u32, values);
        let row = ModeRow {
            // Numbers of CPUs have no sign.
            cpu: cpu as u64,
            number: known_key(who),
            name: self.names.name(name),
            ..ModeRow::new(mode, self.aggregates.get(at).0[mode as usize])
        };
        values.extend(values_of(ModeRow::columns_for(self.by), row));
    }

    fn rank(&self, row: u32) -> i64 {
        let [step, _, _, cpu, _] = self.aggregates.key(row as usize / MODES.len());
        let cpu = i64::try_from(cpu as u64).unwrap_or(i64::MAX);
        self.query.rank(step, if self.by == By::Trace { 0 } else { cpu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};

    #[test]
    fn modes_are_in_the_order_of_their_names() {
        assert!(MODES.is_sorted_by(|a, b| a.name() < b.name()));
        assert!(CpuStatus::ALL.iter().all(|mode| MODES.contains(mode)));
    }

    #[test]
    fn steps_have_rows_of_their_own() {
        let stream = "100 0 switch prev=0 next=5
            150 0 irq_entry nr=1
            250 0 irq_exit nr=1
            300 0 -";
        let query = AnalysisQuery { step: Some(100), ..AnalysisQuery::default() };
        let table = played(&DESCRIPTOR, &query, stream);
        let found = rows(&table, &["from", "to", "cpu", "tid", "mode", "cpu_ns"]);
        let expected = ["100 200 0 5 unknown 50", "100 200 0 5 irq 50", "200 300 0 5 unknown 50", "200 300 0 5 irq 50"];
        assert_eq!(found.len(), expected.len());
        assert!(expected.iter().all(|row| found.contains(&row.to_string())), "{found:?}");
        let whole = rows(&played(&DESCRIPTOR, &AnalysisQuery::default(), stream), &["cpu", "tid", "mode", "cpu_ns"]);
        assert_eq!(whole, ["0 5 irq 100", "0 5 unknown 100"]);
    }
}
