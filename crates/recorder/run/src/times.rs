//! Clock values to times: one map for all threads, from readings of both clocks.

use std::ops::Range;

use tracemill_ring::Pair;

/// A map from clock values to `CLOCK_MONOTONIC` in ns: straight lines between readings. It never goes back.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockMapping {
    pairs: Vec<Pair>,
}

impl ClockMapping {
    /// Adds a reading. One that is not later than the last, in both clocks, is left out.
    pub(crate) fn add(&mut self, pair: Pair) {
        let is_later = |last: &Pair| pair.cycles > last.cycles && pair.monotonic_ns >= last.monotonic_ns;
        if self.pairs.last().is_none_or(is_later) {
            self.pairs.push(pair);
        }
    }

    /// The time of a clock value. Before the first reading and after the last one the nearest line goes on.
    #[cfg(test)]
    fn ns(&self, cycles: u64) -> u64 {
        self.line(cycles).ns(cycles)
    }

    /// The line that gives the time of a clock value.
    pub(crate) fn line(&self, cycles: u64) -> ClockLine {
        let [first, .., last] = self.pairs.as_slice() else {
            let (base, slope) = self.pairs.first().map_or((0, 1 << FRACTION), |only| (only.monotonic_ns as i64, 0));
            return ClockLine { cycles: 0..u64::MAX, base, slope };
        };
        // A line between neighbours is too short to be prolonged.
        if cycles >= last.cycles {
            return ClockLine::new(last.cycles..u64::MAX, last.monotonic_ns, first, last);
        }
        if cycles < first.cycles {
            let line = ClockLine::new(0..first.cycles, 0, first, last);
            return ClockLine { base: first.monotonic_ns as i64 - line.ns(first.cycles) as i64, ..line };
        }
        let after = self.pairs.partition_point(|pair| pair.cycles <= cycles).clamp(1, self.pairs.len() - 1);
        let (a, b) = (&self.pairs[after - 1], &self.pairs[after]);
        ClockLine::new(a.cycles..b.cycles, a.monotonic_ns, a, b)
    }
}

/// A part of the map: a straight line.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockLine {
    /// The clock values that it is for.
    pub(crate) cycles: Range<u64>,
    /// Time of the first one.
    base: i64,
    /// 2^48 ns a count, rounded up, so that whole ns stay whole: a day of 3 GHz is wrong by less than one.
    slope: u64,
}

/// Bits of [`ClockLine::slope`] after the point.
const FRACTION: u32 = 48;

impl ClockLine {
    fn new(cycles: Range<u64>, base: u64, from: &Pair, to: &Pair) -> ClockLine {
        let (ns, counts) = (u128::from(to.monotonic_ns - from.monotonic_ns), u128::from(to.cycles - from.cycles));
        let slope = (ns << FRACTION).div_ceil(counts.max(1));
        ClockLine { cycles, base: base as i64, slope: u64::try_from(slope).unwrap_or(u64::MAX) }
    }

    /// The time of one of its clock values.
    #[inline(always)]
    pub(crate) fn ns(&self, cycles: u64) -> u64 {
        let since = (u128::from(cycles - self.cycles.start) * u128::from(self.slope)) >> FRACTION;
        // Before the first reading it may be negative.
        self.base.wrapping_add(since as i64).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_readings_and_never_go_back() {
        let mut times = ClockMapping::default();
        for (cycles, monotonic_ns) in [(1_000, 500), (2_000, 1_000), (3_000, 1_600), (2_500, 9_999)] {
            times.add(Pair { cycles, monotonic_ns, realtime_ns: 0 });
        }
        assert_eq!([1_000, 1_500, 2_000, 2_500, 3_000].map(|c| times.ns(c)), [500, 750, 1_000, 1_300, 1_600]);
        assert_eq!([0, 4_000].map(|c| times.ns(c)), [0, 2_150]);
        let all: Vec<u64> = (0..5_000).map(|c| times.ns(c)).collect();
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
