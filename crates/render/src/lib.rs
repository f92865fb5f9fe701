//! Events as lines: text, JSON, CSV.
#![forbid(unsafe_code)]

pub mod cells;
pub mod csv;
pub mod lines;
pub mod print;
pub mod text;
pub mod time;
