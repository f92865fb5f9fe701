//! `tracemill record` for a program that runs: its recorder is told what to do by the socket in the folder of the trace.

use std::ffi::OsStr;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracemill_codec::text::out::Out;
use tracemill_engine::filter::Expression;
use tracemill_engine::parsed_query::misuse_of;
use tracemill_model::error::{Error, ErrorKind};
use tracemill_record::control::{Command, Contexts, EventCondition, ListedEvent, Reply, ask, folders_of};
use tracemill_table::{Align, Layout};

use super::record::find;
use super::{record_notes as notes, record_trigger as trigger};
use crate::args::RecordOptions;
use crate::report::{Outcome, OutputSink};

/// Are the options for a program that runs, not for one that is to be run?
pub(super) fn is_wanted(options: &RecordOptions) -> bool {
    let control = &options.control;
    let off = options.calls.disable.as_ref().is_some_and(Option::is_some);
    let rules = &options.calls.rules.0;
    let has_rules = !rules.filters.is_empty() || !rules.triggers.is_empty() || control.context.is_some();
    control.list
        || !control.enable.is_empty()
        || control.rotate
        || control.stop
        || control.no_triggers
        || off
        || has_rules && matches!(options.program.as_slice(), [target] if is_target(target))
}

/// The program whose probes are to be listed: it does not run.
pub(super) fn listed_program(options: &RecordOptions) -> Option<PathBuf> {
    match options.program.as_slice() {
        [target] if options.control.list && !is_target(target) => find(Path::new(target)),
        _ => None,
    }
}

/// A process, or the folder of a trace: no program has such a name.
fn is_target(text: &OsStr) -> bool {
    pid(text).is_some() || Path::new(text).is_dir()
}

fn pid(text: &OsStr) -> Option<u32> {
    text.to_str()?.parse().ok()
}

/// The mistake that makes the events of `--disable EVENTS PID` a program: this option has its value after a `=`, since uftrace's
/// has none.
pub(super) fn misread_disable(options: &RecordOptions) -> Option<Error> {
    match (&options.calls.disable, options.program.as_slice()) {
        (Some(None), [globs, target]) if is_target(target) && find(Path::new(globs)).is_none() => {
            let error = Error::misuse("--disable has the events that it switches off after a `=`");
            let command = format!("`tracemill record --disable={} {}`", globs.display(), target.display());
            Some(error.with_help(command))
        }
        _ => None,
    }
}

/// Tells a recorder what the options say.
pub(super) fn run(options: &RecordOptions) -> Result<Outcome, Error> {
    let target = match options.program.as_slice() {
        [target] => target,
        [] => {
            return Err(
                Error::misuse("no process is named").with_help("give its id, or the folder of its trace, at the end")
            );
        }
        [_, more, ..] => {
            let message = format!("`{}` is too much: one process or folder of a trace is told", more.display());
            return Err(Error::misuse(message));
        }
    };
    let commands = commands(options)?;
    let folder = folder_of(target)?;
    let reply = ask(&folder, &commands).map_err(|error| not_told(&folder, &error))?;
    if let Some(pid) = pid(target).filter(|pid| *pid != reply.pid) {
        // It has inherited what its parent holds open.
        let message =
            format!("process {pid} does not record; its parent {} does, into {}", reply.pid, folder.display());
        return Err(Error::misuse(message));
    }
    print(options, &reply)
}

/// The folder into which a process records, or one that is named itself.
pub(super) fn folder_of(target: &OsStr) -> Result<PathBuf, Error> {
    let Some(pid) = pid(target).filter(|_| !Path::new(target).is_dir()) else { return Ok(PathBuf::from(target)) };
    let folders = folders_of(pid).map_err(|error| match error.kind() {
        IoErrorKind::NotFound => Error::misuse(format!("there is no process {pid}")),
        _ => Error::io("look at the files of process", Path::new(&pid.to_string()), &error),
    })?;
    match folders.as_slice() {
        [folder] => Ok(folder.clone()),
        [] => {
            let error = Error::misuse(format!("process {pid} records no events that can be told what to do"));
            Err(error.with_help("programs linked with `tracemill-record` can, from when they begin to record"))
        }
        several => {
            let names: Vec<_> = several.iter().map(|folder| folder.display().to_string()).collect();
            let error = Error::misuse(format!("process {pid} has several recorders"));
            Err(error.with_help(format!("name one of their folders: {}", names.join(", "))))
        }
    }
}

