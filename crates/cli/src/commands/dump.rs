//! `tracemill dump`.

use tracemill_calls::chrome::{self, ChromeOptions};
use tracemill_calls::text::parse_time;
use tracemill_calls::{graph, json, raw};
use tracemill_format::calls::{CallSource, DumpOptions, Findings};
use tracemill_model::error::Error;

use super::calls;
use crate::args::{CallFormat, DumpArgs};
use crate::report::Outcome;

/// Default duration of a sample: at least a microsecond, and long enough that there are at most a million samples.
/// 0, which counts calls, where the length of the recording is unknown.
fn sample_of(elapsed_ns: Option<u64>) -> u64 {
    let Some(elapsed) = elapsed_ns else { return 0 };
    let mut sample = 1_000u64;
    while sample < 1_000_000_000 && sample.saturating_mul(1_000_000) < elapsed {
        sample *= 10;
    }
    sample
}

/// Dumps the records of a trace.
pub(crate) fn run(args: &DumpArgs) -> Result<Outcome, Error> {
    if args.format == CallFormat::Html {
        return Err(Error::misuse("records have no page").with_help("--mermaid makes one; so does `tracemill replay`"));
    }
    let Some(open) = calls::open(&args.calls)? else { return Ok(Outcome::Nothing) };
    if args.info {
        let summary = open.source().and_then(CallSource::summary).ok_or_else(|| {
            let error = Error::unsupported("the trace has no notes of its recorder about the run");
            error.with_help("`tracemill info` describes it")
        })?;
        let mut sink = calls::sink(&args.calls)?;
        let written = sink.as_writer().write_all(&summary).map(|()| Findings::default());
        return Ok(open.finish(sink.finish(written)?));
    }
    let (source, call_options) = calls::options(&args.calls, &open)?;
    let mut sink = calls::sink(&args.calls)?;
    let written = if args.chrome {
        let options = ChromeOptions { no_values: args.no_args, is_balanced: args.balanced };
        chrome::write(source, call_options, options, &mut sink.as_writer())
    } else if args.flame_graph {
        let sample = match &args.sample_time {
            None => 0,
            Some(text) => parse_time(text).ok_or_else(|| {
                Error::misuse(format!("`{text}` is not a time, in --sample-time")).with_help("for example 10us, 0")
            })?,
        };
        let sample = if sample > 0 { sample } else { sample_of(source.recording().elapsed_ns) };
        graph::write_folded(source, call_options, sample, &mut sink.as_writer())
    } else if args.graphviz {
        graph::write_graphviz(source, call_options, &mut sink.as_writer())
    } else if args.mermaid {
        graph::write_mermaid(source, call_options, &mut sink.as_writer())
    } else {
        let options = DumpOptions {
            hex: args.hex,
            no_values: args.no_args,
            no_events: args.calls.choice.no_event,
            no_sched: call_options.events.no_sched,
            no_tasks: args.calls.kernel_only,
            ..DumpOptions::default()
        };
        match args.format {
            CallFormat::Text | CallFormat::Html => raw::write(source, call_options, options, &mut sink.as_writer()),
            CallFormat::Json => json::write_records(source, call_options, options, &mut sink.as_writer()),
        }
    };
    Ok(open.finish(sink.finish(written)?))
}
