//! Formats that other tools show: they are written from the timeline, and not read.

mod chrome;
mod lanes;
mod perfetto;

use tracemill_formats::target::Target;

/// Every format that is only written.
pub static TARGETS: &[&Target] = &[&perfetto::PERFETTO, &chrome::CHROME];
