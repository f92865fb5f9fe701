//! What can be typed: one definition gives parsing, help, completions and manual pages.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use tracemill_calls::rules::{PatternKind, RuleTexts};
use tracemill_engine::convert::target_settings;
use tracemill_engine::split::SplitBy;
use tracemill_formats::api::{Setting, Settings};
use tracemill_formats::registry;

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
    Info(InfoOptions),
    /// Print the events of traces in the order of time
    Print(Box<PrintOptions>),
    /// Check traces: damaged parts, order, losses, times that go back, bytes that nothing reaches
    Check(CheckOptions),
    /// Write traces in another format, or parts of them
    Convert(Box<ConvertOptions>),
    /// Replay function calls as they happened, indented
    Replay(Box<ReplayArgs>),
    /// Statistics of functions, or with --state, --from and --to of the time between events
    Report(Box<ReportCommand>),
    /// Which function called which, as a tree
    Graph(Box<GraphArgs>),
    /// All calls as a picture: an SVG with search and zoom
    Flame(Box<FlameArgs>),
    /// Print the records of a trace as they are stored
    Dump(Box<DumpArgs>),
    /// List the formats that can be read and written
    Formats(FormatsOptions),
    /// Print a completion script for a shell
    Completions(CompletionsOptions),
    /// Print the manual page, or write those of all commands to a folder
    Man(ManOptions),
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

/// The options that formats add: the registry names them.
#[derive(Clone, Default)]
pub(crate) struct FormatSettings(pub(crate) Settings);

/// The options that formats add that are written.
#[derive(Clone, Default)]
pub(crate) struct TargetSettings(pub(crate) Settings);

/// Options that a registry names.
trait Named: Default {
    const HEADING: &'static str;

    fn list() -> Vec<&'static Setting>;

    fn new(settings: Settings) -> Self;
}

impl Named for FormatSettings {
    const HEADING: &'static str = "Options of formats";

    fn list() -> Vec<&'static Setting> {
        registry::settings()
    }

    fn new(settings: Settings) -> Self {
        FormatSettings(settings)
    }
}

impl Named for TargetSettings {
    const HEADING: &'static str = "Options of formats that are written";

    fn list() -> Vec<&'static Setting> {
        target_settings()
    }

    fn new(settings: Settings) -> Self {
        TargetSettings(settings)
    }
}

fn typed<T: Named>(matches: &ArgMatches) -> T {
    let mut settings = Settings::default();
    for setting in T::list() {
        match setting.value {
            Some(_) => {
                let value = matches.get_one::<String>(setting.name);
                settings.0.extend(value.map(|value| (setting.name, value.clone())));
            }
            None if matches.get_flag(setting.name) => {
                settings.0.insert(setting.name, String::new());
            }
            None => {}
        }
    }
    T::new(settings)
}

fn augmented<T: Named>(command: clap::Command) -> clap::Command {
    T::list().into_iter().fold(command, |command, setting| {
        let arg = Arg::new(setting.name).long(setting.name).help(setting.help).help_heading(T::HEADING);
        command.arg(match setting.value {
            Some(value) => arg.value_name(value).action(ArgAction::Set).allow_hyphen_values(true),
            None => arg.action(ArgAction::SetTrue),
        })
    })
}

impl clap::FromArgMatches for FormatSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(typed(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = typed(matches);
        Ok(())
    }
}

