//! Groups of waits for locks and of holds.

use std::rc::Rc;

use tracemill_semantics::states::{Machines, Thread, ThreadIndex};

use super::RELEASER;
use super::tracker::{Lock, LockOf};
use crate::durations::Durations;
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::keys::{NO_KEY, known_key};
use crate::kernel::analyses::locks::FUTEX;
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, column, own_column};
use crate::kernel::table::Unit;
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of groups.
    pub(super) By {
        /// The lock: its process where it is one of a program, its address, and its name.
        Lock = "lock",
        /// The name that all locks of a kind have in the kernel.
        Name = "name",
        /// The thread that waited, or that held the lock.
        Thread = "thread",
        /// Its process.
        Process = "process",
        /// The system call in which it was.
        Call = "call",
        /// The thread that released the lock.
        Releaser = "releaser",
    }
}

/// Keys of groups of holds: the thread that holds a lock is the one that releases it.
pub(super) const HOLD_KEYS: &[&str] = &["lock", "name", "thread", "process", "call"];

/// Meanings of columns.
pub(super) const KIND: &str = "futex, lock or lock:R (lockdep's; R of readers), or the kind of a lock of the kernel";
pub(super) const ADDRESS: &str = "address of the lock";
pub(super) const NAME: &str = "name that the kernel has for such locks";

/// How spans are grouped, and the names in their keys.
pub(super) struct Grouping {
    by: By,
    names: Names,
}

impl Grouping {
    pub(super) fn new(query: &AnalysisQuery) -> Grouping {
        Grouping { by: query.key(By::from_name).unwrap_or(By::Lock), names: Names::default() }
    }

    /// The group of a span of a thread that is about a lock.
    pub(super) fn key(
        &mut self,
        machines: &Machines,
        thread: ThreadIndex,
        lock: Lock,
        name: Option<&str>,
        releaser: Option<&Thread>,
    ) -> GroupKey {
        let of = machines.thread(thread);
        let names = &mut self.names;
        let mut number = |name: Option<&str>| name.map_or(NO_KEY, |name| names.number(name));
        let (number, address) = match (self.by, lock.of) {
            // Addresses take all 64 bits.
            (By::Lock, LockOf::Program(process)) => (process, lock.address as i64),
            (By::Lock, _) => (number(name), lock.address as i64),
            (By::Name, _) => (number(name), 0),
            (By::Thread, _) => (of.tid, 0),
            (By::Process, _) => (of.pid().unwrap_or(NO_KEY), 0),
            (By::Call, LockOf::Program(_)) => (number(Some(FUTEX)), 0),
            (By::Call, _) => (number(machines.open_calls(thread).last()), 0),
            (By::Releaser, _) => (releaser.map_or(NO_KEY, |releaser| releaser.tid), 0),
        };
        let other = match self.by {
            By::Lock | By::Name => i64::from(lock.is_of_program()),
            _ => 0,
        };
        GroupKey { machine: of.machine, number, name: address, other }
    }

    pub(super) fn labels(self, machines: &Rc<Machines>) -> GroupLabels<By> {
        GroupLabels { by: self.by, machines: machines.clone(), names: self.names }
    }
}

impl<'r> SpanGroup<'r, By> {
    const PROCESS: ColumnOf<'r, Self> =
        column("pid", Unit::Name, |group| Value::integer(known_key(group.key.number).filter(|_| group.key.other != 0)));
    const OF: ColumnOf<'r, Self> = own_column("of", Unit::Name, "a lock of a program or of the kernel", |group| {
        Value::Word(if group.key.other != 0 { "program" } else { "kernel" })
    });
    const LOCK: ColumnOf<'r, Self> =
        own_column("lock", Unit::Address, ADDRESS, |group| Value::Integer((group.key.name as u64).into()));
    const NAME: ColumnOf<'r, Self> = own_column("name", Unit::Name, NAME, |group| {
        Value::text(group.labels.names.name(group.key.number).filter(|_| group.key.other == 0))
    });
    const CALL: ColumnOf<'r, Self> = own_column("call", Unit::Name, "system call in which the thread was", |group| {
        Value::text(group.labels.names.name(group.key.number))
    });
    const RELEASER: ColumnOf<'r, Self> =
        own_column("releaser", Unit::Name, RELEASER, |group| Value::integer(known_key(group.key.number)));
    const RELEASER_COMM: ColumnOf<'r, Self> = own_column("releaser_comm", Unit::Name, "its name", |group| {
        Value::text(group.thread().and_then(|thread| thread.comm.as_deref()))
    });
    const BY_LOCK: &'r [ColumnOf<'r, Self>] = &[Self::PROCESS, Self::OF, Self::LOCK, Self::NAME];
    const BY_NAME: &'r [ColumnOf<'r, Self>] = &[Self::OF, Self::NAME];
    const BY_THREAD: &'r [ColumnOf<'r, Self>] = &[Self::TID, Self::COMM];
    const BY_PROCESS: &'r [ColumnOf<'r, Self>] = &[Self::PID];
    const BY_CALL: &'r [ColumnOf<'r, Self>] = &[Self::CALL];
    const BY_RELEASER: &'r [ColumnOf<'r, Self>] = &[Self::RELEASER, Self::RELEASER_COMM];
}

impl GroupBy for By {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, By>>] {
        match self {
            By::Lock => SpanGroup::<By>::BY_LOCK,
            By::Name => SpanGroup::<By>::BY_NAME,
            By::Thread => SpanGroup::<By>::BY_THREAD,
            By::Process => SpanGroup::<By>::BY_PROCESS,
            By::Call => SpanGroup::<By>::BY_CALL,
            By::Releaser => SpanGroup::<By>::BY_RELEASER,
        }
    }

    fn is_by_number(&self) -> bool {
        true
    }

    fn has_row(&self, durations: &Durations) -> bool {
        durations.moments.count > 0
    }
}
