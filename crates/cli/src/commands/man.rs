//! `tracemill man`.

use clap::CommandFactory;
use tracemill_model::error::{Error, ErrorKind};

use crate::args::{Cli, ManOptions};
use crate::report::{Outcome, Sink};

/// Prints the manual page, or writes all pages to a folder.
pub(crate) fn run(options: &ManOptions) -> Result<Outcome, Error> {
    if let Some(dir) = &options.dir {
        std::fs::create_dir_all(dir).map_err(|error| Error::io("make the folder", dir, &error))?;
        clap_mangen::generate_to(Cli::command(), dir).map_err(|error| Error::io("write the pages", dir, &error))?;
        return Ok(Outcome::Done);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot make the manual page: {error}")))?;
    Sink::stdout().print(&page, Outcome::Done)
}
