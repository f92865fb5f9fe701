//! `why`: the critical path in words (`docs/kernel.md`, section 3.13): what each part of it was spent on, and, over periods,
//! what makes the slow ones slow.

mod cause;
mod compare;
mod facts;
mod many;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{
    CpuIndex, CpuPiece, Happening, Interrupt, Machines, Ns, Observer, RunEnd, SystemCall, ThreadIndex, ThreadPiece,
    Woken,
};

use self::cause::{Cause, NamedThread, UnitOf, alike, list};
pub use self::compare::{PathCause, PathComparison};
use self::facts::Facts;
use self::many::WantedPaths;
pub use self::many::{CauseTotal, PartCause, ThreadPath, ThreadPathPart, ThreadPaths};
use crate::kernel::analyses::path::search::{PathPiece, Pieces, Search};
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, RowNouns, WHY};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, share, values_of};
use crate::kernel::table::{Order, Table, Unit};
use crate::kernel::value::{Cell, Value};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "why",
    about: "why a thread or a period took so long, in words (--tid T, or --per PERIOD)",
    forms: &[AnalysisForm::plain(&[], WHY, RowNouns::ROWS.with_spans("rows of the path"))],
    needs: &[&[Concept::Switch]],
    needs_for: &[],
    wants: &[
        (Concept::Wake, "what ended waits"),
        (Concept::SysEntry, "the system calls of waits, their files and locks"),
        (Concept::RqComplete, "which disk a wait was for"),
    ],
    over_periods: Some(compare::over_periods),
    example: "why --tid 641 --begin +271.38ms --end +316.55ms",
    make: |query| Box::new(Why::new(query, None)),
};

/// The paths of all threads, and the facts beside them.
#[derive(Default)]
struct PathFacts {
    pieces: Pieces,
    facts: Facts,
}

struct Why {
    query: AnalysisQuery,
    role: PeriodRole,
    known: Rc<RefCell<PathFacts>>,
    /// Of many threads, in place of a table.
    wanted: Option<WantedPaths>,
}

impl PathFacts {
    /// Shows the parts of a path, neighbours of one cause as one, and sums up its causes.
    fn explain(&self, machines: &Machines, search: Search, mut show: impl FnMut(PathPart)) -> BTreeMap<Cause, Ns> {
        let mut totals: BTreeMap<Cause, Ns> = BTreeMap::new();
        let mut last: Option<PathPart> = None;
        self.pieces.each_part(machines, search, |walks, found| {
            let causes = Cause::of_part(machines, &self.facts, walks, found);
            causes.iter().for_each(|(cause, time)| *totals.entry(cause.clone()).or_default() += time);
            let Some((cause, by_time)) = causes.into_iter().next() else { return };
            match &mut last {
                Some(last) if last.found.to == found.from && last.cause == cause => {
                    last.found.to = found.to;
                    last.by_time += by_time;
                }
                _ => last.replace(PathPart { found, cause, by_time }).into_iter().for_each(&mut show),
            }
        });
        last.into_iter().for_each(show);
        totals
    }
}

impl Why {
    fn new(query: &AnalysisQuery, wanted: Option<WantedPaths>) -> Why {
        Why { query: query.clone(), role: PeriodRole::Alone, known: Rc::default(), wanted }
    }

    /// Records, where this analysis is one that records.
    fn record(&mut self, observe: impl FnOnce(&mut PathFacts, &AnalysisQuery)) {
        if self.role.is_tracking() {
            observe(&mut self.known.borrow_mut(), &self.query);
        }
    }
}

impl Observer for Why {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        self.record(|known, query| known.facts.occupancy.on_cpu_piece(machines, piece, (query.begin, query.end)));
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        self.record(|known, query| {
            known.pieces.add(machines, piece, query);
            known.facts.on_thread_piece(machines, piece, query);
        });
    }

    fn created(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) {
        self.record(|known, _| {
            known.pieces.on_created(machines, thread, at);
            known.facts.of_waits.created(machines, thread, at);
        });
    }

    fn forked(&mut self, machines: &Machines, parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        self.record(|known, _| {
            known.pieces.forked(machines, parent, child, at);
            known.facts.of_waits.forked(machines, parent, child, at);
        });
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        self.record(|known, _| {
            let ending = Woken { reason: machines.ending_of(woken), ..*woken };
            known.pieces.woken(machines, &ending);
            known.facts.of_waits.woken(machines, woken);
        });
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        self.record(|known, _| known.facts.of_waits.run_ended(machines, thread, how, at));
    }

    fn interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {
        self.record(|known, query| known.facts.on_interrupt(machines, interrupt, query));
    }

    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        self.record(|known, _| known.facts.of_waits.call_began(machines, thread, name, happening, at));
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, happening: &Happening<'_>) {
        self.record(|known, _| known.facts.of_waits.call_ended(machines, call, happening));
    }

    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        self.record(|known, _| {
            known.pieces.on_applied(machines, machine, cpu, happening, at);
            known.facts.of_waits.applied(machines, machine, cpu, happening, at);
            known.facts.occupancy.on_applied(machines, machine, happening, at);
        });
    }
}

