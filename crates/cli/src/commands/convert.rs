//! `tracemill convert`.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use tracemill::target;
use tracemill_engine::convert::{self, convert};
use tracemill_engine::item::Flow;
use tracemill_engine::merge::Note;
use tracemill_engine::output::{Pending, is_flow};
use tracemill_engine::selection::{self, StreamOf};
use tracemill_format::lost::Losses;
use tracemill_format::target::{Target, WriteOptions};
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;
use tracemill_render::time::{TimeStyle, WallClock};

use super::formats::WRITTEN;
use super::losses::gap_text;
use super::open::{Opened, open_reporting};
use super::output::refuse;
use super::print;
use super::redact::Redact;
use super::select::{self, Wanted};
use crate::args::{ConvertOptions, PrintFormat, PrintOptions, When, WrittenOrder};
use crate::report::{Outcome, Reporter, Sink};
use crate::{interrupt, progress};

/// Writes traces in another format.
pub(crate) fn run(options: &ConvertOptions) -> Result<Outcome, Error> {
    if let Some(format) = lines_of(&options.to) {
        if options.split.is_some() {
            let error = Error::misuse(format!("--split writes no {}", options.to));
            return Err(error.with_help("split the trace first, then print its parts"));
        }
        return lines(options, format);
    }
    let names: Vec<&str> = WRITTEN.iter().map(|(name, _)| *name).collect();
    let target = target(&options.to, &names)?;
    refuse_settings(options, target)?;
    let choice = select::parse(&options.select.events)?;
    refuse(options, target.is_folder || options.split.is_some())?;
    // Errors of packets are reported where they stand, so that the output can mark them there too.
    let is_reported = |fault: &Error| fault.place().packet.is_none();
    let Some(mut opened) = open_reporting(&options.input, is_reported)? else { return Ok(Outcome::Nothing) };
    let mut wanted = select::bind(&choice, options.clock_gmt, &options.input, &opened.session)?;
    let redact = Redact { anonymise: &options.anonymise, drop_field: &options.drop_field };
    redact.apply(&mut opened.session, &mut wanted)?;
    let streams = selection::streams(&opened.session, &options.select.events.stream)?;
    if report_elsewhere(&mut opened, &streams) {
        return Ok(Outcome::Nothing);
    }
    let wishes = wishes(options, wanted);
    let mut pending = begin(&options.output)?;
    let mut wall = WallClock::new(TimeStyle { gmt: options.clock_gmt, date: true, ..TimeStyle::default() });
    let (reporter, session) = (&mut opened.reporter, &opened.session);
    let mut take = |note| match note {
        Note::Fault(error) if reporter.fault(&error) => Flow::Stop,
        Note::Fault(_) => Flow::Continue,
        Note::Warning(error) => {
            reporter.warning(&error);
            Flow::Continue
        }
        Note::Gap(stream, gap) => {
            reporter.loss(&gap_text(&mut wall, session, &streams[stream.0 as usize], &gap));
            Flow::Continue
        }
    };
    let converted = {
        let _shown = progress::show(&options.input, &session.progress, false);
        convert(session, &streams, target, &mut pending, &wishes, &mut take)?
    };
    let pending = interrupt::end_if_stopped(pending);
    if converted.is_stopped {
        return Ok(Outcome::Nothing);
    }
    commit(pending)?;
    report_losses(options, reporter, &converted.losses, converted.events)?;
    Ok(opened.reporter.outcome())
}

/// The options as the engine takes them.
fn wishes(options: &ConvertOptions, wanted: Wanted) -> convert::ConvertOptions<'static> {
    let byte_order = options.byte_order.map(|order| match order {
        WrittenOrder::Little => ByteOrder::Little,
        WrittenOrder::Big => ByteOrder::Big,
    });
    convert::ConvertOptions {
        selection: wanted.selection,
        filter: wanted.filter,
        skip: options.select.skip,
        limit: options.select.limit,
        split: options.split,
        strict: options.input.strict,
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

/// Reports the errors of packets that no cursor meets: a file without packets is no stream, and other streams may not be
/// wanted. True when the work must stop.
fn report_elsewhere(opened: &mut Opened, streams: &[StreamOf]) -> bool {
    for (trace, of) in opened.session.traces.iter().enumerate() {
        for fault in of.faults.iter().filter(|fault| fault.place().packet.is_some()) {
            if selection::stream_of_fault(streams, trace, fault).is_none() && opened.reporter.fault(fault) {
                return true;
            }
        }
    }
    false
}

/// An option of another target means a mistake.
fn refuse_settings(options: &ConvertOptions, target: &Target) -> Result<(), Error> {
    let is_known = |name: &str| target.settings.iter().any(|setting| setting.name == name);
    match options.target.0.0.keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => {
            let of = target.names.first().unwrap_or(&"");
            Err(Error::misuse(format!("--{name} is no option of {of}")))
        }
    }
}

