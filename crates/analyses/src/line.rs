//! Linear regression of durations over their number: does a call take longer the more calls there were?

use crate::durations::Moments;
use crate::sums::{Sum192, U256};

/// Sums of durations times their index, from 0.
///
/// ```
/// use tracemill_analyses::{durations::Moments, line::Line};
/// let (mut line, mut moments) = (Line::default(), Moments::default());
/// for (index, ns) in [100, 130, 160].into_iter().enumerate() {
///     line.add(index as u64, ns);
///     moments.add(ns);
/// }
/// assert_eq!(line.fit(&moments).map(|fit| (fit.offset_ns, fit.slope_ns)), Some((100.0, 30.0)));
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct Line {
    products: Sum192,
}

/// The line `duration = offset + slope * index`, by least squares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fit {
    /// Duration at index 0, in ns.
    pub offset_ns: f64,
    /// Growth of each duration over the one before, in ns.
    pub slope_ns: f64,
    /// Pearson's coefficient of correlation, `None` when all durations are equal.
    pub r: Option<f64>,
}

impl Line {
    /// Adds the duration that comes after `index` others.
    #[inline]
    pub fn add(&mut self, index: u64, ns: u64) {
        self.products.add_product(index, ns);
    }

    /// The line through the durations that `moments` are of, `None` for less than two. All sums are exact.
    pub fn fit(&self, moments: &Moments) -> Option<Fit> {
        let count = moments.count;
        if count < 2 {
            return None;
        }
        // The indexes 0, 1, ... n-1: n times the sum of squares - the square of the sum = n^2 (n^2 - 1) / 12.
        let n = count as f64;
        let index_sum = u128::from(count) * u128::from(count - 1) / 2;
        let index_spread = n * n * ((n - 1.0) * (n + 1.0)) / 12.0;
        let common = self.products.times(count).minus(U256::product(index_sum, moments.total_ns));
        let slope_ns = common / index_spread;
        let mean = moments.total_ns as f64 / n;
        let spread = moments.spread();
        let r = (spread > 0.0).then(|| (common / (index_spread * spread).sqrt()).clamp(-1.0, 1.0));
        Some(Fit { offset_ns: mean - slope_ns * (n - 1.0) / 2.0, slope_ns, r })
    }
}

impl Fit {
    /// Predicted total of `count` durations, in ns.
    pub fn predict_ns(&self, count: u64) -> f64 {
        let n = count as f64;
        n * (self.offset_ns + self.slope_ns * (n - 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(values: &[u64]) -> Option<Fit> {
        let (mut line, mut moments) = (Line::default(), Moments::default());
        for (index, &ns) in values.iter().enumerate() {
            line.add(index as u64, ns);
            moments.add(ns);
        }
        line.fit(&moments)
    }

    #[test]
    fn a_straight_line_is_found() {
        let line = fit(&[100, 130, 160, 190]).expect("a line");
        assert_eq!(line, Fit { offset_ns: 100.0, slope_ns: 30.0, r: Some(1.0) });
        // 100 + 130 + 160 + 190, and 10 calls: 10 * (100 + 30 * 4.5).
        assert_eq!((line.predict_ns(4), line.predict_ns(10)), (580.0, 2350.0));
        assert_eq!(fit(&[30, 20, 10]).expect("a line").slope_ns, -10.0);
    }

    #[test]
    fn scattered_by_hand() {
        // x 0 1 2 3, y 2 1 4 5: mean 1.5 and 3; sum of products of the differences 6, of squares 5 and 10.
        let line = fit(&[2, 1, 4, 5]).expect("a line");
        assert!((line.slope_ns - 1.2).abs() < 1e-12 && (line.offset_ns - 1.2).abs() < 1e-12);
        assert!((line.r.expect("not flat") - 6.0 / 50f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn flat_and_too_few() {
        assert_eq!(fit(&[7, 7, 7]), Some(Fit { offset_ns: 7.0, slope_ns: 0.0, r: None }));
        assert_eq!(fit(&[7]), None);
        assert_eq!(fit(&[]), None);
    }

    #[test]
    fn huge_durations_keep_their_slope() {
        let big = u64::MAX - 1000;
        let line = fit(&[big, big + 1, big + 2, big + 3]).expect("a line");
        assert_eq!((line.slope_ns, line.r), (1.0, Some(1.0)));
    }
}
