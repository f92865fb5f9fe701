//! `heap`: memory that programs allocate and free (`docs/kernel.md`, section 3.22).

mod blocks;
mod calls;
mod rows;
mod sums;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use tracemill_format::calls::CallTask;
use tracemill_semantics::states::{CpuIndex, Happening, Machines, Map, Ns, Observer};
use tracemill_semantics::{Concept, Field};
use tracemill_table::Address;

use self::blocks::{Block, BlockEvent, BlockEventKind, Blocks, HeapChange, Process};
use self::calls::{HeapCall, HeapCalls};
use self::rows::{GroupLabel, HeapRow, Labels, Left};
use self::sums::{HeapSums, Level};
use crate::kernel::aggregate::aggregate_map::{AggregateMap, rows_of};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, AnalysisOption, FormWord, RowNouns};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::cells_of;
use crate::kernel::table::{Order, Table};

tracemill_semantics::named! {
    /// Keys of groups.
    By {
        /// The process.
        Process = "process",
        /// The thread.
        Thread = "thread",
        /// The function that allocates or frees.
        Call = "call",
        /// The place that called it.
        Place = "place",
        /// The path of calls to it.
        Path = "path",
    }
}

/// Keys of blocks that were never freed. The place is first: it says most about them.
const LEFT_BY: &[&str] = &["place", "process", "thread", "call", "path"];

/// Options of sums. Blocks from before a period count, so that these are not made for periods.
const SUMS: &[AnalysisOption] = &[AnalysisOption::By, AnalysisOption::Step, AnalysisOption::Begin];
const LEFT: &[AnalysisOption] = &[AnalysisOption::By, AnalysisOption::Begin];

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "heap",
    about: "memory that programs allocate and free: how much, where, and what was never freed",
    forms: &[
        AnalysisForm::plain(
            By::NAMES,
            SUMS,
            RowNouns::for_groups(&["processes", "threads", "calls", "places", "paths"]),
        ),
        AnalysisForm {
            option: "--of leaks",
            word: Some(FormWord::Leaks),
            keys: LEFT_BY,
            takes: LEFT,
            nouns: RowNouns::for_groups(&["places", "processes", "threads", "calls", "paths"]),
        },
    ],
    needs: &[&[Concept::HeapAlloc, Concept::HeapRealloc, Concept::HeapFree]],
    needs_for: &[("leaks", &[Concept::HeapAlloc, Concept::HeapRealloc])],
    wants: &[
        (Concept::HeapAlloc, "what was allocated"),
        (Concept::HeapRealloc, "which blocks changed their sizes"),
        (Concept::HeapFree, "what was freed"),
    ],
    over_periods: None,
    example: "heap --by call demo/heap/larder.jsonl",
    make: |query| Box::new(Heap::new(query)),
};

/// The machine and the process of a group, and the number of its thread, its call, its place or its path.
type HeapGroup = (u32, Option<u32>, Option<i128>);

/// The first number of a place that is a function: below it are addresses.
const FIRST_FUNCTION: i128 = 1 << 64;

/// The thread that an event is of, by its number, and what tells of the event.
#[derive(Clone, Copy)]
struct Allocator<'h> {
    machine: u32,
    process: u32,
    tid: Option<i64>,
    source: BlockSource<'h>,
}

#[derive(Clone, Copy)]
enum BlockSource<'h> {
    /// An event of the C library.
    Library(&'h Happening<'h>),
    /// A call of a function, by its number; does it free?
    Call(u32, bool),
}

/// A group that blocks belong to.
struct Group {
    label: GroupLabel,
    process: Option<u32>,
    /// The address after the call.
    site: Option<u64>,
    /// The time of its first event.
    at: Ns,
    level: Level,
}

struct Heap {
    query: AnalysisQuery,
    by: By,
    /// Blocks that were never freed, instead of sums?
    is_left: bool,
    blocks: Blocks,
    /// The level of each process, as its end releases all.
    of_processes: Map<u32, Level>,
    numbers: Map<HeapGroup, u32>,
    groups: Vec<Group>,
    /// Names of calls, by number.
    call_names: Vec<Rc<str>>,
    /// The calls of programs that are open.
    calls: HeapCalls,
    /// Paths of calls, by number: the numbers of functions, outermost first.
    paths: Map<Rc<[u32]>, u32>,
    path_list: Vec<Rc<[u32]>>,
    /// Numbers and names of the processes of threads whose calls were recorded, by machine and thread.
    tasks: Map<(u32, i64), (i64, Rc<str>)>,
    /// By step, machine, process and group.
    sums: AggregateMap<4, HeapSums>,
    level: Level,
    all: HeapSums,
}

