//! `tracemill check`.

use serde_json::json;
use tracemill_engine::check::{Finding, Severity, check};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_model::error::Error;

use super::open::clock_offsets;
use crate::args::CheckOptions;
use crate::report::{self, Outcome, Sink};

/// Checks traces; the findings are the output.
pub fn run(options: &CheckOptions) -> Result<Outcome, Error> {
    let open_options =
        OpenOptions { input_format: options.input.input_format.clone(), clock_offsets: clock_offsets(&options.input)? };
    let session = Session::open(&FileSystem, &options.input.traces, &open_options)?;
    if session.traces.is_empty() {
        session.failures.iter().for_each(report::error);
        return Ok(Outcome::Nothing);
    }
    let mut sink = Sink::open(None)?;
    let (mut counts, mut list, mut failed) = ([0u64; 3], Vec::new(), None);
    let events = check(&session, |finding| {
        counts[finding.severity as usize] += 1;
        if options.json {
            list.push(to_json(&finding));
        } else if !(options.input.quiet && finding.severity != Severity::Fault) {
            failed = sink.write(format!("{}: {}\n", word(finding.severity), finding.error).as_bytes()).err();
        }
        let is_bad = finding.severity == Severity::Fault || options.input.strict;
        failed.is_none() && !(options.input.strict && is_bad)
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let [faults, warnings, losses] = counts;
    if options.json {
        let object = json!({
            "traces": session.traces.len(), "events": events, "faults": faults, "warnings": warnings, "losses": losses,
            "findings": list,
        });
        sink.write(format!("{object}\n").as_bytes())?;
    } else {
        let traces = session.traces.len();
        let line = format!(
            "{traces} trace{}, {events} events: {faults} faults, {warnings} warnings, {losses} losses\n",
            if traces == 1 { "" } else { "s" }
        );
        sink.write(line.as_bytes())?;
    }
    sink.flush()?;
    Ok(match (faults, warnings + losses, options.input.strict) {
        (0, 0, _) | (0, _, false) => Outcome::Done,
        (_, _, false) => Outcome::Partial,
        (_, _, true) => Outcome::Nothing,
    })
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Fault => "fault",
        Severity::Warning => "warning",
        Severity::Loss => "loss",
    }
}

fn to_json(finding: &Finding) -> serde_json::Value {
    let place = finding.error.place();
    json!({
        "severity": word(finding.severity),
        "file": place.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
        "offset": place.offset.or(place.text.as_ref().map(|text| text.offset as u64)),
        "packet": place.packet,
        "reason": finding.error.message(),
    })
}
