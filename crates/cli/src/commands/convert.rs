//! `tracemill convert`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use serde_json::json;
use tracemill::{target, targets};
use tracemill_calls::flame::{Flame, FlameOptions};
use tracemill_engine::convert::{self, Converted, convert};
use tracemill_engine::output::is_flow;
use tracemill_engine::request::OpenedTraces;
use tracemill_format::Demangle;
use tracemill_format::lost::Losses;
use tracemill_format::target::{Target, WriteOptions};
use tracemill_model::error::Error;
use tracemill_model::schema::ByteOrder;
use tracemill_render::time::{TimeStyle, WallClock};

use super::formats::{FOLDED, OTHER_ENDINGS, SVG, WRITTEN};
use super::html::HTML;
use super::live::{self, KeptInput};
use super::losses::report_note;
use super::output::refuse;
use super::request::{RedactionOptions, RequestOptions};
use super::samples::Symbols;
use super::{calls, convert_samples, no_events, print};
use crate::args::{ConvertOptions, PrintFormat, PrintOptions, When, WrittenOrder};
use crate::report::{Outcome, OutputSink, Reporter};
use crate::{interrupt, progress};

impl ConvertOptions {
    /// The output format, when [`decide`] has found one.
    fn to(&self) -> &str {
        self.to.as_deref().unwrap_or_default()
    }

    /// The path of the output, when [`decide`] has found one.
    pub(super) fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new("-"))
    }
}

/// Formats that this program was built without, which are their own endings.
const LEFT_OUT_ENDINGS: &[&str] = if cfg!(feature = "columnar") { &[] } else { &["parquet", "arrow"] };

/// The format that the ending of a file name asks for: the longest that is known.
fn format_of_ending(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    let of_targets = targets().flat_map(|target| target.endings.iter().map(|ending| (*ending, target.names[0])));
    let left_out = LEFT_OUT_ENDINGS.iter().map(|name| (*name, *name));
    let known = of_targets.chain(OTHER_ENDINGS).chain(left_out);
    let fits = |(ending, _): &(&str, &str)| name.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.'));
    known.filter(fits).max_by_key(|(ending, _)| ending.len()).map(|(_, format)| format)
}

/// The options with an output and a format: the last path is the output when no option says one, and its ending the format.
fn decide(options: &ConvertOptions) -> Result<ConvertOptions, Error> {
    let mut options = options.clone();
    if options.output.is_none() {
        if options.input.traces.len() < 2 {
            let error = Error::misuse("there is no path for the output");
            return Err(
                error.with_help("give it after the traces, or with --output: `tracemill convert TRACE OUT.pftrace`")
            );
        }
        options.output = options.input.traces.pop();
    }
    if options.to.is_none() {
        let Some(format) = format_of_ending(options.output()) else {
            let error =
                Error::misuse("the ending of the name does not say which format is wanted").in_file(options.output());
            return Err(error.with_help("say it with --to; `tracemill formats` lists the formats and their endings"));
        };
        options.to = Some(format.into());
    }
    Ok(options)
}

