//! `timehist`: each time a thread was switched out, with how long it had waited, been runnable and run before (`docs/kernel.md`,
//! section 3.15).

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Map, Ns, Observer, RunEnd, Thread, ThreadIndex, ThreadPiece, ThreadState, Woken,
};

use crate::kernel::aggregate::keys::duration;
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, CPU_ROWS, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::rows::store::Rows;
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "timehist",
    about: "each run of a thread: how long it waited, was runnable and ran until it was switched out",
    forms: &[AnalysisForm::plain(&[], CPU_ROWS, RowNouns::for_groups(&["runs"]))],
    needs: &[&[Concept::Switch]],
    needs_for: &[],
    wants: &[(Concept::Wake, "waits and delays")],
    over_periods: None,
    example: "timehist --comm 'oven-?' --sort delay_us --limit 5",
    make: |query| {
        Box::new(Timehist { query: query.clone(), role: PeriodRole::Alone, runs: Rc::default(), rows: Rows::default() })
    },
};

struct Timehist {
    query: AnalysisQuery,
    role: PeriodRole,
    runs: Rc<RefCell<Runs>>,
    rows: Rows,
}

/// Threads since they were last switched out.
#[derive(Default)]
struct Runs {
    threads: Map<ThreadIndex, Story>,
    /// A thread left its CPU in the present event. The time for which it ran is reported after that.
    leaving: Option<(Departure, RunEnd)>,
    /// A thread began to run in the present event, maybe the same one.
    beginning: Option<(ThreadIndex, Ns)>,
    /// The run that the present event ended.
    ended: Option<ThreadRun>,
}

/// A thread since it was last switched out.
#[derive(Default)]
struct Story {
    /// The last time without a gap for which its state is known: its beginning and its end.
    known: Option<(Ns, Ns)>,
    /// When it was last switched out, and whether it could have run on.
    left: Option<(Ns, bool)>,
    woken: Option<Ns>,
    ran: Option<Ns>,
}

impl Story {
    /// A thread that is woken or begins to run has left its CPU before. When that was not seen, what was before counts for
    /// the lost run.
    fn forget_open_run(&mut self) {
        if self.ran.take().is_some() {
            (self.left, self.woken) = (None, None);
        }
    }

    /// Is the state of the thread known for all of a time? Of an instant there is nothing to know.
    fn covers(&self, from: Ns, to: Ns) -> bool {
        from == to || self.known.is_some_and(|(first, last)| first <= from && to <= last)
    }

    /// The run that ends at a time.
    fn run(&self, machines: &Machines, departure: Departure, how: RunEnd) -> ThreadRun {
        let machine = machines.thread(departure.thread).machine;
        let length = |from: Ns, to: Ns| duration(machines, machine, from, to);
        let at = departure.at;
        let mut run = ThreadRun { departure, how, wait: None, delay: None, run: None };
        let Some(ran) = self.ran else { return run };
        run.run = self.covers(ran, at).then(|| length(ran, at));
        // A preempted thread can run at once: it waits for nothing but a CPU.
        let runnable = match self.left {
            Some((left, true)) => Some(left),
            _ => self.woken,
        };
        let Some(runnable) = runnable.filter(|runnable| self.covers(*runnable, ran)) else { return run };
        run.delay = Some(length(runnable, ran));
        let left = self.left.map(|(left, _)| left);
        run.wait = left.filter(|left| self.covers(*left, ran)).map(|left| length(left, runnable));
        run
    }
}

/// A thread leaves its CPU.
#[derive(Clone, Copy)]
struct Departure {
    thread: ThreadIndex,
    /// A thread that has ended keeps nothing of where it ran.
    cpu: Option<CpuIndex>,
    at: Ns,
}

/// A run of a thread, and the wait before it. What no event shows is `None`.
#[derive(Clone, Copy)]
struct ThreadRun {
    departure: Departure,
    how: RunEnd,
    wait: Option<u64>,
    delay: Option<u64>,
    run: Option<u64>,
}

