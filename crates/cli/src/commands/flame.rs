//! `tracemill flame`.

use std::path::Path;

use tracemill_calls::flame::{Flame, FlameOptions};
use tracemill_calls::profile::{CpuTime, Profile};
use tracemill_model::error::Error;

use super::calls;
use super::samples::{self, OpenRecording, OpenSamples};
use crate::args::{CallArgs, FlameArgs, FlameFormat};
use crate::report::Outcome;

/// Draws the calls of a trace.
pub(crate) fn run(args: &FlameArgs) -> Result<Outcome, Error> {
    if args.min_width.is_nan() || args.min_width < 0.0 {
        return Err(Error::misuse(format!("`{}` is not a width, in --min-width", args.min_width)));
    }
    if args.folded {
        let path = calls::path(&args.calls);
        let mut flame = read_folded(&path)?;
        if let Some(other) = &args.diff {
            flame.compare(&read_folded(other)?);
        }
        let title = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        write(args, &flame, title)?;
        return Ok(Outcome::Done);
    }
    let open = match samples::open(&args.calls, &args.samples, args.by.as_deref())? {
        None => return Ok(Outcome::Nothing),
        Some(OpenRecording::Samples(open)) => return of_samples(args, open),
        Some(OpenRecording::Calls(open)) => open,
    };
    let (source, call_options) = calls::options(&args.calls, &open)?;
    let (mut flame, mut findings) = Flame::collect(source, call_options);
    if let Some(path) = &args.diff {
        let other_args = CallArgs { trace: Some(path.clone()), data: None, ..args.calls.clone() };
        let Some(other) = calls::open(&other_args)? else { return Ok(Outcome::Nothing) };
        let (other_source, call_options) = calls::options(&other_args, &other)?;
        let (before, more) = Flame::collect(other_source, call_options);
        findings.append(more);
        flame.compare(&before);
    }
    let program = source.recording().program.unwrap_or_else(|| FlameOptions::default().title);
    let is_read = write(args, &flame, program)?;
    Ok(open.finish(is_read.then_some(findings)))
}

/// Draws the samples of a trace.
fn of_samples(args: &FlameArgs, mut open: OpenSamples) -> Result<Outcome, Error> {
    let Some(profile) = open.profile(&args.calls, &args.samples, args.by.as_deref())? else {
        return Ok(Outcome::Nothing);
    };
    let mut flame = Flame::from_profile(&profile);
    if let Some(path) = &args.diff {
        let other_args = CallArgs { trace: Some(path.clone()), data: None, ..args.calls.clone() };
        let Some(mut other) = samples::open_other(&other_args, &args.samples)? else { return Ok(Outcome::Nothing) };
        let before = other.profile(&other_args, &args.samples, args.by.as_deref())?;
        let Some(before) = before else { return Ok(Outcome::Nothing) };
        flame.compare(&Flame::from_profile(&before));
    }
    write(args, &flame, title_of(&profile))?;
    Ok(open.finish())
}

/// The title of a picture of samples.
fn title_of(profile: &Profile) -> String {
    let events = profile.events.join(", ");
    match profile.cpu {
        CpuTime::On => format!("Samples of {events}"),
        CpuTime::Off => "Time off CPU".into(),
        CpuTime::Both => format!("Time on CPU (samples of {events}) and off CPU"),
    }
}

/// Draws the graph; `false` when its reader is gone.
fn write(args: &FlameArgs, flame: &Flame, title: String) -> Result<bool, Error> {
    let options =
        FlameOptions { title: args.title.clone().unwrap_or(title), width: args.width, min_width: args.min_width };
    let mut sink = calls::sink(&args.calls)?;
    let written = match args.format {
        FlameFormat::Svg => flame.write_svg(&options, &mut sink.as_writer()),
        FlameFormat::Json => flame.write_json(&mut sink.as_writer()),
        FlameFormat::Folded => flame.write_folded(&mut sink.as_writer()),
        FlameFormat::Nested => flame.write_nested_json(&mut sink.as_writer()),
    };
    Ok(sink.finish(written)?.is_some())
}

/// Reads lines of folded stacks.
fn read_folded(path: &Path) -> Result<Flame, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::io("read", path, &error))?;
    Flame::from_folded(&String::from_utf8_lossy(&bytes)).map_err(|line| {
        let error = Error::misuse(format!("line {line} is not a folded stack")).in_file(path);
        error.with_help("a line is `caller;callee NUMBER`, as `tracemill convert --to folded` writes it")
    })
}
