//! From batches of merged events to lines.

use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::Fault;
use tracemill_model::error::Error;
use tracemill_model::schema::{EventClassId, Schema, Scope};

use super::cells::CellTrace;
use super::csv::CsvTrace;
use super::text::{self, Before, LineTime, TextOptions, TextTrace};
use tracemill_codec::text::fields_json::{JsonTrace, ScopedFields};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;
use tracemill_engine::event::Event;
use tracemill_engine::filter::{Filter, Matcher, PathColumns};
use tracemill_engine::merge::Batch;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_semantics::CpuOf;

/// The form of lines.
#[derive(Clone)]
pub enum LineFormat {
    /// Text as `babeltrace2` prints it.
    Text(Arc<TextOptions>),
    /// Canonical JSON Lines.
    Jsonl,
    /// JSON Lines of which each is one flat object, with a member for each of these columns that the event has.
    FlatJsonl(PathColumns),
    /// CSV with these columns, or with the default ones.
    Csv(Option<PathColumns>),
}

/// Settings that the renderers of a print share.
pub struct LinePlan {
    /// Form.
    pub format: LineFormat,
    /// Streams, as the merger numbers them.
    pub streams: Vec<SelectedStream>,
    /// Filter on fields.
    pub filter: Option<Filter>,
    /// Is more than one trace read?
    pub many_traces: bool,
    /// Are the ends of lines wanted, to cut between them?
    pub with_ends: bool,
}

/// Lines of a batch.
#[derive(Default)]
pub struct Rendered {
    /// The lines.
    pub out: Out,
    /// Number of lines.
    pub lines: u64,
    /// End of each line, when wanted.
    pub ends: Vec<usize>,
    /// Where the time since the line before belongs in the first line that has a time, and that line's own time.
    pub hole: Option<(usize, LineTime)>,
    /// Time of the last line that has one.
    pub last: Option<LineTime>,
    /// Fields that could not be shown.
    pub faults: Vec<Error>,
}

/// Renders batches; one for each thread.
pub struct LineRenderer {
    plan: Arc<LinePlan>,
    traces: Vec<TracePrinter>,
    matcher: Option<Matcher>,
    /// For each trace whether its events need nothing but lines that sum them up: many of those are made at once.
    sums_up: Vec<bool>,
}

enum TracePrinter {
    Text(Box<TextTrace>),
    Json(Box<JsonLines>),
    Csv(Box<CsvTrace>),
    Cells(Box<CellTrace>),
}

impl LineRenderer {
    /// A renderer for the traces of a session.
    pub fn new(plan: Arc<LinePlan>, session: &Session) -> Self {
        let traces = session.traces.iter().enumerate().map(|(at, trace)| {
            let (schema, found_as) = (trace.schema.clone(), plan.many_traces.then_some(trace.name.as_str()));
            match &plan.format {
                LineFormat::Text(options) => TracePrinter::Text(Box::new(TextTrace::new(
                    options.clone(),
                    (at, schema),
                    &trace.own_name,
                    found_as,
                ))),
                LineFormat::Jsonl => TracePrinter::Json(Box::new(JsonLines::new(schema, found_as))),
                LineFormat::FlatJsonl(columns) => {
                    let cells = CellTrace::new(schema, &trace.name, columns);
                    TracePrinter::Cells(Box::new(cells.as_objects(plan.many_traces)))
                }
                LineFormat::Csv(None) => TracePrinter::Csv(Box::new(CsvTrace::new(schema, found_as))),
                LineFormat::Csv(Some(columns)) => {
                    TracePrinter::Cells(Box::new(CellTrace::new(schema, &trace.name, columns)))
                }
            }
        });
        let traces = traces.collect();
        let matcher = plan.filter.as_ref().map(Filter::matcher);
        let takes_all = matcher.is_none() && !plan.with_ends;
        let sums_up = session.traces.iter().map(|trace| {
            let has_untimed = trace.schema.events().iter().any(|class| class.is_untimed);
            takes_all && !has_untimed && trace.schema.summary.is_some()
        });
        let sums_up = sums_up.collect();
        LineRenderer { plan, traces, matcher, sums_up }
    }

    /// The lines of a batch.
    /// `rendered` may be an old one whose memory is used again.
    pub fn render(&mut self, batch: &Batch, rendered: Rendered) -> Rendered {
        let plan = self.plan.clone();
        let mut rendered = rendered.cleared();
        let mut before = Before::Elsewhere;
        for run in &batch.runs {
            let (stream, ready) = &batch.chunks[run.chunk as usize];
            let of = &plan.streams[stream.0 as usize];
            let printer = &mut self.traces[of.trace];
            let sums_up = self.sums_up[of.trace];
            let (mut next, to) = (run.from as usize, run.to as usize);
            while next < to {
                if sums_up && let TracePrinter::Text(text) = &mut *printer {
                    let count =
                        text.sum_up(&mut rendered.out, &ready.chunk, (next, to), of.clock.as_ref(), &mut before);
                    rendered.lines += count as u64;
                    next += count;
                    if next == to {
                        break;
                    }
                }
                let at = next;
                next += 1;
                let event = of.event(ready.chunk.event(at));
                if self.matcher.as_mut().is_some_and(|matcher| !matcher.matches(&event)) {
                    continue;
                }
                let Event { raw: event, ns, .. } = event;
                let line_start = rendered.out.len();
                let result = match printer {
                    TracePrinter::Text(text) => {
                        text.line(&mut rendered.out, of.index, event, ns, &mut before).map(|hole| {
                            if let (Some(hole), Some(ns)) = (hole, ns) {
                                rendered.hole = Some((hole, LineTime { ns, cycles: event.cycles() }));
                            }
                        })
                    }
                    TracePrinter::Json(json) => json.line(&mut rendered.out, of.index, event, ns),
                    TracePrinter::Csv(csv) => csv.line(&mut rendered.out, of.index, event, ns),
                    TracePrinter::Cells(cells) => cells.line(&mut rendered.out, of.index, event, ns),
                };
                if let Err(fault) = result {
                    rendered.out.truncate(line_start);
                    rendered.faults.push(fault_error(of, event, fault));
                    continue;
                }
                rendered.lines += 1;
                if plan.with_ends {
                    rendered.ends.push(rendered.out.len());
                }
            }
        }
        if let Before::At(last) = before {
            rendered.last = Some(last);
        }
        rendered
    }
}

