//! Values that took long to make, kept for the next request: those that were used last.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use lru::LruCache;

use crate::error::Answer;
use crate::query::Asker;

/// How much a cache keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Values at most.
    pub entries: usize,
    /// Bytes of a value at most: a larger one is given, and not kept.
    pub entry_bytes: usize,
    /// Bytes of all values together at most. The newest value is kept whatever it takes.
    pub bytes: usize,
}

impl Limits {
    /// Limits the number of values, whatever their size.
    pub const fn entries(entries: usize) -> Limits {
        Limits { entries, entry_bytes: usize::MAX, bytes: usize::MAX }
    }
}

/// How often somebody who waits for a value that is being made looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(2);

/// A value that is kept, or being made.
struct Slot<V> {
    value: OnceLock<V>,
    /// Held by who makes it.
    making: Mutex<()>,
}

impl<V> Default for Slot<V> {
    fn default() -> Slot<V> {
        Slot { value: OnceLock::new(), making: Mutex::new(()) }
    }
}

/// Values by key. A value that several ask for at once is made once.
pub struct Cache<K, V> {
    slots: Mutex<LruCache<K, Arc<Slot<V>>>>,
    limits: Limits,
    bytes_of: fn(&V) -> usize,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// An empty cache; `bytes_of` says how large a value is.
    pub fn new(limits: Limits, bytes_of: fn(&V) -> usize) -> Cache<K, V> {
        Cache { slots: Mutex::new(LruCache::unbounded()), limits, bytes_of }
    }

    /// An empty cache of so many values.
    pub fn with_entries(entries: usize) -> Cache<K, V> {
        Cache::new(Limits::entries(entries), |_| 0)
    }

    fn slots(&self) -> MutexGuard<'_, LruCache<K, Arc<Slot<V>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a value, in the place of another one of its key.
    pub fn insert(&self, key: K, value: V) {
        let slot = Slot { value: value.into(), ..Slot::default() };
        self.slots().put(key, Arc::new(slot));
        self.shrink();
    }

    /// The value of a key, which is not kept any more.
    pub fn remove(&self, key: &K) -> Option<V> {
        let slot = self.slots().pop(key)?;
        Arc::into_inner(slot)?.value.into_inner()
    }

