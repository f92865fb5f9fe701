//! `tracemill graph`.

use std::path::Path;

use tracemill_calls::CallOptions;
use tracemill_calls::graph::{self, GraphField, GraphOptions};
use tracemill_calls::json;
use tracemill_calls::tasks::{self, TaskGraphField};
use tracemill_format::calls::{CallSource, Findings};
use tracemill_model::error::Error;

use super::samples::{self, OpenRecording};
use super::{calls, samples_forms};
use crate::args::{CallFormat, GraphArgs};
use crate::report::Outcome;

/// Shows the calls of a trace as trees.
pub(crate) fn run(args: &GraphArgs) -> Result<Outcome, Error> {
    // Beside -d a bare word is a function, as in uftrace.
    let mut call_args = args.calls.clone();
    // So is one that names nothing where there is a default folder.
    let is_function = |word: &Path| call_args.data.is_some() || !word.exists() && calls::default_folder().exists();
    let word = if call_args.trace.as_deref().is_some_and(is_function) { call_args.trace.take() } else { None };
    let function = args.function.clone().or_else(|| word.map(|word| word.to_string_lossy().into_owned()));
    let open = match samples::open(&call_args, &args.samples, args.by.as_deref())? {
        None => return Ok(Outcome::Nothing),
        Some(OpenRecording::Samples(open)) => return samples_forms::graph(args, &call_args, function.as_deref(), open),
        Some(OpenRecording::Calls(open)) => open,
    };
    if let (Some(function), Some(depth)) = (&function, call_args.choice.depth) {
        // The depth counts from the function on.
        call_args.rules.0.triggers.push(format!("{function}@depth={depth}"));
    }
    let (source, call_options) = calls::options(&call_args, &open)?;
    if args.task {
        let findings = tasks(args, source, call_options)?;
        return Ok(open.finish(findings));
    }
    let defaults = GraphOptions::default();
    let options = GraphOptions {
        fields: calls::fields_of(args.fields.as_deref(), defaults.fields, &GraphField::ALL)?,
        function,
        source_lines: args.srcline,
    };
    let mut sink = calls::sink(&args.calls)?;
    let written = match args.format {
        CallFormat::Text | CallFormat::Html => {
            calls::write_text(&args.calls, args.format == CallFormat::Html, &mut sink, |colors, out| {
                graph::write(source, CallOptions { colors, ..call_options }, &options, out)
            })
        }
        CallFormat::Json => graph::write_json(source, call_options, &options, &mut sink.as_writer()),
    };
    Ok(open.finish(sink.finish(written)?))
}

/// Shows which task began which.
fn tasks(args: &GraphArgs, source: &dyn CallSource, call_options: CallOptions) -> Result<Option<Findings>, Error> {
    let defaults = vec![TaskGraphField::Total, TaskGraphField::Own, TaskGraphField::Tid];
    let fields = calls::fields_of(args.fields.as_deref(), defaults, &TaskGraphField::ALL)?;
    let threshold = call_options.time_filter;
    let (tree, findings) = tasks::tree(source, call_options);
    let mut sink = calls::sink(&args.calls)?;
    let written = match args.format {
        CallFormat::Text | CallFormat::Html => {
            calls::write_text(&args.calls, args.format == CallFormat::Html, &mut sink, |colors, out| {
                tasks::write_tree(source, &tree, &fields, threshold, colors, out)
            })
        }
        CallFormat::Json => json::write_task_tree(source, &tree, &mut sink.as_writer()),
    };
    Ok(sink.finish(written)?.map(|()| findings))
}
