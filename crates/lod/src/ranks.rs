//! Exact percentiles of many numbers in little memory: the numbers are shown twice.
//!
//! The first time they are counted in buckets a sixteenth wide of what they are themselves; that shows in which bucket the
//! number of each wanted rank is. The second time the numbers of these buckets are counted one by one.

use std::collections::BTreeMap;

/// Numbers that were shown once.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ranks {
    /// By bucket; of numbers below 0, whose buckets begin at -1, in the other.
    counts: [Vec<u64>; 2],
    count: u64,
    sum: i128,
    ends: Option<(i64, i64)>,
    /// Numbers of wanted buckets, that were shown twice.
    again: BTreeMap<(bool, usize), BTreeMap<i64, u64>>,
}

/// The bucket of a number, and whether it is one of those below 0.
fn place(number: i64) -> (bool, usize) {
    let (is_below, size) = (number < 0, if number < 0 { !number } else { number } as u64);
    let bucket = match size.checked_ilog2() {
        Some(log) if log >= 4 => (log as usize - 3) * 16 + (size >> (log - 4) & 15) as usize,
        _ => size as usize,
    };
    (is_below, bucket)
}

impl Ranks {
    /// Shows a number the first time.
    #[inline]
    pub(crate) fn add(&mut self, number: i64) {
        let (is_below, bucket) = place(number);
        let counts = &mut self.counts[usize::from(is_below)];
        if counts.len() <= bucket {
            counts.resize(bucket + 1, 0);
        }
        counts[bucket] += 1;
        self.count += 1;
        self.sum += i128::from(number);
        self.ends = Some(self.ends.map_or((number, number), |(min, max)| (min.min(number), max.max(number))));
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The smallest and the largest number.
    pub(crate) fn ends(&self) -> Option<(i64, i64)> {
        self.ends
    }

    /// The mean, cut to whole numbers.
    pub(crate) fn mean(&self) -> Option<i64> {
        (self.count > 0).then(|| (self.sum / i128::from(self.count)) as i64)
    }

    /// The bucket of the number that p of 100 do not exceed, and how many of the bucket it does not exceed.
    fn bucket(&self, p: u64) -> Option<((bool, usize), u64)> {
        let mut left = (u128::from(p) * u128::from(self.count)).div_ceil(100).max(1) as u64;
        let below = self.counts[1].iter().enumerate().rev().map(|(bucket, count)| ((true, bucket), count));
        let rest = self.counts[0].iter().enumerate().map(|(bucket, count)| ((false, bucket), count));
        for (place, count) in below.chain(rest) {
            if *count >= left {
                return Some((place, left));
            }
            left -= count;
        }
        None
    }

    /// Says of which percentiles the numbers are wanted, before all numbers are shown again.
    pub(crate) fn want(&mut self, percentiles: &[u64]) {
        for p in percentiles {
            self.bucket(*p).into_iter().for_each(|(place, _)| drop(self.again.insert(place, BTreeMap::new())));
        }
    }

    /// Shows a number again.
    #[inline]
    pub(crate) fn add_again(&mut self, number: i64) {
        if let Some(numbers) = self.again.get_mut(&place(number)) {
            *numbers.entry(number).or_default() += 1;
        }
    }

    /// The number that p of 100 do not exceed, when it was wanted.
    pub(crate) fn percentile(&self, p: u64) -> Option<i64> {
        let (place, mut left) = self.bucket(p)?;
        for (number, count) in self.again.get(&place)? {
            if *count >= left {
                return Some(*number);
            }
            left -= count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_sorted_numbers() {
        let mut state = 11u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        };
        for round in 0..60u32 {
            let count = (next() >> 40) % 700 + 1;
            let shift = round % 60;
            let number = |bits: u64| (bits as i64) >> shift;
            let mut numbers: Vec<i64> = (0..count).map(|_| number(next())).collect();
            numbers.extend([0, 15, 16, 31, 32, i64::MAX, i64::MIN, -1].iter().filter(|_| round % 2 == 0));
            let mut ranks = Ranks::default();
            numbers.iter().for_each(|number| ranks.add(*number));
            ranks.want(&[50, 90, 99, 1, 100]);
            numbers.iter().for_each(|number| ranks.add_again(*number));
            numbers.sort_unstable();
            for p in [1, 50, 90, 99, 100] {
                let at = (p as usize * numbers.len()).div_ceil(100).max(1) - 1;
                assert_eq!(ranks.percentile(p), Some(numbers[at]), "round {round}, {p} of 100");
            }
            assert_eq!(ranks.ends(), numbers.first().copied().zip(numbers.last().copied()));
            let sum: i128 = numbers.iter().map(|number| i128::from(*number)).sum();
            assert_eq!(ranks.mean(), Some((sum / numbers.len() as i128) as i64));
            assert_eq!(ranks.count(), numbers.len() as u64);
        }
        assert_eq!((Ranks::default().percentile(50), Ranks::default().mean()), (None, None));
    }
}