/// The line format of this name.
fn lines_of(name: &str) -> Option<PrintFormat> {
    match name {
        "text" => Some(PrintFormat::Text),
        "jsonl" => Some(PrintFormat::Jsonl),
        "csv" => Some(PrintFormat::Csv),
        _ => None,
    }
}

/// Lines are printed, to a file that appears when it is complete.
fn lines(options: &ConvertOptions, format: PrintFormat) -> Result<Outcome, Error> {
    refuse(options, false)?;
    // What a pipe or standard output took stays there anyway: its lines need not wait for each other.
    let is_stdout = options.output == Path::new("-");
    let pending = if is_flow(&options.output) { None } else { Some(begin(&options.output)?) };
    let path = pending.as_ref().map_or(options.output.as_path(), Pending::path);
    let print_options = PrintOptions {
        input: options.input.clone(),
        select: options.select.clone(),
        format,
        output: Some(path.to_path_buf()).filter(|_| !is_stdout),
        color: When::Never,
        clock_gmt: options.clock_gmt,
        clock_date: false,
        clock_seconds: false,
        clock_cycles: false,
        no_delta: false,
        names: Vec::new(),
        fields: Vec::new(),
        columns: None,
    };
    let redact = Redact { anonymise: &options.anonymise, drop_field: &options.drop_field };
    let (outcome, events) = print::run_redacted(&print_options, redact).map_err(|error| match &pending {
        Some(pending) => pending.naming()(error),
        None => error,
    })?;
    if matches!(outcome, Outcome::Done | Outcome::Partial) {
        if let Some(pending) = pending {
            commit(pending)?;
        }
        if let Some(path) = &options.loss_report {
            write_report(path, &options.to, &Losses::default(), events)?;
        }
    }
    Ok(outcome)
}

/// Reports what the output format could not hold.
fn report_losses(options: &ConvertOptions, reporter: &Reporter, losses: &Losses, events: u64) -> Result<(), Error> {
    for (kind, count) in losses.report() {
        reporter.loss(&format!("not kept in {}: {kind} ({count})", options.to));
    }
    match &options.loss_report {
        Some(path) => write_report(path, &options.to, losses, events),
        None => Ok(()),
    }
}

fn write_report(path: &Path, to: &str, losses: &Losses, events: u64) -> Result<(), Error> {
    let list: Vec<_> = losses.report().iter().map(|(kind, count)| json!({"kind": kind, "count": count})).collect();
    let text = format!("{}\n", json!({"format": to, "events": events, "losses": list}));
    if path == Path::new("-") {
        let mut sink = Sink::open(None)?;
        sink.write(text.as_bytes())?;
        return sink.flush();
    }
    let failed = |error: std::io::Error| Error::io("write the loss report", path, &error);
    if is_flow(path) {
        let opened = fs::OpenOptions::new().write(true).open(path);
        return opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed);
    }
    let pending = begin(path)?;
    fs::write(pending.path(), text)
        .map_err(|error| pending.naming()(Error::io("write the loss report", pending.path(), &error)))?;
    commit(pending)
}

/// Begins an output, which an interrupt removes: none comes between the folders around it and the word of them.
fn begin(path: &Path) -> Result<Pending, Error> {
    let _whole = interrupt::hold();
    let pending = Pending::new(path)?;
    interrupt::remove_on_interrupt(pending.remains().clone());
    Ok(pending)
}

/// Gives an output its name. An interrupt comes before or behind the change of names, not between.
fn commit(pending: Pending) -> Result<(), Error> {
    let _whole = interrupt::hold();
    pending.commit()
}
