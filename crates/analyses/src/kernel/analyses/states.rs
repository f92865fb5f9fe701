//! `states`: what CPUs, threads, disks and interrupts did, row by row (`docs/kernel.md`, section 3.1).

use std::hash::Hash;
use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, CpuPiece, CpuStatus, Happening, Interrupt, Machines, Map, Ns, Observer, ThreadIndex, ThreadPiece,
    ThreadState,
};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::aggregate_map::FEW;
use crate::kernel::aggregate::latest::Latest;
use crate::kernel::analyses::io::disks::{DiskRequest, MAX_REQUESTS};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, CPU_ROWS, DISK_ROWS, FormWord, RowNouns, THREAD_ROWS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, share};
use crate::kernel::rows::state_row::{RowForm, StateKey, StateOf, StateRow, keys_of};
use crate::kernel::rows::state_rows::{NO_PLACE, StateRows, What};
use crate::kernel::rows::store::Rows;
use crate::kernel::table::{Column, Order, Table, Unit};
use crate::kernel::value::{Cell, Value};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "states",
    about: "what CPUs, threads, disks and interrupts did, row by row",
    forms: &[
        AnalysisForm::plain(&[], CPU_ROWS, RowNouns::ROWS),
        AnalysisForm {
            option: "--of cpus",
            word: Some(FormWord::Cpus),
            keys: &[],
            takes: CPU_ROWS,
            nouns: RowNouns::ROWS,
        },
        AnalysisForm {
            option: "--of threads",
            word: Some(FormWord::Threads),
            keys: &[],
            takes: THREAD_ROWS,
            nouns: RowNouns::ROWS,
        },
        AnalysisForm {
            option: "--of disks",
            word: Some(FormWord::Disks),
            keys: &[],
            takes: DISK_ROWS,
            nouns: RowNouns::ROWS,
        },
        AnalysisForm {
            option: "--of irqs",
            word: Some(FormWord::Irqs),
            keys: &[],
            takes: CPU_ROWS,
            nouns: RowNouns::ROWS,
        },
    ],
    needs: &[&[Concept::Switch, Concept::Running, Concept::RqInsert, Concept::RqIssue, Concept::IrqEntry]],
    needs_for: &[("disks", &[Concept::RqInsert, Concept::RqIssue]), ("irqs", &[Concept::IrqEntry, Concept::SoftEntry])],
    wants: &[(Concept::Switch, "threads"), (Concept::SysEntry, "system calls"), (Concept::Wake, "WAIT_CPU")],
    over_periods: None,
    example: "states --of cpus --cpu 1 --begin +300ms --limit 20",
    make: |query| Box::new(States::new(query)),
};

struct States {
    query: AnalysisQuery,
    /// Columns of all kinds of rows.
    columns: Vec<Column>,
    of_cpus: bool,
    of_threads: bool,
    of_disks: bool,
    of_irqs: bool,
    /// The last piece of each CPU, by its index, and of each thread: it may go on.
    cpus: Vec<Option<Open<CpuPiece>>>,
    threads: LastPieces,
    /// Are places for rows kept from their beginnings on? Where some rows are not wanted, there would be too many places.
    has_places: bool,
    /// Besides, is there no range that cuts them?
    is_whole: bool,
    /// Threads that are checked for being dead.
    put_dead_at: usize,
    disks: Map<(u32, i64), Disk>,
    disk_names: Map<(u32, i64), Rc<str>>,
    form: RowForm,
    rows: StateRows,
    /// The time of each CPU in each status, and of each thread in each state, where rows are kept.
    totals: Map<TotalKey, Ns>,
    /// Storage of a row that is passed on.
    cells: Vec<Cell>,
}

/// Machine, number and word of a CPU or thread.
type TotalKey = (u32, i64, TotalOf);

