//! The commands: one file each.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod formats;
pub(crate) mod info;
pub(crate) mod man;
mod open;
pub(crate) mod print;
