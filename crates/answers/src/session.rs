//! The traces as a whole: how far they are read, and what is wrong with them.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tracemill_lod::states::{Of, Track};
use tracemill_lod::{Fault, LossKind};

use crate::ids::base_id;
use crate::query::{ns, some_ns};
use crate::state::TraceState;
use crate::why;

/// How far the index is.
pub fn progress(state: &TraceState) -> Value {
    if state.is_complete() {
        return json!({ "state": "complete", "done": 1 });
    }
    let timeline = state.timeline();
    let numbered = state.progress.events.load(Ordering::Relaxed);
    let all = timeline.events();
    // Counting and numbering take about as long as each other.
    let done = timeline.done(&state.progress) / 2.0 + all.map_or(0.0, |all| numbered as f64 / all.max(1) as f64 / 2.0);
    let (is_begun, _) = timeline.is_counted();
    json!({ "state": if is_begun { "counting" } else { "estimate" }, "done": done.min(0.99), "events": all })
}

/// `session`: the traces, and what can be asked about them.
pub(crate) fn session(state: &TraceState) -> Value {
    let input = &state.input;
    let (index, timeline) = (state.index(), state.timeline());
    let tracks = timeline.tracks();
    let (begin, end) = state.ends();
    let source = input.traces.source();
    let traces = input.traces.session.traces.iter().enumerate().map(|(at, trace)| {
        let own = || tracks.iter().filter(|track| track.who(&source).0 == at).map(|track| track.counted());
        let ranges = || own().flatten().filter_map(|track| track.range);
        let is_known = timeline.is_known(&source, at);
        let aligned = input.traces.session.aligned_begins.iter().find(|one| one.trace == at);
        json!({
            "index": at,
            "name": trace.name,
            "path": trace.path.display().to_string(),
            "format": trace.schema.format,
            "begin": some_ns(ranges().map(|(first, _)| first).min().filter(|_| is_known)),
            "end": some_ns(ranges().map(|(_, last)| last).max().filter(|_| is_known)),
            "events": is_known.then(|| own().flatten().map(|track| track.events).sum::<u64>()),
            "aligned_ns": some_ns(aligned.map(|one| one.offset_ns)),
            "aligned_with": aligned.map(|one| &*input.traces.session.traces[one.by].name),
        })
    });
    let lost = |kind: LossKind| {
        let losses = index.into_iter().flat_map(|index| &index.losses).filter(move |loss| loss.kind == kind);
        losses.map(|loss| loss.count.unwrap_or(0)).sum::<u64>()
    };
    let faults = input.problems.0.len() + index.map_or(0, |index| index.faults.len());
    let mut features = vec!["select", "search", "pairs", "outliers", "plots", "groups"];
    if state.input.cut.is_some() {
        features.push("export");
    }
    if state.input.query.is_some() {
        features.push("sql");
    }
    if state.input.reopen.is_some() {
        features.push("clock");
    }
    if state.calls().is_some() {
        features.extend(["calls", "durations"]);
    }
    if state.has_samples() {
        features.push("samples");
    }
    if state.states().is_some_and(|kept| !kept.states.tracks.is_empty()) {
        features.push("states");
    }
    if state.states().is_some_and(|kept| kept.states.has_wakes()) {
        features.push("wakeups");
    }
    // Following states has looked at what the events mean.
    if state.is_complete() {
        features.extend((!state.analyses().is_empty()).then_some("analyses"));
        let is_thread = |track: &Track| matches!(track.of, Of::Thread(..));
        let has_threads = state.states().is_some_and(|kept| kept.states.tracks.iter().any(is_thread));
        features.extend((has_threads && state.analyses().contains(&why::ANALYSIS)).then_some("why"));
    }
    json!({
        "api": 1,
        "program": input.program,
        "clock": if input.traces.is_unix { "unix" } else { "none" },
        "origin": ns(timeline.origin),
        "begin": some_ns(begin),
        "end": some_ns(end),
        "events": timeline.events(),
        "traces": traces.collect::<Vec<_>>(),
        "losses": { "events": lost(LossKind::Events), "packets": lost(LossKind::Packets) },
        "faults": faults,
        "index": progress(state),
        "features": features,
        "follows": input.follows,
        "gone": state.status.gone(),
        "states": state.states().map(|found| found.present()),
        "command": input.command,
    })
}

/// `problems`: losses, damage and warnings.
pub(crate) fn problems(state: &TraceState) -> Value {
    let index = state.index();
    let losses = index.into_iter().flat_map(|index| &index.losses).map(|loss| {
        json!({
            "track": loss.track.map(base_id),
            "kind": if loss.kind == LossKind::Events { "events" } else { "packets" },
            "count": loss.count,
            "begin": some_ns(loss.begin.or(loss.end)),
            "end": some_ns(loss.end.or(loss.begin)),
        })
    });
    let fault = |error: &tracemill_model::error::Error, of: Option<&Fault>| {
        // Where the packet does not tell, it is known what came before.
        let range = of.and_then(|of| of.range.or_else(|| Some((of.after?, of.after?))));
        json!({
            "file": error.place().file.as_ref().map(|file| file.display().to_string()),
            "offset": some_ns(error.place().offset),
            "reason": error.message(),
            "track": of.and_then(|of| of.track).map(base_id),
            "ns": some_ns(range.map(|(begin, _)| begin)),
            "end": some_ns(range.map(|(_, end)| end)),
        })
    };
    let of_opening = state.input.problems.0.iter().map(|error| fault(error, None));
    let of_reading = index.into_iter().flat_map(|index| &index.faults).map(|of| fault(&of.error, Some(of)));
    // Following calls reads the same packets.
    let known: HashSet<String> =
        index.into_iter().flat_map(|index| &index.faults).map(|of| of.error.to_string()).collect();
    let of_calls = state.calls().into_iter().flat_map(|calls| &calls.faults);
    let of_calls = of_calls.filter(|error| !known.contains(&error.to_string())).map(|error| fault(error, None));
    let mut warnings = state.input.problems.1.clone();
    let of_index = index.into_iter().flat_map(|index| &index.warnings);
    let of_index = of_index.chain(state.calls().into_iter().flat_map(|calls| &calls.warnings));
    let of_states = state.states().into_iter().flat_map(|kept| kept.states.left_out.iter().cloned());
    for warning in of_index.map(|warning| warning.message().to_string()).chain(of_states) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    json!({
        "losses": losses.collect::<Vec<_>>(),
        "faults": of_opening.chain(of_reading).chain(of_calls).collect::<Vec<_>>(),
        "warnings": warnings,
    })
}
