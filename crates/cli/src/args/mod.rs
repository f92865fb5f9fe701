//! The command line: one definition gives parsing, help, completions and manual pages.

#[macro_use]
mod by_hand;

mod analyze;
mod arrange;
mod calls;
mod cluster;
mod deferred;
mod diff;
mod examples;
mod live;
pub(crate) mod paths;
mod periods;
mod record;
mod report;
mod samples;
mod settings;
mod sql;
mod topics;
mod tui;
mod view;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use tracemill_engine::option_values::size as parse_size;
use tracemill_engine::split::SplitBy;

pub(crate) use self::analyze::{AnalyzeFormat, AnalyzeOptions, Buckets};
pub(crate) use self::arrange::arranged;
pub(crate) use self::calls::{
    CallArgs, CallFormat, DumpArgs, FlameArgs, FlameFormat, GraphArgs, ReplayArgs, ReportArgs, with_opt_files,
};
pub(crate) use self::cluster::ClusterOptions;
#[cfg(feature = "distributed")]
pub(crate) use self::cluster::ClusterPart;
pub(crate) use self::deferred::Deferred;
pub(crate) use self::diff::{DiffCommand, DiffFormat, DiffOptions};
pub(crate) use self::examples::{examples_of, with_examples};
pub(crate) use self::live::{LiveOptions, RecvOptions};
pub(crate) use self::periods::{PeriodOption, PeriodOptions};
pub(crate) use self::record::RecordOptions;
#[cfg(has_recorder)]
pub(crate) use self::record::{CallGraphArg, ClockArg, RecordMode, WhenFull};
pub(crate) use self::report::{ReportCommand, ReportFormat, ReportOptions};
pub(crate) use self::samples::{CpuArg, SampleArgs, SymbolArgs, WeightArg};
pub(crate) use self::settings::{FormatSettings, TargetSettings};
pub(crate) use self::sql::{QueryCommand, SqlCommand, SqlOptions};
#[cfg(feature = "sql")]
pub(crate) use self::sql::{SqlFormat, SqlText};
pub(crate) use self::topics::{help_of_topic, help_without_topics};
pub(crate) use self::tui::TuiOptions;
#[cfg(feature = "viewer")]
pub(crate) use self::view::CacheAction;
pub(crate) use self::view::{CacheCommand, CacheOptions, ViewOptions};

/// Reads, checks, prints, measures and converts execution traces; `tracemill formats` lists the formats.
#[derive(Parser)]
#[command(name = "tracemill", version, disable_help_subcommand = true, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done; 1 nothing could be done; 2 wrong usage; 3 done, but part of the input \
could not be read (stderr says which); 130 interrupted.")]
pub(crate) struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands that a build may lack, and whether this one has them.
const OPTIONAL: [(&str, bool); 7] = [
    ("record", cfg!(has_recorder)),
    ("sql", cfg!(feature = "sql")),
    ("query", cfg!(feature = "sql")),
    ("cluster", cfg!(feature = "distributed")),
    ("view", cfg!(feature = "viewer")),
    ("tui", cfg!(feature = "viewer")),
    ("cache", cfg!(feature = "viewer")),
];

