//! From the options of a command to an open session and the events of it that are wanted: shared by all commands that read
//! traces.

use std::borrow::Cow;
use std::ops::ControlFlow;

use tracemill_engine::align::Alignment;
use tracemill_engine::option_values::{Unit, clock_offset, default_jobs};
use tracemill_engine::parsed_query::{ParsedQuery, misuse_of};
use tracemill_engine::redact::{FieldPaths, RedactionQuery};
use tracemill_engine::request::{Correlation, EventQuery, OpenStep, OpenedTraces, Request};
use tracemill_engine::session::{ClockMove, OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_format::Storage;
use tracemill_formats::FORMATS;
use tracemill_live::unfinished::{UnfinishedFiles, leave_unfinished};
use tracemill_model::error::Error;

use crate::args::{EventOptions, InputOptions};
use crate::report::{Reporter, shown_as};

/// The options of a command that say which traces are read, and which events of them.
#[derive(Clone, Copy)]
pub(super) struct RequestOptions<'a> {
    pub(super) input: &'a InputOptions,
    /// `None` for a command that selects no events.
    pub(super) events: Option<&'a EventOptions>,
    /// Are times without a zone universal time?
    pub(super) gmt: bool,
    pub(super) redaction: RedactionOptions<'a>,
    /// Are errors of packets left to the readers of the packets? Those that no reader meets are reported at once.
    pub(super) faults_in_place: bool,
    /// Are the traces shown on one axis of time? Those whose clocks cannot be compared begin together then, unless messages
    /// between them are to correct their clocks.
    pub(super) aligns_begins: bool,
    /// Corrections of clocks that no option says.
    pub(super) clock_moves: &'a [ClockMove],
    /// Are the traces still written? What is not whole is left out then, and nothing is reported.
    pub(super) is_unfinished: bool,
}

/// Fields that must not be in the output, as they were typed.
#[derive(Clone, Copy, Default)]
pub(super) struct RedactionOptions<'a> {
    /// Fields whose values are hidden.
    pub(super) anonymise: &'a [String],
    /// Fields that are left out.
    pub(super) drop_field: &'a [String],
}

impl<'a> RequestOptions<'a> {
    /// The traces, and no events of them.
    pub(super) fn traces(input: &'a InputOptions) -> Self {
        RequestOptions {
            input,
            events: None,
            gmt: false,
            redaction: RedactionOptions::default(),
            faults_in_place: false,
            aligns_begins: false,
            clock_moves: &[],
            is_unfinished: false,
        }
    }

    /// The traces, and events of them; with `gmt`, times without a zone are universal time.
    pub(super) fn events(input: &'a InputOptions, events: &'a EventOptions, gmt: bool) -> Self {
        RequestOptions { events: Some(events), gmt, ..RequestOptions::traces(input) }
    }

    /// Opens the traces and selects the events, and reports what opening found. `None` when nothing could be opened
    /// (reported on stderr), or when `--strict` stops at an error.
    pub(super) fn open(self) -> Result<Option<(OpenedTraces, Reporter)>, Error> {
        let request = self.request()?;
        let mut reporter = Reporter::new(self.input.messages);
        let has_inputs = !request.inputs.is_empty();
        let unfinished = UnfinishedFiles::of(&self.input.traces);
        let storage: &dyn Storage = if self.is_unfinished { &unfinished } else { &FileSystem };
        let opened = request.open(storage, &mut |step| {
            Ok(match step {
                OpenStep::Opened(session) if self.is_unfinished => {
                    name_by_address(session);
                    leave_unfinished(session);
                    if session.traces.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                }
                OpenStep::Opened(session) if has_inputs => {
                    name_by_address(session);
                    report_opening(session, &mut reporter, self.faults_in_place)
                }
                OpenStep::Opened(_) => ControlFlow::Continue(()),
                OpenStep::Correlated(session, alignments, warnings) => {
                    report_alignments(session, &alignments, &warnings, &reporter);
                    ControlFlow::Continue(())
                }
            })
        })?;
        let Some(opened) = opened else { return Ok(None) };
        let stops = self.faults_in_place && opened.unread_faults().any(|fault| reporter.fault(fault));
        Ok((!stops).then_some((opened, reporter)))
    }

