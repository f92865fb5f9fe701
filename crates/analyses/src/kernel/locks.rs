//! `locks`: how long threads waited for locks of programs (section 3.8).

use std::collections::{BTreeSet, HashMap};

use tracemill_semantics::states::{
    CpuIndex, Happening, Machines, Ns, Observer, Reason, RunEnd, SystemCall, ThreadIndex, ThreadState, Woken,
};
use tracemill_semantics::{Concept, Field};

use super::asked::View;
use super::spans::{Key, More, NO_KEY, Spans};
use super::syscalls::error_of;
use super::table::{Cell, Column, Table, Unit, columns};
use super::{Analysis, Asked, Known, duration, key_cell, thread_cells, thread_of};
use crate::durations::Durations;

pub(super) const KNOWN: Known = Known {
    name: "locks",
    about: "how long threads waited for locks of programs, and who let them go on",
    by: &["lock", "thread", "process"],
    words: &[],
    has_spans: true,
    needs: &[&[Concept::SysEntry], &[Concept::SysExit], &[Concept::Switch, Concept::Running]],
    wants: &[(Concept::Wake, "who let waiters go on"), (Concept::Switch, "waits that end with a wake")],
    make: |asked| Box::new(Locks { spans: Spans::new(asked), open: HashMap::new() }),
};

/// The system call of locks.
const FUTEX: &str = "futex";

/// Names of its operations, by their numbers (`linux/futex.h`).
const OPERATIONS: [&str; 14] = [
    "WAIT",
    "WAKE",
    "FD",
    "REQUEUE",
    "CMP_REQUEUE",
    "WAKE_OP",
    "LOCK_PI",
    "UNLOCK_PI",
    "TRYLOCK_PI",
    "WAIT_BITSET",
    "WAKE_BITSET",
    "WAIT_REQUEUE_PI",
    "CMP_REQUEUE_PI",
    "LOCK_PI2",
];

/// Operations that may wait, and those that let others go on.
const WAITS: [i128; 6] = [0, 6, 8, 9, 11, 13];
const WAKES: [i128; 7] = [1, 3, 4, 5, 7, 10, 12];

/// Flags beside the number of an operation: private to a process, and which clock.
const FLAGS: i128 = 128 | 256;

struct Locks {
    spans: Spans<Waits>,
    /// Waits that did not end yet. One a thread: it is in one system call at a time.
    open: HashMap<ThreadIndex, Open>,
}

/// A wait that did not end yet.
struct Open {
    address: Option<i128>,
    operation: i128,
    /// The thread whose wake ended the last time that the thread was blocked in it.
    waker: Option<ThreadIndex>,
}

/// What is counted beside the durations.
#[derive(Clone, Default)]
struct Waits {
    waiters: BTreeSet<ThreadIndex>,
    errors: u64,
    wakes: u64,
}

impl Waits {
    fn cells(&self) -> Vec<Cell> {
        vec![(self.waiters.len() as u64).into(), self.errors.into(), self.wakes.into()]
    }
}

impl More for Waits {
    fn add(&mut self, mut other: Self) {
        self.waiters.append(&mut other.waiters);
        self.errors += other.errors;
        self.wakes += other.wakes;
    }
}

impl Locks {
    /// Is a thread wanted that runs on a CPU?
    fn wants(&self, machines: &Machines, thread: ThreadIndex, cpu: Option<CpuIndex>) -> bool {
        let asked = &self.spans.asked;
        asked.wants_cpu(machines, cpu) && asked.wants_thread(machines, Some(thread))
    }

    fn key(&self, machines: &Machines, thread: ThreadIndex, address: Option<i128>) -> Key {
        let of = machines.thread(thread);
        let machine = i64::from(of.machine);
        match self.spans.asked.by.as_deref() {
            Some("thread") => [machine, of.tid, 0, 0],
            Some("process") => [machine, of.pid.unwrap_or(NO_KEY), 0, 0],
            // Addresses take all 64 bits, so that none of them can stand for one that is not known.
            _ => [machine, of.pid.unwrap_or(NO_KEY), address.unwrap_or(0) as i64, i64::from(address.is_some())],
        }
    }
}

impl Observer for Locks {
    fn call_began(&mut self, machines: &Machines, thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns) {
        // A wait whose exit was lost is no span.
        self.open.remove(&thread);
        if name != FUTEX {
            return;
        }
        let Some(operation) = happening.values.integer(Field::Op).map(|operation| operation & !FLAGS) else { return };
        let address = happening.values.integer(Field::Uaddr);
        if WAITS.contains(&operation) {
            self.open.insert(thread, Open { address, operation, waker: None });
        } else if WAKES.contains(&operation)
            && self.spans.asked.view == View::Statistics
            && self.spans.asked.has_instant(at)
            && self.wants(machines, thread, machines.thread(thread).running())
        {
            let key = self.key(machines, thread, address);
            self.spans.group(machines.begin(), at, key).1.wakes += 1;
            self.spans.all_more.wakes += 1;
        }
    }

