//! Legacy LTTng: versions 0.7 and 0.8 with facilities, 2.0 to 2.6 with markers.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

pub mod facilities;
mod files;
mod magic;
pub mod markers;
mod messages;
mod padding;
mod tags;
pub mod write;