impl Args for FormatSettings {
    fn augment_args(command: clap::Command) -> clap::Command {
        augmented::<Self>(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for TargetSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(typed(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = typed(matches);
        Ok(())
    }
}

impl Args for TargetSettings {
    fn augment_args(command: clap::Command) -> clap::Command {
        augmented::<Self>(command).after_long_help(losses_of_targets())
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// What each output format cannot hold.
fn losses_of_targets() -> String {
    let mut text = String::from("What the formats cannot hold (it is counted when it is lost; --strict refuses):\n");
    for target in tracemill_engine::convert::targets() {
        let name = target.names.first().copied().unwrap_or_default();
        text += &format!("  {name}: {}\n", target.cannot_hold.join("; "));
    }
    text
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

/// `tracemill report`: with an event to measure from, the time between events; otherwise function calls.
pub(crate) enum ReportCommand {
    /// The time between events.
    Times(Box<ReportOptions>),
    /// Function calls.
    Calls(Box<ReportArgs>),
}

/// What the options of a part of a command are called.
fn ids<T: Args>() -> Vec<String> {
    let command = T::augment_args(clap::Command::new("part"));
    command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

/// Options that make it the time between events.
const OF_TIMES: [&str; 4] = ["state", "from", "to", "regress"];

impl FromArgMatches for ReportCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let traces = matches.get_many::<PathBuf>("traces").map_or(0, Iterator::count);
        let wrong = |kind, message: &str| clap::Error::raw(kind, format!("{message}\n"));
        let (times, calls) = (ids::<ReportOptions>(), ids::<ReportArgs>());
        let is_of_times = OF_TIMES.iter().any(is_typed);
        let (own, other) = if is_of_times { (times, calls) } else { (calls, times) };
        if let Some(id) = other.iter().find(|id| !own.contains(id) && is_typed(&id.as_str())) {
            let what = match is_of_times {
                true => "is for function calls, and not for --state, --from and --to",
                false => "is for the time between events: name them with --state, or with --from and --to",
            };
            let message = format!("--{} {what}", id.replace('_', "-"));
            return Err(wrong(clap::error::ErrorKind::ArgumentConflict, &message));
        }
        if is_of_times {
            if traces == 0 {
                let message = "the time between events needs a TRACE";
                return Err(wrong(clap::error::ErrorKind::MissingRequiredArgument, message));
            }
            return Ok(ReportCommand::Times(Box::new(ReportOptions::from_arg_matches(matches)?)));
        }
        if traces > 1 {
            let message = "the calls of one TRACE are followed at a time; --state, --from and --to take several";
            return Err(wrong(clap::error::ErrorKind::TooManyValues, message));
        }
        Ok(ReportCommand::Calls(Box::new(ReportArgs::from_arg_matches(matches)?)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ReportCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ReportCommand {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = ReportOptions::augment_args(command).mut_arg("traces", |arg| arg.required(false));
        let of_calls = ReportArgs::augment_args(clap::Command::new("calls"));
        let known = ids::<ReportOptions>();
        let more = of_calls.get_arguments().filter(|arg| !known.iter().any(|id| *id == arg.get_id().as_str()));
        // `--filter` chooses events here; functions have the short form alone.
        let own = |arg: Arg| if arg.get_long() == Some("filter") { arg.long(None) } else { arg };
        // The same for letters of options that have no effect.
        let taken: Vec<char> = command.get_arguments().filter_map(Arg::get_short).collect();
        let own = |arg: Arg| {
            if arg.is_hide_set() && arg.get_short().is_some_and(|it| taken.contains(&it)) {
                arg.short(None)
            } else {
                own(arg)
            }
        };
        command.args(more.cloned().map(|arg| own(arg.help_heading("Function calls"))))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Statistics of the time between events.
#[derive(Args)]
#[command(
    after_help = "EVENT is the name of an event (`*` and `?` are globs) or its number. Without --by, events are \
grouped by their field `track`, or by their stream when they have none."
)]
pub(crate) struct ReportOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) events: EventOptions,

    /// Time from each occurrence of this event to the next, charged to the group of the earlier one
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["from", "to"], help_heading = "Analyses")]
    pub(crate) state: Option<String>,

    /// Time from this event to the event of --to of the same group
    #[arg(long, value_name = "EVENT", requires = "to", help_heading = "Analyses")]
    pub(crate) from: Option<String>,

    /// The event that ends what --from begins
    #[arg(long, value_name = "EVENT", requires = "from", help_heading = "Analyses")]
    pub(crate) to: Option<String>,

    /// Linear regression of the durations over their number. With --from and --to, pairs nest as calls do, the time
    /// of inner pairs is not counted for outer ones, and they are grouped by the field `datum` of the first event
    #[arg(long, help_heading = "Analyses")]
    pub(crate) regress: bool,

    /// With --state: a state ends at the next occurrence of its own group, not at that of any group
    #[arg(long, requires = "state")]
    pub(crate) within: bool,

    /// Group by the values of these paths, which are those of filters, over all traces
    #[arg(long, value_name = "PATH,...")]
    pub(crate) by: Option<String>,

    /// With --regress, --from and --to: where pairs nest [default: the field `track`, or the stream]
    #[arg(long, value_name = "PATH,...", requires_all = ["regress", "from"])]
    pub(crate) lane: Option<String>,

    /// With --regress: say what N durations would take together; may be given again
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "regress")]
    pub(crate) model: Vec<u64>,

    /// Order of the groups: total, count or group; of functions: keys, such as total,call
    #[arg(long, short, value_name = "ORDER")]
    pub(crate) sort: Option<String>,

    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: ReportFormat,

    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Times without a zone are universal time instead of local time
    #[arg(long)]
    pub(crate) clock_gmt: bool,
}

/// Forms of reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people, in microseconds.
    #[value(alias = "normal")]
    Table,
    /// Functions as a page.
    Html,
    /// One JSON object, in nanoseconds.
    Json,
    /// Comma-separated values, in nanoseconds.
    Csv,
}

/// Options of the commands that follow calls; those of uftrace of the same name.
#[derive(Args, Clone)]
pub(crate) struct CallArgs {
    /// Trace; without one `uftrace.data` here
    #[arg(id = "traces", value_name = "TRACE")]
    pub(crate) trace: Option<PathBuf>,

