//! Events as rows: read again where they stand, and shown as `print` shows them.

use std::sync::Arc;

use serde_json::Value;
use tracemill_engine::merge::{Batch, Merger, Run};
use tracemill_engine::timeline::{Selection, merger, merger_from};
use tracemill_lod::{EventSet, Index};
use tracemill_render::lines::{LineFormat, LinePlan, LineRenderer, Rendered};

use crate::error::ApiError;
use crate::query::Asker;
use crate::state::TraceState;
use crate::titles::Titles;
use crate::traces::Traces;

/// An event that was read.
pub struct Row {
    /// Its number.
    pub event: usize,
    /// The line of `print --format jsonl`.
    pub json: String,
    /// The line as it is read again.
    pub value: Value,
    /// The payload as `print` shows it.
    pub text: String,
    /// What is shown for it instead of its name.
    pub title: Option<String>,
    /// Its time in cycles of its clock.
    pub cycles: Option<u64>,
    /// Where it stands.
    pub place: Place,
}

/// Where an event stands in its file.
pub struct Place {
    /// The path of the file.
    pub file: String,
    /// Its packet, counted in the stream.
    pub packet: u64,
    /// The byte of the file.
    pub byte: u64,
    /// The bit of that byte.
    pub bit: u64,
}

/// Events between two wanted ones that are read through, instead of beginning anew.
const THROUGH: usize = 32_768;
/// Events that are read at once.
const BATCH: usize = 4096;

/// Reads these events, which stand in their order. Without an index they are read from the first one on, as
/// far as there are some.
///
/// # Errors
/// When an event is not there any more.
pub fn read(state: &TraceState, index: Option<&Index>, events: &[usize]) -> Result<Vec<Row>, ApiError> {
    let mut rows = Vec::with_capacity(events.len());
    let mut reader: Option<Reader> = None;
    for event in events {
        let Some(row) = Reader::on(&mut reader, state, index, *event) else {
            if index.is_none() {
                break;
            }
            return Err(ApiError::new(404, "event", format!("event {event} is not there any more")));
        };
        rows.push(row);
    }
    Ok(rows)
}

pub(crate) struct Reader<'s> {
    state: &'s TraceState,
    merger: Merger,
    /// Does a filter leave out events that the merger gives?
    matcher: Option<tracemill_engine::filter::Matcher>,
    batch: Batch,
    run: usize,
    at: u32,
    /// Number of the next event.
    next: usize,
    json: LineRenderer,
    text: LineRenderer,
    titles: Titles,
}

impl<'s> Reader<'s> {
    /// The row of an event, by a reader that goes on from one to the next of them. `None` when it is not there any more.
    pub(crate) fn on(
        reader: &mut Option<Reader<'s>>,
        state: &'s TraceState,
        index: impl Into<Option<&'s Index>>,
        event: usize,
    ) -> Option<Row> {
        let is_near = reader.as_ref().is_some_and(|reader| event - reader.next < THROUGH);
        if !is_near {
            *reader = Some(Reader::new(state, index.into(), event, &Asker::default()));
        }
        reader.as_mut()?.read(event)
    }

    /// A reader that meets an event soon.
    fn new(state: &'s TraceState, index: Option<&Index>, event: usize, asker: &Asker) -> Self {
        let Traces { session, streams, selection, filter, .. } = &state.input.traces;
        let selection = Selection { jobs: 1, stop: Some(asker.flag()), ..selection.clone() };
        let (merger, next) = match index.and_then(|index| index.place_before(event)) {
            Some((places, next)) => (merger_from(session, streams, &selection, places), next),
            None => (merger(session, streams, &selection), 0),
        };
        let plan = |format| {
            let many_traces = session.traces.len() > 1;
            Arc::new(LinePlan { format, streams: streams.clone(), filter: None, many_traces, with_ends: false })
        };
        Reader {
            state,
            merger,
            matcher: filter.as_ref().map(tracemill_engine::filter::Filter::matcher),
            batch: Batch::default(),
            run: 0,
            at: 0,
            next,
            json: LineRenderer::new(plan(LineFormat::Jsonl), session),
            text: LineRenderer::new(plan(LineFormat::Text(Arc::default())), session),
            titles: Titles::default(),
        }
    }

    /// The next event that is not before one, alone in a batch.
    fn find(&mut self, event: usize) -> Option<Batch> {
        let streams = &self.state.input.traces.streams;
        loop {
            let Some(run) = self.batch.runs.get(self.run) else {
                self.batch = self.merger.next_batch(BATCH)?;
                (self.run, self.at) = (0, 0);
                continue;
            };
            let at = run.from + self.at;
            if at >= run.to {
                (self.run, self.at) = (self.run + 1, 0);
                continue;
            }
            self.at += 1;
            let (stream, ready) = &self.batch.chunks[run.chunk as usize];
            if let Some(matcher) = &mut self.matcher
                && !matcher.matches(&streams[stream.0 as usize].event(ready.chunk.event(at as usize)))
            {
                continue;
            }
            self.next += 1;
            if self.next <= event {
                continue;
            }
            let one = Run { chunk: 0, from: at, to: at + 1 };
            return Some(Batch {
                chunks: vec![(*stream, ready.clone())],
                runs: vec![one],
                events: 1,
                notes: Vec::new(),
            });
        }
    }

