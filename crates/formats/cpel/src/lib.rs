//! CPEL, the container of the G2 viewer, its ancestor Gist, and the event logs of VPP (`.elog`). See `README.md`.
#![forbid(unsafe_code)]

mod checks;
mod container;
mod definitions;
mod elog;
mod events;
mod gist;
mod notes;
mod open;
mod order;
mod printf;
mod settings;
mod short;
mod skeleton;
mod strings;
mod tables;
#[cfg(test)]
mod tests;
pub mod write;

use tracemill_format::api::{Format, Setting};

/// CPEL and Gist.
pub static CPEL: Format = Format {
    names: &["cpel", "gist"],
    description: "CPEL event logs (G2, VPP's perftool), and Gist logs",
    probe: open::probe,
    open: open::open,
    settings: settings::CPEL,
    looks_like: "a CPEL log is a file that begins with 0x01 or 0x81 and holds sections",
    has_calls: false,
    is_transcript: false,
};

/// Event logs of VPP.
pub static ELOG: Format = Format {
    names: &["elog"],
    description: "event logs of VPP (`event-logger save`)",
    probe: elog::probe,
    open: elog::open,
    settings: &[Setting {
        name: elog::SHORT_NAMES,
        value: None,
        help: "Name the events of VPP event logs by their formats up to the first blank, `(` or `%`",
    }],
    looks_like: "a VPP event log is a file that begins with `elog v0` behind its length",
    has_calls: true,
    is_transcript: false,
};
