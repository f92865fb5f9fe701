//! Messages on stderr, and exit statuses.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracemill_engine::output::{Pending, is_flow, refuse_input};
use tracemill_model::error::{Error, ErrorKind as Kind};

use crate::args::MessageOptions;
use crate::{interrupt, progress};

/// How a command ended (`docs/cli.md`, "Exit status").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Everything was read and done.
    Done = 0,
    /// The command could not do anything useful.
    Nothing = 1,
    /// Wrong usage.
    WrongUsage = 2,
    /// Done, but part of the input could not be read.
    Partial = 3,
    /// Done: the traces differ (`diff`).
    Differs = 4,
}

impl Outcome {
    /// The number for the shell.
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// The file for messages, when the user wants them there and not on stderr.
static LOG_FILE: OnceLock<File> = OnceLock::new();

/// Writes the messages that follow to a file, which is replaced.
pub(crate) fn write_to(path: &Path) -> Result<(), Error> {
    let file = File::create(path).map_err(|error| Error::new(Kind::Io, error.to_string()).in_file(path))?;
    // Another file can be there only when a program calls this twice.
    let _ = LOG_FILE.set(file);
    Ok(())
}

/// A folder that holds a live session for a while, and the address of that: what is read is called by the address.
static SHOWN_AS: OnceLock<(String, String)> = OnceLock::new();

/// Was part of what is read missing before it was opened?
static HAS_KEPT_FAULTS: AtomicBool = AtomicBool::new(false);

/// From now on a folder is called otherwise in messages and names.
pub(crate) fn show_as(folder: &Path, name: &str) {
    // A command reads one live session.
    let _ = SHOWN_AS.set((folder.to_string_lossy().into_owned(), name.to_string()));
}

/// A text with the name of a folder that is called otherwise.
pub(crate) fn shown_as(text: &str) -> Cow<'_, str> {
    match SHOWN_AS.get() {
        Some((folder, name)) if text.contains(folder.as_str()) => Cow::Owned(text.replace(folder.as_str(), name)),
        _ => Cow::Borrowed(text),
    }
}

/// Lets the errors so far count for the outcome of the command.
pub(crate) fn keep_faults(reporter: &Reporter) {
    HAS_KEPT_FAULTS.fetch_or(reporter.faults > 0, Ordering::Relaxed);
}

/// Errors that are remembered; a trace with more of them is not worth more memory.
const MAX_REPORTED: usize = 10_000;

/// Prints messages and remembers what they mean for the exit status. Of errors of one kind in one file the first is
/// printed at once; how many more there were, and the losses of each stream, stand at the end.
pub(crate) struct Reporter {
    options: MessageOptions,
    /// Errors of reading so far.
    pub(crate) faults: u64,
    /// Errors that were reported: opening and reading may both meet the same damage, which is reported once.
    reported: HashSet<String>,
    /// Errors after the first one of their kind, by file and kind.
    more: BTreeMap<(Option<PathBuf>, String), RepeatedErrors>,
    losses: BTreeMap<(String, &'static str), ReportedLoss>,
}

/// Errors of one kind after the first one.
#[derive(Default)]
struct RepeatedErrors {
    count: u64,
    last: Option<Error>,
}

/// Stretches of a stream where something is missing.
#[derive(Clone, Debug)]
pub(crate) struct ReportedLoss {
    /// `event`, `packet`.
    pub(crate) thing: &'static str,
    /// `discarded by the tracer`, `lost`.
    pub(crate) verb: &'static str,
    /// How many, as far as that is known.
    pub(crate) count: u64,
    /// Is the number of some of them unknown?
    pub(crate) is_unknown: bool,
    /// How many stretches.
    pub(crate) stretches: u64,
    /// When the first one begins.
    pub(crate) begin: Option<String>,
    /// When the last one ends.
    pub(crate) end: Option<String>,
    /// The stream.
    pub(crate) place: String,
}

impl fmt::Display for ReportedLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, self.is_unknown) {
            (0, true) => write!(f, "an unknown number of {}s", self.thing)?,
            (count, true) => write!(f, "at least {}", counted(count, self.thing))?,
            (count, false) => f.write_str(&counted(count, self.thing))?,
        }
        write!(f, " {} ", self.verb)?;
        if self.stretches > 1 {
            write!(f, "in {} gaps ", self.stretches)?;
        }
        match (&self.begin, &self.end) {
            (Some(begin), Some(end)) => write!(f, "between [{begin}] and [{end}]")?,
            _ => f.write_str("at an unknown time")?,
        }
        write!(f, " in {}", self.place)
    }
}

