//! How values are spread, in memory that does not grow with their number.

use std::collections::BTreeMap;

/// Bits of a floating point number below those by which values are told apart: its sign, its exponent, and the first 7 of
/// the 52 bits after the point are left, so there are 128 classes from each power of two to the next.
const DROPPED_BITS: u32 = 45;

/// Values, counted in classes that are at most 0.8 % wide; integers from -256 to 256 have a class each.
///
/// ```
/// use tracemill_analyses::diff::ValueSpread;
/// let mut spread = ValueSpread::default();
/// (1..=100).for_each(|value| spread.add(value.into()));
/// assert_eq!((spread.percentile(50), spread.percentile(99), spread.mean()), (Some(50.0), Some(99.0), Some(50.5)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueSpread {
    classes: BTreeMap<i64, u64>,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl ValueSpread {
    /// Adds a value. What is not a number is left out.
    #[inline]
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        let is_first = self.count == 0;
        self.min = if is_first { value } else { self.min.min(value) };
        self.max = if is_first { value } else { self.max.max(value) };
        self.count += 1;
        self.sum += value;
        *self.classes.entry(class(value)).or_insert(0) += 1;
    }

    /// Adds the values of another spread.
    pub fn append(&mut self, other: &ValueSpread) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            return self.clone_from(other);
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        for (class, count) in &other.classes {
            *self.classes.entry(*class).or_insert(0) += count;
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Their mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The smallest and the largest one; `None` without values.
    pub fn extremes(&self) -> Option<(f64, f64)> {
        (self.count > 0).then_some((self.min, self.max))
    }

    /// A percentile by nearest rank, at most 0.8 % too near to zero; `None` without values.
    pub fn percentile(&self, hundredths: u64) -> Option<f64> {
        let rank = (u128::from(self.count) * u128::from(hundredths)).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.classes.iter().find(|&(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        });
        found.map(|(class, _)| edge(*class).clamp(self.min, self.max))
    }

    /// The largest difference between the shares of both that are not above a value, over all values: the statistic of
    /// Kolmogorov and Smirnov. `None` when one has no values.
    pub fn distance(&self, other: &ValueSpread) -> Option<f64> {
        if self.count == 0 || other.count == 0 {
            return None;
        }
        let (mut a, mut b) = (self.classes.iter().peekable(), other.classes.iter().peekable());
        let (mut below_a, mut below_b, mut largest) = (0u128, 0u128, 0u128);
        let (all_a, all_b) = (u128::from(self.count), u128::from(other.count));
        loop {
            let next = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some((one, _)), Some((two, _))) => **one.min(two),
                (Some((one, _)), None) | (None, Some((one, _))) => **one,
            };
            while let Some((_, count)) = a.next_if(|(class, _)| **class == next) {
                below_a += u128::from(*count);
            }
            while let Some((_, count)) = b.next_if(|(class, _)| **class == next) {
                below_b += u128::from(*count);
            }
            largest = largest.max((below_a * all_b).abs_diff(below_b * all_a));
        }
        Some(largest as f64 / (all_a * all_b) as f64)
    }
}

/// The class of a value. Classes are in the order of their values.
fn class(value: f64) -> i64 {
    let class = (value.abs().to_bits() >> DROPPED_BITS) as i64;
    if value < 0.0 { -class } else { class }
}

/// The value of a class that is nearest to zero.
fn edge(class: i64) -> f64 {
    let value = f64::from_bits(class.unsigned_abs() << DROPPED_BITS);
    if class < 0 { -value } else { value }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The spread of some values.
    pub(in crate::diff) fn spread(values: impl IntoIterator<Item = f64>) -> ValueSpread {
        let mut spread = ValueSpread::default();
        values.into_iter().for_each(|value| spread.add(value));
        spread
    }

    #[test]
    fn classes_are_narrow_and_in_order() {
        let sizes = (-40..60).flat_map(|power| [1.0, 1.1, 1.99].map(|part| part * 2f64.powi(power)));
        let mut values: Vec<f64> = sizes.flat_map(|size| [size, -size]).chain((-256..=256).map(f64::from)).collect();
        values.push(f64::INFINITY);
        values.sort_by(f64::total_cmp);
        let mut last = i64::MIN;
        for value in values {
            let own = class(value);
            assert!(last <= own, "{value}");
            last = own;
            let edge = edge(own);
            assert!(edge == value || (value - edge).abs() <= value.abs() * 0.0079, "{value}: {edge}");
            assert!(value.fract() != 0.0 || value.abs() > 256.0 || edge == value, "{value}: {edge}");
        }
        assert_eq!((class(0.0), class(-0.0)), (0, 0));
    }

    #[test]
    fn sums_and_percentiles() {
        let none = ValueSpread::default();
        assert_eq!((none.mean(), none.percentile(50), none.extremes(), none.count()), (None, None, None, 0));
        // In order: -4, -2, 2, 8.
        let few = spread([2.0, -4.0, f64::NAN, 8.0, -2.0]);
        assert_eq!((few.count(), few.sum(), few.mean(), few.extremes()), (4, 4.0, Some(1.0), Some((-4.0, 8.0))));
        assert_eq!([25, 50, 75, 99].map(|at| few.percentile(at)), [-4.0, -2.0, 2.0, 8.0].map(Some));
        // A class begins at 1000, and the next one at 1004.
        assert_eq!(spread([1003.0]).percentile(50), Some(1003.0));
        assert_eq!(spread([1000.0, 1003.0, 2000.0]).percentile(50), Some(1000.0));
    }

    #[test]
    fn spreads_add_up() {
        let (a, b) = (spread([3.0, -1.0]), spread([3.0, 700.0]));
        let mut both = a.clone();
        both.append(&b);
        assert_eq!(both, spread([3.0, -1.0, 3.0, 700.0]));
        both.append(&ValueSpread::default());
        let mut none = ValueSpread::default();
        none.append(&both);
        assert_eq!((none.count(), none.extremes()), (4, Some((-1.0, 700.0))));
    }

    #[test]
    fn distances_by_hand() {
        // Up to 1: 1/2 and 0; up to 2: 1/2 and 1/3; up to 3: 1 and 1/3; up to 5: 1 and 1.
        let (a, b) = (spread([1.0, 3.0]), spread([2.0, 5.0, 5.0]));
        assert_eq!(a.distance(&b), Some(4.0 / 6.0));
        assert_eq!(b.distance(&a), Some(4.0 / 6.0));
        assert_eq!(a.distance(&a), Some(0.0));
        assert_eq!(spread([-1.0, -1.0]).distance(&spread([1.0])), Some(1.0));
        assert_eq!(a.distance(&ValueSpread::default()), None);
    }
}
