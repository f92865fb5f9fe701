//! `processes`: the lives of threads, and how they spent their time (section 3.9).

use std::collections::{BTreeMap, HashMap, HashSet};

use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Ns, Observer, RunEnd, ThreadIndex, ThreadPiece, ThreadState,
};
use tracemill_semantics::{Concept, Field};

use super::table::{Cell, Column, Order, Table, Unit, columns};
use super::{Analysis, Asked, Known};

pub(super) const KNOWN: Known = Known {
    name: "processes",
    about: "the lives of threads, their parents, and how they spent their time",
    by: &[],
    words: &["tree"],
    has_spans: false,
    needs: &[&[Concept::Switch, Concept::Running, Concept::Fork, Concept::Wake, Concept::DumpTask]],
    wants: &[
        (Concept::Switch, "how threads spent their time"),
        (Concept::Fork, "births, parents and creators"),
        (Concept::Exit, "ends"),
        (Concept::SysEntry, "user_ns and system_ns"),
        (Concept::Wake, "wait_cpu_ns"),
    ],
    make: |asked| Box::new(Processes { asked: asked.clone(), ..Processes::default() }),
};

#[derive(Default)]
struct Processes {
    asked: Asked,
    /// All lives, by their index.
    lives: Vec<Life>,
    spent: HashMap<(i64, ThreadIndex), Spent>,
}

/// The dates of a life.
#[derive(Clone, Default)]
struct Life {
    /// When it was met first.
    met: Ns,
    forked: Option<Ns>,
    exited: Option<Ns>,
    freed: Option<Ns>,
    /// When another life of its number began.
    ended: Option<Ns>,
    /// Did it run on one of the CPUs that are wanted?
    was_there: bool,
}

/// What a life spent its time on.
#[derive(Clone, Default)]
struct Spent {
    user: Ns,
    system: Ns,
    irq: Ns,
    wait_cpu: Ns,
    wait: Ns,
    wait_fork: Ns,
    zombie: Ns,
    /// It ran, in a mode that nothing tells.
    unknown: Ns,
    dead: Ns,
    switches: u64,
    preempted: u64,
    migrations: u64,
}

const DURATIONS: [&str; 8] =
    ["user_ns", "system_ns", "irq_ns", "wait_cpu_ns", "wait_ns", "wait_fork_ns", "zombie_ns", "unknown_ns"];
const COUNTS: [&str; 3] = ["switches", "preempted", "migrations"];

impl Spent {
    fn of(&mut self, state: ThreadState) -> &mut Ns {
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
        }
    }

    /// The values of [`DURATIONS`] and [`COUNTS`].
    fn parts(&mut self) -> ([&mut Ns; 8], [&mut u64; 3]) {
        let Spent { user, system, irq, wait_cpu, wait, wait_fork, zombie, unknown, .. } = self;
        (
            [user, system, irq, wait_cpu, wait, wait_fork, zombie, unknown],
            [&mut self.switches, &mut self.preempted, &mut self.migrations],
        )
    }

    fn known(&self) -> Ns {
        let running = self.user + self.system + self.irq + self.unknown;
        running + self.wait_cpu + self.wait + self.wait_fork + self.zombie + self.dead
    }

    fn add(&mut self, mut other: Spent) {
        self.dead += other.dead;
        let (durations, counts) = self.parts();
        let (other_durations, other_counts) = other.parts();
        durations.into_iter().zip(other_durations).for_each(|(sum, more)| *sum += *more);
        counts.into_iter().zip(other_counts).for_each(|(sum, more)| *sum += *more);
    }

    fn cells(&mut self) -> impl Iterator<Item = Cell> {
        let (durations, counts) = self.parts();
        durations.map(|ns| Cell::Integer(*ns)).into_iter().chain(counts.map(|count| Cell::from(*count)))
    }
}

impl Processes {
    fn life(&mut self, thread: ThreadIndex) -> &mut Life {
        let at = thread.0 as usize;
        if self.lives.len() <= at {
            self.lives.resize(at + 1, Life::default());
        }
        &mut self.lives[at]
    }

    fn spent(&mut self, machines: &Machines, thread: ThreadIndex, at: Ns) -> Option<&mut Spent> {
        if !self.asked.has_instant(at) {
            return None;
        }
        let step = self.asked.step_of(machines.begin(), at);
        Some(self.spent.entry((step, thread)).or_default())
    }

