//! Statistics of a part of the timeline.

use crate::events::{EventSet, UNTIMED};
use crate::index::{Index, LossKind};

/// What is asked for.
#[derive(Clone, Copy, Default)]
pub struct Part<'a> {
    /// First and last ns, both included; `None` for everything, with events that have no time.
    pub range: Option<(i128, i128)>,
    /// The tracks; `None` for all.
    pub tracks: Option<&'a [usize]>,
    /// Events that are wanted; `None` for all.
    pub set: Option<&'a EventSet>,
}

/// Events of one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfName {
    /// A number of [`Index::names`].
    pub name: u32,
    /// How many.
    pub events: u64,
    /// The shortest, the middle and the longest time from one to the next; `None` with less than two that have a time.
    pub gaps: Option<(i64, i64, i64)>,
}

/// The sums of a part.
#[derive(Clone, Default, Debug)]
pub struct Sums {
    /// Its events.
    pub events: u64,
    /// By name, the commonest first, then by name.
    pub names: Vec<OfName>,
    /// Lost events and packets, and the stretches of time in which they were lost.
    pub losses: (u64, u64, u64),
}

/// The value that p of 100 do not exceed, of values whose order does not matter.
///
/// ```
/// assert_eq!(tracemill_lod::statistics::rank(&mut [7, 1, 3], 50), Some(3));
/// assert_eq!(tracemill_lod::statistics::rank::<u8>(&mut [], 50), None);
/// ```
pub fn rank<T: Ord + Copy>(values: &mut [T], p: usize) -> Option<T> {
    let at = (p * values.len()).div_ceil(100).max(1) - 1;
    (!values.is_empty()).then(|| *values.select_nth_unstable(at).1)
}

/// Sums a part up. Takes eight bytes for each of its events.
pub fn sums(index: &Index, part: Part<'_>) -> Sums {
    let is_wanted: Vec<bool> = match part.tracks {
        None => vec![true; index.tracks.len()],
        Some(tracks) => (0..index.tracks.len()).map(|track| tracks.contains(&track)).collect(),
    };
    // For each name: events, time of the last one, gaps.
    let mut names: Vec<(u64, Option<i64>, Vec<i64>)> = vec![(0, None, Vec::new()); index.names.len()];
    let range = part.range.map(|(begin, end)| index.range(begin, end));
    let mut sums = Sums::default();
    index.columns.for_each(range, |number, time, kind| {
        let kind = index.kinds[kind as usize];
        if !is_wanted[kind.track as usize] || part.set.is_some_and(|set| !set.has(number)) {
            return;
        }
        sums.events += 1;
        let (events, last, gaps) = &mut names[kind.name as usize];
        *events += 1;
        if time != UNTIMED
            && let Some(last) = last.replace(time)
        {
            gaps.push(time.saturating_sub(last));
        }
    });
    let found = names.into_iter().zip(0..).filter(|((events, ..), _)| *events > 0);
    sums.names = found
        .map(|((events, _, mut gaps), name)| {
            let ends = gaps.iter().copied().min().zip(gaps.iter().copied().max());
            let gaps = ends.and_then(|(min, max)| Some((min, rank(&mut gaps, 50)?, max)));
            OfName { name, events, gaps }
        })
        .collect();
    let name = |of: &OfName| &index.names[of.name as usize];
    sums.names.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| name(a).cmp(name(b))));
    let is_inside = |begin: Option<i128>, end: Option<i128>| match (part.range, begin.or(end), end.or(begin)) {
        (Some((first, last)), Some(begin), Some(end)) => begin <= last && end >= first,
        _ => true,
    };
    for loss in &index.losses {
        if loss.track.is_none_or(|track| is_wanted[track]) && is_inside(loss.begin, loss.end) {
            sums.losses.2 += 1;
            match loss.kind {
                LossKind::Events => sums.losses.0 += loss.count.unwrap_or(0),
                LossKind::Packets => sums.losses.1 += loss.count.unwrap_or(0),
            }
        }
    }
    sums
}
