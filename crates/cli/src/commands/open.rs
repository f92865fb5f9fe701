//! From typed arguments to an open session: shared by all commands that read traces.

use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_formats::api::STRICT;
use tracemill_model::error::Error;

use crate::args::InputOptions;
use crate::report::Reporter;

/// A session and the reporter that has said what opening found.
pub(crate) struct Opened {
    /// The session; it has at least one trace.
    pub(crate) session: Session,
    /// Faults so far are counted.
    pub(crate) reporter: Reporter,
    /// Threads to use.
    pub(crate) jobs: usize,
}

/// Opens the traces. `None` when nothing could be opened (said on stderr) or when `--strict` stops at a fault.
pub(crate) fn open(options: &InputOptions) -> Result<Option<Opened>, Error> {
    let mut reporter = Reporter::new(options.quiet, options.strict);
    let open_options = open_options(options)?;
    let session = Session::open(&FileSystem, &options.traces, &open_options)?;
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
            if reporter.fault(fault) {
                return Ok(None);
            }
        }
    }
    let jobs = options.jobs.map_or_else(default_jobs, usize::from);
    Ok(Some(Opened { session, reporter, jobs }))
}

/// What the options say of opening.
pub(crate) fn open_options(options: &InputOptions) -> Result<OpenOptions, Error> {
    let mut settings = options.formats.0.clone();
    if options.strict {
        settings.0.insert(STRICT, String::new());
    }
    let clock_offsets = clock_offsets(options)?;
    Ok(OpenOptions { input_format: options.input_format.clone(), clock_offsets, settings })
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get()).min(16)
}

/// Corrections of clocks, in the order of seconds, then ns.
fn clock_offsets(options: &InputOptions) -> Result<Vec<(Option<String>, i64)>, Error> {
    let mut offsets = Vec::new();
    for text in &options.clock_offset {
        offsets.push(named(text, "--clock-offset", parse_seconds)?);
    }
    for text in &options.clock_offset_ns {
        offsets.push(named(text, "--clock-offset-ns", |number| number.parse().ok())?);
    }
    Ok(offsets)
}

fn named(text: &str, option: &str, parse: impl Fn(&str) -> Option<i64>) -> Result<(Option<String>, i64), Error> {
    let (name, number) = match text.rsplit_once('=') {
        Some((name, number)) => (Some(name.to_string()), number),
        None => (None, text),
    };
    let offset = parse(number).ok_or_else(|| {
        let what = if option.ends_with("ns") { "nanoseconds" } else { "seconds with at most nine digits of fraction" };
        Error::misuse(format!("`{number}` is no number of {what}, in {option} `{text}`"))
            .with_help(format!("for example {option} -5 or {option} TRACE=12"))
    })?;
    Ok((name, offset))
}

/// Seconds with a decimal fraction, as ns.
fn parse_seconds(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let only_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !only_digits(whole) || !only_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let ns: i64 = format!("{fraction:0<9}").parse().ok()?;
    let total = seconds.checked_mul(1_000_000_000)?.checked_add(ns)?;
    Some(if is_negative { -total } else { total })
}

#[cfg(test)]
mod tests {
    use super::parse_seconds;

    #[test]
    fn seconds_are_exact() {
        assert_eq!(parse_seconds("1.5"), Some(1_500_000_000));
        assert_eq!(parse_seconds("-0.000000001"), Some(-1));
        assert_eq!(parse_seconds(".25"), Some(250_000_000));
        assert_eq!(parse_seconds("1.0000000001"), None);
        assert_eq!(parse_seconds("."), None);
        assert_eq!(parse_seconds("1e3"), None);
        assert_eq!(parse_seconds("99999999999999"), None);
    }
}
