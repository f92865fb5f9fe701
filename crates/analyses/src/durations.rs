//! Statistics of durations: exact sums, and percentiles that are exact as long as that is cheap.

use crate::sums::{Sum192, U256};

/// Durations of a group that are kept one by one: percentiles are exact up to this number.
pub const EXACT_LIMIT: usize = 1_000_000;

/// Parts of an octave in the histogram: the middle of a part is within 1/256 of all values in it.
const PARTS_LOG2: u32 = 7;

/// Count, sum, squares, extremes: what can be added up.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// Number of durations.
    pub count: u64,
    /// Their exact sum in ns.
    pub total_ns: u128,
    /// The shortest in ns; meaningless without any.
    pub min_ns: u64,
    /// The longest in ns.
    pub max_ns: u64,
    squares: Sum192,
}

impl Default for Moments {
    fn default() -> Self {
        Moments { count: 0, total_ns: 0, min_ns: u64::MAX, max_ns: 0, squares: Sum192::default() }
    }
}

impl Moments {
    /// Adds a duration.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.squares.add_product(ns, ns);
    }

    /// Adds all of another group.
    pub fn add_all(&mut self, other: &Moments) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.squares.add(other.squares);
    }

    /// The mean in ns, `None` without durations.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ns as f64 / self.count as f64)
    }

    /// The standard deviation of the population in ns, `None` without durations. Rounded once, at the end.
    pub fn deviation_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.spread().sqrt() / self.count as f64)
    }

    /// `count^2` times the variance.
    pub(crate) fn spread(&self) -> f64 {
        self.squares.times(self.count).minus(U256::product(self.total_ns, self.total_ns))
    }
}

/// The durations of a group.
///
/// ```
/// use tracemill_analyses::durations::Durations;
/// let mut durations = Durations::default();
/// [2, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|ns| durations.add(ns));
/// assert_eq!((durations.moments.mean_ns(), durations.moments.deviation_ns()), (Some(5.0), Some(2.0)));
/// assert_eq!(durations.percentiles_ns(&[50, 90]), [4, 9]);
/// ```
#[derive(Clone, Debug)]
pub struct Durations {
    /// Count, sums and extremes.
    pub moments: Moments,
    values: Values,
}

/// Most durations are below 4.3 s and fit 32 bits.
#[derive(Clone, Debug)]
enum Values {
    Short(Vec<u32>),
    Long(Vec<u64>),
    /// Counts by [`bucket`].
    Histogram(Vec<u64>),
}

impl Values {
    /// Shows each that is kept by itself.
    fn for_each(self, mut take: impl FnMut(u64)) {
        match self {
            Values::Short(values) => values.into_iter().for_each(|ns| take(ns.into())),
            Values::Long(values) => values.into_iter().for_each(take),
            Values::Histogram(_) => {}
        }
    }

    fn into_long(self) -> Vec<u64> {
        match self {
            Values::Long(values) => values,
            values => {
                let mut long = Vec::new();
                values.for_each(|ns| long.push(ns));
                long
            }
        }
    }

    fn into_counts(self) -> Vec<u64> {
        match self {
            Values::Histogram(counts) => counts,
            values => {
                let mut counts = Vec::new();
                values.for_each(|ns| count(&mut counts, ns));
                counts
            }
        }
    }
}

impl Default for Durations {
    fn default() -> Self {
        Durations { moments: Moments::default(), values: Values::Short(Vec::new()) }
    }
}