impl Runs {
    /// Ends the run of the thread that left its CPU in the present event, then begins the one of the thread that came.
    fn apply_switch(&mut self, machines: &Machines) {
        self.ended = self.leaving.take().map(|(departure, how)| {
            let Departure { thread, at, .. } = departure;
            let story = self.threads.entry(thread).or_default();
            let run = story.run(machines, departure, how);
            match how {
                RunEnd::Ended => drop(self.threads.remove(&thread)),
                _ => {
                    story.left = (how != RunEnd::Unknown).then_some((at, how == RunEnd::Preempted));
                    (story.woken, story.ran) = (None, None);
                }
            }
            run
        });
        if let Some((thread, at)) = self.beginning.take() {
            let story = self.threads.entry(thread).or_default();
            story.forget_open_run();
            story.ran = Some(at);
        }
    }
}

/// A run, as rows show it.
struct RunRow<'r> {
    run: ThreadRun,
    thread: &'r Thread,
    cpu: Option<u64>,
}

/// Meanings of columns.
const OUT: &str = "when the thread was switched out";
const WAIT: &str = "time from its last switch out until it could run: it was woken, or had only been preempted";
const DELAY: &str = "time from when it could run until it ran";
const RUNNING: &str = "time from when it ran until it was switched out";
const LEFT: &str = "how it left the CPU: preempted, blocked, ended or unknown";

impl<'r> RunRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        own_column("out_ns", Unit::Time, OUT, |row| row.run.departure.at.into()),
        column("cpu", Unit::Name, |row| Value::integer(row.cpu)),
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        column("pid", Unit::Name, |row| Value::integer(row.thread.pid())),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("wait_ns", Unit::Duration, WAIT, |row| Value::integer(row.run.wait)),
        own_column("delay_ns", Unit::Duration, DELAY, |row| Value::integer(row.run.delay)),
        own_column("running_ns", Unit::Duration, RUNNING, |row| Value::integer(row.run.run)),
        own_column("left", Unit::Name, LEFT, |row| {
            Value::Word(match row.run.how {
                RunEnd::Preempted => "preempted",
                RunEnd::Blocked => "blocked",
                RunEnd::Ended => "ended",
                RunEnd::Unknown => "unknown",
            })
        }),
    ];
}

impl Observer for Timehist {
    fn thread_piece(&mut self, _: &Machines, piece: &ThreadPiece) {
        // Pieces are reported to analyses of periods too, which ask the one that tracks all of them.
        if !self.role.is_tracking() || matches!(piece.state, ThreadState::Zombie | ThreadState::Dead) {
            return;
        }
        let runs = &mut *self.runs.borrow_mut();
        let story = runs.threads.entry(piece.thread).or_default();
        story.known = match story.known {
            Some((from, to)) if to == piece.from => Some((from, piece.to)),
            _ => Some((piece.from, piece.to)),
        };
    }

    fn woken(&mut self, _: &Machines, woken: &Woken) {
        let runs = &mut *self.runs.borrow_mut();
        let story = runs.threads.entry(woken.thread).or_default();
        story.forget_open_run();
        story.woken = Some(woken.at);
    }

    fn run_began(&mut self, _: &Machines, thread: ThreadIndex, _: bool, at: Ns) {
        self.runs.borrow_mut().beginning = Some((thread, at));
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        let cpu = machines.thread(thread).last_cpu();
        self.runs.borrow_mut().leaving = Some((Departure { thread, cpu, at }, how));
    }

    fn applied(&mut self, machines: &Machines, _: u32, _: Option<CpuIndex>, _: &Happening<'_>, _: Ns) {
        if self.role.is_tracking() {
            self.runs.borrow_mut().apply_switch(machines);
        }
        let Some(run) = self.runs.borrow().ended.filter(|_| self.role.has_table()) else { return };
        let (query, Departure { thread, cpu, at }) = (&self.query, run.departure);
        if !query.has_instant(at) || !query.wants_cpu(machines, cpu) || !query.wants_thread(machines, Some(thread)) {
            return;
        }
        let thread = machines.thread(thread);
        let row = RunRow { run, thread, cpu: cpu.map(|cpu| machines.cpu(cpu).number) };
        query.emit_row(thread.machine, values_of(RunRow::COLUMNS, row), &mut self.rows);
    }
}

