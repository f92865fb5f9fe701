//! Clock values to times: one map for all threads, from readings of both clocks.

use tracemill_ring::Pair;

/// A map from clock values to `CLOCK_MONOTONIC` in ns: straight lines between readings. It never goes back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    pairs: Vec<Pair>,
}

impl Times {
    /// Adds a reading. One that is not later than the last, in both clocks, is left out.
    pub(crate) fn add(&mut self, pair: Pair) {
        let is_later = |last: &Pair| pair.cycles > last.cycles && pair.monotonic_ns >= last.monotonic_ns;
        if self.pairs.last().is_none_or(is_later) {
            self.pairs.push(pair);
        }
    }

    /// The time of a clock value. Before the first reading and behind the last one the nearest line goes on.
    pub(crate) fn ns(&self, cycles: u64) -> u64 {
        let [first, .., last] = self.pairs.as_slice() else {
            return self.pairs.first().map_or(cycles, |pair| pair.monotonic_ns);
        };
        let after = self.pairs.partition_point(|pair| pair.cycles <= cycles).clamp(1, self.pairs.len() - 1);
        let (a, b) = (&self.pairs[after - 1], &self.pairs[after]);
        // A line between neighbours is too short to be prolonged.
        let (from, to) = if cycles > last.cycles || cycles < first.cycles { (first, last) } else { (a, b) };
        let origin = if cycles > last.cycles { last } else { from };
        let slope = (i128::from(to.monotonic_ns - from.monotonic_ns), i128::from(to.cycles - from.cycles));
        let since = (i128::from(cycles) - i128::from(origin.cycles)) * slope.0 / slope.1;
        u64::try_from(i128::from(origin.monotonic_ns) + since).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_readings_and_never_go_back() {
        let mut times = Times::default();
        for (cycles, monotonic_ns) in [(1_000, 500), (2_000, 1_000), (3_000, 1_600), (2_500, 9_999)] {
            times.add(Pair { cycles, monotonic_ns, realtime_ns: 0 });
        }
        assert_eq!([1_000, 1_500, 2_000, 2_500, 3_000].map(|c| times.ns(c)), [500, 750, 1_000, 1_300, 1_600]);
        assert_eq!([0, 4_000].map(|c| times.ns(c)), [0, 2_150]);
        let all: Vec<u64> = (0..5_000).map(|c| times.ns(c)).collect();
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
