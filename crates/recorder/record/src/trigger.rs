//! Triggers: a condition that comes true leads to a snapshot of what was recorded before. The thread that meets it only leaves
//! a note; the thread of the recorder makes the snapshot.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracemill_ring::condition::{FieldCondition, PlainValue};

use crate::clock;
use crate::field::FieldClass;
use crate::local::{self, system};
use crate::rules::{self, EventCondition, Level, is_allowed};

/// Most triggers of a recording, and most snapshots that they lead to.
pub(crate) const MAX_TRIGGERS: usize = 16;
pub(crate) const MAX_SNAPSHOTS: u32 = 100;
/// Longest wait of a thread that is about to end for its snapshot.
const PATIENCE: Duration = Duration::from_secs(1);

/// A reason for a snapshot.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// An event of some names of which a condition is true.
    Event(EventCondition),
    /// More time than that between two events: of a thread, or with the same value of a field.
    Longer {
        /// The events that begin: a list as in [`Options::filter`](crate::Options::filter).
        begin: String,
        /// The events that end.
        end: String,
        /// The field that both have in common, or none.
        by: Option<String>,
        /// The time.
        limit: Duration,
    },
    /// The process gets a signal. What it does about it without this happens afterwards; SIGUSR1 and SIGUSR2, and those of real
    /// time, then do not end it.
    Signal(i32),
    /// A thread panics, in Rust.
    Panic,
}

/// A cause, and how far back the snapshot goes.
#[derive(Clone, PartialEq, Debug)]
pub struct Trigger {
    /// The cause of the snapshot.
    pub cause: Cause,
    /// The time before that the snapshot has, and somewhat more; everything when it is zero.
    pub before: Duration,
}

/// The interest of a trigger in the events of a site.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BoundTrigger {
    /// The number of the trigger.
    number: u32,
    role: Role,
}

#[derive(Clone, PartialEq, Debug)]
enum Role {
    Is(FieldCondition<usize>),
    Begins(Option<usize>),
    Ends(Option<usize>, u64),
}

impl Trigger {
    /// Its interest in events of this name, with fields of these names and classes.
    pub(crate) fn bind(
        &self,
        number: u32,
        frequency: u64,
        (name, level, fields, classes): (&str, Option<Level>, &[&str], &[FieldClass]),
        roles: &mut Vec<BoundTrigger>,
    ) {
        let named = |globs: &str| is_allowed(globs, name, level);
        match &self.cause {
            Cause::Event(rule) if named(&rule.events) => {
                let condition = rules::bound(&rule.condition, name, fields, classes);
                if condition != FieldCondition::Const(false) {
                    roles.push(BoundTrigger { number, role: Role::Is(condition) });
                }
            }
            Cause::Longer { begin, end, by, limit } => {
                let by = by.as_ref().map(|by| fields.iter().position(|field| field == by));
                // Without the field, it is no event of a pair.
                if by == Some(None) {
                    return;
                }
                let cycles = limit.as_nanos() * u128::from(frequency) / 1_000_000_000;
                let cycles = u64::try_from(cycles).unwrap_or(u64::MAX);
                // The end first: an event may be both.
                if named(end) {
                    roles.push(BoundTrigger { number, role: Role::Ends(by.flatten(), cycles) });
                }
                if named(begin) {
                    roles.push(BoundTrigger { number, role: Role::Begins(by.flatten()) });
                }
            }
            _ => {}
        }
    }
}

impl BoundTrigger {
    /// Looks at an event that was recorded just now.
    pub(crate) fn look<'a>(&self, name: &'a str, value: impl Fn(usize) -> PlainValue<'a> + Copy) {
        let key = |by: Option<usize>| match by.map(value) {
            None => local::writer().map_or(1, |writer| std::ptr::from_ref(writer) as u64),
            Some(PlainValue::Integer(number)) => hash(&number.to_le_bytes()),
            Some(PlainValue::Real(number)) => hash(&number.to_le_bytes()),
            Some(PlainValue::Bool(is)) => hash(&[u8::from(is)]),
            Some(PlainValue::Text(text)) => hash(text),
            Some(PlainValue::List(_)) => 1,
        };
        match &self.role {
            Role::Is(condition) => {
                if condition.is_true(name, value) {
                    fire(self.number);
                }
            }
            Role::Begins(by) => begin_pair(self.number, key(*by)),
            Role::Ends(by, limit) => {
                let begun = end_pair(self.number, key(*by));
                if begun.is_some_and(|begun| clock::now().saturating_sub(begun) > *limit) {
                    fire(self.number);
                }
            }
        }
    }
}

/// FNV-1a, of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Pairs that have begun, by hash. Where there is no room, the oldest of its place is forgotten.
static OPEN: [(AtomicU64, AtomicU64); 4096] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 4096];
/// Places in which a pair may be.
const PROBES: usize = 8;

