//! Times and kinds of all events, in their order.

use std::io;

use crate::store::{Reader, Writer};

/// Events of a block.
pub(crate) const BLOCK: usize = 256;

/// Times and kinds of events, by their number. Times are ns since the origin.
#[derive(Default)]
pub(crate) struct Columns {
    blocks: Vec<Block>,
    /// The block that is being filled.
    open: (Vec<i64>, Vec<u32>),
    len: usize,
}

struct Block {
    /// The smallest time in it.
    base: i64,
    times: Times,
    kinds: Kinds,
    /// The smallest and largest time; `None` without any.
    range: Option<(i64, i64)>,
}

enum Times {
    /// Added to the base; the largest number stands for no time.
    Short(Box<[u16]>),
    /// As [`Short`](Self::Short), in 32 bits.
    Narrow(Box<[u32]>),
    Wide(Box<[i64]>),
}

enum Kinds {
    Short(Box<[u8]>),
    Narrow(Box<[u16]>),
    Wide(Box<[u32]>),
}

/// Stands for no time.
pub(crate) const UNTIMED: i64 = i64::MIN;

impl Block {
    fn new(times: &[i64], kinds: &[u32]) -> Block {
        let timed = || times.iter().copied().filter(|time| *time != UNTIMED);
        let range = timed().min().zip(timed().max());
        let base = range.map_or(0, |(first, _)| first);
        let length = range.map_or(0, |(first, last)| last.abs_diff(first));
        let short = |time: &i64| if *time == UNTIMED { u16::MAX } else { (time - base) as u16 };
        let narrow = |time: &i64| if *time == UNTIMED { u32::MAX } else { (time - base) as u32 };
        let times = match length {
            _ if length < u64::from(u16::MAX) => Times::Short(times.iter().map(short).collect()),
            _ if length < u64::from(u32::MAX) => Times::Narrow(times.iter().map(narrow).collect()),
            _ => Times::Wide(times.into()),
        };
        let kinds = match kinds.iter().max().copied().unwrap_or(0) {
            0..0x100 => Kinds::Short(kinds.iter().map(|kind| *kind as u8).collect()),
            0x100..0x1_0000 => Kinds::Narrow(kinds.iter().map(|kind| *kind as u16).collect()),
            _ => Kinds::Wide(kinds.into()),
        };
        Block { base, times, kinds, range }
    }

    fn time(&self, at: usize) -> i64 {
        match &self.times {
            Times::Short(times) => match times[at] {
                u16::MAX => UNTIMED,
                more => self.base + i64::from(more),
            },
            Times::Narrow(times) => match times[at] {
                u32::MAX => UNTIMED,
                more => self.base + i64::from(more),
            },
            Times::Wide(times) => times[at],
        }
    }

    fn kind(&self, at: usize) -> u32 {
        match &self.kinds {
            Kinds::Short(kinds) => kinds[at].into(),
            Kinds::Narrow(kinds) => kinds[at].into(),
            Kinds::Wide(kinds) => kinds[at],
        }
    }

    fn len(&self) -> usize {
        match &self.times {
            Times::Short(times) => times.len(),
            Times::Narrow(times) => times.len(),
            Times::Wide(times) => times.len(),
        }
    }
}

impl Columns {
    pub(crate) fn push(&mut self, time: Option<i64>, kind: u32) {
        self.open.0.push(time.unwrap_or(UNTIMED));
        self.open.1.push(kind);
        self.len += 1;
        if self.open.0.len() == BLOCK {
            self.seal();
        }
    }