    /// The same
    #[arg(long, short, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Take the input as this format instead of detecting it
    #[arg(long, value_name = "NAME")]
    pub(crate) input_format: Option<String>,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,

    /// Only calls that take at least this long, such as 50us, and what they are inside of
    #[arg(long, short, value_name = "TIME", conflicts_with = "time_range")]
    pub(crate) time_filter: Option<String>,

    /// Only records of this time: seconds of the clock, or with a unit the time since the first record; each end may
    /// be left out
    #[arg(long, short = 'r', value_name = "BEGIN~END")]
    pub(crate) time_range: Option<String>,

    /// Leave out calls that are deeper
    #[arg(long, short = 'D', value_name = "DEPTH", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) depth: Option<i32>,

    /// Only these tasks
    #[arg(long, value_name = "TID,...", value_delimiter = ',')]
    pub(crate) tid: Vec<i64>,

    /// Leave out calls to libraries
    #[arg(long)]
    pub(crate) no_libcall: bool,

    /// Leave out events
    #[arg(long)]
    pub(crate) no_event: bool,

    /// Leave out where tasks give their processor away and get one
    #[arg(long)]
    pub(crate) no_sched: bool,

    /// Leave out where they are made to
    #[arg(long)]
    pub(crate) no_sched_preempt: bool,

    /// Show nothing before a trigger `trace_on`
    #[arg(long)]
    pub(crate) disable: bool,

    /// Which names of C++ and Rust are shown, and matched by patterns
    #[arg(long, value_name = "FORM", default_value = "simple")]
    pub(crate) demangle: DemangleArg,

    /// Colours; `auto` for a terminal only
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,

    /// Show what the kernel does outside of all functions too
    #[arg(long)]
    pub(crate) kernel_full: bool,

    /// Show nothing but what the kernel does
    #[arg(long)]
    pub(crate) kernel_only: bool,

    #[command(flatten)]
    pub(crate) unused: UnusedArgs,

