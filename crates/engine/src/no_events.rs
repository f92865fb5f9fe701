//! Why a choice of the user selects no event: what to say instead of printing nothing.

use crate::filter::UnknownName;
use crate::parsed_query::{ParsedQuery, TimeWords};
use crate::selection::SelectedStream;
use crate::session::Session;
use crate::survey::ends_of;
use crate::timeline::Selection;

/// A reason why no event was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoEventsReason {
    /// No wanted stream has an event.
    NoEvents,
    /// The first wanted time is after the last event.
    AfterLast {
        /// The first wanted time, in ns.
        wanted_ns: i128,
        /// The same in the words of the user, where they are known.
        words: Option<TimeWords>,
        /// The time of the last event, in ns.
        last_ns: i128,
    },
    /// The last wanted time is before the first event.
    BeforeFirst {
        /// The last wanted time, in ns.
        wanted_ns: i128,
        /// The same in the words of the user, where they are known.
        words: Option<TimeWords>,
        /// The time of the first event, in ns.
        first_ns: i128,
    },
    /// A name in the filter is not there.
    UnknownName(UnknownName),
    /// The filter is false for each event class, whatever the values of its fields.
    NoClassMatches {
        /// The option that has the filter.
        name: &'static str,
    },
    /// Events are there before and after the wanted times, none in between.
    NothingBetween,
    /// The filter is false for all events that were looked at.
    NoMatch {
        /// The option that has the filter.
        name: &'static str,
    },
}

/// The reasons why a choice selects no event, those known without looking at each event; empty when it may select some.
/// Reads the packets at the ends of streams when the choice has a time.
pub fn certain_reasons(
    choice: &ParsedQuery,
    session: &Session,
    streams: &[SelectedStream],
    selection: &Selection,
) -> Vec<NoEventsReason> {
    let mut reasons = Vec::new();
    if selection.begin_ns.is_some() || selection.end_ns.is_some() {
        let (first, last) = ends_of(session, streams, (true, true));
        let (Some(first_ns), Some(last_ns)) = (first, last) else { return vec![NoEventsReason::NoEvents] };
        let [begin_words, end_words] = choice.time_words();
        if let Some(wanted_ns) = selection.begin_ns.filter(|begin| *begin > last_ns) {
            reasons.push(NoEventsReason::AfterLast { wanted_ns, words: begin_words, last_ns });
        }
        if let Some(wanted_ns) = selection.end_ns.filter(|end| *end < first_ns) {
            reasons.push(NoEventsReason::BeforeFirst { wanted_ns, words: end_words, first_ns });
        }
    }
    let Some(name) = choice.filter_name() else { return reasons };
    let can_match = |of: &SelectedStream| match selection.classes.get(of.trace) {
        Some(Some(classes)) => {
            let schema = &session.traces[of.trace].schema;
            let mut own = (0u32..).zip(schema.events()).filter(|(_, class)| class.stream == of.stream.class);
            own.any(|(at, _)| classes.has(at))
        }
        _ => true,
    };
    if !streams.is_empty() && !streams.iter().any(can_match) {
        let unknown = choice.unknown_names(session);
        if unknown.is_empty() {
            reasons.push(NoEventsReason::NoClassMatches { name });
        }
        reasons.extend(unknown.into_iter().map(NoEventsReason::UnknownName));
    }
    reasons
}

/// The reasons why a choice selected no event, after all events were looked at. Empty when the choice has no condition and
/// there are events.
pub fn reasons(
    choice: &ParsedQuery,
    session: &Session,
    streams: &[SelectedStream],
    selection: &Selection,
) -> Vec<NoEventsReason> {
    let certain = certain_reasons(choice, session, streams, selection);
    if !certain.is_empty() {
        return certain;
    }
    let has_times = selection.begin_ns.is_some() || selection.end_ns.is_some();
    let of_all: usize = session.traces.iter().map(|trace| trace.streams.len()).sum();
    let has_condition = has_times || choice.filter_name().is_some() || streams.len() < of_all;
    let is_timed = streams.iter().all(|of| of.clock.is_some());
    if has_condition && is_timed && ends_of(session, streams, (true, false)).0.is_none() {
        return vec![NoEventsReason::NoEvents];
    }
    match choice.filter_name() {
        Some(name) => {
            let unknown: Vec<_> = choice.unknown_names(session).into_iter().map(NoEventsReason::UnknownName).collect();
            if unknown.is_empty() { vec![NoEventsReason::NoMatch { name }] } else { unknown }
        }
        None if has_times => vec![NoEventsReason::NothingBetween],
        None => Vec::new(),
    }
}