impl Analysis for Why {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{
            Applied, CallBegan, CallEnded, CpuPiece, Created, Forked, Interrupt, RunEnded, ThreadPiece, Woken,
        };
        match self.role {
            PeriodRole::View => (&[], ReportTimes::Range),
            _ => {
                let all = &[
                    CpuPiece,
                    ThreadPiece,
                    Created,
                    Forked,
                    Woken,
                    RunEnded,
                    Interrupt,
                    CallBegan,
                    CallEnded,
                    Applied,
                ];
                (all, ReportTimes::All)
            }
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        let known = self.known.clone();
        Some(Box::new(Why { query: period.clone(), role: PeriodRole::View, known, wanted: None }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let (query, known) = (&self.query, self.known.borrow());
        if let Some(wanted) = &self.wanted {
            wanted.collect(machines, &known, range);
            return Table::default();
        }
        if query.has_periods && query.of_period.is_none() && query.view == View::Statistics {
            return compare::empty(query, range);
        }
        let mut table = Table {
            analysis: "why",
            range,
            columns: query.columns(columns_of(PathRow::COLUMNS)),
            order: Order::Found,
            for_programs: FOR_PROGRAMS,
            ..Table::default()
        };
        let of_period = || query.of_period.as_ref().and_then(|period| period.tid);
        let tid = if query.tids.is_some() { query.tids.as_ref().and_then(|tids| tids.single()) } else { of_period() };
        let mut totals: BTreeMap<Cause, Ns> = BTreeMap::new();
        let mut length = 0;
        let mut searches: Vec<Search> = known.pieces.searches(machines, range, tid).collect();
        if query.of_period.is_none() {
            for search in &mut searches {
                keep_life(machines, &known.pieces, search, query);
            }
            if let [search] = &searches[..] {
                table.range = Some((search.from, search.to));
            }
        }
        for search in searches {
            length = length.max(search.to - search.from);
            let (thread, from, to) = (search.thread, search.from, search.to);
            let of_thread = known.explain(machines, search, |part| put_row(query, &part, &mut table));
            if from < to {
                table.sentences.push(sentence(machines, thread, to - from, &of_thread));
            }
            of_thread.into_iter().for_each(|(cause, time)| *totals.entry(cause).or_default() += time);
        }
        if let (Some(period), None) = (&query.of_period, tid) {
            let length = period.to - period.from;
            let text = format!("{}: no event says which thread ended it", UnitOf::new(length).whole(length as f64));
            table.sentences.push(text);
        }
        let mut totals: Vec<(Cause, Ns)> = totals.into_iter().collect();
        totals.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
        let cells = |(cause, total): &(Cause, Ns)| {
            let row = CauseRow { words: &cause.words(), cause, total: *total, length };
            query.row_values(cause.machine, values_of(CauseRow::COLUMNS, row)).map(Cell::from).collect()
        };
        let columns = query.columns(columns_of(CauseRow::COLUMNS));
        table.totals = Some((columns, totals.iter().map(cells).collect()));
        table
    }
}

/// A part of the path, with what most of it was spent on.
struct PathPart {
    found: PathPiece,
    cause: Cause,
    /// Time of that cause.
    by_time: Ns,
}

fn put_row(query: &AnalysisQuery, part: &PathPart, table: &mut Table) {
    let row = PathRow { part, words: &part.cause.phrase() };
    query.emit_row(part.cause.machine, values_of(PathRow::COLUMNS, row), &mut table.rows);
}

/// Cuts a search to what its thread took: the ends that a question leaves open are those of its life, if events show them.
fn keep_life(machines: &Machines, pieces: &Pieces, search: &mut Search, query: &AnalysisQuery) {
    let Search { thread, from, to, .. } = *search;
    let birth = pieces.birth(thread).filter(|_| query.begin.is_none()).unwrap_or(from).clamp(from, to);
    let end = pieces.end(machines, thread).filter(|_| query.end.is_none()).unwrap_or(to).clamp(birth, to);
    (search.from, search.to) = (birth, end);
}

/// How long a thread took, and for what.
fn sentence(machines: &Machines, thread: ThreadIndex, length: Ns, causes: &BTreeMap<Cause, Ns>) -> String {
    let unit = UnitOf::new(length);
    let causes = alike(causes).into_iter().map(|(cause, total)| (total as f64, cause.words()));
    let title = NamedThread::new(machines, thread).title();
    format!("{title} took {}: {}", unit.whole(length as f64), list(&unit, length as f64, causes))
}

/// Columns that say for programs what the words say for people.
const FOR_PROGRAMS: &[&str] = &["own", "call", "object", "source", "cpu", "by", "by_comm", "by_ns", "through"];

/// Meanings of columns.
const TID: &str = "the thread on which the wanted one depends";
const STATE: &str = "running, wait_cpu, blocked, .. or what ended the wait: disk, timer";
const WHY_TEXT: &str = "what the time was spent on, in words; of a total, also what led there";
const CALL: &str = "system call in which the thread waits";
const OBJECT: &str = "file, peer or address of the lock that the call is about";
const SOURCE: &str = "disk or interrupt that ended the wait; interrupt that had the CPU";
const CPU: &str = "CPU that the thread waits for";
const BY: &str = "thread that had that CPU; 0 is the idle one";
const BY_COMM: &str = "its name";
const THROUGH: &str = "waits that led here from the wanted thread";

struct PathRow<'r> {
    part: &'r PathPart,
    words: &'r str,
}

impl<'r> PathRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("from", Unit::Time, |row| row.part.found.from.into()),
        column("to", Unit::Time, |row| row.part.found.to.into()),
        column("duration_ns", Unit::Duration, |row| (row.part.found.to - row.part.found.from).into()),
        own_column("tid", Unit::Name, TID, |row| Value::integer(row.part.cause.thread.tid)),
        column("comm", Unit::Name, |row| Value::text(row.part.cause.thread.comm.as_deref())),
        own_column("state", Unit::Name, STATE, |row| Value::Word(row.part.cause.state)),
        own_column("why", Unit::Name, WHY_TEXT, |row| Value::Text(row.words)),
        own_column("call", Unit::Name, CALL, |row| Value::text(row.part.cause.call.as_deref())),
        own_column("object", Unit::Name, OBJECT, |row| Value::text(row.part.cause.object.as_deref())),
        own_column("source", Unit::Name, SOURCE, |row| Value::text(row.part.cause.source.as_deref())),
        own_column("cpu", Unit::Name, CPU, |row| Value::integer(row.part.cause.cpu)),
        own_column("by", Unit::Name, BY, |row| Value::integer(row.part.cause.by.as_ref().and_then(|by| by.tid))),
        own_column("by_comm", Unit::Name, BY_COMM, |row| Value::text(row.part.cause.by_comm())),
        own_column("by_ns", Unit::Duration, "time of the row for which the words hold", |row| row.part.by_time.into()),
        own_column("through", Unit::Name, THROUGH, |row| Value::text(row.part.cause.through.as_deref())),
    ];
}

