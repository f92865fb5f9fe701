//! `contention --by taker`: who had the CPUs for which threads waited.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, CpuPiece, Happening, Machines, Ns, Observer, Thread, ThreadIndex, ThreadPiece, ThreadState, thread_title,
};

use crate::kernel::analyses::occupancy::{Occupancy, Occupant};
use crate::kernel::analysis::{Analysis, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{MatrixForm, Order, Table, Unit};
use crate::kernel::value::Value;

/// The threads that had the CPUs for which others waited.
pub(super) struct Takers {
    query: AnalysisQuery,
    role: PeriodRole,
    tracker: Rc<RefCell<CpuWaits>>,
}

/// CPUs over time, and threads that wait for them. Periods share it: what CPUs ran before and after them counts, too.
#[derive(Default)]
struct CpuWaits {
    occupancy: Occupancy,
    /// When threads could run and did not.
    waits: Vec<(ThreadIndex, Ns, Ns)>,
}

impl Takers {
    pub(super) fn new(query: &AnalysisQuery) -> Takers {
        Takers { query: query.clone(), role: PeriodRole::Alone, tracker: Rc::default() }
    }
}

impl Observer for Takers {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        if !self.role.is_tracking() {
            return;
        }
        let times = (self.query.begin, self.query.end);
        self.tracker.borrow_mut().occupancy.on_cpu_piece(machines, piece, times);
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if !self.role.is_tracking() {
            return;
        }
        let CpuWaits { occupancy, waits } = &mut *self.tracker.borrow_mut();
        occupancy.on_thread_piece(machines, piece);
        if piece.state == ThreadState::WaitCpu
            && let Some((from, to)) = self.query.clip(piece.from, piece.to)
            && self.query.wants_thread(machines, Some(piece.thread))
        {
            waits.push((piece.thread, from, to));
        }
    }

    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.tracker.borrow_mut().occupancy.on_applied(machines, machine, happening, at);
    }
}

/// Times for which one thread had the CPU of another one.
#[derive(Clone, Copy, Default)]
struct CpuTakeover {
    waits: u64,
    total: Ns,
    longest: Ns,
}

/// A pair of threads: the one that could run, and the one that ran in its place.
struct TakerRow<'r> {
    thread: &'r Thread,
    occupant: Occupant,
    by: Option<&'r Thread>,
    taken: CpuTakeover,
}

impl<'r> TakerRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("by", Unit::Name, "thread that had the CPU; 0 is the idle one", |row| match row.occupant {
            Occupant::Idle => Value::Integer(0),
            _ => Value::integer(row.by.map(|by| by.tid)),
        }),
        own_column("by_comm", Unit::Name, "its name; interrupts; unknown", |row| match row.occupant {
            Occupant::Idle => Value::Word("idle"),
            Occupant::Interrupt(_) => Value::Word("interrupts"),
            Occupant::Unknown => Value::Word("unknown"),
            Occupant::Thread(_) => Value::text(row.by.and_then(|by| by.comm.as_deref())),
        }),
        own_column("waits", Unit::Count, "waits in which it had the CPU", |row| row.taken.waits.into()),
        own_column("total_ns", Unit::Duration, "time for which it had the CPU in these", |row| row.taken.total.into()),
        own_column("longest_ns", Unit::Duration, "most of that in one wait", |row| row.taken.longest.into()),
    ];
}

/// Threads that waited down the side, threads that ran across.
const MATRIX: MatrixForm = MatrixForm {
    lines: &["trace", "tid", "comm"],
    across: &["trace", "by", "by_comm"],
    title: taker_title,
    amount: "total_ns",
    noun: "threads",
    legend: "time in us for which a thread waited for a CPU (rows) that another one had (columns)",
};

/// A thread that had CPUs, or what did instead: its trace if there are several, its tid and its name.
fn taker_title(names: &[Value<'_>]) -> String {
    let text = |value: &Value<'_>| match value {
        Value::Text(text) => Some((*text).to_string()),
        Value::Word(word) => Some((*word).to_string()),
        _ => None,
    };
    let [traces @ .., tid, name] = names else { return String::new() };
    let name = text(name);
    let title = match tid {
        Value::Integer(tid) if *tid != 0 => i64::try_from(*tid).ok().map(|tid| thread_title(name.as_deref(), tid)),
        _ => name,
    };
    let title = title.unwrap_or_else(|| "unknown".to_string());
    match traces.first().and_then(text) {
        Some(trace) => format!("{trace} {title}"),
        None => title,
    }
}

impl Analysis for Takers {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CpuPiece, ThreadPiece};
        match self.role {
            PeriodRole::View => (&[], ReportTimes::Range),
            _ => (&[CpuPiece, ThreadPiece, Applied], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        Some(Box::new(Takers { query: period.clone(), role: PeriodRole::View, tracker: self.tracker.clone() }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Takers { query, tracker, .. } = *self;
        let CpuWaits { occupancy, waits } = &*tracker.borrow();
        let mut pairs: BTreeMap<(ThreadIndex, Occupant), CpuTakeover> = BTreeMap::new();
        for (thread, from, to) in waits {
            let (thread, Some((from, to))) = (*thread, query.clip(*from, *to)) else { continue };
            let mut of_wait: BTreeMap<Occupant, Ns> = BTreeMap::new();
            for (cpu, from, to) in occupancy.queued(machines, thread, (from, to)) {
                let occupants = cpu.map(|cpu| occupancy.occupants(machines, cpu, (from, to)));
                for (occupant, time) in occupants.unwrap_or_else(|| vec![(Occupant::Unknown, to - from)]) {
                    let occupant = match occupant {
                        Occupant::Interrupt(_) => Occupant::Interrupt(None),
                        occupant => occupant,
                    };
                    *of_wait.entry(occupant).or_default() += time;
                }
            }
            for (occupant, time) in of_wait {
                let taken = pairs.entry((thread, occupant)).or_default();
                taken.waits += 1;
                taken.total += time;
                taken.longest = taken.longest.max(time);
            }
        }
        let order = Order::Largest("total_ns");
        let columns = query.columns(columns_of(TakerRow::COLUMNS));
        let mut table =
            Table { analysis: "contention", range, columns, order, matrix: Some(MATRIX), ..Table::default() };
        for ((thread, occupant), taken) in pairs {
            let by = match occupant {
                Occupant::Thread(by) => Some(machines.thread(by)),
                _ => None,
            };
            let thread = machines.thread(thread);
            let row = TakerRow { thread, occupant, by, taken };
            query.emit_row(thread.machine, values_of(TakerRow::COLUMNS, row), &mut table.rows);
        }
        table
    }
}