fn commands(options: &RecordOptions) -> Result<Vec<Command>, Error> {
    let control = &options.control;
    let mut commands: Vec<Command> = control.enable.iter().cloned().map(Command::Enable).collect();
    // The pattern of a filter: what the events are that are named next to it.
    let mut named = control.enable.clone();
    if let Some(Some(globs)) = &options.calls.disable {
        let off = globs.split(',').filter(|glob| !glob.is_empty()).map(|glob| format!("-{glob}"));
        commands.push(Command::Enable(off.collect::<Vec<_>>().join(",")));
    }
    named.retain(|globs| !globs.starts_with('-'));
    let events = if named.is_empty() { "*".to_string() } else { named.join(",") };
    commands.extend(rules(options, &events)?);
    if control.rotate {
        let output = options
            .output
            .as_ref()
            .ok_or_else(|| Error::misuse("--rotate needs the folder in which to go on").with_help("give it with -o"))?;
        let output = std::path::absolute(output).map_err(|error| Error::io("find the folder", output, &error))?;
        commands.push(Command::Rotate(output));
    }
    if control.stop {
        commands.push(Command::Stop);
    }
    if control.list {
        // Before the recording ends.
        let at = if control.stop { commands.len() - 1 } else { commands.len() };
        commands.insert(at, Command::List);
    }
    Ok(commands)
}

/// The conditions, contexts and triggers of the options, for these events.
pub(super) fn rules(options: &RecordOptions, events: &str) -> Result<Vec<Command>, Error> {
    let (control, rules) = (&options.control, &options.calls.rules.0);
    let mut commands = Vec::new();
    for text in &rules.filters {
        commands.push(Command::Filter(condition(events, text)?));
    }
    if let Some(names) = &control.context {
        let contexts = Contexts::parse(names).map_err(Error::misuse)?;
        commands.push(Command::Contexts { events: events.to_string(), contexts });
    }
    if control.no_triggers {
        commands.push(Command::NoTriggers);
    }
    let before = Duration::from_nanos(control.before.unwrap_or(0));
    for text in &rules.triggers {
        commands.push(Command::Trigger(trigger::parse(text, before)?));
    }
    Ok(commands)
}

/// A condition about some events, in the language of `print --filter`.
fn condition(events: &str, text: &str) -> Result<EventCondition, Error> {
    let condition = Expression::parse(text).and_then(|expression| expression.condition());
    let condition = condition.map_err(|error| misuse_of("--filter", error))?;
    Ok(EventCondition { events: events.to_string(), source: text.to_string(), condition })
}

fn not_told(folder: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        IoErrorKind::NotFound | IoErrorKind::NotADirectory => {
            let error = Error::misuse("no recorder takes commands there").in_file(folder);
            error.with_help(
                "a program linked with `tracemill-record` does, unless it or TRACEMILL_RECORD_CONTROL=off says no",
            )
        }
        IoErrorKind::ConnectionRefused => {
            let error = Error::new(ErrorKind::Io, "the process that recorded has ended").in_file(folder);
            error.with_help(format!("finish its trace by `tracemill record --recover {}`", folder.display()))
        }
        IoErrorKind::WouldBlock | IoErrorKind::TimedOut => {
            let error = Error::new(ErrorKind::Io, "the recorder does not answer").in_file(folder);
            error.with_help("its process may be stopped, as by a debugger; what it was told, it does when it goes on")
        }
        IoErrorKind::Other => Error::new(ErrorKind::Io, error.to_string()).in_file(folder),
        _ => Error::io("command the recorder of", folder, error),
    }
}

fn print(options: &RecordOptions, reply: &Reply) -> Result<Outcome, Error> {
    let mut stderr = std::io::stderr().lock();
    // Best effort here and below: stderr may be closed.
    reply.notes.iter().for_each(|note| drop(writeln!(stderr, "note: {note}")));
    if let Some(discarded) = reply.finished {
        let discarded = notes::discarded_phrase(discarded);
        let _ = writeln!(stderr, "{}: the trace is finished{discarded}", reply.folder.display());
    }
    if options.control.list { list(&reply.events) } else { Ok(Outcome::Done) }
}

/// A line for each event: is it on, its level, its name, its fields, and its condition.
fn list(events: &[ListedEvent]) -> Result<Outcome, Error> {
    let lines: Vec<[String; 4]> = events.iter().map(line).collect();
    let mut layout = Layout::with_alignments([Align::Left; 4]);
    lines.iter().for_each(|line| layout.widen(line));
    let mut out = Out::default();
    for line in &lines {
        layout.put_line(&mut out, line);
    }
    OutputSink::stdout().print(out.written(), Outcome::Done)
}

fn line(event: &ListedEvent) -> [String; 4] {
    let fields: Vec<_> = event.fields.iter().map(|(name, class)| format!("{name}: {class}")).collect();
    let mut shown = fields.join(", ");
    if !event.condition.is_empty() {
        shown += &format!("{}if {}", if shown.is_empty() { "" } else { "  " }, event.condition);
    }
    [if event.is_on { "on" } else { "off" }.to_string(), event.level.clone(), event.name.clone(), shown]
}
