//! Opening and options of the commands that follow calls.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_calls::report::SpanTimes;
use tracemill_calls::rules::Rules;
use tracemill_calls::text::{by_name, parse_time};
use tracemill_calls::{CallOptions, EventOptions, KernelOptions, TimeRange, no_calls};
use tracemill_codec::text::seconds;
use tracemill_engine::calls::EventCalls;
use tracemill_engine::output::refuse_input;
use tracemill_engine::request::{OpenStep, OpenedTraces, Request};
use tracemill_engine::samples::has_samples;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::spans::span_statistics;
use tracemill_format::calls::{CallSource, ColorStyle, Findings};
use tracemill_format::{Settings, names_of};
use tracemill_formats::FORMATS;
use tracemill_model::error::{Error, ErrorKind};

use super::request::jobs;
use crate::args::{CallArgs, When};
use crate::report::{Outcome, OutputSink, Reporter, is_dumb_terminal, write_to};

/// An open trace with calls.
pub(crate) struct OpenCalls {
    session: Arc<Session>,
    /// Calls that stand between other events.
    events: Option<EventCalls>,
    reporter: Reporter,
}

/// Opens the trace of the options. `None` when it cannot be read (reported on stderr).
pub(crate) fn open(args: &CallArgs) -> Result<Option<OpenCalls>, Error> {
    let Some((session, reporter)) = open_session(args)? else { return Ok(None) };
    of_session(args, session, reporter).map(Some)
}

/// Opens the trace of the options, whatever is in it.
pub(super) fn open_session(args: &CallArgs) -> Result<Option<(Arc<Session>, Reporter)>, Error> {
    if let (Some(trace), Some(data)) = (&args.trace, &args.data) {
        let message = format!("two traces, `{}` and `{}`", trace.display(), data.display());
        return Err(Error::misuse(message).with_help("leave -d out, or the other one"));
    }
    let path = path(args);
    if let Some(output) = &args.output {
        refuse_input("output", output, std::slice::from_ref(&path))?;
    }
    if let Some(logfile) = &args.logfile {
        refuse_input("file of messages", logfile, std::slice::from_ref(&path))?;
        write_to(logfile)?;
    }
    if args.trace.is_none() && args.data.is_none() && !path.exists() {
        let error = Error::new(ErrorKind::Io, "there is no recording here, and no trace was named").in_file(&path);
        return Err(error.with_help("name a trace, or go to the folder where `uftrace record` left its data"));
    }
    let mut settings = Settings::new();
    settings.0.extend(args.with_syms.clone().map(|folder| ("with-syms", folder)));
    let open = OpenOptions {
        settings,
        input_format: args.input_format.clone(),
        calls_only: true,
        strict: args.messages.strict,
        demangle: args.demangle.form(),
        ..OpenOptions::new(FORMATS)
    };
    let request = Request { inputs: vec![path.clone()], open, ..Request::default() };
    let mut reporter = Reporter::new(args.messages);
    let opened = request.open(&FileSystem, &mut |step| {
        Ok(match step {
            OpenStep::Opened(session) => report_opening(session, &mut reporter),
            OpenStep::Correlated(..) => ControlFlow::Continue(()),
        })
    })?;
    let Some(OpenedTraces { session, .. }) = opened else { return Ok(None) };
    Ok(Some((Arc::new(session), reporter)))
}

/// Has a session calls, or events that may be calls?
pub(super) fn has_calls(session: &Arc<Session>) -> bool {
    session.traces.iter().any(|trace| trace.reader.calls().is_some()) || EventCalls::open(session).is_some()
}

/// The calls of a session.
pub(super) fn of_session(args: &CallArgs, session: Arc<Session>, reporter: Reporter) -> Result<OpenCalls, Error> {
    let path = path(args);
    let with_calls = session.traces.iter().filter(|trace| trace.reader.calls().is_some()).count();
    let events = if with_calls == 0 { EventCalls::open(&session) } else { None };
    if with_calls != 1 && events.is_none() {
        let message = match with_calls {
            0 => "the trace has no function calls".to_string(),
            count => format!("{count} traces have function calls, and one is followed at a time"),
        };
        if with_calls == 0 && has_samples(&session) {
            let error =
                Error::unsupported("the trace has samples, which do not say when calls begin and end").in_file(&path);
            return Err(error.with_help("`tracemill report`, `graph` and `flame` add samples up by function and stack"));
        }
        let with_calls = FORMATS.iter().filter(|format| format.has_calls);
        let known = names_of(with_calls);
        let error = Error::unsupported(message).in_file(&path);
        return Err(error.with_help(format!(
            "formats with calls: {}; `tracemill report` measures the time between events of any trace with --state, or \
             --from and --to",
            known.join(", ")
        )));
    }
    Ok(OpenCalls { session, events, reporter })
}

