//! Locks of the kernel that threads hold or try to get, as the events of its lock validator (lockdep) show them.
//!
//! `lock_acquire` begins an attempt, or a hold where the lock was got by trying; `lock_acquired` makes a hold of an attempt,
//! and `lock_release` ends either. A lock may be taken again by a thread that has it, as readers do.

use tracemill_semantics::states::{Map, Ns, ThreadIndex};

use super::tracker::Lock;

/// A thread and a lock that it holds or tries to get.
struct TakenLock {
    lock: Lock,
    /// When the attempt began, or the hold.
    since: Ns,
    stage: Stage,
    kind: &'static str,
    is_reader: bool,
    /// How often it has to be released.
    depth: u32,
    /// Attempts to get it again, of a thread that has it.
    again: u32,
    figures: Waited,
}

impl TakenLock {
    fn new(lock: Lock, since: Ns, stage: Stage) -> TakenLock {
        TakenLock { lock, since, stage, kind: LOCK, is_reader: false, depth: 1, again: 0, figures: Waited::default() }
    }

    /// The hold of a thread that ends.
    fn end(self, thread: ThreadIndex, at: Ns, waits: &[OtherWait]) -> Hold {
        let TakenLock { kind, since, figures: mut waited, .. } = self;
        let others = waits.iter().filter(|(of, _)| *of != thread);
        waited.time += others.map(|(_, from)| length((*from).max(since), at)).sum::<u128>();
        Hold { kind, since, waited }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Trying,
    /// It has to wait for the lock.
    Waiting,
    Holding,
}

/// Waits of others for a lock while a thread holds it.
#[derive(Clone, Default)]
pub(super) struct Waited {
    pub(super) waiters: Vec<ThreadIndex>,
    /// Threads that waited at once.
    pub(super) at_once: u64,
    pub(super) time: u128,
}

/// A hold from its beginning on.
pub(super) struct Hold {
    pub(super) kind: &'static str,
    pub(super) since: Ns,
    pub(super) waited: Waited,
}

/// The meaning of a `lock_release`.
pub(super) enum Release {
    /// A hold has ended.
    Hold(Hold),
    /// A hold has ended whose beginning was not seen.
    Unseen,
    /// The thread gave up to wait.
    GivenUp,
    /// The thread still holds the lock: it had taken it several times.
    Held,
}

/// How a thread takes a lock: the flags of `lock_acquire` (`include/trace/events/lock.h`).
#[derive(Clone, Copy)]
pub(super) struct Taking(pub(super) i128);

impl Taking {
    /// Has it got the lock by trying?
    fn is_try(self) -> bool {
        self.0 & 1 != 0
    }

    fn is_reader(self) -> bool {
        self.0 & 2 != 0
    }
}

/// Kinds of locks of lockdep, whose events do not say more.
const LOCK: &str = "lock";
const READER: &str = "lock:R";

/// A map of lockdep lies in its lock, at most so far behind the beginning of it, by which `contention_begin` names the lock.
/// The largest locks of the kernel take less, with all that is there for debugging.
const MAX_OFFSET: i128 = 512;

/// Locks that a thread holds, and those that it waits for, at most; the oldest is forgotten, as its release must have been lost: lockdep itself knows no more than 48.
/// Every event looks through them.
pub(super) const MAX_LOCKS: usize = 256;

fn length(from: Ns, to: Ns) -> u128 {
    u128::try_from(to - from).unwrap_or(0)
}

/// A wait of another thread for a lock, and since when.
pub(super) type OtherWait = (ThreadIndex, Ns);

/// The locks of all threads.
#[derive(Default)]
pub(super) struct HeldLocks {
    /// In the order in which they were taken.
    of: Map<ThreadIndex, Vec<TakenLock>>,
    /// The threads that hold a lock, in the order in which they got it.
    holders: Map<Lock, Vec<ThreadIndex>>,
}

impl HeldLocks {
    fn own(&mut self, thread: ThreadIndex, lock: Lock) -> Option<&mut TakenLock> {
        self.of.get_mut(&thread)?.iter_mut().rev().find(|own| own.lock == lock)
    }

    /// The thread that has held a lock longest, besides one.
    pub(super) fn holder(&self, lock: Lock, besides: ThreadIndex) -> Option<ThreadIndex> {
        self.holders.get(&lock)?.iter().copied().find(|thread| *thread != besides)
    }