    fn run_ended(&mut self, _: &Machines, thread: ThreadIndex, how: RunEnd, _: Ns) {
        if how == RunEnd::Blocked
            && let Some(open) = self.open.get_mut(&thread)
        {
            open.waker = None;
        }
    }

    fn woken(&mut self, machines: &Machines, woken: &Woken) {
        // A thread that was preempted is not let go on by a wake. The state is that before the wake.
        if machines.thread(woken.thread).state() == ThreadState::Wait
            && let Some(open) = self.open.get_mut(&woken.thread)
        {
            open.waker = woken.waker.filter(|_| woken.reason == Reason::Thread);
        }
    }

    fn call_ended(&mut self, machines: &Machines, call: &SystemCall<'_>, _: &Happening<'_>) {
        let Some(Open { address, operation, waker }) = self.open.remove(&call.thread) else { return };
        if !self.wants(machines, call.thread, Some(call.cpu)) {
            return;
        }
        let thread = machines.thread(call.thread);
        let key = self.key(machines, call.thread, address);
        let length = duration(call.from, call.to);
        let errors = u64::from(error_of(call.ret).is_some());
        let more = Waits { waiters: BTreeSet::from([call.thread]), errors, wakes: 0 };
        let machine_cells = self.spans.asked.machine_cells(thread.machine);
        self.spans.add(machines.begin(), call.to, length, key, more, || {
            let mut row = machine_cells;
            let operation = usize::try_from(operation).ok().and_then(|at| OPERATIONS.get(at).copied());
            row.extend([Cell::integer(address), Cell::text(operation), thread.tid.into(), Cell::integer(thread.pid)]);
            row.extend([Cell::text(thread.comm.as_deref()), Cell::Integer(call.from), Cell::Integer(call.to)]);
            let waker = waker.map(|waker| machines.thread(waker).tid);
            row.extend([length.into(), Cell::integer(call.ret), Cell::integer(waker)]);
            row
        });
    }

    fn taken(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, _: Ns) {
        // A thread that ends in a wait keeps nothing.
        if happening.concept == Concept::Exit
            && let Some(thread) = happening.number(Field::Tid).and_then(|tid| machines.find_thread(machine, tid))
        {
            self.open.remove(&thread);
        }
    }
}

impl Analysis for Locks {
    fn columns(&self) -> Vec<Column> {
        log_columns(&self.spans.asked)
    }

    fn finish(self: Box<Self>, machines: &Machines, range: Option<(Ns, Ns)>) -> Table {
        let Locks { spans, open } = *self;
        let asked = spans.asked.clone();
        let by = asked.by.clone().unwrap_or_default();
        let mut keys = asked.machine_columns();
        let own: &[&'static str] = match &*by {
            "thread" => &["tid", "comm"],
            "process" => &["pid"],
            _ => &["pid", "uaddr"],
        };
        keys.extend(columns(Unit::Name, own));
        let more = || columns(Unit::Count, &["waiters", "errors", "wakes"]);
        let describe = |key: &Key, durations: &Durations, waits: &Waits| {
            // Locks that nobody waited for, and threads that only wake others, have no rows.
            if durations.moments.count == 0 {
                return None;
            }
            let mut cells = asked.machine_cells(key[0] as u32);
            match &*by {
                "thread" => cells.extend(thread_cells(machines, thread_of(machines, key[0], key[1]))),
                "process" => cells.push(key_cell(key[1])),
                _ => cells.extend([key_cell(key[1]), Cell::integer((key[3] != 0).then_some(key[2] as u64))]),
            }
            Some((cells, waits.cells()))
        };
        let of_all = |waits: &Waits| more().zip(waits.cells()).collect();
        let mut table = spans.finish("locks", range, keys, log_columns(&asked), more().collect(), describe, of_all);
        // After a loss nothing tells whether a wait goes on.
        let is_open = |thread: &&ThreadIndex| machines.thread(**thread).open_calls().any(|name| name == FUTEX);
        table.notes.push(("unfinished", open.keys().filter(is_open).count() as u64));
        table
    }
}

/// Columns of lists.
fn log_columns(asked: &Asked) -> Vec<Column> {
    let mut log = asked.machine_columns();
    log.extend(columns(Unit::Name, &["uaddr", "op", "tid", "pid", "comm"]));
    log.extend(columns(Unit::Time, &["from", "to"]));
    log.extend([Column::new("duration_ns", Unit::Duration), Column::new("ret", Unit::Name)]);
    log.push(Column::new("waker", Unit::Name));
    log
}
