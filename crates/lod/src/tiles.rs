//! Tiles: 1,024 buckets of a level.

use crate::coarse::Buckets;
use crate::events::EventSet;
use crate::index::{Index, Loss};

/// Levels that there are: a bucket of level k is 2^k ns.
pub const MAX_LEVEL: u32 = 62;

/// Buckets of one track, in columns of equal length.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Density {
    /// Places of buckets, from the beginning of the first tile.
    pub at: Vec<u64>,
    /// Their events.
    pub events: Vec<u64>,
    /// The commonest name in each: a number of [`Index::names`].
    pub names: Vec<u32>,
}

/// The first and last ns, since the origin, of tiles of a level.
pub fn range(level: u32, from: u64, to: u64) -> (i64, i64) {
    let end = |tile: i128| (tile << (level + 10)).min(i64::MAX.into());
    (end(from.into()) as i64, (end(i128::from(to) + 1) - 1).max(0) as i64)
}

/// Events of tracks in some tiles. With `set`, of those in it only.
pub fn density(index: &Index, tracks: &[usize], level: u32, tiles: (u64, u64), set: Option<&EventSet>) -> Vec<Density> {
    let (begin, end) = range(level, tiles.0, tiles.1);
    let first = begin >> level;
    let mut buckets: Vec<Buckets> = tracks.iter().map(|_| Buckets::default()).collect();
    if level >= index.coarse.level && set.is_none() {
        let shift = level - index.coarse.level;
        for (track, buckets) in tracks.iter().zip(&mut buckets) {
            let all = &index.coarse.tracks[*track];
            let from = all.partition_point(|bucket| (bucket.at >> shift) < first as u64);
            let last = (end >> level) as u64;
            for bucket in all[from..].iter().take_while(|bucket| bucket.at >> shift <= last) {
                buckets.add((bucket.at >> shift) - first as u64, bucket.name, bucket.events);
            }
        }
    } else {
        let mut of: Vec<Option<usize>> = vec![None; index.tracks.len()];
        tracks.iter().enumerate().for_each(|(at, track)| of[*track] = Some(at));
        index.columns.for_each(Some((begin, end)), |number, time, kind| {
            let kind = index.kinds[kind as usize];
            let Some(at) = of[kind.track as usize].filter(|_| set.is_none_or(|set| set.has(number))) else { return };
            buckets[at].add(((time >> level) - first) as u64, kind.name, 1);
        });
    }
    buckets.into_iter().map(columns).collect()
}

/// Several tracks as one.
pub fn together(tracks: &[Density]) -> Density {
    let mut buckets = Buckets::default();
    for track in tracks {
        for ((at, events), name) in track.at.iter().zip(&track.events).zip(&track.names) {
            buckets.add(*at, *name, *events);
        }
    }
    columns(buckets)
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
