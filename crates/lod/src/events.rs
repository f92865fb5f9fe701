//! Times and kinds of all events, in their order.
//!
//! They stand in blocks, some three bytes an event, and what does not fit into little memory waits in a file: see
//! [`SegmentStore`]. Of each block its times and kinds are known without looking at it. An index that is kept has no more than
//! that: blocks are [read again](EventRereader) when they are looked at, some together.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::block::{BLOCK, Decoded, KindMask, UNTIMED, encode, ends};
use crate::checkpoints::BETWEEN;
use crate::progress::Progress;
use crate::reread::EventRereader;
use crate::segments::{Segment, SegmentStore};
use crate::store::bytes::{Reader, Writer};

/// Blocks that stand together, and are read again together.
const TOGETHER: usize = BETWEEN / BLOCK;
/// Looking at an event costs this many times as much where it has to be read again.
const AGAIN: u64 = 8;

/// Times and kinds of events, by their number. Times are ns since the origin.
#[derive(Default)]
pub(crate) struct EventColumns {
    heads: Vec<BlockSummary>,
    /// Blocks that stand together; nothing where they are not known yet.
    groups: Vec<OnceLock<Option<Arc<BlockGroup>>>>,
    room: Mutex<SegmentStore>,
    /// Reads those that are not known.
    again: Option<EventRereader>,
    /// The group that is being filled, and the block.
    filled: (Vec<u8>, Vec<u32>),
    open: (Vec<i64>, Vec<u32>),
    len: usize,
    /// Kinds are below this.
    kinds: u32,
    /// Does no block have a time before those of the block before it? It is known when no more come.
    is_ordered: bool,
    is_broken: AtomicBool,
    /// The block that single events were looked up in last, and room for its bytes.
    looked_at: Mutex<Option<(usize, Decoded, Vec<u8>)>>,
}

/// The summary of a block, which is known without looking at it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BlockSummary {
    /// The smallest and the largest time; the other way round without any.
    first: i64,
    last: i64,
    /// The kinds of its events.
    kinds: KindMask,
}

impl BlockSummary {
    fn from_events(times: &[i64], kinds: &[u32]) -> BlockSummary {
        let (first, last) = ends(times);
        BlockSummary { first, last, kinds: KindMask::from_kinds(kinds.iter().copied()) }
    }

    fn has_times(&self) -> bool {
        self.first <= self.last
    }
}

/// Blocks that stand together, and where each begins.
struct BlockGroup {
    bytes: Segment,
    starts: Box<[u32]>,
}

impl BlockGroup {
    /// Where some of its blocks stand.
    fn place(&self, first: usize, last: usize) -> Option<(usize, usize)> {
        let end = self.starts.get(last + 1).map_or_else(|| self.bytes.len(), |next| *next as usize);
        Some((*self.starts.get(first)? as usize, end))
    }
}

impl EventColumns {
    pub(crate) fn push(&mut self, time: Option<i64>, kind: u32) {
        self.open.0.push(time.unwrap_or(UNTIMED));
        self.open.1.push(kind);
        self.len += 1;
        if self.open.0.len() == BLOCK {
            self.close_block();
        }
    }

    fn close_block(&mut self) {
        let (times, kinds) = &mut self.open;
        if times.is_empty() {
            return;
        }
        self.filled.1.push(self.filled.0.len() as u32);
        encode(times, kinds, &mut self.filled.0);
        self.heads.push(BlockSummary::from_events(times, kinds));
        self.kinds = kinds.iter().fold(self.kinds, |most, kind| most.max(kind + 1));
        times.clear();
        kinds.clear();
        if self.filled.1.len() == TOGETHER {
            self.close_group();
        }
    }

    fn close_group(&mut self) {
        let (bytes, starts) = &mut self.filled;
        if !starts.is_empty() {
            // The last group is not whole: when the traces grow another one takes its place, so a file would fill up with them.
            let bytes = match starts.len() == TOGETHER {
                true => self.room.get_mut().unwrap_or_else(PoisonError::into_inner).store(bytes),
                false => Segment::Memory(bytes.as_slice().into()),
            };
            let group = BlockGroup { bytes, starts: starts.as_slice().into() };
            self.groups.push(OnceLock::from(Some(Arc::new(group))));
        }
        self.filled.0.clear();
        self.filled.1.clear();
    }