    /// Show events outside of all functions too
    #[arg(long)]
    pub(crate) event_full: bool,

    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Say faults only, no warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Stop at the first fault, with exit status 1
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The options that name functions, in uftrace's language.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleArgs(pub(crate) RuleTexts);

/// Id, name, letter, value and help of those that may be given again. The id is not the name: the other half of `report`
/// has a `--filter` too.
const RULES: [(&str, &str, char, &str, &str); 6] = [
    ("functions_in", "filter", 'F', "FUNC[@ACTION,...]", "Only these functions and what they call; names are patterns"),
    ("functions_out", "notrace", 'N', "FUNC", "Leave these functions out, and what they call"),
    (
        "triggers",
        "trigger",
        'T',
        "FUNC@ACTION,...",
        "What is done at these functions: filter, notrace, depth=N, time=T, size=N, \
        trace, trace_on, trace_off, caller, hide, backtrace",
    ),
    ("callers", "caller-filter", 'C', "FUNC", "Only calls that lead to these functions"),
    ("hidden", "hide", 'H', "FUNC", "Leave these functions out, without what they call"),
    ("locations", "loc-filter", 'L', "FILE", "Only functions of this source file or folder; with @hide all but those"),
];

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of = |id: &str| {
            let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
            matches.indices_of(id).into_iter().flatten().zip(values).collect::<Vec<_>>()
        };
        let plain = |id: &str| of(id).into_iter().map(|(_, text)| text).collect();
        // A function that both name does what the last one says.
        let not = |text: String| text.split(';').map(|item| format!("!{item}")).collect::<Vec<_>>().join(";");
        let mut filters = of("functions_in");
        filters.extend(of("functions_out").into_iter().map(|(at, text)| (at, not(text))));
        filters.sort_by_key(|&(at, _)| at);
        Ok(RuleArgs(RuleTexts {
            filters: filters.into_iter().map(|(_, text)| text).collect(),
            triggers: plain("triggers"),
            callers: plain("callers"),
            hides: plain("hidden"),
            // What stands behind the word does not count.
            locations: plain("locations")
                .into_iter()
                .map(|text: String| text.split_once("@hide").map_or(text.clone(), |(name, _)| not(name.to_string())))
                .collect(),
            patterns: match matches.get_one::<PatternArg>("functions_match") {
                Some(PatternArg::Glob) => PatternKind::Glob,
                _ => PatternKind::Regex,
            },
            size: matches.get_one::<u64>("functions_size").copied().unwrap_or(0),
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = RuleArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RuleArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = RULES.into_iter().fold(command, |command, (id, name, letter, value, help)| {
            let arg = Arg::new(id).long(name).short(letter).value_name(value).help(help);
            command.arg(arg.action(ArgAction::Append).allow_hyphen_values(true))
        });
        let size = Arg::new("functions_size").long("size-filter").short('Z').value_name("BYTES");
        let size = size.value_parser(clap::value_parser!(u64)).help("Only functions of at least this size");
        let patterns = Arg::new("functions_match").long("match").value_name("KIND");
        let patterns =
            patterns.value_parser(clap::value_parser!(PatternArg)).help("How names of functions are matched");
        command.arg(size).arg(patterns)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Which form of names is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DemangleArg {
    /// With parameters and template arguments.
    Full,
    /// The qualified name alone.
    Simple,
    /// As it is stored.
    No,
}

impl DemangleArg {
    /// The word of the option.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DemangleArg::Full => "full",
            DemangleArg::Simple => "simple",
            DemangleArg::No => "no",
        }
    }
}

/// Options of uftrace that say how something is recorded, or how its reader runs: accepted, and without effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnusedArgs;

/// Their names with their letters; those of the first list have a value.
const UNUSED: [&[(&str, Option<char>)]; 2] = [
    &[
        ("argument", Some('A')),
        ("retval", Some('R')),
        ("buffer", Some('b')),
        ("kernel-depth", Some('K')),
        ("kernel-buffer", None),
        ("max-stack", None),
        ("num-thread", None),
        ("rt-prio", None),
        ("patch", Some('P')),
        ("unpatch", Some('U')),
        ("watch", Some('W')),
        ("Event", Some('E')),
        ("signal", None),
        ("clock", None),
        ("debug-domain", None),
        ("libmcount-path", None),
    ],
    &[
        ("auto-args", Some('a')),
        ("nest-libcall", Some('l')),
        ("estimate-return", Some('e')),
        ("kernel", Some('k')),
        ("kernel-skip-out", None),
        ("force", None),
        ("keep-pid", None),
        ("libmcount-single", None),
        ("no-pager", None),
        ("no-pltbind", None),
        ("no-randomize-addr", None),
    ],
];

impl FromArgMatches for UnusedArgs {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(UnusedArgs)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

impl Args for UnusedArgs {
    fn augment_args(mut command: clap::Command) -> clap::Command {
        for (list, has_value) in UNUSED.into_iter().zip([true, false]) {
            command = command.args(list.iter().map(|&(name, letter)| unused(name, letter, has_value)));
        }
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Options of uftrace that say how another of its commands looks: accepted, and without effect. It is flattened behind the
/// options that a command has.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherArgs;

/// Their names with their letters; those of the first list have a value.
const OTHER: [&[(&str, Option<char>)]; 2] = [
    &[
        ("column-offset", None),
        ("diff-policy", None),
        ("output-fields", Some('f')),
        ("sample-time", None),
        ("sort", Some('s')),
        ("sort-column", None),
    ],
    &[
        ("avg-self", None),
        ("avg-total", None),
        ("column-view", None),
        ("flat", None),
        ("libname", None),
        ("no-args", None),
        ("no-comment", None),
        ("no-merge", None),
        ("srcline", None),
        ("task-newline", None),
    ],
];

impl FromArgMatches for OtherArgs {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(OtherArgs)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

impl Args for OtherArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let has = |name: &str| {
            let mut known = command.get_arguments();
            known.any(|arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long() == Some(name) || aliases.contains(&name)
            })
        };
        let mut more = Vec::new();
        for (list, has_value) in OTHER.into_iter().zip([true, false]) {
            more.extend(
                list.iter().filter(|(name, _)| !has(name)).map(|&(name, letter)| unused(name, letter, has_value)),
            );
        }
        command.args(more)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// An option that has no effect, however often it is typed.
fn unused(name: &'static str, letter: Option<char>, has_value: bool) -> Arg {
    let arg = Arg::new(name).long(name).hide(true);
    let arg = if let Some(letter) = letter { arg.short(letter) } else { arg };
    match has_value {
        true => arg.action(ArgAction::Append).allow_hyphen_values(true),
        false => arg.action(ArgAction::Count),
    }
}

/// How names of functions are matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PatternArg {
    /// Regular expressions, anywhere in the name.
    Regex,
    /// `*`, `?` and `[...]`, for the whole name.
    Glob,
}

/// `tracemill replay`.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) calls: CallArgs,

    /// Columns: none, or some of duration, tid, addr, time, delta, elapsed, task, module; behind a + they are added
    #[arg(long, short, alias = "output-fields", value_name = "FIELD,...", allow_hyphen_values = true)]
    pub(crate) fields: Option<String>,

    /// An empty line where the task changes
    #[arg(long)]
    pub(crate) task_newline: bool,

    /// Each task in a column of its own
    #[arg(long)]
    pub(crate) column_view: bool,

    /// Distance of those columns
    #[arg(long, value_name = "DEPTH", default_value_t = 8)]
    pub(crate) column_offset: i32,

    /// Show the entry and the exit of every call, also with nothing between them
    #[arg(long)]
    pub(crate) no_merge: bool,

    /// Leave out the names at the ends of functions
    #[arg(long)]
    pub(crate) no_comment: bool,

    /// Leave out arguments and return values
    #[arg(long)]
    pub(crate) no_args: bool,

    /// The library behind the names of its functions
    #[arg(long)]
    pub(crate) libname: bool,

    /// Where the source text of functions begins, when the recording has it
    #[arg(long)]
    pub(crate) srcline: bool,

    /// One line for each record, without stacks
    #[arg(long)]
    pub(crate) flat: bool,

    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: CallFormat,

    #[command(flatten)]
    pub(crate) other: OtherArgs,
}

/// Forms of what is shown of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum CallFormat {
    /// For people.
    #[value(alias = "normal")]
    Text,
    /// The same as a page.
    Html,
    /// One JSON object.
    Json,
}

/// Statistics of function calls.
#[derive(Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) calls: CallArgs,

    /// Columns: none, or some of total, total-avg, total-min, total-max, self, self-avg, self-min, self-max, call, size;
    /// behind a + they are added
    #[arg(long, short, alias = "output-fields", value_name = "FIELD,...", allow_hyphen_values = true)]
    pub(crate) fields: Option<String>,

    /// Keys to sort by, such as total,call
    #[arg(long, short, value_name = "KEY,...")]
    pub(crate) sort: Option<String>,

    /// Mean, smallest and largest time
    #[arg(long, conflicts_with = "avg_self")]
    pub(crate) avg_total: bool,

    /// The same of functions without their callees
    #[arg(long)]
    pub(crate) avg_self: bool,

    /// Where the source text of functions begins, when the recording has it
    #[arg(long)]
    pub(crate) srcline: bool,

    /// Tasks instead of functions; columns and keys are total, self, tid, func and, as a key, name
    #[arg(long, conflicts_with_all = ["diff", "avg_total", "avg_self", "srcline", "percentiles", "histogram"])]
    pub(crate) task: bool,

    /// How another recording differs
    #[arg(long, value_name = "TRACE", conflicts_with = "histogram")]
    pub(crate) diff: Option<PathBuf>,

    /// How differences are shown and sorted: abs, percent, full, compact, behind no- the contrary
    #[arg(long, value_name = "POLICY,...")]
    pub(crate) diff_policy: Option<String>,

    /// Sort differences by this value of a column: 0 the first recording, 2 the difference
    #[arg(long, value_name = "INDEX", default_value_t = 2)]
    pub(crate) sort_column: i32,

    /// Add the times that 50, 90 and 99 of 100 calls do not exceed
    #[arg(long)]
    pub(crate) percentiles: bool,

    /// How the times of each function are spread, behind the table
    #[arg(long)]
    pub(crate) histogram: bool,

    /// The option of the other half.
    #[arg(long, default_value = "table")]
    pub(crate) format: ReportFormat,

    #[command(flatten)]
    pub(crate) other: OtherArgs,
}

/// `tracemill graph`.
#[derive(Args)]
pub(crate) struct GraphArgs {
    /// Only what this function calls, and who calls it
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,