    /// The request that the options make. Mistakes in filters and times are found here, before any trace is opened.
    pub(super) fn request(self) -> Result<Request, Error> {
        let RequestOptions { input, gmt, redaction, .. } = self;
        let events = self.events.map(|events| -> Result<EventQuery, Error> {
            Ok(EventQuery {
                choice: choice(events)?,
                streams: events.stream.clone(),
                gmt,
                jobs: jobs(input.jobs),
                memory_bytes: input.memory,
            })
        });
        let events = events.transpose()?;
        let correlation = input.correlate.clone();
        let open = OpenOptions {
            input_format: input.input_format.clone(),
            clock_offsets: clock_offsets(input)?,
            strict: input.messages.strict,
            settings: input.formats.0.clone(),
            max_unpacked: input.max_unpacked.map(|size| size as u64),
            jobs: jobs(input.jobs),
            aligns_begins: self.aligns_begins && correlation.is_none(),
            ..OpenOptions::new(FORMATS)
        };
        let fields =
            |paths: &[String], option, action| FieldPaths { paths: paths.to_vec(), option: Some(option), action };
        Ok(Request {
            inputs: input.traces.clone(),
            open,
            correlation: correlation.map(|events| Correlation { events, by: input.correlate_by.clone() }),
            clock_moves: self.clock_moves.to_vec(),
            events,
            redaction: RedactionQuery {
                hidden: fields(redaction.anonymise, "--anonymise", "anonymised"),
                dropped: fields(redaction.drop_field, "--drop-field", "dropped"),
            },
        })
    }
}

/// Names the traces of a live session by its address.
fn name_by_address(session: &mut Session) {
    for trace in &mut session.traces {
        if let Cow::Owned(name) = shown_as(&trace.name) {
            trace.name = name;
        }
    }
}

/// Conditions and times of the options.
fn choice(options: &EventOptions) -> Result<ParsedQuery, Error> {
    let mut choice = ParsedQuery::default();
    options.filter.as_deref().map_or(Ok(()), |text| choice.set_filter("--filter", text))?;
    options.begin.as_deref().map_or(Ok(()), |text| choice.set_begin("--begin", text))?;
    options.end.as_deref().map_or(Ok(()), |text| choice.set_end("--end", text))?;
    Ok(choice)
}

/// The value of an option; what is wrong with it is wrong usage.
pub(super) fn parse_option<T>(
    text: &Option<String>,
    parse: fn(&str) -> Result<T, Error>,
    option: &str,
) -> Result<Option<T>, Error> {
    text.as_deref().map(parse).transpose().map_err(|error| misuse_of(option, error))
}

/// Reports what opening found; ends the work when there is nothing to work on.
fn report_opening(session: &Session, reporter: &mut Reporter, faults_in_place: bool) -> ControlFlow<()> {
    for failure in &session.failures {
        if reporter.fault(failure) {
            return ControlFlow::Break(());
        }
    }
    if session.traces.is_empty() {
        return ControlFlow::Break(());
    }
    for warning in &session.warnings {
        reporter.warning(warning);
    }
    for trace in &session.traces {
        for warning in &trace.warnings {
            reporter.warning(warning);
        }
        for fault in &trace.faults {
            let is_left = faults_in_place && fault.place().packet.is_some();
            if !is_left && reporter.fault(fault) {
                return ControlFlow::Break(());
            }
        }
    }
    ControlFlow::Continue(())
}

/// Reports how messages corrected the clocks, and how accurate that is.
fn report_alignments(session: &Session, alignments: &[Alignment], warnings: &[Error], reporter: &Reporter) {
    for one in alignments {
        let [name, by] = [one.trace, one.by].map(|at| session.traces[at].name.as_str());
        let fit = one.fit;
        let error = match fit.error_ns {
            Some(error) => format!("accurate to {}", duration(error)),
            None => "messages went one way only: the shortest delay is taken as zero".to_string(),
        };
        let drift = match fit.drift_error {
            Some(error) => format!("{:+.4} ppm of drift (accurate to {:.4})", fit.drift * 1e6, error * 1e6),
            None if fit.error_ns.is_none() => format!("{:+.4} ppm of drift", fit.drift * 1e6),
            None => "no drift (the messages do not determine it)".to_string(),
        };
        reporter.note(&format!(
            "the clock of `{name}` is moved by {} s and {drift} to match `{by}`, {error}; {} messages received, {} sent",
            seconds(fit.offset_ns),
            one.received,
            one.sent
        ));
        if fit.missed_ns > 0.0 {
            reporter.warning(&format!(
                "no constant drift of `{name}` explains all messages: some contradict it by {}",
                duration(fit.missed_ns)
            ));
        }
    }
    for warning in warnings {
        reporter.warning(warning);
    }
}

fn seconds(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "+" };
    format!("{sign}{}.{:09}", ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000)
}

fn duration(ns: f64) -> String {
    match ns {
        0.0..1e3 => format!("{ns:.0} ns"),
        1e3..1e6 => format!("{:.1} us", ns / 1e3),
        1e6..1e9 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.3} s", ns / 1e9),
    }
}

/// Threads to use: as many as were typed.
pub(crate) fn jobs(typed: Option<u16>) -> usize {
    typed.map_or_else(default_jobs, usize::from)
}

/// Corrections of clocks, in the order of seconds, then ns.
fn clock_offsets(options: &InputOptions) -> Result<Vec<(Option<String>, i64)>, Error> {
    let seconds = options.clock_offset.iter().map(|text| clock_offset(text, "--clock-offset", Unit::Seconds));
    let ns = options.clock_offset_ns.iter().map(|text| clock_offset(text, "--clock-offset-ns", Unit::Ns));
    seconds.chain(ns).collect()
}
