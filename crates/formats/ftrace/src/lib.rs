//! The kernel's tracer: `trace.dat` of trace-cmd, versions 6 and 7.
//!
//! [`event_format`], [`print_format`] and [`ring_buffer`] know nothing of that file: other recorders keep the same format
//! files and the same pages in files of their own.
//!
//! ```text
//! bytes, compression          numbers of either byte order, unpacking
//! container, v6, v7, options  what a file holds, and where
//! event_format                format files: what records hold
//! print_format                how the kernel would have printed them
//! format_strings              texts of `trace_printk`
//! ring_buffer                 pages: where records are, and when
//! record_writer, page_writer  records and pages of values and times
//! classes                     from formats to a schema
//! packets, open               the trace as the engine reads it
//! parts                       the files of a recording that is not finished
//! tracing_data                the formats that a perf.data keeps
//! write                       files: of traces of any format, and of a recorder
//! ```
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "testing"))]
pub mod builder;
mod bytes;
pub mod classes;
mod compression;
pub mod container;
pub mod event_format;
mod format_strings;
mod open;
mod options;
pub mod packets;
pub mod page_writer;
pub mod parts;
pub mod print_format;
pub mod record_writer;
pub mod ring_buffer;
#[cfg(test)]
mod tests;
pub mod tracing_data;
mod v6;
mod v7;
pub mod write;

use tracemill_format::Format;

/// `trace.dat` of trace-cmd.
pub static FORMAT: Format =
    Format::new(&["ftrace"], "trace.dat of trace-cmd, versions 6 and 7", open::probe, open::open)
        .looks_like("a trace of trace-cmd is a file `trace.dat`")
        .with_calls();

/// The tracer `function_graph`.
const CALLS: &[tracemill_format::calls::CallEvents] =
    &[tracemill_format::calls::CallEvents::by_address("funcgraph_entry", "funcgraph_exit", "func")];
