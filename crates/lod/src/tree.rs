//! How many events of a track are where, at every level, in little memory.
//!
//! A bucket of level k is 2^k ns wide. Levels are two apart. A bucket is split into the four below it while it holds more
//! than [`LEAF`] events, so bursts are fine and silence costs nothing; buckets above a level that the whole timeline is
//! always shown by are split whatever they hold. What is stored of a bucket is its distance from the one before with its
//! events, and their commonest name: two to three bytes, some 0.3 bytes an event.

use std::io;

use tracemill_codec::bits::{put_leb, take_leb};

use crate::store::bytes::{Reader, Writer};

/// Events of a bucket that is not split, and of one where there are very many events.
const LEAF: [u64; 2] = [32, 128];
/// Events from which on there are very many.
const MANY: f64 = (1u64 << 26) as f64;
/// The highest level.
const TOP: u32 = 62;
const LEVELS: usize = TOP as usize / 2 + 1;

/// Events of a bucket by name, in the order of names.
#[derive(Clone, Default, Debug)]
pub(crate) struct Counts(Vec<(u32, u64)>);

impl Counts {
    fn from_events(events: &[(u64, u32)]) -> Counts {
        let mut names: Vec<u32> = events.iter().map(|(_, name)| *name).collect();
        names.sort_unstable();
        let mut counts: Vec<(u32, u64)> = Vec::with_capacity(4);
        for name in names {
            match counts.last_mut().filter(|(last, _)| *last == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        Counts(counts)
    }

    fn add(&mut self, other: &Counts) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        // Mostly the same few names.
        let is_known = |(name, _): &(u32, u64)| self.0.binary_search_by_key(name, |(own, _)| *own).is_ok();
        if !other.0.iter().all(is_known) {
            self.0.extend(other.0.iter().filter(|of| !is_known(of)).map(|(name, _)| (*name, 0)).collect::<Vec<_>>());
            self.0.sort_unstable();
        }
        let mut at = 0;
        for (name, count) in &other.0 {
            while self.0[at].0 < *name {
                at += 1;
            }
            self.0[at].1 += count;
        }
    }

    /// The commonest name; of several the smallest.
    fn commonest(&self) -> u32 {
        self.0.iter().max_by_key(|(name, count)| (*count, u32::MAX - name)).map_or(0, |(name, _)| *name)
    }
}

/// A bucket in which events are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BucketEntry {
    /// Its number: its first ns divided by its width.
    pub(crate) at: u64,
    pub(crate) events: u64,
    /// The commonest name.
    pub(crate) name: u32,
}

/// Appends what is stored of a bucket that is so far after the one before. Most are next to it and hold few events: these
/// two are one byte.
fn put_entry(out: &mut Vec<u8>, gap: u64, events: u64, name: u32) {
    let near = gap.min(FAR);
    put_leb(out, events << 2 | near, false);
    if near == FAR {
        put_leb(out, gap - FAR, false);
    }
    put_leb(out, name.into(), false);
}

/// Distances from this on stand for themselves.
const FAR: u64 = 3;

/// Distance, events and name of the next bucket.
#[inline]
fn take_entry(rest: &mut &[u8]) -> (u64, u64, u64) {
    let first = take_leb(rest);
    let gap = if first & FAR == FAR { FAR.saturating_add(take_leb(rest)) } else { first & FAR };
    (gap, first >> 2, take_leb(rest))
}

/// Entries between marks.
const STEP: usize = 64;

/// The buckets of a level, as numbers of variable length.
#[derive(Clone, Default)]
struct TreeLevel {
    bytes: Vec<u8>,
    /// Of each 64th entry, its bucket and where it stands.
    marks: Vec<(u64, usize)>,
    len: usize,
    last: u64,
}

impl TreeLevel {
    fn push(&mut self, entry: BucketEntry) {
        if self.len.is_multiple_of(STEP) {
            self.marks.push((entry.at, self.bytes.len()));
            self.last = entry.at;
        }
        put_entry(&mut self.bytes, entry.at - self.last, entry.events, entry.name);
        (self.last, self.len) = (entry.at, self.len + 1);
    }

