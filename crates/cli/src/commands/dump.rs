//! `tracemill dump`.

use tracemill_calls::chrome::{self, ChromeOptions};
use tracemill_calls::graph;
use tracemill_calls::text::parse_time;
use tracemill_formats::calls::{DumpOptions, Findings};
use tracemill_model::error::Error;

use super::calls;
use crate::args::DumpArgs;
use crate::report::{Outcome, Sink};

/// Time of the shortest and the longest sample unless the user says otherwise, and how many a recording has at most as
/// long as they are not the longest.
const SAMPLE_NS: u64 = 1_000;
const MAX_SAMPLE_NS: u64 = 1_000_000_000;
const SAMPLES: u64 = 1_000_000;

/// Time of a sample by how long the recording took. Where nobody knows that, calls are counted.
fn sample_time(elapsed_ns: Option<u64>) -> u64 {
    let Some(elapsed) = elapsed_ns else { return 0 };
    let mut sample = SAMPLE_NS;
    while sample < MAX_SAMPLE_NS && sample.saturating_mul(SAMPLES) < elapsed {
        sample *= 10;
    }
    sample
}

/// Dumps the records of a trace.
pub(crate) fn run(args: &DumpArgs) -> Result<Outcome, Error> {
    let Some(open) = calls::open(&args.calls)? else { return Ok(Outcome::Nothing) };
    let Some(source) = open.source() else { return Ok(Outcome::Nothing) };
    let call_options = calls::options(&args.calls, source)?;
    let mut sink = Sink::open(args.calls.output.as_deref())?;
    let written = if args.chrome {
        let options = ChromeOptions { no_values: args.no_args, is_balanced: args.balanced };
        chrome::write(source, call_options, options, &mut sink.as_writer())
    } else if args.flame_graph {
        let sample = match &args.sample_time {
            None => sample_time(source.recording().elapsed_ns),
            Some(text) => parse_time(text).ok_or_else(|| {
                Error::misuse(format!("`{text}` is no time, in --sample-time")).with_help("for example 10us, 0")
            })?,
        };
        graph::write_folded(source, call_options, sample, &mut sink.as_writer())
    } else {
        let options = DumpOptions { hex: args.hex, no_values: args.no_args, no_events: args.calls.no_event };
        source.dump(options, &mut sink.as_writer()).map(|()| Findings::default())
    };
    match sink.finish(written)? {
        Some(findings) => Ok(open.finish(&findings)),
        None => Ok(Outcome::Done),
    }
}
