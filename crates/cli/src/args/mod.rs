//! What can be typed: one definition gives parsing, help, completions and manual pages.

mod calls;
mod deferred;
mod report;
mod settings;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tracemill_engine::split::SplitBy;

pub(crate) use self::calls::{
    CallArgs, CallFormat, DumpArgs, FlameArgs, FlameFormat, GraphArgs, ReplayArgs, ReportArgs,
};
pub(crate) use self::deferred::Deferred;
pub(crate) use self::report::{ReportCommand, ReportFormat, ReportOptions};
pub(crate) use self::settings::{FormatSettings, TargetSettings};

/// Reads, checks, prints, measures and converts execution traces; `tracemill formats` lists their formats.
#[derive(Parser)]
#[command(name = "tracemill", version, disable_help_subcommand = true, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done; 1 nothing could be done; 2 wrong usage; 3 done, but part of the input \
could not be read (stderr says which); 130 interrupted.")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Say what traces hold: streams, packets, clocks, event classes, times, losses
    Info(Deferred<InfoOptions>),
    /// Print the events of traces in the order of time
    Print(Deferred<PrintOptions>),
    /// Check traces: damaged parts, order, losses, times that go back, bytes that nothing reaches
    Check(Deferred<CheckOptions>),
    /// Write traces in another format, or parts of them
    Convert(Deferred<ConvertOptions>),
    /// Replay function calls as they happened, indented
    Replay(Deferred<ReplayArgs>),
    /// Statistics of functions, or with --state, --from and --to of the time between events
    Report(Deferred<ReportCommand>),
    /// Which function called which, as a tree
    Graph(Deferred<GraphArgs>),
    /// All calls as a picture: an SVG with search and zoom
    Flame(Deferred<FlameArgs>),
    /// Print the records of a trace as they are stored
    Dump(Deferred<DumpArgs>),
    /// List the formats that can be read and written
    Formats(Deferred<FormatsOptions>),
    /// Print a completion script for a shell
    Completions(Deferred<CompletionsOptions>),
    /// Print the manual page, or write those of all commands to a folder
    Man(Deferred<ManOptions>),
}

/// Options of every command that opens traces.
#[derive(Args, Clone)]
pub(crate) struct InputOptions {
    /// Trace files or folders, compressed files or archives of them; a folder that is no trace is searched for traces
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,

    /// Take the input as this format instead of detecting it
    #[arg(long, value_name = "NAME")]
    pub(crate) input_format: Option<String>,

    /// Move the clock of a trace (or of all) by seconds; a decimal fraction is allowed
    #[arg(long, value_name = "[TRACE=]SECONDS", allow_hyphen_values = true)]
    pub(crate) clock_offset: Vec<String>,

    /// Move the clock of a trace (or of all) by nanoseconds
    #[arg(long, value_name = "[TRACE=]NS", allow_hyphen_values = true)]
    pub(crate) clock_offset_ns: Vec<String>,

    /// Correct offset and drift of clocks by messages between traces: names of the events that send and receive them,
    /// or `tcp` for kernel traces
    #[arg(long, value_name = "SEND=RECEIVE")]
    pub(crate) correlate: Option<String>,

    /// Fields that the two ends of a message share
    #[arg(long, value_name = "PATH,..", requires = "correlate")]
    pub(crate) correlate_by: Option<String>,

    /// Threads to use; the output is the same for every number
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Memory for events that wait to be merged, such as 64M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<usize>,

    /// Bytes that a compressed file or an archive may hold unpacked [default: 200 times its size, at least 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_unpacked: Option<usize>,

    /// Show progress on stderr
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) progress: When,

    /// Say faults only, no warnings and losses
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Stop at the first fault, with exit status 1
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) formats: FormatSettings,
}