    /// Shows the entries from one bucket to another, both included.
    fn for_each(&self, from: u64, to: u64, mut see: impl FnMut(BucketEntry)) {
        let first = self.marks.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        for (mark, (begin, offset)) in self.marks.iter().enumerate().skip(first) {
            if *begin > to {
                return;
            }
            let (mut at, mut rest) = (*begin, &self.bytes[*offset..]);
            for _ in 0..STEP.min(self.len - mark * STEP) {
                let (gap, events, name) = take_entry(&mut rest);
                at += gap;
                if at > to {
                    return;
                }
                if at >= from {
                    see(BucketEntry { at, events, name: name as u32 });
                }
            }
        }
    }
}

/// The buckets of a track.
#[derive(Clone)]
pub(crate) struct BucketTree {
    levels: [TreeLevel; LEVELS],
    /// Buckets above this level are always split.
    always: u32,
    /// Events of a bucket that is not split.
    leaf: u64,
}

impl BucketTree {
    /// Shows the buckets of a window of the timeline as they are stored: those of the nearest stored level that is not above
    /// `level` to `exact`, and those that are wider, because they hold few events, to `wide`, with their level.
    pub(crate) fn for_each(
        &self,
        level: u32,
        (begin, end): (u64, u64),
        mut exact: impl FnMut(u32, BucketEntry),
        mut wide: impl FnMut(u32, BucketEntry),
    ) {
        let own = level & !1;
        self.levels[own as usize / 2].for_each(begin >> own, end >> own, |entry| exact(own, entry));
        for level in (own + 2..=self.always).step_by(2) {
            self.levels[level as usize / 2].for_each(begin >> level, end >> level, |entry| {
                if entry.events <= self.leaf {
                    wide(level, entry);
                }
            });
        }
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.number(self.always.into());
        to.number(self.leaf);
        for level in &self.levels {
            to.size(level.len);
            let mut last = 0;
            for (bucket, _) in &level.marks {
                to.number(bucket - last);
                last = *bucket;
            }
            to.bytes(&level.bytes)?;
        }
        Ok(())
    }

    /// Reads what was written.
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<BucketTree> {
        let always = from.small(TOP as usize + 1)? & !1;
        let mut tree = BucketTree { levels: Default::default(), always, leaf: from.number()? };
        for level in &mut tree.levels {
            let len = from.count()?;
            let mut mark = 0u64;
            let mut next_mark = || {
                mark = mark.checked_add(from.number()?)?;
                Some(mark)
            };
            let marks = (0..len.div_ceil(STEP)).map(|_| next_mark()).collect::<Option<Vec<u64>>>()?;
            let bytes = from.bytes()?;
            let mut rest = &bytes[..];
            let (mut at, mut sum) = (0u64, 0u64);
            for number in 0..len {
                let (gap, events, name) = take_entry(&mut rest);
                at = if number.is_multiple_of(STEP) { marks[number / STEP] } else { at.checked_add(gap)? };
                // Entries must not decrease: they could be neither stored nor found.
                if number > 0 && at < level.last || at > u64::MAX >> 1 {
                    return None;
                }
                // Sums of several trees must fit.
                sum = sum.checked_add(events).filter(|sum| *sum < 1 << 56)?;
                level.push(BucketEntry { at, events, name: u32::try_from(name).ok()? });
            }
            level.bytes.shrink_to_fit();
            level.marks.shrink_to_fit();
        }
        Some(tree)
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.bytes.capacity() + level.marks.capacity() * 16).sum()
    }
}

/// A bucket that events are still put into.
#[derive(Clone, Default)]
struct OpenBucket {
    at: u64,
    events: u64,
    counts: Counts,
    /// Its own buckets, as long as it holds too few events for them to be stored.
    pending: Vec<BucketEntry>,
}