    #[command(flatten)]
    pub(crate) calls: CallArgs,

    /// Columns: none, or some of total-time, self-time, address (with --task: tid); behind a + they are added
    #[arg(long, short, alias = "output-fields", value_name = "FIELD,...", allow_hyphen_values = true)]
    pub(crate) fields: Option<String>,

    /// Where the source text of functions begins, when the recording has it
    #[arg(long)]
    pub(crate) srcline: bool,

    /// Which task began which, and how long they ran
    #[arg(long)]
    pub(crate) task: bool,

    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: CallFormat,

    #[command(flatten)]
    pub(crate) other: OtherArgs,
}

/// `tracemill flame`.
#[derive(Args)]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    pub(crate) calls: CallArgs,

    /// Colour by the difference to this recording: red takes longer than there, blue less
    #[arg(long, value_name = "TRACE")]
    pub(crate) diff: Option<PathBuf>,

    /// Title of the picture [default: the program]
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,

    /// Width of the picture in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1200, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub(crate) width: u32,

    /// Leave out what is narrower; 0 for nothing
    #[arg(long, value_name = "PIXELS", default_value_t = 0.1)]
    pub(crate) min_width: f64,

    /// Form of the output
    #[arg(long, value_name = "FORMAT", default_value = "svg")]
    pub(crate) format: FlameFormat,
}

/// Forms of flame graphs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FlameFormat {
    /// A picture.
    Svg,
    /// One JSON object.
    Json,
}

