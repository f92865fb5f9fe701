//! Events as lines: text, JSON, CSV.

pub mod cells;
pub mod csv;
pub mod json;
pub mod lines;
pub mod out;
pub mod strings;
pub mod text;
pub mod time;
