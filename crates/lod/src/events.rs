//! Times and kinds of all events, in their order.
//!
//! They stand in blocks, some three bytes an event, and what does not fit into little memory waits in a file: see
//! [`Segments`].

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::bits::{put_leb, take_leb};

use crate::segments::{Segments, Spool};
use crate::store::{Reader, Writer};

/// Events of a block.
pub(crate) const BLOCK: usize = 512;
/// Bytes of blocks that stand together.
const SEGMENT: usize = 256 << 10;

/// Times and kinds of events, by their number. Times are ns since the origin.
#[derive(Default)]
pub(crate) struct Columns {
    heads: Vec<Head>,
    segments: Segments,
    /// The segment that is being filled, and the block.
    filled: Vec<u8>,
    open: (Vec<i64>, Vec<u32>),
    len: usize,
    /// Kinds are below this.
    kinds: u32,
    /// Does no block have a time before those of the block before it? It is known when no more come.
    is_ordered: bool,
    /// The block that single events were looked up in last.
    looked_at: Mutex<Option<(usize, Decoded)>>,
}

/// What is known of a block without looking at it.
struct Head {
    /// The smallest and the largest time; the other way round without any.
    first: i64,
    last: i64,
    segment: u32,
    /// Where it begins there.
    from: u32,
    /// The kinds of its events.
    kinds: KindMask,
}

/// A set of kinds, in which those are not told apart that are 64 apart.
#[derive(Clone, Copy, Default)]
pub(crate) struct KindMask(u64);

impl KindMask {
    pub(crate) fn of(kinds: impl Iterator<Item = u32>) -> KindMask {
        KindMask(kinds.fold(0, |mask, kind| mask | 1 << (kind % 64)))
    }

    fn meets(self, other: KindMask) -> bool {
        self.0 & other.0 != 0
    }
}

/// Stands for no time.
pub(crate) const UNTIMED: i64 = i64::MIN;

/// The events of a block.
#[derive(Default)]
struct Decoded {
    times: Vec<i64>,
    kinds: Vec<u32>,
    bytes: Vec<u8>,
}

/// Set in the width of kinds when some events have no time: then a bit for each event says so.
const SOME_UNTIMED: u8 = 0x80;

/// Appends a block: the number of its events, the width of its kinds, these, and the distance of each time from the one before.
fn encode(times: &[i64], kinds: &[u32], out: &mut Vec<u8>) -> (i64, i64) {
    let timed = || times.iter().copied().filter(|time| *time != UNTIMED);
    let range = timed().min().zip(timed().max()).unwrap_or((i64::MAX, i64::MIN));
    let width = match kinds.iter().max().copied().unwrap_or(0) {
        0..0x100 => 1u8,
        0x100..0x1_0000 => 2,
        _ => 4,
    };
    let has_untimed = times.contains(&UNTIMED);
    out.extend_from_slice(&(times.len() as u16).to_le_bytes());
    out.push(width | if has_untimed { SOME_UNTIMED } else { 0 });
    kinds.iter().for_each(|kind| out.extend_from_slice(&kind.to_le_bytes()[..usize::from(width)]));
    if has_untimed {
        let bit = |(at, time): (usize, &i64)| u8::from(*time != UNTIMED) << at;
        times.chunks(8).for_each(|eight| out.push(eight.iter().enumerate().map(bit).sum()));
    }
    let mut last = 0i64;
    for time in timed() {
        let step = time.wrapping_sub(last);
        // Steps back have odd numbers.
        put_leb(out, ((step << 1) ^ (step >> 63)) as u64, false);
        last = time;
    }
    range
}

impl Decoded {
    /// Takes a block apart; `None` when the bytes are none.
    fn fill(&mut self, bytes: &[u8]) -> Option<()> {
        let (count, rest) = bytes.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_le_bytes(*count));
        let (head, rest) = rest.split_first()?;
        let width = usize::from(head & !SOME_UNTIMED);
        if count == 0 || count > BLOCK || ![1, 2, 4].contains(&width) {
            return None;
        }
        let (kinds, mut rest) = rest.split_at_checked(count * width)?;
        self.kinds.clear();
        match width {
            1 => self.kinds.extend(kinds.iter().map(|kind| u32::from(*kind))),
            _ => self.kinds.extend(kinds.chunks_exact(width).map(little)),
        }
        self.times.clear();
        let mut last = 0i64;
        let mut next = |rest: &mut &[u8]| {
            let step = take_leb(rest);
            last = last.wrapping_add((step >> 1) as i64 ^ -((step & 1) as i64));
            last
        };
        if head & SOME_UNTIMED == 0 {
            self.times.extend((0..count).map(|_| next(&mut rest)));
        } else {
            let (bits, times) = rest.split_at_checked(count.div_ceil(8))?;
            rest = times;
            let is_timed = |at: usize| bits[at / 8] >> (at % 8) & 1 == 1;
            self.times.extend((0..count).map(|at| if is_timed(at) { next(&mut rest) } else { UNTIMED }));
        }
        rest.is_empty().then_some(())
    }
}

