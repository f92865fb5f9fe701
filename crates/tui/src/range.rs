//! The part of the time that is shown.

use tracemill_lod::calls::SessionCalls;

/// First and last ns that are wanted.
pub(crate) type Range = (i128, i128);

/// The range of calls in ns.
pub(crate) fn ns_range(range: Option<Range>, calls: &SessionCalls) -> (i64, i64) {
    let ns = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    range.map_or((calls.begin, calls.end), |(begin, end)| (ns(begin), ns(end)))
}
