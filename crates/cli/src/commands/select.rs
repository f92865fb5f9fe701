//! Selection of events, for all commands that have these options.

use tracemill_engine::choice::Choice;
use tracemill_engine::filter::Filter;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Error;

pub(super) use tracemill_engine::choice::misuse_of;

use super::open;
use crate::args::{EventOptions, InputOptions};

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
