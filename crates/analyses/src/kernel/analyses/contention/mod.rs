//! `contention`: waits for locks of programs and of the kernel, who held and released them, and who took whose CPU
//! (`docs/kernel.md`, section 3.14).

mod by;
mod held;
mod holds;
mod takers;
#[cfg(test)]
mod tests;
mod tracker;

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, CpuPiece, Happening, Machines, Ns, Observer, RunEnd, SystemCall, Thread, ThreadIndex, ThreadPiece,
    ThreadState, Woken,
};

use self::by::{ADDRESS, By, Grouping, HOLD_KEYS, KIND, NAME};
use self::holds::Holds;
use self::takers::Takers;
use self::tracker::{EndedWait, LockTracker, OpenWait};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum, ThreadSet};
use crate::kernel::analyses::occupancy::{Occupancy, Occupant, grown};
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, AnalysisOption, FormWord, RowNouns, SPANS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

/// The key of the matrix of who took whose CPU.
const TAKER: &str = "taker";

/// Options of the matrix.
const TAKERS: &[AnalysisOption] = {
    use AnalysisOption::{Begin, By, Comm, Per, Pid, Tid};
    &[By, Tid, Pid, Comm, Begin, Per]
};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "contention",
    about: "waits for locks of programs and the kernel, who held them, and who took whose CPU",
    forms: &[
        AnalysisForm::plain(
            By::NAMES,
            SPANS,
            RowNouns::for_groups(&["locks", "names", "threads", "processes", "calls", "releasers"])
                .with_spans("waits")
                .with_buckets("waits"),
        ),
        AnalysisForm {
            option: "--of holds",
            word: Some(FormWord::Holds),
            keys: HOLD_KEYS,
            takes: SPANS,
            nouns: RowNouns::for_groups(&["locks", "names", "threads", "processes", "calls"])
                .with_spans("holds")
                .with_buckets("holds"),
        },
        AnalysisForm {
            option: "--by taker",
            word: None,
            keys: &[TAKER],
            takes: TAKERS,
            nouns: RowNouns::for_groups(&["pairs of threads"]),
        },
    ],
    needs: &[&[Concept::SysExit, Concept::ContendEnd, Concept::LockAcquired, Concept::LockRelease, Concept::Switch]],
    needs_for: &[(TAKER, &[Concept::Switch]), ("holds", &[Concept::LockRelease])],
    wants: &[
        (Concept::SysEntry, "waits for locks of programs"),
        (Concept::ContendBegin, "kinds of the kernel's locks and waits that lockdep does not show"),
        (Concept::LockAcquired, "names and holders of the kernel's locks"),
        (Concept::Wake, "who released a lock"),
    ],
    over_periods: None,
    example: "contention --log --min 30ms",
    make: |query| match query.by.as_deref() {
        _ if query.has(FormWord::Holds) => Box::new(Holds::new(query)),
        Some(TAKER) => Box::new(Takers::new(query)),
        _ => Box::new(Contention::new(query)),
    },
};

/// Figures of waits beside their durations.
#[derive(Clone, Default)]
struct Contended {
    /// The threads that waited.
    waiters: ThreadSet,
    at_once: u64,
    to_release: u128,
    inversions: u64,
    inverted: u128,
}

impl Sum for Contended {
    fn add(&mut self, other: Self) {
        self.waiters.add(other.waiters);
        self.at_once = self.at_once.max(other.at_once);
        self.to_release += other.to_release;
        self.inversions += other.inversions;
        self.inverted += other.inverted;
    }
}

impl Aggregate for Contended {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.at_once);
        packing.number(&mut self.to_release);
        packing.number(&mut self.inversions);
        packing.number(&mut self.inverted);
        packing.threads(&mut self.waiters);
    }
}

const AT_ONCE: &str = "threads that waited for the lock at once";
const TO_RELEASE: &str = "time of waits until the lock was released";
const INVERTED: &str =
    "of that, time in which the releaser could run and a thread of lower priority than the waiter's had the CPU";

