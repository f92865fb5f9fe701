//! `tracemill analyze`: what the trace of a kernel says.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use tracemill_analyses::kernel::{
    Analysis, AnalysisQuery, Condition, CustomDefinitions, Definitions, Descriptor, FormWord, Input, MAX_STEPS, Matrix,
    Numbers, Reading, RowSink, StateRow, StateRows, StateSink, Table, View,
};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::pattern::Pattern;
use tracemill_codec::text::suggest;
use tracemill_engine::filter::Expression;
use tracemill_engine::merge::Note;
use tracemill_engine::parsed_query::misuse_of;
use tracemill_engine::request::OpenedTraces;
use tracemill_engine::session::Session;
use tracemill_engine::survey::ends;
use tracemill_model::error::Error;
use tracemill_render::time::{TimeStyle, WallClock};
use tracemill_semantics::{CONCEPTS, Concept, Concepts};
use tracemill_table::{TableClock, Value};

use super::analyze_options::{self as choices, NamedAnalyses};
use super::analyze_periods as periods;
#[cfg(feature = "debug-info")]
use super::analyze_places as places;
use super::custom_states as custom;
use super::live::{KeptInput, RepeatedTables};
use super::losses::report_note;
use super::request::{RequestOptions, parse_option};
use super::{analyze_empty as empty, analyze_forms as forms, analyze_list as list, analyze_rows as rows, no_events};
use crate::args::{AnalyzeFormat, AnalyzeOptions, EventOptions, InputOptions};
use crate::progress;
use crate::report::{Outcome, OutputSink, Reporter};

/// Analyses of traces.
pub(crate) fn run(options: &AnalyzeOptions) -> Result<Outcome, Error> {
    if let Some(None) = options.concepts {
        return OutputSink::open(options.output.as_deref(), &[])?.print(CONCEPTS.as_bytes(), Outcome::Done);
    }
    let mut tables = RepeatedTables::new(options.every);
    let mut meanwhile = |input: &InputOptions| match tables.begin()? {
        true => tables.end(of_input(options, &RepeatedTables::quiet(input), true)),
        false => Ok(()),
    };
    let input = choices::named(options)?.input;
    let Some(kept) = KeptInput::with_reports(&input, &options.live, None, &mut meanwhile)? else {
        return Ok(Outcome::Nothing);
    };
    of_input(options, &kept.input, false)
}

