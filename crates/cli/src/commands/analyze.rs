//! `tracemill analyze`: what the trace of a kernel says.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use tracemill_analyses::kernel::{
    ANALYSES, Asked, Condition, Input, Known, MAX_STEPS, Numbers, Reading, RowSink, StateRow, StateRows, StateSink,
    Table, Value, View,
};
use tracemill_codec::text::pattern::Pattern;
use tracemill_codec::text::suggest;
use tracemill_engine::filter::Expression;
use tracemill_engine::item::Flow;
use tracemill_engine::merge::Note;
use tracemill_engine::selection;
use tracemill_model::error::Error;
use tracemill_render::time::{TimeStyle, WallClock};
use tracemill_semantics::{CONCEPTS, Concept, Concepts};

use super::analyze_periods as periods;
use super::losses::report_note;
use super::open::open;
use super::select;
use super::{analyze_forms as forms, analyze_rows as rows};
use crate::args::{AnalyzeFormat, AnalyzeOptions, EventOptions, InputOptions};
use crate::progress;
use crate::report::{Outcome, Reporter, Sink};

/// Analyses of traces.
pub(crate) fn run(options: &AnalyzeOptions) -> Result<Outcome, Error> {
    if let Some(None) = options.concepts {
        return Sink::open(options.output.as_deref(), &[])?.print(CONCEPTS.as_bytes(), Outcome::Done);
    }
    let concepts = match options.concepts.iter().flatten().next() {
        None => Concepts::built_in().clone(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| Error::io("read the file", path, &error))?;
            Concepts::with_built_in(path, &text)?
        }
    };
    let (names, input) = names(options)?;
    let asked = asked(options, &names)?;
    let definitions = periods::definitions(options, &names)?;
    let condition = select::parse_option(&options.choice.condition, Expression::parse, "--where")?;
    let events = EventOptions {
        begin: options.begin.clone(),
        end: options.end.clone(),
        stream: options.stream.clone(),
        ..EventOptions::default()
    };
    let choice = select::parse(&events)?;
    let Some(mut opened) = open(&input)? else { return Ok(Outcome::Nothing) };
    let session = &opened.session;
    let wanted = select::bind(&choice, options.clock_gmt, &input, session)?;
    let streams = selection::streams(session, &events.stream)?;
    let (begin, end) = (wanted.selection.begin_ns, wanted.selection.end_ns);
    let what = Input {
        session,
        streams: &streams,
        selection: wanted.selection,
        concepts: &concepts,
        same_host: options.same_host,
    };
    let reading = Reading::new(what.clone());
    let has = reading.concepts();
    let mut sink = Sink::open(options.output.as_deref(), &input.traces)?;
    if names.is_empty() {
        let text = forms::list(&has, &concepts, format_of(options));
        return sink.print(text.as_bytes(), opened.reporter.outcome());
    }
    for known in &names {
        check(known, &asked, &has, &concepts, &opened.reporter)?;
    }
    if reading.has_strangers() {
        opened.reporter.warning(
            &"several traces do not say of which machine they are: their CPUs and threads are kept apart; --same-host if \
              they are of one",
        );
    }
    let machine_names = reading.machine_names();
    let bound = periods::bind(definitions.as_ref(), &what, options)?;
    let asked = Asked { begin, end, has_machines: machine_names.len() > 1, machine_names, periods: bound, ..asked };
    let of_each = names.iter().map(|known| asked_of(known, &asked, condition.as_ref()));
    let of_each = of_each.collect::<Result<Vec<(&Known, Asked)>, Error>>()?;
    let format = format_of(options);
    let streamed = Rc::new(RefCell::new(rows::Streamed::new(format)));
    let is_streamed = names.len() == 1
        && matches!(format, AnalyzeFormat::Jsonl | AnalyzeFormat::Csv)
        && options.rows.sort.is_none()
        && options.rows.limit.is_none()
        && options.per.is_none()
        && (asked.view == View::Log || names[0].name == "states");
    let mut stopped = false;
    let mut wall = WallClock::new(TimeStyle { gmt: options.clock_gmt, date: true, ..TimeStyle::default() });
    let reporter = &mut opened.reporter;
    let mut note = |note: Note| {
        let flow = report_note(note, reporter, &mut wall, session, &streams);
        stopped |= flow == Flow::Stop;
        flow
    };
    let shown = progress::show(&input, &session.progress, false);
    let rows: RowSink = {
        let streamed = streamed.clone();
        Rc::new(RefCell::new(move |row: &[Value<'_>]| streamed.borrow_mut().put(row)))
    };
    let states: StateSink = {
        let streamed = streamed.clone();
        Rc::new(RefCell::new(move |row: &StateRow| streamed.borrow_mut().put_state(row)))
    };
    // A table shows rows of `states` as they are, unless cells are asked for.
    let keeps_states = format == AnalyzeFormat::Table
        && condition.is_none()
        && options.rows.sort.is_none()
        && options.rows.limit.is_none()
        && options.per.is_none();
    let make = |(known, asked): &(&Known, Asked)| {
        let (sink, states) = (is_streamed.then(|| rows.clone()), is_streamed.then(|| states.clone()));
        (known.make)(&Asked { sink, states, keeps_states, ..asked.clone() })
    };
    let per = options.per.as_ref().map(|name| periods::find(name, what, &asked)).transpose()?;
    let analyses: Vec<_> = match &per {
        Some(periods) => periods.iter().flat_map(|period| periods::within(period, &of_each)).collect(),
        None => of_each.iter().map(make).collect(),
    };
    if is_streamed {
        let sink = std::mem::replace(&mut sink, Sink::stdout());
        streamed.borrow_mut().begin(names[0].name, &analyses[0].columns(), asked.machine_names.clone(), sink);
    }
    let tables = reading.per(per.as_deref().unwrap_or_default()).run(analyses, &mut note);
    drop(shown);
    let tables = tables?;
    if stopped {
        return Ok(Outcome::Nothing);
    }
    if let (Some(step), Some((begin, end))) = (asked.step, tables.iter().find_map(|table| table.range))
        && (end - begin) / step > MAX_STEPS.into()
    {
        let error = Error::misuse(format!("--step divides the range into more than {MAX_STEPS} steps"));
        return Err(error.with_help("take a longer step, or a part of the time with --begin and --end"));
    }
    let outcome = opened.reporter.outcome();
    if is_streamed {
        return streamed.borrow_mut().end(outcome);
    }
    write(options, tables, sink, outcome)
}

/// Sorts tables and writes them.
fn write(options: &AnalyzeOptions, mut tables: Vec<Table>, sink: Sink, outcome: Outcome) -> Result<Outcome, Error> {
    let mut found = Vec::new();
    for table in &mut tables {
        if let Some(column) = &options.rows.sort
            && !table.sort_by(column)
        {
            let error = Error::misuse(format!("`{}` has no column `{column}`", table.analysis));
            let known: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
            return Err(error.with_help(format!("its columns are {}", known.join(", "))));
        }
        found.push(table.states.as_ref().map_or(table.rows.len(), StateRows::len));
        table.rows.truncate(options.rows.limit.unwrap_or(usize::MAX));
    }
    let mut page = rows::Paged::new(sink);
    match format_of(options) {
        AnalyzeFormat::Table if tables.is_empty() => page.out.put(b"nothing found\n"),
        AnalyzeFormat::Table => forms::tables(&mut page, &tables, &found, &forms::Look::of(options)),
        AnalyzeFormat::Json => rows::json(&mut page, &tables),
        AnalyzeFormat::Jsonl => rows::lines(&mut page, &tables),
        AnalyzeFormat::Csv => rows::csv(&mut page, &tables),
    }
    page.end(outcome)
}

fn format_of(options: &AnalyzeOptions) -> AnalyzeFormat {
    if options.json { AnalyzeFormat::Json } else { options.format }
}

/// The analyses that were named, and the traces.
fn names(options: &AnalyzeOptions) -> Result<(Vec<&'static Known>, InputOptions), Error> {
    let mut input = options.input.clone();
    let first = input.traces.first().and_then(|first| first.to_str()).unwrap_or_default().to_string();
    let parts: Vec<Option<&Known>> = first.split(',').map(Known::find).collect();
    let mut names = Vec::new();
    if parts.iter().all(Option::is_some) {
        input.traces.remove(0);
        for known in parts.into_iter().flatten() {
            if !names.iter().any(|other: &&Known| other.name == known.name) {
                names.push(known);
            }
        }
    } else if !first.is_empty() && !input.traces[0].exists() {
        let unknown = first.split(',').find(|name| Known::find(name).is_none()).unwrap_or_default();
        let error = Error::misuse(format!("`{unknown}` is no analysis, and there is no such file"));
        let all: Vec<&str> = ANALYSES.iter().map(|known| known.name).collect();
        return Err(suggest(error.with_help(format!("the analyses are {}", all.join(", "))), unknown, all));
    }
    if input.traces.is_empty() {
        return Err(Error::misuse("an analysis needs a TRACE").with_help("tracemill analyze cpu TRACE"));
    }
    Ok((names, input))
}

/// The question that the options ask.
fn asked(options: &AnalyzeOptions, names: &[&Known]) -> Result<Asked, Error> {
    let numbers = |text: &Option<String>, option: &str| {
        let parse = |text: &str| {
            let wrong = || Error::misuse(format!("{option}: `{text}` is no list of numbers such as 1,4-7"));
            Numbers::parse(text).ok_or_else(wrong)
        };
        text.as_deref().map(parse).transpose()
    };
    if let Some(by) = &options.rows.by
        && let Some(known) = names.iter().find(|known| !known.by.contains(&&**by))
    {
        let error = Error::misuse(format!("`{}` has no groups `{by}`", known.name));
        return Err(match known.by {
            [] => error.with_help(format!("`{}` takes no --by", known.name)),
            keys => error.with_help(format!("its groups are {}", keys.join(", "))),
        });
    }
    if names.iter().any(|known| known.name == "path")
        && options.choice.tid.as_deref().and_then(Numbers::parse).and_then(|tids| tids.single()).is_none()
    {
        let error = Error::misuse("`path` is about one thread, and --tid does not name one");
        return Err(error.with_help("tracemill analyze path --tid 42 TRACE"));
    }
    let view = match (options.rows.log, options.rows.top, options.rows.hist) {
        (true, _, _) => View::Log,
        (_, Some(most), _) => View::Top(most),
        (_, _, Some(buckets)) => View::Histogram(buckets as usize),
        _ => View::Statistics,
    };
    if view != View::Statistics
        && let Some(known) = names.iter().find(|known| !known.has_spans)
    {
        return Err(Error::misuse(format!("`{}` has no spans for --log, --top and --hist", known.name)));
    }
    // Counts of switches and packets have no durations.
    let counts = [(options.switches, "--switches"), (options.rows.by.as_deref() == Some("net"), "--by net")];
    if let Some((_, counts)) = counts.into_iter().find(|(is_asked, _)| *is_asked)
        && view != View::Statistics
    {
        return Err(Error::misuse(format!("{counts} has no spans for --log, --top and --hist")));
    }
    if (options.choice.min.is_some() || options.choice.max.is_some())
        && let Some(known) = names.iter().find(|known| !known.has_spans)
    {
        return Err(Error::misuse(format!("`{}` has no spans for --min and --max", known.name)));
    }
    if options.switches
        && let Some(by) = options.rows.by.as_deref().filter(|by| !matches!(*by, "thread" | "cpu"))
    {
        return Err(Error::misuse(format!("--switches has no groups `{by}`")).with_help("its groups are cpu, thread"));
    }
    if options.rows.step.is_some() {
        if view != View::Statistics {
            return Err(Error::misuse("--step divides statistics, and --log, --top and --hist show none"));
        }
        let is_without = |known: &&&Known| !known.has_steps || options.of.iter().any(|of| known.words.contains(&&**of));
        if let Some(known) = names.iter().find(is_without) {
            return Err(Error::misuse(format!("`{}` has no rows for steps", known.name)));
        }
    }
    let mut words = options.of.clone();
    let flags = [("switches", options.switches), ("slab", options.slab), ("tree", options.tree)];
    words.extend(flags.into_iter().filter(|(_, is_given)| *is_given).map(|(word, _)| word.to_string()));
    for word in &words {
        if !names.iter().any(|known| known.words.contains(&&**word)) && !names.is_empty() {
            let of: Vec<&str> =
                ANALYSES.iter().filter(|known| known.words.contains(&&**word)).map(|known| known.name).collect();
            let error = Error::misuse(format!("`{word}` says nothing to `{}`", names[0].name));
            return Err(match of.as_slice() {
                [] => error,
                of => error.with_help(format!("it is for `{}`", of.join("`, `"))),
            });
        }
    }
    Ok(Asked {
        by: options.rows.by.clone(),
        view,
        step: options.rows.step.map(Into::into),
        tids: numbers(&options.choice.tid, "--tid")?,
        pids: numbers(&options.choice.pid, "--pid")?,
        comms: options.choice.comm.as_deref().map(Pattern::glob),
        cpus: numbers(&options.choice.cpu, "--cpu")?,
        min: options.choice.min,
        max: options.choice.max,
        words,
        ..Asked::default()
    })
}

/// The question to one of the analyses.
fn asked_of<'k>(known: &'k Known, asked: &Asked, condition: Option<&Expression>) -> Result<(&'k Known, Asked), Error> {
    let mut asked = asked.clone();
    if let Some(condition) = condition {
        let bound = Condition::new(condition, known, &asked).map_err(|error| select::misuse_of("--where", error))?;
        asked.test = Some(Rc::new(bound));
    }
    Ok((known, asked))
}

/// Checks that the traces can feed an analysis; warns of what cannot be told.
fn check(
    known: &Known,
    asked: &Asked,
    has: &HashSet<Concept>,
    concepts: &Concepts,
    reporter: &Reporter,
) -> Result<(), Error> {
    let of_options =
        known.needs_for.iter().filter(|(word, _)| asked.words.iter().chain(&asked.by).any(|own| own == word));
    let lacks = of_options.map(|(_, group)| *group).filter(|group| !group.iter().any(|concept| has.contains(concept)));
    if let Some(group) = known.lacks(has).into_iter().chain(lacks).next() {
        let names: Vec<&str> = group.iter().map(|concept| concept.name()).collect();
        let error = Error::unsupported(format!(
            "`{}` needs events of {}, and the traces have none",
            known.name,
            names.join(" or ")
        ));
        return Err(error.with_help(forms::how_to_record(group, concepts)));
    }
    for (concept, what) in known.wants.iter().filter(|(concept, _)| !has.contains(concept)) {
        reporter.note(&format!("`{}` cannot tell {what}: the traces have no {}", known.name, concept.name()));
    }
    Ok(())
}
