//! Times and kinds of some events, as bytes.

use tracemill_codec::bits::{put_leb, take_leb};

/// Events of a block.
pub(crate) const BLOCK: usize = 512;

/// A set of kinds, in which those are not told apart that are 64 apart.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct KindMask(pub(crate) u64);

impl KindMask {
    pub(crate) fn from_kinds(kinds: impl Iterator<Item = u32>) -> KindMask {
        KindMask(kinds.fold(0, |mask, kind| mask | 1 << (kind % 64)))
    }

    pub(crate) fn meets(self, other: KindMask) -> bool {
        self.0 & other.0 != 0
    }
}

/// Stands for no time.
pub(crate) const UNTIMED: i64 = i64::MIN;

/// The smallest and the largest time of some; the other way round without any.
pub(crate) fn ends(times: &[i64]) -> (i64, i64) {
    let timed = || times.iter().copied().filter(|time| *time != UNTIMED);
    timed().min().zip(timed().max()).unwrap_or((i64::MAX, i64::MIN))
}

/// The events of a block.
#[derive(Default)]
pub(crate) struct Decoded {
    pub(crate) times: Vec<i64>,
    pub(crate) kinds: Vec<u32>,
}

/// Set in the width of kinds when some events have no time: then a bit for each event says so.
const SOME_UNTIMED: u8 = 0x80;

/// Appends a block: the number of its events, the width of its kinds, these, and the distance of each time from the one before.
pub(crate) fn encode(times: &[i64], kinds: &[u32], out: &mut Vec<u8>) {
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
    for time in times.iter().copied().filter(|time| *time != UNTIMED) {
        let step = time.wrapping_sub(last);
        // Steps back have odd numbers.
        put_leb(out, ((step << 1) ^ (step >> 63)) as u64, false);
        last = time;
    }
}

impl Decoded {
    /// Takes a block apart; `None` when the bytes are none.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> Option<()> {
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

/// A number of up to four bytes, the lowest first.
fn little(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_block_are_none() {
        let (times, kinds): (Vec<i64>, Vec<u32>) = (0..40).map(|at| (at * 300 - (at % 3) * 500, at as u32 % 5)).unzip();
        let mut bytes = Vec::new();
        encode(&times, &kinds, &mut bytes);
        let mut block = Decoded::default();
        assert_eq!(block.fill(&bytes), Some(()));
        assert_eq!((&block.times, &block.kinds), (&times, &kinds));
        for at in 0..bytes.len() {
            assert!(block.fill(&bytes[..at]).is_none() || at > 40, "{at}");
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let _ = block.fill(&other);
            }
        }
        assert!(block.fill(&[bytes, vec![0]].concat()).is_none());
    }
}
