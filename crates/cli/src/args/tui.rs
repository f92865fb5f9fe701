//! The options of `tracemill tui`.

use std::path::PathBuf;

use clap::Args;

use super::{CacheOptions, EventOptions, InputOptions, SymbolArgs, When};

/// `tracemill tui`.
#[derive(Args)]
#[command(
    after_help = "1 shows events, 2 replays calls, 3 reports functions, 4 shows the call graph, 5 states; h shows all keys, q ends. \
With --plain each line of input is a command, and an empty one shows the next page."
)]
pub(crate) struct TuiOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) events: EventOptions,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,

    #[command(flatten)]
    pub(crate) cache: CacheOptions,

    /// Show what is written meanwhile, as `view --follow` does; the last line goes on with the newest event
    #[arg(long, conflicts_with_all = ["begin", "end", "filter"])]
    pub(crate) follow: bool,

    /// Show the states that this file defines, as `analyze custom` does
    #[arg(long, value_name = "FILE")]
    pub(crate) states: Option<PathBuf>,

    /// One line after the other, for screen readers; commands are lines, `h` shows them
    #[arg(long)]
    pub(crate) plain: bool,

    /// Colours
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub(crate) color: When,

    /// Show and take times in UTC instead of local time
    #[arg(long)]
    pub(crate) clock_gmt: bool,
}
