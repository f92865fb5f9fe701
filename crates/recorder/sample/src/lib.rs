//! Samples programs by `perf_event_open`: any program, as it is. The kernel writes samples, and what is needed to read
//! them, into a ring for each CPU; a thread moves them to a `perf.data`.
//!
//! | module | |
//! |---|---|
//! | `sys` | events and rings of the kernel: the only `unsafe` code |
//! | `events` | the events of all CPUs and threads; what this kernel and these rights allow |
//! | `known` | names and maps from before the recording; the kernel's own |
//! | `machine` | facts about the machine, and build ids |
//! | `file` | the file while it grows, and its end; full disks |
//! | `recording` | a recording from its beginning to its end |
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![deny(unsafe_code)]

mod events;
mod file;
mod known;
mod machine;
mod recording;
mod sys;

pub use recording::{CallGraph, Options, Recorded, SampleClock, record, record_beside, record_processes};
