//! The commands: one file each.

pub(crate) mod analyze;
mod analyze_forms;
mod analyze_list;
mod analyze_periods;
mod analyze_rows;
pub(crate) mod cache;
mod calls;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod dump;
pub(crate) mod flame;
pub(crate) mod formats;
pub(crate) mod graph;
mod html;
pub(crate) mod info;
mod losses;
pub(crate) mod man;
mod open;
mod output;
pub(crate) mod print;
pub(crate) mod record;
mod record_debug;
mod record_selection;
mod redact;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod report_calls;
mod report_forms;
mod select;
#[cfg(feature = "sql")]
mod shell;
pub(crate) mod sql;
pub(crate) mod tui;
pub(crate) mod view;