    /// A thread begins to take a lock. `has_acquired`: will an event say that it has it?
    pub(super) fn acquire(
        &mut self,
        thread: ThreadIndex,
        lock: Lock,
        taking: Taking,
        at: Ns,
        (has_acquired, waits): (bool, &[OtherWait]),
    ) {
        let is_got = taking.is_try() || !has_acquired;
        // A thread cannot get a lock again that it has for itself: its release was lost.
        let is_own = |own: &mut TakenLock| own.stage == Stage::Holding && !own.is_reader && !taking.is_reader();
        if has_acquired && self.own(thread, lock).is_some_and(is_own) {
            self.remove(thread, lock);
        }
        if let Some(own) = self.own(thread, lock) {
            own.depth = own.depth.saturating_add(1);
            own.again += u32::from(!is_got && own.stage == Stage::Holding);
            return;
        }
        let is_reader = taking.is_reader();
        let kind = if is_reader { READER } else { LOCK };
        self.push(thread, TakenLock { kind, is_reader, ..TakenLock::new(lock, at, Stage::Trying) });
        if is_got {
            self.hold(thread, lock, at, has_acquired, waits);
        }
    }

    /// A thread has to wait for a lock: gives the kind of the lock.
    pub(super) fn contend(&mut self, thread: ThreadIndex, lock: Lock, at: Ns) -> &'static str {
        if let Some(own) = self.own(thread, lock) {
            if own.stage == Stage::Trying {
                own.stage = Stage::Waiting;
            }
            return own.kind;
        }
        self.push(thread, TakenLock::new(lock, at, Stage::Waiting));
        LOCK
    }

    /// A thread has got a lock. `has_acquire`: does an event say when it begins to take one?
    pub(super) fn acquired(
        &mut self,
        thread: ThreadIndex,
        lock: Lock,
        at: Ns,
        (has_acquire, waits): (bool, &[OtherWait]),
    ) {
        match self.own(thread, lock) {
            Some(own) if own.stage == Stage::Holding => {
                if own.again > 0 {
                    own.again -= 1;
                } else if !has_acquire {
                    own.depth = own.depth.saturating_add(1);
                }
            }
            Some(_) => self.hold(thread, lock, at, true, waits),
            None => {
                self.push(thread, TakenLock::new(lock, at, Stage::Trying));
                self.hold(thread, lock, at, true, waits);
            }
        }
    }

    /// A thread releases a lock, or gives up to wait for it. A hold ends with the last release; that of a lock for which no
    /// event says when it is got, such as one of RCU, began with the attempt.
    pub(super) fn release(&mut self, thread: ThreadIndex, lock: Lock, at: Ns, waits: &[OtherWait]) -> Release {
        let Some(own) = self.own(thread, lock) else { return Release::Unseen };
        own.depth -= 1;
        own.again = own.again.min(own.depth);
        if own.depth > 0 {
            return Release::Held;
        }
        let Some(own) = self.remove(thread, lock) else { return Release::Unseen };
        if own.stage == Stage::Waiting { Release::GivenUp } else { Release::Hold(own.end(thread, at, waits)) }
    }

    /// The thread that has a lock for itself.
    pub(super) fn only_holder(&mut self, lock: Lock) -> Option<ThreadIndex> {
        let [holder] = self.holders.get(&lock)?[..] else { return None };
        self.own(holder, lock).is_some_and(|own| !own.is_reader).then_some(holder)
    }

    /// Another thread has released a lock for the one that holds it, however often that had taken it.
    pub(super) fn release_for(&mut self, holder: ThreadIndex, lock: Lock, at: Ns, waits: &[OtherWait]) -> Option<Hold> {
        Some(self.remove(holder, lock)?.end(holder, at, waits))
    }

    fn push(&mut self, thread: ThreadIndex, own: TakenLock) {
        let all = self.of.entry(thread).or_default();
        all.push(own);
        if all.len() > MAX_LOCKS {
            let oldest = all.remove(0);
            self.leave(thread, &oldest);
        }
    }

    fn remove(&mut self, thread: ThreadIndex, lock: Lock) -> Option<TakenLock> {
        let all = self.of.get_mut(&thread)?;
        let at = all.iter().rposition(|own| own.lock == lock)?;
        let own = all.remove(at);
        if all.is_empty() {
            self.of.remove(&thread);
        }
        self.leave(thread, &own);
        Some(own)
    }

