//! Names of events as small integers, common to both sides.

use std::collections::HashMap;

use tracemill_engine::event::Event;
use tracemill_engine::session::Session;

/// Names that are told apart. Events that make their own names may have any number; those beyond count as one.
const MAX_NAMES: usize = 1 << 16;
/// The name of all names beyond.
const OTHERS: &str = "(other names)";
/// The name of events that have none.
const NO_NAME: &str = "(no name)";

/// Names, by numbers in the order in which they are met.
#[derive(Default)]
pub struct EventNames {
    ids: HashMap<Box<[u8]>, u32>,
    texts: Vec<String>,
}

impl EventNames {
    /// The text of a name.
    pub fn text(&self, id: u32) -> &str {
        self.texts.get(id as usize).map_or(NO_NAME, String::as_str)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The number of a name.
    pub fn id(&mut self, name: &[u8]) -> u32 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        if self.texts.len() >= MAX_NAMES && name != OTHERS.as_bytes() {
            return self.id(OTHERS.as_bytes());
        }
        let id = self.texts.len() as u32;
        self.texts.push(String::from_utf8_lossy(name).into_owned());
        self.ids.insert(name.into(), id);
        id
    }
}

/// Looks up the names of the events of a session: most classes have one name for all of their events.
pub(super) struct NameLookup {
    /// By trace and class.
    known: Vec<Vec<Option<u32>>>,
    storage: Vec<u8>,
}

impl NameLookup {
    pub(super) fn new(session: &Session) -> Self {
        let known = session.traces.iter().map(|trace| vec![None; trace.schema.events().len()]);
        NameLookup { known: known.collect(), storage: Vec::new() }
    }

    #[inline]
    pub(super) fn id(&mut self, event: &Event<'_>, names: &mut EventNames) -> u32 {
        match self.known[event.trace][event.raw.class().0 as usize] {
            Some(id) => id,
            None => self.look_up(event, names),
        }
    }

    fn look_up(&mut self, event: &Event<'_>, names: &mut EventNames) -> u32 {
        let id = names.id(event.name(&mut self.storage).unwrap_or(NO_NAME.as_bytes()));
        if event.class().open_ids.is_none() {
            self.known[event.trace][event.raw.class().0 as usize] = Some(id);
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_are_one() {
        let mut names = EventNames::default();
        let ids: Vec<u32> = (0..MAX_NAMES + 3).map(|at| names.id(at.to_string().as_bytes())).collect();
        assert_eq!((ids[0], ids[MAX_NAMES - 1]), (0, MAX_NAMES as u32 - 1));
        assert_eq!(ids[MAX_NAMES], ids[MAX_NAMES + 2]);
        assert_eq!((names.text(ids[MAX_NAMES]), names.text(7), names.len()), (OTHERS, "7", MAX_NAMES + 1));
        assert_eq!(names.id(b"7"), 7);
    }
}