/// The subject of a total, in the order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum TotalOf {
    Cpu(&'static str),
    Thread(&'static str),
}

/// The time of a CPU or a thread in a state.
struct StateTotal {
    number: i64,
    of: TotalOf,
    total: Ns,
    /// Length of the range.
    length: Ns,
}

impl StateTotal {
    const CPU: ColumnOf<'static, Self> = column("cpu", Unit::Name, |row| match row.of {
        TotalOf::Cpu(_) => (row.number as u64).into(),
        TotalOf::Thread(_) => Value::Null,
    });
    const TID: ColumnOf<'static, Self> = column("tid", Unit::Name, |row| match row.of {
        TotalOf::Cpu(_) => Value::Null,
        TotalOf::Thread(_) => row.number.into(),
    });
    const STATUS: ColumnOf<'static, Self> = column("status", Unit::Name, StateTotal::word);
    const STATE: ColumnOf<'static, Self> = column("state", Unit::Name, StateTotal::word);
    const TOTAL: ColumnOf<'static, Self> = column("total_ns", Unit::Duration, |row| row.total.into());
    const SHARE: ColumnOf<'static, Self> = column("share", Unit::Share, |row| share(row.total, row.length));

    const OF_BOTH: &'static [ColumnOf<'static, Self>] = &[Self::CPU, Self::TID, Self::STATE, Self::TOTAL, Self::SHARE];
    const OF_CPUS: &'static [ColumnOf<'static, Self>] = &[Self::CPU, Self::STATUS, Self::TOTAL, Self::SHARE];
    const OF_THREADS: &'static [ColumnOf<'static, Self>] = &[Self::TID, Self::STATE, Self::TOTAL, Self::SHARE];

    fn word(&self) -> Value<'static> {
        let (TotalOf::Cpu(word) | TotalOf::Thread(word)) = self.of;
        Value::Word(word)
    }
}

/// Requests of a disk: those that wait, by their first sector, and those that its driver has.
struct Disk {
    waiting: Requests<i128>,
    driver: Requests<(i128, i128)>,
    since: Ns,
    shown: (u64, u64),
}

impl Disk {
    fn new(since: Ns) -> Self {
        Disk { waiting: Requests::new(), driver: Requests::new(), since, shown: (0, 0) }
    }
}

/// Requests that are open, the latest ones of those that never end.
struct Requests<K> {
    /// How many there are of a key.
    counts: Latest<K, u64>,
    count: u64,
}

impl<K: Copy + Eq + Hash> Requests<K> {
    fn new() -> Self {
        Requests { counts: Latest::new(MAX_REQUESTS), count: 0 }
    }

    fn begin(&mut self, key: K) {
        let before = self.counts.remove(&key).unwrap_or(0);
        let dropped = self.counts.insert(key, before + 1).unwrap_or(0);
        self.count = self.count + 1 - dropped;
    }

    fn end(&mut self, key: K) {
        let Some(count) = self.counts.remove(&key) else { return };
        self.count -= 1;
        if count > 1 {
            self.counts.insert(key, count - 1);
        }
    }
}

/// A piece that may go on.
#[derive(Clone, Copy)]
struct Open<P> {
    piece: P,
    /// The place of its row, and that of the row of the piece after it.
    place: u32,
    next: u32,
}

/// The last piece of each thread that is not dead.
#[derive(Default)]
struct LastPieces {
    /// For each thread one more than its place, or 0.
    places: Vec<u32>,
    pieces: Vec<Open<ThreadPiece>>,
}

