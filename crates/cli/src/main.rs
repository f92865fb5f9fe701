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

/// Size of the block that is freed at the start, to teach the allocator of Linux how much memory to keep.
const KEPT_BYTES: usize = 4 << 20;

fn main() -> ExitCode {
    // Packets come and go in hundreds of kilobytes. The allocator of Linux would give that memory back each time, and
    // take it again page by page: a tenth of the time of `print` on 20 M events. It keeps up to twice the size
    // of the largest block that was freed; no page of this one is touched.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BYTES)));
    tracemill_engine::source::refuse_large_files_by_error();
    let cli = Cli::parse();
    interrupt::watch();
    let outcome = match cli.command {
        Command::Info(options) => commands::info::run(&options),
        Command::Print(options) => commands::print::run(&options),
        Command::Check(options) => commands::check::run(&options),
        Command::Convert(options) => commands::convert::run(&options),
        Command::Replay(options) => commands::replay::run(&options),
        Command::Report(command) => match &*command {
            args::ReportCommand::Times(options) => commands::report::run(options),
            args::ReportCommand::Calls(options) => commands::report_calls::run(options),
        },
        Command::Graph(options) => commands::graph::run(&options),
        Command::Flame(options) => commands::flame::run(&options),
        Command::Dump(options) => commands::dump::run(&options),
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
