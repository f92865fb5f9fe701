//! Tables: columns with units, and values.
//!
//! A [`Column`] has a key, by which programs and users call it, and a [`Unit`]. A [`Value`] is what a row has in a column; a
//! [`Cell`] owns what a value borrows.

#![forbid(unsafe_code)]

mod column;
pub mod packed;
mod value;

pub use column::{Column, Unit};
pub use value::{Cell, Counts, Value};
