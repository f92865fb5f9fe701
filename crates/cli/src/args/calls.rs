//! Options of the commands that follow function calls, named as in uftrace.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, ValueEnum};
use tracemill_calls::rules::{PatternKind, RuleTexts};
use tracemill_format::Demangle;
use tracemill_model::error::{Error, ErrorKind};

use super::arrange::OF_CALLS;
use super::samples::{OF_SAMPLES, SampleArgs};
use super::{MessageOptions, ReportFormat, When};

/// Options of the commands that follow calls; options of the same name have the meaning they have in uftrace.
#[derive(Args, Clone)]
pub(crate) struct CallArgs {
    /// Trace to read [default: uftrace.data in the current folder]
    #[arg(id = "traces", value_name = "TRACE")]
    pub(crate) trace: Option<PathBuf>,

    /// Trace to read, instead of TRACE: the option that uftrace has
    #[arg(long, short, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Read the input as this format instead of detecting it; `tracemill formats` lists the names
    #[arg(long, value_name = "NAME")]
    pub(crate) input_format: Option<String>,

    /// Take symbols from the `.sym` files of this folder, where it has them
    #[arg(id = "with-syms", long, value_name = "DIR")]
    pub(crate) with_syms: Option<String>,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,

    #[command(flatten)]
    pub(crate) choice: CallChoice,

    /// Form in which names of C++ and Rust are shown, and matched by patterns
    #[arg(long, value_name = "FORM", default_value = "simple")]
    pub(crate) demangle: DemangleArg,

    /// When to colour the output
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,

    /// Also show kernel functions and events outside of user functions
    #[arg(long)]
    pub(crate) kernel_full: bool,

    /// Show only kernel functions and events
    #[arg(long)]
    pub(crate) kernel_only: bool,

    /// Number of threads; the output is the same for every number
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,

    #[command(flatten)]
    pub(crate) unused: UnusedArgs,

    /// Also show events outside of functions
    #[arg(long)]
    pub(crate) event_full: bool,

    /// Write to this file instead of stdout, replacing it; it gets its name when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Read more options from this file, separated by blanks; they count as if they stood at the end of the line
    #[arg(long, value_name = "FILE")]
    pub(crate) opt_file: Option<PathBuf>,

    /// Write messages to this file instead of stderr, replacing it
    #[arg(long, value_name = "FILE")]
    pub(crate) logfile: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) messages: MessageOptions,
}

/// Options that choose calls and events by other things than their functions.
#[derive(Args, Clone)]
pub(crate) struct CallChoice {
    /// Keep only calls that take at least this long, such as 50us, and their callers
    #[arg(long, short, value_name = "TIME", conflicts_with = "time_range", help_heading = OF_CALLS)]
    pub(crate) time_filter: Option<String>,

    /// Keep only records in this time range: seconds of the clock, or with a unit the time since the first record;
    /// each end may be left out
    #[arg(long, short = 'r', value_name = "BEGIN~END", help_heading = OF_CALLS)]
    pub(crate) time_range: Option<String>,

    /// Leave out calls nested deeper than this
    #[arg(long, short = 'D', value_name = "DEPTH", value_parser = clap::value_parser!(i32).range(1..), help_heading = OF_CALLS)]
    pub(crate) depth: Option<i32>,

    /// Keep only the tasks with these ids
    #[arg(long, value_name = "TID,...", value_delimiter = ',', help_heading = OF_CALLS)]
    pub(crate) tid: Vec<i64>,

    /// Leave out calls of library functions
    #[arg(long, help_heading = OF_CALLS)]
    pub(crate) no_libcall: bool,

    /// Leave out all events, such as page faults and user events
    #[arg(long, help_heading = OF_CALLS)]
    pub(crate) no_event: bool,

    /// Leave out scheduling events: when a task loses its processor and gets one again
    #[arg(long, help_heading = OF_CALLS)]
    pub(crate) no_sched: bool,