impl LastPieces {
    /// Takes a piece, after which rows have the place `next`: lengthens the last one, or gives that one back.
    #[inline]
    fn push(&mut self, piece: &ThreadPiece, next: u32) -> Option<Open<ThreadPiece>> {
        let at = piece.thread.0 as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, 0);
        }
        let place = &mut self.places[at];
        let Some(last) = place.checked_sub(1).and_then(|at| self.pieces.get_mut(at as usize)) else {
            self.pieces.push(Open { piece: *piece, place: NO_PLACE, next });
            *place = self.pieces.len() as u32;
            return None;
        };
        if (last.piece.state, last.piece.to) == (piece.state, piece.from) {
            (last.piece.to, last.next) = (piece.to, next);
            return None;
        }
        let place = if last.piece.to == piece.from { last.next } else { NO_PLACE };
        Some(std::mem::replace(last, Open { piece: *piece, place, next }))
    }

    fn remove(&mut self, thread: ThreadIndex) -> Option<Open<ThreadPiece>> {
        let place = std::mem::take(self.places.get_mut(thread.0 as usize)?).checked_sub(1)?;
        let piece = self.pieces.swap_remove(place as usize);
        if let Some(moved) = self.pieces.get(place as usize) {
            self.places[moved.piece.thread.0 as usize] = place + 1;
        }
        Some(piece)
    }

    /// Takes those of some threads, in the order of their threads.
    fn take_all(&mut self, is_wanted: impl Fn(ThreadIndex) -> bool) -> Vec<Open<ThreadPiece>> {
        let mut found: Vec<ThreadIndex> =
            self.pieces.iter().map(|open| open.piece.thread).filter(|thread| is_wanted(*thread)).collect();
        found.sort_unstable();
        found.into_iter().filter_map(|thread| self.remove(thread)).collect()
    }

    /// All of them, by their threads.
    fn into_all(self) -> impl Iterator<Item = Open<ThreadPiece>> {
        let LastPieces { places, pieces } = self;
        places.into_iter().filter_map(move |place| pieces.get(place.checked_sub(1)? as usize).copied())
    }
}

impl States {
    fn new(query: &AnalysisQuery) -> Self {
        let is_any = [FormWord::Cpus, FormWord::Threads, FormWord::Disks, FormWord::Irqs]
            .into_iter()
            .any(|word| query.has(word));
        let mut states = States {
            columns: Vec::new(),
            of_cpus: !is_any || query.has(FormWord::Cpus),
            // No row of a thread is of one CPU, and none of a disk is of a CPU or a thread.
            of_threads: (!is_any || query.has(FormWord::Threads)) && query.cpus.is_none(),
            of_disks: query.has(FormWord::Disks) && query.cpus.is_none() && !query.chooses_threads(),
            of_irqs: query.has(FormWord::Irqs),
            query: query.clone(),
            cpus: Vec::new(),
            threads: LastPieces::default(),
            has_places: query.sink.is_none()
                && query.states.is_none()
                && query.test.is_none()
                && !query.has_machines
                && !query.chooses_threads()
                && query.cpus.is_none(),
            is_whole: query.begin.is_none() && query.end.is_none(),
            put_dead_at: FEW,
            disks: Map::default(),
            disk_names: Map::default(),
            form: RowForm::default(),
            rows: StateRows::default(),
            totals: Map::default(),
            cells: Vec::new(),
        };
        states.columns = states.row_columns();
        states.form = RowForm::new(&states.columns, query.machine_names.clone());
        states.rows = StateRows::new(states.form.clone());
        states
    }

    /// The columns of all kinds of rows; a row has those of its kind.
    fn row_columns(&self) -> Vec<Column> {
        let kinds = [self.of_irqs, self.of_cpus, self.of_threads, self.of_disks].into_iter().zip([3, 0, 1, 2]);
        let mut keys = Vec::new();
        for key in kinds.filter(|(is_shown, _)| *is_shown).flat_map(|(_, kind)| keys_of(kind)) {
            if *key != StateKey::Duration && !keys.contains(key) {
                keys.push(*key);
            }
        }
        // It came after the others: in CSV, it does not move them.
        keys.push(StateKey::Duration);
        self.query.columns(keys.into_iter().map(StateKey::column))
    }

    /// A place for a row that begins at a time.
    #[inline]
    fn reserve(&mut self, at: Ns) -> u32 {
        if !self.has_places {
            return NO_PLACE;
        }
        let is_in_range = self.is_whole
            || self.query.begin.is_none_or(|begin| at >= begin) && self.query.end.is_none_or(|end| at < end);
        if is_in_range { self.rows.reserve(at) } else { NO_PLACE }
    }