    /// Removes what was used longest ago until the rest is within the limits.
    fn shrink(&self) {
        let mut slots = self.slots();
        let bytes = |slot: &Slot<V>| slot.value.get().map_or(0, self.bytes_of);
        let mut all: usize = slots.iter().map(|(_, slot)| bytes(slot)).sum();
        while slots.len() > 1 && (slots.len() > self.limits.entries || all > self.limits.bytes) {
            all -= slots.pop_lru().map_or(0, |(_, slot)| bytes(&slot));
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// The value of a key, when it is kept.
    pub fn get(&self, key: &K) -> Option<V> {
        self.slots().get(key)?.value.get().cloned()
    }

    /// The value of a key: the one that is kept, or a new one. One asker makes it, others wait for that, until
    /// `is_over` says that they do not any more.
    ///
    /// # Errors
    /// The error of `make`, and the next one who asks tries again; and when an asker waits no longer.
    pub fn get_or_make(&self, key: K, is_over: &dyn Fn() -> bool, make: impl FnOnce() -> Answer<V>) -> Answer<V> {
        let slot = self.slots().get_or_insert(key.clone(), Arc::default).clone();
        if let Some(value) = slot.value.get() {
            return Ok(value.clone());
        }
        let _making = loop {
            match slot.making.try_lock() {
                Ok(making) => break making,
                Err(TryLockError::Poisoned(making)) => break making.into_inner(),
                Err(TryLockError::WouldBlock) if is_over() => return Err(Asker::cancelled()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
        };
        if let Some(value) = slot.value.get() {
            return Ok(value.clone());
        }
        let made = make().map(|value| slot.value.get_or_init(|| value).clone());
        let is_kept = made.as_ref().is_ok_and(|value| (self.bytes_of)(value) <= self.limits.entry_bytes);
        let mut slots = self.slots();
        let is_own = slots.peek(&key).is_some_and(|own| Arc::ptr_eq(own, &slot));
        match (is_kept, is_own) {
            // Others needed its room while it was made.
            (true, false) => _ = slots.put(key, slot.clone()),
            (false, true) => _ = slots.pop(&key),
            _ => {}
        }
        drop(slots);
        self.shrink();
        made
    }

    /// All values that are kept.
    pub fn values(&self) -> Vec<V> {
        self.slots().iter().filter_map(|(_, slot)| slot.value.get().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::error::ApiError;

    const PATIENT: &dyn Fn() -> bool = &|| false;

    fn ask(cache: &Cache<usize, String>, key: usize, text: &str) -> String {
        cache.get_or_make(key, PATIENT, || Ok(text.to_string())).expect("it can be made")
    }

    #[test]
    fn values_are_kept_and_not_too_many() {
        let limits = Limits { entries: 4, entry_bytes: 10, bytes: 20 };
        let cache = Cache::new(limits, String::len);
        assert_eq!((ask(&cache, 0, "a"), ask(&cache, 0, "b")), ("a".to_string(), "a".to_string()));
        (1..=3).for_each(|key| assert_eq!(ask(&cache, key, "c"), "c"));
        // The entries used last stay.
        assert_eq!((ask(&cache, 0, "x"), ask(&cache, 4, "d")), ("a".to_string(), "d".to_string()));
        assert_eq!((cache.get(&0).as_deref(), cache.get(&1)), (Some("a"), None));
        let long = "x".repeat(11);
        assert_eq!((ask(&cache, 9, &long).len(), ask(&cache, 9, "e")), (11, "e".to_string()));
        (10..13).for_each(|key| _ = ask(&cache, key, "0123456789"));
        assert_eq!(cache.values().len(), 2, "the bytes of three are too many");
    }

    #[test]
    fn mistakes_are_not_kept() {
        let cache = Cache::with_entries(2);
        let wrong = cache.get_or_make(1, PATIENT, || Err(ApiError::request("no")));
        assert_eq!((wrong.is_err(), ask(&cache, 1, "f")), (true, "f".to_string()));
    }

    #[test]
    fn the_newest_is_kept_whatever_it_takes() {
        let cache = Cache::new(Limits { entries: 4, entry_bytes: usize::MAX, bytes: 2 }, String::len);
        assert_eq!((ask(&cache, 1, "abc"), ask(&cache, 1, "d")), ("abc".to_string(), "abc".to_string()));
        assert_eq!((ask(&cache, 2, "e"), ask(&cache, 1, "f")), ("e".to_string(), "f".to_string()));
    }

    #[test]
    fn a_value_is_taken_once() {
        let cache = Cache::with_entries(2);
        (0..3).for_each(|key| cache.insert(key, key.to_string()));
        assert_eq!((cache.remove(&0), cache.remove(&2).as_deref(), cache.remove(&2)), (None, Some("2"), None));
    }

    #[test]
    fn several_who_ask_at_once_make_a_value_once() {
        let cache: Cache<usize, String> = Cache::with_entries(2);
        let (made, go) = (AtomicUsize::new(0), AtomicBool::new(false));
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            while !go.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok("made".to_string())
        };
        std::thread::scope(|scope| {
            let ask = || cache.get_or_make(1, PATIENT, make);
            let all = [scope.spawn(ask), scope.spawn(ask)];
            while made.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            // A client that has gone away does not wait for it.
            assert!(cache.get_or_make(1, &|| true, make).is_err());
            assert_eq!(cache.get(&1), None);
            go.store(true, Ordering::Relaxed);
            all.into_iter()
                .for_each(|asker| assert_eq!(asker.join().expect("it ends").expect("it can be made"), "made"));
        });
        assert_eq!(made.into_inner(), 1);
    }
}