impl Analysis for Timehist {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, RunBegan, RunEnded, ThreadPiece, Woken};
        match self.role {
            PeriodRole::View => (&[Applied], ReportTimes::Range),
            _ => (&[ThreadPiece, Woken, RunBegan, RunEnded, Applied], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        let runs = self.runs.clone();
        Some(Box::new(Timehist { query: period.clone(), role: PeriodRole::View, runs, rows: Rows::default() }))
    }

    fn finish(self: Box<Self>, _: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let columns = self.query.columns(columns_of(RunRow::COLUMNS));
        Table { analysis: "timehist", range, columns, rows: self.rows, ..Table::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Numbers;
    use crate::kernel::testing::played::{played, rows};

    const COLUMNS: [&str; 6] = ["out_ns", "tid", "wait_ns", "delay_ns", "running_ns", "left"];

    fn found(query: &AnalysisQuery, stream: &str) -> Vec<String> {
        rows(&played(&DESCRIPTOR, query, stream), &COLUMNS)
    }

    const STREAM: &str = "100 0 switch prev=5 next=6 state=1
        130 0 wake tid=5 cpu=0
        140 0 wake tid=5 cpu=0
        200 0 switch prev=6 next=5 state=0
        250 0 switch prev=5 next=6 state=1
        260 0 irq_entry nr=1
        265 0 irq_exit nr=1
        300 0 switch prev=6 next=0 state=1";

    #[test]
    fn a_row_has_the_wait_the_delay_and_the_run_before_a_switch() {
        let expected = [
            // The time before the first switch is not known.
            "100 5 - - - blocked",
            "200 6 - - 100 preempted",
            "250 5 30 70 50 blocked",
            // A preempted thread is runnable, so that all of the time is a delay.
            "300 6 0 50 50 blocked",
        ];
        assert_eq!(found(&AnalysisQuery::default(), STREAM), expected);
        // Events before a range count.
        let query = AnalysisQuery { begin: Some(210), end: Some(299), ..AnalysisQuery::default() };
        assert_eq!(found(&query, STREAM), expected[2..3]);
        let query = AnalysisQuery { tids: Numbers::parse("6"), ..AnalysisQuery::default() };
        assert_eq!(found(&query, STREAM), [expected[1], expected[3]]);
        let query = AnalysisQuery { cpus: Numbers::parse("1"), ..AnalysisQuery::default() };
        assert!(found(&query, STREAM).is_empty());
    }

    #[test]
    fn what_no_event_shows_is_unknown() {
        // Without the wake, it is not known how long it waited and how long it could run.
        let stream = "100 0 switch prev=5 next=0 state=1
            200 0 switch prev=0 next=5
            250 0 switch prev=5 next=0 state=1";
        assert_eq!(found(&AnalysisQuery::default(), stream), ["100 5 - - - blocked", "250 5 - - 50 blocked"]);
        // Events were lost while it ran, and while it waited.
        let stream = "100 0 switch prev=0 next=5
            150 0 loss
            200 0 switch prev=5 next=0 state=1
            210 0 loss
            220 1 wake tid=5 cpu=0
            230 0 switch prev=0 next=5
            240 0 switch prev=5 next=0 state=64";
        assert_eq!(found(&AnalysisQuery::default(), stream), ["200 5 - - - blocked", "240 5 - 10 10 blocked"]);
        // A new thread was never switched out before.
        let stream = "100 0 fork parent=1 child=5
            110 0 wake tid=5 cpu=0
            130 0 switch prev=0 next=5
            140 0 exit tid=5
            150 0 switch prev=5 next=0 state=64";
        assert_eq!(found(&AnalysisQuery::default(), stream), ["150 5 - 20 20 ended"]);
    }

    #[test]
    fn times_of_length_zero_are_known() {
        let stream = "100 0 switch prev=0 next=5
            100 0 switch prev=5 next=0 state=1
            100 0 wake tid=5 cpu=0
            100 0 switch prev=0 next=5
            120 0 switch prev=5 next=0 state=1
            130 0 wake tid=5 cpu=0
            130 0 switch prev=0 next=5
            140 0 switch prev=5 next=0 state=0";
        let expected = ["100 5 - - 0 blocked", "120 5 0 0 20 blocked", "140 5 10 0 10 preempted"];
        assert_eq!(found(&AnalysisQuery::default(), stream), expected);
    }

    #[test]
    fn suspended_time_is_left_out() {
        let stream = "100 0 switch prev=0 next=5
            110 0 switch prev=5 next=0 state=1
            120 0 suspend action=machine_suspend start=1
            920 0 suspend action=machine_suspend start=0
            930 0 wake tid=5 cpu=0
            940 0 switch prev=0 next=5
            950 0 switch prev=5 next=0 state=1";
        assert_eq!(found(&AnalysisQuery::default(), stream), ["110 5 - - 10 blocked", "950 5 20 10 10 blocked"]);
    }
}