    /// Adds the time of a row that is kept to the totals.
    fn add(&mut self, machine: u32, number: i64, of: TotalOf, length: Ns) {
        *self.totals.entry((machine, number, of)).or_default() += length;
    }

    /// Adds a row that is kept.
    fn keep_row(&mut self, row: &StateRow, place: u32) {
        self.add_to_totals(row);
        self.rows.push(row, place);
    }

    fn add_to_totals(&mut self, row: &StateRow) {
        let of = match row.of {
            StateOf::Cpu { status, .. } => Some(TotalOf::Cpu(status.name())),
            StateOf::Thread(state) => Some(TotalOf::Thread(state.name())),
            StateOf::Disk { .. } | StateOf::Irq { .. } => None,
        };
        if let Some(of) = of {
            self.add(row.machine, row.number, of, row.duration());
        }
    }

    /// The totals: their columns, and for each CPU and thread the time and the share of the range in each state.
    fn totals(&mut self, range: Option<(Ns, Ns)>) -> Option<(Vec<Column>, Vec<Vec<Cell>>)> {
        let columns = match (self.of_cpus, self.of_threads) {
            (true, true) => StateTotal::OF_BOTH,
            (true, false) => StateTotal::OF_CPUS,
            (false, true) => StateTotal::OF_THREADS,
            (false, false) => return None,
        };
        let length = range.map_or(0, |(from, to)| to - from);
        let totals = std::mem::take(&mut self.totals).into_iter().filter(|(_, total)| *total > 0);
        let mut totals: Vec<(TotalKey, Ns)> = totals.collect();
        let is_thread = |of: TotalOf| matches!(of, TotalOf::Thread(_));
        totals.sort_by_key(|((machine, number, of), total)| (is_thread(*of), *machine, *number, -total, *of));
        let rows = totals
            .into_iter()
            .map(|((machine, number, of), total)| (machine, StateTotal { number, of, total, length }));
        Some(self.query.totals(columns, rows))
    }

    #[inline]
    fn emit_row(&mut self, row: &mut StateRow, place: u32) {
        let Some((from, to)) = self.query.clip(row.from, row.to) else { return };
        (row.from, row.to) = (from, to);
        let States { query, form, cells, .. } = self;
        if query.test.is_none() {
            match &query.states {
                Some(sink) => {
                    (sink.borrow_mut())(row);
                    if query.keeps_states {
                        self.add_to_totals(row);
                    }
                    return;
                }
                None if query.sink.is_none() => return self.keep_row(row, place),
                None => {}
            }
        }
        cells.clear();
        form.append_cells(row, cells);
        if !query.accepts_row(cells) {
            return;
        }
        match &query.sink {
            Some(sink) => (sink.borrow_mut())(&cells.iter().map(Value::from).collect::<Vec<_>>()),
            None => self.keep_row(row, place),
        }
    }

    fn put_cpu(&mut self, machines: &Machines, open: &Open<CpuPiece>) {
        let Open { piece, place, .. } = open;
        let (cpu, thread) = (machines.cpu(piece.cpu), piece.thread.flatten());
        let tid = piece.thread.map(|thread| thread.map_or(0, |thread| machines.thread(thread).tid));
        if self.has_places && self.is_whole {
            // All rows are wanted, and most of them fit their places.
            let (what, other) = match tid {
                Some(tid) => (What::Cpu(piece.status), tid),
                None => (What::Unknown(piece.status), 0),
            };
            if self.rows.try_set((piece.from, piece.to), cpu.number as i64, other, what, *place) {
                let of = TotalOf::Cpu(piece.status.name());
                return self.add(cpu.machine, cpu.number as i64, of, piece.to - piece.from);
            }
        }
        if !self.query.wants_cpu(machines, Some(piece.cpu)) || !self.query.wants_thread(machines, thread) {
            return;
        }
        let what = StateOf::Cpu { tid, status: piece.status };
        let (from, to, machine, number) = (piece.from, piece.to, cpu.machine, cpu.number as i64);
        self.emit_row(&mut StateRow { from, to, machine, number, of: what }, *place);
    }