    /// Leave out scheduling events that are preemptions
    #[arg(long, help_heading = OF_CALLS)]
    pub(crate) no_sched_preempt: bool,

    /// Show nothing until a `trace_on` trigger
    #[arg(long, help_heading = OF_CALLS)]
    pub(crate) disable: bool,
}

/// Options that select functions, in uftrace's language.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleArgs(pub(crate) RuleTexts);

/// Id, name, letter, value and help of the options that may be repeated. The id is not the name: the other half of `report`
/// has a `--filter` too.
const RULES: [(&str, &str, char, &str, &str); 6] = [
    (
        "functions_in",
        "filter",
        'F',
        "FUNC[@ACTION,...]",
        "Keep only these functions and what they call; FUNC is a pattern",
    ),
    ("functions_out", "notrace", 'N', "FUNC", "Leave out these functions and what they call"),
    (
        "triggers",
        "trigger",
        'T',
        "FUNC@ACTION,...",
        "Run actions at these functions: filter, notrace, depth=N, time=T, size=N, \
        trace, trace_on, trace_off, caller, hide, backtrace",
    ),
    ("callers", "caller-filter", 'C', "FUNC", "Keep only calls that lead to these functions"),
    ("hidden", "hide", 'H', "FUNC", "Leave out these functions, but not what they call"),
    (
        "locations",
        "loc-filter",
        'L',
        "FILE",
        "Keep only functions of this source file or folder; with @hide, leave them out",
    ),
];