impl Heap {
    fn new(query: &AnalysisQuery) -> Self {
        let is_left = query.has(FormWord::Leaks);
        let default = if is_left { By::Place } else { By::Process };
        Heap {
            by: query.key(By::from_name).unwrap_or(default),
            query: query.clone(),
            is_left,
            blocks: Blocks::default(),
            of_processes: Map::default(),
            numbers: Map::default(),
            groups: Vec::new(),
            call_names: Vec::new(),
            calls: HeapCalls::default(),
            paths: Map::default(),
            path_list: Vec::new(),
            tasks: Map::default(),
            sums: AggregateMap::default(),
            level: Level::default(),
            all: HeapSums::default(),
        }
    }

    /// The group of an event.
    fn group(&mut self, of: &Allocator<'_>, at: Ns) -> u32 {
        let Allocator { machine, process, tid, .. } = *of;
        let key: HeapGroup = match self.by {
            By::Process => (machine, Some(process), None),
            By::Thread => (machine, Some(process), tid.map(i128::from)),
            By::Place => (machine, Some(process), self.site(of)),
            By::Path => (machine, Some(process), self.path(of)),
            By::Call => {
                let name = match of.source {
                    BlockSource::Library(happening) => happening.text(Field::Name).map(|name| name.as_ref().into()),
                    BlockSource::Call(symbol, _) => Some(self.calls.name(symbol)),
                };
                (machine, None, name.map(|name| self.call(name)))
            }
        };
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => self.new_group(key, at),
        };
        if self.by == By::Thread {
            let comm: Option<Rc<str>> = match of.source {
                BlockSource::Library(happening) => happening.text(Field::Comm).map(|comm| comm.as_ref().into()),
                BlockSource::Call(..) => tid.and_then(|tid| Some(self.tasks.get(&(machine, tid))?.1.clone())),
            };
            let own = &mut self.groups[number as usize].label.comm;
            if comm.is_some() && *own != comm {
                *own = comm;
            }
        }
        number
    }

    /// The number of the place that an event is from.
    fn site(&self, of: &Allocator<'_>) -> Option<i128> {
        match of.source {
            // Addresses may be signed numbers in the trace.
            BlockSource::Library(happening) => {
                happening.values.integer(Field::Site).filter(|site| *site != 0).map(|site| i128::from(site as u64))
            }
            BlockSource::Call(_, is_free) => {
                let callers = self.calls.callers(of.machine, of.tid?, is_free);
                callers.last().map(|caller| FIRST_FUNCTION + i128::from(*caller))
            }
        }
    }

    /// The number of the path of calls that an event is from.
    fn path(&mut self, of: &Allocator<'_>) -> Option<i128> {
        let BlockSource::Call(_, is_free) = of.source else { return None };
        let callers: Rc<[u32]> = self.calls.callers(of.machine, of.tid?, is_free).into();
        let paths = &mut self.path_list;
        let number = *self.paths.entry(callers).or_insert_with_key(|callers| {
            paths.push(callers.clone());
            paths.len() as u32 - 1
        });
        Some(number.into())
    }

    fn new_group(&mut self, key: HeapGroup, at: Ns) -> u32 {
        let number = self.groups.len() as u32;
        self.numbers.insert(key, number);
        let (machine, process, of) = key;
        let pid = process.and_then(|process| self.blocks.processes[process as usize].pid);
        let mut label = GroupLabel { machine, pid, ..GroupLabel::default() };
        let mut site = None;
        match self.by {
            By::Process => {}
            By::Thread => label.tid = of.and_then(|tid| i64::try_from(tid).ok()),
            By::Call => label.call = of.and_then(|call| self.call_names.get(call as usize).cloned()),
            By::Place => match of.and_then(|site| site.checked_sub(FIRST_FUNCTION)) {
                Some(function @ 0..) => label.place = Some(self.calls.name(function as u32).to_string()),
                _ => site = of.map(|site| site as u64),
            },
            By::Path => {
                let path = of.and_then(|path| self.path_list.get(path as usize));
                label.path = path.map(|functions| {
                    let names: Vec<Rc<str>> = functions.iter().map(|function| self.calls.name(*function)).collect();
                    names.join(";")
                });
            }
        }
        self.groups.push(Group { label, process, site, at, level: Level::default() });
        number
    }

    /// The number of a call's name: there are a few.
    fn call(&mut self, name: Rc<str>) -> i128 {
        let known = self.call_names.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            self.call_names.push(name);
            self.call_names.len() - 1
        }) as i128
    }

    /// Adds counts to a group, and changes its level.
    fn add(&mut self, machines: &Machines, at: Ns, group: u32, counts: &HeapSums, change: Level) {
        let Group { label, level, .. } = &mut self.groups[group as usize];
        let before = *level;
        *level = before.plus(change);
        if !self.query.has_instant(at) || self.is_left {
            return;
        }
        let step = self.query.step_of(machines.begin(), at);
        let sums = self.sums.entry(Labels::key(label.machine, label.pid, group, step));
        sums.begin_at(before);
        sums.count(counts);
        sums.note_level(*level, at);
    }

    /// Changes the level of a process, and of all together.
    fn change_total(&mut self, at: Ns, process: u32, counts: &HeapSums, change: Level) {
        let before = self.level;
        for level in [&mut self.level, self.of_processes.entry(process).or_default()] {
            *level = level.plus(change);
        }
        if self.query.has_instant(at) {
            self.all.begin_at(before);
            self.all.count(counts);
            self.all.note_level(self.level, at);
        }
    }

    /// Takes what an event says about one block.
    fn apply(&mut self, machines: &Machines, at: Ns, process: u32, group: u32, change: HeapChange) {
        let none = HeapSums::default();
        let freed = |block: &Block| Level { blocks: -1, bytes: -i128::from(block.bytes) };
        let (counts, owner, level) = match change {
            HeapChange::Allocated(bytes) => {
                let counts = HeapSums { allocs: 1, bytes: bytes.into(), ..none };
                (counts, group, Level { blocks: 1, bytes: bytes.into() })
            }
            HeapChange::Failed => (HeapSums { failed: 1, ..none }, group, Level::default()),
            HeapChange::Freed(None) => (HeapSums { frees: 1, unknown_frees: 1, ..none }, group, Level::default()),
            HeapChange::Freed(Some(ref block)) | HeapChange::Replaced(ref block) => {
                let counts = HeapSums { frees: 1, freed: block.bytes.into(), ..none };
                (counts, block.group, freed(block))
            }
        };
        self.change_total(at, process, &counts, level);
        // A free belongs to the thread and the call that freed, if they were seen, but to the place where its block was made.
        if owner == group || self.by == By::Place || matches!(change, HeapChange::Replaced(_)) {
            self.add(machines, at, owner, &counts, level);
        } else {
            self.add(machines, at, group, &counts, Level::default());
            self.add(machines, at, owner, &none, level);
        }
    }

    /// Takes an event.
    fn take(&mut self, machines: &Machines, at: Ns, of: &Allocator<'_>, event: &BlockEvent) {
        let group = self.group(of, at);
        // An event says something about three blocks at most.
        let mut changes = [None, None, None];
        let mut count = 0;
        self.blocks.apply((of.process, of.tid), group, event, at, |change| {
            changes[count] = Some(change);
            count += 1;
        });
        changes.into_iter().flatten().for_each(|change| self.apply(machines, at, of.process, group, change));
    }

    /// Takes the entry or the exit of a function of a program.
    fn take_call(&mut self, machines: &Machines, machine: u32, happening: &Happening<'_>, at: Ns) {
        let Some(HeapCall { symbol, event }) = self.calls.apply(machine, happening) else { return };
        let tid = happening.number(Field::Vtid);
        let task = tid.and_then(|tid| self.tasks.get(&(machine, tid)));
        let (pid, comm) = task.map_or((None, None), |(pid, comm)| (Some(*pid), Some(comm)));
        let process = self.blocks.process(machine, (pid, tid), || comm);
        let source = BlockSource::Call(symbol, event.kind == BlockEventKind::Free);
        self.take(machines, at, &Allocator { machine, process, tid, source }, &event);
    }

    /// Sentences on events that lack something.
    fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let has_groups = !self.groups.is_empty();
        if self.by == By::Place
            && has_groups
            && self.groups.iter().all(|group| group.site.is_none() && group.label.place.is_none())
        {
            sentences
                .push("the events do not say where they were called: record them with the context `ip`".to_string());
        }
        if self.by == By::Path && has_groups && self.groups.iter().all(|group| group.label.path.is_none()) {
            sentences.push(
                "the events do not say the path of calls: record the calls of the program with `tracemill record -a`"
                    .to_string(),
            );
        }
        if self.calls.without_values > 0 {
            sentences.push(format!(
                "calls that allocate or free, and are left out because their values were not recorded: {}; \
                 `tracemill record -a` and `uftrace record -a` record arguments and return values",
                self.calls.without_values
            ));
        }
        if self.calls.without_address > 0 {
            sentences.push(format!(
                "blocks of posix_memalign that are left out because no value of the call says their addresses: {}",
                self.calls.without_address
            ));
        }
        sentences
    }

    /// The rows of all groups.
    fn labels(&self) -> Vec<GroupLabel> {
        let label = |group: &Group| {
            let mut label = group.label.clone();
            let process: Option<&Process> = group.process.map(|process| &self.blocks.processes[process as usize]);
            label.comm = label.comm.or_else(|| process.and_then(|process| process.comm.clone()));
            label.place = label.place.or_else(|| group.site.map(|site| self.place(group, site)));
            label
        };
        self.groups.iter().map(label).collect()
    }

    /// The name of the place of a group.
    fn place(&self, group: &Group, site: u64) -> String {
        let places = self.query.places.as_ref().zip(group.label.pid);
        let name = places.and_then(|(places, pid)| places.name(group.label.machine, pid, site, group.at));
        name.unwrap_or_else(|| Address(site.into()).to_string())
    }

    /// The blocks of each group that were not freed.
    fn left(&self) -> Vec<Left> {
        let mut left = vec![Left::default(); self.groups.len()];
        let is_wanted = |block: &&Block| self.query.has_instant(block.at);
        for block in self.blocks.left().filter(is_wanted) {
            left[block.group as usize].add(block.bytes, block.at);
        }
        left
    }
}

