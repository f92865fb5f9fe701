//! Selection of events, for all commands that have these options.

use tracemill_codec::text::out::Out;
use tracemill_engine::choice::{Choice, TimeWords};
use tracemill_engine::filter::{Filter, NameKind, UnknownName};
use tracemill_engine::no_events::{self, NoEventsReason};
use tracemill_engine::selection::StreamOf;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Error;
use tracemill_render::time::{TimeStyle, WallClock};

pub(super) use tracemill_engine::choice::misuse_of;

use super::open;
use crate::args::{EventOptions, InputOptions};
use crate::report::Reporter;

/// The events that the options select.
pub(super) struct Wanted {
    pub(super) selection: Selection,
    pub(super) filter: Option<Filter>,
}

/// Parsed filters and times of the options: mistakes in them are reported before any trace is opened.
pub(super) fn parse(options: &EventOptions) -> Result<Choice, Error> {
    let mut choice = Choice::default();
    options.filter.as_deref().map_or(Ok(()), |text| choice.set_filter("--filter", text))?;
    options.begin.as_deref().map_or(Ok(()), |text| choice.set_begin("--begin", text))?;
    options.end.as_deref().map_or(Ok(()), |text| choice.set_end("--end", text))?;
    Ok(choice)
}

/// `gmt`: times without a zone are universal time.
pub(super) fn bind(choice: &Choice, gmt: bool, input: &InputOptions, session: &Session) -> Result<Wanted, Error> {
    let (mut selection, filter) = choice.bind(session, gmt)?;
    selection.memory_bytes = input.memory.unwrap_or(0) / 2;
    selection.jobs = open::jobs(input.jobs);
    Ok(Wanted { selection, filter })
}

pub(super) fn parse_option<T>(
    text: &Option<String>,
    parse: fn(&str) -> Result<T, Error>,
    option: &str,
) -> Result<Option<T>, Error> {
    text.as_deref().map(parse).transpose().map_err(|error| misuse_of(option, error))
}

/// What was chosen, for the explanation of an empty result.
pub(super) struct Selected<'a> {
    pub(super) choice: &'a Choice,
    pub(super) selection: &'a Selection,
    pub(super) session: &'a Session,
    pub(super) streams: &'a [StreamOf],
    /// Are times shown in UTC?
    pub(super) gmt: bool,
}

impl Selected<'_> {
    /// Reports why no event was selected, after all of them were looked at. `skip`: how many events were to be skipped.
    pub(super) fn explain_nothing(&self, skip: u64, reporter: &Reporter) {
        if skip > 0 && !self.explain_if_nothing(reporter) {
            return reporter.warning(&format!("no event is selected: --skip {skip} leaves all of them out"));
        }
        if skip == 0 {
            let reasons = no_events::reasons(self.choice, self.session, self.streams, self.selection);
            reasons.iter().for_each(|reason| reporter.warning(&self.sentence(reason)));
        }
    }

    /// Reports why no event can be selected, where that is certain without looking at each. True when it is.
    pub(super) fn explain_if_nothing(&self, reporter: &Reporter) -> bool {
        let sentences = self.certain_sentences();
        sentences.iter().for_each(|sentence| reporter.warning(sentence));
        !sentences.is_empty()
    }

    /// The sentences of [`Self::explain_if_nothing`].
    pub(super) fn certain_sentences(&self) -> Vec<String> {
        let reasons = no_events::certain_reasons(self.choice, self.session, self.streams, self.selection);
        reasons.iter().map(|reason| self.sentence(reason)).collect()
    }

    fn sentence(&self, reason: &NoEventsReason) -> String {
        match reason {
            NoEventsReason::NoEvents => "there are no events to select from".to_string(),
            NoEventsReason::AfterLast { wanted_ns, words, last_ns } => {
                let end = self.time(*last_ns, words);
                format!(
                    "no event is selected: {}, but the last event is at {end}",
                    self.limit("from", words, *wanted_ns)
                )
            }
            NoEventsReason::BeforeFirst { wanted_ns, words, first_ns } => {
                let begin = self.time(*first_ns, words);
                let limit = self.limit("up to", words, *wanted_ns);
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
    fn limit(&self, preposition: &str, words: &Option<TimeWords>, ns: i128) -> String {
        let time = self.time(ns, words);
        match words {
            Some(words) => format!("`{} {}` selects events {preposition} {time}", words.option, words.text),
            None => format!("events are wanted {preposition} {time}"),
        }
    }

    /// A time as the user wrote others: a number of seconds, or a date with the time of day.
    fn time(&self, ns: i128, words: &Option<TimeWords>) -> String {
        let seconds = words.as_ref().is_some_and(|words| words.is_count);
        let mut out = Out::default();
        WallClock::new(TimeStyle { gmt: self.gmt, date: true, seconds, cycles: false }).put(&mut out, ns);
        String::from_utf8_lossy(out.written()).into_owned()
    }
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
