//! Statistics of a part of the timeline.

use crate::block::UNTIMED;
use crate::index::{Index, LossKind};
use crate::ranks::Ranks;
use crate::set::EventSet;

/// The part of the timeline that statistics are asked for.
#[derive(Clone, Copy, Default)]
pub struct StatisticsRange<'a> {
    /// First and last ns, both included; `None` for everything, with events that have no time.
    pub range: Option<(i128, i128)>,
    /// The tracks; `None` for all.
    pub tracks: Option<&'a [usize]>,
    /// Events beside those of the tracks.
    pub beside: Option<&'a EventSet>,
    /// Events that are wanted; `None` for all.
    pub set: Option<&'a EventSet>,
}

/// Events of one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameStats {
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
    pub names: Vec<NameStats>,
    /// Lost events and packets, and the stretches of time in which they were lost.
    pub losses: (u64, u64, u64),
}

/// Events of some tracks between each of these times, which do not decrease, and the next one: a list for each track. An event
/// at a bound belongs to what begins there; one at the last bound is not counted. `None` when the answer is not wanted any more,
/// which is asked on the way.
pub fn counts_between(
    index: &Index,
    tracks: &[usize],
    bounds: &[i128],
    is_over: &dyn Fn() -> bool,
) -> Option<Vec<Vec<u64>>> {
    let mut counts = vec![vec![0; bounds.len().saturating_sub(1)]; tracks.len()];
    let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return Some(counts) };
    let mut of: Vec<Option<usize>> = vec![None; index.tracks.len()];
    tracks.iter().enumerate().for_each(|(at, track)| of[*track] = Some(at));
    let since: Vec<i64> = bounds.iter().map(|bound| index.range(*bound, *bound).0).collect();
    // Events come nearly in the order of time, so the next one is mostly between the same bounds.
    let mut at = 0;
    index.columns.for_each(Some(index.range(*first, *last)), is_over, |_, time, kind| {
        if time == UNTIMED {
            return;
        }
        if !(since[at] <= time && since.get(at + 1).is_some_and(|next| time < *next)) {
            at = since.partition_point(|bound| *bound <= time).saturating_sub(1);
        }
        if let Some(own) = of[index.kinds[kind as usize].track as usize]
            && time >= since[at]
            && let Some(count) = counts[own].get_mut(at)
        {
            *count += 1;
        }
    })?;
    Some(counts)
}

/// Sums a part up. `None` when the answer is not wanted any more, which is asked on the way.
pub fn sums(index: &Index, part: StatisticsRange<'_>, is_over: &dyn Fn() -> bool) -> Option<Sums> {
    let is_wanted: Vec<bool> = match part.tracks {
        None => vec![true; index.tracks.len()],
        Some(tracks) => (0..index.tracks.len()).map(|track| tracks.contains(&track)).collect(),
    };
    let range = part.range.map(|(begin, end)| index.range(begin, end));
    let mut sums = Sums::default();
    // By name.
    let mut names: Vec<(u64, Ranks)> = vec![(0, Ranks::default()); index.names.len()];
    let mut last: Vec<Option<i64>> = vec![None; index.names.len()];
    let each = |see: &mut dyn FnMut(usize, i64)| {
        index.columns.for_each(range, is_over, |number, time, kind| {
            let kind = index.kinds[kind as usize];
            let is_on_track = is_wanted[kind.track as usize] || part.beside.is_some_and(|beside| beside.has(number));
            if is_on_track && part.set.is_none_or(|set| set.has(number)) {
                see(kind.name as usize, time);
            }
        })
    };
    each(&mut |name, time| {
        names[name].0 += 1;
        if time != UNTIMED
            && let Some(last) = last[name].replace(time)
        {
            names[name].1.add(time.saturating_sub(last));
        }
    })?;
    names.iter_mut().for_each(|(_, gaps)| gaps.want(&[50]));
    last.fill(None);
    each(&mut |name, time| {
        if time != UNTIMED
            && let Some(last) = last[name].replace(time)
        {
            names[name].1.add_again(time.saturating_sub(last));
        }
    })?;
    sums.events = names.iter().map(|(events, _)| events).sum();
    let found = names.into_iter().zip(0..).filter(|((events, _), _)| *events > 0);
    sums.names = found
        .map(|((events, gaps), name)| {
            let gaps = gaps.ends().and_then(|(min, max)| Some((min, gaps.percentile(50)?, max)));
            NameStats { name, events, gaps }
        })
        .collect();
    let name = |of: &NameStats| &index.names[of.name as usize];
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
    Some(sums)
}