/// The definition of the program, with a mark at each command that this build lacks.
pub(crate) fn program() -> clap::Command {
    let lacking = OPTIONAL.into_iter().filter(|(_, is_there)| !is_there);
    lacking.fold(Cli::command(), |program, (name, _)| {
        program.mut_subcommand(name, |command| {
            let about = command.get_about().cloned().unwrap_or_default();
            command.about(format!("{about} (not in this build)"))
        })
    })
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Describe traces: format, times, clocks, streams, packets, event classes, losses
    Info(Deferred<InfoOptions>),
    /// Record a program's calls, events or samples, or finish the trace of one that was killed
    Record(Deferred<RecordOptions>),
    /// Receive recordings of calls that other machines send with `record --host`, by uftrace's protocol
    Recv(Deferred<RecvOptions>),
    /// Print the events of traces in time order
    Print(Deferred<PrintOptions>),
    /// Check the integrity of traces: damage, order, losses, times that go back, unreachable bytes
    Check(Deferred<CheckOptions>),
    /// Convert traces, or parts of them, to another format
    Convert(Deferred<ConvertOptions>),
    /// Print function calls in the order in which they happened, indented by depth
    Replay(Deferred<ReplayArgs>),
    /// Report statistics of function calls or, with --state or --from and --to, of the time between events
    Report(Deferred<ReportCommand>),
    /// Say what kernel traces mean: who used the CPUs, who waited for what, which interrupts and system calls took long
    Analyze(Deferred<AnalyzeOptions>),
    /// Compare two traces: event classes and fields, counts, order, and how values and times are spread
    Diff(Deferred<DiffCommand>),
    /// Ask questions in SQL: tables of events, of each event class, and of what surrounds them
    Sql(Deferred<SqlCommand>),
    /// Ask one question in SQL: `tracemill query TRACE... SQL`
    Query(Deferred<QueryCommand>),
    /// Run a part of a cluster that answers `sql --cluster`: a scheduler, or an executor
    Cluster(Deferred<ClusterOptions>),
    /// Show traces in the browser
    #[command(visible_alias = "open")]
    View(Deferred<ViewOptions>),
    /// Show traces in the terminal: events, calls, functions, the call graph
    Tui(Deferred<TuiOptions>),
    /// List or remove the indexes that `view` and `tui` keep, so that a trace opens at once the next time
    Cache(Deferred<CacheCommand>),
    /// Print the call graph: which function called which, as a tree
    Graph(Deferred<GraphArgs>),
    /// Draw a flame graph of all calls: an SVG with search and zoom
    Flame(Deferred<FlameArgs>),
    /// Print the records of a trace as they are stored
    Dump(Deferred<DumpArgs>),
    /// List the formats that can be read and written
    Formats(Deferred<FormatsOptions>),
    /// Print a completion script for a shell
    Completions(Deferred<CompletionsOptions>),
    /// Print the manual page, or write those of all commands to a folder
    Man(Deferred<ManOptions>),
    /// Print this help, or that of a command: `tracemill help print`
    Help(Deferred<HelpOptions>),
}

/// `tracemill help`.
#[derive(Args)]
pub(crate) struct HelpOptions {
    /// A command, and where its help has pages of their own, the topic of one: `tracemill help analyze periods`
    #[arg(value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

/// Options of every command that opens traces.
#[derive(Args, Clone, Default)]
pub(crate) struct InputOptions {
    /// Trace files or folders, or compressed files or archives of them; a folder that is not a trace is searched for
    /// traces
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,

    /// Read the input as this format instead of detecting it; `tracemill formats` lists the names
    #[arg(long, short_alias = 'i', value_name = "NAME")]
    pub(crate) input_format: Option<String>,

    /// Shift the clock of one trace, or of all, by this many seconds; a decimal fraction is allowed
    #[arg(long, value_name = "[TRACE=]SECONDS", allow_hyphen_values = true)]
    pub(crate) clock_offset: Vec<String>,

    /// Shift the clock of one trace, or of all, by this many nanoseconds
    #[arg(long, value_name = "[TRACE=]NS", allow_hyphen_values = true)]
    pub(crate) clock_offset_ns: Vec<String>,

    /// Correct the offset and drift of clocks from messages between traces: the names of the events that send and
    /// receive them, or `tcp` for kernel traces
    #[arg(long, value_name = "SEND=RECEIVE")]
    pub(crate) correlate: Option<String>,

    /// Fields by which --correlate pairs the two ends of a message
    #[arg(long, value_name = "PATH,..", requires = "correlate")]
    pub(crate) correlate_by: Option<String>,

    /// Number of threads; the output is the same for every number
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    /// Memory for events that wait to be merged with those of other streams, such as 64M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<usize>,

    /// Largest unpacked size of a compressed file or an archive [default: 200 times its size, at least 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_unpacked: Option<usize>,

    /// When to show progress on stderr
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) progress: When,

    #[command(flatten)]
    pub(crate) messages: MessageOptions,

    #[command(flatten)]
    pub(crate) formats: FormatSettings,
}

/// Options that say what is reported on stderr.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct MessageOptions {
    /// Report errors only, not warnings and losses
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Report every error and every loss, not only the first error of a kind and the sum of losses of a stream
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Stop at the first error, with exit status 1
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Options that select events by their properties.
#[derive(Args, Clone, Default)]
pub(crate) struct EventOptions {
    /// Leave out events before this time: SECONDS[.FRACTION], Nns, a date, hh:mm:ss, +DURATION after the first event,
    /// or -DURATION before the last
    #[arg(long, short, value_name = "T", allow_hyphen_values = true)]
    pub(crate) begin: Option<String>,

    /// Leave out events after this time, written as for --begin
    #[arg(long, short, value_name = "T", allow_hyphen_values = true)]
    pub(crate) end: Option<String>,

