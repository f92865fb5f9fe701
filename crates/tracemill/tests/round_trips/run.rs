//! Traces are opened, converted and shown as lines, as the program does it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill::target;
use tracemill_engine::convert::{Conversion, ConvertOptions, sources};
use tracemill_engine::merge::Note;
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::split::{SplitBy, Splitter};
use tracemill_engine::timeline::{Selection, merger};
use tracemill_format::lost::Losses;
use tracemill_format::target::{TraceWriter, WriteOptions};
use tracemill_render::lines::{LineFormat, LinePlan};
use tracemill_render::print::{PrintOutput, print};

/// The messages about a log of events without times, or without events, and about lines whose clock is not found.
const EXPECTED: [&str; 6] = [
    "has a clock rate of 0",
    "does not say its clock rate",
    "the log says that it has no events",
    "no clock gives the `ns` of all lines",
    "the frequency of the clock is 0",
    "the clock has the frequency 0",
];

/// Opens what can be opened without any complaint.
pub(crate) fn open(path: &Path) -> Result<Session, String> {
    let session = open_any(path)?;
    for trace in &session.traces {
        let said = trace.faults.iter().chain(&trace.warnings).map(ToString::to_string);
        if let Some(error) = said.into_iter().find(|error| !EXPECTED.iter().any(|text| error.contains(text))) {
            return Err(error);
        }
    }
    Ok(session)
}

/// Opens a trace; it may have faults.
pub(crate) fn open_any(path: &Path) -> Result<Session, String> {
    open_with(path, &OpenOptions::new(tracemill_formats::FORMATS))
}

/// Opens a trace with options.
pub(crate) fn open_with(path: &Path, options: &OpenOptions) -> Result<Session, String> {
    open_all(&[path.to_path_buf()], options)
}

/// Opens several traces as one timeline.
pub(crate) fn open_all(paths: &[PathBuf], options: &OpenOptions) -> Result<Session, String> {
    let session = Session::open(&FileSystem, paths, options).map_err(|error| error.to_string())?;
    match session.failures.first() {
        Some(error) => Err(error.to_string()),
        None => Ok(session),
    }
}

/// The lines of a trace, and what came up while they were made.
pub(crate) struct Shown {
    pub(crate) lines: Vec<String>,
    pub(crate) faults: Vec<String>,
    /// Missing things by kind.
    pub(crate) gaps: BTreeMap<String, u64>,
}

/// Canonical lines.
pub(crate) fn shown(session: &Session) -> Shown {
    let streams = streams(session, &[]).expect("all streams");
    let plan = LinePlan {
        format: LineFormat::Jsonl,
        streams: streams.clone(),
        filter: None,
        many_traces: session.traces.len() > 1,
        with_ends: false,
    };
    let mut merger = merger(session, &streams, &Selection::default());
    let (mut text, mut faults, mut gaps) = (Vec::new(), Vec::new(), BTreeMap::new());
    print(session, &mut merger, &Arc::new(plan), 1, |output| {
        match output {
            PrintOutput::Lines(lines) => text.extend_from_slice(lines.out.written()),
            PrintOutput::Fault(error) => faults.push(error.to_string()),
            PrintOutput::Note(Note::Fault(error)) => faults.push(error.to_string()),
            PrintOutput::Note(Note::Warning(_)) => {}
            PrintOutput::Note(Note::Gap(_, gap)) => {
                let kind = format!("{:?} {}", gap.kind, gap.count.is_some());
                *gaps.entry(kind).or_default() += gap.count.unwrap_or(1);
            }
        }
        ControlFlow::Continue(())
    });
    let text = String::from_utf8(text).expect("lines are UTF-8");
    Shown { lines: text.lines().map(str::to_string).collect(), faults, gaps }
}

/// The lines of a trace without faults.
pub(crate) fn lines_of(path: &Path) -> Result<Vec<String>, String> {
    let shown = shown(&open(path)?);
    match shown.faults.first() {
        Some(fault) => Err(fault.clone()),
        None => Ok(shown.lines),
    }
}

/// Writes a trace in a format.
pub(crate) fn convert(session: &Session, to: &str, path: &Path, options: &WriteOptions) -> Result<Losses, String> {
    convert_in(session, to, path, options, None, &Selection::default())
}

/// Writes what is chosen of a trace in a format, maybe in parts.
pub(crate) fn convert_in(
    session: &Session,
    to: &str,
    path: &Path,
    options: &WriteOptions,
    split: Option<SplitBy>,
    selection: &Selection,
) -> Result<Losses, String> {
    let told = |error: tracemill_model::error::Error| error.to_string();
    let streams = streams(session, &[]).map_err(told)?;
    let target = target(to, &[]).map_err(told)?;
    let sources = sources(session, &streams).map_err(told)?;
    let writer: Box<dyn TraceWriter + '_> = match split {
        None => (target.create)(&FileSystem.path(path), &sources, options).map_err(told)?,
        Some(by) => Box::new(
            Splitter::new(by, target, &FileSystem.path(path), (session, &streams), &sources, options).map_err(told)?,
        ),
    };
    let known = writer.losses();
    let conversion = Conversion {
        session,
        streams: &streams,
        selection,
        options: &ConvertOptions::default(),
        in_order: target.wants_order || split.is_some_and(SplitBy::wants_order),
    };
    let losses = conversion.run(writer, &mut |_| ControlFlow::Continue(())).map_err(told)?.losses;
    for kind in known.kinds() {
        assert!(losses.count(kind) >= known.count(kind), "{kind} was known before");
    }
    Ok(losses)
}
