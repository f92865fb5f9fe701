//! Sums of groups, and how they are kept.

use std::collections::BTreeSet;

use tracemill_semantics::states::{Ns, Thread};

use crate::durations::Durations;
use crate::kernel::value::Cell;

/// Sums of a group.
pub(crate) trait Sum: Default {
    /// Adds what another group has.
    fn add(&mut self, other: Self);
}

/// Sums that are kept as bytes while nothing is added to them.
pub(crate) trait Aggregate: Sum + Clone {
    /// Shows all that is kept of it, field by field: the one list for both ways, to memory and back.
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>);

    /// Is it so large that it had better stay open?
    fn is_large(&self) -> bool {
        false
    }
}

/// Different threads, by their machines and numbers: the lives of a number are one.
#[derive(Clone, Default)]
pub(crate) struct ThreadSet(BTreeSet<(u32, i64)>);

impl ThreadSet {
    /// One thread.
    pub(crate) fn from_thread(thread: &Thread) -> ThreadSet {
        std::iter::once(thread).collect()
    }

    /// Number of threads.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl<'t> FromIterator<&'t Thread> for ThreadSet {
    fn from_iter<I: IntoIterator<Item = &'t Thread>>(threads: I) -> Self {
        ThreadSet(threads.into_iter().map(|thread| (thread.machine, thread.tid)).collect())
    }
}

impl Sum for ThreadSet {
    fn add(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }
}

/// The fields of sums on their way to memory, or back into sums that are empty.
pub(crate) enum Packing<'p, I> {
    /// To memory.
    Put(&'p mut Vec<Cell>),
    /// And back.
    Take(&'p mut I),
}

impl<I: Iterator<Item = Option<i128>>> Packing<'_, I> {
    /// A number that may be absent.
    #[inline]
    pub(crate) fn option<T: Copy + TryInto<i128> + TryFrom<i128>>(&mut self, field: &mut Option<T>) {
        match self {
            Packing::Put(cells) => cells.push(Cell::integer(field.and_then(|number| number.try_into().ok()))),
            Packing::Take(numbers) => *field = numbers.next().flatten().and_then(|number| T::try_from(number).ok()),
        }
    }

    /// A number.
    #[inline]
    pub(crate) fn number<T: Copy + Default + TryInto<i128> + TryFrom<i128>>(&mut self, field: &mut T) {
        let mut number = Some(*field);
        self.option(&mut number);
        *field = number.unwrap_or_default();
    }

    /// A truth.
    pub(crate) fn truth(&mut self, field: &mut bool) {
        let mut number = u8::from(*field);
        self.number(&mut number);
        *field = number == 1;
    }

    /// A number that takes no room where it is 0. Others cannot follow.
    pub(crate) fn last(&mut self, field: &mut i128) {
        if *field != 0 || matches!(self, Packing::Take(_)) {
            self.number(field);
        }
    }

    /// A time that is near another one, which is shown before.
    pub(crate) fn since(&mut self, time: &mut Option<Ns>, before: Option<Ns>) {
        let before = before.unwrap_or(0);
        let mut since = time.map(|time| time - before);
        self.option(&mut since);
        *time = since.map(|since| since + before);
    }

    /// A list, whose items `each` shows.
    pub(crate) fn list<T: Default>(&mut self, items: &mut Vec<T>, mut each: impl FnMut(&mut Self, &mut T)) {
        let mut count = items.len() as u64;
        self.number(&mut count);
        if matches!(self, Packing::Put(_)) {
            items.iter_mut().for_each(|item| each(self, item));
        } else {
            for _ in 0..count {
                let mut item = T::default();
                each(self, &mut item);
                items.push(item);
            }
        }
    }

    /// Threads.
    pub(crate) fn threads(&mut self, threads: &mut ThreadSet) {
        let mut all: Vec<(u32, i64)> = std::mem::take(&mut threads.0).into_iter().collect();
        self.list(&mut all, |packing, (machine, tid)| {
            packing.number(machine);
            packing.number(tid);
        });
        threads.0 = all.into_iter().collect();
    }

    /// Durations, up to the end: others cannot follow.
    pub(crate) fn durations(&mut self, durations: &mut Durations) {
        match self {
            Packing::Put(cells) => durations.for_each(|ns| cells.push(ns.into())),
            Packing::Take(numbers) => numbers.by_ref().flatten().for_each(|ns| durations.add(ns as u64)),
        }
    }
}
