//! `tracemill print`.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use tracemill_engine::filter::{ColumnList, Columns, Expression, Filter, FilterContext, Time, TimeContext};
use tracemill_engine::merge::{Note, StreamIndex};
use tracemill_engine::print::{Flow, Output, print};
use tracemill_engine::render::csv;
use tracemill_engine::render::lines::{LineFormat, LinePlan, Rendered};
use tracemill_engine::render::out::Out;
use tracemill_engine::render::text::{Before, HeaderFields, Names, TextOptions};
use tracemill_engine::render::time::{TimeStyle, WallClock};
use tracemill_engine::survey::ends;
use tracemill_engine::timeline::{self, Selection, StreamOf};
use tracemill_formats::ctf::uuid_text;
use tracemill_model::error::Error;
use tracemill_model::packet::{Gap, GapKind};

use super::open::{Opened, open};
use crate::args::{HeaderField, InputOptions, NameGroup, PrintFormat, PrintOptions, SelectOptions, When};
use crate::progress;
use crate::report::{Outcome, Reporter, Sink};

/// Prints the events of traces in the order of time.
pub(crate) fn run(options: &PrintOptions) -> Result<Outcome, Error> {
    if options.columns.is_some() && options.format != PrintFormat::Csv {
        return Err(Error::misuse("--columns is for --format csv"));
    }
    let typed = Typed::parse(&options.select, &options.columns)?;
    let Some(mut opened) = open(&options.input)? else { return Ok(Outcome::Nothing) };
    let wanted = typed.bind(&options.select, &options.input, options.clock_gmt, &opened)?;
    let streams = timeline::streams(&opened.session, &options.select.stream)?;
    // Only now that nothing is wrong with the options: this empties the file of `-o`.
    let mut sink = Sink::open(options.output.as_deref())?;
    let text = Arc::new(text_options(options));
    let many_traces = opened.session.traces.len() > 1;
    let plan = Arc::new(LinePlan {
        format: match options.format {
            PrintFormat::Text => LineFormat::Text(text.clone()),
            PrintFormat::Jsonl => LineFormat::Jsonl,
            PrintFormat::Csv => LineFormat::Csv(wanted.columns.clone()),
        },
        streams: streams.clone(),
        filter: wanted.filter,
        many_traces,
        with_ends: options.select.skip > 0 || options.select.limit.is_some(),
    });
    if options.format == PrintFormat::Csv {
        sink.write(&csv::header(wanted.columns.as_ref()))?;
    }
    let mut printer = LinePrinter {
        sink: &mut sink,
        reporter: &mut opened.reporter,
        text: (options.format == PrintFormat::Text).then_some(&*text),
        before: Before::Nothing,
        skip: options.select.skip,
        left: options.select.limit.unwrap_or(u64::MAX),
        failed: None,
        stopped: false,
        wall: WallClock::new(TimeStyle { date: true, ..text.time }),
        streams: &streams,
        traces: &opened.session,
    };
    let mut merger = timeline::merger(&opened.session, &streams, &wanted.selection);
    if printer.left > 0 {
        let has_lines = options.output.is_none();
        let _shown = progress::show(&options.input, &opened.session.progress, has_lines);
        print(&opened.session, &mut merger, &plan, opened.jobs, |output| printer.take(output));
    }
    let (failed, stopped) = (printer.failed.take(), printer.stopped);
    if options.format == PrintFormat::Text && text.color {
        // The peer ends a coloured text so.
        sink.write(b"\x1b[0m")?;
    }
    sink.flush()?;
    match failed {
        Some(error) => Err(error),
        None if sink.is_closed => Ok(Outcome::Done),
        None if stopped => Ok(Outcome::Nothing),
        None => Ok(opened.reporter.outcome()),
    }
}

/// What was typed in the little languages of the options; their mistakes are told before any trace is opened.
pub(super) struct Typed {
    expression: Option<Expression>,
    begin: Option<Time>,
    end: Option<Time>,
    columns: Option<ColumnList>,
}

impl Typed {
    pub(super) fn parse(select: &SelectOptions, columns: &Option<String>) -> Result<Self, Error> {
        Ok(Typed {
            expression: parse_option(&select.filter, Expression::parse, "--filter")?,
            begin: parse_option(&select.begin, Time::parse, "--begin")?,
            end: parse_option(&select.end, Time::parse, "--end")?,
            columns: parse_option(columns, ColumnList::parse, "--columns")?,
        })
    }
}

