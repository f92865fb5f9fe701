//! Calls as slices of a timeline.
//!
//! Of a task with many calls, levels two apart are kept for buckets that are wide: the calls that last from one to four of a
//! level's buckets, each at one level only, and of the shorter ones a sum for each bucket and depth. What is narrower is
//! followed again.

use std::io;

use crate::lane::{CallEnd, CallEvent, LaneCalls};
use crate::store::bytes::{Reader, Writer};

/// A slice of a timeline, or several short ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimelineSlice {
    /// The bucket in which it begins; below 0 before the range.
    pub at: i64,
    /// Its buckets; `None` when it has no end. Of several short ones each of these has two or more, or it is one.
    pub len: Option<i64>,
    /// Its depth.
    pub depth: u32,
    /// Name of the longest.
    pub name: u32,
    /// How many stand here.
    pub n: u64,
    /// How much of the buckets they fill, of 255.
    pub busy: u8,
}

/// A call.
#[derive(Clone, Copy)]
struct Long {
    begin: i64,
    /// `None` when it has none.
    end: Option<i64>,
    depth: u32,
    name: u32,
}

/// Short calls that begin in one bucket, at one depth.
#[derive(Clone, Copy)]
struct ShortCalls {
    bucket: i64,
    depth: u32,
    /// Name and ns of the longest.
    name: u32,
    longest: i64,
    n: u64,
    busy: i64,
}

#[derive(Default)]
struct DepthSlices {
    /// In the order of their beginnings.
    long: Vec<Long>,
    /// In the order of buckets.
    short: Vec<ShortCalls>,
}

/// The calls of a task at the levels of wide buckets.
pub(crate) struct Levels {
    /// Buckets are counted from here.
    origin: i64,
    lowest: u32,
    /// From the lowest one on; the last one has all that is longer.
    levels: Vec<DepthSlices>,
}

/// Buckets of the lowest level over the whole time, at most, of one task of many and of one of few, and of all tasks together
/// where they are few; fewer where a bucket would hold few calls.
const BUCKETS: [u64; 2] = [1 << 14, 1 << 16];
const ALL_BUCKETS: u64 = 1 << 17;
/// Calls of a task that are followed again for every question.
const FEW: u64 = 1 << 14;

/// Has a task with so many calls levels?
pub(crate) fn are_many(calls: u64) -> bool {
    calls > FEW
}

/// Gathers short calls.
#[derive(Default)]
struct Gathered {
    /// By depth, those of the bucket that the last one was in: calls of a depth mostly come in their order.
    open: Vec<Option<ShortCalls>>,
    done: Vec<ShortCalls>,
}

/// Depths of which a bucket is kept open; deeper calls are rare.
const OPEN_DEPTHS: usize = 1 << 10;

impl Gathered {
    fn add(&mut self, short: ShortCalls) {
        let depth = short.depth as usize;
        if depth >= self.open.len() && depth < OPEN_DEPTHS {
            self.open.resize(depth + 1, None);
        }
        match self.open.get_mut(depth) {
            None => self.done.push(short),
            Some(Some(open)) if open.bucket == short.bucket => open.add(&short),
            Some(open) => self.done.extend(open.replace(short)),
        }
    }

    /// In the order of buckets and depths, each once.
    fn sorted(self) -> Vec<ShortCalls> {
        let mut all = self.done;
        all.extend(self.open.into_iter().flatten());
        // Slices from one place are sorted already.
        all.sort_by_key(|short| (short.bucket, short.depth));
        all.dedup_by(|next, own| {
            let is_same = (next.bucket, next.depth) == (own.bucket, own.depth);
            if is_same {
                own.add(next);
            }
            is_same
        });
        all.shrink_to_fit();
        all
    }
}

impl ShortCalls {
    fn add(&mut self, other: &ShortCalls) {
        (self.n, self.busy) = (self.n + other.n, self.busy.saturating_add(other.busy));
        if other.longest > self.longest {
            (self.longest, self.name) = (other.longest, other.name);
        }
    }
}

