//! Actions at the calls of each function: the recorder's table, and the addresses that were looked up in it.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::table::{self, Action, CallValue, FunctionEntry};

/// Entries of the cache, a power of two.
pub(crate) const CACHED: usize = 1 << 16;

/// Functions with an action.
struct Rules {
    /// Beginning, end and number of the action, by their beginning.
    ranges: Vec<[u64; 3]>,
    actions: Vec<Action>,
    values: Vec<CallValue>,
    /// Where addresses of entries stand that can be patched, and how many bytes those are.
    patches: Vec<[u64; 2]>,
    /// Functions without such an entry, by their addresses.
    entries: Vec<FunctionEntry>,
    flags: u64,
    /// By a few bits of the address: all of it, and after that 16 bits of the number of the action and one.
    cache: Vec<AtomicU64>,
}

static RULES: AtomicPtr<Rules> = AtomicPtr::new(std::ptr::null_mut());

static NOTHING: Action =
    Action { flags: 0, depth: 0, time: 0, size: 0, own_size: 0, arguments: [0; 2], results: [0; 2] };

fn rules() -> Option<&'static Rules> {
    // SAFETY: what stands there was leaked, before calls are recorded, and is never written again.
    unsafe { RULES.load(Ordering::Relaxed).as_ref() }
}

/// Does the table say so?
pub(crate) fn has_flag(flag: u64) -> bool {
    rules().is_some_and(|rules| rules.flags & flag != 0)
}

/// The action at the calls of the function that has this address in it.
pub(crate) fn action_at(address: usize) -> &'static Action {
    let Some(rules) = rules() else { return &NOTHING };
    let address = address as u64;
    let cached = &rules.cache[(address ^ address >> 16) as usize % CACHED];
    let known = cached.load(Ordering::Relaxed);
    let number = match known >> 16 == address {
        true => known & 0xffff,
        false => {
            let number = rules.find(address);
            cached.store(address << 16 | number, Ordering::Relaxed);
            number
        }
    };
    match number {
        0 => &NOTHING,
        number => rules.actions.get(number as usize - 1).unwrap_or(&NOTHING),
    }
}

/// Does a function with an action begin here?
pub(crate) fn is_beginning(address: usize) -> bool {
    rules().is_some_and(|rules| rules.ranges.binary_search_by_key(&(address as u64), |range| range[0]).is_ok())
}

/// The cache of numbers of actions, for the stubs; null without a table.
pub(crate) fn cache() -> *const AtomicU64 {
    rules().map_or(std::ptr::null(), |rules| rules.cache.as_ptr())
}

/// Has an action of the table one of these flags?
pub(crate) fn has_any(flags: u64) -> bool {
    rules().is_some_and(|rules| rules.actions.iter().any(|action| action.flags & flags != 0))
}

/// Some of the values of the table.
pub(crate) fn values([first, count]: [u64; 2]) -> &'static [CallValue] {
    let all = rules().map_or(&[][..], |rules| &rules.values);
    all.get(first as usize..(first + count) as usize).unwrap_or(&[])
}

/// Lists of the addresses of entries that can be patched: where they stand, and how many bytes those are.
pub(crate) fn patches() -> &'static [[u64; 2]] {
    rules().map_or(&[], |rules| &rules.patches)
}

/// Functions to be patched that have no such entry, in the order of their addresses.
pub(crate) fn entries() -> &'static [FunctionEntry] {
    rules().map_or(&[], |rules| &rules.entries)
}

/// Are values of any call recorded?
pub(crate) fn has_values() -> bool {
    rules().is_some_and(|rules| !rules.values.is_empty())
}

impl Rules {
    /// The number of the action and one; 0 for none.
    fn find(&self, address: u64) -> u64 {
        let behind = self.ranges.partition_point(|&[begin, ..]| begin <= address);
        match behind.checked_sub(1).and_then(|at| self.ranges.get(at)) {
            Some(&[_, end, number]) if address < end => number + 1,
            _ => 0,
        }
    }

    fn read(bytes: &[u8]) -> Option<Rules> {
        let rest = bytes.strip_prefix(table::MAGIC)?;
        let mut words =
            rest.chunks_exact(8).filter_map(|word| word.first_chunk()).map(|word| u64::from_le_bytes(*word));
        let (flags, ranges, actions, values) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (patches, entries) = (words.next()?, words.next()?);
        let mut rules = Rules {
            ranges: Vec::new(),
            actions: Vec::new(),
            values: Vec::new(),
            patches: Vec::new(),
            entries: Vec::new(),
            flags,
            cache: Vec::new(),
        };
        for _ in 0..ranges {
            rules.ranges.push([words.next()?, words.next()?, words.next()?]);
        }
        for _ in 0..actions {
            let mut action = [0; table::ACTION_WORDS];
            for word in &mut action {
                *word = words.next()?;
            }
            rules.actions.push(Action::from_words(action));
        }
        for _ in 0..values {
            rules.values.push(CallValue::from_words([words.next()?, words.next()?, words.next()?, words.next()?]));
        }
        for _ in 0..patches {
            rules.patches.push([words.next()?, words.next()?]);
        }
        for _ in 0..entries {
            let mut entry = [0; table::ENTRY_WORDS];
            for word in &mut entry {
                *word = words.next()?;
            }
            rules.entries.push(FunctionEntry::from_words(entry)?);
        }
        rules.cache.resize_with(CACHED, AtomicU64::default);
        Some(rules)
    }
}

/// Waits for the table of a session, and takes it. Without a recorder there is none.
pub(crate) fn load(folder: &OsStr, session: &str, has_recorder: fn() -> bool) {
    let path = std::path::Path::new(folder).join(format!(".rules-{session}"));
    while has_recorder() {
        if let Some(rules) = std::fs::read(&path).ok().and_then(|bytes| Rules::read(&bytes)) {
            RULES.store(Box::into_raw(Box::new(rules)), Ordering::Release);
            let _ = std::fs::remove_file(path);
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
