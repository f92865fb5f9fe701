//! `states`: what CPUs, threads, disks and interrupts did, row by row (section 3.1).

use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, CpuPiece, CpuStatus, Happening, Interrupt, Machines, Map, Ns, Observer, ThreadIndex, ThreadPiece,
    ThreadState,
};
use tracemill_semantics::{Concept, Field};

use super::rows::Rows;
use super::state_rows::{RowForm, StateOf, StateRow, StateRows, keys_of};
use super::table::{Cell, Column, Order, Table, Unit};
use super::{Analysis, Asked, Known};

pub(super) const KNOWN: Known = Known {
    name: "states",
    about: "what CPUs, threads, disks and interrupts did, row by row",
    by: &[],
    words: &["cpus", "threads", "disks", "irqs"],
    has_spans: false,
    needs: &[&[Concept::Switch, Concept::Running, Concept::RqInsert, Concept::RqIssue, Concept::IrqEntry]],
    needs_for: &[("disks", &[Concept::RqInsert, Concept::RqIssue]), ("irqs", &[Concept::IrqEntry, Concept::SoftEntry])],
    wants: &[(Concept::Switch, "threads"), (Concept::SysEntry, "system calls"), (Concept::Wake, "WAIT_CPU")],
    make: |asked| Box::new(States::new(asked)),
};

struct States {
    asked: Asked,
    /// Columns of all kinds of rows.
    columns: Vec<Column>,
    of_cpus: bool,
    of_threads: bool,
    of_disks: bool,
    of_irqs: bool,
    /// The last piece of each CPU, by its index, and of each thread: it may go on.
    cpus: Vec<Option<CpuPiece>>,
    threads: Map<ThreadIndex, ThreadPiece>,
    /// So many threads are looked at whether they are dead.
    put_dead_at: usize,
    disks: Map<(u32, i64), Disk>,
    disk_names: Map<(u32, i64), Rc<str>>,
    form: RowForm,
    rows: Vec<StateRow>,
    /// Storage of a row that is handed on.
    cells: Vec<Cell>,
}

/// Requests of a disk: those that wait, by their first sector, and those that its driver has.
#[derive(Default)]
struct Disk {
    waiting: Map<i128, u32>,
    driver: Map<(i128, i128), u32>,
    since: Ns,
    shown: (u64, u64),
}

/// Threads that are not worth a look. Tests have a few only.
pub(super) const FEW: usize = if cfg!(test) { 2 } else { 1024 };

/// Requests of a disk that are kept at most.
pub(super) const MAX_REQUESTS: usize = 65_536;

impl States {
    fn new(asked: &Asked) -> Self {
        let is_any = ["cpus", "threads", "disks", "irqs"].iter().any(|word| asked.has(word));
        let mut states = States {
            columns: Vec::new(),
            of_cpus: !is_any || asked.has("cpus"),
            of_threads: !is_any || asked.has("threads"),
            of_disks: asked.has("disks"),
            of_irqs: asked.has("irqs"),
            asked: asked.clone(),
            cpus: Vec::new(),
            threads: Map::default(),
            put_dead_at: FEW,
            disks: Map::default(),
            disk_names: Map::default(),
            form: RowForm::default(),
            rows: Vec::new(),
            cells: Vec::new(),
        };
        states.columns = states.row_columns();
        states.form = RowForm::new(&states.columns, asked.machine_names.clone());
        states
    }