fn short(call: &Long, length: i64, bucket: i64) -> ShortCalls {
    ShortCalls { bucket, depth: call.depth, name: call.name, longest: length, n: 1, busy: length }
}

impl Levels {
    /// The levels of one of some tasks that have some, whose buckets are counted from `origin`; `None` when they are not worth it.
    pub(crate) fn new(lane: LaneCalls<'_>, origin: i64, tasks: usize) -> Option<Levels> {
        let (first, last) = lane.range().filter(|_| are_many(lane.calls()))?;
        let buckets = (ALL_BUCKETS / tasks.max(1) as u64).clamp(BUCKETS[0], BUCKETS[1]);
        let mut lowest = 0;
        while last.abs_diff(first) >> lowest >= buckets.min(lane.calls() / 64) {
            lowest += 2;
        }
        let mut levels = vec![DepthSlices::default()];
        let mut gathered = Gathered::default();
        let bucket = |time: i64, level: u32| time.saturating_sub(origin) >> level;
        lane.for_each_event((i64::MIN, i64::MAX), |step| {
            let CallEvent::End(frame, depth, end) = step else { return true };
            let end = if let CallEnd::At(time) = end { Some(time) } else { None };
            let call = Long { begin: frame.begin, end, depth: depth as u32, name: frame.name };
            match end.map(|end| end - frame.begin) {
                Some(length) if length >> lowest == 0 => {
                    gathered.add(short(&call, length, bucket(frame.begin, lowest)));
                }
                _ => levels[0].long.push(call),
            }
            true
        });
        levels[0].short = gathered.sorted();
        levels[0].long.sort_unstable_by_key(|call| (call.begin, call.depth));
        // Each level leaves to the next what is longer, and its own calls are short there.
        let mut level = lowest;
        while level + 2 <= 60 && levels.last().is_some_and(|own| own.long.len() > 64 || own.short.len() > 64) {
            let (mut longer, mut gathered) = (DepthSlices::default(), Gathered::default());
            let Some(own) = levels.last_mut() else { break };
            own.short.iter().for_each(|short| gathered.add(ShortCalls { bucket: short.bucket >> 2, ..*short }));
            own.long.retain(|call| match call.end.map(|end| end - call.begin) {
                Some(length) if length >> (level + 2) == 0 => {
                    gathered.add(short(call, length, bucket(call.begin, level + 2)));
                    true
                }
                _ => {
                    longer.long.push(*call);
                    false
                }
            });
            longer.short = gathered.sorted();
            own.long.shrink_to_fit();
            levels.push(longer);
            level += 2;
        }
        Some(Levels { origin, lowest, levels })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.step(self.origin);
        to.number(self.lowest.into());
        to.size(self.levels.len());
        for level in &self.levels {
            to.size(level.long.len());
            let mut last = 0;
            for Long { begin, end, depth, name } in &level.long {
                to.step(begin.wrapping_sub(last));
                last = *begin;
                to.number(end.map_or(0, |end| end.abs_diff(*begin) + 1));
                to.number((*depth).into());
                to.number((*name).into());
                to.plain(&[])?;
            }
            to.size(level.short.len());
            let mut last = 0;
            for ShortCalls { bucket, depth, name, longest, n, busy } in &level.short {
                to.step(bucket.wrapping_sub(last));
                last = *bucket;
                to.number((*depth).into());
                to.number((*name).into());
                to.number(*n);
                // One alone is the longest.
                to.number(*longest as u64);
                if *n > 1 {
                    to.number(*busy as u64);
                }
                to.plain(&[])?;
            }
        }
        Ok(())
    }

