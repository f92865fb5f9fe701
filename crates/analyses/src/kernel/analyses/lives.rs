//! Lives of threads: what is kept of each, their places in time, and the tree of parents.

use std::collections::{HashMap, HashSet};

use tracemill_semantics::Concept;
use tracemill_semantics::states::{Machines, Ns, ThreadIndex, ThreadState};

use crate::kernel::aggregate::aggregate_map::PackedAggregates;
use crate::kernel::aggregate::keys::{TELL_INTERRUPTS, TELL_MODES};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, own_column};
use crate::kernel::table::Unit;
use crate::kernel::value::Value;

/// Concepts that tell which threads run.
const TELL_RUNS: &[Concept] = &[Concept::Switch, Concept::Running];

/// Lives, when all events have passed.
pub(crate) struct Lives {
    pub(crate) aggregates: PackedAggregates<2, LifeAggregate>,
    /// For each life, the next one of its number.
    pub(crate) next: Vec<u32>,
    /// The lives by their numbers.
    pub(crate) order: Vec<ThreadIndex>,
    /// For each life, when it began and ended, where it is asked for again and again.
    times: Vec<(Ns, Ns)>,
}

/// Stands for no next life.
const NO_LIFE: u32 = u32::MAX;

impl Lives {
    pub(crate) fn new(machines: &Machines, aggregates: PackedAggregates<2, LifeAggregate>) -> Self {
        let mut order: Vec<ThreadIndex> = machines.threads().map(|(life, _)| life).collect();
        let number = |life: ThreadIndex| (machines.thread(life).machine, machines.thread(life).tid);
        order.sort_by_key(|&life| (number(life), machines.thread(life).life()));
        let mut next = vec![NO_LIFE; order.len()];
        for pair in order.windows(2).filter(|pair| number(pair[0]) == number(pair[1])) {
            next[pair[0].0 as usize] = pair[1].0;
        }
        Lives { aggregates, next, order, times: Vec::new() }
    }

    /// As [`new`](Self::new), with the times of all lives computed once, for callers that ask for many periods.
    pub(crate) fn from_aggregates(machines: &Machines, aggregates: PackedAggregates<2, LifeAggregate>) -> Self {
        let lives = Lives::new(machines, aggregates);
        let times = machines.threads().map(|(life, _)| lives.time(machines, life)).collect();
        Lives { times, ..lives }
    }

    /// When a life began and ended, as far as that is known.
    pub(crate) fn time(&self, machines: &Machines, life: ThreadIndex) -> (Ns, Ns) {
        if let Some(time) = self.times.get(life.0 as usize) {
            return *time;
        }
        let of = self.dates(life);
        let met = if machines.thread(life).life() > 0 { of.met.unwrap_or(0) } else { Ns::MIN };
        let ends = self.end(life).into_iter().chain(of.freed);
        (of.forked.unwrap_or(met), ends.min().unwrap_or(Ns::MAX))
    }

    /// The first aggregate of a life: every life has a row, also one of which only its end was seen.
    pub(crate) fn aggregate(&self, life: ThreadIndex) -> LifeAggregate {
        self.aggregates.find([0, life.0.into()]).unwrap_or_default()
    }

    pub(crate) fn dates(&self, life: ThreadIndex) -> Life {
        self.aggregate(life).dates
    }

    pub(crate) fn first_seen(&self, life: ThreadIndex) -> Ns {
        self.dates(life).met.unwrap_or(0)
    }

    /// When another life of its number began: it ended before.
    pub(crate) fn end(&self, life: ThreadIndex) -> Option<Ns> {
        let next = self.next[life.0 as usize];
        (next != NO_LIFE).then(|| self.first_seen(ThreadIndex(next)))
    }

    /// The part of a range in which a life may have been: one that was not forked and is the first of its number was there
    /// before the trace; others begin when they are met.
    pub(crate) fn span(&self, machines: &Machines, life: ThreadIndex, (begin, end): (Ns, Ns)) -> (Ns, Ns) {
        let of = self.dates(life);
        let first = match of.forked {
            None if machines.thread(life).life() == 0 => begin,
            forked => forked.or(of.met).unwrap_or(0),
        };
        let from = first.clamp(begin, end);
        (from, self.end(life).map_or(end, |ended| ended.clamp(from, end)))
    }

    /// Is a life wanted, and was it there in the range?
    pub(crate) fn is_selected(
        &self,
        query: &AnalysisQuery,
        machines: &Machines,
        life: ThreadIndex,
        range: (Ns, Ns),
    ) -> bool {
        let (began, ended) = self.time(machines, life);
        began <= range.1
            && ended >= range.0
            && (query.cpus.is_none() || self.dates(life).was_there)
            && query.wants_thread(machines, Some(life))
    }

