//! Legacy LTTng with markers, versions 2.0 to 2.6: events are named by a metadata channel and described by format
//! strings. See the README of this folder.

mod blocks;
mod events;
mod folder;
mod format_string;
mod header;
mod metadata;
mod open;
mod parts;
mod reader;
mod schema;
#[cfg(test)]
mod tests;
pub(crate) mod write;

use tracemill_format::{Format, Setting};

/// Legacy LTTng 2.0 to 2.6.
pub static FORMAT: Format =
    Format::new(&["lttng-legacy"], "legacy LTTng 2.0 to 2.6: kernel traces with markers", folder::probe, open::open)
        .looks_like("a legacy LTTng trace with markers is a folder with files `metadata_N` and `CHANNEL_N`")
        .in_folders()
        .with_settings(&[Setting::switch(
            open::WALL_CLOCK,
            "Count the time of legacy LTTng 2.x traces from the Unix epoch, by their start time",
        )]);
