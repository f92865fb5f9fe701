//! Tiles: 1,024 buckets of a level.

use crate::buckets::Buckets;
use crate::estimate::Spread;
use crate::events::EventSet;
use crate::index::{Index, Loss};
use crate::timeline::{Source, Timeline, TrackOf};
use crate::tree::Entry;
use crate::window;

/// Levels that there are: a bucket of level k is 2^k ns.
pub const MAX_LEVEL: u32 = 62;

/// Buckets of one track, in columns of equal length.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Density {
    /// Places of buckets, from the beginning of the first tile.
    pub at: Vec<u64>,
    /// Their events.
    pub events: Vec<u64>,
    /// The commonest name in each: a number for [`Timeline::name`].
    pub names: Vec<u32>,
    /// Are these all events where they are, and not an estimate?
    pub is_exact: bool,
}

/// Events that are read for one question that nobody waits for in earnest.
const READ: u64 = 1 << 18;

/// The first and last ns, since the origin, of tiles of a level.
pub fn range(level: u32, from: u64, to: u64) -> (i64, i64) {
    let end = |tile: i128| (tile << (level + 10)).min(i64::MAX.into());
    (end(from.into()) as i64, (end(i128::from(to) + 1) - 1).max(0) as i64)
}

/// Buckets that are wider than those that are asked for, with their levels.
type Wide = Vec<(u32, Entry)>;

/// Events of tracks in some tiles. Where only reading tells where few events are, they are read when that is quick or
/// `must_be_exact`. Tracks that are not counted are estimated.
pub fn density(
    timeline: &Timeline,
    source: &Source<'_>,
    tracks: &[usize],
    level: u32,
    tiles: (u64, u64),
    must_be_exact: bool,
) -> Vec<Density> {
    let window = range(level, tiles.0, tiles.1);
    let (begin, end) = (window.0 as u64, window.1 as u64);
    let first = begin >> level;
    let all = timeline.tracks();
    let mut found: Vec<(Buckets, Wide)> = Vec::with_capacity(tracks.len());
    for track in tracks {
        let (mut buckets, mut wide) = (Buckets::default(), Vec::new());
        if let Some(counted) = all.get(*track).and_then(TrackOf::trees) {
            let name = |name: u32| counted.names.get(name as usize).copied().unwrap_or_default();
            for tree in &counted.trees {
                let exact = |own: u32, entry: Entry| {
                    buckets.add((entry.at << own >> level).saturating_sub(first), name(entry.name), entry.events);
                };
                tree.each(level, (begin, end), exact, |own, entry| {
                    wide.push((own, Entry { name: name(entry.name), ..entry }));
                });
            }
        }
        found.push((buckets, wide));
    }
    read_wide(timeline, source, (tracks, level, window), &mut found, must_be_exact);
    let densities = tracks.iter().zip(found).map(|(track, (mut buckets, wide))| {
        let estimate = all.get(*track).filter(|track| track.trees().is_none()).map(TrackOf::estimate);
        let is_exact = wide.is_empty() && estimate.is_none();
        if !is_exact {
            let mut spread = Spread::new(level, window);
            for (own, entry) in wide {
                spread.add(span(own, entry), entry.events as f64, entry.name);
            }
            estimate.into_iter().for_each(|estimate| estimate.spread(timeline.origin, &mut spread));
            spread.each(|at, events, name| buckets.add(at, name, events));
        }
        Density { is_exact, ..columns(buckets) }
    });
    densities.collect()
}

/// First and last ns of a bucket.
fn span(level: u32, entry: Entry) -> (i128, i128) {
    let from = i128::from(entry.at) << level;
    (from, from + (1 << level) - 1)
}