    fn put_thread(&mut self, machines: &Machines, open: &Open<ThreadPiece>) {
        let Open { piece, place, .. } = open;
        if self.has_places && self.is_whole {
            let tid = machines.thread(piece.thread).tid;
            if self.rows.try_set((piece.from, piece.to), tid, 0, What::Thread(piece.state), *place) {
                let of = TotalOf::Thread(piece.state.name());
                return self.add(machines.thread(piece.thread).machine, tid, of, piece.to - piece.from);
            }
        }
        if !self.query.wants_thread(machines, Some(piece.thread)) {
            return;
        }
        let thread = machines.thread(piece.thread);
        let (machine, number, what) = (thread.machine, thread.tid, StateOf::Thread(piece.state));
        self.emit_row(&mut StateRow { from: piece.from, to: piece.to, machine, number, of: what }, *place);
    }

    /// Puts the last pieces of threads that are dead: nothing lengthens them.
    #[cold]
    fn put_dead(&mut self, machines: &Machines) {
        for piece in self.threads.take_all(|thread| machines.thread(thread).state() == ThreadState::Dead) {
            self.put_thread(machines, &piece);
        }
        self.put_dead_at = FEW.max(2 * self.threads.pieces.len());
    }

    fn put_disk(&mut self, key: (u32, i64), to: Ns) {
        let Some(disk) = self.disks.get(&key) else { return };
        let (from, (waiting, driver)) = (disk.since, disk.shown);
        let what = StateOf::Disk { name: self.disk_names.get(&key).cloned(), waiting, driver };
        self.emit_row(&mut StateRow { from, to, machine: key.0, number: key.1, of: what }, NO_PLACE);
    }

    fn request(&mut self, begin: Ns, machine: u32, happening: &Happening<'_>, at: Ns) {
        let Some(DiskRequest { dev, sector, sectors }) = DiskRequest::from_event(happening) else { return };
        let key = (machine, dev);
        let disk = self.disks.entry(key).or_insert_with(|| Disk::new(begin));
        match happening.concept {
            Concept::RqInsert => disk.waiting.begin(sector),
            Concept::RqIssue => {
                disk.waiting.end(sector);
                disk.driver.begin((sector, sectors));
            }
            _ => disk.driver.end((sector, sectors)),
        }
        let now = (disk.waiting.count, disk.driver.count);
        if now != disk.shown {
            self.put_disk(key, at);
            if let Some(disk) = self.disks.get_mut(&key) {
                (disk.since, disk.shown) = (at, now);
            }
        }
    }
}

impl Observer for States {
    fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
        if !self.of_cpus {
            return;
        }
        let at = piece.cpu.0 as usize;
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, None);
        }
        let next = self.reserve(piece.to);
        let place = match &mut self.cpus[at] {
            Some(Open { piece: last, next: of_last, .. }) if last.to == piece.from => {
                if (last.thread, last.status) == (piece.thread, piece.status) {
                    (last.to, *of_last) = (piece.to, next);
                    return;
                }
                *of_last
            }
            _ => NO_PLACE,
        };
        if let Some(last) = self.cpus[at].replace(Open { piece: *piece, place, next }) {
            self.put_cpu(machines, &last);
        }
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if !self.of_threads {
            return;
        }
        let next = self.reserve(piece.to);
        if let Some(last) = self.threads.push(piece, next) {
            self.put_thread(machines, &last);
        }
        if piece.state == ThreadState::Dead {
            // A dead thread has no further states in this life.
            let last = self.threads.remove(piece.thread);
            last.iter().for_each(|last| self.put_thread(machines, last));
        } else if self.threads.pieces.len() >= self.put_dead_at {
            self.put_dead(machines);
        }
    }

    fn interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {
        if !self.of_irqs || !self.query.wants_interrupt(machines, interrupt) {
            return;
        }
        let cpu = machines.cpu(interrupt.cpu);
        let what = StateOf::Irq { kind: interrupt.kind, cpu: cpu.number };
        let Interrupt { from, to, number, .. } = *interrupt;
        self.emit_row(&mut StateRow { from, to, machine: cpu.machine, number, of: what }, NO_PLACE);
    }

    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if !self.of_disks {
            return;
        }
        match happening.concept {
            Concept::DumpDisk => {
                if let (Some(dev), Some(name)) = (happening.number(Field::Dev), happening.text(Field::Name)) {
                    self.disk_names.insert((machine, dev), name.into());
                    let since = machines.begin().unwrap_or(at);
                    self.disks.entry((machine, dev)).or_insert_with(|| Disk::new(since));
                }
            }
            Concept::RqInsert | Concept::RqIssue | Concept::RqComplete => {
                self.request(machines.begin().unwrap_or(at), machine, happening, at);
            }
            _ => {}
        }
    }
}

