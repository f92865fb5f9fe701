//! Function calls of a trace: as an indented replay, as statistics of functions, as trees.
//!
//! Formats offer calls as records ([`tracemill_format::calls`]). [`follow::Follower`] merges the records of all tasks
//! and keeps the stack of each: which calls are open, since when, and how much of their time their callees took. What is
//! printed is, byte for byte, what the commands of the same name of uftrace 0.13 print.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod branches;
pub mod chrome;
pub mod completed_calls;
mod consistency;
pub mod distribution;
pub mod flame;
pub mod follow;
pub mod graph;
pub mod json;
mod merge;
mod names;
pub mod no_calls;
pub mod profile;
pub mod raw;
pub mod replay;
pub mod report;
pub mod rules;
mod select;
mod stacks;
mod task_partitions;
pub mod tasks;
pub mod text;
mod tree;

pub use select::{CallOptions, EventOptions, KernelOptions, TimeRange};
