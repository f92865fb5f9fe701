//! Options of the commands that follow function calls: those of uftrace, by its names.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, ValueEnum};
use tracemill_calls::rules::{PatternKind, RuleTexts};

use super::{ReportFormat, When};

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
#[command(args_override_self = true)]
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
#[command(args_override_self = true)]
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
#[command(args_override_self = true)]
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
#[command(args_override_self = true)]
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
#[command(args_override_self = true)]
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