/// Analyses of these traces, or of what is there of them so far.
fn of_input(options: &AnalyzeOptions, input: &InputOptions, is_unfinished: bool) -> Result<Outcome, Error> {
    let concepts = concepts_of(options)?;
    let mut question = Question::from_options(options)?;
    question.named.input = input.clone();
    let so_far = options.every.filter(|_| is_unfinished).map(|every| format!("-{}ns", every.as_nanos()));
    let events = EventOptions {
        begin: options.begin.clone().or(so_far),
        end: options.end.clone(),
        stream: options.stream.clone(),
        ..EventOptions::default()
    };
    let request = RequestOptions::events(input, &events, options.clock_gmt);
    let request = RequestOptions { is_unfinished, ..request };
    let Some((opened, mut reporter)) = request.open()? else { return Ok(Outcome::Nothing) };
    let OpenedTraces { session, streams, selection, .. } = &opened;
    let what =
        Input { session, streams, selection: selection.clone(), concepts: &concepts, same_host: options.same_host };
    let mut reading = Reading::new(what.clone());
    let mut sink = OutputSink::open(options.output.as_deref(), &question.named.input.traces)?;
    if question.named.analyses.is_empty() {
        let text = list::list(&reading.concepts(), &concepts, format_of(options));
        return sink.print(text.as_bytes(), reporter.outcome());
    }
    question.check(&reading, &concepts, &reporter)?;
    let is_explained = no_events::explain_if_certain(&opened, &reporter);
    #[cfg_attr(not(feature = "debug-info"), expect(unused_mut, reason = "nothing is added"))]
    let mut asked = question.bind(&what, &reading, &reporter)?;
    #[cfg(feature = "debug-info")]
    if question.named.analyses.iter().any(|known| known.has_places(&asked)) {
        asked.places = Some(places::names(options, &opened, &reading, &reporter)?);
    }
    let unmatched = reading.watch_options(&asked);
    let of_each = question.named.analyses.iter().map(|known| asked_of(known, &asked, question.condition.as_ref()));
    let of_each = of_each.collect::<Result<Vec<(&Descriptor, AnalysisQuery)>, Error>>()?;
    let streamed = question.is_streamed().then(|| Rc::new(RefCell::new(rows::Streamed::new(format_of(options)))));
    let shown = progress::show(&question.named.input, &session.progress, false);
    let per = options.per.as_ref().map(|name| periods::find(name, what, &asked)).transpose()?;
    let analyses = match &per {
        Some(_) => Vec::new(),
        None => question.make(&of_each, streamed.as_ref()),
    };
    if let Some(streamed) = &streamed {
        let sink = std::mem::replace(&mut sink, OutputSink::stdout());
        let (known, asked) = &of_each[0];
        let columns = known.columns_for(asked);
        streamed.borrow_mut().begin(known.name, &columns, asked.machine_names.clone(), sink);
    }
    let mut stopped = false;
    let style = time_style(options, session);
    let mut wall = WallClock::new(style);
    let reporter = &mut reporter;
    let mut note = |note: Note| {
        let flow = report_note(note, reporter, &mut wall, session, streams);
        stopped |= flow.is_break();
        flow
    };
    let tables = match &per {
        Some(periods) => reading.run_per(periods, &of_each, &mut note),
        None => reading.run(analyses, &mut note),
    };
    drop(shown);
    let tables = tables?;
    if stopped {
        return Ok(Outcome::Nothing);
    }
    check_steps(&asked, &tables)?;
    let outcome = reporter.outcome();
    let is_empty = |table: &Table| match &streamed {
        Some(streamed) => streamed.borrow().is_empty(),
        None => table.states.as_ref().map_or(table.rows.is_empty(), StateRows::is_empty),
    };
    for unmatched in unmatched.borrow().iter() {
        reporter.warning(&empty::sentence(options, unmatched));
    }
    if !is_explained && unmatched.borrow().is_empty() && per.is_none() {
        let sentences = tables.iter().filter(|table| is_empty(table));
        let sentences = sentences.filter_map(|table| empty::nothing_fits(options, table.analysis));
        sentences.for_each(|sentence| reporter.warning(&sentence));
    }
    match streamed {
        Some(streamed) => streamed.borrow_mut().end(outcome),
        None => write(&question, &of_each, tables, sink, outcome, style),
    }
}

/// How times are shown, in rows as in losses: with the date where the traces are not of one day.
fn time_style(options: &AnalyzeOptions, session: &Session) -> TimeStyle {
    let style = TimeStyle { gmt: options.clock_gmt, seconds: options.clock_seconds, ..TimeStyle::default() };
    if options.clock_seconds {
        return style;
    }
    let (first, last) = ends(session, (true, true));
    let dated = TimeStyle { date: true, ..style };
    let mut wall = WallClock::new(dated);
    let mut day = |ns: Option<i128>| {
        let mut out = Out::default();
        wall.write(&mut out, ns.unwrap_or(0));
        out.written().split(|byte| *byte == b' ').next().map(<[u8]>::to_vec)
    };
    if first.is_some() && day(first) == day(last) { style } else { dated }
}

/// The clock of tables.
fn clock_of(style: TimeStyle) -> TableClock {
    if style.seconds {
        return TableClock::seconds();
    }
    let mut wall = WallClock::new(style);
    TableClock::written_by(Rc::new(RefCell::new(move |out: &mut Out, ns: i128| wall.write(out, ns))))
}

/// The table that ties events to concepts.
fn concepts_of(options: &AnalyzeOptions) -> Result<Concepts, Error> {
    let Some(path) = options.concepts.iter().flatten().next() else { return Ok(Concepts::built_in().clone()) };
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read the file", path, &error))?;
    Concepts::with_built_in(path, &text)
}

/// The question of the options, before the traces are known.
struct Question<'o> {
    options: &'o AnalyzeOptions,
    named: NamedAnalyses,
    asked: AnalysisQuery,
    definitions: Option<Definitions>,
    custom: Option<CustomDefinitions>,
    condition: Option<Expression>,
}

impl<'o> Question<'o> {
    fn from_options(options: &'o AnalyzeOptions) -> Result<Self, Error> {
        let mut named = choices::named(options)?;
        let words = choices::words(options, &named.analyses)?;
        choices::retain_supporting(options, &words, &mut named)?;
        let custom = custom::for_analyses(options.states.as_ref(), &named.analyses, &words)?;
        let asked = build_query(options, words)?;
        let definitions = periods::definitions(options, &named.analyses)?;
        let condition = parse_option(&options.choice.condition, Expression::parse, "--where")?;
        Ok(Question { options, named, asked, definitions, custom, condition })
    }

