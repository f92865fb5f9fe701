//! Options of `tracemill cluster`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{FormatSettings, parse_size};

/// `tracemill cluster`.
#[derive(Args)]
pub(crate) struct ClusterOptions {
    /// Which part.
    #[command(subcommand)]
    pub(crate) part: ClusterPart,
}

/// The parts of a cluster.
#[derive(Subcommand)]
pub(crate) enum ClusterPart {
    /// Take queries, and share their work out among executors
    Scheduler(SchedulerOptions),
    /// Do the work of queries: read traces that are there under the same paths
    Executor(Box<ExecutorOptions>),
}

/// `tracemill cluster scheduler`.
#[derive(Args)]
pub(crate) struct SchedulerOptions {
    /// Address to listen at
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    pub(crate) bind: SocketAddr,
}

/// `tracemill cluster executor`.
#[derive(Args)]
pub(crate) struct ExecutorOptions {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) scheduler: String,

    /// Address to listen at; a free port beside it takes tasks
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    pub(crate) bind: SocketAddr,

    /// Tasks at a time [default: the number of CPUs]
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Memory for groups, joins and sorts [default: half of what is free, at most 4G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<usize>,

    /// Open nothing outside of this folder; may be repeated, and must be given unless all addresses are of this machine
    #[arg(long, value_name = "DIR")]
    pub(crate) allow: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) formats: FormatSettings,
}