/// Options that choose events by what they are.
#[derive(Args, Clone)]
pub(crate) struct EventOptions {
    /// First time, included: SECONDS[.FRACTION], Nns, a date, hh:mm:ss, +DURATION after the first event,
    /// -DURATION before the last
    #[arg(long, short, value_name = "T", allow_hyphen_values = true)]
    pub(crate) begin: Option<String>,

    /// Last time, included
    #[arg(long, short, value_name = "T", allow_hyphen_values = true)]
    pub(crate) end: Option<String>,

    /// Only events for which the expression is true, such as 'name == "sched_*" and payload.prev_pid == 0'
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,

    /// Only streams of this name (with globs) or id; may be given again
    #[arg(long, value_name = "S")]
    pub(crate) stream: Vec<String>,
}

/// Options that choose events.
#[derive(Args, Clone)]
pub(crate) struct SelectOptions {
    #[command(flatten)]
    pub(crate) events: EventOptions,

    /// Leave out the first N events, counted after all filters
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip: u64,

    /// Stop after N events, counted after all filters
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

/// `tracemill info`.
#[derive(Args)]
pub(crate) struct InfoOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    /// Count every event instead of reading headers and indexes only
    #[arg(long)]
    pub(crate) count: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// List the packets too
    #[arg(long)]
    pub(crate) packets: bool,
}

/// `tracemill print`.
#[derive(Args)]
pub(crate) struct PrintOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) select: SelectOptions,

    /// Form of the lines
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: PrintFormat,

    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Colour the text
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,

    /// Show universal time instead of local time
    #[arg(long)]
    pub(crate) clock_gmt: bool,

    /// Show dates
    #[arg(long)]
    pub(crate) clock_date: bool,

    /// Show seconds since the origin
    #[arg(long)]
    pub(crate) clock_seconds: bool,

    /// Show clock cycles
    #[arg(long)]
    pub(crate) clock_cycles: bool,

    /// Leave out the time since the line before
    #[arg(long)]
    pub(crate) no_delta: bool,

    /// Names in the text: all, none, or some of payload, context, scope, header
    #[arg(long, short, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) names: Vec<NameGroup>,

    /// Words about trace and event class in the text: all, or some of trace, trace:hostname, trace:domain,
    /// trace:procname, trace:vpid, loglevel, emf
    #[arg(long, short, value_name = "FIELD,...", value_delimiter = ',')]
    pub(crate) fields: Vec<HeaderField>,

    /// Columns of the CSV: paths as in filters
    #[arg(long, value_name = "PATH,...", allow_hyphen_values = true)]
    pub(crate) columns: Option<String>,
}

/// `tracemill convert`.
#[derive(Args)]
pub(crate) struct ConvertOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) select: SelectOptions,

    /// Format to write; `tracemill formats` lists them
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: String,

    /// Where to: a name that nothing has yet; `-` is standard output, for formats that are one file
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: PathBuf,

    /// Replace what has the name of the output
    #[arg(long)]
    pub(crate) force: bool,

    /// Write what the output cannot hold to this file, as JSON; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) loss_report: Option<PathBuf>,

    /// Make one trace of several, instead of a folder of them
    #[arg(long)]
    pub(crate) merge: bool,

    /// End packets at this size, such as 256K, instead of where those of the input end
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) packet_size: Option<usize>,

    /// Order of the bytes of numbers [default: that of the trace, or what the format prefers]
    #[arg(long, value_name = "ORDER")]
    pub(crate) byte_order: Option<WrittenOrder>,

    /// Write an LTTng index beside each stream that has a clock
    #[arg(long)]
    pub(crate) index: bool,

    #[command(flatten)]
    pub(crate) target: TargetSettings,

    /// Write a folder of parts: one for each `stream` or `process`, for each `time=DURATION`, or of about `size=SIZE`
    #[arg(long, value_name = "BY", value_parser = parse_split)]
    pub(crate) split: Option<SplitBy>,

    /// Put other values in the place of those of fields: the same one for the same value
    #[arg(long, value_name = "PATH,..", visible_alias = "anonymize")]
    pub(crate) anonymise: Vec<String>,

    /// Leave fields out, with everything below them
    #[arg(long, value_name = "PATH,..")]
    pub(crate) drop_field: Vec<String>,

    /// Read times without a zone in --begin, --end and --filter as universal time
    #[arg(long)]
    pub(crate) clock_gmt: bool,
}