/// Makes trees of events that come about in the order of time.
#[derive(Clone)]
pub(crate) struct TreeBuilder {
    /// The level of the bucket whose events are gathered.
    base: u32,
    buffer: Vec<(u64, u32)>,
    /// Events that are gathered at most.
    most: usize,
    is_sorted: bool,
    /// Events of a bucket of 1 ns that are no longer gathered.
    same: (u64, Counts),
    /// The buckets around it, from the level above it on.
    open: [Option<OpenBucket>; LEVELS],
    /// Buckets that held few events, one after the other.
    small: u32,
    tree: BucketTree,
    done: Vec<BucketTree>,
    /// Events that come too late for the buckets that are closed.
    late: Vec<(u64, u32)>,
}

/// Events that are gathered at most: for one track, and for one of many that are built together.
const GATHERED: [usize; 2] = [1 << 16, 1 << 12];
/// Late events that are kept until a tree is made of them.
const LATE: usize = 1 << 20;
/// Small buckets after which wider ones are gathered.
const SMALL: u32 = 256;

impl TreeBuilder {
    /// `always`: all buckets above this level are split. `is_of_many`: are other trees built at the same time? `events`: how
    /// many there are in all trees, about.
    pub(crate) fn new(always: u32, is_of_many: bool, events: f64) -> TreeBuilder {
        TreeBuilder::with_leaf(always, is_of_many, LEAF[usize::from(events > MANY)])
    }

    fn with_leaf(always: u32, is_of_many: bool, leaf: u64) -> TreeBuilder {
        let always = (always & !1).min(TOP);
        TreeBuilder {
            base: always,
            buffer: Vec::new(),
            most: GATHERED[usize::from(is_of_many)],
            is_sorted: true,
            same: (0, Counts::default()),
            open: std::array::from_fn(|_| None),
            small: 0,
            tree: BucketTree { levels: Default::default(), always, leaf },
            done: Vec::new(),
            late: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, time: u64, name: u32) {
        // Times that no bucket holds are none.
        let time = time.min((1 << 63) - 1);
        if let Some((last, _)) = self.buffer.last() {
            let (own, new) = (last >> self.base, time >> self.base);
            if new < own {
                self.late.push((time, name));
                if self.late.len() >= LATE {
                    self.take_late();
                }
                return;
            }
            self.is_sorted &= *last <= time;
            if new > own {
                self.close(time);
            } else if self.buffer.len() >= self.most && self.base > 0 {
                self.divide(time);
                return self.push(time, name);
            } else if self.buffer.len() >= self.most {
                // All at one time: one of them says when.
                self.same.0 += self.buffer.len() as u64 - 1;
                self.same.1.add(&Counts::from_events(&self.buffer[1..]));
                self.buffer.truncate(1);
            }
        }
        self.buffer.push((time, name));
    }

    /// Gathers narrower buckets from here on: the one that is gathered holds too many events.
    fn divide(&mut self, next: u64) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            self.buffer.sort_unstable();
        }
        let events = std::mem::take(&mut self.buffer);
        let last = events.last().map_or(next, |(time, _)| *time);
        self.open[self.base as usize / 2] = Some(OpenBucket { at: last >> self.base, ..OpenBucket::default() });
        self.base -= 2;
        for (time, name) in events {
            self.push(time, name);
        }
        self.small = 0;
    }

    /// Closes the gathered bucket, and those around it that do not hold the next event.
    fn close(&mut self, next: u64) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            self.buffer.sort_unstable();
        }
        let events = std::mem::take(&mut self.buffer);
        let Some((first, _)) = events.first() else { return };
        let mut counts = split(&events, self.base, (self.tree.always, self.tree.leaf), &mut self.tree.levels);
        let (more, of_more) = std::mem::take(&mut self.same);
        counts.add(&of_more);
        self.small = if events.len() < 8 { self.small + 1 } else { 0 };
        self.push_bucket(self.base, first >> self.base, events.len() as u64 + more, counts);
        self.buffer = events;
        self.buffer.clear();
        for level in (self.base + 2..=TOP).step_by(2) {
            let Some(open) = self.open[level as usize / 2].take_if(|open| open.at != next >> level) else { break };
            self.push_bucket(level, open.at, open.events, open.counts);
        }
        if self.small >= SMALL && self.base < self.tree.always && self.open[self.base as usize / 2 + 1].is_none() {
            (self.base, self.small) = (self.base + 2, 0);
        }
    }

    /// Puts a closed bucket into the one around it.
    fn push_bucket(&mut self, level: u32, at: u64, events: u64, counts: Counts) {
        let entry = BucketEntry { at, events, name: counts.commonest() };
        let own = &mut self.tree.levels[level as usize / 2];
        if level == TOP {
            return own.push(entry);
        }
        let around = self.open[level as usize / 2 + 1]
            .get_or_insert_with(|| OpenBucket { at: at >> 2, ..OpenBucket::default() });
        around.events += events;
        around.counts.add(&counts);
        if level >= self.tree.always || around.events > self.tree.leaf {
            around.pending.drain(..).for_each(|entry| own.push(entry));
            own.push(entry);
        } else {
            around.pending.push(entry);
        }
    }

    fn take_late(&mut self) {
        let mut late = std::mem::take(&mut self.late);
        late.sort_unstable();
        let mut of_late = TreeBuilder::with_leaf(self.tree.always, true, self.tree.leaf);
        late.into_iter().for_each(|(time, name)| of_late.push(time, name));
        self.done.extend(of_late.finish());
    }

    /// The trees: their sums are what the track has.
    pub(crate) fn finish(mut self) -> Vec<BucketTree> {
        if !self.late.is_empty() {
            self.take_late();
        }
        // No bucket holds this.
        self.close(u64::MAX);
        for level in &mut self.tree.levels {
            level.bytes.shrink_to_fit();
            level.marks.shrink_to_fit();
        }
        self.done.push(self.tree);
        self.done
    }
}

