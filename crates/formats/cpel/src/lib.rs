//! CPEL, the container of the G2 viewer, its ancestor Gist, and the event logs of VPP (`.elog`). See `README.md`.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod checks;
mod container;
mod definitions;
mod diagnostics;
mod elog;
mod events;
mod fast_text;
mod gist;
mod log;
mod log_parts;
mod open;
mod order;
mod printf;
mod settings;
mod strings;
mod tables;
#[cfg(test)]
mod tests;
pub mod write;

use tracemill_format::{Format, Setting};

/// CPEL and Gist.
pub static CPEL: Format =
    Format::new(&["cpel", "gist"], "CPEL event logs (G2, VPP's perftool)\nGist event logs", open::probe, open::open)
        .looks_like("a CPEL log is a file that begins with 0x01 or 0x81 and holds sections")
        .with_settings(settings::CPEL);

/// Event logs of VPP.
pub static ELOG: Format = Format::new(&["elog"], "event logs of VPP (`event-logger save`)", elog::probe, elog::open)
    .looks_like("a VPP event log is a file that begins with `elog v0` after its length")
    .with_settings(&[Setting::switch(
        elog::SHORT_NAMES,
        "Name the events of VPP event logs by their formats up to the first blank, `(` or `%`",
    )])
    .with_calls();
