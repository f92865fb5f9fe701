//! `tracemill help`, and what to say when a command is not there.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind as Usage};
use tracemill_codec::text::suggest;
use tracemill_model::error::{Error, ErrorKind};

use crate::args::{self, HelpOptions};
use crate::report::{Outcome, shell_quoted};

/// Prints the help of the program, or of a command. `help` prints that of a command line with `--help` and ends.
pub(crate) fn run(options: &HelpOptions, help: impl Fn(Vec<String>)) -> Result<Outcome, Error> {
    let mut program = args::program();
    let Some(command) = options.words.first() else {
        return match program.print_help() {
            // A reader that has seen enough is no error.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Error::new(ErrorKind::Io, format!("cannot write to stdout: {error}")))
            }
            _ => Ok(Outcome::Done),
        };
    };
    if program.find_subcommand(command).is_none() {
        let names: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
        return Err(suggest(Error::misuse(format!("there is no command `{command}`")), command, names));
    }
    let topic = options.words.get(1).cloned();
    help([command.clone(), "--help".to_string()].into_iter().chain(topic).collect());
    Ok(Outcome::Done)
}

/// Printed when nothing was typed after the name of the program: the commands that most people begin with.
pub(crate) const FIRST_COMMANDS: &str = "\
tracemill reads execution traces: LTTng, CTF, uftrace, trace-cmd, VPP, CPEL.

    tracemill info TRACE                             what a trace is, and what it holds
    tracemill print TRACE                            its events in time order, as text
    tracemill view TRACE                             its events, states and calls in the browser
    tracemill analyze TRACE                          a kernel trace: who used the CPUs, who waited for what
    tracemill report TRACE                           a trace of calls: which functions took the time
    tracemill record ./program                       make a trace: the calls of a program
    tracemill convert --to perfetto -o FILE TRACE    a file for ui.perfetto.dev; `tracemill formats` lists the others

`tracemill help` lists all commands; `tracemill help COMMAND` begins with examples.
";

/// The message for a word that was typed in the place of a command and names a file or looks like one; `None` for other
/// words, and other mistakes.
pub(crate) fn unknown_command(error: &clap::Error) -> Option<Error> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    if error.kind() != Usage::InvalidSubcommand {
        return None;
    }
    if Path::new(word).exists() {
        let error = Error::misuse(format!("`{word}` is not a command but a file or folder"));
        let word = shell_quoted(word);
        return Some(error.with_help(format!(
            "did you mean `tracemill print {word}`? `tracemill info {word}` describes it, `tracemill view {word}` shows it in \
             the browser, and `tracemill help` lists all commands"
        )));
    }
    let looks_like_path = word.contains(['/', '.']);
    looks_like_path.then(|| {
        let error = Error::misuse(format!("`{word}` is not a command, and there is no such file or folder"));
        error.with_help("`tracemill help` lists the commands")
    })
}

/// Options by which other programs choose events by their names.
const OF_EVENTS: [&str; 4] = ["--event", "--events", "--event-name", "--name"];

/// The message for an option of other programs that was given to a command that chooses events by a filter; `None` for other
/// options, and other mistakes.
pub(crate) fn unknown_option(error: &clap::Error, program: &clap::Command) -> Option<Error> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != Usage::UnknownArgument || !OF_EVENTS.contains(&&**option) {
        return None;
    }
    let command = std::env::args().skip(1).find_map(|word| program.find_subcommand(word))?;
    let has_filter = command.get_arguments().any(|argument| argument.get_long() == Some("filter"));
    has_filter.then(|| {
        let error = Error::misuse(format!("`{}` has no option {option}", command.get_name()));
        error.with_help("choose events by their names with --filter 'name == \"sched_*\"'")
    })
}
