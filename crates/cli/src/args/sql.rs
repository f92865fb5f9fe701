//! Options of `tracemill sql` and `tracemill query`.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::{EventOptions, InputOptions, SymbolArgs};

/// `tracemill sql`.
#[derive(Args, Default)]
pub(crate) struct SqlOptions {
    #[command(flatten)]
    pub(crate) input: InputOptions,

    #[command(flatten)]
    pub(crate) events: EventOptions,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,

    /// Run this SQL; may be repeated, and hold several statements with `;` between them
    #[arg(long = "command", short, value_name = "SQL", allow_hyphen_values = true)]
    pub(crate) commands: Vec<String>,

    /// Run the SQL in this file; `-` is stdin
    #[arg(long = "file", short, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Run a saved query; `list` shows them
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,

    /// Folder of saved queries
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,

    /// Value of a parameter, which stands as $NAME in the SQL: a number, true, false, null, otherwise a text
    #[arg(long = "parameter", short, value_name = "NAME=VALUE", allow_hyphen_values = true)]
    pub(crate) parameters: Vec<String>,

    /// Add tables of the states and counters that this file defines
    #[arg(long, value_name = "FILE")]
    pub(crate) states: Option<PathBuf>,

    /// Where rows go that --memory has no room for: `none` makes that an error [default: the folder that TMPDIR names]
    #[arg(long, value_name = "WHERE")]
    pub(crate) spill: Option<Spill>,

    /// Run queries on the cluster at df://HOST:PORT, or on one inside of this process: `standalone`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) cluster: Option<String>,

    /// Form of the answers [default: by the ending of --output, else a table on a terminal, csv elsewhere]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<SqlFormat>,

    /// Rows that a table shows, or `all`
    #[arg(long, value_name = "N", default_value = "40")]
    pub(crate) rows: RowLimit,

    /// Write to this file instead of stdout, replacing it; it gets its name when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Statements and files that are run, in the order in which they were typed.
    #[arg(skip)]
    pub(crate) texts: Vec<SqlText>,
}

/// A piece of SQL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SqlText {
    /// `-c`.
    Command(String),
    /// `-f`.
    File(PathBuf),
}

/// Forms of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SqlFormat {
    /// Columns below each other, for people.
    Table,
    /// Comma-separated values.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// A list of JSON objects.
    Json,
    /// A table of Markdown.
    Markdown,
    /// Apache Arrow IPC.
    Arrow,
    /// Apache Parquet.
    Parquet,
}

/// Where rows go that memory has no room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Spill {
    /// Nowhere.
    None,
}

/// How many rows a table shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RowLimit(pub(crate) Option<usize>);

impl std::str::FromStr for RowLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(RowLimit(None)),
            text => text.parse().map(|rows| RowLimit(Some(rows))).map_err(|_| "expected a number or `all`".into()),
        }
    }
}

/// `tracemill sql`: its traces may be left out, and its texts keep their order.
pub(crate) struct SqlCommand(pub(crate) SqlOptions);

/// `tracemill query`: the last word is SQL.
pub(crate) struct QueryCommand(pub(crate) SqlOptions);

impl SqlCommand {
    fn add_to(command: Command) -> Command {
        let command = SqlOptions::augment_args(command).mut_arg("traces", |arg| arg.required(false));
        command.after_help(
            "Without -c, -f and --run: on a terminal a shell, with history and completion, whose `\\?` lists its commands; \
            elsewhere the SQL on stdin.",
        )
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = SqlOptions::from_arg_matches(matches)?;
        let places = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<_>>();
        let commands = places("commands").into_iter().zip(options.commands.iter().cloned().map(SqlText::Command));
        let files = places("files").into_iter().zip(options.files.iter().cloned().map(SqlText::File));
        let mut texts: Vec<(usize, SqlText)> = commands.chain(files).collect();
        texts.sort_by_key(|(place, _)| *place);
        options.texts = texts.into_iter().map(|(_, text)| text).collect();
        Ok(SqlCommand(options))
    }
}

by_hand!(SqlCommand);

impl QueryCommand {
    fn add_to(command: Command) -> Command {
        SqlOptions::augment_args(command).mut_arg("traces", |arg| {
            arg.value_name("TRACE... SQL").help("Traces as for `tracemill sql`, and after them the SQL")
        })
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let SqlCommand(mut options) = SqlCommand::from_arg_matches(matches)?;
        if let Some(sql) = options.input.traces.pop() {
            options.texts.push(SqlText::Command(sql.to_string_lossy().into_owned()));
        }
        Ok(QueryCommand(options))
    }
}

by_hand!(QueryCommand);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command as Which};

    #[test]
    fn texts_keep_the_order_in_which_they_were_typed() {
        let words = ["tracemill", "sql", "-c", "one", "trace", "-f", "two.sql", "-c", "three"];
        let Which::Sql(options) = Cli::try_parse_from(words).expect("it is right").command else { panic!("sql") };
        let command = |text: &str| SqlText::Command(text.into());
        assert_eq!(options.0.texts, [command("one"), SqlText::File("two.sql".into()), command("three")]);
        assert_eq!(options.0.input.traces, [PathBuf::from("trace")]);
        assert!(Cli::try_parse_from(["tracemill", "sql", "-c", "select 1"]).is_ok(), "traces may be left out");
        let words = ["tracemill", "query", "trace", "other", "select 1"];
        let Which::Query(options) = Cli::try_parse_from(words).expect("it is right").command else { panic!("query") };
        assert_eq!((options.0.texts.len(), options.0.input.traces.len()), (1, 2));
    }
}
