//! `tracemill dump`.

use tracemill_formats::calls::{DumpOptions, Findings};
use tracemill_model::error::Error;

use super::calls;
use crate::args::DumpArgs;
use crate::report::{Outcome, Sink};

/// Dumps the records of a trace.
pub(crate) fn run(args: &DumpArgs) -> Result<Outcome, Error> {
    let Some(open) = calls::open(&args.calls)? else { return Ok(Outcome::Nothing) };
    let Some(source) = open.source() else { return Ok(Outcome::Nothing) };
    let options = DumpOptions { hex: args.hex, no_values: args.no_args, no_events: args.calls.no_event };
    let mut sink = Sink::open(args.calls.output.as_deref())?;
    let written = source.dump(options, &mut sink.as_writer());
    if sink.finish(written)?.is_none() {
        return Ok(Outcome::Done);
    }
    Ok(open.finish(&Findings::default()))
}