    fn visits(&mut self, machines: &Machines, thread: ThreadIndex) {
        if self.asked.wants_cpu(machines, machines.thread(thread).last_cpu()) {
            self.life(thread).was_there = true;
        }
    }

    /// The part of a range in which a life may have been: one that was not forked and is the first of its number was there
    /// before the trace; others begin when they are met.
    fn span(&self, machines: &Machines, thread: ThreadIndex, (begin, end): (Ns, Ns)) -> (Ns, Ns) {
        let life = &self.lives[thread.0 as usize];
        let first = match life.forked {
            None if machines.thread(thread).life == 0 => begin,
            forked => forked.unwrap_or(life.met),
        };
        let from = first.clamp(begin, end);
        (from, life.ended.map_or(end, |ended| ended.clamp(from, end)))
    }

    /// Is a life wanted, and was it there in the range?
    fn wants(&self, machines: &Machines, thread: ThreadIndex, range: (Ns, Ns)) -> bool {
        let life = &self.lives[thread.0 as usize];
        let begins = life.forked.unwrap_or(if machines.thread(thread).life > 0 { life.met } else { range.0 });
        begins <= range.1
            && life.ended.is_none_or(|ended| ended >= range.0)
            && life.freed.is_none_or(|freed| freed >= range.0)
            && (self.asked.cpus.is_none() || life.was_there)
            && self.asked.wants_thread(machines, Some(thread))
    }

    /// A life ends at the latest when the next one of its number begins.
    fn end_lives(&mut self, machines: &Machines) {
        let mut newest: HashMap<(u32, i64), ThreadIndex> = HashMap::new();
        for (life, thread) in machines.threads() {
            let met = self.life(life).met;
            if let Some(before) = newest.insert((thread.machine, thread.tid), life) {
                self.life(before).ended = Some(met);
            }
        }
    }

    fn row_columns(&self, is_tree: bool) -> Vec<Column> {
        let mut columns_of = self.asked.step_columns();
        columns_of.extend(self.asked.machine_columns());
        columns_of.extend(columns(Unit::Name, &["tid", "life", "pid", "ppid", "comm", "kernel"]));
        columns_of.extend(columns(Unit::Time, &["born_ns", "exit_ns", "freed_ns"]));
        columns_of.extend(amounts());
        if is_tree {
            columns_of.push(Column::new("depth", Unit::Name));
        }
        columns_of
    }

    /// Cells of a life that say nothing of its time.
    fn name_cells(&self, machines: &Machines, thread: ThreadIndex, end: Ns) -> Vec<Cell> {
        let (of, life) = (machines.thread(thread), &self.lives[thread.0 as usize]);
        let mut cells = self.asked.machine_cells(of.machine);
        cells.extend([of.tid.into(), of.life.into(), Cell::integer(of.pid), Cell::integer(of.ppid)]);
        cells.extend([Cell::text(of.comm.as_deref()), Cell::Bool(of.is_kernel)]);
        let dates = [life.forked, life.exited, life.freed];
        cells.extend(dates.map(|date| Cell::integer(date.filter(|date| *date <= end))));
        cells
    }

