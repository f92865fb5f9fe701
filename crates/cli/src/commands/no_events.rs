//! Why a selection of events is empty, for all commands that select events.

use tracemill_codec::text::out::Out;
use tracemill_engine::filter::{NameKind, UnknownName};
use tracemill_engine::no_events::NoEventsReason;
use tracemill_engine::parsed_query::TimeWords;
use tracemill_engine::request::OpenedTraces;
use tracemill_render::time::{TimeStyle, WallClock};

use crate::report::Reporter;

/// Reports why no event was selected, after all of them were looked at. `skip`: how many events were to be skipped.
pub(super) fn explain(opened: &OpenedTraces, skip: u64, reporter: &Reporter) {
    if skip > 0 && !explain_if_certain(opened, reporter) {
        return reporter.warning(&format!("no event is selected: --skip {skip} leaves all of them out"));
    }
    if skip == 0 {
        opened.no_events_reasons().iter().for_each(|reason| reporter.warning(&sentence(reason, opened.query.gmt)));
    }
}

/// Reports why no event can be selected, where that is certain without looking at each. True when it is.
pub(super) fn explain_if_certain(opened: &OpenedTraces, reporter: &Reporter) -> bool {
    let sentences = certain_sentences(opened);
    sentences.iter().for_each(|sentence| reporter.warning(sentence));
    !sentences.is_empty()
}

/// The sentences of [`explain_if_certain`].
pub(super) fn certain_sentences(opened: &OpenedTraces) -> Vec<String> {
    opened.certain_no_events_reasons().iter().map(|reason| sentence(reason, opened.query.gmt)).collect()
}

fn sentence(reason: &NoEventsReason, gmt: bool) -> String {
    match reason {
        NoEventsReason::NoEvents => "there are no events to select from".to_string(),
        NoEventsReason::AfterLast { wanted_ns, words, last_ns } => {
            let end = time(*last_ns, words, gmt);
            format!("no event is selected: {}, but the last event is at {end}", limit("from", words, *wanted_ns, gmt))
        }
        NoEventsReason::BeforeFirst { wanted_ns, words, first_ns } => {
            let begin = time(*first_ns, words, gmt);
            let limit = limit("up to", words, *wanted_ns, gmt);
            format!("no event is selected: {limit}, but the first event is at {begin}")
        }
        NoEventsReason::UnknownName(name) => unknown_name(name),
        NoEventsReason::NoClassMatches { name } => {
            format!("no event is selected: no event class can match {name}")
        }
        NoEventsReason::NothingBetween => {
            "no event is selected: there are events before and after these times, but none between them".to_string()
        }
        NoEventsReason::NoMatch { name } => format!("no event is selected: none matches {name}"),
    }
}

/// `--begin 09:00 selects events from 2026-11-21 09:00:00.000000000`.
fn limit(preposition: &str, words: &Option<TimeWords>, ns: i128, gmt: bool) -> String {
    let time = time(ns, words, gmt);
    match words {
        Some(words) => format!("`{} {}` selects events {preposition} {time}", words.option, words.text),
        None => format!("events are wanted {preposition} {time}"),
    }
}

/// A time as the user wrote others: a number of seconds, or a date with the time of day.
fn time(ns: i128, words: &Option<TimeWords>, gmt: bool) -> String {
    let seconds = words.as_ref().is_some_and(|words| words.is_count);
    let mut out = Out::default();
    WallClock::new(TimeStyle { gmt, date: true, seconds, cycles: false }).write(&mut out, ns);
    String::from_utf8_lossy(out.written()).into_owned()
}

/// `no event class is called ..`.
fn unknown_name(name: &UnknownName) -> String {
    let kind = match name.kind {
        NameKind::EventClass => "event class",
        NameKind::Stream => "stream",
        NameKind::Trace => "trace",
    };
    let meant = name.meant.as_ref().map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    let verb = if name.is_pattern { "matches" } else { "is called" };
    format!("no {kind} {verb} `{}`{meant}", name.text)
}
