//! Lives of threads: what is kept of each, their places in time, and the tree of parents.

use std::collections::{HashMap, HashSet};

use tracemill_semantics::Concept;
use tracemill_semantics::states::{Machines, Ns, ThreadIndex, ThreadState};

use crate::kernel::aggregate::account::{Account, Sum};
use crate::kernel::aggregate::keys::{TELL_INTERRUPTS, TELL_MODES};
use crate::kernel::aggregate::ledger::Closed;
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::table::{Listed, Unit};
use crate::kernel::value::{Cell, Value};

/// Concepts that tell which threads run.
const TELL_RUNS: &[Concept] = &[Concept::Switch, Concept::Running];

/// Lives, when all events have passed.
pub(crate) struct Lives {
    pub(crate) accounts: Closed<2, OfLife>,
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
    pub(crate) fn new(machines: &Machines, accounts: Closed<2, OfLife>) -> Self {
        let mut order: Vec<ThreadIndex> = machines.threads().map(|(life, _)| life).collect();
        let number = |life: ThreadIndex| (machines.thread(life).machine, machines.thread(life).tid);
        order.sort_by_key(|&life| (number(life), machines.thread(life).life()));
        let mut next = vec![NO_LIFE; order.len()];
        for pair in order.windows(2).filter(|pair| number(pair[0]) == number(pair[1])) {
            next[pair[0].0 as usize] = pair[1].0;
        }
        Lives { accounts, next, order, times: Vec::new() }
    }

    /// As [`new`](Self::new), with the times of all lives computed once, for callers that ask for many periods.
    pub(crate) fn of_many(machines: &Machines, accounts: Closed<2, OfLife>) -> Self {
        let lives = Lives::new(machines, accounts);
        let times = machines.threads().map(|(life, _)| lives.time(machines, life)).collect();
        Lives { times, ..lives }
    }

    /// When a life began and ended, as far as that is known.
    pub(crate) fn time(&self, machines: &Machines, life: ThreadIndex) -> (Ns, Ns) {
        if let Some(time) = self.times.get(life.0 as usize) {
            return *time;
        }
        let of = self.of(life);
        let met = if machines.thread(life).life() > 0 { of.met.unwrap_or(0) } else { Ns::MIN };
        let ends = self.end(life).into_iter().chain(of.freed);
        (of.forked.unwrap_or(met), ends.min().unwrap_or(Ns::MAX))
    }

    /// The first account of a life: every life has a row, also one of which only its end was seen.
    pub(crate) fn account(&self, life: ThreadIndex) -> OfLife {
        self.accounts.find([0, life.0.into()]).unwrap_or_default()
    }

    pub(crate) fn of(&self, life: ThreadIndex) -> Life {
        self.account(life).dates
    }

    pub(crate) fn met(&self, life: ThreadIndex) -> Ns {
        self.of(life).met.unwrap_or(0)
    }

    /// When another life of its number began: it ended before.
    pub(crate) fn end(&self, life: ThreadIndex) -> Option<Ns> {
        let next = self.next[life.0 as usize];
        (next != NO_LIFE).then(|| self.met(ThreadIndex(next)))
    }

    /// The part of a range in which a life may have been: one that was not forked and is the first of its number was there
    /// before the trace; others begin when they are met.
    pub(crate) fn span(&self, machines: &Machines, life: ThreadIndex, (begin, end): (Ns, Ns)) -> (Ns, Ns) {
        let of = self.of(life);
        let first = match of.forked {
            None if machines.thread(life).life() == 0 => begin,
            forked => forked.or(of.met).unwrap_or(0),
        };
        let from = first.clamp(begin, end);
        (from, self.end(life).map_or(end, |ended| ended.clamp(from, end)))
    }

    /// Is a life wanted, and was it there in the range?
    pub(crate) fn wants(&self, query: &AnalysisQuery, machines: &Machines, life: ThreadIndex, range: (Ns, Ns)) -> bool {
        let (began, ended) = self.time(machines, life);
        began <= range.1
            && ended >= range.0
            && (query.cpus.is_none() || self.of(life).was_there)
            && query.wants_thread(machines, Some(life))
    }

    /// Lives in the order of the tree, with their depths.
    pub(crate) fn tree(&self, machines: &Machines, lives: &[ThreadIndex]) -> Vec<(ThreadIndex, usize)> {
        let parents = Parents::new(machines, lives);
        let mut children: HashMap<Option<ThreadIndex>, Vec<ThreadIndex>> = HashMap::new();
        for &life in lives {
            children.entry(parents.of(machines, self, life)).or_default().push(life);
        }
        let mut ordered = Vec::with_capacity(lives.len());
        let mut seen = HashSet::new();
        // Parents that are children of their children, as only a broken dump tells, have no root: the first of them is one.
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
    fn of(&self, machines: &Machines, lives: &Lives, life: ThreadIndex) -> Option<ThreadIndex> {
        let thread = machines.thread(life);
        let born = lives.met(life);
        let of_ppid = thread.ppid().and_then(|ppid| {
            let of_number = self.by_number.get(&(thread.machine, ppid))?;
            // Numbers are used again: the parent is the one that lived when the child was born.
            let before = of_number.iter().rev().find(|parent| lives.met(**parent) <= born);
            before.or(of_number.first()).copied()
        });
        let is_other = |parent: &ThreadIndex| *parent != life && self.shown.contains(parent);
        of_ppid.filter(is_other).or(thread.creator().filter(is_other))
    }
}

/// Account of a life.
#[derive(Clone, Default)]
pub(crate) struct OfLife {
    pub(crate) dates: Life,
    pub(crate) spent: Spent,
}

/// The dates of a life.
#[derive(Clone, Default)]
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
    /// It ran, in a mode that nothing tells.
    pub(crate) unknown: Ns,
    pub(crate) dead: Ns,
    /// Its machine was suspended.
    pub(crate) suspended: Ns,
    pub(crate) switches: Ns,
    pub(crate) preempted: Ns,
    pub(crate) migrations: Ns,
}