    /// Lives in the order of the tree, with their depths.
    fn tree(&self, machines: &Machines, lives: &[ThreadIndex]) -> Vec<(ThreadIndex, usize)> {
        let parents = Parents::new(machines, lives);
        let mut children: HashMap<Option<ThreadIndex>, Vec<ThreadIndex>> = HashMap::new();
        for &life in lives {
            children.entry(parents.of(machines, &self.lives, life)).or_default().push(life);
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
    fn of(&self, machines: &Machines, dates: &[Life], life: ThreadIndex) -> Option<ThreadIndex> {
        let thread = machines.thread(life);
        let born = dates[life.0 as usize].met;
        let of_ppid = thread.ppid.and_then(|ppid| {
            let lives = self.by_number.get(&(thread.machine, ppid))?;
            // Numbers are used again: the parent is the one that lived when the child was born.
            let before = lives.iter().rev().find(|parent| dates[parent.0 as usize].met <= born);
            before.or(lives.first()).copied()
        });
        let is_other = |parent: &ThreadIndex| *parent != life && self.shown.contains(parent);
        of_ppid.filter(is_other).or(thread.creator.filter(is_other))
    }
}

impl Observer for Processes {
    fn born(&mut self, _: &Machines, thread: ThreadIndex, at: Ns) {
        self.life(thread).met = at;
    }

    fn forked(&mut self, _: &Machines, _: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        self.life(child).forked = Some(at);
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if piece.state.is_running() {
            self.visits(machines, piece.thread);
        }
        let Processes { asked, spent, .. } = self;
        asked.each_step(machines.begin(), piece.from, piece.to, |step, length| {
            *spent.entry((step, piece.thread)).or_default().of(piece.state) += length;
        });
    }

    fn run_began(&mut self, machines: &Machines, thread: ThreadIndex, has_migrated: bool, at: Ns) {
        self.visits(machines, thread);
        if let Some(spent) = self.spent(machines, thread, at) {
            spent.switches += 1;
            spent.migrations += u64::from(has_migrated);
        }
    }

    fn run_ended(&mut self, machines: &Machines, thread: ThreadIndex, how: RunEnd, at: Ns) {
        self.visits(machines, thread);
        if let Some(spent) = self.spent(machines, thread, at) {
            spent.preempted += u64::from(how == RunEnd::Preempted);
        }
    }

    fn taken(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if !matches!(happening.concept, Concept::Exit | Concept::Free) {
            return;
        }
        let Some(thread) = happening.number(Field::Tid).and_then(|tid| machines.find_thread(machine, tid)) else {
            return;
        };
        let life = self.life(thread);
        let date = if happening.concept == Concept::Exit { &mut life.exited } else { &mut life.freed };
        date.get_or_insert(at);
    }
}

impl Analysis for Processes {
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn finish(mut self: Box<Self>, machines: &Machines, range: Option<(Ns, Ns)>) -> Table {
        let is_tree = self.asked.has("tree");
        let columns_of = self.row_columns(is_tree);
        let Some((begin, end)) = range else {
            return Table { analysis: "processes", columns: columns_of, ..Table::default() };
        };
        self.end_lives(machines);
        let mut lives: Vec<ThreadIndex> = (0..self.lives.len() as u32).map(ThreadIndex).collect();
        lives.retain(|&life| self.wants(machines, life, (begin, end)));
        lives.sort_by_key(|&life| {
            let thread = machines.thread(life);
            (thread.machine, thread.tid, thread.life)
        });
        let mut spent: BTreeMap<i64, HashMap<ThreadIndex, Spent>> = BTreeMap::new();
        for ((step, life), of) in std::mem::take(&mut self.spent) {
            let steps = spent.entry(self.asked.last_step(range, step)).or_default();
            steps.entry(life).or_default().add(of);
        }
        if self.asked.step.is_none() {
            // Every life has a row, also one of which only its end was seen.
            let of_all = spent.entry(0).or_default();
            for life in &lives {
                of_all.entry(*life).or_default();
            }
        }
        let places = if is_tree { self.tree(machines, &lives) } else { lives.iter().map(|&life| (life, 0)).collect() };
        let mut all = Spent::default();
        let mut rows = Vec::new();
        for (step, mut of_step) in spent {
            let step_cells = self.asked.step_cells(range, step);
            let (from, to) = match step_cells.as_slice() {
                [Cell::Integer(from), Cell::Integer(to)] => (*from, *to),
                _ => (begin, end),
            };
            for &(life, depth) in &places {
                let Some(mut of) = of_step.remove(&life) else { continue };
                let (from, to) = self.span(machines, life, (from, to));
                of.unknown += (to - from - of.known()).max(0);
                let mut row = step_cells.clone();
                row.extend(self.name_cells(machines, life, end));
                row.extend(of.cells());
                if is_tree {
                    row.push((depth as u64).into());
                }
                all.add(of);
                if self.asked.keeps(&row) {
                    rows.push(row);
                }
            }
        }
        let all = amounts().zip(all.cells()).collect();
        let order = if is_tree { Order::Found } else { Order::Keys };
        Table { analysis: "processes", range, columns: columns_of, rows, all, order, ..Table::default() }
    }
}

/// The columns that can be added up.
fn amounts() -> impl Iterator<Item = Column> {
    columns(Unit::Duration, &DURATIONS).chain(columns(Unit::Count, &COUNTS))
}
