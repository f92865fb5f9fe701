//! Data folders of uftrace: function calls of programs, with arguments, scheduling and user events.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod arguments;
mod calls;
mod classes;
mod debug;
mod definitions;
mod dump;
mod events;
mod folder;
mod info;
mod kernel;
mod kernel_events;
mod layout;
mod lines;
mod maps;
mod messages;
mod names;
mod open;
mod perf;
mod reader;
mod records;
mod slices;
mod summary;
mod symbols;
mod tables;
mod tasks;
mod values;
pub mod write;

#[cfg(test)]
mod address_tests;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod range_tests;
#[cfg(test)]
mod tests;

pub use arguments::{RequestedValue, WantedForm, WantedPlace, wanted_values};

use tracemill_format::{Format, Setting};

/// The format.
pub static FORMAT: Format =
    Format::new(&["uftrace"], "data folders of uftrace, versions 3 and 4", open::probe, open::open)
        .looks_like("a trace of uftrace is a folder with a file `info` that begins with `Ftrace!`")
        .in_folders()
        .with_settings(&[Setting::with_value(
            folder::WITH_SYMS,
            "DIR",
            "Take symbols of uftrace folders from the `.sym` files of this folder, where it has them",
        )])
        .with_calls();