impl Columns {
    pub(crate) fn push(&mut self, time: Option<i64>, kind: u32) {
        self.open.0.push(time.unwrap_or(UNTIMED));
        self.open.1.push(kind);
        self.len += 1;
        if self.open.0.len() == BLOCK {
            self.close_block();
        }
    }

    fn close_block(&mut self) {
        let (times, kinds) = (std::mem::take(&mut self.open.0), std::mem::take(&mut self.open.1));
        if times.is_empty() {
            return;
        }
        let from = self.filled.len() as u32;
        let (first, last) = encode(&times, &kinds, &mut self.filled);
        let segment = self.segments.len() as u32;
        self.heads.push(Head { first, last, segment, from, kinds: KindMask::of(kinds.iter().copied()) });
        self.kinds = kinds.iter().fold(self.kinds, |most, kind| most.max(kind + 1));
        if self.filled.len() >= SEGMENT {
            self.close_segment();
        }
        (self.open.0, self.open.1) = (times, kinds);
        self.open.0.clear();
        self.open.1.clear();
    }

    fn close_segment(&mut self) {
        if !self.filled.is_empty() {
            self.segments.push(&self.filled);
            self.filled.clear();
        }
    }

    /// No more events come.
    pub(crate) fn seal(&mut self) {
        self.close_block();
        self.close_segment();
        (self.filled, self.open) = Default::default();
        self.heads.shrink_to_fit();
        self.look_at_order();
    }

