//! Options of `analyze`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{InputOptions, LiveOptions, PeriodOptions, When, parse_duration};

/// `tracemill analyze`.
#[derive(Args)]
#[command(
    mut_arg("traces", |arg| arg.required(false)),
    override_usage = "tracemill analyze [NAME,..] [OPTIONS] TRACE...",
    after_help = "Without NAME, the analyses are listed: what each one says, and what the traces lack for it.\n`tracemill \
analyze NAME --help` shows what an analysis has: groups, options, columns, an example. `tracemill analyze --help analyses` lists the options of single analyses and those that give events their meaning, `--help periods` those \
that define periods."
)]
pub(crate) struct AnalyzeOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) live: LiveOptions,

    /// With --follow or a live session: repeat the tables every so often, such as 1s, each of that time before the newest event
    /// unless --begin says another
    #[arg(long, value_name = "DURATION", value_parser = super::live::duration, help_heading = super::live::GROWING)]
    pub(crate) every: Option<Duration>,

    /// Show state from this time on: hh:mm:ss as in rows, a date, SECONDS, Nns, +DURATION after the first event, or -DURATION
    /// before the last
    #[arg(long, short, value_name = "T", allow_hyphen_values = true, help_heading = "Selection")]
    pub(crate) begin: Option<String>,

    /// Show nothing after this time, written as for --begin
    #[arg(long, short, value_name = "T", allow_hyphen_values = true, help_heading = "Selection")]
    pub(crate) end: Option<String>,

    /// Keep only streams with this name (globs are allowed) or id; may be repeated
    #[arg(long, value_name = "S", help_heading = "Selection")]
    pub(crate) stream: Vec<String>,

    #[command(flatten)]
    pub(crate) choice: SpanChoice,

    #[command(flatten)]
    pub(crate) rows: RowOptions,

    /// With `states`: rows of these, of cpus, threads, disks, irqs; with `processes`: files; with `heap`: leaks; with
    /// `contention`: holds; with `custom`: counters; with `ros2`: chains
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', help_heading = "One analysis")]
    pub(crate) of: Vec<String>,

    /// With `sched`: count switches instead of measuring waits
    #[arg(long, help_heading = "One analysis")]
    pub(crate) switches: bool,

    /// With `memory`: objects of the kernel instead of pages
    #[arg(long, help_heading = "One analysis")]
    pub(crate) slab: bool,

    /// With `processes`: indent by parent
    #[arg(long, help_heading = "One analysis")]
    pub(crate) tree: bool,

    /// With `custom`: the file that defines states and counters
    #[arg(long, value_name = "FILE", help_heading = "One analysis")]
    pub(crate) states: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) periods: PeriodOptions,

    /// The analyses once for each period of this name
    #[arg(long, value_name = "NAME", help_heading = "Periods")]
    pub(crate) per: Option<String>,

    /// Print the table that ties events to concepts; or read more lines from this file, which come first
    #[arg(long, value_name = "FILE", num_args = 0..=1, help_heading = "Meaning of events")]
    pub(crate) concepts: Option<Option<PathBuf>>,

    /// All traces are of one machine: their threads and CPUs are the same
    #[arg(long, help_heading = "Meaning of events")]
    pub(crate) same_host: bool,

    /// With `heap`: look here for what was stripped off programs [default: /usr/lib/debug]
    #[cfg(feature = "debug-info")]
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_info_dir: Option<PathBuf>,

    /// With `heap`: look for the programs below this folder
    #[cfg(feature = "debug-info")]
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_info_target_prefix: Option<PathBuf>,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub(crate) format: AnalyzeFormat,

    /// As --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) json: bool,

    /// Write to this file instead of stdout, replacing it; it gets its name when it is complete
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// When to colour the table and draw bars
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(crate) color: When,

    /// Show and read times in UTC instead of local time
    #[arg(long, help_heading = "Output")]
    pub(crate) clock_gmt: bool,

    /// Show times of tables as seconds since the origin of the clock
    #[arg(long, help_heading = "Output")]
    pub(crate) clock_seconds: bool,
}

/// Options that choose threads, CPUs, spans and rows.
#[derive(Args)]
pub(crate) struct SpanChoice {
    /// Only these threads: 1,4-7
    #[arg(long, value_name = "LIST", help_heading = "Selection")]
    pub(crate) tid: Option<String>,

    /// Only threads of these processes
    #[arg(long, value_name = "LIST", help_heading = "Selection")]
    pub(crate) pid: Option<String>,

    /// Only threads of this name; globs are allowed
    #[arg(long, value_name = "GLOB", help_heading = "Selection")]
    pub(crate) comm: Option<String>,

    /// Only these CPUs
    #[arg(long, value_name = "LIST", help_heading = "Selection")]
    pub(crate) cpu: Option<String>,

    /// Only spans at least this long, such as 10us
    #[arg(long, value_name = "D", value_parser = parse_duration, help_heading = "Selection")]
    pub(crate) min: Option<u64>,

    /// Only spans at most this long
    #[arg(long, value_name = "D", value_parser = parse_duration, help_heading = "Selection")]
    pub(crate) max: Option<u64>,

    /// Only rows for which this filter over the columns is true: 'max_us > 500 and errors == 0'
    #[arg(long = "where", value_name = "EXPR", help_heading = "Selection")]
    pub(crate) condition: Option<String>,
}

/// Options that say what a row is, and which rows are shown in which order.
#[derive(Args)]
pub(crate) struct RowOptions {
    /// Group by this key; each analysis lists its own
    #[arg(long, value_name = "KEY", help_heading = "Rows")]
    pub(crate) by: Option<String>,

    /// The spans themselves, in the order of their ends
    #[arg(long, conflicts_with_all = ["top", "hist"], help_heading = "Rows")]
    pub(crate) log: bool,

    /// The N longest spans
    #[arg(long, value_name = "N", conflicts_with = "hist", help_heading = "Rows")]
    pub(crate) top: Option<usize>,

    /// Durations in N buckets of equal width, or, with `log2`, in powers of two
    #[arg(long, value_name = "N|log2", value_parser = parse_buckets, help_heading = "Rows")]
    pub(crate) hist: Option<Buckets>,

    /// Rows for each step of this length, instead of one for the whole time
    #[arg(long, value_name = "D", value_parser = parse_duration, help_heading = "Rows")]
    pub(crate) step: Option<u64>,

    /// Sort by this column, a header or a key: amounts fall, names and times rise
    #[arg(long, value_name = "COLUMN", help_heading = "Rows")]
    pub(crate) sort: Option<String>,

    /// Show at most N rows
    #[arg(long, value_name = "N", help_heading = "Rows")]
    pub(crate) limit: Option<usize>,
}

/// Buckets of a histogram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Buckets {
    /// A number of buckets of equal width.
    Equal(usize),
    /// From each power of two to the next one.
    PowersOfTwo,
}

fn parse_buckets(text: &str) -> Result<Buckets, String> {
    match text.parse() {
        Ok(count @ 1..=10_000) => Ok(Buckets::Equal(count)),
        Err(_) if text == "log2" => Ok(Buckets::PowersOfTwo),
        _ => Err("it is a number from 1 to 10000, or `log2` for powers of two".to_string()),
    }
}

/// Output formats of `analyze`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum AnalyzeFormat {
    /// Text, in microseconds.
    Table,
    /// One JSON object, in nanoseconds.
    Json,
    /// One JSON object a row, as rows are found.
    Jsonl,
    /// Comma-separated values, in nanoseconds.
    Csv,
}
