//! `tracemill print` of traces that still grow.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracemill_engine::growth::{GrowingSource, GrowthPlaces, Round};
use tracemill_engine::merge::Note;
use tracemill_engine::parsed_query::misuse_of;
use tracemill_engine::request::{OpenStep, OpenedTraces};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_model::error::{Error, ErrorKind};
use tracemill_model::packet::Packet;
use tracemill_render::csv;
use tracemill_render::lines::LinePlan;
use tracemill_render::print::{PrintOutput, print};
use tracemill_render::text::TextOptions;
use tracemill_render::time::{TimeStyle, WallClock};

use super::live::{self, TICK};
use super::print::{AskedColumns, LinePrinter, PrintedLines, columns, line_format, text_options};
use super::request::RequestOptions;
use crate::args::{PrintFormat, PrintOptions};
use crate::interrupt;
use crate::report::{Outcome, OutputSink, Reporter};

/// Messages that are remembered, so that each is reported once.
const MAX_SAID: usize = 10_000;

/// After so long without anything to read, a note says what is waited for.
const QUIET: Duration = Duration::from_secs(3);

/// Prints events as they come.
pub(super) fn run(options: &PrintOptions) -> Result<Outcome, Error> {
    refuse(options)?;
    if let Some(AskedColumns::All) = columns(options)? {
        let (option, help) = match options.flat {
            true => ("--flat", "without it, the members of each scope stand together"),
            false => ("--columns all", "choose columns with --columns PATH,..."),
        };
        let error = Error::misuse(format!("{option} needs traces that are complete: fields may still be added"));
        return Err(error.with_help(help));
    }
    if live::is_asked(&options.input) {
        let mut source = live::open(&options.input, &options.live)?;
        return GrowingPrint::new(options, GrowthPlaces::new(false))?.run(&mut source);
    }
    let reporter = Reporter::new(options.input.messages);
    if let Some((mut source, _folder)) = live::open_streams(&options.input, &options.live, None, &reporter)? {
        return GrowingPrint::new(options, GrowthPlaces::new(true))?.run(&mut source);
    }
    let mut source = live::follow(&options.input, &options.live)?;
    GrowingPrint { explains_wait: true, ..GrowingPrint::new(options, GrowthPlaces::new(true))? }.run(&mut source)
}

/// Refuses what needs the end of a trace.
fn refuse(options: &PrintOptions) -> Result<(), Error> {
    let events = &options.select.events;
    for (option, time) in [("--begin", &events.begin), ("--end", &events.end)] {
        if time.as_ref().is_some_and(|time| time.starts_with('-')) {
            let error = Error::misuse(format!("{option} counts from the last event, which is not there yet"));
            return Err(error.with_help("give a time, or +DURATION after the first event"));
        }
    }
    if options.peer.stream_intersection {
        return Err(Error::misuse("--stream-intersection needs traces that are complete"));
    }
    if options.input.correlate.is_some() {
        return Err(Error::misuse("--correlate needs traces that are complete"));
    }
    Ok(())
}

struct GrowingPrint<'a> {
    options: &'a PrintOptions,
    places: GrowthPlaces,
    sink: OutputSink,
    reporter: Reporter,
    text: Arc<TextOptions>,
    lines: PrintedLines,
    said: Said,
    /// The times of the first and last wanted event, once an event was there that they may count from.
    times: Option<(Option<i128>, Option<i128>)>,
    has_header: bool,
    was_read: bool,
    /// Is it nothing that can be followed?
    is_hopeless: bool,
    /// Why the last round had no trace, and whether that is still to be said.
    obstacle: Option<Error>,
    explains_wait: bool,
}

impl<'a> GrowingPrint<'a> {
    fn new(options: &'a PrintOptions, places: GrowthPlaces) -> Result<Self, Error> {
        let sink = OutputSink::open(options.output.as_deref(), &[])?;
        Ok(GrowingPrint {
            options,
            places,
            sink,
            reporter: Reporter::new(options.input.messages),
            text: Arc::new(text_options(options)),
            lines: PrintedLines::new(options),
            said: Said::default(),
            times: None,
            has_header: false,
            was_read: false,
            is_hopeless: false,
            obstacle: None,
            explains_wait: false,
        })
    }

