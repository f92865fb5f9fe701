//! `tracemill completions`.

use clap::CommandFactory;
use tracemill_model::error::Error;

use crate::args::{Cli, CompletionsOptions};
use crate::report::{Outcome, Sink};

/// Prints the completion script of a shell.
pub(crate) fn run(options: &CompletionsOptions) -> Result<Outcome, Error> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "tracemill", &mut script);
    Sink::stdout().print(&script, Outcome::Done)
}
