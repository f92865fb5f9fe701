//! Messages on stderr, and exit statuses.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use tracemill_model::error::Error;

use crate::{interrupt, progress};

/// How a command ended (`docs/cli.md`, "Exit status").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Everything was read and done.
    Done,
    /// Nothing useful could be done.
    Nothing,
    /// Wrong usage.
    WrongUsage,
    /// Done, but part of the input could not be read.
    Partial,
}

impl Outcome {
    /// The number for the shell.
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Outcome::Done => 0,
            Outcome::Nothing => 1,
            Outcome::WrongUsage => 2,
            Outcome::Partial => 3,
        })
    }
}

/// Errors that are remembered; a trace with more of them is not worth more memory.
const MAX_REPORTED: usize = 10_000;

/// Prints messages and remembers what they mean for the exit status.
pub(crate) struct Reporter {
    quiet: bool,
    strict: bool,
    /// Errors of reading so far.
    pub(crate) faults: u64,
    /// Errors that were reported: opening and reading may both meet the same damage, which is reported once.
    reported: HashSet<String>,
}

impl Reporter {
    /// A reporter; a quiet one reports errors only.
    pub(crate) fn new(quiet: bool, strict: bool) -> Self {
        Reporter { quiet, strict, faults: 0, reported: HashSet::new() }
    }

    /// Reports an error of reading. True when the work must stop here.
    pub(crate) fn fault(&mut self, fault: &Error) -> bool {
        let text = fault.to_string();
        if self.reported.contains(&text) {
            return self.strict;
        }
        self.faults += 1;
        say("error", "31", &text);
        if self.reported.len() < MAX_REPORTED {
            self.reported.insert(text);
        }
        self.strict
    }

    /// Reports something odd that is no error.
    pub(crate) fn warning(&self, warning: &Error) {
        if !self.quiet {
            say("warning", "33", &warning.to_string());
        }
    }

    /// Reports a result that is nothing to warn of.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            say("note", "36", text);
        }
    }

    /// Reports a loss.
    pub(crate) fn loss(&self, text: &str) {
        if !self.quiet {
            say("warning", "33", text);
        }
    }

    /// Outcome of a command that did all that could be done.
    pub(crate) fn outcome(&self) -> Outcome {
        match (self.faults, self.strict) {
            (0, _) => Outcome::Done,
            (_, false) => Outcome::Partial,
            (_, true) => Outcome::Nothing,
        }
    }
}

/// Prints an error.
pub(crate) fn error(error: &Error) {
    say("error", "31", &error.to_string());
}

/// Text that is safe for a terminal: names and values in traces may hold control characters, which it would obey.
/// Line breaks and tabs stay.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_command(c) {
            true => out += &format!("\\x{:02x}", u32::from(c)),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn say(word: &str, color: &str, text: &str) {
    let text = printable(text);
    let stderr = std::io::stderr();
    let colored = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    progress::aside(|| {
        let mut stderr = stderr.lock();
        // Nothing can be done about a stderr that is closed.
        let _ = if colored {
            writeln!(stderr, "\x1b[1;{color}m{word}\x1b[0m: {text}")
        } else {
            writeln!(stderr, "{word}: {text}")
        };
    });
}

/// Where output goes: stdout or the file of `-o`.
pub(crate) struct Sink {
    writer: Box<dyn Write>,
    /// The file, when it is none of the standard streams.
    path: Option<std::path::PathBuf>,
    /// The reader has closed the pipe: a quiet end.
    pub(crate) is_closed: bool,
}

impl Sink {
    /// A sink for stdout, or for a file.
    pub(crate) fn open(path: Option<&std::path::Path>) -> Result<Self, Error> {
        match path {
            None => Ok(Sink { writer: Box::new(std::io::stdout().lock()), path: None, is_closed: false }),
            Some(path) => {
                // An interrupt that has removed what was begun must not find it made again.
                let _whole = interrupt::hold();
                let file = std::fs::File::create(path).map_err(|error| Error::io("write the file", path, &error))?;
                Ok(Sink { writer: Box::new(file), path: Some(path.to_path_buf()), is_closed: false })
            }
        }
    }

    /// Writes whole lines; does nothing once the pipe is closed.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), Error> {
        self.write_parts([lines])
    }

    /// Writes whole lines that stand in several parts. An interrupt does not come between them.
    pub(crate) fn write_parts<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        let _whole = interrupt::hold();
        let result = parts.iter().try_for_each(|part| self.writer.write_all(part));
        self.check(result)
    }

    /// Writes what is buffered.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        let result = self.writer.flush();
        self.check(result)
    }

    /// The writer itself, for those that write as they go.
    pub(crate) fn as_writer(&mut self) -> &mut dyn Write {
        &mut *self.writer
    }

    /// Result of writing to the writer directly, once it is flushed; `None` when the pipe was closed.
    pub(crate) fn finish<T>(&mut self, written: std::io::Result<T>) -> Result<Option<T>, Error> {
        let (result, value) = match written {
            Ok(value) => (Ok(()), Some(value)),
            Err(error) => (Err(error), None),
        };
        self.check(result)?;
        self.flush()?;
        Ok(value.filter(|_| !self.is_closed))
    }

    fn check(&mut self, result: std::io::Result<()>) -> Result<(), Error> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => {
                let kind = tracemill_model::error::ErrorKind::Io;
                Err(match &self.path {
                    None => Error::new(kind, format!("cannot write to stdout: {error}")).advised(&error),
                    Some(path) => Error::io("write the file", path, &error),
                })
            }
            Ok(()) => Ok(()),
        }
    }
}
