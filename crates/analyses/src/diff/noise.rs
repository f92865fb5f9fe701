//! Differences that are larger than chance explains: the test of Kolmogorov and Smirnov for two samples, with Holm's correction for
//! many tests.

use std::collections::BTreeMap;

use super::spread::ValueSpread;

/// Fewer values than this on one side say too little.
pub const FEWEST_VALUES: u64 = 8;
/// The chance that some row of a comparison is shown though both sides have the same source.
pub const SIGNIFICANCE: f64 = 0.01;
/// A distance that is never called small.
pub const LARGE_DISTANCE: f64 = 0.05;
/// The relative change of the median or of the 99th percentile that is never called small.
pub const LARGE_CHANGE: f64 = 0.05;

/// A thing that is measured on both sides.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Metric {
    /// The kind of value.
    pub kind: MetricKind,
    /// The event, the function or the thread that it is of.
    pub of: String,
    /// The field, the state; empty where the kind says all.
    pub part: String,
}

/// Kinds of values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MetricKind {
    /// Times from the beginning to the end of calls, spans and pairs of events, in ns.
    Duration,
    /// Times that threads spend in a state without a break, in ns.
    State,
    /// Times from an event to the next one of its name, in ns.
    Interval,
    /// Values of a field.
    Value,
}

impl MetricKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Duration => "duration",
            MetricKind::State => "state",
            MetricKind::Interval => "interval",
            MetricKind::Value => "value",
        }
    }

    /// Are its values times in ns?
    pub fn is_time(self) -> bool {
        self != MetricKind::Value
    }
}

/// The verdict of the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Chance does not explain the difference, and it is large enough to matter.
    Differs,
    /// Chance does not explain it, but it is small.
    Small,
    /// It may be chance.
    Noise,
    /// There are too few values.
    TooFew,
}

impl Verdict {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Differs => "differs",
            Verdict::Small => "small",
            Verdict::Noise => "noise",
            Verdict::TooFew => "too few",
        }
    }
}

