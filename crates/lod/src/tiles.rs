//! Tiles: 1,024 buckets of a level.

use crate::buckets::Buckets;
use crate::estimate::Spread;
use crate::index::{Index, LossRange};
use crate::set::EventSet;
use crate::source::Source;
use crate::timeline::{Timeline, TrackOf};
use crate::tree::BucketEntry;
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

/// Events that are read for one question that need not be answered exactly: where they stand, and in the index.
const READ: u64 = 1 << 18;
const READ_KNOWN: u64 = 1 << 20;

/// A tile has two to the power of this many buckets.
pub const BUCKET_BITS: u32 = 10;

/// The first and last ns, since the origin, of tiles of a level.
pub fn range(level: u32, from: u64, to: u64) -> (i64, i64) {
    let end = |tile: i128| (tile << (level + BUCKET_BITS)).min(i64::MAX.into());
    (end(from.into()) as i64, (end(i128::from(to) + 1) - 1).max(0) as i64)
}

/// Buckets that are wider than those that are asked for, with their levels.
type Wide = Vec<(u32, BucketEntry)>;
/// First and last ns of stretches of time, which are in order and apart.
type Stretches = Vec<(i64, i64)>;

/// Events of tracks in some tiles. Where only reading tells where few events are, they are read when that is quick or
/// `must_be_exact`: in the index when there is one, else where they stand. Tracks that are not counted are estimated.
pub fn density(
    (timeline, index): (&Timeline, Option<&Index>),
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
            for tree in counted.trees.iter() {
                let exact = |own: u32, entry: BucketEntry| {
                    buckets.add((entry.at << own >> level).saturating_sub(first), name(entry.name), entry.events);
                };
                tree.for_each(level, (begin, end), exact, |own, entry| {
                    wide.push((own, BucketEntry { name: name(entry.name), ..entry }));
                });
            }
        }
        found.push((buckets, wide));
    }
    let asked = BucketQuery { tracks, level, window, must_be_exact };
    match index {
        Some(index) => look_up_wide(timeline, index, &asked, &mut found),
        None => read_wide(timeline, source, &asked, &mut found),
    }
    let densities = tracks.iter().zip(found).map(|(track, (mut buckets, wide))| {
        let estimate = all.get(*track).filter(|track| track.trees().is_none()).map(TrackOf::estimate);
        let is_exact = wide.is_empty() && estimate.is_none();
        if !is_exact {
            let mut spread = Spread::new(level, window);
            for (own, entry) in wide {
                spread.add(span(own, entry), entry.events as f64, entry.name);
            }
            estimate.into_iter().for_each(|estimate| estimate.spread(timeline.origin, &mut spread));
            spread.for_each(|at, events, name| buckets.add(at, name, events));
        }
        Density { is_exact, ..columns(buckets) }
    });
    densities.collect()
}

/// First and last ns of a bucket.
fn span(level: u32, entry: BucketEntry) -> (i128, i128) {
    let from = i128::from(entry.at) << level;
    (from, from + (1 << level) - 1)
}

/// A question about buckets.
struct BucketQuery<'a> {
    tracks: &'a [usize],
    level: u32,
    /// First and last ns since the origin.
    window: (i64, i64),
    must_be_exact: bool,
}

impl BucketQuery<'_> {
    fn bucket(&self, time: i64) -> u64 {
        ((time - self.window.0) as u64) >> self.level
    }

    /// The stretches of wide buckets that are in the window, neighbours together, and the number of their events.
    fn stretches(&self, wide: &Wide) -> (Stretches, u64) {
        let mut spans: Vec<(i128, i128)> = wide.iter().map(|(own, entry)| span(*own, *entry)).collect();
        spans.sort_unstable();
        let inside =
            |(from, to): (i128, i128)| (from.max(self.window.0.into()) as i64, to.min(self.window.1.into()) as i64);
        (together_with_neighbours(spans.into_iter().map(inside)), wide.iter().map(|(_, entry)| entry.events).sum())
    }
}

/// Stretches in order, those that touch or overlap as one.
fn together_with_neighbours(sorted: impl Iterator<Item = (i64, i64)>) -> Stretches {
    let mut stretches = Stretches::new();
    for (from, to) in sorted {
        match stretches.last_mut().filter(|(_, end)| from <= end.saturating_add(1)) {
            Some((_, end)) => *end = to.max(*end),
            None => stretches.push((from, to)),
        }
    }
    stretches
}

/// Does one tree know all of a track? What another one knows of a stretch would be counted twice.
fn is_whole(track: &TrackOf<'_>) -> bool {
    track.trees().is_none_or(|counted| counted.trees.len() == 1)
}

