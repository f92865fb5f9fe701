//! Options of the command line.

use std::path::PathBuf;

use clap::Parser;

/// Measures what tracemill costs on large traces, with babeltrace2 beside it.
#[derive(Parser)]
#[command(name = "tracemill-bench")]
pub(crate) struct Options {
    /// Trace of 20 million events [default: bench/traces/ust-20m]
    #[arg(long, value_name = "DIR")]
    pub(crate) trace: Option<PathBuf>,

    /// Trace of a million events of the same kinds [default: bench/traces/ust-1m]
    #[arg(long, value_name = "DIR")]
    pub(crate) small: Option<PathBuf>,

    /// Trace of 40 event classes [default: bench/traces/wide-40]
    #[arg(long, value_name = "DIR")]
    pub(crate) wide_40: Option<PathBuf>,

    /// Trace of 2,000 event classes [default: bench/traces/wide-2000]
    #[arg(long, value_name = "DIR")]
    pub(crate) wide_2000: Option<PathBuf>,

    /// Trace of LTTng 0.7 of 10 million events [default: bench/traces/legacy-10m]
    #[arg(long, value_name = "DIR")]
    pub(crate) legacy: Option<PathBuf>,

    /// Kernel trace of two million events [default: bench/traces/kernel-2m, written when it is not there]
    #[arg(long, value_name = "DIR")]
    pub(crate) kernel: Option<PathBuf>,

    /// CPEL log of 20 million events [default: bench/traces/cpel-20m.cpel, written when it is not there]
    #[arg(long, value_name = "FILE")]
    pub(crate) cpel: Option<PathBuf>,

    /// VPP event log of 20 million events [default: bench/traces/elog-20m.elog, written when it is not there]
    #[arg(long, value_name = "FILE")]
    pub(crate) elog: Option<PathBuf>,

    /// Rounds; medians over them are compared
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) runs: u16,

    /// Only these rows, such as 1,2
    #[arg(long, value_name = "ROW,...", value_delimiter = ',')]
    pub(crate) only: Vec<u8>,

    /// The tracemill program to measure; built beside this one when not given
    #[arg(long, value_name = "PATH")]
    pub(crate) tracemill: Option<PathBuf>,

    /// File for the raw results [default: bench/results/DATE-HOST.json]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
