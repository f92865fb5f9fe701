//! Groups of spans: their keys, and the columns that name them.

use std::rc::Rc;

use tracemill_semantics::states::{Machines, Map, Thread};

use crate::durations::Durations;
use crate::kernel::aggregate::keys::{known_key, thread_of};
use crate::kernel::rows::column_of::{ColumnOf, column};
use crate::kernel::table::{Column, Unit};
use crate::kernel::value::{Cell, Value};

/// GroupKey of a group. Its numbers are those of threads and the like, or stand for [`Names`].
#[derive(Clone, Copy, Default)]
pub(crate) struct GroupKey {
    pub(crate) machine: u32,
    /// The main one, such as that of the thread.
    pub(crate) number: i64,
    pub(crate) name: i64,
    pub(crate) other: i64,
}

/// How an analysis groups spans: most often its enumeration of keys.
pub(crate) trait GroupBy: Sized + 'static {
    /// The columns that name a group, before the statistics.
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, Self>>];

    /// Further ones, which only the question knows.
    fn asked_columns(&self) -> &[Column] {
        &[]
    }

    /// The cells of a group in these.
    fn asked_cells(&self, _key: &GroupKey) -> &[Cell] {
        &[]
    }

    /// Does the number of a key stand first in the name, as that of a thread or a process? There may be many of these.
    fn is_by_number(&self) -> bool {
        false
    }

    /// Does a group have a row?
    fn has_row(&self, _durations: &Durations) -> bool {
        true
    }

    /// Are the figures of a group known?
    fn has_figures(&self, _key: &GroupKey) -> bool {
        true
    }
}

/// How spans were grouped, and what the numbers of keys stand for.
pub(crate) struct GroupLabels<B> {
    pub(crate) by: B,
    pub(crate) machines: Rc<Machines>,
    pub(crate) names: Names,
}

/// A group, as its columns see it.
pub(crate) struct SpanGroup<'r, B> {
    pub(crate) key: GroupKey,
    pub(crate) labels: &'r GroupLabels<B>,
}

impl<'r, B: 'static> SpanGroup<'r, B> {
    /// The number of a thread.
    pub(crate) const TID: ColumnOf<'r, Self> =
        column("tid", Unit::Name, |group| Value::integer(group.thread().map(|thread| thread.tid)));
    /// Its name.
    pub(crate) const COMM: ColumnOf<'r, Self> =
        column("comm", Unit::Name, |group| Value::text(group.thread().and_then(|thread| thread.comm.as_deref())));
    /// The number of a process.
    pub(crate) const PID: ColumnOf<'r, Self> =
        column("pid", Unit::Name, |group| Value::integer(known_key(group.key.number)));

    /// The thread whose number is in the key.
    pub(crate) fn thread(&self) -> Option<&'r Thread> {
        thread_of(&self.labels.machines, self.key.machine, self.key.number)
    }

    /// The name that is in the key.
    pub(crate) fn name(&self) -> Option<&'r str> {
        self.labels.names.name(self.key.name)
    }
}

/// Names as numbers.
pub(crate) struct Names {
    numbers: Map<Box<str>, i64>,
    names: Vec<Box<str>>,
    /// Numbers of names by where they stood last: most names stand in one place all the time.
    recent: [usize; 64],
}

impl Default for Names {
    fn default() -> Self {
        Names { numbers: Map::default(), names: Vec::new(), recent: [0; 64] }
    }
}

impl Names {
    /// The number of a name.
    #[inline]
    pub(crate) fn number(&mut self, name: &str) -> i64 {
        let place = (name.as_ptr() as usize >> 4) % self.recent.len();
        let recent = self.recent[place];
        if self.names.get(recent).is_some_and(|known| **known == *name) {
            return recent as i64;
        }
        let number = self.find(name);
        self.recent[place] = number as usize;
        number
    }

    fn find(&mut self, name: &str) -> i64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as i64;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: i64) -> Option<&str> {
        usize::try_from(number).ok().and_then(|at| self.names.get(at)).map(|name| &**name)
    }
}
