//! The options of `tracemill view`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{EventOptions, InputOptions, SymbolArgs, parse_duration};

/// Options of commands that keep what they know of a trace.
#[derive(Args, Clone, Default)]
pub(crate) struct CacheOptions {
    /// Neither use an index that was kept nor keep one
    #[arg(long, conflicts_with = "cache_dir")]
    pub(crate) no_cache: bool,

    /// Folder of kept indexes [default: $XDG_CACHE_HOME/tracemill/lod]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
}

/// `tracemill cache`.
#[derive(Args)]
pub(crate) struct CacheCommand {
    #[command(subcommand)]
    pub(crate) action: CacheAction,
}

/// Actions on kept indexes.
#[derive(Subcommand)]
pub(crate) enum CacheAction {
    /// List the kept indexes: their traces, when they were used last, and how much room they take
    Info {
        /// Folder of kept indexes [default: $XDG_CACHE_HOME/tracemill/lod]
        #[arg(long, value_name = "DIR")]
        cache_dir: Option<PathBuf>,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Remove all kept indexes
    Clear {
        /// Folder of kept indexes [default: $XDG_CACHE_HOME/tracemill/lod]
        #[arg(long, value_name = "DIR")]
        cache_dir: Option<PathBuf>,
    },
}

/// `tracemill view`.
#[derive(Args)]
#[command(
    after_help = "The page is reached from this machine only, by the address that is printed: it holds a secret. \
It ends after Ctrl-C, or with the button End server. From elsewhere: ssh -L PORT:127.0.0.1:PORT HOST."
)]
pub(crate) struct ViewOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) events: EventOptions,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,

    #[command(flatten)]
    pub(crate) cache: CacheOptions,

    /// Show what is written while the page is open: CTF and uftrace folders, a trace.dat, JSON lines, all of their events
    #[arg(long, conflicts_with_all = ["begin", "end", "filter", "tsp"])]
    pub(crate) follow: bool,

    /// Show the states and counters that this file defines
    #[arg(long, value_name = "FILE")]
    pub(crate) states: Option<PathBuf>,

    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,

    /// Port to listen on; 0 is a free one
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) port: u16,

    /// Address to listen on; others than this machine's own are not encrypted
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub(crate) listen: IpAddr,

    /// Answer requests for a server of this name too; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,

    /// End when no page was open for this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) idle_exit: Option<u64>,

    /// Serve no page, but clients of the Trace Server Protocol, such as Trace Compass' extension for VS Code; they open what
    /// is at or below TRACE. The port is 8080 unless it is given
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "8080",
        conflicts_with_all = ["port", "no_open", "idle_exit"]
    )]
    pub(crate) tsp: Option<u16>,

    /// Let pages of this origin ask, such as http://localhost:3000; a * at its end stands for anything; may be repeated
    #[arg(long, value_name = "ORIGIN", requires = "tsp")]
    pub(crate) tsp_allow: Vec<String>,
}
