//! From typed arguments to an open session: shared by all commands that read traces.

use tracemill_engine::align::{Messages, align};
use tracemill_engine::selection::{StreamOf, stream_of_fault};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::typed::{Unit, clock_offset, default_jobs};
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;

use crate::args::InputOptions;
use crate::report::Reporter;

/// A session, and the reporter that reported what opening found.
pub(crate) struct Opened {
    /// The session; it has at least one trace.
    pub(crate) session: Session,
    /// It has counted the errors so far.
    pub(crate) reporter: Reporter,
    /// Threads to use.
    pub(crate) jobs: usize,
}

impl Opened {
    /// Reports the errors of packets that no cursor meets: a file without packets is no stream, and other streams may not
    /// be wanted. True when the work must stop.
    pub(crate) fn report_elsewhere(&mut self, streams: &[StreamOf]) -> bool {
        let Opened { session, reporter, .. } = self;
        session.traces.iter().enumerate().any(|(trace, of)| {
            let mut left = of.faults.iter().filter(|fault| fault.place().packet.is_some());
            left.any(|fault| {
                let stream = stream_of_fault(&of.streams, fault);
                let is_read = streams.iter().any(|own| own.trace == trace && Some(own.index) == stream);
                !is_read && reporter.fault(fault)
            })
        })
    }
}

/// Opens the traces. `None` when nothing could be opened (reported on stderr), or when `--strict` stops at an error.
pub(crate) fn open(options: &InputOptions) -> Result<Option<Opened>, Error> {
    open_in_place(options, false)
}

/// Opens the traces like [`open`], to be shown on one axis of time: traces whose clocks cannot be compared begin together,
/// unless messages between them are to correct their clocks.
#[cfg(feature = "viewer")]
pub(crate) fn open_aligned(options: &InputOptions) -> Result<Option<Opened>, Error> {
    open_with(options, false, options.correlate.is_none())
}

/// Opens the traces like [`open`]. With `in_place`, errors of packets are left to those who read the packets, and to
/// [`Opened::report_elsewhere`].
pub(crate) fn open_in_place(options: &InputOptions, in_place: bool) -> Result<Option<Opened>, Error> {
    open_with(options, in_place, false)
}

fn open_with(options: &InputOptions, in_place: bool, aligns_begins: bool) -> Result<Option<Opened>, Error> {
    let mut reporter = Reporter::new(options.messages);
    let open_options = OpenOptions { aligns_begins, ..open_options(options)? };
    let mut session = Session::open(&FileSystem, &options.traces, &open_options)?;
    for failure in &session.failures {
        if reporter.fault(failure) {
            return Ok(None);
        }
    }
    if session.traces.is_empty() {
        return Ok(None);
    }
    for warning in &session.warnings {
        reporter.warning(warning);
    }
    for trace in &session.traces {
        for warning in &trace.warnings {
            reporter.warning(warning);
        }
        for fault in &trace.faults {
            let is_left = in_place && fault.place().packet.is_some();
            if !is_left && reporter.fault(fault) {
                return Ok(None);
            }
        }
    }
    correlate(options, &mut session, &reporter)?;
    Ok(Some(Opened { session, reporter, jobs: jobs(options.jobs) }))
}

/// Options of opening, from those that were typed.
pub(crate) fn open_options(options: &InputOptions) -> Result<OpenOptions, Error> {
    Ok(OpenOptions {
        input_format: options.input_format.clone(),
        clock_offsets: clock_offsets(options)?,
        strict: options.messages.strict,
        settings: options.formats.0.clone(),
        max_unpacked: options.max_unpacked.map(|size| size as u64),
        jobs: jobs(options.jobs),
        ..OpenOptions::new(FORMATS)
    })
}

/// Corrects clocks from messages, when that is wanted, and reports the accuracy.
fn correlate(options: &InputOptions, session: &mut Session, reporter: &Reporter) -> Result<(), Error> {
    let Some(text) = &options.correlate else { return Ok(()) };
    let (found, others) = align(session, &Messages::parse(text, options.correlate_by.as_deref())?)?;
    for one in found {
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
    for other in others {
        reporter.warning(&other);
    }
    Ok(())
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