    /// Reads what was written; names are below `names`.
    pub(crate) fn read(from: &mut Reader<'_>, names: usize) -> Option<Levels> {
        let near = |time: i64| (time.unsigned_abs() < 1 << 62).then_some(time);
        let length = |from: &mut Reader<'_>| near(i64::try_from(from.number()?).ok()?);
        let origin = from.step()?;
        let lowest = from.small(61)? & !1;
        let mut levels = Vec::new();
        for _ in 0..from.below(32)? {
            let mut last = 0i64;
            let long = from.list(|from| {
                let begin = near(last.checked_add(from.step()?)?)?;
                last = begin;
                let end = match length(from)? {
                    0 => None,
                    more => Some(near(begin.checked_add(more - 1)?)?),
                };
                Some(Long { begin, end, depth: from.small(usize::MAX)?, name: from.small(names)? })
            })?;
            let mut last = 0i64;
            let short = from.list(|from| {
                let bucket = near(last.checked_add(from.step()?)?)?;
                last = bucket;
                let (depth, name) = (from.small(usize::MAX)?, from.small(names)?);
                let n = from.number().filter(|n| *n < 1 << 40)?;
                let longest = length(from)?;
                let busy = if n > 1 { length(from)? } else { longest };
                Some(ShortCalls { bucket, depth, name, longest, n, busy })
            })?;
            let is_rising = long.windows(2).all(|two| two[0].begin <= two[1].begin)
                && short.windows(2).all(|two| two[0].bucket <= two[1].bucket);
            levels.push(is_rising.then_some(DepthSlices { long, short })?);
        }
        let is_right = !levels.is_empty() && lowest + 2 * (levels.len() as u32 - 1) <= 60;
        is_right.then_some(Levels { origin, lowest, levels })
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        let of = |level: &DepthSlices| {
            level.long.capacity() * size_of::<Long>() + level.short.capacity() * size_of::<ShortCalls>()
        };
        self.levels.iter().map(of).sum()
    }

    /// Shows the calls that overlap a range, and sums of short ones, to those who make slices of a level; false when that
    /// is too low.
    fn for_each(&self, level: u32, range: (i64, i64), slices: &mut Slices) -> bool {
        let is_aligned = range.0.checked_sub(self.origin).is_some_and(|from| from & ((1 << level) - 1) == 0);
        let Some(place) = level.checked_sub(self.lowest).filter(|_| is_aligned) else { return false };
        let place = (place as usize / 2).min(self.levels.len() - 1);
        for (at, of) in self.levels.iter().enumerate().skip(place) {
            // Calls of a level last four of its buckets at most.
            let reach = if at + 1 == self.levels.len() { i64::MAX } else { 4 << (self.lowest + 2 * at as u32) };
            let first = of.long.partition_point(|call| call.begin < range.0.saturating_sub(reach));
            for call in of.long[first..].iter().take_while(|call| call.begin <= range.1) {
                slices.add_call(call);
            }
        }
        let own = self.lowest + 2 * place as u32;
        let from = (range.0 - self.origin) >> own;
        let last = range.1.saturating_sub(self.origin) >> own;
        let shorts = &self.levels[place].short;
        let first = shorts.partition_point(|short| short.bucket < from);
        for short in shorts[first..].iter().take_while(|short| short.bucket <= last) {
            slices.short.add(ShortCalls { bucket: (short.bucket - from) >> (level - own), ..*short });
        }
        true
    }
}

/// The slices of a task, for one question.
struct Slices {
    level: u32,
    range: (i64, i64),
    long: Vec<TimelineSlice>,
    short: Gathered,
}

impl Slices {
    fn bucket(&self, time: i64) -> i64 {
        time.saturating_sub(self.range.0) >> self.level
    }

    fn add_call(&mut self, call: &Long) {
        if call.end.is_some_and(|end| end < self.range.0) {
            return;
        }
        let (first, length) = (self.bucket(call.begin), call.end.map(|end| end.saturating_sub(call.begin)));
        if let Some(length) = length.filter(|length| length >> self.level == 0) {
            if first >= 0 {
                self.short.add(short(call, length, first));
            }
            return;
        }
        let behind = self.bucket(self.range.1) + 1;
        let len = call.end.map(|end| (self.bucket(end).min(behind) - first).max(1));
        self.long.push(TimelineSlice { at: first, len, depth: call.depth, name: call.name, n: 1, busy: 255 });
    }
}