/// Counts the events of wide buckets in the index.
fn look_up_wide(timeline: &Timeline, index: &Index, asked: &BucketQuery<'_>, found: &mut [(Buckets, Wide)]) {
    let all = timeline.tracks();
    // By track: its place among those that are asked for, and its stretches.
    let mut of: Vec<Option<(usize, Stretches)>> = vec![None; index.tracks.len()];
    for (at, (_, wide)) in found.iter().enumerate().filter(|(_, (_, wide))| !wide.is_empty()) {
        let track = asked.tracks[at];
        let stretches = if is_whole(&all[track]) { asked.stretches(wide).0 } else { vec![asked.window] };
        of[track] = Some((at, stretches));
    }
    let mut sorted: Vec<(i64, i64)> = of.iter().flatten().flat_map(|(_, stretches)| stretches).copied().collect();
    sorted.sort_unstable();
    let stretches = together_with_neighbours(sorted.into_iter());
    let kinds = index.kinds_of(|track| of[track].is_some());
    if stretches.is_empty() || !asked.must_be_exact && index.columns.cost_of(&stretches, kinds) > READ_KNOWN {
        return;
    }
    for (track, of) in of.iter().enumerate().filter_map(|(track, of)| Some((track, of.as_ref()?))) {
        if !is_whole(&all[track]) {
            found[of.0].0 = Buckets::default();
        }
        found[of.0].1.clear();
    }
    index.columns.for_each_in(&stretches, kinds, |time, kind| {
        let kind = index.kinds[kind as usize];
        let Some((at, own)) = &of[kind.track as usize] else { return };
        let next = own.partition_point(|(_, end)| *end < time);
        if own.get(next).is_some_and(|(begin, _)| *begin <= time) {
            found[*at].0.add(asked.bucket(time), kind.name, 1);
        }
    });
}

/// Reads the events of wide buckets: stretch by stretch where these are few, or all that is in sight.
fn read_wide(timeline: &Timeline, source: &Source<'_>, asked: &BucketQuery<'_>, found: &mut [(Buckets, Wide)]) {
    let all = timeline.tracks();
    let unknown: Vec<usize> = (0..found.len()).filter(|at| !found[*at].1.is_empty()).collect();
    let mut is_apart = true;
    let mut stretches: Vec<(usize, (i64, i64))> = Vec::new();
    let (mut cost, mut of_window) = (0u64, 0u64);
    for at in &unknown {
        let track = all[asked.tracks[*at]];
        let (own, events) = asked.stretches(&found[*at].1);
        // Reading a stretch begins at the first event of its packet.
        let of_packet = track.cost_of_reading(source);
        cost += events + own.len() as u64 * of_packet;
        of_window += found[*at].0.events() + events + of_packet;
        is_apart &= is_whole(&track);
        stretches.extend(own.into_iter().map(|stretch| (*at, stretch)));
    }
    let is_apart = is_apart && cost < of_window;
    if unknown.is_empty() || !asked.must_be_exact && (if is_apart { cost } else { of_window }) > READ {
        return;
    }
    if is_apart {
        for (at, stretch) in stretches {
            let buckets = &mut found[at].0;
            window::for_each_event(timeline, source, &[all[asked.tracks[at]]], stretch, |_, time, name| {
                buckets.add(asked.bucket(time), name, 1);
            });
        }
    } else {
        let wanted: Vec<TrackOf<'_>> = unknown.iter().map(|at| all[asked.tracks[*at]]).collect();
        unknown.iter().for_each(|at| found[*at].0 = Buckets::default());
        window::for_each_event(timeline, source, &wanted, asked.window, |at, time, name| {
            found[unknown[at]].0.add(asked.bucket(time), name, 1);
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
    spread.for_each(|at, events, name| buckets.add(at, name, events));
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
pub fn gaps(
    index: &Index,
    track: usize,
    level: u32,
    tiles: (u64, u64),
) -> impl Iterator<Item = (i64, i64, &LossRange)> {
    index.losses.iter().filter(move |loss| loss.track == Some(track)).filter_map(move |loss| {
        let stretch = (loss.begin.or(loss.end)?, loss.end.or(loss.begin)?);
        let (at, len) = buckets_of(index, stretch, level, tiles)?;
        Some((at, len, loss))
    })
}

/// Places and lengths, in the same way, of what could not be read of a track in some tiles.
pub fn damage(index: &Index, track: usize, level: u32, tiles: (u64, u64)) -> impl Iterator<Item = (i64, i64)> {
    let own = index.faults.iter().filter(move |fault| fault.track == Some(track));
    own.filter_map(move |fault| {
        let stretch = fault.range.or_else(|| Some((fault.after?, fault.after?)))?;
        buckets_of(index, stretch, level, tiles)
    })
}

/// The first bucket of a stretch of time, counted from the beginning of some tiles, and how many it takes there.
fn buckets_of(index: &Index, (from, to): (i128, i128), level: u32, tiles: (u64, u64)) -> Option<(i64, i64)> {
    let (begin, end) = range(level, tiles.0, tiles.1);
    let (from, to) = index.range(from, to);
    if to < begin || from > end {
        return None;
    }
    let (from, to) = (from.max(begin) >> level, to.min(end) >> level);
    Some((from - (begin >> level), to - from + 1))
}