    /// The columns of all kinds of rows; a row has those of its kind.
    fn row_columns(&self) -> Vec<Column> {
        let kinds = [self.of_irqs, self.of_cpus, self.of_threads, self.of_disks].into_iter().zip([3, 0, 1, 2]);
        let mut names = Vec::new();
        for key in kinds.filter(|(is_shown, _)| *is_shown).flat_map(|(_, kind)| keys_of(kind)) {
            if !names.contains(&key.name()) {
                names.push(key.name());
            }
        }
        let unit = |name: &&'static str| match *name {
            "from" | "to" => Unit::Time,
            "waiting" | "driver" => Unit::Count,
            _ => Unit::Name,
        };
        let columns = names.iter().map(|name| Column::new(name, unit(name)));
        self.asked.columns(&[]).into_iter().chain(columns).collect()
    }

    #[inline]
    fn put(&mut self, mut row: StateRow) {
        let Some((from, to)) = self.asked.clip(row.from, row.to) else { return };
        (row.from, row.to) = (from, to);
        let States { asked, form, cells, rows, .. } = self;
        if asked.test.is_none() {
            match &asked.states {
                Some(sink) => return (sink.borrow_mut())(&row),
                None if asked.sink.is_none() => return rows.push(row),
                None => {}
            }
        }
        cells.clear();
        form.put(&row, cells);
        if !asked.keeps(cells) {
            return;
        }
        match &asked.sink {
            Some(sink) => (sink.borrow_mut())(cells),
            None => rows.push(row),
        }
    }

    fn put_cpu(&mut self, machines: &Machines, piece: &CpuPiece) {
        let (cpu, thread) = (machines.cpu(piece.cpu), piece.thread.flatten());
        if !self.asked.wants_cpu(machines, Some(piece.cpu)) {
            return;
        }
        let tid = piece.thread.map(|thread| thread.map_or(0, |thread| machines.thread(thread).tid));
        if (self.asked.tids.is_some() || self.asked.pids.is_some() || self.asked.comms.is_some())
            && !self.asked.wants_thread(machines, thread)
        {
            return;
        }
        let what = StateOf::Cpu { tid, status: piece.status };
        self.put(StateRow {
            from: piece.from,
            to: piece.to,
            machine: cpu.machine,
            number: cpu.number as i64,
            of: what,
        });
    }

    fn put_thread(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if self.asked.cpus.is_some() || !self.asked.wants_thread(machines, Some(piece.thread)) {
            return;
        }
        let thread = machines.thread(piece.thread);
        let (machine, number, what) = (thread.machine, thread.tid, StateOf::Thread(piece.state));
        self.put(StateRow { from: piece.from, to: piece.to, machine, number, of: what });
    }

    /// Puts the last pieces of threads that are dead: nothing lengthens them.
    #[cold]
    fn put_dead(&mut self, machines: &Machines) {
        let is_dead = |thread: ThreadIndex| machines.thread(thread).state() == ThreadState::Dead;
        let mut dead = Vec::new();
        self.threads.retain(|thread, piece| {
            if is_dead(*thread) {
                dead.push(*piece);
            }
            !is_dead(*thread)
        });
        dead.sort_unstable_by_key(|piece| piece.thread);
        dead.iter().for_each(|piece| self.put_thread(machines, piece));
        self.put_dead_at = FEW.max(2 * self.threads.len());
    }

    fn put_disk(&mut self, key: (u32, i64), to: Ns) {
        let Some(disk) = self.disks.get(&key) else { return };
        let (from, (waiting, driver)) = (disk.since, disk.shown);
        let what = StateOf::Disk { name: self.disk_names.get(&key).cloned(), waiting, driver };
        self.put(StateRow { from, to, machine: key.0, number: key.1, of: what });
    }

    fn request(&mut self, begin: Ns, machine: u32, happening: &Happening<'_>, at: Ns) {
        let integer = |field| happening.values.integer(field);
        let (Some(dev), Some(sector), Some(sectors)) =
            (happening.number(Field::Dev), integer(Field::Sector), integer(Field::NrSector))
        else {
            return;
        };
        if sectors == 0 {
            return;
        }
        let key = (machine, dev);
        let disk = self.disks.entry(key).or_insert_with(|| Disk { since: begin, ..Disk::default() });
        let take =
            |count: Option<&mut u32>| count.is_some_and(|count| std::mem::replace(count, count.saturating_sub(1)) > 0);
        match happening.concept {
            Concept::RqInsert if disk.waiting.len() < MAX_REQUESTS => *disk.waiting.entry(sector).or_default() += 1,
            Concept::RqIssue if disk.driver.len() < MAX_REQUESTS => {
                if take(disk.waiting.get_mut(&sector)) && disk.waiting[&sector] == 0 {
                    disk.waiting.remove(&sector);
                }
                *disk.driver.entry((sector, sectors)).or_default() += 1;
            }
            Concept::RqComplete => {
                let request = (sector, sectors);
                if take(disk.driver.get_mut(&request)) && disk.driver[&request] == 0 {
                    disk.driver.remove(&request);
                }
            }
            _ => {}
        }
        let sum = |counts: &mut dyn Iterator<Item = &u32>| counts.map(|&count| u64::from(count)).sum::<u64>();
        let now = (sum(&mut disk.waiting.values()), sum(&mut disk.driver.values()));
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
        self.cpus.resize(self.cpus.len().max(at + 1), None);
        match &mut self.cpus[at] {
            Some(last) if (last.thread, last.status, last.to) == (piece.thread, piece.status, piece.from) => {
                last.to = piece.to;
            }
            _ => {
                if let Some(last) = self.cpus[at].replace(*piece) {
                    self.put_cpu(machines, &last);
                }
            }
        }
    }

    fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if !self.of_threads {
            return;
        }
        match self.threads.get_mut(&piece.thread) {
            Some(last) if (last.state, last.to) == (piece.state, piece.from) => last.to = piece.to,
            _ => {
                if let Some(last) = self.threads.insert(piece.thread, *piece) {
                    self.put_thread(machines, &last);
                } else if self.threads.len() >= self.put_dead_at {
                    self.put_dead(machines);
                }
                if piece.state == ThreadState::Dead {
                    // Nothing follows in this life.
                    self.threads.remove(&piece.thread);
                    self.put_thread(machines, piece);
                }
            }
        }
    }

    fn interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {
        if !self.of_irqs || !self.asked.wants_cpu(machines, Some(interrupt.cpu)) {
            return;
        }
        let cpu = machines.cpu(interrupt.cpu);
        let what = StateOf::Irq { kind: interrupt.kind, cpu: cpu.number };
        let Interrupt { from, to, number, .. } = *interrupt;
        self.put(StateRow { from, to, machine: cpu.machine, number, of: what });
    }

    fn taken(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if !self.of_disks {
            return;
        }
        match happening.concept {
            Concept::DumpDisk => {
                if let (Some(dev), Some(name)) = (happening.number(Field::Dev), happening.text(Field::Name)) {
                    self.disk_names.insert((machine, dev), name.into());
                    let since = machines.begin().unwrap_or(at);
                    self.disks.entry((machine, dev)).or_insert_with(|| Disk { since, ..Disk::default() });
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
    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn finish(mut self: Box<Self>, machines: &Machines, range: Option<(Ns, Ns)>) -> Table {
        for piece in std::mem::take(&mut self.cpus).into_iter().flatten() {
            self.put_cpu(machines, &piece);
        }
        let mut open: Vec<ThreadPiece> = std::mem::take(&mut self.threads).into_values().collect();
        open.sort_unstable_by_key(|piece| piece.thread);
        for piece in open {
            self.put_thread(machines, &piece);
        }
        let mut disks: Vec<(u32, i64)> = self.disks.keys().copied().collect();
        disks.sort_unstable();
        for key in disks {
            self.put_disk(key, machines.now());
        }
        let columns = self.columns();
        let States { rows: found, form, mut cells, asked, .. } = *self;
        let states = StateRows::new(found, form);
        let table = Table { analysis: "states", range, columns, order: Order::Found, ..Table::default() };
        if asked.keeps_states {
            return Table { states: Some(states), ..table };
        }
        let mut rows = Rows::default();
        for row in states.iter() {
            cells.clear();
            states.form.put(row, &mut cells);
            rows.push(&cells);
        }
        Table { rows, ..table }
    }
}

/// Status names of CPUs in the order in which tables have their columns.
pub(super) fn is_system(status: CpuStatus) -> bool {
    matches!(status, CpuStatus::Syscall | CpuStatus::Trap | CpuStatus::Kernel)
}