/// Two spreads of one metric, compared.
#[derive(Clone, Debug)]
pub struct SpreadRow {
    /// The metric.
    pub metric: Metric,
    /// The values of both sides.
    pub sides: [ValueSpread; 2],
    /// The largest difference between the shares of values up to some value.
    pub distance: f64,
    /// The chance of such a distance or a larger one where both sides have one source, corrected for the number of rows
    /// that are tested; `None` where there are too few values.
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// The metrics that both sides have, compared; those that differ most come first.
pub fn compare_spreads(a: BTreeMap<Metric, ValueSpread>, mut b: BTreeMap<Metric, ValueSpread>) -> Vec<SpreadRow> {
    let both = a.into_iter().filter_map(|(metric, a)| b.remove(&metric).map(|b| (metric, [a, b])));
    let mut rows: Vec<SpreadRow> = both
        .filter_map(|(metric, sides)| {
            let [a, b] = &sides;
            let distance = a.distance(b)?;
            let is_tested = a.count().min(b.count()) >= FEWEST_VALUES;
            let p = is_tested.then(|| chance(distance, a.count(), b.count()));
            Some(SpreadRow { metric, sides, distance, p, verdict: Verdict::TooFew })
        })
        .collect();
    let chances: Vec<f64> = rows.iter().filter_map(|row| row.p).collect();
    let mut corrected = corrected(&chances).into_iter();
    for row in rows.iter_mut().filter(|row| row.p.is_some()) {
        row.p = corrected.next();
        row.verdict = verdict(row);
    }
    rows.sort_by(|one, other| other.distance.total_cmp(&one.distance).then_with(|| one.metric.cmp(&other.metric)));
    rows
}

fn verdict(row: &SpreadRow) -> Verdict {
    if row.p.is_none_or(|p| p > SIGNIFICANCE) {
        return Verdict::Noise;
    }
    let change = |percent| {
        let [a, b] = [0, 1].map(|side| row.sides[side].percentile(percent).unwrap_or(0.0));
        if a == b { 0.0 } else { (b - a).abs() / a.abs().max(b.abs()) }
    };
    let is_large =
        row.distance >= LARGE_DISTANCE || [50, 99].into_iter().any(|percent| change(percent) >= LARGE_CHANGE);
    if is_large { Verdict::Differs } else { Verdict::Small }
}

/// The chance that two samples of one source, of so many values, are at least this far apart. With `n = a b / (a + b)` and
/// `l = (sqrt n + 0.12 + 0.11 / sqrt n) d` it is `2 (e^(-2 l^2) - e^(-8 l^2) + e^(-18 l^2) - ...)`. Values that are equal
/// make the real chance smaller.
pub fn chance(distance: f64, a: u64, b: u64) -> f64 {
    let n = (a as f64 * b as f64 / (a as f64 + b as f64)).sqrt();
    let l = (n + 0.12 + 0.11 / n) * distance;
    // The sum converges slowly there, and is 1 in all digits that count.
    if l < 0.2 {
        return 1.0;
    }
    let term = |k: i32| (if k % 2 == 1 { 2.0 } else { -2.0 }) * (-2.0 * f64::from(k * k) * l * l).exp();
    (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0)
}

/// Holm's correction: of `m` chances the smallest one is multiplied by `m`, the next one by `m - 1`, and so on, and none is
/// smaller than the one before. All that are then at most 0.01 are all right together in 99 of 100 comparisons.
pub fn corrected(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|one, other| chances[*one].total_cmp(&chances[*other]));
    let (mut corrected, mut last) = (vec![0.0; chances.len()], 0.0f64);
    for (before, at) in order.into_iter().enumerate() {
        last = last.max(chances[at] * (chances.len() - before) as f64).min(1.0);
        corrected[at] = last;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::super::spread::tests::spread;
    use super::*;

    fn row(a: ValueSpread, b: ValueSpread) -> SpreadRow {
        let metric = Metric { kind: MetricKind::Value, of: "e".into(), part: "f".into() };
        let side = |spread| BTreeMap::from([(metric.clone(), spread)]);
        compare_spreads(side(a), side(b)).remove(0)
    }

    #[test]
    fn chances_by_hand() {
        // n = 2, l = 2.175: 2 e^-9.46125.
        assert!((chance(1.0, 8, 8) - 2.0 * (-9.46125f64).exp()).abs() < 1e-9);
        // The exact chance that all of 8 are below all of other 8 is 2 / (16 over 8) = 2 / 12870.
        assert!((chance(1.0, 8, 8) / (2.0 / 12870.0) - 1.0).abs() < 0.02);
        // n = sqrt 50, l = (7.0711 + 0.12 + 0.0156) * 0.2 = 1.44133: 2 e^-4.15487 - 2 e^-16.6195.
        assert!((chance(0.2, 100, 100) - 0.031_371).abs() < 1e-4, "{}", chance(0.2, 100, 100));
        assert_eq!((chance(0.0, 100, 100), chance(0.01, 100, 100)), (1.0, 1.0));
        assert!(chance(1.0, u64::MAX, u64::MAX) == 0.0);
    }

    #[test]
    fn corrections_by_hand() {
        // 0.01 * 4, 0.02 * 3, 0.03 * 2, which is no less than before, 0.5.
        let found = corrected(&[0.03, 0.01, 0.5, 0.02]);
        [0.06, 0.04, 0.5, 0.06].iter().zip(&found).for_each(|(wanted, own)| assert!((wanted - own).abs() < 1e-12));
        assert_eq!(corrected(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(corrected(&[]).is_empty());
    }

    #[test]
    fn verdicts() {
        let ramp = |from: i32, to: i32| spread((from..to).map(f64::from));
        assert_eq!(row(ramp(0, 200), ramp(0, 200)).verdict, Verdict::Noise);
        assert_eq!(row(ramp(0, 200), ramp(100, 300)).verdict, Verdict::Differs);
        assert_eq!(row(ramp(0, 7), ramp(100, 300)).verdict, Verdict::TooFew);
        assert_eq!(row(ramp(0, 8), ramp(100, 108)).verdict, Verdict::Differs);
        // A shift by one in a hundred of many values is no chance, and small.
        let many = |shift: i32| spread((0..200_000).map(|at| f64::from(at % 100 + 100 + shift)));
        let shifted = row(many(0), many(1));
        assert_eq!((shifted.distance, shifted.verdict), (0.01, Verdict::Small));
        // Two of a hundred take ten times as long: the 99th percentile shows it.
        let tail = spread((0..200_000).map(|at| if at % 100 < 2 { 1500.0 } else { f64::from(at % 100 + 100) }));
        let slow = row(many(0), tail);
        assert!(slow.distance < LARGE_DISTANCE);
        assert_eq!(slow.verdict, Verdict::Differs);
    }

    #[test]
    fn one_source_is_noise() {
        // Numbers of a linear congruential generator, as good as random for this.
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64
        };
        let metric = |at: usize| Metric { kind: MetricKind::Interval, of: at.to_string(), part: String::new() };
        let mut side = || (0..100).map(|at| (metric(at), spread((0..500).map(|_| next())))).collect::<BTreeMap<_, _>>();
        let (a, b) = (side(), side());
        assert!(compare_spreads(a, b).iter().all(|row| row.verdict == Verdict::Noise));
    }
}