    /// Ends the last block.
    pub(crate) fn seal(&mut self) {
        if !self.open.0.is_empty() {
            self.blocks.push(Block::new(&self.open.0, &self.open.1));
            self.open.0.clear();
            self.open.1.clear();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn time(&self, at: usize) -> Option<i64> {
        Some(self.blocks.get(at / BLOCK)?.time(at % BLOCK)).filter(|time| *time != UNTIMED)
    }

    pub(crate) fn kind(&self, at: usize) -> Option<u32> {
        let block = self.blocks.get(at / BLOCK)?;
        (at % BLOCK < block.len()).then(|| block.kind(at % BLOCK))
    }

    /// Shows number, time and kind of each event whose time is in a range, both ends included, in order. Without a range,
    /// of all events, with [`UNTIMED`] for those without time.
    pub(crate) fn for_each(&self, range: Option<(i64, i64)>, mut each: impl FnMut(usize, i64, u32)) {
        for (number, block) in self.blocks.iter().enumerate() {
            let is_outside =
                |(begin, end): (i64, i64)| block.range.is_none_or(|(first, last)| last < begin || end < first);
            if range.is_some_and(is_outside) {
                continue;
            }
            for at in 0..block.len() {
                let time = block.time(at);
                if range.is_none_or(|(begin, end)| time != UNTIMED && begin <= time && time <= end) {
                    each(number * BLOCK + at, time, block.kind(at));
                }
            }
        }
    }

    /// The number of the first event that has a time, and one that is not before this one.
    pub(crate) fn first_from(&self, time: i64) -> Option<usize> {
        for (number, block) in self.blocks.iter().enumerate() {
            if block.range.is_some_and(|(_, last)| last >= time) {
                let own = |at: &usize| block.time(*at) != UNTIMED && block.time(*at) >= time;
                return (0..block.len()).find(own).map(|at| number * BLOCK + at);
            }
        }
        None
    }
}

/// How a [`Times`] or a [`Kinds`] is stored: bytes of a number.
const WIDTHS: [usize; 4] = [1, 2, 4, 8];

impl Columns {
    pub(crate) fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.size(self.blocks.len());
        for Block { base, times, kinds, range } in &self.blocks {
            let last = range.map(|(_, last)| last);
            to.plain(&[u8::from(last.is_some())])?;
            to.plain(&base.to_le_bytes())?;
            to.plain(&last.unwrap_or_default().to_le_bytes())?;
            let (width, times) = match times {
                Times::Short(times) => (2, times.iter().flat_map(|time| time.to_le_bytes()).collect::<Vec<u8>>()),
                Times::Narrow(times) => (4, times.iter().flat_map(|time| time.to_le_bytes()).collect()),
                Times::Wide(times) => (8, times.iter().flat_map(|time| time.to_le_bytes()).collect()),
            };
            to.plain(&[(times.len() / width - 1) as u8, width as u8])?;
            to.plain(&times)?;
            let (width, kinds) = match kinds {
                Kinds::Short(kinds) => (1, kinds.to_vec()),
                Kinds::Narrow(kinds) => (2, kinds.iter().flat_map(|kind| kind.to_le_bytes()).collect()),
                Kinds::Wide(kinds) => (4, kinds.iter().flat_map(|kind| kind.to_le_bytes()).collect()),
            };
            to.plain(&[width])?;
            to.plain(&kinds)?;
        }
        Ok(())
    }

    /// Reads what was written; all kinds are below `kinds`.
    pub(crate) fn read(from: &mut Reader<'_>, kinds: usize) -> Option<Columns> {
        let mut columns = Columns::default();
        let count = from.count()?;
        for number in 0..count {
            let block = Block::read(from, kinds)?;
            // Events are found by their block: all are full but the last one.
            if block.len() != BLOCK && number + 1 < count {
                return None;
            }
            columns.len += block.len();
            columns.blocks.push(block);
        }
        Some(columns)
    }
}

impl Block {
    fn read(from: &mut Reader<'_>, kinds: usize) -> Option<Block> {
        let [is_timed] = from.plain()?;
        let (base, last) = (i64::from_le_bytes(from.plain()?), i64::from_le_bytes(from.plain()?));
        let [last_number, width] = from.plain()?;
        let (len, width) = (usize::from(last_number) + 1, usize::from(width));
        if !WIDTHS.contains(&width) || last < base && is_timed == 1 || base.checked_add(u32::MAX.into()).is_none() {
            return None;
        }
        let bytes = from.many(len * width)?;
        let times = match width {
            2 => Times::Short(bytes.chunks_exact(2).map(|time| little(time) as u16).collect()),
            4 => Times::Narrow(bytes.chunks_exact(4).map(|time| little(time) as u32).collect()),
            8 => Times::Wide(bytes.chunks_exact(8).map(|time| little(time) as i64).collect()),
            _ => return None,
        };
        let [width] = from.plain()?;
        let width = usize::from(width);
        let bytes = from.many(len * WIDTHS.contains(&width).then_some(width)?)?;
        let numbers = || bytes.chunks_exact(width).map(little);
        if numbers().any(|kind| kind >= kinds as u64) {
            return None;
        }
        let kinds = match width {
            1 => Kinds::Short(bytes.into()),
            2 => Kinds::Narrow(numbers().map(|kind| kind as u16).collect()),
            4 => Kinds::Wide(numbers().map(|kind| kind as u32).collect()),
            _ => return None,
        };
        Some(Block { base, times, kinds, range: (is_timed == 1).then_some((base, last)) })
    }
}

/// A number of up to eight bytes, the lowest first.
fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
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
    }

    #[test]
    fn columns_give_back_what_was_put() {
        let mut columns = Columns::default();
        let time = |at: usize| match at {
            5000 => None,
            at if at > 9000 => Some(at as i64 * 10_000_000_000),
            at if at > 7000 => Some(at as i64 * 1000),
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
        columns.for_each(Some((4899, 4902)), |at, time, _| found.push((at, time)));
        assert_eq!(found, [(4999, 4899), (5001, 4901), (5002, 4902)]);
        assert_eq!((columns.first_from(4900), columns.first_from(i64::MAX)), (Some(5001), None));
    }
}