/// Writes traces in another format.
pub(crate) fn run(options: &ConvertOptions) -> Result<Outcome, Error> {
    let mut options = decide(options)?;
    if live::is_asked(&options.input) || options.live.may_grow() {
        // Before something is kept for hours.
        let is_folder = targets().any(|target| target.is_folder && target.names.contains(&options.to()));
        refuse(&options, is_folder || options.split.is_some())?;
    }
    let Some(kept) = KeptInput::new(&options.input, &options.live, Some(options.output()))? else {
        return Ok(Outcome::Nothing);
    };
    options.input = kept.input.clone();
    let options = &options;
    let is_shown = ["perfetto", "chrome"].contains(&options.to()) && options.split.is_none();
    if options.open && (!is_shown || is_flow(options.output())) {
        let error = Error::misuse("--open shows one file in ui.perfetto.dev, which takes perfetto and chrome");
        return Err(error.with_help("`tracemill view` shows any trace"));
    }
    if options.states.is_some() && options.to() != HTML.0 {
        let error = Error::misuse(format!("--states is not an option of {}", options.to()));
        return Err(
            error.with_help("--to html shows states that a file defines; `tracemill analyze custom` lists them")
        );
    }
    if let Ok(format) = PrintFormat::from_str(options.to(), false) {
        if options.split.is_some() {
            let error = Error::misuse(format!("--split writes no {}", options.to()));
            return Err(error.with_help("split the trace first, then print its parts"));
        }
        return lines(options, format);
    }
    if options.to() == HTML.0 {
        return super::html::run(options);
    }
    let is_picture = options.to() == SVG.0;
    let names: Vec<&str> = WRITTEN.iter().chain([&HTML, &SVG]).map(|(name, _)| *name).collect();
    let target = target(if is_picture { FOLDED } else { options.to() }, &names)?;
    if is_picture && options.split.is_some() {
        return Err(Error::misuse("--split writes no svg"));
    }
    refuse_settings(options, target)?;
    refuse(options, target.is_folder || options.split.is_some())?;
    // Errors of packets are reported where they stand, so that the output can mark them there too.
    let request = RequestOptions::events(&options.input, &options.select.events, options.clock_gmt);
    let request = RequestOptions { redaction: redaction(options), faults_in_place: true, ..request };
    let Some((mut opened, mut reporter)) = request.open()? else { return Ok(Outcome::Nothing) };
    let of_stacks = if is_picture { FOLDED } else { options.to() };
    let mut has_samples = convert_samples::can_write(of_stacks, &opened.session);
    if has_samples {
        // Calls are asked for in a session that is shared.
        let shared = Arc::new(opened.session);
        has_samples = !calls::has_calls(&shared);
        let Some(session) = Arc::into_inner(shared) else { return Ok(Outcome::Nothing) };
        opened.session = session;
    }
    if has_samples && options.split.is_some() {
        return Err(Error::misuse(format!("--split writes no {} of samples", options.to())));
    }
    if has_samples && opened.selection.redactions.is_some() {
        let option = if options.drop_field.is_empty() { "anonymise" } else { "drop-field" };
        let error = Error::misuse(format!("--{option} cannot hide fields of samples in {}", options.to()));
        return Err(error
            .with_help("stacks come from the trace as it was recorded; ctf2 and jsonl hide fields of samples, too"));
    }
    let mut wishes = wishes(options, &opened);
    let symbols = Symbols::new(&options.symbols, Demangle::default(), &opened.session);
    wishes.symbolizer = symbols.symbolizer();
    let mut pending = interrupt::begin(options.output())?;
    let mut wall = WallClock::new(TimeStyle { gmt: options.clock_gmt, date: true, ..TimeStyle::default() });
    let OpenedTraces { session, streams, .. } = &opened;
    let mut take = |note| report_note(note, &mut reporter, &mut wall, session, streams);
    let converted = if has_samples {
        let mut is_stopped = false;
        let note = |note| {
            let flow = take(note);
            is_stopped |= flow.is_break();
            flow
        };
        let written = convert_samples::write(options, of_stacks, &opened, pending.path(), &symbols, note)?;
        Converted { events: written.samples, losses: written.losses, is_stopped }
    } else {
        let _shown = progress::show(&options.input, &session.progress, false);
        convert(session, streams, target, &mut pending, &wishes, &mut take)?
    };
    let pending = interrupt::end_if_stopped(pending);
    if converted.is_stopped {
        return Ok(Outcome::Nothing);
    }
    session.code_warnings().iter().for_each(|warning| reporter.warning(warning));
    if is_picture {
        draw(pending.path(), options)?;
    }
    interrupt::commit(pending)?;
    if converted.events == 0 && options.select.limit != Some(0) {
        no_events::explain(&opened, options.select.skip, &reporter);
    }
    report_losses(options, &reporter, &converted.losses, converted.events)?;
    if options.open {
        super::view::hand_to_perfetto(options.output())?;
    }
    Ok(reporter.outcome())
}

/// Makes a picture of the folded stacks in a file, in their place.
fn draw(path: &Path, options: &ConvertOptions) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::io("write the flame graph", options.output(), &error);
    // Without an event there is no file.
    let stacks = fs::read(path).unwrap_or_default();
    let flame = Flame::from_folded(&String::from_utf8_lossy(&stacks))
        .map_err(|line| Error::misuse(format!("line {line} is not a folded stack")))?;
    let title = options.input.traces.first().and_then(|trace| trace.file_name()).unwrap_or_default();
    let picture = FlameOptions { title: title.to_string_lossy().into_owned(), ..FlameOptions::default() };
    let mut file = fs::File::create(path).map_err(failed)?;
    flame.write_svg(&picture, &mut file).map_err(failed)
}

/// The fields that must not be in the output.
pub(super) fn redaction(options: &ConvertOptions) -> RedactionOptions<'_> {
    RedactionOptions { anonymise: &options.anonymise, drop_field: &options.drop_field }
}

/// The options as the engine takes them.
fn wishes<'a>(options: &ConvertOptions, opened: &OpenedTraces) -> convert::ConvertOptions<'a> {
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
        symbolizer: None,
        stop: Some(interrupt::stop()),
    }
}

/// An option of another target means a mistake.
fn refuse_settings(options: &ConvertOptions, target: &Target) -> Result<(), Error> {
    let is_known = |name: &str| target.settings.iter().any(|setting| setting.name == name);
    let Some(name) = options.target.0.0.keys().find(|name| !is_known(name)) else { return Ok(()) };
    let of = target.names.first().unwrap_or(&"");
    Err(Error::misuse(format!("--{name} is not an option of {of}")))
}

/// Lines are printed, to a file that appears when it is complete.
fn lines(options: &ConvertOptions, format: PrintFormat) -> Result<Outcome, Error> {
    refuse(options, false)?;
    let print_options = PrintOptions {
        input: options.input.clone(),
        select: options.select.clone(),
        format,
        output: options.output.clone(),
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
        reporter.warning(&format!("not kept in {}: {kind} ({count})", options.to()));
    }
    write_report(options, losses, events)
}

/// Writes the losses to where the options want them.
pub(super) fn write_report(options: &ConvertOptions, losses: &Losses, events: u64) -> Result<(), Error> {
    let Some(path) = options.loss_report.as_deref() else { return Ok(()) };
    let list: Vec<_> = losses.report().iter().map(|(kind, count)| json!({"kind": kind, "count": count})).collect();
    let text = format!("{}\n", json!({"format": options.to(), "events": events, "losses": list}));
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
