//! Results of an analysis.

use tracemill_engine::filter::KeyValue;

use crate::durations::{Durations, Moments};
use crate::line::Line;

/// Statistics by group.
#[derive(Default)]
pub struct Report {
    /// The names of the values that keys have, in the order of their columns.
    pub names: Vec<String>,
    /// The groups that have durations.
    pub rows: Vec<Row>,
    /// Occurrences that were left out, by reason.
    pub left_out: LeftOut,
}

/// The statistics of one group.
pub struct Row {
    /// Values by the index of their name; those that are not named are not of this group.
    pub key: Vec<(usize, KeyValue)>,
    /// The key in words, when the events have them.
    pub label: Option<String>,
    /// The durations.
    pub durations: Durations,
    /// How they grow, when that was asked for.
    pub line: Option<Line>,
}

/// Events that gave no duration.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeftOut {
    /// Events without time.
    pub untimed: u64,
    /// Durations below zero: the clock of a stream went back.
    pub negative: u64,
    /// Durations of 2^64 ns and more: 584 years.
    pub too_long: u64,
    /// Ends without a beginning.
    pub only_ends: u64,
    /// Beginnings whose end did not come before the next beginning of the same key.
    pub restarted: u64,
    /// Beginnings that were still open at the end.
    pub unfinished: u64,
    /// Beginnings beyond the number that may be open at a time.
    pub too_many: u64,
}

impl LeftOut {
    /// A duration as it is added up; one that is left out is counted.
    #[inline]
    pub(crate) fn duration(&mut self, ns: i128) -> Option<u64> {
        let duration = u64::try_from(ns).ok();
        if duration.is_none() {
            *(if ns < 0 { &mut self.negative } else { &mut self.too_long }) += 1;
        }
        duration
    }

    /// Adds the counts of other events.
    pub(crate) fn add(&mut self, other: &LeftOut) {
        let LeftOut { untimed, negative, too_long, only_ends, restarted, unfinished, too_many } = other;
        self.untimed += untimed;
        self.negative += negative;
        self.too_long += too_long;
        self.only_ends += only_ends;
        self.restarted += restarted;
        self.unfinished += unfinished;
        self.too_many += too_many;
    }
}

/// Orders of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Longest total first.
    Total,
    /// Most durations first.
    Count,
    /// By key.
    Key,
}

impl Report {
    /// Sorts the rows; equal ones by key.
    pub fn sort(&mut self, by: Sort) {
        self.rows.sort_by(|a, b| {
            let (x, y) = (&a.durations.moments, &b.durations.moments);
            let order = match by {
                Sort::Total => y.total_ns.cmp(&x.total_ns),
                Sort::Count => y.count.cmp(&x.count),
                Sort::Key => std::cmp::Ordering::Equal,
            };
            order.then_with(|| a.key.cmp(&b.key))
        });
    }

    /// All groups together.
    pub fn all(&self) -> Moments {
        let mut all = Moments::default();
        self.rows.iter().for_each(|row| all.add_all(&row.durations.moments));
        all
    }
}
