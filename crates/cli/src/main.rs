//! The `tracemill` program: parse, run, exit code.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod interrupt;
mod progress;
mod report;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use report::Outcome;

fn main() -> ExitCode {
    let cli = Cli::parse();
    interrupt::watch();
    let outcome = match cli.command {
        Command::Info(options) => commands::info::run(&options),
        Command::Print(options) => commands::print::run(&options),
        Command::Report(options) => commands::report::run(&options),
        Command::Check(options) => commands::check::run(&options),
        Command::Convert(options) => commands::convert::run(&options),
        Command::Formats(options) => commands::formats::run(&options),
        Command::Completions(options) => commands::completions::run(&options),
        Command::Man(options) => commands::man::run(&options),
    };
    match outcome {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            report::error(&error);
            if error.kind() == tracemill_model::error::ErrorKind::Misuse {
                Outcome::WrongUsage.exit_code()
            } else {
                Outcome::Nothing.exit_code()
            }
        }
    }
}