    /// Leaves out the analyses that the traces cannot feed, and says so, as of all that cannot be shown.
    fn check(&mut self, reading: &Reading<'_>, concepts: &Concepts, reporter: &Reporter) -> Result<(), Error> {
        let has = reading.concepts();
        let mut lacking = Vec::new();
        let lacks = |known: &&'static Descriptor| check(known, &self.asked, &has, concepts);
        self.named.analyses.retain(|known| lacks(known).map_err(|error| lacking.push(error)).is_ok());
        let last = if self.named.analyses.is_empty() { lacking.pop() } else { None };
        let lacking = lacking.iter().map(choices::left_out);
        self.named.left_out.iter().cloned().chain(lacking).for_each(|text| reporter.note(&text));
        if let Some(error) = last {
            return Err(error);
        }
        for known in &self.named.analyses {
            for (concept, what) in known.wants.iter().filter(|(concept, _)| !has.contains(concept)) {
                reporter.note(&format!("`{}` cannot tell {what}: the traces have no {}", known.name, concept.name()));
            }
        }
        if reading.has_strangers() {
            reporter.warning(
                &"several traces do not say of which machine they are: their CPUs and threads are kept apart; \
                  --same-host if they are of one",
            );
        }
        Ok(())
    }

    /// The question to these traces.
    fn bind(&self, what: &Input<'_>, reading: &Reading<'_>, reporter: &Reporter) -> Result<AnalysisQuery, Error> {
        let machine_names = reading.machine_names();
        let bind = |definitions| custom::bind(definitions, what.session, self.options.clock_gmt, reporter);
        Ok(AnalysisQuery {
            begin: what.selection.begin_ns,
            end: what.selection.end_ns,
            has_machines: machine_names.len() > 1,
            machine_names,
            custom: self.custom.as_ref().map(bind).transpose()?,
            periods: periods::bind(self.definitions.as_ref(), what, self.options)?,
            ..self.asked.clone()
        })
    }

    /// Are all rows shown in the order in which they are found?
    fn has_plain_rows(&self) -> bool {
        let AnalyzeOptions { rows, per, .. } = self.options;
        rows.sort.is_none() && rows.limit.is_none() && per.is_none()
    }

    /// Are rows written as they are found?
    fn is_streamed(&self) -> bool {
        self.named.is_single
            && matches!(format_of(self.options), AnalyzeFormat::Jsonl | AnalyzeFormat::Csv)
            && self.has_plain_rows()
            && (self.asked.view == View::Log || ["states", "timehist"].contains(&self.named.analyses[0].name))
    }