    /// Lives in the order of the tree, with their depths.
    pub(crate) fn tree(&self, machines: &Machines, lives: &[ThreadIndex]) -> Vec<(ThreadIndex, usize)> {
        let parents = Parents::new(machines, lives);
        let mut children: HashMap<Option<ThreadIndex>, Vec<ThreadIndex>> = HashMap::new();
        for &life in lives {
            children.entry(parents.parent(machines, self, life)).or_default().push(life);
        }
        let mut ordered = Vec::with_capacity(lives.len());
        let mut seen = HashSet::new();
        // Parents that are children of their children, as only a broken dump says, have no root: the first of them is one.
        let roots = children.get(&None).cloned().unwrap_or_default();
        for root in roots.into_iter().chain(lives.iter().copied()) {
            let mut stack = vec![(root, 0)];
            while let Some((life, depth)) = stack.pop() {
                if seen.insert(life) {
                    ordered.push((life, depth));
                    let own = children.get(&Some(life)).into_iter().flatten().rev();
                    stack.extend(own.map(|&child| (child, depth + 1)));
                }
            }
        }
        ordered
    }
}

/// Lives by their numbers, to find parents.
struct Parents {
    by_number: HashMap<(u32, i64), Vec<ThreadIndex>>,
    shown: HashSet<ThreadIndex>,
}

impl Parents {
    fn new(machines: &Machines, lives: &[ThreadIndex]) -> Self {
        let mut by_number: HashMap<(u32, i64), Vec<ThreadIndex>> = HashMap::new();
        for &life in lives {
            let thread = machines.thread(life);
            by_number.entry((thread.machine, thread.tid)).or_default().push(life);
        }
        Parents { by_number, shown: lives.iter().copied().collect() }
    }

    /// The life that another one stands below: that of its ppid, else its creator, as far as they have rows.
    fn parent(&self, machines: &Machines, lives: &Lives, life: ThreadIndex) -> Option<ThreadIndex> {
        let thread = machines.thread(life);
        let born = lives.first_seen(life);
        let of_ppid = thread.ppid().and_then(|ppid| {
            let of_number = self.by_number.get(&(thread.machine, ppid))?;
            // Numbers are used again: the parent is the one that lived when the child was born.
            let before = of_number.iter().rev().find(|parent| lives.first_seen(**parent) <= born);
            before.or(of_number.first()).copied()
        });
        let is_other = |parent: &ThreadIndex| *parent != life && self.shown.contains(parent);
        of_ppid.filter(is_other).or(thread.creator().filter(is_other))
    }
}

/// Aggregate of a life.
#[derive(Clone, Default)]
pub(crate) struct LifeAggregate {
    pub(crate) dates: Life,
    pub(crate) spent: Spent,
}

/// The dates of a life.
#[derive(Clone, Copy, Default)]
pub(crate) struct Life {
    /// When it was met first.
    pub(crate) met: Option<Ns>,
    pub(crate) forked: Option<Ns>,
    pub(crate) exited: Option<Ns>,
    pub(crate) freed: Option<Ns>,
    /// Did it run on one of the CPUs that are wanted?
    pub(crate) was_there: bool,
}

/// Times of a life by state.
#[derive(Clone, Default)]
pub(crate) struct Spent {
    pub(crate) user: Ns,
    pub(crate) system: Ns,
    pub(crate) irq: Ns,
    pub(crate) wait_cpu: Ns,
    pub(crate) wait: Ns,
    pub(crate) wait_fork: Ns,
    pub(crate) zombie: Ns,
    /// It ran, in a mode that no event shows.
    pub(crate) unknown: Ns,
    pub(crate) dead: Ns,
    /// Its machine was suspended.
    pub(crate) suspended: Ns,
    pub(crate) switches: Ns,
    pub(crate) preempted: Ns,
    pub(crate) migrations: Ns,
}

/// The amounts of a life, or of all.
pub(crate) struct Amounts<'r> {
    pub(crate) spent: &'r Spent,
    pub(crate) machines: &'r Machines,
    /// The machine; all of them where there is none.
    pub(crate) machine: Option<u32>,
}