    /// Keep only events for which the expression is true, such as 'name == "sched_*" and payload.prev_pid == 0'
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) filter: Option<String>,

    /// Keep only streams with this name (globs are allowed) or id; may be repeated
    #[arg(long, value_name = "S")]
    pub(crate) stream: Vec<String>,
}

/// Options that select events.
#[derive(Args, Clone, Default)]
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

/// Text or JSON.
#[derive(Args)]
pub(crate) struct FormArgs {
    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: TextFormat,

    /// As --format json: one object
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Output formats of commands that describe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum TextFormat {
    /// Text for people.
    Text,
    /// One JSON object.
    Json,
}

impl FormArgs {
    /// Is the output one JSON object?
    pub(crate) fn is_json(&self) -> bool {
        self.json || self.format == TextFormat::Json
    }
}

/// `tracemill info`.
#[derive(Args)]
pub(crate) struct InfoOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    /// Count every event, instead of reading only headers and indexes
    #[arg(long)]
    pub(crate) count: bool,

    #[command(flatten)]
    pub(crate) form: FormArgs,

    /// List the packets of each trace, too
    #[arg(long)]
    pub(crate) packets: bool,

    #[command(flatten)]
    pub(crate) live: LiveOptions,

    /// Write to this file instead of stdout, replacing it; it gets its name when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `tracemill print`.
#[derive(Args, Clone, Default)]
pub(crate) struct PrintOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) select: SelectOptions,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: PrintFormat,

    /// Write to this file instead of stdout, replacing it; it gets its name when it is complete
    #[arg(long, short, short_alias = 'w', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// When to colour the text
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,

    /// Show and read times in UTC instead of local time
    #[arg(long)]
    pub(crate) clock_gmt: bool,

    /// Show the date with each time
    #[arg(long)]
    pub(crate) clock_date: bool,

    /// Show times as seconds since the origin of the clock
    #[arg(long)]
    pub(crate) clock_seconds: bool,

    /// Show times as clock cycles
    #[arg(long)]
    pub(crate) clock_cycles: bool,

    /// Leave out the time since the previous event
    #[arg(long)]
    pub(crate) no_delta: bool,

    /// Names to show in the text: all, none, or some of payload, context, scope, header
    #[arg(long, short, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) names: Vec<NameGroup>,

    /// Properties of the trace and the event class to show in the text: all, or some of trace, trace:hostname,
    /// trace:domain, trace:procname, trace:vpid, loglevel, emf
    #[arg(long, short, value_name = "FIELD,...", value_delimiter = ',')]
    pub(crate) fields: Vec<HeaderField>,

    /// Columns of the CSV: paths as in filters, or `all` for each field
    #[arg(long, value_name = "PATH,...|all", allow_hyphen_values = true)]
    pub(crate) columns: Option<String>,

    /// JSON lines with one key per field, enumerations also by label
    #[arg(long, conflicts_with = "columns")]
    pub(crate) flat: bool,

    #[command(flatten)]
    pub(crate) live: LiveOptions,

    #[command(flatten)]
    pub(crate) peer: PeerOptions,
}

/// Options that babeltrace2 has, under its names.
#[derive(Args, Clone, Default)]
pub(crate) struct PeerOptions {
    /// Keep only events in this range, whose ends are written as for --begin
    #[arg(long, short = 't', value_name = "BEGIN,END", conflicts_with_all = ["begin", "end"], allow_hyphen_values = true)]
    pub(crate) timerange: Option<String>,

    /// Of each trace, keep only events in the time in which all of its streams have packets
    #[arg(long)]
    pub(crate) stream_intersection: bool,

    #[cfg(feature = "debug-info")]
    #[command(flatten)]
    pub(crate) debug_info: DebugInfoOptions,

    /// Clocks of all traces are on one timeline anyway
    #[arg(long, hide = true)]
    pub(crate) clock_force_correlate: bool,

    /// As --verbose
    #[arg(long, short = 'd', hide = true)]
    pub(crate) debug: bool,

    /// Without effect: there is no log
    #[arg(long, short = 'l', hide = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,

    /// Without effect: how often a relay daemon is asked follows from the live timer of its session
    #[arg(long, hide = true, value_name = "DURATION")]
    pub(crate) retry_duration: Option<String>,
}

/// Functions and lines of addresses; each of these options asks for them.
#[cfg(feature = "debug-info")]
#[derive(Args, Clone, Default)]
pub(crate) struct DebugInfoOptions {
    /// Show file, function and source line of each `ip` of LTTng-UST in the text, by the program's files
    #[arg(long)]
    pub(crate) debug_info: bool,