    /// The analyses.
    fn make(
        &self,
        of_each: &[(&Descriptor, AnalysisQuery)],
        streamed: Option<&Rc<RefCell<rows::Streamed>>>,
    ) -> Vec<Box<dyn Analysis>> {
        let rows = streamed.cloned().map(|streamed| -> RowSink {
            Rc::new(RefCell::new(move |row: &[Value<'_>]| streamed.borrow_mut().write_row(row)))
        });
        let states = streamed.cloned().map(|streamed| -> StateSink {
            Rc::new(RefCell::new(move |row: &StateRow| streamed.borrow_mut().put_state(row)))
        });
        // A table shows rows of `states` as they are, unless cells are asked for.
        let is_table = format_of(self.options) == AnalyzeFormat::Table;
        let keeps_states = is_table && self.condition.is_none() && self.has_plain_rows();
        let make = |(known, asked): &(&Descriptor, AnalysisQuery)| {
            (known.make)(&AnalysisQuery { sink: rows.clone(), states: states.clone(), keeps_states, ..asked.clone() })
        };
        of_each.iter().map(make).collect()
    }
}

/// Checks that there are not too many steps.
fn check_steps(asked: &AnalysisQuery, tables: &[Table]) -> Result<(), Error> {
    if let (Some(step), Some((begin, end))) = (asked.step, tables.iter().find_map(|table| table.range))
        && (end - begin) / step > MAX_STEPS.into()
    {
        let error = Error::misuse(format!("--step divides the range into more than {MAX_STEPS} steps"));
        return Err(error.with_help("take a longer step, or a part of the time with --begin and --end"));
    }
    Ok(())
}

/// Sorts tables and writes them.
fn write(
    question: &Question<'_>,
    of_each: &[(&Descriptor, AnalysisQuery)],
    mut tables: Vec<Table>,
    sink: OutputSink,
    outcome: Outcome,
    style: TimeStyle,
) -> Result<Outcome, Error> {
    let (options, is_single) = (question.options, question.named.is_single);
    let mut found = Vec::new();
    for table in &mut tables {
        if let Some(column) = &options.rows.sort
            && !table.sort_by(column)
        {
            let error = Error::misuse(format!("`{}` has no column `{column}`", table.analysis));
            let known: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
            return Err(suggest(error.with_help(format!("its columns are {}", known.join(", "))), column, known));
        }
        let rows = table.states.as_ref().map_or(table.rows.len(), StateRows::len);
        let count = table.found.map_or(rows, |found| found as usize);
        let of = of_each.iter().find(|(known, _)| known.name == table.analysis);
        let noun = of.map_or("rows", |(known, asked)| known.row_noun(asked));
        // An order of the rows is one of the list.
        let is_matrix = format_of(options) == AnalyzeFormat::Table && options.rows.sort.is_none();
        let matrix = if is_matrix { Matrix::of_table(table) } else { None };
        let limit = options.rows.limit.unwrap_or(usize::MAX);
        found.push(forms::FoundRows { count, noun, limit, matrix });
        table.rows.truncate(limit);
    }
    let mut page = rows::Paged::new(sink);
    match format_of(options) {
        AnalyzeFormat::Table if tables.is_empty() => page.out.put(b"nothing found\n"),
        AnalyzeFormat::Table => {
            forms::tables(&mut page, &tables, &found, is_single, &forms::style_of(options, clock_of(style)));
        }
        AnalyzeFormat::Json => rows::json(&mut page, &tables, is_single),
        AnalyzeFormat::Jsonl => rows::lines(&mut page, &tables, is_single),
        AnalyzeFormat::Csv => rows::csv(&mut page, &tables),
    }
    page.end(outcome)
}

fn format_of(options: &AnalyzeOptions) -> AnalyzeFormat {
    if options.json { AnalyzeFormat::Json } else { options.format }
}

/// The question that the options ask.
fn build_query(options: &AnalyzeOptions, mut words: Vec<FormWord>) -> Result<AnalysisQuery, Error> {
    words.extend(options.tree.then_some(FormWord::Tree));
    let numbers = |text: &Option<String>, option: &str| {
        let parse = |text: &str| {
            let wrong = || Error::misuse(format!("{option}: `{text}` is not a list of numbers such as 1,4-7"));
            Numbers::parse(text).ok_or_else(wrong)
        };
        text.as_deref().map(parse).transpose()
    };
    Ok(AnalysisQuery {
        by: options.rows.by.clone(),
        view: choices::view_of(options),
        step: options.rows.step.map(Into::into),
        tids: numbers(&options.choice.tid, "--tid")?,
        pids: numbers(&options.choice.pid, "--pid")?,
        comms: options.choice.comm.as_deref().map(Pattern::glob),
        cpus: numbers(&options.choice.cpu, "--cpu")?,
        min: options.choice.min,
        max: options.choice.max,
        words,
        has_periods: options.per.is_some(),
        ..AnalysisQuery::default()
    })
}

/// The question to one of the analyses.
fn asked_of<'k>(
    known: &'k Descriptor,
    asked: &AnalysisQuery,
    condition: Option<&Expression>,
) -> Result<(&'k Descriptor, AnalysisQuery), Error> {
    let mut asked = asked.clone();
    if let Some(condition) = condition {
        let bound = Condition::new(condition, known, &asked).map_err(|error| misuse_of("--where", error))?;
        asked.test = Some(Rc::new(bound));
    }
    Ok((known, asked))
}

/// Checks that the traces can feed an analysis.
fn check(known: &Descriptor, asked: &AnalysisQuery, has: &HashSet<Concept>, concepts: &Concepts) -> Result<(), Error> {
    let Some(group) = known.missing_for(asked, has).into_iter().next() else { return Ok(()) };
    let names: Vec<&str> = group.iter().map(|concept| concept.name()).collect();
    let message = format!("`{}` needs events of {}, and the traces have none", known.name, names.join(" or "));
    Err(Error::unsupported(message).with_help(list::how_to_record(group, concepts)))
}
