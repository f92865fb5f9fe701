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
    // What is known, the events in sight, and those of which only a stretch of time is known.
    let mut found: Vec<(Buckets, u64, Wide)> = Vec::with_capacity(tracks.len());
    for track in tracks {
        let (mut buckets, mut events, mut wide) = (Buckets::default(), 0, Vec::new());
        if let Some(counted) = all.get(*track).and_then(TrackOf::trees) {
            let name = |name: u32| counted.names.get(name as usize).copied().unwrap_or_default();
            for tree in &counted.trees {
                let exact = |own: u32, entry: Entry| {
                    events += entry.events;
                    buckets.add((entry.at << own >> level).saturating_sub(first), name(entry.name), entry.events);
                };
                tree.each(level, (begin, end), exact, |own, entry| {
                    wide.push((own, Entry { name: name(entry.name), ..entry }));
                });
            }
            events += wide.iter().map(|(_, entry)| entry.events).sum::<u64>();
        }
        found.push((buckets, events, wide));
    }
    let unknown: Vec<usize> = (0..found.len()).filter(|at| !found[*at].2.is_empty()).collect();
    let is_read = must_be_exact || unknown.iter().map(|at| found[*at].1).sum::<u64>() <= READ;
    if is_read && !unknown.is_empty() {
        let wanted: Vec<TrackOf<'_>> = unknown.iter().map(|at| all[tracks[*at]]).collect();
        let mut read: Vec<Buckets> = unknown.iter().map(|_| Buckets::default()).collect();
        window::each(timeline, source, &wanted, window, |at, time, name| {
            read[at].add((time as u64 >> level) - first, name, 1);
        });
        for (at, buckets) in unknown.into_iter().zip(read) {
            (found[at].0, found[at].2) = (buckets, Vec::new());
        }
    }
    let densities = tracks.iter().zip(found).map(|(track, (mut buckets, _, wide))| {
        let estimate = all.get(*track).filter(|track| track.trees().is_none()).map(TrackOf::estimate);
        let is_exact = wide.is_empty() && estimate.is_none();
        if !is_exact {
            let mut spread = Spread::new(level, window);
            for (own, entry) in wide {
                let from = i128::from(entry.at) << own;
                spread.add((from, from + (1 << own) - 1), entry.events as f64, entry.name);
            }
            estimate.into_iter().for_each(|estimate| estimate.spread(timeline.origin, &mut spread));
            spread.each(|at, events, name| buckets.add(at, name, events));
        }
        Density { is_exact, ..columns(buckets) }
    });
    densities.collect()
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

/// Those events of tracks in some tiles that are in a set.
pub fn density_in(index: &Index, tracks: &[usize], level: u32, tiles: (u64, u64), set: &EventSet) -> Vec<Density> {
    let (begin, end) = range(level, tiles.0, tiles.1);
    let first = begin >> level;
    let mut buckets: Vec<Buckets> = tracks.iter().map(|_| Buckets::default()).collect();
    let mut of: Vec<Option<usize>> = vec![None; index.tracks.len()];
    tracks.iter().enumerate().for_each(|(at, track)| of[*track] = Some(at));
    index.columns.for_each(Some((begin, end)), |number, time, kind| {
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
