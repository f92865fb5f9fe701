//! `tracemill print`.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Arc;

use tracemill_codec::text::out::Out;
use tracemill_engine::filter::{ColumnList, PathColumns};
use tracemill_engine::merge::Note;
use tracemill_engine::parsed_query::misuse_of;
use tracemill_engine::request::OpenedTraces;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::timeline;
use tracemill_model::error::Error;
use tracemill_render::csv;
use tracemill_render::lines::{LineFormat, LinePlan, Rendered};
use tracemill_render::print::{PrintOutput, print};
use tracemill_render::text::{Before, HeaderFields, ShownNames, TextOptions};
use tracemill_render::time::{TimeStyle, WallClock};

use super::losses::report_note;
use super::request::{RedactionOptions, RequestOptions, parse_option};
use super::{live, no_events, print_growing};
use crate::args::{HeaderField, NameGroup, PrintFormat, PrintOptions, When};
use crate::progress;
use crate::report::{Outcome, OutputSink, Reporter, has_no_color, is_dumb_terminal};

/// Prints the events of traces in the order of time.
pub(crate) fn run(options: &PrintOptions) -> Result<Outcome, Error> {
    let mut options = options.clone();
    options.input.messages.verbose |= options.peer.debug;
    if let Some(range) = &options.peer.timerange {
        let ends = range.strip_prefix('[').and_then(|range| range.strip_suffix(']')).unwrap_or(range).split_once(',');
        let (begin, end) = ends.ok_or_else(|| Error::misuse(format!("`{range}` is not BEGIN,END for --timerange")))?;
        (options.select.events.begin, options.select.events.end) = (Some(begin.into()), Some(end.into()));
    }
    if live::is_asked(&options.input) || options.live.may_grow() {
        return print_growing::run(&options);
    }
    run_redacted(&options, RedactionOptions::default()).map(|(outcome, _)| outcome)
}

/// Prints events without the fields that are to be hidden; gives the number of lines, too.
pub(super) fn run_redacted(options: &PrintOptions, redaction: RedactionOptions<'_>) -> Result<(Outcome, u64), Error> {
    let columns = columns(options)?;
    // With --strict the events before the first error are printed: errors of packets are reported where they stand.
    let faults_in_place = options.input.messages.strict;
    let request = RequestOptions::events(&options.input, &options.select.events, options.clock_gmt);
    let request = RequestOptions { redaction, faults_in_place, ..request };
    let Some((mut opened, mut reporter)) = request.open()? else { return Ok((Outcome::Nothing, 0)) };
    // Events that are not wanted are not merged.
    opened.selection.filter = opened.selection.filter.or(opened.filter.take());
    let columns = columns.map(|columns| columns.bind(&opened)).transpose();
    let columns = columns.map_err(|error| misuse_of("--columns", error))?;
    opened.selection.faults_in_place = faults_in_place;
    if options.peer.stream_intersection {
        opened.selection.of_traces_ns = timeline::shared_times(&opened.session)?;
    }
    let mut sink = OutputSink::open(options.output.as_deref(), &options.input.traces)?;
    #[cfg_attr(not(feature = "debug-info"), expect(unused_mut, reason = "nothing is added"))]
    let mut text = text_options(options);
    #[cfg(feature = "debug-info")]
    debug_info::add(options, &opened, &reporter, &mut text)?;
    let text = Arc::new(text);
    let many_traces = opened.session.traces.len() > 1;
    let plan = Arc::new(LinePlan {
        format: line_format(options.format, &text, columns.as_ref()),
        streams: opened.streams.clone(),
        filter: None,
        many_traces,
        with_ends: options.select.skip > 0 || options.select.limit.is_some(),
    });
    if options.format == PrintFormat::Csv {
        sink.write(&csv::header(columns.as_ref()))?;
    }
    let mut printed = PrintedLines::new(options);
    let mut printer = LinePrinter {
        sink: &mut sink,
        reporter: &mut reporter,
        text: (options.format == PrintFormat::Text).then_some(&*text),
        lines: &mut printed,
        wall: WallClock::new(TimeStyle { date: true, ..text.time }),
        streams: &opened.streams,
        traces: &opened.session,
    };
    let mut merger = timeline::merger(&opened.session, &opened.streams, &opened.selection);
    if printer.lines.left > 0 {
        let has_lines = options.output.is_none();
        let _shown = progress::show(&options.input, &opened.session.progress, has_lines);
        print(&opened.session, &mut merger, &plan, opened.query.jobs, |output| printer.print(output));
    }
    let PrintedLines { failed, stopped, printed: lines, .. } = printed;
    if options.format == PrintFormat::Text && text.color {
        // babeltrace2 ends a coloured text so.
        sink.write(b"\x1b[0m")?;
    }
    sink.flush()?;
    match failed {
        Some(error) => return Err(error),
        None if sink.is_closed => return Ok((Outcome::Done, lines)),
        None if stopped => return Ok((Outcome::Nothing, lines)),
        None => sink.end()?,
    }
    if lines == 0 && options.select.limit != Some(0) {
        no_events::explain(&opened, options.select.skip, &reporter);
    }
    Ok((reporter.outcome(), lines))
}

