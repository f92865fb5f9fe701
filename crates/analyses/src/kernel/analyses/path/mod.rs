//! `path`: the critical path of a thread (`docs/kernel.md`, section 3.12), the bounded backward search of Fournier and
//! Dagenais. It goes on at the sender of a segment that ended a wait, when that is another machine whose trace is read,
//! too.

pub(super) mod search;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Map, Ns, Observer, Thread, ThreadIndex, ThreadPiece, Woken,
};

use self::search::{PathPiece, Pieces};
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, PATH, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, share, values_of};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::Value;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "path",
    about: "the critical path of a thread: why it took so long (--tid T)",
    forms: &[AnalysisForm::plain(&[], PATH, RowNouns::ROWS)],
    needs: &[&[Concept::Switch]],
    needs_for: &[],
    wants: &[(Concept::Wake, "what ended waits")],
    over_periods: None,
    example: "path --tid 641 --begin +271.38ms --end +316.55ms",
    make: |query| Box::new(CriticalPath { query: query.clone(), role: PeriodRole::Alone, known: Rc::default() }),
};

struct CriticalPath {
    query: AnalysisQuery,
    role: PeriodRole,
    known: Rc<RefCell<Pieces>>,
}

/// An analysis of a period records nothing itself: its tracker does.
impl Observer for CriticalPath {
    fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        if self.role.is_tracking() {
            self.known.borrow_mut().forked(machines, parent, child, at);
        }
    }

    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        if self.role.is_tracking() {
            self.known.borrow_mut().on_created(machines, thread, at);
        }
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        if self.role.is_tracking() {
            self.known.borrow_mut().woken(machines, woken);
        }
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if self.role.is_tracking() {
            self.known.borrow_mut().on_applied(machines, machine, cpu, happening, at);
        }
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if self.role.is_tracking() {
            self.known.borrow_mut().add(machines, piece, &self.query);
        }
    }
}

