//! Durations as points over time, and how many there are by powers of two.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde_json::{Value, json};
use tracemill_lod::Index;

use crate::query::ns;

/// Durations that are listed one by one: the longest ones.
const POINTS: usize = 4096;
/// Parts of the time for which the others are summed up.
const PARTS: i128 = 512;

/// The longest durations one by one, the others summed up by time.
pub(crate) struct Points {
    longest: BinaryHeap<Reverse<(i128, Reverse<i128>)>>,
    /// By part of the time: number, shortest and longest.
    others: BTreeMap<i128, (u64, i128, i128)>,
    /// All of them, by the power of two that is not above them; those below 1 ns are with those of 1 ns.
    powers: BTreeMap<u32, u64>,
    begin: i128,
    /// Ns of a part.
    part: i128,
}

impl Points {
    /// None yet.
    pub(crate) fn new(index: &Index) -> Points {
        Points::for_range(index.begin, index.end)
    }

    fn for_range(begin: i128, end: i128) -> Points {
        let part = ((end - begin) / PARTS + 1).max(1);
        Points { longest: BinaryHeap::new(), others: BTreeMap::new(), powers: BTreeMap::new(), begin, part }
    }

    pub(crate) fn add(&mut self, begin: i128, duration: i128) {
        *self.powers.entry(duration.max(1).ilog2()).or_default() += 1;
        self.longest.push(Reverse((duration, Reverse(begin))));
        if self.longest.len() <= POINTS {
            return;
        }
        if let Some(Reverse((duration, Reverse(begin)))) = self.longest.pop() {
            let part = (begin - self.begin).div_euclid(self.part);
            let (n, min, max) = self.others.entry(part).or_insert((0, duration, duration));
            (*n, *min, *max) = (*n + 1, duration.min(*min), duration.max(*max));
        }
    }

    /// `points` and `summary`, both in the order of time, and `histogram`: powers of two, and how many durations each has.
    pub(crate) fn json(self) -> Value {
        let mut points: Vec<(i128, i128)> =
            self.longest.into_iter().map(|Reverse((duration, Reverse(begin)))| (begin, duration)).collect();
        points.sort_unstable();
        let points: Vec<Value> =
            points.iter().map(|(begin, duration)| json!({ "begin": ns(begin), "duration": ns(duration) })).collect();
        let summary = self.others.iter().map(|(part, (n, min, max))| {
            let begin = self.begin + part * self.part;
            json!({ "begin": ns(begin), "end": ns(begin + self.part - 1), "n": n, "min": ns(min), "max": ns(max) })
        });
        let histogram: Vec<(u32, u64)> = self.powers.into_iter().collect();
        json!({ "points": points, "summary": summary.collect::<Vec<_>>(), "histogram": histogram })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_durations_are_told_one_by_one() {
        let mut points = Points::for_range(0, 999 * PARTS);
        (0..5000).for_each(|at| points.add(at, 5000 - at));
        let told = points.json();
        assert_eq!(told["points"].as_array().map(Vec::len), Some(POINTS));
        let first = &told["points"][0];
        assert_eq!((&first["begin"], &first["duration"]), (&json!("0"), &json!("5000")));
        assert_eq!(told["summary"], json!([{ "begin": "4000", "end": "4999", "n": 904, "min": "1", "max": "904" }]));
        let powers: Vec<(u32, u64)> = (0..12).map(|power| (power, 1 << power)).chain([(12, 5000 - 4095)]).collect();
        assert_eq!(told["histogram"], json!(powers));
    }
}