/// `tracemill dump`.
#[derive(Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) calls: CallArgs,

    /// Show bytes too
    #[arg(long)]
    pub(crate) hex: bool,

    /// JSON for chrome://tracing
    #[arg(long, conflicts_with_all = ["hex", "flame_graph"])]
    pub(crate) chrome: bool,

    /// Give every begin its end and every end its begin, where uftrace does not
    #[arg(long, requires = "chrome")]
    pub(crate) balanced: bool,

    /// Stacks with their samples, one a line, as flame graphs are made of
    #[arg(long, conflicts_with = "hex")]
    pub(crate) flame_graph: bool,

    /// Which function called which, for Graphviz
    #[arg(long, conflicts_with_all = ["hex", "chrome", "flame_graph", "mermaid"])]
    pub(crate) graphviz: bool,

    /// The same as a page for Mermaid
    #[arg(long, conflicts_with_all = ["hex", "chrome", "flame_graph"])]
    pub(crate) mermaid: bool,

    /// Time of a sample of --flame-graph; 0 to let the length of the recording decide
    #[arg(long, value_name = "TIME")]
    pub(crate) sample_time: Option<String>,

    /// Leave out arguments and return values
    #[arg(long)]
    pub(crate) no_args: bool,

    /// Form of the records
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    #[arg(conflicts_with_all = ["hex", "chrome", "flame_graph", "graphviz", "mermaid"])]
    pub(crate) format: CallFormat,

    #[command(flatten)]
    pub(crate) other: OtherArgs,
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

    /// Where to: a name that nothing has yet
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: PathBuf,

    /// Replace what has the name of the output
    #[arg(long)]
    pub(crate) force: bool,

    /// Write what the output cannot hold to this file, as JSON
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
