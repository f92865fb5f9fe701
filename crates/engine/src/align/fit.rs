//! A line between points: the clock of one trace against that of another.
//!
//! At a time `x` of one clock the other is ahead by some `y`. A message to the one that is corrected gives a `y` that is
//! too small by the time it was under way, one from it a `y` that is too large. The line of constant drift runs above
//! the first and below the second (A. Duda et al., "Estimating global time in distributed systems", 1987): of all such
//! lines the one in the middle is taken, the others say how accurate it is.

/// Drifts beyond this are no clock's.
const MAX_DRIFT: f64 = 1e-3;
/// Halvings of an interval of drifts: far beyond the accuracy of a float.
const STEPS: u32 = 100;

/// A point: time in ns of the clock that is corrected, and by how much the other one is ahead.
pub(super) type Point = (i64, i64);

/// A line of constant drift.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fit {
    /// Time at which the offset holds.
    pub from_ns: i64,
    /// Ns to add there.
    pub offset_ns: i64,
    /// Ns to add for each further ns.
    pub drift: f64,
    /// Half of the interval of drifts that the points allow; `None` when they do not determine it.
    pub drift_error: Option<f64>,
    /// How far the offset may be off anywhere between the first and the last point; `None` when messages went one way
    /// only.
    pub error_ns: Option<f64>,
    /// No line runs between all points: it misses some by this many ns.
    pub missed_ns: f64,
}

/// The line above all of `below` and under all of `above`. `None` without points.
pub(super) fn fit(below: &[Point], above: &[Point]) -> Option<Fit> {
    let all = || below.iter().chain(above);
    let (first, last) = (all().map(|point| point.0).min()?, all().map(|point| point.0).max()?);
    let from_ns = first + (last - first) / 2;
    let base_ns = all().next()?.1;
    let near = |points: &[Point]| -> Vec<(f64, f64)> {
        points.iter().map(|&(x, y)| (x.saturating_sub(from_ns) as f64, y.saturating_sub(base_ns) as f64)).collect()
    };
    let lower = hull(near(below), 1.0);
    let upper = hull(near(above), -1.0);
    let half = (last - first) as f64 / 2.0;
    let (middle, drift, drift_error, error_ns, missed_ns) = if lower.is_empty() || upper.is_empty() {
        let points = if lower.is_empty() { &upper } else { &lower };
        let (middle, drift) = tangent(points);
        (middle, drift, None, None, 0.0)
    } else {
        between(&lower, &upper, half)
    };
    let offset_ns = base_ns.saturating_add(middle.round() as i64);
    Some(Fit { from_ns, offset_ns, drift, drift_error, error_ns, missed_ns })
}

/// The line of a drift that touches the points of one side from above (`lower`) or from below: its `y` at 0.
fn lowest(upper: &[(f64, f64)], drift: f64) -> f64 {
    upper.iter().map(|&(x, y)| y - drift * x).fold(f64::INFINITY, f64::min)
}

fn highest(lower: &[(f64, f64)], drift: f64) -> f64 {
    lower.iter().map(|&(x, y)| y - drift * x).fold(f64::NEG_INFINITY, f64::max)
}

fn between(lower: &[(f64, f64)], upper: &[(f64, f64)], half: f64) -> (f64, f64, Option<f64>, Option<f64>, f64) {
    // How much room a drift leaves between both sides: a concave function of it.
    let room = |drift: f64| lowest(upper, drift) - highest(lower, drift);
    let (mut low, mut high) = (-MAX_DRIFT, MAX_DRIFT);
    for _ in 0..2 * STEPS {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if room(a) < room(b) { low = a } else { high = b }
    }
    let mut drift = low + (high - low) / 2.0;
    let least = room(drift).min(0.0);
    // The drifts that leave any room at all (or, when none does, the least bad one).
    let end = |limit: f64| {
        if room(limit) >= least {
            return limit;
        }
        let (mut inside, mut outside) = (drift, limit);
        for _ in 0..STEPS {
            let middle = inside + (outside - inside) / 2.0;
            if room(middle) >= least { inside = middle } else { outside = middle }
        }
        inside
    };
    let (first, last) = (end(-MAX_DRIFT), end(MAX_DRIFT));
    let is_known = first > -MAX_DRIFT && last < MAX_DRIFT;
    if !is_known && room(0.0) >= least {
        // Any drift would do: the points are too few, or too near to each other.
        drift = 0.0;
    }
    let middle = (lowest(upper, drift) + highest(lower, drift)) / 2.0;
    let missed = (-room(drift)).max(0.0) / 2.0;
    // The farthest that an allowed line is away from ours, at both ends.
    let drifts = (0..=64).map(|at| first + (last - first) * f64::from(at) / 64.0).chain([drift]);
    let far = drifts.flat_map(|other| {
        let (top, bottom) = (lowest(upper, other), highest(lower, other));
        [-half, half].map(|x| {
            let own = middle + drift * x;
            (top + other * x - own).max(own - bottom - other * x)
        })
    });
    let error = far.fold(missed, f64::max);
    let drift_error = is_known.then_some((drift - first).max(last - drift));
    (middle, drift, drift_error, Some(error), missed)
}

