//! The index of a timeline: which events are where, at every level of detail.
//!
//! Where events are is estimated from packets first ([`Timeline`]), then counted, stream by stream: some 0.3 bytes an event are
//! kept, in trees of buckets. Then the session is read once more in the order of time: its events get their numbers. What is
//! kept of an event is its time and what it is, some three bytes, in a file when there are many; [`statistics`] sums a range up, [`search`] finds names.
//! [`tiles`] says how many events are in buckets of any width. Nothing here knows how it is shown, and no name of an event
//! stands here.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod block;
mod buckets;
pub mod calls;
mod checkpoints;
pub mod counters;
mod estimate;
mod events;
pub mod group;
pub mod growth;
pub mod index;
mod kinds;
mod lane;
mod names;
mod progress;
mod ranks;
mod reread;
pub mod search;
mod segments;
mod set;
mod slices;
mod source;
pub mod states;
pub mod statistics;
pub mod store;
pub mod tiles;
pub mod timeline;
mod track;
mod track_trees;
mod tracking;
mod tree;
mod values;
mod window;

pub use index::{Fault, Index, LossKind, LossRange};
pub use progress::Progress;
pub use set::EventSet;
pub use source::Source;
pub use timeline::Timeline;
pub use track::Track;