impl Durations {
    /// Adds a duration.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.moments.add(ns);
        match &mut self.values {
            Values::Short(values) if ns <= u64::from(u32::MAX) && values.len() < EXACT_LIMIT => values.push(ns as u32),
            Values::Long(values) if values.len() < EXACT_LIMIT => values.push(ns),
            Values::Histogram(counts) => count(counts, ns),
            _ => self.grow(ns),
        }
    }

    /// Adds all durations of another group.
    pub fn append(&mut self, other: Durations) {
        self.moments.add_all(&other.moments);
        let is_exact = self.moments.count <= EXACT_LIMIT as u64;
        let own = std::mem::replace(&mut self.values, Values::Short(Vec::new()));
        self.values = match (own, other.values) {
            (Values::Short(own), more) | (more, Values::Short(own)) if own.is_empty() => more,
            (Values::Short(mut own), Values::Short(more)) if is_exact => {
                own.extend_from_slice(&more);
                Values::Short(own)
            }
            (own, more) if is_exact => {
                let mut long = own.into_long();
                more.for_each(|ns| long.push(ns));
                Values::Long(long)
            }
            (own, more) => {
                let mut counts = own.into_counts();
                match more {
                    Values::Histogram(more) => {
                        counts.resize(counts.len().max(more.len()), 0);
                        counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
                    }
                    more => more.for_each(|ns| count(&mut counts, ns)),
                }
                Values::Histogram(counts)
            }
        };
    }

    #[cold]
    fn grow(&mut self, ns: u64) {
        let values = std::mem::replace(&mut self.values, Values::Short(Vec::new()));
        self.values = if self.moments.count <= EXACT_LIMIT as u64 {
            let mut long = values.into_long();
            long.push(ns);
            Values::Long(long)
        } else {
            let mut counts = values.into_counts();
            count(&mut counts, ns);
            Values::Histogram(counts)
        };
    }

    /// Shows the durations, when each of them is kept: then percentiles are exact.
    pub(crate) fn for_each(&self, mut each: impl FnMut(u64)) {
        match &self.values {
            Values::Short(values) => values.iter().for_each(|&ns| each(ns.into())),
            Values::Long(values) => values.iter().for_each(|&ns| each(ns)),
            Values::Histogram(_) => {}
        }
    }

    /// Are percentiles exact? Otherwise they are within 1 %.
    pub fn is_exact(&self) -> bool {
        !matches!(self.values, Values::Histogram(_))
    }

    /// Percentiles by nearest rank, in ns: of `n` durations in their order the one at `ceil(percent / 100 * n)`,
    /// counted from 1. Empty without durations.
    pub fn percentiles_ns(&mut self, percents: &[u32]) -> Vec<u64> {
        let count = self.moments.count;
        if count == 0 {
            return Vec::new();
        }
        let rank = |percent: u32| (u128::from(count) * u128::from(percent)).div_ceil(100).clamp(1, count.into()) as u64;
        let ranks: Vec<u64> = percents.iter().map(|&percent| rank(percent)).collect();
        match &mut self.values {
            Values::Short(values) => select(values, &ranks),
            Values::Long(values) => select(values, &ranks),
            Values::Histogram(counts) => {
                let value = |&rank| at_rank(counts, rank).clamp(self.moments.min_ns, self.moments.max_ns);
                ranks.iter().map(value).collect()
            }
        }
    }
}

/// The values of ranks, which count from 1. Sorting all values would take several times as long.
fn select<T: Copy + Ord + Into<u64>>(values: &mut [T], ranks: &[u64]) -> Vec<u64> {
    let mut in_order: Vec<(usize, usize)> = ranks.iter().map(|&rank| rank as usize - 1).zip(0..).collect();
    in_order.sort_unstable();
    let mut found = vec![0; ranks.len()];
    let mut done = 0;
    for (rank, place) in in_order {
        if rank >= done {
            // The values before those that are done are not larger.
            values[done..].select_nth_unstable(rank - done);
            done = rank + 1;
        }
        found[place] = values[rank].into();
    }
    found
}

#[inline]
fn count(counts: &mut Vec<u64>, ns: u64) {
    let bucket = bucket(ns);
    if counts.len() <= bucket {
        counts.resize(bucket + 1, 0);
    }
    counts[bucket] += 1;
}

/// Values below 2^8 have a bucket each; from there on an octave has 2^7.
fn bucket(ns: u64) -> usize {
    let octave = ns.checked_ilog2().unwrap_or(0);
    let shift = octave.saturating_sub(PARTS_LOG2);
    ((u64::from(shift) << PARTS_LOG2) + (ns >> shift)) as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> PARTS_LOG2).saturating_sub(1);
    let first = (bucket - (shift << PARTS_LOG2)) << shift;
    first + ((1 << shift) - 1) / 2
}

