//! Events as rows: read again where they stand, and shown as `print` shows them.

use std::sync::Arc;

use tracemill_engine::merge::Batch;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::timeline::Selection;
use tracemill_engine::walk::Walker;
use tracemill_lod::{EventSet, Index};
use tracemill_render::lines::{LineFormat, LinePlan, LineRenderer, Rendered};
use tracemill_semantics::CpuOf;

use crate::error::ApiError;
use crate::fields::{FieldAnswer, fields};
use crate::query::Asker;
use crate::state::TraceState;
use crate::titles::Titles;
use crate::traces::ShownTraces;

/// An event that was read, and how it is shown.
pub struct Row {
    /// Its number.
    pub event: usize,
    /// Its time in ns.
    pub ns: Option<i128>,
    /// Its name, when it has one.
    pub name: Option<String>,
    /// The name of its stream.
    pub stream_name: String,
    /// The CPU of its packet.
    pub cpu: Option<u64>,
    /// Its single values.
    pub fields: Vec<FieldAnswer>,
    /// The payload as `print` shows it.
    pub text: String,
    /// The line of `print --format jsonl`, when it was asked for.
    pub json: Option<String>,
    /// The title that is shown for it instead of its name.
    pub title: Option<String>,
    /// Its time in cycles of its clock.
    pub cycles: Option<u64>,
    /// Where it stands.
    pub place: RowPlace,
}

/// Where an event stands in its file.
pub struct RowPlace {
    /// The path of the file.
    pub file: String,
    /// Its packet, counted in the stream.
    pub packet: u64,
    /// The byte of the file.
    pub byte: u64,
    /// The bit of that byte.
    pub bit: u64,
}

/// Events between two wanted ones that are read through, instead of starting over.
const THROUGH: usize = 32_768;

/// Reads these events, which stand in their order. Without an index they are read from the first one on, as
/// far as there are some. `with_json`: also as lines of JSON.
///
/// # Errors
/// When an event is not there any more.
pub fn read(
    state: &TraceState,
    index: Option<&Index>,
    events: &[usize],
    with_json: bool,
) -> Result<Vec<Row>, ApiError> {
    let mut rows = Vec::with_capacity(events.len());
    let mut reader: Option<RowReader> = None;
    for event in events {
        let Some(row) = RowReader::on(&mut reader, state, index, *event, with_json) else {
            if index.is_none() {
                break;
            }
            return Err(ApiError::new(404, "event", format!("event {event} is not there any more")));
        };
        rows.push(row);
    }
    Ok(rows)
}

pub(crate) struct RowReader<'s> {
    state: &'s TraceState,
    walker: Walker<&'s [SelectedStream]>,
    json: LineRenderer,
    text: LineRenderer,
    titles: Titles,
    cpus: CpuOf,
}

impl<'s> RowReader<'s> {
    /// The row of an event, by a reader that goes on from one to the next of them. `None` when it is not there any more.
    pub(crate) fn on(
        reader: &mut Option<RowReader<'s>>,
        state: &'s TraceState,
        index: impl Into<Option<&'s Index>>,
        event: usize,
        with_json: bool,
    ) -> Option<Row> {
        let is_near = reader.as_ref().is_some_and(|reader| event - reader.walker.number() < THROUGH);
        if !is_near {
            *reader = Some(RowReader::new(state, index.into(), event, &Asker::default()));
        }
        reader.as_mut()?.read(event, with_json)
    }

    /// A reader that meets an event soon.
    fn new(state: &'s TraceState, index: Option<&Index>, event: usize, asker: &Asker) -> Self {
        let ShownTraces { session, streams, selection, filter, .. } = &state.input.traces;
        let selection = Selection { jobs: 1, stop: Some(asker.flag()), ..selection.clone() };
        let checkpoint = index.and_then(|index| index.place_before(event));
        let plan = |format| {
            let many_traces = session.traces.len() > 1;
            Arc::new(LinePlan { format, streams: streams.clone(), filter: None, many_traces, with_ends: false })
        };
        RowReader {
            state,
            walker: Walker::from_checkpoint(session, streams, &selection, filter.as_ref(), checkpoint),
            json: LineRenderer::new(plan(LineFormat::Jsonl), session),
            text: LineRenderer::new(plan(LineFormat::Text(Arc::default())), session),
            titles: Titles::default(),
            cpus: CpuOf::default(),
        }
    }

    /// The next event that is not before one, alone in a batch.
    fn find(&mut self, event: usize) -> Option<Batch> {
        if !self.walker.seek(event) {
            return None;
        }
        let position = self.walker.next_event()?;
        Some(self.walker.batch_of(position))
    }

    fn read(&mut self, event: usize, with_json: bool) -> Option<Row> {
        let one = self.find(event)?;
        let (stream, ready) = &one.chunks[0];
        let (of, at) = (&self.state.input.traces.streams[stream.0 as usize], one.runs[0].from as usize);
        let (packet, bits) = (&ready.chunk.packet.packet, ready.chunk.packet.recorded_bit(ready.chunk.body_bits(at)));
        let place = RowPlace {
            file: of.stream.files[packet.file as usize].path.display().to_string(),
            packet: packet.index,
            byte: packet.offset_bytes + bits / 8,
            bit: bits % 8,
        };
        let shown = of.event(ready.chunk.event(at));
        let mut storage = Vec::new();
        let name = shown.name(&mut storage).map(|name| String::from_utf8_lossy(name).into_owned());
        let fields = fields(shown.raw);
        let session = &self.state.input.traces.session;
        let title = self.titles.title(session, of.trace, shown.raw.class(), (name.as_deref(), &fields));
        Some(Row {
            event,
            ns: shown.ns,
            name,
            stream_name: of.stream.name.clone(),
            cpu: self.cpus.cpu(stream.0 as usize, &ready.chunk.packet),
            fields,
            text: payload(&line(&mut self.text, &one)).to_string(),
            json: with_json.then(|| line(&mut self.json, &one)),
            title,
            cycles: of.clock.as_ref().map(|_| shown.raw.cycles()),
            place,
        })
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
        let mut reader = RowReader::new(state, Some(index), from, asker);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_the_last_group() {
        assert_eq!(payload(r#"[1] n: { cpu_id = 0 }, { a = "}{", b = { c = 1 } }"#), r#"a = "}{", b = { c = 1 }"#);
        assert_eq!(payload(r#"n: { cpu_id = 0 }, { a = "\"}" }"#), r#"a = "\"}""#);
        assert_eq!((payload("n: { }"), payload("n"), payload("}{"), payload("{")), ("", "", "", ""));
    }
}