/// The key of a pair, never 0, and its places.
fn places(number: u32, key: u64) -> (u64, impl Iterator<Item = &'static (AtomicU64, AtomicU64)> + Clone) {
    let key = (key ^ u64::from(number) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let first = (key >> 40) as usize;
    (key, (first..first + PROBES).map(|at| &OPEN[at % OPEN.len()]))
}

fn begin_pair(number: u32, key: u64) {
    let (key, places) = places(number, key);
    let now = clock::now();
    let takes = |(place, clock): &&'static (AtomicU64, AtomicU64), before: u64| {
        let is_taken = place.compare_exchange(before, key, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_taken {
            clock.store(now, Ordering::Release);
        }
        is_taken
    };
    if places.clone().any(|place| takes(&place, key)) || places.clone().any(|place| takes(&place, 0)) {
        return;
    }
    if let Some((place, clock)) = places.min_by_key(|(_, clock)| clock.load(Ordering::Relaxed)) {
        place.store(key, Ordering::Release);
        clock.store(now, Ordering::Release);
    }
}

/// When a pair began, which ends.
fn end_pair(number: u32, key: u64) -> Option<u64> {
    let (key, mut places) = places(number, key);
    let (place, clock) = places.find(|(place, _)| place.load(Ordering::Acquire) == key)?;
    let begun = clock.load(Ordering::Acquire);
    place.compare_exchange(key, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok().then_some(begun)
}

/// The trigger whose snapshot is to be made, and one; and when it was.
static PENDING: (AtomicU32, AtomicU64) = (AtomicU32::new(0), AtomicU64::new(0));

/// Asks for the snapshot of a trigger. `false` when one is being made.
pub(crate) fn fire(number: u32) -> bool {
    let is_first = PENDING.0.compare_exchange(0, number + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if is_first {
        PENDING.1.store(clock::now(), Ordering::Release);
        system::wake_consumer_surely();
    }
    is_first
}

/// Asks for the snapshot of a trigger, and waits for it: the process may be about to end. One that is being made may
/// have been begun too early.
pub(crate) fn fire_at_the_end(number: u32) {
    if !fire(number) {
        wait();
        fire(number);
    }
    wait();
}

/// The trigger that asked for a snapshot, and when.
pub(crate) fn pending() -> Option<(u32, u64)> {
    let number = PENDING.0.load(Ordering::Acquire).checked_sub(1)?;
    let at = PENDING.1.swap(0, Ordering::AcqRel);
    Some((number, if at == 0 { clock::now() } else { at }))
}

/// Its snapshot is made.
pub(crate) fn done() {
    PENDING.0.store(0, Ordering::Release);
}

/// The folder of a snapshot of a trace while it is made.
pub(crate) fn unfinished(trace: &Path) -> PathBuf {
    trace.with_file_name(format!(".{}.trigger", trace.file_name().unwrap_or_default().to_string_lossy()))
}

/// The folder of its next snapshot, when that is whole.
pub(crate) fn next_folder(trace: &Path) -> PathBuf {
    let name = trace.file_name().unwrap_or_default().to_string_lossy();
    let named = |number: u32| trace.with_file_name(format!("{name}.trigger{number}"));
    (1..).map(named).find(|path| !path.exists()).unwrap_or_default()
}

/// The trigger of a panic, and one; 0 without.
static OF_PANIC: AtomicU32 = AtomicU32::new(0);

/// Has nobody ask for a snapshot any more: nobody would make it.
pub(crate) fn end() {
    watch(&[]);
    done();
}

/// Watches for signals and panics, as these triggers say; without them for none.
pub(crate) fn watch(triggers: &[Trigger]) {
    static HAS_HOOK: AtomicBool = AtomicBool::new(false);

    OF_PANIC.store(0, Ordering::Relaxed);
    local::signals::forget();
    for (number, trigger) in (0_u32..).zip(triggers) {
        match trigger.cause {
            Cause::Signal(signal) => local::signals::watch(signal, number),
            Cause::Panic => {
                OF_PANIC.store(number + 1, Ordering::Relaxed);
                if !std::thread::panicking() && !HAS_HOOK.swap(true, Ordering::Relaxed) {
                    let before = std::panic::take_hook();
                    std::panic::set_hook(Box::new(move |panic| {
                        if let Some(number) = OF_PANIC.load(Ordering::Relaxed).checked_sub(1) {
                            fire_at_the_end(number);
                        }
                        before(panic);
                    }));
                }
            }
            _ => {}
        }
    }
}

/// Waits for the snapshot that was asked for.
pub(crate) fn wait() {
    let begin = Instant::now();
    while PENDING.0.load(Ordering::Acquire) != 0 && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_by_their_keys() {
        clock::choose();
        begin_pair(1, 7);
        assert_eq!(end_pair(2, 7), None, "it is another trigger");
        assert!(end_pair(1, 7).is_some_and(|begun| begun <= clock::now()));
        assert_eq!(end_pair(1, 7), None, "it has ended");
        // Many more than there is room for: those that began last are still known.
        (0..100_000).for_each(|key| begin_pair(3, hash(&u64::to_le_bytes(key))));
        assert!((99_900..100_000).all(|key| end_pair(3, hash(&u64::to_le_bytes(key))).is_some()));
        assert_eq!(end_pair(3, hash(&0_u64.to_le_bytes())), None);
    }
}
