//! `tracemill check`.

use std::ops::ControlFlow;

use serde_json::json;
use tracemill_engine::check::{Finding, Severity, check};
use tracemill_engine::request::{OpenedTraces, Request};
use tracemill_engine::source::FileSystem;
use tracemill_model::error::Error;
use tracemill_render::info::add_exact;

use super::request::{RequestOptions, jobs};
use crate::args::CheckOptions;
use crate::progress;
use crate::report::{self, Outcome, OutputSink, counted, printable};

/// Checks traces; the findings are the output.
pub(crate) fn run(options: &CheckOptions) -> Result<Outcome, Error> {
    // The findings say all that opening met, of clocks as they are.
    let request = Request { correlation: None, ..RequestOptions::traces(&options.input).request()? };
    let opened = request.open(&FileSystem, &mut |_| Ok(ControlFlow::Continue(())))?;
    let Some(OpenedTraces { session, .. }) = opened else { return Ok(Outcome::Nothing) };
    if session.traces.is_empty() {
        session.failures.iter().for_each(report::error);
        return Ok(Outcome::Nothing);
    }
    let mut sink = OutputSink::open(options.output.as_deref(), &options.input.traces)?;
    let shown = progress::show(&options.input, &session.progress, false);
    let (mut counts, mut list, mut failed) = ([0u64; 3], Vec::new(), None);
    let events = check(&session, jobs(options.input.jobs), |finding| {
        counts[finding.severity as usize] += 1;
        if options.form.is_json() {
            list.push(to_json(&finding));
        } else if !(options.input.messages.quiet && finding.severity != Severity::Fault) {
            let line = format!("{}: {}\n", word(finding.severity), finding.error);
            failed = progress::aside(|| sink.write(printable(&line).as_bytes())).err();
        }
        let is_bad = finding.severity == Severity::Fault || options.input.messages.strict;
        failed.is_none() && !sink.is_closed && !(options.input.messages.strict && is_bad)
    });
    drop(shown);
    failed.map_or(Ok(()), Err)?;
    let [faults, warnings, losses] = counts;
    if options.form.is_json() {
        let object = json!({
            "traces": session.traces.len(), "events": events, "faults": faults, "warnings": warnings, "losses": losses,
            "findings": list,
        });
        sink.write(format!("{object}\n").as_bytes())?;
    } else {
        let (traces, events) = (counted(session.traces.len() as u64, "trace"), counted(events, "event"));
        let (faults, warnings) = (counted(faults, "fault"), counted(warnings, "warning"));
        let losses = format!("{losses} loss{}", if losses == 1 { "" } else { "es" });
        sink.write(format!("{traces}, {events}: {faults}, {warnings}, {losses}\n").as_bytes())?;
    }
    sink.end()?;
    if sink.is_closed {
        return Ok(Outcome::Done);
    }
    Ok(match (faults, warnings + losses, options.input.messages.strict) {
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
    let mut object = json!({
        "severity": word(finding.severity),
        "file": place.file.as_ref().map(|file| file.to_string_lossy()),
        "offset": place.offset.or(place.text.as_ref().map(|text| text.offset as u64)),
        "packet": place.packet,
        "reason": finding.error.message(),
    });
    if let Some(file) = &place.file {
        add_exact(&mut object, "file_base64", file);
    }
    object
}
