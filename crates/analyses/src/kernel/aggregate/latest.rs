//! Things that have begun and not ended: a map that forgets its oldest entries.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A map of the entries that were put last, so many at most.
pub(crate) struct Latest<K, V> {
    most: usize,
    entries: HashMap<K, (u64, V)>,
    /// Keys in the order in which they were put; those that have been taken or put again are still there.
    order: VecDeque<(u64, K)>,
    count: u64,
}

impl<K: Copy + Eq + Hash, V> Latest<K, V> {
    /// An empty map.
    pub(crate) fn new(most: usize) -> Self {
        Latest { most, entries: HashMap::new(), order: VecDeque::new(), count: 0 }
    }

    /// Puts an entry in the place of another one of this key. Gives the oldest entry, when it had to go.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.count += 1;
        self.entries.insert(key, (self.count, value));
        self.order.push_back((self.count, key));
        if self.order.len() > 2 * self.most.max(32) {
            let entries = &self.entries;
            self.order.retain(|(number, key)| entries.get(key).is_some_and(|(own, _)| own == number));
        }
        while self.entries.len() > self.most {
            let (number, key) = self.order.pop_front()?;
            if self.entries.get(&key).is_some_and(|(own, _)| *own == number) {
                return self.remove(&key);
            }
        }
        None
    }

    /// The entry of a key.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// All entries, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_go() {
        let mut latest = Latest::new(2);
        assert!(latest.insert('a', 1).is_none() && latest.insert('b', 2).is_none());
        // This one is younger than `b` now.
        assert!(latest.insert('a', 3).is_none());
        assert_eq!(latest.insert('c', 4), Some(2));
        assert_eq!((latest.remove(&'b'), latest.remove(&'a'), latest.remove(&'a')), (None, Some(3), None));
        assert_eq!((latest.insert('d', 5), latest.insert('e', 6)), (None, Some(4)));
        assert_eq!((latest.remove(&'c'), latest.remove(&'d'), latest.remove(&'e')), (None, Some(5), Some(6)));
    }

    #[test]
    fn memory_does_not_grow_with_what_was_taken() {
        let mut latest = Latest::new(100);
        for number in 0..100_000u32 {
            assert!(latest.insert(number, ()).is_none());
            assert!(latest.remove(&number).is_some());
        }
        assert!(latest.entries.is_empty() && latest.order.len() <= 201);
    }
}
