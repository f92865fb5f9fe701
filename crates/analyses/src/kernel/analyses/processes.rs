//! `processes`: the lives of threads, and how they spent their time (`docs/kernel.md`, section 3.9).

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Ns, Observer, RunEnd, Thread, ThreadIndex, ThreadPiece, ThreadState,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::aggregate_map::{AggregateMap, PackedAggregates};
use crate::kernel::aggregate::sum::Sum;
use crate::kernel::analyses::files::OpenFiles;
use crate::kernel::analyses::lives::{Amounts, Life, LifeAggregate, Lives, Spent};
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, FormWord, LIVES, OPEN_FILES, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, cells_of, column, columns_of, own_column, values_of};
use crate::kernel::rows::store::{Rows, Source};
use crate::kernel::table::{Column, Order, Table, Unit};
use crate::kernel::value::Value;

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "processes",
    about: "the lives of threads, their parents, and how they spent their time",
    forms: &[
        AnalysisForm::plain(&[], LIVES, RowNouns::for_groups(&["threads"])),
        AnalysisForm {
            option: "--of files",
            word: Some(FormWord::Files),
            keys: &[],
            takes: OPEN_FILES,
            nouns: RowNouns::for_groups(&["open files"]),
        },
    ],
    needs: &[&[Concept::Switch, Concept::Running, Concept::Fork, Concept::Wake, Concept::DumpTask]],
    needs_for: &[("files", &[Concept::SysEntry, Concept::DumpFile])],
    wants: &[
        (Concept::Switch, "how threads spent their time"),
        (Concept::Fork, "births, parents and creators"),
        (Concept::Exit, "ends"),
        (Concept::SysEntry, "user_ns and system_ns"),
        (Concept::IrqEntry, "irq_ns"),
        (Concept::Wake, "wait_cpu_ns"),
    ],
    over_periods: None,
    example: "processes --tree",
    make: |query| match query.has(FormWord::Files) {
        true => Box::new(OpenFiles::new(query)),
        false => Box::new(Processes { query: query.clone(), ..Processes::default() }),
    },
};

#[derive(Default)]
struct Processes {
    query: AnalysisQuery,
    /// By step and thread: the dates of a life stand in the first one, before those with the numbers of its steps.
    aggregates: AggregateMap<2, LifeAggregate>,
    role: PeriodRole,
    /// The dates, where several are about periods.
    shared: Rc<RefCell<Shared>>,
}

/// The lives of threads that the analyses of all periods share.
#[derive(Default)]
struct Shared {
    aggregates: AggregateMap<2, LifeAggregate>,
    /// When all events have passed.
    lives: Option<Rc<Lives>>,
}

/// The number of the first step of a range that has some.
fn first_step(query: &AnalysisQuery) -> i64 {
    query.step.is_some().into()
}

impl Processes {
    /// Notes something of a life.
    fn update_life(&mut self, thread: ThreadIndex, note: impl FnOnce(&mut Life)) {
        let key = [0, thread.0.into()];
        match self.role {
            PeriodRole::Alone => note(&mut self.aggregates.entry(key).dates),
            PeriodRole::Tracker => note(&mut self.shared.borrow_mut().aggregates.entry(key).dates),
            PeriodRole::View => {}
        }
    }

    fn spent(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&mut Spent> {
        if !self.query.has_instant(at) || !self.role.has_table() {
            return None;
        }
        let step = self.query.step_of(machines.begin(), at) + first_step(&self.query);
        Some(&mut self.aggregates.entry([step, thread.0.into()]).spent)
    }

    fn visits(&mut self, machines: &Machines, thread: ThreadIndex) {
        if self.query.cpus.is_some() && self.query.wants_cpu(machines, machines.thread(thread).last_cpu()) {
            self.update_life(thread, |life| life.was_there = true);
        }
    }

    fn row_columns(&self, is_tree: bool) -> Vec<Column> {
        let depth = if is_tree { &[LifeRow::DEPTH][..] } else { &[] };
        let columns = columns_of(LifeRow::COLUMNS).chain(columns_of(Amounts::COLUMNS)).chain(columns_of(depth));
        self.query.step_columns(columns)
    }
}

/// A row of a life, but for its amounts.
struct LifeRow<'r> {
    thread: &'r Thread,
    is_kernel: Option<bool>,
    dates: Life,
    /// The end of the range: what comes later is not known.
    end: Ns,
    depth: Option<usize>,
}