impl SpanFigures for Contended {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("waiters", Unit::Count, "threads that waited", |of| of.waiters.len().into()),
        own_column("at_once", Unit::Count, AT_ONCE, |of| of.at_once.into()),
        own_column("to_release_ns", Unit::Duration, TO_RELEASE, |of| Value::Integer(of.to_release as i128)),
        own_column("inversions", Unit::Count, "waits with an inversion of priorities", |of| of.inversions.into()),
        own_column("inverted_ns", Unit::Duration, INVERTED, |of| Value::Integer(of.inverted as i128)),
    ];
}

/// A wait, as lists show it.
struct WaitRow<'r> {
    open: &'r OpenWait,
    thread: &'r Thread,
    span: SpanTimes,
    holder: Option<&'r Thread>,
    releaser: Option<&'r Thread>,
    to_release: Option<u64>,
    inverted: u64,
}

/// Meaning of a column.
const RELEASER: &str = "number of the thread that released the lock";

impl<'r> WaitRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("kind", Unit::Name, KIND, |wait| Value::Word(wait.open.kind)),
        own_column("lock", Unit::Address, ADDRESS, |wait| Value::Integer(wait.open.lock.address)),
        own_column("name", Unit::Name, NAME, |wait| Value::text(wait.open.name.as_deref())),
        column("tid", Unit::Name, |wait| wait.thread.tid.into()),
        column("pid", Unit::Name, |wait| Value::integer(wait.thread.pid())),
        column("comm", Unit::Name, |wait| Value::text(wait.thread.comm.as_deref())),
        column("from", Unit::Time, |wait| wait.span.from.into()),
        column("to", Unit::Time, |wait| wait.span.to.into()),
        column("duration_ns", Unit::Duration, |wait| wait.span.duration.into()),
        own_column("at_once", Unit::Count, AT_ONCE, |wait| wait.open.at_once.into()),
        own_column("holder", Unit::Name, "number of the thread that held the lock when the wait began", |wait| {
            Value::integer(wait.holder.map(|of| of.tid))
        }),
        own_column("holder_comm", Unit::Name, "its name", |wait| {
            Value::text(wait.holder.and_then(|of| of.comm.as_deref()))
        }),
        own_column("releaser", Unit::Name, RELEASER, |wait| Value::integer(wait.releaser.map(|of| of.tid))),
        own_column("releaser_comm", Unit::Name, "its name", |wait| {
            Value::text(wait.releaser.and_then(|of| of.comm.as_deref()))
        }),
        own_column("to_release_ns", Unit::Duration, TO_RELEASE, |wait| Value::integer(wait.to_release)),
        own_column("inverted_ns", Unit::Duration, INVERTED, |wait| wait.inverted.into()),
    ];
}

/// Waits for locks.
struct Contention {
    by: Grouping,
    spans: Spans<Contended>,
    role: PeriodRole,
    tracker: Rc<RefCell<WaitTracker>>,
}

/// Waits for locks, and the CPUs of threads over time. Periods share it.
#[derive(Default)]
struct WaitTracker {
    locks: LockTracker,
    occupancy: Occupancy,
    /// By the index of the thread: when it could run and did not.
    runnable: Vec<Vec<(Ns, Ns)>>,
}

impl WaitTracker {
    /// The time in a range in which a thread could run, and one of lower priority than a waiter had its CPU.
    fn inverted(&self, machines: &Machines, waiter: &Thread, releaser: ThreadIndex, (from, to): (Ns, Ns)) -> u64 {
        let (Some(prio), Some(waits)) = (waiter.prio(), self.runnable.get(releaser.0 as usize)) else { return 0 };
        let mut inverted = 0;
        for (begin, end) in waits.iter().rev().take_while(|(_, end)| *end > from) {
            let part = ((*begin).max(from), (*end).min(to));
            if part.0 >= part.1 {
                continue;
            }
            for (cpu, begin, end) in self.occupancy.queued(machines, releaser, part) {
                let Some(cpu) = cpu else { continue };
                for (occupant, time) in self.occupancy.occupants(machines, cpu, (begin, end)) {
                    if let Occupant::Thread(thread) = occupant
                        && machines.thread(thread).prio().is_some_and(|own| own > prio)
                    {
                        inverted += time;
                    }
                }
            }
        }
        u64::try_from(inverted).unwrap_or(u64::MAX)
    }
}