/// Buckets of a tile.
const TILE: i64 = 1 << 10;

/// How much fuller or emptier than the first bucket of several, of 255, another one is that stands together with it.
const ALIKE: u8 = 32;

/// Sums of short slices that a tile of a task has before neighbours stand together that are not alike, and how many do then.
const SUMS: usize = 3 << 9;
const BLOCKS: [i64; 3] = [1, 2, 4];

/// Neighbours at a depth that stand together, and how full the first bucket is.
struct SliceRun {
    sum: ShortCalls,
    len: i64,
    fills: u8,
}

/// Sums of short slices, of which neighbours at a depth stand together when a page draws them alike: they have the same name
/// and fill about as much of their buckets. In a tile that still has too many for a page to draw they do so in twos or fours,
/// named as the longest, too. What stands for one slice alone says where that is, and stays. All of it is done tile by tile, so
/// that what a tile has does not depend on the others that are asked for with it.
fn together(sums: &[ShortCalls], level: u32) -> Vec<TimelineSlice> {
    let mut slices = Vec::with_capacity(sums.len());
    for tile in sums.chunk_by(|one, next| one.bucket / TILE == next.bucket / TILE) {
        let mut runs = Vec::new();
        for block in BLOCKS {
            runs = in_runs(tile, level, block);
            if runs.len() <= SUMS {
                break;
            }
        }
        slices.extend(runs.into_iter().map(
            |SliceRun { sum: ShortCalls { bucket, depth, name, n, busy, .. }, len, fills }| {
                let mean = || ((i128::from(busy) * 255 / i128::from(len)) >> level).clamp(1, 255) as u8;
                TimelineSlice { at: bucket, len: Some(len), depth, name, n, busy: if len > 1 { mean() } else { fills } }
            },
        ));
    }
    slices
}

/// Puts the sums of a tile together: those that are alike, and those of so many buckets side by side.
fn in_runs(sums: &[ShortCalls], level: u32, block: i64) -> Vec<SliceRun> {
    let mut runs: Vec<SliceRun> = Vec::with_capacity(sums.len());
    // By depth, the last run.
    let mut last: Vec<usize> = Vec::new();
    for sum in sums {
        let depth = sum.depth as usize;
        let fills = ((i128::from(sum.busy) * 255) >> level).clamp(1, 255) as u8;
        if let Some(run) = last.get(depth).and_then(|at| runs.get_mut(*at))
            && run.sum.bucket + run.len == sum.bucket
            && run.sum.n.min(sum.n) > 1
            && (run.sum.name == sum.name && run.fills.abs_diff(fills) <= ALIKE || sum.bucket % block != 0)
        {
            run.sum.add(sum);
            run.len += 1;
            continue;
        }
        if depth < OPEN_DEPTHS {
            last.resize(last.len().max(depth + 1), usize::MAX);
            last[depth] = runs.len();
        }
        runs.push(SliceRun { sum: *sum, len: 1, fills });
    }
    runs
}