#[cfg(feature = "debug-info")]
mod debug_info {
    //! Functions and lines in the text.

    use tracemill_debug_info::{DebugInfo, SearchOptions};
    use tracemill_engine::request::OpenedTraces;

    use super::{Arc, Error, PrintFormat, PrintOptions, Reporter, TextOptions};

    /// Adds to the text what the programs' files say of addresses, when that is asked for.
    pub(super) fn add(
        options: &PrintOptions,
        opened: &OpenedTraces,
        reporter: &Reporter,
        text: &mut TextOptions,
    ) -> Result<(), Error> {
        let asked = &options.peer.debug_info;
        let (dir, target_prefix) = (asked.debug_info_dir.clone(), asked.debug_info_target_prefix.clone());
        let full_path = asked.debug_info_full_path;
        if !(asked.debug_info || full_path || dir.is_some() || target_prefix.is_some()) {
            return Ok(());
        }
        if options.format != PrintFormat::Text {
            return Err(Error::misuse("--debug-info is for --format text"));
        }
        for (option, folder) in [("--debug-info-dir", &dir), ("--debug-info-target-prefix", &target_prefix)] {
            // A warning, as babeltrace2 takes any path.
            if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
                reporter.warning(&format!("{option} names `{}`: there is no such folder", folder.display()));
            }
        }
        let info =
            DebugInfo::read(&opened.session, SearchOptions { dir, target_prefix, full_path }, opened.query.jobs)?;
        text.origins = Some(Arc::new(info));
        Ok(())
    }
}

pub(super) fn text_options(options: &PrintOptions) -> TextOptions {
    let has = |group: NameGroup| options.names.contains(&group) || options.names.contains(&NameGroup::All);
    let names = if options.names.is_empty() {
        ShownNames::default()
    } else {
        ShownNames {
            payload: has(NameGroup::Payload),
            context: has(NameGroup::Context),
            scope: has(NameGroup::Scope),
            header: has(NameGroup::Header),
        }
    };
    let has = |field: HeaderField| options.fields.contains(&field) || options.fields.contains(&HeaderField::All);
    let fields = if options.fields.is_empty() {
        HeaderFields::default()
    } else {
        HeaderFields {
            trace: has(HeaderField::Trace),
            hostname: has(HeaderField::Hostname),
            domain: has(HeaderField::Domain),
            procname: has(HeaderField::Procname),
            vpid: has(HeaderField::Vpid),
            log_level: has(HeaderField::Loglevel),
            emf: has(HeaderField::Emf),
        }
    };
    let no_color = has_no_color() || is_dumb_terminal();
    let color = match options.color {
        When::Always => true,
        When::Never => false,
        When::Auto => options.output.is_none() && !no_color && std::io::stdout().is_terminal(),
    };
    let time = TimeStyle {
        gmt: options.clock_gmt,
        date: options.clock_date,
        seconds: options.clock_seconds,
        cycles: options.clock_cycles,
    };
    TextOptions { names, fields, time, no_delta: options.no_delta, color, origins: None }
}

/// Writes lines in order, reports what is not a line, and counts.
pub(super) struct LinePrinter<'a> {
    pub(super) sink: &'a mut OutputSink,
    pub(super) reporter: &'a mut Reporter,
    pub(super) text: Option<&'a TextOptions>,
    pub(super) lines: &'a mut PrintedLines,
    pub(super) wall: WallClock,
    pub(super) streams: &'a [SelectedStream],
    pub(super) traces: &'a tracemill_engine::session::Session,
}

/// How far printing has come.
pub(super) struct PrintedLines {
    before: Before,
    pub(super) skip: u64,
    pub(super) left: u64,
    /// Lines so far.
    pub(super) printed: u64,
    pub(super) failed: Option<Error>,
    pub(super) stopped: bool,
}

