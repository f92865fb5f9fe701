//! The trace formats of tracemill.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod ctf;
