//! The newest life of each thread, found by its machine and number.

use std::hash::BuildHasher;

use super::ThreadIndex;
use super::thread::Thread;

/// Stands for no thread in a slot.
const EMPTY: u32 = u32::MAX;
/// Slots of the smallest table; beyond [`LARGE`], a table grows by a quarter, for it to be less empty.
const SMALL: usize = 64;
const LARGE: usize = 1 << 14;

/// A hash table of indices of threads: the keys stand in the threads. Of four slots, three are taken at most.
#[derive(Debug, Default)]
pub(super) struct Newest {
    slots: Vec<u32>,
    taken: usize,
    hasher: foldhash::fast::RandomState,
}

impl Newest {
    /// The slot of a thread, or an empty one where it belongs.
    #[inline]
    fn slot(&self, threads: &[Thread], machine: u32, tid: i64) -> usize {
        let hash = self.hasher.hash_one((machine, tid));
        let mut at = ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize;
        loop {
            match threads.get(self.slots[at] as usize) {
                Some(thread) if thread.tid != tid || thread.machine != machine => {}
                _ => return at,
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
    }

    /// The newest life of a thread.
    #[inline]
    pub(super) fn find(&self, threads: &[Thread], machine: u32, tid: i64) -> Option<ThreadIndex> {
        if self.slots.is_empty() {
            return None;
        }
        let found = self.slots[self.slot(threads, machine, tid)];
        (found != EMPTY).then_some(ThreadIndex(found))
    }

    /// Takes the last thread, which has its number from here on.
    pub(super) fn push(&mut self, threads: &[Thread]) {
        if self.taken * 4 >= self.slots.len() * 3 {
            // The table is made out of the threads, so that there are never two at a time.
            let len = self.slots.len();
            let len = if len < LARGE { SMALL.max(2 * len) } else { len + len / 4 };
            (self.slots, self.taken) = (Vec::new(), 0);
            self.slots = vec![EMPTY; len];
            (0..threads.len()).for_each(|at| self.insert(threads, at));
        } else {
            self.insert(threads, threads.len() - 1);
        }
    }

    fn insert(&mut self, threads: &[Thread], at: usize) {
        let slot = self.slot(threads, threads[at].machine, threads[at].tid);
        self.taken += usize::from(self.slots[slot] == EMPTY);
        self.slots[slot] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::super::thread::Live;
    use super::*;

    #[test]
    fn the_newest_lives_are_found_in_tables_of_any_size() {
        let (mut newest, mut threads) = (Newest::default(), Vec::new());
        assert_eq!(newest.find(&threads, 0, 1), None);
        let tid = |at: u32| i64::from(at % 30_000) * 0x1_0001 - 7;
        for at in 0..40_000 {
            threads.push(Thread::new(at % 3, tid(at), 0, Live::default()));
            newest.push(&threads);
            assert_eq!(newest.find(&threads, at % 3, tid(at)), Some(ThreadIndex(at)));
        }
        for at in 0..40_000 {
            let last = if at < 10_000 { at + 30_000 } else { at };
            assert_eq!(newest.find(&threads, at % 3, tid(at)), Some(ThreadIndex(last)), "{at}");
            assert_eq!(newest.find(&threads, 3, tid(at)), None);
        }
        assert_eq!(newest.taken, 30_000);
        assert!(newest.slots.len() <= 30_000 * 5 / 3, "{}", newest.slots.len());
    }
}