impl Analysis for States {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        use ReportKind::{Applied, CpuPiece, Interrupt, ThreadPiece};
        let reports: &[ReportKind] = match (self.of_disks, self.of_irqs) {
            (true, true) => &[CpuPiece, ThreadPiece, Applied, Interrupt],
            (true, false) => &[CpuPiece, ThreadPiece, Applied],
            (false, true) => &[CpuPiece, ThreadPiece, Interrupt],
            (false, false) => &[CpuPiece, ThreadPiece],
        };
        // Requests that are open in the range may be older.
        (reports, if self.of_disks { ReportTimes::All } else { ReportTimes::Range })
    }

    fn finish(mut self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        for piece in std::mem::take(&mut self.cpus).into_iter().flatten() {
            self.put_cpu(machines, &piece);
        }
        for piece in std::mem::take(&mut self.threads).into_all() {
            self.put_thread(machines, &piece);
        }
        let mut disks: Vec<(u32, i64)> = self.disks.keys().copied().collect();
        disks.sort_unstable();
        for key in disks {
            self.put_disk(key, machines.now());
        }
        let (columns, totals) = (self.columns.clone(), self.totals(range));
        let States { rows: mut states, mut cells, query, .. } = *self;
        states.sort();
        let table = Table { analysis: "states", range, columns, totals, order: Order::Found, ..Table::default() };
        if query.keeps_states {
            return Table { states: Some(states), ..table };
        }
        let mut rows = Rows::default();
        states.for_each(&mut |row| {
            cells.clear();
            states.form.append_cells(row, &mut cells);
            rows.push(&cells);
        });
        Table { rows, ..table }
    }
}

