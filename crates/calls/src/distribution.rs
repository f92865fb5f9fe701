//! How durations are spread: counted in classes that are at most 1 % wide, so that any number of them fits.

use std::collections::BTreeMap;

/// Durations by their size.
///
/// ```
/// use tracemill_calls::distribution::Distribution;
/// let mut durations = Distribution::default();
/// (1..=100).for_each(|ns| durations.add(ns));
/// assert_eq!((durations.percentile(50), durations.percentile(99)), (50, 99));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Durations in each class that has some.
    classes: BTreeMap<u16, u64>,
    count: u64,
}

/// Bits of a duration that its class keeps: 128 classes from each power of two to the next.
const BITS: u32 = 7;

impl Distribution {
    /// Adds a duration.
    pub fn add(&mut self, ns: u64) {
        *self.classes.entry(class(ns)).or_insert(0) += 1;
        self.count += 1;
    }

    /// Adds those of another one.
    pub fn append(&mut self, other: &Distribution) {
        for (&class, count) in &other.classes {
            *self.classes.entry(class).or_insert(0) += count;
        }
        self.count += other.count;
    }

    /// The duration that this part of all is not longer than, in hundredths: the smallest one that at least so many
    /// reach. Durations below 256 ns are exact, others at most 1 % too small. 0 without durations.
    pub fn percentile(&self, hundredths: u64) -> u64 {
        // The rank is rounded up, in numbers that cannot overflow.
        let rank = (u128::from(self.count) * u128::from(hundredths)).div_ceil(100).max(1);
        let mut seen = 0;
        for (&class, &count) in &self.classes {
            seen += u128::from(count);
            if seen >= rank {
                return smallest(class);
            }
        }
        0
    }

    /// How many durations there are from each power of two to the next, from the first to the last that has some: its
    /// first duration (0 for the first power) and the number.
    pub fn powers(&self) -> Vec<(u64, u64)> {
        let mut powers: Vec<(u32, u64)> = Vec::new();
        for (&class, &count) in &self.classes {
            let power = smallest(class).checked_ilog2().unwrap_or(0);
            let next = powers.last().map_or(power, |&(last, _)| last + 1);
            powers.extend((next..=power).map(|power| (power, 0)));
            if let Some(last) = powers.last_mut() {
                last.1 += count;
            }
        }
        powers.into_iter().map(|(power, count)| (if power == 0 { 0 } else { 1 << power }, count)).collect()
    }
}

/// Small durations are their own class; others keep their highest bits.
fn class(ns: u64) -> u16 {
    let power = ns.checked_ilog2().unwrap_or(0);
    let shift = power.saturating_sub(BITS);
    (u64::from(shift << BITS) + (ns >> shift)) as u16
}

/// The smallest duration of a class.
fn smallest(class: u16) -> u64 {
    let class = u64::from(class);
    let shift = (class >> BITS).saturating_sub(1);
    (class - (shift << BITS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_narrow_and_in_order() {
        let larger = (17..57).map(|shift| (1u64 << shift) + (1 << shift >> 3)).chain([u64::MAX]);
        let mut last = 0;
        for ns in (0..100_000).chain(larger) {
            let class = class(ns);
            let low = smallest(class);
            assert!(low <= ns && (ns - low) as f64 <= ns as f64 * 0.008, "{ns}: {low}");
            assert_eq!(super::class(low), class);
            assert!(last <= class, "{ns}");
            last = class;
        }
    }

    #[test]
    fn percentiles_are_ranks() {
        let mut all = Distribution::default();
        assert_eq!(all.percentile(50), 0);
        (1..=100).for_each(|ns| all.add(ns));
        assert_eq!(
            (all.percentile(50), all.percentile(90), all.percentile(99), all.percentile(100)),
            (50, 90, 99, 100)
        );
        all.add(1_000_000);
        assert!((992_000..=1_000_000).contains(&all.percentile(100)));
    }

    #[test]
    fn powers_have_no_holes() {
        let mut all = Distribution::default();
        [0, 1, 3, 17, 18].into_iter().for_each(|ns| all.add(ns));
        assert_eq!(all.powers(), [(0, 2), (2, 1), (4, 0), (8, 0), (16, 2)]);
    }
}