/// Slices of a task in a range whose first ns is `range.0`, in buckets of 2^level ns. Slices that are shorter than a bucket
/// stand together, by bucket and depth.
pub(crate) fn slices(
    lane: LaneCalls<'_>,
    levels: Option<&Levels>,
    level: u32,
    range: (i64, i64),
) -> Vec<TimelineSlice> {
    let mut slices = Slices { level, range, long: Vec::new(), short: Gathered::default() };
    if !levels.is_some_and(|levels| levels.for_each(level, range, &mut slices)) {
        // A call that begins in the last bucket may end after it, and is short all the same.
        let until = range.1.saturating_add((1 << level) - 1);
        lane.for_each_event((range.0, until), |step| {
            if let CallEvent::End(frame, depth, end) = step
                && frame.begin <= range.1
            {
                let end = match end {
                    CallEnd::At(time) => Some(time),
                    CallEnd::Later => Some(i64::MAX),
                    CallEnd::Never => None,
                };
                slices.add_call(&Long { begin: frame.begin, end, depth: depth as u32, name: frame.name });
            }
            true
        });
    }
    let Slices { mut long, short, .. } = slices;
    long.extend(together(&short.sorted(), level));
    long.sort_by_key(|slice| (slice.at, slice.depth));
    long
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::lane::CallLane;
    use crate::lane::tests::{LaneCall, lane};
    use crate::segments::Segments;

    /// The calls of a range that last a bucket or longer: bucket, depth, buckets.
    type Longs = BTreeSet<(i64, u32, Option<i64>)>;
    /// The ns and the name of each other one, by bucket and depth.
    type Shorts = BTreeMap<(i64, u32), Vec<(i64, u32)>>;

    fn by_hand(made: &[LaneCall], level: u32, range: (i64, i64)) -> (Longs, Shorts) {
        let (mut longs, mut shorts): (Longs, Shorts) = Default::default();
        let bucket = |time: i64| (time - range.0) >> level;
        for (begin, end, name, depth, _) in made.iter().filter(|call| call.0 <= range.1) {
            let (at, depth) = (bucket(*begin), *depth as u32);
            match end.map(|end| end - begin).filter(|length| length >> level == 0) {
                _ if end.is_some_and(|end| end < range.0) => {}
                Some(_) if *begin < range.0 => {}
                Some(length) => shorts.entry((at, depth)).or_default().push((length, *name)),
                None => {
                    let len = end.map(|end| bucket(end.min(range.1 + 1)).min(bucket(range.1) + 1) - at);
                    assert!(longs.insert((at, depth, len.map(|len| len.max(1)))));
                }
            }
        }
        (longs, shorts)
    }

    /// Holds slices to calls, each of which is in one of them.
    fn hold(found: &[TimelineSlice], (mut longs, mut shorts): (Longs, Shorts), level: u32) {
        let fills = |busy: i64| ((i128::from(busy) * 255) >> level).clamp(1, 255);
        let mut own_tiles: BTreeMap<i64, usize> = BTreeMap::new();
        shorts.keys().for_each(|(at, _)| *own_tiles.entry(at / TILE).or_default() += 1);
        let mut before: BTreeMap<u32, (TimelineSlice, i128)> = BTreeMap::new();
        for slice in found {
            let TimelineSlice { at, depth, name, n, .. } = *slice;
            // A short one does not fill its bucket.
            if n == 1 && slice.busy == 255 {
                assert!(longs.remove(&(at, depth, slice.len)), "{slice:?}");
                continue;
            }
            let len = slice.len.expect("short ones have ends");
            let own: Vec<Vec<(i64, u32)>> =
                (at..at + len).map(|at| shorts.remove(&(at, depth)).expect("calls begin there")).collect();
            let busy: Vec<i64> = own.iter().map(|calls| calls.iter().map(|call| call.0).sum()).collect();
            assert_eq!(own.iter().map(Vec::len).sum::<usize>() as u64, n, "{slice:?}");
            let mean = (i128::from(busy.iter().sum::<i64>()) * 255 / i128::from(len)) >> level;
            assert_eq!(i128::from(slice.busy), mean.clamp(1, 255), "{slice:?}");
            let is_named = |calls: &[(i64, u32)]| {
                let longest = calls.iter().map(|call| call.0).max();
                calls.iter().any(|call| Some(call.0) == longest && call.1 == name)
            };
            assert!(
                is_named(&own.concat()) && own.iter().all(|calls| len == 1 || calls.len() > 1),
                "{slice:?} {own:?}"
            );
            assert_eq!(at / TILE, (at + len - 1) / TILE);
            let first = fills(busy[0]);
            let is_full = own_tiles[&(at / TILE)] > SUMS;
            let are_alike = busy.iter().all(|busy| fills(*busy).abs_diff(first) <= ALIKE.into());
            let are_alike = are_alike && own.iter().all(|calls| is_named(calls));
            assert!(are_alike || is_full, "{slice:?} of {busy:?}");
            // Slices that could be joined are joined.
            if let Some((other, fill)) = before.insert(depth, (*slice, first))
                && other.at + other.len.unwrap_or(0) == at
                && at % TILE != 0
                && other.n > 1
                && own[0].len() > 1
            {
                let are_alike = other.name == name && fill.abs_diff(first) <= ALIKE.into();
                assert!(!are_alike || is_full, "{other:?} and {slice:?}");
            }
        }
        assert!(longs.is_empty() && shorts.is_empty(), "{longs:?} {shorts:?}");
    }

    #[test]
    fn slices_of_every_level_are_those_that_are_there() {
        let (lane, segments, made) = lane(4, 50_000);
        let lane = lane.kept_in(&segments, 9);
        let (first, last) = lane.range().expect("it has calls");
        let origin = first - 77;
        let levels = Levels::new(lane, origin, 1).expect("there are many");
        assert!(levels.bytes() < made.len() * 8, "{}", levels.bytes());
        let (mut are_together, mut most) = (0, 0);
        for level in (0..=40).step_by(3) {
            let tile = 10 + level;
            let of = |time: i64| (time - origin) >> tile;
            // Calls reach beyond the end of a range in few places: many are looked at.
            let parts = (0..16).map(|at| of(first + (last - first) / 16 * at)).map(|tile| (tile, tile));
            for (from, to) in parts.chain([(of(first), of(last))]) {
                let range = (origin + (from << tile), origin + ((to + 1) << tile) - 1);
                let expected = by_hand(&made, level, range);
                for levels in [None, Some(&levels)] {
                    let found = slices(lane, levels, level, range);
                    assert!(found.is_sorted_by_key(|slice| (slice.at, slice.depth)));
                    hold(&found, expected.clone(), level);
                    most = most.max(expected.1.keys().filter(|(at, _)| at / TILE == 0).count());
                    are_together += found.iter().filter(|slice| slice.n > 1 && slice.len > Some(1)).count();
                }
            }
        }
        // Some tiles are full.
        assert!(are_together > 100 && most > SUMS, "{are_together} {most}");
    }

    #[test]
    fn a_short_call_that_ends_behind_the_range_is_a_short_one() {
        let (mut lane, mut segments) = (CallLane::default(), Segments::default());
        // In the last bucket of the first tile: two short calls, the second of which ends in the next tile, and then a long one.
        let end = TILE << 6;
        for (begin, length) in [(end - 40, 8), (end - 20, 40), (end + 30, 300)] {
            lane.begin(begin, 0, &mut segments);
            lane.end(begin + length, &mut segments);
        }
        lane.finish(&mut segments);
        let found = slices(lane.kept_in(&segments, 1), None, 6, (0, end - 1));
        assert_eq!(found, [TimelineSlice { at: TILE - 1, len: Some(1), depth: 0, name: 0, n: 2, busy: 191 }]);
    }

    #[test]
    fn neighbours_stand_together_while_they_look_alike() {
        let (mut lane, mut segments) = (CallLane::default(), Segments::default());
        // Two calls in each bucket of 64 ns around the edge of a tile: what they fill, and their name.
        let first = TILE - 4;
        for (at, (length, name)) in
            [(10, 1), (12, 1), (12, 2), (12, 2), (12, 2), (12, 2), (30, 2), (0, 2)].iter().enumerate()
        {
            for begin in [0, 32] {
                let begin = (first + at as i64) * 64 + begin;
                lane.begin(begin, *name, &mut segments);
                lane.end(begin + length, &mut segments);
            }
        }
        lane.finish(&mut segments);
        let found = slices(lane.kept_in(&segments, 3), None, 6, (0, (TILE << 7) - 1));
        let found: Vec<_> =
            found.iter().map(|slice| (slice.at - first, slice.len, slice.name, slice.n, slice.busy)).collect();
        let expected = [(0, 2, 1, 4, 87), (2, 2, 2, 4, 95), (4, 2, 2, 4, 95), (6, 1, 2, 2, 239), (7, 1, 2, 2, 1)];
        assert_eq!(found, expected.map(|(at, len, name, n, busy)| (at, Some(len), name, n, busy)));
    }

    #[test]
    fn many_sums_of_a_tile_stand_together_and_those_of_the_next_one_do_not() {
        let (mut lane, mut segments) = (CallLane::default(), Segments::default());
        // In each bucket of 1 µs of the first tile two calls, two that they make, and two that these make, of all names; in the
        // second tile of the fourth part of the buckets.
        let names = 7;
        for bucket in (0..TILE).chain((TILE..2 * TILE).step_by(4)) {
            for begin in [bucket << 10, (bucket << 10) + 512] {
                (0..3)
                    .for_each(|depth| lane.begin(begin + depth, ((bucket * 3 + depth) % names) as u32, &mut segments));
                let end = begin + 20 + bucket * 37 % 480;
                (0..3).for_each(|depth| lane.end(end + depth, &mut segments));
            }
        }
        lane.finish(&mut segments);
        let of =
            |tiles: i64| slices(lane.kept_in(&segments, names as usize), None, 10, (0, ((tiles * TILE) << 10) - 1));
        let (one, both) = (of(1), of(2));
        assert_eq!(both.iter().filter(|slice| slice.at < TILE).copied().collect::<Vec<_>>(), one);
        assert!(one.len() <= SUMS && one.iter().all(|slice| slice.len == Some(2)), "{}", one.len());
        assert_eq!(one.iter().map(|slice| slice.n).sum::<u64>(), 2 * 3 * TILE as u64);
        assert!(both[one.len()..].iter().all(|slice| (slice.n, slice.len) == (2, Some(1))));
        assert_eq!(both.len() - one.len(), 3 * TILE as usize / 4);
    }

    #[test]
    fn the_name_of_a_slice_is_that_of_the_longest() {
        let (mut lane, mut segments) = (CallLane::default(), Segments::default());
        for (time, name) in [(0, 1), (10, 2), (50, 3)] {
            lane.begin(time, name, &mut segments);
            lane.end(time + i64::from(name == 2) * 20 + 5, &mut segments);
        }
        lane.finish(&mut segments);
        let found = slices(lane.kept_in(&segments, 4), None, 10, (0, 1 << 20));
        assert_eq!(found, [TimelineSlice { at: 0, len: Some(1), depth: 0, name: 2, n: 3, busy: 8 }]);
    }

    #[test]
    fn short_calls_stand_together_however_deep_they_are() {
        let (mut lane, mut segments) = (CallLane::default(), Segments::default());
        let depth = OPEN_DEPTHS + 50;
        for first in [0, 10_000, 1 << 20] {
            (0..depth).for_each(|at| lane.begin(first + at as i64, at as u32, &mut segments));
            (0..depth).for_each(|at| lane.end(first + (depth + at) as i64, &mut segments));
        }
        lane.finish(&mut segments);
        let found = slices(lane.kept_in(&segments, depth), None, 20, (0, (2 << 20) - 1));
        let expected =
            [(0, 2), (1, 1)].into_iter().flat_map(|(at, n)| (0..depth as u32).map(move |depth| (at, depth, n)));
        let found = found.iter().map(|slice| (slice.at, slice.depth, slice.n));
        assert!(found.eq(expected));
    }
}