impl Analysis for CriticalPath {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, Created, Forked, ThreadPiece, Woken};
        // Segments are looked at where there are several machines.
        match (self.role, self.query.has_machines) {
            (PeriodRole::View, _) => (&[], ReportTimes::Range),
            (_, true) => (&[ThreadPiece, Created, Forked, Woken, Applied], ReportTimes::All),
            (_, false) => (&[ThreadPiece, Created, Forked, Woken], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        Some(Box::new(CriticalPath { query: period.clone(), role: PeriodRole::View, known: self.known.clone() }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let (query, known) = (&self.query, self.known.borrow());
        let columns = query.columns(columns_of(PathRow::COLUMNS));
        let mut table = Table { analysis: "path", range, columns, order: Order::Found, ..Table::default() };
        let tid = query.tids.as_ref().and_then(|tids| tids.single());
        let mut of_lives: Map<(ThreadIndex, &'static str), Ns> = Map::default();
        for search in known.searches(machines, range, tid) {
            known.search(machines, search, |found| {
                *of_lives.entry((found.thread, found.state)).or_default() += found.to - found.from;
                let thread = machines.thread(found.thread);
                query.emit_row(thread.machine, values_of(PathRow::COLUMNS, PathRow { found, thread }), &mut table.rows);
            });
        }
        let mut totals: BTreeMap<(u32, i64, &'static str), Ns> = BTreeMap::new();
        for ((thread, state), total) in of_lives {
            let of = machines.thread(thread);
            *totals.entry((of.machine, of.tid, state)).or_default() += total;
        }
        let mut totals: Vec<_> = totals.into_iter().collect();
        totals.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
        let length = range.map_or(0, |(from, to)| to - from);
        let row = |((machine, tid, state), total)| (machine, PathTotal { tid, state, total, length });
        table.totals = Some(query.totals(PathTotal::COLUMNS, totals.into_iter().map(row)));
        table
    }
}

/// A part of the path.
struct PathRow<'r> {
    found: PathPiece,
    thread: &'r Thread,
}

/// Meanings of columns.
const TID: &str = "the thread on which the wanted one depends";
const STATE: &str = "running, wait_cpu, blocked, .. or what ended the wait: disk, timer";

impl<'r> PathRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("from", Unit::Time, |row| row.found.from.into()),
        column("to", Unit::Time, |row| row.found.to.into()),
        column("duration_ns", Unit::Duration, |row| (row.found.to - row.found.from).into()),
        own_column("tid", Unit::Name, TID, |row| row.thread.tid.into()),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("state", Unit::Name, STATE, |row| Value::Word(row.found.state)),
    ];
}

/// The time of a thread in a state, on the path.
struct PathTotal {
    tid: i64,
    state: &'static str,
    total: Ns,
    /// Length of the range.
    length: Ns,
}

impl PathTotal {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("tid", Unit::Name, TID, |row| row.tid.into()),
        own_column("state", Unit::Name, STATE, |row| Value::Word(row.state)),
        column("total_ns", Unit::Duration, |row| row.total.into()),
        column("share", Unit::Share, |row| share(row.total, row.length)),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Numbers;
    use crate::kernel::testing::played::{played, rows};

    #[test]
    fn totals_have_shares_of_the_range() {
        let stream = "100 0 switch prev=0 next=5
            150 0 switch prev=5 next=0 state=1
            175 0 wake tid=5 cpu=0
            200 0 switch prev=0 next=5
            300 0 -";
        let query = AnalysisQuery { tids: Numbers::parse("5"), ..AnalysisQuery::default() };
        let table = played(&DESCRIPTOR, &query, stream);
        assert_eq!(rows(&table, &["state", "duration_ns"]), ["running 50", "blocked 25", "wait_cpu 25", "running 100"]);
        let (columns, totals) = table.totals.expect("totals");
        let totals = Table { columns, rows: totals.into(), ..Table::default() };
        let found = rows(&totals, &["state", "total_ns", "share"]);
        assert_eq!(found, ["running 150 0.75", "blocked 25 0.125", "wait_cpu 25 0.125"]);
    }

    fn path(tid: i64, stream: &str) -> Vec<String> {
        let query = AnalysisQuery { tids: Numbers::parse(&tid.to_string()), ..AnalysisQuery::default() };
        rows(&played(&DESCRIPTOR, &query, stream), &["from", "to", "tid", "state"])
    }

    #[test]
    fn time_before_a_birth_is_the_parents() {
        let stream = "100 0 switch prev=0 next=5\n150 0 fork parent=5 child=6\n200 0 -";
        assert_eq!(path(6, stream), ["100 150 5 running", "150 200 6 blocked"]);
    }

    #[test]
    fn a_wait_through_a_suspension_is_explained_by_its_end() {
        let stream = |wake: &str| {
            format!(
                "100 0 switch prev=0 next=5
                 100 1 switch prev=0 next=7
                 200 0 switch prev=5 next=0 state=1
                 210 0 suspend action=machine_suspend start=1
                 220 0 suspend action=machine_suspend start=0
                 230 0 suspend action=machine_suspend start=1
                 240 0 suspend action=machine_suspend start=0
                 {wake}
                 300 0 switch prev=0 next=5
                 350 0 -"
            )
        };
        let asleep = |state: &str, tid: i64| {
            let parts = [
                (200, 210, state),
                (210, 220, "suspended"),
                (220, 230, state),
                (230, 240, "suspended"),
                (240, 290, state),
            ];
            let mut rows = vec!["100 200 5 running".to_string()];
            rows.extend(parts.map(|(from, to, state)| {
                let of = if state == "suspended" { 5 } else { tid };
                format!("{from} {to} {of} {state}")
            }));
            rows.extend(["290 300 5 wait_cpu", "300 350 5 running"].map(str::to_string));
            rows
        };
        assert_eq!(
            path(5, &stream("290 0 soft_entry nr=4\n290 0 wake tid=5 cpu=0\n291 0 soft_exit nr=4")),
            asleep("disk", 5)
        );
        assert_eq!(path(5, &stream("290 1 wake tid=5 cpu=0")), asleep("running", 7));
    }

    #[test]
    fn waits_that_no_time_divides_are_one() {
        let stream = "100 0 switch prev=0 next=5
             100 1 switch prev=0 next=7
             200 0 switch prev=5 next=0 state=1
             300 0 switch prev=0 next=5
             300 0 switch prev=5 next=0 state=1
             400 1 wake tid=5
             500 0 -";
        assert_eq!(path(5, stream), ["100 200 5 running", "200 400 7 running", "400 500 5 wait_cpu"]);
    }

    #[test]
    fn a_range_is_about_the_life_that_it_shows() {
        let stream = "100 0 switch prev=0 next=5
             200 0 exit tid=5
             210 0 switch prev=5 next=0 state=32
             220 0 free tid=5
             300 0 switch prev=0 next=7
             400 0 fork parent=7 child=5 pid=5 ppid=7
             410 0 wake tid=5
             420 0 switch prev=7 next=5 state=1
             500 0 -";
        let within = |begin, end| {
            let tids = Numbers::parse("5");
            let query = AnalysisQuery { tids, begin: Some(begin), end: Some(end), ..AnalysisQuery::default() };
            rows(&played(&DESCRIPTOR, &query, stream), &["from", "to", "tid", "state"])
        };
        assert_eq!(within(100, 250), ["100 210 5 running", "210 250 5 ended"]);
        // Before its birth, the second one is its parent.
        assert_eq!(within(350, 450), ["350 410 7 running", "410 420 5 wait_cpu", "420 450 5 running"]);
    }

    #[test]
    fn a_thread_that_made_itself_has_no_time_before() {
        let stream = "100 0 -\n150 0 fork parent=5 child=5\n200 0 -";
        assert_eq!(path(5, stream), ["100 150 5 unknown", "150 200 5 blocked"]);
    }

    /// A server takes what a client waits for, and sends its answer at 130.
    const ANSWERED: &str = "100 0/0 switch prev=0 next=5\n110 0/0 switch prev=5 next=0 state=1\n\
                            120 1/0 switch prev=0 next=8\n130 1/0 segment_out seq=1 ack_seq=2 flags=24\n\
                            150 0/0 soft_entry nr=3\n150 0/0 segment_in seq=1 ack_seq=2 flags=24\n\
                            151 0/0 wake tid=5\n152 0/0 soft_exit nr=3\n160 0/0 switch prev=0 next=5\n170 0/0 -";

    #[test]
    fn a_wait_for_a_segment_goes_on_at_the_machine_that_sent_it() {
        let server = ["110 120 8 unknown", "120 130 8 running", "130 151 5 network"];
        let client = ["151 160 5 wait_cpu", "160 170 5 running"];
        let found = path(5, ANSWERED);
        assert_eq!(found[0], "100 110 5 running");
        assert_eq!(found[1..4], server);
        assert_eq!(found[4..], client);
        // Sent again: which of them arrived is unknown.
        let twice = ANSWERED.replace("150 0/0 soft", "140 1/0 segment_out seq=1 ack_seq=2 flags=24\n150 0/0 soft");
        assert_eq!(path(5, &twice)[1..], ["110 151 5 network", client[0], client[1]]);
        // Another one arrived.
        let other = ANSWERED.replace("segment_in seq=1", "segment_in seq=9");
        assert_eq!(path(5, &other)[1..], ["110 151 5 network", client[0], client[1]]);
        // The clock of the sender is ahead: it was sent after it arrived.
        let late = ANSWERED.replace("130 1/0", "149 1/0").replace("150 0/0", "148 0/0").replace("151 0/0", "148 0/0");
        let mut lines: Vec<&str> = late.lines().collect();
        lines.sort_by_key(|line| line[..3].parse::<u64>().ok());
        let found = path(5, &lines.join("\n"));
        assert_eq!(found[1..4], ["110 120 8 unknown", "120 148 8 running", "148 160 5 wait_cpu"]);
    }

    #[test]
    fn threads_that_made_each_other_end_the_search() {
        let stream = "100 0 -\n150 0 fork parent=5 child=6\n150 0 fork parent=6 child=5\n200 0 -";
        for tid in [5, 6] {
            let found = path(tid, stream);
            assert!(found[0].starts_with("100 150 ") && found[0].ends_with(" unknown"), "{found:?}");
            assert_eq!(found[1..], [format!("150 200 {tid} blocked")]);
        }
    }

    #[test]
    fn a_wait_is_what_its_waker_did_meanwhile() {
        let stream = "100 0 switch prev=0 next=7
            120 1 switch prev=0 next=5
            130 1 switch prev=5 next=0 state=1
            200 0 wake tid=5 cpu=1
            210 1 switch prev=0 next=5
            300 1 -";
        let before = ["100 120 5 unknown", "120 130 5 running"];
        let behind = ["200 210 5 wait_cpu", "210 300 5 running"];
        // Work that the waker did before the wait began cannot have prolonged it.
        let found = path(5, stream);
        assert_eq!((&found[..2], &found[3..]), (&before.map(String::from)[..], &behind.map(String::from)[..]));
        assert_eq!(found[2], "130 200 7 running");
        for (entry, state) in [
            ("timer_entry", "timer"),
            ("ipi_entry", "ipi"),
            ("irq_entry nr=4", "irq"),
            ("soft_entry nr=1", "timer"),
            ("soft_entry nr=3", "network"),
            ("soft_entry nr=4", "disk"),
            ("soft_entry nr=9", "softirq"),
        ] {
            let woken = stream.replace("200 0 wake", &format!("199 0 {entry}\n200 0 wake"));
            assert_eq!(path(5, &woken)[2], format!("130 200 5 {state}"));
        }
        // The waker of a wait that the range cuts is unknown.
        let cut = AnalysisQuery { tids: Numbers::parse("5"), end: Some(180), ..AnalysisQuery::default() };
        assert_eq!(rows(&played(&DESCRIPTOR, &cut, stream), &["from", "to", "state"])[2], "130 180 blocked");
        // Nor who ended one when the waker is the thread itself.
        let own = stream.replace("200 0 wake", "190 0 switch prev=7 next=0 state=0\n200 0 wake");
        assert_eq!(path(5, &own)[2], "130 200 5 blocked");
    }
}
