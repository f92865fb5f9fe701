//! `tracemill completions`.

use tracemill_model::error::Error;

use crate::args::{self, CompletionsOptions};
use crate::report::{Outcome, OutputSink};

/// Prints the completion script of a shell.
pub(crate) fn run(options: &CompletionsOptions) -> Result<Outcome, Error> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut args::program(), "tracemill", &mut script);
    OutputSink::stdout().print(&script, Outcome::Done)
}
