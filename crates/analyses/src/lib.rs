//! Statistics over the events of traces: time between occurrences, durations of pairs, regressions.
//!
//! An analysis reads the merged timeline of a session once, in one thread, and gives a [`Report`](report::Report): rows of
//! statistics, one for each group of events. Groups are the values of paths of the filter language; no analysis knows
//! the name of a format.
//!
//! | module | what |
//! |---|---|
//! | [`target`] | which events are meant by a name or a number |
//! | [`groups`] | keys of events as small integers |
//! | [`run`] | the loop over the timeline |
//! | [`state`], [`pairs`], [`nested`] | the analyses |
//! | [`durations`], [`mod@line`] | statistics |
//! | [`diff`] | what differs between two traces |
//! | [`kernel`] | what traces of kernels say: states, and the analyses over them |
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

pub mod diff;
pub mod durations;
pub mod groups;
pub mod kernel;
pub mod line;
pub mod nested;
pub mod pairs;
pub mod report;
pub mod run;
pub mod state;
mod stats;
mod sums;
pub mod target;