impl RuleArgs {
    fn add_to(command: clap::Command) -> clap::Command {
        let command = RULES.into_iter().fold(command, |command, (id, name, letter, value, help)| {
            let arg = Arg::new(id).long(name).short(letter).value_name(value).help(help);
            command.arg(arg.action(ArgAction::Append).allow_hyphen_values(true))
        });
        let size = Arg::new("functions_size").long("size-filter").short('Z').value_name("BYTES");
        let size = size.value_parser(clap::value_parser!(u64)).help("Keep only functions of at least this size");
        let patterns = Arg::new("functions_match").long("match").value_name("KIND");
        let patterns =
            patterns.value_parser(clap::value_parser!(PatternArg)).help("How patterns match names of functions");
        command.arg(size).arg(patterns)
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of = |id: &str| {
            let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
            matches.indices_of(id).into_iter().flatten().zip(values).collect::<Vec<_>>()
        };
        let plain = |id: &str| of(id).into_iter().map(|(_, text)| text).collect();
        // For a function that both name, the last one counts.
        let not = |text: String| text.split(';').map(|item| format!("!{item}")).collect::<Vec<_>>().join(";");
        let mut filters = of("functions_in");
        // That of `report` is for events too.
        if matches.try_contains_id("filter").is_ok() {
            filters.extend(of("filter"));
        }
        filters.extend(of("functions_out").into_iter().map(|(at, text)| (at, not(text))));
        filters.sort_by_key(|&(at, _)| at);
        Ok(RuleArgs(RuleTexts {
            filters: filters.into_iter().map(|(_, text)| text).collect(),
            triggers: plain("triggers"),
            callers: plain("callers"),
            hides: plain("hidden"),
            // Text after the word is ignored.
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
}

by_hand!(RuleArgs);

/// Form of demangled names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DemangleArg {
    /// With parameters and template arguments.
    Full,
    /// Qualified name only.
    Simple,
    /// As stored in the trace, not demangled.
    No,
}

impl DemangleArg {
    /// The form that the option names.
    pub(crate) fn form(self) -> Demangle {
        match self {
            DemangleArg::Full => Demangle::Full,
            DemangleArg::Simple => Demangle::Simple,
            DemangleArg::No => Demangle::No,
        }
    }
}

/// Options of uftrace and of other commands that are accepted without effect: those of a list that the command does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ignored<const OF_OUTPUT: bool>;

/// Ignored options for recording, for running uftrace's reader, or of commands that merge streams.
pub(crate) type UnusedArgs = Ignored<false>;

/// Ignored options for the output of another command. Flattened after the options that a command has.
pub(crate) type OtherArgs = Ignored<true>;

/// Options of [`UnusedArgs`] with their letters; those of the first list have a value.
const UNUSED: [&str; 2] = [
    "memory progress argument:A retval:R buffer:b kernel-depth:K kernel-buffer max-stack num-thread rt-prio patch:P unpatch:U watch:W \
     Event:E signal clock debug-domain libmcount-path",
    "auto-args:a debug nest-libcall:l estimate-return:e kernel:k kernel-skip-out force keep-pid libmcount-single no-pager \
     list-event no-pltbind no-randomize-addr symbols",
];

/// Options of [`OtherArgs`] with their letters; those of the first list have a value.
const OTHER: [&str; 2] = [
    "column-offset diff diff-policy output-fields:f sample-time sort:s sort-column",
    "avg-self avg-total chrome column-view flame-graph flat graphviz libname mermaid no-args no-comment no-merge srcline task task-newline",
];

impl<const OF_OUTPUT: bool> Ignored<OF_OUTPUT> {
    fn add_to(command: clap::Command) -> clap::Command {
        let has = |name: &str| {
            let mut known = command.get_arguments();
            known.any(|arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long() == Some(name) || aliases.contains(&name)
            })
        };
        let mut more = Vec::new();
        for (list, has_value) in (if OF_OUTPUT { OTHER } else { UNUSED }).into_iter().zip([true, false]) {
            let options = list.split_whitespace().map(|option| match option.split_once(':') {
                Some((name, letter)) => (name, letter.chars().next()),
                None => (option, None),
            });
            let missing = options.filter(|(name, _)| !has(name));
            more.extend(missing.map(|(name, letter)| hidden(name, letter, has_value)));
        }
        if !OF_OUTPUT {
            more.push(Arg::new("usage").long("usage").hide(true).action(ArgAction::HelpShort));
            more.push(Arg::new("version").long("version").short('V').hide(true).action(ArgAction::Version));
        }
        with_version(command).args(more)
    }

    fn read(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Ignored)
    }
}

by_hand!(UnusedArgs);
by_hand!(OtherArgs);

/// The command with a version, and without the option that shows it.
pub(super) fn with_version(command: clap::Command) -> clap::Command {
    command.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true)
}

/// The words of the command line with those of the files that `--opt-file` names after them, for the commands that follow
/// calls.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn with_opt_files(mut words: Vec<OsString>) -> Result<Vec<OsString>, Error> {
    const COMMANDS: [&str; 5] = ["replay", "report", "graph", "flame", "dump"];
    if !words.get(1).is_some_and(|command| COMMANDS.iter().any(|name| command == name)) {
        return Ok(words);
    }
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut more = Vec::new();
    for (at, word) in words[..end].iter().enumerate() {
        let file = match word.to_str().and_then(|word| word.strip_prefix("--opt-file")) {
            Some("") => words[..end].get(at + 1).map(PathBuf::from),
            Some(rest) => rest.strip_prefix('=').map(PathBuf::from),
            None => None,
        };
        let Some(file) = file else { continue };
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Error::new(ErrorKind::Io, format!("options cannot be read: {error}")).in_file(&file))?;
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        more.extend(lines.flat_map(str::split_whitespace).map(OsString::from));
    }
    words.splice(end..end, more);
    Ok(words)
}