impl<'r> LifeRow<'r> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
        column("tid", Unit::Name, |row| row.thread.tid.into()),
        own_column("life", Unit::Name, "which thread of this number, from 0", |row| row.thread.life().into()),
        column("pid", Unit::Name, |row| Value::integer(row.thread.pid())),
        own_column("ppid", Unit::Name, "number of the parent process", |row| Value::integer(row.thread.ppid())),
        column("comm", Unit::Name, |row| Value::text(row.thread.comm.as_deref())),
        own_column("kernel", Unit::Name, "is it a thread of the kernel?", |row| {
            row.is_kernel.map_or(Value::Null, Value::Bool)
        }),
        own_column("born_ns", Unit::Time, "when it was made", |row| row.date(row.dates.forked)),
        own_column("exit_ns", Unit::Time, "when it exited", |row| row.date(row.dates.exited)),
        own_column("freed_ns", Unit::Time, "when the kernel forgot it", |row| row.date(row.dates.freed)),
    ];

    const DEPTH: ColumnOf<'r, Self> = own_column("depth", Unit::Name, "how deep in the tree of processes", |row| {
        Value::integer(row.depth.map(|depth| depth as i128))
    });

    fn date(&self, date: Option<Ns>) -> Value<'static> {
        Value::integer(date.filter(|date| *date <= self.end))
    }
}

/// Rows of lives, made of what is kept of them: there may be many millions of threads that lived for a short time.
struct LifeRows {
    query: AnalysisQuery,
    machines: Rc<Machines>,
    range: (Ns, Ns),
    lives: Rc<Lives>,
    /// How they spent their time, where it does not stand in their aggregates.
    spent: Option<PackedAggregates<2, LifeAggregate>>,
}

impl LifeRows {
    /// How a life spent its time in a step; what is not known fills the rest.
    fn filled(&self, step: i64, life: ThreadIndex, mut of: Spent) -> Spent {
        let span = self.query.span_of_step(Some(self.range), step).unwrap_or(self.range);
        let (from, to) = self.lives.span(&self.machines, life, span);
        if self.query.step.is_none() {
            of.dead = self.machines.died(life).map_or(0, |died| (to - died.max(from)).max(0));
        }
        of.unknown += (to - from - of.known_ns()).max(0);
        of
    }

    /// The dates of a life, and how it spent its time in the range.
    fn aggregate(&self, life: ThreadIndex) -> LifeAggregate {
        let aggregate = self.lives.aggregate(life);
        let own = self.spent.as_ref().map(|spent| spent.find([0, life.0.into()]).unwrap_or_default().spent);
        LifeAggregate { spent: own.unwrap_or(aggregate.spent), ..aggregate }
    }

    fn put_row<'s>(
        &'s self,
        step: i64,
        (life, depth): (ThreadIndex, Option<usize>),
        dates: Life,
        spent: &Spent,
        values: &mut Vec<Value<'s>>,
    ) {
        let thread = self.machines.thread(life);
        self.query.put_step(Some(self.range), step, thread.machine, values);
        // A dump of states lists the threads of the kernel: others are not of it.
        let is_listed = self.machines.can_have(thread.machine, &[Concept::DumpTask]).then_some(false);
        let row = LifeRow { thread, is_kernel: thread.kernel().or(is_listed), dates, end: self.range.1, depth };
        values.extend(LifeRow::COLUMNS.iter().map(|column| column.value(&row)));
        let amounts = Amounts { spent, machines: &self.machines, machine: Some(thread.machine) };
        values.extend(values_of(Amounts::COLUMNS, amounts));
        values.extend(depth.map(|_| LifeRow::DEPTH.value(&row)));
    }
}

