//! Lanes: the tracks of slices that may begin and end on different threads.
//!
//! Slices of one name overlap, so each stands on the first lane of its name that is free. There are as many lanes as slices
//! were open at the same time, however many slices there are.

use std::collections::{BTreeSet, HashMap};

/// Slices that may be open at once, and lanes; further slices are not shown.
const MAX_LANES: usize = 1 << 15;
/// Lanes that may be nested; slices further inside are next to the innermost of these.
const MAX_NESTED: u32 = 32;

/// Distinguishes a slice from others that are open.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum SliceKey {
    /// Mark of a program: trace, process, name and cookie.
    Mark(usize, i64, Vec<u8>, Vec<u8>),
    /// Span: trace and number.
    Span(usize, u64),
}

/// Lanes whose slices are shown together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct LaneGroup {
    pub(super) trace: usize,
    pub(super) machine: u32,
    /// Process of the slices, where it is known.
    pub(super) process: Option<i64>,
    /// The lane that these are below.
    pub(super) parent: Option<u32>,
    pub(super) name: Vec<u8>,
}

struct LaneKey {
    group: LaneGroup,
    depth: u32,
}

/// A slice that is open.
struct OpenSlice {
    lane: u32,
    /// Beginnings without an end: programs may begin a slice again.
    begins: u32,
}

/// The lanes of all traces, and the slices that are open on them.
#[derive(Default)]
pub(super) struct Lanes {
    open: HashMap<SliceKey, OpenSlice>,
    lanes: Vec<LaneKey>,
    free: HashMap<LaneGroup, BTreeSet<u32>>,
    /// Slices for which there was no lane.
    pub(super) refused: u64,
}

impl Lanes {
    /// The group of a lane.
    pub(super) fn group(&self, lane: u32) -> &LaneGroup {
        &self.lanes[lane as usize].group
    }

    /// The lane of a slice that is open.
    pub(super) fn find(&self, key: &SliceKey) -> Option<u32> {
        self.open.get(key).map(|slice| slice.lane)
    }

    /// A slice begins: its lane, `None` when there are too many.
    pub(super) fn begin(&mut self, key: SliceKey, mut group: LaneGroup) -> Option<u32> {
        if let Some(slice) = self.open.get_mut(&key) {
            slice.begins = slice.begins.saturating_add(1);
            return Some(slice.lane);
        }
        group.parent = group.parent.map(|parent| {
            let of = &self.lanes[parent as usize];
            if of.depth < MAX_NESTED { parent } else { of.group.parent.unwrap_or(parent) }
        });
        let lane = self.free_lane(&group);
        self.refused += u64::from(lane.is_none());
        let lane = lane?;
        self.free.entry(group).or_default().remove(&lane);
        self.open.insert(key, OpenSlice { lane, begins: 1 });
        Some(lane)
    }

    /// A slice ends: the lane that it was on.
    pub(super) fn end(&mut self, key: &SliceKey) -> Option<u32> {
        let slice = self.open.get_mut(key)?;
        let lane = slice.lane;
        slice.begins -= 1;
        if slice.begins == 0 {
            self.open.remove(key);
            let group = self.group(lane).clone();
            self.free.entry(group).or_default().insert(lane);
        }
        Some(lane)
    }

    /// The first lane of a group on which nothing is open, `None` when there are too many.
    pub(super) fn free_lane(&mut self, group: &LaneGroup) -> Option<u32> {
        if let Some(lane) = self.free.get(group).and_then(BTreeSet::first) {
            return Some(*lane);
        }
        if self.lanes.len() >= MAX_LANES {
            return None;
        }
        let lane = self.lanes.len() as u32;
        let depth = group.parent.map_or(0, |parent| self.lanes[parent as usize].depth + 1);
        self.lanes.push(LaneKey { group: group.clone(), depth });
        self.free.entry(group.clone()).or_default().insert(lane);
        Some(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::{LaneGroup, Lanes, MAX_LANES, MAX_NESTED, SliceKey};

    fn group(parent: Option<u32>) -> LaneGroup {
        LaneGroup { trace: 0, machine: 0, process: None, parent, name: b"work".to_vec() }
    }

    #[test]
    fn lanes_are_used_again() {
        let mut lanes = Lanes::default();
        let mut begin = |id| lanes.begin(SliceKey::Span(0, id), group(None));
        assert_eq!((begin(1), begin(2), begin(2)), (Some(0), Some(1), Some(1)));
        assert_eq!(lanes.end(&SliceKey::Span(0, 1)), Some(0));
        assert_eq!(lanes.end(&SliceKey::Span(0, 1)), None);
        assert_eq!(lanes.begin(SliceKey::Span(0, 3), group(None)), Some(0));
        // It began twice.
        assert_eq!(lanes.end(&SliceKey::Span(0, 2)), Some(1));
        assert_eq!(lanes.find(&SliceKey::Span(0, 2)), Some(1));
        assert_eq!(lanes.end(&SliceKey::Span(0, 2)), Some(1));
        assert_eq!(lanes.find(&SliceKey::Span(0, 2)), None);
    }

    #[test]
    fn neither_depth_nor_number_of_lanes_is_that_of_the_input() {
        let mut lanes = Lanes::default();
        let mut parent = None;
        for id in 0..MAX_LANES as u64 {
            parent = lanes.begin(SliceKey::Span(0, id), group(parent));
            assert!(parent.is_some_and(|lane| lanes.lanes[lane as usize].depth <= MAX_NESTED));
        }
        assert_eq!((lanes.begin(SliceKey::Span(1, 0), group(None)), lanes.refused), (None, 1));
        assert_eq!(lanes.end(&SliceKey::Span(0, 0)), Some(0));
        assert_eq!(lanes.begin(SliceKey::Span(1, 1), group(None)), Some(0));
    }
}
