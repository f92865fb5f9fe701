//! `contention --of holds`: how long threads held locks of the kernel, and how long others waited for these meanwhile.

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Ns, Observer, RunEnd, Thread, ThreadIndex, ThreadPiece,
};

use super::by::{ADDRESS, Grouping, KIND, NAME};
use super::tracker::{EndedHold, LockTracker};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum, ThreadSet};
use crate::kernel::analysis::{Analysis, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

/// Figures of holds beside their durations.
#[derive(Clone, Default)]
struct HoldFigures {
    /// The threads that waited meanwhile.
    waiters: ThreadSet,
    at_once: u64,
    waited: u128,
}

impl Sum for HoldFigures {
    fn add(&mut self, other: Self) {
        self.waiters.add(other.waiters);
        self.at_once = self.at_once.max(other.at_once);
        self.waited += other.waited;
    }
}

impl Aggregate for HoldFigures {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.at_once);
        packing.number(&mut self.waited);
        packing.threads(&mut self.waiters);
    }
}

const WAITERS: &str = "threads that waited for the lock while it was held";
const AT_ONCE: &str = "threads that did so at once";
const WAITED: &str = "time of all of them for which it was held";

impl SpanFigures for HoldFigures {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("waiters", Unit::Count, WAITERS, |of| of.waiters.len().into()),
        own_column("at_once", Unit::Count, AT_ONCE, |of| of.at_once.into()),
        own_column("waited_ns", Unit::Duration, WAITED, |of| Value::Integer(of.waited as i128)),
    ];
}

/// A hold, as lists show it.
struct HoldRow<'r> {
    of: &'r EndedHold,
    thread: &'r Thread,
    span: SpanTimes,
}

impl<'r> HoldRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("kind", Unit::Name, KIND, |row| Value::Word(row.of.hold.kind)),
        own_column("lock", Unit::Address, ADDRESS, |row| Value::Integer(row.of.lock.address)),
        own_column("name", Unit::Name, NAME, |row| Value::text(row.of.name.as_deref())),
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("pid", Unit::Name, |row| Value::integer(row.thread.pid())),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        column("from", Unit::Time, |row| row.span.from.into()),
        column("to", Unit::Time, |row| row.span.to.into()),
        column("duration_ns", Unit::Duration, |row| row.span.duration.into()),
        own_column("waiters", Unit::Count, WAITERS, |row| (row.of.hold.waited.waiters.len() as u64).into()),
        own_column("at_once", Unit::Count, AT_ONCE, |row| row.of.hold.waited.at_once.into()),
        own_column("waited_ns", Unit::Duration, WAITED, |row| Value::Integer(row.of.hold.waited.time as i128)),
    ];
}

/// Holds of locks.
pub(super) struct Holds {
    by: Grouping,
    spans: Spans<HoldFigures>,
    role: PeriodRole,
    tracker: Rc<RefCell<LockTracker>>,
}

impl Holds {
    pub(super) fn new(query: &AnalysisQuery) -> Holds {
        Holds { by: Grouping::new(query), spans: Spans::new(query), role: PeriodRole::Alone, tracker: Rc::default() }
    }

    fn track(&self, track: impl FnOnce(&mut LockTracker)) {
        if self.role.is_tracking() {
            track(&mut self.tracker.borrow_mut());
        }
    }

    fn add(&mut self, machines: &Machines, of: &EndedHold) {
        let EndedHold { thread, cpu, lock, name, hold, to } = of;
        let query = &self.spans.query;
        if !query.wants_cpu(machines, *cpu) || !query.wants_thread(machines, Some(*thread)) {
            return;
        }
        let own = machines.thread(*thread);
        let span = SpanTimes::new(machines, own.machine, (hold.since, *to));
        let key = self.by.key(machines, *thread, *lock, name.as_deref(), None);
        let waiters = hold.waited.waiters.iter().map(|waiter| machines.thread(*waiter));
        let figures =
            HoldFigures { waiters: waiters.collect(), at_once: hold.waited.at_once, waited: hold.waited.time };
        self.spans.add(machines, &span, key, figures, || values_of(HoldRow::LOG, HoldRow { of, thread: own, span }));
    }
}

impl Observer for Holds {
    fn thread_piece(&mut self, _: &Machines, piece: &ThreadPiece) {
        self.track(|tracker| tracker.on_thread_piece(piece));
    }

    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        self.track(|tracker| tracker.on_call(machines, thread, name, happening, at));
    }

    fn run_ended(&mut self, _: &Machines, thread: ThreadIndex, how: RunEnd, _: Ns) {
        self.track(|tracker| tracker.on_run_end(thread, how));
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.track(|tracker| tracker.on_applied(machines, machine, cpu, happening, at));
        if self.role.has_table() && self.tracker.borrow().released.is_some() {
            let tracker = self.tracker.clone();
            tracker.borrow().released.iter().for_each(|hold| self.add(machines, hold));
        }
    }
}

impl Analysis for Holds {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CallBegan, RunEnded, ThreadPiece};
        match self.role {
            PeriodRole::View => (&[Applied], ReportTimes::Range),
            _ => (&[ThreadPiece, CallBegan, RunEnded, Applied], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        Some(Box::new(Holds { role: PeriodRole::View, tracker: self.tracker.clone(), ..Holds::new(period) }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Holds { by, spans, tracker, .. } = *self;
        let query = spans.query.clone();
        let unfinished = tracker.borrow().open_holds(|thread| query.wants_thread(machines, Some(thread)));
        let mut table = spans.finish("contention", range, columns_of(HoldRow::LOG), by.labels(machines));
        table.notes.push(("unfinished", unfinished));
        table
    }
}