/// Reports what opening found, errors first; ends the work when there is no trace.
fn report_opening(session: &Session, reporter: &mut Reporter) -> ControlFlow<()> {
    let mut faults = session.failures.iter().chain(session.traces.iter().flat_map(|trace| &trace.faults));
    if faults.any(|fault| reporter.fault(fault)) {
        return ControlFlow::Break(());
    }
    for warning in session.warnings.iter().chain(session.traces.iter().flat_map(|trace| &trace.warnings)) {
        reporter.warning(warning);
    }
    if session.traces.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

impl OpenCalls {
    /// Its calls.
    pub(crate) fn source(&self) -> Option<&dyn CallSource> {
        let events = self.events.as_ref().map(|events| events as &dyn CallSource);
        events.or_else(|| self.session.traces.iter().find_map(|trace| trace.reader.calls()))
    }

    /// The outcome of the command, after the findings are reported; there are none when the reader of the output has gone.
    pub(crate) fn finish(mut self, findings: Option<Findings>) -> Outcome {
        let Some(findings) = findings else { return Outcome::Done };
        for warning in &findings.warnings {
            self.reporter.warning(warning);
        }
        for fault in &findings.faults {
            if self.reporter.fault(fault) {
                return Outcome::Nothing;
            }
        }
        // The program ends: the system takes back all that is held at once, which costs less than giving it piece by piece.
        std::mem::forget(self.session);
        self.reporter.outcome()
    }
}

/// Where the output goes.
pub(crate) fn sink(args: &CallArgs) -> Result<OutputSink, Error> {
    OutputSink::open(args.output.as_deref(), &[path(args)])
}

/// The trace that is read.
pub(crate) fn path(args: &CallArgs) -> PathBuf {
    args.trace.clone().or_else(|| args.data.clone()).unwrap_or_else(default_folder)
}

/// Where the recorder leaves its data.
pub(crate) fn default_folder() -> PathBuf {
    let folders = ["uftrace.data", ".", "ftrace.dir"];
    let is_there = |folder: &&str| Path::new(folder).join("info").is_file();
    folders.iter().copied().find(is_there).unwrap_or(folders[0]).into()
}

/// The calls, and the options of following them, with those that the recording asks for.
pub(crate) fn options<'a>(args: &CallArgs, open: &'a OpenCalls) -> Result<(&'a dyn CallSource, CallOptions), Error> {
    let source = open.source().ok_or_else(|| Error::unsupported("the trace has no function calls"))?;
    let mut warnings = Vec::new();
    let rules = Rules::new(source, &args.rules.0, &mut warnings);
    warnings.iter().for_each(|warning| open.reporter.warning(warning));
    let mut options = CallOptions {
        events: EventOptions {
            none: args.choice.no_event,
            all: args.event_full,
            // Scheduling is not shown with the callers of a function, nor with functions of a file.
            no_sched: args.choice.no_sched || !args.rules.0.callers.is_empty() || !args.rules.0.locations.is_empty(),
            no_preemptions: args.choice.no_sched_preempt,
        },
        kernel: KernelOptions { all: args.kernel_full, only: args.kernel_only },
        is_disabled: args.choice.disable,
        range: args.choice.time_range.as_deref().map(time_range).transpose()?.unwrap_or_default(),
        rules,
        tids: args.choice.tid.clone(),
        no_library_calls: args.choice.no_libcall,
        jobs: jobs(args.jobs),
        ..CallOptions::default()
    };
    options.depth = args.choice.depth.unwrap_or(options.depth);
    let mut words = source.default_options().iter().map(String::as_str);
    while let Some(word) = words.next() {
        let time = match word.strip_prefix("-t").or_else(|| word.strip_prefix("--time-filter=")) {
            Some(_) if word == "-t" => words.next(),
            Some(time) => Some(time),
            None => continue,
        };
        options.time_filter = time.and_then(parse_time).unwrap_or(0);
    }
    if !options.range.is_whole() {
        options.time_filter = 0;
    }
    if let Some(time) = &args.choice.time_filter {
        options.time_filter = parse_time(time).ok_or_else(|| {
            Error::misuse(format!("`{time}` is not a time, in --time-filter")).with_help("for example 50us, 1ms, 2s")
        })?;
    }
    for reason in no_calls::reasons(source, &options) {
        open.reporter.warning(&reason);
    }
    Ok((source, options))
}

