//! What the commands that follow calls have in common.

use std::path::{Path, PathBuf};

use tracemill_calls::CallOptions;
use tracemill_calls::text::parse_time;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_formats::calls::{CallSource, Findings};
use tracemill_formats::registry;
use tracemill_model::error::{Error, ErrorKind};

use crate::args::CallArgs;
use crate::report::{Outcome, Reporter};

/// An open trace with calls.
pub(crate) struct OpenCalls {
    session: Session,
    reporter: Reporter,
}

/// Opens the trace of the options. `None` when it cannot be read (said on stderr).
pub(crate) fn open(args: &CallArgs) -> Result<Option<OpenCalls>, Error> {
    if let (Some(trace), Some(data)) = (&args.trace, &args.data) {
        let message = format!("two traces, `{}` and `{}`", trace.display(), data.display());
        return Err(Error::misuse(message).with_help("leave -d out, or the other one"));
    }
    let path = args.trace.clone().or_else(|| args.data.clone()).unwrap_or_else(default_folder);
    let options = OpenOptions { input_format: args.input_format.clone(), ..OpenOptions::default() };
    let session = Session::open(&FileSystem, std::slice::from_ref(&path), &options)?;
    let mut reporter = Reporter::new(args.quiet, args.strict);
    let faults = session.failures.iter().chain(session.traces.iter().flat_map(|trace| &trace.faults));
    for fault in faults {
        if reporter.fault(fault) {
            return Ok(None);
        }
    }
    for warning in session.warnings.iter().chain(session.traces.iter().flat_map(|trace| &trace.warnings)) {
        reporter.warning(warning);
    }
    if session.traces.is_empty() {
        return Ok(None);
    }
    let with_calls = session.traces.iter().filter(|trace| trace.reader.calls().is_some()).count();
    if with_calls != 1 {
        let message = match with_calls {
            0 => "the trace has no function calls".to_string(),
            count => format!("{count} traces have function calls, and one is followed at a time"),
        };
        let with_calls = registry::FORMATS.iter().filter(|format| format.has_calls);
        let known = registry::names_of(with_calls);
        let error = Error::new(ErrorKind::Unsupported, message).in_file(&path);
        return Err(error.with_help(format!(
            "formats with calls: {}; `tracemill report` measures the time between events of any trace with --state, or \
             --from and --to",
            known.join(", ")
        )));
    }
    Ok(Some(OpenCalls { session, reporter }))
}

impl OpenCalls {
    /// Its calls.
    pub(crate) fn source(&self) -> Option<&dyn CallSource> {
        self.session.traces.iter().find_map(|trace| trace.reader.calls())
    }

    /// Tells what was wrong, and how the command ends.
    pub(crate) fn finish(mut self, findings: &Findings) -> Outcome {
        for warning in &findings.warnings {
            self.reporter.warning(warning);
        }
        for fault in &findings.faults {
            if self.reporter.fault(fault) {
                return Outcome::Nothing;
            }
        }
        self.reporter.outcome()
    }
}

/// Where the recorder leaves its data.
fn default_folder() -> PathBuf {
    let folders = ["uftrace.data", ".", "ftrace.dir"];
    let is_there = |folder: &&str| Path::new(folder).join("info").is_file();
    folders.iter().copied().find(is_there).unwrap_or(folders[0]).into()
}

/// The options of following, with those that the recording asks for.
pub(crate) fn options(args: &CallArgs, source: &dyn CallSource) -> Result<CallOptions, Error> {
    let mut options = CallOptions {
        tids: args.tid.clone(),
        no_library_calls: args.no_libcall,
        no_events: args.no_event,
        all_events: args.event_full,
        ..CallOptions::default()
    };
    options.depth = args.depth.unwrap_or(options.depth);
    let mut words = source.default_options().iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "-t" => options.time_filter = words.next().and_then(parse_time).unwrap_or(0),
            word => {
                if let Some(time) = word.strip_prefix("-t").or_else(|| word.strip_prefix("--time-filter=")) {
                    options.time_filter = parse_time(time).unwrap_or(0);
                }
            }
        }
    }
    if let Some(time) = &args.time_filter {
        options.time_filter = parse_time(time).ok_or_else(|| {
            Error::misuse(format!("`{time}` is no time, in --time-filter")).with_help("for example 50us, 1ms, 2s")
        })?;
    }
    Ok(options)
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
    if list == "all" {
        let all = names.filter_map(by_name);
        return Ok(all.fold(Vec::new(), |mut fields, field| {
            if !fields.contains(&field) {
                fields.push(field);
            }
            fields
        }));
    }
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let Some(field) = by_name(name) else {
            let known: Vec<&str> = names.collect();
            let error = Error::misuse(format!("there is no field `{name}`"));
            return Err(error.with_help(format!("fields are {}", known.join(", "))));
        };
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    // Columns stand in the order of their list, whatever the order of their names here.
    let order: Vec<T> = names.filter_map(by_name).collect();
    fields.sort_by_key(|field| order.iter().position(|known| known == field));
    Ok(fields)
}