impl Source for LifeRows {
    fn append_row<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        let life = ThreadIndex(row);
        let LifeAggregate { dates, spent } = self.aggregate(life);
        self.put_row(0, (life, None), dates, &self.filled(0, life, spent), values);
    }

    fn rank(&self, row: u32) -> i64 {
        self.query.rank(0, self.machines.thread(ThreadIndex(row)).tid)
    }
}

impl Observer for Processes {
    fn created(&mut self, _: &Machines, thread: ThreadIndex, at: Ns) {
        self.update_life(thread, |life| life.met = Some(at));
    }

    fn forked(&mut self, _: &Machines, _: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        self.update_life(child, |life| life.forked = Some(at));
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if piece.state.is_running() {
            self.visits(machines, piece.thread);
        }
        if !self.role.has_table() {
            return;
        }
        let Processes { query, aggregates, .. } = self;
        let first = first_step(query);
        if piece.state == ThreadState::Dead && query.step.is_none() {
            // The machine knows it. Aggregates of all threads that ever died need not be opened again for it at the end.
            return;
        }
        query.each_step(machines.begin(), piece.from, piece.to, |step, length| {
            *aggregates.entry([step + first, piece.thread.0.into()]).spent.time_in(piece.state) += length;
        });
    }

    fn run_began(&mut self, machines: &Machines, thread: ThreadIndex, has_migrated: bool, at: Ns) {
        self.visits(machines, thread);
        if let Some(spent) = self.spent(machines, thread, at) {
            spent.switches += 1;
            spent.migrations += Ns::from(has_migrated);
        }
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        self.visits(machines, thread);
        if let Some(spent) = self.spent(machines, thread, at) {
            spent.preempted += Ns::from(how == RunEnd::Preempted);
        }
    }

    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if !matches!(happening.concept, Concept::Exit | Concept::Free) {
            return;
        }
        let Some(thread) = happening.number(Field::Tid).and_then(|tid| machines.find_thread(machine, tid)) else {
            return;
        };
        self.update_life(thread, |life| {
            let date = if happening.concept == Concept::Exit { &mut life.exited } else { &mut life.freed };
            date.get_or_insert(at);
        });
    }
}

