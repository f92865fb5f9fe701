//! The events that a user chooses in words: a condition, and the first and last time.

use std::path::Path;
use std::sync::Arc;

use tracemill_model::error::{Error, Result};

use crate::filter::{Expression, Filter, Needs, Time, TimeContext, UnknownName};
use crate::session::Session;
use crate::survey::ends;
use crate::timeline::Selection;

/// A condition and two times, read from text and not bound to a session yet: mistakes in them are reported before any
/// trace is opened.
#[derive(Clone, Debug, Default)]
pub struct ParsedQuery {
    expression: Option<(&'static str, Expression)>,
    begin: Option<Instant>,
    end: Option<Instant>,
}

/// A time, with the text that it was read from and what the user calls it.
#[derive(Clone, Debug)]
struct Instant {
    name: &'static str,
    text: String,
    time: Time,
}

impl Instant {
    fn parse(name: &'static str, text: &str) -> Result<Instant> {
        let time = Time::parse(text).map_err(|error| misuse_of(name, error))?;
        Ok(Instant { name, text: text.to_string(), time })
    }

    fn words(&self) -> TimeWords {
        TimeWords { option: self.name, text: self.text.clone(), is_count: self.time.is_count() }
    }

    fn resolve(&self, times: &TimeContext) -> Result<i128> {
        self.time.resolve(&self.text, times).map_err(|error| misuse_of(self.name, error))
    }
}

impl ParsedQuery {
    /// Adds a condition, in the language of filters. `name` stands for it in errors: `--filter`.
    ///
    /// # Errors
    /// When the text is no expression.
    pub fn set_filter(&mut self, name: &'static str, text: &str) -> Result<()> {
        self.expression = Some((name, Expression::parse(text).map_err(|error| misuse_of(name, error))?));
        Ok(())
    }

    /// Sets the time of the first wanted event.
    ///
    /// # Errors
    /// When the text is no time.
    pub fn set_begin(&mut self, name: &'static str, text: &str) -> Result<()> {
        self.begin = Some(Instant::parse(name, text)?);
        Ok(())
    }

    /// Sets the time of the last wanted event.
    ///
    /// # Errors
    /// When the text is no time.
    pub fn set_end(&mut self, name: &'static str, text: &str) -> Result<()> {
        self.end = Some(Instant::parse(name, text)?);
        Ok(())
    }

    /// Binds it to a session: the selection, and the filter unless the selection says all of it. With `gmt`, times
    /// without a zone are universal time. Reads the packets at the ends of streams when a time is relative to them.
    ///
    /// # Errors
    /// Errors of [`Expression::bind`], and when a time cannot be resolved or the first is after the last.
    pub fn bind(&self, session: &Session, gmt: bool) -> Result<(Selection, Option<Filter>)> {
        let instants = [&self.begin, &self.end];
        let needs = instants.into_iter().flatten().map(|instant| instant.time.needs());
        let needs = needs.chain(self.expression.iter().map(|(_, expression)| expression.needs()));
        let times = times(session, gmt, needs.fold(Needs::default(), Needs::or));
        let resolve = |instant: &Option<Instant>| instant.as_ref().map(|instant| instant.resolve(&times)).transpose();
        let (begin_ns, end_ns) = (resolve(&self.begin)?, resolve(&self.end)?);
        if let (Some(first), Some(last), Some(begin), Some(end)) = (&self.begin, &self.end, begin_ns, end_ns)
            && begin > end
        {
            let message = format!(
                "{} `{}` ({begin} ns) lies after {} `{}` ({end} ns)",
                first.name, first.text, last.name, last.text
            );
            return Err(Error::misuse(message).with_help("no event is in between; both include their own instant"));
        }
        let mut selection = Selection { begin_ns, end_ns, ..Selection::default() };
        let Some((name, expression)) = &self.expression else { return Ok((selection, None)) };
        let filter = expression.bind(session, &times).map_err(|error| misuse_of(name, error))?;
        let traces = 0..session.traces.len();
        selection.classes = traces.map(|trace| filter.classes(trace).map(Arc::new)).collect();
        if let Some((first, last)) = filter.time_range() {
            selection.begin_ns = Some(begin_ns.map_or(first, |ns| ns.max(first)));
            selection.end_ns = Some(end_ns.map_or(last, |ns| ns.min(last)));
        }
        let is_decided = filter.is_decided_by_spine();
        Ok((selection, (!is_decided).then_some(filter)))
    }
}

/// A time in the words of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeWords {
    /// The option that has it: `--begin`.
    pub option: &'static str,
    /// Its text.
    pub text: String,
    /// Is the text a number of seconds or ns since the origin of the clock, not a date or a time of day?
    pub is_count: bool,
}

/// The choice in the words of the user, for [`crate::no_events`].
impl ParsedQuery {
    /// The name of the filter's option.
    pub(crate) fn filter_name(&self) -> Option<&'static str> {
        self.expression.as_ref().map(|(name, _)| *name)
    }

    /// The words of the first wanted time, and those of the last; `None` where they may be from the filter.
    pub(crate) fn time_words(&self) -> [Option<TimeWords>; 2] {
        let is_own = self.expression.as_ref().is_none_or(|(_, expression)| !expression.has_times());
        [&self.begin, &self.end].map(|instant| instant.as_ref().filter(|_| is_own).map(Instant::words))
    }

    /// The names in the filter that nothing in the session has.
    pub(crate) fn unknown_names(&self, session: &Session) -> Vec<UnknownName> {
        self.expression.as_ref().map_or_else(Vec::new, |(_, expression)| expression.unknown_names(session))
    }
}

/// Facts that times in conditions are resolved with. Reads the packets at the ends of streams when an event is needed.
pub fn times(session: &Session, gmt: bool, needs: Needs) -> TimeContext {
    let needs = (needs.first, needs.last);
    let (first_ns, last_ns) = if needs == (false, false) { (None, None) } else { ends(session, needs) };
    TimeContext { gmt, first_ns, last_ns }
}

/// A mistake in a text of the user, as wrong usage; `name` is what the text is called.
pub fn misuse_of(name: &str, error: Error) -> Error {
    // The name stands where the name of a file does for metadata.
    let mut misuse = Error::misuse(error.message()).in_file(Path::new(name));
    if let Some(place) = &error.place().text {
        misuse = misuse.at_text(place.clone());
    }
    match error.help() {
        Some(help) => misuse.with_help(help),
        None => misuse,
    }
}
