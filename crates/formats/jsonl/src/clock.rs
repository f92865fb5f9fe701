//! A clock for lines that say both cycles and ns: one that gives the ns of every line from its cycles.
//!
//! Lines do not say how fast a clock ran. A frequency and an offset fit when `floor` of the time that they give is the
//! `ns` of each line. With cycles and ns as coordinates, that is a straight line close above all points; only the convex
//! hull of the points matters, and points of a real clock have few corners.

use tracemill_model::clock::{ClockMap, NS_PER_SECOND};
use tracemill_model::schema::ClockClass;

/// Corners of what bounds a clock, at most: times with more of them are of no clock.
const MAX_CORNERS: usize = 512;
/// Denominators of a frequency that are tried.
const MAX_SECONDS: u32 = 60;

/// Finds a clock.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockFit {
    above: Hull,
    below: Hull,
    found: Option<(ClockClass, ClockMap)>,
    /// No clock gives these times.
    is_none: bool,
}

impl ClockFit {
    /// Takes a line in.
    #[inline]
    pub(super) fn add(&mut self, cycles: u64, ns: i128) {
        if self.is_none {
            return;
        }
        let is_possible = self.above.add(cycles, ns, false) && self.below.add(cycles, ns, true);
        self.is_none = !is_possible;
        match &self.found {
            Some((_, map)) if map.ns(cycles) == ns => {}
            _ if self.is_none => {}
            _ => self.refit(),
        }
    }

    #[cold]
    fn refit(&mut self) {
        let corners = [&*self.above.0, &*self.below.0].concat();
        let class = fit(&corners);
        self.is_none = class.is_none();
        self.found = class.map(|class| {
            let map = ClockMap::new(&class, 0);
            (class, map)
        });
    }

    /// The clock, when one fits all lines.
    pub(super) fn clock(&self) -> Option<ClockClass> {
        self.found.as_ref().filter(|_| !self.is_none).map(|(class, _)| class.clone())
    }
}

/// One half of a convex hull, its corners in the order of cycles.
#[derive(Clone, Debug, Default)]
struct Hull(Vec<(u64, i128)>);

impl Hull {
    /// Takes a point in; false when it shows that there is no clock. `is_below` says which half it is.
    #[inline]
    fn add(&mut self, cycles: u64, ns: i128, is_below: bool) -> bool {
        let points = &mut self.0;
        let place = match points.last() {
            Some(last) if last.0 >= cycles => points.partition_point(|point| point.0 < cycles),
            _ => points.len(),
        };
        let point = (cycles, ns);
        if let Some(next) = points.get(place) {
            if next.0 == cycles {
                return next.1 == ns;
            }
            if let Some(before) = place.checked_sub(1).and_then(|before| points.get(before)) {
                match is_corner(*before, point, *next, is_below) {
                    None => return false,
                    Some(false) => return true,
                    Some(true) => {}
                }
            }
        }
        let mut at = place;
        points.insert(at, point);
        while at >= 2 {
            match is_corner(points[at - 2], points[at - 1], point, is_below) {
                None => return false,
                Some(true) => break,
                Some(false) => {
                    points.remove(at - 1);
                    at -= 1;
                }
            }
        }
        while points.len() > at + 2 {
            match is_corner(point, points[at + 1], points[at + 2], is_below) {
                None => return false,
                Some(true) => break,
                Some(false) => {
                    points.remove(at + 1);
                }
            }
        }
        points.len() <= MAX_CORNERS
    }
}

/// Does the hull turn at the middle one of three points? `None` when the numbers are too large.
#[inline]
fn is_corner(a: (u64, i128), b: (u64, i128), c: (u64, i128), is_below: bool) -> Option<bool> {
    let across = |from: (u64, i128), to: (u64, i128)| Some((i128::from(to.0 - from.0), to.1.checked_sub(from.1)?));
    let ((ab, ab_ns), (bc, bc_ns)) = (across(a, b)?, across(b, c)?);
    let (left, right) = (ab.checked_mul(bc_ns)?, bc.checked_mul(ab_ns)?);
    Some(if is_below { left > right } else { left < right })
}

/// A clock whose frequency is as round as the times allow.
fn fit(bounds: &[(u64, i128)]) -> Option<ClockClass> {
    for seconds in 1..=MAX_SECONDS {
        let unit = NS_PER_SECOND * i128::from(seconds);
        let (low, high) = frequencies(bounds, unit)?;
        if low > high {
            continue;
        }
        let frequency = if (low..=high).contains(&unit) { unit } else { roundest(low, high) };
        let class = with_offset(bounds, frequency, unit)?;
        let clock = ClockClass { seconds, ..class };
        let map = ClockMap::new(&clock, 0);
        // Numbers so large that they are held would not fit.
        return bounds.iter().all(|&(cycles, ns)| map.ns(cycles) == ns).then_some(clock);
    }
    None
}

/// The smallest and the largest frequency (in ticks in `unit` ns) that the times of all pairs of lines allow.
fn frequencies(bounds: &[(u64, i128)], unit: i128) -> Option<(i128, i128)> {
    let (mut low, mut high) = (1i128, i128::from(u64::MAX));
    for (at, &(a_cycles, a_ns)) in bounds.iter().enumerate() {
        for &(b_cycles, b_ns) in &bounds[..at] {
            let cycles = i128::from(a_cycles) - i128::from(b_cycles);
            let mut ns = a_ns.checked_sub(b_ns)?;
            if cycles == 0 {
                if ns != 0 {
                    return None;
                }
                continue;
            }
            if cycles < 0 {
                ns = -ns;
            }
            if ns < 0 {
                return None;
            }
            let span = cycles.abs().checked_mul(unit)?;
            low = low.max(span / (ns + 1) + 1);
            if ns > 1 {
                high = high.min((span + ns - 2) / (ns - 1) - 1);
            }
        }
    }
    Some((low, high))
}