fn parse_option<T>(
    text: &Option<String>,
    parse: fn(&str) -> Result<T, Error>,
    option: &str,
) -> Result<Option<T>, Error> {
    text.as_deref().map(parse).transpose().map_err(|error| misuse_of(option, error))
}

/// What the options choose.
pub(super) struct Wanted {
    pub(super) selection: Selection,
    pub(super) filter: Option<Filter>,
    pub(super) columns: Option<Columns>,
}

impl Typed {
    pub(super) fn bind(
        self,
        select: &SelectOptions,
        input: &InputOptions,
        gmt: bool,
        opened: &Opened,
    ) -> Result<Wanted, Error> {
        let Typed { expression, begin, end, columns } = self;
        let in_option = |option: &'static str| move |error: Error| misuse_of(option, error);
        let needs = [
            expression.as_ref().map(Expression::needs),
            begin.as_ref().map(Time::needs),
            end.as_ref().map(Time::needs),
        ];
        let needs =
            needs.into_iter().flatten().fold((false, false), |sum, need| (sum.0 | need.first, sum.1 | need.last));
        let (first_ns, last_ns) = if needs == (false, false) { (None, None) } else { ends(&opened.session, needs) };
        let times = TimeContext { gmt, first_ns, last_ns };
        let resolve = |time: Option<Time>, text: &Option<String>, option| {
            let text = text.as_deref().unwrap_or_default();
            time.map(|time| time.resolve(text, &times)).transpose().map_err(in_option(option))
        };
        let begin_ns = resolve(begin, &select.begin, "--begin")?;
        let end_ns = resolve(end, &select.end, "--end")?;
        let context = FilterContext { session: &opened.session, gmt, first_ns, last_ns };
        let filter =
            expression.map(|expression| expression.bind(&context)).transpose().map_err(in_option("--filter"))?;
        let mut selection = Selection {
            begin_ns,
            end_ns,
            streams: select.stream.clone(),
            classes: Vec::new(),
            memory_bytes: input.memory.unwrap_or(0) / 2,
        };
        let mut filter = filter;
        if let Some(of_fields) = &filter {
            let traces = 0..opened.session.traces.len();
            selection.classes = traces.map(|trace| of_fields.classes(trace).map(Arc::new)).collect();
            if let Some((first, last)) = of_fields.time_range() {
                selection.begin_ns = Some(begin_ns.map_or(first, |ns| ns.max(first)));
                selection.end_ns = Some(end_ns.map_or(last, |ns| ns.min(last)));
            }
            if of_fields.is_decided_by_spine() {
                filter = None;
            }
        }
        let columns =
            columns.map(|columns| columns.bind(&opened.session)).transpose().map_err(in_option("--columns"))?;
        Ok(Wanted { selection, filter, columns })
    }
}

/// What is wrong in the text of an option is wrong usage.
fn misuse_of(option: &str, error: Error) -> Error {
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

fn text_options(options: &PrintOptions) -> TextOptions {
    let has = |group: NameGroup| options.names.contains(&group) || options.names.contains(&NameGroup::All);
    let names = if options.names.is_empty() {
        Names::default()
    } else {
        Names {
            payload: has(NameGroup::Payload),
            context: has(NameGroup::Context),
            scope: has(NameGroup::Scope),
            header: has(NameGroup::Header),
        }
    };
    let has = |field: HeaderField| options.fields.contains(&field) || options.fields.contains(&HeaderField::All);
    let fields = if options.fields.is_empty() {
        HeaderFields::default()
    } else {
        HeaderFields {
            trace: has(HeaderField::Trace),
            hostname: has(HeaderField::Hostname),
            domain: has(HeaderField::Domain),
            procname: has(HeaderField::Procname),
            vpid: has(HeaderField::Vpid),
            log_level: has(HeaderField::Loglevel),
            emf: has(HeaderField::Emf),
        }
    };
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    let color = match options.color {
        When::Always => true,
        When::Never => false,
        When::Auto => options.output.is_none() && !no_color && std::io::stdout().is_terminal(),
    };
    let time = TimeStyle {
        gmt: options.clock_gmt,
        date: options.clock_date,
        seconds: options.clock_seconds,
        cycles: options.clock_cycles,
    };
    TextOptions { names, fields, time, no_delta: options.no_delta, color }
}

/// Writes lines in order, says what is not a line, and counts.
struct LinePrinter<'a> {
    sink: &'a mut Sink,
    reporter: &'a mut Reporter,
    text: Option<&'a TextOptions>,
    before: Before,
    skip: u64,
    left: u64,
    failed: Option<Error>,
    stopped: bool,
    wall: WallClock,
    streams: &'a [StreamOf],
    traces: &'a tracemill_engine::session::Session,
}