fn at_rank(counts: &[u64], rank: u64) -> u64 {
    let mut seen = 0;
    let found = counts.iter().position(|&count| {
        seen += count;
        seen >= rank
    });
    middle(found.unwrap_or(counts.len().saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_values(values: impl IntoIterator<Item = u64>) -> Durations {
        let mut durations = Durations::default();
        values.into_iter().for_each(|ns| durations.add(ns));
        durations
    }

    #[test]
    fn a_handful_by_hand() {
        // Mean 5, squares of the differences 9 1 1 1 0 0 4 16: 32 / 8 = 4.
        let mut durations = from_values([2, 4, 4, 4, 5, 5, 7, 9]);
        let moments = durations.moments;
        assert_eq!((moments.count, moments.total_ns, moments.min_ns, moments.max_ns), (8, 40, 2, 9));
        assert_eq!((moments.mean_ns(), moments.deviation_ns()), (Some(5.0), Some(2.0)));
        // Ranks 4, 8 (7.2), 8 (7.6), 8 (7.92), 1.
        assert_eq!(durations.percentiles_ns(&[50, 90, 95, 99, 1]), [4, 9, 9, 9, 2]);
        assert!(durations.is_exact());
    }

    #[test]
    fn nothing_and_zeros() {
        let mut none = Durations::default();
        assert_eq!((none.moments.mean_ns(), none.moments.deviation_ns()), (None, None));
        assert!(none.percentiles_ns(&[50]).is_empty());
        let mut zeros = from_values([0, 0, 0]);
        assert_eq!((zeros.moments.mean_ns(), zeros.moments.deviation_ns()), (Some(0.0), Some(0.0)));
        assert_eq!((zeros.moments.min_ns, zeros.moments.max_ns), (0, 0));
        assert_eq!(zeros.percentiles_ns(&[50, 99]), [0, 0]);
    }

    #[test]
    fn huge_and_close_together_is_exact() {
        // In floating point the squares of these differ in no digit.
        let big = u64::MAX - 10;
        let durations = from_values([big, big + 2, big + 4]);
        assert_eq!(durations.moments.total_ns, 3 * u128::from(big) + 6);
        let deviation = durations.moments.deviation_ns().expect("there are durations");
        assert!((deviation - (8.0f64 / 3.0).sqrt()).abs() < 1e-15 * 4.0, "{deviation}");
    }

    #[test]
    fn short_values_grow_long() {
        let mut durations = from_values([7, 1 << 40, 3, u64::MAX]);
        assert_eq!(durations.percentiles_ns(&[25, 50, 75, 100]), [3, 7, 1 << 40, u64::MAX]);
    }

    #[test]
    fn buckets_follow_each_other_within_a_part() {
        let mut values: Vec<u64> = (0..4096).collect();
        values.extend((12..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 3u64 << (bit - 1)]));
        values.push(u64::MAX);
        values.sort_unstable();
        for pair in values.windows(2) {
            assert!(bucket(pair[0]) <= bucket(pair[1]), "{pair:?}");
        }
        for value in values {
            let error = middle(bucket(value)).abs_diff(value);
            assert!(u128::from(error) * 256 <= u128::from(value), "{value}: {}", middle(bucket(value)));
            assert!(value >= 256 || error == 0);
        }
    }

    #[test]
    fn above_the_limit_percentiles_are_within_a_percent() {
        // A walk through all residues: 0..n in a scattered order, times 1000.
        let n = EXACT_LIMIT as u64;
        let scattered = |n: u64| (0..n).map(move |at| (at * 7919) % n * 1000);
        let mut exact = from_values(scattered(n));
        assert!(exact.is_exact());
        assert_eq!(exact.percentiles_ns(&[50, 99]), [499_999_000, 989_999_000]);
        let mut above = from_values(scattered(n).chain([5_000_000_000]));
        assert!(!above.is_exact());
        let got = above.percentiles_ns(&[1, 50, 90, 99, 100]);
        for (got, want) in got.into_iter().zip([10_000_000u64, 500_000_000, 900_000_000, 990_000_000, 5_000_000_000]) {
            assert!(got.abs_diff(want) * 100 <= want, "{got} for {want}");
        }
        // Sums stay exact.
        assert_eq!(above.moments.total_ns, u128::from((n - 1) * n / 2 * 1000 + 5_000_000_000));
        assert_eq!(above.moments.max_ns, 5_000_000_000);
    }

    #[test]
    fn groups_are_put_together() {
        let n = EXACT_LIMIT as u64;
        for (a, b) in [(2, 3), (n + 1, 5), (5, n + 1), (n + 1, n + 2), (n - 1, 1)] {
            let (mut sum, mut all) = (from_values(0..a), from_values((0..a).chain(100..100 + b)));
            sum.append(from_values(100..100 + b));
            assert_eq!(sum.moments.count, a + b);
            assert_eq!(sum.moments.deviation_ns(), all.moments.deviation_ns());
            assert_eq!(sum.percentiles_ns(&[1, 50, 99]), all.percentiles_ns(&[1, 50, 99]), "{a} {b}");
        }
    }

    #[test]
    fn sums_of_groups_are_those_of_all() {
        let (a, b, all) = (from_values([1, 5]), from_values([9]), from_values([1, 5, 9]));
        let mut sum = a.moments;
        sum.add_all(&b.moments);
        assert_eq!((sum.count, sum.deviation_ns(), sum.max_ns), (3, all.moments.deviation_ns(), 9));
    }
}