impl Contention {
    fn new(query: &AnalysisQuery) -> Self {
        Contention {
            by: Grouping::new(query),
            spans: Spans::new(query),
            role: PeriodRole::Alone,
            tracker: Rc::default(),
        }
    }

    fn track(&self, track: impl FnOnce(&mut WaitTracker)) {
        if self.role.is_tracking() {
            track(&mut self.tracker.borrow_mut());
        }
    }

    fn add(&mut self, machines: &Machines, tracker: &WaitTracker, wait: &EndedWait) {
        let EndedWait { thread, cpu, open, to } = wait;
        let query = &self.spans.query;
        if !query.wants_cpu(machines, *cpu) || !query.wants_thread(machines, Some(*thread)) {
            return;
        }
        let of = machines.thread(*thread);
        let span = SpanTimes::new(machines, of.machine, (open.from, *to));
        if !self.spans.is_selected(*to, span.duration) {
            return;
        }
        let to_release = open.release.map(|(_, at)| SpanTimes::new(machines, of.machine, (open.from, at)).duration);
        let inverted =
            open.release.map_or(0, |(releaser, at)| tracker.inverted(machines, of, releaser, (open.from, at)));
        let releaser = open.release.map(|(releaser, _)| machines.thread(releaser));
        let figures = Contended {
            waiters: ThreadSet::from_thread(of),
            at_once: open.at_once,
            to_release: to_release.unwrap_or(0).into(),
            inversions: u64::from(inverted > 0),
            inverted: inverted.into(),
        };
        let key = self.by.key(machines, *thread, open.lock, open.name.as_deref(), releaser);
        self.spans.add(machines, &span, key, figures, || {
            let holder = open.holder.map(|holder| machines.thread(holder));
            values_of(WaitRow::LOG, WaitRow { open, thread: of, span, holder, releaser, to_release, inverted })
        });
    }
}

impl Observer for Contention {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        self.track(|tracker| tracker.occupancy.on_cpu_piece(machines, piece, (None, None)));
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        self.track(|tracker| {
            tracker.locks.on_thread_piece(piece);
            tracker.occupancy.on_thread_piece(machines, piece);
            if piece.state == ThreadState::WaitCpu {
                grown(&mut tracker.runnable, piece.thread.0 as usize).push((piece.from, piece.to));
            }
        });
    }

    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        self.track(|tracker| tracker.locks.on_call(machines, thread, name, happening, at));
    }

    fn run_ended(&mut self, _: &Machines, thread: ThreadIndex, how: RunEnd, _: Ns) {
        self.track(|tracker| tracker.locks.on_run_end(thread, how));
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        self.track(|tracker| tracker.locks.on_wake(machines, woken));
    }

    fn call_ended(&mut self, _: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        self.track(|tracker| tracker.locks.on_call_end(call));
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.track(|tracker| {
            tracker.occupancy.on_applied(machines, machine, happening, at);
            tracker.locks.on_applied(machines, machine, cpu, happening, at);
        });
        if self.role.has_table() && !self.tracker.borrow().locks.ended.is_empty() {
            let tracker = self.tracker.clone();
            let tracker = tracker.borrow();
            tracker.locks.ended.iter().for_each(|wait| self.add(machines, &tracker, wait));
        }
    }
}

impl Analysis for Contention {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CallBegan, CallEnded, CpuPiece, RunEnded, ThreadPiece, Woken};
        match self.role {
            PeriodRole::View => (&[Applied], ReportTimes::Range),
            _ => (&[CpuPiece, ThreadPiece, CallBegan, RunEnded, Woken, CallEnded, Applied], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        let tracker = self.tracker.clone();
        Some(Box::new(Contention { role: PeriodRole::View, tracker, ..Contention::new(period) }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Contention { by, spans, tracker, .. } = *self;
        let query = spans.query.clone();
        let unfinished = tracker.borrow().locks.open_waits(|thread| query.wants_thread(machines, Some(thread)));
        let mut table = spans.finish("contention", range, columns_of(WaitRow::LOG), by.labels(machines));
        table.notes.push(("unfinished", unfinished));
        table
    }
}
