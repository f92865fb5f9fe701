//! The commands: one file each.

pub mod check;
pub mod completions;
pub mod formats;
pub mod info;
pub mod man;
mod open;
pub mod print;
