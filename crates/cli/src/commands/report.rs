//! `tracemill report`: statistics of the time between events.

use std::ops::ControlFlow;

use tracemill_analyses::report::{Report, Sort};
use tracemill_analyses::run::Input;
use tracemill_analyses::target::Target;
use tracemill_analyses::{nested, pairs, state};
use tracemill_engine::filter::{ColumnList, KeyBy};
use tracemill_engine::merge::Note;
use tracemill_engine::parsed_query::misuse_of;
use tracemill_engine::request::OpenedTraces;
use tracemill_engine::session::Session;
use tracemill_format::names_of;
use tracemill_formats::FORMATS;
use tracemill_model::error::{Error, ErrorKind};
use tracemill_render::time::{TimeStyle, WallClock};
use tracemill_semantics::names;

use super::live::{KeptInput, RepeatedTables};
use super::losses::report_note;
use super::no_events;
use super::report_forms::{Form, render};
use super::request::{RequestOptions, parse_option};
use crate::args::{InputOptions, ReportOptions};
use crate::progress;
use crate::report::{Outcome, OutputSink, Reporter, counted};

/// The field that events are grouped by when the user does not say: the track on which they happen.
const TRACK: KeyBy = KeyBy::First(&[names::TRACK.0]);
/// The fields that regressions are grouped by when the user does not say.
const ABOUT: KeyBy = KeyBy::First(names::ABOUT);

/// Statistics of traces.
pub(crate) fn run(options: &ReportOptions) -> Result<Outcome, Error> {
    let mut tables = RepeatedTables::new(options.every);
    let mut meanwhile = |input: &InputOptions| match tables.begin()? {
        true => tables.end(of_input(options, &RepeatedTables::quiet(input), true)),
        false => Ok(()),
    };
    let Some(kept) = KeptInput::with_reports(&options.input, &options.live, None, &mut meanwhile)? else {
        return Ok(Outcome::Nothing);
    };
    of_input(options, &kept.input, false)
}

/// Statistics of these traces, or of what is there of them so far.
fn of_input(options: &ReportOptions, input_options: &InputOptions, is_unfinished: bool) -> Result<Outcome, Error> {
    let asked = Asked::from_options(options)?;
    let sort = sort(options.sort.as_deref())?;
    let by = parse_option(&options.by, ColumnList::parse, "--by")?;
    let lane = parse_option(&options.lane, ColumnList::parse, "--lane")?;
    let request = RequestOptions::events(input_options, &options.events, options.clock_gmt);
    let request = RequestOptions { is_unfinished, ..request };
    let Some((mut opened, mut reporter)) = request.open()? else { return Ok(Outcome::Nothing) };
    let filter = opened.filter.take();
    let OpenedTraces { session, streams, selection, .. } = &opened;
    let by = bind(by, session, "--by")?;
    let lane = bind(lane, session, "--lane")?.unwrap_or(TRACK);
    let input = Input { session, streams, selection: selection.clone(), filter };
    let mut stopped = false;
    let mut wall = WallClock::new(TimeStyle { gmt: options.clock_gmt, date: true, ..TimeStyle::default() });
    let mut note = |note: Note| {
        if is_unfinished {
            return ControlFlow::Continue(());
        }
        let flow = report_note(note, &mut reporter, &mut wall, session, streams);
        stopped |= flow.is_break();
        flow
    };
    let sink = OutputSink::open(options.output.as_deref(), &input_options.traces)?;
    let shown = progress::show(input_options, &session.progress, false);
    let regress = options.regress;
    let by = by.unwrap_or(if regress && matches!(asked, Asked::Pairs(..)) { ABOUT } else { TRACK });
    let found = match &asked {
        Asked::State(event) => {
            state::report(&input, &state::StateQuery { event, by: &by, within: options.within, regress }, &mut note)
        }
        Asked::Pairs(from, to) if regress => {
            nested::report(&input, &nested::NestedQuery { from, to, track: &lane, by: &by }, &mut note)
        }
        Asked::Pairs(from, to) => pairs::report(&input, &pairs::PairsQuery { from, to, by: &by, regress }, &mut note),
    };
    drop(shown);
    let mut found = found.map_err(with_formats)?;
    if stopped {
        return Ok(Outcome::Nothing);
    }
    if !is_unfinished {
        warn(&found, &reporter);
        no_events::explain_if_certain(&opened, &reporter);
    }
    found.sort(sort);
    let form = Form { format: options.format, title: asked.title(options), regress, model: &options.model };
    let text = render(&mut found, &form);
    sink.print(text.as_bytes(), reporter.outcome())
}

/// The events that are asked about.
enum Asked {
    State(Target),
    Pairs(Target, Target),
}

impl Asked {
    fn from_options(options: &ReportOptions) -> Result<Self, Error> {
        match (&options.state, &options.from, &options.to) {
            (Some(event), _, _) => Ok(Asked::State(Target::parse(event))),
            (None, Some(from), Some(to)) => Ok(Asked::Pairs(Target::parse(from), Target::parse(to))),
            _ => {
                let error = Error::misuse("--regress needs the events whose durations it is about");
                Err(error.with_help("add --from EVENT --to EVENT, or --state EVENT"))
            }
        }
    }

    fn title(&self, options: &ReportOptions) -> (&'static str, String) {
        match self {
            Asked::State(event) if options.within => {
                ("state", format!("time from each `{0}` to the next `{0}` of the same group", event.text()))
            }
            Asked::State(event) => {
                ("state", format!("time from each `{0}` to the next `{0}`, charged to the earlier one", event.text()))
            }
            Asked::Pairs(from, to) if options.regress => {
                ("regress", format!("time from `{}` to `{}` without inner pairs", from.text(), to.text()))
            }
            Asked::Pairs(from, to) => ("pairs", format!("time from `{}` to `{}`", from.text(), to.text())),
        }
    }
}

/// The order of the groups.
fn sort(name: Option<&str>) -> Result<Sort, Error> {
    match name {
        None | Some("total") => Ok(Sort::Total),
        Some("count") => Ok(Sort::Count),
        Some("group") => Ok(Sort::Key),
        Some(name) => {
            let error = Error::misuse(format!("there is no order `{name}` of groups"));
            Err(error.with_help("orders are total, count and group"))
        }
    }
}

fn bind(list: Option<ColumnList>, session: &Session, option: &'static str) -> Result<Option<KeyBy>, Error> {
    let Some(list) = list else { return Ok(None) };
    let columns = list.bind(session).map_err(|error| misuse_of(option, error))?;
    if columns.names().count() > MAX_PATHS {
        return Err(Error::misuse(format!("{option} has more than {MAX_PATHS} paths")));
    }
    Ok(Some(KeyBy::Paths(columns)))
}

/// Paths of a key.
const MAX_PATHS: usize = 64;

/// Adds the formats whose events have times to the error of a trace whose events have none.
fn with_formats(error: Error) -> Error {
    match (error.kind(), error.help()) {
        (ErrorKind::Unsupported, None) => {
            error.with_help(format!("formats whose events may have names and times: {}", names_of(FORMATS).join(", ")))
        }
        _ => error,
    }
}

/// Warns of events that the statistics leave out though the user may expect them there.
fn warn(report: &Report, reporter: &Reporter) {
    let left_out = &report.left_out;
    let reasons = [
        (left_out.untimed, "without time left out"),
        (left_out.negative, "left out: their durations are below zero, time goes back"),
        (left_out.too_long, "left out: their durations are longer than 584 years"),
        (left_out.too_many, "left out: too many pairs are open at a time"),
    ];
    for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
        reporter.warning(&format!("{} {reason}", counted(count, "event")));
    }
}
