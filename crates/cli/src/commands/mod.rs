//! The commands: one file each.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod formats;
pub(crate) mod info;
mod losses;
pub(crate) mod man;
mod open;
pub(crate) mod print;
pub(crate) mod report;
mod report_forms;
mod select;