/// `tracemill check`.
#[derive(Args)]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tracemill formats`.
#[derive(Args)]
pub(crate) struct FormatsOptions {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tracemill completions`.
#[derive(Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// `tracemill man`.
#[derive(Args)]
pub(crate) struct ManOptions {
    /// Write the pages of all commands to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// When something is done that a terminal decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum When {
    /// On a terminal.
    Auto,
    /// Always.
    #[value(aliases = ["yes", "true", "on", "y", "1"])]
    Always,
    /// Never.
    #[value(aliases = ["no", "false", "off", "n", "0"])]
    Never,
}

/// Byte orders of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum WrittenOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Forms of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PrintFormat {
    /// As babeltrace2 prints.
    Text,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values.
    Csv,
}

/// Groups of names in a text line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum NameGroup {
    /// All of them.
    All,
    /// None of them.
    None,
    /// Payload fields.
    #[value(alias = "args", alias = "arg")]
    Payload,
    /// Context fields.
    Context,
    /// Scopes.
    Scope,
    /// Time and words at the beginning.
    Header,
}

/// Words about trace and event class in a text line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum HeaderField {
    /// All of them.
    All,
    /// Name of the trace.
    Trace,
    /// Host name.
    #[value(name = "trace:hostname")]
    Hostname,
    /// Domain.
    #[value(name = "trace:domain")]
    Domain,
    /// Name of the process.
    #[value(name = "trace:procname")]
    Procname,
    /// Id of the process.
    #[value(name = "trace:vpid")]
    Vpid,
    /// Log level of the event class.
    Loglevel,
    /// EMF URI of the event class.
    Emf,
    /// Accepted and without effect, as in babeltrace2.
    #[value(hide = true)]
    Callsite,
}

/// Bytes with an optional binary suffix: `64M`, `1GiB`.
fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err("expected a number of bytes with K, M or G".into()),
    };
    let number: usize = digits.parse().map_err(|_| "expected a number of bytes with K, M or G".to_string())?;
    number.checked_mul(1 << shift).filter(|&size| size > 0).ok_or_else(|| "out of range".to_string())
}

/// What an output is split by.
fn parse_split(text: &str) -> Result<SplitBy, String> {
    match text.split_once('=') {
        None if text == "stream" => Ok(SplitBy::Stream),
        None if text == "process" => Ok(SplitBy::Process),
        Some(("time", duration)) => parse_duration(duration).map(SplitBy::Time),
        Some(("size", size)) => parse_size(size).map(|size| SplitBy::Size(size as u64)),
        _ => Err("expected `stream`, `process`, `time=DURATION` or `size=SIZE`".to_string()),
    }
}

/// A time with units, such as `1.5s` or `1m30s`, in ns.
fn parse_duration(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];
    let wrong = || "expected a time with units (ns us ms s m h d), such as 1.5s or 1m30s".to_string();
    let (mut rest, mut total) = (text, 0u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let letters = rest[digits..].find(|c: char| !c.is_ascii_alphabetic()).map_or(rest.len(), |at| digits + at);
        let (number, unit) = (&rest[..digits], &rest[digits..letters]);
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut ns = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(*unit)).ok_or_else(wrong)?;
        let mut part = *unit;
        for digit in fraction.bytes() {
            part /= 10;
            ns += u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10).ok_or_else(wrong)?) * part;
        }
        total = total.checked_add(ns).ok_or_else(wrong)?;
        rest = &rest[letters..];
    }
    if total == 0 { Err(wrong()) } else { Ok(total) }
}