impl Analysis for Processes {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, Created, Forked, RunBegan, RunEnded, ThreadPiece};
        match self.role {
            PeriodRole::View => (&[RunBegan, RunEnded, ThreadPiece], ReportTimes::Range),
            _ => (&[Created, Forked, RunBegan, RunEnded, Applied, ThreadPiece], ReportTimes::All),
        }
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        self.role = PeriodRole::Tracker;
        let (query, role, shared) = (period.clone(), PeriodRole::View, self.shared.clone());
        Some(Box::new(Processes { query, role, shared, aggregates: AggregateMap::default() }))
    }

    fn finish(mut self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let is_tree = self.query.has(FormWord::Tree);
        let columns = self.row_columns(is_tree);
        let Some((begin, end)) = range else {
            return Table { analysis: "processes", columns, ..Table::default() };
        };
        let last = self.query.last_step(range).saturating_add(first_step(&self.query));
        let mut own = Some(std::mem::take(&mut self.aggregates).finish(last));
        let lives = match (self.role, &mut own) {
            (PeriodRole::Alone, own) => Rc::new(Lives::new(machines, own.take().unwrap_or_default())),
            _ => {
                let Shared { aggregates, lives } = &mut *self.shared.borrow_mut();
                let new = || Rc::new(Lives::from_aggregates(machines, std::mem::take(aggregates).finish(i64::MAX)));
                lives.get_or_insert_with(new).clone()
            }
        };
        let wants = |life: &ThreadIndex| lives.is_selected(&self.query, machines, *life, (begin, end));
        let mut wanted: Vec<ThreadIndex> = lives.order.iter().copied().filter(wants).collect();
        let (query, all_of, machines) = (self.query.clone(), machines.clone(), machines.clone());
        let of = LifeRows { query: query.clone(), machines, range: (begin, end), lives, spent: own };
        let (mut all, mut rows, mut row) = (Spent::default(), Rows::default(), Vec::new());
        let mut put = |step: i64, life: ThreadIndex, dates: Life, spent: Spent, depth: Option<usize>| {
            let spent = of.filled(step, life, spent);
            all.add(spent.clone());
            row.clear();
            of.put_row(step, (life, depth), dates, &spent, &mut row);
            let is_kept = query.keeps_values(&row);
            if is_kept && (depth.is_some() || query.step.is_some()) {
                rows.push_values(row.iter().copied());
            }
            is_kept
        };
        let mut first = |life: ThreadIndex, depth| {
            let LifeAggregate { dates, spent } = of.aggregate(life);
            put(0, life, dates, spent, depth)
        };
        match (is_tree, query.step) {
            (true, None) => {
                for (life, depth) in of.lives.tree(&of.machines, &wanted) {
                    first(life, Some(depth));
                }
            }
            (false, None) => wanted.retain(|life| first(*life, None)),
            (_, Some(_)) => {
                let places: Vec<(ThreadIndex, Option<usize>)> = match is_tree {
                    true => of
                        .lives
                        .tree(&of.machines, &wanted)
                        .into_iter()
                        .map(|(life, depth)| (life, Some(depth)))
                        .collect(),
                    false => wanted.iter().map(|life| (*life, None)).collect(),
                };
                let mut place_of: Vec<Option<u32>> = vec![None; of.lives.next.len()];
                for ((life, _), at) in places.iter().zip(0..) {
                    place_of[life.0 as usize] = Some(at);
                }
                let aggregates = of.spent.as_ref().unwrap_or(&of.lives.aggregates);
                let place = |at: usize| place_of[aggregates.key(at)[1] as usize];
                let mut from = aggregates.first(|key| key[0] < first_step(&query));
                while from < aggregates.len() {
                    let step = aggregates.key(from)[0];
                    let behind = aggregates.first(|key| key[0] <= step);
                    let mut found: Vec<(u32, usize)> = (from..behind).filter_map(|at| Some((place(at)?, at))).collect();
                    found.sort_unstable();
                    for (place, at) in found {
                        let (life, depth) = places[place as usize];
                        put(step - first_step(&query), life, of.lives.dates(life), aggregates.get(at).spent, depth);
                    }
                    from = behind;
                }
            }
        }
        if !is_tree && query.step.is_none() {
            rows = Rows::from_source(Rc::new(of), wanted.into_iter().map(|life| life.0).collect());
        }
        let all = cells_of(Amounts::COLUMNS, &Amounts { spent: &all, machines: &all_of, machine: None });
        let order = if is_tree { Order::Found } else { Order::Keys };
        Table { analysis: "processes", range, columns, rows, all, order, ..Table::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};
    use crate::kernel::value::Cell;

    #[test]
    fn what_is_not_known_fills_the_rest_of_a_life() {
        let stream = "100 0 -
            150 0 switch prev=0 next=5
            200 0 sys_exit ret=0
            250 0 fork parent=5 child=6 comm=new
            300 0 switch prev=5 next=0 state=1
            400 1 wake tid=7 cpu=0
            450 0 loss
            500 0 -";
        let table = played(&DESCRIPTOR, &AnalysisQuery::default(), stream);
        let columns = ["tid", "born_ns", "user_ns", "wait_ns", "wait_cpu_ns", "wait_fork_ns", "unknown_ns"];
        // 5 and 7 were there before: 5 is unknown from 100 to 150, ran in an unknown mode up to 200, and is lost at 450. 6 was
        // born at 250, and nothing else happened to it.
        assert_eq!(rows(&table, &columns), ["5 - 100 150 0 0 150", "6 250 0 0 0 250 0", "7 - 0 0 50 0 350"]);
        let cut = AnalysisQuery { begin: Some(180), end: Some(270), ..AnalysisQuery::default() };
        let table = played(&DESCRIPTOR, &cut, stream);
        assert_eq!(rows(&table, &columns), ["5 - 70 0 0 0 20", "6 250 0 0 0 20 0", "7 - 0 0 0 0 90"]);
        let before = AnalysisQuery { end: Some(200), ..AnalysisQuery::default() };
        assert_eq!(rows(&played(&DESCRIPTOR, &before, stream), &["tid"]), ["5", "7"]);
        let steps = AnalysisQuery { step: Some(200), ..AnalysisQuery::default() };
        let table = played(&DESCRIPTOR, &steps, stream);
        let columns = ["from", "to", "tid", "user_ns", "wait_ns", "unknown_ns"];
        let of_5: Vec<String> = rows(&table, &columns).into_iter().filter(|row| row.contains(" 5 ")).collect();
        assert_eq!(of_5, ["100 300 5 100 0 100", "300 500 5 0 150 50"]);
    }

    #[test]
    fn a_thread_that_is_dead_takes_little_and_its_row_nothing() {
        const THREADS: usize = 1000;
        let mut stream = String::from("1700000000000000000 0 switch prev=0 next=5\n");
        for at in 0..THREADS {
            let (tid, time) = (100 + at, 1_700_000_000_000_000_000 + 1_000_000 * at);
            for (since, what) in [
                (1000, format!("fork parent=5 child={tid} pid={tid} ppid=5 comm=child")),
                (2000, format!("wake tid={tid} cpu=0")),
                (3000, format!("switch prev=5 next={tid} state=0")),
                (90_000, format!("exit tid={tid}")),
                (95_000, format!("switch prev={tid} next=5 state=16")),
                (99_000, format!("free tid={tid}")),
            ] {
                stream += &format!("{} 0 {what}\n", time + since);
            }
        }
        let mut processes = Processes::default();
        crate::kernel::testing::played::play(&stream, &mut processes);
        let aggregates = std::mem::take(&mut processes.aggregates).finish(i64::MAX);
        // Four of them are the place of an aggregate in the memory of all.
        assert!(aggregates.size() <= (4 + 40) * THREADS, "{}", aggregates.size() / THREADS);
        for known in [DESCRIPTOR, crate::kernel::analyses::cpu::DESCRIPTOR] {
            let table = played(&known, &AnalysisQuery::default(), &stream);
            assert_eq!((table.rows.len(), table.rows.size()), (THREADS + 1, 4 * (THREADS + 1)), "{}", known.name);
        }
    }

    #[test]
    fn each_life_has_a_row() {
        let stream = "100 0 switch prev=0 next=5
            200 0 exit tid=5
            250 0 switch prev=5 next=0 state=16
            300 0 free tid=5
            350 1 fork parent=1 child=5
            380 1 wake tid=5 cpu=1
            400 1 switch prev=0 next=5
            450 1 switch prev=5 next=0 state=0
            460 0 switch prev=0 next=5
            500 0 -";
        let table = played(&DESCRIPTOR, &AnalysisQuery::default(), stream);
        let columns = ["tid", "life", "born_ns", "exit_ns", "freed_ns", "system_ns", "zombie_ns", "unknown_ns"];
        // The dead are nowhere: 5.0 ends at 350, and no time after its end is unknown.
        assert_eq!(rows(&table, &columns), ["1 0 - - - 0 0 400", "5 0 - 200 300 50 50 100", "5 1 350 - - 90 0 0"]);
        let columns = ["tid", "life", "wait_fork_ns", "wait_cpu_ns", "switches", "preempted", "migrations"];
        assert_eq!(rows(&table, &columns)[1..], ["5 0 0 0 1 0 0", "5 1 30 30 2 1 1"]);
        let sums: Vec<Cell> = table.all.iter().map(|(_, cell)| cell.clone()).collect();
        assert_eq!(sums[..2], [Cell::Integer(0), Cell::Integer(140)]);
        assert_eq!(sums[8..11], [Cell::Integer(3), Cell::Integer(1), Cell::Integer(1)]);
        let late = AnalysisQuery { begin: Some(400), ..AnalysisQuery::default() };
        assert_eq!(rows(&played(&DESCRIPTOR, &late, stream), &["tid", "life"]), ["1 0", "5 1"]);
    }

    fn tree(stream: &str) -> Vec<String> {
        let query = AnalysisQuery { words: vec![FormWord::Tree], ..AnalysisQuery::default() };
        rows(&played(&DESCRIPTOR, &query, stream), &["depth", "tid", "life"])
    }

    #[test]
    fn a_tree_stands_by_ppid_then_by_creator() {
        let stream = "100 0 dump_task tid=30 pid=30 ppid=1 status=5
            101 0 dump_task tid=1 pid=1 ppid=0 status=5
            102 0 dump_task tid=20 pid=20 ppid=30 status=5
            103 0 dump_task tid=21 pid=20 ppid=30 status=5
            110 0 fork parent=21 child=5 pid=5 ppid=20
            111 0 fork parent=99 child=6
            112 0 fork parent=21 child=7 pid=20 ppid=20
            113 0 fork parent=6 child=8 pid=8 ppid=77
            120 0 -";
        // 7 is a thread: below the parent of its process. 77 was never seen, so that 8 is below its creator.
        let ordered = ["0 1 0", "1 30 0", "2 7 0", "2 20 0", "3 5 0", "2 21 0", "0 99 0", "1 6 0", "2 8 0"];
        assert_eq!(tree(stream), ordered);
        assert_eq!(rows(&played(&DESCRIPTOR, &AnalysisQuery::default(), stream), &["tid"]).len(), 9);
    }

    #[test]
    fn trees_survive_circles_and_reused_numbers() {
        let circle = "100 0 dump_task tid=5 ppid=6 status=5
            100 0 dump_task tid=6 ppid=7 status=5
            100 0 dump_task tid=7 ppid=5 status=5
            100 0 dump_task tid=8 ppid=8 status=5
            200 0 -";
        assert_eq!(tree(circle), ["0 8 0", "0 5 0", "1 7 0", "2 6 0"]);
        let reused = "100 0 fork parent=1 child=5 pid=5 ppid=1
            110 0 fork parent=5 child=6 pid=6 ppid=5
            120 0 free tid=5
            130 0 fork parent=1 child=5 pid=5 ppid=1
            140 0 fork parent=5 child=7 pid=7 ppid=5
            200 0 -";
        assert_eq!(tree(reused), ["0 1 0", "1 5 0", "2 6 0", "1 5 1", "2 7 0"]);
    }

    #[test]
    fn lives_are_chosen() {
        let stream = "100 0 switch prev=0 next=5 next_comm=sh
            100 1 switch prev=0 next=6 next_comm=ls
            200 0 switch prev=5 next=0 state=0
            300 1 switch prev=6 next=5 state=1
            400 0 -";
        let tids = |query: AnalysisQuery| rows(&played(&DESCRIPTOR, &query, stream), &["tid"]);
        let cpus = crate::kernel::Numbers::parse;
        assert_eq!(tids(AnalysisQuery { cpus: cpus("0"), ..AnalysisQuery::default() }), ["5"]);
        assert_eq!(tids(AnalysisQuery { cpus: cpus("1"), ..AnalysisQuery::default() }), ["5", "6"]);
        assert_eq!(tids(AnalysisQuery { tids: cpus("6-9"), ..AnalysisQuery::default() }), ["6"]);
    }
}