    fn run(mut self, source: &mut dyn GrowingSource) -> Result<Outcome, Error> {
        let until = self.options.live.for_duration.map(|time| Instant::now() + time);
        let mut is_left = false;
        let begin = Instant::now();
        interrupt::ends_growing();
        while self.lines.left > 0 {
            let is_over = interrupt::has_ended_growing() || until.is_some_and(|until| until <= Instant::now());
            if is_over && !std::mem::replace(&mut is_left, true) {
                source.leave();
            }
            let left = until.map_or(TICK, |until| until.saturating_duration_since(Instant::now()));
            let round = source.next_round(left.min(TICK))?;
            if self.report_faults(source).is_break() {
                return Ok(Outcome::Nothing);
            }
            if begin.elapsed() >= QUIET {
                self.say_why_it_waits();
            }
            let Some(round) = round else { continue };
            let is_last = round.is_last;
            if self.round(source, round)?.is_break() || is_last || self.is_hopeless {
                break;
            }
        }
        if !is_left {
            source.leave();
        }
        interrupt::grows_no_more();
        let _ = self.report_faults(source);
        self.finish()
    }

    fn finish(mut self) -> Result<Outcome, Error> {
        if self.options.format == PrintFormat::Text && self.text.color {
            self.sink.write(b"\x1b[0m")?;
        }
        self.sink.flush()?;
        let PrintedLines { failed, stopped, printed, .. } = self.lines;
        if let Some(error) = failed {
            return Err(error);
        }
        if !self.sink.is_closed && !stopped {
            self.sink.end()?;
        }
        Ok(match self.reporter.outcome() {
            _ if stopped => Outcome::Nothing,
            // Without a line, nothing of what was asked for was done.
            Outcome::Partial if printed == 0 => Outcome::Nothing,
            outcome => outcome,
        })
    }

    /// Without this, who looks at an empty screen does not know whether to wait.
    fn say_why_it_waits(&mut self) {
        let Some(obstacle) = self.obstacle.as_ref().filter(|_| self.explains_wait && !self.was_read) else { return };
        self.explains_wait = false;
        let mut reason = Error::new(obstacle.kind(), obstacle.message());
        if let Some(file) = &obstacle.place().file {
            reason = reason.in_file(file);
        }
        self.reporter.note(&format!("waiting, as nothing can be read so far: {reason}"));
    }

