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
/// Columns of the map of how many durations there are by time and length.
const COLUMNS: i128 = 128;

/// A duration, its beginning, and what it belongs to: the order of heaps.
type Long<L> = Reverse<(i128, Reverse<i128>, L)>;

/// The longest durations one by one, the others summed up by time. Each may have a label that says what it belongs to.
pub(crate) struct Points<L: Ord + Copy = ()> {
    longest: BinaryHeap<Long<L>>,
    /// By part of the time: number, shortest and longest.
    others: BTreeMap<i128, (u64, i128, i128)>,
    /// All of them, by the power of two that is not above them; those below 1 ns are with those of 1 ns.
    powers: BTreeMap<u32, u64>,
    /// All of them, by column of the time and by that power.
    heat: BTreeMap<(i128, u32), u64>,
    begin: i128,
    /// Ns of a part.
    part: i128,
    /// Ns of a column.
    column: i128,
}

impl Points {
    pub(crate) fn add(&mut self, begin: i128, duration: i128) {
        self.add_of(begin, duration, ());
    }

    /// `points` and `summary`, both in the order of time, `histogram`: powers of two, and how many durations each has, and
    /// `heat`: the same by the time at which they begin.
    pub(crate) fn json(self) -> Value {
        self.json_with(|(), _| json!({}))
    }
}

impl<L: Ord + Copy> Points<L> {
    /// None yet, of the part of a range that the events are in.
    pub(crate) fn new(index: &Index, range: Option<(i128, i128)>) -> Points<L> {
        let (begin, end) = range.unwrap_or((index.begin, index.end));
        let begin = begin.clamp(index.begin, index.end);
        Points::for_range((begin, end.clamp(begin, index.end)))
    }

    fn for_range((begin, end): (i128, i128)) -> Points<L> {
        let of = |count: i128| ((end - begin) / count + 1).max(1);
        Points {
            longest: BinaryHeap::new(),
            others: BTreeMap::new(),
            powers: BTreeMap::new(),
            heat: BTreeMap::new(),
            begin,
            part: of(PARTS),
            column: of(COLUMNS),
        }
    }

    pub(crate) fn add_of(&mut self, begin: i128, duration: i128, label: L) {
        let power = duration.max(1).ilog2();
        *self.powers.entry(power).or_default() += 1;
        // A duration may begin before the range that it ends in.
        let column = (begin - self.begin).div_euclid(self.column).clamp(0, COLUMNS - 1);
        *self.heat.entry((column, power)).or_default() += 1;
        self.longest.push(Reverse((duration, Reverse(begin), label)));
        if self.longest.len() <= POINTS {
            return;
        }
        if let Some(Reverse((duration, Reverse(begin), _))) = self.longest.pop() {
            let part = (begin - self.begin).div_euclid(self.part);
            let (n, min, max) = self.others.entry(part).or_insert((0, duration, duration));
            (*n, *min, *max) = (*n + 1, duration.min(*min), duration.max(*max));
        }
    }

    /// As `json`, with the members that say of a label and a time what the point belongs to.
    pub(crate) fn json_with(self, of: impl Fn(L, i128) -> Value) -> Value {
        let mut points: Vec<(i128, i128, L)> = self
            .longest
            .into_iter()
            .map(|Reverse((duration, Reverse(begin), label))| (begin, duration, label))
            .collect();
        points.sort_unstable();
        let point = |(begin, duration, label): &(i128, i128, L)| {
            let mut point = of(*label, *begin);
            (point["begin"], point["duration"]) = (ns(begin), ns(duration));
            point
        };
        let points: Vec<Value> = points.iter().map(point).collect();
        let summary = self.others.iter().map(|(part, (n, min, max))| {
            let begin = self.begin + part * self.part;
            json!({ "begin": ns(begin), "end": ns(begin + self.part - 1), "n": n, "min": ns(min), "max": ns(max) })
        });
        let histogram: Vec<(u32, u64)> = self.powers.into_iter().collect();
        let cells: Vec<(i64, u32, u64)> =
            self.heat.into_iter().map(|((column, power), n)| (column as i64, power, n)).collect();
        let heat = json!({
            "begin": ns(self.begin), "column": ns(self.column), "columns": COLUMNS as i64, "cells": cells,
        });
        json!({ "points": points, "summary": summary.collect::<Vec<_>>(), "histogram": histogram, "heat": heat })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_durations_are_told_one_by_one() {
        let mut points = Points::for_range((0, 999 * PARTS));
        (0..5000).for_each(|at| points.add(at, 5000 - at));
        let told = points.json();
        assert_eq!(told["points"].as_array().map(Vec::len), Some(POINTS));
        let first = &told["points"][0];
        assert_eq!((&first["begin"], &first["duration"]), (&json!("0"), &json!("5000")));
        assert_eq!(told["summary"], json!([{ "begin": "4000", "end": "4999", "n": 904, "min": "1", "max": "904" }]));
        let powers: Vec<(u32, u64)> = (0..12).map(|power| (power, 1 << power)).chain([(12, 5000 - 4095)]).collect();
        assert_eq!(told["histogram"], json!(powers));
    }

    #[test]
    fn the_map_has_every_duration_once() {
        let mut points = Points::for_range((1000, 1000 + 128 * 10 - 1));
        // One begins before the range, one at its end, two in one cell.
        let all = [(900, 4, 'a'), (1000, 5, 'b'), (1005, 9, 'c'), (1014, 9, 'd'), (1015, 8, 'e'), (2279, 0, 'f')];
        all.into_iter().for_each(|(begin, duration, label)| points.add_of(begin, duration, label));
        let told = points.json_with(|label, begin| json!({ "of": format!("{label}{begin}") }));
        assert_eq!(told["heat"]["column"], "10");
        assert_eq!(told["heat"]["cells"], json!([[0, 2, 2], [0, 3, 1], [1, 3, 2], [127, 0, 1]]));
        assert_eq!(told["points"][0], json!({ "begin": "900", "duration": "4", "of": "a900" }));
        assert_eq!(told["points"].as_array().map(Vec::len), Some(6));
    }
}