/// The columns that can be added up.
pub(crate) const AMOUNTS: Listed<'_> = &[
    (
        Unit::Duration,
        &["user_ns", "system_ns", "irq_ns", "wait_cpu_ns", "wait_ns", "wait_fork_ns", "zombie_ns", "unknown_ns"],
    ),
    (Unit::Count, &["switches", "preempted", "migrations"]),
    (Unit::Duration, &["suspended_ns"]),
];

impl Spent {
    pub(crate) fn of(&mut self, state: ThreadState) -> &mut Ns {
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

    /// The values of [`AMOUNTS`] but the last one, the time that is in none of them, and the last one.
    fn parts(&mut self) -> [&mut i128; 13] {
        let Spent {
            user,
            system,
            irq,
            wait_cpu,
            wait,
            wait_fork,
            zombie,
            unknown,
            dead,
            suspended,
            switches,
            preempted,
            migrations,
        } = self;
        [
            user, system, irq, wait_cpu, wait, wait_fork, zombie, unknown, switches, preempted, migrations, dead,
            suspended,
        ]
    }

    fn numbers(&self) -> [i128; 13] {
        let Spent { user, system, irq, wait_cpu, wait, wait_fork, zombie, unknown, .. } = *self;
        let Spent { dead, suspended, switches, preempted, migrations, .. } = *self;
        [
            user, system, irq, wait_cpu, wait, wait_fork, zombie, unknown, switches, preempted, migrations, dead,
            suspended,
        ]
    }

    pub(crate) fn known(&self) -> Ns {
        let running = self.user + self.system + self.irq + self.unknown;
        running + self.wait_cpu + self.wait + self.wait_fork + self.zombie + self.dead + self.suspended
    }

    /// The values of [`AMOUNTS`]; those of which no event tells are not known.
    pub(crate) fn values<'v>(&self, tells: impl Fn(&[Concept]) -> bool) -> impl Iterator<Item = Value<'v>> {
        let [
            user,
            system,
            irq,
            wait_cpu,
            wait,
            wait_fork,
            zombie,
            unknown,
            switches,
            preempted,
            migrations,
            _,
            suspended,
        ] = self.numbers();
        let told = |time: Ns, by: &[Concept]| match tells(by) && tells(TELL_RUNS) {
            true => Value::Integer(time),
            // Other events show only a part of the time: that is not a sum.
            false => Value::Null,
        };
        let modes = [told(user, TELL_MODES), told(system, TELL_MODES), told(irq, TELL_INTERRUPTS)];
        let waits = [told(wait_cpu, &[Concept::Wake]), told(wait, TELL_RUNS), told(wait_fork, TELL_RUNS)];
        let rest = [zombie, unknown, switches, preempted, migrations].map(|amount| told(amount, TELL_RUNS));
        modes.into_iter().chain(waits).chain(rest).chain([Value::Integer(suspended)])
    }
}

impl Account for Spent {
    fn put(&self, cells: &mut Vec<Cell>) {
        let numbers = self.numbers();
        // Few machines are ever suspended: the last number is left out where it is 0.
        let kept = numbers.len() - usize::from(self.suspended == 0);
        cells.extend(numbers.into_iter().take(kept).map(Cell::Integer));
    }

    fn take(&mut self, numbers: &mut impl Iterator<Item = Option<i128>>) {
        self.parts().into_iter().zip(numbers).for_each(|(sum, more)| *sum += more.unwrap_or(0));
    }
}

impl Sum for Spent {
    fn add(&mut self, other: Spent) {
        self.parts().into_iter().zip(other.numbers()).for_each(|(sum, more)| *sum += more);
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

impl Account for Life {
    fn put(&self, cells: &mut Vec<Cell>) {
        // Dates of a life are near each other, so that the numbers are short.
        let met = self.met.unwrap_or(0);
        let ended = self.exited.unwrap_or(met);
        let since = [(self.met, 0), (self.forked, met), (self.exited, met), (self.freed, ended)];
        cells.extend(since.map(|(date, before)| Cell::integer(date.map(|date| date - before))));
        cells.push(u8::from(self.was_there).into());
    }

    fn take(&mut self, numbers: &mut impl Iterator<Item = Option<i128>>) {
        let mut since = |before: Option<Ns>| Some(numbers.next().flatten()? + before.unwrap_or(0));
        let met = since(None);
        let (forked, exited) = (since(met), since(met));
        let freed = since(exited.or(met));
        let was_there = numbers.next().flatten() == Some(1);
        self.add(Life { met, forked, exited, freed, was_there });
    }
}

impl Sum for OfLife {
    fn add(&mut self, OfLife { dates, spent }: OfLife) {
        self.dates.add(dates);
        self.spent.add(spent);
    }
}

impl Account for OfLife {
    fn put(&self, cells: &mut Vec<Cell>) {
        self.dates.put(cells);
        self.spent.put(cells);
    }

    fn take(&mut self, numbers: &mut impl Iterator<Item = Option<i128>>) {
        self.dates.take(numbers);
        self.spent.take(numbers);
    }
}