/// Reads the events of wide buckets: stretch by stretch where these are few, or all that is in sight.
fn read_wide(
    timeline: &Timeline,
    source: &Source<'_>,
    (tracks, level, window): (&[usize], u32, (i64, i64)),
    found: &mut [(Buckets, Wide)],
    must_be_exact: bool,
) {
    let all = timeline.tracks();
    let unknown: Vec<usize> = (0..found.len()).filter(|at| !found[*at].1.is_empty()).collect();
    let mut is_apart = true;
    // Stretches of neighbours, by track, and what reading them costs: that of a packet begins at its first event.
    let mut stretches: Vec<(usize, (i64, i64))> = Vec::new();
    let (mut cost, mut of_window) = (0u64, 0u64);
    for at in &unknown {
        let track = all[tracks[*at]];
        let mut spans: Vec<(i128, i128)> = found[*at].1.iter().map(|(own, entry)| span(*own, *entry)).collect();
        spans.sort_unstable();
        let first = stretches.len();
        for (from, to) in spans {
            let from = (from.max(window.0.into())) as i64;
            let to = (to.min(window.1.into())) as i64;
            match stretches.last_mut().filter(|(own, (_, end))| own == at && from <= end.saturating_add(1)) {
                Some((_, (_, end))) => *end = to.max(*end),
                None => stretches.push((*at, (from, to))),
            }
        }
        let of_packet = track.cost_of_reading(source);
        cost += found[*at].1.iter().map(|(_, entry)| entry.events).sum::<u64>();
        cost += (stretches.len() - first) as u64 * of_packet;
        // What another tree knows of a stretch would be counted twice.
        is_apart &= track.trees().is_none_or(|counted| counted.trees.len() == 1);
        of_window +=
            found[*at].0.events() + found[*at].1.iter().map(|(_, entry)| entry.events).sum::<u64>() + of_packet;
    }
    let is_apart = is_apart && cost < of_window;
    if unknown.is_empty() || !must_be_exact && (if is_apart { cost } else { of_window }) > READ {
        return;
    }
    if is_apart {
        for (at, stretch) in stretches {
            let buckets = &mut found[at].0;
            window::each(timeline, source, &[all[tracks[at]]], stretch, |_, time, name| {
                buckets.add(((time - window.0) as u64) >> level, name, 1);
            });
        }
    } else {
        let wanted: Vec<TrackOf<'_>> = unknown.iter().map(|at| all[tracks[*at]]).collect();
        unknown.iter().for_each(|at| found[*at].0 = Buckets::default());
        window::each(timeline, source, &wanted, window, |at, time, name| {
            found[unknown[at]].0.add(((time - window.0) as u64) >> level, name, 1);
        });
    }
    unknown.iter().for_each(|at| found[*at].1.clear());
}

/// An estimate of the events of a trace whose tracks are not known yet; `None` when they are.
pub fn estimate_of(
    timeline: &Timeline,
    source: &Source<'_>,
    trace: usize,
    level: u32,
    tiles: (u64, u64),
) -> Option<Density> {
    let parts = timeline.unknown_of(source, trace);
    let mut spread = Spread::new(level, range(level, tiles.0, tiles.1));
    parts.iter().for_each(|part| part.spread(timeline.origin, &mut spread));
    let mut buckets = Buckets::default();
    spread.each(|at, events, name| buckets.add(at, name, events));
    (!parts.is_empty()).then(|| columns(buckets))
}

/// The density of tracks in some tiles, by events that are in a set.
pub fn density_in(index: &Index, tracks: &[usize], level: u32, tiles: (u64, u64), set: &EventSet) -> Vec<Density> {
    let (begin, end) = range(level, tiles.0, tiles.1);
    let first = begin >> level;
    let mut buckets: Vec<Buckets> = tracks.iter().map(|_| Buckets::default()).collect();
    let mut of: Vec<Option<usize>> = vec![None; index.tracks.len()];
    tracks.iter().enumerate().for_each(|(at, track)| of[*track] = Some(at));
    index.columns.for_each(Some((begin, end)), &|| false, |number, time, kind| {
        let kind = index.kinds[kind as usize];
        let Some(at) = of[kind.track as usize].filter(|_| set.has(number)) else { return };
        buckets[at].add(((time >> level) - first) as u64, kind.name, 1);
    });
    buckets.into_iter().map(|buckets| Density { is_exact: true, ..columns(buckets) }).collect()
}

/// Several tracks as one.
pub fn together(tracks: &[Density]) -> Density {
    let mut buckets = Buckets::default();
    for track in tracks {
        for ((at, events), name) in track.at.iter().zip(&track.events).zip(&track.names) {
            buckets.add(*at, *name, *events);
        }
    }
    Density { is_exact: tracks.iter().all(|track| track.is_exact), ..columns(buckets) }
}

fn columns(buckets: Buckets) -> Density {
    let mut density = Density::default();
    for bucket in buckets.finish() {
        density.at.push(bucket.at);
        density.events.push(bucket.events);
        density.names.push(bucket.name);
    }
    density
}

/// Places and lengths, in buckets from the beginning of the first tile, of the losses of a track in some tiles.
pub fn gaps(index: &Index, track: usize, level: u32, tiles: (u64, u64)) -> impl Iterator<Item = (i64, i64, &Loss)> {
    let (begin, end) = range(level, tiles.0, tiles.1);
    index.losses.iter().filter(move |loss| loss.track == Some(track)).filter_map(move |loss| {
        let (from, to) = (loss.begin.or(loss.end)?, loss.end.or(loss.begin)?);
        let (from, to) = index.range(from, to);
        if to < begin || from > end {
            return None;
        }
        let (from, to) = (from.max(begin) >> level, to.min(end) >> level);
        Some((from - (begin >> level), to - from + 1, loss))
    })
}