    /// No more events come.
    pub(crate) fn seal(&mut self) {
        self.close_block();
        self.close_group();
        (self.filled, self.open) = Default::default();
        self.heads.shrink_to_fit();
        self.look_at_order();
    }

    fn look_at_order(&mut self) {
        let has_times = self.heads.iter().all(BlockSummary::has_times);
        self.is_ordered = has_times && self.heads.windows(2).all(|two| two[0].last <= two[1].first);
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Could what waits in a file not be read any more, or were events not what they had been when they were read again?
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn set_broken(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let starts = self.heads.len() * size_of::<u32>();
        room.memory_bytes() + self.heads.capacity() * size_of::<BlockSummary>() + starts
    }

    /// The blocks of a group. Two who want the same one wait for each other.
    fn group(&self, group: usize) -> Option<&BlockGroup> {
        self.shared_group(group).map(|found| &**found)
    }

    fn shared_group(&self, group: usize) -> Option<&Arc<BlockGroup>> {
        let found = self.groups.get(group)?.get_or_init(|| self.read_again(group).map(Arc::new)).as_ref();
        if found.is_none() {
            self.set_broken();
        }
        found
    }

    /// The first of them, to be added to: whole groups stand in both. `None` when they cannot be read.
    pub(crate) fn first(&self, count: usize) -> Option<EventColumns> {
        let groups = count.min(self.len) / BETWEEN;
        let shared = |group: usize| Some(OnceLock::from(Some(self.shared_group(group)?.clone())));
        let mut own = EventColumns {
            heads: self.heads[..groups * TOGETHER].to_vec(),
            groups: (0..groups).map(shared).collect::<Option<_>>()?,
            len: groups * BETWEEN,
            kinds: self.kinds,
            ..EventColumns::default()
        };
        // Groups that are read again are put here, too; of columns that grow none is left to be read.
        if self.again.is_none() {
            own.room = Mutex::new(std::mem::take(&mut self.room.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        let mut left = count - own.len;
        self.for_each_from(own.len, |time, kind| {
            if left > 0 {
                own.push(Some(time).filter(|time| *time != UNTIMED), kind);
                left -= 1;
            }
            left > 0
        })?;
        (left == 0).then_some(own)
    }

    /// Shows time, or [`UNTIMED`], and kind of each event from a number on, as long as `each` wants more. `None` when they cannot
    /// be read.
    pub(crate) fn for_each_from(&self, first: usize, mut each: impl FnMut(i64, u32) -> bool) -> Option<()> {
        let (mut block, mut bytes) = (Decoded::default(), Vec::new());
        let mut skipped = first % BLOCK;
        for number in first / BLOCK..self.heads.len() {
            self.take_apart(number, &mut block, &mut bytes)?;
            for (&time, &kind) in block.times.iter().zip(&block.kinds).skip(std::mem::take(&mut skipped)) {
                if !each(time, kind) {
                    return Some(());
                }
            }
        }
        Some(())
    }

    fn read_again(&self, group: usize) -> Option<BlockGroup> {
        let first = group * BETWEEN;
        let (times, kinds) = self.again.as_ref()?.read(first, self.len.min(first + BETWEEN) - first)?;
        let heads = &self.heads[group * TOGETHER..];
        let (mut bytes, mut starts) = (Vec::with_capacity(times.len() * 3), Vec::with_capacity(TOGETHER));
        for ((times, kinds), head) in times.chunks(BLOCK).zip(kinds.chunks(BLOCK)).zip(heads) {
            if *head != BlockSummary::from_events(times, kinds) {
                return None;
            }
            starts.push(bytes.len() as u32);
            encode(times, kinds, &mut bytes);
        }
        let bytes = self.room.lock().unwrap_or_else(PoisonError::into_inner).store(&bytes);
        Some(BlockGroup { bytes, starts: starts.into() })
    }

    /// Reads all that is not known, by some threads, each from a place of its own on, until it is told to stop.
    pub(crate) fn fill(&self, jobs: usize, progress: &Progress) {
        let Some(again) = &self.again else { return };
        let count = self.groups.len();
        let jobs = jobs.clamp(1, count.max(1));
        let work = |job: usize| {
            for at in 0..count {
                progress.wait();
                let is_over = progress.stop.load(Ordering::Relaxed);
                if is_over || self.group((at + job * count / jobs) % count).is_none() {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            (1..jobs).for_each(|job| drop(scope.spawn(move || work(job))));
            work(0);
        });
        again.release();
    }

    /// Takes the bytes of a block apart.
    fn decode(&self, bytes: &[u8], block: &mut Decoded) -> Option<()> {
        let found = block.fill(bytes).filter(|()| block.kinds.iter().all(|kind| *kind < self.kinds));
        if found.is_none() {
            self.set_broken();
        }
        found
    }

    /// Time and kind of an event.
    fn look_up(&self, at: usize) -> Option<(i64, u32)> {
        let number = at / BLOCK;
        self.heads.get(number)?;
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        if looked_at.as_ref().is_none_or(|(own, ..)| *own != number) {
            let (_, mut block, mut buffer) = looked_at.take().unwrap_or_default();
            self.take_apart(number, &mut block, &mut buffer)?;
            *looked_at = Some((number, block, buffer));
        }
        let (_, block, _) = looked_at.as_ref()?;
        Some((*block.times.get(at % BLOCK)?, *block.kinds.get(at % BLOCK)?))
    }

    pub(crate) fn time(&self, at: usize) -> Option<i64> {
        Some(self.look_up(at)?.0).filter(|time| *time != UNTIMED)
    }

    pub(crate) fn kind(&self, at: usize) -> Option<u32> {
        Some(self.look_up(at)?.1)
    }

    /// Shows number, time and kind of each event whose time is in a range, both ends included, in order. Without a
    /// range, of all events, with [`UNTIMED`] for those without time. `None` when the answer is not wanted any more,
    /// which is asked on the way.
    pub(crate) fn for_each(
        &self,
        range: Option<(i64, i64)>,
        is_over: &dyn Fn() -> bool,
        mut each: impl FnMut(usize, i64, u32),
    ) -> Option<()> {
        let (mut block, mut buffer) = (Decoded::default(), Vec::new());
        let is_inside = |head: &BlockSummary| {
            range.is_none_or(|(begin, end)| head.has_times() && head.last >= begin && head.first <= end)
        };
        for (group, heads) in self.heads.chunks(TOGETHER).enumerate() {
            let (Some(first), Some(last)) = (heads.iter().position(is_inside), heads.iter().rposition(is_inside))
            else {
                continue;
            };
            if is_over() {
                return None;
            }
            let Some(group_of) = self.group(group) else { continue };
            let Some((from, to)) = group_of.place(first, last) else { continue };
            let Some(bytes) = group_of.bytes.part((from, to), &mut buffer) else {
                self.set_broken();
                continue;
            };
            for at in (first..=last).filter(|at| is_inside(&heads[*at])) {
                let Some((begin, end)) = group_of.place(at, at) else { continue };
                if self.decode(&bytes[begin - from..end - from], &mut block).is_none() {
                    continue;
                }
                let number = group * TOGETHER + at;
                let events = block.times.iter().zip(&block.kinds).enumerate();
                match range {
                    None => events.for_each(|(at, (time, kind))| each(number * BLOCK + at, *time, *kind)),
                    Some((begin, end)) => {
                        let is_wanted = |time: i64| time != UNTIMED && begin <= time && time <= end;
                        let wanted = events.filter(|(_, (time, _))| is_wanted(**time));
                        wanted.for_each(|(at, (time, kind))| each(number * BLOCK + at, *time, *kind));
                    }
                }
            }
        }
        Some(())
    }

    /// The blocks that have events of some kinds in some stretches of time, which are in order and apart.
    fn blocks_in<'c>(&'c self, stretches: &'c [(i64, i64)], kinds: KindMask) -> impl Iterator<Item = usize> + 'c {
        let is_inside = move |head: &BlockSummary| {
            let next = stretches.partition_point(|(_, end)| *end < head.first);
            head.has_times() && stretches.get(next).is_some_and(|(begin, _)| *begin <= head.last)
        };
        let all = match (stretches.first(), stretches.last()) {
            (Some((begin, _)), Some((_, end))) if self.is_ordered => {
                let from = self.heads.partition_point(|head| head.last < *begin);
                from..self.heads.partition_point(|head| head.first <= *end).max(from)
            }
            _ => 0..self.heads.len(),
        };
        all.filter(move |at| self.heads[*at].kinds.meets(kinds) && is_inside(&self.heads[*at]))
    }

    /// How many events are looked at to see those of some kinds in some stretches of time; more where they are read again.
    pub(crate) fn cost_of(&self, stretches: &[(i64, i64)], kinds: KindMask) -> u64 {
        let (mut cost, mut last) = (0, None);
        for group in self.blocks_in(stretches, kinds).map(|block| block / TOGETHER) {
            let is_unknown = last.replace(group) != Some(group) && self.groups[group].get().is_none();
            cost += if is_unknown { AGAIN * BETWEEN as u64 } else { BLOCK as u64 };
        }
        cost
    }

    /// Shows time and kind of each event in some stretches of time, both ends included, in order; among them are all of some
    /// kinds. The stretches are in order and apart.
    pub(crate) fn for_each_in(&self, stretches: &[(i64, i64)], kinds: KindMask, mut each: impl FnMut(i64, u32)) {
        let (mut block, mut bytes) = (Decoded::default(), Vec::new());
        for number in self.blocks_in(stretches, kinds) {
            if self.take_apart(number, &mut block, &mut bytes).is_none() {
                continue;
            }
            let mut at = 0;
            for (&time, &kind) in block.times.iter().zip(&block.kinds) {
                // Mostly in the order of time.
                while at > 0 && time <= stretches[at - 1].1 {
                    at -= 1;
                }
                while at < stretches.len() && time > stretches[at].1 {
                    at += 1;
                }
                if time != UNTIMED && stretches.get(at).is_some_and(|(begin, _)| *begin <= time) {
                    each(time, kind);
                }
            }
        }
    }

    /// The events next to a time, on either side and then, among those that are wanted: number and time. Of several at one time
    /// before it that is the last one, else the first. What is wanted is of some kinds, and somewhere among events between
    /// which `may_hold` says it may be.
    pub(crate) fn around(
        &self,
        at: i64,
        kinds: KindMask,
        may_hold: impl Fn(std::ops::Range<usize>) -> bool,
        is_wanted: impl Fn(usize, u32) -> bool,
    ) -> [Option<(usize, i64)>; 3] {
        let [mut before, mut here, mut behind]: [Option<(usize, i64)>; 3] = [None; 3];
        let (mut block, mut bytes) = (Decoded::default(), Vec::new());
        let is_candidate = |number: usize, head: &BlockSummary| {
            let events = number * BLOCK..self.len.min((number + 1) * BLOCK);
            head.has_times() && head.kinds.meets(kinds) && may_hold(events)
        };
        for (number, head) in self.heads.iter().enumerate().rev() {
            // A block further ahead holds none that is nearer.
            if head.first >= at || before.is_some_and(|(_, time)| head.last <= time) || !is_candidate(number, head) {
                continue;
            }
            let Some(()) = self.take_apart(number, &mut block, &mut bytes) else { continue };
            for (place, (&time, &kind)) in block.times.iter().zip(&block.kinds).enumerate().rev() {
                let event = number * BLOCK + place;
                let is_nearer = time != UNTIMED && time < at && before.is_none_or(|(_, own)| time > own);
                if is_nearer && is_wanted(event, kind) {
                    before = Some((event, time));
                }
            }
        }
        for (number, head) in self.heads.iter().enumerate() {
            let has_one_here = here.is_none() && head.first <= at && head.last >= at;
            let has_one_behind = head.last > at && behind.is_none_or(|(_, time)| head.first < time);
            if !(has_one_here || has_one_behind) || !is_candidate(number, head) {
                continue;
            }
            let Some(()) = self.take_apart(number, &mut block, &mut bytes) else { continue };
            for (place, (&time, &kind)) in block.times.iter().zip(&block.kinds).enumerate() {
                let event = number * BLOCK + place;
                let found = if time == at { &mut here } else { &mut behind };
                if time >= at && found.is_none_or(|(_, own)| time < own) && is_wanted(event, kind) {
                    *found = Some((event, time));
                }
            }
        }
        [before, here, behind]
    }

    /// Reads a block and takes it apart.
    fn take_apart(&self, number: usize, block: &mut Decoded, buffer: &mut Vec<u8>) -> Option<()> {
        let group = self.group(number / TOGETHER)?;
        let place = group.place(number % TOGETHER, number % TOGETHER)?;
        let bytes = group.bytes.part(place, buffer);
        if bytes.is_none() {
            self.set_broken();
        }
        self.decode(bytes?, block)
    }

    /// The number of the first event that has a time, and one that is not before this one.
    pub(crate) fn first_from(&self, time: i64) -> Option<usize> {
        let block = self.heads.iter().position(|head| head.has_times() && head.last >= time)?;
        let is_it = |at: &usize| self.time(*at).is_some_and(|own| own >= time);
        (block * BLOCK..self.len.min((block + 1) * BLOCK)).find(is_it)
    }

    /// Writes what is known of blocks without looking at them.
    pub(crate) fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.size(self.len);
        let (mut time, mut kinds) = (0i64, 0);
        for head in &self.heads {
            // Blocks of one kind of traffic hold the same kinds.
            to.number(head.kinds.0 ^ kinds);
            kinds = head.kinds.0;
            to.number(head.has_times().into());
            if head.has_times() {
                to.step(head.first.wrapping_sub(time));
                to.number(head.last.abs_diff(head.first));
                time = head.last;
            }
            to.plain(&[])?;
        }
        Ok(())
    }

    /// Reads what was written.
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<EventColumns> {
        let len = from.size()?;
        let mut columns = EventColumns { len, ..EventColumns::default() };
        let (mut time, mut kinds) = (0i64, 0);
        for _ in 0..len.div_ceil(BLOCK) {
            kinds ^= from.number()?;
            let (mut first, mut last) = (i64::MAX, i64::MIN);
            if from.flag()? {
                first = time.wrapping_add(from.step()?);
                last = first.checked_add_unsigned(from.number()?).filter(|_| first != UNTIMED)?;
                time = last;
            }
            columns.heads.push(BlockSummary { first, last, kinds: KindMask(kinds) });
        }
        columns.groups.resize_with(columns.heads.len().div_ceil(TOGETHER), OnceLock::new);
        columns.look_at_order();
        Some(columns)
    }

    /// Says who reads the events whose times and kinds were not kept; all kinds are below `kinds`.
    pub(crate) fn read_by(&mut self, again: EventRereader, kinds: usize) {
        (self.again, self.kinds) = (Some(again), kinds as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_give_back_what_was_put() {
        let mut columns = EventColumns::default();
        let time = |at: usize| match at {
            5000 => None,
            at if at > 9000 => Some(at as i64 * 10_000_000_000),
            at if at > 7000 => Some(at as i64 * 1000),
            6000 => Some(i64::MAX),
            6001 => Some(i64::MIN + 1),
            at => Some(at as i64 - 100),
        };
        let kind = |at: usize| match at / 2000 {
            3.. => 70_000,
            2 => 700,
            _ => at as u32 % 9,
        };
        (0..10_000).for_each(|at| columns.push(time(at), kind(at)));
        columns.seal();
        assert_eq!(columns.len(), 10_000);
        for at in 0..10_000 {
            assert_eq!((columns.time(at), columns.kind(at)), (time(at), Some(kind(at))));
        }
        assert_eq!(columns.kind(10_000), None);
        let mut found = Vec::new();
        let never = || false;
        columns.for_each(Some((4899, 4902)), &never, |at, time, _| found.push((at, time)));
        assert_eq!(found, [(4999, 4899), (5001, 4901), (5002, 4902)]);
        let mut all = Vec::new();
        columns.for_each(None, &never, |at, time, kind| all.push((at, time, kind)));
        assert!(all.into_iter().eq((0..10_000).map(|at| (at, time(at).unwrap_or(UNTIMED), kind(at)))));
        assert_eq!((columns.first_from(4900), columns.first_from(i64::MAX)), (Some(5001), Some(6000)));
        assert_eq!(columns.for_each(None, &|| true, |_, _, _| unreachable!("nobody wants to know")), None);
        assert!(!columns.is_broken() && columns.bytes() < 80_000, "{}", columns.bytes());
    }
}