/// Stores the buckets below one that holds these events; gives what it holds.
fn split(events: &[(u64, u32)], level: u32, (always, leaf): (u32, u64), levels: &mut [TreeLevel; LEVELS]) -> Counts {
    if level == 0 || level <= always && events.len() as u64 <= leaf {
        return Counts::from_events(events);
    }
    let (below, mut counts, mut left) = (level - 2, Counts::default(), events);
    while let Some((first, _)) = left.first() {
        let at = first >> below;
        let (own, rest) = left.split_at(left.partition_point(|(time, _)| time >> below == at));
        let of_own = split(own, below, (always, leaf), levels);
        levels[below as usize / 2].push(BucketEntry { at, events: own.len() as u64, name: of_own.commonest() });
        counts.add(&of_own);
        left = rest;
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A small generator: every run gives the same numbers.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 24) % limit
        }
    }

    fn built(events: &[(u64, u32)], always: u32) -> Vec<BucketTree> {
        let mut builder = TreeBuilder::with_leaf(always, events.len().is_multiple_of(2), LEAF[events.len() / 2 % 2]);
        events.iter().for_each(|(time, name)| builder.push(*time, *name));
        builder.finish()
    }

    /// At every level each event is in one bucket, which holds no event that it should not.
    fn check(events: &[(u64, u32)], always: u32) {
        let trees = built(events, always);
        for level in 0..=TOP {
            let last = events.iter().map(|(time, _)| *time).max().unwrap_or(0);
            for window in [(0, (1 << 63) - 1), (last / 3, last / 2)] {
                let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
                let own = level & !1;
                let within = |at: u64, level: u32| at >= window.0 >> level && at <= window.1 >> level;
                events.iter().filter(|(time, _)| within(time >> own, own)).for_each(|(time, _)| {
                    *expected.entry(time >> own).or_default() += 1;
                });
                let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
                let mut wide: Vec<(u32, BucketEntry)> = Vec::new();
                for tree in &trees {
                    let see = |level: u32, entry: BucketEntry| {
                        assert_eq!(level, own);
                        *exact.entry(entry.at).or_default() += entry.events;
                    };
                    tree.for_each(level, window, see, |level, entry| wide.push((level, entry)));
                }
                assert!(level < always || wide.is_empty(), "level {level}");
                let mut left = 0u64;
                for (at, count) in &expected {
                    let found = exact.get(at).copied().unwrap_or(0);
                    assert!(found <= *count, "level {level}: {at}");
                    left += count - found;
                    let is_around = |(wider, entry): &(u32, BucketEntry)| at >> (wider - own) == entry.at;
                    assert!(found == *count || wide.iter().any(is_around), "level {level}: bucket {at} is empty");
                }
                assert!(exact.keys().all(|at| expected.contains_key(at)), "level {level}");
                // Wide buckets reach over the ends of the window.
                let of_wide: u64 = wide.iter().map(|(_, entry)| entry.events).sum();
                assert!(of_wide >= left, "level {level}: {of_wide} {left}");
                assert!(window.0 > 0 || of_wide == left, "level {level}: {of_wide} {left}");
            }
        }
    }

    #[test]
    fn every_event_is_in_one_bucket_of_every_level() {
        let mut random = Random(5);
        check(&[], 20);
        check(&[(0, 1)], 20);
        check(&[((1 << 63) - 1, 1), (0, 2)], 0);
        for round in 0..16u64 {
            let (mut time, mut events) = (random.below(1 << 40), Vec::new());
            let burst = 1 + random.below(3000);
            for at in 0..random.below(4000) {
                time += match round % 4 {
                    0 => random.below(3),
                    1 => 1,
                    2 if at % burst > 0 => random.below(40),
                    _ => {
                        let limit = 1 << random.below(36);
                        random.below(limit)
                    }
                };
                // Some come late.
                let late = if round % 3 == 0 && random.below(50) == 0 { random.below(1 << 30) } else { 0 };
                events.push((time.saturating_sub(late), random.below(5) as u32));
            }
            check(&events, (random.below(20) * 2) as u32);
        }
    }

    #[test]
    fn many_events_at_one_time_and_silence_are_both_kept() {
        let mut events: Vec<(u64, u32)> = (0..200_000).map(|_| (7 << 50, 3)).collect();
        events.extend((0..100).map(|at| ((8 << 50) + at, 4)));
        check(&events, 44);
        let trees = built(&events, 44);
        let mut found = Vec::new();
        trees[0].for_each(0, (0, u64::MAX >> 1), |_, entry| found.push(entry), |_, _| ());
        assert_eq!(found[0], BucketEntry { at: 7 << 50, events: 200_000, name: 3 });
        assert!(trees[0].bytes() < 4096, "{}", trees[0].bytes());
    }

    #[test]
    fn an_event_takes_less_than_a_third_of_a_byte() {
        let (mut random, mut time) = (Random(9), 0);
        let events: Vec<(u64, u32)> = (0..300_000)
            .map(|_| {
                time += random.below(2000);
                (time, random.below(6) as u32)
            })
            .collect();
        let bytes: usize = built(&events, 24).iter().map(BucketTree::bytes).sum();
        assert!(bytes < events.len() / 3, "{bytes}");
        // The commonest name of all.
        let mut names: BTreeMap<u32, u64> = BTreeMap::new();
        events.iter().for_each(|(_, name)| *names.entry(*name).or_default() += 1);
        let most = names.iter().max_by_key(|(name, count)| (**count, u32::MAX - **name)).map(|(name, _)| *name);
        let mut top = Vec::new();
        built(&events, 24)[0].for_each(TOP, (0, u64::MAX >> 1), |_, entry| top.push(entry), |_, _| ());
        assert_eq!((top.len(), top[0].events, Some(top[0].name)), (1, 300_000, most));
    }
}
