//! `tracemill graph`.

use tracemill_calls::graph::{self, GraphField, GraphOptions};
use tracemill_model::error::Error;

use super::calls;
use crate::args::GraphArgs;
use crate::report::{Outcome, Sink};

/// Shows the calls of a trace as trees.
pub(crate) fn run(args: &GraphArgs) -> Result<Outcome, Error> {
    // Beside -d a bare word is a function, as in uftrace.
    let mut call_args = args.calls.clone();
    let word = if call_args.data.is_some() { call_args.trace.take() } else { None };
    let function = args.function.clone().or_else(|| word.map(|word| word.to_string_lossy().into_owned()));
    let Some(open) = calls::open(&call_args)? else { return Ok(Outcome::Nothing) };
    let Some(source) = open.source() else { return Ok(Outcome::Nothing) };
    let defaults = GraphOptions::default();
    let names = GraphField::ALL.iter().map(|(name, _)| *name);
    let options = GraphOptions {
        fields: calls::fields(args.fields.as_deref(), defaults.fields, GraphField::by_name, names)?,
        function,
    };
    let call_options = calls::options(&args.calls, source)?;
    let mut sink = Sink::open(args.calls.output.as_deref())?;
    let written = graph::write(source, call_options, &options, &mut sink.as_writer());
    match sink.finish(written)? {
        Some(findings) => Ok(open.finish(&findings)),
        None => Ok(Outcome::Done),
    }
}