impl Reporter {
    /// A reporter.
    pub(crate) fn new(options: MessageOptions) -> Self {
        // `--quiet` wins over `--verbose`.
        let options = MessageOptions { verbose: options.verbose && !options.quiet, ..options };
        let (more, losses) = (BTreeMap::new(), BTreeMap::new());
        Reporter { options, faults: 0, reported: HashSet::new(), more, losses }
    }

    /// Reports an error of reading. True when the work must stop here.
    pub(crate) fn fault(&mut self, fault: &Error) -> bool {
        let text = error_text(fault);
        if self.reported.contains(&text) {
            return self.options.strict;
        }
        self.faults += 1;
        let key = (fault.place().file.clone(), kind_of(fault));
        let is_first = !self.more.contains_key(&key);
        if is_first || self.options.verbose {
            print_message("error", "31", &text);
        }
        if !is_first || self.more.len() < MAX_REPORTED {
            let more = self.more.entry(key).or_default();
            more.count += u64::from(!is_first);
            more.last = Some(fault.clone()).filter(|_| !is_first);
        }
        if self.reported.len() < MAX_REPORTED {
            self.reported.insert(text);
        }
        self.options.strict
    }

    /// Reports a loss, or something odd that is no error.
    pub(crate) fn warning(&self, warning: &impl ToString) {
        if !self.options.quiet {
            print_message("warning", "33", &warning.to_string());
        }
    }

    /// Reports a result that is nothing to warn of.
    pub(crate) fn note(&self, text: &str) {
        if !self.options.quiet {
            print_message("note", "36", text);
        }
    }

    /// Reports a stretch where something is missing.
    pub(crate) fn missing(&mut self, loss: ReportedLoss) {
        if self.options.verbose {
            return self.warning(&loss);
        }
        match self.losses.entry((loss.place.clone(), loss.thing)) {
            Entry::Vacant(new) => {
                new.insert(loss);
            }
            Entry::Occupied(known) => {
                let known = known.into_mut();
                known.count = known.count.saturating_add(loss.count);
                known.is_unknown |= loss.is_unknown;
                known.stretches += loss.stretches;
                known.end = loss.end;
            }
        }
    }

    /// Outcome of a command that did all that could be done.
    pub(crate) fn outcome(&self) -> Outcome {
        let faults = self.faults + u64::from(HAS_KEPT_FAULTS.load(Ordering::Relaxed));
        match (faults, self.options.strict) {
            (0, _) => Outcome::Done,
            (_, false) => Outcome::Partial,
            (_, true) => Outcome::Nothing,
        }
    }
}

impl Drop for Reporter {
    /// Prints what was held back.
    fn drop(&mut self) {
        for loss in std::mem::take(&mut self.losses).values() {
            self.warning(loss);
        }
        if self.options.verbose {
            return;
        }
        for more in std::mem::take(&mut self.more).into_values() {
            match (more.last, more.count) {
                (None, _) => {}
                (Some(last), 1) => print_message("error", "31", &last.to_string()),
                (Some(last), count) => {
                    print_message("error", "31", &format!("{count} more of this kind, the last one: {last}"))
                }
            }
        }
    }
}

/// The message of an error without its numbers: those of errors of one kind differ.
fn kind_of(error: &Error) -> String {
    let mut kind = String::new();
    for c in error.message().chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('0') => {}
            true => kind.push('0'),
            false => kind.push(c),
        }
    }
    kind
}

/// Prints an error.
pub(crate) fn error(error: &Error) {
    print_message("error", "31", &error_text(error));
}

/// The text of an error.
fn error_text(error: &Error) -> String {
    if lacks_demo(error) { error.clone().with_help(about_demo()).to_string() } else { error.to_string() }
}

/// Where the demo is, for a reader of the guide whose program was installed: archives have it next to the program, packages
/// of distributions below `share`.
fn about_demo() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let folders = [Path::new("."), Path::new("../share/tracemill")];
    let folders = folders.iter().filter_map(|folder| program.parent()?.join(folder).canonicalize().ok());
    match folders.into_iter().find(|folder| folder.join("demo").is_dir()) {
        Some(folder) => format!("the demo is in `{}`: run the command in that folder", folder.display()),
        None => {
            "the demo is the folder `demo` of the source of tracemill: run the command in the folder that has it".into()
        }
    }
}

