//! A row of `states`, its columns, and their form as cells.

use std::rc::Rc;

use tracemill_semantics::states::{CpuStatus, InterruptKind, Ns, ThreadState};

use crate::kernel::table::{Column, Unit, known_column, shown_order};
use crate::kernel::value::{Cell, Value};

/// A row of `states`: what a CPU, thread, disk or interrupt did for some time.
#[derive(Clone, Debug)]
pub struct StateRow {
    /// First ns.
    pub from: Ns,
    /// One past the last ns.
    pub to: Ns,
    /// The machine, whose name [`RowForm::machine_name`] knows.
    pub machine: u32,
    /// The CPU, thread, disk or interrupt.
    pub number: i64,
    /// The rest.
    pub of: StateOf,
}

/// Kind of a row of `states`, and what it says.
#[derive(Clone, Debug)]
pub enum StateOf {
    /// A CPU.
    Cpu {
        /// Its thread, 0 for the idle one; `None` when it is not known.
        tid: Option<i64>,
        /// Its status.
        status: CpuStatus,
    },
    /// A thread.
    Thread(ThreadState),
    /// A disk.
    Disk {
        /// Its name, when the trace says.
        name: Option<Rc<str>>,
        /// Requests that wait to be issued.
        waiting: u64,
        /// Requests that are issued and not completed.
        driver: u64,
    },
    /// An interrupt.
    Irq {
        /// Its kind.
        kind: InterruptKind,
        /// The CPU.
        cpu: u64,
    },
}

/// Kinds of rows, in the order in which those of one time stand.
pub const STATE_KINDS: usize = 4;
pub(crate) const CPU: usize = 0;
pub(crate) const THREAD: usize = 1;
const DISK: usize = 2;
pub(crate) const IRQ: usize = 3;

impl StateRow {
    /// The number of its kind, below [`STATE_KINDS`].
    #[inline]
    pub fn kind(&self) -> usize {
        match self.of {
            StateOf::Cpu { .. } => CPU,
            StateOf::Thread(_) => THREAD,
            StateOf::Disk { .. } => DISK,
            StateOf::Irq { .. } => IRQ,
        }
    }

    /// Its duration in ns.
    #[inline]
    pub fn duration(&self) -> Ns {
        self.to.saturating_sub(self.from)
    }
}

tracemill_semantics::named! {
    /// A column of `states`.
    pub StateKey {
        /// The machine, when there are several.
        Machine = "trace",
        /// Is it an interrupt or a soft interrupt?
        Kind = "kind",
        /// Its number.
        Nr = "nr",
        /// The CPU.
        Cpu = "cpu",
        /// First ns.
        From = "from",
        /// One past the last ns.
        To = "to",
        /// The thread.
        Tid = "tid",
        /// Status of the CPU.
        Status = "status",
        /// State of the thread.
        State = "state",
        /// Number of the disk.
        Dev = "dev",
        /// Its name.
        Disk = "disk",
        /// Requests that wait to be issued.
        Waiting = "waiting",
        /// Requests that are issued and not completed.
        Driver = "driver",
        /// The time from its first ns to its end.
        Duration = "duration_ns",
    }
}

/// For each kind of rows its columns; the one that stands by itself has a value in all rows of the kind, and in no
/// others.
const KEYS_OF: [(StateKey, &[StateKey]); STATE_KINDS] = {
    use StateKey::{Cpu, Dev, Disk, Driver, Duration, From, Kind, Nr, State, Status, Tid, To, Waiting};
    [
        (Status, &[Cpu, From, To, Tid, Status, Duration]),
        (State, &[Tid, From, To, State, Duration]),
        (Waiting, &[Dev, Disk, From, To, Waiting, Driver, Duration]),
        (Kind, &[Kind, Nr, Cpu, From, To, Duration]),
    ]
};

impl StateKey {
    /// The column.
    pub(crate) fn column(self) -> Column {
        known_column(self.name(), self.unit())
    }

    /// The unit of its values.
    pub(crate) fn unit(self) -> Unit {
        match self {
            StateKey::From | StateKey::To => Unit::Time,
            StateKey::Duration => Unit::Duration,
            StateKey::Waiting | StateKey::Driver => Unit::Count,
            StateKey::Dev => Unit::Device,
            _ => Unit::Name,
        }
    }