/// Status names of CPUs in the order in which tables have their columns.
pub(crate) fn is_system(status: CpuStatus) -> bool {
    matches!(status, CpuStatus::Syscall | CpuStatus::Trap | CpuStatus::Kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::played::{played, rows};

    #[test]
    fn totals_are_sums_of_rows() {
        let stream = "100 0 switch prev=0 next=5
            150 0 sys_exit ret=0
            160 0 irq_entry nr=1
            170 0 irq_exit nr=1
            200 0 switch prev=5 next=0 state=1
            250 0 switch prev=0 next=5
            300 0 -";
        let totals = |query: &AnalysisQuery| {
            let (columns, totals) = played(&DESCRIPTOR, query, stream).totals.expect("totals");
            rows(
                &Table { columns, rows: totals.into(), ..Table::default() },
                &["cpu", "tid", "state", "total_ns", "share"],
            )
        };
        let want = [
            "0 - user 90 0.45",
            "0 - idle 50 0.25",
            "0 - unknown 50 0.25",
            "0 - irq 10 0.05",
            "- 5 RUN/user 90 0.45",
            "- 5 RUN/unknown 50 0.25",
            "- 5 WAIT 50 0.25",
            "- 5 INTERRUPTED 10 0.05",
        ];
        // Rows with places are counted as those without.
        for keeps_states in [false, true] {
            assert_eq!(totals(&AnalysisQuery { keeps_states, ..AnalysisQuery::default() }).len(), 8);
            assert!(
                totals(&AnalysisQuery { keeps_states, ..AnalysisQuery::default() })
                    .iter()
                    .all(|row| want.contains(&&**row))
            );
        }
        let cut = AnalysisQuery { begin: Some(180), end: Some(220), ..AnalysisQuery::default() };
        assert_eq!(totals(&cut), ["0 - idle 20 0.5", "0 - user 20 0.5", "- 5 RUN/user 20 0.5", "- 5 WAIT 20 0.5"]);
    }

    #[test]
    fn rows_of_all_kinds_end_with_their_duration() {
        let stream = "100 0 switch prev=0 next=5
            110 0 irq_entry nr=1
            130 0 irq_exit nr=1
            140 0 rq_insert dev=8 sector=1 nr_sector=8
            200 0 switch prev=5 next=0 state=1
            300 0 -";
        let words = [FormWord::Cpus, FormWord::Threads, FormWord::Disks, FormWord::Irqs];
        let of = |words: &[FormWord]| AnalysisQuery { words: words.to_vec(), ..AnalysisQuery::default() };
        for query in words.chunks(1).chain([&words[..]]).map(of) {
            for (begin, end) in [(None, None), (Some(120), Some(180))] {
                let table = played(&DESCRIPTOR, &AnalysisQuery { begin, end, ..query.clone() }, stream);
                let last = table.columns.last().map(|column| (&*column.name, column.unit));
                assert_eq!(last, Some(("duration_ns", Unit::Duration)), "{:?}", query.words);
                let found = rows(&table, &["from", "to", "duration_ns"]);
                assert!(!found.is_empty(), "{:?}", query.words);
                for row in found {
                    let numbers: Vec<i64> = row.split(' ').map(|number| number.parse().unwrap()).collect();
                    assert_eq!(numbers[2], numbers[1] - numbers[0], "{:?}: {row}", query.words);
                }
            }
        }
        // People see it next to the end.
        let table = played(&DESCRIPTOR, &of(&words[..2]), stream);
        let shown: Vec<&str> = table.shown_columns().map(|(_, column)| &*column.name).collect();
        assert_eq!(shown, ["cpu", "from", "to", "duration_ns", "tid", "status", "state"]);
    }

    #[test]
    fn requests_of_a_disk_are_counted() {
        let stream = "100 0 -
            110 0 rq_insert dev=8 sector=1 nr_sector=8
            120 0 rq_insert dev=8 sector=1 nr_sector=8
            130 0 rq_issue dev=8 sector=1 nr_sector=8
            140 0 rq_issue dev=8 sector=9 nr_sector=0
            140 0 rq_insert dev=8 sector=9 nr_sector=-1
            150 0 rq_complete dev=8 sector=1 nr_sector=8
            160 0 rq_complete dev=8 sector=1 nr_sector=8
            170 0 -";
        let query = AnalysisQuery { words: vec![FormWord::Disks], ..AnalysisQuery::default() };
        let found = rows(&played(&DESCRIPTOR, &query, stream), &["from", "to", "waiting", "driver"]);
        assert_eq!(found, ["100 110 0 0", "110 120 1 0", "120 130 2 0", "130 150 1 1", "150 170 1 0"]);
    }

    #[test]
    fn of_too_many_requests_the_oldest_go() {
        let mut requests = Requests::new();
        (0..2).for_each(|_| requests.begin(0));
        (1..MAX_REQUESTS as i128).for_each(|sector| requests.begin(sector));
        assert_eq!(requests.count, MAX_REQUESTS as u64 + 1);
        // Two of the oldest sector go.
        requests.begin(-1);
        assert_eq!(requests.count, MAX_REQUESTS as u64);
        requests.end(0);
        assert_eq!(requests.count, MAX_REQUESTS as u64);
        requests.end(-1);
        assert_eq!(requests.count, MAX_REQUESTS as u64 - 1);
    }
}
