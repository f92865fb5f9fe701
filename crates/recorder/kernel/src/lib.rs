//! Records events of the Linux kernel: it sets up an instance of the kernel's tracer in tracefs, moves the pages of its ring
//! buffers to files as they are, and makes a `trace.dat` of them, as trace-cmd does.
//!
//! | module | |
//! |---|---|
//! | `tracefs` | the file system of the tracer, an instance of it, its events and settings |
//! | `pages` | pages of one CPU to a file |
//! | `parts` | what is on disk while it records, and the file that it becomes |
//! | `recording` | the program that is watched, the threads, the end |
//! | `beside` | the same beside the calls of a program, in their data folder |
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

mod pages;
mod parts;
mod recording;
mod tracefs;
mod uftrace_kernel;

pub use parts::has_parts;
pub use recording::{Options, Recorded, record, recover};
pub use uftrace_kernel::{StartProgram, is_left, record_beside, recover_beside};