    /// Look here for what was stripped off [default: /usr/lib/debug]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) debug_info_dir: Option<PathBuf>,

    /// Show whole paths, not names of files
    #[arg(long, hide_short_help = true)]
    pub(crate) debug_info_full_path: bool,

    /// Look for the programs below this folder
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) debug_info_target_prefix: Option<PathBuf>,
}

/// `tracemill convert`.
#[derive(Args, Clone)]
pub(crate) struct ConvertOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) live: LiveOptions,

    #[command(flatten)]
    pub(crate) select: SelectOptions,

    /// Output format; `tracemill formats` lists the names [default: that of the ending of OUT, such as .pftrace, .json,
    /// .csv, .svg or .ctf]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,

    /// Path of the output, where nothing may exist unless --force is given; `-` is stdout, for formats that are one file
    /// [default: the last TRACE, when there are several]
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Replace an output that exists
    #[arg(long)]
    pub(crate) force: bool,

    /// Open the output in ui.perfetto.dev, whose page fetches it from this machine (127.0.0.1:9001); for perfetto and chrome
    #[arg(long)]
    pub(crate) open: bool,

    /// List what the format cannot hold in this file, as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) loss_report: Option<PathBuf>,

    /// Write several traces as one trace, instead of as a folder of traces
    #[arg(long)]
    pub(crate) merge: bool,

    /// Size of packets, such as 256K, instead of that in the input
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) packet_size: Option<usize>,

    /// Byte order of the output [default: that of the trace, or the one that the format prefers]
    #[arg(long, value_name = "ORDER")]
    pub(crate) byte_order: Option<WrittenOrder>,

    /// Write an LTTng index beside each stream that has a clock
    #[arg(long)]
    pub(crate) index: bool,

    #[command(flatten)]
    pub(crate) target: TargetSettings,

    /// Split the output into a folder of parts: one per `stream` or `process`, per `time=DURATION`, or per `size=SIZE`
    #[arg(long, value_name = "BY", value_parser = parse_split)]
    pub(crate) split: Option<SplitBy>,

    /// Replace the values of these fields by meaningless ones; equal values stay equal
    #[arg(long, value_name = "PATH,..", visible_alias = "anonymize")]
    pub(crate) anonymise: Vec<String>,

    /// Leave out these fields and everything below them
    #[arg(long, value_name = "PATH,..")]
    pub(crate) drop_field: Vec<String>,

    /// With `--to html`: the page shows the states that this file defines
    #[arg(long, value_name = "FILE")]
    pub(crate) states: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,

    /// Show and read times in UTC instead of local time
    #[arg(long)]
    pub(crate) clock_gmt: bool,
}

/// `tracemill check`.
#[derive(Args)]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) form: FormArgs,

    /// Write to this file instead of stdout, replacing it; it gets its name when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `tracemill formats`.
#[derive(Args)]
pub(crate) struct FormatsOptions {
    #[command(flatten)]
    pub(crate) form: FormArgs,
}

/// `tracemill completions`.
#[derive(Args)]
pub(crate) struct CompletionsOptions {
    /// Shell to print the script for
    pub(crate) shell: clap_complete::Shell,
}

/// `tracemill man`.
#[derive(Args)]
pub(crate) struct ManOptions {
    /// Write the pages of all commands to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// When something that depends on a terminal is done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum When {
    /// Only on a terminal.
    #[default]
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

/// Output formats of `print`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PrintFormat {
    /// Text as babeltrace2 prints it.
    #[default]
    Text,
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated values.
    Csv,
}

/// Groups of names in a text line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum NameGroup {
    /// All names.
    All,
    /// No names.
    None,
    /// Names of payload fields.
    #[value(alias = "args", alias = "arg")]
    Payload,
    /// Names of context fields.
    Context,
    /// Names of scopes.
    Scope,
    /// Names at the beginning of the line, such as `timestamp`.
    Header,
}

/// Properties of trace and event class in a text line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum HeaderField {
    /// All properties.
    All,
    /// Name of the trace.
    Trace,
    /// Host name.
    #[value(name = "trace:hostname")]
    Hostname,
    /// Tracing domain, such as `kernel`.
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

/// Criterion by which an output is split.
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
pub(super) fn parse_duration(text: &str) -> Result<u64, String> {
    let found = tracemill_engine::filter::parse_duration(text).ok().and_then(|ns| u64::try_from(ns).ok());
    let wrong = || "expected a time with units (ns us ms s m h d), such as 1.5s or 1m30s".to_string();
    found.filter(|ns| *ns > 0).ok_or_else(wrong)
}
