//! Formats that other tools show: they are written from the timeline, and not read.

mod chrome;

use tracemill_formats::target::Target;

/// Every format that is only written.
pub static TARGETS: &[&Target] = &[&chrome::CHROME];
