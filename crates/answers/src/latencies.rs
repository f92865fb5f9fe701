//! How long system calls and functions took, as answers have it.

use tracemill_lod::calls::FunctionTotals;

use crate::scatter::DurationPoint;

/// The latencies of a system call of one machine.
#[derive(Clone, Debug)]
pub struct SystemCallLatencies {
    /// The first trace of the machine.
    pub trace: usize,
    /// The name of the call.
    pub name: String,
    /// Beginnings and durations in ns, in the order of time. Times that 64 bits do not hold are not there.
    pub points: Vec<DurationPoint>,
    /// Were there more?
    pub is_thinned: bool,
}

/// Statistics about a system call of one machine.
#[derive(Clone, PartialEq, Debug)]
pub struct SystemCallStatistics {
    /// The first trace of the machine.
    pub trace: usize,
    /// The name of the call.
    pub name: String,
    /// Calls that ended.
    pub count: u64,
    /// Sum of their durations in ns.
    pub total: i128,
    /// The shortest in ns.
    pub min: i128,
    /// The longest in ns.
    pub max: i128,
    /// The mean in ns.
    pub mean: f64,
    /// The standard deviation in ns.
    pub deviation: f64,
}

/// Statistics about the calls of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionStatistics {
    /// The function: an index of [`SessionCalls::names`](tracemill_lod::calls::SessionCalls::names).
    pub name: u32,
    /// Calls that overlap the range.
    pub calls: u64,
    /// Their time inside of the range in ns.
    pub total: i128,
    /// That time without the calls that they made.
    pub own: i128,
    /// Shortest, mean and longest duration in ns of those that begin and end inside; `None` when none does.
    pub durations: Option<(i64, i64, i64)>,
    /// The durations in ns that 50, 90 and 99 of 100 of those do not exceed.
    pub percentiles: Option<[i64; 3]>,
}

impl FunctionStatistics {
    pub(crate) fn new(of: &FunctionTotals) -> FunctionStatistics {
        let [p50, p90, p99] = [50, 90, 99].map(|percent| of.percentile(percent));
        FunctionStatistics {
            name: of.name,
            calls: of.calls,
            total: of.total,
            own: of.own,
            durations: of.durations(),
            percentiles: p50.zip(p90).zip(p99).map(|((p50, p90), p99)| [p50, p90, p99]),
        }
    }
}

/// A trace, and the first and the last ns.
pub(crate) type FunctionsKey = (usize, Option<(i64, i64)>);