/// The boundary pass has read every field, so this is a disagreement of ours (or a file that changed under us).
#[cold]
fn fault_error(of: &SelectedStream, event: EventRef<'_>, fault: Fault) -> Error {
    let packet = &event.chunk.packet.packet;
    Error::malformed(format!("an event changed while it was read: {}", fault.kind))
        .in_file(&of.stream.files[packet.file as usize].path)
        .at_bit(packet.offset_bytes * 8 + fault.at_bits)
        .in_packet(packet.index)
}

impl Rendered {
    fn cleared(mut self) -> Self {
        self.out.clear();
        self.ends.clear();
        Rendered { out: self.out, ends: self.ends, ..Rendered::default() }
    }

    /// The bytes in three parts with the time since the line before in the middle, now that it is known.
    pub fn parts<'a>(&'a self, before: Before, options: Option<&TextOptions>, middle: &'a mut Out) -> [&'a [u8]; 3] {
        let bytes = self.out.written();
        match (self.hole, options) {
            (Some((at, now)), Some(options)) => {
                text::put_delta(middle, options, now, before);
                [&bytes[..at], middle.written(), &bytes[at..]]
            }
            _ => [bytes, &[], &[]],
        }
    }
}

/// Prints events as JSON lines.
pub struct JsonLines {
    schema: Arc<Schema>,
    json: JsonTrace,
    /// `{"trace":"name",` or `{`.
    start: Vec<u8>,
    /// By class.
    heads: Vec<Option<LineHead>>,
    cpu: CpuOf,
    name: Vec<u8>,
}

/// The part of a line that the events of a class share.
#[derive(Clone)]
struct LineHead {
    /// From `,"name"` to `"stream"`.
    text: Vec<u8>,
    /// Are its cycles shown?
    has_cycles: bool,
    /// Has each event its own id and name?
    is_open: bool,
}

impl JsonLines {
    fn new(schema: Arc<Schema>, trace: Option<&str>) -> Self {
        let mut start = Out::default();
        start.put_byte(b'{');
        if let Some(name) = trace {
            start.put(b"\"trace\":");
            strings::put_json(&mut start, name.as_bytes());
            start.put_byte(b',');
        }
        let json = JsonTrace::new(schema.clone());
        let start = start.written().to_vec();
        let heads = vec![None; schema.events().len()];
        JsonLines { schema, json, start, heads, cpu: CpuOf::default(), name: Vec::new() }
    }

    fn line(&mut self, out: &mut Out, stream: usize, event: EventRef<'_>, ns: Option<i128>) -> Result<(), Fault> {
        out.put(&self.start);
        out.put(b"\"ns\":");
        match ns {
            Some(ns) => out.put_ns(ns),
            None => out.put(b"null"),
        }
        let at = event.class().0 as usize;
        let head = self.heads[at].get_or_insert_with(|| LineHead::new(&self.schema, event.class()));
        if head.has_cycles {
            out.put(b",\"cycles\":");
            out.put_u64(event.cycles());
        } else {
            out.put(b",\"cycles\":null");
        }
        if head.is_open {
            self.name.clear();
            let id = event.own_id(&mut self.name);
            out.put(b",\"name\":");
            strings::put_json(out, &self.name);
            out.put_fmt(format_args!(",\"id\":{}", id.unwrap_or_default()));
        }
        out.put(&head.text);
        if let Some(cpu) = self.cpu.cpu(stream, &event.chunk.packet) {
            out.put(b",\"cpu\":");
            out.put_u64(cpu);
        }
        let mut fields = ScopedFields::default();
        for (scope, key) in SCOPES {
            self.json.scope(out, stream, event, &mut fields, scope, key)?;
        }
        out.put(b"}\n");
        Ok(())
    }
}

impl LineHead {
    #[cold]
    fn new(schema: &Schema, class: EventClassId) -> Self {
        let (of, mut out) = (schema.event(class), Out::default());
        let is_open = of.open_ids.is_some();
        if !is_open {
            if let Some(name) = &of.name {
                out.put(b",\"name\":");
                strings::put_json(&mut out, name.as_bytes());
            }
            out.put_fmt(format_args!(",\"id\":{}", of.id));
        }
        let stream = schema.stream(of.stream);
        if !stream.has_no_id {
            out.put_fmt(format_args!(",\"stream\":{}", stream.id));
        }
        LineHead { text: out.written().to_vec(), has_cycles: schema.has_cycles(class), is_open }
    }
}

/// Scopes of a line with the text before each object.
const SCOPES: [(Scope, &[u8]); 5] = [
    (Scope::EventHeader, b",\"header\":"),
    (Scope::PacketContext, b",\"packet_context\":"),
    (Scope::CommonContext, b",\"stream_context\":"),
    (Scope::SpecificContext, b",\"event_context\":"),
    (Scope::Payload, b",\"payload\":"),
];