    fn report_faults(&mut self, source: &mut dyn GrowingSource) -> ControlFlow<()> {
        let (faults, warnings) = source.take_faults();
        for warning in &warnings {
            self.reporter.warning(warning);
        }
        match faults.iter().any(|fault| self.reporter.fault(fault)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Prints what is new and certain.
    fn round(&mut self, source: &mut dyn GrowingSource, round: Round) -> Result<ControlFlow<()>, Error> {
        let Some(opened) = self.open(source, &round)? else { return Ok(ControlFlow::Continue(())) };
        let columns = columns(self.options)?.map(|columns| columns.bind(&opened)).transpose();
        let columns = columns.map_err(|error| misuse_of("--columns", error))?;
        let OpenedTraces { session, streams, mut selection, filter, .. } = opened;
        match self.times {
            Some((begin_ns, end_ns)) => (selection.begin_ns, selection.end_ns) = (begin_ns, end_ns),
            None if streams.iter().any(|of| !of.stream.packets.is_empty()) => {
                self.times = Some((selection.begin_ns, selection.end_ns));
            }
            None => {}
        }
        if self.options.format == PrintFormat::Csv && !std::mem::replace(&mut self.has_header, true) {
            self.sink.write(&csv::header(columns.as_ref()))?;
        }
        let plan = Arc::new(LinePlan {
            format: line_format(self.options.format, &self.text, columns.as_ref()),
            streams: streams.clone(),
            filter,
            many_traces: session.traces.len() > 1,
            with_ends: self.options.select.skip > 0 || self.options.select.limit.is_some(),
        });
        let mut merger = self.places.merger(&session, &streams, &selection, source);
        let mut printer = LinePrinter {
            sink: &mut self.sink,
            reporter: &mut self.reporter,
            text: (self.options.format == PrintFormat::Text).then_some(&*self.text),
            lines: &mut self.lines,
            wall: WallClock::new(TimeStyle { date: true, ..self.text.time }),
            streams: &streams,
            traces: &session,
        };
        let said = &mut self.said;
        let (mut is_broken, may_be_cut) = (false, source.may_be_cut());
        let jobs = super::request::jobs(self.options.input.jobs);
        print(&session, &mut merger, &plan, jobs, |output| {
            let output = match output {
                // Its end is being written.
                PrintOutput::Note(Note::Fault(error)) if may_be_cut && is_at_end(&streams, &error) => {
                    return ControlFlow::Continue(());
                }
                PrintOutput::Fault(error) => PrintOutput::Fault(source.placed(error)),
                PrintOutput::Note(Note::Fault(error)) => PrintOutput::Note(Note::Fault(source.placed(error))),
                PrintOutput::Note(Note::Warning(error)) => match said.is_new(&error) {
                    true => PrintOutput::Note(Note::Warning(source.placed(error))),
                    false => return ControlFlow::Continue(()),
                },
                other => other,
            };
            let flow = printer.print(output);
            is_broken |= flow.is_break();
            flow
        });
        self.sink.flush()?;
        if is_broken {
            return Ok(ControlFlow::Break(()));
        }
        self.places.keep(&session, &streams, &mut merger);
        source.release(&mut self.places);
        Ok(ControlFlow::Continue(()))
    }

    /// A session of what is there; `None` when nothing can be read of it so far.
    fn open(&mut self, source: &mut dyn GrowingSource, round: &Round) -> Result<Option<OpenedTraces>, Error> {
        let options = self.options;
        let asked = RequestOptions::events(&options.input, &options.select.events, options.clock_gmt);
        let mut request = asked.request()?;
        request.inputs.clone_from(&round.inputs);
        let (reporter, said, places) = (&mut self.reporter, &mut self.said, &mut self.places);
        let (mut has_traces, is_hopeless, obstacle) = (false, &mut self.is_hopeless, &mut self.obstacle);
        let opened = request.open(&*round.storage, &mut |step| {
            let OpenStep::Opened(session) = step else { return Ok(ControlFlow::Continue(())) };
            has_traces = !session.traces.is_empty();
            *is_hopeless |= report_opening(session, source, places, (reporter, said), round.is_last);
            has_traces &= !session.traces.is_empty();
            *obstacle = session.failures.first().filter(|_| !has_traces).cloned();
            Ok(if has_traces { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
        match opened {
            Ok(opened) => {
                self.was_read |= opened.is_some();
                Ok(opened)
            }
            // A field or a stream may be declared later.
            Err(error) if error.kind() == ErrorKind::Misuse && has_traces && !round.is_last && !self.was_read => {
                if self.said.is_new(&error) {
                    self.reporter.warning(&error.with_help("it may still come: it is waited for"));
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Is it an error of the end of a stream? Where a packet that says how large it is ends too early, it stays too short.
fn is_at_end(streams: &[SelectedStream], error: &Error) -> bool {
    let place = error.place();
    let is_last = |of: &SelectedStream| {
        let last = of.stream.packets.last();
        let is_it = |last: Packet| {
            let file = of.stream.files.get(last.file as usize).map(|file| &file.path);
            file == place.file.as_ref() && Some(last.index) == place.packet
        };
        last.is_some_and(is_it)
    };
    error.kind() == ErrorKind::Truncated && (place.packet.is_none() || streams.iter().any(is_last))
}

/// Reports what opening found, each thing once. Is there something that cannot be followed?
fn report_opening(
    session: &mut Session,
    source: &mut dyn GrowingSource,
    places: &mut GrowthPlaces,
    (reporter, said): (&mut Reporter, &mut Said),
    is_last: bool,
) -> bool {
    // Before there is a trace, there is nothing wrong.
    let is_begun =
        !session.traces.is_empty() || is_last && session.failures.iter().any(|error| error.place().offset.is_some());
    for failure in session.failures.iter().filter(|_| is_begun) {
        if said.is_new(failure) {
            reporter.fault(failure);
        }
    }
    let mut is_hopeless = false;
    for fault in source.look_at(session, places) {
        is_hopeless |= fault.kind() == ErrorKind::Unsupported;
        if said.is_new(&fault) {
            reporter.fault(&source.placed(fault));
        }
    }
    for trace in &session.traces {
        for warning in trace.warnings.iter().filter(|warning| said.is_new(warning)) {
            reporter.warning(&source.placed(warning.clone()));
        }
        for fault in trace.faults.iter().filter(|fault| said.is_new(fault)) {
            reporter.fault(&source.placed(fault.clone()));
        }
    }
    is_hopeless
}

/// The messages so far: those that differ by their numbers only, in one file, are said once.
#[derive(Default)]
struct Said(HashSet<(Option<PathBuf>, String)>);

impl Said {
    fn is_new(&mut self, error: &Error) -> bool {
        let text = error.message().chars().filter(|c| !c.is_ascii_digit()).collect();
        let key = (error.place().file.clone(), text);
        if self.0.len() >= MAX_SAID {
            return !self.0.contains(&key);
        }
        self.0.insert(key)
    }
}
