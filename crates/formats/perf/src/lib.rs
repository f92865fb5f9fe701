//! Linux perf: `perf.data`, of files and of pipes.
//!
//! ```text
//! records            headers of records; where reading goes on after damage
//! file, attr         the head of a file, its features, the events that it recorded
//! unpack             records inside records
//! folder             folders of `perf record --threads`
//! survey             the first pass: streams, times, classes
//! fields, classes    the fields of records, as members and as bytes
//! comms, maps        names of threads; places of addresses in the files that processes had mapped
//! reader, open       the trace as the engine reads it
//! write              what recorders write
//! ```
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod attr;
#[cfg(any(test, feature = "testing"))]
pub mod builder;
mod classes;
mod comms;
mod fields;
mod file;
mod folder;
mod maps;
mod open;
mod reader;
pub mod records;
mod survey;
#[cfg(test)]
mod tests;
mod unpack;
pub mod write;

use tracemill_format::Format;

/// `perf.data` of Linux perf.
pub static FORMAT: Format =
    Format::new(&["perf"], "perf.data of Linux perf, of a file or a pipe", open::probe, open::open)
        .looks_like("a recording of perf is a file `perf.data`");
