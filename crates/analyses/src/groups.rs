//! Keys of events as small integers.

use std::collections::HashMap;

use tracemill_engine::event::Event;
use tracemill_engine::filter::{KeyBy, KeyReader, KeyValue};
use tracemill_engine::session::Session;

/// Cheap keys that are remembered, a power of two.
const CACHE_LOG2: u32 = 12;

/// Gives each key a number, from 0 in the order in which they are met.
pub struct Groups {
    reader: KeyReader,
    /// Numbers by cheap keys. A key may be met at many places, and a place hold one of many keys: a key that is not
    /// here is looked up in `numbers`, whose hashes no input can make collide.
    cache: Vec<Slot>,
    numbers: HashMap<Box<[u8]>, u32>,
    found: Vec<Group>,
    key: Vec<u8>,
    /// Encoded keys that were met since somebody asked, when somebody does.
    fresh: Option<Vec<Box<[u8]>>>,
}

#[derive(Clone, Copy)]
struct Slot {
    space: u64,
    value: u64,
    /// The number and 1; 0 in an empty slot.
    next: u32,
}

/// A key.
pub struct Group {
    /// Values by the index of their name.
    pub key: Vec<(usize, KeyValue)>,
    /// The key in words.
    pub label: Option<String>,
}

impl Groups {
    /// No groups yet.
    pub fn new(session: &Session, by: &KeyBy) -> Self {
        Groups {
            reader: KeyReader::new(session, by),
            cache: vec![Slot { space: 0, value: 0, next: 0 }; 1 << CACHE_LOG2],
            numbers: HashMap::new(),
            found: Vec::new(),
            key: Vec::new(),
            fresh: None,
        }
    }

    /// As [`Groups::new`], for one of several lists: [`Groups::fresh`] gives the keys by which they are compared.
    pub(crate) fn one_of_many(session: &Session, by: &KeyBy) -> Self {
        Groups { fresh: Some(Vec::new()), ..Groups::new(session, by) }
    }

    /// The encoded keys that were met since the last call, in the order of their numbers.
    pub(crate) fn fresh(&mut self) -> Vec<Box<[u8]>> {
        self.fresh.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The number of the event's key.
    #[inline]
    pub fn number(&mut self, event: &Event) -> u32 {
        let Some((space, value)) = self.reader.quick(event) else { return self.look_up(event) };
        let mixed = (value ^ space.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> (64 - CACHE_LOG2)) as usize;
        let slot = self.cache[place];
        if slot.next > 0 && slot.space == space && slot.value == value {
            return slot.next - 1;
        }
        let number = self.look_up(event);
        self.cache[place] = Slot { space, value, next: number + 1 };
        number
    }

    fn look_up(&mut self, event: &Event) -> u32 {
        self.key.clear();
        self.reader.encode(event, &mut self.key);
        if let Some(&number) = self.numbers.get(&*self.key) {
            return number;
        }
        let number = self.found.len() as u32;
        self.found.push(Group { key: KeyReader::decode(&self.key), label: self.reader.label(event) });
        self.numbers.insert(self.key.as_slice().into(), number);
        self.fresh.iter_mut().for_each(|fresh| fresh.push(self.key.as_slice().into()));
        number
    }

    /// The names of the values of keys, and all keys by their numbers.
    pub fn into_parts(self) -> (Vec<String>, Vec<Group>) {
        (self.reader.names().to_vec(), self.found)
    }
}
