//! Selection of events, for all commands that have these options.

use std::path::Path;
use std::sync::Arc;

use tracemill_engine::filter::{Expression, Filter, FilterContext, Time, TimeContext};
use tracemill_engine::selection::Selection;
use tracemill_engine::session::Session;
use tracemill_engine::survey::ends;
use tracemill_model::error::Error;

use crate::args::{EventOptions, InputOptions};

/// Parsed filters and times of the options: mistakes in them are reported before any trace is opened.
pub(super) struct Typed {
    expression: Option<Expression>,
    begin: Option<Time>,
    end: Option<Time>,
}

/// The events that the options select.
pub(super) struct Wanted {
    pub(super) selection: Selection,
    pub(super) filter: Option<Filter>,
}

impl Typed {
    pub(super) fn parse(options: &EventOptions) -> Result<Self, Error> {
        Ok(Typed {
            expression: parse_option(&options.filter, Expression::parse, "--filter")?,
            begin: parse_option(&options.begin, Time::parse, "--begin")?,
            end: parse_option(&options.end, Time::parse, "--end")?,
        })
    }

    /// `gmt`: times without a zone are universal time.
    pub(super) fn bind(
        self,
        options: &EventOptions,
        gmt: bool,
        input: &InputOptions,
        session: &Session,
    ) -> Result<Wanted, Error> {
        let Typed { expression, begin, end } = self;
        let in_option = |option: &'static str| move |error: Error| misuse_of(option, error);
        let needs = [
            expression.as_ref().map(Expression::needs),
            begin.as_ref().map(Time::needs),
            end.as_ref().map(Time::needs),
        ];
        let needs =
            needs.into_iter().flatten().fold((false, false), |sum, need| (sum.0 | need.first, sum.1 | need.last));
        let (first_ns, last_ns) = if needs == (false, false) { (None, None) } else { ends(session, needs) };
        let times = TimeContext { gmt, first_ns, last_ns };
        let resolve = |time: Option<Time>, text: &Option<String>, option| {
            let text = text.as_deref().unwrap_or_default();
            time.map(|time| time.resolve(text, &times)).transpose().map_err(in_option(option))
        };
        let begin_ns = resolve(begin, &options.begin, "--begin")?;
        let end_ns = resolve(end, &options.end, "--end")?;
        if let (Some(begin), Some(end)) = (begin_ns, end_ns)
            && begin > end
        {
            let typed = |text: &Option<String>| text.clone().unwrap_or_default();
            let (typed_begin, typed_end) = (typed(&options.begin), typed(&options.end));
            let message = format!("--begin `{typed_begin}` ({begin} ns) lies after --end `{typed_end}` ({end} ns)");
            let error = Error::misuse(message);
            return Err(error.with_help("no event is in between; both include their own instant"));
        }
        let context = FilterContext { session, gmt, first_ns, last_ns };
        let mut filter =
            expression.map(|expression| expression.bind(&context)).transpose().map_err(in_option("--filter"))?;
        let mut selection = Selection {
            begin_ns,
            end_ns,

            classes: Vec::new(),
            memory_bytes: input.memory.unwrap_or(0) / 2,
            faults_in_place: false,
            redactions: None,
        };
        if let Some(of_fields) = &filter {
            let traces = 0..session.traces.len();
            selection.classes = traces.map(|trace| of_fields.classes(trace).map(Arc::new)).collect();
            if let Some((first, last)) = of_fields.time_range() {
                selection.begin_ns = Some(begin_ns.map_or(first, |ns| ns.max(first)));
                selection.end_ns = Some(end_ns.map_or(last, |ns| ns.min(last)));
            }
            if of_fields.is_decided_by_spine() {
                filter = None;
            }
        }
        Ok(Wanted { selection, filter })
    }
}

pub(super) fn parse_option<T>(
    text: &Option<String>,
    parse: fn(&str) -> Result<T, Error>,
    option: &str,
) -> Result<Option<T>, Error> {
    text.as_deref().map(parse).transpose().map_err(|error| misuse_of(option, error))
}

/// A mistake in the text of an option, as wrong usage.
pub(super) fn misuse_of(option: &str, error: Error) -> Error {
    // The option stands where the name of a file does for metadata.
    let mut misuse = Error::misuse(error.message()).in_file(Path::new(option));
    if let Some(place) = &error.place().text {
        misuse = misuse.at_text(place.clone());
    }
    match error.help() {
        Some(help) => misuse.with_help(help),
        None => misuse,
    }
}
