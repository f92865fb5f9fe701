//! Options that define periods. Their order matters, so they are kept as they stand on the command line.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches};

/// One use of one of the options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeriodOption {
    /// `--period`.
    Name,
    /// `--period-begin`.
    Begin,
    /// `--period-end`.
    End,
    /// `--period-match`.
    Match,
    /// `--period-parent`.
    Parent,
}

/// Definitions of periods.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeriodOptions {
    /// The options that may be repeated, in their order.
    pub(crate) given: Vec<(PeriodOption, String)>,
    /// File with definitions, which come first.
    pub(crate) file: Option<PathBuf>,
}

impl PeriodOption {
    const ALL: [(PeriodOption, &'static str, &'static str, &'static str); 5] = [
        (
            PeriodOption::Name,
            "period",
            "NAME",
            "For `periods`, --per and `diff`: a span between events, called NAME; its other options follow, all may be repeated",
        ),
        (
            PeriodOption::Begin,
            "period-begin",
            "EXPR",
            "A period begins with the events of this filter; it may name state.tid, .pid, .comm, .status and .prio",
        ),
        (PeriodOption::End, "period-end", "EXPR", "The period ends with the events of this filter"),
        (
            PeriodOption::Match,
            "period-match",
            "PATH[=PATH],..",
            "Both ends of the period have equal values there: one path, or one of the begin and one of the end",
        ),
        (PeriodOption::Parent, "period-parent", "NAME", "The period ends when the period NAME that it began in does"),
    ];

    /// Name of the option, with its dashes.
    pub(crate) fn name(self) -> String {
        let (_, name, ..) = Self::ALL[self as usize];
        format!("--{name}")
    }
}

impl PeriodOptions {
    fn add_to(command: clap::Command) -> clap::Command {
        let heading = "Periods";
        let command = PeriodOption::ALL.into_iter().fold(command, |command, (_, name, value, help)| {
            let arg = Arg::new(name).long(name).value_name(value).help(help).help_heading(heading);
            command.arg(arg.action(ArgAction::Append))
        });
        let file = Arg::new("periods").long("periods").value_name("FILE").help_heading(heading);
        let help = "Read periods from a file, one a line: NAME; begin = EXPR; end = EXPR; match = PATH[=PATH], ..; \
            parent = NAME";
        command.arg(file.help(help).value_parser(clap::value_parser!(PathBuf)))
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for (option, name, ..) in PeriodOption::ALL {
            let values = matches.get_many::<String>(name).into_iter().flatten().cloned();
            let indices = matches.indices_of(name).into_iter().flatten();
            given.extend(indices.zip(values).map(|(at, text)| (at, option, text)));
        }
        given.sort_by_key(|&(at, ..)| at);
        let given = given.into_iter().map(|(_, option, text)| (option, text)).collect();
        Ok(PeriodOptions { given, file: matches.get_one("periods").cloned() })
    }
}

by_hand!(PeriodOptions);