impl LinePrinter<'_> {
    fn take(&mut self, output: Output<'_>) -> Flow {
        match output {
            Output::Lines(rendered) => self.lines(rendered),
            Output::Fault(error) | Output::Note(Note::Fault(error)) => {
                self.stopped = self.reporter.fault(&error);
                if self.stopped { Flow::Stop } else { Flow::Continue }
            }
            Output::Note(Note::Warning(error)) => {
                self.reporter.warning(&error);
                Flow::Continue
            }
            Output::Note(Note::Gap(stream, gap)) => {
                let text = self.gap(stream, &gap);
                self.reporter.loss(&text);
                Flow::Continue
            }
        }
    }

    fn lines(&mut self, rendered: &Rendered) -> Flow {
        let mut middle = Out::default();
        let parts = rendered.parts(self.before, self.text, &mut middle);
        if let Some(last) = rendered.last {
            self.before = Before::At(last);
        }
        let skipped = self.skip.min(rendered.lines);
        let taken = (rendered.lines - skipped).min(self.left);
        self.skip -= skipped;
        self.left -= taken;
        let inserted = parts[1].len();
        let hole = parts[0].len();
        let end_of = |lines: u64| match lines.checked_sub(1) {
            None => 0,
            Some(at) => {
                rendered.ends.get(at as usize).map_or(usize::MAX, |&end| end + if end > hole { inserted } else { 0 })
            }
        };
        let (from, to) = if skipped == 0 && taken == rendered.lines {
            (0, usize::MAX)
        } else {
            (end_of(skipped), end_of(skipped + taken))
        };
        let mut start = 0;
        let pieces = parts.map(|part| {
            start += part.len();
            clip(part, start - part.len(), from, to)
        });
        if let Err(error) = self.sink.write_parts(pieces) {
            self.failed = Some(error);
            return Flow::Stop;
        }
        if self.left == 0 || self.sink.is_closed { Flow::Stop } else { Flow::Continue }
    }

    /// A loss in words: what, how many, when, where.
    fn gap(&mut self, stream: StreamIndex, gap: &Gap) -> String {
        let of = &self.streams[stream.0 as usize];
        let trace = &self.traces.traces[of.trace];
        let thing = match gap.kind {
            GapKind::DiscardedEvents => "event",
            GapKind::LostPackets => "packet",
        };
        let count = match gap.count {
            None => format!("an unknown number of {thing}s"),
            Some(1) => format!("1 {thing}"),
            Some(count) => format!("{count} {thing}s"),
        };
        let verb = match gap.kind {
            GapKind::DiscardedEvents => "discarded by the tracer",
            GapKind::LostPackets => "lost",
        };
        let mut time = |cycles: Option<u64>| {
            let ns = of.clock.as_ref()?.ns(cycles?);
            let mut out = Out::default();
            self.wall.put(&mut out, ns);
            Some(String::from_utf8_lossy(out.written()).into_owned())
        };
        let when = match (time(gap.begin_cycles), time(gap.end_cycles)) {
            (Some(begin), Some(end)) => format!("between [{begin}] and [{end}]"),
            _ => "at an unknown time".to_string(),
        };
        let uuid = trace.schema.uuid.as_ref().map_or("no uuid".to_string(), |uuid| format!("uuid {}", uuid_text(uuid)));
        let class = trace.schema.stream(of.stream.class).id;
        let id = of.stream.id.map_or("no id".to_string(), |id| format!("id {id}"));
        format!(
            "{count} {verb} {when} in trace `{}` ({uuid}), stream `{}` (class {class}, {id})",
            trace.name, of.stream.name
        )
    }
}

/// The part of a piece that begins at `start` that lies in `from..to`.
fn clip(piece: &[u8], start: usize, from: usize, to: usize) -> &[u8] {
    let low = from.saturating_sub(start).min(piece.len());
    let high = to.saturating_sub(start).min(piece.len());
    &piece[low..high.max(low)]
}