/// Did the user name the demo, in a folder that does not have it?
fn lacks_demo(error: &Error) -> bool {
    let demo = Path::new("demo");
    error.kind() == Kind::Io
        && error.help().is_none()
        && error.place().file.as_ref().is_some_and(|file| Path::new(file).starts_with(demo))
        && !demo.exists()
}

/// Does the user want no colors anywhere (https://no-color.org: any text but none)?
pub(crate) fn has_no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Does the terminal know no colors?
pub(crate) fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
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

/// A word as a shell takes it.
pub(crate) fn shell_quoted(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./,:=+@%".contains(sign);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn print_message(word: &str, color: &str, text: &str) {
    let text = shown_as(text);
    let text = printable(&text);
    if let Some(mut file) = LOG_FILE.get() {
        // A full disk cannot be reported: there is no other place for messages.
        let _ = writeln!(file, "{word}: {text}");
        return;
    }
    let stderr = std::io::stderr();
    let colored = stderr.is_terminal() && !has_no_color();
    progress::aside(|| {
        let mut stderr = stderr.lock();
        // A closed stderr cannot be reported: there is no other place for messages.
        let _ = if colored {
            writeln!(stderr, "\x1b[1;{color}m{word}\x1b[0m: {text}")
        } else {
            writeln!(stderr, "{word}: {text}")
        };
    });
}

/// `1 event`, `2 events`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// Where output goes: stdout or the file of `-o`, which has its name when it is complete.
pub(crate) struct OutputSink {
    writer: Box<dyn Write>,
    /// The file, when it is none of the standard streams.
    path: Option<PathBuf>,
    /// The unfinished output of the file; `None` for a pipe or device, which takes lines at once.
    pending: Option<Pending>,
    /// The reader has closed the pipe: a quiet end.
    pub(crate) is_closed: bool,
}

impl OutputSink {
    /// A sink for stdout.
    pub(crate) fn stdout() -> Self {
        OutputSink { writer: Box::new(std::io::stdout().lock()), path: None, pending: None, is_closed: false }
    }

    /// A sink for stdout, or for a file, which replaces one of its name at the end.
    ///
    /// # Errors
    /// When the file would replace one of the inputs, or cannot be written.
    pub(crate) fn open(path: Option<&Path>, inputs: &[PathBuf]) -> Result<Self, Error> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else { return Ok(OutputSink::stdout()) };
        refuse_input("output", path, inputs)?;
        let (file, pending) = if is_flow(path) {
            (File::create(path).map_err(|error| Error::io("write the file", path, &error))?, None)
        } else {
            // A link keeps leading to the file.
            let pending = interrupt::begin(&path.canonicalize().unwrap_or_else(|_| path.to_path_buf()))?;
            // An interrupt that has removed what was begun must not find it made again.
            let _whole = interrupt::block();
            let failed = |error| pending.naming()(Error::io("write the file", pending.path(), &error));
            (File::create(pending.path()).map_err(failed)?, Some(pending))
        };
        Ok(OutputSink { writer: Box::new(file), path: Some(path.to_path_buf()), pending, is_closed: false })
    }

    /// Writes a text that is all of the output. The outcome is that of the command, unless the reader has gone.
    pub(crate) fn print(mut self, text: &[u8], outcome: Outcome) -> Result<Outcome, Error> {
        self.write(text)?;
        self.end()?;
        Ok(if self.is_closed { Outcome::Done } else { outcome })
    }

    /// Gives a file that is complete its name.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.pending.take().map_or(Ok(()), interrupt::commit)
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
        let _whole = interrupt::block();
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

    /// Result of writing to the writer directly, once the output has its name; `None` when the pipe was closed.
    pub(crate) fn finish<T>(&mut self, written: std::io::Result<T>) -> Result<Option<T>, Error> {
        let mut value = None;
        self.check(written.map(|written| value = Some(written)))?;
        self.end()?;
        Ok(value.filter(|_| !self.is_closed))
    }

    fn check(&mut self, result: std::io::Result<()>) -> Result<(), Error> {
        let Err(error) = result else { return Ok(()) };
        if error.kind() == ErrorKind::BrokenPipe {
            self.is_closed = true;
            return Ok(());
        }
        let kind = tracemill_model::error::ErrorKind::Io;
        Err(match &self.path {
            None => Error::new(kind, format!("cannot write to stdout: {error}")).advised(&error),
            Some(path) => Error::io("write the file", path, &error),
        })
    }
}