/// The line along the hull of one side over the middle.
fn tangent(hull: &[(f64, f64)]) -> (f64, f64) {
    for pair in hull.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        if x0 <= 0.0 && x1 >= 0.0 && x1 > x0 {
            let drift = ((y1 - y0) / (x1 - x0)).clamp(-MAX_DRIFT, MAX_DRIFT);
            return (y0 - drift * x0, drift);
        }
    }
    (hull.first().map_or(0.0, |point| point.1), 0.0)
}

/// The points that a line above all of them (`side` 1) or below (-1) can touch, by `x`.
fn hull(mut points: Vec<(f64, f64)>, side: f64) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull.as_slice() {
            let turn = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
            if turn * side < 0.0 {
                break;
            }
            hull.pop();
        }
        // Of points of one time the outermost counts.
        if let Some(last) = hull.last_mut()
            && last.0 == point.0
        {
            if (point.1 - last.1) * side > 0.0 {
                *last = point;
            }
            continue;
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages both ways every `step` ns with delays of at least `delay`; the other clock is ahead by `offset` at
    /// time 0 and by `drift` more for each ns.
    fn messages(offset: f64, drift: f64, delay: f64, count: i64, step: i64) -> (Vec<Point>, Vec<Point>) {
        let mut seed = 5u64;
        let mut noise = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 44) as f64
        };
        let at = |x: i64| offset + drift * x as f64;
        let below = (0..count).map(|i| (i * step, (at(i * step) - delay - noise()) as i64)).collect();
        let above =
            (0..count).map(|i| (i * step + step / 2, (at(i * step + step / 2) + delay + noise()) as i64)).collect();
        (below, above)
    }

    #[test]
    fn known_offsets_and_drifts_come_back() {
        for (offset, drift) in [(0.0, 0.0), (7.5e9, 2e-5), (-3e9, -1.3e-6), (1e3, 4e-4)] {
            let (below, above) = messages(offset, drift, 20_000.0, 2_000, 10_000_000);
            let fit = fit(&below, &above).expect("there are points");
            let want = offset + drift * fit.from_ns as f64;
            let error = fit.error_ns.expect("messages went both ways");
            assert!((fit.offset_ns as f64 - want).abs() <= error, "{fit:?} {want}");
            assert!(error < 100_000.0, "{fit:?}");
            let drift_error = fit.drift_error.expect("it is known");
            assert!((fit.drift - drift).abs() <= drift_error && drift_error < 1e-5, "{fit:?} {drift}");
            assert!(fit.missed_ns == 0.0, "{fit:?}");
        }
    }

    #[test]
    fn few_points_give_no_drift() {
        let pair = fit(&[(1_000, 500)], &[(2_000, 700)]).expect("there are points");
        assert_eq!((pair.offset_ns, pair.drift, pair.drift_error), (600, 0.0, None));
        assert!(pair.error_ns.expect("both ways") >= 100.0);
        let one = fit(&[(1_000, 500)], &[]).expect("there is a point");
        assert_eq!((one.offset_ns, one.drift, one.error_ns), (500, 0.0, None));
        assert_eq!(fit(&[], &[]), None);
    }

    #[test]
    fn contradictions_are_measured() {
        // Received before it was sent, in the middle of others.
        let below = [(0, -10), (1_000_000, 90), (2_000_000, -10)];
        let above = [(0, 10), (1_000_000, 10), (2_000_000, 10)];
        let fit = fit(&below, &above).expect("there are points");
        assert!((fit.missed_ns - 40.0).abs() < 1.0, "{fit:?}");
    }

    #[test]
    fn one_way_takes_the_shortest_delay() {
        let (below, _) = messages(5e6, 1e-5, 0.0, 1_000, 1_000_000);
        let fit = fit(&below, &[]).expect("there are points");
        assert!((fit.drift - 1e-5).abs() < 1e-5, "{fit:?}");
        assert!((fit.offset_ns as f64 - 5e6 - 1e-5 * fit.from_ns as f64).abs() < 50_000.0, "{fit:?}");
    }
}
