//! `tracemill replay`.

use tracemill_calls::replay::{self, ReplayField, ReplayLines, ReplayOptions};
use tracemill_calls::{CallOptions, json};
use tracemill_model::error::Error;

use super::calls;
use crate::args::{CallFormat, ReplayArgs};
use crate::report::Outcome;

/// Replays the calls of a trace.
pub(crate) fn run(args: &ReplayArgs) -> Result<Outcome, Error> {
    let Some(open) = calls::open(&args.calls)? else { return Ok(Outcome::Nothing) };
    let (source, call_options) = calls::options(&args.calls, &open)?;
    let mut defaults = ReplayOptions::default();
    if !call_options.range.is_whole() {
        let is_elapsed = call_options.range.is_elapsed();
        defaults.fields.insert(0, if is_elapsed { ReplayField::Elapsed } else { ReplayField::Time });
    }
    let options = ReplayOptions {
        fields: calls::fields_of(args.fields.as_deref(), defaults.fields, &ReplayField::ALL)?,
        task_newline: args.task_newline,
        column_offset: args.column_view.then_some(args.column_offset),
        lines: match (args.flat, args.no_merge) {
            (true, _) => ReplayLines::Flat,
            (false, true) => ReplayLines::Single,
            (false, false) => ReplayLines::Joined,
        },
        no_comment: args.no_comment,
        no_values: args.no_args,
        module_names: args.libname,
        source_lines: args.srcline,
    };
    let mut sink = calls::sink(&args.calls)?;
    let written = match args.format {
        CallFormat::Text | CallFormat::Html => {
            calls::write_text(&args.calls, args.format == CallFormat::Html, &mut sink, |colors, out| {
                replay::write(source, CallOptions { colors, ..call_options }, &options, out)
            })
        }
        CallFormat::Json => json::write_replay(source, call_options, !args.no_args, &mut sink.as_writer()),
    };
    Ok(open.finish(sink.finish(written)?))
}
