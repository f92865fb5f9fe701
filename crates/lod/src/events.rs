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
        self.heads.push(Head { first, last, segment: self.segments.len() as u32, from });
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
        let head = self.heads.get(number)?;
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        if looked_at.as_ref().is_none_or(|(own, _)| *own != number) {
            let mut block = looked_at.take().map(|(_, block)| block).unwrap_or_default();
            let mut buffer = std::mem::take(&mut block.bytes);
            let bytes = self.segments.part(head.segment as usize, self.place(number), &mut buffer)?;
            self.decode(bytes, &mut block)?;
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
                columns.heads.push(Head { first, last, segment: u32::try_from(segment).ok()?, from });
                columns.len += block.times.len();
                rest = behind;
            }
            match file {
                Some(file) => columns.segments.push_place(file, place, bytes.len()),
                None => columns.segments.push(&bytes),
            }
        }
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

/// A set of events, by number.
#[derive(Clone, Default)]
pub struct EventSet {
    words: Vec<u64>,
    len: usize,
    /// Events in the set before each 64 words.
    before: Vec<usize>,
}

/// Words between counts.
const STEP: usize = 64;

impl EventSet {
    /// Adds an event behind those that are in the set.
    pub fn push(&mut self, event: usize) {
        let word = event / 64;
        while self.words.len() <= word {
            if self.words.len().is_multiple_of(STEP) {
                self.before.push(self.len);
            }
            self.words.push(0);
        }
        self.words[word] |= 1 << (event % 64);
        self.len += 1;
    }

    /// The events that are in one of two sets.
    #[must_use]
    pub fn or(&self, other: &EventSet) -> EventSet {
        let (long, short) = if self.words.len() >= other.words.len() { (self, other) } else { (other, self) };
        let both = long.words.iter().enumerate().map(|(at, word)| word | short.words.get(at).copied().unwrap_or(0));
        let mut set = EventSet::default();
        for word in both {
            if set.words.len().is_multiple_of(STEP) {
                set.before.push(set.len);
            }
            set.words.push(word);
            set.len += word.count_ones() as usize;
        }
        set
    }

    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        (self.words.capacity() + self.before.capacity()) * 8
    }

    /// Is an event in it?
    pub fn has(&self, event: usize) -> bool {
        self.words.get(event / 64).is_some_and(|word| word >> (event % 64) & 1 == 1)
    }

    /// Events in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is no event in it?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many of its events stand before this one.
    pub fn rank(&self, event: usize) -> usize {
        let word = (event / 64).min(self.words.len());
        let step = word / STEP;
        let start = self.before.get(step).copied().unwrap_or(self.len);
        if step >= self.before.len() {
            return self.len;
        }
        let whole: u32 = self.words[step * STEP..word].iter().map(|word| word.count_ones()).sum();
        let rest = self.words.get(word).map_or(0, |bits| (bits & ((1 << (event % 64)) - 1)).count_ones());
        start + whole as usize + rest as usize
    }

    /// Shows all events in it.
    pub fn each(&self, mut see: impl FnMut(usize)) {
        for (at, word) in self.words.iter().enumerate() {
            let mut bits = *word;
            while bits != 0 {
                see(at * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// The event of this rank.
    pub fn select(&self, rank: usize) -> Option<usize> {
        if rank >= self.len {
            return None;
        }
        let step = self.before.partition_point(|before| *before <= rank) - 1;
        let mut left = rank - self.before[step];
        for (at, word) in self.words.iter().enumerate().skip(step * STEP) {
            let ones = word.count_ones() as usize;
            if left < ones {
                let mut bits = *word;
                (0..left).for_each(|_| bits &= bits - 1);
                return Some(at * 64 + bits.trailing_zeros() as usize);
            }
            left -= ones;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_events_of_a_set_fit() {
        let events: Vec<usize> = (0..20_000).filter(|at| at % 7 == 3 || at / 640 == 9).collect();
        let mut set = EventSet::default();
        events.iter().for_each(|event| set.push(*event));
        assert_eq!(set.len(), events.len());
        for (rank, event) in events.iter().enumerate() {
            assert_eq!((set.select(rank), set.rank(*event)), (Some(*event), rank));
            assert!(set.has(*event));
        }
        assert_eq!((set.select(events.len()), set.rank(1 << 40)), (None, events.len()));
        assert!(!set.has(0) && !set.has(1 << 40) && EventSet::default().is_empty());
        let mut other = EventSet::default();
        (0..30_000).filter(|at| at % 5 == 1).for_each(|event| other.push(event));
        for both in [set.or(&other), other.or(&set)] {
            let wanted: Vec<usize> = (0..30_000).filter(|at| set.has(*at) || other.has(*at)).collect();
            assert!((0..both.len()).filter_map(|rank| both.select(rank)).eq(wanted.iter().copied()));
            assert_eq!((both.len(), both.rank(12_345)), (wanted.len(), wanted.partition_point(|at| *at < 12_345)));
        }
    }

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