    fn leave(&mut self, thread: ThreadIndex, own: &TakenLock) {
        if own.stage == Stage::Holding
            && let Some(holders) = self.holders.get_mut(&own.lock)
        {
            holders.retain(|holder| *holder != thread);
            if holders.is_empty() {
                self.holders.remove(&own.lock);
            }
        }
    }

    /// The attempt of a thread becomes a hold. Those that cannot hold the lock next to it have released it unseen, unless
    /// holds begin before the lock is got.
    fn hold(&mut self, thread: ThreadIndex, lock: Lock, at: Ns, is_got: bool, waits: &[OtherWait]) {
        let Some(own) = self.own(thread, lock) else { return };
        let waiters: Vec<ThreadIndex> = waits.iter().map(|(of, _)| *of).filter(|of| *of != thread).collect();
        own.figures = Waited { at_once: waiters.len() as u64, waiters, time: 0 };
        (own.stage, own.since) = (Stage::Holding, at);
        let is_reader = own.is_reader;
        let others = self.holders.get(&lock).cloned().unwrap_or_default();
        for other in others.into_iter().filter(|_| is_got) {
            if self.own(other, lock).is_some_and(|own| !(own.is_reader && is_reader)) {
                self.remove(other, lock);
            }
        }
        self.holders.entry(lock).or_default().push(thread);
    }

    /// A thread begins to wait for a lock: the number of threads that do so now, it included.
    pub(super) fn wait_begins(&mut self, thread: ThreadIndex, lock: Lock, waiting: u64) {
        for holder in self.holders.get(&lock).cloned().unwrap_or_default() {
            if let Some(own) = self.own(holder, lock).filter(|_| holder != thread) {
                own.figures.at_once = own.figures.at_once.max(waiting);
                if !own.figures.waiters.contains(&thread) {
                    own.figures.waiters.push(thread);
                }
            }
        }
    }

    /// The wait of a thread for a lock has ended.
    pub(super) fn wait_ended(&mut self, thread: ThreadIndex, lock: Lock, (from, to): (Ns, Ns)) {
        for holder in self.holders.get(&lock).cloned().unwrap_or_default() {
            if let Some(own) = self.own(holder, lock).filter(|_| holder != thread) {
                own.figures.time += length(from.max(own.since), to);
            }
        }
    }

    /// A thread begins to wait for a lock that an event names by its beginning: the lock of lockdep that it tries to get
    /// there, which has this kind.
    pub(super) fn attempt_at(&mut self, thread: ThreadIndex, address: i128, kind: &'static str) -> Option<Lock> {
        let is_there = |own: &&mut TakenLock| {
            own.stage != Stage::Holding && (0..MAX_OFFSET).contains(&(own.lock.address - address))
        };
        let own = self.of.get_mut(&thread)?.iter_mut().rev().find(is_there)?;
        own.kind = kind;
        Some(own.lock)
    }

    /// Forgets the locks of a thread that were taken before a time.
    pub(super) fn forget(&mut self, thread: ThreadIndex, before: Ns) {
        let Some(all) = self.of.get_mut(&thread) else { return };
        if all.iter().all(|own| own.since >= before) {
            return;
        }
        let (old, young): (Vec<TakenLock>, Vec<TakenLock>) =
            std::mem::take(all).into_iter().partition(|own| own.since < before);
        if young.is_empty() {
            self.of.remove(&thread);
        } else {
            *all = young;
        }
        old.iter().for_each(|own| self.leave(thread, own));
    }

    /// Number of locks that threads hold.
    pub(super) fn held_by(&self, is_wanted: impl Fn(ThreadIndex) -> bool) -> u64 {
        self.holders.values().flatten().filter(|thread| is_wanted(**thread)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tracker::LockOf;
    use super::*;

    #[test]
    fn locks_that_are_never_released_are_forgotten() {
        let (mut held, thread) = (HeldLocks::default(), ThreadIndex(7));
        let lock = |address| Lock { machine: 0, of: LockOf::Lockdep, address };
        for address in 0..10 * MAX_LOCKS as i128 {
            held.acquire(thread, lock(address), Taking(0), address as Ns, (true, &[]));
            held.acquired(thread, lock(address), address as Ns, (true, &[]));
        }
        assert_eq!((held.of[&thread].len(), held.holders.len()), (MAX_LOCKS, MAX_LOCKS));
        let last = lock(10 * MAX_LOCKS as i128 - 1);
        assert!(matches!(held.release(thread, last, 0, &[]), Release::Hold(_)));
        assert!(matches!(held.release(thread, lock(0), 0, &[]), Release::Unseen));
    }
}