impl Observer for Heap {
    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if self.query.end.is_some_and(|end| at > end) {
            return;
        }
        match happening.concept {
            Concept::HeapAlloc | Concept::HeapRealloc | Concept::HeapFree => {}
            Concept::CallEntry | Concept::CallValues | Concept::CallExit => {
                self.take_call(machines, machine, happening, at);
                return;
            }
            Concept::Exit | Concept::Exec => {
                let ended = happening.number(Field::Tid).and_then(|pid| self.blocks.end(machine, pid));
                if let Some(level) = ended.and_then(|process| self.of_processes.remove(&process)) {
                    self.level.blocks -= level.blocks;
                    self.level.bytes -= level.bytes;
                }
                return;
            }
            _ => return,
        }
        let numbers = (happening.number(Field::Vpid), happening.number(Field::Vtid));
        let process = self.blocks.process(machine, numbers, || happening.text(Field::Comm));
        let of = Allocator { machine, process, tid: numbers.1, source: BlockSource::Library(happening) };
        self.take(machines, at, &of, &BlockEvent::of_library(happening));
    }
}

impl Analysis for Heap {
    fn met_task(&mut self, machine: u32, task: &CallTask) {
        let name = if task.name.is_empty() { &task.first_name } else { &task.name };
        self.tasks.insert((machine, task.tid), (task.pid, String::from_utf8_lossy(name).into()));
    }

    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        // Blocks that are freed in the range may be older.
        (&[ReportKind::Applied], ReportTimes::All)
    }

    fn finish(mut self: Box<Self>, _: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let mut notes = vec![
            ("dropped_blocks", self.blocks.dropped),
            ("replaced_blocks", self.blocks.replaced),
            ("bad_fields", self.blocks.bad_fields),
            ("unvalued_calls", self.calls.without_values),
            ("unplaced_blocks", self.calls.without_address),
        ];
        notes.retain(|(_, count)| *count > 0);
        let mut table = Table { analysis: "heap", range, notes, ..Table::default() };
        table.sentences = self.sentences();
        let labels = self.labels();
        if self.is_left {
            let left = self.left();
            let mut all = HeapRow::default();
            for of in &left {
                all.left.blocks += of.blocks;
                all.left.bytes = all.left.bytes.saturating_add(of.bytes);
            }
            let found = labels.iter().zip(left).filter(|(_, left)| left.blocks > 0);
            let found = found.map(|(label, left)| {
                (0, label.machine, HeapRow { label: Some(label), sums: HeapSums::default(), left })
            });
            (table.columns, table.rows) = self.query.step_rows(range, HeapRow::columns_of_left(self.by), found);
            table.all = cells_of(HeapRow::LEFT_OF_ALL, &all);
            table.order = Order::Largest("bytes");
            return table;
        }
        // Groups without an event in the range have their level all the time.
        if self.query.step.is_none() {
            for (group, number) in self.groups.iter().zip(0..).filter(|(group, _)| group.level != Level::default()) {
                let key = Labels::key(group.label.machine, group.label.pid, number, 0);
                self.sums.entry(key).begin_at(group.level);
            }
        }
        self.all.begin_at(self.level);
        self.all.end = self.groups.iter().fold(Level::default(), |all, group| all.plus(group.level));
        table.all = cells_of(HeapRow::OF_ALL, &HeapRow { sums: self.all, ..HeapRow::default() });
        let sums = self.sums.finish(self.query.last_step(range));
        (table.columns, table.rows) = rows_of(&self.query, range, sums, Labels { by: self.by, labels }, |_| true);
        table.order = if self.query.step.is_some() { Order::Keys } else { Order::Largest("bytes") };
        table
    }
}
