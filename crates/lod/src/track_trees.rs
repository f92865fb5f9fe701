//! The trees of a track while events are added to it.

use std::collections::HashMap;

use crate::tree::TreeBuilder;

/// The maker of the trees of a track, event by event.
pub(crate) struct TrackTrees {
    pub(crate) builder: TreeBuilder,
    /// Names by the numbers in the trees.
    pub(crate) names: Vec<u32>,
    of_name: HashMap<u32, u32>,
}

impl TrackTrees {
    /// Trees of no events yet; `events`: how many there are on all tracks.
    pub(crate) fn new(always: u32, events: usize) -> TrackTrees {
        TrackTrees {
            builder: TreeBuilder::new(always, false, events as f64),
            names: Vec::new(),
            of_name: HashMap::new(),
        }
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, time: i64, name: u32) {
        let number = self.number(name);
        self.builder.push(time.max(0) as u64, number);
    }

    /// The number of a name in the trees: names are numbered as they come.
    pub(crate) fn number(&mut self, name: u32) -> u32 {
        *self.of_name.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() as u32 - 1
        })
    }
}