/// The time of a cause on the path.
struct CauseRow<'r> {
    cause: &'r Cause,
    words: &'r str,
    total: Ns,
    /// Length of the range.
    length: Ns,
}

impl<'r> CauseRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        own_column("tid", Unit::Name, TID, |row| Value::integer(row.cause.thread.tid)),
        column("comm", Unit::Name, |row| Value::text(row.cause.thread.comm.as_deref())),
        own_column("state", Unit::Name, STATE, |row| Value::Word(row.cause.state)),
        own_column("own", Unit::Name, "is it the wanted thread?", |row| Value::Bool(row.cause.is_own)),
        column("total_ns", Unit::Duration, |row| row.total.into()),
        column("share", Unit::Share, |row| share(row.total, row.length)),
        own_column("why", Unit::Name, WHY_TEXT, |row| Value::Text(row.words)),
        own_column("call", Unit::Name, CALL, |row| Value::text(row.cause.call.as_deref())),
        own_column("object", Unit::Name, OBJECT, |row| Value::text(row.cause.object.as_deref())),
        own_column("source", Unit::Name, SOURCE, |row| Value::text(row.cause.source.as_deref())),
        own_column("cpu", Unit::Name, CPU, |row| Value::integer(row.cause.cpu)),
        own_column("by", Unit::Name, BY, |row| Value::integer(row.cause.by.as_ref().and_then(|by| by.tid))),
        own_column("by_comm", Unit::Name, BY_COMM, |row| Value::text(row.cause.by_comm())),
        own_column("through", Unit::Name, THROUGH, |row| Value::text(row.cause.through.as_deref())),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Numbers;
    use crate::kernel::table::PeriodOf;
    use crate::kernel::testing::played::{played, played_per, rows};

    fn why(tid: i64, stream: &str) -> Table {
        let query = AnalysisQuery { tids: Numbers::parse(&tid.to_string()), ..AnalysisQuery::default() };
        played(&DESCRIPTOR, &query, stream)
    }

    fn words(tid: i64, stream: &str) -> Vec<String> {
        rows(&why(tid, stream), &["from", "to", "why"])
    }

    #[test]
    fn a_lock_leads_to_the_disk_that_its_owner_waits_for() {
        let stream = "1000 0 dump_disk dev=8 name=sda
            1000 0 dump_task tid=5 pid=4 comm=oven mode=0 status=5
            1000 0 dump_task tid=6 pid=4 comm=log mode=0 status=5
            1000 0 dump_file pid=4 fd=3 name=/orders
            1000 1 switch prev=0 next=6
            1010 1 sys_entry name=fsync fd=3
            1020 1 switch prev=6 next=0 state=2
            1030 0 switch prev=0 next=5
            1100 0 sys_entry name=futex uaddr=4660 op=0
            1110 0 switch prev=5 next=0 state=1
            4000 1 soft_entry nr=4
            4010 1 rq_complete dev=8 sector=1 nr_sector=8 rwbs=1
            4020 1 wake tid=6 cpu=1
            4030 1 soft_exit nr=4
            4040 1 switch prev=0 next=6
            4050 1 sys_exit ret=0
            4060 1 sys_entry name=futex uaddr=4660 op=1
            4070 1 wake tid=5 cpu=0
            4090 0 switch prev=0 next=5
            5000 0 -";
        let table = why(5, stream);
        let lock = "oven 5 waited for lock 0x1234, which log 6 released";
        let disk = format!("2.9 waiting for disk sda in fsync of /orders ({lock})");
        assert_eq!(table.sentences, [format!("oven 5 took 4.0 us: {disk}, 1.0 running, 0.1 for the rest")]);
        let found = rows(&table, &["from", "to", "tid", "state", "call", "object", "source", "cpu", "by"]);
        assert!(found.contains(&"1110 4020 6 disk fsync /orders disk sda - -".to_string()), "{found:?}");
        // A waker that releases another lock, or none, did not release this one.
        let other = stream.replace("1 sys_entry name=futex uaddr=4660", "1 sys_entry name=futex uaddr=9");
        assert!(why(5, &other).sentences[0].contains("(oven 5 waited for lock 0x1234, and log 6 woke it)"));
        // The request of another interrupt is not what a wait was for.
        let none = stream.replace("4020 1 wake", "4015 1 soft_exit nr=4\n4016 1 soft_entry nr=4\n4020 1 wake");
        assert!(why(5, &none).sentences[0].contains("2.9 waiting for a disk in fsync of /orders"));
    }

    #[test]
    fn who_had_the_cpu_is_told_for_each_part_of_a_wait() {
        let stream = "100 0 switch prev=0 next=5 next_comm=own
            150 0 switch prev=5 next=7 state=0 next_comm=batch
            200 0 irq_entry nr=9 name=eth0
            230 0 irq_exit nr=9
            300 0 switch prev=7 next=0 state=1
            320 0 switch prev=0 next=5
            400 0 -";
        let expected = ["100 150 running", "150 320 for CPU 0, which batch 7 had", "320 400 running"];
        assert_eq!(words(5, stream), expected);
        let (columns, totals) = why(5, stream).totals.expect("totals");
        let totals = Table { columns, rows: totals.into(), ..Table::default() };
        let found = rows(&totals, &["state", "total_ns", "by", "by_comm", "source"]);
        let parts = ["wait_cpu 120 7 batch -", "wait_cpu 30 - - irq 9 eth0", "wait_cpu 20 0 idle -"];
        assert_eq!(found, [&["running 130 - - -"][..], &parts].concat());
    }

    #[test]
    fn a_thread_that_is_moved_waits_for_one_cpu_after_the_other() {
        let stream = "100 0 switch prev=0 next=5
            100 1 switch prev=0 next=8
            150 0 switch prev=5 next=7 state=0
            200 0 migrate tid=5 cpu=1
            260 1 switch prev=8 next=5 state=1
            300 1 -";
        let parts = |stream: &str| {
            let (columns, totals) = why(5, stream).totals.expect("totals");
            let totals = Table { columns, rows: totals.into(), ..Table::default() };
            let mut found = rows(&totals, &["state", "total_ns", "cpu", "by"]);
            found.retain(|row| row.starts_with("wait_cpu"));
            found
        };
        assert_eq!(parts(stream), ["wait_cpu 60 1 8", "wait_cpu 50 0 7"]);
        // No event moved it: where it waited is not known.
        assert_eq!(parts(&stream.replace("migrate tid=5 cpu=1", "-")), ["wait_cpu 110 - -"]);
    }

    #[test]
    fn interrupts_are_named() {
        let stream = "100 0 switch prev=0 next=5
            200 0 irq_entry nr=9 name=eth0
            210 0 soft_entry nr=3
            280 0 soft_exit nr=3
            300 0 irq_exit nr=9
            400 0 -";
        assert_eq!(words(5, stream)[1], "200 300 interrupted by irq 9 eth0");
        let stream = "100 0 switch prev=0 next=5
            150 0 switch prev=5 next=0 state=1
            200 0 irq_entry nr=9 name=eth0
            210 0 wake tid=5 cpu=0
            220 0 irq_exit nr=9
            230 0 switch prev=0 next=5
            240 0 -";
        assert_eq!(words(5, stream)[1], "150 210 waiting for irq 9 eth0");
    }

    #[test]
    fn a_reply_leads_to_the_disk_that_the_server_waited_for() {
        let stream = "1000 1 switch prev=0 next=6 next_comm=server
            1010 1 sys_entry name=pread64
            1020 1 switch prev=6 next=0 state=2
            1030 0 switch prev=0 next=5 next_comm=client
            1040 0 sys_entry name=recvfrom
            1050 0 switch prev=5 next=0 state=1
            4000 1 soft_entry nr=4
            4010 1 rq_complete dev=266338304 sector=1 nr_sector=8 rwbs=0
            4020 1 wake tid=6 cpu=1
            4030 1 soft_exit nr=4
            4040 1 switch prev=0 next=6
            4050 1 sys_exit ret=0
            4060 1 sys_entry name=sendto
            4065 1 soft_raise nr=3
            4066 1 soft_entry nr=3
            4070 1 wake tid=5 cpu=0
            4080 1 soft_exit nr=3
            4090 0 switch prev=0 next=5
            4100 0 -";
        let server = "client 5 waited for server 6 in recvfrom";
        let disk = format!("3.0 waiting for disk 254:0 in pread64 ({server})");
        assert_eq!(why(5, stream).sentences, [format!("client 5 took 3.1 us: {disk}, 0.1 for the rest")]);
    }

    /// Of an interrupt that no event shows, the next wake after a completion is the one that waited for it.
    #[test]
    fn a_completion_is_that_of_one_wake() {
        let stream = |between: &str| {
            format!(
                "1000 0 dump_disk dev=8 name=sda
                1000 1 switch prev=0 next=5 next_comm=reader
                1010 1 switch prev=5 next=6 state=1 next_comm=other
                1020 1 switch prev=6 next=0 state=2
                1030 0 switch prev=0 next=7
                2000 0 rq_complete dev=8 sector=1 nr_sector=8 rwbs=0
                {between}
                3000 0 wake tid=5 cpu=1 from=1 context=9
                3010 1 switch prev=0 next=5
                3020 1 -"
            )
        };
        let ended_by = |between: &str| rows(&why(5, &stream(between)), &["state", "source"])[1].clone();
        assert_eq!(ended_by(""), "irq disk sda");
        assert_eq!(ended_by("2010 0 wake tid=6 cpu=1 from=1 context=9"), "irq -");
        assert_eq!(ended_by("2010 0 sys_entry name=getpid"), "irq -");
    }

    /// Where the question has no ends, the thread took no longer than it lived.
    #[test]
    fn a_thread_took_as_long_as_it_lived() {
        let stream = "1000 0 switch prev=0 next=4 next_comm=maker
            2000 0 fork parent=4 child=5 ppid=4 pid=4 comm=own
            2100 0 wake tid=5 cpu=1
            2200 1 switch prev=0 next=5
            3000 1 exit tid=5
            3100 1 switch prev=5 next=0 state=64
            9000 0 -";
        assert_eq!(
            why(5, stream).sentences,
            ["own 5 took 1.1 us: 0.9 running, 0.1 for CPU 1, 0.1 while maker 4 ran (own 5 waited for maker 4)"]
        );
        assert_eq!(why(5, stream).range, Some((2000, 3100)));
        let query = |begin, end| AnalysisQuery { tids: Numbers::parse("5"), begin, end, ..AnalysisQuery::default() };
        let begun = played(&DESCRIPTOR, &query(Some(1000), None), stream);
        assert!(begun.sentences[0].starts_with("own 5 took 2.1 us: "), "{:?}", begun.sentences);
        let ended = played(&DESCRIPTOR, &query(None, Some(9000)), stream);
        assert!(
            ended.sentences[0].starts_with("own 5 took 7.0 us: 5.9 after own 5 had ended"),
            "{:?}",
            ended.sentences
        );
    }

    #[test]
    fn causes_that_differ_in_numbers_are_one_in_the_sentence() {
        let mut stream = String::from("1000 0 switch prev=0 next=5 next_comm=own\n");
        for (at, child) in [(2000, 6), (4000, 7), (6000, 8)] {
            stream += &format!(
                "{at} 0 sys_entry name=wait4\n{} 0 switch prev=5 next={child} state=1 next_comm=part\n",
                at + 10
            );
            stream += &format!("{} 0 exit tid={child}\n{} 0 wake tid=5 cpu=0\n", at + 900, at + 910);
            stream += &format!("{} 0 switch prev={child} next=5 state=64\n{} 0 sys_exit ret=0\n", at + 920, at + 930);
        }
        stream += "7000 0 -";
        let table = why(5, &stream);
        let parts = "2.7 while part ran (own 5 waited for part 6 in wait4; and others like that)";
        assert_eq!(table.sentences, [format!("own 5 took 6.0 us: 3.3 running, {parts}")]);
        assert_eq!(table.totals.map(|(_, rows)| rows.len()), Some(7));
    }

    #[test]
    fn the_slow_periods_are_compared_with_the_fast_ones() {
        // Three short ones, and one in which another thread has the CPU.
        let mut stream = String::from("1000 0 switch prev=0 next=5 next_comm=own\n");
        let mut periods = Vec::new();
        for (at, is_slow) in [(2000, false), (3000, true), (4000, false), (5000, false)] {
            if is_slow {
                stream += &format!("{} 0 switch prev=5 next=7 state=0 next_comm=batch\n", at + 10);
                stream += &format!("{} 0 switch prev=7 next=5 state=1\n", at + 510);
            }
            let to = if is_slow { at + 600 } else { at + 100 };
            let name = "order".to_string();
            periods.push(Rc::new(PeriodOf { name, from: at, to, tid: Some(5), values: Vec::new() }));
        }
        stream += "6000 0 -";
        let query = AnalysisQuery { has_periods: true, ..AnalysisQuery::default() };
        let tables = played_per(&[(&DESCRIPTOR, query.clone())], &periods, &stream);
        let compared = compare::over_periods(&query, tables.clone());
        let expected = "the slowest of 4 periods `order` took 600 ns, 500 more than the mean of the fastest 2 (100 ns): \
                        500 for CPU 0, which batch 7 had";
        assert_eq!(compared[0].sentences, [expected]);
        let found = rows(&compared[0], &["slow_mean_ns", "fast_mean_ns", "difference_ns", "part", "state", "by_comm"]);
        assert_eq!(found, ["500 0 500 1 wait_cpu batch", "100 100 0 0 running -"]);
        let longest = AnalysisQuery { view: View::Top(1), ..query };
        let longest = compare::over_periods(&longest, tables);
        assert_eq!(longest.len(), 1);
        assert_eq!(longest[0].sentences, ["own 5 took 600 ns: 500 for CPU 0, which batch 7 had, 100 running"]);
        // Of a period that no known thread ended nothing is said but that.
        let unknown = Rc::new(PeriodOf { tid: None, ..(*periods[0]).clone() });
        let query = AnalysisQuery { has_periods: true, view: View::Log, ..AnalysisQuery::default() };
        let tables = played_per(&[(&DESCRIPTOR, query)], &[unknown], &stream);
        assert_eq!(tables[0].sentences, ["100 ns: no event says which thread ended it"]);
    }
}
