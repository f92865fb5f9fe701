//! The `tracemill` program: parse, run, exit code.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod interrupt;
mod progress;
mod report;

use std::io::Write as _;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind as Usage;

use args::{Cli, Command};
use report::Outcome;

/// Size of the block that is freed at the start, to teach the allocator of Linux how much memory to keep.
const KEPT_BYTES: usize = 4 << 20;

fn main() -> ExitCode {
    // Packets come and go in hundreds of kilobytes. The allocator of Linux would give that memory back each time, and
    // take it again page by page: a tenth of the time of `print` on 20 M events. It keeps up to twice the size
    // of the largest block that was freed; no page of this one is touched.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BYTES)));
    tracemill_engine::source::refuse_large_files_by_error();
    let words = match args::with_opt_files(std::env::args_os().collect()) {
        Ok(words) => words,
        Err(error) => {
            report::error(&error);
            return Outcome::WrongUsage.exit_code();
        }
    };
    let mut program = args::program();
    let parsed = program.try_get_matches_from_mut(words).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program))?;
        Ok((cli, args::paths::check(&program, &matches)))
    });
    let (cli, paths) = parsed.unwrap_or_else(|error| {
        if error.kind() == Usage::DisplayHelp {
            help(std::env::args().skip(1).collect());
        }
        if error.kind() == Usage::DisplayHelpOnMissingArgumentOrSubcommand && std::env::args_os().len() == 1 {
            // A reader that has gone is no error: the status says that nothing was done.
            let _ = std::io::stderr().write_all(commands::help::FIRST_COMMANDS.as_bytes());
            std::process::exit(2);
        }
        let known = commands::help::unknown_command(&error);
        if let Some(error) = known.or_else(|| commands::help::unknown_option(&error, &program)) {
            report::error(&error);
            std::process::exit(2);
        }
        error.exit()
    });
    if let Err(error) = paths {
        report::error(&error);
        return Outcome::WrongUsage.exit_code();
    }
    if !matches!(cli.command, Command::Record(_) | Command::View(_) | Command::Tui(_) | Command::Cluster(_)) {
        interrupt::watch();
    }
    let outcome = match cli.command {
        Command::Info(options) => commands::info::run(&options),
        #[cfg(has_recorder)]
        Command::Record(mut options) => commands::record::run(&mut options),
        #[cfg(not(has_recorder))]
        Command::Record(options) => commands::record_missing::run(&options),
        Command::Recv(options) => commands::recv::run(&options),
        Command::Print(options) => commands::print::run(&options),
        Command::Check(options) => commands::check::run(&options),
        Command::Convert(options) => commands::convert::run(&options),
        Command::Replay(options) => commands::replay::run(&options),
        Command::Report(command) => match &*command {
            args::ReportCommand::Times(options) => commands::report::run(options),
            args::ReportCommand::Calls(options) => commands::report_calls::run(options),
        },
        Command::Analyze(options) => commands::analyze::run(&options),
        Command::Diff(options) => commands::diff::run(&options.0),
        Command::Sql(options) => commands::sql::run(&options.0),
        Command::Query(options) => commands::sql::run(&options.0),
        Command::Cluster(options) => commands::cluster::run(&options),
        Command::View(options) => commands::view::run(&options),
        Command::Tui(options) => commands::tui::run(&options),
        Command::Cache(options) => commands::cache::run(&options),
        Command::Graph(options) => commands::graph::run(&options),
        Command::Flame(options) => commands::flame::run(&options),
        Command::Dump(options) => commands::dump::run(&options),
        Command::Formats(options) => commands::formats::run(&options),
        Command::Completions(options) => commands::completions::run(&options),
        Command::Man(options) => commands::man::run(&options),
        Command::Help(options) => commands::help::run(&options, help),
    };
    match outcome {
        Ok(_) if interrupt::has_ended_growing() => ExitCode::from(interrupt::STATUS),
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            report::error(&error);
            let is_misuse = error.kind() == tracemill_model::error::ErrorKind::Misuse;
            if is_misuse { Outcome::WrongUsage.exit_code() } else { Outcome::Nothing.exit_code() }
        }
    }
}

/// Prints the `--help` of a command: examples, then each option in a line or two as `-h` does, the rare ones at the end. The
/// form that clap has for it takes twice as many lines. After `--help` or `-h`, a word may say what the help is about.
/// Returns when other help was asked for.
fn help(mut words: Vec<String>) {
    words.truncate(words.iter().position(|word| word == "--").unwrap_or(words.len()));
    let Some(at) = words.iter().position(|word| word == "--help" || word == "-h") else { return };
    // A reader that has seen enough is no error.
    let is_failed = |error: std::io::Error| error.kind() != std::io::ErrorKind::BrokenPipe;
    let mut program = args::program();
    program.build();
    let named =
        words.iter().find_map(|word| program.find_subcommand(word).map(|command| command.get_name().to_string()));
    let Some(command) = named.and_then(|name| program.find_subcommand_mut(name)) else { return };
    let command = std::mem::take(command);
    let of_topic = words.get(at + 1).and_then(|topic| args::help_of_topic(&command, topic));
    // Topics have the names that follow `--help`; other words may name an analysis.
    if of_topic.is_none()
        && command.get_name() == "analyze"
        && let Some(page) = commands::analyze_help::page(&words)
    {
        let is_failed = std::io::stdout().write_all(page.as_bytes()).is_err_and(is_failed);
        std::process::exit(i32::from(is_failed));
    }
    let is_short = words[at] == "-h" && of_topic.is_none();
    let is_whole = of_topic.is_none() && !is_short;
    let mut command = of_topic.unwrap_or_else(|| args::arranged(args::help_without_topics(command)));
    if is_whole {
        command = args::with_examples(command);
    }
    command.build();
    if !is_short {
        command = command.mut_args(|arg| arg.hide_short_help(false));
        command =
            command.mut_arg("help", |arg| arg.help("Print help; -h leaves out the examples and what is rarely needed"));
    }
    std::process::exit(i32::from(command.print_help().is_err_and(is_failed)));
}
