//! The trace formats of tracemill: one folder each, one line each in [`registry`].
//!
//! [`api`] says what a format gives. Nothing outside a format's folder knows its name.
#![forbid(unsafe_code)]

pub mod api;
pub mod calls;
pub mod cpel;
pub mod ctf;
pub mod ftrace;
mod hiding;
pub mod jsonl;
pub mod lttng_legacy;
pub mod lttng_markers;
mod out_file;
pub mod registry;
pub mod target;
pub mod uftrace;
pub mod veil;
