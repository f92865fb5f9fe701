//! Events whose names hold a text.

use std::ops::Range;

use crate::index::Index;
use crate::set::EventSet;

/// The events that a search found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SearchResult {
    /// The event.
    pub event: Option<usize>,
    /// How many there are before it.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

/// The next event, or the previous one, whose name holds a text, whatever the case. `from` is not found itself: -1 is
/// before all. `None` when the answer is not wanted any more, which is asked on the way.
pub fn find(
    index: &Index,
    text: &str,
    (from, is_next): (i64, bool),
    set: Option<&EventSet>,
    is_over: &dyn Fn() -> bool,
) -> Option<SearchResult> {
    let text = text.to_lowercase();
    let holds: Vec<bool> = index.names.iter().map(|name| name.to_lowercase().contains(&text)).collect();
    let is_meant: Vec<bool> = index.kinds.iter().map(|kind| holds[kind.name as usize]).collect();
    let mut found = SearchResult::default();
    index.columns.for_each(None, is_over, |number, _, kind| {
        if !is_meant[kind as usize] || set.is_some_and(|set| !set.has(number)) {
            return;
        }
        let at = number as i64;
        if is_next && at > from && found.event.is_none() || !is_next && at < from {
            (found.event, found.index) = (Some(number), found.count);
        }
        found.count += 1;
    })?;
    Some(found)
}

/// Where to look for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// After a time.
    Next,
    /// Before it.
    Previous,
    /// On either side.
    Nearest,
}

/// The event of a track, or of a set, that is next to a time: its number and its time in ns.
pub fn locate(
    index: &Index,
    track: Option<usize>,
    ns: i128,
    direction: Direction,
    set: Option<&EventSet>,
) -> Option<(usize, i128)> {
    let (at, _) = index.range(ns, ns);
    let is_on_track = |kind: u32| track.is_none_or(|track| index.kinds[kind as usize].track as usize == track);
    let kinds = index.kinds_of(|own| track.is_none_or(|track| own == track));
    let may_hold = |events: Range<usize>| set.is_none_or(|set| set.rank(events.start) < set.rank(events.end));
    let is_wanted = |number: usize, kind: u32| is_on_track(kind) && set.is_none_or(|set| set.has(number));
    let [before, here, behind] = index.columns.around(at, kinds, may_hold, is_wanted);
    let distance = |found: &(usize, i64)| found.1.abs_diff(at);
    let found = match direction {
        Direction::Next => behind,
        Direction::Previous => before,
        Direction::Nearest => here.or_else(|| [before, behind].into_iter().flatten().min_by_key(distance)),
    };
    found.map(|(number, time)| (number, index.origin + i128::from(time)))
}
