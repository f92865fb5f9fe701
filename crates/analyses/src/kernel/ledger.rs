//! Accounts of each thread and step: as bytes when the thread has ended, or the step lies behind.

use std::cmp::Ordering;
use std::marker::PhantomData;

use tracemill_semantics::states::{Machines, Map, ThreadIndex, ThreadState};

use super::rows::{Rows, Value};
use super::states::FEW;
use super::table::Cell;

/// An account of a thread.
pub(super) trait Account: Default {
    /// Appends its numbers.
    fn put(&self, cells: &mut Vec<Cell>);
    /// Adds an account that was made later, given by its numbers.
    fn add(&mut self, numbers: impl Iterator<Item = Option<i128>>);
}

/// A step and a thread.
pub(super) type Key = (i64, ThreadIndex);

/// Accounts by step and thread.
pub(super) struct Ledger<A> {
    open: Vec<(Key, A)>,
    /// Where in `open` an account is.
    places: Map<Key, u32>,
    /// The account that was asked for last, by its place, for each number of a thread modulo [`RECENT`].
    recent: [u32; RECENT],
    closed: Closed<A>,
    /// So many open accounts are looked at whether they can be closed.
    close_at: usize,
    newest_step: i64,
}

const RECENT: usize = 128;

impl<A> Default for Ledger<A> {
    fn default() -> Self {
        Ledger {
            open: Vec::new(),
            places: Map::default(),
            recent: [0; RECENT],
            closed: Closed::default(),
            close_at: FEW,
            newest_step: 0,
        }
    }
}

impl<A: Account> Ledger<A> {
    /// The account of a thread, since it was closed last.
    #[inline]
    pub(super) fn of(&mut self, machines: &Machines, step: i64, thread: ThreadIndex) -> &mut A {
        let at = self.recent[thread.0 as usize % RECENT] as usize;
        let at = match self.open.get(at) {
            Some((key, _)) if *key == (step, thread) => at,
            _ => self.find(machines, (step, thread)),
        };
        &mut self.open[at].1
    }

    fn find(&mut self, machines: &Machines, key: Key) -> usize {
        self.newest_step = self.newest_step.max(key.0);
        if self.open.len() >= self.close_at {
            self.close(machines);
        }
        let at = *self.places.entry(key).or_insert_with(|| {
            self.open.push((key, A::default()));
            self.open.len() as u32 - 1
        });
        self.recent[key.1.0 as usize % RECENT] = at;
        at as usize
    }

    /// Closes the accounts of threads that ended and of steps that lie behind.
    #[cold]
    fn close(&mut self, machines: &Machines) {
        let Ledger { open, places, closed, newest_step, .. } = self;
        open.retain(|(key, account)| {
            let is_open = key.0 == *newest_step && machines.thread(key.1).state() != ThreadState::Dead;
            if !is_open {
                closed.put(*key, account);
            }
            is_open
        });
        places.clear();
        places.extend(open.iter().zip(0..).map(|((key, _), at)| (*key, at)));
        self.close_at = FEW.max(2 * self.open.len());
    }

    /// All accounts, one for each step and thread. Steps get other numbers by `step`, which keeps their order.
    pub(super) fn finish(mut self, step: impl Fn(i64) -> i64) -> Closed<A> {
        self.open.iter().for_each(|(key, account)| self.closed.put(*key, account));
        (self.open, self.places) = (Vec::new(), Map::default());
        let mut found = self.closed;
        found.rows.sort_by_first(|values| {
            let (of, thread) = key_of(values);
            (step(of), thread)
        });
        let key = |at: usize| {
            let (of, thread) = found.key(at);
            (step(of), thread)
        };
        let is_new = |at: usize| at == 0 || key(at) != key(at - 1);
        let count = (0..found.len()).filter(|at| is_new(*at)).count();
        if count == found.len() && (0..count).all(|at| found.key(at).0 == key(at).0) {
            return found;
        }
        // Accounts of one key were closed one after the other, or are of steps that have become one.
        let mut all = Closed::default();
        let mut from = 0;
        while from < found.len() {
            let behind = (from + 1..found.len()).find(|at| is_new(*at)).unwrap_or(found.len());
            let mut account = A::default();
            (from..behind).for_each(|at| account.add(found.numbers(at)));
            all.put(key(from), &account);
            from = behind;
        }
        all
    }
}

/// The key in front of the numbers of an account.
fn key_of<'v>(mut values: impl Iterator<Item = Value<'v>>) -> Key {
    match (values.next(), values.next()) {
        (Some(Value::Integer(step)), Some(Value::Integer(thread))) => (step as i64, ThreadIndex(thread as u32)),
        _ => unreachable!("accounts begin with their keys"),
    }
}

/// Accounts as bytes.
pub(super) struct Closed<A> {
    /// Step, thread, numbers.
    rows: Rows,
    /// Storage of a row.
    cells: Vec<Cell>,
    of: PhantomData<A>,
}

impl<A> Default for Closed<A> {
    fn default() -> Self {
        Closed { rows: Rows::default(), cells: Vec::new(), of: PhantomData }
    }
}

impl<A: Account> Closed<A> {
    fn put(&mut self, (step, thread): Key, account: &A) {
        self.cells.clear();
        self.cells.extend([step.into(), thread.0.into()]);
        account.put(&mut self.cells);
        self.rows.push(&self.cells);
    }

    /// Bytes that they take.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.rows.size()
    }

    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whose account it is.
    pub(super) fn key(&self, at: usize) -> Key {
        key_of(self.rows.values(at))
    }

    fn numbers(&self, at: usize) -> impl Iterator<Item = Option<i128>> {
        self.rows.values(at).skip(2).map(|value| if let Value::Integer(number) = value { Some(number) } else { None })
    }

    /// An account.
    pub(super) fn get(&self, at: usize) -> A {
        let mut account = A::default();
        account.add(self.numbers(at));
        account
    }

    /// The account of a thread, among those of a step.
    pub(super) fn find(&self, key: Key) -> Option<A> {
        // Most often each thread has one.
        let at = key.1.0 as usize;
        if key.0 == 0 && at < self.len() && self.key(at) == key {
            return Some(self.get(at));
        }
        let at = self.first(|own| own.cmp(&key) == Ordering::Less);
        (at < self.len() && self.key(at) == key).then(|| self.get(at))
    }

    /// The first account that is not `before`.
    pub(super) fn first(&self, before: impl Fn(Key) -> bool) -> usize {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let at = from.midpoint(to);
            if before(self.key(at)) { from = at + 1 } else { to = at }
        }
        from
    }

    /// All accounts in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, A)> {
        (0..self.len()).map(|at| (self.key(at), self.get(at)))
    }
}