    fn look_at_order(&mut self) {
        let has_times = self.heads.iter().all(|head| head.first <= head.last);
        self.is_ordered = has_times && self.heads.windows(2).all(|two| two[0].last <= two[1].first);
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Could what waits in a file not be read any more?
    pub(crate) fn is_broken(&self) -> bool {
        self.segments.is_broken()
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.kept() + self.heads.capacity() * size_of::<Head>()
    }

    /// Where a block stands in its segment.
    fn place(&self, block: usize) -> (usize, usize) {
        let head = &self.heads[block];
        let next = self.heads.get(block + 1).filter(|next| next.segment == head.segment);
        let end = next.map_or_else(|| self.segments.bytes_of(head.segment as usize), |next| next.from as usize);
        (head.from as usize, end)
    }

    /// Takes the bytes of a block apart.
    fn decode(&self, bytes: &[u8], block: &mut Decoded) -> Option<()> {
        let found = block.fill(bytes).filter(|()| block.kinds.iter().all(|kind| *kind < self.kinds));
        if found.is_none() {
            self.segments.set_broken();
        }
        found
    }

    /// Time and kind of an event.
    fn look_up(&self, at: usize) -> Option<(i64, u32)> {
        let number = at / BLOCK;
        self.heads.get(number)?;
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        if looked_at.as_ref().is_none_or(|(own, _)| *own != number) {
            let mut block = looked_at.take().map(|(_, block)| block).unwrap_or_default();
            let mut buffer = std::mem::take(&mut block.bytes);
            self.take_apart(number, &mut block, &mut buffer)?;
            block.bytes = buffer;
            *looked_at = Some((number, block));
        }
        let (_, block) = looked_at.as_ref()?;
        Some((*block.times.get(at % BLOCK)?, *block.kinds.get(at % BLOCK)?))
    }

    pub(crate) fn time(&self, at: usize) -> Option<i64> {
        Some(self.look_up(at)?.0).filter(|time| *time != UNTIMED)
    }

    pub(crate) fn kind(&self, at: usize) -> Option<u32> {
        Some(self.look_up(at)?.1)
    }

    /// Shows number, time and kind of each event whose time is in a range, both ends included, in order. Without a range,
    /// of all events, with [`UNTIMED`] for those without time. `None` when nobody wants to know any more, which is asked on
    /// the way.
    pub(crate) fn for_each(
        &self,
        range: Option<(i64, i64)>,
        is_over: &dyn Fn() -> bool,
        mut each: impl FnMut(usize, i64, u32),
    ) -> Option<()> {
        let (mut block, mut buffer) = (Decoded::default(), Vec::new());
        let mut next = 0;
        while next < self.heads.len() {
            let segment = self.heads[next].segment;
            let own = self.heads[next..].iter().take_while(|head| head.segment == segment).count();
            let is_inside = |head: &Head| {
                range.is_none_or(|(begin, end)| head.first <= head.last && head.last >= begin && head.first <= end)
            };
            let blocks = next..next + own;
            next = blocks.end;
            let (Some(first), Some(last)) = (
                blocks.clone().find(|at| is_inside(&self.heads[*at])),
                blocks.clone().rfind(|at| is_inside(&self.heads[*at])),
            ) else {
                continue;
            };
            if is_over() {
                return None;
            }
            let (from, to) = (self.place(first).0, self.place(last).1);
            let Some(bytes) = self.segments.part(segment as usize, (from, to), &mut buffer) else { continue };
            for number in (first..=last).filter(|at| is_inside(&self.heads[*at])) {
                let (begin, end) = self.place(number);
                if self.decode(&bytes[begin - from..end - from], &mut block).is_none() {
                    continue;
                }
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
        let is_inside = move |head: &Head| {
            let next = stretches.partition_point(|(_, end)| *end < head.first);
            head.first <= head.last && stretches.get(next).is_some_and(|(begin, _)| *begin <= head.last)
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

    /// How many events are looked at to see those of some kinds in some stretches of time.
    pub(crate) fn cost_of(&self, stretches: &[(i64, i64)], kinds: KindMask) -> u64 {
        self.blocks_in(stretches, kinds).count() as u64 * BLOCK as u64
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
        let is_candidate = |number: usize, head: &Head| {
            let events = number * BLOCK..self.len.min((number + 1) * BLOCK);
            head.first <= head.last && head.kinds.meets(kinds) && may_hold(events)
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
        let bytes = self.segments.part(self.heads[number].segment as usize, self.place(number), buffer)?;
        self.decode(bytes, block)
    }

    /// The number of the first event that has a time, and one that is not before this one.
    pub(crate) fn first_from(&self, time: i64) -> Option<usize> {
        let block = self.heads.iter().position(|head| head.first <= head.last && head.last >= time)?;
        let is_it = |at: &usize| self.time(*at).is_some_and(|own| own >= time);
        (block * BLOCK..self.len.min((block + 1) * BLOCK)).find(is_it)
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.size(self.segments.len());
        let mut buffer = Vec::new();
        for at in 0..self.segments.len() {
            let bytes = self.segments.part(at, (0, self.segments.bytes_of(at)), &mut buffer);
            to.bytes(bytes.ok_or(io::ErrorKind::UnexpectedEof)?)?;
        }
        Ok(())
    }

    /// Reads what was written; all kinds are below `kinds`. Where it stands in a file, it is looked at there.
    pub(crate) fn read(from: &mut Reader<'_>, kinds: usize, file: Option<&Arc<Spool>>) -> Option<Columns> {
        let mut columns = Columns { kinds: u32::try_from(kinds).ok()?, ..Columns::default() };
        let mut block = Decoded::default();
        let mut is_full = true;
        for segment in 0..from.count()? {
            let count = from.size()?;
            let place = from.place();
            let bytes = from.many(count)?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                // Events are found by their block: all are full but the last one.
                let len = block_len(rest)?;
                let (own, behind) = rest.split_at_checked(len)?;
                block.fill(own).filter(|()| is_full && block.kinds.iter().all(|kind| *kind < columns.kinds))?;
                is_full = block.times.len() == BLOCK;
                let timed = || block.times.iter().copied().filter(|time| *time != UNTIMED);
                let (first, last) = timed().min().zip(timed().max()).unwrap_or((i64::MAX, i64::MIN));
                let from = (bytes.len() - rest.len()) as u32;
                let (segment, kinds) = (u32::try_from(segment).ok()?, KindMask::of(block.kinds.iter().copied()));
                columns.heads.push(Head { first, last, segment, from, kinds });
                columns.len += block.times.len();
                rest = behind;
            }
            match file {
                Some(file) => columns.segments.push_place(file, place, bytes.len()),
                None => columns.segments.push(&bytes),
            }
        }
        columns.look_at_order();
        Some(columns)
    }
}

/// How many bytes the block takes that stands at the beginning of some.
fn block_len(bytes: &[u8]) -> Option<usize> {
    let (head, rest) = bytes.split_first_chunk::<3>()?;
    let count = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let kinds = count * usize::from(head[2] & !SOME_UNTIMED);
    let mut rest = rest.get(kinds..)?;
    let mut timed = count;
    if head[2] & SOME_UNTIMED != 0 {
        let (bits, behind) = rest.split_at_checked(count.div_ceil(8))?;
        timed = bits.iter().map(|bits| bits.count_ones() as usize).sum();
        rest = behind;
    }
    for _ in 0..timed {
        take_leb(&mut rest);
    }
    Some(bytes.len() - rest.len())
}

/// A number of up to four bytes, the lowest first.
fn little(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_give_back_what_was_put() {
        let mut columns = Columns::default();
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

    #[test]
    fn bytes_that_are_no_block_are_none() {
        let (times, kinds): (Vec<i64>, Vec<u32>) = (0..40).map(|at| (at * 300 - (at % 3) * 500, at as u32 % 5)).unzip();
        let mut bytes = Vec::new();
        encode(&times, &kinds, &mut bytes);
        let mut block = Decoded::default();
        assert_eq!((block.fill(&bytes), block_len(&bytes)), (Some(()), Some(bytes.len())));
        assert_eq!((&block.times, &block.kinds), (&times, &kinds));
        for at in 0..bytes.len() {
            assert!(block.fill(&bytes[..at]).is_none() || at > 40, "{at}");
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let _ = (block.fill(&other), block_len(&other));
            }
        }
        assert!(block.fill(&[bytes, vec![0]].concat()).is_none());
    }
}