/// The times of spans that have numbers. They are those of the whole trace: where options select calls, they are left out,
/// which is said.
pub(crate) fn spans(args: &CallArgs, open: &OpenCalls) -> Vec<SpanTimes> {
    if open.events.is_none() {
        return Vec::new();
    }
    let found = span_statistics(&open.session);
    let choice = &args.choice;
    let selects = !choice.tid.is_empty()
        || choice.time_range.is_some()
        || choice.time_filter.is_some()
        || choice.depth.is_some()
        || choice.disable
        || !args.rules.0.is_empty();
    if selects && !found.is_empty() {
        open.reporter.warning(&"the times of spans from entry to close are left out: options select calls");
        return Vec::new();
    }
    let short = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
    let times = found.into_iter().map(|span| SpanTimes {
        total: short(span.total_ns),
        max: span.max_ns,
        in_polls: short(span.in_polls_ns),
        count: span.count,
        open: span.open,
        name: span.name,
    });
    times.collect()
}

/// The colors of what is shown.
fn colors(args: &CallArgs, is_html: bool) -> ColorStyle {
    let is_wanted = match args.color {
        When::Always => true,
        When::Never => false,
        // A page has colors wherever it is written to.
        When::Auto if is_html => true,
        When::Auto => args.output.is_none() && std::io::stdout().is_terminal() && !is_dumb_terminal(),
    };
    match (is_html, is_wanted) {
        (true, true) => ColorStyle::Html,
        (true, false) => ColorStyle::PlainHtml,
        (false, true) => ColorStyle::Terminal,
        (false, false) => ColorStyle::None,
    }
}

/// Writes text in the colors that are wanted of it, or as a page.
pub(crate) fn write_text<T>(
    args: &CallArgs,
    is_html: bool,
    sink: &mut OutputSink,
    write: impl FnOnce(ColorStyle, &mut dyn Write) -> std::io::Result<T>,
) -> std::io::Result<T> {
    let (colors, mut out) = (colors(args, is_html), sink.as_writer());
    if !colors.is_html() {
        return write(colors, &mut out);
    }
    out.write_all(b"<html>\n<head></head>\n<body style='background-color:black;color:white;'>\n<pre>\n")?;
    let written = write(colors, &mut out)?;
    out.write_all(b"</pre>\n</body>\n</html>\n")?;
    Ok(written)
}

/// The stretch of time of `-r`.
pub(super) fn time_range(text: &str) -> Result<TimeRange, Error> {
    let wrong = || {
        let error = Error::misuse(format!("`{text}` is not a span of time, in --time-range"));
        error.with_help("for example 100us~2ms, 12.5~13, ~10ms")
    };
    let (start, stop) = text.split_once('~').ok_or_else(wrong)?;
    let end = |text: &str| match text.ends_with(|letter: char| letter.is_ascii_alphabetic()) {
        _ if text.is_empty() => Some((0, false)),
        true => parse_time(text).map(|time| (time, true)),
        false => seconds(text).map(|time| (time, false)),
    };
    let ((start, is_start_elapsed), (stop, is_stop_elapsed)) =
        (end(start).ok_or_else(wrong)?, end(stop).ok_or_else(wrong)?);
    Ok(TimeRange { start, is_start_elapsed, stop, is_stop_elapsed })
}

/// The columns of a list of names, of those with names: [`fields`].
pub(crate) fn fields_of<T: Copy + PartialEq>(
    text: Option<&str>,
    defaults: Vec<T>,
    all: &[(&'static str, T)],
) -> Result<Vec<T>, Error> {
    fields(text, defaults, |name| by_name(all, name), all.iter().map(|(name, _)| *name))
}

/// The names of a list of columns: those of `defaults` first when it begins with `+`; none for `none`.
pub(crate) fn fields<T: Copy + PartialEq>(
    text: Option<&str>,
    defaults: Vec<T>,
    by_name: impl Fn(&str) -> Option<T> + Copy,
    names: impl Iterator<Item = &'static str>,
) -> Result<Vec<T>, Error> {
    let Some(text) = text else { return Ok(defaults) };
    if text == "none" {
        return Ok(Vec::new());
    }
    let (mut fields, list) = match text.strip_prefix('+') {
        Some(list) => (defaults, list),
        None => (Vec::new(), text),
    };
    let known: Vec<&str> = names.collect();
    let mut wanted = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match by_name(name) {
            Some(field) => wanted.push(field),
            None if name == "all" => wanted.extend(known.iter().copied().filter_map(by_name)),
            None => {
                let error = Error::misuse(format!("there is no field `{name}`"));
                return Err(error.with_help(format!("fields are {}", known.join(", "))));
            }
        }
    }
    // As in uftrace they stand in their own order, however they are typed.
    wanted.append(&mut fields);
    for field in known.into_iter().filter_map(by_name) {
        if wanted.contains(&field) && !fields.contains(&field) {
            fields.push(field);
        }
    }
    Ok(fields)
}
