//! `tracemill completions`.

use tracemill_model::error::Error;

use crate::args::{self, CompletionsOptions};
use crate::report::{Outcome, Sink};

/// Prints the completion script of a shell.
pub(crate) fn run(options: &CompletionsOptions) -> Result<Outcome, Error> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut args::program(), "tracemill", &mut script);
    Sink::stdout().print(&script, Outcome::Done)
}
