//! SQL over traces on several machines: schedulers, executors and clients of Ballista that know traces.
//!
//! The process that was asked plans a query in full and sends the plan. Its scans of events say what they read
//! (`tracemill_sql::remote::RemoteScan`); all other tables travel as their rows. The scheduler cuts the plan into tasks
//! and opens nothing; executors open the traces that a scan names, and say what reading met as counters of the scan, which
//! come back with the rows.
//!
//! A part of the program `tracemill`: this API may change at any time.
#![forbid(unsafe_code)]

mod allow;
mod client;
mod codec;
mod named;
mod serve;
mod watch;

pub use allow::Allow;
pub use client::Cluster;
pub use named::{NamedTraces, names_file, setting_words};
pub use serve::{Executor, executor, scheduler};

/// Largest message between processes: tables that are no events are in the plan.
const MESSAGE_BYTES: usize = 256 << 20;
