//! `tracemill man`.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use tracemill_model::error::{Error, ErrorKind};

use crate::args::{self, ManOptions};
use crate::report::{Outcome, OutputSink};

/// Prints the manual page, or writes all pages to a folder.
pub(crate) fn run(options: &ManOptions) -> Result<Outcome, Error> {
    let mut program = args::program().disable_help_subcommand(true);
    program.build();
    if let Some(dir) = &options.dir {
        std::fs::create_dir_all(dir).map_err(|error| Error::io("make the folder", dir, &error))?;
        write_pages(&program, dir).map_err(|error| Error::io("write the pages", dir, &error))?;
        return Ok(Outcome::Done);
    }
    let page =
        page(&program).map_err(|error| Error::new(ErrorKind::Io, format!("cannot make the manual page: {error}")))?;
    OutputSink::stdout().print(&page, Outcome::Done)
}

/// Writes the page of a command, and those of its subcommands.
fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, dir)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    std::fs::write(dir.join(format!("{name}.1")), page(command)?)
}

/// The page of a command: as `Man::render` makes it, with the examples before the description.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut command = args::arranged(command.clone());
    // The synopsis of options, each by its name, would fill a screen.
    let usage = command.render_usage().to_string();
    let command = command.override_usage(usage.trim_start_matches("Usage: ").to_string());
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    put_examples(command.get_name(), &mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if command.get_after_long_help().or_else(|| command.get_after_help()).is_some() {
        man.render_extra_section(&mut page)?;
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

fn put_examples(name: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let examples = args::examples_of(name);
    if examples.is_empty() {
        return Ok(());
    }
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for (about, line) in examples {
        roff.control("PP", []);
        roff.text([roman(format!("{about}:"))]);
        // A line that is typed is not broken.
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([bold(*line)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff.to_writer(page)
}
