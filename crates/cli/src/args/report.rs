//! Options of `report`: for function calls, or for the time between events.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Id, ValueEnum};

use super::calls::with_version;
use super::{EventOptions, InputOptions, LiveOptions, ReportArgs};

/// `tracemill report`: with an event to measure from, the time between events; otherwise function calls.
pub(crate) enum ReportCommand {
    /// The time between events.
    Times(Box<ReportOptions>),
    /// Function calls.
    Calls(Box<ReportArgs>),
}

/// Ids of the options of both halves of the command: the time between events, and function calls.
static IDS: OnceLock<[Vec<Id>; 2]> = OnceLock::new();

/// Ids of the options of one half of the command.
fn ids(part: &clap::Command) -> Vec<Id> {
    part.get_arguments().map(|arg| arg.get_id().clone()).collect()
}

/// Heading of the options for function calls, in the manual page.
const OF_CALLS: &str = "Function calls";

/// The command with the options of one of its halves only, for its help.
pub(crate) fn report_help(command: clap::Command, is_of_calls: bool) -> clap::Command {
    if !is_of_calls {
        return command.mut_args(|arg| if arg.get_help_heading() == Some(OF_CALLS) { arg.hide(true) } else { arg });
    }
    let about = "Report statistics of function calls";
    let of_calls = ReportArgs::augment_args(clap::Command::new("report").bin_name("tracemill report"));
    with_version(of_calls)
        .about(about)
        .after_help("`tracemill report --help` lists the options for the time between events.")
}

/// Options that select the time between events.
const OF_TIMES: [&str; 4] = ["state", "from", "to", "regress"];

impl ReportCommand {
    fn add_to(command: clap::Command) -> clap::Command {
        let command = ReportOptions::augment_args(command).mut_arg("traces", |arg| arg.required(false));
        let help =
            "Keep only events for which the expression is true; without --state, --from and --to a function, as -F";
        let command = command.mut_arg("filter", |arg| arg.action(ArgAction::Append).help(help));
        let of_calls = ReportArgs::augment_args(clap::Command::new("calls"));
        let [known, _] = IDS.get_or_init(|| [ids(&command), ids(&of_calls)]);
        let more = of_calls.get_arguments().filter(|arg| !known.contains(arg.get_id()));
        // `--filter` is there already: what it chooses depends on what is reported.
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
        // Their help is printed on its own.
        let more = more.cloned().map(|arg| own(arg.help_heading(OF_CALLS)).hide_short_help(true));
        // As in the other commands that follow calls, the last one wins.
        with_version(command.args(more)).args_override_self(true)
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let traces = matches.get_many::<PathBuf>("traces").map_or(0, Iterator::count);
        let wrong = |kind, message: &str| clap::Error::raw(kind, format!("{message}\n"));
        // The options were made before they were read.
        let [times, calls] = IDS.get().map_or([&[][..]; 2], |[times, calls]| [times, calls]);
        let is_of_times = OF_TIMES.iter().any(|id| is_typed(id));
        let (own, other) = if is_of_times { (times, calls) } else { (calls, times) };
        // Without events to measure between, `--filter` is that of calls.
        let is_shared = |id: &Id| own.contains(id) || id == "filter";
        if let Some(id) = other.iter().find(|id| !is_shared(id) && is_typed(id.as_str())) {
            let what = match is_of_times {
                true => "is for function calls, and not for --state, --from and --to",
                false => "is for the time between events: name them with --state, or with --from and --to",
            };
            let message = format!("--{} {what}", id.as_str().replace('_', "-"));
            return Err(wrong(clap::error::ErrorKind::ArgumentConflict, &message));
        }
        if is_of_times {
            if traces == 0 {
                let message = "the time between events needs a TRACE";
                return Err(wrong(clap::error::ErrorKind::MissingRequiredArgument, message));
            }
            let mut options = ReportOptions::from_arg_matches(matches)?;
            options.events.filter = matches.get_many("filter").and_then(|mut filters| filters.next_back().cloned());
            return Ok(ReportCommand::Times(Box::new(options)));
        }
        if traces > 1 {
            let message = "the calls of one TRACE are followed at a time; --state, --from and --to take several";
            return Err(wrong(clap::error::ErrorKind::TooManyValues, message));
        }
        Ok(ReportCommand::Calls(Box::new(ReportArgs::from_arg_matches(matches)?)))
    }
}

by_hand!(ReportCommand);

/// Statistics of the time between events.
#[derive(Args)]
#[command(
    after_help = "EVENT is the name of an event (`*` and `?` are globs) or its number. Without --by, events are \
grouped by their field `track`, or by their stream if they have none.\n\n`tracemill report --help calls` lists the options for \
function calls, which are reported without --state, --from and --to."
)]
pub(crate) struct ReportOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) live: LiveOptions,

    /// With --follow or a live session: print what there is so far every so often, such as 1s
    #[arg(long, value_name = "DURATION", value_parser = super::live::duration, help_heading = super::live::GROWING)]
    pub(crate) every: Option<Duration>,

    #[command(flatten)]
    pub(crate) events: EventOptions,

    /// Measure the time from each occurrence of this event to the next, charged to the group of the earlier one
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["from", "to"], help_heading = "Analyses")]
    pub(crate) state: Option<String>,

    /// Measure the time from this event to the --to event of the same group
    #[arg(long, value_name = "EVENT", requires = "to", help_heading = "Analyses")]
    pub(crate) from: Option<String>,

    /// Event that ends the time that the --from event begins
    #[arg(long, value_name = "EVENT", requires = "from", help_heading = "Analyses")]
    pub(crate) to: Option<String>,

    /// Fit a line to the durations over their number (linear regression). With --from and --to, pairs nest as calls do,
    /// the time of inner pairs is not counted for outer ones, and the default group is the field `datum` of the first
    /// event
    #[arg(long, help_heading = "Analyses")]
    pub(crate) regress: bool,

    /// With --state: end a state at the next occurrence in its own group, instead of in any group
    #[arg(long, requires = "state")]
    pub(crate) within: bool,

    /// Group by the values of these fields (paths as in filters), across all traces; samples by event, thread, process,
    /// comm (name of the thread) or cpu
    #[arg(long, value_name = "PATH,...")]
    pub(crate) by: Option<String>,

    /// With --regress, --from and --to: nest pairs that agree in these fields [default: `track`, or the stream]
    #[arg(long, value_name = "PATH,...", requires_all = ["regress", "from"])]
    pub(crate) lane: Option<String>,

    /// With --regress: predict the total of N durations; may be repeated
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "regress")]
    pub(crate) model: Vec<u64>,

    /// Order of the groups: total, count or group; for function calls, keys such as total,call
    #[arg(long, short, value_name = "ORDER")]
    pub(crate) sort: Option<String>,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: ReportFormat,

    /// Write to this file instead of stdout, replacing it; it gets its name when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Read times without a zone as UTC instead of local time
    #[arg(long)]
    pub(crate) clock_gmt: bool,
}

/// Output formats of `report`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Text, in microseconds.
    #[value(alias = "normal")]
    Table,
    /// Functions as an HTML page.
    Html,
    /// One JSON object, in nanoseconds.
    Json,
    /// Comma-separated values, in nanoseconds.
    Csv,
}
