//! Options of `tracemill diff`.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::sql::RowLimit;
use super::{EventOptions, InputOptions, PeriodOptions};

/// `tracemill diff`.
#[derive(Args)]
pub(crate) struct DiffOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) events: EventOptions,

    #[command(flatten)]
    pub(crate) periods: PeriodOptions,

    /// Show also the rows that do not count as differences: equal counts, and values whose difference is noise or small
    #[arg(long)]
    pub(crate) all: bool,

    /// Rows that each table shows, or `all`
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) rows: RowLimit,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: DiffFormat,

    /// Write to this file instead of stdout, replacing it; it gets its name when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Read times without a zone as UTC instead of local time
    #[arg(long)]
    pub(crate) clock_gmt: bool,
}

/// Output formats of `diff`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DiffFormat {
    /// Text; times in microseconds.
    Table,
    /// One JSON object; times in nanoseconds.
    Json,
    /// One page for a browser, with all rows.
    Html,
}

/// `tracemill diff`, which takes two traces.
pub(crate) struct DiffCommand(pub(crate) DiffOptions);

impl DiffCommand {
    fn add_to(command: Command) -> Command {
        let command = DiffOptions::augment_args(command).mut_arg("traces", |arg| {
            arg.num_args(2)
                .value_names(["A", "B"])
                .help("Two traces, as files, folders or archives; a folder of several traces counts as one timeline")
        });
        command.after_help(
            "Exit status: 0 no difference; 4 differences; 1, 2 and 3 as for all commands. Values differ when the test of \
            Kolmogorov and Smirnov, corrected for the number of tests, leaves a chance of at most 1 % that both traces have \
            one source, and the difference is not small (docs/diff.md).",
        )
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        DiffOptions::from_arg_matches(matches).map(DiffCommand)
    }
}

by_hand!(DiffCommand);
