//! `tracemill check`.

use serde_json::json;
use tracemill_engine::check::{Finding, Severity, check};
use tracemill_engine::session::Session;
use tracemill_engine::source::FileSystem;
use tracemill_model::error::Error;

use super::open::open_options;
use crate::args::CheckOptions;
use crate::progress;
use crate::report::{self, Outcome, Sink, printable};

/// Checks traces; the findings are the output.
pub(crate) fn run(options: &CheckOptions) -> Result<Outcome, Error> {
    let open_options = open_options(&options.input)?;
    let session = Session::open(&FileSystem, &options.input.traces, &open_options)?;
    if session.traces.is_empty() {
        session.failures.iter().for_each(report::error);
        return Ok(Outcome::Nothing);
    }
    let mut sink = Sink::open(None)?;
    let shown = progress::show(&options.input, &session.progress, false);
    let (mut counts, mut list, mut failed) = ([0u64; 3], Vec::new(), None);
    let events = check(&session, |finding| {
        counts[finding.severity as usize] += 1;
        if options.json {
            list.push(to_json(&finding));
        } else if !(options.input.quiet && finding.severity != Severity::Fault) {
            let line = format!("{}: {}\n", word(finding.severity), finding.error);
            failed = progress::aside(|| sink.write(printable(&line).as_bytes())).err();
        }
        let is_bad = finding.severity == Severity::Fault || options.input.strict;
        failed.is_none() && !sink.is_closed && !(options.input.strict && is_bad)
    });
    drop(shown);
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
        let numbers = [(session.traces.len() as u64, "trace"), (events, "event")];
        let found = [(faults, "fault"), (warnings, "warning")];
        let list = |numbers: &[(u64, &str)]| {
            let word = |&(count, word): &(u64, &str)| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
            numbers.iter().map(word).collect::<Vec<_>>().join(", ")
        };
        let losses = format!("{losses} loss{}", if losses == 1 { "" } else { "es" });
        let line = format!("{}: {}, {losses}\n", list(&numbers), list(&found));
        sink.write(line.as_bytes())?;
    }
    sink.flush()?;
    if sink.is_closed {
        return Ok(Outcome::Done);
    }
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