    /// Are its values texts?
    pub(crate) fn is_text(self) -> bool {
        use StateKey::{Disk, Kind, Machine, State, Status};
        matches!(self, Machine | Kind | Status | State | Disk)
    }
}

/// The columns of rows of a kind.
pub(crate) fn keys_of(kind: usize) -> &'static [StateKey] {
    KEYS_OF[kind].1
}

/// The kind of a row whose cells stand in these columns, by the one that only rows of its kind have: for each kind that
/// the table has, that column, and those of the kind.
pub fn state_kinds(columns: &[Column]) -> Vec<(usize, Vec<bool>)> {
    let place = |key: StateKey| columns.iter().position(|column| column.name == key.name());
    let of_kind = |column: &Column, keys: &[StateKey]| {
        column.name == StateKey::Machine.name() || keys.iter().any(|key| column.name == key.name())
    };
    let kinds = KEYS_OF
        .iter()
        .filter_map(|(own, keys)| Some((place(*own)?, columns.iter().map(|column| of_kind(column, keys)).collect())));
    kinds.collect()
}

/// The columns of the rows of one table.
#[derive(Clone, Default)]
pub struct RowForm {
    keys: Vec<StateKey>,
    pub(crate) machines: Rc<Vec<String>>,
}

impl RowForm {
    /// The form of rows with these columns; `machines` are their names.
    pub fn new(columns: &[Column], machines: Rc<Vec<String>>) -> Self {
        RowForm { keys: columns.iter().filter_map(|column| StateKey::from_name(&column.name)).collect(), machines }
    }

    /// The columns, in their order.
    pub fn keys(&self) -> &[StateKey] {
        &self.keys
    }

    /// The columns in the order of tables for people.
    pub fn shown_keys(&self) -> Vec<StateKey> {
        shown_order(self.keys.iter().map(|key| key.name())).into_iter().map(|at| self.keys[at]).collect()
    }

    /// The columns that rows of a kind have.
    pub fn keys_of(&self, kind: usize) -> impl Iterator<Item = StateKey> {
        let is_of_kind = move |key: &StateKey| *key == StateKey::Machine || keys_of(kind).contains(key);
        self.keys.iter().copied().filter(is_of_kind)
    }

    /// Number of the machines that have names.
    pub fn machine_count(&self) -> usize {
        self.machines.len()
    }

    /// Name of a machine.
    pub fn machine_name(&self, machine: u32) -> Option<&str> {
        self.machines.get(machine as usize).map(|name| &**name)
    }

    /// The value of a row in a column; none where rows of its kind have no such column.
    #[inline]
    pub fn value<'r>(&'r self, row: &'r StateRow, key: StateKey) -> Value<'r> {
        use Value::{Integer, Word};
        match (key, &row.of) {
            (StateKey::Machine, _) => Value::text(self.machine_name(row.machine)),
            (StateKey::From, _) => Integer(row.from),
            (StateKey::To, _) => Integer(row.to),
            (StateKey::Duration, _) => Integer(row.duration()),
            (StateKey::Cpu, StateOf::Cpu { .. }) => Integer((row.number as u64).into()),
            (StateKey::Tid, StateOf::Cpu { tid, .. }) => Value::integer(*tid),
            (StateKey::Status, StateOf::Cpu { status, .. }) => Word(status.name()),
            (StateKey::Tid, StateOf::Thread(_)) => Integer(row.number.into()),
            (StateKey::State, StateOf::Thread(state)) => Word(state.name()),
            (StateKey::Dev, StateOf::Disk { .. }) => Integer(row.number.into()),
            (StateKey::Disk, StateOf::Disk { name, .. }) => Value::text(name.as_deref()),
            (StateKey::Waiting, StateOf::Disk { waiting, .. }) => Integer((*waiting).into()),
            (StateKey::Driver, StateOf::Disk { driver, .. }) => Integer((*driver).into()),
            (StateKey::Kind, StateOf::Irq { kind, .. }) => Word(kind.name()),
            (StateKey::Nr, StateOf::Irq { .. }) => Integer(row.number.into()),
            (StateKey::Cpu, StateOf::Irq { cpu, .. }) => Integer((*cpu).into()),
            _ => Value::Null,
        }
    }

    /// Appends the cells of a row.
    pub fn append_cells(&self, row: &StateRow, cells: &mut Vec<Cell>) {
        cells.extend(self.keys.iter().map(|key| Cell::from(self.value(row, *key))));
    }
}
