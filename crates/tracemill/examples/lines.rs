//! Prints the events for which an expression is true as JSON lines, with several threads.
//!
//!     cargo run -p tracemill --example lines -- 'name == "orders:*"' demo

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tracemill::{
    FORMATS, FileSystem, Filter, FilterContext, Flow, LineFormat, LinePlan, Note, OpenOptions, Output, Result,
    Selection, Session, merger, print, streams,
};

/// Writes the lines of all matching events in the order of time; `jobs` threads give the same bytes as one.
pub(crate) fn write_lines(out: &mut impl Write, expression: &str, paths: &[PathBuf], jobs: usize) -> Result<()> {
    let session = Session::open(&FileSystem, paths, &OpenOptions::new(FORMATS))?;
    for failure in &session.failures {
        eprintln!("{failure}");
    }
    let context = FilterContext { session: &session, gmt: true, first_ns: None, last_ns: None };
    let filter = Filter::compile(expression, &context)?;
    let streams = streams(&session, &[])?;
    // What the names of event classes decide is decided before a field is decoded.
    let classes = (0..session.traces.len()).map(|trace| filter.classes(trace).map(Arc::new)).collect();
    let selection = Selection { classes, ..Selection::default() };
    let mut merger = merger(&session, &streams, &selection);
    let many_traces = session.traces.len() > 1;
    let plan = LinePlan { format: LineFormat::Jsonl, streams, filter: Some(filter), many_traces, with_ends: false };
    print(&session, &mut merger, &Arc::new(plan), jobs, |output| {
        match output {
            Output::Lines(rendered) => {
                if out.write_all(rendered.out.written()).is_err() {
                    return Flow::Stop;
                }
            }
            Output::Fault(error) | Output::Note(Note::Fault(error) | Note::Warning(error)) => eprintln!("{error}"),
            Output::Note(Note::Gap(_, gap)) => eprintln!("lost: {gap:?}"),
        }
        Flow::Continue
    });
    Ok(())
}

// The tests of the crate include this file for `write_lines`.
#[allow(dead_code)]
fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let expression = arguments.next().unwrap_or_default().to_string_lossy().into_owned();
    let paths: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    write_lines(&mut std::io::stdout().lock(), &expression, &paths, 2)
}
