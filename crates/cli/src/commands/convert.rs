//! `tracemill convert`.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use serde_json::json;
use tracemill::target;
use tracemill_engine::convert::{self, convert};
use tracemill_engine::output::is_flow;
use tracemill_engine::request::OpenedTraces;
use tracemill_format::lost::Losses;
use tracemill_format::target::{Target, WriteOptions};
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;
use tracemill_render::time::{TimeStyle, WallClock};

use super::formats::WRITTEN;
use super::html::HTML;
use super::losses::report_note;
use super::output::refuse;
use super::request::{RedactionOptions, RequestOptions};
use super::{no_events, print};
use crate::args::{ConvertOptions, PrintFormat, PrintOptions, When, WrittenOrder};
use crate::report::{Outcome, OutputSink, Reporter};
use crate::{interrupt, progress};

/// Writes traces in another format.
pub(crate) fn run(options: &ConvertOptions) -> Result<Outcome, Error> {
    if let Ok(format) = PrintFormat::from_str(&options.to, false) {
        if options.split.is_some() {
            let error = Error::misuse(format!("--split writes no {}", options.to));
            return Err(error.with_help("split the trace first, then print its parts"));
        }
        return lines(options, format);
    }
    if options.to == HTML.0 {
        return super::html::run(options);
    }
    let names: Vec<&str> = WRITTEN.iter().chain([&HTML]).map(|(name, _)| *name).collect();
    let target = target(&options.to, &names)?;
    refuse_settings(options, target)?;
    refuse(options, target.is_folder || options.split.is_some())?;
    // Errors of packets are reported where they stand, so that the output can mark them there too.
    let request = RequestOptions::events(&options.input, &options.select.events, options.clock_gmt);
    let request = RequestOptions { redaction: redaction(options), faults_in_place: true, ..request };
    let Some((opened, mut reporter)) = request.open()? else { return Ok(Outcome::Nothing) };
    let wishes = wishes(options, &opened);
    let mut pending = interrupt::begin(&options.output)?;
    let mut wall = WallClock::new(TimeStyle { gmt: options.clock_gmt, date: true, ..TimeStyle::default() });
    let OpenedTraces { session, streams, .. } = &opened;
    let mut take = |note| report_note(note, &mut reporter, &mut wall, session, streams);
    let converted = {
        let _shown = progress::show(&options.input, &session.progress, false);
        convert(session, streams, target, &mut pending, &wishes, &mut take)?
    };
    let pending = interrupt::end_if_stopped(pending);
    if converted.is_stopped {
        return Ok(Outcome::Nothing);
    }
    interrupt::commit(pending)?;
    if converted.events == 0 && options.select.limit != Some(0) {
        no_events::explain(&opened, options.select.skip, &reporter);
    }
    report_losses(options, &reporter, &converted.losses, converted.events)?;
    Ok(reporter.outcome())
}

/// The fields that must not be in the output.
pub(super) fn redaction(options: &ConvertOptions) -> RedactionOptions<'_> {
    RedactionOptions { anonymise: &options.anonymise, drop_field: &options.drop_field }
}

/// The options as the engine takes them.
fn wishes(options: &ConvertOptions, opened: &OpenedTraces) -> convert::ConvertOptions<'static> {
    let byte_order = options.byte_order.map(|order| match order {
        WrittenOrder::Little => ByteOrder::Little,
        WrittenOrder::Big => ByteOrder::Big,
    });
    convert::ConvertOptions {
        selection: opened.selection.clone(),
        filter: opened.filter.clone(),
        skip: options.select.skip,
        limit: options.select.limit,
        split: options.split,
        strict: options.input.messages.strict,
        write: WriteOptions {
            packet_bytes: options.packet_size,
            byte_order,
            index: options.index,
            merge: options.merge,
            settings: options.target.0.clone(),
            ..WriteOptions::default()
        },
        stop: Some(interrupt::stop()),
    }
}

/// An option of another target means a mistake.
fn refuse_settings(options: &ConvertOptions, target: &Target) -> Result<(), Error> {
    let is_known = |name: &str| target.settings.iter().any(|setting| setting.name == name);
    let Some(name) = options.target.0.0.keys().find(|name| !is_known(name)) else { return Ok(()) };
    let of = target.names.first().unwrap_or(&"");
    Err(Error::misuse(format!("--{name} is no option of {of}")))
}

/// Lines are printed, to a file that appears when it is complete.
fn lines(options: &ConvertOptions, format: PrintFormat) -> Result<Outcome, Error> {
    refuse(options, false)?;
    let print_options = PrintOptions {
        input: options.input.clone(),
        select: options.select.clone(),
        format,
        output: Some(options.output.clone()),
        color: When::Never,
        clock_gmt: options.clock_gmt,
        ..PrintOptions::default()
    };
    let (outcome, events) = print::run_redacted(&print_options, redaction(options))?;
    if matches!(outcome, Outcome::Done | Outcome::Partial) {
        write_report(options, &Losses::default(), events)?;
    }
    Ok(outcome)
}

/// Reports what the output format could not hold.
fn report_losses(options: &ConvertOptions, reporter: &Reporter, losses: &Losses, events: u64) -> Result<(), Error> {
    for (kind, count) in losses.report() {
        reporter.warning(&format!("not kept in {}: {kind} ({count})", options.to));
    }
    write_report(options, losses, events)
}

/// Writes the losses to where the options want them.
pub(super) fn write_report(options: &ConvertOptions, losses: &Losses, events: u64) -> Result<(), Error> {
    let Some(path) = options.loss_report.as_deref() else { return Ok(()) };
    let list: Vec<_> = losses.report().iter().map(|(kind, count)| json!({"kind": kind, "count": count})).collect();
    let text = format!("{}\n", json!({"format": options.to, "events": events, "losses": list}));
    if path == Path::new("-") {
        return OutputSink::stdout().print(text.as_bytes(), Outcome::Done).map(|_| ());
    }
    let failed = |error: std::io::Error| Error::io("write the loss report", path, &error);
    if is_flow(path) {
        let opened = fs::OpenOptions::new().write(true).open(path);
        return opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed);
    }
    let pending = interrupt::begin(path)?;
    fs::write(pending.path(), text)
        .map_err(|error| pending.naming()(Error::io("write the loss report", pending.path(), &error)))?;
    interrupt::commit(pending)
}
