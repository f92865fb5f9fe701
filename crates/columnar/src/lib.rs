//! Parquet and Arrow: traces as tables.
//!
//! A folder with a table of all events (`events`), a table for each event class below `event/`, and small tables of what
//! belongs to them: `classes`, `packets`, `losses`. Rows are written in batches while events come; memory does not grow with
//! the trace.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod sink;
mod tables;
mod writer;

pub use writer::{ARROW, PARQUET, is_output};
