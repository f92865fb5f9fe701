//! The values of a counter, at every level down to a base whose buckets fit in little memory.
//!
//! Values come one by one in the order of time. At first each has a bucket of 1 ns; whenever there are too many buckets,
//! they become twice as wide. What is below the base level is read again where it stands, by the caller.

/// The values in a bucket.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The bucket: its first ns since the origin, divided by its width.
    pub at: i64,
    /// How many values are in it.
    pub values: u64,
    /// The least of them.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The one that came last.
    pub last: f64,
}

impl Point {
    fn new(at: i64, value: f64) -> Point {
        Point { at, values: 1, min: value, max: value, last: value }
    }

    fn add(&mut self, later: Point) {
        self.values += later.values;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        self.last = later.last;
    }
}

/// Buckets that are kept at most.
const MOST: usize = 1 << 16;

/// Values in buckets of one width.
#[derive(Clone, Default, Debug)]
pub struct Points {
    level: u32,
    points: Vec<Point>,
    is_unsorted: bool,
}

impl Points {
    /// Buckets of 2^`level` ns, and wider ones when there are too many.
    pub fn new(level: u32) -> Points {
        Points { level, ..Points::default() }
    }

    /// Adds a value at a time in ns since the origin.
    pub fn push(&mut self, time: i64, value: f64) {
        let new = Point::new(time >> self.level, value);
        match self.points.last_mut() {
            Some(last) if last.at == new.at => return last.add(new),
            Some(last) => self.is_unsorted |= last.at > new.at,
            None => {}
        }
        if self.points.len() >= MOST {
            self.sort();
            while self.points.len() > MOST / 2 && self.level < 62 {
                self.level += 1;
                widen(&mut self.points, 1);
            }
            return self.push(time, value);
        }
        self.points.push(new);
    }

    /// In the order of time, each bucket once.
    fn sort(&mut self) {
        if std::mem::take(&mut self.is_unsorted) {
            // Stable: of equal buckets the later one has the last value.
            self.points.sort_by_key(|point| point.at);
            widen(&mut self.points, 0);
        }
    }

    /// No more values come.
    pub fn finish(mut self) -> Counter {
        self.sort();
        self.points.shrink_to_fit();
        Counter { level: self.level, points: self.points }
    }
}

/// Makes buckets wider by some levels: neighbours that are in the same one become one.
fn widen(points: &mut Vec<Point>, levels: u32) {
    let mut kept = 0;
    for at in 0..points.len() {
        let point = Point { at: points[at].at >> levels, ..points[at] };
        if kept > 0 && points[kept - 1].at == point.at {
            points[kept - 1].add(point);
        } else {
            points[kept] = point;
            kept += 1;
        }
    }
    points.truncate(kept);
}

/// A counter that was read.
#[derive(Clone, Debug)]
pub struct Counter {
    level: u32,
    points: Vec<Point>,
}

impl Counter {
    /// The level of the narrowest buckets that are known.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Least and greatest value of all.
    pub fn bounds(&self) -> Option<(f64, f64)> {
        let bounds = self.points.iter().map(|point| (point.min, point.max));
        bounds.reduce(|(low, high), (min, max)| (low.min(min), high.max(max)))
    }

    /// How many values there are.
    pub fn values(&self) -> u64 {
        self.points.iter().map(|point| point.values).sum()
    }

    /// Buckets of a level that is not below that of the counter, from one time to another, both included, in ns since the
    /// origin; and the last value before them.
    pub fn buckets(&self, level: u32, (begin, end): (i64, i64)) -> (Option<f64>, Vec<Point>) {
        let (level, more) = (level.max(self.level), level.saturating_sub(self.level));
        let (first, last) = (begin >> level, end >> level);
        let from = self.points.partition_point(|point| point.at >> more < first);
        let to = self.points.partition_point(|point| point.at >> more <= last);
        let mut points = self.points[from..to.max(from)].to_vec();
        widen(&mut points, more);
        (from.checked_sub(1).map(|before| self.points[before].last), points)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(values: &[(i64, f64)]) -> Counter {
        let mut points = Points::new(0);
        values.iter().for_each(|(time, value)| points.push(*time, *value));
        points.finish()
    }

    /// Every level by hand, from the base of the counter on.
    fn check(values: &[(i64, f64)]) {
        let counter = read(values);
        assert_eq!(counter.values(), values.len() as u64);
        assert!(counter.points.len() <= MOST);
        let end = values.iter().map(|(time, _)| *time).max().unwrap_or(0);
        for level in [counter.level(), counter.level() + 1, counter.level() + 7, 62] {
            for (from, to) in [(0, end), (end / 3, end / 2)] {
                let (first, last) = (from >> level, to >> level);
                let mut expected: BTreeMap<i64, (u64, f64, f64)> = BTreeMap::new();
                for (time, value) in values.iter().filter(|(time, _)| (first..=last).contains(&(time >> level))) {
                    let of = expected.entry(time >> level).or_insert((0, f64::MAX, f64::MIN));
                    *of = (of.0 + 1, of.1.min(*value), of.2.max(*value));
                }
                let (_, points) = counter.buckets(level, (from, to));
                let found = points.iter().map(|point| (point.at, (point.values, point.min, point.max)));
                assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "level {level}");
            }
        }
    }

    #[test]
    fn buckets_of_every_level_hold_all_values() {
        check(&[]);
        check(&[(5, 1.0), (5, -2.0), (9, 3.0)]);
        let many = (0..200_000i64).map(|at| (at * at / 7, ((at * 37) % 1009) as f64));
        check(&many.collect::<Vec<_>>());
        // Times that go back.
        let turns = (0..200_000i64).map(|at| (at * 10 - (at % 3) * 25 + 50, (at % 17) as f64));
        check(&turns.collect::<Vec<_>>());
    }

    #[test]
    fn the_value_before_a_range_is_known() {
        let counter = read(&[(5, 1.0), (100, 2.0), (101, 7.0), (300, 3.0)]);
        assert_eq!(counter.buckets(0, (0, 4)), (None, Vec::new()));
        assert_eq!(counter.buckets(0, (6, 99)), (Some(1.0), Vec::new()));
        assert_eq!(counter.buckets(0, (200, 299)).0, Some(7.0));
        assert_eq!(counter.bounds(), Some((1.0, 7.0)));
        assert_eq!(read(&[]).bounds(), None);
    }
}