    fn read(&mut self, event: usize) -> Option<Row> {
        let one = self.find(event)?;
        let (stream, ready) = &one.chunks[0];
        let (of, at) = (&self.state.input.traces.streams[stream.0 as usize], one.runs[0].from as usize);
        let (packet, bits) = (&ready.chunk.packet.packet, ready.chunk.packet.recorded_bit(ready.chunk.body_bits(at)));
        let place = Place {
            file: of.stream.files[packet.file as usize].path.display().to_string(),
            packet: packet.index,
            byte: packet.offset_bytes + bits / 8,
            bit: bits % 8,
        };
        let cycles = of.clock.as_ref().map(|_| of.event(ready.chunk.event(at)).raw.cycles());
        let json = line(&mut self.json, &one);
        let text = payload(&line(&mut self.text, &one)).to_string();
        let value = serde_json::from_str(&json).unwrap_or(Value::Null);
        let class = ready.chunk.event(at).class();
        let title = self.titles.title(&self.state.input.traces.session, of.trace, class, &value);
        Some(Row { event, json, value, text, title, cycles, place })
    }
}

/// The line of an event.
fn line(renderer: &mut LineRenderer, one: &Batch) -> String {
    let rendered = renderer.render(one, Rendered::default());
    String::from_utf8_lossy(rendered.out.written()).trim_end_matches('\n').to_string()
}

/// Events that are read on before those of them are taken that were met last.
const BACK: usize = 1 << 16;

/// The next event whose line of text holds a text, whatever the case, or the previous one. `from` is not found itself: -1
/// is before all.
pub(crate) fn search(
    state: &TraceState,
    index: &Index,
    text: &str,
    from: i64,
    is_next: bool,
    set: Option<&EventSet>,
    asker: &Asker,
) -> Option<usize> {
    let text = text.to_lowercase();
    let find = |from: usize, to: usize, is_next: bool| {
        let mut reader = Reader::new(state, Some(index), from, asker);
        let (mut event, mut last) = (from, None);
        while event < to && !asker.is_over(&state.progress) {
            let one = reader.find(event)?;
            if set.is_none_or(|set| set.has(event)) && line(&mut reader.text, &one).to_lowercase().contains(&text) {
                last = Some(event);
                if is_next {
                    break;
                }
            }
            event += 1;
        }
        last
    };
    if is_next {
        return find((from + 1).max(0) as usize, index.events(), true);
    }
    let mut to = usize::try_from(from).unwrap_or(0).min(index.events());
    while to > 0 {
        let first = to.saturating_sub(BACK);
        if asker.is_over(&state.progress) {
            return None;
        }
        if let Some(event) = find(first, to, false) {
            return Some(event);
        }
        to = first;
    }
    None
}

/// The last group of fields of a line of text, without its braces.
fn payload(line: &str) -> &str {
    let (mut depth, mut is_quoted, mut is_escaped, mut last) = (0, false, false, None);
    for (at, sign) in line.char_indices() {
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '{' => {
                if depth == 0 {
                    last = Some((at + 1, line.len()));
                }
                depth += 1;
            }
            '}' => {
                depth = (depth - 1).max(0);
                if depth == 0
                    && let Some((from, to)) = &mut last
                    && *to == line.len()
                {
                    *to = at.max(*from);
                }
            }
            _ => {}
        }
    }
    last.map_or("", |(from, to)| line[from..to].trim())
}

/// Every single value of a line: its path and text, and what kind of value it is.
pub fn fields(line: &Value) -> Vec<(String, String, &'static str)> {
    const SCOPES: [&str; 5] = ["header", "packet_context", "stream_context", "event_context", "payload"];
    let mut fields = Vec::new();
    for scope in SCOPES {
        if let Some(Value::Object(members)) = line.get(scope) {
            members.iter().for_each(|(name, value)| put_fields(&format!("{scope}.{name}"), value, &mut fields));
        }
    }
    fields
}

fn put_fields(path: &str, value: &Value, out: &mut Vec<(String, String, &'static str)>) {
    let mut put = |text: String, kind| out.push((path.to_string(), text, kind));
    match value {
        Value::Null => put("null".to_string(), "null"),
        Value::Bool(value) => put(value.to_string(), "boolean"),
        Value::Number(number) => {
            let text = number.to_string();
            let kind = if text.contains(['.', 'e', 'E']) { "real" } else { "integer" };
            put(text, kind);
        }
        Value::String(text) => put(text.clone(), "string"),
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(at, element)| put_fields(&format!("{path}[{at}]"), element, out));
        }
        Value::Object(members) => {
            let labels = ["labels", "flags"].into_iter().find_map(|name| Some((name, members.get(name)?.as_array()?)));
            match (members.get("value"), labels) {
                (Some(Value::Number(number)), Some((_, labels))) => {
                    let labels: Vec<&str> = labels.iter().filter_map(Value::as_str).collect();
                    let text =
                        if labels.is_empty() { number.to_string() } else { format!("{} ({number})", labels.join(" ")) };
                    put(text, "enumeration");
                }
                _ => members.iter().for_each(|(name, value)| put_fields(&format!("{path}.{name}"), value, out)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_the_last_group() {
        assert_eq!(payload(r#"[1] n: { cpu_id = 0 }, { a = "}{", b = { c = 1 } }"#), r#"a = "}{", b = { c = 1 }"#);
        assert_eq!(payload(r#"n: { cpu_id = 0 }, { a = "\"}" }"#), r#"a = "\"}""#);
        assert_eq!((payload("n: { }"), payload("n"), payload("}{"), payload("{")), ("", "", "", ""));
    }

    #[test]
    fn fields_are_single_values() {
        let line =
            r#"{"payload":{"a":[1,{"b":null}],"e":{"value":3,"labels":["X","Y"]},"f":{"value":4,"flags":[]},"t":"x"}}"#;
        let fields = fields(&serde_json::from_str(line).unwrap());
        let texts: Vec<String> = fields.iter().map(|(path, text, _)| format!("{path}={text}")).collect();
        assert_eq!(texts, ["payload.a[0]=1", "payload.a[1].b=null", "payload.e=X Y (3)", "payload.f=4", "payload.t=x"]);
    }
}
