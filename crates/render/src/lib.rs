//! Events as lines: text, JSON, CSV.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

pub mod cells;
pub mod csv;
pub mod info;
pub mod lines;
pub mod print;
pub mod text;
pub mod time;
