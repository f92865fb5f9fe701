//! `tracemill flame`.

use tracemill_calls::flame::{Flame, FlameOptions};
use tracemill_model::error::Error;

use super::calls;
use crate::args::{CallArgs, FlameArgs, FlameFormat};
use crate::report::Outcome;

/// Draws the calls of a trace.
pub(crate) fn run(args: &FlameArgs) -> Result<Outcome, Error> {
    if args.min_width.is_nan() || args.min_width < 0.0 {
        return Err(Error::misuse(format!("`{}` is no width, in --min-width", args.min_width)));
    }
    let Some(open) = calls::open(&args.calls)? else { return Ok(Outcome::Nothing) };
    let (source, call_options) = calls::options(&args.calls, &open)?;
    let (mut flame, mut findings) = Flame::of(source, call_options);
    if let Some(path) = &args.diff {
        let other_args = CallArgs { trace: Some(path.clone()), data: None, ..args.calls.clone() };
        let Some(other) = calls::open(&other_args)? else { return Ok(Outcome::Nothing) };
        let (other_source, call_options) = calls::options(&other_args, &other)?;
        let (before, more) = Flame::of(other_source, call_options);
        findings.append(more);
        flame.compare(&before);
    }
    let program = || source.recording().program.unwrap_or_else(|| FlameOptions::default().title);
    let options = FlameOptions {
        title: args.title.clone().unwrap_or_else(program),
        width: args.width,
        min_width: args.min_width,
    };
    let mut sink = calls::sink(&args.calls)?;
    let written = match args.format {
        FlameFormat::Svg => flame.write_svg(&options, &mut sink.as_writer()),
        FlameFormat::Json => flame.write_json(&mut sink.as_writer()),
    };
    Ok(open.finish(sink.finish(written)?.map(|()| findings)))
}