/// An option that help does not show, and that may be typed however often.
pub(super) fn hidden(name: &'static str, letter: Option<char>, has_value: bool) -> Arg {
    let arg = Arg::new(name).long(name).hide(true);
    let arg = if let Some(letter) = letter { arg.short(letter) } else { arg };
    if has_value { arg.action(ArgAction::Append).allow_hyphen_values(true) } else { arg.action(ArgAction::Count) }
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

    /// Columns to show: none, or some of duration, tid, addr, time, delta, elapsed, task, module; a leading + adds them
    /// to the default ones
    #[arg(long, short, alias = "output-fields", value_name = "FIELD,...", allow_hyphen_values = true)]
    pub(crate) fields: Option<String>,

    /// Print an empty line where the task changes
    #[arg(long)]
    pub(crate) task_newline: bool,

    /// Print each task in a column of its own
    #[arg(long)]
    pub(crate) column_view: bool,

    /// Distance between the columns of --column-view, in levels of depth
    #[arg(long, value_name = "DEPTH", default_value_t = 8)]
    pub(crate) column_offset: i32,

    /// Print the entry and the exit of each call on lines of their own, even with nothing between them
    #[arg(long)]
    pub(crate) no_merge: bool,

    /// Leave out the name of the function after a closing brace
    #[arg(long)]
    pub(crate) no_comment: bool,

    /// Leave out arguments and return values
    #[arg(long)]
    pub(crate) no_args: bool,

    /// Print the name of the library after the names of its functions
    #[arg(long)]
    pub(crate) libname: bool,

    /// Print the source file and line of each function, when the recording has them
    #[arg(long)]
    pub(crate) srcline: bool,

    /// Print one line per record, without nesting
    #[arg(long)]
    pub(crate) flat: bool,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: CallFormat,

    #[command(flatten)]
    pub(crate) other: OtherArgs,
}

/// Output formats of the commands that follow calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum CallFormat {
    /// Text.
    #[value(alias = "normal")]
    Text,
    /// The text as an HTML page.
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

    #[command(flatten)]
    pub(crate) samples: SampleArgs,

    /// Group samples by event, thread, process, comm (name of the thread) or cpu
    #[arg(long, value_name = "GROUP,...", help_heading = OF_SAMPLES)]
    pub(crate) by: Option<String>,

    /// Columns to show: none, or some of total, total-avg, total-min, total-max, self, self-avg, self-min, self-max, call,
    /// size; a leading + adds them to the default ones
    #[arg(long, short, alias = "output-fields", value_name = "FIELD,...", allow_hyphen_values = true)]
    pub(crate) fields: Option<String>,

    /// Keys to sort by, such as total,call
    #[arg(long, short, value_name = "KEY,...")]
    pub(crate) sort: Option<String>,

    /// Show the mean, smallest and largest total time of each function
    #[arg(long, conflicts_with = "avg_self")]
    pub(crate) avg_total: bool,

    /// Show the mean, smallest and largest self time of each function
    #[arg(long)]
    pub(crate) avg_self: bool,

    /// Print the source file and line of each function, when the recording has them
    #[arg(long)]
    pub(crate) srcline: bool,

    /// Report tasks instead of functions: their columns are total, self, tid and func; --sort also takes name
    #[arg(long, conflicts_with_all = ["diff", "avg_total", "avg_self", "srcline", "percentiles", "histogram"])]
    pub(crate) task: bool,

    /// Show how another recording differs from this one
    #[arg(long, value_name = "TRACE", conflicts_with = "histogram")]
    pub(crate) diff: Option<PathBuf>,

    /// How --diff shows and sorts differences: abs or no-abs, percent or no-percent, full or compact
    #[arg(long, value_name = "POLICY,...")]
    pub(crate) diff_policy: Option<String>,

    /// Value that --diff sorts by: 0 for that of this recording, 2 for the difference
    #[arg(long, value_name = "INDEX", default_value_t = 2)]
    pub(crate) sort_column: i32,

    /// Add the 50th, 90th and 99th percentile of the times
    #[arg(long)]
    pub(crate) percentiles: bool,

    /// Print a histogram of the times of each function after the table
    #[arg(long)]
    pub(crate) histogram: bool,

    /// Format of the output
    #[arg(long, default_value = "table")]
    pub(crate) format: ReportFormat,

    #[command(flatten)]
    pub(crate) other: OtherArgs,
}