impl PrintedLines {
    pub(super) fn new(options: &PrintOptions) -> PrintedLines {
        let (skip, left) = (options.select.skip, options.select.limit.unwrap_or(u64::MAX));
        PrintedLines { before: Before::Nothing, skip, left, printed: 0, failed: None, stopped: false }
    }
}

/// Columns of a CSV that are asked for.
pub(super) enum AskedColumns {
    /// A column for each field of the selected events.
    All,
    /// These.
    List(ColumnList),
}

impl AskedColumns {
    /// Reads the value of `--columns`. A field that is called `all` is `payload.all`, or stands in backquotes.
    fn parse(text: &str) -> Result<AskedColumns, Error> {
        if text.trim() == "all" { Ok(AskedColumns::All) } else { ColumnList::parse(text).map(AskedColumns::List) }
    }

    /// The columns in the events that were selected.
    pub(super) fn bind(&self, opened: &OpenedTraces) -> Result<PathColumns, Error> {
        match self {
            AskedColumns::All => {
                PathColumns::of_all_fields(&opened.session, &opened.streams, &opened.selection.classes)
            }
            AskedColumns::List(list) => list.bind(&opened.session),
        }
    }
}

/// The columns that the options ask for.
pub(super) fn columns(options: &PrintOptions) -> Result<Option<AskedColumns>, Error> {
    if options.columns.is_some() && options.format != PrintFormat::Csv {
        return Err(Error::misuse("--columns is for --format csv"));
    }
    if options.flat && options.format != PrintFormat::Jsonl {
        return Err(Error::misuse("--flat is for --format jsonl"));
    }
    if options.flat {
        return Ok(Some(AskedColumns::All));
    }
    parse_option(&options.columns, AskedColumns::parse, "--columns")
}

pub(super) fn line_format(format: PrintFormat, text: &Arc<TextOptions>, columns: Option<&PathColumns>) -> LineFormat {
    match format {
        PrintFormat::Text => LineFormat::Text(text.clone()),
        PrintFormat::Jsonl => columns.map_or(LineFormat::Jsonl, |columns| LineFormat::FlatJsonl(columns.clone())),
        PrintFormat::Csv => LineFormat::Csv(columns.cloned()),
    }
}

impl LinePrinter<'_> {
    pub(super) fn print(&mut self, output: PrintOutput<'_>) -> ControlFlow<()> {
        let note = match output {
            PrintOutput::Lines(rendered) => return self.write(rendered),
            PrintOutput::Fault(error) => Note::Fault(error),
            PrintOutput::Note(note) => note,
        };
        let flow = report_note(note, self.reporter, &mut self.wall, self.traces, self.streams);
        self.lines.stopped |= flow.is_break();
        flow
    }

    fn write(&mut self, rendered: &Rendered) -> ControlFlow<()> {
        let lines = &mut *self.lines;
        let mut middle = Out::default();
        let parts = rendered.parts(lines.before, self.text, &mut middle);
        if let Some(last) = rendered.last {
            lines.before = Before::At(last);
        }
        let skipped = lines.skip.min(rendered.lines);
        let taken = (rendered.lines - skipped).min(lines.left);
        lines.skip -= skipped;
        lines.left -= taken;
        lines.printed += taken;
        let inserted = parts[1].len();
        let hole = parts[0].len();
        let end_of = |lines: u64| match lines.checked_sub(1) {
            None => 0,
            Some(at) => {
                rendered.ends.get(at as usize).map_or(usize::MAX, |&end| end + if end > hole { inserted } else { 0 })
            }
        };
        let (from, to) = if skipped == 0 && taken == rendered.lines {
            (0, usize::MAX)
        } else {
            (end_of(skipped), end_of(skipped + taken))
        };
        let mut start = 0;
        let pieces = parts.map(|part| {
            start += part.len();
            clip(part, start - part.len(), from, to)
        });
        if let Err(error) = self.sink.write_parts(pieces) {
            lines.failed = Some(error);
            return ControlFlow::Break(());
        }
        if lines.left == 0 || self.sink.is_closed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The part of a piece that begins at `start` that lies in `from..to`.
fn clip(piece: &[u8], start: usize, from: usize, to: usize) -> &[u8] {
    let low = from.saturating_sub(start).min(piece.len());
    let high = to.saturating_sub(start).min(piece.len());
    &piece[low..high.max(low)]
}