/// The number in a range that has most zeros at its end.
fn roundest(low: i128, high: i128) -> i128 {
    let mut step = 10i128.pow(19);
    while step > 1 {
        let number = (low + step - 1) / step * step;
        if number <= high {
            return number;
        }
        step /= 10;
    }
    low
}

/// The clock of a frequency, with the simplest offset that the times allow.
fn with_offset(bounds: &[(u64, i128)], frequency: i128, unit: i128) -> Option<ClockClass> {
    // ns = floor((cycles * unit + offset) / frequency): the smallest offset and the first that is too large.
    let (mut low, mut end) = (i128::MIN, i128::MAX);
    for &(cycles, ns) in bounds {
        let span = i128::from(cycles).checked_mul(unit)?;
        let least = ns.checked_mul(frequency)?.checked_sub(span)?;
        low = low.max(least);
        end = end.min(least.checked_add(frequency)?);
    }
    let first_multiple = |of: i128| {
        let multiple = low.div_euclid(of).checked_add(i128::from(low.rem_euclid(of) != 0))?.checked_mul(of)?;
        (multiple < end).then_some(multiple)
    };
    // Whole seconds, whole cycles, whole ns, or a sum of both.
    let whole_second = unit.checked_mul(frequency).and_then(first_multiple);
    let (cycles, ns) = match whole_second.or_else(|| first_multiple(unit)) {
        Some(offset) => (offset / unit, 0),
        None => match first_multiple(frequency) {
            Some(offset) => (0, offset / frequency),
            None => {
                let (common, inverse) = inverse(unit, frequency);
                let modulus = frequency / common;
                let cycles = mul_mod(low.div_euclid(common), inverse, modulus);
                (cycles, (low.checked_sub(cycles.checked_mul(unit)?)?) / frequency)
            }
        },
    };
    let class = ClockClass::nanoseconds("clock");
    // Whole seconds of a count of cycles are reported as such.
    let seconds = cycles.div_euclid(frequency);
    let ns = ns.checked_add(seconds.checked_mul(unit)?)?;
    Some(ClockClass {
        frequency: u64::try_from(frequency).ok()?,
        offset_seconds: i64::try_from(ns.div_euclid(NS_PER_SECOND)).ok()?,
        offset_ns: ns.rem_euclid(NS_PER_SECOND) as i64,
        offset_cycles: cycles.rem_euclid(frequency),
        ..class
    })
}

/// The greatest common divisor of two positive numbers, and what `a` is multiplied with to give it modulo `b`.
fn inverse(a: i128, b: i128) -> (i128, i128) {
    let (mut old, mut now) = ((a, 1i128), (b, 0i128));
    while now.0 != 0 {
        let quotient = old.0 / now.0;
        (old, now) = (now, (old.0 - quotient * now.0, old.1 - quotient * now.1));
    }
    (old.0, old.1.rem_euclid((b / old.0).max(1)))
}

/// A product modulo a number below 2^64.
fn mul_mod(a: i128, b: i128, modulus: i128) -> i128 {
    let (a, b) = (a.rem_euclid(modulus) as u128, b.rem_euclid(modulus) as u128);
    (a * b % modulus as u128) as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_found_from_their_times() {
        let mut seed = 11u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 20
        };
        for (frequency, seconds, offset_seconds, offset_cycles, offset_ns) in [
            (1_000_000_000, 1, 1_700_000_000, 5, 0),
            (10_000_000, 1, 0, 0, 0),
            (2_399_998_123, 1, 1_700_000_000, 123_456_789, 0),
            (3, 1, -7, 0, 0),
            (333_333_333, 1, 1_600_000_000, 12, 17),
            (1_000_000, 3, 0, 0, 0),
            (1, 1, 0, 0, 0),
        ] {
            let class = ClockClass {
                frequency,
                seconds,
                offset_seconds,
                offset_cycles,
                offset_ns,
                ..ClockClass::nanoseconds("")
            };
            let map = ClockMap::new(&class, 0);
            let (mut found, mut cycles) = (ClockFit::default(), next() % 1_000_000_000);
            let mut lines = Vec::new();
            for _ in 0..5000 {
                cycles += next() % (frequency / 100).max(5);
                lines.push((cycles, map.ns(cycles)));
                found.add(cycles, map.ns(cycles));
            }
            let clock = found.clock().expect("a clock");
            let map = ClockMap::new(&clock, 0);
            assert!(lines.iter().all(|&(cycles, ns)| map.ns(cycles) == ns), "{clock:?}");
        }
    }

    #[test]
    fn times_of_no_clock_have_none() {
        let mut found = ClockFit::default();
        for (cycles, ns) in [(0, 0), (100, 100), (200, 400)] {
            found.add(cycles, ns);
        }
        assert_eq!(found.clock(), None);
        let mut twice = ClockFit::default();
        twice.add(5, 1);
        twice.add(5, 2);
        // Lines that a first clock fits are not forgotten for the next.
        let mut late = ClockFit::default();
        (0..1000).for_each(|at| late.add(at * 100, i128::from(at) * 100));
        late.add(200_000, 300_000);
        assert_eq!(late.clock(), None);
        assert_eq!(twice.clock(), None);
    }
}
