//! The index of a timeline: which events are where, at every level of detail.
//!
//! A session is read once in the order of time. What is kept of an event is its time and what it is, six to twelve bytes;
//! [`tiles`] counts events in buckets of any width from that, [`statistics`] sums a range up, [`search`] finds names. Nothing
//! here knows how it is shown, and no name of an event stands here.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

pub mod calls;
mod coarse;
mod events;
pub mod index;
pub mod search;
pub mod statistics;
pub mod tiles;

pub use events::EventSet;
pub use index::{Fault, Index, Loss, LossKind, Progress, Track};
