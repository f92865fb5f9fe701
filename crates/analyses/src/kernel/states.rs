//! `states`: what CPUs, threads, disks and interrupts did, row by row (section 3.1).

use tracemill_semantics::states::{
    CpuIndex, CpuPiece, CpuStatus, Happening, Interrupt, Machines, Map, Ns, Observer, ThreadIndex, ThreadPiece,
    ThreadState,
};
use tracemill_semantics::{Concept, Field};

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

/// The rows, each with its place in their order: from, kind, number.
struct States {
    asked: Asked,
    /// Those of all kinds of rows.
    columns: Vec<Column>,
    of_cpus: bool,
    of_threads: bool,
    of_disks: bool,
    of_irqs: bool,
    cpus: Map<CpuIndex, CpuPiece>,
    threads: Map<ThreadIndex, ThreadPiece>,
    disks: Map<(u32, i64), Disk>,
    disk_names: Map<(u32, i64), String>,
    rows: Vec<(Ns, u8, i64, Vec<Cell>)>,
}

/// Requests of a disk: those that wait, by their first sector, and those that its driver has.
#[derive(Default)]
struct Disk {
    waiting: Map<i128, u32>,
    driver: Map<(i128, i128), u32>,
    since: Ns,
    shown: (u64, u64),
}

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
            cpus: Map::default(),
            threads: Map::default(),
            disks: Map::default(),
            disk_names: Map::default(),
            rows: Vec::new(),
        };
        states.columns = states.row_columns();
        states
    }

    /// The columns of all kinds of rows; a row has those of its kind.
    fn row_columns(&self) -> Vec<Column> {
        let mut names = Vec::new();
        let kinds: [(bool, &[&'static str]); 4] = [
            (self.of_irqs, &["kind", "nr", "cpu", "from", "to"]),
            (self.of_cpus, &["cpu", "from", "to", "tid", "status"]),
            (self.of_threads, &["tid", "from", "to", "state"]),
            (self.of_disks, &["dev", "disk", "from", "to", "waiting", "driver"]),
        ];
        for name in kinds.into_iter().filter(|(is_shown, _)| *is_shown).flat_map(|(_, names)| names) {
            if !names.contains(name) {
                names.push(*name);
            }
        }
        let unit = |name: &&'static str| match *name {
            "from" | "to" => Unit::Time,
            "waiting" | "driver" => Unit::Count,
            _ => Unit::Name,
        };
        let columns = names.iter().map(|name| Column::new(name, unit(name)));
        self.asked.machine_columns().into_iter().chain(columns).collect()
    }

    fn put(&mut self, kind: u8, machine: u32, number: i64, from: Ns, to: Ns, cells: &[(&str, Cell)]) {
        let Some((from, to)) = self.asked.clip(from, to) else { return };
        let mut row = self.asked.machine_cells(machine);
        for column in self.columns.iter().skip(row.len()) {
            row.push(match &*column.name {
                "from" => Cell::Integer(from),
                "to" => Cell::Integer(to),
                name => cells.iter().find(|(own, _)| *own == name).map_or(Cell::Null, |(_, cell)| cell.clone()),
            });
        }
        if !self.asked.keeps(&row) {
            return;
        }
        match &self.asked.sink {
            Some(sink) => (sink.borrow_mut())(&row),
            None => self.rows.push((from, kind, number, row)),
        }
    }

    fn put_cpu(&mut self, machines: &Machines, piece: &CpuPiece) {
        let (cpu, thread) = (machines.cpu(piece.cpu), piece.thread.flatten());
        if !self.asked.wants_cpu(machines, Some(piece.cpu)) {
            return;
        }
        let tid = match piece.thread {
            None => Cell::Null,
            Some(thread) => thread.map_or(0, |thread| machines.thread(thread).tid).into(),
        };
        if (self.asked.tids.is_some() || self.asked.pids.is_some() || self.asked.comms.is_some())
            && !self.asked.wants_thread(machines, thread)
        {
            return;
        }
        let cells = [("cpu", cpu.number.into()), ("tid", tid), ("status", Cell::text(Some(piece.status.name())))];
        self.put(0, cpu.machine, cpu.number as i64, piece.from, piece.to, &cells);
    }

    fn put_thread(&mut self, machines: &Machines, piece: &ThreadPiece) {
        if self.asked.cpus.is_some() || !self.asked.wants_thread(machines, Some(piece.thread)) {
            return;
        }
        let thread = machines.thread(piece.thread);
        let cells = [("tid", thread.tid.into()), ("state", Cell::text(Some(piece.state.name())))];
        self.put(1, thread.machine, thread.tid, piece.from, piece.to, &cells);
    }

    fn put_disk(&mut self, key: (u32, i64), to: Ns) {
        let Some(disk) = self.disks.get(&key) else { return };
        let (from, (waiting, driver)) = (disk.since, disk.shown);
        let name = Cell::text(self.disk_names.get(&key).map(|name| &**name));
        let cells = [("dev", key.1.into()), ("disk", name), ("waiting", waiting.into()), ("driver", driver.into())];
        self.put(2, key.0, key.1, from, to, &cells);
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
        match self.cpus.get_mut(&piece.cpu) {
            Some(last) if (last.thread, last.status, last.to) == (piece.thread, piece.status, piece.from) => {
                last.to = piece.to;
            }
            _ => {
                if let Some(last) = self.cpus.insert(piece.cpu, *piece) {
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
        let kind = Cell::text(Some(interrupt.kind.name()));
        let cells = [("kind", kind), ("nr", interrupt.number.into()), ("cpu", cpu.number.into())];
        self.put(3, cpu.machine, interrupt.number, interrupt.from, interrupt.to, &cells);
    }

    fn taken(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        if !self.of_disks {
            return;
        }
        match happening.concept {
            Concept::DumpDisk => {
                if let (Some(dev), Some(name)) = (happening.number(Field::Dev), happening.text(Field::Name)) {
                    self.disk_names.insert((machine, dev), name.into_owned());
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
        for piece in std::mem::take(&mut self.cpus).into_values() {
            self.put_cpu(machines, &piece);
        }
        for piece in std::mem::take(&mut self.threads).into_values() {
            self.put_thread(machines, &piece);
        }
        let mut disks: Vec<(u32, i64)> = self.disks.keys().copied().collect();
        disks.sort_unstable();
        for key in disks {
            self.put_disk(key, machines.now());
        }
        let columns = self.columns();
        self.rows.sort_by_key(|&(from, kind, number, _)| (from, kind, number));
        let rows = self.rows.into_iter().map(|(_, _, _, row)| row).collect();
        Table { analysis: "states", range, columns, rows, order: Order::Found, ..Table::default() }
    }
}

/// Status names of CPUs in the order in which tables have their columns.
pub(super) fn is_system(status: CpuStatus) -> bool {
    matches!(status, CpuStatus::Syscall | CpuStatus::Trap | CpuStatus::Kernel)
}