impl<'r> Amounts<'r> {
    /// The columns that can be added up; amounts that no event shows are unknown.
    pub(crate) const COLUMNS: &'r [ColumnOf<'static, Self>] = &[
        column("user_ns", Unit::Duration, |of| of.known_amount(of.spent.user, TELL_MODES)),
        column("system_ns", Unit::Duration, |of| of.known_amount(of.spent.system, TELL_MODES)),
        column("irq_ns", Unit::Duration, |of| of.known_amount(of.spent.irq, TELL_INTERRUPTS)),
        column("wait_cpu_ns", Unit::Duration, |of| of.known_amount(of.spent.wait_cpu, &[Concept::Wake])),
        own_column("wait_ns", Unit::Duration, "time in which it was blocked", |of| {
            of.known_amount(of.spent.wait, TELL_RUNS)
        }),
        own_column("wait_fork_ns", Unit::Duration, "time before its first wake", |of| {
            of.known_amount(of.spent.wait_fork, TELL_RUNS)
        }),
        own_column("zombie_ns", Unit::Duration, "time between its end and its parent's wait", |of| {
            of.known_amount(of.spent.zombie, TELL_RUNS)
        }),
        column("unknown_ns", Unit::Duration, |of| of.known_amount(of.spent.unknown, TELL_RUNS)),
        column("switches", Unit::Count, |of| of.known_amount(of.spent.switches, TELL_RUNS)),
        column("preempted", Unit::Count, |of| of.known_amount(of.spent.preempted, TELL_RUNS)),
        column("migrations", Unit::Count, |of| of.known_amount(of.spent.migrations, TELL_RUNS)),
        column("suspended_ns", Unit::Duration, |of| of.spent.suspended.into()),
    ];

    fn known_amount(&self, amount: i128, by: &[Concept]) -> Value<'static> {
        let tells = |by: &[Concept]| match self.machine {
            Some(machine) => self.machines.can_have(machine, by),
            None => self.machines.all_can_have(by),
        };
        // Other events show only a part of the time: that is not a sum.
        if tells(by) && tells(TELL_RUNS) { Value::Integer(amount) } else { Value::Null }
    }
}

impl Spent {
    pub(crate) fn time_in(&mut self, state: ThreadState) -> &mut Ns {
        match state {
            ThreadState::RunUser => &mut self.user,
            ThreadState::RunSyscall | ThreadState::RunTrap | ThreadState::RunKernel | ThreadState::Exit => {
                &mut self.system
            }
            ThreadState::Interrupted => &mut self.irq,
            ThreadState::WaitCpu => &mut self.wait_cpu,
            ThreadState::Wait => &mut self.wait,
            ThreadState::WaitFork => &mut self.wait_fork,
            ThreadState::Zombie => &mut self.zombie,
            ThreadState::RunUnknown | ThreadState::Unknown => &mut self.unknown,
            ThreadState::Dead => &mut self.dead,
            ThreadState::Suspended => &mut self.suspended,
        }
    }

    pub(crate) fn known_ns(&self) -> Ns {
        let running = self.user + self.system + self.irq + self.unknown;
        running + self.wait_cpu + self.wait + self.wait_fork + self.zombie + self.dead + self.suspended
    }
}

impl Aggregate for Spent {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.user);
        packing.number(&mut self.system);
        packing.number(&mut self.irq);
        packing.number(&mut self.wait_cpu);
        packing.number(&mut self.wait);
        packing.number(&mut self.wait_fork);
        packing.number(&mut self.zombie);
        packing.number(&mut self.unknown);
        packing.number(&mut self.switches);
        packing.number(&mut self.preempted);
        packing.number(&mut self.migrations);
        packing.number(&mut self.dead);
        // Few machines are ever suspended.
        packing.last(&mut self.suspended);
    }
}

impl Sum for Spent {
    fn add(&mut self, other: Spent) {
        self.user += other.user;
        self.system += other.system;
        self.irq += other.irq;
        self.wait_cpu += other.wait_cpu;
        self.wait += other.wait;
        self.wait_fork += other.wait_fork;
        self.zombie += other.zombie;
        self.unknown += other.unknown;
        self.switches += other.switches;
        self.preempted += other.preempted;
        self.migrations += other.migrations;
        self.dead += other.dead;
        self.suspended += other.suspended;
    }
}

impl Sum for Life {
    fn add(&mut self, other: Life) {
        self.met = self.met.or(other.met);
        self.forked = self.forked.or(other.forked);
        self.exited = self.exited.or(other.exited);
        self.freed = self.freed.or(other.freed);
        self.was_there |= other.was_there;
    }
}

impl Aggregate for Life {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        // Dates of a life are near each other, so that the numbers are short.
        packing.since(&mut self.met, None);
        packing.since(&mut self.forked, self.met);
        packing.since(&mut self.exited, self.met);
        packing.since(&mut self.freed, self.exited.or(self.met));
        packing.truth(&mut self.was_there);
    }
}

impl Sum for LifeAggregate {
    fn add(&mut self, LifeAggregate { dates, spent }: LifeAggregate) {
        self.dates.add(dates);
        self.spent.add(spent);
    }
}

impl Aggregate for LifeAggregate {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        self.dates.pack(packing);
        self.spent.pack(packing);
    }
}
