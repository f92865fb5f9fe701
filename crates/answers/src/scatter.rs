//! Durations as single points over time, thinned where there are more than can be shown.

use std::collections::BTreeMap;

/// A duration in ns, and the time at which it begins.
pub type DurationPoint = (i64, i64);

/// Points of some series over a range of time.
///
/// A series keeps all points up to a number. Of more it keeps the shortest and the longest in each part of the range, so that
/// there are no more than that number.
pub struct Scatter {
    begin: i64,
    /// Ns of the range.
    length: i128,
    most: usize,
    series: Vec<SeriesPoints>,
}

enum SeriesPoints {
    All(Vec<DurationPoint>),
    /// By part: the shortest and the longest.
    Extremes(BTreeMap<i64, (DurationPoint, DurationPoint)>),
}

/// A series of points.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScatterSeries {
    /// The points in the order of time.
    pub points: Vec<DurationPoint>,
    /// Were there more?
    pub is_thinned: bool,
}

impl Scatter {
    /// Empty series of at most `most` points each; both times are included.
    pub fn new((begin, end): (i64, i64), most: usize, series: usize) -> Scatter {
        let length = (i128::from(end) - i128::from(begin) + 1).max(1);
        let series = (0..series).map(|_| SeriesPoints::All(Vec::new())).collect();
        Scatter { begin, length, most, series }
    }

    /// One more series; gives its number.
    pub fn add_series(&mut self) -> usize {
        self.series.push(SeriesPoints::All(Vec::new()));
        self.series.len() - 1
    }

    /// Adds a point to a series.
    pub fn add(&mut self, series: usize, point: DurationPoint) {
        let Scatter { begin, length, most, .. } = *self;
        // Each part has two points.
        let parts = (most / 2).max(1) as i128;
        let part = |at: i64| (i128::from(at) - i128::from(begin)).clamp(0, length - 1) * parts / length;
        let Some(of) = self.series.get_mut(series) else { return };
        match of {
            SeriesPoints::All(points) if points.len() < most => points.push(point),
            SeriesPoints::All(points) => {
                let mut extremes = BTreeMap::new();
                points.iter().chain([&point]).for_each(|point| add_to(&mut extremes, part(point.0) as i64, *point));
                *of = SeriesPoints::Extremes(extremes);
            }
            SeriesPoints::Extremes(extremes) => add_to(extremes, part(point.0) as i64, point),
        }
    }

    /// The series.
    pub fn finish(self) -> Vec<ScatterSeries> {
        let is_single = self.most < 2;
        let series = self.series.into_iter().map(|of| match of {
            SeriesPoints::All(mut points) => {
                points.sort_unstable();
                ScatterSeries { points, is_thinned: false }
            }
            SeriesPoints::Extremes(extremes) => {
                let mut points: Vec<DurationPoint> = Vec::with_capacity(2 * extremes.len());
                for (shortest, longest) in extremes.into_values() {
                    points.push(longest);
                    points.extend((shortest != longest && !is_single).then_some(shortest));
                }
                points.sort_unstable();
                ScatterSeries { points, is_thinned: true }
            }
        });
        series.collect()
    }
}

/// Adds a point to its part. Of points that are equally long the first one stays.
fn add_to(extremes: &mut BTreeMap<i64, (DurationPoint, DurationPoint)>, part: i64, point: DurationPoint) {
    let (shortest, longest) = extremes.entry(part).or_insert((point, point));
    if point.1 < shortest.1 {
        *shortest = point;
    }
    if point.1 > longest.1 {
        *longest = point;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinned(most: usize, points: &[DurationPoint]) -> ScatterSeries {
        let mut scatter = Scatter::new((100, 199), most, 2);
        points.iter().for_each(|point| scatter.add(1, *point));
        let mut series = scatter.finish();
        assert!(series.len() == 2 && series[0].points.is_empty());
        series.remove(1)
    }

    #[test]
    fn extremes_of_each_part_stay() {
        let points = [(110, 5), (100, 7), (120, 6), (130, 9), (160, 1), (170, 1), (199, 3)];
        let mut sorted = points;
        sorted.sort_unstable();
        assert_eq!(thinned(7, &points), ScatterSeries { points: sorted.to_vec(), is_thinned: false });
        let four = thinned(4, &points);
        assert_eq!(four, ScatterSeries { points: vec![(110, 5), (130, 9), (160, 1), (199, 3)], is_thinned: true });
        assert_eq!(thinned(3, &points).points, [(130, 9), (160, 1)]);
        assert_eq!(thinned(1, &points).points, [(130, 9)]);
    }

    #[test]
    fn no_range_is_too_long() {
        let mut scatter = Scatter::new((i64::MIN, i64::MAX), 65_536, 1);
        let time = |at: i64| (i128::from(i64::MIN) + i128::from(at) * 263_000_000_000_000) as i64;
        (0..70_000).for_each(|at| scatter.add(0, (time(at), at)));
        let series = scatter.finish().remove(0);
        assert!(series.is_thinned && series.points.len() <= 65_536);
        assert_eq!(series.points.first(), Some(&(i64::MIN, 0)));
        assert!(series.points.iter().any(|point| point.1 == 69_999));
    }
}