/// `tracemill graph`.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct GraphArgs {
    /// Print only what this function calls, and what calls it
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,

    #[command(flatten)]
    pub(crate) calls: CallArgs,

    #[command(flatten)]
    pub(crate) samples: SampleArgs,

    /// Group samples by event, thread, process, comm (name of the thread) or cpu
    #[arg(long, value_name = "GROUP,...", help_heading = OF_SAMPLES)]
    pub(crate) by: Option<String>,

    /// Columns to show: none, or some of total-time, self-time, address (with --task: tid); a leading + adds them to the
    /// default ones
    #[arg(long, short, alias = "output-fields", value_name = "FIELD,...", allow_hyphen_values = true)]
    pub(crate) fields: Option<String>,

    /// Print the source file and line of each function, when the recording has them
    #[arg(long)]
    pub(crate) srcline: bool,

    /// Print the tree of tasks, with the time that each ran, instead of functions
    #[arg(long)]
    pub(crate) task: bool,

    /// Format of the output
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

    #[command(flatten)]
    pub(crate) samples: SampleArgs,

    /// Group samples by event, thread, process, comm (name of the thread) or cpu
    #[arg(long, value_name = "GROUP,...", help_heading = OF_SAMPLES)]
    pub(crate) by: Option<String>,

    /// Read TRACE as lines of folded stacks, `caller;callee NS`, as `convert --to folded` writes them of any trace
    #[arg(long, requires = "traces")]
    pub(crate) folded: bool,

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

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "svg")]
    pub(crate) format: FlameFormat,
}

/// Forms of flame graphs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FlameFormat {
    /// SVG picture.
    Svg,
    /// One JSON object with a list of all stacks.
    Json,
    /// JSON objects inside of each other, `name`, `value` and `children`, as d3-flame-graph reads them.
    Nested,
    /// Lines `caller;callee NUMBER`, as scripts for flame graphs read them.
    Folded,
}

/// `tracemill dump`.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) calls: CallArgs,

    /// Also print the bytes of each record
    #[arg(long)]
    pub(crate) hex: bool,

    /// Print JSON for chrome://tracing
    #[arg(long, conflicts_with_all = ["hex", "flame_graph"])]
    pub(crate) chrome: bool,

    /// With --chrome: pair every begin with an end and every end with a begin, which uftrace does not do
    #[arg(long, requires = "chrome")]
    pub(crate) balanced: bool,

    /// Print folded stacks with their samples, one per line, the input of flame graph scripts
    #[arg(long, conflicts_with = "hex")]
    pub(crate) flame_graph: bool,

    /// Print what the recorder notes of the run, as `uftrace info` does
    #[arg(long, conflicts_with_all = ["hex", "chrome", "flame_graph", "graphviz", "mermaid", "format"])]
    pub(crate) info: bool,

    /// Print the call graph for Graphviz
    #[arg(long, conflicts_with_all = ["hex", "chrome", "flame_graph", "mermaid"])]
    pub(crate) graphviz: bool,

    /// Print the call graph as an HTML page with a Mermaid diagram
    #[arg(long, conflicts_with_all = ["hex", "chrome", "flame_graph"])]
    pub(crate) mermaid: bool,

    /// Duration of a sample of --flame-graph; 0 derives it from the length of the recording
    #[arg(long, value_name = "TIME")]
    pub(crate) sample_time: Option<String>,

    /// Leave out arguments and return values
    #[arg(long)]
    pub(crate) no_args: bool,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    #[arg(conflicts_with_all = ["hex", "chrome", "flame_graph", "graphviz", "mermaid"])]
    pub(crate) format: CallFormat,

    #[command(flatten)]
    pub(crate) other: OtherArgs,
}
